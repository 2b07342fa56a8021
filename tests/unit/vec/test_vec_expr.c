/* test_vec_expr.c - formulas over rows: what they mean, which texts are refused and where, and that a formula has the
 * bits of the single operations that spell it. */
#include "support/random_rows.h"

#include <math.h>
#include <stdio.h>

#include "vec/expr.h"
#include "vec/vec.h"

static _Alignas(
    64) float scratch[(1 + CDZ_EXPR_NAMES + CDZ_EXPR_NUMBERS + CDZ_EXPR_STEPS) * CDZ_EXPR_BLOCK];

static const char *const variants[] = {"scalar", "avx2"};

static void read_with(cdz_expr *e, const char *text, const char *const *names, size_t n)
{
    cdz_error err = {0};

    *e = (cdz_expr){0};
    for (size_t i = 0; i < n; i++)
        if (cdz_expr_add_name(e, names[i], &err) != CDZ_OK) fail_msg("%s", err.text);
    if (cdz_expr_read(e, text, strlen(text), &err) != CDZ_OK) fail_msg("%s: %s", text, err.text);
}

/* --- meaning -------------------------------------------------------------------------------------------------- */

/* With x = 3, a = 2, b = -5. */
static const struct {
    const char *text;
    double value;
} values[] = {
    {"x", 3},
    {"a", 2},
    {"7.5", 7.5},
    {" ( x ) ", 3},
    {".5e1", 5},
    {"2.", 2},
    {"1e-2", (double)0.01f},
    {"x+a*b", -7},
    {"(x+a)*b", -25},
    {"x-a-b", 6},
    {"x/a/b", (double)(3.0f / 2.0f / -5.0f)},
    {"-x^2", -9},
    {"2^-1", 0.5},
    {"2^3^2", 512},
    {"--x", 3},
    {"-x + +a", -1},
    {"x > a ? x*a : x - b", 6},
    {"x < a ? x*a : x - b", 8},
    {"x<a?1:x<4?2:3", 2},
    {"x >= 3 and x <= 3 and x == 3", 1},
    {"x != 3 or x ~= 3", 0},
    {"x > 3 || a > 1 && b > 0", 0},
    {"not x", 0},
    {"!0 + !0", 2},
    {"not (x > 9)", 1},
    {"max(x, b)", 3},
    {"min(x, b)", -5},
    {"clamp(b, -1, 1)", -1},
    {"abs(b) + sqrt(16) + floor(-1.5)", 7},
    {"pow(a, 10)", 1024},
    {"exp(0) + log(1)", 1},
    {"x > -inf ? 1 : 2", 1},
    {"nan == nan", 0},
    {"nan != nan", 1},
    {"nan <= 1", 0},
    {"nan ? 1 : 2", 1},
    {"nan and 1", 1},
    {"(a + 1) * (a + 2) * x", 36},
    {"a * 2 + 1", 5},
};

static void what_they_mean(void **state)
{
    static const char *const names[] = {"a", "b"};
    cdz_expr e;

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (int kind = 0; kind < 4; kind++) {
            float x[] = {3, 3, 3}, a[] = {2, 2, 2}, b[] = {-5, -5, -5};
            const cdz_expr_arg args[] = {{kind & 1 ? a : NULL, 2}, {kind & 2 ? b : NULL, -5}};
            read_with(&e, values[i].text, names, 2);
            cdz_expr_run(&e, args, x, 3, scratch);
            for (int k = 0; k < 3; k++)
                if ((double)x[k] != values[i].value)
                    fail_msg("%s: %g, expected %g", values[i].text, (double)x[k], values[i].value);
        }
}

/* --- texts that are none ----------------------------------------------------------------------------------------- */

