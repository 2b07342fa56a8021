/* pipeline.c - the life of a pipeline: read, overridden, then frozen by its first plan. */
#include "config/pipeline.h"

#include <stdlib.h>

#include "config/pipeline_state.h"

static cdz_pipeline *new_pipeline(cdz_registry *registry, const char *name)
{
    cdz_pipeline *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    if (pthread_mutex_init(&p->lock, NULL) != 0) {
        free(p);
        return NULL;
    }
    atomic_init(&p->references, 1);
    p->registry = registry;
    p->sources.arena = &p->arena;
    p->name = cdz_arena_strdup(&p->arena, name);
    if (p->name) return p;
    cdz_pipeline_release(p);
    return NULL;
}

/* Links at once, so that a file that names what is not there fails when it is read. */
static cdz_status finish(cdz_pipeline *p, cdz_status st, cdz_pipeline **out, cdz_error *err)
{
    if (st == CDZ_OK) st = cdz_link_create(p->registry, &p->sources, NULL, &p->link, err);
    if (st == CDZ_OK)
        *out = p;
    else
        cdz_pipeline_release(p);
    return st;
}

cdz_status cdz_pipeline_create(cdz_registry *registry, const char *text, size_t len,
                               const char *name, cdz_pipeline **out, cdz_error *err)
{
    cdz_pipeline *p = new_pipeline(registry, name);
    if (!p) return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", name);
    return finish(p, cdz_sources_read(&p->sources, text, len, name, err), out, err);
}

cdz_status cdz_pipeline_create_from_file(cdz_registry *registry, const char *path,
                                         cdz_pipeline **out, cdz_error *err)
{
    cdz_pipeline *p = new_pipeline(registry, path);
    if (!p) return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", path);
    return finish(p, cdz_sources_read_file(&p->sources, path, err), out, err);
}

/* Under the lock: may the pipeline still change? */
static cdz_status check_open(const cdz_pipeline *p, cdz_error *err)
{
    if (!p->planned) return CDZ_OK;
    return cdz_err(err, CDZ_E_STATE, "%s: the pipeline is in use and cannot change any more",
                   p->name);
}

static void forget_link(cdz_pipeline *p)
{
    cdz_link_free(p->link);
    p->link = NULL;
}

cdz_status cdz_pipeline_override(cdz_pipeline *pipeline, const char *name, const char *value,
                                 cdz_error *err)
{
    pthread_mutex_lock(&pipeline->lock);
    cdz_status st = check_open(pipeline, err);
    if (st == CDZ_OK) st = cdz_sources_override(&pipeline->sources, name, value, err);
    if (st == CDZ_OK) forget_link(pipeline);
    pthread_mutex_unlock(&pipeline->lock);
    return st;
}

cdz_status cdz_pipeline_set_strategy(cdz_pipeline *pipeline, const char *path_or_id, cdz_error *err)
{
    pthread_mutex_lock(&pipeline->lock);
    cdz_status st = check_open(pipeline, err);
    const char *copy = st == CDZ_OK ? cdz_arena_strdup(&pipeline->arena, path_or_id) : NULL;
    if (st == CDZ_OK && !copy) st = cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", pipeline->name);
    if (st == CDZ_OK) {
        pipeline->strategy = copy;
        forget_link(pipeline);
    }
    pthread_mutex_unlock(&pipeline->lock);
    return st;
}

void cdz_pipeline_retain(cdz_pipeline *pipeline)
{
    atomic_fetch_add_explicit(&pipeline->references, 1, memory_order_relaxed);
}

void cdz_pipeline_release(cdz_pipeline *pipeline)
{
    if (!pipeline) return;
    if (atomic_fetch_sub_explicit(&pipeline->references, 1, memory_order_acq_rel) != 1) return;
    cdz_link_free(pipeline->link);
    cdz_arena_free(&pipeline->arena);
    pthread_mutex_destroy(&pipeline->lock);
    free(pipeline);
}
