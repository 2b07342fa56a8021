/* tokenizer.c - opening a tokenizer: which parts the file names, and the look-ups on what was
 * read. */
#include "token/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "token/byte_pairs.h"
#include "token/gguf.h"
#include "token/parts.h"
#include "token/sentencepiece.h"
#include "token/settings.h"
#include "token/tekken.h"

#define MAX_FILE_BYTES ((size_t)256 << 20)

/* --- parts ------------------------------------------------------------------------------------ */

static const char *const model_names[] = {[CDZ_MODEL_BPE] = "BPE",
                                          [CDZ_MODEL_UNIGRAM] = "Unigram",
                                          [CDZ_MODEL_WORDPIECE] = "WordPiece",
                                          [CDZ_MODEL_WORDLEVEL] = "WordLevel"};

/* Files of early versions leave the type of a BPE model out. */
static cdz_status read_kind(const cdz_json *model, cdz_model_kind *out, cdz_error *err)
{
    const cdz_json *type = cdz_json_get(model, "type");
    *out = CDZ_MODEL_BPE;
    if (!type && cdz_json_get(model, "merges")) return CDZ_OK;
    for (unsigned i = 0; i < sizeof model_names / sizeof *model_names; i++) {
        if (!cdz_json_eq(type, model_names[i])) continue;
        *out = (cdz_model_kind)i;
        return CDZ_OK;
    }
    if (!cdz_json_is(type, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT, "model is %s, expected an object with a \"type\"",
                       cdz_json_type_name(model));
    return cdz_err(err, CDZ_E_UNSUPPORTED,
                   "line %u: model of type \"%.60s\"; supported: BPE, Unigram, WordPiece, WordLevel",
                   type->line, type->string);
}

static bool has_text(const cdz_json *model, const char *key)
{
    const cdz_json *v = cdz_json_get(model, key);
    return v && !cdz_json_is(v, CDZ_JSON_NULL) && !(cdz_json_is(v, CDZ_JSON_STRING) && v->len == 0);
}

/* Whether the text goes to a BPE model as bytes, after no normalizer or NFC alone. */
static bool is_over_bytes(cdz_tokenizer *tok, const cdz_json *model)
{
    const cdz_normalizer *norm = &tok->normalizer;
    const cdz_json *fallback = cdz_json_get(model, "byte_fallback");
    if (tok->model.kind != CDZ_MODEL_BPE || cdz_json_get(model, "n_known") ||
        !cdz_pretok_from(&tok->cutter, &tok->pretok))
        return false;
    for (uint32_t i = 0; i < norm->n; i++)
        if (norm->steps[i].kind != CDZ_NORM_FORM || norm->steps[i].form != CDZ_NFC) return false;
    if (cdz_json_is(fallback, CDZ_JSON_BOOL) && fallback->boolean && !cdz_bpe_has_bytes(&tok->vocab))
        return false;
    tok->nfc = norm->n > 0;
    return !has_text(model, "continuing_subword_prefix") &&
           !has_text(model, "end_of_word_suffix") && !has_text(model, "inner_suffix");
}

static cdz_status read_model(cdz_tokenizer *tok, const cdz_json *model, cdz_error *err)
{
    const cdz_json *vocab = cdz_json_get(model, "vocab");
    if (tok->model.kind == CDZ_MODEL_UNIGRAM)
        CDZ_TRY(cdz_vocab_read_scored(&tok->vocab, vocab, &tok->arena, err));
    else
        CDZ_TRY(cdz_vocab_read_model(&tok->vocab, vocab, &tok->arena, err));
    CDZ_TRY(cdz_vocab_read_known(&tok->vocab, model, err));
    tok->over_bytes = is_over_bytes(tok, model);
    if (tok->model.kind == CDZ_MODEL_BPE)
        CDZ_TRY(cdz_bpe_read(&tok->bpe, model, tok->over_bytes, &tok->vocab, &tok->arena, err));
    if (tok->over_bytes) return CDZ_OK;
    return cdz_tok_model_read(&tok->model, model, &tok->vocab, &tok->arena, err);
}

static cdz_status read_parts(cdz_tokenizer *tok, const cdz_json *root, cdz_error *err)
{
    const cdz_json *model = cdz_json_get(root, "model");
    cdz_arena *arena = &tok->arena;
    if (!cdz_json_is(root, CDZ_JSON_OBJECT) || !model)
        return cdz_err(err, CDZ_E_INPUT, "the file is %s without a \"model\", not a tokenizer",
                       cdz_json_type_name(root));
    CDZ_TRY(read_kind(model, &tok->model.kind, err));
    CDZ_TRY(cdz_normalizer_read(cdz_json_get(root, "normalizer"), &tok->normalizer, arena,
                                &tok->regexes, err));
    CDZ_TRY(cdz_cutter_read(cdz_json_get(root, "pre_tokenizer"), &tok->cutter, arena, &tok->regexes,
                            err));
    CDZ_TRY(
        cdz_decoder_read(cdz_json_get(root, "decoder"), &tok->decoder, arena, &tok->regexes, err));
    CDZ_TRY(read_model(tok, model, err));
    CDZ_TRY(cdz_vocab_read_added(&tok->vocab, cdz_json_get(root, "added_tokens"), &tok->normalizer,
                                 arena, err));
    CDZ_TRY(cdz_postproc_read(cdz_json_get(root, "post_processor"), &tok->postproc, arena, err));
    return cdz_tokenizer_read_stop_base(tok, err);
}

/* allowed: bytes that the document and what is made of it may take together. */
static cdz_status read_tokenizer(cdz_tokenizer *tok, const char *json, size_t len, size_t allowed,
                                 const char *name, cdz_error *err)
{
    /* Reading a vocabulary finds a token that is there twice by itself. */
    const cdz_json_limits limits = {.unchecked = 1000};
    cdz_arena arena = {.limit = allowed};
    cdz_json root;
    cdz_status st = cdz_json_parse(json, len, name, &limits, &arena, &root, err);
    if (st == CDZ_OK) {
        tok->arena.limit = allowed > arena.used ? allowed - arena.used : 1;
        st = read_parts(tok, &root, err);
        if (st == CDZ_E_NOMEM && tok->arena.used > tok->arena.limit / 4)
            st = cdz_err(err, CDZ_E_LIMIT,
                         "the tokenizer needs more than the %zu bytes it may have in memory",
                         allowed);
        if (st != CDZ_OK) cdz_err_prefix(err, "%s", name);
        tok->arena.limit = 0;
    }
    cdz_arena_free(&arena);
    return st;
}

/* --- opening ---------------------------------------------------------------------------------- */

static cdz_status parse_within(size_t allowed, const char *json, size_t len, const char *config,
                               size_t config_len, const char *name, cdz_tokenizer **out,
                               cdz_error *err)
{
    *out = NULL;
    cdz_tokenizer *tok = calloc(1, sizeof *tok);
    if (!tok) return cdz_err_memory_in(err, name);
    cdz_status st = read_tokenizer(tok, json, len, allowed, name, err);
    if (st == CDZ_OK) st = cdz_tokenizer_read_config(tok, config, config_len, name, err);
    if (st != CDZ_OK) {
        cdz_tokenizer_free(tok);
        return st;
    }
    *out = tok;
    return CDZ_OK;
}

cdz_status cdz_tokenizer_parse(const char *json, size_t len, const char *config, size_t config_len,
                               const char *name, cdz_tokenizer **out, cdz_error *err)
{
    return parse_within(cdz_json_allowance(len, len), json, len, config, config_len, name, out, err);
}

static char *join_path(const char *folder, const char *file)
{
    cdz_buf path = {0};
    cdz_buf_printf(&path, "%s/%s", folder, file);
    if (path.failed) cdz_buf_free(&path);
    return path.data;
}

/* Reads a file of the folder; one that is not there leaves *text NULL when `optional`. */
static cdz_status read_file(const char *folder, const char *file, bool optional, char **text,
                            size_t *len, cdz_error *err)
{
    char *path = join_path(folder, file);
    cdz_error own = {0};
    if (!path) return cdz_err_memory_in(err, folder);
    cdz_status st = cdz_file_read(path, MAX_FILE_BYTES, text, len, &own);
    free(path);
    if (st == CDZ_OK) return CDZ_OK;
    *text = NULL;
    *len = 0;
    if (optional && st == CDZ_E_NOT_FOUND) return CDZ_OK;
    return cdz_err(err, st, "%s", own.text);
}

static cdz_status take_template(cdz_tokenizer *tok, const char *text, size_t len, cdz_error *err)
{
    if (!text) return CDZ_OK;
    tok->config.chat_template = cdz_arena_strndup(&tok->arena, text, len);
    return tok->config.chat_template ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "out of memory");
}

