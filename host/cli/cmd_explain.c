/* cmd_explain.c - cadenza explain: what a pipeline does, and where each value came from. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/environment.h"
#include "cli/cli.h"
#include "config/pipeline.h"
#include "run/stages/plan_report.h"

enum { OPT_PLAN = CDZ_OPT_OWN, OPT_SCHEMA };

static const cdz_flag flags[] = {
    {"plan", 0, OPT_PLAN, CDZ_FLAG_OFTEN, NULL,
     "also: which processors are fused into one pass over a row, and what each costs on random "
     "rows of the model's vocabulary, or of 151936 tokens"},
    {"schema", 0, OPT_SCHEMA, CDZ_FLAG_OFTEN, NULL, "instead: the JSON Schema of pipeline files"},
    {0},
};

const cdz_page cdz_page_explain = {
    .name = "explain",
    .summary = "show what a pipeline does, and where each value came from",
    .usage = "explain FILE [MODEL] [-s NAME=VALUE]... [options]\n"
             "explain --schema\n",
    .about =
        "Shows what the pipeline FILE does: its strategy, the processors in the order they are "
        "applied, the stopping criteria, every parameter that was set and where, and processors "
        "that have no effect at their place in the order. FILE may be hf, the built-in profile. "
        "MODEL is a model folder, for its generation defaults; without it those of the shipped "
        "model are used, as in run.",
    .flags = flags,
    .takes = CDZ_TAKES_DECODING | CDZ_TAKES_GENERATION,
    .examples = "cadenza explain story.ini\n"
                "cadenza explain story.ini my-model --temperature 0.5\n"
                "cadenza explain hf my-model\n"
                "cadenza explain story.ini my-model --plan\n"
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
    return cdz_model_generation(has_generation ? &generation : NULL, has_config ? &config : NULL,
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
    const cdz_status status = cdz_plan_report(plan, n_vocab, !cdz_env_plan_off(), text, err);
    cdz_plan_free(plan);
    return status;
}

/* --- the command -------------------------------------------------------------------------------------------- */

static cdz_status explain(const cdz_cli_options *o, const char *folder, bool plan, cdz_buf *text,
                          cdz_session *s, cdz_arena *arena, cdz_error *err)
{
    const cdz_options options = {.size = sizeof options,
                                 .n_threads = 1,
                                 .plugins = o->plugins,
                                 .n_plugins = o->n_plugins,
                                 .safe_mode = o->safe_mode,
                                 .allow_model_plugins = o->allow_model_plugins};
    cdz_json model;
    CDZ_TRY(cdz_open(&options, &s->runtime, err));
    s->folder = folder ? strdup(folder) : NULL;
    if (folder && !s->folder) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    CDZ_TRY(cdz_session_pipeline(s, o, NULL, &s->pipeline, err));
    if (folder) CDZ_TRY(read_model(folder, arena, &model, err));
    CDZ_TRY(cdz_pipeline_explain_text(s->pipeline, folder ? &model : NULL, text, err));
    if (!plan) return CDZ_OK;
    return report_plan(s->pipeline, folder ? &model : NULL, vocabulary_of(folder, arena), text, err);
}

static int run(const cdz_cli_options *options, bool plan)
{
    char path[4096];
    const bool shipped = !options->model && cdz_cli_shipped_model(path, sizeof path);
    const char *folder = shipped          ? path
                         : options->model ? cdz_cli_model_folder(options->model, path, sizeof path)
                                          : NULL;
    if (options->model && !folder) return CDZ_EXIT_FAILURE;
    cdz_session session = {0};
    cdz_arena arena = {0};
    cdz_buf text = {0};
    cdz_error err = {0};
    cdz_status status = explain(options, folder, plan, &text, &session, &arena, &err);
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

static int print_schema(void)
{
    cdz_buf text = {0};
    cdz_pipeline_schema(&text);
    const bool good = !text.failed && fputs(text.data, stdout) != EOF;
    cdz_buf_free(&text);
    return good ? CDZ_EXIT_OK : CDZ_EXIT_FAILURE;
}

/* What the words say: FILE and perhaps MODEL. */
static void take_words(cdz_args *a, cdz_cli_options *options, bool schema)
{
    const char *file = cdz_args_word(a);
    if (schema && file)
        cdz_args_refuse(a, "--schema is of every pipeline file, and takes none");
    else if (!schema && !file)
        cdz_args_refuse(a, "expected FILE and perhaps MODEL");
    else if (options->pipeline)
        cdz_args_refuse(a, "FILE is the pipeline; --pipeline is not needed");
    if (a->stopped || !file) return;
    options->pipeline = pipeline_file(file);
    options->model = cdz_args_word(a);
    cdz_args_end(a);
}

int cdz_cmd_explain(int argc, char **argv)
{
    cdz_cli_options options = {0};
    bool plan = false, schema = false;
    cdz_args a = cdz_args_of(&cdz_page_explain, argc, argv, &options);
    while (cdz_args_next(&a)) {
        plan |= a.opt == OPT_PLAN;
        schema |= a.opt == OPT_SCHEMA;
    }
    if (!a.stopped) take_words(&a, &options, schema);
    int status = a.status;
    if (!a.stopped) status = schema ? print_schema() : run(&options, plan);
    cdz_cli_options_free(&options);
    return status;
}
