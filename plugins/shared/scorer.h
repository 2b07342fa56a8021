/* scorer.h - what the beam searches of transformers 4 share: sequences that ended, ranked, and the answer made of them.
 * BeamHypotheses and the common half of BeamSearchScorer and ConstrainedBeamSearchScorer, transformers 4.55.4
 * generation/beam_search.py. They rank and stop otherwise than the beam search of transformers 5 (strategies/beam): a
 * pool takes what ended only while it has room or a worse one, and scores are compared in double precision.
 *
 * Built into each package that needs it. All memory is the strategy's scratch: nothing is freed here. */
#ifndef CADENZA_PLUGINS_SCORER_H
#define CADENZA_PLUGINS_SCORER_H

#include <cadenza/strategy.h>

#define CDZ_SCORER_OFF (-1.0e9f) /* the score of what may not be chosen; the reference's constant */

/* The newest token of a sequence, and what its beam_indices say of it. A NULL link is the prompt. */
typedef struct cdz_link {
    const struct cdz_link *before;
    uint32_t len; /* new tokens up to here */
    int32_t token, index;
    cdz_token_score said;
} cdz_link;

/* A sequence that may be returned. */
typedef struct cdz_hypothesis {
    const cdz_link *last;
    const cdz_link *path; /* its indices: last, or a chain of their own */
    double score;
    cdz_stop stop; /* reason 0: the search was cut short */
} cdz_hypothesis;

/* The best that ended, in the order they came. */
typedef struct cdz_pool {
    cdz_hypothesis *at;
    uint32_t n;
    double worst;
    bool done; /* nothing can get in any more */
} cdz_pool;

enum {
    CDZ_STOP_LATER,
    CDZ_STOP_WHEN_FULL,
    CDZ_STOP_NEVER
}; /* early_stopping = false, true, never */

/* Parameters of both searches, as generation parameters spell them. */
typedef struct cdz_ranking {
    cdz_opt_real length_penalty;
    cdz_word early_stopping;
} cdz_ranking;

#define CDZ_RANKING_LENGTH(T)                                                                      \
    CDZ_OPT_REAL(T, length_penalty, CDZ_GENERATION, -CDZ_NO_LIMIT, CDZ_NO_LIMIT,                   \
                 "scores of sequences are divided by their new tokens to this power")
#define CDZ_RANKING_STOP(T)                                                                        \
    CDZ_BOOL_OR_WORD(T, early_stopping, CDZ_GENERATION, "never",                                   \
                     "true: stop once a pool is full; never: only when none can win")

typedef struct cdz_scorer {
    cdz_decoder *dec;
    const cdz_step *step;
    double length_penalty;
    int early_stopping;
    bool quirks;
    uint32_t n_prompts, n_beams, n_returned, n_new; /* n_new: tokens generated so far */
    uint32_t width, n_candidates; /* beams chosen together, and how many candidates for them */

    /* (n_prompts * n_beams), of request rows */
    const cdz_link **running;
    float *score;
    uint32_t *parents;
    int32_t *tokens;
    cdz_stop *stops;

    /* (n_candidates) of one choice */
    cdz_candidate *candidates;
    cdz_stop *candidate_stops;
    uint32_t *rows, *kept,
        *ended; /* request rows they continue; those that run on, those that end */
    uint32_t n_kept, n_ended;
    float best; /* score of the best candidate */
    int32_t *suffixes;
    cdz_ids *ids;

    cdz_link *fresh;
    uint32_t n_fresh;
    cdz_scores scores; /* (n_prompts * n_beams, n_vocab) of this step */
} cdz_scorer;

/* Reads the request. width: beams chosen together; divides num_beams. name: of the strategy, for sentences. */
cdz_status cdz_scorer_begin(cdz_scorer *s, cdz_ranking ranking, uint32_t width, const char *name);
/* Zeroed; CDZ_E_NOMEM is said. */
cdz_status cdz_scorer_take(cdz_scorer *s, size_t n, size_t bytes, void *out);
cdz_status cdz_scorer_pool(cdz_scorer *s, cdz_pool *pool, uint32_t room);

/* The model's log-probabilities of the next tokens; not processed. */
cdz_status cdz_scorer_forward(cdz_scorer *s);
/* Candidates of rows [first, first + width): the best, what the stop rules say of them, which of them run on (width of
 * them, best first) and which of the best end. */
cdz_status cdz_scorer_candidates(cdz_scorer *s, uint32_t first);
/* A link for candidate c, whose score is row's in s->scores. */
cdz_status cdz_scorer_link(cdz_scorer *s, uint32_t row, int32_t token, int32_t index,
                           const cdz_link **out);
/* Puts a sequence of score sum and len new tokens into a pool of `room`, if it is good enough. */
void cdz_scorer_add(const cdz_scorer *s, cdz_pool *pool, uint32_t room, cdz_hypothesis h, float sum,
                    uint32_t len);
/* Notes whether a pool can still change: best is the best candidate of this step, whose length is s->n_new + 1. */
void cdz_scorer_settle(const cdz_scorer *s, cdz_pool *pool, uint32_t room, float best);
/* Whether the stop rules ended every running row. Those of finished pools are not asked. */
bool cdz_scorer_all_stopped(const cdz_scorer *s, const cdz_pool *pools, uint32_t n_pools);

/* The best n_returned of n hypotheses, best first; of equals the later. */
cdz_status cdz_scorer_best(cdz_scorer *s, const cdz_hypothesis *all, uint32_t n,
                           cdz_hypothesis *out);
/* Returns (n_prompts, n_returned) hypotheses and their scores and indices. */
cdz_status cdz_scorer_return(cdz_scorer *s, const cdz_hypothesis *found);

#endif
