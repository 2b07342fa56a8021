/* create_host.h - what a plugin may call while there is no request: fail, log and alloc. Creating, and opening files. */
#ifndef CDZ_HOST_CREATE_HOST_H
#define CDZ_HOST_CREATE_HOST_H

#include "base/arena.h"
#include "base/error.h"
#include "cadenza/loader.h"

/* Runs the plugin's create, where it has one, on a filled parameter struct. cdz_alloc's memory comes from the arena.
 * On failure err holds the plugin's sentence, or one that says it gave none. */
cdz_status cdz_run_create(const cdz_plugin_base *plugin, const void *params, cdz_arena *arena,
                          cdz_error *err);

/* Runs the loader's open on a file. *out arrives as open expects it; cdz_alloc's memory comes from the arena. */
cdz_status cdz_run_open(const cdz_loader *loader, const cdz_plugin_file *file, cdz_arena *arena,
                        cdz_opened *out, cdz_error *err);
/* And its close, of what open left in `opened`; what close broke is put right in silence. */
void cdz_run_close(const cdz_loader *loader, const cdz_opened *opened, cdz_arena *arena);

#endif
