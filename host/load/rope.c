/* rope.c - rotary frequencies as transformers' modeling_rope_utils.py computes them: every step
 * in float32, in its order. torch divides a number by a tensor as reciprocal times number, which
 * this follows. Two types depend on the length: dynamic makes new frequencies for each length
 * beyond the context, longrope has a second set beyond the original one. */
#include <math.h>
#include <string.h>

#include "load/config_keys.h"
#include "load/families.h"

static const double LARGEST = 1e30;

/* Plain powf may round otherwise on another machine; a double power rounded once does not. */
static float power(float base, float exponent)
{
    return (float)pow((double)base, (double)exponent);
}

/* How many positions dim 2i takes for a radian. */
static float wavelength(double theta, size_t i, size_t n_rotated)
{
    return power((float)theta, (float)(2 * i) / (float)n_rotated);
}

void cdz_rope_frequencies(float *inv_freq, size_t n_rotated, double theta)
{
    for (size_t i = 0; 2 * i < n_rotated; i++) inv_freq[i] = 1.0f / wavelength(theta, i, n_rotated);
}

typedef struct llama3 {
    double factor, low_factor, high_factor;
    uint32_t old_context;
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

static cdz_status read_old_context(const cdz_keys *k, const cdz_keys *config, const cdz_arch *arch,
                                   uint32_t *out)
{
    uint32_t context = arch->context;
    /* A value beside the scaling object wins over the one inside, as in standardize_rope_params. */
    CDZ_TRY(cdz_key_size(k, "original_max_position_embeddings", &context, INT32_MAX, &context));
    return cdz_key_size(config, "original_max_position_embeddings", &context, INT32_MAX, out);
}

/* --- yarn ---------------------------------------------------------------------------------- */

typedef struct yarn {
    double low, high; /* dims between which the two frequencies are blended */
    double attention_factor;
    uint32_t old_context;
} yarn;

/* The dim that turns n_turns times over the old context. */
static double correction_dim(double n_turns, double dim, double base, double old_context)
{
    const double two_pi = 2 * 3.14159265358979323846;
    return dim * log(old_context / (n_turns * two_pi)) / (2 * log(base));
}

static double mscale_of(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static cdz_status read_attention_factor(const cdz_keys *k, double factor, yarn *y)
{
    double mscale, all_dims;
    CDZ_TRY(cdz_key_real(k, "mscale", 0, 0, 1e6, &mscale));
    CDZ_TRY(cdz_key_real(k, "mscale_all_dim", 0, 0, 1e6, &all_dims));
    const double usual = mscale != 0 && all_dims != 0
                             ? mscale_of(factor, mscale) / mscale_of(factor, all_dims)
                             : mscale_of(factor, 1);
    return cdz_key_real(k, "attention_factor", usual, 1e-6, 1e6, &y->attention_factor);
}

/* _compute_yarn_parameters: where the blend begins and ends. */
static cdz_status read_yarn(const cdz_keys *k, const cdz_keys *config, const cdz_arch *arch,
                            double theta, double dim, double factor, yarn *y)
{
    double fast, slow;
    bool truncate;
    CDZ_TRY(read_attention_factor(k, factor, y));
    CDZ_TRY(cdz_key_real(k, "beta_fast", 32, 1e-6, 1e6, &fast));
    CDZ_TRY(cdz_key_real(k, "beta_slow", 1, 1e-6, 1e6, &slow));
    CDZ_TRY(cdz_key_bool(k, "truncate", true, &truncate));
    CDZ_TRY(read_old_context(k, config, arch, &y->old_context));
    const double low = correction_dim(fast, dim, theta, y->old_context);
    const double high = correction_dim(slow, dim, theta, y->old_context);
    y->low = fmax(truncate ? floor(low) : low, 0);
    y->high = fmin(truncate ? ceil(high) : high, dim - 1);
    if (y->low == y->high) y->high += 0.001;
    return CDZ_OK;
}

/* Fast dims keep their frequency, slow ones are stretched by factor. */
static float yarn_frequency(float inv_freq, size_t i, double factor, const yarn *y)
{
    float ramp = ((float)i - (float)y->low) / (float)(y->high - y->low);
    ramp = ramp < 0.0f ? 0.0f : ramp > 1.0f ? 1.0f : ramp;
    const float keep = 1.0f - ramp;
    return inv_freq / (float)factor * (1.0f - keep) + inv_freq * keep;
}

/* --- types that depend on the length -------------------------------------------------------- */

/* _compute_dynamic_ntk_parameters: the base grows with the length, a tensor there. */
static void dynamic_frequencies(float *inv_freq, const cdz_arch *a, uint32_t length)
{
    const size_t n = a->rope.n_rotated;
    const float factor = (float)a->rope_factor;
    const float stretch =
        factor * (float)length / (float)a->rope_limit - (float)(a->rope_factor - 1);
    const float exponent = (float)((double)n / ((double)n - 2));
    cdz_rope_frequencies(inv_freq, n, (double)((float)a->rope_theta * power(stretch, exponent)));
}

cdz_rope cdz_rope_at(const cdz_arch *arch, uint32_t length, float *made)
{
    cdz_rope rope = arch->rope;
    if (arch->rope_limit == 0 || length <= arch->rope_limit) return rope;
    if (!arch->long_inv_freq) dynamic_frequencies(made, arch, length);
    rope.inv_freq = arch->long_inv_freq ? arch->long_inv_freq : made;
    if (arch->long_scale != 0.0f) rope.scale = arch->long_scale;
    return rope;
}

/* _compute_longrope_parameters: a factor per pair of dims, from the list called key. */
static cdz_status stretched(const cdz_keys *k, const char *key, size_t n_rotated, double theta,
                            cdz_arena *arena, const float **out)
{
    const cdz_json *list = cdz_key(k, key);
    if (!cdz_json_is(list, CDZ_JSON_ARRAY) || list->len != n_rotated / 2)
        return cdz_err(k->err, CDZ_E_INPUT, "%s: %s%s must be an array of %zu numbers", k->path,
                       k->prefix, key, n_rotated / 2);
    float *inv_freq = cdz_arena_array(arena, n_rotated / 2 + 1, sizeof *inv_freq);
    if (!inv_freq) return cdz_err_memory_in(k->err, k->path);
    for (size_t i = 0; i < n_rotated / 2; i++) {
        double factor;
        if (!cdz_json_number(&list->items[i], &factor) || !(factor >= 1e-6 && factor <= 1e6))
            return cdz_err(k->err, CDZ_E_INPUT, "%s: %s%s[%zu] must be a number from 1e-6 to 1e6",
                           k->path, k->prefix, key, i);
        inv_freq[i] = 1.0f / ((float)factor * wavelength(theta, i, n_rotated));
    }
    *out = inv_freq;
    return CDZ_OK;
}

/* --- the description ----------------------------------------------------------------------- */

static cdz_status read_llama3(const cdz_keys *k, const cdz_keys *config, const cdz_arch *arch,
                              double factor, llama3 *p)
{
    p->factor = factor;
    CDZ_TRY(cdz_key_real(k, "low_freq_factor", NAN, 1e-6, 1e6, &p->low_factor));
    CDZ_TRY(cdz_key_real(k, "high_freq_factor", NAN, 1e-6, 1e6, &p->high_factor));
    CDZ_TRY(read_old_context(k, config, arch, &p->old_context));
    if (p->high_factor <= p->low_factor)
        return cdz_err(k->err, CDZ_E_INPUT,
                       "%s: %shigh_freq_factor %g must be larger than low_freq_factor %g", k->path,
                       k->prefix, p->high_factor, p->low_factor);
    return CDZ_OK;
}

static const char *const type_names[] = {
    [CDZ_ROPE_DEFAULT] = "default", [CDZ_ROPE_LINEAR] = "linear",
    [CDZ_ROPE_LLAMA3] = "llama3",   [CDZ_ROPE_YARN] = "yarn",
    [CDZ_ROPE_DYNAMIC] = "dynamic", [CDZ_ROPE_LONGROPE] = "longrope"};

/* rope_type, or type in older files; "default" when neither is there. */
static cdz_status read_type(const cdz_keys *k, bool only_longrope, cdz_rope_type *out)
{
    const char *key = cdz_key(k, "rope_type") ? "rope_type" : "type";
    const cdz_json *type = cdz_key(k, key);
    *out = CDZ_ROPE_DEFAULT;
    if (!type) return CDZ_OK;
    if (cdz_json_eq(type, "su") || (only_longrope && cdz_json_eq(type, "yarn"))) {
        *out = CDZ_ROPE_LONGROPE;
        return CDZ_OK;
    }
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++) {
        if (!cdz_json_eq(type, type_names[i])) continue;
        *out = (cdz_rope_type)i;
        return CDZ_OK;
    }
    return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                   "%s: %s%s %s%.40s%s is not supported; supported are default, linear, llama3, "
                   "yarn, dynamic, longrope",
                   k->path, k->prefix, key, type->type == CDZ_JSON_STRING ? "\"" : "",
                   type->type == CDZ_JSON_STRING ? type->string : cdz_json_type_name(type),
                   type->type == CDZ_JSON_STRING ? "\"" : "");
}

