/* guard.h - the door into plugin code: what is noted before a function of a plugin runs, put back after it, and judged.
 *
 * calls.h has the calls, one function for each of the ABI, and each of them enters and leaves here. Nothing else in the host
 * calls a plugin.
 *
 *     cdz_call call = {.scratch = &worker->scratch};
 *     const cdz_status status = cdz_call_apply(&call, processor, &step, &scores);
 *     return cdz_call_judge(&call, status, &said, err);
 *
 * What a call must leave as it found it: the thread's rounding and exception masks (a plugin built with -ffast-math that
 * sets flush-to-zero would change other requests' numbers), looked at in every build. Checked builds (CADENZA_CHECKED)
 * look at the locale too, the thread's and the process's: a decimal comma would reach whatever the program prints or reads
 * next.
 *
 * Which function of which plugin a thread is in is for the sentence when it crashes there. What a signal handler has is its
 * thread and nothing else, so this one thing hangs on no handle. A fibre keeps its own through every switch (run/loop/fibre.c).
 * The same note answers plugins that ask which thread they are on (ext/draft/thread-check.h). */
#ifndef CDZ_HOST_CALL_GUARD_H
#define CDZ_HOST_CALL_GUARD_H

#include <locale.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/float_mode.h"
#include "base/scratch.h"
#include "cadenza/ext/draft/thread-check.h"
#include "cadenza/plugin.h"

typedef struct cdz_calling {
    const cdz_plugin_base *plugin; /* NULL: the host is in none */
    const char *function;          /* "apply" */
    cdz_thread thread;             /* what the brackets at that function call this thread */
} cdz_calling;

extern _Thread_local cdz_calling cdz_calling_now;

enum { CDZ_LOCALE_NAMES = 512 };

/* One call, or one after the other; zeroed but for the first two. */
typedef struct cdz_call {
    cdz_scratch_mem *
        scratch; /* what cdz_scratch gave is forgotten with the return; NULL: the caller does that */
    bool raw; /* the caller itself looks at what the call did to the thread: nothing is put back */

    const cdz_plugin_base *plugin;
    const char *function;
    const char *
        broken; /* what it did to the thread, for the end of a sentence; it is put back. NULL: nothing */
    cdz_calling outer;
    unsigned mode;
#ifdef CDZ_CHECKED
    locale_t locale;              /* the thread's */
    char names[CDZ_LOCALE_NAMES]; /* the process's, by category; "": too long to be compared */
#endif
} cdz_call;

/* guard.c: the locale's part. */
void cdz_locale_note(locale_t *locale, char names[static CDZ_LOCALE_NAMES]);
bool cdz_locale_changed(locale_t locale, const char *names); /* puts it back */

/* calls.h alone enters and leaves. */
static inline void cdz_call_enter(cdz_call *c, const cdz_plugin_base *plugin, const char *function,
                                  cdz_thread thread)
{
    c->plugin = plugin;
    c->function = function;
    c->broken = NULL;
    c->outer = cdz_calling_now;
    cdz_calling_now = (cdz_calling){plugin, function, thread};
    c->mode = cdz_float_mode();
#ifdef CDZ_CHECKED
    cdz_locale_note(&c->locale, c->names);
#endif
}

/* Gives what it is given. */
static inline cdz_status cdz_call_leave(cdz_call *c, cdz_status returned)
{
    cdz_calling_now = c->outer;
    if (c->scratch) cdz_scratch_reset(c->scratch);
    if (c->raw) return returned;
#ifdef CDZ_CHECKED
    if (cdz_locale_changed(c->locale, c->names)) c->broken = "changed the locale and left it so";
#endif
    if (cdz_float_mode() == c->mode) return returned;
    cdz_float_mode_set(c->mode);
    c->broken = "changed the thread's floating-point mode and left it so";
    return returned;
}

/* --- the verdict: verdict.c --- */

/* A promise that the call broke, as "apply failed (bad input) without saying why": CDZ_E_PLUGIN, and err has the sentence,
 * without the plugin's id. CDZ_OK: none. said: what the plugin said, code CDZ_OK: nothing; may be NULL for calls that
 * cannot fail. */
cdz_status cdz_call_fault(const cdz_call *c, cdz_status returned, const cdz_error *said,
                          cdz_error *err);
/* How the call went, as everybody is told: "ID: SENTENCE". */
cdz_status cdz_call_failed(const cdz_call *c, cdz_status returned, const cdz_error *said,
                           cdz_error *err);
/* The same of a status that was not the plugin's to return: CDZ_E_PLUGIN, and the sentence names it. */
cdz_status cdz_call_overstepped(const cdz_call *c, cdz_status returned, const cdz_error *said,
                                cdz_error *err);
static inline cdz_status cdz_call_judge(const cdz_call *c, cdz_status returned,
                                        const cdz_error *said, cdz_error *err)
{
    return returned == CDZ_OK && !c->broken ? CDZ_OK : cdz_call_failed(c, returned, said, err);
}

#endif
