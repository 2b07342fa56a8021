/* confine.c - what holds a plugin's process in before anything of the plugin is mapped.
 *
 * Nothing is open but the plugin's bytes, /dev/null and a pipe that nobody writes to, there is no environment and no
 * terminal, no privilege, no right to be looked into. Limits: memory, processor time, no core, no file that grows, no
 * process, no new descriptor. Namespaces: users, IPC and names of its own. Files and signals (Landlock): while
 * the system's libraries that the plugin needs are opened, reading of these; afterwards nothing, and no signal to others.
 * System calls: filter.c. Each is asked of the kernel and left out where it knows nothing of it; the bits that come back
 * say what it knew, and go to the host before the plugin can say anything. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sanitized.h"
#include "worker/worker.h"

#if CDZ_SANITIZED
/* Faults of the plugin end the process as they do elsewhere; a report could not be written anyway. */
#define OPTIONS "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigfpe=0:handle_sigill=0:"
CDZ_EXPORT const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return OPTIONS "detect_leaks=0:allocator_may_return_null=1";
}
CDZ_EXPORT const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return OPTIONS "allocator_may_return_null=1";
}
#endif

#define MEMORY_BYTES ((rlim_t)4 << 30) /* of addresses; the mapping takes one of them */
enum { OPEN_FILES = 64, MOST_FILES = 1 << 16 };

/* --- what it inherits ----------------------------------------------------------------------------------------------- */

/* Kernels before 5.9 close one at a time. */
static void close_others(void)
{
    const int first = CDZ_ISOLATE_LIFE_FD + 1;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, first, ~0U, 0) == 0) return;
#endif
    for (int fd = first; fd < MOST_FILES; fd++) close(fd);
}

/* The pipe's other end is the host's: when it is gone, this process is killed, whatever the plugin does. (The signal that
 * prctl offers comes when the thread that started this process ends, which need not be the host's end.) */
static void die_with_host(void)
{
    char byte;
    const int fd = CDZ_ISOLATE_LIFE_FD;
    if (fcntl(fd, F_SETOWN, getpid()) != 0 || fcntl(fd, F_SETSIG, SIGKILL) != 0 ||
        fcntl(fd, F_SETFL, O_RDONLY | O_NONBLOCK | O_ASYNC) != 0)
        return;                            /* then wait_for_turn finds out */
    if (read(fd, &byte, 1) == 0) _exit(0); /* it went before */
}

static void drop_privileges(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[2] = {{0}};
    (void)syscall(SYS_capset, &header, none);
}

/* A network of its own takes the kernel milliseconds to make and to clear away, and no call that knows of networks is on
 * the list: it is for kernels without one. */
static bool own_spaces(void)
{
    const int spaces = CLONE_NEWUSER | CLONE_NEWIPC | CLONE_NEWUTS;
    return unshare(cdz_filter_known() ? spaces : spaces | CLONE_NEWNET) == 0;
}

/* A limit that is lower already stays so: nobody may raise it. */
static bool limit(int what, rlim_t soft, rlim_t hard)
{
    struct rlimit l;
    if (getrlimit((__rlimit_resource_t)what, &l) != 0) return false;
    if (hard < l.rlim_max) l.rlim_max = hard;
    l.rlim_cur = soft < l.rlim_max ? soft : l.rlim_max;
    return setrlimit((__rlimit_resource_t)what, &l) == 0;
}

static bool set_limits(void)
{
    static const struct {
        int what;
        rlim_t soft, hard;
    } limits[] = {
#if !CDZ_SANITIZED /* their shadow memory takes terabytes of addresses */
        {RLIMIT_AS, MEMORY_BYTES, MEMORY_BYTES},
#endif
        {RLIMIT_CPU, CDZ_CPU_SECONDS, CDZ_CPU_LIFE_SECONDS}, /* the host moves the soft one on */
        {RLIMIT_CORE, 0, 0},
        {RLIMIT_FSIZE, 0, 0},
        {RLIMIT_NPROC, 0, 0},
        {RLIMIT_NOFILE, OPEN_FILES, OPEN_FILES},
        {RLIMIT_MSGQUEUE, 0, 0},
        {RLIMIT_MEMLOCK, 0, 0},
        {RLIMIT_SIGPENDING, OPEN_FILES, OPEN_FILES},
    };
    bool all = true;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        all &= limit(limits[i].what, limits[i].soft, limits[i].hard);
    return all;
}

