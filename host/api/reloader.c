/* reloader.c - watches the files of pipelines on a thread of its own, and reloads those whose files have changed.
 *
 * inotify says when to look; what has changed is what stat says, so nothing depends on which events come. Folders are
 * watched, not files, because editors write by renaming. Where there is no inotify, stat is asked every second. A change
 * counts once nothing has changed for quiet_ms. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/thread.h"

enum { QUIET_MS = 200, MAX_QUIET_MS = 3600000, POLL_MS = 1000 };

/* What stat says of a file; all zero: it is not there. */
typedef struct file_mark {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec mtime, ctime;
} file_mark;

typedef struct watched_file {
    char *path;
    file_mark known, seen; /* when it was last read; when it was last looked at */
} watched_file;

typedef struct watched {
    struct watched *next;
    cdz_pipeline *pipeline; /* retained */
    watched_file *files;
    size_t n, cap;
    int64_t due_ms; /* when what has changed will have been still for long enough */
} watched;

struct cdz_reloader {
    cdz_reloader_options options;
    pthread_t thread;
    bool has_thread;
    int events, wake; /* inotify, or -1; what ends the thread */

    cdz_mutex lock;
    pthread_cond_t idle;
    watched *list;
    const cdz_pipeline *busy; /* being reloaded now, without the lock */
    bool stopping;
};

/* --- files -------------------------------------------------------------------------------------------- */

static file_mark mark_of(const char *path)
{
    struct stat s;
    file_mark mark;
    memset(&mark, 0, sizeof mark); /* marks are compared as bytes */
    if (stat(path, &s) != 0) return mark;
    mark.dev = s.st_dev;
    mark.ino = s.st_ino;
    mark.size = s.st_size;
    mark.mtime = s.st_mtim;
    mark.ctime = s.st_ctim;
    return mark;
}

static void clear_files(watched *w)
{
    for (size_t i = 0; i < w->n; i++) free(w->files[i].path);
    w->n = 0;
}

static cdz_status add_file(void *user, const char *path)
{
    watched *w = user;
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->files[i].path, path) == 0) return CDZ_OK;
    if (w->n == w->cap) {
        const size_t cap = w->cap ? 2 * w->cap : 32;
        watched_file *grown = reallocarray(w->files, cap, sizeof *grown);
        if (!grown) return CDZ_E_NOMEM;
        w->files = grown;
        w->cap = cap;
    }
    char *copy = strdup(path);
    if (!copy) return CDZ_E_NOMEM;
    const file_mark mark = mark_of(path);
    w->files[w->n++] = (watched_file){copy, mark, mark};
    return CDZ_OK;
}

/* The folder that a file lies in: it is told of new files and of those renamed into it. Without room for more watches
 * the others, and the next reload, still tell. */
static void watch_folder(const cdz_reloader *r, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    if (folder && r->events >= 0)
        (void)inotify_add_watch(r->events, folder,
                                IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_ATTRIB |
                                    IN_MODIFY);
    free(folder);
}

/* The files of the pipeline as it is now. Those it had and still has keep what is known of them. */
static cdz_status list_files(const cdz_reloader *r, watched *w, cdz_error *err)
{
    watched fresh = {0};
    const cdz_status st = cdz_pipeline_files(w->pipeline, add_file, &fresh, err);
    if (st == CDZ_OK) {
        for (size_t i = 0; i < fresh.n; i++) {
            watch_folder(r, fresh.files[i].path);
            for (size_t k = 0; k < w->n; k++)
                if (strcmp(w->files[k].path, fresh.files[i].path) == 0)
                    fresh.files[i].known = w->files[k].known;
        }
        const watched old = *w;
        w->files = fresh.files;
        w->n = fresh.n;
        w->cap = fresh.cap;
        fresh = old;
    }
    clear_files(&fresh);
    free(fresh.files);
    return st;
}

