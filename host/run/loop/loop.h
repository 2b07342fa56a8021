/* loop.h - one decode loop: the rows of a request, the strategy that drives them, and what it asked for by then.
 *
 * A request has one loop, or one per row when its strategy was written for one row. A loop is what a strategy knows
 * as cdz_decoder: the verbs (verbs.h) are spread over the files of this room by group. It knows the job (what is to be
 * done) and its berth (what it is lent for that), and no engine. Everything here is [engine], on the loop's fibre. */
#ifndef CDZ_HOST_RUN_LOOP_LOOP_H
#define CDZ_HOST_RUN_LOOP_LOOP_H

#include "base/buf.h"
#include "random/torch_rng.h"
#include "run/loop/fibre.h"
#include "run/loop/pace.h"
#include "run/pass/forward.h"
#include "run/stages/press.h"
#include "run/stages/stages.h"

typedef struct cdz_loop cdz_loop;

/* What pipeline_derive asked for: processors without some and with others again, by ids. Kept to choose again when the
 * stages change; set->derived has the stages. */
typedef struct cdz_derivation {
    const char *const *exclude, *const *append;
    uint32_t n_exclude, n_append;
} cdz_derivation;

/* The request's drafter and its newest draft. */
typedef struct cdz_drafting {
    cdz_stage stage; /* plugin NULL: there is none; processors' fields are unused */
    cdz_scratch_mem scratch;
    int32_t *tokens; /* (cap) */
    uint32_t n, cap, row;
    bool skipped;   /* the drafter was not asked for the newest one */
    cdz_pace *pace; /* owned: how long drafts are to be; NULL: as long as the drafter makes them */
    double draft_s, proposed_at;
} cdz_drafting;

/* Hidden states that the strategy keeps. */
typedef struct cdz_hidden_store {
    uint32_t *layers; /* (n), of `room` */
    uint32_t n, room, n_rows;
    cdz_positions positions;
    float *data;
    size_t cap;        /* floats */
    cdz_matrix scores; /* what head gave */
} cdz_hidden_store;

typedef struct cdz_recorder {
    cdz_recorded_step *steps;
    uint32_t n, cap;
    bool closed;            /* the newest step's token was appended */
    float *scores, *logits; /* (n_rows, V) the newest step's rows, until its token is known */
    bool has_scores, has_logits;
    uint32_t n_first_chunk; /* steps that the first append_chunk recorded, if it recorded the first */
} cdz_recorder;

/* What the strategy waits for outside of the engine, while its fibre sleeps. */
typedef struct cdz_loop_pause {
    bool on;
    int fd; /* that is polled for `events`; with events alone */
    short events, came;
    double until_s;            /* monotonic; 0: no end */
    cdz_helper_errand *errand; /* to be done; NULL: none */
    bool insists;              /* on the errand, whatever becomes of the request */
} cdz_loop_pause;

typedef struct cdz_steering_hook cdz_steering_hook;

struct cdz_loop {
    cdz_decoder base; /* first: the strategy's handle */
    const cdz_job *job;
    cdz_fibre *fibre;
    uint32_t first_row; /* of the request, which is rows.at[0] */
    uint32_t n_open;    /* rows not done */
    uint32_t n_reused; /* positions that the first row of each prompt shares with the past, or has found */
    bool prefilled;
    uint32_t rows_from; /* what the plugin that uses the verbs counts rows from, as sentences do: 1 in scripts, else 0 */

    cdz_rows rows;
    cdz_stage_presses *presses; /* while the strategy runs; NULL: nothing is pressed */
    cdz_stageset *set; /* owned: what the newest edition of the pipeline gave; NULL: not begun */
    uint64_t tried;    /* the pipeline's newest edition that the loop has looked at */
    cdz_derivation *derivations; /* (n_derivations) */
    uint32_t n_derivations;
    cdz_instance strategy;
    cdz_drafting drafting;
    cdz_steering_hook *hooks; /* steering.c: who changes hidden states by a function, the newest first */

    cdz_torch_rng rng;
    cdz_matrix refitted;           /* scores of another vocabulary, as processors are shown them */
    cdz_matrix scores, seq_scores; /* forward's and seq_forward's rows */
    cdz_hidden_store hidden;
    cdz_matrix **scratch;
    uint32_t n_scratch, scratch_cap;
    cdz_seq *seqs; /* sequences beyond the rows */
    uint32_t n_seqs;
    struct {
        uint64_t most, stays, set_aside; /* bytes: held.c */
    } held;
    cdz_scratch_mem strategy_scratch;

