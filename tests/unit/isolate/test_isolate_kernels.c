/* test_isolate_kernels.c - kernels that know less: system calls that fail as they do where there are none. A plugin in a
 * process of its own is held in by what is left, which is said, or is refused in a sentence. Each kernel is a process,
 * since a filter stays. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/sanitized.h"
#include "isolate/protocol.h"
#include "support/isolated.h"

#define LANDLOCK SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self

typedef struct kernel {
    const char *name;
    int missing[8]; /* system calls; 0 ends */
    int error;
    const char *guards[4];      /* that are not there then */
    const char *warning, *want; /* NULL: none; want: it is refused */
    int landlock;               /* its version; 0: this kernel's */
} kernel;

static const char filtered[] = "system calls filtered", files[] = "files closed to it",
                  signals[] = "signals kept in", spaces[] = "namespaces of its own";

static const kernel kernels[] = {
    {"this one", {0}, 0, {NULL}, NULL, NULL, 0},
    {"before 5.13", {LANDLOCK}, ENOSYS, {files, signals}, "no way to close files (Landlock)", NULL, 0},
    {"Landlock switched off",
     {LANDLOCK},
     EOPNOTSUPP,
     {files, signals},
     "no way to close files (Landlock)",
     NULL,
     0},
    {"without filters", {SYS_seccomp}, ENOSYS, {filtered}, "no filter of system calls", NULL, 0},
    {"without both",
     {LANDLOCK, SYS_seccomp},
     ENOSYS,
     {filtered, files, signals},
     "neither a filter of system calls",
     NULL,
     0},
    {"namespaces forbidden", {SYS_unshare}, EPERM, {spaces}, NULL, NULL, 0},
    {"with limits only",
     {LANDLOCK, SYS_seccomp, SYS_unshare},
     ENOSYS,
     {filtered, files, signals, spaces},
     "neither a filter of system calls",
     NULL,
     0},
    {"before 5.9", {SYS_close_range}, ENOSYS, {NULL}, NULL, NULL, 0},
    {"without newer calls",
     {SYS_pidfd_open, SYS_pidfd_send_signal, SYS_clone3, SYS_statx, SYS_faccessat2, SYS_openat2},
     ENOSYS,
     {NULL},
     NULL,
     NULL,
     0},
    {"before 3.17", {SYS_memfd_create}, ENOSYS, {NULL}, NULL, "Function not implemented", 0},
    {"without limits",
     {SYS_prlimit64, SYS_setrlimit},
     ENOSYS,
     {NULL},
     NULL,
     "its process cannot be limited",
     0},
};

/* What came of it there. */
typedef struct outcome {
    cdz_status status;
    char guards[512], warning[256], sentence[CDZ_ERROR_TEXT];
    bool opens;    /* a plugin that wants a file of the user's gets it */
    bool not_here; /* this kernel cannot be made to look so */
    bool done;
} outcome;

/* Answers for the kernel: Landlock is of this version. */
static int listener, version;
static void *be_older(void *unused)
{
    (void)unused;
    for (;;) {
        struct seccomp_notif asked = {0};
        struct seccomp_notif_resp answer = {0};
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) continue;
        answer.id = asked.id;
        answer.val = version;
        (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
    return NULL;
}

static bool take_landlock_back(int to)
{
    struct sock_filter lines[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_landlock_create_ruleset},
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args) + 16},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, LANDLOCK_CREATE_RULESET_VERSION},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_USER_NOTIF},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    const struct sock_fprog program = {sizeof lines / sizeof lines[0], lines};
    pthread_t thread;
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    version = to;
    listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                            &program);
    return listener >= 0 && pthread_create(&thread, NULL, be_older, NULL) == 0;
}

