/* tekken.c - writing a tokenizer.json from Mistral's tekken.json.
 *
 * Its vocabulary is tiktoken's: bytes and a rank each. Two neighbours are merged whenever their bytes together are a token, the
 * lowest rank first; so the merges are all ways to put a token together of two others, and a merge's rank is the token that it
 * makes. The ids of special tokens come first, those of the vocabulary behind them; of a longer vocabulary only so much is
 * used as default_vocab_size has room for. */
#include "token/tekken.h"

#include <string.h>

#include "base/utf8.h"
#include "token/base64.h"
#include "token/strmap.h"
#include "token/vocab.h"

enum {
    N_BYTES = 256,
    MOST_TOKENS = 1 << 19,
    MOST_TOKEN_BYTES = 1024, /* bounds the search for halves */
    MOST_MERGES = 1 << 21,
};

#define BEGIN "<s>"

const char cdz_tekken_config[] =
    "{\"bos_token\":\"" BEGIN "\",\"eos_token\":\"</s>\",\"pad_token\":"
    "\"<pad>\",\"unk_token\":\"<unk>\"}";

/* Files of the first versions name none. */
static const char *const first_specials[] = {
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
};

typedef struct token {
    const uint8_t *bytes;
    uint32_t len;
    bool is_special_text; /* spelt as a special token, which is cut out of a text before */
} token;

typedef struct special {
    const char *text;
    uint32_t len;
} special;

typedef struct writer {
    const cdz_json *root, *pattern, *vocab;
    const char *name;
    cdz_arena arena;
    token *tokens;
    special *specials;
    uint32_t n, n_special;
    cdz_strmap ranks, special_ids; /* by bytes, by text */
    cdz_buf *out;
    cdz_error *err;
} writer;

/* --- counts ------------------------------------------------------------------------------------------------------- */

static cdz_status read_count(const writer *w, const cdz_json *config, const char *key,
                             uint32_t least, uint32_t *out)
{
    const cdz_json *v = cdz_json_get(config, key);
    if (!cdz_json_is(v, CDZ_JSON_INT) || v->integer < least || v->integer > MOST_TOKENS)
        return cdz_err(w->err, CDZ_E_INPUT, "%s: config: \"%s\" must be a number from %u to %d",
                       w->name, key, (unsigned)least, MOST_TOKENS);
    *out = (uint32_t)v->integer;
    return CDZ_OK;
}

/* num_vocab_tokens may be left out; the other two say what becomes of the list. */
static cdz_status read_counts(writer *w, const cdz_json *config)
{
    uint32_t listed = w->vocab->len, all;
    if (cdz_json_get(config, "num_vocab_tokens"))
        CDZ_TRY(read_count(w, config, "num_vocab_tokens", N_BYTES, &listed));
    if (listed != w->vocab->len)
        return cdz_err(w->err, CDZ_E_INPUT,
                       "%s: config: \"num_vocab_tokens\" is %u, \"vocab\" has %u entries", w->name,
                       (unsigned)listed, (unsigned)w->vocab->len);
    CDZ_TRY(read_count(w, config, "default_num_special_tokens", 1, &w->n_special));
    CDZ_TRY(read_count(w, config, "default_vocab_size", 1, &all));
    if (all < w->n_special + N_BYTES || all - w->n_special > listed)
        return cdz_err(
            w->err, CDZ_E_INPUT,
            "%s: config: \"default_vocab_size\" is %u, expected from %u to %u: %u special "
            "tokens, and from %d bytes to the %u entries of \"vocab\"",
            w->name, (unsigned)all, (unsigned)(w->n_special + N_BYTES),
            (unsigned)(w->n_special + listed), (unsigned)w->n_special, N_BYTES, (unsigned)listed);
    w->n = all - w->n_special;
    return CDZ_OK;
}

