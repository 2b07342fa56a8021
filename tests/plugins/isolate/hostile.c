/* hostile.c - one attack at one moment, both written into `order` by the test, which changes the bytes of a copy of this
 * file: "prlimit@constructor". An attack that comes to its end fails its call with "reached: NAME", in apply. */
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cadenza/ext/tokenizer.h"
#include "cadenza/processor.h"
#include "isolate/protocol.h"

__attribute__((used)) static volatile char order[64] =
    "order:                                        ";
static bool reached;

typedef struct attack {
    const char *name;
    long (*act)(void); /* 0 and more: it did what it wanted */
} attack;

static long prlimit_host(void)
{
    const struct rlimit none = {0, 0};
    return syscall(SYS_prlimit64, getppid(), RLIMIT_NOFILE, &none, NULL);
}
static long own_limit(void)
{
    const struct rlimit more = {RLIM_INFINITY, RLIM_INFINITY};
    return syscall(SYS_prlimit64, 0, RLIMIT_CPU, &more, NULL);
}
static long setown(void)
{
    return fcntl(0, F_SETOWN, getppid());
}
static long setsig(void)
{
    return fcntl(0, F_SETSIG, SIGKILL);
}
static long notify(void)
{
    return fcntl(0, F_NOTIFY, DN_CREATE);
}
static long lease(void)
{
    return fcntl(CDZ_ISOLATE_PLUGIN_FD, F_SETLEASE, F_RDLCK);
}
static long keep_filter_out(void)
{
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
}
static long own_filter(void)
{
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL);
}
static long dumpable(void)
{
    return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}
static long kill_host(void)
{
    return kill(getppid(), SIGUSR1);
}
static long queue_host(void)
{
    siginfo_t info = {.si_code = SI_QUEUE};
    return syscall(SYS_rt_sigqueueinfo, getppid(), SIGUSR1, &info);
}
static long tgkill_host(void)
{
    return syscall(SYS_tgkill, getppid(), getppid(), SIGUSR1);
}
static long pidfd(void)
{
    return syscall(SYS_pidfd_open, getppid(), 0);
}
static long trace_host(void)
{
    return ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
}
static long write_host(void)
{
    char byte = 0;
    const struct iovec v = {&byte, 1};
    return process_vm_writev(getppid(), &v, 1, &v, 1, 0);
}
static long make_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM, 0);
}
static long cut_short(void)
{
    return syscall(SYS_ftruncate, CDZ_ISOLATE_MAP_FD, 0);
}
static long punch(void)
{
    return syscall(SYS_fallocate, CDZ_ISOLATE_MAP_FD, 3, 0, 4096);
}
static long bomb(void)
{
    return fork();
}
static long thread(void)
{
    return syscall(SYS_clone, 0x10f00, NULL, NULL, NULL, NULL);
}
static long execute(void)
{
    char *const argv[] = {NULL};
    return execve("/bin/true", argv, argv);
}
static long fresh_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                CDZ_ISOLATE_PLUGIN_FD, 0) == MAP_FAILED
               ? -1
               : 0;
}
static long written_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, CDZ_ISOLATE_PLUGIN_FD,
                0) == MAP_FAILED
               ? -1
               : 0;
}
static long turned_code(void)
{
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return mprotect(at, 4096, PROT_READ | PROT_EXEC);
}
static long lend_priority(void)
{
    static uint32_t word;
    return syscall(SYS_futex, &word, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
}
/* The system call itself: the thread sanitizer would keep the library's for its own handler. */
static long hear_refusals(void)
{
    const struct {
        uintptr_t handler;
        unsigned long flags;
        uintptr_t restorer;
        uint64_t mask;
    } ignore = {.handler = (uintptr_t)SIG_IGN};
    return syscall(SYS_rt_sigaction, SIGSYS, &ignore, NULL, sizeof ignore.mask);
}
static long timer(void)
{
    return syscall(SYS_timer_create, 0, NULL, NULL);
}
static long memory_file(void)
{
    return memfd_create("mine", 0);
}

/* These are not worth a sentence, or only sometimes: they are to fail. */
static long read_file(void)
{
    return open("/etc/passwd", O_RDONLY);
}
static long read_memory(void)
{
    return open("/proc/self/mem", O_RDWR);
}
static long close_life(void)
{
    return close(CDZ_ISOLATE_LIFE_FD);
}
/* For ever; a signal that ends it comes from outside. */
static long loop(void)
{
    volatile bool ever = true;
    while (ever) continue;
    return 0;
}
/* The same, with every hold on its life tried first that is not told of by a sentence. */
static long hold_on(void)
{
    sigset_t all;
    sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, NULL);
    for (int fd = 0; fd < 64; fd++) close(fd);
    return loop();
}
static long close_map(void)
{
    return close(CDZ_ISOLATE_MAP_FD); /* is not there any more */
}

static const attack attacks[] = {
    {"prlimit", prlimit_host},
    {"own_limit", own_limit},
    {"setown", setown},
    {"setsig", setsig},
    {"notify", notify},
    {"lease", lease},
    {"strict", keep_filter_out},
    {"filter", own_filter},
    {"dumpable", dumpable},
    {"kill", kill_host},
    {"sigqueue", queue_host},
    {"tgkill", tgkill_host},
    {"pidfd", pidfd},
    {"ptrace", trace_host},
    {"vm_write", write_host},
    {"socket", make_socket},
    {"truncate", cut_short},
    {"punch", punch},
    {"fork", bomb},
    {"thread", thread},
    {"exec", execute},
    {"code", fresh_code},
    {"file_code", written_code},
    {"turned", turned_code},
    {"futex", lend_priority},
    {"sigsys", hear_refusals},
    {"timer", timer},
    {"memfd", memory_file},
    {"open", read_file},
    {"mem", read_memory},
    {"life", close_life},
    {"map", close_map},
    {"loop", loop},
    {"hold_on", hold_on},
};

