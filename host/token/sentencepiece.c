/* sentencepiece.c - writing a tokenizer.json from a SentencePiece model, a message in protocol buffers' form.
 *
 * What is made of the pieces is the reference's (transformers 5): LlamaTokenizer and GemmaTokenizer read BPE, whose merges are
 * all ways to put a piece together of two others, in the order of ids; T5Tokenizer reads Unigram, with the file's own map
 * of characters. MarianTokenizer cuts by source.spm and numbers by vocab.json, which has the tokens of both languages. */
#include "token/sentencepiece.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "token/strmap.h"

enum {
    MOST_PIECES = 1 << 19,
    MOST_PIECE_BYTES = 1024, /* bounds the search for halves */
    MOST_MERGES = 1 << 21,
    MOST_ADDED = 1 << 13, /* beyond the pieces */
    T5_EXTRA_IDS = 100,
};

/* type of a piece */
enum { CONTROL = 3, USER_DEFINED = 4 };
/* model_type */
enum { UNIGRAM = 1, BPE = 2 };

typedef enum way { LLAMA, GEMMA, T5, MARIAN } way; /* Unigram from T5 on */

static const struct {
    const char *name;
    way way;
} classes[] = {
    {"LlamaTokenizer", LLAMA},     {"LlamaTokenizerFast", LLAMA}, {"GemmaTokenizer", GEMMA},
    {"GemmaTokenizerFast", GEMMA}, {"T5Tokenizer", T5},           {"T5TokenizerFast", T5},
    {"MT5Tokenizer", T5},          {"MT5TokenizerFast", T5},      {"MarianTokenizer", MARIAN},
};

/* Special tokens that a class has unless the file says otherwise. */
static const struct {
    const char *key, *of[4];
} roles[] = {{"unk_token", {"<unk>", "<unk>", "<unk>", "<unk>"}},
             {"bos_token", {"<s>", "<bos>", NULL, NULL}},
             {"eos_token", {"</s>", "<eos>", "</s>", "</s>"}},
             {"pad_token", {NULL, "<pad>", "<pad>", "<pad>"}},
             {"mask_token", {NULL, "<mask>", NULL, NULL}}};

typedef struct piece {
    const char *text;
    uint32_t len;
    float score; /* NaN: no text is cut into it */
    uint32_t type;
} piece;

typedef struct span {
    const uint8_t *at, *end;
} span;

/* One field of a message. */
typedef struct field {
    uint32_t number;
    uint64_t value; /* of a number */
    span body;      /* of bytes */
} field;

typedef struct writer {
    const char *name;
    const cdz_json *config, *numbers; /* or NULL */
    cdz_arena arena;
    piece *pieces;
    uint32_t n;
    uint64_t model_type, unk_id;
    span charsmap;
    way way;
    cdz_strmap ids;          /* of pieces and of what is added */
    uint32_t n_ids, n_extra; /* all; and T5's own beyond the pieces, which its model has too */
    uint8_t *added;          /* of each id: 0, or 1 + special */
    const char **more;       /* texts of ids from n on */
    cdz_buf *out;
    cdz_error *err;
} writer;

static cdz_status no_memory(const writer *w)
{
    return cdz_err(w->err, CDZ_E_NOMEM, "%s: out of memory", w->name);
}

static cdz_status broken(const writer *w)
{
    return cdz_err(
        w->err, CDZ_E_INPUT,
        "%s: is not a SentencePiece model, or is cut off; a tokenizer.json beside it would "
        "be read in its place, and --no-tokenizer does without",
        w->name);
}

/* --- messages ------------------------------------------------------------------------------------------------ */

