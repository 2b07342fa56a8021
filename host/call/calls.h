/* calls.h - one function for each function of the plugin ABI: the call itself, between entering and leaving the guard.
 *
 * All of them take the call (guard.h) first and the step that the plugin is shown; step->plugin is whom the thread is said to
 * be in. A function that the plugin may lack is not entered then, and went well. Where kinds share a function, its kind is
 * looked up here. Lint refuses these calls anywhere else in the host; tests/unit/call/test_call.c has a row for each. */
#ifndef CDZ_HOST_CALL_CALLS_H
#define CDZ_HOST_CALL_CALLS_H

#include <stddef.h>

#include "cadenza/criterion.h"
#include "cadenza/drafter.h"
#include "cadenza/ext/companion.h"
#include "cadenza/ext/constrained.h"
#include "cadenza/ext/form.h"
#include "cadenza/ext/phase.h"
#include "cadenza/ext/state.h"
#include "cadenza/ext/steer.h"
#include "cadenza/loader.h"
#include "cadenza/observer.h"
#include "cadenza/press.h"
#include "cadenza/processor.h"
#include "cadenza/scheduler.h"
#include "cadenza/strategy.h"
#include "call/guard.h"

/* --- what several kinds have --- */

typedef cdz_status cdz_create_fn(const cdz_step *step);
typedef bool cdz_idle_fn(const cdz_step *step);
typedef cdz_status cdz_begin_fn(const cdz_step *step, void **shared);
typedef cdz_status cdz_accept_fn(const cdz_step *step, uint32_t r, int32_t token);
typedef void cdz_end_fn(const cdz_step *step);

/* The function of a descriptor, NULL where this kind or plugin has none. */
static inline cdz_create_fn *cdz_create_of(const cdz_plugin_base *plugin)
{
    const void *whole = plugin;
    switch (plugin->kind) {
    case CDZ_KIND_PROCESSOR: return ((const cdz_processor *)whole)->create;
    case CDZ_KIND_CRITERION: return ((const cdz_criterion *)whole)->create;
    case CDZ_KIND_STRATEGY: return ((const cdz_strategy *)whole)->create;
    case CDZ_KIND_DRAFTER: return ((const cdz_drafter *)whole)->create;
    case CDZ_KIND_OBSERVER: return ((const cdz_observer *)whole)->create;
    case CDZ_KIND_SCHEDULER: return ((const cdz_scheduler *)whole)->create;
    case CDZ_KIND_PRESS: return ((const cdz_press *)whole)->create;
    default: return NULL;
    }
}

static inline cdz_idle_fn *cdz_idle_of(const cdz_plugin_base *plugin)
{
    const void *whole = plugin;
    switch (plugin->kind) {
    case CDZ_KIND_PROCESSOR: return ((const cdz_processor *)whole)->idle;
    case CDZ_KIND_CRITERION: return ((const cdz_criterion *)whole)->idle;
    default: return NULL;
    }
}

/* Drafters begin with a decoder: cdz_call_draft_begin. */
static inline cdz_begin_fn *cdz_begin_of(const cdz_plugin_base *plugin)
{
    const void *whole = plugin;
    switch (plugin->kind) {
    case CDZ_KIND_PROCESSOR: return ((const cdz_processor *)whole)->begin;
    case CDZ_KIND_CRITERION: return ((const cdz_criterion *)whole)->begin;
    case CDZ_KIND_OBSERVER: return ((const cdz_observer *)whole)->begin;
    case CDZ_KIND_SCHEDULER: return ((const cdz_scheduler *)whole)->begin;
    case CDZ_KIND_PRESS: return ((const cdz_press *)whole)->begin;
    default: return NULL;
    }
}

static inline cdz_accept_fn *cdz_accept_of(const cdz_plugin_base *plugin)
{
    const void *whole = plugin;
    switch (plugin->kind) {
    case CDZ_KIND_PROCESSOR: return ((const cdz_processor *)whole)->accept;
    case CDZ_KIND_CRITERION: return ((const cdz_criterion *)whole)->accept;
    default: return NULL;
    }
}