static cdz_status read_head(writer *w)
{
    const cdz_json *config = cdz_json_get(w->root, "config");
    w->vocab = cdz_json_get(w->root, "vocab");
    if (!cdz_json_is(config, CDZ_JSON_OBJECT) || !cdz_json_is(w->vocab, CDZ_JSON_ARRAY))
        return cdz_err(w->err, CDZ_E_INPUT,
                       "%s: is not a tekken.json: it has no object \"config\" and list \"vocab\"",
                       w->name);
    w->pattern = cdz_json_get(config, "pattern");
    if (!cdz_json_is(w->pattern, CDZ_JSON_STRING) || !w->pattern->len)
        return cdz_err(w->err, CDZ_E_INPUT,
                       "%s: config: \"pattern\" must be the expression that cuts a text into pieces",
                       w->name);
    return read_counts(w, config);
}

/* --- special tokens ----------------------------------------------------------------------------------------------- */

static cdz_status put_special(writer *w, uint32_t id, const char *text, size_t len)
{
    bool again;
    if (w->specials[id].text)
        return cdz_err(w->err, CDZ_E_INPUT,
                       "%s: special_tokens: rank %u is there twice, \"%.40s\" and \"%.40s\"",
                       w->name, (unsigned)id, w->specials[id].text, text);
    w->specials[id] = (special){text, (uint32_t)len};
    cdz_strmap_put(&w->special_ids, text, (uint32_t)len, (int32_t)id, &again);
    return !again ? CDZ_OK
                  : cdz_err(w->err, CDZ_E_INPUT, "%s: special_tokens: \"%.40s\" is there twice",
                            w->name, text);
}

static cdz_status take_special(writer *w, uint32_t i, const cdz_json *v)
{
    const cdz_json *rank = cdz_json_get(v, "rank"), *text = cdz_json_get(v, "token_str");
    if (!cdz_json_is(rank, CDZ_JSON_INT) || !cdz_json_is(text, CDZ_JSON_STRING) || !text->len)
        return cdz_err(w->err, CDZ_E_INPUT,
                       "%s: line %u: special_tokens: entry %u lacks a \"rank\" or a \"token_str\"",
                       w->name, v->line, (unsigned)i);
    if (rank->integer < 0 || rank->integer >= w->n_special)
        return cdz_err(w->err, CDZ_E_INPUT,
                       "%s: line %u: special_tokens: \"%.40s\" has rank %lld, expected 0 to %u "
                       "(\"default_num_special_tokens\")",
                       w->name, v->line, text->string, (long long)rank->integer,
                       (unsigned)w->n_special - 1);
    return put_special(w, (uint32_t)rank->integer, text->string, text->len);
}

static cdz_status take_listed(writer *w)
{
    const cdz_json *list = cdz_json_get(w->root, "special_tokens");
    const uint32_t n_first = sizeof first_specials / sizeof *first_specials;
    if (!list || list->type == CDZ_JSON_NULL) {
        for (uint32_t i = 0; i < n_first && i < w->n_special; i++)
            CDZ_TRY(put_special(w, i, first_specials[i], strlen(first_specials[i])));
        return CDZ_OK;
    }
    if (list->type != CDZ_JSON_ARRAY)
        return cdz_err(w->err, CDZ_E_INPUT, "%s: line %u: \"special_tokens\" is %s, expected a list",
                       w->name, list->line, cdz_json_type_name(list));
    for (uint32_t i = 0; i < list->len; i++) CDZ_TRY(take_special(w, i, &list->items[i]));
    return CDZ_OK;
}

/* Ids that no entry names are <SPECIAL_id>. */
static cdz_status read_specials(writer *w)
{
    w->specials = cdz_arena_array(&w->arena, w->n_special, sizeof *w->specials);
    if (!w->specials || !cdz_strmap_init(&w->special_ids, &w->arena, w->n_special))
        return cdz_err_memory_in(w->err, w->name);
    memset(w->specials, 0, w->n_special * sizeof *w->specials);
    CDZ_TRY(take_listed(w));
    for (uint32_t i = 0; i < w->n_special; i++) {
        if (w->specials[i].text) continue;
        const char *text = cdz_arena_printf(&w->arena, "<SPECIAL_%u>", (unsigned)i);
        if (!text) return cdz_err_memory_in(w->err, w->name);
        CDZ_TRY(put_special(w, i, text, strlen(text)));
    }
    if (cdz_strmap_get(&w->special_ids, BEGIN, strlen(BEGIN)) >= 0) return CDZ_OK;
    return cdz_err(w->err, CDZ_E_INPUT,
                   "%s: special_tokens: there is no \"" BEGIN "\", with which a text begins",
                   w->name);
}

