/* fuse.h - runs of processors whose form is known (cadenza/ext/form.h) go over a row in one walk. */
#ifndef CDZ_HOST_RUN_STAGES_FUSE_H
#define CDZ_HOST_RUN_STAGES_FUSE_H

#include "random/open_race.h"
#include "run/stages/stages.h"

/* A row that a draw needs no more than a list of: ids and then probabilities stand where its scores stood. */
struct cdz_drawn {
    bool listed;
    bool open;       /* the list are leaders, and the others not masked (random/open_race.h) */
    cdz_field field; /* of those, without the list */
    uint32_t n;
};

/* After begin: asks the processor for its form, if it may be told apart from its apply at all. */
void cdz_stage_describe(cdz_rows *rows, cdz_stage *stage);
/* Where the run that begins with stage `from` ends, at `to` at most; `from`: there is none that can be fused. phase: the
 * row's bit (phase.h); stages without it are not in the run. */
uint32_t cdz_fuse_end(const cdz_stage_chain *chain, uint32_t from, uint32_t to, uint32_t phase);
/* Stages [from, to) on one row. False: the row is as it was, do them one by one. drawn: NULL, or what the row may become
 * instead. [row] */
bool cdz_fuse_row(const cdz_stage_chain *chain, uint32_t from, uint32_t to, uint32_t phase,
                  float *row, uint32_t n_vocab, cdz_row_worker *worker, cdz_drawn *drawn);
/* Can all processors together be run on a row whose best tokens alone, and those that are edited (edits.h), are known? */
typedef struct cdz_fuse_wishes {
    uint32_t least; /* how many of the best */
    float divisor;  /* of the scores that a mass is wanted for, or 0 */
    bool cuts;      /* what is left can be drawn from; false: all that can be told is the best */
    bool open;      /* nothing is cut off: can be drawn from where the leaders are enough */
} cdz_fuse_wishes;
bool cdz_fuse_wish(const cdz_stageset *set, const cdz_rows *rows, cdz_fuse_wishes *wish);
/* All processors on row r of `scores`, the view's and the request's first + r, which is away: a list in its place at home.
 * False: not enough is known of it. */
bool cdz_fuse_leaders(cdz_stageset *set, cdz_rows *rows, const cdz_scores *scores, uint32_t first,
                      uint32_t r, cdz_drawn *drawn);
/* The token that the stream draws from a listed row that is not open. */
int32_t cdz_fuse_draw(cdz_torch_rng *rng, const float *row, uint32_t n_vocab,
                      const cdz_drawn *drawn);
/* And from an open one, as in cdz_fuse_leaders; single scores are asked for where that decides. -1: what is known is not
 * enough, and the stream has not moved. */
int32_t cdz_fuse_draw_open(cdz_torch_rng *rng, const cdz_stageset *set, cdz_rows *rows,
                           const cdz_scores *scores, uint32_t first, uint32_t r,
                           const cdz_drawn *drawn);
/* And from a row of processed scores, which becomes its softmax if need be. -1: there is nothing to draw. */
int32_t cdz_fuse_draw_row(cdz_torch_rng *rng, float *row, uint32_t n_vocab, cdz_row_worker *worker);

#endif
