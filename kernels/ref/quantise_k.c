/* quantise_k.c - 256 numbers to a block of Q2_K, Q3_K, Q4_K, Q5_K or Q6_K.
 *
 * Such a block has groups of 16 or 32 with a factor each, with a minimum or around zero, and the
 * factors are quantised again. Each group's factor is searched: candidates round the obvious one,
 * for each the least squares fit to the levels it gives, the best kept. Weights of the fit, number
 * and spacing of candidates are those of the format's reference, sums run in its order. */
#include "ref/quantise.h"

enum { ALL = 256, MOST_GROUP = 32, MOST_GROUPS = 16 };

static const float TINY = 1e-15f; /* a group below this is zero */

/* ---- groups with a minimum ---- */

typedef struct search {
    size_t n;    /* numbers of a group */
    int most;    /* the highest level */
    float first; /* candidate i spreads first + i / 10 + most levels over the range */
    int n_steps;
    bool absolute;   /* errors count by size, not squared */
    bool by_average; /* weights are |x| plus its root mean square, not |x| alone */
} search;

typedef struct fit {
    float scale, min;
    uint8_t level[MOST_GROUP];
} fit;

static float error_of(const search *s, const float *x, const float *w, const fit *f)
{
    float sum = 0;
    for (size_t i = 0; i < s->n; i++) {
        const float diff = f->scale * (float)f->level[i] + f->min - x[i];
        sum += w[i] * (s->absolute ? fabsf(diff) : diff * diff);
    }
    return sum;
}

static void weigh(const search *s, const float *x, float *w)
{
    float squares = 0;
    for (size_t i = 0; i < s->n; i++) squares += x[i] * x[i];
    const float average = s->by_average ? sqrtf(squares / (float)s->n) : 0.0f;
    for (size_t i = 0; i < s->n; i++) w[i] = average + fabsf(x[i]);
}

/* Levels for one candidate, and the factor and minimum that fit them best; false: none does. */
static bool try_candidate(const search *s, const float *x, const float *w, float low, float inverse,
                          const float sums[2], fit *out)
{
    float l1 = 0, l2 = 0, xl = 0;
    for (size_t i = 0; i < s->n; i++) {
        const int l = cdz_nearest(inverse * (x[i] - low), 0, s->most);
        out->level[i] = (uint8_t)l;
        l1 += w[i] * (float)l;
        l2 += w[i] * (float)l * (float)l;
        xl += w[i] * (float)l * x[i];
    }
    const float det = sums[0] * l2 - l1 * l1;
    if (!(det > 0.0f)) return false;
    out->scale = (sums[0] * xl - sums[1] * l1) / det;
    out->min = (l2 * sums[1] - l1 * xl) / det;
    if (out->min <= 0.0f) return true;
    out->min = 0;
    out->scale = xl / l2;
    return true;
}

/* x is about scale * level + min, with min <= 0. A candidate counts from the best minimum so far. */
static void fit_group(const search *s, const float *x, fit *best)
{
    float w[MOST_GROUP] = {0}, low = x[0], high = x[0], sums[2];
    fit candidate;
    weigh(s, x, w);
    sums[0] = w[0];
    sums[1] = w[0] * x[0];
    for (size_t i = 1; i < s->n; i++) {
        if (x[i] < low) low = x[i];
        if (x[i] > high) high = x[i];
        sums[0] += w[i];
        sums[1] += w[i] * x[i];
    }
    if (low > 0.0f) low = 0;
    *best = (fit){.min = low};
    if (!(high > low)) return;
    const float first = (float)s->most / (high - low);
    best->scale = 1 / first;
    for (size_t i = 0; i < s->n; i++)
        best->level[i] = (uint8_t)cdz_nearest(first * (x[i] - low), 0, s->most);
    float least = error_of(s, x, w, best);
    for (int i = 0; i <= s->n_steps; i++) {
        const float inverse = (s->first + 0.1f * (float)i + (float)s->most) / (high - best->min);
        if (!try_candidate(s, x, w, best->min, inverse, sums, &candidate)) continue;
        const float error = error_of(s, x, w, &candidate);
        if (!(error < least)) continue;
        least = error;
        *best = candidate;
    }
}

