/* on_odd_rows.c - rows that hold what logits can hold on a bad day, and vocabularies of every size. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "check/checks.h"
#include "check/probe.h"

enum { ROWS = 3, WHAT = 200 };

typedef struct oddity {
    const char *name;
    float everywhere, here; /* here: at token 3 and every 7th behind it */
} oddity;

#define USUAL 12345.0f /* stands for ordinary scores */

static const oddity oddities[] = {
    {"all -inf", -INFINITY, -INFINITY},
    {"one kind of token that is not -inf", -INFINITY, 1.5f},
    {"all NaN", NAN, NAN},
    {"some NaN", USUAL, NAN},
    {"all +inf", INFINITY, INFINITY},
    {"some +inf", USUAL, INFINITY},
    {"-inf and NaN", -INFINITY, NAN},
    {"all equal", 2.0f, 2.0f},
    {"all zero", 0.0f, -0.0f},
    {"subnormal", FLT_MIN / 1024, -FLT_MIN / 4096},
    {"the largest floats", FLT_MAX, -FLT_MAX},
};

static void fill_odd(float *row, uint32_t n, const oddity *o, uint64_t key)
{
    cdz_fill_scores(row, n, key);
    for (uint32_t v = 0; v < n; v++) {
        if (o->everywhere != USUAL) row[v] = o->everywhere;
        if (v % 7 == 3) row[v] = o->here;
    }
}

static bool start_rows(cdz_probe *t, cdz_follow follows[ROWS])
{
    for (uint32_t r = 0; r < ROWS; r++)
        if (!cdz_follow_start(&follows[r], t, r)) return false;
    return true;
}

/* Rows 0 and 2 are ordinary; the one between is odd, or NULL ordinary too. */
static cdz_status ask_rows(const cdz_probe *t, cdz_follow follows[ROWS], const oddity *odd,
                           float *to)
{
    const size_t len = cdz_answer_len(&t->facts);
    for (uint32_t r = 0; r < ROWS; r++) cdz_fill_scores(to + r * len, t->info.n_vocab, 60 + r);
    if (odd) fill_odd(to + len, t->info.n_vocab, odd, 61);
    cdz_scores scores = {.data = to, .n_rows = ROWS, .n_vocab = t->info.n_vocab, .stride = len};
    return cdz_follows_ask(follows, ROWS, &scores);
}

static cdz_check_state odd_rows_of(cdz_child *c, const cdz_setup *setup, uint32_t n_vocab)
{
    cdz_made_up facts = cdz_usual_facts;
    facts.n_vocab = n_vocab;
    facts.age = setup->age;
    cdz_probe t;
    cdz_follow follows[ROWS];
    if (!cdz_probe_make(&t, c->ref.base, setup->params, &facts))
        return cdz_fail_check(c, "out of memory");
    cdz_check_note(c, "begin with %s, a vocabulary of %u", setup->text, n_vocab);
    if (cdz_probe_enter(&t) != CDZ_OK) {
        cdz_probe_free(&t);
        return CDZ_CHECK_OK;
    }
    float *rows = cdz_answers_new(c, ROWS * cdz_answer_len(&facts));
    if (!rows || !start_rows(&t, follows)) return cdz_fail_check(c, "out of memory");
    for (size_t i = 0; i < sizeof oddities / sizeof oddities[0]; i++) {
        cdz_check_note(c, "with %s, a vocabulary of %u, a row of scores that is %s", setup->text,
                       n_vocab, oddities[i].name);
        const cdz_status status = ask_rows(&t, follows, &oddities[i], rows);
        const char *broken = cdz_probe_broken(&t, status);
        if (broken)
            return cdz_fail_check(c, "with %s, a row of scores that is %s: %s", setup->text,
                                  oddities[i].name, broken);
    }
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

static cdz_check_state odd_with(cdz_child *c, const cdz_setup *setup)
{
    CDZ_CHECK_TRY(odd_rows_of(c, setup, 1000));
    return odd_rows_of(c, setup, 37);
}

cdz_check_state cdz_check_odd_rows(cdz_child *c)
{
    return cdz_check_each_age(c, odd_with);
}

/* --- nan-spread -------------------------------------------------------------------------------------------------- */

static cdz_check_state spread_with(cdz_child *c, const cdz_setup *setup)
{
    cdz_probe t;
    cdz_follow follows[ROWS];
    char what[WHAT];
    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setup, &cdz_usual_facts));
    const size_t len = cdz_answer_len(&t.facts);
    float *want = cdz_answers_new(c, 2 * ROWS * len);
    if (!want || !start_rows(&t, follows)) return cdz_fail_check(c, "out of memory");
    float *got = want + ROWS * len;
    if (ask_rows(&t, follows, NULL, want) != CDZ_OK) return CDZ_CHECK_OK;
    for (size_t i = 0; i < sizeof oddities / sizeof oddities[0]; i++) {
        if (ask_rows(&t, follows, &oddities[i], got) != CDZ_OK)
            continue; /* the whole call is refused */
        for (uint32_t r = 0; r < ROWS; r += 2)
            if (cdz_answers_differ(&t, got + r * len, want + r * len, what, sizeof what))
                return cdz_fail_check(c, "with %s: row %u, when row %u is %s: %s", setup->text,
                                      cdz_nth_row(r), cdz_nth_row(1), oddities[i].name, what);
    }
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_nan_spread(cdz_child *c)
{
    if (!(cdz_probe_caps(c->ref.base) & CDZ_ROWWISE))
        return cdz_skip_check(c, "it does not promise to work row by row");
    return cdz_check_each_age(c, spread_with);
}

/* --- vocabularies ------------------------------------------------------------------------------------------------- */

static cdz_check_state one_vocabulary(cdz_child *c, const cdz_setup *setup, uint32_t n_vocab)
{
    const cdz_made_up facts = {.n_vocab = n_vocab, .n_rows = 2, .prompt_len = 9, .seed = 7};
    cdz_probe t;
    cdz_follow f;
    if (!cdz_probe_make(&t, c->ref.base, setup->params, &facts))
        return cdz_fail_check(c, "out of memory");
    cdz_check_note(c, "a vocabulary of %u with %s", n_vocab, setup->text);
    cdz_status status = cdz_probe_enter(&t);
    float *answer = cdz_answers_new(c, cdz_answer_len(&facts));
    if (!answer || !cdz_follow_start(&f, &t, 1)) return cdz_fail_check(c, "out of memory");
    for (uint32_t step = 0; step < 2 && status == CDZ_OK; step++) {
        status = cdz_follow_ask(&f, answer);
        if (status == CDZ_OK) status = cdz_follow_take(&f, cdz_some_token(&facts, step));
    }
    const char *broken = cdz_probe_broken(&t, status);
    if (broken)
        return cdz_fail_check(c, "a vocabulary of %u with %s: %s", n_vocab, setup->text, broken);
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

static cdz_check_state vocabularies_with(cdz_child *c, const cdz_setup *setup)
{
    static const uint32_t sizes[] = {1, 2, 32, 1000, 151936};
    for (size_t v = 0; v < sizeof sizes / sizeof sizes[0]; v++)
        CDZ_CHECK_TRY(one_vocabulary(c, setup, sizes[v]));
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_vocabularies(cdz_child *c)
{
    CDZ_CHECK_TRY(cdz_check_each_setup(c, vocabularies_with));
    return cdz_pass_check(c, "1, 2, 32, 1000 and 151936 tokens");
}
