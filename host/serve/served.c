/* served.c - models that are loaded when they are asked for, and let go when they are not. See served.h. */
#include "serve/served.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "serve/exchange.h"

static void free_served(cdz_served *s)
{
    if (s->own) cdz_model_close(s->model);
    cdz_serve_saved_free(&s->saved);
    free(s->id);
    free(s->path);
    free(s->how);
    free(s);
}

static cdz_served *new_served(cdz_serve *serve, const cdz_serve_model *from)
{
    cdz_served *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->serve = serve;
    s->id = strdup(from->id);
    s->path = strdup(from->path ? from->path : "");
    s->how = from->how ? strdup(from->how) : NULL;
    s->left_s = cdz_now_s();
    if (s->id && s->path && (s->how || !from->how)) return s;
    free_served(s);
    return NULL;
}

static cdz_status take_model(cdz_served *s, cdz_model *model, bool own, cdz_error *err)
{
    cdz_ask_world world = {.runtime = s->serve->options.runtime,
                           .model = model,
                           .model_id = s->id,
                           .pipeline = cdz_serve_find_pipeline,
                           .user = s->serve};
    CDZ_TRY(cdz_model_answer_form(model, &world.answers, err));
    s->world = world;
    s->model = model;
    s->own = own;
    s->state = CDZ_SERVED_READY;
    s->context = cdz_model_context(model);
    s->left_s = cdz_now_s();
    return CDZ_OK;
}

void cdz_served_begin(cdz_serve *serve)
{
    cdz_mutex_init(&serve->served.lock);
    pthread_cond_init(&serve->served.changed, NULL);
}

/* --- loading ------------------------------------------------------------------------------------------------- */

/* Those that waited go on, or hear why not. */
static void unpark(cdz_http_exchange *e, bool good)
{
    while (e) {
        cdz_http_exchange *next = e->next_parked;
        if (good) {
            cdz_serve_push(e, e->route->answer);
        } else {
            cdz_serve_fault_set(&e->fault, 503, "model", NULL, "the model could not be loaded");
            cdz_serve_exchange_refuse(e);
            cdz_serve_exchange_release(e);
        }
        e = next;
    }
}

static void read_saved(cdz_served *s, cdz_model *model)
{
    cdz_saved_places places;
    cdz_mutex_lock(&s->serve->served.lock);
    const bool good = cdz_serve_saved_copy(&s->saved, &places);
    cdz_mutex_unlock(&s->serve->served.lock);
    if (!good) return;
    cdz_serve_saved_read(s->serve, s->id, model, &places);
    cdz_serve_saved_free(&places);
}

static cdz_status load(cdz_served *s, cdz_error *err)
{
    cdz_serve *serve = s->serve;
    cdz_model *model = NULL;
    cdz_status status = serve->options.open(serve->options.user, s->path, s->how, &model, err);
    if (status == CDZ_OK) read_saved(s, model);
    cdz_mutex_lock(&serve->served.lock);
    if (status == CDZ_OK && (status = take_model(s, model, true, err)) != CDZ_OK)
        cdz_model_close(model);
    if (status != CDZ_OK) s->state = CDZ_SERVED_ABSENT;
    cdz_http_exchange *waiting = s->parked;
    s->parked = NULL;
    if (status != CDZ_OK)
        for (cdz_http_exchange *e = waiting; e; e = e->next_parked) {
            e->served = NULL;
            s->n_users--;
        }
    cdz_mutex_unlock(&serve->served.lock);
    unpark(waiting, status == CDZ_OK);
    return status;
}

static void say_loaded(const cdz_served *s, double seconds, const cdz_error *err)
{
    cdz_buf line = {0};
    cdz_serve *serve = s->serve;
    if (err)
        cdz_buf_printf(&line, "model %s: %s", s->id, err->text);
    else
        cdz_buf_printf(&line, "model %s: loaded in %.1f s", s->id, seconds);
    if (line.data && !line.failed) cdz_serve_remark(serve, line.data);
    cdz_buf_free(&line);
}

/* A thread of its own for a model that comes or goes, which uses it meanwhile. The lock is held. False: there is no thread. */
static bool start_alone(cdz_served *s, void *(*work)(void *))
{
    pthread_t thread;
    cdz_assert_holds(&s->serve->served.lock);
    if (pthread_create(&thread, NULL, work, s) != 0) return false;
    pthread_detach(thread);
    s->state = CDZ_SERVED_LOADING;
    s->n_users++;
    s->serve->served.n_loading++;
    return true;
}

