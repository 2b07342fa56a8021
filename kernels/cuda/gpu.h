/* gpu.h - a device and its one stream, behind a small seam: gpu_cuda.cu makes it of the CUDA
 * runtime and cuBLAS, tests/cuda/gpu_emulated.cpp of plain memory and fibres.
 *
 * Everything that returns nothing is put on the stream, in order, and cannot fail for the caller: the
 * first failure is kept as a sentence (gpu_trouble), and what comes after it does nothing. Launches are
 * gathered first (pending.h). */
#ifndef CDZ_CUDA_GPU_H
#define CDZ_CUDA_GPU_H

#include "device.h"
#include "pending.h"

struct gpu;

int gpu_count(char *why, size_t why_bytes);
void gpu_describe(int device, cdz_device_info *info);
gpu *gpu_open(int device, char *why, size_t why_bytes);
void gpu_close(gpu *g);                /* waits; NULL is fine */
const char *gpu_trouble(const gpu *g); /* NULL: none */
void gpu_memory(const gpu *g, size_t *free_bytes, size_t *total_bytes);
int gpu_processors(const gpu *g); /* multiprocessors */

/* Device memory, aligned to 64 bytes, contents unknown. Freeing waits for the stream. */
void *gpu_alloc(gpu *g, size_t bytes);
void gpu_free(gpu *g, void *memory);
/* Host memory that the device copies from and to without the processor. */
void *gpu_pin(gpu *g, size_t bytes);
void gpu_unpin(gpu *g, void *memory);

void gpu_zero(gpu *g, void *to, size_t bytes);
void gpu_to_device(gpu *g, void *to, const void *pinned, size_t bytes);
/* The same, but before launches that are pending: for memory that none of these reads. */
void gpu_to_device_ahead(gpu *g, void *to, const void *pinned, size_t bytes);
void gpu_to_host(gpu *g, void *pinned, const void *from, size_t bytes);
void gpu_within(gpu *g, void *to, const void *from, size_t bytes);
void gpu_wait(gpu *g); /* until the stream is empty */

/* A point in the stream. */
struct gpu_event;
gpu_event *gpu_event_create(gpu *g);
void gpu_event_destroy(gpu *g, gpu_event *event);
void gpu_event_record(gpu *g, gpu_event *event);
void gpu_event_wait(gpu *g, gpu_event *event); /* the host waits; an event never recorded is past */

/* y (m, n) = x (m, k) w^T, w (n, k), all of them row-major and strided; sums in float32, float32
 * operands without TF32. x and w are both of `dtype`, a plain one. */
struct gpu_product {
    float *y;
    size_t ldy;
    const void *x, *w;
    cdz_dtype dtype;
    size_t ldx, ldw, m, n, k;
};
bool gpu_multiplies(const gpu *g); /* is there a library for it? */
void gpu_multiply(gpu *g, const gpu_product *p);

/* One launch: blocks of `threads` threads, `shared` bytes of dynamic shared memory. */
struct gpu_shape {
    size_t blocks, threads, shared;
};

/* Room for one more launch, or NULL after trouble; then that the launch is complete. */
pending_launches *gpu_pending(gpu *g);
void gpu_flush(gpu *g); /* what is pending, to the stream */

template <typename... P, typename... A>
void gpu_launch(gpu *g, const char *name, void (*kernel)(P...), gpu_shape shape, A... args)
{
    static_assert((sizeof(P) + ... + 0) + 16 * sizeof...(P) <= PENDING_LARGEST,
                  "too many arguments");
    static_assert(sizeof...(P) <= PENDING_ARGUMENTS, "too many arguments");
    pending_launches *p = shape.blocks ? gpu_pending(g) : nullptr;
    if (!p) return;
    pending_launch *l = &p->launch[p->n];
    *l = {};
    l->function = reinterpret_cast<const void *>(kernel);
    l->name = name;
    l->blocks = shape.blocks;
    l->threads = shape.threads;
    l->shared = shape.shared;
    l->from = p->used;
#if !defined(__CUDACC__)
    l->call = pending_caller<P...>::call;
#endif
    (pending_add<P>(p, static_cast<P>(args)), ...);
    l->to = p->used;
    p->n++;
}

#endif
