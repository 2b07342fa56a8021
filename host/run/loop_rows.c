/* loop_rows.c - verbs on the request's rows: what they hold, their scores, their end. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "run/companion.h"
#include "run/edits.h"
#include "run/engine_parts.h"
#include "run/fuse.h"
#include "run/task.h"
#include "run/verbs.h"

uint32_t cdz_verb_n_rows(const cdz_decoder *dec)
{
    return cdz_loop_of(dec)->n_rows;
}

cdz_ids cdz_row_ids(const cdz_loop_row *row)
{
    return (cdz_ids){row->seq->ids, row->seq->n};
}

bool cdz_row_runs(const cdz_loop *loop, uint32_t row)
{
    return !loop->rows[row].skip;
}

cdz_ids cdz_verb_input_ids(const cdz_decoder *dec, uint32_t row)
{
    const cdz_loop *loop = cdz_loop_of(dec);
    return row < loop->n_rows ? cdz_row_ids(&loop->rows[row]) : (cdz_ids){NULL, 0};
}

bool cdz_verb_done(const cdz_decoder *dec)
{
    cdz_loop *loop = cdz_loop_of(dec);
    return loop->n_open == 0 || cdz_loop_alive(loop) != CDZ_OK;
}

bool cdz_verb_row_done(const cdz_decoder *dec, uint32_t row)
{
    const cdz_loop *loop = cdz_loop_of(dec);
    return row >= loop->n_rows || loop->rows[row].done;
}

/* --- forward -------------------------------------------------------------------------------------------------- */

static bool same_ids(const cdz_seq *a, const cdz_seq *b)
{
    return a->n == b->n && a->mask == b->mask && a->embeds == b->embeds && a->source == b->source &&
           memcmp(a->ids, b->ids, a->n * sizeof *a->ids) == 0;
}

/* The first row before r that starts from the same prompt: it computes, r takes over its cache. r: none. */
static uint32_t leader(const cdz_loop *loop, uint32_t r)
{
    if (loop->prefilled || loop->rows[r].seq->computed) return r;
    for (uint32_t l = 0; l < r; l++)
        if (cdz_row_runs(loop, l) && !loop->rows[l].seq->computed &&
            same_ids(loop->rows[l].seq, loop->rows[r].seq))
            return l;
    return r;
}

/* Rows that have a leader share its cache and scores. The last position is each row's own to compute again, so the
 * shared blocks stay as they are until a row writes. */
static cdz_status follow(cdz_loop *loop, const uint32_t *leaders)
{
    for (uint32_t r = 0; r < loop->n_rows; r++) {
        const uint32_t l = leaders[r];
        if (l == r) continue;
        CDZ_TRY(cdz_seq_adopt(loop->rows[r].seq, loop->rows[l].seq, &loop->error));
        CDZ_TRY(cdz_loop_arrive(loop, l, 1));
        if (cdz_away_has(&loop->away, l))
            cdz_away_repeat(&loop->away, r, l);
        else
            memcpy(loop->scores.data + (size_t)r * loop->n_vocab,
                   loop->scores.data + (size_t)l * loop->n_vocab, loop->n_vocab * sizeof(float));
        cdz_loop_follow_hidden(loop, r, l);
    }
    return CDZ_OK;
}

/* Positions of the longest row, ended ones too: their filler counts in the reference. */
static uint32_t longest(const cdz_loop *loop)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < loop->n_rows; r++) {
        const uint32_t n = cdz_seq_visible(loop->rows[r].seq);
        if (n > most) most = n;
    }
    return most;
}

/* The first processor that has to see the whole row, or all of them. */
static const char *reading_processor(const cdz_loop *loop)
{
    for (uint32_t i = 0; i < loop->n_processors; i++)
        if (loop->processors[i].form.kind == CDZ_FORM_OTHER) return loop->processors[i].plugin->id;
    return "processors";
}

/* Who reads the next rows of scores, as far as it is known; NULL: nobody, or only what *wish says of them.
 * Who would read them on the device is not known before it has, and is expected to go on. */
static const char *reader_of_rows(const cdz_loop *loop, cdz_fuse_wishes *wish)
{
    if (loop->n_watchers) return "observers";
    if (cdz_companions_most(loop)) return "companions";
    if (cdz_record_wants(loop, CDZ_RECORD_LOGITS) || cdz_record_wants(loop, CDZ_RECORD_SCORES))
        return "the answer";
    if (!cdz_fuse_wish(loop, wish)) return reading_processor(loop);
    if (loop->away.asked) return loop->strategy.plugin.base->id;
    return loop->away.resting ? "cuts below the leaders" : NULL;
}

