/* completion.c - completions for bash, zsh and fish, from the tables of flags.h; and `cadenza completion`. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/flags.h"

static const cdz_verb verbs[] = {
    {"bash", "for ~/.bashrc: source <(cadenza completion bash)"},
    {"zsh", "a file _cadenza in a folder of $fpath"},
    {"fish", "~/.config/fish/completions/cadenza.fish"},
    {0},
};

const cdz_page cdz_page_completion = {
    .name = "completion",
    .summary = "print completions for a shell",
    .usage = "completion bash|zsh|fish\n",
    .about = "Prints a script with which a shell completes commands, options and parameters.",
    .verbs = verbs,
    .examples = "source <(cadenza completion bash)\n"
                "cadenza completion zsh > ~/.zfunc/_cadenza\n"
                "cadenza completion fish > ~/.config/fish/completions/cadenza.fish\n",
};

/* Visits every option of a page: "--name", a letter or 0, whether it takes a value, its help. */
typedef void see_option(cdz_buf *out, const cdz_page *page, const char *name, char letter,
                        bool value, const char *help);

static void each_option(cdz_buf *out, const cdz_page *page, see_option *see)
{
    const cdz_flag *flag;
    cdz_parameter_flag p;
    const cdz_habit *habit;
    for (size_t i = 0; (flag = cdz_page_flag(page, i)) != NULL; i++)
        see(out, page, flag->name, flag->letter, flag->value != NULL, flag->help);
    for (uint32_t i = 0; (page->takes & CDZ_TAKES_GENERATION) && cdz_parameter_flag_at(i, &p); i++) {
        cdz_buf dashed = {0};
        cdz_cli_put_dashed(&dashed, p.name);
        if (!dashed.failed && !cdz_page_has_option(page, p.name))
            see(out, page, dashed.data, 0, p.value != NULL, p.help);
        cdz_buf_free(&dashed);
    }
    for (size_t i = 0; (habit = cdz_page_habit(page, &i, &flag)) != NULL;)
        if (habit->name[1])
            see(out, page, habit->name, 0, !flag || flag->value != NULL, habit->ours);
}

/* "plugin test" is its command's second word. */
static bool is_command(const cdz_page *page)
{
    return !strchr(page->name, ' ');
}

/* The first words of a page's verbs. */
static void put_verbs(cdz_buf *out, const cdz_page *page)
{
    for (const cdz_verb *v = page->verbs; v && v->name; v++)
        cdz_buf_printf(out, " %.*s", (int)strcspn(v->name, " "), v->name);
}

static void put_commands(cdz_buf *out)
{
    for (size_t i = 0; i < cdz_pages_n; i++)
        if (is_command(cdz_pages[i])) cdz_buf_printf(out, " %s", cdz_pages[i]->name);
    cdz_buf_puts(out, " help");
}

static void valued_option(cdz_buf *out, const cdz_page *page, const char *name, char letter,
                          bool value, const char *help)
{
    (void)page;
    (void)help;
    if (!value) return;
    cdz_buf_printf(out, " --%s", name);
    if (letter) cdz_buf_printf(out, " -%c", letter);
}

/* For bash and zsh: the options of each page that take a value, so that one is not completed by the next option. */
static void put_valued(cdz_buf *out)
{
    cdz_buf_puts(out, "    case $command in\n");
    for (size_t i = 0; i < cdz_pages_n; i++) {
        cdz_buf_printf(out, "    '%s') valued='", cdz_pages[i]->name);
        each_option(out, cdz_pages[i], valued_option);
        cdz_buf_puts(out, " ' ;;\n");
    }
    cdz_buf_puts(out, "    esac\n");
}

/* "f32 f16 bf16" */
static void put_words(cdz_buf *out, const cdz_setting *setting)
{
    for (const char *c = setting->words; *c; c++) cdz_buf_putc(out, *c == '|' ? ' ' : *c);
}

/* For bash and zsh: what completes the value of an option that takes one of some words, between `before` and `after`. */
static void put_values(cdz_buf *out, const char *typed, const char *before, const char *after)
{
    const cdz_setting *row;
    cdz_buf_printf(out, "    case %s in\n", typed);
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++) {
        if (!row->flag.name || !row->words) continue;
        cdz_buf_printf(out, "    --%s) %s", row->flag.name, before);
        put_words(out, row);
        cdz_buf_printf(out, "%s; return ;;\n", after);
    }
    cdz_buf_puts(out, "    esac\n");
}

/* --- bash ------------------------------------------------------------------------------------------------------------------- */

