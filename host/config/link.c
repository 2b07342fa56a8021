/* link.c - finds the plugins a pipeline names and gives each the settings that are its own. */
#include "config/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/linker.h"
#include "config/phases.h"

void cdz_part_prefix(const cdz_part *entry, const cdz_origin *origin, char *out, size_t out_bytes)
{
    bool file = origin->source == CDZ_SOURCE_FILE || origin->source == CDZ_SOURCE_PROFILE;
    cdz_origin_prefix(origin, out, out_bytes);
    size_t len = strlen(out);
    if (file) snprintf(out + len, out_bytes - len, "[%s] ", entry->name);
    if (origin->source == CDZ_SOURCE_COMMAND)
        snprintf(out + len, out_bytes - len, "%s.", entry->name);
}

/* --- finding plugins ------------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), n = strlen(end);
    return len >= n && strcmp(text + len - n, end) == 0;
}

/* The file in "lua:file", "rules:file": whose loader takes files of that ending, or would if it were there; NULL: not
 * written so. */
static const char *file_in(const cdz_linker *l, const char *spec)
{
    const size_t n = strcspn(spec, ":");
    if (n == 0 || spec[n] != ':' || memchr(spec, '/', n)) return NULL;
    const char *file = spec + n + 1, *dot = strrchr(file, '.');
    const bool would = dot && strlen(dot + 1) == n && memcmp(dot + 1, spec, n) == 0;
    return would || cdz_registry_takes(l->registry, spec, n) ? file : NULL;
}

/* The path in "lua:file.lua", "path.so" or "folder/package"; NULL for an id. */
static const char *path_in(const cdz_linker *l, const char *spec)
{
    const char *file = file_in(l, spec);
    if (file) return file;
    if (strchr(spec, '/') || ends_with(spec, ".so") || ends_with(spec, ".lua")) return spec;
    return NULL;
}

/* --- isolation --------------------------------------------------------------------------------------------- */

/* Where a plugin's code is to run: here, elsewhere if that can be, elsewhere. */
typedef enum where { HERE, ELSEWHERE_IF_STRANGE, ELSEWHERE } where;

static cdz_status read_isolation(const cdz_written *w, const char *section, bool *elsewhere,
                                 cdz_error *why)
{
    *elsewhere = strcmp(w->text, "process") == 0;
    if (*elsewhere || strcmp(w->text, "none") == 0) return CDZ_OK;
    return cdz_err(why, CDZ_E_USAGE, "[%s] isolation = %s: expected process or none", section,
                   w->text);
}

/* What the instance's own section says, else what [pipeline] says for all. */
static cdz_status place_of_code(cdz_linker *l, uint32_t kind, const char *name, where *out,
                                cdz_error *why)
{
    const cdz_written *own = cdz_sources_find(l->sources, name, "isolation");
    const cdz_written *all = cdz_sources_find(l->sources, "pipeline", "isolation");
    const bool covered =
        kind == CDZ_KIND_PROCESSOR || kind == CDZ_KIND_CRITERION || kind == CDZ_KIND_DRAFTER;
    bool elsewhere = false;
    *out = HERE;
    if (own) CDZ_TRY(read_isolation(own, name, &elsewhere, why));
    if (own && elsewhere && !covered)
        return cdz_err(why, CDZ_E_UNSUPPORTED,
                       "[%s] isolation = process: only processors, stopping criteria and drafters "
                       "can run in a process of their own; a %s asks the host too much",
                       name, kind == CDZ_KIND_OBSERVER ? "observer" : "strategy");
    if (!own && all && covered) CDZ_TRY(read_isolation(all, "pipeline", &elsewhere, why));
    if (elsewhere) *out = own ? ELSEWHERE : ELSEWHERE_IF_STRANGE;
    return CDZ_OK;
}

static cdz_status find_id(cdz_linker *l, uint32_t kind, const char *id, where place,
                          cdz_plugin_ref *out, cdz_error *why)
{
    if (place == HERE)
        CDZ_TRY(cdz_registry_find(l->registry, kind, id, out, why));
    else
        CDZ_TRY(cdz_registry_isolate(l->registry, kind, id, false, place == ELSEWHERE, out, why));
    if (!l->newest) return CDZ_OK;
    const cdz_status st = cdz_registry_check_newest(l->registry, out->module, why);
    if (st == CDZ_OK) return CDZ_OK;
    cdz_module_release(out->module);
    *out = (cdz_plugin_ref){0};
    return st;
}

