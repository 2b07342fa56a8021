/* test_grammar_store.c - constraints that are kept and shared: by text, within a limit of bytes, by several threads. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/sanitized.h"
#include "grammar/store.h"
#include "support/child.h"

static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789 \"{}[]:,.-\n";
enum { N_LETTERS = sizeof letters - 1 };

/* A token for each letter. */
static cdz_grammar_vocab *vocab_of_letters(void)
{
    const char *at[N_LETTERS];
    uint32_t lens[N_LETTERS];
    cdz_grammar_vocab *vocab;
    for (uint32_t i = 0; i < N_LETTERS; i++) {
        at[i] = letters + i;
        lens[i] = 1;
    }
    assert_int_equal(cdz_grammar_vocab_of(at, lens, N_LETTERS, NULL, 0, &vocab, NULL), CDZ_OK);
    return vocab;
}

static cdz_constraint *get(cdz_grammar_store *store, cdz_grammar_kind kind, const char *text)
{
    const cdz_string one = {text, (uint32_t)strlen(text)};
    cdz_constraint *c = NULL;
    cdz_error err = {0};
    if (cdz_constraint_get(store, &(cdz_grammar_source){kind, &one, 1, NULL}, &c, &err) != CDZ_OK)
        fail_msg("%s: %s", text, err.text);
    return c;
}

static uint32_t after(cdz_constraint *c, const char *text)
{
    uint32_t state = cdz_constraint_start(c);
    assert_int_equal(cdz_constraint_feed(c, text, strlen(text), &state, NULL), CDZ_OK);
    return state;
}

static void one_text_is_one_constraint(void **unused)
{
    (void)unused;
    cdz_grammar_vocab *vocab = vocab_of_letters();
    cdz_grammar_store *store = cdz_grammar_store_over(vocab, NULL);
    cdz_constraint *a = get(store, CDZ_GRAMMAR_REGEX, "[a-c]+");
    const uint64_t one = cdz_grammar_store_bytes(store);
    cdz_constraint *b = get(store, CDZ_GRAMMAR_REGEX, "[a-c]+");
    assert_ptr_not_equal(a, b);
    assert_int_equal(cdz_grammar_store_bytes(store), one);
    assert_int_equal(after(a, "ab"), after(b, "ab"));
    cdz_constraint *other = get(store, CDZ_GRAMMAR_REGEX, "[a-d]+");
    assert_true(cdz_grammar_store_bytes(store) > one);
    assert_int_equal(after(a, "d"), 0);
    assert_int_not_equal(after(other, "d"), 0);
    assert_true(cdz_constraint_accepts(a, after(a, "abc")));
    assert_false(cdz_constraint_accepts(a, cdz_constraint_start(a)));
    uint64_t bits[3] = {~0ull, ~0ull, ~0ull}; /* words beyond the vocabulary are cleared */
    assert_int_equal(cdz_constraint_allowed(a, after(a, "a"), bits, 3, NULL), CDZ_OK);
    assert_int_equal(bits[0], 7);
    assert_int_equal(bits[1] | bits[2], 0);
    cdz_constraint_release(a);
    cdz_constraint_release(b);
    const uint64_t all = cdz_grammar_store_bytes(store);
    b = get(store, CDZ_GRAMMAR_REGEX, "[a-c]+"); /* nobody held it: it was kept */
    assert_int_equal(cdz_grammar_store_bytes(store), all);
    cdz_grammar_store_free(store); /* what is held lives on */
    assert_true(cdz_constraint_accepts(b, after(b, "cab")));
    cdz_constraint_release(b);
    cdz_constraint_release(other);
    cdz_grammar_vocab_free(vocab);
}

