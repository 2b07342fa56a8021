/* logprobs.c - log-probabilities of what was read and written, under the model's own logits.
 *
 * They come with the tokens' events, from the decode loops that keep them. Otherwise the sequence is scored as a text once it
 * is whole: those are the same bits, whatever decode loop chose its tokens. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/exchange.h"

/* One place of the sequence. */
typedef struct place {
    int32_t id;
    bool known; /* something precedes it */
    bool bare; /* the text has not the blank that it begins with, since nothing of the text is before it */
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

/* A token's bytes as an answer shows them. */
static char *bytes_of(const cdz_http_exchange *e, int32_t id, size_t *len, bool *shown)
{
    return cdz_trail_bytes(e->served->model, id, e->ask.all_text, len, shown);
}

/* Characters that begin in these bytes. */
static size_t n_characters(const char *bytes, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) n += ((unsigned char)bytes[i] & 0xC0u) != 0x80u;
    return n;
}

static void put_token(const cdz_http_exchange *e, int32_t id, cdz_buf *out)
{
    size_t len = 0;
    char spelt[32], *text = NULL;
    if (e->ask.ids_as_text) {
        snprintf(spelt, sizeof spelt, "\"token_id:%d\"", (int)id);
        cdz_buf_puts(out, spelt);
        return;
    }
    out->failed |= cdz_token_text(e->served->model, id, &text, &len, NULL) != CDZ_OK;
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
        out->failed |= name->failed;
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

/* {"token", "logprob", "bytes"} without its end. own: the answer's token, of which bytes are what the answer's text has; else NULL. */
static void put_entry(const cdz_http_exchange *e, int32_t id, float value, const place *own,
                      cdz_buf *out)
{
    size_t len;
    bool shown;
    char *text = bytes_of(e, id, &len, &shown);
    if (!text) out->failed = true;
    if (own && cdz_serve_is_end(e, id)) shown = false;
    const size_t skip = own && own->bare && len;
    cdz_buf_puts(out, "{\"token\":");
    put_token(e, id, out);
    cdz_buf_puts(out, ",\"logprob\":");
    put_value(out, value);
    cdz_buf_puts(out, ",\"bytes\":");
    cdz_trail_write_bytes(out, text ? text + skip : NULL, text && shown ? len - skip : 0);
    cdz_free(text);
}

static void put_entries(const cdz_http_exchange *e, const place *places, size_t n, cdz_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        cdz_buf_puts(out, i ? "," : "");
        put_entry(e, places[i].id, places[i].value, &places[i], out);
        cdz_buf_puts(out, ",\"top_logprobs\":[");
        for (uint32_t k = 0; k < places[i].n_top; k++) {
            cdz_buf_puts(out, k ? "," : "");
            put_entry(e, places[i].top_ids[k], top_value(&places[i], k), NULL, out);
            cdz_buf_putc(out, '}');
        }
        cdz_buf_puts(out, "]}");
    }
}

/* offset: characters in front of the first, and then of what follows. */
static void put_completion(const cdz_http_exchange *e, const place *places, size_t n,
                           size_t *offset, cdz_buf *out)
{
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
        char *text = bytes_of(e, places[i].id, &len, &shown);
        if (!text) out->failed = true;
        cdz_buf_printf(out, "%s%zu", i ? "," : "", *offset);
        if (shown && text) *offset += n_characters(text, len) - places[i].bare;
        cdz_free(text);
    }
    cdz_buf_puts(out, "]}");
}

static void put_places(const cdz_http_exchange *e, const place *places, size_t n, size_t *offset,
                       cdz_buf *out)
{
    if (!e->ask.chat) {
        put_completion(e, places, n, offset, out);
    } else if (e->streaming) {
        put_entries(e, places, n, out);
    } else {
        cdz_buf_puts(out, "{\"content\":[");
        put_entries(e, places, n, out);
        cdz_buf_puts(out, "],\"refusal\":null}");
    }
}

/* A prompt, and n ids behind it. */
typedef struct scored_text {
    const cdz_ask_prompt *prompt;
    const int32_t *ids;
    size_t n;
    uint32_t top; /* leaders of each place */
    bool echo;    /* the prompt's places too */
} scored_text;

