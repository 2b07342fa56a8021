/* dry_run.c - the canned row: stages are begun, called and ended as in a request. */
#include "run/dry_run.h"

#include <math.h>

#include "run/bare_loop.h"

enum { N_PROMPT = 4, N_STEPS = 2, N_VOCAB = 256 };

/* One processor on the row. A companion's logits are a pass of the model's: its processor is not asked. */
static cdz_status try_processor(cdz_bare *t, cdz_stage *stage)
{
    cdz_loop *loop = t->loop;
    const uint32_t n = loop->n_vocab;
    if (stage->instance->offers.companion) return CDZ_OK;
    cdz_scores scores = {.data = t->scores, .n_rows = 1, .n_vocab = n, .stride = n};
    uint32_t nans = 0;
    for (uint32_t i = 0; i < n; i++) nans += isnan(t->scores[i]) != 0;
    cdz_stage *const all = loop->processors;
    const uint32_t n_all = loop->n_processors;
    loop->processors = stage; /* the stages of the call are this one */
    loop->n_processors = 1;
    const cdz_status status = cdz_stages_process(loop, cdz_bare_look(t), &scores, NULL);
    loop->processors = all;
    loop->n_processors = n_all;
    CDZ_TRY(status);
    for (uint32_t i = 0; i < n; i++)
        if (isnan(t->scores[i]) && nans == 0)
            return cdz_err(&loop->error, CDZ_E_PLUGIN, "%s: apply made a NaN of a row of numbers",
                           stage->plugin->id);
    return CDZ_OK;
}

/* As a step of a request goes: processors, a token, stop rules. */
static cdz_status step(cdz_bare *t)
{
    cdz_loop *loop = t->loop;
    for (uint32_t i = 0; i < loop->n_vocab; i++)
        t->scores[i] = -0.25F * (float)((i * 7919u + t->shown.len) % 61u);
    for (uint32_t s = 0; s < loop->n_processors; s++)
        CDZ_TRY(try_processor(t, &loop->processors[s]));
    t->shown.len++;
    CDZ_TRY(cdz_stages_accept(loop, t->shown, 0, loop->rows[0].state, t->ids[t->shown.len - 1]));
    cdz_stop stop = {0};
    cdz_scratch_reset(&loop->verb_scratch);
    return cdz_stages_test(loop, cdz_bare_look(t), &stop);
}

static cdz_status run(cdz_bare *t)
{
    cdz_loop *loop = t->loop;
    CDZ_TRY(cdz_stages_begin(loop));
    loop->teller = NULL; /* every processor is tried, whatever its phase */
    if (loop->state_bytes) {
        loop->rows[0].state = cdz_arena_alloc(&loop->stage_arena, loop->state_bytes);
        if (!loop->rows[0].state) return cdz_loop_nomem(loop);
    }
    for (int i = 0; i < N_STEPS; i++) CDZ_TRY(step(t));
    return CDZ_OK;
}

cdz_status cdz_dry_run(cdz_plan *plan, cdz_run_model *model, cdz_error *err)
{
    cdz_bare t;
    cdz_status st = CDZ_E_NOMEM;
    if (cdz_bare_open(&t, plan, model, N_VOCAB, N_PROMPT, N_STEPS)) {
        st = run(&t);
        cdz_stages_end(t.loop);
        if (st != CDZ_OK) cdz_err(err, st, "%s", t.loop->error.text);
    } else {
        cdz_err(err, st, "out of memory for the trial run");
    }
    cdz_bare_close(&t);
    return st;
}