/* May the next rows of scores stay on the device? Who reads them, if they may not. */
static const char *ask_away(cdz_loop *loop)
{
    cdz_away *away = &loop->away;
    cdz_fuse_wishes wish = {0};
    const char *reader = reader_of_rows(loop, &wish);
    if (away->resting) away->resting--;
    if (reader) return reader;
    if (!away->begun) cdz_away_begin(away, loop->model->device, loop->n_rows, loop->n_vocab);
    if (!away->rows || !cdz_away_wish(away, wish.least, wish.divisor)) return "want of memory";
    away->cuts = wish.cuts;
    away->open = wish.open;
    return cdz_edits_plan(loop);
}

static void plan_away(cdz_loop *loop)
{
    cdz_away *away = &loop->away;
    cdz_away_arrive(away, 0, away->n_coming); /* of the step before, if nobody read them */
    away->reader = ask_away(loop);
    away->on = away->reader == NULL;
    if (!away->on) cdz_away_expect(away, loop->model->device, loop->n_rows);
}

void cdz_loop_note_fetched(cdz_loop *loop, uint32_t n)
{
    loop->task->engine->now.rows_fetched += n;
    if (!loop->profile) return;
    loop->profile->times.scores.fetched += n;
    loop->profile->times.scores.bytes += (uint64_t)n * loop->n_vocab * sizeof(float);
}

cdz_status cdz_loop_arrive(cdz_loop *loop, uint32_t first, uint32_t n)
{
    const cdz_work was = cdz_profile_mark(loop->profile, CDZ_WORK_HEAD);
    const bool any = cdz_away_arrive(&loop->away, first, n);
    cdz_profile_mark(loop->profile, was);
    return any ? cdz_layers_check(loop->model->layers, &loop->error) : CDZ_OK;
}

cdz_status cdz_loop_fetch(cdz_loop *loop, uint32_t first, uint32_t n)
{
    CDZ_TRY(cdz_loop_arrive(loop, first, n));
    const uint32_t fetched = cdz_away_fetch(&loop->away, loop->scores.data, first, n);
    cdz_loop_note_fetched(loop, fetched);
    loop->away.asked |= fetched > 0;
    return fetched ? cdz_layers_check(loop->model->layers, &loop->error) : CDZ_OK;
}

static void note_rows(cdz_loop *loop, uint32_t away, uint32_t brought, uint64_t told)
{
    loop->task->engine->now.rows_away += away;
    if (!loop->profile || loop->model->device->api->host_memory) return;
    cdz_rows_moved *scores = &loop->profile->times.scores;
    scores->away += away;
    scores->brought += brought;
    scores->bytes += told + (uint64_t)brought * loop->n_vocab * sizeof(float);
    if (brought && loop->away.reader)
        snprintf(scores->reader, sizeof scores->reader, "%s", loop->away.reader);
}

/* What the strategy is given. */
static cdz_scores given_scores(cdz_loop *loop)
{
    cdz_scores scores = cdz_matrix_scores(&loop->scores);
    uint32_t away = 0, brought = 0;
    uint64_t told = 0;
    for (uint32_t r = 0; r < loop->n_rows; r++) {
        const bool there = cdz_away_has(&loop->away, r), runs = cdz_row_runs(loop, r);
        if (there || cdz_away_comes(&loop->away, r)) scores.data = NULL;
        away += runs && there;
        brought += runs && !there;
        if (runs && there) told += cdz_away_told(&loop->away, r);
    }
    note_rows(loop, away, brought, told);
    return scores;
}

/* The want for every row that runs and leads. */
static cdz_status want_rows(cdz_loop *loop, const uint32_t *leaders)
{
    loop->want = (cdz_want){.model = loop->model,
                            .seqs = loop->want_seqs,
                            .positions = CDZ_POSITIONS_LAST,
                            .out = loop->scores.data,
                            .stride = loop->n_vocab,
                            .away = loop->away.rows ? &loop->away : NULL,
                            .coming = loop->away.coming,
                            .n_coming = loop->away.on ? 0 : loop->away.n_coming,
                            .length = longest(loop)};
    for (uint32_t r = 0; r < loop->n_rows; r++) {
        if (!cdz_row_runs(loop, r) || leaders[r] != r) continue;
        if (!loop->config.use_cache) cdz_seq_forget(loop->rows[r].seq);
        cdz_seq_rotate_for(loop->rows[r].seq, loop->want.length);
        CDZ_TRY(cdz_seq_prepare(loop->rows[r].seq, &loop->error));
        loop->want_seqs[loop->want.n_seqs++] =
            (cdz_want_seq){.seq = loop->rows[r].seq, .row0 = r, .hidden0 = r};
    }
    if (loop->hidden.n && loop->hidden.positions != CDZ_POSITIONS_LAST)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "forward: keeps hidden states of the last position only; seq_forward "
                             "keeps all");
    return cdz_loop_want_hidden(loop, loop->n_rows);
}

