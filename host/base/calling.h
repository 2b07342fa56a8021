/* calling.h - which function of which plugin a thread is in, for the sentence when it crashes there.
 *
 * Two stores before and after each call. What a signal handler has is its thread and nothing else, so this one thing
 * hangs on no handle. A fibre keeps its own through every switch (run/fibre.c). */
#ifndef CDZ_HOST_CALLING_H
#define CDZ_HOST_CALLING_H

#include <stddef.h>

#include "cadenza/plugin.h"

typedef struct cdz_calling {
    const cdz_plugin_base *plugin; /* NULL: the host is in none, or nobody has said so */
    const char *function;          /* "apply" */
} cdz_calling;

extern _Thread_local cdz_calling cdz_calling_now;

/* Returns what it was before, for cdz_calling_end. */
static inline cdz_calling cdz_calling_begin(const cdz_plugin_base *plugin, const char *function)
{
    const cdz_calling outer = cdz_calling_now;
    cdz_calling_now = (cdz_calling){plugin, function};
    return outer;
}

static inline void cdz_calling_end(cdz_calling outer)
{
    cdz_calling_now = outer;
}

#endif
