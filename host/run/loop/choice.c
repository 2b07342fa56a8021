/* choice.c - verbs that choose tokens. Draws come from the loop's torch stream, in program order.
 *
 * Owns: the stream's place in a request. Not: the stream (random/torch_rng.h), processors, what becomes of a token
 * (append.c). Each row of scores that is handed in draws, whether its row has ended or not: so does transformers'. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "run/loop/loop.h"
#include "run/loop/verbs.h"
#include "run/stages/fuse.h"
#include "vec/vec.h"

static bool skips(const cdz_loop *loop, const cdz_scores *scores, uint32_t first, uint32_t row)
{
    return scores->id == loop->scores.id && first + row < loop->rows.n &&
           cdz_row_pads(&loop->rows, first + row);
}

cdz_status cdz_verb_argmax(cdz_decoder *dec, const cdz_scores *given, uint32_t row, cdz_pick *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    uint32_t first;
    cdz_scores here;
    const cdz_scores *scores = &here;
    CDZ_TRY(cdz_loop_check(loop, "argmax", given, &here, &first));
    if (row >= scores->n_rows)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "argmax: row %" PRIu32 " of %" PRIu32,
                             cdz_loop_nth(loop, row), scores->n_rows);
    const cdz_vec *vec = cdz_vec_table();
    const float *x = cdz_row(scores, row);
    const cdz_work was = cdz_profile_mark(loop->rows.berth->profile, CDZ_WORK_DRAW);
    out->token = vec->argmax(x, scores->n_vocab);
    out->score = x[out->token];
    out->prob = (float)exp((double)out->score - (double)vec->logsumexp(x, scores->n_vocab));
    cdz_profile_mark(loop->rows.berth->profile, was);
    return CDZ_OK;
}

/* Of a row that is away the pass has told. */
static cdz_status best_of(cdz_loop *loop, const cdz_scores *scores, uint32_t first, uint32_t row,
                          int32_t *token)
{
    const bool ours = scores->id == loop->scores.id;
    *token = -1;
    if (ours && cdz_away_has(&loop->rows.away, first + row))
        *token = cdz_away_best(&loop->rows.away, first + row);
    if (*token >= 0) return CDZ_OK;
    if (ours) CDZ_TRY(cdz_loop_fetch(loop, first + row, 1));
    *token = cdz_vec_table()->argmax(cdz_row(scores, row), scores->n_vocab);
    return CDZ_OK;
}

cdz_status cdz_verb_argmax_rows(cdz_decoder *dec, const cdz_scores *given, int32_t *tokens)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    uint32_t first;
    cdz_scores here;
    CDZ_TRY(cdz_loop_find(loop, "argmax_rows", given, &here, &first));
    const cdz_work was = cdz_profile_mark(loop->rows.berth->profile, CDZ_WORK_DRAW);
    for (uint32_t r = 0; r < here.n_rows; r++) {
        tokens[r] = 0;
        if (!skips(loop, &here, first, r)) CDZ_TRY(best_of(loop, &here, first, r, &tokens[r]));
    }
    cdz_profile_mark(loop->rows.berth->profile, was);
    return CDZ_OK;
}

static cdz_status bad_row(cdz_loop *loop, uint32_t row)
{
    return cdz_loop_fail(loop, CDZ_E_INPUT,
                         "row %" PRIu32 ": probabilities hold nan, inf, a negative value or only "
                         "zeros",
                         cdz_loop_nth(loop, row));
}

/* Rows that are filled with pad consume their draws and choose nothing. */
cdz_status cdz_verb_multinomial(cdz_decoder *dec, const cdz_scores *given, int32_t *tokens)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    uint32_t first;
    cdz_scores here;
    const cdz_scores *probs = &here;
    CDZ_TRY(cdz_loop_check(loop, "multinomial", given, &here, &first));
    const cdz_work was = cdz_profile_mark(loop->rows.berth->profile, CDZ_WORK_DRAW);
    for (uint32_t r = 0; r < probs->n_rows; r++) {
        if (skips(loop, probs, first, r)) {
            cdz_torch_skip(&loop->rng, 2 * (uint64_t)probs->n_vocab);
            tokens[r] = 0;
            continue;
        }
        tokens[r] = cdz_torch_multinomial(&loop->rng, cdz_row(probs, r), probs->n_vocab);
        if (tokens[r] < 0) return bad_row(loop, first + r);
    }
    cdz_profile_mark(loop->rows.berth->profile, was);
    return CDZ_OK;
}

/* --- a whole step ------------------------------------------------------------------------------------------------ */

static cdz_status verb_by_verb(cdz_decoder *dec, cdz_scores *scores, int32_t *tokens)
{
    CDZ_TRY(cdz_verb_process(dec, scores));
    CDZ_TRY(cdz_verb_record(dec, CDZ_RECORD_SCORES, scores));
    CDZ_TRY(cdz_verb_softmax(dec, scores));
    return cdz_verb_multinomial(dec, scores, tokens);
}

