/* panels.c - quantised rows in panels of sixteen: the same bytes, words of sixteen rows side by side, so
 * that an output has a lane of its own and no kernel needs to shuffle. Reordering only, but for the
 * fifth bits of Q5_0 and Q5_1, which are turned so that one shift brings out those of four numbers. */
#include "ref/panels.h"

#include <string.h>

#include "kernel_set.h"

static const cdz_panel_layout layouts[CDZ_N_GGUF] = {
    [CDZ_Q8_0] = {1, {0}, false, {{2, 8}}},
    [CDZ_Q4_0] = {1, {0}, false, {{2, 4}}},
    [CDZ_Q4_1] = {2, {0, 2}, false, {{4, 4}}},
    [CDZ_Q5_0] = {1, {0}, true, {{2, 1}, {6, 4}}},
    [CDZ_Q5_1] = {2, {0, 2}, true, {{4, 1}, {8, 4}}},
    [CDZ_Q2_K] = {2, {80, 82}, false, {{0, 4}, {16, 16}}},
    [CDZ_Q3_K] = {1, {108}, false, {{96, 3}, {0, 8}, {32, 16}}},
    [CDZ_Q4_K] = {2, {0, 2}, false, {{4, 3}, {16, 32}}},
    [CDZ_Q5_K] = {2, {0, 2}, false, {{4, 3}, {16, 8}, {48, 32}}},
    [CDZ_Q6_K] = {1, {208}, false, {{192, 4}, {128, 8}, {0, 16}, {160, 8}, {64, 16}}},
};

bool cdz_has_panels(cdz_dtype dtype)
{
    return dtype < CDZ_N_GGUF && layouts[dtype].n_halves > 0;
}

const cdz_panel_layout *cdz_panel_layout_of(cdz_dtype dtype)
{
    static const cdz_panel_layout none = {0};
    return dtype < CDZ_N_GGUF ? &layouts[dtype] : &none;
}

/* Bits 0, 4, 8, ... 28 of a word side by side, and back. */
static uint32_t every_fourth(uint32_t v)
{
    v &= 0x11111111u;
    v = (v | v >> 3) & 0x03030303u;
    v = (v | v >> 6) & 0x000f000fu;
    return (v | v >> 12) & 0xffu;
}

static uint32_t to_every_fourth(uint32_t v)
{
    v = (v | v << 12) & 0x000f000fu;
    v = (v | v << 6) & 0x03030303u;
    return (v | v << 3) & 0x11111111u;
}

/* Bit 4 g + b to 8 b + g, or back: those of group g of four numbers at the same place in every byte. */
static uint32_t turn(uint32_t bits, bool back)
{
    uint32_t turned = 0;
    for (unsigned b = 0; b < 4; b++)
        turned |=
            back ? to_every_fourth(bits >> 8 * b & 0xffu) << b : every_fourth(bits >> b) << 8 * b;
    return turned;
}

static void turn_word(uint8_t *at, bool back)
{
    uint32_t bits;
    memcpy(&bits, at, sizeof bits);
    bits = turn(bits, back);
    memcpy(at, &bits, sizeof bits);
}

/* One row's block into its places. */
static void put_block(const cdz_panel_layout *l, uint8_t *to, size_t row, const uint8_t *from)
{
    for (size_t h = 0; h < l->n_halves; h++, to += 2 * CDZ_PANEL_ROWS)
        memcpy(to + 2 * row, from + l->half[h], 2);
    if (l->turned) memcpy(to + 4 * row, from + l->words[0].at, 4);
    if (l->turned) turn_word(to + 4 * row, false);
    to += l->turned ? 4 * CDZ_PANEL_ROWS : 0;
    for (size_t w = l->turned; w < CDZ_PANEL_WORD_RUNS; w++)
        for (size_t i = 0; i < l->words[w].n; i++, to += 4 * CDZ_PANEL_ROWS)
            memcpy(to + 4 * row, from + l->words[w].at + 4 * i, 4);
}

static void take_block(const cdz_panel_layout *l, uint8_t *to, size_t row, const uint8_t *from)
{
    for (size_t h = 0; h < l->n_halves; h++, from += 2 * CDZ_PANEL_ROWS)
        memcpy(to + l->half[h], from + 2 * row, 2);
    for (size_t w = 0; w < CDZ_PANEL_WORD_RUNS; w++)
        for (size_t i = 0; i < l->words[w].n; i++, from += 4 * CDZ_PANEL_ROWS)
            memcpy(to + l->words[w].at + 4 * i, from + 4 * row, 4);
    if (l->turned) turn_word(to + l->words[0].at, true);
}

void cdz_to_panels(cdz_dtype dtype, void *to, const void *rows, size_t stride, size_t n, size_t k)
{
    const size_t bytes = cdz_dtype_bytes(dtype), length = cdz_row_bytes(dtype, k);
    const cdz_panel_layout l = layouts[dtype];
    uint8_t *panel = to;
    const uint8_t *row = rows;
    for (size_t j = 0; j < n; j++, row += stride) {
        const size_t lane = j % CDZ_PANEL_ROWS;
        for (size_t b = 0; b < length; b += bytes)
            put_block(&l, panel + b * CDZ_PANEL_ROWS, lane, row + b);
        if (lane == CDZ_PANEL_ROWS - 1) panel += length * CDZ_PANEL_ROWS;
    }
}

void cdz_row_of_panel(cdz_dtype dtype, void *to, const void *panel, size_t row, size_t k)
{
    const size_t bytes = cdz_dtype_bytes(dtype), stride = cdz_row_bytes(dtype, k);
    for (size_t b = 0; b < stride; b += bytes)
        take_block(&layouts[dtype], (uint8_t *)to + b, row,
                   (const uint8_t *)panel + b * CDZ_PANEL_ROWS);
}
