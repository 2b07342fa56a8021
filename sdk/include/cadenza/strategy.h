/* strategy.h - strategies: the decode loop itself.
 *
 * run() is ordinary sequential code on its own fibre. cdz_forward suspends it; the host gathers the rows of every
 * suspended request into one pass over the model and resumes it with scores. So a loop written for one request is
 * batched with all others. The functions that take a cdz_decoder are called verbs in the manual.
 *
 *     while (!cdz_done(dec)) {
 *         CDZ_TRY(cdz_forward(dec, &scores));            runs the model on what the KV cache lacks, for all rows
 *         CDZ_TRY(cdz_process(dec, &scores));            the processors of the user's pipeline
 *         CDZ_TRY(cdz_argmax_rows(dec, &scores, tokens));
 *         CDZ_TRY(cdz_append_rows(dec, tokens));         pads finished rows, streams, asks the stopping rules
 *     }
 *
 * One invariant holds throughout: the KV cache of a sequence holds fewer tokens than its ids. Appending, rewinding and
 * reordering edit ids and truncate the cache; forward computes the difference, for any number of tokens.
 *
 * All functions here are [engine], on the strategy's own fibre. After cancellation or a passed deadline every verb
 * returns CDZ_E_CANCELLED or CDZ_E_DEADLINE: pass it on. Scores and id pointers stay valid until the next verb that
 * produces or edits what they point to. */
#ifndef CADENZA_STRATEGY_H
#define CADENZA_STRATEGY_H

#include "criterion.h"
#include "ext/steer.h"
#include "plugin.h"

typedef struct cdz_decoder cdz_decoder;
typedef struct cdz_seq cdz_seq; /* a token sequence with a KV cache of one model */

typedef struct cdz_pick {
    int32_t token;
    float score; /* its score in the row */
    float prob;  /* its probability by the row's softmax */
} cdz_pick;

/* A candidate from several rows that are treated as one flat row. */
typedef struct cdz_candidate {
    uint32_t row; /* within the group */
    int32_t token;
    float score; /* with the row's addend */
} cdz_candidate;

/* The scores of one token in a row. */
typedef struct cdz_token_score {
    float score;       /* its score in the row */
    float logprob;     /* after the processors; nan unless the caller asked for log-probabilities */
    float raw_logprob; /* before them, from the recorded logits; nan unless recorded and asked for */
} cdz_token_score;

/* A sequence that a search returns in place of a row. */
typedef struct cdz_returned {
    uint32_t row;                  /* the request row whose prompt it continues */
    cdz_ids ids;                   /* after the prompt: new tokens, then padding */
    uint32_t n_new;                /* how many of ids are new tokens */
    cdz_stop stop;                 /* why it ended; reason 0: it did not */
    const cdz_token_score *scores; /* (n_new) what token_scores said of each token; NULL: nothing */
} cdz_returned;

/* Tokens that may come next, from the pipeline's drafter (drafter.h). */
typedef struct cdz_draft {
    uint32_t size;
    uint32_t row;
    cdz_ids history; /* the row's ids */
    uint32_t room;   /* most tokens that can be used: the model adds one of its own to them */
    cdz_ids tokens;  /* the proposal */
    /* One processed score row per token, n_vocab wide: the distribution it was drawn from. id 0: the tokens were not drawn,
     * or the distribution is not needed. */
    cdz_scores scores;
} cdz_draft;

/* Facts of one of the request's models. */
typedef struct cdz_model_facts {
    uint32_t size;
    uint32_t n_vocab, n_layers, width; /* width: floats of a hidden state */
    bool tied;            /* config.json ties the head to the matrix that embeds tokens */
    bool has_encoder;     /* a decoder that reads from an encoder */
    uint32_t n_positions; /* most tokens that a sequence may have; 0: no limit */
} cdz_model_facts;

/* Hidden states that a pass kept: (n_layers, n_rows, width). */
typedef struct cdz_hidden {
    const float *data;
    uint32_t n_layers, n_rows, width;
} cdz_hidden;

static inline const float *cdz_hidden_row(const cdz_hidden *hidden, uint32_t layer, uint32_t row)
{
    return hidden->data + ((size_t)layer * hidden->n_rows + row) * hidden->width;
}

typedef enum cdz_positions {
    CDZ_POSITIONS_NONE, /* fill the cache only */
    CDZ_POSITIONS_LAST, /* scores of the last position of each sequence */
    CDZ_POSITIONS_ALL,  /* scores of every position that was computed, sequence after sequence */
} cdz_positions;

typedef enum cdz_record_kind {
    CDZ_RECORD_LOGITS, /* raw logits of this step, before processors */
    CDZ_RECORD_SCORES, /* processed scores of this step */
} cdz_record_kind;

typedef enum cdz_fd_event {
    CDZ_FD_READS = 1u << 0,  /* there is something to read, or the end */
    CDZ_FD_WRITES = 1u << 1, /* something can be written */
} cdz_fd_event;

