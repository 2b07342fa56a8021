/* engine.c - the engine's outside: creating and stopping it, models, submitting and cancelling; and its thread.
 *
 * Owns: the thread, the lock, and every model and task till it is told. Not: what a tick does (scheduler.c), the device
 * (devices.c). Whatever comes from other threads ends in the queue, a flag or an order, and wakes the engine. */
#include "run/engine/engine.h"

#include <fenv.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/machine_memory.h"
#include "base/stack.h"
#include "base/thread.h"
#include "run/engine/engine_parts.h"

enum { DEFAULT_RUNNING = 256, FEW_WANTS = 16 };

cdz_backend *cdz_engine_backend(const cdz_engine *engine)
{
    return engine->backend;
}

void cdz_engine_log(const cdz_engine *engine, cdz_log_level level, const char *plugin,
                    const char *text)
{
    if (engine && engine->log) engine->log(engine->log_user, level, plugin, text);
}

/* --- the thread ----------------------------------------------------------------------------------------------------- */

/* Models nobody holds any more, out of the list. The lock is held. */
static cdz_run_model *take_condemned(cdz_engine *engine)
{
    cdz_run_model *gone = NULL;
    cdz_assert_holds(&engine->lock);
    for (cdz_run_model **at = &engine->models; *at;) {
        cdz_run_model *model = *at;
        if (!model->condemned) {
            at = &model->next;
            continue;
        }
        *at = model->next;
        model->next = gone;
        gone = model;
    }
    return gone;
}

/* A KV state nobody holds any more; it stays in the list until it is taken apart. The lock is held. */
static cdz_kept *condemned_kept(cdz_engine *engine)
{
    cdz_assert_holds(&engine->lock);
    for (cdz_kept *kept = engine->kept; kept; kept = kept->next)
        if (kept->condemned) return kept;
    return NULL;
}

/* [engine] */
static void free_kept(cdz_engine *engine)
{
    for (;;) {
        cdz_mutex_lock(&engine->lock);
        cdz_kept *gone = condemned_kept(engine);
        cdz_mutex_unlock(&engine->lock);
        if (!gone) return;
        cdz_kept_destroy(gone);
    }
}

/* States that outlive the engine hold no blocks any more. */
static void orphan_kept(cdz_engine *engine)
{
    for (cdz_kept *kept = engine->kept; kept; kept = kept->next) {
        for (uint32_t i = 0; i < kept->n; i++) cdz_seq_clear(&kept->seqs[i]);
        cdz_kv_close(&kept->account);
        cdz_kv_close(&kept->states);
    }
    engine->kept = NULL;
}

void cdz_run_model_rest(cdz_run_model *model)
{
    cdz_layers_free(model->layers);
    cdz_packed_rest(model, NULL);
    cdz_kv_pool_free(model->pool);
    cdz_kv_pool_free(model->states);
    model->layers = NULL;
    model->pool = model->states = NULL;
}

static void unload(cdz_run_model *model)
{
    cdz_run_model_rest(model);
    cdz_screening_free(&model->screening, model->device);
    cdz_placed_free(model);
}

/* [engine], or the thread has ended. A late worker may still read weights: these stay mapped until none does. */
static void free_condemned(cdz_run_model *model)
{
    if (model) model->device->api->sync(model->device);
    for (cdz_run_model *next; model; model = next) {
        next = model->next;
        unload(model);
        cdz_run_model_destroy(model);
    }
}

static void cancel_all(cdz_engine *engine)
{
    for (cdz_task *task = engine->queue; task; task = task->next)
        atomic_store(&task->cancelled, true);
    for (cdz_task *task = engine->running; task; task = task->next)
        atomic_store(&task->cancelled, true);
}

/* Sleeps while there is nothing to do; false when it is time to end. */
static bool await_work(cdz_engine *engine)
{
    cdz_profile_mark(engine->profile, CDZ_WORK_IDLE);
    cdz_mutex_lock(&engine->lock);
    cdz_run_model *gone;
    while (!(gone = take_condemned(engine)) && !condemned_kept(engine) && !engine->queue &&
           !engine->running && !engine->order && !engine->stopping)
        cdz_mutex_wait(&engine->lock, &engine->wake, NULL);
    if (engine->stopping) cancel_all(engine);
    const bool go_on = !engine->stopping || engine->queue || engine->running,
               slept = !engine->running;
    cdz_mutex_unlock(&engine->lock);
    if (slept) cdz_profile_enter(engine->profile, CDZ_PASS_PROMPT);
    cdz_profile_mark(engine->profile, CDZ_WORK_SCHEDULE);
    free_kept(engine);
    free_condemned(gone);
    cdz_engine_serve(engine);
    return go_on;
}

