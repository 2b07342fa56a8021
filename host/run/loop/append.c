/* append.c - verbs that change the rows: tokens come, tokens are taken back, rows become copies of others.
 *
 * Owns: how a row ends, and what is told of it on the way. Not: who chose the tokens (choice.c, the strategy), what stop
 * rules say (rows.c), the cache behind the ids (run/pass/sequence.h). Invariant: n_open counts the rows that are not done;
 * stages hear of a token once it stands in the row. */
#include <inttypes.h>
#include <string.h>

#include "run/loop/companion.h"
#include "run/loop/loop.h"
#include "run/loop/verbs.h"
#include "run/stages/watch.h"

static uint32_t n_generated(const cdz_loop *loop, uint32_t r)
{
    return loop->rows.at[r].seq->n - loop->rows.info.prompt_len;
}

/* New tokens [from, to) to on_tokens. */
static void tell(const cdz_loop *loop, uint32_t r, uint32_t from, uint32_t to)
{
    const cdz_recorder *rec = &loop->recorder;
    const bool kept = rec->n > from;
    const cdz_new_tokens tokens = {.row = loop->first_row + r,
                                   .ids = loop->rows.at[r].seq->ids + loop->rows.info.prompt_len +
                                          from,
                                   .n = to - from,
                                   .steps = kept ? rec->steps + from : NULL,
                                   .n_steps = kept ? rec->n - from : 0,
                                   .step_row = r};
    loop->job->on_tokens(loop->job->user, &tokens);
}

/* Hands on what on_tokens has not seen. Of a row that may be changed later it is what was committed, until the row has ended. */
void cdz_loop_emit(cdz_loop *loop, uint32_t r, bool ended)
{
    cdz_request_row *row = &loop->rows.at[r];
    if (!loop->job->on_tokens) return;
    uint32_t n = row->done ? row->n_new : n_generated(loop, r), end;
    if (loop->rows.holds_text && !ended) n = row->n_committed;
    if (n <= row->n_emitted) return;
    const cdz_work was = cdz_profile_mark(loop->rows.berth->profile, CDZ_WORK_TEXT);
    for (uint32_t at = row->n_emitted; (at = cdz_loop_shown(row, at, n, &end)) < n; at = end)
        tell(loop, r, at, end);
    row->n_emitted = n;
    cdz_profile_mark(loop->rows.berth->profile, was);
}

/* Is a row to be computed that is filled with pad? */
static bool computes_ended(const cdz_loop *loop)
{
    return loop->set->computes_ended || cdz_watch_sees_ended(&loop->rows);
}

void cdz_loop_end_row(cdz_loop *loop, uint32_t r)
{
    cdz_request_row *row = &loop->rows.at[r];
    row->done = true;
    /* Where the context is full, nothing can come after it: the row does not run on without an eos either. */
    const bool full = cdz_loop_fills_context(loop, r, row->seq->n);
    row->pads = loop->set->has_eos || full;
    row->skip = full || (row->pads && !computes_ended(loop));
    row->n_new = n_generated(loop, r);
    loop->n_open--;
    /* Held rows are given out when the loop ends: until then the strategy may still change them. */
    if (!loop->rows.holds_text) cdz_loop_emit(loop, r, true);
    cdz_watch_stop(&loop->rows, r, cdz_row_ids(row), &row->stop);
}

/* --- append --------------------------------------------------------------------------------------------------- */

cdz_status cdz_loop_check_token(cdz_loop *loop, const char *verb, uint32_t r, int32_t token)
{
    if (token >= 0 && (uint32_t)token < loop->rows.n_vocab) return CDZ_OK;
    return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                         "%s: token %" PRId32 " for row %" PRIu32
                         " is outside the vocabulary of %" PRIu32,
                         verb, token, cdz_loop_nth(loop, r), loop->rows.n_vocab);
}

/* What fills a row that ended. */
static int32_t filler(const cdz_loop *loop)
{
    if (loop->rows.info.pad >= 0) return loop->rows.info.pad;
    return loop->rows.info.eos.len ? loop->rows.info.eos.at[0] : 0;
}

/* The row has grown by a token: its stages are told. */
static cdz_status hear(cdz_loop *loop, uint32_t r, int32_t token)
{
    cdz_rows *rows = &loop->rows;
    unsigned char *const state = loop->set->states[r].state;
    CDZ_TRY(cdz_stages_accept(loop->set, rows, cdz_row_ids(&rows->at[r]), r, state, token));
    return cdz_stage_state_mark(loop->set, rows, r);
}

