/* main.c - the program: finds the command and hands over. */
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/crash.h"
#include "cli/streams.h"
#include "config/environment.h"

static const struct {
    const char *name;
    cdz_command *run;
    const char *summary;
} commands[] = {
    {"run", cdz_cmd_run, "continue a prompt, or a file of them"},
    {"chat", cdz_cmd_chat, "talk with a model"},
    {"lua", cdz_cmd_lua, "try a model from Lua, statement by statement"},
    {"explain", cdz_cmd_explain, "show what a pipeline does, and where each value came from"},
    {"plugin", cdz_cmd_plugin, "list, describe, make, test, add and remove plugins"},
    {"model", cdz_cmd_model, "describe, check, convert or quantize a model"},
    {"tokenize", cdz_cmd_tokenize, "text to token ids and back"},
    {"template", cdz_cmd_template, "render a chat template"},
    {"config", cdz_cmd_config, "show, check or write a generation config"},
    {"detect", cdz_cmd_detect, "say whether a text carries a watermark"},
    {"score", cdz_cmd_score, "say how probable a text is, or each token of an answer"},
    {"bench", cdz_cmd_bench, "measure a model's speed beside what the machine can do"},
    {"parity", cdz_cmd_parity, "replay recorded cases and compare"},
    {"version", cdz_cmd_version, "show the version and what this machine runs"},
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(void)
{
    puts("Cadenza: run language models with a decode loop of your choice.\n\n"
         "usage: cadenza COMMAND [arguments]\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].summary);
    puts("\n`cadenza COMMAND --help` explains a command and shows examples, `cadenza help ID` a plugin."
         "\n\nEnvironment:");
    size_t n;
    const cdz_env_variable *variables = cdz_env_variables(&n);
    for (size_t i = 0; i < n; i++) printf("  %-20s %s\n", variables[i].name, variables[i].help);
    puts("\nExit status: 0 success, 1 failure, 2 wrong usage, 130 interrupted.\n"
         "Output that cannot be written is a failure; a reader that goes away (`| head`) ends the "
         "program.\n\nExamples:\n"
         "  cadenza run -p 'river (noun): a'\n"
         "  cadenza chat\n"
         "  cadenza run my-model --pipeline story.ini -p 'Once upon a time'\n"
         "  cadenza explain story.ini my-model");
}

static int unknown_command(const char *name)
{
    const char *names[N_COMMANDS + 2] = {"--help", "--version"};
    for (size_t i = 0; i < N_COMMANDS; i++) names[i + 2] = commands[i].name;
    const char *near = cdz_nearest_name(name, names, N_COMMANDS + 2);
    if (near)
        cdz_cli_say("unknown command '%s': did you mean '%s'? `cadenza --help` lists them", name,
                    near);
    else
        cdz_cli_say("unknown command '%s'; `cadenza --help` lists them", name);
    return CDZ_EXIT_USAGE;
}

/* The i-th command, or N_COMMANDS. */
static size_t find_command(const char *name)
{
    size_t i = 0;
    while (i < N_COMMANDS && strcmp(commands[i].name, name) != 0) i++;
    return i;
}

static int help_with(char *word)
{
    char help_option[] = "--help", info[] = "info";
    char *of_command[] = {word, help_option, NULL}, *of_plugin[] = {word, info, word, NULL};
    const size_t i = find_command(word);
    if (i < N_COMMANDS) return commands[i].run(2, of_command);
    return cdz_cmd_plugin(3, of_plugin);
}

static int run_command(int argc, char **argv)
{
    if (argc < 2) {
        print_help();
        return CDZ_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        if (argc == 3 && name[0] != '-') return help_with(argv[2]);
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