static void *engine_main(void *arg)
{
    cdz_engine *engine = arg;
    fesetenv(FE_DFL_ENV); /* not that of whoever opened the runtime: bits would depend on it */
    void *spare = cdz_stack_begin();
    cdz_thread_serve(engine);
    while (await_work(engine)) {
        cdz_engine_tick(engine);
        cdz_engine_rest(engine);
    }
    cdz_referee_end(engine);
    cdz_stack_end(spare);
    return NULL;
}

/* --- creating and stopping ------------------------------------------------------------------------------------------ */

/* Of the machine, or of its control group; and weights are to come. */
static uint64_t default_kv_bytes(void)
{
    const double quarter = cdz_memory_limit() / 4, left = cdz_memory_free() / 2;
    if (quarter <= 0) return (uint64_t)1 << 30;
    return (uint64_t)(left > 0 && left < quarter ? left : quarter);
}

static cdz_status keep_wish(cdz_engine *engine, const cdz_device_wish *wish, cdz_error *err)
{
    cdz_device_wish *own = &engine->machine.device;
    if (wish->name) own->name = engine->wish_name = strdup(wish->name);
    if (wish->folder) own->folder = engine->wish_folder = strdup(wish->folder);
    if ((wish->name && !engine->wish_name) || (wish->folder && !engine->wish_folder))
        return cdz_err_memory(err, "the engine");
    return cdz_device_check_name(own, err);
}

/* A row-wise processor's calls come on the backend's threads too. */
static const cdz_on_thread on_thread = {cdz_stack_begin, cdz_stack_end};

static cdz_status start_parts(cdz_engine *engine, const cdz_engine_options *options, cdz_error *err)
{
    char why[256] = "";
    const cdz_cpu_options cpu = {options->cpu_variant, options->n_threads, &on_thread};
    /* However short memory gets, a pass has room for some wants: a tick in which nothing goes on would be the last. */
    engine->wants = malloc(FEW_WANTS * sizeof *engine->wants);
    if (!engine->wants) return cdz_err_memory(err, "the engine");
    engine->want_cap = FEW_WANTS;
    engine->fuses = !options->one_by_one;
    CDZ_TRY(keep_wish(engine, &options->machine.device, err));
    engine->backend = cdz_cpu_backend_create(&cpu, why, sizeof why);
    if (!engine->backend) return cdz_err(err, CDZ_E_USAGE, "%s", why);
    CDZ_TRY(cdz_fibres_create(options->fibres, &engine->fibres, err));
    if (cdz_thread_begin(&engine->thread, engine_main, engine) != 0)
        return cdz_err(err, CDZ_E_NOMEM, "the system gives no thread for the engine");
    engine->has_thread = true;
    return CDZ_OK;
}

typedef struct beginning {
    cdz_engine *engine;
    cdz_error *err;
    cdz_status status;
} beginning;

/* [engine] */
static void begin_scheduler(void *arg)
{
    beginning *b = arg;
    b->status = cdz_referee_begin(b->engine, b->err);
}

static cdz_status start(cdz_engine *engine, const cdz_engine_options *options, cdz_error *err)
{
    CDZ_TRY(start_parts(engine, options, err));
    beginning b = {.engine = engine, .err = err};
    if (options->scheduler) (void)cdz_engine_call(engine, begin_scheduler, &b);
    return b.status;
}

