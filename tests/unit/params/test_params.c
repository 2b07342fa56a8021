/* test_params.c - the parameter registry: tables, defaults, values, text, sentences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "params/params.h"

typedef struct all {
    bool flag;
    int64_t window;
    double decay;
    const char *title;
    cdz_opt_bool maybe;
    cdz_opt_int count;
    cdz_opt_real strict, open;
    cdz_word colour, stopping;
    cdz_int_list ids;
    cdz_real_list weights;
    cdz_string_list stops;
    cdz_int_lists phrases;
    cdz_weighted_list bias;
    cdz_int_real decline;
    cdz_word_or_ints layers;
    cdz_int_choices forced;
    cdz_opt_int filled;
    int64_t free_int;
} all;

static const cdz_param rows[] = {
    CDZ_BOOL(all, flag, true, "a flag"),
    CDZ_INT(all, window, 64, 1, 65536, "tokens to look back over"),
    CDZ_REAL(all, decay, 0.9, 0.0, 1.0, "factor per token of age"),
    CDZ_STRING(all, title, "untitled", "a title"),
    CDZ_OPT_BOOL(all, maybe, 0, "perhaps"),
    CDZ_OPT_INT(all, count, 0, 0, CDZ_NO_LIMIT, "a count"),
    CDZ_PARAM_(all, strict, cdz_opt_real, CDZ_T_OPT_REAL, CDZ_STRICT_REAL, 1.0, -CDZ_NO_LIMIT,
               CDZ_NO_LIMIT, NULL, "wants a fraction"),
    CDZ_OPT_REAL(all, open, CDZ_ABOVE_MIN | CDZ_BELOW_MAX, 0.0, 1.0, "between"),
    CDZ_WORD(all, colour, "red|green|blue", 1, "a colour"),
    CDZ_BOOL_OR_WORD(all, stopping, 0, "never", "when"),
    CDZ_INTS(all, ids, 0, 0, 100, "ids"),
    CDZ_REALS(all, weights, 0, -1.0, 1.0, "weights"),
    CDZ_STRINGS(all, stops, 0, "stops"),
    CDZ_INT_LISTS(all, phrases, 0, 0, 100, "phrases"),
    CDZ_WEIGHTED(all, bias, 0, "bias"),
    CDZ_INT_REAL(all, decline, 0, "start and factor"),
    CDZ_WORD_OR_INTS(all, layers, 0, "low|high", 0, 100, "some layers"),
    CDZ_INT_CHOICES(all, forced, 0, 0, 100, "phrases and choices"),
    CDZ_PARAM_(all, filled, cdz_opt_int, CDZ_T_OPT_INT, 0, 50, 0, CDZ_NO_LIMIT, "50",
               "has a default"),
    CDZ_INT(all, free_int, 0, -CDZ_NO_LIMIT, CDZ_NO_LIMIT, "any"),
};
static const cdz_param_table table = {rows, sizeof rows / sizeof rows[0], sizeof(cdz_param),
                                      sizeof(all)};

static void defaults_fill_every_field(void **state)
{
    (void)state;
    all p;
    memset(&p, 0xAB, sizeof p);
    cdz_params_defaults(&table, &p);
    assert_true(p.flag);
    assert_int_equal(p.window, 64);
    assert_true(p.decay == 0.9);
    assert_string_equal(p.title, "untitled");
    assert_false(p.maybe.set || p.count.set || p.strict.set || p.open.set || p.stopping.set);
    assert_true(p.colour.set);
    assert_int_equal(p.colour.value, 1);
    assert_false(p.ids.set || p.weights.set || p.stops.set || p.phrases.set || p.bias.set ||
                 p.decline.set);
    assert_true(p.filled.set);
    assert_int_equal(p.filled.value, 50);
}

/* text goes through from_text and set; expect is what write gives, or the sentence when it begins with '!'. */
static const struct {
    const char *name, *param, *text, *expect;
} text_cases[] = {
    {"a bool says true", "flag", "true", "true"},
    {"a bool says no", "flag", "no", "false"},
    {"none gives a plain field its default", "flag", "none", "true"},
    {"a bool is not a number", "flag", "1", "!flag = \"1\": must be true or false"},
    {"an integer", "window", " 12 ", "12"},
    {"an integer at its bound", "window", "65536", "65536"},
    {"below the range", "window", "0", "!window = 0: must be 1 to 65536"},
    {"above the range", "window", "65537", "!window = 65537: must be 1 to 65536"},
    {"a fraction for an integer", "window", "3.5", "!window = 3.5: must be an integer, 1 to 65536"},
    {"a word for an integer", "window", "many",
     "!window = \"many\": must be an integer, 1 to 65536"},
    {"an integer past int64", "free_int", "99999999999999999999",
     "!free_int = 1e+20: must be an integer"},
    {"the smallest integer", "free_int", "-9223372036854775808", "-9223372036854775808"},
    {"a trailing letter is no number", "window", "12x",
     "!window = \"12x\": must be an integer, 1 to 65536"},
    {"hexadecimal is no number", "decay", "0x1", "!decay = \"0x1\": must be 0.0 to 1.0"},
    {"a real", "decay", "0.5", "0.5"},
    {"an integer in text is a real", "decay", "1", "1.0"},
    {"a plus sign", "decay", "+0.25", "0.25"},
    {"no digit before the point", "decay", ".25", "0.25"},
    {"and a sign", "weights", "-.5, +.5", "[-0.5, 0.5]"},
    {"two signs", "decay", "+-1", "!decay = \"+-1\": must be 0.0 to 1.0"},
    {"two minus signs", "free_int", "--1", "!free_int = \"--1\": must be an integer"},
    {"a sign alone", "free_int", "-", "!free_int = \"-\": must be an integer"},
    {"nan is no number", "decay", "nan", "!decay = \"nan\": must be 0.0 to 1.0"},
    {"a real past double", "decay", "1e999", "!decay = \"1e999\": must be 0.0 to 1.0"},
    {"text does not know strictness", "strict", "2", "2.0"},
    {"open bounds: low", "open", "0.0", "!open = 0.0: must be a number above 0.0, below 1.0"},
    {"open bounds: high", "open", "1.0", "!open = 1.0: must be a number above 0.0, below 1.0"},
    {"open bounds: inside", "open", "0.5", "0.5"},
    {"none unsets", "filled", "none", "null"},
    {"an integer from a bound", "count", "-1", "!count = -1: must be an integer from 0"},
    {"a string as it is", "title", "a b, c", "\"a b, c\""},
    {"a quoted string", "title", "\"a\\n\"", "\"a\\n\""},
    {"a quoted none is text", "title", "\"none\"", "\"none\""},
    {"none unsets a string", "title", "none", "null"},
    {"a NUL in a string", "title", "\"a\\u0000b\"",
     "!title = \"a\\u0000b\": must be text without a NUL character"},
    {"a word", "colour", "blue", "\"blue\""},
    {"an unknown word", "colour", "black", "!colour = \"black\": must be red, green or blue"},
    {"a word's beginning", "colour", "gre", "!colour = \"gre\": must be red, green or blue"},
    {"bool or word: a bool", "stopping", "true", "true"},
    {"bool or word: a word", "stopping", "never", "\"never\""},
    {"bool or word: neither", "stopping", "ever",
     "!stopping = \"ever\": must be false, true or never"},
    {"integers by commas", "ids", "1, 2,3", "[1, 2, 3]"},
    {"integers as JSON", "ids", "[4, 5]", "[4, 5]"},
    {"one integer is a list", "ids", "7", "[7]"},
    {"an empty list", "ids", "[]", "[]"},
    {"an element out of range", "ids", "1, 101",
     "!ids = [1, 101]: must be a list of integers, each 0 to 100"},
    {"broken JSON", "ids", "[1, 2", "!"},
    {"reals by commas", "weights", "0.5, -1", "[0.5, -1.0]"},
    {"strings by commas", "stops", ". , \"a, b\"", "[\".\", \"a, b\"]"},
    {"strings as JSON", "stops", "[\"x\", \"\"]", "[\"x\", \"\"]"},
    {"lists of lists", "phrases", "[[1, 2], [3]]", "[[1, 2], [3]]"},
    {"lists of lists need brackets", "phrases", "1, 2",
     "!phrases = \"1, 2\": must be a list of lists of integers, each 0 to 100"},
    {"weights become reals", "bias", "[[[1, 2], 3], [[4], -0.5]]", "[[[1, 2], 3.0], [[4], -0.5]]"},
    {"an infinite weight", "bias", "[[[1], \"-inf\"]]", "[[[1], \"-inf\"]]"},
    {"a mapping", "bias", "{\"mapping\": [[[1], 0.5]]}", "{\"mapping\": [[[1], 0.5]]}"},
    {"a pair too long", "bias", "[[[1], 0.5, 2]]", "!"},
    {"an integer and a number", "decline", "5, 1.02", "[5, 1.02]"},
    {"an integer and a number as JSON", "decline", "[5, 2]", "[5, 2.0]"},
    {"one number is no pair", "decline", "5", "!"},
    {"word or integers: a word", "layers", "high", "\"high\""},
    {"word or integers: integers", "layers", "0, 2", "[0, 2]"},
    {"word or integers: JSON", "layers", "[1]", "[1]"},
    {"word or integers: neither", "layers", "middle",
     "!layers = \"middle\": must be low or high, or a list of integers, each 0 to 100"},
    {"word or integers: out of range", "layers", "101",
     "!layers = [101]: must be low or high, or a list of integers, each 0 to 100"},
    {"word or integers: none", "layers", "none", "null"},
    {"choices", "forced", "[[1, 2], [[3], [4, 5]]]", "[[1, 2], [[3], [4, 5]]]"},
    {"a choice of one is a list", "forced", "[[[1, 2]]]", "[[1, 2]]"},
    {"an empty choice", "forced", "[[]]", "!"},
    {"an empty phrase in a choice", "forced", "[[[1], []]]", "!"},
    {"choices need brackets", "forced", "1, 2", "!"},
    {"a choice out of range", "forced", "[[1, 200]]", "!"},
};

