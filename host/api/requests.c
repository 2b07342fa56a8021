/* requests.c - submitting, watching, waiting for and cancelling requests.
 *
 * A request lives in the runtime's list from submit until its result is taken by cdz_wait or dropped by cdz_evict.
 * The engine thread reports through on_tokens and on_done; the runtime's lock is never held across a callback. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/entry.h"

struct cdz_queued_event {
    cdz_queued_event *next;
    cdz_event event;
    int32_t *ids, *leaders;
    float *logprobs, *leader_logprobs;
    char text[]; /* the event's text */
};

static void free_streams(cdz_entry_request *req)
{
    for (uint32_t r = 0; req->streams && r < req->n_rows; r++)
        cdz_text_stream_free(&req->streams[r]);
    free(req->streams);
    req->streams = NULL;
    for (uint32_t r = 0; req->words && r < req->n_rows; r++) cdz_word_stream_free(&req->words[r]);
    free(req->words);
    req->words = NULL;
}

static void free_others(const cdz_entry_request *req)
{
    for (uint32_t i = 0; i < req->n_others; i++) {
        cdz_run_model_release(req->others[i].model);
        free((char *)(uintptr_t)req->others[i].name);
    }
    free(req->others);
}

static void free_request(cdz_entry_request *req)
{
    if (!req) return;
    free_streams(req);
    cdz_buf_free(&req->streamed);
    free(req->request_id);
    free(req->traceparent);
    free(req->values);
    free(req->leaders);
    free(req->leader_values);
    cdz_job_free(req->waiting.job);
    cdz_chain_free(&req->chain);
    cdz_result_free(req->result);
    if (req->model) cdz_run_model_release(req->model);
    if (req->assistant) cdz_run_model_release(req->assistant);
    free_others(req);
    if (req->pipeline) cdz_pipeline_release(req->pipeline);
    free(req->name);
    free(req);
}

static void free_event(cdz_queued_event *queued)
{
    if (!queued) return;
    free(queued->ids);
    free(queued->logprobs);
    free(queued->leaders);
    free(queued->leader_logprobs);
    free(queued);
}

/* Unlinks a request; the lock is held. NULL when the id is unknown. */
static cdz_entry_request *take_request(cdz_runtime *rt, uint64_t id)
{
    cdz_assert_holds(&rt->lock);
    for (cdz_entry_request **at = &rt->requests; *at; at = &(*at)->next) {
        if ((*at)->id != id) continue;
        cdz_entry_request *req = *at;
        *at = req->next;
        return req;
    }
    return NULL;
}

static cdz_entry_request *find_request(cdz_runtime *rt, uint64_t id)
{
    for (cdz_entry_request *req = rt->requests; req; req = req->next)
        if (req->id == id) return req;
    return NULL;
}

/* --- events ------------------------------------------------------------------------------------------- */

/* NULL too where there is nothing to copy; false: out of memory. */
static bool copy_bytes(const void *from, size_t bytes, void *out)
{
    void *copy = from && bytes ? malloc(bytes) : NULL;
    if (copy) memcpy(copy, from, bytes);
    memcpy(out, &copy, sizeof copy);
    return copy || !from || !bytes;
}

static bool copy_numbers(const cdz_event *event, cdz_queued_event *to)
{
    const size_t n = event->n_ids, all = n * event->n_leaders;
    const bool good = copy_bytes(event->ids, n * sizeof *event->ids, &to->ids) &&
                      copy_bytes(event->logprobs, n * sizeof *event->logprobs, &to->logprobs) &&
                      copy_bytes(event->leaders, all * sizeof *event->leaders, &to->leaders) &&
                      copy_bytes(event->leader_logprobs, all * sizeof *event->leader_logprobs,
                                 &to->leader_logprobs);
    to->event.ids = to->ids;
    to->event.logprobs = to->logprobs;
    to->event.leaders = to->leaders;
    to->event.leader_logprobs = to->leader_logprobs;
    return good;
}

/* A copy of an event for cdz_poll, or NULL: running out of memory loses the event, not the result. */
static cdz_queued_event *copy_event(const cdz_event *event)
{
    size_t len = event->text ? strlen(event->text) : 0;
    cdz_queued_event *queued = calloc(1, sizeof *queued + len + 1);
    if (!queued) return NULL;
    queued->event = *event;
    if (len) memcpy(queued->text, event->text, len);
    queued->event.text = queued->text;
    if (copy_numbers(event, queued)) return queued;
    free_event(queued);
    return NULL;
}

/* Hands an event to cdz_poll; the lock is held. NULL is fine. */
static void enqueue(cdz_runtime *rt, cdz_queued_event *queued)
{
    cdz_assert_holds(&rt->lock);
    if (!queued) return;
    *rt->events_end = queued;
    rt->events_end = &queued->next;
    pthread_cond_broadcast(&rt->changed);
}

static void send_tokens(cdz_entry_request *req, cdz_event *event)
{
    event->size = sizeof *event;
    event->kind = CDZ_EVENT_TOKENS;
    event->request_id = req->id;
    event->name = req->name;
    event->call = req->chain.next;
    if (req->on_event) req->on_event(req->user, event);
    if (!req->poll) return;
    cdz_queued_event *queued = copy_event(event);
    cdz_mutex_lock(&req->runtime->lock);
    enqueue(req->runtime, queued);
    cdz_mutex_unlock(&req->runtime->lock);
}

/* In req->streamed, what a text becomes once half words are held back. */
static void hold_half_words(cdz_entry_request *req, uint32_t row)
{
    size_t n;
    cdz_buf *text = &req->streamed;
    if (!req->words || !text->data) return;
    const char *said = cdz_word_stream_feed(&req->words[row], text->data, text->len, &n);
    cdz_buf_clear(text);
    if (said) cdz_buf_add(text, said, n);
}

