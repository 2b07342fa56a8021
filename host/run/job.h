/* job.h - what the engine is given and what it gives back. Prepared by prepare/, run by run/, shown by api/. */
#ifndef CDZ_HOST_RUN_JOB_H
#define CDZ_HOST_RUN_JOB_H

#include "cadenza/ext/phase.h"
#include "cadenza/strategy.h"
#include "config/pipeline.h"
#include "grammar/store.h"
#include "kernels.h"
#include "load/model_files.h"
#include "token/tokenizer.h"
#include "vec/fused.h"

typedef struct cdz_engine cdz_engine;
typedef struct cdz_outcome cdz_outcome;
typedef struct cdz_kept cdz_kept; /* KV state that a request left behind (run/pass/kept.h) */
typedef struct cdz_run_model
    cdz_run_model; /* a model as the engine runs it: weights, KV pool, tokenizer (run/pass/model.h) */

void cdz_run_model_retain(cdz_run_model *model); /* [any] */
const cdz_weights *cdz_run_model_weights(const cdz_run_model *model);
/* Of the copy of its head that finds the best tokens (run/pass/screen.h); 0: there is none, or not yet. [any] */
uint64_t cdz_run_model_screen_bytes(const cdz_run_model *model);
/* What it takes of a model that runs on the CPU, if it is made by itself; 0: it is not. [any] */
uint64_t cdz_screen_auto_bytes(const cdz_weights *weights);
cdz_dtype cdz_run_model_kv_type(const cdz_run_model *model);
const cdz_tokenizer *cdz_run_model_tokenizer(const cdz_run_model *model); /* or NULL */

/* Its compiled constraints; NULL: out of memory. [any] */
cdz_grammar_store *cdz_run_model_grammars(cdz_run_model *model);

/* One prompt row as transformers shows it to processors. */
typedef struct cdz_job_row {
    const int32_t *ids; /* prompt_len padded ids */
    const uint8_t *mask; /* a byte per slot; 1 = visible. The KV cache holds the visible positions only */
    const float
        *embeds; /* (n_embeds, hidden) what the model reads in place of the prompt's ids; or NULL */
} cdz_job_row;

typedef struct cdz_recorded_step cdz_recorded_step;

/* New ids of a row, on their way to whoever listens. */
typedef struct cdz_new_tokens {
    uint32_t row;
    const int32_t *ids;
    uint32_t n;
    /* What was recorded when they were chosen: steps of the first n_steps of them, of which they are row step_row, or, of a
     * search, their scores. NULL: neither. */
    const cdz_recorded_step *steps;
    uint32_t n_steps, step_row;
    const cdz_token_score *scores;
} cdz_new_tokens;

/* A further model that a loop may use by name. */
typedef struct cdz_job_model {
    const char *name;
    cdz_run_model *model;
} cdz_job_model;

