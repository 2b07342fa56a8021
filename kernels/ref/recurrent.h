/* recurrent.h - the kernels of recurrent layers, as plain loops: one text, compiled once per instruction set.
 *
 * Channels and columns are computed alone, and rows one after the other, so vectorised code has the scalar code's bits. A tile of
 * columns stays in the first-level cache while the rows of a run go by. Included by one source file of each set. */
#ifndef CDZ_RECURRENT_H
#define CDZ_RECURRENT_H

#include "kernel_set.h"
#include "ref/scalar_math.h"

/* --- the convolution --- */

/* One row of a tile: the newest input is u, those before it are in past, oldest first. */
static void conv_row(const cdz_conv_tile *t, float *restrict y, float past[][CDZ_STATE_TILE],
                     const float *restrict u, const float *restrict gate)
{
    const cdz_conv *how = t->how;
    const size_t n = t->n;
    float sum[CDZ_STATE_TILE] = {0};
    for (size_t j = 0; j < how->taps; j++) {
        const float *w = how->w + j * how->channels + t->from;
        const float *in = j + 1 < how->taps ? past[j] : u;
        for (size_t i = 0; i < n; i++) sum[i] = fmaf(w[i], in[i], sum[i]);
    }
    if (how->bias)
        for (size_t i = 0; i < n; i++) sum[i] += how->bias[t->from + i];
    if (how->silu)
        for (size_t i = 0; i < n; i++) sum[i] = sum[i] / (1.0f + cdz_exp(-sum[i]));
    if (gate)
        for (size_t i = 0; i < n; i++) sum[i] *= gate[i];
    memcpy(y, sum, n * sizeof *y);
}

static void conv(const cdz_conv_tile *t)
{
    const cdz_conv *how = t->how;
    const size_t before = how->taps - 1, n = t->n;
    float past[CDZ_CONV_TAPS_MOST][CDZ_STATE_TILE], u[CDZ_STATE_TILE];
    float *window = t->run->state + how->at + t->from;
    for (size_t j = 0; j < before; j++) memcpy(past[j], window + j * how->channels, n * sizeof *u);
    for (size_t r = t->run->first; r < (size_t)t->run->first + t->run->n; r++) {
        const size_t at = r * t->ldx + t->from;
        const float *gate = how->out_gate ? how->out_gate + at : NULL;
        memcpy(u, t->x + at, n * sizeof *u);
        if (how->in_gate)
            for (size_t i = 0; i < n; i++) u[i] *= how->in_gate[at + i];
        conv_row(t, t->y + r * t->ldy + t->from, past, u, gate);
        memmove(past[0], past[1], (before - 1) * sizeof past[0]);
        memcpy(past[before - 1], u, n * sizeof *u);
    }
    for (size_t j = 0; j < before; j++) memcpy(window + j * how->channels, past[j], n * sizeof *u);
}

/* --- the recurrence --- */

enum { CDZ_STATE_COLUMNS = 16 }; /* that one step takes */

/* One row of a head, for n columns. */
typedef struct state_step {
    float *state; /* rows `stride` apart */
    size_t rows, stride;
    const float *k, *q, *v;
    float decay, gain;
    bool corrects;
} state_step;

typedef float state_sums[CDZ_STATE_CHAINS][CDZ_STATE_COLUMNS];

static inline void sum_chains(float *restrict y, state_sums s, size_t n)
{
    for (size_t c = 0; c < n; c++) y[c] = (s[0][c] + s[1][c]) + (s[2][c] + s[3][c]);
}

/* S *= decay, and what it says of k afterwards. */
static inline void decay_rows(const state_step *s, float *restrict said, size_t n)
{
    state_sums sums = {{0}};
    size_t i = 0;
    for (; i + CDZ_STATE_CHAINS <= s->rows; i += CDZ_STATE_CHAINS)
        for (size_t l = 0; l < CDZ_STATE_CHAINS; l++) {
            float *row = s->state + (i + l) * s->stride;
            const float k = s->k[i + l];
            for (size_t c = 0; c < n; c++) {
                row[c] *= s->decay;
                sums[l][c] = fmaf(row[c], k, sums[l][c]);
            }
        }
    for (size_t l = 0; i + l < s->rows; l++) {
        float *row = s->state + (i + l) * s->stride;
        for (size_t c = 0; c < n; c++) {
            row[c] *= s->decay;
            sums[l][c] = fmaf(row[c], s->k[i + l], sums[l][c]);
        }
    }
    sum_chains(said, sums, n);
}

