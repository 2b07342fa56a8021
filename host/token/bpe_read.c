/* bpe_read.c - the "model" part of a tokenizer.json: BPE over bytes. */
#include "base/utf8.h"
#include "token/parts.h"

/* --- the switches ----------------------------------------------------------------------------- */

static cdz_status refuse_text(const cdz_json *model, const char *key, cdz_error *err)
{
    const cdz_json *v = cdz_json_get(model, key);
    if (!v || cdz_json_is(v, CDZ_JSON_NULL) || (cdz_json_is(v, CDZ_JSON_STRING) && v->len == 0))
        return CDZ_OK;
    return cdz_err(err, CDZ_E_UNSUPPORTED,
                   "line %u: model: BPE with \"%s\"; supported: byte-level BPE without it", v->line,
                   key);
}

static cdz_status read_switch(const cdz_json *model, const char *key, bool *out, cdz_error *err)
{
    const cdz_json *v = cdz_json_get(model, key);
    *out = cdz_json_is(v, CDZ_JSON_BOOL) && v->boolean;
    if (!v || cdz_json_is(v, CDZ_JSON_BOOL) || cdz_json_is(v, CDZ_JSON_NULL)) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT, "line %u: model: \"%s\" is %s, expected true or false",
                   v->line, key, cdz_json_type_name(v));
}

static cdz_status read_unk(cdz_bpe *bpe, const cdz_json *model, const cdz_vocab *vocab,
                           cdz_error *err)
{
    const cdz_json *unk = cdz_json_get(model, "unk_token");
    bpe->unk_id = -1;
    if (!unk || cdz_json_is(unk, CDZ_JSON_NULL)) return CDZ_OK;
    if (!cdz_json_is(unk, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT, "line %u: model: \"unk_token\" is %s, expected a string",
                       unk->line, cdz_json_type_name(unk));
    bpe->unk_id = cdz_strmap_get(&vocab->model, unk->string, unk->len);
    return CDZ_OK;
}

/* The token of each byte. An unk that is not in the vocabulary matters only where a byte has no
 * token. */
static cdz_status read_bytes(cdz_bpe *bpe, const cdz_json *model, const cdz_vocab *vocab,
                             bool byte_fallback, cdz_error *err)
{
    const cdz_json *unk = cdz_json_get(model, "unk_token");
    unsigned missing = 0;
    for (unsigned b = 0; b < 256; b++) {
        char text[4];
        const size_t n = cdz_utf8_encode(cdz_byte_to_code((uint8_t)b), text);
        bpe->byte_id[b] = cdz_strmap_get(&vocab->model, text, n);
        if (bpe->byte_id[b] < 0) missing++;
    }
    if (missing && byte_fallback)
        return cdz_err(
            err, CDZ_E_UNSUPPORTED,
            "model: \"byte_fallback\" with %u of 256 bytes missing from the vocabulary; supported: "
            "byte-level BPE with every byte",
            missing);
    if (missing && cdz_json_is(unk, CDZ_JSON_STRING) && bpe->unk_id < 0)
        return cdz_err(err, CDZ_E_INPUT,
                       "model: %u of 256 bytes are missing from the vocabulary, and so is the "
                       "\"unk_token\" \"%.80s\"",
                       missing, unk->string);
    return CDZ_OK;
}

static cdz_status refuse_dropout(const cdz_json *model, cdz_error *err)
{
    const cdz_json *v = cdz_json_get(model, "dropout");
    double value;
    if (!v || cdz_json_is(v, CDZ_JSON_NULL) || (cdz_json_number(v, &value) && value <= 0))
        return CDZ_OK;
    return cdz_err(err, CDZ_E_UNSUPPORTED,
                   "line %u: model: BPE with \"dropout\"; supported: null or 0", v->line);
}

/* --- merges ----------------------------------------------------------------------------------- */

typedef struct merge_text {
    const char *left, *right;
    size_t n_left, n_right;
} merge_text;

/* A merge is "a b" with one space, or ["a", "b"]. */
static bool split_merge(const cdz_json *v, merge_text *out)
{
    if (cdz_json_is(v, CDZ_JSON_ARRAY)) {
        if (v->len != 2 || !cdz_json_is(&v->items[0], CDZ_JSON_STRING) ||
            !cdz_json_is(&v->items[1], CDZ_JSON_STRING))
            return false;
        *out =
            (merge_text){v->items[0].string, v->items[1].string, v->items[0].len, v->items[1].len};
        return true;
    }
    if (!cdz_json_is(v, CDZ_JSON_STRING) || v->len == 0) return false;
    const char *space = memchr(v->string, ' ', v->len);
    if (!space) return false;
    const size_t n_left = (size_t)(space - v->string), n_right = v->len - n_left - 1;
    *out = (merge_text){v->string, space + 1, n_left, n_right};
    return !memchr(space + 1, ' ', n_right);
}

static cdz_status merge_id(const cdz_vocab *vocab, const char *text, size_t len, uint32_t line,
                           int32_t *id, cdz_error *err)
{
    *id = cdz_strmap_get(&vocab->model, text, len);
    if (*id >= 0) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT, "line %u: model.merges: \"%.*s\" is not in the vocabulary",
                   line, (int)(len < 80 ? len : 80), text);
}

