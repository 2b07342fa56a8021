/* plugins.c - which loaders are linked in, and what is loaded at once.
 *
 * The one place that puts the Lua host into a registry, so that whoever opens one, engine, kit or command, has the same. */
#include "api/plugins.h"

#include "base/environment.h"
#include "lua/lua_loader.h"
#include "plug/places.h"

cdz_status cdz_plugins_open(const cdz_registry_options *options, const char *const *named,
                            uint32_t n_named, cdz_registry **out, cdz_error *err)
{
    cdz_registry *registry = NULL;
    CDZ_TRY(cdz_registry_create(options, &registry, err));
    cdz_status st = cdz_registry_add_linked(registry, &cdz_lua_loader.base, err);
    for (uint32_t i = 0; st == CDZ_OK && i < n_named; i++)
        st = cdz_registry_load(registry, named[i], 0, NULL, err);
    if (st == CDZ_OK)
        *out = registry;
    else
        cdz_registry_free(registry);
    return st;
}

cdz_status cdz_plugins_open_user(const cdz_registry_options *options, const char *const *named,
                                 uint32_t n_named, cdz_registry **out, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_registry_options want = *options;
    cdz_status st = cdz_places_of_user(&arena, &want)
                        ? CDZ_OK
                        : cdz_err(err, CDZ_E_NOMEM, "plugins: out of memory");
    if (!want.builtin_dir) want.builtin_dir = cdz_env_plugin_dir();
    if (options->locks[0]) {
        want.locks[0] = options->locks[0];
        want.locks[1] = NULL;
    }
    if (st == CDZ_OK) st = cdz_plugins_open(&want, named, n_named, out, err);
    cdz_arena_free(&arena);
    return st;
}
