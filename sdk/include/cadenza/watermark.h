/* watermark.h - two watermarks: which tokens are green, and which g-values tokens have.
 *
 * A processor that writes a watermark and a detector that reads it must compute the same values from the same settings;
 * both use these functions. They depend on ids and settings only and allocate nothing; [any].
 *   green list  Kirchenbauer et al., 2023: the ids before a token seed a permutation of the vocabulary; its first are green.
 *   SynthID     Dathathri et al., 2024: a hash of the ids before a token, the token and each key picks a bit, its g-value.
 * Numbers are those of transformers' WatermarkLogitsProcessor and SynthIDTextWatermarkLogitsProcessor on a CPU. */
#ifndef CADENZA_WATERMARK_H
#define CADENZA_WATERMARK_H

#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- settings: the fields of WatermarkingConfig and SynthIDTextWatermarkingConfig ----------------------------- */

typedef enum cdz_watermark_type { CDZ_WM_GREENLIST, CDZ_WM_SYNTHID } cdz_watermark_type;
typedef enum cdz_green_scheme { CDZ_WM_LEFTHASH, CDZ_WM_SELFHASH } cdz_green_scheme;

typedef struct cdz_watermark {
    cdz_word type; /* cdz_watermark_type */
    double greenlist_ratio, bias;
    int64_t hashing_key;
    cdz_word seeding_scheme; /* cdz_green_scheme */
    int64_t context_width;
    int64_t ngram_len; /* 0: not given */
    cdz_int_list keys;
    int64_t context_history_size, sampling_table_seed, sampling_table_size;
    bool skip_first_ngram_calls, debug_mode;
} cdz_watermark;

#define CDZ_WM_MOST 16777216.0 /* entries of a table, ids of a context */

/* The rows of cdz_watermark, for a table of parameters. */
#define CDZ_WATERMARK_PARAMS                                                                       \
    CDZ_WORD(cdz_watermark, type, "greenlist|synthid", CDZ_WM_GREENLIST, "the kind of watermark"), \
        CDZ_REAL(cdz_watermark, greenlist_ratio, 0.25, 0, 1,                                       \
                 "green list: share of the vocabulary"),                                           \
        CDZ_REAL(cdz_watermark, bias, 2.0, -CDZ_NO_LIMIT, CDZ_NO_LIMIT,                            \
                 "green list: added to the scores of green tokens"),                               \
        CDZ_INT(cdz_watermark, hashing_key, 15485863, 0, 9.2e18, "green list: the secret"),        \
        CDZ_WORD(cdz_watermark, seeding_scheme, "lefthash|selfhash", CDZ_WM_LEFTHASH,              \
                 "green list: whether a token takes part in choosing its own list"),               \
        CDZ_INT(cdz_watermark, context_width, 1, 1, CDZ_WM_MOST,                                   \
                "green list: ids that choose the list of selfhash"),                               \
        CDZ_INT(cdz_watermark, ngram_len, 0, 0, CDZ_WM_MOST,                                       \
                "synthid: the token and the ids before it"),                                       \
        CDZ_INTS(cdz_watermark, keys, 0, -CDZ_NO_LIMIT, CDZ_NO_LIMIT,                              \
                 "synthid: the secrets, one a layer of the tournament"),                           \
        CDZ_INT(cdz_watermark, context_history_size, 1024, 0, CDZ_WM_MOST,                         \
                "synthid: contexts looked back over for repeats"),                                 \
        CDZ_INT(cdz_watermark, sampling_table_seed, 0, -CDZ_NO_LIMIT, CDZ_NO_LIMIT,                \
                "synthid: seed of the table of g-values"),                                         \
        CDZ_INT(cdz_watermark, sampling_table_size, 65536, 1, CDZ_WM_MOST,                         \
                "synthid: entries of the table of g-values"),                                      \
        CDZ_BOOL(cdz_watermark, skip_first_ngram_calls, false,                                     \
                 "synthid: leave the first ngram_len - 1 tokens alone"),                           \
        CDZ_BOOL(cdz_watermark, debug_mode, false, "synthid: take every score as one")

