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

enum { N_TOKENS = 900, N_SHORT = 600, SHORT_BYTES = 8, TOKEN_BYTES = 48 };

/* As tokens of real vocabularies are: words with a space, punctuation or an end of a string about them, some of them long. */
static uint32_t put_shaped(char *out)
{
    static const char *const pieces[] = {" ",
                                         "a",
                                         "ab",
                                         "getElement",
                                         "B",
                                         "\xC3\xA9",
                                         "\xE6\x97\xA5",
                                         ".",
                                         "_",
                                         "-",
                                         "\"",
                                         "\",",
                                         "\":",
                                         "\"}",
                                         "\n",
                                         "\\n",
                                         "\xC2\xA0",
                                         "\xE2\x80",
                                         "\xE6\x97",
                                         "7",
                                         "    ",
                                         "@",
                                         ",",
                                         "\xC2\x85",
                                         "internationalization"};
    uint32_t len = 0;
    for (uint32_t n = 1 + below(4); n; n--) {
        const char *piece = pieces[below(COUNT(pieces))];
        const uint32_t bytes = (uint32_t)strlen(piece);
        if (len + bytes > TOKEN_BYTES) break;
        memcpy(out + len, piece, bytes);
        len += bytes;
    }
    return len;
}

/* Bytes of one to eight, of a small alphabet with parts of characters in it, duplicates and tokens of none among them; and
 * shaped ones. */
