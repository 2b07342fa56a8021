/* sequence.h - one sequence: its ids, and how much of them the KV cache holds.
 *
 * Two lengths. ids are what processors see, pads included. Positions count only the ids whose mask is 1 (all of
 * them without a mask): the KV cache holds positions [0, computed), number p being the p-th visible id. The mask
 * covers the first mask_len ids, later ones are visible. Invariant: computed <= visible, and a pass that wants
 * scores of the end makes computed < visible first, by forgetting the last position.
 * Slots. A prompt may be given as embeddings: those are what the model reads, and the ids beside them, as many or
 * none, are for processors alone. A slot is one of these embeddings or an id after them; without embeddings slot and
 * index of an id are the same. The mask is over slots.
 * Thread: [engine]. Row sequences belong to their decoder's rows, others to its list. */
#ifndef CDZ_HOST_RUN_PASS_SEQUENCE_H
#define CDZ_HOST_RUN_PASS_SEQUENCE_H

#include "cadenza/strategy.h"
#include "run/job.h"
#include "run/pass/encoded.h"
#include "run/pass/kv.h"

struct cdz_seq {
    cdz_run_model *model;
    cdz_kv_account *account;
    int32_t *ids; /* (n) of cap */
    uint32_t n, cap;
    const float *embeds; /* (n_embeds, hidden) request lifetime; NULL: the ids are what the model reads */
    uint32_t n_embeds, n_beside; /* the first n_beside ids stand beside them */
    const uint8_t *mask;         /* (mask_len) request lifetime; NULL: everything is visible */
    uint32_t mask_len, mask_visible;
    uint32_t begun;  /* a row, or a copy of one: positions of its prompt. Else 0 */
    int32_t *blocks; /* (n_blocks) block of positions [32 i, 32 i + 32) */
    uint32_t n_blocks, blocks_cap;
    /* Of a packed sequence: plain blocks are a ring, so block i is block i - ring too, and holds the later of the two; spans
     * that are whole lie in the account beside. */
    int32_t *spans; /* (n_spans) */
    uint32_t n_spans, spans_cap;
    uint32_t reached;    /* positions that the ring has held since it was empty */
    uint32_t computed;   /* positions in the KV cache */
    bool long_rope;      /* the cache was made with longrope's long frequencies */
    cdz_encoded *source; /* what an encoder-decoder model reads; the task's. NULL: a decoder alone */
    uint32_t n_layers;   /* runs this many of the model's layers; 0: all */
    bool is_row;         /* a request's row: edited by the row verbs alone */
    cdz_seq *next;       /* in the decoder's list of other sequences */
};

/* Prepares a zeroed sequence with room for n_ids ids. */
cdz_status cdz_seq_init(cdz_seq *seq, cdz_run_model *model, cdz_kv_account *account, uint32_t n_ids,
                        cdz_error *err);
void cdz_seq_clear(cdz_seq *seq); /* drops blocks, frees memory; zeroed is fine */

/* The ids so far stand beside these embeddings. */
void cdz_seq_embed(cdz_seq *seq, const float *embeds, uint32_t n);
void cdz_seq_set_mask(cdz_seq *seq, const uint8_t *mask, uint32_t len);
/* The ids may be the sequence's own. */
cdz_status cdz_seq_push(cdz_seq *seq, const int32_t *ids, uint32_t n, cdz_error *err);
/* Keeps the first len ids, and of the cache what can be gone on with: of a packed sequence all, or nothing where the plain
 * keys that its next position reads have been written over. */
void cdz_seq_cut(cdz_seq *seq, uint32_t len);
void cdz_seq_forget(cdz_seq *seq); /* the whole cache */
/* to becomes what from is: same ids, same mask, shared blocks. */
cdz_status cdz_seq_copy(cdz_seq *to, const cdz_seq *from, cdz_error *err);
/* Takes over from's cache when both hold the same ids; to has none yet. */
cdz_status cdz_seq_adopt(cdz_seq *to, const cdz_seq *from, cdz_error *err);

/* Leading positions that b's cache holds and at which both have the same id. */
uint32_t cdz_seq_common(const cdz_seq *a, const cdz_seq *b);
/* to, which has no cache yet, shares the first n positions of from's, or copies them where its pool shares nothing (spans,
 * which are written once, are shared all the same). None where one is packed and the other is not, or otherwise, or where n
 * positions cannot be gone on with. */
cdz_status cdz_seq_share(cdz_seq *to, const cdz_seq *from, uint32_t n, cdz_error *err);

uint32_t cdz_seq_visible(const cdz_seq *seq);                 /* positions its ids have */
uint32_t cdz_seq_slot(const cdz_seq *seq, uint32_t position); /* of a visible position */

/* The next pass runs where the longest row has `length` positions: forgets a cache that was made with other
 * frequencies (longrope; with the dynamic type cached keys keep theirs). Call before cdz_seq_prepare. */
void cdz_seq_rotate_for(cdz_seq *seq, uint32_t length);

/* Makes every block that positions [computed, visible) need present and its own: the pass after this cannot fail.
 * Forgets the last position first when the cache holds everything. */
cdz_status cdz_seq_prepare(cdz_seq *seq, cdz_error *err);

/* Checked builds: what this header promises of a sequence; every function that changes one ends with it. */
void cdz_seq_check(const cdz_seq *seq);
uint32_t cdz_seq_own_blocks(const cdz_seq *seq); /* entries of the table that repeat none before */

#endif
