/* on_time.c - rows that part, rows that take tokens back, rows in other company: nothing of that may show. */
#include <string.h>

#include "check/checks.h"
#include "check/probe.h"

enum { STEPS = 4, WHAT = 200 };

/* A fresh row that took what `key` names, `steps` times, in a request of its own. */
static cdz_check_state replay(cdz_child *c, const cdz_setup *setup, const uint64_t *keys,
                              uint32_t n_keys, float *answers, float *last)
{
    cdz_probe t;
    cdz_follow f;
    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setup, &cdz_usual_facts));
    if (!cdz_follow_start(&f, &t, 1)) return cdz_fail_check(c, "out of memory");
    for (uint32_t i = 0; i < n_keys; i++) cdz_follow_walk(&f, STEPS, keys[i], answers);
    (void)cdz_follow_ask(&f, last);
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

typedef struct answers {
    float *walk;                        /* (STEPS) */
    float *got, *want, *other, *others; /* one each */
    size_t len;
} answers;

static bool take_answers(cdz_child *c, answers *a)
{
    a->len = cdz_answer_len(&cdz_usual_facts);
    float *all = cdz_answers_new(c, (STEPS + 4) * a->len);
    if (!all) return false;
    *a = (answers){all,
                   all + STEPS * a->len,
                   all + (STEPS + 1) * a->len,
                   all + (STEPS + 2) * a->len,
                   all + (STEPS + 3) * a->len,
                   a->len};
    return true;
}

/* --- fork ------------------------------------------------------------------------------------------------------ */

/* Both halves go on in turn, and each is what it would be had it always been alone. */
static cdz_check_state fork_with(cdz_child *c, const cdz_setup *setup)
{
    const uint64_t left[] = {1, 2}, right[] = {1, 3};
    cdz_probe t;
    cdz_follow f, g;
    answers a;
    char what[WHAT];
    if (!take_answers(c, &a)) return cdz_fail_check(c, "out of memory");
    CDZ_CHECK_TRY(replay(c, setup, left, 2, a.walk, a.want));
    CDZ_CHECK_TRY(replay(c, setup, right, 2, a.walk, a.others));
    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setup, &cdz_usual_facts));
    if (!cdz_follow_start(&f, &t, 1)) return cdz_fail_check(c, "out of memory");
    cdz_follow_walk(&f, STEPS, 1, a.walk);
    cdz_check_note(c, "a copy of the row's state with %s", setup->text);
    if (!cdz_follow_fork(&f, &g)) return cdz_fail_check(c, "the state could not be copied");
    for (uint32_t i = 0; i < STEPS; i++) {
        (void)cdz_follow_ask(&g, a.other);
        (void)cdz_follow_take(&f, cdz_some_token(&t.facts, 200 + i));
        (void)cdz_follow_take(&g, cdz_some_token(&t.facts, 300 + i));
    }
    (void)cdz_follow_ask(&f, a.got);
    (void)cdz_follow_ask(&g, a.other);
    if (cdz_answers_differ(&t, a.got, a.want, what, sizeof what))
        return cdz_fail_check(c,
                              "with %s: a row that was forked, against the same tokens replayed: %s",
                              setup->text, what);
    if (cdz_answers_differ(&t, a.other, a.others, what, sizeof what))
        return cdz_fail_check(c, "with %s: the fork of a row, against the same tokens replayed: %s",
                              setup->text, what);
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_fork(cdz_child *c)
{
    return cdz_check_each_age(c, fork_with);
}

/* --- rewind ----------------------------------------------------------------------------------------------------- */

