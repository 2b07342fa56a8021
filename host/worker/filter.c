/* filter.c - the list of system calls (seccomp) that a plugin's process may make, and with which arguments.
 *
 * Two filters. The first stands while libraries of the system are opened that the plugin needs: it lets the dynamic loader
 * read files and fails whatever could reach another process. The second is the one for good and stands before anything of
 * the plugin is mapped: memory without new code, time, waiting, writing to what is /dev/null, ending. There is no third.
 *
 * The dynamic loader has to open the plugin, and may not open a file. So that one open is not made: the kernel hands the
 * call back (SIGSYS), and the handler gives the loader the descriptor that is there already. Code is mapped from that
 * descriptor alone, whose bytes are sealed; the loader closes it, and nothing can be opened in its place.
 *
 * Any other call ends the process, its number left in head->denied for the host's sentence. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/sanitized.h"
#include "isolate/denied.h"
#include "worker/worker.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef ARCH

static cdz_isolate_head *told; /* for the handler below, which is given nothing else */
static volatile sig_atomic_t loading,
    given; /* the plugin is being opened; its descriptor was handed out */

/* --- calls that are not made ------------------------------------------------------------------------------------------ */

static uintptr_t argument(const ucontext_t *u, int i)
{
#if defined(__x86_64__)
    static const int registers[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10};
    return (uintptr_t)u->uc_mcontext.gregs[registers[i]];
#else
    return (uintptr_t)u->uc_mcontext.regs[i];
#endif
}

static void give_back(ucontext_t *u, long value)
{
#if defined(__x86_64__)
    u->uc_mcontext.gregs[REG_RAX] = value;
#else
    u->uc_mcontext.regs[0] = (unsigned long)value;
#endif
}

/* The loader's open of the plugin, once; any other finds nothing it may have. */
static long open_plugin(const char *path)
{
    if (given || strcmp(path, CDZ_WORKER_PLUGIN_NAME) != 0) return -EACCES;
    given = 1;
    return CDZ_ISOLATE_PLUGIN_FD;
}

/* fstat, as newer C libraries write it. */
static bool is_fstat(const ucontext_t *u)
{
    const char *path = (const char *)argument(u, 1);
    return (argument(u, 3) & AT_EMPTY_PATH) != 0 && path && *path == '\0';
}

static long look_at(const ucontext_t *u)
{
    return syscall(SYS_fstat, (int)argument(u, 0), argument(u, 2)) == 0 ? 0 : -errno;
}

/* True: it was answered. Files are asked for while the plugin is opened, by the loader or by the plugin's constructors,
 * which hear that there are none; later it is worth a sentence. */
static bool stand_in(int call, ucontext_t *u)
{
    if (call == SYS_newfstatat && is_fstat(u)) {
        give_back(u, look_at(u));
        return true;
    }
    if (!loading) return false;
    switch (call) {
    case SYS_openat: give_back(u, open_plugin((const char *)argument(u, 1))); return true;
#ifdef SYS_open
    case SYS_open: give_back(u, open_plugin((const char *)argument(u, 0))); return true;
    case SYS_access:
    case SYS_stat:
    case SYS_lstat:
    case SYS_readlink:
#endif
    case SYS_newfstatat:
    case SYS_statx:
    case SYS_faccessat:
    case SYS_readlinkat: give_back(u, -EACCES); return true;
    default: return false;
    }
}

/* The call was not made, whoever hears of it; rt_sigaction is not on the list, so that nobody takes this one's place. */
static void refuse(int signal, siginfo_t *info, void *context)
{
    const int before = errno;
    (void)signal;
    if (stand_in(info->si_syscall, context)) {
        errno = before;
        return;
    }
    if (told)
        atomic_store_explicit(&told->denied, 1 + (uint32_t)info->si_syscall, memory_order_relaxed);
    _exit(CDZ_DENIED_EXIT);
}

/* --- the lists ---------------------------------------------------------------------------------------------------------- */

