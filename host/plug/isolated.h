/* isolated.h - the modules of a registry that run in processes of their own, one for a file, apart from those that run
 * here: a file may be both. Under the registry's lock. */
#ifndef CDZ_HOST_PLUG_ISOLATED_H
#define CDZ_HOST_PLUG_ISOLATED_H

#include "plug/module.h"

struct cdz_isolated_file {
    char *file; /* canonical */
    cdz_module *module;
};

/* Zeroed: none. */
typedef struct cdz_isolated {
    struct cdz_isolated_file *at;
    size_t n, cap;
} cdz_isolated;

/* The module of source->path in a process of its own, opened unless it is there and the file is unchanged. canonical: the
 * same path, links resolved. manifest: of the package, whose promises are checked; NULL: a bare file. Retained. */
cdz_status cdz_isolated_open(cdz_isolated *set, const cdz_module_source *source,
                             const char *canonical, const cdz_manifest *manifest, cdz_module **out,
                             cdz_error *err);
void cdz_isolated_free(cdz_isolated *set);

#endif
