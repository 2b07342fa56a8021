/* create_host.h - what a plugin may call while it is created: fail, log and alloc. */
#ifndef CDZ_HOST_CREATE_HOST_H
#define CDZ_HOST_CREATE_HOST_H

#include "base/arena.h"
#include "base/error.h"
#include "cadenza/plugin.h"

/* Runs the plugin's create, where it has one, on a filled parameter struct. cdz_alloc's memory comes from the arena.
 * On failure err holds the plugin's sentence, or one that says it gave none. */
cdz_status cdz_run_create(const cdz_plugin_base *plugin, const void *params, cdz_arena *arena,
                          cdz_error *err);

#endif
