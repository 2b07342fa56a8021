/* test_isolate_attacks.c - docs/isolation.md promise by promise: a plugin that attacks the host while it is relocated and
 * initialised, in create, begin and apply and when its process ends, or forges what that says; what it brings along; and
 * what the host writes where it can read. */
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/sanitized.h"
#include "cadenza/cadenza.h"
#include "isolate/protocol.h"
#include "support/isolated.h"

static volatile sig_atomic_t n_signals;

static hostile attacker;

static void count_signal(int signal)
{
    (void)signal;
    n_signals++;
}

static int open_all(void **state)
{
    attacker = hostile_read();
    signal(SIGUSR1, count_signal);
    signal(SIGIO, count_signal);
    *state = fixture_open(NULL, 1);
    return 0;
}

static int close_all(void **state)
{
    fixture_close(*state);
    free(attacker.bytes);
    return 0;
}

/* The plugin with this order, run for a token; what came of it. meanwhile: called while its process is there. */
static cdz_status run(fixture *f, const char *order, int deadline_ms, void (*meanwhile)(void),
                      cdz_error *err)
{
    char path[128], ini[512];
    hostile_write(&attacker, f, order, deadline_ms, path, ini);
    cdz_pipeline *pipeline = NULL;
    cdz_result *result = NULL;
    cdz_status st = cdz_pipeline_parse(f->rt, ini, strlen(ini), "test.ini", &pipeline, err);
    if (st == CDZ_OK) st = generate(f, pipeline, "{\"prompt_ids\": [[360,336]]}", &result, err);
    if (meanwhile) meanwhile();
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
    unlink(path);
    return st;
}

/* --- what it asks of the kernel ------------------------------------------------------------------------------------ */

typedef struct attack_case {
    const char *name, *call; /* NULL: it fails, and nothing is said of it */
} attack_case;

static const attack_case attacks[] = {
    {"prlimit", "prlimit64"},
    {"own_limit", "prlimit64"},
    {"setown", "fcntl"},
    {"setsig", "fcntl"},
    {"notify", "fcntl"},
    {"lease", "fcntl"},
    {"strict", "prctl"},
    {"filter", "seccomp"},
    {"dumpable", "prctl"},
    {"kill", "kill"},
    {"sigqueue", "rt_sigqueueinfo"},
    {"tgkill", "tgkill"},
    {"pidfd", "pidfd_open"},
    {"ptrace", "ptrace"},
    {"vm_write", "process_vm_writev"},
    {"socket", "socket"},
    {"truncate", "ftruncate"},
    {"punch", "fallocate"},
    {"fork", "clone"},
    {"thread", "clone"},
    {"exec", "execve"},
    {"code", "mmap"},
    {"file_code", "mmap"},
    {"turned", "mprotect"},
    {"futex", "futex"},
    {"sigsys", "rt_sigaction"},
    {"timer", "timer_create"},
    {"memfd", "memfd_create"},
    {"life", NULL},
    {"map", NULL},
};
/* Relocation, then what runs unasked, the calls, and what runs when the process ends. */
typedef struct moment {
    const char *name;
    bool opening, ending;
} moment;

static const moment moments[] = {
#ifdef __GLIBC__ /* other C libraries know no resolvers, and hear nothing of a thread's end */
    {"ifunc", true, false},  {"tls", true, false},         {"thread_end", false, true},
#endif
    {"init", true, false},   {"constructor", true, false}, {"create", false, false},
    {"begin", false, false}, {"apply", false, false},      {"exit", false, true},
    {"fini", false, true},   {"destructor", false, true},
};
enum { N_MOMENTS = sizeof moments / sizeof moments[0] };

static void one_attack(fixture *f, const attack_case *a, const moment *when)
{
    char order[64], want[64];
    cdz_error err = {0};
    snprintf(order, sizeof order, "%s@%s", a->name, when->name);
    snprintf(want, sizeof want, "asked the kernel for %s", a->call ? a->call : "");
    const cdz_status st = run(f, order, 20000, NULL, &err);
    if (!a->call && when->ending && strstr(err.text, "exited with status 3")) return;
    if (!a->call && !when->ending && st == CDZ_OK) return;
    if (!a->call || st == CDZ_OK || !strstr(err.text, want))
        fail_msg("%s: %s, expected '%s'", order, st == CDZ_OK ? "it went well" : err.text,
                 a->call ? want : "nothing");
}

