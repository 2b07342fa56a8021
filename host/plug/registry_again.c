/* registry_again.c - reading again what may have changed, and which newest version was refused. */
#include "plug/registry_state.h"

#include <stdlib.h>
#include <string.h>

/* What was refused may be better now. */
static void forget_refusals(cdz_registry *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->n_entries; i++)
        if (r->entries[i].module)
            r->entries[kept++] = r->entries[i];
        else
            cdz_known_clear(&r->entries[i]);
    r->n_entries = kept;
}

/* A path the user named, as it was named: what is loaded of it may change its place in the list. */
static cdz_status load_again(cdz_registry *r, const char *named, cdz_error *err)
{
    cdz_error why = {0};
    cdz_module *module;
    char *path = strdup(named);
    if (!path) return cdz_err(err, CDZ_E_NOMEM, "plugins: out of memory");
    cdz_status st = CDZ_OK;
    if (cdz_registry_load_path(r, CDZ_RANK_NAMED, path, &module, &why) != CDZ_OK)
        st = cdz_registry_remember(r, path, CDZ_RANK_NAMED, NULL, &why, err);
    free(path);
    return st;
}

static bool holds_loader(const cdz_module *module)
{
    for (uint32_t i = 0; i < cdz_module_count(module); i++)
        if (cdz_module_plugin(module, i)->kind == CDZ_KIND_LOADER) return true;
    return false;
}

static bool is_current(const cdz_registry *r, const cdz_known *e)
{
    cdz_opener opener;
    return cdz_registry_known_opener(r, e->file, &opener) &&
           cdz_module_is_current(e->module, e->file, opener.loader);
}

/* The named files that are loaders, or those that are not. */
static cdz_status load_named_again(cdz_registry *r, bool loaders, cdz_error *err)
{
    cdz_status st = CDZ_OK;
    for (size_t i = 0; st == CDZ_OK && i < r->n_entries; i++) {
        const cdz_known *e = &r->entries[i];
        if (e->rank == CDZ_RANK_NAMED && e->module && holds_loader(e->module) == loaders &&
            !is_current(r, e))
            st = load_again(r, e->path, err);
    }
    return st;
}

/* Loaders first: a new one opens its files anew. */
static cdz_status refresh(cdz_registry *r, cdz_error *err)
{
    const bool scanned = r->scanned, loaders_scanned = r->loaders_scanned;
    forget_refusals(r);
    cdz_trust_free(&r->trust);
    r->scanned = r->loaders_scanned = r->trust_read = false;
    CDZ_TRY(load_named_again(r, true, err));
    if (loaders_scanned) CDZ_TRY(cdz_registry_scan_loaders(r, err));
    CDZ_TRY(load_named_again(r, false, err));
    return scanned ? cdz_registry_scan_all(r, err) : CDZ_OK;
}

cdz_status cdz_registry_refresh(cdz_registry *registry, cdz_error *err)
{
    cdz_mutex_lock(&registry->lock);
    cdz_status st = refresh(registry, err);
    cdz_mutex_unlock(&registry->lock);
    return st;
}

static const cdz_error *newest_refused(const cdz_registry *r, const cdz_module *module)
{
    const cdz_known *known = NULL;
    for (size_t i = 0; i < r->n_entries && !known; i++)
        if (r->entries[i].module == module) known = &r->entries[i];
    for (size_t i = 0; known && i < r->n_entries; i++) {
        const cdz_known *e = &r->entries[i];
        if (e->problem && e->rank == known->rank && strcmp(e->path, known->path) == 0)
            return e->problem;
    }
    return NULL;
}

cdz_status cdz_registry_check_newest(cdz_registry *registry, const cdz_module *module,
                                     cdz_error *err)
{
    cdz_status st = CDZ_OK;
    cdz_mutex_lock(&registry->lock);
    const cdz_error *why = newest_refused(registry, module);
    if (why) st = cdz_err(err, why->code, "%s", why->text);
    cdz_mutex_unlock(&registry->lock);
    return st;
}
