/* config_keys.h - reading keys of a JSON object with a range and a sentence. null counts as
 * absent. */
#ifndef CDZ_HOST_LOAD_CONFIG_KEYS_H
#define CDZ_HOST_LOAD_CONFIG_KEYS_H

#include "load/arch.h"

typedef struct cdz_keys {
    const cdz_json *object;
    const char *path;   /* the file, for sentences */
    const char *prefix; /* of key names in sentences: "rope_scaling."; NULL: none */
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

/* mixture.c: experts, once sizes and layers are known. */
cdz_status cdz_experts_read(const cdz_keys *config, cdz_arena *arena, cdz_arch *arch);

/* rope.c: the rotary part of config.json, once head_dim and context are known. */
cdz_status cdz_rope_read(const cdz_keys *config, cdz_arena *arena, cdz_arch *arch);

#endif
