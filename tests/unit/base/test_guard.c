/* test_guard.c - files cut short while they are mapped: an error of what uses them, and every other SIGBUS as if there
 * were no guard. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/guard.h"
#include "cadenza/cadenza.h"
#include "load/model_files.h"
#include "support/folder.h"

enum { BYTES = 1 << 20, PAGE = 4096 };

static const char *folder;

static int begin(void **state)
{
    (void)state;
    folder = folder_make("guard");
    return 0;
}

static int end(void **state)
{
    (void)state;
    folder_remove();
    return 0;
}

/* A file of ones. */
static const char *make_file(void)
{
    static char ones[BYTES];
    memset(ones, 1, sizeof ones);
    const char *path = folder_path("ones");
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(ones, 1, sizeof ones, f), sizeof ones);
    assert_int_equal(fclose(f), 0);
    return path;
}

static cdz_file map_ones(void)
{
    cdz_file file;
    cdz_error err = {0};
    if (cdz_file_map(make_file(), &file, &err) != CDZ_OK) fail_msg("%s", err.text);
    return file;
}

static int sum(const void *data, size_t n)
{
    const volatile char *bytes = data;
    int total = 0;
    for (size_t i = 0; i < n; i++) total += bytes[i];
    return total;
}

/* --- the guard alone ----------------------------------------------------------------------- */

static void a_cut_file_reads_as_zeros_and_is_marked(void **state)
{
    (void)state;
    cdz_error err = {0};
    assert_int_equal(cdz_guard_begin(&err), CDZ_OK);
    cdz_file file = map_ones(), other = map_ones();
    assert_int_not_equal(file.watch, 0);
    assert_int_equal(sum(file.data, BYTES), BYTES);
    assert_int_equal(truncate(file.path, 3 * PAGE), 0);
    assert_false(cdz_guard_torn(file.watch));
    assert_int_equal(sum(file.data, BYTES), 3 * PAGE);
    assert_true(cdz_guard_torn(file.watch));
    assert_false(cdz_guard_torn(other.watch));
    assert_int_equal(cdz_file_check(&file, &err), CDZ_E_IO);
    assert_non_null(strstr(err.text, "was cut from 1048576 to 12288 bytes"));
    cdz_file_unmap(&file);
    cdz_file_unmap(&other);
    cdz_guard_end();
}

/* A slot is used again without what was marked before. */
static void a_mapping_after_a_torn_one_is_whole(void **state)
{
    (void)state;
    assert_int_equal(cdz_guard_begin(NULL), CDZ_OK);
    for (int i = 0; i < 3; i++) {
        cdz_file file = map_ones();
        assert_false(cdz_guard_torn(file.watch));
        assert_int_equal(truncate(file.path, 0), 0);
        assert_int_equal(sum(file.data, BYTES), 0);
        assert_true(cdz_guard_torn(file.watch));
        cdz_file_unmap(&file);
    }
    cdz_guard_end();
}

static void without_it_nothing_is_watched(void **state)
{
    (void)state;
    struct sigaction now;
    cdz_file file = map_ones();
    assert_int_equal(file.watch, 0);
    assert_int_equal(sigaction(SIGBUS, NULL, &now), 0);
    cdz_file_unmap(&file);
}

/* --- another's handler --------------------------------------------------------------------- */

static sigjmp_buf out_of_fault;
static volatile sig_atomic_t n_host_signals;

static void host_handler(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    n_host_signals++;
    if (info->si_code > 0) siglongjmp(out_of_fault, 1);
}

static void plain_handler(int number)
{
    (void)number;
    n_host_signals++;
}

