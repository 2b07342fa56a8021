/* gguf.c - writing a tokenizer.json and a tokenizer_config.json from a GGUF file's keys.
 *
 * Two kinds: "gpt2", byte-level BPE whose merges are stored and whose cutting has a name
 * (gguf_pre.c); and "llama", sentencepiece's BPE, which has scores: its merges are all ways to
 * put a token together of two others, the best score first, as the reference's converter makes
 * them. */
#include "token/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "token/strmap.h"

#define KEY(name) "tokenizer.ggml." name

enum {
    MAX_TOKENS = 1 << 19,
    MAX_MERGES = 1 << 20,
    MAX_SCORED_BYTES = 1024, /* of a token that has a score; bounds the search for its halves */
};

/* token_type */
enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5 };

typedef struct token {
    const char *text;
    uint32_t len;
    int32_t type;
    bool again; /* an earlier id has the same text */
} token;

typedef struct writer {
    const cdz_gguf *g;
    cdz_arena arena;
    token *tokens;
    uint32_t n;
    cdz_strmap ids;
    const cdz_gguf_value *scores; /* n of them, or none */
    bool scored;                  /* kind "llama" */
    const cdz_gguf_pre *pre;      /* kind "gpt2" */
    bool prefix_space;
    bool metaspace, metaspace_first; /* spaces as a pre-tokenizer makes them, see read_metaspace */
    cdz_buf *out;
    cdz_error *err;
} writer;

static cdz_status no_memory(const writer *w)
{
    if (w->out->failed && w->out->limit)
        return cdz_err(w->err, CDZ_E_LIMIT,
                       "%s: its tokenizer takes more than the %zu bytes it may have as JSON",
                       w->g->path, w->out->limit);
    return cdz_err_memory_in(w->err, w->g->path);
}

/* --- kinds --------------------------------------------------------------------------------- */

static cdz_status read_pre(writer *w)
{
    const char *name = "default";
    size_t len = strlen(name);
    CDZ_TRY(cdz_gguf_string(w->g, KEY("pre"), &name, &len, w->err));
    w->pre = cdz_pretok_of_gguf(name, len);
    if (w->pre) return CDZ_OK;
    return cdz_err(w->err, CDZ_E_UNSUPPORTED,
                   "%s: " KEY("pre") " \"%.*s\" names a way of cutting text that is not known here",
                   w->g->path, (int)(len < 60 ? len : 60), name);
}

static bool is(const char *text, size_t len, const char *name)
{
    return len == strlen(name) && memcmp(text, name, len) == 0;
}

/* A key of our own converter's. Newer tokenizers put no space before a text that begins with one,
 * or that follows a special token; GGUF has no word for that. */
static cdz_status read_metaspace(writer *w)
{
    const char *scheme = "none";
    size_t len = 4;
    CDZ_TRY(cdz_gguf_string(w->g, "cadenza.tokenizer.prepend_scheme", &scheme, &len, w->err));
    w->metaspace_first = is(scheme, len, "first");
    w->metaspace = w->metaspace_first || is(scheme, len, "always");
    return CDZ_OK;
}

static cdz_status read_kind(writer *w)
{
    const char *kind = "none";
    size_t len = 4;
    CDZ_TRY(cdz_gguf_string(w->g, KEY("model"), &kind, &len, w->err));
    if (is(kind, len, "none"))
        return cdz_err(w->err, CDZ_E_NOT_FOUND, "%s: has no tokenizer", w->g->path);
    w->scored = is(kind, len, "llama");
    w->prefix_space = w->scored;
    if (w->scored) {
        CDZ_TRY(cdz_gguf_bool(w->g, KEY("add_space_prefix"), &w->prefix_space, w->err));
        return read_metaspace(w);
    }
    if (is(kind, len, "gpt2")) return read_pre(w);
    return cdz_err(w->err, CDZ_E_UNSUPPORTED,
                   "%s: " KEY("model") " \"%.*s\" is not supported; supported are gpt2, llama",
                   w->g->path, (int)(len < 60 ? len : 60), kind);
}

/* --- the vocabulary ------------------------------------------------------------------------ */

