/* test_fused.c - runs of processors in one walk: the same rows, bit for bit, as one operation after the other. */
#include "support/random_rows.h"

#include "vec/leading.h"
#include "vec/vec.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 40000, FORMS = 6 };

static float row[MOST], plain[MOST], fused[MOST];
static _Alignas(64) unsigned char scratch[24 * MOST + 8192];

/* --- rows ------------------------------------------------------------------------------------------------------------ */

typedef enum row_kind {
    NORMAL,
    FLAT,
    PEAKED,
    TIES,
    MASKED,
    FEW_LEFT,
    ONE_LEFT,
    ALL_MASKED,
    EQUAL,
    STEPS,
    TINY,
    HUGE_ONES,
    ZEROS,
    NANS,
    INFS,
    N_KINDS
} row_kind;
static const char *const kind_names[] = {"normal",   "flat",     "peaked",     "ties",  "masked",
                                         "few left", "one left", "all masked", "equal", "steps",
                                         "tiny",     "huge",     "zeros",      "nans",  "infs"};

static float element(row_kind kind, size_t i, size_t n)
{
    const float x = test_normal();
    switch (kind) {
    case FLAT: return x * 0.05f;
    case PEAKED: return i % 97 == 5 ? 12 + 2 * x : x;
    case TIES: return roundf(x * 2) / 2;
    case MASKED: return test_random() % 2 ? x * 3 : -INFINITY;
    case FEW_LEFT: return test_random() % n < 20 ? x * 3 : -INFINITY;
    case ONE_LEFT: return i == n / 2 ? x : -INFINITY;
    case ALL_MASKED: return -INFINITY;
    case EQUAL: return 1.5f;
    case STEPS: return 3.0f - 1e-7f * (float)(i % 1000); /* closer than a division tells apart */
    case TINY: return x * 1e-41f;
    case HUGE_ONES: return x * 5e37f;
    case ZEROS: return test_random() % 3 ? (test_random() % 2 ? 0.0f : -0.0f) : -fabsf(x);
    case NANS: return i == n / 3 ? NAN : x;
    case INFS: return i == n / 3 ? INFINITY : x;
    default: return x * 3;
    }
}

/* --- runs ------------------------------------------------------------------------------------------------------------ */

static const double divisors[] = {0.8, 1.0, 0.1, 2.5, 100.0, 0.01};
static const uint64_t counts[] = {1, 2, 5, 50, 250, 1000, 5000, 100000};
static const double masses[] = {0.95, 0.9, 0.5, 0.999, 0.1, 0.0, 1.0};
static const double shares[] = {0.05, 0.1, 0.5, 1.0, 0.001, 0.0, 1e-20};
static const uint64_t keeps[] = {1, 1, 1, 2, 3, 100};
#define PICK(list) (list)[test_random() % (sizeof(list) / sizeof(list)[0])]

static cdz_form any_form(void)
{
    cdz_form f = {.size = sizeof f, .kind = 1 + test_random() % 4};
    f.count = PICK(keeps);
    if (f.kind == CDZ_FORM_DIVIDE) f.amount = PICK(divisors);
    if (f.kind == CDZ_FORM_KEEP_TOPK) f.count = PICK(counts);
    if (f.kind == CDZ_FORM_KEEP_TOPP) f.amount = PICK(masses);
    if (f.kind == CDZ_FORM_KEEP_MINP) f.amount = PICK(shares);
    return f;
}

static void one_by_one(const cdz_vec *vec, float *x, size_t n, const cdz_form *f, size_t n_forms)
{
    for (size_t i = 0; i < n_forms; i++) {
        switch (f[i].kind) {
        case CDZ_FORM_DIVIDE: vec->div(x, n, (float)f[i].amount); break;
        case CDZ_FORM_KEEP_TOPK: vec->keep_topk(x, n, f[i].count, scratch); break;
        case CDZ_FORM_KEEP_TOPP: vec->keep_topp(x, n, f[i].amount, f[i].count, scratch); break;
        default: vec->keep_minp(x, n, f[i].amount, f[i].count, scratch); break;
        }
    }
}

