/* cmd_explain.c - cadenza explain: what a pipeline does, and where each value came from. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/environment.h"
#include "cli/cli.h"
#include "config/pipeline.h"
#include "run/stages/plan_report.h"

enum { OPT_PLAN = CDZ_OPT_OWN, OPT_SCHEMA, OPT_SETTINGS, OPT_JSON };

static const cdz_flag flags[] = {
    {"plan", 0, OPT_PLAN, CDZ_FLAG_OFTEN, NULL,
     "also: which processors are fused into one pass over a row, and what each costs on random "
     "rows of the model's vocabulary, or of 151936 tokens"},
    {"json", 0, OPT_JSON, CDZ_FLAG_OFTEN, NULL, "the same as one JSON object"},
    {"schema", 0, OPT_SCHEMA, CDZ_FLAG_OFTEN, NULL, "instead: the JSON Schema of pipeline files"},
    {"settings", 0, OPT_SETTINGS, CDZ_FLAG_OFTEN, NULL,
     "instead: every setting of the machine, the model, plugins, files and requests, and every way "
     "to say it, as a Markdown page"},
    {0},
};

const cdz_page cdz_page_explain = {
    .name = "explain",
    .summary = "show what a pipeline does, and where each value came from",
    .usage = "explain FILE [MODEL] [-s NAME=VALUE]... [options]\n"
             "explain --schema | --settings\n",
    .about =
        "Shows what the pipeline FILE does: its strategy, the processors in the order they are "
        "applied, the stopping criteria, every parameter and setting that was given and where, and "
        "processors that have no effect at their place in the order; of presses, how much of a long prompt's KV "
        "cache comes back. FILE may be hf, the built-in profile. "
        "MODEL is a model folder, for its generation defaults; without it those of the shipped "
        "model are used, as in run.",
    .flags = flags,
    .takes = CDZ_TAKES_DECODING | CDZ_TAKES_GENERATION | CDZ_TAKES_PLUGINS |
             CDZ_TAKES_MODEL_PLUGINS | CDZ_TAKES_MACHINE,
    .examples = "cadenza explain story.ini\n"
                "cadenza explain story.ini my-model --temperature 0.5\n"
                "cadenza explain hf my-model\n"
                "cadenza explain story.ini my-model --plan\n"
                "cadenza explain story.ini my-model --kv-cache f16 --json\n"
                "cadenza explain --schema > pipeline.schema.json\n",
};

/* --- the model's generation defaults ------------------------------------------------------------------------ */

/* One of the folder's files; *found stays false when there is none. */
static cdz_status read_part(const char *folder, const char *file, cdz_arena *arena, cdz_json *out,
                            bool *found, cdz_error *err)
{
    struct stat st;
    const char *path = cdz_arena_printf(arena, "%s/%s", folder, file);
    if (!path) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    *found = stat(path, &st) == 0;
    return *found ? cdz_json_read_file(path, 0, NULL, arena, out, err) : CDZ_OK;
}

/* Neither weights nor tokenizer are needed, so the folder is not opened as a model. */
static cdz_status read_model(const char *folder, cdz_arena *arena, cdz_json *out, cdz_error *err)
{
    cdz_json generation, config;
    bool has_generation = false, has_config = false;
    CDZ_TRY(read_part(folder, "generation_config.json", arena, &generation, &has_generation, err));
    CDZ_TRY(read_part(folder, "config.json", arena, &config, &has_config, err));
    if (!has_generation && !has_config)
        return cdz_err(err, CDZ_E_NOT_FOUND,
                       "%s: no model folder: neither generation_config.json nor config.json is "
                       "there",
                       folder);
    return cdz_generation_of_model(has_generation ? &generation : NULL, has_config ? &config : NULL,
                                   arena, out, err);
}

enum { WIDE = 151936 };

static uint32_t vocabulary_of(const char *folder, cdz_arena *arena)
{
    cdz_json config;
    bool found = false;
    if (!folder || read_part(folder, "config.json", arena, &config, &found, NULL) != CDZ_OK ||
        !found)
        return WIDE;
    const cdz_json *text = cdz_json_get(&config, "text_config");
    const cdz_json *size = cdz_json_get(&config, "vocab_size");
    if (!size && text) size = cdz_json_get(text, "vocab_size");
    if (!cdz_json_is(size, CDZ_JSON_INT) || size->integer < 1 || size->integer > 1 << 24)
        return WIDE;
    return (uint32_t)size->integer;
}

static cdz_status report_plan(cdz_pipeline *pipeline, const cdz_json *model, uint32_t n_vocab,
                              cdz_buf *text, cdz_error *err)
{
    cdz_plan *plan = NULL;
    CDZ_TRY(cdz_pipeline_plan(pipeline, model, NULL, NULL, &plan, err));
    const cdz_status status = cdz_stages_report_plan(plan, n_vocab, !cdz_env_plan_off(), text, err);
    cdz_plan_free(plan);
    return status;
}

/* Of a model that has a config.json alone: a GGUF file's shape is not read for this. */
static cdz_status report_presses(cdz_pipeline *pipeline, const cdz_json *model, const char *folder,
                                 cdz_arena *arena, cdz_buf *text, cdz_error *err)
{
    cdz_plan *plan = NULL;
    cdz_json config;
    bool found = false;
    if (!folder) return CDZ_OK;
    CDZ_TRY(read_part(folder, "config.json", arena, &config, &found, err));
    if (!found) return CDZ_OK;
    CDZ_TRY(cdz_pipeline_plan(pipeline, model, NULL, NULL, &plan, err));
    const cdz_status status =
        cdz_stages_report_presses(plan, &config, "config.json", arena, text, err);
    cdz_plan_free(plan);
    return status;
}