static cdz_status check_count(const writer *w, const cdz_gguf_value *v)
{
    if (v->n == 0 || v->n == w->n) return CDZ_OK;
    return cdz_err(w->err, CDZ_E_INPUT, "%s: %s has %llu entries, there are %u tokens", w->g->path,
                   v->key, (unsigned long long)v->n, (unsigned)w->n);
}

static cdz_status take_token(writer *w, uint32_t i, const char *text, size_t len)
{
    const size_t most = w->scored ? MAX_SCORED_BYTES : INT32_MAX;
    if (len > most)
        return cdz_err(w->err, CDZ_E_LIMIT, "%s: token %u has %zu bytes, at most %zu are possible",
                       w->g->path, (unsigned)i, len, most);
    if (!cdz_utf8_valid(text, len))
        return cdz_err(w->err, CDZ_E_INPUT, "%s: token %u is not UTF-8", w->g->path, (unsigned)i);
    token *t = &w->tokens[i];
    *t = (token){.text = text, .len = (uint32_t)len, .type = NORMAL};
    cdz_strmap_put(&w->ids, text, t->len, (int32_t)i, &t->again);
    return CDZ_OK;
}

/* What the converter makes up for rows of the embedding that no token has: "[PAD151]". They have no text. */
static bool is_filler(const token *t)
{
    static const char before[] = "[PAD";
    const size_t from = sizeof before - 1;
    if (t->type != UNUSED || t->len < from + 2 || memcmp(t->text, before, from) != 0) return false;
    size_t end = from;
    while (end < t->len && t->text[end] >= '0' && t->text[end] <= '9') end++;
    return end > from && end + 1 == t->len && t->text[end] == ']';
}

/* The embedding must have a row for every token. The converter rounds the number of some up, and fills. */
static cdz_status check_rows(writer *w)
{
    const cdz_tensor *t = cdz_tensors_find(&w->g->tensors, "token_embd.weight");
    if (!t || t->n_dims != 2) return CDZ_OK;
    uint32_t n = w->n;
    while (n > t->shape[0] && is_filler(&w->tokens[n - 1])) n--;
    if (n > t->shape[0])
        return cdz_err(w->err, CDZ_E_INPUT,
                       "%s: has %u tokens, but token_embd.weight only %llu rows", w->g->path,
                       (unsigned)n, (unsigned long long)t->shape[0]);
    w->n = n;
    return CDZ_OK;
}

static cdz_status read_tokens(writer *w)
{
    const cdz_gguf_value *tokens, *types;
    CDZ_TRY(cdz_gguf_array(w->g, KEY("tokens"), CDZ_GGUF_STRING, &tokens, w->err));
    CDZ_TRY(cdz_gguf_array(w->g, KEY("token_type"), CDZ_GGUF_I32, &types, w->err));
    CDZ_TRY(cdz_gguf_array(w->g, KEY("scores"), CDZ_GGUF_F32, &w->scores, w->err));
    if (tokens->n == 0 || tokens->n > MAX_TOKENS)
        return cdz_err(w->err, CDZ_E_INPUT,
                       "%s: " KEY("tokens") " has %llu entries, expected 1 to %d", w->g->path,
                       (unsigned long long)tokens->n, MAX_TOKENS);
    w->n = (uint32_t)tokens->n;
    CDZ_TRY(check_count(w, types));
    CDZ_TRY(check_count(w, w->scores));
    if (w->scored && w->scores->n == 0)
        return cdz_err(w->err, CDZ_E_INPUT, "%s: " KEY("scores") " is missing", w->g->path);
    w->tokens = cdz_arena_array(&w->arena, w->n, sizeof *w->tokens);
    if (!w->tokens || !cdz_strmap_init(&w->ids, &w->arena, w->n)) return no_memory(w);
    const uint8_t *at = tokens->data;
    for (uint32_t i = 0; i < w->n; i++) {
        size_t len;
        const char *text = cdz_gguf_next_string(&at, &len);
        CDZ_TRY(take_token(w, i, text, len));
        if (types->n) w->tokens[i].type = (int32_t)cdz_gguf_int_at(types, i);
    }
    return check_rows(w);
}

