/* lent.h - stages on rows of a loop that is not ours: a program lends its ids and scores, a step at a time.
 *
 * The rows of the first call are the prompts of a request, which lasts as long as rows begin with them and are longer. A row
 * that goes on keeps its states; one that does not (beams changed places, a tail was taken back) has them brought to where its
 * ids are. Other rows, or the prompts again, are those of the next request: its stages are begun anew. No model's passes, so
 * no companions. Thread: [engine], but for open and free of one that was never called. */
#ifndef CDZ_HOST_RUN_STAGES_LENT_H
#define CDZ_HOST_RUN_STAGES_LENT_H

#include "cadenza/criterion.h"
#include "run/job.h"

typedef struct cdz_stage_lent cdz_stage_lent;

typedef struct cdz_stage_lent_use {
    cdz_plan *plan;       /* whose processors and criteria; owned from now on, also on failure */
    cdz_backend *backend; /* the CPU: threads for row-wise processors */
    cdz_run_model
        *model; /* whose vocabulary and tokenizer plugins see; NULL: n_vocab tokens without one */
    uint32_t n_vocab;
    void (*log)(const void *of, cdz_log_level level, const char *plugin, const char *text);
    const void *log_of;
} cdz_stage_lent_use;

typedef struct cdz_stage_lent_rows {
    const int32_t *ids; /* (n, len) */
    uint32_t n, len;
} cdz_stage_lent_rows;

cdz_status cdz_stage_lent_open(const cdz_stage_lent_use *use, cdz_stage_lent **out, cdz_error *err);
void cdz_stage_lent_free(cdz_stage_lent *lent); /* NULL is fine */

/* Edits scores, (n, n_vocab), as the processors of a request with these rows do. */
cdz_status cdz_stage_lent_process(cdz_stage_lent *lent, const cdz_stage_lent_rows *rows,
                                  float *scores, cdz_error *err);
/* Asks the criteria; the newest token of each row is no prompt's. stops (n) arrive zeroed; a reason's text is valid until the
 * next call. */
cdz_status cdz_stage_lent_test(cdz_stage_lent *lent, const cdz_stage_lent_rows *rows,
                               cdz_stop *stops, cdz_error *err);

#endif
