/* devices.c - the engine's device: opening it, a model's weights on it, and what is left there for KV memory.
 *
 * A backend takes calls from one thread at a time, and that is the engine's: a thread that opens a model has its weights
 * placed by calls that the engine makes between two ticks, one for each weight, so that requests go on meanwhile. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size_text.h"
#include "run/engine/engine_parts.h"

/* Of a device's memory: kept back from KV blocks for activations, libraries and neighbours, but no more than the cap. */
enum { KEPT_BACK_SHARE = 10 };
static const uint64_t kept_back_cap = (uint64_t)2 << 30;

/* Weights that several places may share stand first among all: embeddings and heads. */
enum { MAY_BE_SHARED = 16 };

/* --- opening ------------------------------------------------------------------------------------------------------ */

static cdz_status open_device(cdz_engine *engine, cdz_backend **out, cdz_error *err)
{
    cdz_device_found found;
    CDZ_TRY(cdz_device_find(&engine->machine.device, &found, err));
    if (found.entry) return cdz_device_create(&engine->machine.device, &found, out, err);
    *out = engine->backend;
    if (!found.why[0]) return CDZ_OK;
    char text[600];
    snprintf(text, sizeof text, "auto: passes run on the CPU: %s", found.why);
    cdz_engine_log(engine, CDZ_LOG_WARNING, "device", text);
    return CDZ_OK;
}

const cdz_backend *cdz_engine_device(const cdz_engine *engine)
{
    return engine->device ? engine->device : engine->backend;
}

cdz_status cdz_engine_open_device(cdz_engine *engine, const cdz_backend **out, cdz_error *err)
{
    cdz_status status = CDZ_OK;
    cdz_backend *device = NULL;
    cdz_mutex_lock(&engine->device_lock);
    if (!engine->device) {
        status = open_device(engine, &device, err);
        cdz_mutex_lock(&engine->lock);
        engine->device = device;
        cdz_mutex_unlock(&engine->lock);
    }
    *out = engine->device;
    cdz_mutex_unlock(&engine->device_lock);
    return status;
}

/* --- what pipelines ask for, while no model is open ------------------------------------------------------------------ */

/* Is another one to be had than the present one? What the embedder said stays. */
static bool changes(const cdz_engine *engine, cdz_engine_said what, bool same)
{
    cdz_assert_holds(&engine->device_lock);
    return !same && !(engine->machine.said & what);
}

static cdz_status wish_device(cdz_engine *engine, const char *name, cdz_error *err)
{
    cdz_device_wish wish = engine->machine.device;
    const char *was = wish.name ? wish.name : "cpu";
    wish.name = name;
    CDZ_TRY(cdz_device_check_name(&wish, err));
    if (!changes(engine, CDZ_SAID_DEVICE, strcmp(was, name) == 0)) return CDZ_OK;
    if (engine->device)
        return cdz_err(err, CDZ_E_STATE, "device '%.60s': models are open on %s already", name,
                       engine->device->api->device);
    char *kept = strdup(name);
    if (!kept) return cdz_err_memory(err, "a device's name");
    free(engine->wish_name);
    engine->machine.device.name = engine->wish_name = kept;
    return CDZ_OK;
}

static cdz_status wish_kv_type(cdz_engine *engine, cdz_dtype type, cdz_error *err)
{
    const cdz_dtype was = engine->machine.kv_type;
    if (!changes(engine, CDZ_SAID_KV_TYPE, type == was)) return CDZ_OK;
    if (engine->device)
        return cdz_err(err, CDZ_E_STATE, "KV cache in %s: models are open with %s already",
                       cdz_dtype_name(type), cdz_dtype_name(was));
    engine->machine.kv_type = type;
    return CDZ_OK;
}

static cdz_status wish_numa(cdz_engine *engine, bool spread, cdz_error *err)
{
    if (!changes(engine, CDZ_SAID_NUMA, spread == engine->machine.numa)) return CDZ_OK;
    if (engine->device)
        return cdz_err(err, CDZ_E_STATE, "numa %s: models are open with %s already",
                       spread ? "spread" : "off", spread ? "off" : "spread");
    engine->machine.numa = spread;
    return CDZ_OK;
}

cdz_status cdz_engine_wish_device(cdz_engine *engine, const char *name, cdz_error *err)
{
    cdz_mutex_lock(&engine->device_lock);
    const cdz_status status = wish_device(engine, name, err);
    cdz_mutex_unlock(&engine->device_lock);
    return status;
}

