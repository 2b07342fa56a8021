/* return.c - the sequences a search hands back in place of the request's rows.
 *
 * Owns: copies of them, in the outcome's arena. Works after cancellation too: a search that was stopped returns what it has
 * found by then. */
#include <inttypes.h>
#include <string.h>

#include "run/loop/loop.h"
#include "run/loop/verbs.h"
#include "run/stages/watch.h"

static cdz_status check_returned(cdz_loop *loop, const cdz_returned *rows, uint32_t n)
{
    if (loop->rows.berth->apart)
        return cdz_loop_fail(loop, CDZ_E_STATE,
                             "return_rows: a loop of one row among several gives back its own row");
    if (cdz_loop_any_inserted(loop))
        return cdz_loop_fail(loop, CDZ_E_STATE,
                             "return_rows: a row that has text of others (insert) is the answer "
                             "itself");
    for (uint32_t r = 0; r < loop->rows.n; r++)
        if (loop->rows.at[r].n_committed)
            return cdz_loop_fail(loop, CDZ_E_STATE,
                                 "return_rows: row %" PRIu32 " has committed tokens, and is the "
                                 "answer itself",
                                 cdz_loop_nth(loop, r));
    if (n == 0 || n > loop->rows.n)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "return_rows: %" PRIu32 " sequences of a request of %" PRIu32 " rows",
                             n, loop->rows.n);
    for (uint32_t i = 0; i < n; i++)
        if (rows[i].row >= loop->rows.n || rows[i].n_new > rows[i].ids.len ||
            rows[i].stop.reason > CDZ_STOP_CUSTOM)
            return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                                 "return_rows: sequence %" PRIu32 " continues row %" PRIu32
                                 " of %" PRIu32 ", %" PRIu32 " of its %" PRIu32
                                 " ids are new, and its reason is %" PRIu32,
                                 cdz_loop_nth(loop, i), cdz_loop_nth(loop, rows[i].row),
                                 loop->rows.n, rows[i].n_new, rows[i].ids.len, rows[i].stop.reason);
    return CDZ_OK;
}

/* New tokens are of the vocabulary; what fills a sequence up may be anything. */
static cdz_status check_tokens(cdz_loop *loop, const cdz_returned *row)
{
    for (uint32_t i = 0; i < row->n_new; i++)
        if (row->ids.at[i] < 0 || (uint32_t)row->ids.at[i] >= loop->rows.n_vocab)
            return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                                 "return_rows: token %" PRId32
                                 " is outside the vocabulary of %" PRIu32,
                                 row->ids.at[i], loop->rows.n_vocab);
    return CDZ_OK;
}

static cdz_status copy_row(cdz_loop *loop, const cdz_returned *from, cdz_outcome_row *to)
{
    cdz_arena *arena = &loop->rows.berth->outcome->arena;
    const uint32_t prompt = loop->rows.info.prompt_len;
    CDZ_TRY(check_tokens(loop, from));
    if (from->ids.len > INT32_MAX - prompt) return cdz_loop_nomem(loop);
    *to = (cdz_outcome_row){.len = prompt + from->ids.len, .n_new = from->n_new, .stop = from->stop};
    to->ids = cdz_arena_array(arena, to->len, sizeof *to->ids);
    to->stop.text.at =
        cdz_arena_strndup(arena, from->stop.text.at ? from->stop.text.at : "", from->stop.text.len);
    if (!to->ids || !to->stop.text.at) return cdz_loop_nomem(loop);
    /* The row's own beginning is the prompt, whatever it was extended by. */
    memcpy(to->ids, loop->rows.at[from->row].seq->ids, prompt * sizeof *to->ids);
    if (from->ids.len) memcpy(to->ids + prompt, from->ids.at, from->ids.len * sizeof *to->ids);
    if (!from->scores) return CDZ_OK;
    cdz_token_score *scores = cdz_arena_array(arena, (size_t)from->n_new + 1, sizeof *scores);
    if (!scores) return cdz_loop_nomem(loop);
    if (from->n_new) memcpy(scores, from->scores, from->n_new * sizeof *scores);
    to->scores = scores;
    return CDZ_OK;
}

cdz_status cdz_verb_return_rows(cdz_decoder *dec, const cdz_returned *rows, uint32_t n)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, CDZ_VERB_LATE)); /* what a search has found by then is its answer */
    CDZ_TRY(check_returned(loop, rows, n));
    cdz_outcome_row *all = cdz_arena_array(&loop->rows.berth->outcome->arena, n, sizeof *all);
    if (!all) return cdz_loop_nomem(loop);
    for (uint32_t i = 0; i < n; i++) CDZ_TRY(copy_row(loop, &rows[i], &all[i]));
    loop->returned = all;
    loop->n_returned = n;
    for (uint32_t i = 0; i < n; i++)
        cdz_watch_stop(&loop->rows, rows[i].row, (cdz_ids){all[i].ids, all[i].len}, &all[i].stop);
    return CDZ_OK;
}

/* Searches stream nothing while they run: whoever listens gets each sequence whole, at the end. */
void cdz_loop_emit_returned(cdz_loop *loop)
{
    const cdz_job *job = loop->job;
    for (uint32_t r = 0; job->on_tokens && r < loop->n_returned; r++)
        if (loop->returned[r].n_new)
            job->on_tokens(job->user, &(cdz_new_tokens){.row = r,
                                                        .ids = loop->returned[r].ids +
                                                               loop->rows.info.prompt_len,
                                                        .n = loop->returned[r].n_new,
                                                        .scores = loop->returned[r].scores});
}