static inline cdz_end_fn *cdz_end_of(const cdz_plugin_base *plugin)
{
    const void *whole = plugin;
    switch (plugin->kind) {
    case CDZ_KIND_PROCESSOR: return ((const cdz_processor *)whole)->end;
    case CDZ_KIND_CRITERION: return ((const cdz_criterion *)whole)->end;
    case CDZ_KIND_DRAFTER: return ((const cdz_drafter *)whole)->end;
    case CDZ_KIND_OBSERVER: return ((const cdz_observer *)whole)->end;
    case CDZ_KIND_SCHEDULER: return ((const cdz_scheduler *)whole)->end;
    case CDZ_KIND_PRESS: return ((const cdz_press *)whole)->end;
    default: return NULL;
    }
}

static inline cdz_status cdz_call_create(cdz_call *c, const cdz_step *step)
{
    cdz_create_fn *const create = cdz_create_of(step->plugin);
    if (!create) return CDZ_OK;
    cdz_call_enter(c, step->plugin, "create", CDZ_THREAD_LOAD);
    return cdz_call_leave(c, create(step));
}

static inline bool cdz_call_idle(cdz_call *c, const cdz_step *step)
{
    cdz_idle_fn *const idle = cdz_idle_of(step->plugin);
    if (!idle) return false;
    cdz_call_enter(c, step->plugin, "idle", CDZ_THREAD_ENGINE);
    const bool answer = idle(step);
    (void)cdz_call_leave(c, CDZ_OK);
    return answer;
}

static inline cdz_status cdz_call_begin(cdz_call *c, const cdz_step *step, void **shared)
{
    cdz_begin_fn *const begin = cdz_begin_of(step->plugin);
    if (!begin) return CDZ_OK;
    cdz_call_enter(c, step->plugin, "begin", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, begin(step, shared));
}

static inline cdz_status cdz_call_accept(cdz_call *c, const cdz_step *step, uint32_t r,
                                         int32_t token)
{
    cdz_accept_fn *const accept = cdz_accept_of(step->plugin);
    if (!accept) return CDZ_OK;
    cdz_call_enter(c, step->plugin, "accept", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, accept(step, r, token));
}

static inline void cdz_call_end(cdz_call *c, const cdz_step *step)
{
    cdz_end_fn *const end = cdz_end_of(step->plugin);
    if (!end) return;
    cdz_call_enter(c, step->plugin, "end", CDZ_THREAD_ENGINE);
    end(step);
    (void)cdz_call_leave(c, CDZ_OK);
}

/* --- processors, criteria --- */

static inline cdz_status cdz_call_apply(cdz_call *c, const cdz_processor *p, const cdz_step *step,
                                        cdz_scores *scores)
{
    cdz_call_enter(c, step->plugin, "apply",
                   p->caps & CDZ_ROWWISE ? CDZ_THREAD_ROW : CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, p->apply(step, scores));
}

static inline cdz_status cdz_call_test(cdz_call *c, const cdz_criterion *r, const cdz_step *step,
                                       cdz_stop *stops)
{
    cdz_call_enter(c, step->plugin, "test", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, r->test(step, stops));
}

/* --- strategies, drafters --- */

static inline cdz_status cdz_call_run(cdz_call *c, const cdz_strategy *s, cdz_decoder *dec,
                                      const cdz_step *step)
{
    cdz_call_enter(c, step->plugin, "run", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, s->run(dec, step));
}

static inline cdz_status cdz_call_draft_begin(cdz_call *c, const cdz_drafter *d, cdz_decoder *dec,
                                              const cdz_step *step, void **shared)
{
    if (!d->begin) return CDZ_OK;
    cdz_call_enter(c, step->plugin, "begin", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, d->begin(dec, step, shared));
}

static inline cdz_status cdz_call_propose(cdz_call *c, const cdz_drafter *d, cdz_decoder *dec,
                                          const cdz_step *step, cdz_draft *draft)
{
    cdz_call_enter(c, step->plugin, "propose", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, d->propose(dec, step, draft));
}

static inline cdz_status cdz_call_judged(cdz_call *c, const cdz_drafter *d, cdz_decoder *dec,
                                         const cdz_step *step, uint32_t row, uint32_t n_proposed,
                                         uint32_t n_accepted)
{
    if (!d->judged) return CDZ_OK;
    cdz_call_enter(c, step->plugin, "judged", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, d->judged(dec, step, row, n_proposed, n_accepted));
}

/* --- observers --- */

static inline cdz_status cdz_call_stage(cdz_call *c, const cdz_observer *o, const cdz_step *step,
                                        const cdz_plugin_base *by, const cdz_seen *seen)
{
    if (!o->stage) return CDZ_OK;
    cdz_call_enter(c, step->plugin, "stage", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, o->stage(step, by, seen));
}

