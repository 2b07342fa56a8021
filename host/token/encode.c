/* encode.c - text to ids: added tokens, normalizer, cuts, model, template. The middle of it is that
 * of byte-level BPE; other tokenizers' is in encode_chars.c. */
#include <stdlib.h>

#include "base/utf8.h"
#include "token/parts.h"

/* --- working memory --------------------------------------------------------------------------- */

cdz_tokenizer_scratch *cdz_tokenizer_scratch_new(void)
{
    return calloc(1, sizeof(cdz_tokenizer_scratch));
}

void cdz_tokenizer_scratch_free(cdz_tokenizer_scratch *s)
{
    if (!s) return;
    cdz_bpe_work_free(&s->bpe);
    cdz_nfc_free(&s->nfc);
    cdz_norm_work_free(&s->by_chars.norm);
    cdz_cut_work_free(&s->by_chars.cut);
    cdz_tok_model_work_free(&s->by_chars.model);
    free(s->cache);
    free(s->prefixed);
    free(s->chars);
    free(s->begins);
    free(s);
}

void cdz_encoding_free(cdz_encoding *e)
{
    free(e->ids);
    free(e->offsets);
    *e = (cdz_encoding){0};
}

/* Room for n items of a growing array; false when memory is out. */
static bool reserve_words(uint32_t **array, size_t *cap, size_t n)
{
    if (n <= *cap) return true;
    const size_t want = n + n / 2 + 64;
    uint32_t *p = want > SIZE_MAX / sizeof *p ? NULL : realloc(*array, want * sizeof *p);
    if (!p) return false;
    *array = p;
    *cap = want;
    return true;
}

static bool reserve_bytes(uint8_t **array, size_t *cap, size_t n)
{
    if (n <= *cap) return true;
    uint8_t *p = realloc(*array, n + n / 2 + 64);
    if (!p) return false;
    *array = p;
    *cap = n + n / 2 + 64;
    return true;
}

static bool reserve_ids(cdz_encoding *e, size_t more)
{
    if (more <= e->cap - e->n) return true;
    const size_t cap = e->n + more + (e->n + more) / 2 + 64;
    int32_t *ids = cap > SIZE_MAX / sizeof *ids ? NULL : realloc(e->ids, cap * sizeof *ids);
    if (!ids) return false;
    e->ids = ids;
    e->cap = cap;
    return true;
}

static bool reserve_offsets(cdz_encoding *e)
{
    if (e->cap <= e->offsets_cap) return true;
    cdz_token_span *p = realloc(e->offsets, e->cap * sizeof *p);
    if (!p) return false;
    e->offsets = p;
    e->offsets_cap = e->cap;
    return true;
}

bool cdz_encoding_reserve(cdz_encoding *e, size_t more, bool offsets)
{
    return reserve_ids(e, more) && (!offsets || reserve_offsets(e));
}

/* --- one call --------------------------------------------------------------------------------- */

/* Text in which pieces are counted, and how its bytes lead back to the original. */
typedef struct source {
    const uint8_t *text;
    const cdz_align *align; /* per byte, counted from base; NULL: byte i of text is byte base + i */
    size_t base;            /* of text in the original */
    bool prefixed;          /* byte 0 is an extra space that stands for what byte 1 does */
} source;

typedef struct encoder {
    const cdz_tokenizer *tok;
    cdz_tokenizer_scratch *scratch;
    cdz_encoding *out;
    bool plain, offsets;
    source source;
    uint32_t split; /* the cut that comes next */
} encoder;

static uint32_t first_char(const encoder *e, size_t i)
{
    const source *s = &e->source;
    if (s->prefixed && i > 0) i--;
    return e->scratch->chars[s->base + (s->align ? s->align[i].begin : i)];
}

/* The end of the span of the character that byte i belongs to. */
static uint32_t char_after(const encoder *e, size_t i)
{
    const source *s = &e->source;
    if (s->prefixed && i > 0) i--;
    const size_t end = s->align ? s->align[i].end : i + 1;
    return end == 0 ? 0 : e->scratch->chars[s->base + end - 1] + 1;
}

cdz_token_span cdz_trim_span(const cdz_postproc *post, bool first, cdz_token_span span,
                             uint32_t leading, uint32_t trailing)
{
    if (leading == 1 && post->add_prefix_space && (first || span.begin == 0)) leading = 0;
    if (leading > 0) span.begin = span.begin + leading < span.end ? span.begin + leading : span.end;
    if (trailing > 0 && span.end >= trailing)
        span.end = span.end - trailing > span.begin ? span.end - trailing : span.begin;
    return span;
}

