/* trial.c - a made-up row that stages may look at, and the facts of the request that it would be of.
 *
 * Owns: all of it. Not: what is done with the row (dry_run.c, plan_report.c). Thread: the caller's. */
#include "run/stages/trial.h"

#include <stdlib.h>

/* The plan's values as a request has them; min_length is said, whatever the plan has. */
static bool describe(cdz_stage_trial *t, const cdz_generation *g)
{
    cdz_rows *rows = &t->rows;
    rows->config = *g;
    rows->config.max_length = (cdz_opt_int){t->n_ids, true};
    rows->config.min_length = (cdz_opt_int){0, true};
    if (!g->seed.set) rows->config.seed = (cdz_opt_int){0, true};
    int32_t *eos = cdz_arena_array(&rows->arena, g->eos_token_id.len, sizeof *eos);
    if (!eos) return false;
    for (uint32_t i = 0; i < g->eos_token_id.len; i++) eos[i] = (int32_t)g->eos_token_id.at[i];
    rows->info = (cdz_request_info){
        .size = sizeof(cdz_request_info),
        .n_prompts = 1,
        .n_rows = 1,
        .prompt_len = t->n_prompt,
        .n_vocab = rows->n_vocab,
        .max_length = t->n_ids,
        .context = t->n_ids,
        .num_beams = (uint32_t)g->num_beams,
        .do_sample = g->do_sample,
        .eos = {eos, g->eos_token_id.len},
        .pad = g->pad_token_id.set ? (int32_t)g->pad_token_id.value : -1,
        .bos = g->bos_token_id.set ? (int32_t)g->bos_token_id.value : -1,
        .prompts = &t->prompt,
        .start_s = cdz_now_s(),
    };
    return true;
}

bool cdz_stage_trial_open(cdz_stage_trial *t, cdz_plan *plan, cdz_run_model *model,
                          uint32_t n_vocab, uint32_t n_prompt, uint32_t n_steps)
{
    static const cdz_host host = CDZ_HOST_WITH(cdz_stage_extension);
    cdz_rows *rows = &t->rows;
    *t = (cdz_stage_trial){.n_prompt = n_prompt, .n_ids = n_prompt + n_steps};
    rows->berth = &t->berth;
    rows->host = &host;
    rows->model = model ? model : &t->bare;
    rows->n_vocab = model ? model->weights->arch.n_vocab : n_vocab;
    t->set = cdz_stageset_new(plan, false, 1);
    if (!t->set || !cdz_rows_open(rows, 1, 1)) return false;
    t->scores = cdz_arena_array(&rows->arena, rows->n_vocab, sizeof *t->scores);
    t->ids = cdz_arena_array(&rows->arena, t->n_ids, sizeof *t->ids);
    if (!t->scores || !t->ids) return false;
    for (uint32_t i = 0; i < t->n_ids; i++) t->ids[i] = (int32_t)(i % rows->n_vocab);
    t->prompt = t->shown = (cdz_ids){t->ids, n_prompt};
    return describe(t, &plan->generation);
}

cdz_status cdz_stage_trial_begin(cdz_stage_trial *t)
{
    CDZ_TRY(cdz_stages_begin(t->set, &t->rows));
    return cdz_stage_states_make(t->set, &t->rows);
}

void cdz_stage_trial_close(cdz_stage_trial *t)
{
    if (t->set) cdz_stages_end(t->set, &t->rows);
    cdz_stageset_free(t->set);
    cdz_rows_close(&t->rows);
}

cdz_view *cdz_stage_trial_look(cdz_stage_trial *t)
{
    cdz_view *view = &t->rows.view;
    view->n = 1;
    view->ids[0] = t->shown;
    view->rows[0] = 0;
    view->states[0] = t->set->states[0].state;
    return view;
}