static void put_text(writer *w, const char *text, size_t len)
{
    cdz_json_write_string(w->out, text, len);
}

static void write_vocab(writer *w)
{
    cdz_buf_puts(w->out, "\"vocab\":{");
    bool first = true;
    for (uint32_t i = 0; i < w->n; i++) {
        if (w->tokens[i].again || is_filler(&w->tokens[i])) continue;
        if (!first) cdz_buf_putc(w->out, ',');
        first = false;
        put_text(w, w->tokens[i].text, w->tokens[i].len);
        cdz_buf_printf(w->out, ":%u", (unsigned)i);
    }
    cdz_buf_putc(w->out, '}');
}

static void write_added(writer *w)
{
    cdz_buf_puts(w->out, "\"added_tokens\":[");
    bool first = true;
    for (uint32_t i = 0; i < w->n; i++) {
        const token *t = &w->tokens[i];
        const bool special = t->type == CONTROL;
        if (t->again || t->len == 0 || (!special && t->type != USER_DEFINED)) continue;
        cdz_buf_printf(w->out, "%s{\"id\":%u,\"content\":", first ? "" : ",", (unsigned)i);
        first = false;
        put_text(w, t->text, t->len);
        cdz_buf_printf(w->out,
                       ",\"special\":%s,\"normalized\":false,\"single_word\":false,"
                       "\"lstrip\":false,\"rstrip\":false}",
                       special ? "true" : "false");
    }
    cdz_buf_putc(w->out, ']');
}

/* --- merges -------------------------------------------------------------------------------- */

/* "a b", cut at the first space that is not the first byte. */
static cdz_status write_stored_merges(writer *w)
{
    const cdz_gguf_value *merges;
    CDZ_TRY(cdz_gguf_array(w->g, KEY("merges"), CDZ_GGUF_STRING, &merges, w->err));
    if (merges->n > MAX_MERGES)
        return cdz_err(w->err, CDZ_E_LIMIT,
                       "%s: " KEY("merges") " has %llu entries, at most %d are possible",
                       w->g->path, (unsigned long long)merges->n, MAX_MERGES);
    const uint8_t *at = merges->data;
    for (uint64_t i = 0; i < merges->n; i++) {
        size_t len;
        const char *text = cdz_gguf_next_string(&at, &len);
        const char *space = len > 1 ? memchr(text + 1, ' ', len - 1) : NULL;
        if (!space || !cdz_utf8_valid(text, len))
            return cdz_err(w->err, CDZ_E_INPUT,
                           "%s: " KEY("merges") ": entry %llu is not two tokens and a space",
                           w->g->path, (unsigned long long)i);
        const size_t left = (size_t)(space - text);
        cdz_buf_puts(w->out, i ? ",[" : "[");
        put_text(w, text, left);
        cdz_buf_putc(w->out, ',');
        put_text(w, space + 1, len - left - 1);
        cdz_buf_putc(w->out, ']');
    }
    return CDZ_OK;
}

/* A token as two others. */
typedef struct halves {
    float score;
    uint32_t token, split; /* bytes of the left half */
    int32_t left, right;
    uint32_t order; /* before sorting, which is to be stable */
} halves;

typedef struct halves_list {
    halves *at;
    size_t n, cap;
} halves_list;

static int by_ids(const void *a, const void *b)
{
    const halves *x = a, *y = b;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    return (x->right > y->right) - (x->right < y->right);
}

static int by_score(const void *a, const void *b)
{
    const halves *x = a, *y = b;
    if (x->score < y->score) return 1;
    if (x->score > y->score) return -1;
    return (x->order > y->order) - (x->order < y->order);
}

static bool add_halves(halves_list *list, const halves *h)
{
    if (list->n == list->cap) {
        const size_t cap = list->cap + list->cap / 2 + 4096;
        halves *grown = realloc(list->at, cap * sizeof *grown);
        if (!grown) return false;
        list->at = grown;
        list->cap = cap;
    }
    list->at[list->n++] = *h;
    return true;
}

