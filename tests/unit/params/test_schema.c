/* test_schema.c - the JSON Schema of a parameter accepts a value exactly when the host takes it. A small validator of the
 * words that schemas are written with reads them back; each value of a list is asked of both. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/file_keys.h"
#include "config/generation.h"
#include "params/schema.h"
#include "prepare/prepare.h"

/* --- a validator ------------------------------------------------------------------------------------------------ */

static bool valid(const cdz_json *schema, const cdz_json *value);

static bool is_type(const char *name, const cdz_json *value)
{
    static const char *const names[] = {"null",   "boolean", "integer", "number",
                                        "string", "array",   "object"};
    if (strcmp(name, "number") == 0 && value->type == CDZ_JSON_INT) return true;
    assert_true(value->type < 7);
    return strcmp(names[value->type], name) == 0;
}

static bool valid_type(const cdz_json *type, const cdz_json *value)
{
    if (type->type == CDZ_JSON_STRING) return is_type(type->string, value);
    for (uint32_t i = 0; i < type->len; i++)
        if (is_type(type->items[i].string, value)) return true;
    return false;
}

static bool equal(const cdz_json *a, const cdz_json *b)
{
    cdz_buf x = {0}, y = {0};
    cdz_json_write(&x, a);
    cdz_json_write(&y, b);
    const bool same = strcmp(x.data, y.data) == 0;
    cdz_buf_free(&x);
    cdz_buf_free(&y);
    return same;
}

static bool valid_any(const cdz_json *list, const cdz_json *value, bool schemas)
{
    for (uint32_t i = 0; i < list->len; i++)
        if (schemas ? valid(&list->items[i], value) : equal(&list->items[i], value)) return true;
    return false;
}

static bool valid_items(const cdz_json *schema, const cdz_json *value)
{
    const cdz_json *items = cdz_json_get(schema, "items"),
                   *first = cdz_json_get(schema, "prefixItems");
    for (uint32_t i = 0; value->type == CDZ_JSON_ARRAY && i < value->len; i++) {
        const cdz_json *of = first && i < first->len ? &first->items[i] : items;
        if (of && !valid(of, &value->items[i])) return false;
    }
    return true;
}

static bool valid_members(const cdz_json *schema, const cdz_json *value)
{
    const cdz_json *known = cdz_json_get(schema, "properties"),
                   *required = cdz_json_get(schema, "required"),
                   *more = cdz_json_get(schema, "additionalProperties");
    if (value->type != CDZ_JSON_OBJECT) return true;
    for (uint32_t i = 0; known && i < value->len; i++) {
        const cdz_json *of = cdz_json_get(known, value->members[i].key);
        if (!of && more && more->type != CDZ_JSON_OBJECT) return false;
        if (!of) of = more;
        if (of && !valid(of, &value->members[i].value)) return false;
    }
    for (uint32_t i = 0; required && i < required->len; i++)
        if (!cdz_json_get(value, required->items[i].string)) return false;
    return true;
}

static bool valid_number(const char *word, double limit, double x)
{
    if (strcmp(word, "minimum") == 0) return x >= limit;
    if (strcmp(word, "maximum") == 0) return x <= limit;
    if (strcmp(word, "exclusiveMinimum") == 0) return x > limit;
    return x < limit;
}

/* One word of a schema; an unknown one fails the test. */
static bool valid_word(const cdz_json *schema, const char *word, const cdz_json *arg,
                       const cdz_json *value)
{
    static const char *const elsewhere[] = {
        "description",          "default", "title", "$schema", "prefixItems", "required",
        "additionalProperties", "$defs"};
    double limit = 0, x = 0;
    if (strcmp(word, "type") == 0) return valid_type(arg, value);
    if (strcmp(word, "enum") == 0) return valid_any(arg, value, false);
    if (strcmp(word, "anyOf") == 0) return valid_any(arg, value, true);
    if (strcmp(word, "items") == 0) return valid_items(schema, value);
    if (strcmp(word, "properties") == 0) return valid_members(schema, value);
    if (strcmp(word, "minItems") == 0)
        return value->type != CDZ_JSON_ARRAY || value->len >= arg->integer;
    if (strcmp(word, "maxItems") == 0)
        return value->type != CDZ_JSON_ARRAY || value->len <= arg->integer;
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
        if (strcmp(word, elsewhere[i]) == 0)
            return strcmp(word, "prefixItems") != 0 || valid_items(schema, value);
    if (strstr(word, "imum") && cdz_json_number(arg, &limit))
        return !cdz_json_number(value, &x) || valid_number(word, limit, x);
    fail_msg("a schema uses '%s'", word);
    return false;
}

