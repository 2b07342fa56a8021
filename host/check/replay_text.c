/* replay_text.c - reads the text, and cuts it into ids. */
#include "check/replay_text.h"

#include <string.h>

#include "base/file.h"
#include "base/utf8.h"
#include "check/probe_texts.h"

cdz_status cdz_replay_bytes(cdz_child *c, cdz_string *out, cdz_error *err)
{
    const char *path = c->options->text;
    cdz_file file = {0};
    *out = cdz_probe_text_corpus();
    if (!path) return CDZ_OK;
    CDZ_TRY(cdz_file_map(path, &file, err));
    const size_t len = file.size < CDZ_REPLAY_BYTES ? (size_t)file.size : CDZ_REPLAY_BYTES;
    char *bytes = cdz_arena_alloc(&c->memory, len + 1);
    cdz_status st = bytes ? CDZ_OK : cdz_err_memory_in(err, path);
    if (st == CDZ_OK) st = cdz_file_read_at(&file, 0, bytes, len, err);
    if (st == CDZ_OK && len == 0)
        st = cdz_err(err, CDZ_E_INPUT, "--text %s: the file is empty", path);
    if (st == CDZ_OK) *out = (cdz_string){bytes, (uint32_t)len};
    cdz_file_unmap(&file);
    return st;
}

cdz_status cdz_replay_clean(cdz_child *c, cdz_string *out, cdz_error *err)
{
    cdz_string raw;
    uint32_t len = 0, code;
    CDZ_TRY(cdz_replay_bytes(c, &raw, err));
    char *text = cdz_arena_alloc(&c->memory, 3 * (size_t)raw.len + 1);
    if (!text) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (size_t i = 0; i < raw.len;) {
        const size_t n = cdz_utf8_decode(raw.at + i, raw.len - i, &code);
        memcpy(text + len, n ? raw.at + i : CDZ_UTF8_REPLACEMENT, n ? n : 3);
        len += (uint32_t)(n ? n : 3);
        i += n ? n : cdz_utf8_bad(raw.at + i, raw.len - i, NULL);
    }
    *out = (cdz_string){text, len};
    return CDZ_OK;
}

/* --- a model's tokenizer ----------------------------------------------------------------------------------------- */

static bool fill_texts(cdz_child *c, cdz_tokens *tokens)
{
    cdz_buf one = {0};
    bool good = true;
    for (uint32_t i = 0; i < tokens->n && good; i++) {
        cdz_buf_clear(&one);
        if (!cdz_tokenizer_text_alone(tokens->tokenizer, (int32_t)i, &one)) continue;
        const char *at = cdz_arena_strndup(&c->memory, one.data ? one.data : "", one.len);
        good = at && !one.failed;
        tokens->texts[i] = (cdz_string){at, (uint32_t)one.len};
    }
    cdz_buf_free(&one);
    return good;
}

/* It is closed with the check's process. */
cdz_status cdz_replay_tokens(cdz_child *c, const cdz_tokens **out, cdz_error *err)
{
    *out = NULL;
    if (!c->options->tokenizer) return CDZ_OK;
    cdz_tokens *tokens = cdz_arena_alloc(&c->memory, sizeof *tokens);
    if (!tokens) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    CDZ_TRY(cdz_tokenizer_open(c->options->tokenizer, &tokens->tokenizer, err));
    tokens->n = cdz_tokenizer_n_ids(tokens->tokenizer);
    tokens->texts = cdz_arena_array(&c->memory, tokens->n + 1u, sizeof *tokens->texts);
    if (!tokens->texts || !fill_texts(c, tokens)) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    *out = tokens;
    return CDZ_OK;
}

/* --- ids ----------------------------------------------------------------------------------------------------------- */

static cdz_status cut_for_model(cdz_child *c, const cdz_tokens *tokens, cdz_ids *out, cdz_error *err)
{
    cdz_string text;
    cdz_encoding encoding = {0};
    CDZ_TRY(cdz_replay_clean(c, &text, err));
    cdz_status st = cdz_tokenizer_encode(tokens->tokenizer, NULL, text.at, text.len,
                                         CDZ_ENCODE_PLAIN, &encoding, err);
    int32_t *ids = cdz_arena_array(&c->memory, encoding.n + 1, sizeof *ids);
    if (st == CDZ_OK && !ids) st = cdz_err(err, CDZ_E_NOMEM, "out of memory");
    if (st == CDZ_OK && encoding.n) memcpy(ids, encoding.ids, encoding.n * sizeof *ids);
    *out = (cdz_ids){ids, (uint32_t)encoding.n};
    cdz_encoding_free(&encoding);
    return st;
}

cdz_status cdz_replay_ids(cdz_child *c, const cdz_tokens *tokens, uint32_t n_vocab, cdz_ids *out,
                          cdz_error *err)
{
    cdz_string text;
    if (tokens) return cut_for_model(c, tokens, out, err);
    CDZ_TRY(cdz_replay_bytes(c, &text, err));
    int32_t *ids = cdz_arena_array(&c->memory, text.len + 1u, sizeof *ids);
    uint32_t n = 0;
    if (!ids) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (size_t at = 0, bytes; at < text.len; at += bytes)
        ids[n++] = cdz_probe_text_first_token(n_vocab, text.at + at, text.len - at, &bytes);
    *out = (cdz_ids){ids, n};
    return CDZ_OK;
}
