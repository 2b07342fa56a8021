/* renew.c - a running request goes over to the newest edition of its pipeline, between two steps.
 *
 * Processors and criteria change; strategy, drafter, lengths, special tokens and seed are the request's for its life. The
 * next set of stages is begun beside the present one, and each row's state is either carried over (state_version) or built
 * by showing the row's tokens again. Only when all of that went well does the loop's pointer change; a request whose mode
 * (draws, beams) the new edition would change keeps what it has, and so does one whose passes call its processors. [engine], on the loop's fibre, in no plugin's call. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "call/calls.h"
#include "run/loop/companion.h"

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
static cdz_status check_companions(cdz_loop *loop, const cdz_stageset *next)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < next->processors.n; s++)
        n += next->processors.at[s].instance->offers.companion != NULL;
    const bool fits = n == 0 || ((uint64_t)loop->rows.n * (1 + n) <= loop->scores.cap_rows &&
                                 with_companions(next->plan) <= with_companions(loop->job->plan));
    if (fits) return CDZ_OK;
    return cdz_err(&loop->rows.error, CDZ_E_LIMIT,
                   "its processors run the model beside the rows, and no memory was set aside for "
                   "that when the request began");
}

/* --- states -------------------------------------------------------------------------------------------------------- */

/* The old stage whose states this one goes on with, or NULL. */
static const cdz_stage *ancestor(const cdz_stage *stage, const cdz_stage_chain *old)
{
    for (uint32_t i = 0; i < old->n; i++) {
        const cdz_stage *o = &old->at[i];
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

static cdz_scope scope_of(cdz_loop *loop, cdz_stageset *set, const cdz_stage *stage, cdz_error *said)
{
    return (cdz_scope){.rows = &loop->rows,
                       .set = set,
                       .plugin = stage->plugin,
                       .scratch = &loop->rows.workers[0].scratch,
                       .error = said,
                       .arena = &set->arena};
}

static cdz_status carry_one(cdz_loop *loop, cdz_stageset *next, const cdz_stage *stage,
                            const cdz_stage *from, const unsigned char *old, unsigned char *to)
{
    old += from->state_at;
    to += stage->state_at;
    if (!stage->state_api) {
        memcpy(to, old, stage->state_size);
        return CDZ_OK;
    }
    cdz_error said = {0}, unheard = {0};
    cdz_scope own = scope_of(loop, next, stage, &said),
              theirs = scope_of(loop, next, from, &unheard);
    const cdz_step step = cdz_step_for(&own, stage->instance, stage->shared);
    const cdz_step before = cdz_step_for(&theirs, from->instance, from->shared);
    cdz_stage_state_drop(&loop->rows, stage, &step, to);
    cdz_call call = {.scratch = own.scratch};
    const cdz_status status = cdz_call_hand_over(&call, stage->state_api, &step, &before, old, to);
    return cdz_rows_judge(&loop->rows, &call, status, &said);
}

static cdz_status carry_chain(cdz_loop *loop, cdz_stageset *next, const cdz_stage_chain *chain,
                              const cdz_stage_chain *old, const unsigned char *from,
                              unsigned char *to)
{
    for (uint32_t s = 0; s < chain->n; s++) {
        const cdz_stage *before = ancestor(&chain->at[s], old);
        if (before) CDZ_TRY(carry_one(loop, next, &chain->at[s], before, from, to));
    }
    return CDZ_OK;
}

/* One state of a row, to where every stage that goes on with its old ones has them. */
static cdz_status carry(cdz_loop *loop, cdz_stageset *next, const unsigned char *from,
                        unsigned char *to)
{
    const cdz_stageset *old = loop->set;
    CDZ_TRY(carry_chain(loop, next, &next->processors, &old->processors, from, to));
    return carry_chain(loop, next, &next->criteria, &old->criteria, from, to);
}

/* Stages that go on are not told of the tokens they know. */
static void deafen(cdz_stageset *next, const cdz_stageset *old, bool yes)
{
    for (uint32_t s = 0; s < next->processors.n; s++)
        next->processors.at[s].deaf = yes && ancestor(&next->processors.at[s], &old->processors);
    for (uint32_t s = 0; s < next->criteria.n; s++)
        next->criteria.at[s].deaf = yes && ancestor(&next->criteria.at[s], &old->criteria);
}

static cdz_status make_marks(cdz_loop *loop, cdz_stageset *next, uint32_t r, uint32_t n)
{
    cdz_stage_states *own = &next->states[r];
    if (n == 0) return CDZ_OK;
    own->marks = calloc(n, next->state_bytes);
    if (!own->marks) return cdz_loop_nomem(loop);
    own->n_marks = own->marks_cap = n;
    return CDZ_OK;
}

/* The row's tokens again, for its state and its marks. */
static cdz_status show_history(cdz_loop *loop, cdz_stageset *next, uint32_t r)
{
    const cdz_request_row *row = &loop->rows.at[r];
    const cdz_stage_states *own = &next->states[r];
    const cdz_ids ids = cdz_row_ids(row);
    const uint32_t prompt = loop->rows.info.prompt_len,
                   end = row->pads ? prompt + row->n_new : ids.len;
    for (uint32_t len = prompt + 1; len <= end; len++) {
        CDZ_TRY(cdz_stages_accept(next, &loop->rows, (cdz_ids){ids.at, len}, r, own->state,
                                  ids.at[len - 1]));
        const uint32_t n = len - prompt, mark = n / CDZ_MARK_EVERY;
        if (n % CDZ_MARK_EVERY == 0 && mark <= own->n_marks)
            CDZ_TRY(cdz_stage_state_copy(next, &loop->rows,
                                         own->marks + (mark - 1) * next->state_bytes, own->state));
    }
    return CDZ_OK;
}

static cdz_status build_row(cdz_loop *loop, cdz_stageset *next, uint32_t r)
{
    const cdz_stageset *old = loop->set;
    const cdz_stage_states *own = &next->states[r], *before = &old->states[r];
    CDZ_TRY(make_marks(loop, next, r, before->n_marks));
    deafen(next, old, true);
    const cdz_status shown = show_history(loop, next, r);
    deafen(next, old, false);
    CDZ_TRY(shown);
    if (!before->state) return CDZ_OK;
    CDZ_TRY(carry(loop, next, before->state, own->state));
    for (uint32_t m = 0; m < own->n_marks; m++)
        CDZ_TRY(carry(loop, next, before->marks + m * old->state_bytes,
                      own->marks + m * next->state_bytes));
    return CDZ_OK;
}

static cdz_status build_states(cdz_loop *loop, cdz_stageset *next)
{
    CDZ_TRY(cdz_stage_states_make(next, &loop->rows));
    for (uint32_t r = 0; next->state_bytes && r < loop->rows.n; r++)
        CDZ_TRY(build_row(loop, next, r));
    return CDZ_OK;
}

/* --- the change ------------------------------------------------------------------------------------------------------ */

/* All that the loop has of stages once more, from the next set's plan. */
static cdz_status build(cdz_loop *loop, cdz_stageset *next)
{
    CDZ_TRY(cdz_stages_begin(next, &loop->rows));
    CDZ_TRY(check_companions(loop, next));
    CDZ_TRY(cdz_companions_begin(loop, next));
    CDZ_TRY(cdz_matrix_fit(&loop->rows, &loop->scores, loop->rows.n, loop->rows.n_vocab));
    CDZ_TRY(build_states(loop, next));
    return cdz_derive_all(loop, next);
}

/* Takes plan. On failure the loop is as it was, and its error says why. */
static cdz_status change(cdz_loop *loop, cdz_plan *plan)
{
    cdz_stageset *next = cdz_stageset_new(plan, true, loop->rows.n), *old = loop->set;
    if (!next) return cdz_loop_nomem(loop);
    const cdz_status status = build(loop, next);
    if (status == CDZ_OK) loop->set = next;
    cdz_stageset *gone = status == CDZ_OK ? old : next;
    cdz_stages_end(gone, &loop->rows);
    cdz_companions_free(loop, gone);
    cdz_stageset_free(gone);
    return status;
}

static void report(cdz_loop *loop, const cdz_plan *plan, const char *why)
{
    cdz_error err = {0};
    cdz_err(&err, CDZ_E_STATE, "a running request goes on as it was: %s", why);
    if (!cdz_pipeline_report(plan->pipeline, &err))
        cdz_rows_log(&loop->rows, CDZ_LOG_WARNING, "pipeline", err.text);
}

void cdz_loop_renew(cdz_loop *loop)
{
    const cdz_plan *now = loop->set->plan;
    if (cdz_plan_is_newest(now) || loop->captures || cdz_loop_calls_processors(loop)) return;
    const uint64_t newest = cdz_pipeline_edition_number(now->pipeline);
    if (loop->tried == newest) return;
    loop->tried = newest;
    const cdz_error before = loop->rows.error;
    cdz_plan *plan = NULL;
    cdz_status st = cdz_plan_renew(now, &plan, &loop->rows.error);
    const bool stays = st == CDZ_OK && !same_mode(plan, loop->job->plan);
    if (stays)
        cdz_plan_free(plan);
    else if (st == CDZ_OK)
        st = change(loop, plan);
    if (st != CDZ_OK) report(loop, loop->set->plan, loop->rows.error.text);
    loop->rows.error = before;
}
