/* isolated.c - the list behind isolated.h: a file's canonical path and the module that runs it in a process. Owns a
 * reference to each module; a file that has changed gets a new module, and the old one ends with its last user. Under
 * the registry's lock. */
#include "plug/isolated.h"

#include <stdlib.h>
#include <string.h>

static struct cdz_isolated_file *find(cdz_isolated *set, const char *canonical)
{
    for (size_t i = 0; i < set->n; i++)
        if (strcmp(set->at[i].file, canonical) == 0) return &set->at[i];
    return NULL;
}

/* Takes over the module's reference; a changed file's module takes the place of the one before. */
static cdz_status keep(cdz_isolated *set, const char *canonical, cdz_module *module, cdz_error *err)
{
    struct cdz_isolated_file *old = find(set, canonical);
    if (old) {
        cdz_module_release(old->module);
        old->module = module;
        return CDZ_OK;
    }
    const struct cdz_isolated_file fresh = {strdup(canonical), module};
    if (fresh.file && set->n == set->cap) {
        const size_t cap = set->cap ? 2 * set->cap : 8;
        struct cdz_isolated_file *more = reallocarray(set->at, cap, sizeof *more);
        if (more) {
            set->at = more;
            set->cap = cap;
        }
    }
    if (fresh.file && set->n < set->cap) {
        set->at[set->n++] = fresh;
        return CDZ_OK;
    }
    free(fresh.file);
    cdz_module_release(module);
    return cdz_err(err, CDZ_E_NOMEM, "plugins: out of memory");
}

cdz_status cdz_isolated_open(cdz_isolated *set, const cdz_module_source *source,
                             const char *canonical, const cdz_manifest *manifest, cdz_module **out,
                             cdz_error *err)
{
    struct cdz_isolated_file *known = find(set, canonical);
    cdz_module *module = known ? known->module : NULL;
    if (module && cdz_module_is_current(module, canonical, NULL)) {
        CDZ_TRY(cdz_module_check_hash(source, err));
    } else {
        CDZ_TRY(cdz_module_open(source, &module, err));
        CDZ_TRY(keep(set, canonical, module, err));
    }
    if (manifest)
        CDZ_TRY(cdz_manifest_match(manifest, cdz_module_plugin(module, 0), cdz_module_count(module),
                                   err));
    cdz_module_retain(module);
    *out = module;
    return CDZ_OK;
}

void cdz_isolated_free(cdz_isolated *set)
{
    for (size_t i = 0; i < set->n; i++) {
        cdz_module_release(set->at[i].module);
        free(set->at[i].file);
    }
    free(set->at);
    *set = (cdz_isolated){0};
}
