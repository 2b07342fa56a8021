/* registry.c - which plugins are known, in discovery order, and what became of the files that were refused.
 *
 * One array of entries, sorted by rank (named by the user, search path, built-in) and then by arrival; an id means the
 * first entry that has it. Directories are read once, when an id is asked for that no named file has. Everything is under
 * one lock; descriptors and paths handed out belong to modules, which outlive the registry while they are referenced. */
#include "plug/registry_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "plug/locate.h"

const char *cdz_rank_name(cdz_rank rank)
{
    static const char *const names[] = {[CDZ_RANK_NAMED] = "named by the user",
                                        [CDZ_RANK_PATH] = "path",
                                        [CDZ_RANK_USER] = "user folder",
                                        [CDZ_RANK_BUILTIN] = "built-in",
                                        [CDZ_RANK_REQUEST] = "named by a request"};
    return names[rank];
}

/* --- life ------------------------------------------------------------------------------------------------- */

/* *out is a copy of from, which may be NULL. */
static bool keep(cdz_registry *r, const char *from, const char **out)
{
    *out = from ? cdz_arena_strdup(&r->arena, from) : NULL;
    return !from || *out;
}

static bool keep_options(cdz_registry *r, const cdz_registry_options *options)
{
    r->safe_mode = options->safe_mode;
    r->allow_model_plugins = options->allow_model_plugins;
    if (!keep(r, options->builtin_dir, &r->builtin_dir)) return false;
    if (!r->builtin_dir) r->builtin_dir = cdz_locate_plugins(&r->arena);
    return keep(r, options->search_path, &r->search_path) &&
           keep(r, options->user_dir, &r->user_dir) &&
           keep(r, options->locks[0], &r->lock_paths[0]) &&
           keep(r, options->locks[1], &r->lock_paths[1]);
}

cdz_status cdz_registry_create(const cdz_registry_options *options, cdz_registry **out,
                               cdz_error *err)
{
    static const cdz_registry_options defaults;
    if (!options) options = &defaults;
    cdz_registry *r = calloc(1, sizeof *r);
    if (!r) return cdz_err(err, CDZ_E_NOMEM, "plugins: out of memory");
    cdz_mutex_init(&r->lock);
    if (!keep_options(r, options)) {
        cdz_registry_free(r);
        return cdz_err(err, CDZ_E_NOMEM, "plugins: out of memory");
    }
    *out = r;
    return CDZ_OK;
}

void cdz_known_clear(cdz_known *e)
{
    cdz_module_release(e->module);
    free(e->path);
    free(e->file);
    free(e->id);
    free(e->problem);
    *e = (cdz_known){0};
}

void cdz_registry_free(cdz_registry *registry)
{
    if (!registry) return;
    for (size_t i = 0; i < registry->n_entries; i++) cdz_known_clear(&registry->entries[i]);
    free(registry->entries);
    cdz_isolated_free(&registry->isolated);
    cdz_trust_free(&registry->trust);
    cdz_arena_free(&registry->arena);
    cdz_mutex_destroy(&registry->lock);
    free(registry);
}

const char *cdz_registry_builtin_dir(const cdz_registry *registry)
{
    return registry->builtin_dir;
}

/* --- entries ---------------------------------------------------------------------------------------------- */

/* Makes room for one more and moves it to the end of its rank. Takes over what e points to, on failure too. */
cdz_status cdz_registry_insert(cdz_registry *r, cdz_known e, cdz_error *err)
{
    cdz_assert_holds(&r->lock);
    if (r->n_entries == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 32;
        cdz_known *more = reallocarray(r->entries, cap, sizeof *more);
        if (!more) {
            cdz_known_clear(&e);
            return cdz_err(err, CDZ_E_NOMEM, "plugins: out of memory");
        }
        r->entries = more;
        r->cap = cap;
    }
    size_t at = r->n_entries;
    while (at > 0 && r->entries[at - 1].rank > e.rank) at--;
    memmove(r->entries + at + 1, r->entries + at, (r->n_entries - at) * sizeof *r->entries);
    r->entries[at] = e;
    r->n_entries++;
    return CDZ_OK;
}