    const cdz_capture *captures; /* of the next seq_forward's sequences, or NULL */
    cdz_want want;
    cdz_want_seq *want_seqs;
    uint32_t want_cap;
    bool waiting;      /* suspended for the want */
    bool lacks;        /* blocks for it: it is not for a pass yet (engine/room.c) */
    bool yielded;      /* its blocks, outside: it takes none before the engine gives it some */
    cdz_status denied; /* there will be none; its sentence is rows.error */

    cdz_loop_pause pause;
    cdz_buf tool_answer;

    cdz_outcome_row *returned; /* (n_returned) outcome lifetime: what return_rows said; NULL: the rows */
    uint32_t n_returned;
    cdz_recorder recorder;
    float *pending_scores, *pending_logits; /* (n_rows, V) copies that are not kept */
    cdz_status status;                      /* how the loop ended; its sentence is rows.error */
    double prefill_s;                       /* when the first pass was done; 0: not yet */
};

extern const cdz_decoder_api cdz_loop_api;

/* --- life: loop.c --- */
/* Rows [first_row, first_row + n_rows) of the job. */
cdz_status cdz_loop_create(const cdz_job *job, const cdz_berth *berth, uint32_t first_row,
                           uint32_t n_rows, cdz_loop **out, cdz_error *err);
void cdz_loop_free(cdz_loop *loop); /* NULL is fine */
void cdz_loop_main(void *loop);     /* what the fibre runs */
/* Once it has ended: leaves it with no blocks of KV memory but its rows'. */
void cdz_loop_keep_rows_alone(cdz_loop *loop);
/* Shows every sequence of the loop's and of its companions. */
void cdz_loop_visit(const cdz_loop *loop, void (*visit)(void *user, const cdz_seq *seq), void *user);
/* While it waits: prepares all sequences of its want; and gives back all blocks that it has. */
cdz_status cdz_loop_equip(cdz_loop *loop, cdz_error *err);
void cdz_loop_yield(cdz_loop *loop);
#ifdef CDZ_CHECKED
void cdz_loop_check_promises(const cdz_loop *loop); /* between two ticks */
#endif

/* --- shared by the verbs --- */
static inline cdz_loop *cdz_loop_of(const cdz_decoder *dec)
{
    return (cdz_loop *)(uintptr_t)dec;
}
/* CDZ_OK, CDZ_E_CANCELLED or CDZ_E_DEADLINE. */
static inline cdz_status cdz_loop_alive(const cdz_loop *loop)
{
    return cdz_berth_alive(loop->rows.berth);
}
/* The strategy used a verb wrongly, or we cannot do it: "ID: VERB: sentence". A macro so that checkers see that the
 * code comes back. */
#define cdz_loop_fail(loop, code, ...)                                                             \
    (cdz_loop_say((loop), (code), __VA_ARGS__), cdz_loop_code(code))
/* What a plugin counts rows from. */
static inline uint32_t cdz_rows_from(const cdz_plugin_ref *plugin)
{
    return plugin->module && cdz_module_is_script(plugin->module);
}

/* From here on the verbs are this plugin's. */
static inline void cdz_loop_count_for(cdz_loop *loop, const cdz_plugin_ref *plugin)
{
    loop->rows_from = cdz_rows_from(plugin);
}

/* The number of row r, from 0, in a sentence. */
static inline uint32_t cdz_loop_nth(const cdz_loop *loop, uint32_t r)
{
    return r + loop->rows_from;
}

static inline cdz_status cdz_loop_code(cdz_status code)
{
    return code;
}
void cdz_loop_say(cdz_loop *loop, cdz_status code, const char *fmt, ...) CDZ_PRINTF(3, 4);
static inline cdz_status cdz_loop_nomem(cdz_loop *loop)
{
    return cdz_rows_nomem(&loop->rows);
}
/* held.c: before `bytes` more are taken, for good, or in place of what the verb took before; before a sequence grows by that
 * much. */
cdz_status cdz_loop_take(cdz_loop *loop, const char *verb, uint64_t bytes);
cdz_status cdz_loop_may_take(cdz_loop *loop, const char *verb, uint64_t bytes);
cdz_status cdz_loop_grow_seq(cdz_loop *loop, const char *verb, uint64_t bytes);
cdz_status cdz_loop_one_more_seq(cdz_loop *loop);
uint64_t cdz_loop_bytes(uint64_t n, uint64_t size); /* n times size; huge where that is no number */
/* Suspends until the want is satisfied. */
cdz_status cdz_loop_await(cdz_loop *loop);
/* Suspends until the cache of a sequence, whose blocks were taken, holds again what it held. */
cdz_status cdz_loop_reread(cdz_loop *loop, cdz_seq *seq);
/* --- cache.c --- */
const void *cdz_loop_cache_table(void);              /* cadenza.kv/1 */
cdz_status cdz_cache_open(cdz_loop *loop);           /* can the job's output_kv be had? */
cdz_status cdz_cache_record(cdz_loop *loop);         /* output_kv */
bool cdz_loop_want(cdz_loop *loop, uint32_t n_seqs); /* room in want_seqs */
/* cdz_seq_prepare for a sequence of the want's. Where blocks may be taken from others for it, a want may lack some: then it
 * waits, and no pass comes before cdz_loop_equip. */
