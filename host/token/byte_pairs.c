/* byte_pairs.c - writing a tokenizer.json from vocab.json and merges.txt.
 *
 * What is made of them is the reference's (transformers 5): a class says how a text is cut, which special tokens there are and
 * what is put around a text. Tokens that vocab.json lacks get the next ids, in this order: those that are listed with their
 * ids, which must be these, the special tokens by their roles, and more special ones. */
#include "token/byte_pairs.h"

#include <stdio.h>
#include <string.h>

#include "token/ends_out.h"
#include "token/settings.h"
#include "token/strmap.h"

enum {
    MOST_TOKENS = 1 << 20,
    MOST_ADDED = 1 << 13,
    MOST_LINE = 1 << 12, /* of merges.txt, which is shown in sentences */
};

enum { BOS, EOS, UNK, SEP, PAD, CLS, MASK, N_ROLES }; /* in the order in which they are added */

static const char *const role_keys[N_ROLES] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                               "pad_token", "cls_token", "mask_token"};

/* What is put around a text. */
typedef enum around {
    AS_SAID,       /* add_bos_token, add_eos_token */
    END,           /* the end */
    CLASS_AND_SEP, /* cls and sep, two seps between two texts */
    NOTHING
} around;

typedef struct class
{
    const char *name, *roles[N_ROLES];
    around around;
    bool prefix;      /* a space before a text, unless add_prefix_space says otherwise */
    bool mask_lstrip; /* the mask takes the spaces before it, where it is named by its text alone */
    bool nfc;
    bool words; /* characters in place of bytes, lower-cased; tokens inside a word end in INNER */
    const char *pattern; /* NULL: GPT-2's */
} class;

#define QWEN2                                                                                      \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+"      \
    "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define INNER    "@@"
#define WORD_END "</w>"
#define TEXT_END "<|endoftext|>"
/* clang-format off */
#define FAIRSEQ {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}
/* clang-format on */

static const class classes[] = {
    {.name = "GPT2Tokenizer", .roles = {TEXT_END, TEXT_END, TEXT_END}},
    {.name = "CodeGenTokenizer", .roles = {TEXT_END, TEXT_END, TEXT_END}},
    {.name = "GPTNeoXTokenizer",
     .roles = {TEXT_END, TEXT_END, TEXT_END, NULL, "<|padding|>"},
     .nfc = true},
    {.name = "Qwen2Tokenizer",
     .roles = {NULL, TEXT_END, TEXT_END, NULL, TEXT_END},
     .nfc = true,
     .pattern = QWEN2},
    {.name = "RobertaTokenizer", .roles = FAIRSEQ, .around = CLASS_AND_SEP},
    {.name = "BartTokenizer", .roles = FAIRSEQ, .around = CLASS_AND_SEP},
    {.name = "BlenderbotTokenizer",
     .roles = FAIRSEQ,
     .around = END,
     .prefix = true,
     .mask_lstrip = true},
    {.name = "BlenderbotSmallTokenizer",
     .roles = {"__start__", "__end__", "__unk__", NULL, "__null__"},
     .around = NOTHING,
     .words = true},
};

/* A token that is looked for in texts before they are cut. */
typedef struct added {
    const char *text;
    uint32_t len;
    bool special, lstrip, rstrip, single_word, normalized;
} added;

typedef struct writer {
    const cdz_byte_pairs *from;
    const class *class;
    cdz_arena arena;
    cdz_strmap ids;   /* of all tokens */
    cdz_strmap place; /* of added ones: where they lie in the list */
    added *added;
    uint32_t n_added;
    uint32_t n_vocab;
    int32_t highest; /* id of an added token, or -1 */
    cdz_buf *out;
    cdz_error *err;
} writer;

/* --- the class ------------------------------------------------------------------------------------------------------ */

