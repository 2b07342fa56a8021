/* main.c - the program: finds the command and hands over. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/crash.h"
#include "cli/streams.h"

static const struct {
    const cdz_page *page;
    cdz_command *run;
} commands[] = {
    {&cdz_page_run, cdz_cmd_run},
    {&cdz_page_chat, cdz_cmd_chat},
    {&cdz_page_serve, cdz_cmd_serve},
    {&cdz_page_lua, cdz_cmd_lua},
    {&cdz_page_explain, cdz_cmd_explain},
    {&cdz_page_plugin, cdz_cmd_plugin},
    {&cdz_page_pull, cdz_cmd_pull},
    {&cdz_page_list, cdz_cmd_list},
    {&cdz_page_model, cdz_cmd_model},
    {&cdz_page_tokenize, cdz_cmd_tokenize},
    {&cdz_page_template, cdz_cmd_template},
    {&cdz_page_grammar, cdz_cmd_grammar},
    {&cdz_page_config, cdz_cmd_config},
    {&cdz_page_detect, cdz_cmd_detect},
    {&cdz_page_steer, cdz_cmd_steer},
    {&cdz_page_score, cdz_cmd_score},
    {&cdz_page_bench, cdz_cmd_bench},
    {&cdz_page_parity, cdz_cmd_parity},
    {&cdz_page_completion, cdz_cmd_completion},
    {&cdz_page_manual, cdz_cmd_manual},
    {&cdz_page_version, cdz_cmd_version},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

/* What other programs have for commands, and what there is here. */
static const struct {
    const char *names; /* each between blanks */
    const char *says;
} habits[] = {
    {" ls models ", "`cadenza list` lists models, `cadenza plugin list` plugins"},
    {" show info inspect ",
     "`cadenza model info MODEL` describes a model, `cadenza plugin info ID` a plugin"},
    {" download get fetch ",
     "`cadenza pull ORG/NAME` downloads a model; `cadenza run ORG/NAME` does so first"},
    {" server api ", "`cadenza serve MODEL` answers requests over HTTP"},
    {" ps top stop ", "nothing runs in the background: a command ends with its answer"},
    {" rm remove cp push create ", "a model is a folder or a file; the shell copies and removes it"},
    {" generate complete prompt infer ", "`cadenza run -p TEXT` continues a text"},
    {" repl talk interactive ",
     "`cadenza chat` talks with a model, `cadenza lua` runs Lua in a decode loop"},
    {" convert quantize ",
     "`cadenza model convert IN OUT` and `cadenza model quantize IN OUT --type TYPE`"},
    {" check verify ",
     "`cadenza model check MODEL` reads a model, `cadenza config validate` a config"},
    {" encode decode tokenise ", "`cadenza tokenize -p TEXT`, and --decode for the reverse"},
    {" eval perplexity ", "`cadenza score --text TEXT` gives log-probabilities and the perplexity"},
    {" benchmark perf llama-bench ", "`cadenza bench MODEL` measures the speed"},
    {" add new install test ",
     "`cadenza plugin add`, `plugin new` and `plugin test` are about plugins"},
    {" man docs ", "`cadenza help NAME` explains, `cadenza manual` prints the manual"},
};

/* A variable a row; the column of help begins behind the longest. */
static void print_environment(void)
{
    cdz_buf text = {0};
    const cdz_setting *row;
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++) {
        if (!row->env) continue;
        cdz_buf_printf(&text, "  %-20s ", row->env);
        cdz_cli_put_wrapped(&text, row->flag.help, 23);
        cdz_buf_putc(&text, '\n');
    }
    if (text.data && !text.failed) fputs(text.data, stdout);
    cdz_buf_free(&text);
}

