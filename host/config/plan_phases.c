/* plan_phases.c - the processors of a pipeline with [phase:NAME] sections.
 *
 * What each phase runs is worked out as if it were a request of its own, with the phase's values above all others. The
 * lists are then laid into one, in which a processor stands once for all phases that run it with the same parameters, so
 * that one state and one answer serve them; bits of each instance say where it runs. The processor that tells phases
 * stands before them. */
#include <stdio.h>
#include <string.h>

#include "cadenza/ext/phase.h"
#include "call/outside.h"
#include "config/phases.h"
#include "config/planner.h"
#include "config/profile.h"

/* What a phase has in the end. */
typedef struct phase_values {
    cdz_json at[CDZ_N_PHASE_VALUES];
} phase_values;

/* The lists as one. */
typedef struct laid {
    cdz_instance *at;
    const char **params; /* of each, written out */
    uint32_t n;
} laid;

static const cdz_json no_end = {.type = CDZ_JSON_NULL};
static const cdz_origin from_request = {.source = CDZ_SOURCE_REQUEST};

/* --- what a request says of phases ---------------------------------------------------------------------------------- */

cdz_status cdz_planner_no_phases(cdz_planner *p)
{
    if (!p->phases || p->phases->type == CDZ_JSON_NULL) return CDZ_OK;
    return cdz_err(p->err, CDZ_E_USAGE, "request: phases: the pipeline has no [phase:NAME] section");
}

