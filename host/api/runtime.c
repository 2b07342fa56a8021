/* runtime.c - opening and closing: the runtime, its models and pipelines.
 *
 * Owns: a runtime with its registry and engine, and models till their last holder. Not: requests (requests.c). Closing ends
 * the engine first, which still calls each on_done, and takes apart a runtime that opened half-way too. Thread: [any]; one
 * closes, and nobody is in a call by then. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/entry.h"
#include "api/plugins.h"
#include "api/prompts.h"
#include "base/environment.h"
#include "base/guard.h"
#include "load/model_files.h"
#include "load/quant_types.h"
#include "params/settings.h"
#include "run/engine/engine.h"

const char *cdz_version(void)
{
    return CDZ_VERSION;
}

void cdz_free(void *memory)
{
    free(memory);
}

static cdz_status open_registry(const cdz_options *options, cdz_registry **out, cdz_error *err)
{
    struct stat s;
    const char *folder = options->plugin_dir;
    if (folder && (stat(folder, &s) != 0 || !S_ISDIR(s.st_mode)))
        return cdz_err(err, CDZ_E_NOT_FOUND, "plugin_dir %s: is no folder", folder);
    const cdz_registry_options want = {
        .builtin_dir = folder,
        .locks = {options->lock, NULL},
        .allow_model_plugins = options->allow_model_plugins,
        .safe_mode = options->safe_mode,
    };
    return cdz_plugins_open_user(&want, options->plugins, options->n_plugins, out, err);
}

static cdz_status kv_type_of(const char *name, cdz_dtype *out, cdz_error *err)
{
    if (cdz_type_named(name, CDZ_F32, CDZ_N_KV, out, err) == CDZ_OK) return CDZ_OK;
    return cdz_err_prefix(err, "KV cache");
}

/* Which of a setting's words; the first where nobody says one. */
static cdz_status word_of(const char *setting, const char *word, uint32_t *which, cdz_error *err)
{
    *which = 0;
    return word ? cdz_setting_word(cdz_setting_named(setting), word, which, err) : CDZ_OK;
}

/* What the rows of the table have two words for: which of them. */
static cdz_status read_words(const cdz_options *options, cdz_engine_options *want, cdz_error *err)
{
    uint32_t precision, strict, numa, sharing, cache;
    CDZ_TRY(word_of("precision", options->precision, &precision, err));
    CDZ_TRY(word_of("determinism", options->determinism, &strict, err));
    CDZ_TRY(word_of("numa", options->numa, &numa, err));
    CDZ_TRY(word_of("block_sharing", options->block_sharing, &sharing, err));
    CDZ_TRY(word_of("prefix_cache", options->prefix_cache, &cache, err));
    want->machine.device.precision = precision ? CDZ_PRECISION_F32 : CDZ_PRECISION_AUTO;
    want->machine.device.strict = strict != 0;
    want->machine.numa = numa != 0;
    want->shares_nothing = sharing != 0;
    want->forgets = cache != 0;
    return CDZ_OK;
}

static unsigned said_by(const cdz_options *given)
{
    return (given->device ? CDZ_SAID_DEVICE : 0u) | (given->kv_cache ? CDZ_SAID_KV_TYPE : 0u) |
           (given->numa ? CDZ_SAID_NUMA : 0u);
}

static cdz_grammar_store_options grammar_options(const cdz_options *options)
{
    const uint64_t bytes = options->grammar_max_bytes;
    return (cdz_grammar_store_options){
        .limits = {.max_bytes = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX,
                   .max_states = options->grammar_max_states,
                   .max_ms = options->grammar_max_ms},
        .max_bytes = options->grammar_cache,
    };
}

