/* loaded.h - a file that a loader made plugins of: read with what belongs to it, handed over, given back.
 *
 * Whichever loader it is, the host reads: the bytes that are compared with a plugin.ini or a lock are those that are
 * opened. What a package's plugin.ini lists is read with its entry, however the entry was named. */
#ifndef CDZ_HOST_PLUG_LOADED_H
#define CDZ_HOST_PLUG_LOADED_H

#include "base/arena.h"
#include "describe/descriptor.h"
#include "plug/manifest.h"

typedef struct cdz_loaded cdz_loaded;

/* Reads fd, a regular file of that path, and what its package lists. loader: outlives what is opened. */
cdz_status cdz_loaded_read(const cdz_loader *loader, const char *path, int fd, cdz_loaded **out,
                           cdz_error *err);
/* What was read, until it is opened. */
const cdz_plugin_file *cdz_loaded_source(const cdz_loaded *loaded);
/* Has the loader open it; the bytes are gone afterwards. */
cdz_status cdz_loaded_start(cdz_loaded *loaded, cdz_error *err);

/* Both at once. */
cdz_status cdz_loaded_open(const cdz_loader *loader, const char *path, cdz_loaded **out,
                           cdz_error *err);
void cdz_loaded_close(cdz_loaded *loaded); /* NULL is fine */

/* What the loader made, 1 to CDZ_MAX_PLUGINS of them, not looked at yet; valid until close. */
const cdz_plugin_base *const *cdz_loaded_plugins(const cdz_loaded *loaded, uint32_t *n);
/* The i-th file that was read beside path: plugin.ini, then those that it lists; NULL after the last. */
const char *cdz_loaded_file(const cdz_loaded *loaded, uint32_t i);

#endif
