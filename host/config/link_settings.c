/* link_settings.c - gives each plugin of a link the settings that are its own, and the link those of generation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "config/linker.h"
#include "config/phases.h"
#include "grammar/grammar.h"

typedef struct entry_list {
    cdz_part **at;
    uint32_t n;
} entry_list;

static void add_entries(entry_list *list, cdz_part *at, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (at[i].plugin.base) list->at[list->n++] = &at[i];
}

/* Every entry that a plan may use. */
static cdz_status all_entries(cdz_linker *l, entry_list *out)
{
    cdz_link *link = l->link;
    size_t room = CDZ_N_RECIPES + 9 + (size_t)link->processors.n + link->stopping.n +
                  link->observers.n + link->presses.n + link->decoding_presses.n + link->chain.n +
                  cdz_hf_n_processors + cdz_hf_n_criteria;
    for (uint32_t i = 0; i < link->n_phases; i++)
        room += (size_t)link->phases[i].processors.n + link->phases[i].chain.n;
    *out = (entry_list){cdz_arena_array(&link->arena, room, sizeof *out->at), 0};
    if (!out->at) return cdz_linker_nomem(l);
    add_entries(out, &link->strategy, 1);
    add_entries(out, link->recipes, CDZ_N_RECIPES);
    add_entries(out, &link->greedy, 1);
    add_entries(out, &link->sample, 1);
    add_entries(out, &link->beam, 1);
    add_entries(out, &link->assisted, 1);
    add_entries(out, &link->drafter, 1);
    add_entries(out, &link->model, 1);
    add_entries(out, &link->prompt_lookup, 1);
    add_entries(out, &link->early_exit, 1);
    add_entries(out, link->chain.at, link->chain.n);
    if (!link->chain.given) add_entries(out, link->processors.at, link->processors.n);
    add_entries(out, link->stopping.at, link->stopping.n);
    add_entries(out, link->observers.at, link->observers.n);
    add_entries(out, link->presses.at, link->presses.n);
    add_entries(out, link->decoding_presses.at, link->decoding_presses.n);
    add_entries(out, link->stages, cdz_hf_n_processors);
    add_entries(out, link->criteria, cdz_hf_n_criteria);
    for (uint32_t i = 0; i < link->n_phases; i++) {
        add_entries(out, link->phases[i].processors.at, link->phases[i].processors.n);
        add_entries(out, link->phases[i].chain.at, link->phases[i].chain.n);
    }
    return CDZ_OK;
}

static cdz_status unknown_parameter(cdz_linker *l, const cdz_part *entry, const cdz_written *w)
{
    char prefix[300], hint[120];
    cdz_param_table table = cdz_params_of(entry->plugin.base);
    cdz_param_suggest(&table, w->name, hint, sizeof hint);
    const char *near = cdz_setting_near(entry->name, w->name);
    if (near && !*hint) snprintf(hint, sizeof hint, ": did you mean '%s'?", near);
    if (w->origin.source == CDZ_SOURCE_COMMAND)
        snprintf(prefix, sizeof prefix, "-s %s.%s", entry->name, w->name);
    else
        snprintf(prefix, sizeof prefix, "%s:%u:1: [%s] %s", w->origin.file, w->origin.line,
                 entry->name, w->name);
    return cdz_err(l->err, CDZ_E_USAGE, "%s: %s has no such parameter%s", prefix,
                   entry->plugin.base->id, hint);
}

/* Reads the value and tries it on a struct of its own, so that errors come when the file is read. */
static cdz_status assign(cdz_linker *l, const cdz_part *entry, const cdz_written *w,
                         cdz_assignment *out)
{
    cdz_param_table table = cdz_params_of(entry->plugin.base);
    cdz_error why = {0};
    char prefix[300];

    out->origin = w->origin;
    out->param = cdz_param_find(&table, w->name);
    if (!out->param) return unknown_parameter(l, entry, w);
    void *scratch = cdz_arena_alloc(&l->link->arena, table.params_size);
    if (!scratch) return cdz_linker_nomem(l);
    cdz_status st = cdz_param_from_text(out->param, w->text, &l->link->arena, &out->value, &why);
    if (st == CDZ_OK) st = cdz_param_set(out->param, scratch, &out->value, &l->link->arena, &why);
    if (st == CDZ_OK) return CDZ_OK;
    cdz_part_prefix(entry, &w->origin, prefix, sizeof prefix);
    return cdz_err(l->err, st, "%s%s", prefix, why.text);
}

/* Phases may list the same plugin with the same section. */
static bool same_part(const cdz_part *a, const cdz_part *b)
{
    return a->plugin.base == b->plugin.base && strcmp(a->name, b->name) == 0;
}

