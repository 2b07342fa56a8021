/* help.c - a page as text: the short help, which fits a screen, and all of it. See flags.h. */
#include <string.h>

#include "cli/cli.h"
#include "cli/flags.h"

enum { WIDTH = 96, COLUMN = 30, VERBS = 20 };

void cdz_cli_put_dashed(cdz_buf *out, const char *name)
{
    for (; *name; name++) cdz_buf_putc(out, *name == '_' ? '-' : *name);
}

static size_t column_of(const cdz_buf *out)
{
    size_t n = 0;
    while (n < out->len && out->data[out->len - 1 - n] != '\n') n++;
    return n;
}

static void pad_to(cdz_buf *out, size_t column)
{
    for (size_t at = column_of(out); at < column; at++) cdz_buf_putc(out, ' ');
}

void cdz_cli_put_wrapped(cdz_buf *out, const char *text, size_t column)
{
    for (const char *word = text; *word && !out->failed;) {
        const size_t len = strcspn(word, " \n"), at = column_of(out);
        if (word != text && word[-1] == ' ' && at > column && at + 1 + len > WIDTH)
            cdz_buf_putc(out, '\n');
        else if (word != text && word[-1] == ' ' && at > column)
            cdz_buf_putc(out, ' ');
        pad_to(out, len ? column : 0);
        cdz_buf_add(out, word, len);
        word += len;
        if (*word == '\n') cdz_buf_putc(out, '\n');
        word += *word != '\0';
    }
}

/* A row: what is typed, then its help from the column on; in the short help what stands before the first semicolon. */
static void put_help(cdz_buf *out, const char *help, bool all)
{
    const char *semicolon = all ? NULL : strstr(help, "; ");
    if (column_of(out) + 2 > COLUMN) cdz_buf_putc(out, '\n');
    pad_to(out, COLUMN);
    if (semicolon)
        cdz_buf_add(out, help, (size_t)(semicolon - help));
    else
        cdz_cli_put_wrapped(out, help, COLUMN);
    cdz_buf_putc(out, '\n');
}

static void put_flag(cdz_buf *out, const cdz_flag *flag, bool all)
{
    if (flag->letter)
        cdz_buf_printf(out, "  -%c, --%s", flag->letter, flag->name);
    else
        cdz_buf_printf(out, "      --%s", flag->name);
    if (flag->value) cdz_buf_printf(out, " %s", flag->value);
    put_help(out, flag->help, all);
}

static void put_parameter(cdz_buf *out, const cdz_parameter_flag *p, bool all)
{
    cdz_buf_puts(out, "      --");
    cdz_cli_put_dashed(out, p->name);
    if (p->value)
        cdz_buf_printf(out, " %s", p->value);
    else if (p->words)
        cdz_buf_printf(out, "[=%s]", p->words);
    put_help(out, p->help, all);
}

static void put_often(const cdz_page *page, cdz_buf *out)
{
    cdz_parameter_flag p;
    if (!(page->takes & CDZ_SHOWS_PARAMETERS)) {
        cdz_buf_puts(
            out, "\nEvery generation parameter is an option, too: --do-sample --temperature 0.7\n");
        return;
    }
    cdz_buf_puts(out, "\nCommon parameters; every other generation parameter is an option, too:\n");
    for (uint32_t i = 0; cdz_parameter_flag_often(i, &p); i++) put_parameter(out, &p, false);
}

static void put_parameters(const cdz_page *page, cdz_buf *out)
{
    cdz_parameter_flag p;
    cdz_buf_puts(
        out, "\nGeneration parameters (--do-sample, --no-do-sample or --do-sample=no; `cadenza help "
             "NAME`):\n");
    for (uint32_t i = 0; cdz_parameter_flag_at(i, &p); i++)
        if (!cdz_page_has_option(page, p.name)) put_parameter(out, &p, true);
}

static void put_habits(const cdz_page *page, cdz_buf *out)
{
    const cdz_habit *habit;
    const cdz_flag *flag;
    bool any = false;
    for (size_t i = 0; (habit = cdz_page_habit(page, &i, &flag)) != NULL; any = true) {
        if (!any) cdz_buf_puts(out, "\nNames of other programs:\n");
        cdz_buf_printf(out, "%s%s ", habit->name[1] ? "      --" : "  -", habit->name);
        pad_to(out, COLUMN);
        cdz_buf_puts(out, "--");
        cdz_cli_put_dashed(out, habit->ours);
        if (habit->from) cdz_buf_printf(out, " (%s)", habit->from);
        cdz_buf_putc(out, '\n');
    }
}

/* Commands that have many options mark those which the short help shows. */
static bool shows_all_own(const cdz_page *page)
{
    for (size_t i = 0; i < cdz_page_n_own(page); i++)
        if (page->flags[i].traits & CDZ_FLAG_OFTEN) return false;
    return true;
}

static void put_flags(const cdz_page *page, bool all, cdz_buf *out)
{
    const bool own = shows_all_own(page);
    const size_t n = cdz_page_n_own(page);
    const cdz_flag *flag;
    if (!all) cdz_buf_putc(out, '\n');
    for (size_t i = 0; (flag = cdz_page_flag(page, i)) != NULL; i++) {
        const char *title = cdz_page_title(page, i);
        if (all && title) cdz_buf_printf(out, "\n%s:\n", title);
        if (all || (i < n && own) || (flag->traits & CDZ_FLAG_OFTEN)) put_flag(out, flag, all);
    }
}

static void put_usage(const cdz_page *page, cdz_buf *out)
{
    const char *head = "usage: ";
    for (const char *line = page->usage; *line; head = "       ") {
        const size_t len = strcspn(line, "\n");
        cdz_buf_printf(out, "%scadenza %.*s\n", head, (int)len, line);
        line += len + (line[len] == '\n');
    }
}

static void put_verbs(const cdz_page *page, cdz_buf *out)
{
    if (!page->verbs) return;
    cdz_buf_putc(out, '\n');
    for (const cdz_verb *verb = page->verbs; verb->name; verb++) {
        cdz_buf_printf(out, "  %s", verb->name);
        pad_to(out, VERBS);
        cdz_cli_put_wrapped(out, verb->help, VERBS);
        cdz_buf_putc(out, '\n');
    }
}

void cdz_page_help(const cdz_page *page, bool all, cdz_buf *out)
{
    put_usage(page, out);
    cdz_buf_putc(out, '\n');
    cdz_cli_put_wrapped(out, page->about, 0);
    cdz_buf_putc(out, '\n');
    put_verbs(page, out);
    put_flags(page, all, out);
    if (page->takes & CDZ_TAKES_GENERATION && all) put_parameters(page, out);
    if (page->takes & CDZ_TAKES_GENERATION && !all) put_often(page, out);
    if (all) put_habits(page, out);
    if (all && page->more_title) cdz_buf_printf(out, "\n%s:\n", page->more_title);
    if (all && page->more) cdz_buf_puts(out, page->more);
    if (all && page->write_more) page->write_more(out);
    cdz_buf_puts(out, "\nExamples:\n");
    unsigned shown = 0;
    for (const char *line = page->examples; *line && (all || shown < 3); shown++) {
        const size_t len = strcspn(line, "\n");
        cdz_buf_printf(out, "  %.*s\n", (int)len, line);
        line += len + (line[len] == '\n');
    }
    if (!all)
        cdz_buf_printf(
            out,
            "All options: `cadenza %s --help all`. A parameter or topic: `cadenza help NAME`.\n",
            page->name);
}
