/* token_scores.c - what is known of the tokens that rows took: scores and log-probabilities, from the steps that were
 * recorded or from the sequences that a search returned. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

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

const float *cdz_result_prompt_logprobs(const cdz_result *result, uint32_t row, uint32_t *n_ids)
{
    const cdz_outcome *o = result->outcome;
    const bool there = o->prompt_logprobs && row < o->n_rows;
    *n_ids = there ? result->prompt_len : 0;
    return there ? o->prompt_logprobs + (size_t)row * result->prompt_len : NULL;
}

/* --- the likeliest --------------------------------------------------------------------------------------------- */

uint32_t cdz_result_top_scores(const cdz_result *result, uint32_t row, uint32_t step,
                               const int32_t **ids, const float **scores, float *logsumexp)
{
    const cdz_outcome *o = result->outcome;
    const size_t at = (size_t)row * result->keep_top;
    if (step >= o->n_steps || row >= o->n_step_rows || !o->steps[step].top_ids) return 0;
    *ids = o->steps[step].top_ids + at;
    *scores = o->steps[step].top_values + at;
    *logsumexp = o->steps[step].logsumexp[row];
    return result->keep_top;
}

uint32_t cdz_result_prompt_top_logprobs(const cdz_result *result, uint32_t row, uint32_t place,
                                        const int32_t **ids, const float **logprobs)
{
    uint32_t n;
    const cdz_outcome *o = result->outcome;
    const float *known = cdz_result_prompt_logprobs(result, row, &n);
    if (!known || place >= n || !o->prompt_top_ids || isnan(known[place])) return 0;
    const size_t at = ((size_t)row * n + place) * result->keep_top;
    *ids = o->prompt_top_ids + at;
    *logprobs = o->prompt_top_logprobs + at;
    return result->keep_top;
}

/* --- a text on its own ---------------------------------------------------------------------------------------------- */

static void write_row(cdz_buf *out, const char *name, const int32_t *ids, size_t n)
{
    cdz_buf_printf(out, "\"%s\": [[", name);
    for (size_t i = 0; i < n; i++) cdz_buf_printf(out, "%s%" PRId32, i ? ", " : "", ids[i]);
    cdz_buf_puts(out, "]]");
}

static void write_document(cdz_buf *out, const cdz_scored_text *text, bool pair)
{
    cdz_buf_puts(out, "{\"mode\": \"score\", ");
    if (pair) {
        write_row(out, "prompt_ids", text->source, text->n_source);
    } else { /* No mask is to be found for pads in a text: they are what they are. */
        write_row(out, "prompt_ids", text->ids, text->n_ids);
        cdz_buf_puts(out, ", \"attention_mask\": [[");
        for (size_t i = 0; i < text->n_ids; i++) cdz_buf_puts(out, i ? ", 1" : "1");
        cdz_buf_puts(out, "]]");
    }
    cdz_buf_puts(out, ", \"kwargs\": {");
    if (pair) write_row(out, "decoder_input_ids", text->ids, text->n_ids);
    if (text->top)
        cdz_buf_printf(out, "%s\"output_scores_top\": %" PRIu32, pair ? ", " : "", text->top);
    cdz_buf_puts(out, "}}");
}

cdz_status cdz_score_result(cdz_runtime *runtime, cdz_model *model, const cdz_scored_text *text,
                            cdz_result **out, cdz_error *err)
{
    const bool pair = cdz_model_has_encoder(model);
    cdz_buf json = {0};
    if (!pair && text->n_source)
        return cdz_err(err, CDZ_E_USAGE, "the model has no encoder to read a source text");
    if (pair && !text->n_source)
        return cdz_err(err, CDZ_E_USAGE, "the model's encoder needs a source text");
    write_document(&json, text, pair);
    const cdz_request request = {.size = sizeof request, .model = model, .json = json.data};
    const cdz_status status = json.failed ? cdz_err_memory(err, "the request")
                                          : cdz_generate(runtime, &request, out, err);
    cdz_buf_free(&json);
    return status;
}

cdz_status cdz_score(cdz_runtime *runtime, cdz_model *model, const int32_t *source, size_t n_source,
                     const int32_t *ids, size_t n_ids, float *logprobs, cdz_error *err)
{
    const cdz_scored_text text = {source, n_source, ids, n_ids, 0};
    cdz_result *result = NULL;
    if (n_ids == 0) return CDZ_OK;
    const cdz_status status = cdz_score_result(runtime, model, &text, &result, err);
    if (status == CDZ_OK) {
        uint32_t n = 0;
        const float *values = cdz_result_prompt_logprobs(result, 0, &n);
        /* A start token may stand before the text. */
        if (values && n >= n_ids) memcpy(logprobs, values + (n - n_ids), n_ids * sizeof *values);
    }
    cdz_result_free(result);
    return status;
}
