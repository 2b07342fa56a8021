/* planner.h - what the files that make a plan share: plan.c, plan_lists.c and plan_phases.c. */
#ifndef CDZ_HOST_CONFIG_PLANNER_H
#define CDZ_HOST_CONFIG_PLANNER_H

#include "config/link.h"
#include "config/pipeline.h"

/* A value that the request sets on a plugin of the pipeline. */
typedef struct cdz_asked_value {
    const cdz_part *part;
    const cdz_param *param;
    const cdz_json *value;
    const char *said; /* "section.name" as the request has it */
    bool used;        /* an instance has it */
} cdz_asked_value;

typedef struct cdz_asked {
    cdz_asked_value *at;
    uint32_t n;
} cdz_asked;

typedef struct cdz_planner {
    const cdz_link *link;
    cdz_plan *plan;
    cdz_resolution res;
    const cdz_part *strategy, *drafter;  /* drafter NULL: none */
    const cdz_plan_assistant *assistant; /* or NULL */
    const cdz_json *model;               /* the model's own parameters, or NULL */
    const cdz_json *kwargs;              /* an object or NULL */
    const cdz_json *phases;              /* of kwargs: what the request says of phases, or NULL */
    bool *own;        /* per member of kwargs: it is the strategy's, not a generation parameter */
    cdz_asked *asked; /* values of single plugins; the same for all phases */
    cdz_error *err;
} cdz_planner;

/* An entry of a list of instances to be made. */
typedef struct cdz_place {
    const cdz_part *part;
    uint32_t at;
    bool custom;
} cdz_place;

static inline cdz_status cdz_planner_nomem(cdz_planner *p)
{
    return cdz_err(p->err, CDZ_E_NOMEM, "plan: out of memory");
}

/* --- plan.c --- */
/* Begins p->res with what every source says, the request included. */
cdz_status cdz_planner_put_sources(cdz_planner *p);
/* A value of the request, or of its phases. */
cdz_status cdz_planner_put(cdz_planner *p, uint32_t slot, const cdz_json *value,
                           const cdz_origin *origin);
/* What the named strategy implies. */
cdz_status cdz_planner_imply_flags(cdz_planner *p);
/* What temperature = 0 means. in_phase: p->res is a phase's, whose request does as its own says. */
cdz_status cdz_planner_zero_temperature(cdz_planner *p, bool in_phase);
/* A plugin with its parameters, as p->res and its section have them. */
cdz_status cdz_planner_instantiate(cdz_planner *p, const cdz_part *part, uint32_t place,
                                   bool custom, cdz_instance *out);

/* --- plan_asked.c --- */
/* Is this member of kwargs "section.name"? */
bool cdz_planner_is_asked(const cdz_planner *p, const char *key);
/* Finds what every "section.name" of kwargs means. */
cdz_status cdz_planner_read_asked(cdz_planner *p);
/* May a request set it, which calls it so? */
cdz_status cdz_planner_may_ask(const cdz_planner *p, const cdz_param *param, const char *said);
/* How the request spells the last value that it sets on this part; NULL: it sets none. */
const char *cdz_planner_asks(const cdz_planner *p, const cdz_part *part);
cdz_status cdz_planner_set_asked(cdz_planner *p, const cdz_part *part, void *params);
/* Of values whose plugin is in the pipeline, but not in this plan. */
void cdz_planner_warn_asked(cdz_planner *p);

/* --- plan_lists.c --- */
cdz_status cdz_planner_processors(cdz_planner *p);
cdz_status cdz_planner_criteria(cdz_planner *p);
cdz_status cdz_planner_observers(cdz_planner *p);
cdz_status cdz_planner_presses(cdz_planner *p);
/* The processors that p->res asks for, in order; the chain takes their place when it is given. out: room for the
 * profile's and all of custom and chain. */
cdz_status cdz_planner_order(cdz_planner *p, const cdz_parts *custom, const cdz_parts *chain,
                             cdz_place *out, uint32_t *n);

/* --- plan_phases.c --- */
cdz_status cdz_planner_phases(cdz_planner *p); /* the processors of a pipeline with phases */
/* A request's phases where the pipeline has none. */
cdz_status cdz_planner_no_phases(cdz_planner *p);

#endif
