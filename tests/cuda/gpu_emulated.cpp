/* gpu_emulated.cpp - the seam of gpu.h without a device: memory of this process, launches by
 * emulate.cpp, everything done when it is asked for, but that copies to the host are seen by whoever waits for them.
 *
 * CADENZA_EMULATED_DEVICES says how many devices there are (1), CADENZA_EMULATED_BYTES how much memory
 * each has (4 GiB), CADENZA_EMULATED_FAULT after how many launches it fails (never), CADENZA_EMULATED_COUNTS a file that
 * is told at the end how often the host waited, and in how many batches launches were given. */
#include "gpu.h"

#include <atomic>
#include <deque>
#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

struct copy_underway {
    uint64_t number;
    void *to;
    std::vector<char> bytes;
};

struct gpu {
    char trouble[512];
    size_t total, used, launches, fault;
    size_t waits, batches;
    std::map<void *, size_t> sizes;
    uint64_t copies; /* to the host, counted */
    std::deque<copy_underway> underway;
    pending_launches pending;
};

struct gpu_event {
    uint64_t copies; /* that were given before it */
};

static size_t setting(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    return text ? (size_t)strtoull(text, nullptr, 10) : otherwise;
}

int gpu_count(char *why, size_t why_bytes)
{
    const size_t n = setting("CADENZA_EMULATED_DEVICES", 1);
    if (n == 0) snprintf(why, why_bytes, "the emulation was told to have no device");
    return (int)n;
}

static size_t device_bytes()
{
    return setting("CADENZA_EMULATED_BYTES", (size_t)4 << 30);
}

void gpu_describe(int device, cdz_device_info *info)
{
    *info = cdz_device_info{};
    snprintf(info->name, sizeof info->name, "emulated device %d", device);
    snprintf(info->capability, sizeof info->capability, "no compute capability");
    info->free_bytes = info->total_bytes = device_bytes();
}

gpu *gpu_open(int, char *, size_t)
{
    gpu *g = new gpu();
    g->total = device_bytes();
    g->fault = setting("CADENZA_EMULATED_FAULT", SIZE_MAX);
    return g;
}

static void write_counts(const gpu *g)
{
    const char *path = getenv("CADENZA_EMULATED_COUNTS");
    FILE *file = path ? fopen(path, "w") : nullptr;
    if (!file) return;
    fprintf(file, "%zu waits, %zu batches\n", g->waits, g->batches);
    fclose(file);
}

void gpu_close(gpu *g)
{
    if (!g) return;
    gpu_flush(g);
    write_counts(g);
    for (const auto &entry : g->sizes) emu_free(entry.first);
    delete g;
}

const char *gpu_trouble(const gpu *g)
{
    return g->trouble[0] ? g->trouble : nullptr;
}

void gpu_memory(const gpu *g, size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = g->total - g->used;
    *total_bytes = g->total;
}

int gpu_processors(const gpu *)
{
    return 4;
}

void *gpu_alloc(gpu *g, size_t bytes)
{
    if (bytes > g->total - g->used) return nullptr;
    void *memory = emu_alloc(bytes);
    if (!memory) return nullptr;
    g->used += bytes;
    g->sizes[memory] = bytes;
    return memory;
}

void gpu_free(gpu *g, void *memory)
{
    if (!memory) return;
    gpu_flush(g);
    g->waits++;
    g->used -= g->sizes[memory];
    g->sizes.erase(memory);
    emu_free(memory);
}

/* Copies to the host, up to one. */
static void deliver(gpu *g, uint64_t last)
{
    while (!g->underway.empty() && g->underway.front().number <= last) {
        const copy_underway &c = g->underway.front();
        memcpy(c.to, c.bytes.data(), c.bytes.size());
        g->underway.pop_front();
    }
}

void *gpu_pin(gpu *, size_t bytes)
{
    return malloc(bytes);
}