static bool fit_values(cdz_entry_request *req, uint32_t n)
{
    if (n <= req->room_tokens) return true;
    const size_t all = (size_t)n * (req->n_leaders ? req->n_leaders : 1);
    free(req->values);
    free(req->leaders);
    free(req->leader_values);
    req->values = malloc(n * sizeof *req->values);
    req->leaders = malloc(all * sizeof *req->leaders);
    req->leader_values = malloc(all * sizeof *req->leader_values);
    req->room_tokens = req->values && req->leaders && req->leader_values ? n : 0;
    req->lost |= !req->room_tokens;
    return req->room_tokens > 0;
}

/* What is known of the i-th token's place. */
static void take_values(cdz_entry_request *req, const cdz_new_tokens *t, uint32_t i)
{
    const uint32_t k = req->n_leaders;
    const cdz_recorded_step *step = i < t->n_steps ? &t->steps[i] : NULL;
    req->values[i] = t->scores                          ? t->scores[i].raw_logprob
                     : step && step->chosen_raw_logprob ? step->chosen_raw_logprob[t->step_row]
                                                        : NAN;
    for (uint32_t j = 0; j < k; j++) {
        const size_t at = (size_t)t->step_row * k + j, to = (size_t)i * k + j;
        const bool known = step && step->leaders;
        req->leaders[to] = known ? step->leaders[at] : -1;
        req->leader_values[to] = known ? step->leader_logprobs[at] : NAN;
    }
}

static void put_values(cdz_entry_request *req, const cdz_new_tokens *tokens, cdz_event *event)
{
    if (!req->logprobs || !fit_values(req, tokens->n)) return;
    for (uint32_t i = 0; i < tokens->n; i++) take_values(req, tokens, i);
    event->logprobs = req->values;
    event->n_leaders = req->n_leaders;
    if (!req->n_leaders) return;
    event->leaders = req->leaders;
    event->leader_logprobs = req->leader_values;
}

/* tokens: of new ones; NULL: of a prompt. */
static void tell_ids(cdz_entry_request *req, uint32_t row, const int32_t *ids, uint32_t n,
                     const cdz_new_tokens *tokens)
{
    cdz_buf *text = &req->streamed;
    cdz_buf_clear(text);
    cdz_buf_add(text, "", 0);
    for (uint32_t i = 0; req->streams && i < n; i++) {
        const char *piece;
        size_t len;
        const cdz_status status =
            cdz_text_stream_feed(&req->streams[row], ids[i], &piece, &len, NULL);
        if (status == CDZ_OK) cdz_buf_add(text, piece, len);
        req->lost |= status == CDZ_E_NOMEM;
    }
    hold_half_words(req, row);
    req->lost |= text->failed;
    cdz_event event = {.row = row, .ids = ids, .n_ids = n, .text = text->data ? text->data : ""};
    if (tokens) put_values(req, tokens, &event);
    send_tokens(req, &event);
}

/* The visible ids of the row's prompt. */
static void tell_prompt(cdz_entry_request *req, uint32_t row)
{
    const cdz_job *job = req->call.job;
    const cdz_job_row *prompt = &job->rows[(uint64_t)row * job->n_prompts / job->n_rows];
    int32_t *ids = malloc((job->prompt_len + (size_t)1) * sizeof *ids);
    uint32_t n = 0;
    for (uint32_t i = 0; ids && i < job->prompt_len; i++)
        if (!prompt->mask || job->n_embeds || prompt->mask[i]) ids[n++] = prompt->ids[i];
    if (n) tell_ids(req, row, ids, n, NULL);
    free(ids);
}

static void tell_prompts(cdz_entry_request *req)
{
    if (req->told_prompt || !(req->stream & CDZ_STREAM_PROMPT)) return;
    req->told_prompt = true;
    for (uint32_t r = 0; r < req->n_rows; r++) tell_prompt(req, r);
}

/* [engine thread] */
static void on_tokens(void *user, const cdz_new_tokens *tokens)
{
    cdz_entry_request *req = user;
    if (!req->on_event && !req->poll) return;
    tell_prompts(req);
    tell_ids(req, tokens->row, tokens->ids, tokens->n, tokens);
}

/* [engine thread] */
static void on_observed(void *user, const char *plugin, const char *line, size_t len)
{
    const cdz_entry_request *req = user;
    req->on_observed(req->observe_user, req->id, plugin, line, len);
}

/* [a helper's thread] The loop that asks keeps the request until this has returned. */
static cdz_status on_tool(void *user, cdz_tool_question *call, cdz_error *err)
{
    const cdz_entry_request *req = user;
    call->request = req->id;
    return req->on_tool(req->tool_user, call, err);
}

/* The text that streams still hold (half a character at the very end, half a word), row by row. */
static void flush_streams(cdz_entry_request *req)
{
    cdz_buf *text = &req->streamed;
    tell_prompts(req);
    for (uint32_t r = 0; req->streams && r < req->n_rows; r++) {
        const char *piece;
        size_t len;
        cdz_buf_clear(text);
        const cdz_status status = cdz_text_stream_end(&req->streams[r], &piece, &len, NULL);
        if (status == CDZ_OK) cdz_buf_add(text, piece, len);
        req->lost |= status == CDZ_E_NOMEM;
        hold_half_words(req, r);
        piece = req->words ? cdz_word_stream_end(&req->words[r], &len) : NULL;
        if (piece) cdz_buf_add(text, piece, len);
        req->lost |= text->failed;
        cdz_event event = {.row = r, .text = text->data};
        if (text->len) send_tokens(req, &event);
    }
}

/* --- the end of a call -------------------------------------------------------------------------------------- */

static cdz_status begin(cdz_entry_request *req, const cdz_prepared *call, cdz_error *err);

static void add_outcome(cdz_stats *sum, const cdz_outcome *outcome)
{
    sum->n_prompt_tokens += outcome->n_prompt_tokens;
    sum->n_new_tokens += outcome->n_new_tokens;
    sum->n_reused_tokens += outcome->n_reused_tokens;
}

