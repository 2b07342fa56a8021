/* loop.h - one decode loop: the rows of a request, the strategy that drives them, and what watches and edits them.
 *
 * A request has one loop, or one per row when its strategy was written for one row. A loop is what a strategy knows
 * as cdz_decoder: the verbs are spread over loop_*.c by group. Everything here is [engine], on the loop's fibre, but
 * for the row-wise processors that stages.c may send to the backend's threads. */
#ifndef CDZ_HOST_RUN_LOOP_H
#define CDZ_HOST_RUN_LOOP_H

#include "base/clock.h"
#include "base/scratch.h"
#include "cadenza/ext/form.h"
#include "call/guard.h"
#include "call/host.h"
#include "random/torch_rng.h"
#include "run/away.h"
#include "run/fibre.h"
#include "run/forward.h"
#include "run/model.h"
#include "run/pace.h"
#include "run/sequence.h"
#include "vec/fused.h"

typedef struct cdz_loop cdz_loop;
typedef struct cdz_task cdz_task; /* task.h: the request as the engine keeps it */

/* A processor or criterion that is not idle for this request. */
typedef struct cdz_stage {
    const cdz_instance *instance;
    const cdz_plugin_base *plugin;
    uint32_t caps;
    size_t state_at; /* of its bytes in a row's state */
    uint32_t state_size;
    const struct cdz_state_api *state_api; /* "cadenza.state/1", or NULL: plain bytes */
    bool row_wise;                         /* may run on any thread, row by row */
    bool begun;
    bool hears; /* has accept */
    bool deaf; /* not told of tokens just now: its states are carried over from another version (renew.c) */
    uint32_t state_version;
    cdz_form form;   /* what a processor does, where it says so (fuse.h) */
    uint32_t phases; /* bit n is set when it runs in phase n */
    void *shared;
    uint32_t companion; /* number of its companions (companion.h), from 1; 0: none */
} cdz_stage;

/* What a plugin call may use; step->scope points to one. */
typedef struct cdz_scope {
    const cdz_caller *caller; /* first: where the host's functions find it; cdz_step_for sets it */
    cdz_loop *loop;
    const cdz_plugin_base *plugin;
    cdz_scratch_mem *scratch;
    cdz_error *error; /* where fail writes; code CDZ_OK: nothing said yet */
    bool may_alloc;
    cdz_arena *arena;       /* where alloc takes from; NULL: the loop's own */
    const cdz_stage *stage; /* in apply: whose call this is, and the view row it begins with; else NULL */
    uint32_t first;
} cdz_scope;

typedef struct cdz_drawn cdz_drawn;           /* fuse.h */
typedef struct cdz_companions cdz_companions; /* companion.c */
typedef struct cdz_watcher cdz_watcher;       /* watch.c */

/* What stages may take in begin, and what a strategy may take in run. */
#define CDZ_LOOP_ARENA ((size_t)1 << 30)

enum { CDZ_LOOP_WORKERS = 16 }; /* at most; row-wise stages run on as many threads */

/* What one thread of a row-wise stage needs for itself. */
typedef struct cdz_row_worker {
    cdz_scratch_mem scratch;
    cdz_error error;
    cdz_call call;                    /* its newest apply */
    uint64_t fusings[CDZ_FUSE_KINDS]; /* rows that could be fused, by how that went */
    uint32_t rest,
        resting; /* after a row with too many survivors: how many to leave, and are left */
} cdz_row_worker;

/* Rows that plugins look at: the request's own, or made-up continuations of them. */
typedef struct cdz_view {
    uint32_t n;
    cdz_ids *ids;           /* (n) */
    uint32_t *rows;         /* (n) request row of each */
    unsigned char **states; /* (n) row states; entries NULL when nothing has state */
} cdz_view;

typedef struct cdz_loop_row {
    cdz_seq *seq, *spare; /* spare: where reorder builds the next generation */
    unsigned char *state, *spare_state;
    unsigned char *marks; /* states after every CDZ_MARK_EVERY generated tokens */
    uint32_t n_marks, marks_cap;
    bool done, skip; /* ended; and filled with pad from then on */
    cdz_stop stop;
    uint32_t n_new;     /* when done: tokens up to and including the last one that counts */
    uint32_t n_emitted; /* given to on_tokens */
} cdz_loop_row;

/* A text of a stop, for as long as the request lives. */
typedef struct cdz_kept_text {
    const struct cdz_kept_text *next;
    const char *at;
    uint32_t len;
} cdz_kept_text;

