/* result_json.c - the answer document: what `--json` prints and cdz_result_json gives.
 *
 * User form: "text", "ids" and "finish_reason" are plain for one row and lists for several. Recorded form (the request
 * had "record"): the fields of a golden case's "expect", rows always as lists, "text" with special tokens. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "api/api.h"
#include "detect/detect.h"

static void key(cdz_buf *out, const char *name)
{
    char last = out->len ? out->data[out->len - 1] : '{';
    if (last != '{') cdz_buf_puts(out, ", ");
    cdz_json_write_string(out, name, strlen(name));
    cdz_buf_puts(out, ": ");
}

static void write_ids(cdz_buf *out, const int32_t *ids, size_t n)
{
    cdz_buf_putc(out, '[');
    for (size_t i = 0; i < n; i++) cdz_buf_printf(out, "%s%d", i ? ", " : "", ids[i]);
    cdz_buf_putc(out, ']');
}

static void write_floats(cdz_buf *out, const float *x, size_t n)
{
    cdz_buf_putc(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i) cdz_buf_puts(out, ", ");
        cdz_json_write_f32(out, x[i]);
    }
    cdz_buf_putc(out, ']');
}

/* --- user form ------------------------------------------------------------------------------------------ */

typedef void write_row(const cdz_result *result, uint32_t row, cdz_buf *out);

static void row_text(const cdz_result *result, uint32_t row, cdz_buf *out)
{
    cdz_json_write_string(out, result->texts[row].data, result->texts[row].len);
}

static void row_ids(const cdz_result *result, uint32_t row, cdz_buf *out)
{
    uint32_t n;
    const int32_t *ids = cdz_result_ids(result, row, &n);
    write_ids(out, ids, n);
}

static void row_reason(const cdz_result *result, uint32_t row, cdz_buf *out)
{
    const char *reason = cdz_result_finish_reason(result, row);
    cdz_json_write_string(out, reason, strlen(reason));
}

static void row_stop_text(const cdz_result *result, uint32_t row, cdz_buf *out)
{
    const cdz_stop *stop = &result->outcome->rows[row].stop;
    if (stop->text.at && stop->reason == CDZ_STOP_STRING)
        cdz_json_write_string(out, stop->text.at, stop->text.len);
    else
        cdz_buf_puts(out, "null");
}

/* [from, to, who] of the new ids that the model did not write. */
static void row_spans(const cdz_result *result, uint32_t row, cdz_buf *out)
{
    const cdz_outcome_row *r = &result->outcome->rows[row];
    cdz_buf_putc(out, '[');
    for (uint32_t i = 0; i < r->n_spans; i++) {
        const cdz_span *span = &r->spans[i];
        cdz_buf_printf(out, "%s[%" PRIu32 ", %" PRIu32 ", ", i ? ", " : "", span->from, span->to);
        cdz_json_write_string(out, span->who, strlen(span->who));
        cdz_buf_putc(out, ']');
    }
    cdz_buf_putc(out, ']');
}

static void per_row(const cdz_result *result, const char *name, write_row *write, cdz_buf *out)
{
    uint32_t n = result->outcome->n_rows;
    key(out, name);
    if (n == 1) {
        write(result, 0, out);
        return;
    }
    cdz_buf_putc(out, '[');
    for (uint32_t r = 0; r < n; r++) {
        if (r) cdz_buf_puts(out, ", ");
        write(result, r, out);
    }
    cdz_buf_putc(out, ']');
}

/* Rows whose processors ran in one walk, and those that were left to them one by one, by why. */
static void write_fusings(const cdz_outcome *o, cdz_buf *out)
{
    uint64_t tried = 0;
    for (int k = 0; k < CDZ_FUSE_KINDS; k++) tried += o->fusings[k];
    if (tried == 0) return;
    cdz_buf_puts(out, ", \"plan\": {");
    for (int k = 0; k < CDZ_FUSE_KINDS; k++)
        if (k == CDZ_FUSED || o->fusings[k])
            cdz_buf_printf(out, "%s\"%s\": %" PRIu64, k ? ", " : "", cdz_fusing_name((cdz_fusing)k),
                           o->fusings[k]);
    cdz_buf_putc(out, '}');
}

