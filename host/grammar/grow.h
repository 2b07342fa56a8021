/* grow.h - arrays that grow. Inside grammar/ only. */
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

#endif
