/* package.c - packages read whole, written elsewhere, taken away again.
 *
 * Owns: the bytes of all files, from reading to the last use. Invariant: what is pinned, shown and written are these bytes; a
 * package is in its place whole or not at all; of a user's folder nothing is deleted but files that are as a pin says. */
#include "plug/package.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/write.h"
#include "plug/lock_write.h"

/* --- reading ------------------------------------------------------------------------------------------------ */

static cdz_status read_file(cdz_package *p, const char *name, const char *path, cdz_error *err)
{
    if (!cdz_lock_file_ok(name))
        return cdz_err(err, CDZ_E_INPUT, "%s: '%s' cannot be pinned by that name", p->manifest.path,
                       name);
    cdz_package_file *f = &p->files[p->n_files];
    CDZ_TRY(cdz_file_read(path, CDZ_PACKAGE_FILE_BYTES, &f->bytes, &f->len, err));
    p->n_files++;
    f->name = name;
    cdz_sha256_hex(f->bytes, f->len, f->sha256);
    return CDZ_OK;
}

_Static_assert(CDZ_MANIFEST_FILES + 2 <= CDZ_LOCK_FILES, "a pin has room for a package's files");

/* A manifest may name a file twice, or itself. */
static bool holds(const cdz_package *p, const char *name)
{
    for (uint32_t i = 0; i < p->n_files; i++)
        if (strcmp(p->files[i].name, name) == 0) return true;
    return false;
}

static cdz_status read_all(const char *folder, cdz_package *p, cdz_error *err)
{
    cdz_manifest *m = &p->manifest;
    CDZ_TRY(cdz_manifest_read(folder, m, err));
    CDZ_TRY(read_file(p, CDZ_MANIFEST_FILE, m->path, err));
    if (strcmp(p->files[0].sha256, m->digest) != 0)
        return cdz_err(err, CDZ_E_IO, "%s: changed while it was read; try again", m->path);
    CDZ_TRY(read_file(p, m->entry, m->entry_path, err));
    if (m->sha256 && strcasecmp(m->sha256, p->files[1].sha256) != 0)
        return cdz_err(err, CDZ_E_DENIED, "%s: its sha256 is %s, plugin.ini pins %s", m->entry_path,
                       p->files[1].sha256, m->sha256);
    for (uint32_t i = 0; i < m->n_files; i++)
        if (!holds(p, m->files[i])) CDZ_TRY(read_file(p, m->files[i], m->file_paths[i], err));
    return CDZ_OK;
}

cdz_status cdz_package_read(const char *folder, cdz_package *out, cdz_error *err)
{
    *out = (cdz_package){0};
    cdz_status st = read_all(folder, out, err);
    if (st != CDZ_OK) cdz_package_free(out);
    return st;
}

void cdz_package_free(cdz_package *package)
{
    if (!package) return;
    for (uint32_t i = 0; i < package->n_files; i++) free(package->files[i].bytes);
    cdz_manifest_free(&package->manifest);
    *package = (cdz_package){0};
}

cdz_pin cdz_package_pin(const cdz_package *package, cdz_pin_file *files)
{
    for (uint32_t i = 0; i < package->n_files; i++)
        files[i] = (cdz_pin_file){package->files[i].name, package->files[i].sha256};
    return (cdz_pin){.id = package->manifest.id,
                     .version = package->manifest.version,
                     .kind = package->manifest.kind,
                     .files = files,
                     .n_files = package->n_files};
}

bool cdz_package_matches(const cdz_package *package, const cdz_pin *pin)
{
    if (pin->n_files != package->n_files) return false;
    for (uint32_t i = 0; i < package->n_files; i++) {
        const char *sha256 = cdz_pin_sha256(pin, package->files[i].name);
        if (!sha256 || strcasecmp(sha256, package->files[i].sha256) != 0) return false;
    }
    return true;
}

/* --- writing ------------------------------------------------------------------------------------------------ */

static cdz_status write_files(const cdz_package *package, const char *path, cdz_error *err)
{
    cdz_status st = CDZ_OK;
    for (uint32_t i = 0; st == CDZ_OK && i < package->n_files; i++) {
        const cdz_package_file *f = &package->files[i];
        cdz_arena arena = {0};
        const char *at = cdz_arena_printf(&arena, "%s/%s", path, f->name);
        st = at ? cdz_write_whole(at, f->bytes, f->len, CDZ_WRITE_NEW | CDZ_WRITE_SYNC, err)
                : cdz_err_memory_in(err, path);
        cdz_arena_free(&arena);
    }
    return st;
}