static cdz_grammar_vocab *random_vocab(char bytes[N_TOKENS][TOKEN_BYTES], uint32_t *lens)
{
    static const char alphabet[] = "ab01,.\"{}[]: \n\\nue\xC3\xA9\xE6\x97\xA5\xF0\x9F\x99\x82-";
    static const int32_t ends[] = {3, 4};
    const char *at[N_TOKENS];
    cdz_grammar_vocab *vocab;
    for (uint32_t i = 0; i < N_TOKENS; i++) {
        lens[i] = i % 50 == 3 ? 0 : 1 + below(i % 3 ? 3 : SHORT_BYTES);
        for (uint32_t k = 0; k < lens[i]; k++) bytes[i][k] = alphabet[below(sizeof alphabet - 1)];
        if (i >= N_SHORT) lens[i] = put_shaped(bytes[i]);
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
    "(?:\\S+\\s+){0,3}\\S+",
    "[^\",]{1,60}",
    "[a-zA-Z]{2,30}",
    "[a-z]+( [a-z]+)*[.]?",
    "x[^\"]*|[^\"x]{3}[a-z ]*",
    "[\\p{L}]{1,4}[-_.]?[a-zA-Z0-9]{0,28}",
    "(?s:.){2,40}\"?",
    "[^7]*7",
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

/* Free text, the marker, at most two newlines, the language; the first marker counts. */
static void a_language_may_begin_behind_a_text(void **state)
{
    static const struct {
        const char *text;
        bool viable, accepts;
    } cases[] = {
        {"", true, false},
        {"ab", true, false},
        {"\xC3 \xFF", true, false},
        {"aabaab", true, false},
        {"aabaac", true, false},
        {"x aabaac1", true, true},
        {"aabaabaac12", true, true},
        {"aabaac\n1", true, true},
        {"aabaac\n\n1", true, true},
        {"aabaac\n\n\n", false, false},
        {"aabaac ", false, false},
        {"aabaac1a", false, false},
        {"12aabaacaabaac", false, false},
    };
    const cdz_grammar_options options = {.after = "aabaac"};
    cdz_grammar *g;
    (void)state;
    assert_int_equal(cdz_grammar_from_regex("[0-9]+", 6, &options, &g, NULL), CDZ_OK);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const uint32_t at =
            cdz_grammar_feed(g, cdz_grammar_start(g), cases[i].text, strlen(cases[i].text));
        if ((at != 0) != cases[i].viable || cdz_grammar_accepts(g, at) != cases[i].accepts)
            fail_msg("'%s'", cases[i].text);
    }
    check_walks(g);
}

static void members_are_drawn(void **state)
{
    uint64_t draws = 7;
    (void)state;
    for (size_t i = 0; i < COUNT(regexes); i++)
        for (int k = 0; k < 20; k++) {
            cdz_grammar *g;
            cdz_buf text = {0};
            assert_int_equal(cdz_grammar_from_regex(regexes[i], strlen(regexes[i]), NULL, &g, NULL),
                             CDZ_OK);
            assert_int_equal(cdz_grammar_sample(g, &draws, &text, NULL), CDZ_OK);
            assert_true(cdz_grammar_accepts(
                g, cdz_grammar_feed(g, cdz_grammar_start(g), text.data, text.len)));
            cdz_buf_free(&text);
            cdz_grammar_free(g);
        }
}

/* Its walk never comes to an end by itself: the shortest way does. */
static void a_member_ends(void **state)
{
    static const char deep[] = "root ::= \"[\" root root \"]\" | \"(\" root \")\" | \"end\"";
    uint64_t draws = 1;
    (void)state;
    for (int k = 0; k < 20; k++) {
        cdz_grammar *g;
        cdz_buf text = {0};
        assert_int_equal(cdz_grammar_from_gbnf(deep, sizeof deep - 1, NULL, &g, NULL), CDZ_OK);
        assert_int_equal(cdz_grammar_sample(g, &draws, &text, NULL), CDZ_OK);
        assert_true(
            cdz_grammar_accepts(g, cdz_grammar_feed(g, cdz_grammar_start(g), text.data, text.len)));
        cdz_buf_free(&text);
        cdz_grammar_free(g);
    }
}

static const char *const gbnfs[] = {
    "root ::= pal\npal ::= \"a\" pal \"a\" | \"b\" pal \"b\" | \"0\"?",
    "root ::= root \"a\" | root \"b\" | [01]",
    "root ::= x | y\nx ::= y \"a\" | \"\"\ny ::= x \"b\" | \"1\"",
    "root ::= (\"a\" | \"aa\" | \"b\"){2,7} [0-1]*",
    "root ::= \"[\" (root (\",\" root)*)? \"]\" | [ab]",
    "root ::= <[5]> [ab]* !<[6-890]>",
};

static const char *const larks[] = {
    "start: (T c)* T\nT: ~/(?s:.)*\\[a(?s:.)*/\nc: \"[a\" %json {\"enum\": [\"b\", 10]} \"]\"",
    "start: ~/[ab]*/ | \"a\"",
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

/* --- schemas ------------------------------------------------------------------------------------ */

static cdz_status from_schema(const char *text, cdz_grammar **g, cdz_error *err)
{
    return cdz_grammar_from_schema(text, strlen(text), NULL, g, err);
}

static const char *const schemas[] = {
    "{}",
    "{\"type\": \"string\", \"maxLength\": 3}",
    "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"ab\": {}}}",
    "{\"type\": \"array\", \"items\": {\"$ref\": \"#\"}, \"maxItems\": 2}",
    "{\"enum\": [\"a\", \"ab\", 1, 10, null, [\"b\", {\"a\": 0}]]}",
    "{\"type\": \"object\", \"patternProperties\": {\"^a\": {\"type\": \"integer\"}, \"b$\": {}}}",
    "{\"type\": \"number\", \"minimum\": -0.1, \"exclusiveMaximum\": 10}",
    "{\"type\": \"array\", \"items\": {\"type\": \"string\", \"minLength\": 2, \"maxLength\": 30}}",
    "{\"type\": \"string\", \"minLength\": 26, \"maxLength\": 60}",
    "{\"type\": \"string\", \"maxLength\": 100000}",
    "{\"type\": \"string\", \"pattern\": \"^(?:\\\\S+\\\\s+){0,3}\\\\S+$\"}",
    "{\"type\": \"string\", \"pattern\": \"^[^\\\\n]{1,40}$\"}",
    "{\"type\": \"array\", \"items\": {\"type\": \"string\", \"format\": \"email\"}}",
    "{\"type\": \"object\", \"properties\": {\"a\": {}, \"ab_7\": {\"type\": \"string\"}, \"getElement\": {}}}",
    "{\"type\": \"array\", \"items\": {\"enum\": [\"aa\", \"ab7\", \"B.a\", \"getElementB\"]}}",
};

static void schemas_have_exact_masks(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(schemas); i++) {
        cdz_grammar *g;
        cdz_error err = {0};
        if (from_schema(schemas[i], &g, &err) != CDZ_OK) fail_msg("%s", err.text);
        check_walks(g);
    }
}

static const struct {
    const char *schema, *says;
} refused_schemas[] = {
    {"{\"not\": {}}", "schema:1:9: not is not supported"},
    {"{\"properties\": {\"a\": {\"contains\": {}}}}", "contains is not supported"},
    {"{\"uniqueItems\": true}", "uniqueItems is not supported"},
    {"{\"unevaluatedProperties\": false}", "unevaluatedProperties is not supported"},
    {"{\"$ref\": \"http://example.org/a\"}", "it leads out of the document"},
    {"{\"$ref\": \"#/$defs/none\"}", "nothing is at '#/$defs/none'"},
    {"{\"$ref\": \"#\"}", ""}, /* any value: a schema that only names itself asks nothing */
    {"{\"format\": \"color\"}", "format 'color' is not supported"},
    {"{\"pattern\": \"(?=a)b\"}", "pattern: the pattern: look-around"},
    {"{\"type\": \"integer\", \"minimum\": 5, \"maximum\": 3}", "its language is empty"},
    {"{\"type\": \"text\"}", "type: expected null, boolean"},
    {"{\"oneOf\": [{\"type\": \"string\"}, {\"minLength\": 2}]}", "oneOf is not supported"},
    {"{\"multipleOf\": 0.3}", "multipleOf is not supported"},
    {"{\"maxProperties\": 2}", "maxProperties is not supported"},
    {"{\"type\": \"string\", \"minLength\": -1}", "minLength: expected a whole number"},
    {"{\"$defs\": {\"a\": {\"$ref\": \"#/$defs/b\", \"type\": \"array\"}, \"b\": {\"type\": \"object\"}}, "
     "\"$ref\": \"#/$defs/a\"}",
     "its language is empty"},
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#\"}}, \"required\": [\"a\"]}",
     "its language is empty"},
    {"[]", "expected a schema, found an array"},
};

