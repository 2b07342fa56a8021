/* sequence.h - one sequence: its ids, and how much of them the KV cache holds.
 *
 * Two lengths. ids are what processors see, pads included. Positions count only the ids whose mask is 1 (all of
 * them without a mask): the KV cache holds positions [0, computed), number p being the p-th visible id. The mask
 * covers the first mask_len ids, later ones are visible. Invariant: computed <= visible, and a pass that wants
 * scores of the end makes computed < visible first, by forgetting the last position.
 * Slots. A prompt may be given as embeddings: those are what the model reads, and the ids beside them, as many or
 * none, are for processors alone. A slot is one of these embeddings or an id after them; without embeddings slot and
 * index of an id are the same. The mask is over slots.
 * States. Where a model has recurrent layers, a sequence holds their state after its computed positions, and marks: states after
 * fewer positions, to go back to, since a state cannot be taken back. Cut to n positions, a cache goes on from its newest mark at
 * or before n, and the positions from there on are read again, with the same bits. Marks are set where going back is likely: where
 * the prompt ends, before several positions are read at once (drafts), and every CDZ_STATE_EVERY positions; a few at a time, and
 * only while the account has more than a state for each row. States and marks are shared by copies and never written while
 * another holds them.
 * Edits of hidden states (steer.h). What the cache holds is always what ids and edits say together: whoever gives a sequence other
 * edits cuts its cache to the positions that both leave as they are, and caches are shared only up to there. A model's control
 * vectors are edits that all its sequences begin with, and never lose.
 * Vectors in place of ids (given.h) are likewise a part of what the cache holds, position by position: those at and behind a place
 * that the sequence is cut to are forgotten with it.
 * Drops (drop.h) are a part of it as well, each from where it was made on: those made behind a place that the ids are cut to are
 * forgotten with it.
 * Thread: [engine]. Row sequences belong to their decoder's rows, others to its list. */
#ifndef CDZ_HOST_RUN_PASS_SEQUENCE_H
#define CDZ_HOST_RUN_PASS_SEQUENCE_H

#include "cadenza/strategy.h"
#include "run/job.h"
#include "run/pass/drop.h"
#include "run/pass/encoded.h"
#include "run/pass/given.h"
#include "run/pass/kv.h"
#include "run/pass/press.h"
#include "run/pass/steer.h"

enum { CDZ_STATE_MARKS = 4, CDZ_STATE_EVERY = 512 };
/* States that are reserved for each sequence, and how many of these marks may take. */
enum { CDZ_STATES_A_ROW = 4, CDZ_STATES_FREE = 1 };