static void at(const char *moment)
{
    char name[64];
    for (size_t i = 0; i < sizeof name; i++) name[i] = order[i];
    name[63] = '\0';
    char *where = strchr(name, '@');
    if (!where || strcmp(where + 1, moment) != 0) return;
    *where = '\0';
    for (size_t i = 0; i < sizeof attacks / sizeof attacks[0]; i++)
        if (strcmp(attacks[i].name, name + 6) == 0 && attacks[i].act() >= 0) reached = true;
}

/* --- code that runs unasked: when the file is mapped, and when its process ends ------------------------------------- */

#ifdef __GLIBC__
static int nothing(void)
{
    return 0;
}

/* Asked by the dynamic loader while it relocates: one for a pointer, one for the initial image of a thread's variable. */
__attribute__((used)) static int (*resolve(void))(void)
{
    at("ifunc");
    return nothing;
}
__attribute__((used)) static int (*resolve_in_thread(void))(void)
{
    at("tls");
    return nothing;
}
static int picked(void) __attribute__((ifunc("resolve")));
static int picked_in_thread(void) __attribute__((ifunc("resolve_in_thread")));
__attribute__((used)) static int (*volatile slot)(void) = picked;
__attribute__((used)) static __thread int (*volatile thread_slot)(void) = picked_in_thread;
#endif

/* DT_INIT and DT_FINI: named to the linker. */
void hostile_init(void);
void hostile_init(void)
{
    at("init");
}
void hostile_fini(void);
void hostile_fini(void)
{
    at("fini");
}

__attribute__((constructor)) static void early(void)
{
    at("constructor");
}
__attribute__((destructor)) static void late(void)
{
    at("destructor");
}

static void at_end(void)
{
    at("exit");
}
#ifdef __GLIBC__
static void at_thread_end(void *unused)
{
    (void)unused;
    at("thread_end");
}
int __cxa_thread_atexit_impl(void (*destroy)(void *), void *object, void *dso);
extern void *__dso_handle;
#endif

/* What these wait for. */
_Noreturn static void leave(void)
{
#ifdef __GLIBC__
    __cxa_thread_atexit_impl(at_thread_end, NULL, &__dso_handle);
#endif
    atexit(at_end);
    exit(3);
}

static bool is_of_end(const char *name)
{
    static const char *const moments[] = {"@exit", "@fini", "@destructor", "@thread_end"};
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++)
        if (strstr(name, moments[i])) return true;
    return false;
}

static cdz_status create(const cdz_step *step)
{
    (void)step;
    at("create");
    return CDZ_OK;
}

static cdz_status begin(const cdz_step *step, void **shared)
{
    (void)step, (void)shared;
    at("begin");
    return CDZ_OK;
}

/* What the host does for it, and what it says to the host. */
static cdz_status ask_too_much(const cdz_step *step)
{
    static char text[63 << 20];
    const cdz_tokenizer_api *tokenizer = cdz_get_tokenizer(step);
    cdz_ids ids;
    memset(text, 'a', sizeof text);
    return tokenizer->encode(step, text, sizeof text, false, &ids);
}

static unsigned char *map_of(const cdz_scores *scores)
{
    const size_t bytes = (size_t)scores->n_rows * scores->n_vocab * sizeof(float);
    return (unsigned char *)scores->data - cdz_isolate_rows_at(bytes);
}

/* A message in the worker's place, of these words. */
_Noreturn static void forge(const cdz_scores *scores, const uint32_t *words, uint32_t bytes,
                            uint32_t turns)
{
    cdz_isolate_head *head = (cdz_isolate_head *)(void *)map_of(scores);
    memcpy(map_of(scores) + CDZ_ISOLATE_DOWN, words, bytes < 64 ? bytes : 64);
    head->down_bytes = bytes;
    atomic_fetch_add(&head->turn, turns);
    syscall(SYS_futex, &head->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
    for (;;) (void)sched_yield();
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const uint32_t huge[16] = {CDZ_DOWN_ENCODE, 63u << 20};
    char name[64];
    for (size_t i = 0; i < sizeof name; i++) name[i] = order[i];
    at("apply");
    if (is_of_end(name)) leave();
    if (strcmp(name + 6, "text") == 0) return ask_too_much(step);
    if (strcmp(name + 6, "forged_text") == 0) forge(scores, huge, 63u << 20, 1);
    if (strcmp(name + 6, "forged_turn") == 0) forge(scores, huge, 8, 7);
    if (strcmp(name + 6, "stale_turn") == 0) forge(scores, huge, 8, UINT32_MAX);
    if (strcmp(name + 6, "never") == 0)
        for (;;) (void)sched_yield();
    if (strcmp(name + 6, "lines") == 0)
        for (int i = 0; i < 1000; i++) cdz_log(step, CDZ_LOG_INFO, "line %d", i);
    return reached ? cdz_fail(step, CDZ_E_INTERNAL, "reached: %s", name + 6) : CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.hostile", .version = "1.0.0", .summary = "attacks"},
    .create = create,
    .begin = begin,
    .apply = apply,
};

CDZ_EXPORT_PLUGINS(&processor.base)
