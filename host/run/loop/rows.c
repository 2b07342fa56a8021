/* rows.c - verbs on the request's rows: what they hold, their scores, when they end.
 *
 * Owns: what a step asks a pass for, which rows of scores may stay on a device, and the rules that end a row: the
 * pipeline's criteria and then the model's context. Not: what changes rows (append.c), how stages are run
 * (run/stages/stages.h). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "run/loop/companion.h"
#include "run/loop/loop.h"
#include "run/loop/verbs.h"
#include "run/stages/edits.h"
#include "run/stages/fuse.h"

uint32_t cdz_verb_n_rows(const cdz_decoder *dec)
{
    return cdz_loop_of(dec)->rows.n;
}

cdz_ids cdz_verb_input_ids(const cdz_decoder *dec, uint32_t row)
{
    const cdz_loop *loop = cdz_loop_of(dec);
    return row < loop->rows.n ? cdz_row_ids(&loop->rows.at[row]) : (cdz_ids){NULL, 0};
}

bool cdz_verb_done(const cdz_decoder *dec)
{
    cdz_loop *loop = cdz_loop_of(dec);
    return loop->n_open == 0 || cdz_loop_alive(loop) != CDZ_OK;
}

bool cdz_verb_row_done(const cdz_decoder *dec, uint32_t row)
{
    const cdz_loop *loop = cdz_loop_of(dec);
    return row >= loop->rows.n || loop->rows.at[row].done;
}

/* --- forward -------------------------------------------------------------------------------------------------- */

static bool same_ids(const cdz_seq *a, const cdz_seq *b)
{
    return a->n == b->n && a->mask == b->mask && a->embeds == b->embeds && a->source == b->source &&
           cdz_seq_parts(a, b) == UINT32_MAX && memcmp(a->ids, b->ids, a->n * sizeof *a->ids) == 0;
}

/* The first row before r that starts from the same prompt: it computes, r takes over its cache. r: none. */
static uint32_t leader(const cdz_loop *loop, uint32_t r)
{
    if (loop->prefilled || loop->rows.at[r].seq->computed) return r;
    for (uint32_t l = 0; l < r; l++)
        if (cdz_row_runs(&loop->rows, l) && !loop->rows.at[l].seq->computed &&
            same_ids(loop->rows.at[l].seq, loop->rows.at[r].seq))
            return l;
    return r;
}

/* Rows that have a leader share its cache and scores. The last position is each row's own to compute again, so the
 * shared blocks stay as they are until a row writes. */
static cdz_status follow(cdz_loop *loop, const uint32_t *leaders)
{
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        const uint32_t l = leaders[r];
        if (l == r) continue;
        CDZ_TRY(cdz_seq_adopt(loop->rows.at[r].seq, loop->rows.at[l].seq, &loop->rows.error));
        CDZ_TRY(cdz_loop_arrive(loop, l, 1));
        if (cdz_away_has(&loop->rows.away, l))
            cdz_away_repeat(&loop->rows.away, r, l);
        else
            memcpy(loop->scores.data + (size_t)r * loop->rows.n_vocab,
                   loop->scores.data + (size_t)l * loop->rows.n_vocab,
                   loop->rows.n_vocab * sizeof(float));
        cdz_loop_follow_hidden(loop, r, l);
    }
    return CDZ_OK;
}

/* Positions of the longest row, ended ones too: their filler counts in the reference. */
static uint32_t longest(const cdz_loop *loop)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        const uint32_t n = cdz_seq_visible(loop->rows.at[r].seq);
        if (n > most) most = n;
    }
    return most;
}

/* The first processor that has to see the whole row, or all of them. */
static const char *reading_processor(const cdz_loop *loop)
{
    for (uint32_t i = 0; i < loop->set->processors.n; i++)
        if (loop->set->processors.at[i].form.kind == CDZ_FORM_OTHER)
            return loop->set->processors.at[i].plugin->id;
    return "processors";
}

/* Who reads the next rows of scores, as far as it is known; NULL: nobody, or only what *wish says of them.
 * Who would read them on the device is not known before it has, and is expected to go on. */