/* What became of a branch that was continued. */
typedef struct cdz_rollout {
    uint32_t n_new; /* tokens that it got */
    float logprob;  /* their log-probabilities after the processors, summed */
    cdz_stop stop;  /* why it ended; reason 0: it may go on */
} cdz_rollout;

typedef enum cdz_insert_flag {
    CDZ_INSERT_SHOWN = 1u << 0,  /* it is a part of the answer's text, and streamed */
    CDZ_INSERT_COUNTS = 1u << 1, /* the request's length counts it */
    CDZ_INSERT_STOPS = 1u << 2,  /* stopping rules are asked about it, and may end the row in it */
} cdz_insert_flag;

/* What a tool answered. */
typedef struct cdz_tool_answer {
    uint32_t size;
    bool failed;     /* text says why, in a sentence */
    cdz_string text; /* valid until the request's next call_tool */
} cdz_tool_answer;

typedef enum cdz_result_type {
    CDZ_RESULT_I64,
    CDZ_RESULT_I32,
    CDZ_RESULT_F32,
    CDZ_RESULT_BOOL,
    CDZ_RESULT_JSON, /* one value as JSON text: shape is { its bytes }, nothing ends it */
} cdz_result_type;

typedef struct cdz_decoder_api {
    uint32_t size;

    /* -- the request's rows ------------------------------------------------------------------------------- */
    uint32_t (*n_rows)(const cdz_decoder *dec);
    cdz_ids (*input_ids)(const cdz_decoder *dec, uint32_t row);
    bool (*done)(const cdz_decoder *dec); /* every row ended, or the request was cancelled */
    bool (*row_done)(const cdz_decoder *dec, uint32_t row);
    /* Suspends. out: (n_rows, n_vocab) scores of the next token of each row. Rows that are done (and padded) are
     * not run: their scores stay those of their last pass. */
    cdz_status (*forward)(cdz_decoder *dec, cdz_scores *out);
    /* Runs the pipeline's processors on the rows of `scores`, which came from forward. */
    cdz_status (*process)(cdz_decoder *dec, cdz_scores *scores);
    /* Appends a token to one row: processors accept it, it is streamed, the stopping rules are asked. */
    cdz_status (*append)(cdz_decoder *dec, uint32_t row, int32_t token);
    /* Appends one token to every row. If there is an end-of-sequence rule, rows that are done get pad instead
     * (tokens[] is updated to what was appended); otherwise they keep running. */
    cdz_status (*append_rows)(cdz_decoder *dec, int32_t *tokens);
    uint32_t (*rewindable)(const cdz_decoder *dec,
                           uint32_t row); /* generated tokens that can be taken back */
    /* Appends tokens to one row until one of them ends it; *taken: how many. It acts like that many calls of record and
     * append. Row i of logits and scores is recorded for token i; either may be NULL. With quirks = yes the stopping
     * rules are asked after the last token only, as in the reference. */
    cdz_status (*append_chunk)(cdz_decoder *dec, uint32_t row, const int32_t *tokens, uint32_t n,
                               const cdz_scores *logits, const cdz_scores *scores, uint32_t *taken);
    /* Takes back n tokens: ids, KV cache, processor state, held text. A row that was done may run again. */
    cdz_status (*rewind)(cdz_decoder *dec, uint32_t row, uint32_t n);
    /* Row r becomes a copy of row parents[r]: ids, KV cache (shared, copy-on-write), processor state. */
    cdz_status (*reorder)(cdz_decoder *dec, const uint32_t *parents);
    /* One step of a search over rows: row r becomes a copy of row parents[r], as with reorder, and takes tokens[r].
     * Processors accept the token; no stopping rule is asked, no row ends, nothing is streamed. */
    cdz_status (*extend_rows)(cdz_decoder *dec, const uint32_t *parents, const int32_t *tokens);

    /* -- scores ------------------------------------------------------------------------------------------- */
    cdz_status (*map)(cdz_decoder *dec, cdz_scores *scores);     /* copies data to host memory */
    cdz_status (*softmax)(cdz_decoder *dec, cdz_scores *scores); /* in place, reference rounding */
    cdz_status (*log_softmax)(cdz_decoder *dec, cdz_scores *scores); /* in place */
    /* softmax of rows [first, first+n) as one flat row, addends[i] added to row first+i; into the same rows of out,
     * which may be scores itself. */
    cdz_status (*softmax_flat)(cdz_decoder *dec, const cdz_scores *scores, uint32_t first,
                               uint32_t n, const float *addends, cdz_scores *out);
    cdz_status (*ban)(cdz_decoder *dec, cdz_scores *scores, uint32_t row, int32_t token); /* -inf */
    /* The scores of tokens[i] in row rows[i] of the processed scores, n of them; for return_rows. */
    cdz_status (*token_scores)(cdz_decoder *dec, const cdz_scores *scores, const uint32_t *rows,
                               const int32_t *tokens, uint32_t n, cdz_token_score *out);
    /* A matrix of n_rows score rows, owned by the request; it stays valid until the strategy returns, also after forward. */
    cdz_status (*scratch_scores)(cdz_decoder *dec, uint32_t n_rows, cdz_scores *out);

    /* -- choice: draws consume the request's torch stream in program order -------------------------------- */
    cdz_status (*argmax)(cdz_decoder *dec, const cdz_scores *scores, uint32_t row, cdz_pick *out);
    cdz_status (*argmax_rows)(cdz_decoder *dec, const cdz_scores *scores, int32_t *tokens);
    /* torch.multinomial(probs, 1) over all rows; fails if a row holds nan, inf or only zeros. */
    cdz_status (*multinomial)(cdz_decoder *dec, const cdz_scores *probs, int32_t *tokens);
    /* torch.topk over rows [first, first+n) as one flat row, addends[i] added to row first+i; m descending. */
    cdz_status (*topk_flat)(cdz_decoder *dec, const cdz_scores *scores, uint32_t first, uint32_t n,
                            const float *addends, uint32_t m, cdz_candidate *out);
    /* torch.multinomial(flat probs, m) without replacement, in draw order; score is the probability. */
    cdz_status (*multinomial_flat)(cdz_decoder *dec, const cdz_scores *probs, uint32_t first,
                                   uint32_t n, uint32_t m, cdz_candidate *out);
    cdz_status (*uniform)(cdz_decoder *dec, uint32_t n, float *out); /* torch.rand(n) */

    /* -- further sequences ---------------------------------------------------------------------------------- */
    /* model: "target", "assistant"; NULL is the target. Sequences are freed with the request at the latest. */
    cdz_status (*seq_new)(cdz_decoder *dec, const char *model, cdz_seq **out);
    cdz_seq *(*seq_of_row)(cdz_decoder *dec,
                           uint32_t row); /* borrowed; append and rewind with the row functions */
    cdz_status (*seq_fork)(cdz_decoder *dec, const cdz_seq *seq, cdz_seq **out);
    void (*seq_free)(cdz_decoder *dec, cdz_seq *seq);
    cdz_status (*seq_append)(cdz_decoder *dec, cdz_seq *seq, const int32_t *ids, uint32_t n);
    cdz_status (*seq_truncate)(cdz_decoder *dec, cdz_seq *seq, uint32_t len);
    cdz_ids (*seq_ids)(const cdz_decoder *dec, const cdz_seq *seq);
    /* Positions that the model sees: ids that the prompt's mask hides do not count. */
    uint32_t (*seq_length)(const cdz_decoder *dec, const cdz_seq *seq);
    /* Suspends. One pass over what the caches of these sequences (of one model) lack. out may be NULL with NONE. */
    cdz_status (*seq_forward)(cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n,
                              cdz_positions positions, cdz_scores *out);
    /* The pipeline's processors on one score row per sequence, as if seqs[i] continued request row rows[i]. */
    cdz_status (*seq_process)(cdz_decoder *dec, cdz_seq *const *seqs, const uint32_t *rows,
                              uint32_t n, cdz_scores *scores);
    /* A sequence that runs the model's first n_layers layers only, then its final norm and head. */
    cdz_status (*seq_new_exit)(cdz_decoder *dec, const char *model, uint32_t n_layers,
                               cdz_seq **out);
    /* Processors on score rows of given histories: row i of scores follows ids[i], a whole history that stands for request
     * row rows[i]. pipeline: 0 for the user's, or one from pipeline_derive. Scores of another vocabulary than the
     * request's are cut or filled with -inf to n_vocab for the processors, and ids outside the vocabulary become 0. */
    cdz_status (*process_ids)(cdz_decoder *dec, uint32_t pipeline, const cdz_ids *ids,
                              const uint32_t *rows, uint32_t n, cdz_scores *scores);
    /* The user's processors without those of the first list, and once more those of the second at the end, in their
     * order, in as many rounds as it names each; plugin ids that are not in the pipeline are passed over. Valid until
     * the strategy returns. */
    cdz_status (*pipeline_derive)(cdz_decoder *dec, const char *const *exclude, uint32_t n_exclude,
                                  const char *const *append, uint32_t n_append, uint32_t *out);
    /* Every later forward and seq_forward keeps hidden states of the target: of each sequence's last position, or (ALL,
     * seq_forward only) of every position that it computes, sequence after sequence. Layers are counted as in
     * transformers' hidden_states: 0 is the input of the first layer, n_layers the output of the last after the final norm.
     * n 0: stops keeping them. */
    cdz_status (*keep_hidden)(cdz_decoder *dec, cdz_positions positions, const uint32_t *layers,
                              uint32_t n);
    /* What the newest forward kept, layers in the order given; valid until the next forward. */
    cdz_status (*hidden_states)(cdz_decoder *dec, cdz_hidden *out);
    /* The target's head on n hidden states, width floats each, without the final norm. Scores (n, n_vocab)
     * are valid until the next call. */
    cdz_status (*head)(cdz_decoder *dec, const float *hidden, uint32_t n, cdz_scores *out);
    /* Whether request row rows[i] would stop if ids[i] followed its own ids; ids[i] is only the suffix. Asks every criterion. */
    cdz_status (*stop_test)(cdz_decoder *dec, const cdz_ids *ids, const uint32_t *rows, uint32_t n,
                            cdz_stop *stops);

    /* -- drafts: the pipeline's drafter, see drafter.h ------------------------------------------------------ */
    bool (*has_drafter)(const cdz_decoder *dec);
    /* Suspends if the drafter does. What out points to stays valid until the next draft of this request. */
    cdz_status (*propose)(cdz_decoder *dec, uint32_t row, cdz_draft *out);
    /* Of the row's newest draft the first n_accepted tokens were right. */
    cdz_status (*judged)(cdz_decoder *dec, uint32_t row, uint32_t n_accepted);

    /* -- end ---------------------------------------------------------------------------------------------- */
    /* Ends the row for a reason that the strategy gives. text: a constant string. */
    cdz_status (*finish)(cdz_decoder *dec, uint32_t row, cdz_stop_reason reason, const char *text);
    /* Makes these n sequences, from 1 to n_rows of them, the answer in place of the rows: best first, the sequences of one
     * prompt side by side. Everything is copied. It also works after cancellation, to return what a search has so far; not
     * for CDZ_ONE_ROW. A second call replaces the first. */
    cdz_status (*return_rows)(cdz_decoder *dec, const cdz_returned *rows, uint32_t n);
    /* Keeps a copy if the caller asked for it (output_scores, output_logits, logprobs), else does nothing. */
    cdz_status (*record)(cdz_decoder *dec, cdz_record_kind what, const cdz_scores *scores);
    /* Adds a result under `name`, copied; shape has n_dims entries. It appears in --json under "results". Names
     * of the answer's own fields (rounds, beam_indices, ...) need the types and shapes of those fields. */
    cdz_status (*put_result)(cdz_decoder *dec, const char *name, cdz_result_type type,
                             uint32_t n_dims, const uint64_t *shape, const void *data);

    /* -- facts -------------------------------------------------------------------------------------------- */
    bool (*cancelled)(const cdz_decoder *dec);
    double (*deadline_s)(const cdz_decoder *dec); /* monotonic second; 0: none */
    uint32_t (*vocab_size)(const cdz_decoder *dec, const char *model); /* 0: no such model */
    bool (*facts)(const cdz_decoder *dec, const char *model, cdz_model_facts *out);

    /* -- a whole step of sampling ---------------------------------------------------------------------------- */
    /* process, record of the scores, softmax, multinomial in one: the same tokens, records and draws as these four. The
     * contents of the rows are undefined afterwards, so that the host need not write scores that nobody reads. */
    cdz_status (*draw_rows)(cdz_decoder *dec, cdz_scores *scores, int32_t *tokens);

    /* -- hidden states again ----------------------------------------------------------------------------------- */
    /* What the target would say if these n hidden states left it where they are (logit lens): its final norm, its head, and
     * what else it does to scores. Of layer l of keep_hidden, below the last, these are the scores of seq_new_exit(l), to the bit;
     * the last has the norm already: head. Scores (n, n_vocab) are valid until the next call of lens or head. */
    cdz_status (*lens)(cdz_decoder *dec, const float *hidden, uint32_t n, cdz_scores *out);
    /* The sequence's hidden states are edited from now on (ext/steer.h): after the edits that the pipeline's processors gave its
     * row, these n, which are copied and replace what an earlier call gave. n 0: none but the processors'. Positions that the
     * change reaches are computed again by the next pass. Copies have the edits too. Not of a model that is a function. Of
     * CALLs, cdz_on_hidden says first what they call. */
    cdz_status (*seq_steer)(cdz_decoder *dec, cdz_seq *seq, const cdz_edit *edits, uint32_t n);

    /* -- waiting for what is outside: this loop sleeps, the other requests go on --------------------------------- */
    /* Suspends for so many seconds, from 0 to a million. */
    cdz_status (*sleep)(cdz_decoder *dec, double seconds);
    /* Suspends until an open file is as one of `events` (cdz_fd_event) says, or for so many seconds; below 0: until then
     * or the request's end. *ready, which may be NULL: what it is; 0: the time has passed. A file that is broken is ready. */
    cdz_status (*wait_fd)(cdz_decoder *dec, int fd, uint32_t events, double seconds,
                          uint32_t *ready);
    /* Suspends while fn(arg) runs on one of a few helper threads, in turn with others': for what blocks or computes for long.
     * fn uses no verb and no host function. If the request ends before fn has begun it is not run at all; once it runs, the
     * verb returns after it, and then says CDZ_E_CANCELLED: fn is to end by itself. */
    cdz_status (*offload)(cdz_decoder *dec, void (*fn)(void *arg), void *arg);
    /* Suspends while the program answers a text (cdz_request.on_tool; --tool NAME=COMMAND). CDZ_E_NOT_FOUND: it has nobody of
     * that name. */
    cdz_status (*call_tool)(cdz_decoder *dec, const char *name, const char *text, uint32_t len,
                            cdz_tool_answer *out);

    /* -- text that the model did not write, and text that stays -------------------------------------------------- */
    /* Appends tokens that somebody else has written: processors accept them, the model reads them. flags: cdz_insert_flag; 0:
     * nobody sees them but the model. who: their writer, as the answer's "spans" name it; NULL: "". Where scores, states or
     * log-probabilities are recorded, or the answer follows a constraint, it is refused: such text has none, or breaks it. */
    cdz_status (*insert)(cdz_decoder *dec, uint32_t row, const int32_t *ids, uint32_t n,
                         uint32_t flags, const char *who);
    /* The row's first n new tokens stay: they are streamed now, and rewind does not reach them any more. Without CDZ_REWINDS
     * they have been from the start. Not for CDZ_BEAMS. */
    cdz_status (*commit)(cdz_decoder *dec, uint32_t row, uint32_t n);

    /* -- branches of a search, all of them in one pass --------------------------------------------------------------- */
    /* Log-probabilities that the model of these sequences gives the `last` newest tokens of each, summed: by its own scores,
     * without processors. Suspends. The sequences, which may be rows, stay as they are. */
    cdz_status (*seq_score)(cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n, uint32_t last,
                            float *out);
    /* Appends tokens[i] to seqs[i]; scores of what comes next, as seq_forward gives them. Suspends. */
    cdz_status (*seq_append_forward)(cdz_decoder *dec, cdz_seq *const *seqs, const int32_t *tokens,
                                     uint32_t n, cdz_scores *out);
    /* Continues sequences by at most `most` tokens each, until stopping rules end them: processors and rules are the
     * pipeline's, as if seqs[i] were what request row rows[i] has become; it begins with that row's ids. draws: from the
     * request's stream, branch after branch; else the likeliest token. A pass a token for all that go on. Suspends. */
    cdz_status (*rollouts)(cdz_decoder *dec, cdz_seq *const *seqs, const uint32_t *rows, uint32_t n,
                           uint32_t most, bool draws, cdz_rollout *out);

    /* -- what the first layer reads: soft prompts, latent loops ------------------------------------------------------------- */
    /* The vectors that a model (NULL: the target) has for n ids, as seq_embeds takes them: width floats each. */
    cdz_status (*embed)(cdz_decoder *dec, const char *model, const int32_t *ids, uint32_t n,
                        float *out);
    /* At positions [from, from + n) the model of this sequence, which may be a row, reads these vectors from now on, width
     * floats each, as many as its facts say, as transformers' inputs_embeds. Positions count from 0 among those that it sees (seq_length), and have ids:
     * these stay what processors, stopping rules, drafters and companions see. embeds NULL: the ids are read again. Positions
     * from the first change on are computed again by the next pass. Copies have the vectors, too; whatever takes back a
     * position forgets its vector. Not within a prompt that is given as embeddings, nor of a model that is a function. */
    cdz_status (*seq_embeds)(cdz_decoder *dec, cdz_seq *seq, uint32_t from, const float *embeds,
                             uint32_t n, uint32_t width);

    /* -- heads for values: classifiers, reward models, critics ------------------------------------------------------- */
    /* How many values a model's head for them gives (NULL: the target); 0: it has none, or there is no such model. Such a head is
     * `score` of a checkpoint of transformers' ...ForSequenceClassification, whose values are the logits of its labels, or
     * `v_head.summary` of TRL's ...WithValueHead. A model that has `score` in place of a head for tokens is refused where
     * scores of tokens are asked for. */
    uint32_t (*n_values)(const cdz_decoder *dec, const char *model);
    /* What that head says of the text of each sequence (of one model): out (n, n_values), as many as the model's head gives. As in
     * transformers, it is asked at the last token that is not the pad_token_id of the model's config.json. Suspends. One pass over
     * what the caches of these sequences lack, beside other requests. Sequences, which may be rows, stay as they are; keep_hidden
     * keeps nothing of this pass. */
    cdz_status (*seq_value)(cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n, uint32_t n_values,
                            float *out);

    /* -- drafts again -------------------------------------------------------------------------------------------------- */
    /* cdz_drafter_cap of the pipeline's drafter; 0 where there is none. */
    uint32_t (*drafter_caps)(const cdz_decoder *dec);

    /* -- heads for values again -------------------------------------------------------------------------------------- */
    /* What value i, from 0, of the model's head (NULL: the target) is called: id2label of its config.json, "LABEL_i" where that has
     * none, as in transformers. Text in UTF-8 that lives as long as the request. at NULL: there is no such value, or it has
     * no name, as v_head.summary's has not. */
    cdz_string (*value_label)(const cdz_decoder *dec, const char *model, uint32_t i);
} cdz_decoder_api;

