/* own.c - plugins of the program itself: descriptors in its memory, which the registry takes as linked in.
 *
 * The program's code was not written for a fibre's stack, and may be an interpreter's. So the registry gets a descriptor
 * made here, whose functions call the program's on the stack of the thread (cdz_fibre_outside), as the ABI names it. */
#include <stdlib.h>

#include "call/calls.h"
#include "describe/descriptor.h"
#include "run/loop/fibre.h"
#include "run/loop/own.h"

struct cdz_own_plugin {
    cdz_own_plugin *next;
    cdz_descriptor has;   /* the program's: what an older descriptor lacks is zero */
    cdz_descriptor shown; /* the registry's */
};

/* A call on its way to the thread's stack. */
typedef struct errand {
    const cdz_own_plugin *own;
    cdz_step step;
    cdz_call call; /* the guard is the outer call's: this one notes where the thread is */
    cdz_status status;
    void **shared;
    cdz_scores *scores;
    cdz_stop *stops;
    cdz_draft *draft;
    const cdz_plugin_base *by;
    const cdz_seen *seen;
    const cdz_stop *stop;
    const uint32_t *parents;
    uint32_t row, n, n_accepted;
    int32_t token;
    bool idle;
} errand;

static errand errand_for(const cdz_step *step)
{
    errand e = {.own = step->plugin->loader_data, .step = *step, .call = {.raw = true}};
    e.step.plugin = &e.own->has.base;
    return e;
}

static void do_create(void *arg)
{
    errand *e = arg;
    e->status = cdz_call_create(&e->call, &e->step);
}

static void do_idle(void *arg)
{
    errand *e = arg;
    e->idle = cdz_call_idle(&e->call, &e->step);
}

static void do_begin(void *arg)
{
    errand *e = arg;
    e->status = cdz_call_begin(&e->call, &e->step, e->shared);
}

static void do_apply(void *arg)
{
    errand *e = arg;
    e->status = cdz_call_apply(&e->call, &e->own->has.processor, &e->step, e->scores);
}

static void do_test(void *arg)
{
    errand *e = arg;
    e->status = cdz_call_test(&e->call, &e->own->has.criterion, &e->step, e->stops);
}

static void do_accept(void *arg)
{
    errand *e = arg;
    e->status = cdz_call_accept(&e->call, &e->step, e->row, e->token);
}

static void do_end(void *arg)
{
    errand *e = arg;
    cdz_call_end(&e->call, &e->step);
}

static cdz_status own_create(const cdz_step *step)
{
    errand e = errand_for(step);
    cdz_fibre_outside(do_create, &e);
    return e.status;
}

static bool own_idle(const cdz_step *step)
{
    errand e = errand_for(step);
    cdz_fibre_outside(do_idle, &e);
    return e.idle;
}

static cdz_status own_begin(const cdz_step *step, void **shared)
{
    errand e = errand_for(step);
    e.shared = shared;
    cdz_fibre_outside(do_begin, &e);
    return e.status;
}

static cdz_status own_apply(const cdz_step *step, cdz_scores *scores)
{
    errand e = errand_for(step);
    e.scores = scores;
    cdz_fibre_outside(do_apply, &e);
    return e.status;
}

static cdz_status own_test(const cdz_step *step, cdz_stop *stops)
{
    errand e = errand_for(step);
    e.stops = stops;
    cdz_fibre_outside(do_test, &e);
    return e.status;
}

static cdz_status own_accept(const cdz_step *step, uint32_t row, int32_t token)
{
    errand e = errand_for(step);
    e.row = row;
    e.token = token;
    cdz_fibre_outside(do_accept, &e);
    return e.status;
}

static void own_end(const cdz_step *step)
{
    errand e = errand_for(step);
    cdz_fibre_outside(do_end, &e);
}

/* --- drafters: the verbs belong to the fibre, so they get no decoder --- */

static void do_draft_begin(void *arg)
{
    errand *e = arg;
    e->status = cdz_call_draft_begin(&e->call, &e->own->has.drafter, NULL, &e->step, e->shared);
}

static void do_propose(void *arg)
{
    errand *e = arg;
    e->status = cdz_call_propose(&e->call, &e->own->has.drafter, NULL, &e->step, e->draft);
}

static void do_judged(void *arg)
{
    errand *e = arg;
    e->status = cdz_call_judged(&e->call, &e->own->has.drafter, NULL, &e->step, e->row, e->n,
                                e->n_accepted);
}

static cdz_status own_draft_begin(cdz_decoder *dec, const cdz_step *step, void **shared)
{
    (void)dec;
    errand e = errand_for(step);
    e.shared = shared;
    cdz_fibre_outside(do_draft_begin, &e);
    return e.status;
}

static cdz_status own_propose(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    (void)dec;
    errand e = errand_for(step);
    e.draft = draft;
    cdz_fibre_outside(do_propose, &e);
    return e.status;
}

static cdz_status own_judged(cdz_decoder *dec, const cdz_step *step, uint32_t row,
                             uint32_t n_proposed, uint32_t n_accepted)
{
    (void)dec;
    errand e = errand_for(step);
    e.row = row;
    e.n = n_proposed;
    e.n_accepted = n_accepted;
    cdz_fibre_outside(do_judged, &e);
    return e.status;
}

/* --- observers --- */

static void do_stage(void *arg)
{
    errand *e = arg;
    e->status = cdz_call_stage(&e->call, &e->own->has.observer, &e->step, e->by, e->seen);
}

