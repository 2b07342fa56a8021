/* arch.c - the reading of config.json. The table of families is in families.c, rotary frequencies
 * in rope.c.
 *
 * Keys and defaults are those of transformers' configuration classes, old and new spellings;
 * null counts as absent, as it does there. */
#include "load/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "load/config_keys.h"
#include "load/families.h"

/* Sizes past these are not models but mistakes or attacks; every product of them fits 64 bits. */
enum {
    MAX_LAYERS = 10000,
    MAX_WIDTH = 1 << 24, /* hidden, intermediate, vocabulary */
    MAX_HEADS = 1 << 16,
    MAX_HEAD_DIM = 1 << 14,
};

/* --- which family -------------------------------------------------------------------------- */

/* The names, all of them and as a list. */
static size_t known_types(const char **names, size_t room, char *text, size_t size)
{
    size_t at = 0, n = 0;
    text[0] = '\0';
    for (; n < room && (names[n] = cdz_arch_model_type(n)) != NULL; n++)
        if (at < size)
            at += (size_t)snprintf(text + at, size - at, "%s%s", n ? ", " : "", names[n]);
    return n;
}

static cdz_status unknown_family(const cdz_keys *k, const char *key, const char *value)
{
    enum { MOST = 256 };
    const char *names[MOST];
    char known[1024];
    const size_t n = known_types(names, MOST, known, sizeof known);
    const char *near = strcmp(key, "model_type") == 0 ? cdz_nearest_name(value, names, n) : NULL;
    return cdz_err(k->err, CDZ_E_UNSUPPORTED, "%s: %s \"%.80s\" is not supported%s%s%s", k->path,
                   key, value, near ? ": did you mean \"" : "; supported are ", near ? near : known,
                   near ? "\"?" : "");
}

/* The first entry of "architectures", or NULL. */
static const cdz_json *architecture_of(const cdz_keys *k)
{
    const cdz_json *list = cdz_key(k, "architectures");
    if (!cdz_json_is(list, CDZ_JSON_ARRAY) || list->len == 0) return NULL;
    return cdz_json_is(&list->items[0], CDZ_JSON_STRING) ? &list->items[0] : NULL;
}

/* Is it the family's name with ForSequenceClassification in place of what it has for a decoder? */
static bool is_classifier(const cdz_family *family, const char *name)
{
    static const char *const endings[] = {"ForCausalLM", "LMHeadModel"};
    if (family->encoder_names) return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const char *end = strstr(family->architecture, endings[i]);
        const size_t stem = end ? (size_t)(end - family->architecture) : 0;
        if (!end || strncmp(name, family->architecture, stem) != 0) continue;
        const char *rest = name + stem + (strncmp(name + stem, "TextFor", 7) == 0 ? 4 : 0);
        if (strcmp(rest, "ForSequenceClassification") == 0) return true;
    }
    return false;
}

static cdz_status find_family(const cdz_keys *k, const cdz_family **out, bool *classifier)
{
    const cdz_json *type = cdz_key(k, "model_type"), *architecture = architecture_of(k);
    if (type && type->type != CDZ_JSON_STRING)
        return cdz_err(k->err, CDZ_E_INPUT, "%s: model_type is %s, expected a string", k->path,
                       cdz_json_type_name(type));
    if (!type && !architecture)
        return cdz_err(k->err, CDZ_E_INPUT, "%s: has neither model_type nor architectures", k->path);
    *out = cdz_family_find(type, architecture);
    if (!*out)
        return type ? unknown_family(k, "model_type", type->string)
                    : unknown_family(k, "architecture", architecture->string);
    *classifier = architecture && is_classifier(*out, architecture->string);
    if (architecture && !*classifier && !cdz_json_eq(architecture, (*out)->architecture))
        return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                       "%s: architecture \"%.80s\" is not supported; expected %s", k->path,
                       architecture->string, (*out)->architecture);
    return CDZ_OK;
}

/* --- sizes --------------------------------------------------------------------------------- */

static cdz_status read_head_dim(const cdz_keys *k, cdz_arch *a)
{
    const char *heads = a->keys->heads;
    const char *key = a->keys->head_dim ? a->keys->head_dim : "head_dim";
    uint32_t head_dim = a->family->head_dim;
    if (!head_dim && !cdz_key(k, key) && a->hidden % a->n_heads)
        return cdz_err(k->err, CDZ_E_INPUT, "%s: %s %u is not a multiple of %s %u", k->path,
                       a->keys->hidden, (unsigned)a->hidden, heads, (unsigned)a->n_heads);
    if (!head_dim) head_dim = a->hidden / a->n_heads;
    CDZ_TRY(cdz_key_size(k, key, &head_dim, MAX_HEAD_DIM, &a->head_dim));
    if (a->head_dim % 2 && cdz_arch_rotates(a))
        return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                       "%s: head_dim %u is odd; rotary positions need an even one", k->path,
                       (unsigned)a->head_dim);
    return CDZ_OK;
}

