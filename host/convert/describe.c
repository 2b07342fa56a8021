/* describe.c - an architecture as GGUF's keys, those that gguf_config.c reads. */
#include "convert/describe.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "load/families.h"

typedef struct writer {
    const cdz_weights *w;
    const cdz_arch *a;
    const cdz_gguf_arch *ga;
    cdz_gguf_meta *meta;
    cdz_out_tensors *tensors;
    cdz_error *err;
} writer;

void cdz_note(cdz_convert_report *report, const char *fmt, ...)
{
    const size_t at = strlen(report->notes), room = sizeof report->notes - at;
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(report->notes + at, room, fmt, args);
    va_end(args);
    if (n > 0 && (size_t)n + 1 < room) memcpy(report->notes + at + n, "\n", 2);
}

static void put_u32(const writer *w, const char *rest, uint64_t value)
{
    char key[CDZ_GGUF_KEY_BYTES];
    cdz_meta_u32(w->meta, cdz_gguf_arch_key(w->ga, rest, key), value);
}

static void put_f32(const writer *w, const char *rest, double value)
{
    char key[CDZ_GGUF_KEY_BYTES];
    cdz_meta_f32(w->meta, cdz_gguf_arch_key(w->ga, rest, key), (float)value);
}

/* --- sizes --------------------------------------------------------------------------------- */

static void put_sizes(const writer *w)
{
    const cdz_arch *a = w->a;
    put_u32(w, "vocab_size", a->n_vocab);
    put_u32(w, "context_length", a->context);
    put_u32(w, "embedding_length", a->hidden);
    put_u32(w, "block_count", a->n_layers);
    put_u32(w, "feed_forward_length", a->intermediate);
    put_u32(w, "attention.head_count", a->n_heads);
    if (!a->family->conv1d) put_u32(w, "attention.head_count_kv", a->n_kv_heads);
    put_u32(w, "attention.key_length", a->head_dim);
    put_u32(w, "attention.value_length", a->head_dim);
    put_f32(w,
            a->norm == CDZ_NORM_LAYER ? "attention.layer_norm_epsilon"
                                      : "attention.layer_norm_rms_epsilon",
            (double)a->norm_eps);
    if (a->n_experts == 0) return;
    put_u32(w, "expert_count", a->n_experts);
    put_u32(w, "expert_used_count", a->n_active);
    put_u32(w, "expert_feed_forward_length", a->expert_intermediate);
}

static void put_windows(const writer *w)
{
    const cdz_arch *a = w->a;
    char key[CDZ_GGUF_KEY_BYTES];
    uint32_t size = 0, n = 0;
    for (uint32_t i = 0; i < a->n_layers; i++) {
        n += a->window[i] != 0;
        if (a->window[i]) size = a->window[i];
    }
    if (n == 0) return;
    put_u32(w, "attention.sliding_window", size);
    if (n == a->n_layers) return;
    cdz_meta_array(w->meta, cdz_gguf_arch_key(w->ga, "attention.sliding_window_pattern", key),
                   CDZ_GGUF_BOOL, a->n_layers);
    for (uint32_t i = 0; i < a->n_layers; i++)
        cdz_meta_element(w->meta, a->window[i] ? "\1" : "\0", 1);
}

static void put_scores(const writer *w)
{
    const cdz_arch *a = w->a;
    char key[CDZ_GGUF_KEY_BYTES];
    if (a->family->query_scalar) put_f32(w, "attention.scale", (double)a->attention_scale);
    if (a->attention_cap > 0.0f) put_f32(w, "attn_logit_softcapping", (double)a->attention_cap);
    if (a->final_cap > 0.0f) put_f32(w, "final_logit_softcapping", (double)a->final_cap);
    if (a->family->parallel == CDZ_PARALLEL_UNLESS_SAID)
        cdz_meta_bool(w->meta, cdz_gguf_arch_key(w->ga, "use_parallel_residual", key),
                      a->parallel_residual);
}

