/* module.c - opening a file, adopting its descriptors, unloading it with the last reference.
 *
 * Owns: the file's code, whoever opened it, and the host's copies of its descriptors. Not: whether it may run (consent.c).
 * Invariant: no descriptor outlives its module, and a file that has changed is another module. Thread: [any]. */
#include "plug/module.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/sha256.h"
#include "isolate/isolate.h"
#include "plug/data.h"
#include "plug/entry.h"
#include "plug/loaded.h"

#define MAX_FILE_BYTES (256u << 20)

struct cdz_module {
    atomic_uint refs;
    char *path;
    const char *origin;
    cdz_file_id id;
    cdz_descriptor *plugins; /* n_plugins, the host's copies */
    uint32_t n_plugins;
    cdz_native native; /* shared objects */
    bool resident;
    cdz_isolate *isolate; /* shared objects that run elsewhere */
    cdz_opener opener;    /* everything else; the module with the loader is retained */
    cdz_loaded *loaded;
    cdz_package_data data; /* of shared objects: what their package lists */
    cdz_file_id *more;     /* (n_more) of the further files that were read */
    uint32_t n_more;
};

/* What loaded the file goes last: it may be the last to use its loader. */
static void close_module(cdz_module *module)
{
    cdz_isolate_close(module->isolate);
    cdz_native_close(&module->native, module->resident);
    cdz_loaded_close(module->loaded);
    cdz_package_data_free(&module->data);
    cdz_module_release(module->opener.module);
    free(module->plugins);
    free(module->more);
    free(module->path);
    free(module);
}

void cdz_module_retain(cdz_module *module)
{
    if (module) atomic_fetch_add_explicit(&module->refs, 1, memory_order_relaxed);
}

void cdz_module_release(cdz_module *module)
{
    if (module && atomic_fetch_sub_explicit(&module->refs, 1, memory_order_acq_rel) == 1)
        close_module(module);
}

const char *cdz_module_path(const cdz_module *module)
{
    return module->path;
}

const char *cdz_module_origin(const cdz_module *module)
{
    return module->origin;
}

const cdz_isolate *cdz_module_isolate(const cdz_module *module)
{
    return module->isolate;
}

const char *cdz_module_apart(const cdz_module *module, cdz_arena *arena)
{
    const cdz_isolate *isolate = module ? cdz_module_isolate(module) : NULL;
    char guards[CDZ_GUARDS_TEXT];
    if (!isolate) return "";
    cdz_isolate_guards(isolate, guards, sizeof guards);
    return cdz_arena_printf(arena, "in a process of its own (%s)", guards);
}

uint32_t cdz_module_count(const cdz_module *module)
{
    return module->n_plugins;
}

const cdz_plugin_base *cdz_module_plugin(const cdz_module *module, uint32_t i)
{
    return &module->plugins[i].base;
}

