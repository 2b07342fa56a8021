/* peer.c - a plugin's process from outside: what it is given, whose turn it is, how it ends.
 *
 * Owns: the pid, the mapping, and a pipe whose closing ends the process, whatever ends this program. Not: what is said
 * (exchange.c). Invariant: whose turn it is, is known by a count of our own; the mapping's is only compared with it. */
#include "isolate/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "isolate/denied.h"
#include "isolate/futex.h"

/* Seconds of processor time it may use until it is asked for something again (worker/confine.c sets it, and how much one
 * process may use in all; that cannot be raised from here, so that a process is replaced before it comes near). */
enum { CPU_SECONDS = CDZ_CPU_SECONDS, ALLOW_EVERY = 10 };
/* A process that dies wakes nobody: so often a waiting host looks whether it is there. */
enum { LOOK_EVERY_MS = 5 };
/* Descriptors that are handed down are first moved here, out of the way of the numbers they get. */
enum { FD_ABOVE = 10 };

/* --- starting ----------------------------------------------------------------------------------------------- */

static int shared_memory(void)
{
    const int fd = memfd_create("cadenza:rows", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -1;
    if (ftruncate(fd, (off_t)CDZ_ISOLATE_MAP_BYTES) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    close(fd);
    return -1;
}

static posix_spawnattr_t *set_attributes(posix_spawnattr_t *attr)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(attr, &none);
    posix_spawnattr_setsigdefault(attr, &all);
    posix_spawnattr_setpgroup(attr, 0); /* the terminal's interrupt is the host's */
    /* No session of its own: schedulers that group by session make every call half as long again on a busy machine, and
     * the terminal is out of reach without one (nothing is open, nothing can be opened, no ioctl). */
    posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                       POSIX_SPAWN_SETPGROUP);
    return attr;
}