/* A matrix the strategy may hand back to us. */
typedef struct cdz_matrix {
    uint64_t id;
    float *data;
    uint32_t n_rows, n_vocab, cap_rows;
} cdz_matrix;

/* Processors in another order or number than the user's; stages are copies that share state and begin. Ids that stages
 * are left out or added by are kept, to choose again when the stages change. */
typedef struct cdz_derived {
    cdz_stage *stages;
    uint32_t n;
    const char *const *exclude, *const *append;
    uint32_t n_exclude, n_append;
} cdz_derived;

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
    uint32_t *layers; /* (n) */
    uint32_t n, n_rows;
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

struct cdz_loop {
    cdz_decoder base; /* first: the strategy's handle */
    cdz_task *task;
    const cdz_job *job;
    cdz_run_model *model;
    cdz_backend *backend;
    cdz_profile *profile; /* the engine's, or NULL */
    cdz_fibre *fibre;
    uint32_t first_row, n_rows; /* of the request */
    uint32_t n_vocab, n_open;   /* rows not done */
    cdz_loop_row *rows;
    bool has_eos, holds_text;
    bool prefilled;
    uint32_t rows_from; /* what the plugin that uses the verbs counts rows from, as sentences do: 1 in scripts, else 0 */

    cdz_arena arena;
    cdz_request_info info;
    cdz_generation config; /* the plan's, with what preparation resolved */
    cdz_instance strategy;
    cdz_plan *plan;        /* owned: the newest the stages are of; NULL: the job's */
    uint64_t tried;        /* the pipeline's newest edition that the loop has looked at */
    cdz_arena stage_arena; /* of the stages: what they took in begin, states of rows */
    cdz_stage *processors, *criteria;
    uint32_t n_processors, n_criteria;
    size_t state_bytes;         /* of a row */
    bool owned_states;          /* some stage's state is more than bytes */
    bool fuses;                 /* runs of processors may be done in one walk */
    bool accepts;               /* some stage wants to be told of tokens */
    const cdz_stage *teller;    /* the processor that tells phases; NULL: there are none */
    cdz_companions *companions; /* NULL: no stage has any */

    cdz_watcher *watchers; /* (n_watchers) observers */
    uint32_t n_watchers;
    cdz_matrix logits_seen,
        stage_seen; /* rows as they were before the processors, before one of them */
    cdz_scratch_mem watch_scratch;

    cdz_derived *derived; /* (n_derived) what pipeline_derive made */
    uint32_t n_derived;
    cdz_drafting drafting;
    const cdz_kept_text *texts;

    cdz_torch_rng rng;
    cdz_matrix refitted;           /* scores of another vocabulary, as processors are shown them */
    cdz_matrix scores, seq_scores; /* forward's and seq_forward's rows */
    cdz_away away; /* where those of forward may be instead; of the model's device */
    cdz_hidden_store hidden;
    cdz_matrix **scratch;
    uint32_t n_scratch;
    uint64_t next_matrix;
    cdz_seq *seqs; /* sequences beyond the rows */

    cdz_row_worker *workers;
    uint32_t n_workers;
    cdz_scratch_mem strategy_scratch, verb_scratch;
    cdz_view view; /* room for view_cap rows */
    uint32_t view_cap;
    void **state_view;           /* (view_cap) one stage's pointers */
    uint32_t *phase_view;        /* (view_cap) the bit of each row's phase, where phases are told */
    unsigned char *trial_states; /* (trial_cap) states of made-up rows */
    size_t trial_cap;

    const cdz_capture *captures; /* of the next seq_forward's sequences, or NULL */
    cdz_want want;
    cdz_want_seq *want_seqs;
    uint32_t want_cap;
    bool waiting; /* suspended for the want */

    cdz_outcome_row *returned; /* (n_returned) outcome lifetime: what return_rows said; NULL: the rows */
    uint32_t n_returned;
    cdz_recorder recorder;
    float *pending_scores, *pending_logits; /* (n_rows, V) copies that are not kept */
    cdz_error error;                        /* the newest sentence, whoever said it */
    cdz_status status;                      /* how the loop ended */
    double prefill_s;                       /* when the first pass was done; 0: not yet */
    uint32_t n_prompt_tokens;
};

extern const cdz_decoder_api cdz_loop_api;

/* --- life: loop.c --- */
cdz_status cdz_loop_create(cdz_task *task, uint32_t first_row, uint32_t n_rows, cdz_loop **out,
                           cdz_error *err);
void cdz_loop_free(cdz_loop *loop); /* NULL is fine */
void cdz_loop_main(void *loop);     /* what the fibre runs */

