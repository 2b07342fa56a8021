/* model_generation.c - a model's own generation defaults, from generation_config.json or else from config.json
 * (GenerationConfig.from_pretrained and from_model_config). */
#include <string.h>

#include "config/generation.h"

static bool truth(const cdz_json *value)
{
    return cdz_json_is(value, CDZ_JSON_BOOL) && value->boolean;
}

/* A growing object of borrowed values; room for every slot and one more. */
typedef struct object {
    cdz_json_member *at;
    uint32_t n;
} object;

static bool has(const object *o, const char *key)
{
    for (uint32_t i = 0; i < o->n; i++)
        if (strcmp(o->at[i].key, key) == 0) return true;
    return false;
}

static void add(object *o, const char *key, const cdz_json *value)
{
    o->at[o->n++] = (cdz_json_member){.key = key, .key_len = (uint32_t)strlen(key), .value = *value};
}

/* The generation parameters of a config object that are not null and not there yet. */
static void take(object *o, const cdz_json *config)
{
    for (uint32_t slot = 0; slot < cdz_generation_slots(); slot++) {
        const char *name = cdz_generation_slot_name(slot);
        const cdz_json *value = cdz_json_get(config, name);
        if (value && value->type != CDZ_JSON_NULL && !has(o, name)) add(o, name, value);
    }
}

static const cdz_json *nested(const cdz_json *config)
{
    static const char *const names[] = {"decoder", "generator", "text_config"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const cdz_json *inner = cdz_json_get(config, names[i]);
        if (cdz_json_is(inner, CDZ_JSON_OBJECT)) return inner;
    }
    return NULL;
}

static void from_config(object *o, const cdz_json *config)
{
    static const char *const outputs[] = {"output_scores", "output_logits", "output_attentions",
                                          "output_hidden_states"};
    const cdz_json yes = {.type = CDZ_JSON_BOOL, .boolean = true};

    take(o, config);
    take(o, nested(config));
    if (has(o, "return_dict_in_generate")) return;
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++) {
        if (!truth(cdz_json_get(config, outputs[i]))) continue;
        add(o, "return_dict_in_generate", &yes);
        return;
    }
}

/* An old BART habit: a file made from the model's config forces bos first. */
static void from_file(object *o, const cdz_json *file)
{
    const cdz_json *bos = cdz_json_get(file, "bos_token_id");
    for (uint32_t i = 0; i < file->len; i++) o->at[o->n++] = file->members[i];
    if (bos && truth(cdz_json_get(file, "_from_model_config")) &&
        truth(cdz_json_get(file, "force_bos_token_to_be_generated")) &&
        !has(o, "forced_bos_token_id"))
        add(o, "forced_bos_token_id", bos);
}

cdz_status cdz_generation_of_model(const cdz_json *generation_config, const cdz_json *config,
                                   cdz_arena *arena, cdz_json *out, cdz_error *err)
{
    if (generation_config && generation_config->type != CDZ_JSON_OBJECT)
        return cdz_err(err, CDZ_E_INPUT, "generation_config.json: holds %s, expected an object",
                       cdz_json_type_name(generation_config));
    object o = {0};
    size_t room = cdz_generation_slots() + 1 + (generation_config ? generation_config->len : 0);
    o.at = cdz_arena_array(arena, room, sizeof *o.at);
    if (!o.at) return cdz_err(err, CDZ_E_NOMEM, "generation config: out of memory");
    if (generation_config)
        from_file(&o, generation_config);
    else
        from_config(&o, config);
    *out = (cdz_json){
        .type = CDZ_JSON_OBJECT, .boolean = !generation_config, .len = o.n, .members = o.at};
    return CDZ_OK;
}