static cdz_status read_class(writer *w)
{
    const cdz_json *name = cdz_tokenizer_setting(w->from->settings, "tokenizer_class");
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (cdz_json_eq(name, classes[i].name)) w->class = &classes[i];
    if (w->class) return CDZ_OK;
    return cdz_err(
        w->err, CDZ_E_UNSUPPORTED,
        "%s: what %.60s makes of vocab.json and merges.txt is not known here (known are "
        "GPT2Tokenizer, CodeGenTokenizer, GPTNeoXTokenizer, Qwen2Tokenizer, "
        "RobertaTokenizer, BartTokenizer, BlenderbotTokenizer, BlenderbotSmallTokenizer); a tokenizer.json beside "
        "them would be read in their place",
        w->from->folder,
        cdz_json_is(name, CDZ_JSON_STRING) ? name->string
                                           : "a tokenizer without a \"tokenizer_class\"");
}

/* The value that the settings have for it, or NULL. null there means none. */
static const cdz_json *role_value(const writer *w, size_t i, const char **text)
{
    const cdz_json *said = cdz_json_get(w->from->settings, role_keys[i]),
                   *known = cdz_tokenizer_token_text(said);
    *text = known ? known->string : said ? NULL : w->class->roles[i];
    return known ? said : NULL;
}

static const char *role(const writer *w, size_t i)
{
    const char *text;
    role_value(w, i, &text);
    return text;
}

/* --- the vocabulary -------------------------------------------------------------------------------------------------- */

static cdz_status read_vocab(writer *w)
{
    const cdz_json *v = w->from->vocab;
    if (v->type != CDZ_JSON_OBJECT || !v->len || v->len > MOST_TOKENS)
        return cdz_err(w->err, CDZ_E_INPUT, "%s/vocab.json: is not an object of 1 to %d ids",
                       w->from->folder, MOST_TOKENS);
    if (!cdz_strmap_init(&w->ids, &w->arena, v->len + MOST_ADDED) ||
        !cdz_strmap_init(&w->place, &w->arena, MOST_ADDED) ||
        !(w->added = cdz_arena_array(&w->arena, MOST_ADDED, sizeof *w->added)))
        return cdz_err_memory_in(w->err, w->from->folder);
    for (uint32_t i = 0; i < v->len; i++) {
        const cdz_json_member *m = &v->members[i];
        bool again;
        if (m->value.type != CDZ_JSON_INT || m->value.integer < 0 || m->value.integer > MOST_TOKENS)
            return cdz_err(w->err, CDZ_E_INPUT,
                           "%s/vocab.json: line %u: the id of \"%.40s\" must be from 0 to %d",
                           w->from->folder, m->value.line, m->key, MOST_TOKENS);
        cdz_strmap_put(&w->ids, m->key, m->key_len, (int32_t)m->value.integer, &again);
    }
    w->n_vocab = v->len;
    w->highest = -1;
    return CDZ_OK;
}

/* --- added tokens ------------------------------------------------------------------------------------------------------ */

/* The one in vocab.json, or the next: behind the highest added one, and never below the count of vocab.json. */
static void give_id(writer *w, const added *a)
{
    bool again;
    int32_t id = cdz_strmap_get(&w->ids, a->text, a->len);
    if (id < 0) {
        id = w->highest >= (int32_t)w->n_vocab ? w->highest + 1 : (int32_t)w->n_vocab;
        cdz_strmap_put(&w->ids, a->text, a->len, id, &again);
    }
    if (id > w->highest) w->highest = id;
}

/* Of one text the flags of the last count, and it is special where one is. */
static cdz_status add_token(writer *w, const cdz_json *text, added how)
{
    bool again;
    if (strlen(text->string) != text->len)
        return cdz_err(w->err, CDZ_E_INPUT, "%s: the token \"%.40s\" has a NUL in it",
                       w->from->folder, text->string);
    if (w->n_added == MOST_ADDED)
        return cdz_err(w->err, CDZ_E_LIMIT, "%s: more than %d tokens are added to it",
                       w->from->folder, MOST_ADDED);
    how.text = text->string;
    how.len = text->len;
    const uint32_t at =
        (uint32_t)cdz_strmap_put(&w->place, how.text, how.len, (int32_t)w->n_added, &again)->id;
    if (again) how.special = how.special || w->added[at].special;
    w->added[at] = how;
    w->n_added += !again;
    give_id(w, &how);
    return CDZ_OK;
}

