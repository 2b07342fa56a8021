/* module.h - one loaded file, whatever loaded it: its plugins' descriptors and who still uses them. */
#ifndef CDZ_HOST_MODULE_H
#define CDZ_HOST_MODULE_H

#include <sys/stat.h>

#include "plug/check.h"
#include "plug/registry.h"
#include "plug/trust.h"

/* Which file it was: a changed file is another module. */
typedef struct cdz_file_id {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec mtime, ctime;
} cdz_file_id;

typedef struct cdz_module_source {
    const char *path;         /* regular file */
    const char *origin;       /* constant memory */
    const cdz_loader *loader; /* NULL: a shared object */
    const char *worker;       /* the program to open a shared object in; NULL: opened here */
    const char *sha256; /* hexadecimal, what plugin.ini says the bytes hash to; NULL: it does not */
    cdz_pinned pinned;  /* the same of a lock */
} cdz_module_source;

/* Opens, checks every descriptor, and gives one reference. */
cdz_status cdz_module_open(const cdz_module_source *source, cdz_module **out, cdz_error *err);

uint32_t cdz_module_count(const cdz_module *module);
const cdz_plugin_base *cdz_module_plugin(const cdz_module *module, uint32_t i);

/* Whether the bytes of source->path are those that its manifest and lock promise. */
cdz_status cdz_module_check_hash(const cdz_module_source *source, cdz_error *err);

/* A module whose code runs in a process of its own; NULL for others. */
const struct cdz_isolate *cdz_module_isolate(const cdz_module *module);

/* Whether path is still the file this module was made from. */
bool cdz_module_is_current(const cdz_module *module, const char *path);

#endif
