/* config_keys.h - reading keys of a JSON object with a range and a sentence. null counts as
 * absent. */
#ifndef CDZ_HOST_LOAD_CONFIG_KEYS_H
#define CDZ_HOST_LOAD_CONFIG_KEYS_H

#include "load/arch.h"

/* What a family also calls a key. */
typedef struct cdz_key_alias {
    const char *key, *other;
} cdz_key_alias;

typedef struct cdz_keys {
    const cdz_json *object;
    const char *path;      /* the file, for sentences */
    const char *prefix;    /* of key names in sentences: "rope_scaling."; NULL: none */
    const cdz_json *whole; /* what `object` is the text part of; NULL: none */
    const struct cdz_key_alias *aliases; /* other spellings, which win; ends with a key of NULL; or NULL */
    cdz_error *err;
} cdz_keys;

/* The value, or NULL when absent or null. */
const cdz_json *cdz_key(const cdz_keys *keys, const char *key);
bool cdz_key_is_null(const cdz_keys *keys, const char *key); /* there, and null */

/* An integer in [1, max]. fallback NULL: the key is required. */
cdz_status cdz_key_size(const cdz_keys *keys, const char *key, const uint32_t *fallback,
                        uint32_t max, uint32_t *out);
/* An integer in [0, max]. */
cdz_status cdz_key_count(const cdz_keys *keys, const char *key, uint32_t fallback, uint32_t max,
                         uint32_t *out);
/* A number in [min, max]; fallback NaN: the key is required. */
cdz_status cdz_key_real(const cdz_keys *keys, const char *key, double fallback, double min,
                        double max, double *out);
cdz_status cdz_key_bool(const cdz_keys *keys, const char *key, bool fallback, bool *out);

/* The activation that a string names; NULL: the usual one. key: for sentences. */
cdz_status cdz_arch_read_activation(const cdz_keys *keys, const char *key, const cdz_json *given,
                                    const char *usual, cdz_activation *out);

/* pair.c: which name maps an encoder-decoder pair has; and what only stacks of a pair have. The
 * decoder is read after its encoder. */
cdz_status cdz_pair_names(const cdz_keys *config, cdz_arch *decoder, cdz_arch *encoder);
cdz_status cdz_pair_read(const cdz_keys *config, cdz_arch *arch);

/* quant_keys.c: quantization_config: what is not supported is refused; weight_block_size. */
cdz_status cdz_arch_read_quantised(const cdz_keys *config, cdz_arch *arch);

/* recurrent.c: how many layers a list of their kinds names; then which mixers layers have, and the recurrent one's sizes. */
cdz_status cdz_recurrent_count(const cdz_keys *config, const cdz_arch *arch, uint32_t *n_layers);
cdz_status cdz_recurrent_read(const cdz_keys *config, cdz_arena *arena, cdz_arch *arch);

/* mixture.c: experts, once sizes and layers are known. */
cdz_status cdz_experts_read(const cdz_keys *config, cdz_arena *arena, cdz_arch *arch);

/* altup.c: gemma3n's rows of several streams, once windows are known; a list of widths that are all one. */
cdz_status cdz_arch_read_streams(const cdz_keys *config, cdz_arena *arena, cdz_arch *arch);
cdz_status cdz_arch_read_inner_list(const cdz_keys *config, const char *key, cdz_arch *arch);

/* attention_keys.c: falcon's keys of how a layer is laid, once n_heads and n_kv_heads are known; what MPT has in attn_config;
 * ALiBi's slopes. */
cdz_status cdz_arch_read_layout(const cdz_keys *config, cdz_arch *arch);
cdz_status cdz_arch_read_attn_config(const cdz_keys *config, cdz_arch *arch);
cdz_status cdz_arch_make_slopes(const cdz_keys *config, cdz_arena *arena, cdz_arch *arch);

/* rope.c: the rotary part of config.json, once head_dim and context are known. */
cdz_status cdz_rope_read(const cdz_keys *config, cdz_arena *arena, cdz_arch *arch);

#endif
