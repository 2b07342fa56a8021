/* bare_loop.c - see bare_loop.h. */
#include "run/bare_loop.h"

#include <stdlib.h>

/* What a request would resolve; see loop.c. */
static bool describe(cdz_bare *t)
{
    cdz_loop *loop = t->loop;
    const cdz_generation *g = &t->job.plan->generation;
    cdz_generation *config = &loop->config;
    *config = *g;
    config->max_length = (cdz_opt_int){t->job.max_length, true};
    config->min_length = (cdz_opt_int){0, true};
    if (!config->seed.set) config->seed = (cdz_opt_int){0, true};
    int32_t *eos = cdz_arena_array(&loop->arena, g->eos_token_id.len, sizeof *eos);
    if (!eos) return false;
    for (uint32_t i = 0; i < g->eos_token_id.len; i++) eos[i] = (int32_t)g->eos_token_id.at[i];
    loop->info = (cdz_request_info){
        .size = sizeof(cdz_request_info),
        .n_prompts = 1,
        .n_rows = 1,
        .prompt_len = t->job.prompt_len,
        .n_vocab = loop->n_vocab,
        .max_length = t->job.max_length,
        .context = t->job.max_length,
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

bool cdz_bare_open(cdz_bare *t, cdz_plan *plan, cdz_run_model *model, uint32_t n_vocab,
                   uint32_t n_prompt, uint32_t n_steps)
{
    cdz_loop *loop = calloc(1, sizeof *loop);
    const uint32_t n_ids = n_prompt + n_steps;
    *t = (cdz_bare){.loop = loop};
    if (!loop) return false;
    t->job = (cdz_job){.plan = plan,
                       .model = model ? model : &t->bare,
                       .n_prompts = 1,
                       .n_rows = 1,
                       .prompt_len = n_prompt,
                       .max_length = n_ids,
                       .pad = -1,
                       .bos = -1};
    t->task = (cdz_task){.job = &t->job};
    loop->task = &t->task;
    loop->job = &t->job;
    loop->model = t->job.model;
    loop->n_rows = loop->n_open = loop->n_workers = 1;
    loop->n_vocab = model ? model->weights->arch.n_vocab : n_vocab;
    loop->arena.limit = loop->stage_arena.limit = CDZ_LOOP_ARENA;
    loop->workers = cdz_arena_array(&loop->arena, 1, sizeof *loop->workers);
    loop->rows = cdz_arena_array(&loop->arena, 1, sizeof *loop->rows);
    t->scores = cdz_arena_array(&loop->arena, loop->n_vocab, sizeof *t->scores);
    t->ids = cdz_arena_array(&loop->arena, n_ids, sizeof *t->ids);
    if (!loop->workers || !loop->rows || !t->scores || !t->ids) return false;
    for (uint32_t i = 0; i < n_ids; i++) t->ids[i] = (int32_t)(i % loop->n_vocab);
    t->prompt = t->shown = (cdz_ids){t->ids, n_prompt};
    return cdz_loop_view(loop, 1) && describe(t);
}

void cdz_bare_close(cdz_bare *t)
{
    cdz_loop *loop = t->loop;
    if (!loop) return;
    if (loop->workers) cdz_scratch_free(&loop->workers[0].scratch);
    cdz_scratch_free(&loop->verb_scratch);
    free(loop->view.ids);
    free(loop->view.rows);
    free(loop->view.states);
    free(loop->state_view);
    free(loop->phase_view);
    cdz_arena_free(&loop->stage_arena);
    cdz_arena_free(&loop->arena);
    free(loop);
}

cdz_view *cdz_bare_look(cdz_bare *t)
{
    cdz_view *view = &t->loop->view;
    view->n = 1;
    view->ids[0] = t->shown;
    view->rows[0] = 0;
    view->states[0] = t->loop->rows[0].state;
    return view;
}