static const char *reader_of_rows(const cdz_loop *loop, cdz_fuse_wishes *wish)
{
    if (loop->rows.watch.n) return "observers";
    if (cdz_companions_most(loop)) return "companions";
    if (cdz_record_wants(loop, CDZ_RECORD_LOGITS) || cdz_record_wants(loop, CDZ_RECORD_SCORES))
        return "the answer";
    if (!cdz_fuse_wish(loop->set, &loop->rows, wish)) return reading_processor(loop);
    if (loop->rows.away.asked) return loop->strategy.plugin.base->id;
    return loop->rows.away.rest.left ? "cuts below the leaders" : NULL;
}

/* On the CPU rows need not be made where the head has a screen, and the strategy looks for scores only where it is told. */
static bool may_screen(cdz_loop *loop, const cdz_fuse_wishes *wish, cdz_screen **screen)
{
    if (!loop->rows.keeping.may || wish->open || wish->divisor != 0.0f ||
        wish->least > CDZ_SCREEN_LEAST)
        return false;
    *screen = cdz_screening_want(&loop->rows.model->screening, wish->least > 1);
    return *screen != NULL;
}

/* May the next rows of scores stay on the device? Who reads them, if they may not. */
static const char *ask_away(cdz_loop *loop)
{
    cdz_away *away = &loop->rows.away;
    cdz_fuse_wishes wish = {0};
    const char *reader = reader_of_rows(loop, &wish);
    (void)cdz_rest_goes_on(&away->rest);
    if (reader) return reader;
    cdz_screen *screen = NULL;
    if (loop->rows.model->device->api->host_memory && !may_screen(loop, &wish, &screen))
        return "want of a screen";
    if (!away->begun)
        cdz_away_begin(away, loop->rows.model->device, screen, loop->rows.n, loop->rows.n_vocab);
    if (!cdz_away_can(away) || !cdz_away_wish(away, wish.least, wish.divisor))
        return "want of memory";
    away->cuts = wish.cuts;
    away->open = wish.open;
    return cdz_edits_plan(loop->set, &loop->rows);
}

static void plan_away(cdz_loop *loop)
{
    cdz_away *away = &loop->rows.away;
    cdz_away_arrive(away, 0, away->n_coming); /* of the step before, if nobody read them */
    away->reader = ask_away(loop);
    away->on = away->reader == NULL;
    if (!away->on) cdz_away_expect(away, loop->rows.model->device, loop->rows.n);
}

void cdz_loop_note_fetched(cdz_loop *loop, uint32_t n)
{
    *loop->rows.berth->rows_fetched += n;
    if (!loop->rows.berth->profile) return;
    loop->rows.berth->profile->times.scores.fetched += n;
    loop->rows.berth->profile->times.scores.bytes +=
        (uint64_t)n * loop->rows.n_vocab * sizeof(float);
}

cdz_status cdz_loop_arrive(cdz_loop *loop, uint32_t first, uint32_t n)
{
    const cdz_work was = cdz_profile_mark(loop->rows.berth->profile, CDZ_WORK_HEAD);
    const bool any = cdz_away_arrive(&loop->rows.away, first, n);
    cdz_profile_mark(loop->rows.berth->profile, was);
    return any ? cdz_layers_check(loop->rows.model->layers, &loop->rows.error) : CDZ_OK;
}

cdz_status cdz_loop_fetch(cdz_loop *loop, uint32_t first, uint32_t n)
{
    CDZ_TRY(cdz_loop_arrive(loop, first, n));
    const uint32_t fetched = cdz_away_fetch(&loop->rows.away, loop->scores.data, first, n);
    cdz_loop_note_fetched(loop, fetched);
    loop->rows.away.asked |= fetched > 0;
    return fetched ? cdz_layers_check(loop->rows.model->layers, &loop->rows.error) : CDZ_OK;
}

static void note_rows(cdz_loop *loop, uint32_t away, uint32_t brought, uint64_t told)
{
    *loop->rows.berth->rows_away += away;
    if (!loop->rows.berth->profile || loop->rows.model->device->api->host_memory) return;
    cdz_rows_moved *scores = &loop->rows.berth->profile->times.scores;
    scores->away += away;
    scores->brought += brought;
    scores->bytes += told + (uint64_t)brought * loop->rows.n_vocab * sizeof(float);
    if (brought && loop->rows.away.reader)
        snprintf(scores->reader, sizeof scores->reader, "%s", loop->rows.away.reader);
}

