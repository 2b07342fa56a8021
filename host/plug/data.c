/* data.c - see data.h. A file that is larger than plugins may have is known by name and size alone. */
#include "plug/data.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/sha256.h"
#include "plug/manifest.h"

static cdz_status compare(const cdz_call_file *file, const char *path, const cdz_pinned *pinned,
                          cdz_error *err)
{
    char found[CDZ_SHA256_HEX];
    if (!pinned->pin || !file->bytes) return CDZ_OK; /* not read: not used */
    const char *expected = cdz_pin_sha256(pinned->pin, file->name);
    if (!expected)
        return cdz_err(err, CDZ_E_DENIED, "%s: is not among the files that %s pins", path,
                       pinned->lock);
    cdz_sha256_hex(file->bytes, (size_t)file->len, found);
    if (strcasecmp(found, expected) == 0) return CDZ_OK;
    return cdz_trust_changed(path, found, expected, pinned->lock, err);
}

static cdz_status read_one(cdz_package_data *d, const char *name, const char *path, cdz_error *err)
{
    struct stat s;
    char *bytes = NULL;
    size_t len = 0;
    cdz_call_file *file = &d->at[d->files.n];
    file->name = cdz_arena_strdup(&d->arena, name);
    d->paths[d->files.n] = cdz_arena_strdup(&d->arena, path);
    if (!file->name || !d->paths[d->files.n]) return cdz_err_memory_in(err, path);
    if (stat(path, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > (off_t)CDZ_CALL_FILE_BYTES) {
        file->len = (uint64_t)s.st_size;
    } else {
        CDZ_TRY(cdz_file_read(path, CDZ_CALL_FILE_BYTES, &bytes, &len, err));
        file->bytes = bytes;
        file->len = len;
    }
    d->files.n++;
    return CDZ_OK;
}

static cdz_status read_listed(cdz_package_data *d, const cdz_manifest *m, const cdz_pinned *pinned,
                              cdz_error *err)
{
    d->manifest = cdz_arena_strdup(&d->arena, m->path);
    d->at = cdz_arena_array(&d->arena, m->n_files + 1, sizeof *d->at);
    d->paths = cdz_arena_array(&d->arena, m->n_files + 1, sizeof *d->paths);
    if (!d->manifest || !d->at || !d->paths) return cdz_err_memory_in(err, m->path);
    d->files.at = d->at;
    for (uint32_t i = 0; i < m->n_files; i++) {
        CDZ_TRY(read_one(d, m->files[i], m->file_paths[i], err));
        CDZ_TRY(compare(&d->at[i], m->file_paths[i], pinned, err));
    }
    return CDZ_OK;
}

/* A manifest that is about another file, or none, leaves the file alone. */
static cdz_status read_beside(const char *entry, const cdz_pinned *pinned, cdz_package_data *d,
                              cdz_error *err)
{
    const char *slash = strrchr(entry, '/'), *name = slash ? slash + 1 : entry;
    const char *folder = cdz_arena_strndup(&d->arena, slash ? entry : ".",
                                           slash && slash > entry ? (size_t)(slash - entry) : 1);
    cdz_manifest manifest = {0};
    cdz_error other = {0};
    cdz_status st = CDZ_OK;
    if (!folder) return cdz_err_memory_in(err, entry);
    if (cdz_manifest_present(folder) && cdz_manifest_read(folder, &manifest, &other) == CDZ_OK &&
        strcmp(manifest.entry, name) == 0)
        st = read_listed(d, &manifest, pinned, err);
    cdz_manifest_free(&manifest);
    return st;
}

cdz_status cdz_package_data_read(const char *entry, const cdz_pinned *pinned, cdz_package_data *out,
                                 cdz_error *err)
{
    *out = (cdz_package_data){0};
    const cdz_status st = read_beside(entry, pinned, out, err);
    if (st != CDZ_OK) cdz_package_data_free(out);
    return st;
}

void cdz_package_data_free(cdz_package_data *data)
{
    for (uint32_t i = 0; i < data->files.n; i++) free((void *)(uintptr_t)data->at[i].bytes);
    cdz_arena_free(&data->arena);
    *data = (cdz_package_data){0};
}

const char *cdz_package_data_path(const cdz_package_data *data, uint32_t i)
{
    if (!data->manifest || i > data->files.n) return NULL;
    return i == 0 ? data->manifest : data->paths[i - 1];
}
