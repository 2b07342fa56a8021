/* plan.c - one request's plan: parameters resolved, a decode loop chosen, processors and criteria in their places.
 * Runs for every request, so it looks nothing up that link.c could have found before. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cadenza/drafter.h"
#include "call/outside.h"
#include "config/pipeline_state.h"
#include "config/planner.h"

/* --- parameters ------------------------------------------------------------------------------------------ */

/* A schema, and structural tags, come as an object or as its text; the parameter is a text. */
cdz_status cdz_planner_put(cdz_planner *p, uint32_t slot, const cdz_json *value,
                           const cdz_origin *origin)
{
    cdz_buf text = {0};
    const char *name = cdz_generation_slot_name(slot);
    const bool schema = strcmp(name, "json_schema") == 0;
    const bool taken = schema || strcmp(name, "structural_tag") == 0;
    if (!(taken && value->type == CDZ_JSON_OBJECT) && !(schema && value->type == CDZ_JSON_BOOL)) {
        cdz_resolution_put(&p->res, slot, value, origin);
        return CDZ_OK;
    }
    cdz_json *own = cdz_arena_alloc(&p->plan->arena, sizeof *own);
    cdz_json_write(&text, value);
    char *copy = text.failed ? NULL : cdz_arena_strndup(&p->plan->arena, text.data, text.len);
    if (own && copy)
        *own = (cdz_json){.type = CDZ_JSON_STRING, .len = (uint32_t)text.len, .string = copy};
    cdz_buf_free(&text);
    if (!own || !copy) return cdz_planner_nomem(p);
    cdz_resolution_put(&p->res, slot, own, origin);
    return CDZ_OK;
}

static cdz_status put_kwargs(cdz_planner *p)
{
    const cdz_json *kwargs = p->kwargs;
    if (!kwargs) return CDZ_OK;
    if (kwargs->type != CDZ_JSON_OBJECT)
        return cdz_err(p->err, CDZ_E_USAGE, "request: kwargs must be an object, found %s",
                       cdz_json_type_name(kwargs));
    p->own = cdz_arena_array(&p->plan->arena, kwargs->len, sizeof *p->own);
    if (!p->own) return cdz_planner_nomem(p);
    for (uint32_t i = 0; i < kwargs->len; i++) {
        const char *key = kwargs->members[i].key;
        int slot = cdz_link_slot(p->link, key);
        const bool renamed = slot >= 0 && strcmp(key, cdz_generation_slot_name((uint32_t)slot)) != 0;
        const cdz_origin origin = {.source = CDZ_SOURCE_REQUEST, .said = renamed ? key : NULL};
        const bool strategy = cdz_link_strategy_has(p->link, kwargs->members[i].key);
        const bool phases = !strategy && strcmp(kwargs->members[i].key, "phases") == 0;
        if (phases) p->phases = &kwargs->members[i].value;
        const bool asked = cdz_planner_is_asked(p, key);
        p->own[i] = !asked && ((slot < 0 && !phases) || strategy);
        if (!asked && !p->own[i] && !phases)
            CDZ_TRY(cdz_planner_put(p, (uint32_t)slot, &kwargs->members[i].value, &origin));
    }
    return CDZ_OK;
}

cdz_status cdz_planner_put_sources(cdz_planner *p)
{
    const cdz_link *link = p->link;
    CDZ_TRY(cdz_resolution_begin(&p->res, &p->plan->arena, p->err));
    p->res.has_embeds = p->plan->inputs.has_embeds;
    CDZ_TRY(cdz_resolution_put_model(&p->res, p->model, p->err));
    for (uint32_t i = 0; i < link->n_generation; i++) {
        const cdz_slot_value *v = &link->generation[i];
        cdz_resolution_put(&p->res, v->slot, &v->value, &v->origin);
    }
    return put_kwargs(p);
}

/* --- the strategy and what its name implies ---------------------------------------------------------------- */

static uint32_t strategy_caps(const cdz_part *part)
{
    return ((const cdz_strategy *)(const void *)part->plugin.base)->caps;
}

