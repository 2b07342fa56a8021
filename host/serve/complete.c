/* complete.c - a completion or a chat: from its body to requests of the engine, and from their ends to the answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "serve/message.h"

/* --- while the engine runs ------------------------------------------------------------------------------------- */

static bool tells_text(const cdz_http_exchange *e)
{
    return e->streaming && !e->gone;
}

/* Reasoning is counted in tokens. */
static bool may_think(const cdz_asking *ask)
{
    return ask->chat && (ask->form.thinks || ask->thinking);
}

/* What the decode loop did not keep is scored once the text is whole, and the text waits for it. */
static bool waits_for_odds(const cdz_generation_run *run, uint32_t row)
{
    return run->exchange->ask.logprobs && run->trails[row].unknown;
}

/* More rows are made than are told. */
static bool chooses(const cdz_asking *ask)
{
    return ask->tried > ask->n;
}

/* Bytes that may leave: with log-probabilities no part of a token. */
static size_t may_tell(const cdz_generation_run *run, uint32_t row)
{
    const size_t all = run->texts[row].let_out;
    return run->exchange->ask.logprobs ? cdz_trail_end(&run->trails[row], all) : all;
}

/* Log-probabilities of the tokens that are whole in what may leave. */
static void put_odds(const cdz_generation_run *run, uint32_t row, cdz_buf *out)
{
    const cdz_http_exchange *e = run->exchange;
    cdz_trail *trail = &run->trails[row];
    if (!e->ask.logprobs || e->ask.respond) return;
    const size_t to = cdz_trail_whole(trail, run->texts[row].let_out);
    if (to > trail->told) cdz_serve_next_logprobs(e, trail, to, out);
}

/* Behind a prompt that is echoed: the blank that a text of its own does not begin with. */
static bool needs_blank(const cdz_generation_run *run, uint32_t row)
{
    return run->exchange->ask.echo && run->trails && run->trails[row].blank;
}

/* Of a row, what no event has yet. */
static void tell_row(cdz_generation_run *run, uint32_t row, const int32_t *ids, uint32_t n_ids)
{
    cdz_http_exchange *e = run->exchange;
    cdz_serve_row_text *text = &run->texts[row];
    const size_t until = may_tell(run, row), n = until > text->told ? until - text->told : 0;
    const char *piece = text->text.data ? text->text.data + text->told : "";
    if ((!n && !(ids && n_ids)) || waits_for_odds(run, row)) return;
    cdz_buf odds = {0}, said = {0};
    cdz_buf_puts(&said, n && !text->told && needs_blank(run, row) ? " " : "");
    cdz_buf_add(&said, piece, n);
    text->told += n;
    if (ids) text->told_ids += n_ids;
    put_odds(run, row, &odds);
    e->out.failed |= odds.failed || said.failed;
    if (e->ask.chat) cdz_message_say(&run->chats[row], piece, n, ids, n_ids, &odds);
    for (uint32_t k = 0; !e->ask.chat && k < run->copies; k++) {
        const cdz_choice choice = {
            .index = run->prompt * e->ask.n + row + k,
            .logprobs = odds.data,
            .text = said.data ? said.data : "",
            .len = said.len,
            .ids = ids,
            .n_ids = n_ids,
        };
        cdz_serve_answer_event(e, &choice);
    }
    cdz_buf_free(&odds);
    cdz_buf_free(&said);
    cdz_serve_exchange_wake(e);
}

static void tell_piece(cdz_generation_run *run, const cdz_event *event)
{
    cdz_http_exchange *e = run->exchange;
    size_t len = e->ask.special && !e->ask.all_text
                     ? cdz_model_answer_shown(e->served->model, &e->ask.form, event)
                     : strlen(event->text);
    if (len != SIZE_MAX) len = cdz_serve_without_end(e, event->ids, event->n_ids, event->text, len);
    if (len == SIZE_MAX) {
        run->texts[event->row].text.failed = true;
        return;
    }
    cdz_serve_row_text_add(&run->texts[event->row], &e->ask.stops, event->text, len);
    if (e->ask.logprobs || e->ask.echo || may_think(&e->ask) || chooses(&e->ask))
        cdz_trail_add(&run->trails[event->row], e->served->model, e->ask.special, event,
                      run->texts[event->row].text.data);
    if (!tells_text(e)) return;
    tell_row(run, event->row, e->ask.return_ids ? event->ids : NULL, event->n_ids);
}

