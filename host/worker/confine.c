/* confine.c - what holds a plugin's process in, beside having nothing open and no environment.
 *
 * Limits: memory, processor time, no core, no file that grows, no process. Files (Landlock): while the plugin is opened,
 * reading of libraries; afterwards nothing. System calls (seccomp, a list of what is allowed): while it is opened, what
 * the dynamic loader needs; afterwards memory, time and waiting. No network, no process, no signal to others at any time.
 * Each is asked of the kernel and left out where it knows nothing of it; head->guards says what came of it.
 *
 * A refused call ends the process, its number left in head->denied for the host's sentence. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/sanitized.h"
#include "isolate/denied.h"
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

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

enum { CPU_SECONDS = 60, OPEN_FILES = 64 };
#define MEMORY_BYTES ((rlim_t)4 << 30) /* of addresses; the mapping takes one of them */

/* --- limits ------------------------------------------------------------------------------------------------------- */

static void limit(int what, rlim_t soft, rlim_t hard)
{
    const struct rlimit l = {soft, hard};
    (void)setrlimit((__rlimit_resource_t)what, &l);
}

void cdz_confine_limits(void)
{
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
#ifdef SYS_close_range
    (void)syscall(SYS_close_range, CDZ_ISOLATE_PLUGIN_FD + 1, ~0U, 0);
#endif
#if !CDZ_SANITIZED /* their shadow memory takes terabytes of addresses */
    limit(RLIMIT_AS, MEMORY_BYTES, MEMORY_BYTES);
#endif
    limit(RLIMIT_CPU, CPU_SECONDS, RLIM_INFINITY); /* the host moves the soft one on */
    limit(RLIMIT_CORE, 0, 0);
    limit(RLIMIT_FSIZE, 0, 0);
    limit(RLIMIT_NPROC, 0, 0);
    limit(RLIMIT_NOFILE, OPEN_FILES, OPEN_FILES);
}

/* --- files: Landlock ------------------------------------------------------------------------------------------------ */

/* Everything the first version of Landlock knows. */
#define ALL_ACCESS                                                                                 \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |   \
     LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_DIR |                                 \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |   \
     LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)

static void allow_reading(int rules, const char *path, __u64 access)
{
    const int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) return;
    const struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};
    (void)syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    close(fd);
}

/* Where the plugin's libraries may lie. The plugin itself is a memory file, which Landlock does not look at. */
static bool restrict_files(bool libraries)
{
    static const char *const folders[] = {"/lib", "/lib64", "/usr/lib", "/usr/lib64",
                                          "/usr/local/lib"};
    const struct landlock_ruleset_attr attr = {.handled_access_fs = ALL_ACCESS};
    const long rules = syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    if (rules < 0) return false;
    for (size_t i = 0; libraries && i < sizeof folders / sizeof folders[0]; i++)
        allow_reading((int)rules, folders[i],
                      LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR);
    if (libraries) {
        allow_reading((int)rules, "/etc/ld.so.cache", LANDLOCK_ACCESS_FS_READ_FILE);
        allow_reading((int)rules, "/proc/self", LANDLOCK_ACCESS_FS_READ_FILE);
    }
    const bool done = syscall(SYS_landlock_restrict_self, (int)rules, 0) == 0;
    close((int)rules);
    return done;
}

/* --- system calls: seccomp -------------------------------------------------------------------------------------------- */

#ifdef ARCH

static cdz_isolate_head *told; /* for the handler below, which is given nothing else */

/* The call was not made, whoever hears of it; from the second filter on this cannot be replaced (rt_sigaction). */
static void refuse(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    if (told) told->denied = 1 + (uint32_t)info->si_syscall;
    _exit(CDZ_DENIED_EXIT);
}

static const int always[] = {
    SYS_futex,        SYS_getppid,         SYS_exit_group,    SYS_exit,
    SYS_rt_sigreturn, SYS_rt_sigprocmask,  SYS_munmap,        SYS_mremap,
    SYS_brk,          SYS_madvise,         SYS_clock_gettime, SYS_gettimeofday,
    SYS_sched_yield,  SYS_getpid,          SYS_gettid,        SYS_restart_syscall,
    SYS_close,
#ifdef SYS_time
    SYS_time,
#endif
#ifdef SYS_rseq
    SYS_rseq,
#endif
#if CDZ_SANITIZED
    SYS_sigaltstack,  SYS_write,           SYS_readlink,      SYS_prctl,
    SYS_getrlimit,    SYS_clock_nanosleep, SYS_nanosleep,     SYS_sched_getaffinity,
#endif
};

