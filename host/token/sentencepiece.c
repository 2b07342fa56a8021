/* sentencepiece.c - writing a tokenizer.json from a SentencePiece model, a message in protocol buffers' form.
 *
 * What is made of the pieces is the reference's (transformers 5): LlamaTokenizer and GemmaTokenizer read BPE, whose merges are
 * all ways to put a piece together of two others, in the order of ids; T5Tokenizer reads Unigram, with the file's own map
 * of characters. MBartTokenizer and MBart50Tokenizer read Unigram with other tokens before the pieces, and languages behind
 * them; NllbTokenizer so BPE, and PegasusTokenizer has masks and unused tokens before the pieces. Of these two the ids are
 * those of their published tokenizer.json files. MarianTokenizer and M2M100Tokenizer cut by the model and number by vocab.json;
 * what that lacks is cut all the same, and unknown. */
#include "token/sentencepiece.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "token/ends_out.h"
#include "token/languages.h"
#include "token/settings.h"
#include "token/strmap.h"

enum {
    MOST_PIECES = 1 << 19,
    MOST_PIECE_BYTES = 1024, /* bounds the search for halves */
    MOST_MERGES = 1 << 21,
    MOST_ADDED = 1 << 13, /* beyond the pieces */
    T5_EXTRA_IDS = 100,
    PEGASUS_OFFSET = 103,
};

/* type of a piece */
enum { NORMAL = 1, CONTROL = 3, USER_DEFINED = 4 };
/* model_type */
enum { UNIGRAM = 1, BPE = 2 };

typedef enum way { LLAMA, GEMMA, NLLB, T5, PEGASUS, M2M100, MARIAN, MBART, MBART50, N_WAYS } way;

static const struct {
    uint8_t kind;   /* model_type; 0: either */
    bool numbered;  /* by vocab.json */
    bool languages; /* one of them is put around a text */
    bool ends;      /* with the end-of-sequence token, always */
} of_way[N_WAYS] = {
    [LLAMA] = {.kind = BPE},
    [GEMMA] = {.kind = BPE},
    [NLLB] = {.kind = BPE, .languages = true},
    [T5] = {.kind = UNIGRAM, .ends = true},
    [PEGASUS] = {.kind = UNIGRAM, .ends = true},
    [M2M100] = {.numbered = true, .languages = true},
    [MARIAN] = {.kind = UNIGRAM, .numbered = true, .ends = true},
    [MBART] = {.kind = UNIGRAM, .languages = true},
    [MBART50] = {.kind = UNIGRAM, .languages = true},
};

static const struct {
    const char *name;
    way way;
} classes[] = {
    {"LlamaTokenizer", LLAMA},     {"LlamaTokenizerFast", LLAMA},
    {"GemmaTokenizer", GEMMA},     {"GemmaTokenizerFast", GEMMA},
    {"T5Tokenizer", T5},           {"T5TokenizerFast", T5},
    {"MT5Tokenizer", T5},          {"MT5TokenizerFast", T5},
    {"PegasusTokenizer", PEGASUS}, {"NllbTokenizer", NLLB},
    {"M2M100Tokenizer", M2M100},   {"MarianTokenizer", MARIAN},
    {"MBartTokenizer", MBART},     {"MBartTokenizerFast", MBART},
    {"MBart50Tokenizer", MBART50}, {"MBart50TokenizerFast", MBART50},
};

/* Special tokens that a class has unless the file says otherwise, in the order in which those that it lacks are added. */
static const struct {
    const char *key, *of[N_WAYS];
} roles[] = {
    {"bos_token", {"<s>", "<bos>", "<s>", NULL, NULL, "<s>", NULL, "<s>", "<s>"}},
    {"eos_token", {"</s>", "<eos>", "</s>", "</s>", "</s>", "</s>", "</s>", "</s>", "</s>"}},
    {"unk_token", {"<unk>", "<unk>", "<unk>", "<unk>", "<unk>", "<unk>", "<unk>", "<unk>", "<unk>"}},
    {"sep_token", {NULL}},
    {"pad_token", {NULL, "<pad>", "<pad>", "<pad>", "<pad>", "<pad>", "<pad>", "<pad>", "<pad>"}},
    {"cls_token", {NULL}},
    {"mask_token", {NULL, "<mask>", "<mask>", NULL, "<mask_2>", NULL, NULL, "<mask>", "<mask>"}}};
