/* on_promises.c - what a processor's capabilities promise, tried on many rows. The planner believes them: a false one
 * gives wrong tokens. */
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "cadenza/criterion.h"
#include "check/checks.h"
#include "check/probe.h"
#include "vec/vec.h"

enum { RUNS = 12, WHAT = 200 };

/* A row before and after, at a position of its own. */
typedef struct sample {
    cdz_follow *f;
    uint32_t run;
    uint64_t key;
    const float *before, *after; /* (n_vocab) */
    float *spare;                /* (n_vocab) */
} sample;

typedef cdz_check_state judge_fn(cdz_child *c, const cdz_setup *setup, sample *s, void *user);

static cdz_status ask(cdz_follow *f, float *row)
{
    cdz_scores scores = {.data = row,
                         .n_rows = 1,
                         .n_vocab = f->probe->info.n_vocab,
                         .stride = cdz_answer_len(&f->probe->facts)};
    return cdz_follows_ask(f, 1, &scores);
}

/* In a request that draws nothing it may be idle, or refuse. */
static cdz_check_state begin(cdz_child *c, cdz_probe *t, const cdz_setup *setup,
                             const cdz_made_up *facts, bool *begun)
{
    cdz_made_up aged = *facts;
    aged.age = setup->age;
    *begun = true;
    if (!facts->greedy) return cdz_probe_ready(c, t, setup, facts);
    if (!cdz_probe_make(t, c->ref.base, setup->params, &aged))
        return cdz_fail_check(c, "out of memory");
    cdz_check_note(c, "begin with %s, in a request that draws nothing", setup->text);
    *begun = cdz_probe_enter(t) == CDZ_OK;
    return CDZ_CHECK_OK;
}