cdz_status cdz_registry_add_linked(cdz_registry *registry, const cdz_plugin_base *plugin,
                                   cdz_error *err)
{
    cdz_known e = {.rank = CDZ_RANK_BUILTIN};
    CDZ_TRY(cdz_module_linked(plugin, cdz_rank_name(CDZ_RANK_BUILTIN), &e.module, err));
    e.path = strdup(cdz_module_path(e.module));
    if (!e.path) {
        cdz_known_clear(&e);
        return cdz_err(err, CDZ_E_NOMEM, "plugins: out of memory");
    }
    cdz_mutex_lock(&registry->lock);
    cdz_status st = cdz_registry_insert(registry, e, err);
    registry->loaders_scanned = registry->scanned = false; /* there may be files for it */
    cdz_mutex_unlock(&registry->lock);
    return st;
}

/* --- finding ---------------------------------------------------------------------------------------------- */

const cdz_plugin_base *cdz_module_find(const cdz_module *module, uint32_t kind, const char *id)
{
    for (uint32_t i = 0; module && i < cdz_module_count(module); i++) {
        const cdz_plugin_base *base = cdz_module_plugin(module, i);
        if ((kind == 0 || base->kind == kind) && (!id || strcmp(base->id, id) == 0)) return base;
    }
    return NULL;
}

bool cdz_registry_find_known(const cdz_registry *r, uint32_t kind, const char *id,
                             cdz_plugin_ref *out)
{
    cdz_assert_holds(&r->lock);
    for (size_t i = 0; i < r->n_entries; i++) {
        if (r->entries[i].rank == CDZ_RANK_REQUEST) continue;
        const cdz_plugin_base *base = cdz_module_find(r->entries[i].module, kind, id);
        if (!base) continue;
        *out = (cdz_plugin_ref){.base = base, .module = r->entries[i].module};
        return true;
    }
    return false;
}

/* A refused file whose id or name without suffix is what was asked for. */
static const cdz_error *refusal_of(const cdz_registry *r, const char *id)
{
    const size_t n = strlen(id);
    for (size_t i = 0; i < r->n_entries; i++) {
        const cdz_known *e = &r->entries[i];
        if (!e->problem) continue;
        const char *slash = strrchr(e->path, '/'), *name = slash ? slash + 1 : e->path;
        if ((e->id && strcmp(e->id, id) == 0) ||
            (strncmp(name, id, n) == 0 && (name[n] == '.' || name[n] == '\0')))
            return e->problem;
    }
    return NULL;
}

static const char *nearest_id(const cdz_registry *r, uint32_t kind, const char *id)
{
    cdz_arena arena = {0};
    size_t n = 0, cap = 0;
    for (size_t i = 0; i < r->n_entries; i++)
        if (r->entries[i].module) cap += cdz_module_count(r->entries[i].module);
    const char **names = cdz_arena_array(&arena, cap + 1, sizeof *names);
    for (size_t i = 0; names && i < r->n_entries; i++) {
        const cdz_module *module = r->entries[i].module;
        for (uint32_t k = 0; module && k < cdz_module_count(module); k++)
            if (kind == 0 || cdz_module_plugin(module, k)->kind == kind)
                names[n++] = cdz_module_plugin(module, k)->id;
    }
    const char *near = names ? cdz_nearest_name(id, names, n) : NULL;
    cdz_arena_free(&arena);
    return near;
}

/* "" or, as what was asked for may be in a place that was refused, what became of that. */
static void mention_refusals(const cdz_registry *r, char *out, size_t out_bytes)
{
    const cdz_error *only = NULL;
    size_t n = 0;
    for (size_t i = 0; i < r->n_entries; i++)
        if (r->entries[i].problem) only = r->entries[i].problem, n++;
    out[0] = '\0';
    if (n == 1)
        snprintf(out, out_bytes, "; refused was %.900s", only->text);
    else if (n > 1)
        snprintf(out, out_bytes, "; %zu of them were refused, it says why", n);
}

