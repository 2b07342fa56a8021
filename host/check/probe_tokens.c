/* probe_tokens.c - the tokenizer of a made-up request: the kit's own (probe_texts.h), or that of a model (--model). */
#include <string.h>

#include "base/utf8.h"
#include "cadenza/ext/tokenizer.h"
#include "check/probe.h"
#include "check/probe_texts.h"

static bool present(const cdz_step *step)
{
    return step->request != NULL;
}

static uint32_t n_tokens(const cdz_step *step)
{
    return step->request->n_vocab;
}

static cdz_string token_text(const cdz_step *step, int32_t id)
{
    const cdz_tokens *tokens = cdz_probe_of(step)->tokens;
    const uint32_t n_vocab = step->request ? step->request->n_vocab : cdz_usual_facts.n_vocab;
    if (!tokens) return cdz_probe_text_of_token(n_vocab, id);
    return id >= 0 && (uint32_t)id < tokens->n ? tokens->texts[id] : (cdz_string){NULL, 0};
}

static bool is_special(const cdz_step *step, int32_t id)
{
    const cdz_tokens *tokens = cdz_probe_of(step)->tokens;
    if (tokens) return cdz_tokenizer_is_special(tokens->tokenizer, id);
    return cdz_probe_text_is_special(n_tokens(step), id);
}

static cdz_status encode_for_model(const cdz_step *step, const char *text, size_t len, cdz_ids *out)
{
    cdz_encoding encoding = {0};
    cdz_error err = {0};
    const cdz_tokenizer *tokenizer = cdz_probe_of(step)->tokens->tokenizer;
    const cdz_status st =
        cdz_tokenizer_encode(tokenizer, NULL, text, len, CDZ_ENCODE_PLAIN, &encoding, &err);
    int32_t *ids = cdz_arena_array(&cdz_probe_of(step)->memory, encoding.n + 1, sizeof *ids);
    if (ids && encoding.n) memcpy(ids, encoding.ids, encoding.n * sizeof *ids);
    *out = (cdz_ids){ids, ids ? (uint32_t)encoding.n : 0};
    cdz_encoding_free(&encoding);
    if (st != CDZ_OK) return cdz_fail(step, st, "%s", err.text);
    return ids ? CDZ_OK : cdz_fail(step, CDZ_E_NOMEM, "out of memory");
}

/* As the host: what a call at every step kept would fill the request's memory. */
static cdz_status now(const cdz_step *step, const char *what)
{
    cdz_probe_look_at_thread(step, what);
    if (cdz_probe_of(step)->may_alloc) return CDZ_OK;
    return cdz_fail(step, CDZ_E_STATE,
                    "%s works in begin and on a strategy's fibre (its results live as long as the "
                    "request)",
                    what);
}

/* In create there is no request: then the usual vocabulary. */
static cdz_status encode(const cdz_step *step, const char *text, size_t len, bool special,
                         cdz_ids *out)
{
    (void)special;
    CDZ_TRY(now(step, "encode"));
    if (cdz_probe_of(step)->tokens) return encode_for_model(step, text, len, out);
    const uint32_t n_vocab = step->request ? step->request->n_vocab : cdz_usual_facts.n_vocab;
    int32_t *ids = cdz_arena_array(&cdz_probe_of(step)->memory, len + 1, sizeof *ids);
    uint32_t n = 0;
    if (!ids) return cdz_fail(step, CDZ_E_NOMEM, "out of memory");
    for (size_t at = 0, bytes; at < len; at += bytes)
        ids[n++] = cdz_probe_text_first_token(n_vocab, text + at, len - at, &bytes);
    *out = (cdz_ids){ids, n};
    return CDZ_OK;
}

/* Bytes that make no character become U+FFFD, as of a real tokenizer. */
static void put_clean(cdz_string raw, char *to, uint32_t *len)
{
    uint32_t code;
    for (size_t i = 0; i < raw.len;) {
        const size_t n = cdz_utf8_decode(raw.at + i, raw.len - i, &code);
        const size_t bytes = n ? n : cdz_utf8_bad(raw.at + i, raw.len - i, NULL);
        memcpy(to + *len, n ? raw.at + i : "\xEF\xBF\xBD", n ? n : 3);
        *len += (uint32_t)(n ? n : 3);
        i += bytes ? bytes : 1;
    }
}

static cdz_status decode(const cdz_step *step, cdz_ids ids, bool skip_special, cdz_string *out)
{
    size_t most = 0;
    CDZ_TRY(now(step, "decode"));
    for (uint32_t i = 0; i < ids.len; i++) most += token_text(step, ids.at[i]).len;
    char *raw = cdz_arena_alloc(&cdz_probe_of(step)->memory, 4 * most + 2);
    if (!raw) return cdz_fail(step, CDZ_E_NOMEM, "out of memory");
    char *text = raw + most + 1;
    uint32_t n = 0, len = 0;
    for (uint32_t i = 0; i < ids.len; i++) {
        const cdz_string one = token_text(step, ids.at[i]);
        if (one.len == 0 || (skip_special && is_special(step, ids.at[i]))) continue;
        memcpy(raw + n, one.at, one.len);
        n += one.len;
    }
    put_clean((cdz_string){raw, n}, text, &len);
    text[len] = '\0';
    *out = (cdz_string){text, len};
    return CDZ_OK;
}

static cdz_status convert(const cdz_step *step, const char *from_model, cdz_ids ids,
                          const char *to_model, bool special, cdz_ids *out)
{
    (void)from_model, (void)ids, (void)to_model, (void)special, (void)out;
    return cdz_fail(step, CDZ_E_NOT_FOUND, "there is one model only");
}

static const cdz_tokenizer_api tokenizer = {
    .size = sizeof tokenizer,
    .present = present,
    .token_text = token_text,
    .n_tokens = n_tokens,
    .encode = encode,
    .decode = decode,
    .convert = convert,
};

const void *cdz_probe_tokenizer(void)
{
    return &tokenizer;
}
