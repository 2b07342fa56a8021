/* away.c - see away.h. */
#include "run/away.h"

#include <stdlib.h>

/* Of a device's free memory that rows of one request may take: work memory grows out of the same. */
enum { MOST_SHARE = 4 };

static bool fits(cdz_backend *device, size_t bytes)
{
    size_t free_bytes, total;
    device->api->memory(device, &free_bytes, &total);
    return bytes <= free_bytes / MOST_SHARE;
}

void cdz_away_begin(cdz_away *away, cdz_backend *device, uint32_t n_rows, size_t n_vocab)
{
    size_t floats, bytes;
    *away = (cdz_away){.device = device, .n_vocab = n_vocab};
    if (device->api->host_memory || !device->api->argmax) return;
    if (__builtin_mul_overflow(n_rows, n_vocab, &floats) ||
        __builtin_mul_overflow(floats, sizeof *away->rows, &bytes) || !fits(device, bytes))
        return;
    away->best = calloc(n_rows, sizeof *away->best);
    away->there = calloc(n_rows, sizeof *away->there);
    if (away->best && away->there) away->rows = device->api->alloc(device, bytes);
    if (away->rows)
        away->n_rows = n_rows;
    else
        cdz_away_free(away);
}

void cdz_away_free(cdz_away *away)
{
    if (away->rows) away->device->api->free(away->device, away->rows);
    free(away->best);
    free(away->there);
    *away = (cdz_away){0};
}

uint32_t cdz_away_fetch(cdz_away *away, float *home, uint32_t first, uint32_t n)
{
    const size_t V = away->n_vocab;
    uint32_t fetched = 0;
    for (uint32_t i = first, run; i < first + n; i += run ? run : 1) {
        for (run = 0; i + run < first + n && cdz_away_has(away, i + run); run++)
            away->there[i + run] = false;
        if (run == 0) continue;
        away->device->api->download(away->device, home + i * V, away->rows + i * V,
                                    run * V * sizeof *home);
        fetched += run;
    }
    away->asked |= fetched > 0;
    return fetched;
}

void cdz_away_repeat(cdz_away *away, uint32_t row, uint32_t other)
{
    const size_t V = away->n_vocab;
    away->device->api->copy(away->device, away->rows + row * V, away->rows + other * V,
                            V * sizeof *away->rows);
    away->best[row] = away->best[other];
    away->there[row] = true;
}
