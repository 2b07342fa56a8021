/* respond.c - a response in OpenAI's newer form: items, the events that tell of them, and the object that holds them all. */
#include <string.h>

#include "serve/message.h"

/* --- events --------------------------------------------------------------------------------------------------------------- */

/* False: the answer is no stream, and nobody hears of it. */
static bool begin_event(cdz_http_exchange *e, const char *type)
{
    if (!e->streaming) return false;
    cdz_buf_printf(&e->out,
                   "event: response.%s\ndata: {\"type\":\"response.%s\",\"sequence_number\":%u",
                   type, type, e->n_events++);
    return true;
}

static void end_event(cdz_http_exchange *e)
{
    cdz_buf_puts(&e->out, "}\n\n");
    cdz_serve_exchange_wake(e);
}

/* Which item an event is about. */
static bool begin_item_event(cdz_message_row *c, const char *type, bool part)
{
    cdz_http_exchange *e = c->run->exchange;
    if (!begin_event(e, type)) return false;
    cdz_buf_printf(&e->out, ",\"item_id\":\"%s\",\"output_index\":%u", c->item_id.data, c->n_items);
    if (part) cdz_buf_puts(&e->out, ",\"content_index\":0");
    return true;
}

/* --- items ---------------------------------------------------------------------------------------------------------------- */

static void put_part(cdz_item kind, const char *text, size_t len, cdz_buf *out)
{
    const bool message = kind == CDZ_ITEM_MESSAGE;
    cdz_buf_printf(out, "{\"type\":\"%s\"", message ? "output_text" : "reasoning_text");
    cdz_json_write_member(out, "text", text ? text : "", len);
    cdz_buf_puts(out, message ? ",\"annotations\":[],\"logprobs\":[]}" : "}");
}

/* status NULL: it has no content yet. */
static void put_item(const cdz_message_row *c, const char *status, cdz_buf *out)
{
    const bool message = c->item == CDZ_ITEM_MESSAGE;
    cdz_buf_printf(out, "{\"id\":\"%s\",\"type\":\"%s\",\"status\":\"%s\"%s,\"content\":[",
                   c->item_id.data, message ? "message" : "reasoning",
                   status ? status : "in_progress",
                   message ? ",\"role\":\"assistant\"" : ",\"summary\":[]");
    if (status) put_part(c->item, c->text.data, c->text.len, out);
    cdz_buf_puts(out, "]}");
}

static void name_item(cdz_message_row *c, const char *kind)
{
    cdz_buf_clear(&c->item_id);
    cdz_message_id(c->run->exchange, kind, 0, c->n_items, &c->item_id);
    c->failed |= c->item_id.failed;
}

static void open_item(cdz_message_row *c, cdz_item kind)
{
    cdz_http_exchange *e = c->run->exchange;
    c->item = kind;
    name_item(c, kind == CDZ_ITEM_MESSAGE ? "msg" : "rs");
    if (c->failed) return;
    if (begin_event(e, "output_item.added")) {
        cdz_buf_printf(&e->out, ",\"output_index\":%u,\"item\":", c->n_items);
        put_item(c, NULL, &e->out);
        end_event(e);
    }
    if (begin_item_event(c, "content_part.added", true)) {
        cdz_buf_puts(&e->out, ",\"part\":");
        put_part(kind, "", 0, &e->out);
        end_event(e);
    }
}

/* An item is whole: `json` of it, from its beginning on. */
static void keep_item(cdz_message_row *c, const char *json, size_t len)
{
    cdz_http_exchange *e = c->run->exchange;
    if (begin_event(e, "output_item.done")) {
        cdz_buf_printf(&e->out, ",\"output_index\":%u,\"item\":", c->n_items);
        cdz_buf_add(&e->out, json, len);
        end_event(e);
    }
    const size_t whole = c->items.len;
    cdz_buf_puts(&c->items, c->n_items++ ? "," : "");
    cdz_buf_add(&c->items, json, len);
    if (c->items.failed) c->items.len = whole; /* the event of the failure shows those before */
}

