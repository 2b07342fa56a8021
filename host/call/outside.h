/* outside.h - the calls that come outside of any request: creating a plugin with its parameters, opening and closing a
 * loader's file. */
#ifndef CDZ_HOST_CALL_OUTSIDE_H
#define CDZ_HOST_CALL_OUTSIDE_H

#include "base/arena.h"
#include "base/error.h"
#include "cadenza/loader.h"
#include "call/files.h"

/* Runs the plugin's create, where it has one, on a filled parameter struct. cdz_alloc's memory comes from the arena.
 * files: of data, that were read with it; NULL: none.
 * On failure err holds the plugin's sentence, or one that says it gave none. */
cdz_status cdz_call_create_plugin(const cdz_plugin_base *plugin, const void *params,
                                  const cdz_call_files *files, cdz_arena *arena, cdz_error *err);

/* Runs the loader's open on a file. *out arrives as open expects it; cdz_alloc's memory comes from the arena. */
cdz_status cdz_call_open_file(const cdz_loader *loader, const cdz_plugin_file *file,
                              cdz_arena *arena, cdz_opened *out, cdz_error *err);
/* And its close, of what open left in `opened`; what close broke is put right in silence. */
void cdz_call_close_file(const cdz_loader *loader, const cdz_opened *opened, cdz_arena *arena);

#endif