static void write_timings(const cdz_outcome *o, cdz_buf *out)
{
    key(out, "timings");
    cdz_buf_printf(
        out,
        "{\"queued_ms\": %.3f, \"prefill_ms\": %.3f, \"decode_ms\": %.3f, \"prompt_tokens\": %u, "
        "\"new_tokens\": %u",
        o->queued_s * 1e3, o->prefill_s * 1e3, o->decode_s * 1e3, o->n_prompt_tokens,
        o->n_new_tokens);
    if (o->n_reused_tokens) cdz_buf_printf(out, ", \"reused_tokens\": %u", o->n_reused_tokens);
    write_fusings(o, out);
    cdz_buf_putc(out, '}');
}

/* --- what was recorded ------------------------------------------------------------------------------------ */

/* Steps at which row r was still running: later entries mean nothing and are written as null. */
static uint32_t live_steps(const cdz_result *result, uint32_t row)
{
    return result->outcome->rows[row].n_new;
}

/* [step][row] of one float, null once a row has ended. */
static void step_floats(const cdz_result *result, cdz_token_value what, cdz_buf *out)
{
    const cdz_outcome *o = result->outcome;
    const uint32_t n = cdz_result_n_columns(result);
    cdz_buf_putc(out, '[');
    for (uint32_t s = 0; s < n; s++) {
        cdz_buf_puts(out, s ? ", [" : "[");
        for (uint32_t r = 0; r < o->n_rows; r++) {
            if (r) cdz_buf_puts(out, ", ");
            if (s < live_steps(result, r))
                cdz_json_write_f32(out, cdz_result_taken(result, r, s, what));
            else
                cdz_buf_puts(out, "null");
        }
        cdz_buf_putc(out, ']');
    }
    cdz_buf_putc(out, ']');
}

/* What row r of step s says. */
typedef void write_step_row(const cdz_result *result, uint32_t s, uint32_t r, cdz_buf *out);

static void top_ids(const cdz_result *result, uint32_t s, uint32_t r, cdz_buf *out)
{
    const size_t k = result->keep_top;
    write_ids(out, result->outcome->steps[s].top_ids + r * k, result->keep_top);
}

static void top_values(const cdz_result *result, uint32_t s, uint32_t r, cdz_buf *out)
{
    const size_t k = result->keep_top;
    write_floats(out, result->outcome->steps[s].top_values + r * k, k);
}

static void n_finite(const cdz_result *result, uint32_t s, uint32_t r, cdz_buf *out)
{
    cdz_buf_printf(out, "%u", result->outcome->steps[s].n_finite[r]);
}

/* [step][row]; null where the strategy recorded no scores. */
static void write_steps(const cdz_result *result, write_step_row *write, cdz_buf *out)
{
    const cdz_outcome *o = result->outcome;
    cdz_buf_putc(out, '[');
    for (uint32_t s = 0; s < o->n_steps; s++) {
        cdz_buf_puts(out, s ? ", [" : "[");
        for (uint32_t r = 0; r < o->n_step_rows; r++) {
            if (r) cdz_buf_puts(out, ", ");
            if (o->steps[s].top_ids)
                write(result, s, r, out);
            else
                cdz_buf_puts(out, "null");
        }
        cdz_buf_putc(out, ']');
    }
    cdz_buf_putc(out, ']');
}

static void write_token_text(const cdz_run_model *model, int32_t id, cdz_buf *out)
{
    const cdz_tokenizer *tok = cdz_run_model_tokenizer(model);
    cdz_buf text = {0};
    cdz_buf_add(&text, "", 0);
    if (tok && id >= 0) cdz_tokenizer_decode(tok, &id, 1, 0, &text, NULL);
    if (text.failed)
        out->failed = true;
    else
        cdz_json_write_string(out, text.data, text.len);
    cdz_buf_free(&text);
}

