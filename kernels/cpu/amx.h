/* amx.h - tiles of AMX: eight registers of up to sixteen rows of 64 bytes. Their shapes are set before they are used, and they
 * are given back after: a system saves them for as long as they are in use. */
#ifndef CDZ_AMX_H
#define CDZ_AMX_H

#include "kernel_set.h"

enum {
    CDZ_AMX_ROWS = 16, /* of a register */
    CDZ_AMX_TALL = 32  /* rows from which on they are faster than AVX-512 */
};

/* What LDTILECFG reads. The compiler takes it to read no more than eight bytes: it is constant. */
typedef struct cdz_tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} cdz_tile_shapes;

/* Nor does it know that loads of tiles read memory. Stores before this are seen by those after it, stores after it are not seen by
 * those before. */
#define CDZ_LOADS_BETWEEN() __asm__ volatile("" ::: "memory")

/* Block `block` of a tile of activations of CDZ_AMX_TALL rows or more, from row `row` on. What a cdz_x8 holds lies apart there, in
 * the memory of as many: [height][32] numbers, then [height] d, s and sums of both halves, sixteen bits each. */
typedef struct cdz_x8_apart {
    int8_t *q;
    float *d, *s;
    int32_t *both;
} cdz_x8_apart;

static inline cdz_x8_apart cdz_x8_apart_at(const cdz_x8 *tile, size_t height, size_t block,
                                           size_t row)
{
    char *at = (char *)(uintptr_t)(tile + block * height);
    float *d = (float *)(void *)(at + height * CDZ_X8) + row, *s = d + height;
    return (cdz_x8_apart){(int8_t *)at + row * CDZ_X8, d, s, (int32_t *)(void *)(s + height)};
}

#endif
