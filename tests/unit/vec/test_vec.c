/* test_vec.c - the table of vector operations: both instruction sets give the same bits, and the right ones. */
#include "support/random_rows.h"

#include "vec/order.h"
#include "vec/vec.h"

#include <math.h>

enum { N = 5000 };

/* --- rows --------------------------------------------------------------------------------------------------- */

typedef enum row_kind { NORMAL, FLAT, PEAKED, TIES, MASKED, ALL_MASKED, ODD, N_KINDS } row_kind;
static const char *const kind_names[] = {"normal", "flat",       "peaked", "ties",
                                         "masked", "all masked", "odd"};

static float element(row_kind kind, size_t i)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, -0.0f, 1e-42f, 3.4e38f, -3.4e38f};
    switch (kind) {
    case FLAT: return test_normal() * 0.05f;
    case PEAKED: return test_normal() * 12;
    case TIES: return roundf(test_normal() * 2) / 2;
    case MASKED: return test_random() % 2 ? test_normal() : -INFINITY;
    case ALL_MASKED: return -INFINITY;
    case ODD: return i % 5 == 3 ? odd[test_random() % 7] : test_normal();
    default: return test_normal() * 3;
    }
}

static void make_row(float *x, size_t n, row_kind kind)
{
    for (size_t i = 0; i < n; i++) x[i] = element(kind, i);
}

/* --- one bit pattern from every table ------------------------------------------------------------------------- */

static float row[N], other[N], out_a[2 * N], out_b[2 * N];
static int32_t ids_a[N], ids_b[N], history[64];
static _Alignas(64) unsigned char scratch[24 * N + 8192];

/* Runs operation `op` of v on copies of row and other; what it made is in out (and ids). Returns false past the last. */
static bool run(const cdz_vec *v, unsigned op, size_t n, float *out, int32_t *ids)
{
    const float a = other[0];
    const size_t k = 1 + (size_t)history[0] % (n ? n : 1);
    memcpy(out, row, n * sizeof *out);
    memset(out + n, 0, n * sizeof *out);
    memset(ids, 0, n * sizeof *ids);
    float *const more = out + n, one[1] = {0};
    switch (op) {
    case 0: v->fill(out, n, a); break;
    case 1: v->add(out, n, a); break;
    case 2: v->mul(out, n, a); break;
    case 3: v->div(out, n, a); break;
    case 4: v->clamp(out, n, -1.0f, 0.5f); break;
    case 5: v->exp(out, n); break;
    case 6: v->log(out, n); break;
    case 7: v->abs(out, n); break;
    case 8: v->pow(out, n, 1.5f); break;
    case 9: v->add_v(out, other, n); break;
    case 10: v->sub_v(out, other, n); break;
    case 11: v->mul_v(out, other, n); break;
    case 12: v->div_v(out, other, n); break;
    case 13: v->max_v(out, other, n); break;
    case 14: v->min_v(out, other, n); break;
    case 15: v->axpy(out, other, n, a); break;
    case 16: v->lerp(out, other, n, 0.3f); break;
    case 17: v->mask_below(out, n, a); break;
    case 18: v->mask_ids(out, n, history, 64); break;
    case 19: v->mask_except(out, n, history, 64, scratch); break;
    case 20: one[0] = v->max(row, n); break;
    case 21: one[0] = v->min(row, n); break;
    case 22: ids[0] = n ? v->argmax(row, n) : 0; break;
    case 23: one[0] = v->sum(row, n); break;
    case 24: one[0] = v->dot(row, other, n); break;
    case 25: one[0] = v->logsumexp(row, n); break;
    case 26: one[0] = v->entropy(row, n); break;
    case 27: one[0] = (float)v->count_above(row, n, a); break;
    case 28: one[0] = v->any_nan(row, n); break;
    case 29: v->softmax(more, row, n); break;
    case 30: v->log_softmax(more, row, n); break;
    case 31: v->cumsum(more, row, n); break;
    case 32: v->topk(row, n, n ? k : 0, more, ids, scratch); break;
    case 33: v->sort(row, n, false, more, ids, scratch); break;
    case 34: v->sort(row, n, true, more, ids, scratch); break;
    case 35: one[0] = n ? v->kth_largest(row, n, k, scratch) : 0; break;
    case 36: v->keep_topk(out, n, k, scratch); break;
    case 37: v->keep_topp(out, n, 0.8, 1, scratch); break;
    case 38: v->keep_minp(out, n, 0.1, 3, scratch); break;
    case 39: v->keep_typical(out, n, 0.6, 2, scratch); break;
    case 40: v->keep_epsilon(out, n, 0.01, 2, scratch); break;
    case 41: v->keep_eta(out, n, 0.02, 1, scratch); break;
    case 42: v->penalize(out, n, history, 64, 1.3f, scratch); break;
    case 43: v->ban_ngrams(out, n, history, 64, 2); break;
    default: return false;
    }
    if (n) memcpy(more, op >= 20 && op < 29 ? one : more, sizeof *one);
    return true;
}