void cdz_result_write_alternatives(const cdz_run_model *model, const int32_t *ids,
                                   const float *values, uint32_t n, float sum, cdz_buf *out)
{
    cdz_buf_putc(out, '[');
    for (uint32_t i = 0; i < n; i++) {
        cdz_buf_printf(out, "%s{\"id\": %" PRId32 ", \"token\": ", i ? ", " : "", ids[i]);
        write_token_text(model, ids[i], out);
        cdz_buf_puts(out, ", \"logprob\": ");
        cdz_json_write_f32(out, values[i] - sum);
        cdz_buf_putc(out, '}');
    }
    cdz_buf_putc(out, ']');
}

static void logsumexp(const cdz_result *result, uint32_t s, uint32_t r, cdz_buf *out)
{
    cdz_json_write_f32(out, result->outcome->steps[s].logsumexp[r]);
}

/* null once a row has ended; a search's rows at a step are its beams, which all go on. */
static void top_logprobs(const cdz_result *result, uint32_t s, uint32_t r, cdz_buf *out)
{
    const cdz_recorded_step *step = &result->outcome->steps[s];
    const size_t at = (size_t)r * result->keep_top;
    if (cdz_result_is_search(result) || s < live_steps(result, r))
        cdz_result_write_alternatives(result->model, step->top_ids + at, step->top_values + at,
                                      result->keep_top, step->logsumexp[r], out);
    else
        cdz_buf_puts(out, "null");
}

/* Summaries (top_ids, top_values, n_finite, logsumexp) are kept together, of every step whose scores the strategy recorded. */
static bool has_summaries(const cdz_outcome *o)
{
    for (uint32_t s = 0; s < o->n_steps; s++)
        if (o->steps[s].top_ids) return true;
    return false;
}

/* What output_scores_top keeps. */
static void write_bounded_scores(const cdz_result *result, cdz_buf *out)
{
    if (!has_summaries(result->outcome)) return;
    key(out, "top_ids");
    write_steps(result, top_ids, out);
    key(out, "top_scores");
    write_steps(result, top_values, out);
    key(out, "logsumexp");
    write_steps(result, logsumexp, out);
    if (!result->logprobs) return;
    key(out, "top_logprobs");
    write_steps(result, top_logprobs, out);
}

static bool has_new_tokens(const cdz_result *result)
{
    for (uint32_t r = 0; r < result->outcome->n_rows; r++)
        if (result->outcome->rows[r].len > result->prompt_len) return true;
    return false;
}

/* An answer without new tokens has lists of no steps, as the reference's has. */
static void recorded_scores(const cdz_result *result, cdz_buf *out)
{
    const cdz_outcome *o = result->outcome;
    const bool empty = o->n_steps == 0 && !has_new_tokens(result);
    if (!empty && (o->n_steps == 0 || !o->steps[0].chosen)) return;
    key(out, "scores");
    cdz_buf_putc(out, '{');
    key(out, "chosen");
    step_floats(result, CDZ_TOKEN_SCORE, out);
    const bool kept = has_summaries(o);
    if (result->record.top && (kept || empty)) {
        key(out, "top_ids");
        write_steps(result, top_ids, out);
        key(out, "top_vals");
        write_steps(result, top_values, out);
    }
    if (kept) {
        key(out, "n_finite");
        write_steps(result, n_finite, out);
    }
    cdz_buf_putc(out, '}');
}

/* transition_scores[row][step]: processed scores of the chosen tokens, raw or as log-probabilities. Past a row's end
 * null, in a search's sequences 0, as compute_transition_scores has it. */
static void write_transition(const cdz_result *result, cdz_token_value what, cdz_buf *out)
{
    const cdz_outcome *o = result->outcome;
    const uint32_t n = cdz_result_n_columns(result);
    cdz_buf_putc(out, '[');
    for (uint32_t r = 0; r < o->n_rows; r++) {
        cdz_buf_puts(out, r ? ", [" : "[");
        for (uint32_t s = 0; s < n; s++) {
            if (s) cdz_buf_puts(out, ", ");
            if (s < live_steps(result, r))
                cdz_json_write_f32(out, cdz_result_taken(result, r, s, what));
            else
                cdz_buf_puts(out, cdz_result_is_search(result) ? "0" : "null");
        }
        cdz_buf_putc(out, ']');
    }
    cdz_buf_putc(out, ']');
}

