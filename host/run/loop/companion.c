/* companion.c - keeps companion sequences at their rows' ids and has their logits computed.
 *
 * Owns: those sequences, a row's by each stage that asks for one. Not: what their logits are for (the stage's apply, which
 * reads them in set->shown). Invariant: a companion is a function of its row's ids, so it needs no state of its own: forks,
 * rewinds and drafts bring it along. */
#include "run/loop/companion.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "call/calls.h"

/* One row's companion for one stage. */
typedef struct companion {
    cdz_companion is;
    cdz_seq seq;
    bool known;     /* its logits are those of what seq holds */
    uint32_t begun; /* positions of the stage's longest companion when they began */
} companion;

struct cdz_companions {
    uint32_t n;           /* stages that have companions */
    cdz_stage **stages;   /* (n) */
    companion *of, *next; /* (n, n_rows); next: where reorder builds the next generation */
    cdz_seq *trials;      /* (n_trials) of made-up rows, while they are looked at */
    uint32_t n_trials;
    cdz_matrix scores;  /* logits of trials */
    uint32_t shown_cap; /* of the set's shown */
};

static companion *of_row(const cdz_loop *loop, uint32_t stage, uint32_t row)
{
    return &loop->set->companions->of[(size_t)stage * loop->rows.n + row];
}

/* The score row that companions of the rows write to: behind the rows' own. */
static uint32_t score_row(const cdz_loop *loop, uint32_t stage, uint32_t row)
{
    return loop->rows.n * (1 + stage) + row;
}

/* --- bringing a sequence to a row's ids ------------------------------------------------------------------------- */

/* What of the row's ids the companion holds. */
static cdz_ids tail_of(const cdz_companion *is, cdz_ids ids)
{
    if (is->from >= ids.len) return (cdz_ids){NULL, 0};
    return (cdz_ids){ids.at + is->from, ids.len - is->from};
}

/* How many of the tail's ids seq has already. One that stays keeps what it was given. */
static uint32_t held(const cdz_companion *is, const cdz_seq *seq, cdz_ids tail)
{
    const uint32_t have = seq->n - is->prefix.len, n = have < tail.len ? have : tail.len;
    uint32_t i = 0;
    if (is->stays) return n;
    while (i < n && seq->ids[is->prefix.len + i] == tail.at[i]) i++;
    return i;
}

static cdz_status start(const cdz_companion *is, cdz_seq *seq, cdz_error *err)
{
    CDZ_TRY(cdz_seq_push(seq, is->prefix.at, is->prefix.len, err));
    if (is->mask) cdz_seq_set_mask(seq, is->mask, is->prefix.len);
    return CDZ_OK;
}

/* *changed: seq holds something else than before. */
static cdz_status bring(cdz_loop *loop, const cdz_companion *is, cdz_seq *seq, cdz_ids ids,
                        bool *changed)
{
    const cdz_ids tail = tail_of(is, ids);
    *changed = seq->n != is->prefix.len + tail.len;
    if (seq->n == 0) CDZ_TRY(start(is, seq, &loop->rows.error));
    const uint32_t same = held(is, seq, tail);
    *changed |= same < tail.len;
    cdz_seq_cut(seq, is->prefix.len + same);
    return tail.len > same ? cdz_seq_push(seq, tail.at + same, tail.len - same, &loop->rows.error)
                           : CDZ_OK;
}

/* --- begin and end ------------------------------------------------------------------------------------------- */

static cdz_status check(cdz_loop *loop, const cdz_stage *stage, uint32_t row, const cdz_companion *c)
{
    for (uint32_t i = 0; i < c->prefix.len; i++)
        if (c->prefix.at[i] < 0 || (uint32_t)c->prefix.at[i] >= loop->rows.n_vocab)
            return cdz_err(&loop->rows.error, CDZ_E_INPUT,
                           "%s: token %" PRId32 " is outside the vocabulary of %" PRIu32,
                           stage->plugin->id, c->prefix.at[i], loop->rows.n_vocab);
    uint32_t visible = 0;
    for (uint32_t i = 0; i < c->prefix.len; i++) visible += !c->mask || c->mask[i];
    if (visible || c->from < loop->rows.at[row].seq->n) return CDZ_OK;
    return cdz_err(&loop->rows.error, CDZ_E_PLUGIN,
                   "%s: the companion of row %" PRIu32 " begins without a visible token",
                   stage->plugin->id, row + cdz_rows_from(&stage->instance->plugin));
}

