/* scorer.c - pools of sequences that ended, and the answer. */
#include "scorer.h"

#include <math.h>
#include <string.h>

/* --- begin ---------------------------------------------------------------------------------------------------- */

cdz_status cdz_scorer_take(cdz_scorer *s, size_t n, size_t bytes, void *out)
{
    void *at = n < SIZE_MAX / bytes ? cdz_scratch(s->step, (n + 1) * bytes) : NULL;
    if (!at) {
        (void)cdz_fail(s->step, CDZ_E_NOMEM, "%s: out of memory", s->step->plugin->id);
        return CDZ_E_NOMEM; /* and not what cdz_fail gives: *out is unset, as the analyzer can see now */
    }
    memset(at, 0, (n + 1) * bytes);
    memcpy(out, &at, sizeof at);
    return CDZ_OK;
}

cdz_status cdz_scorer_pool(cdz_scorer *s, cdz_pool *pool, uint32_t room)
{
    pool->worst = 1e9;
    return cdz_scorer_take(s, (size_t)room + 1, sizeof *pool->at, &pool->at);
}

static cdz_status check(cdz_scorer *s, const char *name)
{
    const cdz_request_info *request = s->step->request;
    const uint64_t flat = (uint64_t)s->width * request->n_vocab;
    if (request->do_sample)
        return cdz_fail(s->step, CDZ_E_USAGE, "do_sample = true: %s does not draw", name);
    if ((uint64_t)s->n_prompts * s->n_beams != cdz_n_rows(s->dec))
        return cdz_fail(s->step, CDZ_E_USAGE, "%s: %u rows for %u prompts of %u beams", name,
                        cdz_n_rows(s->dec), s->n_prompts, s->n_beams);
    if (s->n_candidates > flat)
        return cdz_fail(s->step, CDZ_E_USAGE,
                        "%s: %u beams and %u eos_token_id need %u candidates, but there are only "
                        "%llu",
                        name, s->width, request->eos.len, s->n_candidates, (unsigned long long)flat);
    return CDZ_OK;
}

static cdz_status make_room(cdz_scorer *s)
{
    const size_t rows = (size_t)s->n_prompts * s->n_beams, m = s->n_candidates;
    CDZ_TRY(cdz_scorer_take(s, rows, sizeof *s->running, &s->running));
    CDZ_TRY(cdz_scorer_take(s, rows, sizeof *s->score, &s->score));
    CDZ_TRY(cdz_scorer_take(s, rows, sizeof *s->parents, &s->parents));
    CDZ_TRY(cdz_scorer_take(s, rows, sizeof *s->tokens, &s->tokens));
    CDZ_TRY(cdz_scorer_take(s, rows, sizeof *s->stops, &s->stops));
    CDZ_TRY(cdz_scorer_take(s, m, sizeof *s->candidates, &s->candidates));
    CDZ_TRY(cdz_scorer_take(s, m, sizeof *s->candidate_stops, &s->candidate_stops));
    CDZ_TRY(cdz_scorer_take(s, m, sizeof *s->rows, &s->rows));
    CDZ_TRY(cdz_scorer_take(s, m, sizeof *s->kept, &s->kept));
    CDZ_TRY(cdz_scorer_take(s, m, sizeof *s->ended, &s->ended));
    CDZ_TRY(cdz_scorer_take(s, m, sizeof *s->suffixes, &s->suffixes));
    return cdz_scorer_take(s, m, sizeof *s->ids, &s->ids);
}

cdz_status cdz_scorer_begin(cdz_scorer *s, cdz_ranking ranking, uint32_t width, const char *name)
{
    const cdz_request_info *request = s->step->request;
    int64_t n_returned = 1;
    CDZ_TRY(s->step->host->config(s->step, "num_return_sequences", CDZ_T_INT, &n_returned));
    CDZ_TRY(s->step->host->config(s->step, "quirks", CDZ_T_BOOL, &s->quirks));
    s->length_penalty = ranking.length_penalty.set ? ranking.length_penalty.value : 1.0;
    s->early_stopping = ranking.early_stopping.set ? ranking.early_stopping.value : CDZ_STOP_LATER;
    s->n_prompts = request->n_prompts;
    s->n_beams = request->num_beams;
    s->n_returned = (uint32_t)n_returned;
    s->width = width;
    s->n_candidates = (request->eos.len + 1 > 2 ? request->eos.len + 1 : 2) * width;
    CDZ_TRY(check(s, name));
    CDZ_TRY(make_room(s));
    /* Only the first beam of those chosen together counts at the start: all are the same. */
    for (uint32_t i = 0; i < s->n_prompts * s->n_beams; i++)
        s->score[i] = i % width ? CDZ_SCORER_OFF : 0.0f;
    return CDZ_OK;
}

