/* plan_lists.c - which processors, criteria, observers and presses a request runs, in what order.
 *
 * Not: the order itself, which is the profile's (profile.c), and parameters (plan.c). The user's own stand at transformers'
 * place for custom ones; with `chain` they stand alone, and a parameter that no stage reads is refused. */
#include <string.h>

#include "cadenza/press.h"
#include "config/planner.h"

/* --- lists ----------------------------------------------------------------------------------------------- */

/* A stage of the profile is wanted but its plugin is not there. */
static cdz_status missing(cdz_planner *p, const cdz_part *part)
{
    char prefix[300];
    cdz_origin_prefix(&p->res.origins[cdz_generation_slot(part->name)], prefix, sizeof prefix);
    return cdz_err(p->err, CDZ_E_NOT_FOUND, "%s%s is set: %s", prefix, part->name, part->missing);
}

/* The first custom part that has this id and stands nowhere yet; its place in the list, or n. */
static uint32_t custom_of(const cdz_parts *custom, const char *id, const bool *placed)
{
    uint32_t i = 0;
    while (i < custom->n && (placed[i] || strcmp(custom->at[i].plugin.base->id, id) != 0)) i++;
    return i;
}

/* Has a part values of its own, from the pipeline or from the request? */
static bool has_values(const cdz_planner *p, const cdz_part *part)
{
    return part->n_settings > 0 || cdz_planner_asks(p, part);
}

/* Is a part that was named the stage itself? The same plugin, by its own id or without values of its own, so that it has
 * those of the configuration: it runs at the place where it is named, and there alone. A section with a value of its own
 * is another instance. */
static bool is_stage_itself(const cdz_planner *p, const cdz_part *part, const cdz_part *stage)
{
    return part->plugin.base == stage->plugin.base &&
           (!has_values(p, part) || strcmp(part->name, stage->name) == 0);
}

static bool is_named(const cdz_planner *p, const cdz_parts *custom, const cdz_part *stage)
{
    for (uint32_t i = 0; i < custom->n; i++)
        if (is_stage_itself(p, &custom->at[i], stage)) return true;
    return false;
}

/* A stage that is named but has nothing to do, as top_k = 0: it is left out as it would be unnamed. */
static bool idles(const cdz_planner *p, const cdz_part *part, const cdz_part *stages, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!has_values(p, part) && part->plugin.base == stages[i].plugin.base &&
            strcmp(part->name, stages[i].name) == 0)
            return !cdz_hf_acts(&p->res, stages[i].name);
    return false;
}

/* Transformers' _merge_criteria_processor_list: a custom one of the same kind takes the place of an active default,
 * only the first such; all others come after `last_replaceable`. A later stage that is named runs there, and there alone. */
static cdz_status merge(cdz_planner *p, const cdz_hf_stage *stages, const cdz_part *parts,
                        uint32_t n, const cdz_parts *custom, uint32_t last_replaceable,
                        cdz_place *out, uint32_t *n_out)
{
    bool *placed = cdz_arena_array(&p->plan->arena, custom->n, sizeof *placed);
    uint32_t at = 0, i = 0;
    if (!placed) return cdz_planner_nomem(p);
    for (; i < n && stages[i].place <= last_replaceable; i++) {
        if (!cdz_hf_active(&p->res, stages[i].id)) continue;
        uint32_t k = custom_of(custom, stages[i].id, placed);
        if (k < custom->n) {
            placed[k] = true;
            out[at++] = (cdz_place){&custom->at[k], stages[i].place, true};
            cdz_warn(&p->res.warnings, &p->plan->arena,
                     "%s takes the place of the %s that the configuration asks for",
                     custom->at[k].name, stages[i].id);
        } else if (!parts[i].plugin.base) {
            return missing(p, &parts[i]);
        } else {
            out[at++] = (cdz_place){&parts[i], stages[i].place, false};
        }
    }
    for (uint32_t k = 0; k < custom->n; k++)
        if (!placed[k] && !idles(p, &custom->at[k], parts, n))
            out[at++] = (cdz_place){&custom->at[k], last_replaceable + 1, true};
    for (; i < n; i++) {
        if (!cdz_hf_active(&p->res, stages[i].id) || is_named(p, custom, &parts[i])) continue;
        if (!parts[i].plugin.base) return missing(p, &parts[i]);
        out[at++] = (cdz_place){&parts[i], stages[i].place, false};
    }
    *n_out = at;
    return CDZ_OK;
}