/* The object that describes the rotation: rope_scaling (old) wins over rope_parameters (new); an
 * empty one if neither. */
static cdz_status open_keys(const cdz_keys *config, const cdz_json *empty, cdz_keys *out)
{
    const cdz_json *old = cdz_key(config, "rope_scaling"), *new = cdz_key(config, "rope_parameters");
    const bool use_old = old && !(old->type == CDZ_JSON_OBJECT && old->len == 0);
    const cdz_json *object = use_old ? old : new;
    *out = *config;
    out->object = object ? object : empty;
    out->prefix = use_old ? "rope_scaling." : "rope_parameters.";
    if (!cdz_json_is(out->object, CDZ_JSON_OBJECT))
        return cdz_err(config->err, CDZ_E_INPUT, "%s:%u: %s is %s, expected an object",
                       config->path, (unsigned)out->object->line,
                       use_old ? "rope_scaling" : "rope_parameters", cdz_json_type_name(object));
    return CDZ_OK;
}

/* How much of a head rotates. Where the family has no such key, transformers ignores it with the
 * default type and cannot run the model otherwise. The description's own value wins over one at the
 * top of config.json; rotary_pct, GPT-NeoX's name for it, wins over both. */
static cdz_status read_partial(const cdz_keys *k, const cdz_keys *config, const cdz_arch *arch,
                               cdz_rope_type type, double *partial)
{
    const double usual = arch->family->partial_rotary;
    const double otherwise = usual != 0 ? usual : 1;
    CDZ_TRY(cdz_key_real(config, "partial_rotary_factor", otherwise, 0, 1, partial));
    CDZ_TRY(cdz_key_real(k, "partial_rotary_factor", *partial, 0, 1, partial));
    CDZ_TRY(cdz_key_real(config, "rotary_pct", *partial, 0, 1, partial));
    if (usual != 0) return CDZ_OK;
    if (*partial != 1 && type != CDZ_ROPE_DEFAULT)
        return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                       "%s: partial_rotary_factor %g is not supported for %s", k->path, *partial,
                       arch->model_type);
    *partial = 1;
    return CDZ_OK;
}

