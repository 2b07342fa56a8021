/* cut.h - temperature, top-k and top-p of one row, in transformers' order and with the bits of its processors. */
#ifndef CDZ_HOST_VEC_CUT_H
#define CDZ_HOST_VEC_CUT_H

#include "cadenza/ext/vec.h"

/* temperature above 0; top_k 0: all stay; top_p 1: the same. What goes is -inf. scratch: cdz_vec_scratch(n) bytes. */
static inline void cdz_vec_cut(const cdz_vec *vec, float *x, size_t n, double temperature,
                               size_t top_k, double top_p, void *scratch)
{
    if (temperature != 1.0) vec->div(x, n, (float)temperature);
    if (top_k > 0 && top_k < n) vec->keep_topk(x, n, top_k, scratch);
    if (top_p < 1.0) vec->keep_topp(x, n, top_p, 1, scratch);
}

#endif