static void describe(const cdz_form *f, size_t n_forms, char *out, size_t bytes)
{
    static const char *const names[] = {"?", "divide", "top_k", "top_p", "min_p"};
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < n_forms && at < bytes; i++)
        at += (size_t)snprintf(out + at, bytes - at, " %s %g/%llu", names[f[i].kind], f[i].amount,
                               (unsigned long long)f[i].count);
}

/* Fails when the two ways differ in a bit; returns the verdict. */
static cdz_fusing compare(const char *variant, size_t n, row_kind kind, const cdz_form *f,
                          size_t n_forms)
{
    const cdz_vec *vec = cdz_vec_table_of(variant);
    const cdz_fuser *fuser = cdz_fuser_of(variant);
    cdz_survivors s;
    char run[400];

    memcpy(fused, row, n * sizeof *row);
    const cdz_fusing verdict = fuser->run(fused, n, f, n_forms, &s, scratch);
    describe(f, n_forms, run, sizeof run);
    if (memcmp(fused, row, n * sizeof *row) != 0) fail_msg("%s:%s: the row changed", variant, run);
    if (verdict != CDZ_FUSED) return verdict;
    fuser->write(&s, fused, n);
    memcpy(plain, row, n * sizeof *row);
    one_by_one(vec, plain, n, f, n_forms);
    for (size_t i = 0; i < n; i++)
        if (memcmp(&fused[i], &plain[i], sizeof *plain) != 0)
            fail_msg("%s, %s row of %zu,%s: score %zu is %.9g, expected %.9g", variant,
                     kind_names[kind], n, run, i, (double)fused[i], (double)plain[i]);
    vec->softmax(plain, plain, n);
    /* the list was in scratch, which the operations above have used */
    memcpy(fused, row, n * sizeof *row);
    assert_int_equal(fuser->run(row, n, f, n_forms, &s, scratch), CDZ_FUSED);
    fuser->softmax(&s, n);
    for (size_t i = 0, k = 0; i < n; i++) {
        const float p = k < s.n && s.ids[k] == (int32_t)i ? s.x[k++] : 0.0f;
        if (memcmp(&p, &plain[i], sizeof p) != 0)
            fail_msg("%s, %s row of %zu,%s: probability %zu is %.9g, expected %.9g", variant,
                     kind_names[kind], n, run, i, (double)p, (double)plain[i]);
    }
    return verdict;
}

/* --- rows that are elsewhere ------------------------------------------------------------------------------------------ */

static int32_t lead_ids[MOST];
static float lead_x[MOST];

