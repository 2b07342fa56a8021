/* cmd_list.c - cadenza list: the models of this machine. The list itself is in models.c. */
#include "cli/cli.h"

static const cdz_flag flags[] = {
    {"json", 0, CDZ_OPT_OWN, CDZ_FLAG_OFTEN, NULL, "as a JSON array of objects"},
    {0},
};

const cdz_page cdz_page_list = {
    .name = "list",
    .summary = "list the models of this machine",
    .usage = "list [--json]\n",
    .about =
        "Lists the models that MODEL may name: the shipped one, those of $CADENZA_MODELS and those in the "
        "caches of Hugging Face, Ollama and llama.cpp, with size, format and place.",
    .flags = flags,
    .examples = "cadenza list\n"
                "cadenza list --json\n",
};

int cdz_cmd_list(int argc, char **argv)
{
    bool json = false;
    cdz_args a = cdz_args_of(&cdz_page_list, argc, argv, NULL);
    while (cdz_args_next(&a)) json = true;
    return a.stopped || !cdz_args_end(&a) ? a.status : cdz_cli_model_list(json);
}
