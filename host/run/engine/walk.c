/* walk.c - what the engine promises of its own state between two ticks, looked at after each one in checked
 * builds: the queue and the running tasks, with their loops and their line, who holds which block of KV memory, which of
 * them are found again, and the constraints that are kept.
 *
 * Owns nothing. Thread: [engine]; of what the lock guards only this thread takes anything away, so the lists stand. */
#include "base/assert.h"
#include "run/engine/engine_parts.h"

#ifdef CDZ_CHECKED

/* --- blocks ---------------------------------------------------------------------------------------------------- */

static void count_seq(void *model, const cdz_seq *seq)
{
    if (seq->model != model) return;
    cdz_seq_check(seq);
    cdz_kv_census_blocks(seq->account, seq->blocks, cdz_seq_own_blocks(seq));
    if (seq->n_spans) cdz_kv_census_blocks(seq->account->spans, seq->spans, seq->n_spans);
    if (seq->has_state) cdz_kv_census_blocks(seq->account->states, &seq->state, 1);
    for (uint32_t i = 0; i < seq->n_marks; i++)
        cdz_kv_census_blocks(seq->account->states, &seq->marks[i].state, 1);
}

static void count_sources(cdz_run_model *model, const cdz_task *task)
{
    const bool own = task->job->model == model;
    const cdz_encoded *sources = own ? task->sources : task->assistant_sources;
    if (!own && task->job->assistant != model) return;
    for (uint32_t i = 0; sources && i < task->job->n_prompts; i++)
        cdz_kv_census_blocks(sources[i].account, sources[i].blocks, sources[i].n_blocks);
}

static void count_account(const cdz_run_model *model, const cdz_kv_account *account)
{
    if (account->pool == model->pool) cdz_kv_census_account(account);
    if (account->pool == model->pool && account->spans) cdz_kv_census_account(account->spans);
    if (account->pool == model->pool && account->states) cdz_kv_census_account(account->states);
}

static void count_model(const cdz_engine *engine, cdz_run_model *model)
{
    cdz_kv_census_begin(model->pool);
    if (model->states) cdz_kv_census_begin(model->states);
    for (cdz_packed_pool *at = model->packed; at; at = at->next) cdz_kv_census_begin(at->pool);
    for (const cdz_task *task = engine->running; task; task = task->next) {
        count_account(model, &task->target);
        count_account(model, &task->assistant);
        for (uint32_t i = 0; i < task->job->n_others; i++)
            count_account(model, &task->others[i].account);
        count_sources(model, task);
        for (uint32_t i = 0; i < task->n_loops; i++)
            cdz_loop_visit(task->loops[i], count_seq, model);
    }
    for (const cdz_kept *kept = engine->kept; kept; kept = kept->next) {
        count_account(model, &kept->account);
        for (uint32_t i = 0; i < kept->n; i++) count_seq(model, &kept->seqs[i]);
    }
    cdz_kv_census_end(model->pool);
    if (model->states) cdz_kv_census_end(model->states);
    for (const cdz_packed_pool *at = model->packed; at; at = at->next) cdz_kv_census_end(at->pool);
}

/* Whoever opens a model puts it in front; those behind the first stay where they are. */
static cdz_run_model *newest_model(cdz_engine *engine)
{
    cdz_mutex_lock(&engine->lock);
    cdz_run_model *newest = engine->models;
    cdz_mutex_unlock(&engine->lock);
    return newest;
}

typedef struct total {
    uint64_t committed, resting; /* bytes */
} total;

static void add_pool(const cdz_kv_pool *pool, total *all)
{
    if (!pool) return;
    all->committed += cdz_kv_pool_committed(pool);
    all->resting += cdz_kv_pool_counts(pool).resting * cdz_kv_pool_block_bytes(pool);
}

static void check_memory(cdz_engine *engine)
{
    total all = {0};
    for (cdz_run_model *model = newest_model(engine); model; model = model->next) {
        if (!model->pool) continue;
        count_model(engine, model);
        add_pool(model->pool, &all);
        add_pool(model->states, &all);
        for (const cdz_packed_pool *at = model->packed; at; at = at->next) add_pool(at->pool, &all);
    }
    cdz_assert(all.committed == engine->budget.committed && all.resting == engine->budget.resting);
}

/* --- constraints ------------------------------------------------------------------------------------------------ */

static void check_constraints(cdz_engine *engine)
{
    for (const cdz_task *task = engine->running; task; task = task->next)
        for (uint32_t i = 0; i < task->job->n_constraints; i++)
            cdz_constraint_check(task->job->constraints[i]);
}

/* --- lists ----------------------------------------------------------------------------------------------------- */

/* A request whose blocks were taken has none, and none of its loops goes on. */
static void check_parked(const cdz_task *task)
{
    if (!task->parked) return;
    cdz_assert(task->yields && task->target.used == 0 && task->assistant.used == 0);
    for (uint32_t i = 0; i < task->job->n_others; i++)
        cdz_assert(task->others[i].account.used == 0);
    for (uint32_t i = 0; i < task->n_loops; i++)
        cdz_assert(task->loops[i]->lacks || cdz_fibre_ended(task->loops[i]->fibre));
}

/* The line of the next pass has each that runs, once: as many as run, with an end. */
static void check_line(const cdz_engine *engine)
{
    uint32_t n = 0;
    for (const cdz_task *task = engine->referee.first; task; task = task->after, n++)
        cdz_assert(task->life == CDZ_TASK_RUNNING && n < engine->n_running);
    cdz_assert(n == engine->n_running);
}

static void check_running(const cdz_engine *engine)
{
    uint32_t n = 0, n_paused = 0;
    for (const cdz_task *task = engine->running; task; task = task->next, n++) {
        uint32_t n_ended = 0;
        n_paused += task->paused;
        cdz_assert(task->life == CDZ_TASK_RUNNING && task->loops);
        for (uint32_t i = 0; i < task->n_loops; i++) {
            cdz_loop_check_promises(task->loops[i]);
            n_ended += cdz_fibre_ended(task->loops[i]->fibre);
        }
        cdz_assert(n_ended == task->n_ended && n_ended < task->n_loops);
        check_parked(task);
    }
    cdz_assert(n == engine->n_running && n <= 2 * engine->max_running);
    cdz_assert(n_paused == engine->n_paused && engine->n_away <= n_paused);
}

static void check_queue(cdz_engine *engine)
{
    uint32_t n = 0;
    cdz_mutex_lock(&engine->lock);
    cdz_task *const *end = &engine->queue;
    for (; *end; end = &(*end)->next, n++) {
        cdz_assert((*end)->life == CDZ_TASK_QUEUED);
        /* One that has been overtaken that often is the next, and those of one answer begin together. */
        cdz_assert((*end)->overtaken < CDZ_MOST_OVERTAKEN + engine->max_running);
    }
    cdz_assert(end == engine->queue_end && n == engine->n_queued);
    cdz_mutex_unlock(&engine->lock);
}

void cdz_engine_check(cdz_engine *engine)
{
    cdz_assert_serves(engine);
    check_queue(engine);
    check_running(engine);
    check_line(engine);
    check_memory(engine);
    check_constraints(engine);
}

#endif
