/* cpu_backend.h - the CPU backend's own structure, for the files that implement its operations. */
#ifndef CDZ_CPU_BACKEND_H
#define CDZ_CPU_BACKEND_H

#include "cpu/numa.h"
#include "cpu/pool.h"
#include "kernel_set.h"

typedef struct cpu_backend {
    cdz_backend base; /* first: a cdz_backend * is a cpu_backend * */
    cdz_backend_api api;
    const cdz_kernel_set *set;
    cdz_pool *pool;
    uint32_t n_kv; /* stores made so far: names them for await_readers */
    cdz_numa numa; /* of no nodes: memory and threads are left where they are */
} cpu_backend;

enum {
    CDZ_M_BLOCK =
        516, /* activation rows of one packed block: a pass of 512 is one; 12, 6 and 4 divide it */
    CDZ_OUT_FLOATS = CDZ_M_BLOCK * CDZ_BLOCK_ROWS, /* outputs of a chunk, in scratch */
    CDZ_PARTS_FLOATS = 32768, /* of a chunk by activations in parts: sums, and as many outputs */
    CDZ_ATTEND_FEW = 8, /* queries of a tile for whose scores there is room however much they see */
    CDZ_ATTEND_SCORES = 262144, /* of a tile of more, together: a megabyte */
    CDZ_ALONE_WORK = 65536      /* bytes of weights times rows below which no thread is called */
};

static inline size_t cdz_ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static inline size_t cdz_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Scratch of a thread: outputs, then packed weights; or outputs, queries and attention scores. */
size_t cdz_matmul_scratch_bytes(void);

cpu_backend *cdz_cpu(cdz_backend *b);

/* backend.c: cdz_backend_api.spread */
void cdz_cpu_spread_pages(cdz_backend *b, void *memory, size_t bytes);

/* Of cdz_cpu_matmul, the products of a set whose weights have a form for int8 activations. */
void cdz_cpu_matmul_int8(cpu_backend *cpu, const cdz_product *products, size_t n, const float *x,
                         size_t ldx, size_t m);

/* The same of those for activations in parts. */
void cdz_cpu_matmul_one_part(cpu_backend *cpu, const cdz_product *products, size_t n,
                             const float *x, size_t ldx, size_t m);
void cdz_cpu_matmul_three_parts(cpu_backend *cpu, const cdz_product *products, size_t n,
                                const float *x, size_t ldx, size_t m);

/* y (m, n) += bias[from, from + n) on every row; none where data is NULL. */
void cdz_add_bias(const cdz_kernel_set *set, float *y, size_t ldy, size_t m, const cdz_weight *bias,
                  size_t from, size_t n);

void cdz_cpu_matmul(cdz_backend *b, const cdz_product *products, size_t n, const float *x,
                    size_t ldx, size_t m);

void cdz_cpu_to_panels(cdz_backend *b, cdz_dtype dtype, void *to, const void *rows, size_t n,
                       size_t k);

cdz_kv *cdz_cpu_kv_create(cdz_backend *b, const cdz_kv_shape *shape, size_t n_blocks);
void cdz_cpu_kv_destroy(cdz_backend *b, cdz_kv *kv);
size_t cdz_cpu_kv_block_bytes(cdz_backend *b, const cdz_kv_shape *shape);
void cdz_cpu_kv_copy(cdz_backend *b, cdz_kv *kv, int32_t to, int32_t from);
void cdz_cpu_kv_read(cdz_backend *b, const cdz_kv *kv, int32_t block, void *to);
void cdz_cpu_kv_restore(cdz_backend *b, cdz_kv *kv, int32_t block, const void *from);
void cdz_cpu_kv_get(cdz_backend *b, const cdz_kv *kv, size_t layer, size_t head,
                    const int32_t *blocks, size_t n, float *k, float *v);
void cdz_cpu_kv_keep(cdz_backend *b, cdz_kv *kv, size_t layer, size_t head, const int32_t *blocks,
                     const uint32_t *from, size_t n);
void cdz_cpu_kv_put_keys(cdz_backend *b, cdz_kv *kv, size_t layer, size_t head,
                         const int32_t *blocks, size_t n, const float *k);
void cdz_cpu_kv_write(cdz_backend *b, cdz_kv *kv, size_t layer, const float *k, size_t ldk,
                      const float *v, size_t ldv, const cdz_kv_row *rows, size_t m);
cdz_kv *cdz_cpu_packed_create(cdz_backend *b, const cdz_kv_shape *shape,
                              const cdz_kv_packing *packing, size_t n_blocks);
