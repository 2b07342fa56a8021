/* helpers.c - threads that take errands from a queue.
 *
 * Owns: the threads and the queue. A thread is made where no idle one is left and the limit allows it; it stays. Thread:
 * give and take_back [any]. */
#include "base/helpers.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutex.h"
#include "base/thread.h"

struct cdz_helpers {
    cdz_mutex lock;
    pthread_cond_t given;
    cdz_helper_errand *first, **end; /* not begun */
    uint32_t n_waiting;              /* of them */
    uint32_t n_threads, n_idle;
    bool ending;
    pthread_t threads[CDZ_HELPERS];
    void (*done)(void *of);
    void *of;
};

/* The next errand, or NULL: it is over. */
static cdz_helper_errand *next_errand(cdz_helpers *h)
{
    cdz_mutex_lock(&h->lock);
    h->n_idle++;
    while (!h->first && !h->ending) cdz_mutex_wait(&h->lock, &h->given, NULL);
    h->n_idle--;
    cdz_helper_errand *errand = h->first;
    if (errand) {
        h->first = errand->next;
        if (!h->first) h->end = &h->first;
        h->n_waiting--;
    }
    cdz_mutex_unlock(&h->lock);
    return errand;
}

static void *help(void *arg)
{
    cdz_helpers *h = arg;
    sigset_t pipe_only; /* errands write to what others may have closed: an error of theirs, not the program's end */
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only, NULL);
    for (cdz_helper_errand *errand; (errand = next_errand(h));) {
        errand->run(errand->arg);
        atomic_store(&errand->done, true); /* from here on it is the giver's */
        h->done(h->of);
    }
    return NULL;
}

cdz_status cdz_helpers_create(void (*done)(void *of), void *of, cdz_helpers **out, cdz_error *err)
{
    cdz_helpers *h = calloc(1, sizeof *h);
    if (!h) return cdz_err_memory(err, "helper threads");
    cdz_mutex_init(&h->lock);
    pthread_cond_init(&h->given, NULL);
    h->end = &h->first;
    h->done = done;
    h->of = of;
    *out = h;
    return CDZ_OK;
}

void cdz_helpers_free(cdz_helpers *h)
{
    if (!h) return;
    cdz_mutex_lock(&h->lock);
    h->ending = true;
    pthread_cond_broadcast(&h->given);
    cdz_mutex_unlock(&h->lock);
    for (uint32_t i = 0; i < h->n_threads; i++) pthread_join(h->threads[i], NULL);
    pthread_cond_destroy(&h->given);
    cdz_mutex_destroy(&h->lock);
    free(h);
}

/* The lock is held. */
static int add_thread(cdz_helpers *h)
{
    const int wrong = cdz_thread_begin(&h->threads[h->n_threads], help, h);
    h->n_threads += wrong == 0;
    return wrong;
}

cdz_status cdz_helpers_give(cdz_helpers *h, cdz_helper_errand *errand, cdz_error *err)
{
    int wrong = 0;
    cdz_mutex_lock(&h->lock);
    if (h->n_idle <= h->n_waiting && h->n_threads < CDZ_HELPERS) wrong = add_thread(h);
    const bool somebody = h->n_threads > 0;
    if (somebody) {
        errand->next = NULL;
        atomic_store(&errand->done, false);
        *h->end = errand;
        h->end = &errand->next;
        h->n_waiting++;
        pthread_cond_signal(&h->given);
    }
    cdz_mutex_unlock(&h->lock);
    if (somebody) return CDZ_OK;
    return cdz_err(err, CDZ_E_IO, "a helper thread cannot be made: %s", strerror(wrong));
}

bool cdz_helpers_take_back(cdz_helpers *h, cdz_helper_errand *errand)
{
    cdz_mutex_lock(&h->lock);
    cdz_helper_errand **at = &h->first;
    while (*at && *at != errand) at = &(*at)->next;
    const bool found = *at;
    if (found) {
        *at = errand->next;
        if (!*at) h->end = at;
        h->n_waiting--;
    }
    cdz_mutex_unlock(&h->lock);
    return found;
}