/* --- the vocabulary ----------------------------------------------------------------------------------------------- */

static cdz_status wrong_entry(const writer *w, uint32_t i, const char *what)
{
    return cdz_err(w->err, CDZ_E_INPUT, "%s: line %u: vocab: entry %u %s", w->name,
                   w->vocab->items[i].line, (unsigned)i, what);
}

/* The bytes of the spelling that a tokenizer.json has for a token are its own in another alphabet. */
static bool is_special_text(const writer *w, const token *t)
{
    const int32_t id = cdz_strmap_get(&w->special_ids, (const char *)t->bytes, t->len);
    bool printable = true;
    for (uint32_t i = 0; i < t->len; i++)
        printable = printable && t->bytes[i] > 32 && t->bytes[i] < 127;
    return id >= 0 && printable;
}

static cdz_status take_token(writer *w, uint32_t i)
{
    const cdz_json *entry = &w->vocab->items[i], *rank = cdz_json_get(entry, "rank"),
                   *text = cdz_json_get(entry, "token_bytes");
    bool again;
    if (!cdz_json_is(rank, CDZ_JSON_INT) || !cdz_json_is(text, CDZ_JSON_STRING))
        return wrong_entry(w, i, "lacks a \"rank\" or \"token_bytes\"");
    if (rank->integer != i)
        return cdz_err(w->err, CDZ_E_INPUT,
                       "%s: line %u: vocab: entry %u has rank %lld, expected %u: ranks count from 0",
                       w->name, entry->line, (unsigned)i, (long long)rank->integer, (unsigned)i);
    uint8_t *bytes = cdz_arena_alloc(&w->arena, (size_t)text->len / 4 * 3 + 4);
    if (!bytes) return cdz_err_memory_in(w->err, w->name);
    const size_t len = cdz_base64_decode(text->string, text->len, bytes);
    if (len == SIZE_MAX) return wrong_entry(w, i, "has \"token_bytes\" that are not base64");
    if (len < 1 || len > MOST_TOKEN_BYTES)
        return wrong_entry(w, i, "has \"token_bytes\" of none or more than 1024 bytes");
    if (i < N_BYTES && (len != 1 || *bytes != i))
        return wrong_entry(w, i, "is not the byte of its rank; the first 256 are the single bytes");
    w->tokens[i] = (token){.bytes = bytes, .len = (uint32_t)len};
    w->tokens[i].is_special_text = is_special_text(w, &w->tokens[i]);
    cdz_strmap_put(&w->ranks, (const char *)bytes, (uint32_t)len, (int32_t)i, &again);
    return again ? wrong_entry(w, i, "has the bytes of an earlier one") : CDZ_OK;
}

static cdz_status read_vocab(writer *w)
{
    w->tokens = cdz_arena_array(&w->arena, w->n, sizeof *w->tokens);
    if (!w->tokens || !cdz_strmap_init(&w->ranks, &w->arena, w->n))
        return cdz_err_memory_in(w->err, w->name);
    for (uint32_t i = 0; i < w->n; i++) CDZ_TRY(take_token(w, i));
    return CDZ_OK;
}

/* --- writing ------------------------------------------------------------------------------------------------------- */

/* In the alphabet of bytes. */
static void put_bytes(writer *w, const uint8_t *bytes, size_t n)
{
    char text[2 * MOST_TOKEN_BYTES];
    size_t len = 0;
    for (size_t i = 0; i < n; i++) len += cdz_utf8_encode(cdz_byte_to_code(bytes[i]), text + len);
    cdz_json_write_string(w->out, text, len);
}

static void write_specials(writer *w)
{
    cdz_buf_puts(w->out, "\"added_tokens\":[");
    for (uint32_t i = 0; i < w->n_special; i++) {
        cdz_buf_printf(w->out, "%s{\"id\":%u,\"content\":", i ? "," : "", (unsigned)i);
        cdz_json_write_string(w->out, w->specials[i].text, w->specials[i].len);
        cdz_buf_puts(w->out, ",\"special\":true,\"normalized\":false,\"single_word\":false,"
                             "\"lstrip\":false,\"rstrip\":false}");
    }
    cdz_buf_puts(w->out, "],");
}

