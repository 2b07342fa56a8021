/* settings.c - one object of tokenizer_config.json and the small files beside it, as the reference (transformers 5) joins
 * them: special_tokens_map.json counts more than tokenizer_config.json, and added_tokens.json is its added_tokens_decoder,
 * both only where that is not there. The class is named by tokenizer_config.json, else by config.json, else follows from the
 * model's type. */
#include "token/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"

/* Families whose class does not follow from the kind of a SentencePiece model. */
static const struct {
    const char *types, *class; /* separated by spaces */
} implied[] = {
    {"bart", "RobertaTokenizer"},
    {"blenderbot", "BlenderbotTokenizer"},
    {"blenderbot-small", "BlenderbotSmallTokenizer"},
    {"codegen gpt2 gpt_bigcode gpt_neo gptj granite granitemoe granitemoehybrid opt phi",
     "GPT2Tokenizer"},
    {"gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text", "GemmaTokenizer"},
    {"gpt_neox mamba2 mpt olmo olmo2 olmoe", "GPTNeoXTokenizer"},
    {"m2m_100", "M2M100Tokenizer"},
    {"marian", "MarianTokenizer"},
    {"mbart", "MBartTokenizer"},
    {"mt5 t5 umt5", "T5Tokenizer"},
    {"pegasus", "PegasusTokenizer"},
    {"qwen2 qwen2_moe qwen3 qwen3_moe qwen3_next", "Qwen2Tokenizer"},
};

/* --- values ------------------------------------------------------------------------------------------------------- */

const cdz_json *cdz_tokenizer_setting(const cdz_json *settings, const char *key)
{
    const cdz_json *v = settings ? cdz_json_get(settings, key) : NULL;
    return v && v->type != CDZ_JSON_NULL ? v : NULL;
}

bool cdz_tokenizer_setting_is(const cdz_json *settings, const char *key, bool absent)
{
    const cdz_json *v = cdz_tokenizer_setting(settings, key);
    return cdz_json_is(v, CDZ_JSON_BOOL) ? v->boolean : absent;
}

const cdz_json *cdz_tokenizer_token_text(const cdz_json *value)
{
    if (cdz_json_is(value, CDZ_JSON_OBJECT)) value = cdz_json_get(value, "content");
    return cdz_json_is(value, CDZ_JSON_STRING) && value->len ? value : NULL;
}

bool cdz_tokenizer_token_flag(const cdz_json *value, const char *key)
{
    const cdz_json *v = cdz_json_is(value, CDZ_JSON_OBJECT) ? cdz_json_get(value, key) : NULL;
    return cdz_json_is(v, CDZ_JSON_BOOL) && v->boolean;
}

const cdz_json *cdz_tokenizer_more_tokens(const cdz_json *settings)
{
    const cdz_json *v = cdz_tokenizer_setting(settings, "extra_special_tokens");
    if (!v) v = cdz_tokenizer_setting(settings, "additional_special_tokens");
    return cdz_json_is(v, CDZ_JSON_ARRAY) ? v : NULL;
}

/* --- the object ---------------------------------------------------------------------------------------------------- */

static cdz_json text_value(const char *text)
{
    return (cdz_json){.type = CDZ_JSON_STRING, .string = text, .len = (uint32_t)strlen(text)};
}

static cdz_json_member *put(cdz_json_member *at, const char *key, cdz_json value)
{
    *at = (cdz_json_member){key, (uint32_t)strlen(key), value};
    return at + 1;
}

static uint32_t members_of(const cdz_json *v)
{
    return cdz_json_is(v, CDZ_JSON_OBJECT) ? v->len : 0;
}

static bool is_implied(const char *types, const cdz_json *type)
{
    for (const char *at = types; *at; at += strcspn(at, " "), at += strspn(at, " "))
        if (strcspn(at, " ") == type->len && memcmp(at, type->string, type->len) == 0) return true;
    return false;
}

static const char *class_name(const cdz_tokenizer_sources *from)
{
    const cdz_json *v = cdz_tokenizer_setting(from->config, "tokenizer_class");
    const cdz_json *type = cdz_tokenizer_setting(from->model, "model_type");
    if (!v) v = cdz_tokenizer_setting(from->model, "tokenizer_class");
    if (cdz_json_is(v, CDZ_JSON_STRING)) return v->string;
    for (size_t i = 0; cdz_json_is(type, CDZ_JSON_STRING) && i < sizeof implied / sizeof *implied;
         i++)
        if (is_implied(implied[i].types, type)) return implied[i].class;
    return NULL;
}

static cdz_json_member *put_class(const cdz_tokenizer_sources *from, cdz_arena *arena,
                                  cdz_json_member *at)
{
    const char *name = class_name(from);
    if (!name) return at;
    const size_t len = strlen(name), tail = cdz_ends_with(name, "Fast") ? 4 : 0;
    char *own = cdz_arena_strndup(arena, name, len - tail);
    return own ? put(at, "tokenizer_class", text_value(own)) : NULL;
}