/* spec as written at origin. */
static cdz_status find_plugin(cdz_linker *l, uint32_t kind, const char *spec, where place,
                              const cdz_origin *origin, cdz_plugin_ref *out, cdz_error *why)
{
    const char *path = path_in(l, spec);
    if (!path) return find_id(l, kind, spec, place, out, why);
    const char *full = cdz_sources_path(&l->link->arena, origin, path);
    if (!full) return cdz_linker_nomem(l);
    if (place == HERE) return cdz_registry_load(l->registry, full, kind, out, why);
    return cdz_registry_isolate(l->registry, kind, full, true, place == ELSEWHERE, out, why);
}

/* The parameters of an entry's plugin that follow a generation parameter. */
static cdz_status find_mirrors(cdz_linker *l, cdz_part *entry)
{
    cdz_param_table table = cdz_params_of(entry->plugin.base);
    cdz_mirror *mirrors = cdz_arena_array(&l->link->arena, table.n, sizeof *mirrors);
    if (!mirrors) return cdz_linker_nomem(l);
    for (uint32_t i = 0; i < table.n; i++) {
        const cdz_param *param = cdz_param_at(&table, i);
        int slot = param->flags & CDZ_GENERATION ? cdz_generation_slot(param->name) : -1;
        if (slot >= 0 && (uint32_t)slot < cdz_generation_table()->n)
            mirrors[entry->n_mirrors++] = (cdz_mirror){param, (uint32_t)slot};
    }
    entry->mirrors = mirrors;
    return CDZ_OK;
}

/* An entry the user listed: its section's id, or its own name, is the plugin. */
static cdz_status link_named(cdz_linker *l, uint32_t kind, const char *name, cdz_origin origin,
                             cdz_part *out)
{
    const cdz_written *id = cdz_sources_find(l->sources, name, "id");
    cdz_error why = {0};
    where place = HERE;
    *out = (cdz_part){.name = name, .origin = origin};
    cdz_status st = place_of_code(l, kind, name, &place, &why);
    if (st == CDZ_OK)
        st = find_plugin(l, kind, id ? id->text : name, place, id ? &id->origin : &origin,
                         &out->plugin, &why);
    if (st == CDZ_OK) return find_mirrors(l, out);
    char prefix[300];
    if (id)
        cdz_part_prefix(out, &id->origin, prefix, sizeof prefix);
    else
        cdz_origin_prefix(&origin, prefix, sizeof prefix);
    return cdz_err(l->err, st, "%s%s", prefix, why.text);
}

/* A stage of the profile, which may be missing as long as nobody needs it. */
cdz_status cdz_linker_stage(cdz_linker *l, uint32_t kind, const char *id, cdz_part *out)
{
    cdz_error why = {0};
    where place = HERE;
    *out = (cdz_part){.name = id};
    cdz_status st = place_of_code(l, kind, id, &place, &why);
    if (st != CDZ_OK) return cdz_err(l->err, st, "%s", why.text);
    st = find_id(l, kind, id, place, &out->plugin, &why);
    if (st == CDZ_OK) return find_mirrors(l, out);
    if (st == CDZ_E_NOMEM) return cdz_linker_nomem(l);
    out->plugin = (cdz_plugin_ref){0};
    out->missing = cdz_arena_strdup(&l->link->arena, why.text);
    return out->missing ? CDZ_OK : cdz_linker_nomem(l);
}

/* --- the lists of [pipeline] ----------------------------------------------------------------------------- */

static uint32_t count_items(const char *text)
{
    uint32_t n = 1;
    for (; *text; text++) n += *text == ',';
    return n;
}

/* The next item of "a, b, c", trimmed; *text moves past its comma. */
static const char *next_item(cdz_linker *l, const char **text)
{
    const char *start = *text;
    size_t len = strcspn(start, ",");
    *text = start + len + (start[len] == ',');
    while (len && (*start == ' ' || *start == '\t')) start++, len--;
    while (len && (start[len - 1] == ' ' || start[len - 1] == '\t')) len--;
    return cdz_arena_strndup(&l->link->arena, start, len);
}

