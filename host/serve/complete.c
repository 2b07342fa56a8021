/* complete.c - a completion or a chat: from its body to requests of the engine, and from their ends to the answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "serve/exchange.h"

/* --- while the engine runs ------------------------------------------------------------------------------------- */

/* With log-probabilities the text waits for them; chat pieces and completions go at once otherwise. */
static bool tells_text(const cdz_http_exchange *e)
{
    return e->streaming && !e->ask.logprobs && !e->gone;
}

/* Of a row, what no event has yet. */
static void tell_row(cdz_generation_run *run, uint32_t row, const int32_t *ids, uint32_t n_ids)
{
    cdz_http_exchange *e = run->exchange;
    cdz_serve_row_text *text = &run->texts[row];
    const size_t n = text->let_out - text->told;
    if (!n && !(ids && n_ids)) return;
    for (uint32_t k = 0; k < run->copies; k++) {
        const cdz_choice choice = {
            .index = run->prompt * e->ask.n + row + k,
            .text = text->text.data ? text->text.data + text->told : "",
            .len = n,
            .ids = ids,
            .n_ids = n_ids,
        };
        cdz_serve_answer_event(e, &choice);
    }
    text->told = text->let_out;
    cdz_serve_exchange_wake(e);
}

void cdz_complete_catch_up(cdz_http_exchange *e)
{
    cdz_assert_holds(&e->lock);
    e->behind = false;
    for (size_t i = 0; i < e->n_runs; i++)
        for (uint32_t r = 0; e->runs[i].texts && r < e->runs[i].rows; r++)
            tell_row(&e->runs[i], r, NULL, 0);
}

/* A reader who is slow gets fewer and longer events: the text waits as text. */
static void tell_piece(cdz_generation_run *run, const cdz_event *event)
{
    cdz_http_exchange *e = run->exchange;
    cdz_serve_row_text_add(&run->texts[event->row], &e->ask.stops, event->text, strlen(event->text));
    if (e->out.len - e->out_at > CDZ_EXCHANGE_HELD && !e->ask.return_ids)
        e->behind = true;
    else
        tell_row(run, event->row, e->ask.return_ids ? event->ids : NULL, event->n_ids);
}

static void note_times(cdz_http_exchange *e, uint32_t n_ids)
{
    cdz_metrics *m = &e->serve->metrics;
    const double now = cdz_now_s();
    if (!n_ids) return;
    if (e->first_token <= 0) {
        e->first_token = now;
        cdz_metrics_time(m, CDZ_METRIC_FIRST, now - e->arrived);
    } else {
        cdz_metrics_time(m, CDZ_METRIC_BETWEEN, now - e->last_token);
    }
    e->last_token = now;
    atomic_fetch_add(&m->new_tokens, n_ids);
}

static void finish(cdz_http_exchange *e);

/* [engine thread] */
static void on_event(void *user, const cdz_event *event)
{
    cdz_generation_run *run = user;
    cdz_http_exchange *e = run->exchange;
    bool last = false, unread = false;
    cdz_mutex_lock(&e->lock);
    if (event->kind == CDZ_EVENT_TOKENS) {
        note_times(e, event->n_ids);
        if (tells_text(e) && event->row < run->rows) tell_piece(run, event);
    } else {
        run->done = true;
        last = --e->n_open == 0;
    }
    unread = !last && !e->gone && e->out.len - e->out_at > CDZ_EXCHANGE_UNREAD;
    cdz_mutex_unlock(&e->lock);
    if (last) cdz_serve_push(e, finish);
    if (unread) cdz_serve_exchange_abandon(e);
}

/* --- submitting -------------------------------------------------------------------------------------------------- */

static cdz_status submit_rows(cdz_http_exchange *e, cdz_generation_run *run, uint32_t rows,
                              cdz_error *err)
{
    cdz_buf json = {0};
    uint64_t id = 0;
    free(run->texts);
    run->texts = calloc(rows, sizeof *run->texts);
    run->rows = rows;
    run->copies = e->ask.n / rows;
    cdz_ask_document(&e->ask, run->prompt, rows, &json);
    const cdz_request request = {.size = sizeof request,
                                 .model = e->serve->options.model,
                                 .pipeline = e->ask.pipeline,
                                 .json = json.data,
                                 .on_event = on_event,
                                 .user = run};
    const cdz_status status = json.failed || !run->texts
                                  ? cdz_err(err, CDZ_E_NOMEM, "out of memory for the request")
                                  : cdz_submit(e->serve->options.runtime, &request, &id, err);
    cdz_buf_free(&json);
    cdz_mutex_lock(&e->lock);
    run->id = id;
    const bool gone = e->gone && id && !run->done;
    cdz_mutex_unlock(&e->lock);
    if (gone) cdz_cancel(e->serve->options.runtime, id, NULL);
    return status;
}

