/* transition.c - transformers' compute_transition_scores on arrays, wherever they come from. */
#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "cadenza/cadenza.h"
#include "vec/vec.h"

static cdz_status check(const cdz_transition *in, cdz_error *err)
{
    if (in->n_rows == 0 || in->n_steps == 0 || in->n_vocab == 0)
        return cdz_err(err, CDZ_E_INPUT,
                       "transition scores: %" PRIu32 " sequences, %" PRIu32
                       " steps of scores of %" PRIu32 " tokens; none may be 0",
                       in->n_rows, in->n_steps, in->n_vocab);
    if (!in->beam_indices && in->n_score_rows != in->n_rows)
        return cdz_err(err, CDZ_E_INPUT,
                       "transition scores: %" PRIu32 " sequences and %" PRIu32
                       " rows of scores; a search's need beam_indices",
                       in->n_rows, in->n_score_rows);
    return CDZ_OK;
}

/* The row of scores that token `column` of a sequence came from; -1: the sequence had ended. */
static int64_t row_of(const cdz_transition *in, uint32_t r, uint32_t column)
{
    return in->beam_indices ? in->beam_indices[(size_t)r * in->n_columns + column] : (int64_t)r;
}

/* Tokens of the longest sequence. */
static uint32_t longest(const cdz_transition *in)
{
    if (!in->beam_indices) return in->n_steps;
    uint32_t most = 0;
    for (uint32_t r = 0; r < in->n_rows; r++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < in->n_columns; i++) n += row_of(in, r, i) >= 0;
        if (n > most) most = n;
    }
    return most;
}

static cdz_status one(const cdz_transition *in, uint32_t r, uint32_t column, int64_t token,
                      float *out, cdz_error *err)
{
    const int64_t from = row_of(in, r, column);
    *out = 0;
    if (from < 0) return CDZ_OK;
    if (from >= in->n_score_rows)
        return cdz_err(err, CDZ_E_INPUT,
                       "transition scores: beam index %" PRId64 " of sequence %" PRIu32
                       "; there are %" PRIu32 " rows of scores",
                       from, r, in->n_score_rows);
    if (token < 0 || token >= in->n_vocab)
        return cdz_err(err, CDZ_E_INPUT,
                       "transition scores: token %" PRId64 " of sequence %" PRIu32
                       " is outside the scores' %" PRIu32 " tokens",
                       token, r, in->n_vocab);
    const float *row = in->scores[column] + (size_t)from * in->n_vocab;
    *out = row[token] - (in->normalize ? cdz_vec_table()->logsumexp(row, in->n_vocab) : 0.0f);
    return CDZ_OK;
}

cdz_status cdz_transition_scores(const cdz_transition *in, float *out, uint32_t *n_columns,
                                 cdz_error *err)
{
    CDZ_TRY(check(in, err));
    const uint32_t n = longest(in);
    if (n > in->n_steps || n > in->len)
        return cdz_err(err, CDZ_E_INPUT,
                       "transition scores: %" PRIu32 " tokens in sequences of %" PRIu32
                       " with %" PRIu32 " steps of scores",
                       n, in->len, in->n_steps);
    for (uint32_t r = 0; r < in->n_rows; r++)
        for (uint32_t i = 0; i < n; i++) {
            const int64_t token = in->sequences[(size_t)r * in->len + (in->len - n) + i];
            CDZ_TRY(one(in, r, i, token, &out[(size_t)r * n + i], err));
        }
    *n_columns = n;
    return CDZ_OK;
}
