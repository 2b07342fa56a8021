/* assert.h - promises that our own code makes to itself, looked at in checked builds (CADENZA_CHECKED, which the presets
 * of the sanitizers and of the fuzzer set); in others they cost nothing, and their conditions are not evaluated.
 *
 * Three kinds of wrong are never mixed: bad input is a status, what a plugin does wrong is a status, a promise that we
 * broke is an assert. Functions that walk a whole structure are named cdz_..._check and do nothing in other builds. */
#ifndef CDZ_HOST_BASE_ASSERT_H
#define CDZ_HOST_BASE_ASSERT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef CDZ_CHECKED
#define cdz_assert(condition)                                                                      \
    ((condition) ? (void)0 : cdz_assert_broken(#condition, __FILE__, __LINE__, __func__))
#else
#define cdz_assert(condition) ((void)sizeof((condition) ? 1 : 0))
#endif

/* Says where and ends the process. */
_Noreturn void cdz_assert_broken(const char *condition, const char *file, int line,
                                 const char *function);

/* --- whose thread this is ---------------------------------------------------------------------------------------- */

/* What "[engine]" in a header means: the thread that the engine made, or a fibre of it, which may be a thread of its own
 * to which the engine's has passed the baton (run/loop/fibre.h). */
#ifdef CDZ_CHECKED
extern _Thread_local const void *cdz_thread_serves; /* the engine; NULL: none */

static inline const void *cdz_thread_serve(const void *engine) /* returns whom it served */
{
    const void *before = cdz_thread_serves;
    cdz_thread_serves = engine;
    return before;
}
static inline const void *cdz_thread_serves_now(void)
{
    return cdz_thread_serves;
}
/* A loop that is tried without an engine has none. */
#define cdz_assert_serves(engine) cdz_assert(!(engine) || cdz_thread_serves == (engine))
#else
static inline const void *cdz_thread_serve(const void *engine)
{
    (void)engine;
    return NULL;
}
static inline const void *cdz_thread_serves_now(void)
{
    return NULL;
}
#define cdz_assert_serves(engine) ((void)(engine))
#endif

#endif
