/* arch.c - the table of families and the reading of config.json. Rotary frequencies are in
 * rope.c.
 *
 * Keys and defaults are those of transformers' configuration classes, old and new spellings;
 * null counts as absent, as it does there. Adding a family that fits the decoder block is adding
 * a row. */
#include "load/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "load/config_keys.h"

typedef enum bias_rule {
    BIAS_BY_KEY, /* attention_bias: q, k, v and o; mlp_bias */
    BIAS_QKV,    /* always q, k and v, nothing else */
    BIAS_NEVER,
} bias_rule;

typedef enum window_rule {
    WINDOW_NEVER,
    WINDOW_ALL,      /* sliding_window, every layer */
    WINDOW_BY_LAYER, /* use_sliding_window; layer_types, or layers from max_window_layers on */
} window_rule;

struct cdz_family {
    const char *model_type, *architecture;
    const char *const *names; /* [CDZ_N_PARTS] */
    bias_rule bias;
    window_rule window;
    uint32_t context;    /* default of max_position_embeddings */
    uint32_t n_kv_heads; /* default of num_key_value_heads; 0: num_attention_heads */
};

static const char *const llama_names[CDZ_N_PARTS] = {
    [CDZ_PART_EMBED] = "model.embed_tokens",
    [CDZ_PART_FINAL_NORM] = "model.norm",
    [CDZ_PART_HEAD] = "lm_head",
    [CDZ_PART_ATTN_NORM] = "model.layers.#.input_layernorm",
    [CDZ_PART_Q] = "model.layers.#.self_attn.q_proj",
    [CDZ_PART_K] = "model.layers.#.self_attn.k_proj",
    [CDZ_PART_V] = "model.layers.#.self_attn.v_proj",
    [CDZ_PART_O] = "model.layers.#.self_attn.o_proj",
    [CDZ_PART_MLP_NORM] = "model.layers.#.post_attention_layernorm",
    [CDZ_PART_GATE] = "model.layers.#.mlp.gate_proj",
    [CDZ_PART_UP] = "model.layers.#.mlp.up_proj",
    [CDZ_PART_DOWN] = "model.layers.#.mlp.down_proj",
};

static const cdz_family families[] = {
    {"llama", "LlamaForCausalLM", llama_names, BIAS_BY_KEY, WINDOW_NEVER, 2048, 0},
    {"mistral", "MistralForCausalLM", llama_names, BIAS_NEVER, WINDOW_ALL, 4096 * 32, 8},
    {"qwen2", "Qwen2ForCausalLM", llama_names, BIAS_QKV, WINDOW_BY_LAYER, 32768, 32},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

static const char *const model_types[N_FAMILIES + 1] = {"llama", "mistral", "qwen2", NULL};

/* Sizes past these are not models but mistakes or attacks; every product of them fits 64 bits. */
enum {
    MAX_LAYERS = 10000,
    MAX_WIDTH = 1 << 24, /* hidden, intermediate, vocabulary */
    MAX_HEADS = 1 << 16,
    MAX_HEAD_DIM = 1 << 14,
};

/* --- which family -------------------------------------------------------------------------- */

static cdz_status unknown_family(const cdz_keys *k, const char *key, const char *value)
{
    char known[256];
    size_t at = 0;
    known[0] = '\0';
    for (size_t i = 0; i < N_FAMILIES && at < sizeof known; i++)
        at +=
            (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", model_types[i]);
    return cdz_err(k->err, CDZ_E_UNSUPPORTED, "%s: %s \"%.80s\" is not supported; supported are %s",
                   k->path, key, value, known);
}

/* The first entry of "architectures", or NULL. */
static const cdz_json *architecture_of(const cdz_keys *k)
{
    const cdz_json *list = cdz_key(k, "architectures");
    if (!cdz_json_is(list, CDZ_JSON_ARRAY) || list->len == 0) return NULL;
    return cdz_json_is(&list->items[0], CDZ_JSON_STRING) ? &list->items[0] : NULL;
}

static cdz_status find_family(const cdz_keys *k, const cdz_family **out)
{
    const cdz_json *type = cdz_key(k, "model_type"), *architecture = architecture_of(k);
    if (type && type->type != CDZ_JSON_STRING)
        return cdz_err(k->err, CDZ_E_INPUT, "%s: model_type is %s, expected a string", k->path,
                       cdz_json_type_name(type));
    if (!type && !architecture)
        return cdz_err(k->err, CDZ_E_INPUT, "%s: has neither model_type nor architectures",
                       k->path);
    *out = NULL;
    for (size_t i = 0; i < N_FAMILIES && !*out; i++)
        if (type ? cdz_json_eq(type, families[i].model_type)
                 : cdz_json_eq(architecture, families[i].architecture))
            *out = &families[i];
    if (!*out)
        return type ? unknown_family(k, "model_type", type->string)
                    : unknown_family(k, "architecture", architecture->string);
    if (architecture && !cdz_json_eq(architecture, (*out)->architecture))
        return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                       "%s: architecture \"%.80s\" is not supported; expected %s", k->path,
                       architecture->string, (*out)->architecture);
    return CDZ_OK;
}

/* --- sizes --------------------------------------------------------------------------------- */

static cdz_status read_heads(const cdz_keys *k, cdz_arch *a)
{
    CDZ_TRY(cdz_key_size(k, "num_attention_heads", NULL, MAX_HEADS, &a->n_heads));
    uint32_t n_kv = a->family->n_kv_heads ? a->family->n_kv_heads : a->n_heads;
    if (cdz_key_is_null(k, "num_key_value_heads")) n_kv = a->n_heads;
    CDZ_TRY(cdz_key_size(k, "num_key_value_heads", &n_kv, MAX_HEADS, &a->n_kv_heads));
    if (a->n_heads % a->n_kv_heads)
        return cdz_err(k->err, CDZ_E_INPUT,
                       "%s: num_attention_heads %u is not a multiple of num_key_value_heads %u",
                       k->path, (unsigned)a->n_heads, (unsigned)a->n_kv_heads);

    uint32_t head_dim = a->hidden / a->n_heads;
    if (!cdz_key(k, "head_dim") && a->hidden % a->n_heads)
        return cdz_err(k->err, CDZ_E_INPUT,
                       "%s: hidden_size %u is not a multiple of num_attention_heads %u", k->path,
                       (unsigned)a->hidden, (unsigned)a->n_heads);
    CDZ_TRY(cdz_key_size(k, "head_dim", &head_dim, MAX_HEAD_DIM, &a->head_dim));
    if (a->head_dim % 2)
        return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                       "%s: head_dim %u is odd; rotary positions need an even one", k->path,
                       (unsigned)a->head_dim);
    a->attention_scale = (float)(1.0 / sqrt((double)a->head_dim));
    return CDZ_OK;
}