cdz_status cdz_verb_forward(cdz_decoder *dec, cdz_scores *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, CDZ_VERB_SCRATCH));
    cdz_loop_renew(loop);
    uint32_t *leaders = cdz_scratch_take(&loop->verb_scratch, loop->n_rows * sizeof *leaders);
    if (!leaders || !cdz_loop_want(loop, loop->n_rows + cdz_companions_most(loop)))
        return cdz_loop_nomem(loop);
    for (uint32_t r = 0; r < loop->n_rows; r++) leaders[r] = leader(loop, r);

    plan_away(loop);
    CDZ_TRY(want_rows(loop, leaders));
    CDZ_TRY(cdz_companions_ride(loop));
    CDZ_TRY(cdz_loop_await(loop));
    CDZ_TRY(cdz_companions_rode(loop));
    CDZ_TRY(follow(loop, leaders));
    loop->prefilled = true;
    *out = given_scores(loop);
    return CDZ_OK;
}

/* --- process -------------------------------------------------------------------------------------------------- */

void cdz_loop_view_rows(cdz_loop *loop, uint32_t first, uint32_t n)
{
    loop->view.n = n;
    for (uint32_t i = 0; i < n; i++) {
        loop->view.ids[i] = cdz_row_ids(&loop->rows[first + i]);
        loop->view.rows[i] = first + i;
        loop->view.states[i] = loop->rows[first + i].state;
    }
}

cdz_status cdz_loop_rows_of(cdz_loop *loop, const char *verb, const cdz_scores *given,
                            cdz_scores *out, uint32_t *first)
{
    CDZ_TRY(cdz_loop_find(loop, verb, given, out, first));
    if (out->n_rows <= loop->n_rows && *first <= loop->n_rows - out->n_rows) return CDZ_OK;
    return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                         "%s: %" PRIu32 " score rows from row %" PRIu32
                         " on, but the request has %" PRIu32 " rows",
                         verb, out->n_rows, cdz_loop_nth(loop, *first), loop->n_rows);
}

/* Rows that processors change few scores of stay away; (*settled)[r]: is one. The others come over. NULL: all of them. */
static cdz_status process_away(cdz_loop *loop, const cdz_scores *rows, uint32_t first,
                               cdz_drawn **settled)
{
    cdz_away *away = &loop->away;
    uint32_t stayed = 0, fetched = 0;
    cdz_drawn *stays = cdz_scratch_take(&loop->verb_scratch, rows->n_rows * sizeof *stays);
    if (!stays) return cdz_loop_nomem(loop);
    memset(stays, 0, rows->n_rows * sizeof *stays);
    for (uint32_t r = 0; r < rows->n_rows; r++) {
        if (!cdz_away_has(away, first + r) || !cdz_row_runs(loop, first + r)) continue;
        stays[r].listed = cdz_edits_settle(loop, rows, first, r);
        if (stays[r].listed)
            stayed++;
        else
            fetched += cdz_away_fetch(away, loop->scores.data, first + r, 1);
    }
    cdz_loop_note_fetched(loop, fetched);
    if (stayed || fetched) cdz_away_note(away, fetched == 0);
    *settled = stayed ? stays : NULL;
    return CDZ_OK;
}

cdz_status cdz_verb_process(cdz_decoder *dec, cdz_scores *scores)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, CDZ_VERB_SCRATCH));
    uint32_t first;
    cdz_scores rows;
    CDZ_TRY(cdz_loop_rows_of(loop, "process", scores, &rows, &first));
    if (loop->n_processors == 0 && loop->n_watchers == 0) return CDZ_OK;
    cdz_loop_view_rows(loop, first, rows.n_rows);
    const bool ours = rows.id == loop->scores.id;
    cdz_drawn *settled = NULL;
    if (ours && loop->away.rows && loop->n_processors && cdz_edits(loop) == loop->n_processors)
        CDZ_TRY(process_away(loop, &rows, first, &settled));
    if (ours && !settled) CDZ_TRY(cdz_loop_fetch(loop, first, rows.n_rows));
    if (!settled) *scores = rows;
    return cdz_stages_process(loop, &loop->view, &rows, settled);
}

/* --- end ------------------------------------------------------------------------------------------------------ */

cdz_status cdz_verb_finish(cdz_decoder *dec, uint32_t r, cdz_stop_reason reason, const char *text)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    if (r >= loop->n_rows)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "finish: row %" PRIu32 " of %" PRIu32,
                             cdz_loop_nth(loop, r), loop->n_rows);
    if ((unsigned)reason == CDZ_GO_ON || (unsigned)reason > CDZ_STOP_CUSTOM)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "finish: %u is no reason to stop",
                             (unsigned)reason);
    cdz_loop_row *row = &loop->rows[r];
    if (row->done) return CDZ_OK;
    const size_t len = text ? strlen(text) : 0;
    row->stop = (cdz_stop){(uint32_t)reason, {text, (uint32_t)len}};
    cdz_loop_end_row(loop, r);
    return CDZ_OK;
}
