/* serve.c - the server as a whole: opening, stopping, closing. */
#include "serve/serve.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/exchange.h"

enum { MOST_GUESTS = 1024, MOST_BODY = 8 << 20 };

/* --- pipelines ------------------------------------------------------------------------------------------------ */

static bool find_pipeline(void *user, const char *name, cdz_pipeline **out, const char **file)
{
    const cdz_serve *serve = user;
    for (size_t i = 0; i < serve->n_pipelines; i++) {
        if (strcmp(serve->pipelines[i].name, name) != 0) continue;
        *out = serve->pipelines[i].pipeline;
        *file = serve->pipelines[i].path;
        return true;
    }
    return false;
}

/* "story.ini" becomes "story"; NULL: another kind of file, or no memory. */
static char *name_of(const char *file)
{
    const size_t n = strlen(file);
    if (n <= 4 || strcmp(file + n - 4, ".ini") != 0 || file[0] == '.') return NULL;
    return strndup(file, n - 4);
}

static cdz_status add_pipeline(cdz_serve *serve, const char *file, char *name, cdz_error *err)
{
    char *joined = NULL;
    struct cdz_pipeline_file *grown =
        realloc(serve->pipelines, (serve->n_pipelines + 1) * sizeof *grown);
    if (grown) serve->pipelines = grown;
    if (!grown || asprintf(&joined, "%s/%s", serve->options.pipelines, file) < 0) {
        free(name);
        return cdz_err(err, CDZ_E_NOMEM, "out of memory for pipelines");
    }
    struct cdz_pipeline_file *added = &grown[serve->n_pipelines++];
    *added = (struct cdz_pipeline_file){.name = name, .path = realpath(joined, NULL)};
    free(joined);
    if (!added->path)
        return cdz_err(err, CDZ_E_IO, "%s/%s: %s", serve->options.pipelines, file, strerror(errno));
    return cdz_pipeline_load(serve->options.runtime, added->path, &added->pipeline, err);
}

static cdz_status load_pipelines(cdz_serve *serve, cdz_error *err)
{
    cdz_status status = CDZ_OK;
    const struct dirent *entry;
    const char *folder = serve->options.pipelines;
    if (!folder) return CDZ_OK;
    DIR *dir = opendir(folder);
    if (!dir) return cdz_err(err, CDZ_E_IO, "--pipelines %s: %s", folder, strerror(errno));
    while (status == CDZ_OK && (entry = readdir(dir)) != NULL) {
        char *name = name_of(entry->d_name);
        if (name) status = add_pipeline(serve, entry->d_name, name, err);
    }
    closedir(dir);
    return status;
}

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

static cdz_status open_door(cdz_serve *serve, cdz_error *err)
{
    const cdz_door_options options = {
        .host = serve->options.host,
        .port = serve->options.port,
        .most = MOST_GUESTS,
        .body = MOST_BODY,
        .head_s = 15,
        .body_s = 60,
        .body_rate = 16 << 10,
        .idle_s = 75,
        .unread_s = 120,
        .requests = 10000,
        .enters = cdz_web_enters,
        .leaves = cdz_web_leaves,
        .second = cdz_web_second,
        .user = serve,
    };
    return cdz_door_open(&options, &serve->door, err);
}

static cdz_status open_all(cdz_serve *serve, cdz_error *err)
{
    if (serve->options.key_file) CDZ_TRY(cdz_keys_read(serve->options.key_file, &serve->keys, err));
    CDZ_TRY(load_pipelines(serve, err));
    CDZ_TRY(open_door(serve, err));
    CDZ_TRY(start_workers(serve, err));
    CDZ_TRY(cdz_web_open(serve, err));
    return cdz_door_run(serve->door, err);
}

cdz_status cdz_serve_open(const cdz_serve_options *options, cdz_serve **out, cdz_error *err)
{
    cdz_serve *serve = calloc(1, sizeof *serve);
    if (!serve) return cdz_err(err, CDZ_E_NOMEM, "out of memory for the server");
    serve->options = *options;
    serve->created = (int64_t)time(NULL);
    serve->tasks_end = &serve->tasks;
    serve->world = (cdz_ask_world){.runtime = options->runtime,
                                   .model = options->model,
                                   .model_id = options->model_id,
                                   .pipeline = find_pipeline,
                                   .user = serve};
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

bool cdz_serve_is_loopback(const cdz_serve *serve)
{
    return cdz_door_is_loopback(serve->door);
}

bool cdz_serve_has_keys(const cdz_serve *serve)
{
    return serve->keys.n > 0;
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

void cdz_serve_stop(cdz_serve *serve)
{
    if (atomic_exchange(&serve->draining, true)) {
        atomic_store(&serve->ending, true);
        cancel_all(serve);
    } else {
        const double until = cdz_now_s() + serve->options.drain_s;
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
    for (size_t i = 0; i < serve->n_pipelines; i++) {
        cdz_pipeline_free(serve->pipelines[i].pipeline);
        free(serve->pipelines[i].name);
        free(serve->pipelines[i].path);
    }
    free(serve->pipelines);
    cdz_keys_free(&serve->keys);
    pthread_cond_destroy(&serve->changed);
    cdz_mutex_destroy(&serve->metrics.lock);
    cdz_mutex_destroy(&serve->lock);
    free(serve);
}
