/* thread.c - see thread.h. Owns nothing. */
#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

int cdz_thread_begin(pthread_t *thread, void *(*work)(void *arg), void *arg)
{
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    static const int writes[] = {SIGPIPE, SIGXFSZ};
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&all, faults[i]);
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++)
        if (!sigismember(&before, writes[i])) sigdelset(&all, writes[i]);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    const int wrong = pthread_create(thread, NULL, work, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return wrong;
}
