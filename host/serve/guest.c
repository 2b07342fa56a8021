/* guest.c - what a guest does next: reads a head, passes a body, waits for the answer, reads the next head. */
#include "serve/guest.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

static size_t flow_left(const cdz_flow *flow)
{
    return flow->buf.len - flow->at;
}

static const char *flow_bytes(const cdz_flow *flow)
{
    return flow->buf.data ? flow->buf.data + flow->at : "";
}

static void flow_take(cdz_flow *flow, size_t n)
{
    flow->at += n;
    if (flow->at < flow->buf.len) return;
    flow->at = 0;
    if (flow->buf.cap > (16 << 10))
        cdz_buf_free(&flow->buf);
    else
        cdz_buf_clear(&flow->buf);
}

/* What was used goes, so that the buffer holds no more than is left. */
static void flow_settle(cdz_flow *flow)
{
    const size_t left = flow_left(flow);
    if (!flow->at) return;
    memmove(flow->buf.data, flow->buf.data + flow->at, left);
    flow->buf.len = left;
    flow->buf.data[left] = '\0';
    flow->at = 0;
}

/* The server holds a body until its request is over. */
static void let_go_of_body(cdz_guest *g)
{
    *g->bodies -= g->held;
    g->held = 0;
}

static void enter(cdz_guest *g, cdz_guest_state state)
{
    g->state = state;
    g->since = cdz_now_s();
}

void cdz_guest_end(cdz_guest *g)
{
    g->state = CDZ_GUEST_OVER;
}

static void linger(cdz_guest *g)
{
    if (g->state < CDZ_GUEST_LINGER) enter(g, CDZ_GUEST_LINGER);
}

/* The library hears no more of this guest. */
static void close_inner(cdz_guest *g)
{
    if (g->inner >= 0) close(g->inner);
    g->inner = -1;
}

/* Whatever the library had to say is of no use. */
static void forget(cdz_guest *g)
{
    close_inner(g);
    if (g->told) g->options->leaves(g->options->user, g);
    g->told = false;
    let_go_of_body(g);
    linger(g);
}

/* Says why and ends it. */
static void refuse(cdz_guest *g, int status, const char *why)
{
    forget(g);
    if (!g->request_id[0]) cdz_head_id((cdz_slice){0}, g->request_id);
    cdz_refusal_write(&g->out.buf, status, why, g->request_id);
    if (g->out.buf.failed) cdz_guest_end(g);
}

bool cdz_guest_is_idle(const cdz_guest *g)
{
    return g->state == CDZ_GUEST_HEAD && !flow_left(&g->in) && !flow_left(&g->out) && g->n_requests;
}

bool cdz_guest_is_silent(const cdz_guest *g)
{
    return g->state == CDZ_GUEST_HEAD && !flow_left(&g->out);
}

/* --- heads ---------------------------------------------------------------------------------------------------- */

static void put_field(cdz_buf *out, const char *name, cdz_slice value)
{
    if (!value.at) return;
    cdz_buf_printf(out, "%s: ", name);
    cdz_buf_add(out, value.at, value.len);
    cdz_buf_puts(out, "\r\n");
}