/* --- files and signals: Landlock -------------------------------------------------------------------------------------- */

/* As the newest version known here has it; <linux/landlock.h> may be older. */
typedef struct ruleset {
    __u64 files, network, scoped;
} ruleset;

/* Rights by version of Landlock: 1 has 13 of files, 2, 3 and 5 one more each, 4 has 2 of TCP, 6 keeps abstract sockets and
 * signals in. */
static ruleset everything(long version)
{
    ruleset r = {.files = (1u << 13) - 1};
    if (version >= 2) r.files |= 1u << 13;
    if (version >= 3) r.files |= 1u << 14;
    if (version >= 4) r.network = 3;
    if (version >= 5) r.files |= 1u << 15;
    if (version >= 6) r.scoped = 3;
    return r;
}

static size_t ruleset_bytes(long version)
{
    if (version >= 6) return sizeof(ruleset);
    return version >= 4 ? offsetof(ruleset, scoped) : offsetof(ruleset, network);
}

static void allow_reading(int rules, const char *path, __u64 access)
{
    const int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) return;
    const struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};
    (void)syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    close(fd);
}

/* Where the libraries that a plugin needs may lie. The plugin itself is a memory file that is open already. */
static void allow_libraries(int rules)
{
    static const char *const folders[] = {"/lib", "/lib64", "/usr/lib", "/usr/lib64",
                                          "/usr/local/lib"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        allow_reading(rules, folders[i], LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR);
    allow_reading(rules, "/etc/ld.so.cache", LANDLOCK_ACCESS_FS_READ_FILE);
}

/* The guards that came of it. */
static uint32_t restrict_files(bool libraries)
{
    const long version =
        syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1) return 0;
    const ruleset all = everything(version);
    const long rules = syscall(SYS_landlock_create_ruleset, &all, ruleset_bytes(version), 0);
    if (rules < 0) return 0;
    if (libraries) allow_libraries((int)rules);
    const bool done = syscall(SYS_landlock_restrict_self, (int)rules, 0) == 0;
    close((int)rules);
    if (!done) return 0;
    return version >= 6 ? CDZ_GUARD_FILES | CDZ_GUARD_SIGNALS : CDZ_GUARD_FILES;
}

/* --- both --------------------------------------------------------------------------------------------------------------- */

uint32_t cdz_confine_start(cdz_isolate_head *head, bool *limited)
{
    close_others();
    (void)!chdir("/");
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    uint32_t guards = own_spaces() ? CDZ_GUARD_SPACES : 0;
    drop_privileges();
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    die_with_host();
    *limited = set_limits();
    guards |= restrict_files(true);
    if (cdz_filter_libraries(head)) guards |= CDZ_GUARD_FILTER;
    return guards;
}

/* The loader's open of the plugin is answered by the filter (filter.c). Without one it is made: it takes the place of the
 * mapping's descriptor, which is closed, and there is no other. */
uint32_t cdz_confine_for_good(void)
{
    close_others(); /* what constructors of libraries opened */
    uint32_t guards = CDZ_GUARD_SPACES | restrict_files(false);
    const rlim_t files = cdz_filter_known() ? 0 : CDZ_ISOLATE_MAP_FD + 1;
    (void)limit(RLIMIT_NOFILE, files, files);
    if (cdz_filter_plugin()) guards |= CDZ_GUARD_FILTER;
    return guards;
}

void cdz_confine_opened(uint32_t guards)
{
    if (!(guards & CDZ_GUARD_FILTER)) (void)limit(RLIMIT_NOFILE, 0, 0);
}
