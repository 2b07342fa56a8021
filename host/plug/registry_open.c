/* registry_open.c - from a path to a module: who opens the file, on whose word, and which endings a loader may take.
 *
 * Not: the rule (consent.h), opening (module.c). Invariant: no code of a file runs before its claim was granted, and an
 * ending belongs to one loader. Under the registry's lock. */
#include "plug/registry_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"

/* --- from a path to a module ------------------------------------------------------------------------------- */

/* What is behind the last dot of a path's last part; NULL: nothing. */
static const char *ending_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    return dot && dot > name && dot[1] ? dot + 1 : NULL;
}

static const cdz_known *taker_of(const cdz_registry *r, const char *ending, size_t n)
{
    for (size_t i = 0; i < r->n_entries; i++)
        if (r->entries[i].module && r->entries[i].rank != CDZ_RANK_REQUEST &&
            cdz_module_loader_of(r->entries[i].module, ending, n))
            return &r->entries[i];
    return NULL;
}

/* False: nobody who is known opens files of this name. */
bool cdz_registry_known_opener(const cdz_registry *r, const char *path, cdz_opener *out)
{
    cdz_assert_holds(&r->lock);
    const char *ending = ending_of(path);
    *out = (cdz_opener){0};
    if (!ending || strcmp(ending, "so") == 0) return ending != NULL;
    const cdz_known *by = taker_of(r, ending, strlen(ending));
    if (!by) return false;
    out->loader = cdz_module_loader_of(by->module, ending, strlen(ending));
    out->module = by->module;
    out->scripts = by->rank == CDZ_RANK_BUILTIN && (out->loader->caps & CDZ_SANDBOXES);
    return true;
}