/* Counts a request that has ended; the lock is held. */
static void count(cdz_runtime *rt, const cdz_entry_request *req)
{
    cdz_assert_holds(&rt->lock);
    switch (cdz_entry_state(req)) {
    case CDZ_REQUEST_CANCELLED: rt->ended.n_cancelled++; break;
    case CDZ_REQUEST_FAILED: rt->ended.n_failed++; break;
    default: rt->ended.n_finished++; break;
    }
    if (!req->result) return;
    add_outcome(&rt->ended, req->result->outcome);
    for (uint32_t i = 0; i < req->result->n_calls; i++)
        add_outcome(&rt->ended, req->result->calls[i]->outcome);
}

/* [engine thread] The last call has ended: the request has. */
static void finish(cdz_entry_request *req)
{
    cdz_runtime *rt = req->runtime;
    if (req->result && req->name) req->result->name = strdup(req->name);
    cdz_event event = {.size = sizeof event,
                       .kind = CDZ_EVENT_DONE,
                       .request_id = req->id,
                       .name = req->name,
                       .text = "",
                       .result = req->result};
    if (req->on_event) req->on_event(req->user, &event);
    cdz_queued_event *queued = req->poll ? copy_event(&event) : NULL;
    /* Once done is set, whoever waits may free the request: touch it no more after the unlock. */
    cdz_mutex_lock(&rt->lock);
    req->done = true;
    count(rt, req);
    enqueue(rt, queued);
    pthread_cond_broadcast(&rt->changed);
    cdz_mutex_unlock(&rt->lock);
}

/* [engine thread] The engine runs nothing meanwhile: a cancellation finds either the old id or the new one. */
static cdz_status go_on(cdz_entry_request *req, const cdz_prepared *call, cdz_error *err)
{
    cdz_runtime *rt = req->runtime;
    cdz_mutex_lock(&rt->lock);
    const uint64_t engine_id = req->engine_id = cdz_engine_new_id(rt->engine);
    cdz_mutex_unlock(&rt->lock);
    CDZ_TRY(begin(req, call, err));
    cdz_mutex_lock(&rt->lock);
    if (req->paused) cdz_engine_pause(rt->engine, engine_id, true, NULL);
    const bool cancel = req->cancel_wanted;
    cdz_mutex_unlock(&rt->lock);
    if (cancel) cdz_engine_cancel(rt->engine, engine_id, NULL);
    return CDZ_OK;
}

static cdz_status start_next(cdz_entry_request *req, cdz_result *last, cdz_error *err)
{
    cdz_prepared call;
    CDZ_TRY(cdz_chain_prepare(req, last, &call, err));
    req->n_healed = 0;
    return go_on(req, &call, err);
}

/* [engine thread] A prompt's last token was chosen anew: the next one's turn, or the request's own. False: it failed, and
 * the outcome says why. */
static bool heal_done(cdz_entry_request *req, cdz_outcome *outcome)
{
    const cdz_prepared call = req->waiting;
    req->waiting = (cdz_prepared){0};
    if (outcome->error.code == CDZ_OK) {
        cdz_heal_take(&call, req->n_healed++, req->call.job, outcome);
        if (go_on(req, &call, &outcome->error) == CDZ_OK) return true;
    } else {
        cdz_job_free(call.job);
    }
    return false;
}

/* [engine thread] */
static void on_done(void *user, cdz_outcome *outcome)
{
    cdz_entry_request *req = user;
    cdz_error err = {0};
    if (req->waiting.job && heal_done(req, outcome)) {
        cdz_outcome_free(outcome);
        return;
    }
    if (req->on_event || req->poll) flush_streams(req);
    if (req->lost && outcome->error.code == CDZ_OK)
        cdz_err_memory(&outcome->error, "the text of events");
    const bool good = outcome->error.code == CDZ_OK;
    cdz_result *last = cdz_result_create(outcome, req->model, &req->call, &req->record);
    if (!cdz_result_add_call(&req->result, last)) {
        cdz_result_free(last);
        finish(req);
        return;
    }
    if (good && req->chain.next < req->chain.n_calls) {
        if (start_next(req, last, &err) == CDZ_OK) return;
        last->error = err;
    }
    cdz_result_settle(req->result);
    finish(req);
}

/* --- submitting --------------------------------------------------------------------------------------- */

static cdz_status make_streams(cdz_entry_request *req, const cdz_job *job, cdz_error *err)
{
    const cdz_tokenizer *tok = cdz_run_model_tokenizer(req->model);
    free_streams(req);
    req->n_rows = job->n_rows;
    req->told_prompt = false;
    if (!tok) return CDZ_OK;
    req->streams = calloc(job->n_rows, sizeof *req->streams);
    if (!req->streams) return cdz_err_memory(err, "the request");
    for (uint32_t r = 0; r < job->n_rows; r++) {
        req->streams[r].tok = tok;
        req->streams[r].skip_special = !(req->stream & CDZ_STREAM_SPECIAL);
    }
    if (!(req->stream & CDZ_STREAM_WORDS)) return CDZ_OK;
    req->words = calloc(job->n_rows, sizeof *req->words);
    return req->words ? CDZ_OK : cdz_err_memory(err, "the request");
}

/* A document's own pipeline, where the program gives none. */
static cdz_status take_pipeline(const cdz_request *request, const cdz_json *document,
                                cdz_entry_request *req, cdz_error *err)
{
    cdz_pipeline *own;
    const cdz_json *written = cdz_json_get(document, "pipeline");
    if (request->pipeline || !cdz_json_is(written, CDZ_JSON_OBJECT)) return CDZ_OK;
    CDZ_TRY(cdz_pipeline_of_object(req->runtime, written, &own, err));
    cdz_pipeline_release(req->pipeline);
    req->pipeline = own;
    return CDZ_OK;
}