cdz_status cdz_loop_prepare(cdz_loop *loop, cdz_seq *seq);
/* cdz_seq_find for a sequence of the loop's; what a prompt finds before the first pass is counted. */
uint32_t cdz_loop_recall(cdz_loop *loop, cdz_seq *seq, bool reads_all);
/* The account that sequences of a model are of, and what its encoder makes of a request row's prompt, or NULL. */
cdz_kv_account *cdz_loop_account(const cdz_loop *loop, const cdz_run_model *model);
cdz_encoded *cdz_loop_source(const cdz_loop *loop, const cdz_run_model *model, uint32_t row);
/* Matrices: checks that `given` are rows [*first, ...) of one of ours; *out, which may be the same, tells where they are
 * in memory of the host. The first one leaves what is away where it is. */
cdz_status cdz_loop_find(cdz_loop *loop, const char *verb, const cdz_scores *given, cdz_scores *out,
                         uint32_t *first);
cdz_status cdz_loop_check(cdz_loop *loop, const char *verb, const cdz_scores *given,
                          cdz_scores *out, uint32_t *first);
cdz_matrix *cdz_loop_matrix(cdz_loop *loop, uint64_t id); /* one of ours; NULL: it is none */
/* After find: every row has a request row, *first + i. */
cdz_status cdz_loop_rows_of(cdz_loop *loop, const char *verb, const cdz_scores *given,
                            cdz_scores *out, uint32_t *first);
/* Rows [first, first + n) of forward's scores, from where they are away, for somebody who reads them. */
cdz_status cdz_loop_fetch(cdz_loop *loop, uint32_t first, uint32_t n);
/* Those of them that come with their pass have come. */
cdz_status cdz_loop_arrive(cdz_loop *loop, uint32_t first, uint32_t n);
void cdz_loop_note_fetched(cdz_loop *loop, uint32_t n); /* for the counters */
/* The loop's want keeps hidden states too: rows of them, hidden0 of its sequences is set. */
cdz_status cdz_loop_want_hidden(cdz_loop *loop, uint64_t n_rows); /* hidden.c */
void cdz_loop_follow_hidden(cdz_loop *loop, uint32_t row, uint32_t leader);
cdz_run_model *cdz_loop_model_named(const cdz_loop *loop, const char *name); /* NULL: none */
const char *cdz_loop_name_of(const cdz_loop *loop, const cdz_run_model *model);
/* Are they of one model, one depth, and each only once? */
cdz_status cdz_loop_check_seqs(cdz_loop *loop, const char *verb, cdz_seq *const *seqs, uint32_t n);
/* Suspends. Of each of these sequences, which have a token, the hidden state of its last position behind *layer, as transformers
 * counts them: out (n, width), in memory of the host. */
cdz_status cdz_loop_last_states(cdz_loop *loop, cdz_seq *const *seqs, uint32_t n,
                                const uint32_t *layer, float *out);
void cdz_loop_emit(cdz_loop *loop, uint32_t row, bool ended);
void cdz_loop_end_row(cdz_loop *loop, uint32_t row); /* its stop is set */
void cdz_loop_emit_returned(cdz_loop *loop);         /* return.c */

/* --- processors and stop rules: rows.c --- */
/* Runs processors of the loop's set on view rows, when their companions' logits are there. May suspend. */
cdz_status cdz_loop_process(cdz_loop *loop, const cdz_stage_chain *chain, const cdz_view *view,
                            cdz_scores *scores, cdz_drawn *drawn);
/* Has row r no position left in the model's context when it holds len ids? False where nothing ends it there. */
bool cdz_loop_fills_context(const cdz_loop *loop, uint32_t r, uint32_t len);
/* Asks the criteria, and the model's context; stops arrive zeroed. */
cdz_status cdz_loop_test(cdz_loop *loop, const cdz_view *view, cdz_stop *stops);

