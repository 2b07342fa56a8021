/* edits.c - asks processors which scores of a row they may touch, has the device tell these with the row's leaders, runs the
 * processors on the places at home, and puts what they wrote and the leaders together. A row that asks for too many
 * comes home whole. Thread: [engine]. */
#include "run/stages/edits.h"

#include <string.h>

#include "call/calls.h"
#include "vec/leading.h"
#include "vec/vec.h"

/* Scores of a row that are worth bringing over one by one: that many always, and a share of the row. Lists grow with the
 * row, and scratch memory for them in steps. */
enum { FEW_ALWAYS = 1024, FEW_SHARE = 8, ROOM_STEP = 1024 };

uint32_t cdz_edits(const cdz_stageset *set)
{
    uint32_t n = 0;
    while (n < set->processors.n && set->processors.at[n].form.kind == CDZ_FORM_EDIT) n++;
    return n;
}

/* --- which scores ------------------------------------------------------------------------------------------------ */

typedef struct id_set {
    uint64_t *bits;
    size_t n_words, n_vocab;
} id_set;

static bool take_set(cdz_rows *rows, id_set *set)
{
    set->n_vocab = rows->n_vocab;
    set->n_words = (set->n_vocab + 63) / 64;
    set->bits = cdz_scratch_take(&rows->workers[0].scratch, set->n_words * sizeof *set->bits);
    if (set->bits) memset(set->bits, 0, set->n_words * sizeof *set->bits);
    return set->bits != NULL;
}

/* Ids that a stage may touch in a row, in worker 0's scratch memory. False: any. */
static bool list_ids(cdz_stageset *set, cdz_rows *rows, const cdz_stage *stage, uint32_t row,
                     cdz_ids *out)
{
    const cdz_ids ids = cdz_row_ids(&rows->at[row]);
    cdz_scope scope = cdz_stage_scope(set, rows, stage);
    cdz_step step = cdz_step_for(&scope, stage->instance, stage->shared);
    step.n_rows = 1;
    step.input_ids = stage->caps & CDZ_NEEDS_IDS ? &ids : NULL;
    step.row_index = &row;
    *out = (cdz_ids){0};
    cdz_call call = {0};
    const bool listed = cdz_call_edits(&call, stage->instance->offers.form, &step, 0, out);
    cdz_rows_complain(rows, &call);
    return listed;
}

/* False: an id that has no score, which is for apply to refuse. */
static bool add_ids(id_set *set, cdz_ids ids)
{
    for (uint32_t i = 0; i < ids.len; i++) {
        const size_t id = (size_t)ids.at[i];
        if (ids.at[i] < 0 || id >= set->n_vocab) return false;
        set->bits[id / 64] |= (uint64_t)1 << (id % 64);
    }
    return true;
}

static uint32_t count_ids(const id_set *set)
{
    uint32_t n = 0;
    for (size_t w = 0; w < set->n_words; w++) n += (uint32_t)__builtin_popcountll(set->bits[w]);
    return n;
}

static void write_ids(const id_set *set, int32_t *ids)
{
    for (size_t w = 0; w < set->n_words; w++)
        for (uint64_t left = set->bits[w]; left; left &= left - 1)
            *ids++ = (int32_t)(w * 64 + (size_t)__builtin_ctzll(left));
}

static const char *plan_row(cdz_stageset *set, cdz_rows *rows, uint32_t row, uint32_t n_stages)
{
    id_set all;
    cdz_ids ids;
    if (!take_set(rows, &all)) return "want of memory";
    for (uint32_t s = 0; s < n_stages; s++)
        if (!list_ids(set, rows, &set->processors.at[s], row, &ids) || !add_ids(&all, ids))
            return set->processors.at[s].plugin->id;
    const uint32_t n = count_ids(&all), most = rows->n_vocab / FEW_SHARE;
    if (n > (most > FEW_ALWAYS ? most : FEW_ALWAYS)) return "processors of many scores";
    const cdz_edited *edited = cdz_away_edit(&rows->away, row, n);
    if (!edited) return "want of memory";
    write_ids(&all, edited->ids);
    return NULL;
}