static added flags_of(const cdz_json *v, bool special)
{
    return (added){.special = special,
                   .lstrip = cdz_tokenizer_token_flag(v, "lstrip"),
                   .rstrip = cdz_tokenizer_token_flag(v, "rstrip"),
                   .single_word = cdz_tokenizer_token_flag(v, "single_word"),
                   .normalized = cdz_tokenizer_token_flag(v, "normalized")};
}

/* {"50257": {"content", "special"}}, which must be the ids that these tokens have. */
static cdz_status add_listed(writer *w)
{
    const cdz_json *list = cdz_tokenizer_setting(w->from->settings, "added_tokens_decoder");
    for (uint32_t i = 0; cdz_json_is(list, CDZ_JSON_OBJECT) && i < list->len; i++) {
        const cdz_json *v = &list->members[i].value, *text = cdz_tokenizer_token_text(v);
        char id[16];
        if (!text)
            return cdz_err(w->err, CDZ_E_INPUT,
                           "%s: added token %.20s of its settings has no \"content\"",
                           w->from->folder, list->members[i].key);
        CDZ_TRY(add_token(w, text, flags_of(v, cdz_tokenizer_token_flag(v, "special"))));
        snprintf(id, sizeof id, "%d", cdz_strmap_get(&w->ids, text->string, text->len));
        if (strcmp(id, list->members[i].key) != 0)
            return cdz_err(w->err, CDZ_E_INPUT,
                           "%s: its settings give \"%.40s\" the id %.20s, its own is %s",
                           w->from->folder, text->string, list->members[i].key, id);
    }
    return CDZ_OK;
}

/* A role's text that is listed keeps the flags of the list. */
static cdz_status add_roles(writer *w)
{
    const uint32_t n_listed = w->n_added;
    for (size_t i = 0; i < N_ROLES; i++) {
        const char *text;
        const cdz_json *v = role_value(w, i, &text);
        const cdz_json own = {
            .type = CDZ_JSON_STRING, .string = text, .len = text ? (uint32_t)strlen(text) : 0};
        const int32_t at = text ? cdz_strmap_get(&w->place, text, own.len) : -1;
        added how = flags_of(v, true);
        if (!text) continue;
        if (!cdz_json_is(v, CDZ_JSON_OBJECT)) how.lstrip = i == MASK && w->class->mask_lstrip;
        if (at >= 0 && (uint32_t)at < n_listed)
            w->added[at].special = true;
        else
            CDZ_TRY(add_token(w, v ? cdz_tokenizer_token_text(v) : &own, how));
    }
    return CDZ_OK;
}

static cdz_status add_more(writer *w)
{
    const cdz_json *more = cdz_tokenizer_more_tokens(w->from->settings);
    for (uint32_t i = 0; more && i < more->len; i++) {
        const cdz_json *text = cdz_tokenizer_token_text(&more->items[i]);
        if (text && cdz_strmap_get(&w->place, text->string, text->len) < 0)
            CDZ_TRY(add_token(w, text, flags_of(&more->items[i], true)));
    }
    return CDZ_OK;
}

/* --- writing ------------------------------------------------------------------------------------------------------------- */

static void put_flag(cdz_buf *out, const char *key, bool set)
{
    cdz_buf_printf(out, ",\"%s\":%s", key, set ? "true" : "false");
}

static void write_added(writer *w)
{
    cdz_buf_puts(w->out, "\"added_tokens\":[");
    for (uint32_t i = 0; i < w->n_added; i++) {
        const added *a = &w->added[i];
        cdz_buf_printf(w->out, "%s{\"id\":%d,\"content\":", i ? "," : "",
                       cdz_strmap_get(&w->ids, a->text, a->len));
        cdz_json_write_string(w->out, a->text, a->len);
        put_flag(w->out, "special", a->special);
        put_flag(w->out, "normalized", a->normalized && !w->class->words);
        put_flag(w->out, "single_word", a->single_word);
        put_flag(w->out, "lstrip", a->lstrip);
        put_flag(w->out, "rstrip", a->rstrip);
        cdz_buf_putc(w->out, '}');
    }
    cdz_buf_puts(w->out, "],");
}

