/* task.c - a request from admission to delivery.
 *
 * Owns: a task's life, which goes one way (task.h), its reservation of KV memory for the worst case, and its loops. Not: the
 * queue (engine.c, scheduler.c), the answer (outcome.c). Thread: [engine]; `cancelled` is anybody's to set. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "run/engine/engine_parts.h"
#include "run/loop/companion.h"

/* Whether rows grow from one another, and so from their prompt: others may change a row before the first pass. */
static bool is_search(const cdz_job *job)
{
    const cdz_plan *plan = job->plan;
    return plan &&
           ((const cdz_strategy *)(const void *)plan->strategy.plugin.base)->caps & CDZ_BEAMS;
}

/* Positions that a draft can lie beyond max_length: only the reference's own lookup does that. */
static uint32_t drafted(const cdz_job *job)
{
    if (!job->plan) return 0;
    const cdz_opt_int lookup = job->plan->generation.prompt_lookup_num_tokens;
    if (!job->plan->drafter.plugin.base || !job->plan->generation.quirks || !lookup.set) return 0;
    return lookup.value < CDZ_KV_MOST_BLOCKS ? (uint32_t)lookup.value : CDZ_KV_MOST_BLOCKS;
}

/* Drafts come from the model's own first layers, with a cache of their own. */
static bool exits_early(const cdz_job *job)
{
    return job->plan && job->plan->drafter.plugin.base &&
           job->plan->generation.assistant_early_exit.set;
}

/* The reference's drafts with an encoder read the ids again after those of the round before. */
static bool rereads(const cdz_job *job)
{
    return job->plan && job->sources && job->plan->generation.quirks &&
           (job->assistant || exits_early(job));
}

/* Most tokens that a row generates. */
static uint32_t most_new(const cdz_job *job)
{
    const uint32_t n = job->max_length > job->prompt_len ? job->max_length - job->prompt_len : 0;
    return job->context && job->context < n ? job->context : n;
}

/* What one sequence of `len` positions takes: blocks, or spans. */
typedef uint64_t taken_fn(const cdz_job *job, uint64_t len);

/* Does one of the job's models keep keys and values? */
static bool attends(const cdz_job *job)
{
    bool any = cdz_arch_attends(&job->model->weights->arch) ||
               (job->assistant && cdz_arch_attends(&job->assistant->weights->arch));
    for (uint32_t i = 0; i < job->n_others; i++)
        any |= cdz_arch_attends(&job->others[i].model->weights->arch);
    return any;
}

static uint64_t blocks_of(const cdz_job *job, uint64_t len)
{
    if (!attends(job)) return 0;
    const uint32_t n = cdz_kv_blocks_for(len);
    if (job->packing.bits == 0) return n;
    const uint32_t ring = cdz_kv_ring(&job->packing);
    return n < ring ? n : ring;
}

static uint64_t spans_of(const cdz_job *job, uint64_t len)
{
    return job->packing.bits ? len / cdz_kv_span(&job->packing) : 0;
}

/* A sequence's own, and what it goes back to: sequence.h. */
static uint64_t states_of(const cdz_job *job, uint64_t len)
{
    (void)job, (void)len;
    return CDZ_STATES_A_ROW;
}

/* Each row by itself, with what may run beside it. */
static uint64_t apart(const cdz_job *job, taken_fn *taken)
{
    if (job->prompt_logits) return job->n_prompts * taken(job, job->prompt_len);
    const uint64_t len = (uint64_t)cdz_job_slots(job) + most_new(job);
    const uint64_t rows = job->n_rows * taken(job, len + drafted(job)) +
                          cdz_companions_most_of(job->plan, job->n_rows) * taken(job, len);
    return rows * (1u + exits_early(job) + rereads(job));
}