static cdz_status instantiate_all(cdz_planner *p, const cdz_place *places, uint32_t n,
                                  cdz_instance **out, uint32_t *n_out)
{
    cdz_instance *at = cdz_arena_array(&p->plan->arena, n, sizeof *at);
    if (!at) return cdz_planner_nomem(p);
    for (uint32_t i = 0; i < n; i++)
        CDZ_TRY(cdz_planner_instantiate(p, places[i].part, places[i].at, places[i].custom, &at[i]));
    *out = at;
    *n_out = n;
    return CDZ_OK;
}

static bool chain_uses(const cdz_parts *chain, const char *name)
{
    int slot = cdz_generation_slot(name);
    for (uint32_t i = 0; i < chain->n; i++) {
        const cdz_part *part = &chain->at[i];
        if (strcmp(part->plugin.base->id, name) == 0) return true;
        for (uint32_t k = 0; k < part->n_mirrors; k++)
            if ((int)part->mirrors[k].slot == slot) return true;
    }
    return false;
}

/* A constraint that no stage of a chain follows would be ignored. */
static cdz_status check_constraint(cdz_planner *p, const cdz_parts *chain)
{
    static const char *const names[] = {"json_schema", "regex",       "grammar",
                                        "choice",      "json_object", "structural_tag"};
    char prefix[300];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int slot = cdz_generation_slot(names[i]);
        const cdz_json *value = p->res.values[slot];
        if (!value || value->type == CDZ_JSON_NULL || !cdz_hf_constrains(&p->res.generation) ||
            chain_uses(chain, names[i]))
            continue;
        cdz_origin_prefix(&p->res.origins[slot], prefix, sizeof prefix);
        return cdz_err(p->err, CDZ_E_USAGE,
                       "%s%s is set, but no stage of the chain uses it; add 'grammar'", prefix,
                       names[i]);
    }
    return CDZ_OK;
}

/* With a chain, a parameter that would have switched a processor on must find a stage that reads it. */
static cdz_status check_chain(cdz_planner *p, const cdz_parts *chain)
{
    for (uint32_t i = 0; i < cdz_hf_n_processors; i++) {
        const char *id = cdz_hf_processors[i].id;
        const int slot = cdz_generation_slot(id);
        if (cdz_hf_processors[i].place == CDZ_PLACE_CUSTOM) continue; /* see below */
        const cdz_origin *origin = &p->res.origins[slot];
        if (origin->source == CDZ_SOURCE_DEFAULT || !cdz_hf_active(&p->res, id) ||
            chain_uses(chain, id))
            continue;
        char prefix[300];
        cdz_origin_prefix(origin, prefix, sizeof prefix);
        if (origin->source > CDZ_SOURCE_MODEL)
            return cdz_err(p->err, CDZ_E_USAGE, "%s%s is set, but no stage of the chain uses it",
                           prefix, id);
        cdz_warn(&p->res.warnings, &p->plan->arena,
                 "%s%s is set, but no stage of the chain uses it", prefix, id);
    }
    return check_constraint(p, chain);
}

/* A request may carry a table, not name what runs. */
static cdz_status check_allowed_tokens(cdz_planner *p)
{
    const int slot = cdz_generation_slot("prefix_allowed_tokens");
    const cdz_origin *origin = &p->res.origins[slot];
    const cdz_json *value = p->res.values[slot];
    char prefix[300];
    if (!value || value->type == CDZ_JSON_NULL || value->type == CDZ_JSON_OBJECT) return CDZ_OK;
    if (origin->source != CDZ_SOURCE_REQUEST && origin->source != CDZ_SOURCE_MODEL) return CDZ_OK;
    cdz_origin_prefix(origin, prefix, sizeof prefix);
    return cdz_err(p->err, CDZ_E_USAGE,
                   "%sprefix_allowed_tokens: must be an object {\"cycle\": [...]}; a processor is "
                   "named in the pipeline",
                   prefix);
}

cdz_status cdz_planner_order(cdz_planner *p, const cdz_parts *custom, const cdz_parts *chain,
                             cdz_place *out, uint32_t *n)
{
    *n = 0;
    if (!chain->given)
        return merge(p, cdz_hf_processors, p->link->stages, cdz_hf_n_processors, custom,
                     CDZ_PLACE_LAST_REPLACEABLE, out, n);
    CDZ_TRY(check_chain(p, chain));
    for (uint32_t i = 0; i < chain->n; i++) {
        const cdz_part *part = &chain->at[i];
        out[(*n)++] = (cdz_place){part, cdz_hf_place(part->plugin.base->id), true};
    }
    return CDZ_OK;
}

