/* test_run_crew.c - how many threads passes run on, on machines made up of numbers: no clock is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "run/pass/crew.h"

enum { MOST = 64 };

/* What a pass takes on so many threads, and what part of it the engine's thread has a core. */
typedef struct machine {
    double wall_s[MOST + 1], has;
    double noise; /* times are spread by so much each way */
} machine;

/* Deterministic, in [0, 1). */
static double dice(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) / (double)(1u << 24);
}

/* Runs so many seconds of passes; returns the passes. */
static uint32_t go_on(cdz_crew *crew, const machine *m, double seconds, uint64_t *state)
{
    uint32_t passes = 0;
    for (double at = 0; at < seconds; passes++) {
        const double wall = m->wall_s[crew->now] * (1 + m->noise * (2 * dice(state) - 1));
        cdz_crew_note(crew, &(cdz_crew_pass){1, wall, m->has * wall});
        assert_in_range(crew->now, 1, crew->most);
        at += wall;
    }
    return passes;
}

static const machine quiet = {{0, 0.036, 0.020}, 0.99, 0.2},
                     fewer_is_faster = {{0, 0.036, 0.041}, 0.6, 0.15},
                     more_is_faster = {{0, 0.036, 0.030}, 0.6, 0.15};

static void quiet_machines_are_left_alone(void **state)
{
    (void)state;
    static const machine small = {{0, 0.0009, 0.0005}, 0.99, 0.3};
    const machine *machines[] = {&quiet, &small};
    for (size_t i = 0; i < 2; i++) {
        uint64_t seed = 1;
        cdz_crew crew;
        cdz_crew_begin(&crew, 2);
        for (int second = 0; second < 30; second++) {
            go_on(&crew, machines[i], 1, &seed);
            assert_int_equal(crew.now, 2);
            assert_int_equal(crew.settled, 0); /* not even a trial */
        }
    }
}

/* Beside a neighbour: hardly slower than the better number would be from the start. */
static void the_faster_number_is_found(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const machine *machine;
        double best_s;
    } cases[] = {{"fewer", &fewer_is_faster, 0.036}, {"more", &more_is_faster, 0.030}};
    for (size_t i = 0; i < 2; i++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            uint64_t at = seed;
            cdz_crew crew;
            cdz_crew_begin(&crew, 2);
            const double passes = go_on(&crew, cases[i].machine, 60, &at);
            if (passes < 0.95 * 60 / cases[i].best_s)
                fail_msg("%s, seed %d: %.0f passes, expected about %.0f", cases[i].name, (int)seed,
                         passes, 60 / cases[i].best_s);
        }
}

static void all_come_back_when_a_neighbour_goes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t at = seed;
        cdz_crew crew;
        cdz_crew_begin(&crew, 2);
        go_on(&crew, &fewer_is_faster, 20, &at);
        go_on(&crew, &quiet, 5, &at); /* longer than the longest rest */
        assert_int_equal(crew.now, 2);
        assert_int_equal(crew.settled, 0);
    }
}

/* Where fewer threads are no use at all, trials cost little, from the first second on. */
static void hopeless_trials_are_short(void **state)
{
    (void)state;
    static const machine alone = {{0, 0.034, 0.020}, 0.7, 0.1};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t at = seed;
        cdz_crew crew;
        cdz_crew_begin(&crew, 2);
        for (int second = 0; second < 10; second++)
            assert_true(go_on(&crew, &alone, 1, &at) >= 46); /* of 50 */
    }
}

/* Sixteen cores of which six are taken. */
static void large_crews_are_walked_through(void **state)
{
    (void)state;
    machine m = {.has = 0.7, .noise = 0.02};
    for (uint32_t n = 1; n <= MOST; n++) m.wall_s[n] = n <= 10 ? 0.1 / n : 0.013 + 0.002 * (n - 10);
    uint64_t at = 3;
    cdz_crew crew;
    cdz_crew_begin(&crew, 16);
    const double passes = go_on(&crew, &m, 60, &at);
    assert_true(passes > 0.85 * 60 / 0.01);
}

/* A trial is compared with passes of its own size, or given up. */
static void sizes_are_not_mixed(void **state)
{
    (void)state;
    cdz_crew crew;
    uint64_t at = 1;
    cdz_crew_begin(&crew, 2);
    for (uint32_t i = 0; i < 1000; i++)
        cdz_crew_note(&crew, &(cdz_crew_pass){1 + i % 2, i % 2 ? 0.5 : 0.01, 0.005});
    assert_int_equal(crew.now, 2);
    while (crew.settled == 0) go_on(&crew, &more_is_faster, 0.03, &at);
    assert_int_equal(crew.now, 1);
    cdz_crew_note(&crew, &(cdz_crew_pass){512, 1, 0.5});
    assert_int_equal(crew.now, 2);
    assert_int_equal(crew.settled, 0);
}

static void one_thread_stays_one(void **state)
{
    (void)state;
    cdz_crew crew;
    uint64_t at = 1;
    cdz_crew_begin(&crew, 1);
    go_on(&crew, &fewer_is_faster, 5, &at);
    assert_int_equal(crew.now, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quiet_machines_are_left_alone),
        cmocka_unit_test(the_faster_number_is_found),
        cmocka_unit_test(all_come_back_when_a_neighbour_goes),
        cmocka_unit_test(hopeless_trials_are_short),
        cmocka_unit_test(large_crews_are_walked_through),
        cmocka_unit_test(sizes_are_not_mixed),
        cmocka_unit_test(one_thread_stays_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