static void close_item(cdz_message_row *c, const char *status)
{
    cdz_http_exchange *e = c->run->exchange;
    const bool message = c->item == CDZ_ITEM_MESSAGE;
    cdz_buf item = {0};
    if (c->item == CDZ_ITEM_NONE || c->failed) return;
    if (begin_item_event(c, message ? "output_text.done" : "reasoning_text.done", true)) {
        cdz_json_write_member(&e->out, "text", c->text.data ? c->text.data : "", c->text.len);
        cdz_buf_puts(&e->out, message ? ",\"logprobs\":[]" : "");
        end_event(e);
    }
    if (begin_item_event(c, "content_part.done", true)) {
        cdz_buf_puts(&e->out, ",\"part\":");
        put_part(c->item, c->text.data, c->text.len, &e->out);
        end_event(e);
    }
    put_item(c, status, &item);
    c->failed |= item.failed;
    if (!c->failed) keep_item(c, item.data, item.len);
    cdz_buf_free(&item);
    cdz_buf_clear(&c->text);
    c->item = CDZ_ITEM_NONE;
}

void cdz_respond_piece(cdz_message_row *c, cdz_item kind, const char *text, size_t len)
{
    cdz_http_exchange *e = c->run->exchange;
    if (c->item != kind) {
        close_item(c, "completed");
        open_item(c, kind);
    }
    cdz_buf_add(&c->text, text, len);
    const bool message = kind == CDZ_ITEM_MESSAGE;
    if (c->failed || !len ||
        !begin_item_event(c, message ? "output_text.delta" : "reasoning_text.delta", true))
        return;
    cdz_json_write_member(&e->out, "delta", text, len);
    cdz_buf_puts(&e->out, message ? ",\"logprobs\":[]" : "");
    end_event(e);
}

static void put_call(const cdz_message_row *c, const char *status, const char *name,
                     const char *arguments, cdz_buf *out)
{
    cdz_buf_printf(out, "{\"id\":\"%s\",\"type\":\"function_call\",\"status\":\"%s\",\"call_id\":\"",
                   c->item_id.data, status);
    cdz_message_id(c->run->exchange, "call", 0, c->n_items, out);
    cdz_buf_putc(out, '"');
    cdz_json_write_member(out, "name", name, strlen(name));
    cdz_json_write_member(out, "arguments", arguments, strlen(arguments));
    cdz_buf_putc(out, '}');
}

void cdz_respond_call(cdz_message_row *c, const char *name, const char *arguments)
{
    cdz_http_exchange *e = c->run->exchange;
    cdz_buf item = {0};
    close_item(c, "completed");
    name_item(c, "fc");
    if (c->failed) return;
    if (begin_event(e, "output_item.added")) {
        cdz_buf_printf(&e->out, ",\"output_index\":%u,\"item\":", c->n_items);
        put_call(c, "in_progress", name, "", &e->out);
        end_event(e);
    }
    if (begin_item_event(c, "function_call_arguments.delta", false)) {
        cdz_json_write_member(&e->out, "delta", arguments, strlen(arguments));
        end_event(e);
    }
    if (begin_item_event(c, "function_call_arguments.done", false)) {
        cdz_json_write_member(&e->out, "name", name, strlen(name));
        cdz_json_write_member(&e->out, "arguments", arguments, strlen(arguments));
        end_event(e);
    }
    put_call(c, "completed", name, arguments, &item);
    c->failed |= item.failed;
    if (!c->failed) keep_item(c, item.data, item.len);
    cdz_buf_free(&item);
}

void cdz_respond_close(cdz_message_row *c, bool cut)
{
    if (c->item == CDZ_ITEM_NONE && !c->n_items) open_item(c, CDZ_ITEM_MESSAGE);
    close_item(c, cut ? "incomplete" : "completed");
}

/* --- the object ------------------------------------------------------------------------------------------------------------ */

