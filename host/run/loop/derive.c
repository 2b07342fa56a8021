/* derive.c - verbs that run the user's processors on histories that are no rows of the request, and on other
 * selections of them. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "run/loop/loop.h"
#include "run/loop/verbs.h"

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
    const char **kept = cdz_arena_array(&loop->rows.arena, n, sizeof *kept);
    for (uint32_t i = 0; kept && i < n; i++)
        if (!(kept[i] = cdz_arena_strdup(&loop->rows.arena, ids[i]))) return NULL;
    return kept;
}

static bool choose(cdz_stageset *set, const cdz_derivation *d, cdz_stage_chain *out)
{
    const cdz_stage_chain *all = &set->processors;
    const uint32_t rounds = most_named(d->append, d->n_append);
    *out = (cdz_stage_chain){
        cdz_arena_array(&set->arena, (1 + (size_t)rounds) * all->n, sizeof(cdz_stage)), 0};
    if (!out->at) return false;
    for (uint32_t p = 0; p < all->n; p++)
        if (!named(all->at[p].plugin->id, d->exclude, d->n_exclude)) out->at[out->n++] = all->at[p];
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t p = 0; p < all->n; p++)
            if (named(all->at[p].plugin->id, d->append, d->n_append) > round)
                out->at[out->n++] = all->at[p];
    return true;
}

cdz_status cdz_derive_all(cdz_loop *loop, cdz_stageset *set)
{
    const uint32_t n = loop->n_derivations;
    set->derived = cdz_arena_array(&set->arena, n, sizeof *set->derived);
    if (!set->derived) return cdz_loop_nomem(loop);
    for (uint32_t i = 0; i < n; i++)
        if (!choose(set, &loop->derivations[i], &set->derived[i])) return cdz_loop_nomem(loop);
    return CDZ_OK;
}

enum { MOST_DERIVED = 256 };

cdz_status cdz_verb_pipeline_derive(cdz_decoder *dec, const char *const *exclude, uint32_t n_exclude,
                                    const char *const *append, uint32_t n_append, uint32_t *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    cdz_stageset *set = loop->set;
    const uint32_t n = loop->n_derivations;
    if (n == MOST_DERIVED)
        return cdz_loop_fail(loop, CDZ_E_LIMIT, "pipeline_derive: more than %d pipelines",
                             MOST_DERIVED);
    cdz_derivation *all = cdz_arena_array(&loop->rows.arena, n + 1, sizeof *all);
    cdz_stage_chain *derived = cdz_arena_array(&set->arena, n + 1, sizeof *derived);
    const char *const *kept_out = keep_ids(loop, exclude, n_exclude);
    const char *const *kept_in = keep_ids(loop, append, n_append);
    if (!all || !derived || !kept_out || !kept_in) return cdz_loop_nomem(loop);
    if (n) memcpy(all, loop->derivations, n * sizeof *all);
    if (n) memcpy(derived, set->derived, n * sizeof *derived);
    all[n] = (cdz_derivation){
        .exclude = kept_out, .append = kept_in, .n_exclude = n_exclude, .n_append = n_append};
    if (!choose(set, &all[n], &derived[n])) return cdz_loop_nomem(loop);
    loop->derivations = all;
    set->derived = derived;
    *out = ++loop->n_derivations;
    return CDZ_OK;
}

static cdz_status process(cdz_loop *loop, uint32_t pipeline, const cdz_view *view,
                          cdz_scores *scores)
{
    const cdz_stageset *set = loop->set;
    const cdz_stage_chain *chain = pipeline ? &set->derived[pipeline - 1] : &set->processors;
    return cdz_loop_process(loop, chain, view, scores, NULL);
}

/* --- scores of another vocabulary ------------------------------------------------------------------------------- */

/* Processors were begun for the request's vocabulary and may index by it: they see no id outside it. */
static cdz_status refit_ids(cdz_loop *loop, cdz_view *view)
{
    for (uint32_t i = 0; i < view->n; i++) {
        const cdz_ids from = view->ids[i];
        int32_t *ids = cdz_scratch_take(&loop->rows.verb_scratch, from.len * sizeof *ids);
        if (!ids) return cdz_loop_nomem(loop);
        for (uint32_t k = 0; k < from.len; k++)
            ids[k] = (uint32_t)from.at[k] < loop->rows.n_vocab ? from.at[k] : 0;
        view->ids[i].at = ids;
    }
    return CDZ_OK;
}

static cdz_status process_refitted(cdz_loop *loop, uint32_t pipeline, cdz_view *view,
                                   cdz_scores *scores)
{
    const uint32_t V = loop->rows.n_vocab;
    const uint32_t common = scores->n_vocab < V ? scores->n_vocab : V;
    CDZ_TRY(refit_ids(loop, view));
    CDZ_TRY(cdz_matrix_fit(&loop->rows, &loop->refitted, view->n, V));
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
    if (pipeline > loop->n_derivations)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "process_ids: pipeline %" PRIu32 ", but pipeline_derive made %" PRIu32,
                             pipeline, loop->n_derivations);
    cdz_view view;
    CDZ_TRY(cdz_loop_trial_view(loop, "process_ids", rows, n, &view));
    for (uint32_t i = 0; i < n; i++) view.ids[i] = ids[i];
    CDZ_TRY(cdz_stage_states_trial(loop->set, &loop->rows, &view));
    if (scores->n_vocab != loop->rows.n_vocab)
        return process_refitted(loop, pipeline, &view, scores);
    return process(loop, pipeline, &view, scores);
}