static cdz_status add_merge(cdz_bpe *bpe, const cdz_vocab *vocab, const cdz_json *v, uint32_t rank,
                            cdz_buf *joined, cdz_error *err)
{
    merge_text m;
    int32_t left, right, made;
    if (!split_merge(v, &m))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: model.merges: entry %u is %s, expected \"a b\" or [\"a\", \"b\"]",
                       v->line, rank, cdz_json_type_name(v));
    CDZ_TRY(merge_id(vocab, m.left, m.n_left, v->line, &left, err));
    CDZ_TRY(merge_id(vocab, m.right, m.n_right, v->line, &right, err));
    cdz_buf_clear(joined);
    cdz_buf_add(joined, m.left, m.n_left);
    cdz_buf_add(joined, m.right, m.n_right);
    if (joined->failed) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    CDZ_TRY(merge_id(vocab, joined->data ? joined->data : "", joined->len, v->line, &made, err));
    cdz_bpe_put_pair(bpe, left, right, rank, made);
    return CDZ_OK;
}

static cdz_status read_merges(cdz_bpe *bpe, const cdz_json *merges, const cdz_vocab *vocab,
                              cdz_arena *arena, cdz_error *err)
{
    if (!cdz_json_is(merges, CDZ_JSON_ARRAY))
        return cdz_err(err, CDZ_E_INPUT, "model.merges is %s, expected a list",
                       cdz_json_type_name(merges));
    if (!cdz_bpe_init_pairs(bpe, arena, merges->len))
        return cdz_err(err, CDZ_E_NOMEM, "out of memory for %u merges", merges->len);
    cdz_buf joined = {0};
    cdz_status st = CDZ_OK;
    for (uint32_t i = 0; i < merges->len && st == CDZ_OK; i++)
        st = add_merge(bpe, vocab, &merges->items[i], i, &joined, err);
    cdz_buf_free(&joined);
    return st;
}

/* --- whole words ------------------------------------------------------------------------------ */

/* The model's tokens by their bytes. vocab->tokens may hold an added token over a model's id, so
 * the bytes are taken from the text again. */
static cdz_status index_words(cdz_bpe *bpe, const cdz_vocab *vocab, cdz_arena *arena,
                              cdz_error *err)
{
    const cdz_strmap *model = &vocab->model;
    size_t bytes = 1;
    for (uint32_t i = 0; i < model->n; i++) bytes += model->entries[i].len;
    char *pool = cdz_arena_alloc(arena, bytes);
    if (!pool || !cdz_strmap_init(&bpe->words, arena, model->n))
        return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < model->n; i++) {
        const cdz_strmap_entry *e = &model->entries[i];
        size_t n;
        bool found;
        if (!cdz_byte_level_decode(e->text, e->len, pool, &n)) continue;
        cdz_strmap_put(&bpe->words, pool, (uint32_t)n, e->id, &found);
        pool += n;
    }
    return CDZ_OK;
}

cdz_status cdz_bpe_read(cdz_bpe *bpe, const cdz_json *model, const cdz_vocab *vocab,
                        cdz_arena *arena, cdz_error *err)
{
    bool byte_fallback;
    CDZ_TRY(refuse_text(model, "continuing_subword_prefix", err));
    CDZ_TRY(refuse_text(model, "end_of_word_suffix", err));
    CDZ_TRY(refuse_dropout(model, err));
    CDZ_TRY(read_switch(model, "fuse_unk", &bpe->fuse_unk, err));
    CDZ_TRY(read_switch(model, "byte_fallback", &byte_fallback, err));
    CDZ_TRY(read_switch(model, "ignore_merges", &bpe->ignore_merges, err));
    CDZ_TRY(read_unk(bpe, model, vocab, err));
    CDZ_TRY(read_bytes(bpe, model, vocab, byte_fallback, err));
    CDZ_TRY(read_merges(bpe, cdz_json_get(model, "merges"), vocab, arena, err));
    return bpe->ignore_merges ? index_words(bpe, vocab, arena, err) : CDZ_OK;
}