/* The prompts after healing, as each sequence begins. */
static void write_healed(const cdz_result *result, cdz_buf *out)
{
    const cdz_outcome *o = result->outcome;
    key(out, "healed_ids");
    cdz_buf_putc(out, '[');
    for (uint32_t r = 0; r < o->n_rows; r++) {
        const uint32_t len = o->rows[r].len;
        if (r) cdz_buf_puts(out, ", ");
        write_ids(out, o->rows[r].ids, len < result->prompt_len ? len : result->prompt_len);
    }
    cdz_buf_putc(out, ']');
}

static void write_sequences(const cdz_outcome *o, cdz_buf *out)
{
    key(out, "sequences");
    cdz_buf_putc(out, '[');
    for (uint32_t r = 0; r < o->n_rows; r++) {
        if (r) cdz_buf_puts(out, ", ");
        write_ids(out, o->rows[r].ids, o->rows[r].len);
    }
    cdz_buf_putc(out, ']');
}

/* --- results of the strategy's own ---------------------------------------------------------------------- */

static void write_element(const cdz_named_result *res, size_t i, cdz_buf *out)
{
    switch (res->type) {
    case CDZ_RESULT_I64:
        cdz_buf_printf(out, "%lld", (long long)((const int64_t *)res->data)[i]);
        break;
    case CDZ_RESULT_I32: cdz_buf_printf(out, "%d", ((const int32_t *)res->data)[i]); break;
    case CDZ_RESULT_F32: cdz_json_write_f32(out, ((const float *)res->data)[i]); break;
    case CDZ_RESULT_BOOL: cdz_buf_puts(out, ((const bool *)res->data)[i] ? "true" : "false"); break;
    case CDZ_RESULT_JSON: break; /* its text is written whole */
    }
}

/* Nested lists by shape; n_dims is at most 8. */
static size_t write_dims(const cdz_named_result *res, uint32_t dim, size_t at, cdz_buf *out)
{
    if (dim == res->n_dims) {
        write_element(res, at, out);
        return at + 1;
    }
    cdz_buf_putc(out, '[');
    for (uint64_t i = 0; i < res->shape[dim]; i++) {
        if (i) cdz_buf_puts(out, ", ");
        at = write_dims(res, dim + 1, at, out);
    }
    cdz_buf_putc(out, ']');
    return at;
}

static uint32_t write_some(const cdz_outcome *o, bool fields, cdz_buf *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n_results; i++) {
        if (cdz_record_has_field(o->results[i].name) != fields) continue;
        if (n++ == 0 && !fields) {
            key(out, "results");
            cdz_buf_putc(out, '{');
        }
        key(out, o->results[i].name);
        if (o->results[i].type == CDZ_RESULT_JSON)
            cdz_buf_add(out, o->results[i].data, (size_t)o->results[i].shape[0]);
        else
            write_dims(&o->results[i], 0, 0, out);
    }
    return n;
}

static void write_results(const cdz_outcome *o, cdz_buf *out)
{
    write_some(o, true, out);
    if (write_some(o, false, out)) cdz_buf_putc(out, '}');
}

/* --- the two forms ---------------------------------------------------------------------------------------- */

/* Argmax of each prompt position, for mode `logits`. */
static void write_prompt_argmax(const cdz_result *result, cdz_buf *out)
{
    const cdz_outcome *o = result->outcome;
    key(out, "argmax");
    cdz_buf_putc(out, '[');
    for (uint32_t p = 0; p < result->prompt_len; p++) {
        const float *row = o->prompt_logits + (size_t)p * o->n_vocab;
        uint32_t best = 0;
        for (uint32_t v = 1; v < o->n_vocab; v++)
            if (row[v] > row[best]) best = v;
        cdz_buf_printf(out, "%s%u", p ? ", " : "", best);
    }
    cdz_buf_putc(out, ']');
}

