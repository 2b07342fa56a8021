/* cost.h - what passes of a model read and multiply, from its shapes: what figures are fractions of. */
#ifndef CDZ_HOST_RUN_PASS_COST_H
#define CDZ_HOST_RUN_PASS_COST_H

#include "load/model_files.h"

/* Of experts those count that one row goes to; of an embedding table, which a row picks one row of, nothing. */
typedef struct cdz_cost {
    uint64_t layer_bytes, head_bytes; /* weights that a pass reads, norms and biases too */
    uint64_t layer_macs, head_macs;   /* multiply-adds with weights, of one row */
    uint64_t kv_bytes;                /* keys and values of one position */
    uint64_t state_bytes; /* what recurrent layers have of a sequence: a step reads and writes it */
    uint64_t attention_macs; /* of one row, for each position it sees */
} cdz_cost;

/* Of the decoder, where there are two stacks. kv_type: what keys and values are kept in. */
cdz_cost cdz_cost_of(const cdz_weights *weights, cdz_dtype kv_type);

/* Multiply-adds of a prompt of n positions, each seeing itself and those before it, and of the head for the last. */
double cdz_cost_prompt_macs(const cdz_cost *cost, uint64_t n);

#endif