enum { BOS, EOS, UNK, SEP, PAD, CLS, MASK };

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
    piece *own; /* of the file, in its order */
    uint32_t n_own;
    cdz_strmap own_ids;
    piece *pieces; /* by id; behind these n those that only cut, n_hidden */
    uint32_t n, n_hidden;
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
        return cdz_err_memory_in(w->err, w->name);
    memset(w->added, 0, n + MOST_ADDED);
    w->model_type = UNIGRAM;
    for (span s = all; next_field(&s, &f, &good);) {
        if (f.number == 1) CDZ_TRY(take_piece(w, f.body));
        if (f.number == 2) good = read_trainer(w, f.body);
        if (f.number == 3) good = read_normalizer(w, f.body);
        if (!good) return broken(w);
    }
    w->own = w->pieces;
    w->own_ids = w->ids;
    w->n_ids = w->n_own = w->n;
    return CDZ_OK;
}

/* --- what tokenizer_config.json says --------------------------------------------------------------------------- */

static const cdz_json *setting(const writer *w, const char *key)
{
    return cdz_tokenizer_setting(w->config, key);
}

static const char *role(const writer *w, size_t i)
{
    const bool there = w->config && cdz_json_get(w->config, roles[i].key);
    const cdz_json *text = cdz_tokenizer_token_text(setting(w, roles[i].key));
    return text ? text->string : there ? NULL : roles[i].of[w->way];
}

static cdz_status check_kind(const writer *w)
{
    const uint64_t kind = w->model_type, expected = of_way[w->way].kind;
    if (expected ? kind == expected : kind == UNIGRAM || kind == BPE) return CDZ_OK;
    return cdz_err(w->err, CDZ_E_UNSUPPORTED, "%s: its kind is %s, expected %s", w->name,
                   kind == UNIGRAM ? "Unigram"
                   : kind == BPE   ? "BPE"
                                   : "words or characters",
                   expected == UNIGRAM ? "Unigram"
                   : expected == BPE   ? "BPE"
                                       : "Unigram or BPE");
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
            "GemmaTokenizer, T5Tokenizer, MT5Tokenizer, PegasusTokenizer, NllbTokenizer, "
            "M2M100Tokenizer, MarianTokenizer, MBartTokenizer, MBart50Tokenizer); a tokenizer.json "
            "beside it would be read in its place",
            w->name, name->string);
    if (of_way[w->way].numbered != (w->numbers != NULL))
        return cdz_err(w->err, CDZ_E_UNSUPPORTED, "%s: %s", w->name,
                       w->numbers ? "its tokens are numbered by vocab.json, which MarianTokenizer "
                                    "alone is known to read"
                       : w->way == MARIAN ? "MarianTokenizer reads source.spm and vocab.json"
                                          : "M2M100Tokenizer reads sentencepiece.bpe.model and "
                                            "vocab.json, which is not there");
    return check_kind(w);
}

/* --- ids that the file does not have -------------------------------------------------------------------------------- */

static cdz_status put_piece(writer *w, cdz_strmap *ids, piece *of, uint32_t at, piece p)
{
    bool again = false;
    of[at] = p;
    cdz_strmap_put(ids, p.text, p.len, (int32_t)at, &again);
    return !again ? CDZ_OK
                  : cdz_err(w->err, CDZ_E_INPUT, "%s: \"%.40s\" is there twice", w->name, p.text);
}

static piece special(const char *text, float score)
{
    return (piece){text, (uint32_t)strlen(text), score, CONTROL};
}