/* NaN has many spellings and no meaning in which one it is. */
static void one_nan(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] != x[i]) x[i] = NAN;
}

static void test_tables_agree(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 7, 8, 9, 16, 31, 64, 65, 257, 1000, N};
    const cdz_vec *scalar = cdz_vec_table_of("scalar"), *avx2 = cdz_vec_table_of("avx2");
    (void)state;
    assert_non_null(scalar);
    if (!avx2) {
        print_message("this machine has no AVX2: nothing to compare\n");
        skip();
    }
    test_seed(3);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (row_kind kind = NORMAL; kind < N_KINDS; kind++) {
            const size_t n = sizes[s];
            make_row(row, n, kind);
            make_row(other, N, NORMAL);
            for (size_t i = 0; i < 64; i++) history[i] = (int32_t)(test_random() % (n + 3));
            for (unsigned op = 0; run(scalar, op, n, out_a, ids_a); op++) {
                run(avx2, op, n, out_b, ids_b);
                one_nan(out_a, 2 * n);
                one_nan(out_b, 2 * n);
                if (memcmp(out_a, out_b, 2 * n * sizeof *out_a) != 0 ||
                    memcmp(ids_a, ids_b, n * sizeof *ids_a) != 0)
                    fail_msg("operation %u on a %s row of %zu differs", op, kind_names[kind], n);
            }
        }
}

/* --- exp ------------------------------------------------------------------------------------------------------ */

static void test_exp_is_close(void **state)
{
    const cdz_vec *v = cdz_vec_table();
    double worst = 0;
    (void)state;
    test_seed(9);
    for (size_t i = 0; i < N; i++) out_a[i] = row[i] = -87.0f + (float)i * (175.0f / N);
    v->exp(out_a, N);
    for (size_t i = 0; i < N; i++) {
        const double exact = exp((double)row[i]);
        const double ulp = (double)(nextafterf((float)exact, INFINITY) - (float)exact);
        const double off = fabs((double)out_a[i] - exact) / ulp;
        worst = off > worst ? off : worst;
    }
    if (worst > 1.0) fail_msg("off by %g units in the last place", worst);
}

static void test_exp_at_the_ends(void **state)
{
    float x[] = {-INFINITY, -200, -104.5f, -103, 0, 88.7f, 89, 200, INFINITY, NAN};
    (void)state;
    cdz_vec_table()->exp(x, 10);
    assert_true(x[0] == 0 && x[1] == 0 && x[2] == 0 && x[3] == 0x1p-149f && x[4] == 1);
    assert_true(isfinite(x[5]) && isinf(x[6]) && isinf(x[7]) && isinf(x[8]) && isnan(x[9]));
}

/* --- softmax, sums ---------------------------------------------------------------------------------------------- */

static const float example[6] = {2, 1, 0.5f, -1, -0.5f, 0.5f};

