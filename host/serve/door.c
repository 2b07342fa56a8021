/* door.c - the listening socket, the thread that runs all guests, and their number. */
#include "serve/door.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "serve/guest.h"

struct cdz_door {
    cdz_door_options options;
    int listener, epoll, wake, spare;
    cdz_guest_port at_listener, at_wake;
    cdz_guest *guests;
    uint64_t bodies; /* bytes of bodies whose requests are not over */
    atomic_uint n_guests;
    atomic_bool stop, drain, looks; /* looks: somebody was answered */
    bool runs, deaf; /* deaf: the listener is not waited for, until a second has passed */
    struct sockaddr_storage address;
    struct stat file; /* of the socket that was made */
    cdz_mutex lock;
    cdz_door_limits next; /* under the lock */
    bool changes;
    pthread_t thread;
    double last_second;
};

static void ring(cdz_door *door)
{
    const uint64_t one = 1;
    if (write(door->wake, &one, sizeof one) < 0) return; /* it is ringing already */
}

static void release(cdz_guest *g)
{
    if (atomic_fetch_sub(&g->holders, 1) != 1) return;
    cdz_buf_free(&g->in.buf);
    cdz_buf_free(&g->pass.buf);
    cdz_buf_free(&g->out.buf);
    free(g);
}

void cdz_guest_left(cdz_guest *guest)
{
    release(guest);
}

void cdz_guest_answered(cdz_guest *guest)
{
    cdz_door *door = guest->door;
    atomic_store(&guest->answered, true);
    atomic_store(&door->looks, true);
    ring(door);
}

/* --- guests --------------------------------------------------------------------------------------------------- */

/* A socket that nothing is wanted of is taken out: a hang-up would be told again and again. */
static void want(cdz_door *door, int fd, cdz_guest_port *port, uint32_t wants)
{
    struct epoll_event event = {.events = wants, .data.ptr = port};
    if (fd < 0 || port->wants == wants) return;
    const int how = !wants ? EPOLL_CTL_DEL : port->wants ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(door->epoll, how, fd, &event) == 0) port->wants = wants;
}

static void run_guest(cdz_door *door, cdz_guest *g)
{
    if (g->state == CDZ_GUEST_OVER) return;
    cdz_guest_pump(g);
    if (g->state == CDZ_GUEST_OVER) return;
    want(door, g->fd, &g->outside, cdz_guest_wants_outside(g));
    want(door, g->inner, &g->inside, cdz_guest_wants_inside(g));
}

static void drop(cdz_door *door, cdz_guest *g)
{
    if (g->told) door->options.leaves(door->options.user, g);
    close(g->fd);
    if (g->inner >= 0) close(g->inner);
    g->fd = g->inner = -1;
    door->bodies -= g->held;
    g->held = 0;
    atomic_fetch_sub(&door->n_guests, 1);
    release(g);
}

static void sweep(cdz_door *door, bool all)
{
    for (cdz_guest **at = &door->guests; *at;) {
        cdz_guest *g = *at;
        if (!all && g->state != CDZ_GUEST_OVER) {
            at = &g->next;
            continue;
        }
        *at = g->next;
        drop(door, g);
    }
}

static bool add_port(cdz_door *door, int fd, cdz_guest_port *port, uint32_t wants)
{
    struct epoll_event event = {.events = wants, .data.ptr = port};
    port->wants = wants;
    return epoll_ctl(door->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static cdz_guest *new_guest(cdz_door *door, int fd, int inner)
{
    cdz_guest *g = calloc(1, sizeof *g);
    if (!g) return NULL;
    g->door = door;
    g->options = &door->options;
    g->fd = fd;
    g->inner = inner;
    g->outside.guest = g->inside.guest = g;
    g->bodies = &door->bodies;
    g->since = g->moved = cdz_now_s();
    g->draining = atomic_load(&door->drain);
    g->in.buf.limit = 2 * CDZ_GUEST_HELD + (16 << 10);
    atomic_store(&g->holders, 1);
    if (add_port(door, fd, &g->outside, EPOLLIN | EPOLLRDHUP) &&
        add_port(door, inner, &g->inside, EPOLLIN))
        return g;
    free(g);
    return NULL;
}

static void welcome(cdz_door *door, int fd, const struct sockaddr_storage *from)
{
    static const int yes = 1, room = 64 << 10, unread = 256 << 10;
    int pair[2];
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &unread, sizeof unread);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        close(fd);
        return;
    }
    setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    cdz_guest *g = new_guest(door, fd, pair[0]);
    if (!g) {
        close(fd);
        close(pair[0]);
        close(pair[1]);
        return;
    }
    g->address = *from;
    g->next = door->guests;
    door->guests = g;
    atomic_fetch_add(&door->n_guests, 1);
    atomic_fetch_add(&g->holders, 1);
    if (door->options.enters(door->options.user, g, pair[1])) return;
    cdz_guest_end(g);
    release(g);
}

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in *four_a = (const void *)a, *four_b = (const void *)b;
    const struct sockaddr_in6 *six_a = (const void *)a, *six_b = (const void *)b;
    if (a->ss_family != b->ss_family) return false;
    if (a->ss_family == AF_INET) return four_a->sin_addr.s_addr == four_b->sin_addr.s_addr;
    return a->ss_family == AF_INET6 &&
           memcmp(&six_a->sin6_addr, &six_b->sin6_addr, sizeof six_a->sin6_addr) == 0;
}