static cdz_status open_gguf(const char *path, cdz_tokenizer **out, cdz_error *err)
{
    cdz_gguf gguf;
    cdz_buf json = {0}, config = {0}, name = {0};
    CDZ_TRY(cdz_gguf_open(path, &gguf, err));
    const uint64_t size = gguf.tensors.files[0].size;
    cdz_status st = cdz_tokenizer_json_of_gguf(&gguf, &json, err);
    if (st == CDZ_OK) st = cdz_tokenizer_config_of_gguf(&gguf, &config, err);
    cdz_gguf_close(&gguf);
    const size_t allowed = cdz_json_allowance(size < SIZE_MAX / 8 ? (size_t)size : SIZE_MAX / 8,
                                              json.cap + config.cap);
    cdz_buf_printf(&name, "%s, its tokenizer as JSON", path);
    if (st == CDZ_OK && name.failed) st = cdz_err_memory_in(err, path);
    if (st == CDZ_OK)
        st = parse_within(allowed, json.data, json.len, config.data, config.len, name.data, out,
                          err);
    cdz_buf_free(&json);
    cdz_buf_free(&config);
    cdz_buf_free(&name);
    return st;
}

/* A file of a folder; text NULL: it is not there. */
typedef struct text_file {
    char *text;
    size_t len;
} text_file;