static bool valid(const cdz_json *schema, const cdz_json *value)
{
    assert_int_equal(schema->type, CDZ_JSON_OBJECT);
    for (uint32_t i = 0; i < schema->len; i++)
        if (!valid_word(schema, schema->members[i].key, &schema->members[i].value, value))
            return false;
    return true;
}

/* --- every type, every value --------------------------------------------------------------------------------------- */

typedef struct all {
    bool b;
    int64_t i, i_free;
    double r, r_open;
    const char *s;
    cdz_opt_bool ob;
    cdz_opt_int oi;
    cdz_opt_real o_r;
    cdz_word w, bw;
    cdz_int_list ints;
    cdz_real_list reals;
    cdz_string_list strings;
    cdz_int_lists lists;
    cdz_weighted_list weighted;
    cdz_int_real pair;
    cdz_word_or_ints wi;
    cdz_int_choices choices;
} all;

static const cdz_param rows[] = {
    CDZ_BOOL(all, b, true, "a"),
    CDZ_INT(all, i, 3, 1, 10, "an \"integer\""),
    CDZ_INT(all, i_free, 0, -CDZ_NO_LIMIT, CDZ_NO_LIMIT, "c"),
    CDZ_REAL(all, r, 0.5, -1.5, 2.5, "d"),
    CDZ_PARAM_(all, r_open, double, CDZ_T_REAL, CDZ_ABOVE_MIN | CDZ_BELOW_MAX, 0.5, 0, 1, NULL, "e"),
    CDZ_STRING(all, s, "x\"y", "f"),
    CDZ_OPT_BOOL(all, ob, 0, "g"),
    CDZ_OPT_INT(all, oi, 0, 0, 5, "h"),
    CDZ_OPT_REAL(all, o_r, 0, 0, 5, "i"),
    CDZ_WORD(all, w, "one|two", 1, "j"),
    CDZ_BOOL_OR_WORD(all, bw, 0, "never", "k"),
    CDZ_INTS(all, ints, 0, 0, 9, "l"),
    CDZ_REALS(all, reals, 0, 0, 1, "m"),
    CDZ_STRINGS(all, strings, 0, "n"),
    CDZ_INT_LISTS(all, lists, 0, 0, 9, "o"),
    CDZ_WEIGHTED(all, weighted, 0, "p"),
    CDZ_INT_REAL(all, pair, 0, "q"),
    CDZ_WORD_OR_INTS(all, wi, 0, "low|high", 0, 9, "r"),
    CDZ_INT_CHOICES(all, choices, 0, 0, 9, "s"),
};

static const char *const values[] = {
    "null",
    "true",
    "false",
    "0",
    "1",
    "2",
    "3",
    "5",
    "6",
    "10",
    "11",
    "-1",
    "-2",
    "9223372036854775807",
    "0.0",
    "0.5",
    "1.0",
    "-1.5",
    "-1.5000001",
    "2.5",
    "2.6",
    "1e300",
    "\"\"",
    "\"one\"",
    "\"three\"",
    "\"never\"",
    "\"high\"",
    "\"inf\"",
    "[]",
    "[1]",
    "[1, 2]",
    "[1, 2, 3]",
    "[1, 0.5]",
    "[0.5, 1]",
    "[10]",
    "[0.5]",
    "[2.0]",
    "[\"a\"]",
    "[\"a\", 1]",
    "[null]",
    "[[]]",
    "[[1]]",
    "[[1], [2, 3]]",
    "[[10]]",
    "[[0.5]]",
    "[[1], 2]",
    "[[[1]]]",
    "[[[1], [2]]]",
    "[[[1], []]]",
    "[[[10]]]",
    "[[1], [[2], [3]]]",
    "[[[1, 2], 0.5]]",
    "[[[1, 2], 3]]",
    "[[[1, 2], \"-inf\"]]",
    "[[[1, 2], \"inf\"]]",
    "[[[1, 2], \"nan\"]]",
    "[[[0.5], 1]]",
    "[[[1], 1, 1]]",
    "[[1, 1]]",
    "{}",
    "{\"mapping\": []}",
    "{\"mapping\": [[[1, 2], -2.5]]}",
    "{\"mapping\": [[1, 2]]}",
    "{\"mapping\": [], \"more\": 1}",
    "{\"map\": []}",
};