static void text_becomes_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof text_cases / sizeof text_cases[0]; i++) {
        cdz_arena arena = {0};
        cdz_error err = {0};
        cdz_json value;
        cdz_buf out = {0};
        all p;
        const char *expect = text_cases[i].expect;
        const cdz_param *param = cdz_param_find(&table, text_cases[i].param);

        cdz_params_defaults(&table, &p);
        assert_non_null(param);
        cdz_status st = cdz_param_from_text(param, text_cases[i].text, &arena, &value, &err);
        if (st == CDZ_OK) st = cdz_param_set(param, &p, &value, &arena, &err);
        if (st == CDZ_OK)
            cdz_param_write(param, &p, &out);
        else
            cdz_buf_puts(&out, err.text);
        bool failed_as_expected = *expect == '!' && st == CDZ_E_USAGE;
        bool same = *expect == '!' ? failed_as_expected &&
                                         (strlen(expect) < 8 || !strcmp(out.data, expect + 1))
                                   : st == CDZ_OK && !strcmp(out.data, expect);
        if (!same)
            fail_msg("%s: got %d %s, expected %s", text_cases[i].name, (int)st, out.data, expect);
        cdz_buf_free(&out);
        cdz_arena_free(&arena);
    }
}

/* JSON knows more than text: 1 is not 1.0, null is not "none". */
static const struct {
    const char *name, *param, *json, *expect;
} json_cases[] = {
    {"strict refuses an integer", "strict", "2",
     "!strict = 2: must be a number, written with a fraction (2.0, not 2)"},
    {"strict takes its default as an integer", "strict", "1", "1"},
    {"strict takes a fraction", "strict", "2.0", "2.0"},
    {"null unsets", "count", "null", "null"},
    {"null gives a plain number its default", "window", "null", "64"},
    {"a string for a number", "decay", "\"0.5\"", "!decay = \"0.5\": must be 0.0 to 1.0"},
    {"1.0 is no integer", "count", "1.0", "!count = 1.0: must be an integer from 0"},
    {"an object for a list", "ids", "{}", "!ids = {}: must be a list of integers, each 0 to 100"},
    {"an integer weight stays one", "bias", "[[[1], 2]]", "[[[1], 2]]"},
    {"a long value is cut", "title",
     "[\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaa"
     "aaaaaaaaa\"]",
     "!title = "
     "[\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...: "
     "must be text"},
};