/* S = S * decay + k d^T, and what it says of q. */
static inline void write_rows(const state_step *s, float decay, const float *restrict d,
                              float *restrict said, size_t n)
{
    state_sums sums = {{0}};
    size_t i = 0;
    for (; i + CDZ_STATE_CHAINS <= s->rows; i += CDZ_STATE_CHAINS)
        for (size_t l = 0; l < CDZ_STATE_CHAINS; l++) {
            float *row = s->state + (i + l) * s->stride;
            const float k = s->k[i + l], q = s->q[i + l];
            for (size_t c = 0; c < n; c++) {
                row[c] = fmaf(k, d[c], row[c] * decay);
                sums[l][c] = fmaf(row[c], q, sums[l][c]);
            }
        }
    for (size_t l = 0; i + l < s->rows; l++) {
        float *row = s->state + (i + l) * s->stride;
        for (size_t c = 0; c < n; c++) {
            row[c] = fmaf(s->k[i + l], d[c], row[c] * decay);
            sums[l][c] = fmaf(row[c], s->q[i + l], sums[l][c]);
        }
    }
    sum_chains(said, sums, n);
}

/* What has been decayed already is multiplied by one, which changes no number. */
static inline void step_columns(const state_step *s, const float *skip, float *restrict y, size_t n)
{
    float d[CDZ_STATE_COLUMNS], said[CDZ_STATE_COLUMNS];
    if (s->corrects) {
        decay_rows(s, said, n);
        for (size_t c = 0; c < n; c++) d[c] = (s->v[c] - said[c]) * s->gain;
        write_rows(s, 1.0f, d, said, n);
    } else {
        for (size_t c = 0; c < n; c++) d[c] = s->v[c] * s->gain;
        write_rows(s, s->decay, d, said, n);
    }
    if (skip)
        for (size_t c = 0; c < n; c++) said[c] = fmaf(*skip, s->v[c], said[c]);
    memcpy(y, said, n * sizeof *y);
}

/* A full tile's loops have a length that the compiler knows. */
static void step_tile(const state_step *s, const float *skip, float *y, size_t n)
{
    if (n == CDZ_STATE_COLUMNS)
        step_columns(s, skip, y, CDZ_STATE_COLUMNS);
    else
        step_columns(s, skip, y, n);
}

enum { CDZ_STATE_ROWS = 64 }; /* of a run that go by while a tile stays */

/* Decays and gains of rows [first, first + n). */
static void gate_rows(const cdz_recur_head *h, size_t first, size_t n, float *decay, float *gain)
{
    const cdz_recurrence *how = h->how;
    for (size_t r = 0; r < n; r++) {
        const size_t at = (first + r) * how->heads + h->head;
        float t = cdz_softplus(how->a[at] + how->shift[h->head]);
        t = t < how->low ? how->low : t;
        t = t > how->high ? how->high : t;
        decay[r] = cdz_exp(how->rate[h->head] * t);
        gain[r] = how->corrects ? cdz_sigmoid(how->b[at]) : t;
    }
}

static void recur(const cdz_recur_head *h)
{
    const cdz_recurrence *how = h->how;
    const size_t each = how->heads / how->groups, size = how->rows * how->columns;
    const size_t group = how->groups_alternate ? h->head % how->groups : h->head / each;
    const size_t end = (size_t)h->run->first + h->run->n;
    const float *skip = how->skip ? how->skip + h->head : NULL;
    float decay[CDZ_STATE_ROWS], gain[CDZ_STATE_ROWS];
    for (size_t first = h->run->first; first < end; first += CDZ_STATE_ROWS) {
        const size_t n_rows = end - first < CDZ_STATE_ROWS ? end - first : CDZ_STATE_ROWS;
        gate_rows(h, first, n_rows, decay, gain);
        for (size_t c = 0; c < how->columns; c += CDZ_STATE_COLUMNS) {
            const size_t left = how->columns - c, column = h->head * how->columns + c;
            for (size_t r = 0; r < n_rows; r++) {
                const size_t row = first + r, key = row * how->ldk + group * how->rows;
                const state_step step = {.state = h->run->state + how->at + h->head * size + c,
                                         .rows = how->rows,
                                         .stride = how->columns,
                                         .k = how->k + key,
                                         .q = how->q + key,
                                         .v = how->v + row * how->ldv + column,
                                         .decay = decay[r],
                                         .gain = gain[r],
                                         .corrects = how->corrects};
                step_tile(&step, skip, h->y + row * h->ldy + column,
                          left < CDZ_STATE_COLUMNS ? left : CDZ_STATE_COLUMNS);
            }
        }
    }
}

#endif