/* "story.ini:4" for the middle of a sentence. */
static void place_of(const cdz_origin *origin, char *out, size_t out_bytes)
{
    cdz_origin_prefix(origin, out, out_bytes);
    size_t len = strlen(out);
    while (len && (out[len - 1] == ' ' || out[len - 1] == ':')) out[--len] = '\0';
    if (origin->source == CDZ_SOURCE_COMMAND) snprintf(out, out_bytes, "command line");
}

/* Naming a strategy sets a parameter. It stands above lower sources; the same or a higher one may not differ. */
static cdz_status imply(cdz_planner *p, const char *name, const cdz_json *value, bool differs)
{
    uint32_t slot = (uint32_t)cdz_generation_slot(name);
    const cdz_origin *here = &p->strategy->origin, *there = &p->res.origins[slot];
    if (there->source < here->source || !p->res.values[slot]) {
        cdz_resolution_put(&p->res, slot, value, here);
        return CDZ_OK;
    }
    if (!differs) return CDZ_OK;
    char prefix[300], where[300];
    cdz_buf text = {0};
    cdz_origin_prefix(there, prefix, sizeof prefix);
    place_of(here, where, sizeof where);
    cdz_json_write(&text, p->res.values[slot]);
    cdz_status st = cdz_err(
        p->err, CDZ_E_USAGE, "%s%s = %s contradicts strategy = %s (%s); strategy = auto follows %s",
        prefix, name, text.data ? text.data : "?", p->strategy->name, where, name);
    cdz_buf_free(&text);
    return st;
}

static bool is_true(const cdz_planner *p, const char *name)
{
    const cdz_json *value = p->res.values[cdz_generation_slot(name)];
    return cdz_json_is(value, CDZ_JSON_BOOL) && value->boolean;
}

cdz_status cdz_planner_imply_flags(cdz_planner *p)
{
    static const cdz_json yes = {.type = CDZ_JSON_BOOL, .boolean = true};
    static const cdz_json no = {.type = CDZ_JSON_BOOL};
    static const cdz_json one = {.type = CDZ_JSON_INT, .integer = 1};
    if (!p->link->strategy_named) return CDZ_OK;
    p->strategy = &p->link->strategy;
    uint32_t caps = strategy_caps(p->strategy);
    bool samples = caps & CDZ_SAMPLES, greedy = caps & CDZ_GREEDY;
    double beams = 1;

    if (samples != greedy)
        CDZ_TRY(imply(p, "do_sample", samples ? &yes : &no, is_true(p, "do_sample") != samples));
    if ((samples || greedy) && !(caps & CDZ_BEAMS)) {
        const cdz_json *set = p->res.values[cdz_generation_slot("num_beams")];
        if (set) cdz_json_number(set, &beams);
        if (beams > 1) CDZ_TRY(imply(p, "num_beams", &one, true));
    }
    return CDZ_OK;
}

/* Temperature 0 is the limit of low ones, the likeliest token each time: greedy. With quirks it is the error that the
 * reference makes of it. */
static bool is_zero(const cdz_planner *p)
{
    const cdz_json *set = p->res.values[cdz_generation_slot("temperature")];
    double value;
    return set && cdz_json_number(set, &value) && value == 0 && !is_true(p, "quirks");
}

/* The values that stand in for it. In a phase of a request that samples, the strategy draws all the same: from the one
 * best token. */