static bool put_span(encoder *e, size_t begin, size_t end, uint32_t leading, uint32_t trailing)
{
    cdz_encoding *out = e->out;
    const cdz_postproc *post = &e->tok->postproc;
    if (!reserve_offsets(out)) return false;
    cdz_token_span span = {first_char(e, begin), char_after(e, end - 1)};
    if (post->trim_offsets) span = cdz_trim_span(post, out->n == 0, span, leading, trailing);
    out->offsets[out->n] = span;
    return true;
}

/* The span of the model's token that comes next in the output. It is spelt as its bytes [begin,
 * end) of text, of which only the space counts as whitespace: parts of other characters do not. */
static bool put_piece_span(encoder *e, const uint8_t *text, size_t begin, size_t end)
{
    uint32_t leading = 0, trailing = 0;
    while (begin + leading < end && text[begin + leading] == ' ') leading++;
    while (begin + trailing < end && text[end - 1 - trailing] == ' ') trailing++;
    return put_span(e, begin, end, leading, trailing);
}

static bool is_space(const uint8_t *at, size_t *size)
{
    return cdz_uc_code(at, size) == 0x120 || cdz_uc_at(at, size) & CDZ_UC_SPACE;
}

void cdz_count_spaces(const uint8_t *text, size_t n, uint32_t *leading, uint32_t *trailing)
{
    size_t size;
    *leading = *trailing = 0;
    for (size_t i = 0; i < n && is_space(text + i, &size); i += size) ++*leading;
    for (const uint8_t *at = text + n; at > text; ++*trailing) {
        at = cdz_uc_before(at);
        if (!is_space(at, &size)) break;
    }
}

/* The span of the added token that comes next in the output, which is spelt as the text it
 * matched. U+0120, the byte alphabet's space, counts as whitespace to the reference there too. */
static bool put_match_span(encoder *e, const uint8_t *text, size_t begin, size_t end)
{
    uint32_t leading, trailing;
    cdz_count_spaces(text + begin, end - begin, &leading, &trailing);
    return put_span(e, begin, end, leading, trailing);
}

/* --- pieces ----------------------------------------------------------------------------------- */

static bool encode_with_offsets(encoder *e, const uint8_t *text, size_t begin, size_t end)
{
    cdz_encoding *out = e->out;
    cdz_tokenizer_scratch *s = e->scratch;
    if (!reserve_words(&s->begins, &s->begins_cap, end - begin + 1)) return false;
    const size_t n = cdz_bpe_encode(&e->tok->bpe, &s->bpe, text + begin, end - begin,
                                    out->ids + out->n, s->begins);
    if (n == SIZE_MAX) return false;
    for (size_t i = 0; i < n; i++, out->n++) {
        const size_t last = i + 1 < n ? s->begins[i + 1] : end - begin;
        if (!put_piece_span(e, text, begin + s->begins[i], begin + last)) return false;
    }
    return true;
}

static bool encode_uncached(encoder *e, const uint8_t *piece, size_t n)
{
    cdz_encoding *out = e->out;
    const size_t n_ids =
        cdz_bpe_encode(&e->tok->bpe, &e->scratch->bpe, piece, n, out->ids + out->n, NULL);
    if (n_ids == SIZE_MAX) return false;
    out->n += n_ids;
    return true;
}

/* The model on one piece, by way of the cache. */
static bool encode_piece(encoder *e, const uint8_t *text, size_t begin, size_t end)
{
    const uint8_t *piece = text + begin;
    const size_t n = end - begin;
    cdz_encoding *out = e->out;
    if (!reserve_ids(out, n)) return false;
    if (e->offsets) return encode_with_offsets(e, text, begin, end);
    if (n > CDZ_CACHE_BYTES) return encode_uncached(e, piece, n);
    cdz_cached_piece *slot = &e->scratch->cache[cdz_hash(piece, n, 0) >> 32 & (CDZ_CACHE_SLOTS - 1)];
    if (slot->n_bytes == n && memcmp(slot->bytes, piece, n) == 0) {
        for (unsigned i = 0; i < slot->n_ids; i++) out->ids[out->n + i] = slot->ids[i];
        out->n += slot->n_ids;
        return true;
    }
    const size_t first = out->n;
    if (!encode_uncached(e, piece, n)) return false;
    if (out->n - first <= CDZ_CACHE_IDS) {
        slot->n_bytes = (uint8_t)n;
        slot->n_ids = (uint8_t)(out->n - first);
        memcpy(slot->bytes, piece, n);
        memcpy(slot->ids, out->ids + first, slot->n_ids * sizeof *slot->ids);
    }
    return true;
}

