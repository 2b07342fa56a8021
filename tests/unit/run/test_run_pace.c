/* test_run_pace.c - how long drafts become, on machines and drafters made up of numbers: no clock is read. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "run/loop/pace.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* A drafter and a model: what a draft token and passes cost, in passes of one row, and how often a token is right. */
typedef struct machine {
    double token, row; /* row: what each further row of a pass costs */
    double right;
    double noise;  /* times are spread by so much each way */
    uint32_t most; /* tokens that the drafter proposes if it may */
} machine;

typedef struct account {
    double seconds, plain; /* of all rounds; of as many tokens without drafts */
    uint32_t tokens, rounds, drafted, longest;
} account;

/* Deterministic, in [0, 1). */
static double dice(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) / (double)(1u << 24);
}

static double spread(const machine *m, uint64_t *state)
{
    return 1 + m->noise * (2 * dice(state) - 1);
}

static cdz_pace_round play(const machine *m, uint32_t k, uint64_t *state)
{
    cdz_pace_round round = {.proposed = k < m->most ? k : m->most};
    while (round.accepted < round.proposed && dice(state) < m->right) round.accepted++;
    round.draft_s = round.proposed * m->token * spread(m, state) * 0.03;
    round.pass_s = (1 + m->row * round.proposed) * spread(m, state) * 0.03;
    return round;
}

static account go_on(cdz_pace *pace, const machine *m, uint32_t tokens, uint64_t *state)
{
    account a = {0};
    while (a.tokens < tokens) {
        const uint32_t k = cdz_pace_room(pace, tokens - a.tokens - 1);
        const cdz_pace_round round = play(m, k, state);
        assert_true(k < tokens - a.tokens);
        cdz_pace_note(pace, &round);
        a.seconds += round.draft_s + round.pass_s;
        a.tokens += round.accepted + 1;
        a.rounds++;
        a.drafted += round.proposed > 0;
        if (round.proposed > a.longest) a.longest = round.proposed;
    }
    a.plain = a.tokens * 0.03;
    return a;
}

/* The most that any one length gives. */
static double ideal(const machine *m)
{
    double most = 1;
    for (uint32_t k = 1; k <= m->most && k < CDZ_PACE_ROWS; k++) {
        const double tokens = (1 - pow(m->right, k + 1.0)) / (1 - m->right);
        const double gain = tokens / (1 + (m->row + m->token) * k);
        if (gain > most) most = gain;
    }
    return most;
}

static void the_best_length_is_found(void **state)
{
    static const struct {
        const char *what;
        machine m;
        double part; /* of what the best length gives, at least */
    } cases[] = {
        {"a small draft model, memory-bound", {0.2, 0.08, 0.75, 0, 20}, 0.93},
        {"the same, and a noisy machine", {0.2, 0.08, 0.75, 0.3, 20}, 0.90},
        {"a draft nearly always right", {0.1, 0.05, 0.97, 0.1, 20}, 0.88},
        {"text looked up that is copied", {0, 0.1, 0.95, 0.1, 10}, 0.93},
        {"text looked up, seldom right", {0, 0.05, 0.3, 0.1, 10}, 0.93},
        {"drafts never right", {0.2, 0.1, 0, 0.1, 20}, 0.93},
        {"a draft model as slow as its model", {1, 0.1, 0.9, 0.1, 20}, 0.93},
        {"rows that cost as much as passes", {0.05, 1, 0.9, 0.1, 20}, 0.93},
        {"a drafter of one token", {0.1, 0.05, 0.8, 0.1, 1}, 0.93},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        cdz_pace pace = {0};
        uint64_t dice_state = 7 + i;
        const account a = go_on(&pace, &cases[i].m, 2000, &dice_state);
        const double gain = a.plain / a.seconds, best = ideal(&cases[i].m);
        if (gain < cases[i].part * best)
            fail_msg("%s: %.3f times as fast as without drafts, %.3f can be had", cases[i].what,
                     gain, best);
    }
}

/* Drafts that begin to be right after a thousand tokens, and the other way round. */
static void a_change_is_noticed(void **state)
{
    const machine bad = {0.15, 0.08, 0.05, 0.1, 12}, good = {0.15, 0.08, 0.9, 0.1, 12};
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        const machine *first = turn ? &good : &bad, *then = turn ? &bad : &good;
        cdz_pace pace = {0};
        uint64_t dice_state = 3;
        go_on(&pace, first, 1000, &dice_state);
        const account late = go_on(&pace, then, 1000, &dice_state);
        const double gain = late.plain / late.seconds;
        if (gain < 0.9 * ideal(then)) fail_msg("turn %d: %.3f of %.3f", turn, gain, ideal(then));
    }
}

