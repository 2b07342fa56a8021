/* dry_run.c - the canned row: a loop without a model's passes, whose stages are begun, called and ended as in a request. */
#include "run/dry_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cadenza/ext/companion.h"
#include "run/task.h"

enum { N_PROMPT = 4, N_STEPS = 2, N_IDS = N_PROMPT + N_STEPS, N_VOCAB = 256 };

typedef struct trial {
    cdz_run_model bare; /* without a model */
    cdz_job job;
    cdz_task task;
    cdz_loop *loop;
    int32_t ids[N_IDS];
    cdz_ids shown, prompt;
    float *scores;
} trial;

/* What a request would resolve; see loop.c. */
static bool describe(trial *t)
{
    cdz_loop *loop = t->loop;
    const cdz_generation *g = &t->job.plan->generation;
    cdz_generation *config = &loop->config;
    *config = *g;
    config->max_length = (cdz_opt_int){N_IDS, true};
    config->min_length = (cdz_opt_int){0, true};
    if (!config->seed.set) config->seed = (cdz_opt_int){0, true};
    int32_t *eos = cdz_arena_array(&loop->arena, g->eos_token_id.len, sizeof *eos);
    if (!eos) return false;
    for (uint32_t i = 0; i < g->eos_token_id.len; i++) eos[i] = (int32_t)g->eos_token_id.at[i];
    loop->info = (cdz_request_info){
        .size = sizeof(cdz_request_info),
        .n_prompts = 1,
        .n_rows = 1,
        .prompt_len = N_PROMPT,
        .n_vocab = loop->n_vocab,
        .max_length = N_IDS,
        .context = N_IDS,
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

static bool open_trial(trial *t, cdz_plan *plan, cdz_run_model *model)
{
    cdz_loop *loop = t->loop = calloc(1, sizeof *loop);
    if (!loop) return false;
    t->bare = (cdz_run_model){0};
    t->job = (cdz_job){.plan = plan,
                       .model = model ? model : &t->bare,
                       .n_prompts = 1,
                       .n_rows = 1,
                       .prompt_len = N_PROMPT,
                       .max_length = N_IDS,
                       .pad = -1,
                       .bos = -1};
    t->task = (cdz_task){.job = &t->job};
    loop->task = &t->task;
    loop->job = &t->job;
    loop->model = t->job.model;
    loop->n_rows = loop->n_open = loop->n_workers = 1;
    loop->n_vocab = model ? model->weights->arch.n_vocab : N_VOCAB;
    loop->arena.limit = loop->stage_arena.limit = CDZ_LOOP_ARENA;
    loop->workers = cdz_arena_array(&loop->arena, 1, sizeof *loop->workers);
    loop->rows = cdz_arena_array(&loop->arena, 1, sizeof *loop->rows);
    t->scores = cdz_arena_array(&loop->arena, loop->n_vocab, sizeof *t->scores);
    for (int32_t i = 0; i < N_IDS; i++) t->ids[i] = (int32_t)((uint32_t)i % loop->n_vocab);
    t->prompt = t->shown = (cdz_ids){t->ids, N_PROMPT};
    return loop->workers && loop->rows && t->scores && cdz_loop_view(loop, 1) && describe(t);
}

static void close_trial(trial *t)
{
    cdz_loop *loop = t->loop;
    if (!loop) return;
    if (loop->workers) cdz_scratch_free(&loop->workers[0].scratch);
    cdz_scratch_free(&loop->verb_scratch);
    free(loop->view.ids);
    free(loop->view.rows);
    free(loop->view.states);
    free(loop->state_view);
    cdz_arena_free(&loop->stage_arena);
    cdz_arena_free(&loop->arena);
    free(loop);
}

static cdz_view *look(trial *t)
{
    cdz_view *view = &t->loop->view;
    view->n = 1;
    view->ids[0] = t->shown;
    view->rows[0] = 0;
    view->states[0] = t->loop->rows[0].state;
    return view;
}

/* One processor on the row. A companion's logits are a pass of the model's: its processor is not asked. */
static cdz_status try_processor(trial *t, cdz_stage *stage)
{
    cdz_loop *loop = t->loop;
    const uint32_t n = loop->n_vocab;
    if (cdz_get_companion_api(stage->plugin)) return CDZ_OK;
    cdz_scores scores = {.data = t->scores, .n_rows = 1, .n_vocab = n, .stride = n};
    uint32_t nans = 0;
    for (uint32_t i = 0; i < n; i++) nans += isnan(t->scores[i]) != 0;
    cdz_stage *const all = loop->processors;
    const uint32_t n_all = loop->n_processors;
    loop->processors = stage; /* the stages of the call are this one */
    loop->n_processors = 1;
    const cdz_status status = cdz_stages_process(loop, look(t), &scores, NULL);
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
static cdz_status step(trial *t)
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
    return cdz_stages_test(loop, look(t), &stop);
}

static cdz_status run(trial *t)
{
    cdz_loop *loop = t->loop;
    CDZ_TRY(cdz_stages_begin(loop));
    if (loop->state_bytes) {
        loop->rows[0].state = cdz_arena_alloc(&loop->stage_arena, loop->state_bytes);
        if (!loop->rows[0].state) return cdz_loop_nomem(loop);
    }
    for (int i = 0; i < N_STEPS; i++) CDZ_TRY(step(t));
    return CDZ_OK;
}

cdz_status cdz_dry_run(cdz_plan *plan, cdz_run_model *model, cdz_error *err)
{
    trial t;
    cdz_status st = CDZ_E_NOMEM;
    if (open_trial(&t, plan, model)) {
        st = run(&t);
        cdz_stages_end(t.loop);
        if (st != CDZ_OK) cdz_err(err, st, "%s", t.loop->error.text);
    } else {
        cdz_err(err, st, "out of memory for the trial run");
    }
    close_trial(&t);
    return st;
}
