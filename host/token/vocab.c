/* vocab.c - reading the vocabulary and the added tokens, and looking both up.
 *
 * Owns: the tables from text to id and back, in the tokenizer's arena. Ids may have holes, a few (CDZ_VOCAB_MAX_HOLES); of a
 * list that has a token twice the later one counts, as in the reference. */
#include <math.h>

#include "token/vocab.h"

#include "token/unicode.h"

/* --- the byte alphabet ------------------------------------------------------------------------ */

/* Bytes that print as themselves; the others are U+0100, U+0101, ... in order. */
static bool prints_itself(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

uint32_t cdz_byte_to_code(uint8_t byte)
{
    if (prints_itself(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    if (byte <= 0xA0) return 0x100u + 0x21 + (byte - 0x7Fu);
    return 0x100u + 0x21 + 0x22;
}

int cdz_code_to_byte(uint32_t code)
{
    if (code < 0x100) return prints_itself(code) ? (int)code : -1;
    if (code <= 0x120) return (int)(code - 0x100);
    if (code <= 0x142) return (int)(code - 0x121 + 0x7F);
    return code == 0x143 ? 0xAD : -1;
}

bool cdz_byte_level_decode(const char *text, size_t len, char *out, size_t *n_out)
{
    size_t n = 0, size;
    for (size_t i = 0; i < len; i += size) {
        const int byte = cdz_code_to_byte(cdz_uc_code((const uint8_t *)text + i, &size));
        if (byte < 0) return false;
        out[n++] = (char)byte;
    }
    *n_out = n;
    return true;
}

/* --- the model's vocabulary ------------------------------------------------------------------- */

static cdz_status check_entry(const cdz_json_member *m, uint32_t n_tokens, cdz_error *err)
{
    if (!cdz_json_is(&m->value, CDZ_JSON_INT) || m->value.integer < 0)
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: model.vocab: the id of \"%.80s\" must be a whole number from 0",
                       m->value.line, m->key);
    if (m->value.integer >= (int64_t)n_tokens + CDZ_VOCAB_MAX_HOLES ||
        m->value.integer > INT32_MAX - 1)
        return cdz_err(err, CDZ_E_LIMIT,
                       "line %u: model.vocab: the id %lld of \"%.80s\" is far past the %u tokens "
                       "of the vocabulary; "
                       "at most %u ids may be unused",
                       m->value.line, (long long)m->value.integer, m->key, n_tokens,
                       CDZ_VOCAB_MAX_HOLES);
    return CDZ_OK;
}

cdz_status cdz_vocab_read_model(cdz_vocab *vocab, const cdz_json *tokens, cdz_arena *arena,
                                cdz_error *err)
{
    if (!cdz_json_is(tokens, CDZ_JSON_OBJECT))
        return cdz_err(err, CDZ_E_INPUT, "model.vocab is %s, expected an object of tokens and ids",
                       cdz_json_type_name(tokens));
    size_t bytes = 1;
    for (uint32_t i = 0; i < tokens->len; i++) bytes += (size_t)tokens->members[i].key_len + 1;
    char *pool = cdz_arena_alloc(arena, bytes);
    if (!pool || !cdz_strmap_init(&vocab->model, arena, tokens->len))
        return cdz_err(err, CDZ_E_NOMEM, "out of memory for %u tokens", tokens->len);
    for (uint32_t i = 0; i < tokens->len; i++) {
        const cdz_json_member *m = &tokens->members[i];
        bool found;
        CDZ_TRY(check_entry(m, tokens->len, err));
        memcpy(pool, m->key, m->key_len); /* the pool is zeroed: it ends in a NUL */
        cdz_strmap_put(&vocab->model, pool, m->key_len, (int32_t)m->value.integer, &found);
        if (found)
            return cdz_err(err, CDZ_E_INPUT, "line %u: model.vocab: \"%.80s\" is there twice",
                           m->value.line, m->key);
        if (m->value.integer >= vocab->n_ids) vocab->n_ids = (uint32_t)m->value.integer + 1;
        pool += m->key_len + 1;
    }
    vocab->n_model = vocab->model.n;
    return CDZ_OK;
}

/* A score of null, which only our own SentencePiece reader writes, is NaN. */
static bool is_scored(const cdz_json *entry, double *score)
{
    *score = NAN;
    if (cdz_json_is(entry, CDZ_JSON_ARRAY) && entry->len == 2 &&
        entry->items[1].type == CDZ_JSON_NULL)
        return cdz_json_is(&entry->items[0], CDZ_JSON_STRING);
    return cdz_json_is(entry, CDZ_JSON_ARRAY) && entry->len == 2 &&
           cdz_json_is(&entry->items[0], CDZ_JSON_STRING) &&
           cdz_json_number(&entry->items[1], score);
}

cdz_status cdz_vocab_read_scored(cdz_vocab *vocab, const cdz_json *list, cdz_arena *arena,
                                 cdz_error *err)
{
    if (!cdz_json_is(list, CDZ_JSON_ARRAY))
        return cdz_err(err, CDZ_E_INPUT, "model.vocab is %s, expected a list of tokens and scores",
                       cdz_json_type_name(list));
    double *scores = cdz_arena_array(arena, list->len + 1u, sizeof *scores);
    vocab->spelt = cdz_arena_array(arena, list->len + 1u, sizeof *vocab->spelt);
    if (!scores || !vocab->spelt || !cdz_strmap_init(&vocab->model, arena, list->len))
        return cdz_err(err, CDZ_E_NOMEM, "out of memory for %u tokens", list->len);
    for (uint32_t i = 0; i < list->len; i++) {
        const cdz_json *entry = &list->items[i];
        bool found;
        if (!is_scored(entry, &scores[i]))
            return cdz_err(err, CDZ_E_INPUT,
                           "line %u: model.vocab: entry %u is %s, expected [\"token\", score]",
                           entry->line, i, cdz_json_type_name(entry));
        const uint32_t len = entry->items[0].len;
        char *text = cdz_arena_strndup(arena, entry->items[0].string, len);
        if (!text) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
        vocab->spelt[i] = (cdz_strmap_entry){.text = text, .len = len, .id = (int32_t)i};
        cdz_strmap_put(&vocab->model, text, len, (int32_t)i, &found)->id = (int32_t)i;
    }
    vocab->scores = scores;
    vocab->n_scored = list->len;
    vocab->n_ids = vocab->n_model = list->len;
    return CDZ_OK;
}

cdz_status cdz_vocab_read_known(cdz_vocab *vocab, const cdz_json *model, cdz_error *err)
{
    const cdz_json *v = cdz_json_get(model, "n_known");
    if (!v) return CDZ_OK;
    if (!cdz_json_is(v, CDZ_JSON_INT) || v->integer < 1 || v->integer > vocab->n_ids)
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: model: \"n_known\" must be from 1 to the %u ids of the vocabulary",
                       v->line, vocab->n_ids);
    vocab->n_ids = (uint32_t)v->integer;
    if (vocab->n_model > vocab->n_ids) vocab->n_model = vocab->n_ids;
    return CDZ_OK;
}

/* --- added tokens ----------------------------------------------------------------------------- */

static cdz_status read_flag(const cdz_json *entry, const char *key, bool *out, cdz_error *err)
{
    const cdz_json *v = cdz_json_get(entry, key);
    if (v && !cdz_json_is(v, CDZ_JSON_BOOL))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: added_tokens: \"%s\" is %s, expected true or false", v->line, key,
                       cdz_json_type_name(v));
    *out = v && v->boolean;
    return CDZ_OK;
}

