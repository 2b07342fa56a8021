/* phase.c - asks the processor that tells phases where rows are: those of a view before the processors run, and a row before
 * its newest token. What it says is judged here, and becomes a bit. */
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

/* Asks where a row is, of these ids and this state. */
static cdz_status ask(const cdz_stageset *set, cdz_rows *rows, const cdz_ids *ids,
                      const uint32_t *row, unsigned char *row_state, cdz_step *step, uint32_t *bit)
{
    const cdz_stage *teller = set->teller;
    void *const state = row_state ? row_state + teller->state_at : NULL;
    cdz_call call = {.scratch = &rows->workers[0].scratch};
    step->n_rows = 1;
    step->input_ids = ids;
    step->row_index = row;
    step->row_state = teller->state_size ? &state : NULL;
    const uint32_t phase = cdz_call_phase(&call, teller->instance->offers.phase, step, 0);
    CDZ_TRY(cdz_call_judge(&call, CDZ_OK, NULL, &rows->error));
    CDZ_TRY(judge(set, rows, phase));
    *bit = phase == CDZ_PHASE_HELD ? CDZ_IN_HELD_ROWS : 1u << phase;
    return CDZ_OK;
}

cdz_status cdz_phases_look(const cdz_stageset *set, cdz_rows *rows, const cdz_view *view)
{
    if (!set->teller) return CDZ_OK;
    cdz_scope scope = cdz_stage_scope(set, rows, set->teller);
    cdz_step step = cdz_step_for(&scope, set->teller->instance, set->teller->shared);
    for (uint32_t i = 0; i < view->n; i++)
        CDZ_TRY(ask(set, rows, &view->ids[i], &view->rows[i], view->states[i], &step,
                    &rows->phase_view[i]));
    return CDZ_OK;
}

static cdz_status ask_one(const cdz_stageset *set, cdz_rows *rows, cdz_ids ids, uint32_t row,
                          unsigned char *state, uint32_t *bit)
{
    if (!set->teller) return CDZ_OK;
    cdz_scope scope = cdz_stage_scope(set, rows, set->teller);
    cdz_step step = cdz_step_for(&scope, set->teller->instance, set->teller->shared);
    return ask(set, rows, &ids, &row, state, &step, bit);
}

cdz_status cdz_phases_of_newest(const cdz_stageset *set, cdz_rows *rows, cdz_ids ids, uint32_t row,
                                unsigned char *state, uint32_t *bit)
{
    return ask_one(set, rows, (cdz_ids){ids.at, ids.len - 1}, row, state, bit);
}

cdz_status cdz_phases_of_row(const cdz_stageset *set, cdz_rows *rows, uint32_t row, uint32_t *bit)
{
    unsigned char *const state = set->states ? set->states[row].state : NULL;
    return ask_one(set, rows, cdz_row_ids(&rows->at[row]), row, state, bit);
}
