/* tokenizer_config.c - what tokenizer_config.json says beside tokenizer.json. Its many other
 * keys are of no use here and not looked at. */
#include "token/parts.h"

/* A token is a string, or an object with its "content". */
static cdz_status read_token(cdz_tokenizer *tok, const cdz_json *root, const char *key,
                             const char **text, int32_t *id, cdz_error *err)
{
    const cdz_json *v = cdz_json_get(root, key);
    *id = -1;
    if (cdz_json_is(v, CDZ_JSON_OBJECT)) v = cdz_json_get(v, "content");
    if (!v || cdz_json_is(v, CDZ_JSON_NULL)) return CDZ_OK;
    if (!cdz_json_is(v, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT, "line %u: \"%s\" is %s, expected a string", v->line, key,
                       cdz_json_type_name(v));
    *text = cdz_arena_strndup(&tok->arena, v->string, v->len);
    if (!*text) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    *id = cdz_vocab_id(&tok->vocab, v->string, v->len);
    return CDZ_OK;
}

static cdz_status read_template_list(cdz_tokenizer *tok, const cdz_json *list, cdz_error *err)
{
    tok->templates = cdz_arena_array(&tok->arena, list->len + 1u, sizeof *tok->templates);
    if (!tok->templates) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < list->len; i++) {
        const cdz_json *name = cdz_json_get(&list->items[i], "name"),
                       *text = cdz_json_get(&list->items[i], "template");
        cdz_named_template *t = &tok->templates[tok->n_templates];
        if (!cdz_json_is(name, CDZ_JSON_STRING) || !cdz_json_is(text, CDZ_JSON_STRING))
            return cdz_err(err, CDZ_E_INPUT,
                           "line %u: \"chat_template\": entry %u lacks a \"name\" or a \"template\"",
                           list->items[i].line, i);
        t->name = cdz_arena_strndup(&tok->arena, name->string, name->len);
        t->text = cdz_arena_strndup(&tok->arena, text->string, text->len);
        if (!t->name || !t->text) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
        tok->n_templates++;
    }
    tok->config.chat_template = cdz_tokenizer_chat_template(tok, "default");
    return CDZ_OK;
}

static cdz_status read_template(cdz_tokenizer *tok, const cdz_json *v, cdz_error *err)
{
    if (!v || cdz_json_is(v, CDZ_JSON_NULL)) return CDZ_OK;
    if (cdz_json_is(v, CDZ_JSON_ARRAY)) return read_template_list(tok, v, err);
    if (!cdz_json_is(v, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: \"chat_template\" is %s, expected a string or a list", v->line,
                       cdz_json_type_name(v));
    tok->config.chat_template = cdz_arena_strndup(&tok->arena, v->string, v->len);
    return tok->config.chat_template ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "out of memory");
}

static cdz_status read_keys(cdz_tokenizer *tok, const cdz_json *root, cdz_error *err)
{
    cdz_tokenizer_config *c = &tok->config;
    const cdz_json *add_bos = cdz_json_get(root, "add_bos_token");
    const cdz_json *clean_up = cdz_json_get(root, "clean_up_tokenization_spaces");
    if (!cdz_json_is(root, CDZ_JSON_OBJECT))
        return cdz_err(err, CDZ_E_INPUT, "the file is %s, expected an object",
                       cdz_json_type_name(root));
    c->add_bos_token = cdz_json_is(add_bos, CDZ_JSON_BOOL) && add_bos->boolean;
    c->clean_up_tokenization_spaces = cdz_json_is(clean_up, CDZ_JSON_BOOL) && clean_up->boolean;
    CDZ_TRY(read_token(tok, root, "bos_token", &c->bos_token, &c->bos_id, err));
    CDZ_TRY(read_token(tok, root, "eos_token", &c->eos_token, &c->eos_id, err));
    CDZ_TRY(read_token(tok, root, "pad_token", &c->pad_token, &c->pad_id, err));
    CDZ_TRY(read_token(tok, root, "unk_token", &c->unk_token, &c->unk_id, err));
    return read_template(tok, cdz_json_get(root, "chat_template"), err);
}

/* name is the tokenizer.json's; the config's own name is made from it for sentences. */
static char *config_name(cdz_arena *arena, const char *name)
{
    static const char suffix[] = "tokenizer.json";
    const size_t len = strlen(name), tail = sizeof suffix - 1;
    if (len < tail || strcmp(name + len - tail, suffix) != 0)
        return cdz_arena_printf(arena, "%s: tokenizer_config.json", name);
    return cdz_arena_printf(arena, "%.*stokenizer_config.json", (int)(len - tail), name);
}

cdz_status cdz_tokenizer_read_config(cdz_tokenizer *tok, const char *json, size_t len,
                                     const char *name, cdz_error *err)
{
    cdz_tokenizer_config *c = &tok->config;
    c->bos_id = c->eos_id = c->pad_id = c->unk_id = -1;
    if (!json) return CDZ_OK;
    cdz_arena arena = {.limit = cdz_json_allowance(len, len)};
    cdz_json root;
    const char *own_name = config_name(&arena, name);
    cdz_status st = own_name ? cdz_json_parse(json, len, own_name, NULL, &arena, &root, err)
                             : cdz_err_memory_in(err, name);
    if (st == CDZ_OK) {
        st = read_keys(tok, &root, err);
        if (st != CDZ_OK) cdz_err_prefix(err, "%s", own_name);
    }
    cdz_arena_free(&arena);
    return st;
}

const cdz_tokenizer_config *cdz_tokenizer_get_config(const cdz_tokenizer *tok)
{
    return &tok->config;
}

const char *cdz_tokenizer_chat_template(const cdz_tokenizer *tok, const char *name)
{
    for (uint32_t i = 0; i < tok->n_templates; i++)
        if (strcmp(tok->templates[i].name, name) == 0) return tok->templates[i].text;
    return NULL;
}