/* n rows of a prompt. A search for the one best row has no others: it is made once and told n times. */
static bool submit(cdz_http_exchange *e, cdz_generation_run *run)
{
    cdz_error err = {0};
    cdz_mutex_lock(&e->lock);
    e->n_open++;
    cdz_mutex_unlock(&e->lock);
    cdz_status status = submit_rows(e, run, e->ask.n, &err);
    if (status == CDZ_E_USAGE && e->ask.n > 1 && strstr(err.text, "num_return_sequences"))
        status = submit_rows(e, run, 1, &err);
    if (status == CDZ_OK) return true;
    cdz_mutex_lock(&e->lock);
    run->done = true;
    e->n_open--;
    cdz_mutex_unlock(&e->lock);
    return cdz_serve_fault_of(&e->fault, NULL, &err);
}

static bool submit_all(cdz_http_exchange *e)
{
    cdz_generation_run *runs = calloc(e->ask.n_prompts, sizeof *runs);
    if (!runs)
        return cdz_serve_fault_set(&e->fault, 500, NULL, NULL, "out of memory for the request");
    for (size_t i = 0; i < e->ask.n_prompts; i++)
        runs[i] = (cdz_generation_run){.exchange = e, .prompt = i};
    cdz_mutex_lock(&e->lock);
    e->runs = runs;
    e->n_runs = e->ask.n_prompts;
    cdz_mutex_unlock(&e->lock);
    for (size_t i = 0; i < e->n_runs && e->ask.max_tokens != 0; i++)
        if (!submit(e, &runs[i])) return false;
    return true;
}

static void cancel_all(cdz_http_exchange *e)
{
    for (size_t i = 0; i < e->n_runs; i++)
        if (e->runs[i].id) cdz_cancel(e->serve->options.runtime, e->runs[i].id, NULL);
}

static void put_prompt_text(const cdz_http_exchange *e, size_t prompt, cdz_buf *out)
{
    const cdz_ask_prompt *p = &e->ask.prompts[prompt];
    char *text = NULL;
    if (p->text) {
        cdz_buf_puts(out, p->text);
    } else if (cdz_detokenize(e->serve->options.model, p->ids, p->n, true, &text, NULL) == CDZ_OK) {
        cdz_buf_puts(out, text);
        cdz_free(text);
    }
}

/* What a stream says before the first token: roles of a chat, prompts where they are echoed. */
static void begin_stream(cdz_http_exchange *e)
{
    for (size_t p = 0; p < e->ask.n_prompts; p++)
        for (size_t k = 0; k < e->ask.n; k++) {
            cdz_buf text = {0};
            if (e->ask.echo && !e->ask.logprobs) put_prompt_text(e, p, &text);
            const cdz_choice choice = {.index = p * e->ask.n + k,
                                       .text = text.data ? text.data : "",
                                       .len = text.len,
                                       .prompt = e->ask.return_ids ? &e->ask.prompts[p] : NULL,
                                       .role = e->ask.chat};
            if (e->ask.chat || text.len || choice.prompt) cdz_serve_answer_event(e, &choice);
            cdz_buf_free(&text);
        }
}

static void count_prompts(cdz_http_exchange *e)
{
    for (size_t i = 0; i < e->ask.n_prompts; i++) e->prompt_tokens += e->ask.prompts[i].n;
    atomic_fetch_add(&e->serve->metrics.prompt_tokens, e->prompt_tokens);
}

/* A worker's: reads the body and hands it to the engine. */
void cdz_complete(cdz_http_exchange *e)
{
    const bool chat = strcmp(e->route->path, "/v1/chat/completions") == 0;
    snprintf(e->id, sizeof e->id, "%s-%.32s", chat ? "chatcmpl" : "cmpl", e->request_id);
    e->asked = true;
    bool good = cdz_ask_read(&e->ask, &e->serve->world, chat, e->body.data ? e->body.data : "",
                             e->body.len, &e->fault);
    cdz_mutex_lock(&e->lock);
    cdz_buf_free(&e->body);
    e->n_open = 1; /* this worker */
    if (good && e->ask.stream) {
        e->streaming = true;
        begin_stream(e);
    }
    cdz_mutex_unlock(&e->lock);
    if (good) count_prompts(e);
    good = good && submit_all(e);
    if (!good) cancel_all(e);
    cdz_mutex_lock(&e->lock);
    if (!good) e->broken = true, e->streaming = false;
    if (good && e->streaming) {
        e->status = 200;
        e->content_type = "text/event-stream";
        e->ready = true;
        cdz_serve_exchange_wake(e);
    }
    const bool last = --e->n_open == 0;
    cdz_mutex_unlock(&e->lock);
    if (!good) cdz_serve_exchange_refuse(e);
    if (last) finish(e);
}