static const char *const *languages_of(const writer *w, uint32_t *n)
{
    const bool wmt21 = cdz_json_eq(setting(w, "language_codes"), "wmt21");
    const cdz_language_list m2m = wmt21 ? CDZ_LANGUAGES_WMT21 : CDZ_LANGUAGES_M2M100;
    return cdz_tokenizer_languages(w->way == MBART     ? CDZ_LANGUAGES_MBART
                                   : w->way == MBART50 ? CDZ_LANGUAGES_MBART50
                                   : w->way == NLLB    ? CDZ_LANGUAGES_NLLB
                                                       : m2m,
                                   n);
}

/* A role's token, also where it is said to be none: its id is there. */
static const char *must_role(const writer *w, size_t i)
{
    return role(w, i) ? role(w, i) : roles[i].of[w->way];
}

/* Room for n pieces by id, nothing in it. */
typedef struct numbering {
    piece *of;
    cdz_strmap ids;
    uint8_t *added;
} numbering;

static cdz_status begin_numbering(writer *w, uint32_t n, numbering *to)
{
    to->of = cdz_arena_array(&w->arena, n, sizeof *to->of);
    to->added = cdz_arena_array(&w->arena, n + MOST_ADDED, sizeof *to->added);
    if (!to->of || !to->added || !cdz_strmap_init(&to->ids, &w->arena, n + MOST_ADDED))
        return cdz_err_memory_in(w->err, w->name);
    memset(to->added, 0, n + MOST_ADDED);
    return CDZ_OK;
}

static void end_numbering(writer *w, uint32_t n, uint32_t unk_id, const numbering *to)
{
    w->pieces = to->of;
    w->added = to->added;
    w->ids = to->ids;
    w->n = w->n_ids = n;
    w->unk_id = unk_id;
}

/* --- numbers of vocab.json --------------------------------------------------------------------------------------- */

static cdz_status wrong_number(const writer *w, const cdz_json_member *m)
{
    return cdz_err(w->err, CDZ_E_INPUT,
                   "%s: vocab.json: \"%.40s\" must have a number of its own from 0 to %u", w->name,
                   m->key, (unsigned)w->numbers->len - 1);
}

/* SentencePiece itself finds no others in a text. */
static bool cuts(const writer *w, const piece *p)
{
    return p->type == NORMAL || (w->way == MARIAN && p->type == USER_DEFINED);
}

static cdz_status take_number(writer *w, const cdz_json_member *m, cdz_strmap *ids, piece *of)
{
    const uint32_t n = w->numbers->len;
    bool again;
    if (m->value.type != CDZ_JSON_INT || m->value.integer < 0 || m->value.integer >= n ||
        of[m->value.integer].text || !m->key_len || m->key_len > MOST_PIECE_BYTES)
        return wrong_number(w, m);
    const int32_t own = cdz_strmap_get(&w->own_ids, m->key, m->key_len);
    piece *p = &of[m->value.integer];
    *p = own >= 0 ? w->own[own] : (piece){.score = NAN, .type = NORMAL};
    p->text = m->key;
    p->len = m->key_len;
    if (!cuts(w, p)) p->score = NAN;
    if (w->way == M2M100) p->type = NORMAL; /* special is what has a role or is listed */
    cdz_strmap_put(ids, m->key, m->key_len, (int32_t)m->value.integer, &again);
    return CDZ_OK;
}

/* Languages of M2M100Tokenizer are behind the numbers. */
static cdz_status put_marked(writer *w, cdz_strmap *ids, piece *of, uint32_t at)
{
    uint32_t n;
    const char *const *codes = languages_of(w, &n);
    for (uint32_t i = 0; w->way == M2M100 && i < n; i++) {
        const char *text = cdz_arena_printf(&w->arena, "__%s__", codes[i]);
        if (!text) return cdz_err_memory_in(w->err, w->name);
        CDZ_TRY(put_piece(w, ids, of, at + i, (piece){text, (uint32_t)strlen(text), NAN, NORMAL}));
    }
    return CDZ_OK;
}