cdz_status cdz_package_stage(const cdz_package *package, const char *parent, cdz_arena *arena,
                             char **staged, cdz_error *err)
{
    char *path = cdz_arena_printf(arena, "%s/.new-XXXXXX", parent);
    char *folders = cdz_arena_strdup(arena, parent);
    if (!path || !folders) return cdz_err_memory_in(err, parent);
    if (!cdz_write_folders(folders, 0700) || !mkdtemp(path))
        return cdz_err(err, CDZ_E_IO, "%s: %s", parent, strerror(errno));
    cdz_status st = write_files(package, path, err);
    if (st == CDZ_OK)
        *staged = path;
    else
        cdz_package_unstage(path);
    return st;
}

/* --- taking away -------------------------------------------------------------------------------------------- */

/* Calls take with each name of the folder until it says false; false then, and for a folder that cannot be read. */
static bool each_name(const char *path, bool (*take)(void *user, int folder, const char *name),
                      void *user)
{
    DIR *dir = opendir(path);
    if (!dir) return false;
    bool go_on = true;
    for (struct dirent *d; go_on && (d = readdir(dir)) != NULL;)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            go_on = take(user, dirfd(dir), d->d_name);
    closedir(dir);
    return go_on;
}

static bool unlink_name(void *user, int folder, const char *name)
{
    (void)user;
    (void)unlinkat(folder, name, 0);
    return true;
}

void cdz_package_unstage(const char *staged)
{
    if (!staged) return;
    (void)each_name(staged, unlink_name, NULL);
    (void)rmdir(staged);
}

typedef struct known {
    const cdz_package *package;
    const cdz_pin *old;
    char stranger[256];
} known;

static bool is_known(void *user, int folder, const char *name)
{
    known *k = user;
    (void)folder;
    if (k->old && cdz_pin_sha256(k->old, name)) return true;
    for (uint32_t i = 0; i < k->package->n_files; i++)
        if (strcmp(k->package->files[i].name, name) == 0) return true;
    snprintf(k->stranger, sizeof k->stranger, "%s", name);
    return false;
}

/* The old folder goes aside under a hidden name, so that there is always one that is whole. */
static cdz_status replace(const char *staged, const char *target, const char *aside, cdz_error *err)
{
    const bool replaces = rename(target, aside) == 0;
    if (!replaces && errno != ENOENT)
        return cdz_err(err, CDZ_E_IO, "%s: %s", target, strerror(errno));
    if (rename(staged, target) != 0) {
        cdz_status st = cdz_err(err, CDZ_E_IO, "%s: %s", target, strerror(errno));
        if (replaces) (void)rename(aside, target);
        return st;
    }
    if (replaces) cdz_package_unstage(aside);
    return CDZ_OK;
}

cdz_status cdz_package_install(const cdz_package *package, const char *staged, const char *parent,
                               const cdz_pin *old, cdz_error *err)
{
    cdz_arena arena = {0};
    known k = {.package = package, .old = old};
    struct stat s;
    cdz_status st = CDZ_OK;
    const char *target = cdz_arena_printf(&arena, "%s/%s", parent, package->manifest.id);
    const char *aside = cdz_arena_printf(&arena, "%s-old", staged);
    if (!target || !aside)
        st = cdz_err_memory_in(err, parent);
    else if (lstat(target, &s) == 0 && !S_ISDIR(s.st_mode))
        st = cdz_err(err, CDZ_E_STATE, "%s: exists and is not a folder; move it away first", target);
    else if (lstat(target, &s) == 0 && !each_name(target, is_known, &k))
        st = cdz_err(err, CDZ_E_STATE, "%s: holds %s, which is not pinned; move it away first",
                     target, k.stranger);
    if (st == CDZ_OK) st = replace(staged, target, aside, err);
    cdz_arena_free(&arena);
    return st;
}

typedef struct deletion {
    const char *folder;
    const cdz_pin *pin;
} deletion;

static bool delete_pinned(void *user, int folder, const char *name)
{
    const deletion *d = user;
    const char *sha256 = cdz_pin_sha256(d->pin, name);
    char found[CDZ_SHA256_HEX], *bytes = NULL;
    size_t len = 0;
    cdz_arena arena = {0};
    const char *path = cdz_arena_printf(&arena, "%s/%s", d->folder, name);
    if (sha256 && path && cdz_file_read(path, CDZ_PACKAGE_FILE_BYTES, &bytes, &len, NULL) == CDZ_OK) {
        cdz_sha256_hex(bytes, len, found);
        if (strcasecmp(found, sha256) == 0) (void)unlinkat(folder, name, 0);
    }
    free(bytes);
    cdz_arena_free(&arena);
    return true;
}

void cdz_package_delete(const char *folder, const cdz_pin *pin, bool *gone)
{
    deletion d = {folder, pin};
    (void)each_name(folder, delete_pinned, &d);
    *gone = rmdir(folder) == 0;
}
