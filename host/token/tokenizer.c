/* tokenizer.c - opening a tokenizer: which parts the file names, and the look-ups on what was
 * read. */
#include "token/tokenizer.h"

#include <stdlib.h>

#include "base/file.h"
#include "token/gguf.h"
#include "token/parts.h"
#include "token/sentencepiece.h"

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
    if (tok->model.kind != CDZ_MODEL_BPE || !cdz_pretok_from(&tok->cutter, &tok->pretok))
        return false;
    for (uint32_t i = 0; i < norm->n; i++)
        if (norm->steps[i].kind != CDZ_NORM_FORM || norm->steps[i].form != CDZ_NFC) return false;
    if (cdz_json_is(fallback, CDZ_JSON_BOOL) && fallback->boolean && !cdz_bpe_has_bytes(&tok->vocab))
        return false;
    tok->nfc = norm->n > 0;
    return !has_text(model, "continuing_subword_prefix") && !has_text(model, "end_of_word_suffix");
}

static cdz_status read_model(cdz_tokenizer *tok, const cdz_json *model, cdz_error *err)
{
    const cdz_json *vocab = cdz_json_get(model, "vocab");
    if (tok->model.kind == CDZ_MODEL_UNIGRAM)
        CDZ_TRY(cdz_vocab_read_scored(&tok->vocab, vocab, &tok->arena, err));
    else
        CDZ_TRY(cdz_vocab_read_model(&tok->vocab, vocab, &tok->arena, err));
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
    if (!tok) return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", name);
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
    if (!path) return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", folder);
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
    if (st == CDZ_OK && name.failed) st = cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", path);
    if (st == CDZ_OK)
        st = parse_within(allowed, json.data, json.len, config.data, config.len, name.data, out,
                          err);
    cdz_buf_free(&json);
    cdz_buf_free(&config);
    cdz_buf_free(&name);
    return st;
}

/* What a folder holds; all of it is freed together. */
typedef struct files {
    char *json, *config, *jinja, *name, *model, *vocab;
    size_t json_len, config_len, jinja_len, model_len, vocab_len;
} files;

static void free_files(files *f)
{
    free(f->json);
    free(f->config);
    free(f->jinja);
    free(f->name);
    free(f->model);
    free(f->vocab);
}

/* A SentencePiece model, where there is no tokenizer.json; source.spm is numbered by vocab.json. */
static cdz_status find_model(const char *folder, files *f, cdz_error *err)
{
    static const char *const names[] = {"tokenizer.model", "spiece.model",
                                        "sentencepiece.bpe.model", "spm.model", "source.spm"};
    const char *found = names[0];
    for (size_t i = 0; !f->model && i < sizeof names / sizeof *names; i++) {
        found = names[i];
        CDZ_TRY(read_file(folder, found, true, &f->model, &f->model_len, err));
    }
    if (!f->model)
        return cdz_err(err, CDZ_E_NOT_FOUND,
                       "%s: neither tokenizer.json nor tokenizer.model is there", folder);
    if (strcmp(found, "source.spm") == 0)
        CDZ_TRY(read_file(folder, "vocab.json", false, &f->vocab, &f->vocab_len, err));
    f->name = join_path(folder, found);
    return f->name ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", folder);
}

static cdz_status read_files(const char *folder, files *f, cdz_error *err)
{
    CDZ_TRY(read_file(folder, "tokenizer.json", true, &f->json, &f->json_len, err));
    if (!f->json) CDZ_TRY(find_model(folder, f, err));
    CDZ_TRY(read_file(folder, "tokenizer_config.json", true, &f->config, &f->config_len, err));
    CDZ_TRY(read_file(folder, "chat_template.jinja", true, &f->jinja, &f->jinja_len, err));
    if (!f->name) f->name = join_path(folder, "tokenizer.json");
    return f->name ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", folder);
}

static cdz_status model_json(const files *f, cdz_buf *out, cdz_error *err)
{
    const size_t read = f->config_len + f->vocab_len;
    cdz_arena arena = {.limit = cdz_json_allowance(read, read)};
    cdz_json config, vocab;
    cdz_status st = CDZ_OK;
    if (f->vocab)
        st = cdz_json_parse(f->vocab, f->vocab_len, "vocab.json", NULL, &arena, &vocab, err);
    if (st == CDZ_OK && f->config)
        st = cdz_json_parse(f->config, f->config_len, "tokenizer_config.json", NULL, &arena,
                            &config, err);
    if (st == CDZ_OK)
        st = cdz_tokenizer_json_of_sentencepiece(f->model, f->model_len, f->config ? &config : NULL,
                                                 f->vocab ? &vocab : NULL, f->name, out, err);
    cdz_arena_free(&arena);
    return st;
}

static cdz_status parse_model(const files *f, cdz_tokenizer **out, cdz_error *err)
{
    cdz_buf json = {0};
    cdz_status st = model_json(f, &json, err);
    if (st == CDZ_OK)
        st = parse_within(cdz_json_allowance(f->model_len + f->vocab_len, json.cap), json.data,
                          json.len, f->config, f->config_len, f->name, out, err);
    cdz_buf_free(&json);
    return st;
}

cdz_status cdz_tokenizer_read_json(const char *folder, cdz_buf *out, cdz_error *err)
{
    files f = {0};
    cdz_status st = read_files(folder, &f, err);
    if (st == CDZ_OK && f.json)
        cdz_buf_add(out, f.json, f.json_len);
    else if (st == CDZ_OK)
        st = model_json(&f, out, err);
    free_files(&f);
    if (st == CDZ_OK && out->failed) return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", folder);
    return st;
}

cdz_status cdz_tokenizer_open(const char *folder, cdz_tokenizer **out, cdz_error *err)
{
    files f = {0};
    *out = NULL;
    if (cdz_gguf_is(folder)) return open_gguf(folder, out, err);
    cdz_status st = read_files(folder, &f, err);
    if (st == CDZ_OK)
        st = f.json
                 ? cdz_tokenizer_parse(f.json, f.json_len, f.config, f.config_len, f.name, out, err)
                 : parse_model(&f, out, err);
    if (st == CDZ_OK) st = take_template(*out, f.jinja, f.jinja_len, err);
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