struct cdz_decoder {
    const cdz_decoder_api *api;
};

typedef enum cdz_strategy_cap {
    CDZ_ONE_ROW =
        1u << 0, /* handles one row; the host runs further rows as child requests with seed + row */
    CDZ_REWINDS = 1u << 1, /* takes tokens back: the host holds streamed text until the row ends */
    CDZ_SAMPLES = 1u << 2, /* draws: naming this strategy implies do_sample = true */
    CDZ_GREEDY = 1u << 3,  /* draws nothing: naming this strategy implies do_sample = false */
    CDZ_BEAMS = 1u << 4,   /* needs num_beams > 1 */
    /* Looks for scores only where the struct says that it gave to the newest verb on them. process, draw_rows, seq_process and
     * process_ids may leave them in other memory and change data: a processor kept what it was shown (ext/scores.h). */
    CDZ_SCORES_MOVE = 1u << 5,
} cdz_strategy_cap;

typedef struct cdz_strategy {
    cdz_plugin_base base;
    uint32_t caps;                              /* cdz_strategy_cap */
    cdz_status (*create)(const cdz_step *step); /* [load] Optional, as in processor.h */
    cdz_status (*run)(cdz_decoder *dec, const cdz_step *step);
} cdz_strategy;

#define CDZ_STRATEGY_BASE .size = sizeof(cdz_strategy), .kind = CDZ_KIND_STRATEGY

