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
    if (below(2)) cdz_grammar_prepare(g, vocab);
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
    "(?:\\S+\\s+){0,40}\\S+",
    "([ab01]{1,3},){2,20}",
    "(?:[ab]{2,5}[.,]){3,}0*",
    "[^\\n]{1,200}",
    "(([ab]|日){1,2}1?){4,30}x",
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
    "root ::= a_pal\na_pal ::= \"a\" a_pal \"a\" | \"b\" a_pal \"b\" | \"0\"?",
    "root ::= root \"a\" | root \"b\" | [01]",
    "root ::= x | y\nx ::= y \"a\" | \"\"\ny ::= x \"b\" | \"1\"",
    "root ::= (\"a\" | \"aa\" | \"b\"){2,7} [0-1]*",
    "root ::= \"[\" (root (\",\" root)*)? \"]\" | [ab]",
    "root ::= <[5]> [ab]* !<[6-890]>",
    "root ::= ([ab]{1,3} \",\"){2,30} | \"[\" [0-1]{5,} \"]\"",
    "root ::= item{3,20}\nitem ::= [ab]+ \".\" | \"{\" item{1,4} \"}\"",
    "root ::= ([^\\n]{3,40} \",\"?){1,9}",
};

static const char *const larks[] = {
    "start: (T c)* T\nT: ~/(?s:.)*\\[a(?s:.)*/\nc: \"[a\" %json {\"enum\": [\"b\", 10]} \"]\"",
    "start: ~/[ab]*/ | \"a\"",
    "start: e\ne: e \",\" t | t\nt: /[ab]+/ | \"[\" e \"]\"\n%ignore / +/",
    "start: A | ~/[ab01]*/\nA: /[ab]+/ & ~/.*aa.*/ & ~B | \"0\"\nB: (\"b\" | \"日\")~2..3",
    "start: \"[\" %regex {\"substring_words\": \"a b01 ,a\"} \"]\" ~A\nA: ~[/[ab]{1,3}/ \",\"]",
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

#define TAGS(tag) "{\"triggers\": [\"<\", \"<a\", \"[\"], \"structures\": [" tag "]}"
#define FORMAT(tag)                                                                                \
    "{\"format\": {\"type\": \"triggered_tags\", \"triggers\": [\"<\"], \"tags\": [" tag "]}}"
#define TAG "{\"begin\": \"<a>\", \"schema\": {\"enum\": [1, \"b\"]}, \"end\": \".\"}"

static const char tags[] =
    TAGS(TAG ", {\"begin\": \"[\", \"schema\": {\"type\": \"array\"}, \"end\": \"\"}");

/* Text without a trigger, and tags between. */
static void tags_hold_what_fits_their_schemas(void **state)
{
    static const struct {
        const char *text;
        bool viable, accepts;
    } cases[] = {
        {"", true, true},
        {"a\xC3\xA9 b", true, true},
        {"a <", true, false},
        {"a <b", false, false},
        {"<a>", true, false},
        {"<a>1", true, false},
        {"<a>1.", true, true},
        {"<a>2", false, false},
        {"<a>\"b\". <a>1.x", true, true},
        {"<a>1<", false, false},
        {"[[]", true, true},
        {"[[]]", true, true},
        {"[[1, 2]<a>1.", true, true},
        {"[1", false, false},
    };
    cdz_grammar *g;
    cdz_error err = {0};
    (void)state;
    if (cdz_grammar_from_tags(tags, sizeof tags - 1, NULL, &g, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const uint32_t at =
            cdz_grammar_feed(g, cdz_grammar_start(g), cases[i].text, strlen(cases[i].text));
        if ((at != 0) != cases[i].viable || cdz_grammar_accepts(g, at) != cases[i].accepts)
            fail_msg("'%s'", cases[i].text);
    }
    check_walks(g);
}

static const struct {
    const char *text, *says; /* NULL: it is fine */
} documents_of_tags[] = {
    {FORMAT("{\"begin\": \"<\", \"content\": {\"type\": \"json_schema\", \"json_schema\": true}, "
            "\"end\": \">\"}"),
     NULL},
    {"[]", "tags:1:1: expected an object: expected {\"structures\""},
    {"{", "tags:1:2: "},
    {"{}", "tags:1:1: structures: expected a list that is not empty"},
    {"{\"structures\": [" TAG "]}", "triggers: expected a list"},
    {"{\"structures\": [" TAG "], \"triggers\": [\"\"]}", "a trigger must be a text, and not empty"},
    {"{\"structures\": [" TAG "], \"triggers\": [\"b\"]}", "begin: it must begin with a trigger"},
    {"{\"structures\": [" TAG "], \"trigger\": [\"<\"]}", "trigger: expected {\"structures\""},
    {TAGS("{\"begin\": \"<\", \"end\": \"\"}"), "schema: expected a JSON Schema"},
    {TAGS("{\"begin\": \"<\", \"schema\": {}}"), "end: expected a text"},
    {TAGS("\n{\"begin\": \"<\", \"schema\": {\"format\": \"color\"}, \"end\": \"\"}"),
     "schema:2:37: format 'color' is not supported"},
    {FORMAT("{\"begin\": \"<\", \"content\": {\"type\": \"regex\"}, \"end\": \">\"}"),
     "content: expected one of type json_schema"},
    {"{\"format\": {\"type\": \"triggered_tags\", \"at_least_one\": true}}",
     "at_least_one: it must be false"},
    {"{\"format\": {\"type\": \"sequence\"}}", "format: expected one of type triggered_tags"},
};

static void what_is_wrong_with_tags_is_said(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(documents_of_tags); i++) {
        const char *text = documents_of_tags[i].text, *says = documents_of_tags[i].says;
        cdz_grammar *g = NULL;
        cdz_error err = {0};
        const cdz_status st = cdz_grammar_from_tags(text, strlen(text), NULL, &g, &err);
        if (says ? st == CDZ_OK || !strstr(err.text, says) : st != CDZ_OK)
            fail_msg("%s: %s", text, err.text);
        cdz_grammar_free(g);
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

static bool accepts(cdz_grammar *g, const char *text)
{
    return cdz_grammar_accepts(g, cdz_grammar_feed(g, cdz_grammar_start(g), text, strlen(text)));
}

/* --- schemas ------------------------------------------------------------------------------------ */

/* On a busy machine, with sanitizers, compiling what takes a second takes twenty; what takes a square of it still meets this. */
static const cdz_grammar_options patient = {.limits = {.max_ms = 120000}};

static cdz_status from_schema(const char *text, cdz_grammar **g, cdz_error *err)
{
    return cdz_grammar_from_schema(text, strlen(text), &patient, g, err);
}

static const char *const schemas[] = {
    "{\"type\": \"array\", \"items\": {\"enum\": [\"a\", 1, 10, null]}, \"uniqueItems\": true, \"maxItems\": 3}",
    ("{\"type\": \"object\", \"properties\": {\"a\": {}}, \"allOf\": [{\"patternProperties\": {\"^b\": {}}}], "
     "\"unevaluatedProperties\": {\"type\": \"null\"}}"),
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
    "{\"x-guidance\": {\"whitespace_pattern\": \" {0,2}\", \"item_separator\": \"[,b]a?\"}, \"items\": {\"enum\": [0, 1, [0, 1]]}}",
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

/* What x-guidance says of what stands between tokens, and of oneOf. */
static const struct {
    const char *options, *schema, *in[4], *out[4];
} layouts[] = {
    {"\"item_separator\": \", \", \"key_separator\": \": ?\", \"whitespace_flexible\": false",
     "\"properties\": {\"a\": {}, \"b\": {}}, \"type\": \"object\"",
     {"{\"a\": 1, \"b\":[1, {\"c\": 2}]}", "{}", "{\"a\":1, \"x\": 2, \"y\": 3}"},
     {"{\"a\":  1}", "{ \"a\": 1}", "{\"a\": 1,\"b\": 2}", "{\"a\": [1,2]}"}},
    {"\"item_separator\": \";\"",
     "\"enum\": [[1, {\"a\": 2, \"b\": 3}]]",
     {"[1;{\"a\":2;\"b\":3}]", "[ 1 ; {\"a\" : 2;\"b\":3 } ]"},
     {"[1,{\"a\":2;\"b\":3}]"}},
    {"\"item_separator\": \"\", \"whitespace_flexible\": false",
     "\"items\": {\"enum\": [1, 2]}, \"type\": \"array\", \"maxItems\": 3",
     {"[]", "[1]", "[121]"},
     {"[1,2]", "[1211]", "[1 2]"}},
    {"\"whitespace_pattern\": \"\\\\n +\", \"whitespace_flexible\": false",
     "\"type\": \"object\", \"minProperties\": 1, \"maxProperties\": 2",
     {"{\"a\":1}", "{\n  \"a\":1\n }", "{\n \"a\":\n 1,\"b\":2}"},
     {"{ \"a\":1}", "{\"a\":1\n}"}},
    {"\"whitespace_pattern\": \" \", \"item_separator\": null",
     "\"type\": \"array\", \"contains\": {\"const\": 1}, \"items\": {\"type\": \"integer\"}",
     {"[1]", "[ 1 ]", "[0 , 1 ]", "[0, 1,2]"},
     {"[  1]", "[0  ,1]", "[]"}},
    {"\"coerce_one_of\": true",
     "\"oneOf\": [{\"type\": \"string\"}, {\"minLength\": 2}, {\"const\": \"ab\"}]",
     {"\"ab\"", "\"a\"", "7"},
     {NULL}},
    {"\"coerce_one_of\": true",
     "\"enum\": [1, 2, 3], \"oneOf\": [{\"minimum\": 2}, {\"maximum\": 2, \"minimum\": 2}]",
     {"2", "3"},
     {"1"}},
    {"\"coerce_one_of\": true",
     "\"enum\": [1, 2, 3], \"not\": {\"oneOf\": [{\"minimum\": 2}, {\"maximum\": 2, \"minimum\": 2}]}",
     {"1"},
     {"2", "3"}},
    {"\"coerce_one_of\": true",
     "\"type\": \"object\", \"unevaluatedProperties\": false, \"oneOf\": [{\"properties\": {\"a\": {}}, \"required\": "
     "[\"a\"]}, {\"properties\": {\"b\": {}}, \"required\": [\"b\"]}]",
     {"{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"b\":1}"},
     {"{\"a\":1,\"c\":1}", "{}"}},
    {"\"coerce_one_of\": false", "\"oneOf\": [{\"minimum\": 2}, {\"maximum\": 2}]", {"1", "3"}, {"2"}},
};

static void tokens_stand_apart_as_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        cdz_grammar *g;
        cdz_error err = {0};
        char text[512];
        (void)snprintf(text, sizeof text, "{\"x-guidance\": {%s}, %s}", layouts[i].options,
                       layouts[i].schema);
        if (from_schema(text, &g, &err) != CDZ_OK) fail_msg("%s: %s", text, err.text);
        for (size_t k = 0; k < 4; k++) {
            const char *in = layouts[i].in[k], *out = layouts[i].out[k];
            if (in && !accepts(g, in)) fail_msg("%s: '%s' is refused", text, in);
            if (out && accepts(g, out)) fail_msg("%s: '%s' is accepted", text, out);
        }
        cdz_grammar_free(g);
    }
}

static const struct {
    const char *schema, *says;
} refused_schemas[] = {
    {"{\"x-guidance\": {\"lenient\": true}}",
     "schema:1:28: x-guidance: 'lenient' is not supported; there are whitespace_flexible, "},
    {"{\"x-guidance\": {\"item_separator\": 1}}",
     "schema:1:35: x-guidance: item_separator: expected a regular expression, found an integer"},
    {"{\"x-guidance\": {\"coerce_one_of\": 1}}", "coerce_one_of: expected true or false, found "},
    {"{\"x-guidance\": {\"whitespace_pattern\": \"(\"}}",
     "x-guidance: whitespace_pattern: a ( without )"},
    {"{\"x-guidance\": []}", "x-guidance: expected an object"},
    {"{\"items\": {\"x-guidance\": {}}}", "x-guidance is not supported: below the top"},
    {"{\"not\": {}}", "its language is empty"},
    {"{\"not\": {\"format\": \"email\"}}", "schema:1:20: format is not supported: below not"},
    {"{\"not\": {\"format\": \"nope\"}}", "schema:1:20: format is not supported: below not"},
    {"{\"type\": \"array\", \"contains\": {\"type\": \"null\"}, \"maxItems\": 60000}",
     "contains is not supported: with counts so large"},
    {"{\"uniqueItems\": true}",
     "uniqueItems is not supported: but for items that one enum spells out, all by the same schema"},
    {"{\"uniqueItems\": true, \"contains\": {}, \"items\": {\"enum\": [1, 2]}}",
     "uniqueItems is not supported: beside contains"},
    {"{\"uniqueItems\": true, \"items\": {\"enum\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1.0]}}",
     ""},
    {"{\"uniqueItems\": true, \"items\": {\"enum\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]}}",
     "uniqueItems is not supported: of more than 12 values (grammar_max_states)"},
    {"{\"type\": \"object\", \"anyOf\": [{\"patternProperties\": {\"a\": {}}}, {\"required\": [\"b\"]}], "
     "\"unevaluatedProperties\": false}",
     "unevaluatedProperties is not supported: beside an anyOf whose alternatives may hold together"},
    {"{\"type\": \"array\", \"contains\": {}, \"unevaluatedItems\": false}",
     "unevaluatedItems is not supported: beside contains"},
    {"{\"if\": {\"properties\": {\"a\": {}}}, \"unevaluatedProperties\": false}",
     "unevaluatedProperties is not supported: beside an if without then and else"},
    {"{\"allOf\": [{\"$ref\": \"#/$defs/x\"}], \"$ref\": \"#/$defs/x\", \"unevaluatedProperties\": false, "
     "\"$defs\": {\"x\": {\"type\": \"object\"}}}",
     "unevaluatedProperties is not supported: where one schema holds for two reasons"},
    {"{\"enum\": [{}], \"unevaluatedProperties\": false}",
     "unevaluatedProperties is not supported: of a value that is spelt out"},
    {"{\"$recursiveRef\": \"#a\"}", "$recursiveRef: expected \"#\""},
    {"{\"$recursiveAnchor\": true, \"properties\": {\"a\": {\"$recursiveRef\": \"#\"}, \"b\": {\"$id\": "
     "\"b\", \"$recursiveAnchor\": true}}}",
     "$recursiveRef is not supported: several schemas have $recursiveAnchor"},
    {"{\"$ref\": \"http://example.org/a\"}", "it leads out of the document"},
    {"{\"$ref\": \"#/$defs/none\"}", "nothing is at '#/$defs/none'"},
    {"{\"$ref\": \"#\"}", ""}, /* any value: a schema that only names itself asks nothing */
    {"{\"format\": \"color\"}", "format 'color' is not supported"},
    {"{\"pattern\": \"(?=a)b\"}", "pattern: the pattern: look-around"},
    {"{\"type\": \"integer\", \"minimum\": 5, \"maximum\": 3}", "its language is empty"},
    {"{\"type\": \"text\"}", "type: expected null, boolean"},
    {"{\"oneOf\": [{\"type\": \"string\"}, {\"format\": \"email\"}]}", "oneOf is not supported"},
    {"{\"multipleOf\": 0.123456}", "multipleOf is not supported"},
    {"{\"$dynamicRef\": \"#a\", \"$dynamicAnchor\": \"a\", \"$defs\": {\"b\": {\"$id\": \"b\", "
     "\"$dynamicAnchor\": \"a\"}}}",
     "several schemas have this $dynamicAnchor"},
    {"{\"propertyNames\": {\"anyOf\": [{\"minLength\": 2}]}}", "propertyNames is not supported"},
    {"{\"type\": \"string\", \"minLength\": -1}", "minLength: expected a whole number"},
    {"{\"$defs\": {\"a\": {\"$ref\": \"#/$defs/b\", \"type\": \"array\"}, \"b\": {\"type\": \"object\"}}, "
     "\"$ref\": \"#/$defs/a\"}",
     "its language is empty"},
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#\"}}, \"required\": [\"a\"]}",
     "its language is empty"},
    {"[]", "expected a schema, found an array"},
    {"{\"properties\": {\"a\": {\"pattern\": \"a.{20}b\", \"maxLength\": 90}}}",
     "schema:1:22: pattern: a pattern needs more than 60000 states (grammar_max_states)"},
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
        for (const char *at = piece; *at; at += *at == '%') {
            const size_t len = strcspn(at, "%");
            cdz_buf_add(&b, at, len);
            at += len;
            if (*at) cdz_buf_printf(&b, "%u", i);
        }
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

/* A state of too many places is found before a text comes there; the place that has most of them is named. */
static void crowds_are_found_when_compiling(void **state)
{
    static const char crowd[] =
        "a text may stand at more than 50000 places of the grammar (grammar_max_states)";
    static const char *const from[] = {"GBNF:2:1: the rule 'names': ",
                                       "Lark:2:1: the rule 'names': "};
    char says[160];
    cdz_grammar *g = NULL;
    cdz_error err = {0};
    (void)state;
    snprintf(says, sizeof says, "schema:1:11: properties: %s", crowd);
    check_long(long_schema("{\"items\": {\"properties\": {", "\"key%\": {\"type\": \"null\"}, ",
                           51000, "\"z\": {}}, \"additionalProperties\": false}}"),
               NULL, says);
    snprintf(says, sizeof says, "schema:1:1: anyOf: %s", crowd);
    check_long(long_schema("{\"anyOf\": [",
                           "{\"type\": \"object\", \"required\": [\"k%\"], \"properties\": {\"k%\": "
                           "{\"type\": \"null\"}}}, ",
                           26000, "false]}"),
               NULL, says);
    snprintf(says, sizeof says, "schema:1:1: enum: %s", crowd);
    check_long(long_schema("{\"enum\": [", "[%], ", 51000, "[]]}"), NULL, says);
    check_long(long_schema("{\"enum\": [", "[%], ", 9000, "[]]}"), "[8999]", NULL);
    for (int lark = 0; lark < 2; lark++) {
        char *text =
            long_schema(lark ? "start: names\nnames: " : "root ::= names\nnames ::= ", "\"k%\" | ",
                        51000, "\"z\"");
        const cdz_status st = lark ? cdz_grammar_from_lark(text, strlen(text), &patient, &g, &err)
                                   : cdz_grammar_from_gbnf(text, strlen(text), &patient, &g, &err);
        snprintf(says, sizeof says, "%s%s", from[lark], crowd);
        assert_int_equal(st, CDZ_E_LIMIT);
        assert_string_equal(err.text, says);
        free(text);
    }
    static const char *same[51000];
    for (size_t i = 0; i < 51000; i++) same[i] = "a choice";
    snprintf(says, sizeof says, "choice: %s", crowd);
    assert_int_equal(cdz_grammar_from_choice(same, 51000, &patient, &g, &err), CDZ_E_LIMIT);
    assert_string_equal(err.text, says);
}

/* What grows with the square of a schema would take minutes here. */
static void large_schemas_take_no_square_of_time(void **state)
{
    static const char choice[] = "{\"properties\": {\"kind\": {\"const\": \"k%\"}}, \"type\": "
                                 "\"object\", \"required\": [\"kind\"]}, ";
    cdz_buf both = {0};
    (void)state;
    check_long(
        long_schema("{\"oneOf\": [", "{\"const\": \"value-%\"}, ", 12000, "{\"enum\": [1, 2]}]}"),
        "\"value-11999\"", NULL);
    check_long(long_schema("{\"oneOf\": [", choice, 12000,
                           "{\"properties\": {\"kind\": {\"enum\": [1, 2]}}, \"type\": "
                           "\"object\", \"required\": [\"kind\"]}]}"),
               "{\"kind\": \"k11999\"}", NULL);
    char *first = long_schema("", "\"value-%\", ", 100000, "");
    cdz_buf_printf(&both, "{\"allOf\": [{\"enum\": [%snull]}, {\"enum\": [1, %s0]}]}", first, first);
    free(first);
    assert_false(both.failed);
    check_long(both.data, "\"value-99999\"", NULL);
    both = (cdz_buf){0};
    first = long_schema("", "\"d%\": {\"$anchor\": \"a%\", \"type\": \"null\"}, ", 12000, "");
    char *second = long_schema("", "{\"$ref\": \"#a%\"}, ", 12000, "");
    cdz_buf_printf(&both,
                   "{\"$defs\": {%s\"z\": {\"$anchor\": \"z\"}}, \"anyOf\": [%s{\"$ref\": \"#z\"}]}",
                   first, second);
    free(first);
    free(second);
    assert_false(both.failed);
    check_long(both.data, "1", NULL);
}

/* Pairs of a oneOf that nothing tells apart at once: the limit of time holds while they are looked at. */
static void many_terminals_take_no_square_of_time(void **state)
{
    enum { N = 12000 };
    cdz_buf text = {0};
    cdz_grammar *g = NULL;
    cdz_error err = {0};
    (void)state;
    cdz_buf_printf(&text, "start: A0 | A%d", N - 1);
    for (int i = 0; i < N; i++) cdz_buf_printf(&text, "\nA%d: \"x%d\" & ~\"y%d\"", i, i, i);
    if (cdz_grammar_from_lark(text.data, text.len, &patient, &g, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    assert_true(cdz_grammar_accepts(g, cdz_grammar_feed(g, cdz_grammar_start(g), "x11999", 6)));
    assert_false(cdz_grammar_accepts(g, cdz_grammar_feed(g, cdz_grammar_start(g), "y0", 2)));
    cdz_grammar_free(g);
    cdz_buf_free(&text);
}

static void a_slow_schema_ends_at_its_time(void **state)
{
    char *text = long_schema("{\"oneOf\": [", "{\"type\": \"string\", \"const\": \"v%\"}, ", 30000,
                             "{\"type\": \"null\"}]}");
    const cdz_grammar_options options = {.limits = {.max_ms = 300}};
    cdz_grammar *g = NULL;
    cdz_error err = {0};
    (void)state;
    assert_int_equal(cdz_grammar_from_schema(text, strlen(text), &options, &g, &err), CDZ_E_LIMIT);
    assert_string_equal(err.text, "schema:1:1: oneOf: the grammar takes longer than 300 ms "
                                  "(grammar_max_ms)");
    free(text);
}

static void a_schema_of_ten_megabytes_is_read(void **state)
{
    static const char described[] =
        "\"key%\": {\"type\": \"integer\", \"description\": \"What the field of this name holds, and "
        "what it is for; no text of an answer hangs on it, however long it is, and whatever it says "
        "of the field: its unit, its source, those who may write it, and when it was last looked at. "
        "Of a field like this there are many, since somebody wrote a program that makes them all, "
        "with a text that is the same for each of them\"}, ";
    (void)state;
    check_long(long_schema("{\"properties\": {", described, 24000,
                           "\"z\": {}}, \"additionalProperties\": false}"),
               "{\"key23999\": 5}", NULL);
    check_long(long_schema("{\"enum\": [", "\"a value of some length, with a number in it: %\", ",
                           180000, "null]}"),
               "\"a value of some length, with a number in it: 179999\"", NULL);
    check_long(long_schema("{\"type\": \"null\", \"description\": \"", "ten bytes ", 1050000, "\"}"),
               "null", NULL);
}

/* Independent choices multiply; those that rule each other out do not. */
static void choices_of_a_place_are_bounded(void **state)
{
    static const char apart[] =
        "{\"if\": {\"properties\": {\"k\": {\"const\": %}}, \"required\": [\"k\"]}, "
        "\"then\": {\"required\": [\"a\"]}}, ";
    (void)state;
    check_long(long_schema("{\"type\": \"object\", \"dependentRequired\": {", "\"k%\": [\"a\"], ",
                           13, "\"b\": [\"a\"]}}"),
               NULL, "dependentRequired is not supported: beside others at one place");
    check_long(
        long_schema("{\"type\": \"object\", \"allOf\": [",
                    "{\"if\": {\"required\": [\"k%\"]}, \"then\": {\"required\": [\"a%\"]}}, ", 13,
                    "{}]}"),
        NULL, "if is not supported: beside others at one place");
    check_long(long_schema("{\"type\": \"object\", \"dependentRequired\": {", "\"k%\": [\"a\"], ",
                           5, "\"b\": [\"a\"]}}"),
               "{\"k1\": 1, \"a\": 1}", NULL);
    check_long(long_schema("{\"type\": \"object\", \"properties\": {\"k\": {\"type\": \"integer\"}}, "
                           "\"required\": [\"k\"], \"allOf\": [",
                           apart, 24, "{}]}"),
               "{\"k\": 3, \"a\": 1}", NULL);
}

static const struct {
    const char *grammar, *in[5], *out[5];
} lark_sets[] = {
    {"start: A\nA: /[a-z]+/ & ~\"if\"", {"i", "iff", "a"}, {"if", "", "A"}},
    {"start: A\nA: B & C | \"x\" & /./ \"y\"?\nB: \"a\"{2,}\nC: (\"aa\" | \"b\")+",
     {"aa", "aaaa", "x"},
     {"a", "aaa", "b", "xy"}},
    {"start: A\nA: ~B+\nB: \"a\"", {"", "b", "aa", "ba"}, {NULL}},
    {"start: A\nA: ~(\"a\" | B) & /(?s:.)/\nB: ~~\"b\"", {"c", "\n", "日"}, {"a", "b", "cc"}},
    {"start: \"<\" ~/[a-c]*/ \">\"", {"<d>", "<>>", "<ad>"}, {"<>", "<abc>", "<d"}},
    {"start: ~A \";\"\nA: /a/\n%ignore / /", {"b;", ";", "aa ;"}, {"a;", "a"}},
    {"start: A\nA: C & ~D\nD: C & /.*z/\nC: /[yz]{1,3}/", {"y", "zzy"}, {"z", "yz", "yyyy"}},
    {"start: A\nA: /(a|b)*/ & /(b|c)*/ & \"b\"~0..2", {"", "b", "bb"}, {"bbb", "a"}},
    {"start[capture=\"x\"]: %regex {\"substring_words\": \"to be, or\"}",
     {"", "to", " be, ", "be", "to be, or"},
     {"t", "o", "to or", "be,or"}},
    {"start: A\nA: %regex {\"substring_chars\": \"aéb\"} \"!\"", {"!", "aé!", "éb!"}, {"ab!", "b"}},
    {"start: %regex {\"substring_chunks\": [\"ab\", \"\", \"c\"]}",
     {"", "ab", "abc", "c"},
     {"a", "bc"}},
};

static void lark_takes_both_and_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(lark_sets); i++)
        for (size_t k = 0; k < 5; k++) {
            const char *text = lark_sets[i].grammar, *in = lark_sets[i].in[k],
                       *out = lark_sets[i].out[k];
            cdz_grammar *g;
            cdz_error err = {0};
            if (cdz_grammar_from_lark(text, strlen(text), NULL, &g, &err) != CDZ_OK)
                fail_msg("%s: %s", text, err.text);
            if (in && !accepts(g, in)) fail_msg("%s: '%s' is refused", text, in);
            if (out && accepts(g, out)) fail_msg("%s: '%s' is accepted", text, out);
            cdz_grammar_free(g);
        }
}

static const struct {
    const char *text, *says;
} bad_larks[] = {
    {"start: list{A, \",\"}\nA: \"a\"", "Lark:1:12: a template is not supported"},
    {"list{x}: x\nstart: \"a\"", "Lark:1:5: a template is not supported"},
    {"%declare A\nstart: A", "Lark:1:1: %declare is not supported"},
    {"start: %regex {}", "Lark:1:15: %regex has one member: substring_words, "},
    {"start: %regex {\"type\": 1}", "Lark:1:15: %regex with type is not supported; expected sub"},
    {"start: %regex {\"substring_words\": 1}", "Lark:1:15: substring_words is a text"},
    {"start: %regex 1", "Lark:1:15: expected an object behind %regex"},
    {"start: A & B\nA: \"a\"\nB: \"b\"", "Lark:1:10: & outside of a terminal is not supported"},
    {"start: ~a\na: \"a\"", "Lark:1:8: ~ before a rule is not supported"},
    {"start: ~(A)\nA: \"a\"", "Lark:1:8: ~ before a group outside of a terminal is not supported"},
    {"start: ~<[1]>", "Lark:1:8: ~ before a token is not supported"},
    {"start: \"a\" ~", "expected a text, a /regex/, a name or a group"},
    {"start: A\nA: B & \"a\"\nB: ~A", "a terminal that leads back to itself"},
    {"start: A\nA: \"a\"{900000} & \"b\"", "Lark:2:16: it comes to more than 400000 places"},
    {"start: A\nA: /(a|b)*a(a|b){20}/ & /./", "Lark:2:23: a pattern needs more than 60000 states"},
    {"start[lazy]: \"a\"", "Lark:1:7: the attribute lazy is not supported"},
    {"start[capture, max_tokens=3]: \"a\"", "Lark:1:16: the attribute max_tokens is not supported"},
    {"start: A\nA.2: \"a\"", "Lark:2:2: a priority is not supported"},
    {"start: A\n%import common.NOPE", "Lark:2:16: the import of common.NOPE is not supported"},
    {"start: A\nA: /a/m", "a regular expression's flag m is not supported"},
    {"start: \"a\"{2}\n", NULL},
};

static void what_lark_lacks_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_larks); i++) {
        const char *text = bad_larks[i].text, *says = bad_larks[i].says;
        cdz_grammar *g = NULL;
        cdz_error err = {0};
        const cdz_status st = cdz_grammar_from_lark(text, strlen(text), NULL, &g, &err);
        if (says ? st == CDZ_OK || !strstr(err.text, says) : st != CDZ_OK)
            fail_msg("%s: %s", text, err.text);
        cdz_grammar_free(g);
    }
}

