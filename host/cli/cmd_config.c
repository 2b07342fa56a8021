/* cmd_config.c - cadenza config: a generation config shown, checked, written. */
#include <string.h>

#include "cli/cli.h"

static const char help[] =
    "usage: cadenza config show|validate|save [PATH] [-s NAME=VALUE]... [options]\n"
    "\n"
    "Works on a generation config. PATH is a generation_config.json or a model folder (whose "
    "config.json counts\n"
    "where there is no generation_config.json); without PATH the config is empty. -s changes it: "
    "none unsets.\n"
    "\n"
    "  show                     prints what is set, as it would be saved\n"
    "  validate                 says what is wrong with it; exit status 2 if anything is\n"
    "  save                     writes it, refusing what would do nothing, as transformers does\n"
    "\n"
    "  -s, --set NAME=VALUE     a generation parameter, as for run\n"
    "      --all                show: every parameter, with the value generate() would have\n"
    "      --strict             validate: parameters that would do nothing are wrong too\n"
    "  -o, --output PATH        save: the file, or the folder of generation_config.json; else PATH\n"
    "  -h, --help               this text\n"
    "\n"
    "Examples:\n"
    "  cadenza config show my-model\n"
    "  cadenza config show my-model --all\n"
    "  cadenza config validate generation_config.json --strict\n"
    "  cadenza config save my-model -s do_sample=true -s temperature=0.7 -o .\n";

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

/* True when there is work; else *status is the exit status. */
static bool take_options(int argc, char **argv, config_job *job, int *status)
{
    enum { ALL = CDZ_OPT_OWN, STRICT };
    static const struct option rows[] = {
        {"set", required_argument, NULL, 's'}, {"all", no_argument, NULL, ALL},
        {"strict", no_argument, NULL, STRICT}, {"output", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},      {0},
    };
    int opt;
    while ((opt = cdz_cli_next_option("config", argc, argv, ":s:o:h", rows)) != -1) {
        switch (opt) {
        case 'h':
            fputs(help, stdout);
            *status = CDZ_EXIT_OK;
            return false;
        case 'o': job->output = optarg; break;
        case ALL: job->all = true; break;
        case STRICT: job->strict = true; break;
        default:
            if (!cdz_cli_take_option(&job->options, opt, optarg, "config", status)) return false;
        }
    }
    return true;
}

static bool is_verb(const char *word)
{
    return strcmp(word, "show") == 0 || strcmp(word, "validate") == 0 || strcmp(word, "save") == 0;
}

static int check_words(int argc, char **argv, config_job *job)
{
    if (optind == argc || !is_verb(argv[optind]))
        return cdz_cli_misuse("config", "expected show, validate or save");
    job->verb = argv[optind];
    if (argc - optind > 2) return cdz_cli_misuse("config", "expected one PATH at most");
    job->path = optind + 1 < argc ? argv[optind + 1] : NULL;
    if (strcmp(job->verb, "save") == 0 && !job->path && !job->output)
        return cdz_cli_misuse("config", "save: expected a PATH or --output");
    return CDZ_EXIT_OK;
}

int cdz_cmd_config(int argc, char **argv)
{
    config_job job = {.verb = ""};
    cdz_error err = {0};
    int status = CDZ_EXIT_USAGE;
    if (take_options(argc, argv, &job, &status)) {
        status = check_words(argc, argv, &job);
        if (status == CDZ_EXIT_OK && work(&job, &err) != CDZ_OK) status = cdz_cli_fail(&err);
    }
    cdz_cli_options_free(&job.options);
    return status;
}