/* Plain call syntax: cdz_forward(dec, &scores) is dec->api->forward(dec, &scores). */
#define CDZ_VERB_(ret, name, params, args)                                                         \
    static inline ret cdz_##name params                                                            \
    {                                                                                              \
        return dec->api->name args;                                                                \
    }
CDZ_VERB_(uint32_t, n_rows, (const cdz_decoder *dec), (dec))
CDZ_VERB_(cdz_ids, input_ids, (const cdz_decoder *dec, uint32_t row), (dec, row))
CDZ_VERB_(bool, done, (const cdz_decoder *dec), (dec))
CDZ_VERB_(bool, row_done, (const cdz_decoder *dec, uint32_t row), (dec, row))
CDZ_VERB_(cdz_status, forward, (cdz_decoder * dec, cdz_scores *out), (dec, out))
CDZ_VERB_(cdz_status, process, (cdz_decoder * dec, cdz_scores *scores), (dec, scores))
CDZ_VERB_(cdz_status, append, (cdz_decoder * dec, uint32_t row, int32_t token), (dec, row, token))
CDZ_VERB_(cdz_status, append_rows, (cdz_decoder * dec, int32_t *tokens), (dec, tokens))
CDZ_VERB_(cdz_status, append_chunk,
          (cdz_decoder * dec, uint32_t row, const int32_t *tokens, uint32_t n,
           const cdz_scores *logits, const cdz_scores *scores, uint32_t *taken),
          (dec, row, tokens, n, logits, scores, taken))