static cdz_status open_engine(const cdz_options *given, cdz_runtime *rt, cdz_error *err)
{
    cdz_options filled = *given;
    const cdz_options *options = &filled;
    CDZ_TRY(cdz_settings_from_environment(&filled, err));
    cdz_engine_options want = {
        .machine = {.device = {.name = options->device, .folder = cdz_env_backends()},
                    .kv_type = CDZ_F32,
                    .said = said_by(given)},
        .progress = options->loading,
        .n_threads = options->n_threads,
        .cpu_variant = cdz_env_cpu(),
        .fibres = cdz_env_fibres(),
        .one_by_one = cdz_env_plan_off(),
        .kv_bytes = options->kv_bytes,
        .max_queue = options->max_queue,
        .max_running = options->max_running,
        .profile = options->profile,
        .grammar = grammar_options(options),
        .log = options->log,
        .log_user = options->log_user,
        .scheduler = (const cdz_scheduler *)(const void *)rt->scheduling.plugin.base,
        .scheduler_files = cdz_module_data(rt->scheduling.plugin.module),
        .scheduler_params = rt->scheduling.params,
    };
    if (options->kv_cache) CDZ_TRY(kv_type_of(options->kv_cache, &want.machine.kv_type, err));
    CDZ_TRY(read_words(options, &want, err));
    return cdz_engine_create(&want, &rt->engine, err);
}

cdz_status cdz_runtime_take_struct(const void *given, const char *name, void *out, size_t bytes,
                                   cdz_error *err)
{
    uint32_t size;
    if (!given) return CDZ_OK;
    memcpy(&size, given, sizeof size);
    if (size < 2 * sizeof size)
        return cdz_err(err, CDZ_E_USAGE, "%s.size is %u: set it to sizeof(%s)", name, size, name);
    memcpy(out, given, size < bytes ? size : bytes);
    return CDZ_OK;
}

bool cdz_runtime_is_here(const cdz_runtime *rt)
{
    return rt->process == getpid();
}

cdz_status cdz_runtime_check_process(const cdz_runtime *rt, cdz_error *err)
{
    if (cdz_runtime_is_here(rt)) return CDZ_OK;
    return cdz_err(err, CDZ_E_STATE,
                   "the runtime was opened by process %d, and fork leaves its thread behind: open "
                   "one in this process",
                   (int)rt->process);
}

cdz_status cdz_open(const cdz_options *options, cdz_runtime **out, cdz_error *err)
{
    cdz_options given = {0};
    CDZ_TRY(cdz_runtime_take_struct(options, "cdz_options", &given, sizeof given, err));
    cdz_runtime *rt = calloc(1, sizeof *rt);
    if (!rt) return cdz_err_memory(err, "the runtime");
    rt->process = getpid();
    cdz_mutex_init(&rt->lock);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&rt->changed, &clock);
    pthread_condattr_destroy(&clock);
    rt->events_end = &rt->events;
    rt->next_id = 1;

    cdz_status status = given.guard_files ? cdz_guard_begin(err) : CDZ_OK;
    rt->guards_files = given.guard_files && status == CDZ_OK;
    if (status == CDZ_OK) status = open_registry(&given, &rt->registry, err);
    if (status == CDZ_OK) status = cdz_scheduling_open(rt, &given, err);
    if (status == CDZ_OK) status = open_engine(&given, rt, err);
    if (status == CDZ_OK) status = cdz_pipeline_create(rt->registry, "", 0, "hf", &rt->hf, err);
    cdz_pipeline_cache_open(&rt->written, CDZ_PIPELINE_CACHE_BYTES, NULL, NULL);
    if (status != CDZ_OK) {
        cdz_close(rt);
        return status;
    }
    *out = rt;
    return CDZ_OK;
}

void cdz_close(cdz_runtime *rt)
{
    if (!rt || !cdz_runtime_is_here(rt)) return;
    cdz_engine_free(rt->engine); /* every request ends here, on_done included */
    cdz_entry_free_all(rt);
    cdz_pipeline_cache_close(&rt->written);
    if (rt->hf) cdz_pipeline_release(rt->hf);
    cdz_scheduling_close(&rt->scheduling);
    cdz_registry_free(rt->registry);
    cdz_own_free(rt->own);
    cdz_runtime_free_control(rt);
    pthread_cond_destroy(&rt->changed);
    cdz_mutex_destroy(&rt->lock);
    if (rt->guards_files) cdz_guard_end();
    free(rt);
}

const cdz_backend *cdz_runtime_backend(const cdz_runtime *runtime)
{
    return cdz_engine_backend(runtime->engine);
}

const cdz_backend *cdz_runtime_device(const cdz_runtime *runtime)
{
    return cdz_engine_device(runtime->engine);
}

