/* rows.h - the rows of a request, and what it takes to show them to plugins.
 *
 * A loop has one cdz_rows for its life; a trial makes one up. Strategies change the rows through verbs, stages
 * (stages.h) look at them through views. Not here: row states, which are of the stages and go when these do.
 * Invariant: a row that is skipped is filled with pad, and such a row has ended. Thread: [engine], on the loop's fibre; workers[t] is the t-th task's of
 * a row-wise stage. */
#ifndef CDZ_HOST_RUN_STAGES_ROWS_H
#define CDZ_HOST_RUN_STAGES_ROWS_H

#include "base/mutex.h"
#include "base/rest.h"
#include "base/scratch.h"
#include "call/guard.h"
#include "call/host.h"
#include "run/pass/away.h"
#include "run/pass/model.h"
#include "run/pass/sequence.h"
#include "run/stages/berth.h"
#include "vec/fused.h"

/* What stages may take in begin, and what a strategy may take in run. */
#define CDZ_REQUEST_ARENA ((size_t)1 << 30)

enum { CDZ_ROW_WORKERS = 16 }; /* at most; row-wise stages run on as many threads */

struct cdz_insertion {
    cdz_span span;
    bool counts; /* to the request's length */
};

/* Of a row's new tokens those that the model did not write, in order. */
typedef struct cdz_insertions {
    struct cdz_insertion *at; /* (cap) in the request's arena */
    uint32_t n, cap;
    uint32_t n_uncounted; /* tokens */
} cdz_insertions;

typedef struct cdz_request_row {
    cdz_seq *seq, *spare; /* spare: where reorder builds the next generation */
    cdz_insertions inserted, spare_inserted;
    uint32_t n_committed; /* new tokens that stay */
    bool done;            /* ended */
    bool pads;            /* and filled with pad from then on */
    bool skip;            /* and nothing is computed for it any more */
    cdz_stop stop;
    uint32_t n_new;     /* when done: tokens up to and including the last one that counts */
    uint32_t n_emitted; /* given to on_tokens */
} cdz_request_row;

/* What one thread of a row-wise stage needs for itself. */
typedef struct cdz_row_worker {
    cdz_scratch_mem scratch;
    cdz_error error;
    cdz_call call;                    /* its newest apply */
    uint64_t fusings[CDZ_FUSE_KINDS]; /* rows that could be fused, by how that went */
    cdz_rest rest;                    /* rows to leave out, after one with too many survivors */
} cdz_row_worker;

/* Rows that plugins look at: the request's own, or made-up continuations of them. */
typedef struct cdz_view {
    uint32_t n;
    cdz_ids *ids;           /* (n) */
    uint32_t *rows;         /* (n) request row of each */
    unsigned char **states; /* (n) row states; entries NULL when nothing has state */
} cdz_view;

/* A matrix the strategy may hand back to us. */
typedef struct cdz_matrix {
    uint64_t id;
    float *data;
    uint32_t n_rows, n_vocab, cap_rows;
    float *spare; /* as much memory again, for when a processor keeps data; or NULL */
} cdz_matrix;

/* Processors that keep the memory of the scores they are shown (ext/scores.h). */
typedef struct cdz_keeping {
    bool may;           /* the request's loop finds scores that have moved */
    bool asked;         /* and a processor wants to */
    cdz_matrix *of;     /* in a call of the stages: what its scores are rows of; else NULL */
    cdz_scores *scores; /* those, as the stages know them */
} cdz_keeping;

/* A text of a stop, for as long as the request lives. */
typedef struct cdz_kept_text {
    const struct cdz_kept_text *next;
    const char *at;
    uint32_t len;
} cdz_kept_text;

typedef struct cdz_row_text cdz_row_text; /* text_ext.c */
typedef struct cdz_watcher cdz_watcher;   /* watch.c */

/* Observers, and rows as they were before the processors, or before one of them. */
typedef struct cdz_watching {
    cdz_watcher *all; /* (n) */
    uint32_t n;
    cdz_matrix logits_seen, stage_seen;
    cdz_scratch_mem scratch;
} cdz_watching;

