/* ext/draft/thread-check.h - "cadenza.draft.thread-check/1": which thread the plugin's code is on.
 *
 * Scenario. A plugin has helper functions, and threads of its own that read from a server. An assert at the head of a
 * function says where it may be called, and fails in the first test that calls it from elsewhere:
 *
 *     static cdz_status next_batch(cdz_decoder *dec, const cdz_step *step)
 *     {
 *         assert(cdz_thread_is(step, CDZ_THREAD_ENGINE));
 *
 * A thread is what the brackets in these headers name (plugin.h, "Threads"), not one of the operating system: the host's call of
 * an [engine] function makes the calling thread the engine's until that call returns. Where the call of one function is inside
 * that of another (apply, while run waits in cdz_process), the inner one counts. On CDZ_THREAD_OWN only functions marked [any]
 * may be called; `cadenza plugin test` looks at that (check own-threads).
 *
 * A draft: it is no part of the promise of ABI 1.n, and may change. A plugin works without it. */
#ifndef CADENZA_EXT_DRAFT_THREAD_CHECK_H
#define CADENZA_EXT_DRAFT_THREAD_CHECK_H

#include "../../plugin.h"

#define CDZ_EXT_THREAD_CHECK "cadenza.draft.thread-check/1"

typedef enum cdz_thread {
    CDZ_THREAD_OWN =
        0,           /* in no call of the host: the plugin, or a library of its, made this thread */
    CDZ_THREAD_LOAD, /* in a function marked [load] */
    CDZ_THREAD_ENGINE, /* [engine] */
    CDZ_THREAD_ROW,    /* [row]; apply only where the processor declares CDZ_ROWWISE */
    CDZ_THREAD_ANY,    /* [any]: a loader's close */
} cdz_thread;

typedef struct cdz_thread_check {
    uint32_t size;
    /* [any] What the calling thread is now, a cdz_thread. */
    uint32_t (*here)(const cdz_step *step);
} cdz_thread_check;

/* The host's table, or NULL where it has none. */
static inline const cdz_thread_check *cdz_get_thread_check(const cdz_step *step)
{
    return (const cdz_thread_check *)step->host->extension(CDZ_EXT_THREAD_CHECK);
}

/* [any] Whether the calling thread is `thread`; true where the host cannot say. */
static inline bool cdz_thread_is(const cdz_step *step, cdz_thread thread)
{
    const cdz_thread_check *check = cdz_get_thread_check(step);
    return !check || check->here(step) == (uint32_t)thread;
}

#endif
