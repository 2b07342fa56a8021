/* torch_rng.c - torch's CPU draws from MT19937 words (docs/reference/internals/random.md). */
#include "random/torch_rng.h"

#include "random/mt19937.h"
#include "random/noise.h"
#include "random/wide.h"
#include "vec/vec.h"

#include <string.h>

void cdz_torch_seed(cdz_torch_rng *rng, uint64_t seed)
{
    cdz_mt_init(rng->state, (uint32_t)seed);
    rng->at = CDZ_MT_WORDS;
}

uint32_t cdz_torch_word(cdz_torch_rng *rng)
{
    if (rng->at == CDZ_MT_WORDS) {
        cdz_mt_next(rng->state);
        rng->at = 0;
    }
    return cdz_mt_temper(rng->state[rng->at++]);
}

void cdz_torch_skip(cdz_torch_rng *rng, uint64_t n_words)
{
    while (n_words > CDZ_MT_WORDS - rng->at) {
        n_words -= CDZ_MT_WORDS - rng->at;
        cdz_mt_next(rng->state);
        rng->at = 0;
    }
    rng->at += (uint32_t)n_words;
}

float cdz_torch_uniform(cdz_torch_rng *rng)
{
    return (float)(cdz_torch_word(rng) & 0xffffffu) * 0x1p-24f;
}

/* torch.multinomial's conditions: finite, not negative, not all zero. */
static bool is_distribution(const float *p, size_t n)
{
    const cdz_vec *vec = cdz_vec_table();
    const float top = vec->max(p, n);
    return top > 0.0f && top < INFINITY && vec->min(p, n) >= 0.0f && !vec->any_nan(p, n);
}

/* The best ratio p / q so far, in the order of the elements. */
typedef struct race {
    int32_t winner;
    float ratio;
} race;

/* q is at least u, so most elements are out of the race without a logarithm. 1e-6 covers the roundings of p / q. */
static void compete(race *r, int32_t id, float p, double u)
{
    if (r->winner >= 0 && (double)p * (1.0 + 1e-6) < (double)r->ratio * u) return;
    const float ratio = p / cdz_exponential(u);
    if (r->winner < 0 || ratio > r->ratio) *r = (race){id, ratio};
}

enum { PAIRS = CDZ_MT_WORDS / 2 };

/* Elements [first, first + n), whose 2 * n words lie in the state and not beyond it. */
static void compete_block(race *r, cdz_torch_rng *rng, const float *p, size_t first, size_t n)
{
    const uint32_t *const words = rng->state + rng->at;
    const uint32_t at = rng->at;
    uint32_t maybe[PAIRS + 1] = {0};

    cdz_wide_here()->screen(words, p + first, n, r->winner < 0 ? 0.0f : r->ratio, maybe);
    for (size_t i = 0; i < n; i += 2) {
        uint64_t both;
        memcpy(&both, maybe + i, sizeof both);
        if (both == 0) continue;
        for (size_t k = i; k < i + 2; k++) {
            if (maybe[k] == 0) continue;
            rng->at = at + 2 * (uint32_t)k;
            compete(r, (int32_t)(first + k), p[first + k], cdz_uniform53(rng));
        }
    }
    rng->at = at + 2 * (uint32_t)n;
}

int32_t cdz_torch_multinomial(cdz_torch_rng *rng, const float *p, size_t n)
{
    if (is_distribution(p, n)) return cdz_torch_draw(rng, p, n);
    cdz_torch_skip(rng, 2 * (uint64_t)n);
    return -1;
}

/* Where p is 0 the ratio is 0, and the element's two words are passed over. */
int32_t cdz_torch_draw(cdz_torch_rng *rng, const float *p, size_t n)
{
    race r = {.winner = -1};
    size_t i = 0;

    while (i < n) {
        if (rng->at + 2 > CDZ_MT_WORDS) { /* the next element's words are not both here */
            if (p[i] > 0.0f)
                compete(&r, (int32_t)i, p[i], cdz_uniform53(rng));
            else
                cdz_torch_skip(rng, 2);
            i++;
            continue;
        }
        const size_t here = (CDZ_MT_WORDS - rng->at) / 2, len = here < n - i ? here : n - i;
        if (cdz_wide_here()->all_zero(p + i, len))
            rng->at += 2 * (uint32_t)len;
        else
            compete_block(&r, rng, p, i, len);
        i += len;
    }
    return r.winner;
}

int32_t cdz_torch_race(cdz_torch_rng *rng, const int32_t *ids, const float *p, size_t len, size_t n)
{
    race r = {.winner = -1};
    size_t drawn = 0; /* elements whose words are used up */

    for (size_t i = 0; i < len; i++) {
        if (!(p[i] > 0.0f)) continue;
        cdz_torch_skip(rng, 2 * (uint64_t)((size_t)ids[i] - drawn));
        compete(&r, ids[i], p[i], cdz_uniform53(rng));
        drawn = (size_t)ids[i] + 1;
    }
    cdz_torch_skip(rng, 2 * (uint64_t)(n - drawn));
    return r.winner;
}

int32_t cdz_torch_multinomial_k(cdz_torch_rng *rng, const float *p, size_t n, size_t k,
                                int32_t *ids, void *scratch)
{
    float *const ratio = (float *)scratch + 4 * n, *const values = ratio + n;

    if (!is_distribution(p, n)) {
        cdz_torch_skip(rng, 2 * (uint64_t)n);
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        if (p[i] > 0.0f) {
            ratio[i] = p[i] / cdz_exponential(cdz_uniform53(rng));
        } else {
            cdz_torch_skip(rng, 2);
            ratio[i] = 0.0f;
        }
    }
    cdz_vec_table()->topk(ratio, n, k, values, ids, scratch);
    return 0;
}