static void write_cutting(writer *w)
{
    const bool prefix =
        cdz_tokenizer_setting_is(w->from->settings, "add_prefix_space", w->class->prefix);
    if (w->class->nfc) cdz_buf_puts(w->out, "\"normalizer\":{\"type\":\"NFC\"},");
    cdz_buf_puts(w->out, "\"pre_tokenizer\":");
    if (w->class->pattern) {
        cdz_buf_puts(w->out, "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
                             "\"behavior\":\"Isolated\",\"invert\":false,\"pattern\":{\"Regex\":");
        cdz_json_write_string(w->out, w->class->pattern, strlen(w->class->pattern));
        cdz_buf_puts(w->out, "}},");
    }
    cdz_buf_puts(w->out, "{\"type\":\"ByteLevel\"");
    put_flag(w->out, "add_prefix_space", prefix);
    put_flag(w->out, "trim_offsets", true);
    put_flag(w->out, "use_regex", !w->class->pattern);
    cdz_buf_printf(w->out, "}%s,\"decoder\":{\"type\":\"ByteLevel\"},",
                   w->class->pattern ? "]}" : "");
}

/* As the class has it: a line's end behind a word is a word, other spaces only part words; ' is a word, and the marks begin one.
 * Python's lower() knows where a Greek word ends. */
static void write_word_cutting(writer *w)
{
    static const char before[] =
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
        "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(?<=[^\\\\s'])\\\\n\"},\"content\":\" __newln__ "
        "\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(?<=[\\\\p{L}\\\\p{M}])\\u03a3(?![\\\\p{M}\\\\p{Cf}"
        "\\\\p{Lm}\\\\p{Sk}:\\u00b7\\u2019]*[\\\\p{Lu}\\\\p{Ll}\\\\p{Lt}])\"},\"content\":\"\\u03c2\"},"
        "{\"type\":\"Lowercase\"}]},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
        "{\"type\":\"WhitespaceSplit\"},{\"type\":\"Split\",\"pattern\":{\"String\":\"'\"},\"behavior\":"
        "\"Isolated\",\"invert\":false},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[.,!?()]\"},\"behavior\":"
        "\"MergedWithNext\",\"invert\":false}]},";
    /* A space between all tokens, but none behind those that end in INNER: no token begins with what is named as a prefix. */
    static const char behind[] =
        "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"WordPiece\",\"prefix\":\"" INNER
        " \",\"cleanup\":false},{\"type\":\"Fuse\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\"" INNER
        " \"},\"content\":\"\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1048576,\"stop\":1048576}]},";
    cdz_buf_puts(w->out, before);
    cdz_buf_puts(w->out, behind);
}

static cdz_status must_have(writer *w, size_t i, const char **out)
{
    *out = role(w, i);
    return *out ? CDZ_OK
                : cdz_err(w->err, CDZ_E_INPUT, "%s: %s puts a \"%s\" around texts, it is null",
                          w->from->folder, w->class->name, role_keys[i]);
}

static void put_pair(writer *w, const char *key, const char *text)
{
    cdz_buf_printf(w->out, ",\"%s\":[", key);
    cdz_json_write_string(w->out, text, strlen(text));
    cdz_buf_printf(w->out, ",%d]", cdz_strmap_get(&w->ids, text, strlen(text)));
}

static cdz_status write_class_and_sep(writer *w)
{
    const char *sep, *cls;
    CDZ_TRY(must_have(w, SEP, &sep));
    CDZ_TRY(must_have(w, CLS, &cls));
    cdz_buf_puts(w->out, "\"post_processor\":{\"type\":\"RobertaProcessing\"");
    put_pair(w, "sep", sep);
    put_pair(w, "cls", cls);
    put_flag(w->out, "trim_offsets",
             cdz_tokenizer_setting_is(w->from->settings, "trim_offsets", true));
    put_flag(w->out, "add_prefix_space",
             cdz_tokenizer_setting_is(w->from->settings, "add_prefix_space", false));
    cdz_buf_puts(w->out, "},");
    return CDZ_OK;
}