static cdz_status read_added_token(const cdz_json *entry, cdz_added_token *out, cdz_arena *arena,
                                   cdz_error *err)
{
    const cdz_json *content = cdz_json_get(entry, "content");
    if (!cdz_json_is(content, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: added_tokens: an entry is %s without a \"content\" string",
                       entry->line, cdz_json_type_name(entry));
    if (content->len > CDZ_ADDED_MAX_BYTES)
        return cdz_err(err, CDZ_E_LIMIT,
                       "line %u: added_tokens: a token of %u bytes; at most %d are supported",
                       content->line, content->len, CDZ_ADDED_MAX_BYTES);
    CDZ_TRY(read_flag(entry, "special", &out->special, err));
    CDZ_TRY(read_flag(entry, "normalized", &out->normalized, err));
    CDZ_TRY(read_flag(entry, "lstrip", &out->lstrip, err));
    CDZ_TRY(read_flag(entry, "rstrip", &out->rstrip, err));
    CDZ_TRY(read_flag(entry, "single_word", &out->single_word, err));
    out->len = content->len;
    out->text = cdz_arena_strndup(arena, content->string, content->len);
    return out->text ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "out of memory");
}

/* A token of the vocabulary keeps its id; others follow the highest added id, past the count of
 * the vocabulary. */