/* --- the end ----------------------------------------------------------------------------------------------------- */

static const char *finish_of(const char *reason)
{
    return strcmp(reason, "length") == 0 || strcmp(reason, "time") == 0 ? "length" : "stop";
}

static bool is_known_reason(const char *reason)
{
    static const char *const known[] = {"stop", "length", "time", "stop_string", "strategy"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], reason) == 0) return true;
    return false;
}

/* A choice in the making; its buffers are freed by whoever filled them. */
typedef struct ending {
    cdz_choice choice;
    cdz_buf text, logprobs, reason;
} ending;

static void free_ending(ending *end)
{
    cdz_buf_free(&end->text);
    cdz_buf_free(&end->logprobs);
    cdz_buf_free(&end->reason);
}

/* Text, reason and log-probabilities of a row that has ended; result NULL: nothing was to be generated. */
static bool end_row(cdz_http_exchange *e, const cdz_generation_run *run, uint32_t row, ending *end)
{
    uint32_t n_ids = 0;
    size_t which = e->ask.stops.n;
    const char *text = run->result ? cdz_result_text(run->result, row) : "";
    const char *reason = run->result ? cdz_result_finish_reason(run->result, row) : "length";
    const int32_t *ids = run->result ? cdz_result_ids(run->result, row, &n_ids) : NULL;
    const size_t cut = cdz_stop_find(&e->ask.stops, text, strlen(text), 0, &which);
    const bool stopped = which < e->ask.stops.n;
    if (e->ask.echo) put_prompt_text(e, run->prompt, &end->text);
    cdz_buf_add(&end->text, text, cut);
    if (stopped)
        cdz_json_write_string(&end->reason, e->ask.stops.at[which], strlen(e->ask.stops.at[which]));
    else if (!is_known_reason(reason))
        cdz_json_write_string(&end->reason, reason, strlen(reason));
    if (e->ask.logprobs &&
        !cdz_serve_answer_logprobs(e, run->prompt, ids, n_ids, cut, &end->logprobs, &e->fault))
        return false;
    end->choice = (cdz_choice){.text = end->text.data ? end->text.data : "",
                               .len = end->text.len,
                               .finish = stopped ? "stop" : finish_of(reason),
                               .stop_reason = end->reason.data,
                               .logprobs = end->logprobs.data};
    if (e->ask.return_ids && !e->streaming) {
        end->choice.prompt = &e->ask.prompts[run->prompt];
        end->choice.ids = ids ? ids : end->choice.prompt->ids;
        end->choice.n_ids = n_ids;
    }
    e->ended = end->choice.finish;
    return !end->text.failed && !end->reason.failed && !end->logprobs.failed;
}

/* Of a stream: what the row has not said yet, and its reason. */
static void tell_end(cdz_http_exchange *e, const cdz_generation_run *run, uint32_t row, ending *end)
{
    const cdz_serve_row_text *said = run->texts ? &run->texts[row] : NULL;
    size_t from = 0;
    if (!e->ask.logprobs) {
        cdz_buf prompt = {0};
        if (e->ask.echo) put_prompt_text(e, run->prompt, &prompt);
        from = prompt.len + (said ? said->told : 0);
        cdz_buf_free(&prompt);
        if (from > end->choice.len) from = end->choice.len;
    }
    cdz_choice rest = end->choice;
    rest.text += from;
    rest.len -= from;
    if (e->ask.chat && (rest.len || rest.logprobs)) { /* a chat's last delta is empty */
        cdz_choice piece = rest;
        piece.finish = NULL;
        cdz_serve_answer_event(e, &piece);
        rest.len = 0;
        rest.logprobs = NULL;
    }
    cdz_serve_answer_event(e, &rest);
}

static bool end_run(cdz_http_exchange *e, const cdz_generation_run *run, size_t *n, cdz_buf *whole)
{
    const uint32_t rows = run->rows ? run->rows : 1, copies = run->rows ? run->copies : e->ask.n;
    for (uint32_t row = 0; row < rows; row++) {
        ending end = {0};
        const bool good = end_row(e, run, row, &end);
        cdz_mutex_lock(&e->lock);
        for (uint32_t k = 0; good && k < copies; k++) {
            end.choice.index = run->prompt * e->ask.n + row + k;
            if (e->streaming) {
                tell_end(e, run, row, &end);
            } else {
                cdz_buf_puts(whole, (*n)++ ? "," : "");
                cdz_serve_answer_choice(e, &end.choice, false, whole);
            }
        }
        if (good && run->texts)
            run->texts[row].told = run->texts[row].let_out; /* and all the rest */
        cdz_mutex_unlock(&e->lock);
        free_ending(&end);
        if (good) continue;
        if (!e->fault.status) cdz_serve_fault_set(&e->fault, 500, NULL, NULL, "out of memory");
        return false;
    }
    return true;
}

