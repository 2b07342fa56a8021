/* run_support.h - the engine with golden models, and plans put together by hand from plugins that are constant data
 * of a test or real shared objects. */
#ifndef CADENZA_TEST_RUN_SUPPORT_H
#define CADENZA_TEST_RUN_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cadenza/processor.h"
#include "cadenza/strategy.h"
#include "load/safetensors.h"
#include "run/engine/engine.h"
#include "support/golden.h"
#include "support/must.h"

/* --- an engine with one or two golden models --------------------------------------------------------------- */

typedef struct rig {
    cdz_engine *engine;
    cdz_run_model *model, *assistant;
} rig;

cdz_run_model *open_model_with(cdz_engine *engine, const char *name, bool tokenizer);
cdz_run_model *open_model(cdz_engine *engine, const char *name);
rig rig_open(const char *model, cdz_engine_options options);
rig rig_of(cdz_weights *weights); /* which are taken */
void rig_close(rig *r);

/* --- plans by hand ------------------------------------------------------------------------------------------ */

enum { MAX_STAGES = 8 };

typedef struct hand_plan {
    cdz_plan plan;
    cdz_instance processors[MAX_STAGES], criteria[MAX_STAGES];
    _Alignas(16) unsigned char params[MAX_STAGES][256]; /* of processors that are added by name */
} hand_plan;

cdz_instance instance_of(const cdz_plugin_base *plugin, const void *params);
void plan_add_processor(hand_plan *p, const cdz_processor *processor, const void *params);
/* The built processor of that id, with that value for the parameter of the same name. */
void plan_add_named(hand_plan *p, const char *id, double value, bool whole);
void plan_add_criterion(hand_plan *p, const cdz_criterion *criterion, const void *params);
void plan_init(hand_plan *p, const cdz_plugin_base *strategy, const void *params);

/* A built plugin of one descriptor. Stays loaded. */
const cdz_plugin_base *built_plugin(const char *name);

/* --- stop rules of the tests' own ---------------------------------------------------------------------------- */

/* At the request's max_length, and at its eos tokens. */
extern const cdz_criterion length_rule;
extern const cdz_criterion eos_rule;

/* --- jobs ----------------------------------------------------------------------------------------------------- */

/* What came back from one request. */
typedef struct answer {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    cdz_job *job;
    cdz_outcome *outcome;
    uint64_t id;
    int32_t streamed[4][256]; /* on_tokens, the first rows */
    uint32_t n_streamed[4], n_calls;
    bool done;
} answer;

void answer_tokens(void *user, const cdz_new_tokens *tokens);
void answer_done(void *user, cdz_outcome *outcome);

/* A job of n_prompts padded rows of prompt_len ids each; masks may be NULL. The answer belongs to it. */
cdz_job *new_job(const rig *r, hand_plan *plan, const int32_t *ids, const uint8_t *masks,
                 uint32_t n_prompts, uint32_t prompt_len, uint32_t max_new, answer *a);
void submit(const rig *r, answer *a);
cdz_outcome *await(answer *a);
cdz_outcome *await_well(answer *a);
cdz_outcome *run(const rig *r, answer *a);
cdz_outcome *run_well(const rig *r, answer *a);
/* Ends the test unless both end with the same sentence, or with the same tokens in each of the rows. */
void must_be_same(const cdz_outcome *a, const cdz_outcome *b, uint32_t n_rows, const char *name);
void answer_free(answer *a);

/* The scores of all positions of a prompt, (*n) of them in all; free them. */
float *prompt_logits_of(const rig *r, const int32_t *ids, uint32_t len, size_t *n);

/* --- recorded beside a model ---------------------------------------------------------------------------------- */

/* FOLDER/NAME.safetensors, to be closed; and what a tensor of it holds. Both have to be there. */
cdz_tensors recorded_tensors(const char *folder, const char *name);
const void *recorded_tensor(const cdz_tensors *set, const char *name);
/* The weights, which are taken, give the logits that FOLDER/NAME/logits.safetensors has for its ids: within 2e-5, and that times
 * `relative` of a logit more. */
void logits_are_recorded(cdz_weights *weights, const char *folder, const char *name, float relative);

#endif