/* Who goes for a newcomer: who has been idle for longest; else who has not said a whole head for longest, and for a second.
 * of: among those of this address; NULL: of any. */
static cdz_guest *one_to_go(cdz_door *door, const struct sockaddr_storage *of)
{
    cdz_guest *idle = NULL, *silent = NULL;
    const double late = cdz_now_s() - 1;
    for (cdz_guest *g = door->guests; g; g = g->next) {
        if (!cdz_guest_is_silent(g) || (of && !same_address(&g->address, of))) continue;
        cdz_guest **oldest = cdz_guest_is_idle(g) ? &idle : &silent;
        if (oldest == &silent && g->since > late) continue;
        if (!*oldest || g->since < (*oldest)->since) *oldest = g;
    }
    return idle ? idle : silent;
}

/* One address leaves an eighth of the places to others. On loopback all have the same. */
static bool has_its_share(const cdz_door *door, const struct sockaddr_storage *of)
{
    const uint32_t most = door->options.limits.most;
    uint32_t n = 0;
    if (cdz_door_is_loopback(door) || atomic_load(&door->n_guests) < most - most / 8) return false;
    for (const cdz_guest *g = door->guests; g; g = g->next)
        n += g->state != CDZ_GUEST_OVER && same_address(&g->address, of);
    return n >= most - most / 8;
}

static bool make_room(cdz_door *door, const struct sockaddr_storage *for_one)
{
    const bool share = has_its_share(door, for_one);
    if (!share && atomic_load(&door->n_guests) < door->options.limits.most) return true;
    cdz_guest *gone = one_to_go(door, share ? for_one : NULL);
    if (gone) cdz_guest_end(gone);
    return gone != NULL;
}

