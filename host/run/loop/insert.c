/* insert.c - text of a row that the model did not write: a tool's answer, a passage that was looked up, a correction.
 *
 * Owns: which of a row's new tokens those are, through rewinds and reorders. Invariant: a row's insertions lie in order, one
 * behind the other, within its new tokens. Not: how a row grows (append.c). */
#include <inttypes.h>
#include <string.h>

#include "run/loop/loop.h"
#include "run/loop/verbs.h"

enum { MOST_WHO = 64 };

uint32_t cdz_loop_shown(const cdz_request_row *row, uint32_t from, uint32_t to, uint32_t *end)
{
    uint32_t at = from;
    *end = to;
    for (uint32_t i = 0; i < row->inserted.n; i++) {
        const cdz_span *span = &row->inserted.at[i].span;
        if (span->shown || span->to <= at) continue;
        if (span->from > at) {
            if (span->from < to) *end = span->from;
            break;
        }
        at = span->to;
    }
    return at < to ? at : to;
}

void cdz_loop_cut_inserted(cdz_insertions *in, uint32_t n)
{
    while (in->n && in->at[in->n - 1].span.to > n) {
        struct cdz_insertion *last = &in->at[in->n - 1];
        const uint32_t from = last->span.from < n ? n : last->span.from;
        if (!last->counts) in->n_uncounted -= last->span.to - from;
        last->span.to = n;
        if (last->span.from < n) return;
        in->n--;
    }
}

static cdz_status room_for(cdz_loop *loop, cdz_insertions *in, uint32_t n)
{
    if (n <= in->cap) return CDZ_OK;
    const uint32_t cap = n < 4 ? 4 : 2 * n;
    struct cdz_insertion *grown = cdz_arena_array(&loop->rows.arena, cap, sizeof *grown);
    if (!grown) return cdz_loop_nomem(loop);
    if (in->n) memcpy(grown, in->at, in->n * sizeof *grown);
    in->at = grown;
    in->cap = cap;
    return CDZ_OK;
}

cdz_status cdz_loop_copy_inserted(cdz_loop *loop, cdz_insertions *to, const cdz_insertions *from)
{
    to->n = 0;
    CDZ_TRY(room_for(loop, to, from->n));
    if (from->n) memcpy(to->at, from->at, from->n * sizeof *to->at);
    to->n = from->n;
    to->n_uncounted = from->n_uncounted;
    return CDZ_OK;
}

bool cdz_loop_any_inserted(const cdz_loop *loop)
{
    for (uint32_t r = 0; r < loop->rows.n; r++)
        if (loop->rows.at[r].inserted.n) return true;
    return false;
}

/* --- the verb ----------------------------------------------------------------------------------------------------- */

/* What of the request does not go with such text; NULL: all does. */
static const char *against(const cdz_loop *loop)
{
    const cdz_job *job = loop->job;
    if (job->keep_hidden || job->keep_attentions) return "records states of each step";
    if (cdz_record_wants(loop, CDZ_RECORD_LOGITS) || cdz_record_wants(loop, CDZ_RECORD_SCORES))
        return "records scores or log-probabilities of each step";
    if (job->n_constraints) return "has an answer that follows a constraint";
    return NULL;
}

static cdz_status check_insert(cdz_loop *loop, uint32_t r, const int32_t *ids, uint32_t n,
                               uint32_t flags, const char *who)
{
    const char *why = against(loop);
    if (why)
        return cdz_loop_fail(loop, CDZ_E_UNSUPPORTED,
                             "insert: the request %s; text that the model did not write has no part "
                             "in that",
                             why);
    if (r >= loop->rows.n)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "insert: row %" PRIu32 " of %" PRIu32,
                             cdz_loop_nth(loop, r), loop->rows.n);
    if (loop->rows.at[r].done)
        return cdz_loop_fail(loop, CDZ_E_STATE, "insert: row %" PRIu32 " has ended",
                             cdz_loop_nth(loop, r));
    if (flags & ~(uint32_t)(CDZ_INSERT_SHOWN | CDZ_INSERT_COUNTS | CDZ_INSERT_STOPS))
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "insert: flags 0x%" PRIx32 " have no meaning",
                             flags);
    if (who && strlen(who) > MOST_WHO)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "insert: a name of more than 64 bytes");
    for (uint32_t i = 0; i < n; i++) CDZ_TRY(cdz_loop_check_token(loop, "insert", r, ids[i]));
    return CDZ_OK;
}

/* A span of no tokens yet at the row's end; it grows with them, so that rules which are asked in it see what it is. */
static cdz_status begin_span(cdz_loop *loop, uint32_t r, uint32_t flags, const char *who)
{
    cdz_request_row *row = &loop->rows.at[r];
    const uint32_t at = row->seq->n - loop->rows.info.prompt_len;
    CDZ_TRY(room_for(loop, &row->inserted, row->inserted.n + 1));
    const char *name = cdz_arena_strdup(&loop->rows.arena, who ? who : "");
    if (!name) return cdz_loop_nomem(loop);
    row->inserted.at[row->inserted.n++] =
        (struct cdz_insertion){.span = {at, at, (flags & CDZ_INSERT_SHOWN) != 0, name},
                               .counts = (flags & CDZ_INSERT_COUNTS) != 0};
    return CDZ_OK;
}

static cdz_status insert_one(cdz_loop *loop, uint32_t r, int32_t token, uint32_t flags)
{
    cdz_insertions *in = &loop->rows.at[r].inserted;
    cdz_record_close(loop);
    in->at[in->n - 1].span.to++;
    in->n_uncounted += !(flags & CDZ_INSERT_COUNTS);
    CDZ_TRY(cdz_loop_grow(loop, r, token));
    cdz_loop_emit(loop, r, false);
    if (!(flags & CDZ_INSERT_STOPS)) return CDZ_OK;
    cdz_scratch_reset(&loop->rows.verb_scratch);
    cdz_stages_look(loop->set, &loop->rows, r, 1);
    return cdz_loop_ask_rules(loop);
}

cdz_status cdz_verb_insert(cdz_decoder *dec, uint32_t r, const int32_t *ids, uint32_t n,
                           uint32_t flags, const char *who)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, CDZ_VERB_SCRATCH));
    CDZ_TRY(check_insert(loop, r, ids, n, flags, who));
    if (n == 0) return CDZ_OK;
    CDZ_TRY(begin_span(loop, r, flags, who));
    for (uint32_t i = 0; i < n && !loop->rows.at[r].done; i++)
        CDZ_TRY(insert_one(loop, r, ids[i], flags));
    return CDZ_OK;
}