/* The entry a bare `-s name=value` means: the only one that declares the name. NULL with an error otherwise. */
static const cdz_part *owner_of(cdz_linker *l, const entry_list *entries, const char *name)
{
    const cdz_part *owner = NULL;
    for (uint32_t i = 0; i < entries->n; i++) {
        const cdz_part *entry = entries->at[i];
        cdz_param_table table = cdz_params_of(entry->plugin.base);
        if (!cdz_param_find(&table, name)) continue;
        if (owner && same_part(owner, entry)) continue;
        if (owner) {
            cdz_err(l->err, CDZ_E_USAGE,
                    "-s %s: %s and %s both have this parameter; write -s %s.%s=... for one", name,
                    owner->name, entry->name, owner->name, name);
            return NULL;
        }
        owner = entry;
    }
    if (owner) return owner;
    char hint[120];
    cdz_param_table table = {0};
    if (l->link->strategy.plugin.base) table = cdz_params_of(l->link->strategy.plugin.base);
    cdz_generation_suggest(name, &table, hint, sizeof hint);
    cdz_err(l->err, CDZ_E_USAGE, "-s %s: no such parameter%s", name, hint);
    return NULL;
}

/* Keys of a section that are about the instance, not the plugin's. */
static bool is_reserved(const char *name)
{
    return strcmp(name, "id") == 0 || strcmp(name, "isolation") == 0;
}

static cdz_status settings_of(cdz_linker *l, cdz_part *entry, const cdz_part *const *owners)
{
    const cdz_sources *s = l->sources;
    cdz_assignment *settings = NULL;
    for (uint32_t i = 0; i < s->n; i++) {
        const cdz_written *w = &s->at[i];
        bool own = owners[i] ? same_part(owners[i], entry) : strcmp(w->section, entry->name) == 0;
        if (!own || (!owners[i] && is_reserved(w->name))) continue;
        if (!settings) settings = cdz_arena_array(&l->link->arena, s->n, sizeof *settings);
        if (!settings) return cdz_linker_nomem(l);
        CDZ_TRY(assign(l, entry, w, &settings[entry->n_settings]));
        entry->n_settings++;
    }
    entry->settings = settings;
    return CDZ_OK;
}