/* What vocab.json lacks is behind all. */
static void hide_others(writer *w)
{
    for (uint32_t i = 0; i < w->n_own; i++)
        if (cuts(w, &w->own[i]) && cdz_strmap_get(&w->ids, w->own[i].text, w->own[i].len) < 0)
            w->pieces[w->n + w->n_hidden++] = w->own[i];
}

/* Marian's texts begin with the language that they are to be translated to. */
static void mark_languages(writer *w)
{
    for (uint32_t i = 0; w->way == MARIAN && i < w->n; i++) {
        const piece *p = &w->pieces[i];
        w->added[i] = p->len > 4 && strncmp(p->text, ">>", 2) == 0 &&
                      memcmp(p->text + p->len - 2, "<<", 2) == 0;
    }
}

/* Pieces in the order of their numbers; what the model lacks is there to be written, and found where a text has nothing but
 * it between two pieces. */
static cdz_status take_numbers(writer *w)
{
    uint32_t n_languages;
    languages_of(w, &n_languages);
    const uint32_t n = w->numbers->len + (w->way == M2M100 ? n_languages : 0);
    numbering to;
    CDZ_TRY(begin_numbering(w, n + w->n_own, &to));
    for (uint32_t i = 0; i < w->numbers->len; i++)
        CDZ_TRY(take_number(w, &w->numbers->members[i], &to.ids, to.of));
    CDZ_TRY(put_marked(w, &to.ids, to.of, w->numbers->len));
    const char *unk = role(w, UNK);
    const int32_t unk_id = unk ? cdz_strmap_get(&to.ids, unk, strlen(unk)) : -1;
    if (unk_id < 0)
        return cdz_err(w->err, CDZ_E_INPUT, "%s: vocab.json has no token for what is unknown",
                       w->name);
    end_numbering(w, n, (uint32_t)unk_id, &to);
    hide_others(w);
    mark_languages(w);
    return CDZ_OK;
}

static cdz_status read_numbers(writer *w)
{
    if (w->numbers->type != CDZ_JSON_OBJECT || !w->numbers->len || w->numbers->len > MOST_PIECES)
        return cdz_err(w->err, CDZ_E_INPUT, "%s: vocab.json is not an object of 1 to %d numbers",
                       w->name, MOST_PIECES);
    return take_numbers(w);
}

/* What the class has itself where the file's first pieces are. */
static bool is_replaced(const writer *w, uint32_t i, const cdz_strmap *first)
{
    if (w->way != NLLB) return i < 3;
    return cdz_strmap_get(first, w->own[i].text, w->own[i].len) >= 0;
}

/* Begin, padding, end and unknown are before the pieces; languages and the mask are behind them. */
static cdz_status take_languages(writer *w)
{
    enum { BEFORE = 4 };
    static const size_t first[BEFORE] = {BOS, PAD, EOS, UNK};
    uint32_t n_languages, at = 0;
    const char *const *codes = languages_of(w, &n_languages);
    numbering to;
    if (w->n < 3) return broken(w);
    CDZ_TRY(begin_numbering(w, BEFORE + w->n + n_languages + 1, &to));
    for (size_t i = 0; i < BEFORE; i++)
        CDZ_TRY(put_piece(w, &to.ids, to.of, at++, special(must_role(w, first[i]), 0)));
    for (uint32_t i = 0; i < w->n; i++)
        if (!is_replaced(w, i, &to.ids)) CDZ_TRY(put_piece(w, &to.ids, to.of, at++, w->pieces[i]));
    for (uint32_t i = 0; i < n_languages; i++)
        CDZ_TRY(put_piece(w, &to.ids, to.of, at++, special(codes[i], 0)));
    CDZ_TRY(put_piece(w, &to.ids, to.of, at++, special(must_role(w, MASK), 0)));
    end_numbering(w, at, BEFORE - 1, &to);
    return CDZ_OK;
}

