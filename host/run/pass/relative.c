/* relative.c - buckets of distances, slopes of them, and the tables over distances.
 *
 * Owns: the tables' floats on the backend. They are made anew, at least twice as long, when a sequence reaches further.
 * Buckets are rounded where transformers rounds: once more, and a distance would lie on the other side of a border. */
#include "run/pass/relative.h"

#include <math.h>
#include <stdlib.h>

enum { LEAST_REACH = 256 };

/* Half of the buckets are one distance each, the others grow with the logarithm up to buckets.distance. The logarithm
 * is taken in double and rounded once; torch's is float32, and so is every step after it. */
uint32_t cdz_relative_bucket(const cdz_arch *a, bool both_ways, int64_t distance)
{
    const uint32_t n = both_ways ? a->buckets.n / 2 : a->buckets.n, exact = n / 2;
    const uint32_t ahead = both_ways && distance > 0 ? n : 0;
    const int64_t far = both_ways && distance > 0 ? distance : distance < 0 ? -distance : 0;
    if (far < exact) return ahead + (uint32_t)far;
    const float log_far = (float)log((double)((float)far / (float)exact));
    const float log_most = (float)log((double)a->buckets.distance / (double)exact);
    const float beyond = log_far / log_most * (float)(n - exact);
    const uint32_t bucket = beyond < (float)(n - exact) ? exact + (uint32_t)beyond : n - 1;
    return ahead + (bucket < n ? bucket : n - 1);
}

static void fill_one(const cdz_relative *r, float *table, const cdz_arch *a, const float *rows,
                     bool both_ways)
{
    for (size_t i = 0; a->slopes && i < r->stride; i++)
        for (size_t h = 0; h < a->n_heads; h++)
            table[h * r->stride + i] = a->slopes[h] * (float)((double)i - (double)r->zero);
    for (size_t i = 0; !a->slopes && i < r->stride; i++) {
        const uint32_t bucket = cdz_relative_bucket(a, both_ways, (int64_t)i - (int64_t)r->zero);
        for (size_t h = 0; h < a->n_heads; h++)
            table[h * r->stride + i] = rows[(size_t)bucket * a->n_heads + h];
    }
}

static void fill(const cdz_relative *r, float *tables, const cdz_arch *a, const float *rows,
                 bool both_ways)
{
    for (uint32_t t = 0; t < r->n; t++)
        fill_one(r, tables + t * r->stride * a->n_heads, a,
                 rows ? rows + (size_t)t * a->buckets.n * a->n_heads : NULL, both_ways);
}

/* The learned table as float32, in memory of the host. */
static float *widen(cdz_backend *b, const cdz_weight *learned)
{
    const size_t bytes = learned->n * learned->k * sizeof(float);
    int32_t *ids = calloc(learned->n, sizeof *ids);
    float *rows = malloc(bytes), *there = b->api->alloc(b, bytes);
    const bool room = ids && rows && there;
    if (room) {
        for (size_t i = 0; i < learned->n; i++) ids[i] = (int32_t)i;
        b->api->embed(b, there, learned->k, learned, ids, learned->n);
        b->api->download(b, rows, there, bytes);
    }
    free(ids);
    if (there) b->api->free(b, there);
    if (room) return rows;
    free(rows);
    return NULL;
}

/* The table over distances on the backend, from the learned rows. */
static float *spread(cdz_backend *b, const cdz_relative *r, const cdz_arch *a, const float *rows,
                     bool both_ways)
{
    size_t bytes;
    if (__builtin_mul_overflow(r->stride * r->n, a->n_heads * sizeof *rows, &bytes)) return NULL;
    float *here = malloc(bytes), *there = here ? b->api->alloc(b, bytes) : NULL;
    if (there) {
        fill(r, here, a, rows, both_ways);
        b->api->upload(b, there, here, bytes);
    }
    free(here);
    return there;
}

static uint32_t next_reach(const cdz_relative *r, uint32_t n)
{
    uint32_t reach = r->reach ? r->reach : LEAST_REACH;
    while (reach < n) reach = reach > UINT32_MAX / 4 ? n : reach * 2;
    return reach;
}

cdz_status cdz_relative_reach(cdz_relative *r, cdz_backend *b, const cdz_arch *a,
                              const cdz_weight *learned, bool both_ways, uint32_t n, cdz_error *err)
{
    if (n <= r->reach) return CDZ_OK;
    cdz_relative grown = {.reach = next_reach(r, n), .n = cdz_arch_distance_tables(a)};
    grown.zero = grown.reach - 1;
    grown.stride = both_ways ? 2 * (size_t)grown.reach - 1 : grown.reach;
    float *rows = a->slopes ? NULL : widen(b, learned);
    if (rows || a->slopes) grown.table = spread(b, &grown, a, rows, both_ways);
    if (grown.table) {
        cdz_relative_free(r, b);
        *r = grown;
    }
    free(rows);
    return grown.table ? CDZ_OK : cdz_err_memory(err, "distances between tokens");
}

void cdz_relative_free(cdz_relative *r, cdz_backend *b)
{
    if (!r->table) return;
    b->api->sync(b); /* a late thread may still be reading it */
    b->api->free(b, r->table);
    *r = (cdz_relative){0};
}

void cdz_relative_apply(const cdz_relative *r, uint32_t layer, cdz_attention *how)
{
    how->bias = r->table + (r->n > 1 ? layer : 0) * r->stride * how->n_heads;
    how->bias_stride = r->stride;
    how->bias_zero = r->zero;
}