static cdz_status read_sizes(const cdz_keys *k, cdz_arch *a)
{
    CDZ_TRY(cdz_key_size(k, "hidden_size", NULL, MAX_WIDTH, &a->hidden));
    CDZ_TRY(cdz_key_size(k, "intermediate_size", NULL, MAX_WIDTH, &a->intermediate));
    CDZ_TRY(cdz_key_size(k, "num_hidden_layers", NULL, MAX_LAYERS, &a->n_layers));
    CDZ_TRY(cdz_key_size(k, "vocab_size", NULL, MAX_WIDTH, &a->n_vocab));
    CDZ_TRY(
        cdz_key_size(k, "max_position_embeddings", &a->family->context, INT32_MAX, &a->context));
    return read_heads(k, a);
}

/* --- attention windows --------------------------------------------------------------------- */

/* Says of each layer whether it slides: layer_types where it is given, else what `slides_from`
 * says. */
static cdz_status read_layer_types(const cdz_keys *k, const cdz_arch *a, uint32_t slides_from,
                                   uint32_t *window)
{
    const cdz_json *types = cdz_key(k, "layer_types");
    if (types && (types->type != CDZ_JSON_ARRAY || types->len != a->n_layers))
        return cdz_err(k->err, CDZ_E_INPUT,
                       "%s: layer_types must be an array of num_hidden_layers (%u) names", k->path,
                       (unsigned)a->n_layers);
    for (uint32_t i = 0; i < a->n_layers; i++) {
        window[i] = i >= slides_from;
        if (!types) continue;
        bool sliding = cdz_json_eq(&types->items[i], "sliding_attention");
        if (!sliding && !cdz_json_eq(&types->items[i], "full_attention"))
            return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                           "%s: layer_types[%u] is not supported; supported are full_attention, "
                           "sliding_attention",
                           k->path, (unsigned)i);
        window[i] = sliding;
    }
    return CDZ_OK;
}

static cdz_status read_windows(const cdz_keys *k, cdz_arena *arena, cdz_arch *a)
{
    const uint32_t default_window = 4096, default_full_layers = 28;
    uint32_t *window = cdz_arena_array(arena, a->n_layers, sizeof *window);
    if (!window) return cdz_err(k->err, CDZ_E_NOMEM, "%s: out of memory", k->path);
    a->window = window;
    if (a->family->window == WINDOW_NEVER) return CDZ_OK;

    bool use = a->family->window == WINDOW_ALL;
    uint32_t size = 0, slides_from = 0;
    if (a->family->window == WINDOW_BY_LAYER) {
        CDZ_TRY(cdz_key_bool(k, "use_sliding_window", false, &use));
        CDZ_TRY(
            cdz_key_count(k, "max_window_layers", default_full_layers, MAX_LAYERS, &slides_from));
    }
    if (use && !cdz_key_is_null(k, "sliding_window"))
        CDZ_TRY(cdz_key_size(k, "sliding_window", &default_window, INT32_MAX, &size));
    if (!size) slides_from = a->n_layers;
    if (a->family->window == WINDOW_BY_LAYER) {
        CDZ_TRY(read_layer_types(k, a, slides_from, window));
    } else {
        for (uint32_t i = 0; i < a->n_layers; i++) window[i] = i >= slides_from;
    }
    for (uint32_t i = 0; i < a->n_layers; i++) {
        if (window[i] && !size)
            return cdz_err(
                k->err, CDZ_E_INPUT,
                "%s: layer_types[%u] is sliding_attention, but sliding_window is not set", k->path,
                (unsigned)i);
        a->has_window |= window[i] != 0;
        window[i] *= size;
    }
    return CDZ_OK;
}

