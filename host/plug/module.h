/* module.h - one loaded file, whatever loaded it: its plugins' descriptors and who still uses them. */
#ifndef CDZ_HOST_PLUG_MODULE_H
#define CDZ_HOST_PLUG_MODULE_H

#include <sys/stat.h>

#include "base/arena.h"
#include "describe/descriptor.h"
#include "plug/registry.h"
#include "plug/trust.h"

/* Which file it was: a changed file is another module. */
typedef struct cdz_file_id {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec mtime, ctime;
} cdz_file_id;

/* Who opens files of a name. */
typedef struct cdz_opener {
    const cdz_loader *loader; /* NULL: a shared object */
    cdz_module *module;       /* that holds the loader */
    bool scripts; /* its files are data: the loader comes with the host and sandboxes them */
} cdz_opener;

typedef struct cdz_module_source {
    const char *path;   /* regular file, for sentences and its name */
    int fd;             /* the file: what was decided about is what is opened; the caller's */
    const char *origin; /* constant memory */
    cdz_opener opener;
    const char *worker; /* the program to open a shared object in; NULL: opened here */
    const char *sha256; /* hexadecimal, what plugin.ini says the bytes hash to; NULL: it does not */
    cdz_pinned pinned;  /* the same of a lock */
} cdz_module_source;

/* Opens, checks every descriptor, and gives one reference. */
cdz_status cdz_module_open(const cdz_module_source *source, cdz_module **out, cdz_error *err);
/* A module of no file: a plugin that is linked in, constant data. Its path is "libcadenza". */
cdz_status cdz_module_linked(const cdz_plugin_base *plugin, const char *origin, cdz_module **out,
                             cdz_error *err);

uint32_t cdz_module_count(const cdz_module *module);
const cdz_plugin_base *cdz_module_plugin(const cdz_module *module, uint32_t i);

/* Whether the bytes of source->path are those that its manifest and lock promise. */
cdz_status cdz_module_check_hash(const cdz_module_source *source, cdz_error *err);

/* A module whose code runs in a process of its own; NULL for others. */
const struct cdz_isolate *cdz_module_isolate(const cdz_module *module);
/* "in a process of its own (system calls filtered)", or "" for others and for NULL. NULL: out of memory. */
const char *cdz_module_apart(const cdz_module *module, cdz_arena *arena);

/* Whether path is still the file this module was made from, and loader who would open it. */
bool cdz_module_is_current(const cdz_module *module, const char *path, const cdz_loader *loader);

/* The loader of this ending (n bytes, no dot) in the module; NULL: it has none. */
const cdz_loader *cdz_module_loader_of(const cdz_module *module, const char *ending, size_t n);

#endif