/* --- the command -------------------------------------------------------------------------------------------- */

/* How it is said. */
typedef struct form {
    bool plan, json, schema, settings;
} form;

static cdz_status explain(const cdz_cli_options *o, const char *folder, const form *as,
                          cdz_buf *text, cdz_session *s, cdz_arena *arena, cdz_error *err)
{
    cdz_json model;
    cdz_cli_options one = *o; /* it computes next to nothing */
    if (!one.host.options.n_threads) one.host.options.n_threads = 1;
    CDZ_TRY(cdz_session_runtime(s, &one, err));
    s->folder = folder ? strdup(folder) : NULL;
    if (folder && !s->folder) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    CDZ_TRY(cdz_session_pipeline(s, o, NULL, &s->pipeline, err));
    if (folder) CDZ_TRY(read_model(folder, arena, &model, err));
    CDZ_TRY((as->json ? cdz_pipeline_explain_json : cdz_pipeline_explain_text)(
        s->pipeline, folder ? &model : NULL, &o->host, text, err));
    if (!as->json)
        CDZ_TRY(report_presses(s->pipeline, folder ? &model : NULL, folder, arena, text, err));
    if (!as->plan) return CDZ_OK;
    return report_plan(s->pipeline, folder ? &model : NULL, vocabulary_of(folder, arena), text, err);
}

static int run(const cdz_cli_options *options, const form *as)
{
    char path[4096];
    const bool shipped = !options->host.program.model && cdz_cli_shipped_model(path, sizeof path);
    const char *folder =
        shipped ? path
        : options->host.program.model
            ? cdz_cli_model_folder(&options->host.program, options->host.program.model,
                                   CDZ_NEED_HERE, path, sizeof path)
            : NULL;
    if (options->host.program.model && !folder) return CDZ_EXIT_FAILURE;
    cdz_session session = {0};
    cdz_arena arena = {0};
    cdz_buf text = {0};
    cdz_error err = {0};
    cdz_status status = explain(options, folder, as, &text, &session, &arena, &err);
    if (status == CDZ_OK) fwrite(text.data, 1, text.len, stdout);
    if (status != CDZ_OK) cdz_cli_as_typed(options, &err);
    int code = status == CDZ_OK ? CDZ_EXIT_OK : cdz_cli_fail(&err);
    cdz_session_close(&session);
    cdz_buf_free(&text);
    cdz_arena_free(&arena);
    return code;
}

/* A file called hf is still a file. */
static const char *pipeline_file(const char *name)
{
    struct stat st;
    return strcmp(name, "hf") == 0 && stat(name, &st) != 0 ? NULL : name;
}

static void put_commands(const cdz_setting *setting, cdz_buf *out)
{
    cdz_pages_with(setting, out);
}

static int print_made(const form *as)
{
    cdz_buf text = {0};
    if (as->schema)
        cdz_pipeline_schema(&text);
    else
        cdz_settings_page(put_commands, &text);
    const bool good = !text.failed && fputs(text.data, stdout) != EOF;
    cdz_buf_free(&text);
    return good ? CDZ_EXIT_OK : CDZ_EXIT_FAILURE;
}

/* What the words say: FILE and perhaps MODEL. */
static void take_words(cdz_args *a, cdz_cli_options *options, const form *as)
{
    const char *file = cdz_args_word(a);
    const bool made = as->schema || as->settings;
    if (as->schema && as->settings)
        cdz_args_refuse(a, "--schema and --settings: give one of them");
    else if (as->json && (as->plan || made))
        cdz_args_refuse(a, "--json is of the pipeline, without --plan, --schema or --settings");
    else if (as->schema && file)
        cdz_args_refuse(a, "--schema is of every pipeline file, and takes none");
    else if (as->settings && file)
        cdz_args_refuse(a, "--settings lists all there are, and takes no FILE");
    else if (!made && !file)
        cdz_args_refuse(a, "expected FILE and perhaps MODEL");
    else if (options->host.program.pipeline)
        cdz_args_refuse(a, "FILE is the pipeline; --pipeline is not needed");
    if (a->stopped || !file) return;
    options->host.program.pipeline = pipeline_file(file);
    options->host.program.model = cdz_args_word(a);
    cdz_args_end(a);
}

int cdz_cmd_explain(int argc, char **argv)
{
    cdz_cli_options options = {0};
    form as = {0};
    cdz_args a = cdz_args_of(&cdz_page_explain, argc, argv, &options);
    while (cdz_args_next(&a)) {
        as.plan |= a.opt == OPT_PLAN;
        as.json |= a.opt == OPT_JSON;
        as.schema |= a.opt == OPT_SCHEMA;
        as.settings |= a.opt == OPT_SETTINGS;
    }
    if (!a.stopped) take_words(&a, &options, &as);
    int status = a.status;
    if (!a.stopped) status = as.schema || as.settings ? print_made(&as) : run(&options, &as);
    cdz_cli_options_free(&options);
    return status;
}
