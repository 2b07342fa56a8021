/* bench_client.c - requests over HTTP/1.1, and streams of events, as OpenAI's clients read them. See bench_client.h. */
#include "cli/bench_client.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"

enum { MOST_LINE = 1 << 20 };

/* --- addresses ------------------------------------------------------------------------------------------------ */

cdz_status cdz_cli_bench_read_url(const char *text, cdz_cli_bench_url *out, cdz_error *err)
{
    static const char scheme[] = "http://";
    *out = (cdz_cli_bench_url){.port = "80"};
    if (strncmp(text, "https://", 8) == 0)
        return cdz_err(err, CDZ_E_USAGE,
                       "%s: encryption is not spoken here; name the server behind "
                       "the proxy",
                       text);
    if (strncmp(text, scheme, sizeof scheme - 1) == 0) text += sizeof scheme - 1;
    const size_t n = strcspn(text, "/");
    const char *host = text, *end = text + n, *colon = end;
    while (colon > host && colon[-1] != ':' && colon[-1] != ']') colon--;
    const bool has_port = colon > host && colon[-1] == ':';
    size_t len = has_port ? (size_t)(colon - 1 - host) : n;
    if (has_port) snprintf(out->port, sizeof out->port, "%.*s", (int)(end - colon), colon);
    if (len > 1 && *host == '[' && host[len - 1] == ']') host++, len -= 2;
    if (!len || len >= sizeof out->host || strlen(end) >= sizeof out->base)
        return cdz_err(err, CDZ_E_USAGE, "%.80s: expected http://HOST:PORT", text);
    snprintf(out->host, sizeof out->host, "%.*s", (int)len, host);
    snprintf(out->base, sizeof out->base, "%s", end);
    size_t base = strlen(out->base);
    while (base && out->base[base - 1] == '/') out->base[--base] = '\0';
    if (base >= 3 && strcmp(out->base + base - 3, "/v1") == 0) out->base[base - 3] = '\0';
    return CDZ_OK;
}

/* --- the connection --------------------------------------------------------------------------------------------- */

void cdz_cli_bench_hang_up(cdz_cli_bench_client *c)
{
    if (c->fd > 0) close(c->fd);
    c->fd = 0;
    c->at = 0;
    c->last = false;
    cdz_buf_free(&c->in);
}

static bool fail(cdz_cli_bench_answer *a, const char *what, const char *why)
{
    snprintf(a->why, sizeof a->why, "%.280s%s%.280s", what, why ? ": " : "", why ? why : "");
    return false;
}

static int connect_to(const struct addrinfo *at)
{
    static const int yes = 1;
    const int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (connect(fd, at->ai_addr, at->ai_addrlen) == 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        return fd;
    }
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static bool dial(cdz_cli_bench_client *c, cdz_cli_bench_answer *a)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const int failed = getaddrinfo(c->url->host, c->url->port, &hints, &found);
    int fd = -1;
    if (failed) return fail(a, c->url->host, gai_strerror(failed));
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) fd = connect_to(at);
    const int why = errno;
    freeaddrinfo(found);
    if (fd < 0) return fail(a, "cannot connect", strerror(why));
    c->fd = fd;
    return true;
}

