/* test_press_weigh.c - the weights that some queries give to a cache's entries, by their definition in doubles. */
#include <math.h>
#include <stdlib.h>

#include "run/pass/press_notes.h"
#include "support/kernel_data.h"

enum { QUERIES = 5, ENTRIES = 37, SEES = 34, D = 24, HEAD = 1, WIDE = ENTRIES + 3 };

/* The scores of a query, and of its sink behind them. */
static double score_of(const cdz_attention *how, const float *q, const float *key)
{
    double sum = 0;
    for (size_t i = 0; i < D; i++) sum += (double)q[i] * (double)key[i];
    sum *= (double)how->scale;
    return how->soft_cap != 0 ? (double)how->soft_cap * tanh(sum / (double)how->soft_cap) : sum;
}

static void expect(const cdz_attention *how, const float *q, const float *keys, uint32_t sees,
                   const float *weights)
{
    double each[ENTRIES], total = how->sinks ? exp((double)how->sinks[HEAD]) : 0;
    for (uint32_t j = 0; j < ENTRIES; j++) {
        each[j] = j < sees ? exp(score_of(how, q, keys + j * D)) : 0;
        total += each[j];
    }
    for (uint32_t j = 0; j < ENTRIES; j++)
        if (fabs((double)weights[j] - each[j] / total) > 1e-6)
            fail_msg("entry %u of %u seen has %.9g, expected %.9g", j, sees, (double)weights[j],
                     each[j] / total);
}

static void check(cdz_backend *b, const cdz_attention *how)
{
    rng r = {3};
    float *q = random_floats(&r, QUERIES * D), *keys = random_floats(&r, ENTRIES * D);
    float out[QUERIES * WIDE];
    for (size_t i = 0; i < QUERIES * WIDE; i++) out[i] = -7;
    cdz_press_weigh(&(cdz_weighing){.backend = b,
                                    .how = how,
                                    .head = HEAD,
                                    .dim = D,
                                    .q = q,
                                    .ldq = D,
                                    .m = QUERIES,
                                    .keys = keys,
                                    .n = ENTRIES,
                                    .sees = SEES,
                                    .ldo = WIDE,
                                    .out = out});
    for (uint32_t i = 0; i < QUERIES; i++) {
        expect(how, q + i * D, keys, SEES + i < ENTRIES ? SEES + i : ENTRIES, out + i * WIDE);
        for (uint32_t j = ENTRIES; j < WIDE; j++) assert_float_equal(out[i * WIDE + j], -7, 0);
    }
    free(q);
    free(keys);
}

static void check_variant(const char *variant)
{
    static const float sinks[] = {9, 0.75f}, high[] = {9, 40};
    cdz_backend *b = make_backend(variant, 2);
    check(b, &(cdz_attention){.n_heads = 2, .scale = 0.3f});
    check(b, &(cdz_attention){.n_heads = 2, .scale = 0.3f, .soft_cap = 0.5f});
    check(b, &(cdz_attention){.n_heads = 2, .scale = 0.3f, .sinks = sinks});
    check(b, &(cdz_attention){.n_heads = 2, .scale = 0.3f, .sinks = high});
    check(b, &(cdz_attention){.n_heads = 2, .scale = 0.3f, .soft_cap = 0.5f, .sinks = sinks});
    b->api->destroy(b);
}

static void weights_are_a_softmax(void **state)
{
    (void)state;
    each_variant(check_variant);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_are_a_softmax)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