static cdz_status check_item(cdz_linker *l, const cdz_written *w, const cdz_parts *list,
                             const char *item)
{
    char prefix[300];
    cdz_origin_prefix(&w->origin, prefix, sizeof prefix);
    if (!*item)
        return cdz_err(l->err, CDZ_E_USAGE, "%s[%s] %s: a name is missing between commas", prefix,
                       w->section, w->name);
    for (uint32_t i = 0; i < list->n; i++)
        if (strcmp(list->at[i].name, item) == 0)
            return cdz_err(l->err, CDZ_E_USAGE,
                           "%s[%s] %s names '%s' twice; give each a section of its own with "
                           "id = %s",
                           prefix, w->section, w->name, item, item);
    return CDZ_OK;
}

cdz_status cdz_linker_list(cdz_linker *l, const char *section, const char *key, uint32_t kind,
                           cdz_parts *out)
{
    const cdz_written *w = cdz_sources_find(l->sources, section, key);
    if (!w) return CDZ_OK;
    out->given = true;
    out->origin = w->origin;
    if (strcmp(w->text, "none") == 0) return CDZ_OK;

    uint32_t n = count_items(w->text);
    out->at = cdz_arena_array(&l->link->arena, n, sizeof *out->at);
    if (!out->at) return cdz_linker_nomem(l);
    const char *text = w->text;
    for (uint32_t i = 0; i < n; i++) {
        const char *item = next_item(l, &text);
        if (!item) return cdz_linker_nomem(l);
        CDZ_TRY(check_item(l, w, out, item));
        out->n++; /* counted first: what it retains is released even when it fails half-way */
        CDZ_TRY(link_named(l, kind, item, w->origin, &out->at[i]));
    }
    return CDZ_OK;
}

/* Both lists in one place cannot be meant; from different places, `chain` replaces what is below it. */
static cdz_status check_chain(cdz_linker *l)
{
    cdz_link *link = l->link;
    const cdz_origin *chain = &link->chain.origin, *custom = &link->processors.origin;
    if (!link->chain.given || !link->processors.given || link->processors.n == 0) return CDZ_OK;
    if (custom->source < chain->source) return CDZ_OK;
    char prefix[300];
    cdz_origin_prefix(custom, prefix, sizeof prefix);
    return cdz_err(l->err, CDZ_E_USAGE,
                   "%s[pipeline] processors: chain replaces the whole list; put them there", prefix);
}

/* --- the strategy ---------------------------------------------------------------------------------------- */

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

/* From --custom-generate: a path if there is such a file or folder, else an id. Its section is named by its id. */
static cdz_status link_given_strategy(cdz_linker *l, const char *spec)
{
    cdz_part *entry = &l->link->strategy;
    const char *path = path_in(l, spec);
    cdz_status st;

    entry->origin = (cdz_origin){.source = CDZ_SOURCE_COMMAND};
    if (!path && exists(spec)) path = spec;
    if (path)
        st = cdz_registry_load(l->registry, path, CDZ_KIND_STRATEGY, &entry->plugin, l->err);
    else
        st = find_id(l, CDZ_KIND_STRATEGY, spec, HERE, &entry->plugin, l->err);
    if (st != CDZ_OK) {
        entry->plugin = (cdz_plugin_ref){0};
        return st;
    }
    entry->name = entry->plugin.base->id;
    return find_mirrors(l, entry);
}

const cdz_recipe cdz_recipes[CDZ_N_RECIPES] = {
    {CDZ_MODE_GROUP_BEAM, "org.cadenza.group-beam-search"},
    {CDZ_MODE_CONSTRAINED_BEAM, "org.cadenza.constrained-beam-search"},
    {CDZ_MODE_CONTRASTIVE, "org.cadenza.contrastive-search"},
    {CDZ_MODE_DOLA, "org.cadenza.dola"},
};

static cdz_status link_recipes(cdz_linker *l)
{
    for (uint32_t i = 0; i < CDZ_N_RECIPES; i++)
        CDZ_TRY(cdz_linker_stage(l, CDZ_KIND_STRATEGY, cdz_recipes[i].id, &l->link->recipes[i]));
    return CDZ_OK;
}