static void a_limit_of_a_grammar_has_its_place(void **state)
{
    static const char gbnf[] = "root ::= a\na ::= \"0123456789\"\nb ::= \"x\"";
    static const char lark[] = "start: a\na: \"0123456789\"\nb: \"x\"";
    const cdz_grammar_options options = {.limits = {.max_states = 12}};
    cdz_grammar *g = NULL;
    cdz_error err = {0};
    (void)state;
    assert_int_equal(cdz_grammar_from_gbnf(gbnf, sizeof gbnf - 1, &options, &g, &err), CDZ_E_LIMIT);
    assert_string_equal(err.text,
                        "GBNF:2:19: the grammar needs more than 12 states (grammar_max_states)");
    assert_int_equal(cdz_grammar_from_lark(lark, sizeof lark - 1, &options, &g, &err), CDZ_E_LIMIT);
    assert_string_equal(err.text,
                        "Lark:2:16: the grammar needs more than 12 states (grammar_max_states)");
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
    const char *regex, *in[5], *out[5];
} properties[] = {
    {"\\p{Han}+", {"汉字", "々", "〇"}, {"か", "A", "。"}},
    {"\\p{Script=Greek}", {"α", "Ω"}, {"a", "а", "\xCD\xBE"}},
    {"\\p{sc=Cyrl}", {"а", "Ж"}, {"a", "α"}},
    {"[\\p{Hiragana}\\p{Katakana}ー]+", {"かな", "カー"}, {"漢"}},
    {"\\p{Uppercase}", {"A", "Ⅳ", "Ⓐ"}, {"a", "ǅ"}},
    {"\\p{gc=Lu}", {"A", "Ä"}, {"Ⅳ", "ǅ", "a"}},
    {"\\p{LC}", {"A", "ǅ", "a"}, {"ª", "日"}},
    {"\\p{lower_case}", {"a", "ª", "ⓐ"}, {"A"}},
    {"\\p{Alphabetic}", {"a", "日", "\xCD\x85", "Ⅳ"}, {"1", "-"}},
    {"\\p{digit}", {"1", "٣"}, {"²", "a"}},
    {"\\p{White_Space}", {"\t", " ", "　"}, {"a", "\xE2\x80\x8B"}},
    {"\\p{Emoji}", {"🙂", "#"}, {"a"}},
    {"\\P{ASCII}", {"é"}, {"e", "\x7f"}},
    {"\\p{^Latin}", {"1", "я"}, {"é"}},
    {"\\p{Assigned}", {"a"}, {"\xCD\xB8"}},
    {"\\p{Any}", {"a", "\xCD\xB8"}, {"aa"}},
};

