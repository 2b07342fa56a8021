/* avx512_dot.c - the dot products of every type of weights. */
#include "cpu/avx512_dot.h"

void cdz_avx512_dot_f32(float *y, size_t ldy, const void *w, size_t n, size_t k, const float *x,
                        size_t ldx, size_t m)
{
    dot_any(CDZ_F32, false, y, ldy, w, n, k, x, ldx, m);
}

void cdz_avx512_dot_f16(float *y, size_t ldy, const void *w, size_t n, size_t k, const float *x,
                        size_t ldx, size_t m)
{
    dot_any(CDZ_F16, false, y, ldy, w, n, k, x, ldx, m);
}

void cdz_avx512_dot_bf16(float *y, size_t ldy, const void *w, size_t n, size_t k, const float *x,
                         size_t ldx, size_t m)
{
    dot_any(CDZ_BF16, false, y, ldy, w, n, k, x, ldx, m);
}

/* Four streams are enough where widening takes its time. */
#define BLOCKS(name, dtype, set)                                                                   \
    void set##_dot_##name(float *y, size_t ldy, const void *w, size_t n, size_t k, const float *x, \
                          size_t ldx, size_t m)                                                    \
    {                                                                                              \
        const size_t done = far_rows(4, dtype, false, w, n, k, x, ldx, m, y, ldy);                 \
        const char *rest = (const char *)w + done * cdz_row_bytes(dtype, k);                       \
        far_rows(1, dtype, false, rest, n - done, k, x, ldx, m, y + done, ldy);                    \
    }                                                                                              \
    void set##_widen_##name(float *restrict y, const void *restrict x, size_t n)                   \
    {                                                                                              \
        const size_t whole = has_tail(dtype) ? n / CDZ_LANES * CDZ_LANES : n;                      \
        for (size_t k = 0; k < whole; k += CDZ_LANES)                                              \
            _mm512_storeu_ps(y + k, blocks16(dtype, x, k));                                        \
        if (whole < n)                                                                             \
            _mm512_mask_storeu_ps(y + whole, first_columns(n - whole), blocks16(dtype, x, whole)); \
    }
CDZ_BLOCK_TYPES(BLOCKS, cdz_avx512)