/* What the strategy is given. */
static cdz_scores given_scores(cdz_loop *loop)
{
    cdz_scores scores = cdz_matrix_scores(&loop->scores);
    uint32_t away = 0, brought = 0;
    uint64_t told = 0;
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        const bool there = cdz_away_has(&loop->rows.away, r), runs = cdz_row_runs(&loop->rows, r);
        if (there || cdz_away_comes(&loop->rows.away, r)) scores.data = NULL;
        away += runs && there;
        brought += runs && !there;
        if (runs && there) told += cdz_away_told(&loop->rows.away, r);
    }
    note_rows(loop, away, brought, told);
    return scores;
}

/* The want for every row that runs and leads. */
static cdz_status want_rows(cdz_loop *loop, const uint32_t *leaders)
{
    loop->want = (cdz_want){.model = loop->rows.model,
                            .seqs = loop->want_seqs,
                            .positions = CDZ_POSITIONS_LAST,
                            .out = loop->scores.data,
                            .stride = loop->rows.n_vocab,
                            .away = cdz_away_can(&loop->rows.away) ? &loop->rows.away : NULL,
                            .coming = loop->rows.away.coming,
                            .n_coming = loop->rows.away.on ? 0 : loop->rows.away.n_coming,
                            .length = longest(loop)};
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        if (!cdz_row_runs(&loop->rows, r) || leaders[r] != r) continue;
        if (!loop->rows.config.use_cache) cdz_seq_forget(loop->rows.at[r].seq);
        cdz_seq_rotate_for(loop->rows.at[r].seq, loop->want.length);
        (void)cdz_loop_recall(loop, loop->rows.at[r].seq, false);
        CDZ_TRY(cdz_loop_prepare(loop, loop->rows.at[r].seq));
        loop->want_seqs[loop->want.n_seqs++] =
            (cdz_want_seq){.seq = loop->rows.at[r].seq, .row0 = r, .hidden0 = r};
    }
    if (loop->hidden.n && loop->hidden.positions != CDZ_POSITIONS_LAST)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "forward: keeps hidden states of the last position only; seq_forward "
                             "keeps all");
    return cdz_loop_want_hidden(loop, loop->rows.n);
}

cdz_status cdz_verb_forward(cdz_decoder *dec, cdz_scores *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, CDZ_VERB_SCRATCH));
    cdz_loop_renew(loop);
    uint32_t *leaders = cdz_scratch_take(&loop->rows.verb_scratch, loop->rows.n * sizeof *leaders);
    if (!leaders || !cdz_loop_want(loop, loop->rows.n + cdz_companions_most(loop)))
        return cdz_loop_nomem(loop);
    for (uint32_t r = 0; r < loop->rows.n; r++) leaders[r] = leader(loop, r);

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

/* What processors may keep is whole by then: nothing is on its way into it. */
static cdz_status let_keep(cdz_loop *loop, cdz_scores *scores)
{
    cdz_keeping *keeping = &loop->rows.keeping;
    if (!keeping->asked) return CDZ_OK;
    keeping->scores = scores;
    keeping->of = cdz_loop_matrix(loop, scores->id);
    cdz_assert(keeping->of); /* else keep would fail, with rows already shown */
    if (keeping->of != &loop->scores) return CDZ_OK;
    return cdz_loop_arrive(loop, 0, loop->rows.away.n_coming);
}

cdz_status cdz_loop_process(cdz_loop *loop, const cdz_stage_chain *chain, const cdz_view *view,
                            cdz_scores *scores, cdz_drawn *drawn)
{
    if (loop->set->companions) {
        const cdz_work was = cdz_profile_mark(loop->rows.berth->profile, CDZ_WORK_PROCESSORS);
        CDZ_TRY(cdz_companions_ready(loop, view));
        cdz_profile_mark(loop->rows.berth->profile, was);
    }
    CDZ_TRY(let_keep(loop, scores));
    const cdz_status status = cdz_stages_process(loop->set, chain, &loop->rows, view, scores, drawn);
    loop->rows.keeping.of = NULL;
    return status;
}

