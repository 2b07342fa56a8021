/* link.c - finds the plugins that a pipeline names.
 *
 * Owns: the link, and through it a hold on each module. Not: their settings (link_settings.c), phases (link_phases.c), what
 * of it a request runs (plan_lists.c). What the profile would use and is not installed is an error only when a plan needs it. */
#include "config/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ascii.h"
#include "config/linker.h"
#include "config/phases.h"
#include "describe/descriptor.h"
#include "params/settings.h"

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
    if (strchr(spec, '/') || cdz_ends_with(spec, ".so") || cdz_ends_with(spec, ".lua")) return spec;
    return NULL;
}

/* Is it the second of the two words that a key of [pipeline] has in the settings' table? */
static cdz_status read_word(const char *key, const char *text, bool *second, cdz_error *err)
{
    uint32_t which = 0;
    const cdz_status status =
        cdz_setting_word(cdz_setting_in_file("pipeline", key), text, &which, err);
    *second = status == CDZ_OK && which == 1;
    return status;
}

/* --- isolation --------------------------------------------------------------------------------------------- */

/* Where a plugin's code is to run: here, elsewhere if that can be, elsewhere. */
typedef enum where { HERE, ELSEWHERE_IF_STRANGE, ELSEWHERE } where;

static cdz_status read_isolation(const cdz_written *w, const char *section, bool *elsewhere,
                                 cdz_error *why)
{
    cdz_error err = {0};
    const cdz_status status = read_word("isolation", w->text, elsewhere, &err);
    return status == CDZ_OK ? status : cdz_err(why, status, "[%s] %s", section, err.text);
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
                       "[%s] isolation = process: only processors, stopping criteria and "
                       "drafters can run in a process of their own; a %s calls the host too "
                       "often",
                       name, cdz_kind_name(kind));
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
        CDZ_TRY(cdz_registry_isolate(l->registry, CDZ_BY_USER, kind, id, false, place == ELSEWHERE,
                                     out, why));
    if (!l->newest) return CDZ_OK;
    const cdz_status st = cdz_registry_check_newest(l->registry, out->module, why);
    if (st == CDZ_OK) return CDZ_OK;
    cdz_module_release(out->module);
    *out = (cdz_plugin_ref){0};
    return st;
}

/* What stands on the command line is the user's word, whatever pipeline it goes with. */
static cdz_namer namer_of(const cdz_linker *l, const cdz_origin *origin)
{
    const bool typed = !l->sources->of_request || origin->source == CDZ_SOURCE_COMMAND;
    return typed ? CDZ_BY_USER : CDZ_BY_REQUEST;
}

