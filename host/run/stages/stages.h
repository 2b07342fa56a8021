/* stages.h - the stages of a request: what of its plan watches or edits a row, and the states that it has of each row.
 *
 * All that one edition of a pipeline gave a request is one cdz_stageset. A hot reload builds the next one beside it and
 * swaps a pointer (renew.c). A stage knows its set and the rows (rows.h); no loop, no task, no pass of its own.
 * Invariant: state_at + state_size <= state_bytes of each stage; it is begun before its apply, and never called after
 * its end. Thread: [engine], on the loop's fibre, but for row-wise processors, which may be sent to the threads of the
 * backend. */
#ifndef CDZ_HOST_RUN_STAGES_STAGES_H
#define CDZ_HOST_RUN_STAGES_STAGES_H

#include "cadenza/ext/form.h"
#include "run/stages/rows.h"

/* A processor or criterion that is not idle for this request. */
typedef struct cdz_stage {
    const cdz_instance *instance;
    const cdz_plugin_base *plugin;
    uint32_t caps;
    size_t state_at; /* of its bytes in a row's state */
    uint32_t state_size;
    const struct cdz_state_api *state_api; /* "cadenza.state/1", or NULL: plain bytes */
    bool row_wise;                         /* may run on any thread, row by row */
    bool sees_ended;                       /* rows that are filled with pad too */
    bool begun;
    bool hears; /* has accept */
    bool deaf; /* not told of tokens just now: its states are carried over from another version (renew.c) */
    uint32_t state_version;
    cdz_form form;   /* what a processor does, where it says so (fuse.h) */
    uint32_t phases; /* bit n is set when it runs in phase n */
    bool of_phase;   /* hears of tokens of its phases alone */
    void *shared;
    uint32_t companion; /* number of its companions, from 1; 0: none */
} cdz_stage;

/* Stages in the order they run. */
typedef struct cdz_stage_chain {
    cdz_stage *at; /* (n) */
    uint32_t n;
} cdz_stage_chain;

/* What the stages have of a request row. */
typedef struct cdz_stage_states {
    unsigned char *state, *spare; /* spare: where reorder builds the next generation */
    unsigned char *marks;         /* states after every CDZ_MARK_EVERY generated tokens */
    uint32_t n_marks, marks_cap;
} cdz_stage_states;

typedef struct cdz_companions cdz_companions; /* companion.c */

/* Logits of sequences that run beside the rows, for the present call: made by whoever runs the passes. */
typedef struct cdz_shown {
    const float **at; /* (n_stages, n_rows) by companion number and view row; entries NULL: none */
    uint32_t n_rows;
} cdz_shown;

typedef struct cdz_stageset {
    const cdz_plan *plan; /* what the stages are of */
    cdz_plan *owned;      /* the same, where it goes with the set; else NULL */
    cdz_arena arena;      /* what they took in begin, states of rows */
    cdz_stage_chain processors, criteria;
    cdz_stage_chain *derived; /* what a strategy asked for: copies that share state and begin */
    cdz_stage_states *states; /* (rows->n) */
    size_t state_bytes;       /* of a row */
    bool has_eos;
    bool computes_ended;        /* some stage sees the scores of ended rows */
    bool asks_of_ended;         /* some criterion is asked about them */
    bool owned_states;          /* some stage's state is more than bytes */
    bool accepts;               /* some stage wants to be told of tokens */
    bool some_of_phase;         /* some stage hears of a phase's tokens alone */
    const cdz_stage *teller;    /* the processor that tells phases; NULL: there are none */
    cdz_companions *companions; /* NULL: no stage has any */
    cdz_shown shown;
    unsigned char *trial_states; /* (trial_cap) states of made-up rows */
    size_t trial_cap;
    uint32_t n_rows;
} cdz_stageset;

/* What a plugin call may use; step->scope points to one. */
typedef struct cdz_scope {
    const cdz_caller *caller; /* first: where the host's functions find it; cdz_step_for sets it */
    cdz_rows *rows;
    const cdz_stageset *set; /* NULL: not a stage's call */
    /* Of calls that the rows' states stand still for: the set that the loop has now; else NULL. */
    cdz_stageset *const *present;
    const cdz_plugin_base *plugin;
    const cdz_instance *instance; /* of that plugin; cdz_step_for sets it */
    cdz_scratch_mem *scratch;
    cdz_error *error; /* where fail writes; code CDZ_OK: nothing said yet */
    bool may_alloc;
    cdz_arena *arena;       /* where alloc takes from; NULL: the request's */
    const cdz_stage *stage; /* in apply: whose call this is, and the view row it begins with; else NULL */
    uint32_t first;
} cdz_scope;

/* Where what a call leaves behind is taken from. */
static inline cdz_arena *cdz_scope_arena(const cdz_scope *scope)
{
    return scope->arena ? scope->arena : &scope->rows->arena;
}

typedef struct cdz_drawn cdz_drawn; /* fuse.h */