/* --- everything ---------------------------------------------------------------------------- */

static cdz_status read_biases(const cdz_keys *k, cdz_arch *a)
{
    a->qkv_bias = a->family->bias == BIAS_QKV;
    if (a->family->bias != BIAS_BY_KEY) return CDZ_OK;
    CDZ_TRY(cdz_key_bool(k, "attention_bias", false, &a->qkv_bias));
    a->o_bias = a->qkv_bias;
    return cdz_key_bool(k, "mlp_bias", false, &a->mlp_bias);
}

static cdz_status read_block(const cdz_keys *k, cdz_arch *a)
{
    double eps;
    CDZ_TRY(cdz_key_real(k, "rms_norm_eps", 1e-6, 0.0, 1.0, &eps));
    a->norm_eps = (float)eps;
    a->activation = CDZ_ACT_SILU;
    const cdz_json *activation = cdz_key(k, "hidden_act");
    if (activation && !cdz_json_eq(activation, "silu") && !cdz_json_eq(activation, "swish"))
        return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                       "%s: hidden_act %s%.40s%s is not supported; supported is silu", k->path,
                       activation->type == CDZ_JSON_STRING ? "\"" : "",
                       activation->type == CDZ_JSON_STRING ? activation->string
                                                           : cdz_json_type_name(activation),
                       activation->type == CDZ_JSON_STRING ? "\"" : "");
    CDZ_TRY(read_biases(k, a));
    return cdz_key_bool(k, "tie_word_embeddings", false, &a->tied);
}

static cdz_status refuse_quantised(const cdz_keys *k)
{
    const cdz_json *q = cdz_key(k, "quantization_config");
    if (!q) return CDZ_OK;
    const cdz_json *method = cdz_json_get(q, "quant_method");
    return cdz_err(
        k->err, CDZ_E_UNSUPPORTED,
        "%s: quantization_config (%.40s) is not supported; weights must be f32, f16 or bf16",
        k->path, cdz_json_is(method, CDZ_JSON_STRING) ? method->string : "of no method");
}

cdz_status cdz_arch_read(const cdz_json *config, const char *path, cdz_arena *arena, cdz_arch *out,
                         cdz_error *err)
{
    const cdz_keys keys = {.object = config, .path = path, .err = err}, *k = &keys;
    *out = (cdz_arch){0};
    if (!cdz_json_is(config, CDZ_JSON_OBJECT))
        return cdz_err(err, CDZ_E_INPUT, "%s: is %s, expected an object", path,
                       cdz_json_type_name(config));
    CDZ_TRY(find_family(k, &out->family));
    out->model_type = out->family->model_type;
    out->architecture = out->family->architecture;
    const cdz_json *dtype = cdz_key(k, "dtype") ? cdz_key(k, "dtype") : cdz_key(k, "torch_dtype");
    out->dtype = cdz_json_is(dtype, CDZ_JSON_STRING) ? dtype->string : "";

    CDZ_TRY(refuse_quantised(k));
    CDZ_TRY(read_sizes(k, out));
    CDZ_TRY(read_block(k, out));
    CDZ_TRY(read_windows(k, arena, out));
    return cdz_rope_read(k, arena, out);
}

/* --- names --------------------------------------------------------------------------------- */

const char *cdz_arch_tensor_name(const cdz_arch *arch, cdz_part part, uint32_t layer,
                                 const char *suffix, char *buf, size_t size)
{
    const char *stem = arch->family->names[part], *mark = strchr(stem, '#');
    if (mark)
        snprintf(buf, size, "%.*s%u%s%s", (int)(mark - stem), stem, (unsigned)layer, mark + 1,
                 suffix);
    else
        snprintf(buf, size, "%s%s", stem, suffix);
    return buf;
}

bool cdz_arch_tensor_is_harmless(const cdz_arch *arch, const char *name)
{
    static const char *const endings[] = {".rotary_emb.inv_freq", ".attn.masked_bias"};
    (void)arch;
    size_t len = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t end = strlen(endings[i]);
        if (len > end && strcmp(name + len - end, endings[i]) == 0) return true;
    }
    return false;
}

const char *const *cdz_arch_model_types(void)
{
    return model_types;
}