static cdz_status link_strategy(cdz_linker *l, const char *given)
{
    const cdz_written *w = cdz_sources_find(l->sources, "pipeline", "strategy");
    cdz_link *link = l->link;
    link->strategy_named = given || (w && strcmp(w->text, "auto") != 0);
    if (given) return link_given_strategy(l, given);
    if (link->strategy_named)
        return link_named(l, CDZ_KIND_STRATEGY, w->text, w->origin, &link->strategy);
    CDZ_TRY(link_recipes(l));
    CDZ_TRY(cdz_linker_stage(l, CDZ_KIND_STRATEGY, "greedy", &link->greedy));
    CDZ_TRY(cdz_linker_stage(l, CDZ_KIND_STRATEGY, "sample", &link->sample));
    CDZ_TRY(cdz_linker_stage(l, CDZ_KIND_STRATEGY, "assisted", &link->assisted));
    return cdz_linker_stage(l, CDZ_KIND_STRATEGY, "beam", &link->beam);
}

static cdz_status link_drafting(cdz_linker *l)
{
    const cdz_written *w = cdz_sources_find(l->sources, "pipeline", "drafting");
    l->link->drafting_fixed = w && strcmp(w->text, "fixed") == 0;
    if (!w || l->link->drafting_fixed || strcmp(w->text, "adaptive") == 0) return CDZ_OK;
    char prefix[300];
    cdz_origin_prefix(&w->origin, prefix, sizeof prefix);
    return cdz_err(l->err, CDZ_E_USAGE, "%sdrafting = %s: expected adaptive or fixed", prefix,
                   w->text);
}

/* Drafters serve strategies that ask for drafts, whoever chose the strategy. */
static cdz_status link_drafter(cdz_linker *l)
{
    cdz_link *link = l->link;
    const cdz_written *w = cdz_sources_find(l->sources, "pipeline", "drafter");
    CDZ_TRY(link_drafting(l));
    link->drafter_named = w && strcmp(w->text, "auto") != 0;
    if (link->drafter_named && strcmp(w->text, "none") != 0)
        return link_named(l, CDZ_KIND_DRAFTER, w->text, w->origin, &link->drafter);
    if (link->drafter_named) return CDZ_OK;
    CDZ_TRY(cdz_linker_stage(l, CDZ_KIND_DRAFTER, "model", &link->model));
    CDZ_TRY(cdz_linker_stage(l, CDZ_KIND_DRAFTER, "prompt_lookup", &link->prompt_lookup));
    return cdz_linker_stage(l, CDZ_KIND_DRAFTER, "early_exit", &link->early_exit);
}

/* --- the profile ----------------------------------------------------------------------------------------- */

/* prefix_allowed_tokens is a function in transformers; here its value may name the processor that stands for it. */
static cdz_status link_processor(cdz_linker *l, const char *id, cdz_part *out)
{
    const cdz_written *w = cdz_sources_find(l->sources, "generation", id);
    if (strcmp(id, "prefix_allowed_tokens") != 0 || !w || *w->text == '{' ||
        strcmp(w->text, "none") == 0)
        return cdz_linker_stage(l, CDZ_KIND_PROCESSOR, id, out);
    return link_named(l, CDZ_KIND_PROCESSOR, w->text, w->origin, out);
}

static cdz_status link_profile(cdz_linker *l)
{
    cdz_link *link = l->link;
    link->stages = cdz_arena_array(&link->arena, cdz_profile_n_processors, sizeof *link->stages);
    link->criteria = cdz_arena_array(&link->arena, cdz_profile_n_criteria, sizeof *link->criteria);
    if (!link->stages || !link->criteria) return cdz_linker_nomem(l);
    for (uint32_t i = 0; i < cdz_profile_n_processors && !link->chain.given; i++)
        CDZ_TRY(link_processor(l, cdz_profile_processors[i].id, &link->stages[i]));
    for (uint32_t i = 0; i < cdz_profile_n_criteria; i++)
        CDZ_TRY(cdz_linker_stage(l, CDZ_KIND_CRITERION, cdz_profile_criteria[i].id,
                                 &link->criteria[i]));
    return CDZ_OK;
}

/* --- settings -------------------------------------------------------------------------------------------- */

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
                  link->observers.n + link->chain.n + cdz_profile_n_processors +
                  cdz_profile_n_criteria;
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
    add_entries(out, link->stages, cdz_profile_n_processors);
    add_entries(out, link->criteria, cdz_profile_n_criteria);
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
    static const char *const reserved[] = {"generation", "pipeline", "names"};
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
        bool used = false;
        for (size_t k = 0; k < 3 && !used; k++) used = !strcmp(reserved[k], section->name);
        for (size_t k = 0; k < n_names && !used; k++) used = !strcmp(names[k], section->name);
        if (used) continue;
        const char *near = cdz_nearest_name(section->name, reserved, 3);
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

