/* loop_pipeline.c - verbs that run the user's processors on histories that are no rows of the request, and on other
 * selections of them. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "run/task.h"
#include "run/verbs.h"

/* --- selections ------------------------------------------------------------------------------------------------ */

/* How often ids name it. */
static uint32_t named(const char *id, const char *const *ids, uint32_t n)
{
    uint32_t times = 0;
    for (uint32_t i = 0; i < n; i++) times += strcmp(ids[i], id) == 0;
    return times;
}

static uint32_t most_named(const char *const *ids, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t times = named(ids[i], ids, n);
        if (times > most) most = times;
    }
    return most;
}

static const char *const *keep_ids(cdz_loop *loop, const char *const *ids, uint32_t n)
{
    const char **kept = cdz_arena_array(&loop->arena, n, sizeof *kept);
    for (uint32_t i = 0; kept && i < n; i++)
        if (!(kept[i] = cdz_arena_strdup(&loop->arena, ids[i]))) return NULL;
    return kept;
}

bool cdz_derived_choose(cdz_loop *loop, uint32_t i)
{
    cdz_derived *d = &loop->derived[i];
    const uint32_t rounds = most_named(d->append, d->n_append);
    d->stages = cdz_arena_array(&loop->stage_arena, (1 + (size_t)rounds) * loop->n_processors,
                                sizeof *d->stages);
    d->n = 0;
    if (!d->stages) return false;
    for (uint32_t p = 0; p < loop->n_processors; p++)
        if (!named(loop->processors[p].plugin->id, d->exclude, d->n_exclude))
            d->stages[d->n++] = loop->processors[p];
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t p = 0; p < loop->n_processors; p++)
            if (named(loop->processors[p].plugin->id, d->append, d->n_append) > round)
                d->stages[d->n++] = loop->processors[p];
    return true;
}

cdz_status cdz_verb_pipeline_derive(cdz_decoder *dec, const char *const *exclude, uint32_t n_exclude,
                                    const char *const *append, uint32_t n_append, uint32_t *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    cdz_derived *all = cdz_arena_array(&loop->arena, loop->n_derived + 1, sizeof *all);
    const char *const *kept_out = keep_ids(loop, exclude, n_exclude);
    const char *const *kept_in = keep_ids(loop, append, n_append);
    if (!all || !kept_out || !kept_in) return cdz_loop_nomem(loop);
    if (loop->n_derived) memcpy(all, loop->derived, loop->n_derived * sizeof *all);
    all[loop->n_derived] = (cdz_derived){
        .exclude = kept_out, .append = kept_in, .n_exclude = n_exclude, .n_append = n_append};
    loop->derived = all;
    if (!cdz_derived_choose(loop, loop->n_derived)) return cdz_loop_nomem(loop);
    *out = ++loop->n_derived;
    return CDZ_OK;
}

/* stages.c knows one list; for the call the selection takes its place. */
static cdz_status process(cdz_loop *loop, uint32_t pipeline, const cdz_view *view,
                          cdz_scores *scores)
{
    if (pipeline == 0) return cdz_stages_process(loop, view, scores, NULL);
    cdz_stage *const own = loop->processors;
    const uint32_t n = loop->n_processors;
    loop->processors = loop->derived[pipeline - 1].stages;
    loop->n_processors = loop->derived[pipeline - 1].n;
    const cdz_status status = cdz_stages_process(loop, view, scores, NULL);
    loop->processors = own;
    loop->n_processors = n;
    return status;
}

/* --- scores of another vocabulary ------------------------------------------------------------------------------- */

/* Processors were begun for the request's vocabulary and may index by it: they see no id outside it. */
static cdz_status refit_ids(cdz_loop *loop, cdz_view *view)
{
    for (uint32_t i = 0; i < view->n; i++) {
        const cdz_ids from = view->ids[i];
        int32_t *ids = cdz_scratch_take(&loop->verb_scratch, from.len * sizeof *ids);
        if (!ids) return cdz_loop_nomem(loop);
        for (uint32_t k = 0; k < from.len; k++)
            ids[k] = (uint32_t)from.at[k] < loop->n_vocab ? from.at[k] : 0;
        view->ids[i].at = ids;
    }
    return CDZ_OK;
}

static cdz_status process_refitted(cdz_loop *loop, uint32_t pipeline, cdz_view *view,
                                   cdz_scores *scores)
{
    const uint32_t V = loop->n_vocab;
    const uint32_t common = scores->n_vocab < V ? scores->n_vocab : V;
    CDZ_TRY(refit_ids(loop, view));
    CDZ_TRY(cdz_matrix_fit(loop, &loop->refitted, view->n, V));
    cdz_scores shown = cdz_matrix_scores(&loop->refitted);
    for (uint32_t r = 0; r < view->n; r++) {
        memcpy(cdz_row(&shown, r), cdz_row(scores, r), common * sizeof(float));
        for (uint32_t v = common; v < V; v++) cdz_row(&shown, r)[v] = -INFINITY;
    }
    CDZ_TRY(process(loop, pipeline, view, &shown));
    for (uint32_t r = 0; r < view->n; r++)
        memcpy(cdz_row(scores, r), cdz_row(&shown, r), common * sizeof(float));
    return CDZ_OK;
}

cdz_status cdz_verb_process_ids(cdz_decoder *dec, uint32_t pipeline, const cdz_ids *ids,
                                const uint32_t *rows, uint32_t n, cdz_scores *scores)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, CDZ_VERB_SCRATCH));
    uint32_t first;
    CDZ_TRY(cdz_loop_check(loop, "process_ids", scores, scores, &first));
    if (scores->n_rows != n)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "process_ids: %" PRIu32 " histories, but %" PRIu32 " score rows", n,
                             scores->n_rows);
    if (pipeline > loop->n_derived)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "process_ids: pipeline %" PRIu32 ", but pipeline_derive made %" PRIu32,
                             pipeline, loop->n_derived);
    cdz_view view;
    CDZ_TRY(cdz_loop_trial_view(loop, "process_ids", rows, n, &view));
    for (uint32_t i = 0; i < n; i++) view.ids[i] = ids[i];
    CDZ_TRY(cdz_loop_trial_states(loop, &view));
    if (scores->n_vocab != loop->n_vocab) return process_refitted(loop, pipeline, &view, scores);
    return process(loop, pipeline, &view, scores);
}