static void json_becomes_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof json_cases / sizeof json_cases[0]; i++) {
        cdz_arena arena = {0};
        cdz_error err = {0};
        cdz_json value;
        cdz_buf out = {0};
        all p;
        const char *expect = json_cases[i].expect;
        const cdz_param *param = cdz_param_find(&table, json_cases[i].param);

        cdz_params_defaults(&table, &p);
        assert_int_equal(cdz_json_parse(json_cases[i].json, strlen(json_cases[i].json), "case",
                                        NULL, &arena, &value, &err),
                         CDZ_OK);
        cdz_status st = cdz_param_set(param, &p, &value, &arena, &err);
        if (st == CDZ_OK)
            cdz_param_write(param, &p, &out);
        else
            cdz_buf_puts(&out, err.text);
        bool same = (st == CDZ_OK) == (*expect != '!') &&
                    !strcmp(out.data, *expect == '!' ? expect + 1 : expect);
        if (!same) fail_msg("%s: got %s, expected %s", json_cases[i].name, out.data, expect);
        cdz_buf_free(&out);
        cdz_arena_free(&arena);
    }
}

typedef struct one {
    int64_t n;
    double x;
} one;

/* clang-format off */
#define ROW(...) {.name = "n", .help = "h", .type = CDZ_T_INT, .max = 1, __VA_ARGS__}
/* clang-format on */
static const struct {
    const char *name;
    cdz_param row;
    const char *expect;
} table_cases[] = {
    {"sane", ROW(.offset = 0), NULL},
    {"no name", {.name = NULL, .help = "h", .type = CDZ_T_INT}, "bad name"},
    {"empty name", {.name = "", .help = "h", .type = CDZ_T_INT}, "bad name"},
    {"digit first", {.name = "1a", .help = "h", .type = CDZ_T_INT}, "bad name"},
    {"blank inside", {.name = "a b", .help = "h", .type = CDZ_T_INT}, "bad name"},
    {"endless name",
     {.name = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
      .help = "h",
      .type = CDZ_T_INT},
     "bad name"},
    {"no help", {.name = "n", .type = CDZ_T_INT}, "no help"},
    {"type 0", {.name = "n", .help = "h"}, "type is unknown"},
    {"type 99", {.name = "n", .help = "h", .type = 99}, "type is unknown"},
    {"outside", ROW(.offset = 16), "outside"},
    {"far outside", ROW(.offset = UINT32_MAX), "outside"},
    {"half outside", {.name = "n", .help = "h", .type = CDZ_T_INTS, .offset = 8}, "outside"},
    {"unaligned", ROW(.offset = 4), "not aligned"},
    {"min above max", ROW(.min = 2), "minimum"},
    {"NaN bound", ROW(.min = NAN), "NaN"},
    {"default out of range", ROW(.def = 5), "default"},
    {"no words", {.name = "n", .help = "h", .type = CDZ_T_WORD}, "no words"},
    {"default no word",
     {.name = "n", .help = "h", .type = CDZ_T_WORD, .text = "a|b", .def = 2},
     "none of its words"},
};

