/* hygiene.h - what a plugin's call must leave as it found it.
 *
 * The thread's rounding and exception masks are looked at in every build (a -ffast-math plugin that sets flush-to-zero
 * would change other requests' numbers). Checked builds (CADENZA_CHECKED) look at the locale too, the thread's and the
 * process's: a decimal comma would reach whatever the program prints or reads next. */
#ifndef CDZ_HOST_HYGIENE_H
#define CDZ_HOST_HYGIENE_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/calling.h"

#if defined(__SSE__) && !defined(NDEBUG)
#include <xmmintrin.h>
#define CDZ_CHECKS_MXCSR 1
#endif

enum { CDZ_LOCALE_NAMES = 512 };

typedef struct cdz_hygiene {
    unsigned mode;
    cdz_calling outer;
#ifdef CDZ_CHECKED
    locale_t locale;              /* the thread's */
    char names[CDZ_LOCALE_NAMES]; /* the process's, by category; "": too long to be compared */
#endif
} cdz_hygiene;

/* hygiene.c: the locale's part. */
void cdz_locale_note(locale_t *locale, char names[static CDZ_LOCALE_NAMES]);
bool cdz_locale_changed(locale_t locale, const char *names); /* puts it back */

/* Status bits may change freely. */
static inline unsigned cdz_float_mode(void)
{
#ifdef CDZ_CHECKS_MXCSR
    return _mm_getcsr() & ~0x3Fu;
#else
    return 0;
#endif
}

/* plugin and function: what is about to be called. */
static inline void cdz_hygiene_note(cdz_hygiene *out, const cdz_plugin_base *plugin,
                                    const char *function)
{
    out->outer = cdz_calling_begin(plugin, function);
    out->mode = cdz_float_mode();
#ifdef CDZ_CHECKED
    cdz_locale_note(&out->locale, out->names);
#endif
}

/* NULL, or what a call did, for the end of a sentence; then it is put back. */
static inline const char *cdz_hygiene_broken(const cdz_hygiene *before)
{
    const char *what = NULL;
    cdz_calling_end(before->outer);
#ifdef CDZ_CHECKED
    if (cdz_locale_changed(before->locale, before->names))
        what = "changed the locale and left it so";
#endif
    if (cdz_float_mode() == before->mode) return what;
#ifdef CDZ_CHECKS_MXCSR
    _mm_setcsr(before->mode);
#endif
    return "changed the thread's floating-point mode and left it so";
}

#endif