static void end_alone(cdz_served *s)
{
    cdz_serve *serve = s->serve;
    cdz_mutex_lock(&serve->served.lock);
    s->n_users--;
    serve->served.n_loading--;
    pthread_cond_broadcast(&serve->served.changed);
    cdz_mutex_unlock(&serve->served.lock);
}

static void *load_alone(void *user)
{
    cdz_served *s = user;
    cdz_error err = {0};
    const double start = cdz_now_s();
    const cdz_status status = load(s, &err);
    say_loaded(s, cdz_now_s() - start, status == CDZ_OK ? NULL : &err);
    end_alone(s);
    return NULL;
}

/* --- which there are ------------------------------------------------------------------------------------------ */

static cdz_served *find(const cdz_serve *serve, const char *id)
{
    cdz_served *s = serve->served.first;
    while (s && (s->gone || (id && strcmp(s->id, id) != 0))) s = s->next;
    return s;
}

static bool is_same(const cdz_served *s, const cdz_serve_model *m)
{
    return !s->gone && strcmp(s->id, m->id) == 0 && strcmp(s->path, m->path ? m->path : "") == 0 &&
           strcmp(s->how ? s->how : "", m->how ? m->how : "") == 0;
}

/* Takes the one that is the same out of the list, or makes one. */
static cdz_served *take_or_make(cdz_serve *serve, const cdz_serve_model *m)
{
    for (cdz_served **at = &serve->served.first; *at; at = &(*at)->next) {
        cdz_served *s = *at;
        if (!is_same(s, m)) continue;
        *at = s->next;
        return s;
    }
    return new_served(serve, m);
}

/* Where its prefix caches lie from now on. */
static bool place(cdz_served *s, const cdz_serve_rules *rules, size_t i)
{
    cdz_saved_places places;
    if (!cdz_serve_saved_places(rules, i, &places)) return false;
    cdz_serve_saved_free(&s->saved);
    s->saved = places;
    return true;
}

/* The new list, and behind it what is left of the old one. The lock is held. */
static bool arrange(cdz_serve *serve, const cdz_serve_rules *rules)
{
    cdz_served *list = NULL, **end = &list;
    bool good = true;
    cdz_assert_holds(&serve->served.lock);
    for (size_t i = 0; good && i < rules->n_models; i++) {
        const cdz_serve_model *m = &rules->models[i];
        cdz_served *s = take_or_make(serve, m);
        good = s != NULL;
        if (!s) break;
        good = place(s, rules, i);
        s->idle_s = m->idle_s;
        if (good && m->model && !s->model) good = take_model(s, m->model, false, NULL) == CDZ_OK;
        *end = s;
        end = &s->next;
        *end = NULL;
    }
    for (cdz_served *s = serve->served.first; good && s; s = s->next) s->gone = true;
    *end = serve->served.first;
    serve->served.first = list;
    return good;
}

static cdz_status load_now(cdz_serve *serve, const char *id, cdz_error *err)
{
    cdz_mutex_lock(&serve->served.lock);
    cdz_served *s = find(serve, id);
    const bool absent = s && s->state == CDZ_SERVED_ABSENT;
    cdz_mutex_unlock(&serve->served.lock);
    return absent ? load(s, err) : CDZ_OK;
}

cdz_status cdz_served_change(cdz_serve *serve, const cdz_serve_rules *rules, bool wait,
                             cdz_error *err)
{
    cdz_mutex_lock(&serve->served.lock);
    const bool good = arrange(serve, rules);
    for (size_t i = 0; good && !wait && i < rules->n_models; i++) {
        cdz_served *s = rules->models[i].at_start ? find(serve, rules->models[i].id) : NULL;
        if (s && s->state == CDZ_SERVED_ABSENT) (void)start_alone(s, load_alone);
    }
    cdz_served *given = wait && good ? serve->served.first : NULL; /* nobody else is there yet */
    cdz_mutex_unlock(&serve->served.lock);
    if (!good) return cdz_err_memory(err, "models");
    for (; given; given = given->next)
        if (given->model) read_saved(given, given->model);
    for (size_t i = 0; wait && i < rules->n_models; i++)
        if (rules->models[i].at_start) CDZ_TRY(load_now(serve, rules->models[i].id, err));
    return CDZ_OK;
}