/* The head that the library reads: ours, with what the peer's said. */
static void pass_head(cdz_guest *g)
{
    const cdz_head *h = &g->head;
    cdz_buf *out = &g->pass.buf;
    cdz_buf_add(out, h->method.at, h->method.len);
    cdz_buf_putc(out, ' ');
    cdz_buf_add(out, h->path.at, h->path.len);
    if (h->query.at) {
        cdz_buf_putc(out, '?');
        cdz_buf_add(out, h->query.at, h->query.len);
    }
    cdz_buf_puts(out, h->old ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n");
    put_field(out, "Host", h->host.at ? h->host : (cdz_slice){"", 0});
    put_field(out, "Origin", h->origin);
    put_field(out, "Authorization", h->authorization);
    put_field(out, "Content-Type", h->content_type);
    cdz_buf_printf(out, "X-Request-Id: %s\r\n", g->request_id);
    put_field(out, "traceparent", h->traceparent);
    if (h->body == CDZ_BODY_LENGTH)
        cdz_buf_printf(out, "Content-Length: %llu\r\n", (unsigned long long)h->length);
    if (h->body == CDZ_BODY_CHUNKED) cdz_buf_puts(out, "Transfer-Encoding: chunked\r\n");
    if (h->expects && h->body) cdz_buf_puts(out, "Expect: 100-continue\r\n");
    if (h->last)
        cdz_buf_puts(out, "Connection: close\r\n");
    else if (h->old)
        cdz_buf_puts(out, "Connection: keep-alive\r\n");
    cdz_buf_puts(out, "\r\n");
}

static void take_head(cdz_guest *g)
{
    const cdz_head *h = &g->head;
    g->n_requests++;
    cdz_head_id(h->request_id, g->request_id);
    if (h->body == CDZ_BODY_LENGTH && h->length > g->options->limits.body) {
        refuse(g, 413, "the body is longer than this server reads");
        return;
    }
    if (g->draining || g->n_requests >= g->options->requests) g->head.last = true;
    pass_head(g);
    g->body = 0;
    g->chunks = (cdz_chunks){0};
    g->told = true;
    atomic_store(&g->answered, false);
    flow_take(&g->in, h->skip + h->bytes);
    enter(g, h->body ? CDZ_GUEST_BODY : CDZ_GUEST_ANSWER);
}

static bool read_head(cdz_guest *g)
{
    const size_t n = flow_left(&g->in);
    if (n == 0) return false;
    switch (cdz_head_read(flow_bytes(&g->in), n, &g->head)) {
    case CDZ_HEAD_GOOD: take_head(g); return true;
    case CDZ_HEAD_BAD:
        cdz_head_id(g->head.request_id, g->request_id);
        refuse(g, g->head.status, g->head.why);
        return true;
    default: return false;
    }
}

/* --- bodies --------------------------------------------------------------------------------------------------- */

/* Many bodies at once are as large as one that is too long. */
static bool count_body(cdz_guest *g, size_t n)
{
    g->body += n;
    g->held += n;
    *g->bodies += n;
    if (*g->bodies / CDZ_GUEST_BODIES <= g->options->limits.body) return true;
    refuse(g, 503, "the server holds as many bytes of bodies as it may; try again");
    return false;
}

static bool pass_known(cdz_guest *g)
{
    const uint64_t left = g->head.length - g->body;
    const size_t held = flow_left(&g->in), n = held < left ? held : (size_t)left;
    cdz_buf_add(&g->pass.buf, flow_bytes(&g->in), n);
    flow_take(&g->in, n);
    if (!count_body(g, n)) return true;
    if (g->body == g->head.length) enter(g, CDZ_GUEST_ANSWER);
    return n > 0;
}

static bool pass_chunked(cdz_guest *g)
{
    cdz_slice data;
    size_t used;
    const size_t held = flow_left(&g->in);
    if (!held) return false;
    if (!cdz_chunks_read(&g->chunks, flow_bytes(&g->in), held, &data, &used)) {
        refuse(g, 400, "the body is not chunked as it should be");
        return true;
    }
    if (!count_body(g, data.len)) return true;
    if (g->body > g->options->limits.body) {
        refuse(g, 413, "the body is longer than this server reads");
        return true;
    }
    if (data.len) {
        cdz_buf_printf(&g->pass.buf, "%zx\r\n", data.len);
        cdz_buf_add(&g->pass.buf, data.at, data.len);
        cdz_buf_puts(&g->pass.buf, "\r\n");
    }
    if (g->chunks.done) {
        cdz_buf_puts(&g->pass.buf, "0\r\n\r\n");
        enter(g, CDZ_GUEST_ANSWER);
    }
    flow_take(&g->in, used);
    return used > 0;
}

static bool step(cdz_guest *g)
{
    switch (g->state) {
    case CDZ_GUEST_HEAD: return !flow_left(&g->out) && read_head(g);
    case CDZ_GUEST_BODY:
        if (flow_left(&g->pass) >= CDZ_GUEST_HELD) return false;
        return g->head.body == CDZ_BODY_CHUNKED ? pass_chunked(g) : pass_known(g);
    case CDZ_GUEST_LINGER: {
        const size_t n = flow_left(&g->in);
        flow_take(&g->in, n);
        return n > 0;
    }
    default: return false;
    }
}

/* --- sockets ---------------------------------------------------------------------------------------------------- */

static bool again(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* The peer is gone: what it asked for is of no use any more. */
static void peer_gone(cdz_guest *g)
{
    if (g->told) g->options->leaves(g->options->user, g);
    g->told = false;
    cdz_guest_end(g);
}

static bool reads_peer(const cdz_guest *g)
{
    if (g->state == CDZ_GUEST_ANSWER || g->state == CDZ_GUEST_OVER) return false;
    if (g->state == CDZ_GUEST_BODY && flow_left(&g->pass) >= CDZ_GUEST_HELD) return false;
    return flow_left(&g->in) < CDZ_GUEST_HELD;
}

/* From a socket into a flow. 1: some bytes; 0: none now; -1: no more will come. */
static int receive(int fd, cdz_flow *flow)
{
    char bytes[16 << 10];
    const ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0) return again() ? 0 : -1;
    if (n == 0) return -1;
    flow_settle(flow);
    cdz_buf_add(&flow->buf, bytes, (size_t)n);
    return flow->buf.failed ? -1 : 1;
}

/* From a flow to a socket: as receive. */
static int give(int fd, cdz_flow *flow)
{
    const ssize_t n = send(fd, flow_bytes(flow), flow_left(flow), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) return again() ? 0 : -1;
    flow_take(flow, (size_t)n);
    return n > 0;
}

static bool move_peer_in(cdz_guest *g)
{
    if (!reads_peer(g)) return false;
    const bool fresh = g->state == CDZ_GUEST_HEAD && !flow_left(&g->in);
    const int got = receive(g->fd, &g->in);
    if (got > 0 && fresh) g->since = cdz_now_s();
    if (got < 0) peer_gone(g);
    return got > 0;
}

static bool move_pass(cdz_guest *g)
{
    if (g->inner < 0 || !flow_left(&g->pass)) return false;
    const int gave = give(g->inner, &g->pass);
    if (gave < 0) { /* it may have answered without the rest */
        flow_take(&g->pass, flow_left(&g->pass));
        g->cut = true;
    }
    return gave != 0;
}

/* The library's answer is whole once it said so and nothing of it is left in the pair. */
static void answer_over(cdz_guest *g)
{
    g->told = false;
    let_go_of_body(g);
    if (g->state != CDZ_GUEST_ANSWER) return; /* before its time: the library closes the pair */
    if (g->head.last || g->draining) {
        close_inner(g);
        linger(g);
        return;
    }
    g->request_id[0] = '\0';
    enter(g, CDZ_GUEST_HEAD);
}

static bool move_inner_in(cdz_guest *g)
{
    if (g->inner < 0 || flow_left(&g->out) >= CDZ_GUEST_HELD) return false;
    const bool said = g->told && atomic_load(&g->answered);
    const int got = receive(g->inner, &g->out);
    if (got > 0) return true;
    if (got < 0) {
        close_inner(g);
        g->told = false;
        let_go_of_body(g);
        linger(g);
        return true;
    }
    if (said)
        answer_over(g);
    else if (g->cut)
        forget(g);
    return said || g->cut;
}

static bool move_out(cdz_guest *g)
{
    if (!flow_left(&g->out)) {
        g->moved = cdz_now_s();
        if (g->state != CDZ_GUEST_LINGER || g->shut) return false;
        g->shut = true;
        shutdown(g->fd, SHUT_WR);
        return false;
    }
    const int gave = give(g->fd, &g->out);
    if (gave > 0) g->moved = cdz_now_s();
    if (gave < 0) peer_gone(g);
    return gave > 0;
}

void cdz_guest_pump(cdz_guest *g)
{
    bool more = true;
    for (int turns = 0; more && turns < 64 && g->state != CDZ_GUEST_OVER; turns++) {
        more = move_peer_in(g);
        if (g->state != CDZ_GUEST_OVER) more |= step(g);
        if (g->state != CDZ_GUEST_OVER) more |= move_pass(g);
        if (g->state != CDZ_GUEST_OVER) more |= move_inner_in(g);
        if (g->state != CDZ_GUEST_OVER) more |= move_out(g);
        if (g->pass.buf.failed || g->out.buf.failed) peer_gone(g);
    }
}

uint32_t cdz_guest_wants_outside(const cdz_guest *g)
{
    uint32_t wants = g->state == CDZ_GUEST_LINGER && g->shut ? 0 : EPOLLRDHUP;
    if (reads_peer(g)) wants |= EPOLLIN;
    if (flow_left(&g->out)) wants |= EPOLLOUT;
    return wants;
}

uint32_t cdz_guest_wants_inside(const cdz_guest *g)
{
    uint32_t wants = 0;
    if (flow_left(&g->out) < CDZ_GUEST_HELD) wants |= EPOLLIN;
    if (flow_left(&g->pass)) wants |= EPOLLOUT;
    return wants;
}

/* --- the clock ---------------------------------------------------------------------------------------------------- */

static void check_body(cdz_guest *g, double took)
{
    const cdz_door_options *o = g->options;
    if (took > o->limits.body_s && (double)g->body < o->body_rate * took)
        refuse(g, 408, "the body came too slowly");
}

void cdz_guest_check_time(cdz_guest *g, double now)
{
    const double took = now - g->since;
    if (flow_left(&g->out) && now - g->moved > g->options->limits.unread_s) peer_gone(g);
    switch (g->state) {
    case CDZ_GUEST_HEAD:
        if (flow_left(&g->in) ? took > g->options->limits.head_s : false)
            refuse(g, 408, "the head came too slowly");
        else if (!flow_left(&g->in) &&
                 took > (g->n_requests ? g->options->limits.idle_s : g->options->limits.head_s))
            cdz_guest_end(g);
        break;
    case CDZ_GUEST_BODY: check_body(g, took); break;
    case CDZ_GUEST_LINGER:
        if (took > 2 && !flow_left(&g->out)) cdz_guest_end(g);
        break;
    default: break;
    }
}
