/* result.c - one request's result: texts decoded once, everything else read from the outcome.
 *
 * Owns: the outcome, a hold on the model, the rows' texts, and the document once somebody asks for it (result_json.c). Not:
 * which tensors there are (outputs.c). Thread: made on the engine's; then whoever has it, one at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"

/* The new ids of a row: what was generated, without the pads that fill a finished row. */
static const int32_t *new_ids(const cdz_result *result, uint32_t row, uint32_t *n)
{
    const cdz_outcome_row *r = &result->outcome->rows[row];
    *n = r->n_new;
    return r->ids + (r->len < result->prompt_len ? r->len : result->prompt_len);
}

/* Those that are text of the answer: not what was inserted for the model alone. *own: to be freed. NULL: out of memory. */
static const int32_t *shown_ids(const cdz_result *result, uint32_t row, uint32_t *n, int32_t **own)
{
    const cdz_outcome_row *r = &result->outcome->rows[row];
    const int32_t *ids = new_ids(result, row, n);
    *own = r->n_spans ? malloc((*n + 1) * sizeof **own) : NULL;
    if (!*own) return r->n_spans ? NULL : ids;
    uint32_t kept = 0;
    for (uint32_t i = 0, s = 0; i < *n; i++) {
        while (s < r->n_spans && r->spans[s].to <= i) s++;
        if (s < r->n_spans && r->spans[s].from <= i && !r->spans[s].shown) continue;
        (*own)[kept++] = ids[i];
    }
    *n = kept;
    return *own;
}

static bool decode_texts(cdz_result *result)
{
    const cdz_tokenizer *tok = cdz_run_model_tokenizer(result->model);
    uint32_t n_rows = result->outcome->n_rows;
    result->texts = calloc(n_rows ? n_rows : 1, sizeof *result->texts);
    if (!result->texts) return false;
    for (uint32_t r = 0; r < n_rows; r++) {
        uint32_t n;
        int32_t *own;
        const int32_t *ids = shown_ids(result, r, &n, &own);
        cdz_buf_add(&result->texts[r], "", 0);
        const bool good = ids && (!tok || cdz_tokenizer_decode(tok, ids, n, CDZ_DECODE_SKIP_SPECIAL,
                                                               &result->texts[r], NULL) == CDZ_OK);
        free(own);
        if (!good || result->texts[r].failed) return false;
    }
    return true;
}

/* Did a row end because the model's context was full? Then the context, else 0. */
static uint32_t full_context(const cdz_outcome *outcome, const cdz_job *job)
{
    if (!job->context || outcome->error.code != CDZ_OK) return 0;
    for (uint32_t r = 0; r < outcome->n_rows; r++) {
        const cdz_outcome_row *row = &outcome->rows[r];
        const uint32_t each = outcome->n_rows / job->n_prompts;
        const uint32_t prompt = each ? r / each : 0;
        if (row->stop.reason == CDZ_STOP_LENGTH && prompt < job->n_prompts &&
            job->visible[prompt] + row->n_new >= job->context &&
            job->prompt_len + row->n_new < job->max_length)
            return job->context;
    }
    return 0;
}

uint32_t cdz_result_context_full(const cdz_result *result)
{
    return result->context_full;
}

uint32_t cdz_result_reused_tokens(const cdz_result *result)
{
    return result->outcome->n_reused_tokens;
}

void cdz_result_times(const cdz_result *result, cdz_times *out)
{
    const cdz_outcome *o = result->outcome;
    const cdz_times all = {out->size, o->queued_s, o->prefill_s, o->decode_s};
    memcpy(out, &all, out->size < sizeof all ? out->size : sizeof all);
}

static bool copy_warnings(cdz_result *result, const cdz_prepared *call)
{
    result->context_full = full_context(result->outcome, call->job);
    if (call->n_warnings == 0 && !result->context_full) return true;
    result->warnings = calloc(call->n_warnings + 1, sizeof *result->warnings);
    if (!result->warnings) return false;
    for (uint32_t i = 0; i < call->n_warnings; i++) {
        result->warnings[i] = strdup(call->warnings[i]);
        if (!result->warnings[i]) return false;
        result->n_warnings++;
    }
    if (!result->context_full) return true;
    char full[64];
    snprintf(full, sizeof full, "context full: %u of %u", result->context_full,
             result->context_full);
    result->warnings[result->n_warnings] = strdup(full);
    return result->warnings[result->n_warnings++] != NULL;
}

cdz_result *cdz_result_create(cdz_outcome *outcome, cdz_run_model *model, const cdz_prepared *call,
                              const cdz_record_spec *record)
{
    const cdz_job *job = call->job;
    cdz_result *result = calloc(1, sizeof *result);
    if (!result) {
        cdz_outcome_free(outcome);
        return NULL;
    }
    result->outcome = outcome;
    result->model = model;
    cdz_run_model_retain(model);
    result->record = *record;
    result->prompt_len = job->prompt_len;
    result->keep_top = job->keep_top;
    result->seed = job->seed;
    result->healed = call->healed;
    result->logprobs = job->plan && job->plan->generation.output.logprobs;
    result->error = outcome->error;
    if (call->detect) result->detect = strdup(call->detect);
    if ((call->detect && !result->detect) || !decode_texts(result) || !copy_warnings(result, call)) {
        cdz_result_free(result);
        return NULL;
    }
    return result;
}

