/* recurrent.cu - launches of the kernels of recurrent layers.
 *
 * What a call says of its runs goes to the device as one small thing. All layers of a pass say the same, and in decoding all steps
 * do, so it is seldom copied. */
#include "cuda_backend.h"
#include "recurrent.cuh"

static const cdz_state_run *runs_there(cuda_backend *b, const cdz_state_run *runs, size_t n)
{
    return static_cast<const cdz_state_run *>(cuda_on_device(b, CUDA_RUNS, runs, n * sizeof *runs));
}

static size_t longest(const cdz_state_run *runs, size_t n)
{
    size_t most = 0;
    for (size_t i = 0; i < n; i++) most = runs[i].n > most ? runs[i].n : most;
    return most;
}

void cuda_conv(cdz_backend *base, float *y, size_t ldy, const float *x, size_t ldx,
               const cdz_state_run *runs, size_t n_runs, const cdz_conv *how)
{
    cuda_backend *b = cuda_of(base);
    const size_t tiles = (how->channels + CONV_THREADS - 1) / CONV_THREADS,
                 parts = (longest(runs, n_runs) + CONV_ROWS - 1) / CONV_ROWS;
    if (parts == 0) return;
    const cdz_state_run *there = runs_there(b, runs, n_runs);
    if (!there) return;
    const conv_call call = {y, ldy, x, ldx, there, *how, tiles, parts};
    gpu_launch(b->g, "convolve", convolve, {n_runs * tiles * parts, CONV_THREADS, 0}, call);
    if (parts > 1)
        gpu_launch(b->g, "keep_windows", keep_windows, {n_runs * tiles, CONV_THREADS, 0}, call);
}

template <unsigned EACH>
static void recur_by(cuda_backend *b, size_t blocks, const recur_call &call)
{
    const size_t shared = 2 * call.at_once * call.how.rows * sizeof(float);
    gpu_launch(b->g, "recur", recur<EACH>, {blocks, RECUR_THREADS, shared}, call);
}

/* Of a run, that a block stages together. */
static size_t rows_at_once(size_t rows, size_t most)
{
    size_t n = RECUR_STAGED / rows;
    if (n > RECUR_STAGE) n = RECUR_STAGE;
    if (n > most) n = most;
    return n ? n : 1;
}

void cuda_recur(cdz_backend *base, float *y, size_t ldy, const cdz_state_run *runs, size_t n_runs,
                const cdz_recurrence *how)
{
    cuda_backend *b = cuda_of(base);
    const size_t most = longest(runs, n_runs),
                 tiles = (how->columns + RECUR_COLUMNS - 1) / RECUR_COLUMNS;
    if (most == 0) return;
    const cdz_state_run *there = runs_there(b, runs, n_runs);
    if (!there) return;
    const recur_call call = {y, ldy, there, *how, tiles, rows_at_once(how->rows, most)};
    const size_t blocks = n_runs * how->heads * tiles;
    switch (how->rows) {
    case 64: recur_by<16>(b, blocks, call); break;
    case 128: recur_by<32>(b, blocks, call); break;
    case 256: recur_by<64>(b, blocks, call); break;
    default: recur_by<0>(b, blocks, call);
    }
}
