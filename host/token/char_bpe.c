/* char_bpe.c - BPE over characters: what is not in the vocabulary becomes its bytes' tokens, unk, or
 * nothing. The merging is that of byte-level BPE. */
#include <stdlib.h>

#include "token/model.h"
#include "token/unicode.h"

typedef struct symbols {
    const cdz_tok_model *model;
    cdz_tok_model_work *work;
    cdz_bpe_symbol *at;
    uint32_t n;
    size_t place;     /* in the piece as the tokens' lengths add up */
    size_t unk_bytes; /* of the unknown that is held back; 0: none is */
} symbols;

static void put_symbol(symbols *s, int32_t id, size_t bytes)
{
    s->at[s->n] = (cdz_bpe_symbol){.id = id, .begin = (uint32_t)s->place};
    s->place += bytes;
    s->work->ends[s->n++] = (uint32_t)s->place;
}

static void flush_unknown(symbols *s)
{
    if (s->unk_bytes) put_symbol(s, s->model->unk_id, s->unk_bytes);
    s->unk_bytes = 0;
}

/* The character with the prefix and the suffix around it. */
static const char *dress(const symbols *s, const uint8_t *at, size_t size, bool first, bool last,
                         size_t *len)
{
    const cdz_tok_model *m = s->model;
    char *out = s->work->joined;
    size_t n = 0;
    if (!first && m->prefix_len) memcpy(out, m->prefix, n = m->prefix_len);
    memcpy(out + n, at, size);
    n += size;
    const char *behind = last ? m->suffix : m->inner;
    const size_t n_behind = last ? m->suffix_len : m->inner_len;
    if (n_behind) memcpy(out + n, behind, n_behind);
    *len = n + n_behind;
    return out;
}

static bool put_bytes(symbols *s, const char *text, size_t n)
{
    const cdz_tok_model *m = s->model;
    if (!m->byte_fallback) return false;
    for (size_t i = 0; i < n; i++)
        if (m->byte_id[(uint8_t)text[i]] < 0) return false;
    for (size_t i = 0; i < n; i++) put_symbol(s, m->byte_id[(uint8_t)text[i]], 1);
    return true;
}

/* An unknown held back comes after bytes that follow it, as in the reference. */
static void put_char(symbols *s, const cdz_bpe *bpe, const char *text, size_t len, size_t size)
{
    const int32_t id = cdz_strmap_get(s->model->words, text, len);
    if (id >= 0) {
        flush_unknown(s);
        put_symbol(s, id, size);
        return;
    }
    if (put_bytes(s, text, len) || s->model->unk_id < 0) return;
    if (!bpe->fuse_unk) flush_unknown(s);
    s->unk_bytes += size;
}

static bool reserve(cdz_tok_model_work *w, const cdz_tok_model *model, size_t n)
{
    const size_t around = (size_t)model->prefix_len + model->suffix_len + model->inner_len + 4,
                 most = n + around;
    if (around > w->joined_cap) {
        char *joined = realloc(w->joined, around);
        if (!joined) return false;
        w->joined = joined;
        w->joined_cap = around;
    }
    if (most > w->ends_cap) {
        uint32_t *ends = most > SIZE_MAX / 2 / sizeof *ends
                             ? NULL
                             : realloc(w->ends, (most + most / 2) * sizeof *ends);
        if (!ends) return false;
        w->ends = ends;
        w->ends_cap = most + most / 2;
    }
    return cdz_bpe_reserve(&w->bpe, most);
}

/* How many symbols n bytes can make: each character's bytes, and what is put around it. */
static size_t most_symbols(const cdz_tok_model *model, const uint8_t *t, size_t n)
{
    size_t most = n + model->suffix_len;
    const size_t each = (size_t)model->prefix_len + model->inner_len;
    if (model->byte_fallback && each)
        for (size_t i = 0; i < n; i++)
            if ((t[i] & 0xC0) != 0x80) most += each;
    return most;
}

cdz_status cdz_char_bpe_run(const cdz_tok_model *model, const cdz_bpe *bpe, cdz_tok_model_work *w,
                            const uint8_t *t, size_t n, cdz_error *err)
{
    const int32_t whole = bpe->ignore_merges ? cdz_strmap_get(model->words, (const char *)t, n) : -1;
    const size_t most = most_symbols(model, t, n);
    bool ok = whole < 0 || cdz_tok_model_put(w, whole, 0, n);
    if (whole >= 0 && ok) return CDZ_OK;
    if (ok && most > (uint64_t)n * CDZ_METER_REWRITTEN + CDZ_METER_REWRITTEN_IN)
        return cdz_err(err, CDZ_E_LIMIT,
                       "what is put around characters may make %zu symbols of %zu bytes", most, n);
    if (!ok || most > INT32_MAX || !reserve(w, model, most))
        return cdz_err(err, CDZ_E_NOMEM, "out of memory for %zu bytes", n);
    symbols s = {.model = model, .work = w, .at = w->bpe.symbols};
    size_t size, len;
    for (size_t i = 0; i < n; i += size) {
        cdz_uc_code(t + i, &size);
        const char *text = dress(&s, t + i, size, i == 0, i + size == n, &len);
        put_char(&s, bpe, text, len, size);
    }
    flush_unknown(&s);
    ok = cdz_bpe_merge(bpe, &w->bpe, s.n);
    for (uint32_t i = 0, next; i < s.n && ok; i = next) {
        next = w->bpe.symbols[i].next;
        ok = cdz_tok_model_put(w, w->bpe.symbols[i].id, w->bpe.symbols[i].begin, w->ends[next - 1]);
    }
    return ok ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "out of memory for %zu bytes", n);
}
