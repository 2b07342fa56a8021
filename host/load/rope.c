/* rope.c - rotary frequencies as transformers' modeling_rope_utils.py computes them: every step
 * in float32, in its order. torch divides a number by a tensor as reciprocal times number, which
 * this follows. */
#include <math.h>
#include <string.h>

#include "load/config_keys.h"

static const double LARGEST = 1e30;

/* Plain powf may round otherwise on another machine; a double power rounded once does not. */
void cdz_rope_frequencies(float *inv_freq, size_t n_rotated, double theta)
{
    const float base = (float)theta;
    for (size_t i = 0; 2 * i < n_rotated; i++) {
        const float exponent = (float)(2 * i) / (float)n_rotated;
        inv_freq[i] = 1.0f / (float)pow((double)base, (double)exponent);
    }
}

typedef struct llama3 {
    double factor, low_factor, high_factor, old_context;
} llama3;

/* _compute_llama3_parameters: long waves are stretched by factor, short ones kept, those between
 * blended. */
static float llama3_frequency(float inv_freq, const llama3 *p)
{
    const double two_pi = 2 * 3.14159265358979323846;
    const float low_wave = (float)(p->old_context / p->low_factor);
    const float high_wave = (float)(p->old_context / p->high_factor);
    const float factor = (float)p->factor;
    const float wave = (1.0f / inv_freq) * (float)two_pi;
    if (wave > low_wave) return inv_freq / factor;
    if (wave < high_wave) return inv_freq;
    const float smooth = ((1.0f / wave) * (float)p->old_context - (float)p->low_factor) /
                         (float)(p->high_factor - p->low_factor);
    return (1.0f - smooth) * inv_freq / factor + smooth * inv_freq;
}

static cdz_status read_llama3(const cdz_keys *k, const cdz_keys *config, const cdz_arch *arch,
                              llama3 *p)
{
    uint32_t old_context = arch->context;
    p->factor = arch->rope_factor;
    CDZ_TRY(cdz_key_real(k, "low_freq_factor", NAN, 1e-6, 1e6, &p->low_factor));
    CDZ_TRY(cdz_key_real(k, "high_freq_factor", NAN, 1e-6, 1e6, &p->high_factor));
    /* A value beside the scaling object wins over the one inside, as in standardize_rope_params. */
    CDZ_TRY(
        cdz_key_size(k, "original_max_position_embeddings", &old_context, INT32_MAX, &old_context));
    CDZ_TRY(cdz_key_size(config, "original_max_position_embeddings", &old_context, INT32_MAX,
                         &old_context));
    p->old_context = old_context;
    if (p->high_factor <= p->low_factor)
        return cdz_err(k->err, CDZ_E_INPUT,
                       "%s: %shigh_freq_factor %g must be larger than low_freq_factor %g", k->path,
                       k->prefix, p->high_factor, p->low_factor);
    return CDZ_OK;
}

/* rope_type, or type in older files; "default" when neither is there. */
static cdz_status read_type(const cdz_keys *k, cdz_rope_type *out)
{
    static const char *const names[] = {"default", "linear", "llama3"};
    const char *key = cdz_key(k, "rope_type") ? "rope_type" : "type";
    const cdz_json *type = cdz_key(k, key);
    *out = CDZ_ROPE_DEFAULT;
    if (!type) return CDZ_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!cdz_json_eq(type, names[i])) continue;
        *out = (cdz_rope_type)i;
        return CDZ_OK;
    }
    return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                   "%s: %s%s %s%.40s%s is not supported; supported are default, linear, llama3",
                   k->path, k->prefix, key, type->type == CDZ_JSON_STRING ? "\"" : "",
                   type->type == CDZ_JSON_STRING ? type->string : cdz_json_type_name(type),
                   type->type == CDZ_JSON_STRING ? "\"" : "");
}

/* The object that describes the rotation: rope_scaling (old) wins over rope_parameters (new); an
 * empty one if neither. */
static cdz_status open_keys(const cdz_keys *config, const cdz_json *empty, cdz_keys *out)
{
    const cdz_json *old = cdz_key(config, "rope_scaling"),
                   *new = cdz_key(config, "rope_parameters");
    const bool use_old = old && !(old->type == CDZ_JSON_OBJECT && old->len == 0);
    const cdz_json *object = use_old ? old : new;
    *out = *config;
    out->object = object ? object : empty;
    out->prefix = use_old ? "rope_scaling." : "rope_parameters.";
    if (!cdz_json_is(out->object, CDZ_JSON_OBJECT))
        return cdz_err(config->err, CDZ_E_INPUT, "%s:%u: %s is %s, expected an object",
                       config->path, (unsigned)object->line,
                       use_old ? "rope_scaling" : "rope_parameters", cdz_json_type_name(object));
    return CDZ_OK;
}

/* Part of a head rotates in no family here: transformers ignores the key where the type is
 * default and cannot run the model otherwise. */
static cdz_status refuse_partial(const cdz_keys *k, const cdz_keys *config, const cdz_arch *arch)
{
    double partial;
    CDZ_TRY(cdz_key_real(config, "partial_rotary_factor", 1, 0, 1, &partial));
    CDZ_TRY(cdz_key_real(k, "partial_rotary_factor", partial, 0, 1, &partial));
    if (partial != 1 && arch->rope_type != CDZ_ROPE_DEFAULT)
        return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                       "%s: partial_rotary_factor %g is not supported for %s", k->path, partial,
                       arch->model_type);
    return CDZ_OK;
}

cdz_status cdz_rope_read(const cdz_keys *config, cdz_arena *arena, cdz_arch *arch)
{
    const cdz_json empty = {.type = CDZ_JSON_OBJECT};
    cdz_keys keys, *k = &keys;
    llama3 p;
    CDZ_TRY(open_keys(config, &empty, k));
    CDZ_TRY(read_type(k, &arch->rope_type));
    CDZ_TRY(refuse_partial(k, config, arch));
    CDZ_TRY(cdz_key_real(config, "rope_theta", 10000.0, 1e-3, LARGEST, &arch->rope_theta));
    CDZ_TRY(cdz_key_real(k, "rope_theta", arch->rope_theta, 1e-3, LARGEST, &arch->rope_theta));
    arch->rope_factor = 1;
    if (arch->rope_type != CDZ_ROPE_DEFAULT)
        CDZ_TRY(cdz_key_real(k, "factor", NAN, 1e-6, 1e6, &arch->rope_factor));
    if (arch->rope_type == CDZ_ROPE_LLAMA3) CDZ_TRY(read_llama3(k, config, arch, &p));

    float *inv_freq = cdz_arena_array(arena, arch->head_dim / 2, sizeof *inv_freq);
    if (!inv_freq) return cdz_err(config->err, CDZ_E_NOMEM, "%s: out of memory", config->path);
    cdz_rope_frequencies(inv_freq, arch->head_dim, arch->rope_theta);
    for (size_t i = 0; i < arch->head_dim / 2; i++) {
        if (arch->rope_type == CDZ_ROPE_LINEAR) inv_freq[i] /= (float)arch->rope_factor;
        if (arch->rope_type == CDZ_ROPE_LLAMA3) inv_freq[i] = llama3_frequency(inv_freq[i], &p);
    }
    arch->rope = (cdz_rope){.inv_freq = inv_freq, .n_rotated = arch->head_dim, .scale = 1.0f};
    return CDZ_OK;
}
