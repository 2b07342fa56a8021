/* module.c - opening a file, adopting its descriptors, unloading it with the last reference. */
#include "plug/module.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/sha256.h"
#include "isolate/isolate.h"

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
    cdz_loader loader;    /* everything else */
    void *state;
    cdz_file_id *more; /* (n_more) of the loader's further files */
    uint32_t n_more;
};

static void close_module(cdz_module *module)
{
    cdz_isolate_close(module->isolate);
    cdz_native_close(&module->native, module->resident);
    if (module->loader.unload && module->state) module->loader.unload(module->state);
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

const char *cdz_module_file(const cdz_module *module, uint32_t i)
{
    return module->loader.file && module->state ? module->loader.file(module->state, i) : NULL;
}

static bool is_same(const cdz_file_id *a, const char *path)
{
    struct stat s;
    if (stat(path, &s) != 0) return false;
    const cdz_file_id b = file_id(&s);
    return a->dev == b.dev && a->ino == b.ino && a->size == b.size &&
           same_time(&a->mtime, &b.mtime) && same_time(&a->ctime, &b.ctime);
}

bool cdz_module_is_current(const cdz_module *module, const char *path)
{
    bool same = is_same(&module->id, path);
    for (uint32_t i = 0; same && i < module->n_more; i++)
        same = is_same(&module->more[i], cdz_module_file(module, i));
    return same;
}

/* Which files the loader has read beside the one it was given. One that has changed since, or gone, will not be the same. */
static cdz_status note_files(cdz_module *module, cdz_error *err)
{
    uint32_t n = 0;
    while (cdz_module_file(module, n)) n++;
    module->more = calloc(n ? n : 1, sizeof *module->more);
    if (!module->more) return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", module->path);
    for (; module->n_more < n; module->n_more++) {
        struct stat s;
        if (stat(cdz_module_file(module, module->n_more), &s) == 0)
            module->more[module->n_more] = file_id(&s);
    }
    return CDZ_OK;
}

/* Adopts n descriptors; two plugins of one file may not share kind and id. */
static cdz_status adopt(cdz_module *module, const cdz_plugin_base *const *plugins, uint32_t n,
                        const cdz_native *native, cdz_error *err)
{
    module->plugins = calloc(n, sizeof module->plugins[0]);
    if (!module->plugins) return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", module->path);
    for (uint32_t i = 0; i < n; i++) {
        cdz_descriptor *d = &module->plugins[i];
        CDZ_TRY(cdz_descriptor_adopt(module->path, plugins[i], native, d, err));
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
    CDZ_TRY(cdz_file_read(source->path, MAX_FILE_BYTES, &bytes, &len, err));
    cdz_status st = compare_hash(source, bytes, len, err);
    free(bytes);
    return st;
}

/* The bytes that are hashed are the bytes that are loaded. */
static cdz_status open_native(cdz_module *module, const cdz_module_source *source, cdz_error *err)
{
    char *bytes = NULL;
    size_t len = 0;
    cdz_entry entry;
    CDZ_TRY(cdz_file_read(source->path, MAX_FILE_BYTES, &bytes, &len, err));
    cdz_status st = compare_hash(source, bytes, len, err);
    if (st == CDZ_OK) st = cdz_native_open(source->path, bytes, len, &module->native, err);
    free(bytes);
    if (st != CDZ_OK) return st;
    CDZ_TRY(cdz_entry_check(source->path, &module->native, &entry, err));
    module->resident = (entry.flags & CDZ_RESIDENT) != 0;
    return adopt(module, entry.plugins, entry.n_plugins, &module->native, err);
}

static cdz_status open_isolated(cdz_module *module, const cdz_module_source *source, cdz_error *err)
{
    const cdz_plugin_base *const *plugins = NULL;
    char *bytes = NULL;
    size_t len = 0;
    uint32_t n = 0;
    CDZ_TRY(cdz_file_read(source->path, MAX_FILE_BYTES, &bytes, &len, err));
    cdz_status st = compare_hash(source, bytes, len, err);
    if (st == CDZ_OK)
        st = cdz_isolate_open(source->path, bytes, len, source->worker, &module->isolate, &plugins,
                              &n, err);
    free(bytes);
    return st == CDZ_OK ? adopt(module, plugins, n, NULL, err) : st;
}

static cdz_status open_with_loader(cdz_module *module, const cdz_module_source *source,
                                   cdz_error *err)
{
    const cdz_plugin_base *const *plugins = NULL;
    uint32_t n = 0;
    CDZ_TRY(cdz_module_check_hash(source, err));
    module->loader = *source->loader;
    CDZ_TRY(module->loader.load(source->path, &module->state, &plugins, &n, err));
    CDZ_TRY(note_files(module, err));
    if (n == 0 || n > CDZ_MAX_PLUGINS)
        return cdz_err(err, CDZ_E_PLUGIN, "%s: defines %u plugins; expected 1 to %u", source->path,
                       n, CDZ_MAX_PLUGINS);
    return adopt(module, plugins, n, NULL, err);
}

cdz_status cdz_module_open(const cdz_module_source *source, cdz_module **out, cdz_error *err)
{
    struct stat s;
    if (stat(source->path, &s) != 0)
        return cdz_err(err, CDZ_E_NOT_FOUND, "%s: no such file", source->path);
    cdz_module *module = calloc(1, sizeof *module);
    if (!module) return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", source->path);
    atomic_init(&module->refs, 1);
    module->origin = source->origin;
    module->id = file_id(&s);
    module->path = strdup(source->path);
    cdz_status st = CDZ_OK;
    if (!module->path) st = cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", source->path);
    if (st == CDZ_OK && source->loader) st = open_with_loader(module, source, err);
    if (st == CDZ_OK && source->worker) st = open_isolated(module, source, err);
    if (st == CDZ_OK && !source->loader && !source->worker) st = open_native(module, source, err);
    if (st != CDZ_OK)
        close_module(module);
    else
        *out = module;
    return st;
}