typedef struct cdz_state_mark {
    uint32_t position; /* how many had been read */
    int32_t state;
} cdz_state_mark;

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
    uint32_t behind; /* positions that the longest of the request's rows had more when they began */
    int32_t *blocks; /* (n_blocks) block of positions [32 i, 32 i + 32) */
    uint32_t n_blocks, blocks_cap;
    uint32_t n_listed; /* the first ones of them: may be found by others (kv.h) */
    /* The first ones that are of an earlier request's account, which has to list them or nobody. */
    uint32_t n_foreign;
    bool looked; /* for what others have listed */
    /* Of a packed sequence: plain blocks are a ring, so block i is block i - ring too, and holds the later of the two; spans
     * that are whole lie in the account beside. */
    int32_t *spans; /* (n_spans) */
    uint32_t n_spans, spans_cap;
    uint32_t reached;  /* positions that the ring has held since it was empty */
    uint32_t computed; /* positions in the KV cache */
    /* Of a model with recurrent layers. */
    int32_t state;  /* after the computed positions; there where has_state */
    bool has_state; /* or nothing has been computed */
    uint32_t n_marks;
    cdz_state_mark marks[CDZ_STATE_MARKS]; /* by rising position, none above computed */
    uint32_t known; /* positions computed as callers know it: more than computed where a state went back further, or
                     * blocks were taken from it */
    /* Of a row that is pressed, and copies of it (press.h). */
    cdz_press_plan *press;  /* the loop's; NULL: it is not */
    uint32_t press_from;    /* positions at which presses of prompts run; 0: they do not */
    uint32_t press_begun;   /* of its prompt */
    uint32_t press_done;    /* presses that were due by then have run */
    uint32_t press_row;     /* of the request */
    cdz_pressed *pressed;   /* what the newest left; NULL: nothing has gone */
    cdz_press_notes *notes; /* for the next; its own */
    cdz_drops *drops;       /* held: what loops took out of its cache (drop.h); NULL: nothing */
    uint32_t n_drops;       /* the first ones of them that are its own */
    uint32_t n_dropped;     /* those that its cache has behind it */
    bool drop_failed; /* memory was short where a pass had to carry one out: the cache is worth nothing */
    bool long_rope;      /* the cache was made with longrope's long frequencies */
    cdz_encoded *source; /* what an encoder-decoder model reads; the task's. NULL: a decoder alone */
    cdz_steering *edits; /* of hidden states, held; NULL: none */
    cdz_given *given;    /* vectors that are read in place of ids, held; NULL: none */
    uint32_t given_to;   /* only those before this position count */
    uint32_t n_layers;   /* runs this many of the model's layers; 0: all */
    bool is_row;         /* a request's row: edited by the row verbs alone */
    cdz_seq *next;       /* in the decoder's list of other sequences */
};

/* Prepares a zeroed sequence with room for n_ids ids. */
cdz_status cdz_seq_init(cdz_seq *seq, cdz_run_model *model, cdz_kv_account *account, uint32_t n_ids,
                        cdz_error *err);
void cdz_seq_clear(cdz_seq *seq);       /* drops blocks, frees memory; zeroed is fine */
void cdz_seq_free_memory(cdz_seq *seq); /* all but blocks: of a pool that is no more, or has them back */

/* The ids so far stand beside these embeddings. */
void cdz_seq_embed(cdz_seq *seq, const float *embeds, uint32_t n);
void cdz_seq_set_mask(cdz_seq *seq, const uint8_t *mask, uint32_t len);
/* The ids may be the sequence's own. */
cdz_status cdz_seq_push(cdz_seq *seq, const int32_t *ids, uint32_t n, cdz_error *err);
/* Bytes of it beside its cache: of what it shares, its part. */
uint64_t cdz_seq_weight(const cdz_seq *seq);
/* Keeps the first len ids, and of the cache what can be gone on with (cdz_seq_resumes). */
void cdz_seq_cut(cdz_seq *seq, uint32_t len);
void cdz_seq_forget(cdz_seq *seq); /* the whole cache */
/* From now on it has these edits, which it holds, or NULL; keeps of the cache what they leave as it is. */
void cdz_seq_set_edits(cdz_seq *seq, cdz_steering *edits);
/* Its positions [from, from + n), which it has, are read as these vectors (n, width of the model); NULL: as their ids. */
cdz_status cdz_seq_give(cdz_seq *seq, uint32_t from, const float *vectors, uint32_t n,
                        cdz_error *err);
/* Its blocks are needed elsewhere: gives them back, and computes them again when it goes on. Nobody is to see that: what
 * it held by then stays known. */
void cdz_seq_yield(cdz_seq *seq);
/* to becomes what from is: same ids, same mask, shared blocks. */
cdz_status cdz_seq_copy(cdz_seq *to, const cdz_seq *from, cdz_error *err);
/* Takes over from's cache when both hold the same ids; to has none yet. */
cdz_status cdz_seq_adopt(cdz_seq *to, const cdz_seq *from, cdz_error *err);