const char *cdz_result_name(const cdz_result *result)
{
    return result->name;
}

void cdz_result_free(cdz_result *result)
{
    if (!result) return;
    free(result->name);
    for (uint32_t r = 0; result->texts && r < result->outcome->n_rows; r++)
        cdz_buf_free(&result->texts[r]);
    free(result->texts);
    for (uint32_t i = 0; i < result->n_warnings; i++) free(result->warnings[i]);
    free(result->warnings);
    for (uint32_t i = 0; i < result->n_calls; i++) cdz_result_free(result->calls[i]);
    free(result->calls);
    free(result->json);
    free(result->detect);
    cdz_outcome_free(result->outcome);
    cdz_run_model_release(result->model);
    free(result);
}

/* --- calls ------------------------------------------------------------------------------------------------- */

bool cdz_result_add_call(cdz_result **first, cdz_result *call)
{
    if (!call) return false;
    if (!*first) {
        *first = call;
        return true;
    }
    cdz_result **all = realloc((*first)->calls, ((*first)->n_calls + 1) * sizeof(cdz_result *));
    if (!all) return false;
    (*first)->calls = all;
    all[(*first)->n_calls++] = call;
    return true;
}

void cdz_result_settle(cdz_result *result)
{
    if (!result || result->n_calls == 0) return;
    cdz_outcome *last = result->calls[result->n_calls - 1]->outcome;
    result->error = result->calls[result->n_calls - 1]->error;
    cdz_kept_release(result->outcome->kept);
    result->outcome->kept = last->kept;
    last->kept = NULL;
    for (uint32_t i = 0; i + 1 < result->n_calls; i++) {
        cdz_kept_release(result->calls[i]->outcome->kept);
        result->calls[i]->outcome->kept = NULL;
    }
}

uint32_t cdz_result_calls(const cdz_result *result)
{
    return result->n_calls;
}

const cdz_result *cdz_result_call(const cdz_result *result, uint32_t call)
{
    return call < result->n_calls ? result->calls[call] : NULL;
}

/* --- rows -------------------------------------------------------------------------------------------------- */

uint32_t cdz_result_rows(const cdz_result *result)
{
    return result->outcome->n_rows;
}

const char *cdz_result_text(const cdz_result *result, uint32_t row)
{
    return row < result->outcome->n_rows ? result->texts[row].data : "";
}

const int32_t *cdz_result_ids(const cdz_result *result, uint32_t row, uint32_t *n_ids)
{
    if (row < result->outcome->n_rows) return new_ids(result, row, n_ids);
    *n_ids = 0;
    return NULL;
}

const cdz_span *cdz_result_spans(const cdz_result *result, uint32_t row, uint32_t *n)
{
    const bool there = row < result->outcome->n_rows;
    *n = there ? result->outcome->rows[row].n_spans : 0;
    return there ? result->outcome->rows[row].spans : NULL;
}

const int32_t *cdz_result_sequence(const cdz_result *result, uint32_t row, uint32_t *n_ids)
{
    *n_ids = row < result->outcome->n_rows ? result->outcome->rows[row].len : 0;
    return *n_ids ? result->outcome->rows[row].ids : NULL;
}

const char *cdz_result_finish_reason(const cdz_result *result, uint32_t row)
{
    if (row >= result->outcome->n_rows) return "";
    switch (result->outcome->error.code) {
    case CDZ_OK: break;
    case CDZ_E_CANCELLED: return "cancelled";
    case CDZ_E_DEADLINE: return "time";
    default: return "error";
    }
    const cdz_stop *stop = &result->outcome->rows[row].stop;
    switch ((cdz_stop_reason)stop->reason) {
    case CDZ_GO_ON: break;
    case CDZ_STOP_EOS: return "stop";
    case CDZ_STOP_LENGTH: return "length";
    case CDZ_STOP_TIME: return "time";
    case CDZ_STOP_STRING: return "stop_string";
    case CDZ_STOP_CUSTOM: return stop->text.at ? stop->text.at : "custom";
    }
    return "strategy"; /* the decode loop returned before any rule said stop */
}

const char *cdz_result_json(const cdz_result *result)
{
    if (result->json) return result->json;
    cdz_buf buf = {0};
    cdz_result_write_json(result, &buf);
    if (buf.failed) {
        cdz_buf_free(&buf);
        return "{}";
    }
    /* Made once, on first use: the only thing that changes in a result. */
    ((cdz_result *)(uintptr_t)result)->json = buf.data;
    return buf.data;
}
