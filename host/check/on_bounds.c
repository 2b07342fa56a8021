/* on_bounds.c - rows of scores, histories and states between pages that nobody may touch. Everywhere else in the kit
 * they have room round them, so that going too far is told here and only here. */
#include <math.h>
#include <string.h>

#include "check/checks.h"
#include "check/probe.h"

/* --- rows of scores ------------------------------------------------------------------------------------------ */

enum { ROWS = 3, GAP = 5, WALK = 120, FEW = 9, READ = 1500 }; /* GAP: floats between rows */

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

/* Where rows lie for one vocabulary, flush with the guard before or behind them; of criteria, their answers. */
typedef struct guarded {
    uint32_t n_vocab;
    bool at_end;
    cdz_scores scores;
    cdz_stop *stops; /* (ROWS), of criteria */
} guarded;

static bool guard_rows(cdz_child *c, uint32_t n_vocab, bool at_end, guarded *g)
{
    const bool criterion = c->ref.base->kind == CDZ_KIND_CRITERION;
    const size_t stride = (size_t)n_vocab + GAP, n = stride * (ROWS - 1) + n_vocab;
    const cdz_made_up facts = {.n_vocab = n_vocab};
    *g = (guarded){.n_vocab = n_vocab, .at_end = at_end};
    g->scores = (cdz_scores){.n_rows = ROWS, .n_vocab = n_vocab, .stride = stride};
    if (criterion) {
        g->stops = cdz_guarded(ROWS * sizeof *g->stops, sizeof *g->stops, at_end, "stops");
        g->scores.stride = cdz_answer_len(&facts);
        g->scores.data = cdz_answers_new(c, ROWS * g->scores.stride);
        return g->stops && g->scores.data;
    }
    g->scores.data = cdz_guarded(n * sizeof(float), sizeof(float), at_end, "rows of scores");
    return g->scores.data != NULL;
}

static void fill_rows(guarded *g, const cdz_follow *follows)
{
    cdz_scores *s = &g->scores;
    const size_t n = s->stride * (ROWS - 1) + s->n_vocab;
    for (size_t i = 0; i < n; i++) s->data[i] = mark;
    for (uint32_t r = 0; r < ROWS; r++)
        cdz_fill_scores(cdz_row(s, r), s->n_vocab, (uint64_t)follows[r].len << 8 | r);
}

/* One call about all rows. */
static cdz_check_state ask_guarded(cdz_child *c, cdz_probe *t, guarded *g, cdz_follow *follows,
                                   const cdz_setup *setup)
{
    fill_rows(g, follows);
    cdz_check_note(c, "%s with %s, a vocabulary of %u, rows of %u ids, the first ends in token %d",
                   t->plugin->kind == CDZ_KIND_PROCESSOR ? "apply" : "test", setup->text,
                   g->n_vocab, follows[0].len, (int)follows[0].ids[follows[0].len - 1]);
    (void)cdz_follows_ask(follows, ROWS, &g->scores);
    return t->plugin->kind == CDZ_KIND_PROCESSOR ? gaps_untouched(c, &g->scores, setup)
                                                 : CDZ_CHECK_OK;
}