/* --- shared by the verbs --- */
static inline cdz_loop *cdz_loop_of(const cdz_decoder *dec)
{
    return (cdz_loop *)(uintptr_t)dec;
}
/* CDZ_OK, CDZ_E_CANCELLED or CDZ_E_DEADLINE. */
cdz_status cdz_loop_alive(cdz_loop *loop);
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
    return cdz_err(&loop->error, CDZ_E_NOMEM, "out of memory for the request");
}
/* How a call of a plugin went; the sentence lands in loop->error. */
cdz_status cdz_loop_judge(cdz_loop *loop, const cdz_call *call, cdz_status returned,
                          const cdz_error *said);
/* Suspends until the want is satisfied. */
cdz_status cdz_loop_await(cdz_loop *loop);
bool cdz_loop_want(cdz_loop *loop, uint32_t n_seqs); /* room in want_seqs */
bool cdz_loop_view(cdz_loop *loop, uint32_t n);      /* room in view */
/* Fills the view with request rows [first, first + n). */
void cdz_loop_view_rows(cdz_loop *loop, uint32_t first, uint32_t n);
cdz_ids cdz_row_ids(const cdz_loop_row *row);
bool cdz_row_runs(const cdz_loop *loop, uint32_t row); /* not skipped */
/* Matrices: checks that `given` are rows [*first, ...) of one of ours; *out, which may be the same, tells where they are
 * in memory of the host. The first one leaves what is away where it is. */
cdz_status cdz_loop_find(cdz_loop *loop, const char *verb, const cdz_scores *given, cdz_scores *out,
                         uint32_t *first);
cdz_status cdz_loop_check(cdz_loop *loop, const char *verb, const cdz_scores *given,
                          cdz_scores *out, uint32_t *first);
/* After find: every row has a request row, *first + i. */
cdz_status cdz_loop_rows_of(cdz_loop *loop, const char *verb, const cdz_scores *given,
                            cdz_scores *out, uint32_t *first);
/* Rows [first, first + n) of forward's scores, from where they are away, for somebody who reads them. */
cdz_status cdz_loop_fetch(cdz_loop *loop, uint32_t first, uint32_t n);
/* Those of them that come with their pass have come. */
cdz_status cdz_loop_arrive(cdz_loop *loop, uint32_t first, uint32_t n);
void cdz_loop_note_fetched(cdz_loop *loop, uint32_t n); /* for the counters */
cdz_status cdz_matrix_fit(cdz_loop *loop, cdz_matrix *m, uint32_t n_rows, uint32_t n_vocab);
cdz_scores cdz_matrix_scores(const cdz_matrix *m);
/* The loop's want keeps hidden states too: rows of them, hidden0 of its sequences is set. */
cdz_status cdz_loop_want_hidden(cdz_loop *loop, uint64_t n_rows); /* loop_hidden.c */
void cdz_loop_follow_hidden(cdz_loop *loop, uint32_t row, uint32_t leader);
cdz_run_model *cdz_loop_model_named(const cdz_loop *loop, const char *name); /* NULL: none */
void cdz_loop_emit(cdz_loop *loop, uint32_t row, bool ended);
void cdz_loop_end_row(cdz_loop *loop, uint32_t row); /* its stop is set */
void cdz_loop_emit_returned(cdz_loop *loop);         /* loop_return.c */

/* Where what a call leaves behind is taken from. */
static inline cdz_arena *cdz_scope_arena(const cdz_scope *scope)
{
    return scope->arena ? scope->arena : &scope->loop->arena;
}

/* What the loop's stages are of. */
static inline const cdz_plan *cdz_loop_plan(const cdz_loop *loop)
{
    return loop->plan ? loop->plan : loop->job->plan;
}

/* --- stages.c --- */
/* Companions are begun apart. */
cdz_status cdz_stages_begin(cdz_loop *loop);
void cdz_stages_end(cdz_loop *loop);
/* View row i has ended and is filled with pad: nothing is computed for it. */
bool cdz_view_skips(const cdz_loop *loop, const cdz_view *view, uint32_t i);
/* Runs the processors on view rows; score row of view row i is scores row i. drawn: NULL, or (view->n): rows that may
 * become lists instead of scores, and those that are. */
cdz_status cdz_stages_process(cdz_loop *loop, const cdz_view *view, cdz_scores *scores,
                              cdz_drawn *drawn);
/* The first n of them on one row, on worker 0. False: one failed; nothing is said of it. */
bool cdz_stages_try(cdz_loop *loop, const cdz_view *view, const cdz_scores *scores, uint32_t row,
                    uint32_t n);