cdz_status cdz_planner_zero_temperature(cdz_planner *p, bool in_phase)
{
    static const cdz_json no = {.type = CDZ_JSON_BOOL};
    static const cdz_json one = {.type = CDZ_JSON_INT, .integer = 1};
    static const cdz_json neutral = {.type = CDZ_JSON_REAL, .real = 1.0};
    const uint32_t slot = (uint32_t)cdz_generation_slot("temperature");
    if (!is_zero(p)) return CDZ_OK;
    const cdz_origin origin = p->res.origins[slot];
    const uint32_t caps = p->link->strategy_named ? strategy_caps(&p->link->strategy) : 0;
    if (in_phase) {
        cdz_resolution_put(&p->res, (uint32_t)cdz_generation_slot("top_k"), &one, &origin);
    } else if ((caps & CDZ_SAMPLES) && !(caps & CDZ_GREEDY)) {
        char prefix[300], where[300];
        cdz_origin_prefix(&origin, prefix, sizeof prefix);
        place_of(&p->link->strategy.origin, where, sizeof where);
        return cdz_err(
            p->err, CDZ_E_USAGE,
            "%s%s = 0 is greedy decoding, which contradicts strategy = %s (%s); strategy = "
            "auto follows it",
            prefix, origin.said ? origin.said : "temperature", p->link->strategy.name, where);
    } else {
        cdz_resolution_put(&p->res, (uint32_t)cdz_generation_slot("do_sample"), &no, &origin);
        p->res.zero_temperature = true;
    }
    cdz_resolution_put(&p->res, slot, &neutral, &origin);
    return CDZ_OK;
}

static bool drafts(cdz_mode mode)
{
    return mode == CDZ_MODE_ASSISTED || mode == CDZ_MODE_PROMPT_LOOKUP ||
           mode == CDZ_MODE_EARLY_EXIT;
}

/* The decode loop that the mode table asks for. A named drafter asks as an assistant does. */
static cdz_status follow_mode(cdz_planner *p)
{
    cdz_mode mode = cdz_generation_mode(&p->res, p->assistant || p->link->drafter.plugin.base);
    if (drafts(mode)) p->strategy = &p->link->assisted;
    if (drafts(mode) && p->res.values[cdz_generation_slot("dola_layers")])
        cdz_warn(&p->res.warnings, &p->plan->arena,
                 "dola_layers is ignored: drafts were asked for too, and they go first");
    if (mode == CDZ_MODE_GREEDY) p->strategy = &p->link->greedy;
    if (mode == CDZ_MODE_SAMPLE) p->strategy = &p->link->sample;
    if (mode == CDZ_MODE_BEAM || mode == CDZ_MODE_BEAM_SAMPLE) p->strategy = &p->link->beam;
    for (uint32_t i = 0; i < CDZ_N_RECIPES; i++)
        if (cdz_recipes[i].mode == mode) p->strategy = &p->link->recipes[i];
    if (!p->strategy)
        return cdz_err(p->err, CDZ_E_UNSUPPORTED,
                       "the parameters ask for mode %s: not supported by this version",
                       cdz_mode_name(mode));
    if (!p->strategy->plugin.base)
        return cdz_err(p->err, CDZ_E_NOT_FOUND, "%s", p->strategy->missing);
    return CDZ_OK;
}

static const cdz_part *drafter_of_mode(const cdz_planner *p)
{
    if (p->link->drafter_named) return &p->link->drafter;
    switch (cdz_generation_mode(&p->res, p->assistant != NULL)) {
    case CDZ_MODE_ASSISTED: return &p->link->model;
    case CDZ_MODE_PROMPT_LOOKUP: return &p->link->prompt_lookup;
    case CDZ_MODE_EARLY_EXIT: return &p->link->early_exit;
    default: return NULL;
    }
}

/* May drafts be of any length? Greedy tokens are the same then; draws, and what the reference counts, are not. */
static bool paces(const cdz_planner *p)
{
    const cdz_generation *g = &p->res.generation;
    return !p->link->drafting_fixed && !g->do_sample && !g->quirks &&
           strcmp(p->strategy->plugin.base->id, "assisted") == 0;
}

/* Searches over rows have no use for drafts; any other strategy may ask for them. */
static cdz_status choose_drafter(cdz_planner *p)
{
    const cdz_part *part = drafter_of_mode(p);
    if (strategy_caps(p->strategy) & CDZ_BEAMS) {
        if (p->assistant || (part && part->plugin.base))
            cdz_warn(&p->res.warnings, &p->plan->arena,
                     "strategy %s does not use drafts: the assistant is ignored", p->strategy->name);
        return CDZ_OK;
    }
    if (!part || (!part->plugin.base && !part->missing)) return CDZ_OK;
    if (!part->plugin.base) return cdz_err(p->err, CDZ_E_NOT_FOUND, "%s", part->missing);
    if (!p->res.generation.use_cache)
        return cdz_err(p->err, CDZ_E_USAGE,
                       "use_cache = false: drafts need the cache; set drafter = none or use_cache = "
                       "true");
    p->drafter = part;
    p->plan->paces_drafts = paces(p);
    return CDZ_OK;
}

