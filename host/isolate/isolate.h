/* isolate.h - a plugin file whose code runs in a process of its own, as descriptors that look like any other's.
 *
 * The host makes a descriptor for each of the file's processors, criteria and drafters; their functions send the call
 * over (protocol.h) and give back what comes. Nothing of the file runs in this process. The process serves all requests
 * of the file one after the other; when it dies, the request that was being served fails and the others begin anew in the
 * next one, before their next call. */
#ifndef CDZ_HOST_ISOLATE_ISOLATE_H
#define CDZ_HOST_ISOLATE_ISOLATE_H

#include "base/error.h"
#include "cadenza/plugin.h"

typedef struct cdz_isolate cdz_isolate;

/* worker: the program that opens the file (plug/locate.h). bytes: of the file, copied. The descriptors live until close. */
cdz_status cdz_isolate_open(const char *path, const char *bytes, size_t len, const char *worker,
                            cdz_isolate **out, const cdz_plugin_base *const **plugins, uint32_t *n,
                            cdz_error *err);
void cdz_isolate_close(cdz_isolate *isolate); /* NULL is fine; ends the process */

/* What of it this kernel allows, for people: "system calls filtered, files closed to it, ...", or "limits only". */
void cdz_isolate_guards(const cdz_isolate *isolate, char *out, size_t out_bytes);
/* The same without a plugin, from a process that is started for it. */
cdz_status cdz_isolate_probe(const char *worker, char *out, size_t out_bytes, cdz_error *err);
enum { CDZ_GUARDS_TEXT = 128 };

/* The parameter that every isolated plugin has beside its own. */
#define CDZ_DEADLINE_PARAM "deadline_ms"

#endif
