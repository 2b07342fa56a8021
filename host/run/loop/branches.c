/* branches.c - verbs on many branches of a search at once: one pass for all of them, where a loop over branches would be one each.
 *
 * Owns: nothing; everything is done by the verbs of seqs.c, scores.c and choice.c, as a strategy would, and may suspend as they
 * do. What is taken on the way is given back however it ends. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run/loop/loop.h"
#include "run/loop/verbs.h"

/* --- what branches are worth ---------------------------------------------------------------------------------------- */

static cdz_status check_last(cdz_loop *loop, cdz_seq *const *seqs, uint32_t n, uint32_t last)
{
    if (n == 0 || last == 0)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "seq_score: of no %s", n ? "tokens" : "sequences");
    for (uint32_t i = 0; i < n; i++)
        if (seqs[i]->n <= last)
            return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                                 "seq_score: the last %" PRIu32 " tokens of a sequence of %" PRIu32
                                 "; the first has none before it",
                                 last, seqs[i]->n);
    return CDZ_OK;
}

/* Forks that lack the scored tokens and the one before them. */
static cdz_status make_forks(cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n, uint32_t last,
                             cdz_seq **forks)
{
    for (uint32_t i = 0; i < n; i++) {
        CDZ_TRY(cdz_verb_seq_fork(dec, seqs[i], &forks[i]));
        CDZ_TRY(cdz_verb_seq_truncate(dec, forks[i], seqs[i]->n - last - 1));
    }
    return CDZ_OK;
}

/* They are read up to there, then the rest in a pass that shows every position. */
static cdz_status read_rest(cdz_decoder *dec, cdz_seq *const *seqs, cdz_seq **forks, uint32_t n,
                            uint32_t last, cdz_scores *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    cdz_scores unused;
    CDZ_TRY(cdz_verb_seq_forward(dec, forks, n, CDZ_POSITIONS_NONE, &unused));
    for (uint32_t i = 0; i < n; i++)
        CDZ_TRY(cdz_verb_seq_append(dec, forks[i], seqs[i]->ids + (seqs[i]->n - last - 1), last));
    CDZ_TRY(cdz_verb_seq_forward(dec, forks, n, CDZ_POSITIONS_ALL, out));
    if (out->n_rows == n * last) return CDZ_OK;
    return cdz_loop_fail(loop, CDZ_E_UNSUPPORTED,
                         "seq_score: the prompt's mask hides some of the last %" PRIu32 " tokens",
                         last + 1);
}

static cdz_status score_forks(cdz_decoder *dec, cdz_seq *const *seqs, cdz_seq **forks, uint32_t n,
                              uint32_t last, float *out)
{
    cdz_scores rows;
    CDZ_TRY(make_forks(dec, seqs, n, last, forks));
    CDZ_TRY(read_rest(dec, seqs, forks, n, last, &rows));
    CDZ_TRY(cdz_verb_map(dec, &rows));
    CDZ_TRY(cdz_verb_log_softmax(dec, &rows));
    for (uint32_t i = 0; i < n; i++) {
        const int32_t *ids = seqs[i]->ids + (seqs[i]->n - last);
        double sum = 0;
        for (uint32_t k = 0; k < last; k++) sum += cdz_row(&rows, i * last + k)[ids[k]];
        out[i] = (float)sum;
    }
    return CDZ_OK;
}

cdz_status cdz_verb_seq_score(cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n, uint32_t last,
                              float *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    CDZ_TRY(check_last(loop, seqs, n, last));
    cdz_seq **forks = calloc(n, sizeof(cdz_seq *));
    if (!forks) return cdz_loop_nomem(loop);
    const cdz_status status = score_forks(dec, seqs, forks, n, last, out);
    for (uint32_t i = 0; i < n; i++)
        if (forks[i]) cdz_verb_seq_free(dec, forks[i]);
    free(forks);
    return status;
}

cdz_status cdz_verb_seq_append_forward(cdz_decoder *dec, cdz_seq *const *seqs,
                                       const int32_t *tokens, uint32_t n, cdz_scores *out)
{
    CDZ_TRY(cdz_verb_enter(dec, 0));
    for (uint32_t i = 0; i < n; i++) CDZ_TRY(cdz_verb_seq_append(dec, seqs[i], &tokens[i], 1));
    return cdz_verb_seq_forward(dec, seqs, n, CDZ_POSITIONS_LAST, out);
}

/* --- rollouts ------------------------------------------------------------------------------------------------------- */

/* Branches that go on, side by side. */
typedef struct growing {
    cdz_seq *const *seqs;
    const uint32_t *rows;
    cdz_rollout *out;
    uint32_t n_live;
    uint32_t *which;     /* (n_live) of all branches */
    cdz_seq **live;      /* (n_live) */
    uint32_t *live_rows; /* (n_live) */
    int32_t *tokens;     /* (n_live) the newest */
    cdz_ids *suffixes;   /* (n_live) behind what the request row has */
    cdz_stop *stops;     /* (n_live) */
} growing;

