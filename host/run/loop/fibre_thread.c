/* fibre_thread.c - fibres as threads that hand a baton to and fro: exactly one side runs at any time. */
#include <pthread.h>
#include <stdlib.h>

#include "base/stack.h"
#include "run/loop/fibre.h"

typedef struct runner {
    cdz_fibre base;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t passed;
    bool started, inside; /* the thread exists; it has the baton */
    bool never;           /* freed before it was resumed */
} runner;

/* Gives the baton to one side and waits until it comes back. */
static void pass(runner *r, bool inside)
{
    pthread_mutex_lock(&r->lock);
    r->inside = inside;
    pthread_cond_broadcast(&r->passed);
    while (r->inside == inside) pthread_cond_wait(&r->passed, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

static void *run(void *arg)
{
    runner *r = arg;
    pthread_mutex_lock(&r->lock);
    while (!r->inside) pthread_cond_wait(&r->passed, &r->lock);
    pthread_mutex_unlock(&r->lock);

    if (!r->never) {
        void *spare = cdz_stack_begin();
        cdz_fibre_run(&r->base);
        cdz_stack_end(spare);
    }

    pthread_mutex_lock(&r->lock);
    r->base.ended = true;
    r->inside = false;
    pthread_cond_broadcast(&r->passed);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static void destroy(runner *r)
{
    pthread_cond_destroy(&r->passed);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static cdz_status start(cdz_fibres *fibres, cdz_fibre **out, cdz_error *err)
{
    (void)fibres;
    runner *r = calloc(1, sizeof *r);
    if (!r) return cdz_err_memory(err, "a fibre");
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->passed, NULL);
    if (pthread_create(&r->thread, NULL, run, r) != 0) {
        destroy(r);
        return cdz_err(err, CDZ_E_NOMEM, "the system gives no thread for a fibre");
    }
    *out = &r->base;
    return CDZ_OK;
}

static void resume(cdz_fibre *fibre)
{
    runner *r = (runner *)fibre;
    r->started = true;
    pass(r, true);
}

static void suspend(cdz_fibre *fibre)
{
    pass((runner *)fibre, false);
}

static void finish(cdz_fibre *fibre)
{
    runner *r = (runner *)fibre;
    if (!r->started) {
        r->never = true;
        pass(r, true);
    }
    pthread_join(r->thread, NULL);
    destroy(r);
}

static void drop_kept(cdz_fibres *fibres)
{
    (void)fibres;
}

const cdz_fibre_way cdz_fibre_threads = {"threads", start, resume, suspend, finish, drop_kept};