/* As in transformers: what goes back in its cache has it whole. */
static void drop_quantized(cdz_planner *p)
{
    cdz_quantized_cache *cache = &p->res.generation.quantized;
    const cdz_mode mode = cdz_generation_mode(&p->res, p->assistant != NULL);
    if (!cache->on || (!p->drafter && mode != CDZ_MODE_CONTRASTIVE)) return;
    cache->on = false;
    cdz_warn(&p->res.warnings, &p->plan->arena,
             "cache_implementation = quantized: %s use a dynamic cache instead",
             p->drafter ? "drafts" : "trials of contrastive search");
}

static cdz_status choose_strategy(cdz_planner *p)
{
    const cdz_generation *g = &p->res.generation;
    CDZ_TRY(cdz_generation_unsupported(&p->res, p->err));
    if (g->num_beams < 1)
        return cdz_err(p->err, CDZ_E_USAGE, "num_beams = %lld: must be an integer from 1",
                       (long long)g->num_beams);
    if (!p->link->strategy_named) return follow_mode(p);
    if ((strategy_caps(p->strategy) & CDZ_BEAMS) && g->num_beams == 1)
        return cdz_err(p->err, CDZ_E_USAGE, "strategy = %s needs num_beams above 1",
                       p->strategy->name);
    return CDZ_OK;
}

/* --- instances ------------------------------------------------------------------------------------------- */

static bool has_own(const cdz_part *part, const cdz_param *param)
{
    for (uint32_t i = 0; i < part->n_settings; i++)
        if (part->settings[i].param == param) return true;
    return false;
}

/* Parameters that follow generation parameters, where nothing of their own is set. */
static cdz_status set_mirrored(cdz_planner *p, const cdz_part *part, void *params)
{
    for (uint32_t i = 0; i < part->n_mirrors; i++) {
        const cdz_mirror *m = &part->mirrors[i];
        const cdz_json *value = p->res.values[m->slot];
        cdz_error why = {0};
        if (has_own(part, m->param)) continue;
        if (!value) value = &p->link->defaults[m->slot];
        cdz_status st = cdz_param_set(m->param, params, value, &p->plan->arena, &why);
        if (st == CDZ_OK) continue;
        return cdz_origin_error(&p->res.origins[m->slot], m->param->name, st, why.text, p->err);
    }
    return CDZ_OK;
}

/* A generation parameter without a field of its own, such as watermarking_config, is an object: its members are
 * parameters of the plugin that is called like it. */
static cdz_status set_members(cdz_planner *p, const cdz_part *part, void *params)
{
    const cdz_plugin_base *plugin = part->plugin.base;
    const int slot = cdz_generation_slot(plugin->id);
    if (slot < 0 || (uint32_t)slot < cdz_generation_table()->n) return CDZ_OK;
    const cdz_json *object = p->res.values[slot];
    const cdz_param_table table = cdz_params_of(plugin);
    char prefix[300];
    cdz_origin_prefix(&p->res.origins[slot], prefix, sizeof prefix);
    for (uint32_t i = 0; cdz_json_is(object, CDZ_JSON_OBJECT) && i < object->len; i++) {
        const cdz_json_member *member = &object->members[i];
        const cdz_param *param = cdz_param_find(&table, member->key);
        cdz_error why = {0};
        if (!param) {
            char hint[120];
            cdz_param_suggest(&table, member->key, hint, sizeof hint);
            return cdz_err(p->err, CDZ_E_USAGE, "%s%s has no parameter %s%s", prefix, plugin->id,
                           member->key, hint);
        }
        if (has_own(part, param)) continue;
        cdz_status st = cdz_param_set(param, params, &member->value, &p->plan->arena, &why);
        if (st != CDZ_OK) return cdz_err(p->err, st, "%s%s: %s", prefix, plugin->id, why.text);
    }
    return CDZ_OK;
}