static void kinds_are_told_apart(void **unused)
{
    (void)unused;
    static const struct {
        cdz_grammar_kind kind;
        const char *source, *in, *out;
    } rows[] = {
        {CDZ_GRAMMAR_EITHER, "root ::= \"a\" | \"b\"", "b", "c"},
        {CDZ_GRAMMAR_EITHER, "# x ::= y\n  root  ::= [0-9]+", "12", "a"},
        {CDZ_GRAMMAR_EITHER, "start: \"x ::= y\" | \"b\"", "b", "a"},
        {CDZ_GRAMMAR_EITHER, "start: A\nA: /[0-9]+/", "12", "a"},
        {CDZ_GRAMMAR_SCHEMA, "{\"enum\": [\"a\", 5]}", "\"a\"", "6"},
    };
    cdz_grammar_vocab *vocab = vocab_of_letters();
    cdz_grammar_store *store = cdz_grammar_store_over(vocab, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cdz_constraint *c = get(store, rows[i].kind, rows[i].source);
        assert_true(cdz_constraint_accepts(c, after(c, rows[i].in)));
        assert_int_equal(after(c, rows[i].out), 0);
        cdz_constraint_release(c);
    }
    const cdz_string texts[] = {{"red", 3}, {"re", 2}, {"a\0b", 1}};
    cdz_constraint *c;
    assert_int_equal(cdz_constraint_get(
                         store, &(cdz_grammar_source){CDZ_GRAMMAR_CHOICE, texts, 3, NULL}, &c, NULL),
                     CDZ_OK);
    assert_true(cdz_constraint_accepts(c, after(c, "re")));
    assert_true(cdz_constraint_accepts(c, after(c, "a")));
    cdz_constraint_release(c);
    cdz_grammar_store_free(store);
    cdz_grammar_vocab_free(vocab);
}

static void what_must_come(void **unused)
{
    (void)unused;
    static const struct {
        cdz_grammar_kind kind;
        const char *source, *before, *forced;
    } rows[] = {
        {CDZ_GRAMMAR_REGEX, "abc|abd", "", "ab"},
        {CDZ_GRAMMAR_REGEX, "abc|abd", "abc", ""},
        {CDZ_GRAMMAR_REGEX, "a(bc)?", "a", ""}, /* the text may end */
        {CDZ_GRAMMAR_REGEX, "[0-9]x{3}y", "5", "xxxy"},
        {CDZ_GRAMMAR_SCHEMA,
         "{\"type\": \"object\", \"properties\": {\"name\": {\"const\": true}}, \"required\": "
         "[\"name\"], \"additionalProperties\": false, \"x-guidance\": {\"whitespace_flexible\": "
         "false}}",
         "", "{\"name\":true}"},
    };
    cdz_grammar_vocab *vocab = vocab_of_letters();
    cdz_grammar_store *store = cdz_grammar_store_over(vocab, NULL);
    char out[64];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cdz_constraint *c = get(store, rows[i].kind, rows[i].source);
        const size_t n = cdz_constraint_forced(c, after(c, rows[i].before), out, sizeof out);
        assert_int_equal(n, strlen(rows[i].forced));
        assert_memory_equal(out, rows[i].forced, n);
        assert_int_equal(cdz_constraint_forced(c, after(c, rows[i].before), out, 1), n > 0);
        cdz_constraint_release(c);
    }
    cdz_grammar_store_free(store);
    cdz_grammar_vocab_free(vocab);
}

static void memory_is_bounded(void **unused)
{
    (void)unused;
    enum { LIMIT = 1 << 20 };
    cdz_grammar_store *store = cdz_grammar_store_new(NULL, NULL), *small;
    cdz_error err = {0};
    cdz_constraint *c;
    const cdz_string one = {"a", 1};
    assert_int_equal(cdz_constraint_get(
                         store, &(cdz_grammar_source){CDZ_GRAMMAR_REGEX, &one, 1, NULL}, &c, &err),
                     CDZ_E_NOT_FOUND); /* no tokenizer */
    cdz_grammar_store_free(store);
    cdz_grammar_vocab *vocab = vocab_of_letters();
    small = cdz_grammar_store_over(vocab, NULL);
    cdz_grammar_store_limit(small, LIMIT);
    for (int i = 0; i < 1000; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "(x%d|[a-z]{2,9}){1,3}", i);
        c = get(small, CDZ_GRAMMAR_REGEX, text);
        (void)after(c, "abcdefgh");
        cdz_constraint_release(c);
        assert_true(cdz_grammar_store_bytes(small) <= LIMIT);
    }
    assert_true(cdz_grammar_store_bytes(small) > LIMIT / 4);
    cdz_grammar_store_free(small);
    cdz_grammar_vocab_free(vocab);
}

