/* web.c - libmicrohttpd between the door and the exchanges: it reads heads of the door's making, and writes answers. */
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/page.h"

enum { CONNECTION_MEMORY = 64 << 10, STREAM_PIECE = 16 << 10 };

/* --- connections -------------------------------------------------------------------------------------------------- */

/* The library keeps an address with each connection: ours is the guest. */
typedef union guest_address {
    struct sockaddr_in6 as_address;
    struct {
        sa_family_t family;
        cdz_guest *guest;
    } is;
} guest_address;

static cdz_guest *guest_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    guest_address address = {0};
    if (!info || !info->client_addr) return NULL;
    memcpy(&address.as_address, info->client_addr, sizeof address.as_address);
    return address.is.guest;
}

bool cdz_web_enters(void *user, cdz_guest *guest, int inner)
{
    cdz_serve *serve = user;
    guest_address address = {0};
    address.is.family = AF_INET6;
    address.is.guest = guest;
    return MHD_add_connection(serve->daemon, inner, (struct sockaddr *)&address.as_address,
                              sizeof address.as_address) == MHD_YES;
}

static void on_connection(void *user, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    (void)user;
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        *context = guest_of(connection);
    else if (*context)
        cdz_guest_left(*context);
}

/* The exchange that this guest waits for, held; or NULL. */
static cdz_http_exchange *exchange_of(cdz_serve *serve, const cdz_guest *guest)
{
    cdz_mutex_lock(&serve->lock);
    cdz_http_exchange *e = serve->exchanges;
    while (e && (e->guest != guest || !e->connection)) e = e->next;
    if (e) atomic_fetch_add(&e->holders, 1);
    cdz_mutex_unlock(&serve->lock);
    return e;
}

/* [the door's thread] */
void cdz_web_leaves(void *user, cdz_guest *guest)
{
    cdz_http_exchange *e = exchange_of(user, guest);
    if (!e) return;
    cdz_serve_exchange_abandon(e);
    cdz_serve_exchange_release(e);
}

/* A server whose engine stands still says so: somebody may start it anew. */
static void watch_engine(cdz_serve *serve, double now)
{
    cdz_stats stats = {.size = sizeof stats};
    cdz_get_stats(serve->options.runtime, &stats);
    atomic_store(&serve->stuck, cdz_serve_watch_look(&serve->watch, &stats, now));
}

static void tell_load(cdz_serve *serve)
{
    if (!serve->options.second) return;
    const cdz_serve_load now = cdz_serve_load_now(serve);
    serve->options.second(serve->options.user, &now);
}

/* Streams that have nothing to say keep their connection alive, after a second with a head. */
static void keep_alive(cdz_http_exchange *e, double now)
{
    cdz_mutex_lock(&e->lock);
    if (e->streaming && e->status && !e->ready && now - e->spoke > 1) {
        e->heard = true;
        cdz_serve_exchange_open(e);
    }
    if (e->streaming && e->ready && !e->whole && now - e->spoke > 15 && e->out_at == e->out.len) {
        cdz_buf_puts(&e->out, ": ping\n\n");
        cdz_serve_exchange_wake(e);
    }
    cdz_mutex_unlock(&e->lock);
}

/* [the door's thread] */
void cdz_web_second(void *user)
{
    cdz_serve *serve = user;
    const double now = cdz_now_s();
    const double until = (double)atomic_load(&serve->drain_until) * 1e-6;
    if (until > 0 && now > until && !atomic_exchange(&serve->ending, true)) cdz_serve_stop(serve);
    watch_engine(serve, now);
    tell_load(serve);
    cdz_served_second(serve, now);
    cdz_mutex_lock(&serve->lock);
    for (cdz_http_exchange *e = serve->exchanges; e; e = e->next) keep_alive(e, now);
    cdz_mutex_unlock(&serve->lock);
}

/* --- answers -------------------------------------------------------------------------------------------------------- */

/* What is left moves to the front once more has gone, so that a reader who never catches up keeps no whole stream. */
static void take_out(cdz_http_exchange *e, size_t n)
{
    e->out_at += n;
    const size_t left = e->out.len - e->out_at;
    if (left && (e->out_at < (64 << 10) || e->out_at < left)) return;
    if (left) memmove(e->out.data, e->out.data + e->out_at, left);
    e->out.len = left;
    e->out.data[left] = '\0';
    e->out_at = 0;
    if (left) return;
    if (e->out.cap > (64 << 10))
        cdz_buf_free(&e->out);
    else
        cdz_buf_clear(&e->out);
}

