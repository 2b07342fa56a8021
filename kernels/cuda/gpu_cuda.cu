/* gpu_cuda.cu - the seam of gpu.h on the CUDA runtime. cuBLAS is opened when a device is, not linked: on a
 * machine without it the own kernels do all products. */
#include "gpu.h"

#include <cublas_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

struct cublas_functions {
    decltype(&cublasCreate_v2) create;
    decltype(&cublasDestroy_v2) destroy;
    decltype(&cublasSetStream_v2) set_stream;
    decltype(&cublasSetMathMode) set_math_mode;
    /* cublasGemmEx, written out: the header overloads it for C++. */
    cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,
                           int k, const void *alpha, const void *a, cudaDataType, int lda,
                           const void *b, cudaDataType, int ldb, const void *beta, void *c,
                           cudaDataType, int ldc, cublasComputeType_t, cublasGemmAlgo_t);
};

enum { GRAPHS = 48, GRAPH_LEAST = 8 }; /* kept; launches that are worth one */

/* Launches that were given together, and once they have come a second time a graph of them. */
struct gpu_graph {
    pending_launches form; /* with the arguments that the graph has now */
    unsigned ordinal;      /* which of the flushes since the last wait */
    uint64_t last_used;    /* 0: nothing here */
    cudaGraph_t graph;     /* names the nodes; NULL: none yet */
    cudaGraphExec_t exec;
    cudaGraphNode_t node[PENDING_MOST];
};

struct gpu {
    int device, processors;
    pending_launches pending;
    gpu_graph *graphs; /* (GRAPHS), or NULL: launches are given one by one */
    unsigned ordinal;
    uint64_t clock;
    cudaStream_t stream;
    void *library;
    cublas_functions cublas;
    cublasHandle_t handle;
    char trouble[256];
};

struct gpu_event {
    cudaEvent_t event;
};

/* ---- failures ---- */

static void note(gpu *g, const char *what, const char *sentence)
{
    if (!g->trouble[0])
        snprintf(g->trouble, sizeof g->trouble, "cuda:%d: %s: %s", g->device, what, sentence);
}

static bool well(gpu *g, const char *what, cudaError_t status)
{
    if (status != cudaSuccess) note(g, what, cudaGetErrorString(status));
    return status == cudaSuccess;
}

const char *gpu_trouble(const gpu *g)
{
    return g->trouble[0] ? g->trouble : nullptr;
}

/* Whoever calls may be another thread than last time: which device is meant is the thread's. */
static bool ready(gpu *g)
{
    return !g->trouble[0] && well(g, "choosing the device", cudaSetDevice(g->device));
}

/* ---- devices ---- */

