/* torch_rng.h - the CPU random stream of torch, bit for bit (docs/reference/internals/random.md; torch 2.9.1).
 * MT19937, seeded by the low 32 bits; one sequential stream per request. */
#ifndef CDZ_HOST_RANDOM_TORCH_RNG_H
#define CDZ_HOST_RANDOM_TORCH_RNG_H

#include <stddef.h>
#include <stdint.h>

typedef struct cdz_torch_rng {
    uint32_t state[624];
    uint32_t at; /* next word of state; 624: refill first */
} cdz_torch_rng;

void cdz_torch_seed(cdz_torch_rng *rng, uint64_t seed);
uint32_t cdz_torch_word(cdz_torch_rng *rng);
void cdz_torch_skip(cdz_torch_rng *rng,
                    uint64_t n_words);       /* without making them one by one more than needed */
float cdz_torch_uniform(cdz_torch_rng *rng); /* torch.rand: one word */

/* torch.multinomial(p, 1) of one row of n probabilities: 2 * n words; logarithms only where p > 0.
 * -1: the row holds nan, inf, a negative, or only zeros (the stream is advanced all the same). */
int32_t cdz_torch_multinomial(cdz_torch_rng *rng, const float *p, size_t n);
/* The same of a row that is known to be a distribution. */
int32_t cdz_torch_draw(cdz_torch_rng *rng, const float *p, size_t n);
/* And of a row of n in which all is 0 but p[0, len), the probabilities of ids, which rise. They are a
 * distribution. */
int32_t cdz_torch_race(cdz_torch_rng *rng, const int32_t *ids, const float *p, size_t len, size_t n);
/* torch.multinomial(p, k) without replacement: k ids by falling p/q, ties as torch.topk. scratch: cdz_vec_scratch(n).
 * Returns 0, or -1 as above. */
int32_t cdz_torch_multinomial_k(cdz_torch_rng *rng, const float *p, size_t n, size_t k,
                                int32_t *ids, void *scratch);

/* Philox4x32-10 for processors: keyed by request seed and plugin id, counter is (row, position). */
void cdz_philox(uint64_t seed, uint64_t plugin_key, uint32_t row, uint32_t position,
                uint32_t out[4]);
uint64_t cdz_philox_key(const char *id); /* FNV-1a of the id */

#endif