char *cdz_profile_json(const cdz_runtime *runtime)
{
    cdz_profile_times times;
    cdz_buf out = {0};
    if (!cdz_engine_get_profile(runtime->engine, &times)) return NULL;
    cdz_profile_write_json(&times, cdz_runtime_device(runtime)->api->device, &out);
    if (!out.failed) return out.data;
    cdz_buf_free(&out);
    return NULL;
}

/* --- models ------------------------------------------------------------------------------------------- */

/* The tokenizer is optional: a folder without tokenizer.json takes ids only. */
static cdz_status open_tokenizer(const char *folder, cdz_tokenizer **out, cdz_error *err)
{
    cdz_error why = {0};
    cdz_status status = cdz_tokenizer_open(folder, out, &why);
    if (status == CDZ_E_NOT_FOUND) {
        *out = NULL;
        return CDZ_OK;
    }
    if (status != CDZ_OK) cdz_err(err, why.code, "%s", why.text);
    return status;
}

/* quantize NULL: as they are stored. */
static cdz_status open_weights(cdz_engine *engine, const char *folder, const cdz_model_options *how,
                               cdz_weights **out, cdz_error *err)
{
    const char *type = how->quantize;
    cdz_dtype dtype = CDZ_N_DTYPES;
    cdz_activations activations;
    const cdz_backend *device;
    *out = NULL;
    CDZ_TRY(cdz_activations_named(how->activations, &activations, err));
    if (type && cdz_type_named(type, CDZ_N_PLAIN, CDZ_N_MADE, &dtype, err) != CDZ_OK)
        return cdz_err_prefix(err, "quantize");
    CDZ_TRY(cdz_engine_open_device(engine, &device, err));
    CDZ_TRY(cdz_weights_open(folder, out, err));
    if (type) CDZ_TRY(cdz_weights_quantise(*out, dtype, err));
    return cdz_weights_set_activations(*out, activations, device, err);
}

static cdz_model *new_model(cdz_runtime *runtime, const char *folder)
{
    cdz_model *model = calloc(1, sizeof *model);
    if (!model) return NULL;
    atomic_init(&model->holders, 1);
    model->runtime = runtime;
    model->folder = strdup(folder ? folder : "function");
    model->chat.folder = model->folder;
    cdz_mutex_init(&model->chat.lock);
    if (model->folder) return model;
    cdz_model_close(model);
    return NULL;
}

cdz_status cdz_model_of_weights(cdz_runtime *runtime, const char *folder, bool tokenizes,
                                cdz_weights *weights, cdz_model **out, cdz_error *err)
{
    cdz_tokenizer *tokenizer = NULL;
    cdz_model *model = new_model(runtime, folder);
    cdz_status status = model ? CDZ_OK : cdz_err_memory(err, "the model");
    if (status == CDZ_OK)
        status = cdz_generation_of_model(cdz_weights_generation_config(weights),
                                         cdz_weights_config(weights), &model->arena,
                                         &model->generation, err);
    if (status == CDZ_OK && tokenizes) status = open_tokenizer(folder, &tokenizer, err);
    if (status != CDZ_OK) {
        cdz_weights_close(weights);
        cdz_model_close(model);
        return status;
    }
    /* From here on both belong to the run model, also when it cannot be made. */
    status = cdz_run_model_create(runtime->engine, weights, tokenizer, &model->run, err);
    if (status == CDZ_OK)
        *out = model;
    else
        cdz_model_close(model);
    return status;
}

cdz_status cdz_model_open(cdz_runtime *runtime, const char *folder,
                          const cdz_model_options *options, cdz_model **out, cdz_error *err)
{
    cdz_model_options given = {0};
    cdz_weights *weights;
    cdz_screen_use screen;
    CDZ_TRY(cdz_runtime_check_process(runtime, err));
    CDZ_TRY(cdz_runtime_take_struct(options, "cdz_model_options", &given, sizeof given, err));
    CDZ_TRY(cdz_screen_named(given.head_screen, &screen, err));
    cdz_status status = open_weights(runtime->engine, folder, &given, &weights, err);
    if (status != CDZ_OK) {
        cdz_weights_close(weights);
        return status;
    }
    CDZ_TRY(cdz_model_of_weights(runtime, folder, !given.no_tokenizer, weights, out, err));
    status = cdz_model_take_control(*out, &given, err);
    if (status == CDZ_OK) status = cdz_run_model_screen((*out)->run, screen, err);
    if (status == CDZ_OK) return CDZ_OK;
    cdz_model_close(*out);
    *out = NULL;
    return status;
}