CDZ_VERB_(uint32_t, rewindable, (const cdz_decoder *dec, uint32_t row), (dec, row))
CDZ_VERB_(cdz_status, rewind, (cdz_decoder * dec, uint32_t row, uint32_t n), (dec, row, n))
CDZ_VERB_(cdz_status, reorder, (cdz_decoder * dec, const uint32_t *parents), (dec, parents))
CDZ_VERB_(cdz_status, extend_rows,
          (cdz_decoder * dec, const uint32_t *parents, const int32_t *tokens),
          (dec, parents, tokens))
CDZ_VERB_(cdz_status, map, (cdz_decoder * dec, cdz_scores *scores), (dec, scores))
CDZ_VERB_(cdz_status, softmax, (cdz_decoder * dec, cdz_scores *scores), (dec, scores))
CDZ_VERB_(cdz_status, log_softmax, (cdz_decoder * dec, cdz_scores *scores), (dec, scores))
CDZ_VERB_(cdz_status, softmax_flat,
          (cdz_decoder * dec, const cdz_scores *s, uint32_t first, uint32_t n, const float *addends,
           cdz_scores *out),
          (dec, s, first, n, addends, out))
CDZ_VERB_(cdz_status, ban, (cdz_decoder * dec, cdz_scores *s, uint32_t row, int32_t token),
          (dec, s, row, token))
