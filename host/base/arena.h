/* arena.h - memory of one lifetime: taken piece by piece, given back whole. */
#ifndef CDZ_HOST_BASE_ARENA_H
#define CDZ_HOST_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cdz_arena_block cdz_arena_block;

typedef struct cdz_arena {
    cdz_arena_block *head; /* newest block first */
    size_t used;           /* bytes handed out, and what aligning them took */
    size_t limit;          /* bytes that may be handed out; 0 is no limit */
} cdz_arena;

/* A zeroed arena is ready to use. Every call returns NULL when memory or the limit is exhausted.
 * Memory is zeroed and aligned to 16 bytes (cdz_arena_alloc_aligned: to a power of two). */
void *cdz_arena_alloc(cdz_arena *arena, size_t bytes);
void *cdz_arena_alloc_aligned(cdz_arena *arena, size_t bytes, size_t align);
void *cdz_arena_array(cdz_arena *arena, size_t n, size_t item_bytes); /* checked multiplication */
char *cdz_arena_strdup(cdz_arena *arena, const char *text);
char *cdz_arena_strndup(cdz_arena *arena, const char *text, size_t len);
char *cdz_arena_printf(cdz_arena *arena, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Gives everything back; the arena is ready to use again. A zeroed arena is fine. */
void cdz_arena_free(cdz_arena *arena);

/* Forgets what was taken but keeps the largest block for the next round. */
void cdz_arena_reset(cdz_arena *arena);

#endif
