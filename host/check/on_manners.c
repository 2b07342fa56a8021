/* on_manners.c - what a plugin leaves behind and what it costs: the process round it, memory, time. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "check/checks.h"
#include "check/probe.h"

enum { WHAT = 240, LONG = 110 };

/* --- environment ------------------------------------------------------------------------------------------------ */

static cdz_check_state left_as_found(cdz_child *c, const char *call, const cdz_setup *setup)
{
    char what[WHAT];
    if (!cdz_surroundings_changed(c->before, what, sizeof what)) return CDZ_CHECK_OK;
    return cdz_fail_check(c, "%s with %s changed %s and left it so", call, setup->text, what);
}

static cdz_check_state environment_with(cdz_child *c, const cdz_setup *setup)
{
    const char *ask = c->ref.base->kind == CDZ_KIND_PROCESSOR ? "apply" : "test";
    cdz_probe t;
    cdz_follow f;
    if (!cdz_probe_make(&t, c->ref.base, setup->params, &cdz_usual_facts))
        return cdz_fail_check(c, "out of memory");
    cdz_check_note(c, "with %s", setup->text);
    const cdz_status created = cdz_probe_create(&t);
    CDZ_CHECK_TRY(left_as_found(c, "create", setup));
    if (created != CDZ_OK || cdz_probe_idle(&t) || cdz_probe_begin(&t) != CDZ_OK)
        return CDZ_CHECK_OK;
    CDZ_CHECK_TRY(left_as_found(c, "begin", setup));
    float *answer = cdz_answers_new(c, cdz_answer_len(&t.facts));
    if (!answer || !cdz_follow_start(&f, &t, 1)) return cdz_fail_check(c, "out of memory");
    for (uint32_t step = 0; step < LONG; step++) {
        (void)cdz_follow_ask(&f, answer);
        if (step < 3 || step % 10 == 9) CDZ_CHECK_TRY(left_as_found(c, ask, setup));
        (void)cdz_follow_take(&f, cdz_some_token(&t.facts, step));
        if (step < 3 || step % 10 == 9) CDZ_CHECK_TRY(left_as_found(c, "accept", setup));
    }
    cdz_probe_free(&t);
    return left_as_found(c, "end", setup);
}

/* Opening the file has happened already; the loader keeps its copy of the file open. */
cdz_check_state cdz_check_environment(cdz_child *c)
{
    cdz_setup *setups[CDZ_SETUPS];
    uint32_t n;
    char what[WHAT];
    cdz_surroundings_forgive_files(c->before);
    if (cdz_surroundings_changed(c->before, what, sizeof what))
        return cdz_fail_check(c, "opening the file changed %s and left it so", what);
    const cdz_setup *defaults = cdz_setup_defaults(c, NULL);
    if (defaults) CDZ_CHECK_TRY(environment_with(c, defaults));
    CDZ_CHECK_TRY(cdz_setups_find(c, setups, &n));
    if (cdz_surroundings_changed(c->before, what, sizeof what))
        return cdz_fail_check(c, "create, begin or a first row changed %s and left it so", what);
    for (uint32_t i = 0; i < n; i++) CDZ_CHECK_TRY(environment_with(c, setups[i]));
    return CDZ_CHECK_OK;
}

/* --- no-alloc ------------------------------------------------------------------------------------------------------ */

static cdz_check_state allocations_with(cdz_child *c, const cdz_setup *setup)
{
    const char *ask = c->ref.base->kind == CDZ_KIND_PROCESSOR ? "apply" : "test";
    cdz_probe t;
    cdz_follow f;
    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setup, &cdz_usual_facts));
    float *answer = cdz_answers_new(c, cdz_answer_len(&t.facts));
    if (!answer || !cdz_follow_start(&f, &t, 1)) return cdz_fail_check(c, "out of memory");
    (void)cdz_follow_ask(&f, answer); /* the host's scratch memory grows to what is needed */
    (void)cdz_follow_ask(&f, answer);
    for (uint32_t step = 0; step < 4; step++) {
        cdz_allocations_watch();
        (void)cdz_follow_ask(&f, answer);
        const uint32_t asked = cdz_allocations_seen();
        if (asked > 0)
            return cdz_fail_check(c, "%s with %s allocated %u times from the heap", ask,
                                  setup->text, asked);
        cdz_allocations_watch();
        (void)cdz_follow_take(&f, cdz_some_token(&t.facts, step));
        const uint32_t took = cdz_allocations_seen();
        if (took > 0)
            return cdz_fail_check(c, "accept with %s allocated %u times from the heap", setup->text,
                                  took);
    }
    if (t.n_stray > 0)
        return cdz_fail_check(
            c, "%s or accept with %s called cdz_alloc, which create and begin alone may", ask,
            setup->text);
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_no_alloc(cdz_child *c)
{
    if (cdz_module_is_script(c->ref.module))
        return cdz_skip_check(c, "a script's memory is its budget's");
    if (!cdz_allocations_known()) return cdz_skip_check(c, "this build cannot count allocations");
    return cdz_check_each_age(c, allocations_with);
}

/* --- leaks ----------------------------------------------------------------------------------------------------------- */

enum { ROUNDS = 32 };

