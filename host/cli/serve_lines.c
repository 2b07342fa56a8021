/* serve_lines.c - what `cadenza serve` writes: lines of its log, and at a terminal one line below them that tells its load. */
#include "cli/serve_lines.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"

void cdz_cli_live_begin(cdz_cli_live *l)
{
    *l = (cdz_cli_live){.terminal = isatty(STDERR_FILENO) != 0};
    cdz_mutex_init(&l->lock);
}

/* The load makes room for a line; the next second writes it again. The lock is held. */
static void erase(cdz_cli_live *l)
{
    cdz_assert_holds(&l->lock);
    if (l->shown) fputs("\r\033[K", stderr);
    l->shown = false;
}

void cdz_cli_live_line(cdz_cli_live *l, const char *line, bool json)
{
    cdz_mutex_lock(&l->lock);
    erase(l);
    if (json)
        fprintf(stderr, "%s\n", line); /* its control bytes are escaped */
    else
        cdz_cli_say("%s", line);
    cdz_mutex_unlock(&l->lock);
}

void cdz_cli_live_second(cdz_cli_live *l, cdz_cli_load now)
{
    const double at = cdz_now_s();
    if (!l->terminal) return;
    cdz_mutex_lock(&l->lock);
    const double made = (double)(now.tokens - l->tokens), took = at - l->at;
    fprintf(stderr, "\r%u running, %u waiting, %.1f tokens/s, %.0f MiB\033[K", now.running,
            now.waiting, l->at > 0 && took > 0 ? made / took : 0, (double)now.memory / 1048576);
    l->shown = true;
    l->tokens = now.tokens;
    l->at = at;
    cdz_mutex_unlock(&l->lock);
}

void cdz_cli_live_end(cdz_cli_live *l)
{
    cdz_mutex_lock(&l->lock);
    erase(l);
    cdz_mutex_unlock(&l->lock);
    cdz_mutex_destroy(&l->lock);
}
