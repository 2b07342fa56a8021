/* edits.c - asks processors which scores of a row they may touch, and which tokens they leave, has the device tell these scores
 * with the leaders of the row that is left, runs the processors on the places at home, and puts what they wrote and the leaders
 * together. A row that asks for too many comes home whole. Thread: [engine]. */
#include "run/stages/edits.h"

#include <math.h>
#include <string.h>

#include "call/calls.h"
#include "vec/leading.h"
#include "vec/vec.h"

/* Scores of a row that are worth bringing over one by one: that many always, and a share of the row. Lists grow with the
 * row, and scratch memory for them in steps. */
enum { FEW_ALWAYS = 1024, FEW_SHARE = 8, ROOM_STEP = 1024 };

/* Where stages of the kind end that begin with stage n. */
static uint32_t end_of(const cdz_stageset *set, uint32_t n, cdz_form_kind kind)
{
    while (n < set->processors.n && set->processors.at[n].form.kind == (uint32_t)kind) n++;
    return n;
}

static uint32_t edits_end(const cdz_stageset *set)
{
    return end_of(set, 0, CDZ_FORM_EDIT);
}

uint32_t cdz_edits(const cdz_stageset *set)
{
    return end_of(set, edits_end(set), CDZ_FORM_MASK);
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

/* A stage that is asked of one row. */
typedef struct question {
    cdz_scope scope;
    cdz_step step;
    cdz_ids ids;
    uint32_t row;
    void *state;
    const cdz_form_api *api;
} question;

static void ask_of(question *q, cdz_stageset *set, cdz_rows *rows, const cdz_stage *stage,
                   uint32_t row)
{
    q->scope = cdz_stage_scope(set, rows, stage);
    q->ids = cdz_row_ids(&rows->at[row]);
    q->row = row;
    q->state = stage->state_size ? set->states[row].state + stage->state_at : NULL;
    q->api = stage->instance->offers.form;
    q->step = cdz_step_for(&q->scope, stage->instance, stage->shared);
    q->step.n_rows = 1;
    q->step.input_ids = stage->caps & CDZ_NEEDS_IDS ? &q->ids : NULL;
    q->step.row_index = &q->row;
    q->step.row_state = stage->state_size ? &q->state : NULL;
}

/* Ids that a stage may touch in a row, in worker 0's scratch memory. False: any. */
static bool list_ids(cdz_stageset *set, cdz_rows *rows, const cdz_stage *stage, uint32_t row,
                     cdz_ids *out)
{
    question q;
    cdz_call call = {0};
    ask_of(&q, set, rows, stage, row);
    *out = (cdz_ids){0};
    const bool listed = cdz_call_edits(&call, q.api, &q.step, 0, out);
    cdz_rows_complain(rows, &call);
    return listed;
}

/* Tokens that a stage leaves of a row. False: what it does is not told, and why is for apply to say. */
static bool find_allowed(cdz_stageset *set, cdz_rows *rows, const cdz_stage *stage, uint32_t row,
                         const id_set *out)
{
    question q;
    cdz_call call = {0};
    ask_of(&q, set, rows, stage, row);
    const bool told = cdz_call_mask(&call, q.api, &q.step, 0, out->bits, (uint32_t)out->n_words);
    cdz_rows_complain(rows, &call);
    if (!told) rows->workers[0].error = (cdz_error){0};
    return told;
}

/* Tokens that all masks leave of a row, into bits. Who does not tell; NULL: all do. */
static const char *find_left(cdz_stageset *set, cdz_rows *rows, uint32_t row, uint64_t *bits)
{
    const uint32_t end = cdz_edits(set), tail = rows->n_vocab % 64;
    const size_t n_words = ((size_t)rows->n_vocab + 63) / 64;
    id_set one;
    memset(bits, 0xff, n_words * sizeof *bits);
    if (tail) bits[n_words - 1] = ((uint64_t)1 << tail) - 1;
    for (uint32_t s = edits_end(set); s < end; s++) {
        if (!take_set(rows, &one)) return "want of memory";
        if (!find_allowed(set, rows, &set->processors.at[s], row, &one))
            return set->processors.at[s].plugin->id;
        for (size_t w = 0; w < n_words; w++) bits[w] &= one.bits[w];
    }
    return NULL;
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

static const char *plan_mask(cdz_stageset *set, cdz_rows *rows, uint32_t row)
{
    if (edits_end(set) == cdz_edits(set)) return NULL;
    uint64_t *bits = cdz_away_mask(&rows->away, row);
    return bits ? find_left(set, rows, row, bits) : "want of memory";
}

static const char *plan_row(cdz_stageset *set, cdz_rows *rows, uint32_t row)
{
    const uint32_t n_edits = edits_end(set);
    id_set all;
    cdz_ids ids;
    if (!take_set(rows, &all)) return "want of memory";
    for (uint32_t s = 0; s < n_edits; s++)
        if (!list_ids(set, rows, &set->processors.at[s], row, &ids) || !add_ids(&all, ids))
            return set->processors.at[s].plugin->id;
    const uint32_t n = count_ids(&all), most = rows->n_vocab / FEW_SHARE;
    if (n > (most > FEW_ALWAYS ? most : FEW_ALWAYS)) return "processors of many scores";
    const cdz_edited *edited = cdz_away_edit(&rows->away, row, n);
    if (!edited) return "want of memory";
    write_ids(&all, edited->ids);
    return plan_mask(set, rows, row);
}

const char *cdz_edits_plan(cdz_stageset *set, cdz_rows *rows)
{
    const uint32_t n_stages = cdz_edits(set);
    const char *reader = NULL;
    for (uint32_t r = 0; r < rows->n && !reader; r++) {
        if (n_stages && cdz_row_runs(rows, r)) {
            reader = plan_row(set, rows, r);
            cdz_scratch_reset(&rows->workers[0].scratch);
        } else {
            cdz_away_edit(&rows->away, r, 0);
        }
    }
    return reader;
}

/* --- what they make of them ---------------------------------------------------------------------------------------- */

/* Is the mask that the pass was given what the stages leave of the row? */
static bool same_mask(cdz_stageset *set, cdz_rows *rows, const cdz_edited *edited, uint32_t row)
{
    const bool masks = edits_end(set) < cdz_edits(set);
    id_set left;
    if (!masks || !edited->masked) return !masks && !edited->masked;
    return take_set(rows, &left) && !find_left(set, rows, row, left.bits) &&
           memcmp(left.bits, edited->kept, left.n_words * sizeof *left.bits) == 0;
}

/* Are all scores that the stages may touch among those that were asked for? A strategy may have changed the row. */
static bool all_asked(cdz_stageset *set, cdz_rows *rows, const cdz_edited *edited, uint32_t row)
{
    const uint32_t n_edits = edits_end(set);
    id_set all;
    cdz_ids ids;
    if (!take_set(rows, &all)) return false;
    for (uint32_t i = 0; i < edited->n; i++) add_ids(&all, (cdz_ids){&edited->ids[i], 1});
    for (uint32_t s = 0; s < n_edits; s++) {
        if (!list_ids(set, rows, &set->processors.at[s], row, &ids) || !add_ids(&all, ids))
            return false;
        if (count_ids(&all) != edited->n) return false;
    }
    return same_mask(set, rows, edited, row);
}

/* A score of those that were asked for, as the masks leave it. */
static float left_of(const cdz_edited *edited, uint32_t i, float x)
{
    return cdz_edited_keeps(edited, (size_t)edited->ids[i]) ? x : -INFINITY;
}

/* Runs the edits on what is known of the row. */
static bool run_edits(cdz_stageset *set, cdz_rows *rows, const cdz_scores *scores, uint32_t r,
                      const cdz_leading *known, const cdz_edited *edited)
{
    float *row = cdz_row(scores, r);
    for (size_t i = 0; i < known->n; i++) row[known->ids[i]] = known->x[i];
    for (uint32_t i = 0; i < edited->n; i++) row[edited->ids[i]] = edited->x[i];
    if (!cdz_stages_try(set, rows, &rows->view, scores, r, edits_end(set))) return false;
    for (uint32_t i = 0; i < edited->n; i++)
        row[edited->ids[i]] = left_of(edited, i, row[edited->ids[i]]);
    return true;
}

/* The edited scores, as the row at home has them now, in place of what they were to the mass. */
static bool change(cdz_rows *rows, const cdz_edited *edited, const float *row, float divisor,
                   cdz_leading *known)
{
    cdz_scratch_mem *scratch = &rows->workers[0].scratch;
    const size_t room = (known->n + edited->n + ROOM_STEP) / ROOM_STEP * ROOM_STEP;
    int32_t *ids = cdz_scratch_take(scratch, room * sizeof *ids);
    float *x = cdz_scratch_take(scratch, room * sizeof *x);
    float *was = cdz_scratch_take(scratch, room * sizeof *was);
    float *is = cdz_scratch_take(scratch, room * sizeof *is);
    if (!ids || !x || !was || !is) return false;
    for (uint32_t i = 0; i < edited->n; i++) {
        was[i] = left_of(edited, i, edited->x[i]);
        is[i] = row[edited->ids[i]];
    }
    const cdz_changes changes = {edited->ids, was, is, edited->n, divisor};
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
    const bool asked = all_asked(set, rows, edited, row);
    cdz_scratch_reset(&rows->workers[0].scratch);
    if (!asked || edits_end(set) == 0) return asked;
    return run_edits(set, rows, scores, r, out, edited) &&
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
