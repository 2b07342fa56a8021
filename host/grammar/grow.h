/* grow.h - arrays that grow, and tables that find their items again. Inside grammar/ only. */
#ifndef CDZ_HOST_GRAMMAR_GROW_H
#define CDZ_HOST_GRAMMAR_GROW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for n items in the array that *(T **)at points to; false when memory is out. */
static inline bool cdz_grow(void *at, uint32_t *cap, size_t n, size_t item_bytes)
{
    void *old;
    if (n <= *cap) return true;
    size_t want = *cap ? *cap : 8;
    while (want < n) want *= 2;
    if (want > UINT32_MAX) return false;
    memcpy(&old, at, sizeof old);
    void *grown = realloc(old, want * item_bytes);
    if (!grown) return false;
    memcpy(at, &grown, sizeof grown);
    *cap = (uint32_t)want;
    return true;
}

/* A hash of three numbers. */
static inline uint32_t cdz_item_mix(uint32_t a, uint32_t b, uint32_t c)
{
    uint64_t h = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u;
    h = (h ^ h >> 29 ^ c) * 0xBF58476D1CE4E5B9u;
    return (uint32_t)(h >> 32);
}

/* Items by their hashes, open addressing. An item has a number from 1; 0: the place is free. */
typedef struct cdz_item_table {
    uint32_t *at, size; /* a power of two */
} cdz_item_table;

/* Makes room for one item beside the n that there are; hash gives that of the item of a number. False when memory is out. */
static inline bool cdz_item_table_room(cdz_item_table *t, uint32_t n,
                                       uint32_t (*hash)(const void *of, uint32_t number),
                                       const void *of)
{
    if ((n + 1) * 2 < t->size) return true;
    const uint32_t size = t->size ? 2 * t->size : 64;
    uint32_t *numbers = calloc(size, sizeof *numbers);
    if (!numbers) return false;
    for (uint32_t number = 1; number <= n; number++) {
        uint32_t at = hash(of, number) & (size - 1);
        while (numbers[at]) at = (at + 1) & (size - 1);
        numbers[at] = number;
    }
    free(t->at);
    *t = (cdz_item_table){numbers, size};
    return true;
}

#endif