static void bash_option(cdz_buf *out, const cdz_page *page, const char *name, char letter,
                        bool value, const char *help)
{
    (void)page;
    (void)value;
    (void)help;
    cdz_buf_printf(out, " --%s", name);
    if (letter) cdz_buf_printf(out, " -%c", letter);
}

/* Pages of verbs, as patterns of a case. */
static void put_two_words(cdz_buf *out)
{
    const char *between = "";
    for (size_t i = 0; i < cdz_pages_n; i++) {
        if (!strchr(cdz_pages[i]->name, ' ')) continue;
        cdz_buf_printf(out, "%s'%s'", between, cdz_pages[i]->name);
        between = " | ";
    }
}

static void write_bash(cdz_buf *out)
{
    cdz_buf_puts(out,
                 "# bash completion of cadenza; made by `cadenza completion bash`\n"
                 "_cadenza() {\n"
                 "    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words= valued=\n"
                 "    [ \"$COMP_CWORD\" -gt 2 ] && case \"$command ${COMP_WORDS[2]}\" in\n    ");
    put_two_words(out);
    cdz_buf_puts(out, ") command+=\" ${COMP_WORDS[2]}\" ;;\n"
                      "    esac\n"
                      "    [ \"$COMP_CWORD\" -eq 1 ] && command=\n"
                      "    case $command in\n"
                      "    '') words='");
    put_commands(out);
    cdz_buf_puts(out, "' ;;\n    help) words='");
    put_commands(out);
    cdz_buf_puts(out, "' ;;\n");
    for (size_t i = 0; i < cdz_pages_n; i++) {
        cdz_buf_printf(out, "    '%s') words='", cdz_pages[i]->name);
        put_verbs(out, cdz_pages[i]);
        each_option(out, cdz_pages[i], bash_option);
        cdz_buf_puts(out, "' ;;\n");
    }
    cdz_buf_puts(out, "    esac\n");
    put_values(out, "${COMP_WORDS[COMP_CWORD - 1]}", "COMPREPLY=($(compgen -W '",
               "' -- \"$word\"))");
    put_valued(out);
    cdz_buf_puts(out, "    [[ $valued = *\" ${COMP_WORDS[COMP_CWORD - 1]} \"* ]] && return\n"
                      "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                      "}\n"
                      "complete -o bashdefault -o default -F _cadenza cadenza\n");
}

/* --- zsh -------------------------------------------------------------------------------------------------------------------- */

/* Between single quotes; colons divide name and help there. */
static void put_quoted(cdz_buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            cdz_buf_puts(out, "'\\''");
        else if (*text == ':')
            cdz_buf_puts(out, "\\:");
        else
            cdz_buf_putc(out, *text);
    }
}

static void zsh_option(cdz_buf *out, const cdz_page *page, const char *name, char letter,
                       bool value, const char *help)
{
    (void)page;
    (void)value;
    cdz_buf_printf(out, "        '--%s:", name);
    put_quoted(out, help);
    cdz_buf_puts(out, "'\n");
    if (!letter) return;
    cdz_buf_printf(out, "        '-%c:", letter);
    put_quoted(out, help);
    cdz_buf_puts(out, "'\n");
}

static void write_zsh(cdz_buf *out)
{
    cdz_buf_puts(out, "#compdef cadenza\n# made by `cadenza completion zsh`\n"
                      "_cadenza() {\n"
                      "    local -a all\n"
                      "    local command=$words[2] valued=\n"
                      "    case \"$words[2] $words[3]\" in\n"
                      "    ");
    put_two_words(out);
    cdz_buf_puts(out, ") (( CURRENT > 3 )) && "
                      "command=\"$words[2] $words[3]\" ;;\n"
                      "    esac\n"
                      "    (( CURRENT == 2 )) && command=\n"
                      "    case $command in\n"
                      "    '' | help) all=(\n");
    for (size_t i = 0; i < cdz_pages_n; i++) {
        if (!is_command(cdz_pages[i])) continue;
        cdz_buf_printf(out, "        '%s:", cdz_pages[i]->name);
        put_quoted(out, cdz_pages[i]->summary);
        cdz_buf_puts(out, "'\n");
    }
    cdz_buf_puts(out, "        'help:explain a command, parameter, plugin or topic' ) ;;\n");
    for (size_t i = 0; i < cdz_pages_n; i++) {
        cdz_buf_printf(out, "    '%s') all=(\n", cdz_pages[i]->name);
        for (const cdz_verb *v = cdz_pages[i]->verbs; v && v->name; v++) {
            cdz_buf_printf(out, "        '%.*s:", (int)strcspn(v->name, " "), v->name);
            put_quoted(out, v->help);
            cdz_buf_puts(out, "'\n");
        }
        each_option(out, cdz_pages[i], zsh_option);
        cdz_buf_puts(out, "        ) ;;\n");
    }
    cdz_buf_puts(out, "    esac\n");
    put_values(out, "$words[CURRENT-1]", "compadd ", "");
    put_valued(out);
    /* The last lines: loaded by its name in $fpath the file is the function's first call, sourced it is not. */
    cdz_buf_puts(out, "    if [[ $valued != *\" $words[CURRENT-1] \"* ]]; then\n"
                      "        _describe cadenza all\n"
                      "        (( CURRENT == 2 )) && return\n"
                      "    fi\n"
                      "    _files\n"
                      "}\n"
                      "compdef _cadenza cadenza\n"
                      "[[ $funcstack[1] != _cadenza ]] || _cadenza \"$@\"\n");
}