cdz_status cdz_loop_grow(cdz_loop *loop, uint32_t r, int32_t token)
{
    const cdz_request_row *row = &loop->rows.at[r];
    CDZ_TRY(cdz_seq_push(row->seq, &token, 1, &loop->rows.error));
    if (row->pads) return CDZ_OK;
    CDZ_TRY(hear(loop, r, token));
    cdz_watch_token(&loop->rows, r, token);
    return CDZ_OK;
}

static cdz_status append_one(cdz_loop *loop, uint32_t r, int32_t token)
{
    CDZ_TRY(cdz_loop_grow(loop, r, token));
    if (!loop->rows.at[r].done) cdz_loop_emit(loop, r, false);
    return CDZ_OK;
}

cdz_status cdz_loop_ask_rules(cdz_loop *loop)
{
    cdz_stop *stops =
        cdz_scratch_take(&loop->rows.verb_scratch, (loop->rows.view.n + 1) * sizeof *stops);
    if (!stops) return cdz_loop_nomem(loop);
    memset(stops, 0, loop->rows.view.n * sizeof *stops);
    CDZ_TRY(cdz_loop_test(loop, &loop->rows.view, stops));
    for (uint32_t i = 0; i < loop->rows.view.n; i++) {
        cdz_request_row *row = &loop->rows.at[loop->rows.view.rows[i]];
        if (stops[i].reason == CDZ_GO_ON || row->done) continue;
        row->stop = stops[i];
        cdz_loop_end_row(loop, loop->rows.view.rows[i]);
    }
    return CDZ_OK;
}

/* Only rows still open can be ended: a finished row stays finished, with its first reason. Criteria may be asked about the
 * others all the same. */
static void view_rows(cdz_loop *loop)
{
    cdz_view *view = &loop->rows.view;
    view->n = 0;
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        const cdz_request_row *row = &loop->rows.at[r];
        if (row->done && !loop->set->asks_of_ended) continue;
        view->ids[view->n] = cdz_row_ids(row);
        view->rows[view->n] = r;
        view->states[view->n++] = loop->set->states[r].state;
    }
}

cdz_status cdz_verb_append(cdz_decoder *dec, uint32_t r, int32_t token)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, CDZ_VERB_SCRATCH));
    if (r >= loop->rows.n)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "append: row %" PRIu32 " of %" PRIu32,
                             cdz_loop_nth(loop, r), loop->rows.n);
    CDZ_TRY(cdz_loop_check_token(loop, "append", r, token));
    cdz_request_row *row = &loop->rows.at[r];
    if (row->pads)
        return cdz_loop_fail(loop, CDZ_E_STATE, "append: row %" PRIu32 " has ended",
                             cdz_loop_nth(loop, r));
    cdz_record_token(loop, r, token);
    CDZ_TRY(append_one(loop, r, token));
    if (row->done) return CDZ_OK;
    cdz_stages_look(loop->set, &loop->rows, r, 1);
    return cdz_loop_ask_rules(loop);
}

static cdz_status record_row(cdz_decoder *dec, cdz_record_kind what, const cdz_scores *rows,
                             uint32_t i)
{
    if (!rows) return CDZ_OK;
    cdz_scores row = *rows;
    row.data = cdz_row(rows, i);
    row.n_rows = 1;
    return cdz_verb_record(dec, what, &row);
}

static cdz_status check_chunk(cdz_loop *loop, uint32_t r, const int32_t *tokens, uint32_t n,
                              const cdz_scores *logits, const cdz_scores *scores)
{
    if (loop->rows.n != 1 && (logits || scores))
        return cdz_loop_fail(loop, CDZ_E_STATE,
                             "append_chunk: steps of one row among %" PRIu32 " cannot be recorded",
                             loop->rows.n);
    if ((logits && logits->n_rows < n) || (scores && scores->n_rows < n))
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "append_chunk: fewer score rows than tokens");
    if (r >= loop->rows.n)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "append_chunk: row %" PRIu32 " of %" PRIu32,
                             cdz_loop_nth(loop, r), loop->rows.n);
    if (loop->rows.at[r].done)
        return cdz_loop_fail(loop, CDZ_E_STATE, "append_chunk: row %" PRIu32 " has ended",
                             cdz_loop_nth(loop, r));
    for (uint32_t i = 0; i < n; i++)
        CDZ_TRY(cdz_loop_check_token(loop, "append_chunk", r, tokens[i]));
    return CDZ_OK;
}

