/* thread.c - see thread.h. Owns nothing. */
#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

int cdz_thread_begin(pthread_t *thread, void *(*work)(void *arg), void *arg)
{
    static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPIPE, SIGXFSZ};
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) sigdelset(&all, own[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int wrong = pthread_create(thread, NULL, work, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return wrong;
}
