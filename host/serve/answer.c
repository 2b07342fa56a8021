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
    cdz_json_write_string(out, e->serve->options.model_id, strlen(e->serve->options.model_id));
    cdz_buf_puts(out, ",\"system_fingerprint\":null");
}

static void put_ids(cdz_buf *out, const char *name, const int32_t *ids, size_t n)
{
    cdz_buf_printf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < n; i++) cdz_buf_printf(out, "%s%d", i ? "," : "", (int)ids[i]);
    cdz_buf_putc(out, ']');
}

static void put_delta(const cdz_choice *c, cdz_buf *out)
{
    cdz_buf_puts(out, ",\"delta\":{");
    if (c->role) cdz_buf_puts(out, "\"role\":\"assistant\",");
    if (c->role || c->len) {
        cdz_buf_puts(out, "\"content\":");
        cdz_json_write_string(out, c->text, c->len);
    }
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
        cdz_buf_puts(out, ",\"message\":{\"role\":\"assistant\",\"content\":");
        cdz_json_write_string(out, c->text, c->len);
        cdz_buf_putc(out, '}');
    }
    cdz_buf_printf(out, ",\"logprobs\":%s", c->logprobs ? c->logprobs : "null");
    if (c->finish)
        cdz_buf_printf(out, ",\"finish_reason\":\"%s\",\"stop_reason\":%s", c->finish,
                       c->stop_reason ? c->stop_reason : "null");
    else
        cdz_buf_puts(out, ",\"finish_reason\":null");
    if (c->prompt) put_ids(out, "prompt_token_ids", c->prompt->ids, c->prompt->n);
    if (c->ids) put_ids(out, "token_ids", c->ids, c->n_ids);
    cdz_buf_putc(out, '}');
}

void cdz_serve_answer_usage(const cdz_http_exchange *e, cdz_buf *out)
{
    const unsigned long long prompt = e->prompt_tokens, fresh = e->new_tokens;
    cdz_buf_printf(out,
                   "\"usage\":{\"prompt_tokens\":%llu,\"completion_tokens\":%llu,"
                   "\"total_tokens\":%llu,\"prompt_tokens_details\":{\"cached_tokens\":0}}",
                   prompt, fresh, prompt + fresh);
}

void cdz_serve_answer_event(cdz_http_exchange *e, const cdz_choice *c)
{
    cdz_assert_holds(&e->lock);
    cdz_buf_puts(&e->out, "data: ");
    cdz_serve_answer_head(e, true, &e->out);
    cdz_buf_puts(&e->out, ",\"choices\":[");
    cdz_serve_answer_choice(e, c, true, &e->out);
    cdz_buf_puts(&e->out, e->ask.usage ? "],\"usage\":null}\n\n" : "]}\n\n");
}
