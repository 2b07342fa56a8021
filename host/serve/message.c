/* message.c - what a row of a chat says: its text in pieces goes through host/template/reply.h, and becomes deltas of a stream, a
 * message, or items of a response. */
#include "serve/message.h"

#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"

/* --- ids ---------------------------------------------------------------------------------------------------------------- */

void cdz_message_id(const cdz_http_exchange *e, const char *kind, size_t a, size_t b, cdz_buf *out)
{
    uint8_t hash[CDZ_SHA256_BYTES];
    cdz_buf text = {0};
    cdz_buf_printf(&text, "%s %a %s %zu %zu", e->id, e->arrived, kind, a, b);
    out->failed |= text.failed;
    cdz_sha256(text.data ? text.data : "", text.len, hash);
    cdz_buf_free(&text);
    cdz_buf_printf(out, "%s_", kind);
    for (size_t i = 0; i < 12; i++) cdz_buf_printf(out, "%02x", hash[i]);
}

/* --- deltas of a stream ---------------------------------------------------------------------------------------------------- */

/* An event for each choice that the row stands for; the first takes ids and log-probabilities along. */
static void emit(cdz_message_row *c, const cdz_choice *piece)
{
    cdz_generation_run *run = c->run;
    cdz_buf odds = {0};
    if (c->odds.len) cdz_buf_printf(&odds, "{\"content\":[%s],\"refusal\":null}", c->odds.data);
    c->failed |= odds.failed;
    for (uint32_t k = 0; k < run->copies; k++) {
        cdz_choice choice = *piece;
        choice.index = run->prompt * run->exchange->ask.n + c->row + k;
        choice.ids = c->ids;
        choice.n_ids = c->n_ids;
        choice.logprobs = odds.data;
        cdz_serve_answer_event(run->exchange, &choice);
    }
    c->ids = NULL;
    c->n_ids = 0;
    cdz_buf_clear(&c->odds);
    cdz_buf_free(&odds);
    cdz_serve_exchange_wake(run->exchange);
}

static void emit_call(cdz_message_row *c, const char *name, const char *arguments)
{
    cdz_buf first = {0}, rest = {0};
    cdz_buf_printf(&first, "[{\"index\":%u,\"id\":\"", c->n_calls);
    cdz_message_id(c->run->exchange, "call", c->run->prompt + c->row, c->n_calls, &first);
    cdz_buf_puts(&first, "\",\"type\":\"function\",\"function\":{\"name\":");
    cdz_json_write_string(&first, name, strlen(name));
    cdz_buf_puts(&first, ",\"arguments\":\"\"}}]");
    cdz_buf_printf(&rest, "[{\"index\":%u,\"function\":{\"arguments\":", c->n_calls);
    cdz_json_write_string(&rest, arguments, strlen(arguments));
    cdz_buf_puts(&rest, "}}]");
    c->failed |= first.failed || rest.failed;
    if (!c->failed) {
        emit(c, &(cdz_choice){.calls = first.data});
        emit(c, &(cdz_choice){.calls = rest.data});
    }
    cdz_buf_free(&first);
    cdz_buf_free(&rest);
}

/* --- what the reply is made of ------------------------------------------------------------------------------------------------ */

static void on_text(void *user, const char *text, size_t len)
{
    cdz_message_row *c = user;
    const cdz_http_exchange *e = c->run->exchange;
    if (e->ask.respond)
        cdz_respond_piece(c, CDZ_ITEM_MESSAGE, text, len);
    else if (e->streaming)
        emit(c, &(cdz_choice){.text = text, .len = len});
    else
        cdz_buf_add(&c->text, text, len);
}

/* The tokens that wrote the next bytes of the reply. */
static void count_reasoning(cdz_message_row *c, size_t len)
{
    const cdz_generation_run *run = c->run;
    if (!run->trails) return;
    const size_t n =
        cdz_trail_count(&run->trails[c->row], &c->thought, c->reply.taken, c->reply.taken + len);
    run->exchange->reasoning_tokens += (uint64_t)n * run->copies;
}

static void on_reasoning(void *user, const char *text, size_t len)
{
    cdz_message_row *c = user;
    const cdz_http_exchange *e = c->run->exchange;
    count_reasoning(c, len);
    if (e->ask.respond)
        cdz_respond_piece(c, CDZ_ITEM_REASONING, text, len);
    else if (e->streaming)
        emit(c, &(cdz_choice){.reasoning = text, .reasoning_len = len});
    else
        cdz_buf_add(&c->reasoning, text, len);
}