cdz_status cdz_engine_create(const cdz_engine_options *options, cdz_engine **out, cdz_error *err)
{
    cdz_engine *engine = calloc(1, sizeof *engine);
    if (!engine) return cdz_err_memory(err, "the engine");
    cdz_mutex_init(&engine->lock);
    pthread_cond_init(&engine->wake, NULL);
    pthread_cond_init(&engine->ordered, NULL);
    cdz_mutex_init(&engine->device_lock);
    engine->queue_end = &engine->queue;
    engine->next_id = 1;
    engine->budget.limit = options->kv_bytes ? options->kv_bytes : default_kv_bytes();
    engine->kv_given = options->kv_bytes != 0;
    engine->machine = options->machine;
    engine->referee.scheduler = options->scheduler;
    engine->referee.files = options->scheduler_files;
    engine->referee.params = options->scheduler_params;
    engine->shares_nothing = options->shares_nothing;
    engine->forgets = options->forgets;
    engine->max_queue = options->max_queue;
    engine->grammar = options->grammar;
    engine->max_running = options->max_running ? options->max_running : DEFAULT_RUNNING;
    engine->own_profile.now = CDZ_WORK_IDLE;
    engine->profile = options->profile ? &engine->own_profile : NULL;
    engine->log = options->log;
    engine->progress = options->progress;
    engine->log_user = options->log_user;
    const cdz_status status = start(engine, options, err);
    if (status != CDZ_OK) {
        cdz_engine_free(engine);
        return status;
    }
    *out = engine;
    return CDZ_OK;
}

void cdz_engine_free(cdz_engine *engine)
{
    if (!engine) return;
    if (engine->has_thread) {
        cdz_mutex_lock(&engine->lock);
        engine->stopping = true;
        cdz_engine_wake(engine);
        cdz_mutex_unlock(&engine->lock);
        pthread_join(engine->thread, NULL);
    }
    const void *served = cdz_thread_serve(engine); /* its own has ended */
    cdz_engine_end_outside(engine);
    free_kept(engine);
    orphan_kept(engine);
    cdz_mutex_lock(&engine->lock);
    cdz_run_model *gone = take_condemned(engine);
    cdz_mutex_unlock(&engine->lock);
    free_condemned(gone);
    for (cdz_run_model *model = engine->models; model; model = model->next) {
        unload(model);
        model->engine = NULL;
    }
    cdz_fibres_free(engine->fibres);
    cdz_thread_serve(served);
    if (engine->device && engine->device != engine->backend)
        engine->device->api->destroy(engine->device);
    if (engine->backend) engine->backend->api->destroy(engine->backend);
    free(engine->wants);
    free(engine->wish_name);
    free(engine->wish_folder);
    cdz_mutex_destroy(&engine->device_lock);
    pthread_cond_destroy(&engine->ordered);
    pthread_cond_destroy(&engine->wake);
    cdz_mutex_destroy(&engine->lock);
    free(engine);
}

/* --- models ---------------------------------------------------------------------------------------------------------- */

static void list_model(cdz_engine *engine, cdz_run_model *model)
{
    cdz_mutex_lock(&engine->lock);
    model->next = engine->models;
    engine->models = model;
    cdz_mutex_unlock(&engine->lock);
}

/* [any] */
static uint64_t kv_limit(const cdz_engine *engine)
{
    cdz_engine *own = (cdz_engine *)(uintptr_t)engine; /* for its lock */
    cdz_mutex_lock(&own->lock);
    const uint64_t limit = engine->budget.limit;
    cdz_mutex_unlock(&own->lock);
    return limit;
}

/* Before anything is made of a model: can its device keep keys and values in the type that was asked for? */
static cdz_status check_type(const cdz_run_model *model, cdz_error *err)
{
    const cdz_dtype type = model->shape.type;
    if (model->shape.head_dim % cdz_dtype_block(type))
        return cdz_err(
            err, CDZ_E_UNSUPPORTED,
            "KV cache in %s: blocks of %zu numbers do not go into this model's heads of %zu; "
            "f16 or bf16 do",
            cdz_dtype_name(type), cdz_dtype_block(type), model->shape.head_dim);
    if (model->block_bytes == 0 && type != CDZ_F32)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "KV cache in %s: %s does not keep keys and values in that type; %s",
                       cdz_dtype_name(type), model->device->api->name,
                       type < CDZ_N_PLAIN ? "f32 is always possible"
                                          : "f32, f16 and bf16 are possible");
    return CDZ_OK;
}

/* A type of weights that a device does not take. */
typedef struct untaken {
    const cdz_backend *device;
    cdz_dtype dtype; /* CDZ_N_DTYPES: it takes all */
} untaken;

static cdz_status visit_type(void *arg, cdz_weight *weight)
{
    untaken *u = arg;
    const cdz_backend_api *api = u->device->api;
    const bool taken =
        api->takes_type ? api->takes_type(u->device, weight->dtype) : weight->dtype < CDZ_N_MADE;
    if (!taken) u->dtype = weight->dtype;
    return CDZ_OK;
}