/* The masks, and <unk_2> and so on, which were there for training alone. */
static cdz_status put_unused(writer *w, uint32_t offset, uint32_t *at, numbering *to)
{
    const cdz_json *sent = cdz_tokenizer_token_text(setting(w, "mask_token_sent"));
    const char *mask = sent ? sent->string : "<mask_1>";
    CDZ_TRY(put_piece(w, &to->ids, to->of, (*at)++, special(mask, 0)));
    CDZ_TRY(put_piece(w, &to->ids, to->of, (*at)++, special(must_role(w, MASK), 0)));
    for (uint32_t i = 2; i < offset; i++) {
        const char *text = cdz_arena_printf(&w->arena, "<unk_%u>", (unsigned)i);
        if (!text) return cdz_err_memory_in(w->err, w->name);
        CDZ_TRY(put_piece(w, &to->ids, to->of, (*at)++, special(text, -100)));
    }
    return CDZ_OK;
}

/* Padding and end stay in front; the other pieces are moved by "offset". */
static cdz_status take_offset(writer *w)
{
    const cdz_json *v = setting(w, "offset");
    const int64_t offset = cdz_json_is(v, CDZ_JSON_INT) ? v->integer : PEGASUS_OFFSET;
    numbering to;
    uint32_t at = 0;
    if (offset != 0 && (offset < 2 || offset > 1000))
        return cdz_err(w->err, CDZ_E_INPUT,
                       "%s: tokenizer_config.json: \"offset\" must be 0 or from 2 to 1000", w->name);
    if (w->n < 3 || w->unk_id < 2 || w->unk_id >= w->n)
        return cdz_err(w->err, CDZ_E_INPUT,
                       "%s: PegasusTokenizer's models have padding and end in front, and the "
                       "unknown piece behind them",
                       w->name);
    CDZ_TRY(begin_numbering(w, w->n + (uint32_t)offset, &to));
    CDZ_TRY(put_piece(w, &to.ids, to.of, at++, special(must_role(w, PAD), 0)));
    CDZ_TRY(put_piece(w, &to.ids, to.of, at++, special(must_role(w, EOS), 0)));
    if (offset) CDZ_TRY(put_unused(w, (uint32_t)offset, &at, &to));
    for (uint32_t i = 2; i < w->n; i++) CDZ_TRY(put_piece(w, &to.ids, to.of, at++, w->pieces[i]));
    end_numbering(w, at, (uint32_t)w->unk_id + (uint32_t)offset, &to);
    return CDZ_OK;
}

static cdz_status take_ids(writer *w)
{
    if (of_way[w->way].numbered) return read_numbers(w);
    if (of_way[w->way].languages) return take_languages(w);
    return w->way == PEGASUS ? take_offset(w) : CDZ_OK;
}

/* src_lang: what a text is in. */
static cdz_status source_language(writer *w, const char **out)
{
    const cdz_json *v = setting(w, "src_lang");
    const char *code = cdz_json_is(v, CDZ_JSON_STRING) ? v->string
                       : w->way == M2M100              ? "en"
                       : w->way == NLLB                ? "eng_Latn"
                                                       : "en_XX";
    *out = w->way == M2M100 ? cdz_arena_printf(&w->arena, "__%s__", code) : code;
    if (!*out) return cdz_err_memory_in(w->err, w->name);
    if (cdz_strmap_get(&w->ids, *out, strlen(*out)) >= 0) return CDZ_OK;
    return cdz_err(w->err, CDZ_E_INPUT,
                   "%s: tokenizer_config.json: \"src_lang\" \"%.40s\" is no language of it",
                   w->name, code);
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
        const cdz_json *token = &list->members[i].value, *text = cdz_tokenizer_token_text(token);
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
        if (!text) return cdz_err_memory_in(w->err, w->name);
        CDZ_TRY(add_token(w, text, strlen(text), true));
    }
    return CDZ_OK;
}

