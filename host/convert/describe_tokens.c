/* describe_tokens.c - a tokenizer.json, special ids and chat templates as GGUF's keys, those that
 * token/gguf.c reads. Two kinds of tokenizers have words there: byte-level BPE whose way of
 * cutting has a name, and sentencepiece's BPE, whose merges become scores. */
#include <stdio.h>
#include <string.h>

#include "convert/describe.h"
#include "template/chat.h"
#include "token/gguf.h"

#define KEY(name) "tokenizer.ggml." name

/* token_type */
enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

typedef struct token {
    const char *text; /* NULL: the id means nothing */
    uint32_t len;
    int32_t type;
    float score;
} token;

typedef struct writer {
    const cdz_weights *w;
    const cdz_tokenizer *tok;
    cdz_gguf_meta *meta;
    cdz_convert_report *report;
    cdz_arena arena;
    const char *path;
    cdz_json root;
    const cdz_json *model;
    token *tokens;
    uint32_t n;
    bool scored, prefix_space;
    const char *scheme; /* of a Metaspace that puts spaces before texts; NULL: none */
    cdz_gguf_pre pre;
    cdz_error *err;
} writer;

static cdz_status unsupported(const writer *w, const char *what)
{
    return cdz_err(w->err, CDZ_E_UNSUPPORTED,
                   "%s: %s has no word in GGUF; --no-tokenizer leaves the tokenizer out", w->path,
                   what);
}

static bool is_true(const cdz_json *object, const char *key)
{
    const cdz_json *v = cdz_json_get(object, key);
    return cdz_json_is(v, CDZ_JSON_BOOL) && v->boolean;
}

static bool has_type(const cdz_json *part, const char *type)
{
    return cdz_json_eq(cdz_json_get(part, "type"), type);
}

static bool is_nothing(const cdz_json *v)
{
    return !v || v->type == CDZ_JSON_NULL;
}

/* The members of a Sequence under `list`, or the part alone. */
static uint32_t members(const cdz_json *part, const char *list, const cdz_json **items)
{
    *items = part;
    if (is_nothing(part)) return 0;
    if (!has_type(part, "Sequence")) return 1;
    const cdz_json *all = cdz_json_get(part, list);
    if (!cdz_json_is(all, CDZ_JSON_ARRAY)) return 0;
    *items = all->items;
    return all->len;
}

/* --- how text is cut ----------------------------------------------------------------------- */

static cdz_status read_split(writer *w, const cdz_json *part, uint32_t *n)
{
    const cdz_json *regex = cdz_json_get(cdz_json_get(part, "pattern"), "Regex");
    if (!cdz_json_is(regex, CDZ_JSON_STRING) || is_true(part, "invert") ||
        !cdz_json_eq(cdz_json_get(part, "behavior"), "Isolated") || *n == CDZ_GGUF_PATTERNS ||
        w->pre.digits)
        return unsupported(w, "its way of cutting text");
    w->pre.patterns[(*n)++] = regex->string;
    return CDZ_OK;
}

/* Splits, then digits, then bytes: the order of gguf.c's write_cutting. */
static cdz_status read_cutting(writer *w)
{
    const cdz_json *parts;
    const uint32_t n = members(cdz_json_get(&w->root, "pre_tokenizer"), "pretokenizers", &parts);
    uint32_t n_patterns = 0;
    bool bytes = false;
    for (uint32_t i = 0; i < n; i++) {
        const cdz_json *part = &parts[i];
        if (bytes) return unsupported(w, "its way of cutting text");
        if (has_type(part, "Split")) {
            CDZ_TRY(read_split(w, part, &n_patterns));
        } else if (has_type(part, "Digits") && is_true(part, "individual_digits")) {
            w->pre.digits = true;
        } else if (has_type(part, "ByteLevel") && !is_true(part, "add_prefix_space")) {
            w->pre.gpt2 = is_nothing(cdz_json_get(part, "use_regex")) || is_true(part, "use_regex");
            bytes = true;
        } else {
            return unsupported(w, "its way of cutting text");
        }
    }
    if (!bytes) return unsupported(w, "BPE without byte-level tokens");
    const cdz_json *normalizer = cdz_json_get(&w->root, "normalizer");
    w->pre.nfc = !is_nothing(normalizer) && has_type(normalizer, "NFC");
    if (!is_nothing(normalizer) && !w->pre.nfc) return unsupported(w, "its normalizer");
    w->pre.ignore_merges = is_true(w->model, "ignore_merges");
    return CDZ_OK;
}

