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
    uint32_t row;
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

static cdz_status read_own(const cdz_plugin_base *plugin, cdz_own_plugin *own, cdz_error *err)
{
    CDZ_TRY(cdz_descriptor_adopt("cdz_runtime_add_plugin", plugin, NULL, &own->has, err));
    const uint32_t kind = own->has.base.kind;
    if (kind != CDZ_KIND_PROCESSOR && kind != CDZ_KIND_CRITERION)
        return cdz_err(err, CDZ_E_USAGE,
                       "cdz_runtime_add_plugin: \"%s\" is a %s; expected a processor or a criterion",
                       plugin->id, cdz_kind_name(kind));
    own->shown = own->has;
    own->shown.base.loader_data = own;
    if (kind == CDZ_KIND_PROCESSOR)
        show_processor(&own->shown.processor);
    else
        show_criterion(&own->shown.criterion);
    return CDZ_OK;
}

cdz_status cdz_own_open(const cdz_plugin_base *plugin, cdz_own_plugin **list, cdz_error *err)
{
    cdz_own_plugin *own = calloc(1, sizeof *own);
    if (!own) return cdz_err(err, CDZ_E_NOMEM, "out of memory for a plugin");
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
