/* test_kv_file.c - files of the prefix cache: what was written comes back; what is cut, damaged, of another model or type, or says
 * what cannot be, is refused by name; killed or failing at any write, the old file stays or the new one is whole. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "run/pass/kv_file.h"
#include "support/must.h"

/* --- the system's calls, which end the process or fail when it is their turn ------------------------------------------ */

enum { DIES, DIES_HALF, FAILS, KILLED = 9 };

static struct {
    bool armed;
    int calls, at, how;
} turn;

/* NULL bytes: a call that does all or nothing. */
static bool comes(size_t *bytes)
{
    if (!turn.armed || turn.calls++ != turn.at) return false;
    if (turn.how == DIES || (turn.how == DIES_HALF && !bytes)) _exit(KILLED);
    if (turn.how == DIES_HALF) *bytes /= 2;
    return true;
}

static int failing(int code)
{
    errno = code;
    return -1;
}

ssize_t write(int fd, const void *at, size_t bytes)
{
    const bool now = comes(&bytes);
    if (now && turn.how == FAILS) return failing(ENOSPC);
    const ssize_t wrote = syscall(SYS_write, fd, at, bytes);
    if (now) _exit(KILLED);
    return wrote;
}

int fsync(int fd)
{
    return comes(NULL) ? failing(EIO) : (int)syscall(SYS_fsync, fd);
}

int linkat(int from, const char *path, int to, const char *name, int flags)
{
    return comes(NULL) ? failing(EIO) : (int)syscall(SYS_linkat, from, path, to, name, flags);
}

int renameat(int from, const char *path, int to, const char *name)
{
    return comes(NULL) ? failing(EIO) : (int)syscall(SYS_renameat2, from, path, to, name, 0);
}

int fchmod(int fd, mode_t mode)
{
    return comes(NULL) ? failing(EPERM) : (int)syscall(SYS_fchmod, fd, mode);
}

/* --- files ------------------------------------------------------------------------------------------------------------- */

enum { SMALL = 48, LARGE = 40 << 10, VOCAB = 1000 };

static char folder[] = "/tmp/cadenza-kv-XXXXXX";
static char path[64];

static cdz_kv_file_facts facts_of(uint64_t block_bytes)
{
    cdz_kv_file_facts f = {.shape = {2, 3, 32, CDZ_F16, 0},
                           .block_bytes = block_bytes,
                           .n_vocab = VOCAB,
                           .model = "model",
                           .numbers = "numbers",
                           .build = "cadenza 1 on cpu"};
    return f;
}

static cdz_kv_file_block block_of(uint32_t place)
{
    cdz_kv_file_block b = {.before = place % 3 ? place - 1 : CDZ_KV_FILE_NONE, .kind = place % 2};
    for (uint32_t i = 0; i < CDZ_KV_BLOCK; i++) b.ids[i] = (int32_t)((place * 37 + i * 11) % VOCAB);
    memset(b.salt, (int)place, sizeof b.salt);
    return b;
}

static void fill(uint8_t *bytes, uint64_t n, uint32_t place)
{
    for (uint64_t i = 0; i < n; i++) bytes[i] = (uint8_t)(i * 7 + i / 256 + place);
}

static cdz_status put(uint64_t block_bytes, uint32_t n, cdz_error *err)
{
    static uint8_t bytes[LARGE];
    const cdz_kv_file_facts facts = facts_of(block_bytes);
    cdz_kv_file_writer w;
    cdz_status status = cdz_kv_file_begin(&w, path, &facts, err);
    for (uint32_t i = 0; status == CDZ_OK && i < n; i++) {
        const cdz_kv_file_block b = block_of(i);
        fill(bytes, block_bytes, i);
        status = cdz_kv_file_add(&w, &b, bytes, err);
    }
    if (status == CDZ_OK) return cdz_kv_file_finish(&w, err);
    cdz_kv_file_drop(&w);
    return status;
}

static cdz_status look(uint64_t block_bytes, cdz_kv_file *f, cdz_error *err)
{
    const cdz_kv_file_facts facts = facts_of(block_bytes);
    return cdz_kv_file_open(path, &facts, f, err);
}

/* The file holds n blocks, each as it was put. */
static void holds(uint64_t block_bytes, uint32_t n)
{
    static uint8_t bytes[LARGE];
    cdz_error err = {0};
    cdz_kv_file f;
    must(look(block_bytes, &f, &err), &err);
    assert_int_equal(f.n, n);
    for (uint32_t i = 0; i < n; i++) {
        cdz_kv_file_block b;
        const cdz_kv_file_block wanted = block_of(i);
        const void *at;
        must(cdz_kv_file_read(&f, i, &b, &at, &err), &err);
        assert_memory_equal(&b, &wanted, sizeof b);
        fill(bytes, block_bytes, i);
        assert_memory_equal(at, bytes, block_bytes);
    }
    cdz_kv_file_close(&f);
}