static cdz_status add_all(writer *w)
{
    const cdz_json *more = cdz_tokenizer_more_tokens(w->config);
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
    for (uint32_t i = 0; more && i < more->len; i++) {
        const cdz_json *text = cdz_tokenizer_token_text(&more->items[i]);
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

static const char *text_of(const writer *w, uint32_t id, size_t *len)
{
    const char *text = id < w->n ? w->pieces[id].text : w->more[id - w->n];
    *len = id < w->n ? w->pieces[id].len : strlen(text);
    return text;
}

static void write_added(writer *w)
{
    const char *comma = "";
    const bool behind = of_way[w->way].languages && w->way != M2M100;
    const uint32_t mask = behind ? w->n - 1 : UINT32_MAX; /* takes the spaces before it */
    cdz_buf_puts(w->out, "\"added_tokens\":[");
    for (uint32_t id = 0; id < w->n_ids; id++) {
        if (!w->added[id]) continue;
        size_t len;
        const char *text = text_of(w, id, &len);
        cdz_buf_printf(w->out, "%s{\"id\":%u,\"content\":", comma, (unsigned)id);
        put_text(w, text, len);
        cdz_buf_printf(w->out,
                       ",\"special\":%s,\"normalized\":%s,\"single_word\":false,\"lstrip\":%s,"
                       "\"rstrip\":false}",
                       w->added[id] == 2 ? "true" : "false",
                       id == mask && w->way == NLLB ? "true" : "false",
                       id == mask ? "true" : "false");
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

/* The file's own map of characters, behind what leads to it; nothing where it has none. */
static void write_charsmap(writer *w, const char *before)
{
    if (w->charsmap.at == w->charsmap.end) return;
    cdz_buf_printf(w->out, "%s{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"", before);
    put_base64(w->out, w->charsmap);
    cdz_buf_printf(w->out, "\",\"longest\":%s},", of_way[w->way].numbered ? "true" : "false");
}

static void write_t5_spaces(writer *w)
{
    cdz_buf_puts(w->out, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                         "\"WhitespaceSplit\"}," METASPACE "]},\"decoder\":" METASPACE ",");
}

/* Python's class decodes each stretch between special tokens alone. */
static void write_stretches(writer *w)
{
    const char *comma = "";
    cdz_buf_puts(w->out, "{\"type\":\"SentencePiece\",\"between\":[");
    for (uint32_t id = 0; id < w->n_ids; id++) {
        size_t len;
        const char *text = text_of(w, id, &len);
        if (w->added[id] != 2) continue;
        cdz_buf_puts(w->out, comma);
        put_text(w, text, len);
        comma = ",";
    }
    cdz_buf_puts(w->out, "]}");
}

/* To SentencePiece itself the space alone is one; what a text begins or ends with goes in decoding. */
static void write_marian_spaces(writer *w)
{
    cdz_buf_puts(
        w->out,
        "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
        "\"pattern\":{\"String\":\" \"},\"behavior\":\"Removed\",\"invert\":false}," METASPACE
        "]},\"decoder\":{\"type\":\"Sequence\",\"decoders\":[");
    if (w->way == M2M100)
        write_stretches(w);
    else
        cdz_buf_puts(w->out, REPLACE_SPACE);
    cdz_buf_puts(w->out,
                 ",{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":65535,"
                 "\"stop\":65535}]},");
}

static void write_mbart50_spaces(writer *w)
{
    const bool mapped = w->charsmap.at != w->charsmap.end;
    cdz_buf_puts(w->out, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    write_charsmap(w, "");
    if (w->way == PEGASUS && !mapped)
        cdz_buf_puts(w->out,
                     "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\\n\"},\"content\":\" \"},");
    cdz_buf_puts(w->out,
                 "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"}]},"
                 "\"pre_tokenizer\":" METASPACE ",\"decoder\":" METASPACE ",");
}

/* How a text becomes pieces' letters, and pieces a text. */
static void write_spaces(writer *w)
{
    static const char back[] = "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[" REPLACE_SPACE
                               ",{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}";
    const bool prefix = cdz_tokenizer_setting_is(w->config, "add_prefix_space", true);
    if (w->way == MBART) {
        write_t5_spaces(w);
    } else if (w->way == MBART50 || w->way == NLLB || w->way == PEGASUS) {
        write_mbart50_spaces(w);
    } else if (w->way == T5) {
        write_charsmap(w, "\"normalizer\":");
        write_t5_spaces(w);
    } else if (of_way[w->way].numbered) {
        write_charsmap(w, "\"normalizer\":");
        write_marian_spaces(w);
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
            !prefix                                                ? "never"
            : cdz_tokenizer_setting_is(w->config, "legacy", false) ? "always"
                                                                   : "first",
            back, prefix ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}" : "");
    }
}

static cdz_tokenizer_end end_of(const writer *w, const char *text)
{
    return (cdz_tokenizer_end){text, text ? cdz_strmap_get(&w->ids, text, strlen(text)) : -1};
}

/* MBartTokenizer has the language behind the end, as NllbTokenizer has it with legacy_behaviour; the others before the text. */
static cdz_status write_languages(writer *w)
{
    const char *language, *eos = must_role(w, EOS);
    const char *lang = "{\"SpecialToken\":{\"id\":\"lang\",\"type_id\":0}}";
    const bool before =
        w->way != MBART &&
        !(w->way == NLLB && cdz_tokenizer_setting_is(w->config, "legacy_behaviour", false));
    CDZ_TRY(source_language(w, &language));
    cdz_buf_puts(w->out, "\"post_processor\":{\"type\":\"TemplateProcessing\",");
    for (int pair = 0; pair < 2; pair++) {
        cdz_buf_printf(w->out, "\"%s\":[%s%s", pair ? "pair" : "single", before ? lang : "",
                       before ? "," : "");
        cdz_tokenizer_put_order(w->out, false, !pair, "A", 0);
        if (pair) cdz_buf_putc(w->out, ',');
        if (pair) cdz_tokenizer_put_order(w->out, false, true, "B", 0);
        cdz_buf_printf(w->out, "%s%s],", before ? "" : ",", before ? "" : lang);
    }
    cdz_buf_puts(w->out, "\"special_tokens\":{");
    cdz_tokenizer_put_end(w->out, end_of(w, eos), "eos", false);
    cdz_tokenizer_put_end(w->out, end_of(w, language), "lang", true);
    cdz_buf_puts(w->out, "}},");
    return CDZ_OK;
}

static cdz_status write_template(writer *w)
{
    const bool ends = of_way[w->way].ends;
    if (of_way[w->way].languages) return write_languages(w);
    const bool add_bos = !ends && cdz_tokenizer_setting_is(w->config, "add_bos_token", false);
    const bool add_eos = ends || cdz_tokenizer_setting_is(w->config, "add_eos_token", false);
    const char *bos = add_bos ? role(w, BOS) : NULL, *eos = add_eos ? role(w, EOS) : NULL;
    cdz_tokenizer_put_ends(w->out, end_of(w, bos), end_of(w, eos), ends ? 0 : 1);
    return CDZ_OK;
}

static bool is_piece(const writer *w, const char *text, size_t len)
{
    const int32_t id = cdz_strmap_get(&w->own_ids, text, len);
    return id >= 0 && (uint32_t)id < w->n_own && (w->way != M2M100 || cuts(w, &w->own[id]));
}

/* All ways to halve each piece at a character, where both halves are pieces. */
static cdz_status write_merges(writer *w)
{
    size_t n = 0;
    cdz_buf_puts(w->out, "\"merges\":[");
    for (uint32_t i = 0; i < w->n_own && !w->out->failed; i++) {
        const piece *p = &w->own[i];
        if (!is_piece(w, p->text, p->len)) continue;
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

/* Ids from there on are cut out of texts and unknown. */
static void write_known(writer *w)
{
    if (w->n_hidden) cdz_buf_printf(w->out, "\"n_known\":%u,", (unsigned)w->n_ids);
}

static void put_id(writer *w, const char *text, size_t len, uint32_t id)
{
    if (id) cdz_buf_putc(w->out, ',');
    put_text(w, text, len);
    cdz_buf_printf(w->out, ":%u", (unsigned)id);
}

static cdz_status write_bpe(writer *w)
{
    const bool bytes = !of_way[w->way].languages, unk = w->way != LLAMA && role(w, UNK);
    const uint32_t n = w->n_hidden ? w->n_ids : w->n;
    cdz_buf_printf(w->out, "\"model\":{\"type\":\"BPE\",\"fuse_unk\":true,\"byte_fallback\":%s,",
                   bytes ? "true" : "false");
    if (w->way == M2M100) cdz_buf_puts(w->out, "\"one_rank_each\":true,");
    write_known(w);
    if (unk) {
        cdz_buf_puts(w->out, "\"unk_token\":");
        put_text(w, role(w, UNK), strlen(role(w, UNK)));
        cdz_buf_putc(w->out, ',');
    }
    cdz_buf_puts(w->out, "\"vocab\":{");
    for (uint32_t id = 0; id < n; id++) {
        size_t len;
        const char *text = text_of(w, id, &len);
        put_id(w, text, len, id);
    }
    for (uint32_t i = 0; i < w->n_hidden; i++)
        put_id(w, w->pieces[w->n + i].text, w->pieces[w->n + i].len, n + i);
    cdz_buf_puts(w->out, "},");
    CDZ_TRY(write_merges(w));
    cdz_buf_putc(w->out, '}');
    return CDZ_OK;
}

static void put_scored(writer *w, const char *text, size_t len, float score)
{
    cdz_buf_putc(w->out, '[');
    put_text(w, text, len);
    if (isnan(score))
        cdz_buf_puts(w->out, ",null]");
    else
        cdz_buf_printf(w->out, ",%.17g]", (double)score); /* sums are of doubles */
}

static cdz_status write_unigram(writer *w)
{
    if (w->unk_id >= w->n)
        return cdz_err(w->err, CDZ_E_INPUT, "%s: its unknown piece is %llu, there are %u pieces",
                       w->name, (unsigned long long)w->unk_id, (unsigned)w->n);
    const uint32_t n = w->n_hidden ? w->n_ids : w->n + w->n_extra;
    cdz_buf_puts(w->out, "\"model\":{\"type\":\"Unigram\",\"byte_fallback\":false,");
    write_known(w);
    cdz_buf_printf(w->out, "\"float32\":%s,\"unk_id\":%u,\"vocab\":[",
                   of_way[w->way].numbered ? "true" : "false", (unsigned)w->unk_id);
    for (uint32_t id = 0; id < n; id++) {
        size_t len;
        const char *text = text_of(w, id, &len);
        if (id) cdz_buf_putc(w->out, ',');
        put_scored(w, text, len,
                   id < w->n                ? w->pieces[id].score
                   : id < w->n + w->n_extra ? 0
                                            : NAN);
    }
    for (uint32_t i = 0; i < w->n_hidden; i++) {
        const piece *p = &w->pieces[w->n + i];
        cdz_buf_putc(w->out, ',');
        put_scored(w, p->text, p->len, p->score);
    }
    cdz_buf_puts(w->out, "]}");
    return CDZ_OK;
}

static cdz_status write_tokenizer(writer *w, span all)
{
    CDZ_TRY(read_model(w, all));
    CDZ_TRY(read_class(w));
    CDZ_TRY(take_ids(w));
    CDZ_TRY(add_all(w));
    cdz_buf_putc(w->out, '{');
    write_added(w);
    write_spaces(w);
    CDZ_TRY(write_template(w));
    CDZ_TRY(w->model_type == UNIGRAM ? write_unigram(w) : write_bpe(w));
    cdz_buf_putc(w->out, '}');
    return w->out->failed ? cdz_err_memory_in(w->err, w->name) : CDZ_OK;
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
