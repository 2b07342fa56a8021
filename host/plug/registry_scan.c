/* registry_scan.c - directories of plugins: read once, in discovery order; what is refused there is remembered, with why.
 *
 * Loaders come first: a file of theirs may lie before them. A file that is refused ends no scan. Under the registry's lock. */
#include "plug/registry_state.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"

static bool refused_before(const cdz_registry *r, const char *path, cdz_rank at_rank)
{
    for (size_t i = 0; i < r->n_entries; i++)
        if (!r->entries[i].module && r->entries[i].rank == at_rank &&
            strcmp(r->entries[i].path, path) == 0)
            return true;
    return false;
}

/* Remembers why a file of a directory is not used. */
cdz_status cdz_registry_remember(cdz_registry *r, const char *path, cdz_rank at_rank,
                                 const char *id, const cdz_error *why, cdz_error *err)
{
    cdz_assert_holds(&r->lock);
    cdz_known e = {.rank = at_rank, .path = strdup(path), .problem = malloc(sizeof *why)};
    if (id) e.id = strdup(id);
    if (!e.path || !e.problem) {
        cdz_known_clear(&e);
        return cdz_err(err, CDZ_E_NOMEM, "plugins: out of memory");
    }
    *e.problem = *why;
    return cdz_registry_insert(r, e, err);
}

/* A package folder in a directory: what it is comes from plugin.ini, before any code. */
static cdz_status found_package(cdz_registry *r, const char *path, cdz_rank at_rank, char **id,
                                cdz_error *why)
{
    cdz_manifest manifest;
    cdz_module *module;
    CDZ_TRY(cdz_manifest_read(path, &manifest, why));
    *id = strdup(manifest.id);
    cdz_found from = {.named = path, .rank = at_rank, .manifest = &manifest};
    cdz_status st = CDZ_OK;
    if (r->loaders_only && manifest.kind != CDZ_KIND_LOADER) {
        cdz_manifest_free(&manifest);
        return CDZ_OK;
    }
    if (at_rank != CDZ_RANK_BUILTIN)
        st = cdz_trust_package(&r->trust, path, &manifest, &from.pinned, why);
    if (st == CDZ_OK) st = cdz_registry_load_file(r, manifest.entry_path, &from, &module, why);
    cdz_manifest_free(&manifest);
    return st;
}

static cdz_status found_file(cdz_registry *r, const char *path, cdz_rank at_rank, cdz_error *why)
{
    cdz_opener opener;
    cdz_module *module;
    const cdz_found from = {.named = path, .rank = at_rank};
    if (!cdz_registry_opener(r, path, &opener)) return CDZ_OK;
    return cdz_registry_load_file(r, path, &from, &module, why);
}

static cdz_status found(cdz_registry *r, const char *path, cdz_rank at_rank, cdz_error *err)
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
    if (st != CDZ_OK) st = cdz_registry_remember(r, path, at_rank, id, &why, err);
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
static cdz_status scan_directory(cdz_registry *r, const char *directory, cdz_rank at_rank,
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
                   : cdz_registry_remember(r, directory, at_rank, NULL, &why, err);
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
            CDZ_TRY(cdz_registry_remember(r, r->lock_paths[i], CDZ_RANK_PATH, NULL,
                                          &r->trust.broken[i], err));
    return CDZ_OK;
}

static cdz_status scan_path(cdz_registry *r, cdz_error *err)
{
    const char *rest = r->search_path;
    while (rest && *rest) {
        size_t n = strcspn(rest, ":");
        char *directory = strndup(rest, n);
        if (!directory) return cdz_err(err, CDZ_E_NOMEM, "plugins: out of memory");
        cdz_status st = n ? scan_directory(r, directory, CDZ_RANK_PATH, err) : CDZ_OK;
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
    return r->user_dir ? scan_directory(r, r->user_dir, CDZ_RANK_USER, err) : CDZ_OK;
}

static cdz_status scan_builtin(cdz_registry *r, cdz_error *err)
{
    return r->builtin_dir ? scan_directory(r, r->builtin_dir, CDZ_RANK_BUILTIN, err) : CDZ_OK;
}

/* The built-in ones first: their endings are taken when the others are looked at. */
cdz_status cdz_registry_scan_loaders(cdz_registry *r, cdz_error *err)
{
    cdz_assert_holds(&r->lock);
    if (r->loaders_scanned) return CDZ_OK;
    r->loaders_scanned = r->loaders_only = true;
    cdz_status st = scan_builtin(r, err);
    if (st == CDZ_OK) st = scan_users(r, err);
    r->loaders_only = false;
    r->loaders_scanned = st == CDZ_OK;
    return st;
}

cdz_status cdz_registry_scan_all(cdz_registry *r, cdz_error *err)
{
    cdz_assert_holds(&r->lock);
    if (r->scanned) return CDZ_OK;
    CDZ_TRY(cdz_registry_scan_loaders(r, err));
    CDZ_TRY(scan_users(r, err));
    CDZ_TRY(scan_builtin(r, err));
    r->scanned = true;
    return CDZ_OK;
}