/* --- rotation ------------------------------------------------------------------------------ */

/* What describes the rotation in config.json, as rope.c finds it; NULL: nothing does. */
static const cdz_json *rope_object(const writer *w)
{
    const cdz_json *old = cdz_json_get(&w->w->config, "rope_scaling"),
                   *new = cdz_json_get(&w->w->config, "rope_parameters");
    const cdz_json *object = cdz_json_is(old, CDZ_JSON_OBJECT) && old->len ? old : new;
    return cdz_json_is(object, CDZ_JSON_OBJECT) ? object : NULL;
}

static double number_in(const cdz_json *object, const char *key, double usual)
{
    double value = usual;
    const cdz_json *v = object ? cdz_json_get(object, key) : NULL;
    return cdz_json_number(v, &value) ? value : usual;
}

static cdz_status add_vector(const writer *w, const char *name, float *data, size_t n)
{
    cdz_weight *part = cdz_arena_alloc(&w->tensors->arena, sizeof *part);
    cdz_out_tensor t = {.name = name, .shape = {n}, .n_dims = 1, .type = CDZ_F32, .n_parts = 1};
    t.parts = part;
    if (part) *part = (cdz_weight){data, CDZ_F32, 1, n, CDZ_WEIGHT_ROWS};
    return part && cdz_out_tensors_add(w->tensors, &t) ? CDZ_OK
                                                       : cdz_err_memory_in(w->err, w->w->folder);
}

static float *floats(const writer *w, size_t n)
{
    return cdz_arena_array(&w->tensors->arena, n + 1, sizeof(float));
}

/* The divisor that turns `plain` into `wanted`, exactly if a neighbour of the quotient does. */
static float divisor(float plain, float wanted)
{
    const float near = plain / wanted;
    float low = near, high = near;
    for (int i = 0; i < 4; i++) {
        if (plain / low == wanted) return low;
        if (plain / high == wanted) return high;
        low = nextafterf(low, 0.0f);
        high = nextafterf(high, INFINITY);
    }
    return near;
}

static cdz_status add_divisors(const writer *w)
{
    const cdz_rope *rope = &w->a->rope;
    const size_t n = rope->n_rotated / 2;
    float *to = floats(w, n);
    if (!to) return cdz_err_memory_in(w->err, w->w->folder);
    cdz_rope_frequencies(to, rope->n_rotated, w->a->rope_theta);
    for (size_t i = 0; i < n; i++) to[i] = divisor(to[i], rope->inv_freq[i]);
    return add_vector(w, "rope_freqs.weight", to, n);
}

static cdz_status add_factors(const writer *w, const char *key, const char *name)
{
    const cdz_json *object = rope_object(w), *list = object ? cdz_json_get(object, key) : NULL;
    const size_t n = w->a->rope.n_rotated / 2;
    float *to = floats(w, n);
    if (!to) return cdz_err_memory_in(w->err, w->w->folder);
    for (size_t i = 0; list && i < n && i < list->len; i++) {
        double factor = 1;
        cdz_json_number(&list->items[i], &factor);
        to[i] = (float)factor;
    }
    return add_vector(w, name, to, n);
}

static cdz_status put_longrope(const writer *w)
{
    put_u32(w, "rope.scaling.original_context_length", w->a->rope_limit);
    put_f32(w, "rope.scaling.attn_factor", (double)w->a->rope.scale);
    CDZ_TRY(add_factors(w, "long_factor", "rope_factors_long.weight"));
    return add_factors(w, "short_factor", "rope_factors_short.weight");
}

