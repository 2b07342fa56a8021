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
    cdz_grammar_store *store = cdz_grammar_store_over(vocab);
    cdz_constraint *a = get(store, CDZ_GRAMMAR_REGEX, "[a-c]+"),
                   *b = get(store, CDZ_GRAMMAR_REGEX, "[a-c]+"),
                   *other = get(store, CDZ_GRAMMAR_REGEX, "[a-d]+");
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, other);
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
    b = get(store, CDZ_GRAMMAR_REGEX, "[a-c]+"); /* nobody held it: it was kept */
    assert_ptr_equal(a, b);
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
    cdz_grammar_store *store = cdz_grammar_store_over(vocab);
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
    cdz_grammar_store *store = cdz_grammar_store_over(vocab);
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
    small = cdz_grammar_store_over(vocab);
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
    cdz_grammar_store *store = cdz_grammar_store_over(vocab);
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
    cdz_grammar_store *store = cdz_grammar_store_over(vocab);
    cdz_grammar_store_limit(store, 20000);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, walk, store), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    cdz_grammar_store_free(store);
    cdz_grammar_vocab_free(vocab);
}

/* --- promises of our own, which checked builds look at ----------------------------------------------------- */

static void give_back_twice(void)
{
    cdz_grammar_store *store = cdz_grammar_store_over(vocab_of_letters());
    cdz_constraint *c = get(store, CDZ_GRAMMAR_REGEX, "[a-c]+");
    cdz_constraint_release(c);
    cdz_constraint_release(c);
}

static void hold_what_nobody_holds(void)
{
    cdz_grammar_store *store = cdz_grammar_store_over(vocab_of_letters());
    cdz_constraint *c = get(store, CDZ_GRAMMAR_REGEX, "[a-c]+");
    cdz_constraint_release(c);
    cdz_constraint_hold(c);
}

static void hold_and_give_back(void)
{
    cdz_grammar_vocab *vocab = vocab_of_letters();
    cdz_grammar_store *store = cdz_grammar_store_over(vocab);
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
        cmocka_unit_test(threads_share),
        cmocka_unit_test(broken_promises_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