static cdz_status describe(cdz_loop *loop, cdz_stageset *set, cdz_stage *stage, uint32_t row,
                           cdz_companion *out)
{
    cdz_scope scope = {.rows = &loop->rows,
                       .plugin = stage->plugin,
                       .scratch = &loop->rows.workers[0].scratch,
                       .error = &loop->rows.workers[0].error,
                       .may_alloc = true,
                       .arena = &set->arena};
    const cdz_step step = cdz_step_for(&scope, stage->instance, stage->shared);
    cdz_call call = {.scratch = scope.scratch};
    *out = (cdz_companion){.size = sizeof *out};
    const cdz_status status =
        cdz_call_companion(&call, stage->instance->offers.companion, &step, row, out);
    CDZ_TRY(cdz_rows_judge(&loop->rows, &call, status, scope.error));
    return out->none ? CDZ_OK : check(loop, stage, row, out);
}

/* Where frequencies depend on the length, those of a stage have the length of its longest one at that step, as rows have. */
static cdz_status note_begin(cdz_loop *loop, cdz_companions *all, uint32_t stage)
{
    companion *of = all->of + (size_t)stage * loop->rows.n;
    uint32_t most = 0;
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        bool changed;
        if (of[r].is.none) continue;
        CDZ_TRY(bring(loop, &of[r].is, &of[r].seq, cdz_row_ids(&loop->rows.at[r]), &changed));
        const uint32_t n = cdz_seq_visible(&of[r].seq);
        if (n > most) most = n;
    }
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        of[r].begun = most;
        of[r].seq.behind = of[r].is.none ? 0 : most - cdz_seq_visible(&of[r].seq);
    }
    return CDZ_OK;
}

static cdz_status make(cdz_loop *loop, cdz_stageset *set, uint32_t stage)
{
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        companion *c = &set->companions->of[(size_t)stage * loop->rows.n + r];
        CDZ_TRY(describe(loop, set, set->companions->stages[stage], r, &c->is));
        if (c->is.none) continue;
        CDZ_TRY(cdz_seq_init(&c->seq, loop->rows.model, cdz_loop_account(loop, loop->rows.model),
                             loop->job->max_length, &loop->rows.error));
    }
    return note_begin(loop, set->companions, stage);
}

cdz_status cdz_companions_begin(cdz_loop *loop, cdz_stageset *set)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < set->processors.n; s++)
        n += set->processors.at[s].instance->offers.companion != NULL;
    if (n == 0) return CDZ_OK;
    cdz_companions *all = set->companions = cdz_arena_alloc(&set->arena, sizeof *all);
    if (!all) return cdz_loop_nomem(loop);
    all->stages = cdz_arena_array(&set->arena, n, sizeof(cdz_stage *));
    all->of = cdz_arena_array(&set->arena, (size_t)n * loop->rows.n, sizeof *all->of);
    all->next = cdz_arena_array(&set->arena, (size_t)n * loop->rows.n, sizeof *all->next);
    if (!all->stages || !all->of || !all->next) return cdz_loop_nomem(loop);
    for (uint32_t s = 0; s < set->processors.n; s++) {
        cdz_stage *stage = &set->processors.at[s];
        if (!stage->instance->offers.companion) continue;
        all->stages[all->n++] = stage;
        stage->companion = all->n; /* counted from 1 */
        CDZ_TRY(make(loop, set, all->n - 1));
    }
    return cdz_matrix_fit(&loop->rows, &loop->scores, loop->rows.n * (1 + n), loop->rows.n_vocab);
}

static void drop_trials(cdz_companions *all)
{
    for (uint32_t i = 0; i < all->n_trials; i++) cdz_seq_clear(&all->trials[i]);
    free(all->trials);
    all->trials = NULL;
    all->n_trials = 0;
}

