/* rows.cu - launches of the kernels that treat every row alone. */
#include "cuda_backend.h"
#include "rows.cuh"

enum { BLOCKS_PER_PROCESSOR = 8 };

static vector_view view_of(const cdz_weight *w)
{
    return {w->data, w->dtype};
}

/* Rows are only read where a kernel's view has no const. */
static row_view rows_of(const float *at, size_t ld)
{
    return {const_cast<float *>(at), ld};
}

/* Enough blocks for n elements, and no more than keep the device busy. */
static gpu_shape elements_shape(const cuda_backend *b, size_t n)
{
    const size_t blocks = (n + ROW_THREADS - 1) / ROW_THREADS;
    const size_t most = (size_t)gpu_processors(b->g) * BLOCKS_PER_PROCESSOR;
    return {blocks < most ? blocks : most, ROW_THREADS, 0};
}

/* ---- norms ---- */

/* As many threads as a short row has use for: its sum takes 16 a chunk. */
static size_t norm_threads(size_t n)
{
    size_t threads = 64;
    while (threads < ROW_THREADS && threads * 4 < n) threads *= 2;
    return threads;
}

void cuda_rmsnorm(cdz_backend *base, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                  const cdz_weight *w, float eps, float offset)
{
    gpu_launch(cuda_of(base)->g, "rmsnorm", rmsnorm, {m, norm_threads(w->k), 0}, row_view{y, ldy},
               rows_of(x, ldx), w->k, view_of(w), eps, offset);
}

void cuda_layernorm(cdz_backend *base, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                    const cdz_weight *w, const cdz_weight *bias, float eps)
{
    gpu_launch(cuda_of(base)->g, "layernorm", layernorm, {m, norm_threads(w->k), 0},
               row_view{y, ldy}, rows_of(x, ldx), w->k, view_of(w), view_of(bias), eps);
}

/* ---- rotation ---- */

void cuda_rope(cdz_backend *base, float *x, size_t ldx, size_t m, size_t n_heads, size_t head_dim,
               const uint32_t *positions, const cdz_rope *rope)
{
    cuda_backend *b = cuda_of(base);
    rope_call call = {
        x,       ldx,     n_heads,     head_dim,          rope->n_rotated / 2,
        nullptr, nullptr, rope->scale, rope->interleaved, rope->regroup && rope->interleaved};
    if (call.half == 0 || m == 0) return;
    call.positions = static_cast<const uint32_t *>(
        cuda_on_device(b, CUDA_POSITIONS, positions, m * sizeof *positions));
    call.inv_freq = static_cast<const float *>(
        cuda_on_device(b, CUDA_FREQUENCIES, rope->inv_freq, call.half * sizeof(float)));
    if (!call.positions || !call.inv_freq) return;
    const size_t most = call.regroup ? CDZ_ROPE_REGROUP / 2 : 256;
    const size_t threads = (call.half + GPU_WARP - 1) / GPU_WARP * GPU_WARP;
    gpu_launch(b->g, "rotate", rotate, {m, threads < most ? threads : most, 0}, call);
}

/* ---- element by element ---- */

template <int O> static void each(cdz_backend *base, const element_call &call)
{
    cuda_backend *b = cuda_of(base);
    gpu_launch(b->g, "each_element", each_element<O>, elements_shape(b, call.m * call.n), call);
}

void cuda_silu_mul(cdz_backend *b, float *y, size_t ldy, const float *gate, const float *up,
                   size_t ldg, size_t m, size_t n)
{
    each<ROW_SILU_MUL>(b, {y, gate, up, ldy, ldg, m, n, 0.0f, 0, {}});
}

void cuda_clamped_mul(cdz_backend *b, float *y, size_t ldy, const float *gate, const float *up,
                      size_t ldg, size_t m, size_t n)
{
    each<ROW_CLAMPED_MUL>(b, {y, gate, up, ldy, ldg, m, n, 0.0f, 0, {}});
}