cdz_status cdz_loop_rows_of(cdz_loop *loop, const char *verb, const cdz_scores *given,
                            cdz_scores *out, uint32_t *first)
{
    CDZ_TRY(cdz_loop_find(loop, verb, given, out, first));
    if (out->n_rows <= loop->rows.n && *first <= loop->rows.n - out->n_rows) return CDZ_OK;
    return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                         "%s: %" PRIu32 " score rows from row %" PRIu32
                         " on, but the request has %" PRIu32 " rows",
                         verb, out->n_rows, cdz_loop_nth(loop, *first), loop->rows.n);
}

/* Rows that processors change few scores of stay away; (*settled)[r]: is one. The others come over. NULL: all of them. */
static cdz_status process_away(cdz_loop *loop, const cdz_scores *rows, uint32_t first,
                               cdz_drawn **settled)
{
    cdz_away *away = &loop->rows.away;
    uint32_t stayed = 0, fetched = 0;
    cdz_drawn *stays = cdz_scratch_take(&loop->rows.verb_scratch, rows->n_rows * sizeof *stays);
    if (!stays) return cdz_loop_nomem(loop);
    memset(stays, 0, rows->n_rows * sizeof *stays);
    for (uint32_t r = 0; r < rows->n_rows; r++) {
        if (!cdz_away_has(away, first + r) || !cdz_row_runs(&loop->rows, first + r)) continue;
        stays[r].listed = cdz_edits_settle(loop->set, &loop->rows, rows, first, r);
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
    if (loop->set->processors.n == 0 && loop->rows.watch.n == 0) return CDZ_OK;
    cdz_stages_look(loop->set, &loop->rows, first, rows.n_rows);
    const bool ours = rows.id == loop->scores.id;
    cdz_drawn *settled = NULL;
    if (ours && cdz_away_can(&loop->rows.away) && loop->set->processors.n &&
        cdz_edits(loop->set) == loop->set->processors.n)
        CDZ_TRY(process_away(loop, &rows, first, &settled));
    if (ours && !settled) CDZ_TRY(cdz_loop_fetch(loop, first, rows.n_rows));
    const cdz_status status =
        cdz_loop_process(loop, &loop->set->processors, &loop->rows.view, &rows, settled);
    if (!settled) *scores = rows;
    return status;
}

/* --- stop rules ----------------------------------------------------------------------------------------------- */

bool cdz_loop_fills_context(const cdz_loop *loop, uint32_t r, uint32_t len)
{
    const cdz_job *job = loop->job;
    if (!job->context) return false;
    const uint32_t prompt = (loop->first_row + r) / (job->n_rows / job->n_prompts);
    return job->visible[prompt] + (len - job->prompt_len) >= job->context;
}

/* The end of the model's context ends any row that no criterion ends. */
cdz_status cdz_loop_test(cdz_loop *loop, const cdz_view *view, cdz_stop *stops)
{
    CDZ_TRY(cdz_stages_test(loop->set, &loop->rows, view, stops));
    for (uint32_t i = 0; i < view->n; i++)
        if (stops[i].reason == CDZ_GO_ON &&
            cdz_loop_fills_context(loop, view->rows[i], view->ids[i].len))
            stops[i] = (cdz_stop){CDZ_STOP_LENGTH, {"length", 6}};
    return CDZ_OK;
}

/* --- end ------------------------------------------------------------------------------------------------------ */

cdz_status cdz_verb_finish(cdz_decoder *dec, uint32_t r, cdz_stop_reason reason, const char *text)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    if (r >= loop->rows.n)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "finish: row %" PRIu32 " of %" PRIu32,
                             cdz_loop_nth(loop, r), loop->rows.n);
    if ((unsigned)reason == CDZ_GO_ON || (unsigned)reason > CDZ_STOP_CUSTOM)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "finish: %u is no reason to stop",
                             (unsigned)reason);
    cdz_request_row *row = &loop->rows.at[r];
    if (row->done) return CDZ_OK;
    const size_t len = text ? strlen(text) : 0;
    row->stop = (cdz_stop){(uint32_t)reason, {text, (uint32_t)len}};
    cdz_loop_end_row(loop, r);
    return CDZ_OK;
}
