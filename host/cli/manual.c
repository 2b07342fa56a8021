/* manual.c - pages of the manual, in the language of man, from the tables of flags.h; and `cadenza manual`. */
#include <stdlib.h>
#include <string.h>

#include "base/write.h"
#include "cli/cli.h"
#include "cli/flags.h"

static const cdz_flag flags[] = {
    {"folder", 0, CDZ_OPT_OWN, CDZ_FLAG_ONCE, "FOLDER",
     "write one file per page: cadenza.1, cadenza-run.1 and so on"},
    {0},
};

const cdz_page cdz_page_manual = {
    .name = "manual",
    .summary = "print a manual page in the format of man",
    .usage = "manual [COMMAND]\n"
             "manual --folder FOLDER\n",
    .about = "Prints the manual page of a command, or of the program, in the format of man(1).",
    .flags = flags,
    .examples = "cadenza manual run | man -l -\n"
                "cadenza manual --folder ~/.local/share/man/man1\n",
};

/* Text as roff has it: no backslash, dash or dot at the head of a line is taken for a command. */
static void put_text(cdz_buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const bool head = out->len == 0 || out->data[out->len - 1] == '\n';
        if (head && (text[i] == '.' || text[i] == '\'')) cdz_buf_puts(out, "\\&");
        if (text[i] == '\\')
            cdz_buf_puts(out, "\\e");
        else if (text[i] == '-')
            cdz_buf_puts(out, "\\-");
        else
            cdz_buf_putc(out, text[i]);
    }
}

static void put(cdz_buf *out, const char *text)
{
    put_text(out, text, strlen(text));
}

static void put_section(cdz_buf *out, const char *title)
{
    cdz_buf_printf(out, ".SH \"%s\"\n", title);
}

/* Lines as they stand. */
static void put_lines(cdz_buf *out, const char *text, const char *before)
{
    cdz_buf_puts(out, ".nf\n");
    for (const char *line = text; *line;) {
        const size_t len = strcspn(line, "\n");
        if (*before) put(out, before);
        put_text(out, line, len);
        cdz_buf_putc(out, '\n');
        line += len + (line[len] == '\n');
    }
    cdz_buf_puts(out, ".fi\n");
}

static void put_flag(cdz_buf *out, const cdz_flag *flag)
{
    cdz_buf_puts(out, ".TP\n.B ");
    if (flag->letter) cdz_buf_printf(out, "\\-%c, ", flag->letter);
    cdz_buf_puts(out, "\\-\\-");
    put(out, flag->name);
    if (flag->value) {
        cdz_buf_putc(out, ' ');
        put(out, flag->value);
    }
    cdz_buf_putc(out, '\n');
    put(out, flag->help);
    cdz_buf_putc(out, '\n');
}

static void put_parameters(const cdz_page *page, cdz_buf *out)
{
    cdz_parameter_flag p;
    if (!(page->takes & CDZ_TAKES_GENERATION)) return;
    put_section(out, "GENERATION PARAMETERS");
    for (uint32_t i = 0; cdz_parameter_flag_at(i, &p); i++) {
        if (cdz_page_has_option(page, p.name)) continue;
        cdz_buf dashed = {0};
        cdz_cli_put_dashed(&dashed, p.name);
        cdz_buf_puts(out, ".TP\n.B \\-\\-");
        if (dashed.data && !dashed.failed) put(out, dashed.data);
        cdz_buf_free(&dashed);
        if (p.value) cdz_buf_printf(out, " %s", p.value);
        if (p.words) {
            cdz_buf_puts(out, "[=");
            put(out, p.words);
            cdz_buf_putc(out, ']');
        }
        cdz_buf_putc(out, '\n');
        put(out, p.help);
        cdz_buf_putc(out, '\n');
    }
}

static void put_habits(const cdz_page *page, cdz_buf *out)
{
    const cdz_habit *habit;
    const cdz_flag *flag;
    bool any = false;
    for (size_t i = 0; (habit = cdz_page_habit(page, &i, &flag)) != NULL; any = true) {
        if (!any) put_section(out, "NAMES OF OTHER PROGRAMS");
        cdz_buf_puts(out, ".TP\n.B ");
        put(out, habit->name[1] ? "--" : "-");
        put(out, habit->name);
        cdz_buf_puts(out, "\nthe same as ");
        cdz_buf dashed = {0};
        cdz_cli_put_dashed(&dashed, habit->ours);
        put(out, "--");
        if (dashed.data && !dashed.failed) put(out, dashed.data);
        cdz_buf_free(&dashed);
        cdz_buf_putc(out, '\n');
    }
}

