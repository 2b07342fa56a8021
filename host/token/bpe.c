/* bpe.c - byte-pair encoding: again and again the pair of lowest rank is merged, the leftmost on a
 * tie.
 *
 * Short pieces (nearly all) do that literally over small arrays. Long ones use a linked list and
 * a heap of (rank, place), O(n log n): a file may hold one word of a million letters. */
#include "token/bpe.h"

#include <stdlib.h>

#define SHORT_PIECE 48

bool cdz_bpe_init_pairs(cdz_bpe *bpe, cdz_arena *arena, size_t n)
{
    unsigned bits = 4;
    while ((size_t)1 << bits < n + n / 2 + 1) bits++;
    const size_t n_slots = (size_t)1 << bits;
    bpe->pairs = cdz_arena_array(arena, n_slots, sizeof *bpe->pairs);
    if (!bpe->pairs) return false;
    bpe->pair_mask = n_slots - 1;
    bpe->pair_seed = (uint64_t)(uintptr_t)bpe->pairs * CDZ_HASH_MUL; /* differs from run to run */
    bpe->pair_shift = 64 - bits;
    for (size_t i = 0; i < n_slots; i++) bpe->pairs[i].key = CDZ_BPE_FREE;
    return true;
}

static inline uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static inline cdz_bpe_pair *pair_slot(const cdz_bpe *bpe, uint64_t key)
{
    uint64_t i = cdz_hash_mix(key ^ bpe->pair_seed) * CDZ_HASH_MUL >> bpe->pair_shift;
    while (bpe->pairs[i].key != key && bpe->pairs[i].key != CDZ_BPE_FREE)
        i = (i + 1) & bpe->pair_mask;
    return &bpe->pairs[i];
}

void cdz_bpe_put_pair(cdz_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
    const uint64_t key = pair_key(left, right);
    *pair_slot(bpe, key) = (cdz_bpe_pair){key, rank, id};
}

static inline uint32_t pair_rank(const cdz_bpe *bpe, int32_t left, int32_t right)
{
    const cdz_bpe_pair *p = pair_slot(bpe, pair_key(left, right));
    return p->key == CDZ_BPE_FREE ? CDZ_BPE_NO_RANK : p->rank;
}

typedef struct first_symbol {
    int32_t id;
    uint32_t begin;
} first_symbol;

typedef struct symbol_walk {
    const uint8_t *piece;
    size_t n, at;
    bool last_unknown;
} symbol_walk;

/* The next first symbol of a piece; false at its end. */
static inline bool next_symbol(const cdz_bpe *bpe, symbol_walk *walk, first_symbol *out)
{
    while (walk->at < walk->n) {
        const int32_t token = bpe->byte_id[walk->piece[walk->at]];
        const uint32_t begin = (uint32_t)walk->at++;
        const bool unknown = token < 0;
        if (unknown && bpe->unk_id < 0) continue;
        const bool fused = unknown && walk->last_unknown && bpe->fuse_unk;
        walk->last_unknown = unknown;
        if (fused) continue;
        *out = (first_symbol){unknown ? bpe->unk_id : token, begin};
        return true;
    }
    return false;
}

/* --- short pieces ----------------------------------------------------------------------------- */

static size_t merge_short(const cdz_bpe *bpe, int32_t *id, uint32_t *begin, size_t n)
{
    uint32_t rank[SHORT_PIECE]; /* of the pair that begins at each symbol */
    int32_t made[SHORT_PIECE];  /* what that pair becomes */
    for (size_t i = 0; i + 1 < n; i++) {
        const cdz_bpe_pair *p = pair_slot(bpe, pair_key(id[i], id[i + 1]));
        rank[i] = p->key == CDZ_BPE_FREE ? CDZ_BPE_NO_RANK : p->rank;
        made[i] = p->id;
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best]) best = i;
        if (rank[best] == CDZ_BPE_NO_RANK) break;
        id[best] = made[best];
        n--;
        for (size_t i = best + 1; i < n; i++) {
            id[i] = id[i + 1];
            begin[i] = begin[i + 1];
            rank[i - 1] = rank[i];
            made[i - 1] = made[i];
        }
        for (size_t i = best ? best - 1 : 0; i <= best && i + 1 < n; i++) {
            const cdz_bpe_pair *p = pair_slot(bpe, pair_key(id[i], id[i + 1]));
            rank[i] = p->key == CDZ_BPE_FREE ? CDZ_BPE_NO_RANK : p->rank;
            made[i] = p->id;
        }
    }
    return n;
}

static size_t encode_short(const cdz_bpe *bpe, const uint8_t *piece, size_t n, int32_t *ids,
                           uint32_t *begins)
{
    uint32_t begin[SHORT_PIECE];
    symbol_walk walk = {.piece = piece, .n = n};
    first_symbol s;
    for (n = 0; next_symbol(bpe, &walk, &s); n++) {
        ids[n] = s.id;
        begin[n] = s.begin;
    }
    n = merge_short(bpe, ids, begin, n);
    if (begins) memcpy(begins, begin, n * sizeof *begins);
    return n;
}

/* --- long pieces ------------------------------------------------------------------------------ */