/* Rows that are away become lists by what is known of them; of those that cannot the scores are fetched. */
static void draw_away(cdz_loop *loop, const cdz_scores *scores, uint32_t first, cdz_drawn *drawn)
{
    cdz_away *away = &loop->rows.away;
    uint32_t enough = 0, fetched = 0;
    if (scores->id != loop->scores.id) return;
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        if (skips(loop, scores, first, r) || !cdz_away_has(away, first + r)) continue;
        if (away->cuts && cdz_fuse_leaders(loop->set, &loop->rows, scores, first, r, &drawn[r]))
            enough++;
        else
            fetched += cdz_away_fetch(away, loop->scores.data, first + r, 1);
    }
    cdz_loop_note_fetched(loop, fetched);
    away->draws |= fetched > 0;
    if (away->cuts && (enough || fetched)) cdz_away_note(away, fetched == 0);
}

/* What was known of row r was not enough: it comes over after all, and is processed as it is. */
static cdz_status bring_drawn(cdz_loop *loop, cdz_scores *scores, uint32_t first, uint32_t r)
{
    cdz_scores one = *scores;
    one.data = cdz_row(scores, r);
    one.n_rows = 1;
    cdz_loop_note_fetched(loop, cdz_away_fetch(&loop->rows.away, loop->scores.data, first + r, 1));
    cdz_away_note(&loop->rows.away, false);
    cdz_stages_look(loop->set, &loop->rows, first + r, 1);
    const cdz_status status =
        cdz_loop_process(loop, &loop->set->processors, &loop->rows.view, &one, NULL);
    scores->data = one.data - (size_t)r * scores->stride; /* a processor may have kept them */
    cdz_stages_look(loop->set, &loop->rows, first, scores->n_rows);
    return status;
}

static cdz_status draw_row(cdz_loop *loop, cdz_scores *scores, uint32_t first, uint32_t r,
                           const cdz_drawn *drawn, int32_t *token)
{
    if (drawn->listed) {
        *token =
            drawn->open
                ? cdz_fuse_draw_open(&loop->rng, loop->set, &loop->rows, scores, first, r, drawn)
                : cdz_fuse_draw(&loop->rng, cdz_row(scores, r), scores->n_vocab, drawn);
        if (*token >= 0) return CDZ_OK;
        CDZ_TRY(bring_drawn(loop, scores, first, r));
    }
    *token =
        cdz_fuse_draw_row(&loop->rng, cdz_row(scores, r), scores->n_vocab, &loop->rows.workers[0]);
    return *token >= 0 ? CDZ_OK : bad_row(loop, first + r);
}

static cdz_status draw(cdz_loop *loop, cdz_scores *scores, uint32_t first, const cdz_drawn *drawn,
                       int32_t *tokens)
{
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        if (!skips(loop, scores, first, r)) {
            CDZ_TRY(draw_row(loop, scores, first, r, &drawn[r], &tokens[r]));
            continue;
        }
        cdz_torch_skip(&loop->rng, 2 * (uint64_t)scores->n_vocab);
        tokens[r] = 0;
    }
    return CDZ_OK;
}

cdz_status cdz_verb_draw_rows(cdz_decoder *dec, cdz_scores *scores, int32_t *tokens)
{
    cdz_loop *loop = cdz_loop_of(dec);
    uint32_t first;
    if (!loop->rows.berth->fuses || loop->rows.watch.n || cdz_record_wants(loop, CDZ_RECORD_SCORES))
        return verb_by_verb(dec, scores, tokens);
    CDZ_TRY(cdz_verb_enter(dec, CDZ_VERB_SCRATCH));
    CDZ_TRY(cdz_loop_rows_of(loop, "draw_rows", scores, scores, &first));
    cdz_drawn *drawn = cdz_scratch_take(&loop->rows.verb_scratch, scores->n_rows * sizeof *drawn);
    if (!drawn) return cdz_loop_nomem(loop);
    memset(drawn, 0, scores->n_rows * sizeof *drawn);
    cdz_stages_look(loop->set, &loop->rows, first, scores->n_rows);
    if (scores->id == loop->scores.id) CDZ_TRY(cdz_loop_arrive(loop, first, scores->n_rows));
    draw_away(loop, scores, first, drawn);
    CDZ_TRY(cdz_loop_process(loop, &loop->set->processors, &loop->rows.view, scores, drawn));
    const cdz_work was = cdz_profile_mark(loop->rows.berth->profile, CDZ_WORK_DRAW);
    const cdz_status status = draw(loop, scores, first, drawn, tokens);
    cdz_profile_mark(loop->rows.berth->profile, was);
    return status;
}