/* --- a step --------------------------------------------------------------------------------------------------- */

cdz_status cdz_scorer_forward(cdz_scorer *s)
{
    CDZ_TRY(cdz_forward(s->dec, &s->scores));
    CDZ_TRY(cdz_record(s->dec, CDZ_RECORD_LOGITS, &s->scores));
    CDZ_TRY(cdz_log_softmax(s->dec, &s->scores));
    return cdz_map(s->dec, &s->scores);
}

/* An end-of-sequence token ends a candidate, and so does any other rule that looks at what was written. In the
 * reference those others stop the search when they hold for all rows at once, and never else. */
static bool ends(const cdz_scorer *s, uint32_t candidate)
{
    const uint32_t reason = s->candidate_stops[candidate].reason;
    if (cdz_ids_have(s->step->request->eos, s->candidates[candidate].token)) return true;
    return !s->quirks && (reason == CDZ_STOP_STRING || reason == CDZ_STOP_CUSTOM);
}

/* Candidates that end after the first `width` are lost, as in the reference. Where too few are left to run on, some
 * that ended do, but they cannot win. */
static void sift(cdz_scorer *s)
{
    s->n_kept = s->n_ended = 0;
    for (uint32_t i = 0; i < s->n_candidates && s->n_kept < s->width; i++) {
        if (!ends(s, i))
            s->kept[s->n_kept++] = i;
        else if (i < s->width)
            s->ended[s->n_ended++] = i;
    }
    for (uint32_t i = 0; i < s->n_candidates && s->n_kept < s->width; i++) {
        if (!ends(s, i)) continue;
        s->candidates[i].score += CDZ_SCORER_OFF;
        s->kept[s->n_kept++] = i;
    }
}

cdz_status cdz_scorer_candidates(cdz_scorer *s, uint32_t first)
{
    const uint32_t m = s->n_candidates;
    CDZ_TRY(cdz_topk_flat(s->dec, &s->scores, first, s->width, s->score + first, m, s->candidates));
    for (uint32_t i = 0; i < m; i++) {
        s->rows[i] = first + s->candidates[i].row;
        s->suffixes[i] = s->candidates[i].token;
        s->ids[i] = (cdz_ids){&s->suffixes[i], 1};
    }
    CDZ_TRY(cdz_stop_test(s->dec, s->ids, s->rows, m, s->candidate_stops));
    s->best = s->candidates[0].score;
    sift(s);
    return CDZ_OK;
}

cdz_status cdz_scorer_link(cdz_scorer *s, uint32_t row, int32_t token, int32_t index,
                           const cdz_link **out)
{
    enum { AT_ONCE = 1024 };
    if (s->n_fresh == 0) {
        s->fresh = cdz_scratch(s->step, AT_ONCE * sizeof *s->fresh);
        if (!s->fresh)
            return cdz_fail(s->step, CDZ_E_NOMEM, "%s: out of memory after %u tokens",
                            s->step->plugin->id, s->n_new);
        s->n_fresh = AT_ONCE;
    }
    cdz_link *link = s->fresh++;
    s->n_fresh--;
    *link =
        (cdz_link){.before = s->running[row], .len = s->n_new + 1, .token = token, .index = index};
    CDZ_TRY(cdz_token_scores(s->dec, &s->scores, &row, &token, 1, &link->said));
    *out = link;
    return CDZ_OK;
}

bool cdz_scorer_all_stopped(const cdz_scorer *s, const cdz_pool *pools, uint32_t n_pools)
{
    const uint32_t rows = s->n_prompts * s->n_beams, each = rows / n_pools;
    for (uint32_t r = 0; r < rows; r++)
        if (!pools[r / each].done && s->stops[r].reason == CDZ_GO_ON) return false;
    return true;
}

/* --- pools ---------------------------------------------------------------------------------------------------- */

static double normalised(const cdz_scorer *s, float sum, uint32_t len)
{
    return (double)sum / pow((double)len, s->length_penalty);
}

/* The worst, of equals the first, makes room. */
static void drop_worst(cdz_pool *pool)
{
    uint32_t worst = 0;
    for (uint32_t i = 1; i < pool->n; i++)
        if (pool->at[i].score < pool->at[worst].score) worst = i;
    pool->n--;
    memmove(&pool->at[worst], &pool->at[worst + 1], (pool->n - worst) * sizeof *pool->at);
    pool->worst = pool->at[0].score;
    for (uint32_t i = 1; i < pool->n; i++)
        if (pool->at[i].score < pool->worst) pool->worst = pool->at[i].score;
}

void cdz_scorer_add(const cdz_scorer *s, cdz_pool *pool, uint32_t room, cdz_hypothesis h, float sum,
                    uint32_t len)
{
    h.score = normalised(s, sum, len);
    if (pool->n >= room && !(h.score > pool->worst)) return;
    pool->at[pool->n++] = h;
    if (pool->n > room)
        drop_worst(pool);
    else if (h.score < pool->worst)
        pool->worst = h.score;
}