static cdz_status link_settings(cdz_linker *l)
{
    const cdz_sources *s = l->sources;
    entry_list entries;
    CDZ_TRY(all_entries(l, &entries));
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

static cdz_status link_generation(cdz_linker *l)
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
        if (st == CDZ_OK) continue;
        char prefix[300];
        cdz_origin_prefix(&w->origin, prefix, sizeof prefix);
        return cdz_err(l->err, st, "%s%s", prefix, why.text);
    }
    return CDZ_OK;
}

/* The defaults of the generation table as values, for parameters that mirror one nobody set. */
static cdz_status link_defaults(cdz_linker *l)
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

/* --- life ------------------------------------------------------------------------------------------------ */

static cdz_status link_all(cdz_linker *l, const char *strategy)
{
    CDZ_TRY(link_defaults(l));
    CDZ_TRY(link_strategy(l, strategy));
    CDZ_TRY(link_drafter(l));
    CDZ_TRY(link_generation(l));
    CDZ_TRY(cdz_linker_list(l, "pipeline", "processors", CDZ_KIND_PROCESSOR, &l->link->processors));
    CDZ_TRY(cdz_linker_list(l, "pipeline", "stopping", CDZ_KIND_CRITERION, &l->link->stopping));
    CDZ_TRY(cdz_linker_list(l, "pipeline", "observers", CDZ_KIND_OBSERVER, &l->link->observers));
    CDZ_TRY(cdz_linker_list(l, "pipeline", "chain", CDZ_KIND_PROCESSOR, &l->link->chain));
    CDZ_TRY(check_chain(l));
    CDZ_TRY(cdz_linker_phases(l));
    CDZ_TRY(link_profile(l));
    return link_settings(l);
}

cdz_status cdz_link_create(cdz_registry *registry, const cdz_sources *sources, const char *strategy,
                           bool newest, cdz_link **out, cdz_error *err)
{
    cdz_error own = {0};
    cdz_link *link = calloc(1, sizeof *link);
    if (!link) return cdz_err(err, CDZ_E_NOMEM, "pipeline: out of memory");
    link->sources = sources;
    cdz_linker l = {link, registry, sources, &own, newest};
    cdz_status st = link_all(&l, strategy);
    if (st == CDZ_OK) {
        *out = link;
        return CDZ_OK;
    }
    cdz_link_free(link);
    return cdz_err(err, st, "%s", own.text);
}

typedef void visit_module(void *user, const cdz_module *module);

static void visit_all(const cdz_part *at, uint32_t n, visit_module *visit, void *user)
{
    for (uint32_t i = 0; at && i < n; i++)
        if (at[i].plugin.module) visit(user, at[i].plugin.module);
}

void cdz_link_each_module(const cdz_link *link, visit_module *visit, void *user)
{
    const cdz_part *const alone[] = {&link->strategy, &link->greedy,        &link->sample,
                                     &link->beam,     &link->assisted,      &link->drafter,
                                     &link->model,    &link->prompt_lookup, &link->early_exit};
    for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++) visit_all(alone[i], 1, visit, user);
    visit_all(link->recipes, CDZ_N_RECIPES, visit, user);
    visit_all(link->processors.at, link->processors.n, visit, user);
    visit_all(link->stopping.at, link->stopping.n, visit, user);
    visit_all(link->observers.at, link->observers.n, visit, user);
    visit_all(link->chain.at, link->chain.n, visit, user);
    visit_all(link->stages, cdz_profile_n_processors, visit, user);
    visit_all(link->criteria, cdz_profile_n_criteria, visit, user);
    visit_all(&link->teller, 1, visit, user);
    for (uint32_t i = 0; i < link->n_phases; i++) {
        visit_all(link->phases[i].processors.at, link->phases[i].processors.n, visit, user);
        visit_all(link->phases[i].chain.at, link->phases[i].chain.n, visit, user);
    }
}

/* The counts are atomic, the link is constant. */
static void release(void *user, const cdz_module *module)
{
    (void)user;
    cdz_module_release((cdz_module *)(uintptr_t)module);
}

void cdz_link_free(cdz_link *link)
{
    if (!link) return;
    cdz_link_each_module(link, release, NULL);
    cdz_arena_free(&link->arena);
    free(link);
}
