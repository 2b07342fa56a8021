/* token_scores.c - what is known of the tokens that rows took: scores and log-probabilities, from the steps that were
 * recorded or from the sequences that a search returned. */
#include <inttypes.h>
#include <math.h>

#include "api/api.h"

bool cdz_result_is_search(const cdz_result *result)
{
    const cdz_outcome *o = result->outcome;
    return o->n_rows && o->rows[0].scores;
}

uint32_t cdz_result_n_columns(const cdz_result *result)
{
    const cdz_outcome *o = result->outcome;
    uint32_t longest = 0;
    if (!cdz_result_is_search(result)) return o->n_steps;
    for (uint32_t r = 0; r < o->n_rows; r++)
        if (o->rows[r].n_new > longest) longest = o->rows[r].n_new;
    return longest;
}

static float of_sequence(const cdz_token_score *own, cdz_token_value what)
{
    switch (what) {
    case CDZ_TOKEN_SCORE: return own->score;
    case CDZ_TOKEN_LOGPROB: return own->logprob;
    case CDZ_TOKEN_RAW_LOGPROB: return own->raw_logprob;
    }
    return NAN;
}

/* The column of a step, (n_step_rows), or NULL. */
static const float *column(const cdz_recorded_step *step, cdz_token_value what)
{
    switch (what) {
    case CDZ_TOKEN_SCORE: return step->chosen;
    case CDZ_TOKEN_LOGPROB: return step->chosen_logprob;
    case CDZ_TOKEN_RAW_LOGPROB: return step->chosen_raw_logprob;
    }
    return NULL;
}

float cdz_result_taken(const cdz_result *result, uint32_t row, uint32_t step, cdz_token_value what)
{
    const cdz_outcome *o = result->outcome;
    if (o->rows[row].scores) return of_sequence(&o->rows[row].scores[step], what);
    const float *values = step < o->n_steps ? column(&o->steps[step], what) : NULL;
    return values ? values[row] : NAN;
}

cdz_status cdz_result_token_values(const cdz_result *result, uint32_t row, cdz_token_value what,
                                   float *out, uint32_t n, cdz_error *err)
{
    const cdz_outcome *o = result->outcome;
    if (what < CDZ_TOKEN_SCORE || what > CDZ_TOKEN_RAW_LOGPROB)
        return cdz_err(err, CDZ_E_USAGE, "token values: %d is no cdz_token_value", (int)what);
    if (row >= o->n_rows)
        return cdz_err(err, CDZ_E_USAGE, "token values: row %" PRIu32 " of %" PRIu32, row,
                       o->n_rows);
    if (n > o->rows[row].n_new)
        return cdz_err(err, CDZ_E_USAGE,
                       "token values: %" PRIu32 " wanted, row %" PRIu32 " has %" PRIu32
                       " new tokens",
                       n, row, o->rows[row].n_new);
    const bool kept = result->logprobs || result->record.present ||
                      (cdz_result_is_search(result) && what == CDZ_TOKEN_SCORE) ||
                      (o->n_steps && o->steps[0].chosen_logprob);
    if (!kept && n)
        return cdz_err(err, CDZ_E_STATE,
                       "the tokens' scores were not kept: set output_scores or output_logprobs");
    for (uint32_t i = 0; i < n; i++) out[i] = cdz_result_taken(result, row, i, what);
    return CDZ_OK;
}