cdz_status cdz_registry_not_found(const cdz_registry *r, uint32_t kind, const char *id,
                                  cdz_error *err)
{
    cdz_assert_holds(&r->lock);
    cdz_plugin_ref other;
    const char *what = kind ? cdz_kind_name(kind) : "plugin";
    const cdz_error *refused = refusal_of(r, id);
    if (refused) return cdz_err(err, refused->code, "%s", refused->text);
    if (cdz_registry_find_known(r, 0, id, &other))
        return cdz_err(err, CDZ_E_NOT_FOUND, "'%s' is of the kind %s; expected %s", id,
                       cdz_kind_name(other.base->kind), what);
    const char *near = nearest_id(r, kind, id);
    if (near)
        return cdz_err(err, CDZ_E_NOT_FOUND, "no %s '%s': did you mean '%s'?", what, id, near);
    struct stat s;
    if (!r->builtin_dir || stat(r->builtin_dir, &s) != 0)
        return cdz_err(err, CDZ_E_NOT_FOUND,
                       "no %s '%s', and the built-in plugins are not where they should be: %s",
                       what, id, r->builtin_dir ? r->builtin_dir : "unknown place");
    char refusals[CDZ_ERROR_TEXT];
    mention_refusals(r, refusals, sizeof refusals);
    return cdz_err(err, CDZ_E_NOT_FOUND,
                   "no %s '%s' in any of the places that `cadenza plugin list -v` shows%s", what,
                   id, refusals);
}

/* The k-th plugin of an entry when `id` may stand for it. */
static const char *stands_for(const cdz_known *e, uint32_t k, uint32_t kind, const char *id)
{
    const cdz_plugin_base *base = cdz_module_plugin(e->module, k);
    const bool meant =
        (kind == 0 || base->kind == kind) && cdz_plugin_id_alike(id, cdz_plugin_id_last(base->id));
    return meant ? base->id : NULL;
}

/* Several ids are named in the sentence, the first few of them. */
cdz_status cdz_registry_full_id(const cdz_registry *r, uint32_t kind, const char **id,
                                cdz_error *err)
{
    cdz_assert_holds(&r->lock);
    cdz_plugin_ref exact;
    const char *only = NULL;
    cdz_buf several = {0};
    if (cdz_registry_find_known(r, kind, *id, &exact)) return CDZ_OK;
    for (size_t i = 0; i < r->n_entries; i++) {
        const cdz_known *e = &r->entries[i];
        const uint32_t n =
            e->module && e->rank != CDZ_RANK_REQUEST ? cdz_module_count(e->module) : 0;
        for (uint32_t k = 0; k < n; k++) {
            const char *full = stands_for(e, k, kind, *id);
            if (!full || (only && strcmp(full, only) == 0)) continue;
            if (only && several.len == 0) cdz_buf_puts(&several, only);
            if (only && several.len < 400) cdz_buf_printf(&several, " or %s", full);
            only = full;
        }
    }
    cdz_status st = CDZ_OK;
    if (several.len)
        st = cdz_err(err, CDZ_E_USAGE, "'%s' may be %s; write which", *id, several.data);
    else if (only)
        *id = only;
    cdz_buf_free(&several);
    return st;
}

cdz_status cdz_registry_find(cdz_registry *registry, uint32_t kind, const char *id,
                             cdz_plugin_ref *out, cdz_error *err)
{
    cdz_plugin_ref ref = {0};
    cdz_status st = CDZ_OK;
    cdz_mutex_lock(&registry->lock);
    if (!cdz_registry_find_known(registry, kind, id, &ref)) {
        st = cdz_registry_scan_all(registry, err);
        if (st == CDZ_OK) st = cdz_registry_full_id(registry, kind, &id, err);
        if (st == CDZ_OK && !cdz_registry_find_known(registry, kind, id, &ref))
            st = cdz_registry_not_found(registry, kind, id, err);
    }
    if (st == CDZ_OK) {
        cdz_module_retain(ref.module);
        *out = ref;
    }
    cdz_mutex_unlock(&registry->lock);
    return st;
}

cdz_status cdz_registry_load(cdz_registry *registry, const char *path, uint32_t kind,
                             cdz_plugin_ref *out, cdz_error *err)
{
    return cdz_registry_load_for(registry, CDZ_BY_USER, path, kind, out, err);
}