/* The sizes of latent attention. To the rest it is one head of what is kept. */
static cdz_status read_latent(const cdz_keys *k, cdz_arch *a)
{
    const uint32_t kv_rank = 512, plain = 128, rotated = 64, value = 128;
    cdz_latent *l = &a->latent;
    CDZ_TRY(cdz_key_size(k, "kv_lora_rank", &kv_rank, MAX_HEAD_DIM, &l->kv_rank));
    if (!cdz_key_is_null(k, "q_lora_rank"))
        CDZ_TRY(cdz_key_count(k, "q_lora_rank", 1536, MAX_WIDTH, &l->q_rank));
    CDZ_TRY(cdz_key_size(k, "qk_nope_head_dim", &plain, MAX_HEAD_DIM, &l->plain));
    CDZ_TRY(cdz_key_size(k, "qk_rope_head_dim", &rotated, MAX_HEAD_DIM, &l->rotated));
    CDZ_TRY(cdz_key_size(k, "v_head_dim", &value, MAX_HEAD_DIM, &l->value));
    a->n_kv_heads = 1;
    a->head_dim = l->kv_rank + l->rotated;
    if (l->rotated % 2)
        return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                       "%s: qk_rope_head_dim %u is odd; rotary positions need an even one", k->path,
                       (unsigned)l->rotated);
    return CDZ_OK;
}

static cdz_status read_heads(const cdz_keys *k, cdz_arch *a)
{
    if (!a->keys->heads) return CDZ_OK; /* no attention */
    CDZ_TRY(cdz_key_size(k, a->keys->heads, NULL, MAX_HEADS, &a->n_heads));
    if (a->family->latent) return read_latent(k, a);
    const char *key = a->family->layout_keys ? "num_kv_heads" : "num_key_value_heads";
    uint32_t n_kv = a->family->n_kv_heads ? a->family->n_kv_heads : a->n_heads;
    if (cdz_key_is_null(k, key)) n_kv = a->n_heads;
    CDZ_TRY(cdz_key_size(k, key, &n_kv, MAX_HEADS, &a->n_kv_heads));
    if (a->family->layout_keys) CDZ_TRY(cdz_arch_read_layout(k, a));
    if (a->n_heads % a->n_kv_heads)
        return cdz_err(k->err, CDZ_E_INPUT, "%s: %s %u is not a multiple of %s %u", k->path,
                       a->keys->heads, (unsigned)a->n_heads, key, (unsigned)a->n_kv_heads);
    if (a->family->fused == CDZ_FUSED_QUARTERS && a->n_heads % 4)
        return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                       "%s: %s %u is not supported for %s; expected a multiple of 4", k->path,
                       a->keys->heads, (unsigned)a->n_heads, a->model_type);
    return read_head_dim(k, a);
}

/* lfm2's feed-forwards are two thirds as wide as it is said, times a factor, rounded up. */
static cdz_status adjust_inner(const cdz_keys *k, cdz_arch *a)
{
    const uint32_t usual = 256;
    bool adjusts;
    double factor;
    uint32_t multiple;
    CDZ_TRY(cdz_key_bool(k, "block_auto_adjust_ff_dim", true, &adjusts));
    CDZ_TRY(cdz_key_real(k, "block_ffn_dim_multiplier", 1, 1e-3, 1e3, &factor));
    CDZ_TRY(cdz_key_size(k, "block_multiple_of", &usual, MAX_WIDTH, &multiple));
    if (!adjusts) return CDZ_OK;
    const uint64_t two_thirds = 2 * (uint64_t)a->intermediate / 3;
    const uint64_t inner = (uint64_t)(factor * (double)two_thirds);
    const uint64_t rounded = (inner + multiple - 1) / multiple * multiple;
    if (rounded == 0 || rounded > MAX_WIDTH)
        return cdz_err(k->err, CDZ_E_INPUT,
                       "%s: block_ffn_dim_multiplier and block_multiple_of make feed-forwards "
                       "%llu wide, expected 1 to %d",
                       k->path, (unsigned long long)rounded, MAX_WIDTH);
    a->intermediate = (uint32_t)rounded;
    return CDZ_OK;
}

static cdz_status read_inner(const cdz_keys *k, cdz_arch *a)
{
    const uint32_t four_times = a->hidden * 4; /* n_inner may be left out */
    const char *key = a->keys->intermediate;
    if (!key) return CDZ_OK;
    if (a->family->adjusts_inner && cdz_key(k, "block_ff_dim")) key = "block_ff_dim";
    if (a->family->streams && cdz_json_is(cdz_key(k, key), CDZ_JSON_ARRAY))
        return cdz_arch_read_inner_list(k, key, a);
    CDZ_TRY(cdz_key_size(k, key, a->family->inner_four ? &four_times : NULL, MAX_WIDTH,
                         &a->intermediate));
    return a->family->adjusts_inner ? adjust_inner(k, a) : CDZ_OK;
}