static void write_ends(writer *w, const char *bos, const char *eos)
{
    const cdz_tokenizer_end begin = {bos, bos ? cdz_strmap_get(&w->ids, bos, strlen(bos)) : -1},
                            end = {eos, eos ? cdz_strmap_get(&w->ids, eos, strlen(eos)) : -1};
    cdz_tokenizer_put_ends(w->out, begin, end, 1);
}

static cdz_status write_around(writer *w)
{
    const cdz_json *s = w->from->settings;
    const bool bos = cdz_tokenizer_setting_is(s, "add_bos_token", false),
               eos = cdz_tokenizer_setting_is(s, "add_eos_token", false);
    const char *end;
    switch (w->class->around) {
    case CLASS_AND_SEP: return write_class_and_sep(w);
    case END:
        CDZ_TRY(must_have(w, EOS, &end));
        write_ends(w, NULL, end);
        break;
    case NOTHING: break;
    case AS_SAID: write_ends(w, bos ? role(w, BOS) : NULL, eos ? role(w, EOS) : NULL);
    }
    return CDZ_OK;
}

/* --- merges --------------------------------------------------------------------------------------------------------------- */

typedef struct line {
    const char *text;
    size_t len;
    uint32_t number;
} line;

static bool next_line(const char **at, const char *end, line *l)
{
    if (*at == end) return false;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    l->text = *at;
    l->len = (size_t)((stop ? stop : end) - *at);
    l->number++;
    *at = stop ? stop + 1 : end;
    if (l->len && l->text[l->len - 1] == '\r') l->len--;
    return true;
}

/* Of the model: those of vocab.json were put into the map first. */
static bool is_token(const writer *w, const char *text, size_t len)
{
    const cdz_strmap_entry *e =
        cdz_strmap_find(&w->ids, text, len, cdz_strmap_hash(&w->ids, text, len));
    return e && (uint32_t)(e - w->ids.entries) < w->n_vocab;
}

static cdz_status wrong_line(const writer *w, const line *l, const char *what)
{
    return cdz_err(w->err, CDZ_E_INPUT, "%s/merges.txt: line %u: \"%.*s\" %s", w->from->folder,
                   (unsigned)l->number, (int)(l->len < 80 ? l->len : 80), l->text, what);
}

static cdz_status write_merge(writer *w, const line *l, bool comma)
{
    char joined[MOST_LINE];
    const char *space = l->len < MOST_LINE ? memchr(l->text, ' ', l->len) : NULL;
    const size_t left = space ? (size_t)(space - l->text) : 0;
    if (!space || memchr(space + 1, ' ', l->len - left - 1))
        return wrong_line(w, l, "is no merge: expected two tokens and one space between them");
    memcpy(joined, l->text, left);
    memcpy(joined + left, space + 1, l->len - left - 1);
    if (!is_token(w, l->text, left) || !is_token(w, space + 1, l->len - left - 1) ||
        !is_token(w, joined, l->len - 1))
        return wrong_line(w, l, "names or makes a token that vocab.json lacks");
    if (comma) cdz_buf_putc(w->out, ',');
    cdz_json_write_string(w->out, l->text, l->len);
    return CDZ_OK;
}

static cdz_status write_merges(writer *w)
{
    static const char version[] = "#version";
    const char *at = w->from->merges, *end = at + w->from->merges_len;
    bool comma = false;
    cdz_buf_puts(w->out, "\"merges\":[");
    for (line l = {0}; next_line(&at, end, &l) && !w->out->failed;) {
        if (l.len >= sizeof version - 1 && memcmp(l.text, version, sizeof version - 1) == 0)
            continue;
        CDZ_TRY(write_merge(w, &l, comma));
        comma = true;
    }
    cdz_buf_putc(w->out, ']');
    return CDZ_OK;
}

/* --- words --------------------------------------------------------------------------------------------------------------- */

