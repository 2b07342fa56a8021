/* parity_stream.c - replays recorded calls of transformers' TextStreamer: what it prints after each put, and at the end. */
#include <string.h>

#include "cli/parity_trial.h"
#include "token/word_stream.h"

/* The text of a put's tokens, which in these cases stand for themselves. */
static cdz_status join(const cdz_json *tokens, const cdz_json *put, cdz_buf *out, cdz_error *err)
{
    for (uint32_t i = 0; put->type == CDZ_JSON_ARRAY && i < put->len; i++) {
        const cdz_json *id = &put->items[i];
        if (id->type != CDZ_JSON_INT || id->integer < 0 || id->integer >= tokens->len ||
            tokens->items[id->integer].type != CDZ_JSON_STRING)
            return cdz_trial_malformed("an id of \"puts\" is outside \"token_strings\"", err);
        cdz_buf_puts(out, tokens->items[id->integer].string);
    }
    return CDZ_OK;
}

static cdz_status expect(const cdz_json *emits, uint32_t at, const char *text, size_t n, bool last,
                         cdz_error *err)
{
    const cdz_json *want = at < emits->len ? &emits->items[at] : NULL;
    if (!cdz_json_is(want, CDZ_JSON_ARRAY) || want->len != 2 ||
        want->items[0].type != CDZ_JSON_STRING || want->items[1].type != CDZ_JSON_BOOL)
        return cdz_trial_malformed("\"emits\" lacks a pair of a text and a truth value", err);
    const char *expected = want->items[0].string;
    if (want->items[1].boolean == last && strlen(expected) == n && memcmp(expected, text, n) == 0)
        return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT, "text %u: expected \"%s\", got \"%.*s\"", at, expected, (int)n,
                   text);
}

static cdz_status replay(const cdz_json *c, cdz_word_stream *stream, cdz_buf *text, cdz_error *err)
{
    const cdz_json *tokens = cdz_json_get(c, "token_strings"), *puts = cdz_json_get(c, "puts"),
                   *emits = cdz_json_get(c, "emits");
    const cdz_json *skip = cdz_json_get(cdz_json_get(c, "params"), "skip_prompt");
    if (!cdz_json_is(tokens, CDZ_JSON_ARRAY) || !cdz_json_is(puts, CDZ_JSON_ARRAY) ||
        !cdz_json_is(emits, CDZ_JSON_ARRAY) || !cdz_json_is(skip, CDZ_JSON_BOOL))
        return cdz_trial_malformed("expected token_strings, puts, emits and skip_prompt", err);
    size_t n;
    uint32_t at = 0;
    for (uint32_t i = skip->boolean; i < puts->len; i++) {
        cdz_buf_clear(text);
        cdz_buf_add(text, "", 0);
        CDZ_TRY(join(tokens, &puts->items[i], text, err));
        const char *said = cdz_word_stream_feed(stream, text->data, text->len, &n);
        if (!said || text->failed) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
        CDZ_TRY(expect(emits, at++, said, n, false, err));
    }
    const char *rest = cdz_word_stream_end(stream, &n);
    CDZ_TRY(expect(emits, at++, n ? rest : "", n, true, err));
    if (at == emits->len) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT, "%u texts, expected %u", at, emits->len);
}

bool cdz_parity_stream_case(const cdz_json *c, cdz_status *status, cdz_error *err)
{
    if (!cdz_json_eq(cdz_json_get(c, "kind"), "streamer")) return false;
    cdz_word_stream stream = {0};
    cdz_buf text = {0};
    *status = replay(c, &stream, &text, err);
    cdz_word_stream_free(&stream);
    cdz_buf_free(&text);
    return true;
}