/* The document's prompt or the program's, not both. */
static cdz_status check_prompt(const cdz_request *request, const cdz_json *document, cdz_error *err)
{
    static const char *const names[] = {"prompt", "prompt_ids", "messages"};
    const char *own = request->prompt ? "prompt" : request->ids ? "ids" : NULL;
    for (size_t i = 0; own && i < sizeof names / sizeof *names; i++)
        if (cdz_json_get(document, names[i]))
            return cdz_err(err, CDZ_E_USAGE,
                           "cdz_request.%s is set and cdz_request.json has \"%s\": give one prompt",
                           own, names[i]);
    return CDZ_OK;
}

static cdz_status read_document(const cdz_request *request, cdz_arena *arena, cdz_json *document,
                                cdz_error *err)
{
    const char *text = request->json;
    CDZ_TRY(cdz_json_parse(text, strlen(text), "request", NULL, arena, document, err));
    return check_prompt(request, document, err);
}

static cdz_status prepare(const cdz_request *request, cdz_entry_request *req, cdz_prepared *out,
                          cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_json document;
    cdz_status status = CDZ_OK;
    if (request->json) status = read_document(request, &arena, &document, err);
    if (status == CDZ_OK && request->json) status = take_pipeline(request, &document, req, err);
    if (status == CDZ_OK && request->json) status = cdz_chain_read(req, request, &document, err);
    cdz_prepare_input in = {
        .model = request->model->run,
        .assistant = request->assistant ? request->assistant->run : NULL,
        .assistant_generation = request->assistant ? &request->assistant->generation : NULL,
        .pipeline = req->pipeline,
        .chat = &request->model->chat,
        .model_generation = &request->model->generation,
        .document = request->json ? &document : NULL,
        .prompt = request->prompt,
        .ids = request->ids,
        .n_ids = request->n_ids,
        .embeds = {.data = (float *)(uintptr_t)request->embeds, /* only read */
                   .n = request->embeds ? request->n_embed_rows : 0,
                   .len = request->n_embeds,
                   .width = cdz_model_hidden_size(request->model)},
        .inputs_dir = request->inputs_dir,
        .past = request->past ? request->past->outcome->kept : NULL,
        .keep_cache = request->keep_cache || cdz_chain_continues(&req->chain),
        .timeout_s = request->timeout_s,
    };
    if (status == CDZ_OK) status = cdz_prepare_job(&in, out, &req->record, err);
    cdz_arena_free(&arena);
    return status;
}

/* NULL stays NULL; false: out of memory. */
static bool copy_text(const char *text, char **out)
{
    *out = text ? strdup(text) : NULL;
    return *out || !text;
}

static bool take_others(cdz_entry_request *req, const cdz_request *request)
{
    if (request->n_models == 0) return true;
    req->others = calloc(request->n_models, sizeof *req->others);
    if (!req->others) return false;
    for (uint32_t i = 0; i < request->n_models; i++) {
        req->others[i].name = strdup(request->model_names[i]);
        if (!req->others[i].name) return false;
        req->others[i].model = request->models[i]->run;
        cdz_run_model_retain(req->others[i].model);
        req->n_others++;
    }
    return true;
}

/* An engine runs models of its own runtime alone. */
static cdz_status check_runtime(const cdz_runtime *rt, const cdz_request *request, cdz_error *err)
{
    const char *stranger = NULL;
    if (request->model->runtime != rt) stranger = "model";
    if (request->assistant && request->assistant->runtime != rt) stranger = "assistant";
    for (uint32_t i = 0; i < request->n_models; i++)
        if (request->models[i]->runtime != rt) stranger = request->model_names[i];
    if (request->pipeline && !cdz_pipeline_is_of(request->pipeline, rt->registry))
        stranger = "pipeline";
    return stranger ? cdz_err(err, CDZ_E_USAGE, "cdz_request: %s is of another runtime", stranger)
                    : CDZ_OK;
}

/* Names that decode loops use for what the request has anyway are no others'. */
static cdz_status check_others(const cdz_request *request, cdz_error *err)
{
    if (request->n_models && (!request->model_names || !request->models))
        return cdz_err(err, CDZ_E_USAGE, "cdz_request.n_models is %u, %s is NULL",
                       request->n_models, request->models ? "model_names" : "models");
    for (uint32_t i = 0; i < request->n_models; i++) {
        const char *name = request->model_names[i];
        if (!name || !*name || strcmp(name, "target") == 0 || strcmp(name, "assistant") == 0 ||
            !request->models[i])
            return cdz_err(err, CDZ_E_USAGE,
                           "cdz_request: model %u: expected a model with a name other than target "
                           "and assistant, found \"%s\"",
                           i, name ? name : "");
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(name, request->model_names[k]) == 0)
                return cdz_err(err, CDZ_E_USAGE, "cdz_request: two models are called \"%s\"", name);
    }
    return CDZ_OK;
}

/* A request of its own, with everything it needs kept alive. */
static cdz_entry_request *new_request(cdz_runtime *rt, const cdz_request *request)
{
    cdz_entry_request *req = calloc(1, sizeof *req);
    if (!req) return NULL;
    req->runtime = rt;
    req->poll = request->poll;
    req->stream = request->stream;
    req->keep_cache = request->keep_cache;
    req->priority = request->priority;
    req->tenant = request->tenant;
    req->logprobs = request->stream_logprobs;
    req->n_leaders = req->logprobs ? request->stream_leaders : 0;
    if (request->cache_salt)
        cdz_sha256(request->cache_salt, strlen(request->cache_salt), req->salt);
    req->chain.model = request->model;
    cdz_model_retain(request->model);
    req->on_event = request->on_event;
    req->user = request->user;
    req->on_tool = request->on_tool;
    req->tool_user = request->tool_user;
    req->on_observed = request->on_observed;
    req->observe_user = request->observe_user;
    req->model = request->model->run;
    cdz_run_model_retain(req->model);
    if (request->assistant) {
        req->assistant = request->assistant->run;
        cdz_run_model_retain(req->assistant);
    }
    req->pipeline = request->pipeline ? request->pipeline : rt->hf;
    cdz_pipeline_retain(req->pipeline);
    if (take_others(req, request) && copy_text(request->name, &req->name) &&
        copy_text(request->request_id, &req->request_id) &&
        copy_text(request->traceparent, &req->traceparent))
        return req;
    free_request(req);
    return NULL;
}

