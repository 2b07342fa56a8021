/* answer.c - choices, events and usage, as OpenAI's clients read them. */
#include <stdio.h>
#include <string.h>

#include "serve/exchange.h"

void cdz_serve_answer_head(const cdz_http_exchange *e, bool chunk, cdz_buf *out)
{
    const char *object = !e->ask.chat ? "text_completion"
                         : chunk      ? "chat.completion.chunk"
                                      : "chat.completion";
    cdz_buf_printf(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", e->id,
                   object, (long long)e->created);
    cdz_json_write_string(out, e->served->id, strlen(e->served->id));
    cdz_buf_puts(out, ",\"system_fingerprint\":null");
}

static void put_ids(cdz_buf *out, const char *name, const int32_t *ids, size_t n)
{
    cdz_buf_printf(out, ",\"%s\":[", name);
    cdz_ask_write_ids(out, ids, n);
    cdz_buf_putc(out, ']');
}

static void put_delta(const cdz_choice *c, cdz_buf *out)
{
    cdz_buf_puts(out, ",\"delta\":{");
    if (c->role) cdz_buf_puts(out, "\"role\":\"assistant\",");
    const char *comma = "";
    if (c->reasoning_len) {
        cdz_buf_puts(out, "\"reasoning_content\":");
        cdz_json_write_string(out, c->reasoning, c->reasoning_len);
        comma = ",";
    }
    if (c->role || c->len) {
        cdz_buf_printf(out, "%s\"content\":", comma);
        cdz_json_write_string(out, c->text ? c->text : "", c->len);
        comma = ",";
    }
    if (c->calls) cdz_buf_printf(out, "%s\"tool_calls\":%s", comma, c->calls);
    cdz_buf_putc(out, '}');
}

/* Without text, an answer that makes calls has no content. */
static void put_message(const cdz_choice *c, cdz_buf *out)
{
    cdz_buf_puts(out, ",\"message\":{\"role\":\"assistant\",\"content\":");
    if (c->calls && !c->len)
        cdz_buf_puts(out, "null");
    else
        cdz_json_write_string(out, c->text, c->len);
    if (c->reasoning_len) {
        cdz_buf_puts(out, ",\"reasoning_content\":");
        cdz_json_write_string(out, c->reasoning, c->reasoning_len);
    }
    if (c->calls) cdz_buf_printf(out, ",\"tool_calls\":%s", c->calls);
    cdz_buf_putc(out, '}');
}

void cdz_serve_answer_choice(const cdz_http_exchange *e, const cdz_choice *c, bool chunk,
                             cdz_buf *out)
{
    cdz_buf_printf(out, "{\"index\":%zu", c->index);
    if (!e->ask.chat) {
        cdz_buf_puts(out, ",\"text\":");
        cdz_json_write_string(out, c->text, c->len);
    } else if (chunk) {
        put_delta(c, out);
    } else {
        put_message(c, out);
    }
    cdz_buf_printf(out, ",\"logprobs\":%s", c->logprobs ? c->logprobs : "null");
    if (c->finish)
        cdz_buf_printf(out, ",\"finish_reason\":\"%s\",\"stop_reason\":%s", c->finish,
                       c->stop_reason ? c->stop_reason : "null");
    else
        cdz_buf_puts(out, ",\"finish_reason\":null");
    if (c->prompt && !e->ask.chat) put_ids(out, "prompt_token_ids", c->prompt->ids, c->prompt->n);
    if (c->ids) put_ids(out, "token_ids", c->ids, c->n_ids);
    if (c->prompt_logprobs && !e->ask.chat)
        cdz_buf_printf(out, ",\"prompt_logprobs\":%s", c->prompt_logprobs);
    cdz_buf_putc(out, '}');
}

void cdz_serve_answer_usage(const cdz_http_exchange *e, cdz_buf *out)
{
    const unsigned long long prompt = e->prompt_tokens, fresh = e->new_tokens,
                             cached = e->cached_tokens;
    cdz_buf_printf(out,
                   "\"usage\":{\"prompt_tokens\":%llu,\"completion_tokens\":%llu,"
                   "\"total_tokens\":%llu,\"prompt_tokens_details\":{\"cached_tokens\":%llu}",
                   prompt, fresh, prompt + fresh, cached);
    if (e->ask.chat)
        cdz_buf_printf(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":%llu}",
                       (unsigned long long)e->reasoning_tokens);
    cdz_buf_putc(out, '}');
}

void cdz_serve_answer_prompt(const cdz_http_exchange *e, cdz_buf *out)
{
    if (e->ask.chat && e->ask.return_ids)
        put_ids(out, "prompt_token_ids", e->ask.prompts->ids, e->ask.prompts->n);
}

void cdz_serve_answer_event(cdz_http_exchange *e, const cdz_choice *c)
{
    cdz_assert_holds(&e->lock);
    cdz_buf_puts(&e->out, "data: ");
    cdz_serve_answer_head(e, true, &e->out);
    if (c->role && !c->index) cdz_serve_answer_prompt(e, &e->out);
    cdz_buf_puts(&e->out, ",\"choices\":[");
    cdz_serve_answer_choice(e, c, true, &e->out);
    if (e->ask.usage_each) {
        cdz_buf_puts(&e->out, "],");
        cdz_serve_answer_usage(e, &e->out);
        cdz_buf_puts(&e->out, "}\n\n");
        return;
    }
    cdz_buf_puts(&e->out, e->ask.usage ? "],\"usage\":null}\n\n" : "]}\n\n");
}