/* A space before every text, or none. */
static cdz_status read_spaces(writer *w)
{
    const cdz_json *parts, *pre;
    const uint32_t n = members(cdz_json_get(&w->root, "normalizer"), "normalizers", &parts);
    const uint32_t n_pre = members(cdz_json_get(&w->root, "pre_tokenizer"), "pretokenizers", &pre);
    bool replaced = false;
    for (uint32_t i = 0; i < n; i++) {
        if (has_type(&parts[i], "Prepend") && !replaced)
            w->prefix_space = true;
        else if (has_type(&parts[i], "Replace"))
            replaced = true;
        else
            return unsupported(w, "its normalizer");
    }
    for (uint32_t i = 0; i < n_pre; i++) {
        const cdz_json *scheme = cdz_json_get(&pre[i], "prepend_scheme");
        if (has_type(&pre[i], "Metaspace")) {
            w->prefix_space = !cdz_json_eq(scheme, "never");
            w->scheme = cdz_json_eq(scheme, "first") ? "first" : w->prefix_space ? "always" : NULL;
        } else if (!has_type(&pre[i], "Split"))
            return unsupported(w, "its way of cutting text");
    }
    return CDZ_OK;
}

/* --- the vocabulary ------------------------------------------------------------------------ */

static cdz_status take(writer *w, const char *text, uint32_t len, const cdz_json *id, int32_t type)
{
    if (!cdz_json_is(id, CDZ_JSON_INT) || id->integer < 0 || id->integer >= (int64_t)w->n)
        return cdz_err(w->err, CDZ_E_UNSUPPORTED,
                       "%s: token \"%.60s\" has no row among the model's %u; GGUF has one for each",
                       w->path, text, (unsigned)w->n);
    w->tokens[id->integer] = (token){text, len, type, 0};
    return CDZ_OK;
}

static bool is_byte(const token *t)
{
    return t->len == 6 && memcmp(t->text, "<0x", 3) == 0 && t->text[5] == '>';
}

static cdz_status read_vocab(writer *w)
{
    const cdz_json *vocab = cdz_json_get(w->model, "vocab");
    if (!cdz_json_is(vocab, CDZ_JSON_OBJECT)) return unsupported(w, "its vocabulary");
    for (uint32_t i = 0; i < vocab->len; i++) {
        const cdz_json_member *m = &vocab->members[i];
        CDZ_TRY(take(w, m->key, m->key_len, &m->value, NORMAL));
        token *t = &w->tokens[m->value.integer];
        if (w->scored && is_byte(t)) t->type = BYTE;
        const cdz_json *unknown = cdz_json_get(w->model, "unk_token");
        if (w->scored && cdz_json_eq(unknown, m->key)) {
            t->type = UNKNOWN;
            cdz_meta_u32(w->meta, KEY("unknown_token_id"), (uint64_t)m->value.integer);
        }
    }
    return CDZ_OK;
}