static uint64_t row_blocks(const cdz_job *job)
{
    const uint64_t alone = apart(job, blocks_of);
    /* A row that becomes a copy of another is made beside what it was. */
    if (job->model->engine->shares_nothing && !job->prompt_logits && job->n_rows > 1)
        return 2 * alone;
    if (job->prompt_logits || exits_early(job) || rereads(job)) return alone;
    if (!is_search(job) || job->assistant || job->packing.bits) return alone;
    if (job->past) return alone; /* each row computes what its prompt has beyond the past */
    /* A cache made anew when longrope's frequencies change is each row's own. */
    if (job->model->weights->arch.long_inv_freq) return alone;
    /* Rows of one prompt share its whole blocks from the first pass on. Each has those it generates into for itself,
     * and one more: the prompt's last block, begun or to be computed again. */
    const uint32_t slots = cdz_job_slots(job), n_new = most_new(job);
    const uint64_t each = (uint64_t)cdz_kv_blocks_for(n_new) + 1;
    const uint64_t beside =
        cdz_companions_most_of(job->plan, job->n_rows) * blocks_of(job, (uint64_t)slots + n_new);
    const uint64_t shared =
        (uint64_t)job->n_prompts * (slots / CDZ_KV_BLOCK) + job->n_rows * each + beside;
    return shared < alone ? shared : alone;
}

/* Rows are computed again, to write states down. */
static uint64_t again(const cdz_job *job, taken_fn *taken)
{
    if (!job->keep_hidden && !job->keep_attentions) return 0;
    const uint64_t len = (uint64_t)cdz_job_slots(job) + most_new(job) + drafted(job);
    return job->n_rows * taken(job, len);
}

uint64_t cdz_job_blocks(const cdz_job *job)
{
    const uint64_t sources =
        job->sources ? (uint64_t)job->n_prompts * cdz_kv_blocks_for(job->source_len) : 0;
    return row_blocks(job) + again(job, blocks_of) + sources;
}

uint64_t cdz_job_first_blocks(const cdz_job *job)
{
    const uint64_t all = cdz_job_blocks(job);
    if (!cdz_job_yields(job)) return all;
    const uint64_t first =
        (uint64_t)job->n_prompts * cdz_kv_blocks_for(cdz_job_slots(job)) + job->n_rows;
    return first < all ? first : all;
}

uint64_t cdz_job_least_blocks(const cdz_job *job)
{
    const bool drops = job->plan && job->plan->strategy.offers.kv && cdz_job_yields(job);
    return drops ? cdz_job_first_blocks(job) : cdz_job_blocks(job);
}

uint64_t cdz_job_spans(const cdz_job *job)
{
    return apart(job, spans_of) + again(job, spans_of);
}

uint64_t cdz_job_states(const cdz_job *job)
{
    bool any = job->model->state_bytes || (job->assistant && job->assistant->state_bytes);
    for (uint32_t i = 0; i < job->n_others; i++) any |= job->others[i].model->state_bytes > 0;
    if (!any) return 0;
    return apart(job, states_of) + again(job, states_of);
}

/* That are visible, and what an encoder reads. */
static uint64_t prompt_tokens(const cdz_job *job)
{
    uint64_t n = (uint64_t)job->n_prompts * job->source_len;
    for (uint32_t i = 0; i < job->n_prompts; i++)
        for (uint32_t k = 0; k < cdz_job_slots(job); k++)
            n += !job->rows[i].mask || job->rows[i].mask[k];
    return n;
}

static void release_models(cdz_job *job)
{
    cdz_run_model_release(job->model);
    if (job->assistant) cdz_run_model_release(job->assistant);
    for (uint32_t i = 0; i < job->n_others; i++) cdz_run_model_release(job->others[i].model);
}

/* Of several names of one model the first has what its sequences lie in; the target's and the assistant's have their own. */
static const cdz_run_model *model_beside(const cdz_job *job, uint32_t i)
{
    const cdz_run_model *model = job->others[i].model;
    bool before = model == job->model || model == job->assistant;
    for (uint32_t k = 0; k < i; k++) before |= job->others[k].model == model;
    return before ? NULL : model;
}

static bool make_others(cdz_task *task)
{
    const cdz_job *job = task->job;
    if (job->n_others == 0) return true;
    task->others = calloc(job->n_others, sizeof *task->others);
    for (uint32_t i = 0; task->others && i < job->n_others; i++)
        task->others[i].model = model_beside(job, i);
    return task->others;
}

