/* places.h - where this user's packages and lock files are. */
#ifndef CDZ_HOST_PLUG_PLACES_H
#define CDZ_HOST_PLUG_PLACES_H

#include "base/arena.h"
#include "plug/registry.h"

/* Fills search_path, user_dir and locks from the environment: CADENZA_PLUGIN_PATH; cadenza/plugins in XDG_DATA_HOME or
 * ~/.local/share; cadenza.lock in the working folder, then cadenza/cadenza.lock in XDG_CONFIG_HOME or ~/.config. What the
 * environment does not say stays NULL. Strings are the arena's or the environment's. False: out of memory. */
bool cdz_places_of_user(cdz_arena *arena, cdz_registry_options *out);

#endif