static void bad_tables_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table_cases / sizeof table_cases[0]; i++) {
        cdz_param_table bad = {&table_cases[i].row, 1, sizeof(cdz_param), sizeof(one)};
        cdz_error err = {0};
        cdz_status st = cdz_param_table_check(&bad, "x.so", &err);
        const char *expect = table_cases[i].expect;
        if (expect ? st != CDZ_E_PLUGIN || !strstr(err.text, expect) : st != CDZ_OK)
            fail_msg("%s: got %d %s", table_cases[i].name, (int)st, err.text);
    }
}

static void whole_tables_are_judged(void **state)
{
    (void)state;
    cdz_error err = {0};
    assert_int_equal(cdz_param_table_check(&table, "t", &err), CDZ_OK);

    const cdz_param twice[] = {ROW(.offset = 0), ROW(.offset = 8)};
    cdz_param_table bad = {twice, 2, sizeof(cdz_param), sizeof(one)};
    assert_int_equal(cdz_param_table_check(&bad, "x.so", &err), CDZ_E_PLUGIN);
    assert_non_null(strstr(err.text, "declared twice"));
    bad = (cdz_param_table){NULL, 2, sizeof(cdz_param), sizeof(one)};
    assert_int_equal(cdz_param_table_check(&bad, "x.so", &err), CDZ_E_PLUGIN);
    bad = (cdz_param_table){twice, 1, 8, sizeof(one)};
    assert_int_equal(cdz_param_table_check(&bad, "x.so", &err), CDZ_E_PLUGIN);
    bad = (cdz_param_table){NULL, 0, 0, 0};
    assert_int_equal(cdz_param_table_check(&bad, "x.so", &err), CDZ_OK);
}

