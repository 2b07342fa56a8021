/* arena.c - a chain of blocks, each twice the size of the one before up to 1 MiB. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BLOCK = 4096, LARGEST_STEP = 1 << 20 };

struct cdz_arena_block {
    cdz_arena_block *next;
    size_t size, used; /* bytes of data[] */
    _Alignas(64) unsigned char data[];
};

static cdz_arena_block *add_block(cdz_arena *arena, size_t bytes)
{
    size_t size = arena->head ? arena->head->size * 2 : FIRST_BLOCK;
    if (size > LARGEST_STEP) size = LARGEST_STEP;
    if (size < bytes) size = bytes;
    if (size > SIZE_MAX - sizeof(cdz_arena_block)) return NULL;

    cdz_arena_block *block = malloc(sizeof *block + size);
    if (!block) return NULL;
    block->next = arena->head;
    block->size = size;
    block->used = 0;
    arena->head = block;
    return block;
}

void *cdz_arena_alloc_aligned(cdz_arena *arena, size_t bytes, size_t align)
{
    if (bytes == 0) bytes = 1;
    if (bytes > SIZE_MAX - 2 * align) return NULL;
    if (arena->limit && (bytes > arena->limit || arena->used > arena->limit - bytes)) return NULL;

    cdz_arena_block *block = arena->head;
    for (int attempt = 0; attempt < 2; attempt++) {
        if (block) {
            uintptr_t at = (uintptr_t)block->data + block->used;
            uintptr_t aligned = (at + align - 1) & ~(uintptr_t)(align - 1);
            size_t need = (size_t)(aligned - at) + bytes;
            if (need <= block->size - block->used) {
                block->used += need;
                arena->used += need;
                return memset((void *)aligned, 0, bytes);
            }
        }
        if (attempt == 0) block = add_block(arena, bytes + align);
        if (!block) return NULL;
    }
    return NULL;
}

void *cdz_arena_alloc(cdz_arena *arena, size_t bytes)
{
    return cdz_arena_alloc_aligned(arena, bytes, 16);
}

void *cdz_arena_array(cdz_arena *arena, size_t n, size_t item_bytes)
{
    if (item_bytes && n > SIZE_MAX / item_bytes) return NULL;
    return cdz_arena_alloc(arena, n * item_bytes);
}

char *cdz_arena_strndup(cdz_arena *arena, const char *text, size_t len)
{
    if (len == SIZE_MAX) return NULL;
    char *copy = cdz_arena_alloc_aligned(arena, len + 1, 1);
    if (copy) memcpy(copy, text, len);
    return copy;
}

char *cdz_arena_strdup(cdz_arena *arena, const char *text)
{
    return cdz_arena_strndup(arena, text, strlen(text));
}

char *cdz_arena_printf(cdz_arena *arena, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = len < 0 ? NULL : cdz_arena_alloc_aligned(arena, (size_t)len + 1, 1);
    if (text) vsnprintf(text, (size_t)len + 1, fmt, again);
    va_end(again);
    return text;
}

void cdz_arena_free(cdz_arena *arena)
{
    for (cdz_arena_block *block = arena->head, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    arena->head = NULL;
    arena->used = 0;
}

void cdz_arena_reset(cdz_arena *arena)
{
    cdz_arena_block *keep = NULL;
    for (cdz_arena_block *block = arena->head, *next; block; block = next) {
        next = block->next;
        if (!keep || block->size > keep->size) {
            free(keep);
            keep = block;
        } else {
            free(block);
        }
    }
    if (keep) {
        keep->next = NULL;
        keep->used = 0;
    }
    arena->head = keep;
    arena->used = 0;
}