static cdz_status check_priority(const cdz_runtime *rt, const cdz_request *request, cdz_error *err)
{
    if (request->priority == 0 || cdz_scheduler_has_priorities(rt)) return CDZ_OK;
    const char *id = cdz_scheduler_id(rt);
    return cdz_err(err, CDZ_E_UNSUPPORTED,
                   "cdz_request.priority is %" PRId64
                   ": %s%s has no priorities; cdz_options.scheduler \"priority\" has",
                   request->priority, id ? "the scheduler " : "this runtime", id ? id : "");
}

static cdz_status check_request(const cdz_request *request, cdz_error *err)
{
    if (request->size != sizeof *request)
        return cdz_err(err, CDZ_E_USAGE,
                       "cdz_request.size is %u, expected %zu: set it to sizeof(cdz_request)",
                       request->size, sizeof *request);
    if (!request->model) return cdz_err(err, CDZ_E_USAGE, "cdz_request.model is NULL");
    if (request->prompt && request->ids)
        return cdz_err(err, CDZ_E_USAGE, "cdz_request has both prompt and ids: give one prompt");
    const uint32_t flags = CDZ_STREAM_PROMPT | CDZ_STREAM_SPECIAL | CDZ_STREAM_WORDS;
    if (request->stream & ~flags)
        return cdz_err(err, CDZ_E_USAGE, "cdz_request.stream is %u: expected cdz_stream_flags",
                       request->stream);
    if (request->stream_leaders > CDZ_MOST_LEADERS)
        return cdz_err(err, CDZ_E_USAGE, "cdz_request.stream_leaders is %u: expected at most %d",
                       request->stream_leaders, CDZ_MOST_LEADERS);
    if (!(request->timeout_s >= 0))
        return cdz_err(err, CDZ_E_USAGE,
                       "cdz_request.timeout_s is %g: expected seconds, or 0 for none",
                       request->timeout_s);
    if (request->embeds && (request->n_embeds == 0 || request->n_embed_rows == 0))
        return cdz_err(err, CDZ_E_USAGE, "cdz_request.embeds is set, n_embeds or n_embed_rows is 0");
    if (!request->past) return CDZ_OK;
    const cdz_kept *kept = request->past->outcome->kept;
    if (!kept)
        return cdz_err(err, CDZ_E_USAGE,
                       "cdz_request.past holds no KV state: its request was made without "
                       "keep_cache");
    if (cdz_kept_model(kept) != request->model->run)
        return cdz_err(err, CDZ_E_USAGE, "cdz_request.past is a result of another model");
    return CDZ_OK;
}

/* Plugins may ask for it as long as the job is there, which may be after the request's end. */
static bool tell_trace(const cdz_entry_request *req, cdz_job *job)
{
    if (req->request_id) job->request_id = cdz_arena_strdup(&job->arena, req->request_id);
    if (req->traceparent) job->traceparent = cdz_arena_strdup(&job->arena, req->traceparent);
    return (job->request_id || !req->request_id) && (job->traceparent || !req->traceparent);
}

/* The names live as long as the job, the models are held by both. */
static bool tell_others(const cdz_entry_request *req, cdz_job *job)
{
    cdz_job_model *all = cdz_arena_array(&job->arena, req->n_others + 1, sizeof *all);
    if (!all) return false;
    for (uint32_t i = 0; i < req->n_others; i++) {
        all[i].model = req->others[i].model;
        all[i].name = cdz_arena_strdup(&job->arena, req->others[i].name);
        if (!all[i].name) return false;
    }
    job->others = all;
    job->n_others = req->n_others;
    return true;
}

/* Hands a job to the engine, which owns it from then on; freed on failure. */
static cdz_status hand_over(cdz_entry_request *req, cdz_job *job, cdz_error *err)
{
    uint64_t same;
    job->id = req->engine_id;
    job->on_done = on_done;
    job->user = req;
    job->priority = req->priority;
    job->tenant = req->tenant;
    return cdz_engine_submit(req->runtime->engine, job, &same, err);
}

/* A prepared call, whose job is freed on failure. */
static cdz_status launch(cdz_entry_request *req, const cdz_prepared *call, cdz_error *err)
{
    cdz_job *job = call->job;
    cdz_status status = make_streams(req, job, err);
    if (status == CDZ_OK && (!tell_trace(req, job) || !tell_others(req, job)))
        status = cdz_err_memory(err, "the request");
    if (status != CDZ_OK) {
        cdz_job_free(job);
        return status;
    }
    job->on_tokens = on_tokens;
    if (req->on_tool) job->on_tool = on_tool;
    if (req->on_observed) job->on_observed = on_observed;
    job->keep_logprobs |= req->logprobs;
    job->keep_leaders = req->n_leaders;
    memcpy(job->salt, req->salt, sizeof job->salt);
    req->call = *call;
    return hand_over(req, job, err);
}