CDZ_VERB_(cdz_status, token_scores,
          (cdz_decoder * dec, const cdz_scores *s, const uint32_t *rows, const int32_t *tokens,
           uint32_t n, cdz_token_score *out),
          (dec, s, rows, tokens, n, out))
CDZ_VERB_(cdz_status, scratch_scores, (cdz_decoder * dec, uint32_t n, cdz_scores *out),
          (dec, n, out))
CDZ_VERB_(cdz_status, argmax, (cdz_decoder * dec, const cdz_scores *s, uint32_t row, cdz_pick *out),
          (dec, s, row, out))
CDZ_VERB_(cdz_status, argmax_rows, (cdz_decoder * dec, const cdz_scores *s, int32_t *tokens),
          (dec, s, tokens))
CDZ_VERB_(cdz_status, multinomial, (cdz_decoder * dec, const cdz_scores *p, int32_t *tokens),
          (dec, p, tokens))
CDZ_VERB_(cdz_status, topk_flat,
          (cdz_decoder * dec, const cdz_scores *s, uint32_t first, uint32_t n, const float *addends,
           uint32_t m, cdz_candidate *out),
          (dec, s, first, n, addends, m, out))
CDZ_VERB_(cdz_status, multinomial_flat,
          (cdz_decoder * dec, const cdz_scores *p, uint32_t first, uint32_t n, uint32_t m,
           cdz_candidate *out),
          (dec, p, first, n, m, out))