/* What a folder holds; all of it is freed together. */
typedef struct files {
    const char *folder;
    char *name; /* of the file that has the tokens */
    text_file json, config, jinja, model, vocab, merges, tekken, special_map, added, model_config;
    bool is_source; /* model is source.spm, which vocab.json numbers */
} files;

static void free_files(files *f)
{
    text_file *all[] = {&f->json,   &f->config, &f->jinja,       &f->model, &f->vocab,
                        &f->merges, &f->tekken, &f->special_map, &f->added, &f->model_config};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->text);
    free(f->name);
}

static cdz_status look_for(const files *f, const char *name, text_file *out, cdz_error *err)
{
    return read_file(f->folder, name, true, &out->text, &out->len, err);
}

/* vocab.json and merges.txt. */
static cdz_status find_pairs(files *f, cdz_error *err)
{
    CDZ_TRY(look_for(f, "merges.txt", &f->merges, err));
    if (!f->merges.text)
        return cdz_err(err, CDZ_E_NOT_FOUND,
                       "%s: neither tokenizer.json nor tekken.json, tokenizer.model or vocab.json "
                       "with merges.txt is there",
                       f->folder);
    f->name = join_path(f->folder, "vocab.json");
    return read_file(f->folder, "vocab.json", false, &f->vocab.text, &f->vocab.len, err);
}

/* Where there is no tokenizer.json: a SentencePiece model, which vocab.json may number, or vocab.json with merges.txt. */
static cdz_status find_model(files *f, cdz_error *err)
{
    static const char *const names[] = {"tokenizer.model", "spiece.model",
                                        "sentencepiece.bpe.model", "spm.model", "source.spm"};
    const char *found = names[0];
    for (size_t i = 0; !f->model.text && i < sizeof names / sizeof *names; i++) {
        found = names[i];
        CDZ_TRY(look_for(f, found, &f->model, err));
    }
    if (!f->model.text) return find_pairs(f, err);
    f->is_source = strcmp(found, "source.spm") == 0;
    f->name = join_path(f->folder, found);
    return read_file(f->folder, "vocab.json", !f->is_source, &f->vocab.text, &f->vocab.len, err);
}

/* The files that settings.c makes one of. */
static cdz_status find_settings(files *f, cdz_error *err)
{
    CDZ_TRY(look_for(f, "special_tokens_map.json", &f->special_map, err));
    CDZ_TRY(look_for(f, "added_tokens.json", &f->added, err));
    return look_for(f, "config.json", &f->model_config, err);
}

static cdz_status read_files(files *f, cdz_error *err)
{
    CDZ_TRY(look_for(f, "tokenizer.json", &f->json, err));
    if (!f->json.text) CDZ_TRY(look_for(f, "tekken.json", &f->tekken, err));
    if (!f->json.text && !f->tekken.text) {
        CDZ_TRY(find_model(f, err));
        CDZ_TRY(find_settings(f, err));
    }
    CDZ_TRY(look_for(f, "tokenizer_config.json", &f->config, err));
    CDZ_TRY(look_for(f, "chat_template.jinja", &f->jinja, err));
    if (!f->name) f->name = join_path(f->folder, f->tekken.text ? "tekken.json" : "tokenizer.json");
    return f->name ? CDZ_OK : cdz_err_memory_in(err, f->folder);
}

