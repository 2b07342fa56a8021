/* test_random.c - torch's stream and Philox against their published and recorded numbers. */
#include "support/random_rows.h"

#include "random/open_race.h"
#include "random/torch_rng.h"
#include "vec/fused.h"
#include "vec/vec.h"

#include <float.h>
#include <math.h>

static void test_words(void **state)
{
    static const uint32_t first[] = {2357136044u, 2546248239u, 3071714933u, 3626093760u};
    cdz_torch_rng rng, high;
    (void)state;
    cdz_torch_seed(&rng, 0);
    for (size_t i = 0; i < 4; i++) assert_int_equal(cdz_torch_word(&rng), first[i]);
    /* the reference output of MT19937 for seed 5489: the 10000th word */
    cdz_torch_seed(&rng, 5489);
    cdz_torch_skip(&rng, 9999);
    assert_int_equal(cdz_torch_word(&rng), 4123659995u);
    /* only the low half of the seed counts */
    cdz_torch_seed(&rng, 5);
    cdz_torch_seed(&high, (UINT64_C(1) << 32) + 5);
    assert_memory_equal(rng.state, high.state, sizeof rng.state);
}

static void test_uniform_numbers(void **state)
{
    cdz_torch_rng rng;
    (void)state;
    cdz_torch_seed(&rng, 0);
    assert_true(fabsf(cdz_torch_uniform(&rng) - 0.496256590f) < 1e-8f);
    assert_true(fabsf(cdz_torch_uniform(&rng) - 0.768221796f) < 1e-8f);
}

static void test_skipping_is_drawing(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 3000; n += 1 + n / 3) {
        cdz_torch_rng a, b;
        cdz_torch_seed(&a, 7);
        cdz_torch_seed(&b, 7);
        cdz_torch_word(&a);
        cdz_torch_word(&b);
        cdz_torch_skip(&a, n);
        for (uint64_t i = 0; i < n; i++) cdz_torch_word(&b);
        assert_int_equal(cdz_torch_word(&a), cdz_torch_word(&b));
    }
}

/* q of seed 0 is 3.508326, 1.230385, 0.615044, 2.535119, 1.035705: p = q^i wins where p / q is largest. */
static void test_exponentials_decide(void **state)
{
    static const float q[] = {3.508326f, 1.230385f, 0.615044f, 2.535119f, 1.035705f};
    (void)state;
    for (size_t winner = 0; winner < 5; winner++) {
        float p[5];
        cdz_torch_rng rng;
        for (size_t i = 0; i < 5; i++) p[i] = i == winner ? q[i] * 1.00001f : q[i] * 0.99999f;
        cdz_torch_seed(&rng, 0);
        assert_int_equal(cdz_torch_multinomial(&rng, p, 5), winner);
    }
}

static const struct {
    const char *name;
    float p[4];
} refused[] = {
    {"nothing left", {0, 0, 0, 0}},
    {"a NaN", {0.5f, NAN, 0.5f, 0}},
    {"an infinity", {0, INFINITY, 0, 0}},
    {"a negative", {0.5f, -0.1f, 0.5f, 0}},
};

static void test_refusals_advance_the_stream(void **state)
{
    _Alignas(64) unsigned char scratch[8192 + 24 * 4];
    int32_t ids[2];
    (void)state;
    for (size_t c = 0; c < sizeof refused / sizeof refused[0]; c++) {
        cdz_torch_rng a, b;
        cdz_torch_seed(&a, 1);
        cdz_torch_seed(&b, 1);
        cdz_torch_skip(&b, 16);
        assert_int_equal(cdz_torch_multinomial(&a, refused[c].p, 4), -1);
        assert_int_equal(cdz_torch_multinomial_k(&a, refused[c].p, 4, 2, ids, scratch), -1);
        if (cdz_torch_word(&a) != cdz_torch_word(&b))
            fail_msg("%s: stream differs", refused[c].name);
    }
}

/* Masked tokens cost words but no logarithms; both ways of drawing see the same stream. */
static void test_masked_rows(void **state)
{
    enum { N = 2000 };
    static float p[N];
    static _Alignas(64) unsigned char scratch[8192 + 24 * N];
    int32_t ids[5];
    (void)state;
    test_seed(2);
    for (uint64_t seed = 0; seed < 50; seed++) {
        cdz_torch_rng a, b;
        for (size_t i = 0; i < N; i++) p[i] = test_random() % 100 < seed ? test_uniform() : 0.0f;
        p[test_random() % N] = 0.25f;
        cdz_torch_seed(&a, seed);
        cdz_torch_seed(&b, seed);
        const int32_t one = cdz_torch_multinomial(&a, p, N);
        assert_int_equal(cdz_torch_multinomial_k(&b, p, N, 5, ids, scratch), 0);
        assert_int_equal(one, ids[0]);
        assert_int_equal(cdz_torch_word(&a), cdz_torch_word(&b));
    }
}

