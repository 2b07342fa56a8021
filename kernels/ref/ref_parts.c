/* ref_parts.c - products of weights in bf16 with activations in parts of bf16: what the numbers are (kernels.h). */
#include "ref/ref.h"
#include "ref/scalar_math.h"

enum { PAIRS = CDZ_PART_COLUMNS / 2, ROWS = CDZ_PART_ROWS };

/* A pair of columns of one part. */
static uint16_t *pair_of(uint16_t *group, size_t part, size_t pair, size_t row)
{
    return group + ((part * PAIRS + pair) * ROWS + row) * 2;
}

static void split(uint16_t *to, size_t step, float x, size_t parts)
{
    float left = x;
    for (size_t i = parts; i-- > 0;) {
        const uint16_t part = cdz_narrow_bf16(left);
        const float wide = cdz_widen_bf16(part);
        to[i * step] = part;
        left = isfinite(wide) ? left - wide : 0.0f;
    }
}

void cdz_ref_pack_parts(uint16_t *to, const float *x, size_t ldx, size_t rows, size_t k,
                        size_t parts)
{
    memset(to, 0, cdz_tile_numbers(k, parts) * sizeof *to);
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < k; i++) {
            uint16_t *group = to + i / CDZ_PART_COLUMNS * parts * CDZ_PART_COLUMNS * ROWS;
            split(pair_of(group, 0, i % CDZ_PART_COLUMNS / 2, r) + i % 2, CDZ_PART_COLUMNS * ROWS,
                  x[r * ldx + i], parts);
        }
}

static float flushed(uint16_t h)
{
    return cdz_small_to_zero(cdz_widen_bf16(h));
}

/* Columns 32 g to 32 g + 31 of a weight row by one part of one activation row. */
static float add_group(float y, const uint16_t *w, size_t columns, const uint16_t *x)
{
    float sum[2] = {0.0f, 0.0f};
    for (size_t i = 0; i < CDZ_PART_COLUMNS; i++) {
        const float a = i < columns ? flushed(w[i]) : 0.0f;
        const float b = flushed(x[i / 2 * ROWS * 2 + i % 2]);
        sum[i % 2] = cdz_small_to_zero(fmaf(a, b, sum[i % 2]));
    }
    return cdz_small_to_zero(y + cdz_small_to_zero(sum[0] + sum[1]));
}

static float go_on(const cdz_parts_product *p, float y, size_t row, size_t r)
{
    const uint16_t *w = (const uint16_t *)(const void *)(p->w + row * p->stride);
    const uint16_t *x = p->x + r / ROWS * p->tile_step + r % ROWS * 2;
    for (size_t i = 0; i < p->k; i += CDZ_PART_COLUMNS)
        for (size_t part = 0; part < p->parts; part++, x += CDZ_PART_COLUMNS * ROWS)
            y = add_group(y, w + i, p->k - i < CDZ_PART_COLUMNS ? p->k - i : CDZ_PART_COLUMNS, x);
    return y;
}

void cdz_ref_parts_product(const cdz_parts_product *p)
{
    for (size_t j = 0; j < p->n; j++)
        for (size_t r = 0; r < p->m; r++) {
            float *sum = p->sums + j * p->tiles * ROWS + r;
            *sum = go_on(p, p->first ? 0.0f : *sum, j, r);
            if (p->last) p->y[r * p->ldy + j] = *sum;
        }
}