void cdz_model_retain(cdz_model *model)
{
    atomic_fetch_add(&model->holders, 1);
}

void cdz_model_close(cdz_model *model)
{
    if (!model || atomic_fetch_sub(&model->holders, 1) != 1) return;
    if (model->run) cdz_run_model_release(model->run);
    cdz_chat_template_free(model->chat.chat);
    cdz_mutex_destroy(&model->chat.lock);
    cdz_arena_free(&model->arena);
    free(model->folder);
    free(model);
}

cdz_status cdz_model_save_prompts(cdz_model *model, const char *path, const char *salt,
                                  const int32_t *ids, size_t n, uint32_t *n_blocks, cdz_error *err)
{
    cdz_prompt_choice which = {.ids = ids, .n = n};
    if (salt) cdz_sha256(salt, strlen(salt), which.salt);
    return cdz_run_model_save_prompts(model->run, path, salt ? &which : NULL, n_blocks, err);
}

cdz_status cdz_model_load_prompts(cdz_model *model, const char *path, uint32_t *n_blocks,
                                  cdz_error *err)
{
    return cdz_run_model_load_prompts(model->run, path, n_blocks, err);
}

uint32_t cdz_model_vocab_size(const cdz_model *model)
{
    return (uint32_t)cdz_weights_arch(cdz_run_model_weights(model->run))->n_vocab;
}

uint32_t cdz_model_context(const cdz_model *model)
{
    return (uint32_t)cdz_weights_arch(cdz_run_model_weights(model->run))->context;
}

bool cdz_model_has_encoder(const cdz_model *model)
{
    return cdz_weights_arch(cdz_run_model_weights(model->run))->encoder != NULL;
}

uint32_t cdz_model_hidden_size(const cdz_model *model)
{
    return cdz_weights_arch(cdz_run_model_weights(model->run))->hidden;
}

static cdz_status the_tokenizer(const cdz_model *model, const cdz_tokenizer **out, cdz_error *err)
{
    *out = cdz_run_model_tokenizer(model->run);
    return *out
               ? CDZ_OK
               : cdz_err(err, CDZ_E_NOT_FOUND, "%s: the model has no tokenizer.json", model->folder);
}

cdz_status cdz_tokenize(const cdz_model *model, const char *text, size_t len, bool special,
                        int32_t **ids, size_t *n_ids, cdz_error *err)
{
    const cdz_tokenizer *tok;
    CDZ_TRY(the_tokenizer(model, &tok, err));
    cdz_encoding encoding = {0};
    cdz_status status = cdz_tokenizer_encode(
        tok, NULL, text, len, special ? CDZ_ENCODE_SPECIAL : CDZ_ENCODE_PLAIN, &encoding, err);
    if (status == CDZ_OK) {
        *ids = encoding.ids; /* allocated by realloc: the caller frees it */
        *n_ids = encoding.n;
        encoding.ids = NULL;
    }
    cdz_encoding_free(&encoding);
    return status;
}

/* The text that was made, to the caller; or nothing. */
static cdz_status give_text(cdz_buf *buf, cdz_status status, char **text, cdz_error *err)
{
    if (status == CDZ_OK && buf->failed) status = cdz_err_memory(err, "the text");
    if (status == CDZ_OK)
        *text = buf->data;
    else
        cdz_buf_free(buf);
    return status;
}

cdz_status cdz_detokenize(const cdz_model *model, const int32_t *ids, size_t n_ids,
                          bool skip_special, char **text, cdz_error *err)
{
    const cdz_tokenizer *tok;
    CDZ_TRY(the_tokenizer(model, &tok, err));
    cdz_buf buf = {0};
    cdz_buf_add(&buf, "", 0);
    cdz_status status = cdz_tokenizer_decode(tok, ids, n_ids,
                                             skip_special ? CDZ_DECODE_SKIP_SPECIAL : 0, &buf, err);
    return give_text(&buf, status, text, err);
}

/* --- pipelines ---------------------------------------------------------------------------------------- */

