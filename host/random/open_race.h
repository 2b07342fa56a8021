/* open_race.h - draws from a row whose best tokens alone are probabilities.
 *
 * torch.multinomial gives the prize to the largest p / q, q being noise of rate 1. A token whose p is at most that of the
 * leaders' last has a chance only where q is far below 1, which the upper bits of its noise tell; so of a row of 150,000 a few
 * hundred leaders and some dozens of others run, and no softmax is made. Who wins does not hang on the sum that
 * probabilities are divided by, but for roundings: where the two best come so close that these could tell, the race is void. */
#ifndef CDZ_HOST_RANDOM_OPEN_RACE_H
#define CDZ_HOST_RANDOM_OPEN_RACE_H

#include "random/torch_rng.h"
#include "vec/fused.h"

typedef struct cdz_field {
    const int32_t *ids; /* (n) leaders, rising */
    const float *p;     /* (n) their probabilities among themselves: the sum is one */
    size_t n;
    double others;  /* in the same measure, no other token is above it; 0: no other has a chance */
    double top_p;   /* the largest p, */
    float top;      /* and its score */
    const float *x; /* all scores; NULL: they are not here, and */
    float (*score)(void *of, int32_t id); /* tells one that is wanted in the end; NaN: it cannot */
    void *of;
} cdz_field;

/* Of a row of n_vocab whose leaders (cdz_fuser.lead) these are: their scores become probabilities. x and score are NULL. */
cdz_field cdz_field_of(cdz_survivors *leaders, float low, size_t n_vocab);

/* What cdz_torch_draw would draw from the softmax of the whole row of n_vocab, with the stream where that would leave it.
 * -1: it cannot be told, and the stream has not moved. */
int32_t cdz_torch_open_race(cdz_torch_rng *rng, const cdz_field *field, size_t n_vocab);
/* The same from all n scores of a row, by their leaders. scratch: as of cdz_fuser.lead. */
int32_t cdz_torch_draw_scores(cdz_torch_rng *rng, const float *x, size_t n, void *scratch);

#endif