size_t cdz_cpu_packed_block_bytes(cdz_backend *b, const cdz_kv_shape *shape,
                                  const cdz_kv_packing *packing);
void cdz_cpu_kv_pack(cdz_backend *b, cdz_kv *packed, const cdz_kv *kv, size_t layer,
                     const cdz_kv_row *rows, const int32_t *const *packed_blocks, size_t m);
void cdz_cpu_attention_weights(cdz_backend *b, float *out, size_t ldo, const float *q,
                               const cdz_kv *kv, size_t layer, const cdz_kv_row *row,
                               const cdz_attention *how);
void cdz_cpu_attention(cdz_backend *b, float *out, size_t ldo, const float *q, size_t ldq,
                       const cdz_kv *kv, size_t layer, const cdz_kv_row *rows, size_t m,
                       const cdz_attention *how);

void cdz_cpu_conv(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx,
                  const cdz_state_run *runs, size_t n_runs, const cdz_conv *how);
void cdz_cpu_recur(cdz_backend *b, float *y, size_t ldy, const cdz_state_run *runs, size_t n_runs,
                   const cdz_recurrence *how);

/* The store as kv.c lays it out. */
struct cdz_kv {
    cdz_kv_shape shape;
    cdz_kv_packing packing; /* of a packed one; bits 0: a plain one */
    size_t n_blocks;
    size_t head_bytes;  /* keys and values of one head of one layer in a block */
    size_t block_bytes; /* all heads of all layers */
    uint64_t name;      /* for await_readers: << 32, the layer + 1 below it */
    /* (n_blocks, n_layers, n_kv_heads), each: keys and values as ref/kv_layout.h or ref/kv_packed.h says */
    void *memory;
};

/* Where a row of a layer and head lies among the sequence's entries, and the head of the block that holds an entry. */
static inline size_t cdz_cpu_entry(const cdz_kv *kv, size_t layer, size_t head,
                                   const cdz_kv_row *row)
{
    return row->position - (row->less ? row->less[layer * kv->shape.n_kv_heads + head] : 0);
}

static inline char *cdz_cpu_kv_head(const cdz_kv *kv, size_t layer, size_t head,
                                    const int32_t *blocks, size_t entry)
{
    return (char *)kv->memory + (size_t)blocks[entry / CDZ_KV_BLOCK] * kv->block_bytes +
           (layer * kv->shape.n_kv_heads + head) * kv->head_bytes;
}

/* Memory for `bytes` in a store that is filled in otherwise, and for threads to attend to `positions` of it; NULL, and the store
 * is freed: out of memory. */
cdz_kv *cdz_cpu_open_store(cdz_backend *b, cdz_kv *kv, size_t bytes, size_t positions);

void cdz_cpu_embed(cdz_backend *b, float *y, size_t ldy, const cdz_weight *table,
                   const int32_t *ids, size_t m);
void cdz_cpu_rmsnorm(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                     const cdz_weight *w, float eps, float offset);
void cdz_cpu_layernorm(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                       const cdz_weight *w, const cdz_weight *bias, float eps);
void cdz_cpu_activate(cdz_backend *b, float *y, size_t ldy, const float *gate, const float *up,
                      size_t ldg, size_t m, size_t n, cdz_curve curve);
void cdz_cpu_xielu(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                   size_t n, const cdz_xielu *how);
void cdz_cpu_clamped_mul(cdz_backend *b, float *y, size_t ldy, const float *gate, const float *up,
                         size_t ldg, size_t m, size_t n);
void cdz_cpu_scale(cdz_backend *b, float *x, size_t ldx, size_t m, size_t n, float factor);
void cdz_cpu_soft_cap(cdz_backend *b, float *x, size_t ldx, size_t m, size_t n, float cap);
void cdz_cpu_route(cdz_backend *b, float *weights, int32_t *ids, size_t k, const float *scores,
                   size_t lds, size_t m, size_t n, bool normalise);
void cdz_cpu_add_scaled(cdz_backend *b, float *y, size_t ldy, const int32_t *to,
                        const float *factors, const float *x, size_t ldx, size_t m, size_t n);
void cdz_cpu_rope(cdz_backend *b, float *x, size_t ldx, size_t m, size_t n_heads, size_t head_dim,
                  const uint32_t *positions, const cdz_rope *rope);
void cdz_cpu_silu_mul(cdz_backend *b, float *y, size_t ldy, const float *gate, const float *up,
                      size_t ldg, size_t m, size_t n);
void cdz_cpu_add(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                 size_t n);

#endif