static void test_softmax_of_the_example(void **state)
{
    static const float p[] = {0.513871f, 0.189043f, 0.114660f, 0.025584f, 0.042181f, 0.114660f};
    static const float l[] = {-0.665782f, -1.665782f, -2.165782f,
                              -3.665782f, -3.165782f, -2.165782f};
    float out[6];
    (void)state;
    cdz_vec_table()->softmax(out, example, 6);
    for (size_t i = 0; i < 6; i++) assert_true(fabsf(out[i] - p[i]) < 1e-6f);
    cdz_vec_table()->log_softmax(out, example, 6);
    for (size_t i = 0; i < 6; i++) assert_true(fabsf(out[i] - l[i]) < 1e-6f);
    memcpy(out, example, sizeof out);
    cdz_vec_table()->softmax(out, out, 6);
    assert_true(fabsf(out[0] - p[0]) < 1e-6f);
}

static void test_sums_in_lanes(void **state)
{
    /* 2^24 in lane 0, ones elsewhere: from left to right every one would be lost. */
    float x[16] = {0x1p24f, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1};
    const cdz_vec *v = cdz_vec_table();
    (void)state;
    assert_true(v->sum(x, 16) == 0x1p24f + 14);
    assert_true(v->sum(x, 7) == 0x1p24f); /* shorter than the lanes: from left to right */
    assert_true(v->sum(x, 0) == 0);
}

static void test_entropy(void **state)
{
    const cdz_vec *v = cdz_vec_table();
    float x[1000];
    (void)state;
    v->fill(x, 1000, 0.75f);
    assert_true(fabsf(v->entropy(x, 1000) - logf(1000)) < 1e-5f);
    v->fill(x, 1000, -INFINITY);
    x[3] = x[700] = 1;
    assert_true(fabsf(v->entropy(x, 1000) - logf(2)) < 1e-6f);
    assert_true(fabsf(v->logsumexp(x, 1000) - (1 + logf(2))) < 1e-6f);
}

static void test_argmax(void **state)
{
    static const struct {
        const char *name;
        float x[9];
        int32_t best;
    } cases[] = {
        {"lowest of equal ones", {1, 5, 5, 0, 0, 0, 0, 0, 5}, 1},
        {"the first NaN over everything", {1, 9, 2, NAN, 0, NAN, 0, 0, INFINITY}, 3},
        {"everything masked",
         {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
          -INFINITY},
         0},
        {"the last, past the lanes", {0, 0, 0, 0, 0, 0, 0, 0, 1}, 8},
        {"zeros of both signs are equal", {-0.0f, 0, -1, 0, 0, 0, 0, 0, 0}, 0},
    };
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        if (cdz_vec_table()->argmax(cases[c].x, 9) != cases[c].best)
            fail_msg("%s: %d", cases[c].name, cdz_vec_table()->argmax(cases[c].x, 9));
}

/* --- filters ---------------------------------------------------------------------------------------------------- */

/* Top-p as the reference writes it: sort everything, softmax, cumulate. */
static void slow_topp(float *x, size_t n, double p, size_t keep)
{
    const cdz_vec *v = cdz_vec_table();
    cdz_ranked *a = calloc(n, sizeof *a);
    float *sorted = calloc(2 * n, sizeof *sorted), *c = sorted + n;

    for (size_t i = 0; i < n; i++) a[i] = (cdz_ranked){cdz_rank_up(x[i]), (int32_t)i};
    cdz_order_sort(a, n);
    for (size_t i = 0; i < n; i++) sorted[i] = x[a[i].id];
    v->softmax(sorted, sorted, n);
    v->cumsum(c, sorted, n);
    for (size_t i = 0; i < n && i + keep < n; i++)
        if (c[i] <= (float)(1 - p)) x[a[i].id] = -INFINITY;
    free(a);
    free(sorted);
}

