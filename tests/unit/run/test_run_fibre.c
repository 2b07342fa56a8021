/* test_run_fibre.c - both kinds of fibres: order, many at once, depth, reuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "run/loop/fibre.h"

static const char *const ways[] = {"ucontext", "threads"};
enum { N_WAYS = 2, N_FIBRES = 40 };

typedef struct counter {
    cdz_fibre *fibre;
    int count, rounds;
} counter;

static void count_rounds(void *arg)
{
    counter *c = arg;
    for (int i = 0; i < c->rounds; i++) {
        c->count++;
        cdz_fibre_suspend(c->fibre);
    }
}

static cdz_fibres *open_way(int way)
{
    cdz_error err = {0};
    cdz_fibres *fibres;
    assert_int_equal(cdz_fibres_create(ways[way], &fibres, &err), CDZ_OK);
    return fibres;
}

/* Fibre i lives i + 1 rounds; all are resumed in turn. Twice, so that stacks are used again. */
static void test_turns(void **state)
{
    (void)state;
    for (int way = 0; way < N_WAYS; way++) {
        cdz_fibres *fibres = open_way(way);
        for (int again = 0; again < 2; again++) {
            counter c[N_FIBRES] = {0};
            for (int i = 0; i < N_FIBRES; i++) {
                c[i].rounds = i + 1;
                assert_int_equal(cdz_fibre_start(fibres, count_rounds, &c[i], &c[i].fibre, NULL),
                                 CDZ_OK);
                assert_int_equal(c[i].count, 0);
            }
            for (int round = 0; round <= N_FIBRES; round++)
                for (int i = 0; i < N_FIBRES; i++) {
                    if (cdz_fibre_ended(c[i].fibre)) continue;
                    cdz_fibre_resume(c[i].fibre);
                    assert_int_equal(c[i].count, round < i + 1 ? round + 1 : i + 1);
                    assert_int_equal(cdz_fibre_ended(c[i].fibre), round == i + 1);
                }
            for (int i = 0; i < N_FIBRES; i++) cdz_fibre_free(c[i].fibre);
        }
        cdz_fibres_free(fibres);
    }
}

/* About 150 KiB of stack, with something checked in every frame. */
static int dig(cdz_fibre *fibre, int depth)
{
    volatile char frame[1024];
    for (size_t i = 0; i < sizeof frame; i++) frame[i] = (char)depth;
    if (depth == 0)
        cdz_fibre_suspend(fibre);
    else if (dig(fibre, depth - 1) != depth - 1)
        return -1;
    for (size_t i = 0; i < sizeof frame; i++)
        if (frame[i] != (char)depth) return -1;
    return depth;
}

static void dig_deep(void *arg)
{
    counter *c = arg;
    c->count = dig(c->fibre, 120);
}

static void test_depth(void **state)
{
    (void)state;
    for (int way = 0; way < N_WAYS; way++) {
        cdz_fibres *fibres = open_way(way);
        counter a = {0}, b = {0};
        assert_int_equal(cdz_fibre_start(fibres, dig_deep, &a, &a.fibre, NULL), CDZ_OK);
        assert_int_equal(cdz_fibre_start(fibres, dig_deep, &b, &b.fibre, NULL), CDZ_OK);
        cdz_fibre_resume(a.fibre);
        cdz_fibre_resume(b.fibre);
        assert_int_equal(a.count, 0);
        cdz_fibre_resume(a.fibre);
        cdz_fibre_resume(b.fibre);
        assert_int_equal(a.count, 120);
        assert_int_equal(b.count, 120);
        cdz_fibre_free(a.fibre);
        cdz_fibre_free(b.fibre);
        cdz_fibres_free(fibres);
    }
}

static void test_never_resumed(void **state)
{
    (void)state;
    for (int way = 0; way < N_WAYS; way++) {
        cdz_fibres *fibres = open_way(way);
        counter c = {.rounds = 1};
        assert_int_equal(cdz_fibre_start(fibres, count_rounds, &c, &c.fibre, NULL), CDZ_OK);
        cdz_fibre_free(c.fibre);
        assert_int_equal(c.count, 0);
        cdz_fibres_free(fibres);
    }
    cdz_fibre_free(NULL);
    cdz_fibres_free(NULL);
}

static void test_unknown_way(void **state)
{
    (void)state;
    cdz_error err = {0};
    cdz_fibres *fibres = NULL;
    assert_int_equal(cdz_fibres_create("threds", &fibres, &err), CDZ_E_USAGE);
    assert_non_null(strstr(err.text, "threds"));
    assert_null(fibres);
}

/* --- errands ---------------------------------------------------------------------------------------------- */

typedef struct errand {
    cdz_fibre *fibre;
    int turns;
    bool big; /* its own stack would not do */
} errand;

/* More than a fibre's stack has. */
static void need_room(void *arg)
{
    volatile char room[2 * 1024 * 1024];
    errand *e = arg;
    for (size_t i = 0; i < sizeof room; i += 4096) room[i] = 1;
    e->big = room[4096] == 1 && cdz_fibre_now == e->fibre;
    e->turns++;
}

static void send_errands(void *arg)
{
    errand *e = arg;
    for (int i = 0; i < 3; i++) {
        cdz_fibre_outside(need_room, e);
        cdz_fibre_suspend(e->fibre);
    }
    cdz_fibre_outside(need_room, e);
}

static void test_errands(void **state)
{
    (void)state;
    for (int way = 0; way < N_WAYS; way++) {
        cdz_fibres *fibres = open_way(way);
        errand e = {0};
        assert_int_equal(cdz_fibre_start(fibres, send_errands, &e, &e.fibre, NULL), CDZ_OK);
        for (int i = 1; i <= 4; i++) {
            assert_false(cdz_fibre_ended(e.fibre));
            cdz_fibre_resume(e.fibre);
            assert_int_equal(e.turns, i);
            assert_true(e.big);
        }
        assert_true(cdz_fibre_ended(e.fibre));
        cdz_fibre_free(e.fibre);
        cdz_fibres_free(fibres);
    }
    errand here = {0}; /* outside any fibre */
    cdz_fibre_outside(need_room, &here);
    assert_int_equal(here.turns, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns),       cmocka_unit_test(test_errands),
        cmocka_unit_test(test_depth),       cmocka_unit_test(test_never_resumed),
        cmocka_unit_test(test_unknown_way),
    };
    return cmocka_run_group_tests_name("run fibres", tests, NULL, NULL);
}