static cdz_status read_sizes(const cdz_keys *k, cdz_arch *a)
{
    const cdz_key_names *keys = a->keys;
    CDZ_TRY(cdz_key_size(k, keys->hidden, NULL, MAX_WIDTH, &a->hidden));
    CDZ_TRY(read_inner(k, a));
    /* As many as the encoder has, unless it is said (t5). */
    const uint32_t *as_encoder = a->encoder && a->family->t5_rules ? &a->encoder->n_layers : NULL;
    CDZ_TRY(cdz_recurrent_count(k, a, &a->n_layers));
    if (a->n_layers == 0)
        CDZ_TRY(cdz_key_size(k, keys->layers, as_encoder, MAX_LAYERS, &a->n_layers));
    CDZ_TRY(cdz_key_size(k, "vocab_size", NULL, MAX_WIDTH, &a->n_vocab));
    if (keys->vocab) CDZ_TRY(cdz_key_size(k, keys->vocab, &a->n_vocab, MAX_WIDTH, &a->n_vocab));
    if (keys->context)
        CDZ_TRY(cdz_key_size(k, keys->context, &a->family->context, INT32_MAX, &a->context));
    return read_heads(k, a);
}

/* --- layers without rotation --------------------------------------------------------------- */

/* no_rope_layers has 1 where a layer does rotate; without it each nth layer does not. */
static cdz_status read_no_rope(const cdz_keys *k, cdz_arena *arena, cdz_arch *a)
{
    const uint32_t usual = 4;
    uint32_t interval;
    if (!a->family->no_rope_layers) return CDZ_OK;
    bool *none = cdz_arena_array(arena, a->n_layers, sizeof *none);
    if (!none) return cdz_err_memory_in(k->err, k->path);
    a->no_rope = none;
    CDZ_TRY(cdz_key_size(k, "no_rope_layer_interval", &usual, MAX_LAYERS, &interval));
    const cdz_json *list = cdz_key(k, "no_rope_layers");
    if (list && (list->type != CDZ_JSON_ARRAY || list->len != a->n_layers))
        return cdz_err(k->err, CDZ_E_INPUT,
                       "%s: no_rope_layers must be an array of num_hidden_layers (%u) numbers",
                       k->path, (unsigned)a->n_layers);
    for (uint32_t i = 0; i < a->n_layers; i++) {
        none[i] = (i + 1) % interval == 0;
        if (!list) continue;
        if (list->items[i].type != CDZ_JSON_INT)
            return cdz_err(k->err, CDZ_E_INPUT, "%s: no_rope_layers[%u] is %s, expected 0 or 1",
                           k->path, (unsigned)i, cdz_json_type_name(&list->items[i]));
        none[i] = list->items[i].integer == 0;
    }
    return CDZ_OK;
}

/* --- attention windows --------------------------------------------------------------------- */

/* layer_types, where it is given, says of each layer whether it slides. */
static cdz_status read_layer_types(const cdz_keys *k, const cdz_arch *a, uint32_t *slides)
{
    const cdz_json *types = cdz_key(k, "layer_types");
    if (!types) return CDZ_OK;
    if (types->type != CDZ_JSON_ARRAY || types->len != a->n_layers)
        return cdz_err(k->err, CDZ_E_INPUT,
                       "%s: layer_types must be an array of num_hidden_layers (%u) names", k->path,
                       (unsigned)a->n_layers);
    for (uint32_t i = 0; i < a->n_layers; i++) {
        const bool blocks = a->family->window == CDZ_WINDOW_BLOCKS;
        slides[i] =
            cdz_json_eq(&types->items[i], blocks ? "chunked_attention" : "sliding_attention");
        if (!slides[i] && !cdz_json_eq(&types->items[i], "full_attention"))
            return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                           "%s: layer_types[%u] is not supported; supported are full_attention, "
                           "%s",
                           k->path, (unsigned)i, blocks ? "chunked_attention" : "sliding_attention");
    }
    return CDZ_OK;
}

/* sliding_window_pattern: each nth layer does not slide; or letters, L for those that do and G for the others. */
static cdz_status read_pattern(const cdz_keys *k, uint32_t *pattern, const char **letters)
{
    const char *key = "sliding_window_pattern";
    const cdz_json *given = cdz_key(k, key);
    if (!cdz_json_is(given, CDZ_JSON_STRING))
        return cdz_key_size(k, key, pattern, MAX_LAYERS, pattern);
    const size_t n = strlen(given->string);
    if (n == 0 || n > MAX_LAYERS || strspn(given->string, "LG") != n)
        return cdz_err(k->err, CDZ_E_INPUT,
                       "%s: %s is \"%.40s\", expected a number of layers or letters L and G",
                       k->path, key, given->string);
    *letters = given->string;
    *pattern = (uint32_t)n;
    return CDZ_OK;
}