/* A file as a document in the arena; *out NULL: it is not there. */
static cdz_status parse_file(const text_file *file, const char *name, cdz_arena *arena,
                             cdz_json *root, const cdz_json **out, cdz_error *err)
{
    *out = NULL;
    if (!file->text) return CDZ_OK;
    *out = root;
    return cdz_json_parse(file->text, file->len, name, NULL, arena, root, err);
}

/* config.json is only asked for names: what json.h refuses in it, a reader of its own may take. */
static const cdz_json *parse_model_config(const text_file *file, cdz_arena *arena, cdz_json *root)
{
    static const cdz_json_limits limits = {.infinity = true};
    if (!file->text ||
        cdz_json_parse(file->text, file->len, "config.json", &limits, arena, root, NULL) != CDZ_OK)
        return NULL;
    return root;
}

/* Documents that the text of a tokenizer.json is made of. */
typedef struct documents {
    cdz_arena arena;
    cdz_json config, special_map, added, model_config, vocab_root, settings;
    const cdz_json *vocab; /* or NULL */
} documents;

static cdz_status read_documents(const files *f, documents *d, cdz_error *err)
{
    const size_t read =
        f->config.len + f->special_map.len + f->added.len + f->model_config.len + f->vocab.len;
    cdz_tokenizer_sources from;
    cdz_arena *arena = &d->arena;
    arena->limit = cdz_json_allowance(read, read);
    CDZ_TRY(parse_file(&f->vocab, "vocab.json", arena, &d->vocab_root, &d->vocab, err));
    CDZ_TRY(parse_file(&f->config, "tokenizer_config.json", arena, &d->config, &from.config, err));
    CDZ_TRY(parse_file(&f->special_map, "special_tokens_map.json", arena, &d->special_map,
                       &from.special_map, err));
    CDZ_TRY(parse_file(&f->added, "added_tokens.json", arena, &d->added, &from.added, err));
    from.model = parse_model_config(&f->model_config, arena, &d->model_config);
    return cdz_tokenizer_settings(&from, arena, &d->settings, err);
}

static cdz_status sentencepiece_json(const files *f, const documents *d, cdz_buf *out,
                                     cdz_error *err)
{
    const bool numbered =
        f->is_source ||
        cdz_json_eq(cdz_tokenizer_setting(&d->settings, "tokenizer_class"), "M2M100Tokenizer");
    return cdz_tokenizer_json_of_sentencepiece(f->model.text, f->model.len, &d->settings,
                                               numbered ? d->vocab : NULL, f->name, out, err);
}

static cdz_status pairs_json(const files *f, const documents *d, cdz_buf *out, cdz_buf *config,
                             cdz_error *err)
{
    const cdz_byte_pairs from = {.vocab = d->vocab,
                                 .merges = f->merges.text,
                                 .merges_len = f->merges.len,
                                 .settings = &d->settings,
                                 .folder = f->folder};
    out->limit = cdz_json_allowance(f->vocab.len + f->merges.len, 0) / 2;
    return cdz_tokenizer_json_of_byte_pairs(&from, out, config, err);
}

/* A tokenizer.json of what stands for one. */
static cdz_status tekken_json(const files *f, cdz_buf *out, cdz_buf *config, cdz_error *err)
{
    cdz_arena arena = {.limit = cdz_json_allowance(f->tekken.len, f->tekken.len)};
    cdz_json root;
    out->limit = cdz_json_allowance(f->tekken.len, 0) / 2;
    cdz_status st = cdz_json_parse(f->tekken.text, f->tekken.len, f->name, NULL, &arena, &root, err);
    if (st == CDZ_OK) st = cdz_tokenizer_json_of_tekken(&root, f->name, out, err);
    cdz_arena_free(&arena);
    if (st == CDZ_OK && !f->config.text) cdz_buf_puts(config, cdz_tekken_config);
    return st;
}

/* The text of a tokenizer.json; config stays empty where tokenizer_config.json is all. */
static cdz_status model_json(const files *f, cdz_buf *out, cdz_buf *config, cdz_error *err)
{
    documents d = {0};
    if (f->tekken.text) return tekken_json(f, out, config, err);
    cdz_status st = read_documents(f, &d, err);
    if (st == CDZ_OK)
        st = f->model.text ? sentencepiece_json(f, &d, out, err)
                           : pairs_json(f, &d, out, config, err);
    if (st == CDZ_OK && f->model.text) cdz_json_write(config, &d.settings);
    cdz_arena_free(&d.arena);
    return st;
}