static void put_call(cdz_message_row *c, const char *name, const char *arguments)
{
    cdz_buf *out = &c->calls;
    cdz_buf_puts(out, c->n_calls ? ",{\"id\":\"" : "[{\"id\":\"");
    cdz_message_id(c->run->exchange, "call", c->run->prompt + c->row, c->n_calls, out);
    cdz_buf_puts(out, "\",\"type\":\"function\",\"function\":{\"name\":");
    cdz_json_write_string(out, name, strlen(name));
    cdz_buf_puts(out, ",\"arguments\":");
    cdz_json_write_string(out, arguments, strlen(arguments));
    cdz_buf_puts(out, "}}");
}

static void on_call(void *user, const char *name, const char *arguments)
{
    cdz_message_row *c = user;
    const cdz_http_exchange *e = c->run->exchange;
    if (e->ask.one_call && c->n_calls) return;
    if (e->ask.respond)
        cdz_respond_call(c, name, arguments);
    else if (e->streaming)
        emit_call(c, name, arguments);
    else
        put_call(c, name, arguments);
    c->n_calls++;
}

/* --- rows ------------------------------------------------------------------------------------------------------------------ */

bool cdz_message_open(cdz_generation_run *run)
{
    const cdz_asking *ask = &run->exchange->ask;
    run->chats = calloc(run->rows, sizeof *run->chats);
    for (uint32_t i = 0; run->chats && i < run->rows; i++) {
        cdz_message_row *c = &run->chats[i];
        c->run = run;
        c->row = i;
        c->reply = (cdz_reply){.form = ask->form,
                               .tools = ask->tools,
                               .sink = {on_text, on_reasoning, on_call, c},
                               .place = ask->thinking ? CDZ_REPLY_THINKING : CDZ_REPLY_START,
                               .trim = ask->thinking};
    }
    return run->chats != NULL;
}

void cdz_message_close(cdz_generation_run *run)
{
    for (uint32_t i = 0; run->chats && i < run->rows; i++) {
        cdz_message_row *c = &run->chats[i];
        cdz_reply_free(&c->reply);
        cdz_buf_free(&c->text);
        cdz_buf_free(&c->odds);
        cdz_buf_free(&c->reasoning);
        cdz_buf_free(&c->calls);
        cdz_buf_free(&c->items);
        cdz_buf_free(&c->item_id);
    }
    free(run->chats);
    run->chats = NULL;
}

/* What an event does not take waits for the next. */
static void add_odds(cdz_message_row *c, const char *entries, size_t len)
{
    if (!len) return;
    cdz_buf_puts(&c->odds, c->odds.len ? "," : "");
    cdz_buf_add(&c->odds, entries, len);
    c->failed |= c->odds.failed;
}

void cdz_message_say(cdz_message_row *c, const char *text, size_t len, const int32_t *ids,
                     size_t n_ids, const cdz_buf *odds)
{
    cdz_assert_holds(&c->run->exchange->lock);
    c->ids = ids;
    c->n_ids = n_ids;
    add_odds(c, odds->data, odds->len);
    cdz_reply_feed(&c->reply, text, len);
    if (c->ids && n_ids) emit(c, &(cdz_choice){0});
    c->ids = NULL;
}

bool cdz_message_end(cdz_message_row *c, const char *rest, size_t len, cdz_choice *choice)
{
    const cdz_http_exchange *e = c->run->exchange;
    if (e->streaming && choice->logprobs) add_odds(c, choice->logprobs, strlen(choice->logprobs));
    cdz_reply_feed(&c->reply, rest, len);
    cdz_reply_end(&c->reply);
    if (c->odds.len) emit(c, &(cdz_choice){0});
    if (e->ask.respond) cdz_respond_close(c, strcmp(choice->finish, "length") == 0);
    if (c->n_calls && !e->ask.named_call && strcmp(choice->finish, "stop") == 0)
        choice->finish = "tool_calls";
    if (c->n_calls && !e->ask.respond && !e->streaming) cdz_buf_putc(&c->calls, ']');
    choice->text = c->text.data ? c->text.data : "";
    choice->len = c->text.len;
    choice->reasoning = c->reasoning.data;
    choice->reasoning_len = c->reasoning.len;
    choice->calls = c->calls.data;
    if (e->streaming) choice->logprobs = NULL;
    return !c->failed && !c->reply.failed && !c->text.failed && !c->reasoning.failed &&
           !c->calls.failed && !c->items.failed && !c->item_id.failed;
}
