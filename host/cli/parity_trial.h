/* parity_trial.h - a recorded call of one processor or stopping criterion: the plugin, a small host for it, and the
 * case's numbers as the plugin takes them.
 *
 * A case names a class of the reference; the plugin of the parameter's name is found in the registry, like any other. */
#ifndef CDZ_HOST_CLI_PARITY_TRIAL_H
#define CDZ_HOST_CLI_PARITY_TRIAL_H

#include "cadenza/criterion.h"
#include "cadenza/processor.h"
#include "call/host.h"
#include "cli/parity.h"

/* One case being replayed: the plugin and everything it may ask its host for. */
typedef struct cdz_trial {
    const cdz_caller *caller; /* first: where the host's functions find it */
    const cdz_json *document;
    cdz_plugin_ref plugin;
    size_t class;
    cdz_arena memory;
    cdz_request_info request;
    cdz_step step;
    cdz_ids *ids;
    uint32_t row_index[CDZ_PARITY_ROWS];
    const cdz_json *token_texts;
    double now;
    uint32_t width; /* of every row of scores in the case; 0: none read yet */
    bool begun;     /* between the steps of one case */
    float *other;   /* (n_rows, n_vocab) what the model says in a companion; NULL: nothing */
    char sentence[CDZ_ERROR_TEXT];
} cdz_trial;

/* What a plugin under trial calls; cdz_step.scope is the trial. */
extern const cdz_host cdz_trial_host;
extern const cdz_caller cdz_trial_caller;

/* CDZ_E_UNSUPPORTED: no plugin for the class. To be closed either way. */
cdz_status cdz_trial_open(cdz_trial *t, cdz_registry *registry, const cdz_json *c, cdz_error *err);
void cdz_trial_close(cdz_trial *t);

/* --- calling the plugin; a status goes with t->sentence --- */
const cdz_processor *cdz_trial_processor(const cdz_trial *t); /* NULL: it is none */
const cdz_criterion *cdz_trial_criterion(const cdz_trial *t);
cdz_status cdz_trial_create(cdz_trial *t);
bool cdz_trial_idle(cdz_trial *t);
cdz_status cdz_trial_begin(cdz_trial *t);
cdz_status cdz_trial_apply(cdz_trial *t, float *scores, uint32_t n);
cdz_status cdz_trial_test(cdz_trial *t, cdz_stop *stops); /* every row of the case */

/* --- reading the case; arrays live as long as the trial --- */
cdz_status cdz_trial_params(cdz_trial *t, cdz_error *err);
/* Ids of n rows, 0: as many as there are; fewer rows in the case, or in a step of it, stand for all. */
cdz_status cdz_trial_ids(cdz_trial *t, const cdz_json *of, uint32_t n, cdz_error *err);
cdz_status cdz_trial_rows(cdz_trial *t, const cdz_json *rows, cdz_ids **out, uint32_t *n,
                          cdz_error *err);
/* of[key] as (n, t->width) scores; *out NULL where there is none. */
cdz_status cdz_trial_matrix(cdz_trial *t, const cdz_json *of, const char *key, float **out,
                            uint32_t *n, cdz_error *err);

cdz_status cdz_trial_malformed(const char *what, cdz_error *err);
cdz_status cdz_trial_unsupported(cdz_error *err);

#endif
