/* scratch.c - a bump allocator that learns its size. */
#include "base/scratch.h"

#include <stdint.h>
#include <stdlib.h>

enum { ALIGN = 64 };

struct cdz_scratch_more {
    cdz_scratch_more *next;
};

static unsigned char *align_up(unsigned char *at)
{
    return at + (ALIGN - (uintptr_t)at % ALIGN) % ALIGN;
}

/* A piece of its own for what does not fit; freed at the reset. */
static void *take_more(cdz_scratch_mem *mem, size_t bytes)
{
    cdz_scratch_more *more = malloc(sizeof *more + ALIGN + bytes);
    if (!more) return NULL;
    more->next = mem->more;
    mem->more = more;
    mem->beyond += bytes;
    return align_up((unsigned char *)(more + 1));
}

void *cdz_scratch_take(cdz_scratch_mem *mem, size_t bytes)
{
    if (bytes > SIZE_MAX / 4) return NULL;
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (bytes == 0) bytes = ALIGN;
    if (bytes > mem->size - mem->used) return take_more(mem, bytes);
    void *at = mem->base + mem->used;
    mem->used += bytes;
    return at;
}

static void free_more(cdz_scratch_mem *mem)
{
    for (cdz_scratch_more *more = mem->more, *next; more; more = next) {
        next = more->next;
        free(more);
    }
    mem->more = NULL;
}

void cdz_scratch_reset(cdz_scratch_mem *mem)
{
    if (mem->more) {
        const size_t size = mem->used + mem->beyond;
        unsigned char *raw = malloc(size + ALIGN);
        free_more(mem);
        if (raw) {
            free(mem->raw);
            mem->raw = raw;
            mem->base = align_up(raw);
            mem->size = size;
        }
    }
    mem->used = mem->beyond = 0;
}

void cdz_scratch_free(cdz_scratch_mem *mem)
{
    free_more(mem);
    free(mem->raw);
    *mem = (cdz_scratch_mem){0};
}
