/* steering.c - edits of hidden states: what the pipeline's processors give each row, and the verb of strategies.
 *
 * Owns: nothing; sequences hold their lists (run/pass/steer.h). Rows get a processor's edits once, before their first pass: a
 * reload changes those of later requests. Copies of a row have them; sequences that a strategy makes anew, companions and an
 * assistant's have none. */
#include "call/calls.h"
#include "run/loop/loop.h"
#include "run/loop/verbs.h"

static cdz_status ask(cdz_loop *loop, const cdz_stage *stage, uint32_t r, const cdz_edit **edits,
                      uint32_t *n)
{
    const cdz_arch *arch = &loop->rows.model->weights->arch;
    cdz_scope scope = {.rows = &loop->rows,
                       .plugin = stage->plugin,
                       .scratch = &loop->rows.workers[0].scratch,
                       .error = &loop->rows.workers[0].error,
                       .may_alloc = true,
                       .arena = &loop->set->arena};
    const cdz_step step = cdz_step_for(&scope, stage->instance, stage->shared);
    const uint32_t row = loop->first_row + r;
    const cdz_steered whom = {.size = sizeof whom,
                              .row = row,
                              .prompt_index = row / (loop->job->n_rows / loop->job->n_prompts),
                              .prompt_len = cdz_seq_visible(loop->rows.at[r].seq),
                              .n_layers = arch->n_layers,
                              .width = arch->hidden};
    cdz_call call = {.scratch = scope.scratch};
    const cdz_status status =
        cdz_call_steer(&call, stage->instance->offers.steer, &step, &whom, edits, n);
    return cdz_rows_judge(&loop->rows, &call, status, scope.error);
}

static cdz_status steer_row(cdz_loop *loop, const cdz_stage *stage, uint32_t r)
{
    cdz_seq *seq = loop->rows.at[r].seq;
    const cdz_edit *edits = NULL;
    uint32_t n = 0;
    cdz_steering *all;
    CDZ_TRY(ask(loop, stage, r, &edits, &n));
    if (n == 0) return CDZ_OK;
    if (!edits)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "%s: steer tells of edits and gives none",
                             stage->plugin->id);
    if (loop->rows.model->function.forward)
        return cdz_loop_fail(loop, CDZ_E_UNSUPPORTED,
                             "%s edits hidden states: a model that is a function has none",
                             stage->plugin->id);
    CDZ_TRY(cdz_steering_make(seq->edits, edits, n, CDZ_STEERED_BY_PROCESSOR,
                              &loop->rows.model->weights->arch, stage->plugin->id, &all,
                              &loop->rows.error));
    cdz_seq_set_edits(seq, all);
    cdz_steering_release(all);
    return CDZ_OK;
}

cdz_status cdz_loop_steer(cdz_loop *loop)
{
    const cdz_stage_chain *chain = &loop->set->processors;
    for (uint32_t s = 0; s < chain->n; s++)
        for (uint32_t r = 0; chain->at[s].instance->offers.steer && r < loop->rows.n; r++)
            CDZ_TRY(steer_row(loop, &chain->at[s], r));
    return CDZ_OK;
}

cdz_status cdz_verb_seq_steer(cdz_decoder *dec, cdz_seq *seq, const cdz_edit *edits, uint32_t n)
{
    cdz_loop *loop = cdz_loop_of(dec);
    cdz_steering *all;
    CDZ_TRY(cdz_verb_enter(dec, 0));
    if (seq->model->function.forward)
        return cdz_loop_fail(loop, CDZ_E_UNSUPPORTED,
                             "seq_steer: a model that is a function has scores alone");
    CDZ_TRY(cdz_steering_make(seq->edits, edits, n, CDZ_STEERED_BY_STRATEGY,
                              &seq->model->weights->arch, "seq_steer", &all, &loop->rows.error));
    cdz_seq_set_edits(seq, all);
    cdz_steering_release(all);
    return CDZ_OK;
}
