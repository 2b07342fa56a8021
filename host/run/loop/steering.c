/* steering.c - edits of hidden states: what the pipeline's processors give each row, the verb of strategies, and the way from a
 * pass to their on_hidden.
 *
 * Owns: who is called by edits that are calls (run/pass/steer.h holds lists of edits). Rows get a processor's edits once, before
 * their first pass: a reload changes those of later requests. Copies of a row have them; sequences that a strategy makes anew,
 * companions and an assistant's have none. Thread: [engine], verbs on the loop's fibre; calls come from its passes, while the fibre
 * sleeps. */
#include <inttypes.h>
#include <math.h>

#include "call/calls.h"
#include "run/loop/loop.h"
#include "run/loop/verbs.h"

/* --- calls ---------------------------------------------------------------------------------------------------------- */

/* In the request's arena. */
struct cdz_steering_hook {
    cdz_steering_hook *next;
    cdz_loop *loop;
    const cdz_instance *instance;
    void *shared;
    cdz_on_hidden_fn *on_hidden;
    cdz_steering_answerer *answers; /* held; NULL: it has ended */
    bool of_processor;
};

static bool all_finite(const cdz_hidden_chunk *hidden, size_t *at)
{
    const size_t n = (size_t)hidden->n * hidden->width;
    for (*at = 0; *at < n; ++*at)
        if (!isfinite(hidden->h[*at])) return false;
    return true;
}

static cdz_status call_it(const cdz_steering_hook *hook, const cdz_hidden_chunk *hidden)
{
    cdz_rows *rows = &hook->loop->rows;
    cdz_error said = {.code = CDZ_OK};
    cdz_scope scope = {.rows = rows,
                       .plugin = hook->instance->plugin.base,
                       .scratch = &rows->workers[0].scratch,
                       .error = &said};
    const cdz_step step = cdz_step_for(&scope, hook->instance, hook->shared);
    cdz_call call = {.scratch = scope.scratch};
    const cdz_status status = cdz_call_on_hidden(&call, hook->on_hidden, &step, hidden);
    return cdz_rows_judge(rows, &call, status, &said);
}

/* States that were not finite before are not its fault. */
static cdz_status answer(void *of, const cdz_hidden_chunk *hidden, cdz_error *err)
{
    const cdz_steering_hook *hook = of;
    size_t at;
    const bool whole = all_finite(hidden, &at);
    const cdz_status status = call_it(hook, hidden);
    if (status != CDZ_OK) *err = hook->loop->rows.error;
    if (status != CDZ_OK || !whole || all_finite(hidden, &at)) return status;
    return cdz_err(err, CDZ_E_PLUGIN,
                   "%s: on_hidden left a number that is not finite: of layer %" PRIu32
                   ", position %" PRIu32 ", number %" PRIu32,
                   hook->instance->plugin.base->id, hidden->edit->layer,
                   hidden->position + (uint32_t)(at / hidden->width),
                   (uint32_t)(at % hidden->width));
}

static cdz_status add_hook(cdz_loop *loop, cdz_steering_hook hook)
{
    cdz_steering_hook *at = cdz_arena_alloc(&loop->rows.arena, sizeof *at);
    if (!at) return cdz_loop_nomem(loop);
    *at = hook;
    at->loop = loop;
    at->next = loop->hooks;
    at->answers = cdz_steering_answerer_new(answer, at);
    if (!at->answers) return cdz_loop_nomem(loop);
    loop->hooks = at;
    return CDZ_OK;
}

cdz_status cdz_loop_hooks_check(cdz_loop *loop)
{
    for (const cdz_steering_hook *h = loop->hooks; h; h = h->next) {
        if (!h->answers || h->answers->error.code == CDZ_OK) continue;
        loop->rows.error = h->answers->error;
        return loop->rows.error.code;
    }
    return CDZ_OK;
}

bool cdz_loop_calls_processors(const cdz_loop *loop)
{
    for (const cdz_steering_hook *h = loop->hooks; h; h = h->next)
        if (h->of_processor && h->answers) return true;
    return false;
}

static void end_hooks(cdz_loop *loop, bool of_processors)
{
    for (cdz_steering_hook *h = loop->hooks; h; h = h->next) {
        if (h->of_processor && !of_processors) continue;
        cdz_steering_answerer_end(h->answers);
        h->answers = NULL;
    }
}

void cdz_loop_end_strategy_hooks(cdz_loop *loop)
{
    end_hooks(loop, false);
}

void cdz_loop_end_hooks(cdz_loop *loop)
{
    end_hooks(loop, true);
}

/* --- processors ----------------------------------------------------------------------------------------------------- */

static cdz_status ask(cdz_loop *loop, const cdz_stage *stage, uint32_t r, const cdz_edit **edits,
                      uint32_t *n)
{
    const cdz_arch *arch = &loop->rows.model->weights->arch;
    cdz_scope scope = {.rows = &loop->rows,
                       .plugin = stage->plugin,
                       .scratch = &loop->rows.workers[0].scratch,
                       .error = &loop->rows.workers[0].error,
                       .may_alloc = true,
                       .arena = &loop->set->arena};
    const cdz_step step = cdz_step_for(&scope, stage->instance, stage->shared);
    const uint32_t row = loop->first_row + r;
    const cdz_steered whom = {.size = sizeof whom,
                              .row = row,
                              .prompt_index = row / (loop->job->n_rows / loop->job->n_prompts),
                              .prompt_len = cdz_seq_visible(loop->rows.at[r].seq),
                              .n_layers = arch->n_layers,
                              .width = arch->hidden};
    cdz_call call = {.scratch = scope.scratch};
    const cdz_status status =
        cdz_call_steer(&call, stage->instance->offers.steer, &step, &whom, edits, n);
    return cdz_rows_judge(&loop->rows, &call, status, scope.error);
}