static bool read_number(span *s, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && s->at < s->end; shift += 7) {
        const uint8_t byte = *s->at++;
        *out |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

static bool read_fixed(span *s, unsigned n, uint64_t *out)
{
    *out = 0;
    if ((size_t)(s->end - s->at) < n) return false;
    for (unsigned i = 0; i < n; i++) *out |= (uint64_t)*s->at++ << 8 * i;
    return true;
}

/* False: the end, or *good is false. */
static bool next_field(span *s, field *f, bool *good)
{
    uint64_t key;
    if (s->at == s->end) return false;
    *good = read_number(s, &key) && key >> 3 > 0 && key >> 3 < 1 << 29;
    if (!*good) return false;
    *f = (field){.number = (uint32_t)(key >> 3)};
    switch (key & 7) {
    case 0: *good = read_number(s, &f->value); break;
    case 1: *good = read_fixed(s, 8, &f->value); break;
    case 2:
        *good = read_number(s, &f->value) && f->value <= (uint64_t)(s->end - s->at);
        if (!*good) return false;
        f->body = (span){s->at, s->at + f->value};
        s->at += f->value;
        break;
    case 5: *good = read_fixed(s, 4, &f->value); break;
    default: *good = false;
    }
    return *good;
}

static bool read_piece(span s, piece *p)
{
    field f;
    bool good = true;
    *p = (piece){.type = 1};
    while (next_field(&s, &f, &good)) {
        if (f.number == 1) {
            p->text = (const char *)f.body.at;
            p->len = (uint32_t)(f.body.end - f.body.at);
        } else if (f.number == 2) {
            const uint32_t bits = (uint32_t)f.value;
            memcpy(&p->score, &bits, sizeof bits);
        } else if (f.number == 3) {
            p->type = (uint32_t)f.value;
        }
    }
    return good && p->text;
}

static bool read_trainer(writer *w, span s)
{
    field f;
    bool good = true;
    while (next_field(&s, &f, &good)) {
        if (f.number == 3) w->model_type = f.value;
        if (f.number == 40) w->unk_id = f.value;
    }
    return good;
}

static bool read_normalizer(writer *w, span s)
{
    field f;
    bool good = true;
    while (next_field(&s, &f, &good))
        if (f.number == 2) w->charsmap = f.body;
    return good;
}

static cdz_status take_piece(writer *w, span body)
{
    piece *p = &w->pieces[w->n];
    bool again;
    if (!read_piece(body, p)) return broken(w);
    if (!p->len || p->len > MOST_PIECE_BYTES || !cdz_utf8_valid(p->text, p->len))
        return cdz_err(w->err, CDZ_E_INPUT, "%s: piece %u is not a text of 1 to %d bytes in UTF-8",
                       w->name, (unsigned)w->n, MOST_PIECE_BYTES);
    if (p->score != p->score || p->score - p->score != 0)
        return cdz_err(w->err, CDZ_E_INPUT, "%s: piece %u has a score that is no number", w->name,
                       (unsigned)w->n);
    cdz_strmap_put(&w->ids, p->text, p->len, (int32_t)w->n, &again);
    if (again)
        return cdz_err(w->err, CDZ_E_INPUT, "%s: piece %u is there twice", w->name, (unsigned)w->n);
    w->n++;
    return CDZ_OK;
}

static cdz_status read_model(writer *w, span all)
{
    field f;
    bool good = true;
    size_t n = 0;
    for (span s = all; next_field(&s, &f, &good);) n += f.number == 1;
    if (!good || !n) return broken(w);
    if (n > MOST_PIECES)
        return cdz_err(w->err, CDZ_E_LIMIT, "%s: has %zu pieces, at most %d are possible", w->name,
                       n, MOST_PIECES);
    w->pieces = cdz_arena_array(&w->arena, n, sizeof *w->pieces);
    w->added = cdz_arena_array(&w->arena, n + MOST_ADDED, sizeof *w->added);
    w->more = cdz_arena_array(&w->arena, MOST_ADDED, sizeof *w->more);
    if (!w->pieces || !w->added || !w->more ||
        !cdz_strmap_init(&w->ids, &w->arena, (uint32_t)n + MOST_ADDED))
        return no_memory(w);
    memset(w->added, 0, n + MOST_ADDED);
    w->model_type = UNIGRAM;
    for (span s = all; next_field(&s, &f, &good);) {
        if (f.number == 1) CDZ_TRY(take_piece(w, f.body));
        if (f.number == 2) good = read_trainer(w, f.body);
        if (f.number == 3) good = read_normalizer(w, f.body);
        if (!good) return broken(w);
    }
    w->n_ids = w->n;
    return CDZ_OK;
}

/* --- what tokenizer_config.json says --------------------------------------------------------------------------- */

static const cdz_json *setting(const writer *w, const char *key)
{
    const cdz_json *v =
        cdz_json_is(w->config, CDZ_JSON_OBJECT) ? cdz_json_get(w->config, key) : NULL;
    return v && v->type != CDZ_JSON_NULL ? v : NULL;
}

static bool is_set(const writer *w, const char *key, bool absent)
{
    const cdz_json *v = setting(w, key);
    return cdz_json_is(v, CDZ_JSON_BOOL) ? v->boolean : absent;
}

/* A token is a text, or an object with its "content". */
static const cdz_json *token_text(const cdz_json *v)
{
    if (cdz_json_is(v, CDZ_JSON_OBJECT)) v = cdz_json_get(v, "content");
    return cdz_json_is(v, CDZ_JSON_STRING) && v->len ? v : NULL;
}

static const char *role(const writer *w, size_t i)
{
    const bool there =
        cdz_json_is(w->config, CDZ_JSON_OBJECT) && cdz_json_get(w->config, roles[i].key);
    const cdz_json *text = token_text(setting(w, roles[i].key));
    return text ? text->string : there ? NULL : roles[i].of[w->way];
}

static cdz_status read_class(writer *w)
{
    const cdz_json *name = setting(w, "tokenizer_class");
    const bool named = cdz_json_is(name, CDZ_JSON_STRING);
    bool known = !named;
    w->way = w->model_type == BPE ? LLAMA : w->numbers ? MARIAN : T5;
    for (size_t i = 0; named && i < sizeof classes / sizeof *classes; i++)
        if (cdz_json_eq(name, classes[i].name)) {
            w->way = classes[i].way;
            known = true;
        }
    if (!known)
        return cdz_err(
            w->err, CDZ_E_UNSUPPORTED,
            "%s: what %.60s makes of it is not known here (known are LlamaTokenizer, "
            "GemmaTokenizer, T5Tokenizer, MT5Tokenizer, MarianTokenizer); a tokenizer.json beside it would be "
            "read in its place",
            w->name, name->string);
    if ((w->way == MARIAN) != (w->numbers != NULL))
        return cdz_err(w->err, CDZ_E_UNSUPPORTED, "%s: %s", w->name,
                       w->numbers ? "its tokens are numbered by vocab.json, which MarianTokenizer "
                                    "alone is known to read"
                                  : "MarianTokenizer reads source.spm and vocab.json");
    const uint64_t expected = w->way >= T5 ? UNIGRAM : BPE;
    if (w->model_type == expected) return CDZ_OK;
    return cdz_err(w->err, CDZ_E_UNSUPPORTED, "%s: its kind is %s, expected %s", w->name,
                   w->model_type == UNIGRAM ? "Unigram"
                   : w->model_type == BPE   ? "BPE"
                                            : "words or characters",
                   expected == UNIGRAM ? "Unigram" : "BPE");
}

/* --- numbers of vocab.json --------------------------------------------------------------------------------------- */

static cdz_status wrong_number(const writer *w, const cdz_json_member *m)
{
    return cdz_err(w->err, CDZ_E_INPUT,
                   "%s: vocab.json: \"%.40s\" must have a number of its own from 0 to %u", w->name,
                   m->key, (unsigned)w->numbers->len - 1);
}

/* Pieces in the order of their numbers; what source.spm lacks is there to be written, and found where a text has nothing but
 * it between two pieces. What vocab.json lacks is gone. */
static cdz_status take_numbers(writer *w)
{
    const uint32_t n = w->numbers->len;
    piece *of = cdz_arena_array(&w->arena, n, sizeof *of);
    uint8_t *added = cdz_arena_array(&w->arena, n + MOST_ADDED, sizeof *added);
    cdz_strmap ids;
    bool again;
    if (!of || !added || !cdz_strmap_init(&ids, &w->arena, n + MOST_ADDED)) return no_memory(w);
    memset(added, 0, n + MOST_ADDED);
    for (uint32_t i = 0; i < n; i++) {
        const cdz_json_member *m = &w->numbers->members[i];
        if (m->value.type != CDZ_JSON_INT || m->value.integer < 0 || m->value.integer >= n ||
            of[m->value.integer].text || !m->key_len || m->key_len > MOST_PIECE_BYTES)
            return wrong_number(w, m);
        const int32_t own = cdz_strmap_get(&w->ids, m->key, m->key_len);
        piece *p = &of[m->value.integer];
        *p = own >= 0 ? w->pieces[own] : (piece){.score = NAN, .type = 1};
        p->text = m->key;
        p->len = m->key_len;
        cdz_strmap_put(&ids, m->key, m->key_len, (int32_t)m->value.integer, &again);
        const bool language = p->len > 4 && strncmp(p->text, ">>", 2) == 0 &&
                              memcmp(p->text + p->len - 2, "<<", 2) == 0;
        added[m->value.integer] = language;
    }
    w->pieces = of;
    w->added = added;
    w->ids = ids;
    w->n = w->n_ids = n;
    const int32_t unk = role(w, 0) ? cdz_strmap_get(&ids, role(w, 0), strlen(role(w, 0))) : -1;
    if (unk < 0)
        return cdz_err(w->err, CDZ_E_INPUT, "%s: vocab.json has no token for what is unknown",
                       w->name);
    w->unk_id = (uint64_t)unk;
    return CDZ_OK;
}

static cdz_status read_numbers(writer *w)
{
    if (!w->numbers) return CDZ_OK;
    if (w->numbers->type != CDZ_JSON_OBJECT || !w->numbers->len || w->numbers->len > MOST_PIECES)
        return cdz_err(w->err, CDZ_E_INPUT, "%s: vocab.json is not an object of 1 to %d numbers",
                       w->name, MOST_PIECES);
    return take_numbers(w);
}

/* --- added tokens ------------------------------------------------------------------------------------------------ */

static cdz_status add_token(writer *w, const char *text, size_t len, bool special)
{
    bool again;
    int32_t id = cdz_strmap_get(&w->ids, text, len);
    if (id < 0) {
        if (w->n_ids - w->n == MOST_ADDED)
            return cdz_err(w->err, CDZ_E_LIMIT, "%s: more than %d tokens are added to it", w->name,
                           MOST_ADDED);
        id = (int32_t)w->n_ids++;
        w->more[(uint32_t)id - w->n] = text;
        cdz_strmap_put(&w->ids, text, (uint32_t)len, id, &again);
    }
    if (w->added[id] < 1 + special) w->added[id] = (uint8_t)(1 + special);
    return CDZ_OK;
}

/* {"32000": {"content", "special"}}, which must be the ids that come next. */
static cdz_status add_listed(writer *w, const cdz_json *list)
{
    for (uint32_t i = 0; cdz_json_is(list, CDZ_JSON_OBJECT) && i < list->len; i++) {
        const cdz_json *token = &list->members[i].value, *text = token_text(token);
        const cdz_json *special =
            cdz_json_is(token, CDZ_JSON_OBJECT) ? cdz_json_get(token, "special") : NULL;
        char id[16];
        if (!text || strlen(text->string) != text->len)
            return cdz_err(w->err, CDZ_E_INPUT,
                           "%s: tokenizer_config.json: \"added_tokens_decoder\": \"%.20s\" has no "
                           "\"content\"",
                           w->name, list->members[i].key);
        CDZ_TRY(add_token(w, text->string, text->len,
                          cdz_json_is(special, CDZ_JSON_BOOL) && special->boolean));
        const int32_t given = cdz_strmap_get(&w->ids, text->string, text->len);
        snprintf(id, sizeof id, "%d", given);
        if (strcmp(id, list->members[i].key) != 0)
            return cdz_err(w->err, CDZ_E_INPUT,
                           "%s: tokenizer_config.json gives \"%.40s\" the id %.20s, its own is %s",
                           w->name, text->string, list->members[i].key, id);
    }
    return CDZ_OK;
}

static cdz_status add_extra_ids(writer *w)
{
    const cdz_json *v = setting(w, "extra_ids");
    const int64_t n = cdz_json_is(v, CDZ_JSON_INT) ? v->integer : T5_EXTRA_IDS;
    if (n < 0 || n > 1000)
        return cdz_err(w->err, CDZ_E_INPUT,
                       "%s: tokenizer_config.json: \"extra_ids\" must be from 0 to 1000", w->name);
    for (int64_t i = n; i-- > 0;) {
        const char *text = cdz_arena_printf(&w->arena, "<extra_id_%d>", (int)i);
        if (!text) return no_memory(w);
        CDZ_TRY(add_token(w, text, strlen(text), true));
    }
    return CDZ_OK;
}

static cdz_status add_all(writer *w)
{
    const cdz_json *more = setting(w, "additional_special_tokens");
    for (uint32_t i = 0; i < w->n; i++)
        if (w->pieces[i].type == CONTROL || w->pieces[i].type == USER_DEFINED)
            w->added[i] = (uint8_t)(1 + (w->pieces[i].type == CONTROL));
    if (w->way == T5) CDZ_TRY(add_extra_ids(w));
    w->n_extra = w->n_ids - w->n;
    CDZ_TRY(add_listed(w, setting(w, "added_tokens_decoder")));
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        const char *text = role(w, i);
        if (text) CDZ_TRY(add_token(w, text, strlen(text), true));
    }
    for (uint32_t i = 0; cdz_json_is(more, CDZ_JSON_ARRAY) && i < more->len; i++) {
        const cdz_json *text = token_text(&more->items[i]);
        if (text && strlen(text->string) == text->len)
            CDZ_TRY(add_token(w, text->string, text->len, true));
    }
    return CDZ_OK;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void put_text(writer *w, const char *text, size_t len)
{
    cdz_json_write_string(w->out, text, len);
}

static void write_added(writer *w)
{
    const char *comma = "";
    cdz_buf_puts(w->out, "\"added_tokens\":[");
    for (uint32_t id = 0; id < w->n_ids; id++) {
        if (!w->added[id]) continue;
        const char *text = id < w->n ? w->pieces[id].text : w->more[id - w->n];
        cdz_buf_printf(w->out, "%s{\"id\":%u,\"content\":", comma, (unsigned)id);
        put_text(w, text, id < w->n ? w->pieces[id].len : strlen(text));
        cdz_buf_printf(w->out,
                       ",\"special\":%s,\"normalized\":false,\"single_word\":false,\"lstrip\":false,"
                       "\"rstrip\":false}",
                       w->added[id] == 2 ? "true" : "false");
        comma = ",";
    }
    cdz_buf_puts(w->out, "],");
}

static void put_base64(cdz_buf *out, span s)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (; s.at < s.end; s.at += s.end - s.at < 3 ? s.end - s.at : 3) {
        const size_t left = (size_t)(s.end - s.at);
        const uint32_t bits = (uint32_t)s.at[0] << 16 | (left > 1 ? (uint32_t)s.at[1] << 8 : 0) |
                              (left > 2 ? s.at[2] : 0);
        cdz_buf_putc(out, digits[bits >> 18]);
        cdz_buf_putc(out, digits[bits >> 12 & 63]);
        cdz_buf_putc(out, left > 1 ? digits[bits >> 6 & 63] : '=');
        cdz_buf_putc(out, left > 2 ? digits[bits & 63] : '=');
    }
}

