/* serve.c - the server as a whole: opening, stopping, closing. */
#include "serve/serve.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "serve/exchange.h"

/* --- life --------------------------------------------------------------------------------------------------------- */

static cdz_status start_workers(cdz_serve *serve, cdz_error *err)
{
    while (serve->n_workers < sizeof serve->workers / sizeof *serve->workers) {
        const int failed =
            pthread_create(&serve->workers[serve->n_workers], NULL, cdz_serve_work, serve);
        if (failed) return cdz_err(err, CDZ_E_IO, "cannot start a thread: %s", strerror(failed));
        serve->n_workers++;
    }
    return CDZ_OK;
}

enum {
    BODY_RATE = 16 << 10,  /* bytes a second */
    MOST_REQUESTS = 10000, /* of a connection */
    LAST_PATIENCE = 3,     /* seconds for a client to read, once all requests have been ended */
};

static cdz_status open_door(cdz_serve *serve, cdz_error *err)
{
    const cdz_door_options options = {
        .host = serve->options.host,
        .port = serve->options.port,
        .unix_path = serve->options.unix_path,
        .listener = serve->options.listener,
        .limits = cdz_serve_door_limits(&serve->options.rules),
        .body_rate = BODY_RATE,
        .requests = MOST_REQUESTS,
        .enters = cdz_web_enters,
        .leaves = cdz_web_leaves,
        .second = cdz_web_second,
        .user = serve,
    };
    return cdz_door_open(&options, &serve->door, err);
}

static cdz_status open_all(cdz_serve *serve, cdz_error *err)
{
    CDZ_TRY(cdz_serve_begin_rules(serve, &serve->options.rules, err));
    CDZ_TRY(open_door(serve, err));
    CDZ_TRY(start_workers(serve, err));
    CDZ_TRY(cdz_web_open(serve, err));
    return cdz_door_run(serve->door, err);
}

cdz_status cdz_serve_open(const cdz_serve_options *options, cdz_serve **out, cdz_error *err)
{
    cdz_serve *serve = calloc(1, sizeof *serve);
    if (!serve) return cdz_err_memory(err, "the server");
    serve->options = *options;
    serve->created = (int64_t)time(NULL);
    serve->tasks_end = &serve->tasks;
    cdz_mutex_init(&serve->rules_lock);
    cdz_mutex_init(&serve->change_lock);
    cdz_mutex_init(&serve->folder_lock);
    cdz_served_begin(serve);
    cdz_mutex_init(&serve->lock);
    cdz_mutex_init(&serve->metrics.lock);
    pthread_cond_init(&serve->changed, NULL);
    const cdz_status status = open_all(serve, err);
    if (status == CDZ_OK)
        *out = serve;
    else
        cdz_serve_close(serve);
    return status;
}

uint16_t cdz_serve_port(const cdz_serve *serve)
{
    return cdz_door_port(serve->door);
}

void cdz_serve_address(const cdz_serve *serve, char *out, size_t bytes)
{
    cdz_door_address(serve->door, out, bytes);
}

bool cdz_serve_is_loopback(const cdz_serve *serve)
{
    return cdz_door_is_loopback(serve->door) || cdz_door_is_file(serve->door);
}

bool cdz_serve_has_keys(cdz_serve *serve)
{
    cdz_mutex_lock(&serve->rules_lock);
    const bool has = serve->rules->keys.n > 0;
    cdz_mutex_unlock(&serve->rules_lock);
    return has;
}

static double drain_time(cdz_serve *serve)
{
    cdz_mutex_lock(&serve->rules_lock);
    const double s = serve->rules->is.drain_s;
    cdz_mutex_unlock(&serve->rules_lock);
    return s;
}

/* Everything that runs ends: their streams with an error event. */
static void cancel_all(cdz_serve *serve)
{
    uint64_t *ids = NULL;
    size_t n = 0, room = 0;
    cdz_mutex_lock(&serve->lock);
    for (cdz_http_exchange *e = serve->exchanges; e; e = e->next) {
        cdz_mutex_lock(&e->lock);
        for (size_t i = 0; i < e->n_runs; i++) {
            if (!e->runs[i].id || e->runs[i].done) continue;
            uint64_t *grown = n < room ? ids : realloc(ids, (room = 2 * n + 64) * sizeof *ids);
            if (!grown) break;
            ids = grown;
            ids[n++] = e->runs[i].id;
        }
        cdz_mutex_unlock(&e->lock);
    }
    cdz_mutex_unlock(&serve->lock);
    for (size_t i = 0; i < n; i++) cdz_cancel(serve->options.runtime, ids[i], NULL);
    free(ids);
}

/* Whoever does not read the end of an answer keeps nobody waiting for it. */
static void hurry_readers(cdz_serve *serve)
{
    cdz_mutex_lock(&serve->rules_lock);
    cdz_door_limits limits = cdz_serve_door_limits(&serve->rules->is);
    cdz_mutex_unlock(&serve->rules_lock);
    if (limits.unread_s > LAST_PATIENCE) limits.unread_s = LAST_PATIENCE;
    cdz_door_change(serve->door, &limits);
}

void cdz_serve_stop(cdz_serve *serve)
{
    if (atomic_exchange(&serve->draining, true)) {
        atomic_store(&serve->ending, true);
        hurry_readers(serve);
        cancel_all(serve);
    } else {
        const double until = cdz_now_s() + drain_time(serve);
        atomic_store(&serve->drain_until, (unsigned long long)(until * 1e6));
    }
    cdz_door_drain(serve->door);
    cdz_mutex_lock(&serve->lock);
    pthread_cond_broadcast(&serve->changed);
    cdz_mutex_unlock(&serve->lock);
}

void cdz_serve_wait(cdz_serve *serve)
{
    cdz_mutex_lock(&serve->lock);
    while (!atomic_load(&serve->draining) || serve->n_held)
        cdz_mutex_wait(&serve->lock, &serve->changed, NULL);
    cdz_mutex_unlock(&serve->lock);
    /* The last answers are on their way to their readers. */
    static const struct timespec moment = {0, 10000000};
    for (int i = 0; i < 300 && cdz_door_n_guests(serve->door); i++) nanosleep(&moment, NULL);
}

cdz_status cdz_serve_save(cdz_serve *serve)
{
    return cdz_served_save(serve);
}

static void stop_workers(cdz_serve *serve)
{
    cdz_mutex_lock(&serve->lock);
    serve->closing = true;
    pthread_cond_broadcast(&serve->changed);
    cdz_mutex_unlock(&serve->lock);
    while (serve->n_workers) pthread_join(serve->workers[--serve->n_workers], NULL);
}

void cdz_serve_close(cdz_serve *serve)
{
    if (!serve) return;
    atomic_store(&serve->draining, true);
    if (serve->door) {
        cancel_all(serve);
        cdz_door_stop(serve->door);
        if (serve->daemon)
            cdz_serve_wait(serve); /* what was running has ended, and nobody reads the answers */
    }
    stop_workers(serve);
    cdz_web_close(serve);
    cdz_door_close(serve->door);
    cdz_served_end(serve);
    cdz_serve_free_folder(serve);
    cdz_serve_end_rules(serve);
    cdz_mutex_destroy(&serve->folder_lock);
    cdz_mutex_destroy(&serve->change_lock);
    cdz_mutex_destroy(&serve->rules_lock);
    pthread_cond_destroy(&serve->changed);
    cdz_mutex_destroy(&serve->metrics.lock);
    cdz_mutex_destroy(&serve->lock);
    free(serve);
}
