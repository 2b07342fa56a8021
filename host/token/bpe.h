/* bpe.h - byte-pair encoding of one piece of text. */
#ifndef CDZ_HOST_TOKEN_BPE_H
#define CDZ_HOST_TOKEN_BPE_H

#include "token/strmap.h"

typedef struct cdz_bpe_pair {
    uint64_t key;  /* left id << 32 | right id; CDZ_BPE_FREE where nothing is */
    uint32_t rank; /* place in the list of merges, or the id: the lowest goes first */
    int32_t id;    /* what the two become */
} cdz_bpe_pair;

#define CDZ_BPE_FREE    UINT64_MAX
#define CDZ_BPE_NO_RANK UINT32_MAX

typedef struct cdz_bpe {
    int32_t byte_id[256]; /* the token of one byte, or -1 */
    int32_t unk_id;       /* stands for bytes without a token; -1: such bytes are dropped */
    bool fuse_unk;        /* neighbouring unknowns are one */
    bool ignore_merges;   /* a piece that is a token is that token, whatever the merges say */
    cdz_bpe_pair *pairs;  /* flat hash */
    uint64_t pair_mask;
    uint64_t pair_seed; /* of the hash: a file cannot be made whose pairs all collide */
    unsigned pair_shift;
    cdz_strmap words; /* bytes to id, for ignore_merges */
} cdz_bpe;

/* A symbol of a long piece, in a list by place. */
typedef struct cdz_bpe_symbol {
    int32_t id;
    uint32_t begin;
    uint32_t prev,
        next;      /* next of the last is the number of symbols; prev of the first is never read */
    uint32_t rank; /* of the pair it makes with the next, CDZ_BPE_NO_RANK: none, or merged away */
} cdz_bpe_symbol;

/* Growing arrays for long pieces. Zeroed is ready. */
typedef struct cdz_bpe_work {
    cdz_bpe_symbol *symbols;
    uint64_t *heap; /* rank << 32 | symbol, smallest first */
    size_t cap, heap_n, heap_cap;
} cdz_bpe_work;

void cdz_bpe_work_free(cdz_bpe_work *work);

/* An empty table of pairs with room for n; false when memory is out. */
bool cdz_bpe_init_pairs(cdz_bpe *bpe, cdz_arena *arena, size_t n);
/* A later pair replaces an equal earlier one, as in the reference. */
void cdz_bpe_put_pair(cdz_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id);

/* Writes the ids of a piece of n bytes (0 < n < 2^31) to ids, and to begins (may be NULL) the
 * byte at which each begins; both have room for n. Returns their number, or SIZE_MAX when memory
 * is out. */
size_t cdz_bpe_encode(const cdz_bpe *bpe, cdz_bpe_work *work, const uint8_t *piece, size_t n,
                      int32_t *ids, uint32_t *begins);

/* --- for BPE over characters ------------------------------------------------------------------ */

/* Room for n symbols; false when memory is out. */
bool cdz_bpe_reserve(cdz_bpe_work *work, size_t n);
/* Merges the n symbols in work->symbols, whose id and begin are set: what is left is a list from
 * symbol 0 by `next`. False when memory is out. */
bool cdz_bpe_merge(const cdz_bpe *bpe, cdz_bpe_work *work, uint32_t n);

#endif
