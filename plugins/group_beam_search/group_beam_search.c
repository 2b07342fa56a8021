/* group_beam_search.c - beam search in groups that keep away from each other's tokens.
 * Vijayakumar et al., Diverse Beam Search: Decoding Diverse Solutions from Neural Sequence Models (2016),
 * https://arxiv.org/abs/1610.02424; as _group_beam_search of transformers 4.55.4.
 *
 * Beams are split into groups, each a beam search of its own. Within a step the groups choose one after the other, and a
 * token loses diversity_penalty for every beam of an earlier group that has just taken it. */
#include "scorer.h"

#include <string.h>

typedef struct {
    cdz_opt_int num_beam_groups;
    cdz_opt_real diversity_penalty;
    cdz_opt_real length_penalty;
    cdz_word early_stopping;
} groups;

static const cdz_param params[] = {
    CDZ_OPT_INT(groups, num_beam_groups, CDZ_GENERATION, 1, 65536,
                "groups that num_beams is split into; divides it"),
    CDZ_OPT_REAL(groups, diversity_penalty, CDZ_GENERATION, 0, CDZ_NO_LIMIT,
                 "taken from a token's score for each beam of an earlier group that chose it"),
    CDZ_RANKING_LENGTH(groups),
    CDZ_RANKING_STOP(groups),
};

typedef struct search {
    cdz_scorer s;
    uint32_t n_groups, width; /* beams of a group */
    float penalty;
    cdz_pool *pools; /* (n_prompts, n_groups) */
    /* The reference's beam_indices, with quirks: (n_groups, n_prompts, width) chains, and the next ones of a group. */
    const cdz_link **paths, **next;
    const cdz_link **made; /* (width) what the beams of a group become */
} search;

/* --- begin ---------------------------------------------------------------------------------------------------- */

static cdz_status configure(search *d)
{
    const groups *p = d->s.step->params;
    const int64_t n = p->num_beam_groups.set ? p->num_beam_groups.value : 1;
    const uint32_t beams = d->s.step->request->num_beams;
    if (n < 2)
        return cdz_fail(d->s.step, CDZ_E_USAGE,
                        "num_beam_groups = %lld: diverse beam search needs 2 or more", (long long)n);
    if (n > beams || beams % n)
        return cdz_fail(d->s.step, CDZ_E_USAGE,
                        "num_beam_groups = %lld: does not divide num_beams = %u", (long long)n,
                        beams);
    if (!p->diversity_penalty.set || p->diversity_penalty.value <= 0)
        return cdz_fail(d->s.step, CDZ_E_USAGE,
                        "diversity_penalty: must be above 0.0, or all groups find the same");
    d->n_groups = (uint32_t)n;
    d->width = beams / d->n_groups;
    d->penalty = (float)p->diversity_penalty.value;
    const cdz_ranking ranking = {p->length_penalty, p->early_stopping};
    return cdz_scorer_begin(&d->s, ranking, d->width, "diverse beam search");
}

static cdz_status make_room(search *d)
{
    const size_t rows = (size_t)d->s.n_prompts * d->s.n_beams;
    CDZ_TRY(
        cdz_scorer_take(&d->s, (size_t)d->s.n_prompts * d->n_groups, sizeof *d->pools, &d->pools));
    CDZ_TRY(cdz_scorer_take(&d->s, rows, sizeof *d->paths, &d->paths));
    CDZ_TRY(cdz_scorer_take(&d->s, rows, sizeof *d->next, &d->next));
    CDZ_TRY(cdz_scorer_take(&d->s, d->width, sizeof *d->made, &d->made));
    for (uint32_t i = 0; i < d->s.n_prompts * d->n_groups; i++)
        CDZ_TRY(cdz_scorer_pool(&d->s, &d->pools[i], d->width));
    return CDZ_OK;
}

/* --- indices as the reference has them ------------------------------------------------------------------------- */

/* There the chains of a group are its beams prompt after prompt, and beams are counted in that list. */
static uint32_t place(const search *d, uint32_t g, uint32_t b, uint32_t k)
{
    return (g * d->s.n_prompts + b) * d->width + k;
}

static cdz_status step_path(search *d, const cdz_link *before, int32_t index, const cdz_link **out)
{
    cdz_link *path;
    CDZ_TRY(cdz_scorer_take(&d->s, 1, sizeof *path, &path));
    *path = (cdz_link){.before = before, .len = before ? before->len + 1 : 1, .index = index};
    *out = path;
    return CDZ_OK;
}

