/* chat_line.c - one message at a time, from a terminal with editing or from a pipe. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef CADENZA_HAVE_EDIT
#include <histedit.h>
#endif

#include "cli/chat.h"
#include "cli/cli.h"
#include "cli/printable.h"

struct cdz_line_reader {
    const char *prompt, *shown; /* "> ", and what is shown now: that or the continuation mark */
    cdz_buf message;
    cdz_cli_lines lines;
    bool terminal;
    char mark; /* 0: nothing is completed */
    const char *const *names;
    size_t n_names;
    cdz_status status; /* of the last reading; err says why */
    cdz_error err;
#ifdef CADENZA_HAVE_EDIT
    EditLine *edit;
    History *history;
    HistEvent event;
#endif
};

static const char more[] = ". ";

#ifdef CADENZA_HAVE_EDIT
static char *show_prompt(EditLine *edit)
{
    cdz_line_reader *reader = NULL;
    el_get(edit, EL_CLIENTDATA, &reader);
    static char text[64]; /* libedit wants a char * */
    snprintf(text, sizeof text, "%s", reader ? reader->shown : "");
    return text;
}

/* What the names that begin like the len letters have in common beyond them. */
static size_t common_rest(const cdz_line_reader *r, const char *start, size_t len, const char **name)
{
    size_t rest = 0;
    *name = NULL;
    for (size_t i = 0; i < r->n_names; i++) {
        const char *here = r->names[i];
        if (strncmp(here, start, len) != 0) continue;
        if (!*name) {
            *name = here;
            rest = strlen(here) - len;
        }
        size_t same = 0;
        while (same < rest && here[len + same] == (*name)[len + same]) same++;
        rest = same;
    }
    return rest;
}

/* Tab, in the first word of a command. */
static unsigned char complete(EditLine *edit, int key)
{
    (void)key;
    cdz_line_reader *reader = NULL;
    char text[64];
    const char *name;
    el_get(edit, EL_CLIENTDATA, &reader);
    const LineInfo *line = el_line(edit);
    const size_t len = (size_t)(line->cursor - line->buffer);
    if (!reader || !reader->mark || len == 0 || line->buffer[0] != reader->mark ||
        memchr(line->buffer, ' ', len) || line->cursor != line->lastchar)
        return CC_ERROR;
    const size_t rest = common_rest(reader, line->buffer + 1, len - 1, &name);
    if (!name || rest >= sizeof text) return CC_ERROR;
    snprintf(text, sizeof text, "%.*s", (int)rest, name + len - 1);
    if (rest == 0 || el_insertstr(edit, text) < 0) return CC_ERROR;
    return CC_REFRESH;
}

static void open_editor(cdz_line_reader *reader)
{
    reader->edit = el_init("cadenza", stdin, cdz_printable_terminal(), stderr);
    reader->history = history_init();
    if (!reader->edit || !reader->history) return;
    history(reader->history, &reader->event, H_SETSIZE, 1000);
    el_set(reader->edit, EL_CLIENTDATA, reader);
    el_set(reader->edit, EL_PROMPT, show_prompt);
    el_set(reader->edit, EL_EDITOR, "emacs");
    el_set(reader->edit, EL_HIST, history, reader->history);
    el_set(reader->edit, EL_SIGNAL, 0);
    el_set(reader->edit, EL_ADDFN, "complete", "complete a command", complete);
    el_set(reader->edit, EL_BIND, "^I", "complete", NULL);
}
#endif

cdz_line_reader *cdz_line_reader_new(const char *prompt)
{
    cdz_line_reader *reader = calloc(1, sizeof *reader);
    if (!reader) return NULL;
    reader->prompt = prompt;
    reader->lines = (cdz_cli_lines){.in = stdin, .name = "standard input"};
    reader->terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
#ifdef CADENZA_HAVE_EDIT
    if (reader->terminal) open_editor(reader);
#endif
    return reader;
}

void cdz_line_reader_free(cdz_line_reader *reader)
{
    if (!reader) return;
#ifdef CADENZA_HAVE_EDIT
    if (reader->edit) el_end(reader->edit);
    if (reader->history) history_end(reader->history);
#endif
    cdz_buf_free(&reader->message);
    free(reader->lines.line);
    free(reader);
}

void cdz_line_reader_ask(cdz_line_reader *reader, const char *prompt)
{
    reader->prompt = prompt;
}

void cdz_line_reader_complete(cdz_line_reader *reader, char mark, const char *const *names, size_t n)
{
    reader->mark = mark;
    reader->names = names;
    reader->n_names = n;
}

/* One line without its newline, or NULL at the end. */
static const char *read_line(cdz_line_reader *reader, size_t *len)
{
#ifdef CADENZA_HAVE_EDIT
    if (reader->edit && reader->history) {
        int n;
        const char *text = el_gets(reader->edit, &n);
        if (!text || n <= 0) return NULL;
        if (strspn(text, " \n") != (size_t)n)
            history(reader->history, &reader->event, H_ENTER, text);
        *len = (size_t)n - (text[n - 1] == '\n');
        return text;
    }
#endif
    if (reader->terminal) {
        fputs(reader->shown, stdout);
        fflush(stdout);
    }
    bool some;
    reader->status = cdz_cli_next_line(&reader->lines, &some, &reader->err);
    if (reader->status != CDZ_OK || !some) return NULL;
    *len = reader->lines.len;
    return reader->lines.line;
}

static bool is_quotes(const char *line, size_t len)
{
    return len == 3 && memcmp(line, "\"\"\"", 3) == 0;
}

/* Adds to the message, which is bounded as a line is. */
static void add(cdz_line_reader *reader, const char *text, size_t len)
{
    if (reader->message.len + len <= CDZ_CLI_LINE_BYTES)
        cdz_buf_add(&reader->message, text, len);
    else if (reader->status == CDZ_OK)
        reader->status =
            cdz_err(&reader->err, CDZ_E_LIMIT,
                    "standard input: the message that ends in line %llu is longer than the limit of "
                    "%zu bytes",
                    (unsigned long long)reader->lines.number, CDZ_CLI_LINE_BYTES);
}

static const char *whole_message(cdz_line_reader *reader)
{
    if (reader->status == CDZ_OK && reader->message.failed)
        reader->status = cdz_err_memory(&reader->err, "the message");
    return reader->status == CDZ_OK ? reader->message.data : NULL;
}

cdz_status cdz_line_reader_status(const cdz_line_reader *reader, cdz_error *err)
{
    if (reader->status != CDZ_OK && err) *err = reader->err;
    return reader->status;
}

/* The lines of a block, up to the closing quotes or the end. */
static void read_block(cdz_line_reader *reader)
{
    size_t len;
    for (const char *line; (line = read_line(reader, &len)) != NULL && !is_quotes(line, len);) {
        if (reader->message.len) add(reader, "\n", 1);
        add(reader, line, len);
        if (reader->status != CDZ_OK) return;
    }
}

const char *cdz_line_reader_next(cdz_line_reader *reader)
{
    size_t len;
    cdz_buf_clear(&reader->message);
    cdz_buf_add(&reader->message, "", 0);
    reader->shown = reader->prompt;
    const char *line = read_line(reader, &len);
    if (!line) return NULL;
    reader->shown = more;
    if (is_quotes(line, len)) {
        read_block(reader);
        return whole_message(reader);
    }
    while (line && len && line[len - 1] == '\\' && reader->status == CDZ_OK) {
        add(reader, line, len - 1);
        add(reader, "\n", 1);
        line = read_line(reader, &len);
    }
    if (line) add(reader, line, len);
    return whole_message(reader);
}