/* Before weights go to a device: has it what the model needs? */
static cdz_status check_needs(const cdz_run_model *model, cdz_error *err)
{
    const cdz_arch *a = &model->weights->arch;
    const cdz_backend_api *api = model->device->api;
    const char *need = NULL;
    untaken u = {model->device, CDZ_N_DTYPES};
    if (cdz_arch_has(a, CDZ_PART_SINKS) && !api->takes_sinks) need = "attention sinks";
    if (a->latent.kv_rank && !api->takes_latents) need = "latent attention";
    if (model->state_bytes && (!api->conv || (a->recurrent.heads && !api->recur)))
        need = "recurrent layers";
    if (a->activation == CDZ_ACT_CLAMPED && !api->clamped_mul) need = "clamped gates";
    if (a->streams.n && !api->host_memory) need = "rows of several streams";
    if (a->activation == CDZ_ACT_XIELU && !api->xielu) need = "xielu";
    if (need)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "%s: %s needs %s, which %s does not have; the cpu has",
                       model->weights->folder, a->model_type, need, api->name);
    CDZ_TRY(cdz_weights_each(model->weights, visit_type, &u));
    if (u.dtype == CDZ_N_DTYPES) return CDZ_OK;
    return cdz_err(err, CDZ_E_UNSUPPORTED,
                   "%s: weights of %s, which %s does not compute with; the cpu does",
                   model->weights->folder, cdz_dtype_name(u.dtype), api->name);
}

static cdz_status check_block(const cdz_engine *engine, const cdz_run_model *model, cdz_error *err)
{
    const uint64_t limit = kv_limit(engine);
    if (model->block_bytes > 0 && model->block_bytes <= limit) return CDZ_OK;
    return cdz_err(err, CDZ_E_LIMIT,
                   "KV memory: %" PRIu64 " bytes are allowed, but one block of %d positions of "
                   "this model takes %" PRIu64,
                   limit, CDZ_KV_BLOCK, model->block_bytes);
}

/* On its device, with KV memory beside it. */
static cdz_status settle(cdz_engine *engine, cdz_run_model *model, cdz_error *err)
{
    const cdz_backend *unused;
    CDZ_TRY(cdz_engine_open_device(engine, &unused, err));
    cdz_engine_spread(engine);
    model->device = engine->device;
    model->block_bytes = model->device->api->kv_block_bytes(model->device, &model->shape);
    CDZ_TRY(check_type(model, err));
    CDZ_TRY(check_needs(model, err));
    CDZ_TRY(cdz_engine_place(engine, model, err));
    CDZ_TRY(cdz_engine_fit_kv(engine, err));
    return check_block(engine, model, err);
}

/* What keys and values take. A model without attention keeps none: no sequence has a block, and a block has any shape. */
static cdz_kv_shape shape_of(const cdz_arch *arch, cdz_dtype type)
{
    if (!cdz_arch_attends(arch)) return (cdz_kv_shape){1, 1, 32, type, 0};
    return (cdz_kv_shape){cdz_arch_kv_layers(arch), arch->n_kv_heads, arch->head_dim, type,
                          arch->latent.kv_rank};
}

cdz_status cdz_run_model_create(cdz_engine *engine, cdz_weights *weights, cdz_tokenizer *tokenizer,
                                cdz_run_model **out, cdz_error *err)
{
    cdz_run_model *model = calloc(1, sizeof *model);
    if (!model) {
        cdz_tokenizer_free(tokenizer);
        cdz_weights_close(weights);
        return cdz_err_memory(err, "the model");
    }
    const cdz_arch *arch = &weights->arch;
    atomic_init(&model->holders, 1);
    cdz_mutex_init(&model->texts_lock);
    model->engine = engine;
    model->weights = weights;
    model->tokenizer = tokenizer;
    model->grammar_options = engine->grammar;
    model->shape = shape_of(arch, engine->machine.kv_type);
    model->state_bytes = cdz_arch_state_floats(arch) * sizeof(float);
    const cdz_status status = settle(engine, model, err);
    if (status == CDZ_OK || model->placed) list_model(engine, model);
    if (status == CDZ_OK)
        *out = model;
    else if (model->placed)
        cdz_run_model_release(model); /* on the engine's thread, which takes its weights back */
    else
        cdz_run_model_destroy(model);
    return status;
}

void cdz_run_model_set_function(cdz_run_model *model,
                                cdz_status (*forward)(void *user, const cdz_function_row *rows,
                                                      uint32_t n, cdz_error *err),
                                void *user)
{
    model->function = (cdz_function){.forward = forward, .user = user};
}

