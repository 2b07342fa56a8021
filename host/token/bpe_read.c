/* bpe_read.c - the "model" part of a tokenizer.json: BPE over bytes, and the merges of any BPE. */
#include "base/utf8.h"
#include "token/json_flag.h"
#include "token/parts.h"

/* --- the switches ----------------------------------------------------------------------------- */

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

static int32_t byte_token(const cdz_vocab *vocab, unsigned byte)
{
    char text[4];
    const size_t n = cdz_utf8_encode(cdz_byte_to_code((uint8_t)byte), text);
    return cdz_strmap_get(&vocab->model, text, n);
}

bool cdz_bpe_has_bytes(const cdz_vocab *vocab)
{
    for (unsigned b = 0; b < 256; b++)
        if (byte_token(vocab, b) < 0) return false;
    return true;
}

/* The token of each byte. An unk that is not in the vocabulary matters only where a byte has no
 * token. */
static cdz_status read_bytes(cdz_bpe *bpe, const cdz_json *model, const cdz_vocab *vocab,
                             cdz_error *err)
{
    const cdz_json *unk = cdz_json_get(model, "unk_token");
    unsigned missing = 0;
    for (unsigned b = 0; b < 256; b++) {
        bpe->byte_id[b] = byte_token(vocab, b);
        if (bpe->byte_id[b] < 0) missing++;
    }
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

/* One merge on its way through the steps of a block. */
typedef struct merge {
    const char *left, *right;
    size_t n_left, n_right;
    uint32_t left_hash, right_hash;
} merge;

/* Merges are read in blocks, step by step, so that the cache misses of their look-ups overlap. */
enum { MERGE_BLOCK = 32 };

/* What merges are read with. */
typedef struct merge_reader {
    cdz_bpe *bpe;
    const cdz_vocab *vocab;
    bool one_rank; /* neighbours that make the same token have one rank: only readers of ours say so */
    int32_t last_made;
    uint32_t last_rank;
    size_t prefix_len; /* continuing_subword_prefix, which the right part of a merge loses */
    size_t inner_len;  /* of what is behind symbols inside a word, which the left part loses */
    uint32_t guess;    /* the entry of the vocabulary that the next merge makes, most likely */
    cdz_buf joined;
} merge_reader;

/* A merge is "a b" with one space, or ["a", "b"]. */
static bool split_merge(const cdz_json *v, merge *out)
{
    if (cdz_json_is(v, CDZ_JSON_ARRAY)) {
        if (v->len != 2 || !cdz_json_is(&v->items[0], CDZ_JSON_STRING) ||
            !cdz_json_is(&v->items[1], CDZ_JSON_STRING))
            return false;
        *out = (merge){.left = v->items[0].string,
                       .right = v->items[1].string,
                       .n_left = v->items[0].len,
                       .n_right = v->items[1].len};
        return true;
    }
    if (!cdz_json_is(v, CDZ_JSON_STRING) || v->len == 0) return false;
    const char *space = memchr(v->string, ' ', v->len);
    if (!space) return false;
    const size_t n_left = (size_t)(space - v->string), n_right = v->len - n_left - 1;
    *out = (merge){.left = v->string, .right = space + 1, .n_left = n_left, .n_right = n_right};
    return !memchr(space + 1, ' ', n_right);
}

static cdz_status unknown_token(const char *text, size_t len, uint32_t line, cdz_error *err)
{
    return cdz_err(err, CDZ_E_INPUT, "line %u: model.merges: \"%.*s\" is not in the vocabulary",
                   line, (int)(len < 80 ? len : 80), text);
}

static bool is_joined(const cdz_strmap_entry *e, const merge *m, size_t skip)
{
    return e->len == m->n_left + m->n_right - skip && memcmp(e->text, m->left, m->n_left) == 0 &&
           memcmp(e->text + m->n_left, m->right + skip, m->n_right - skip) == 0;
}

/* The id of what a merge makes. Vocabularies list those tokens in the order of the merges. */
static cdz_status made_id(merge_reader *r, const merge *m, uint32_t line, int32_t *id,
                          cdz_error *err)
{
    const cdz_strmap *tokens = &r->vocab->model;
    const cdz_strmap_entry *e = &tokens->entries[r->guess];
    if (r->guess >= tokens->n || !is_joined(e, m, r->prefix_len)) {
        cdz_buf_clear(&r->joined);
        cdz_buf_add(&r->joined, m->left, m->n_left);
        cdz_buf_add(&r->joined, m->right + r->prefix_len, m->n_right - r->prefix_len);
        if (r->joined.failed) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
        const char *text = r->joined.data ? r->joined.data : "";
        e = cdz_strmap_find(tokens, text, r->joined.len,
                            cdz_strmap_hash(tokens, text, r->joined.len));
        if (!e) return unknown_token(text, r->joined.len, line, err);
    }
    r->guess = (uint32_t)(e - tokens->entries) + 1;
    *id = e->id;
    return CDZ_OK;
}

static cdz_status add_merge(merge_reader *r, const merge *m, uint32_t line, uint32_t rank,
                            cdz_error *err)
{
    const cdz_strmap *tokens = &r->vocab->model;
    const cdz_strmap_entry *left = cdz_strmap_find(tokens, m->left, m->n_left, m->left_hash);
    const cdz_strmap_entry *right = cdz_strmap_find(tokens, m->right, m->n_right, m->right_hash);
    int32_t made = -1;
    if (!left) return unknown_token(m->left, m->n_left, line, err);
    if (!right) return unknown_token(m->right, m->n_right, line, err);
    if (m->n_right < r->prefix_len)
        return cdz_err(
            err, CDZ_E_INPUT,
            "line %u: model.merges: \"%.*s\" is shorter than the continuing_subword_prefix", line,
            (int)m->n_right, m->right);
    if (m->n_left < r->inner_len)
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: model.merges: \"%.*s\" is shorter than the inner_suffix", line,
                       (int)m->n_left, m->left);
    merge both = *m;
    both.n_left -= r->inner_len;
    CDZ_TRY(made_id(r, &both, line, &made, err));
    if (!r->one_rank || made != r->last_made) r->last_rank = rank;
    r->last_made = made;
    cdz_bpe_put_pair(r->bpe, left->id, right->id, r->last_rank, made);
    return CDZ_OK;
}

