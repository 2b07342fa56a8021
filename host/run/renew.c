/* renew.c - a running request goes over to the newest edition of its pipeline, between two steps.
 *
 * Processors and criteria change; strategy, drafter, lengths, special tokens and seed are the request's for its life. The
 * new stages are begun beside the old ones, and each row's state is either carried over (state_version) or built by
 * showing the row's tokens again. Only when all of that went well do they take the old ones' place; a request whose mode
 * (draws, beams) the new edition would change keeps what it has. [engine], on the loop's fibre, in no plugin's call. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "call/calls.h"
#include "run/companion.h"
#include "run/engine_parts.h"
#include "run/task.h"

/* A row's states under one edition. */
typedef struct row_states {
    unsigned char *state, *spare_state, *marks;
    uint32_t n_marks, marks_cap;
} row_states;

/* All that one edition gave a loop. */
typedef struct staging {
    cdz_plan *plan;
    cdz_arena arena;
    cdz_stage *processors, *criteria;
    uint32_t n_processors, n_criteria;
    size_t state_bytes;
    bool has_eos, owned_states, accepts;
    cdz_companions *companions;
    const cdz_stage *teller;
    unsigned char *trial_states;
    size_t trial_cap;
    row_states *rows;     /* (n_rows) */
    cdz_derived *derived; /* (n_derived) the loop's, as they were chosen */
} staging;

/* --- taking and putting ---------------------------------------------------------------------------------------- */

static void save_rows(const cdz_loop *loop, row_states *out)
{
    for (uint32_t r = 0; r < loop->n_rows; r++) {
        const cdz_loop_row *row = &loop->rows[r];
        out[r] =
            (row_states){row->state, row->spare_state, row->marks, row->n_marks, row->marks_cap};
    }
}

/* Copies what the loop has; it keeps it. out->rows and out->derived are there. */
static void save(const cdz_loop *loop, staging *out)
{
    out->plan = loop->plan;
    out->arena = loop->stage_arena;
    out->processors = loop->processors;
    out->criteria = loop->criteria;
    out->n_processors = loop->n_processors;
    out->n_criteria = loop->n_criteria;
    out->state_bytes = loop->state_bytes;
    out->has_eos = loop->has_eos;
    out->owned_states = loop->owned_states;
    out->accepts = loop->accepts;
    out->companions = loop->companions;
    out->teller = loop->teller;
    out->trial_states = loop->trial_states;
    out->trial_cap = loop->trial_cap;
    save_rows(loop, out->rows);
    if (loop->n_derived)
        memcpy(out->derived, loop->derived, loop->n_derived * sizeof *out->derived);
}

static void put(cdz_loop *loop, const staging *from)
{
    loop->plan = from->plan;
    loop->stage_arena = from->arena;
    loop->processors = from->processors;
    loop->criteria = from->criteria;
    loop->n_processors = from->n_processors;
    loop->n_criteria = from->n_criteria;
    loop->state_bytes = from->state_bytes;
    loop->has_eos = from->has_eos;
    loop->owned_states = from->owned_states;
    loop->accepts = from->accepts;
    loop->companions = from->companions;
    loop->teller = from->teller;
    loop->trial_states = from->trial_states;
    loop->trial_cap = from->trial_cap;
    for (uint32_t r = 0; r < loop->n_rows; r++) {
        const row_states *s = &from->rows[r];
        cdz_loop_row *row = &loop->rows[r];
        row->state = s->state;
        row->spare_state = s->spare_state;
        row->marks = s->marks;
        row->n_marks = s->n_marks;
        row->marks_cap = s->marks_cap;
    }
    if (loop->n_derived)
        memcpy(loop->derived, from->derived, loop->n_derived * sizeof *loop->derived);
}

/* Ends the stages the loop has and gives their memory back. */
static void drop_stages(cdz_loop *loop)
{
    cdz_stages_end(loop);
    cdz_companions_free(loop);
    for (uint32_t r = 0; r < loop->n_rows; r++) free(loop->rows[r].marks);
    free(loop->trial_states);
    cdz_arena_free(&loop->stage_arena);
    cdz_plan_free(loop->plan);
}

static bool make_room(const cdz_loop *loop, staging *out)
{
    *out = (staging){0};
    out->rows = calloc(loop->n_rows, sizeof *out->rows);
    out->derived = calloc((size_t)loop->n_derived + 1, sizeof *out->derived);
    return out->rows && out->derived;
}

static void free_room(staging *s)
{
    free(s->rows);
    free(s->derived);
}

/* --- may the request go over? ------------------------------------------------------------------------------------ */

static bool same_mode(const cdz_plan *a, const cdz_plan *b)
{
    return a->generation.do_sample == b->generation.do_sample &&
           a->generation.num_beams == b->generation.num_beams;
}