/* Goes on, is taken back to a checkpoint, goes on another way. */
static cdz_check_state rewind_with(cdz_child *c, const cdz_setup *setup)
{
    const uint64_t straight[] = {1, 2};
    cdz_probe t;
    cdz_follow f, checkpoint;
    answers a;
    char what[WHAT];
    if (!take_answers(c, &a)) return cdz_fail_check(c, "out of memory");
    CDZ_CHECK_TRY(replay(c, setup, straight, 2, a.walk, a.want));
    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setup, &cdz_usual_facts));
    if (!cdz_follow_start(&f, &t, 1)) return cdz_fail_check(c, "out of memory");
    cdz_follow_walk(&f, STEPS, 1, a.walk);
    cdz_check_note(c, "rewinding with %s", setup->text);
    if (!cdz_follow_fork(&f, &checkpoint))
        return cdz_fail_check(c, "the state could not be copied");
    for (uint64_t regret = 7; regret < 10; regret++) cdz_follow_walk(&f, STEPS, regret, a.walk);
    memcpy(f.ids, checkpoint.ids, sizeof f.ids);
    f.len = checkpoint.len;
    if (cdz_probe_copy_state(&t, f.state, checkpoint.state) != CDZ_OK)
        return cdz_fail_check(c, "the state could not be copied");
    cdz_follow_walk(&f, STEPS, 2, a.walk);
    (void)cdz_follow_ask(&f, a.got);
    if (cdz_answers_differ(&t, a.got, a.want, what, sizeof what))
        return cdz_fail_check(c, "with %s: tokens taken back, against never having taken them: %s",
                              setup->text, what);
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_rewind(cdz_child *c)
{
    return cdz_check_each_age(c, rewind_with);
}

/* --- draft ------------------------------------------------------------------------------------------------------ */

/* A prefix that never comes to be: longer ids, and a scratch copy of the state that took them. */
static bool ask_about_a_draft(const cdz_follow *f, uint64_t key, float *answer)
{
    cdz_follow draft;
    if (!cdz_follow_fork(f, &draft)) return false;
    for (uint32_t i = 0; i < 3; i++)
        (void)cdz_follow_take(&draft, cdz_some_token(&f->probe->facts, key + i));
    (void)cdz_follow_ask(&draft, answer);
    return true;
}

static cdz_check_state draft_with(cdz_child *c, const cdz_setup *setup)
{
    cdz_probe t;
    cdz_follow f;
    answers a;
    char what[WHAT];
    if (!take_answers(c, &a)) return cdz_fail_check(c, "out of memory");
    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setup, &cdz_usual_facts));
    if (!cdz_follow_start(&f, &t, 1)) return cdz_fail_check(c, "out of memory");
    for (uint32_t step = 0; step < 2 * STEPS; step++) {
        (void)cdz_follow_ask(&f, a.want);
        if (!ask_about_a_draft(&f, 900 + step, a.other))
            return cdz_fail_check(c, "the state could not be copied");
        (void)cdz_follow_ask(&f, a.got);
        if (cdz_answers_differ(&t, a.got, a.want, what, sizeof what))
            return cdz_fail_check(c,
                                  "with %s, step %u: after a question about a prefix that never "
                                  "comes to be, %s",
                                  setup->text, step, what);
        (void)cdz_follow_take(&f, cdz_some_token(&t.facts, step));
    }
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_draft(cdz_child *c)
{
    return cdz_check_each_age(c, draft_with);
}

/* --- batch ------------------------------------------------------------------------------------------------------ */

enum { ROWS = 4 };

/* Asks about the rows of `order` in one call; answers lie in that order. */
static cdz_status ask_order(cdz_probe *t, cdz_follow *rows, const uint32_t *order, uint32_t n,
                            float *to)
{
    cdz_ids ids[ROWS];
    uint32_t index[ROWS];
    void *states[ROWS];
    const size_t len = cdz_answer_len(&t->facts);
    for (uint32_t i = 0; i < n; i++) {
        const cdz_follow *f = &rows[order[i]];
        ids[i] = (cdz_ids){f->ids, f->len};
        index[i] = f->row;
        states[i] = f->state;
        cdz_fill_scores(to + i * len, t->info.n_vocab, (uint64_t)f->row << 32 | f->len);
    }
    const cdz_probe_rows call = {.n = n, .ids = ids, .index = index, .states = states};
    cdz_scores scores = {.data = to, .n_rows = n, .n_vocab = t->info.n_vocab, .stride = len};
    return cdz_probe_ask(t, &call, &scores);
}