/* Sections and `-s section.name` that belong to no entry. */
static cdz_status check_unused(cdz_linker *l, const entry_list *entries)
{
    static const char *const reserved[] = {"generation", "pipeline", "names", "models"};
    const size_t n_reserved = sizeof reserved / sizeof reserved[0];
    const cdz_sources *s = l->sources;
    const size_t n_names = (size_t)entries->n + l->link->n_phases;
    const char **names = cdz_arena_array(&l->link->arena, n_names, sizeof *names);
    if (!names) return cdz_linker_nomem(l);
    for (uint32_t i = 0; i < entries->n; i++) names[i] = entries->at[i]->name;
    for (size_t i = entries->n; i < n_names; i++)
        names[i] = l->link->phases[i - entries->n].section;
    for (uint32_t i = 0; i < s->n; i++) {
        const cdz_written *w = &s->at[i];
        bool used = w->origin.source != CDZ_SOURCE_COMMAND || !*w->section ||
                    !strcmp(w->section, "generation") || !strcmp(w->section, "pipeline");
        for (size_t k = 0; k < n_names && !used; k++) used = !strcmp(names[k], w->section);
        if (used) continue;
        const char *near = cdz_nearest_name(w->section, names, n_names);
        return cdz_err(l->err, CDZ_E_USAGE, "-s %s.%s: nothing in the pipeline is called '%s'%s%s%s",
                       w->section, w->name, w->section, near ? ": did you mean '" : "",
                       near ? near : "", near ? "'?" : "");
    }
    for (uint32_t i = 0; i < s->n_sections; i++) {
        const cdz_written_section *section = &s->sections[i];
        bool used = cdz_setting_section(section->name);
        for (size_t k = 0; k < n_reserved && !used; k++) used = !strcmp(reserved[k], section->name);
        for (size_t k = 0; k < n_names && !used; k++) used = !strcmp(names[k], section->name);
        if (used) continue;
        const char *near = cdz_nearest_name(section->name, reserved, n_reserved);
        if (!near) near = cdz_nearest_name(section->name, names, n_names);
        cdz_warn(&l->link->warnings, &l->link->arena, "%s:%u: [%s] is used by nothing%s%s%s",
                 section->origin.file, section->origin.line, section->name,
                 near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    return CDZ_OK;
}

bool cdz_link_strategy_has(const cdz_link *link, const char *name)
{
    if (!link->strategy_named) return false;
    const cdz_param_table table = cdz_params_of(link->strategy.plugin.base);
    const cdz_param *param = cdz_param_find(&table, name);
    return param && !(param->flags & CDZ_GENERATION);
}

int cdz_link_slot(const cdz_link *link, const char *name)
{
    const cdz_other_name *other = cdz_sources_other_name(link->sources, name);
    return cdz_generation_slot(other && strcmp(other->section, "generation") == 0 ? other->name
                                                                                  : name);
}

/* A generation parameter, or a bare name that the strategy declares itself. */
static bool is_generation(const cdz_linker *l, const cdz_written *w)
{
    return strcmp(w->section, "generation") == 0 &&
           !(w->bare && cdz_link_strategy_has(l->link, w->name));
}

cdz_status cdz_linker_settings(cdz_linker *l)
{
    const cdz_sources *s = l->sources;
    entry_list entries;
    CDZ_TRY(all_entries(l, &entries));
    l->link->entries = entries.at;
    l->link->n_entries = entries.n;
    const cdz_part **owners = cdz_arena_array(&l->link->arena, s->n, sizeof *owners);
    if (!owners) return cdz_linker_nomem(l);
    for (uint32_t i = 0; i < s->n; i++) {
        const cdz_written *w = &s->at[i];
        if (!w->bare || strcmp(w->section, "pipeline") == 0 || is_generation(l, w)) continue;
        owners[i] = cdz_link_strategy_has(l->link, w->name) ? &l->link->strategy
                                                            : owner_of(l, &entries, w->name);
        if (!owners[i]) return CDZ_E_USAGE;
    }
    for (uint32_t i = 0; i < entries.n; i++) CDZ_TRY(settings_of(l, entries.at[i], owners));
    return check_unused(l, &entries);
}

cdz_status cdz_linker_constraint(cdz_linker *l, const cdz_written *w, cdz_json *value,
                                 cdz_error *why)
{
    static const char *const names[] = {"json_schema", "regex", "grammar", "structural_tag"};
    bool may = false;
    char *text = NULL;
    size_t len = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) may |= strcmp(w->name, names[i]) == 0;
    if (!may || value->type != CDZ_JSON_STRING || strncmp(value->string, "file:", 5) != 0)
        return CDZ_OK;
    if (l->sources->of_request && w->origin.source != CDZ_SOURCE_COMMAND)
        return cdz_err(why, CDZ_E_USAGE, "%s: a request may hold the text, and name no file",
                       w->name);
    const char *path = cdz_sources_path(&l->link->arena, &w->origin, value->string + 5);
    if (!path) return cdz_linker_nomem(l);
    if (cdz_file_read(path, CDZ_GRAMMAR_MAX_BYTES, &text, &len, why) != CDZ_OK)
        return cdz_err_prefix(why, "%s", w->name);
    char *copy = cdz_arena_strndup(&l->link->arena, text, len);
    const bool nul = memchr(text, 0, len) != NULL;
    free(text);
    if (!copy) return cdz_linker_nomem(l);
    if (nul) return cdz_err(why, CDZ_E_INPUT, "%s: %s holds a zero byte", w->name, path);
    *value = (cdz_json){.type = CDZ_JSON_STRING, .len = (uint32_t)len, .string = copy};
    return CDZ_OK;
}

cdz_status cdz_linker_generation(cdz_linker *l)
{
    const cdz_sources *s = l->sources;
    cdz_link *link = l->link;
    link->generation = cdz_arena_array(&link->arena, s->n, sizeof *link->generation);
    if (!link->generation) return cdz_linker_nomem(l);
    for (uint32_t i = 0; i < s->n; i++) {
        const cdz_written *w = &s->at[i];
        if (!is_generation(l, w)) continue;
        cdz_slot_value *v = &link->generation[link->n_generation++];
        v->slot = (uint32_t)cdz_generation_slot(w->name);
        v->origin = w->origin;
        cdz_error why = {0};
        cdz_status st = cdz_generation_from_text(v->slot, w->text, &link->arena, &v->value, &why);
        if (st == CDZ_OK) st = cdz_linker_constraint(l, w, &v->value, &why);
        if (st == CDZ_OK) continue;
        return cdz_origin_error(&w->origin, w->name, st, why.text, l->err);
    }
    return CDZ_OK;
}

cdz_status cdz_linker_defaults(cdz_linker *l)
{
    const cdz_param_table *table = cdz_generation_table();
    cdz_generation *defaults = cdz_arena_alloc(&l->link->arena, sizeof *defaults);
    l->link->defaults = cdz_arena_array(&l->link->arena, table->n, sizeof *l->link->defaults);
    if (!defaults || !l->link->defaults) return cdz_linker_nomem(l);
    cdz_params_defaults(table, defaults);
    for (uint32_t i = 0; i < table->n; i++) {
        cdz_buf text = {0};
        cdz_param_write(cdz_param_at(table, i), defaults, &text);
        char *copy = text.failed ? NULL : cdz_arena_strndup(&l->link->arena, text.data, text.len);
        cdz_buf_free(&text);
        if (!copy) return cdz_linker_nomem(l);
        CDZ_TRY(cdz_json_parse(copy, strlen(copy), "default", NULL, &l->link->arena,
                               &l->link->defaults[i], l->err));
    }
    return CDZ_OK;
}
