/* run_strategies.h - for decode loops written inside tests: checks that end the request with file line and text
 * instead of jumping out of its fibre, and plugins whose state can be read off the scores. */
#ifndef CADENZA_TEST_RUN_STRATEGIES_H
#define CADENZA_TEST_RUN_STRATEGIES_H

#include "cadenza/ext/steer.h"
#include "support/run_support.h"

/* In brackets because cmocka has a macro named fail. */
#define SAY(...) (step->host->fail)(step, CDZ_E_INTERNAL, __VA_ARGS__)
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) return SAY("line %d: %s", __LINE__, #condition);                         \
    } while (0)

#define STRATEGY(name_, run_, caps_)                                                               \
    static const cdz_strategy name_ = {                                                            \
        .base = {CDZ_STRATEGY_BASE, .id = "test." #name_, .version = "1.0.0", .summary = #name_},  \
        .caps = caps_,                                                                             \
        .run = run_,                                                                               \
    }

/* --- a history told by its hash ------------------------------------------------------------------------------- */

/* Of the generated ids. */
float hash_of(cdz_ids ids, uint32_t prompt_len);

/* Write a row's state into score 0 and the hash of its ids into score 1: one row by row, one all at once. */
extern const cdz_processor hash_rows;
extern const cdz_processor hash_all;

/* Stops when the state says that a multiple of four tokens was seen and the newest is 9. */
extern const cdz_criterion nine_rule;

/* --- reference scores ------------------------------------------------------------------------------------------- */

/* Scores after ids, computed from nothing in a sequence of its own; valid until the next seq_forward. */
cdz_status fresh_scores(cdz_decoder *dec, cdz_ids ids, const float **out);
/* What two sequences say after their ids must be the same bits. */
cdz_status compare_with(cdz_decoder *dec, const cdz_step *step, cdz_seq *seq, cdz_seq *fresh);
/* What a sequence says after its ids must be what a new one says that has the same edits and reads the ids at once. */
cdz_status compare_with_new(cdz_decoder *dec, const cdz_step *step, cdz_seq *seq,
                            const cdz_edit *edits, uint32_t n_edits);
bool same_floats(const float *a, const float *b, size_t n);
/* An own copy: free() it. */
float *keep_floats(const float *from, size_t n);

/* --- one prompt, whole and in pieces ---------------------------------------------------------------------------- */

/* Below n. */
uint32_t draw(uint32_t *seed, uint32_t n);
/* n ids from 3 on, below n_vocab. */
void random_ids(int32_t *ids, uint32_t n, uint32_t n_vocab, uint32_t seed);
size_t vocab_of(const rig *r);
/* The scores of all positions, [len, vocab_of(r)], read by the host at once, and by a loop in uneven pieces: free() them. */
float *whole_logits(const rig *r, const int32_t *ids, uint32_t len);
float *piece_logits(const rig *r, const int32_t *ids, uint32_t len);

#endif