/* Which layers slide: what the family's rule says, then layer_types. */
static cdz_status read_sliding(const cdz_keys *k, const cdz_arch *a, bool used, uint32_t *slides)
{
    const uint32_t default_full_layers = 28;
    const cdz_window_rule rule = a->family->window;
    uint32_t full_layers = 0, pattern = a->family->window_pattern;
    if (rule == CDZ_WINDOW_BY_LAYER)
        CDZ_TRY(
            cdz_key_count(k, "max_window_layers", default_full_layers, MAX_LAYERS, &full_layers));
    const char *letters = NULL;
    if (rule == CDZ_WINDOW_PATTERN && pattern != 2) CDZ_TRY(read_pattern(k, &pattern, &letters));
    for (uint32_t i = 0; used && i < a->n_layers; i++) {
        slides[i] = i >= full_layers;
        if (rule == CDZ_WINDOW_PATTERN) slides[i] = (i + 1) % pattern != 0;
        if (letters) slides[i] = letters[i % pattern] == 'L';
        if (rule == CDZ_WINDOW_NO_ROPE) slides[i] = a->no_rope[i];
        if (rule == CDZ_WINDOW_BLOCKS) slides[i] = !a->no_rope[i];
    }
    const bool whole = rule == CDZ_WINDOW_ALL || rule == CDZ_WINDOW_ALL_IF_USED;
    return whole ? CDZ_OK : read_layer_types(k, a, slides);
}

static cdz_status read_windows(const cdz_keys *k, cdz_arena *arena, cdz_arch *a)
{
    const cdz_window_rule rule = a->family->window;
    uint32_t *window = cdz_arena_array(arena, a->n_layers, sizeof *window), size = 0;
    if (!window) return cdz_err_memory_in(k->err, k->path);
    a->window = window;
    if (rule == CDZ_WINDOW_NEVER) return CDZ_OK;

    bool used = true;
    a->window_blocks = rule == CDZ_WINDOW_BLOCKS;
    const char *key = a->window_blocks ? "attention_chunk_size" : "sliding_window";
    if (rule != CDZ_WINDOW_ALL && rule != CDZ_WINDOW_PATTERN && rule != CDZ_WINDOW_BLOCKS)
        CDZ_TRY(cdz_key_bool(k, "use_sliding_window", false, &used));
    const bool has_default = a->family->window_size && !cdz_key_is_null(k, key);
    if (used && (has_default || cdz_key(k, key)))
        CDZ_TRY(cdz_key_size(k, key, &a->family->window_size, INT32_MAX, &size));
    CDZ_TRY(read_sliding(k, a, used && size, window));
    for (uint32_t i = 0; i < a->n_layers; i++) {
        if (window[i] && !size)
            return cdz_err(k->err, CDZ_E_INPUT, "%s: layer_types[%u] is %s, but %s is not set",
                           k->path, (unsigned)i,
                           a->window_blocks ? "chunked_attention" : "sliding_attention", key);
        a->has_window |= window[i] != 0;
        window[i] *= size;
    }
    return CDZ_OK;
}

/* --- everything ---------------------------------------------------------------------------- */

/* Layers that do not rotate, where that follows from their windows. */
static cdz_status read_rope_rule(const cdz_keys *k, cdz_arena *arena, cdz_arch *a)
{
    const cdz_rope_rule rule = a->family->rope_rule;
    const bool none = cdz_key_is_null(k, "sliding_window");
    if (rule == CDZ_ROPE_EVERYWHERE || (rule == CDZ_ROPE_IN_WINDOWS_IF_ANY && none)) return CDZ_OK;
    bool *no_rope = cdz_arena_array(arena, a->n_layers, sizeof *no_rope);
    if (!no_rope) return cdz_err_memory_in(k->err, k->path);
    for (uint32_t i = 0; i < a->n_layers; i++) no_rope[i] = a->window[i] == 0;
    a->no_rope = no_rope;
    return CDZ_OK;
}

static cdz_status read_biases(const cdz_keys *k, cdz_arch *a)
{
    const cdz_bias_rule rule = a->family->biases;
    a->qkv_bias = rule == CDZ_BIAS_QKV || rule == CDZ_BIAS_ALL;
    a->o_bias = rule == CDZ_BIAS_ALL;
    a->mlp_bias = rule == CDZ_BIAS_ALL || rule == CDZ_BIAS_NEOX || rule == CDZ_BIAS_MLP;
    if (rule == CDZ_BIAS_BY_KEY || rule == CDZ_BIAS_ATTENTION || rule == CDZ_BIAS_NEOX) {
        CDZ_TRY(cdz_key_bool(k, "attention_bias", rule == CDZ_BIAS_NEOX, &a->qkv_bias));
        a->o_bias = a->qkv_bias;
    }
    if (rule == CDZ_BIAS_USE_QKV) return cdz_key_bool(k, "use_qkv_bias", false, &a->qkv_bias);
    if (rule == CDZ_BIAS_QKV_KEY || rule == CDZ_BIAS_APART)
        CDZ_TRY(cdz_key_bool(k, "attention_bias", a->family->bias, &a->qkv_bias));
    if (rule == CDZ_BIAS_QKV_NAMED)
        CDZ_TRY(cdz_key_bool(k, "qkv_bias", a->family->bias, &a->qkv_bias));
    if (rule == CDZ_BIAS_APART) CDZ_TRY(cdz_key_bool(k, "attention_out_bias", false, &a->o_bias));
    if (rule == CDZ_BIAS_USE || rule == CDZ_BIAS_NAMED) {
        const char *key = rule == CDZ_BIAS_USE ? "use_bias" : "bias";
        CDZ_TRY(cdz_key_bool(k, key, a->family->bias, &a->qkv_bias));
        a->o_bias = a->mlp_bias = a->qkv_bias;
    }
    const bool mlp_key = rule == CDZ_BIAS_BY_KEY || rule == CDZ_BIAS_APART;
    return mlp_key ? cdz_key_bool(k, "mlp_bias", false, &a->mlp_bias) : CDZ_OK;
}