/* A plugin of a later minor has longer rows; the stride is the table's own. */
static void rows_may_be_longer(void **state)
{
    (void)state;
    struct {
        cdz_param row;
        void *later;
    } const longer[] = {
        {ROW(.offset = 0), NULL},
        {{.name = "x", .help = "h", .offset = 8, .type = CDZ_T_REAL, .def = 0.5, .max = 1}, NULL}};
    cdz_param_table wide = {&longer[0].row, 2, sizeof longer[0], sizeof(one)};
    one p;
    cdz_params_defaults(&wide, &p);
    assert_true(p.x == 0.5);
    assert_ptr_equal(cdz_param_find(&wide, "x"), &longer[1].row);
    assert_null(cdz_param_find(&wide, "y"));
}

static void unknown_names_get_a_suggestion(void **state)
{
    (void)state;
    char text[80];
    cdz_param_suggest(&table, "windwo", text, sizeof text);
    assert_string_equal(text, ": did you mean 'window'?");
    cdz_param_suggest(&table, "entirely_else", text, sizeof text);
    assert_string_equal(text, "");
}

static void help_lists_every_row(void **state)
{
    (void)state;
    cdz_buf out = {0};
    cdz_params_help(&table, &out);
    for (uint32_t i = 0; i < table.n; i++) {
        assert_non_null(strstr(out.data, rows[i].name));
        assert_non_null(strstr(out.data, rows[i].help));
    }
    assert_non_null(strstr(out.data, "default 64"));
    assert_non_null(strstr(out.data, "1 to 65536"));
    assert_non_null(strstr(out.data, "default \"green\""));
    assert_non_null(strstr(out.data, "default 50"));
    cdz_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_fill_every_field),
        cmocka_unit_test(text_becomes_values),
        cmocka_unit_test(json_becomes_values),
        cmocka_unit_test(bad_tables_are_refused),
        cmocka_unit_test(whole_tables_are_judged),
        cmocka_unit_test(rows_may_be_longer),
        cmocka_unit_test(unknown_names_get_a_suggestion),
        cmocka_unit_test(help_lists_every_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