/* What a decode loop put: the "results" of the run's own document. */
static void put_results(const cdz_http_exchange *e, cdz_buf *out)
{
    bool any = false;
    for (size_t i = 0; i < e->n_runs; i++) {
        cdz_arena arena = {0};
        cdz_json document;
        const char *json = e->runs[i].result ? cdz_result_json(e->runs[i].result) : "{}";
        if (cdz_json_parse(json, strlen(json), "result", NULL, &arena, &document, NULL) == CDZ_OK) {
            const cdz_json *results = cdz_json_get(&document, "results");
            if (results && results->len) {
                cdz_buf_puts(out, any ? "," : ",\"cadenza\":{\"results\":[");
                cdz_json_write(out, results);
                any = true;
            }
        }
        cdz_arena_free(&arena);
    }
    if (any) cdz_buf_puts(out, "]}");
}

/* Takes every result; false: a request failed, and the fault says why. */
static bool collect(cdz_http_exchange *e)
{
    bool good = true;
    for (size_t i = 0; i < e->n_runs; i++) {
        cdz_generation_run *run = &e->runs[i];
        cdz_error err = {0};
        if (!run->id) continue;
        const cdz_status status = cdz_wait(e->serve->options.runtime, run->id, &run->result, &err);
        for (uint32_t r = 0; run->result && r < cdz_result_rows(run->result); r++) {
            uint32_t n = 0;
            cdz_result_ids(run->result, r, &n);
            e->new_tokens += n;
        }
        if (status == CDZ_OK || status == CDZ_E_DEADLINE) continue;
        if (good && !e->broken)
            cdz_serve_fault_set(&e->fault, status == CDZ_E_CANCELLED ? 503 : 500, NULL, NULL, "%s",
                                err.text);
        good = false;
    }
    return good;
}

static void finish_whole(cdz_http_exchange *e, cdz_buf *choices)
{
    cdz_mutex_lock(&e->lock);
    cdz_serve_answer_head(e, false, &e->out);
    cdz_buf_puts(&e->out, ",\"choices\":[");
    cdz_buf_add(&e->out, choices->data, choices->len);
    cdz_buf_puts(&e->out, "],");
    cdz_serve_answer_usage(e, &e->out);
    put_results(e, &e->out);
    cdz_buf_putc(&e->out, '}');
    const bool good = !e->out.failed && !choices->failed;
    cdz_mutex_unlock(&e->lock);
    if (good) {
        cdz_serve_exchange_reply(e, 200, "application/json");
    } else {
        cdz_serve_fault_set(&e->fault, 500, NULL, NULL, "out of memory for the answer");
        cdz_serve_exchange_refuse(e);
    }
}

static void finish_stream(cdz_http_exchange *e, bool good)
{
    cdz_mutex_lock(&e->lock);
    if (good && e->ask.usage) {
        cdz_buf_puts(&e->out, "data: ");
        cdz_serve_answer_head(e, true, &e->out);
        cdz_buf_puts(&e->out, ",\"choices\":[],");
        cdz_serve_answer_usage(e, &e->out);
        cdz_buf_puts(&e->out, "}\n\n");
    }
    if (good) {
        cdz_buf_puts(&e->out, "data: [DONE]\n\n");
    } else {
        cdz_buf_puts(&e->out, "data: ");
        cdz_serve_fault_write(&e->fault, &e->out);
        cdz_buf_puts(&e->out, "\n\n");
    }
    e->broken |= !good;
    e->whole = true;
    cdz_serve_exchange_wake(e);
    cdz_mutex_unlock(&e->lock);
}

/* A worker's, when the last of the engine's requests has ended. */
static void finish(cdz_http_exchange *e)
{
    cdz_buf choices = {0};
    size_t n = 0;
    bool good = collect(e) && !e->broken;
    for (size_t i = 0; good && !cdz_serve_exchange_is_gone(e) && i < e->n_runs; i++)
        good = end_run(e, &e->runs[i], &n, &choices);
    if (good && e->ended && !cdz_serve_exchange_is_gone(e)) {
        cdz_metrics_end(&e->serve->metrics, e->ended);
        cdz_metrics_time(&e->serve->metrics, CDZ_METRIC_WHOLE, cdz_now_s() - e->arrived);
    }
    if (e->streaming)
        finish_stream(e, good);
    else if (good)
        finish_whole(e, &choices);
    else if (!e->broken) /* else it has been refused already */
        cdz_serve_exchange_refuse(e);
    cdz_buf_free(&choices);
    cdz_serve_exchange_release(e);
}