/* The generation of one token that a prompt waits for. The job is freed on failure. */
static cdz_status heal(cdz_entry_request *req, const cdz_prepared *call, cdz_error *err)
{
    cdz_prepared one;
    const cdz_prepare_input in = {.model = req->model,
                                  .pipeline = req->runtime->hf,
                                  .model_generation = &req->chain.model->generation,
                                  .deadline_s = call->job->deadline_s};
    cdz_status status = cdz_heal_prepare(&in, call, req->n_healed, &one, err);
    if (status != CDZ_OK) {
        cdz_job_free(call->job);
        return status;
    }
    req->waiting = *call;
    req->call = one;
    status = hand_over(req, one.job, err);
    if (status == CDZ_OK) return CDZ_OK;
    req->waiting = (cdz_prepared){0};
    cdz_job_free(call->job);
    return status;
}

/* Prompts are healed first, one after the other. */
static cdz_status begin(cdz_entry_request *req, const cdz_prepared *call, cdz_error *err)
{
    if (req->n_healed < call->n_heals) return heal(req, call, err);
    return launch(req, call, err);
}

/* Gives the request its id and a place in the list, unless its name is taken. */
static cdz_status enlist(cdz_runtime *rt, cdz_entry_request *req, uint64_t *id, cdz_error *err)
{
    cdz_status status = CDZ_OK;
    cdz_mutex_lock(&rt->lock);
    if (rt->stopped)
        status = cdz_err(err, CDZ_E_STATE, "the runtime was drained: it takes no more requests");
    else if (req->name && cdz_entry_named(rt, req->name))
        status =
            cdz_err(err, CDZ_E_USAGE, "cdz_request.name \"%s\": another request has it", req->name);
    if (status == CDZ_OK) {
        *id = req->id = rt->next_id++;
        req->next = rt->requests;
        rt->requests = req;
    }
    cdz_mutex_unlock(&rt->lock);
    return status;
}

cdz_status cdz_submit(cdz_runtime *rt, const cdz_request *request, uint64_t *id, cdz_error *err)
{
    CDZ_TRY(cdz_runtime_check_process(rt, err));
    CDZ_TRY(check_request(request, err));
    CDZ_TRY(check_priority(rt, request, err));
    CDZ_TRY(check_others(request, err));
    CDZ_TRY(check_runtime(rt, request, err));
    cdz_entry_request *req = new_request(rt, request);
    if (!req) return cdz_err_memory(err, "the request");
    cdz_prepared call;
    uint64_t own_id = 0, engine_id = 0;
    cdz_status status = prepare(request, req, &call, err);
    if (status == CDZ_OK) {
        status = cdz_entry_add_named(req, call.job->plan->edition, err);
        if (status != CDZ_OK) cdz_job_free(call.job);
    }
    if (status == CDZ_OK) {
        req->engine_id = cdz_engine_new_id(rt->engine); /* its first event may ask for it */
        status = enlist(rt, req, &own_id, err);
        if (status != CDZ_OK) cdz_job_free(call.job);
    }
    if (status != CDZ_OK) {
        free_request(req);
        return status;
    }
    status = begin(req, &call, err);
    cdz_entry_request *failed =
        NULL; /* may be the last that holds its pipeline: freed without the lock */
    cdz_mutex_lock(&rt->lock);
    bool cancel = false;
    if (status != CDZ_OK) {
        failed = take_request(rt, own_id);
        pthread_cond_broadcast(&rt->changed);              /* somebody may join */
    } else if ((req = find_request(rt, own_id)) != NULL) { /* else it is done and already taken */
        req->engine_knows = true;
        engine_id = req->engine_id; /* of a later call, maybe */
        cancel = req->cancel_wanted;
        if (req->paused) cdz_engine_pause(rt->engine, engine_id, true, NULL);
    }
    cdz_mutex_unlock(&rt->lock);
    free_request(failed);
    if (cancel) cdz_engine_cancel(rt->engine, engine_id, NULL);
    if (status == CDZ_OK) *id = own_id;
    return status;
}

/* --- states and numbers ------------------------------------------------------------------------------------- */

static uint32_t count_open(const cdz_runtime *rt)
{
    uint32_t n = 0;
    for (const cdz_entry_request *req = rt->requests; req; req = req->next) n += !req->done;
    return n;
}

cdz_entry_request *cdz_entry_named(const cdz_runtime *rt, const char *name)
{
    cdz_assert_holds(&rt->lock);
    for (cdz_entry_request *req = rt->requests; req; req = req->next)
        if (req->name && strcmp(req->name, name) == 0) return req;
    return NULL;
}

cdz_request_state cdz_entry_state(const cdz_entry_request *req)
{
    switch (req->result ? req->result->error.code : CDZ_E_NOMEM) {
    case CDZ_OK:
    case CDZ_E_DEADLINE: return CDZ_REQUEST_FINISHED;
    case CDZ_E_CANCELLED: return CDZ_REQUEST_CANCELLED;
    default: return CDZ_REQUEST_FAILED;
    }
}

cdz_request_state cdz_get_request_state(cdz_runtime *rt, uint64_t id)
{
    cdz_mutex_lock(&rt->lock);
    const cdz_entry_request *req = find_request(rt, id);
    const bool done = req && req->done, asks = req && !done && req->engine_knows;
    const uint64_t engine_id = asks ? req->engine_id : 0;
    cdz_request_state state = CDZ_REQUEST_PENDING;
    if (!req)
        state = id && id < rt->next_id ? CDZ_REQUEST_EVICTED : CDZ_REQUEST_UNKNOWN;
    else if (done)
        state = cdz_entry_state(req);
    cdz_mutex_unlock(&rt->lock);
    /* Between two calls of one request the engine knows neither: it runs all the same. */
    if (asks && !cdz_engine_is_waiting(rt->engine, engine_id)) state = CDZ_REQUEST_RUNNING;
    return state;
}

uint64_t cdz_find_request(cdz_runtime *rt, const char *name)
{
    cdz_mutex_lock(&rt->lock);
    const cdz_entry_request *req = cdz_entry_named(rt, name);
    const uint64_t id = req ? req->id : 0;
    cdz_mutex_unlock(&rt->lock);
    return id;
}

