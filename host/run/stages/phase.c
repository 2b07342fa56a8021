/* phase.c - see phase.h. */
#include "run/stages/phase.h"

#include <inttypes.h>

#include "call/calls.h"

void cdz_phases_begin(cdz_stageset *set)
{
    const bool told =
        set->plan->n_phases && set->processors.n && set->processors.at[0].instance->offers.phase;
    set->teller = told ? &set->processors.at[0] : NULL;
}

static cdz_status judge(const cdz_stageset *set, cdz_rows *rows, uint32_t phase)
{
    if (phase <= CDZ_MOST_PHASES || phase == CDZ_PHASE_HELD) return CDZ_OK;
    return cdz_err(&rows->error, CDZ_E_PLUGIN, "%s: of gave phase %" PRIu32 ", at most %d",
                   set->teller->plugin->id, phase, (int)CDZ_MOST_PHASES);
}

static cdz_status ask(const cdz_stageset *set, cdz_rows *rows, const cdz_view *view, uint32_t i,
                      cdz_step *step, uint32_t *phase)
{
    const cdz_stage *teller = set->teller;
    void *const state = view->states[i] ? view->states[i] + teller->state_at : NULL;
    cdz_call call = {.scratch = &rows->workers[0].scratch};
    step->n_rows = 1;
    step->input_ids = &view->ids[i];
    step->row_index = &view->rows[i];
    step->row_state = teller->state_size ? &state : NULL;
    *phase = cdz_call_phase(&call, teller->instance->offers.phase, step, 0);
    CDZ_TRY(cdz_call_judge(&call, CDZ_OK, NULL, &rows->error));
    return judge(set, rows, *phase);
}

cdz_status cdz_phases_look(const cdz_stageset *set, cdz_rows *rows, const cdz_view *view)
{
    if (!set->teller) return CDZ_OK;
    const cdz_stage *teller = set->teller;
    cdz_scope scope = {.rows = rows,
                       .set = set,
                       .plugin = teller->plugin,
                       .scratch = &rows->workers[0].scratch,
                       .error = &rows->workers[0].error,
                       .stage = teller};
    cdz_step step = cdz_step_for(&scope, teller->instance->params, teller->shared);
    for (uint32_t i = 0; i < view->n; i++) {
        uint32_t phase;
        CDZ_TRY(ask(set, rows, view, i, &step, &phase));
        rows->phase_view[i] = phase == CDZ_PHASE_HELD ? CDZ_IN_HELD_ROWS : 1u << phase;
    }
    return CDZ_OK;
}
