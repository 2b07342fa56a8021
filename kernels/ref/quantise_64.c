/* quantise_64.c - rows to bitsandbytes' types: the nearest level of a block's factor, ties to the
 * lower one; and whole numbers of a row's factor. */
#include "ref/quantise.h"

enum { BLOCK = 64 };

/* Between levels n and n + 1, in ascending order: as bitsandbytes' kernels spell the middles. */
static const float nf4_middles[15] = {
    -0.8480964004993439f,  -0.6106329262256622f,  -0.4599952697753906f,   -0.33967943489551544f,
    -0.23460740596055984f, -0.13791173323988914f, -0.045525018125772476f, 0.03979014977812767f,
    0.1202552504837513f,   0.2035212516784668f,   0.2920137718319893f,    0.3893125355243683f,
    0.5016634166240692f,   0.6427869200706482f,   0.8614784181118011f};

/* The same for fp4's magnitudes, which ascend as 0, 1, 6, 7, 4, 5, 2, 3. */
static const float fp4_middles[7] = {0.00260417f, 0.0859375f, 0.20833333f, 0.29166667f,
                                     0.4166667f,  0.583333f,  0.8333333f};
static const uint8_t fp4_codes[8] = {0, 1, 6, 7, 4, 5, 2, 3};

static uint8_t nf4_code(float v)
{
    unsigned code = 0;
    for (size_t i = 0; i < 15; i++) code += v > nf4_middles[i];
    return (uint8_t)code;
}

static uint8_t fp4_code(float v)
{
    size_t rank = 0;
    for (size_t i = 0; i < 7; i++) rank += fabsf(v) > fp4_middles[i] ? 1 : 0;
    const unsigned sign = v < 0.0f ? 8 : 0;
    return (uint8_t)(fp4_codes[rank] | sign);
}

static float largest(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > most) most = fabsf(x[i]);
    return most;
}

static void put_nibbles(cdz_dtype dtype, uint8_t *b, const float *x)
{
    const float most = largest(x, BLOCK), inverse = most > 0.0f ? 1.0f / most : 0.0f;
    memcpy(b, &most, sizeof most);
    for (size_t i = 0; i < BLOCK / 2; i++) {
        const float first = x[2 * i] * inverse, second = x[2 * i + 1] * inverse;
        const unsigned high = dtype == CDZ_NF4 ? nf4_code(first) : fp4_code(first);
        const unsigned low = dtype == CDZ_NF4 ? nf4_code(second) : fp4_code(second);
        b[4 + i] = (uint8_t)(high << 4 | low);
    }
}

void cdz_to_blocks_64(cdz_dtype dtype, uint8_t *b, const float *x, size_t n)
{
    const float most = dtype == CDZ_INT8 ? largest(x, n) : 0.0f;
    const float inverse = most > 0.0f ? 127.0f / most : 0.0f;
    for (size_t at = 0; at < n; at += BLOCK, b += cdz_dtype_bytes(dtype)) {
        if (dtype != CDZ_INT8) {
            put_nibbles(dtype, b, x + at);
            continue;
        }
        memcpy(b, &most, sizeof most);
        for (size_t i = 0; i < BLOCK; i++)
            b[4 + i] = (uint8_t)cdz_nearest(x[at + i] * inverse, -127, 127);
    }
}