/* Sum and number of the log-probabilities that a row has. */
static uint32_t sum_logprobs(const cdz_result *result, uint32_t r, double *sum)
{
    uint32_t n_ids, n = 0;
    const float *values = cdz_result_prompt_logprobs(result, r, &n_ids);
    *sum = 0;
    for (uint32_t i = 0; i < n_ids; i++)
        if (!isnan(values[i])) {
            *sum += (double)values[i];
            n++;
        }
    return n;
}

static void row_logprobs(const cdz_result *result, uint32_t r, cdz_buf *out)
{
    uint32_t n;
    const float *values = cdz_result_prompt_logprobs(result, r, &n);
    cdz_buf_putc(out, '[');
    for (uint32_t i = 0; i < n; i++) {
        if (i) cdz_buf_puts(out, ", ");
        if (isnan(values[i]))
            cdz_buf_puts(out, "null");
        else
            cdz_json_write_f32(out, values[i]);
    }
    cdz_buf_putc(out, ']');
}

static void row_n_scored(const cdz_result *result, uint32_t r, cdz_buf *out)
{
    double sum;
    cdz_buf_printf(out, "%u", sum_logprobs(result, r, &sum));
}

static void row_likelihood(const cdz_result *result, uint32_t r, cdz_buf *out)
{
    double sum;
    sum_logprobs(result, r, &sum);
    cdz_json_write_real(out, sum);
}

static void row_perplexity(const cdz_result *result, uint32_t r, cdz_buf *out)
{
    double sum;
    const uint32_t n = sum_logprobs(result, r, &sum);
    if (n)
        cdz_json_write_real(out, exp(-sum / n));
    else
        cdz_buf_puts(out, "null");
}

/* [place], null where nothing predicts the token there. */
static void row_top_logprobs(const cdz_result *result, uint32_t r, cdz_buf *out)
{
    const int32_t *ids;
    const float *logprobs;
    cdz_buf_putc(out, '[');
    for (uint32_t i = 0; i < result->prompt_len; i++) {
        if (i) cdz_buf_puts(out, ", ");
        if (cdz_result_prompt_top_logprobs(result, r, i, &ids, &logprobs))
            cdz_result_write_alternatives(result->model, ids, logprobs, result->keep_top, 0, out);
        else
            cdz_buf_puts(out, "null");
    }
    cdz_buf_putc(out, ']');
}

/* Mode `score`. */
static void score_form(const cdz_result *result, cdz_buf *out)
{
    write_sequences(result->outcome, out);
    per_row(result, "logprobs", row_logprobs, out);
    per_row(result, "n_scored", row_n_scored, out);
    per_row(result, "log_likelihood", row_likelihood, out);
    per_row(result, "perplexity", row_perplexity, out);
    if (result->outcome->prompt_top_ids) per_row(result, "top_logprobs", row_top_logprobs, out);
}

static void recorded_text(const cdz_result *result, cdz_buf *out)
{
    const cdz_tokenizer *tok = cdz_run_model_tokenizer(result->model);
    if (!tok) return;
    key(out, "text");
    cdz_buf_putc(out, '[');
    for (uint32_t r = 0; r < result->outcome->n_rows; r++) {
        const cdz_outcome_row *row = &result->outcome->rows[r];
        uint32_t from = row->len < result->prompt_len ? row->len : result->prompt_len;
        cdz_buf text = {0};
        cdz_buf_add(&text, "", 0);
        const cdz_status status =
            cdz_tokenizer_decode(tok, row->ids + from, row->len - from, 0, &text, NULL);
        if (r) cdz_buf_puts(out, ", ");
        if (status != CDZ_OK || text.failed)
            out->failed = true;
        else
            cdz_json_write_string(out, text.data, text.len);
        cdz_buf_free(&text);
    }
    cdz_buf_putc(out, ']');
}