cdz_status cdz_arch_read_activation(const cdz_keys *k, const char *key, const cdz_json *given,
                                    const char *usual, cdz_activation *out)
{
    static const struct {
        const char *name;
        cdz_activation activation;
    } known[] = {{"silu", CDZ_ACT_SILU},           {"swish", CDZ_ACT_SILU},
                 {"gelu", CDZ_ACT_GELU},           {"gelu_new", CDZ_ACT_GELU_TANH},
                 {"gelu_fast", CDZ_ACT_GELU_TANH}, {"gelu_pytorch_tanh", CDZ_ACT_GELU_TANH},
                 {"relu", CDZ_ACT_RELU},           {"relu2", CDZ_ACT_RELU2},
                 {"xielu", CDZ_ACT_XIELU}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (given ? cdz_json_eq(given, known[i].name) : strcmp(usual, known[i].name) == 0) {
            *out = known[i].activation;
            return CDZ_OK;
        }
    const bool text = !given || given->type == CDZ_JSON_STRING;
    return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                   "%s: %s %s%.40s%s is not supported; supported are silu, gelu, gelu_new, "
                   "gelu_pytorch_tanh, relu, relu2",
                   k->path, key, text ? "\"" : "",
                   !given ? usual
                   : text ? given->string
                          : cdz_json_type_name(given),
                   text ? "\"" : "");
}

static cdz_status read_activation(const cdz_keys *k, cdz_arch *a)
{
    const char *key = a->keys->activation;
    const char *usual = a->family->activation ? a->family->activation : "silu";
    if (a->family->t5_rules) return CDZ_OK; /* pair.c */
    if (a->family->clamped) {
        a->activation = CDZ_ACT_CLAMPED;
        return CDZ_OK;
    }
    const cdz_json *given = key ? cdz_key(k, key) : NULL;
    CDZ_TRY(cdz_arch_read_activation(k, key, given, usual, &a->activation));
    if (a->activation == CDZ_ACT_XIELU && !a->names[CDZ_PART_XIELU])
        return cdz_err(k->err, CDZ_E_UNSUPPORTED, "%s: %s xielu is not supported for %s", k->path,
                       key, a->model_type);
    const bool gated =
        a->names[CDZ_PART_GATE] || a->names[CDZ_PART_GATE_UP] || a->names[CDZ_PART_EXPERT_GATE];
    if (a->activation == CDZ_ACT_RELU2 && gated)
        return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                       "%s: %s relu2 is not supported for %s, whose feed-forward has a gate",
                       k->path, key, a->model_type);
    return CDZ_OK;
}

static cdz_status read_cap(const cdz_keys *k, const char *key, float usual, float *out)
{
    double cap = 0;
    if (!cdz_key_is_null(k, key)) CDZ_TRY(cdz_key_real(k, key, (double)usual, 0, 1e9, &cap));
    *out = (float)cap;
    return CDZ_OK;
}

/* granite's four numbers. */
static cdz_status read_multipliers(const cdz_keys *k, cdz_arch *a)
{
    double embed, residual, attention, divisor;
    CDZ_TRY(cdz_key_real(k, "embedding_multiplier", 1, -1e9, 1e9, &embed));
    CDZ_TRY(cdz_key_real(k, "residual_multiplier", 1, -1e9, 1e9, &residual));
    CDZ_TRY(cdz_key_real(k, "attention_multiplier", 1, -1e9, 1e9, &attention));
    CDZ_TRY(cdz_key_real(k, "logits_scaling", 1, 1e-9, 1e9, &divisor));
    a->embed_scale = (float)embed;
    a->residual_scale = (float)residual;
    a->attention_scale = (float)attention;
    a->head_scale = (float)(1 / divisor);
    return CDZ_OK;
}