/* A mapping that the guard knows nothing of, cut. */
static char *foreign_mapping(void)
{
    const int fd = open(make_file(), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    char *data = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(data != MAP_FAILED);
    assert_int_equal(ftruncate(fd, 0), 0);
    close(fd);
    return data;
}

static void a_host_keeps_its_handler(void **state)
{
    (void)state;
    struct sigaction mine = {.sa_sigaction = host_handler, .sa_flags = SA_SIGINFO}, before, now;
    assert_int_equal(sigaction(SIGBUS, &mine, &before), 0);
    assert_int_equal(cdz_guard_begin(NULL), CDZ_OK);
    assert_int_equal(cdz_guard_begin(NULL), CDZ_OK); /* a second runtime */
    cdz_file file = map_ones();
    assert_int_equal(truncate(file.path, 0), 0);
    n_host_signals = 0;
    assert_int_equal(sum(file.data, BYTES), 0);
    assert_int_equal(n_host_signals, 0);

    char *data = foreign_mapping();
    if (sigsetjmp(out_of_fault, 1) == 0) sum(data, 1);
    assert_int_equal(n_host_signals, 1);
    munmap(data, BYTES);
    raise(SIGBUS); /* sent, not a fault */
    assert_int_equal(n_host_signals, 2);

    cdz_file_unmap(&file);
    cdz_guard_end();
    cdz_guard_end();
    assert_int_equal(sigaction(SIGBUS, &before, &now), 0);
    assert_ptr_equal(now.sa_sigaction, host_handler);
}

/* A handler that comes on top is not taken away. */
static void a_later_handler_stays(void **state)
{
    (void)state;
    struct sigaction later = {.sa_handler = plain_handler}, before, now;
    assert_int_equal(sigaction(SIGBUS, NULL, &before), 0);
    assert_int_equal(cdz_guard_begin(NULL), CDZ_OK);
    struct sigaction guards;
    assert_int_equal(sigaction(SIGBUS, &later, &guards), 0);
    cdz_guard_end();
    assert_int_equal(sigaction(SIGBUS, &guards, &now), 0);
    assert_ptr_equal(now.sa_handler, plain_handler);
    /* with the guard's own back on top, it can be begun and ended again */
    assert_int_equal(cdz_guard_begin(NULL), CDZ_OK);
    cdz_guard_end();
    assert_int_equal(sigaction(SIGBUS, &before, NULL), 0);
}

static void another_fault_is_as_it_was(void **state)
{
    (void)state;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        const struct sigaction plain = {.sa_handler = SIG_DFL};
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        sigaction(SIGBUS, &plain, NULL);
        if (cdz_guard_begin(NULL) != CDZ_OK) _exit(3);
        alarm(20);
        _exit(sum(foreign_mapping(), 1) ? 4 : 5);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
}

/* --- a model ------------------------------------------------------------------------------- */

/* A copy of the shipped model; returns its folder, and the path of its weights. */
static const char *copy_model(char weights[300])
{
    static char path[256];
    int status = -1;
    snprintf(path, sizeof path, "%s/model", folder);
    snprintf(weights, 300, "%s/model.safetensors", path);
    const pid_t child = fork();
    if (child == 0) {
        execlp("cp", "cp", "-r", "-T", CADENZA_SOURCE_DIR "/models/pocket-dictionary", path,
               (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return path;
}

/* The fault comes in the kernels' threads too. */
static void the_kernels_threads_go_on(void **state)
{
    (void)state;
    char path[300], why[256];
    cdz_weights *w = NULL;
    cdz_error err = {0};
    const char *model = copy_model(path);
    assert_int_equal(cdz_guard_begin(NULL), CDZ_OK);
    if (cdz_weights_open(model, &w, &err) != CDZ_OK) fail_msg("%s", err.text);
    const cdz_weight *table = &w->embed;
    const size_t m = 64;
    cdz_backend *b = cdz_cpu_backend_create(&(cdz_cpu_options){.n_threads = 4}, why, sizeof why);
    float *x = calloc(m * table->k, sizeof *x), *y = calloc(m * table->n, sizeof *y);
    assert_non_null(b);
    assert_non_null(x);
    assert_non_null(y);
    const cdz_product product = {.w = table, .y = y, .ldy = table->n};
    assert_int_equal(truncate(path, 3 * PAGE), 0);
    b->api->matmul(b, &product, 1, x, table->k, m);
    b->api->sync(b);
    assert_int_equal(cdz_weights_check(w, &err), CDZ_E_IO);
    assert_non_null(strstr(err.text, "was cut from"));
    free(x);
    free(y);
    b->api->destroy(b);
    cdz_weights_close(w);
    cdz_guard_end();
}

typedef struct cutter {
    const char *path;
    off_t size;
    int trouble;
} cutter;

static void cut_at_first_text(void *user, const cdz_event *event)
{
    cutter *c = user;
    if (event->kind != CDZ_EVENT_TOKENS || !c->path) return;
    if (truncate(c->path, c->size) != 0)
        c->trouble = errno; /* asserting is for the test's own thread */
    c->path = NULL;
}

/* Requests that run when the file is cut fail, later ones too; the runtime serves another model on. Without the guard
 * on one thread: of several, a late one may be reading when the file is cut. */
static void requests_fail_with_a_sentence(void **state)
{
    (void)state;
    static const off_t sizes[] = {0, 5 * PAGE, 4000000};
    for (int guarded = 0; guarded < 2; guarded++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            char path[300];
            cdz_runtime *rt = NULL;
            cdz_model *model = NULL;
            cdz_result *result = NULL;
            cdz_error err = {0};
            const cdz_options options = {
                .size = sizeof options, .n_threads = guarded ? 4 : 1, .guard_files = guarded};
            const char *where = copy_model(path);
            cutter c = {path, sizes[i], 0};
            assert_int_equal(cdz_open(&options, &rt, &err), CDZ_OK);
            if (cdz_model_open(rt, where, NULL, &model, &err) != CDZ_OK) fail_msg("%s", err.text);
            cdz_request request = {.size = sizeof request,
                                   .model = model,
                                   .prompt = "river (noun): a",
                                   .on_event = cut_at_first_text,
                                   .user = &c};
            for (int turn = 0; turn < 2; turn++) {
                assert_int_equal(cdz_generate(rt, &request, &result, &err), CDZ_E_IO);
                if (!strstr(err.text, "model.safetensors: was cut from")) fail_msg("%s", err.text);
                assert_int_equal(c.trouble, 0);
                cdz_result_free(result);
                result = NULL;
            }
            cdz_model_close(model);
            if (cdz_model_open(rt, copy_model(path), NULL, &model, &err) != CDZ_OK)
                fail_msg("%s", err.text);
            request.model = model;
            assert_int_equal(cdz_generate(rt, &request, &result, &err), CDZ_OK);
            cdz_result_free(result);
            cdz_model_close(model);
            cdz_close(rt);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_it_nothing_is_watched),
        cmocka_unit_test(a_cut_file_reads_as_zeros_and_is_marked),
        cmocka_unit_test(a_mapping_after_a_torn_one_is_whole),
        cmocka_unit_test(a_host_keeps_its_handler),
        cmocka_unit_test(a_later_handler_stays),
        cmocka_unit_test(another_fault_is_as_it_was),
        cmocka_unit_test(the_kernels_threads_go_on),
        cmocka_unit_test(requests_fail_with_a_sentence),
    };
    return cmocka_run_group_tests_name("guard", tests, begin, end);
}