static void write_cutting(writer *w)
{
    static const char begin[] = "{\"SpecialToken\":{\"id\":\"" BEGIN "\",\"type_id\":";
    cdz_buf_puts(w->out, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                         "\"Split\",\"behavior\":\"Isolated\",\"invert\":false,\"pattern\":{"
                         "\"Regex\":");
    cdz_json_write_string(w->out, w->pattern->string, w->pattern->len);
    cdz_buf_puts(w->out,
                 "}},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"
                 "\"use_regex\":false}]},\"decoder\":{\"type\":\"ByteLevel\"},");
    cdz_buf_printf(w->out,
                   "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[%s0}},"
                   "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[%s0}},"
                   "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},%s1}},"
                   "{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}],",
                   begin, begin, begin);
    cdz_buf_printf(w->out,
                   "\"special_tokens\":{\"" BEGIN "\":{\"id\":\"" BEGIN "\",\"ids\":[%d],"
                   "\"tokens\":[\"" BEGIN "\"]}}},",
                   (int)cdz_strmap_get(&w->special_ids, BEGIN, strlen(BEGIN)));
}

static void write_vocab(writer *w)
{
    cdz_buf_puts(w->out, "\"vocab\":{");
    for (uint32_t i = 0; i < w->n_special; i++) {
        cdz_json_write_string(w->out, w->specials[i].text, w->specials[i].len);
        cdz_buf_printf(w->out, ":%u,", (unsigned)i);
    }
    for (uint32_t i = 0; i < w->n; i++) { /* the first is a byte, never left out */
        if (w->tokens[i].is_special_text) continue;
        if (i) cdz_buf_putc(w->out, ',');
        put_bytes(w, w->tokens[i].bytes, w->tokens[i].len);
        cdz_buf_printf(w->out, ":%u", (unsigned)(w->n_special + i));
    }
    cdz_buf_puts(w->out, "},");
}

static bool is_token(const writer *w, const uint8_t *bytes, size_t len)
{
    const int32_t rank = cdz_strmap_get(&w->ranks, (const char *)bytes, len);
    return rank >= 0 && !w->tokens[rank].is_special_text;
}

/* All ways to halve each token, where both halves are tokens. */
static cdz_status write_merges(writer *w)
{
    size_t n = 0;
    cdz_buf_puts(w->out, "\"merges\":[");
    for (uint32_t i = 0; i < w->n && !w->out->failed; i++) {
        const token *t = &w->tokens[i];
        for (uint32_t k = 1; k < t->len && !t->is_special_text; k++) {
            if (!is_token(w, t->bytes, k) || !is_token(w, t->bytes + k, t->len - k)) continue;
            if (n == MOST_MERGES)
                return cdz_err(w->err, CDZ_E_LIMIT,
                               "%s: its tokens can be halved in more than %d ways", w->name,
                               MOST_MERGES);
            cdz_buf_puts(w->out, n++ ? ",[" : "[");
            put_bytes(w, t->bytes, k);
            cdz_buf_putc(w->out, ',');
            put_bytes(w, t->bytes + k, t->len - k);
            cdz_buf_putc(w->out, ']');
        }
    }
    cdz_buf_putc(w->out, ']');
    return CDZ_OK;
}

static cdz_status write_tokenizer(writer *w)
{
    CDZ_TRY(read_head(w));
    CDZ_TRY(read_specials(w));
    CDZ_TRY(read_vocab(w));
    cdz_buf_putc(w->out, '{');
    write_specials(w);
    write_cutting(w);
    cdz_buf_puts(w->out,
                 "\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"one_rank_each\":true,");
    write_vocab(w);
    CDZ_TRY(write_merges(w));
    cdz_buf_puts(w->out, "}}");
    return w->out->failed ? cdz_err_memory_in(w->err, w->name) : CDZ_OK;
}

cdz_status cdz_tokenizer_json_of_tekken(const cdz_json *root, const char *name, cdz_buf *out,
                                        cdz_error *err)
{
    writer w = {.root = root, .name = name, .out = out, .err = err};
    const cdz_status status = write_tokenizer(&w);
    cdz_arena_free(&w.arena);
    return status;
}
