/* model_read.c - the "model" part of a tokenizer.json, for models over characters. */
#include <math.h>

#include "token/json_flag.h"
#include "token/model.h"

static const char *const default_unk[] = {
    [CDZ_MODEL_WORDPIECE] = "[UNK]", [CDZ_MODEL_WORDLEVEL] = "<unk>"};

static cdz_status read_text(const cdz_json *part, const char *key, const char *absent,
                            const char **out, uint32_t *len, cdz_arena *arena, cdz_error *err)
{
    const cdz_json *v = cdz_json_get(part, key);
    const bool none = !v || cdz_json_is(v, CDZ_JSON_NULL);
    if (!none && !cdz_json_is(v, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT, "line %u: model: \"%s\" is %s, expected a string", v->line,
                       key, cdz_json_type_name(v));
    *len = none ? (uint32_t)strlen(absent) : v->len;
    *out = cdz_arena_strndup(arena, none ? absent : v->string, *len);
    return *out ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "out of memory");
}

static void find_bytes(cdz_tok_model *model)
{
    static const char digits[] = "0123456789ABCDEF";
    for (unsigned b = 0; b < 256; b++) {
        const char text[] = {'<', '0', 'x', digits[b >> 4], digits[b & 15], '>'};
        model->byte_id[b] = cdz_strmap_get(model->words, text, sizeof text);
    }
}

/* The unk of a model that names it by its text; absent from the vocabulary it matters only where
 * it is needed. */
static cdz_status read_unk_text(cdz_tok_model *model, const cdz_json *part, cdz_arena *arena,
                                cdz_error *err)
{
    const char *text;
    uint32_t len;
    CDZ_TRY(read_text(part, "unk_token", default_unk[model->kind], &text, &len, arena, err));
    model->unk_id = cdz_strmap_get(model->words, text, len);
    return CDZ_OK;
}

static cdz_status read_wordpiece(cdz_tok_model *model, const cdz_json *part, cdz_arena *arena,
                                 cdz_error *err)
{
    const cdz_json *max = cdz_json_get(part, "max_input_chars_per_word");
    CDZ_TRY(read_unk_text(model, part, arena, err));
    CDZ_TRY(read_text(part, "continuing_subword_prefix", "##", &model->prefix, &model->prefix_len,
                      arena, err));
    model->max_chars = 100;
    if (max && (!cdz_json_is(max, CDZ_JSON_INT) || max->integer < 0))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: model: \"max_input_chars_per_word\" must be a whole number from 0",
                       max->line);
    if (max) model->max_chars = max->integer > INT32_MAX ? INT32_MAX : (uint32_t)max->integer;
    CDZ_TRY(cdz_byte_trie_build(&model->trie, model->words, arena, err));
    model->prefix_node = CDZ_TRIE_ROOT;
    for (uint32_t i = 0; i < model->prefix_len && model->prefix_node; i++)
        model->prefix_node =
            cdz_byte_trie_child(&model->trie, model->prefix_node, (uint8_t)model->prefix[i]);
    return CDZ_OK;
}

static cdz_status read_unigram(cdz_tok_model *model, const cdz_json *part, const cdz_vocab *vocab,
                               cdz_arena *arena, cdz_error *err)
{
    const cdz_json *unk = cdz_json_get(part, "unk_id");
    double lowest = NAN;
    if (unk && !cdz_json_is(unk, CDZ_JSON_NULL)) {
        if (!cdz_json_is(unk, CDZ_JSON_INT) || unk->integer < 0 || unk->integer >= vocab->n_model)
            return cdz_err(
                err, CDZ_E_INPUT,
                "line %u: model: \"unk_id\" must be one of the %u tokens of the vocabulary",
                unk->line, vocab->n_model);
        model->unk_id = (int32_t)unk->integer;
    }
    CDZ_TRY(cdz_json_flag(part, "model", "byte_fallback", false, &model->byte_fallback, err));
    CDZ_TRY(cdz_json_flag(part, "model", "float32", false, &model->float32, err));
    find_bytes(model);
    for (uint32_t i = 0; i < vocab->n_scored; i++)
        if (isnan(lowest) || vocab->scores[i] < lowest) lowest = vocab->scores[i];
    model->scores = vocab->scores;
    model->unk_score = (isnan(lowest) ? 0 : lowest) - 10; /* the reference's kUnkPenalty */
    return cdz_byte_trie_build(&model->trie, model->words, arena, err);
}

static cdz_status read_bpe(cdz_tok_model *model, const cdz_json *part, cdz_arena *arena,
                           cdz_error *err)
{
    const cdz_json *unk = cdz_json_get(part, "unk_token");
    CDZ_TRY(cdz_json_flag(part, "model", "byte_fallback", false, &model->byte_fallback, err));
    find_bytes(model);
    CDZ_TRY(read_text(part, "continuing_subword_prefix", "", &model->prefix, &model->prefix_len,
                      arena, err));
    CDZ_TRY(
        read_text(part, "end_of_word_suffix", "", &model->suffix, &model->suffix_len, arena, err));
    CDZ_TRY(read_text(part, "inner_suffix", "", &model->inner, &model->inner_len, arena, err));
    if (model->prefix_len > CDZ_ADDED_MAX_BYTES || model->suffix_len > CDZ_ADDED_MAX_BYTES ||
        model->inner_len > CDZ_ADDED_MAX_BYTES)
        return cdz_err(err, CDZ_E_LIMIT, "model: a prefix or suffix of more than %d bytes",
                       CDZ_ADDED_MAX_BYTES);
    if (!unk || cdz_json_is(unk, CDZ_JSON_NULL)) return CDZ_OK;
    if (!cdz_json_is(unk, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT, "line %u: model: \"unk_token\" is %s, expected a string",
                       unk->line, cdz_json_type_name(unk));
    model->unk_id = cdz_strmap_get(model->words, unk->string, unk->len);
    if (model->unk_id >= 0) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT,
                   "line %u: model: the \"unk_token\" \"%.80s\" is not in the vocabulary",
                   unk->line, unk->string);
}

cdz_status cdz_tok_model_read(cdz_tok_model *model, const cdz_json *part, const cdz_vocab *vocab,
                              cdz_arena *arena, cdz_error *err)
{
    model->words = &vocab->model;
    model->unk_id = -1;
    model->n_known = cdz_json_get(part, "n_known") ? (int32_t)vocab->n_ids : INT32_MAX;
    switch (model->kind) {
    case CDZ_MODEL_BPE: return read_bpe(model, part, arena, err);
    case CDZ_MODEL_UNIGRAM: return read_unigram(model, part, vocab, arena, err);
    case CDZ_MODEL_WORDPIECE: return read_wordpiece(model, part, arena, err);
    case CDZ_MODEL_WORDLEVEL: break;
    }
    return read_unk_text(model, part, arena, err);
}
