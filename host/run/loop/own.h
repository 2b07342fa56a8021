/* own.h - plugins of the program that embeds the library: descriptors in its memory (cdz_runtime_add_plugin). */
#ifndef CDZ_HOST_RUN_LOOP_OWN_H
#define CDZ_HOST_RUN_LOOP_OWN_H

#include "base/error.h"
#include "cadenza/plugin.h"

typedef struct cdz_own_plugin cdz_own_plugin; /* one, and those made before it */

/* Checks a descriptor and puts it at the head of the list. */
cdz_status cdz_own_open(const cdz_plugin_base *plugin, cdz_own_plugin **list, cdz_error *err);
/* What the registry gets of the head: its functions call the program's on the thread's own stack. Valid until cdz_own_free. */
const cdz_plugin_base *cdz_own_shown(const cdz_own_plugin *own);
void cdz_own_free(cdz_own_plugin *list); /* NULL is fine */

#endif
