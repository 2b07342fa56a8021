/* editions.c - editions of a pipeline: read from its files, adopted, planned with again, given up with their last plan.
 *
 * Owns: an edition's sources and link, till the last plan of it is gone. Invariant: numbers go up by one with each that is
 * adopted, and one edition is tried at a time (reloading). Letting go of one may unload plugins, so no lock is held then. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/pipeline_state.h"

void cdz_edition_release(cdz_edition *edition)
{
    if (!edition) return;
    if (atomic_fetch_sub_explicit(&edition->references, 1, memory_order_acq_rel) != 1) return;
    cdz_edition_kept *kept = cdz_edition_kept_now(edition);
    if (kept) kept->end(kept);
    cdz_link_free(edition->link);
    cdz_arena_free(&edition->arena);
    free(edition);
}

/* --- reading --------------------------------------------------------------------------------------------- */

/* A profile's name will do for a file, unless there is a file of that name. */
static cdz_status read_named(const cdz_pipeline *p, cdz_sources *sources, cdz_error *err)
{
    const char *profile = access(p->name, F_OK) == 0 ? NULL : cdz_sources_profile(sources, p->name);
    return cdz_sources_read_file(sources, profile ? profile : p->name, err);
}

static cdz_status read_sources(cdz_pipeline *p, cdz_edition *edition, cdz_error *err)
{
    cdz_sources *sources = &edition->sources;
    const char *plugins = cdz_registry_builtin_dir(p->registry);
    if (plugins) sources->profiles = cdz_arena_printf(sources->arena, "%s/profiles", plugins);
    if (plugins && !sources->profiles) return cdz_err_memory_in(err, p->name);
    sources->of_request = p->of_request;
    sources->no_files = p->written;
    if (p->text)
        CDZ_TRY(cdz_sources_read(sources, p->text, p->len, p->name, err));
    else
        CDZ_TRY(read_named(p, sources, err));
    cdz_mutex_lock(&p->lock);
    edition->strategy = p->strategy;
    cdz_status st = CDZ_OK;
    for (const cdz_override *o = p->overrides; o && st == CDZ_OK; o = o->next)
        st = cdz_sources_override(sources, o->name, o->value, err);
    cdz_mutex_unlock(&p->lock);
    return st;
}

cdz_status cdz_pipeline_read(cdz_pipeline *pipeline, bool newest, cdz_edition **out, cdz_error *err)
{
    cdz_edition *edition = calloc(1, sizeof *edition);
    if (!edition) return cdz_err_memory_in(err, pipeline->name);
    atomic_init(&edition->references, 1);
    atomic_init(&edition->reported, false);
    atomic_init(&edition->kept, NULL);
    edition->sources.arena = &edition->arena;
    cdz_status st = read_sources(pipeline, edition, err);
    if (st == CDZ_OK)
        st = cdz_link_create(pipeline->registry, &edition->sources, edition->strategy, newest,
                             &edition->link, err);
    if (st == CDZ_OK)
        *out = edition;
    else
        cdz_edition_release(edition);
    return st;
}

cdz_status cdz_pipeline_read_again(cdz_pipeline *pipeline, cdz_edition **out, cdz_error *err)
{
    cdz_assert_holds(&pipeline->reloading);
    CDZ_TRY(cdz_registry_refresh(pipeline->registry, err));
    return cdz_pipeline_read(pipeline, true, out, err);
}

void cdz_pipeline_lock_reloading(cdz_pipeline *pipeline)
{
    cdz_mutex_lock(&pipeline->reloading);
}

void cdz_pipeline_unlock_reloading(cdz_pipeline *pipeline)
{
    cdz_mutex_unlock(&pipeline->reloading);
}

void cdz_pipeline_adopt(cdz_pipeline *pipeline, cdz_edition *edition)
{
    cdz_mutex_lock(&pipeline->lock);
    cdz_edition *old = pipeline->now;
    edition->number = old ? old->number + 1 : 1;
    pipeline->now = edition;
    atomic_store(&pipeline->number, edition->number);
    cdz_mutex_unlock(&pipeline->lock);
    cdz_edition_release(old); /* may unload plugins: not under the lock */
}