static cdz_file_id file_id(const struct stat *s)
{
    return (cdz_file_id){.dev = s->st_dev,
                         .ino = s->st_ino,
                         .size = s->st_size,
                         .mtime = s->st_mtim,
                         .ctime = s->st_ctim};
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

const cdz_call_files *cdz_module_data(const cdz_module *module)
{
    return module ? &module->data.files : NULL;
}

/* The i-th further file that was read, whoever read it. */
static const char *further_file(const cdz_module *module, uint32_t i)
{
    return module->loaded ? cdz_loaded_file(module->loaded, i)
                          : cdz_package_data_path(&module->data, i);
}

/* The loader's own file is the last of them; one that is linked in has none. */
const char *cdz_module_file(const cdz_module *module, uint32_t i)
{
    if (i < module->n_more) return further_file(module, i);
    const cdz_module *by = module->opener.module;
    return i == module->n_more && by && by->native.handle ? by->path : NULL;
}

bool cdz_module_is_script(const cdz_module *module)
{
    return module->opener.scripts;
}

static bool is_same(const cdz_file_id *a, const char *path)
{
    struct stat s;
    if (stat(path, &s) != 0) return false;
    const cdz_file_id b = file_id(&s);
    return a->dev == b.dev && a->ino == b.ino && a->size == b.size &&
           same_time(&a->mtime, &b.mtime) && same_time(&a->ctime, &b.ctime);
}

bool cdz_module_is_current(const cdz_module *module, const char *path, const cdz_loader *loader)
{
    bool same = module->opener.loader == loader && is_same(&module->id, path);
    for (uint32_t i = 0; same && i < module->n_more; i++)
        same = is_same(&module->more[i], further_file(module, i));
    return same;
}

const cdz_loader *cdz_module_loader_of(const cdz_module *module, const char *ending, size_t n)
{
    for (uint32_t i = 0; i < module->n_plugins; i++) {
        const cdz_descriptor *d = &module->plugins[i];
        if (d->base.kind == CDZ_KIND_LOADER && cdz_endings_hold(d->loader.endings, ending, n))
            return &d->loader;
    }
    return NULL;
}

/* Which files were read beside the one that was named. One that has changed since, or gone, will not be the same. */
static cdz_status note_files(cdz_module *module, cdz_error *err)
{
    uint32_t n = 0;
    while (further_file(module, n)) n++;
    module->more = calloc(n ? n : 1, sizeof *module->more);
    if (!module->more) return cdz_err_memory_in(err, module->path);
    for (; module->n_more < n; module->n_more++) {
        struct stat s;
        if (stat(further_file(module, module->n_more), &s) == 0)
            module->more[module->n_more] = file_id(&s);
    }
    return CDZ_OK;
}

/* Adopts n descriptors; two plugins of one file may not share kind and id. */
static cdz_status adopt(cdz_module *module, const cdz_plugin_base *const *plugins, uint32_t n,
                        const cdz_bounds *bounds, cdz_error *err)
{
    module->plugins = calloc(n, sizeof module->plugins[0]);
    if (!module->plugins) return cdz_err_memory_in(err, module->path);
    for (uint32_t i = 0; i < n; i++) {
        cdz_descriptor *d = &module->plugins[i];
        CDZ_TRY(cdz_descriptor_adopt(module->path, plugins[i], bounds, d, err));
        for (uint32_t k = 0; k < i; k++)
            if (module->plugins[k].base.kind == d->base.kind &&
                strcmp(module->plugins[k].base.id, d->base.id) == 0)
                return cdz_err(err, CDZ_E_PLUGIN, "%s: exports %s '%s' twice", module->path,
                               cdz_kind_name(d->base.kind), d->base.id);
        module->n_plugins++;
    }
    return CDZ_OK;
}

static bool is_promised(const cdz_module_source *source)
{
    return source->sha256 || source->pinned.sha256;
}

static cdz_status compare_hash(const cdz_module_source *source, const char *bytes, size_t len,
                               cdz_error *err)
{
    char found[CDZ_SHA256_HEX];
    const cdz_pinned *pinned = &source->pinned;
    if (!is_promised(source)) return CDZ_OK;
    cdz_sha256_hex(bytes, len, found);
    if (pinned->sha256 && strcasecmp(found, pinned->sha256) != 0)
        return cdz_trust_changed(source->path, found, pinned->sha256, pinned->lock, err);
    if (source->sha256 && strcasecmp(found, source->sha256) != 0)
        return cdz_err(err, CDZ_E_DENIED, "%s: its sha256 is %s, plugin.ini pins %s", source->path,
                       found, source->sha256);
    return CDZ_OK;
}

cdz_status cdz_module_check_hash(const cdz_module_source *source, cdz_error *err)
{
    char *bytes = NULL;
    size_t len = 0;
    if (!is_promised(source)) return CDZ_OK;
    CDZ_TRY(cdz_file_read_fd(source->fd, source->path, MAX_FILE_BYTES, &bytes, &len, err));
    cdz_status st = compare_hash(source, bytes, len, err);
    free(bytes);
    return st;
}

/* What lies beside a shared object, before any of its code is there. */
static cdz_status read_data(cdz_module *module, const cdz_module_source *source, cdz_error *err)
{
    CDZ_TRY(cdz_package_data_read(source->path, &source->pinned, &module->data, err));
    return note_files(module, err);
}

/* The bytes that are hashed are the bytes that are loaded. */
static cdz_status open_native(cdz_module *module, const cdz_module_source *source, cdz_error *err)
{
    char *bytes = NULL;
    size_t len = 0;
    cdz_entry entry;
    CDZ_TRY(cdz_file_read_fd(source->fd, source->path, MAX_FILE_BYTES, &bytes, &len, err));
    cdz_status st = compare_hash(source, bytes, len, err);
    if (st == CDZ_OK) st = cdz_native_open(source->path, bytes, len, &module->native, err);
    free(bytes);
    if (st != CDZ_OK) return st;
    CDZ_TRY(cdz_module_check_entry(source->path, &module->native, &entry, err));
    module->resident = (entry.flags & CDZ_RESIDENT) != 0;
    const cdz_bounds within = cdz_module_bounds(&module->native);
    return adopt(module, entry.plugins, entry.n_plugins, &within, err);
}

static cdz_status open_isolated(cdz_module *module, const cdz_module_source *source, cdz_error *err)
{
    const cdz_plugin_base *const *plugins = NULL;
    char *bytes = NULL;
    size_t len = 0;
    uint32_t n = 0;
    CDZ_TRY(cdz_file_read_fd(source->fd, source->path, MAX_FILE_BYTES, &bytes, &len, err));
    cdz_status st = compare_hash(source, bytes, len, err);
    if (st == CDZ_OK)
        st = cdz_isolate_open(source->path, bytes, len, source->worker, &module->isolate, &plugins,
                              &n, err);
    free(bytes);
    return st == CDZ_OK ? adopt(module, plugins, n, NULL, err) : st;
}

/* The package's further files against the lock; the manifest was compared with it before. */
static cdz_status compare_more(const cdz_module_source *source, const cdz_plugin_file *file,
                               cdz_error *err)
{
    char found[CDZ_SHA256_HEX];
    const cdz_pinned *pinned = &source->pinned;
    for (uint32_t i = 0; pinned->pin && i < file->n_files; i++) {
        const cdz_plugin_file *more = file->files[i];
        const char *expected = cdz_pin_sha256(pinned->pin, more->name);
        if (!expected || !more->bytes)
            continue; /* not pinned: refused before; not read: not used */
        cdz_sha256_hex(more->bytes, (size_t)more->len, found);
        if (strcasecmp(found, expected) != 0)
            return cdz_trust_changed(more->path, found, expected, pinned->lock, err);
    }
    return CDZ_OK;
}

static cdz_status check_kinds(const cdz_module *module, cdz_error *err)
{
    for (uint32_t i = 0; i < module->n_plugins; i++)
        if (module->plugins[i].base.kind == CDZ_KIND_LOADER)
            return cdz_err(err, CDZ_E_PLUGIN,
                           "%s: the loader %s made a loader '%s' of it; loaders are shared objects",
                           module->path, module->opener.loader->base.id, module->plugins[i].base.id);
    return CDZ_OK;
}

static cdz_status open_with_loader(cdz_module *module, const cdz_module_source *source,
                                   cdz_error *err)
{
    const cdz_plugin_base *const *plugins;
    uint32_t n = 0;
    module->opener = source->opener;
    cdz_module_retain(module->opener.module);
    CDZ_TRY(cdz_loaded_read(module->opener.loader, source->path, source->fd, &module->loaded, err));
    const cdz_plugin_file *file = cdz_loaded_source(module->loaded);
    CDZ_TRY(compare_hash(source, file->bytes, (size_t)file->len, err));
    CDZ_TRY(compare_more(source, file, err));
    CDZ_TRY(note_files(module, err));
    CDZ_TRY(cdz_loaded_start(module->loaded, err));
    plugins = cdz_loaded_plugins(module->loaded, &n);
    CDZ_TRY(adopt(module, plugins, n, NULL, err));
    return check_kinds(module, err);
}

static cdz_status new_module(const char *path, const char *origin, cdz_module **out, cdz_error *err)
{
    cdz_module *module = calloc(1, sizeof *module);
    if (module) module->path = strdup(path);
    if (!module || !module->path) {
        free(module);
        return cdz_err_memory_in(err, path);
    }
    atomic_init(&module->refs, 1);
    module->origin = origin;
    *out = module;
    return CDZ_OK;
}

cdz_status cdz_module_linked(const cdz_plugin_base *plugin, const char *origin, cdz_module **out,
                             cdz_error *err)
{
    cdz_module *module = NULL;
    CDZ_TRY(new_module("libcadenza", origin, &module, err));
    cdz_status st = adopt(module, &plugin, 1, NULL, err);
    if (st == CDZ_OK)
        *out = module;
    else
        close_module(module);
    return st;
}

cdz_status cdz_module_open(const cdz_module_source *source, cdz_module **out, cdz_error *err)
{
    struct stat s;
    cdz_module *module = NULL;
    if (fstat(source->fd, &s) != 0)
        return cdz_err(err, CDZ_E_NOT_FOUND, "%s: no such file", source->path);
    CDZ_TRY(new_module(source->path, source->origin, &module, err));
    module->id = file_id(&s);
    cdz_status st = source->opener.loader ? CDZ_OK : read_data(module, source, err);
    if (source->opener.loader)
        st = open_with_loader(module, source, err);
    else if (st == CDZ_OK)
        st = source->worker ? open_isolated(module, source, err) : open_native(module, source, err);
    if (st != CDZ_OK)
        close_module(module);
    else
        *out = module;
    return st;
}
