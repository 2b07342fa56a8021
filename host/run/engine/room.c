/* room.c - KV memory for the passes to come: who lacks blocks has them from the youngest, which computes them again.
 *
 * A request begins with the blocks of its prompt and takes the others as it grows. When there are none, the youngest one
 * that runs gives back all it has; its fibre, its random stream and its processors' states stay where they are, and its
 * sequences are computed again before its next pass, to the same bits, since a row's bits hang on nothing but the ids
 * before it. Requests of which that is not so reserve all they may need, and nothing is taken from them.
 * One always goes on: the oldest that yields has the blocks of all others that do, and those that do not have theirs. One
 * that is alone and lacks blocks is told so. Nobody begins while somebody waits.
 * A paused request asks for none, and gives its own before any that goes on, also to a younger one.
 *
 * Owns nothing. Thread: [engine]. */
#include "base/assert.h"
#include "run/engine/engine_parts.h"

bool cdz_job_yields(const cdz_job *job)
{
    const cdz_run_model *other = job->assistant;
    for (uint32_t i = 0; i < job->n_others; i++)
        if (!cdz_run_model_shares_prompts(job->others[i].model)) return false;
    return !job->model->engine->shares_nothing && !job->prompt_logits && !job->sources &&
           !job->keep_hidden && !job->keep_attentions && job->packing.bits == 0 &&
           cdz_run_model_shares_prompts(job->model) &&
           (!other || cdz_run_model_shares_prompts(other));
}

static bool goes_on(const cdz_loop *loop)
{
    return !cdz_fibre_ended(loop->fibre) && !loop->lacks;
}

/* Does anything go on, and so may give blocks back? What is paused gives them at once, or with its end. */
static bool any_goes_on(const cdz_engine *engine)
{
    for (const cdz_task *task = engine->running; task; task = task->next)
        for (uint32_t i = 0; !(task->paused && task->yields) && i < task->n_loops; i++)
            if (goes_on(task->loops[i])) return true;
    return false;
}

static bool is_short(const cdz_task *task)
{
    bool any = task->target.short_of || task->assistant.short_of;
    for (uint32_t i = 0; i < task->job->n_others; i++) any |= task->others[i].account.short_of;
    return any;
}

static void forget_short(cdz_task *task)
{
    task->target.short_of = task->assistant.short_of = false;
    for (uint32_t i = 0; i < task->job->n_others; i++) task->others[i].account.short_of = false;
}

static void park(cdz_engine *engine, cdz_task *task)
{
    if (task->parked) return;
    for (uint32_t i = 0; i < task->n_loops; i++) cdz_loop_yield(task->loops[i]);
    cdz_kv_trim(&task->target);
    cdz_kv_trim(&task->assistant);
    for (uint32_t i = 0; i < task->job->n_others; i++) cdz_kv_trim(&task->others[i].account);
    task->parked = true;
    engine->now.preemptions++;
}

/* From the youngest of a list that is paused, or of all; NULL is an empty list. False: there is none. */
static bool take_from(cdz_engine *engine, cdz_task *list, bool paused)
{
    cdz_task *youngest = NULL;
    for (cdz_task *task = list; task; task = task->next)
        if (task->yields && !task->parked && (task->paused || !paused)) youngest = task;
    if (youngest) park(engine, youngest);
    return youngest;
}

bool cdz_engine_take_paused(cdz_engine *engine)
{
    return engine->n_paused && take_from(engine, engine->running, true);
}

/* From one that is paused, or the youngest that is younger than this one. False: there is none. */
static bool take_back(cdz_engine *engine, const cdz_task *from)
{
    return cdz_engine_take_paused(engine) || take_from(engine, from->next, false);
}

/* Is there room for what a parked loop's want reads, and for some steps of the others? */
static bool may_resume(const cdz_engine *engine, const cdz_loop *loop)
{
    uint64_t need = engine->n_running;
    for (uint32_t i = 0; i < loop->want.n_seqs; i++) need += cdz_seq_needs(loop->want.seqs[i].seq);
    return need <= cdz_kv_room(loop->want.model->pool);
}

/* False: it goes on lacking blocks. */
static bool equip(cdz_engine *engine, cdz_task *task, cdz_loop *loop)
{
    cdz_error why = {0};
    cdz_status status;
    forget_short(task);
    do {
        status = cdz_loop_equip(loop, &why);
    } while (status == CDZ_E_LIMIT && is_short(task) && take_back(engine, task));
    if (status == CDZ_OK) {
        task->parked = false;
        return true;
    }
    if (is_short(task) && any_goes_on(engine)) {
        if (task != engine->running) park(engine, task);
        return false;
    }
    loop->lacks = loop->yielded = task->parked = false;
    loop->rows.error = why;
    loop->denied = status;
    return true;
}

void cdz_engine_make_room(cdz_engine *engine)
{
    bool waits = false; /* an older one does */
    cdz_assert_serves(engine);
    for (cdz_task *task = engine->running; task; task = task->next)
        for (uint32_t i = 0; i < task->n_loops; i++) {
            cdz_loop *loop = task->loops[i];
            if (!loop->lacks || !loop->waiting || cdz_fibre_ended(loop->fibre)) continue;
            if (task->paused) continue;
            const bool held = task->parked && (waits || !may_resume(engine, loop));
            if ((held && any_goes_on(engine)) || !equip(engine, task, loop))
                waits = true;
            else
                engine->moved = true;
        }
}

bool cdz_engine_is_short(const cdz_engine *engine)
{
    for (const cdz_task *task = engine->running; task; task = task->next)
        if (task->parked && !task->paused) return true;
    return false;
}