/* [the library's thread] */
static ssize_t read_stream(void *user, uint64_t at, char *buffer, size_t room)
{
    cdz_http_exchange *e = user;
    ssize_t given = 0;
    (void)at;
    cdz_mutex_lock(&e->lock);
    const size_t left = e->out.len - e->out_at;
    if (e->gone || e->out.failed) {
        given = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (left) {
        given = (ssize_t)(left < room ? left : room);
        memcpy(buffer, e->out.data + e->out_at, (size_t)given);
        take_out(e, (size_t)given);
    } else if (e->whole) {
        given = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        e->suspended = true;
        MHD_suspend_connection(e->connection);
    }
    const bool paced = cdz_serve_exchange_weigh(e);
    cdz_mutex_unlock(&e->lock);
    if (paced) cdz_serve_exchange_pace(e);
    return given;
}

static void free_stream(void *user)
{
    cdz_serve_exchange_release(user);
}

static struct MHD_Response *response_of(cdz_http_exchange *e)
{
    if (e->streaming) {
        atomic_fetch_add(&e->holders, 1);
        struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_PIECE,
                                                                   read_stream, e, free_stream);
        if (!r) cdz_serve_exchange_release(e);
        return r;
    }
    if (e->out.failed) return NULL;
    struct MHD_Response *r =
        MHD_create_response_from_buffer(e->out.len, e->out.data, MHD_RESPMEM_MUST_COPY);
    cdz_buf_free(&e->out);
    return r;
}

/* An answer without one of its headers would say something else: it is not sent. */
typedef struct answer_headers {
    struct MHD_Response *response;
    bool failed;
} answer_headers;

static void put(answer_headers *r, const char *name, const char *value)
{
    r->failed |= MHD_add_response_header(r->response, name, value) != MHD_YES;
}

/* The last lines: what the openai package sends from a browser. */
static const char allowed_headers[] =
    "Authorization, Content-Type, X-Request-Id, X-Cadenza-Prefix, traceparent, "
    "OpenAI-Organization, OpenAI-Project, OpenAI-Beta, Idempotency-Key, X-Stainless-Arch, "
    "X-Stainless-Async, X-Stainless-Custom-Poll-Interval, X-Stainless-Helper-Method, "
    "X-Stainless-Lang, X-Stainless-OS, X-Stainless-Package-Version, X-Stainless-Poll-Helper, "
    "X-Stainless-Retry-Count, X-Stainless-Runtime, X-Stainless-Runtime-Version, "
    "X-Stainless-Timeout";

static void add_cors(const cdz_http_exchange *e, answer_headers *r)
{
    if (!e->origin[0]) return;
    put(r, "Access-Control-Allow-Origin", e->origin);
    put(r, "Vary", "Origin");
    put(r, "Access-Control-Expose-Headers", "X-Request-Id, X-Cadenza-Prefix");
    if (strcmp(e->method, "OPTIONS") != 0) return;
    put(r, "Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS");
    put(r, "Access-Control-Allow-Headers", allowed_headers);
    put(r, "Access-Control-Max-Age", "600");
}

static void add_policy(answer_headers *r)
{
    char policy[CDZ_PAGE_POLICY];
    cdz_serve_page_policy(policy, sizeof policy);
    put(r, "Content-Security-Policy", policy);
    put(r, "Referrer-Policy", "no-referrer");
}

static void add_headers(const cdz_http_exchange *e, answer_headers *r)
{
    const bool options = strcmp(e->method, "OPTIONS") == 0;
    if (e->content_type) put(r, "Content-Type", e->content_type);
    put(r, "X-Request-Id", e->request_id);
    if (e->prefix[0]) put(r, "X-Cadenza-Prefix", e->prefix);
    put(r, "X-Content-Type-Options", "nosniff");
    put(r, "Cache-Control", e->streaming ? "no-cache" : "no-store");
    if (e->streaming) put(r, "X-Accel-Buffering", "no");
    if (e->content_type && strcmp(e->content_type, CDZ_PAGE_TYPE) == 0) add_policy(r);
    if (e->status == 401) put(r, "WWW-Authenticate", "Bearer");
    if (e->status == 405 || options) put(r, "Allow", cdz_serve_route_allows(e));
    if (e->status == 429 || e->status == 503) put(r, "Retry-After", "1");
    if (atomic_load(&e->serve->draining)) put(r, "Connection", "close");
    add_cors(e, r);
}