/* --- life: stages.c --- */
/* None yet, of a plan, for n rows. owned: the plan goes with the set, now too if there is no memory for one (NULL). */
cdz_stageset *cdz_stageset_new(cdz_plan *plan, bool owned, uint32_t n_rows);
void cdz_stageset_free(cdz_stageset *set); /* ended, and without companions; NULL is fine */
/* Begins the plan's stages, those that are not idle. Companions are begun apart. */
cdz_status cdz_stages_begin(cdz_stageset *set, cdz_rows *rows);
void cdz_stages_end(cdz_stageset *set, cdz_rows *rows); /* those that were begun */

/* --- steps: stages.c --- */
/* Runs processors of the set on view rows; score row of view row i is scores row i. drawn: NULL, or (view->n): rows that
 * may become lists instead of scores, and those that are. */
cdz_status cdz_stages_process(cdz_stageset *set, const cdz_stage_chain *chain, cdz_rows *rows,
                              const cdz_view *view, cdz_scores *scores, cdz_drawn *drawn);
/* The first n of them on one row, on worker 0. False: one failed; nothing is said of it. */
bool cdz_stages_try(cdz_stageset *set, cdz_rows *rows, const cdz_view *view,
                    const cdz_scores *scores, uint32_t row, uint32_t n);
/* Tells every stage of a token; ids already hold it. state: the row's. */
cdz_status cdz_stages_accept(cdz_stageset *set, cdz_rows *rows, cdz_ids ids, uint32_t row,
                             unsigned char *state, int32_t token);
/* Asks every criterion; stops arrive zeroed. */
cdz_status cdz_stages_test(cdz_stageset *set, cdz_rows *rows, const cdz_view *view, cdz_stop *stops);
/* Replays accept from a row state at length `from` to the whole of ids. */
cdz_status cdz_stages_replay(cdz_stageset *set, cdz_rows *rows, cdz_ids ids, uint32_t from,
                             uint32_t row, unsigned char *state);
/* Fills the view with request rows [first, first + n). */
void cdz_stages_look(const cdz_stageset *set, cdz_rows *rows, uint32_t first, uint32_t n);
/* Logits of a stage's companion of a view row; NULL: there are none. */
const float *cdz_stages_shown_logits(const cdz_stageset *set, const cdz_stage *stage, uint32_t at);

/* --- states of rows: row_state.c --- */
enum { CDZ_MARK_EVERY = 64 }; /* generated tokens between two marks of a row */
/* Those of all rows, zero bytes. */
cdz_status cdz_stage_states_make(cdz_stageset *set, cdz_rows *rows);
/* Builds the next generation of a row's beside it, a copy of its parent's; and puts that in its place. */
cdz_status cdz_stage_state_breed(cdz_stageset *set, cdz_rows *rows, uint32_t row, uint32_t parent);
void cdz_stage_state_swap(cdz_stageset *set, uint32_t row);
cdz_status cdz_stage_state_mark(cdz_stageset *set, cdz_rows *rows, uint32_t row); /* after accept */
/* To the row's present length. */
cdz_status cdz_stage_state_rewind(cdz_stageset *set, cdz_rows *rows, uint32_t row);
/* A scratch state for each row of a view of made-up rows, brought to where its ids are. */
cdz_status cdz_stage_states_trial(cdz_stageset *set, cdz_rows *rows, const cdz_view *view);
/* `to`, which holds a state or zero bytes, becomes a copy of `from`; NULL: a fresh row's. Not the same place. */
cdz_status cdz_stage_state_copy(cdz_stageset *set, cdz_rows *rows, unsigned char *to,
                                const unsigned char *from);
/* Gives up what the stage's state_size bytes own, and zeroes them. Of stages with a state_api. */
void cdz_stage_state_drop(cdz_rows *rows, const cdz_stage *stage, const cdz_step *step, void *state);

/* --- the host table: host_table.c --- */
/* The scope of a call of a stage on the engine's thread, with the first worker's scratch memory and sentence. */
cdz_scope cdz_stage_scope(const cdz_stageset *set, cdz_rows *rows, const cdz_stage *stage);
/* The step of a call on plugin; rows and state are the caller's to fill. */
cdz_step cdz_step_for(cdz_scope *scope, const cdz_instance *instance, void *shared);
const void *cdz_stage_extension(const char *id); /* tables that any plugin of a request may ask for */
const void *cdz_stages_tokenizer(void);          /* tokenizer_ext.c */
const void *cdz_stages_inserted(void);           /* inserted_ext.c */
const void *cdz_stages_text(void);               /* text_ext.c */
const void *cdz_stages_trace(void);              /* trace_ext.c */
const void *cdz_stages_scores(void);             /* scores_ext.c */
const void *cdz_stages_grammar(void);            /* grammar_ext.c */
const void *cdz_stages_constrained(void);        /* constrained_ext.c */

#endif