cdz_status cdz_engine_wish_kv_type(cdz_engine *engine, cdz_dtype type, cdz_error *err)
{
    cdz_mutex_lock(&engine->device_lock);
    const cdz_status status = wish_kv_type(engine, type, err);
    cdz_mutex_unlock(&engine->device_lock);
    return status;
}

cdz_status cdz_engine_wish_numa(cdz_engine *engine, bool spread, cdz_error *err)
{
    cdz_mutex_lock(&engine->device_lock);
    const cdz_status status = wish_numa(engine, spread, err);
    cdz_mutex_unlock(&engine->device_lock);
    return status;
}

/* --- calls on the engine's thread ---------------------------------------------------------------------------------- */

bool cdz_engine_call(cdz_engine *engine, void (*run)(void *arg), void *arg)
{
    cdz_engine_order order = {.run = run, .arg = arg};
    cdz_mutex_lock(&engine->lock);
    while (engine->order && !engine->stopping)
        cdz_mutex_wait(&engine->lock, &engine->ordered, NULL);
    const bool runs = !engine->stopping;
    if (runs) {
        /* cppcheck-suppress autoVariables ; it is waited for */
        engine->order = &order;
        cdz_engine_wake(engine);
        while (!order.done) cdz_mutex_wait(&engine->lock, &engine->ordered, NULL);
    }
    cdz_mutex_unlock(&engine->lock);
    return runs;
}

void cdz_engine_serve(cdz_engine *engine)
{
    cdz_mutex_lock(&engine->lock);
    cdz_engine_order *order = engine->order;
    cdz_mutex_unlock(&engine->lock);
    if (!order) return;
    cdz_profile_mark(engine->profile, CDZ_WORK_IDLE); /* it is no request's time */
    order->run(order->arg);
    cdz_profile_mark(engine->profile, CDZ_WORK_SCHEDULE);
    cdz_mutex_lock(&engine->lock);
    order->done = true;
    engine->order = NULL;
    pthread_cond_broadcast(&engine->ordered);
    cdz_mutex_unlock(&engine->lock);
}

/* --- nodes of memory ----------------------------------------------------------------------------------------------- */

uint32_t cdz_engine_nodes(const cdz_engine *engine)
{
    return atomic_load(&engine->nodes);
}

static void spread(void *arg)
{
    cdz_engine *engine = arg;
    if (atomic_load(&engine->nodes) == 0)
        atomic_store(&engine->nodes, cdz_cpu_spread(engine->backend, NULL));
}

/* A device has been opened, so the wish stays what it is. */
void cdz_engine_spread(cdz_engine *engine)
{
    if (engine->machine.numa && cdz_engine_nodes(engine) == 0)
        (void)cdz_engine_call(engine, spread, engine);
}

/* --- weights ------------------------------------------------------------------------------------------------------- */

struct cdz_placed {
    cdz_weight *weight;
    const void *from; /* where it lies in memory of the host */
    const void *at;   /* of the device; NULL: shared with an earlier one, or not there yet */
};

typedef struct collecting {
    cdz_placed *all;
    size_t n;
} collecting;

static cdz_status count(void *arg, cdz_weight *weight)
{
    (void)weight;
    ++*(size_t *)arg;
    return CDZ_OK;
}

static cdz_status collect(void *arg, cdz_weight *weight)
{
    collecting *c = arg;
    c->all[c->n++] = (cdz_placed){.weight = weight, .from = weight->data};
    return CDZ_OK;
}

static size_t bytes_of(const cdz_placed *p)
{
    return cdz_row_bytes(p->weight->dtype, p->weight->k) * p->weight->n;
}

/* An earlier one of the same bytes, or NULL. */
static const cdz_placed *same_as(const cdz_placed *all, size_t i)
{
    for (size_t j = 0; j < i && j < MAY_BE_SHARED; j++)
        if (all[j].from == all[i].from && bytes_of(&all[j]) == bytes_of(&all[i])) return &all[j];
    return NULL;
}

typedef struct placing {
    cdz_backend *device;
    cdz_placed *one;
} placing;

/* [engine] */
static void place_one(void *arg)
{
    const placing *p = arg;
    p->one->at = p->device->api->place(p->device, p->one->from, bytes_of(p->one));
    if (p->one->at) p->one->weight->data = p->one->at;
}