/* A rotation as read: the type, its numbers, the frequencies. */
typedef struct rotation {
    cdz_rope_type type;
    double theta, factor;
    cdz_rope rope;
    uint32_t limit, old_context; /* as cdz_arch.rope_limit and its rope_old_context */
    const float *long_inv_freq;
    float long_scale;
} rotation;

static cdz_status read_longrope(const cdz_keys *k, const cdz_keys *config, cdz_arena *arena,
                                const cdz_arch *arch, rotation *r)
{
    double scale;
    CDZ_TRY(read_old_context(k, config, arch, &r->limit));
    if (r->limit < 2)
        return cdz_err(k->err, CDZ_E_INPUT,
                       "%s: original_max_position_embeddings 1 leaves no room for longrope",
                       k->path);
    r->old_context = r->limit;
    CDZ_TRY(cdz_key_real(k, "factor", (double)arch->context / r->limit, 1e-6, 1e6, &r->factor));
    const double usual = r->factor <= 1 ? 1 : sqrt(1 + log(r->factor) / log(r->limit));
    if (arch->family->mscales) {
        double long_scale;
        CDZ_TRY(cdz_key_real(k, "short_mscale", NAN, 1e-6, 1e6, &scale));
        CDZ_TRY(cdz_key_real(k, "long_mscale", NAN, 1e-6, 1e6, &long_scale));
        r->long_scale = (float)long_scale;
    } else {
        CDZ_TRY(cdz_key_real(k, "attention_factor", usual, 1e-6, 1e6, &scale));
    }
    r->rope.scale = (float)scale;
    CDZ_TRY(stretched(k, "short_factor", r->rope.n_rotated, r->theta, arena, &r->rope.inv_freq));
    return stretched(k, "long_factor", r->rope.n_rotated, r->theta, arena, &r->long_inv_freq);
}

