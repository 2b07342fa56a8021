/* draft.c - the request's drafter: begun and ended with the strategy, asked by its verbs.
 *
 * Owns: the newest draft, and that it is one: ids of the vocabulary, a row of scores for each. Not: how long it is to be
 * (pace.h), whether its tokens are right, which the strategy decides and tells with `judged`. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "call/calls.h"
#include "run/loop/loop.h"
#include "run/loop/verbs.h"

static const cdz_drafter *drafter_of(const cdz_loop *loop)
{
    return (const cdz_drafter *)(const void *)loop->drafting.stage.plugin;
}

static cdz_scope scope_of(cdz_loop *loop, cdz_error *said, bool may_alloc)
{
    cdz_drafting *d = &loop->drafting;
    *said = (cdz_error){.code = CDZ_OK};
    return (cdz_scope){.rows = &loop->rows,
                       .present = &loop->set,
                       .plugin = d->stage.plugin,
                       .scratch = &d->scratch,
                       .error = said,
                       .may_alloc = may_alloc};
}

/* What a call returned. A verb that failed inside it has said why already. */
static cdz_status judge(cdz_loop *loop, const cdz_call *call, cdz_status returned, cdz_error *said)
{
    if (returned != CDZ_OK && !call->broken) {
        if (returned == cdz_loop_alive(loop)) return returned;
        if (said->code != returned && loop->rows.error.code == returned) return returned;
    }
    return cdz_rows_judge(&loop->rows, call, returned, said);
}

/* --- begin and end ---------------------------------------------------------------------------------------------- */

cdz_status cdz_drafter_open(cdz_loop *loop)
{
    cdz_stage *stage = &loop->drafting.stage;
    stage->instance = &loop->job->plan->drafter;
    stage->plugin = stage->instance->plugin.base;
    if (!stage->plugin) return CDZ_OK;
    if (loop->job->plan->paces_drafts) {
        loop->drafting.pace = calloc(1, sizeof *loop->drafting.pace);
        if (!loop->drafting.pace) return cdz_loop_nomem(loop);
    }
    cdz_error said;
    cdz_scope scope = scope_of(loop, &said, true);
    const cdz_step step = cdz_step_for(&scope, stage->instance, NULL);
    cdz_call call = {.scratch = scope.scratch};
    cdz_loop_count_for(loop, &stage->instance->plugin);
    const cdz_status st =
        cdz_call_draft_begin(&call, drafter_of(loop), &loop->base, &step, &stage->shared);
    cdz_loop_count_for(loop, &loop->strategy.plugin);
    CDZ_TRY(judge(loop, &call, st, &said));
    stage->begun = true;
    return CDZ_OK;
}

static void end(cdz_loop *loop)
{
    cdz_stage *stage = &loop->drafting.stage;
    cdz_error said;
    cdz_scope scope = scope_of(loop, &said, false);
    const cdz_step step = cdz_step_for(&scope, stage->instance, stage->shared);
    cdz_call call = {.scratch = scope.scratch};
    cdz_call_end(&call, &step);
    cdz_rows_complain(&loop->rows, &call);
}

void cdz_drafter_close(cdz_loop *loop)
{
    cdz_drafting *d = &loop->drafting;
    if (d->stage.begun) end(loop);
    cdz_scratch_free(&d->scratch);
    free(d->tokens);
    free(d->pace);
    *d = (cdz_drafting){0};
}

/* --- drafts ----------------------------------------------------------------------------------------------------- */

bool cdz_verb_has_drafter(const cdz_decoder *dec)
{
    return cdz_loop_of(dec)->drafting.stage.plugin != NULL;
}

uint32_t cdz_verb_drafter_caps(const cdz_decoder *dec)
{
    const cdz_loop *loop = cdz_loop_of(dec);
    return loop->drafting.stage.plugin ? drafter_of(loop)->caps : 0;
}

static cdz_status check_row(cdz_loop *loop, const char *verb, uint32_t r)
{
    if (!loop->drafting.stage.plugin)
        return cdz_loop_fail(loop, CDZ_E_USAGE,
                             "%s: the request has no drafter; give a draft model (--assistant "
                             "FOLDER), set prompt_lookup_num_tokens, or name one with drafter = ID",
                             verb);
    if (r >= loop->rows.n)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "%s: row %" PRIu32 " of %" PRIu32, verb,
                             cdz_loop_nth(loop, r), loop->rows.n);
    return CDZ_OK;
}

/* The host's copy of the proposals, cut to what can be of use; with quirks as many as there are. */
static cdz_status keep(cdz_loop *loop, cdz_draft *draft)
{
    cdz_drafting *d = &loop->drafting;
    const char *id = d->stage.plugin->id;
    uint32_t n = draft->tokens.len;
    if (n > draft->room && !loop->rows.config.quirks) n = draft->room;
    if (n > d->cap) {
        int32_t *grown = realloc(d->tokens, n * sizeof *grown);
        if (!grown) return cdz_loop_nomem(loop);
        d->tokens = grown;
        d->cap = n;
    }
    for (uint32_t i = 0; i < n; i++) {
        d->tokens[i] = draft->tokens.at[i];
        if (d->tokens[i] < 0 || (uint32_t)d->tokens[i] >= loop->rows.n_vocab)
            return cdz_err(&loop->rows.error, CDZ_E_PLUGIN,
                           "%s: propose named token %" PRId32
                           ", which is outside the vocabulary of %" PRIu32,
                           id, d->tokens[i], loop->rows.n_vocab);
    }
    d->n = n;
    d->row = draft->row;
    draft->tokens = (cdz_ids){d->tokens, n};
    if (draft->scores.id == 0) return CDZ_OK;
    uint32_t first;
    CDZ_TRY(cdz_loop_check(loop, "propose", &draft->scores, &draft->scores, &first));
    if (draft->scores.n_rows < n || draft->scores.n_vocab != loop->rows.n_vocab)
        return cdz_err(&loop->rows.error, CDZ_E_PLUGIN,
                       "%s: propose gave %" PRIu32 " score rows of %" PRIu32 " for %" PRIu32
                       " tokens; expected one of %" PRIu32 " each",
                       id, draft->scores.n_rows, draft->scores.n_vocab, n, loop->rows.n_vocab);
    draft->scores.n_rows = n;
    return CDZ_OK;
}