CDZ_VERB_(cdz_status, uniform, (cdz_decoder * dec, uint32_t n, float *out), (dec, n, out))
CDZ_VERB_(cdz_status, seq_new, (cdz_decoder * dec, const char *model, cdz_seq **out),
          (dec, model, out))
CDZ_VERB_(cdz_seq *, seq_of_row, (cdz_decoder * dec, uint32_t row), (dec, row))
CDZ_VERB_(cdz_status, seq_fork, (cdz_decoder * dec, const cdz_seq *seq, cdz_seq **out),
          (dec, seq, out))
CDZ_VERB_(cdz_status, seq_append, (cdz_decoder * dec, cdz_seq *seq, const int32_t *ids, uint32_t n),
          (dec, seq, ids, n))
CDZ_VERB_(cdz_status, seq_truncate, (cdz_decoder * dec, cdz_seq *seq, uint32_t len), (dec, seq, len))
CDZ_VERB_(cdz_ids, seq_ids, (const cdz_decoder *dec, const cdz_seq *seq), (dec, seq))
CDZ_VERB_(uint32_t, seq_length, (const cdz_decoder *dec, const cdz_seq *seq), (dec, seq))
CDZ_VERB_(cdz_status, seq_forward,
          (cdz_decoder * dec, cdz_seq *const *seqs, uint32_t n, cdz_positions positions,
           cdz_scores *out),
          (dec, seqs, n, positions, out))
CDZ_VERB_(cdz_status, seq_process,
          (cdz_decoder * dec, cdz_seq *const *seqs, const uint32_t *rows, uint32_t n,
           cdz_scores *scores),
          (dec, seqs, rows, n, scores))
CDZ_VERB_(cdz_status, seq_new_exit,
          (cdz_decoder * dec, const char *model, uint32_t n_layers, cdz_seq **out),
          (dec, model, n_layers, out))
CDZ_VERB_(cdz_status, process_ids,
          (cdz_decoder * dec, uint32_t pipeline, const cdz_ids *ids, const uint32_t *rows,
           uint32_t n, cdz_scores *scores),
          (dec, pipeline, ids, rows, n, scores))
CDZ_VERB_(cdz_status, pipeline_derive,
          (cdz_decoder * dec, const char *const *exclude, uint32_t n_exclude,
           const char *const *append, uint32_t n_append, uint32_t *out),
          (dec, exclude, n_exclude, append, n_append, out))
CDZ_VERB_(cdz_status, keep_hidden,
          (cdz_decoder * dec, cdz_positions positions, const uint32_t *layers, uint32_t n),
          (dec, positions, layers, n))
CDZ_VERB_(cdz_status, hidden_states, (cdz_decoder * dec, cdz_hidden *out), (dec, out))
CDZ_VERB_(cdz_status, head, (cdz_decoder * dec, const float *hidden, uint32_t n, cdz_scores *out),
          (dec, hidden, n, out))
CDZ_VERB_(cdz_status, stop_test,
          (cdz_decoder * dec, const cdz_ids *ids, const uint32_t *rows, uint32_t n, cdz_stop *stops),
          (dec, ids, rows, n, stops))
CDZ_VERB_(bool, has_drafter, (const cdz_decoder *dec), (dec))
CDZ_VERB_(cdz_status, propose, (cdz_decoder * dec, uint32_t row, cdz_draft *out), (dec, row, out))
CDZ_VERB_(cdz_status, judged, (cdz_decoder * dec, uint32_t row, uint32_t n_accepted),
          (dec, row, n_accepted))
CDZ_VERB_(cdz_status, finish,
          (cdz_decoder * dec, uint32_t row, cdz_stop_reason reason, const char *text),
          (dec, row, reason, text))
CDZ_VERB_(cdz_status, return_rows, (cdz_decoder * dec, const cdz_returned *rows, uint32_t n),
          (dec, rows, n))
CDZ_VERB_(cdz_status, record, (cdz_decoder * dec, cdz_record_kind what, const cdz_scores *scores),
          (dec, what, scores))
