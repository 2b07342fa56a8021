/* on_purity.c - asking changes nothing, one seed gives one answer, and instances know nothing of each other. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check/checks.h"
#include "check/probe.h"

enum {
    STEPS = 6,
    OTHERS = 3,
    WHAT = 200,
    LATER_S = 90061
}; /* a day, an hour, a minute, a second */

/* --- pure ---------------------------------------------------------------------------------------------------- */

/* What a call might change, and must not. */
typedef struct belongings {
    void *params, *state;
    size_t params_size, state_size;
} belongings;

static belongings copy_belongings(cdz_child *c, const cdz_probe *t, const void *state)
{
    belongings b = {.params_size = t->plugin->params_size, .state_size = cdz_probe_state_size(t)};
    b.params = cdz_arena_alloc(&c->memory, b.params_size + 1);
    b.state = cdz_arena_alloc(&c->memory, b.state_size + 1);
    if (b.params && b.params_size) memcpy(b.params, t->params, b.params_size);
    if (b.state && b.state_size) memcpy(b.state, state, b.state_size);
    return b;
}

static const char *what_changed(const cdz_probe *t, const belongings *b, const void *state)
{
    if (b->state_size && memcmp(b->state, state, b->state_size) != 0)
        return "the state of the row, which accept alone may write";
    if (b->params_size && memcmp(b->params, t->params, b->params_size) != 0)
        return "its parameters, which are the host's";
    return NULL;
}

/* Another row's question in between. */
static void ask_about_another(const cdz_follow *f, float *answer)
{
    cdz_follow other = *f;
    for (uint32_t i = 0; i < OTHERS; i++)
        other.ids[other.len++] = cdz_some_token(&f->probe->facts, 900 + i);
    (void)cdz_follow_ask(&other, answer);
}

static cdz_check_state ask_twice(cdz_child *c, cdz_follow *f, const cdz_setup *setup, uint32_t step,
                                 float *first, float *second)
{
    const cdz_probe *t = f->probe;
    const char *call = t->plugin->kind == CDZ_KIND_PROCESSOR ? "apply" : "test";
    char what[WHAT];
    cdz_check_note(c, "step %u with %s", step, setup->text);
    const belongings before = copy_belongings(c, t, f->state);
    (void)cdz_follow_ask(f, first);
    const char *changed = what_changed(t, &before, f->state);
    if (changed)
        return cdz_fail_check(c, "%s with %s, step %u: changed %s", call, setup->text, step,
                              changed);
    (void)cdz_follow_ask(f, second);
    if (cdz_answers_differ(t, second, first, what, sizeof what))
        return cdz_fail_check(c, "%s with %s, step %u: asked the same again, %s", call, setup->text,
                              step, what);
    ask_about_another(f, second);
    changed = what_changed(t, &before, f->state);
    if (changed)
        return cdz_fail_check(c, "%s with %s, step %u, of other ids: changed %s", call, setup->text,
                              step, changed);
    (void)cdz_follow_ask(f, second);
    if (cdz_answers_differ(t, second, first, what, sizeof what))
        return cdz_fail_check(c,
                              "%s with %s, step %u: asked the same again after a question about "
                              "other ids, %s",
                              call, setup->text, step, what);
    return CDZ_CHECK_OK;
}

static cdz_check_state pure_with(cdz_child *c, const cdz_setup *setup)
{
    cdz_probe t;
    cdz_follow f;
    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setup, &cdz_usual_facts));
    const size_t len = cdz_answer_len(&t.facts);
    float *answers = cdz_answers_new(c, 2 * len);
    if (!answers || !cdz_follow_start(&f, &t, 1)) return cdz_fail_check(c, "out of memory");
    for (uint32_t step = 0; step < STEPS; step++) {
        CDZ_CHECK_TRY(ask_twice(c, &f, setup, step, answers, answers + len));
        (void)cdz_follow_take(&f, cdz_some_token(&t.facts, step));
    }
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_pure(cdz_child *c)
{
    return cdz_check_each_age(c, pure_with);
}

