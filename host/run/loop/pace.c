/* pace.c - the sums of pace.h: what a pass of each number of rows has cost, the chance that a drafted token is right, and from
 * both the length with the most tokens a second; when drafts rest, and for how many rounds. No clock, no model. */
#include "run/loop/pace.h"

#include <math.h>

enum {
    ONE_EVERY = 64,     /* rounds, then a pass of one row is measured again */
    FURTHER_EVERY = 12, /* drafts, then one has a token more, to see what that costs */
    TRIALS = 2,         /* rounds with a draft, after a rest */
    TRIAL = 3,          /* tokens of such a draft */
    SHORTEST_REST = 8,
    LONGEST_REST = 512,
};

static const double memory = 0.9;       /* what a round counts when the next one comes */
static const double share = 0.3;        /* of a new measurement in what is known */
static const double worth = 1.03;       /* a draft has to gain more than the measurements' noise */
static const double trials_cost = 0.03; /* at most, of the time of a rest */

static bool chooses(const cdz_pace *p)
{
    return p->rounds >= CDZ_PACE_FIRST || p->proposed >= CDZ_PACE_FIRST_OF;
}

/* --- what is known -------------------------------------------------------------------------------------------------- */

/* Seconds of n of something: as seen, else on the line between its neighbours that were, 0 being free. Beyond the last,
 * as much more as two are apart below it, if there are two. 0: nothing was seen. */
static double cost_of(const cdz_pace_costs *c, uint32_t n)
{
    uint32_t below = n, above = n;
    while (below > 0 && c->seconds[below] <= 0) below--;
    while (above <= CDZ_PACE_ROWS && c->seconds[above] <= 0) above++;
    if (below == n) return c->seconds[n];
    if (above <= CDZ_PACE_ROWS) {
        const double part = (double)(n - below) / (double)(above - below);
        return c->seconds[below] + part * (c->seconds[above] - c->seconds[below]);
    }
    uint32_t lower = below > 0 ? below - 1 : 0;
    while (lower > 0 && c->seconds[lower] <= 0) lower--;
    if (lower == 0) return c->seconds[below];
    const double slope = (c->seconds[below] - c->seconds[lower]) / (double)(below - lower);
    return c->seconds[below] + (slope > 0 ? slope : 0) * (double)(n - below);
}

/* An outlier counts as twice what was expected: a process that was kept from its core says little of the model. A
 * machine that got slower got slower for every number: the others move too, less. */
static void learn(cdz_pace_costs *c, uint32_t n, double seconds)
{
    if (n == 0 || n > CDZ_PACE_ROWS || seconds <= 0) return;
    const double expected = c->seconds[n] > 0 ? c->seconds[n] : seconds;
    const double seen = seconds > 2 * expected ? 2 * expected : seconds;
    const double drift = 1 + share / 2 * (seen / expected - 1);
    for (uint32_t i = 1; i <= CDZ_PACE_ROWS; i++)
        c->seconds[i] = i == n ? expected + share * (seen - expected) : c->seconds[i] * drift;
}

static void learn_chance(cdz_pace *p, const cdz_pace_round *round)
{
    if (round->proposed == 0) return;
    p->right = memory * p->right + round->accepted;
    p->wrong = memory * p->wrong + (round->accepted < round->proposed ? 1 : 0);
}

void cdz_pace_note(cdz_pace *p, const cdz_pace_round *round)
{
    learn(&p->pass, round->proposed + 1, round->pass_s);
    /* The first draft, and one after a rest, also read what the drafter has not seen yet: they say nothing of others. */
    if (p->drafted) learn(&p->draft, round->proposed, round->draft_s);
    learn_chance(p, round);
    p->drafted = round->proposed > 0;
    p->since_one = round->proposed > 0 ? p->since_one + 1 : 0;
    if (chooses(p)) return;
    p->rounds++;
    p->proposed += round->proposed;
}

/* --- choosing ------------------------------------------------------------------------------------------------------- */

/* The chance that a token is right; a half weight each way keeps it off 0 and 1. */
static double chance(const cdz_pace *p)
{
    return (p->right + 0.5) / (p->right + p->wrong + 1);
}

static double tokens_of(double a, uint32_t k)
{
    return (1 - pow(a, k + 1.0)) / (1 - a);
}

/* The best length up to room. *gain: tokens a second there, over those without drafts. */
static uint32_t best(const cdz_pace *p, uint32_t room, double *gain)
{
    const double a = chance(p), alone = cost_of(&p->pass, 1);
    uint32_t length = 0;
    *gain = 1;
    for (uint32_t k = 1; k <= room && k < CDZ_PACE_ROWS; k++) {
        const double cost = cost_of(&p->pass, k + 1) + cost_of(&p->draft, k);
        const double here = cost > 0 ? tokens_of(a, k) * alone / cost : 0;
        if (here <= *gain) continue;
        *gain = here;
        length = k;
    }
    return length;
}

/* Longer each time, until trials, should they all fail, cost little of the time between them. The first is short: what one
 * row costs may have been measured at a bad moment. */
static void rest(cdz_pace *p)
{
    const double alone = cost_of(&p->pass, 1);
    const double loss = TRIALS * (cost_of(&p->pass, TRIAL + 1) + cost_of(&p->draft, TRIAL) - alone);
    const double most = alone > 0 ? fmax(loss, 0) / (trials_cost * alone)
                                  : 0; /* one slow pass can make trials a gain */
    p->rest = p->next_rest > SHORTEST_REST ? p->next_rest : SHORTEST_REST;
    p->next_rest = 2 * p->rest;
    if (p->next_rest > most) p->next_rest = most < LONGEST_REST ? (uint32_t)most : LONGEST_REST;
    p->trial = TRIALS;
}

uint32_t cdz_pace_room(cdz_pace *p, uint32_t room)
{
    double gain;
    if (!chooses(p)) return room < CDZ_PACE_FIRST_LENGTH ? room : CDZ_PACE_FIRST_LENGTH;
    if (p->rest > 0) {
        p->rest--;
        return 0;
    }
    if (p->trial > 0) {
        p->trial--;
        return room < TRIAL ? room : TRIAL;
    }
    if (p->pass.seconds[1] <= 0 || p->since_one >= ONE_EVERY) return 0;
    const uint32_t length = best(p, room, &gain);
    if (room > 0 && gain < worth) rest(p);
    if (gain < worth) return 0;
    p->next_rest = 0;
    return p->since_one % FURTHER_EVERY == 0 && length < room ? length + 1 : length;
}