cdz_status cdz_run_model_control(cdz_run_model *model, const cdz_edit *edits, uint32_t n,
                                 cdz_error *err)
{
    const cdz_steerer whose = {.who = "control vectors", .lasting = true};
    cdz_assert(!model->control);
    return cdz_steering_make(NULL, edits, n, &whose, &model->weights->arch, &model->control, err);
}

cdz_status cdz_run_model_screen(cdz_run_model *model, cdz_screen_use use, cdz_error *err)
{
    CDZ_TRY(cdz_screen_check(use, model->weights, model->device, err));
    model->screening.how = use;
    return CDZ_OK;
}

void cdz_run_model_release(cdz_run_model *model)
{
    if (!model || atomic_fetch_sub(&model->holders, 1) != 1) return;
    cdz_engine *engine = model->engine;
    if (!engine) {
        cdz_run_model_destroy(model);
        return;
    }
    cdz_mutex_lock(&engine->lock);
    model->condemned = true;
    cdz_engine_wake(engine);
    cdz_mutex_unlock(&engine->lock);
}

/* --- submitting ------------------------------------------------------------------------------------------------------ */

/* Can the model's encoder, and the assistant's, run the prompts? */
static cdz_status check_sources(const cdz_job *job, cdz_error *err)
{
    const cdz_run_model *const models[] = {job->model, job->assistant};
    const cdz_arch *own = &job->model->weights->arch;
    if ((own->encoder != NULL) != (job->sources != NULL))
        return cdz_err(err, CDZ_E_INPUT, "%s: the request has %s", own->architecture,
                       job->sources ? "a prompt for an encoder, and the model has none"
                                    : "no prompt for the model's encoder");
    for (size_t i = 0; job->sources && i < sizeof models / sizeof *models; i++) {
        const cdz_arch *encoder = models[i] ? models[i]->weights->arch.encoder : NULL;
        for (uint32_t r = 0; encoder && r < job->n_prompts; r++)
            CDZ_TRY(cdz_encoded_check(encoder, job->sources[r].ids, job->sources[r].mask,
                                      job->source_len, r, err));
    }
    return CDZ_OK;
}

static cdz_status check_shape(const cdz_job *job, cdz_error *err)
{
    if (job->n_prompts == 0 || cdz_job_slots(job) == 0)
        return cdz_err(err, CDZ_E_INPUT, "the request has no prompt");
    if (!job->prompt_logits && (job->n_rows < job->n_prompts || job->n_rows % job->n_prompts != 0))
        return cdz_err(err, CDZ_E_INPUT, "the request has %" PRIu32 " rows for %" PRIu32 " prompts",
                       job->n_rows, job->n_prompts);
    const uint32_t n_vocab = job->model->weights->arch.n_vocab;
    CDZ_TRY(check_sources(job, err));
    for (uint32_t i = 0; i < job->n_others; i++)
        if (job->others[i].model->weights->arch.encoder)
            return cdz_err(err, CDZ_E_UNSUPPORTED,
                           "the model \"%s\" has an encoder, which would need a prompt of its own",
                           job->others[i].name);
    for (uint32_t r = 0; r < job->n_prompts; r++)
        for (uint32_t i = 0; i < job->prompt_len; i++)
            if (job->rows[r].ids[i] < 0 || (uint32_t)job->rows[r].ids[i] >= n_vocab)
                return cdz_err(err, CDZ_E_INPUT,
                               "prompt row %" PRIu32 ": token %" PRId32 " at %" PRIu32
                               " is outside the vocabulary of %" PRIu32,
                               r, job->rows[r].ids[i], i, n_vocab);
    return CDZ_OK;
}

