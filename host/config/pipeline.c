/* pipeline.c - the life of a pipeline: read, overridden, then frozen by its first plan.
 *
 * Owns: what was said of it beside its files (overrides, --custom-generate), and the newest edition. Not: reading (sources.c),
 * editions (editions.c), plans (plan.c). Invariant: nothing but a reload changes it once a plan was made. Thread: [any]. */
#include "config/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "config/pipeline_state.h"

static cdz_pipeline *new_pipeline(cdz_registry *registry, const char *name)
{
    cdz_pipeline *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    cdz_mutex_init(&p->lock);
    cdz_mutex_init(&p->reloading);
    cdz_mutex_init(&p->listening);
    atomic_init(&p->references, 1);
    atomic_init(&p->number, 0);
    p->registry = registry;
    p->overrides_end = &p->overrides;
    p->name = cdz_arena_strdup(&p->arena, name);
    if (p->name) return p;
    cdz_pipeline_release(p);
    return NULL;
}

/* Links at once, so that a file that names what is not there fails when it is read. */
static cdz_status finish(cdz_pipeline *p, cdz_pipeline **out, cdz_error *err)
{
    cdz_edition *first;
    const cdz_status st = cdz_pipeline_read(p, false, &first, err);
    if (st != CDZ_OK) {
        cdz_pipeline_release(p);
        return st;
    }
    cdz_pipeline_adopt(p, first);
    *out = p;
    return CDZ_OK;
}

cdz_status cdz_pipeline_create(cdz_registry *registry, const char *text, size_t len,
                               const char *name, cdz_pipeline **out, cdz_error *err)
{
    cdz_pipeline *p = new_pipeline(registry, name);
    if (!p) return cdz_err_memory_in(err, name);
    p->len = text ? len : 0;
    p->text = cdz_arena_strndup(&p->arena, text ? text : "", p->len);
    if (p->text) return finish(p, out, err);
    cdz_pipeline_release(p);
    return cdz_err_memory_in(err, name);
}

const char *cdz_pipeline_host_setting(const cdz_pipeline *pipeline, const cdz_setting *setting,
                                      cdz_origin *origin)
{
    cdz_pipeline *own = (cdz_pipeline *)(uintptr_t)pipeline; /* for its lock */
    cdz_mutex_lock(&own->lock);
    const cdz_written *written =
        own->now ? own->now->sources.host[cdz_setting_index(setting)] : NULL;
    cdz_mutex_unlock(&own->lock);
    if (!written) return NULL;
    *origin = written->origin;
    return written->text;
}

cdz_status cdz_pipeline_create_from_file(cdz_registry *registry, const char *path,
                                         cdz_pipeline **out, cdz_error *err)
{
    cdz_pipeline *p = new_pipeline(registry, path);
    if (!p) return cdz_err_memory_in(err, path);
    return finish(p, out, err);
}

cdz_status cdz_pipeline_create_for_request(cdz_registry *registry, const char *path,
                                           cdz_pipeline **out, cdz_error *err)
{
    cdz_pipeline *p = new_pipeline(registry, path);
    if (!p) return cdz_err_memory_in(err, path);
    p->of_request = true;
    return finish(p, out, err);
}

cdz_status cdz_pipeline_create_written(cdz_registry *registry, const char *text, size_t len,
                                       cdz_pipeline **out, cdz_error *err)
{
    cdz_pipeline *p = new_pipeline(registry, "the request's pipeline");
    if (p) p->text = cdz_arena_strndup(&p->arena, text, len);
    if (!p || !p->text) {
        cdz_pipeline_release(p);
        return cdz_err(err, CDZ_E_NOMEM, "request: out of memory for its pipeline");
    }
    p->len = len;
    p->of_request = p->written = true;
    return finish(p, out, err);
}

/* May the pipeline still change? The lock is held. */
static cdz_status check_open(const cdz_pipeline *p, cdz_error *err)
{
    cdz_assert_holds(&p->lock);
    if (!p->planned) return CDZ_OK;
    return cdz_err(err, CDZ_E_STATE, "%s: the pipeline is in use and cannot change any more",
                   p->name);
}

static void forget_link(cdz_edition *edition)
{
    cdz_link_free(edition->link);
    edition->link = NULL;
}