void cdz_companions_free(cdz_loop *loop, cdz_stageset *set)
{
    cdz_companions *all = set ? set->companions : NULL;
    if (!all) return;
    for (size_t i = 0; all->next && i < (size_t)all->n * loop->rows.n; i++) {
        cdz_seq_clear(&all->of[i].seq);
        cdz_seq_clear(&all->next[i].seq);
    }
    drop_trials(all);
    cdz_matrix_free(&loop->rows, &all->scores);
    set->shown.n_rows = 0;
    set->companions = NULL;
}

uint64_t cdz_companions_most_of(const cdz_plan *plan, uint32_t n_rows)
{
    uint64_t n = 0;
    for (uint32_t i = 0; plan && i < plan->n_processors; i++)
        n += plan->processors[i].offers.companion != NULL;
    return n * n_rows;
}

/* --- in a pass ---------------------------------------------------------------------------------------------------- */

/* Makes room for the pass and notes c's sequence, or a copy of it, in the want. Without a cache a step reads all anew. */
static cdz_status add(cdz_loop *loop, const companion *c, cdz_seq *seq, uint32_t to)
{
    const uint32_t length = cdz_seq_visible(seq) + seq->behind;
    if (!loop->rows.config.use_cache) cdz_seq_forget(seq);
    cdz_seq_rotate_for(seq, length);
    (void)cdz_loop_recall(loop, seq, false);
    CDZ_TRY(cdz_loop_prepare(loop, seq));
    loop->want_seqs[loop->want.n_seqs++] =
        (cdz_want_seq){.seq = seq,
                       .row0 = to,
                       .no_hidden = true,
                       .length = length,
                       .begun = loop->rows.config.use_cache ? c->begun : 0};
    return CDZ_OK;
}

/* --- riding along with the rows ----------------------------------------------------------------------------------- */

uint32_t cdz_companions_most(const cdz_loop *loop)
{
    return loop->set->companions ? loop->set->companions->n * loop->rows.n : 0;
}

/* The first earlier row whose companion computes the very same thing from nothing; r: none. */
static uint32_t same_as(const cdz_loop *loop, uint32_t stage, uint32_t r)
{
    const cdz_seq *mine = &of_row(loop, stage, r)->seq;
    for (uint32_t l = 0; l < r && mine->computed == 0; l++) {
        const companion *other = of_row(loop, stage, l);
        const cdz_seq *seq = &other->seq;
        if (!cdz_row_runs(&loop->rows, l) || other->is.none || seq->computed || seq->n != mine->n ||
            seq->behind != mine->behind)
            continue;
        if (seq->mask == mine->mask && memcmp(seq->ids, mine->ids, seq->n * sizeof *seq->ids) == 0)
            return l;
    }
    return r;
}

/* Finds out whether anything of this row's has to be computed. */
static cdz_status ride_row(cdz_loop *loop, uint32_t stage, uint32_t r)
{
    companion *c = of_row(loop, stage, r);
    bool changed = true;
    if (c->is.none || !cdz_row_runs(&loop->rows, r)) return CDZ_OK;
    CDZ_TRY(bring(loop, &c->is, &c->seq, cdz_row_ids(&loop->rows.at[r]), &changed));
    c->known &= !changed;
    return CDZ_OK;
}

static cdz_status ride_rows(cdz_loop *loop)
{
    for (uint32_t s = 0; s < loop->set->companions->n; s++)
        for (uint32_t r = 0; r < loop->rows.n; r++) CDZ_TRY(ride_row(loop, s, r));
    for (uint32_t s = 0; s < loop->set->companions->n; s++)
        for (uint32_t r = 0; r < loop->rows.n; r++) {
            companion *c = of_row(loop, s, r);
            if (c->is.none || c->known || !cdz_row_runs(&loop->rows, r) || same_as(loop, s, r) != r)
                continue;
            CDZ_TRY(add(loop, c, &c->seq, score_row(loop, s, r)));
        }
    return CDZ_OK;
}

cdz_status cdz_companions_ride(cdz_loop *loop)
{
    return loop->set->companions ? ride_rows(loop) : CDZ_OK;
}

/* Those that computed the same as another take it over. A cache that was shared counts as computed only once: rows
 * before it in the order have theirs. */