cdz_status cdz_registry_load_for(cdz_registry *registry, cdz_namer by, const char *path,
                                 uint32_t kind, cdz_plugin_ref *out, cdz_error *err)
{
    const cdz_rank rank = by == CDZ_BY_USER ? CDZ_RANK_NAMED : CDZ_RANK_REQUEST;
    cdz_module *module = NULL;
    cdz_mutex_lock(&registry->lock);
    cdz_status st = cdz_registry_load_path(registry, rank, path, &module, err);
    if (st == CDZ_OK && out) {
        const cdz_plugin_base *base = cdz_module_find(module, kind, NULL);
        if (base) {
            cdz_module_retain(module);
            *out = (cdz_plugin_ref){.base = base, .module = module};
        } else {
            base = cdz_module_plugin(module, 0);
            st = cdz_err(err, CDZ_E_INPUT, "%s: holds no %s; it has the %s '%s'", path,
                         cdz_kind_name(kind), cdz_kind_name(base->kind), base->id);
        }
    }
    cdz_mutex_unlock(&registry->lock);
    return st;
}

/* --- collisions ---------------------------------------------------------------------------------------------- */

static void tell_hidden(const cdz_registry *r, const cdz_known *e, cdz_collision_visit *visit,
                        void *user)
{
    for (uint32_t k = 0; k < cdz_module_count(e->module); k++) {
        const cdz_plugin_base *base = cdz_module_plugin(e->module, k);
        cdz_plugin_ref first = {0};
        if (!cdz_registry_find_known(r, base->kind, base->id, &first) || first.base == base)
            continue;
        if (strcmp(cdz_module_path(first.module), cdz_module_path(e->module)) != 0)
            visit(user, base->id, cdz_module_path(first.module), cdz_module_path(e->module));
    }
}

void cdz_registry_collisions(cdz_registry *registry, cdz_collision_visit *visit, void *user)
{
    cdz_mutex_lock(&registry->lock);
    for (size_t i = 0; i < registry->n_entries; i++) {
        const cdz_known *e = &registry->entries[i];
        if (e->module && e->rank != CDZ_RANK_REQUEST) tell_hidden(registry, e, visit, user);
    }
    cdz_mutex_unlock(&registry->lock);
}

/* --- listing ---------------------------------------------------------------------------------------------- */

static size_t count_lines(const cdz_registry *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_entries; i++)
        n += r->entries[i].module ? cdz_module_count(r->entries[i].module) : 1;
    return n;
}

static void fill_line(const cdz_registry *r, const cdz_known *e, uint32_t k, cdz_arena *arena,
                      cdz_plugin_line *out)
{
    cdz_plugin_ref first = {0};
    out->path = cdz_arena_strdup(arena, e->path);
    out->origin = cdz_rank_name(e->rank);
    if (e->rank == CDZ_RANK_PATH || e->rank == CDZ_RANK_USER)
        out->pin = e->pin ? cdz_arena_strdup(arena, e->pin) : "";
    if (e->problem) {
        out->problem = cdz_arena_strdup(arena, e->problem->text);
        return;
    }
    out->ref = (cdz_plugin_ref){.base = cdz_module_plugin(e->module, k), .module = e->module};
    cdz_module_retain(e->module);
    (void)cdz_registry_find_known(r, out->ref.base->kind, out->ref.base->id, &first);
    if (first.base != out->ref.base)
        out->problem = cdz_arena_printf(arena, "shadowed by %s", cdz_module_path(first.module));
}

static cdz_plugin_line *take_lines(const cdz_registry *r, cdz_arena *arena, size_t *n)
{
    cdz_plugin_line *lines = cdz_arena_array(arena, count_lines(r) + 1, sizeof *lines);
    *n = 0;
    for (size_t i = 0; lines && i < r->n_entries; i++) {
        const cdz_known *e = &r->entries[i];
        uint32_t count = e->module ? cdz_module_count(e->module) : 1;
        for (uint32_t k = 0; k < count; k++) fill_line(r, e, k, arena, &lines[(*n)++]);
    }
    return lines;
}

cdz_status cdz_registry_visit(cdz_registry *registry, cdz_plugin_visit *visit, void *user,
                              cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_plugin_line *lines = NULL;
    size_t n = 0;
    cdz_mutex_lock(&registry->lock);
    cdz_status st = cdz_registry_scan_all(registry, err);
    if (st == CDZ_OK && !(lines = take_lines(registry, &arena, &n)))
        st = cdz_err(err, CDZ_E_NOMEM, "plugins: out of memory");
    cdz_mutex_unlock(&registry->lock);
    for (size_t i = 0; lines && i < n; i++) {
        visit(user, &lines[i]);
        cdz_module_release(lines[i].ref.module);
    }
    cdz_arena_free(&arena);
    return st;
}