static cdz_status read_added(writer *w)
{
    const cdz_json *list = cdz_json_get(&w->root, "added_tokens");
    uint32_t n_odd = 0;
    for (uint32_t i = 0; cdz_json_is(list, CDZ_JSON_ARRAY) && i < list->len; i++) {
        const cdz_json *one = &list->items[i], *content = cdz_json_get(one, "content"),
                       *id = cdz_json_get(one, "id");
        if (!cdz_json_is(content, CDZ_JSON_STRING)) continue;
        CDZ_TRY(take(w, content->string, content->len, id,
                     is_true(one, "special") ? CONTROL : USER_DEFINED));
        n_odd += is_true(one, "lstrip") || is_true(one, "rstrip") || is_true(one, "single_word");
    }
    if (n_odd)
        cdz_note(w->report,
                 "%u added tokens take spaces or whole words along (lstrip, rstrip, single_word), "
                 "which GGUF cannot say",
                 (unsigned)n_odd);
    return CDZ_OK;
}

/* The two halves of a merge, written "a b" or ["a", "b"]. */
static bool halves_of(const cdz_json *merge, const char *half[2], uint32_t len[2])
{
    if (merge->type == CDZ_JSON_ARRAY && merge->len == 2) {
        for (int h = 0; h < 2; h++) {
            if (merge->items[h].type != CDZ_JSON_STRING) return false;
            half[h] = merge->items[h].string;
            len[h] = merge->items[h].len;
        }
        return true;
    }
    const char *space = merge->type == CDZ_JSON_STRING ? strchr(merge->string, ' ') : NULL;
    if (!space) return false;
    half[0] = merge->string;
    half[1] = space + 1;
    len[0] = (uint32_t)(space - merge->string);
    len[1] = merge->len - len[0] - 1;
    return true;
}

static cdz_status bad_merge(const writer *w, uint32_t i)
{
    return cdz_err(w->err, CDZ_E_INPUT, "%s: merge %u is not two tokens", w->path, (unsigned)i);
}

static cdz_status put_merges(writer *w, const cdz_json *merges)
{
    cdz_meta_array(w->meta, KEY("merges"), CDZ_GGUF_STRING, merges->len);
    for (uint32_t i = 0; i < merges->len; i++) {
        const char *half[2];
        uint32_t len[2];
        if (!halves_of(&merges->items[i], half, len)) return bad_merge(w, i);
        if (memchr(half[0], ' ', len[0])) return unsupported(w, "a merge with a space");
        char *text =
            cdz_arena_printf(&w->arena, "%.*s %.*s", (int)len[0], half[0], (int)len[1], half[1]);
        if (!text) return cdz_err_memory_in(w->err, w->path);
        cdz_meta_element_string(w->meta, text, (size_t)len[0] + 1 + len[1]);
    }
    return CDZ_OK;
}

/* The earlier a merge makes a token, the higher its score; as sentencepiece numbers them. */
static cdz_status score_tokens(writer *w, const cdz_json *merges)
{
    for (uint32_t i = merges->len; i-- > 0;) {
        const char *half[2];
        uint32_t len[2];
        if (!halves_of(&merges->items[i], half, len)) return bad_merge(w, i);
        char *text =
            cdz_arena_printf(&w->arena, "%.*s%.*s", (int)len[0], half[0], (int)len[1], half[1]);
        if (!text) return cdz_err_memory_in(w->err, w->path);
        const int32_t id = cdz_tokenizer_id(w->tok, text, (size_t)len[0] + len[1]);
        if (id >= 0 && (uint32_t)id < w->n) w->tokens[id].score = -(float)i;
    }
    cdz_meta_array(w->meta, KEY("scores"), CDZ_GGUF_F32, w->n);
    for (uint32_t i = 0; i < w->n; i++)
        cdz_meta_element(w->meta, &w->tokens[i].score, sizeof w->tokens[i].score);
    return CDZ_OK;
}

static void put_tokens(writer *w)
{
    cdz_meta_array(w->meta, KEY("tokens"), CDZ_GGUF_STRING, w->n);
    for (uint32_t i = 0; i < w->n; i++) {
        char unused[32];
        const token *t = &w->tokens[i];
        const int len = snprintf(unused, sizeof unused, "[PAD%u]", (unsigned)i);
        cdz_meta_element_string(w->meta, t->text ? t->text : unused, t->text ? t->len : (size_t)len);
    }
    cdz_meta_array(w->meta, KEY("token_type"), CDZ_GGUF_I32, w->n);
    for (uint32_t i = 0; i < w->n; i++) {
        const int32_t type = w->tokens[i].text ? w->tokens[i].type : UNUSED;
        cdz_meta_element(w->meta, &type, sizeof type);
    }
}