/* What the detector says of the new tokens, pads included; a sentence where it cannot say. */
static cdz_status look_for_watermark(const cdz_result *result, cdz_arena *arena, cdz_buf *out,
                                     cdz_error *err)
{
    const cdz_outcome *o = result->outcome;
    const int32_t **rows = cdz_arena_array(arena, o->n_rows, sizeof *rows);
    uint32_t *lens = cdz_arena_array(arena, o->n_rows, sizeof *lens);
    cdz_detection_input in = {
        .rows = rows, .lens = lens, .n_rows = o->n_rows, .n_vocab = o->n_vocab};
    cdz_json order;
    if (!rows || !lens) return cdz_err_memory(err, "the watermark");
    CDZ_TRY(
        cdz_json_parse(result->detect, strlen(result->detect), "detect", NULL, arena, &order, err));
    CDZ_TRY(cdz_detection_read(&order, arena, &in, err));
    for (uint32_t r = 0; r < o->n_rows; r++) {
        const cdz_outcome_row *row = &o->rows[r];
        const uint32_t from = row->len < result->prompt_len ? row->len : result->prompt_len;
        rows[r] = row->ids + from;
        lens[r] = row->len - from;
    }
    return cdz_detection_write_json(&in, out, err);
}

static void recorded_watermark(const cdz_result *result, cdz_buf *out)
{
    cdz_arena arena = {0};
    cdz_error err = {0};
    if (!result->detect) return;
    key(out, "detector");
    if (look_for_watermark(result, &arena, out, &err) != CDZ_OK) {
        cdz_buf_puts(out, "{\"error\": ");
        cdz_json_write_string(out, err.text, strlen(err.text));
        cdz_buf_putc(out, '}');
    }
    cdz_arena_free(&arena);
}

/* Kinds of tensors that the answer has, and how many: [steps], [layers] or [steps, layers]. */
static void write_output_counts(const cdz_result *result, cdz_buf *out)
{
    cdz_output_kind kinds[CDZ_OUTPUT_KINDS];
    const uint32_t n = cdz_result_output_kinds(result, kinds);
    key(out, "outputs");
    cdz_buf_putc(out, '{');
    for (uint32_t i = 0; i < n; i++) {
        const cdz_output_kind *k = &kinds[i];
        key(out, k->name);
        if (k->n_steps && k->n_layers)
            cdz_buf_printf(out, "[%u, %u]", k->n_steps, k->n_layers);
        else
            cdz_buf_printf(out, "[%u]", k->n_steps ? k->n_steps : k->n_layers);
    }
    cdz_buf_putc(out, '}');
}

/* A tensor as nested lists. */
static size_t write_tensor(const float *data, const uint64_t *shape, uint32_t n_dims, cdz_buf *out)
{
    if (n_dims == 1) {
        write_floats(out, data, (size_t)shape[0]);
        return (size_t)shape[0];
    }
    size_t n = 0;
    cdz_buf_putc(out, '[');
    for (uint64_t i = 0; i < shape[0]; i++) {
        if (i) cdz_buf_puts(out, ", ");
        n += write_tensor(data + n, shape + 1, n_dims - 1, out);
    }
    cdz_buf_putc(out, ']');
    return n;
}

/* The tensors of a step, or those that have none: one, or a list of one for each layer. */
static void write_layers(const cdz_result *result, const cdz_output_kind *kind, uint32_t step,
                         cdz_buf *out)
{
    if (kind->n_layers) cdz_buf_putc(out, '[');
    for (uint32_t l = 0; l < (kind->n_layers ? kind->n_layers : 1); l++) {
        cdz_output tensor;
        cdz_result_output(result, kind, step, l, &tensor);
        if (l) cdz_buf_puts(out, ", ");
        if (tensor.data)
            write_tensor(tensor.data, tensor.shape, tensor.n_dims, out);
        else
            cdz_buf_puts(out, "null");
    }
    if (kind->n_layers) cdz_buf_putc(out, ']');
}

static void write_outputs(const cdz_result *result, cdz_buf *out)
{
    cdz_output_kind kinds[CDZ_OUTPUT_KINDS];
    const uint32_t n = cdz_result_output_kinds(result, kinds);
    for (uint32_t i = 0; i < n; i++) {
        key(out, kinds[i].name);
        if (kinds[i].n_steps == 0) write_layers(result, &kinds[i], 0, out);
        if (kinds[i].n_steps) cdz_buf_putc(out, '[');
        for (uint32_t s = 0; s < kinds[i].n_steps; s++) {
            if (s) cdz_buf_puts(out, ", ");
            write_layers(result, &kinds[i], s, out);
        }
        if (kinds[i].n_steps) cdz_buf_putc(out, ']');
    }
}

