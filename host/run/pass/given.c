/* given.c - lists of vectors that are read in place of ids. See given.h. Not: which sequence has which list (sequence.c), where a
 * pass reads them (forward.c). */
#include "run/pass/given.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

struct cdz_given {
    uint32_t holds, n, width;
    const uint32_t *positions; /* (n) rising */
    const float *vectors;      /* (n, width) */
};

/* How many of the first ones lie before a position. */
static uint32_t count_before(const cdz_given *g, uint32_t position)
{
    uint32_t low = 0, high = g ? g->n : 0;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (g->positions[middle] < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

typedef struct room {
    cdz_given *given;
    uint32_t *positions;
    float *vectors;
} room;

/* One piece of memory. */
static bool allocate(uint64_t n, uint32_t width, room *out)
{
    size_t floats, bytes;
    if (n > UINT32_MAX || __builtin_mul_overflow((size_t)n, (size_t)width + 1, &floats) ||
        __builtin_mul_overflow(floats, sizeof(float), &bytes) ||
        __builtin_add_overflow(bytes, sizeof(cdz_given), &bytes))
        return false;
    cdz_given *g = calloc(1, bytes);
    if (!g) return false;
    float *vectors = (float *)(void *)(g + 1);
    uint32_t *positions = (uint32_t *)(void *)(vectors + (size_t)n * width);
    g->holds = 1;
    g->width = width;
    g->vectors = vectors;
    g->positions = positions;
    out->given = g;
    out->positions = positions;
    out->vectors = vectors;
    return true;
}

static void add(room *to, uint32_t position, const float *vector)
{
    cdz_given *g = to->given;
    to->positions[g->n] = position;
    memcpy(to->vectors + (size_t)g->n * g->width, vector, g->width * sizeof *vector);
    g->n++;
}

static void add_old(room *to, const cdz_given *before, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        add(to, before->positions[i], before->vectors + (size_t)i * before->width);
}

bool cdz_given_make(const cdz_given *before, uint32_t to, uint32_t from, const float *vectors,
                    uint32_t n, uint32_t width, cdz_given **out)
{
    const uint32_t end = count_before(before, to), head = count_before(before, from),
                   after = count_before(before, from + n);
    const uint32_t first = head < end ? head : end, rest = after < end ? after : end;
    const uint64_t all = (uint64_t)first + (vectors ? n : 0) + (end - rest);
    room made;
    *out = NULL;
    if (all == 0) return true;
    if (!allocate(all, width, &made)) return false;
    add_old(&made, before, 0, first);
    for (uint32_t i = 0; vectors && i < n; i++) add(&made, from + i, vectors + (size_t)i * width);
    add_old(&made, before, rest, end);
    *out = made.given;
    return true;
}

cdz_given *cdz_given_hold(cdz_given *g)
{
    if (g) g->holds++;
    return g;
}

void cdz_given_release(cdz_given *g)
{
    if (!g) return;
    cdz_assert(g->holds > 0);
    if (--g->holds == 0) free(g);
}

uint64_t cdz_given_bytes(const cdz_given *g)
{
    return g ? (uint64_t)g->n * (g->width + 1ull) * sizeof(float) : 0;
}

uint64_t cdz_given_share(const cdz_given *g)
{
    return g ? cdz_given_bytes(g) / g->holds : 0;
}

const float *cdz_given_at(const cdz_given *g, uint32_t to, uint32_t position)
{
    if (!g || position >= to) return NULL;
    const uint32_t i = count_before(g, position);
    return i < g->n && g->positions[i] == position ? g->vectors + (size_t)i * g->width : NULL;
}

static uint32_t position_at(const cdz_given *g, uint32_t end, uint32_t i)
{
    return g && i < end ? g->positions[i] : UINT32_MAX;
}

uint32_t cdz_given_parts(const cdz_given *a, uint32_t a_to, const cdz_given *b, uint32_t b_to)
{
    const uint32_t a_end = count_before(a, a_to), b_end = count_before(b, b_to);
    uint32_t i = 0;
    if (a == b) {
        const uint32_t less = a_end < b_end ? a_end : b_end, more = a_end < b_end ? b_end : a_end;
        return position_at(a, more, less);
    }
    while (i < a_end && i < b_end && a->positions[i] == b->positions[i] && a->width == b->width &&
           memcmp(a->vectors + (size_t)i * a->width, b->vectors + (size_t)i * b->width,
                  a->width * sizeof(float)) == 0)
        i++;
    const uint32_t x = position_at(a, a_end, i), y = position_at(b, b_end, i);
    return x < y ? x : y;
}