/* 0, or an errno. No environment, nothing to read from or write to but the given descriptors, which become 3, 4, 5. */
static int spawn(const char *worker, const int fds[3], pid_t *pid)
{
    char name[] = "cadenza-worker", *const argv[] = {name, NULL}, *const nothing[] = {NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    if (posix_spawn_file_actions_init(&files) != 0) return ENOMEM;
    if (posix_spawnattr_init(&attr) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return ENOMEM;
    }
    int bad = 0;
    for (int fd = 0; fd < 3; fd++)
        bad |= posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
    for (int i = 0; i < 3; i++)
        bad |= posix_spawn_file_actions_adddup2(&files, fds[i], CDZ_ISOLATE_MAP_FD + i);
    if (!bad) bad = posix_spawn(pid, worker, &files, set_attributes(&attr), argv, nothing);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    return bad;
}

/* The page behind is ours too: a copy that ran past the rows would not reach somebody else's memory. */
static unsigned char *map_shared(int fd)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *at = mmap(NULL, CDZ_ISOLATE_MAP_BYTES + page, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return NULL;
    if (mmap(at, CDZ_ISOLATE_MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) !=
        MAP_FAILED)
        return at;
    munmap(at, CDZ_ISOLATE_MAP_BYTES + page);
    return NULL;
}

static void unmap_shared(cdz_peer *p)
{
    if (p->map) munmap(p->map, CDZ_ISOLATE_MAP_BYTES + (size_t)sysconf(_SC_PAGESIZE));
    p->map = NULL;
}

/* 0, or an errno. The descriptors are first moved out of the way of the numbers they get. */
static int spawn_with(const char *worker, int map_fd, int plugin_fd, int life_fd, pid_t *pid)
{
    const int given[3] = {map_fd, plugin_fd, life_fd};
    int high[3], bad = 0;
    for (int i = 0; i < 3; i++) {
        high[i] = fcntl(given[i], F_DUPFD_CLOEXEC, FD_ABOVE);
        if (high[i] < 0 && !bad) bad = errno;
    }
    if (!bad) bad = spawn(worker, high, pid);
    for (int i = 0; i < 3; i++)
        if (high[i] >= 0) close(high[i]);
    return bad;
}

static cdz_status start(const char *worker, int map_fd, int plugin_fd, cdz_peer *out, cdz_error *err)
{
    int life[2];
    out->map = map_shared(map_fd);
    if (!out->map)
        return cdz_err(err, CDZ_E_NOMEM, "no memory to share with a plugin's process: %s",
                       strerror(errno));
    out->turn = CDZ_TURN_FIRST;
    atomic_store(&cdz_peer_head(out)->turn, CDZ_TURN_FIRST);
    int bad = pipe2(life, O_CLOEXEC | O_NONBLOCK) == 0 ? 0 : errno;
    if (!bad) {
        bad = spawn_with(worker, map_fd, plugin_fd, life[0], &out->pid);
        close(life[0]);
        out->life_fd = life[1];
    }
    if (bad == 0) return CDZ_OK;
    out->pid = 0;
    cdz_peer_stop(out);
    return cdz_err(err, CDZ_E_IO, "%s: cannot be started: %s", worker, strerror(bad));
}

cdz_status cdz_peer_start(const char *worker, int plugin_fd, cdz_peer *out, cdz_error *err)
{
    *out = (cdz_peer){.allowed_at = cdz_now_s(), .life_fd = -1};
    const int fd = shared_memory();
    if (fd < 0)
        return cdz_err(err, CDZ_E_NOMEM, "no memory to share with a plugin's process: %s",
                       strerror(errno));
    const cdz_status st = start(worker, fd, plugin_fd, out, err);
    close(fd);
    return st;
}

/* --- ending ------------------------------------------------------------------------------------------------- */

/* Whether it has ended; then how. Someone else in this program may have asked first: then nobody knows. */
static bool has_ended(cdz_peer *p, int options)
{
    int status = 0;
    pid_t got;
    do got = waitpid(p->pid, &status, options);
    while (got < 0 && errno == EINTR);
    if (got == 0) return false;
    p->ended_by = got > 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    p->exit_code = got > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    p->pid = 0;
    return true;
}

void cdz_peer_stop(cdz_peer *p)
{
    if (p->pid > 0 && !has_ended(p, WNOHANG)) {
        kill(p->pid, SIGKILL);
        has_ended(p, 0);
    }
    if (p->map && p->life_fd >= 0) close(p->life_fd); /* a zeroed one has none */
    p->life_fd = -1;
    unmap_shared(p);
}

void cdz_peer_fate(const cdz_peer *p, char *out, size_t out_bytes)
{
    const uint32_t denied =
        p->map ? atomic_load_explicit(&cdz_peer_head(p)->denied, memory_order_relaxed) : 0;
    char name[32];
    if (denied && p->ended_by == 0 && p->exit_code == CDZ_DENIED_EXIT) {
        cdz_denied_name(denied - 1, name, sizeof name);
        snprintf(out, out_bytes,
                 "asked the kernel for %s, which a plugin in a process of its own "
                 "may not",
                 name);
    } else if (p->ended_by == SIGXCPU) {
        snprintf(out, out_bytes, "used more than %d s of processor time unasked", (int)CPU_SECONDS);
    } else if (p->ended_by == SIGSYS) { /* out of a handler, or with signals held back */
        snprintf(out, out_bytes,
                 "asked the kernel for what a plugin in a process of its own may not");
    } else if (p->ended_by) {
        const char *abbrev = sigabbrev_np(p->ended_by);
        snprintf(out, out_bytes, "crashed (SIG%s)", abbrev ? abbrev : "?");
    } else {
        snprintf(out, out_bytes, "exited with status %d", p->exit_code);
    }
}

/* --- turns -------------------------------------------------------------------------------------------------- */

/* Its processor time counts from here on again: what it does when nobody asked ends it, not what it was asked for. */
static void allow_more(cdz_peer *p)
{
    const double now = cdz_now_s();
    clockid_t clock;
    struct timespec used;
    struct rlimit limit;
    if (now < p->allowed_at + ALLOW_EVERY) return;
    p->allowed_at = now;
    if (clock_getcpuclockid(p->pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return;
    if (prlimit(p->pid, RLIMIT_CPU, NULL, &limit) != 0) return;
    const rlim_t more = (rlim_t)used.tv_sec + CPU_SECONDS;
    p->used_s = (double)used.tv_sec;
    p->life_s = (double)limit.rlim_max;
    limit.rlim_cur = more < limit.rlim_max ? more : limit.rlim_max;
    (void)prlimit(p->pid, RLIMIT_CPU, &limit, NULL);
}

/* A life as short as that is half of it. */
bool cdz_peer_is_old(const cdz_peer *p)
{
    const double last = p->life_s < 4 * CPU_SECONDS ? p->life_s / 2 : 2 * CPU_SECONDS;
    return p->used_s > p->life_s - last;
}

bool cdz_peer_give_turn(cdz_peer *p)
{
    if (p->pid > 0) allow_more(p);
    if (!cdz_turn_pass(&cdz_peer_head(p)->turn, p->turn)) return false;
    p->turn++;
    return true;
}

cdz_peer_state cdz_peer_wait(cdz_peer *p, double until)
{
    _Atomic uint32_t *turn = &cdz_peer_head(p)->turn;
    const uint32_t ours = p->turn + 1;
    while (!cdz_turn_wait(turn, ours, LOOK_EVERY_MS)) {
        const uint32_t is = atomic_load_explicit(turn, memory_order_acquire);
        if (is == ours) break;
        if (is != p->turn) return CDZ_PEER_FORGED;
        if (p->pid <= 0 || has_ended(p, WNOHANG)) {
            if (cdz_turn_is(turn, ours)) break;
            return CDZ_PEER_ENDED;
        }
        if (cdz_now_s() >= until) return CDZ_PEER_LATE;
    }
    p->turn = ours;
    return CDZ_PEER_ANSWERED;
}
