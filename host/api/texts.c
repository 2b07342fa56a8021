/* texts.c - what a program that speaks for a model must know of it: a conversation's ids, a token's text, names of special
 * tokens, and which plugins there are. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "describe/descriptor.h"
#include "params/schema.h"

cdz_status cdz_apply_chat_template(const cdz_model *model, const char *json, size_t len,
                                   int32_t **ids, size_t *n_ids, cdz_error *err)
{
    const cdz_tokenizer *tok = cdz_run_model_tokenizer(model->run);
    cdz_chat_source *chat = &((cdz_model *)(uintptr_t)model)->chat; /* its lock lets many in */
    cdz_arena arena = {0};
    cdz_json document;
    uint32_t n = 0;
    if (!tok) return cdz_err(err, CDZ_E_STATE, "the model was opened without its tokenizer");
    cdz_status status = cdz_json_parse(json, len, "messages", NULL, &arena, &document, err);
    if (status == CDZ_OK) status = cdz_request_check(&document, err);
    if (status == CDZ_OK && !cdz_json_get(&document, "messages"))
        status = cdz_err(err, CDZ_E_USAGE, "messages: the document has none");
    if (status == CDZ_OK)
        status = cdz_conversation_of_request(chat, tok, &document,
                                             cdz_json_get(&document, "messages"), ids, &n, err);
    *n_ids = n;
    cdz_arena_free(&arena);
    return status;
}

cdz_status cdz_token_text(const cdz_model *model, int32_t id, char **text, size_t *len,
                          cdz_error *err)
{
    const cdz_tokenizer *tok = cdz_run_model_tokenizer(model->run);
    cdz_buf out = {0};
    if (!tok) return cdz_err(err, CDZ_E_STATE, "the model was opened without its tokenizer");
    cdz_buf_add(&out, "", 0);
    if (!cdz_tokenizer_text_alone(tok, id, &out)) {
        cdz_buf_free(&out);
        return cdz_err(err, CDZ_E_NOT_FOUND, "there is no token %d", (int)id);
    }
    if (out.failed) {
        cdz_buf_free(&out);
        return cdz_err_memory(err, "a token's text");
    }
    *text = out.data;
    *len = out.len;
    return CDZ_OK;
}

cdz_status cdz_token_bytes(const cdz_model *model, int32_t id, void **bytes, size_t *len,
                           cdz_error *err)
{
    const cdz_tokenizer *tok = cdz_run_model_tokenizer(model->run);
    cdz_buf out = {0};
    *bytes = NULL;
    *len = 0;
    if (!tok) return cdz_err(err, CDZ_E_STATE, "the model was opened without its tokenizer");
    const bool any = cdz_tokenizer_token_bytes(tok, id, &out);
    if (any && !out.failed) {
        *bytes = out.data;
        *len = out.len;
        return CDZ_OK;
    }
    cdz_buf_free(&out);
    return any ? cdz_err_memory(err, "a token's bytes") : CDZ_OK;
}

static void put_name(cdz_buf *out, const char *name, const char *text, int32_t id)
{
    cdz_buf_printf(out, "%s\"%s\": ", out->len > 1 ? ", " : "", name);
    if (text)
        cdz_json_write_string(out, text, strlen(text));
    else
        cdz_buf_puts(out, "null");
    cdz_buf_printf(out, ", \"%s_id\": ", name);
    if (id >= 0)
        cdz_buf_printf(out, "%d", (int)id);
    else
        cdz_buf_puts(out, "null");
}

char *cdz_tokenizer_info_json(const cdz_model *model)
{
    const cdz_tokenizer *tok = cdz_run_model_tokenizer(model->run);
    cdz_buf out = {0};
    if (!tok) return NULL;
    const cdz_tokenizer_config *c = cdz_tokenizer_get_config(tok);
    cdz_buf_putc(&out, '{');
    put_name(&out, "bos_token", c->bos_token, c->bos_id);
    put_name(&out, "eos_token", c->eos_token, c->eos_id);
    put_name(&out, "pad_token", c->pad_token, c->pad_id);
    put_name(&out, "unk_token", c->unk_token, c->unk_id);
    cdz_buf_printf(&out, ", \"vocab_size\": %u, \"chat_template\": ", cdz_tokenizer_n_ids(tok));
    if (c->chat_template)
        cdz_json_write_string(&out, c->chat_template, strlen(c->chat_template));
    else
        cdz_buf_puts(&out, "null");
    cdz_buf_putc(&out, '}');
    if (!out.failed) return out.data;
    cdz_buf_free(&out);
    return NULL;
}

static void put_plugin(void *user, const cdz_plugin_line *line)
{
    cdz_buf *out = user;
    const cdz_plugin_base *base = line->ref.base;
    if (!base || line->problem) return;
    cdz_buf_printf(out, "%s{\"id\": ", out->len > 1 ? ",\n" : "");
    cdz_json_write_string(out, base->id, strlen(base->id));
    cdz_buf_printf(out, ", \"kind\": \"%s\", \"version\": ", cdz_kind_name(base->kind));
    cdz_json_write_string(out, base->version, strlen(base->version));
    cdz_buf_puts(out, ", \"summary\": ");
    cdz_json_write_string(out, base->summary ? base->summary : "",
                          base->summary ? strlen(base->summary) : 0);
    cdz_buf_puts(out, ", \"parameters\": ");
    cdz_params_plugin_schema(base, out);
    cdz_buf_putc(out, '}');
}

cdz_status cdz_plugins_json(cdz_runtime *runtime, char **json, cdz_error *err)
{
    cdz_buf out = {0};
    cdz_buf_putc(&out, '[');
    cdz_status status = cdz_registry_visit(runtime->registry, put_plugin, &out, err);
    cdz_buf_putc(&out, ']');
    if (status == CDZ_OK && out.failed) status = cdz_err(err, CDZ_E_NOMEM, "out of memory");
    if (status == CDZ_OK)
        *json = out.data;
    else
        cdz_buf_free(&out);
    return status;
}