static void parse(const char *text, cdz_arena *arena, cdz_json *out)
{
    cdz_error err = {0};
    if (cdz_json_parse(text, strlen(text), "text", NULL, arena, out, &err) != CDZ_OK)
        fail_msg("%s in %s", err.text, text);
}

/* How many of the values the parameter takes. */
static unsigned compare(const cdz_param *param, cdz_arena *arena, void *params)
{
    cdz_buf text = {0};
    cdz_json schema, value;
    unsigned taken = 0;
    cdz_param_schema(param, &text);
    assert_false(text.failed);
    parse(text.data, arena, &schema);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        parse(values[i], arena, &value);
        const bool takes = cdz_param_set(param, params, &value, arena, NULL) == CDZ_OK;
        /* 2 and 2.0 are one number to a schema */
        if (!takes && (param->flags & CDZ_STRICT_REAL) && value.type == CDZ_JSON_INT) continue;
        if (valid(&schema, &value) != takes)
            fail_msg("%s: %s: the host %s it, not so %s", param->name, values[i],
                     takes ? "takes" : "refuses", text.data);
        taken += takes;
    }
    const cdz_json *fallback = cdz_json_get(&schema, "default");
    if (fallback && !valid(&schema, fallback))
        fail_msg("%s: its default does not fit", param->name);
    cdz_buf_free(&text);
    return taken;
}

static void every_type(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    bool seen[CDZ_T_INT_CHOICES + 1] = {false};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        all params = {0};
        const unsigned taken = compare(&rows[i], &arena, &params);
        if (taken < 2 || taken == sizeof values / sizeof values[0])
            fail_msg("%s takes %u of the values", rows[i].name, taken);
        seen[rows[i].type] = true;
    }
    for (uint32_t type = CDZ_T_BOOL; type <= CDZ_T_INT_CHOICES; type++) assert_true(seen[type]);
    cdz_arena_free(&arena);
}

static void every_generation_parameter(void **state)
{
    (void)state;
    const cdz_param_table *table = cdz_generation_table();
    cdz_arena arena = {0};
    assert_true(table->n > 50);
    for (uint32_t i = 0; i < table->n; i++) {
        cdz_generation params = {0};
        (void)compare(cdz_param_at(table, i), &arena, &params);
    }
    cdz_arena_free(&arena);
}

/* --- whole documents ----------------------------------------------------------------------------------------------- */

static void a_plugin(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        bool ok;
    } cases[] = {{"{}", true},
                 {"{\"i\": 4, \"w\": \"two\"}", true},
                 {"{\"i\": 0}", false},
                 {"{\"other\": 1}", false},
                 {"[]", false}};
    const cdz_plugin_base plugin = {.size = sizeof plugin,
                                    .kind = CDZ_KIND_PROCESSOR,
                                    .id = "org.example.all",
                                    .version = "1.0.0",
                                    .summary = "All \"types\"",
                                    CDZ_PARAMS(all, rows)};
    cdz_arena arena = {0};
    cdz_buf text = {0};
    cdz_json schema, value;
    cdz_params_plugin_schema(&plugin, &text);
    parse(text.data, &arena, &schema);
    assert_true(cdz_json_eq(cdz_json_get(&schema, "title"), "org.example.all"));
    assert_true(cdz_json_eq(cdz_json_get(&schema, "description"), "All \"types\""));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        parse(cases[i].value, &arena, &value);
        assert_int_equal(valid(&schema, &value), cases[i].ok);
    }
    cdz_buf_free(&text);
    cdz_arena_free(&arena);
}