static cdz_status ask(cdz_loop *loop, cdz_draft *draft)
{
    const cdz_stage *stage = &loop->drafting.stage;
    cdz_error said;
    cdz_scope scope = scope_of(loop, &said, true);
    cdz_step step = cdz_step_for(&scope, stage->instance, stage->shared);
    step.n_rows = 1;
    step.input_ids = &draft->history;
    step.row_index = &draft->row;
    cdz_call call = {0}; /* the tokens may lie in its scratch memory */
    cdz_loop_count_for(loop, &stage->instance->plugin);
    const cdz_status returned = cdz_call_propose(&call, drafter_of(loop), &loop->base, &step, draft);
    cdz_loop_count_for(loop, &loop->strategy.plugin);
    cdz_status status = judge(loop, &call, returned, &said);
    if (status == CDZ_OK) status = keep(loop, draft);
    cdz_scratch_reset(&loop->drafting.scratch);
    return status;
}

/* As long as the pace has it; where it wants no draft the drafter is not asked. */
static cdz_status ask_in_pace(cdz_loop *loop, cdz_draft *draft)
{
    cdz_drafting *d = &loop->drafting;
    const uint32_t room = draft->room;
    const double start = cdz_now_s();
    draft->room = cdz_pace_room(d->pace, room);
    d->skipped = draft->room == 0 && room > 0;
    const cdz_status status = d->skipped ? keep(loop, draft) : ask(loop, draft);
    d->proposed_at = cdz_now_s();
    d->draft_s = d->proposed_at - start;
    return status;
}

/* How many tokens beside the model's own can still come: as the row's limit and the model's context have it. */
static uint32_t room_of(const cdz_loop *loop, uint32_t r, cdz_ids history)
{
    const cdz_job *job = loop->job;
    const uint32_t used = history.len + 1;
    const uint32_t most = loop->rows.info.max_length + loop->rows.at[r].inserted.n_uncounted;
    const uint32_t room = most > used ? most - used : 0;
    if (!job->context) return room;
    const uint32_t prompt = (loop->first_row + r) / (job->n_rows / job->n_prompts);
    const uint32_t positions = job->visible[prompt] + used - job->prompt_len;
    const uint32_t left = job->context > positions ? job->context - positions : 0;
    return room < left ? room : left;
}

cdz_status cdz_verb_propose(cdz_decoder *dec, uint32_t r, cdz_draft *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    CDZ_TRY(check_row(loop, "propose", r));
    const cdz_ids history = cdz_row_ids(&loop->rows.at[r]);
    cdz_draft draft = {
        .size = sizeof draft, .row = r, .history = history, .room = room_of(loop, r, history)};
    CDZ_TRY(loop->drafting.pace ? ask_in_pace(loop, &draft) : ask(loop, &draft));
    *out = draft;
    return CDZ_OK;
}

static void count_draft(const cdz_berth *berth, uint32_t proposed, uint32_t accepted)
{
    if (!berth->drafted) return;
    *berth->drafted += proposed;
    *berth->accepted += accepted;
}

cdz_status cdz_verb_judged(cdz_decoder *dec, uint32_t r, uint32_t n_accepted)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    CDZ_TRY(check_row(loop, "judged", r));
    cdz_drafting *d = &loop->drafting;
    if (r != d->row || n_accepted > d->n)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "judged: %" PRIu32 " tokens of row %" PRIu32
                             ", but the newest draft has %" PRIu32 " of row %" PRIu32,
                             n_accepted, cdz_loop_nth(loop, r), d->n, cdz_loop_nth(loop, d->row));
    if (d->pace)
        cdz_pace_note(d->pace, &(cdz_pace_round){.proposed = d->n,
                                                 .accepted = n_accepted,
                                                 .draft_s = d->draft_s,
                                                 .pass_s = cdz_now_s() - d->proposed_at});
    count_draft(loop->rows.berth, d->n, n_accepted);
    if (d->skipped) return CDZ_OK;
    cdz_error said;
    cdz_scope scope = scope_of(loop, &said, true);
    cdz_step step = cdz_step_for(&scope, d->stage.instance, d->stage.shared);
    const cdz_ids history = cdz_row_ids(&loop->rows.at[r]);
    step.n_rows = 1;
    step.input_ids = &history;
    step.row_index = &r;
    cdz_call call = {.scratch = scope.scratch};
    cdz_loop_count_for(loop, &d->stage.instance->plugin);
    const cdz_status st = cdz_call_judged(&call, drafter_of(loop), dec, &step, r, d->n, n_accepted);
    cdz_loop_count_for(loop, &loop->strategy.plugin);
    return judge(loop, &call, st, &said);
}