static cdz_status check_names(cdz_planner *p)
{
    const cdz_link *link = p->link;
    const char *names[CDZ_MOST_PHASES];
    if (!p->phases || p->phases->type == CDZ_JSON_NULL) return CDZ_OK;
    if (p->phases->type != CDZ_JSON_OBJECT)
        return cdz_err(p->err, CDZ_E_USAGE, "request: phases: must be an object, found %s",
                       cdz_json_type_name(p->phases));
    for (uint32_t i = 0; i < link->n_phases; i++) names[i] = link->phases[i].name;
    for (uint32_t i = 0; i < p->phases->len; i++) {
        const cdz_json_member *m = &p->phases->members[i];
        bool known = false;
        for (uint32_t k = 0; k < link->n_phases; k++) known |= strcmp(names[k], m->key) == 0;
        const char *near = cdz_nearest_name(m->key, names, link->n_phases);
        if (!known)
            return cdz_err(p->err, CDZ_E_USAGE,
                           "request: phases.%s: the pipeline has no such phase%s%s%s", m->key,
                           near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
        if (m->value.type != CDZ_JSON_OBJECT)
            return cdz_err(p->err, CDZ_E_USAGE, "request: phases.%s: must be an object, found %s",
                           m->key, cdz_json_type_name(&m->value));
    }
    return CDZ_OK;
}

/* One value of a phase: its own, or a generation parameter's. A request carries values, it does not name what runs. */
static cdz_status put_one(cdz_planner *q, const cdz_json_member *m, cdz_json *values, cdz_error *why)
{
    const int key = cdz_phase_key_of(m->key);
    if (key >= CDZ_N_PHASE_VALUES)
        return cdz_err(why, CDZ_E_USAGE,
                       "%s: only the pipeline file can set this; a request "
                       "sets values of a phase",
                       m->key);
    if (key >= 0) {
        values[key] = m->value;
        return cdz_phase_check_value((cdz_phase_key)key, &m->value, &q->plan->arena, why);
    }
    const int slot = cdz_phase_slot(q->link->sources, m->key, why);
    if (slot < 0) return why->code;
    return cdz_planner_put(q, (uint32_t)slot, &m->value, &from_request);
}

static cdz_status put_request(cdz_planner *q, const cdz_phase_part *phase, cdz_json *values)
{
    const cdz_json *said = q->phases ? cdz_json_get(q->phases, phase->name) : NULL;
    for (uint32_t i = 0; said && i < said->len; i++) {
        cdz_error why = {0};
        const cdz_status st = put_one(q, &said->members[i], values, &why);
        if (st != CDZ_OK)
            return cdz_err(q->err, st, "request: phases.%s.%s", phase->name, why.text);
    }
    return CDZ_OK;
}

/* --- one phase ------------------------------------------------------------------------------------------------------- */

/* The constraint that a phase sets; "": it sets none. */
static const char *own_constraint(const cdz_planner *q, const cdz_phase_part *phase)
{
    const cdz_json *said = q->phases ? cdz_json_get(q->phases, phase->name) : NULL;
    for (uint32_t i = 0; said && i < said->len; i++)
        if (cdz_hf_is_constraint(said->members[i].key)) return said->members[i].key;
    for (uint32_t i = 0; i < phase->n_generation; i++) {
        const char *name = cdz_generation_slot_name(phase->generation[i].slot);
        if (cdz_hf_is_constraint(name)) return name;
    }
    return "";
}

static cdz_status refuse(const cdz_planner *p, const cdz_phase_part *phase, const char *name,
                         const char *why)
{
    char prefix[300];
    cdz_origin_prefix(&phase->origin, prefix, sizeof prefix);
    return cdz_err(p->err, CDZ_E_USAGE, "%s[%s] %s: %s", prefix, phase->section, name, why);
}

/* A phase's constraint is of the text from its beginning to its end, and of nothing else. */
static cdz_status check_constraint(const cdz_planner *p, const cdz_phase_part *phase,
                                   const char *name, const cdz_json *until)
{
    const cdz_generation *g = &p->res.generation;
    if (!*name) return CDZ_OK;
    if (cdz_hf_constrains(g))
        return refuse(p, phase, name,
                      "the whole answer has a constraint too ([generation] or the request); leave "
                      "one of them out");
    if (g->grammar_after)
        return refuse(p, phase, name, "grammar_after is set; the phase says where it begins");
    if (until->type == CDZ_JSON_NULL || until->type == CDZ_JSON_INT ||
        (until->type == CDZ_JSON_ARRAY && until->len == 1))
        return CDZ_OK;
    return refuse(p, phase, name,
                  "the phase's until is a text or several tokens, which may stand inside of what "
                  "the constraint allows; write the id of one token, as until = [151668]");
}

/* q, a copy of the request's planner p, with the phase's values. */
static cdz_status resolve(const cdz_planner *p, cdz_planner *q, const cdz_phase_part *phase,
                          cdz_json *values)
{
    memcpy(values, phase->values, sizeof phase->values);
    q->res = (cdz_resolution){0};
    CDZ_TRY(cdz_planner_put_sources(q));
    for (uint32_t i = 0; i < phase->n_generation; i++) {
        const cdz_slot_value *v = &phase->generation[i];
        cdz_resolution_put(&q->res, v->slot, &v->value, &v->origin);
    }
    CDZ_TRY(put_request(q, phase, values));
    CDZ_TRY(cdz_planner_imply_flags(q));
    CDZ_TRY(cdz_planner_zero_temperature(q, p->res.generation.do_sample));
    return cdz_resolution_finish(&q->res, q->err);
}

/* What the phase's own settings gave rise to. */
static void pass_warnings(cdz_planner *p, const cdz_planner *q, const cdz_phase_part *phase)
{
    for (uint32_t i = 0; i < q->res.warnings.n; i++) {
        const char *said = q->res.warnings.at[i];
        bool known = false;
        for (uint32_t k = 0; k < p->res.warnings.n; k++)
            known |= strcmp(p->res.warnings.at[k], said) == 0;
        if (!known) cdz_warn(&p->res.warnings, &p->plan->arena, "[%s] %s", phase->section, said);
    }
}

/* The pipeline's custom processors, then the phase's. */
static cdz_status custom_of(cdz_planner *p, const cdz_phase_part *phase, cdz_parts *out)
{
    const cdz_parts *all = &p->link->processors;
    *out = *all;
    if (!phase || phase->processors.n == 0) return CDZ_OK;
    out->at =
        cdz_arena_array(&p->plan->arena, (size_t)all->n + phase->processors.n, sizeof *out->at);
    if (!out->at) return cdz_planner_nomem(p);
    if (all->n) memcpy(out->at, all->at, all->n * sizeof *out->at);
    memcpy(out->at + all->n, phase->processors.at, phase->processors.n * sizeof *out->at);
    out->n = all->n + phase->processors.n;
    return CDZ_OK;
}

/* --- laying lists into one --------------------------------------------------------------------------------------------- */

static const char *params_text(cdz_planner *p, const cdz_instance *instance)
{
    const cdz_param_table table = cdz_params_of(instance->plugin.base);
    cdz_buf text = {0};
    for (uint32_t i = 0; i < table.n; i++) {
        cdz_param_write(cdz_param_at(&table, i), instance->params, &text);
        cdz_buf_putc(&text, '\n');
    }
    const char *kept =
        text.failed ? NULL
                    : cdz_arena_strndup(&p->plan->arena, text.data ? text.data : "", text.len);
    cdz_buf_free(&text);
    return kept;
}

/* Where from `from` on the same processor stands, or n. */
static uint32_t find(const laid *all, uint32_t from, const cdz_instance *made, const char *params)
{
    while (from < all->n &&
           (all->at[from].of_phase || all->at[from].plugin.base != made->plugin.base ||
            strcmp(all->at[from].name, made->name) != 0 || strcmp(all->params[from], params) != 0))
        from++;
    return from;
}

/* Whether a processor was made for this phase's text alone. */
static bool is_of_phase(const cdz_planner *q, const cdz_phase_part *phase, const cdz_instance *made)
{
    if (!phase || strcmp(made->plugin.base->id, "grammar") != 0) return false;
    const cdz_parts *lists[] = {&phase->processors, &phase->chain};
    for (size_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < lists[k]->n; i++)
            if (strcmp(lists[k]->at[i].name, made->name) == 0) return true;
    return *own_constraint(q, phase) && strcmp(made->name, "grammar") == 0;
}

static cdz_json array(const cdz_json *items, uint32_t n)
{
    return (cdz_json){.type = CDZ_JSON_ARRAY, .len = n, .items = items};
}

/* A phase that ends by a token: its constraint does so, in place of an end of sequence. */
static cdz_status end_by(cdz_planner *q, const cdz_json *until, cdz_instance *made)
{
    const cdz_param_table table = cdz_params_of(made->plugin.base);
    const cdz_param *ends = cdz_param_find(&table, "ends");
    const cdz_json list = until->type == CDZ_JSON_INT ? array(until, 1) : *until;
    if (until->type == CDZ_JSON_NULL || until->type == CDZ_JSON_STRING || !ends) return CDZ_OK;
    void *params = cdz_arena_alloc(&q->plan->arena, table.params_size);
    if (!params) return cdz_planner_nomem(q);
    memcpy(params, made->params, table.params_size);
    made->params = params;
    return cdz_param_set(ends, params, &list, &q->plan->arena, q->err);
}

/* Each phase finds its processors in its order: those of other phases stand between them, wherever. */
static cdz_status lay(cdz_planner *p, laid *all, const cdz_instance *made, uint32_t bit,
                      uint32_t *at)
{
    const char *params = params_text(p, made);
    if (!params) return cdz_planner_nomem(p);
    uint32_t here = made->of_phase ? all->n : find(all, *at, made, params);
    if (here == all->n) {
        here = *at;
        memmove(all->at + here + 1, all->at + here, (all->n - here) * sizeof *all->at);
        memmove(all->params + here + 1, all->params + here, (all->n - here) * sizeof *all->params);
        all->at[here] = *made;
        all->params[here] = params;
        all->n++;
    }
    all->at[here].phases |= bit;
    *at = here + 1;
    return CDZ_OK;
}

static cdz_status lay_all(cdz_planner *p, cdz_planner *q, const cdz_phase_part *phase, uint32_t bit,
                          const cdz_json *until, laid *all)
{
    const cdz_parts *chain = phase && phase->chain.given ? &phase->chain : &q->link->chain;
    cdz_parts custom;
    CDZ_TRY(custom_of(q, phase, &custom));
    const size_t room = (size_t)cdz_hf_n_processors + custom.n + chain->n;
    cdz_place *places = cdz_arena_array(&q->plan->arena, room, sizeof *places);
    uint32_t n, at = 0;
    if (!places) return cdz_planner_nomem(q);
    CDZ_TRY(cdz_planner_order(q, &custom, chain, places, &n));
    for (uint32_t i = 0; i < n; i++) {
        cdz_instance made;
        CDZ_TRY(cdz_planner_instantiate(q, places[i].part, places[i].at, places[i].custom, &made));
        made.of_phase = is_of_phase(q, phase, &made);
        if (made.of_phase) CDZ_TRY(end_by(q, until, &made));
        CDZ_TRY(lay(p, all, &made, bit, &at));
    }
    return CDZ_OK;
}

/* --- the teller --------------------------------------------------------------------------------------------------------- */

/* Lists that are parameters of the teller, an item for each phase. */
typedef struct tables {
    cdz_json names[CDZ_MOST_PHASES], texts[2][CDZ_MOST_PHASES], ids[2][CDZ_MOST_PHASES],
        max_tokens[CDZ_MOST_PHASES];
} tables;

static cdz_json string(const char *text)
{
    return (cdz_json){.type = CDZ_JSON_STRING, .len = (uint32_t)strlen(text), .string = text};
}

static void put_mark(const cdz_json *value, cdz_json *text, cdz_json *ids)
{
    const bool written = value->type == CDZ_JSON_STRING;
    *text = written ? *value : string("");
    if (value->type == CDZ_JSON_INT)
        *ids = array(value, 1);
    else
        *ids = value->type == CDZ_JSON_ARRAY ? *value : array(NULL, 0);
}

static cdz_status set_list(cdz_planner *p, const char *name, const cdz_json *items, void *params)
{
    const cdz_param_table table = cdz_params_of(p->link->teller.plugin.base);
    const cdz_param *param = cdz_param_find(&table, name);
    const cdz_json list = array(items, p->link->n_phases);
    if (!param)
        return cdz_err(p->err, CDZ_E_PLUGIN, "%s: has no parameter %s", CDZ_PHASES_ID, name);
    return cdz_param_set(param, params, &list, &p->plan->arena, p->err);
}

static cdz_status make_teller(cdz_planner *p, const phase_values *values, cdz_instance *out)
{
    const cdz_link *link = p->link;
    const cdz_part *part = &link->teller;
    tables t;
    if (!part->plugin.base) return cdz_err(p->err, CDZ_E_NOT_FOUND, "%s", part->missing);
    for (uint32_t i = 0; i < link->n_phases; i++) {
        const cdz_json *most = &values[i].at[CDZ_PHASE_MAX_TOKENS];
        t.names[i] = string(link->phases[i].name);
        put_mark(&values[i].at[CDZ_PHASE_BEGIN], &t.texts[0][i], &t.ids[0][i]);
        put_mark(&values[i].at[CDZ_PHASE_UNTIL], &t.texts[1][i], &t.ids[1][i]);
        t.max_tokens[i] =
            most->type == CDZ_JSON_INT ? *most : (cdz_json){.type = CDZ_JSON_INT, .integer = -1};
    }
    const cdz_param_table table = cdz_params_of(part->plugin.base);
    void *params = cdz_arena_alloc(&p->plan->arena, table.params_size);
    if (!params) return cdz_planner_nomem(p);
    cdz_params_defaults(&table, params);
    CDZ_TRY(set_list(p, "names", t.names, params));
    CDZ_TRY(set_list(p, "begin", t.texts[0], params));
    CDZ_TRY(set_list(p, "until", t.texts[1], params));
    CDZ_TRY(set_list(p, "begin_ids", t.ids[0], params));
    CDZ_TRY(set_list(p, "until_ids", t.ids[1], params));
    CDZ_TRY(set_list(p, "max_tokens", t.max_tokens, params));
    *out = (cdz_instance){.name = part->name,
                          .plugin = part->plugin,
                          .params = params,
                          .origin = link->phases[0].origin,
                          .custom = true,
                          .phases = CDZ_IN_HELD_ROWS};
    CDZ_TRY(cdz_call_create_plugin(part->plugin.base, params, cdz_module_data(part->plugin.module),
                                   &p->plan->arena, p->err));
    return cdz_offers_ask(part->plugin.base, &out->offers, p->err);
}

/* Its values are kept for whoever compiles the constraint before the request begins. */
static cdz_status keep_values(cdz_planner *p, const cdz_planner *q, const cdz_phase_part *phase,
                              cdz_plan_phase *out)
{
    if (!*own_constraint(q, phase)) return CDZ_OK;
    cdz_generation *own = cdz_arena_alloc(&p->plan->arena, sizeof *own);
    if (!own) return cdz_planner_nomem(p);
    *own = q->res.generation;
    out->constrained = own;
    return CDZ_OK;
}

/* --- the whole ------------------------------------------------------------------------------------------------------------ */

static const char *text_of(cdz_planner *p, const cdz_json *value)
{
    cdz_buf text = {0};
    if (value->type == CDZ_JSON_NULL) return NULL;
    cdz_json_write(&text, value);
    const char *kept = text.failed ? NULL : cdz_arena_strndup(&p->plan->arena, text.data, text.len);
    cdz_buf_free(&text);
    return kept;
}

/* Can a row be in no phase? */
static bool has_outside(const cdz_link *link, const phase_values *values)
{
    for (uint32_t i = 0; i < link->n_phases; i++)
        if (values[i].at[CDZ_PHASE_BEGIN].type != CDZ_JSON_NULL) return true;
    return values[link->n_phases - 1].at[CDZ_PHASE_UNTIL].type != CDZ_JSON_NULL;
}

static size_t room_for(const cdz_link *link)
{
    size_t n = 1;
    for (uint32_t i = 0; i <= link->n_phases; i++) {
        n += (size_t)cdz_hf_n_processors + link->processors.n + link->chain.n;
        if (i < link->n_phases) n += link->phases[i].processors.n + link->phases[i].chain.n;
    }
    return n;
}

/* Phase i: its values, its processors, and what explain says of it. */
static cdz_status plan_phase(cdz_planner *p, uint32_t i, cdz_json *values, laid *all,
                             cdz_plan_phase *out)
{
    const cdz_phase_part *phase = &p->link->phases[i];
    cdz_planner q = *p;
    CDZ_TRY(resolve(p, &q, phase, values));
    CDZ_TRY(check_constraint(p, phase, own_constraint(&q, phase), &values[CDZ_PHASE_UNTIL]));
    CDZ_TRY(lay_all(p, &q, phase, 1u << (i + 1), &values[CDZ_PHASE_UNTIL], all));
    pass_warnings(p, &q, phase);
    *out = (cdz_plan_phase){.name = phase->name,
                            .origin = phase->origin,
                            .origins = q.res.origins,
                            .begin = text_of(p, &values[CDZ_PHASE_BEGIN]),
                            .until = text_of(p, &values[CDZ_PHASE_UNTIL]),
                            .max_tokens = text_of(p, &values[CDZ_PHASE_MAX_TOKENS])};
    return keep_values(p, &q, phase, out);
}

cdz_status cdz_planner_phases(cdz_planner *p)
{
    const cdz_link *link = p->link;
    phase_values values[CDZ_MOST_PHASES] = {0};
    const size_t room = room_for(link);
    laid all = {.at = cdz_arena_array(&p->plan->arena, room, sizeof *all.at),
                .params = cdz_arena_array(&p->plan->arena, room, sizeof *all.params)};
    cdz_plan_phase *shown = cdz_arena_array(&p->plan->arena, link->n_phases, sizeof *shown);
    if (!all.at || !all.params || !shown) return cdz_planner_nomem(p);
    CDZ_TRY(check_names(p));
    laid rest = {.at = all.at + 1, .params = all.params};
    for (uint32_t i = 0; i < link->n_phases; i++)
        CDZ_TRY(plan_phase(p, i, values[i].at, &rest, &shown[i]));
    if (has_outside(link, values))
        CDZ_TRY(lay_all(p, p, NULL, 1u << CDZ_PHASE_NONE, &no_end, &rest));
    CDZ_TRY(make_teller(p, values, &all.at[0]));
    p->plan->processors = all.at;
    p->plan->n_processors = rest.n + 1;
    p->plan->phases = shown;
    p->plan->n_phases = link->n_phases;
    return CDZ_OK;
}