static void attacks_are_stopped(void **state)
{
    struct rlimit before, after;
    getrlimit(RLIMIT_NOFILE, &before);
    for (size_t i = 0; i < sizeof attacks / sizeof attacks[0]; i++)
        for (size_t m = 0; m < N_MOMENTS; m++) {
#if CDZ_SANITIZED /* interceptors take locks and memory of their own round these */
            if (strcmp(attacks[i].name, "fork") == 0) continue;
#endif
            one_attack(*state, &attacks[i], &moments[m]);
        }
    getrlimit(RLIMIT_NOFILE, &after);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(n_signals, 0);
}

/* While it is opened it hears that there is no file; later it is a sentence. */
static void files_are_closed(void **state)
{
    static const char *const names[] = {"open", "mem"};
    for (size_t i = 0; i < 2; i++)
        for (size_t m = 0; m < N_MOMENTS; m++) {
            char order[64];
            cdz_error err = {0};
            snprintf(order, sizeof order, "%s@%s", names[i], moments[m].name);
            const cdz_status st = run(*state, order, 20000, NULL, &err);
            if (moments[m].opening && st != CDZ_OK) fail_msg("%s: %s", order, err.text);
            if (!moments[m].opening && !strstr(err.text, "asked the kernel for openat"))
                fail_msg("%s: %s", order, st == CDZ_OK ? "it went well" : err.text);
        }
}

/* --- what it brings along ------------------------------------------------------------------------------------------- */

typedef struct carrier_case {
    const char *file, *want; /* NULL: it does no harm */
} carrier_case;

/* A library beside the plugin, which aborts when it is opened; only the first two and the filter need it. */
static const carrier_case carriers[] = {
    {"names_needed", "cannot be loaded: libbeside.so: cannot open shared object file"},
    {"names_rpath", "cannot be loaded: libbeside.so: cannot open shared object file"},
    {"names_filter", "libbeside.so: cannot open shared object file"},
    {"names_auxiliary", NULL},
    {"names_audit", NULL},
    {"names_depaudit", NULL},
};

static void nothing_is_brought_along(void **state)
{
    for (size_t i = 0; i < sizeof carriers / sizeof carriers[0]; i++) {
        char ini[512];
        cdz_error err = {0};
        snprintf(
            ini, sizeof ini,
            "[pipeline]\nprocessors = bad\n[generation]\nmax_new_tokens = 2\n[bad]\nid = " CADENZA_BUILD_DIR
            "/tests/isolate/%s.so\nisolation = process\n"
            "deadline_ms = 20000\n",
            carriers[i].file);
        const cdz_status st = run_ini(*state, ini, "{\"prompt_ids\": [[360,336]]}", &err);
        if (carriers[i].want ? st == CDZ_OK || !strstr(err.text, carriers[i].want) : st != CDZ_OK)
            fail_msg("%s: %s", carriers[i].file, st == CDZ_OK ? "it went well" : err.text);
    }
}

/* The list of what runs before a program's other code. Linkers give none to a library, but loaders follow it: here it is
 * the list of constructors under another name. */
static void listed_before_all(void **state)
{
    static const attack_case limits = {"prlimit", "prlimit64"};
    static const moment when = {"constructor", true, false};
    char *const was = attacker.bytes, *bytes = malloc(attacker.n);
    assert_non_null(bytes);
    attacker.bytes = memcpy(bytes, was, attacker.n);
    ElfW(Ehdr) head;
    memcpy(&head, bytes, sizeof head);
    for (unsigned i = 0; i < head.e_phnum; i++) {
        ElfW(Phdr) ph;
        memcpy(&ph, bytes + head.e_phoff + i * sizeof ph, sizeof ph);
        if (ph.p_type != PT_DYNAMIC) continue;
        for (size_t at = ph.p_offset; at < ph.p_offset + ph.p_filesz; at += sizeof(ElfW(Dyn))) {
            ElfW(Dyn) d;
            memcpy(&d, bytes + at, sizeof d);
            if (d.d_tag == DT_INIT_ARRAY) d.d_tag = DT_PREINIT_ARRAY;
            if (d.d_tag == DT_INIT_ARRAYSZ) d.d_tag = DT_PREINIT_ARRAYSZ;
            memcpy(bytes + at, &d, sizeof d);
        }
    }
    one_attack(*state, &limits, &when);
    free(bytes);
    attacker.bytes = was;
}