_Static_assert((int)CDZ_STATS_PASSES == (int)CDZ_ENGINE_PASSES,
               "cdz_stats has the engine's counts of passes");

void cdz_get_stats(cdz_runtime *rt, cdz_stats *out)
{
    cdz_engine_stats engine;
    cdz_engine_get_stats(rt->engine, &engine);
    cdz_mutex_lock(&rt->lock);
    cdz_stats all = rt->ended;
    const uint32_t open = count_open(rt);
    cdz_mutex_unlock(&rt->lock);
    const uint32_t waiting = cdz_engine_n_waiting(rt->engine);
    const cdz_engine_line line = cdz_engine_see_line(rt->engine);
    all.size = out->size;
    all.n_pending = waiting < open ? waiting : open;
    all.n_running = open - all.n_pending;
    all.n_waiting = line.n < all.n_pending ? line.n : all.n_pending;
    all.n_waiting_rows = line.rows;
    all.n_waiting_tokens = line.prompt_tokens;
    all.n_passes = engine.passes;
    all.n_pass_rows = engine.pass_rows;
    all.kv_blocks_used = engine.kv_blocks_used;
    all.kv_blocks_peak = engine.kv_blocks_peak;
    all.n_prefix_queries = engine.prefix_queries;
    all.n_prefix_hits = engine.prefix_hits;
    all.n_prefix_refused = engine.prefix_refused;
    all.kv_blocks_cached = engine.kv_blocks_cached;
    all.kv_blocks_evicted = engine.kv_blocks_evicted;
    all.n_preemptions = engine.preemptions;
    all.n_paused = engine.n_paused < all.n_running ? engine.n_paused : all.n_running;
    all.kv_bytes_held = engine.kv_bytes_held;
    all.kv_bytes_limit = engine.kv_bytes_limit;
    all.n_drafted = engine.drafted;
    all.n_accepted = engine.accepted;
    memcpy(all.n_passes_to, engine.passes_to, sizeof all.n_passes_to);
    memcpy(out, &all, out->size < sizeof all ? out->size : sizeof all);
}

/* --- watching, waiting, ending -------------------------------------------------------------------------- */

/* When a wait ends; seconds < 0: never. */
typedef struct limit {
    bool never, now;
    struct timespec at;
} limit;

static limit after(double seconds)
{
    static const double longest = 1e9; /* the clock's arithmetic has an end */
    limit out = {.never = seconds < 0, .now = seconds == 0};
    if (!(seconds > 0)) return out;
    if (seconds > longest) seconds = longest;
    clock_gettime(CLOCK_MONOTONIC, &out.at);
    const double whole = (double)(time_t)seconds;
    out.at.tv_sec += (time_t)whole;
    out.at.tv_nsec += (long)((seconds - whole) * 1e9);
    if (out.at.tv_nsec >= 1000000000) {
        out.at.tv_sec++;
        out.at.tv_nsec -= 1000000000;
    }
    return out;
}

/* Waits for a change; false: the time is over. The lock is held. */
static bool await_change(cdz_runtime *rt, const limit *until)
{
    cdz_assert_holds(&rt->lock);
    if (until->now) return false;
    if (until->never) return cdz_mutex_wait(&rt->lock, &rt->changed, NULL) == 0;
    return cdz_mutex_wait(&rt->lock, &rt->changed, &until->at) != ETIMEDOUT;
}

cdz_status cdz_poll(cdz_runtime *rt, double timeout_s, cdz_event *out, cdz_error *err)
{
    const limit until = after(timeout_s);
    CDZ_TRY(cdz_runtime_check_process(rt, err));
    cdz_mutex_lock(&rt->lock);
    free_event(rt->polled);
    rt->polled = NULL;
    while (!rt->events && await_change(rt, &until)) {
    }
    cdz_queued_event *queued = rt->events;
    if (queued) {
        rt->events = queued->next;
        if (!rt->events) rt->events_end = &rt->events;
        rt->polled = queued;
        *out = queued->event;
    }
    cdz_mutex_unlock(&rt->lock);
    return queued ? CDZ_OK : cdz_err(err, CDZ_E_NOT_FOUND, "no event arrived in time");
}

/* Takes over what a request that has ended gave, which is no longer in the list. */
static cdz_status take_result(cdz_entry_request *req, cdz_result **out, cdz_error *err)
{
    cdz_result *result = req->result;
    req->result = NULL;
    free_request(req);
    if (!result) return cdz_err_memory(err, "the result");
    *out = result;
    const cdz_error *why = &result->error;
    return why->code == CDZ_OK ? CDZ_OK : cdz_err(err, why->code, "%s", why->text);
}

static cdz_status not_to_be_waited_for(uint64_t id, cdz_error *err)
{
    return cdz_err(err, CDZ_E_NOT_FOUND, "no request %llu to wait for", (unsigned long long)id);
}

/* A request of that id, waiting for its end; the lock is held. Its waiter has it to itself. */
static cdz_status await_one(cdz_runtime *rt, uint64_t id, const limit *until,
                            cdz_entry_request **out, cdz_error *err)
{
    cdz_assert_holds(&rt->lock);
    cdz_entry_request *req = find_request(rt, id);
    if (!req || req->waited) return not_to_be_waited_for(id, err);
    req->waited = true;
    while (!req->done && await_change(rt, until)) {
    }
    req->waited = req->done;
    if (!req->done)
        return cdz_err(err, CDZ_E_STATE, "request %llu has not ended in time",
                       (unsigned long long)id);
    *out = req;
    return CDZ_OK;
}

/* The oldest that has ended and that nobody waits for; *open: some have not ended. */
static cdz_entry_request *oldest_ended(const cdz_runtime *rt, bool *open)
{
    cdz_entry_request *oldest = NULL;
    *open = false;
    for (cdz_entry_request *req = rt->requests; req; req = req->next) {
        if (req->waited) continue;
        if (req->done)
            oldest = req;
        else
            *open = true;
    }
    return oldest;
}

