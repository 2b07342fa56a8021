/* attention_keys.c - what some config.json's say of attention in keys of their own: how falcon's heads and norms are laid, the object
 * attn_config of MPT, and the slopes of ALiBi, which follow from the number of heads. */
#include <math.h>

#include "load/config_keys.h"
#include "load/families.h"

static cdz_status refuse(const cdz_keys *k, const char *key, const char *value)
{
    return cdz_err(k->err, CDZ_E_UNSUPPORTED, "%s: %s%s %s is not supported", k->path,
                   k->prefix ? k->prefix : "", key, value);
}

/* --- falcon -------------------------------------------------------------------------------- */

/* Newer ones have as many keys as they say and two norms unless told otherwise; older ones one key for all heads, or one each. */
cdz_status cdz_arch_read_layout(const cdz_keys *k, cdz_arch *a)
{
    const char *norms_key = "num_ln_in_parallel_attn";
    bool newer, one_key, parallel, alibi;
    uint32_t norms;
    CDZ_TRY(cdz_key_bool(k, "new_decoder_architecture", false, &newer));
    CDZ_TRY(cdz_key_bool(k, "multi_query", true, &one_key));
    CDZ_TRY(cdz_key_bool(k, "parallel_attn", true, &parallel));
    CDZ_TRY(cdz_key_bool(k, "alibi", false, &alibi));
    const uint32_t usual = newer ? 2 : 1;
    CDZ_TRY(cdz_key_size(k, norms_key, &usual, 2, &norms));
    if (alibi) return refuse(k, "alibi", "true");
    if (newer && !parallel)
        return refuse(k, "parallel_attn", "false with new_decoder_architecture");
    if (!newer && norms == 2) return refuse(k, norms_key, "2 without new_decoder_architecture");
    if (!newer) a->n_kv_heads = one_key ? 1 : a->n_heads;
    a->parallel_residual = parallel;
    a->one_norm = parallel && norms == 1;
    if (norms == 2) a->names = a->family->other_names;
    return CDZ_OK;
}

/* --- MPT ----------------------------------------------------------------------------------- */

/* transformers takes no notice of the modes that are refused, and computes another function than the model was made for. */
static cdz_status refuse_mpt_modes(const cdz_keys *k)
{
    const uint32_t usual = 8;
    bool alibi, normed, prefixed;
    uint32_t most;
    const cdz_json *type = cdz_key(k, "attn_type");
    CDZ_TRY(cdz_key_bool(k, "alibi", true, &alibi));
    CDZ_TRY(cdz_key_bool(k, "qk_ln", false, &normed));
    CDZ_TRY(cdz_key_bool(k, "prefix_lm", false, &prefixed));
    CDZ_TRY(cdz_key_size(k, "alibi_bias_max", &usual, 1 << 20, &most));
    if (!alibi) return refuse(k, "alibi", "false");
    if (normed) return refuse(k, "qk_ln", "true");
    if (prefixed) return refuse(k, "prefix_lm", "true");
    if (most != usual) return refuse(k, "alibi_bias_max", "other than 8");
    if (type && !cdz_json_eq(type, "multihead_attention"))
        return refuse(k, "attn_type", "other than multihead_attention");
    return cdz_key(k, "clip_qkv") ? refuse(k, "clip_qkv", "other than null") : CDZ_OK;
}

cdz_status cdz_arch_read_attn_config(const cdz_keys *config, cdz_arch *a)
{
    const cdz_json *object = cdz_key(config, "attn_config");
    cdz_keys k = {
        .object = object, .path = config->path, .prefix = "attn_config.", .err = config->err};
    double scale;
    if (cdz_key(config, "logit_scale")) return refuse(config, "logit_scale", "other than null");
    a->hidden_count = true; /* distances count hidden tokens */
    if (!object) return CDZ_OK;
    if (object->type != CDZ_JSON_OBJECT)
        return cdz_err(k.err, CDZ_E_INPUT, "%s:%u: attn_config is %s, expected an object", k.path,
                       (unsigned)object->line, cdz_json_type_name(object));
    CDZ_TRY(refuse_mpt_modes(&k));
    CDZ_TRY(cdz_key_real(&k, "softmax_scale", (double)a->attention_scale, 1e-9, 1e9, &scale));
    a->attention_scale = (float)scale;
    return CDZ_OK;
}

/* --- ALiBi --------------------------------------------------------------------------------- */

/* Powers of 2^(-8/n) for the largest power of two n that there are heads for; the rest has the odd powers of its root. */
cdz_status cdz_arch_make_slopes(const cdz_keys *k, cdz_arena *arena, cdz_arch *a)
{
    float *slopes = cdz_arena_array(arena, a->n_heads, sizeof *slopes);
    uint32_t n = 1;
    if (!slopes) return cdz_err_memory_in(k->err, k->path);
    while (n <= a->n_heads / 2) n *= 2;
    const double base = (float)exp2(-8.0 / n), root = (float)exp2(-4.0 / n);
    for (uint32_t h = 0; h < a->n_heads; h++)
        slopes[h] = (float)(h < n ? pow(base, h + 1.0) : pow(root, 2.0 * (h - n) + 1));
    a->slopes = slopes;
    return CDZ_OK;
}
