/* history.c - see history.h. A set of ids is a bit per element of the row: scratch is bounded by the row, not by
 * how long the history is. */
#include "vec/history.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static bool inside(int32_t id, size_t n)
{
    return id >= 0 && (size_t)id < n;
}

/* True the first time an id comes; seen begins zeroed. */
static bool first_time(uint8_t *seen, int32_t id)
{
    const size_t at = (size_t)id / 8;
    const uint8_t bit = (uint8_t)(1u << ((size_t)id % 8));

    if ((seen[at] & bit) != 0) return false;
    seen[at] = (uint8_t)(seen[at] | bit);
    return true;
}

static uint8_t *empty_set(void *scratch, size_t n)
{
    return memset(scratch, 0, n / 8 + 1);
}

void cdz_history_mask_ids(float *x, size_t n, const int32_t *ids, size_t n_ids)
{
    for (size_t i = 0; i < n_ids; i++)
        if (inside(ids[i], n)) x[ids[i]] = -INFINITY;
}

void cdz_history_mask_except(float *x, size_t n, const int32_t *ids, size_t n_ids, void *scratch)
{
    uint8_t *const allowed = empty_set(scratch, n);

    for (size_t i = 0; i < n_ids; i++)
        if (inside(ids[i], n)) first_time(allowed, ids[i]);
    for (size_t v = 0; v < n; v++) {
        if (v % 8 == 0 && v + 8 <= n && allowed[v / 8] == 0) {
            for (size_t i = 0; i < 8; i++) x[v + i] = -INFINITY;
            v += 7;
        } else if ((allowed[v / 8] & (1u << (v % 8))) == 0) {
            x[v] = -INFINITY;
        }
    }
}

void cdz_history_penalize(float *x, size_t n, const int32_t *ids, size_t n_ids, float p,
                          void *scratch)
{
    uint8_t *const seen = empty_set(scratch, n);

    for (size_t i = 0; i < n_ids; i++) {
        if (!inside(ids[i], n) || !first_time(seen, ids[i])) continue;
        float *const s = &x[ids[i]];
        *s = *s < 0 ? *s * p : *s / p;
    }
}

void cdz_history_ban_ngrams_of(float *x, size_t n, const int32_t *ids, size_t n_ids,
                               const int32_t *of, size_t n_of, size_t g)
{
    if (g == 0 || n_ids + 1 < g) return;
    const size_t n_prefix = g - 1;
    const int32_t *const prefix = ids + (n_ids - n_prefix);

    for (size_t i = 0; i + g <= n_of; i++) {
        const int32_t next = of[i + n_prefix];
        if (inside(next, n) && (n_prefix == 0 || memcmp(of + i, prefix, n_prefix * sizeof *of) == 0))
            x[next] = -INFINITY;
    }
}

void cdz_history_ban_ngrams(float *x, size_t n, const int32_t *ids, size_t n_ids, size_t g)
{
    cdz_history_ban_ngrams_of(x, n, ids, n_ids, ids, n_ids, g);
}
