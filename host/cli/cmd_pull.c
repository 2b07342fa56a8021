/* cmd_pull.c - cadenza pull: a model from the hub into the cache, whether or not some of it is there. */
#include <stdio.h>

#include "base/environment.h"
#include "base/error.h"
#include "cli/cli.h"
#include "hub/caches.h"
#include "hub/pull.h"

const cdz_page cdz_page_pull = {
    .name = "pull",
    .summary = "download a model into the Hugging Face cache",
    .usage = "pull ORG/NAME[:FILE] [--revision REVISION] [--offline]\n",
    .about =
        "Downloads a model from the hub into the Hugging Face cache, where Python finds it too, and prints "
        "where it is. What is there already is not loaded again; what was cut goes on where it stopped. Taken "
        "are configuration, tokenizer, templates and safetensors, or the one GGUF model that FILE names: a "
        "file, or a part of its name such as Q4_K_M. Nothing that could run is taken.\n"
        "HF_TOKEN is for models that not everybody may read, HF_ENDPOINT another hub, HF_HOME another place.",
    .takes = CDZ_TAKES_HUB,
    .examples = "cadenza pull Qwen/Qwen2.5-0.5B-Instruct\n"
                "cadenza pull Qwen/Qwen2.5-0.5B-Instruct-GGUF:q4_k_m\n"
                "HF_TOKEN=$TOKEN cadenza pull google/gemma-3-1b-it --revision main\n",
};

static int pull(const cdz_program_settings *how, const char *name)
{
    char path[CDZ_HUB_PATH];
    cdz_error err = {0};
    cdz_hub_wish wish = {.revision = how->revision};
    if (cdz_hub_id_read(name, &wish.id, &err) != CDZ_OK ||
        (how->revision && cdz_hub_check_revision(how->revision, &err) != CDZ_OK))
        return cdz_cli_misuse("pull", "%s", err.text);
    int status = CDZ_EXIT_OK;
    if (!how->offline && !cdz_env_hub_offline()) {
        status = cdz_cli_download(&wish, path, sizeof path);
    } else if (cdz_hub_find(name, how->revision, false, path, sizeof path) != CDZ_HUB_HERE) {
        cdz_cli_say(
            "%s: no cache of this machine has all of it, and --offline or HF_HUB_OFFLINE forbids to "
            "download it",
            name);
        status = CDZ_EXIT_FAILURE;
    }
    if (status == CDZ_EXIT_OK) puts(path);
    return status;
}

int cdz_cmd_pull(int argc, char **argv)
{
    cdz_cli_options common = {0};
    cdz_args a = cdz_args_of(&cdz_page_pull, argc, argv, &common);
    while (cdz_args_next(&a)) {
    }
    const char *name = a.stopped ? NULL : cdz_args_word(&a);
    if (!a.stopped && !name) cdz_args_refuse(&a, "expected the id of a model, ORG/NAME");
    const int status = !a.stopped && cdz_args_end(&a) ? pull(&common.host.program, name) : a.status;
    cdz_cli_options_free(&common);
    return status;
}