/* --- same seed -------------------------------------------------------------------------------------------------- */

/* A whole request in a process of its own whose clocks are ahead, answers into shared memory. */
static bool walk_apart(cdz_child *c, const cdz_setup *setup, int64_t ahead_s, float *answers)
{
    const pid_t child = fork();
    if (child < 0) return false;
    if (child == 0) {
        cdz_probe t;
        cdz_follow f;
        cdz_clocks_ahead(ahead_s);
        if (cdz_probe_ready(c, &t, setup, &cdz_usual_facts) == CDZ_CHECK_OK &&
            cdz_follow_start(&f, &t, 2))
            cdz_follow_walk(&f, STEPS, 1, answers);
        _exit(0);
    }
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static cdz_check_state walks_the_same(cdz_child *c, const cdz_setup *setup)
{
    const cdz_probe shape = {.plugin = c->ref.base, .facts = cdz_usual_facts};
    const size_t len = cdz_answer_len(&shape.facts), n = STEPS * len;
    char what[WHAT];
    const size_t bytes = (2 * n + 2 * (size_t)CDZ_ROOM) * sizeof(float);
    float *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return cdz_fail_check(c, "out of memory");
    float *answers = all + CDZ_ROOM;
    const bool walked =
        walk_apart(c, setup, 0, answers) && walk_apart(c, setup, LATER_S, answers + n);
    if (!walked) return cdz_fail_check(c, "with %s: the process of a request died", setup->text);
    for (size_t step = 0; step < STEPS; step++)
        if (cdz_answers_differ(&shape, answers + n + step * len, answers + step * len, what,
                               sizeof what))
            return cdz_fail_check(c,
                                  "with %s: the same request again, some time later, step %zu: %s",
                                  setup->text, step, what);
    (void)munmap(all, bytes);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_same_seed(cdz_child *c)
{
    return cdz_check_each_age(c, walks_the_same);
}

/* --- instances --------------------------------------------------------------------------------------------------- */

/* A request alone, then the same request while another goes its own way between every two of its steps. */
static cdz_check_state not_disturbed(cdz_child *c, const cdz_setup *setup, const cdz_setup *others,
                                     void *user)
{
    (void)user;
    cdz_probe alone, t, other;
    cdz_follow f, g;
    char what[WHAT];
    cdz_made_up elsewhere = cdz_usual_facts;
    elsewhere.seed = 8;
    CDZ_CHECK_TRY(cdz_probe_ready(c, &alone, setup, &cdz_usual_facts));
    const size_t len = cdz_answer_len(&alone.facts);
    float *want = cdz_answers_new(c, STEPS * len);
    float *got = cdz_answers_new(c, 2 * len);
    if (!want || !got || !cdz_follow_start(&f, &alone, 2))
        return cdz_fail_check(c, "out of memory");
    cdz_follow_walk(&f, STEPS, 1, want);
    cdz_probe_free(&alone);

    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setup, &cdz_usual_facts));
    CDZ_CHECK_TRY(cdz_probe_ready(c, &other, others, &elsewhere));
    if (!cdz_follow_start(&f, &t, 2) || !cdz_follow_start(&g, &other, 0))
        return cdz_fail_check(c, "out of memory");
    for (uint32_t step = 0; step < STEPS; step++) {
        cdz_follow_walk(&g, 2, 50 + step, got); /* two answers */
        (void)cdz_follow_ask(&f, got);
        (void)cdz_follow_take(&f, cdz_some_token(&t.facts, 100 + step)); /* as walk does */
        if (cdz_answers_differ(&t, got, want + step * len, what, sizeof what))
            return cdz_fail_check(c,
                                  "with %s: while another request runs, step %u: %s. State is kept "
                                  "outside the row's bytes (a global, a static variable)",
                                  setup->text, step, what);
    }
    cdz_probe_free(&t);
    cdz_probe_free(&other);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_instances(cdz_child *c)
{
    return cdz_check_ages_beside(c, not_disturbed, NULL);
}