/* Rows that are asked about after every one of some tokens, and after none. */
static cdz_check_state walk_guarded(cdz_child *c, guarded *g, const cdz_setup *setup)
{
    const uint32_t steps = g->n_vocab == 1000 ? WALK : FEW;
    const cdz_made_up facts = {
        .n_vocab = g->n_vocab, .n_rows = ROWS, .prompt_len = 12, .seed = 7, .age = setup->age};
    cdz_probe t;
    cdz_follow follows[ROWS];
    if (!cdz_probe_make(&t, c->ref.base, setup->params, &facts))
        return cdz_fail_check(c, "out of memory");
    cdz_check_note(c, "begin with %s, a vocabulary of %u", setup->text, g->n_vocab);
    if (cdz_probe_enter(&t) != CDZ_OK) {
        cdz_probe_free(&t);
        return CDZ_CHECK_OK; /* refuses so small a vocabulary */
    }
    t.stops = g->stops;
    for (uint32_t r = 0; r < ROWS; r++)
        if (!cdz_follow_start(&follows[r], &t, r)) return cdz_fail_check(c, "out of memory");
    for (uint32_t step = 0; step < steps; step++) {
        CDZ_CHECK_TRY(ask_guarded(c, &t, g, follows, setup));
        for (uint32_t r = 0; r < ROWS; r++)
            (void)cdz_follow_take(&follows[r], step % 3
                                                   ? cdz_some_token(&facts, 7 * step + r)
                                                   : cdz_probe_text_token(&facts, 7 * step + r));
    }
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_row_bounds(cdz_child *c)
{
    static const uint32_t vocabularies[] = {1000, 70, 33, 4, 1};
    cdz_setup *setups[CDZ_SETUPS];
    uint32_t n;
    CDZ_CHECK_TRY(cdz_setups_find(c, setups, &n));
    for (size_t v = 0; v < sizeof vocabularies / sizeof vocabularies[0]; v++)
        for (int at_end = 0; at_end < 2; at_end++) {
            guarded g;
            if (!guard_rows(c, vocabularies[v], at_end, &g))
                return cdz_fail_check(c, "no memory to guard");
            for (uint32_t i = 0; i < n; i++) {
                const cdz_setup aged = cdz_setup_aged(c, setups[i], at_end ? 0 : 100);
                CDZ_CHECK_TRY(walk_guarded(c, &g, setups[i]));
                if (g.n_vocab == 70) CDZ_CHECK_TRY(walk_guarded(c, &g, &aged));
            }
        }
    return CDZ_CHECK_OK;
}

/* --- histories ------------------------------------------------------------------------------------------------ */

/* The histories of some rows, read-only and each against guards: they grow at the side that is watched. */
typedef struct histories {
    int32_t *at[ROWS]; /* (CDZ_PROBE_MOST) each */
    bool at_end;
} histories;

static bool guard_ids(histories *h, bool at_end)
{
    const size_t bytes = (size_t)CDZ_PROBE_MOST * sizeof(int32_t);
    h->at_end = at_end;
    for (uint32_t r = 0; r < ROWS; r++) {
        h->at[r] = cdz_guarded(bytes, sizeof(int32_t), at_end, "input_ids");
        if (!h->at[r] ||
            !cdz_guarded_lock(h->at[r], bytes, sizeof(int32_t), "input_ids, which are the host's"))
            return false;
    }
    return true;
}

static cdz_ids show_ids(const histories *h, uint32_t r, const cdz_follow *f)
{
    const size_t bytes = (size_t)CDZ_PROBE_MOST * sizeof(int32_t);
    int32_t *to = h->at[r] + (h->at_end ? CDZ_PROBE_MOST - f->len : 0);
    cdz_guarded_unlock(h->at[r], bytes);
    memcpy(to, f->ids, f->len * sizeof *to);
    cdz_guarded_readable(h->at[r], bytes, true);
    return (cdz_ids){to, f->len};
}

static void hear_guarded(cdz_probe *t, const histories *h, uint32_t r, cdz_follow *f, int32_t token)
{
    f->ids[f->len++] = token;
    (void)cdz_probe_accept(t, show_ids(h, r, f), r, f->state, token);
}

static cdz_check_state walk_ids(cdz_child *c, const histories *h, const cdz_setup *setup)
{
    cdz_probe t;
    cdz_follow follows[ROWS];
    cdz_ids ids[ROWS];
    uint32_t index[ROWS];
    void *states[ROWS];
    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setup, &cdz_usual_facts));
    const size_t len = cdz_answer_len(&t.facts);
    float *answer = cdz_answers_new(c, ROWS * len);
    if (!answer) return cdz_fail_check(c, "out of memory");
    for (uint32_t r = 0; r < ROWS; r++) {
        if (!cdz_follow_start(&follows[r], &t, r)) return cdz_fail_check(c, "out of memory");
        index[r] = r, states[r] = follows[r].state;
    }
    const cdz_probe_rows rows = {.n = ROWS, .ids = ids, .index = index, .states = states};
    cdz_scores s = {.data = answer, .n_rows = ROWS, .n_vocab = t.info.n_vocab, .stride = len};
    for (uint32_t step = 0; step < WALK; step++) {
        for (uint32_t r = 0; r < ROWS; r++) {
            ids[r] = show_ids(h, r, &follows[r]);
            cdz_fill_scores(cdz_row(&s, r), s.n_vocab, step);
        }
        cdz_check_note(c, "step %u with %s", step, setup->text);
        (void)cdz_probe_ask(&t, &rows, &s);
        cdz_check_note(c, "accept, step %u with %s", step, setup->text);
        for (uint32_t r = 0; r < ROWS; r++)
            hear_guarded(&t, h, r, &follows[r], cdz_some_token(&t.facts, 5 * step + r));
    }
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_ids_bounds(cdz_child *c)
{
    cdz_setup *setups[CDZ_SETUPS];
    uint32_t n;
    CDZ_CHECK_TRY(cdz_setups_find(c, setups, &n));
    for (int at_end = 0; at_end < 2; at_end++) {
        histories h;
        if (!guard_ids(&h, at_end)) return cdz_fail_check(c, "no memory to guard");
        for (uint32_t i = 0; i < n; i++) CDZ_CHECK_TRY(walk_ids(c, &h, setups[i]));
    }
    return CDZ_CHECK_OK;
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
    for (uint32_t step = 0; step < READ; step++) {
        cdz_check_note(c, "step %u with %s", step, setup->text);
        if (step < FEW || step % 16 == 0) (void)cdz_follow_ask(&f, answer);
        (void)cdz_follow_take(&f, step < WALK ? cdz_some_token(&t.facts, step)
                                              : cdz_probe_text_token(&t.facts, step));
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