/* RUNS rows at positions 0, 1, ..., each with scores and a row of its own, shown to judge. */
static cdz_check_state with_samples(cdz_child *c, const cdz_setup *setup, const cdz_made_up *facts,
                                    judge_fn *judge, void *user)
{
    const uint32_t half = (uint32_t)(facts->seed - cdz_usual_facts.seed);
    cdz_probe t;
    cdz_follow f;
    bool begun;
    CDZ_CHECK_TRY(begin(c, &t, setup, facts, &begun));
    const size_t len = cdz_answer_len(facts);
    float *all = cdz_answers_new(c, 3 * len);
    if (!all || (begun && !cdz_follow_start(&f, &t, half)))
        return cdz_fail_check(c, "out of memory");
    for (uint32_t run = 0; begun && run < RUNS; run++) {
        sample s = {&f, run, 1000 * half + run + 1, all, all + len, all + 2 * len};
        cdz_fill_scores(all, facts->n_vocab, s.key);
        memcpy(all + len, all, len * sizeof *all);
        cdz_check_note(c, "row %u with %s", run, setup->text);
        if (ask(&f, all + len) == CDZ_OK) CDZ_CHECK_TRY(judge(c, setup, &s, user));
        (void)cdz_follow_take(&f, cdz_some_token(facts, 40 * half + run));
    }
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

/* The same of every setup and age. */
typedef struct judging {
    judge_fn *judge;
    void *user;
    bool greedy; /* in requests that draw nothing */
} judging;

static cdz_check_state judge_samples(cdz_child *c, const cdz_setup *aged, const cdz_setup *other,
                                     void *user)
{
    const judging *j = user;
    cdz_made_up facts = cdz_usual_facts;
    (void)other;
    facts.greedy = j->greedy;
    return with_samples(c, aged, &facts, j->judge, j->user);
}

static cdz_check_state with_all_samples(cdz_child *c, judge_fn *judge, void *user)
{
    judging all = {judge, user, false};
    return cdz_check_ages_beside(c, judge_samples, &all);
}

static bool promises(const cdz_child *c, uint32_t cap)
{
    return (cdz_probe_caps(c->ref.base) & cap) != 0;
}

static cdz_check_state promised(cdz_child *c, uint32_t cap, judge_fn *judge)
{
    if (!promises(c, cap)) return cdz_skip_check(c, "not promised");
    return with_all_samples(c, judge, NULL);
}

/* Equal as numbers: a processor may turn -0 into 0. */
static bool same(float a, float b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* --- elementwise ------------------------------------------------------------------------------------------------ */

/* Which half of the places the token is in; two tokens are apart in every second sample. */
static uint32_t half_of(uint64_t key, uint32_t v)
{
    uint64_t random = (key << 32) + v;
    return cdz_random_below(&random, 2);
}

/* Other scores in one half of the places: the rest comes out as before. */
static cdz_check_state judge_elementwise(cdz_child *c, const cdz_setup *setup, sample *s, void *user)
{
    (void)user;
    const uint32_t n = s->f->probe->info.n_vocab;
    for (uint32_t kept = 0; kept < 2; kept++) {
        cdz_fill_scores(s->spare, n, s->key + 77777);
        for (uint32_t v = 0; v < n; v++)
            if (half_of(s->key, v) == kept) s->spare[v] = s->before[v];
        if (ask(s->f, s->spare) != CDZ_OK) return CDZ_CHECK_OK;
        for (uint32_t v = 0; v < n; v++)
            if (half_of(s->key, v) == kept && !cdz_same_bits(&s->spare[v], &s->after[v], 1))
                return cdz_fail_check(c,
                                      "with %s, row %u: the score of token %u came out as %.9g, and "
                                      "as %.9g when other scores changed",
                                      setup->text, s->run, v, (double)s->after[v],
                                      (double)s->spare[v]);
    }
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_elementwise(cdz_child *c)
{
    return promised(c, CDZ_ELEMENTWISE, judge_elementwise);
}

/* --- keeps-top ---------------------------------------------------------------------------------------------------- */

static cdz_check_state judge_top(cdz_child *c, const cdz_setup *setup, sample *s, void *user)
{
    (void)user;
    const uint32_t n = s->f->probe->info.n_vocab;
    float lowest = INFINITY, highest = -INFINITY;
    uint32_t kept = 0, masked = 0;
    for (uint32_t v = 0; v < n; v++) {
        const float was = s->before[v], is = s->after[v];
        if (was == -INFINITY && is == -INFINITY) continue;
        if (is != -INFINITY && !same(is, was))
            return cdz_fail_check(c,
                                  "with %s, row %u: the score of token %u was %.9g and became %.9g; "
                                  "expected the same or -inf",
                                  setup->text, s->run, v, (double)was, (double)is);
        if (is == -INFINITY && was > highest) highest = was, masked = v;
        if (is != -INFINITY && was < lowest) lowest = was, kept = v;
    }
    if (highest > lowest)
        return cdz_fail_check(
            c, "with %s, row %u: token %u (%.9g) is masked and token %u (%.9g) below it is kept",
            setup->text, s->run, masked, (double)highest, kept, (double)lowest);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_keeps_top(cdz_child *c)
{
    return promised(c, CDZ_KEEPS_TOP, judge_top);
}

/* --- keeps-argmax --------------------------------------------------------------------------------------------------- */

static uint32_t best(const float *x, uint32_t n)
{
    uint32_t at = 0;
    for (uint32_t v = 1; v < n; v++)
        if (x[v] > x[at]) at = v;
    return at;
}

static cdz_check_state judge_argmax(cdz_child *c, const cdz_setup *setup, sample *s, void *user)
{
    (void)user;
    const uint32_t n = s->f->probe->info.n_vocab;
    const uint32_t was = best(s->before, n), is = best(s->after, n);
    if (was == is) return CDZ_CHECK_OK;
    return cdz_fail_check(
        c, "with %s, row %u: the best token was %u (%.9g), now %u is (%.9g, the other has %.9g)",
        setup->text, s->run, was, (double)s->before[was], is, (double)s->after[is],
        (double)s->after[was]);
}

cdz_check_state cdz_check_keeps_argmax(cdz_child *c)
{
    return promised(c, CDZ_KEEPS_ARGMAX, judge_argmax);
}

/* --- sampling-only --------------------------------------------------------------------------------------------------- */

/* The same scores behind the tokens of another row, as old as this one or just begun. */
static bool same_behind_others(cdz_child *c, sample *s, bool fresh)
{
    cdz_probe *t = s->f->probe;
    const uint32_t n = t->info.n_vocab, age = t->facts.age;
    cdz_follow other;
    if (fresh) t->facts.age = 0;
    const bool started = cdz_follow_start(&other, t, (s->f->row + 1) % t->facts.n_rows);
    t->facts.age = age;
    memcpy(s->spare, s->before, n * sizeof *s->spare);
    cdz_check_note(c, "row %u, behind other tokens", s->run);
    return !started || ask(&other, s->spare) != CDZ_OK || cdz_same_bits(s->spare, s->after, n);
}

/* A warper shapes what is drawn from, whatever the row holds. What changes the best token by what was written is a rule for
 * what may be written, and greedy decoding needs it as well. */
static cdz_check_state judge_warper(cdz_child *c, const cdz_setup *setup, sample *s, void *user)
{
    (void)user;
    const uint32_t n = s->f->probe->info.n_vocab;
    const uint32_t was = best(s->before, n), is = best(s->after, n);
    if (was == is || (same_behind_others(c, s, false) && same_behind_others(c, s, true)))
        return CDZ_CHECK_OK;
    return cdz_fail_check(
        c,
        "with %s, row %u, in a request that draws nothing: the best token was %u, "
        "now %u is, and behind other tokens the same scores come out otherwise: it "
        "is no warper",
        setup->text, s->run, was, is);
}

cdz_check_state cdz_check_sampling_only(cdz_child *c)
{
    judging greedy = {judge_warper, NULL, true};
    if (!promises(c, CDZ_SAMPLING_ONLY)) return cdz_skip_check(c, "not promised");
    return cdz_check_ages_beside(c, judge_samples, &greedy);
}

/* --- history-sparse ---------------------------------------------------------------------------------------------------- */

static bool holds(const cdz_follow *f, uint32_t token)
{
    for (uint32_t i = 0; i < f->len; i++)
        if ((uint32_t)f->ids[i] == token) return true;
    return false;
}

/* What the first half's rows changed; beside its own histories the second half, with other scores, may change no more.
 * Tokens of the first histories are let off: they may be in the constant set too. */
static cdz_check_state note_constants(cdz_child *c, const cdz_setup *setup, sample *s, void *user)
{
    bool *constants = user;
    (void)c, (void)setup;
    for (uint32_t v = 0; v < s->f->probe->info.n_vocab; v++)
        if (!same(s->before[v], s->after[v])) constants[v] = true;
    return CDZ_CHECK_OK;
}

static cdz_check_state judge_sparse(cdz_child *c, const cdz_setup *setup, sample *s, void *user)
{
    const bool *constants = user;
    for (uint32_t v = 0; v < s->f->probe->info.n_vocab; v++)
        if (!same(s->before[v], s->after[v]) && !constants[v] && !holds(s->f, v))
            return cdz_fail_check(
                c,
                "with %s, row %u: the score of token %u changed from %.9g to %.9g; "
                "it is not in input_ids, nor changed for another row there",
                setup->text, s->run, v, (double)s->before[v], (double)s->after[v]);
    return CDZ_CHECK_OK;
}

static cdz_check_state sparse_with(cdz_child *c, const cdz_setup *setup)
{
    bool *constants = cdz_arena_alloc(&c->memory, cdz_usual_facts.n_vocab);
    if (!constants) return cdz_fail_check(c, "out of memory");
    cdz_made_up second = cdz_usual_facts;
    second.seed++;
    CDZ_CHECK_TRY(with_samples(c, setup, &cdz_usual_facts, note_constants, constants));
    return with_samples(c, setup, &second, judge_sparse, constants);
}

cdz_check_state cdz_check_history_sparse(cdz_child *c)
{
    if (!promises(c, CDZ_HISTORY_SPARSE)) return cdz_skip_check(c, "not promised");
    return cdz_check_each_age(c, sparse_with);
}

/* --- needs-normalised ------------------------------------------------------------------------------------------------------ */

/* Whether a row raised as a whole comes out raised as a whole: then it needed no log-probabilities. */
static cdz_check_state look_for_need(cdz_child *c, const cdz_setup *setup, sample *s, void *user)
{
    bool *needed = user;
    const uint32_t n = s->f->probe->info.n_vocab;
    (void)c, (void)setup;
    for (uint32_t v = 0; v < n; v++) s->spare[v] = s->before[v] + 3.0f;
    if (ask(s->f, s->spare) != CDZ_OK) return CDZ_CHECK_OK;
    for (uint32_t v = 0; v < n; v++) {
        const float a = s->after[v], b = s->spare[v] - 3.0f;
        if (!same(a, b) && !(fabsf(a - b) < 1e-3f * (1.0f + fabsf(a)))) *needed = true;
    }
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_needs_normalised(cdz_child *c)
{
    bool needed = false;
    if (!promises(c, CDZ_NEEDS_NORMALISED)) return cdz_skip_check(c, "not declared");
    CDZ_CHECK_TRY(with_all_samples(c, look_for_need, &needed));
    if (needed) return CDZ_CHECK_OK;
    return cdz_fail_check(c,
                          "it asks for log-probabilities, yet rows that were raised by 3 as a whole "
                          "come out raised by 3: the pass over the row is for nothing");
}

/* --- the form ----------------------------------------------------------------------------------------------------------------- */

/* The call of cadenza.vec/1 that the form stands for; false: it is none that this host knows. */
static bool do_form(const cdz_form *form, float *x, size_t n, void *scratch)
{
    const cdz_vec *vec = cdz_vec_table();
    const size_t count = (size_t)form->count;
    switch (form->kind) {
    case CDZ_FORM_DIVIDE: vec->div(x, n, (float)form->amount); return true;
    case CDZ_FORM_KEEP_TOPK: vec->keep_topk(x, n, count, scratch); return true;
    case CDZ_FORM_KEEP_TOPP: vec->keep_topp(x, n, form->amount, count, scratch); return true;
    case CDZ_FORM_KEEP_MINP: vec->keep_minp(x, n, form->amount, count, scratch); return true;
    default: return false;
    }
}

/* Marks the ids that `edits` lists for the sample's row; false: any score. */
static bool mark_edits(const sample *s, bool *listed)
{
    const uint32_t n = s->f->probe->info.n_vocab;
    cdz_ids ids;
    if (!cdz_probe_edits(s->f->probe, (cdz_ids){s->f->ids, s->f->len}, s->f->row, &ids))
        return false;
    for (uint32_t i = 0; i < ids.len; i++) {
        if (ids.at[i] < 0 || (uint32_t)ids.at[i] >= n) return false;
        listed[ids.at[i]] = true;
    }
    return true;
}

/* An edit changes what it lists, and makes the same of it when all else is other. */
static cdz_check_state judge_edit(cdz_child *c, const cdz_setup *setup, sample *s)
{
    const uint32_t n = s->f->probe->info.n_vocab;
    bool *listed = cdz_arena_alloc(&c->memory, n * sizeof *listed);
    if (!listed) return cdz_fail_check(c, "out of memory");
    const bool told = mark_edits(s, listed);
    cdz_scratch_reset(&s->f->probe->scratch);
    if (!told) return CDZ_CHECK_OK;
    for (uint32_t v = 0; v < n; v++)
        if (!listed[v] && !same(s->before[v], s->after[v]))
            return cdz_fail_check(
                c,
                "with %s, row %u: the score of token %u changed from %.9g to %.9g, "
                "and `edits` does not list it",
                setup->text, s->run, v, (double)s->before[v], (double)s->after[v]);
    cdz_fill_scores(s->spare, n, s->key + 55555);
    for (uint32_t v = 0; v < n; v++)
        if (listed[v]) s->spare[v] = s->before[v];
    if (ask(s->f, s->spare) != CDZ_OK) return CDZ_CHECK_OK;
    for (uint32_t v = 0; v < n; v++)
        if (listed[v] && !cdz_same_bits(&s->spare[v], &s->after[v], 1))
            return cdz_fail_check(c,
                                  "with %s, row %u: the score of token %u came out as %.9g, and as "
                                  "%.9g when scores changed that `edits` does not list",
                                  setup->text, s->run, v, (double)s->after[v], (double)s->spare[v]);
    return CDZ_CHECK_OK;
}

/* Whether the token's score is what a mask makes of it. */
static bool is_masked_so(const sample *s, const uint64_t *bits, uint32_t v)
{
    return cdz_bit_is_set(bits, v) ? cdz_same_bits(&s->before[v], &s->after[v], 1)
                                   : s->after[v] == -INFINITY;
}

static bool leaves_some(const sample *s, const uint64_t *bits)
{
    for (uint32_t v = 0; v < s->f->probe->info.n_vocab; v++)
        if (cdz_bit_is_set(bits, v) && s->before[v] > -INFINITY) return true;
    return false;
}

/* A mask leaves what it tells, as it was, and nothing else; what it does where nothing is left is its own. */
static cdz_check_state judge_mask(cdz_child *c, const cdz_setup *setup, sample *s)
{
    const uint32_t n = s->f->probe->info.n_vocab, n_words = (n + 63) / 64;
    uint64_t *bits = cdz_arena_alloc(&c->memory, n_words * sizeof *bits);
    if (!bits) return cdz_fail_check(c, "out of memory");
    const bool told = cdz_probe_mask(s->f->probe, (cdz_ids){s->f->ids, s->f->len}, s->f->row,
                                     s->f->state, bits, n_words);
    cdz_scratch_reset(&s->f->probe->scratch);
    if (!told || !leaves_some(s, bits)) return CDZ_CHECK_OK;
    for (uint32_t v = 0; v < n; v++)
        if (!is_masked_so(s, bits, v))
            return cdz_fail_check(
                c, "with %s, row %u: `mask` %s token %u; apply made its score %.9g of %.9g",
                setup->text, s->run, cdz_bit_is_set(bits, v) ? "tells" : "does not tell", v,
                (double)s->after[v], (double)s->before[v]);
    return CDZ_CHECK_OK;
}

/* Bit for bit: the host may do the one for the other. */
static cdz_check_state judge_form(cdz_child *c, const cdz_setup *setup, sample *s, void *user)
{
    bool *said = user;
    cdz_probe *t = s->f->probe;
    const uint32_t n = t->info.n_vocab;
    cdz_form form;
    if (!cdz_probe_form(t, &form)) return CDZ_CHECK_OK;
    *said = true;
    if (form.kind == CDZ_FORM_EDIT) return judge_edit(c, setup, s);
    if (form.kind == CDZ_FORM_MASK) return judge_mask(c, setup, s);
    void *scratch = cdz_scratch_take(&t->scratch, cdz_vec_scratch(n));
    if (!scratch) return cdz_fail_check(c, "out of memory");
    memcpy(s->spare, s->before, n * sizeof *s->spare);
    const bool known = do_form(&form, s->spare, n, scratch);
    cdz_scratch_reset(&t->scratch);
    if (!known)
        return cdz_fail_check(c, "with %s: says its form is %u, which is none of cdz_form_kind",
                              setup->text, (unsigned)form.kind);
    for (uint32_t v = 0; v < n; v++)
        if (!cdz_same_bits(&s->spare[v], &s->after[v], 1))
            return cdz_fail_check(c,
                                  "with %s, row %u: says its form is %u with %.9g and %llu, which "
                                  "makes the score of token %u %.9g; apply made it %.9g",
                                  setup->text, s->run, (unsigned)form.kind, form.amount,
                                  (unsigned long long)form.count, v, (double)s->spare[v],
                                  (double)s->after[v]);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_form(cdz_child *c)
{
    bool said = false;
    cdz_offers offers;
    (void)cdz_offers_ask(c->ref.base, &offers, NULL);
    if (!offers.form) return cdz_skip_check(c, "it says nothing of its form");
    CDZ_CHECK_TRY(with_all_samples(c, judge_form, &said));
    return said ? CDZ_CHECK_OK : cdz_skip_check(c, "it says nothing of its form");
}

/* --- the constraint ----------------------------------------------------------------------------------------------------------- */

/* Tokens that apply left are those that the constraint allows, or where a text may end its ends, which it does not list. */
static cdz_check_state compare_allowed(cdz_child *c, const cdz_setup *setup, const sample *s,
                                       const cdz_row_constraint *told)
{
    const uint32_t n = s->f->probe->info.n_vocab, n_words = (n + 63) / 64;
    cdz_error err = {0};
    uint64_t *bits = cdz_scratch_take(&s->f->probe->scratch, n_words * sizeof *bits);
    if (!bits) return cdz_fail_check(c, "out of memory");
    const bool may_end = cdz_constraint_accepts(told->constraint, told->state);
    if (cdz_constraint_allowed(told->constraint, told->state, bits, n_words, &err) != CDZ_OK)
        return cdz_fail_check(c, "with %s: %s", setup->text, err.text);
    for (uint32_t v = 0; v < n && !may_end; v++)
        if (s->after[v] > -INFINITY && !cdz_bit_is_set(bits, v))
            return cdz_fail_check(
                c,
                "with %s, row %u: it tells of a constraint that does not allow token "
                "%u; apply left it %.9g",
                setup->text, s->run, v, (double)s->after[v]);
    cdz_scratch_reset(&s->f->probe->scratch);
    return CDZ_CHECK_OK;
}

static cdz_check_state judge_constrained(cdz_child *c, const cdz_setup *setup, sample *s, void *user)
{
    bool *told_some = user;
    cdz_row_constraint told;
    const cdz_ids ids = {s->f->ids, s->f->len};
    const cdz_status st = cdz_probe_constraint(s->f->probe, ids, s->f->row, s->f->state, &told);
    if (st != CDZ_OK)
        return cdz_fail_check(c, "with %s, row %u: of failed: %s", setup->text, s->run,
                              s->f->probe->said.text);
    if (!told.constraint || !told.state) return CDZ_CHECK_OK;
    *told_some = true;
    return compare_allowed(c, setup, s, &told);
}

cdz_check_state cdz_check_constrained(cdz_child *c)
{
    bool told_some = false;
    cdz_offers offers;
    (void)cdz_offers_ask(c->ref.base, &offers, NULL);
    if (!offers.constrained) return cdz_skip_check(c, "it tells of no constraint");
    CDZ_CHECK_TRY(with_all_samples(c, judge_constrained, &told_some));
    return told_some ? CDZ_CHECK_OK : cdz_skip_check(c, "it told of no constraint");
}

/* --- ends of sequence ------------------------------------------------------------------------------------------------------------ */

/* Whether it stops for that reason at any token of the vocabulary. */
static cdz_check_state looks_for_eos(cdz_child *c, const cdz_setup *setup)
{
    cdz_probe t;
    cdz_follow f;
    bool stops = false;
    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setup, &cdz_usual_facts));
    float *answer = cdz_answers_new(c, cdz_answer_len(&t.facts));
    if (!answer || !cdz_follow_start(&f, &t, 1)) return cdz_fail_check(c, "out of memory");
    for (uint32_t token = 0; token < t.info.n_vocab && !stops; token++) {
        cdz_follow next;
        if (!cdz_follow_fork(&f, &next)) return cdz_fail_check(c, "the state could not be copied");
        (void)cdz_follow_take(&next, (int32_t)token);
        stops = cdz_follow_ask(&next, answer) == CDZ_OK && answer[0] == (float)CDZ_STOP_EOS;
    }
    cdz_probe_free(&t);
    if (stops) return CDZ_CHECK_OK;
    return cdz_fail_check(c,
                          "with %s: it declares CDZ_HAS_EOS, and stops with CDZ_STOP_EOS at no token "
                          "of the vocabulary: finished rows would be filled with pad",
                          setup->text);
}

cdz_check_state cdz_check_has_eos(cdz_child *c)
{
    if (!promises(c, CDZ_HAS_EOS)) return cdz_skip_check(c, "not promised");
    return cdz_check_each_setup(c, looks_for_eos);
}