static cdz_status await_any(cdz_runtime *rt, const limit *until, cdz_entry_request **out,
                            cdz_error *err)
{
    bool open;
    while (!(*out = oldest_ended(rt, &open)) && open && await_change(rt, until)) {
    }
    if (*out) return CDZ_OK;
    if (!open) return cdz_err(err, CDZ_E_NOT_FOUND, "there is no request to wait for");
    return cdz_err(err, CDZ_E_STATE, "no request has ended in time");
}

cdz_status cdz_get_result(cdz_runtime *rt, uint64_t id, double timeout_s, uint64_t *ended,
                          cdz_result **out, cdz_error *err)
{
    const limit until = after(timeout_s);
    cdz_entry_request *req = NULL;
    *out = NULL;
    CDZ_TRY(cdz_runtime_check_process(rt, err));
    cdz_mutex_lock(&rt->lock);
    const cdz_status status =
        id ? await_one(rt, id, &until, &req, err) : await_any(rt, &until, &req, err);
    if (status == CDZ_OK) take_request(rt, req->id);
    cdz_mutex_unlock(&rt->lock);
    if (status != CDZ_OK) return status;
    if (ended) *ended = req->id;
    return take_result(req, out, err);
}

cdz_status cdz_wait(cdz_runtime *rt, uint64_t id, cdz_result **out, cdz_error *err)
{
    cdz_result *result = NULL;
    if (id == 0) return not_to_be_waited_for(id, err);
    const cdz_status status = cdz_get_result(rt, id, -1, NULL, &result, err);
    if (result) *out = result;
    return status;
}

static cdz_status no_running(uint64_t id, cdz_error *err)
{
    return cdz_err(err, CDZ_E_NOT_FOUND, "no running request %llu", (unsigned long long)id);
}

cdz_status cdz_cancel(cdz_runtime *rt, uint64_t id, cdz_error *err)
{
    cdz_mutex_lock(&rt->lock);
    cdz_entry_request *req = find_request(rt, id);
    const bool known = req && !req->done;
    const uint64_t engine_id = known ? req->engine_id : 0;
    if (known) req->cancel_wanted = true;
    cdz_mutex_unlock(&rt->lock);
    if (!known) return no_running(id, err);
    cdz_engine_cancel(rt->engine, engine_id, NULL); /* it may have ended meanwhile: fine */
    return CDZ_OK;
}

/* Under the lock, so that the engine hears of pauses and their ends in their order. */
static cdz_status set_paused(cdz_runtime *rt, uint64_t id, bool paused, cdz_error *err)
{
    cdz_mutex_lock(&rt->lock);
    cdz_entry_request *req = find_request(rt, id);
    const bool known = req && !req->done;
    if (known) {
        req->paused = paused;
        cdz_engine_pause(rt->engine, req->engine_id, paused, NULL);
    }
    cdz_mutex_unlock(&rt->lock);
    return known ? CDZ_OK : no_running(id, err);
}

cdz_status cdz_pause(cdz_runtime *rt, uint64_t id, cdz_error *err)
{
    return set_paused(rt, id, true, err);
}

cdz_status cdz_resume(cdz_runtime *rt, uint64_t id, cdz_error *err)
{
    return set_paused(rt, id, false, err);
}

cdz_status cdz_evict(cdz_runtime *rt, uint64_t id, cdz_error *err)
{
    cdz_mutex_lock(&rt->lock);
    cdz_entry_request *req = find_request(rt, id);
    bool ended = req && req->done && !req->waited;
    if (ended) take_request(rt, id);
    cdz_mutex_unlock(&rt->lock);
    if (!ended)
        return cdz_err(err, CDZ_E_NOT_FOUND,
                       "request %llu has no result to evict: it is not "
                       "known, still runs, or is waited for",
                       (unsigned long long)id);
    free_request(req);
    return CDZ_OK;
}

/* How many are still open when none is, or the time is over. */
static uint32_t await_all(cdz_runtime *rt, const limit *until)
{
    uint32_t n;
    cdz_mutex_lock(&rt->lock);
    while ((n = count_open(rt)) && await_change(rt, until)) {
    }
    cdz_mutex_unlock(&rt->lock);
    return n;
}

cdz_status cdz_join(cdz_runtime *rt, double timeout_s, cdz_error *err)
{
    const limit until = after(timeout_s);
    CDZ_TRY(cdz_runtime_check_process(rt, err));
    const uint32_t n = await_all(rt, &until);
    if (n == 0) return CDZ_OK;
    return cdz_err(err, CDZ_E_STATE, "%u requests have not ended in time", n);
}

void cdz_drain(cdz_runtime *rt, bool block)
{
    static const limit never = {.never = true};
    cdz_mutex_lock(&rt->lock);
    rt->stopped = true;
    cdz_mutex_unlock(&rt->lock);
    if (block && cdz_runtime_is_here(rt)) await_all(rt, &never);
}

cdz_status cdz_generate(cdz_runtime *rt, const cdz_request *request, cdz_result **out,
                        cdz_error *err)
{
    uint64_t id;
    CDZ_TRY(cdz_submit(rt, request, &id, err));
    return cdz_wait(rt, id, out, err);
}

static void free_requests(cdz_runtime *rt)
{
    for (;;) {
        cdz_mutex_lock(&rt->lock);
        cdz_entry_request *req = rt->requests ? take_request(rt, rt->requests->id) : NULL;
        cdz_mutex_unlock(&rt->lock);
        if (!req) return;
        free_request(req);
    }
}

void cdz_entry_free_all(cdz_runtime *rt)
{
    free_requests(rt);
    while (rt->events) {
        cdz_queued_event *next = rt->events->next;
        free_event(rt->events);
        rt->events = next;
    }
    free_event(rt->polled);
}