int gpu_count(char *why, size_t why_bytes)
{
    int n = 0;
    const cudaError_t status = cudaGetDeviceCount(&n);
    if (status == cudaSuccess && n > 0) return n;
    if (status == cudaErrorInsufficientDriver)
        snprintf(why, why_bytes,
                 "no CUDA device: there is no driver, or it is older than CUDA %d.%d needs",
                 CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    else
        snprintf(why, why_bytes, "no CUDA device: %s",
                 status == cudaSuccess ? "the driver knows of none" : cudaGetErrorString(status));
    cudaGetLastError();
    return 0;
}

void gpu_describe(int device, cdz_device_info *info)
{
    *info = {};
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return;
    snprintf(info->name, sizeof info->name, "%.*s", (int)sizeof info->name - 1, properties.name);
    snprintf(info->capability, sizeof info->capability, "compute capability %d.%d",
             properties.major, properties.minor);
    info->total_bytes = info->free_bytes = properties.totalGlobalMem;
    size_t left, all;
    if (cudaSetDevice(device) == cudaSuccess && cudaMemGetInfo(&left, &all) == cudaSuccess) {
        info->free_bytes = left;
        info->total_bytes = all;
    }
}

/* ---- cuBLAS ---- */

template <typename F> static bool find(void *library, const char *name, F *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol;
}

static void open_library(gpu *g)
{
    char name[64];
    snprintf(name, sizeof name, "libcublas.so.%d", CUBLAS_VER_MAJOR);
    g->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!g->library) { /* where the toolkit puts it */
        snprintf(name, sizeof name, "/usr/local/cuda/lib64/libcublas.so.%d", CUBLAS_VER_MAJOR);
        g->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (!g->library) return;
    cublas_functions *f = &g->cublas;
    const bool found = find(g->library, "cublasCreate_v2", &f->create) &&
                       find(g->library, "cublasDestroy_v2", &f->destroy) &&
                       find(g->library, "cublasSetStream_v2", &f->set_stream) &&
                       find(g->library, "cublasSetMathMode", &f->set_math_mode) &&
                       find(g->library, "cublasGemmEx", &f->gemm);
    if (!found || f->create(&g->handle) != CUBLAS_STATUS_SUCCESS) {
        g->handle = nullptr;
        return;
    }
    /* Float32 is float32, and sums of 16-bit products are not rounded on the way. */
    f->set_math_mode(g->handle, (cublasMath_t)(CUBLAS_DEFAULT_MATH |
                                               CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
    f->set_stream(g->handle, g->stream);
}

bool gpu_multiplies(const gpu *g)
{
    return g->handle;
}

static cudaDataType_t type_of(cdz_dtype dtype)
{
    return dtype == CDZ_F32 ? CUDA_R_32F : dtype == CDZ_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

/* The library counts columns first: y^T (n, m) = w (n, k) x^T. */
void gpu_multiply(gpu *g, const gpu_product *p)
{
    gpu_flush(g);
    if (!ready(g)) return;
    const float one = 1.0f, zero = 0.0f;
    const cudaDataType_t type = type_of(p->dtype);
    const cublasStatus_t status =
        g->cublas.gemm(g->handle, CUBLAS_OP_T, CUBLAS_OP_N, (int)p->n, (int)p->m, (int)p->k, &one,
                       p->w, type, (int)p->ldw, p->x, type, (int)p->ldx, &zero, p->y, CUDA_R_32F,
                       (int)p->ldy, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (status == CUBLAS_STATUS_SUCCESS) return;
    char sentence[128];
    snprintf(sentence, sizeof sentence, "cuBLAS gives status %d for %zu x %zu x %zu", (int)status,
             p->m, p->n, p->k);
    note(g, "a product", sentence);
}

/* ---- one device ---- */

gpu *gpu_open(int device, char *why, size_t why_bytes)
{
    gpu *g = static_cast<gpu *>(calloc(1, sizeof *g));
    if (!g) {
        snprintf(why, why_bytes, "out of memory for a device");
        return nullptr;
    }
    g->device = device;
    if (ready(g) &&
        well(g, "asking for its processors",
             cudaDeviceGetAttribute(&g->processors, cudaDevAttrMultiProcessorCount, device)) &&
        well(g, "opening a stream", cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking))) {
        open_library(g);
        g->graphs = static_cast<gpu_graph *>(calloc(GRAPHS, sizeof *g->graphs));
        return g;
    }
    snprintf(why, why_bytes, "%s", g->trouble);
    free(g);
    return nullptr;
}

static void drop_graph(gpu_graph *kept);

void gpu_close(gpu *g)
{
    if (!g) return;
    gpu_flush(g);
    cudaSetDevice(g->device);
    cudaStreamSynchronize(g->stream);
    for (unsigned i = 0; g->graphs && i < GRAPHS; i++) drop_graph(&g->graphs[i]);
    free(g->graphs);
    if (g->handle) g->cublas.destroy(g->handle);
    cudaStreamDestroy(g->stream);
    if (g->library) dlclose(g->library);
    free(g);
}

void gpu_memory(const gpu *g, size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = *total_bytes = 0;
    if (cudaSetDevice(g->device) == cudaSuccess) cudaMemGetInfo(free_bytes, total_bytes);
}

int gpu_processors(const gpu *g)
{
    return g->processors;
}

/* ---- launches ---- */

pending_launches *gpu_pending(gpu *g)
{
    if (!pending_has_room(&g->pending)) gpu_flush(g);
    return g->trouble[0] ? nullptr : &g->pending;
}

static void launch_each(gpu *g, pending_launches *p)
{
    for (unsigned i = 0; i < p->n; i++) {
        const pending_launch *l = &p->launch[i];
        void *arguments[PENDING_ARGUMENTS];
        char what[96];
        pending_addresses(p, l, arguments);
        snprintf(what, sizeof what, "kernel %s", l->name);
        if (!well(g, what,
                  cudaLaunchKernel(l->function, dim3((unsigned)l->blocks),
                                   dim3((unsigned)l->threads), arguments, l->shared, g->stream)))
            return;
    }
}

static cudaKernelNodeParams node_of(pending_launches *p, const pending_launch *l, void **arguments)
{
    pending_addresses(p, l, arguments);
    cudaKernelNodeParams params = {};
    params.func = const_cast<void *>(l->function);
    params.gridDim = dim3((unsigned)l->blocks);
    params.blockDim = dim3((unsigned)l->threads);
    params.sharedMemBytes = (unsigned)l->shared;
    params.kernelParams = arguments;
    return params;
}

static void drop_graph(gpu_graph *kept)
{
    if (kept->exec) cudaGraphExecDestroy(kept->exec);
    if (kept->graph) cudaGraphDestroy(kept->graph);
    kept->exec = nullptr;
    kept->graph = nullptr;
}

/* A chain: each launch after the one before it, as on the stream. */
static bool build(gpu_graph *kept)
{
    bool built = cudaGraphCreate(&kept->graph, 0) == cudaSuccess;
    for (unsigned i = 0; i < kept->form.n && built; i++) {
        void *arguments[PENDING_ARGUMENTS];
        const cudaKernelNodeParams params = node_of(&kept->form, &kept->form.launch[i], arguments);
        built = cudaGraphAddKernelNode(&kept->node[i], kept->graph, i ? &kept->node[i - 1] : nullptr,
                                       i ? 1 : 0, &params) == cudaSuccess;
    }
    return built && cudaGraphInstantiateWithFlags(&kept->exec, kept->graph, 0) == cudaSuccess;
}

static bool renew_arguments(gpu_graph *kept, pending_launches *p)
{
    for (unsigned i = 0; i < p->n; i++) {
        if (pending_same_arguments(&kept->form, p, i)) continue;
        void *arguments[PENDING_ARGUMENTS];
        const cudaKernelNodeParams params = node_of(p, &p->launch[i], arguments);
        if (cudaGraphExecKernelNodeSetParams(kept->exec, kept->node[i], &params) != cudaSuccess)
            return false;
    }
    pending_copy(&kept->form, p);
    return true;
}

/* The kept one of this form and place in a step, or the one to make it of: unused, else used longest ago. */
static gpu_graph *graph_for(gpu *g, const pending_launches *p, bool *found)
{
    gpu_graph *oldest = &g->graphs[0];
    for (gpu_graph *kept = g->graphs; kept < g->graphs + GRAPHS; kept++) {
        *found = kept->last_used && kept->ordinal == g->ordinal && pending_same_form(&kept->form, p);
        if (*found) return kept;
        if (kept->last_used < oldest->last_used) oldest = kept;
    }
    return oldest;
}

/* Launches as a graph: false: not this time, or never again when the runtime would not. */
static bool launch_graph(gpu *g, pending_launches *p)
{
    bool found;
    if (!g->graphs || p->n < GRAPH_LEAST) return false;
    gpu_graph *kept = graph_for(g, p, &found);
    kept->last_used = ++g->clock;
    if (!found) {
        drop_graph(kept);
        pending_copy(&kept->form, p);
        kept->ordinal = g->ordinal;
        return false;
    }
    if ((kept->exec || build(kept)) && renew_arguments(kept, p) &&
        cudaGraphLaunch(kept->exec, g->stream) == cudaSuccess)
        return true;
    cudaGetLastError();
    drop_graph(kept);
    kept->last_used = 0;
    return false;
}

void gpu_flush(gpu *g)
{
    pending_launches *p = &g->pending;
    if (p->n && ready(g) && !launch_graph(g, p)) launch_each(g, p);
    if (p->n) g->ordinal++;
    p->n = p->used = 0;
}

/* ---- memory ---- */

/* Not having it is no trouble: the caller says what for. */
void *gpu_alloc(gpu *g, size_t bytes)
{
    void *memory = nullptr;
    if (!ready(g) || cudaMalloc(&memory, bytes) == cudaSuccess) return memory;
    cudaGetLastError();
    return nullptr;
}

void gpu_free(gpu *g, void *memory)
{
    if (!memory) return;
    gpu_flush(g);
    cudaSetDevice(g->device);
    cudaStreamSynchronize(g->stream);
    cudaFree(memory);
}

void *gpu_pin(gpu *g, size_t bytes)
{
    void *memory = nullptr;
    if (!ready(g) || cudaMallocHost(&memory, bytes) == cudaSuccess) return memory;
    cudaGetLastError();
    return nullptr;
}

void gpu_unpin(gpu *g, void *memory)
{
    if (!memory) return;
    cudaSetDevice(g->device);
    cudaStreamSynchronize(g->stream);
    cudaFreeHost(memory);
}

void gpu_zero(gpu *g, void *to, size_t bytes)
{
    gpu_flush(g);
    if (bytes && ready(g)) well(g, "clearing memory", cudaMemsetAsync(to, 0, bytes, g->stream));
}

static void copy(gpu *g, const char *what, void *to, const void *from, size_t bytes,
                 cudaMemcpyKind kind)
{
    if (bytes && ready(g)) well(g, what, cudaMemcpyAsync(to, from, bytes, kind, g->stream));
}

void gpu_to_device(gpu *g, void *to, const void *pinned, size_t bytes)
{
    gpu_flush(g);
    copy(g, "a copy to the device", to, pinned, bytes, cudaMemcpyHostToDevice);
}

void gpu_to_device_ahead(gpu *g, void *to, const void *pinned, size_t bytes)
{
    copy(g, "a copy to the device", to, pinned, bytes, cudaMemcpyHostToDevice);
}

void gpu_to_host(gpu *g, void *pinned, const void *from, size_t bytes)
{
    gpu_flush(g);
    copy(g, "a copy from the device", pinned, from, bytes, cudaMemcpyDeviceToHost);
}

void gpu_within(gpu *g, void *to, const void *from, size_t bytes)
{
    gpu_flush(g);
    copy(g, "a copy on the device", to, from, bytes, cudaMemcpyDeviceToDevice);
}

/* ---- the stream ---- */

void gpu_wait(gpu *g)
{
    gpu_flush(g);
    g->ordinal = 0;
    if (ready(g)) well(g, "waiting for the device", cudaStreamSynchronize(g->stream));
}

gpu_event *gpu_event_create(gpu *g)
{
    gpu_event *event = static_cast<gpu_event *>(calloc(1, sizeof *event));
    if (event && ready(g) &&
        well(g, "an event", cudaEventCreateWithFlags(&event->event, cudaEventDisableTiming)))
        return event;
    free(event);
    return nullptr;
}

void gpu_event_destroy(gpu *g, gpu_event *event)
{
    if (!event) return;
    cudaSetDevice(g->device);
    cudaEventDestroy(event->event);
    free(event);
}

void gpu_event_record(gpu *g, gpu_event *event)
{
    if (ready(g)) well(g, "an event", cudaEventRecord(event->event, g->stream));
}

void gpu_event_wait(gpu *g, gpu_event *event)
{
    if (ready(g)) well(g, "an event", cudaEventSynchronize(event->event));
}