/* A field of the request, as it came. */
static void put_asked(const cdz_http_exchange *e, const char *name, const char *absent, cdz_buf *out)
{
    const cdz_json *value = cdz_ask_field(&e->ask.asked, name);
    cdz_buf_printf(out, ",\"%s\":", name);
    if (value)
        cdz_json_write(out, value);
    else
        cdz_buf_puts(out, absent);
}

static void put_usage(const cdz_http_exchange *e, cdz_buf *out)
{
    const unsigned long long prompt = e->prompt_tokens, fresh = e->new_tokens,
                             cached = e->cached_tokens, thought = e->reasoning_tokens;
    cdz_buf_printf(
        out,
        ",\"usage\":{\"input_tokens\":%llu,\"input_tokens_details\":{\"cached_tokens\":%llu,"
        "\"cache_write_tokens\":0},\"output_tokens\":%llu,\"output_tokens_details\":{"
        "\"reasoning_tokens\":%llu},\"total_tokens\":%llu}",
        prompt, cached, fresh, thought, prompt + fresh);
}

static void put_fault(const cdz_http_exchange *e, cdz_buf *out)
{
    cdz_buf_puts(out, "{\"code\":\"server_error\",\"message\":");
    cdz_json_write_string(out, e->fault.text, strlen(e->fault.text));
    cdz_buf_putc(out, '}');
}

static void put_response(const cdz_http_exchange *e, const char *status, cdz_buf *out)
{
    const cdz_message_row *c = e->n_runs && e->runs[0].chats ? &e->runs[0].chats[0] : NULL;
    const char *model = e->served->id;
    cdz_buf_printf(out,
                   "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\"",
                   e->id, (long long)e->created, status);
    cdz_buf_printf(out, ",\"incomplete_details\":%s,\"error\":",
                   strcmp(status, "incomplete") == 0 ? "{\"reason\":\"max_output_tokens\"}"
                                                     : "null");
    if (strcmp(status, "failed") == 0)
        put_fault(e, out);
    else
        cdz_buf_puts(out, "null");
    cdz_json_write_member(out, "model", model, strlen(model));
    cdz_buf_puts(out, ",\"output\":[");
    if (c && c->items.data && !c->items.failed) cdz_buf_add(out, c->items.data, c->items.len);
    cdz_buf_putc(out, ']');
    put_asked(e, "instructions", "null", out);
    put_asked(e, "max_output_tokens", "null", out);
    put_asked(e, "metadata", "{}", out);
    put_asked(e, "parallel_tool_calls", "true", out);
    put_asked(e, "temperature", "null", out);
    put_asked(e, "top_p", "null", out);
    put_asked(e, "tool_choice", "\"auto\"", out);
    put_asked(e, "tools", "[]", out);
    put_asked(e, "text", "{\"format\":{\"type\":\"text\"}}", out);
    cdz_buf_puts(out, ",\"truncation\":\"disabled\",\"previous_response_id\":null,\"store\":false");
    if (strcmp(status, "in_progress") == 0)
        cdz_buf_puts(out, ",\"usage\":null");
    else
        put_usage(e, out);
}

static const char *status_of(const cdz_http_exchange *e)
{
    return e->ended && strcmp(e->ended, "length") == 0 ? "incomplete" : "completed";
}

static void tell_response(cdz_http_exchange *e, const char *type, const char *status)
{
    if (!begin_event(e, type)) return;
    cdz_buf_puts(&e->out, ",\"response\":");
    put_response(e, status, &e->out);
    cdz_buf_putc(&e->out, '}');
    end_event(e);
}

void cdz_respond_begin(cdz_http_exchange *e)
{
    tell_response(e, "created", "in_progress");
    tell_response(e, "in_progress", "in_progress");
}

void cdz_respond_end(cdz_http_exchange *e, bool good)
{
    const char *status = good ? status_of(e) : "failed";
    tell_response(e, status, status);
}

void cdz_respond_write(cdz_http_exchange *e, cdz_buf *out)
{
    put_response(e, status_of(e), out);
}
