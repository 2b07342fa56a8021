/* named_models.c - the models that [models] of a pipeline names: opened by the first request, closed with their last edition.
 *
 * Owns: the runtime's list of them, one for each folder, whoever names it; an edition holds those that its requests have
 * used. A model is opened while nobody waits for the lock, since the engine's thread lets go of editions. Thread: [any]. */
#include <stdlib.h>
#include <string.h>

#include "api/entry.h"

/* Of one edition. */
typedef struct edition_models {
    cdz_edition_kept kept;
    cdz_runtime *runtime;
    uint32_t n;
    cdz_named_model *at[]; /* (n) by the edition's list; NULL: no request has used it */
} edition_models;

static void unlink_named(cdz_runtime *rt, const cdz_named_model *named)
{
    cdz_assert_holds(&rt->lock);
    for (cdz_named_model **at = &rt->named; *at; at = &(*at)->next)
        if (*at == named) {
            *at = named->next;
            return;
        }
}

/* NULL is fine. */
static void let_go(cdz_runtime *rt, cdz_named_model *named)
{
    if (!named) return;
    cdz_mutex_lock(&rt->lock);
    const bool last = --named->holders == 0;
    if (last) unlink_named(rt, named);
    cdz_mutex_unlock(&rt->lock);
    if (!last) return;
    cdz_model_close(named->model);
    free(named);
}

static void end(cdz_edition_kept *kept)
{
    edition_models *m = (edition_models *)kept;
    for (uint32_t i = 0; i < m->n; i++) let_go(m->runtime, m->at[i]);
    free(m);
}

static edition_models *models_of(cdz_runtime *rt, cdz_edition *edition, uint32_t n)
{
    cdz_edition_kept *there = cdz_edition_kept_now(edition);
    if (there) return (edition_models *)there;
    edition_models *m = calloc(1, sizeof *m + n * sizeof *m->at);
    if (!m) return NULL;
    m->kept.end = end;
    m->runtime = rt;
    m->n = n;
    there = cdz_edition_keep(edition, &m->kept);
    if (there != &m->kept) free(m);
    return (edition_models *)there;
}

/* The folder's entry with a holder more; *mine: nobody has opened it. NULL: out of memory. */
static cdz_named_model *entry_of(cdz_runtime *rt, const char *folder, bool *mine)
{
    const size_t bytes = strlen(folder) + 1;
    *mine = false;
    cdz_mutex_lock(&rt->lock);
    cdz_named_model *named = rt->named;
    while (named && strcmp(named->folder, folder) != 0) named = named->next;
    if (!named && (named = calloc(1, sizeof *named + bytes)) != NULL) {
        memcpy(named->folder, folder, bytes);
        named->next = rt->named;
        rt->named = named;
        *mine = true;
    }
    if (named) named->holders++;
    cdz_mutex_unlock(&rt->lock);
    return named;
}

/* Opens it and tells those that wait. What could not be opened is tried again by whoever comes next. */
static void open_entry(cdz_runtime *rt, cdz_named_model *named)
{
    cdz_model *model = NULL;
    cdz_error why = {0};
    const cdz_status status = cdz_model_open(rt, named->folder, NULL, &model, &why);
    cdz_mutex_lock(&rt->lock);
    named->model = model;
    named->why = why;
    if (status != CDZ_OK) {
        named->why.code = status;
        unlink_named(rt, named);
    }
    pthread_cond_broadcast(&rt->changed);
    cdz_mutex_unlock(&rt->lock);
}

/* NULL: it could not be opened. */
static cdz_model *wait_for(cdz_runtime *rt, const cdz_named_model *named, cdz_error *why)
{
    cdz_mutex_lock(&rt->lock);
    while (!named->model && named->why.code == CDZ_OK)
        cdz_mutex_wait(&rt->lock, &rt->changed, NULL);
    cdz_model *model = named->model;
    *why = named->why;
    cdz_mutex_unlock(&rt->lock);
    return model;
}

/* The i-th model of an edition, which holds it from then on; NULL: it could not be opened. */
static cdz_model *open_named(edition_models *m, uint32_t i, const char *folder, cdz_error *why)
{
    bool mine;
    cdz_runtime *rt = m->runtime;
    cdz_named_model *named = entry_of(rt, folder, &mine);
    if (!named) {
        (void)cdz_err(why, CDZ_E_NOMEM, "out of memory");
        return NULL;
    }
    if (mine) open_entry(rt, named);
    cdz_model *model = wait_for(rt, named, why);
    cdz_mutex_lock(&rt->lock);
    const bool held = !model || m->at[i]; /* then by a request beside this one: it is the same */
    if (!held) m->at[i] = named;
    cdz_mutex_unlock(&rt->lock);
    if (held) let_go(rt, named);
    return model;
}

static bool has_model(const cdz_entry_request *req, const char *name)
{
    for (uint32_t i = 0; i < req->n_others; i++)
        if (strcmp(req->others[i].name, name) == 0) return true;
    return false;
}

static cdz_status add_model(cdz_entry_request *req, const char *name, cdz_model *model,
                            cdz_error *err)
{
    cdz_job_model *grown = realloc(req->others, (req->n_others + (size_t)1) * sizeof *grown);
    if (!grown) return cdz_err_memory(err, "models");
    req->others = grown;
    grown[req->n_others] = (cdz_job_model){.name = strdup(name), .model = model->run};
    if (!grown[req->n_others].name) return cdz_err_memory(err, "models");
    cdz_run_model_retain(model->run);
    req->n_others++;
    return CDZ_OK;
}

cdz_status cdz_entry_add_named(cdz_entry_request *req, cdz_edition *edition, cdz_error *err)
{
    uint32_t n;
    const cdz_named_folder *from = cdz_edition_models(edition, &n);
    edition_models *m = n ? models_of(req->runtime, edition, n) : NULL;
    if (n == 0) return CDZ_OK;
    if (!m) return cdz_err_memory(err, "models");
    for (uint32_t i = 0; i < n; i++) {
        cdz_error why = {0};
        if (has_model(req, from[i].name)) continue;
        cdz_model *model = open_named(m, i, from[i].folder, &why);
        if (!model)
            return cdz_err(err, why.code, "%s:%u: [models] %s: %s", from[i].origin.file,
                           from[i].origin.line, from[i].name, why.text);
        CDZ_TRY(add_model(req, from[i].name, model, err));
    }
    return CDZ_OK;
}