CDZ_VERB_(cdz_status, put_result,
          (cdz_decoder * dec, const char *name, cdz_result_type type, uint32_t n_dims,
           const uint64_t *shape, const void *data),
          (dec, name, type, n_dims, shape, data))
CDZ_VERB_(bool, cancelled, (const cdz_decoder *dec), (dec))
CDZ_VERB_(double, deadline_s, (const cdz_decoder *dec), (dec))
CDZ_VERB_(bool, facts, (const cdz_decoder *dec, const char *model, cdz_model_facts *out),
          (dec, model, out))
CDZ_VERB_(cdz_status, draw_rows, (cdz_decoder * dec, cdz_scores *scores, int32_t *tokens),
          (dec, scores, tokens))
CDZ_VERB_(uint32_t, vocab_size, (const cdz_decoder *dec, const char *model), (dec, model))
CDZ_VERB_(cdz_status, lens, (cdz_decoder * dec, const float *hidden, uint32_t n, cdz_scores *out),
          (dec, hidden, n, out))
CDZ_VERB_(cdz_status, seq_steer,
          (cdz_decoder * dec, cdz_seq *seq, const cdz_edit *edits, uint32_t n), (dec, seq, edits, n))
CDZ_VERB_(cdz_status, sleep, (cdz_decoder * dec, double seconds), (dec, seconds))
CDZ_VERB_(cdz_status, wait_fd,
          (cdz_decoder * dec, int fd, uint32_t events, double seconds, uint32_t *ready),
          (dec, fd, events, seconds, ready))
CDZ_VERB_(cdz_status, offload, (cdz_decoder * dec, void (*fn)(void *arg), void *arg), (dec, fn, arg))
CDZ_VERB_(cdz_status, call_tool,
          (cdz_decoder * dec, const char *name, const char *text, uint32_t len,
           cdz_tool_answer *out),
          (dec, name, text, len, out))
CDZ_VERB_(cdz_status, insert,
          (cdz_decoder * dec, uint32_t row, const int32_t *ids, uint32_t n, uint32_t flags,
           const char *who),
          (dec, row, ids, n, flags, who))
CDZ_VERB_(cdz_status, commit, (cdz_decoder * dec, uint32_t row, uint32_t n), (dec, row, n))
CDZ_VERB_(cdz_status, seq_score,
          (cdz_decoder * dec, cdz_seq *const *seqs, uint32_t n, uint32_t last, float *out),
          (dec, seqs, n, last, out))
CDZ_VERB_(cdz_status, seq_append_forward,
          (cdz_decoder * dec, cdz_seq *const *seqs, const int32_t *tokens, uint32_t n,
           cdz_scores *out),
          (dec, seqs, tokens, n, out))
CDZ_VERB_(cdz_status, rollouts,
          (cdz_decoder * dec, cdz_seq *const *seqs, const uint32_t *rows, uint32_t n, uint32_t most,
           bool draws, cdz_rollout *out),
          (dec, seqs, rows, n, most, draws, out))
CDZ_VERB_(cdz_status, embed,
          (cdz_decoder * dec, const char *model, const int32_t *ids, uint32_t n, float *out),
          (dec, model, ids, n, out))
CDZ_VERB_(cdz_status, seq_embeds,
          (cdz_decoder * dec, cdz_seq *seq, uint32_t from, const float *embeds, uint32_t n,
           uint32_t width),
          (dec, seq, from, embeds, n, width))
CDZ_VERB_(uint32_t, n_values, (const cdz_decoder *dec, const char *model), (dec, model))
CDZ_VERB_(cdz_status, seq_value,
          (cdz_decoder * dec, cdz_seq *const *seqs, uint32_t n, uint32_t n_values, float *out),
          (dec, seqs, n, n_values, out))
CDZ_VERB_(uint32_t, drafter_caps, (const cdz_decoder *dec), (dec))
CDZ_VERB_(cdz_string, value_label, (const cdz_decoder *dec, const char *model, uint32_t i),
          (dec, model, i))
#undef CDZ_VERB_

/* Appends n positions that are read as these vectors, to a sequence that is no row (a row: insert, then seq_embeds). Their id,
 * which ids of the sequence have there, is what processors see. */
static inline cdz_status cdz_seq_append_embeds(cdz_decoder *dec, cdz_seq *seq, int32_t id,
                                               const float *embeds, uint32_t n, uint32_t width)
{
    const uint32_t from = dec->api->seq_length(dec, seq);
    for (uint32_t i = 0; i < n; i++) {
        const cdz_status status = dec->api->seq_append(dec, seq, &id, 1);
        if (status != CDZ_OK) return status;
    }
    return dec->api->seq_embeds(dec, seq, from, embeds, n, width);
}

static inline void cdz_seq_free(cdz_decoder *dec, cdz_seq *seq)
{
    dec->api->seq_free(dec, seq);
}

#endif