cdz_status cdz_verb_append_chunk(cdz_decoder *dec, uint32_t r, const int32_t *tokens, uint32_t n,
                                 const cdz_scores *logits, const cdz_scores *scores, uint32_t *taken)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    CDZ_TRY(check_chunk(loop, r, tokens, n, logits, scores));
    const bool first = loop->recorder.n == 0;
    uint32_t i = 0;
    while (i < n && !loop->rows.at[r].done) {
        CDZ_TRY(record_row(dec, CDZ_RECORD_LOGITS, logits, i));
        CDZ_TRY(record_row(dec, CDZ_RECORD_SCORES, scores, i));
        cdz_scratch_reset(&loop->rows.verb_scratch);
        cdz_record_token(loop, r, tokens[i]);
        CDZ_TRY(append_one(loop, r, tokens[i++]));
        if (i < n && loop->rows.config.quirks) continue;
        cdz_stages_look(loop->set, &loop->rows, r, 1);
        CDZ_TRY(cdz_loop_ask_rules(loop));
    }
    if (first) loop->recorder.n_first_chunk = loop->recorder.n;
    if (taken) *taken = i;
    return CDZ_OK;
}

cdz_status cdz_verb_append_rows(cdz_decoder *dec, int32_t *tokens)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, CDZ_VERB_SCRATCH));
    for (uint32_t r = 0; r < loop->rows.n; r++)
        if (loop->rows.at[r].pads)
            tokens[r] = filler(loop);
        else
            CDZ_TRY(cdz_loop_check_token(loop, "append_rows", r, tokens[r]));
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        cdz_record_token(loop, r, tokens[r]);
        CDZ_TRY(append_one(loop, r, tokens[r]));
    }
    view_rows(loop);
    return cdz_loop_ask_rules(loop);
}

/* --- rewind --------------------------------------------------------------------------------------------------- */

uint32_t cdz_verb_rewindable(const cdz_decoder *dec, uint32_t r)
{
    const cdz_loop *loop = cdz_loop_of(dec);
    return r < loop->rows.n && loop->rows.holds_text
               ? n_generated(loop, r) - loop->rows.at[r].n_committed
               : 0;
}

cdz_status cdz_verb_rewind(cdz_decoder *dec, uint32_t r, uint32_t n)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    if (!loop->rows.holds_text)
        return cdz_loop_fail(loop, CDZ_E_STATE,
                             "rewind: a strategy that takes tokens back declares CDZ_REWINDS");
    const uint32_t most = cdz_verb_rewindable(dec, r);
    if (r >= loop->rows.n || n > most)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "rewind: %" PRIu32 " tokens of row %" PRIu32 ", of which "
                             "%" PRIu32 " can be taken back",
                             n, cdz_loop_nth(loop, r), most);
    if (n == 0) return CDZ_OK;
    cdz_request_row *row = &loop->rows.at[r];
    cdz_seq_cut(row->seq, row->seq->n - n);
    cdz_loop_cut_inserted(&row->inserted, n_generated(loop, r));
    if (row->done) loop->n_open++;
    row->done = row->pads = row->skip = false;
    row->stop = (cdz_stop){0};
    if (loop->rows.n == 1) cdz_record_rewind(loop, n);
    CDZ_TRY(cdz_stage_state_rewind(loop->set, &loop->rows, r));
    cdz_watch_rewind(&loop->rows, r, n);
    return CDZ_OK;
}

cdz_status cdz_verb_commit(cdz_decoder *dec, uint32_t r, uint32_t n)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    const cdz_strategy *strategy = (const void *)loop->strategy.plugin.base;
    if (strategy->caps & CDZ_BEAMS)
        return cdz_loop_fail(loop, CDZ_E_STATE,
                             "commit: the rows of a search (CDZ_BEAMS) change places until it ends");
    if (r >= loop->rows.n || n > n_generated(loop, r))
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "commit: %" PRIu32 " new tokens of row %" PRIu32 ", which has %" PRIu32,
                             n, cdz_loop_nth(loop, r), r < loop->rows.n ? n_generated(loop, r) : 0);
    cdz_request_row *row = &loop->rows.at[r];
    if (n <= row->n_committed || !loop->rows.holds_text) return CDZ_OK;
    row->n_committed = n;
    cdz_loop_emit(loop, r, false);
    return CDZ_OK;
}

/* --- reorder -------------------------------------------------------------------------------------------------- */

static cdz_status spare_for(cdz_loop *loop, cdz_request_row *row)
{
    if (row->spare) return CDZ_OK;
    row->spare = cdz_arena_alloc(&loop->rows.arena, sizeof *row->spare);
    if (!row->spare) return cdz_loop_nomem(loop);
    CDZ_TRY(cdz_seq_init(row->spare, loop->rows.model, row->seq->account, row->seq->cap,
                         &loop->rows.error));
    row->spare->is_row = true;
    return CDZ_OK;
}