static bool next_cut(void *context, const uint8_t *text, size_t begin, size_t end);

/* add_prefix_space: the piece goes on as a copy with a space before it. */
static bool cut_prefixed(encoder *e, const uint8_t *text, size_t begin, size_t end)
{
    cdz_tokenizer_scratch *s = e->scratch;
    const size_t n = end - begin;
    if (!reserve_bytes(&s->prefixed, &s->prefixed_cap, n + 1)) return false;
    s->prefixed[0] = ' ';
    memcpy(s->prefixed + 1, text + begin, n);
    const source kept = e->source;
    e->source.prefixed = true;
    if (kept.align)
        e->source.align += begin;
    else
        e->source.base += begin;
    const bool ok = next_cut(e, s->prefixed, 0, n + 1);
    e->source = kept;
    return ok;
}

/* Gives text[begin, end) to the next cut, or to the model after the last one. */
static bool next_cut(void *context, const uint8_t *text, size_t begin, size_t end)
{
    encoder *e = context;
    const cdz_pretok *pretok = &e->tok->pretok;
    const bool prefix_here = pretok->add_prefix_space && e->split == pretok->n_before_prefix;
    if (prefix_here && !e->source.prefixed && text[begin] != ' ')
        return cut_prefixed(e, text, begin, end);
    if (e->split == pretok->n) return encode_piece(e, text, begin, end);
    const cdz_split *split = &pretok->splits[e->split++];
    const bool ok = cdz_split_run(split, text, begin, end, &e->scratch->meter, next_cut, e);
    e->split--;
    return ok;
}

/* --- added tokens and the normalizer ---------------------------------------------------------- */

static bool add_match(encoder *e, const cdz_added_match *m)
{
    cdz_encoding *out = e->out;
    if (!reserve_ids(out, 1)) return false;
    out->ids[out->n] = e->tok->vocab.added[m->token].id;
    if (e->offsets && !put_match_span(e, e->source.text, m->begin, m->end)) return false;
    out->n++;
    return true;
}

/* Calls `between` for each stretch of text[0, n) without an added token of the trie, and writes
 * the tokens. */
static bool split_added(encoder *e, const cdz_trie *trie, const uint8_t *text, size_t n,
                        cdz_piece_fn between)
{
    size_t from = 0, done = 0, last = 0;
    cdz_added_match m;
    cdz_meter *meter = &e->scratch->meter;
    while (cdz_added_next(trie, e->tok->vocab.added, text, n, e->plain, meter, &from, &done, &m)) {
        if (m.begin > last && !between(e, text, last, m.begin)) return false;
        if (!add_match(e, &m)) return false;
        last = m.end;
    }
    if (meter->spent) return false;
    return last >= n || between(e, text, last, n);
}

/* A stretch of the original text without raw added tokens: normalised, searched for normalized
 * ones, cut. */
static bool encode_stretch(void *context, const uint8_t *text, size_t begin, size_t end)
{
    encoder *e = context;
    cdz_nfc *nfc = &e->scratch->nfc;
    const source kept = e->source;
    size_t n = end - begin;
    e->source = (source){.text = text + begin, .base = begin};
    if (e->tok->nfc && !cdz_nfc_is_normal(text + begin, n)) {
        if (!cdz_nfc_run(nfc, text + begin, n, e->offsets)) return false;
        e->source.text = nfc->text;
        e->source.align = e->offsets ? nfc->align : NULL;
        n = nfc->len;
    }
    e->split = 0;
    const bool ok = split_added(e, &e->tok->vocab.normalized, e->source.text, n, next_cut);
    e->source = kept;
    return ok;
}

/* --- the template ----------------------------------------------------------------------------- */

static bool put_ids(encoder *e, const int32_t *ids, size_t n)
{
    cdz_encoding *out = e->out;
    if (!reserve_ids(out, n)) return false;
    if (n > 0) memcpy(out->ids + out->n, ids, n * sizeof *ids);
    if (e->offsets && n > 0) {
        if (!reserve_offsets(out)) return false;
        memset(out->offsets + out->n, 0, n * sizeof *out->offsets);
    }
    out->n += n;
    return true;
}

enum { MOST_ADDED = 1 << 24 }; /* ids, by a template that repeats its text */

/* How many ids the template makes of n: a text may stand in it more than once. */
static uint64_t template_ids(const cdz_postproc *post, size_t n)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < post->n_parts; i++)
        if (__builtin_add_overflow(total, post->parts[i].ids ? post->parts[i].n_ids : n, &total))
            return UINT64_MAX;
    return total;
}