static const int always[] = {
    SYS_getppid,
    SYS_exit_group,
    SYS_exit,
    SYS_rt_sigreturn,
    SYS_munmap,
    SYS_mremap,
    SYS_brk,
    SYS_madvise,
    SYS_clock_gettime,
    SYS_gettimeofday,
    SYS_sched_yield,
    SYS_getpid,
    SYS_gettid,
    SYS_restart_syscall,
    SYS_fstat,
    SYS_getrandom,
#ifdef SYS_time
    SYS_time,
#endif
#ifdef SYS_rseq
    SYS_rseq,
#endif
#if CDZ_SANITIZED
    SYS_sigaltstack,
    SYS_readlink,
    SYS_getrlimit,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_sched_getaffinity,
    SYS_rt_sigprocmask,
#endif
};

/* What opening libraries of the system and the second filter take besides. */
static const int for_libraries[] = {
    SYS_openat,
    SYS_read,
    SYS_pread64,
    SYS_lseek,
    SYS_close,
    SYS_rt_sigprocmask,
    SYS_rt_sigaction,
    SYS_readlinkat,
    SYS_faccessat,
    SYS_getcwd,
    SYS_uname,
    SYS_sysinfo,
    SYS_sched_getaffinity,
    SYS_getdents64,
    SYS_close_range,
    SYS_seccomp,
    SYS_landlock_create_ruleset,
    SYS_landlock_add_rule,
    SYS_landlock_restrict_self,
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

/* --- writing a filter ----------------------------------------------------------------------------------------------------- */

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

/* The lower half of an argument, which lies first: little-endian machines only. The kernel takes what is looked at here
 * (descriptors, flags, process ids) from that half alone. */
static void load_argument(program *p, unsigned i)
{
    load(p, offsetof(struct seccomp_data, args) + 8u * i);
}

static void give(program *p, uint32_t verdict)
{
    add(p, BPF_RET | BPF_K, 0, 0, verdict);
}

/* The next `lines` lines are for this call alone. */
static void only_for(program *p, int call, uint8_t lines)
{
    add(p, BPF_JMP | BPF_JEQ | BPF_K, 0, lines, (uint32_t)call);
}

static void allow(program *p, const int *calls, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        only_for(p, calls[i], 1);
        give(p, SECCOMP_RET_ALLOW);
    }
}

static void answer(program *p, int call, uint32_t error)
{
    only_for(p, call, 1);
    give(p, SECCOMP_RET_ERRNO | error);
}

/* Where its i-th argument is this. */
static void allow_equal(program *p, int call, unsigned i, uint32_t value)
{
    only_for(p, call, 4);
    load_argument(p, i);
    add(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, value);
    give(p, SECCOMP_RET_ALLOW);
    give(p, SECCOMP_RET_TRAP);
}

/* Where it is less. */
static void allow_below(program *p, int call, unsigned i, uint32_t value)
{
    only_for(p, call, 4);
    load_argument(p, i);
    add(p, BPF_JMP | BPF_JGE | BPF_K, 1, 0, value);
    give(p, SECCOMP_RET_ALLOW);
    give(p, SECCOMP_RET_TRAP);
}

/* Without new code: only pages of the plugin's own file, as they are, become code. */
static void allow_mmap(program *p)
{
    only_for(p, SYS_mmap, 10);
    load_argument(p, 2);
    add(p, BPF_JMP | BPF_JSET | BPF_K, 1, 0, PROT_EXEC);
    give(p, SECCOMP_RET_ALLOW);
    add(p, BPF_JMP | BPF_JSET | BPF_K, 5, 0, PROT_WRITE);
    load_argument(p, 3);
    add(p, BPF_JMP | BPF_JSET | BPF_K, 3, 0, MAP_ANONYMOUS);
    load_argument(p, 4);
    add(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, CDZ_ISOLATE_PLUGIN_FD);
    give(p, SECCOMP_RET_ALLOW);
    give(p, SECCOMP_RET_TRAP);
}

static void allow_mprotect(program *p)
{
    only_for(p, SYS_mprotect, 4);
    load_argument(p, 2);
    add(p, BPF_JMP | BPF_JSET | BPF_K, 1, 0, PROT_EXEC);
    give(p, SECCOMP_RET_ALLOW);
    give(p, SECCOMP_RET_TRAP);
}