void cuda_activate(cdz_backend *b, float *y, size_t ldy, const float *gate, const float *up,
                   size_t ldg, size_t m, size_t n, cdz_curve curve)
{
    each<ROW_ACTIVATE>(b, {y, gate, up, ldy, ldg, m, n, 0.0f, curve, {}});
}

void cuda_xielu(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                size_t n, const cdz_xielu *how)
{
    each<ROW_XIELU>(b, {y, x, nullptr, ldy, ldx, m, n, 0.0f, 0, *how});
}

void cuda_add(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m, size_t n)
{
    each<ROW_ADD>(b, {y, x, nullptr, ldy, ldx, m, n, 0.0f, 0, {}});
}

void cuda_scale(cdz_backend *b, float *x, size_t ldx, size_t m, size_t n, float factor)
{
    each<ROW_SCALE>(b, {x, x, nullptr, ldx, ldx, m, n, factor, 0, {}});
}

void cuda_soft_cap(cdz_backend *b, float *x, size_t ldx, size_t m, size_t n, float cap)
{
    each<ROW_SOFT_CAP>(b, {x, x, nullptr, ldx, ldx, m, n, cap, 0, {}});
}

void cuda_add_bias(cuda_backend *b, float *y, size_t ldy, size_t m, const cdz_weight *bias)
{
    gpu_launch(b->g, "add_bias", add_bias, elements_shape(b, m * bias->k), row_view{y, ldy}, m,
               bias->k, view_of(bias));
}

void cuda_round(cuda_backend *b, void *y, cdz_dtype dtype, const float *x, size_t ldx, size_t m,
                size_t n)
{
    gpu_launch(b->g, "round_rows", round_rows, elements_shape(b, m * n), static_cast<uint16_t *>(y),
               rows_of(x, ldx), m, n, (int)dtype);
}

/* ---- tables ---- */

template <int D>
static void widen(cuda_backend *b, float *y, size_t ldy, const cdz_weight *w, size_t first,
                  const int32_t *ids, size_t rows)
{
    const uint8_t *at =
        static_cast<const uint8_t *>(w->data) + first * cdz_row_bytes(w->dtype, w->k);
    gpu_launch(b->g, "gather_rows", gather_rows<D>, {rows, ROW_THREADS, 0}, row_view{y, ldy}, at,
               ids, w->k);
}

void cuda_widen(cuda_backend *b, float *y, size_t ldy, const cdz_weight *w, size_t first,
                const int32_t *ids, size_t rows)
{
    switch (w->dtype) {
#define CASE(D)                                                                                    \
    case D: widen<D>(b, y, ldy, w, first, ids, rows); break;
        CDZ_EACH_TYPE(CASE)
#undef CASE
    default: cuda_note(b, "%s: no rows of type %s", b->name, cdz_dtype_name(w->dtype));
    }
}

void cuda_embed(cdz_backend *base, float *y, size_t ldy, const cdz_weight *table,
                const int32_t *ids, size_t m)
{
    cuda_backend *b = cuda_of(base);
    if (m == 0) return;
    const int32_t *there =
        static_cast<const int32_t *>(cuda_on_device(b, CUDA_IDS, ids, m * sizeof *ids));
    if (there) cuda_widen(b, y, ldy, table, 0, there, m);
}

/* ---- sums ---- */

void cuda_add_scaled(cdz_backend *base, float *y, size_t ldy, const int32_t *to,
                     const float *factors, const float *x, size_t ldx, size_t m, size_t n)
{
    cuda_backend *b = cuda_of(base);
    if (m == 0) return;
    const int32_t *rows =
        static_cast<const int32_t *>(cuda_on_device(b, CUDA_IDS, to, m * sizeof *to));
    const float *shares =
        static_cast<const float *>(cuda_on_device(b, CUDA_FACTORS, factors, m * sizeof *factors));
    if (rows && shares)
        gpu_launch(b->g, "add_scaled_rows", add_scaled_rows, {m, ROW_THREADS, 0}, row_view{y, ldy},
                   rows, shares, rows_of(x, ldx), n);
}
