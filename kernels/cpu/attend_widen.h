/* attend_widen.h - blocks of keys and values in Q8_0 and Q4_0 widened once for all queries of a tile, in the order of a plain block
 * (kv_layout.h): the room stays in the first-level cache, and each few queries that are computed at once would widen them again. */
#ifndef CDZ_ATTEND_WIDEN_H
#define CDZ_ATTEND_WIDEN_H

#include "cpu/ahead.h"
#include "cpu/avx2.h"
#include "ref/kv_layout.h"

enum { AT_A_TIME = 8 }; /* numbers */

/* Eight bytes, or the lower or upper halves of eight, each 8 too great. */
CDZ_INLINE __m256 of_bytes(const char *at)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)at)));
}

CDZ_INLINE __m256 of_halves(const char *at, bool upper)
{
    const __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)at));
    const __m256i half =
        upper ? _mm256_srli_epi32(v, 4) : _mm256_and_si256(v, _mm256_set1_epi32(15));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(half, _mm256_set1_epi32(8)));
}

/* The keys of a run at eight positions. */
CDZ_INLINE void widen_key_run(cdz_dtype type, float *to, const char *from)
{
    const __m256 factors = load8(CDZ_F16, from, 0);
    const size_t rows = cdz_kv_run_bytes(type);
    from += CDZ_KV_FACTORS;
    for (size_t d = 0; d < rows; d++, from += AT_A_TIME) {
        const __m256 low = type == CDZ_Q8_0 ? of_bytes(from) : of_halves(from, false);
        _mm256_storeu_ps(to + d * AT_A_TIME, _mm256_mul_ps(low, factors));
        if (type == CDZ_Q4_0)
            _mm256_storeu_ps(to + (d + rows) * AT_A_TIME,
                             _mm256_mul_ps(of_halves(from, true), factors));
    }
}

/* The values of a run at one position. */
CDZ_INLINE void widen_value_run(cdz_dtype type, float *to, const char *from, __m256 factor)
{
    const size_t n = cdz_kv_run_bytes(type);
    for (size_t d = 0; d < n; d += AT_A_TIME) {
        const __m256 low = type == CDZ_Q8_0 ? of_bytes(from + d) : of_halves(from + d, false);
        _mm256_storeu_ps(to + d, _mm256_mul_ps(low, factor));
        if (type == CDZ_Q4_0)
            _mm256_storeu_ps(to + n + d, _mm256_mul_ps(of_halves(from + d, true), factor));
    }
}

/* n runs of the keys of eight positions. At `ahead` lies what is widened some blocks later, NULL: nothing; it is asked for some at a
 * time: all of a block's would keep the loads of this one waiting. */
CDZ_INLINE void widen_key_runs(cdz_dtype type, float *to, const char *from, size_t n,
                               const char *ahead)
{
    const size_t bytes = CDZ_KV_FACTORS + cdz_kv_run_bytes(type) * CDZ_POSITION_GROUP;
    for (size_t i = 0; i < n; i++) {
        if (ahead) cdz_ask_lines(ahead + i * bytes, bytes);
        widen_key_run(type, to + i * CDZ_KV_RUN * CDZ_POSITION_GROUP, from + i * bytes);
    }
}

/* The values of a block, dims by dims. */
CDZ_INLINE void widen_value_runs(cdz_dtype type, float *to, const char *from, size_t dim,
                                 const char *ahead)
{
    const size_t n = cdz_kv_run_bytes(type), runs = dim / CDZ_KV_RUN;
    const char *numbers = from + 2 * dim;
    if (ahead) cdz_ask_lines(ahead, 2 * dim);
    for (size_t r = 0; r < runs; r++) {
        float factors[CDZ_KV_BLOCK];
        for (size_t p = 0; p < CDZ_KV_BLOCK; p += AT_A_TIME)
            _mm256_storeu_ps(factors + p, load8(CDZ_F16, from, r * CDZ_KV_BLOCK + p));
        for (size_t p = 0; p < CDZ_KV_BLOCK; p++) {
            if (ahead && r == 0) cdz_ask_lines(ahead + 2 * dim + p * runs * n, runs * n);
            widen_value_run(type, to + p * dim + r * CDZ_KV_RUN, numbers + (p * runs + r) * n,
                            _mm256_set1_ps(factors[p]));
        }
    }
}

#endif
