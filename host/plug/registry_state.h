/* registry_state.h - what a registry holds, and what its files share: registry.c (life, finding, listing), registry_open.c
 * (from a path to a module), registry_scan.c (directories), registry_isolate.c, registry_again.c. Private to them.
 *
 * All functions here are called under the registry's lock. */
#ifndef CDZ_HOST_PLUG_REGISTRY_STATE_H
#define CDZ_HOST_PLUG_REGISTRY_STATE_H

#include <pthread.h>

#include "base/arena.h"
#include "base/mutex.h"
#include "plug/isolated.h"
#include "plug/manifest.h"
#include "plug/module.h"
#include "plug/registry.h"

/* Discovery order. What a request named is found by nobody. */
typedef enum cdz_rank {
    CDZ_RANK_NAMED,
    CDZ_RANK_PATH,
    CDZ_RANK_USER,
    CDZ_RANK_BUILTIN,
    CDZ_RANK_REQUEST
} cdz_rank;

const char *cdz_rank_name(cdz_rank rank); /* "named by the user", ... */

/* A file: loaded, or refused. */
typedef struct cdz_known {
    cdz_rank rank;
    char *path;         /* as found or named: of the file, or of the package folder */
    char *file;         /* canonical path of what was loaded; NULL when refused or linked in */
    cdz_module *module; /* NULL: refused, problem says why */
    char *id;           /* refused packages: the id of plugin.ini; may be NULL */
    cdz_error *problem;
    const char *pin; /* the lock's path, the registry's; NULL: not pinned */
} cdz_known;

struct cdz_registry {
    cdz_mutex lock;
    cdz_arena arena; /* options */
    const char *builtin_dir, *search_path, *user_dir, *lock_paths[2];
    bool allow_model_plugins, safe_mode, trust_read;
    cdz_isolated isolated;
    bool loaders_scanned, scanned; /* of the directories: the packages that are loaders, and all */
    bool loaders_only;             /* the former are looked for now */
    cdz_trust trust;               /* read with the first directory */
    cdz_known *entries;
    size_t n_entries, cap;
};

/* What cdz_registry_load_file is to load, and on whose word. */
typedef struct cdz_found {
    const char *named; /* as found or named */
    cdz_rank rank;
    const cdz_manifest *manifest; /* of a package; NULL: a bare file */
    cdz_pinned pinned;
} cdz_found;

/* --- registry.c --- */
void cdz_known_clear(cdz_known *e);
/* Moves e to the end of its rank. Takes over what e points to, on failure too. */
cdz_status cdz_registry_insert(cdz_registry *r, cdz_known e, cdz_error *err);
/* The module's plugin of that kind (0: any) and id (NULL: any), or NULL. */
const cdz_plugin_base *cdz_module_find(const cdz_module *module, uint32_t kind, const char *id);
bool cdz_registry_find_known(const cdz_registry *r, uint32_t kind, const char *id,
                             cdz_plugin_ref *out);
/* The id that `id` stands for, all directories being known: itself, or the only one whose last part it is. */
cdz_status cdz_registry_full_id(const cdz_registry *r, uint32_t kind, const char **id,
                                cdz_error *err);
/* The sentence for an id that nobody has. */
cdz_status cdz_registry_not_found(const cdz_registry *r, uint32_t kind, const char *id,
                                  cdz_error *err);

/* --- registry_open.c --- */
/* Who opens files of this name; false: nobody who is known, or (opener) who is found. */
bool cdz_registry_known_opener(const cdz_registry *r, const char *path, cdz_opener *out);
bool cdz_registry_opener(cdz_registry *r, const char *path, cdz_opener *out);
/* Loads path at a rank and makes it known; *out is the registry's. */
cdz_status cdz_registry_load_file(cdz_registry *r, const char *path, const cdz_found *from,
                                  cdz_module **out, cdz_error *err);
/* The same for a file or folder that the user, or a request, named. */
cdz_status cdz_registry_load_path(cdz_registry *r, cdz_rank rank, const char *path,
                                  cdz_module **out, cdz_error *err);
/* Opens the file and decides on it. Close *fd, free *real. */
cdz_status cdz_registry_open_claimed(const cdz_registry *r, const char *path, const cdz_found *from,
                                     cdz_code code, int *fd, char **real, cdz_error *err);

/* --- registry_scan.c --- */
/* Remembers why a file is not used. id: of its plugin.ini, or NULL. */
cdz_status cdz_registry_remember(cdz_registry *r, const char *path, cdz_rank at_rank,
                                 const char *id, const cdz_error *why, cdz_error *err);
cdz_status cdz_registry_scan_loaders(cdz_registry *r, cdz_error *err);
cdz_status cdz_registry_scan_all(cdz_registry *r, cdz_error *err);

#endif