void cdz_scorer_settle(const cdz_scorer *s, cdz_pool *pool, uint32_t room, float best)
{
    const cdz_request_info *request = s->step->request;
    const bool at_best = s->early_stopping == CDZ_STOP_NEVER && s->length_penalty > 0.0;
    const uint32_t len = at_best ? request->max_length - request->prompt_len : s->n_new + 1;
    if (pool->done || pool->n < room) return;
    pool->done = s->early_stopping == CDZ_STOP_WHEN_FULL || pool->worst >= normalised(s, best, len);
}

/* --- the answer ----------------------------------------------------------------------------------------------- */

cdz_status cdz_scorer_best(cdz_scorer *s, const cdz_hypothesis *all, uint32_t n, cdz_hypothesis *out)
{
    bool *taken;
    CDZ_TRY(cdz_scorer_take(s, n, sizeof *taken, &taken));
    for (uint32_t k = 0; k < s->n_returned; k++) {
        uint32_t best = n;
        for (uint32_t i = 0; i < n; i++)
            if (!taken[i] && (best == n || all[i].score >= all[best].score)) best = i;
        if (best == n)
            return cdz_fail(s->step, CDZ_E_INTERNAL, "%s: %u sequences for %u to return",
                            s->step->plugin->id, n, s->n_returned);
        taken[best] = true;
        out[k] = all[best];
    }
    return CDZ_OK;
}

/* One hypothesis as the host takes it, filled up to width. The reference writes its first end-of-sequence token
 * whichever ended the sequence. */
static cdz_status unroll(cdz_scorer *s, const cdz_hypothesis *h, uint32_t width, cdz_returned *out)
{
    const cdz_request_info *request = s->step->request;
    const uint32_t n = h->last ? h->last->len : 0;
    int32_t *ids;
    cdz_token_score *said;
    CDZ_TRY(cdz_scorer_take(s, width, sizeof *ids, &ids));
    CDZ_TRY(cdz_scorer_take(s, n, sizeof *said, &said));
    for (uint32_t i = n; i < width; i++) ids[i] = request->pad;
    for (const cdz_link *l = h->last; l; l = l->before) {
        ids[l->len - 1] = l->token;
        said[l->len - 1] = l->said;
    }
    if (s->quirks && n && h->stop.reason == CDZ_STOP_EOS) ids[n - 1] = request->eos.at[0];
    out->ids = (cdz_ids){ids, width};
    out->n_new = n;
    out->stop = h->stop;
    out->scores = said;
    return CDZ_OK;
}

/* -1 past the end. The reference makes them as wide as the whole sequences, prompt included. */
static void write_indices(const cdz_hypothesis *h, uint32_t width, int32_t *out)
{
    for (uint32_t i = 0; i < width; i++) out[i] = -1;
    for (const cdz_link *l = h->path; l; l = l->before)
        if (l->len <= width) out[l->len - 1] = l->index;
}

cdz_status cdz_scorer_return(cdz_scorer *s, const cdz_hypothesis *found)
{
    const uint32_t n = s->n_prompts * s->n_returned;
    const int32_t n_steps = (int32_t)s->n_new;
    uint32_t width = 0;
    cdz_returned *rows;
    float *scores;
    int32_t *indices;
    for (uint32_t i = 0; i < n; i++)
        if (found[i].last && found[i].last->len > width) width = found[i].last->len;
    const uint32_t wide = s->quirks ? s->step->request->prompt_len + width : width;
    CDZ_TRY(cdz_scorer_take(s, n, sizeof *rows, &rows));
    CDZ_TRY(cdz_scorer_take(s, n, sizeof *scores, &scores));
    CDZ_TRY(cdz_scorer_take(s, (size_t)n * wide, sizeof *indices, &indices));
    for (uint32_t i = 0; i < n; i++) {
        rows[i].row = i / s->n_returned * s->n_beams;
        scores[i] = (float)found[i].score;
        CDZ_TRY(unroll(s, &found[i], width, &rows[i]));
        write_indices(&found[i], wide, indices + (size_t)i * wide);
    }
    CDZ_TRY(cdz_return_rows(s->dec, rows, n));
    const uint64_t shape[] = {n, wide};
    CDZ_TRY(cdz_put_result(s->dec, "sequences_scores", CDZ_RESULT_F32, 1, shape, scores));
    CDZ_TRY(cdz_put_result(s->dec, "beam_indices", CDZ_RESULT_I32, 2, shape, indices));
    return cdz_put_result(s->dec, "n_steps", CDZ_RESULT_I32, 0, shape, &n_steps);
}