/* [the library's thread] */
static enum MHD_Result answer(cdz_http_exchange *e)
{
    cdz_mutex_lock(&e->lock);
    struct MHD_Response *response = response_of(e);
    cdz_mutex_unlock(&e->lock);
    if (!response) return MHD_NO;
    answer_headers headers = {.response = response};
    add_headers(e, &headers);
    const enum MHD_Result queued =
        headers.failed ? MHD_NO : MHD_queue_response(e->connection, (unsigned)e->status, response);
    MHD_destroy_response(response);
    return queued;
}

/* --- requests ------------------------------------------------------------------------------------------------------- */

static cdz_slice header(struct MHD_Connection *connection, const char *name)
{
    const char *value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
    return (cdz_slice){value, value ? strlen(value) : 0};
}

static enum MHD_Result begin(cdz_http_exchange *e)
{
    const struct cdz_http_seen head = {
        .host = header(e->connection, "Host"),
        .origin = header(e->connection, "Origin"),
        .authorization = header(e->connection, "Authorization"),
        .content_type = header(e->connection, "Content-Type"),
        .request_id = header(e->connection, "X-Request-Id"),
        .traceparent = header(e->connection, "traceparent"),
    };
    if (cdz_serve_route_check(e, &head)) return MHD_YES;
    cdz_serve_exchange_refuse(e);
    return answer(e);
}

/* All of the request is there. */
static enum MHD_Result run(cdz_http_exchange *e)
{
    cdz_mutex_lock(&e->lock);
    const bool ready = e->ready, begun = e->begun, gone = e->gone;
    e->begun = true;
    if (!ready && !begun && strcmp(e->method, "OPTIONS") != 0 && e->route->work) {
        e->suspended = true;
        MHD_suspend_connection(e->connection);
        atomic_fetch_add(&e->holders, 1);
    }
    cdz_mutex_unlock(&e->lock);
    if (ready) return answer(e);
    if (begun) return gone ? MHD_NO : MHD_YES;
    if (strcmp(e->method, "OPTIONS") == 0) {
        cdz_serve_exchange_reply(e, 204, NULL);
        return answer(e);
    }
    if (e->route->work) {
        cdz_serve_push(e, e->route->model ? cdz_served_work : e->route->answer);
        return MHD_YES;
    }
    e->route->answer(e);
    return answer(e);
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **context)
{
    cdz_http_exchange *e = *context;
    (void)version;
    if (!e) {
        cdz_guest *guest = guest_of(connection);
        e = *context = guest ? cdz_serve_exchange_new(user, guest, connection) : NULL;
        if (!e) return MHD_NO;
        snprintf(e->method, sizeof e->method, "%s", method);
        snprintf(e->path, sizeof e->path, "%s", strlen(url) < sizeof e->path ? url : "/-");
        return begin(e);
    }
    if (*size) {
        cdz_buf_add(&e->body, data, *size);
        *size = 0;
        return e->body.failed ? MHD_NO : MHD_YES;
    }
    return run(e);
}

/* --- the end ----------------------------------------------------------------------------------------------------------- */

/* [the library's thread] */
static void on_completed(void *user, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode why)
{
    cdz_http_exchange *e = *context;
    const bool whole = why == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    (void)user;
    (void)connection;
    if (!e) return;
    *context = NULL;
    if (!whole) cdz_serve_exchange_abandon(e);
    cdz_mutex_lock(&e->lock);
    e->suspended = false;
    cdz_mutex_unlock(&e->lock);
    cdz_mutex_lock(&e->serve->lock);
    e->connection = NULL; /* nobody finds it by its guest any more */
    cdz_mutex_unlock(&e->serve->lock);
    cdz_guest_answered(e->guest);
    cdz_serve_exchange_release(e);
}

cdz_status cdz_web_open(cdz_serve *serve, cdz_error *err)
{
    serve->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET |
                                         MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC,
                                     0, NULL, NULL, on_request, serve, MHD_OPTION_NOTIFY_COMPLETED,
                                     on_completed, serve, MHD_OPTION_NOTIFY_CONNECTION,
                                     on_connection, serve, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                     (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT, 65536u,
                                     MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_END);
    return serve->daemon ? CDZ_OK : cdz_err(err, CDZ_E_IO, "libmicrohttpd does not start");
}

void cdz_web_close(cdz_serve *serve)
{
    if (serve->daemon) MHD_stop_daemon(serve->daemon);
    serve->daemon = NULL;
}