/* --- open races: a row drawn from by its leaders --- */

enum { WIDE = 40000 };

static const struct {
    const char *name;
    float spread;
    size_t masked; /* of a thousand tokens */
    size_t peaks;
    bool steps; /* many equal scores */
} open_rows[] = {
    {"bell", 2.0f, 0, 0, false},          {"flat", 0.3f, 0, 0, false},
    {"peaked", 1.0f, 0, 40, false},       {"one above all", 1.0f, 0, 1, false},
    {"half masked", 2.0f, 500, 5, false}, {"few left", 3.0f, 998, 0, false},
    {"steps", 2.0f, 0, 3, true},          {"steep", 30.0f, 0, 0, false},
};
enum { N_OPEN_ROWS = sizeof open_rows / sizeof open_rows[0] };

static void make_row(size_t kind, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float v = test_normal() * open_rows[kind].spread;
        x[i] = open_rows[kind].steps ? roundf(v * 4) / 4 : v;
        if (test_random() % 1000 < open_rows[kind].masked) x[i] = -INFINITY;
    }
    for (size_t i = 0; i < open_rows[kind].peaks; i++) x[test_random() % n] = 8 + test_uniform();
    x[test_random() % n] = 3.0f;
}

static float one_score(void *of, int32_t id)
{
    return ((const float *)of)[id];
}

/* Draws from x by its leaders, with or without the row at hand; -1: void, the stream has to stand where it stood. */
static int32_t open_draw(const cdz_fuser *fuser, cdz_torch_rng *rng, const float *x, size_t n,
                         bool here)
{
    static _Alignas(64) unsigned char scratch[8192 + 24 * WIDE];
    const cdz_torch_rng before = *rng;
    cdz_survivors s;
    float low;
    if (fuser->lead(x, n, &s, &low, scratch) != CDZ_FUSED) return -1;
    for (size_t i = 0, k = 0; i < n; i++) {
        const bool led = k < s.n && s.ids[k] == (int32_t)i;
        if (led ? x[i] != s.x[k] || x[i] < low : x[i] >= low && x[i] >= -FLT_MAX)
            fail_msg("token %zu is wrongly %s", i, led ? "a leader" : "none");
        k += led;
    }
    cdz_field field = cdz_field_of(&s, low, n);
    field.x = here ? x : NULL;
    field.score = one_score;
    field.of = (void *)(uintptr_t)x;
    const int32_t token = cdz_torch_open_race(rng, &field, n);
    if (token < 0) assert_memory_equal(rng, &before, sizeof before);
    return token;
}

static void test_open_races(void **state)
{
    static float x[WIDE], p[WIDE];
    static const char *const variants[] = {"scalar", "avx2"};
    (void)state;
    test_seed(9);
    for (size_t kind = 0; kind < N_OPEN_ROWS; kind++) {
        int clear[2] = {0, 0}, races = 0;
        for (uint64_t seed = 0; seed < 40; seed++) {
            const size_t n = WIDE - test_random() % 9000;
            make_row(kind, x, n);
            cdz_vec_table()->softmax(p, x, n);
            cdz_torch_rng closed, open;
            cdz_torch_seed(&closed, seed);
            cdz_torch_skip(&closed, seed % 5); /* pairs of words across the state's end too */
            const cdz_torch_rng start = closed;
            const int32_t winner = cdz_torch_draw(&closed, p, n);
            for (int way = 0; way < 4; way++) {
                const cdz_fuser *fuser = cdz_fuser_of(variants[way / 2]);
                if (!fuser) continue;
                open = start;
                const int32_t token = open_draw(fuser, &open, x, n, way % 2 == 0);
                races += way % 2 == 0;
                if (token < 0) continue;
                clear[way % 2]++;
                if (token != winner || memcmp(&open, &closed, sizeof open) != 0)
                    fail_msg("%s, seed %d: token %d, not %d", open_rows[kind].name, (int)seed,
                             token, winner);
            }
        }
        if (clear[0] < races - 1)
            fail_msg("%s: %d of %d races are void", open_rows[kind].name, races - clear[0], races);
        /* where only those are asked for that have a chance, these may be too many */
        if (open_rows[kind].peaks == 40 && clear[1] < races - races / 8)
            fail_msg("%s: %d of %d races by single scores are void", open_rows[kind].name,
                     races - clear[1], races);
    }
}

