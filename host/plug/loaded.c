/* loaded.c - reading for loaders, and their open and close.
 *
 * Owns: the bytes, until the loader has started, and the arena that it takes from, until it is closed. Not: which loader
 * (registry_open.c). Invariant: bytes are read once, so what was compared with a pin is what the loader sees. */
#include "plug/loaded.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "call/outside.h"

#define MAX_BYTES (256u << 20) /* of a file whose loader sets no limit of its own */

struct cdz_loaded {
    const cdz_loader *loader;
    cdz_arena arena; /* paths; what the loader took */
    const char *manifest;
    cdz_plugin_file file, *more; /* (file.n_files) */
    char *bytes, **more_bytes;   /* until start returns */
    cdz_opened opened;
    bool is_open;
};

/* --- reading ------------------------------------------------------------------------------------------------ */

static size_t limit_of(const cdz_loader *loader)
{
    return loader->max_bytes > 0 && loader->max_bytes < MAX_BYTES ? loader->max_bytes : MAX_BYTES;
}

static bool describe(cdz_loaded *l, const char *path, cdz_plugin_file *out)
{
    const char *kept = cdz_arena_strdup(&l->arena, path), *slash = kept ? strrchr(kept, '/') : NULL;
    *out = (cdz_plugin_file){
        .size = sizeof *out, .path = kept, .name = slash ? slash + 1 : kept, .bytes = NULL};
    return kept != NULL;
}

static cdz_status read_bytes(const char *path, size_t limit, cdz_plugin_file *file, char **bytes,
                             cdz_error *err)
{
    size_t len = 0;
    CDZ_TRY(cdz_file_read(path, limit, bytes, &len, err));
    file->bytes = *bytes;
    file->len = len;
    return CDZ_OK;
}

/* A further file may be larger than what the loader wants to see: it may not be for the loader at all. */
static cdz_status read_more(cdz_loaded *l, const char *path, uint32_t i, cdz_error *err)
{
    struct stat s;
    const size_t limit = limit_of(l->loader);
    if (!describe(l, path, &l->more[i])) return cdz_err_memory_in(err, path);
    if (stat(path, &s) == 0 && S_ISREG(s.st_mode) && (uint64_t)s.st_size > limit) {
        l->more[i].len = (uint64_t)s.st_size;
        return CDZ_OK;
    }
    return read_bytes(path, limit, &l->more[i], &l->more_bytes[i], err);
}

static cdz_status read_listed(cdz_loaded *l, const cdz_manifest *m, cdz_error *err)
{
    const cdz_plugin_file **list = cdz_arena_array(&l->arena, m->n_files + 1, sizeof *list);
    l->manifest = cdz_arena_strdup(&l->arena, m->path);
    l->more = cdz_arena_array(&l->arena, m->n_files + 1, sizeof *l->more);
    l->more_bytes = cdz_arena_array(&l->arena, m->n_files + 1, sizeof *l->more_bytes);
    if (!list || !l->manifest || !l->more || !l->more_bytes) return cdz_err_memory_in(err, m->path);
    l->file.files = list;
    for (uint32_t i = 0; i < m->n_files; i++) {
        l->file.n_files = i + 1; /* counted first: its bytes are freed however this ends */
        list[i] = &l->more[i];
        CDZ_TRY(read_more(l, m->file_paths[i], i, err));
    }
    return CDZ_OK;
}

/* A manifest that is about another file, or none, leaves the file alone. */
static cdz_status read_package(cdz_loaded *l, const char *path, cdz_error *err)
{
    const char *slash = strrchr(path, '/');
    const char *folder = cdz_arena_strndup(&l->arena, slash ? path : ".",
                                           slash && slash > path ? (size_t)(slash - path) : 1);
    cdz_manifest manifest = {0};
    cdz_error other = {0};
    cdz_status st = CDZ_OK;
    if (!folder) return cdz_err_memory_in(err, path);
    if (cdz_manifest_present(folder) && cdz_manifest_read(folder, &manifest, &other) == CDZ_OK &&
        strcmp(manifest.entry, l->file.name) == 0)
        st = read_listed(l, &manifest, err);
    cdz_manifest_free(&manifest);
    return st;
}