static cdz_status set_own(cdz_planner *p, const cdz_part *part, void *params)
{
    for (uint32_t i = 0; i < part->n_settings; i++) {
        const cdz_assignment *a = &part->settings[i];
        CDZ_TRY(cdz_param_set(a->param, params, &a->value, &p->plan->arena, p->err));
    }
    return CDZ_OK;
}

static cdz_status set_one(cdz_planner *p, const cdz_param *param, void *params,
                          const cdz_json *value, const char *prefix)
{
    cdz_error why = {0};
    const cdz_status st = cdz_param_set(param, params, value, &p->plan->arena, &why);
    return st == CDZ_OK ? CDZ_OK : cdz_err(p->err, st, "%s%s", prefix, why.text);
}

/* What the drafting model's own generation config says, then what the caller's does: of the latter the reference takes
 * no notice. */
static cdz_status set_draft_values(cdz_planner *p, const cdz_part *part, void *params)
{
    const cdz_param_table table = cdz_params_of(part->plugin.base);
    const cdz_json *own = p->assistant ? p->assistant->generation : p->model;
    for (uint32_t i = 0; i < table.n; i++) {
        const cdz_param *param = cdz_param_at(&table, i);
        const int slot = cdz_generation_slot(param->name);
        const cdz_json *value = own ? cdz_json_get(own, param->name) : NULL;
        if (param->flags & CDZ_GENERATION) continue; /* the target's */
        if (value && value->type != CDZ_JSON_NULL)
            CDZ_TRY(set_one(p, param, params, value, "the assistant's generation_config.json: "));
        if (slot < 0 || p->res.generation.quirks) continue;
        if (p->res.origins[slot].source <= CDZ_SOURCE_MODEL || !p->res.values[slot]) continue;
        char prefix[300];
        cdz_origin_prefix(&p->res.origins[slot], prefix, sizeof prefix);
        CDZ_TRY(set_one(p, param, params, p->res.values[slot], prefix));
    }
    return CDZ_OK;
}

/* Values the request sets on the draft model's generation config. Parameters that say nothing of drafts are the
 * reference's to ignore, and ours. */
static cdz_status set_overrides(cdz_planner *p, const cdz_part *part, void *params)
{
    const cdz_json *over = p->assistant ? p->assistant->overrides : NULL;
    const cdz_param_table table = cdz_params_of(part->plugin.base);
    for (uint32_t i = 0; over && i < over->len; i++) {
        const char *name = over->members[i].key;
        const cdz_param *param = cdz_param_find(&table, name);
        char hint[120];
        if (!param && cdz_generation_slot(name) >= 0) continue;
        if (param) {
            CDZ_TRY(set_one(p, param, params, &over->members[i].value,
                            "request: assistant.generation_config: "));
            continue;
        }
        cdz_generation_suggest(name, &table, hint, sizeof hint);
        return cdz_err(p->err, CDZ_E_USAGE,
                       "request: assistant.generation_config: %s: no such parameter%s", name, hint);
    }
    return CDZ_OK;
}

/* Arguments of the request that the strategy declares. */
static cdz_status set_arguments(cdz_planner *p, const cdz_part *part, void *params)
{
    cdz_param_table table = cdz_params_of(part->plugin.base);
    for (uint32_t i = 0; p->kwargs && i < p->kwargs->len; i++) {
        const cdz_json_member *member = &p->kwargs->members[i];
        const cdz_param *param = p->own[i] ? cdz_param_find(&table, member->key) : NULL;
        cdz_error why = {0};
        if (!p->own[i]) continue;
        if (!param) {
            char hint[120];
            cdz_generation_suggest(member->key, &table, hint, sizeof hint);
            return cdz_err(p->err, CDZ_E_USAGE,
                           "request: %s is neither a generation parameter nor one of strategy %s%s",
                           member->key, part->plugin.base->id, hint);
        }
        CDZ_TRY(cdz_planner_may_ask(p, param, member->key));
        cdz_status st = cdz_param_set(param, params, &member->value, &p->plan->arena, &why);
        if (st != CDZ_OK) return cdz_err(p->err, st, "request: %s", why.text);
    }
    return CDZ_OK;
}