static void print_help(void)
{
    puts("Cadenza: run language models with a decode loop of your choice.\n\n"
         "usage: cadenza COMMAND [arguments]\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-10s %s\n", commands[i].page->name, commands[i].page->summary);
    puts("\n`cadenza COMMAND --help` explains a command and shows examples; `cadenza help NAME` a parameter, "
         "a\nplugin or a topic. Topics:");
    fputs("  ", stdout);
    cdz_cli_print_topics();
    puts("\nEnvironment, where neither an option nor a pipeline says it:");
    print_environment();
    puts("\nExit status: 0 success, 1 failure, 2 wrong usage, 130 interrupted.\n"
         "Output that cannot be written is a failure; a reader that goes away (`| head`) ends the "
         "program.\n\nExamples:\n"
         "  cadenza run -p 'river (noun): a'\n"
         "  cadenza chat\n"
         "  cadenza run my-model --pipeline story.ini -p 'Once upon a time'\n"
         "  cadenza explain story.ini my-model");
}

static const char *habit_of(const char *name)
{
    char between[64];
    snprintf(between, sizeof between, " %s ", name);
    for (size_t i = 0; i < sizeof habits / sizeof habits[0]; i++)
        if (strstr(habits[i].names, between)) return habits[i].says;
    return NULL;
}

static bool is_model_path(const char *word)
{
    struct stat st;
    return stat(word, &st) == 0 && (S_ISDIR(st.st_mode) || strstr(word, ".gguf"));
}

static int unknown_command(const char *name)
{
    const char *names[N_COMMANDS + 2] = {"--help", "--version"};
    const char *says = habit_of(name);
    for (size_t i = 0; i < N_COMMANDS; i++) names[i + 2] = commands[i].page->name;
    const char *near = cdz_nearest_name(name, names, N_COMMANDS + 2);
    if (says)
        cdz_cli_say("there is no command '%s': %s", name, says);
    else if (strpbrk(name, " \t\n"))
        cdz_cli_say("'%.60s' is no command; did you mean cadenza run -p '%.60s'?", name, name);
    else if (near)
        cdz_cli_say("unknown command '%s': did you mean '%s'? `cadenza --help` lists them", name,
                    near);
    else if (name[0] == '-')
        cdz_cli_say("%s belongs to a command: did you mean cadenza run %s?", name, name);
    else if (is_model_path(name))
        cdz_cli_say("'%s' is no command; did you mean cadenza run %s?", name, name);
    else
        cdz_cli_say("unknown command '%s'; `cadenza --help` lists them", name);
    return CDZ_EXIT_USAGE;
}

/* The i-th command, or N_COMMANDS. */
static size_t find_command(const char *name)
{
    size_t i = 0;
    while (i < N_COMMANDS && strcmp(commands[i].page->name, name) != 0) i++;
    return i;
}

/* "help NAME", "help plugin test". */
static int help_with(int n, char **words)
{
    char name[128];
    snprintf(name, sizeof name, "%s %s", words[0], n > 1 ? words[1] : "");
    if (n == 1) return cdz_cli_help_on(words[0]);
    if (n == 2 && cdz_page_named(name)) return cdz_cli_help_on(name);
    cdz_cli_say("help: expected one name, found %d words", n);
    return CDZ_EXIT_USAGE;
}

static int run_command(int argc, char **argv)
{
    if (argc < 2) {
        print_help();
        return CDZ_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        if (argc > 2 && (argc > 3 || strcmp(argv[2], "all") != 0))
            return help_with(argc - 2, argv + 2);
        print_help();
        return CDZ_EXIT_OK;
    }
    if (strcmp(name, "--version") == 0) name = "version";
    const size_t i = find_command(name);
    if (i == N_COMMANDS) return unknown_command(name);
    /* `plugin test` forks, and a thread that holds a lock then would hold it in the child for ever. */
    if (strcmp(name, "plugin") != 0) {
        if (!cdz_cli_catch_interrupts())
            cdz_cli_say("Ctrl-C cannot be caught here; it will end the program");
        cdz_cli_tell_crashes();
    }
    return commands[i].run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    cdz_cli_begin_streams();
    return cdz_cli_end_streams(run_command(argc, argv));
}
