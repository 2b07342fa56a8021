/* attend_packed.h - packed keys and values of a tile to float32, in the order of a plain block (kv_layout.h), eight numbers at
 * a time: what cdz_packed_read says of each. The room stays in the first-level cache. */
#ifndef CDZ_ATTEND_PACKED_H
#define CDZ_ATTEND_PACKED_H

#include "cpu/avx2.h"
#include "ref/kv_packed.h"

enum { RUN = CDZ_PACKED_RUN };

/* What the numbers of a side are made of. */
typedef struct packed_from {
    const char *numbers; /* of the span */
    const float *scales, *zeros;
    __m256i shifts, mask;
    size_t bits;
    bool centred;
} packed_from;

static packed_from packed_from_of(const cdz_attend *tile, const cdz_packed_side *side,
                                  size_t position)
{
    const char *head = (const char *)tile->packed_base +
                       (size_t)tile->packed_blocks[position / tile->span] * tile->packed_stride;
    const int bits = (int)tile->packing->bits;
    return (packed_from){
        .numbers = head + side->numbers,
        .scales = (const float *)(const void *)(head + side->scales),
        .zeros = (const float *)(const void *)(head + side->zeros),
        .shifts =
            _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(bits)),
        .mask = _mm256_set1_epi32((1 << bits) - 1),
        .bits = tile->packing->bits,
        .centred = tile->packing->centred,
    };
}

/* The whole numbers of a run. Of fewer than four bytes the rest that is read belongs to what follows: scales at the end. */
CDZ_INLINE __m256 run_of(const packed_from *from, size_t run)
{
    const char *at = from->numbers + run * from->bits;
    if (from->bits == 8)
        return _mm256_cvtepi32_ps(
            _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)at)));
    int32_t four;
    memcpy(&four, at, sizeof four);
    const __m256i all = _mm256_srlv_epi32(_mm256_set1_epi32(four), from->shifts);
    return _mm256_cvtepi32_ps(_mm256_and_si256(all, from->mask));
}

CDZ_INLINE void unpack_run(const packed_from *from, float *to, size_t run, __m256 scale, __m256 zero)
{
    const __m256 q = run_of(from, run);
    _mm256_storeu_ps(to, from->centred ? _mm256_mul_ps(_mm256_sub_ps(q, zero), scale)
                                       : _mm256_sub_ps(_mm256_mul_ps(q, scale), zero));
}

/* Eight positions of the dims of a group: each has its group, or some share theirs. */
static void unpack_key_group(const packed_from *from, const cdz_packed_side *side, size_t span,
                             size_t dim, size_t within, size_t d, float *to)
{
    float scales[RUN], zeros[RUN];
    for (size_t i = 0; i < RUN; i++) {
        const size_t group = cdz_packed_key(side, span, dim, within + i, d).group;
        scales[i] = from->scales[group];
        zeros[i] = from->zeros[group];
    }
    const __m256 scale = _mm256_loadu_ps(scales), zero = _mm256_loadu_ps(zeros);
    for (size_t e = d; e < d + side->dims; e++)
        unpack_run(from, to + e * RUN, within / RUN * dim + e, scale, zero);
}

/* Eight positions that share the group of each dim. */
static void unpack_key_channels(const packed_from *from, const cdz_packed_side *side, size_t span,
                                size_t dim, size_t within, float *to)
{
    const size_t groups = span / side->positions, group = within / side->positions;
    for (size_t d = 0; d < dim; d++)
        unpack_run(from, to + d * RUN, within / RUN * dim + d,
                   _mm256_set1_ps(from->scales[d * groups + group]),
                   _mm256_set1_ps(from->zeros[d * groups + group]));
}

/* n positions, from a multiple of eight, to the room. */
static void unpack_keys(const cdz_attend *tile, size_t position, size_t n)
{
    const size_t dim = tile->head_dim;
    const cdz_packed_side side = cdz_packed_keys(tile->packing, dim);
    const packed_from from = packed_from_of(tile, &side, position);
    float *to = tile->room;
    for (size_t p = position; p < position + n; p += RUN, to += dim * RUN) {
        const size_t within = p % tile->span;
        if (side.dims == 1)
            unpack_key_channels(&from, &side, tile->span, dim, within, to);
        else
            for (size_t d = 0; d < dim; d += side.dims)
                unpack_key_group(&from, &side, tile->span, dim, within, d, to);
    }
}

/* The values of one position. */
CDZ_INLINE void unpack_value(const packed_from *from, const cdz_packed_side *side, size_t dim,
                             size_t within, float *to)
{
    const size_t first = within / side->positions * (dim / side->dims);
    const size_t run = within * (dim / RUN);
    for (size_t d = 0; side->dims == 1 && d < dim; d += RUN)
        unpack_run(from, to + d, run + d / RUN, _mm256_loadu_ps(from->scales + first + d),
                   _mm256_loadu_ps(from->zeros + first + d));
    for (size_t d = 0; side->dims > 1 && d < dim; d += side->dims) {
        const __m256 scale = _mm256_set1_ps(from->scales[first + d / side->dims]),
                     zero = _mm256_set1_ps(from->zeros[first + d / side->dims]);
        for (size_t e = d; e < d + side->dims; e += RUN)
            unpack_run(from, to + e, run + e / RUN, scale, zero);
    }
}

/* A block of positions to the room. */
static void unpack_values(const cdz_attend *tile, size_t block)
{
    const size_t dim = tile->head_dim;
    const cdz_packed_side side = cdz_packed_values(tile->packing, dim);
    const packed_from from = packed_from_of(tile, &side, block);
    for (size_t p = 0; p < CDZ_KV_BLOCK; p++)
        unpack_value(&from, &side, dim, (block + p) % tile->span, tile->room + p * dim);
}

#endif
