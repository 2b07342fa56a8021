/* cuda_backend.h - what the files of the CUDA backend share: the backend itself, its memory, and the
 * operations that its table names. */
#ifndef CDZ_CUDA_BACKEND_H
#define CDZ_CUDA_BACKEND_H

#include "gpu.h"

enum {
    CUDA_STAGE_BYTES = 4 << 20, /* of either half of the pinned ring */
    CUDA_KINDS = 7,
    CUDA_SMALL = 8, /* places of a kind */
    CUDA_BRINGS = 32,
    CUDA_TROUBLE = 512,
};

/* Pinned memory that copies to the device go through. A half is filled again once the device has read it. */
struct cuda_stage {
    char *half[2];
    gpu_event *read[2];
    size_t used;
    unsigned now;
};

/* Something small that a call gave in host memory, and its copy on the device. Layers give the same
 * again and again: what has the content of a copy is not copied. A step, from one wait to the next, gives
 * like things in like order, so what is new takes the first place of its kind that this step has not used:
 * then launches have the arguments they had a step before. */
enum cuda_small_kind {
    CUDA_IDS,
    CUDA_POSITIONS,
    CUDA_FREQUENCIES,
    CUDA_FACTORS,
    CUDA_ROWS,
    CUDA_RUNS,
    CUDA_MASKS,
};
struct cuda_small {
    char *host;
    void *device;
    size_t bytes, room;
    uint64_t step; /* that used it last */
};

/* A copy to the host that nobody has waited for yet, in pinned memory of its own. */
struct cuda_bringing {
    uint64_t ticket; /* 0: the place is free */
    void *to;
    size_t bytes, room;
    char *pinned; /* (room) */
    gpu_event *done;
};

/* Work memory by use. */
enum cuda_work {
    CUDA_WORK_WIDE,
    CUDA_WORK_ROUND,
    CUDA_WORK_INPUT,
    CUDA_WORK_RESULT,
    CUDA_WORK_EXPERTS,
    CUDA_WORKS,
};

struct cuda_block; /* of weights */

struct cuda_backend {
    cdz_backend base;
    cdz_backend_api api;
    char name[192];
    gpu *g;
    cdz_precision precision;
    bool strict;
    char trouble[CUDA_TROUBLE];
    cuda_stage stage;
    cuda_small small[CUDA_KINDS][CUDA_SMALL];
    cuda_bringing bringing[CUDA_BRINGS];
    uint64_t tickets; /* of copies, from 1 */
    uint64_t step;    /* counts what the host reads: waits, and copies it will wait for; from 1 */
    unsigned next;    /* the place to overwrite when a step has used all of a kind */
    cuda_block *blocks;
    void *work[CUDA_WORKS]; /* grown on demand */
    size_t work_bytes[CUDA_WORKS];
    char *scratch; /* host memory to put things together in */
    size_t scratch_bytes;
};

static inline cuda_backend *cuda_of(cdz_backend *b)
{
    return reinterpret_cast<cuda_backend *>(b);
}

/* ---- memory.cu ---- */