/* Typical as the reference writes it. */
static void slow_typical(float *x, size_t n, double mass, size_t keep)
{
    const cdz_vec *v = cdz_vec_table();
    float *d = calloc(4 * n, sizeof *d), *c = d + n, *l = d + 2 * n, *e = d + 3 * n;
    cdz_ranked *a = calloc(n, sizeof *a);
    double h = 0;
    size_t last = 0;

    v->log_softmax(l, x, n);
    memcpy(e, l, n * sizeof *e);
    v->exp(e, n);
    for (size_t i = 0; i < n; i++)
        if (e[i] > 0) h -= (double)(l[i] * e[i]);
    for (size_t i = 0; i < n; i++) {
        d[i] = fabsf(-l[i] - (float)h);
        a[i] = (cdz_ranked){cdz_rank_up(d[i]), (int32_t)i};
    }
    cdz_order_sort(a, n);
    for (size_t i = 0; i < n; i++) c[i] = x[a[i].id];
    v->softmax(c, c, n);
    v->cumsum(c, c, n);
    while (last < n - 1 && c[last] < (float)mass) last++;
    const float limit = d[a[last].id];
    for (size_t i = keep; i < n; i++)
        if (d[a[i].id] > limit) x[a[i].id] = -INFINITY;
    free(a);
    free(d);
}

static void test_topp_as_if_sorted(void **state)
{
    static const double ps[] = {0.0, 0.3, 0.9, 0.999, 1.0};
    static const size_t sizes[] = {1, 5, 17, 200, 4096, N};
    (void)state;
    test_seed(21);
    for (size_t s = 0; s < 6; s++)
        for (row_kind kind = NORMAL; kind < N_KINDS; kind++)
            for (size_t i = 0; i < 10; i++) {
                const size_t n = sizes[s], keep = i < 5 ? 1 : 4;
                make_row(row, n, kind);
                memcpy(out_a, row, n * sizeof *row);
                memcpy(out_b, row, n * sizeof *row);
                slow_topp(out_a, n, ps[i % 5], keep);
                cdz_vec_table()->keep_topp(out_b, n, ps[i % 5], keep, scratch);
                one_nan(out_a, n);
                one_nan(out_b, n);
                if (memcmp(out_a, out_b, n * sizeof *row) != 0)
                    fail_msg("p %g, keep %zu on a %s row of %zu", ps[i % 5], keep, kind_names[kind],
                             n);
            }
}

/* Here the cut is decided by bounds, at rows where the last kept tokens are far from it, and close to it. */
static void test_topp_of_a_large_vocabulary(void **state)
{
    enum { BIG = 60000 };
    float *x = calloc(3 * BIG, sizeof *x), *a = x + BIG, *b = x + 2 * BIG;
    void *work = aligned_alloc(64, (cdz_vec_scratch(BIG) + 63) / 64 * 64);
    (void)state;
    test_seed(8);
    for (size_t i = 0; i < 12; i++) {
        make_row(x, BIG, i % 3 == 0 ? PEAKED : i % 3 == 1 ? NORMAL : TIES);
        if (i % 3 != 2) cdz_vec_table()->mul(x, BIG, 0.6f + 0.1f * (float)i);
        memcpy(a, x, BIG * sizeof *x);
        memcpy(b, x, BIG * sizeof *x);
        slow_topp(a, BIG, 0.7 + 0.02 * (double)i, 1 + i);
        cdz_vec_table()->keep_topp(b, BIG, 0.7 + 0.02 * (double)i, 1 + i, work);
        assert_memory_equal(a, b, BIG * sizeof *a);
    }
    free(x);
    free(work);
}

static void test_typical_as_if_sorted(void **state)
{
    static const size_t sizes[] = {5, 17, 200, 3000};
    (void)state;
    test_seed(22);
    for (size_t s = 0; s < 4; s++)
        for (row_kind kind = NORMAL; kind < ALL_MASKED; kind++)
            for (size_t i = 0; i < 6; i++) {
                const size_t n = sizes[s];
                make_row(row, n, kind);
                row[n / 2] = 0.25f;
                memcpy(out_a, row, n * sizeof *row);
                memcpy(out_b, row, n * sizeof *row);
                slow_typical(out_a, n, 0.1 + 0.15 * (double)i, 1 + i % 3);
                cdz_vec_table()->keep_typical(out_b, n, 0.1 + 0.15 * (double)i, 1 + i % 3, scratch);
                size_t differ = 0;
                for (size_t j = 0; j < n; j++) differ += isinf(out_a[j]) != isinf(out_b[j]);
                /* the entropy here is summed in double: one token at the edge may go the other way */
                if (differ > (n > 200 ? 2 : 0))
                    fail_msg("%zu differ on a %s row of %zu", differ, kind_names[kind], n);
            }
}