/* The override is the newest edition's already. The lock is held. */
static cdz_status remember(cdz_pipeline *p, const char *name, const char *value, cdz_error *err)
{
    cdz_assert_holds(&p->lock);
    cdz_override *o = cdz_arena_alloc(&p->arena, sizeof *o);
    if (o) {
        o->name = cdz_arena_strdup(&p->arena, name);
        o->value = cdz_arena_strdup(&p->arena, value);
    }
    if (!o || !o->name || !o->value) return cdz_err_memory_in(err, p->name);
    *p->overrides_end = o;
    p->overrides_end = &o->next;
    return CDZ_OK;
}

cdz_status cdz_pipeline_override(cdz_pipeline *pipeline, const char *name, const char *value,
                                 cdz_error *err)
{
    cdz_mutex_lock(&pipeline->lock);
    cdz_status st = check_open(pipeline, err);
    if (st == CDZ_OK) st = cdz_sources_override(&pipeline->now->sources, name, value, err);
    if (st == CDZ_OK) st = remember(pipeline, name, value, err);
    if (st == CDZ_OK) forget_link(pipeline->now);
    cdz_mutex_unlock(&pipeline->lock);
    return st;
}

cdz_status cdz_pipeline_set_strategy(cdz_pipeline *pipeline, const char *path_or_id, cdz_error *err)
{
    cdz_mutex_lock(&pipeline->lock);
    cdz_status st = check_open(pipeline, err);
    const char *copy = st == CDZ_OK ? cdz_arena_strdup(&pipeline->arena, path_or_id) : NULL;
    if (st == CDZ_OK && !copy) st = cdz_err_memory_in(err, pipeline->name);
    if (st == CDZ_OK) {
        pipeline->strategy = pipeline->now->strategy = copy;
        forget_link(pipeline->now);
    }
    cdz_mutex_unlock(&pipeline->lock);
    return st;
}

/* The lock is held. */
static cdz_status link_now(cdz_pipeline *pipeline, cdz_error *err)
{
    cdz_assert_holds(&pipeline->lock);
    cdz_edition *now = pipeline->now;
    if (now->link) return CDZ_OK;
    return cdz_link_create(pipeline->registry, &now->sources, now->strategy, false, &now->link, err);
}

cdz_status cdz_pipeline_freeze(cdz_pipeline *pipeline, cdz_edition **out, cdz_error *err)
{
    cdz_mutex_lock(&pipeline->lock);
    const cdz_status st = link_now(pipeline, err);
    if (st == CDZ_OK) {
        pipeline->planned = true;
        *out = pipeline->now;
        atomic_fetch_add_explicit(&pipeline->now->references, 1, memory_order_relaxed);
    }
    cdz_mutex_unlock(&pipeline->lock);
    return st;
}

cdz_status cdz_pipeline_check(cdz_pipeline *pipeline, cdz_error *err)
{
    cdz_mutex_lock(&pipeline->lock);
    cdz_status st = link_now(pipeline, err);
    cdz_mutex_unlock(&pipeline->lock);
    return st;
}

bool cdz_pipeline_names_strategy(const cdz_pipeline *pipeline)
{
    const cdz_written *w = cdz_sources_find(&pipeline->now->sources, "pipeline", "strategy");
    return w && strcmp(w->text, "auto") != 0;
}

const char *cdz_pipeline_name(const cdz_pipeline *pipeline)
{
    return pipeline->name;
}

bool cdz_pipeline_is_of(const cdz_pipeline *pipeline, const cdz_registry *registry)
{
    return pipeline->registry == registry;
}

void cdz_pipeline_retain(cdz_pipeline *pipeline)
{
    atomic_fetch_add_explicit(&pipeline->references, 1, memory_order_relaxed);
}

void cdz_pipeline_release(cdz_pipeline *pipeline)
{
    if (!pipeline) return;
    if (atomic_fetch_sub_explicit(&pipeline->references, 1, memory_order_acq_rel) != 1) return;
    cdz_edition_release(pipeline->now);
    cdz_arena_free(&pipeline->arena);
    cdz_mutex_destroy(&pipeline->lock);
    cdz_mutex_destroy(&pipeline->reloading);
    cdz_mutex_destroy(&pipeline->listening);
    free(pipeline);
}
