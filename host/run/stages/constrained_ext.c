/* constrained_ext.c - "cadenza.constrained/1": asks the processors of a row which constraint they keep it in. */
#include "cadenza/ext/constrained.h"

#include "call/calls.h"
#include "run/stages/phase.h"

/* What a processor tells of a row of the request. */
static cdz_status ask(const cdz_stageset *set, cdz_rows *rows, const cdz_stage *stage, uint32_t row,
                      cdz_row_constraint *out)
{
    const cdz_ids ids = cdz_row_ids(&rows->at[row]);
    unsigned char *const state = set->states ? set->states[row].state : NULL;
    void *const own = state ? state + stage->state_at : NULL;
    cdz_scope scope = cdz_stage_scope(set, rows, stage);
    cdz_step step = cdz_step_for(&scope, stage->instance, stage->shared);
    step.n_rows = 1;
    step.input_ids = stage->caps & CDZ_NEEDS_IDS ? &ids : NULL;
    step.row_index = &row;
    step.row_state = stage->state_size ? &own : NULL;
    cdz_call call = {.scratch = scope.scratch};
    *out = (cdz_row_constraint){.size = sizeof *out};
    const cdz_status st =
        cdz_call_constrained(&call, stage->instance->offers.constrained, &step, 0, out);
    return cdz_rows_judge(rows, &call, st, scope.error);
}

static cdz_status nth(const cdz_step *step, uint32_t row, uint32_t n, cdz_row_constraint *out)
{
    const cdz_scope *scope = step->scope;
    const cdz_stageset *set = scope->present ? *scope->present : NULL;
    uint32_t phase = CDZ_IN_ALL_PHASES, before = 0;
    *out = (cdz_row_constraint){.size = sizeof *out};
    if (!set || row >= scope->rows->n)
        return cdz_fail(step, CDZ_E_STATE,
                        "constrained: it tells of the request's rows, in propose and on a strategy's "
                        "fibre");
    CDZ_TRY(cdz_phases_of_row(set, scope->rows, row, &phase));
    for (uint32_t s = 0; s < set->processors.n; s++) {
        const cdz_stage *stage = &set->processors.at[s];
        cdz_row_constraint told;
        if (!stage->instance->offers.constrained || !(stage->phases & phase)) continue;
        CDZ_TRY(ask(set, scope->rows, stage, row, &told));
        if (!told.constraint || before++ < n) continue;
        *out = told;
        break;
    }
    return CDZ_OK;
}

const void *cdz_stages_constrained(void)
{
    static const cdz_constrained_host host = {.size = sizeof host, .nth = nth};
    return &host;
}