static void write_document(const scored_text *text, cdz_buf *out)
{
    cdz_buf_puts(out, "{\"mode\": \"score\", ");
    cdz_ask_write_prompt(out, text->prompt, text->ids, text->n);
    cdz_buf_puts(out, ", \"kwargs\": {");
    if (text->top) cdz_buf_printf(out, "\"output_scores_top\": %u", text->top);
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

/* n of a trail's tokens from `from` on, as their events told them. */
static void fill_told(const cdz_http_exchange *e, const cdz_trail *trail, size_t from, size_t n,
                      place *out)
{
    for (size_t i = 0; i < n; i++) {
        const size_t top = (from + i) * trail->top;
        out[i] = (place){.id = trail->at[from + i].id,
                         .known = true,
                         .value = trail->at[from + i].value,
                         .bare = from + i == 0 && trail->blank && !e->ask.echo,
                         .n_top = trail->top};
        if (!trail->top) continue;
        out[i].top_ids = trail->leaders + top;
        out[i].top = trail->leader_values + top;
    }
}

/* The places of a text that is scored once more. They point into *scored, which is to be freed after them. */
static bool fill_scored(cdz_http_exchange *e, const scored_text *text, place *out,
                        cdz_result **scored)
{
    cdz_error err = {0};
    cdz_buf json = {0};
    write_document(text, &json);
    const cdz_request request = {
        .size = sizeof request, .model = e->served->model, .json = json.data};
    const cdz_status status = json.failed
                                  ? cdz_err_memory(&err, "log-probabilities")
                                  : cdz_generate(e->serve->options.runtime, &request, scored, &err);
    if (status == CDZ_OK)
        fill(*scored, text->echo ? 0 : text->prompt->n,
             (text->echo ? text->prompt->n : 0) + text->n, out);
    else
        cdz_serve_fault_of(&e->fault, "logprobs", &err);
    cdz_buf_free(&json);
    return status == CDZ_OK;
}

/* Of a prompt, the first token that its text has: some tokenizers put a blank before a text. */
static void note_blank(const cdz_http_exchange *e, const cdz_ask_prompt *p, place *places)
{
    char *text = NULL;
    if (!p->text &&
        cdz_detokenize(e->served->model, p->ids, p->n, !e->ask.all_text, &text, NULL) != CDZ_OK)
        return;
    const char *begin = p->text ? p->text : text;
    bool shown = false;
    for (size_t i = 0, len; i < p->n && !shown; i++) {
        char *bytes = bytes_of(e, p->ids[i], &len, &shown);
        shown = shown && bytes && len;
        places[i].bare = shown && *bytes == ' ' && *begin != ' ';
        cdz_free(bytes);
    }
    cdz_free(text);
}

void cdz_serve_next_logprobs(const cdz_http_exchange *e, cdz_trail *trail, size_t to, cdz_buf *out)
{
    const size_t n = to - trail->told;
    place *places = n ? calloc(n, sizeof *places) : NULL;
    if (places) {
        fill_told(e, trail, trail->told, n, places);
        put_places(e, places, n, &trail->characters, out);
        trail->told = to;
    }
    out->failed |= n && !places;
    free(places);
}

/* The ids of a row that has ended, whether or not events told of all of them. */
static size_t follow_to_end(const cdz_http_exchange *e, cdz_trail *trail, const int32_t *ids,
                            uint32_t n)
{
    const uint32_t from = trail->n < n ? (uint32_t)trail->n : n;
    const cdz_event rest = {.ids = ids + from, .n_ids = n - from};
    if (from < n) cdz_trail_add(trail, e->served->model, e->ask.special, &rest, NULL);
    return trail->n;
}

/* Tokens of a row beside its prompt, from the first that no event has. */
static bool put_rest(cdz_http_exchange *e, const cdz_generation_run *run, uint32_t row,
                     cdz_trail *trail, size_t kept, cdz_buf *out)
{
    uint32_t n = 0;
    cdz_result *scored = NULL;
    const bool echo = e->ask.echo && !e->streaming;
    const cdz_ask_prompt *p = &e->ask.prompts[run->prompt];
    const int32_t *ids = run->result ? cdz_result_ids(run->result, row, &n) : NULL;
    const size_t before = echo ? p->n : 0, first = trail ? trail->told : 0;
    place *places = calloc(before + n + 1, sizeof *places);
    const bool good =
        places && fill_scored(e, &(scored_text){p, ids, n, e->ask.top, echo}, places, &scored);
    size_t offset = trail ? trail->characters : 0;
    if (good && echo) note_blank(e, p, places);
    if (good && trail && n) places[before].bare = trail->blank && !e->ask.echo;
    if (good) put_places(e, places + first, before + kept - first, &offset, out);
    free(places);
    cdz_result_free(scored);
    return good;
}

bool cdz_serve_answer_logprobs(cdz_http_exchange *e, const cdz_generation_run *run, uint32_t row,
                               size_t cut, cdz_buf *out)
{
    uint32_t n = 0;
    cdz_trail *trail = run->trails ? &run->trails[row] : NULL;
    const int32_t *ids = run->result ? cdz_result_ids(run->result, row, &n) : NULL;
    size_t kept = trail && ids ? follow_to_end(e, trail, ids, n) : 0;
    if (trail && trail->failed) return false;
    if (trail && cut != SIZE_MAX) kept = cdz_trail_kept(trail, cut);
    if (trail && kept < trail->told) kept = trail->told;
    if (e->streaming && (!trail || kept == trail->told)) return true;
    if ((e->ask.echo && !e->streaming) || !trail || trail->unknown)
        return put_rest(e, run, row, trail, kept, out);
    if (kept)
        cdz_serve_next_logprobs(e, trail, kept, out);
    else
        put_places(e, NULL, 0, &trail->characters, out);
    return !out->failed;
}

bool cdz_serve_echo_logprobs(cdz_http_exchange *e, size_t prompt, cdz_buf *out)
{
    cdz_result *scored = NULL;
    cdz_ask_prompt *p = &e->ask.prompts[prompt];
    place *places = calloc(p->n + 1, sizeof *places);
    const bool good =
        places && fill_scored(e, &(scored_text){p, NULL, 0, e->ask.top, true}, places, &scored);
    if (good) note_blank(e, p, places);
    if (good) put_places(e, places, p->n, &p->characters, out);
    free(places);
    cdz_result_free(scored);
    return good && !out->failed;
}

/* --- of a prompt, as vLLM has them ------------------------------------------------------------------------------ */

/* rank 0: it is not known, since the token is none of the leaders. */
static void put_candidate(const cdz_http_exchange *e, int32_t id, float value, uint32_t rank,
                          cdz_buf *out)
{
    size_t len = 0;
    char *text = NULL;
    cdz_buf_printf(out, "\"%d\":{\"logprob\":", (int)id);
    put_value(out, value);
    cdz_buf_puts(out, ",\"rank\":");
    if (rank)
        cdz_buf_printf(out, "%u", rank);
    else
        cdz_buf_puts(out, "null");
    cdz_buf_puts(out, ",\"decoded_token\":");
    out->failed |= cdz_token_text(e->served->model, id, &text, &len, NULL) != CDZ_OK;
    cdz_json_write_string(out, text ? text : "", len);
    cdz_buf_putc(out, '}');
    cdz_free(text);
}

static void put_candidates(const cdz_http_exchange *e, const place *p, cdz_buf *out)
{
    if (!p->known) {
        cdz_buf_puts(out, "null");
        return;
    }
    cdz_buf_putc(out, '{');
    for (uint32_t i = 0; i < p->n_top; i++) {
        cdz_buf_puts(out, i ? "," : "");
        put_candidate(e, p->top_ids[i], top_value(p, i), i + 1, out);
    }
    if (!among(p, p->n_top)) {
        cdz_buf_puts(out, p->n_top ? "," : "");
        put_candidate(e, p->id, p->value, 0, out);
    }
    cdz_buf_putc(out, '}');
}

bool cdz_serve_prompt_logprobs(cdz_http_exchange *e, size_t prompt, cdz_buf *out)
{
    cdz_result *scored = NULL;
    const cdz_ask_prompt *p = &e->ask.prompts[prompt];
    place *places = calloc(p->n + 1, sizeof *places);
    const bool good = places && fill_scored(e, &(scored_text){p, NULL, 0, e->ask.prompt_top, true},
                                            places, &scored);
    cdz_buf_putc(out, '[');
    for (size_t i = 0; good && i < p->n; i++) {
        cdz_buf_puts(out, i ? "," : "");
        put_candidates(e, &places[i], out);
    }
    cdz_buf_putc(out, ']');
    free(places);
    cdz_result_free(scored);
    return good && !out->failed;
}

/* --- the best of several --------------------------------------------------------------------------------------- */

/* Of the row's tokens, on average; below all others where there are none. */
static bool average(cdz_http_exchange *e, const cdz_generation_run *run, uint32_t row, double *out)
{
    uint32_t n = 0;
    cdz_result *scored = NULL;
    const cdz_trail *trail = &run->trails[row];
    const int32_t *ids = cdz_result_ids(run->result, row, &n);
    place *places = calloc((size_t)n + 1, sizeof *places);
    bool good = places != NULL;
    if (good && (trail->unknown || trail->n < n))
        good =
            fill_scored(e, &(scored_text){&e->ask.prompts[run->prompt], ids, n, e->ask.top, false},
                        places, &scored);
    else if (good)
        fill_told(e, trail, 0, n, places);
    double sum = 0;
    for (uint32_t i = 0; good && i < n; i++)
        sum += isfinite(places[i].value) ? (double)places[i].value : -9999;
    *out = n ? sum / n : -INFINITY;
    free(places);
    cdz_result_free(scored);
    return good;
}

/* The likelier first; of equals the earlier. */
static void put_in_order(uint32_t *rows, const double *means, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        for (; at > 0 && means[rows[at - 1]] < means[i]; at--) rows[at] = rows[at - 1];
        rows[at] = i;
    }
}

bool cdz_serve_choose_rows(cdz_http_exchange *e, cdz_generation_run *run)
{
    double *means = calloc(run->rows, sizeof *means);
    run->best = calloc(run->rows, sizeof *run->best);
    bool good = means && run->best;
    for (uint32_t i = 0; good && i < run->rows; i++) good = average(e, run, i, &means[i]);
    if (good) put_in_order(run->best, means, run->rows);
    if (!good && !e->fault.status)
        cdz_serve_fault_set(&e->fault, 500, NULL, NULL, "out of memory for the answers");
    free(means);
    return good;
}
