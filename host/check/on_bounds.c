/* on_bounds.c - rows of scores, histories and states between pages that nobody may touch. Everywhere else in the kit
 * they have room round them, so that going too far is told here and only here. */
#include <math.h>
#include <string.h>

#include "check/checks.h"
#include "check/probe.h"

/* --- rows of scores ------------------------------------------------------------------------------------------ */

enum { ROWS = 3, GAP = 5 }; /* floats between rows */

static const float mark = 54321.75f; /* no score of ours, and changed by whatever changes scores */

static cdz_check_state gaps_untouched(cdz_child *c, const cdz_scores *s, const cdz_setup *setup)
{
    for (uint32_t r = 0; r + 1 < s->n_rows; r++)
        for (uint32_t g = 0; g < GAP; g++)
            if (!cdz_same_bits(&cdz_row(s, r)[s->n_vocab + g], &mark, 1))
                return cdz_fail_check(
                    c,
                    "apply with %s: wrote between two rows of scores, element %u of row %u; rows "
                    "are n_vocab = %u floats, stride = %zu apart",
                    setup->text, s->n_vocab + g, r, s->n_vocab, s->stride);
    return CDZ_CHECK_OK;
}

static cdz_check_state ask_guarded(cdz_child *c, const cdz_setup *setup, uint32_t n_vocab,
                                   bool at_end)
{
    const cdz_made_up facts = {.n_vocab = n_vocab, .n_rows = ROWS, .prompt_len = 12, .seed = 7};
    const size_t stride = (size_t)n_vocab + GAP, n = stride * (ROWS - 1) + n_vocab;
    cdz_probe t;
    if (!cdz_probe_make(&t, c->ref.base, setup->params, &facts))
        return cdz_fail_check(c, "out of memory");
    cdz_check_note(c, "apply with %s, a vocabulary of %u", setup->text, n_vocab);
    if (cdz_probe_enter(&t) != CDZ_OK) {
        cdz_probe_free(&t);
        return CDZ_CHECK_OK; /* refuses so small a vocabulary */
    }
    cdz_scores s = {.data = cdz_guarded(n * sizeof(float), sizeof(float), at_end, "rows of scores"),
                    .n_rows = ROWS,
                    .n_vocab = n_vocab,
                    .stride = stride};
    uint32_t index[ROWS];
    void *states[ROWS];
    for (uint32_t r = 0; r < ROWS; r++) index[r] = r, states[r] = cdz_probe_state(&t);
    if (!s.data) return cdz_fail_check(c, "no memory to guard");
    for (size_t i = 0; i < n; i++) s.data[i] = mark;
    for (uint32_t r = 0; r < ROWS; r++) cdz_fill_scores(cdz_row(&s, r), n_vocab, r);
    const cdz_rows rows = {.n = ROWS, .ids = t.prompts, .index = index, .states = states};
    (void)cdz_probe_ask(&t, &rows, &s);
    CDZ_CHECK_TRY(gaps_untouched(c, &s, setup));
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

static cdz_check_state rows_with(cdz_child *c, const cdz_setup *setup)
{
    static const uint32_t vocabularies[] = {1000, 33, 4, 1};
    for (uint32_t v = 0; v < 4; v++)
        for (int at_end = 0; at_end < 2; at_end++)
            CDZ_CHECK_TRY(ask_guarded(c, setup, vocabularies[v], at_end));
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_row_bounds(cdz_child *c)
{
    return cdz_check_each_setup(c, rows_with);
}

/* --- histories ------------------------------------------------------------------------------------------------ */

/* One row whose history is read-only and lies against a guard. */
static cdz_check_state ask_guarded_ids(cdz_child *c, const cdz_setup *setup, bool at_end)
{
    cdz_probe t;
    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setup, &cdz_usual_facts));
    const cdz_ids prompt = t.prompts[1];
    const size_t bytes = prompt.len * sizeof *prompt.at;
    float *answer = cdz_answers_new(c, cdz_answer_len(&t.facts));
    int32_t *ids = cdz_guarded(bytes, sizeof *ids, at_end, "input_ids");
    void *state = cdz_probe_state(&t);
    if (!answer || !ids) return cdz_fail_check(c, "no memory to guard");
    memcpy(ids, prompt.at, bytes);
    if (!cdz_guarded_lock(ids, bytes, sizeof *ids, "input_ids, which are the host's"))
        return cdz_fail_check(c, "no memory to guard");
    const cdz_ids history = {ids, prompt.len};
    const uint32_t row = 1;
    const cdz_rows rows = {.n = 1, .ids = &history, .index = &row, .states = &state};
    cdz_scores s = {
        .data = answer, .n_rows = 1, .n_vocab = t.info.n_vocab, .stride = cdz_answer_len(&t.facts)};
    cdz_fill_scores(answer, s.n_vocab, 3);
    cdz_check_note(c, "a row with %s", setup->text);
    (void)cdz_probe_ask(&t, &rows, &s);
    cdz_check_note(c, "accept with %s", setup->text);
    (void)cdz_probe_accept(&t, history, row, state, history.at[history.len - 1]);
    cdz_guarded_unlock(ids, bytes);
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

static cdz_check_state ids_with(cdz_child *c, const cdz_setup *setup)
{
    CDZ_CHECK_TRY(ask_guarded_ids(c, setup, false));
    return ask_guarded_ids(c, setup, true);
}

cdz_check_state cdz_check_ids_bounds(cdz_child *c)
{
    return cdz_check_each_setup(c, ids_with);
}

/* --- states ----------------------------------------------------------------------------------------------------- */

static cdz_check_state guard_state(cdz_child *c, const cdz_setup *setup, bool at_end)
{
    cdz_probe t;
    cdz_follow f;
    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setup, &cdz_usual_facts));
    const size_t bytes = (cdz_probe_state_size(&t) + 15u) / 16u * 16u; /* as the host aligns it */
    float *answer = cdz_answers_new(c, cdz_answer_len(&t.facts));
    if (!answer || !cdz_follow_start(&f, &t, 1)) return cdz_fail_check(c, "out of memory");
    f.state = cdz_guarded(bytes, 1, at_end, "the row's state");
    if (!f.state) return cdz_fail_check(c, "no memory to guard");
    for (uint32_t step = 0; step < 6; step++) {
        cdz_check_note(c, "step %u with %s", step, setup->text);
        (void)cdz_follow_ask(&f, answer);
        (void)cdz_follow_take(&f, cdz_some_token(&t.facts, step));
        const unsigned char *tail = f.state;
        for (size_t i = cdz_probe_state_size(&t); i < bytes; i++)
            if (tail[i])
                return cdz_fail_check(c, "step %u with %s: wrote past the row's state of %u bytes",
                                      step, setup->text, cdz_probe_state_size(&t));
    }
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

static cdz_check_state state_with(cdz_child *c, const cdz_setup *setup)
{
    CDZ_CHECK_TRY(guard_state(c, setup, false));
    return guard_state(c, setup, true);
}

cdz_check_state cdz_check_state_bounds(cdz_child *c)
{
    const cdz_probe any = {.plugin = c->ref.base};
    if (cdz_probe_state_size(&any) == 0) return cdz_skip_check(c, "it has no state");
    return cdz_check_each_setup(c, state_with);
}