static bool begin_growing(growing *g, uint32_t n)
{
    g->which = calloc(n, sizeof *g->which);
    g->live = calloc(n, sizeof(cdz_seq *));
    g->live_rows = calloc(n, sizeof *g->live_rows);
    g->tokens = calloc(n, sizeof *g->tokens);
    g->suffixes = calloc(n, sizeof *g->suffixes);
    g->stops = calloc(n, sizeof *g->stops);
    return g->which && g->live && g->live_rows && g->tokens && g->suffixes && g->stops;
}

static void end_growing(const growing *g)
{
    free(g->which);
    free((void *)g->live);
    free(g->live_rows);
    free(g->tokens);
    free(g->suffixes);
    free(g->stops);
}

static cdz_status check_branch(cdz_loop *loop, const cdz_seq *seq, uint32_t row)
{
    if (row >= loop->rows.n)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "rollouts: row %" PRIu32 " of %" PRIu32,
                             cdz_loop_nth(loop, row), loop->rows.n);
    const cdz_ids ids = cdz_row_ids(&loop->rows.at[row]);
    if (seq->n >= ids.len && memcmp(seq->ids, ids.at, ids.len * sizeof *ids.at) == 0) return CDZ_OK;
    return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                         "rollouts: a sequence does not begin with the ids of row %" PRIu32
                         ", which it is to continue",
                         cdz_loop_nth(loop, row));
}

/* Those that no rule has ended. */
static void list_live(growing *g, uint32_t n)
{
    g->n_live = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (g->out[i].stop.reason != CDZ_GO_ON) continue;
        g->which[g->n_live] = i;
        g->live[g->n_live] = g->seqs[i];
        g->live_rows[g->n_live++] = g->rows[i];
    }
}

static cdz_status choose(cdz_decoder *dec, growing *g, cdz_scores *scores, bool draws)
{
    CDZ_TRY(cdz_verb_softmax(dec, scores));
    if (draws) return cdz_verb_multinomial(dec, scores, g->tokens);
    for (uint32_t i = 0; i < g->n_live; i++) {
        cdz_pick pick;
        CDZ_TRY(cdz_verb_argmax(dec, scores, i, &pick));
        g->tokens[i] = pick.token;
    }
    return CDZ_OK;
}

static cdz_status take_tokens(cdz_decoder *dec, growing *g, const cdz_scores *probs)
{
    const cdz_loop *loop = cdz_loop_of(dec);
    for (uint32_t i = 0; i < g->n_live; i++) {
        cdz_seq *seq = g->live[i];
        cdz_rollout *out = &g->out[g->which[i]];
        CDZ_TRY(cdz_verb_seq_append(dec, seq, &g->tokens[i], 1));
        out->n_new++;
        out->logprob += logf(cdz_row(probs, i)[g->tokens[i]]);
        const uint32_t own = loop->rows.at[g->live_rows[i]].seq->n;
        g->suffixes[i] = (cdz_ids){seq->ids + own, seq->n - own};
    }
    return CDZ_OK;
}

static cdz_status grow(cdz_decoder *dec, growing *g, bool draws)
{
    cdz_scores scores;
    CDZ_TRY(cdz_verb_seq_forward(dec, g->live, g->n_live, CDZ_POSITIONS_LAST, &scores));
    CDZ_TRY(cdz_verb_seq_process(dec, g->live, g->live_rows, g->n_live, &scores));
    CDZ_TRY(choose(dec, g, &scores, draws));
    CDZ_TRY(take_tokens(dec, g, &scores));
    memset(g->stops, 0, g->n_live * sizeof *g->stops);
    CDZ_TRY(cdz_verb_stop_test(dec, g->suffixes, g->live_rows, g->n_live, g->stops));
    for (uint32_t i = 0; i < g->n_live; i++) g->out[g->which[i]].stop = g->stops[i];
    return CDZ_OK;
}

cdz_status cdz_verb_rollouts(cdz_decoder *dec, cdz_seq *const *seqs, const uint32_t *rows,
                             uint32_t n, uint32_t most, bool draws, cdz_rollout *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    growing g = {.seqs = seqs, .rows = rows, .out = out};
    CDZ_TRY(cdz_verb_enter(dec, 0));
    for (uint32_t i = 0; i < n; i++) CDZ_TRY(check_branch(loop, seqs[i], rows[i]));
    memset(out, 0, n * sizeof *out);
    cdz_status status = begin_growing(&g, n + 1) ? CDZ_OK : cdz_loop_nomem(loop);
    for (uint32_t step = 0; status == CDZ_OK && step < most; step++) {
        list_live(&g, n);
        if (g.n_live == 0) break;
        status = grow(dec, &g, draws);
    }
    end_growing(&g);
    return status;
}
