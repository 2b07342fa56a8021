/* test_vec_order.c - the permutations of ties, and the ways around sorting, against each other. */
#include "support/random_rows.h"

#include "vec/order.h"

#include <math.h>
#include <stdlib.h>

/* torch.topk(zeros(n), k): the ids the reference gives. */
static const struct {
    const char *name;
    size_t n, k;
    int32_t ids[4];
} equal_cases[] = {
    {"4 take 2: quickselect without a partition", 4, 2, {2, 3}},
    {"6 take 4", 6, 4, {3, 5, 4, 0}},
    {"10 take 4", 10, 4, {8, 6, 7, 5}},
    {"20 take 4", 20, 4, {12, 14, 13, 15}},
    {"300 take 4: heap", 300, 4, {1, 3, 0, 2}},
};

static void test_topk_of_equals(void **state)
{
    cdz_ranked a[300];
    (void)state;
    for (size_t c = 0; c < sizeof equal_cases / sizeof equal_cases[0]; c++) {
        for (size_t i = 0; i < equal_cases[c].n; i++) a[i] = (cdz_ranked){7, (int32_t)i};
        cdz_order_topk(a, equal_cases[c].n, equal_cases[c].k);
        for (size_t i = 0; i < equal_cases[c].k; i++)
            if (a[i].id != equal_cases[c].ids[i])
                fail_msg("%s: place %zu holds %d, expected %d", equal_cases[c].name, i, a[i].id,
                         equal_cases[c].ids[i]);
    }
}

/* Insertion sort is stable: at most 16 equal elements stay as they are. */
static void test_short_sorts_are_stable(void **state)
{
    cdz_ranked a[16];
    (void)state;
    for (size_t n = 0; n <= 16; n++) {
        for (size_t i = 0; i < n; i++) a[i] = (cdz_ranked){(uint32_t)(i % 3), (int32_t)i};
        cdz_order_sort(a, n);
        for (size_t i = 1; i < n; i++) {
            assert_true(a[i - 1].key <= a[i].key);
            if (a[i - 1].key == a[i].key) assert_true(a[i - 1].id < a[i].id);
        }
    }
}

static int by_key(const void *a, const void *b)
{
    const uint32_t x = ((const cdz_ranked *)a)->key, y = ((const cdz_ranked *)b)->key;
    return (x > y) - (x < y);
}

/* A pattern made to defeat median-of-three, so that the depth limit is met and heaps take over. */
static void killer(cdz_ranked *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const size_t half = n / 2;
        const size_t key =
            i < half ? (i % 2 == 0 ? i + 1 : half + i + (half % 2)) : 2 * (i - half) + 2;
        a[i] = (cdz_ranked){(uint32_t)key, (int32_t)i};
    }
}

static void check_sorted(const cdz_ranked *original, size_t n, const char *name)
{
    cdz_ranked *a = calloc(n + 1, sizeof *a), *b = calloc(n + 1, sizeof *b);
    bool *seen = calloc(n + 1, sizeof *seen);
    memcpy(a, original, n * sizeof *a);
    memcpy(b, original, n * sizeof *b);
    qsort(b, n, sizeof *b, by_key);
    cdz_order_sort(a, n);
    for (size_t i = 0; i < n; i++) {
        if (a[i].key != b[i].key) fail_msg("%s, n %zu: rank %zu is wrong", name, n, i);
        assert_false(seen[a[i].id]);
        seen[a[i].id] = true;
    }
    for (size_t k = 1; k <= n; k += 1 + n / 7) {
        memcpy(a, original, n * sizeof *a);
        cdz_order_topk(a, n, k);
        for (size_t i = 0; i < k; i++)
            if (a[i].key != b[i].key)
                fail_msg("%s, n %zu, k %zu: rank %zu is wrong", name, n, k, i);
    }
    free(a);
    free(b);
    free(seen);
}

static void test_sorts_whatever_comes(void **state)
{
    static const size_t sizes[] = {1, 2, 3, 4, 5, 15, 16, 17, 18, 63, 64, 65, 128, 500, 3000};
    static const char *const names[] = {"random", "ties", "falling", "rising", "killer"};
    cdz_ranked *a = calloc(3000, sizeof *a);
    (void)state;
    test_seed(11);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t kind = 0; kind < 5; kind++) {
            const size_t n = sizes[s];
            for (size_t i = 0; i < n; i++) {
                const uint32_t keys[] = {test_random(), test_random() % 5, (uint32_t)(n - i),
                                         (uint32_t)i};
                a[i] = (cdz_ranked){keys[kind % 4], (int32_t)i};
            }
            if (kind == 4) killer(a, n);
            check_sorted(a, n, names[kind]);
        }
    free(a);
}

static void test_ranks_follow_values(void **state)
{
    static const float rising[] = {-INFINITY, -3.4e38f, -1.0f,    -1e-45f, 0.0f,
                                   1e-45f,    0.5f,     INFINITY, NAN};
    (void)state;
    for (size_t i = 1; i < sizeof rising / sizeof rising[0]; i++)
        assert_true(cdz_rank_up(rising[i - 1]) < cdz_rank_up(rising[i]));
    for (size_t i = 0; i + 1 < sizeof rising / sizeof rising[0]; i++)
        assert_true(cdz_unrank_up(cdz_rank_up(rising[i])) == rising[i]);
    assert_int_equal(cdz_rank_up(-0.0f), cdz_rank_up(0.0f));
    assert_int_equal(cdz_rank_up(-NAN), cdz_rank_up(NAN));
    assert_true(isnan(cdz_unrank_up(cdz_rank_up(NAN))));
}

static void test_radix_and_kth(void **state)
{
    enum { N = 5000 };
    static float x[N];
    static cdz_ranked a[N], b[N], spare[N];
    static uint32_t keys[N], more[N];
    (void)state;
    test_seed(5);
    for (size_t n = 1; n <= N; n = 3 * n + 1) {
        for (size_t i = 0; i < n; i++) {
            x[i] = test_normal();
            a[i] = b[i] = (cdz_ranked){cdz_rank_down(x[i]), (int32_t)i};
            keys[i] = cdz_rank_up(x[i]);
        }
        const bool ties = cdz_order_distinct(a, spare, n);
        qsort(b, n, sizeof *b, by_key);
        cdz_order_radix_keys(keys, more, n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(a[i].key, b[i].key);
            if (!ties) assert_int_equal(a[i].id, b[i].id);
            assert_int_equal(keys[n - 1 - i], ~b[i].key);
            if (i % 97 == 0) assert_int_equal(cdz_order_kth_largest(x, n, i + 1), ~b[i].key);
        }
    }
    a[0] = a[1] = (cdz_ranked){3, 0};
    assert_true(cdz_order_distinct(a, spare, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topk_of_equals),       cmocka_unit_test(test_short_sorts_are_stable),
        cmocka_unit_test(test_sorts_whatever_comes), cmocka_unit_test(test_ranks_follow_values),
        cmocka_unit_test(test_radix_and_kth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
