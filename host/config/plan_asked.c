/* plan_asked.c - what one request says of the plugins of its pipeline: "section.name" in its kwargs.
 *
 * Owns: which part and parameter each such name means, and the refusals. Not: values of generation (plan.c), phases
 * (plan_phases.c). Invariant: a request sets values of what the pipeline's owner listed; it names nothing to be opened, and a
 * plan from another edition looks everything up again. */
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "config/planner.h"

static bool is_called(const cdz_part *part, const char *name, size_t len, bool by_id)
{
    const char *own = by_id ? part->plugin.base->id : part->name;
    return cdz_is_word(name, len, own);
}

/* The part that a section's name means, or the id of its plugin; NULL: none, or several of that id. */
static const cdz_part *part_called(const cdz_link *link, const char *name, size_t len)
{
    const cdz_part *found = NULL;
    for (uint32_t i = 0; i < link->n_entries; i++)
        if (is_called(link->entries[i], name, len, false)) return link->entries[i];
    for (uint32_t i = 0; i < link->n_entries; i++) {
        const cdz_part *part = link->entries[i];
        if (!is_called(part, name, len, true)) continue;
        if (found && strcmp(found->name, part->name) != 0) return NULL;
        found = part;
    }
    return found;
}

/* A plugin that runs in several sections: its id names none of them. */
static cdz_status several_sections(cdz_planner *p, const char *key, size_t len)
{
    const char *sections[2] = {NULL, NULL};
    size_t n = 0;
    for (uint32_t i = 0; i < p->link->n_entries; i++) {
        const cdz_part *part = p->link->entries[i];
        if (!is_called(part, key, len, true) || (n && strcmp(sections[0], part->name) == 0))
            continue;
        if (n < 2) sections[n++] = part->name;
    }
    if (n < 2) return CDZ_OK;
    return cdz_err(p->err, CDZ_E_USAGE,
                   "request: %s: '%.*s' runs in several sections; name one: '%s' or '%s'", key,
                   (int)len, key, sections[0], sections[1]);
}

/* Sections that are no plugin's, and where what they hold stands in a request. */
static const char *elsewhere(const char *name, size_t len)
{
    if (len == 10 && memcmp(name, "generation", len) == 0)
        return ": a generation parameter stands in kwargs by its name alone";
    if (len == 8 && memcmp(name, "pipeline", len) == 0)
        return ": a request sets values, it does not name what runs";
    if (len > 6 && memcmp(name, "phase:", 6) == 0) return ": say it in kwargs.phases";
    return NULL;
}

/* The nearest name is told unless it is a file's: who sends a request need not know where files lie. */
static cdz_status unknown_section(cdz_planner *p, const char *key, size_t len)
{
    const cdz_link *link = p->link;
    const char **names =
        cdz_arena_array(&p->plan->arena, 2 * (size_t)link->n_entries, sizeof *names);
    const char *name = cdz_arena_strndup(&p->plan->arena, key, len);
    size_t n = 0;
    if (!names || !name) return cdz_planner_nomem(p);
    for (uint32_t i = 0; i < link->n_entries; i++) {
        const char *own = link->entries[i]->name;
        if (!strpbrk(own, "/:")) names[n++] = own;
        names[n++] = link->entries[i]->plugin.base->id;
    }
    const char *other = elsewhere(key, len);
    const char *near = other ? NULL : cdz_nearest_name(name, names, n);
    return cdz_err(p->err, CDZ_E_USAGE,
                   "request: %s: nothing in the pipeline is called '%s'%s%s%s%s", key, name,
                   other ? other : "", near ? ": did you mean '" : "", near ? near : "",
                   near ? "'?" : "");
}

static cdz_status unknown_parameter(cdz_planner *p, const cdz_part *part, const char *key,
                                    const char *name)
{
    const cdz_param_table table = cdz_params_of(part->plugin.base);
    char hint[120];
    cdz_param_suggest(&table, name, hint, sizeof hint);
    return cdz_err(p->err, CDZ_E_USAGE, "request: %s: %s has no such parameter%s", key,
                   part->plugin.base->id, hint);
}