cdz_status cdz_task_create(cdz_engine *engine, cdz_job *job, cdz_task **out, cdz_error *err)
{
    cdz_task *task = calloc(1, sizeof *task);
    cdz_outcome *outcome = calloc(1, sizeof *outcome);
    if (task) task->job = job;
    if (!task || !outcome || !make_others(task)) {
        free(task);
        free(outcome);
        return cdz_err_memory(err, "the request");
    }
    task->engine = engine;
    task->outcome = outcome;
    task->submitted_s = cdz_now_s();
    task->prompt_tokens = prompt_tokens(job);
    task->first_blocks = cdz_job_first_blocks(job);
    atomic_init(&task->cancelled, false);
    cdz_run_model_retain(job->model);
    if (job->assistant) cdz_run_model_retain(job->assistant);
    for (uint32_t i = 0; i < job->n_others; i++) cdz_run_model_retain(job->others[i].model);
    *out = task;
    return CDZ_OK;
}

void cdz_task_free(cdz_task *task)
{
    cdz_assert(task->life == CDZ_TASK_NEW || task->life == CDZ_TASK_TOLD);
    release_models(task->job);
    cdz_job_free(task->job);
    free(task->others);
    free(task);
}

/* --- starting ------------------------------------------------------------------------------------------------------ */

/* May its rows go past longrope's limit, and so have their whole cache computed again? */
static bool may_turn(const cdz_job *job, const cdz_run_model *model)
{
    const cdz_arch *arch = &model->weights->arch;
    return arch->long_inv_freq && job->prompt_len <= arch->rope_limit &&
           job->max_length > arch->rope_limit;
}

/* May blocks be found: by requests whose prompts begin alike? */
static void set_listing(const cdz_task *task, const cdz_run_model *model, cdz_kv_account *account)
{
    const cdz_job *job = task->job;
    account->lists = cdz_kv_pool_lists(model->pool) && cdz_run_model_shares_prompts(model) &&
                     !may_turn(job, model) && !job->prompt_logits && job->packing.bits == 0 &&
                     job->plan->generation.use_cache;
    account->yields = task->yields;
    memcpy(account->salt, job->salt, sizeof account->salt);
}

/* A model's pools are there together. */
static cdz_status make_pools(cdz_engine *engine, cdz_run_model *model, const cdz_kv_need *need,
                             cdz_error *err)
{
    const cdz_pool_bytes bytes = cdz_engine_pool_bytes(engine, model, need);
    CDZ_TRY(cdz_kv_pool_create(model->device, &model->shape, &engine->budget, bytes.blocks,
                               &model->pool, err));
    if (!model->state_bytes) return CDZ_OK;
    const cdz_status status =
        cdz_kv_pool_create_states(model->device, model->state_bytes / sizeof(float),
                                  &engine->budget, bytes.states, &model->states, err);
    if (status == CDZ_OK) return CDZ_OK;
    cdz_kv_pool_free(model->pool);
    model->pool = NULL;
    return status;
}

cdz_status cdz_run_model_ready(cdz_engine *engine, cdz_run_model *model, const cdz_kv_need *need,
                               cdz_error *err)
{
    if (!model->pool) CDZ_TRY(make_pools(engine, model, need, err));
    if (cdz_kv_pool_idle(model->pool))
        cdz_kv_pool_set_sharing(model->pool, !engine->shares_nothing);
    if (!engine->forgets && !engine->shares_nothing) CDZ_TRY(cdz_kv_pool_list(model->pool, err));
    if (!model->layers)
        CDZ_TRY(cdz_layers_create(model->device, model->weights, model->pool, engine->profile,
                                  &model->layers, err));
    return CDZ_OK;
}

static void close_accounts(cdz_task *task)
{
    cdz_kv_close(&task->target);
    cdz_kv_close(&task->assistant);
    cdz_kv_close(&task->spans);
    cdz_kv_close(&task->target_states);
    cdz_kv_close(&task->assistant_states);
    for (uint32_t i = 0; i < task->job->n_others; i++) {
        cdz_kv_close(&task->others[i].account);
        cdz_kv_close(&task->others[i].states);
    }
}

/* The account of a model's states, beside that of its blocks. */
static bool open_states(const cdz_task *task, const cdz_run_model *model, cdz_kv_account *states,
                        cdz_kv_account *account)
{
    if (!model->states) return true;
    if (!cdz_kv_open(model->states, (uint32_t)cdz_job_states(task->job), states)) return false;
    account->states = states;
    return true;
}

/* The account beside the target's. */
static bool open_spans(cdz_task *task)
{
    if (task->job->packing.bits == 0) return true;
    if (!cdz_kv_open(task->packed, (uint32_t)cdz_job_spans(task->job), &task->spans)) return false;
    task->target.spans = &task->spans;
    return true;
}