/* Waiting and waking: no lock that lends priority, no moving of those who wait. */
static void allow_futex(program *p)
{
    only_for(p, SYS_futex, 8);
    load_argument(p, 1);
    add(p, BPF_ALU | BPF_AND | BPF_K, 0, 0, ~(uint32_t)(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME));
    add(p, BPF_JMP | BPF_JEQ | BPF_K, 3, 0, FUTEX_WAIT);
    add(p, BPF_JMP | BPF_JEQ | BPF_K, 2, 0, FUTEX_WAKE);
    add(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, FUTEX_WAIT_BITSET);
    add(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, FUTEX_WAKE_BITSET);
    give(p, SECCOMP_RET_ALLOW);
    give(p, SECCOMP_RET_TRAP);
}

/* All but the pipe whose end is this process's end. */
static void allow_close(program *p)
{
    only_for(p, SYS_close, 4);
    load_argument(p, 0);
    add(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, CDZ_ISOLATE_LIFE_FD);
    give(p, SECCOMP_RET_ALLOW);
    give(p, SECCOMP_RET_ERRNO | EBADF);
}

static void begin(program *p)
{
    load(p, offsetof(struct seccomp_data, arch));
    add(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ARCH);
    give(p, SECCOMP_RET_KILL_PROCESS);
    load(p, offsetof(struct seccomp_data, nr));
    allow(p, always, sizeof always / sizeof always[0]);
}

/* On all threads, should a library have one. */
static bool install(program *p)
{
    const struct sock_fprog filter = {.len = p->n, .filter = p->line};
    return p->n < MOST_LINES &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0;
}

bool cdz_filter_known(void)
{
    const uint32_t verdict = SECCOMP_RET_TRAP;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &verdict) == 0;
}

bool cdz_filter_libraries(cdz_isolate_head *head)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    program p = {.n = 0};
    told = head;
    action.sa_sigaction = refuse;
    if (sigaction(SIGSYS, &action, NULL) != 0) return false;
    begin(&p);
    allow(&p, for_libraries, sizeof for_libraries / sizeof for_libraries[0]);
    static const int memory[] = {SYS_mmap, SYS_mprotect, SYS_futex};
    allow(&p, memory, sizeof memory / sizeof memory[0]);
    allow_below(&p, SYS_fcntl, 1, F_SETFL); /* F_GETFD, F_SETFD, F_GETFL; F_DUPFD */
    allow_equal(&p, SYS_prlimit64, 0, 0);   /* its own */
    allow_below(&p, SYS_write, 0, 3);
    allow_below(&p, SYS_writev, 0, 3);
    allow_equal(&p, SYS_tgkill, 0, (uint32_t)getpid());
    give(&p, SECCOMP_RET_ERRNO | EPERM);
    return install(&p);
}

bool cdz_filter_plugin(void)
{
    static const int of_plugin[] = {SYS_read, SYS_pread64, SYS_lseek};
    program p = {.n = 0};
    begin(&p);
    allow_futex(&p);
    allow_mmap(&p);
    allow_mprotect(&p);
    allow_close(&p);
    for (size_t i = 0; i < sizeof of_plugin / sizeof of_plugin[0]; i++)
        allow_equal(&p, of_plugin[i], 0, CDZ_ISOLATE_PLUGIN_FD);
    /* Writing to what stands for the terminal does no harm and is so easily done; a library asks about it first. */
    allow_below(&p, SYS_write, 0, 3);
    allow_below(&p, SYS_writev, 0, 3);
    answer(&p, SYS_ioctl, ENOTTY);
    /* abort() sends itself a signal; to anybody else none goes. Signals cannot be held back: SIGXCPU and SIGSYS come. */
    allow_equal(&p, SYS_tgkill, 0, (uint32_t)getpid());
    answer(&p, SYS_rt_sigprocmask, 0);
    give(&p, SECCOMP_RET_TRAP);
    return install(&p);
}

void cdz_filter_loading(bool on)
{
    loading = on;
}

#else /* another machine: no filter is written for it */

bool cdz_filter_known(void)
{
    return false;
}

bool cdz_filter_libraries(cdz_isolate_head *head)
{
    (void)head;
    return false;
}

bool cdz_filter_plugin(void)
{
    return false;
}

void cdz_filter_loading(bool on)
{
    (void)on;
}

#endif
