/* cmd_config.c - cadenza config: a generation config shown, checked, written. */
#include <string.h>

#include "cli/cli.h"

enum { ALL = CDZ_OPT_OWN, STRICT };

static const cdz_verb verbs[] = {
    {"show", "prints the parameters that are set, as save would write them"},
    {"validate", "lists the errors in it; exit status 2 if there is one"},
    {"save", "writes it; as in transformers, parameters that would have no effect are refused"},
    {0},
};
static const cdz_flag flags[] = {
    {"set", 's', 's', CDZ_FLAG_OFTEN, "NAME=VALUE",
     "a generation parameter; --temperature 0.7 is the same"},
    {"all", 0, ALL, CDZ_FLAG_OFTEN, NULL,
     "show: every parameter, with the value that generate() would use"},
    {"strict", 0, STRICT, CDZ_FLAG_OFTEN, NULL,
     "validate: parameters that would have no effect are errors too"},
    {"output", 'o', 'o', CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "PATH",
     "save: the file, or the folder of generation_config.json; else PATH"},
    {0},
};

const cdz_page cdz_page_config = {
    .name = "config",
    .summary = "show, check or write a generation config",
    .usage = "config show|validate|save [PATH] [-s NAME=VALUE]... [options]\n",
    .about =
        "Shows, checks or writes a generation config. PATH is a generation_config.json or a "
        "model folder (whose config.json is read if there is no generation_config.json). Without "
        "PATH, show reads that of the shipped model, as run does; validate and save start with "
        "an empty one. Options of generation parameters change it; the value none unsets a "
        "parameter.",
    .verbs = verbs,
    .flags = flags,
    .takes = CDZ_TAKES_GENERATION,
    .examples = "cadenza config show my-model\n"
                "cadenza config validate generation_config.json --strict\n"
                "cadenza config save my-model --do-sample --temperature 0.7 -o .\n"
                "cadenza config show my-model --all\n",
};

typedef struct config_job {
    cdz_cli_options options;
    const char *verb, *path, *output;
    bool all, strict;
} config_job;

static cdz_status apply_settings(const config_job *job, cdz_config *config, cdz_error *err)
{
    for (uint32_t i = 0; i < job->options.n_settings; i++) {
        char name[256];
        const char *setting = job->options.settings[i], *equals = strchr(setting, '=');
        snprintf(name, sizeof name, "%.*s", (int)(equals - setting), setting);
        CDZ_TRY(cdz_config_set(config, name, equals + 1, err));
    }
    return CDZ_OK;
}

static cdz_status show(const config_job *job, const cdz_config *config, cdz_error *err)
{
    char *json;
    CDZ_TRY(cdz_config_json(config, job->all, &json, err));
    fputs(json, stdout);
    cdz_free(json);
    return CDZ_OK;
}

static cdz_status validate(const config_job *job, const cdz_config *config, cdz_error *err)
{
    char *report;
    CDZ_TRY(cdz_config_validate(config, job->strict, &report, err));
    fputs(*report ? report : "nothing is wrong\n", stdout);
    cdz_free(report);
    return CDZ_OK;
}

static cdz_status work(const config_job *job, cdz_error *err)
{
    cdz_config *config;
    CDZ_TRY(cdz_config_open(job->path, &config, err));
    cdz_status status = apply_settings(job, config, err);
    if (status == CDZ_OK && strcmp(job->verb, "show") == 0) status = show(job, config, err);
    if (status == CDZ_OK && strcmp(job->verb, "validate") == 0) status = validate(job, config, err);
    if (status == CDZ_OK && strcmp(job->verb, "save") == 0)
        status = cdz_config_save(config, job->output ? job->output : job->path, err);
    cdz_config_free(config);
    return status;
}

static void take_option(config_job *job, cdz_args *a)
{
    switch (a->opt) {
    case 's':
        if (!cdz_cli_take_setting(&job->options, cdz_setting_named("set"), a->value, "config",
                                  &a->status))
            a->stopped = true;
        break;
    case 'o': job->output = a->value; break;
    case ALL: job->all = true; break;
    case STRICT: job->strict = true; break;
    default: break;
    }
}

static bool is_verb(const char *word)
{
    return strcmp(word, "show") == 0 || strcmp(word, "validate") == 0 || strcmp(word, "save") == 0;
}

static void check_words(cdz_args *a, config_job *job)
{
    const char *verb = cdz_args_word(a);
    if (!verb || !is_verb(verb)) {
        cdz_args_refuse(a, "expected show, validate or save");
        return;
    }
    job->verb = verb;
    job->path = cdz_args_word(a);
    if (cdz_args_word(a))
        cdz_args_refuse(a, "expected one PATH at most");
    else if (strcmp(verb, "save") == 0 && !job->path && !job->output)
        cdz_args_refuse(a, "save: expected a PATH or --output");
}

int cdz_cmd_config(int argc, char **argv)
{
    config_job job = {.verb = ""};
    cdz_error err = {0};
    char shipped[4096];
    cdz_args a = cdz_args_of(&cdz_page_config, argc, argv, &job.options);
    while (cdz_args_next(&a)) take_option(&job, &a);
    if (!a.stopped) check_words(&a, &job);
    int status = a.status;
    if (!a.stopped && !job.path && strcmp(job.verb, "show") == 0 &&
        cdz_cli_shipped_model(shipped, sizeof shipped))
        job.path = shipped;
    if (!a.stopped && work(&job, &err) != CDZ_OK) {
        cdz_cli_as_typed(&job.options, &err);
        status = cdz_cli_fail(&err);
    }
    cdz_cli_options_free(&job.options);
    return status;
}