static cdz_status read_entry(cdz_loaded *l, const char *path, int fd, cdz_error *err)
{
    size_t len = 0;
    if (!describe(l, path, &l->file)) return cdz_err_memory_in(err, path);
    CDZ_TRY(cdz_file_read_fd(fd, path, limit_of(l->loader), &l->bytes, &len, err));
    l->file.bytes = l->bytes;
    l->file.len = len;
    return CDZ_OK;
}

cdz_status cdz_loaded_read(const cdz_loader *loader, const char *path, int fd, cdz_loaded **out,
                           cdz_error *err)
{
    cdz_loaded *l = calloc(1, sizeof *l);
    if (!l) return cdz_err_memory_in(err, path);
    l->loader = loader;
    cdz_status st = read_entry(l, path, fd, err);
    if (st == CDZ_OK) st = read_package(l, path, err);
    if (st == CDZ_OK)
        *out = l;
    else
        cdz_loaded_close(l);
    return st;
}

const cdz_plugin_file *cdz_loaded_source(const cdz_loaded *loaded)
{
    return &loaded->file;
}

/* --- opening ------------------------------------------------------------------------------------------------ */

static void drop_bytes(cdz_loaded *l)
{
    for (uint32_t i = 0; i < l->file.n_files; i++) {
        free(l->more_bytes[i]);
        l->more_bytes[i] = NULL;
        l->more[i].bytes = NULL;
    }
    free(l->bytes);
    l->bytes = NULL;
    l->file.bytes = NULL;
}

static cdz_status check_opened(const cdz_loaded *l, cdz_error *err)
{
    const char *path = l->file.path;
    if (l->opened.n_plugins == 0 || l->opened.n_plugins > CDZ_MAX_PLUGINS)
        return cdz_err(err, CDZ_E_PLUGIN, "%s: defines %u plugins; expected 1 to %u", path,
                       l->opened.n_plugins, CDZ_MAX_PLUGINS);
    if (l->opened.plugins) return CDZ_OK;
    return cdz_err(err, CDZ_E_PLUGIN, "%s: the loader %s gave no list of its %u plugins", path,
                   l->loader->base.id, l->opened.n_plugins);
}

cdz_status cdz_loaded_start(cdz_loaded *loaded, cdz_error *err)
{
    cdz_status st =
        cdz_call_open_file(loaded->loader, &loaded->file, &loaded->arena, &loaded->opened, err);
    loaded->is_open = st == CDZ_OK;
    drop_bytes(loaded);
    return st == CDZ_OK ? check_opened(loaded, err) : st;
}

cdz_status cdz_loaded_open(const cdz_loader *loader, const char *path, cdz_loaded **out,
                           cdz_error *err)
{
    cdz_loaded *l = NULL;
    char *real = NULL;
    int fd;
    CDZ_TRY(cdz_file_open(path, &fd, &real, err));
    cdz_status st = cdz_loaded_read(loader, path, fd, &l, err);
    free(real);
    close(fd);
    if (st != CDZ_OK) return st;
    st = cdz_loaded_start(l, err);
    if (st == CDZ_OK)
        *out = l;
    else
        cdz_loaded_close(l);
    return st;
}

void cdz_loaded_close(cdz_loaded *loaded)
{
    if (!loaded) return;
    if (loaded->is_open) cdz_call_close_file(loaded->loader, &loaded->opened, &loaded->arena);
    drop_bytes(loaded);
    cdz_arena_free(&loaded->arena);
    free(loaded);
}

const cdz_plugin_base *const *cdz_loaded_plugins(const cdz_loaded *loaded, uint32_t *n)
{
    *n = loaded->opened.n_plugins;
    return loaded->opened.plugins;
}

const char *cdz_loaded_file(const cdz_loaded *loaded, uint32_t i)
{
    if (!loaded->manifest || i > loaded->file.n_files) return NULL;
    return i == 0 ? loaded->manifest : loaded->more[i - 1].path;
}