static int32_t assign_id(const cdz_vocab *vocab, const cdz_added_token *token, int64_t highest_added)
{
    const int32_t known = cdz_vocab_id(vocab, token->text, token->len);
    if (known >= 0) return known;
    return (int32_t)(highest_added >= vocab->n_model ? highest_added + 1 : vocab->n_model);
}

/* Reads the list into vocab->added and gives ids. Entries of one text share the id, and the last
 * one's flags. */
static cdz_status list_added(cdz_vocab *vocab, const cdz_json *list, cdz_arena *arena,
                             cdz_error *err)
{
    int64_t highest = -1;
    vocab->added = cdz_arena_array(arena, list->len + 1u, sizeof *vocab->added);
    if (!vocab->added || !cdz_strmap_init(&vocab->added_ids, arena, list->len))
        return cdz_err(err, CDZ_E_NOMEM, "out of memory for %u added tokens", list->len);
    for (uint32_t i = 0; i < list->len; i++) {
        cdz_added_token *token = &vocab->added[vocab->n_added];
        bool found;
        CDZ_TRY(read_added_token(&list->items[i], token, arena, err));
        if (token->len == 0) continue;
        token->id = assign_id(vocab, token, highest);
        if (token->id > highest) highest = token->id;
        if ((uint32_t)token->id >= vocab->n_ids) vocab->n_ids = (uint32_t)token->id + 1;
        cdz_strmap_put(&vocab->added_ids, token->text, token->len, token->id, &found);
        vocab->n_added++;
    }
    return CDZ_OK;
}

/* Fills vocab->tokens: the model's, then the added ones over them. */
static cdz_status index_tokens(cdz_vocab *vocab, cdz_arena *arena, cdz_error *err)
{
    vocab->tokens = cdz_arena_array(arena, vocab->n_ids + 1u, sizeof *vocab->tokens);
    if (!vocab->tokens)
        return cdz_err(err, CDZ_E_NOMEM, "out of memory for %u token ids", vocab->n_ids);
    for (uint32_t i = 0; i < vocab->n_model; i++) {
        const cdz_strmap_entry *e = vocab->spelt ? &vocab->spelt[i] : &vocab->model.entries[i];
        if ((uint32_t)e->id >= vocab->n_ids) continue; /* behind n_known */
        cdz_token *token = &vocab->tokens[e->id];
        if (token->text)
            return cdz_err(err, CDZ_E_INPUT,
                           "model.vocab: \"%.80s\" and \"%.80s\" have the same id %d", token->text,
                           e->text, e->id);
        *token = (cdz_token){.text = e->text, .len = e->len, .added = -1};
    }
    for (uint32_t i = 0; i < vocab->n_added; i++) {
        const cdz_added_token *a = &vocab->added[i];
        vocab->tokens[a->id] = (cdz_token){.text = a->text, .len = a->len, .added = (int32_t)i};
    }
    return CDZ_OK;
}

/* A token is special when any entry of its text is; the others of that text are not searched
 * for, only their flags count where they come last. */
static cdz_status mark_special(cdz_vocab *vocab, cdz_arena *arena, cdz_error *err)
{
    cdz_strmap special;
    bool found;
    if (!cdz_strmap_init(&special, arena, vocab->n_added))
        return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < vocab->n_added; i++) {
        const cdz_added_token *a = &vocab->added[i];
        if (a->special) cdz_strmap_put(&special, a->text, a->len, a->id, &found);
    }
    for (uint32_t i = 0; i < vocab->n_added; i++) {
        cdz_added_token *a = &vocab->added[i];
        const bool by_text = cdz_strmap_get(&special, a->text, a->len) >= 0;
        a->searched = a->special || !by_text;
        a->special = by_text;
        if (vocab->tokens[a->id].added == (int32_t)i) vocab->tokens[a->id].special = by_text;
    }
    return CDZ_OK;
}

