/* phase.c - see phase.h. */
#include "run/phase.h"

#include <inttypes.h>

#include "call/calls.h"
#include "run/task.h"

void cdz_phases_begin(cdz_loop *loop)
{
    const bool told = cdz_loop_plan(loop)->n_phases && loop->n_processors &&
                      loop->processors[0].instance->offers.phase;
    loop->teller = told ? &loop->processors[0] : NULL;
}

static cdz_status judge(cdz_loop *loop, uint32_t phase)
{
    if (phase <= CDZ_MOST_PHASES || phase == CDZ_PHASE_HELD) return CDZ_OK;
    return cdz_err(&loop->error, CDZ_E_PLUGIN, "%s: of gave phase %" PRIu32 ", at most %d",
                   loop->teller->plugin->id, phase, (int)CDZ_MOST_PHASES);
}

static cdz_status ask(cdz_loop *loop, const cdz_view *view, uint32_t i, cdz_step *step,
                      uint32_t *phase)
{
    const cdz_stage *teller = loop->teller;
    void *const state = view->states[i] ? view->states[i] + teller->state_at : NULL;
    cdz_call call = {.scratch = &loop->workers[0].scratch};
    step->n_rows = 1;
    step->input_ids = &view->ids[i];
    step->row_index = &view->rows[i];
    step->row_state = teller->state_size ? &state : NULL;
    *phase = cdz_call_phase(&call, teller->instance->offers.phase, step, 0);
    CDZ_TRY(cdz_call_judge(&call, CDZ_OK, NULL, &loop->error));
    return judge(loop, *phase);
}

cdz_status cdz_phases_look(cdz_loop *loop, const cdz_view *view)
{
    if (!loop->teller) return CDZ_OK;
    const cdz_stage *teller = loop->teller;
    cdz_scope scope = {.loop = loop,
                       .plugin = teller->plugin,
                       .scratch = &loop->workers[0].scratch,
                       .error = &loop->workers[0].error,
                       .stage = teller};
    cdz_step step = cdz_step_for(&scope, teller->instance->params, teller->shared);
    for (uint32_t i = 0; i < view->n; i++) {
        uint32_t phase;
        CDZ_TRY(ask(loop, view, i, &step, &phase));
        loop->phase_view[i] = phase == CDZ_PHASE_HELD ? CDZ_IN_HELD_ROWS : 1u << phase;
    }
    return CDZ_OK;
}