static const struct {
    const char *text, *sentence;
} mistakes[] = {
    {"", "column 1: expected a number, a name or '(', found the end"},
    {"   ", "column 4: expected a number, a name or '(', found the end"},
    {"x +", "column 4: expected a number, a name or '(', found the end"},
    {"x + * 2", "column 5: expected a number, a name or '(', found '*'"},
    {"(x", "column 3: expected ')', found the end"},
    {"x)", "column 2: expected an operator or the end, found ')'"},
    {"x 2", "column 3: expected an operator or the end, found '2'"},
    {"x ? 1", "column 6: expected ':', found the end"},
    {"x < 1 < 2", "column 7: expected an operator or the end, found '<'"},
    {"alhpa * x", "column 1: unknown name 'alhpa': did you mean 'alpha'?"},
    {"sqr(x)", "column 1: unknown name 'sqr': did you mean 'sqrt'?"},
    {"max(x)", "column 6: expected ',', found ')'"},
    {"max(x, 1, 2)", "column 9: expected ')', found ','"},
    {"exp x", "column 5: expected '(', found 'x'"},
    {"x = 1", "column 3: expected an operator or the end, found '='"},
    {"1.2.3", "column 1: this is no number"},
    {"1e", "column 1: this is no number"},
    {"0x10", "column 2: expected an operator or the end, found 'x10'"},
    {"x[1]", "column 2: expected an operator or the end, found '['"},
    {"x; y", "column 2: expected an operator or the end, found ';'"},
    {"x % 2", "column 3: expected an operator or the end, found '%'"},
};

static void mistakes_have_a_column(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        cdz_expr e = {0};
        cdz_error err = {0};
        assert_int_equal(cdz_expr_add_name(&e, "alpha", &err), CDZ_OK);
        if (cdz_expr_read(&e, mistakes[i].text, strlen(mistakes[i].text), &err) != CDZ_E_INPUT ||
            !strstr(err.text, mistakes[i].sentence))
            fail_msg("'%s': %s", mistakes[i].text, err.text);
    }
}