static long resident_kib(void)
{
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &size, &resident), 2);
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* A schema of this number, with a description to be kept as its key. */
static const char *numbered_schema(int i, cdz_buf *out)
{
    out->len = 0;
    cdz_buf_printf(out, "{\"description\": \"%0*d\", \"type\": \"object\", \"properties\": {",
                   20000, i);
    for (int k = 0; k < 40; k++)
        cdz_buf_printf(out, "\"key%d_%d\": {\"type\": \"string\", \"maxLength\": %d}, ", i, k,
                       10 + k);
    cdz_buf_puts(out, "\"z\": {\"type\": \"number\"}}}");
    assert_false(out->failed);
    return out->data;
}

/* What the store says it keeps is within its limit, and what the process has grown by is about that. */
static void a_thousand_schemas_take_what_the_limit_says(void **unused)
{
    enum { LIMIT_MIB = 8 };
    cdz_grammar_vocab *vocab = vocab_of_letters();
    cdz_grammar_store *store = cdz_grammar_store_over(vocab, NULL);
    cdz_buf text = {0};
    (void)unused;
    cdz_grammar_store_limit(store, LIMIT_MIB << 20);
    const long before = resident_kib();
    for (int i = 0; i < 1000; i++) {
        cdz_constraint *c = get(store, CDZ_GRAMMAR_SCHEMA, numbered_schema(i, &text));
        assert_int_not_equal(after(c, "{\"z\": 12"), 0);
        cdz_constraint_release(c);
        assert_true(cdz_grammar_store_bytes(store) <= LIMIT_MIB << 20);
    }
    const long grown = resident_kib() - before;
    print_message("%llu bytes kept, %ld KiB more resident\n",
                  (unsigned long long)cdz_grammar_store_bytes(store), grown);
    assert_true(cdz_grammar_store_bytes(store) > LIMIT_MIB << 19);
#if !CDZ_WITH_OWN_HEAP /* which keeps what was freed */
    assert_true(grown < 3 * 1024 * LIMIT_MIB);
#endif
    cdz_buf_free(&text);
    cdz_grammar_store_free(store);
    cdz_grammar_vocab_free(vocab);
}

/* Text number i of n letters a and b. */
static const char *letters_of(uint32_t i, uint32_t n, char out[32])
{
    for (uint32_t k = 0; k < n; k++) out[k] = i >> k & 1 ? 'a' : 'b';
    out[n] = '\0';
    return out;
}

/* Leads texts through a constraint until a limit is met; the number of the text that met it. */
static uint32_t spend(cdz_constraint *c, uint32_t n)
{
    char text[32];
    cdz_error err = {0};
    for (uint32_t i = 0; i < 1u << n; i++) {
        uint32_t state = cdz_constraint_start(c);
        if (cdz_constraint_feed(c, letters_of(i, n, text), n, &state, &err) == CDZ_OK) continue;
        assert_int_equal(err.code, CDZ_E_LIMIT);
        assert_string_equal(err.text,
                            "the grammar has been in more than 200 states (grammar_max_states)");
        assert_int_equal(state, 0);
        return i;
    }
    fail_msg("no limit was met");
    return 0;
}