/* One sentence that names the file. */
static void refused(uint64_t block_bytes, const char *what)
{
    cdz_error err = {0};
    cdz_kv_file f;
    const cdz_status status = look(block_bytes, &f, &err);
    if (status == CDZ_OK) fail_msg("%s: taken", what);
    if (!strstr(err.text, path)) fail_msg("%s: %s", what, err.text);
    assert_null(f.file.path);
}

static size_t read_file(uint8_t *out, size_t room)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(out, 1, room, f);
    fclose(f);
    return n;
}

static void write_file(const uint8_t *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* --- what comes back ----------------------------------------------------------------------------------------------------- */

static void test_round(void **state)
{
    (void)state;
    cdz_error err = {0};
    struct stat s;
    for (uint32_t n = 0; n < 9; n += 4) {
        must(put(SMALL, n, &err), &err);
        holds(SMALL, n);
        must(put(LARGE, n, &err), &err);
        holds(LARGE, n);
    }
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
}

/* --- damage -------------------------------------------------------------------------------------------------------------- */

static void test_cut(void **state)
{
    (void)state;
    static uint8_t bytes[8192];
    char what[64];
    cdz_error err = {0};
    must(put(SMALL, 4, &err), &err);
    const size_t n = read_file(bytes, sizeof bytes - 1);
    for (size_t cut = 0; cut <= n + 1; cut++) {
        if (cut == n) continue;
        write_file(bytes, cut);
        snprintf(what, sizeof what, "%zu of %zu bytes", cut, n);
        refused(SMALL, what);
    }
    write_file(bytes, n);
    holds(SMALL, 4);
    unlink(path);
    refused(SMALL, "no file");
}

static void test_flipped(void **state)
{
    (void)state;
    static uint8_t bytes[8192];
    char what[64];
    cdz_error err = {0};
    must(put(SMALL, 4, &err), &err);
    const size_t n = read_file(bytes, sizeof bytes);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        write_file(bytes, n);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        snprintf(what, sizeof what, "bit %zu of byte %zu", bit % 8, bit / 8);
        refused(SMALL, what);
    }
}

/* Blocks in another order, of another file, or twice. */
static void test_moved(void **state)
{
    (void)state;
    static uint8_t bytes[8192], other[8192];
    cdz_error err = {0};
    const size_t head = 160, each = 168 + SMALL + 16;
    must(put(SMALL, 4, &err), &err);
    const size_t n = read_file(bytes, sizeof bytes);
    assert_int_equal(n, head + 4 * each + 32);
    memcpy(other, bytes, n);
    memcpy(other + head, bytes + head + each, each);
    write_file(other, n);
    refused(SMALL, "a block twice");
    memcpy(other, bytes, head + 3 * each);
    memcpy(other + head + 3 * each, bytes + n - 32, 32);
    write_file(other, n - each);
    refused(SMALL, "a block less");
    cdz_kv_file_writer w;
    cdz_kv_file_facts facts = facts_of(SMALL);
    facts.n_vocab++;
    must(cdz_kv_file_begin(&w, path, &facts, &err), &err);
    for (uint32_t i = 0; i < 4; i++) {
        const cdz_kv_file_block b = block_of(i);
        uint8_t data[SMALL];
        fill(data, SMALL, i);
        must(cdz_kv_file_add(&w, &b, data, &err), &err);
    }
    must(cdz_kv_file_finish(&w, &err), &err);
    read_file(other, sizeof other);
    memcpy(other, bytes, head);
    write_file(other, n);
    refused(SMALL, "blocks under another head");
}

/* --- whole, and not for us, or not to be believed ----------------------------------------------------------------------------- */

static void differs(const cdz_kv_file_facts *mine, const char *says, cdz_status code)
{
    cdz_error err = {0};
    cdz_kv_file f;
    if (cdz_kv_file_open(path, mine, &f, &err) != code || !strstr(err.text, says))
        fail_msg("%s: %s", says, err.text);
}

