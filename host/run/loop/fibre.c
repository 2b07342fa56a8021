/* fibre.c - chooses how fibres are made, and forwards.
 *
 * Owns: which fibre a thread is in, and whom the thread serves meanwhile (base/assert.h). Not: stacks and batons
 * (fibre_ucontext.c, fibre_thread.c). Invariant: resumed by the engine's thread alone, and not once it has ended. */
#include "run/loop/fibre.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/sanitized.h"

#if CDZ_WITH_TSAN || !defined(__GLIBC__)
#define DEFAULT_WAY (&cdz_fibre_threads)
#else
#define DEFAULT_WAY (&cdz_fibre_ucontext)
#endif

static const cdz_fibre_way *const ways[] = {
#if defined(__GLIBC__)
    &cdz_fibre_ucontext,
#endif
    &cdz_fibre_threads,
};

static const cdz_fibre_way *find_way(const char *name)
{
    if (!name) return DEFAULT_WAY;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i]->name, name) == 0) return ways[i];
    return NULL;
}

cdz_status cdz_fibres_create(const char *way, cdz_fibres **out, cdz_error *err)
{
    const cdz_fibre_way *found = find_way(way);
    if (!found)
        return cdz_err(err, CDZ_E_USAGE,
                       "no fibres of the kind \"%s\" here: expected \"ucontext\" or \"threads\"",
                       way);
    cdz_fibres *fibres = calloc(1, sizeof *fibres);
    if (!fibres) return cdz_err_memory(err, "fibres");
    fibres->way = found;
    *out = fibres;
    return CDZ_OK;
}

void cdz_fibres_free(cdz_fibres *fibres)
{
    if (!fibres) return;
    fibres->way->drop_kept(fibres);
    free(fibres);
}

cdz_status cdz_fibre_start(cdz_fibres *fibres, void (*fn)(void *arg), void *arg, cdz_fibre **out,
                           cdz_error *err)
{
    CDZ_TRY(fibres->way->start(fibres, out, err));
    (*out)->fibres = fibres;
    (*out)->fn = fn;
    (*out)->arg = arg;
    (*out)->ended = false;
    (*out)->errand = NULL;
    return CDZ_OK;
}

_Thread_local cdz_fibre *cdz_fibre_now;

void cdz_fibre_run(cdz_fibre *fibre)
{
    cdz_thread_serve(fibre->serves);
    cdz_fibre_now = fibre;
    fibre->fn(fibre->arg);
}

/* What the fibre left to do, if it did: it still counts as the one that the thread is in. */
static bool run_errand(cdz_fibre *fibre)
{
    if (!fibre->errand) return false;
    void (*const fn)(void *arg) = fibre->errand;
    fibre->errand = NULL;
    cdz_calling_now = fibre->errand_of;
    fn(fibre->errand_arg);
    return true;
}

void cdz_fibre_outside(void (*fn)(void *arg), void *arg)
{
    cdz_fibre *const fibre = cdz_fibre_now;
    if (!fibre) {
        fn(arg);
        return;
    }
    fibre->errand = fn;
    fibre->errand_arg = arg;
    fibre->errand_of = cdz_calling_now;
    cdz_fibre_suspend(fibre);
}

void cdz_fibre_resume(cdz_fibre *fibre)
{
    cdz_assert(!cdz_fibre_now && !fibre->ended);
    const cdz_calling here = cdz_calling_now;
    fibre->serves = cdz_thread_serves_now();
    cdz_fibre_now = fibre;
    do fibre->fibres->way->resume(fibre);
    while (run_errand(fibre));
    cdz_fibre_now = NULL;
    cdz_calling_now = here;
}

void cdz_fibre_suspend(cdz_fibre *fibre)
{
    cdz_assert(cdz_fibre_now == fibre);
    const cdz_calling here = cdz_calling_now;
    fibre->fibres->way->suspend(fibre);
    cdz_calling_now = here;
}

bool cdz_fibre_ended(const cdz_fibre *fibre)
{
    return fibre->ended;
}

void cdz_fibre_free(cdz_fibre *fibre)
{
    if (fibre) fibre->fibres->way->free(fibre);
}
