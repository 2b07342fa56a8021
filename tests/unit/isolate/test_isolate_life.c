/* test_isolate_life.c - a host that is killed, at every moment of a plugin's process: that ends too, whatever it does, and
 * nothing of the two is left. This program takes in what is orphaned. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "isolate/isolate.h"
#include "support/isolated.h"

static const char worker[] = CADENZA_BUILD_DIR "/lib/cadenza/worker/cadenza-worker",
                  halting[] = CADENZA_BUILD_DIR "/tests/isolate/halting";

/* --- hosts ----------------------------------------------------------------------------------------------------------- */

/* Each in a process of its own; ready: where it says that it has come to its moment. */
typedef void host_fn(int ready, const char *order);

static void say_ready(int ready)
{
    assert_int_equal(write(ready, "x", 1), 1);
    for (;;) pause();
}

static void open_with(const char *program, int ready, const char *order)
{
    hostile h = hostile_read();
    cdz_isolate *isolate;
    const cdz_plugin_base *const *plugins;
    uint32_t n;
    cdz_error err = {0};
    snprintf(h.bytes + h.order_at, 32, "%s", order);
    must(cdz_isolate_open("hostile", h.bytes, h.n, program, &isolate, &plugins, &n, &err), &err);
    say_ready(ready);
}

static void opens(int ready, const char *order)
{
    open_with(worker, ready, order);
}

static void opens_halting(int ready, const char *order)
{
    open_with(halting, ready, order);
}

/* A request with an hour for each call, which the loop has not to end. */
static void runs(int ready, const char *order)
{
    hostile h = hostile_read();
    fixture *f = fixture_open(NULL, 1);
    char path[128], ini[512];
    cdz_error err = {0};
    hostile_write(&h, f, order, 3600 * 1000, path, ini);
    cdz_pipeline *pipeline = parse(f, ini);
    cdz_result *result = NULL;
    unlink(path);
    rmdir(f->folder);
    must(generate(f, pipeline, "{\"prompt_ids\": [[360,336]]}", &result, &err), &err);
    say_ready(ready);
}

static pid_t start(host_fn *fn, const char *order, int *ready)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        fn(ends[1], order);
    }
    close(ends[1]);
    *ready = ends[0];
    return pid;
}

/* --- watching --------------------------------------------------------------------------------------------------------- */

enum { PATIENCE_MS = 60 * 1000 };

/* Until what is asked is so, as long as a busy machine may need. */
static void wait_for(const char *what, pid_t host, bool (*is_so)(pid_t host))
{
    for (int i = 0; !is_so(host); i++) {
        if (i == PATIENCE_MS) fail_msg("%s: not seen", what);
        usleep(1000);
    }
}

static bool has_stopped(pid_t host)
{
    const proc_facts worker_now = proc_child_of(host);
    return worker_now.pid && worker_now.state == 'T';
}

/* Longer than any opening takes: it does what it was told to do for ever. */
static bool works_hard(pid_t host)
{
    return proc_child_of(host).ticks >= sysconf(_SC_CLK_TCK) / 4;
}

/* All that were started are gone; the newest that was not the host ended so. */
static void nobody_is_left(const char *what, pid_t host, int *how)
{
    for (int i = 0; i < PATIENCE_MS; i++) {
        int status;
        const pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid < 0) return;
        if (pid > 0 && pid != host) *how = status;
        if (pid == 0) usleep(1000);
    }
    const proc_facts left = proc_child_of(getpid());
    kill(left.pid, SIGKILL);
    waitpid(left.pid, NULL, 0);
    fail_msg("%s: process %d is left", what, (int)left.pid);
}

static void nothing_is_left_in(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir) return;
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        if (strstr(e->d_name, "cadenza:")) fail_msg("%s/%s is left", folder, e->d_name);
    closedir(dir);
}

static int end_of(const char *what, pid_t host, int ready)
{
    int how = -1;
    kill(host, SIGKILL);
    const proc_facts stopped = proc_child_of(getpid());
    if (stopped.pid && stopped.state == 'T') kill(stopped.pid, SIGCONT);
    nobody_is_left(what, host, &how);
    nothing_is_left_in("/dev/shm");
    nothing_is_left_in("/tmp");
    close(ready);
    return how;
}

/* --- moments ------------------------------------------------------------------------------------------------------------ */

static void before_its_first_line(void **state)
{
    int ready;
    (void)state;
    const pid_t host = start(opens_halting, "none", &ready);
    wait_for("a worker that stopped", host, has_stopped);
    kill(host, SIGKILL);
    /* It is handed over when its host is gone; then it goes on. */
    wait_for("the orphan", getpid(), has_stopped);
    const int how = end_of("before its first line", host, ready);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

/* From before it is started to after it is open. */
static void while_it_starts(void **state)
{
    (void)state;
    for (useconds_t after = 0; after < 20000; after += 250) {
        int ready;
        const pid_t host = start(opens, "none", &ready);
        usleep(after);
        (void)end_of("while it starts", host, ready);
    }
}

static void in_an_endless(const char *order, host_fn *fn)
{
    int ready;
    const pid_t host = start(fn, order, &ready);
    wait_for(order, host, works_hard);
    const int how = end_of(order, host, ready);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
}

static void before_constructors(void **state)
{
    (void)state;
#ifdef __GLIBC__ /* other C libraries know no resolvers */
    in_an_endless("loop@ifunc", opens);
#endif
    in_an_endless("loop@init", opens);
}

static void in_a_constructor(void **state)
{
    (void)state;
    in_an_endless("loop@constructor", opens);
}

static void in_a_call(void **state)
{
    (void)state;
    in_an_endless("loop@apply", runs);
}

static void while_it_closes_its_end(void **state)
{
    (void)state;
    in_an_endless("hold_on@apply", runs);
}

static void idle(void **state)
{
    char byte;
    int ready;
    (void)state;
    const pid_t host = start(runs, "none", &ready);
    assert_int_equal(read(ready, &byte, 1), 1);
    assert_true(proc_child_of(host).pid > 0);
    const int how = end_of("idle", host, ready);
    assert_true(how != -1);
}

static int take_orphans(void **state)
{
    (void)state;
    return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_its_first_line),
        cmocka_unit_test(while_it_starts),
        cmocka_unit_test(before_constructors),
        cmocka_unit_test(in_a_constructor),
        cmocka_unit_test(in_a_call),
        cmocka_unit_test(while_it_closes_its_end),
        cmocka_unit_test(idle),
    };
    return cmocka_run_group_tests(tests, take_orphans, NULL);
}