/* What attention multiplies its scores by, and what it draws them into. */
static cdz_status read_scores(const cdz_keys *k, cdz_arch *a)
{
    const cdz_latent *l = &a->latent;
    double divisor = l->kv_rank ? l->plain + l->rotated : a->head_dim ? a->head_dim : 1;
    bool scaled = true;
    if (a->family->query_scalar)
        CDZ_TRY(
            cdz_key_real(k, "query_pre_attn_scalar", a->family->query_scalar, 1e-6, 1e9, &divisor));
    if (a->family->gpt2_scales) {
        CDZ_TRY(cdz_key_bool(k, "scale_attn_weights", true, &scaled));
        CDZ_TRY(cdz_key_bool(k, "scale_attn_by_inverse_layer_idx", false, &a->scale_by_layer));
    }
    a->attention_scale = scaled && !a->family->unscaled ? (float)(1.0 / sqrt(divisor)) : 1.0f;
    if (a->family->multipliers) CDZ_TRY(read_multipliers(k, a));
    if (a->family->alibi == CDZ_ALIBI_ATTN_CONFIG) CDZ_TRY(cdz_arch_read_attn_config(k, a));
    if (a->family->logit_scale != 0) {
        double scale;
        CDZ_TRY(cdz_key_real(k, "logit_scale", a->family->logit_scale, -1e9, 1e9, &scale));
        a->head_scale = (float)scale;
    }
    if (!a->family->caps) return CDZ_OK;
    CDZ_TRY(read_cap(k, "attn_logit_softcapping", a->family->attention_cap, &a->attention_cap));
    return read_cap(k, "final_logit_softcapping", a->family->final_cap, &a->final_cap);
}

static bool reads_parallel(const cdz_family *f)
{
    return f->parallel == CDZ_PARALLEL_UNLESS_SAID || f->parallel == CDZ_PARALLEL_IF_SAID;
}

/* What some configurations turn on and the block does not do. */
static cdz_status refuse_modes(const cdz_keys *k, const cdz_family *f)
{
    static const char *const modes[] = {"add_cross_attention", "use_bidirectional_attention",
                                        "qk_layernorm", "use_qk_norm", "use_parallel_residual"};
    /* The last one by families that can. */
    const size_t n = sizeof modes / sizeof *modes - reads_parallel(f);
    for (size_t i = 0; i < n; i++) {
        bool on;
        if (strcmp(modes[i], "qk_layernorm") == 0 && f->qk_norm != CDZ_QK_NONE)
            continue; /* read_qk_norm, or `only` */
        const bool norms = f->qk_norm_key || f->qk_norm_bare || f->qk_norm != CDZ_QK_NONE;
        if (strcmp(modes[i], "use_qk_norm") == 0 && norms) continue;
        CDZ_TRY(cdz_key_bool(k, modes[i], false, &on));
        if (on)
            return cdz_err(k->err, CDZ_E_UNSUPPORTED, "%s: %s is not supported", k->path, modes[i]);
    }
    for (const cdz_only_value *o = f->only; o && o->key; o++) {
        bool value;
        CDZ_TRY(cdz_key_bool(k, o->key, o->value, &value));
        if (value != o->value)
            return cdz_err(k->err, CDZ_E_UNSUPPORTED, "%s: %s %s is not supported", k->path, o->key,
                           value ? "true" : "false");
    }
    if (f->clips && cdz_key(k, "clip_qkv"))
        return cdz_err(k->err, CDZ_E_UNSUPPORTED, "%s: clip_qkv is not supported", k->path);
    return CDZ_OK;
}

/* llama4's growing queries: attention over long contexts stays sharp. */
static cdz_status read_temper(const cdz_keys *k, cdz_arch *a)
{
    bool on = true;
    double by, every;
    if (!a->family->tempered) return CDZ_OK;
    CDZ_TRY(cdz_key_bool(k, "attn_temperature_tuning", true, &on));
    CDZ_TRY(cdz_key_real(k, "attn_scale", 0.1, 0, 1e6, &by));
    CDZ_TRY(cdz_key_real(k, "floor_scale", 8192, 1, INT32_MAX, &every));
    if (on) a->temper = (cdz_temper){by, every, 1, true};
    return CDZ_OK;
}

/* Which norms queries and keys have. */
static cdz_status read_qk_norm(const cdz_keys *k, cdz_arch *a)
{
    bool on = true;
    const bool bare = a->family->qk_norm_bare;
    if (bare) CDZ_TRY(cdz_key_bool(k, "use_qk_norm", true, &on));
    if (a->family->qk_norm_key) CDZ_TRY(cdz_key_bool(k, a->family->qk_norm_key, false, &on));
    a->qk_norm = on ? a->family->qk_norm : CDZ_QK_NONE;
    a->qk_norm_last = a->family->qk_norm_last;
    return CDZ_OK;
}

/* A model of several parts ties by a key of its own, or by its text part's. Where it says nothing its type would, which is
 * not known here: then a file without a head is tied (bind.c). */
static cdz_status read_tied(const cdz_keys *k, cdz_arch *a)
{
    bool whole_ties;
    CDZ_TRY(cdz_key_bool(k, "tie_word_embeddings", a->family->tied, &a->tied));
    if (!k->whole) return CDZ_OK;
    const cdz_keys whole = {.object = k->whole, .path = k->path, .err = k->err};
    CDZ_TRY(cdz_key_bool(&whole, "tie_word_embeddings", true, &whole_ties));
    a->tied = a->tied || whole_ties;
    return CDZ_OK;
}