/* Its own keys by name and word; what a section of another name holds is a plugin's. */
static void a_pipeline_file(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        bool ok;
    } cases[] = {
        {"{}", true},
        {"{\"pipeline\": {\"use\": \"openai\", \"drafting\": \"fixed\"}}", true},
        {"{\"pipeline\": {\"drafting\": \"fxed\"}}", false},
        {"{\"pipeline\": {\"draftng\": \"fixed\"}}", false},
        {"{\"model\": {\"device\": \"cuda:1\", \"kv_cache\": \"bf16\"}}", true},
        {"{\"model\": {\"kv_cache\": \"q8_0\"}}", true},
        {"{\"model\": {\"kv_cache\": \"q4_0\"}}", true},
        {"{\"model\": {\"kv_cache\": \"q4_1\"}}", false},
        {"{\"model\": {\"kv_cache\": \"none\"}}", true},
        {"{\"model\": {\"numa\": \"spread\"}}", true},
        {"{\"model\": {\"numa\": \"on\"}}", false},
        {"{\"model\": {\"device\": 1}}", false},
        {"{\"model\": {\"num_assistant_tokens\": 4}}", true},
        {"{\"generation\": {\"temperature\": 0.5}, \"dry\": {\"multiplier\": 1.2}}", true},
        {"{\"generation\": {\"temperature\": \"hot\"}}", false},
        {"{\"dry\": 3}", false},
    };
    cdz_arena arena = {0};
    cdz_buf text = {0};
    cdz_json schema, value;
    cdz_pipeline_schema(&text);
    parse(text.data, &arena, &schema);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        parse(cases[i].value, &arena, &value);
        if (valid(&schema, &value) != cases[i].ok) fail_msg("%s", cases[i].value);
    }
    cdz_buf_free(&text);
    cdz_arena_free(&arena);
}

/* What the schema says of a request and what cdz_request_check says are the same names. */
static void a_request(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    cdz_buf text = {0};
    cdz_json schema, value;
    cdz_request_schema(&text);
    parse(text.data, &arena, &schema);
    const cdz_json *fields = cdz_json_get(&schema, "properties");
    const cdz_json *generation = cdz_json_get(cdz_json_get(&schema, "$defs"), "generation");
    assert_true(fields && fields->len >= 15 && generation);
    for (uint32_t i = 0; i < fields->len; i++) {
        char document[200];
        const char *name = fields->members[i].key;
        snprintf(document, sizeof document, "{\"%s\": %s}", name,
                 strcmp(name, "kwargs") == 0 ? "{}"
                 : strcmp(name, "seed") == 0 ? "1"
                                             : "null");
        parse(document, &arena, &value);
        assert_int_equal(cdz_request_check(&value, NULL), CDZ_OK);
    }
    assert_non_null(cdz_json_get(fields, "prompt"));
    assert_null(cdz_json_get(fields, "expect")); /* a recorded case's, not a user's */
    const cdz_json *kwargs = cdz_json_get(generation, "properties");
    for (uint32_t slot = 0; slot < cdz_generation_slots(); slot++) {
        const char *name = cdz_generation_slot_name(slot);
        if (!cdz_generation_forbidden(name) && !cdz_json_get(kwargs, name))
            fail_msg("the schema has no %s", name);
    }
    parse("{\"top_k\": 5, \"temperature\": 0.5, \"of_a_strategy\": 1}", &arena, &value);
    assert_true(valid(generation, &value));
    parse("{\"top_k\": \"five\"}", &arena, &value);
    assert_false(valid(generation, &value));
    cdz_buf_free(&text);
    cdz_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type), cmocka_unit_test(every_generation_parameter),
        cmocka_unit_test(a_plugin),   cmocka_unit_test(a_pipeline_file),
        cmocka_unit_test(a_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
