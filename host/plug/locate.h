/* locate.h - where the built-in plugins are, seen from the running code: the same in a build tree, an installed prefix,
 * and a prefix that was moved. */
#ifndef CDZ_HOST_PLUG_LOCATE_H
#define CDZ_HOST_PLUG_LOCATE_H

#include "base/arena.h"

/* Beside libcadenza (<dir>/cadenza) when this code is in a shared library, else beside the program
 * (<dir>/../lib/cadenza or its multiarch and lib64 spellings). The first that is a directory; when none is, the place
 * that was expected. NULL: out of memory or nothing known. Memory is the arena's. */
const char *cdz_locate_plugins(cdz_arena *arena);

/* The program that runs a plugin with isolation = process: worker/cadenza-worker in `folder`, if it is there, else where
 * the built-in plugins are. NULL as above. */
const char *cdz_locate_worker(cdz_arena *arena, const char *folder);

#endif