static int falling(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The sum of exp(score - top) after the divisions that come first. */
static double mass_of(size_t n, float top, const cdz_form *f, size_t n_forms)
{
    double mass = 0.0;
    for (size_t i = 0; i < n; i++) {
        float x = row[i], t = top;
        for (size_t k = 0; k < n_forms; k++) {
            if (cdz_form_is_void(&f[k], n)) continue;
            if (f[k].kind != CDZ_FORM_DIVIDE) break;
            x /= (float)f[k].amount;
            t /= (float)f[k].amount;
        }
        mass += exp((double)(x - t));
    }
    return mass;
}

/* What a device would tell of the row: about `least` of its best. */
static cdz_leading lead_row(size_t n, size_t least, const cdz_form *f, size_t n_forms)
{
    cdz_leading l = {.ids = lead_ids, .x = lead_x, .low = -FLT_MAX, .mass_off = 16.0};
    memcpy(plain, row, n * sizeof *row);
    qsort(plain, n, sizeof *plain, falling);
    const float last = least < n ? plain[least - 1] : -INFINITY;
    if (last > -1e38f) l.low = last - (fabsf(last) * 1e-6f + 1e-30f);
    l.mass = mass_of(n, plain[0], f, n_forms);
    for (size_t i = 0; i < n; i++) {
        if (row[i] < l.low) continue;
        lead_ids[l.n] = (int32_t)i;
        lead_x[l.n++] = row[i];
    }
    return l;
}

/* The row's best alone give the same scores, or say that they are too few. */
static cdz_fusing compare_known(const char *variant, size_t n, row_kind kind, const cdz_leading *l,
                                const cdz_form *f, size_t n_forms)
{
    const cdz_fuser *fuser = cdz_fuser_of(variant);
    cdz_survivors s;
    char run[400];
    const cdz_fusing verdict = fuser->run_leading(l, n, f, n_forms, &s, scratch);
    if (verdict != CDZ_FUSED) return verdict;
    fuser->write(&s, fused, n);
    memcpy(plain, row, n * sizeof *row);
    one_by_one(cdz_vec_table_of(variant), plain, n, f, n_forms);
    describe(f, n_forms, run, sizeof run);
    for (size_t i = 0; i < n; i++)
        if (memcmp(&fused[i], &plain[i], sizeof *plain) != 0)
            fail_msg("%s, the best %zu of a %s row of %zu,%s: score %zu is %.9g, expected %.9g",
                     variant, l->n, kind_names[kind], n, run, i, (double)fused[i], (double)plain[i]);
    return verdict;
}

static cdz_fusing compare_leading(const char *variant, size_t n, row_kind kind, size_t least,
                                  const cdz_form *f, size_t n_forms)
{
    const cdz_leading l = lead_row(n, least, f, n_forms);
    return compare_known(variant, n, kind, &l, f, n_forms);
}

enum { MOST_CHANGED = 300 };

static float changed_score(float x)
{
    switch (test_random() % 6) {
    case 0: return x < 0 ? x * 1.3f : x / 1.3f;
    case 1: return x < 0 ? x * 0.5f : x / 0.5f;
    case 2: return -INFINITY;
    case 3: return x + 4.0f;
    case 4: return lead_x[0];
    default: return x;
    }
}

/* Changes scores of the row, leaders and others; the leaders are told of it as a host would be. */
static cdz_fusing compare_changed(const char *variant, size_t n, row_kind kind, size_t least,
                                  const cdz_form *f, size_t n_forms)
{
    static int32_t ids[MOST_CHANGED], joined[MOST];
    static float was[MOST_CHANGED], is[MOST_CHANGED], joined_x[MOST];
    cdz_leading l = lead_row(n, least, f, n_forms);
    const size_t many = 1 + test_random() % 60;
    cdz_changes c = {.ids = ids, .was = was, .is = is, .divisor = 1.0f};
    size_t n_lead = 0;
    for (size_t k = 0; k < n_forms; k++) {
        if (cdz_form_is_void(&f[k], n)) continue;
        if (f[k].kind != CDZ_FORM_DIVIDE) break;
        c.divisor = n_lead++ ? 0.0f : (float)f[k].amount; /* there is no mass for two of them */
    }
    if (c.divisor == 0.0f) l.mass = 0.0;
    l.mass *= 1.0 + ((double)(test_random() % 31) - 15.0) * 0x1p-24;
    for (size_t i = 0, lead = 0; i < n && c.n < MOST_CHANGED; i++) {
        const bool leads = lead < l.n && lead_ids[lead] == (int32_t)i;
        lead += leads;
        if (test_random() % (leads ? 4 : 1 + n / many) != 0) continue;
        ids[c.n] = (int32_t)i;
        was[c.n] = row[i];
        is[c.n] = changed_score(row[i]);
        row[i] = is[c.n++];
    }
    if (l.n == 0 || l.n + c.n > MOST) return CDZ_FUSE_MANY;
    if (!cdz_leading_change(&l, &c, joined, joined_x)) return CDZ_FUSE_MANY;
    for (size_t i = 0, k = 0; i < n; i++) {
        if (row[i] < l.low) continue;
        if (k == l.n || l.ids[k] != (int32_t)i || l.x[k] != row[i])
            fail_msg("%s row of %zu with %zu changes: score %zu is not the list's %zu",
                     kind_names[kind], n, c.n, i, k);
        k++;
    }
    return compare_known(variant, n, kind, &l, f, n_forms);
}

static void make_row(size_t n, row_kind kind)
{
    for (size_t i = 0; i < n; i++) row[i] = element(kind, i, n);
}

/* --- tests ------------------------------------------------------------------------------------------------------------- */

static void test_random_runs(void **state)
{
    static const char *const variants[] = {"scalar", "avx2"};
    static const size_t sizes[] = {1,   2,   7,   8,    9,    63,    64,   65,
                                   129, 500, 513, 3000, 5003, 20000, 32000};
    size_t seen[CDZ_FUSE_KINDS] = {0};
    (void)state;
    test_seed(41);
    for (size_t round = 0; round < 9000; round++) {
        const size_t n = sizes[test_random() % (round % 8 ? 11 : 15)];
        const row_kind kind = (row_kind)(test_random() % N_KINDS);
        const size_t n_forms = 1 + test_random() % FORMS;
        cdz_form f[FORMS];
        for (size_t i = 0; i < n_forms; i++) f[i] = any_form();
        if (!cdz_fusible(f, n_forms)) continue;
        make_row(n, kind);
        for (size_t v = 0; v < 2; v++)
            if (cdz_fuser_of(variants[v])) seen[compare(variants[v], n, kind, f, n_forms)]++;
    }
    for (size_t i = 0; i < CDZ_FUSE_KINDS; i++) {
        print_message("%s: %zu\n", cdz_fusing_name((cdz_fusing)i), seen[i]);
        assert_true(seen[i] > 20); /* every way out was taken */
    }
}

static void test_random_leading(void **state)
{
    static const char *const variants[] = {"scalar", "avx2"};
    static const size_t sizes[] = {1, 7, 9, 64, 129, 513, 5003, 32000};
    static const size_t least[] = {1, 10, 50, 256, 1000, 6000};
    size_t seen[CDZ_FUSE_KINDS] = {0};
    (void)state;
    test_seed(77);
    for (size_t round = 0; round < 4000; round++) {
        const size_t n = sizes[test_random() % (round % 8 ? 6 : 8)];
        const row_kind kind = (row_kind)(test_random() % NANS);
        const size_t n_forms = 1 + test_random() % FORMS;
        cdz_form f[FORMS];
        for (size_t i = 0; i < n_forms; i++) f[i] = any_form();
        if (!cdz_fusible(f, n_forms)) continue;
        make_row(n, kind);
        for (size_t v = 0; v < 2; v++)
            if (cdz_fuser_of(variants[v]))
                seen[compare_leading(variants[v], n, kind, PICK(least), f, n_forms)]++;
    }
    for (size_t i = 0; i < CDZ_FUSE_KINDS; i++)
        print_message("%s: %zu\n", cdz_fusing_name((cdz_fusing)i), seen[i]);
    assert_true(seen[CDZ_FUSED] > 1000 && seen[CDZ_FUSE_MANY] > 200 && seen[CDZ_FUSE_VALUES] > 20);
}

static void test_random_changes(void **state)
{
    static const size_t sizes[] = {1, 7, 64, 513, 5003, 32000};
    static const size_t least[] = {1, 10, 50, 256, 1000, 6000};
    size_t seen[CDZ_FUSE_KINDS] = {0};
    (void)state;
    test_seed(79);
    for (size_t round = 0; round < 6000; round++) {
        const size_t n = sizes[test_random() % (round % 8 ? 5 : 6)];
        const row_kind kind = (row_kind)(test_random() % NANS);
        const size_t n_forms = 1 + test_random() % 3;
        cdz_form f[FORMS];
        for (size_t i = 0; i < n_forms; i++) f[i] = any_form();
        if (!cdz_fusible(f, n_forms)) continue;
        make_row(n, kind);
        seen[compare_changed("scalar", n, kind, PICK(least), f, n_forms)]++;
    }
    for (size_t i = 0; i < CDZ_FUSE_KINDS; i++)
        print_message("%s: %zu\n", cdz_fusing_name((cdz_fusing)i), seen[i]);
    assert_true(seen[CDZ_FUSED] > 1000 && seen[CDZ_FUSE_MANY] > 200 && seen[CDZ_FUSE_CLOSE] > 1);
}

/* The usual chains fuse on the usual rows: it is not all fallback. */
static void test_usual_runs_fuse(void **state)
{
    static const struct {
        const char *name;
        size_t n_forms;
        cdz_form forms[4];
        unsigned rows; /* bits of row kinds */
    } cases[] = {
        {"temperature, top-k",
         2,
         {{.kind = CDZ_FORM_DIVIDE, .amount = 0.8}, {.kind = CDZ_FORM_KEEP_TOPK, .count = 50}},
         1u << NORMAL | 1u << FLAT | 1u << PEAKED},
        {"all four",
         4,
         {{.kind = CDZ_FORM_DIVIDE, .amount = 0.8},
          {.kind = CDZ_FORM_KEEP_TOPK, .count = 50},
          {.kind = CDZ_FORM_KEEP_TOPP, .amount = 0.95, .count = 1},
          {.kind = CDZ_FORM_KEEP_MINP, .amount = 0.05, .count = 1}},
         1u << NORMAL | 1u << PEAKED | 1u << MASKED},
        {"temperature, min-p",
         2,
         {{.kind = CDZ_FORM_DIVIDE, .amount = 0.8},
          {.kind = CDZ_FORM_KEEP_MINP, .amount = 0.05, .count = 1}},
         1u << NORMAL | 1u << PEAKED},
        {"temperature, top-p",
         2,
         {{.kind = CDZ_FORM_DIVIDE, .amount = 0.7},
          {.kind = CDZ_FORM_KEEP_TOPP, .amount = 0.9, .count = 1}},
         1u << PEAKED},
        {"top-k, top-p, temperature",
         3,
         {{.kind = CDZ_FORM_KEEP_TOPK, .count = 40},
          {.kind = CDZ_FORM_KEEP_TOPP, .amount = 0.95, .count = 1},
          {.kind = CDZ_FORM_DIVIDE, .amount = 0.8}},
         1u << NORMAL | 1u << FLAT | 1u << PEAKED},
    };
    (void)state;
    test_seed(5);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (unsigned kind = 0; kind < N_KINDS; kind++) {
            unsigned done = 0, led = 0;
            if (!(cases[c].rows & 1u << kind)) continue;
            for (unsigned i = 0; i < 20; i++) {
                make_row(32000, (row_kind)kind);
                done += compare("scalar", 32000, (row_kind)kind, cases[c].forms,
                                cases[c].n_forms) == CDZ_FUSED;
                led += compare_leading("scalar", 32000, (row_kind)kind, 512, cases[c].forms,
                                       cases[c].n_forms) == CDZ_FUSED;
                if (cdz_fuser_of("avx2"))
                    compare("avx2", 32000, (row_kind)kind, cases[c].forms, cases[c].n_forms);
            }
            if (done < 18 || led < 18)
                fail_msg("%s on %s rows: %u of 20 fused, and %u by their best 512 scores",
                         cases[c].name, kind_names[kind], done, led);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_runs),
        cmocka_unit_test(test_random_leading),
        cmocka_unit_test(test_random_changes),
        cmocka_unit_test(test_usual_runs_fuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