static cdz_status read_block(const cdz_keys *k, cdz_arch *a)
{
    const cdz_family *f = a->family;
    double eps = f->eps != 0 ? f->eps : 1e-6;
    if (a->keys->eps) CDZ_TRY(cdz_key_real(k, a->keys->eps, eps, 0.0, 1.0, &eps));
    a->norm_eps = (float)eps;
    a->norm = f->norm;
    a->norm_offset = f->norm_offset;
    if (!f->layout_keys) a->parallel_residual = a->one_norm = f->parallel == CDZ_PARALLEL_ONE_NORM;
    a->residual_scale = 1;
    a->fused = f->fused;
    a->conv1d = f->conv1d;
    a->scales_given = f->scales_given;
    a->placing = (cdz_placing){.offset = f->position_offset,
                               .unplaced = -1,
                               .after_norm = f->embed_norm_first && a->encoder};
    a->embed_scale = f->scaled_embedding ? (float)sqrt((double)a->hidden) : 1.0f;
    a->head_scale = 1;
    a->norm_after_sum = f->norm_after_sum;
    CDZ_TRY(refuse_modes(k, f));
    CDZ_TRY(read_qk_norm(k, a));
    CDZ_TRY(read_temper(k, a));
    CDZ_TRY(read_activation(k, a));
    CDZ_TRY(read_biases(k, a));
    CDZ_TRY(read_scores(k, a));
    if (reads_parallel(f))
        CDZ_TRY(cdz_key_bool(k, "use_parallel_residual", f->parallel == CDZ_PARALLEL_UNLESS_SAID,
                             &a->parallel_residual));
    if (f->parallel == CDZ_PARALLEL_IF_SAID) a->one_norm = a->parallel_residual;
    CDZ_TRY(read_tied(k, a));
    return f->adjusts_inner || f->old_tied ? cdz_key_bool(k, "tie_embedding", a->tied, &a->tied)
                                           : CDZ_OK;
}

/* Of a family whose file says whether layers rotate. */
static bool turns(const cdz_keys *k, const cdz_arch *a)
{
    return !a->family->rope_by_type || cdz_json_eq(cdz_key(k, "position_embedding_type"), "rope");
}

static cdz_status read_stack(const cdz_keys *k, cdz_arena *arena, cdz_arch *a)
{
    CDZ_TRY(read_sizes(k, a));
    CDZ_TRY(read_block(k, a));
    if (a->family->alibi) CDZ_TRY(cdz_arch_make_slopes(k, arena, a));
    CDZ_TRY(cdz_recurrent_read(k, arena, a));
    if (a->family->encoder_names) CDZ_TRY(cdz_pair_read(k, a));
    CDZ_TRY(read_no_rope(k, arena, a));
    CDZ_TRY(read_windows(k, arena, a));
    CDZ_TRY(read_rope_rule(k, arena, a));
    if (a->family->streams) CDZ_TRY(cdz_arch_read_streams(k, arena, a));
    CDZ_TRY(cdz_experts_read(k, arena, a));
    return cdz_arch_rotates(a) && turns(k, a) ? cdz_rope_read(k, arena, a) : CDZ_OK;
}

static cdz_status read_encoder(const cdz_keys *k, cdz_arena *arena, cdz_arch *decoder)
{
    cdz_arch *encoder = cdz_arena_alloc(arena, sizeof *encoder);
    if (!encoder) return cdz_err_memory_in(k->err, k->path);
    *encoder = *decoder;
    encoder->keys = decoder->family->encoder_keys;
    CDZ_TRY(cdz_pair_names(k, decoder, encoder));
    CDZ_TRY(read_stack(k, arena, encoder));
    decoder->encoder = encoder;
    return CDZ_OK;
}

/* Of a model of several parts, such as one that sees, the part that reads and writes text: its keys are an object of their
 * own. */
static void enter_text_part(cdz_keys *k, cdz_arch *out)
{
    const cdz_json *type = cdz_key(k, "model_type"), *part = cdz_key(k, "text_config");
    if (!cdz_json_is(part, CDZ_JSON_OBJECT) || !cdz_json_is(type, CDZ_JSON_STRING)) return;
    if (cdz_family_find(type, NULL)) return;
    out->part_of = type->string;
    k->whole = k->object;
    k->object = part;
    k->prefix = "text_config.";
}

