/* crew.c - the trials of crew.h: when the engine's thread is kept waiting, a stretch of passes on fewer threads is compared with
 * the one before, and what was faster stays; later more are tried again. No clock: seconds come with each pass. */
#include "run/pass/crew.h"

enum { LEAST_PASSES = 4, GLANCE_PASSES = 2, IGNORED = 1 };

static const double stretch_s = 0.15; /* at least: time slices are some milliseconds */
static const double glance_s = 0.025; /* of a trial, until it may be seen to be hopeless: */
static const double hopeless = 1.3;   /* so many times what passes took before */
/* Of that, for a trial to be won: two stretches differ by a tenth without a cause, and more threads are the rule. */
static const double worth_fewer = 0.95, worth_more = 1;
/* Of a core's time, what the engine's thread has at least where more threads are not slower: beside one neighbour it has seven
 * eighths, since the backend's threads let it run. A virtual machine takes a little of it too, now and then. */
static const double undisturbed = 0.75;
static const double shortest_rest_s = 0.75, longest_rest_s = 4;

void cdz_crew_begin(cdz_crew *crew, uint32_t most)
{
    *crew = (cdz_crew){.most = most, .now = most, .next_rest_s = shortest_rest_s};
}

/* --- stretches -------------------------------------------------------------------------------------------------------- */

static bool complete(const cdz_crew_stretch *s)
{
    return s->passes >= LEAST_PASSES && s->wall_s >= stretch_s;
}

static double cost(const cdz_crew_stretch *s)
{
    return s->wall_s / s->passes;
}

/* Of a trial: so much slower that no more of it need be seen. */
static bool is_hopeless(const cdz_crew *c)
{
    return c->settled != 0 && c->seen.passes >= GLANCE_PASSES && c->seen.wall_s >= glance_s &&
           cost(&c->seen) > hopeless * cost(&c->before);
}

static bool kept_waiting(const cdz_crew_stretch *s)
{
    return s->ran_s < undisturbed * s->wall_s;
}

static void add(cdz_crew_stretch *s, const cdz_crew_pass *pass)
{
    if (pass->rows != s->rows) *s = (cdz_crew_stretch){.rows = pass->rows};
    s->passes++;
    s->wall_s += pass->wall_s;
    s->ran_s += pass->ran_s;
}

/* --- trials ----------------------------------------------------------------------------------------------------------- */

static void go_to(cdz_crew *c, uint32_t threads)
{
    c->now = threads;
    c->ignored = IGNORED;
    c->seen = (cdz_crew_stretch){0};
}

static uint32_t step(const cdz_crew *c)
{
    return c->now < 16 ? 1 : c->now / 8;
}

/* Another number that is worth a trial after what was seen; 0: none is. */
static uint32_t candidate(cdz_crew *c)
{
    const bool down = c->now > 1 && kept_waiting(&c->seen), up = c->now < c->most;
    if (!down && !up) return 0;
    const bool upwards = up && (!down || c->up_next);
    c->up_next = !upwards;
    if (!upwards) return c->now - step(c);
    return c->most - c->now < step(c) ? c->most : c->now + step(c);
}

static void start_trial(cdz_crew *c, uint32_t threads)
{
    c->settled = c->now;
    c->before = c->seen;
    go_to(c, threads);
}

static void end_trial(cdz_crew *c, bool won)
{
    if (!won) go_to(c, c->settled);
    c->settled = 0;
    if (won) c->next_rest_s = shortest_rest_s;
    c->rest_s = c->next_rest_s;
    c->next_rest_s = 2 * c->next_rest_s < longest_rest_s ? 2 * c->next_rest_s : longest_rest_s;
}

void cdz_crew_note(cdz_crew *c, const cdz_crew_pass *pass)
{
    if (c->most < 2) return;
    c->rest_s -= pass->wall_s;
    if (c->settled != 0 && pass->rows != c->before.rows) end_trial(c, false);
    if (c->ignored > 0) {
        c->ignored--;
        return;
    }
    add(&c->seen, pass);
    if (is_hopeless(c)) end_trial(c, false);
    if (!complete(&c->seen)) return;
    if (c->settled != 0) {
        const double worth = c->now < c->settled ? worth_fewer : worth_more;
        end_trial(c, cost(&c->seen) < worth * cost(&c->before));
    } else if (c->rest_s <= 0) {
        const uint32_t other = candidate(c);
        if (other != 0) start_trial(c, other);
    }
    c->seen = (cdz_crew_stretch){0};
}