static cdz_status wish_device(cdz_engine *engine, const char *text, cdz_error *err)
{
    return cdz_engine_wish_device(engine, text, err);
}

static cdz_status wish_kv_cache(cdz_engine *engine, const char *text, cdz_error *err)
{
    cdz_dtype type;
    CDZ_TRY(kv_type_of(text, &type, err));
    return cdz_engine_wish_kv_type(engine, type, err);
}

static cdz_status wish_numa(cdz_engine *engine, const char *text, cdz_error *err)
{
    uint32_t spread;
    CDZ_TRY(word_of("numa", text, &spread, err));
    return cdz_engine_wish_numa(engine, spread != 0, err);
}

/* What the engine does with a setting that a pipeline file may have in [model]. */
static const struct {
    const char *name;
    cdz_status (*wish)(cdz_engine *engine, const char *text, cdz_error *err);
} wishes[] = {{"device", wish_device}, {"kv_cache", wish_kv_cache}, {"numa", wish_numa}};

static cdz_status wish(cdz_engine *engine, const cdz_setting *setting, const char *text,
                       cdz_error *err)
{
    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++)
        if (strcmp(wishes[i].name, setting->name) == 0) return wishes[i].wish(engine, text, err);
    return cdz_err(err, CDZ_E_UNSUPPORTED, "%s: the engine does not know it", setting->name);
}

/* What a pipeline asks for in [model] becomes the runtime's, while no model is open. */
static cdz_status with_model_keys(cdz_runtime *runtime, cdz_status status, cdz_pipeline **pipeline,
                                  cdz_error *err)
{
    const cdz_setting *setting;
    for (size_t i = 0; status == CDZ_OK && (setting = cdz_setting_at(i)) != NULL; i++) {
        cdz_origin at;
        if (!setting->section || strcmp(setting->section, "model") != 0) continue;
        const char *text = cdz_pipeline_host_setting(*pipeline, setting, &at);
        if (!text) continue;
        status = setting->home == CDZ_HOME_MODEL
                     ? cdz_runtime_wish_control(runtime, setting, text, &at, err)
                     : wish(runtime->engine, setting, text, err);
        if (status == CDZ_OK) continue;
        if (err)
            cdz_err_prefix(err, "%s:%u: [%s]", at.file, at.line,
                           setting->section); /* the pipeline's memory */
        cdz_pipeline_free(*pipeline);
        *pipeline = NULL;
    }
    return status;
}

cdz_status cdz_pipeline_load(cdz_runtime *runtime, const char *file, cdz_pipeline **out,
                             cdz_error *err)
{
    if (!file) return cdz_pipeline_create(runtime->registry, "", 0, "hf", out, err);
    return with_model_keys(
        runtime, cdz_pipeline_create_from_file(runtime->registry, file, out, err), out, err);
}

cdz_status cdz_pipeline_load_for_request(cdz_runtime *runtime, const char *file, cdz_pipeline **out,
                                         cdz_error *err)
{
    return with_model_keys(
        runtime, cdz_pipeline_create_for_request(runtime->registry, file, out, err), out, err);
}

cdz_status cdz_pipeline_parse(cdz_runtime *runtime, const char *text, size_t len, const char *name,
                              cdz_pipeline **out, cdz_error *err)
{
    return with_model_keys(
        runtime, cdz_pipeline_create(runtime->registry, text, len, name, out, err), out, err);
}

cdz_status cdz_pipeline_set(cdz_pipeline *pipeline, const char *name, const char *value,
                            cdz_error *err)
{
    return cdz_pipeline_override(pipeline, name, value, err);
}

cdz_status cdz_pipeline_custom_generate(cdz_pipeline *pipeline, const char *folder, cdz_error *err)
{
    return cdz_pipeline_set_strategy(pipeline, folder, err);
}

cdz_status cdz_pipeline_explain(cdz_pipeline *pipeline, const cdz_model *model, char **text,
                                cdz_error *err)
{
    cdz_buf buf = {0};
    cdz_status status =
        cdz_pipeline_explain_text(pipeline, model ? &model->generation : NULL, NULL, &buf, err);
    return give_text(&buf, status, text, err);
}

void cdz_pipeline_free(cdz_pipeline *pipeline)
{
    if (pipeline) cdz_pipeline_release(pipeline);
}
