/* logprobs.c - log-probabilities of what was read and written, under the model's own logits.
 *
 * The sequence is scored as a text once it is whole: those are the bits that its tokens had when they were chosen, whatever
 * decode loop chose them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "serve/exchange.h"

/* One place of the sequence. */
typedef struct place {
    int32_t id;
    bool known; /* something precedes it */
    float value;
    const int32_t *top_ids;
    const float *top;
    uint32_t n_top;
} place;

static void put_value(cdz_buf *out, float value)
{
    if (isfinite(value))
        cdz_json_write_f32(out, value);
    else
        cdz_buf_puts(out, "-9999.0");
}

/* A token's text, and whether the answer's text has it: special tokens it has not. */
static char *text_of(const cdz_http_exchange *e, int32_t id, size_t *len, bool *shown)
{
    char *text = NULL, *plain = NULL;
    const cdz_model *model = e->serve->options.model;
    *len = 0;
    *shown = false;
    if (cdz_token_text(model, id, &text, len, NULL) != CDZ_OK) return NULL;
    *shown = cdz_detokenize(model, &id, 1, true, &plain, NULL) == CDZ_OK && (*plain || !*len);
    /* A blank may be taken off what stands alone; a special token leaves nothing at all. */
    if (!*shown && *len && strspn(text, " ") == *len) *shown = true;
    cdz_free(plain);
    return text;
}

static void put_token(const cdz_http_exchange *e, int32_t id, cdz_buf *out)
{
    size_t len;
    bool shown;
    char spelt[32];
    if (e->ask.ids_as_text) {
        snprintf(spelt, sizeof spelt, "\"token_id:%d\"", (int)id);
        cdz_buf_puts(out, spelt);
        return;
    }
    char *text = text_of(e, id, &len, &shown);
    cdz_json_write_string(out, text ? text : "", len);
    cdz_free(text);
}

/* The value of a leader; the token itself has the same float in both places. */
static float top_value(const place *p, uint32_t i)
{
    return p->top_ids[i] == p->id ? p->value : p->top[i];
}

static bool among(const place *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (p->top_ids[i] == p->id) return true;
    return false;
}

/* {"token": value, ...}: of two tokens with one text the likelier, which comes first. */
static void put_dictionary(const cdz_http_exchange *e, const place *p, cdz_buf *out)
{
    const uint32_t n = p->n_top;
    cdz_buf names[CDZ_ASK_MOST_TOP + 1] = {{0}};
    uint32_t n_names = 0;
    cdz_buf_putc(out, '{');
    for (uint32_t i = 0; i < n + !among(p, n); i++) {
        cdz_buf *name = &names[n_names];
        bool twice = false;
        put_token(e, i < n ? p->top_ids[i] : p->id, name);
        for (uint32_t k = 0; k < n_names && name->data; k++)
            twice |= strcmp(names[k].data, name->data) == 0;
        if (!twice && name->data) {
            cdz_buf_printf(out, "%s%s:", n_names ? "," : "", name->data);
            put_value(out, i < n ? top_value(p, i) : p->value);
            n_names++;
        } else {
            cdz_buf_clear(name);
        }
    }
    cdz_buf_putc(out, '}');
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) cdz_buf_free(&names[i]);
}

/* {"token", "logprob", "bytes"} without its end. */
static void put_entry(const cdz_http_exchange *e, int32_t id, float value, cdz_buf *out)
{
    size_t len;
    bool shown;
    char *text = text_of(e, id, &len, &shown);
    cdz_buf_puts(out, "{\"token\":");
    put_token(e, id, out);
    cdz_buf_puts(out, ",\"logprob\":");
    put_value(out, value);
    cdz_buf_puts(out, ",\"bytes\":[");
    for (size_t i = 0; text && shown && i < len; i++)
        cdz_buf_printf(out, "%s%u", i ? "," : "", (unsigned)(unsigned char)text[i]);
    cdz_buf_putc(out, ']');
    cdz_free(text);
}

static void put_chat(const cdz_http_exchange *e, const place *places, size_t n, cdz_buf *out)
{
    cdz_buf_puts(out, "{\"content\":[");
    for (size_t i = 0; i < n; i++) {
        cdz_buf_puts(out, i ? "," : "");
        put_entry(e, places[i].id, places[i].value, out);
        cdz_buf_puts(out, ",\"top_logprobs\":[");
        for (uint32_t k = 0; k < places[i].n_top; k++) {
            cdz_buf_puts(out, k ? "," : "");
            put_entry(e, places[i].top_ids[k], top_value(&places[i], k), out);
            cdz_buf_putc(out, '}');
        }
        cdz_buf_puts(out, "]}");
    }
    cdz_buf_puts(out, "],\"refusal\":null}");
}