/* --- fish -------------------------------------------------------------------------------------------------------------------- */

static void put_fish_text(cdz_buf *out, const char *text)
{
    cdz_buf_putc(out, '\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') cdz_buf_putc(out, '\\');
        cdz_buf_putc(out, *text);
    }
    cdz_buf_putc(out, '\'');
}

static void fish_option(cdz_buf *out, const cdz_page *page, const char *name, char letter,
                        bool value, const char *help)
{
    cdz_buf_puts(out, "complete -c cadenza -n '");
    const char *space = strchr(page->name, ' ');
    if (space)
        cdz_buf_printf(out, "__fish_seen_subcommand_from %.*s; and __fish_seen_subcommand_from %s",
                       (int)(space - page->name), page->name, space + 1);
    else
        cdz_buf_printf(out, "__fish_seen_subcommand_from %s", page->name);
    cdz_buf_printf(out, "' -l %s", name);
    if (letter) cdz_buf_printf(out, " -s %c", letter);
    const cdz_setting *setting = cdz_setting_of_flag(name, strlen(name));
    if (setting && setting->words && value) {
        cdz_buf_puts(out, " -x -a '");
        put_words(out, setting);
        cdz_buf_puts(out, "' -d ");
    } else {
        cdz_buf_puts(out, value ? " -r -d " : " -d ");
    }
    put_fish_text(out, help);
    cdz_buf_putc(out, '\n');
}

static void write_fish(cdz_buf *out)
{
    cdz_buf_puts(out, "# made by `cadenza completion fish`\n");
    for (size_t i = 0; i < cdz_pages_n; i++) {
        const cdz_page *page = cdz_pages[i];
        if (is_command(page)) {
            cdz_buf_printf(out, "complete -c cadenza -f -n __fish_use_subcommand -a %s -d ",
                           page->name);
            put_fish_text(out, page->summary);
            cdz_buf_putc(out, '\n');
        }
        for (const cdz_verb *v = page->verbs; v && v->name; v++) {
            cdz_buf_printf(out,
                           "complete -c cadenza -n '__fish_seen_subcommand_from %s' -a %.*s -d ",
                           page->name, (int)strcspn(v->name, " "), v->name);
            put_fish_text(out, v->help);
            cdz_buf_putc(out, '\n');
        }
        each_option(out, page, fish_option);
    }
    cdz_buf_puts(out, "complete -c cadenza -f -n __fish_use_subcommand -a help -d "
                      "'explain a command, parameter, plugin or topic'\n");
}

bool cdz_completion_write(const char *shell, cdz_buf *out)
{
    if (strcmp(shell, "bash") == 0)
        write_bash(out);
    else if (strcmp(shell, "zsh") == 0)
        write_zsh(out);
    else if (strcmp(shell, "fish") == 0)
        write_fish(out);
    else
        return false;
    return true;
}

int cdz_cmd_completion(int argc, char **argv)
{
    cdz_buf text = {0};
    cdz_args a = cdz_args_of(&cdz_page_completion, argc, argv, NULL);
    (void)cdz_args_next(&a);
    const char *shell = a.stopped ? NULL : cdz_args_word(&a);
    if (!a.stopped && (!shell || !cdz_completion_write(shell, &text)))
        cdz_args_refuse(&a, "expected bash, zsh or fish%s%s", shell ? ", found " : "",
                        shell ? shell : "");
    if (!a.stopped && cdz_args_end(&a)) {
        if (text.data && !text.failed) fputs(text.data, stdout);
        a.status = text.failed ? CDZ_EXIT_FAILURE : CDZ_EXIT_OK;
    }
    cdz_buf_free(&text);
    return a.status;
}