/* All groups of a block, their factors and minima as levels of two factors of the block. */
typedef struct shifted {
    size_t n_groups;
    uint8_t scale[MOST_GROUPS], min[MOST_GROUPS];
    uint16_t d, dmin;
    uint8_t level[ALL];
} shifted;

static float widen(uint16_t half)
{
    float f;
    cdz_widen(CDZ_F16, &f, &half, 1);
    return f;
}

/* most: the highest level of a factor. What is rounded there is made good in the levels. */
static void fit_shifted(const search *s, int most, const float *x, shifted *out)
{
    float scale[MOST_GROUPS], min[MOST_GROUPS], max_scale = 0, max_min = 0;
    out->n_groups = ALL / s->n;
    for (size_t g = 0; g < out->n_groups; g++) {
        fit f;
        fit_group(s, x + g * s->n, &f);
        memcpy(out->level + g * s->n, f.level, s->n);
        scale[g] = f.scale;
        min[g] = -f.min;
        if (scale[g] > max_scale) max_scale = scale[g];
        if (min[g] > max_min) max_min = min[g];
    }
    const float to_scale = max_scale > 0.0f ? (float)most / max_scale : 0.0f;
    const float to_min = max_min > 0.0f ? (float)most / max_min : 0.0f;
    out->d = cdz_narrow_f16(max_scale / (float)most);
    out->dmin = cdz_narrow_f16(max_min / (float)most);
    for (size_t g = 0; g < out->n_groups; g++) {
        out->scale[g] = (uint8_t)cdz_nearest(to_scale * scale[g], 0, most);
        out->min[g] = (uint8_t)cdz_nearest(to_min * min[g], 0, most);
        const float d = widen(out->d) * (float)out->scale[g];
        const float m = widen(out->dmin) * (float)out->min[g];
        if (d == 0.0f) continue;
        for (size_t i = g * s->n; i < (g + 1) * s->n; i++)
            out->level[i] = (uint8_t)cdz_nearest((x[i] + m) / d, 0, s->most);
    }
}

/* Two bits each of four groups of 32 side by side, twice. */
static void put_pairs(uint8_t *to, const uint8_t level[ALL])
{
    for (size_t h = 0; h < ALL; h += 128, to += 32)
        for (size_t i = 0; i < 32; i++) {
            const uint8_t *l = level + h + i;
            to[i] = (uint8_t)(l[0] | l[32] << 2 | l[64] << 4 | l[96] << 6);
        }
}

static void to_q2_k(uint8_t *b, const float *x)
{
    static const search how = {16, 3, -0.5f, 15, .absolute = true};
    shifted s;
    fit_shifted(&how, 15, x, &s);
    for (size_t g = 0; g < 16; g++) b[g] = (uint8_t)(s.scale[g] | s.min[g] << 4);
    put_pairs(b + 16, s.level);
    cdz_put_u16(b + 80, s.d);
    cdz_put_u16(b + 82, s.dmin);
}

/* Eight factors and minima of six bits in 12 bytes. */
static void put_scales(uint8_t *to, const shifted *s)
{
    for (size_t g = 0; g < 4; g++) {
        to[g] = (uint8_t)(s->scale[g] | (s->scale[g + 4] >> 4) << 6);
        to[g + 4] = (uint8_t)(s->min[g] | (s->min[g + 4] >> 4) << 6);
        to[g + 8] = (uint8_t)((s->scale[g + 4] & 15) | (s->min[g + 4] & 15) << 4);
    }
}

