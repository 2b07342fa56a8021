/* kv_packed.h - where the packed keys and values of one head lie in a span, and how one of them is read. kernels.h says
 * what they stand for.
 *
 * A head's part of a span: keys, then values, each: whole numbers, scales, zeros. Whole numbers lie in runs of eight that fill
 * `bits` bytes, number i of a run in bits [i * bits, (i + 1) * bits), the lowest first. Keys: a run is eight positions of
 * a dim, [span / 8][head_dim]; groups [head_dim / dims][span / positions]. Values: a run is eight dims of a position,
 * [span][head_dim / 8]; groups [span / positions][head_dim / dims]. */
#ifndef CDZ_KV_PACKED_H
#define CDZ_KV_PACKED_H

#include <string.h>

#include "kernel_set.h"

enum { CDZ_PACKED_RUN = 8 };

/* Of the keys or the values of a head: bytes from its beginning. */
typedef struct cdz_packed_side {
    size_t numbers, scales, zeros, end;
    size_t positions, dims; /* of a group */
} cdz_packed_side;

static inline cdz_packed_side cdz_packed_side_at(const cdz_kv_packing *packing,
                                                 const cdz_kv_grouping *grouping, size_t dim,
                                                 size_t from)
{
    const size_t span = cdz_kv_span(packing);
    const size_t groups = span / grouping->positions * (dim / grouping->dims);
    const size_t scales = from + span * dim / CDZ_PACKED_RUN * packing->bits,
                 zeros = scales + groups * sizeof(float);
    return (cdz_packed_side){
        from, scales, zeros, zeros + groups * sizeof(float), grouping->positions, grouping->dims};
}

static inline cdz_packed_side cdz_packed_keys(const cdz_kv_packing *packing, size_t dim)
{
    return cdz_packed_side_at(packing, &packing->keys, dim, 0);
}

static inline cdz_packed_side cdz_packed_values(const cdz_kv_packing *packing, size_t dim)
{
    return cdz_packed_side_at(packing, &packing->values, dim, cdz_packed_keys(packing, dim).end);
}

/* One number: its run and place in it, and its group. */
typedef struct cdz_packed_place {
    size_t run, lane, group;
} cdz_packed_place;

static inline cdz_packed_place cdz_packed_key(const cdz_packed_side *side, size_t span, size_t dim,
                                              size_t within, size_t d)
{
    return (cdz_packed_place){within / CDZ_PACKED_RUN * dim + d, within % CDZ_PACKED_RUN,
                              d / side->dims * (span / side->positions) + within / side->positions};
}

static inline cdz_packed_place cdz_packed_value(const cdz_packed_side *side, size_t dim,
                                                size_t within, size_t d)
{
    return (cdz_packed_place){within * (dim / CDZ_PACKED_RUN) + d / CDZ_PACKED_RUN,
                              d % CDZ_PACKED_RUN,
                              within / side->positions * (dim / side->dims) + d / side->dims};
}

static inline float cdz_packed_read(const cdz_kv_packing *packing, const cdz_packed_side *side,
                                    const char *head, cdz_packed_place place)
{
    const size_t bit = place.lane * packing->bits;
    uint16_t two; /* scales lie behind the last number */
    float scale, zero;
    memcpy(&two, head + side->numbers + place.run * packing->bits + bit / 8, sizeof two);
    memcpy(&scale, head + side->scales + place.group * sizeof scale, sizeof scale);
    memcpy(&zero, head + side->zeros + place.group * sizeof zero, sizeof zero);
    const float q = (float)((uint32_t)two >> bit % 8 & ((1u << packing->bits) - 1));
    if (packing->centred) return (q - zero) * scale;
    const float scaled = q * scale;
    return scaled - zero;
}

/* What a span's keys and values are packed from: the plain blocks of a head, of CDZ_KV_BLOCK positions each. */
typedef struct cdz_packed_source {
    const float *blocks[CDZ_KV_SPAN_MOST / CDZ_KV_BLOCK];
    size_t dim;
} cdz_packed_source;

void cdz_pack_span(const cdz_kv_packing *packing, char *head, const cdz_packed_source *from);

#endif