cdz_edition *cdz_pipeline_newest(cdz_pipeline *pipeline)
{
    cdz_mutex_lock(&pipeline->lock);
    cdz_edition *now = pipeline->now;
    atomic_fetch_add_explicit(&now->references, 1, memory_order_relaxed);
    cdz_mutex_unlock(&pipeline->lock);
    return now;
}

const cdz_named_folder *cdz_edition_models(const cdz_edition *edition, uint32_t *n)
{
    *n = edition->sources.n_models;
    return edition->sources.models;
}

cdz_edition_kept *cdz_edition_kept_now(cdz_edition *edition)
{
    return atomic_load(&edition->kept);
}

cdz_edition_kept *cdz_edition_keep(cdz_edition *edition, cdz_edition_kept *kept)
{
    cdz_edition_kept *there = NULL;
    return atomic_compare_exchange_strong(&edition->kept, &there, kept) ? kept : there;
}

uint64_t cdz_pipeline_edition_number(const cdz_pipeline *pipeline)
{
    return atomic_load(&pipeline->number);
}

/* --- planning again --------------------------------------------------------------------------------------- */

bool cdz_plan_is_newest(const cdz_plan *plan)
{
    return !plan->pipeline || cdz_pipeline_edition_number(plan->pipeline) == plan->edition->number;
}

cdz_status cdz_plan_renew(const cdz_plan *plan, cdz_plan **out, cdz_error *err)
{
    return cdz_pipeline_plan_of(plan->pipeline, plan->inputs, out, err);
}

/* --- files ------------------------------------------------------------------------------------------------ */

typedef struct walk {
    cdz_status (*visit)(void *user, const char *path);
    void *user;
    cdz_status status;
} walk;

static void visit_path(walk *w, const char *path)
{
    if (w->status == CDZ_OK) w->status = w->visit(w->user, path);
}

/* A plugin's file, and the manifest that may stand beside it. */
static void visit_module(void *user, const cdz_module *module)
{
    walk *w = user;
    const char *path = cdz_module_path(module), *slash = strrchr(path, '/');
    const char *more;
    visit_path(w, path);
    for (uint32_t i = 0; (more = cdz_module_file(module, i)) != NULL; i++) visit_path(w, more);
    cdz_arena arena = {0};
    const char *manifest =
        cdz_arena_printf(&arena, "%.*splugin.ini", slash ? (int)(slash + 1 - path) : 0, path);
    if (manifest)
        visit_path(w, manifest);
    else
        w->status = CDZ_E_NOMEM;
    cdz_arena_free(&arena);
}

cdz_status cdz_pipeline_files(cdz_pipeline *pipeline,
                              cdz_status (*visit)(void *user, const char *path), void *user,
                              cdz_error *err)
{
    walk w = {visit, user, CDZ_OK};
    cdz_edition *now;
    CDZ_TRY(cdz_pipeline_freeze(pipeline, &now, err));
    for (uint32_t i = 0; i < now->sources.n_files; i++) visit_path(&w, now->sources.files[i]);
    cdz_link_each_module(now->link, visit_module, &w);
    cdz_edition_release(now);
    if (w.status == CDZ_OK) return CDZ_OK;
    return cdz_err(err, w.status, "%s: out of memory", pipeline->name);
}

/* --- telling ---------------------------------------------------------------------------------------------- */

void cdz_pipeline_listen(cdz_pipeline *pipeline, cdz_reload_listener *listener, void *user)
{
    cdz_mutex_lock(&pipeline->listening);
    pipeline->listener = listener;
    pipeline->user = user;
    cdz_mutex_unlock(&pipeline->listening);
}

bool cdz_pipeline_report(cdz_pipeline *pipeline, const cdz_error *why)
{
    cdz_edition *now = cdz_pipeline_newest(pipeline);
    const bool first = !atomic_exchange(&now->reported, true);
    cdz_edition_release(now);
    if (!first) return false;
    cdz_mutex_lock(&pipeline->listening);
    const bool heard = pipeline->listener != NULL;
    if (heard) pipeline->listener(pipeline->user, pipeline, why);
    cdz_mutex_unlock(&pipeline->listening);
    return heard;
}
