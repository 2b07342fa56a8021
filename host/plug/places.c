/* places.c - the user's folders, as the XDG base directory specification names them. */
#include "plug/places.h"

#include "base/environment.h"
#include "plug/lock.h"

/* "BASE/rest", or "~/fallback/rest" where BASE is unset or relative. NULL also when there is no home. */
static const char *in_home(cdz_arena *arena, const char *base, const char *fallback,
                           const char *rest)
{
    const char *home = cdz_env_home();
    if (base && base[0] == '/') return cdz_arena_printf(arena, "%s/%s", base, rest);
    if (!home || home[0] != '/') return NULL;
    return cdz_arena_printf(arena, "%s/%s/%s", home, fallback, rest);
}

bool cdz_places_of_user(cdz_arena *arena, cdz_registry_options *out)
{
    const char *home = cdz_env_home(), *config = cdz_env_config_home(), *data = cdz_env_data_home();
    out->search_path = cdz_env_plugin_path();
    out->locks[0] = CDZ_LOCK_FILE;
    out->user_dir = in_home(arena, data, ".local/share", "cadenza/plugins");
    out->locks[1] = in_home(arena, config, ".config", "cadenza/" CDZ_LOCK_FILE);
    return (out->user_dir && out->locks[1]) || !home || home[0] != '/';
}