#define SPACE "\xE2\x96\x81"

#define REPLACE_SPACE                                                                              \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" SPACE "\"},\"content\":\" \"}"
#define METASPACE                                                                                  \
    "{\"type\":\"Metaspace\",\"replacement\":\"" SPACE                                             \
    "\",\"prepend_scheme\":\"always\",\"split\":true}"

static void write_charsmap(writer *w)
{
    if (w->charsmap.at == w->charsmap.end) return;
    cdz_buf_puts(w->out, "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
    put_base64(w->out, w->charsmap);
    cdz_buf_puts(w->out, "\"},");
}

static void write_t5_spaces(writer *w)
{
    cdz_buf_puts(w->out, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                         "\"WhitespaceSplit\"}," METASPACE "]},\"decoder\":" METASPACE ",");
}

/* To SentencePiece itself the space alone is one; what a text begins or ends with goes in decoding. */
static void write_marian_spaces(writer *w)
{
    cdz_buf_puts(
        w->out,
        "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
        "\"pattern\":{\"String\":\" \"},\"behavior\":\"Removed\",\"invert\":false}," METASPACE
        "]},\"decoder\":{\"type\":\"Sequence\",\"decoders\":[" REPLACE_SPACE
        ",{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":65535,"
        "\"stop\":65535}]},");
}

/* How a text becomes pieces' letters, and pieces a text. */
static void write_spaces(writer *w)
{
    static const char back[] = "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[" REPLACE_SPACE
                               ",{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}";
    const bool prefix = is_set(w, "add_prefix_space", true);
    if (w->way >= T5) {
        write_charsmap(w);
        if (w->way == T5) write_t5_spaces(w);
        if (w->way == MARIAN) write_marian_spaces(w);
    } else if (w->way == GEMMA) {
        cdz_buf_puts(
            w->out,
            "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE
            "\"},\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},"
            "\"behavior\":\"MergedWithPrevious\",\"invert\":false},");
        cdz_buf_printf(w->out, "%s]},", back);
    } else {
        cdz_buf_printf(
            w->out,
            "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" SPACE
            "\",\"prepend_scheme\":\"%s\",\"split\":false},%s%s]},",
            !prefix                      ? "never"
            : is_set(w, "legacy", false) ? "always"
                                         : "first",
            back, prefix ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}" : "");
    }
}

static void put_end(writer *w, const char *text, const char *what, bool comma)
{
    if (!text) return;
    cdz_buf_printf(w->out, "%s\"%s\":{\"id\":\"%s\",\"ids\":[%d],\"tokens\":[", comma ? "," : "",
                   what, what, (int)cdz_strmap_get(&w->ids, text, strlen(text)));
    put_text(w, text, strlen(text));
    cdz_buf_puts(w->out, "]}");
}

static void put_order(writer *w, bool bos, bool eos, const char *sequence, int type)
{
    if (bos) cdz_buf_printf(w->out, "{\"SpecialToken\":{\"id\":\"bos\",\"type_id\":%d}},", type);
    cdz_buf_printf(w->out, "{\"Sequence\":{\"id\":\"%s\",\"type_id\":%d}}", sequence, type);
    if (eos) cdz_buf_printf(w->out, ",{\"SpecialToken\":{\"id\":\"eos\",\"type_id\":%d}}", type);
}

static void write_template(writer *w)
{
    const char *bos = w->way < T5 && is_set(w, "add_bos_token", false) ? role(w, 1) : NULL;
    const char *eos = w->way >= T5 || is_set(w, "add_eos_token", false) ? role(w, 2) : NULL;
    if (!bos && !eos) return;
    cdz_buf_puts(w->out, "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[");
    put_order(w, bos, eos, "A", 0);
    cdz_buf_puts(w->out, "],\"pair\":[");
    put_order(w, bos, eos, "A", 0);
    cdz_buf_putc(w->out, ',');
    put_order(w, bos, eos, "B", w->way >= T5 ? 0 : 1);
    cdz_buf_puts(w->out, "],\"special_tokens\":{");
    put_end(w, bos, "bos", false);
    put_end(w, eos, "eos", bos);
    cdz_buf_puts(w->out, "}},");
}

static bool is_piece(const writer *w, const char *text, size_t len)
{
    const int32_t id = cdz_strmap_get(&w->ids, text, len);
    return id >= 0 && (uint32_t)id < w->n;
}

/* All ways to halve each piece at a character, where both halves are pieces. */
static cdz_status write_merges(writer *w)
{
    size_t n = 0;
    cdz_buf_puts(w->out, "\"merges\":[");
    for (uint32_t i = 0; i < w->n && !w->out->failed; i++) {
        const piece *p = &w->pieces[i];
        for (uint32_t k = 1; k < p->len; k++) {
            if (((unsigned char)p->text[k] & 0xC0) == 0x80) continue;
            if (!is_piece(w, p->text, k) || !is_piece(w, p->text + k, p->len - k)) continue;
            if (n == MOST_MERGES)
                return cdz_err(w->err, CDZ_E_LIMIT,
                               "%s: its pieces can be halved in more than %d ways", w->name,
                               MOST_MERGES);
            cdz_buf_puts(w->out, n++ ? ",[" : "[");
            put_text(w, p->text, k);
            cdz_buf_putc(w->out, ',');
            put_text(w, p->text + k, p->len - k);
            cdz_buf_putc(w->out, ']');
        }
    }
    cdz_buf_putc(w->out, ']');
    return CDZ_OK;
}

static cdz_status write_bpe(writer *w)
{
    cdz_buf_puts(w->out, "\"model\":{\"type\":\"BPE\",\"fuse_unk\":true,\"byte_fallback\":true,");
    if (w->way == GEMMA && role(w, 0)) {
        cdz_buf_puts(w->out, "\"unk_token\":");
        put_text(w, role(w, 0), strlen(role(w, 0)));
        cdz_buf_putc(w->out, ',');
    }
    cdz_buf_puts(w->out, "\"vocab\":{");
    for (uint32_t i = 0; i < w->n; i++) {
        if (i) cdz_buf_putc(w->out, ',');
        put_text(w, w->pieces[i].text, w->pieces[i].len);
        cdz_buf_printf(w->out, ":%u", (unsigned)i);
    }
    cdz_buf_puts(w->out, "},");
    CDZ_TRY(write_merges(w));
    cdz_buf_putc(w->out, '}');
    return CDZ_OK;
}

static cdz_status write_unigram(writer *w)
{
    if (w->unk_id >= w->n)
        return cdz_err(w->err, CDZ_E_INPUT, "%s: its unknown piece is %llu, there are %u pieces",
                       w->name, (unsigned long long)w->unk_id, (unsigned)w->n);
    cdz_buf_printf(
        w->out,
        "\"model\":{\"type\":\"Unigram\",\"byte_fallback\":false,\"float32\":%s,\"unk_id\":%u,\"vocab\":[",
        w->way == MARIAN ? "true" : "false", (unsigned)w->unk_id);
    for (uint32_t i = 0; i < w->n; i++) {
        cdz_buf_puts(w->out, i ? ",[" : "[");
        put_text(w, w->pieces[i].text, w->pieces[i].len);
        if (isnan(w->pieces[i].score))
            cdz_buf_puts(w->out, ",null]");
        else
            cdz_buf_printf(w->out, ",%.9g]", (double)w->pieces[i].score);
    }
    for (uint32_t i = 0; i < w->n_extra; i++) {
        cdz_buf_puts(w->out, ",[");
        put_text(w, w->more[i], strlen(w->more[i]));
        cdz_buf_puts(w->out, ",0.0]");
    }
    cdz_buf_puts(w->out, "]}");
    return CDZ_OK;
}

static cdz_status write_tokenizer(writer *w, span all)
{
    CDZ_TRY(read_model(w, all));
    CDZ_TRY(read_class(w));
    CDZ_TRY(read_numbers(w));
    CDZ_TRY(add_all(w));
    cdz_buf_putc(w->out, '{');
    write_added(w);
    write_spaces(w);
    write_template(w);
    CDZ_TRY(w->way >= T5 ? write_unigram(w) : write_bpe(w));
    cdz_buf_putc(w->out, '}');
    return w->out->failed ? no_memory(w) : CDZ_OK;
}

cdz_status cdz_tokenizer_json_of_sentencepiece(const void *bytes, size_t len,
                                               const cdz_json *config, const cdz_json *numbers,
                                               const char *name, cdz_buf *out, cdz_error *err)
{
    writer w = {.name = name, .config = config, .numbers = numbers, .out = out, .err = err};
    const uint8_t *at = bytes;
    size_t read = len;
    for (uint32_t i = 0; numbers && numbers->type == CDZ_JSON_OBJECT && i < numbers->len; i++)
        read += numbers->members[i].key_len + 8;
    out->limit = cdz_json_allowance(read, 0) / 2;
    const cdz_status status = write_tokenizer(&w, (span){at, at + len});
    cdz_arena_free(&w.arena);
    return status;
}
