/* mxfp4.c - MXFP4 of safetensors: NAME_blocks has the nibbles, two neighbours in a byte, the first one low; NAME_scales an
 * exponent for 32 of them. A block of ours, which is GGUF's, has the exponent first, then bytes of elements i and i + 16.
 * Only nibbles move: no number changes. */
#include "load/mxfp4.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32, NIBBLES = BLOCK / 2, OURS = 1 + NIBBLES };

static cdz_status check(const cdz_mxfp4 *m, const cdz_tensor *t, size_t last, cdz_error *err)
{
    const uint64_t shape[] = {m->n_experts, m->n, m->k / BLOCK, last};
    const uint32_t n_dims = last ? 4 : 3;
    char text[128];
    if (strcmp(t->dtype, "U8") == 0 && t->n_dims == n_dims && m->k % BLOCK == 0 &&
        memcmp(t->shape, shape, n_dims * sizeof *shape) == 0)
        return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT,
                   "%s: tensor %s is %s of %s, config.json makes it [%zu, %zu, %zu%s] of U8, in "
                   "blocks of %d",
                   m->tensors->files[t->file].path, t->name,
                   cdz_tensor_shape_text(t, text, sizeof text), t->dtype, m->n_experts, m->n,
                   m->k / BLOCK, last ? ", 16" : "", BLOCK);
}

static unsigned nibble(const uint8_t *pairs, size_t i)
{
    return (unsigned)pairs[i / 2] >> i % 2 * 4 & 15;
}

static void put_block(uint8_t *to, uint8_t exponent, const uint8_t *pairs)
{
    *to++ = exponent;
    for (size_t i = 0; i < NIBBLES; i++)
        to[i] = (uint8_t)(nibble(pairs, i) | nibble(pairs, i + NIBBLES) << 4);
}

static void put_expert(const cdz_mxfp4 *m, uint8_t *to, const uint8_t *pairs,
                       const uint8_t *exponents)
{
    const size_t in_row = m->k / BLOCK;
    for (size_t j = 0; j < m->n; j++) {
        uint8_t *row = to + (m->paired ? j % 2 * (m->n / 2) + j / 2 : j) * in_row * OURS;
        for (size_t i = 0; i < in_row; i++, row += OURS, pairs += NIBBLES)
            put_block(row, *exponents++, pairs);
    }
}

static cdz_status read_part(const cdz_mxfp4 *m, const cdz_tensor *t, size_t expert, uint8_t *to,
                            cdz_error *err)
{
    const cdz_file *file = &m->tensors->files[t->file];
    const size_t bytes = (size_t)(t->n_bytes / m->n_experts);
    const uint64_t offset = (uint64_t)((const char *)t->data - (const char *)file->data);
    return cdz_file_read_at(file, offset + expert * bytes, to, bytes, err);
}

cdz_status cdz_mxfp4_read(const cdz_mxfp4 *m, cdz_arena *arena, cdz_weight *out, cdz_error *err)
{
    CDZ_TRY(check(m, m->blocks, NIBBLES, err));
    CDZ_TRY(check(m, m->scales, 0, err));
    const size_t n_blocks = m->n * (m->k / BLOCK), each = n_blocks * OURS;
    uint8_t *pairs = malloc(n_blocks * NIBBLES), *exponents = malloc(n_blocks);
    uint8_t *made = cdz_arena_alloc_aligned(arena, m->n_experts * each, 64);
    cdz_status st = pairs && exponents && made
                        ? CDZ_OK
                        : cdz_err_memory_in(err, m->tensors->files[m->blocks->file].path);
    for (size_t e = 0; st == CDZ_OK && e < m->n_experts; e++) {
        st = read_part(m, m->blocks, e, pairs, err);
        if (st == CDZ_OK) st = read_part(m, m->scales, e, exponents, err);
        if (st == CDZ_OK) put_expert(m, made + e * each, pairs, exponents);
        out[e] = (cdz_weight){made + e * each, CDZ_MXFP4, m->n, m->k, CDZ_WEIGHT_ROWS};
    }
    free(pairs);
    free(exponents);
    return st;
}