/* --- what is put round a text -------------------------------------------------------------- */

/* The special token at an end of the template "single"; NULL: none. */
static const cdz_json *template_end(const writer *w, bool first)
{
    const cdz_json *parts;
    const uint32_t n = members(cdz_json_get(&w->root, "post_processor"), "processors", &parts);
    for (uint32_t i = 0; i < n; i++) {
        const cdz_json *single = cdz_json_get(&parts[i], "single");
        if (!cdz_json_is(single, CDZ_JSON_ARRAY) || single->len < 2) continue;
        const cdz_json *end = &single->items[first ? 0 : single->len - 1];
        return cdz_json_get(cdz_json_get(end, "SpecialToken"), "id");
    }
    return NULL;
}

static cdz_status check_template(const writer *w)
{
    const cdz_json *parts;
    const uint32_t n = members(cdz_json_get(&w->root, "post_processor"), "processors", &parts);
    for (uint32_t i = 0; i < n; i++)
        if (!has_type(&parts[i], "ByteLevel") && !has_type(&parts[i], "TemplateProcessing"))
            return unsupported(w, "its post-processor");
    return CDZ_OK;
}

static int32_t id_of(const writer *w, const cdz_json *text)
{
    return cdz_json_is(text, CDZ_JSON_STRING) ? cdz_tokenizer_id(w->tok, text->string, text->len)
                                              : -1;
}

/* The ids of a key of generation_config.json, else of config.json; at most three. */
static uint32_t config_ids(const writer *w, const char *key, int64_t ids[3])
{
    const cdz_json *v = cdz_json_get(&w->w->generation_config, key);
    if (is_nothing(v)) v = cdz_json_get(&w->w->config, key);
    uint32_t n = 0;
    if (cdz_json_is(v, CDZ_JSON_INT)) ids[n++] = v->integer;
    for (uint32_t i = 0; cdz_json_is(v, CDZ_JSON_ARRAY) && i < v->len && n < 3; i++)
        if (v->items[i].type == CDZ_JSON_INT) ids[n++] = v->items[i].integer;
    if (cdz_json_is(v, CDZ_JSON_ARRAY) && v->len > 3)
        cdz_note(w->report, "GGUF has words for three ids that end a text, the model has %u",
                 (unsigned)v->len);
    return n;
}

static void put_id(const writer *w, const char *key, int64_t id)
{
    if (id >= 0 && id < (int64_t)w->w->arch.n_vocab) cdz_meta_u32(w->meta, key, (uint64_t)id);
}

static void put_ids(writer *w)
{
    static const char *const ends[] = {KEY("eos_token_id"), KEY("eot_token_id"),
                                       KEY("eom_token_id")};
    int64_t ids[3] = {-1, -1, -1};
    const cdz_tokenizer_config *c = w->tok ? cdz_tokenizer_get_config(w->tok) : NULL;
    const int32_t bos = w->tok ? id_of(w, template_end(w, true)) : -1;
    if (config_ids(w, "eos_token_id", ids) == 0 && c) ids[0] = c->eos_id;
    for (int i = 0; i < 3; i++) put_id(w, ends[i], ids[i]);
    ids[0] = c ? c->bos_id : -1;
    config_ids(w, "bos_token_id", ids);
    put_id(w, KEY("bos_token_id"), bos >= 0 ? bos : ids[0]);
    ids[0] = c ? c->pad_id : -1;
    config_ids(w, "pad_token_id", ids);
    put_id(w, KEY("padding_token_id"), ids[0]);
}

