/* chain.h - a draft written token by token by a model: what the drafters `model` and `early_exit` share.
 * transformers AssistedCandidateGenerator. */
#ifndef CADENZA_DRAFTERS_CHAIN_H
#define CADENZA_DRAFTERS_CHAIN_H

#include <cadenza/drafter.h>
#include <cadenza/ext/mask.h>

enum schedule { CONSTANT, HEURISTIC, HEURISTIC_TRANSIENT };

/* Parameters of both plugins, named as in the draft model's generation config. */
typedef struct chain_params {
    int64_t num_assistant_tokens;
    cdz_word num_assistant_tokens_schedule; /* enum schedule */
    double assistant_confidence_threshold;  /* 0: drafts are never cut for doubt */
    int64_t assistant_lookbehind, target_lookbehind;
    cdz_opt_int assistant_early_exit;
    cdz_int_list eos_token_id; /* the draft model's own: used when the request has none */
} chain_params;

/* Rows of the parameter tables. */
#define CHAIN_PARAMS                                                                               \
    CDZ_INTS(chain_params, eos_token_id, 0, 0, 2147483647,                                         \
             "a draft ends after these when the request has none"),                                \
        CDZ_INT(chain_params, num_assistant_tokens, 20, 1, 1 << 20, "tokens per draft"),           \
        CDZ_WORD(chain_params, num_assistant_tokens_schedule,                                      \
                 "constant|heuristic|heuristic_transient", 0, "how the draft length changes"),     \
        CDZ_REAL(chain_params, assistant_confidence_threshold, 0.4, 0, 1,                          \
                 "a draft ends after a token less probable than this")

typedef struct chain {
    const chain_params *params;
    cdz_seq *seq;         /* what the drafting model has read */
    uint32_t n_positions; /* tokens it can read; 0: no end */
    uint32_t pipeline;    /* the draft's processors */
    int64_t length;       /* tokens of the next draft */
    bool keeps_scores;    /* the strategy will ask what the tokens were drawn from */
    cdz_scores scores;    /* (most) the draft's rows, processed; with keeps_scores only */
    int32_t *tokens;      /* (most) */
    uint32_t most;
    bool rereads;      /* the reference's defect with encoders: see chain_follow */
    uint32_t n_before; /* ids of seq that the draft's history does not have */
} chain;

/* With quirks and an encoder: see chain_follow. */
bool chain_rereads(cdz_decoder *dec, const cdz_step *step, const char *model);
/* c->seq is the caller's, empty, of this model of the request's. Says num_assistant_tokens among the results. */
cdz_status chain_begin(cdz_decoder *dec, const cdz_step *step, const char *model, chain *c);
/* c->seq holds what the draft continues. Appends up to n tokens to it and to c->tokens; ends behind an end-of-sequence
 * token and behind one whose probability is below the threshold, and where the model has no more positions. */
cdz_status chain_write(cdz_decoder *dec, const cdz_step *step, chain *c, uint32_t n,
                       uint32_t *written);
/* c->seq becomes ids; what its cache can keep, it keeps. With `rereads` all ids come again after what is left of the last
 * round's, which is as long as they are, less two: transformers 5.3.0 slices a draft's ids by its decoder's mask alone,
 * and drafts of encoder-decoder models have one only where the request gives it. */
cdz_status chain_follow(cdz_decoder *dec, chain *c, cdz_ids ids);
/* A whole draft: what a model of the same tokens proposes. */
cdz_status chain_propose(cdz_decoder *dec, const cdz_step *step, chain *c, cdz_draft *draft);
/* The schedule: how long the next draft is. */
cdz_status chain_judged(cdz_decoder *dec, chain *c, uint32_t n_proposed, uint32_t n_accepted);

#endif