static bool same(const file_mark *a, const file_mark *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* Has a file changed since it was read? *moving: some have, since they were last looked at. */
static bool look(watched *w, bool *moving)
{
    bool changed = false;
    for (size_t i = 0; i < w->n; i++) {
        watched_file *f = &w->files[i];
        const file_mark now = mark_of(f->path);
        *moving |= !same(&now, &f->seen);
        f->seen = now;
        changed |= !same(&now, &f->known);
    }
    return changed;
}

/* --- reloading ---------------------------------------------------------------------------------------- */

static void tell(const cdz_reloader *r, cdz_pipeline *pipeline, const cdz_error *why)
{
    if (r->options.on_reload) r->options.on_reload(r->options.user, pipeline, why);
}

/* A running request keeps the version before. */
static void on_trouble(void *user, cdz_pipeline *pipeline, const cdz_error *why)
{
    tell(user, pipeline, why);
}

/* Under the lock, which is let go meanwhile: who removes the pipeline waits until it is no longer busy. */
static void reload(cdz_reloader *r, watched *w)
{
    for (size_t i = 0; i < w->n; i++) w->files[i].known = w->files[i].seen;
    cdz_pipeline *pipeline = w->pipeline;
    cdz_error err = {0}, unheard = {0};
    r->busy = pipeline;
    cdz_mutex_unlock(&r->lock);
    const cdz_status st = cdz_pipeline_reload(pipeline, r->options.model, &err);
    if (st != CDZ_OK)
        cdz_err_prefix(&err, "generation %llu goes on",
                       (unsigned long long)cdz_pipeline_generation(pipeline));
    tell(r, pipeline, st == CDZ_OK ? NULL : &err);
    cdz_mutex_lock(&r->lock);
    if (st == CDZ_OK) (void)list_files(r, w, &unheard); /* without memory: the files before */
    r->busy = NULL;
    pthread_cond_broadcast(&r->idle);
}

/* How long to wait for files that have changed only just; -1: none have. */
static int look_at_all(cdz_reloader *r)
{
    int wait_ms = -1;
    cdz_mutex_lock(&r->lock);
    for (watched *w = r->list; w && !r->stopping; w = w->next) {
        const int64_t now = (int64_t)(cdz_now_s() * 1000);
        bool moving = false;
        const bool changed = look(w, &moving);
        if (moving) w->due_ms = now + r->options.quiet_ms;
        if (changed && now >= w->due_ms)
            reload(r, w);
        else if (changed && (wait_ms < 0 || w->due_ms - now < wait_ms))
            wait_ms = (int)(w->due_ms - now);
    }
    cdz_mutex_unlock(&r->lock);
    return wait_ms;
}

static void drain(int fd)
{
    char events[4096];
    while (read(fd, events, sizeof events) > 0) {
    }
}

static void *watch(void *user)
{
    cdz_reloader *r = user;
    struct pollfd fds[] = {{.fd = r->wake, .events = POLLIN}, {.fd = r->events, .events = POLLIN}};
    int wait_ms = -1;
    for (;;) {
        const int n = poll(fds, 2, wait_ms >= 0 || r->events >= 0 ? wait_ms : POLL_MS);
        if (n < 0 && errno != EINTR) break;
        if (n > 0 && fds[0].revents) break;
        if (n > 0 && fds[1].revents) drain(r->events);
        wait_ms = look_at_all(r);
    }
    return NULL;
}

/* --- life ---------------------------------------------------------------------------------------------- */

static cdz_status start(cdz_reloader *r, cdz_error *err)
{
    r->events = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    r->wake = eventfd(0, EFD_CLOEXEC);
    if (r->wake < 0)
        return cdz_err(err, CDZ_E_IO, "reloading: no descriptor to wake a thread by: %s",
                       strerror(errno));
    const int failed = cdz_thread_begin(&r->thread, watch, r);
    if (failed) return cdz_err(err, CDZ_E_NOMEM, "reloading: no thread: %s", strerror(failed));
    r->has_thread = true;
    return CDZ_OK;
}

cdz_status cdz_reloader_open(const cdz_reloader_options *options, cdz_reloader **out, cdz_error *err)
{
    cdz_reloader_options given = {0};
    CDZ_TRY(cdz_runtime_take_struct(options, "cdz_reloader_options", &given, sizeof given, err));
    cdz_reloader *r = calloc(1, sizeof *r);
    if (!r) return cdz_err(err, CDZ_E_NOMEM, "reloading: out of memory");
    r->options = given;
    if (r->options.quiet_ms == 0) r->options.quiet_ms = QUIET_MS;
    if (r->options.quiet_ms > MAX_QUIET_MS) r->options.quiet_ms = MAX_QUIET_MS;
    r->events = r->wake = -1;
    cdz_mutex_init(&r->lock);
    pthread_cond_init(&r->idle, NULL);
    const cdz_status st = start(r, err);
    if (st == CDZ_OK)
        *out = r;
    else
        cdz_reloader_close(r);
    return st;
}

static void free_watched(watched *w)
{
    clear_files(w);
    free(w->files);
    cdz_pipeline_release(w->pipeline);
    free(w);
}

cdz_status cdz_reloader_add(cdz_reloader *reloader, cdz_pipeline *pipeline, cdz_error *err)
{
    watched *w = calloc(1, sizeof *w);
    if (!w) return cdz_err(err, CDZ_E_NOMEM, "reloading: out of memory");
    cdz_pipeline_retain(pipeline);
    w->pipeline = pipeline;
    const cdz_status st = list_files(reloader, w, err);
    if (st != CDZ_OK) {
        free_watched(w);
        return st;
    }
    cdz_pipeline_listen(pipeline, on_trouble, reloader);
    cdz_mutex_lock(&reloader->lock);
    w->next = reloader->list;
    reloader->list = w;
    cdz_mutex_unlock(&reloader->lock);
    return CDZ_OK;
}

/* Takes the pipeline, or any for NULL, out of the list once it is not busy. */
static watched *take(cdz_reloader *r, const cdz_pipeline *pipeline)
{
    cdz_mutex_lock(&r->lock);
    while (r->busy && (!pipeline || r->busy == pipeline)) cdz_mutex_wait(&r->lock, &r->idle, NULL);
    watched **at = &r->list;
    while (*at && pipeline && (*at)->pipeline != pipeline) at = &(*at)->next;
    watched *taken = *at;
    if (taken) *at = taken->next;
    cdz_mutex_unlock(&r->lock);
    return taken;
}

void cdz_reloader_remove(cdz_reloader *reloader, cdz_pipeline *pipeline)
{
    watched *w = reloader && pipeline ? take(reloader, pipeline) : NULL;
    if (!w) return;
    cdz_pipeline_listen(pipeline, NULL, NULL);
    free_watched(w);
}

void cdz_reloader_close(cdz_reloader *reloader)
{
    if (!reloader) return;
    if (reloader->has_thread) {
        cdz_mutex_lock(&reloader->lock);
        reloader->stopping = true;
        cdz_mutex_unlock(&reloader->lock);
        const uint64_t one = 1;
        ssize_t written;
        do written = write(reloader->wake, &one, sizeof one);
        while (written < 0 && errno == EINTR);
        pthread_join(reloader->thread, NULL);
    }
    for (watched *w; (w = take(reloader, NULL)) != NULL;) {
        cdz_pipeline_listen(w->pipeline, NULL, NULL);
        free_watched(w);
    }
    if (reloader->events >= 0) close(reloader->events);
    if (reloader->wake >= 0) close(reloader->wake);
    pthread_cond_destroy(&reloader->idle);
    cdz_mutex_destroy(&reloader->lock);
    free(reloader);
}