static void recorded_form(const cdz_result *result, cdz_buf *out)
{
    const cdz_outcome *o = result->outcome;
    write_sequences(o, out);
    recorded_scores(result, out);
    const bool transition = result->record.transition || cdz_result_is_search(result);
    if (transition && o->n_steps && o->steps[0].chosen_logprob) {
        key(out, "transition_scores");
        write_transition(result, CDZ_TOKEN_SCORE, out);
        key(out, "transition_scores_normalized");
        write_transition(result, CDZ_TOKEN_LOGPROB, out);
    }
    recorded_text(result, out);
    recorded_watermark(result, out);
    if (result->record.outputs && o->n_steps) write_output_counts(result, out);
}

static void user_form(const cdz_result *result, cdz_buf *out)
{
    const cdz_outcome *o = result->outcome;
    per_row(result, "text", row_text, out);
    per_row(result, "ids", row_ids, out);
    per_row(result, "finish_reason", row_reason, out);
    bool stop_string = false;
    for (uint32_t r = 0; r < o->n_rows; r++)
        stop_string |= o->rows[r].stop.reason == CDZ_STOP_STRING;
    if (stop_string) per_row(result, "stop_string", row_stop_text, out);
    bool spans = false;
    for (uint32_t r = 0; r < o->n_rows; r++) spans |= o->rows[r].n_spans > 0;
    if (spans) per_row(result, "spans", row_spans, out);
    write_sequences(o, out);
    const bool bounded = has_summaries(o);
    const bool taken = o->n_steps && (o->steps[0].scores || result->logprobs || bounded);
    if (cdz_result_is_search(result) || taken) {
        key(out, "transition_scores");
        write_transition(result, CDZ_TOKEN_SCORE, out);
    }
    write_outputs(result, out);
    write_bounded_scores(result, out);
    if (result->logprobs && o->n_steps && o->steps[0].chosen_logprob &&
        o->steps[0].chosen_raw_logprob) {
        key(out, "logprobs");
        step_floats(result, CDZ_TOKEN_LOGPROB, out);
        key(out, "raw_logprobs");
        step_floats(result, CDZ_TOKEN_RAW_LOGPROB, out);
    }
}

void cdz_result_write_json(const cdz_result *result, cdz_buf *out)
{
    const cdz_outcome *o = result->outcome;
    cdz_buf_putc(out, '{');
    if (o->prompt_logits)
        write_prompt_argmax(result, out);
    else if (o->prompt_logprobs)
        score_form(result, out);
    else if (result->record.present)
        recorded_form(result, out);
    else
        user_form(result, out);
    if (result->healed) write_healed(result, out);
    write_results(o, out);
    if (!result->record.present) {
        key(out, "seed");
        cdz_buf_printf(out, "%llu", (unsigned long long)result->seed);
        write_timings(o, out);
    }
    if (result->n_warnings) {
        key(out, "warnings");
        cdz_buf_putc(out, '[');
        for (uint32_t i = 0; i < result->n_warnings; i++) {
            if (i) cdz_buf_puts(out, ", ");
            cdz_json_write_string(out, result->warnings[i], strlen(result->warnings[i]));
        }
        cdz_buf_putc(out, ']');
    }
    if (result->error.code != CDZ_OK) {
        key(out, "error");
        cdz_json_write_string(out, result->error.text, strlen(result->error.text));
    }
    if (result->n_calls) {
        key(out, "calls");
        cdz_buf_putc(out, '[');
        for (uint32_t i = 0; i < result->n_calls; i++) {
            if (i) cdz_buf_puts(out, ", ");
            cdz_result_write_json(result->calls[i], out);
        }
        cdz_buf_putc(out, ']');
    }
    cdz_buf_putc(out, '}');
}
