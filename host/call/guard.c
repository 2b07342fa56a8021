/* guard.c - where a thread notes whom it calls, and the locale before and after a call. */
#include "call/guard.h"

#include <string.h>

_Thread_local cdz_calling cdz_calling_now;

void cdz_locale_note(locale_t *locale, char names[static CDZ_LOCALE_NAMES])
{
    const char *now = setlocale(LC_ALL, NULL);
    *locale = uselocale((locale_t)0);
    const size_t len = now ? strlen(now) : 0;
    if (len >= CDZ_LOCALE_NAMES)
        names[0] = '\0';
    else
        memcpy(names, now ? now : "", len + 1);
}

bool cdz_locale_changed(locale_t locale, const char *names)
{
    bool changed = false;
    if (uselocale((locale_t)0) != locale) {
        uselocale(locale);
        changed = true;
    }
    const char *now = setlocale(LC_ALL, NULL);
    if (!names[0] || !now || strcmp(now, names) == 0) return changed;
    (void)setlocale(LC_ALL, names);
    return true;
}
