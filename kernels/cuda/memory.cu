/* memory.cu - the backend's memory: the pinned ring that copies go through, blocks of weights, work
 * memory, and small things kept by content. */
#include "cuda_backend.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static constexpr size_t WEIGHT_BLOCK = (size_t)64 << 20, WEIGHT_ALIGNMENT = 256;

/* A piece of device memory that weights share; one that is as large has it alone. */
struct cuda_block {
    cuda_block *next;
    char *memory;
    size_t bytes, used, weights;
};

/* ---- trouble ---- */

void cuda_note(cuda_backend *b, const char *format, ...)
{
    if (b->trouble[0]) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(b->trouble, sizeof b->trouble, format, arguments);
    va_end(arguments);
}

static void note_full(cuda_backend *b, const char *what, size_t bytes)
{
    size_t left, all;
    gpu_memory(b->g, &left, &all);
    cuda_note(b, "%s: out of device memory for %s of %zu bytes; %zu of %zu are free", b->name, what,
              bytes, left, all);
}

/* ---- the ring ---- */

bool cuda_stage_open(cuda_backend *b)
{
    for (int i = 0; i < 2; i++) {
        b->stage.half[i] = static_cast<char *>(gpu_pin(b->g, CUDA_STAGE_BYTES));
        b->stage.read[i] = gpu_event_create(b->g);
        if (!b->stage.half[i] || !b->stage.read[i]) return false;
    }
    return true;
}

/* Room for at most half the ring. */
static char *stage(cuda_backend *b, size_t bytes)
{
    cuda_stage *s = &b->stage;
    if (s->used + bytes > CUDA_STAGE_BYTES) {
        gpu_event_record(b->g, s->read[s->now]);
        s->now ^= 1;
        s->used = 0;
        gpu_event_wait(b->g, s->read[s->now]);
    }
    char *at = s->half[s->now] + s->used;
    s->used += (bytes + 63) / 64 * 64;
    return at;
}

static size_t piece_of(size_t bytes)
{
    return bytes < CUDA_STAGE_BYTES ? bytes : (size_t)CUDA_STAGE_BYTES;
}

static void upload(cuda_backend *b, void *to, const void *from, size_t bytes,
                   void (*copy)(gpu *g, void *to, const void *pinned, size_t bytes))
{
    const char *at = static_cast<const char *>(from);
    char *target = static_cast<char *>(to);
    for (size_t n; bytes; bytes -= n, at += n, target += n) {
        n = piece_of(bytes);
        char *pinned = stage(b, n);
        memcpy(pinned, at, n);
        copy(b->g, target, pinned, n);
    }
}

void cuda_upload(cdz_backend *base, void *to, const void *from, size_t bytes)
{
    upload(cuda_of(base), to, from, bytes, gpu_to_device);
}

void cuda_download(cdz_backend *base, void *to, const void *from, size_t bytes)
{
    cuda_backend *b = cuda_of(base);
    const char *at = static_cast<const char *>(from);
    char *target = static_cast<char *>(to);
    for (size_t n; bytes; bytes -= n, at += n, target += n) {
        n = piece_of(bytes);
        char *pinned = stage(b, n);
        gpu_to_host(b->g, pinned, at, n);
        gpu_wait(b->g);
        memcpy(target, pinned, n);
    }
    b->step++;
}

void cuda_copy(cdz_backend *base, void *to, const void *from, size_t bytes)
{
    gpu_within(cuda_of(base)->g, to, from, bytes);
}

void cuda_clear(cdz_backend *base, void *to, size_t bytes)
{
    gpu_zero(cuda_of(base)->g, to, bytes);
}

void cuda_sync(cdz_backend *base)
{
    gpu_wait(cuda_of(base)->g);
    cuda_of(base)->step++;
}

/* ---- memory of the host's ---- */

void *cuda_alloc(cdz_backend *base, size_t bytes)
{
    cuda_backend *b = cuda_of(base);
    void *memory = gpu_alloc(b->g, bytes ? bytes : 1);
    if (memory) gpu_zero(b->g, memory, bytes);
    return memory;
}

void cuda_free(cdz_backend *base, void *memory)
{
    if (memory) gpu_free(cuda_of(base)->g, memory);
}

void cuda_memory(const cdz_backend *base, size_t *free_bytes, size_t *total_bytes)
{
    gpu_memory(reinterpret_cast<const cuda_backend *>(base)->g, free_bytes, total_bytes);
}

/* ---- weights ---- */

static cuda_block *block_with_room(cuda_backend *b, size_t bytes)
{
    for (cuda_block *block = b->blocks; block; block = block->next)
        if (block->bytes - block->used >= bytes) return block;
    cuda_block *made = static_cast<cuda_block *>(calloc(1, sizeof *made));
    if (!made) return nullptr;
    made->bytes = bytes > WEIGHT_BLOCK / 2 ? bytes : WEIGHT_BLOCK;
    made->memory = static_cast<char *>(gpu_alloc(b->g, made->bytes));
    if (!made->memory && made->bytes > bytes) {
        made->bytes = bytes; /* the last of the memory */
        made->memory = static_cast<char *>(gpu_alloc(b->g, bytes));
    }
    if (!made->memory) {
        free(made);
        return nullptr;
    }
    made->next = b->blocks;
    b->blocks = made;
    return made;
}

