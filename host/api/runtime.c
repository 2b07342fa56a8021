/* runtime.c - opening and closing: the runtime, its models and pipelines. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/plugins.h"
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
    const cdz_registry_options want = {
        .builtin_dir = options->plugin_dir,
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

static cdz_status numa_of(const char *name, bool *spread, cdz_error *err)
{
    uint32_t which = 0; /* off, the first word */
    if (name) CDZ_TRY(cdz_setting_word(cdz_setting_named("numa"), name, &which, err));
    *spread = which != 0;
    return CDZ_OK;
}

static cdz_status open_engine(const cdz_options *given, cdz_engine **out, cdz_error *err)
{
    cdz_options filled = *given;
    const cdz_options *options = &filled;
    CDZ_TRY(cdz_settings_from_environment(&filled, err));
    cdz_device_wish device = {.name = options->device, .folder = cdz_env_backends()};
    CDZ_TRY(cdz_precision_named(options->precision, &device.precision, err));
    CDZ_TRY(cdz_determinism_named(options->determinism, &device.strict, err));
    cdz_dtype kv_type = CDZ_F32;
    if (options->kv_cache) CDZ_TRY(kv_type_of(options->kv_cache, &kv_type, err));
    bool numa = false;
    CDZ_TRY(numa_of(options->numa, &numa, err));
    cdz_engine_options want = {
        .device = device,
        .device_fixed = given->device != NULL,
        .progress = options->loading,
        .n_threads = options->n_threads,
        .cpu_variant = cdz_env_cpu(),
        .fibres = cdz_env_fibres(),
        .one_by_one = cdz_env_plan_off(),
        .kv_bytes = options->kv_bytes,
        .kv_type = kv_type,
        .kv_type_fixed = given->kv_cache != NULL,
        .numa = numa,
        .numa_fixed = given->numa != NULL,
        .max_queue = options->max_queue,
        .max_running = options->max_running,
        .scheduler = options->scheduler,
        .block_sharing = options->block_sharing,
        .profile = options->profile,
        .log = options->log,
        .log_user = options->log_user,
    };
    return cdz_engine_create(&want, out, err);
}

cdz_status cdz_open(const cdz_options *options, cdz_runtime **out, cdz_error *err)
{
    cdz_options given = {0};
    if (options) {
        if (options->size < sizeof(uint32_t) * 2)
            return cdz_err(err, CDZ_E_USAGE,
                           "cdz_options.size is %u: set it to sizeof(cdz_options)", options->size);
        memcpy(&given, options, options->size < sizeof given ? options->size : sizeof given);
    }
    cdz_runtime *rt = calloc(1, sizeof *rt);
    if (!rt) return cdz_err(err, CDZ_E_NOMEM, "out of memory for the runtime");
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
    if (status == CDZ_OK) status = open_engine(&given, &rt->engine, err);
    if (status == CDZ_OK) status = cdz_pipeline_create(rt->registry, "", 0, "hf", &rt->hf, err);
    if (status != CDZ_OK) {
        cdz_close(rt);
        return status;
    }
    *out = rt;
    return CDZ_OK;
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
    CDZ_TRY(cdz_activations_named(how->activations, &activations, err));
    if (type && cdz_type_named(type, CDZ_N_PLAIN, CDZ_N_DTYPES, &dtype, err) != CDZ_OK)
        return cdz_err_prefix(err, "quantize");
    CDZ_TRY(cdz_engine_open_device(engine, &device, err));
    CDZ_TRY(cdz_weights_open(folder, out, err));
    if (type) CDZ_TRY(cdz_weights_quantise(*out, dtype, err));
    return cdz_weights_set_activations(*out, activations, device, err);
}

cdz_status cdz_model_open(cdz_runtime *runtime, const char *folder,
                          const cdz_model_options *options, cdz_model **out, cdz_error *err)
{
    cdz_model_options given = {0};
    if (options)
        memcpy(&given, options, options->size < sizeof given ? options->size : sizeof given);
    cdz_weights *weights = NULL;
    cdz_tokenizer *tokenizer = NULL;
    cdz_model *model = calloc(1, sizeof *model);
    if (!model) return cdz_err(err, CDZ_E_NOMEM, "out of memory for the model");
    atomic_init(&model->holders, 1);
    model->runtime = runtime;
    model->folder = strdup(folder);
    model->chat.folder = model->folder;
    cdz_mutex_init(&model->chat.lock);

    cdz_status status =
        model->folder ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "out of memory for the model");
    if (status == CDZ_OK) status = open_weights(runtime->engine, folder, &given, &weights, err);
    if (status == CDZ_OK)
        status = cdz_model_generation(cdz_weights_generation_config(weights),
                                      cdz_weights_config(weights), &model->arena,
                                      &model->generation, err);
    if (status == CDZ_OK && !given.no_tokenizer) status = open_tokenizer(folder, &tokenizer, err);
    if (status != CDZ_OK) {
        cdz_weights_close(weights);
        cdz_model_close(model);
        return status;
    }
    /* From here on both belong to the run model, also when it cannot be made. */
    status = cdz_run_model_create(runtime->engine, weights, tokenizer, &model->run, err);
    if (status != CDZ_OK) {
        cdz_model_close(model);
        return status;
    }
    *out = model;
    return CDZ_OK;
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
    if (status == CDZ_OK && buf->failed)
        status = cdz_err(err, CDZ_E_NOMEM, "out of memory for the text");
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
    bool spread;
    CDZ_TRY(numa_of(text, &spread, err));
    return cdz_engine_wish_numa(engine, spread, err);
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
        const char *text = cdz_pipeline_host_setting(*pipeline, setting, &at);
        if (!text) continue;
        status = wish(runtime->engine, setting, text, err);
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