void gpu_unpin(gpu *g, void *memory)
{
    deliver(g, UINT64_MAX);
    free(memory);
}

void gpu_zero(gpu *g, void *to, size_t bytes)
{
    gpu_flush(g);
    /* Fresh pages are zero already: address space that nobody touches takes no memory. */
    if (g->sizes.count(to) && bytes > ((size_t)64 << 20)) return;
    memset(to, 0, bytes);
}

void gpu_to_device(gpu *g, void *to, const void *pinned, size_t bytes)
{
    gpu_flush(g);
    memcpy(to, pinned, bytes);
}

void gpu_to_device_ahead(gpu *, void *to, const void *pinned, size_t bytes)
{
    memcpy(to, pinned, bytes);
}

/* What is copied is what is there now; it is seen by whoever waits for it. */
void gpu_to_host(gpu *g, void *pinned, const void *from, size_t bytes)
{
    gpu_flush(g);
    const char *at = static_cast<const char *>(from);
    g->underway.push_back({++g->copies, pinned, std::vector<char>(at, at + bytes)});
    memset(pinned, 0xff, bytes);
}

void gpu_within(gpu *g, void *to, const void *from, size_t bytes)
{
    gpu_flush(g);
    memmove(to, from, bytes);
}

void gpu_wait(gpu *g)
{
    gpu_flush(g);
    g->waits++;
    deliver(g, UINT64_MAX);
}

gpu_event *gpu_event_create(gpu *)
{
    return new gpu_event();
}

void gpu_event_destroy(gpu *, gpu_event *event)
{
    delete event;
}

void gpu_event_record(gpu *g, gpu_event *event)
{
    event->copies = g->copies;
}

void gpu_event_wait(gpu *g, gpu_event *event)
{
    if (!g->underway.empty() && g->underway.front().number <= event->copies) g->waits++;
    deliver(g, event->copies);
}

bool gpu_multiplies(const gpu *)
{
    return true;
}

static float element(const gpu_product *p, const void *at, size_t i)
{
    switch (p->dtype) {
    case CDZ_F16: return cdz_widen_f16(static_cast<const uint16_t *>(at)[i]);
    case CDZ_BF16: return cdz_widen_bf16(static_cast<const uint16_t *>(at)[i]);
    default: return static_cast<const float *>(at)[i];
    }
}

/* In an order that is not the kernels', as a library's is not. */
void gpu_multiply(gpu *g, const gpu_product *p)
{
    gpu_flush(g);
    for (size_t r = 0; r < p->m; r++)
        for (size_t j = 0; j < p->n; j++) {
            float even = 0.0f, odd = 0.0f;
            for (size_t i = 0; i < p->k; i++) {
                float *sum = i % 2 ? &odd : &even;
                *sum =
                    fmaf(element(p, p->x, r * p->ldx + i), element(p, p->w, j * p->ldw + i), *sum);
            }
            p->y[r * p->ldy + j] = even + odd;
        }
}

pending_launches *gpu_pending(gpu *g)
{
    if (!pending_has_room(&g->pending)) gpu_flush(g);
    return g->trouble[0] ? nullptr : &g->pending;
}

void gpu_flush(gpu *g)
{
    pending_launches *p = &g->pending;
    if (p->n) g->batches++;
    for (unsigned i = 0; i < p->n && !g->trouble[0]; i++) {
        const pending_launch *l = &p->launch[i];
        void *arguments[PENDING_ARGUMENTS];
        pending_addresses(p, l, arguments);
        const char *trouble = emu_launch(l->name, l->blocks, l->threads, l->shared,
                                         [&] { l->call(l->function, arguments); });
        if (trouble) snprintf(g->trouble, sizeof g->trouble, "%s", trouble);
        if (g->launches++ == g->fault)
            snprintf(g->trouble, sizeof g->trouble, "kernel %s: the fault that was asked for",
                     l->name);
    }
    p->n = p->used = 0;
}