static bool open_others(const cdz_task *task, uint32_t n)
{
    for (uint32_t i = 0; i < task->job->n_others; i++) {
        cdz_beside *other = &task->others[i];
        if (!other->model) continue;
        if (!cdz_kv_open(other->model->pool, n, &other->account) ||
            !open_states(task, other->model, &other->states, &other->account))
            return false;
        set_listing(task, other->model, &other->account);
    }
    return true;
}

static bool open_all(cdz_task *task, uint32_t n)
{
    const cdz_job *job = task->job;
    if (!cdz_kv_open(job->model->pool, n, &task->target) || !open_spans(task)) return false;
    if (!open_states(task, job->model, &task->target_states, &task->target)) return false;
    set_listing(task, job->model, &task->target);
    if (!open_others(task, n)) return false;
    if (!job->assistant || job->assistant == job->model) return true;
    if (!cdz_kv_open(job->assistant->pool, n, &task->assistant) ||
        !open_states(task, job->assistant, &task->assistant_states, &task->assistant))
        return false;
    set_listing(task, job->assistant, &task->assistant);
    return true;
}

/* Beside others a few blocks are enough to begin with; alone it is to have all that it may need. */
static bool fits(const cdz_task *task)
{
    const cdz_job *job = task->job;
    const uint64_t others = task->engine->n_running,
                   n = others ? cdz_job_first_blocks(job) + others : cdz_job_least_blocks(job);
    bool all = cdz_kv_room(job->model->pool) >= n &&
               (!job->assistant || cdz_kv_room(job->assistant->pool) >= n);
    for (uint32_t i = 0; i < job->n_others; i++)
        all &= cdz_kv_room(job->others[i].model->pool) >= n;
    return all;
}

static bool open_accounts(cdz_task *task)
{
    const uint32_t n =
        (uint32_t)cdz_job_first_blocks(task->job); /* submit has seen that all of them fit */
    task->yields = cdz_job_yields(task->job);
    if ((!task->yields || fits(task)) && open_all(task, n)) return true;
    close_accounts(task);
    return false;
}

static cdz_status make_sources(cdz_task *task, cdz_kv_account *account, cdz_encoded **out)
{
    const cdz_job *job = task->job;
    if (!job->sources) return CDZ_OK;
    *out = calloc(job->n_prompts, sizeof **out);
    if (!*out) return cdz_err_memory(&task->error, "the request");
    for (uint32_t i = 0; i < job->n_prompts; i++)
        cdz_encoded_init(&(*out)[i], account, job->sources[i].ids, job->sources[i].embeds,
                         job->sources[i].mask, job->source_len);
    return CDZ_OK;
}

static cdz_status start_sources(cdz_task *task)
{
    const cdz_run_model *assistant = task->job->assistant;
    CDZ_TRY(make_sources(task, &task->target, &task->sources));
    CDZ_TRY(cdz_states_of_sources(task->job, task->sources, task->outcome, &task->error));
    if (!assistant || assistant == task->job->model) return CDZ_OK;
    if (!assistant->weights->arch.encoder) return CDZ_OK;
    return make_sources(task, &task->assistant, &task->assistant_sources);
}

static void drop_sources(cdz_task *task)
{
    cdz_encoded *const all[] = {task->sources, task->assistant_sources};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        for (uint32_t i = 0; all[k] && i < task->job->n_prompts; i++) cdz_encoded_clear(&all[k][i]);
        free(all[k]);
    }
    task->sources = task->assistant_sources = NULL;
}

static void log_line(const void *engine, cdz_log_level level, const char *plugin, const char *text)
{
    cdz_engine_log(engine, level, plugin, text);
}

/* What the task's loops are lent. apart: they are of a row each. */
static void furnish(cdz_task *task, bool apart)
{
    cdz_engine *engine = task->engine;
    task->berth = (cdz_berth){.backend = engine->backend,
                              .profile = engine->profile,
                              .fuses = engine->fuses,
                              .apart = apart,
                              .log = log_line,
                              .log_of = engine,
                              .rows_away = &engine->now.rows_away,
                              .rows_fetched = &engine->now.rows_fetched,
                              .drafted = &engine->now.drafted,
                              .accepted = &engine->now.accepted,
                              .go_outside = cdz_engine_go_outside,
                              .outside_of = engine,
                              .n_outside = &engine->n_outside,
                              .request_id = task->job->request_id,
                              .traceparent = task->job->traceparent,
                              .cancelled = &task->cancelled,
                              .failed = &task->failed,
                              .deadline_s = &task->job->deadline_s,
                              .started_s = task->started_s,
                              .target = &task->target,
                              .assistant = &task->assistant,
                              .others = task->others,
                              .n_others = task->job->n_others,
                              .sources = task->sources,
                              .assistant_sources = task->assistant_sources,
                              .outcome = task->outcome};
}

