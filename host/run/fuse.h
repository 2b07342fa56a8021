/* fuse.h - runs of processors whose form is known (cadenza/ext/form.h) go over a row in one walk. */
#ifndef CDZ_HOST_RUN_FUSE_H
#define CDZ_HOST_RUN_FUSE_H

#include "run/loop.h"

/* A row that a draw needs no more than the survivors of: their ids and then their probabilities stand where its scores
 * stood. */
struct cdz_drawn {
    bool listed;
    uint32_t n;
};

/* After begin: asks the processor for its form, if it may be told apart from its apply at all. */
void cdz_stage_describe(cdz_loop *loop, cdz_stage *stage);
/* Where the run that begins with stage `from` ends, at `to` at most; `from`: there is none that can be fused. phase: the
 * row's bit (phase.h); stages without it are not in the run. */
uint32_t cdz_fuse_end(const cdz_loop *loop, uint32_t from, uint32_t to, uint32_t phase);
/* Stages [from, to) on one row. False: the row is as it was, do them one by one. drawn: NULL, or what the row may become
 * instead. [row] */
bool cdz_fuse_row(const cdz_loop *loop, uint32_t from, uint32_t to, uint32_t phase, float *row,
                  uint32_t n_vocab, cdz_worker *worker, cdz_drawn *drawn);
/* Can all processors together be run on a row whose best tokens alone are known? How many of them, and the divisor of the
 * scores that a mass is wanted for, or 0. */
bool cdz_fuse_wish(const cdz_loop *loop, uint32_t *least, float *divisor);
/* All processors on a row that is away, of which this is known: a list in place of `row`, which is room for it. False: not
 * enough is known. */
bool cdz_fuse_leaders(const cdz_loop *loop, const cdz_leaders *leaders, float *row,
                      uint32_t n_vocab, cdz_worker *worker, cdz_drawn *drawn);
/* The token that the stream draws from a listed row. */
int32_t cdz_fuse_draw(cdz_torch_rng *rng, const float *row, uint32_t n_vocab,
                      const cdz_drawn *drawn);

#endif
