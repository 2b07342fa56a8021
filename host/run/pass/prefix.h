/* prefix.h - the list of KV blocks that are found again: by the ids that they hold, and all that came before them.
 *
 * A block is listed under its key: the block before it, its own ids, and the salt of whoever may find it. The block before
 * is named by a serial that no other listing ever has, so a key says every id from the first on, and two keys are
 * compared whole: hashes only say where to look. A block that is written to or given away leaves the list, and what was
 * listed after it is found no more.
 *
 * Blocks that nobody holds rest, the one that has rested longest first in line to be given away. Whoever holds a block
 * holds those before it too and gives them back later or together, last block first: a block rests no shorter than
 * those before it.
 * All memory is taken at once. Thread: [engine]. */
#ifndef CDZ_HOST_RUN_PASS_PREFIX_H
#define CDZ_HOST_RUN_PASS_PREFIX_H

#include <stdbool.h>
#include <stdint.h>

enum { CDZ_PREFIX_SALT = 32 }; /* bytes */

typedef struct cdz_prefix_list cdz_prefix_list;

typedef struct cdz_prefix_key {
    const uint8_t *salt; /* (CDZ_PREFIX_SALT) */
    uint64_t before;     /* serial of the block before; 0: there is none */
    uint32_t kind;       /* what else the contents hang on */
    const int32_t *ids;  /* (CDZ_KV_BLOCK) */
} cdz_prefix_key;

cdz_prefix_list *cdz_prefix_create(uint32_t n_blocks); /* NULL: out of memory */
void cdz_prefix_free(cdz_prefix_list *list);           /* NULL is fine */

int32_t cdz_prefix_find(const cdz_prefix_list *list,
                        const cdz_prefix_key *key); /* -1: there is none */
/* A block that is not listed, under a key that none has. Somebody holds it. */
void cdz_prefix_add(cdz_prefix_list *list, int32_t block, const cdz_prefix_key *key);
/* It does not rest. */
void cdz_prefix_remove(cdz_prefix_list *list, int32_t block);
uint64_t cdz_prefix_serial(const cdz_prefix_list *list, int32_t block); /* 0: not listed */

/* The key of a listed block; it points into the list. */
cdz_prefix_key cdz_prefix_key_of(const cdz_prefix_list *list, int32_t block);

/* Of listed blocks: nobody holds it any more; somebody does again. last: as if it had rested longer than all others. */
void cdz_prefix_rest(cdz_prefix_list *list, int32_t block);
void cdz_prefix_rest_last(cdz_prefix_list *list, int32_t block);
void cdz_prefix_wake(cdz_prefix_list *list, int32_t block);
bool cdz_prefix_rests(const cdz_prefix_list *list, int32_t block);
uint32_t cdz_prefix_n_resting(const cdz_prefix_list *list);
/* Takes the block that has rested longest off the list; -1: none rests. */
int32_t cdz_prefix_give(cdz_prefix_list *list);

/* All listed blocks among the first n into blocks (n), a block always behind the one before it where that is listed: those
 * that somebody holds as they were listed, then those that rest, the one that has rested shortest first. Returns how many. */
uint32_t cdz_prefix_order(const cdz_prefix_list *list, uint32_t n, int32_t *blocks);

/* Checked builds: what is promised of the list. Among the first n blocks, and in no other, are those that are listed: each is
 * found by its key, which stands behind that of an older listing, and those that rest are the line, from both ends. */
void cdz_prefix_check(const cdz_prefix_list *list, uint32_t n);

#endif
