/* requests.c - submitting, watching, waiting for and cancelling requests.
 *
 * A request lives in the runtime's list from submit until its result is taken by cdz_wait or dropped by cdz_evict.
 * The engine thread reports through on_tokens and on_done; the runtime's lock is never held across a callback. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/entry.h"
#include "base/guard.h"

struct cdz_queued_event {
    cdz_queued_event *next;
    cdz_event event;
    int32_t *ids;
    char text[]; /* the event's text */
};

static void free_streams(cdz_entry_request *req)
{
    for (uint32_t r = 0; req->streams && r < req->n_rows; r++)
        cdz_text_stream_free(&req->streams[r]);
    free(req->streams);
    req->streams = NULL;
}

static void free_request(cdz_entry_request *req)
{
    if (!req) return;
    free_streams(req);
    cdz_buf_free(&req->streamed);
    cdz_job_free(req->waiting);
    cdz_chain_free(&req->chain);
    cdz_result_free(req->result);
    if (req->model) cdz_run_model_release(req->model);
    if (req->assistant) cdz_run_model_release(req->assistant);
    if (req->pipeline) cdz_pipeline_release(req->pipeline);
    free(req);
}

static void free_event(cdz_queued_event *queued)
{
    if (!queued) return;
    free(queued->ids);
    free(queued);
}