static inline cdz_status cdz_call_scores(cdz_call *c, const cdz_observer *o, const cdz_step *step,
                                         const cdz_seen *seen)
{
    if (!o->scores) return CDZ_OK;
    cdz_call_enter(c, step->plugin, "scores", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, o->scores(step, seen));
}

static inline cdz_status cdz_call_token(cdz_call *c, const cdz_observer *o, const cdz_step *step,
                                        int32_t token)
{
    if (!o->token) return CDZ_OK;
    cdz_call_enter(c, step->plugin, "token", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, o->token(step, token));
}

static inline cdz_status cdz_call_stop(cdz_call *c, const cdz_observer *o, const cdz_step *step,
                                       const cdz_stop *stop)
{
    if (!o->stop) return CDZ_OK;
    cdz_call_enter(c, step->plugin, "stop", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, o->stop(step, stop));
}

static inline cdz_status cdz_call_rewind(cdz_call *c, const cdz_observer *o, const cdz_step *step,
                                         uint32_t n)
{
    if (!o->rewind) return CDZ_OK;
    cdz_call_enter(c, step->plugin, "rewind", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, o->rewind(step, n));
}

static inline cdz_status cdz_call_reorder(cdz_call *c, const cdz_observer *o, const cdz_step *step,
                                          const uint32_t *parents)
{
    if (!o->reorder) return CDZ_OK;
    cdz_call_enter(c, step->plugin, "reorder", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, o->reorder(step, parents));
}

/* --- schedulers --- */

static inline cdz_status cdz_call_admit(cdz_call *c, const cdz_scheduler *s, const cdz_step *step,
                                        const cdz_contest *contest, cdz_lineup *turns)
{
    cdz_call_enter(c, step->plugin, "admit", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, s->admit(step, contest, turns));
}

static inline cdz_status cdz_call_order(cdz_call *c, const cdz_scheduler *s, const cdz_step *step,
                                        const cdz_contest *contest, cdz_lineup *turns)
{
    if (!s->order) return CDZ_OK;
    cdz_call_enter(c, step->plugin, "order", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, s->order(step, contest, turns));
}

static inline void cdz_call_ended(cdz_call *c, const cdz_scheduler *s, const cdz_step *step,
                                  const cdz_contender *request)
{
    if (!s->ended) return;
    cdz_call_enter(c, step->plugin, "ended", CDZ_THREAD_ENGINE);
    s->ended(step, request);
    (void)cdz_call_leave(c, CDZ_OK);
}

/* --- presses --- */

static inline cdz_status cdz_call_needs(cdz_call *c, const cdz_press *p, const cdz_step *step,
                                        cdz_press_needs *out)
{
    if (!p->needs) return CDZ_OK;
    cdz_call_enter(c, step->plugin, "needs", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, p->needs(step, out));
}

static inline cdz_status cdz_call_press(cdz_call *c, const cdz_press *p, const cdz_step *step,
                                        const cdz_press_view *view, cdz_press_choice *choice)
{
    cdz_call_enter(c, step->plugin, "press", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, p->press(step, view, choice));
}

/* --- loaders --- */

static inline cdz_status cdz_call_open(cdz_call *c, const cdz_loader *l, const cdz_step *step,
                                       const cdz_plugin_file *file, cdz_opened *out)
{
    cdz_call_enter(c, step->plugin, "open", CDZ_THREAD_LOAD);
    return cdz_call_leave(c, l->open(step, file, out));
}

static inline void cdz_call_close(cdz_call *c, const cdz_loader *l, const cdz_step *step,
                                  void *state)
{
    if (!l->close) return;
    cdz_call_enter(c, step->plugin, "close", CDZ_THREAD_ANY);
    l->close(step, state);
    (void)cdz_call_leave(c, CDZ_OK);
}

/* --- extensions --- */

static inline const void *cdz_call_extension(cdz_call *c, const cdz_plugin_base *plugin,
                                             const char *id)
{
    if (!plugin->extension) return NULL;
    cdz_call_enter(c, plugin, "extension", CDZ_THREAD_ANY);
    const void *api = plugin->extension(id);
    (void)cdz_call_leave(c, CDZ_OK);
    return api;
}