static cdz_check_state whole_request(cdz_child *c, const cdz_setup *setup, float *answer)
{
    cdz_probe t;
    cdz_follow f;
    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setup, &cdz_usual_facts));
    if (!cdz_follow_start(&f, &t, 1)) return cdz_fail_check(c, "out of memory");
    (void)cdz_follow_ask(&f, answer);
    (void)cdz_follow_take(&f, 3);
    (void)cdz_follow_ask(&f, answer);
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

/* What every one of some rounds keeps; what is kept once (a table made when it is first needed) is let off. */
static cdz_check_state leaks_with(cdz_child *c, const cdz_setup *setup)
{
    char what[WHAT];
    int64_t least = INT64_MAX;
    float *answer = cdz_answers_new(c, cdz_answer_len(&cdz_usual_facts));
    if (!answer) return cdz_fail_check(c, "out of memory");
    CDZ_CHECK_TRY(whole_request(c, setup, answer));
    const cdz_surroundings *before = cdz_surroundings_note(&c->memory);
    if (!before) return cdz_fail_check(c, "out of memory");
    for (uint32_t round = 0; round < 3; round++) {
        cdz_allocations_watch();
        for (uint32_t i = 0; i < ROUNDS; i++) CDZ_CHECK_TRY(whole_request(c, setup, answer));
        const int64_t kept = cdz_allocations_kept();
        if (kept < least) least = kept;
    }
    if (cdz_surroundings_changed(before, what, sizeof what))
        return cdz_fail_check(c, "%u requests with %s changed %s", 3u * ROUNDS, setup->text, what);
    if (least >= 8 * ROUNDS)
        return cdz_fail_check(c, "%u requests with %s left %" PRId64 " bytes of the heap in use",
                              (unsigned)ROUNDS, setup->text, least);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_leaks(cdz_child *c)
{
    return cdz_check_each_age(c, leaks_with);
}

/* --- out-of-memory ------------------------------------------------------------------------------------------------------ */

enum { MOST_REFUSALS = 40 };

/* The n-th piece of host memory is refused. True while there was an n-th. */
static cdz_check_state refuse_one(cdz_child *c, const cdz_setup *setup, uint32_t nth, float *answer,
                                  bool *reached)
{
    cdz_probe t;
    cdz_follow f;
    if (!cdz_probe_make(&t, c->ref.base, setup->params, &cdz_usual_facts))
        return cdz_fail_check(c, "out of memory");
    t.refuse_at = nth;
    cdz_check_note(c, "with %s, memory refused at call %u", setup->text, nth);
    cdz_status status = cdz_probe_enter(&t);
    if (status == CDZ_OK) {
        if (!cdz_follow_start(&f, &t, 1)) return cdz_fail_check(c, "out of memory");
        status = cdz_follow_ask(&f, answer);
        if (status == CDZ_OK) status = cdz_follow_take(&f, 3);
    }
    *reached = t.n_taken >= nth;
    const char *broken = cdz_probe_broken(&t, status);
    if (broken)
        return cdz_fail_check(c, "with %s, memory refused at call %u: %s", setup->text, nth, broken);
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

static cdz_check_state refusals_with(cdz_child *c, const cdz_setup *setup)
{
    float *answer = cdz_answers_new(c, cdz_answer_len(&cdz_usual_facts));
    if (!answer) return cdz_fail_check(c, "out of memory");
    bool reached = true;
    for (uint32_t nth = 1; reached && nth <= MOST_REFUSALS; nth++)
        CDZ_CHECK_TRY(refuse_one(c, setup, nth, answer, &reached));
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_out_of_memory(cdz_child *c)
{
    return cdz_check_each_setup(c, refusals_with);
}

/* --- speed ----------------------------------------------------------------------------------------------------------------- */

enum { FEWEST = 3, MOST = 41 };

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

cdz_check_state cdz_check_speed(cdz_child *c)
{
    const cdz_made_up facts = {.n_vocab = 151936, .n_rows = 1, .prompt_len = 24, .seed = 7};
    cdz_setup *setups[CDZ_SETUPS];
    uint32_t n, runs = 0;
    double took[MOST], all = 0;
    cdz_probe t;
    cdz_follow f;
    CDZ_CHECK_TRY(cdz_setups_find(c, setups, &n));
    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setups[0], &facts));
    float *row = cdz_answers_new(c, 2 * cdz_answer_len(&facts));
    if (!row || !cdz_follow_start(&f, &t, 0)) return cdz_fail_check(c, "out of memory");
    float *usual = row + cdz_answer_len(&facts);
    cdz_fill_scores(usual, facts.n_vocab, 1);
    const cdz_ids ids = {f.ids, f.len};
    const cdz_probe_rows rows = {.n = 1, .ids = &ids, .index = &f.row, .states = &f.state};
    cdz_scores scores = {
        .data = row, .n_rows = 1, .n_vocab = facts.n_vocab, .stride = facts.n_vocab};
    while (runs < FEWEST || (runs < MOST && all < 0.03)) {
        memcpy(row, usual, facts.n_vocab * sizeof *row);
        const double start = cdz_thread_s();
        if (cdz_probe_ask(&t, &rows, &scores) != CDZ_OK)
            return cdz_skip_check(c, "it refuses such a row: %s", t.said.text);
        took[runs] = cdz_thread_s() - start;
        all += took[runs++];
    }
    cdz_probe_free(&t);
    qsort(took, runs, sizeof *took, by_size);
    return cdz_pass_check(c, "%.1f microseconds per row of %u tokens", took[runs / 2] * 1e6,
                          facts.n_vocab);
}