/* Unlinks a request; the lock is held. NULL when the id is unknown. */
static cdz_entry_request *take_request(cdz_runtime *rt, uint64_t id)
{
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

/* A copy of an event for cdz_poll, or NULL: running out of memory loses the event, not the result. */
static cdz_queued_event *copy_event(const cdz_event *event)
{
    size_t len = event->text ? strlen(event->text) : 0;
    cdz_queued_event *queued = calloc(1, sizeof *queued + len + 1);
    if (!queued) return NULL;
    queued->event = *event;
    if (len) memcpy(queued->text, event->text, len);
    queued->event.text = queued->text;
    if (event->n_ids) {
        queued->ids = malloc(event->n_ids * sizeof *queued->ids);
        if (!queued->ids) {
            free_event(queued);
            return NULL;
        }
        memcpy(queued->ids, event->ids, event->n_ids * sizeof *queued->ids);
    }
    queued->event.ids = queued->ids;
    return queued;
}

/* Hands an event to cdz_poll; the lock is held. NULL is fine. */
static void enqueue(cdz_runtime *rt, cdz_queued_event *queued)
{
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
    event->call = req->chain.next;
    if (req->on_event) req->on_event(req->user, event);
    if (!req->poll) return;
    cdz_queued_event *queued = copy_event(event);
    pthread_mutex_lock(&req->runtime->lock);
    enqueue(req->runtime, queued);
    pthread_mutex_unlock(&req->runtime->lock);
}

/* [engine thread] */
static void on_tokens(void *user, uint32_t row, const int32_t *ids, uint32_t n)
{
    cdz_entry_request *req = user;
    if (!req->on_event && !req->poll) return;
    cdz_buf *text = &req->streamed;
    cdz_buf_clear(text);
    for (uint32_t i = 0; req->streams && i < n; i++) {
        const char *piece;
        size_t len;
        if (cdz_text_stream_feed(&req->streams[row], ids[i], &piece, &len, NULL) == CDZ_OK)
            cdz_buf_add(text, piece, len);
    }
    cdz_event event = {.row = row, .ids = ids, .n_ids = n, .text = text->data ? text->data : ""};
    send_tokens(req, &event);
}

/* The text that streams still hold (half a character at the very end), row by row. */
static void flush_streams(cdz_entry_request *req)
{
    for (uint32_t r = 0; req->streams && r < req->n_rows; r++) {
        const char *piece;
        size_t len;
        if (cdz_text_stream_end(&req->streams[r], &piece, &len, NULL) != CDZ_OK || len == 0)
            continue;
        cdz_event event = {.row = r, .text = piece};
        send_tokens(req, &event);
    }
}

/* --- the end of a call -------------------------------------------------------------------------------------- */

static cdz_status begin(cdz_entry_request *req, cdz_job *job, uint64_t *engine_id, cdz_error *err);

/* [engine thread] The last call has ended: the request has. */
static void finish(cdz_entry_request *req)
{
    cdz_runtime *rt = req->runtime;
    cdz_event event = {.size = sizeof event,
                       .kind = CDZ_EVENT_DONE,
                       .request_id = req->id,
                       .text = "",
                       .result = req->result};
    if (req->on_event) req->on_event(req->user, &event);
    cdz_queued_event *queued = req->poll ? copy_event(&event) : NULL;
    /* Once done is set, whoever waits may free the request: touch it no more after the unlock. */
    pthread_mutex_lock(&rt->lock);
    req->done = true;
    enqueue(rt, queued);
    pthread_cond_broadcast(&rt->changed);
    pthread_mutex_unlock(&rt->lock);
}

/* [engine thread] The engine runs nothing meanwhile: a cancellation finds either the old id or the new one. */
static cdz_status go_on(cdz_entry_request *req, cdz_job *job, cdz_error *err)
{
    cdz_runtime *rt = req->runtime;
    uint64_t engine_id;
    CDZ_TRY(begin(req, job, &engine_id, err));
    pthread_mutex_lock(&rt->lock);
    req->engine_id = engine_id;
    const bool cancel = req->cancel_wanted;
    pthread_mutex_unlock(&rt->lock);
    if (cancel) cdz_engine_cancel(rt->engine, engine_id, NULL);
    return CDZ_OK;
}

static cdz_status start_next(cdz_entry_request *req, cdz_result *last, cdz_error *err)
{
    cdz_job *job = NULL;
    CDZ_TRY(cdz_chain_prepare(req, last, &job, err));
    req->n_healed = 0;
    return go_on(req, job, err);
}

/* [engine thread] A prompt's last token was chosen anew: the next one's turn, or the request's own. False: it failed, and
 * the outcome says why. */
static bool heal_done(cdz_entry_request *req, cdz_outcome *outcome)
{
    cdz_job *job = req->waiting;
    req->waiting = NULL;
    if (outcome->error.code == CDZ_OK) {
        cdz_heal_take(job, req->n_healed++, req->job, outcome);
        if (go_on(req, job, &outcome->error) == CDZ_OK) return true;
    } else {
        cdz_job_free(job);
    }
    return false;
}

/* [engine thread] */
static void on_done(void *user, cdz_outcome *outcome)
{
    cdz_entry_request *req = user;
    cdz_error err = {0};
    if (req->waiting && heal_done(req, outcome)) {
        cdz_outcome_free(outcome);
        return;
    }
    if (req->on_event || req->poll) flush_streams(req);
    const bool good = outcome->error.code == CDZ_OK;
    cdz_result *last = cdz_result_create(outcome, req->model, req->job, &req->record);
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
    if (!tok) return CDZ_OK;
    req->streams = calloc(job->n_rows, sizeof *req->streams);
    if (!req->streams) return cdz_err(err, CDZ_E_NOMEM, "out of memory for the request");
    for (uint32_t r = 0; r < job->n_rows; r++) {
        req->streams[r].tok = tok;
        req->streams[r].skip_special = true;
    }
    return CDZ_OK;
}

static cdz_status prepare(cdz_runtime *rt, const cdz_request *request, cdz_entry_request *req,
                          cdz_job **job, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_json document;
    cdz_status status = CDZ_OK;
    if (request->json)
        status = cdz_json_parse(request->json, strlen(request->json), "request", NULL, &arena,
                                &document, err);
    if (status == CDZ_OK && request->json) status = cdz_chain_read(req, request, &document, err);
    cdz_prepare_input in = {
        .model = request->model->run,
        .assistant = request->assistant ? request->assistant->run : NULL,
        .assistant_generation = request->assistant ? &request->assistant->generation : NULL,
        .pipeline = request->pipeline ? request->pipeline : rt->hf,
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
    if (status == CDZ_OK) status = cdz_prepare_job(&in, job, &req->record, err);
    cdz_arena_free(&arena);
    return status;
}

/* A request of its own, with everything it needs kept alive. */
static cdz_entry_request *new_request(cdz_runtime *rt, const cdz_request *request)
{
    cdz_entry_request *req = calloc(1, sizeof *req);
    if (!req) return NULL;
    req->runtime = rt;
    req->poll = request->poll;
    req->keep_cache = request->keep_cache;
    req->chain.model = request->model;
    cdz_model_retain(request->model);
    req->on_event = request->on_event;
    req->user = request->user;
    req->model = request->model->run;
    cdz_run_model_retain(req->model);
    if (request->assistant) {
        req->assistant = request->assistant->run;
        cdz_run_model_retain(req->assistant);
    }
    req->pipeline = request->pipeline ? request->pipeline : rt->hf;
    cdz_pipeline_retain(req->pipeline);
    return req;
}

static cdz_status check_request(const cdz_request *request, cdz_error *err)
{
    if (request->size != sizeof *request)
        return cdz_err(err, CDZ_E_USAGE,
                       "cdz_request.size is %u, expected %zu: set it to sizeof(cdz_request)",
                       request->size, sizeof *request);
    if (!request->model) return cdz_err(err, CDZ_E_USAGE, "cdz_request.model is NULL");
    int given = (request->prompt != NULL) + (request->ids != NULL) + (request->json != NULL);
    if (given > 1)
        return cdz_err(err, CDZ_E_USAGE, "cdz_request has more than one of prompt, ids and json");
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

/* Hands a prepared job to the engine, which owns it from then on; freed on failure. */
static cdz_status launch(cdz_entry_request *req, cdz_job *job, uint64_t *engine_id, cdz_error *err)
{
    const cdz_status status = make_streams(req, job, err);
    if (status != CDZ_OK) {
        cdz_job_free(job);
        return status;
    }
    job->on_tokens = on_tokens;
    job->on_done = on_done;
    job->user = req;
    req->job = job;
    return cdz_engine_submit(req->runtime->engine, job, engine_id, err);
}

/* The generation of one token that a prompt waits for. The job is freed on failure. */
static cdz_status heal(cdz_entry_request *req, cdz_job *job, uint64_t *engine_id, cdz_error *err)
{
    cdz_job *one = NULL;
    const cdz_prepare_input in = {.model = req->model,
                                  .pipeline = req->runtime->hf,
                                  .model_generation = &req->chain.model->generation,
                                  .deadline_s = job->deadline_s};
    cdz_status status = cdz_heal_prepare(&in, job, req->n_healed, &one, err);
    if (status != CDZ_OK) {
        cdz_job_free(job);
        return status;
    }
    req->waiting = job;
    req->job = one;
    one->on_done = on_done;
    one->user = req;
    status = cdz_engine_submit(req->runtime->engine, one, engine_id, err);
    if (status == CDZ_OK) return CDZ_OK;
    req->waiting = NULL;
    cdz_job_free(job);
    return status;
}

/* Prompts are healed first, one after the other. */
static cdz_status begin(cdz_entry_request *req, cdz_job *job, uint64_t *engine_id, cdz_error *err)
{
    if (req->n_healed < job->n_heals) return heal(req, job, engine_id, err);
    return launch(req, job, engine_id, err);
}

cdz_status cdz_submit(cdz_runtime *rt, const cdz_request *request, uint64_t *id, cdz_error *err)
{
    CDZ_TRY(check_request(request, err));
    cdz_entry_request *req = new_request(rt, request);
    if (!req) return cdz_err(err, CDZ_E_NOMEM, "out of memory for the request");
    cdz_job *job = NULL;
    cdz_status status = prepare(rt, request, req, &job, err);
    if (status != CDZ_OK) {
        free_request(req);
        return status;
    }
    pthread_mutex_lock(&rt->lock);
    uint64_t own_id = req->id = rt->next_id++;
    req->next = rt->requests;
    rt->requests = req;
    pthread_mutex_unlock(&rt->lock);

    uint64_t engine_id;
    status = begin(req, job, &engine_id, err);
    pthread_mutex_lock(&rt->lock);
    bool cancel = false;
    if (status != CDZ_OK) {
        free_request(take_request(rt, own_id));
    } else if ((req = find_request(rt, own_id)) != NULL) { /* else it is done and already taken */
        req->engine_id = engine_id;
        req->engine_knows = true;
        cancel = req->cancel_wanted;
    }
    pthread_mutex_unlock(&rt->lock);
    if (cancel) cdz_engine_cancel(rt->engine, engine_id, NULL);
    if (status == CDZ_OK) *id = own_id;
    return status;
}

/* --- watching, waiting, ending -------------------------------------------------------------------------- */

static struct timespec after(double seconds)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    double whole = (double)(time_t)seconds;
    at.tv_sec += (time_t)whole;
    at.tv_nsec += (long)((seconds - whole) * 1e9);
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

cdz_status cdz_poll(cdz_runtime *rt, double timeout_s, cdz_event *out, cdz_error *err)
{
    struct timespec until = after(timeout_s > 0 ? timeout_s : 0);
    pthread_mutex_lock(&rt->lock);
    free_event(rt->polled);
    rt->polled = NULL;
    while (!rt->events && timeout_s != 0) {
        if (timeout_s < 0)
            pthread_cond_wait(&rt->changed, &rt->lock);
        else if (pthread_cond_timedwait(&rt->changed, &rt->lock, &until) == ETIMEDOUT)
            break;
    }
    cdz_queued_event *queued = rt->events;
    if (queued) {
        rt->events = queued->next;
        if (!rt->events) rt->events_end = &rt->events;
        rt->polled = queued;
        *out = queued->event;
    }
    pthread_mutex_unlock(&rt->lock);
    return queued ? CDZ_OK : cdz_err(err, CDZ_E_NOT_FOUND, "no event arrived in time");
}

cdz_status cdz_wait(cdz_runtime *rt, uint64_t id, cdz_result **out, cdz_error *err)
{
    pthread_mutex_lock(&rt->lock);
    cdz_entry_request *req = find_request(rt, id);
    if (!req || req->waited) {
        pthread_mutex_unlock(&rt->lock);
        return cdz_err(err, CDZ_E_NOT_FOUND, "no request %llu to wait for", (unsigned long long)id);
    }
    req->waited = true;
    while (!req->done) pthread_cond_wait(&rt->changed, &rt->lock);
    take_request(rt, id);
    pthread_mutex_unlock(&rt->lock);

    cdz_result *result = req->result;
    req->result = NULL;
    free_request(req);
    if (!result) return cdz_err(err, CDZ_E_NOMEM, "out of memory for the result");
    *out = result;
    const cdz_error *why = &result->error;
    return why->code == CDZ_OK ? CDZ_OK : cdz_err(err, why->code, "%s", why->text);
}

cdz_status cdz_cancel(cdz_runtime *rt, uint64_t id, cdz_error *err)
{
    pthread_mutex_lock(&rt->lock);
    cdz_entry_request *req = find_request(rt, id);
    bool known = req && !req->done, now = known && req->engine_knows;
    uint64_t engine_id = now ? req->engine_id : 0;
    if (known) req->cancel_wanted = true;
    pthread_mutex_unlock(&rt->lock);
    if (!known)
        return cdz_err(err, CDZ_E_NOT_FOUND, "no running request %llu", (unsigned long long)id);
    if (now) cdz_engine_cancel(rt->engine, engine_id, NULL); /* it may have ended meanwhile: fine */
    return CDZ_OK;
}

cdz_status cdz_evict(cdz_runtime *rt, uint64_t id, cdz_error *err)
{
    pthread_mutex_lock(&rt->lock);
    cdz_entry_request *req = find_request(rt, id);
    bool ended = req && req->done && !req->waited;
    if (ended) take_request(rt, id);
    pthread_mutex_unlock(&rt->lock);
    if (!ended)
        return cdz_err(err, CDZ_E_NOT_FOUND, "no ended request %llu that nobody waits for",
                       (unsigned long long)id);
    free_request(req);
    return CDZ_OK;
}

cdz_status cdz_generate(cdz_runtime *rt, const cdz_request *request, cdz_result **out,
                        cdz_error *err)
{
    uint64_t id;
    CDZ_TRY(cdz_submit(rt, request, &id, err));
    return cdz_wait(rt, id, out, err);
}

void cdz_close(cdz_runtime *rt)
{
    if (!rt) return;
    cdz_engine_free(rt->engine); /* every request ends here, on_done included */
    while (rt->requests) free_request(take_request(rt, rt->requests->id));
    while (rt->events) {
        cdz_queued_event *next = rt->events->next;
        free_event(rt->events);
        rt->events = next;
    }
    free_event(rt->polled);
    if (rt->hf) cdz_pipeline_release(rt->hf);
    cdz_registry_free(rt->registry);
    pthread_cond_destroy(&rt->changed);
    pthread_mutex_destroy(&rt->lock);
    if (rt->guards_files) cdz_guard_end();
    free(rt);
}
