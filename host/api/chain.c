/* chain.c - "calls" of a request document: generate() calls that follow the first one.
 *
 * A call with append_ids continues the rows of the call before and their KV state; one with a prompt of its own begins
 * anew. The engine thread prepares a call when the one before has ended. */
#include <string.h>

#include "api/entry.h"

static const char *const call_fields[] = {"append_ids", "prompt",   "prompt_ids", "attention_mask",
                                          "kwargs",     "sections", "seed"};
enum { N_FIELDS = sizeof call_fields / sizeof call_fields[0], MAX_CALLS = 1000 };

static bool is_field(const char *name)
{
    for (size_t i = 0; i < N_FIELDS; i++)
        if (strcmp(call_fields[i], name) == 0) return true;
    return false;
}

static cdz_status check_call(const cdz_json *call, uint32_t i, cdz_error *err)
{
    if (!cdz_json_is(call, CDZ_JSON_OBJECT))
        return cdz_err(err, CDZ_E_USAGE, "request: calls[%u] must be an object, found %s", i,
                       cdz_json_type_name(call));
    for (uint32_t m = 0; m < call->len; m++) {
        const char *name = call->members[m].key;
        if (is_field(name)) continue;
        const char *near = cdz_nearest_name(name, call_fields, N_FIELDS);
        return cdz_err(err, CDZ_E_USAGE, "request: calls[%u]: unknown field \"%s\"%s%s%s", i, name,
                       near ? ": did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    }
    const int given = (cdz_json_get(call, "append_ids") != NULL) +
                      (cdz_json_get(call, "prompt_ids") != NULL) +
                      (cdz_json_get(call, "prompt") != NULL);
    if (given != 1)
        return cdz_err(err, CDZ_E_USAGE,
                       "request: calls[%u] needs one of \"append_ids\", \"prompt_ids\" and "
                       "\"prompt\"",
                       i);
    return CDZ_OK;
}

cdz_status cdz_chain_read(cdz_entry_request *req, const cdz_request *request,
                          const cdz_json *document, cdz_error *err)
{
    cdz_chain *chain = &req->chain;
    const cdz_json *calls = document ? cdz_json_get(document, "calls") : NULL;
    if (!calls || calls->type == CDZ_JSON_NULL) return CDZ_OK;
    if (calls->type != CDZ_JSON_ARRAY || calls->len > MAX_CALLS)
        return cdz_err(err, CDZ_E_USAGE, "request: \"calls\" must be a list of at most %d objects",
                       MAX_CALLS);
    for (uint32_t i = 0; i < calls->len; i++) CDZ_TRY(check_call(&calls->items[i], i, err));
    const char *text = cdz_arena_strdup(&chain->arena, request->json);
    if (!text) return cdz_err_memory(err, "the request");
    CDZ_TRY(
        cdz_json_parse(text, strlen(text), "request", NULL, &chain->arena, &chain->document, err));
    calls = cdz_json_get(&chain->document, "calls");
    chain->calls = calls->items;
    chain->n_calls = calls->len;
    chain->assistant = request->assistant;
    if (chain->assistant) cdz_model_retain(chain->assistant);
    return CDZ_OK;
}

void cdz_chain_free(cdz_chain *chain)
{
    cdz_arena_free(&chain->arena);
    cdz_model_close(chain->model);
    cdz_model_close(chain->assistant);
    *chain = (cdz_chain){0};
}

bool cdz_chain_continues(const cdz_chain *chain)
{
    return chain->next < chain->n_calls && cdz_json_get(&chain->calls[chain->next], "append_ids");
}

/* --- the next call ------------------------------------------------------------------------------------------------ */

/* The ids to append, one row for each of the result's. */
static cdz_status read_append(cdz_entry_request *req, const cdz_result *last, const cdz_json *call,
                              cdz_prompt_rows *out, cdz_error *err)
{
    cdz_json_member ids = {.key = "prompt_ids", .key_len = 10};
    ids.value = *cdz_json_get(call, "append_ids");
    cdz_json document = {.type = CDZ_JSON_OBJECT, .len = 1};
    document.members = &ids;
    if (cdz_weights_arch(cdz_run_model_weights(req->model))->encoder)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "request: \"append_ids\": a model with an encoder has no prompt that its "
                       "answer could continue; give prompt_ids and decoder_input_ids");
    const cdz_prepare_input in = {.model = req->model, .document = &document};
    CDZ_TRY(cdz_prompt_rows_read(&in, &req->chain.arena, out, err));
    if (last->outcome->n_rows % req->call.job->n_prompts)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "request: \"append_ids\": the call before gave %u sequences for %u prompts; "
                       "which continues which prompt is not known",
                       last->outcome->n_rows, req->call.job->n_prompts);
    if (out->n == last->outcome->n_rows) return CDZ_OK;
    return cdz_err(err, CDZ_E_USAGE,
                   "request: \"append_ids\" has %u rows; the call before gave %u sequences", out->n,
                   last->outcome->n_rows);
}

