/* test_grammar.c - masks against the definition, on small vocabularies with every awkward kind of token; limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "grammar/grammar.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint64_t seed = 0x9E3779B97F4A7C15u;

static uint32_t below(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 33) % n;
}

enum { N_TOKENS = 600, TOKEN_BYTES = 8 };

/* Bytes of one to eight, of a small alphabet with parts of characters in it; duplicates and tokens of none among them. */
static cdz_grammar_vocab *random_vocab(char bytes[N_TOKENS][TOKEN_BYTES], uint32_t *lens)
{
    static const char alphabet[] = "ab01,.\"{}[]: \n\\nue\xC3\xA9\xE6\x97\xA5\xF0\x9F\x99\x82-";
    static const int32_t ends[] = {3, 4};
    const char *at[N_TOKENS];
    cdz_grammar_vocab *vocab;
    for (uint32_t i = 0; i < N_TOKENS; i++) {
        lens[i] = i % 50 == 3 ? 0 : 1 + below(i % 3 ? 3 : TOKEN_BYTES);
        for (uint32_t k = 0; k < lens[i]; k++) bytes[i][k] = alphabet[below(sizeof alphabet - 1)];
        at[i] = bytes[i];
    }
    assert_int_equal(cdz_grammar_vocab_of(at, lens, N_TOKENS, ends, 2, &vocab, NULL), CDZ_OK);
    return vocab;
}

/* Every token tried byte by byte. */
static void check_mask(cdz_grammar *g, const cdz_grammar_vocab *vocab, uint32_t state,
                       char bytes[N_TOKENS][TOKEN_BYTES], const uint32_t *lens)
{
    const uint64_t *mask;
    assert_int_equal(cdz_grammar_allowed(g, vocab, state, &mask, NULL), CDZ_OK);
    for (uint32_t id = 0; id < N_TOKENS; id++) {
        bool want = cdz_grammar_feed_token(g, vocab, state, (int32_t)id) != 0;
        if (lens[id] && cdz_grammar_feed(g, state, bytes[id], lens[id])) assert_true(want);
        if (id == 3 || id == 4) want |= cdz_grammar_accepts(g, state);
        assert_int_equal(want, mask[id / 64] >> (id % 64) & 1);
    }
}

static void check_walks(cdz_grammar *g)
{
    static char bytes[N_TOKENS][TOKEN_BYTES];
    uint32_t lens[N_TOKENS];
    cdz_grammar_vocab *vocab = random_vocab(bytes, lens);
    for (uint32_t walk = 0; walk < 20; walk++) {
        uint32_t state = cdz_grammar_start(g);
        for (uint32_t step = 0; step < 12 && state; step++) {
            check_mask(g, vocab, state, bytes, lens);
            uint32_t to = 0;
            for (uint32_t tries = 0; tries < 3000 && !to; tries++)
                to = cdz_grammar_feed_token(g, vocab, state, (int32_t)below(N_TOKENS));
            state = to;
        }
    }
    cdz_grammar_free(g);
    cdz_grammar_vocab_free(vocab);
}

static const char *const regexes[] = {
    "[ab]*",
    "(?s:.)*",
    "[^\"]*",
    "(a|ab)(c|b01)?1*",
    "\\p{L}+( [0-9]{1,3})*",
    "[a-b0-1]{3,9}",
    "(a?){12}a{12}",
    "[^\\x00-\\x7f]+",
    "(é|日|🙂){1,3}",
    "(?i)[ab]+,é",
};

static void a_mask_is_what_every_token_tried_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(regexes); i++) {
        cdz_grammar *g;
        cdz_error err = {0};
        if (cdz_grammar_from_regex(regexes[i], strlen(regexes[i]), NULL, &g, &err) != CDZ_OK)
            fail_msg("%s", err.text);
        check_walks(g);
    }
}

static const char *const gbnfs[] = {
    "root ::= pal\npal ::= \"a\" pal \"a\" | \"b\" pal \"b\" | \"0\"?",
    "root ::= root \"a\" | root \"b\" | [01]",
    "root ::= x | y\nx ::= y \"a\" | \"\"\ny ::= x \"b\" | \"1\"",
    "root ::= (\"a\" | \"aa\" | \"b\"){2,7} [0-1]*",
    "root ::= \"[\" (root (\",\" root)*)? \"]\" | [ab]",
    "root ::= <[5]> [ab]* !<[6-590]>",
};

static const char *const larks[] = {
    "start: e\ne: e \",\" t | t\nt: /[ab]+/ | \"[\" e \"]\"\n%ignore / +/",
    "start: (A [B])~2..4\nA: \"a\"\nB: \"b\" | A \"0\"\n%ignore \":\"\n%ignore /\\n/",
};

static void grammars_by_rules_have_exact_masks(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(gbnfs) + COUNT(larks); i++) {
        cdz_grammar *g;
        cdz_error err = {0};
        const char *text = i < COUNT(gbnfs) ? gbnfs[i] : larks[i - COUNT(gbnfs)];
        const cdz_status st = i < COUNT(gbnfs)
                                  ? cdz_grammar_from_gbnf(text, strlen(text), NULL, &g, &err)
                                  : cdz_grammar_from_lark(text, strlen(text), NULL, &g, &err);
        if (st != CDZ_OK) fail_msg("%s", err.text);
        check_walks(g);
    }
}