/* Of those who share a compiled constraint each has limits of running of its own, and whoever comes later gets a fresh one. */
static void a_limit_falls_on_who_meets_it(void **unused)
{
    enum { N = 10 };
    static const char source[] = "[ab]*a[ab]{8}"; /* a state for each of the last nine letters */
    const cdz_grammar_store_options options = {.limits = {.max_states = 200}};
    cdz_grammar_vocab *vocab = vocab_of_letters();
    cdz_grammar_store *store = cdz_grammar_store_over(vocab, &options);
    cdz_constraint *heavy = get(store, CDZ_GRAMMAR_REGEX, source),
                   *light = get(store, CDZ_GRAMMAR_REGEX, source);
    char text[32];
    uint64_t bits[1];
    (void)unused;
    const uint32_t known = after(light, "babbabbaab");
    const uint32_t met = spend(heavy, N);
    assert_int_equal(after(heavy, "babbabbaab"), known); /* nothing new: also heavy may */
    assert_int_equal(spend(heavy, N), met);
    for (uint32_t i = 0; i < 8; i++) { /* known ones, and new */
        const uint32_t state = after(light, letters_of(met + i, N, text));
        assert_int_not_equal(state, 0);
        assert_true(cdz_constraint_accepts(light, state) == (text[N - 9] == 'a'));
        assert_int_equal(cdz_constraint_allowed(light, state, bits, 1, NULL), CDZ_OK);
        assert_int_equal(bits[0], 3);
    }
    assert_int_equal(after(light, "babbabbaab"), known);
    cdz_constraint *later = get(store, CDZ_GRAMMAR_REGEX, source);
    assert_true(spend(light, N) > met);  /* its own, on top of what heavy made */
    assert_true(spend(later, N) <= met); /* all anew */
    cdz_constraint_release(heavy);
    cdz_constraint_release(light);
    cdz_constraint_release(later);
    cdz_grammar_store_free(store);
    cdz_grammar_vocab_free(vocab);
}

/* The masks along a text for a user, up to the first that a limit leaves out; how many there are. */
static uint32_t masks_along(cdz_grammar *g, const cdz_grammar_vocab *vocab, cdz_grammar_use *use,
                            const char *text, uint64_t *masks)
{
    const uint64_t *mask;
    uint32_t n = 0, state = cdz_grammar_start(g);
    cdz_grammar_use_by(g, use);
    for (; state && n <= strlen(text); n++) {
        if (cdz_grammar_allowed(g, vocab, state, &mask, NULL) != CDZ_OK) break;
        masks[n] = mask[0];
        state = cdz_grammar_feed(g, state, &text[n], text[n] != '\0');
    }
    assert_true(n > strlen(text) || cdz_grammar_trouble(g, NULL) == CDZ_E_LIMIT);
    return n;
}

/* Wherever a limit cuts short what is being found out for one, another finds out the same as ever. */
static void check_cut_short(bool by_places)
{
    static const char source[] = "{\"properties\": {\"a\": {\"type\": \"string\", \"maxLength\": "
                                 "30}, \"b\": {\"enum\": [12, 13]}}}";
    static const char text[] = "{\"a\": \"some words\", \"b\": 12, \"c\": [1]}";
    uint64_t right[sizeof text], cut[sizeof text], again[sizeof text];
    cdz_grammar_vocab *vocab = vocab_of_letters();
    uint32_t n_cut = 0;
    for (uint32_t left = 0, n = 0; left < 4000 && n < sizeof text; left++) {
        cdz_grammar_use spent = {.n_states = CDZ_GRAMMAR_MAX_STATES - left}, none = {0};
        if (by_places) spent = (cdz_grammar_use){.n_places = CDZ_GRAMMAR_MAX_PLACES - left};
        cdz_grammar *g;
        assert_int_equal(cdz_grammar_from_schema(source, sizeof source - 1, NULL, &g, NULL), CDZ_OK);
        n = masks_along(g, vocab, &spent, text, cut);
        assert_int_equal(masks_along(g, vocab, &none, text, again), sizeof text);
        if (left == 0) memcpy(right, again, sizeof right);
        assert_memory_equal(cut, right, n * sizeof *right);
        assert_memory_equal(again, right, sizeof right);
        n_cut += n < sizeof text;
        cdz_grammar_free(g);
    }
    assert_in_range(n_cut, 50, 3900);
    cdz_grammar_vocab_free(vocab);
}