/* The template around the ids of the text, which are all that out holds. */
static bool apply_template(encoder *e, const cdz_postproc *post)
{
    cdz_encoding *out = e->out;
    const cdz_encoding body = *out;
    *out = (cdz_encoding){0};
    bool ok = reserve_ids(out, body.n + post->n_special);
    for (uint32_t i = 0; i < post->n_parts && ok; i++) {
        const cdz_template_part *part = &post->parts[i];
        const size_t at = out->n;
        ok = part->ids ? put_ids(e, part->ids, part->n_ids) : put_ids(e, body.ids, body.n);
        if (ok && !part->ids && e->offsets && body.n > 0)
            memcpy(out->offsets + at, body.offsets, body.n * sizeof *body.offsets);
    }
    free(body.ids);
    free(body.offsets);
    return ok;
}

/* --- the call --------------------------------------------------------------------------------- */

static bool prepare(encoder *e, const uint8_t *text, size_t len)
{
    cdz_tokenizer_scratch *s = e->scratch;
    if (!e->offsets) {
        if (!e->tok->over_bytes) return true;
        if (!s->cache) s->cache = calloc(CDZ_CACHE_SLOTS, sizeof *s->cache);
        return s->cache != NULL;
    }
    if (!reserve_words(&s->chars, &s->chars_cap, len + 1)) return false;
    uint32_t index = 0;
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (text[i] & 0xC0) != 0x80) index++;
        s->chars[i] = index;
    }
    s->chars[len] = len > 0 ? index + 1 : 0;
    return true;
}

static cdz_status check_text(const char *text, size_t len, cdz_error *err)
{
    if (len > CDZ_TEXT_MAX_BYTES)
        return cdz_err(err, CDZ_E_LIMIT,
                       "the text has %zu bytes; at most %zu can be tokenized at once", len,
                       CDZ_TEXT_MAX_BYTES);
    const size_t valid = cdz_utf8_valid_prefix(text, len);
    if (valid < len)
        return cdz_err(err, CDZ_E_INPUT,
                       "the text is not UTF-8: byte 0x%02X at offset %zu begins no valid character",
                       (unsigned)(uint8_t)text[valid], valid);
    return CDZ_OK;
}

static cdz_status encode(encoder *e, const uint8_t *text, size_t len, bool special, cdz_error *err)
{
    const cdz_postproc *post = &e->tok->postproc;
    e->out->n = 0;
    e->source = (source){.text = text};
    cdz_meter_begin(&e->scratch->meter, len);
    bool ok = prepare(e, text, len);
    if (ok && e->tok->over_bytes) {
        ok = split_added(e, &e->tok->vocab.raw, text, len, encode_stretch);
    } else if (ok) {
        const cdz_encode_job job = {e->tok, e->scratch, e->out, e->plain, e->offsets};
        CDZ_TRY(cdz_encode_by_chars(&job, text, len, err));
    }
    if (special && post->parts && ok) {
        const uint64_t ids = template_ids(post, e->out->n);
        if (ids > e->out->n && ids - e->out->n > MOST_ADDED)
            return cdz_err(err, CDZ_E_LIMIT,
                           "the post_processor makes %llu ids of %zu; it may add %d at most",
                           (unsigned long long)ids, e->out->n, MOST_ADDED);
        ok = apply_template(e, post);
    }
    if (ok) return CDZ_OK;
    if (e->scratch->meter.spent) return cdz_added_spent(len, err);
    return cdz_err(err, CDZ_E_NOMEM, "out of memory to tokenize %zu bytes", len);
}

cdz_status cdz_tokenizer_encode(const cdz_tokenizer *tok, cdz_tokenizer_scratch *scratch,
                                const char *text, size_t len, unsigned flags, cdz_encoding *out,
                                cdz_error *err)
{
    CDZ_TRY(check_text(text, len, err));
    cdz_tokenizer_scratch *own = scratch ? NULL : cdz_tokenizer_scratch_new();
    if (!scratch) scratch = own;
    if (!scratch) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    if (scratch->tok && scratch->tok != tok)
        return cdz_err(err, CDZ_E_USAGE, "this working memory belongs to another tokenizer");
    scratch->tok = tok;
    encoder e = {.tok = tok,
                 .scratch = scratch,
                 .out = out,
                 .plain = flags & CDZ_ENCODE_PLAIN,
                 .offsets = flags & CDZ_ENCODE_OFFSETS};
    const cdz_status st = encode(&e, (const uint8_t *)text, len, flags & CDZ_ENCODE_SPECIAL, err);
    cdz_tokenizer_scratch_free(own);
    return st;
}
