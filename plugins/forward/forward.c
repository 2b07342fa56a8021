/* forward.c - one pass over what the caches of the rows lack, for loops that live in another program: the logits are
 * results. Then the best token is taken, as often as max_new_tokens says; such a program asks for one. */
#include <cadenza/strategy.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    bool last_only;
} forward;

static const cdz_param params[] = {
    CDZ_BOOL(forward, last_only, 0, "the logits of each row's last position alone"),
};

/* Rows without gaps between them: their own memory, or a copy. NULL: no memory. */
static const float *dense(const cdz_step *step, const cdz_scores *scores)
{
    const size_t row = scores->n_vocab * sizeof(float);
    if (scores->n_rows <= 1 || scores->stride == scores->n_vocab) return scores->data;
    char *all = cdz_scratch(step, scores->n_rows * row);
    for (uint32_t r = 0; all && r < scores->n_rows; r++)
        memcpy(all + r * row, cdz_row(scores, r), row);
    return (const float *)(const void *)all;
}

static cdz_status put(cdz_decoder *dec, const cdz_step *step, const char *name, cdz_scores *scores)
{
    const uint64_t shape[] = {scores->n_rows, scores->n_vocab};
    CDZ_TRY(cdz_map(dec, scores));
    const float *rows = dense(step, scores);
    if (!rows) return cdz_fail(step, CDZ_E_NOMEM, "forward: no memory for the logits");
    return cdz_put_result(dec, name, CDZ_RESULT_F32, 2, shape, rows);
}

static int32_t best(const float *row, uint32_t n)
{
    uint32_t found = 0;
    for (uint32_t i = 1; i < n; i++)
        if (row[i] > row[found]) found = i;
    return (int32_t)found;
}

static cdz_status all_positions(cdz_decoder *dec, const cdz_step *step, int32_t *tokens)
{
    for (uint32_t r = 0; r < cdz_n_rows(dec); r++) {
        cdz_seq *const seq = cdz_seq_of_row(dec, r);
        char name[32];
        cdz_scores scores;
        snprintf(name, sizeof name, "logits_%u", r);
        CDZ_TRY(cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_ALL, &scores));
        CDZ_TRY(put(dec, step, name, &scores));
        tokens[r] = best(cdz_row(&scores, scores.n_rows - 1), scores.n_vocab);
    }
    return CDZ_OK;
}

static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    const forward *p = step->params;
    int32_t *tokens = cdz_scratch(step, cdz_n_rows(dec) * sizeof *tokens);
    cdz_scores scores;

    if (!tokens) return cdz_fail(step, CDZ_E_NOMEM, "forward: no memory for a token per row");
    if (p->last_only) {
        CDZ_TRY(cdz_forward(dec, &scores));
        CDZ_TRY(put(dec, step, "logits", &scores));
        CDZ_TRY(cdz_argmax_rows(dec, &scores, tokens));
    } else {
        CDZ_TRY(all_positions(dec, step, tokens));
    }
    CDZ_TRY(cdz_append_rows(dec, tokens));
    while (!cdz_done(dec)) {
        CDZ_TRY(cdz_forward(dec, &scores));
        CDZ_TRY(cdz_argmax_rows(dec, &scores, tokens));
        CDZ_TRY(cdz_append_rows(dec, tokens));
    }
    return CDZ_OK;
}

static const cdz_strategy strategy = {
    .base = {CDZ_STRATEGY_BASE, .id = "org.cadenza.forward", .version = "1.0.0",
             .summary = "One pass over the prompt: the logits of its positions",
             CDZ_PARAMS(forward, params)},
    .run = run,
};

CDZ_EXPORT_PLUGINS(&strategy.base)