/* Merges [first, first + n) of the list. One that is no merge ends the block before it. */
static cdz_status add_block(merge_reader *r, const cdz_json *items, uint32_t first, uint32_t n,
                            cdz_error *err)
{
    const cdz_strmap *tokens = &r->vocab->model;
    merge block[MERGE_BLOCK];
    uint32_t good = 0;
    for (; good < n && split_merge(&items[good], &block[good]); good++) {
        merge *m = &block[good];
        m->left_hash = cdz_strmap_hash(tokens, m->left, m->n_left);
        m->right_hash = cdz_strmap_hash(tokens, m->right, m->n_right);
    }
    for (uint32_t i = 0; i < good; i++) {
        cdz_strmap_prefetch(tokens, block[i].left_hash);
        cdz_strmap_prefetch(tokens, block[i].right_hash);
    }
    for (uint32_t i = 0; i < good; i++)
        CDZ_TRY(add_merge(r, &block[i], items[i].line, first + i, err));
    if (good == n) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT,
                   "line %u: model.merges: entry %u is %s, expected \"a b\" or [\"a\", \"b\"]",
                   items[good].line, first + good, cdz_json_type_name(&items[good]));
}

static cdz_status read_merges(cdz_bpe *bpe, const cdz_json *model, const cdz_vocab *vocab,
                              cdz_arena *arena, cdz_error *err)
{
    const cdz_json *merges = cdz_json_get(model, "merges"),
                   *prefix = cdz_json_get(model, "continuing_subword_prefix"),
                   *inner = cdz_json_get(model, "inner_suffix");
    merge_reader reader = {.bpe = bpe, .vocab = vocab, .last_made = -1};
    CDZ_TRY(cdz_json_flag(model, "model", "one_rank_each", false, &reader.one_rank, err));
    if (!cdz_json_is(merges, CDZ_JSON_ARRAY))
        return cdz_err(err, CDZ_E_INPUT, "model.merges is %s, expected a list",
                       cdz_json_type_name(merges));
    if (!cdz_bpe_init_pairs(bpe, arena, merges->len))
        return cdz_err(err, CDZ_E_NOMEM, "out of memory for %u merges", merges->len);
    if (cdz_json_is(prefix, CDZ_JSON_STRING)) reader.prefix_len = prefix->len;
    if (cdz_json_is(inner, CDZ_JSON_STRING)) reader.inner_len = inner->len;
    cdz_status st = CDZ_OK;
    for (uint32_t i = 0; i < merges->len && st == CDZ_OK; i += MERGE_BLOCK) {
        const uint32_t left = merges->len - i, n = left < MERGE_BLOCK ? left : MERGE_BLOCK;
        st = add_block(&reader, merges->items + i, i, n, err);
    }
    cdz_buf_free(&reader.joined);
    return st;
}

/* --- whole words ------------------------------------------------------------------------------ */

/* The model's tokens by their bytes. vocab->tokens may hold an added token over a model's id, so
 * the bytes are taken from the text again. */
static cdz_status index_words(cdz_bpe *bpe, const cdz_vocab *vocab, cdz_arena *arena, cdz_error *err)
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

cdz_status cdz_bpe_read(cdz_bpe *bpe, const cdz_json *model, bool over_bytes,
                        const cdz_vocab *vocab, cdz_arena *arena, cdz_error *err)
{
    CDZ_TRY(refuse_dropout(model, err));
    CDZ_TRY(cdz_json_flag(model, "model", "fuse_unk", false, &bpe->fuse_unk, err));
    CDZ_TRY(cdz_json_flag(model, "model", "ignore_merges", false, &bpe->ignore_merges, err));
    CDZ_TRY(read_merges(bpe, model, vocab, arena, err));
    if (!over_bytes) return CDZ_OK;
    CDZ_TRY(read_unk(bpe, model, vocab, err));
    CDZ_TRY(read_bytes(bpe, model, vocab, err));
    return bpe->ignore_merges ? index_words(bpe, vocab, arena, err) : CDZ_OK;
}
