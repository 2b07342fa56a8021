/* bits.h - sets of small numbers as bits: 64 to a word, the lowest first. */
#ifndef CDZ_HOST_BASE_BITS_H
#define CDZ_HOST_BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool cdz_bit_is_set(const uint64_t *words, size_t i)
{
    return words[i / 64] >> (i % 64) & 1;
}

#endif