bool cdz_registry_opener(cdz_registry *r, const char *path, cdz_opener *out)
{
    cdz_assert_holds(&r->lock);
    if (cdz_registry_known_opener(r, path, out)) return true;
    return cdz_registry_scan_loaders(r, NULL) == CDZ_OK && cdz_registry_known_opener(r, path, out);
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

/* --- loaders ------------------------------------------------------------------------------------------------ */

/* Whether one more loader may take this ending. One shadows another of its id, but none a built-in one. file: the
 * loader's own; it may be named and built-in at once. */
static cdz_status check_ending(const cdz_registry *r, const cdz_found *from, const char *file,
                               const char *id, const char *ending, size_t n, cdz_error *err)
{
    const cdz_known *by = taker_of(r, ending, n);
    if (!by || (by->file && strcmp(by->file, file) == 0)) return CDZ_OK;
    const cdz_loader *other = cdz_module_loader_of(by->module, ending, n);
    const bool builtin = by->rank == CDZ_RANK_BUILTIN;
    if (strcmp(other->base.id, id) == 0 && (!builtin || from->rank == CDZ_RANK_BUILTIN))
        return CDZ_OK;
    return cdz_err(err, CDZ_E_DENIED,
                   "%s: the loader %s takes .%.*s files, but they belong to the %sloader %s (%s)",
                   from->named, id, (int)n, ending, builtin ? "built-in " : "", other->base.id,
                   by->path);
}

static cdz_status check_endings(const cdz_registry *r, const cdz_found *from, const char *file,
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
static cdz_status check_loaders(cdz_registry *r, const cdz_found *from, const char *file,
                                const cdz_module *module, cdz_error *err)
{
    for (uint32_t i = 0; i < cdz_module_count(module); i++) {
        const cdz_plugin_base *base = cdz_module_plugin(module, i);
        if (base->kind != CDZ_KIND_LOADER) continue;
        if (from->rank == CDZ_RANK_NAMED) CDZ_TRY(cdz_registry_scan_loaders(r, err));
        CDZ_TRY(check_endings(r, from, file, (const cdz_loader *)(const void *)base, err));
    }
    return CDZ_OK;
}

bool cdz_registry_takes(cdz_registry *registry, const char *ending, size_t n)
{
    cdz_mutex_lock(&registry->lock);
    bool takes = taker_of(registry, ending, n) != NULL;
    if (!takes)
        takes = cdz_registry_scan_loaders(registry, NULL) == CDZ_OK && taker_of(registry, ending, n);
    cdz_mutex_unlock(&registry->lock);
    return takes;
}

/* --- opening ---------------------------------------------------------------------- */

static cdz_known *entry_of_file(cdz_registry *r, const char *file, cdz_rank at_rank)
{
    for (size_t i = 0; i < r->n_entries; i++)
        if (r->entries[i].rank == at_rank && r->entries[i].file &&
            strcmp(r->entries[i].file, file) == 0) /* NOLINT(clang-analyzer-core.*) */
            return &r->entries[i];
    return NULL;
}

/* An unchanged file is loaded once, whoever asks. */
static cdz_module *module_of_file(const cdz_registry *r, const char *file, const cdz_loader *loader)
{
    for (size_t i = 0; i < r->n_entries; i++) {
        const cdz_known *e = &r->entries[i];
        if (e->file && strcmp(e->file, file) == 0 && cdz_module_is_current(e->module, file, loader))
            return e->module;
    }
    return NULL;
}

/* What the user has named already needs no other word. */
static cdz_namer namer_of(const cdz_registry *r, const char *real, const cdz_found *from)
{
    switch (from->rank) {
    case CDZ_RANK_BUILTIN: return CDZ_BY_PROGRAM;
    case CDZ_RANK_NAMED: return CDZ_BY_USER;
    case CDZ_RANK_REQUEST: break;
    default: return from->pinned.lock ? CDZ_BY_LOCK : CDZ_BY_NOBODY;
    }
    for (size_t i = 0; i < r->n_entries; i++)
        if (r->entries[i].rank == CDZ_RANK_NAMED && r->entries[i].file &&
            strcmp(r->entries[i].file, real) == 0)
            return CDZ_BY_USER;
    return CDZ_BY_REQUEST;
}

cdz_status cdz_registry_open_claimed(const cdz_registry *r, const char *path, const cdz_found *from,
                                     cdz_code code, int *fd, char **real, cdz_error *err)
{
    cdz_assert_holds(&r->lock);
    CDZ_TRY(cdz_file_open(path, fd, real, err));
    const cdz_claim claim = {.path = path,
                             .real = *real,
                             .package = from->manifest ? from->named : NULL,
                             .by = namer_of(r, *real, from),
                             .code = code,
                             .allow_model_plugins = r->allow_model_plugins};
    const cdz_status st = cdz_consent(&claim, err);
    if (st == CDZ_OK) return CDZ_OK;
    free(*real);
    close(*fd);
    return st;
}

/* Takes the module that is open already; a package's promises are checked either way. */
static cdz_status open_module(const cdz_registry *r, const cdz_module_source *source,
                              const char *canonical, cdz_module **out, cdz_error *err)
{
    cdz_module *module = module_of_file(r, canonical, source->opener.loader);
    if (!module) return cdz_module_open(source, out, err);
    CDZ_TRY(cdz_module_check_hash(source, err));
    cdz_module_retain(module);
    *out = module;
    return CDZ_OK;
}

/* Whoever named it. */
static bool is_builtin(const cdz_registry *r, const char *canonical)
{
    char *folder = r->builtin_dir ? realpath(r->builtin_dir, NULL) : NULL;
    const size_t n = folder ? strlen(folder) : 0;
    const bool within = folder && strncmp(canonical, folder, n) == 0 && canonical[n] == '/';
    free(folder);
    return within;
}

/* Ids without a dot are parameters' names, and what stands for a parameter is the program's. */
static cdz_status check_ids(const cdz_registry *r, const cdz_found *from, const char *canonical,
                            const cdz_module *module, cdz_error *err)
{
    if (from->rank == CDZ_RANK_BUILTIN || is_builtin(r, canonical)) return CDZ_OK;
    for (uint32_t i = 0; i < cdz_module_count(module); i++) {
        const char *id = cdz_module_plugin(module, i)->id;
        if (!strchr(id, '.'))
            return cdz_err(err, CDZ_E_PLUGIN,
                           "%s: its id '%s' has no dot: such ids are the built-in plugins'; call it "
                           "org.example.%s or the like",
                           from->named, id, id);
    }
    return CDZ_OK;
}

/* Opens a regular file; *canonical is then where it lies (free it). */
static cdz_status open_file(cdz_registry *r, const char *path, const cdz_found *from,
                            char **canonical, cdz_module **out, cdz_error *err)
{
    const cdz_manifest *manifest = from->manifest;
    cdz_module *module = NULL;
    cdz_module_source source = {.path = path,
                                .origin = cdz_rank_name(from->rank),
                                .sha256 = manifest ? manifest->sha256 : NULL,
                                .pinned = from->pinned};
    if (!cdz_registry_opener(r, path, &source.opener)) return unknown_file(r, path, err);
    const cdz_code code = source.opener.scripts ? CDZ_CODE_SCRIPT : CDZ_CODE_NATIVE;
    CDZ_TRY(cdz_registry_open_claimed(r, path, from, code, &source.fd, canonical, err));
    cdz_status st = open_module(r, &source, *canonical, &module, err);
    close(source.fd);
    if (st == CDZ_OK && manifest)
        st = cdz_manifest_match(manifest, cdz_module_plugin(module, 0), cdz_module_count(module),
                                err);
    if (st == CDZ_OK) st = check_ids(r, from, *canonical, module, err);
    if (st == CDZ_OK) st = check_loaders(r, from, *canonical, module, err);
    if (st == CDZ_OK) {
        *out = module;
        return CDZ_OK;
    }
    cdz_module_release(module);
    free(*canonical);
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
cdz_status cdz_registry_load_file(cdz_registry *r, const char *path, const cdz_found *from,
                                  cdz_module **out, cdz_error *err)
{
    cdz_assert_holds(&r->lock);
    char *canonical = NULL;
    cdz_module *module = NULL;
    CDZ_TRY(open_file(r, path, from, &canonical, &module, err));
    *out = module;
    cdz_known *old = entry_of_file(r, canonical, from->rank);
    if (old) {
        cdz_module_release(old->module);
        old->module = module;
        old->pin = pin_of(r, &from->pinned);
        free(canonical);
        return CDZ_OK;
    }
    cdz_known e = {.rank = from->rank,
                   .path = strdup(from->named),
                   .file = canonical,
                   .module = module,
                   .pin = pin_of(r, &from->pinned)};
    if (!e.path) {
        cdz_known_clear(&e);
        return cdz_err_memory_in(err, from->named);
    }
    return cdz_registry_insert(r, e, err);
}

/* A package that was named. A model's folder stands for the package in it. */
static cdz_status load_package(cdz_registry *r, cdz_rank rank, const char *folder, cdz_module **out,
                               cdz_error *err)
{
    cdz_manifest manifest;
    cdz_arena arena = {0};
    const char *inner = cdz_arena_printf(&arena, "%s/" CDZ_CUSTOM_GENERATE, folder);
    cdz_status st = inner ? CDZ_OK : cdz_err_memory_in(err, folder);
    if (st == CDZ_OK && !cdz_manifest_present(folder) && cdz_manifest_present(inner))
        folder = inner;
    if (st == CDZ_OK) st = cdz_manifest_read(folder, &manifest, err);
    if (st == CDZ_OK) {
        const cdz_found from = {.named = folder, .rank = rank, .manifest = &manifest};
        st = cdz_registry_load_file(r, manifest.entry_path, &from, out, err);
        cdz_manifest_free(&manifest);
    }
    cdz_arena_free(&arena);
    return st;
}

cdz_status cdz_registry_load_path(cdz_registry *r, cdz_rank rank, const char *path,
                                  cdz_module **out, cdz_error *err)
{
    cdz_assert_holds(&r->lock);
    struct stat s;
    if (r->safe_mode)
        return cdz_err(err, CDZ_E_DENIED, "%s: in safe mode only built-in plugins are loaded", path);
    if (stat(path, &s) != 0)
        return cdz_err(err, CDZ_E_NOT_FOUND, "%s: %s", path,
                       errno == ENOENT ? "no such plugin file or folder" : strerror(errno));
    if (S_ISDIR(s.st_mode)) return load_package(r, rank, path, out, err);
    if (!S_ISREG(s.st_mode)) return cdz_err(err, CDZ_E_INPUT, "%s: not a regular file", path);
    const cdz_found from = {.named = path, .rank = rank};
    return cdz_registry_load_file(r, path, &from, out, err);
}