/* Where a refusal of create most likely comes from: a setting of its own, its generation parameter, or its listing. */
static cdz_status blame(const cdz_planner *p, const cdz_part *part, cdz_status st,
                        const char *sentence)
{
    char prefix[300];
    const char *id = part->plugin.base->id;
    const char *asked = cdz_planner_asks(p, part);
    int slot = cdz_generation_slot(id);
    if (asked) return cdz_err(p->err, st, "request: %s: %s", asked, sentence);
    if (!part->n_settings && slot >= 0 && p->res.origins[slot].source != CDZ_SOURCE_DEFAULT)
        return cdz_origin_error(&p->res.origins[slot], id, st, sentence, p->err);
    const cdz_origin *origin =
        part->n_settings ? &part->settings[part->n_settings - 1].origin : &part->origin;
    cdz_part_prefix(part, origin, prefix, sizeof prefix);
    return cdz_err(p->err, st, "%s%s", prefix, sentence);
}

cdz_status cdz_planner_instantiate(cdz_planner *p, const cdz_part *part, uint32_t place,
                                   bool custom, cdz_instance *out)
{
    const cdz_plugin_base *plugin = part->plugin.base;
    cdz_param_table table = cdz_params_of(plugin);
    cdz_error why = {0};
    void *params = cdz_arena_alloc(&p->plan->arena, table.params_size);

    if (!params) return cdz_planner_nomem(p);
    cdz_params_defaults(&table, params);
    CDZ_TRY(set_mirrored(p, part, params));
    CDZ_TRY(set_members(p, part, params));
    if (plugin->kind == CDZ_KIND_DRAFTER) CDZ_TRY(set_draft_values(p, part, params));
    CDZ_TRY(set_own(p, part, params));
    if (plugin->kind == CDZ_KIND_DRAFTER) CDZ_TRY(set_overrides(p, part, params));
    if (plugin->kind == CDZ_KIND_STRATEGY) CDZ_TRY(set_arguments(p, part, params));
    CDZ_TRY(cdz_planner_set_asked(p, part, params));
    *out = (cdz_instance){.name = part->name,
                          .plugin = part->plugin,
                          .params = params,
                          .origin = part->origin,
                          .place = place,
                          .custom = custom};
    cdz_status st = cdz_call_create_plugin(plugin, params, cdz_module_data(part->plugin.module),
                                           &p->plan->arena, &why);
    if (st == CDZ_OK) st = cdz_offers_ask(plugin, &out->offers, &why);
    if (st == CDZ_OK) return CDZ_OK;
    return blame(p, part, st, why.text);
}

/* --- the whole ------------------------------------------------------------------------------------------- */

static cdz_status finish(cdz_planner *p)
{
    const cdz_warnings *linked = &p->link->warnings;
    cdz_plan *plan = p->plan;
    cdz_planner_warn_asked(p);
    for (uint32_t i = 0; i < linked->n; i++)
        cdz_warn(&p->res.warnings, &plan->arena, "%s", linked->at[i]);
    plan->generation = p->res.generation;
    plan->origins = p->res.origins;
    plan->warnings = p->res.warnings.at;
    plan->n_warnings = p->res.warnings.n;
    return CDZ_OK;
}

static cdz_status build(cdz_planner *p)
{
    CDZ_TRY(cdz_planner_read_asked(p));
    CDZ_TRY(cdz_planner_put_sources(p));
    CDZ_TRY(cdz_planner_imply_flags(p));
    CDZ_TRY(cdz_planner_zero_temperature(p, false));
    CDZ_TRY(cdz_resolution_finish(&p->res, p->err));
    CDZ_TRY(choose_strategy(p));
    CDZ_TRY(choose_drafter(p));
    drop_quantized(p);
    CDZ_TRY(cdz_planner_instantiate(p, p->strategy, 0, p->link->strategy_named, &p->plan->strategy));
    if (p->drafter)
        CDZ_TRY(
            cdz_planner_instantiate(p, p->drafter, 0, p->link->drafter_named, &p->plan->drafter));
    CDZ_TRY(cdz_planner_processors(p));
    CDZ_TRY(cdz_planner_criteria(p));
    CDZ_TRY(cdz_planner_observers(p));
    CDZ_TRY(cdz_planner_presses(p));
    return finish(p);
}

