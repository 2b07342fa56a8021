/* kv_pack.c - a span of keys and values to whole numbers, scales and zeros: the definition, which every kernel set uses.
 * kernels.h says what they are, kv_packed.h where they lie. */
#include <math.h>

#include "ref/kv_packed.h"
#include "ref/ref.h"

typedef struct scaling {
    float scale, zero; /* as they are kept */
    float factor;      /* of x, before it is rounded; of a centred one */
} scaling;

static scaling plain_scaling(float least, float largest, float most)
{
    return (scaling){(largest - least) / most, -least, 0.0f};
}

static scaling centred_scaling(float least, float largest, float most)
{
    const float range = largest - least;
    float factor = range <= 1e-4f ? 1.0f : 1.0f / range * most;
    if (factor > 2e4f) factor = 2e4f;
    return (scaling){1.0f / factor, -least * factor, factor};
}

/* NaN stays out of whole numbers: the scale says it. */
static uint32_t whole(float x, float most)
{
    const float rounded = nearbyintf(x);
    return rounded >= most ? (uint32_t)most : rounded > 0.0f ? (uint32_t)rounded : 0;
}

static uint32_t number_of(const cdz_kv_packing *packing, const scaling *s, float x, float most)
{
    if (!isfinite(s->scale)) return 0;
    if (packing->centred) {
        const float product = x * s->factor;
        return whole(product + s->zero, most);
    }
    return s->scale > 0.0f ? whole((x + s->zero) / s->scale, most) : 0;
}

typedef struct side_of {
    const cdz_kv_packing *packing;
    const cdz_packed_source *from;
    char *head;
    cdz_packed_side side;
    size_t span;
    bool values;
} side_of;

static float number_at(const side_of *s, size_t within, size_t d)
{
    const float *block = s->from->blocks[within / CDZ_KV_BLOCK];
    const size_t dim = s->from->dim, p = within % CDZ_KV_BLOCK;
    if (s->values) return block[CDZ_KV_BLOCK * dim + p * dim + d];
    return block[(p / CDZ_POSITION_GROUP * dim + d) * CDZ_POSITION_GROUP + p % CDZ_POSITION_GROUP];
}

/* A group with anything but finite numbers in it has no range. */
static scaling scaling_of(const side_of *s, size_t within, size_t d, float most)
{
    float least = number_at(s, within, d), largest = least;
    bool finite = true;
    for (size_t p = within; p < within + s->side.positions; p++)
        for (size_t e = d; e < d + s->side.dims; e++) {
            const float x = number_at(s, p, e);
            finite = finite && isfinite(x);
            least = x < least ? x : least;
            largest = x > largest ? x : largest;
        }
    if (!finite || !isfinite(largest - least)) return (scaling){NAN, 0.0f, 0.0f};
    return s->packing->centred ? centred_scaling(least, largest, most)
                               : plain_scaling(least, largest, most);
}

static void put_number(const side_of *s, cdz_packed_place place, uint32_t number)
{
    const size_t bits = s->packing->bits, bit = place.lane * bits;
    char *at = s->head + s->side.numbers + place.run * bits + bit / 8;
    const uint32_t shifted = number << bit % 8;
    *at = (char)((unsigned char)*at | (unsigned char)shifted);
    if (bit % 8 + bits > 8) at[1] = (char)((unsigned char)at[1] | (unsigned char)(shifted >> 8));
}

static cdz_packed_place place_of(const side_of *s, size_t within, size_t d)
{
    return s->values ? cdz_packed_value(&s->side, s->from->dim, within, d)
                     : cdz_packed_key(&s->side, s->span, s->from->dim, within, d);
}

static void pack_group(const side_of *s, size_t within, size_t d)
{
    const float most = (float)((1u << s->packing->bits) - 1);
    const scaling found = scaling_of(s, within, d, most);
    const size_t group = place_of(s, within, d).group;
    memcpy(s->head + s->side.scales + group * sizeof(float), &found.scale, sizeof(float));
    memcpy(s->head + s->side.zeros + group * sizeof(float), &found.zero, sizeof(float));
    for (size_t p = within; p < within + s->side.positions; p++)
        for (size_t e = d; e < d + s->side.dims; e++)
            put_number(s, place_of(s, p, e),
                       number_of(s->packing, &found, number_at(s, p, e), most));
}

static void pack_side(const side_of *s)
{
    memset(s->head + s->side.numbers, 0, s->side.scales - s->side.numbers);
    for (size_t p = 0; p < s->span; p += s->side.positions)
        for (size_t d = 0; d < s->from->dim; d += s->side.dims) pack_group(s, p, d);
}

void cdz_pack_span(const cdz_kv_packing *packing, char *head, const cdz_packed_source *from)
{
    const size_t span = cdz_kv_span(packing);
    pack_side(&(side_of){packing, from, head, cdz_packed_keys(packing, from->dim), span, false});
    pack_side(&(side_of){packing, from, head, cdz_packed_values(packing, from->dim), span, true});
}