static void to_q4_or_q5_k(uint8_t *b, const float *x, bool five)
{
    static const search four_bits = {32, 15, -1.0f, 20, .by_average = true},
                        five_bits = {32, 31, -0.5f, 15, .by_average = true};
    shifted s;
    fit_shifted(five ? &five_bits : &four_bits, 63, x, &s);
    cdz_put_u16(b, s.d);
    cdz_put_u16(b + 2, s.dmin);
    put_scales(b + 4, &s);
    uint8_t *high = b + 16, *q = five ? b + 48 : b + 16;
    if (five) memset(high, 0, 32);
    for (size_t g = 0; g < 8; g += 2, q += 32)
        for (size_t i = 0; i < 32; i++) {
            const unsigned a = s.level[g * 32 + i], c = s.level[g * 32 + 32 + i];
            q[i] = (uint8_t)((a & 15) | (c & 15) << 4);
            if (five) high[i] = (uint8_t)(high[i] | (a >> 4) << g | (c >> 4) << (g + 1));
        }
}

/* ---- groups around zero ---- */

/* Of 16, the one of largest magnitude. */
static float extreme(const float *x)
{
    float most = 0;
    for (size_t i = 0; i < 16; i++)
        if (fabsf(x[i]) > fabsf(most)) most = x[i];
    return most;
}

/* The squares' weighted fit of 16 numbers to levels [-half, half). */
typedef struct moments {
    float lx, l2;
} moments;

static moments moments_of(const float *x, float inverse, int half)
{
    moments m = {0, 0};
    for (size_t i = 0; i < 16; i++) {
        const int l = cdz_nearest(inverse * x[i], -half, half - 1);
        const float w = x[i] * x[i];
        m.lx += w * x[i] * (float)l;
        m.l2 += w * (float)l * (float)l;
    }
    return m;
}

/* Q6_K: the factor of a group, by trying others near the obvious one. */
static float fit_by_search(const float *x, int half, uint8_t *levels)
{
    const float most = extreme(x);
    float inverse = (float)-half / most;
    memset(levels, 0, 16);
    if (!(fabsf(most) >= TINY)) return 0;
    const moments first = moments_of(x, inverse, half);
    float scale = first.l2 != 0.0f ? first.lx / first.l2 : 0.0f, best = scale * first.lx;
    for (int i = -9; i <= 9; i++) {
        if (i == 0) continue;
        const float candidate = -((float)half + 0.1f * (float)i) / most;
        const moments m = moments_of(x, candidate, half);
        if (!(m.l2 > 0.0f && m.lx * m.lx > best * m.l2)) continue;
        inverse = candidate;
        scale = m.lx / m.l2;
        best = scale * m.lx;
    }
    for (size_t i = 0; i < 16; i++)
        levels[i] = (uint8_t)(cdz_nearest(inverse * x[i], -half, half - 1) + half);
    return scale;
}

/* One number of a group tried at the level that the others' fit gives it; true: it moved. */
static bool improve(const float *x, int *level, size_t i, int half, moments *m)
{
    const float w = x[i] * x[i], lx = m->lx - w * x[i] * (float)level[i];
    if (!(lx > 0.0f)) return false;
    const float l2 = m->l2 - w * (float)level[i] * (float)level[i];
    const int l = cdz_nearest(x[i] * l2 / lx, -half, half - 1);
    if (l == level[i]) return false;
    const moments moved = {lx + w * x[i] * (float)l, l2 + w * (float)l * (float)l};
    if (!(moved.l2 > 0.0f && moved.lx * moved.lx * m->l2 > m->lx * m->lx * moved.l2)) return false;
    level[i] = l;
    *m = moved;
    return true;
}

/* Q3_K: the factor of a group, by moving single levels as long as that helps. */
static float fit_by_moves(const float *x, int half, uint8_t *levels)
{
    const float most = extreme(x);
    int level[16] = {0};
    memset(levels, 0, 16);
    if (!(fabsf(most) >= TINY)) return 0;
    const float inverse = (float)-half / most;
    moments m = moments_of(x, inverse, half);
    for (size_t i = 0; i < 16; i++) level[i] = cdz_nearest(inverse * x[i], -half, half - 1);
    for (int round = 0; round < 5; round++) {
        bool moved = false;
        for (size_t i = 0; i < 16; i++) moved |= improve(x, level, i, half, &m);
        if (!moved) break;
    }
    for (size_t i = 0; i < 16; i++) levels[i] = (uint8_t)(level[i] + half);
    return m.l2 > 0.0f ? m.lx / m.l2 : 0.0f;
}