static uint32_t with_companions(const cdz_plan *plan)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_processors; i++)
        n += plan->processors[i].offers.companion != NULL;
    return n;
}

/* The memory of a request was set aside when it was admitted. */
static cdz_status check_companions(cdz_loop *loop)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < loop->n_processors; s++)
        n += loop->processors[s].instance->offers.companion != NULL;
    const bool fits = n == 0 || ((uint64_t)loop->n_rows * (1 + n) <= loop->scores.cap_rows &&
                                 with_companions(loop->plan) <= with_companions(loop->job->plan));
    if (fits) return CDZ_OK;
    return cdz_err(&loop->error, CDZ_E_LIMIT,
                   "its processors run the model beside the rows, and no memory was set aside for "
                   "that when the request began");
}

/* --- states -------------------------------------------------------------------------------------------------------- */

/* The old stage whose states this one goes on with, or NULL. */
static const cdz_stage *ancestor(const cdz_stage *stage, const cdz_stage *old, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const cdz_stage *o = &old[i];
        if (strcmp(o->instance->name, stage->instance->name) != 0 ||
            strcmp(o->plugin->id, stage->plugin->id) != 0 || o->phases != stage->phases)
            continue;
        const cdz_state_api *api = stage->state_api;
        const bool plain = !api && !o->state_api;
        const bool moves = api && o->state_api && cdz_state_has_hand_over(api);
        const bool same = stage->state_version && stage->state_version == o->state_version &&
                          stage->state_size && stage->state_size == o->state_size;
        return same && (plain || moves) ? o : NULL;
    }
    return NULL;
}

static const cdz_stage *ancestor_in(const staging *old, const cdz_stage *stage, bool criterion)
{
    return criterion ? ancestor(stage, old->criteria, old->n_criteria)
                     : ancestor(stage, old->processors, old->n_processors);
}

static cdz_scope scope_of(cdz_loop *loop, const cdz_stage *stage, cdz_error *said)
{
    return (cdz_scope){.loop = loop,
                       .plugin = stage->plugin,
                       .scratch = &loop->workers[0].scratch,
                       .error = said,
                       .arena = &loop->stage_arena};
}

static cdz_status carry_one(cdz_loop *loop, const cdz_stage *stage, const cdz_stage *from,
                            const unsigned char *old, unsigned char *to)
{
    old += from->state_at;
    to += stage->state_at;
    if (!stage->state_api) {
        memcpy(to, old, stage->state_size);
        return CDZ_OK;
    }
    cdz_error said = {0}, unheard = {0};
    cdz_scope own = scope_of(loop, stage, &said), theirs = scope_of(loop, from, &unheard);
    const cdz_step step = cdz_step_for(&own, stage->instance->params, stage->shared);
    const cdz_step before = cdz_step_for(&theirs, from->instance->params, from->shared);
    cdz_stages_drop_state(loop, stage, &step, to);
    cdz_call call = {.scratch = own.scratch};
    const cdz_status status = cdz_call_hand_over(&call, stage->state_api, &step, &before, old, to);
    return cdz_loop_judge(loop, &call, status, &said);
}

/* One state of a row, to where every stage that goes on with its old ones has them. */
static cdz_status carry(cdz_loop *loop, const staging *old, const unsigned char *from,
                        unsigned char *to)
{
    for (uint32_t s = 0; s < loop->n_processors + loop->n_criteria; s++) {
        const bool criterion = s >= loop->n_processors;
        const cdz_stage *stage =
            criterion ? &loop->criteria[s - loop->n_processors] : &loop->processors[s];
        const cdz_stage *before = ancestor_in(old, stage, criterion);
        if (before) CDZ_TRY(carry_one(loop, stage, before, from, to));
    }
    return CDZ_OK;
}

/* Stages that go on are not told of the tokens they know. */
static void deafen(cdz_loop *loop, const staging *old, bool yes)
{
    for (uint32_t s = 0; s < loop->n_processors; s++)
        loop->processors[s].deaf = yes && ancestor_in(old, &loop->processors[s], false);
    for (uint32_t s = 0; s < loop->n_criteria; s++)
        loop->criteria[s].deaf = yes && ancestor_in(old, &loop->criteria[s], true);
}

static cdz_status make_marks(cdz_loop *loop, cdz_loop_row *row, uint32_t n)
{
    if (n == 0) return CDZ_OK;
    row->marks = calloc(n, loop->state_bytes);
    if (!row->marks) return cdz_loop_nomem(loop);
    row->n_marks = row->marks_cap = n;
    return CDZ_OK;
}