/* What merges make that vocab.json lacks is found in a text, and is unknown: it gets an id behind all others. */
typedef struct word_merges {
    writer *w;
    cdz_strmap more;
    int32_t known, next; /* the first id that vocab.json lacks; of a token that it lacks */
    cdz_buf text;
} word_merges;

static bool ends_word(const char *symbol, size_t len)
{
    const size_t n = sizeof WORD_END - 1;
    return len > n && memcmp(symbol + len - n, WORD_END, n) == 0;
}

/* A symbol of merges.txt as vocab.json writes it; to has room for INNER more. Returns its length. */
static size_t spell(const char *symbol, size_t len, char *to)
{
    const bool last = ends_word(symbol, len);
    if (last) len -= sizeof WORD_END - 1;
    memcpy(to, symbol, len);
    if (!last) memcpy(to + len, INNER, sizeof INNER - 1);
    return last ? len : len + sizeof INNER - 1;
}

static void give_word_id(word_merges *m, const char *text, size_t len)
{
    bool again;
    if (is_token(m->w, text, len) || cdz_strmap_get(&m->more, text, (uint32_t)len) >= 0) return;
    char *kept = cdz_arena_strndup(&m->w->arena, text, len);
    if (kept)
        cdz_strmap_put(&m->more, kept, (uint32_t)len, m->next++, &again);
    else
        m->text.failed = true;
}

static cdz_status add_word_merge(word_merges *m, const line *l)
{
    char joined[MOST_LINE], names[3][MOST_LINE + sizeof INNER];
    const char *space = l->len < MOST_LINE ? memchr(l->text, ' ', l->len) : NULL;
    const size_t left = space ? (size_t)(space - l->text) : 0, right = space ? l->len - left - 1 : 0;
    if (!left || !right || memchr(space + 1, ' ', right))
        return wrong_line(m->w, l, "is no merge: expected two tokens and one space between them");
    if (ends_word(l->text, left)) return CDZ_OK; /* nothing is behind the end of a word */
    memcpy(joined, l->text, left);
    memcpy(joined + left, space + 1, right);
    const size_t n[] = {spell(l->text, left, names[0]), spell(space + 1, right, names[1]),
                        spell(joined, left + right, names[2])};
    for (size_t i = 0; i < 3; i++) give_word_id(m, names[i], n[i]);
    cdz_buf_puts(&m->text, m->text.len ? ",[" : "[");
    cdz_json_write_string(&m->text, names[0], n[0]);
    cdz_buf_putc(&m->text, ',');
    cdz_json_write_string(&m->text, names[1], n[1]);
    cdz_buf_putc(&m->text, ']');
    return CDZ_OK;
}

/* As the class reads the file: whatever its first line is, and what ends without a line's end, is no merge. */
static cdz_status read_word_merges(word_merges *m)
{
    const char *at = m->w->from->merges, *end = at + m->w->from->merges_len;
    while (end > at && end[-1] != '\n') end--;
    for (line l = {0}; next_line(&at, end, &l) && !m->text.failed;)
        if (l.number > 1) CDZ_TRY(add_word_merge(m, &l));
    return CDZ_OK;
}

static void write_word_vocab(const word_merges *m)
{
    const cdz_json *v = m->w->from->vocab;
    cdz_buf *out = m->w->out;
    cdz_buf_puts(out, "\"vocab\":{");
    for (uint32_t i = 0; i < v->len; i++) {
        if (i) cdz_buf_putc(out, ',');
        cdz_json_write_string(out, v->members[i].key, v->members[i].key_len);
        cdz_buf_printf(out, ":%lld", (long long)v->members[i].value.integer);
    }
    for (uint32_t i = 0; i < m->more.n; i++) {
        cdz_buf_putc(out, ',');
        cdz_json_write_string(out, m->more.entries[i].text, m->more.entries[i].len);
        cdz_buf_printf(out, ":%d", m->more.entries[i].id);
    }
    cdz_buf_printf(out, "},\"n_known\":%d,", m->known);
}

/* Or one more than are taken. */
static uint32_t count_lines(const char *text, size_t len)
{
    uint32_t n = 1;
    for (size_t i = 0; i < len && n <= MOST_TOKENS; i++) n += text[i] == '\n';
    return n;
}

