/* tokenizer_ext.c - "cadenza.tokenizer/1" on the tokenizer of the request's model. */
#include <stdlib.h>
#include <string.h>

#include "cadenza/ext/tokenizer.h"
#include "run/stages/stages.h"

static cdz_rows *rows_of(const cdz_step *step)
{
    return ((const cdz_scope *)step->scope)->rows;
}

static const cdz_tokenizer *tokenizer_of(const cdz_step *step)
{
    return rows_of(step)->model->tokenizer;
}

static bool present(const cdz_step *step)
{
    return tokenizer_of(step) != NULL;
}

static cdz_string token_text(const cdz_step *step, int32_t id)
{
    return cdz_run_model_token_text(rows_of(step)->model, id);
}

static uint32_t n_tokens(const cdz_step *step)
{
    const cdz_tokenizer *tok = tokenizer_of(step);
    return tok ? cdz_tokenizer_n_ids(tok) : 0;
}

static cdz_status need(const cdz_step *step, const cdz_tokenizer **tok)
{
    *tok = tokenizer_of(step);
    return *tok ? CDZ_OK
                : step->host->fail(step, CDZ_E_NOT_FOUND, "the model has no tokenizer.json");
}

/* The tokenizer's sentence becomes the request's. */
static cdz_status pass_on(const cdz_step *step, const cdz_error *err)
{
    return step->host->fail(step, err->code, "%s", err->text);
}

/* Its results live as long as the request: a call that comes at every step would fill the memory. */
static cdz_status now(const cdz_step *step, const char *what)
{
    const cdz_scope *scope = step->scope;
    if (scope->may_alloc || scope->plugin->kind == CDZ_KIND_DRAFTER) return CDZ_OK;
    return step->host->fail(step, CDZ_E_STATE,
                            "%s works in begin and on a strategy's fibre (its results live as long "
                            "as the request)",
                            what);
}

static cdz_status encode(const cdz_step *step, const char *text, size_t len, bool special,
                         cdz_ids *out)
{
    const cdz_tokenizer *tok;
    CDZ_TRY(now(step, "encode"));
    CDZ_TRY(need(step, &tok));
    cdz_encoding encoding = {0};
    cdz_error err;
    cdz_status status = cdz_tokenizer_encode(tok, NULL, text, len, special ? CDZ_ENCODE_SPECIAL : 0,
                                             &encoding, &err);
    if (status != CDZ_OK) {
        cdz_encoding_free(&encoding);
        return pass_on(step, &err);
    }
    int32_t *ids = cdz_arena_array(cdz_scope_arena(step->scope), encoding.n, sizeof *ids);
    if (ids && encoding.n) memcpy(ids, encoding.ids, encoding.n * sizeof *ids);
    if (ids) *out = (cdz_ids){ids, (uint32_t)encoding.n};
    cdz_encoding_free(&encoding);
    return ids ? CDZ_OK : step->host->fail(step, CDZ_E_NOMEM, "out of memory for token ids");
}

static cdz_status decode(const cdz_step *step, cdz_ids ids, bool skip_special, cdz_string *out)
{
    const cdz_tokenizer *tok;
    CDZ_TRY(now(step, "decode"));
    CDZ_TRY(need(step, &tok));
    cdz_buf text = {0};
    cdz_error err;
    cdz_status status = cdz_tokenizer_decode(
        tok, ids.at, ids.len, skip_special ? CDZ_DECODE_SKIP_SPECIAL : 0, &text, &err);
    if (status != CDZ_OK) {
        cdz_buf_free(&text);
        return pass_on(step, &err);
    }
    char *copy =
        cdz_arena_strndup(cdz_scope_arena(step->scope), text.data ? text.data : "", text.len);
    if (copy) *out = (cdz_string){copy, (uint32_t)text.len};
    cdz_buf_free(&text);
    return copy ? CDZ_OK : step->host->fail(step, CDZ_E_NOMEM, "out of memory for decoded text");
}

static const cdz_tokenizer *tokenizer_named(const cdz_step *step, const char *model)
{
    const cdz_rows *rows = rows_of(step);
    if (!model || strcmp(model, "target") == 0) return rows->model->tokenizer;
    if (strcmp(model, "assistant") == 0 && rows->assistant) return rows->assistant->tokenizer;
    for (uint32_t i = 0; model && i < rows->n_others; i++)
        if (strcmp(model, rows->others[i].name) == 0)
            return cdz_run_model_tokenizer(rows->others[i].model);
    return NULL;
}

/* The text lives only while it is on its way. */
static cdz_status convert_through(const cdz_tokenizer *from, cdz_ids ids, const cdz_tokenizer *to,
                                  bool special, cdz_encoding *out, cdz_error *err)
{
    cdz_buf text = {0};
    cdz_status st = cdz_tokenizer_decode(from, ids.at, ids.len,
                                         CDZ_DECODE_SKIP_SPECIAL | CDZ_DECODE_CLEAN_UP, &text, err);
    if (st == CDZ_OK)
        st = cdz_tokenizer_encode(to, NULL, text.data ? text.data : "", text.len,
                                  special ? CDZ_ENCODE_SPECIAL : 0, out, err);
    cdz_buf_free(&text);
    return st;
}

static cdz_status convert(const cdz_step *step, const char *from_model, cdz_ids ids,
                          const char *to_model, bool special, cdz_ids *out)
{
    const cdz_tokenizer *from = tokenizer_named(step, from_model);
    const cdz_tokenizer *to = tokenizer_named(step, to_model);
    if (!from || !to)
        return step->host->fail(step, CDZ_E_NOT_FOUND,
                                "there is no tokenizer of the %s model: its folder lacks "
                                "tokenizer.json",
                                from ? to_model : from_model);
    cdz_encoding encoding = {0};
    cdz_error err = {0};
    cdz_status st = convert_through(from, ids, to, special, &encoding, &err);
    int32_t *copy = NULL;
    if (st == CDZ_OK) {
        copy = cdz_arena_array(cdz_scope_arena(step->scope), encoding.n, sizeof *copy);
        if (copy && encoding.n) memcpy(copy, encoding.ids, encoding.n * sizeof *copy);
        if (copy) *out = (cdz_ids){copy, (uint32_t)encoding.n};
    }
    cdz_encoding_free(&encoding);
    if (st != CDZ_OK) return pass_on(step, &err);
    return copy ? CDZ_OK : step->host->fail(step, CDZ_E_NOMEM, "out of memory for token ids");
}

const void *cdz_stages_tokenizer(void)
{
    static const cdz_tokenizer_api api = {
        .size = sizeof(cdz_tokenizer_api),
        .present = present,
        .token_text = token_text,
        .n_tokens = n_tokens,
        .encode = encode,
        .decode = decode,
        .convert = convert,
    };
    return &api;
}