static cdz_status decode_tokens(cdz_vocab *vocab, cdz_arena *arena, cdz_error *err)
{
    size_t bytes = 1;
    for (uint32_t id = 0; id < vocab->n_ids; id++) bytes += vocab->tokens[id].len;
    char *pool = cdz_arena_alloc(arena, bytes);
    if (!pool) return cdz_err(err, CDZ_E_NOMEM, "out of memory for %u tokens", vocab->n_ids);
    for (uint32_t id = 0; id < vocab->n_ids; id++) {
        cdz_token *token = &vocab->tokens[id];
        size_t n;
        if (!token->text) continue;
        const bool mapped = cdz_byte_level_decode(token->text, token->len, pool, &n);
        token->bytes = mapped ? pool : token->text;
        token->n_bytes = mapped ? (uint32_t)n : token->len;
        if (mapped) pool += n;
    }
    return CDZ_OK;
}

/* Puts a token into the trie that searches for it; flags are those of the last entry of its
 * text. */
static cdz_status add_to_search(cdz_vocab *vocab, const cdz_added_token *token,
                                const cdz_normalizer *normalizer, cdz_norm_work *work,
                                cdz_error *err)
{
    const int32_t last = vocab->tokens[token->id].added;
    cdz_trie *trie = token->normalized ? &vocab->normalized : &vocab->raw;
    const char *text = token->text;
    size_t len = token->len;
    if (token->normalized && normalizer->n > 0) {
        CDZ_TRY(cdz_normalizer_run(normalizer, work, (const uint8_t *)text, len, 0, err));
        text = (const char *)work->text.bytes;
        len = work->text.len;
    }
    if (len > CDZ_ADDED_MAX_BYTES)
        return cdz_err(
            err, CDZ_E_LIMIT,
            "added_tokens: \"%.40s\" has %zu bytes when normalized; at most %d are supported",
            token->text, len, CDZ_ADDED_MAX_BYTES);
    return cdz_trie_add(trie, text, len, last)
               ? CDZ_OK
               : cdz_err(err, CDZ_E_NOMEM, "out of memory for %u added tokens", vocab->n_added);
}

static cdz_status build_search(cdz_vocab *vocab, const cdz_normalizer *normalizer, cdz_error *err)
{
    cdz_norm_work work = {0};
    cdz_status st = CDZ_OK;
    cdz_meter meter;
    size_t bytes = 0;
    for (uint32_t i = 0; i < vocab->n_added; i++) bytes += vocab->added[i].len;
    cdz_meter_begin(&meter, bytes);
    work.meter = &meter;
    for (uint32_t i = 0; i < vocab->n_added && st == CDZ_OK; i++)
        if (vocab->added[i].searched)
            st = add_to_search(vocab, &vocab->added[i], normalizer, &work, err);
    cdz_norm_work_free(&work);
    return st;
}

cdz_status cdz_vocab_read_added(cdz_vocab *vocab, const cdz_json *list,
                                const cdz_normalizer *normalizer, cdz_arena *arena, cdz_error *err)
{
    static const cdz_json none = {.type = CDZ_JSON_ARRAY};
    if (!list || cdz_json_is(list, CDZ_JSON_NULL)) list = &none;
    if (!cdz_json_is(list, CDZ_JSON_ARRAY))
        return cdz_err(err, CDZ_E_INPUT, "added_tokens is %s, expected a list",
                       cdz_json_type_name(list));
    CDZ_TRY(list_added(vocab, list, arena, err));
    CDZ_TRY(index_tokens(vocab, arena, err));
    CDZ_TRY(mark_special(vocab, arena, err));
    CDZ_TRY(decode_tokens(vocab, arena, err));
    return build_search(vocab, normalizer, err);
}

void cdz_vocab_free(cdz_vocab *vocab)
{
    cdz_trie_free(&vocab->raw);
    cdz_trie_free(&vocab->normalized);
}

/* --- look-ups --------------------------------------------------------------------------------- */

int32_t cdz_vocab_id(const cdz_vocab *vocab, const char *text, size_t len)
{
    const int32_t added = cdz_strmap_get(&vocab->added_ids, text, len);
    const int32_t id = added >= 0 ? added : cdz_strmap_get(&vocab->model, text, len);
    return id < 0 || (uint32_t)id >= vocab->n_ids ? -1 : id;
}

const cdz_token *cdz_vocab_token(const cdz_vocab *vocab, int32_t id)
{
    if (id < 0 || (uint32_t)id >= vocab->n_ids || !vocab->tokens[id].text) return NULL;
    return &vocab->tokens[id];
}