static cdz_status write_word_model(writer *w)
{
    word_merges m = {.w = w};
    const uint32_t n_lines = count_lines(w->from->merges, w->from->merges_len);
    const char *unk = role(w, UNK);
    for (uint32_t i = 0; i < w->n_vocab; i++)
        if (w->ids.entries[i].id >= m.known) m.known = w->ids.entries[i].id + 1;
    m.next = w->highest >= m.known ? w->highest + 1 : m.known;
    if (n_lines > MOST_TOKENS)
        return cdz_err(w->err, CDZ_E_LIMIT, "%s/merges.txt: has more than %d lines",
                       w->from->folder, MOST_TOKENS);
    if (!cdz_strmap_init(&m.more, &w->arena, 3 * n_lines))
        return cdz_err_memory_in(w->err, w->from->folder);
    const cdz_status status = read_word_merges(&m);
    cdz_buf_puts(w->out, "\"model\":{\"type\":\"BPE\",\"inner_suffix\":\"" INNER "\"");
    if (unk && is_token(w, unk, strlen(unk)))
        cdz_json_write_member(w->out, "unk_token", unk, strlen(unk));
    cdz_buf_putc(w->out, ',');
    write_word_vocab(&m);
    cdz_buf_puts(w->out, "\"merges\":[");
    if (m.text.len) cdz_buf_add(w->out, m.text.data, m.text.len);
    cdz_buf_puts(w->out, "]}}");
    if (m.text.failed) w->out->failed = true;
    cdz_buf_free(&m.text);
    return status;
}

/* --- all of it ----------------------------------------------------------------------------------------------------------- */

static cdz_status write_byte_model(writer *w)
{
    cdz_buf_puts(w->out, "\"model\":{\"type\":\"BPE\",\"vocab\":");
    cdz_json_write(w->out, w->from->vocab);
    cdz_buf_putc(w->out, ',');
    CDZ_TRY(write_merges(w));
    cdz_buf_puts(w->out, "}}");
    return CDZ_OK;
}

static cdz_status write_tokenizer(writer *w)
{
    CDZ_TRY(read_class(w));
    CDZ_TRY(read_vocab(w));
    CDZ_TRY(add_listed(w));
    CDZ_TRY(add_roles(w));
    CDZ_TRY(add_more(w));
    cdz_buf_putc(w->out, '{');
    write_added(w);
    if (w->class->words)
        write_word_cutting(w);
    else
        write_cutting(w);
    CDZ_TRY(write_around(w));
    CDZ_TRY(w->class->words ? write_word_model(w) : write_byte_model(w));
    return w->out->failed ? cdz_err_memory_in(w->err, w->from->folder) : CDZ_OK;
}

/* The settings, and what they do not say of roles. */
static void write_config(const writer *w, cdz_buf *out)
{
    const cdz_json *s = w->from->settings; /* with its class, so never empty */
    for (uint32_t i = 0; i < s->len; i++) {
        cdz_buf_putc(out, i ? ',' : '{');
        cdz_json_write_string(out, s->members[i].key, s->members[i].key_len);
        cdz_buf_putc(out, ':');
        cdz_json_write(out, &s->members[i].value);
    }
    for (size_t i = 0; i < N_ROLES; i++)
        if (!cdz_json_get(s, role_keys[i]) && w->class->roles[i])
            cdz_json_write_member(out, role_keys[i], w->class->roles[i], strlen(w->class->roles[i]));
    cdz_buf_putc(out, '}');
}

cdz_status cdz_tokenizer_json_of_byte_pairs(const cdz_byte_pairs *from, cdz_buf *out,
                                            cdz_buf *config, cdz_error *err)
{
    writer w = {.from = from, .out = out, .err = err};
    cdz_status status = write_tokenizer(&w);
    if (status == CDZ_OK) {
        write_config(&w, config);
        if (config->failed) status = cdz_err_memory_in(err, from->folder);
    }
    cdz_arena_free(&w.arena);
    return status;
}