/* spec as written at origin. */
static cdz_status find_plugin(cdz_linker *l, uint32_t kind, const char *spec, where place,
                              const cdz_origin *origin, cdz_plugin_ref *out, cdz_error *why)
{
    const char *path = path_in(l, spec);
    if (!path) return find_id(l, kind, spec, place, out, why);
    const char *full = cdz_sources_path(&l->link->arena, origin, path);
    if (!full) return cdz_linker_nomem(l);
    const cdz_namer by = namer_of(l, origin);
    if (place == HERE) return cdz_registry_load_for(l->registry, by, full, kind, out, why);
    return cdz_registry_isolate(l->registry, by, kind, full, true, place == ELSEWHERE, out, why);
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

/* Where w names a plugin, for the head of a sentence: "story.ini:2: ", "-s observers: ". */
static void key_prefix(const cdz_written *w, char *out, size_t out_bytes)
{
    const bool plain = strcmp(w->section, "pipeline") == 0 || strcmp(w->section, "generation") == 0;
    cdz_origin_prefix(&w->origin, out, out_bytes);
    const size_t len = strlen(out);
    if (w->origin.source == CDZ_SOURCE_COMMAND)
        snprintf(out + len, out_bytes - len, "%s%s%s: ", plain ? "" : w->section, plain ? "" : ".",
                 w->name);
}

/* An entry the user listed in w: its section's id, or its own name, is the plugin. */
static cdz_status link_named(cdz_linker *l, uint32_t kind, const char *name, const cdz_written *w,
                             cdz_part *out)
{
    const cdz_written *id = cdz_sources_find(l->sources, name, "id");
    cdz_error why = {0};
    where place = HERE;
    *out = (cdz_part){.name = name, .origin = w->origin};
    cdz_status st = place_of_code(l, kind, name, &place, &why);
    if (st == CDZ_OK)
        st = find_plugin(l, kind, id ? id->text : name, place, id ? &id->origin : &w->origin,
                         &out->plugin, &why);
    if (st == CDZ_OK) return find_mirrors(l, out);
    char prefix[300];
    if (id)
        cdz_part_prefix(out, &id->origin, prefix, sizeof prefix);
    else
        key_prefix(w, prefix, sizeof prefix);
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
        CDZ_TRY(link_named(l, kind, item, w, &out->at[i]));
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
    if (link->strategy_named) return link_named(l, CDZ_KIND_STRATEGY, w->text, w, &link->strategy);
    CDZ_TRY(link_recipes(l));
    CDZ_TRY(cdz_linker_stage(l, CDZ_KIND_STRATEGY, "greedy", &link->greedy));
    CDZ_TRY(cdz_linker_stage(l, CDZ_KIND_STRATEGY, "sample", &link->sample));
    CDZ_TRY(cdz_linker_stage(l, CDZ_KIND_STRATEGY, "assisted", &link->assisted));
    return cdz_linker_stage(l, CDZ_KIND_STRATEGY, "beam", &link->beam);
}

static cdz_status link_drafting(cdz_linker *l)
{
    const cdz_written *w = cdz_sources_find(l->sources, "pipeline", "drafting");
    l->link->drafting_fixed = false;
    if (!w) return CDZ_OK;
    char prefix[300];
    cdz_error err = {0};
    const cdz_status status = read_word("drafting", w->text, &l->link->drafting_fixed, &err);
    cdz_origin_prefix(&w->origin, prefix, sizeof prefix);
    return status == CDZ_OK ? status : cdz_err(l->err, status, "%s%s", prefix, err.text);
}

/* Drafters serve strategies that ask for drafts, whoever chose the strategy. */
static cdz_status link_drafter(cdz_linker *l)
{
    cdz_link *link = l->link;
    const cdz_written *w = cdz_sources_find(l->sources, "pipeline", "drafter");
    CDZ_TRY(link_drafting(l));
    link->drafter_named = w && strcmp(w->text, "auto") != 0;
    if (link->drafter_named && strcmp(w->text, "none") != 0)
        return link_named(l, CDZ_KIND_DRAFTER, w->text, w, &link->drafter);
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
    return link_named(l, CDZ_KIND_PROCESSOR, w->text, w, out);
}

static cdz_status link_profile(cdz_linker *l)
{
    cdz_link *link = l->link;
    link->stages = cdz_arena_array(&link->arena, cdz_hf_n_processors, sizeof *link->stages);
    link->criteria = cdz_arena_array(&link->arena, cdz_hf_n_criteria, sizeof *link->criteria);
    if (!link->stages || !link->criteria) return cdz_linker_nomem(l);
    for (uint32_t i = 0; i < cdz_hf_n_processors && !link->chain.given; i++)
        CDZ_TRY(link_processor(l, cdz_hf_processors[i].id, &link->stages[i]));
    for (uint32_t i = 0; i < cdz_hf_n_criteria; i++)
        CDZ_TRY(cdz_linker_stage(l, CDZ_KIND_CRITERION, cdz_hf_criteria[i].id, &link->criteria[i]));
    return CDZ_OK;
}

/* --- life ------------------------------------------------------------------------------------------------ */

static void warn_hidden(void *user, const char *id, const char *used, const char *hidden)
{
    cdz_link *link = user;
    cdz_warn(&link->warnings, &link->arena, "two plugins have the id '%s': %s is used, %s is not",
             id, used, hidden);
}

static cdz_status link_all(cdz_linker *l, const char *strategy)
{
    CDZ_TRY(cdz_linker_defaults(l));
    CDZ_TRY(link_strategy(l, strategy));
    CDZ_TRY(link_drafter(l));
    CDZ_TRY(cdz_linker_generation(l));
    CDZ_TRY(cdz_linker_list(l, "pipeline", "processors", CDZ_KIND_PROCESSOR, &l->link->processors));
    CDZ_TRY(cdz_linker_list(l, "pipeline", "stopping", CDZ_KIND_CRITERION, &l->link->stopping));
    CDZ_TRY(cdz_linker_list(l, "pipeline", "observers", CDZ_KIND_OBSERVER, &l->link->observers));
    CDZ_TRY(cdz_linker_list(l, "pipeline", "press", CDZ_KIND_PRESS, &l->link->presses));
    CDZ_TRY(cdz_linker_list(l, "pipeline", "decoding_press", CDZ_KIND_PRESS,
                            &l->link->decoding_presses));
    CDZ_TRY(cdz_linker_list(l, "pipeline", "chain", CDZ_KIND_PROCESSOR, &l->link->chain));
    CDZ_TRY(check_chain(l));
    CDZ_TRY(cdz_linker_phases(l));
    CDZ_TRY(link_profile(l));
    cdz_registry_collisions(l->registry, warn_hidden, l->link);
    return cdz_linker_settings(l);
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
    visit_all(link->presses.at, link->presses.n, visit, user);
    visit_all(link->decoding_presses.at, link->decoding_presses.n, visit, user);
    visit_all(link->chain.at, link->chain.n, visit, user);
    visit_all(link->stages, cdz_hf_n_processors, visit, user);
    visit_all(link->criteria, cdz_hf_n_criteria, visit, user);
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