/* One generate() call. Everything pointed to lives until on_done returned (the arena is the job's own). */
typedef struct cdz_job {
    cdz_arena arena;
    cdz_plan *plan;                   /* owned */
    cdz_run_model *model, *assistant; /* retained by the submitter; assistant may be NULL */
    const cdz_job_model *others;      /* (n_others) in the arena; retained as those are */
    uint32_t n_others;
    uint32_t n_prompts, n_rows, prompt_len;
    uint32_t n_embeds; /* positions of a prompt given as embeddings, which prompt_len ids may stand beside; 0: none */
    bool has_embeds; /* they were given, also where it is the ids beside them that are read, as the reference does in chunks */
    cdz_job_row *rows; /* n_prompts; request row r starts as rows[r / (n_rows / n_prompts)] */
    /* Encoder-decoder: what the encoder reads; rows and prompt_len are the decoder's. Else NULL. */
    cdz_job_row *sources; /* (n_prompts) source_len ids each */
    uint32_t source_len;
    bool gives_decoder_mask;         /* the request has a decoder_attention_mask */
    uint32_t max_length, min_length; /* resolved (docs/reference/internals/processors.md, 4.3) */
    uint32_t context;  /* positions at which a row ends, whatever its limit; 0: it does not */
    uint32_t *visible; /* (n_prompts) positions that the prompts have; with context */
    uint64_t seed;
    uint64_t draws_before; /* words of the random stream that healing has used up */
    cdz_ids eos;
    int32_t pad, bos; /* -1: none */
    cdz_kv_packing
        packing; /* of the target's keys and values; bits 0: none. Made of the plan by who submits */
    uint32_t prefill_chunk; /* at most so many prompt positions of a row in one pass; 0: no limit */
    double deadline_s;      /* monotonic; 0: none */
    bool keep_scores, keep_logits, keep_logprobs; /* what record() keeps */
    bool keep_hidden, keep_attentions;            /* of recorded steps */
    bool keep_kv;                                 /* what the rows' caches hold at the end */
    bool keep_press;                              /* what presses have kept, as a result */
    uint32_t keep_leaders; /* with keep_logprobs: of each step also the likeliest k by the model's own logits; 0: none */
    uint32_t keep_top; /* > 0: instead of whole rows keep the k best ids and values, n_finite and the log-sum-exp */
    cdz_constraint *
        constraints[1 + CDZ_MOST_PHASES]; /* held by the job, so that a stage's begin finds them compiled */
    uint32_t n_constraints;
    uint64_t id;     /* of cdz_engine_new_id; 0: the engine gives it one */
    cdz_kept *past;  /* held by the job: KV state that prompts may continue, or NULL */
    bool keep_cache; /* the outcome holds the rows' KV state */
    /* Whose prompts may find what this one has computed, and the other way round: those with the same salt. */
    uint8_t salt[32];
    const char *request_id,
        *traceparent;   /* told to plugins that ask (ext/trace.h); in the arena, or NULL */
    uint64_t tenant;    /* whose it is, to a scheduler; 0: nobody's */
    int64_t priority;   /* to a scheduler: lower first */
    bool prompt_logits; /* mode `logits`: one pass over rows, logits of every position, no strategy */
    bool prompt_logprobs; /* mode `score`: the same, but only the log-probability of each token is kept */

    /* [engine thread] New ids of a row, whole, in order; never for pads of finished rows. Held back for CDZ_REWINDS. */
    void (*on_tokens)(void *user, const cdz_new_tokens *tokens);
    /* [a helper's thread] Answers a loop's question; NULL: nobody does. The rest of `call` is the loop's. */
    cdz_status (*on_tool)(void *user, cdz_tool_question *call, cdz_error *err);
    /* [engine thread] A line of an observer; NULL: nobody listens. */
    void (*on_observed)(void *user, const char *plugin, const char *line, size_t len);
    /* [engine thread] Once, at the end. outcome is owned by the callee. */
    void (*on_done)(void *user, cdz_outcome *outcome);
    void *user;
} cdz_job;

/* Places in a prompt, hidden ones too: its embeddings or else its ids. */
static inline uint32_t cdz_job_slots(const cdz_job *job)
{
    return job->n_embeds ? job->n_embeds : job->prompt_len;
}

/* What a row's cache held at the end, by layer: a layer without attention has NULL. positions is -1, and keys and values are 0, where a
 * head holds less than the longest. */
typedef struct cdz_outcome_kv {
    uint32_t *n; /* (n_layers) entries of the longest head */
    float **keys, **values,
        **positions; /* (n_layers): (n_kv_heads, n, head_dim), the last (n_kv_heads, n) */
} cdz_outcome_kv;

typedef struct cdz_outcome_row {
    int32_t *ids; /* padded prompt and what was generated, pads included, all rows equally long in lockstep */
    uint32_t len;
    uint32_t n_new; /* generated tokens up to and including the one that ended the row, pads not counted */
    cdz_stop stop;
    const cdz_token_score
        *scores; /* (n_new) of a sequence that the strategy returned; NULL: the steps have them */
    const cdz_span *spans; /* (n_spans) that the model did not write */
    uint32_t n_spans;
} cdz_outcome_row;