static void a_property_is_found_by_its_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(properties); i++) {
        cdz_grammar *g;
        cdz_error err = {0};
        const char *regex = properties[i].regex;
        if (cdz_grammar_from_regex(regex, strlen(regex), NULL, &g, &err)) fail_msg("%s", err.text);
        for (size_t k = 0; k < 5; k++) {
            const char *in = properties[i].in[k], *out = properties[i].out[k];
            if (in && !accepts(g, in)) fail_msg("%s: '%s' is refused", regex, in);
            if (out && accepts(g, out)) fail_msg("%s: '%s' is accepted", regex, out);
        }
        cdz_grammar_free(g);
    }
}

static const struct {
    const char *regex, *says;
} refused[] = {
    {"a{4294967296}", "a count above 100000"},
    {"a{0,4294967295}", "a count above 100000"},
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
    {"\\p{sc=Lu}", "\\p property"},
    {"\\p{gc=Han}", "\\p property"},
    {"\\p{Script_Extensions=Han}", "\\p property"},
    {"\\p{}", "\\p property"},
    {"\\p{a name that is longer than every name there is}", "\\p property"},
    {"((a{1000}){1000}){1000}", "grammar_max_states), up to byte 16"},
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
        cmocka_unit_test(tags_hold_what_fits_their_schemas),
        cmocka_unit_test(what_is_wrong_with_tags_is_said),
        cmocka_unit_test(rules_that_begin_with_themselves_work),
        cmocka_unit_test(depth_of_a_text_takes_no_stack),
        cmocka_unit_test(schemas_have_exact_masks),
        cmocka_unit_test(tokens_stand_apart_as_told),
        cmocka_unit_test(a_schema_is_refused_by_its_keyword),
        cmocka_unit_test(large_schemas_work_or_meet_a_limit),
        cmocka_unit_test(crowds_are_found_when_compiling),
        cmocka_unit_test(large_schemas_take_no_square_of_time),
        cmocka_unit_test(many_terminals_take_no_square_of_time),
        cmocka_unit_test(a_slow_schema_ends_at_its_time),
        cmocka_unit_test(a_schema_of_ten_megabytes_is_read),
        cmocka_unit_test(choices_of_a_place_are_bounded),
        cmocka_unit_test(what_lark_lacks_is_named),
        cmocka_unit_test(lark_takes_both_and_others),
        cmocka_unit_test(a_limit_of_a_grammar_has_its_place),
        cmocka_unit_test(equal_places_are_one_state),
        cmocka_unit_test(a_property_is_found_by_its_name),
        cmocka_unit_test(a_refusal_names_what_and_where),
        cmocka_unit_test(depth_of_a_pattern_is_bounded),
        cmocka_unit_test(choices_are_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