/* All ways to halve a token at a character, by the halves' ids. */
static bool halve(const writer *w, uint32_t i, halves_list *list)
{
    const token *t = &w->tokens[i];
    const size_t first = list->n;
    for (uint32_t k = 1; k < t->len; k++) {
        if (((unsigned char)t->text[k] & 0xC0) == 0x80) continue;
        halves h = {.score = (float)cdz_gguf_real_at(w->scores, i), .token = i, .split = k};
        h.left = cdz_strmap_get(&w->ids, t->text, k);
        if (h.left < 0) continue;
        h.right = cdz_strmap_get(&w->ids, t->text + k, t->len - k);
        if (h.right >= 0 && !add_halves(list, &h)) return false;
    }
    if (list->n - first > 1) qsort(list->at + first, list->n - first, sizeof *list->at, by_ids);
    return true;
}

static void write_halves(writer *w, const halves_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        const halves *h = &list->at[i];
        const token *t = &w->tokens[h->token];
        cdz_buf_puts(w->out, i ? ",[" : "[");
        put_text(w, t->text, h->split);
        cdz_buf_putc(w->out, ',');
        put_text(w, t->text + h->split, t->len - h->split);
        cdz_buf_putc(w->out, ']');
    }
}

static cdz_status write_scored_merges(writer *w)
{
    halves_list list = {0};
    bool ok = true;
    for (uint32_t i = 0; ok && i < w->n && list.n <= MAX_MERGES; i++) {
        const int32_t type = w->tokens[i].type;
        if (!w->tokens[i].again && (type == NORMAL || type == USER_DEFINED))
            ok = halve(w, i, &list);
    }
    const bool many = list.n > MAX_MERGES;
    for (size_t i = 0; i < list.n; i++) list.at[i].order = (uint32_t)i;
    if (list.n > 1) qsort(list.at, list.n, sizeof *list.at, by_score);
    if (ok && !many) write_halves(w, &list);
    free(list.at);
    if (many)
        return cdz_err(w->err, CDZ_E_LIMIT, "%s: the tokens can be halved in more than %d ways",
                       w->g->path, MAX_MERGES);
    return ok ? CDZ_OK : no_memory(w);
}

/* --- the other parts ----------------------------------------------------------------------- */

/* The token a key names; NULL: none. UINT32_MAX, -1 to some writers, is none. */
static cdz_status read_role(const writer *w, const char *key, uint64_t *id, const token **out)
{
    *id = UINT32_MAX;
    *out = NULL;
    const cdz_gguf_value *v = cdz_gguf_find(w->g, key);
    if (v && !v->is_array && cdz_gguf_is_integer(v->type) && cdz_gguf_int_at(v, 0) == -1)
        return CDZ_OK;
    CDZ_TRY(cdz_gguf_uint(w->g, key, UINT32_MAX, id, w->err));
    if (*id == UINT32_MAX) return CDZ_OK;
    if (*id >= w->n)
        return cdz_err(w->err, CDZ_E_INPUT, "%s: %s is %llu, there are %u tokens", w->g->path, key,
                       (unsigned long long)*id, (unsigned)w->n);
    if (!is_filler(&w->tokens[*id])) *out = &w->tokens[*id];
    return CDZ_OK;
}

/* The token of what no other covers: named, or the one of that type. */
static cdz_status write_unknown(writer *w)
{
    uint64_t id;
    const token *t;
    CDZ_TRY(read_role(w, KEY("unknown_token_id"), &id, &t));
    for (uint32_t i = 0; !t && i < w->n; i++)
        if (w->tokens[i].type == UNKNOWN) t = &w->tokens[i];
    if (!t) return CDZ_OK;
    cdz_buf_puts(w->out, "\"unk_token\":");
    put_text(w, t->text, t->len);
    cdz_buf_putc(w->out, ',');
    return CDZ_OK;
}

static cdz_status write_model(writer *w)
{
    cdz_buf_puts(w->out, "\"model\":{\"type\":\"BPE\",");
    if (w->scored) CDZ_TRY(write_unknown(w));
    if (w->scored) cdz_buf_puts(w->out, "\"byte_fallback\":true,\"fuse_unk\":true,");
    if (w->pre && w->pre->ignore_merges) cdz_buf_puts(w->out, "\"ignore_merges\":true,");
    write_vocab(w);
    cdz_buf_puts(w->out, ",\"merges\":[");
    CDZ_TRY(w->scored ? write_scored_merges(w) : write_stored_merges(w));
    cdz_buf_puts(w->out, "]}");
    return CDZ_OK;
}