static cdz_status start_loops(cdz_task *task)
{
    const cdz_job *job = task->job;
    const cdz_strategy *strategy =
        job->prompt_logits ? NULL : (const void *)job->plan->strategy.plugin.base;
    const uint32_t n_rows = job->prompt_logits ? job->n_prompts : job->n_rows;
    const bool apart = strategy && strategy->caps & CDZ_ONE_ROW && n_rows > 1;
    task->n_loops = apart ? n_rows : 1;
    furnish(task, apart);
    task->loops = calloc(task->n_loops, sizeof *task->loops);
    if (!task->loops) return cdz_err_memory(&task->error, "the request");
    for (uint32_t i = 0; i < task->n_loops; i++) {
        CDZ_TRY(cdz_loop_create(job, &task->berth, apart ? i : 0, apart ? 1 : n_rows,
                                &task->loops[i], &task->error));
        CDZ_TRY(cdz_fibre_start(task->engine->fibres, cdz_loop_main, task->loops[i],
                                &task->loops[i]->fibre, &task->error));
    }
    return CDZ_OK;
}

static void drop_loops(cdz_task *task)
{
    for (uint32_t i = 0; task->loops && i < task->n_loops; i++) cdz_loop_free(task->loops[i]);
    free(task->loops);
    task->loops = NULL;
}

/* Blocks and states that all models of a job have room for; 0: a pool is still to be made. */
static cdz_kv_need room_of(const cdz_job *job)
{
    cdz_kv_need least = {UINT64_MAX, UINT64_MAX};
    for (uint32_t i = 0; i < job->n_others + 2; i++) {
        const cdz_run_model *model = i == 0   ? job->model
                                     : i == 1 ? job->assistant
                                              : job->others[i - 2].model;
        if (!model) continue;
        const uint64_t blocks = model->pool ? cdz_kv_pool_blocks(model->pool) : 0,
                       states = model->states ? cdz_kv_pool_blocks(model->states) : 0;
        if (blocks < least.blocks) least.blocks = blocks;
        if (model->state_bytes && states < least.states) least.states = states;
    }
    return least;
}

static bool is_enough(const cdz_kv_need *room, const cdz_kv_need *need)
{
    return room->blocks >= need->blocks && room->states >= need->states;
}

static cdz_status too_little(const cdz_kv_need *room, const cdz_kv_need *need, cdz_error *err)
{
    if (room->blocks < need->blocks)
        return cdz_err(err, CDZ_E_LIMIT,
                       "the request needs %" PRIu64
                       " blocks of KV memory, and its models have room for "
                       "%" PRIu64 "; ask for fewer new tokens or allow more KV memory",
                       need->blocks, room->blocks);
    return cdz_err(err, CDZ_E_LIMIT,
                   "the request needs %" PRIu64 " recurrent states, and its models have room for "
                   "%" PRIu64 "; ask for fewer rows or allow more KV memory",
                   need->states, room->states);
}

/* The pools of a device share what models that were opened by then left of its memory: whoever finds too little has it
 * shared out again, as far as it is not in use. */
static cdz_status ready_all(cdz_task *task, cdz_error *err)
{
    const cdz_job *job = task->job;
    const cdz_kv_need need = {cdz_job_least_blocks(job), cdz_job_states(job)};
    cdz_kv_need room = room_of(job);
    if (!is_enough(&room, &need)) cdz_engine_free_idle(task->engine);
    CDZ_TRY(cdz_run_model_ready(task->engine, job->model, &need, err));
    if (job->assistant) CDZ_TRY(cdz_run_model_ready(task->engine, job->assistant, &need, err));
    for (uint32_t i = 0; i < job->n_others; i++)
        CDZ_TRY(cdz_run_model_ready(task->engine, job->others[i].model, &need, err));
    if (job->packing.bits)
        CDZ_TRY(cdz_packed_ready(task->engine, job->model, &job->packing, &task->packed, err));
    room = room_of(job);
    return is_enough(&room, &need) ? CDZ_OK : too_little(&room, &need, err);
}