/* The next generation of row r, built beside the present one. */
static cdz_status build_copy(cdz_loop *loop, uint32_t r, uint32_t parent)
{
    cdz_request_row *row = &loop->rows.at[r];
    const cdz_request_row *from = &loop->rows.at[parent];
    CDZ_TRY(spare_for(loop, row));
    CDZ_TRY(cdz_seq_copy(row->spare, from->seq, &loop->rows.error));
    CDZ_TRY(cdz_loop_copy_inserted(loop, &row->spare_inserted, &from->inserted));
    return cdz_stage_state_breed(loop->set, &loop->rows, r, parent);
}

static void swap_in(cdz_request_row *row, const cdz_request_row *from)
{
    cdz_seq *seq = row->seq;
    row->seq = row->spare;
    row->spare = seq;
    cdz_seq_cut(row->spare, 0); /* gives its blocks back */
    const cdz_insertions inserted = row->inserted;
    row->inserted = row->spare_inserted;
    row->spare_inserted = inserted;
    row->done = from->done;
    row->pads = from->pads;
    row->skip = from->skip;
    row->stop = from->stop;
    row->n_new = from->n_new;
}

/* What a row has committed has been told: whoever takes its place begins with it. */
static cdz_status check_committed(cdz_loop *loop, const uint32_t *parents)
{
    const uint32_t prompt = loop->rows.info.prompt_len;
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        const cdz_request_row *row = &loop->rows.at[r];
        const cdz_seq *from = loop->rows.at[parents[r]].seq;
        const uint32_t n = row->n_committed;
        if (n == 0 || (from->n - prompt >= n && memcmp(from->ids + prompt, row->seq->ids + prompt,
                                                       n * sizeof *from->ids) == 0))
            continue;
        return cdz_loop_fail(loop, CDZ_E_STATE,
                             "reorder: row %" PRIu32 " has committed %" PRIu32 " new tokens, which "
                             "row %" PRIu32 " does not begin with",
                             cdz_loop_nth(loop, r), n, cdz_loop_nth(loop, parents[r]));
    }
    return CDZ_OK;
}

cdz_status cdz_verb_reorder(cdz_decoder *dec, const uint32_t *parents)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, CDZ_VERB_SCRATCH));
    for (uint32_t r = 0; r < loop->rows.n; r++)
        if (parents[r] >= loop->rows.n)
            return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                                 "reorder: parent %" PRIu32 " of row %" PRIu32 ", but there are "
                                 "%" PRIu32 " rows",
                                 cdz_loop_nth(loop, parents[r]), cdz_loop_nth(loop, r),
                                 loop->rows.n);
    CDZ_TRY(check_committed(loop, parents));
    cdz_request_row *old = cdz_scratch_take(&loop->rows.verb_scratch, loop->rows.n * sizeof *old);
    if (!old) return cdz_loop_nomem(loop);
    memcpy(old, loop->rows.at, loop->rows.n * sizeof *old);
    for (uint32_t r = 0; r < loop->rows.n; r++)
        if (parents[r] != r) CDZ_TRY(build_copy(loop, r, parents[r]));
    CDZ_TRY(cdz_companions_reorder(loop, parents));
    loop->n_open = 0;
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        if (parents[r] != r) {
            swap_in(&loop->rows.at[r], &old[parents[r]]);
            cdz_stage_state_swap(loop->set, r);
        }
        loop->n_open += !loop->rows.at[r].done;
    }
    return cdz_watch_reorder(&loop->rows, parents);
}

cdz_status cdz_verb_extend_rows(cdz_decoder *dec, const uint32_t *parents, const int32_t *tokens)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    for (uint32_t r = 0; r < loop->rows.n; r++)
        CDZ_TRY(cdz_loop_check_token(loop, "extend_rows", r, tokens[r]));
    for (uint32_t r = 0; r < loop->rows.n; r++)
        if (parents[r] < loop->rows.n && loop->rows.at[parents[r]].done)
            return cdz_loop_fail(loop, CDZ_E_STATE, "extend_rows: row %" PRIu32 " has ended",
                                 cdz_loop_nth(loop, parents[r]));
    CDZ_TRY(cdz_verb_reorder(dec, parents));
    cdz_record_close(loop);
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        cdz_request_row *row = &loop->rows.at[r];
        CDZ_TRY(cdz_seq_push(row->seq, &tokens[r], 1, &loop->rows.error));
        CDZ_TRY(hear(loop, r, tokens[r]));
        cdz_watch_token(&loop->rows, r, tokens[r]);
    }
    return CDZ_OK;
}