cdz_status cdz_companions_rode(cdz_loop *loop)
{
    for (uint32_t s = 0; loop->set->companions && s < loop->set->companions->n; s++)
        for (uint32_t r = 0; r < loop->rows.n; r++) {
            companion *c = of_row(loop, s, r);
            if (c->is.none || c->known || !cdz_row_runs(&loop->rows, r)) continue;
            for (uint32_t l = 0; l < r && c->seq.computed == 0; l++) {
                const companion *from = of_row(loop, s, l);
                const cdz_seq *seq = &from->seq;
                if (from->is.none || !from->known || seq->n != c->seq.n ||
                    seq->mask != c->seq.mask ||
                    memcmp(seq->ids, c->seq.ids, seq->n * sizeof *seq->ids) != 0)
                    continue;
                CDZ_TRY(cdz_seq_adopt(&c->seq, seq, &loop->rows.error));
                memcpy(loop->scores.data + (size_t)score_row(loop, s, r) * loop->rows.n_vocab,
                       loop->scores.data + (size_t)score_row(loop, s, l) * loop->rows.n_vocab,
                       loop->rows.n_vocab * sizeof(float));
            }
            c->known = true;
        }
    return CDZ_OK;
}

/* --- reorder -------------------------------------------------------------------------------------------------------- */

cdz_status cdz_companions_reorder(cdz_loop *loop, const uint32_t *parents)
{
    cdz_companions *all = loop->set->companions;
    if (!all) return CDZ_OK;
    for (uint32_t s = 0; s < all->n; s++) {
        companion *next = all->next + (size_t)s * loop->rows.n;
        for (uint32_t r = 0; r < loop->rows.n; r++) {
            const companion *from = of_row(loop, s, parents[r]);
            if (parents[r] == r || from->is.none || from->is.stays) continue;
            next[r].seq.model = from->seq.model;
            next[r].seq.account = from->seq.account;
            CDZ_TRY(cdz_seq_copy(&next[r].seq, &from->seq, &loop->rows.error));
        }
        for (uint32_t r = 0; r < loop->rows.n; r++) {
            companion *c = of_row(loop, s, r);
            if (parents[r] == r || c->is.none || c->is.stays) continue;
            const cdz_seq old = c->seq;
            c->seq = next[r].seq;
            next[r].seq = old;
            cdz_seq_cut(&next[r].seq, 0);
            cdz_seq_set_mask(&next[r].seq, NULL, 0);
            c->known = false;
        }
    }
    return CDZ_OK;
}

/* --- ready for apply -------------------------------------------------------------------------------------------------- */

static bool show(cdz_stageset *set, uint32_t n)
{
    cdz_companions *all = set->companions;
    cdz_shown *shown = &set->shown;
    if (n > all->shown_cap) {
        const float **grown = realloc(shown->at, (size_t)n * all->n * sizeof *grown);
        if (!grown) return false;
        shown->at = grown;
        all->shown_cap = n;
    }
    shown->n_rows = n;
    for (size_t i = 0; i < (size_t)n * all->n; i++) shown->at[i] = NULL;
    return true;
}

/* Logits of a stage's companion of view row i. */
static const float **shown_at(const cdz_loop *loop, uint32_t stage, uint32_t i)
{
    const cdz_shown *shown = &loop->set->shown;
    return &shown->at[(size_t)stage * shown->n_rows + i];
}

/* Does the row's own companion already say what follows these ids? */
static bool rides(const cdz_loop *loop, uint32_t stage, uint32_t row, cdz_ids ids)
{
    const companion *c = of_row(loop, stage, row);
    const cdz_ids tail = tail_of(&c->is, ids);
    return c->known && c->seq.n == c->is.prefix.len + tail.len &&
           held(&c->is, &c->seq, tail) == tail.len;
}

/* Counts what the view lacks and points to what is there. */
static uint32_t look(cdz_loop *loop, const cdz_view *view)
{
    cdz_companions *all = loop->set->companions;
    uint32_t lacking = 0;
    for (uint32_t s = 0; s < all->n; s++)
        for (uint32_t i = 0; i < view->n; i++) {
            const uint32_t row = view->rows[i];
            if (of_row(loop, s, row)->is.none || cdz_view_skips(&loop->rows, view, i)) continue;
            if (rides(loop, s, row, view->ids[i]))
                *shown_at(loop, s, i) =
                    loop->scores.data + (size_t)score_row(loop, s, row) * loop->rows.n_vocab;
            else
                lacking++;
        }
    return lacking;
}