/* Yarn's numbers where config.json says them. */
static void put_yarn(const writer *w)
{
    static const char *const bounds[] = {"beta_fast", "beta_slow"};
    const cdz_json *object = rope_object(w);
    double value;
    put_u32(w, "rope.scaling.original_context_length", w->a->rope_old_context);
    for (size_t i = 0; object && i < sizeof bounds / sizeof *bounds; i++) {
        char rest[64];
        snprintf(rest, sizeof rest, "rope.scaling.yarn_%s", bounds[i]);
        if (cdz_json_number(cdz_json_get(object, bounds[i]), &value)) put_f32(w, rest, value);
    }
    if (cdz_json_number(object ? cdz_json_get(object, "attention_factor") : NULL, &value))
        put_f32(w, "rope.scaling.yarn_attn_factor", value);
}

static cdz_status put_scaling(const writer *w)
{
    const cdz_arch *a = w->a;
    char key[CDZ_GGUF_KEY_BYTES];
    if (a->rope_type == CDZ_ROPE_DYNAMIC)
        return cdz_err(w->err, CDZ_E_UNSUPPORTED,
                       "%s: rope type dynamic is not supported: GGUF has no word for it",
                       w->w->folder);
    if (a->rope_type == CDZ_ROPE_LLAMA3) return add_divisors(w);
    if (a->rope_type == CDZ_ROPE_LONGROPE) return put_longrope(w);
    if (a->rope_type == CDZ_ROPE_DEFAULT) return CDZ_OK;
    const bool yarn = a->rope_type == CDZ_ROPE_YARN;
    cdz_meta_text(w->meta, cdz_gguf_arch_key(w->ga, "rope.scaling.type", key),
                  yarn ? "yarn" : "linear");
    put_f32(w, "rope.scaling.factor", a->rope_factor);
    if (yarn) put_yarn(w);
    return CDZ_OK;
}

/* Layers with a window rotate from another base: see read_local in rope.c. */
static void put_local(const writer *w)
{
    const cdz_json *object = rope_object(w);
    const cdz_json *local = object ? cdz_json_get(object, "sliding_attention") : NULL;
    const double beside = number_in(&w->w->config, "rope_local_base_freq", 10000.0);
    if (w->a->family->local_rope)
        put_f32(w, "rope.freq_base_swa", number_in(local, "rope_theta", beside));
}

static cdz_status put_rotation(const writer *w)
{
    if (!cdz_arch_rotates(w->a)) return CDZ_OK;
    put_f32(w, "rope.freq_base", w->a->rope_theta);
    put_u32(w, "rope.dimension_count", w->a->rope.n_rotated);
    put_local(w);
    return put_scaling(w);
}

cdz_status cdz_describe_arch(const cdz_weights *weights, const cdz_gguf_arch *arch,
                             cdz_gguf_meta *meta, cdz_out_tensors *tensors, cdz_error *err)
{
    const writer w = {weights, &weights->arch, arch, meta, tensors, err};
    cdz_meta_text(meta, "general.architecture", arch->name);
    const char *slash = strrchr(weights->folder, '/');
    cdz_meta_text(meta, "general.name", slash && slash[1] ? slash + 1 : weights->folder);
    put_sizes(&w);
    put_windows(&w);
    put_scores(&w);
    return put_rotation(&w);
}

/* --- types --------------------------------------------------------------------------------- */

void cdz_describe_types(const cdz_out_tensors *tensors, cdz_gguf_meta *meta)
{
    /* llama.cpp's numbers of file types */
    static const uint8_t file_type[CDZ_N_DTYPES] = {
        [CDZ_F32] = 0,   [CDZ_F16] = 1,   [CDZ_BF16] = 32, [CDZ_Q8_0] = 7,  [CDZ_Q4_0] = 2,
        [CDZ_Q4_1] = 3,  [CDZ_Q5_0] = 8,  [CDZ_Q5_1] = 9,  [CDZ_Q2_K] = 10, [CDZ_Q3_K] = 11,
        [CDZ_Q4_K] = 14, [CDZ_Q5_K] = 16, [CDZ_Q6_K] = 18};
    uint64_t bytes[CDZ_N_DTYPES] = {0};
    bool quantised = false;
    int most = CDZ_F32;
    for (size_t i = 0; i < tensors->n; i++) {
        const cdz_dtype type = tensors->items[i].type;
        if (type < CDZ_N_DTYPES) bytes[type] += tensors->items[i].n_bytes;
        quantised |= type >= CDZ_N_PLAIN;
    }
    for (int t = 0; t < CDZ_N_DTYPES; t++)
        if (bytes[t] > bytes[most]) most = t;
    cdz_meta_u32(meta, "general.file_type", file_type[most]);
    if (quantised) cdz_meta_u32(meta, "general.quantization_version", 2);
}

