/* exchange.c - the life of a request and its answer, and the workers' queue. */
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "serve/message.h"

cdz_http_exchange *cdz_serve_exchange_new(cdz_serve *serve, cdz_guest *guest,
                                          struct MHD_Connection *connection)
{
    cdz_http_exchange *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->serve = serve;
    e->guest = guest;
    e->connection = connection;
    e->arrived = e->spoke = cdz_now_s();
    e->created = (int64_t)time(NULL);
    atomic_store(&e->holders, 1);
    cdz_mutex_init(&e->lock);
    cdz_mutex_init(&e->pace_lock);
    cdz_mutex_lock(&serve->lock);
    e->next = serve->exchanges;
    e->prev = &serve->exchanges;
    if (e->next) e->next->prev = &e->next;
    serve->exchanges = e;
    serve->n_held++;
    cdz_mutex_unlock(&serve->lock);
    return e;
}

static void free_runs(cdz_http_exchange *e)
{
    for (size_t i = 0; i < e->n_runs; i++) {
        for (uint32_t r = 0; e->runs[i].texts && r < e->runs[i].rows; r++)
            cdz_buf_free(&e->runs[i].texts[r].text);
        for (uint32_t r = 0; e->runs[i].trails && r < e->runs[i].rows; r++)
            cdz_trail_free(&e->runs[i].trails[r]);
        free(e->runs[i].texts);
        free(e->runs[i].trails);
        free(e->runs[i].best);
        cdz_message_close(&e->runs[i]);
        cdz_result_free(e->runs[i].result);
    }
    free(e->runs);
}

void cdz_serve_exchange_release(cdz_http_exchange *e)
{
    cdz_serve *serve = e->serve;
    if (atomic_fetch_sub(&e->holders, 1) != 1) return;
    cdz_metrics_status(&serve->metrics, e->route ? e->route->path : "other", e->method, e->status);
    cdz_serve_log_request(e);
    free_runs(e);
    cdz_served_leave(e->served);
    if (e->asked) cdz_ask_free(&e->ask);
    cdz_buf_free(&e->body);
    cdz_buf_free(&e->out);
    cdz_mutex_lock(&serve->lock);
    *e->prev = e->next;
    if (e->next) e->next->prev = e->prev;
    serve->n_held--;
    pthread_cond_broadcast(&serve->changed);
    cdz_mutex_unlock(&serve->lock);
    cdz_mutex_destroy(&e->lock);
    cdz_mutex_destroy(&e->pace_lock);
    free(e);
}

void cdz_serve_exchange_wake(cdz_http_exchange *e)
{
    cdz_assert_holds(&e->lock);
    e->spoke = cdz_now_s();
    if (!e->suspended || !(e->ready || e->gone)) return;
    e->suspended = false;
    MHD_resume_connection(e->connection);
}

void cdz_serve_exchange_open(cdz_http_exchange *e)
{
    cdz_assert_holds(&e->lock);
    if (!e->streaming || !e->status || !e->heard || e->ready) return;
    e->ready = true;
    cdz_serve_exchange_wake(e);
}

void cdz_serve_exchange_reply(cdz_http_exchange *e, int status, const char *content_type)
{
    cdz_mutex_lock(&e->lock);
    e->status = status;
    e->content_type = content_type;
    e->ready = e->whole = true;
    cdz_serve_exchange_wake(e);
    cdz_mutex_unlock(&e->lock);
}

void cdz_serve_exchange_refuse(cdz_http_exchange *e)
{
    cdz_buf text = {0};
    cdz_serve_fault_write(&e->fault, &text);
    cdz_mutex_lock(&e->lock);
    cdz_buf_free(&e->out);
    e->out = text;
    cdz_mutex_unlock(&e->lock);
    cdz_serve_exchange_reply(e, e->fault.status, "application/json");
}

bool cdz_serve_exchange_is_gone(cdz_http_exchange *e)
{
    cdz_mutex_lock(&e->lock);
    const bool gone = e->gone;
    cdz_mutex_unlock(&e->lock);
    return gone;
}

/* The engine's id of a run that has not ended; 0: there is none. */
static uint64_t open_run(cdz_http_exchange *e, size_t i)
{
    cdz_mutex_lock(&e->lock);
    const uint64_t id = e->runs[i].done ? 0 : e->runs[i].id;
    cdz_mutex_unlock(&e->lock);
    return id;
}

void cdz_serve_exchange_cancel(cdz_http_exchange *e)
{
    cdz_mutex_lock(&e->lock);
    const size_t n = e->n_runs;
    cdz_mutex_unlock(&e->lock);
    for (size_t i = 0; i < n; i++) {
        const uint64_t id = open_run(e, i);
        if (id) cdz_cancel(e->serve->options.runtime, id, NULL);
    }
}

void cdz_serve_exchange_abandon(cdz_http_exchange *e)
{
    cdz_mutex_lock(&e->lock);
    const bool first = !e->gone;
    e->gone = true;
    cdz_serve_exchange_wake(e);
    cdz_mutex_unlock(&e->lock);
    if (first) atomic_fetch_add(&e->serve->metrics.disconnects, 1);
    cdz_serve_exchange_cancel(e);
}

/* --- readers that are slow ---------------------------------------------------------------------------------------- */

bool cdz_serve_exchange_weigh(cdz_http_exchange *e)
{
    cdz_assert_holds(&e->lock);
    const size_t unread = e->out.len - e->out_at;
    const uint64_t most = atomic_load(&e->serve->most_unread);
    const bool pauses = e->streaming && (e->paused ? unread > most / 2 : unread > most);
    if (pauses == e->paused) return false;
    e->paused = pauses;
    if (!pauses) e->last_token = 0; /* what passed till the next one is the reader's time */
    return true;
}

/* One at a time, so that the last one tells what is so at the end. */
void cdz_serve_exchange_pace(cdz_http_exchange *e)
{
    cdz_mutex_lock(&e->pace_lock);
    cdz_mutex_lock(&e->lock);
    const bool paused = e->paused;
    const size_t n = e->n_runs;
    cdz_mutex_unlock(&e->lock);
    for (size_t i = 0; i < n; i++) {
        const uint64_t id = open_run(e, i);
        if (id) (void)(paused ? cdz_pause : cdz_resume)(e->serve->options.runtime, id, NULL);
    }
    cdz_mutex_unlock(&e->pace_lock);
}

/* --- workers ---------------------------------------------------------------------------------------------------- */

void cdz_serve_push(cdz_http_exchange *e, void (*run)(cdz_http_exchange *exchange))
{
    cdz_serve *serve = e->serve;
    e->task = (cdz_errand){.exchange = e, .run = run};
    cdz_mutex_lock(&serve->lock);
    *serve->tasks_end = &e->task;
    serve->tasks_end = &e->task.next;
    pthread_cond_broadcast(&serve->changed);
    cdz_mutex_unlock(&serve->lock);
}

static cdz_errand *next_task(cdz_serve *serve)
{
    cdz_mutex_lock(&serve->lock);
    while (!serve->tasks && !serve->closing) cdz_mutex_wait(&serve->lock, &serve->changed, NULL);
    cdz_errand *task = serve->tasks;
    if (task) serve->tasks = task->next;
    if (!serve->tasks) serve->tasks_end = &serve->tasks;
    cdz_mutex_unlock(&serve->lock);
    return task;
}

void *cdz_serve_work(void *user)
{
    cdz_serve *serve = user;
    cdz_errand *task;
    while ((task = next_task(serve)) != NULL) task->run(task->exchange);
    return NULL;
}
