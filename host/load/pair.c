/* pair.c - what config.json says of encoder-decoder pairs only: which names their tensors have, how
 * positions are told, what is scaled. Keys and defaults as in transformers' T5Config, BartConfig,
 * MarianConfig and those of their relatives. */
#include <math.h>
#include <string.h>

#include "load/config_keys.h"
#include "load/families.h"

enum { MAX_BUCKETS = 1 << 16 };

static const char gate_prefix[] = "gated-";

/* feed_forward_proj: "relu", or "gated-gelu", which stands for gelu_new. What the derived keys
 * say wins, as there. */
static cdz_status read_gate(const cdz_keys *k, const char *usual, bool *gated)
{
    const cdz_json *given = cdz_key(k, "feed_forward_proj");
    const char *proj = cdz_json_is(given, CDZ_JSON_STRING) ? given->string : usual;
    *gated = proj && strncmp(proj, gate_prefix, sizeof gate_prefix - 1) == 0;
    return cdz_key_bool(k, "is_gated_act", *gated, gated);
}

static cdz_status read_t5_activation(const cdz_keys *k, cdz_arch *a)
{
    const char *key = "dense_act_fn";
    const cdz_json *given = cdz_key(k, key), *proj = cdz_key(k, "feed_forward_proj");
    const char *usual = a->family->activation ? a->family->activation : "relu";
    if (!given) {
        key = "feed_forward_proj";
        if (proj && proj->type != CDZ_JSON_STRING)
            return cdz_arch_read_activation(k, key, proj, usual, &a->activation);
        if (proj) usual = proj->string;
        if (strcmp(usual, "gated-gelu") == 0)
            usual = "gelu_new";
        else if (strncmp(usual, gate_prefix, sizeof gate_prefix - 1) == 0)
            usual += sizeof gate_prefix - 1;
    }
    return cdz_arch_read_activation(k, key, given, usual, &a->activation);
}

cdz_status cdz_pair_names(const cdz_keys *config, cdz_arch *decoder, cdz_arch *encoder)
{
    const cdz_family *f = decoder->family;
    bool other = false;
    if (f->t5_rules) CDZ_TRY(read_gate(config, f->activation, &other));
    if (f->may_share_embed) {
        bool shared;
        CDZ_TRY(cdz_key_bool(config, "share_encoder_decoder_embeddings", true, &shared));
        other = !shared;
    }
    decoder->names = other ? f->other_names : f->names;
    encoder->names = other ? f->other_encoder_names : f->encoder_names;
    return CDZ_OK;
}

/* The output of a t5 decoder is scaled where the head was tied in the original release. */
static cdz_status read_head_scale(const cdz_keys *k, cdz_arch *a)
{
    const cdz_t5_rules rule = a->family->t5_rules;
    bool tied, scaled = rule == CDZ_T5_SCALED;
    CDZ_TRY(cdz_key_bool(k, "tie_word_embeddings", true, &tied));
    if (rule == CDZ_T5_SCALED_BY_KEY)
        CDZ_TRY(cdz_key_bool(k, "scale_decoder_outputs", tied, &scaled));
    if (scaled) a->head_scale = (float)pow((double)a->hidden, -0.5);
    a->tied = true;
    return CDZ_OK;
}

static cdz_status read_relative(const cdz_keys *k, cdz_arch *a)
{
    const uint32_t buckets = 32, distance = 128;
    CDZ_TRY(cdz_key_size(k, "relative_attention_num_buckets", &buckets, MAX_BUCKETS, &a->buckets.n));
    CDZ_TRY(cdz_key_size(k, "relative_attention_max_distance", &distance, INT32_MAX,
                         &a->buckets.distance));
    /* An encoder has half of them for each direction; half of those are one distance each. */
    if (a->buckets.n % 4 || a->buckets.distance <= a->buckets.n / 2)
        return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                       "%s: relative_attention_num_buckets %u with relative_attention_max_distance "
                       "%u is not supported; expected a multiple of 4, and more than half of it",
                       k->path, (unsigned)a->buckets.n, (unsigned)a->buckets.distance);
    return CDZ_OK;
}

/* Positions are numbered from the row after that of padding. */
static cdz_status read_padding(const cdz_keys *k, cdz_arch *a)
{
    uint32_t padding;
    if (a->hidden % 2 || a->hidden < 4)
        return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                       "%s: d_model %u is not supported for %s; expected an even number from 4 on",
                       k->path, (unsigned)a->hidden, a->model_type);
    CDZ_TRY(cdz_key_count(k, "pad_token_id", 1, a->n_vocab - 1, &padding));
    a->placing.offset = padding + 1;
    a->placing.unplaced = (int32_t)padding;
    return CDZ_OK;
}

cdz_status cdz_pair_read(const cdz_keys *k, cdz_arch *a)
{
    const cdz_family *f = a->family;
    a->hidden_count = f->hidden_count;
    if (f->relative) CDZ_TRY(read_relative(k, a));
    if (f->t5_rules) {
        CDZ_TRY(read_t5_activation(k, a));
        CDZ_TRY(read_head_scale(k, a));
    }
    bool scaled = false;
    if (f->scale_rule)
        CDZ_TRY(cdz_key_bool(k, "scale_embedding", f->scale_rule == CDZ_SCALE_UNLESS_SAID, &scaled));
    /* transformers does not scale where the norm comes next, which would undo it but for its epsilon. */
    if (scaled && !a->placing.after_norm) a->embed_scale = (float)sqrt((double)a->hidden);
    return f->sines == CDZ_SINES_TO_THE_END ? read_padding(k, a) : CDZ_OK;
}