/* --- what it says to the host ---------------------------------------------------------------------------------------- */

static void words_are_checked(void **state)
{
    static const attack_case cases[] = {
        {"text@", "encode: a text of 66060288 bytes; at most 65536"},
        {"forged_text@", "its process gave no proper answer"},
        {"forged_turn@", "its process spoke out of turn"},
        {"stale_turn@", "its process spoke out of turn"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char order[64];
        cdz_error err = {0};
        snprintf(order, sizeof order, "%.*s", (int)strlen(cases[i].name) - 1, cases[i].name);
        assert_int_not_equal(run(*state, order, 20000, NULL, &err), CDZ_OK);
        if (!strstr(err.text, cases[i].call)) fail_msg("%s: %s", order, err.text);
    }
    cdz_error err = {0};
    assert_int_equal(run(*state, "never", 100, NULL, &err), CDZ_E_PLUGIN);
    assert_non_null(strstr(err.text, "took longer than 100 ms"));
}

static void lines_are_counted(void **state)
{
    fixture *f = *state;
    cdz_error err = {0};
    f->n_lines = 0;
    must(run(f, "lines", 20000, NULL, &err), &err);
    assert_in_range(f->n_lines, CDZ_ASK_LINES, 2 * (CDZ_ASK_LINES + 1)); /* in at most two calls */
}

/* --- what the host says ------------------------------------------------------------------------------------------------ */

enum { MOST_PLACES = 4096 };
static struct place {
    uintptr_t start, end;
} places[MOST_PLACES], rows;
static size_t n_places;

/* Where this program has memory, and where the shared one is. */
static void read_places(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    assert_non_null(maps);
    n_places = 0;
    while (fgets(line, sizeof line, maps) && n_places < MOST_PLACES) {
        char *end;
        struct place p = {.start = strtoull(line, &end, 16)};
        p.end = strtoull(end + 1, NULL, 16);
        if (strstr(line, "cadenza:rows")) rows = p;
        if ((p.end - p.start) >> 40) continue; /* a sanitizer's shadow, where no pointer leads */
#if CDZ_WITH_TSAN
        if (p.end < (uintptr_t)0x550000000000)
            continue; /* its shadow, in pieces, below all programs */
#endif
        places[n_places++] = p;
    }
    fclose(maps);
}

static bool is_address(uint64_t value)
{
    for (size_t i = 0; i < n_places; i++)
        if (value >= places[i].start && value < places[i].end) return true;
    return false;
}

static void scan(uintptr_t start, uintptr_t end)
{
    for (uintptr_t at = start; at + 8 <= end; at++) {
        uint64_t value;
        memcpy(&value, (const void *)at, sizeof value);
        if (value >> 32 && is_address(value))
            fail_msg("an address of the host at byte %zu: %llx", (size_t)(at - rows.start),
                     (unsigned long long)value);
    }
}

/* Every page that was ever written. */
static void find_addresses(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char there[256];
    size_t n = 0;
    read_places();
    assert_true(rows.end - rows.start >= CDZ_ISOLATE_MAP_BYTES);
    for (uintptr_t at = rows.start; at < rows.start + CDZ_ISOLATE_ROWS; at += 256 * page) {
        assert_int_equal(mincore((void *)at, 256 * page, there), 0);
        for (size_t i = 0; i < 256 && at + i * page < rows.start + CDZ_ISOLATE_ROWS; i++)
            if (there[i] & 1) scan(at + i * page, at + (i + 1) * page), n++;
    }
    assert_true(n >= 2);
}

static void no_address_crosses(void **state)
{
    cdz_error err = {0};
    must(run(*state, "none", 20000, find_addresses, &err), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attacks_are_stopped), cmocka_unit_test(files_are_closed),
        cmocka_unit_test(words_are_checked),   cmocka_unit_test(lines_are_counted),
        cmocka_unit_test(no_address_crosses),  cmocka_unit_test(nothing_is_brought_along),
        cmocka_unit_test(listed_before_all),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