/* The row's tokens again, for its state and its marks. */
static cdz_status show_history(cdz_loop *loop, uint32_t r)
{
    cdz_loop_row *row = &loop->rows[r];
    const cdz_ids ids = cdz_row_ids(row);
    const uint32_t prompt = loop->info.prompt_len, end = row->skip ? prompt + row->n_new : ids.len;
    for (uint32_t len = prompt + 1; len <= end; len++) {
        CDZ_TRY(cdz_stages_accept(loop, (cdz_ids){ids.at, len}, r, row->state, ids.at[len - 1]));
        const uint32_t n = len - prompt, mark = n / CDZ_MARK_EVERY;
        if (n % CDZ_MARK_EVERY == 0 && mark <= row->n_marks)
            CDZ_TRY(cdz_stages_copy_state(loop, row->marks + (mark - 1) * loop->state_bytes,
                                          row->state));
    }
    return CDZ_OK;
}

static cdz_status build_row(cdz_loop *loop, const staging *old, uint32_t r)
{
    cdz_loop_row *row = &loop->rows[r];
    const row_states *before = &old->rows[r];
    row->state = cdz_arena_alloc(&loop->stage_arena, loop->state_bytes);
    if (!row->state) return cdz_loop_nomem(loop);
    CDZ_TRY(make_marks(loop, row, before->n_marks));
    deafen(loop, old, true);
    const cdz_status shown = show_history(loop, r);
    deafen(loop, old, false);
    CDZ_TRY(shown);
    if (!before->state) return CDZ_OK;
    CDZ_TRY(carry(loop, old, before->state, row->state));
    for (uint32_t m = 0; m < row->n_marks; m++)
        CDZ_TRY(carry(loop, old, before->marks + m * old->state_bytes,
                      row->marks + m * loop->state_bytes));
    return CDZ_OK;
}

static cdz_status build_rows(cdz_loop *loop, const staging *old)
{
    for (uint32_t r = 0; loop->state_bytes && r < loop->n_rows; r++)
        CDZ_TRY(build_row(loop, old, r));
    return CDZ_OK;
}

/* --- the change ------------------------------------------------------------------------------------------------------ */

/* The loop's stages are those of its plan from nothing. */
static cdz_status begin_anew(cdz_loop *loop, const staging *old)
{
    CDZ_TRY(cdz_stages_begin(loop));
    CDZ_TRY(check_companions(loop));
    CDZ_TRY(cdz_companions_begin(loop));
    CDZ_TRY(cdz_matrix_fit(loop, &loop->scores, loop->n_rows, loop->n_vocab));
    CDZ_TRY(build_rows(loop, old));
    for (uint32_t i = 0; i < loop->n_derived; i++)
        if (!cdz_derived_choose(loop, i)) return cdz_loop_nomem(loop);
    return CDZ_OK;
}

/* Takes plan. On failure the loop is as it was, and loop->error says why. */
static cdz_status change(cdz_loop *loop, cdz_plan *plan)
{
    staging old, none, next;
    const bool room =
        (int)make_room(loop, &old) & (int)make_room(loop, &none) & (int)make_room(loop, &next);
    cdz_status st = room ? CDZ_OK : cdz_loop_nomem(loop);
    if (room) {
        save(loop, &old);
        none.plan = plan;
        none.arena.limit = CDZ_LOOP_ARENA;
        if (loop->n_derived)
            memcpy(none.derived, loop->derived, loop->n_derived * sizeof *none.derived);
        put(loop, &none);
        st = begin_anew(loop, &old);
        save(loop, &next);
        if (st == CDZ_OK) put(loop, &old);
        drop_stages(loop);
        put(loop, st == CDZ_OK ? &next : &old);
    } else {
        cdz_plan_free(plan);
    }
    free_room(&old);
    free_room(&none);
    free_room(&next);
    return st;
}

static void report(cdz_loop *loop, const cdz_plan *plan, const char *why)
{
    cdz_error err = {0};
    cdz_err(&err, CDZ_E_STATE, "a running request goes on as it was: %s", why);
    if (!cdz_pipeline_report(plan->pipeline, &err))
        cdz_engine_log(loop->task->engine, CDZ_LOG_WARNING, "pipeline", err.text);
}

void cdz_loop_renew(cdz_loop *loop)
{
    const cdz_plan *now = cdz_loop_plan(loop);
    if (!now || cdz_plan_is_newest(now) || loop->captures) return;
    const uint64_t newest = cdz_pipeline_edition_number(now->pipeline);
    if (loop->tried == newest) return;
    loop->tried = newest;
    const cdz_error before = loop->error;
    cdz_plan *plan = NULL;
    cdz_status st = cdz_plan_renew(now, &plan, &loop->error);
    const bool stays = st == CDZ_OK && !same_mode(plan, loop->job->plan);
    if (stays)
        cdz_plan_free(plan);
    else if (st == CDZ_OK)
        st = change(loop, plan);
    if (st != CDZ_OK) report(loop, cdz_loop_plan(loop), loop->error.text);
    loop->error = before;
}