static bool send_all(cdz_cli_bench_client *c, const cdz_buf *text)
{
    for (size_t at = 0; at < text->len;) {
        const ssize_t n = send(c->fd, text->data + at, text->len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += (size_t)n;
    }
    return true;
}

/* More bytes; false: the peer has closed, or patience is over. */
static bool receive(cdz_cli_bench_client *c)
{
    char piece[16384];
    struct pollfd wait = {.fd = c->fd, .events = POLLIN};
    if (c->at == c->in.len) {
        c->at = 0;
        cdz_buf_clear(&c->in);
    }
    if (poll(&wait, 1, (int)(c->patience * 1e3)) <= 0) return false;
    const ssize_t n = recv(c->fd, piece, sizeof piece, 0);
    if (n <= 0) return false;
    cdz_buf_add(&c->in, piece, (size_t)n);
    return !c->in.failed;
}

/* The next line without its end; NULL: there is none. It lives until the next call. */
static char *next_line(cdz_cli_bench_client *c)
{
    for (size_t seen = 0;;) {
        const size_t left = c->in.len - c->at;
        char *from = left ? c->in.data + c->at : NULL;
        char *end = left > seen ? memchr(from + seen, '\n', left - seen) : NULL;
        if (end) {
            c->at += (size_t)(end - from) + 1;
            *end = '\0';
            if (end > from && end[-1] == '\r') end[-1] = '\0';
            return from;
        }
        seen = left;
        if (left > MOST_LINE || !receive(c)) return NULL;
    }
}

/* n bytes more into out. */
static bool take_bytes(cdz_cli_bench_client *c, size_t n, cdz_buf *out)
{
    while (n) {
        const size_t left = c->in.len - c->at, some = left < n ? left : n;
        if (some) cdz_buf_add(out, c->in.data + c->at, some);
        c->at += some;
        n -= some;
        if (n && !receive(c)) return false;
    }
    return !out->failed;
}

/* --- requests ------------------------------------------------------------------------------------------------------ */

typedef struct body_kind {
    bool chunked;
    uint64_t length;
    bool known;
} body_kind;

static bool has_word(const char *value, const char *word)
{
    const size_t n = strlen(word);
    for (; *value; value++)
        if (strncasecmp(value, word, n) == 0) return true;
    return false;
}

static bool read_head(cdz_cli_bench_client *c, cdz_cli_bench_answer *a, body_kind *body)
{
    char *line = next_line(c);
    *body = (body_kind){0};
    if (!line || strncmp(line, "HTTP/1.", 7) != 0) return fail(a, "no answer", NULL);
    a->status = strlen(line) > 9 ? (int)strtol(line + 9, NULL, 10) : 0;
    c->last = line[7] == '0';
    while ((line = next_line(c)) != NULL && *line) {
        char *value = strchr(line, ':');
        if (!value) continue;
        *value++ = '\0';
        if (strcasecmp(line, "transfer-encoding") == 0) body->chunked = has_word(value, "chunked");
        if (strcasecmp(line, "connection") == 0 && has_word(value, "close")) c->last = true;
        if (strcasecmp(line, "content-length") != 0) continue;
        body->known = true;
        body->length = strtoull(value, NULL, 10);
    }
    return line || fail(a, "the answer's head has no end", NULL);
}

static bool ask(cdz_cli_bench_client *c, const char *method, const char *path, const cdz_buf *body,
                cdz_cli_bench_answer *a, body_kind *kind)
{
    cdz_buf text = {0};
    cdz_buf_printf(&text, "%s %s%s HTTP/1.1\r\nHost: %s:%s\r\nAccept: text/event-stream\r\n",
                   method, c->url->base, path, c->url->host, c->url->port);
    if (c->key) cdz_buf_printf(&text, "Authorization: Bearer %s\r\n", c->key);
    if (body)
        cdz_buf_printf(&text, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                       body->len);
    cdz_buf_puts(&text, "\r\n");
    if (body) cdz_buf_add(&text, body->data, body->len);
    bool good = false;
    /* A kept connection may have been closed meanwhile: then once more on a new one. */
    for (int turn = 0; turn < 2 && !good; turn++) {
        const bool kept = c->fd > 0;
        if (!kept && !dial(c, a)) break;
        good = send_all(c, &text) && read_head(c, a, kind);
        if (good) break;
        cdz_cli_bench_hang_up(c);
        if (!a->why[0]) fail(a, "the connection was closed", NULL);
        if (!kept) break;
    }
    cdz_buf_free(&text);
    if (good) a->why[0] = '\0';
    return good;
}

/* The body as it comes, piece by piece; false: the end, and *whole tells whether it was one. */
typedef struct body_reader {
    cdz_cli_bench_client *client;
    body_kind kind;
    cdz_buf held; /* from `at` on not yet read */
    size_t at;
    bool ended, whole;
} body_reader;

static bool more_chunk(body_reader *r)
{
    const char *line = next_line(r->client);
    const size_t n = line ? strtoull(line, NULL, 16) : 0;
    if (!line) return false;
    if (n == 0) {
        r->whole = next_line(r->client) != NULL;
        return false;
    }
    return take_bytes(r->client, n, &r->held) && next_line(r->client);
}

static bool more_plain(body_reader *r)
{
    cdz_cli_bench_client *c = r->client;
    if (r->kind.known && !r->kind.length) {
        r->whole = true;
        return false;
    }
    if (c->at == c->in.len && !receive(c)) {
        r->whole = !r->kind.known;
        return false;
    }
    size_t n = c->in.len - c->at;
    if (r->kind.known && n > r->kind.length) n = (size_t)r->kind.length;
    if (r->kind.known) r->kind.length -= n;
    return take_bytes(c, n, &r->held);
}

static bool more(body_reader *r)
{
    if (r->ended) return false;
    if (r->at == r->held.len) {
        r->at = 0;
        cdz_buf_clear(&r->held);
    }
    r->ended = !(r->kind.chunked ? more_chunk(r) : more_plain(r));
    return !r->ended;
}

static void take_rest(body_reader *r, cdz_buf *out)
{
    while (more(r)) {
        cdz_buf_add(out, r->held.data + r->at, r->held.len - r->at);
        r->at = r->held.len;
    }
}

static void end_body(body_reader *r)
{
    cdz_buf_free(&r->held);
    if (!r->whole || r->client->last || (!r->kind.chunked && !r->kind.known))
        cdz_cli_bench_hang_up(r->client);
}

bool cdz_cli_bench_get(cdz_cli_bench_client *c, const char *path, cdz_buf *out,
                       cdz_cli_bench_answer *a)
{
    body_reader r = {.client = c};
    *a = (cdz_cli_bench_answer){0};
    if (!ask(c, "GET", path, NULL, a, &r.kind)) return false;
    take_rest(&r, out);
    const bool whole = r.whole;
    end_body(&r);
    return whole && !out->failed;
}

/* --- events ---------------------------------------------------------------------------------------------------------- */

typedef struct listener {
    cdz_cli_bench_answer *answer;
    void (*gap)(void *user, double seconds);
    void *user;
    double last;
} listener;

static bool has_text(const cdz_json *event)
{
    const cdz_json *choices = cdz_json_get(event, "choices");
    for (uint32_t i = 0; cdz_json_is(choices, CDZ_JSON_ARRAY) && i < choices->len; i++) {
        const cdz_json *delta = cdz_json_get(&choices->items[i], "delta");
        const cdz_json *text = cdz_json_get(&choices->items[i], "text");
        if (delta) text = cdz_json_get(delta, "content");
        if (delta && !(cdz_json_is(text, CDZ_JSON_STRING) && text->len))
            text = cdz_json_get(delta, "reasoning_content");
        if (cdz_json_is(text, CDZ_JSON_STRING) && text->len) return true;
    }
    return false;
}

static void take_usage(const cdz_json *event, cdz_cli_bench_answer *a)
{
    const cdz_json *usage = cdz_json_get(event, "usage");
    const cdz_json *prompt = cdz_json_get(usage, "prompt_tokens");
    const cdz_json *made = cdz_json_get(usage, "completion_tokens");
    if (cdz_json_is(prompt, CDZ_JSON_INT)) a->n_prompt = (uint64_t)prompt->integer;
    if (cdz_json_is(made, CDZ_JSON_INT)) a->n_completion = (uint64_t)made->integer;
}

static void take_error(const cdz_json *event, cdz_cli_bench_answer *a)
{
    const cdz_json *message = cdz_json_get(cdz_json_get(event, "error"), "message");
    if (cdz_json_is(message, CDZ_JSON_STRING)) fail(a, message->string, NULL);
}

static void take_event(listener *l, const char *data)
{
    cdz_arena arena = {0};
    cdz_json event;
    cdz_cli_bench_answer *a = l->answer;
    const double now = cdz_now_s();
    if (strcmp(data, "[DONE]") == 0) {
        a->whole = true;
    } else if (cdz_json_parse(data, strlen(data), "event", NULL, &arena, &event, NULL) == CDZ_OK) {
        take_usage(&event, a);
        take_error(&event, a);
        if (has_text(&event)) {
            if (!a->n_events++)
                a->first = now;
            else
                l->gap(l->user, now - l->last);
            l->last = now;
        }
    }
    cdz_arena_free(&arena);
}

/* Whole lines of what is held; the rest waits for more. */
static void take_lines(body_reader *r, cdz_buf *line, listener *l)
{
    static const char data[] = "data:";
    for (; r->at < r->held.len; r->at++) {
        const char c = r->held.data[r->at];
        if (c != '\n') {
            cdz_buf_putc(line, c);
            continue;
        }
        if (line->len && line->data[line->len - 1] == '\r') line->data[--line->len] = '\0';
        if (line->len > sizeof data - 1 && strncmp(line->data, data, sizeof data - 1) == 0) {
            const char *text = line->data + sizeof data - 1;
            take_event(l, text + strspn(text, " "));
        }
        cdz_buf_clear(line);
    }
}

/* What a refusal says of itself. */
static void take_refusal(body_reader *r, cdz_cli_bench_answer *a)
{
    cdz_buf text = {.limit = 1 << 20};
    cdz_arena arena = {0};
    cdz_json body;
    take_rest(r, &text);
    snprintf(a->why, sizeof a->why, "status %d", a->status);
    if (text.len && !text.failed &&
        cdz_json_parse(text.data, text.len, "answer", NULL, &arena, &body, NULL) == CDZ_OK)
        take_error(&body, a);
    cdz_arena_free(&arena);
    cdz_buf_free(&text);
}

void cdz_cli_bench_stream(cdz_cli_bench_client *c, const char *path, const cdz_buf *body,
                          void (*gap)(void *user, double seconds), void *user,
                          cdz_cli_bench_answer *out)
{
    body_reader r = {.client = c};
    cdz_buf line = {.limit = 8 << 20};
    listener l = {.answer = out, .gap = gap, .user = user};
    *out = (cdz_cli_bench_answer){.began = cdz_now_s()};
    if (ask(c, "POST", path, body, out, &r.kind)) {
        if (out->status != 200) take_refusal(&r, out);
        while (more(&r)) take_lines(&r, &line, &l);
        if (out->status == 200 && !out->whole && !out->why[0])
            fail(out, "the stream broke off", NULL);
        end_body(&r);
    }
    out->ended = cdz_now_s();
    cdz_buf_free(&line);
}