/* Two that are as good as equal: nobody can tell without the reference's roundings. */
static void test_a_close_race_is_void(void **state)
{
    static const float q[] = {3.508326f, 1.230385f, 0.615044f, 2.535119f, 1.035705f};
    static const int32_t ids[] = {0, 1, 2, 3, 4};
    (void)state;
    for (int close = 0; close < 2; close++) {
        float p[5];
        cdz_torch_rng rng;
        const cdz_field field = {.ids = ids, .p = p, .n = 5};
        for (size_t i = 0; i < 5; i++) p[i] = q[i] * 0.2f;
        p[3] *= 1.001f;
        p[1] *= close ? 1.001003f : 1.0011f;
        cdz_torch_seed(&rng, 0);
        assert_int_equal(cdz_torch_open_race(&rng, &field, 5), close ? -1 : 1);
    }
}

/* Next-token probabilities by last token, and what torch samples with them (docs/reference/internals/decoding.md, 3.5 and 11). */
static const float table[5][5] = {
    {0.10f, 0.40f, 0.30f, 0.15f, 0.05f}, {0.05f, 0.10f, 0.45f, 0.15f, 0.25f},
    {0.10f, 0.20f, 0.05f, 0.30f, 0.35f}, {0.05f, 0.35f, 0.25f, 0.10f, 0.25f},
    {0.20f, 0.20f, 0.20f, 0.20f, 0.20f},
};
enum { EOS = 4, PAD = 3 };

static const struct {
    const char *name;
    uint64_t seed;
    int32_t prompt[2];
    int32_t sequences[2][7];
    size_t len;
} runs[] = {
    {"two prompts, seed 0", 0, {0, 2}, {{0, 2, 1, 2, 3, 1, 2}, {2, 4, 3, 3, 3, 3, 3}}, 7},
    {"two prompts, seed 1", 1, {0, 2}, {{0, 0, 1, 2, 1, 2, 1}, {2, 0, 2, 1, 2, 4, 3}}, 7},
    {"two prompts, seed 2", 2, {0, 2}, {{0, 1, 0, 1, 0, 1, 4}, {2, 1, 4, 3, 3, 3, 3}}, 7},
    {"one prompt, two returns", 0, {0, 0}, {{0, 2, 1, 2, 3, 1}, {0, 1, 2, 4, 3, 3}}, 6},
};

static int32_t sample(cdz_torch_rng *rng, int32_t last)
{
    float p[5];
    for (size_t v = 0; v < 5; v++) p[v] = logf(table[last][v]);
    cdz_vec_table()->softmax(p, p, 5);
    return cdz_torch_multinomial(rng, p, 5);
}

static void test_sampled_runs(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof runs / sizeof runs[0]; c++) {
        int32_t last[2] = {runs[c].prompt[0], runs[c].prompt[1]};
        bool ended[2] = {false, false};
        cdz_torch_rng rng;
        cdz_torch_seed(&rng, runs[c].seed);
        for (size_t t = 1; t < runs[c].len; t++)
            for (size_t r = 0; r < 2; r++) {
                const int32_t drawn = sample(&rng, last[r]);
                last[r] = ended[r] ? PAD : drawn;
                ended[r] = ended[r] || drawn == EOS;
                if (last[r] != runs[c].sequences[r][t])
                    fail_msg("%s: row %zu, place %zu: %d", runs[c].name, r, t, last[r]);
            }
    }
}

static void test_philox(void **state)
{
    static const struct {
        uint64_t seed, plugin;
        uint32_t row, position, out[4];
    } known[] = {
        /* Random123's kat_vectors, philox4x32 10 */
        {0, 0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX,
         UINT64_MAX,
         UINT32_MAX,
         UINT32_MAX,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822,
         0x0370734413198a2e,
         0x243f6a88,
         0x85a308d3,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        uint32_t out[4];
        cdz_philox(known[i].seed, known[i].plugin, known[i].row, known[i].position, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

static void test_plugin_keys(void **state)
{
    (void)state;
    assert_true(cdz_philox_key("") == UINT64_C(0xcbf29ce484222325));
    assert_true(cdz_philox_key("a") == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(cdz_philox_key("foobar") == UINT64_C(0x85944171f73967e8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_uniform_numbers),
        cmocka_unit_test(test_skipping_is_drawing),
        cmocka_unit_test(test_exponentials_decide),
        cmocka_unit_test(test_refusals_advance_the_stream),
        cmocka_unit_test(test_masked_rows),
        cmocka_unit_test(test_open_races),
        cmocka_unit_test(test_a_close_race_is_void),
        cmocka_unit_test(test_sampled_runs),
        cmocka_unit_test(test_philox),
        cmocka_unit_test(test_plugin_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