/* Can the job's worst case ever fit? */
static cdz_status check_memory(const cdz_engine *engine, const cdz_job *job, cdz_error *err)
{
    const uint64_t blocks = cdz_job_least_blocks(job), limit = kv_limit(engine);
    uint64_t per_block = job->model->block_bytes, per_state = job->model->state_bytes, need, packed;
    const bool other = job->assistant && job->assistant != job->model;
    const uint64_t states = cdz_job_states(job);
    uint64_t recurrent;
    if (other) per_block += job->assistant->block_bytes;
    if (other) per_state += job->assistant->state_bytes;
    for (uint32_t i = 0; i < job->n_others; i++) {
        per_block += job->others[i].model->block_bytes;
        per_state += job->others[i].model->state_bytes;
    }
    const bool fits = !__builtin_mul_overflow(blocks, per_block, &need) &&
                      cdz_packed_bytes(job, &packed) &&
                      !__builtin_add_overflow(need, packed, &need) &&
                      !__builtin_mul_overflow(states, per_state, &recurrent) &&
                      !__builtin_add_overflow(need, recurrent, &need) && need <= limit &&
                      blocks <= CDZ_KV_MOST_BLOCKS && (!per_state || states <= CDZ_KV_MOST_BLOCKS);
    if (fits) return CDZ_OK;
    if (per_state)
        return cdz_err(err, CDZ_E_LIMIT,
                       "the request needs KV memory for %" PRIu64 " blocks of %" PRIu64
                       " bytes and %" PRIu64 " recurrent states of %" PRIu64 " (%" PRIu32
                       " rows of up to %" PRIu32 " tokens), but %" PRIu64
                       " bytes are allowed; ask for fewer rows or allow more KV memory",
                       blocks, per_block, states, per_state, job->n_rows, job->max_length, limit);
    if (job->packing.bits)
        return cdz_err(err, CDZ_E_LIMIT,
                       "the request needs KV memory for %" PRIu32 " rows of up to %" PRIu32
                       " tokens, the newest in float32 and the others quantised, more than the "
                       "%" PRIu64 " bytes that are allowed; ask for fewer new tokens or allow more "
                       "KV memory",
                       job->n_rows, job->max_length, limit);
    return cdz_err(err, CDZ_E_LIMIT,
                   "the request needs KV memory for %" PRIu64 " positions (%" PRIu32
                   " rows of up to %" PRIu32 " tokens): %" PRIu64 " blocks of %" PRIu64
                   " bytes, but %" PRIu64 " bytes are allowed; ask for fewer new tokens or allow "
                   "more KV memory",
                   blocks * CDZ_KV_BLOCK, job->n_rows, job->max_length, blocks, per_block, limit);
}

uint32_t cdz_engine_places(const cdz_engine *engine)
{
    const uint32_t most = engine->max_running, n = engine->n_running;
    const uint32_t here = n - (engine->n_away < n ? engine->n_away : n);
    const uint32_t free = here < most ? most - here : 0, rest = 2 * most > n ? 2 * most - n : 0;
    return free < rest ? free : rest;
}

/* Those behind the places that are free. */
static cdz_engine_line see_line(const cdz_engine *engine)
{
    cdz_engine_line line = {0};
    cdz_assert_holds(&engine->lock);
    const bool held = engine->holds_queue && engine->n_running > 0;
    uint32_t places = held ? 0 : cdz_engine_places(engine);
    for (const cdz_task *task = engine->queue; task; task = task->next) {
        if (places > 0) {
            places--;
            continue;
        }
        line.n++;
        line.rows += task->job->n_rows;
        line.prompt_tokens += (uint64_t)task->job->prompt_len * task->job->n_prompts;
    }
    return line;
}

uint64_t cdz_engine_new_id(cdz_engine *engine)
{
    cdz_mutex_lock(&engine->lock);
    const uint64_t id = engine->next_id++;
    cdz_mutex_unlock(&engine->lock);
    return id;
}

static cdz_status enqueue(cdz_engine *engine, cdz_task *task, uint64_t *id, cdz_error *err)
{
    cdz_status status = CDZ_OK;
    cdz_mutex_lock(&engine->lock);
    const uint32_t n_waiting = engine->max_queue ? see_line(engine).n : 0;
    if (engine->stopping)
        status = cdz_err(err, CDZ_E_STATE, "the engine is being stopped");
    else if (engine->max_queue && n_waiting >= engine->max_queue)
        status = cdz_err(err, CDZ_E_LIMIT,
                         "%" PRIu32 " requests are waiting already; no more are "
                         "accepted",
                         n_waiting);
    if (status == CDZ_OK) {
        *id = task->id = task->job->id ? task->job->id : engine->next_id++;
        task->came_at = engine->stats.passes;
        task->life = CDZ_TASK_QUEUED;
        *engine->queue_end = task;
        engine->queue_end = &task->next;
        engine->n_queued++;
        cdz_engine_wake(engine);
    }
    cdz_mutex_unlock(&engine->lock);
    return status;
}