cdz_status cdz_planner_may_ask(const cdz_planner *p, const cdz_param *param, const char *said)
{
    if (!(param->flags & CDZ_NAMES_FILE)) return CDZ_OK;
    return cdz_err(
        p->err, CDZ_E_USAGE,
        "request: %s: a file is named by the pipeline or the command line, not by a request", said);
}

static cdz_status read_one(cdz_planner *p, const cdz_json_member *member)
{
    const char *dot = strrchr(member->key, '.');
    const size_t len = (size_t)(dot - member->key);
    const cdz_part *part = part_called(p->link, member->key, len);
    if (!part) CDZ_TRY(several_sections(p, member->key, len));
    if (!part) return unknown_section(p, member->key, len);
    const cdz_param_table table = cdz_params_of(part->plugin.base);
    const cdz_param *param = cdz_param_find(&table, dot + 1);
    if (!param) return unknown_parameter(p, part, member->key, dot + 1);
    CDZ_TRY(cdz_planner_may_ask(p, param, member->key));
    for (uint32_t i = 0; i < p->asked->n; i++)
        if (p->asked->at[i].param == param && strcmp(p->asked->at[i].part->name, part->name) == 0)
            return cdz_err(p->err, CDZ_E_USAGE, "request: %s and %s are the same parameter",
                           p->asked->at[i].said, member->key);
    p->asked->at[p->asked->n++] = (cdz_asked_value){
        .part = part, .param = param, .value = &member->value, .said = member->key};
    return CDZ_OK;
}

bool cdz_planner_is_asked(const cdz_planner *p, const char *key)
{
    return strchr(key, '.') && cdz_link_slot(p->link, key) < 0;
}

cdz_status cdz_planner_read_asked(cdz_planner *p)
{
    const cdz_json *kwargs = p->kwargs;
    const uint32_t n = cdz_json_is(kwargs, CDZ_JSON_OBJECT) ? kwargs->len : 0;
    p->asked = cdz_arena_alloc(&p->plan->arena, sizeof *p->asked);
    if (!p->asked) return cdz_planner_nomem(p);
    p->asked->at = cdz_arena_array(&p->plan->arena, n, sizeof *p->asked->at);
    if (!p->asked->at) return cdz_planner_nomem(p);
    for (uint32_t i = 0; i < n; i++)
        if (cdz_planner_is_asked(p, kwargs->members[i].key))
            CDZ_TRY(read_one(p, &kwargs->members[i]));
    return CDZ_OK;
}

const char *cdz_planner_asks(const cdz_planner *p, const cdz_part *part)
{
    for (uint32_t i = p->asked->n; i > 0; i--) {
        const cdz_asked_value *asked = &p->asked->at[i - 1];
        if (asked->part->plugin.base == part->plugin.base &&
            strcmp(asked->part->name, part->name) == 0)
            return asked->said;
    }
    return NULL;
}

cdz_status cdz_planner_set_asked(cdz_planner *p, const cdz_part *part, void *params)
{
    for (uint32_t i = 0; i < p->asked->n; i++) {
        cdz_asked_value *asked = &p->asked->at[i];
        cdz_error why = {0};
        if (asked->part->plugin.base != part->plugin.base ||
            strcmp(asked->part->name, part->name) != 0)
            continue;
        asked->used = true;
        const cdz_status st =
            cdz_param_set(asked->param, params, asked->value, &p->plan->arena, &why);
        if (st != CDZ_OK) return cdz_err(p->err, st, "request: %s: %s", asked->said, why.text);
    }
    return CDZ_OK;
}

void cdz_planner_warn_asked(cdz_planner *p)
{
    for (uint32_t i = 0; i < p->asked->n; i++)
        if (!p->asked->at[i].used)
            cdz_warn(&p->res.warnings, &p->plan->arena,
                     "request: %s does nothing: %s does not run in this request",
                     p->asked->at[i].said, p->asked->at[i].part->plugin.base->id);
}