/* --- requests --------------------------------------------------------------------------------------------------- */

/* What the body names; NULL: nothing, or it is for the route to refuse. */
static const char *named(const cdz_http_exchange *e, cdz_arena *arena)
{
    static const cdz_json_limits limits = {.depth = 128, .nodes = 4 << 20};
    cdz_json body;
    if (!e->body.len ||
        cdz_json_parse(e->body.data, e->body.len, "body", &limits, arena, &body, NULL) != CDZ_OK)
        return NULL;
    const cdz_json *model = cdz_json_get(&body, "model");
    return cdz_json_is(model, CDZ_JSON_STRING) ? model->string : NULL;
}

typedef enum entry { ENTER, WAIT, REFUSED } entry;

/* The lock is held. */
static entry enter(cdz_http_exchange *e, cdz_served *s)
{
    cdz_assert_holds(&s->serve->served.lock);
    if (s->state == CDZ_SERVED_ABSENT && (s->serve->served.closing || !start_alone(s, load_alone))) {
        cdz_serve_fault_set(&e->fault, 503, "model", NULL, "the model cannot be loaded now");
        return REFUSED;
    }
    s->n_users++;
    e->served = s;
    if (s->state == CDZ_SERVED_READY) return ENTER;
    cdz_http_exchange **end = &s->parked;
    while (*end) end = &(*end)->next_parked;
    *end = e;
    return WAIT;
}

void cdz_served_work(cdz_http_exchange *e)
{
    cdz_serve *serve = e->serve;
    cdz_arena arena = {0};
    cdz_mutex_lock(&serve->served.lock);
    const bool several = serve->served.first && serve->served.first->next;
    cdz_mutex_unlock(&serve->served.lock);
    const char *id = several ? named(e, &arena) : NULL;
    entry way = REFUSED;
    cdz_mutex_lock(&serve->served.lock);
    cdz_served *s = find(serve, id);
    if (s)
        way = enter(e, s);
    else
        cdz_serve_fault_set(&e->fault, 404, "model", "model_not_found",
                            "there is no model '%.80s' here; /v1/models lists them", id ? id : "");
    cdz_mutex_unlock(&serve->served.lock);
    cdz_arena_free(&arena);
    if (way == ENTER) e->route->answer(e);
    if (way != REFUSED) return;
    cdz_serve_exchange_refuse(e);
    cdz_serve_exchange_release(e);
}

void cdz_served_leave(cdz_served *s)
{
    if (!s) return;
    cdz_mutex_lock(&s->serve->served.lock);
    s->n_users--;
    s->left_s = cdz_now_s();
    cdz_mutex_unlock(&s->serve->served.lock);
}

cdz_served *cdz_served_any(cdz_serve *serve)
{
    cdz_mutex_lock(&serve->served.lock);
    cdz_served *s = serve->served.first;
    while (s && s->state != CDZ_SERVED_READY) s = s->next;
    if (s) s->n_users++;
    cdz_mutex_unlock(&serve->served.lock);
    return s;
}

/* --- letting go --------------------------------------------------------------------------------------------------- */

/* What it has is written first. Whoever has come meanwhile keeps it. */
static void let_go(cdz_served *s)
{
    cdz_serve *serve = s->serve;
    cdz_saved_places places = {0};
    cdz_mutex_lock(&serve->served.lock);
    const bool good = cdz_serve_saved_copy(&s->saved, &places);
    cdz_mutex_unlock(&serve->served.lock);
    if (good) (void)cdz_serve_saved_write(serve, s->id, s->model, &places);
    cdz_serve_saved_free(&places);
    cdz_mutex_lock(&serve->served.lock);
    cdz_http_exchange *waiting = s->parked;
    s->parked = NULL;
    s->state = waiting ? CDZ_SERVED_READY : CDZ_SERVED_ABSENT;
    if (!waiting) {
        cdz_model_close(s->model); /* the engine's thread takes it apart */
        s->model = NULL;
    }
    cdz_mutex_unlock(&serve->served.lock);
    unpark(waiting, true);
}

static void *let_go_alone(void *user)
{
    let_go(user);
    end_alone(user);
    return NULL;
}