static void a_schema_is_refused_by_its_keyword(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused_schemas); i++) {
        cdz_grammar *g = NULL;
        cdz_error err = {0};
        const cdz_status st = from_schema(refused_schemas[i].schema, &g, &err);
        const bool fine = !*refused_schemas[i].says;
        if ((st == CDZ_OK) != fine || !strstr(err.text, refused_schemas[i].says))
            fail_msg("%s: %s", refused_schemas[i].schema, err.text);
        cdz_grammar_free(g);
    }
}

/* n pieces, one after the other, between a head and a tail. */
static char *long_schema(const char *head, const char *piece, uint32_t n, const char *tail)
{
    cdz_buf b = {0};
    cdz_buf_puts(&b, head);
    for (uint32_t i = 0; i < n; i++) {
        const char *number = strchr(piece, '%');
        cdz_buf_add(&b, piece, number ? (size_t)(number - piece) : strlen(piece));
        if (number) cdz_buf_printf(&b, "%u", i);
        if (number) cdz_buf_puts(&b, number + 1);
    }
    cdz_buf_puts(&b, tail);
    assert_false(b.failed);
    return b.data;
}

static void check_long(char *text, const char *value, const char *says)
{
    cdz_grammar *g = NULL;
    cdz_error err = {0};
    const cdz_status st = from_schema(text, &g, &err);
    if (says ? st == CDZ_OK || !strstr(err.text, says) : st != CDZ_OK) fail_msg("%s", err.text);
    if (st == CDZ_OK)
        assert_true(cdz_grammar_accepts(
            g, cdz_grammar_feed(g, cdz_grammar_start(g), value, strlen(value))));
    cdz_grammar_free(g);
    free(text);
}

static void large_schemas_work_or_meet_a_limit(void **state)
{
    (void)state;
    check_long(long_schema("{\"enum\": [", "\"value-%\", ", 100000, "null]}"), "\"value-99999\"",
               NULL);
    check_long(
        long_schema("{\"properties\": {", "\"key%\": {\"type\": \"null\"}, ", 400, "\"z\": {}}}"),
        "{\"key7\": null, \"key399\": null, \"other\": 1}", NULL);
    check_long(long_schema("{\"type\": \"string\", \"maxLength\": 10000", "0", 3, "}"), "\"abc\"",
               NULL);
    check_long(long_schema("", "{\"items\": ", 200, "{}"), NULL, "schema");
    check_long(long_schema("", "{\"items\": ", 100000, "{}"), NULL, "schema");
    check_long(long_schema("{\"pattern\": \"", "(a", 5000, "\"}"), NULL, "nested too deeply");
    check_long(long_schema("{\"pattern\": \"^", "((a?){500}){500}", 3, "$\"}"), NULL,
               "grammar_max_states");
    check_long(long_schema("{\"maxLength\": 9, \"pattern\": \"^(.?){8000}$\"", "", 1, "}"), NULL,
               "grammar_max");
    check_long(long_schema("{\"pattern\": \"(a|b)*a(a|b){30}\", \"maxLength\": 100", "", 1, "}"),
               NULL, "grammar_max_states");
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
        cmocka_unit_test(a_language_may_begin_behind_a_text),
        cmocka_unit_test(members_are_drawn),
        cmocka_unit_test(a_member_ends),
        cmocka_unit_test(rules_that_begin_with_themselves_work),
        cmocka_unit_test(depth_of_a_text_takes_no_stack),
        cmocka_unit_test(schemas_have_exact_masks),
        cmocka_unit_test(a_schema_is_refused_by_its_keyword),
        cmocka_unit_test(large_schemas_work_or_meet_a_limit),
        cmocka_unit_test(equal_places_are_one_state),
        cmocka_unit_test(a_refusal_names_what_and_where),
        cmocka_unit_test(depth_of_a_pattern_is_bounded),
        cmocka_unit_test(choices_are_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