void cdz_placed_free(cdz_run_model *model)
{
    cdz_backend *device = model->device;
    for (size_t i = 0; i < model->n_placed; i++) {
        cdz_placed *p = &model->placed[i];
        if (p->at) device->api->unplace(device, p->at);
        p->weight->data = p->from;
    }
    free(model->placed);
    model->placed = NULL;
    model->n_placed = 0;
}

static void free_idle_call(void *arg)
{
    cdz_engine_free_idle(arg);
}

static void free_call(void *arg)
{
    cdz_placed_free(arg);
}

static uint64_t bytes_in_all(const cdz_run_model *model)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < model->n_placed; i++)
        if (!same_as(model->placed, i)) bytes += bytes_of(&model->placed[i]);
    return bytes;
}

typedef struct device_memory {
    cdz_backend *device;
    size_t free_bytes, total;
} device_memory;

static void look_at_memory(void *arg)
{
    device_memory *m = arg;
    m->device->api->memory(m->device, &m->free_bytes, &m->total);
}

/* Asked by the engine's thread, which may be about to give some back. */
static device_memory memory_of(cdz_engine *engine, const cdz_run_model *model)
{
    device_memory m = {.device = model->device};
    if (!cdz_engine_call(engine, look_at_memory, &m)) look_at_memory(&m);
    return m;
}

static cdz_status too_little(cdz_engine *engine, const cdz_run_model *model, uint64_t need,
                             uint64_t done, cdz_error *err)
{
    cdz_size_text want, had, all, there;
    const device_memory memory = memory_of(engine, model);
    cdz_size_write(&want, need);
    cdz_size_write(&had, memory.free_bytes);
    cdz_size_write(&all, memory.total);
    cdz_size_write(&there, done);
    if (done)
        return cdz_err(err, CDZ_E_NOMEM,
                       "%s: its weights take %s, and after %s of them %s has no room for more: %s "
                       "of %s are free",
                       model->weights->folder, want.text, there.text, model->device->api->device,
                       had.text, all.text);
    return cdz_err(err, CDZ_E_LIMIT,
                   "%s: its weights take %s, but of the %s of %s only %s are free; quantise them, "
                   "or run on another device",
                   model->weights->folder, want.text, all.text, model->device->api->device,
                   had.text);
}

static cdz_status place_all(cdz_engine *engine, cdz_run_model *model, uint64_t need, cdz_error *err)
{
    uint64_t done = 0;
    for (size_t i = 0; i < model->n_placed; i++) {
        cdz_placed *p = &model->placed[i];
        const cdz_placed *same = same_as(model->placed, i);
        placing one = {model->device, p};
        if (same) {
            p->weight->data = same->at;
            continue;
        }
        if (!cdz_engine_call(engine, place_one, &one))
            return cdz_err(err, CDZ_E_STATE, "the engine is being stopped");
        if (!p->at) return too_little(engine, model, need, done, err);
        cdz_weights_let_go(&(cdz_weight){
            .data = p->from, .dtype = p->weight->dtype, .n = p->weight->n, .k = p->weight->k});
        done += bytes_of(p);
        if (engine->progress)
            engine->progress(engine->log_user, model->weights->folder, done, need);
    }
    return CDZ_OK;
}

cdz_status cdz_engine_place(cdz_engine *engine, cdz_run_model *model, cdz_error *err)
{
    size_t n = 0;
    if (model->device->api->host_memory) return CDZ_OK;
    (void)cdz_weights_each(model->weights, count, &n); /* neither fails */
    collecting c = {.all = calloc(n ? n : 1, sizeof *c.all)};
    if (!c.all) return cdz_err_memory(err, "the model");
    (void)cdz_weights_each(model->weights, collect, &c);
    model->placed = c.all;
    model->n_placed = n;
    const uint64_t need = bytes_in_all(model);
    device_memory memory = memory_of(engine, model);
    if (need > memory.free_bytes && cdz_engine_call(engine, free_idle_call, engine))
        memory = memory_of(engine, model);
    cdz_status status = need > memory.free_bytes ? too_little(engine, model, need, 0, err)
                                                 : place_all(engine, model, need, err);
    if (status != CDZ_OK && !cdz_engine_call(engine, free_call, model)) cdz_placed_free(model);
    return status;
}

/* --- KV memory ----------------------------------------------------------------------------------------------------- */