static void what_a_limit_cuts_short_is_found_anew(void **unused)
{
    (void)unused;
    check_cut_short(false);
    check_cut_short(true);
}

static void *walk(void *arg)
{
    cdz_grammar_store *store = arg;
    for (int i = 0; i < 200; i++) {
        char text[32];
        uint64_t bits[1];
        (void)snprintf(text, sizeof text, "[a-c]{1,%d}", 1 + i % 7);
        cdz_constraint *c = get(store, CDZ_GRAMMAR_REGEX, text);
        uint32_t state = cdz_constraint_start(c);
        for (int k = 0; k < 1 + i % 7; k++) {
            assert_int_equal(cdz_constraint_allowed(c, state, bits, 1, NULL), CDZ_OK);
            assert_int_equal(bits[0], 7);
            assert_int_equal(cdz_constraint_feed_token(c, k % 3, &state, NULL), CDZ_OK);
        }
        assert_true(cdz_constraint_accepts(c, state));
        assert_int_equal(cdz_constraint_feed_token(c, 0, &state, NULL), CDZ_OK);
        assert_int_equal(state, 0);
        cdz_constraint_release(c);
    }
    return NULL;
}

static void threads_share(void **unused)
{
    (void)unused;
    pthread_t threads[4];
    cdz_grammar_vocab *vocab = vocab_of_letters();
    cdz_grammar_store *store = cdz_grammar_store_over(vocab, NULL);
    cdz_grammar_store_limit(store, 20000);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, walk, store), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    cdz_grammar_store_free(store);
    cdz_grammar_vocab_free(vocab);
}

/* --- promises of our own, which checked builds look at ----------------------------------------------------- */

static void give_back_twice(void)
{
    cdz_grammar_store *store = cdz_grammar_store_over(vocab_of_letters(), NULL);
    cdz_constraint *c = get(store, CDZ_GRAMMAR_REGEX, "[a-c]+");
    cdz_constraint_release(c);
    cdz_constraint_release(c);
}

static void hold_what_nobody_holds(void)
{
    cdz_grammar_store *store = cdz_grammar_store_over(vocab_of_letters(), NULL);
    cdz_constraint *c = get(store, CDZ_GRAMMAR_REGEX, "[a-c]+");
    cdz_constraint_release(c);
    cdz_constraint_hold(c);
}

static void hold_and_give_back(void)
{
    cdz_grammar_vocab *vocab = vocab_of_letters();
    cdz_grammar_store *store = cdz_grammar_store_over(vocab, NULL);
    cdz_constraint *c = get(store, CDZ_GRAMMAR_REGEX, "[a-c]+");
    cdz_constraint_hold(c);
    cdz_constraint_check(c);
    cdz_constraint_release(c);
    cdz_constraint_check(c);
    cdz_constraint_release(c);
    cdz_grammar_store_free(store);
    cdz_grammar_vocab_free(vocab);
}

static void broken_promises_are_seen(void **unused)
{
    (void)unused;
#ifndef CDZ_CHECKED
    skip();
#endif
    assert_int_equal(signal_of(hold_and_give_back), 0);
    assert_int_equal(signal_of(give_back_twice), SIGABRT);
    assert_int_equal(signal_of(hold_what_nobody_holds), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_text_is_one_constraint),
        cmocka_unit_test(kinds_are_told_apart),
        cmocka_unit_test(what_must_come),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(a_thousand_schemas_take_what_the_limit_says),
        cmocka_unit_test(a_limit_falls_on_who_meets_it),
        cmocka_unit_test(what_a_limit_cuts_short_is_found_anew),
        cmocka_unit_test(threads_share),
        cmocka_unit_test(broken_promises_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