bool cdz_task_start(cdz_task *task)
{
    cdz_assert_serves(task->engine);
    cdz_assert(task->life == CDZ_TASK_QUEUED);
    cdz_error why = {0};
    cdz_status status = ready_all(task, &why);
    if (status == CDZ_E_LIMIT && task->engine->n_running) return false;
    if (status != CDZ_OK) {
        task->error = why;
        return true;
    }
    if (!open_accounts(task)) {
        if (task->engine->n_running) return false;
        cdz_err(&task->error, CDZ_E_LIMIT,
                "KV memory is held by the states that earlier requests kept: %" PRIu64
                " of %" PRIu64 " bytes; free their results or allow more KV memory",
                task->engine->budget.committed, task->engine->budget.limit);
        return true;
    }
    task->started_s = cdz_now_s();
    status = start_sources(task);
    if (status == CDZ_OK) status = start_loops(task);
    if (status != CDZ_OK) drop_loops(task);
    return true;
}

/* --- delivering ----------------------------------------------------------------------------------------------------- */

/* A strategy that reads in sequences of its own (drafts, trials) leaves the row's cache behind: the row takes over what
 * the best of them has computed of its ids. Without memory for it the row keeps what it has. */
static void catch_up(const cdz_loop *loop, cdz_seq *row)
{
    const cdz_seq *best = NULL;
    uint32_t most = row->computed;
    for (const cdz_seq *seq = loop->seqs; seq; seq = seq->next) {
        if (seq->model != row->model || seq->n_layers || seq->source != row->source) continue;
        const uint32_t n = cdz_seq_resumes(seq, cdz_seq_common(row, seq));
        if (n <= most) continue;
        best = seq;
        most = n;
    }
    cdz_error unheard = {0};
    if (best) (void)cdz_seq_share(row, best, most, &unheard);
}

/* What the rows' caches hold goes over to the outcome; without memory for it nothing is kept, and of what is packed nothing
 * at all. The account goes with them: whoever else holds blocks of it has given them back before. */
static void keep_cache(cdz_task *task)
{
    const cdz_job *job = task->job;
    if (!task->loops || job->prompt_logits) return;
    if (task->target.spans || job->plan->n_presses) { /* whoever continues it finds nothing in it */
        task->outcome->kept = cdz_kept_create(job->model, NULL, 0, &(cdz_kv_account){0}, NULL);
        return;
    }
    cdz_seq **rows = calloc(job->n_rows, sizeof *rows);
    if (!rows) return;
    uint32_t n = 0;
    for (uint32_t i = 0; i < task->n_loops; i++) {
        cdz_loop *loop = task->loops[i];
        for (uint32_t r = 0; r < loop->rows.n; r++) catch_up(loop, loop->rows.at[r].seq);
        cdz_loop_keep_rows_alone(loop);
        for (uint32_t r = 0; r < loop->rows.n; r++) rows[n++] = loop->rows.at[r].seq;
    }
    /* Nobody can share what a function of this request made. */
    for (uint32_t i = 0; i < n; i++)
        cdz_seq_reread(rows[i], cdz_steering_first_call(rows[i]->edits));
    task->outcome->kept = cdz_kept_create(job->model, rows, n, &task->target, job->past);
    free(rows);
}

void cdz_task_finish(cdz_task *task)
{
    cdz_assert_serves(task->engine);
    cdz_assert(task->life == CDZ_TASK_QUEUED || task->life == CDZ_TASK_RUNNING);
    cdz_outcome_fill(task);
    drop_sources(task); /* the account may go over to what is kept */
    if (task->job->keep_cache) keep_cache(task);
    drop_loops(task);
    close_accounts(task);
    task->life = CDZ_TASK_ENDED;
}

void cdz_task_deliver(cdz_task *task)
{
    cdz_outcome *outcome = task->outcome;
    cdz_assert(task->life == CDZ_TASK_ENDED);
    task->life = CDZ_TASK_TOLD;
    task->outcome = NULL;
    if (task->job->on_done)
        task->job->on_done(task->job->user, outcome);
    else
        cdz_outcome_free(outcome);
}