/* Of all pools there are. */
static uint64_t bytes_of_pools(const cdz_engine *engine)
{
    uint64_t bytes = 0;
    for (const cdz_run_model *m = engine->models; m; m = m->next) {
        if (m->pool) bytes += cdz_kv_pool_bytes(m->pool);
        if (m->states) bytes += cdz_kv_pool_bytes(m->states);
    }
    return bytes;
}

/* [engine] */
static void measure(void *arg)
{
    cdz_engine *engine = arg;
    size_t free_bytes, total;
    engine->device->api->memory(engine->device, &free_bytes, &total);
    uint64_t kept = total / KEPT_BACK_SHARE;
    if (kept > kept_back_cap) kept = kept_back_cap;
    cdz_mutex_lock(&engine->lock);
    engine->kv_room = bytes_of_pools(engine) + (free_bytes > kept ? free_bytes - kept : 0);
    if (!engine->kv_given) engine->budget.limit = engine->kv_room;
    cdz_mutex_unlock(&engine->lock);
}

static bool is_idle(const cdz_run_model *model)
{
    return model->pool && cdz_kv_pool_idle(model->pool) &&
           (!model->states || cdz_kv_pool_idle(model->states));
}

void cdz_engine_free_idle(cdz_engine *engine)
{
    if (engine->device->api->host_memory) return;
    cdz_mutex_lock(&engine->lock);
    for (cdz_run_model *m = engine->models; m; m = m->next)
        if (is_idle(m)) cdz_run_model_rest(m);
    cdz_mutex_unlock(&engine->lock);
    measure(engine);
}

cdz_status cdz_engine_fit_kv(cdz_engine *engine, cdz_error *err)
{
    if (engine->device->api->host_memory) return CDZ_OK;
    if (!cdz_engine_call(engine, measure, engine))
        return cdz_err(err, CDZ_E_STATE, "the engine is being stopped");
    cdz_mutex_lock(&engine->lock);
    const uint64_t limit = engine->budget.limit, room = engine->kv_room;
    cdz_mutex_unlock(&engine->lock);
    if (limit <= room) return CDZ_OK;
    cdz_size_text asked, there;
    cdz_size_write(&asked, limit);
    cdz_size_write(&there, room);
    return cdz_err(err, CDZ_E_LIMIT,
                   "KV memory: %s were asked for, but beside the weights %s has room for %s",
                   asked.text, engine->device->api->device, there.text);
}

enum { ROW_BLOCKS = 4096 / CDZ_KV_BLOCK, FEW_STATES = 64 };

/* How many states beside blocks: as a row of so many blocks has them, but not fewer than a few unless these took more than a
 * quarter; and so that this request has enough of both, if it can. */
static uint64_t share_states(uint64_t left, uint64_t per_block, uint64_t per_state,
                             const cdz_kv_need *need)
{
    const uint64_t row = CDZ_STATES_A_ROW * per_state + ROW_BLOCKS * per_block,
                   quarter = left / 4 / per_state,
                   few = quarter < FEW_STATES ? quarter : FEW_STATES,
                   blocks = need->blocks * per_block,
                   most = left > blocks ? (left - blocks) / per_state : 0;
    uint64_t n = left / row * CDZ_STATES_A_ROW + left % row * CDZ_STATES_A_ROW / row;
    if (n < few) n = few;
    if (n > most) n = most;
    return n < need->states ? need->states : n;
}

/* A device's memory is taken when it is asked for, so pools share it out: by the size of their blocks and states, since a request
 * takes as many of its draft model's as of its model's. */
cdz_pool_bytes cdz_engine_pool_bytes(cdz_engine *engine, const cdz_run_model *model,
                                     const cdz_kv_need *need)
{
    uint64_t per_block = 0, per_state = 0;
    if (engine->device->api->host_memory)
        return (cdz_pool_bytes){engine->budget.limit, engine->budget.limit};
    cdz_mutex_lock(&engine->lock);
    const uint64_t taken = bytes_of_pools(engine);
    for (const cdz_run_model *m = engine->models; m; m = m->next) {
        if (m->pool || m->condemned) continue;
        per_block += m->block_bytes;
        per_state += m->state_bytes;
    }
    cdz_mutex_unlock(&engine->lock);
    const uint64_t left = engine->budget.limit > taken ? engine->budget.limit - taken : 0,
                   states = per_state ? share_states(left, per_block, per_state, need) : 0,
                   beside = states * per_state < left ? left - states * per_state : 0;
    return (cdz_pool_bytes){per_block ? beside / per_block * model->block_bytes : beside,
                            states * model->state_bytes};
}