bool cdz_bpe_reserve(cdz_bpe_work *w, size_t n)
{
    if (n <= w->cap) return true;
    if (n > SIZE_MAX / sizeof *w->symbols) return false;
    cdz_bpe_symbol *symbols = realloc(w->symbols, n * sizeof *symbols);
    if (!symbols) return false;
    w->symbols = symbols;
    w->cap = n;
    return true;
}

void cdz_bpe_work_free(cdz_bpe_work *w)
{
    free(w->symbols);
    free(w->heap);
    *w = (cdz_bpe_work){0};
}

static void heap_sink(uint64_t *heap, size_t n, size_t i)
{
    const uint64_t moved = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (moved <= heap[child]) break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

static bool heap_push(cdz_bpe_work *w, uint32_t rank, uint32_t symbol)
{
    if (w->heap_n == w->heap_cap) {
        const size_t cap = w->heap_cap ? w->heap_cap * 2 : 256;
        uint64_t *heap = cap > SIZE_MAX / sizeof *heap ? NULL : realloc(w->heap, cap * sizeof *heap);
        if (!heap) return false;
        w->heap = heap;
        w->heap_cap = cap;
    }
    const uint64_t item = (uint64_t)rank << 32 | symbol;
    size_t i = w->heap_n++;
    for (; i > 0 && item < w->heap[(i - 1) / 2]; i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = item;
    return true;
}

static uint64_t heap_pop(cdz_bpe_work *w)
{
    const uint64_t top = w->heap[0];
    w->heap[0] = w->heap[--w->heap_n];
    if (w->heap_n > 1) heap_sink(w->heap, w->heap_n, 0);
    return top;
}

/* Sets the rank of the pair that begins at symbol i and queues it. A symbol's rank tells a
 * queued pair from one that merging has changed since: symbols only grow, so a pair of ids never
 * comes back to its place. */
static bool queue_pair(const cdz_bpe *bpe, cdz_bpe_work *w, uint32_t i, uint32_t n)
{
    cdz_bpe_symbol *s = &w->symbols[i];
    s->rank = s->next < n ? pair_rank(bpe, s->id, w->symbols[s->next].id) : CDZ_BPE_NO_RANK;
    return s->rank == CDZ_BPE_NO_RANK || heap_push(w, s->rank, i);
}

/* Joins symbol i with the one after it and queues the two pairs that this makes. */
static bool merge_at(const cdz_bpe *bpe, cdz_bpe_work *w, uint32_t i, uint32_t n)
{
    cdz_bpe_symbol *left = &w->symbols[i], *right = &w->symbols[left->next];
    left->id = pair_slot(bpe, pair_key(left->id, right->id))->id;
    left->next = right->next;
    right->rank = CDZ_BPE_NO_RANK;
    if (left->next < n) w->symbols[left->next].prev = i;
    if (!queue_pair(bpe, w, i, n)) return false;
    return i == 0 || queue_pair(bpe, w, left->prev, n);
}

bool cdz_bpe_merge(const cdz_bpe *bpe, cdz_bpe_work *w, uint32_t n)
{
    w->heap_n = 0;
    for (uint32_t i = 0; i < n; i++) {
        w->symbols[i].next = i + 1;
        w->symbols[i].prev = i - 1;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!queue_pair(bpe, w, i, n)) return false;
    while (w->heap_n > 0) {
        const uint64_t top = heap_pop(w);
        const uint32_t i = (uint32_t)top;
        if (w->symbols[i].rank != (uint32_t)(top >> 32)) continue;
        if (!merge_at(bpe, w, i, n)) return false;
    }
    return true;
}

static size_t encode_long(const cdz_bpe *bpe, cdz_bpe_work *w, const uint8_t *piece, size_t n,
                          int32_t *ids, uint32_t *begins)
{
    if (!cdz_bpe_reserve(w, n)) return SIZE_MAX;
    symbol_walk walk = {.piece = piece, .n = n};
    first_symbol s;
    uint32_t n_symbols = 0;
    while (next_symbol(bpe, &walk, &s))
        w->symbols[n_symbols++] = (cdz_bpe_symbol){.id = s.id, .begin = s.begin};
    if (!cdz_bpe_merge(bpe, w, n_symbols)) return SIZE_MAX;
    size_t n_ids = 0;
    for (uint32_t i = 0; i < n_symbols; i = w->symbols[i].next) {
        if (begins) begins[n_ids] = w->symbols[i].begin;
        ids[n_ids++] = w->symbols[i].id;
    }
    return n_ids;
}

size_t cdz_bpe_encode(const cdz_bpe *bpe, cdz_bpe_work *work, const uint8_t *piece, size_t n,
                      int32_t *ids, uint32_t *begins)
{
    if (bpe->ignore_merges) {
        const int32_t whole = cdz_strmap_get(&bpe->words, (const char *)piece, n);
        if (whole >= 0) {
            ids[0] = whole;
            if (begins) begins[0] = 0;
            return 1;
        }
    }
    if (n <= SHORT_PIECE) return encode_short(bpe, piece, n, ids, begins);
    return encode_long(bpe, work, piece, n, ids, begins);
}