/* A made-up row's companion begins as a copy of the row's. */
static cdz_status add_trial(cdz_loop *loop, uint32_t stage, uint32_t row, cdz_ids ids, uint32_t at)
{
    cdz_companions *all = loop->set->companions;
    companion *c = of_row(loop, stage, row);
    cdz_seq *seq = &all->trials[at];
    bool changed;
    seq->model = c->seq.model;
    seq->account = c->seq.account;
    all->n_trials = at + 1;
    CDZ_TRY(cdz_seq_copy(seq, &c->seq, &loop->rows.error));
    CDZ_TRY(bring(loop, &c->is, seq, ids, &changed));
    return add(loop, c, seq, at);
}

/* The longest continuation of a row is likely the beginning of the next: the row's companion takes its cache. */
static cdz_status keep_longest(cdz_loop *loop, uint32_t stage, uint32_t row, const cdz_seq *seq)
{
    companion *c = of_row(loop, stage, row);
    if (c->is.stays || seq->computed <= c->seq.computed) return CDZ_OK;
    c->known = false;
    return cdz_seq_copy(&c->seq, seq, &loop->rows.error);
}

static cdz_status run_trials(cdz_loop *loop, const cdz_view *view, uint32_t n)
{
    cdz_companions *all = loop->set->companions;
    uint32_t at = 0;
    all->trials = calloc(n, sizeof *all->trials);
    if (!all->trials || !cdz_loop_want(loop, n)) return cdz_loop_nomem(loop);
    CDZ_TRY(cdz_matrix_fit(&loop->rows, &all->scores, n, loop->rows.n_vocab));
    loop->want = (cdz_want){.model = loop->rows.model,
                            .seqs = loop->want_seqs,
                            .positions = CDZ_POSITIONS_LAST,
                            .out = all->scores.data,
                            .stride = loop->rows.n_vocab};
    for (uint32_t s = 0; s < all->n; s++)
        for (uint32_t i = 0; i < view->n; i++) {
            const float **shown = shown_at(loop, s, i);
            if (of_row(loop, s, view->rows[i])->is.none || cdz_view_skips(&loop->rows, view, i) ||
                *shown)
                continue;
            CDZ_TRY(add_trial(loop, s, view->rows[i], view->ids[i], at));
            *shown = all->scores.data + (size_t)at++ * loop->rows.n_vocab;
        }
    CDZ_TRY(cdz_loop_await(loop));
    at = 0;
    for (uint32_t s = 0; s < all->n; s++)
        for (uint32_t i = 0; i < view->n; i++)
            if (*shown_at(loop, s, i) == all->scores.data + (size_t)at * loop->rows.n_vocab)
                CDZ_TRY(keep_longest(loop, s, view->rows[i], &all->trials[at++]));
    return CDZ_OK;
}

cdz_status cdz_companions_ready(cdz_loop *loop, const cdz_view *view)
{
    cdz_companions *all = loop->set->companions;
    if (!all) return CDZ_OK;
    if (!show(loop->set, view->n)) return cdz_loop_nomem(loop);
    const uint32_t lacking = look(loop, view);
    if (lacking == 0) return CDZ_OK;
    const cdz_status status = run_trials(loop, view, lacking);
    drop_trials(all);
    return status;
}

void cdz_companions_visit(const cdz_loop *loop, void (*visit)(void *user, const cdz_seq *seq),
                          void *user)
{
    const cdz_companions *all = loop->set ? loop->set->companions : NULL;
    const size_t n = all ? (size_t)all->n * loop->rows.n : 0;
    for (size_t i = 0; i < n; i++) {
        visit(user, &all->of[i].seq);
        visit(user, &all->next[i].seq);
    }
    for (uint32_t i = 0; all && i < all->n_trials; i++) visit(user, &all->trials[i]);
}