static void put_completion(const cdz_http_exchange *e, const place *places, size_t n, cdz_buf *out)
{
    size_t offset = 0;
    cdz_buf_puts(out, "{\"tokens\":[");
    for (size_t i = 0; i < n; i++) {
        cdz_buf_puts(out, i ? "," : "");
        put_token(e, places[i].id, out);
    }
    cdz_buf_puts(out, "],\"token_logprobs\":[");
    for (size_t i = 0; i < n; i++) {
        cdz_buf_puts(out, i ? "," : "");
        if (places[i].known)
            put_value(out, places[i].value);
        else
            cdz_buf_puts(out, "null");
    }
    cdz_buf_puts(out, "],\"top_logprobs\":[");
    for (size_t i = 0; i < n; i++) {
        cdz_buf_puts(out, i ? "," : "");
        if (places[i].known)
            put_dictionary(e, &places[i], out);
        else
            cdz_buf_puts(out, "null");
    }
    cdz_buf_puts(out, "],\"text_offset\":[");
    for (size_t i = 0; i < n; i++) {
        size_t len;
        bool shown;
        char *text = text_of(e, places[i].id, &len, &shown);
        cdz_buf_printf(out, "%s%zu", i ? "," : "", offset);
        if (shown) offset += cdz_utf8_count(text ? text : "", len);
        cdz_free(text);
    }
    cdz_buf_puts(out, "]}");
}

/* Without the tokens that begin behind the answer's end: a stop string has cut them off. */
static size_t kept(const cdz_http_exchange *e, const int32_t *ids, size_t n, size_t cut)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        size_t len;
        bool shown;
        char *text = text_of(e, ids[i], &len, &shown);
        cdz_free(text);
        if (shown && len && at >= cut) return i;
        at += shown ? len : 0;
    }
    return n;
}

static void write_document(cdz_buf *out, const cdz_ask_prompt *prompt, const int32_t *ids, size_t n,
                           uint32_t top)
{
    cdz_buf_puts(out, "{\"mode\": \"score\", \"prompt_ids\": [[");
    for (size_t i = 0; i < prompt->n; i++)
        cdz_buf_printf(out, "%s%d", i ? "," : "", (int)prompt->ids[i]);
    for (size_t i = 0; i < n; i++) cdz_buf_printf(out, ",%d", (int)ids[i]);
    cdz_buf_puts(out, "]], \"attention_mask\": [[");
    for (size_t i = 0; i < prompt->n + n; i++) cdz_buf_puts(out, i ? ",1" : "1");
    cdz_buf_puts(out, "]], \"kwargs\": {");
    if (top) cdz_buf_printf(out, "\"output_scores_top\": %u", top);
    cdz_buf_puts(out, "}}");
}

/* Places from `from` on. */
static void fill(const cdz_result *result, size_t from, size_t n, place *out)
{
    uint32_t all = 0, len = 0;
    const float *values = cdz_result_prompt_logprobs(result, 0, &all);
    const int32_t *ids = cdz_result_sequence(result, 0, &len);
    for (size_t i = 0; i < n; i++) {
        const uint32_t at = (uint32_t)(from + i);
        out[i].id = at < len ? ids[at] : 0;
        out[i].value = values && at < all ? values[at] : NAN;
        out[i].known = !isnan(out[i].value);
        out[i].n_top = cdz_result_prompt_top_logprobs(result, 0, at, &out[i].top_ids, &out[i].top);
    }
}

bool cdz_serve_answer_logprobs(cdz_http_exchange *e, size_t prompt, const int32_t *ids, size_t n,
                               size_t cut, cdz_buf *out, cdz_serve_fault *fault)
{
    const cdz_ask_prompt *p = &e->ask.prompts[prompt];
    const size_t left = e->ask.echo ? p->n + n : n;
    const size_t from = e->ask.echo ? 0 : p->n;
    const size_t shown = e->ask.echo ? p->n + kept(e, ids, n, cut) : kept(e, ids, n, cut);
    cdz_error err = {0};
    cdz_result *result = NULL;
    cdz_buf json = {0};
    place *places = calloc(left + 1, sizeof *places);
    write_document(&json, p, ids, n, e->ask.top);
    const cdz_request request = {
        .size = sizeof request, .model = e->serve->options.model, .json = json.data};
    cdz_status status = !places || json.failed
                            ? cdz_err(&err, CDZ_E_NOMEM, "out of memory for log-probabilities")
                            : cdz_generate(e->serve->options.runtime, &request, &result, &err);
    if (status == CDZ_OK) {
        fill(result, from, left, places);
        (e->ask.chat ? put_chat : put_completion)(e, places, shown, out);
    } else {
        cdz_serve_fault_of(fault, "logprobs", &err);
    }
    cdz_result_free(result);
    cdz_buf_free(&json);
    free(places);
    return status == CDZ_OK;
}