/* What the dynamic loader and the narrowing itself need besides. */
static const int opening[] = {
    SYS_openat,
    SYS_read,
    SYS_pread64,
    SYS_fstat,
    SYS_lseek,
    SYS_prctl,
    SYS_seccomp,
    SYS_landlock_create_ruleset,
    SYS_landlock_add_rule,
    SYS_landlock_restrict_self,
    SYS_setrlimit,
    SYS_getrandom,
    SYS_rt_sigaction,
    SYS_readlinkat,
    SYS_faccessat,
    SYS_getcwd,
    SYS_fcntl,
    SYS_prlimit64,
#ifdef SYS_newfstatat
    SYS_newfstatat,
#endif
#ifdef SYS_open
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
#endif
#ifdef SYS_arch_prctl
    SYS_arch_prctl,
#endif
};

enum { MOST_LINES = 256 };

typedef struct program {
    struct sock_filter line[MOST_LINES];
    unsigned short n;
} program;

static void add(program *p, uint16_t code, uint8_t yes, uint8_t no, uint32_t k)
{
    if (p->n < MOST_LINES) p->line[p->n++] = (struct sock_filter){code, yes, no, k};
}

static void load(program *p, size_t offset)
{
    add(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

static void give(program *p, uint32_t verdict)
{
    add(p, BPF_RET | BPF_K, 0, 0, verdict);
}

static void allow(program *p, const int *calls, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        add(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (uint32_t)calls[i]);
        give(p, SECCOMP_RET_ALLOW);
    }
}

/* A call whose i-th argument may have none of these bits (its upper half is not looked at: they are ints). */
static void allow_without(program *p, int call, unsigned arg, uint32_t bits, uint32_t otherwise)
{
    const size_t low = offsetof(struct seccomp_data, args) + 8u * arg;
    add(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, (uint32_t)call);
    load(p, low);
    add(p, BPF_JMP | BPF_JSET | BPF_K, 0, 1, bits);
    give(p, otherwise);
    give(p, SECCOMP_RET_ALLOW);
    load(p, offsetof(struct seccomp_data, nr));
}

/* Writing to what stands for the terminal, which is /dev/null, does no harm and is so easily done. */
static void allow_printing(program *p)
{
    static const int calls[] = {SYS_write, SYS_writev};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        add(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, (uint32_t)calls[i]);
        load(p, offsetof(struct seccomp_data, args));
        add(p, BPF_JMP | BPF_JGE | BPF_K, 1, 0, 3);
        give(p, SECCOMP_RET_ALLOW);
        give(p, SECCOMP_RET_TRAP);
        load(p, offsetof(struct seccomp_data, nr));
    }
}

/* abort() sends itself a signal; to anybody else none goes. */
static void allow_abort(program *p)
{
    add(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, SYS_tgkill);
    load(p, offsetof(struct seccomp_data, args));
    add(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (uint32_t)getpid());
    give(p, SECCOMP_RET_ALLOW);
    give(p, SECCOMP_RET_TRAP);
    load(p, offsetof(struct seccomp_data, nr));
}

static bool install(program *p)
{
    const struct sock_fprog filter = {.len = p->n, .filter = p->line};
    return p->n < MOST_LINES && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

/* Little-endian machines only: the low half of an argument comes first. */
static bool filter_calls(bool open)
{
    program p = {.n = 0};
    load(&p, offsetof(struct seccomp_data, arch));
    add(&p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ARCH);
    give(&p, SECCOMP_RET_KILL_PROCESS);
    load(&p, offsetof(struct seccomp_data, nr));
    allow(&p, always, sizeof always / sizeof always[0]);
    if (open) allow(&p, opening, sizeof opening / sizeof opening[0]);
    const uint32_t code = open ? 0 : PROT_EXEC; /* no new code once the plugin is there */
    allow_without(&p, SYS_mprotect, 2, code, SECCOMP_RET_TRAP);
    allow_without(&p, SYS_mmap, 2, code, SECCOMP_RET_TRAP);
    /* What a library may ask about the terminal before it writes there. */
    allow_printing(&p);
    allow_abort(&p);
    add(&p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_ioctl);
    give(&p, SECCOMP_RET_ERRNO | ENOTTY);
    give(&p, SECCOMP_RET_TRAP);
    return install(&p);
}

static bool hear_refusals(cdz_isolate_head *head)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    told = head;
    action.sa_sigaction = refuse;
    return sigaction(SIGSYS, &action, NULL) == 0;
}

#else /* another machine: no filter is written for it */

static bool filter_calls(bool open)
{
    (void)open;
    return false;
}

static bool hear_refusals(cdz_isolate_head *head)
{
    (void)head;
    return true;
}

#endif

/* --- both --------------------------------------------------------------------------------------------------------------- */

void cdz_confine_opening(cdz_isolate_head *head)
{
    (void)hear_refusals(head);
    (void)restrict_files(true);
    (void)filter_calls(true);
}

void cdz_confine_for_good(cdz_isolate_head *head)
{
    const bool files = restrict_files(false);
    limit(RLIMIT_NOFILE, 0, 0);
    const bool calls = filter_calls(false);
    head->guards = (calls ? CDZ_GUARD_FILTER : 0) | (files ? CDZ_GUARD_FILES : 0);
}