static void turn_away(int fd)
{
    cdz_buf text = {0};
    char request_id[CDZ_HEAD_ID];
    cdz_head_id((cdz_slice){0}, request_id);
    cdz_refusal_write(&text, 503, "there are too many connections", request_id);
    if (!text.failed && send(fd, text.data, text.len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        cdz_buf_clear(&text); /* it need not hear */
    cdz_buf_free(&text);
    close(fd);
}

/* No descriptor is left: the spare one takes the connection, which is closed. */
static void accept_none(cdz_door *door)
{
    close(door->spare);
    const int fd = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) close(fd);
    door->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    door->deaf = true;
    want(door, door->listener, &door->at_listener, 0);
}

static void accept_some(cdz_door *door)
{
    for (int i = 0; i < 64; i++) {
        struct sockaddr_storage from = {0};
        socklen_t len = sizeof from;
        const int fd =
            accept4(door->listener, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
            accept_none(door);
        if (fd < 0) return;
        if (make_room(door, &from))
            welcome(door, fd, &from);
        else
            turn_away(fd);
    }
}

/* --- the thread ------------------------------------------------------------------------------------------------ */

static void look_at_all(cdz_door *door)
{
    const bool drain = atomic_load(&door->drain);
    for (cdz_guest *g = door->guests; g; g = g->next) {
        if (drain && !g->draining) {
            g->draining = true;
            if (cdz_guest_is_idle(g)) cdz_guest_end(g);
        }
        if (g->told && atomic_load(&g->answered)) run_guest(door, g);
        if (drain && cdz_guest_is_idle(g)) cdz_guest_end(g);
    }
}

static void take_limits(cdz_door *door)
{
    cdz_mutex_lock(&door->lock);
    if (door->changes) door->options.limits = door->next;
    door->changes = false;
    cdz_mutex_unlock(&door->lock);
}

void cdz_door_change(cdz_door *door, const cdz_door_limits *limits)
{
    cdz_mutex_lock(&door->lock);
    door->next = *limits;
    door->changes = true;
    cdz_mutex_unlock(&door->lock);
}

static void pass_second(cdz_door *door, double now)
{
    if (now - door->last_second < 1) return;
    door->last_second = now;
    take_limits(door);
    if (door->deaf) want(door, door->listener, &door->at_listener, EPOLLIN);
    door->deaf = false;
    for (cdz_guest *g = door->guests; g; g = g->next) {
        cdz_guest_check_time(g, now);
        run_guest(door, g);
    }
    door->options.second(door->options.user);
}

static void take_event(cdz_door *door, const struct epoll_event *event)
{
    cdz_guest_port *port = event->data.ptr;
    uint64_t rings;
    if (port == &door->at_listener) {
        accept_some(door);
    } else if (port == &door->at_wake) {
        if (read(door->wake, &rings, sizeof rings) < 0) return;
    } else if (port == &port->guest->outside && port->guest->state != CDZ_GUEST_OVER &&
               (event->events & (EPOLLHUP | EPOLLERR))) {
        cdz_guest_end(port->guest);
    } else if (port == &port->guest->outside && (event->events & EPOLLRDHUP) &&
               (port->guest->state == CDZ_GUEST_ANSWER)) {
        cdz_guest_end(port->guest);
    } else {
        run_guest(door, port->guest);
    }
}

static void *run_door(void *user)
{
    cdz_door *door = user;
    struct epoll_event events[64];
    while (!atomic_load(&door->stop)) {
        const int n = epoll_wait(door->epoll, events, 64, 500);
        for (int i = 0; i < n; i++) take_event(door, &events[i]);
        if (atomic_exchange(&door->looks, false)) look_at_all(door);
        pass_second(door, cdz_now_s());
        sweep(door, false);
    }
    sweep(door, true);
    return NULL;
}

void cdz_door_drain(cdz_door *door)
{
    atomic_store(&door->drain, true);
    atomic_store(&door->looks, true);
    ring(door);
}

uint32_t cdz_door_n_guests(const cdz_door *door)
{
    return atomic_load(&door->n_guests);
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

/* Three descriptors a guest, and those that the rest of the program has. */
static void raise_descriptors(uint32_t guests)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    const rlim_t wanted = (rlim_t)guests * 3 + 256;
    if (limit.rlim_cur >= wanted) return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int listen_at(const struct addrinfo *at)
{
    static const int yes = 1;
    const int fd = socket(at->ai_family, at->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, 511) == 0) return fd;
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* A socket file that nobody listens at any more is a left-over. */
static bool is_left_over(const struct sockaddr_un *at)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    const bool refused =
        connect(fd, (const struct sockaddr *)at, sizeof *at) != 0 && errno == ECONNREFUSED;
    close(fd);
    return refused;
}

static cdz_status listen_at_file(cdz_door *door, cdz_error *err)
{
    const char *path = door->options.unix_path;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof at.sun_path)
        return cdz_err(err, CDZ_E_USAGE, "unix:%s: the path of a socket has at most %zu bytes",
                       path, sizeof at.sun_path - 1);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    const struct addrinfo where = {.ai_family = AF_UNIX,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_addr = (struct sockaddr *)&at,
                                   .ai_addrlen = sizeof at};
    door->listener = listen_at(&where);
    if (door->listener < 0 && errno == EADDRINUSE && is_left_over(&at) && unlink(path) == 0)
        door->listener = listen_at(&where);
    if (door->listener < 0)
        return cdz_err(err, CDZ_E_IO, "cannot listen on unix:%s: %s", path, strerror(errno));
    if (stat(path, &door->file) != 0) door->file = (struct stat){0};
    return CDZ_OK;
}

static void remove_file(const cdz_door *door)
{
    struct stat now;
    const char *path = door->options.unix_path;
    if (path && door->file.st_ino && stat(path, &now) == 0 && now.st_ino == door->file.st_ino &&
        now.st_dev == door->file.st_dev)
        unlink(path);
}

static cdz_status listen_at_address(cdz_door *door, cdz_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    const cdz_door_options *o = &door->options;
    struct addrinfo *found = NULL;
    char port[8];
    snprintf(port, sizeof port, "%u", o->port);
    const int failed = getaddrinfo(o->host, port, &hints, &found);
    if (failed)
        return cdz_err(err, CDZ_E_USAGE, "--host %s: no address has this name (%s)", o->host,
                       gai_strerror(failed));
    for (const struct addrinfo *at = found; at && door->listener < 0; at = at->ai_next)
        door->listener = listen_at(at);
    const int why = errno;
    freeaddrinfo(found);
    if (door->listener < 0)
        return cdz_err(err, CDZ_E_IO, "cannot listen on %s, port %u: %s", o->host, o->port,
                       strerror(why));
    return CDZ_OK;
}

/* One that was handed in waits for nobody, and is not inherited. */
static cdz_status adopt_listener(cdz_door *door, cdz_error *err)
{
    const int fd = door->options.listener, flags = fcntl(fd, F_GETFL);
    int listens = 0;
    socklen_t len = sizeof listens;
    if (flags < 0 || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) != 0 || !listens)
        return cdz_err(err, CDZ_E_USAGE, "descriptor %d is no socket that listens", fd);
    door->listener = fd;
    if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return cdz_err(err, CDZ_E_IO, "descriptor %d: %s", fd, strerror(errno));
    return CDZ_OK;
}