const char *cdz_edits_plan(cdz_stageset *set, cdz_rows *rows)
{
    const uint32_t n_stages = cdz_edits(set);
    const char *reader = NULL;
    for (uint32_t r = 0; r < rows->n && !reader; r++) {
        if (n_stages && cdz_row_runs(rows, r)) {
            reader = plan_row(set, rows, r, n_stages);
            cdz_scratch_reset(&rows->workers[0].scratch);
        } else {
            cdz_away_edit(&rows->away, r, 0);
        }
    }
    return reader;
}

/* --- what they make of them ---------------------------------------------------------------------------------------- */

/* Are all scores that the stages may touch among those that were asked for? A strategy may have changed the row. */
static bool all_asked(cdz_stageset *set, cdz_rows *rows, const cdz_edited *edited, uint32_t row,
                      uint32_t n_stages)
{
    id_set all;
    cdz_ids ids;
    if (!take_set(rows, &all)) return false;
    for (uint32_t i = 0; i < edited->n; i++) add_ids(&all, (cdz_ids){&edited->ids[i], 1});
    for (uint32_t s = 0; s < n_stages; s++) {
        if (!list_ids(set, rows, &set->processors.at[s], row, &ids) || !add_ids(&all, ids))
            return false;
        if (count_ids(&all) != edited->n) return false;
    }
    return true;
}

/* Runs the stages on what is known of the row. */
static bool run_stages(cdz_stageset *set, cdz_rows *rows, const cdz_scores *scores, uint32_t r,
                       uint32_t n_stages, const cdz_leading *known, const cdz_edited *edited)
{
    float *row = cdz_row(scores, r);
    for (size_t i = 0; i < known->n; i++) row[known->ids[i]] = known->x[i];
    for (uint32_t i = 0; i < edited->n; i++) row[edited->ids[i]] = edited->x[i];
    return cdz_stages_try(set, rows, &rows->view, scores, r, n_stages);
}

/* The edited scores, as the row at home has them now, in place of what they were. */
static bool change(cdz_rows *rows, const cdz_edited *edited, const float *row, float divisor,
                   cdz_leading *known)
{
    cdz_scratch_mem *scratch = &rows->workers[0].scratch;
    const size_t room = (known->n + edited->n + ROOM_STEP) / ROOM_STEP * ROOM_STEP;
    int32_t *ids = cdz_scratch_take(scratch, room * sizeof *ids);
    float *x = cdz_scratch_take(scratch, room * sizeof *x);
    float *is = cdz_scratch_take(scratch, room * sizeof *is);
    if (!ids || !x || !is) return false;
    for (uint32_t i = 0; i < edited->n; i++) is[i] = row[edited->ids[i]];
    const cdz_changes changes = {edited->ids, edited->x, is, edited->n, divisor};
    return cdz_leading_change(known, &changes, ids, x);
}

bool cdz_edits_known(cdz_stageset *set, cdz_rows *rows, const cdz_scores *scores, uint32_t first,
                     uint32_t r, cdz_leading *out)
{
    const cdz_away *away = &rows->away;
    const uint32_t row = first + r, n_stages = cdz_edits(set);
    if (!away->leaders) return false;
    const cdz_leaders *l = &away->leaders[row];
    const cdz_edited *edited = &away->edited[row];
    if (l->least == 0 || l->n == 0 || l->n > CDZ_LEADERS_MOST || edited->done) return false;
    *out = (cdz_leading){l->ids, l->x, l->n, l->low, l->mass, CDZ_LEADING_OFF};
    if (n_stages == 0) return true;
    const bool asked = all_asked(set, rows, edited, row, n_stages);
    cdz_scratch_reset(&rows->workers[0].scratch);
    return asked && run_stages(set, rows, scores, r, n_stages, out, edited) &&
           change(rows, edited, cdz_row(scores, r), l->divisor, out);
}

bool cdz_edits_settle(cdz_stageset *set, cdz_rows *rows, const cdz_scores *scores, uint32_t first,
                      uint32_t r)
{
    cdz_leading known;
    const float *row = cdz_row(scores, r);
    cdz_edited *edited = &rows->away.edited[first + r];
    const bool settled = cdz_edits_known(set, rows, scores, first, r, &known);
    if (settled) {
        rows->away.best[first + r] = known.ids[cdz_vec_table()->argmax(known.x, known.n)];
        for (uint32_t i = 0; i < edited->n; i++) edited->x[i] = row[edited->ids[i]];
        edited->done = true;
    }
    cdz_scratch_reset(&rows->workers[0].scratch);
    return settled;
}
