/* drafts.h - what a drafter would have proposed of recorded answers that keep to a constraint: no model is run. */
#ifndef CDZ_BENCH_GRAMMAR_DRAFTS_H
#define CDZ_BENCH_GRAMMAR_DRAFTS_H

#include "bench.h"
#include "grammar/store.h"

typedef struct bench_drafter bench_drafter;

/* passes: of a model that verifies the drafts and adds a token of its own to each. */
typedef struct bench_drafts {
    uint32_t tokens, passes, proposed, accepted;
    double us; /* of the processor, in propose */
} bench_drafts;

/* The built drafter of that id, with parameters as NAME=VALUE. Ends the benchmark where that fails. */
bench_drafter *bench_drafter_open(const char *id, char *const *settings, int n_settings,
                                  const cdz_tokenizer *tok);
void bench_drafter_close(bench_drafter *drafter);

/* Goes through an answer as a model that writes it would, and adds what that was. */
void bench_drafts_of(bench_drafter *drafter, cdz_constraint *constraint, cdz_ids answer,
                     bench_drafts *sum);

#endif