static bool takes(const char *gbnf, const char *text)
{
    cdz_grammar *g;
    assert_int_equal(cdz_grammar_from_gbnf(gbnf, strlen(gbnf), NULL, &g, NULL), CDZ_OK);
    const bool yes =
        cdz_grammar_accepts(g, cdz_grammar_feed(g, cdz_grammar_start(g), text, strlen(text)));
    cdz_grammar_free(g);
    return yes;
}

static void rules_that_begin_with_themselves_work(void **state)
{
    static const char around[] = "root ::= x | y\nx ::= y \"a\" | \"\"\ny ::= x \"b\" | \"1\"";
    static const char hidden[] = "root ::= n root \"a\" | \"b\"\nn ::= \"0\"?";
    (void)state;
    assert_true(takes(around, "babab"));
    assert_true(takes(around, "1aba"));
    assert_false(takes(around, "1bab"));
    assert_true(takes(hidden, "baaa"));
    assert_true(takes(hidden, "00baaa"));
    assert_false(takes(hidden, "00ba"));
}

static void depth_of_a_text_takes_no_stack(void **state)
{
    static const char gbnf[] = "root ::= \"[\" root \"]\" | \"a\"";
    enum { DEPTH = 200000 };
    char *text = malloc(DEPTH);
    cdz_grammar *g;
    (void)state;
    assert_non_null(text);
    assert_int_equal(cdz_grammar_from_gbnf(gbnf, strlen(gbnf), NULL, &g, NULL), CDZ_OK);
    memset(text, '[', DEPTH);
    uint32_t at = cdz_grammar_feed(g, cdz_grammar_start(g), text, DEPTH);
    at = cdz_grammar_feed(g, at, "a", 1);
    memset(text, ']', DEPTH);
    at = cdz_grammar_feed(g, at, text, DEPTH - 1);
    assert_false(cdz_grammar_accepts(g, at));
    assert_true(cdz_grammar_accepts(g, cdz_grammar_feed(g, at, "]", 1)));
    cdz_grammar_free(g);
    free(text);
}

static void equal_places_are_one_state(void **state)
{
    cdz_grammar *g;
    (void)state;
    assert_int_equal(cdz_grammar_from_regex("(ab|cd)*", 8, NULL, &g, NULL), CDZ_OK);
    const uint32_t once = cdz_grammar_feed(g, cdz_grammar_start(g), "ab", 2);
    assert_int_equal(cdz_grammar_feed(g, once, "cdab", 4), once);
    assert_int_equal(cdz_grammar_feed(g, once, "b", 1), 0);
    assert_int_equal(cdz_grammar_feed(g, 0, "ab", 2), 0);
    cdz_grammar_free(g);
}

static const struct {
    const char *regex, *says;
} refused[] = {
    {"a(?=b)", "look-around at byte 4"},
    {"(a)\\1", "back-reference at byte 5"},
    {"(ab", "a ( without )"},
    {"a)", "a ) that closes nothing at byte 2"},
    {"a{3,2}", "most is less"},
    {"*a", "nothing stands before at byte 1"},
    {"[a", "a class without ] at byte 1"},
    {"a\\b", "a word boundary"},
    {"a++", "possessive"},
    {"(?>a)", "an atomic group"},
    {"[b-a]", "before its beginning"},
    {"\\p{Nope}", "\\p property"},
    {"((a{1000}){1000}){1000}", "grammar_max_states"},
    {"[^\\x{0}-\\x{10FFFF}]", "empty"},
};

static void a_refusal_names_what_and_where(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        cdz_grammar *g = NULL;
        cdz_error err = {0};
        assert_int_not_equal(
            cdz_grammar_from_regex(refused[i].regex, strlen(refused[i].regex), NULL, &g, &err),
            CDZ_OK);
        assert_null(g);
        if (!strstr(err.text, refused[i].says)) fail_msg("%s: %s", refused[i].regex, err.text);
    }
}

static void depth_of_a_pattern_is_bounded(void **state)
{
    enum { DEPTH = 100000 };
    char *text = malloc(2 * DEPTH);
    cdz_grammar *g;
    cdz_error err = {0};
    (void)state;
    assert_non_null(text);
    memset(text, '(', DEPTH);
    memset(text + DEPTH, ')', DEPTH);
    assert_int_not_equal(cdz_grammar_from_regex(text, 2 * DEPTH, NULL, &g, &err), CDZ_OK);
    assert_non_null(strstr(err.text, "nested too deeply"));
    free(text);
}

static void choices_are_texts(void **state)
{
    static const char *const texts[] = {"yes", "no", "yesterday"};
    cdz_grammar *g;
    (void)state;
    assert_int_equal(cdz_grammar_from_choice(texts, 3, NULL, &g, NULL), CDZ_OK);
    const uint32_t yes = cdz_grammar_feed(g, cdz_grammar_start(g), "yes", 3);
    assert_true(cdz_grammar_accepts(g, yes));
    assert_int_not_equal(cdz_grammar_feed(g, yes, "ter", 3), 0);
    assert_int_equal(cdz_grammar_feed(g, yes, "no", 2), 0);
    check_walks(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_is_what_every_token_tried_says),
        cmocka_unit_test(grammars_by_rules_have_exact_masks),
        cmocka_unit_test(rules_that_begin_with_themselves_work),
        cmocka_unit_test(depth_of_a_text_takes_no_stack),
        cmocka_unit_test(equal_places_are_one_state),
        cmocka_unit_test(a_refusal_names_what_and_where),
        cmocka_unit_test(depth_of_a_pattern_is_bounded),
        cmocka_unit_test(choices_are_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