static void take_away(const kernel *k)
{
    struct sock_filter lines[2 * 8 + 2] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)}};
    unsigned short n = 1;
    for (size_t i = 0; i < 8 && k->missing[i]; i++) {
        lines[n++] = (struct sock_filter){BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (uint32_t)k->missing[i]};
        lines[n++] =
            (struct sock_filter){BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | (uint32_t)k->error};
    }
    lines[n++] = (struct sock_filter){BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
    const struct sock_fprog program = {n, lines};
    if (n == 2) return;
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* The text between the brackets behind "in a process of its own". */
static void explain(fixture *f, const char *ini, outcome *o)
{
    cdz_error err = {0};
    char *text = NULL;
    cdz_pipeline *pipeline = parse(f, ini);
    must(cdz_pipeline_explain(pipeline, NULL, &text, &err), &err);
    const char *at = strstr(text, "in a process of its own (");
    assert_non_null(at);
    at += strlen("in a process of its own (");
    snprintf(o->guards, sizeof o->guards, "%.*s", (int)strcspn(at, ")"), at);
    cdz_free(text);
    cdz_pipeline_free(pipeline);
}

static void live_there(const kernel *k, outcome *o)
{
    static const char rows[] = "{\"prompt_ids\": [[360,336]]}";
    char path[128], ini[512];
    cdz_error err = {0};
    take_away(k);
    o->not_here = k->landlock && !take_landlock_back(k->landlock);
    o->done = o->not_here;
    if (o->done) return;
    hostile h = hostile_read();
    fixture *f = fixture_open(NULL, 1);
    hostile_write(&h, f, "none", 20000, path, ini);
    o->status = run_ini(f, ini, rows, &err);
    snprintf(o->sentence, sizeof o->sentence, "%s", err.text);
    snprintf(o->warning, sizeof o->warning, "%s", f->line);
    if (o->status == CDZ_OK) explain(f, ini, o);
    unlink(path);
    hostile_write(&h, f, "open@apply", 20000, path, ini);
    o->opens = o->status == CDZ_OK && run_ini(f, ini, rows, &err) != CDZ_OK &&
               strstr(err.text, "reached: open");
    unlink(path);
    fixture_close(f);
    free(h.bytes);
    o->done = true;
}

static outcome outcome_on(const kernel *k)
{
    int status;
    outcome *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        live_there(k, shared);
        fflush(NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    const outcome o = *shared;
    munmap(shared, sizeof *shared);
    if (status != 0 || !o.done) fail_msg("%s: status %d", k->name, status);
    return o;
}

/* The names that this machine has, without those that the kernel lacks. */
static void expected_guards(const char *here, const kernel *k, char out[512])
{
    static const char *const all[] = {filtered, files, signals, spaces};
    size_t n = 0;
    snprintf(out, 512, "limits only");
    for (size_t i = 0; i < 4; i++) {
        bool gone = strstr(here, all[i]) == NULL;
        for (size_t g = 0; g < 4 && k->guards[g]; g++) gone |= k->guards[g] == all[i];
        if (!gone) n += (size_t)snprintf(out + n, 512 - n, "%s%s", n ? ", " : "", all[i]);
    }
}

static void judge(const kernel *k, const outcome *o, const char *here)
{
    char guards[512];
    if (o->not_here) return;
    if (k->want) {
        if (o->status == CDZ_OK || !strstr(o->sentence, k->want))
            fail_msg("%s: %d, '%s', expected '%s'", k->name, (int)o->status, o->sentence, k->want);
        return;
    }
    expected_guards(here, k, guards);
    if (o->status != CDZ_OK) fail_msg("%s: %s", k->name, o->sentence);
    if (strcmp(o->guards, guards) != 0)
        fail_msg("%s: '%s', expected '%s'", k->name, o->guards, guards);
    if (k->warning && !strstr(o->warning, k->warning))
        fail_msg("%s: warns '%s', expected '%s'", k->name, o->warning, k->warning);
    const bool held = strstr(guards, filtered) || strstr(guards, files);
    if (held && o->opens) fail_msg("%s: a file of the user's is open to it", k->name);
    if (held && strstr(guards, filtered) && strstr(guards, files) && o->warning[0])
        fail_msg("%s: warns '%s'", k->name, o->warning);
}

static void what_is_left_holds(void **state)
{
    const outcome here = outcome_on(&kernels[0]);
    (void)state;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
#if CDZ_SANITIZED /* whose own first lines ask for limits */
        if (kernels[i].missing[0] == SYS_prlimit64) continue;
#endif
        const outcome o = i ? outcome_on(&kernels[i]) : here;
        judge(&kernels[i], &o, here.guards);
    }
}

/* Landlock as it grew: each version is asked for what it has, no more. */
static void older_landlocks(void **state)
{
    const outcome here = outcome_on(&kernels[0]);
    (void)state;
    if (!strstr(here.guards, signals)) skip();
    for (int v = 1; v <= 6; v++) {
        const kernel k = {"Landlock", {0}, 0, {v < 6 ? signals : NULL}, NULL, NULL, v};
        const outcome o = outcome_on(&k);
        if (o.not_here) skip();
        judge(&k, &o, here.guards);
    }
}

/* Limits that are lower than the worker's own stay, and the rest of them are set all the same. */
static void lower_limits(void **state)
{
    const struct rlimit low = {100, 1000};
    struct rlimit found;
    char path[128], ini[512];
    int status;
    (void)state;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        cdz_error err = {0};
        assert_int_equal(setrlimit(RLIMIT_CPU, &low), 0);
        hostile h = hostile_read();
        fixture *f = fixture_open(NULL, 1);
        hostile_write(&h, f, "none", 20000, path, ini);
        must(run_ini(f, ini, "{\"prompt_ids\": [[360,336]]}", &err), &err);
        assert_int_equal(prlimit(proc_child_of(getpid()).pid, RLIMIT_CPU, NULL, &found), 0);
        assert_int_equal(found.rlim_cur, CDZ_CPU_SECONDS);
        assert_int_equal(found.rlim_max, low.rlim_max);
        unlink(path);
        fixture_close(f);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_holds),
        cmocka_unit_test(older_landlocks),
        cmocka_unit_test(lower_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