static cdz_check_state compare_orders(cdz_child *c, cdz_probe *t, cdz_follow *rows, float *want,
                                      float *got, const cdz_setup *setup)
{
    static const uint32_t orders[][ROWS] = {{0, 1, 2, 3}, {3, 1, 0, 2}, {2, 3, 0, 1}};
    static const uint32_t sizes[] = {ROWS, ROWS, 2};
    const size_t len = cdz_answer_len(&t->facts);
    char what[WHAT];
    for (uint32_t r = 0; r < ROWS; r++)
        if (ask_order(t, rows, &r, 1, want + r * len) != CDZ_OK) return CDZ_CHECK_OK;
    for (uint32_t o = 0; o < 3; o++) {
        if (ask_order(t, rows, orders[o], sizes[o], got) != CDZ_OK)
            return cdz_fail_check(c, "with %s: rows that it answers alone fail in a batch: %s",
                                  setup->text, t->said.text);
        for (uint32_t i = 0; i < sizes[o]; i++)
            if (cdz_answers_differ(t, got + i * len, want + orders[o][i] * len, what, sizeof what))
                return cdz_fail_check(
                    c, "with %s: row %u as number %u of %u, against the row alone: %s", setup->text,
                    cdz_nth_row(orders[o][i]), cdz_nth_row(i), sizes[o], what);
    }
    return CDZ_CHECK_OK;
}

/* The rows of a draft: prefixes of one row, each a token longer, that are asked about in one call. */
static cdz_check_state compare_draft_rows(cdz_child *c, cdz_probe *t, const cdz_follow *row,
                                          float *want, float *got, const cdz_setup *setup)
{
    cdz_follow draft[ROWS];
    cdz_setup named = *setup;
    const char *text = cdz_arena_printf(&c->memory, "%s, rows of a draft", setup->text);
    if (text) named.text = text;
    for (uint32_t i = 0; i < ROWS; i++) {
        if (!cdz_follow_fork(i ? &draft[i - 1] : row, &draft[i]))
            return cdz_fail_check(c, "the state could not be copied");
        if (i) (void)cdz_follow_take(&draft[i], cdz_some_token(&t->facts, 500 + i));
    }
    return compare_orders(c, t, draft, want, got, &named);
}

static cdz_check_state batch_with(cdz_child *c, const cdz_setup *setup)
{
    cdz_probe t;
    cdz_follow rows[ROWS];
    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setup, &cdz_usual_facts));
    const size_t len = cdz_answer_len(&t.facts);
    float *all = cdz_answers_new(c, 2 * ROWS * len);
    if (!all) return cdz_fail_check(c, "out of memory");
    for (uint32_t r = 0; r < ROWS; r++)
        if (!cdz_follow_start(&rows[r], &t, r)) return cdz_fail_check(c, "out of memory");
    for (uint32_t step = 0; step < STEPS; step++) {
        cdz_check_note(c, "rows of a batch, step %u with %s", step, setup->text);
        CDZ_CHECK_TRY(compare_orders(c, &t, rows, all, all + ROWS * len, setup));
        CDZ_CHECK_TRY(compare_draft_rows(c, &t, &rows[1], all, all + ROWS * len, setup));
        for (uint32_t r = 0; r < ROWS; r++)
            (void)cdz_follow_take(&rows[r], cdz_some_token(&t.facts, 10 * step + r));
    }
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_batch(cdz_child *c)
{
    if (c->ref.base->kind == CDZ_KIND_PROCESSOR && !(cdz_probe_caps(c->ref.base) & CDZ_ROWWISE))
        return cdz_skip_check(c, "it does not promise to work row by row");
    return cdz_check_each_age(c, batch_with);
}
