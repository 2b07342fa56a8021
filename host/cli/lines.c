/* lines.c - reading a stream line by line with a bound on what one line may take. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"

/* Room for one more byte and a NUL. */
static bool has_room(cdz_cli_lines *lines)
{
    if (lines->len + 1 < lines->cap) return true;
    const size_t cap = lines->cap ? lines->cap * 2 : 4096;
    char *grown = realloc(lines->line, cap);
    if (!grown) return false;
    lines->line = grown;
    lines->cap = cap;
    return true;
}

static cdz_status end_of_stream(cdz_cli_lines *lines, bool *some, cdz_error *err)
{
    if (ferror(lines->in))
        return cdz_err(err, CDZ_E_IO, "%s: line %llu cannot be read: %s", lines->name,
                       (unsigned long long)lines->number, strerror(errno));
    *some = lines->len > 0;
    return CDZ_OK;
}

cdz_status cdz_cli_next_line(cdz_cli_lines *lines, bool *some, cdz_error *err)
{
    const size_t max = lines->max ? lines->max : CDZ_CLI_LINE_BYTES;
    cdz_status status = CDZ_OK;
    lines->len = 0;
    lines->number++;
    *some = true;
    flockfile(lines->in);
    while (status == CDZ_OK) {
        if (!has_room(lines)) {
            status = cdz_err(err, CDZ_E_NOMEM, "%s: out of memory for line %llu", lines->name,
                             (unsigned long long)lines->number);
            break;
        }
        const int c = getc_unlocked(lines->in);
        if (c == EOF) {
            status = end_of_stream(lines, some, err);
            break;
        }
        lines->ended = c == '\n';
        if (lines->ended) break;
        if (lines->len == max)
            status = cdz_err(err, CDZ_E_LIMIT, "%s: line %llu is longer than the limit of %zu bytes",
                             lines->name, (unsigned long long)lines->number, max);
        else
            lines->line[lines->len++] = (char)c;
    }
    funlockfile(lines->in);
    if (lines->line) lines->line[lines->len] = '\0';
    return status;
}