/* --- several rows as one -------------------------------------------------------------------------------------- */

static cdz_status check_flat(cdz_loop *loop, const char *verb, const cdz_scores *given,
                             cdz_scores *scores, uint32_t first, uint32_t n, uint32_t m)
{
    uint32_t at;
    CDZ_TRY(cdz_verb_enter(&loop->base, CDZ_VERB_SCRATCH));
    CDZ_TRY(cdz_loop_check(loop, verb, given, scores, &at));
    const uint64_t flat = (uint64_t)n * scores->n_vocab;
    if (n && n <= scores->n_rows && first <= scores->n_rows - n && m <= flat && flat <= INT32_MAX)
        return CDZ_OK;
    return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                         "%s: %" PRIu32 " candidates from rows %" PRIu32 " to %" PRIu32
                         " of scores with %" PRIu32 " rows of %" PRIu32,
                         verb, m, cdz_loop_nth(loop, first), cdz_loop_nth(loop, first) + n,
                         scores->n_rows, scores->n_vocab);
}

static void to_candidates(cdz_candidate *out, uint32_t m, const int32_t *ids, const float *values,
                          uint32_t n_vocab)
{
    for (uint32_t i = 0; i < m; i++)
        out[i] = (cdz_candidate){(uint32_t)ids[i] / n_vocab, (int32_t)((uint32_t)ids[i] % n_vocab),
                                 values[i]};
}

/* Rows [first, first + n) with their addends, one after the other. */
static float *flatten(cdz_loop *loop, const cdz_scores *scores, uint32_t first, uint32_t n,
                      const float *addends)
{
    const size_t V = scores->n_vocab;
    float *flat = cdz_scratch_take(&loop->rows.verb_scratch, n * V * sizeof *flat);
    for (uint32_t i = 0; flat && i < n; i++) {
        memcpy(flat + i * V, cdz_row(scores, first + i), V * sizeof *flat);
        if (addends) cdz_vec_table()->add(flat + i * V, V, addends[i]);
    }
    return flat;
}

cdz_status cdz_verb_topk_flat(cdz_decoder *dec, const cdz_scores *given, uint32_t first, uint32_t n,
                              const float *addends, uint32_t m, cdz_candidate *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    cdz_scores here;
    const cdz_scores *scores = &here;
    CDZ_TRY(check_flat(loop, "topk_flat", given, &here, first, n, m));
    const size_t total = (size_t)n * scores->n_vocab;
    float *flat = flatten(loop, scores, first, n, addends);
    float *values = cdz_scratch_take(&loop->rows.verb_scratch, m * sizeof *values);
    int32_t *ids = cdz_scratch_take(&loop->rows.verb_scratch, m * sizeof *ids);
    void *room = cdz_scratch_take(&loop->rows.verb_scratch, cdz_vec_scratch(total));
    if (!flat || !values || !ids || !room) return cdz_loop_nomem(loop);
    const cdz_work was = cdz_profile_mark(loop->rows.berth->profile, CDZ_WORK_DRAW);
    cdz_vec_table()->topk(flat, total, m, values, ids, room);
    cdz_profile_mark(loop->rows.berth->profile, was);
    to_candidates(out, m, ids, values, scores->n_vocab);
    return CDZ_OK;
}

cdz_status cdz_verb_multinomial_flat(cdz_decoder *dec, const cdz_scores *given, uint32_t first,
                                     uint32_t n, uint32_t m, cdz_candidate *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    cdz_scores here;
    const cdz_scores *probs = &here;
    CDZ_TRY(check_flat(loop, "multinomial_flat", given, &here, first, n, m));
    const size_t total = (size_t)n * probs->n_vocab;
    const float *flat = cdz_row(probs, first); /* stride is the vocabulary: already one row */
    float *values = cdz_scratch_take(&loop->rows.verb_scratch, m * sizeof *values);
    int32_t *ids = cdz_scratch_take(&loop->rows.verb_scratch, m * sizeof *ids);
    void *room = cdz_scratch_take(&loop->rows.verb_scratch, cdz_vec_scratch(total));
    if (!values || !ids || !room) return cdz_loop_nomem(loop);
    if (cdz_torch_multinomial_k(&loop->rng, flat, total, m, ids, room) != 0)
        return bad_row(loop, first);
    for (uint32_t i = 0; i < m; i++) values[i] = flat[ids[i]];
    to_candidates(out, m, ids, values, probs->n_vocab);
    return CDZ_OK;
}

cdz_status cdz_verb_uniform(cdz_decoder *dec, uint32_t n, float *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    for (uint32_t i = 0; i < n; i++) out[i] = cdz_torch_uniform(&loop->rng);
    return CDZ_OK;
}