const void *cuda_place(cdz_backend *base, const void *data, size_t bytes)
{
    cuda_backend *b = cuda_of(base);
    if (bytes > SIZE_MAX - WEIGHT_ALIGNMENT) return nullptr;
    const size_t taken = (bytes + WEIGHT_ALIGNMENT - 1) / WEIGHT_ALIGNMENT * WEIGHT_ALIGNMENT;
    cuda_block *block = block_with_room(b, taken ? taken : WEIGHT_ALIGNMENT);
    if (!block) return nullptr;
    char *at = block->memory + block->used;
    block->used += taken ? taken : WEIGHT_ALIGNMENT;
    block->weights++;
    cuda_upload(base, at, data, bytes);
    return at;
}

void cuda_unplace(cdz_backend *base, const void *placed)
{
    cuda_backend *b = cuda_of(base);
    const char *at = static_cast<const char *>(placed);
    for (cuda_block **link = &b->blocks; *link; link = &(*link)->next) {
        cuda_block *block = *link;
        if (at < block->memory || at >= block->memory + block->bytes) continue;
        if (--block->weights > 0) return;
        *link = block->next;
        gpu_free(b->g, block->memory);
        free(block);
        return;
    }
}

/* ---- work memory ---- */

void *cuda_work_memory(cuda_backend *b, cuda_work use, size_t bytes)
{
    if (bytes <= b->work_bytes[use]) return b->work[use];
    gpu_free(b->g, b->work[use]);
    b->work_bytes[use] = 0;
    b->work[use] = gpu_alloc(b->g, bytes);
    if (b->work[use])
        b->work_bytes[use] = bytes;
    else
        note_full(b, "work memory", bytes);
    return b->work[use];
}

char *cuda_scratch(cuda_backend *b, size_t bytes)
{
    if (bytes <= b->scratch_bytes) return b->scratch;
    char *grown = static_cast<char *>(realloc(b->scratch, bytes + bytes / 2));
    if (!grown) {
        cuda_note(b, "%s: out of memory for a call's %zu bytes", b->name, bytes);
        return nullptr;
    }
    b->scratch = grown;
    b->scratch_bytes = bytes + bytes / 2;
    return grown;
}

/* ---- small things ---- */

/* The place to put new content in. `used`: launches of this step may still read what is there. */
static cuda_small *place_for(cuda_backend *b, cuda_small_kind kind, bool *used)
{
    cuda_small *places = b->small[kind];
    *used = false;
    for (cuda_small *s = places; s < places + CUDA_SMALL; s++)
        if (s->step != b->step) return s;
    *used = true;
    return &places[b->next++ % CUDA_SMALL];
}

static bool make_room(cuda_backend *b, cuda_small *s, size_t bytes)
{
    if (bytes <= s->room) return true;
    const size_t room = bytes + bytes / 2 + 256;
    gpu_free(b->g, s->device);
    free(s->host);
    s->bytes = s->room = 0;
    s->device = gpu_alloc(b->g, room);
    s->host = static_cast<char *>(malloc(room));
    if (s->device && s->host) s->room = room;
    return s->room != 0;
}

const void *cuda_on_device(cuda_backend *b, cuda_small_kind kind, const void *data, size_t bytes)
{
    for (cuda_small *s = b->small[kind]; s < b->small[kind] + CUDA_SMALL; s++)
        if (s->bytes == bytes && memcmp(s->host, data, bytes) == 0) {
            s->step = b->step;
            return s->device;
        }
    bool used;
    cuda_small *s = place_for(b, kind, &used);
    if (!make_room(b, s, bytes)) {
        note_full(b, "a call's arguments", bytes);
        return nullptr;
    }
    if (used || bytes > CUDA_STAGE_BYTES) gpu_flush(b->g);
    s->bytes = bytes;
    s->step = b->step;
    memcpy(s->host, data, bytes);
    upload(b, s->device, data, bytes, gpu_to_device_ahead);
    return s->device;
}

/* ---- the end ---- */

void cuda_memory_close(cuda_backend *b)
{
    for (int i = 0; i < 2; i++) {
        gpu_unpin(b->g, b->stage.half[i]);
        gpu_event_destroy(b->g, b->stage.read[i]);
    }
    for (cuda_small(&places)[CUDA_SMALL] : b->small)
        for (cuda_small &s : places) {
            gpu_free(b->g, s.device);
            free(s.host);
        }
    for (void *work : b->work) gpu_free(b->g, work);
    while (b->blocks) {
        cuda_block *next = b->blocks->next;
        gpu_free(b->g, b->blocks->memory);
        free(b->blocks);
        b->blocks = next;
    }
    free(b->scratch);
}