/* A busy machine can measure anything, trials that gain time among it: later, when it is quiet, drafts are tried again. */
static void wild_measurements_are_got_over(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        const machine wild = {0.05, 0.05, 0.05, 0.99, 12}, quiet = {0.15, 0.08, 0.9, 0.05, 12};
        cdz_pace pace = {0};
        uint64_t dice_state = seed * 7919;
        for (uint32_t n = 0; n < 40; n++)
            go_on(&pace, &wild, 1 + n % 5, &dice_state); /* little room, and some */
        go_on(&pace, &quiet, 1000, &dice_state);
        const account late = go_on(&pace, &quiet, 1000, &dice_state);
        if (late.plain / late.seconds < 0.8 * ideal(&quiet))
            fail_msg("seed %d: %.3f of %.3f", (int)seed, late.plain / late.seconds, ideal(&quiet));
    }
}

/* A neighbour takes half of the machine: everything is slower, the lengths are as good as before. */
static void a_slower_machine_changes_nothing(void **state)
{
    const machine m = {0.15, 0.08, 0.8, 0.05, 16};
    cdz_pace pace = {0};
    uint64_t dice_state = 11;
    (void)state;
    go_on(&pace, &m, 1000, &dice_state);
    double seconds = 0;
    uint32_t tokens = 0;
    while (tokens < 1000) {
        cdz_pace_round round = play(&m, cdz_pace_room(&pace, 1000), &dice_state);
        round.draft_s *= 2;
        round.pass_s *= 2;
        cdz_pace_note(&pace, &round);
        seconds += round.draft_s + round.pass_s;
        tokens += round.accepted + 1;
    }
    const double gain = 2 * 0.03 * tokens / seconds;
    if (gain < 0.93 * ideal(&m)) fail_msg("%.3f of %.3f", gain, ideal(&m));
}

/* So that short answers have the same rounds whatever the machine does. */
static void the_first_rounds_are_the_drafter_s_own(void **state)
{
    static const machine m = {0.5, 0.5, 0, 0, 2};
    cdz_pace pace = {0};
    uint64_t dice_state = 1;
    (void)state;
    for (uint32_t round = 0; round * 2 < CDZ_PACE_FIRST_OF && round < CDZ_PACE_FIRST; round++) {
        assert_int_equal(cdz_pace_room(&pace, 1000), CDZ_PACE_FIRST_LENGTH);
        const cdz_pace_round played = play(&m, 2, &dice_state);
        cdz_pace_note(&pace, &played);
    }
    assert_int_equal(cdz_pace_room(&pace, 1000), 0); /* what one row costs is not known yet */
}

/* Where a drafter has nothing to say nothing is lost, and there is nothing to rest from. */
static void silence_is_no_failure(void **state)
{
    const machine silent = {0.1, 0.1, 0.5, 0, 0}, talks = {0.1, 0.05, 0.95, 0, 10};
    cdz_pace pace = {0};
    uint64_t dice_state = 5;
    (void)state;
    account a = go_on(&pace, &silent, 200, &dice_state);
    assert_int_equal(a.rounds, 200);
    assert_true(cdz_pace_room(&pace, 100) > 0);
    a = go_on(&pace, &talks, 300, &dice_state);
    assert_true(a.plain / a.seconds > 0.85 * ideal(&talks));
}

static void room_is_never_exceeded(void **state)
{
    const machine m = {0.01, 0.01, 0.98, 0, 64};
    cdz_pace pace = {0};
    uint64_t dice_state = 2;
    (void)state;
    for (uint32_t i = 0; i < 400; i++) {
        const uint32_t room = i % 11;
        const uint32_t k = cdz_pace_room(&pace, room);
        assert_true(k <= room);
        const cdz_pace_round round = play(&m, k, &dice_state);
        cdz_pace_note(&pace, &round);
    }
    assert_true(cdz_pace_room(&pace, UINT32_MAX) < CDZ_PACE_ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_length_is_found),
        cmocka_unit_test(a_change_is_noticed),
        cmocka_unit_test(wild_measurements_are_got_over),
        cmocka_unit_test(a_slower_machine_changes_nothing),
        cmocka_unit_test(the_first_rounds_are_the_drafter_s_own),
        cmocka_unit_test(silence_is_no_failure),
        cmocka_unit_test(room_is_never_exceeded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
