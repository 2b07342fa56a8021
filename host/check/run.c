/* run.c - runs checks one after the other, each in a process of its own, and waits for them no longer than they may. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check/checks.h"
#include "check/probe.h"
#include "check/table.h"

#define SLOW_SCAN_S 1.0

typedef struct runner {
    const cdz_check_options *options;
    cdz_verdict *verdict; /* shared with the check's process */
    cdz_check_report *report;
    cdz_check_seen *seen;
    void *user;
    uint32_t patience_ms; /* with the check that runs */
} runner;

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- inside ---------------------------------------------------------------------------------------------------- */

/* The first check: what opening gave is told to the parent. */
static cdz_check_state scan(cdz_child *c, const cdz_plugin_ref *found, uint32_t n)
{
    cdz_verdict *v = c->verdict;
    for (uint32_t i = 0; i < n; i++) {
        snprintf(v->found[i].id, sizeof v->found[i].id, "%s", found[i].base->id);
        v->found[i].kind = found[i].base->kind;
        v->found[i].script = cdz_module_is_script(found[i].module);
    }
    v->n_found = n;
    if (c->opened_s > SLOW_SCAN_S)
        return cdz_fail_check(c,
                              "opening it took %.1f s of processor time; expected milliseconds: it "
                              "should do its work in create or begin",
                              c->opened_s);
    return cdz_pass_check(c, "%u plugin%s in %.1f ms", n, n == 1 ? "" : "s", c->opened_s * 1e3);
}

static cdz_check_state no_check(cdz_child *c)
{
    (void)c;
    return CDZ_CHECK_OK;
}

const cdz_check_row cdz_check_scan_row = {"scan", "the file opens at once and says what it holds",
                                          ~0u, "", no_check};