/* Row r of the result and what is appended to it; visible as its prompt was, and from there on. */
static cdz_status join_row(cdz_entry_request *req, const cdz_result *last, uint32_t r,
                           cdz_prompt_rows *rows, cdz_error *err)
{
    const cdz_job *job = req->call.job;
    const cdz_outcome_row *before = &last->outcome->rows[r];
    const uint8_t *mask = job->rows[r / (last->outcome->n_rows / job->n_prompts)].mask;
    const uint32_t len = before->len + rows->lens[r];
    int32_t *ids = cdz_arena_array(&req->chain.arena, len, sizeof *ids);
    rows->masks[r] = cdz_arena_array(&req->chain.arena, len, 1);
    if (!ids || !rows->masks[r]) return cdz_err_memory(err, "the next call");
    memcpy(ids, before->ids, before->len * sizeof *ids);
    if (rows->lens[r]) memcpy(ids + before->len, rows->ids[r], rows->lens[r] * sizeof *ids);
    memset(rows->masks[r], 1, len);
    if (mask) memcpy(rows->masks[r], mask, job->prompt_len);
    rows->ids[r] = ids;
    rows->lens[r] = len;
    return CDZ_OK;
}

static cdz_status continue_rows(cdz_entry_request *req, const cdz_result *last,
                                const cdz_json *call, cdz_prompt_rows *rows, cdz_error *err)
{
    CDZ_TRY(read_append(req, last, call, rows, err));
    rows->masks = cdz_arena_array(&req->chain.arena, rows->n, sizeof *rows->masks);
    if (!rows->masks) return cdz_err_memory(err, "the next call");
    for (uint32_t r = 0; r < rows->n; r++) CDZ_TRY(join_row(req, last, r, rows, err));
    return CDZ_OK;
}

/* num_assistant_tokens as the call before left it on the assistant: what the heuristic schedule is for. */
static const cdz_json *tokens_left(cdz_entry_request *req, const cdz_result *last)
{
    for (uint32_t i = 0; i < last->outcome->n_results; i++) {
        const cdz_named_result *result = &last->outcome->results[i];
        if (strcmp(result->name, "num_assistant_tokens") != 0) continue;
        if (result->type != CDZ_RESULT_I64 || result->n_dims) return NULL;
        cdz_json *value = cdz_arena_alloc(&req->chain.arena, sizeof *value);
        if (!value) return NULL;
        value->type = CDZ_JSON_INT;
        memcpy(&value->integer, result->data, sizeof value->integer);
        return value;
    }
    return NULL;
}

/* A copy of an object with room for one more member, without the one of that name. */
static cdz_json *without(cdz_arena *arena, const cdz_json *from, const char *name)
{
    const uint32_t len = from ? from->len : 0;
    cdz_json *copy = cdz_arena_alloc(arena, sizeof *copy);
    cdz_json_member *members = cdz_arena_array(arena, (size_t)len + 1, sizeof *members);
    if (!copy || !members) return NULL;
    *copy = (cdz_json){.type = CDZ_JSON_OBJECT};
    for (uint32_t i = 0; i < len; i++)
        if (strcmp(from->members[i].key, name) != 0) members[copy->len++] = from->members[i];
    copy->members = members;
    return copy;
}