static cdz_status open_listener(cdz_door *door, cdz_error *err)
{
    const cdz_door_options *o = &door->options;
    const cdz_status status = o->listener >= 0 ? adopt_listener(door, err)
                              : o->unix_path   ? listen_at_file(door, err)
                                               : listen_at_address(door, err);
    socklen_t len = sizeof door->address;
    if (status == CDZ_OK) getsockname(door->listener, (struct sockaddr *)&door->address, &len);
    return status;
}

bool cdz_door_is_file(const cdz_door *door)
{
    return door->address.ss_family == AF_UNIX;
}

uint16_t cdz_door_port(const cdz_door *door)
{
    const struct sockaddr_in6 *six = (const void *)&door->address;
    const struct sockaddr_in *four = (const void *)&door->address;
    if (cdz_door_is_file(door)) return 0;
    return ntohs(door->address.ss_family == AF_INET6 ? six->sin6_port : four->sin_port);
}

void cdz_door_address(const cdz_door *door, char *out, size_t bytes)
{
    char host[64] = "?", port[8] = "?";
    const struct sockaddr_un *file = (const void *)&door->address;
    const bool six = door->address.ss_family == AF_INET6;
    if (cdz_door_is_file(door)) {
        /* A name that begins with NUL is in no file system. */
        snprintf(out, bytes, "unix:%s%s", file->sun_path[0] ? "" : "@",
                 file->sun_path + !file->sun_path[0]);
        return;
    }
    getnameinfo((const struct sockaddr *)&door->address, sizeof door->address, host, sizeof host,
                port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(out, bytes, "http://%s%s%s:%s", six ? "[" : "", host, six ? "]" : "", port);
}

bool cdz_door_is_loopback(const cdz_door *door)
{
    const struct sockaddr_in6 *six = (const void *)&door->address;
    const struct sockaddr_in *four = (const void *)&door->address;
    if (door->address.ss_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
    if (door->address.ss_family != AF_INET) return false;
    return (ntohl(four->sin_addr.s_addr) >> 24) == 127;
}

cdz_status cdz_door_open(const cdz_door_options *options, cdz_door **out, cdz_error *err)
{
    cdz_door *door = calloc(1, sizeof *door);
    if (!door) return cdz_err_memory(err, "the server");
    door->options = *options;
    cdz_mutex_init(&door->lock);
    door->listener = door->wake = -1;
    raise_descriptors(options->limits.most);
    door->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    door->epoll = epoll_create1(EPOLL_CLOEXEC);
    door->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    cdz_status status = open_listener(door, err);
    if (status == CDZ_OK && (door->epoll < 0 || door->wake < 0 ||
                             !add_port(door, door->listener, &door->at_listener, EPOLLIN) ||
                             !add_port(door, door->wake, &door->at_wake, EPOLLIN)))
        status = cdz_err(err, CDZ_E_IO, "cannot wait for connections: %s", strerror(errno));
    if (status == CDZ_OK)
        *out = door;
    else
        cdz_door_close(door);
    return status;
}

cdz_status cdz_door_run(cdz_door *door, cdz_error *err)
{
    const int failed = pthread_create(&door->thread, NULL, run_door, door);
    if (failed) return cdz_err(err, CDZ_E_IO, "cannot start a thread: %s", strerror(failed));
    door->runs = true;
    return CDZ_OK;
}

void cdz_door_stop(cdz_door *door)
{
    if (!door->runs) return;
    atomic_store(&door->stop, true);
    ring(door);
    pthread_join(door->thread, NULL);
    door->runs = false;
}

void cdz_door_close(cdz_door *door)
{
    if (!door) return;
    cdz_door_stop(door);
    if (door->listener >= 0) close(door->listener);
    remove_file(door);
    if (door->epoll >= 0) close(door->epoll);
    if (door->wake >= 0) close(door->wake);
    if (door->spare >= 0) close(door->spare);
    cdz_mutex_destroy(&door->lock);
    free(door);
}
