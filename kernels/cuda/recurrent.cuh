/* recurrent.cuh - what recurrent layers do beside products: the convolution over a sequence's newest inputs, and the states.
 *
 * Every sum has the order of ref/recurrent.h, whatever the other rows and runs are: a row, and what a run leaves behind, has the
 * CPU's bits. */
#ifndef CDZ_CUDA_RECURRENT_CUH
#define CDZ_CUDA_RECURRENT_CUH

#include "device.h"

/* ---- the convolution: a thread takes a channel, and some rows of a run ---- */

enum { CONV_THREADS = 128, CONV_ROWS = 16 };

struct conv_call {
    float *y;
    size_t ldy;
    const float *x;
    size_t ldx;
    const cdz_state_run *runs;
    cdz_conv how;
    size_t tiles; /* blocks for all channels */
    size_t parts; /* of the longest run; 1: windows are written too */
};

/* What goes in at a row of the run, counted from its first; those before it are in its window. */
__device__ inline float conv_input(const conv_call &c, const cdz_state_run &run, long row,
                                   size_t channel)
{
    if (row < 0) {
        const size_t back = c.how.taps - 1 - (size_t)-row;
        return run.state[c.how.at + back * c.how.channels + channel];
    }
    const size_t at = (run.first + (size_t)row) * c.ldx + channel;
    return c.how.in_gate ? c.x[at] * c.how.in_gate[at] : c.x[at];
}

__device__ inline void conv_row(const conv_call &c, const cdz_state_run &run, long row,
                                size_t channel)
{
    const cdz_conv &how = c.how;
    const long before = (long)how.taps - 1;
    const size_t at = run.first + (size_t)row;
    float sum = 0.0f;
    for (long j = 0; j <= before; j++)
        sum = fmaf(how.w[(size_t)j * how.channels + channel],
                   conv_input(c, run, row - before + j, channel), sum);
    if (how.bias) sum += how.bias[channel];
    if (how.silu) sum = sum / (1.0f + cdz_exp(-sum));
    if (how.out_gate) sum *= how.out_gate[at * c.ldx + channel];
    c.y[at * c.ldy + channel] = sum;
}

/* What is read lies behind what is written. */
__device__ inline void conv_keep(const conv_call &c, const cdz_state_run &run, size_t channel)
{
    const long before = (long)c.how.taps - 1;
    for (long j = 0; j < before; j++)
        run.state[c.how.at + (size_t)j * c.how.channels + channel] =
            conv_input(c, run, (long)run.n - before + j, channel);
}

/* Parts of a run are blocks side by side, all of which may read its window. */
__global__ void __launch_bounds__(CONV_THREADS) convolve(conv_call c)
{
    const size_t part = blockIdx.x % c.parts, of_run = blockIdx.x / c.parts;
    const size_t channel = of_run % c.tiles * CONV_THREADS + threadIdx.x;
    const cdz_state_run run = c.runs[of_run / c.tiles];
    if (channel >= c.how.channels) return;
    const size_t to = (part + 1) * CONV_ROWS < run.n ? (part + 1) * CONV_ROWS : run.n;
    for (size_t row = part * CONV_ROWS; row < to; row++) conv_row(c, run, (long)row, channel);
    if (c.parts == 1) conv_keep(c, run, channel);
}

__global__ void __launch_bounds__(CONV_THREADS) keep_windows(conv_call c)
{
    const size_t channel = blockIdx.x % c.tiles * CONV_THREADS + threadIdx.x;
    const cdz_state_run run = c.runs[blockIdx.x / c.tiles];
    if (channel < c.how.channels) conv_keep(c, run, channel);
}

/* ---- the recurrence: a block takes some columns of a head of a run, four threads a column, a chain each ---- */

/* Keys and queries of some rows go to shared memory together. */
enum {
    RECUR_COLUMNS = 32,
    RECUR_THREADS = RECUR_COLUMNS * (int)CDZ_STATE_CHAINS,
    RECUR_STAGE = 16,
    RECUR_STAGED = 2048 /* keys at once, unless one row has more */
};

struct recur_call {
    float *y;
    size_t ldy;
    const cdz_state_run *runs;
    cdz_recurrence how;
    size_t tiles;   /* blocks for all columns */
    size_t at_once; /* rows that are staged together, at most RECUR_STAGE */
};