static void put_member(cdz_json *object, const char *name, const cdz_json *value)
{
    ((cdz_json_member *)(uintptr_t)object->members)[object->len++] =
        (cdz_json_member){.key = name, .key_len = (uint32_t)strlen(name), .value = *value};
}

/* The same assistant, with the mark that the call before left on it. */
static cdz_status same_assistant(cdz_entry_request *req, const cdz_result *last, cdz_json *out,
                                 cdz_error *err)
{
    static const char config[] = "generation_config", tokens[] = "num_assistant_tokens";
    cdz_arena *arena = &req->chain.arena;
    const cdz_json *given = cdz_json_get(&req->chain.document, "assistant");
    const cdz_json *left = tokens_left(req, last);
    if (!cdz_json_is(given, CDZ_JSON_OBJECT)) return CDZ_OK;
    cdz_json *assistant = without(arena, given, config);
    const cdz_json *own = cdz_json_get(given, config);
    cdz_json *values =
        without(arena, cdz_json_is(own, CDZ_JSON_OBJECT) ? own : NULL, left ? tokens : "");
    if (!assistant || !values) return cdz_err_memory(err, "the next call");
    if (left) put_member(values, tokens, left);
    put_member(assistant, config, values);
    put_member(out, "assistant", assistant);
    return CDZ_OK;
}

/* The call as a request of its own: its fields, its assistant, and what is to be recorded. */
static cdz_status call_document(cdz_entry_request *req, const cdz_result *last,
                                const cdz_json *call, cdz_json *out, cdz_error *err)
{
    const cdz_json *record = cdz_json_get(&req->chain.document, "record");
    cdz_json_member *members =
        cdz_arena_array(&req->chain.arena, (size_t)call->len + 2, sizeof *members);
    if (!members) return cdz_err_memory(err, "the next call");
    *out = (cdz_json){.type = CDZ_JSON_OBJECT};
    out->members = members;
    for (uint32_t i = 0; i < call->len; i++)
        if (strcmp(call->members[i].key, "append_ids") != 0) members[out->len++] = call->members[i];
    if (record)
        members[out->len++] = (cdz_json_member){.key = "record", .key_len = 6, .value = *record};
    return same_assistant(req, last, out, err);
}

cdz_status cdz_chain_prepare(cdz_entry_request *req, const cdz_result *last, cdz_prepared *out,
                             cdz_error *err)
{
    cdz_chain *chain = &req->chain;
    const cdz_json *call = &chain->calls[chain->next];
    const bool continues = cdz_chain_continues(chain);
    cdz_prompt_rows rows = {0};
    cdz_json document;
    if (continues && req->call.job->n_embeds)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "calls[%u]: \"append_ids\" cannot continue a prompt of embeddings",
                       chain->next);
    CDZ_TRY(call_document(req, last, call, &document, err));
    if (continues) CDZ_TRY(continue_rows(req, last, call, &rows, err));
    chain->next++;
    const cdz_prepare_input in = {
        .model = req->model,
        .assistant = req->assistant,
        .pipeline = req->pipeline,
        .assistant_generation = chain->assistant ? &chain->assistant->generation : NULL,
        .model_generation = &chain->model->generation,
        .document = &document,
        .rows = continues ? &rows : NULL,
        .past = continues ? last->outcome->kept : NULL,
        .keep_cache = req->keep_cache || cdz_chain_continues(chain),
        .deadline_s = req->call.job->deadline_s,
    };
    const cdz_status status = cdz_prepare_job(&in, out, &req->record, err);
    return status == CDZ_OK ? CDZ_OK : cdz_err_prefix(err, "calls[%u]", chain->next - 1);
}