/* A sentence about settings that the ranges of the table cannot check; NULL: they are valid. */
static inline const char *cdz_watermark_fault(const cdz_watermark *w)
{
    if (w->type.value == CDZ_WM_GREENLIST)
        return w->greenlist_ratio > 0 && w->greenlist_ratio < 1
                   ? NULL
                   : "greenlist_ratio must be above 0 and below 1 to mark anything";
    if (w->ngram_len == 0) return "type = synthid needs ngram_len, 5 for example";
    return w->keys.len ? NULL : "type = synthid needs keys, a list of secret integers";
}

/* --- a Mersenne Twister with its own state, as torch.Generator ---------------------------------------------- */

enum { CDZ_WM_WORDS = 624, CDZ_WM_SHIFT = 397 };

typedef struct cdz_wm_rng {
    uint32_t s[CDZ_WM_WORDS];
    uint32_t at;
} cdz_wm_rng;

static inline void cdz_wm_seed(cdz_wm_rng *rng, uint32_t seed)
{
    rng->s[0] = seed;
    for (uint32_t i = 1; i < CDZ_WM_WORDS; i++)
        rng->s[i] = 1812433253u * (rng->s[i - 1] ^ (rng->s[i - 1] >> 30)) + i;
    rng->at = 0;
}

/* Each word of the state is renewed when it is drawn. */
static inline uint32_t cdz_wm_draw(cdz_wm_rng *rng)
{
    const uint32_t i = rng->at, next = i + 1 < CDZ_WM_WORDS ? i + 1 : 0;
    const uint32_t far =
        i + CDZ_WM_SHIFT < CDZ_WM_WORDS ? i + CDZ_WM_SHIFT : i + CDZ_WM_SHIFT - CDZ_WM_WORDS;
    const uint32_t y = (rng->s[i] & 0x80000000u) | (rng->s[next] & 0x7fffffffu);
    uint32_t x = rng->s[i] = rng->s[far] ^ (y >> 1) ^ ((0u - (y & 1u)) & 0x9908b0dfu);
    rng->at = next;
    x ^= x >> 11;
    x ^= (x << 7) & 0x9d2c5680u;
    x ^= (x << 15) & 0xefc60000u;
    return x ^ (x >> 18);
}

/* torch.randperm(n) into out (n); only its first `head` entries are computed, the rest is in no defined order. */
static inline void cdz_wm_permute(uint32_t seed, uint32_t n, uint32_t head, uint32_t *out)
{
    cdz_wm_rng rng;
    cdz_wm_seed(&rng, seed);
    for (uint32_t i = 0; i < n; i++) out[i] = i;
    for (uint32_t i = 0; i + 1 < n && i < head; i++) {
        const uint32_t z = i + cdz_wm_draw(&rng) % (n - i), kept = out[i];
        out[i] = out[z];
        out[z] = kept;
    }
}

/* --- green lists ------------------------------------------------------------------------------------------- */

enum {
    CDZ_GREEN_TABLE =
        1000003,           /* entries of the table of selfhash: torch.randperm seeded by the key */
    CDZ_GREEN_PROBES = 40, /* candidates that selfhash looks at */
};

typedef struct cdz_green {
    int64_t key;           /* hashing_key, from 0 */
    bool selfhash;         /* else lefthash */
    uint32_t width;        /* context_width, from 1 */
    uint32_t n_vocab;      /* */
    uint32_t n_green;      /* (uint32_t)(n_vocab * greenlist_ratio), in double */
    const uint32_t *table; /* (CDZ_GREEN_TABLE) of cdz_green_table; lefthash needs none */
} cdz_green;

static inline void cdz_green_table(int64_t key, uint32_t *table)
{
    cdz_wm_permute((uint32_t)(uint64_t)key, CDZ_GREEN_TABLE, CDZ_GREEN_TABLE, table);
}

/* Low word of key * id mod 2^64 - 1, id from 0: the halves of the product are added. */
static inline uint32_t cdz_green_left(int64_t key, int32_t id)
{
    const uint64_t token = (uint32_t)id;
    const uint64_t low = ((uint64_t)key & 0xffffffffu) * token, high = ((uint64_t)key >> 32) * token;
    const uint64_t shifted = high << 32;
    uint64_t sum = low + shifted, carry = (high >> 32) + (sum < low);
    sum += carry;
    if (sum < carry) sum++;
    return sum == UINT64_MAX ? 0 : (uint32_t)sum;
}

