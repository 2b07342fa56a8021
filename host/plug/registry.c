/* registry.c - which plugins are known, in discovery order, and what became of the files that were refused.
 *
 * One array of entries, sorted by rank (named by the user, search path, built-in) and then by arrival; an id means the
 * first entry that has it. Directories are read once, when an id is asked for that no named file has. Everything is under
 * one lock; descriptors and paths handed out belong to modules, which outlive the registry while they are referenced. */
#include "plug/registry.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "plug/isolated.h"
#include "plug/locate.h"
#include "plug/manifest.h"
#include "plug/module.h"

typedef enum rank { RANK_NAMED, RANK_PATH, RANK_USER, RANK_BUILTIN } rank;

static const char *const origins[] = {[RANK_NAMED] = "named by the user",
                                      [RANK_PATH] = "path",
                                      [RANK_USER] = "user folder",
                                      [RANK_BUILTIN] = "built-in"};

/* A file: loaded, or refused. */
typedef struct entry {
    rank rank;
    char *path;         /* as found or named: of the file, or of the package folder */
    char *file;         /* canonical path of what was loaded; NULL when refused or linked in */
    cdz_module *module; /* NULL: refused, problem says why */
    char *id;           /* refused packages: the id of plugin.ini; may be NULL */
    cdz_error *problem;
    const char *pin; /* the lock's path, the registry's; NULL: not pinned */
} entry;

struct cdz_registry {
    pthread_mutex_t lock;
    cdz_arena arena; /* options */
    const char *builtin_dir, *search_path, *user_dir, *lock_paths[2];
    bool allow_model_plugins, safe_mode, trust_read;
    cdz_isolated isolated;
    bool loaders_scanned, scanned; /* of the directories: the packages that are loaders, and all */
    bool loaders_only;             /* the former are looked for now */
    cdz_trust trust;               /* read with the first directory */
    entry *entries;
    size_t n_entries, cap;
};

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
    pthread_mutex_init(&r->lock, NULL);
    if (!keep_options(r, options)) {
        cdz_registry_free(r);
        return cdz_err(err, CDZ_E_NOMEM, "plugins: out of memory");
    }
    *out = r;
    return CDZ_OK;
}

static void clear_entry(entry *e)
{
    cdz_module_release(e->module);
    free(e->path);
    free(e->file);
    free(e->id);
    free(e->problem);
    *e = (entry){0};
}

void cdz_registry_free(cdz_registry *registry)
{
    if (!registry) return;
    for (size_t i = 0; i < registry->n_entries; i++) clear_entry(&registry->entries[i]);
    free(registry->entries);
    cdz_isolated_free(&registry->isolated);
    cdz_trust_free(&registry->trust);
    cdz_arena_free(&registry->arena);
    pthread_mutex_destroy(&registry->lock);
    free(registry);
}

const char *cdz_registry_builtin_dir(const cdz_registry *registry)
{
    return registry->builtin_dir;
}

/* --- entries ---------------------------------------------------------------------------------------------- */