static cdz_status make_frequencies(const cdz_keys *k, const cdz_keys *config, cdz_arena *arena,
                                   const cdz_arch *arch, rotation *r)
{
    const size_t n = r->rope.n_rotated;
    if (r->type == CDZ_ROPE_LONGROPE) return read_longrope(k, config, arena, arch, r);
    if (r->type == CDZ_ROPE_DYNAMIC) r->limit = arch->context;
    if (r->limit && n <= 2)
        return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                       "%s: %zu dims of a head rotate; the dynamic type needs more than 2", k->path,
                       n);
    llama3 p = {0};
    yarn y = {.attention_factor = 1};
    if (r->type == CDZ_ROPE_LLAMA3) CDZ_TRY(read_llama3(k, config, arch, r->factor, &p));
    if (r->type == CDZ_ROPE_YARN)
        CDZ_TRY(read_yarn(k, config, arch, r->theta, (double)n, r->factor, &y));
    r->old_context = r->type == CDZ_ROPE_YARN ? y.old_context : p.old_context;
    float *inv_freq = cdz_arena_array(arena, n / 2 + 1, sizeof *inv_freq);
    if (!inv_freq) return cdz_err_memory_in(config->err, config->path);
    cdz_rope_frequencies(inv_freq, n, r->theta);
    for (size_t i = 0; i < n / 2; i++) {
        if (r->type == CDZ_ROPE_LINEAR) inv_freq[i] /= (float)r->factor;
        if (r->type == CDZ_ROPE_LLAMA3) inv_freq[i] = llama3_frequency(inv_freq[i], &p);
        if (r->type == CDZ_ROPE_YARN) inv_freq[i] = yarn_frequency(inv_freq[i], i, r->factor, &y);
        if (!isfinite(inv_freq[i]))
            return cdz_err(k->err, CDZ_E_INPUT,
                           "%s: rope_theta %g gives %srope_type %s the frequency %g, expected "
                           "finite ones",
                           k->path, r->theta, k->prefix, type_names[r->type], (double)inv_freq[i]);
    }
    r->rope.inv_freq = inv_freq;
    r->rope.scale = (float)y.attention_factor;
    return CDZ_OK;
}

/* HunYuanDenseV1RotaryEmbedding: with alpha, "dynamic" is the default type with a larger theta, whatever the length. */
static cdz_status read_alpha(const cdz_keys *k, const cdz_arch *arch, rotation *r)
{
    double alpha;
    CDZ_TRY(cdz_key_real(k, "alpha", 0, 0, 1e9, &alpha));
    if (r->type != CDZ_ROPE_DYNAMIC || alpha == 0) return CDZ_OK;
    if (arch->head_dim <= 2)
        return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                       "%s: head_dim %u; %salpha needs one of more than 2", k->path,
                       (unsigned)arch->head_dim, k->prefix);
    r->type = CDZ_ROPE_DEFAULT;
    r->theta *= pow(alpha, (double)arch->head_dim / (double)(arch->head_dim - 2));
    return CDZ_OK;
}

/* GPT-J's: so many dims of a head; all where it is null. */
static cdz_status read_rotary_dim(const cdz_keys *config, const cdz_arch *arch, rotation *r)
{
    uint32_t n = arch->family->rotary_dim;
    if (cdz_key_is_null(config, "rotary_dim")) n = arch->head_dim;
    CDZ_TRY(cdz_key_size(config, "rotary_dim", &n, arch->head_dim, &n));
    r->rope.n_rotated = n;
    if (n <= arch->head_dim) return CDZ_OK;
    return cdz_err(config->err, CDZ_E_INPUT, "%s: rotary_dim %u is more than the %u dims of a head",
                   config->path, (unsigned)n, (unsigned)arch->head_dim);
}

/* k describes the rotation; theta is what it is unless k says so. */
static cdz_status read_rotation(const cdz_keys *k, const cdz_keys *config, cdz_arena *arena,
                                const cdz_arch *arch, double theta, rotation *r)
{
    double partial;
    CDZ_TRY(read_type(k, arch->family->only_longrope, &r->type));
    CDZ_TRY(read_partial(k, config, arch, r->type, &partial));
    CDZ_TRY(cdz_key_real(k, "rope_theta", theta, 1e-3, LARGEST, &r->theta));
    if (arch->family->rope_alpha) CDZ_TRY(read_alpha(k, arch, r));
    r->rope.interleaved = arch->family->interleaved;
    r->factor = 1;
    if (arch->family->mscales && r->type != CDZ_ROPE_DEFAULT && r->type != CDZ_ROPE_LONGROPE)
        return cdz_err(k->err, CDZ_E_UNSUPPORTED, "%s: %srope_type %s is not supported for %s",
                       k->path, k->prefix, type_names[r->type], arch->model_type);
    if (r->type != CDZ_ROPE_DEFAULT && r->type != CDZ_ROPE_LONGROPE)
        CDZ_TRY(cdz_key_real(k, "factor", NAN, 1e-6, 1e6, &r->factor));
    if (arch->family->rope_interleave)
        CDZ_TRY(cdz_key_bool(config, "rope_interleave", true, &r->rope.interleaved));
    r->rope.n_rotated = (size_t)((double)arch->head_dim * partial);
    if (arch->latent.kv_rank) r->rope.n_rotated = arch->latent.rotated;
    if (arch->family->rotary_dim) CDZ_TRY(read_rotary_dim(config, arch, r));
    if (r->rope.n_rotated % 2)
        return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                       "%s: %zu dims of a head rotate; rotary positions need an even number",
                       k->path, r->rope.n_rotated);
    return make_frequencies(k, config, arena, arch, r);
}