bool cuda_stage_open(cuda_backend *b);
void cuda_memory_close(cuda_backend *b);
/* The first trouble stays. */
void cuda_note(cuda_backend *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Work memory of at least so many bytes, whose content lasts until the next call for that use; NULL with a
 * noted trouble. */
void *cuda_work_memory(cuda_backend *b, cuda_work use, size_t bytes);
char *cuda_scratch(cuda_backend *b, size_t bytes);
/* Where this content lies on the device, until other content of its kind has pushed it out: for launches of
 * the same call. NULL with a noted trouble. */
const void *cuda_on_device(cuda_backend *b, cuda_small_kind kind, const void *data, size_t bytes);

void *cuda_alloc(cdz_backend *b, size_t bytes);
void cuda_free(cdz_backend *b, void *memory);
void cuda_sync(cdz_backend *b);
void cuda_upload(cdz_backend *b, void *to, const void *from, size_t bytes);
void cuda_download(cdz_backend *b, void *to, const void *from, size_t bytes);
void cuda_copy(cdz_backend *b, void *to, const void *from, size_t bytes);
void cuda_clear(cdz_backend *b, void *to, size_t bytes);
const void *cuda_place(cdz_backend *b, const void *data, size_t bytes);
void cuda_unplace(cdz_backend *b, const void *placed);
void cuda_memory(const cdz_backend *b, size_t *free_bytes, size_t *total_bytes);

/* ---- bring.cu ---- */

uint64_t cuda_bring(cdz_backend *b, void *to, const void *from, size_t bytes);
void cuda_arrive(cdz_backend *b, uint64_t ticket);
void cuda_bring_close(cuda_backend *b);

/* ---- products.cu ---- */

void cuda_matmul(cdz_backend *b, const cdz_product *products, size_t n, const float *x, size_t ldx,
                 size_t m);

/* ---- rows.cu ---- */

/* y (rows, n) from rows of a weight, widened; ids on the device, or NULL: rows from `first` on. */
void cuda_widen(cuda_backend *b, float *y, size_t ldy, const cdz_weight *w, size_t first,
                const int32_t *ids, size_t rows);
void cuda_round(cuda_backend *b, void *y, cdz_dtype dtype, const float *x, size_t ldx, size_t m,
                size_t n);
void cuda_add_bias(cuda_backend *b, float *y, size_t ldy, size_t m, const cdz_weight *bias);

void cuda_embed(cdz_backend *b, float *y, size_t ldy, const cdz_weight *table, const int32_t *ids,
                size_t m);
void cuda_rmsnorm(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                  const cdz_weight *w, float eps, float offset);
void cuda_layernorm(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                    const cdz_weight *w, const cdz_weight *bias, float eps);
void cuda_rope(cdz_backend *b, float *x, size_t ldx, size_t m, size_t n_heads, size_t head_dim,
               const uint32_t *positions, const cdz_rope *rope);
void cuda_silu_mul(cdz_backend *b, float *y, size_t ldy, const float *gate, const float *up,
                   size_t ldg, size_t m, size_t n);
void cuda_clamped_mul(cdz_backend *b, float *y, size_t ldy, const float *gate, const float *up,
                      size_t ldg, size_t m, size_t n);
void cuda_activate(cdz_backend *b, float *y, size_t ldy, const float *gate, const float *up,
                   size_t ldg, size_t m, size_t n, cdz_curve curve);
void cuda_xielu(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                size_t n, const cdz_xielu *how);
void cuda_add(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m, size_t n);
void cuda_scale(cdz_backend *b, float *x, size_t ldx, size_t m, size_t n, float factor);
void cuda_soft_cap(cdz_backend *b, float *x, size_t ldx, size_t m, size_t n, float cap);
void cuda_add_scaled(cdz_backend *b, float *y, size_t ldy, const int32_t *to, const float *factors,
                     const float *x, size_t ldx, size_t m, size_t n);

/* ---- experts.cu ---- */

void cuda_route(cdz_backend *b, float *weights, int32_t *ids, size_t k, const float *scores,
                size_t lds, size_t m, size_t n, bool normalise);
bool cuda_experts(cdz_backend *b, float *y, size_t ldy, const cdz_experts *experts,
                  const float *scores, size_t lds, const float *x, size_t ldx, size_t m);

/* ---- recurrent.cu ---- */

void cuda_conv(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx,
               const cdz_state_run *runs, size_t n_runs, const cdz_conv *how);
void cuda_recur(cdz_backend *b, float *y, size_t ldy, const cdz_state_run *runs, size_t n_runs,
                const cdz_recurrence *how);

/* ---- scores.cu ---- */

void cuda_argmax(cdz_backend *b, int32_t *ids, const float *x, size_t ldx, size_t m, size_t n);
void cuda_leaders(cdz_backend *b, cdz_leaders *rows, const float *x, size_t ldx, size_t m, size_t n);

/* ---- attention.cu ---- */

cdz_kv *cuda_kv_create(cdz_backend *b, const cdz_kv_shape *shape, size_t n_blocks);
void cuda_kv_destroy(cdz_backend *b, cdz_kv *kv);
size_t cuda_kv_block_bytes(cdz_backend *b, const cdz_kv_shape *shape);
void cuda_kv_copy(cdz_backend *b, cdz_kv *kv, int32_t to, int32_t from);
void cuda_kv_write(cdz_backend *b, cdz_kv *kv, size_t layer, const float *k, size_t ldk,
                   const float *v, size_t ldv, const cdz_kv_row *rows, size_t m);
void cuda_attention(cdz_backend *b, float *out, size_t ldo, const float *q, size_t ldq,
                    const cdz_kv *kv, size_t layer, const cdz_kv_row *rows, size_t m,
                    const cdz_attention *how);
void cuda_attention_weights(cdz_backend *b, float *out, size_t ldo, const float *q, const cdz_kv *kv,
                            size_t layer, const cdz_kv_row *row, const cdz_attention *how);

#endif