static void do_scores(void *arg)
{
    errand *e = arg;
    e->status = cdz_call_scores(&e->call, &e->own->has.observer, &e->step, e->seen);
}

static void do_token(void *arg)
{
    errand *e = arg;
    e->status = cdz_call_token(&e->call, &e->own->has.observer, &e->step, e->token);
}

static void do_stop(void *arg)
{
    errand *e = arg;
    e->status = cdz_call_stop(&e->call, &e->own->has.observer, &e->step, e->stop);
}

static void do_rewind(void *arg)
{
    errand *e = arg;
    e->status = cdz_call_rewind(&e->call, &e->own->has.observer, &e->step, e->n);
}

static void do_reorder(void *arg)
{
    errand *e = arg;
    e->status = cdz_call_reorder(&e->call, &e->own->has.observer, &e->step, e->parents);
}

static cdz_status own_stage(const cdz_step *step, const cdz_plugin_base *by, const cdz_seen *seen)
{
    errand e = errand_for(step);
    e.by = by;
    e.seen = seen;
    cdz_fibre_outside(do_stage, &e);
    return e.status;
}

static cdz_status own_scores(const cdz_step *step, const cdz_seen *seen)
{
    errand e = errand_for(step);
    e.seen = seen;
    cdz_fibre_outside(do_scores, &e);
    return e.status;
}

static cdz_status own_token(const cdz_step *step, int32_t token)
{
    errand e = errand_for(step);
    e.token = token;
    cdz_fibre_outside(do_token, &e);
    return e.status;
}

static cdz_status own_stop(const cdz_step *step, const cdz_stop *stop)
{
    errand e = errand_for(step);
    e.stop = stop;
    cdz_fibre_outside(do_stop, &e);
    return e.status;
}

static cdz_status own_rewind(const cdz_step *step, uint32_t n)
{
    errand e = errand_for(step);
    e.n = n;
    cdz_fibre_outside(do_rewind, &e);
    return e.status;
}

static cdz_status own_reorder(const cdz_step *step, const uint32_t *parents)
{
    errand e = errand_for(step);
    e.parents = parents;
    cdz_fibre_outside(do_reorder, &e);
    return e.status;
}

/* The same plugin with our functions where it has its own. */
static void show_processor(cdz_processor *p)
{
    p->base.size = sizeof *p;
    if (p->create) p->create = own_create;
    if (p->idle) p->idle = own_idle;
    if (p->begin) p->begin = own_begin;
    p->apply = own_apply;
    if (p->accept) p->accept = own_accept;
    if (p->end) p->end = own_end;
}

static void show_criterion(cdz_criterion *c)
{
    c->base.size = sizeof *c;
    if (c->create) c->create = own_create;
    if (c->idle) c->idle = own_idle;
    if (c->begin) c->begin = own_begin;
    c->test = own_test;
    if (c->accept) c->accept = own_accept;
    if (c->end) c->end = own_end;
}

static void show_drafter(cdz_drafter *d)
{
    d->base.size = sizeof *d;
    if (d->create) d->create = own_create;
    if (d->begin) d->begin = own_draft_begin;
    d->propose = own_propose;
    if (d->judged) d->judged = own_judged;
    if (d->end) d->end = own_end;
}

static void show_observer(cdz_observer *o)
{
    o->base.size = sizeof *o;
    if (o->create) o->create = own_create;
    if (o->begin) o->begin = own_begin;
    if (o->stage) o->stage = own_stage;
    if (o->scores) o->scores = own_scores;
    if (o->token) o->token = own_token;
    if (o->stop) o->stop = own_stop;
    if (o->rewind) o->rewind = own_rewind;
    if (o->reorder) o->reorder = own_reorder;
    if (o->end) o->end = own_end;
}

static cdz_status read_own(const cdz_plugin_base *plugin, cdz_own_plugin *own, cdz_error *err)
{
    CDZ_TRY(cdz_descriptor_adopt("cdz_runtime_add_plugin", plugin, NULL, &own->has, err));
    const uint32_t kind = own->has.base.kind;
    own->shown = own->has;
    own->shown.base.loader_data = own;
    switch (kind) {
    case CDZ_KIND_PROCESSOR: show_processor(&own->shown.processor); break;
    case CDZ_KIND_CRITERION: show_criterion(&own->shown.criterion); break;
    case CDZ_KIND_DRAFTER: show_drafter(&own->shown.drafter); break;
    case CDZ_KIND_OBSERVER: show_observer(&own->shown.observer); break;
    default:
        return cdz_err(err, CDZ_E_USAGE,
                       "cdz_runtime_add_plugin: \"%s\" is a %s; expected a processor, a criterion, a "
                       "drafter or an observer",
                       plugin->id, cdz_kind_name(kind));
    }
    return CDZ_OK;
}

cdz_status cdz_own_open(const cdz_plugin_base *plugin, cdz_own_plugin **list, cdz_error *err)
{
    cdz_own_plugin *own = calloc(1, sizeof *own);
    if (!own) return cdz_err_memory(err, "a plugin");
    const cdz_status status = read_own(plugin, own, err);
    if (status != CDZ_OK) {
        free(own);
        return status;
    }
    own->next = *list;
    *list = own;
    return CDZ_OK;
}

const cdz_plugin_base *cdz_own_shown(const cdz_own_plugin *own)
{
    return &own->shown.base;
}

void cdz_own_free(cdz_own_plugin *list)
{
    for (cdz_own_plugin *next; list; list = next) {
        next = list->next;
        free(list);
    }
}