/* --- made-up rows: seqs.c --- */
/* A view of n made-up rows on the loop's own arrays; ids are the caller's to fill. */
cdz_status cdz_loop_trial_view(cdz_loop *loop, const char *verb, const uint32_t *rows, uint32_t n,
                               cdz_view *out);

/* --- selections of processors: derive.c --- */
/* Chooses what the loop's derivations ask for among the stages of the set. */
cdz_status cdz_derive_all(cdz_loop *loop, cdz_stageset *set);

/* --- another version of the pipeline: renew.c --- */
/* Between two steps: goes over to the pipeline's newest edition, if the request can. What fails leaves everything as it
 * is, and is reported once. */
void cdz_loop_renew(cdz_loop *loop);

/* --- edits of hidden states: steering.c --- */
/* Asks the set's processors for those of each row. After they have begun, before the first pass. */
cdz_status cdz_loop_steer(cdz_loop *loop);
cdz_status cdz_loop_hooks_check(cdz_loop *loop); /* after a pass: has an on_hidden failed in it? */
/* May a pass call processors of the loop's set? */
bool cdz_loop_calls_processors(const cdz_loop *loop);
void cdz_loop_end_strategy_hooks(cdz_loop *loop); /* and its drafter's */
void cdz_loop_end_hooks(cdz_loop *loop);
/* --- what others have written: insert.c --- */
/* The first of new tokens [from, to) that are told, and with *end those that follow it are; to: none is. */
uint32_t cdz_loop_shown(const cdz_request_row *row, uint32_t from, uint32_t to, uint32_t *end);
/* The row has n new tokens left. */
void cdz_loop_cut_inserted(cdz_insertions *in, uint32_t n);
cdz_status cdz_loop_copy_inserted(cdz_loop *loop, cdz_insertions *to, const cdz_insertions *from);
bool cdz_loop_any_inserted(const cdz_loop *loop);

/* --- results: record.c, observe.c --- */
cdz_status cdz_loop_put_result(cdz_loop *loop, const char *name, cdz_result_type type,
                               uint32_t n_dims, const uint64_t *shape, const void *data);
const void *cdz_loop_observe_table(void); /* "cadenza.observe/1" */

/* --- rows that grow: append.c --- */
cdz_status cdz_loop_check_token(cdz_loop *loop, const char *verb, uint32_t row, int32_t token);
/* The row takes a token; its stages and observers hear of it, and nothing is streamed. */
cdz_status cdz_loop_grow(cdz_loop *loop, uint32_t row, int32_t token);
cdz_status cdz_loop_ask_rules(cdz_loop *loop); /* about the rows of the view; ends those they name */

/* --- what is outside of the engine: outside.c --- */
/* Has what the loop waits for there come, or is the request over? */
bool cdz_loop_pause_is_over(const cdz_loop *loop);

/* --- drafts: draft.c --- */
cdz_status cdz_drafter_open(cdz_loop *loop);
void cdz_drafter_close(cdz_loop *loop);

/* --- recording: record.c --- */
/* The best k of a row of n scores by falling score, ties by lower id; nan counts as -inf. */
void cdz_record_best(const float *row, uint32_t n, uint32_t k, int32_t *ids, float *values);
bool cdz_record_wants(const cdz_loop *loop, cdz_record_kind what); /* does record do anything? */
cdz_status cdz_record_rows(cdz_loop *loop, cdz_record_kind what, const cdz_scores *scores);
void cdz_record_token(cdz_loop *loop, uint32_t row, int32_t token);
void cdz_record_close(cdz_loop *loop); /* tokens that no row of the step chose were appended */
void cdz_record_rewind(cdz_loop *loop, uint32_t n);
void cdz_record_presses(cdz_loop *loop);   /* as a result: by row the list of its presses */
void cdz_record_drop_open(cdz_loop *loop); /* the step that was recorded and came to no token */

/* --- hidden states and attentions: states.c --- */
cdz_status cdz_states_note(cdz_loop *loop, cdz_recorded_step *step); /* what the rows hold at it */
cdz_status cdz_states_replay(cdz_loop *loop);                        /* once the strategy is done */
/* Those of a pair's encoder, before the sources are encoded; and of sources that no pass has read none. */
cdz_status cdz_states_of_sources(const cdz_job *job, cdz_encoded *sources, cdz_outcome *outcome,
                                 cdz_error *err);
void cdz_states_drop_unread(const cdz_job *job, const cdz_encoded *sources, cdz_outcome *outcome);

/* --- prompts without a strategy: prompt.c --- */
cdz_status cdz_loop_read_prompts(cdz_loop *loop); /* modes logits and score */

#endif