/* --- comparing ----------------------------------------------------------------------------- */

static bool near(float a, float b)
{
    return fabsf(a - b) <= 1e-6f * fabsf(a);
}

static bool same_rope(const cdz_rope *a, const cdz_rope *b)
{
    if (a->n_rotated != b->n_rotated) return false;
    bool same = a->n_rotated == 0 || near(a->scale, b->scale);
    for (size_t i = 0; i < a->n_rotated / 2; i++) same &= near(a->inv_freq[i], b->inv_freq[i]);
    return same;
}

static bool same_long(const cdz_arch *a, const cdz_arch *b)
{
    if (a->rope_limit != b->rope_limit || !a->long_inv_freq != !b->long_inv_freq) return false;
    bool same = true;
    for (size_t i = 0; a->long_inv_freq && i < a->rope.n_rotated / 2; i++)
        same &= near(a->long_inv_freq[i], b->long_inv_freq[i]);
    return same;
}

static const char *layer_difference(const cdz_arch *a, const cdz_arch *b)
{
    for (uint32_t i = 0; i < a->n_layers; i++) {
        if (a->window[i] != b->window[i]) return "sliding windows (layer_types)";
        if ((a->n_experts && a->sparse[i]) != (b->n_experts && b->sparse[i]))
            return "which layers have experts";
        if (!cdz_arch_rope(a, i) != !cdz_arch_rope(b, i)) return "which layers rotate";
    }
    return NULL;
}

const char *cdz_convert_arch_difference(const cdz_arch *a, const cdz_arch *b)
{
    if (a->n_layers != b->n_layers || a->hidden != b->hidden || a->n_vocab != b->n_vocab ||
        a->intermediate != b->intermediate || a->n_heads != b->n_heads ||
        a->n_kv_heads != b->n_kv_heads || a->head_dim != b->head_dim || a->context != b->context)
        return "sizes";
    if (a->norm != b->norm || !near(a->norm_eps, b->norm_eps) || a->qk_norm != b->qk_norm ||
        a->norm_after_sum != b->norm_after_sum || a->placing.after_norm != b->placing.after_norm)
        return "norms";
    if (a->activation != b->activation) return "the activation";
    if (a->qkv_bias != b->qkv_bias || a->o_bias != b->o_bias || a->mlp_bias != b->mlp_bias)
        return "biases";
    if (!near(a->embed_scale, b->embed_scale) || !near(a->head_scale, b->head_scale))
        return "the scale of embeddings";
    if (!near(a->attention_scale, b->attention_scale)) return "the scale of attention";
    if (a->scale_by_layer != b->scale_by_layer) return "scale_attn_by_inverse_layer_idx";
    if (!near(a->attention_cap, b->attention_cap) || !near(a->final_cap, b->final_cap))
        return "soft caps";
    if (a->parallel_residual != b->parallel_residual) return "use_parallel_residual";
    if (a->n_experts != b->n_experts || a->n_active != b->n_active ||
        a->expert_intermediate != b->expert_intermediate)
        return "experts";
    if (a->n_experts && a->router.normalise != b->router.normalise) return "norm_topk_prob";
    if (!same_rope(&a->rope, &b->rope) || !same_rope(&a->local_rope, &b->local_rope) ||
        !same_long(a, b))
        return "rotary frequencies";
    return layer_difference(a, b);
}