/* Of a sequence that ended in any group, the reference looks up the beam in the first group's list. */
static cdz_status ended_path(search *d, uint32_t b, uint32_t k, const cdz_link **out)
{
    const uint32_t at = place(d, 0, b, k);
    return step_path(d, d->paths[at], (int32_t)at, out);
}

/* Called when the group's old chains are still there. */
static cdz_status kept_path(search *d, uint32_t g, uint32_t b, uint32_t k, uint32_t parent)
{
    const uint32_t index = b * d->width + parent;
    return step_path(d, d->paths[place(d, g, 0, index)], (int32_t)index,
                     &d->next[place(d, g, b, k)]);
}

/* --- one group of one prompt ------------------------------------------------------------------------------------ */

/* Beams of a prompt whose group has chosen in this step. With quirks also the pads of groups that are done. */
static bool counts(const search *d, uint32_t row)
{
    return d->s.quirks || !d->pools[row / d->width].done;
}

/* Takes the penalty off the tokens that earlier groups have just chosen: once per beam that chose it. */
static void keep_away(search *d, uint32_t prompt_row, uint32_t first)
{
    const int32_t *tokens = d->s.tokens;
    for (uint32_t i = prompt_row; i < first; i++) {
        uint32_t before = 0, all = 0;
        for (uint32_t j = prompt_row; j < first; j++) {
            if (tokens[j] != tokens[i] || !counts(d, j)) continue;
            before += j < i;
            all++;
        }
        if (before || !counts(d, i)) continue;
        for (uint32_t r = first; r < first + d->width; r++)
            cdz_row(&d->s.scores, r)[tokens[i]] -= d->penalty * (float)all;
    }
}

static cdz_status process(search *d, uint32_t first)
{
    cdz_scores part = d->s.scores;
    part.data = cdz_row(&d->s.scores, first);
    part.n_rows = d->width;
    return cdz_process(d->s.dec, &part);
}

/* A group that is done goes on with pads. */
static cdz_status rest(search *d, uint32_t b, uint32_t g)
{
    const uint32_t first = b * d->s.n_beams + g * d->width;
    const int32_t pad = d->s.step->request->pad;
    for (uint32_t k = 0; k < d->width; k++) {
        d->s.score[first + k] = 0.0f;
        d->s.parents[first + k] = first + k;
        d->s.tokens[first + k] = pad >= 0 ? pad : 0;
        if (!d->s.quirks) continue;
        const uint32_t at = place(d, g, 0, 0);
        CDZ_TRY(step_path(d, d->paths[at], 0, &d->next[place(d, g, b, k)]));
    }
    return CDZ_OK;
}

static cdz_status keep_ended(search *d, cdz_pool *pool, uint32_t b)
{
    cdz_scorer *s = &d->s;
    for (uint32_t i = 0; i < s->n_ended; i++) {
        const uint32_t c = s->ended[i], row = s->rows[c];
        cdz_hypothesis h = {.stop = s->candidate_stops[c]};
        CDZ_TRY(cdz_scorer_link(s, row, s->suffixes[c], (int32_t)row, &h.last));
        h.path = h.last;
        if (s->quirks) CDZ_TRY(ended_path(d, b, s->candidates[c].row, &h.path));
        cdz_scorer_add(s, pool, d->width, h, s->candidates[c].score, s->n_new + 1);
    }
    return CDZ_OK;
}

static cdz_status run_on(search *d, uint32_t b, uint32_t g)
{
    cdz_scorer *s = &d->s;
    const uint32_t first = b * s->n_beams + g * d->width;
    for (uint32_t k = 0; k < d->width; k++) {
        const uint32_t c = s->kept[k], row = s->rows[c];
        CDZ_TRY(cdz_scorer_link(s, row, s->suffixes[c], (int32_t)row, &d->made[k]));
        s->score[first + k] = s->candidates[c].score;
        s->parents[first + k] = row;
        s->tokens[first + k] = s->suffixes[c];
        s->stops[first + k] = s->candidate_stops[c];
        if (s->quirks) CDZ_TRY(kept_path(d, g, b, k, s->candidates[c].row));
    }
    memcpy(s->running + first, d->made, d->width * sizeof *d->made);
    return CDZ_OK;
}