/* A result of the strategy's own. */
typedef struct cdz_named_result {
    const char *name;
    cdz_result_type type;
    uint32_t n_dims;
    uint64_t shape[8];
    const void *data;
} cdz_named_result;

/* Results that generate() gives as fields of its answer: of one form each (record.c), they stand beside the sequences. All
 * others have a place of their own. */
bool cdz_record_has_field(const char *name);

/* Recorded rows of one step: full matrices (n_step_rows, n_vocab) or, with keep_top, the best entries. */
struct cdz_recorded_step {
    const float *scores, *logits; /* (n_step_rows, n_vocab) or NULL */
    const float *chosen;          /* (n_step_rows) processed score of the appended token */
    const float *chosen_logprob, *chosen_raw_logprob; /* (n_step_rows) or NULL */
    const int32_t *top_ids; /* (n_step_rows, keep_top), by falling score, ties by lower id */
    const float *top_values;
    const float *logsumexp; /* (n_step_rows) of the whole row that the best are of */
    const int32_t *ids;     /* (n_step_rows, n_ids) what the rows held; NULL: no states are kept */
    uint32_t n_ids, n_queries, n_keys;
    /* A tensor for each layer, and one more of hidden states; or NULL. */
    float *const *hidden;     /* (n_step_rows, n_queries, hidden) */
    float *const *attentions; /* (n_step_rows, n_heads, n_queries, n_keys) */
    float *const *cross;      /* (n_step_rows, n_heads, n_queries, source_len); of a pair */
    const uint32_t *n_finite; /* (n_step_rows) scores that are neither infinite nor NaN */
    /* (n_step_rows, keep_leaders) of a loop's own steps: the likeliest ids and their log-probabilities by the logits; or NULL */
    const int32_t *leaders;
    const float *leader_logprobs;
};

struct cdz_outcome {
    cdz_arena arena;
    cdz_error error; /* code CDZ_OK when all went well; rows hold what was produced in any case */
    cdz_outcome_row *rows;
    uint32_t n_rows, n_vocab;
    cdz_recorded_step *steps;
    uint32_t n_steps, n_step_rows; /* rows that ran: more than n_rows when a search returned some */
    /* Of a pair's encoder, when asked for, as in the steps: (n_sources, source_len, hidden) and (n_sources, heads,
     * source_len, source_len). */
    float *const *encoder_hidden, *const *encoder_attentions;
    cdz_outcome_kv *kv; /* (n_rows_kv), the request's rows; NULL: not kept */
    uint32_t n_rows_kv;
    uint32_t n_sources, source_len;
    cdz_named_result *results;
    uint32_t n_results;
    const float *prompt_logits; /* (n_prompts, prompt_len, n_vocab) when asked for */
    const float *prompt_logprobs; /* (n_prompts, prompt_len) when asked for; NAN: nothing predicts it */
    /* (n_prompts, prompt_len, keep_top) with prompt_logprobs: the likeliest there; NULL: keep_top is 0 */
    const int32_t *prompt_top_ids;
    const float *prompt_top_logprobs;
    double queued_s, prefill_s, decode_s;   /* durations */
    uint32_t n_prompt_tokens, n_new_tokens; /* computed prompt positions; sum over rows */
    uint32_t n_reused_tokens; /* prompt positions that were there before, not in n_prompt_tokens */
    uint64_t fusings[CDZ_FUSE_KINDS]; /* rows whose processors could be fused, by how that went */
    cdz_kept *kept;                   /* held by the outcome, or NULL */
};

/* A zeroed job, pad and bos -1. NULL: out of memory. */
cdz_job *cdz_job_new(void);
/* Frees the plan, the arena and the job, not the models; NULL is fine. */
void cdz_job_free(cdz_job *job);
void cdz_outcome_free(cdz_outcome *outcome);

#endif