static void test_topk_keeps_ties(void **state)
{
    float a[6], b[6];
    (void)state;
    memcpy(a, example, sizeof a);
    memcpy(b, example, sizeof b);
    cdz_vec_table()->keep_topk(a, 6, 2, scratch);
    cdz_vec_table()->keep_topk(b, 6, 3, scratch);
    assert_true(a[0] == 2 && a[1] == 1 && isinf(a[2]) && isinf(a[3]) && isinf(a[4]) && isinf(a[5]));
    assert_true(b[0] == 2 && b[1] == 1 && b[2] == 0.5f && isinf(b[3]) && isinf(b[4]) &&
                b[5] == 0.5f);
}

static void test_topk_of_any_row(void **state)
{
    static float sorted[N], values[N];
    const cdz_vec *v = cdz_vec_table();
    (void)state;
    test_seed(4);
    for (row_kind kind = NORMAL; kind < N_KINDS; kind++)
        for (size_t k = 1; k <= N; k = 2 * k + 3) {
            make_row(row, N, kind);
            v->sort(row, N, true, sorted, ids_a, scratch);
            const float t = v->kth_largest(row, N, k, scratch);
            assert_true(t == sorted[k - 1] || (isnan(t) && isnan(sorted[k - 1])));
            v->topk(row, N, k, values, ids_b, scratch);
            cdz_ranked *a = calloc(N, sizeof *a);
            for (size_t i = 0; i < N; i++) a[i] = (cdz_ranked){cdz_rank_down(row[i]), (int32_t)i};
            cdz_order_topk(a, N, k);
            for (size_t i = 0; i < k; i++) assert_int_equal(a[i].id, ids_b[i]);
            free(a);
        }
}

/* --- history ------------------------------------------------------------------------------------------------------ */

static void test_history(void **state)
{
    static const int32_t ids[] = {1, 2, 3, 1}, repeated[] = {0, 3, 0, 9, -1};
    const cdz_vec *v = cdz_vec_table();
    float x[6];
    (void)state;
    memcpy(x, example, sizeof x);
    v->ban_ngrams(x, 6, ids, 4, 2);
    assert_true(isinf(x[2]) && x[0] == 2 && x[1] == 1 && x[3] == -1);
    memcpy(x, example, sizeof x);
    v->ban_ngrams(x, 6, ids, 4, 1);
    assert_true(isinf(x[1]) && isinf(x[2]) && isinf(x[3]) && x[0] == 2 && x[4] == -0.5f);
    memcpy(x, example, sizeof x);
    v->ban_ngrams(x, 6, ids, 4, 5);
    assert_memory_equal(x, example, sizeof x);
    v->penalize(x, 6, repeated, 5, 1.3f, scratch);
    assert_true(x[0] == 2 / 1.3f && x[3] == -1.3f && x[1] == 1);
    memcpy(x, example, sizeof x);
    v->mask_except(x, 6, repeated, 5, scratch);
    assert_true(x[0] == 2 && x[3] == -1 && isinf(x[1]) && isinf(x[2]) && isinf(x[4]) && isinf(x[5]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_agree),
        cmocka_unit_test(test_exp_is_close),
        cmocka_unit_test(test_exp_at_the_ends),
        cmocka_unit_test(test_softmax_of_the_example),
        cmocka_unit_test(test_sums_in_lanes),
        cmocka_unit_test(test_entropy),
        cmocka_unit_test(test_argmax),
        cmocka_unit_test(test_topp_as_if_sorted),
        cmocka_unit_test(test_topp_of_a_large_vocabulary),
        cmocka_unit_test(test_typical_as_if_sorted),
        cmocka_unit_test(test_topk_keeps_ties),
        cmocka_unit_test(test_topk_of_any_row),
        cmocka_unit_test(test_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