static cdz_status advance_group(search *d, uint32_t b, uint32_t g)
{
    cdz_scorer *s = &d->s;
    const uint32_t prompt_row = b * s->n_beams, first = prompt_row + g * d->width;
    cdz_pool *pool = &d->pools[b * d->n_groups + g];
    keep_away(d, prompt_row, first);
    CDZ_TRY(process(d, first));
    if (pool->done) return rest(d, b, g);
    CDZ_TRY(cdz_scorer_candidates(s, first));
    CDZ_TRY(keep_ended(d, pool, b));
    CDZ_TRY(run_on(d, b, g));
    cdz_scorer_settle(s, pool, d->width, s->best);
    return CDZ_OK;
}

/* --- the whole -------------------------------------------------------------------------------------------------- */

static bool all_done(const search *d)
{
    for (uint32_t i = 0; i < d->s.n_prompts * d->n_groups; i++)
        if (!d->pools[i].done) return false;
    return true;
}

static cdz_status advance(search *d, bool *over)
{
    cdz_scorer *s = &d->s;
    const size_t in_group = (size_t)s->n_prompts * d->width;
    CDZ_TRY(cdz_scorer_forward(s));
    for (uint32_t g = 0; g < d->n_groups; g++) {
        for (uint32_t b = 0; b < s->n_prompts; b++) CDZ_TRY(advance_group(d, b, g));
        const uint32_t first = place(d, g, 0, 0);
        memcpy(d->paths + first, d->next + first, in_group * sizeof *d->paths);
    }
    CDZ_TRY(cdz_record(s->dec, CDZ_RECORD_SCORES, &s->scores));
    s->n_new++;
    *over = all_done(d) || cdz_scorer_all_stopped(s, d->pools, s->n_prompts * d->n_groups);
    return *over ? CDZ_OK : cdz_extend_rows(s->dec, s->parents, s->tokens);
}

/* Beams that still run enter the pools of their groups. */
static void close_pools(search *d)
{
    cdz_scorer *s = &d->s;
    for (uint32_t i = 0; i < s->n_prompts * d->n_groups; i++) {
        for (uint32_t k = 0; k < d->width && !d->pools[i].done; k++) {
            const uint32_t row = i * d->width + k;
            /* The reference's list of indices has another order than its rows. */
            const cdz_link *path = s->quirks ? d->paths[row] : s->running[row];
            const cdz_hypothesis h = {s->running[row], path, 0, s->stops[row]};
            cdz_scorer_add(s, &d->pools[i], d->width, h, s->score[row], s->n_new);
        }
    }
}

static cdz_status collect(search *d)
{
    cdz_scorer *s = &d->s;
    cdz_hypothesis *found, *all;
    CDZ_TRY(cdz_scorer_take(s, (size_t)s->n_prompts * s->n_returned, sizeof *found, &found));
    CDZ_TRY(cdz_scorer_take(s, s->n_beams, sizeof *all, &all));
    close_pools(d);
    for (uint32_t b = 0; b < s->n_prompts; b++) {
        uint32_t n = 0;
        for (uint32_t g = 0; g < d->n_groups; g++) {
            const cdz_pool *pool = &d->pools[b * d->n_groups + g];
            for (uint32_t i = 0; i < pool->n; i++) all[n++] = pool->at[i];
        }
        CDZ_TRY(cdz_scorer_best(s, all, n, found + (size_t)b * s->n_returned));
    }
    return cdz_scorer_return(s, found);
}

/* [engine] Row (b * n_groups + g) * width + k is beam k of group g of prompt b. */
static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    search d = {.s = {.dec = dec, .step = step}};
    bool over = false;
    CDZ_TRY(configure(&d));
    CDZ_TRY(make_room(&d));
    while (!over) {
        const cdz_status status = advance(&d, &over);
        if (status == CDZ_OK) continue;
        if ((status == CDZ_E_CANCELLED || status == CDZ_E_DEADLINE) && d.s.n_new)
            (void)collect(&d); /* what there is; the request's end is told all the same */
        return status;
    }
    return collect(&d);
}

static const cdz_strategy strategy = {
    .base = {CDZ_STRATEGY_BASE, .id = "org.cadenza.group-beam-search", .version = "1.0.0",
             .summary = "Beam search in groups that are penalised for each other's tokens",
             CDZ_PARAMS(groups, params)},
    .caps = CDZ_BEAMS | CDZ_GREEDY,
    .run = run,
};
CDZ_EXPORT_PLUGINS(&strategy.base)