/* *out is a copy of from, which may be NULL. */
static cdz_status keep_json(cdz_arena *arena, const cdz_json *from, const cdz_json **out,
                            cdz_error *err)
{
    *out = NULL;
    if (!from) return CDZ_OK;
    cdz_json *copy = cdz_arena_alloc(arena, sizeof *copy);
    if (!copy || !cdz_json_copy(arena, from, copy))
        return cdz_err(err, CDZ_E_NOMEM, "plan: out of memory");
    *out = copy;
    return CDZ_OK;
}

/* The request's own documents, and its draft model's, may be gone when it is planned again: the plan keeps copies. */
static cdz_status keep_inputs(cdz_plan *plan, const cdz_plan_inputs *given, cdz_error *err)
{
    cdz_plan_inputs *own = &plan->inputs;
    own->model_generation = given->model_generation;
    own->has_embeds = given->has_embeds;
    CDZ_TRY(keep_json(&plan->arena, given->kwargs, &own->kwargs, err));
    if (!given->assistant) return CDZ_OK;
    cdz_plan_assistant *assistant = cdz_arena_alloc(&plan->arena, sizeof *assistant);
    if (!assistant) return cdz_err(err, CDZ_E_NOMEM, "plan: out of memory");
    CDZ_TRY(keep_json(&plan->arena, given->assistant->generation, &assistant->generation, err));
    CDZ_TRY(keep_json(&plan->arena, given->assistant->overrides, &assistant->overrides, err));
    own->assistant = assistant;
    return CDZ_OK;
}

cdz_status cdz_edition_plan(cdz_pipeline *pipeline, cdz_edition *edition,
                            const cdz_plan_inputs *inputs, cdz_plan **out, cdz_error *err)
{
    cdz_error own = {0};
    cdz_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return cdz_err(err, CDZ_E_NOMEM, "plan: out of memory");
    cdz_pipeline_retain(pipeline);
    plan->pipeline = pipeline;
    atomic_fetch_add_explicit(&edition->references, 1, memory_order_relaxed);
    plan->edition = edition;
    cdz_planner p = {.link = edition->link,
                     .plan = plan,
                     .assistant = inputs->assistant,
                     .model = inputs->model_generation,
                     .kwargs = inputs->kwargs,
                     .err = &own};
    cdz_status st = keep_inputs(plan, inputs, &own);
    if (st == CDZ_OK) st = build(&p);
    if (st == CDZ_OK) {
        *out = plan;
        return CDZ_OK;
    }
    cdz_plan_free(plan);
    return cdz_err(err, st, "%s", own.text);
}

cdz_status cdz_pipeline_plan_of(cdz_pipeline *pipeline, cdz_plan_inputs inputs, cdz_plan **out,
                                cdz_error *err)
{
    cdz_edition *edition;
    CDZ_TRY(cdz_pipeline_freeze(pipeline, &edition, err));
    if (inputs.kwargs && inputs.kwargs->type == CDZ_JSON_NULL) inputs.kwargs = NULL;
    const cdz_status st = cdz_edition_plan(pipeline, edition, &inputs, out, err);
    cdz_edition_release(edition);
    return st;
}

cdz_status cdz_pipeline_plan(cdz_pipeline *pipeline, const cdz_json *model_generation,
                             const cdz_json *kwargs, const cdz_plan_assistant *assistant,
                             cdz_plan **out, cdz_error *err)
{
    const cdz_plan_inputs inputs = {model_generation, kwargs, assistant, false};
    return cdz_pipeline_plan_of(pipeline, inputs, out, err);
}

void cdz_plan_free(cdz_plan *plan)
{
    if (!plan) return;
    cdz_arena_free(&plan->arena);
    cdz_edition_release(plan->edition);
    cdz_pipeline_release(plan->pipeline);
    free(plan);
}