/* Whether the text of events is of use before the end. */
static bool follows(const cdz_http_exchange *e)
{
    return tells_text(e) || e->ask.special || e->ask.logprobs || e->ask.echo ||
           may_think(&e->ask) || chooses(&e->ask);
}

static void note_times(cdz_http_exchange *e, uint32_t n_ids)
{
    cdz_metrics *m = &e->serve->metrics;
    const double now = cdz_now_s();
    if (!n_ids) return;
    if (e->first_token <= 0) {
        e->first_token = now;
        cdz_metrics_sample(m, CDZ_METRIC_FIRST, now - e->arrived);
    } else if (e->last_token > 0) {
        cdz_metrics_sample(m, CDZ_METRIC_BETWEEN, now - e->last_token);
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
    bool last = false, paced = false;
    cdz_mutex_lock(&e->lock);
    if (event->kind == CDZ_EVENT_TOKENS) {
        note_times(e, event->n_ids);
        e->heard = true;
        e->new_tokens += (uint64_t)event->n_ids * run->copies;
        if (follows(e) && event->row < run->rows) tell_piece(run, event);
        cdz_serve_exchange_open(e);
    } else {
        run->done = true;
        last = --e->n_open == 0;
    }
    paced = !last && cdz_serve_exchange_weigh(e);
    cdz_mutex_unlock(&e->lock);
    if (last) cdz_serve_push(e, finish);
    if (paced) cdz_serve_exchange_pace(e);
}

/* --- submitting -------------------------------------------------------------------------------------------------- */

/* Nobody learns from the time of an answer what holders of other keys have asked. */
void cdz_complete_salt(const cdz_http_exchange *e, const char *cache_salt, cdz_buf *out)
{
    cdz_buf_printf(out, "%s:%s", e->key, cache_salt ? cache_salt : "");
}

/* The key's number, to a scheduler; 0: without keys. */
static uint64_t tenant_of(const cdz_http_exchange *e)
{
    char digits[17];
    if (!e->key[0]) return 0;
    snprintf(digits, sizeof digits, "%.16s", e->key);
    const uint64_t number = strtoull(digits, NULL, 16);
    return number ? number : 1;
}

static cdz_status submit_rows(cdz_http_exchange *e, cdz_generation_run *run, uint32_t rows,
                              cdz_error *err)
{
    cdz_buf json = {0}, salt = {0};
    uint64_t id = 0;
    free(run->texts);
    free(run->trails);
    run->texts = calloc(rows, sizeof *run->texts);
    run->trails = calloc(rows, sizeof *run->trails);
    for (uint32_t i = 0; run->trails && i < rows; i++) {
        run->trails[i].top = e->ask.top;
        run->trails[i].characters = e->ask.prompts[run->prompt].characters;
    }
    cdz_message_close(run);
    run->rows = rows;
    run->copies = rows > 1 ? 1 : e->ask.n;
    const bool room = run->texts && run->trails && (!e->ask.chat || cdz_message_open(run));
    cdz_ask_document(&e->ask, run->prompt, rows, &json);
    cdz_complete_salt(e, e->ask.cache_salt, &salt);
    const cdz_request request = {.size = sizeof request,
                                 .model = e->served->model,
                                 .pipeline = e->ask.pipeline,
                                 .json = json.data,
                                 .cache_salt = salt.data,
                                 .priority = e->ask.priority,
                                 .tenant = tenant_of(e),
                                 .stream = e->ask.special ? CDZ_STREAM_SPECIAL : 0,
                                 .stream_logprobs = e->ask.logprobs || chooses(&e->ask),
                                 .stream_leaders = e->ask.top,
                                 .request_id = e->request_id,
                                 .traceparent = e->traceparent[0] ? e->traceparent : NULL,
                                 .on_tool = e->serve->options.on_tool,
                                 .tool_user = e->serve->options.tool_user,
                                 .model_names = e->serve->options.other_names,
                                 .models = e->serve->options.others,
                                 .n_models = e->serve->options.n_others,
                                 .on_event = on_event,
                                 .user = run};
    const cdz_status status = json.failed || salt.failed || !room
                                  ? cdz_err_memory(err, "the request")
                                  : cdz_submit(e->serve->options.runtime, &request, &id, err);
    cdz_buf_free(&json);
    cdz_buf_free(&salt);
    cdz_mutex_lock(&e->lock);
    run->id = id;
    const bool gone = e->gone && id && !run->done, paused = e->paused;
    cdz_mutex_unlock(&e->lock);
    if (gone) cdz_cancel(e->serve->options.runtime, id, NULL);
    if (paused) cdz_serve_exchange_pace(e);
    return status;
}

/* n rows of a prompt. A search for the one best row has no others: it is made once and told n times. */
static bool submit(cdz_http_exchange *e, cdz_generation_run *run)
{
    cdz_error err = {0};
    cdz_mutex_lock(&e->lock);
    e->n_open++;
    cdz_mutex_unlock(&e->lock);
    cdz_status status = submit_rows(e, run, e->ask.tried, &err);
    if (status == CDZ_E_USAGE && e->ask.tried > 1 && strstr(err.text, "num_return_sequences"))
        status = submit_rows(e, run, 1, &err);
    if (status == CDZ_OK) return true;
    cdz_mutex_lock(&e->lock);
    run->done = true;
    e->n_open--;
    cdz_mutex_unlock(&e->lock);
    return cdz_serve_fault_of(&e->fault, cdz_ask_blamed(&e->ask, &err), &err);
}

/* What is found wrong at submission comes from "cadenza", where there is one: the other fields have been checked. */
static bool blame(cdz_http_exchange *e)
{
    cdz_serve_fault *f = &e->fault;
    static const char set[] = "-s "; /* a value that was set over a pipeline's file */
    static const size_t n = sizeof set - 1;
    if (f->status != 400 || (!*f->param && !cdz_ask_field(&e->ask.body, "cadenza"))) return false;
    if (!*f->param) snprintf(f->param, sizeof f->param, "cadenza");
    if (strncmp(f->text, set, n) == 0) memmove(f->text, f->text + n, strlen(f->text + n) + 1);
    return false;
}

/* Prompts of one request are taken together or not at all: by the places that are free, and the queue, in which n rows count n. */
static bool has_room(cdz_http_exchange *e)
{
    cdz_serve *serve = e->serve;
    cdz_stats stats = {.size = sizeof stats};
    const uint64_t most = atomic_load(&serve->most_waiting), n = e->ask.n_prompts;
    if (!most || n < 2) return true; /* one has been let in by the door */
    cdz_get_stats(serve->options.runtime, &stats);
    const uint64_t open = (uint64_t)stats.n_running - stats.n_paused + stats.n_pending,
                   places = serve->options.most_running;
    const uint64_t free = !stats.n_waiting && open < places ? places - open : 0;
    const uint64_t waits = n > free ? (n - free) * e->ask.tried : 0;
    if (!waits || stats.n_waiting_rows + waits <= most) return true;
    cdz_metrics_refuse(&serve->metrics, CDZ_REFUSED_QUEUE);
    return cdz_serve_fault_set(&e->fault, 429, NULL, "queue_full",
                               "%llu prompts: %llu places are free, and %u of %llu are taken in the "
                               "queue; try again",
                               (unsigned long long)n, (unsigned long long)free,
                               (unsigned)stats.n_waiting_rows, (unsigned long long)most);
}

static bool submit_all(cdz_http_exchange *e)
{
    if (!has_room(e)) return false;
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
        if (!submit(e, &runs[i])) return blame(e);
    return true;
}

static void put_prompt_text(const cdz_http_exchange *e, size_t prompt, cdz_buf *out)
{
    const cdz_ask_prompt *p = &e->ask.prompts[prompt];
    char *text = NULL;
    if (p->text) {
        cdz_buf_puts(out, p->text);
    } else if (cdz_detokenize(e->served->model, p->ids, p->n, !e->ask.all_text, &text, NULL) ==
               CDZ_OK) {
        cdz_buf_puts(out, text);
        cdz_free(text);
    } else {
        out->failed = true;
    }
}

static void free_odds(const cdz_http_exchange *e, cdz_buf *odds)
{
    for (size_t p = 0; odds && p < e->ask.n_prompts; p++) cdz_buf_free(&odds[p]);
    free(odds);
}

/* Log-probabilities of the prompts that a stream echoes; NULL: there are none. */
static bool score_echoes(cdz_http_exchange *e, cdz_buf **out)
{
    if (!e->ask.stream || !e->ask.echo || !e->ask.logprobs) return true;
    *out = calloc(e->ask.n_prompts, sizeof **out);
    bool good = *out != NULL;
    for (size_t p = 0; good && p < e->ask.n_prompts; p++)
        good = cdz_serve_echo_logprobs(e, p, &(*out)[p]);
    if (!good && !e->fault.status)
        cdz_serve_fault_set(&e->fault, 500, NULL, NULL, "out of memory for the request");
    return good;
}

/* What a stream says before the first token: roles of a chat, prompts where they are echoed, with their log-probabilities. */
static void begin_stream(cdz_http_exchange *e, const cdz_buf *odds)
{
    if (e->ask.respond) {
        cdz_respond_begin(e);
        return;
    }
    for (size_t p = 0; p < e->ask.n_prompts; p++)
        for (size_t k = 0; k < e->ask.n; k++) {
            cdz_buf text = {0};
            if (e->ask.echo) put_prompt_text(e, p, &text);
            const cdz_choice choice = {.index = p * e->ask.n + k,
                                       .text = text.data ? text.data : "",
                                       .len = text.len,
                                       .logprobs = odds ? odds[p].data : NULL,
                                       .prompt = e->ask.return_ids ? &e->ask.prompts[p] : NULL,
                                       .role = e->ask.chat};
            if (e->ask.chat || text.len || choice.prompt) cdz_serve_answer_event(e, &choice);
            e->out.failed |= text.failed;
            cdz_buf_free(&text);
        }
}

/* Of the first blocks of the first prompt, and of who asks: those that have the same one find each other's in the cache. */
static void name_prefix(cdz_http_exchange *e)
{
    enum { MOST = 4 * CDZ_KV_BLOCK_POSITIONS };
    uint8_t hash[CDZ_SHA256_BYTES];
    const cdz_ask_prompt *p = &e->ask.prompts[0];
    const size_t whole = p->n / CDZ_KV_BLOCK_POSITIONS * CDZ_KV_BLOCK_POSITIONS;
    const size_t n = p->n >= MOST ? MOST : whole ? whole : p->n;
    cdz_buf text = {0};
    cdz_complete_salt(e, e->ask.cache_salt, &text);
    cdz_buf_putc(&text, '\0');
    cdz_buf_add(&text, (const char *)p->ids, n * sizeof *p->ids);
    if (!text.failed) {
        cdz_sha256(text.data, text.len, hash);
        for (size_t i = 0; i < sizeof e->prefix / 2; i++)
            snprintf(e->prefix + 2 * i, 3, "%02x", hash[i]);
    }
    cdz_buf_free(&text);
}

/* The body is good: its answer has a name, and its prompts count. */
static void begin_answer(cdz_http_exchange *e, const char *kind)
{
    if (e->ask.id) snprintf(e->id, sizeof e->id, "%s%s", kind, e->ask.id);
    if (e->ask.n_prompts) name_prefix(e);
    for (size_t i = 0; i < e->ask.n_prompts; i++) e->prompt_tokens += e->ask.prompts[i].n;
    atomic_fetch_add(&e->serve->metrics.prompt_tokens, e->prompt_tokens);
    cdz_metrics_asked(&e->serve->metrics, e->ask.strategy, e->ask.pipeline_name);
}

/* A worker's: reads the body and hands it to the engine. */
void cdz_complete(cdz_http_exchange *e)
{
    const cdz_ask_kind kind = strcmp(e->route->path, "/v1/completions") == 0 ? CDZ_ASK_COMPLETION
                              : strcmp(e->route->path, "/v1/responses") == 0 ? CDZ_ASK_RESPONSE
                                                                             : CDZ_ASK_CHAT;
    static const char *const names[] = {"cmpl-", "chatcmpl-", "resp_"};
    snprintf(e->id, sizeof e->id, "%s%s", names[kind], e->request_id);
    e->asked = true;
    bool good = cdz_ask_read(&e->ask, &e->served->world, kind, e->body.data, e->body.len, &e->fault);
    cdz_buf *odds = NULL;
    good = good && score_echoes(e, &odds);
    cdz_mutex_lock(&e->lock);
    cdz_buf_free(&e->body);
    if (good) begin_answer(e, names[kind]);
    e->n_open = 1; /* this worker */
    if (good && e->ask.stream) {
        e->streaming = true;
        begin_stream(e, odds);
    }
    cdz_mutex_unlock(&e->lock);
    free_odds(e, odds);
    good = good && submit_all(e);
    if (!good) cdz_serve_exchange_cancel(e);
    cdz_mutex_lock(&e->lock);
    if (!good) e->broken = true, e->streaming = false;
    if (good && e->streaming) {
        e->status = 200;
        e->content_type = "text/event-stream";
        e->spoke = cdz_now_s();
        cdz_serve_exchange_open(e);
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

/* How many rows of a run are choices. */
static uint32_t n_told(const cdz_generation_run *run)
{
    const uint32_t n = run->exchange->ask.n;
    return run->rows < n ? run->rows : n;
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

/* Of a stream, those that no event has: its first one has the prompt's. */
static void put_ids_of(const cdz_http_exchange *e, const cdz_generation_run *run, uint32_t row,
                       const int32_t *ids, uint32_t n, cdz_choice *out)
{
    const uint32_t told = e->streaming && run->texts ? run->texts[row].told_ids : 0;
    if (e->streaming && n <= told) return;
    if (!e->streaming) out->prompt = &e->ask.prompts[run->prompt];
    out->ids = ids ? ids + told : e->ask.prompts[run->prompt].ids;
    out->n_ids = n - told;
}

/* Text, reason and log-probabilities of a row that has ended; result NULL: nothing was to be generated. */
static bool end_row(cdz_http_exchange *e, const cdz_generation_run *run, uint32_t row, ending *end)
{
    uint32_t n_ids = 0;
    size_t which = e->ask.stops.n;
    const char *text = run->result ? cdz_result_text(run->result, row) : "";
    if (e->ask.special && run->texts)
        text = run->texts[row].text.data ? run->texts[row].text.data : "";
    const char *reason = run->result ? cdz_result_finish_reason(run->result, row) : "length";
    const int32_t *ids = run->result ? cdz_result_ids(run->result, row, &n_ids) : NULL;
    const size_t len =
        e->ask.special ? strlen(text) : cdz_serve_without_end(e, ids, n_ids, text, strlen(text));
    const int32_t stop_id = cdz_serve_stop_id(e, ids, n_ids);
    const size_t cut = cdz_stop_find(&e->ask.stops, text, len, 0, &which);
    const bool stopped = which < e->ask.stops.n;
    if (e->ask.echo) put_prompt_text(e, run->prompt, &end->text);
    if (cut && needs_blank(run, row)) cdz_buf_putc(&end->text, ' ');
    cdz_buf_add(&end->text, text, cut);
    if (stopped)
        cdz_json_write_string(&end->reason, e->ask.stops.at[which], strlen(e->ask.stops.at[which]));
    else if (stop_id >= 0)
        cdz_buf_printf(&end->reason, "%d", (int)stop_id);
    else if (!is_known_reason(reason))
        cdz_json_write_string(&end->reason, reason, strlen(reason));
    if (e->ask.logprobs &&
        !cdz_serve_answer_logprobs(e, run, row, stopped ? cut : SIZE_MAX, &end->logprobs))
        return false;
    end->choice = (cdz_choice){.text = end->text.data ? end->text.data : "",
                               .len = end->text.len,
                               .finish = stopped ? "stop" : finish_of(reason),
                               .stop_reason = end->reason.data,
                               .logprobs = end->logprobs.data};
    if (e->ask.return_ids) put_ids_of(e, run, row, ids, n_ids, &end->choice);
    e->ended = end->choice.finish;
    if (e->ask.special && run->texts && run->texts[row].text.failed) return false;
    return !end->text.failed && !end->reason.failed && !end->logprobs.failed;
}

/* Of a stream: what the row has not said yet, and its reason. */
static void tell_end(cdz_http_exchange *e, size_t from, const ending *end)
{
    cdz_choice rest = end->choice;
    rest.text += from;
    rest.len -= from;
    cdz_serve_answer_event(e, &rest);
}

/* How much of an ending's text a stream has told. */
static size_t told_of(const cdz_http_exchange *e, const cdz_generation_run *run, uint32_t row,
                      const ending *end)
{
    const cdz_serve_row_text *said = run->texts ? &run->texts[row] : NULL;
    cdz_buf prompt = {0};
    if (!e->streaming) return 0;
    if (e->ask.echo) put_prompt_text(e, run->prompt, &prompt);
    const size_t told = said ? said->told : 0;
    const size_t from = prompt.len + told + (told && needs_blank(run, row));
    cdz_buf_free(&prompt);
    return from > end->choice.len ? end->choice.len : from;
}

/* A chat's last delta is empty. */
static bool end_chat(cdz_generation_run *run, uint32_t row, size_t *from, ending *end)
{
    if (!run->chats) return true;
    const bool good = cdz_message_end(&run->chats[row], end->choice.text + *from,
                                      end->choice.len - *from, &end->choice);
    *from = 0;
    return good;
}

static bool end_run(cdz_http_exchange *e, cdz_generation_run *run, const char *prompt_logprobs,
                    size_t *n, cdz_buf *whole)
{
    const uint32_t rows = run->rows ? n_told(run) : 1, copies = run->rows ? run->copies : e->ask.n;
    for (uint32_t place = 0; place < rows; place++) {
        ending end = {0};
        const uint32_t row = run->best ? run->best[place] : place;
        bool good = end_row(e, run, row, &end);
        cdz_mutex_lock(&e->lock);
        size_t from = good ? told_of(e, run, row, &end) : 0;
        good = good && end_chat(run, row, &from, &end);
        for (uint32_t k = 0; good && !e->ask.respond && k < copies; k++) {
            end.choice.index = run->prompt * e->ask.n + place + k;
            end.choice.prompt_logprobs = prompt_logprobs;
            if (e->streaming) {
                tell_end(e, from, &end);
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
        if (cdz_json_parse(json, strlen(json), "result", NULL, &arena, &document, NULL) != CDZ_OK) {
            out->failed = true;
        } else {
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

/* Why a request of the engine's failed: what its fields ask for may show only there. */
static void blame_run(cdz_http_exchange *e, const cdz_error *err)
{
    static const char stops[] = "stop_strings: ";
    const bool by_stops = strncmp(err->text, stops, sizeof stops - 1) == 0;
    if (err->code == CDZ_E_CANCELLED)
        cdz_serve_fault_set(&e->fault, 503, NULL, NULL, "%s",
                            atomic_load(&e->serve->ending) ? "the server is stopping" : err->text);
    else
        cdz_serve_fault_of(&e->fault, by_stops ? "stop" : cdz_ask_blamed(&e->ask, err), err);
}

static void measure_run(cdz_metrics *m, const cdz_result *result)
{
    cdz_times times = {.size = sizeof times};
    cdz_result_times(result, &times);
    cdz_metrics_sample(m, CDZ_METRIC_QUEUED, times.queued_s);
    cdz_metrics_sample(m, CDZ_METRIC_PREFILL, times.prefill_s);
    cdz_metrics_sample(m, CDZ_METRIC_DECODE, times.decode_s);
}

/* Of the rows that are told. */
static void count_tokens(cdz_http_exchange *e, const cdz_generation_run *run)
{
    const uint32_t made = run->result ? cdz_result_rows(run->result) : 0;
    for (uint32_t i = 0; i < made && i < n_told(run); i++) {
        uint32_t n = 0;
        cdz_result_ids(run->result, run->best ? run->best[i] : i, &n);
        e->new_tokens += (uint64_t)n * run->copies;
    }
}

/* Takes every result; false: a request failed, and the fault says why. */
static bool collect(cdz_http_exchange *e)
{
    bool good = true;
    e->new_tokens = 0; /* exactly, after what was told on the way */
    for (size_t i = 0; i < e->n_runs; i++) {
        cdz_generation_run *run = &e->runs[i];
        cdz_error err = {0};
        if (!run->id) continue;
        const cdz_status status = cdz_wait(e->serve->options.runtime, run->id, &run->result, &err);
        const bool ended = status == CDZ_OK || status == CDZ_E_DEADLINE;
        if (ended && n_told(run) < run->rows) good &= cdz_serve_choose_rows(e, run);
        count_tokens(e, run);
        if (run->result) e->cached_tokens += cdz_result_reused_tokens(run->result);
        if (status == CDZ_OK) measure_run(&e->serve->metrics, run->result);
        if (ended) continue;
        if (good && !e->broken) blame_run(e, &err);
        good = false;
    }
    return good;
}

static bool score_prompt(cdz_http_exchange *e, size_t prompt, cdz_buf *out)
{
    if (cdz_serve_prompt_logprobs(e, prompt, out)) return true;
    if (!e->fault.status) cdz_serve_fault_set(&e->fault, 500, NULL, NULL, "out of memory");
    return false;
}

/* prompt_logprobs: a chat's; or NULL. */
static void finish_whole(cdz_http_exchange *e, cdz_buf *choices, const char *prompt_logprobs)
{
    cdz_mutex_lock(&e->lock);
    if (e->ask.respond) {
        cdz_respond_write(e, &e->out);
    } else {
        cdz_serve_answer_head(e, false, &e->out);
        cdz_serve_answer_prompt(e, &e->out);
        cdz_buf_puts(&e->out, ",\"choices\":[");
        cdz_buf_add(&e->out, choices->data, choices->len);
        cdz_buf_puts(&e->out, "],");
        cdz_serve_answer_usage(e, &e->out);
        if (e->ask.chat && prompt_logprobs)
            cdz_buf_printf(&e->out, ",\"prompt_logprobs\":%s", prompt_logprobs);
    }
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

/* The last events of a stream of choices. */
static void end_stream(cdz_http_exchange *e, bool good)
{
    if (good && e->ask.usage) {
        cdz_buf_puts(&e->out, "data: ");
        cdz_serve_answer_head(e, true, &e->out);
        cdz_buf_puts(&e->out, ",\"choices\":[],");
        cdz_serve_answer_usage(e, &e->out);
        cdz_buf_puts(&e->out, "}\n\n");
    }
    cdz_buf_puts(&e->out, "data: ");
    if (good)
        cdz_buf_puts(&e->out, "[DONE]");
    else
        cdz_serve_fault_write(&e->fault, &e->out);
    cdz_buf_puts(&e->out, "\n\n");
}

static void finish_stream(cdz_http_exchange *e, bool good)
{
    cdz_mutex_lock(&e->lock);
    (e->ask.respond ? cdz_respond_end : end_stream)(e, good);
    e->broken |= !good;
    e->whole = e->heard = true;
    cdz_serve_exchange_open(e);
    cdz_serve_exchange_wake(e);
    cdz_mutex_unlock(&e->lock);
}

/* A stream that failed before it sent a head has a status, as any other answer. */
static void take_back_stream(cdz_http_exchange *e)
{
    cdz_mutex_lock(&e->lock);
    if (!e->ready) e->streaming = false;
    cdz_mutex_unlock(&e->lock);
}

/* How it went, and what it was. A body that was refused is no request of the engine's. */
static void measure(cdz_http_exchange *e, bool good)
{
    cdz_metrics *m = &e->serve->metrics;
    const bool gone = cdz_serve_exchange_is_gone(e), whole = good && e->ended && !gone;
    if (e->n_runs)
        cdz_metrics_end(m, gone                              ? CDZ_METRIC_ABORT
                           : !whole                          ? CDZ_METRIC_ERROR
                           : strcmp(e->ended, "length") == 0 ? CDZ_METRIC_LENGTH
                                                             : CDZ_METRIC_STOP);
    if (!whole) return;
    cdz_metrics_sample(m, CDZ_METRIC_WHOLE, cdz_now_s() - e->arrived);
    cdz_metrics_sample(m, CDZ_METRIC_PROMPT, (double)e->prompt_tokens);
    cdz_metrics_sample(m, CDZ_METRIC_NEW, (double)e->new_tokens);
    cdz_metrics_sample(m, CDZ_METRIC_N, (double)e->ask.n);
    if (e->ask.max_tokens >= 0) cdz_metrics_sample(m, CDZ_METRIC_MOST, (double)e->ask.max_tokens);
}

/* A worker's, when the last of the engine's requests has ended. */
static void finish(cdz_http_exchange *e)
{
    cdz_buf choices = {0}, odds = {0};
    size_t n = 0;
    bool good = collect(e) && !e->broken;
    for (size_t i = 0; good && !cdz_serve_exchange_is_gone(e) && i < e->n_runs; i++) {
        cdz_buf_clear(&odds);
        good = (!e->ask.prompt_logprobs || score_prompt(e, i, &odds)) &&
               end_run(e, &e->runs[i], odds.len ? odds.data : NULL, &n, &choices);
    }
    measure(e, good);
    if (!good) take_back_stream(e);
    if (e->streaming)
        finish_stream(e, good);
    else if (good)
        finish_whole(e, &choices, odds.len ? odds.data : NULL);
    else if (!e->broken) /* else it has been refused already */
        cdz_serve_exchange_refuse(e);
    cdz_buf_free(&choices);
    cdz_buf_free(&odds);
    cdz_serve_exchange_release(e);
}