static cdz_status parse_model(const files *f, cdz_tokenizer **out, cdz_error *err)
{
    const size_t read = f->model.len + f->vocab.len + f->merges.len + f->tekken.len + f->config.len;
    cdz_buf json = {0}, config = {0};
    cdz_status st = model_json(f, &json, &config, err);
    if (st == CDZ_OK && config.failed) st = cdz_err_memory_in(err, f->folder);
    if (st == CDZ_OK)
        st = parse_within(cdz_json_allowance(read, json.cap + config.cap), json.data, json.len,
                          config.data ? config.data : f->config.text,
                          config.data ? config.len : f->config.len, f->name, out, err);
    cdz_buf_free(&json);
    cdz_buf_free(&config);
    return st;
}

cdz_status cdz_tokenizer_read_json(const char *folder, cdz_buf *out, cdz_error *err)
{
    files f = {.folder = folder};
    cdz_buf config = {0};
    cdz_status st = read_files(&f, err);
    if (st == CDZ_OK && f.json.text)
        cdz_buf_add(out, f.json.text, f.json.len);
    else if (st == CDZ_OK)
        st = model_json(&f, out, &config, err);
    cdz_buf_free(&config);
    free_files(&f);
    if (st == CDZ_OK && out->failed) return cdz_err_memory_in(err, folder);
    return st;
}

cdz_status cdz_tokenizer_open(const char *folder, cdz_tokenizer **out, cdz_error *err)
{
    files f = {.folder = folder};
    *out = NULL;
    if (cdz_gguf_is(folder)) return open_gguf(folder, out, err);
    cdz_status st = read_files(&f, err);
    if (st == CDZ_OK)
        st = f.json.text ? cdz_tokenizer_parse(f.json.text, f.json.len, f.config.text, f.config.len,
                                               f.name, out, err)
                         : parse_model(&f, out, err);
    if (st == CDZ_OK) st = take_template(*out, f.jinja.text, f.jinja.len, err);
    if (st != CDZ_OK) {
        cdz_tokenizer_free(*out);
        *out = NULL;
    }
    free_files(&f);
    return st;
}

void cdz_tokenizer_free(cdz_tokenizer *tok)
{
    if (!tok) return;
    cdz_vocab_free(&tok->vocab);
    cdz_regex_free(tok->regexes);
    cdz_arena_free(&tok->arena);
    free(tok);
}

/* --- look-ups --------------------------------------------------------------------------------- */

const char *cdz_tokenizer_kind(const cdz_tokenizer *tok)
{
    return tok->over_bytes ? "byte-level BPE" : model_names[tok->model.kind];
}

uint32_t cdz_tokenizer_n_ids(const cdz_tokenizer *tok)
{
    return tok->vocab.n_ids;
}

uint32_t cdz_tokenizer_n_model_tokens(const cdz_tokenizer *tok)
{
    return tok->vocab.n_model;
}

uint32_t cdz_tokenizer_n_tokens(const cdz_tokenizer *tok)
{
    const cdz_strmap *added = &tok->vocab.added_ids;
    uint32_t n = tok->vocab.n_model;
    for (uint32_t i = 0; i < added->n; i++)
        if (cdz_strmap_get(&tok->vocab.model, added->entries[i].text, added->entries[i].len) < 0)
            n++;
    return n;
}

uint32_t cdz_tokenizer_n_special_added(const cdz_tokenizer *tok)
{
    return tok->postproc.n_special;
}

const char *cdz_tokenizer_token(const cdz_tokenizer *tok, int32_t id, size_t *len)
{
    const cdz_token *token = cdz_vocab_token(&tok->vocab, id);
    if (len) *len = token ? token->len : 0;
    return token ? token->text : NULL;
}

int32_t cdz_tokenizer_id(const cdz_tokenizer *tok, const char *token, size_t len)
{
    return cdz_vocab_id(&tok->vocab, token, len);
}

bool cdz_tokenizer_is_added(const cdz_tokenizer *tok, int32_t id)
{
    const cdz_token *token = cdz_vocab_token(&tok->vocab, id);
    return token && token->added >= 0;
}

bool cdz_tokenizer_is_special(const cdz_tokenizer *tok, int32_t id)
{
    const cdz_token *token = cdz_vocab_token(&tok->vocab, id);
    return token && token->special;
}