static int by_id(const void *a, const void *b)
{
    const int64_t x = (*(const cdz_json_member *const *)a)->value.integer,
                  y = (*(const cdz_json_member *const *)b)->value.integer;
    return (x > y) - (x < y);
}

static bool is_named(const cdz_json_member *settings, const cdz_json_member *end,
                     const cdz_json_member *token)
{
    for (; settings < end; settings++) {
        const cdz_json *text = cdz_tokenizer_token_text(&settings->value);
        if (text && text->len == token->key_len &&
            memcmp(text->string, token->key, text->len) == 0 &&
            cdz_ends_with(settings->key, "_token"))
            return true;
    }
    return false;
}

/* {"content", "special"} as a member of added_tokens_decoder. */
static bool put_added(cdz_arena *arena, const cdz_json_member *token, bool special,
                      cdz_json_member *out)
{
    cdz_json_member *parts = cdz_arena_array(arena, 2, sizeof *parts);
    const char *id = cdz_arena_printf(arena, "%lld", (long long)token->value.integer);
    if (!parts || !id) return false;
    put(parts, "content",
        (cdz_json){.type = CDZ_JSON_STRING, .string = token->key, .len = token->key_len});
    put(parts + 1, "special", (cdz_json){.type = CDZ_JSON_BOOL, .boolean = special});
    put(out, id, (cdz_json){.type = CDZ_JSON_OBJECT, .len = 2, .members = parts});
    return true;
}

/* added_tokens.json is {"<x>": 1000}, in any order; the settings so far, [first, at), say which tokens are special. */
static cdz_status add_added(const cdz_json *added, cdz_arena *arena, const cdz_json_member *first,
                            cdz_json_member **at, cdz_error *err)
{
    const uint32_t n = members_of(added);
    const cdz_json_member **sorted = cdz_arena_array(arena, n + 1u, sizeof(void *));
    cdz_json_member *list = cdz_arena_array(arena, n + 1u, sizeof *list);
    if (!sorted || !list) return cdz_err_memory_in(err, "added_tokens.json");
    for (uint32_t i = 0; i < n; i++) {
        sorted[i] = &added->members[i];
        if (!cdz_json_is(&sorted[i]->value, CDZ_JSON_INT) || sorted[i]->value.integer < 0)
            return cdz_err(err, CDZ_E_INPUT,
                           "added_tokens.json: line %u: \"%.40s\" must have a number from 0",
                           sorted[i]->value.line, sorted[i]->key);
    }
    if (n) qsort(sorted, n, sizeof(void *), by_id);
    for (uint32_t i = 0; i < n; i++)
        if (!put_added(arena, sorted[i], is_named(first, *at, sorted[i]), &list[i]))
            return cdz_err_memory_in(err, "added_tokens.json");
    *at = put(*at, "added_tokens_decoder",
              (cdz_json){.type = CDZ_JSON_OBJECT, .len = n, .members = list});
    return CDZ_OK;
}

/* Members of `from` that `before` lacks; the class is there already. */
static cdz_json_member *put_rest(const cdz_json *from, const cdz_json *before, cdz_json_member *at)
{
    for (uint32_t i = 0; i < members_of(from); i++) {
        const cdz_json_member *m = &from->members[i];
        if (strcmp(m->key, "tokenizer_class") != 0 && !cdz_json_get(before, m->key)) *at++ = *m;
    }
    return at;
}

static cdz_status check_object(const cdz_json *v, const char *name, cdz_error *err)
{
    if (!v || v->type == CDZ_JSON_OBJECT) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT, "%s is %s, expected an object", name, cdz_json_type_name(v));
}

cdz_status cdz_tokenizer_settings(const cdz_tokenizer_sources *from, cdz_arena *arena,
                                  cdz_json *out, cdz_error *err)
{
    const bool older = !cdz_tokenizer_setting(from->config, "added_tokens_decoder");
    const cdz_json *map = older ? from->special_map : NULL;
    const size_t most = (size_t)members_of(from->config) + members_of(map) + 2;
    CDZ_TRY(check_object(from->config, "tokenizer_config.json", err));
    CDZ_TRY(check_object(map, "special_tokens_map.json", err));
    CDZ_TRY(check_object(older ? from->added : NULL, "added_tokens.json", err));
    cdz_json_member *first = cdz_arena_array(arena, most, sizeof *first), *at = first;
    if (first) at = put_class(from, arena, first);
    if (!first || !at) return cdz_err_memory_in(err, "tokenizer_config.json");
    at = put_rest(map, NULL, at);
    at = put_rest(from->config, map, at);
    if (older && members_of(from->added)) CDZ_TRY(add_added(from->added, arena, first, &at, err));
    *out = (cdz_json){.type = CDZ_JSON_OBJECT, .len = (uint32_t)(at - first), .members = first};
    return CDZ_OK;
}