/* Tells every stage of a token; ids already hold it. state: the row's. */
cdz_status cdz_stages_accept(cdz_loop *loop, cdz_ids ids, uint32_t row, unsigned char *state,
                             int32_t token);
/* stops arrive zeroed. */
/* Has row r no position left in the model's context when it holds len ids? False where nothing ends it there. */
bool cdz_loop_fills_context(const cdz_loop *loop, uint32_t r, uint32_t len);
cdz_status cdz_stages_test(cdz_loop *loop, const cdz_view *view, cdz_stop *stops);
/* Replays accept from a row state at length `from` to the whole of ids. */
cdz_status cdz_stages_replay(cdz_loop *loop, cdz_ids ids, uint32_t from, uint32_t row,
                             unsigned char *state);
/* `to`, which holds a state or zero bytes, becomes a copy of `from`; NULL: a fresh row's. Not the same place. */
cdz_status cdz_stages_copy_state(cdz_loop *loop, unsigned char *to, const unsigned char *from);
/* Gives up what the stage's state_size bytes own, and zeroes them. Of stages with a state_api. */
void cdz_stages_drop_state(cdz_loop *loop, const cdz_stage *stage, const cdz_step *step,
                           void *state);
/* Of a call that cannot fail: what it did to the thread goes to the log. */
void cdz_stages_complain(cdz_loop *loop, const cdz_call *call);

/* --- made-up rows: loop_seqs.c --- */
/* A view of n made-up rows on the loop's own arrays; ids are the caller's to fill. */
cdz_status cdz_loop_trial_view(cdz_loop *loop, const char *verb, const uint32_t *rows, uint32_t n,
                               cdz_view *out);
/* A scratch state per made-up row, brought to where its ids are. */
cdz_status cdz_loop_trial_states(cdz_loop *loop, const cdz_view *view);

/* --- selections of processors: loop_pipeline.c --- */
/* Chooses the stages of loop->derived[i] among the present ones. False: out of memory. */
bool cdz_derived_choose(cdz_loop *loop, uint32_t i);

/* --- another version of the pipeline: renew.c --- */
/* Between two steps: goes over to the pipeline's newest edition, if the request can. What fails leaves everything as it
 * is, and is reported once. */
void cdz_loop_renew(cdz_loop *loop);

/* --- drafts: loop_draft.c --- */
cdz_status cdz_drafter_begin(cdz_loop *loop);
void cdz_drafter_end(cdz_loop *loop);

/* --- states of rows: row_state.c --- */
enum { CDZ_MARK_EVERY = 64 }; /* generated tokens between two marks of a row */
cdz_status cdz_row_state_mark(cdz_loop *loop, cdz_loop_row *row); /* after accept */
cdz_status cdz_row_state_rewind(cdz_loop *loop, uint32_t row);    /* to the row's present length */
/* A scratch state for ids that continue request row `row`. */
cdz_status cdz_row_state_trial(cdz_loop *loop, cdz_ids ids, uint32_t row, unsigned char *state);

/* --- recording: record.c --- */
/* The best k of a row of n scores by falling score, ties by lower id; nan counts as -inf. */
void cdz_record_best(const float *row, uint32_t n, uint32_t k, int32_t *ids, float *values);
bool cdz_record_wants(const cdz_loop *loop, cdz_record_kind what); /* does record do anything? */
cdz_status cdz_record_rows(cdz_loop *loop, cdz_record_kind what, const cdz_scores *scores);
void cdz_record_token(cdz_loop *loop, uint32_t row, int32_t token);
void cdz_record_close(cdz_loop *loop); /* tokens that no row of the step chose were appended */
void cdz_record_rewind(cdz_loop *loop, uint32_t n);
void cdz_record_drop_open(cdz_loop *loop); /* the step that was recorded and came to no token */

/* --- hidden states and attentions: states.c --- */
cdz_status cdz_states_note(cdz_loop *loop, cdz_recorded_step *step); /* what the rows hold at it */
cdz_status cdz_states_replay(cdz_loop *loop);                        /* once the strategy is done */
cdz_status cdz_states_of_sources(cdz_task *task);                    /* before they are encoded */
void cdz_states_drop_unread(cdz_task *task); /* those of sources that no pass has read */

/* --- prompts without a strategy: loop_prompt.c --- */
cdz_status cdz_loop_read_prompts(cdz_loop *loop); /* modes logits and score */

/* --- the host table: host_table.c --- */
/* The step of a call on plugin within loop; rows and state are the caller's to fill. */
cdz_step cdz_step_for(cdz_scope *scope, const void *params, void *shared);
const void *cdz_tokenizer_extension(void); /* tokenizer_ext.c */

#endif