/* What a thread has of its column: every fourth number. EACH of them are in registers; 0: they stay where they are. */
template <unsigned EACH> struct recur_cells {
    float held[EACH ? EACH : 1];
    float *at; /* the first */
    size_t n, stride;
};

template <unsigned EACH> __device__ inline unsigned cells(const recur_cells<EACH> &s)
{
    return EACH ? EACH : (unsigned)s.n;
}

template <unsigned EACH> __device__ inline float &cell(recur_cells<EACH> &s, unsigned j)
{
    if constexpr (EACH > 0)
        return s.held[j];
    else
        return s.at[j * s.stride];
}

template <unsigned EACH> __device__ inline void load_cells(recur_cells<EACH> &s)
{
    if constexpr (EACH > 0) {
#pragma unroll
        for (unsigned j = 0; j < EACH; j++) s.held[j] = s.n ? s.at[j * s.stride] : 0.0f;
    }
}

template <unsigned EACH> __device__ inline void store_cells(const recur_cells<EACH> &s)
{
    if constexpr (EACH > 0) {
#pragma unroll
        for (unsigned j = 0; j < EACH; j++)
            if (s.n) s.at[j * s.stride] = s.held[j];
    }
}

/* (0 + 1) + (2 + 3), for all four. */
__device__ inline float fold_chains(float sum)
{
    sum += __shfl_xor_sync(GPU_ALL, sum, 1);
    return sum + __shfl_xor_sync(GPU_ALL, sum, 2);
}

/* Where states fill the registers, the compiler is not to fetch all keys at once. */
template <unsigned EACH> __device__ inline void hold_fetches(unsigned j)
{
    if (EACH > 32 && j % 16 == 15) __syncwarp();
}

/* S *= decay, and what it says of k afterwards. */
template <unsigned EACH>
__device__ inline float decay_cells(recur_cells<EACH> &s, const float *k, float decay)
{
    float sum = 0.0f;
#pragma unroll(EACH ? EACH : 1)
    for (unsigned j = 0; j < cells(s); j++) {
        float &x = cell(s, j);
        x *= decay;
        sum = fmaf(x, k[j * CDZ_STATE_CHAINS], sum);
        hold_fetches<EACH>(j);
    }
    return fold_chains(sum);
}

/* S = S * decay + k d, and what it says of q. */
template <unsigned EACH>
__device__ inline float write_cells(recur_cells<EACH> &s, const float *k, const float *q,
                                    float decay, float d)
{
    float sum = 0.0f;
#pragma unroll(EACH ? EACH : 1)
    for (unsigned j = 0; j < cells(s); j++) {
        float &x = cell(s, j);
        x = fmaf(k[j * CDZ_STATE_CHAINS], d, x * decay);
        sum = fmaf(x, q[j * CDZ_STATE_CHAINS], sum);
        hold_fetches<EACH>(j);
    }
    return fold_chains(sum);
}

/* Of rows of a run, in shared memory. */
struct recur_stage {
    float *k, *q;        /* (at_once, rows) */
    float *decay, *gain; /* (RECUR_THREADS) */
};

__device__ inline void gate_rows(const recur_call &c, const recur_stage &s, size_t head,
                                 size_t first, size_t n)
{
    const cdz_recurrence &how = c.how;
    if (threadIdx.x >= n) return;
    const size_t at = (first + threadIdx.x) * how.heads + head;
    float t = cdz_softplus(how.a[at] + how.shift[head]);
    t = t < how.low ? how.low : t;
    t = t > how.high ? how.high : t;
    s.decay[threadIdx.x] = cdz_exp(how.rate[head] * t);
    s.gain[threadIdx.x] = how.corrects ? cdz_sigmoid(how.b[at]) : t;
}

__device__ inline void stage_rows(const recur_call &c, const recur_stage &s, size_t head,
                                  size_t first, size_t n)
{
    const cdz_recurrence &how = c.how;
    const size_t group = how.groups_alternate ? head % how.groups : head / (how.heads / how.groups);
    for (size_t r = 0; r < n; r++) {
        const size_t from = (first + r) * how.ldk + group * how.rows;
        for (size_t i = threadIdx.x; i < how.rows; i += RECUR_THREADS) {
            s.k[r * how.rows + i] = how.k[from + i];
            s.q[r * how.rows + i] = how.q[from + i];
        }
    }
}