/* Makes room for one more and moves it to the end of its rank. Takes over what e points to, on failure too. */
static cdz_status insert(cdz_registry *r, entry e, cdz_error *err)
{
    if (r->n_entries == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 32;
        entry *more = reallocarray(r->entries, cap, sizeof *more);
        if (!more) {
            clear_entry(&e);
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

static entry *entry_of_file(cdz_registry *r, const char *file, rank at_rank)
{
    for (size_t i = 0; i < r->n_entries; i++)
        if (r->entries[i].rank == at_rank && r->entries[i].file &&
            strcmp(r->entries[i].file, file) == 0)
            return &r->entries[i];
    return NULL;
}

/* An unchanged file is loaded once, whoever asks. */
static cdz_module *module_of_file(const cdz_registry *r, const char *file, const cdz_loader *loader)
{
    for (size_t i = 0; i < r->n_entries; i++) {
        const entry *e = &r->entries[i];
        if (e->file && strcmp(e->file, file) == 0 && cdz_module_is_current(e->module, file, loader))
            return e->module;
    }
    return NULL;
}

cdz_status cdz_registry_add_linked(cdz_registry *registry, const cdz_plugin_base *plugin,
                                   cdz_error *err)
{
    entry e = {.rank = RANK_BUILTIN};
    CDZ_TRY(cdz_module_linked(plugin, origins[RANK_BUILTIN], &e.module, err));
    e.path = strdup(cdz_module_path(e.module));
    if (!e.path) {
        clear_entry(&e);
        return cdz_err(err, CDZ_E_NOMEM, "plugins: out of memory");
    }
    pthread_mutex_lock(&registry->lock);
    cdz_status st = insert(registry, e, err);
    registry->loaders_scanned = registry->scanned = false; /* there may be files for it */
    pthread_mutex_unlock(&registry->lock);
    return st;
}

/* --- from a path to a module ------------------------------------------------------------------------------- */

/* What is behind the last dot of a path's last part; NULL: nothing. */
static const char *ending_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    return dot && dot > name && dot[1] ? dot + 1 : NULL;
}

static const entry *taker_of(const cdz_registry *r, const char *ending, size_t n)
{
    for (size_t i = 0; i < r->n_entries; i++)
        if (r->entries[i].module && cdz_module_loader_of(r->entries[i].module, ending, n))
            return &r->entries[i];
    return NULL;
}

/* False: nobody who is known opens files of this name. */
static bool known_opener(const cdz_registry *r, const char *path, cdz_opener *out)
{
    const char *ending = ending_of(path);
    *out = (cdz_opener){0};
    if (!ending || strcmp(ending, "so") == 0) return ending != NULL;
    const entry *by = taker_of(r, ending, strlen(ending));
    if (!by) return false;
    out->loader = cdz_module_loader_of(by->module, ending, strlen(ending));
    out->module = by->module;
    out->scripts = by->rank == RANK_BUILTIN && (out->loader->caps & CDZ_SANDBOXES);
    return true;
}

static cdz_status scan_loaders(cdz_registry *r, cdz_error *err);

static bool opener_of(cdz_registry *r, const char *path, cdz_opener *out)
{
    if (known_opener(r, path, out)) return true;
    return scan_loaders(r, NULL) == CDZ_OK && known_opener(r, path, out);
}

static void add_endings(cdz_buf *out, const cdz_module *module)
{
    for (uint32_t i = 0; i < cdz_module_count(module); i++) {
        const cdz_plugin_base *base = cdz_module_plugin(module, i);
        if (base->kind != CDZ_KIND_LOADER) continue;
        for (const char *p = ((const cdz_loader *)(const void *)base)->endings; *p;) {
            const size_t n = strcspn(p, "|");
            cdz_buf_printf(out, ", .%.*s", (int)n, p);
            p += n + (p[n] == '|');
        }
    }
}

static cdz_status unknown_file(const cdz_registry *r, const char *path, cdz_error *err)
{
    cdz_buf known = {0};
    cdz_buf_puts(&known, ".so");
    for (size_t i = 0; i < r->n_entries; i++)
        if (r->entries[i].module) add_endings(&known, r->entries[i].module);
    cdz_status st = cdz_err(err, CDZ_E_INPUT,
                            "%s: not a plugin file: its name ends in none of %s, and it is no "
                            "package folder",
                            path, known.failed ? ".so" : known.data);
    cdz_buf_free(&known);
    return st;
}

/* What load_file is to load, and on whose word. */
typedef struct origin {
    const char *named; /* as found or named */
    rank rank;
    const cdz_manifest *manifest; /* of a package; NULL: a bare file */
    cdz_pinned pinned;
} origin;

/* --- loaders ------------------------------------------------------------------------------------------------ */

/* Whether one more loader may take this ending. One shadows another of its id, but none a built-in one. file: the
 * loader's own; it may be named and built-in at once. */
static cdz_status check_ending(const cdz_registry *r, const origin *from, const char *file,
                               const char *id, const char *ending, size_t n, cdz_error *err)
{
    const entry *by = taker_of(r, ending, n);
    if (!by || (by->file && strcmp(by->file, file) == 0)) return CDZ_OK;
    const cdz_loader *other = cdz_module_loader_of(by->module, ending, n);
    const bool builtin = by->rank == RANK_BUILTIN;
    if (strcmp(other->base.id, id) == 0 && (!builtin || from->rank == RANK_BUILTIN)) return CDZ_OK;
    return cdz_err(err, CDZ_E_DENIED,
                   "%s: the loader %s takes .%.*s files, but they belong to the %sloader %s (%s)",
                   from->named, id, (int)n, ending, builtin ? "built-in " : "", other->base.id,
                   by->path);
}

static cdz_status check_endings(const cdz_registry *r, const origin *from, const char *file,
                                const cdz_loader *loader, cdz_error *err)
{
    for (const char *p = loader->endings;;) {
        const size_t n = strcspn(p, "|");
        CDZ_TRY(check_ending(r, from, file, loader->base.id, p, n, err));
        if (p[n] == '\0') return CDZ_OK;
        p += n + 1;
    }
}

/* Refuses a module whose loaders want what another loader has. Those of the directories are known by then: who is first
 * must not depend on what was asked for first. */
static cdz_status check_loaders(cdz_registry *r, const origin *from, const char *file,
                                const cdz_module *module, cdz_error *err)
{
    for (uint32_t i = 0; i < cdz_module_count(module); i++) {
        const cdz_plugin_base *base = cdz_module_plugin(module, i);
        if (base->kind != CDZ_KIND_LOADER) continue;
        if (from->rank == RANK_NAMED) CDZ_TRY(scan_loaders(r, err));
        CDZ_TRY(check_endings(r, from, file, (const cdz_loader *)(const void *)base, err));
    }
    return CDZ_OK;
}

bool cdz_registry_takes(cdz_registry *registry, const char *ending, size_t n)
{
    pthread_mutex_lock(&registry->lock);
    bool takes = taker_of(registry, ending, n) != NULL;
    if (!takes) takes = scan_loaders(registry, NULL) == CDZ_OK && taker_of(registry, ending, n);
    pthread_mutex_unlock(&registry->lock);
    return takes;
}

/* --- from a path to a module, continued ---------------------------------------------------------------------- */

/* Opens a regular file, or takes the module that is open already; a package's promises are checked either way. */
static cdz_status open_file(cdz_registry *r, const char *path, const char *canonical,
                            const origin *from, cdz_module **out, cdz_error *err)
{
    const cdz_manifest *manifest = from->manifest;
    cdz_module_source source = {.path = path,
                                .origin = origins[from->rank],
                                .sha256 = manifest ? manifest->sha256 : NULL,
                                .pinned = from->pinned};
    if (!opener_of(r, path, &source.opener)) return unknown_file(r, path, err);
    if (from->rank != RANK_BUILTIN)
        CDZ_TRY(
            cdz_trust_model_folder(canonical, !source.opener.scripts, r->allow_model_plugins, err));
    cdz_module *module = module_of_file(r, canonical, source.opener.loader);
    if (module) {
        CDZ_TRY(cdz_module_check_hash(&source, err));
        cdz_module_retain(module);
    } else {
        CDZ_TRY(cdz_module_open(&source, &module, err));
    }
    cdz_status st = CDZ_OK;
    if (manifest)
        st = cdz_manifest_match(manifest, cdz_module_plugin(module, 0), cdz_module_count(module),
                                err);
    if (st == CDZ_OK) st = check_loaders(r, from, canonical, module, err);
    if (st == CDZ_OK)
        *out = module;
    else
        cdz_module_release(module);
    return st;
}

/* The registry's own name of the lock: locks are read again. */
static const char *pin_of(const cdz_registry *r, const cdz_pinned *pinned)
{
    for (size_t i = 0; pinned->lock && i < 2; i++)
        if (r->lock_paths[i] && strcmp(r->lock_paths[i], pinned->lock) == 0)
            return r->lock_paths[i];
    return NULL;
}

/* Loads path at a rank and makes it known; an entry of the same file at that rank is replaced where it stands. */
static cdz_status load_file(cdz_registry *r, const char *path, const origin *from, cdz_module **out,
                            cdz_error *err)
{
    char *canonical = realpath(path, NULL);
    if (!canonical) return cdz_err(err, CDZ_E_NOT_FOUND, "%s: %s", path, strerror(errno));
    cdz_module *module = NULL;
    cdz_status st = open_file(r, path, canonical, from, &module, err);
    if (st != CDZ_OK) {
        free(canonical);
        return st;
    }
    *out = module;
    entry *old = entry_of_file(r, canonical, from->rank);
    if (old) {
        cdz_module_release(old->module);
        old->module = module;
        old->pin = pin_of(r, &from->pinned);
        free(canonical);
        return CDZ_OK;
    }
    entry e = {.rank = from->rank,
               .path = strdup(from->named),
               .file = canonical,
               .module = module,
               .pin = pin_of(r, &from->pinned)};
    if (!e.path) {
        clear_entry(&e);
        return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", from->named);
    }
    return insert(r, e, err);
}

/* A package the user named. A model's folder stands for the package in it. */
static cdz_status load_package(cdz_registry *r, const char *folder, cdz_module **out, cdz_error *err)
{
    cdz_manifest manifest;
    cdz_arena arena = {0};
    const char *inner = cdz_arena_printf(&arena, "%s/" CDZ_CUSTOM_GENERATE, folder);
    cdz_status st = inner ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", folder);
    if (st == CDZ_OK && !cdz_manifest_present(folder) && cdz_manifest_present(inner))
        folder = inner;
    if (st == CDZ_OK) st = cdz_manifest_read(folder, &manifest, err);
    if (st == CDZ_OK) {
        const origin from = {.named = folder, .rank = RANK_NAMED, .manifest = &manifest};
        st = load_file(r, manifest.entry_path, &from, out, err);
        cdz_manifest_free(&manifest);
    }
    cdz_arena_free(&arena);
    return st;
}

static cdz_status load_path(cdz_registry *r, const char *path, cdz_module **out, cdz_error *err)
{
    struct stat s;
    if (r->safe_mode)
        return cdz_err(err, CDZ_E_DENIED, "%s: in safe mode only built-in plugins are loaded", path);
    if (stat(path, &s) != 0)
        return cdz_err(err, CDZ_E_NOT_FOUND, "%s: %s", path,
                       errno == ENOENT ? "no such plugin file or folder" : strerror(errno));
    if (S_ISDIR(s.st_mode)) return load_package(r, path, out, err);
    if (!S_ISREG(s.st_mode)) return cdz_err(err, CDZ_E_INPUT, "%s: not a regular file", path);
    const origin from = {.named = path, .rank = RANK_NAMED};
    return load_file(r, path, &from, out, err);
}

/* --- directories ------------------------------------------------------------------------------------------ */

static bool refused_before(const cdz_registry *r, const char *path, rank at_rank)
{
    for (size_t i = 0; i < r->n_entries; i++)
        if (!r->entries[i].module && r->entries[i].rank == at_rank &&
            strcmp(r->entries[i].path, path) == 0)
            return true;
    return false;
}

/* Remembers why a file of a directory is not used. */
static cdz_status remember(cdz_registry *r, const char *path, rank at_rank, const char *id,
                           const cdz_error *why, cdz_error *err)
{
    entry e = {.rank = at_rank, .path = strdup(path), .problem = malloc(sizeof *why)};
    if (id) e.id = strdup(id);
    if (!e.path || !e.problem) {
        clear_entry(&e);
        return cdz_err(err, CDZ_E_NOMEM, "plugins: out of memory");
    }
    *e.problem = *why;
    return insert(r, e, err);
}

/* A bare file has no manifest, so no id before its code runs, and nothing to pin it by. */
static cdz_status deny_bare(const char *path, cdz_error *why)
{
    return cdz_err(why, CDZ_E_DENIED,
                   "%s: native code found in a directory is not loaded, and only a package folder "
                   "with a plugin.ini can be pinned; --plugin %s loads it once",
                   path, path);
}

/* A package folder in a directory: what it is comes from plugin.ini, before any code. */
static cdz_status found_package(cdz_registry *r, const char *path, rank at_rank, char **id,
                                cdz_error *why)
{
    cdz_manifest manifest;
    cdz_opener opener;
    cdz_module *module;
    CDZ_TRY(cdz_manifest_read(path, &manifest, why));
    *id = strdup(manifest.id);
    origin from = {.named = path, .rank = at_rank, .manifest = &manifest};
    cdz_status st = CDZ_OK;
    if (r->loaders_only && manifest.kind != CDZ_KIND_LOADER) {
        cdz_manifest_free(&manifest);
        return CDZ_OK;
    }
    if (at_rank != RANK_BUILTIN)
        st = cdz_trust_package(&r->trust, path, &manifest,
                               opener_of(r, manifest.entry, &opener) && !opener.scripts,
                               &from.pinned, why);
    if (st == CDZ_OK) st = load_file(r, manifest.entry_path, &from, &module, why);
    cdz_manifest_free(&manifest);
    return st;
}

static cdz_status found_file(cdz_registry *r, const char *path, rank at_rank, cdz_error *why)
{
    cdz_opener opener;
    cdz_module *module;
    const origin from = {.named = path, .rank = at_rank};
    if (!opener_of(r, path, &opener)) return CDZ_OK;
    if (at_rank != RANK_BUILTIN && !opener.scripts) return deny_bare(path, why);
    return load_file(r, path, &from, &module, why);
}

static cdz_status found(cdz_registry *r, const char *path, rank at_rank, cdz_error *err)
{
    struct stat s;
    cdz_error why = {0};
    char *id = NULL;
    cdz_status st = CDZ_OK;
    if (refused_before(r, path, at_rank) || stat(path, &s) != 0) return CDZ_OK;
    if (S_ISDIR(s.st_mode)) {
        if (!cdz_manifest_present(path)) return CDZ_OK;
        if (s.st_mode & S_IWOTH)
            st = cdz_err(&why, CDZ_E_DENIED, "%s: anyone may write to this folder; chmod o-w it",
                         path);
        else
            st = found_package(r, path, at_rank, &id, &why);
    } else if (S_ISREG(s.st_mode) && !r->loaders_only) {
        st = found_file(r, path, at_rank, &why);
    }
    if (st != CDZ_OK) st = remember(r, path, at_rank, id, &why, err);
    free(id);
    return st;
}

static int visible(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

/* Byte order, whatever the locale: discovery order is the same everywhere. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* One level, no recursion. A directory that does not exist is no error: search paths name what may be there. */
static cdz_status scan_directory(cdz_registry *r, const char *directory, rank at_rank,
                                 cdz_error *err)
{
    struct stat s;
    if (stat(directory, &s) != 0 || !S_ISDIR(s.st_mode)) return CDZ_OK;
    if (s.st_mode & S_IWOTH) {
        cdz_error why;
        (void)cdz_err(&why, CDZ_E_DENIED,
                      "%s: anyone may write to this directory, so no plugin is loaded from it; "
                      "chmod o-w it",
                      directory);
        return refused_before(r, directory, at_rank)
                   ? CDZ_OK
                   : remember(r, directory, at_rank, NULL, &why, err);
    }
    struct dirent **names = NULL;
    int n = scandir(directory, &names, visible, by_name);
    if (n < 0) return CDZ_OK;
    cdz_status st = CDZ_OK;
    for (int i = 0; i < n; i++) {
        cdz_buf path = {0};
        cdz_buf_printf(&path, "%s/%s", directory, names[i]->d_name);
        if (st == CDZ_OK)
            st = path.failed ? cdz_err(err, CDZ_E_NOMEM, "plugins: out of memory")
                             : found(r, path.data, at_rank, err);
        cdz_buf_free(&path);
        free(names[i]);
    }
    free(names);
    return st;
}

/* A lock that cannot be read is listed with what it is about: packages are refused because of it. */
static cdz_status read_locks(cdz_registry *r, cdz_error *err)
{
    if (r->trust_read) return CDZ_OK;
    r->trust_read = true;
    cdz_trust_read(&r->trust, r->lock_paths);
    for (size_t i = 0; i < 2; i++)
        if (r->trust.broken[i].code != CDZ_OK)
            CDZ_TRY(remember(r, r->lock_paths[i], RANK_PATH, NULL, &r->trust.broken[i], err));
    return CDZ_OK;
}

static cdz_status scan_path(cdz_registry *r, cdz_error *err)
{
    const char *rest = r->search_path;
    while (rest && *rest) {
        size_t n = strcspn(rest, ":");
        char *directory = strndup(rest, n);
        if (!directory) return cdz_err(err, CDZ_E_NOMEM, "plugins: out of memory");
        cdz_status st = n ? scan_directory(r, directory, RANK_PATH, err) : CDZ_OK;
        free(directory);
        if (st != CDZ_OK) return st;
        rest += n + (rest[n] == ':');
    }
    return CDZ_OK;
}

static cdz_status scan_users(cdz_registry *r, cdz_error *err)
{
    if (r->safe_mode || (!r->search_path && !r->user_dir)) return CDZ_OK;
    CDZ_TRY(read_locks(r, err));
    CDZ_TRY(scan_path(r, err));
    return r->user_dir ? scan_directory(r, r->user_dir, RANK_USER, err) : CDZ_OK;
}

static cdz_status scan_builtin(cdz_registry *r, cdz_error *err)
{
    return r->builtin_dir ? scan_directory(r, r->builtin_dir, RANK_BUILTIN, err) : CDZ_OK;
}

/* The built-in ones first: their endings are taken when the others are looked at. */
static cdz_status scan_loaders(cdz_registry *r, cdz_error *err)
{
    if (r->loaders_scanned) return CDZ_OK;
    r->loaders_scanned = r->loaders_only = true;
    cdz_status st = scan_builtin(r, err);
    if (st == CDZ_OK) st = scan_users(r, err);
    r->loaders_only = false;
    r->loaders_scanned = st == CDZ_OK;
    return st;
}

static cdz_status scan_all(cdz_registry *r, cdz_error *err)
{
    if (r->scanned) return CDZ_OK;
    CDZ_TRY(scan_loaders(r, err));
    CDZ_TRY(scan_users(r, err));
    CDZ_TRY(scan_builtin(r, err));
    r->scanned = true;
    return CDZ_OK;
}

/* --- finding ---------------------------------------------------------------------------------------------- */

static const cdz_plugin_base *plugin_of(const cdz_module *module, uint32_t kind, const char *id)
{
    for (uint32_t i = 0; module && i < cdz_module_count(module); i++) {
        const cdz_plugin_base *base = cdz_module_plugin(module, i);
        if ((kind == 0 || base->kind == kind) && (!id || strcmp(base->id, id) == 0)) return base;
    }
    return NULL;
}

static bool find_known(const cdz_registry *r, uint32_t kind, const char *id, cdz_plugin_ref *out)
{
    for (size_t i = 0; i < r->n_entries; i++) {
        const cdz_plugin_base *base = plugin_of(r->entries[i].module, kind, id);
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
        const entry *e = &r->entries[i];
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

static cdz_status not_found(const cdz_registry *r, uint32_t kind, const char *id, cdz_error *err)
{
    cdz_plugin_ref other;
    const char *what = kind ? cdz_kind_name(kind) : "plugin";
    const cdz_error *refused = refusal_of(r, id);
    if (refused) return cdz_err(err, refused->code, "%s", refused->text);
    if (find_known(r, 0, id, &other))
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

cdz_status cdz_registry_find(cdz_registry *registry, uint32_t kind, const char *id,
                             cdz_plugin_ref *out, cdz_error *err)
{
    cdz_plugin_ref ref = {0};
    cdz_status st = CDZ_OK;
    pthread_mutex_lock(&registry->lock);
    if (!find_known(registry, kind, id, &ref)) {
        st = scan_all(registry, err);
        if (st == CDZ_OK && !find_known(registry, kind, id, &ref))
            st = not_found(registry, kind, id, err);
    }
    if (st == CDZ_OK) {
        cdz_module_retain(ref.module);
        *out = ref;
    }
    pthread_mutex_unlock(&registry->lock);
    return st;
}

cdz_status cdz_registry_load(cdz_registry *registry, const char *path, uint32_t kind,
                             cdz_plugin_ref *out, cdz_error *err)
{
    cdz_module *module = NULL;
    pthread_mutex_lock(&registry->lock);
    cdz_status st = load_path(registry, path, &module, err);
    if (st == CDZ_OK && out) {
        const cdz_plugin_base *base = plugin_of(module, kind, NULL);
        if (base) {
            cdz_module_retain(module);
            *out = (cdz_plugin_ref){.base = base, .module = module};
        } else {
            base = cdz_module_plugin(module, 0);
            st = cdz_err(err, CDZ_E_INPUT, "%s: holds no %s; it has the %s '%s'", path,
                         cdz_kind_name(kind), cdz_kind_name(base->kind), base->id);
        }
    }
    pthread_mutex_unlock(&registry->lock);
    return st;
}

/* --- processes of their own --------------------------------------------------------------------------------- */

/* Where the code of a plugin lies that is to be isolated, and on whose word. */
typedef struct isolable {
    const char *path; /* of the file or package folder */
    rank rank;
    bool is_folder;
    cdz_opener opener; /* of the file, or of the package's entry */
} isolable;

static cdz_status open_isolated(cdz_registry *r, const char *path, const origin *from,
                                cdz_module **out, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_module_source source = {.path = path,
                                .origin = origins[from->rank],
                                .worker = cdz_locate_worker(&arena, r->builtin_dir),
                                .sha256 = from->manifest ? from->manifest->sha256 : NULL,
                                .pinned = from->pinned};
    char *canonical = realpath(path, NULL);
    cdz_status st = CDZ_OK;
    if (!canonical)
        st = cdz_err(err, CDZ_E_NOT_FOUND, "%s: %s", path, strerror(errno));
    else if (!source.worker)
        st = cdz_err(err, CDZ_E_UNSUPPORTED, "%s: isolation = process: no cadenza-worker", path);
    else if (from->rank != RANK_BUILTIN)
        st = cdz_trust_model_folder(canonical, true, false, err);
    if (st == CDZ_OK)
        st = cdz_isolated_open(&r->isolated, &source, canonical, from->manifest, out, err);
    free(canonical);
    cdz_arena_free(&arena);
    return st;
}

/* What a lock pins has to be what it pins here too; what none pins may run, being held in. */
static cdz_status isolate_package(cdz_registry *r, const isolable *what, cdz_module **out,
                                  cdz_error *err)
{
    cdz_manifest manifest;
    CDZ_TRY(cdz_manifest_read(what->path, &manifest, err));
    origin from = {.named = what->path, .rank = what->rank, .manifest = &manifest};
    cdz_status st = CDZ_OK;
    if (what->rank == RANK_PATH || what->rank == RANK_USER)
        st = cdz_trust_package(&r->trust, what->path, &manifest, false, &from.pinned, err);
    if (st == CDZ_OK) st = open_isolated(r, manifest.entry_path, &from, out, err);
    cdz_manifest_free(&manifest);
    return st;
}

static isolable isolable_at(cdz_registry *r, const char *path, rank at_rank)
{
    struct stat s;
    cdz_manifest manifest;
    isolable out = {.path = path, .rank = at_rank};
    out.is_folder = stat(path, &s) == 0 && S_ISDIR(s.st_mode);
    if (!out.is_folder) {
        (void)opener_of(r, path, &out.opener);
    } else if (cdz_manifest_read(path, &manifest, NULL) == CDZ_OK) {
        (void)opener_of(r, manifest.entry, &out.opener);
        cdz_manifest_free(&manifest);
    }
    return out;
}

/* Whether a package's manifest says this kind, or none was asked for. */
static bool says_kind(const char *folder, uint32_t kind)
{
    cdz_manifest manifest;
    if (kind == 0) return true;
    if (cdz_manifest_read(folder, &manifest, NULL) != CDZ_OK) return false;
    const bool same = manifest.kind == kind;
    cdz_manifest_free(&manifest);
    return same;
}

/* The first in discovery order; packages that were refused may be what is meant, now that they are held in. */
static bool find_isolable(cdz_registry *r, uint32_t kind, const char *id, isolable *out)
{
    for (size_t i = 0; i < r->n_entries; i++) {
        const entry *e = &r->entries[i];
        const bool meant = e->module ? plugin_of(e->module, kind, id) != NULL
                                     : e->id && strcmp(e->id, id) == 0 && says_kind(e->path, kind);
        if (!meant) continue;
        *out = isolable_at(r, e->path, e->rank);
        return true;
    }
    return false;
}

static cdz_status isolate(cdz_registry *r, uint32_t kind, const isolable *what, const char *id,
                          cdz_plugin_ref *out, cdz_error *err)
{
    cdz_module *module = NULL;
    const origin from = {.named = what->path, .rank = what->rank};
    if (r->safe_mode && what->rank != RANK_BUILTIN)
        return cdz_err(err, CDZ_E_DENIED, "%s: in safe mode only built-in plugins are loaded",
                       what->path);
    if (what->opener.loader)
        return cdz_err(err, CDZ_E_UNSUPPORTED, "%s: isolation = process is for %s", what->path,
                       what->opener.scripts
                           ? "native code; a script runs in the sandbox already"
                           : "shared objects; what a loader makes of a file runs here");
    if (what->is_folder)
        CDZ_TRY(isolate_package(r, what, &module, err));
    else
        CDZ_TRY(open_isolated(r, what->path, &from, &module, err));
    const cdz_plugin_base *base = plugin_of(module, kind, id);
    if (base) {
        *out = (cdz_plugin_ref){.base = base, .module = module};
        return CDZ_OK;
    }
    cdz_module_release(module);
    return cdz_err(err, CDZ_E_NOT_FOUND, "%s: holds no %s%s%s that isolation = process is for",
                   what->path, kind ? cdz_kind_name(kind) : "plugin", id ? " " : "", id ? id : "");
}

cdz_status cdz_registry_isolate(cdz_registry *registry, uint32_t kind, const char *what,
                                bool is_path, bool asked, cdz_plugin_ref *out, cdz_error *err)
{
    isolable found = {.path = what};
    cdz_status st = CDZ_OK;
    pthread_mutex_lock(&registry->lock);
    if (!is_path) st = scan_all(registry, err);
    if (is_path) found = isolable_at(registry, what, RANK_NAMED);
    if (st == CDZ_OK && !is_path && !find_isolable(registry, kind, what, &found))
        st = not_found(registry, kind, what, err);
    const bool here = !asked && (found.opener.loader || found.rank == RANK_BUILTIN);
    if (st == CDZ_OK && !here)
        st = isolate(registry, kind, &found, is_path ? NULL : what, out, err);
    pthread_mutex_unlock(&registry->lock);
    if (st != CDZ_OK || !here) return st;
    return is_path ? cdz_registry_load(registry, what, kind, out, err)
                   : cdz_registry_find(registry, kind, what, out, err);
}

/* --- reading again ---------------------------------------------------------------------------------------- */

/* What was refused may be better now. */
static void forget_refusals(cdz_registry *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->n_entries; i++)
        if (r->entries[i].module)
            r->entries[kept++] = r->entries[i];
        else
            clear_entry(&r->entries[i]);
    r->n_entries = kept;
}

/* A path the user named, as it was named: what is loaded of it may change its place in the list. */
static cdz_status load_again(cdz_registry *r, const char *named, cdz_error *err)
{
    cdz_error why = {0};
    cdz_module *module;
    char *path = strdup(named);
    if (!path) return cdz_err(err, CDZ_E_NOMEM, "plugins: out of memory");
    cdz_status st = CDZ_OK;
    if (load_path(r, path, &module, &why) != CDZ_OK)
        st = remember(r, path, RANK_NAMED, NULL, &why, err);
    free(path);
    return st;
}

static bool holds_loader(const cdz_module *module)
{
    for (uint32_t i = 0; i < cdz_module_count(module); i++)
        if (cdz_module_plugin(module, i)->kind == CDZ_KIND_LOADER) return true;
    return false;
}

static bool is_current(const cdz_registry *r, const entry *e)
{
    cdz_opener opener;
    return known_opener(r, e->file, &opener) &&
           cdz_module_is_current(e->module, e->file, opener.loader);
}

/* The named files that are loaders, or those that are not. */
static cdz_status load_named_again(cdz_registry *r, bool loaders, cdz_error *err)
{
    cdz_status st = CDZ_OK;
    for (size_t i = 0; st == CDZ_OK && i < r->n_entries; i++) {
        const entry *e = &r->entries[i];
        if (e->rank == RANK_NAMED && e->module && holds_loader(e->module) == loaders &&
            !is_current(r, e))
            st = load_again(r, e->path, err);
    }
    return st;
}

/* Loaders first: a new one opens its files anew. */
static cdz_status refresh(cdz_registry *r, cdz_error *err)
{
    const bool scanned = r->scanned, loaders_scanned = r->loaders_scanned;
    forget_refusals(r);
    cdz_trust_free(&r->trust);
    r->scanned = r->loaders_scanned = r->trust_read = false;
    CDZ_TRY(load_named_again(r, true, err));
    if (loaders_scanned) CDZ_TRY(scan_loaders(r, err));
    CDZ_TRY(load_named_again(r, false, err));
    return scanned ? scan_all(r, err) : CDZ_OK;
}

cdz_status cdz_registry_refresh(cdz_registry *registry, cdz_error *err)
{
    pthread_mutex_lock(&registry->lock);
    cdz_status st = refresh(registry, err);
    pthread_mutex_unlock(&registry->lock);
    return st;
}

static const cdz_error *newest_refused(const cdz_registry *r, const cdz_module *module)
{
    const entry *known = NULL;
    for (size_t i = 0; i < r->n_entries && !known; i++)
        if (r->entries[i].module == module) known = &r->entries[i];
    for (size_t i = 0; known && i < r->n_entries; i++) {
        const entry *e = &r->entries[i];
        if (e->problem && e->rank == known->rank && strcmp(e->path, known->path) == 0)
            return e->problem;
    }
    return NULL;
}

cdz_status cdz_registry_check_newest(cdz_registry *registry, const cdz_module *module,
                                     cdz_error *err)
{
    cdz_status st = CDZ_OK;
    pthread_mutex_lock(&registry->lock);
    const cdz_error *why = newest_refused(registry, module);
    if (why) st = cdz_err(err, why->code, "%s", why->text);
    pthread_mutex_unlock(&registry->lock);
    return st;
}

/* --- listing ---------------------------------------------------------------------------------------------- */

static size_t count_lines(const cdz_registry *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_entries; i++)
        n += r->entries[i].module ? cdz_module_count(r->entries[i].module) : 1;
    return n;
}

static void fill_line(const cdz_registry *r, const entry *e, uint32_t k, cdz_arena *arena,
                      cdz_plugin_line *out)
{
    cdz_plugin_ref first = {0};
    out->path = cdz_arena_strdup(arena, e->path);
    out->origin = origins[e->rank];
    if (e->rank == RANK_PATH || e->rank == RANK_USER)
        out->pin = e->pin ? cdz_arena_strdup(arena, e->pin) : "";
    if (e->problem) {
        out->problem = cdz_arena_strdup(arena, e->problem->text);
        return;
    }
    out->ref = (cdz_plugin_ref){.base = cdz_module_plugin(e->module, k), .module = e->module};
    cdz_module_retain(e->module);
    (void)find_known(r, out->ref.base->kind, out->ref.base->id, &first);
    if (first.base != out->ref.base)
        out->problem = cdz_arena_printf(arena, "shadowed by %s", cdz_module_path(first.module));
}

static cdz_plugin_line *take_lines(const cdz_registry *r, cdz_arena *arena, size_t *n)
{
    cdz_plugin_line *lines = cdz_arena_array(arena, count_lines(r) + 1, sizeof *lines);
    *n = 0;
    for (size_t i = 0; lines && i < r->n_entries; i++) {
        const entry *e = &r->entries[i];
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
    pthread_mutex_lock(&registry->lock);
    cdz_status st = scan_all(registry, err);
    if (st == CDZ_OK && !(lines = take_lines(registry, &arena, &n)))
        st = cdz_err(err, CDZ_E_NOMEM, "plugins: out of memory");
    pthread_mutex_unlock(&registry->lock);
    for (size_t i = 0; i < n; i++) {
        visit(user, &lines[i]);
        cdz_module_release(lines[i].ref.module);
    }
    cdz_arena_free(&arena);
    return st;
}