cdz_status cdz_arch_read(const cdz_json *config, const char *path, cdz_arena *arena, cdz_arch *out,
                         cdz_error *err)
{
    cdz_keys keys = {.object = config, .path = path, .err = err};
    const cdz_keys *k = &keys;
    *out = (cdz_arch){0};
    if (!cdz_json_is(config, CDZ_JSON_OBJECT))
        return cdz_err(err, CDZ_E_INPUT, "%s: is %s, expected an object", path,
                       cdz_json_type_name(config));
    CDZ_TRY(cdz_arch_read_quantised(k, out));
    enter_text_part(&keys, out);
    CDZ_TRY(find_family(k, &out->family, &out->classifier));
    out->model_type = out->family->model_type;
    out->architecture = out->classifier ? architecture_of(k)->string : out->family->architecture;
    const cdz_json *dtype = cdz_key(k, "dtype") ? cdz_key(k, "dtype") : cdz_key(k, "torch_dtype");
    out->dtype = cdz_json_is(dtype, CDZ_JSON_STRING) ? dtype->string : "";

    out->names = out->family->names;
    out->keys = out->family->keys;
    keys.aliases = out->family->aliases;
    if (out->family->encoder_names) CDZ_TRY(read_encoder(k, arena, out));
    return read_stack(k, arena, out);
}

/* --- names --------------------------------------------------------------------------------- */

bool cdz_arch_has(const cdz_arch *arch, cdz_arch_part part)
{
    return arch->names[part] != NULL;
}

bool cdz_arch_positions_learned(const cdz_arch *arch)
{
    return cdz_arch_has(arch, CDZ_PART_POSITIONS);
}

bool cdz_arch_has_positions(const cdz_arch *arch)
{
    return cdz_arch_positions_learned(arch) || arch->family->sines;
}

bool cdz_arch_rotates(const cdz_arch *arch)
{
    return !cdz_arch_has_positions(arch) && !cdz_arch_has(arch, CDZ_PART_RELATIVE) &&
           !arch->family->no_rotation && !arch->family->alibi && arch->keys->heads;
}

bool cdz_arch_adds_by_distance(const cdz_arch *arch)
{
    return arch->buckets.n || arch->slopes;
}

uint32_t cdz_arch_distance_tables(const cdz_arch *arch)
{
    if (arch->buckets.n == 0) return arch->slopes ? 1 : 0;
    return strchr(arch->names[CDZ_PART_RELATIVE], '#') ? arch->n_layers : 1;
}

bool cdz_arch_needs_whole_mask(const cdz_arch *arch)
{
    return arch->has_window || arch->buckets.n || (arch->slopes && arch->hidden_count) ||
           arch->recurrent.kind; /* a window of a convolution, and what a state forgets with each place */
}

const cdz_rope *cdz_arch_rope(const cdz_arch *arch, uint32_t layer)
{
    if (arch->rope.n_rotated == 0 || (arch->no_rope && arch->no_rope[layer])) return NULL;
    return arch->local_rope.n_rotated && arch->window[layer] ? &arch->local_rope : &arch->rope;
}

size_t cdz_arch_prefix(const cdz_arch *arch, const char **prefix)
{
    *prefix = arch->names[CDZ_PART_EMBED];
    const size_t length = strcspn(*prefix, ".");
    return (*prefix)[length] ? length + 1 : 0;
}

const char *cdz_arch_tensor_name(const cdz_arch *arch, cdz_arch_part part, uint32_t layer,
                                 uint32_t expert, const char *suffix, char *buf, size_t size)
{
    size_t at = 0;
    for (const char *c = arch->names[part]; *c && at + 12 < size; c++) {
        if (*c == '#' || *c == '@')
            at +=
                (size_t)snprintf(buf + at, size - at, "%u", (unsigned)(*c == '#' ? layer : expert));
        else
            buf[at++] = *c;
    }
    snprintf(buf + at, size - at, "%s", suffix);
    return buf;
}

/* Copies of the embedding under other names, and the table of positions that is computed. */
static bool is_alias(const cdz_arch *arch, const char *name)
{
    static const char weight[] = ".weight";
    const size_t len = strlen(name), tail = sizeof weight - 1;
    if (len < tail || strcmp(name + len - tail, weight) != 0) return false;
    for (const char *const *a = arch->family->embed_aliases; a && *a; a++)
        if (strlen(*a) == len - tail && memcmp(*a, name, len - tail) == 0) return true;
    return arch->family->sines && strstr(name, ".embed_positions.weight");
}

bool cdz_arch_tensor_is_harmless(const cdz_arch *arch, const char *name)
{
    static const char *const endings[] = {".rotary_emb.inv_freq",
                                          ".attn.masked_bias",
                                          ".attn.bias",
                                          ".attention.masked_bias",
                                          ".attention.bias",
                                          ".EncDecAttention.relative_attention_bias.weight",
                                          ".attn.causal_mask",
                                          ".mlp.act_fn.eps",
                                          ".embed_positions.weights",
                                          ".activation_scale",
                                          "_activation_scale",
                                          ".input_scale",
                                          ".input_scale_ub",
                                          ".k_scale",
                                          ".v_scale"};
    if (is_alias(arch, name)) return true;
    size_t len = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t end = strlen(endings[i]);
        if (len > end && strcmp(name + len - end, endings[i]) == 0) return true;
    }
    return false;
}