/* By row r of those staged. What has been decayed already is multiplied by one, which changes no number. */
template <unsigned EACH>
__device__ inline float step_cells(recur_cells<EACH> &s, const recur_call &c, const recur_stage &by,
                                   unsigned r, float v)
{
    const unsigned chain = threadIdx.x % CDZ_STATE_CHAINS;
    const float *k = by.k + r * c.how.rows + chain, *q = by.q + r * c.how.rows + chain;
    const float decay = by.decay[r], gain = by.gain[r];
    if (!c.how.corrects) return write_cells(s, k, q, decay, v * gain);
    const float said = decay_cells(s, k, decay);
    return write_cells(s, k, q, 1.0f, (v - said) * gain);
}

/* Threads past the last column go along with nothing. */
template <unsigned EACH>
__device__ inline recur_cells<EACH> cells_of(const recur_call &c, const cdz_state_run &run,
                                             size_t head, size_t column)
{
    const cdz_recurrence &how = c.how;
    const size_t chain = threadIdx.x % CDZ_STATE_CHAINS,
                 rows = how.rows > chain ? (how.rows - chain + 3) / CDZ_STATE_CHAINS : 0;
    recur_cells<EACH> s;
    s.at = run.state + how.at + (head * how.rows + chain) * how.columns + column;
    s.n = column < how.columns ? rows : 0;
    s.stride = CDZ_STATE_CHAINS * how.columns;
    return s;
}

/* n rows of the call from `first` on, which are staged, and whose gates are there. */
template <unsigned EACH>
__device__ inline void recur_rows(const recur_call &c, const recur_stage &stage,
                                  recur_cells<EACH> &s, size_t head, size_t column, size_t first,
                                  unsigned n)
{
    const cdz_recurrence &how = c.how;
    const bool mine = column < how.columns, writes = mine && threadIdx.x % CDZ_STATE_CHAINS == 0;
    const float *v = how.v + first * how.ldv + head * how.columns + column;
    float *y = c.y + first * c.ldy + head * how.columns + column;
    for (unsigned r = 0; r < n; r++, v += how.ldv, y += c.ldy) {
        const float in = mine ? *v : 0.0f;
        float out = step_cells(s, c, stage, r, in);
        if (how.skip) out = fmaf(how.skip[head], in, out);
        if (writes) *y = out;
    }
}

/* The rows of a run that are gated together: keys and queries of some after those of others. */
template <unsigned EACH>
__device__ inline void recur_piece(const recur_call &c, recur_stage stage, recur_cells<EACH> &s,
                                   size_t head, size_t column, size_t first, unsigned n)
{
    const unsigned most = (unsigned)c.at_once;
    for (unsigned from = 0; from < n; from += most) {
        const unsigned now = n - from < most ? n - from : most;
        __syncthreads();
        stage_rows(c, stage, head, first + from, now);
        __syncthreads();
        recur_rows(c, stage, s, head, column, first + from, now);
        stage.decay += most;
        stage.gain += most;
    }
}

/* Gates are made while no state is held: divisions would push it out of the registers. */
template <unsigned EACH> __global__ void __launch_bounds__(RECUR_THREADS) recur(recur_call c)
{
    GPU_SHARED(float, keys);
    __shared__ float decay[RECUR_THREADS], gain[RECUR_THREADS];
    const recur_stage stage = {keys, keys + c.at_once * c.how.rows, decay, gain};
    const size_t of_tile = blockIdx.x / c.tiles, head = of_tile % c.how.heads;
    const size_t column = blockIdx.x % c.tiles * RECUR_COLUMNS + threadIdx.x / CDZ_STATE_CHAINS;
    const cdz_state_run run = c.runs[of_tile / c.how.heads];
    for (unsigned from = 0, n; from < run.n; from += n) {
        n = run.n - from < RECUR_THREADS ? run.n - from : (unsigned)RECUR_THREADS;
        __syncthreads();
        gate_rows(c, stage, head, run.first + from, n);
        recur_cells<EACH> s = cells_of<EACH>(c, run, head, column);
        load_cells(s);
        recur_piece(c, stage, s, head, column, run.first + from, n);
        store_cells(s);
    }
}

#endif