/* Two's complement without relying on the conversion. */
static inline int64_t cdz_wm_signed(uint64_t x)
{
    return x <= INT64_MAX ? (int64_t)x : -(int64_t)(UINT64_MAX - x) - 1;
}

/* Low word of the least key * (T[w] + 1) * (T[last] + 1), wrapping; a negative one is taken mod 2^64 - 1. */
static inline uint32_t cdz_green_self(const cdz_green *green, const int32_t *ids, uint32_t n)
{
    const uint64_t last = green->table[(uint32_t)ids[n - 1] % CDZ_GREEN_TABLE] + (uint64_t)1;
    int64_t least = INT64_MAX;
    for (uint32_t i = n < green->width ? 0 : n - green->width; i < n; i++) {
        const uint64_t here = green->table[(uint32_t)ids[i] % CDZ_GREEN_TABLE] + (uint64_t)1;
        const int64_t product = cdz_wm_signed((uint64_t)green->key * here * last);
        if (product < least) least = product;
    }
    return least < 0 ? (uint32_t)((uint64_t)least - 1) : (uint32_t)least;
}

/* The green ids after (selfhash: of a row that ends in) these n >= 1 ids: the first n_green entries of room
 * (n_vocab entries). */
static inline void cdz_green_ids(const cdz_green *green, const int32_t *ids, uint32_t n,
                                 uint32_t *room)
{
    const uint32_t seed =
        green->selfhash ? cdz_green_self(green, ids, n) : cdz_green_left(green->key, ids[n - 1]);
    cdz_wm_permute(seed, green->n_vocab, green->n_green, room);
}

/* Is this id green? ids as above; room as above. */
static inline bool cdz_green_has(const cdz_green *green, const int32_t *ids, uint32_t n, int32_t id,
                                 uint32_t *room)
{
    cdz_green_ids(green, ids, n, room);
    for (uint32_t i = 0; i < green->n_green; i++)
        if (room[i] == (uint32_t)id) return true;
    return false;
}

/* --- SynthID ------------------------------------------------------------------------------------------------ */

typedef struct cdz_synthid {
    uint32_t ngram_len; /* from 1: ngram_len - 1 ids of context and the token */
    uint32_t n_keys;
    const int64_t *keys;
    uint32_t history; /* context_history_size: that many contexts are remembered; repeats are not marked */
    uint32_t table_size;  /* sampling_table_size, from 1 to 2^24 */
    const uint8_t *table; /* (table_size) of cdz_synthid_table */
} cdz_synthid;

static inline void cdz_synthid_table(int64_t seed, uint32_t size, uint8_t *table)
{
    cdz_wm_rng rng;
    cdz_wm_seed(&rng, (uint32_t)(uint64_t)seed);
    for (uint32_t i = 0; i < size; i++) table[i] = (uint8_t)(cdz_wm_draw(&rng) & 1);
}

/* Adds a value to a hash, which begins as 1. */
static inline uint64_t cdz_synthid_fold(uint64_t hash, int64_t value)
{
    return (hash + (uint64_t)value) * 6364136223846793005u + 1;
}

/* The hash of n ids of context. */
static inline uint64_t cdz_synthid_context(const int32_t *ids, uint32_t n)
{
    uint64_t hash = 1;
    for (uint32_t i = 0; i < n; i++) hash = cdz_synthid_fold(hash, ids[i]);
    return hash;
}

/* The g-value, 0 or 1, of a token whose hash is fold(context, token), for one key. */
static inline uint8_t cdz_synthid_g(const cdz_synthid *synthid, uint64_t token_hash, int64_t key)
{
    const int64_t hash = cdz_wm_signed(cdz_synthid_fold(token_hash, key));
    const int64_t size = (int64_t)synthid->table_size, left = hash % size;
    return synthid->table[left < 0 ? left + size : left];
}

#ifdef __cplusplus
}
#endif
#endif