static void relevel(const float *x, float d, int half, uint8_t *level)
{
    for (size_t i = 0; d != 0.0f && i < 16; i++)
        level[i] = (uint8_t)(cdz_nearest(x[i] / d, -half, half - 1) + half);
}

static void to_q3_k(uint8_t *b, const float *x)
{
    float scale[16];
    uint8_t level[ALL];
    memset(b, 0, 110);
    for (size_t g = 0; g < 16; g++) scale[g] = fit_by_moves(x + g * 16, 4, level + g * 16);
    const float most = extreme(scale), inverse = most != 0.0f ? -32.0f / most : 0.0f;
    const uint16_t d = most != 0.0f ? cdz_narrow_f16(1 / inverse) : 0;
    cdz_put_u16(b + 108, d);
    for (size_t g = 0; g < 16; g++) {
        const int s = most != 0.0f ? cdz_nearest(inverse * scale[g], -32, 31) + 32 : 0;
        uint8_t *low = b + 96 + g % 8, *high = b + 104 + g % 4;
        *low = (uint8_t)(*low | (s & 15) << (g < 8 ? 0 : 4));
        *high = (uint8_t)(*high | (s >> 4) << (g / 4 * 2));
        relevel(x + g * 16, widen(d) * (float)(s - 32), 4, level + g * 16);
    }
    for (size_t i = 0; i < ALL; i++) {
        if (level[i] > 3) b[i % 32] = (uint8_t)(b[i % 32] | 1 << (i / 32));
        level[i] &= 3;
    }
    put_pairs(b + 32, level);
}

static void put_q6(uint8_t *b, const uint8_t level[ALL])
{
    uint8_t *q = b, *top = b + 128;
    for (size_t h = 0; h < ALL; h += 128, q += 64, top += 32)
        for (size_t i = 0; i < 32; i++) {
            const uint8_t *l = level + h + i;
            q[i] = (uint8_t)((l[0] & 15) | (l[64] & 15) << 4);
            q[i + 32] = (uint8_t)((l[32] & 15) | (l[96] & 15) << 4);
            top[i] =
                (uint8_t)(l[0] >> 4 | (l[32] >> 4) << 2 | (l[64] >> 4) << 4 | (l[96] >> 4) << 6);
        }
}

static void to_q6_k(uint8_t *b, const float *x)
{
    float scale[16];
    uint8_t level[ALL];
    memset(b, 0, 210);
    for (size_t g = 0; g < 16; g++) scale[g] = fit_by_search(x + g * 16, 32, level + g * 16);
    const float most = extreme(scale);
    if (!(fabsf(most) >= TINY)) return;
    const float inverse = -128.0f / most;
    const uint16_t d = cdz_narrow_f16(1 / inverse);
    cdz_put_u16(b + 208, d);
    for (size_t g = 0; g < 16; g++) {
        const int s = cdz_nearest(inverse * scale[g], -128, 127);
        b[192 + g] = (uint8_t)s;
        relevel(x + g * 16, widen(d) * (float)s, 32, level + g * 16);
    }
    put_q6(b, level);
}

void cdz_to_large_block(cdz_dtype dtype, uint8_t *b, const float *x)
{
    switch (dtype) {
    case CDZ_Q2_K: to_q2_k(b, x); break;
    case CDZ_Q3_K: to_q3_k(b, x); break;
    case CDZ_Q4_K: to_q4_or_q5_k(b, x, false); break;
    case CDZ_Q5_K: to_q4_or_q5_k(b, x, true); break;
    default: to_q6_k(b, x); break;
    }
}