static void write_cutting(writer *w)
{
    const cdz_gguf_pre *pre = w->pre;
    if (pre->nfc) cdz_buf_puts(w->out, "\"normalizer\":{\"type\":\"NFC\"},");
    cdz_buf_puts(w->out, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (size_t i = 0; i < CDZ_GGUF_PATTERNS && pre->patterns[i]; i++) {
        cdz_buf_puts(w->out, "{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,"
                             "\"pattern\":{\"Regex\":");
        put_text(w, pre->patterns[i], strlen(pre->patterns[i]));
        cdz_buf_puts(w->out, "}},");
    }
    if (pre->digits) cdz_buf_puts(w->out, "{\"type\":\"Digits\",\"individual_digits\":true},");
    cdz_buf_printf(w->out,
                   "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"
                   "\"use_regex\":%s}]},\"decoder\":{\"type\":\"ByteLevel\"},",
                   pre->gpt2 ? "true" : "false");
}

/* Spaces become U+2581, and one is put before a text where the file wants it. */
static void write_spaces(writer *w)
{
    static const char replace[] =
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xE2\x96\x81\"}";
    if (w->metaspace)
        cdz_buf_printf(w->out,
                       "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":"
                       "\"\xE2\x96\x81\",\"prepend_scheme\":\"%s\",\"split\":false},",
                       w->metaspace_first ? "first" : "always");
    else if (w->prefix_space)
        cdz_buf_printf(w->out,
                       "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\","
                       "\"prepend\":\"\xE2\x96\x81\"},%s]},",
                       replace);
    else
        cdz_buf_printf(w->out, "\"normalizer\":%s,", replace);
    cdz_buf_printf(
        w->out,
        "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{"
        "\"String\":\"\xE2\x96\x81\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":"
        "\"Fuse\"}%s]},",
        w->prefix_space ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}" : "");
}

static cdz_status write_template(writer *w)
{
    const token *bos, *eos;
    uint64_t bos_id, eos_id;
    bool add_bos = w->scored || w->pre->bos, add_eos = false;
    CDZ_TRY(cdz_gguf_bool(w->g, KEY("add_bos_token"), &add_bos, w->err));
    CDZ_TRY(cdz_gguf_bool(w->g, KEY("add_eos_token"), &add_eos, w->err));
    CDZ_TRY(read_role(w, KEY("bos_token_id"), &bos_id, &bos));
    CDZ_TRY(read_role(w, KEY("eos_token_id"), &eos_id, &eos));
    add_bos = add_bos && bos;
    add_eos = add_eos && eos;
    if (!add_bos && !add_eos) return CDZ_OK;
    cdz_buf_printf(w->out,
                   "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[%s{\"Sequence\":{"
                   "\"id\":\"A\",\"type_id\":0}}%s],\"pair\":[{\"Sequence\":{\"id\":\"A\","
                   "\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}],"
                   "\"special_tokens\":{",
                   add_bos ? "{\"SpecialToken\":{\"id\":\"bos\",\"type_id\":0}}," : "",
                   add_eos ? ",{\"SpecialToken\":{\"id\":\"eos\",\"type_id\":0}}" : "");
    const struct {
        bool add;
        const char *name;
        uint64_t id;
        const token *t;
    } ends[] = {{add_bos, "bos", bos_id, bos}, {add_eos, "eos", eos_id, eos}};
    for (size_t i = 0; i < 2; i++) {
        if (!ends[i].add) continue;
        cdz_buf_printf(w->out, "%s\"%s\":{\"id\":\"%s\",\"ids\":[%llu],\"tokens\":[",
                       i && add_bos ? "," : "", ends[i].name, ends[i].name,
                       (unsigned long long)ends[i].id);
        put_text(w, ends[i].t->text, ends[i].t->len);
        cdz_buf_puts(w->out, "]}");
    }
    cdz_buf_puts(w->out, "}},");
    return CDZ_OK;
}

static cdz_status write_tokenizer(writer *w)
{
    CDZ_TRY(read_kind(w));
    CDZ_TRY(read_tokens(w));
    cdz_buf_putc(w->out, '{');
    if (w->scored)
        write_spaces(w);
    else
        write_cutting(w);
    CDZ_TRY(write_template(w));
    write_added(w);
    cdz_buf_putc(w->out, ',');
    CDZ_TRY(write_model(w));
    cdz_buf_putc(w->out, '}');
    return w->out->failed ? no_memory(w) : CDZ_OK;
}

/* Halves of long tokens and control characters make far more of a file than it has. */
static void bound(cdz_buf *out, const cdz_gguf *g)
{
    const uint64_t size = g->tensors.files[0].size;
    out->limit = cdz_json_allowance(size < SIZE_MAX / 8 ? (size_t)size : SIZE_MAX / 8, 0) / 2;
}

cdz_status cdz_tokenizer_json_of_gguf(const cdz_gguf *g, cdz_buf *out, cdz_error *err)
{
    writer w = {.g = g, .out = out, .err = err};
    bound(out, g);
    const cdz_status st = write_tokenizer(&w);
    cdz_arena_free(&w.arena);
    return st;
}

/* --- tokenizer_config.json ----------------------------------------------------------------- */

static cdz_status write_roles(writer *w)
{
    static const struct {
        const char *key, *name;
    } roles[] = {{KEY("bos_token_id"), "bos_token"},       {KEY("eos_token_id"), "eos_token"},
                 {KEY("unknown_token_id"), "unk_token"},   {KEY("padding_token_id"), "pad_token"},
                 {KEY("seperator_token_id"), "sep_token"}, {KEY("cls_token_id"), "cls_token"},
                 {KEY("mask_token_id"), "mask_token"}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        uint64_t id;
        const token *t;
        CDZ_TRY(read_role(w, roles[i].key, &id, &t));
        if (!t) continue;
        cdz_buf_printf(w->out, "\"%s\":", roles[i].name);
        put_text(w, t->text, t->len);
        cdz_buf_putc(w->out, ',');
    }
    return CDZ_OK;
}

static cdz_status add_named(writer *w, const char *key, const char *name, bool *any)
{
    const char *text = NULL;
    size_t len = 0;
    CDZ_TRY(cdz_gguf_string(w->g, key, &text, &len, w->err));
    if (!text) return CDZ_OK;
    cdz_buf_printf(w->out, "%s{\"name\":", *any ? "," : "");
    put_text(w, name, strlen(name));
    cdz_buf_puts(w->out, ",\"template\":");
    put_text(w, text, len);
    cdz_buf_putc(w->out, '}');
    *any = true;
    return CDZ_OK;
}

/* tokenizer.chat_template, and tokenizer.chat_template.NAME for others. */
static cdz_status write_templates(writer *w)
{
    static const char plain[] = "tokenizer.chat_template";
    const size_t len = sizeof plain - 1;
    bool any = false;
    cdz_buf_puts(w->out, "\"chat_template\":[");
    CDZ_TRY(add_named(w, plain, "default", &any));
    for (size_t i = 0; i < w->g->n_values; i++) {
        const char *key = w->g->values[i].key;
        if (strncmp(key, plain, len) == 0 && key[len] == '.')
            CDZ_TRY(add_named(w, key, key + len + 1, &any));
    }
    cdz_buf_puts(w->out, "]}");
    return CDZ_OK;
}

cdz_status cdz_tokenizer_config_of_gguf(const cdz_gguf *g, cdz_buf *out, cdz_error *err)
{
    writer w = {.g = g, .out = out, .err = err};
    bound(out, g);
    cdz_buf_putc(out, '{');
    cdz_status st = read_tokens(&w);
    if (st == CDZ_OK) st = write_roles(&w);
    if (st == CDZ_OK) st = write_templates(&w);
    cdz_arena_free(&w.arena);
    if (st == CDZ_OK && out->failed) st = no_memory(&w);
    return st;
}