/* One random stream for each check and plugin, so that --only repeats what the whole run did. */
static uint64_t stream_of(uint64_t seed, const char *name, const char *id)
{
    uint64_t hash = seed ^ 1469598103934665603u;
    for (const char *c = name; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    for (const char *c = id; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    return hash;
}

static void be_alone(cdz_verdict *verdict)
{
    const struct rlimit no_core = {0, 0};
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setrlimit(RLIMIT_CORE, &no_core);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC); /* standard output is the table's */
    if (nowhere >= 0) (void)dup2(nowhere, STDOUT_FILENO);
    if (nowhere > STDERR_FILENO) (void)close(nowhere);
    cdz_fault_watch(verdict);
}

/* plugin: which of those found; the scan has none. */
static void inside(const runner *r, const cdz_check_row *check, uint32_t plugin)
{
    cdz_child c = {.options = r->options, .verdict = r->verdict, .patience_ms = r->patience_ms};
    cdz_plugin_ref found[CDZ_CHECK_MAX_PLUGINS];
    cdz_error err = {0};
    uint32_t n = 0;
    be_alone(r->verdict);
    cdz_check_note(&c, "opening the file");
    c.before = cdz_surroundings_note(&c.memory);
    const double start = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    const cdz_status opened = cdz_child_open(&c, found, &n, &err);
    c.opened_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - start;
    cdz_check_state state;
    if (opened != CDZ_OK || !c.before || plugin >= n) {
        state = cdz_fail_check(&c, "%s", err.text);
    } else if (check == &cdz_check_scan_row) {
        state = scan(&c, found, n);
    } else {
        c.ref = found[plugin];
        cdz_probe_is_script(cdz_module_is_script(c.ref.module));
        cdz_probe_has_files(cdz_module_data(c.ref.module));
        c.random = stream_of(r->options->seed, check->name, c.ref.base->id);
        state = check->fn(&c);
    }
    if (state == CDZ_CHECK_OK) cdz_check_note(&c, "closing the file");
    for (uint32_t i = 0; i < n; i++)
        if (found[i].base != c.ref.base) cdz_module_release(found[i].module);
    cdz_child_close(&c);
    r->verdict->state = (int)state;
}

/* --- outside ----------------------------------------------------------------------------------------------------- */

/* Waits for the end of the pipe that the child holds, as long as it may take. False: it took longer. */
static bool ended_in_time(int fd, uint32_t timeout_ms)
{
    const double until = seconds_of(CLOCK_MONOTONIC) + timeout_ms * 1e-3;
    for (;;) {
        const double left = until - seconds_of(CLOCK_MONOTONIC);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (left <= 0) return false;
        if (poll(&p, 1, (int)(left * 1e3) + 1) > 0) return true;
    }
}

static void judge_end(const runner *r, int status, bool in_time)
{
    cdz_verdict *v = r->verdict;
    if (v->state != CDZ_CHECK_NONE && in_time) return;
    v->state = CDZ_CHECK_FAILED;
    if (!in_time)
        snprintf(v->detail, sizeof v->detail,
                 "%s: still running after %.1f s; is it slow and sound, give it longer with "
                 "--timeout SECONDS",
                 v->note, 1e-3 * r->patience_ms);
    else if (WIFSIGNALED(status))
        snprintf(v->detail, sizeof v->detail, "%s: died of signal %d (%s)", v->note,
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(v->detail, sizeof v->detail, "%s: ended the process (exit status %d)", v->note,
                 WEXITSTATUS(status));
}

/* A search may be slow and sound; whatever it is, it comes to an end. */
static uint32_t patience_ms(const runner *r, uint32_t kind)
{
    if (r->options->timeout_ms) return r->options->timeout_ms;
    return kind == CDZ_KIND_STRATEGY ? 60000 : 10000;
}

static cdz_status in_a_process(runner *r, const cdz_check_row *check, uint32_t plugin,
                               uint32_t kind, cdz_error *err)
{
    int ends[2], status = 0;
    r->patience_ms = patience_ms(r, kind);
    memset(r->verdict, 0, sizeof *r->verdict);
    if (pipe2(ends, O_CLOEXEC) != 0) return cdz_err(err, CDZ_E_IO, "plugin test: no pipe");
    const pid_t child = fork();
    if (child == 0) {
        (void)close(ends[0]);
        inside(r, check, plugin);
        _exit(0);
    }
    (void)close(ends[1]);
    if (child < 0) {
        (void)close(ends[0]);
        return cdz_err(err, CDZ_E_IO, "plugin test: cannot start a process");
    }
    const bool in_time = ended_in_time(ends[0], r->patience_ms);
    if (!in_time) (void)kill(child, SIGKILL);
    (void)waitpid(child, &status, 0);
    (void)kill(-child, SIGKILL); /* what the plugin may have started */
    (void)close(ends[0]);
    judge_end(r, status, in_time);
    return CDZ_OK;
}

/* --- results -------------------------------------------------------------------------------------------------------- */

static cdz_check_result *new_result(cdz_check_report *report)
{
    if (report->n == report->cap) {
        const uint32_t cap = report->cap ? 2 * report->cap : 64;
        cdz_check_result *grown = realloc(report->results, cap * sizeof *grown);
        if (!grown) return NULL;
        report->results = grown;
        report->cap = cap;
    }
    cdz_check_result *result = &report->results[report->n++];
    *result = (cdz_check_result){0};
    return result;
}

bool cdz_check_in_list(const char *list, const char *name)
{
    const size_t len = strlen(name);
    for (const char *at = list; *at;) {
        const size_t word = strcspn(at, ",");
        if (word == len && strncmp(at, name, len) == 0) return true;
        at += word;
        at += *at == ',';
    }
    return false;
}

/* The check that takes the ground from this one; NULL: none. */
static const char *ground_gone(const cdz_check_report *report, const cdz_check_row *check,
                               const char *plugin, uint32_t kind)
{
    for (uint32_t i = 0; i < report->n; i++) {
        const cdz_check_result *before = &report->results[i];
        if (before->kind == kind && strcmp(before->plugin, plugin) == 0 &&
            before->state != CDZ_CHECK_OK && cdz_check_in_list(check->needs, before->name) &&
            (before->state == CDZ_CHECK_FAILED || strncmp(before->detail, "after ", 6) == 0))
            return before->name;
    }
    return NULL;
}

/* id: "" for the scan. */
static cdz_status one_check(runner *r, const cdz_check_row *check, uint32_t plugin, const char *id,
                            uint32_t kind, cdz_error *err)
{
    const char *gone = ground_gone(r->report, check, id, kind);
    const double start = seconds_of(CLOCK_MONOTONIC);
    if (!gone) CDZ_TRY(in_a_process(r, check, plugin, kind, err));
    cdz_check_result *result = new_result(r->report);
    if (!result) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    result->name = check->name;
    result->about = check->about;
    result->kind = kind;
    result->seconds = seconds_of(CLOCK_MONOTONIC) - start;
    snprintf(result->plugin, sizeof result->plugin, "%s", id);
    if (gone) {
        result->state = CDZ_CHECK_SKIPPED;
        snprintf(result->detail, sizeof result->detail, "after %s, nothing can be said", gone);
    } else {
        result->state = (cdz_check_state)r->verdict->state;
        snprintf(result->detail, sizeof result->detail, "%s", r->verdict->detail);
    }
    r->report->n_failed += result->state == CDZ_CHECK_FAILED;
    if (r->seen) r->seen(r->user, result);
    return CDZ_OK;
}

/* --- the run ---------------------------------------------------------------------------------------------------------- */

/* Every name of --only must be a check. */
static cdz_status only_is_known(const char *only, cdz_error *err)
{
    const char *names[CDZ_MOST_CHECKS], *about;
    uint32_t n = 0, kinds;
    while (n < CDZ_MOST_CHECKS && cdz_check_listed(n, &names[n], &about, &kinds)) n++;
    for (const char *at = only; *at;) {
        char name[64];
        const size_t word = strcspn(at, ",");
        bool known = false;
        snprintf(name, sizeof name, "%.*s", (int)(word < sizeof name ? word : 0), at);
        for (uint32_t i = 0; i < n; i++) known |= strcmp(names[i], name) == 0;
        const char *near = cdz_nearest_name(name, names, n);
        if (!known)
            return cdz_err(err, CDZ_E_USAGE,
                           near ? "--only: no check '%s': did you mean '%s'?"
                                : "--only: no check '%s'; `cadenza plugin test --list` names them%s",
                           name, near ? near : "");
        at += word;
        at += *at == ',';
    }
    return CDZ_OK;
}

static bool wanted(const runner *r, const cdz_check_row *check, uint32_t kind)
{
    if (!(check->kinds & 1u << kind)) return false;
    return !r->options->only || cdz_check_in_list(r->options->only, check->name);
}

static cdz_status all_checks(runner *r, cdz_error *err)
{
    CDZ_TRY(one_check(r, &cdz_check_scan_row, 0, "", 0, err));
    if (r->report->n_failed) return CDZ_OK;
    const cdz_verdict first = *r->verdict;
    for (uint32_t p = 0; p < first.n_found; p++)
        for (uint32_t i = 0; cdz_check_at(i); i++) {
            const cdz_check_row *check = cdz_check_at(i);
            if (wanted(r, check, first.found[p].kind))
                CDZ_TRY(one_check(r, check, p, first.found[p].id, first.found[p].kind, err));
        }
    return CDZ_OK;
}

cdz_status cdz_check_run(const cdz_check_options *options, cdz_check_seen *seen, void *user,
                         cdz_check_report *out, cdz_error *err)
{
    *out = (cdz_check_report){.seed = options->seed};
    if (options->only) CDZ_TRY(only_is_known(options->only, err));
    cdz_verdict *verdict =
        mmap(NULL, sizeof *verdict, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (verdict == MAP_FAILED) return cdz_err(err, CDZ_E_NOMEM, "plugin test: out of memory");
    runner r = {options, verdict, out, seen, user, 0};
    const cdz_status st = all_checks(&r, err);
    (void)munmap(verdict, sizeof *verdict);
    return st;
}

void cdz_check_report_free(cdz_check_report *report)
{
    free(report->results);
    *report = (cdz_check_report){0};
}