static bool is_idle(const cdz_served *s, double now)
{
    return s->own && s->state == CDZ_SERVED_READY && !s->n_users &&
           (s->gone ? s->saved.file != NULL : s->idle_s > 0 && now - s->left_s > s->idle_s);
}

void cdz_served_second(cdz_serve *serve, double now)
{
    cdz_served *gone = NULL;
    cdz_mutex_lock(&serve->served.lock);
    for (cdz_served **at = &serve->served.first; *at;) {
        cdz_served *s = *at;
        if (is_idle(s, now) && s->saved.file) {
            (void)start_alone(s, let_go_alone); /* if there is no thread: in a second, then */
        } else if (is_idle(s, now)) {
            cdz_model_close(s->model); /* the engine's thread takes it apart */
            s->model = NULL;
            s->state = CDZ_SERVED_ABSENT;
        }
        if (s->gone && !s->n_users && !is_idle(s, now)) {
            *at = s->next;
            s->next = gone;
            gone = s;
        } else {
            at = &s->next;
        }
    }
    cdz_mutex_unlock(&serve->served.lock);
    while (gone) {
        cdz_served *next = gone->next;
        free_served(gone);
        gone = next;
    }
}

/* One that is loaded, behind `after` (NULL: the first), with a user more. */
static cdz_served *next_loaded(cdz_serve *serve, const cdz_served *after)
{
    cdz_mutex_lock(&serve->served.lock);
    cdz_served *s = after ? after->next : serve->served.first;
    while (s && s->state != CDZ_SERVED_READY) s = s->next;
    if (s) s->n_users++;
    cdz_mutex_unlock(&serve->served.lock);
    return s;
}

cdz_status cdz_served_save(cdz_serve *serve)
{
    cdz_status first = CDZ_OK;
    cdz_served *s = next_loaded(serve, NULL);
    while (s) {
        const cdz_status status = cdz_serve_saved_write(serve, s->id, s->model, &s->saved);
        if (first == CDZ_OK) first = status;
        cdz_served *next = next_loaded(serve, s);
        cdz_served_leave(s);
        s = next;
    }
    return first;
}

void cdz_served_end(cdz_serve *serve)
{
    cdz_mutex_lock(&serve->served.lock);
    serve->served.closing = true;
    while (serve->served.n_loading)
        cdz_mutex_wait(&serve->served.lock, &serve->served.changed, NULL);
    cdz_served *s = serve->served.first;
    serve->served.first = NULL;
    cdz_mutex_unlock(&serve->served.lock);
    while (s) {
        cdz_served *next = s->next;
        free_served(s);
        s = next;
    }
    pthread_cond_destroy(&serve->served.changed);
    cdz_mutex_destroy(&serve->served.lock);
}

/* --- what there is ------------------------------------------------------------------------------------------------- */

static void put_card(const cdz_served *s, cdz_buf *out)
{
    cdz_buf_puts(out, "{\"id\":");
    cdz_json_write_string(out, s->id, strlen(s->id));
    cdz_buf_printf(out,
                   ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"cadenza\",\"loaded\":%s",
                   (long long)s->serve->created, s->state == CDZ_SERVED_READY ? "true" : "false");
    if (s->context) cdz_buf_printf(out, ",\"max_model_len\":%u", s->context);
    cdz_buf_putc(out, '}');
}

void cdz_served_put_all(cdz_serve *serve, cdz_buf *out)
{
    const char *comma = "";
    cdz_mutex_lock(&serve->served.lock);
    for (const cdz_served *s = serve->served.first; s; s = s->next) {
        if (s->gone) continue;
        cdz_buf_puts(out, comma);
        put_card(s, out);
        comma = ",";
    }
    cdz_mutex_unlock(&serve->served.lock);
}

bool cdz_served_put_one(cdz_serve *serve, const char *id, cdz_buf *out)
{
    cdz_mutex_lock(&serve->served.lock);
    const cdz_served *s = find(serve, id);
    if (s) put_card(s, out);
    cdz_mutex_unlock(&serve->served.lock);
    return s != NULL;
}

void cdz_served_first_id(cdz_serve *serve, char *out, size_t bytes)
{
    cdz_mutex_lock(&serve->served.lock);
    const cdz_served *s = find(serve, NULL);
    snprintf(out, bytes, "%s", s ? s->id : "");
    cdz_mutex_unlock(&serve->served.lock);
}
