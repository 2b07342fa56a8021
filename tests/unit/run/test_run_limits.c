/* test_run_limits.c - run/pass/limits.h: what turns read, in which order; what multiply-adds begin with. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <cmocka.h>

#include "run/pass/limits.h"

enum { CHUNK = 256 << 10, TURN = 64 << 20 };

static cdz_backend *backend_of(uint32_t n_threads)
{
    char why[256];
    cdz_backend *b =
        cdz_cpu_backend_create(&(cdz_cpu_options){.n_threads = n_threads}, why, sizeof why);
    assert_non_null(b);
    return b;
}

/* All of what is small in a turn, also what is no whole chunk; of what is larger a turn's share, and the next turn goes on there. */
static void turns_go_round(void **state)
{
    static const struct {
        size_t bytes[2];
        double turns[3];
    } cases[] = {{{1000, 0}, {1000, 1000, 1000}},
                 {{3 * CHUNK + 5, 7}, {3 * CHUNK + 12, 3 * CHUNK + 12, 3 * CHUNK + 12}},
                 {{TURN, 100}, {TURN, TURN - CHUNK + 100, TURN - CHUNK + 100}}};
    (void)state;
    cdz_backend *b = backend_of(3);
    char *data = calloc(1, TURN);
    assert_non_null(data);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        cdz_limit_reader r = {0};
        double all = 0;
        for (size_t i = 0; i < 2; i++)
            assert_true(cdz_limit_reader_add(&r, data, cases[c].bytes[i]));
        assert_true(cdz_limit_reader_gbs(&r) == 0);
        for (size_t i = 0; i < 3; i++) {
            const double before = r.seconds;
            cdz_limit_reader_turn(&r, b);
            all += cases[c].turns[i];
            assert_true(r.bytes == all && r.seconds > before);
        }
        assert_true(cdz_limit_reader_gbs(&r) > 0 && r.highest_gbs >= cdz_limit_reader_gbs(&r));
        assert_true(r.ways[0].bytes == cases[c].turns[0] + cases[c].turns[2]);
        assert_true(r.ways[1].bytes == cases[c].turns[1]);
        cdz_limit_reader_free(&r);
    }
    free(data);
    b->api->destroy(b);
}

static void nothing_is_read_of_nothing(void **state)
{
    (void)state;
    cdz_backend *b = backend_of(2);
    cdz_limit_reader r = {0};
    cdz_limit_reader_turn(&r, b);
    assert_true(cdz_limit_reader_gbs(&r) == 0);
    cdz_limit_reader_free(&r);
    b->api->destroy(b);
}

/* The limit is what the faster way reaches, not what both do together; a way that had no turn yet says nothing. */
static void the_faster_way_counts(void **state)
{
    (void)state;
    const cdz_limit_reader both = {.ways = {{3e9, 1.0}, {3e9, 0.5}}, .bytes = 6e9, .seconds = 1.5},
                           one = {.ways = {{3e9, 1.0}}, .bytes = 3e9, .seconds = 1.0};
    assert_true(fabs(cdz_limit_reader_gbs(&both) - 6.0) < 1e-9);
    assert_true(fabs(cdz_limit_reader_gbs(&one) - 3.0) < 1e-9);
}

#if defined(__x86_64__)
/* Subnormal numbers in the registers from before would be multiplied a hundred times as slowly; the processor's flags tell. */
static void multiply_adds_begin_with_registers_of_their_own(void **state)
{
    enum { DENORMAL = 1 << 1, UNDERFLOW = 1 << 4 };
    (void)state;
    cdz_backend *b = backend_of(1);
    const uint32_t smallest = 1;
    _mm_setcsr(_mm_getcsr() & ~(unsigned)(DENORMAL | UNDERFLOW));
    __asm__ volatile("movd %0, %%xmm12\nmovaps %%xmm12, %%xmm13\nmovaps %%xmm12, %%xmm11"
                     :
                     : "r"(smallest)
                     : "xmm11", "xmm12", "xmm13");
    const double gmacs = cdz_limit_gmacs(b);
    assert_true(gmacs > 0 || strcmp(b->api->variant, "scalar") == 0);
    assert_int_equal(_mm_getcsr() & (DENORMAL | UNDERFLOW), 0);
    b->api->destroy(b);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_go_round),
        cmocka_unit_test(nothing_is_read_of_nothing),
        cmocka_unit_test(the_faster_way_counts),
#if defined(__x86_64__)
        cmocka_unit_test(multiply_adds_begin_with_registers_of_their_own),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