typedef struct cdz_rows {
    const cdz_berth *berth;
    cdz_run_model *model, *assistant; /* in a trial one without weights; or NULL */
    const cdz_job_model *others;      /* (n_others) further models, by name */
    uint32_t n_others;
    const cdz_host *host; /* what plugins get as step->host */

    cdz_request_info info;
    cdz_generation config;   /* the plan's, with what preparation resolved */
    bool gives_decoder_mask; /* the request has a decoder_attention_mask */
    bool holds_text;         /* tokens may be taken back: nothing is told of a row until it ended */
    uint32_t n, n_vocab;
    cdz_request_row *at; /* (n) */
    cdz_away away;       /* where forward's scores of them may be instead; of the model's device */

    cdz_arena arena; /* for as long as the request lives */
    cdz_error error; /* the newest sentence, whoever said it */
    const cdz_kept_text *texts;
    uint64_t next_matrix;

    cdz_row_worker *workers; /* (n_workers) */
    uint32_t n_workers;
    cdz_scratch_mem verb_scratch;
    cdz_keeping keeping;
    cdz_view view; /* room for view_cap rows */
    uint32_t view_cap;
    void **state_view;    /* (view_cap) one stage's pointers */
    uint32_t *phase_view; /* (view_cap) the bit of each row's phase, where phases are told */
    cdz_watching watch;
    cdz_mutex text_lock;
    cdz_row_text *row_texts; /* (n) what plugins asked of; NULL: nobody has */
    uint64_t text_work;      /* bytes that were added to them, or copied out of them, so far */
} cdz_rows;

/* Room for n rows of n_vocab scores, and for workers to look at them; zeroed before. False: out of memory; to be closed
 * either way. */
bool cdz_rows_open(cdz_rows *rows, uint32_t n, uint32_t n_workers);
void cdz_rows_free_texts(cdz_rows *rows); /* text_ext.c */
void cdz_rows_close(cdz_rows *rows);      /* but for sequences, and memory of devices */

static inline cdz_status cdz_rows_nomem(cdz_rows *rows)
{
    return cdz_err_memory(&rows->error, "the request");
}
static inline void cdz_rows_log(const cdz_rows *rows, cdz_log_level level, const char *plugin,
                                const char *text)
{
    cdz_berth_log(rows->berth, level, plugin, text);
}
static inline bool cdz_row_runs(const cdz_rows *rows, uint32_t row) /* not skipped */
{
    return !rows->at[row].skip;
}
static inline bool cdz_row_pads(const cdz_rows *rows, uint32_t row)
{
    return rows->at[row].pads;
}
static inline cdz_ids cdz_row_ids(const cdz_request_row *row)
{
    return (cdz_ids){row->seq->ids, row->seq->n};
}

/* How a call of a plugin went; the sentence lands in rows->error. */
cdz_status cdz_rows_judge(cdz_rows *rows, const cdz_call *call, cdz_status returned,
                          const cdz_error *said);
/* Of a call that cannot fail: what it did to the thread goes to the log. */
void cdz_rows_complain(const cdz_rows *rows, const cdz_call *call);

bool cdz_rows_room(cdz_rows *rows, uint32_t n); /* in the view. False: out of memory */
/* View row i is filled with pad; and nothing is computed for it. */
bool cdz_view_pads(const cdz_rows *rows, const cdz_view *view, uint32_t i);
bool cdz_view_skips(const cdz_rows *rows, const cdz_view *view, uint32_t i);

cdz_status cdz_matrix_fit(cdz_rows *rows, cdz_matrix *m, uint32_t n_rows, uint32_t n_vocab);
/* Sees to the spare memory of one that has none. */
cdz_status cdz_matrix_spare(cdz_rows *rows, cdz_matrix *m);
cdz_scores cdz_matrix_scores(const cdz_matrix *m);
void cdz_matrix_free(const cdz_rows *rows, cdz_matrix *m);

#endif
