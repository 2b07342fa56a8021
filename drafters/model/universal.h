/* universal.h - drafts by a model with another tokenizer: text is what both understand. */
#ifndef CADENZA_DRAFTERS_UNIVERSAL_H
#define CADENZA_DRAFTERS_UNIVERSAL_H

#include "chain.h"

typedef struct universal {
    chain chain;
    int32_t *ids; /* (cap) the draft model's tokens: history, then its newest draft */
    uint32_t n, cap;
    bool began;             /* ids hold something */
    uint32_t target_before; /* length of the row when the last draft was asked for */
} universal;

cdz_status universal_propose(cdz_decoder *dec, const cdz_step *step, universal *u, cdz_draft *draft);

#endif