/* Repeats a piece until the limit speaks. */
static void limits(void **state)
{
    static const struct {
        const char *piece, *last, *sentence;
    } cases[] = {
        {"(", "x", "nested more than 64 deep"},  {"-", "x", "nested more than 64 deep"},
        {"x?", "x", "nested more than 64 deep"}, {"max(", "x", "nested more than 64 deep"},
        {"x^", "x", "nested more than 64 deep"}, {"not ", "x", "nested more than 64 deep"},
        {"x+", "x", "more than 128 operations"}, {"1+", "1", "more than 64 numbers"},
        {"          ", "x", "at most 4096"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static char text[8192];
        const size_t n = strlen(cases[i].piece), times = i == 8 ? 500 : 1000;
        cdz_expr e = {0};
        cdz_error err = {0};
        size_t at = 0;
        for (size_t k = 0; k < times && at + n < 4000 + (i == 8 ? 2000u : 0u); k++, at += n)
            memcpy(text + at, cases[i].piece, n);
        memcpy(text + at, cases[i].last, 2);
        if (cdz_expr_read(&e, text, strlen(text), &err) != CDZ_E_LIMIT ||
            !strstr(err.text, cases[i].sentence))
            fail_msg("%s: %s", cases[i].piece, err.text);
    }
}

static void names(void **state)
{
    static const struct {
        const char *name, *sentence;
    } cases[] = {
        {"x", "has a meaning already"},
        {"inf", "has a meaning already"},
        {"exp", "has a meaning already"},
        {"and", "has a meaning already"},
        {"t", "has a meaning already"}, /* there is one of this name */
        {"", "expected letters"},
        {"2a", "expected letters"},
        {"a b", "expected letters"},
        {"\xC3\xA9", "expected letters"},
        {"a_name_that_is_longer_than_a_name_may_be", "expected letters"},
    };
    cdz_expr e = {0};
    cdz_error err = {0};

    (void)state;
    assert_int_equal(cdz_expr_add_name(&e, "t", &err), CDZ_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (cdz_expr_add_name(&e, cases[i].name, &err) != CDZ_E_USAGE ||
            !strstr(err.text, cases[i].sentence))
            fail_msg("'%s': %s", cases[i].name, err.text);
    for (char last = 'a'; last < 'a' + CDZ_EXPR_NAMES - 1; last++)
        assert_int_equal(cdz_expr_add_name(&e, (const char[]){'n', last, 0}, &err), CDZ_OK);
    assert_int_equal(cdz_expr_add_name(&e, "one_more", &err), CDZ_E_LIMIT);
}

/* --- the bits of the single operations ---------------------------------------------------------------------------- */

enum { N = 1300, MAX_LEAVES = 12 };

/* A formula made at random: its text, and its value by the table of single operations, a whole row at a time. */
typedef struct made {
    char text[2048];
    const cdz_vec *vec;
    const float *x, *a; /* n; the third name, b, is a number */
    float b;
    size_t n;
} made;

static void say(made *m, const char *text)
{
    const size_t at = strlen(m->text);
    snprintf(m->text + at, sizeof m->text - at, "%s", text);
}

static void leaf(made *m, float *out)
{
    static const float numbers[] = {0.5f, -0.75f, 3, 1e-3f, 100, 0};
    char text[32];
    const uint32_t k = test_random() % 8;

    if (k < 3) {
        say(m, "x");
        memcpy(out, m->x, m->n * sizeof *out);
    } else if (k < 5) {
        say(m, "a");
        memcpy(out, m->a, m->n * sizeof *out);
    } else if (k < 6) {
        say(m, "b");
        m->vec->fill(out, m->n, m->b);
    } else {
        const float number = numbers[test_random() % 6];
        snprintf(text, sizeof text, "%.9g", (double)number);
        say(m, text);
        m->vec->fill(out, m->n, number);
    }
}

static bool holds(float c)
{
    return c != 0;
}

static void make(made *m, int leaves, float *out);

static void make_unary(made *m, int leaves, float *out)
{
    static const char *const spelled[] = {"-(",    "abs(",   "exp(", "log(",
                                          "sqrt(", "floor(", "not(", "pow("};
    const uint32_t k = test_random() % 8;

    say(m, spelled[k]);
    make(m, leaves, out);
    say(m, k == 7 ? ", 1.5)" : ")");
    switch (k) {
    case 0: m->vec->mul(out, m->n, -1); break;
    case 1: m->vec->abs(out, m->n); break;
    case 2: m->vec->exp(out, m->n); break;
    case 3: m->vec->log(out, m->n); break;
    case 4:
        for (size_t i = 0; i < m->n; i++) out[i] = sqrtf(out[i]);
        break;
    case 5:
        for (size_t i = 0; i < m->n; i++) out[i] = floorf(out[i]);
        break;
    case 6:
        for (size_t i = 0; i < m->n; i++) out[i] = !holds(out[i]);
        break;
    default: m->vec->pow(out, m->n, 1.5f); break;
    }
}

static void make_binary(made *m, int leaves, float *out)
{
    static const char *const before[] = {"(", "(", "(", "(", "max(", "min(",
                                         "(", "(", "(", "(", "(",    "("};
    static const char *const between[] = {" + ", " - ",  " * ", " / ",  ", ",    ", ",
                                          " < ", " <= ", " > ", " == ", " and ", " or "};
    const uint32_t k = test_random() % 12;
    float *other = calloc(m->n + 1, sizeof *other);

    assert_non_null(other);
    say(m, before[k]);
    make(m, leaves / 2, out);
    say(m, between[k]);
    make(m, leaves - leaves / 2, other);
    say(m, ")");
    switch (k) {
    case 0: m->vec->add_v(out, other, m->n); break;
    case 1: m->vec->sub_v(out, other, m->n); break;
    case 2: m->vec->mul_v(out, other, m->n); break;
    case 3: m->vec->div_v(out, other, m->n); break;
    case 4: m->vec->max_v(out, other, m->n); break;
    case 5: m->vec->min_v(out, other, m->n); break;
    default:
        for (size_t i = 0; i < m->n; i++) {
            const float a = out[i], b = other[i];
            const bool truth[] = {a<b, a <= b, a> b, a == b, holds(a) && holds(b),
                                  holds(a) || holds(b)};
            out[i] = truth[k - 6];
        }
        break;
    }
    free(other);
}

static void make_choice(made *m, int leaves, float *out)
{
    float *c = calloc(m->n + 1, sizeof *c), *no = calloc(m->n + 1, sizeof *no);

    assert_non_null(c);
    assert_non_null(no);
    say(m, "(");
    make(m, leaves / 3, c);
    say(m, " ? ");
    make(m, leaves / 3, out);
    say(m, " : ");
    make(m, leaves - 2 * (leaves / 3), no);
    say(m, ")");
    for (size_t i = 0; i < m->n; i++) out[i] = holds(c[i]) ? out[i] : no[i];
    free(c);
    free(no);
}

static void make_clamp(made *m, int leaves, float *out)
{
    say(m, "clamp(");
    make(m, leaves, out);
    say(m, ", -1.25, 2)");
    m->vec->clamp(out, m->n, -1.25f, 2);
}

static void make(made *m, int leaves, float *out)
{
    if (leaves <= 1 && test_random() % 3 > 0)
        leaf(m, out);
    else if (leaves <= 1)
        make_unary(m, 0, out);
    else
        switch (test_random() % 6) {
        case 0: make_unary(m, leaves - 1, out); break;
        case 1: make_choice(m, leaves, out); break;
        case 2: make_clamp(m, leaves - 1, out); break;
        default: make_binary(m, leaves, out); break;
        }
}

/* A NaN's sign and payload say nothing. */
static bool same(float a, float b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static float element(bool odd)
{
    static const float special[] = {NAN, INFINITY, -INFINITY, -0.0f, 0, 1e-42f, 3.4e38f, -3.4e38f};

    return odd && test_random() % 4 == 0 ? special[test_random() % 8] : test_normal() * 3;
}

static void the_bits_of_single_operations(void **state)
{
    static const size_t lengths[] = {0, 1, 7, 8, 9, 511, 512, 513, N};
    static const char *const arg_names[] = {"a", "b"};
    static float x[N], a[N], expected[N], got[N];
    cdz_expr e;

    (void)state;
    for (uint32_t seed = 0; seed < 400; seed++) {
        test_seed(seed);
        for (size_t i = 0; i < N; i++) x[i] = element(seed % 2), a[i] = element(seed % 3 == 0);
        made m = {.vec = cdz_vec_table(), .x = x, .a = a, .b = element(false), .n = N};
        make(&m, 1 + (int)(test_random() % MAX_LEAVES), expected);
        read_with(&e, m.text, arg_names, 2);
        for (size_t v = 0; v < 2; v++) {
            const cdz_expr_runner run = cdz_expr_runner_of(variants[v]);
            for (size_t l = 0; run && l < sizeof lengths / sizeof *lengths; l++) {
                memcpy(got, x, sizeof got);
                const cdz_expr_arg args[] = {{a, 0}, {NULL, m.b}};
                run(&e, args, got, lengths[l], scratch);
                for (size_t i = 0; i < N; i++)
                    if (!same(got[i], i < lengths[l] ? expected[i] : x[i]))
                        fail_msg("%s (%s, %zu): element %zu of %a, %a: %a, expected %a", m.text,
                                 variants[v], lengths[l], i, (double)x[i], (double)a[i],
                                 (double)got[i], (double)expected[i]);
            }
        }
    }
}

/* Two runs of one formula on parts of a row are the run on the whole. */
static void the_scratch_is_enough(void **state)
{
    static const char text[] = "x*1 + x*2 + x*3 + (x > 0 ? clamp(x, -1, 1) : x*4) - max(x, 5)";
    cdz_expr e;
    float x[600];

    (void)state;
    read_with(&e, text, NULL, 0);
    const size_t bytes = cdz_expr_scratch(&e);
    unsigned char *room = aligned_alloc(64, bytes); /* sanitizers watch its end */
    assert_non_null(room);
    for (size_t i = 0; i < 600; i++) x[i] = (float)i;
    cdz_expr_run(&e, NULL, x, 600, room);
    assert_true(x[2] == 2 * 6 + 1 - 5);
    free(room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_they_mean),
        cmocka_unit_test(mistakes_have_a_column),
        cmocka_unit_test(limits),
        cmocka_unit_test(names),
        cmocka_unit_test(the_bits_of_single_operations),
        cmocka_unit_test(the_scratch_is_enough),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
