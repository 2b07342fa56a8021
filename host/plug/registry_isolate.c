/* registry_isolate.c - plugins for a process of their own: what may be one, found or named, pinned or not. */
#include "plug/registry_state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plug/locate.h"

/* Where the code of a plugin lies that is to be isolated, and on whose word. */
typedef struct isolable {
    const char *path; /* of the file or package folder */
    cdz_rank rank;
    bool is_folder;
    cdz_opener opener; /* of the file, or of the package's entry */
} isolable;

static cdz_status open_isolated(cdz_registry *r, const char *path, const cdz_found *from,
                                cdz_module **out, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_module_source source = {.path = path,
                                .origin = cdz_rank_name(from->rank),
                                .worker = cdz_locate_worker(&arena, r->builtin_dir),
                                .sha256 = from->manifest ? from->manifest->sha256 : NULL,
                                .pinned = from->pinned};
    char *canonical = NULL;
    cdz_status st = CDZ_OK;
    if (!source.worker)
        st = cdz_err(err, CDZ_E_UNSUPPORTED, "%s: isolation = process: no cadenza-worker", path);
    else
        st = cdz_registry_open_claimed(r, path, from, CDZ_CODE_ISOLATED, &source.fd, &canonical,
                                       err);
    if (st == CDZ_OK) {
        st = cdz_isolated_open(&r->isolated, &source, canonical, from->manifest, out, err);
        close(source.fd);
        free(canonical);
    }
    cdz_arena_free(&arena);
    return st;
}

/* What a lock pins has to be what it pins here too; what none pins may run, being held in. */
static cdz_status isolate_package(cdz_registry *r, const isolable *what, cdz_module **out,
                                  cdz_error *err)
{
    cdz_manifest manifest;
    CDZ_TRY(cdz_manifest_read(what->path, &manifest, err));
    cdz_found from = {.named = what->path, .rank = what->rank, .manifest = &manifest};
    cdz_status st = CDZ_OK;
    if (what->rank == CDZ_RANK_PATH || what->rank == CDZ_RANK_USER)
        st = cdz_trust_package(&r->trust, what->path, &manifest, &from.pinned, err);
    if (st == CDZ_OK) st = open_isolated(r, manifest.entry_path, &from, out, err);
    cdz_manifest_free(&manifest);
    return st;
}

static isolable isolable_at(cdz_registry *r, const char *path, cdz_rank at_rank)
{
    struct stat s;
    cdz_manifest manifest;
    isolable out = {.path = path, .rank = at_rank};
    out.is_folder = stat(path, &s) == 0 && S_ISDIR(s.st_mode);
    if (!out.is_folder) {
        (void)cdz_registry_opener(r, path, &out.opener);
    } else if (cdz_manifest_read(path, &manifest, NULL) == CDZ_OK) {
        (void)cdz_registry_opener(r, manifest.entry, &out.opener);
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
        const cdz_known *e = &r->entries[i];
        const bool meant = e->module ? cdz_module_find(e->module, kind, id) != NULL
                                     : e->id && strcmp(e->id, id) == 0 && says_kind(e->path, kind);
        if (!meant || e->rank == CDZ_RANK_REQUEST) continue;
        *out = isolable_at(r, e->path, e->rank);
        return true;
    }
    return false;
}

static cdz_status look_up(cdz_registry *r, uint32_t kind, const char **id, isolable *out,
                          cdz_error *err)
{
    if (find_isolable(r, kind, *id, out)) return CDZ_OK;
    CDZ_TRY(cdz_registry_full_id(r, kind, id, err));
    if (find_isolable(r, kind, *id, out)) return CDZ_OK;
    return cdz_registry_not_found(r, kind, *id, err);
}

static cdz_status isolate(cdz_registry *r, uint32_t kind, const isolable *what, const char *id,
                          cdz_plugin_ref *out, cdz_error *err)
{
    cdz_module *module = NULL;
    const cdz_found from = {.named = what->path, .rank = what->rank};
    if (r->safe_mode && what->rank != CDZ_RANK_BUILTIN)
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
    const cdz_plugin_base *base = cdz_module_find(module, kind, id);
    if (base) {
        *out = (cdz_plugin_ref){.base = base, .module = module};
        return CDZ_OK;
    }
    cdz_module_release(module);
    return cdz_err(err, CDZ_E_NOT_FOUND, "%s: holds no %s%s%s that isolation = process is for",
                   what->path, kind ? cdz_kind_name(kind) : "plugin", id ? " " : "", id ? id : "");
}

cdz_status cdz_registry_isolate(cdz_registry *registry, cdz_namer by, uint32_t kind,
                                const char *what, bool is_path, bool asked, cdz_plugin_ref *out,
                                cdz_error *err)
{
    const cdz_rank rank = by == CDZ_BY_USER ? CDZ_RANK_NAMED : CDZ_RANK_REQUEST;
    isolable found = {.path = what};
    cdz_status st = CDZ_OK;
    cdz_mutex_lock(&registry->lock);
    if (!is_path) st = cdz_registry_scan_all(registry, err);
    if (is_path) found = isolable_at(registry, what, rank);
    if (st == CDZ_OK && !is_path) st = look_up(registry, kind, &what, &found, err);
    const bool here = !asked && (found.opener.loader || found.rank == CDZ_RANK_BUILTIN);
    if (st == CDZ_OK && !here)
        st = isolate(registry, kind, &found, is_path ? NULL : what, out, err);
    cdz_mutex_unlock(&registry->lock);
    if (st != CDZ_OK || !here) return st;
    return is_path ? cdz_registry_load_for(registry, by, what, kind, out, err)
                   : cdz_registry_find(registry, kind, what, out, err);
}
