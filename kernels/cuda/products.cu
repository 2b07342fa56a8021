/* products.cu - matrix products: own kernels for a few rows, and for all of them when the bits must not
 * hang on the company; the vendor's library for many. */
#include "cuda_backend.h"
#include "products_launch.cuh"

enum { FEW_ROWS = 8 };
static constexpr size_t TILE_BYTES = (size_t)64 << 20;

/* ---- own kernels ---- */

static bool aligned(const void *at, size_t ld)
{
    return reinterpret_cast<uintptr_t>(at) % 16 == 0 && ld % 4 == 0;
}

/* Products of one type that share x, up to PRODUCT_FUSED in a launch; their number. */
static size_t own_products(cuda_backend *b, const cdz_product *products, size_t n, const float *x,
                           size_t ldx, size_t m, const product_choice &choice)
{
    const cdz_dtype dtype = products[0].w->dtype;
    product_call call = {};
    call.choice = choice;
    call.x = x;
    call.ldx = ldx;
    call.k = products[0].w->k;
    call.m = (unsigned)m;
    call.vector = aligned(x, ldx) && call.k % 4 == 0;
    while (call.n_parts < n && call.n_parts < PRODUCT_FUSED &&
           products[call.n_parts].w->dtype == dtype) {
        const cdz_product *p = &products[call.n_parts];
        product_part *part = &call.part[call.n_parts++];
        part->w = static_cast<const uint8_t *>(p->w->data);
        part->bias = p->bias ? p->bias->data : nullptr;
        part->bias_dtype = p->bias ? p->bias->dtype : 0;
        part->y = p->y;
        part->ldy = p->ldy;
        part->n = p->w->n;
        part->first_block = call.blocks;
        call.blocks += (unsigned)products_ceil_div(p->w->n, PRODUCT_ROWS);
        if (dtype < CDZ_N_PLAIN) call.vector = call.vector && aligned(p->w->data, 4);
    }
    if (dtype >= CDZ_N_MADE)
        cuda_products_read(b, dtype, call);
    else if (choice.at)
        cuda_products_chosen(b, dtype, call);
    else if (dtype < CDZ_N_PLAIN)
        cuda_products_plain(b, dtype, call);
    else
        cuda_products_blocks(b, dtype, call);
    return call.n_parts;
}

void cuda_own_products(cuda_backend *b, const cdz_product *products, size_t n, const float *x,
                       size_t ldx, size_t m, product_choice choice)
{
    for (size_t i = 0, done; i < n; i += done) {
        done = own_products(b, products + i, n - i, x, ldx, m, choice);
        if (choice.at) choice.at += done;
        if (choice.bias_at) choice.bias_at += done;
    }
}

/* ---- the library ---- */

static void multiply(cuda_backend *b, const cdz_product *p, size_t first, size_t rows,
                     cdz_dtype dtype, const void *w, const void *x, size_t ldx, size_t m)
{
    gpu_product call = {};
    call.y = p->y + first;
    call.ldy = p->ldy;
    call.x = x;
    call.w = w;
    call.dtype = dtype;
    call.ldx = ldx;
    call.ldw = p->w->k;
    call.m = m;
    call.n = rows;
    call.k = p->w->k;
    gpu_multiply(b->g, &call);
}

/* The type of both operands: that of a plain weight, and bf16 for blocks. */
static cdz_dtype product_type(const cuda_backend *b, cdz_dtype dtype)
{
    if (b->precision == CDZ_PRECISION_F32 || dtype == CDZ_F32) return CDZ_F32;
    return dtype < CDZ_N_PLAIN ? dtype : CDZ_BF16;
}

/* Rows of weights that must be widened, and perhaps rounded again, go through work memory in pieces. */
static void multiply_pieces(cuda_backend *b, const cdz_product *p, cdz_dtype type, const void *x,
                            size_t ldx, size_t m)
{
    const size_t n = p->w->n, k = p->w->k;
    size_t rows = TILE_BYTES / sizeof(float) / k;
    if (rows == 0) rows = 1;
    if (rows > n) rows = n;
    float *wide =
        static_cast<float *>(cuda_work_memory(b, CUDA_WORK_WIDE, rows * k * sizeof(float)));
    void *round = wide;
    if (wide && type != CDZ_F32) round = cuda_work_memory(b, CUDA_WORK_ROUND, rows * k * 2);
    if (!round) return;
    for (size_t first = 0; first < n; first += rows) {
        const size_t now = n - first < rows ? n - first : rows;
        cuda_widen(b, wide, k, p->w, first, nullptr, now);
        if (type != CDZ_F32) cuda_round(b, round, type, wide, k, now, k);
        multiply(b, p, first, now, type, round, x, ldx, m);
    }
}

/* x as the product wants it, rounded once for all products of a type. */
struct inputs {
    const void *at;
    size_t ld;
    cdz_dtype type;
};

static bool round_inputs(cuda_backend *b, inputs *in, cdz_dtype type, const float *x, size_t ldx,
                         size_t m, size_t k)
{
    if (in->at && in->type == type) return true;
    *in = {x, ldx, type};
    if (type == CDZ_F32) return true;
    void *round = cuda_work_memory(b, CUDA_WORK_INPUT, m * k * 2);
    *in = {round, k, type};
    if (round) cuda_round(b, round, type, x, ldx, m, k);
    return round;
}

static void library_product(cuda_backend *b, const cdz_product *p, inputs *in, const float *x,
                            size_t ldx, size_t m)
{
    const cdz_dtype type = product_type(b, p->w->dtype);
    if (!round_inputs(b, in, type, x, ldx, m, p->w->k)) return;
    if (type == p->w->dtype)
        multiply(b, p, 0, p->w->n, type, p->w->data, in->at, in->ld, m);
    else
        multiply_pieces(b, p, type, in->at, in->ld, m);
    if (p->bias) cuda_add_bias(b, p->y, p->ldy, m, p->bias);
}

void cuda_matmul(cdz_backend *base, const cdz_product *products, size_t n, const float *x,
                 size_t ldx, size_t m)
{
    cuda_backend *b = cuda_of(base);
    if (n == 0 || m == 0) return;
    if (m <= FEW_ROWS || b->strict || !gpu_multiplies(b->g)) {
        cuda_own_products(b, products, n, x, ldx, m, {});
        return;
    }
    inputs in = {};
    for (size_t i = 0; i < n; i++) library_product(b, &products[i], &in, x, ldx, m);
}