/* A description per kind of layer, in new files; *k becomes the one of that name, or stays. */
static void pick_layer_type(cdz_keys *k, const char *name)
{
    const cdz_json *object = cdz_json_get(k->object, name);
    if (cdz_json_is(object, CDZ_JSON_OBJECT)) k->object = object;
}

/* Layers with a window have their own, plain rotation. */
static cdz_status read_local(const cdz_keys *described, const cdz_keys *config,
                             const cdz_json *empty, cdz_arena *arena, cdz_arch *arch)
{
    double theta;
    cdz_keys keys = *described;
    rotation r = {0};
    CDZ_TRY(cdz_key_real(config, "rope_local_base_freq", 10000.0, 1e-3, LARGEST, &theta));
    keys.object = empty;
    const cdz_json *object = cdz_json_get(described->object, "sliding_attention");
    if (cdz_json_is(object, CDZ_JSON_OBJECT)) keys.object = object;
    CDZ_TRY(read_rotation(&keys, config, arena, arch, theta, &r));
    if (r.limit)
        return cdz_err(config->err, CDZ_E_UNSUPPORTED,
                       "%s: layers with a window have a rotation that depends on the length, which "
                       "is not supported",
                       config->path);
    arch->local_rope = r.rope;
    return CDZ_OK;
}

/* Ministral3's queries, which grow in every layer; without the key they do not. */
static cdz_status read_beta(const cdz_keys *k, const cdz_keys *config, cdz_arch *arch)
{
    double by;
    uint32_t every;
    if (!arch->family->temper_beta || !cdz_key(k, "llama_4_scaling_beta")) return CDZ_OK;
    CDZ_TRY(cdz_key_real(k, "llama_4_scaling_beta", 0, 0, 1e6, &by));
    CDZ_TRY(read_old_context(k, config, arch, &every));
    arch->temper = (cdz_temper){by, every, 0, false};
    return CDZ_OK;
}

/* Latent attention over a stretched context: mscale_all_dim is in the scores, squared. */
static cdz_status scale_latent(const cdz_keys *k, const rotation *r, cdz_arch *arch)
{
    double all_dims;
    if (arch->latent.kv_rank == 0 || r->type == CDZ_ROPE_DEFAULT) return CDZ_OK;
    CDZ_TRY(cdz_key_real(k, "mscale_all_dim", 0, 0, 1e6, &all_dims));
    if (all_dims == 0) return CDZ_OK;
    const double m = mscale_of(r->factor, all_dims),
                 width = arch->latent.plain + arch->latent.rotated;
    arch->attention_scale = (float)(m * m / sqrt(width));
    return CDZ_OK;
}

cdz_status cdz_rope_read(const cdz_keys *config, cdz_arena *arena, cdz_arch *arch)
{
    const cdz_json empty = {.type = CDZ_JSON_OBJECT};
    const double usual = arch->family->theta != 0 ? arch->family->theta : 10000.0;
    cdz_keys keys, *k = &keys;
    rotation r = {0};
    double theta;
    arch->rope_factor = 1;
    CDZ_TRY(open_keys(config, &empty, k));
    CDZ_TRY(cdz_key_real(config, "rotary_emb_base", usual, 1e-3, LARGEST, &theta));
    CDZ_TRY(cdz_key_real(config, "rope_theta", theta, 1e-3, LARGEST, &theta));
    if (arch->family->local_rope) {
        CDZ_TRY(read_local(k, config, &empty, arena, arch));
        pick_layer_type(k, "full_attention");
    }
    CDZ_TRY(read_rotation(k, config, arena, arch, theta, &r));
    CDZ_TRY(read_beta(k, config, arch));
    CDZ_TRY(scale_latent(k, &r, arch));
    arch->rope_type = r.type;
    arch->rope_theta = r.theta;
    arch->rope_factor = r.factor;
    arch->rope = r.rope;
    arch->rope_limit = r.limit;
    arch->rope_old_context = r.old_context;
    if (r.type == CDZ_ROPE_DYNAMIC && r.factor > 1)
        arch->context = (uint32_t)fmin((double)r.limit * r.factor, INT32_MAX);
    arch->long_inv_freq = r.long_inv_freq;
    arch->long_scale = r.long_scale;
    return CDZ_OK;
}