static cdz_status steer_row(cdz_loop *loop, const cdz_stage *stage, uint32_t r,
                            cdz_steering_answerer *answers)
{
    cdz_seq *seq = loop->rows.at[r].seq;
    const cdz_edit *edits = NULL;
    uint32_t n = 0;
    cdz_steering *all;
    CDZ_TRY(ask(loop, stage, r, &edits, &n));
    if (n == 0) return CDZ_OK;
    if (!edits)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "%s: steer tells of edits and gives none",
                             stage->plugin->id);
    if (loop->rows.model->function.forward)
        return cdz_loop_fail(loop, CDZ_E_UNSUPPORTED,
                             "%s edits hidden states: a model that is a function has none",
                             stage->plugin->id);
    const cdz_steerer whose = {
        .who = stage->plugin->id, .lasting = true, .answers = answers, .row = loop->first_row + r};
    CDZ_TRY(cdz_steering_make(seq->edits, edits, n, &whose, &loop->rows.model->weights->arch, &all,
                              &loop->rows.error));
    cdz_seq_set_edits(seq, all);
    cdz_steering_release(all);
    return CDZ_OK;
}

static cdz_status steer_rows(cdz_loop *loop, const cdz_stage *stage)
{
    const cdz_offers *offers = &stage->instance->offers;
    if (!offers->steer) return CDZ_OK;
    if (offers->on_hidden)
        CDZ_TRY(add_hook(loop, (cdz_steering_hook){.instance = stage->instance,
                                                   .shared = stage->shared,
                                                   .on_hidden = offers->on_hidden,
                                                   .of_processor = true}));
    for (uint32_t r = 0; r < loop->rows.n; r++)
        CDZ_TRY(steer_row(loop, stage, r, offers->on_hidden ? loop->hooks->answers : NULL));
    return CDZ_OK;
}

cdz_status cdz_loop_steer(cdz_loop *loop)
{
    const cdz_stage_chain *chain = &loop->set->processors;
    for (uint32_t s = 0; s < chain->n; s++) CDZ_TRY(steer_rows(loop, &chain->at[s]));
    return CDZ_OK;
}

/* --- strategies and drafters ------------------------------------------------------------------------------------------ */

/* Whose verb runs now. */
static const cdz_instance *user_of(const cdz_loop *loop)
{
    const cdz_stage *drafter = &loop->drafting.stage;
    return drafter->plugin && drafter->plugin == cdz_calling_now.plugin ? drafter->instance
                                                                        : &loop->strategy;
}

static cdz_steering_answerer *newest_answerer(const cdz_loop *loop)
{
    const cdz_instance *user = user_of(loop);
    for (const cdz_steering_hook *h = loop->hooks; h; h = h->next)
        if (h->instance == user) return h->answers;
    return NULL;
}

static uint32_t row_of(const cdz_loop *loop, const cdz_seq *seq)
{
    for (uint32_t r = 0; r < loop->rows.n; r++)
        if (loop->rows.at[r].seq == seq) return loop->first_row + r;
    return CDZ_NO_ROW;
}

cdz_status cdz_verb_on_hidden(cdz_decoder *dec, cdz_on_hidden_fn *fn, void *user)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    if (!fn) return cdz_loop_fail(loop, CDZ_E_PLUGIN, "on_hidden: no function is given");
    if (loop->job->keep_hidden || loop->job->keep_attentions)
        return cdz_loop_fail(loop, CDZ_E_UNSUPPORTED,
                             "on_hidden: %s reads the rows again when the decode loop has ended, and "
                             "its function is gone by then; a processor's is still there",
                             loop->job->keep_hidden ? "output_hidden_states" : "output_attentions");
    return add_hook(
        loop, (cdz_steering_hook){.instance = user_of(loop), .shared = user, .on_hidden = fn});
}

cdz_status cdz_verb_seq_steer(cdz_decoder *dec, cdz_seq *seq, const cdz_edit *edits, uint32_t n)
{
    cdz_loop *loop = cdz_loop_of(dec);
    cdz_steering *all;
    CDZ_TRY(cdz_verb_enter(dec, 0));
    if (seq->model->function.forward)
        return cdz_loop_fail(loop, CDZ_E_UNSUPPORTED,
                             "seq_steer: a model that is a function has scores alone");
    const cdz_steerer whose = {
        .who = "seq_steer", .answers = newest_answerer(loop), .row = row_of(loop, seq)};
    CDZ_TRY(cdz_loop_grow_seq(loop, "seq_steer",
                              cdz_steering_bytes(seq->edits) +
                                  cdz_steering_bytes_of(n, seq->model->weights->arch.hidden)));
    CDZ_TRY(cdz_steering_make(seq->edits, edits, n, &whose, &seq->model->weights->arch, &all,
                              &loop->rows.error));
    cdz_seq_set_edits(seq, all);
    cdz_steering_release(all);
    return CDZ_OK;
}