/* A function gives scores of ids, and nothing else. */
static cdz_status check_function(const cdz_job *job, cdz_error *err)
{
    const char *what = NULL;
    const bool drafts = job->assistant && job->assistant->function.forward;
    if (!job->model->function.forward && !drafts) return CDZ_OK;
    if (job->keep_hidden) what = "hidden states (output_hidden_states)";
    if (job->keep_attentions) what = "attention weights (output_attentions)";
    if (job->n_embeds) what = "passes over embeddings";
    if (!what) return CDZ_OK;
    return cdz_err(err, CDZ_E_UNSUPPORTED,
                   "the request needs %s; a model that is a function has scores of ids alone", what);
}

cdz_status cdz_engine_submit(cdz_engine *engine, cdz_job *job, uint64_t *id, cdz_error *err)
{
    cdz_task *task = NULL;
    cdz_status status = check_shape(job, err);
    if (status == CDZ_OK) status = check_function(job, err);
    if (status == CDZ_OK) status = cdz_packed_choose(job, err);
    if (status == CDZ_OK) status = check_memory(engine, job, err);
    if (status == CDZ_OK && !job->prompt_logits && !job->plan)
        status = cdz_err(err, CDZ_E_USAGE, "the request has no plan to decode by");
    if (status == CDZ_OK) status = cdz_task_create(engine, job, &task, err);
    if (status != CDZ_OK) {
        cdz_job_free(job);
        return status;
    }
    status = enqueue(engine, task, id, err);
    if (status != CDZ_OK) {
        cdz_outcome_free(task->outcome);
        cdz_task_free(task);
    }
    return status;
}

static cdz_task *find_task(cdz_task *list, uint64_t id)
{
    while (list && list->id != id) list = list->next;
    return list;
}

bool cdz_engine_is_waiting(cdz_engine *engine, uint64_t id)
{
    cdz_mutex_lock(&engine->lock);
    const bool waits = find_task(engine->queue, id) != NULL;
    cdz_mutex_unlock(&engine->lock);
    return waits;
}

uint32_t cdz_engine_n_waiting(cdz_engine *engine)
{
    cdz_mutex_lock(&engine->lock);
    const uint32_t n = engine->n_queued;
    cdz_mutex_unlock(&engine->lock);
    return n;
}

cdz_engine_line cdz_engine_see_line(cdz_engine *engine)
{
    cdz_mutex_lock(&engine->lock);
    const cdz_engine_line line = see_line(engine);
    cdz_mutex_unlock(&engine->lock);
    return line;
}

static cdz_task *find_open(const cdz_engine *engine, uint64_t id)
{
    cdz_assert_holds(&engine->lock);
    cdz_task *task = find_task(engine->queue, id);
    return task ? task : find_task(engine->running, id);
}

static cdz_status not_open(uint64_t id, cdz_error *err)
{
    return cdz_err(err, CDZ_E_NOT_FOUND, "no request %" PRIu64 " is waiting or running", id);
}

cdz_status cdz_engine_cancel(cdz_engine *engine, uint64_t id, cdz_error *err)
{
    cdz_mutex_lock(&engine->lock);
    cdz_task *task = find_open(engine, id);
    if (task) atomic_store(&task->cancelled, true);
    if (task) cdz_engine_wake(engine);
    cdz_mutex_unlock(&engine->lock);
    return task ? CDZ_OK : not_open(id, err);
}

cdz_status cdz_engine_pause(cdz_engine *engine, uint64_t id, bool paused, cdz_error *err)
{
    cdz_mutex_lock(&engine->lock);
    cdz_task *task = find_open(engine, id);
    if (task && atomic_exchange(&task->held_back, paused) != paused) cdz_engine_wake(engine);
    cdz_mutex_unlock(&engine->lock);
    return task ? CDZ_OK : not_open(id, err);
}

bool cdz_engine_get_profile(const cdz_engine *engine, cdz_profile_times *out)
{
    cdz_engine *own = (cdz_engine *)(uintptr_t)engine; /* for its lock */
    cdz_mutex_lock(&own->lock);
    *out = own->times;
    cdz_mutex_unlock(&own->lock);
    return engine->profile;
}

void cdz_engine_get_stats(const cdz_engine *engine, cdz_engine_stats *out)
{
    cdz_engine *own = (cdz_engine *)(uintptr_t)engine; /* for its lock */
    cdz_mutex_lock(&own->lock);
    *out = own->stats;
    cdz_mutex_unlock(&own->lock);
}