static cdz_status put_templates(writer *w)
{
    cdz_chat_template *chat;
    cdz_status st = CDZ_OK;
    if (!cdz_tokenizer_get_config(w->tok)->chat_template) return CDZ_OK;
    CDZ_TRY(cdz_chat_template_open(w->w->folder, &chat, w->err));
    const char *name, *text;
    size_t len;
    for (uint32_t i = 0; st == CDZ_OK && (text = cdz_chat_template_text(chat, i, &name, &len));
         i++) {
        const bool plain = strcmp(name, "default") == 0;
        char *key = cdz_arena_printf(&w->arena, "tokenizer.chat_template%s%s", plain ? "" : ".",
                                     plain ? "" : name);
        if (!key) st = cdz_err_memory_in(w->err, w->path);
        if (key) cdz_meta_string(w->meta, key, text, len);
    }
    cdz_chat_template_free(chat);
    return st;
}

/* --- everything ---------------------------------------------------------------------------- */

static cdz_status put_kind(writer *w)
{
    size_t len;
    cdz_meta_text(w->meta, KEY("model"), w->scored ? "llama" : "gpt2");
    if (w->scored) {
        CDZ_TRY(read_spaces(w));
        cdz_meta_bool(w->meta, KEY("add_space_prefix"), w->prefix_space);
        if (w->scheme) cdz_meta_text(w->meta, "cadenza.tokenizer.prepend_scheme", w->scheme);
        return CDZ_OK;
    }
    CDZ_TRY(read_cutting(w));
    const char *name = cdz_pretok_gguf_name(&w->pre, &len);
    if (!name) return unsupported(w, "its way of cutting text");
    cdz_meta_string(w->meta, KEY("pre"), name, len);
    return CDZ_OK;
}

static cdz_status put_tokenizer(writer *w)
{
    const char *path = cdz_arena_printf(&w->arena, "%s: its tokenizer", w->w->folder);
    if (!path) return cdz_err_memory_in(w->err, w->path);
    w->path = path;
    cdz_buf json = {0};
    cdz_status st = cdz_tokenizer_read_json(w->w->folder, &json, w->err);
    if (st == CDZ_OK)
        st = cdz_json_parse(json.data, json.len, w->path, NULL, &w->arena, &w->root, w->err);
    cdz_buf_free(&json);
    CDZ_TRY(st);
    w->model = cdz_json_get(&w->root, "model");
    const cdz_json *merges = w->model ? cdz_json_get(w->model, "merges") : NULL;
    if (!cdz_json_is(merges, CDZ_JSON_ARRAY)) return unsupported(w, "a tokenizer that is no BPE");
    w->n = w->w->arch.n_vocab;
    w->scored = is_true(w->model, "byte_fallback");
    w->tokens = cdz_arena_array(&w->arena, w->n, sizeof *w->tokens);
    if (!w->tokens) return cdz_err_memory_in(w->err, w->path);
    CDZ_TRY(put_kind(w));
    CDZ_TRY(check_template(w));
    CDZ_TRY(read_vocab(w));
    CDZ_TRY(read_added(w));
    put_tokens(w);
    CDZ_TRY(w->scored ? score_tokens(w, merges) : put_merges(w, merges));
    cdz_meta_bool(w->meta, KEY("add_bos_token"), !is_nothing(template_end(w, true)));
    cdz_meta_bool(w->meta, KEY("add_eos_token"), !is_nothing(template_end(w, false)));
    return put_templates(w);
}

cdz_status cdz_describe_tokens(const cdz_weights *weights, const cdz_tokenizer *tok,
                               cdz_gguf_meta *meta, cdz_convert_report *report, cdz_error *err)
{
    writer w = {.w = weights,
                .tok = tok,
                .meta = meta,
                .report = report,
                .path = weights->folder,
                .err = err};
    cdz_status st = CDZ_OK;
    if (tok)
        st = put_tokenizer(&w);
    else
        cdz_meta_text(meta, KEY("model"), "none");
    if (st == CDZ_OK) put_ids(&w);
    cdz_arena_free(&w.arena);
    return st;
}