static void put_page(const cdz_page *page, cdz_buf *out)
{
    const cdz_flag *flag;
    put_section(out, "SYNOPSIS");
    put_lines(out, page->usage, "cadenza ");
    put_section(out, "DESCRIPTION");
    put(out, page->about);
    cdz_buf_putc(out, '\n');
    for (const cdz_verb *v = page->verbs; v && v->name; v++) {
        cdz_buf_puts(out, ".TP\n.B ");
        put(out, v->name);
        cdz_buf_putc(out, '\n');
        put(out, v->help);
        cdz_buf_putc(out, '\n');
    }
    for (size_t i = 0; (flag = cdz_page_flag(page, i)) != NULL; i++) {
        const char *title = cdz_page_title(page, i);
        if (title) put_section(out, title);
        put_flag(out, flag);
    }
    put_parameters(page, out);
    put_habits(page, out);
    if (page->more_title) put_section(out, page->more_title);
    if (page->write_more) {
        cdz_buf more = {0};
        page->write_more(&more);
        if (more.data && !more.failed) put_lines(out, more.data, "");
        cdz_buf_free(&more);
    }
    put_section(out, "EXAMPLES");
    put_lines(out, page->examples, "");
}

static void put_program(cdz_buf *out)
{
    const cdz_setting *row;
    put_section(out, "SYNOPSIS");
    cdz_buf_puts(out, "cadenza COMMAND [arguments]\n");
    put_section(out, "COMMANDS");
    for (size_t i = 0; i < cdz_pages_n; i++) {
        cdz_buf_puts(out, ".TP\n.B ");
        put(out, cdz_pages[i]->name);
        cdz_buf_putc(out, '\n');
        put(out, cdz_pages[i]->summary);
        cdz_buf_putc(out, '\n');
    }
    put_section(out, "ENVIRONMENT");
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++) {
        if (!row->env) continue;
        cdz_buf_printf(out, ".TP\n.B %s\n", row->env);
        put(out, row->flag.help);
        cdz_buf_putc(out, '\n');
    }
}

/* "cadenza-plugin-test" */
static void put_title(const cdz_page *page, cdz_buf *out)
{
    cdz_buf_puts(out, page ? "cadenza-" : "cadenza");
    for (const char *c = page ? page->name : ""; *c; c++) cdz_buf_putc(out, *c == ' ' ? '-' : *c);
}

void cdz_manual_write(const cdz_page *page, cdz_buf *out)
{
    cdz_buf_puts(out, ".TH \"");
    put_title(page, out);
    cdz_buf_printf(out, "\" 1 \"\" \"cadenza %s\"\n", cdz_version());
    put_section(out, "NAME");
    put_title(page, out);
    cdz_buf_puts(out, " \\- ");
    put(out, page ? page->summary : "run language models with a decode loop of your choice");
    cdz_buf_putc(out, '\n');
    if (page)
        put_page(page, out);
    else
        put_program(out);
    put_section(out, "EXIT STATUS");
    cdz_buf_puts(out, "0 success, 1 failure, 2 wrong usage, 130 interrupted.\n");
}

/* --- the command ----------------------------------------------------------------------------------------------------------- */

static int write_page(const cdz_page *page, const char *folder)
{
    cdz_buf text = {0}, path = {0};
    cdz_manual_write(page, &text);
    cdz_buf_printf(&path, "%s/", folder);
    put_title(page, &path);
    cdz_buf_puts(&path, ".1");
    cdz_error err = {0};
    bool good = !text.failed && !path.failed;
    if (!good)
        cdz_cli_say("%s: out of memory for a page", folder);
    else if (cdz_write_whole(path.data, text.data, text.len, 0, &err) != CDZ_OK)
        good = cdz_cli_fail(&err) == CDZ_EXIT_OK;
    cdz_buf_free(&text);
    cdz_buf_free(&path);
    return good ? CDZ_EXIT_OK : CDZ_EXIT_FAILURE;
}

static int write_pages(const char *folder)
{
    int status = write_page(NULL, folder);
    for (size_t i = 0; status == CDZ_EXIT_OK && i < cdz_pages_n; i++)
        status = write_page(cdz_pages[i], folder);
    return status;
}

static const cdz_page *page_of_words(cdz_args *a)
{
    char name[64];
    const char *first = cdz_args_word(a), *second = cdz_args_word(a);
    if (!first) return NULL;
    snprintf(name, sizeof name, "%s%s%s", first, second ? " " : "", second ? second : "");
    const cdz_page *page = cdz_page_named(name);
    if (!page) cdz_args_refuse(a, "there is no command '%s'", name);
    return page;
}

int cdz_cmd_manual(int argc, char **argv)
{
    const char *folder = NULL;
    cdz_args a = cdz_args_of(&cdz_page_manual, argc, argv, NULL);
    while (cdz_args_next(&a)) folder = a.value;
    const cdz_page *page = a.stopped ? NULL : page_of_words(&a);
    if (!a.stopped && folder && page) cdz_args_refuse(&a, "--folder writes all pages");
    if (a.stopped || !cdz_args_end(&a)) return a.status;
    if (folder) return write_pages(folder);
    cdz_buf text = {0};
    cdz_manual_write(page, &text);
    if (text.data && !text.failed) fputs(text.data, stdout);
    const int status = text.failed ? CDZ_EXIT_FAILURE : CDZ_EXIT_OK;
    cdz_buf_free(&text);
    return status;
}