/* Leading positions that b's cache holds and at which both have the same id. */
uint32_t cdz_seq_common(const cdz_seq *a, const cdz_seq *b);
/* How many of its first n positions a cache can be gone on from: n; of a packed sequence none where the plain keys that the next
 * position reads have been written over; of one with recurrent layers as many as its newest mark at or before n has, or all that
 * are computed. What lies in blocks alone may be shared by who holds the same ids; a state may not, but where this says so. */
uint32_t cdz_seq_resumes(const cdz_seq *seq, uint32_t n);
/* to, which has no cache yet, shares what from's can be gone on from of its first n positions, or copies it where its pool shares
 * nothing (spans and states, which are not written while others hold them, are shared all the same). None where one is packed and
 * the other is not, or otherwise. */
cdz_status cdz_seq_share(cdz_seq *to, const cdz_seq *from, uint32_t n, cdz_error *err);

/* The first position at which edits or vectors of the two differ; UINT32_MAX: none. b NULL: one that has its model's control
 * vectors alone, as all of them are born. */
uint32_t cdz_seq_parts(const cdz_seq *a, const cdz_seq *b);
uint32_t cdz_seq_visible(const cdz_seq *seq);                 /* positions its ids have */
uint32_t cdz_seq_slot(const cdz_seq *seq, uint32_t position); /* of a visible position */

/* The next pass runs where the longest row has `length` positions: forgets a cache that was made with other
 * frequencies (longrope; with the dynamic type cached keys keep theirs). Call before cdz_seq_prepare. */
void cdz_seq_rotate_for(cdz_seq *seq, uint32_t length);

/* Makes every block that positions [computed, visible) need present and its own: the pass after this cannot fail.
 * Forgets the last position first when the cache holds everything. */
cdz_status cdz_seq_prepare(cdz_seq *seq, cdz_error *err);

/* Its entries have been moved: takes what the press left over, and gives back the blocks that nobody needs for what it
 * holds and is to read. */
void cdz_seq_pressed(cdz_seq *seq, cdz_pressed *pressed);

/* Positions [from, to), which it had read, are taken out of its cache: at once, or where the cache is not there when it is read
 * again. */
cdz_status cdz_seq_take_out(cdz_seq *seq, uint32_t from, uint32_t to, bool renumber, cdz_error *err);
void cdz_seq_undrop(cdz_seq *seq); /* forgets drops, and the cache with them */
/* Its positions from n on are read again by the next pass. */
void cdz_seq_reread(cdz_seq *seq, uint32_t n);
/* Blocks from this one on become its alone, to be written to. */
cdz_status cdz_seq_own(cdz_seq *seq, uint32_t block, cdz_error *err);
/* Blocks that it needs to go on to the end of its ids. */
uint32_t cdz_seq_needs(const cdz_seq *seq);

/* Lists the blocks of the prompt that are computed, so that others find them. Those of the whole cache are listed when they
 * are given back. Not listed, and never found: what hangs on more than the ids before it, as embeddings, a mask, a source,
 * a pass through some of the layers, or quantised positions. */
void cdz_seq_list(cdz_seq *seq);
/* Those of the whole cache, now: a later request may share them, and cannot list what another's account holds. */
void cdz_seq_list_all(cdz_seq *seq);
/* Takes over what others have listed of the positions that it lacks: whole blocks, and never the last position, nor
 * one behind an edit. Before cdz_seq_prepare, so that no block is taken for them, or later. reads_all: scores or states of all positions are asked
 * for, so that none may be taken over. Returns how many were. */
uint32_t cdz_seq_find(cdz_seq *seq, bool reads_all);
/* Between two passes of a want: notes the state where a mark is due, if there is room for one. */
void cdz_seq_mark(cdz_seq *seq);
bool cdz_seq_recurs(const cdz_seq *seq); /* has its model recurrent layers? */

/* Checked builds: what this header promises of a sequence; every function that changes one ends with it. */
void cdz_seq_check(const cdz_seq *seq);
uint32_t cdz_seq_own_blocks(const cdz_seq *seq); /* entries of the table that repeat none before */

#endif