cdz_status cdz_planner_processors(cdz_planner *p)
{
    const cdz_link *link = p->link;
    const size_t room = (size_t)cdz_hf_n_processors + link->processors.n + link->chain.n;
    uint32_t n;
    CDZ_TRY(check_allowed_tokens(p));
    if (link->n_phases) return cdz_planner_phases(p);
    CDZ_TRY(cdz_planner_no_phases(p));
    cdz_place *places = cdz_arena_array(&p->plan->arena, room, sizeof *places);
    if (!places) return cdz_planner_nomem(p);
    CDZ_TRY(cdz_planner_order(p, &link->processors, &link->chain, places, &n));
    return instantiate_all(p, places, n, &p->plan->processors, &p->plan->n_processors);
}

cdz_status cdz_planner_criteria(cdz_planner *p)
{
    const cdz_link *link = p->link;
    uint32_t n = 0;
    cdz_place *places =
        cdz_arena_array(&p->plan->arena, cdz_hf_n_criteria + link->stopping.n, sizeof *places);
    if (!places) return cdz_planner_nomem(p);
    CDZ_TRY(merge(p, cdz_hf_criteria, link->criteria, cdz_hf_n_criteria, &link->stopping,
                  cdz_hf_n_criteria, places, &n));
    return instantiate_all(p, places, n, &p->plan->criteria, &p->plan->n_criteria);
}

cdz_status cdz_planner_observers(cdz_planner *p)
{
    const cdz_parts *observers = &p->link->observers;
    cdz_place *places = cdz_arena_array(&p->plan->arena, observers->n, sizeof *places);
    if (!places) return cdz_planner_nomem(p);
    for (uint32_t i = 0; i < observers->n; i++) places[i] = (cdz_place){&observers->at[i], 0, true};
    return instantiate_all(p, places, observers->n, &p->plan->observers, &p->plan->n_observers);
}

/* The settings of the kind say when presses run, so those that nobody would hear are refused. */
static cdz_status check_presses(cdz_planner *p)
{
    static const char *const names[] = {"compression_ratio",        "compression_ratios",
                                        "compression_chunk_length", "compression_block_size",
                                        "compression_interval",     "compression_target_size",
                                        "compression_target_ratio", "compression_skip_last"};
    const cdz_link *link = p->link;
    const cdz_generation *g = &p->res.generation;
    char prefix[300];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int slot = cdz_generation_slot(names[i]);
        const cdz_origin *origin = &p->res.origins[slot];
        const bool decodes = i >= 4 && i <= 6;
        if (origin->source == CDZ_SOURCE_DEFAULT || !p->res.values[slot] ||
            p->res.values[slot]->type == CDZ_JSON_NULL)
            continue;
        if (decodes ? link->decoding_presses.n : link->presses.n + link->decoding_presses.n)
            continue;
        cdz_origin_prefix(origin, prefix, sizeof prefix);
        return cdz_err(p->err, CDZ_E_USAGE, "%s%s is set, but the pipeline has no %s", prefix,
                       names[i], decodes ? "decoding_press" : "press");
    }
    if (g->compression.target_size.set && g->compression.target_ratio.set)
        return cdz_err(p->err, CDZ_E_USAGE,
                       "compression_target_size and compression_target_ratio say the same thing; "
                       "expected one of them");
    return CDZ_OK;
}

/* The first of a list may not go on from a press before it. */
static cdz_status check_first(cdz_planner *p, const cdz_parts *list, const char *key)
{
    const cdz_press *first = list->n ? (const void *)list->at[0].plugin.base : NULL;
    if (!first || !(first->caps & CDZ_PRESS_WRAPS)) return CDZ_OK;
    return cdz_err(p->err, CDZ_E_USAGE,
                   "[pipeline] %s: '%s' changes what another press says; put one before it, as in "
                   "%s = knorm, %s",
                   key, first->base.id, key, list->at[0].name);
}

cdz_status cdz_planner_presses(cdz_planner *p)
{
    const cdz_parts *prompt = &p->link->presses, *decoding = &p->link->decoding_presses;
    const uint32_t n = prompt->n + decoding->n;
    cdz_place *places = cdz_arena_array(&p->plan->arena, n, sizeof *places);
    if (!places) return cdz_planner_nomem(p);
    CDZ_TRY(check_presses(p));
    CDZ_TRY(check_first(p, prompt, "press"));
    CDZ_TRY(check_first(p, decoding, "decoding_press"));
    for (uint32_t i = 0; i < prompt->n; i++) places[i] = (cdz_place){&prompt->at[i], 0, true};
    for (uint32_t i = 0; i < decoding->n; i++)
        places[prompt->n + i] = (cdz_place){&decoding->at[i], 0, true};
    p->plan->n_prompt_presses = prompt->n;
    return instantiate_all(p, places, n, &p->plan->presses, &p->plan->n_presses);
}