static void test_others(void **state)
{
    (void)state;
    cdz_error err = {0};
    cdz_kv_file_facts facts;
    must(put(SMALL, 4, &err), &err);
    facts = facts_of(SMALL), facts.model[0]++;
    differs(&facts, "another model", CDZ_E_NOT_FOUND);
    facts = facts_of(SMALL), facts.shape.type = CDZ_F32;
    differs(&facts, "keys and values in F16, expected F32", CDZ_E_INPUT);
    facts = facts_of(SMALL), facts.build[8]++;
    differs(&facts, "was written by cadenza 1 on cpu, expected cadenza 2 on cpu", CDZ_E_INPUT);
    facts = facts_of(SMALL), facts.numbers[15]++;
    differs(&facts, "other types of weights", CDZ_E_INPUT);
    facts = facts_of(SMALL), facts.shape.n_layers = 3, facts.shape.n_kv_heads = 2;
    differs(&facts, "another shape", CDZ_E_INPUT);
    facts = facts_of(2 * SMALL);
    differs(&facts, "another shape", CDZ_E_INPUT);
    facts = facts_of(SMALL), facts.n_vocab--;
    differs(&facts, "another shape", CDZ_E_INPUT);
}

static void forged(const cdz_kv_file_block *second, const char *says)
{
    cdz_error err = {0};
    cdz_kv_file_writer w;
    cdz_kv_file f;
    const cdz_kv_file_facts facts = facts_of(SMALL);
    const cdz_kv_file_block first = block_of(0);
    const uint8_t bytes[SMALL] = {0};
    must(cdz_kv_file_begin(&w, path, &facts, &err), &err);
    must(cdz_kv_file_add(&w, &first, bytes, &err), &err);
    must(cdz_kv_file_add(&w, second, bytes, &err), &err);
    must(cdz_kv_file_finish(&w, &err), &err);
    if (look(SMALL, &f, &err) != CDZ_E_INPUT || !strstr(err.text, says))
        fail_msg("%s: %s", says, err.text);
}

static void test_forged(void **state)
{
    (void)state;
    cdz_kv_file_block b;
    b = block_of(1), b.before = 1;
    forged(&b, "block 1 follows block 1");
    b = block_of(1), b.before = CDZ_KV_FILE_NONE - 1;
    forged(&b, "which is not before it");
    b = block_of(1), b.kind = 2;
    forged(&b, "kind 2");
    b = block_of(1), b.ids[31] = VOCAB;
    forged(&b, "token 1000 is outside");
    b = block_of(1), b.ids[0] = -1;
    forged(&b, "token -1 is outside");
}

/* --- ended and failing at every call --------------------------------------------------------------------------------------------- */

/* Puts `n` blocks in a process of its own, which ends at call `at`. True: it came to that. */
static bool killed(uint32_t n, int at, int how)
{
    int status;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        cdz_error err = {0};
        turn.armed = true, turn.calls = 0, turn.at = at, turn.how = how;
        _exit(put(LARGE, n, &err) == CDZ_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == KILLED));
    return WEXITSTATUS(status) == KILLED;
}

static uint32_t count(void)
{
    cdz_error err = {0};
    cdz_kv_file f;
    must(look(LARGE, &f, &err), &err);
    const uint32_t n = f.n;
    cdz_kv_file_close(&f);
    return n;
}

static void test_killed(void **state)
{
    (void)state;
    for (int how = DIES; how <= DIES_HALF; how++)
        for (int old = 0; old < 2; old++) {
            int at = 0;
            bool came = true;
            uint32_t last = 0;
            for (; came; at++) {
                cdz_error err = {0};
                unlink(path);
                if (old) must(put(LARGE, 3, &err), &err);
                came = killed(6, at, how);
                last = old || access(path, F_OK) == 0 ? count() : 0;
                if (last != 6 && last != (old ? 3 : 0)) fail_msg("call %d: %u blocks", at, last);
                if (last) holds(LARGE, last);
            }
            assert_int_equal(last, 6);
            assert_true(at > 8);
        }
}

/* A full disk, or one that breaks: an error in words, and the old file; the last call, of the folder, tells nobody. */
static void test_failing(void **state)
{
    (void)state;
    bool failed_once = false;
    for (int at = 0;; at++) {
        cdz_error err = {0};
        must(put(LARGE, 3, &err), &err);
        turn.armed = true, turn.calls = 0, turn.at = at, turn.how = FAILS;
        const cdz_status status = put(LARGE, 6, &err);
        turn.armed = false;
        if (turn.calls <= at) break;
        if (status != CDZ_OK && !strstr(err.text, path)) fail_msg("call %d: %s", at, err.text);
        holds(LARGE, status == CDZ_OK ? 6 : 3);
        failed_once |= status != CDZ_OK;
    }
    assert_true(failed_once);
    holds(LARGE, 6);
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/kept.kv", folder);
    return 0;
}

static int remove_folder(void **state)
{
    char command[96];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round),   cmocka_unit_test(test_cut),
        cmocka_unit_test(test_flipped), cmocka_unit_test(test_moved),
        cmocka_unit_test(test_others),  cmocka_unit_test(test_forged),
        cmocka_unit_test(test_killed),  cmocka_unit_test(test_failing)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