static inline bool cdz_call_form(cdz_call *c, const cdz_form_api *api, const cdz_step *step,
                                 cdz_form *out)
{
    if (!api->describe) return false;
    cdz_call_enter(c, step->plugin, "describe", CDZ_THREAD_ENGINE);
    const bool says = api->describe(step, out);
    (void)cdz_call_leave(c, CDZ_OK);
    return says;
}

/* Whether it has `edits`, and `mask`, which may be younger than the table that a plugin was built with. */
static inline bool cdz_form_has_edits(const cdz_form_api *api)
{
    return api->size >= offsetof(cdz_form_api, edits) + sizeof api->edits && api->edits;
}
static inline bool cdz_form_has_mask(const cdz_form_api *api)
{
    return api->size >= sizeof *api && api->mask;
}

/* What it lists lies in scratch memory: the call has none to forget. */
static inline bool cdz_call_edits(cdz_call *c, const cdz_form_api *api, const cdz_step *step,
                                  uint32_t r, cdz_ids *out)
{
    if (!cdz_form_has_edits(api)) return false;
    cdz_call_enter(c, step->plugin, "edits", CDZ_THREAD_ENGINE);
    const bool listed = api->edits(step, r, out);
    (void)cdz_call_leave(c, CDZ_OK);
    return listed;
}

static inline bool cdz_call_mask(cdz_call *c, const cdz_form_api *api, const cdz_step *step,
                                 uint32_t r, uint64_t *bits, uint32_t n_words)
{
    if (!cdz_form_has_mask(api)) return false;
    cdz_call_enter(c, step->plugin, "mask", CDZ_THREAD_ENGINE);
    const bool told = api->mask(step, r, bits, n_words);
    (void)cdz_call_leave(c, CDZ_OK);
    return told;
}

static inline uint32_t cdz_call_phase(cdz_call *c, const cdz_phase_api *api, const cdz_step *step,
                                      uint32_t r)
{
    cdz_call_enter(c, step->plugin, "of", CDZ_THREAD_ROW);
    const uint32_t phase = api->of(step, r);
    (void)cdz_call_leave(c, CDZ_OK);
    return phase;
}

static inline cdz_status cdz_call_constrained(cdz_call *c, const cdz_constrained_api *api,
                                              const cdz_step *step, uint32_t r,
                                              cdz_row_constraint *out)
{
    cdz_call_enter(c, step->plugin, "of", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, api->of(step, r, out));
}

static inline cdz_status cdz_call_companion(cdz_call *c, const cdz_companion_api *api,
                                            const cdz_step *step, uint32_t row, cdz_companion *out)
{
    cdz_call_enter(c, step->plugin, "describe", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, api->describe(step, row, out));
}

static inline cdz_status cdz_call_steer(cdz_call *c, const cdz_steer_api *api, const cdz_step *step,
                                        const cdz_steered *row, const cdz_edit **edits, uint32_t *n)
{
    cdz_call_enter(c, step->plugin, "steer", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, api->steer(step, row, edits, n));
}

/* Of a processor's table, or what a strategy or a drafter gave. */
static inline cdz_status cdz_call_on_hidden(cdz_call *c, cdz_on_hidden_fn *on_hidden,
                                            const cdz_step *step, const cdz_hidden_chunk *hidden)
{
    cdz_call_enter(c, step->plugin, "on_hidden", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, on_hidden(step, hidden));
}

static inline cdz_status cdz_call_clone(cdz_call *c, const cdz_state_api *api, const cdz_step *step,
                                        const void *from, void *to)
{
    cdz_call_enter(c, step->plugin, "clone", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, api->clone(step, from, to));
}

static inline void cdz_call_free(cdz_call *c, const cdz_state_api *api, const cdz_step *step,
                                 void *state)
{
    cdz_call_enter(c, step->plugin, "free", CDZ_THREAD_ENGINE);
    api->free(step, state);
    (void)cdz_call_leave(c, CDZ_OK);
}

static inline bool cdz_state_has_hand_over(const cdz_state_api *api)
{
    return api->size >= sizeof *api && api->hand_over;
}

static inline cdz_status cdz_call_hand_over(cdz_call *c, const cdz_state_api *api,
                                            const cdz_step *step, const cdz_step *old,
                                            const void *from, void *to)
{
    cdz_call_enter(c, step->plugin, "hand_over", CDZ_THREAD_ENGINE);
    return cdz_call_leave(c, api->hand_over(step, old, from, to));
}

#endif
