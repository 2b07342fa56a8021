/* tests.c - what "is" asks: the tests of Jinja2 by name, each a function of a value and its arguments, in one table. */
#include <math.h>
#include <string.h>

#include "template/methods.h"

#define KIND_TEST(name, condition)                                                                 \
    static value name(state *st, value x, const value *p, const args *all)                         \
    {                                                                                              \
        (void)st;                                                                                  \
        (void)p;                                                                                   \
        (void)all;                                                                                 \
        return tpl_v_bool(condition);                                                              \
    }

bool tpl_is_sequence_value(value v)
{
    switch (v.kind) {
    case V_UNDEFINED:
    case V_STRING:
    case V_BYTES:
    case V_LIST:
    case V_TUPLE:
    case V_DICT:
    case V_RANGE: return true;
    default: return false;
    }
}

static bool is_callable(value v)
{
    return v.kind == V_MACRO || v.kind == V_METHOD || v.kind == V_FUNCTION || v.kind == V_JOINER ||
           v.kind == V_LOOP || v.kind == V_UNDEFINED;
}

KIND_TEST(t_defined, x.kind != V_UNDEFINED)
KIND_TEST(t_undefined, x.kind == V_UNDEFINED)
KIND_TEST(t_none, x.kind == V_NONE)
KIND_TEST(t_boolean, x.kind == V_BOOL)
KIND_TEST(t_true, x.kind == V_BOOL && x.b)
KIND_TEST(t_false, x.kind == V_BOOL && !x.b)
KIND_TEST(t_integer, x.kind == V_INT || x.kind == V_BIG)
KIND_TEST(t_float, x.kind == V_FLOAT)
KIND_TEST(t_number, tpl_is_number(x) || x.kind == V_BIG)
KIND_TEST(t_string, tpl_is_string(x))
KIND_TEST(t_mapping, x.kind == V_DICT)
KIND_TEST(t_sequence, tpl_is_sequence_value(x))
KIND_TEST(t_iterable,
          tpl_is_sequence_value(x) || x.kind == V_GENERATOR || x.kind == V_VIEW || x.kind == V_LOOP)
KIND_TEST(t_callable, is_callable(x))
KIND_TEST(t_escaped, tpl_is_string(x) && x.safe)
KIND_TEST(t_filter, tpl_is_string(x) && tpl_find_filter(tpl_v_string(st, x.s, x.len).s) != NULL)
KIND_TEST(t_test, tpl_is_string(x) && tpl_find_test(tpl_v_string(st, x.s, x.len).s) != NULL)

/* --- numbers ------------------------------------------------------------------------------------------------- */

static value rest_is(state *st, value x, value by, int64_t rest)
{
    value r = tpl_arithmetic(st, 5 /* OP_MOD */, x, by);
    return tpl_v_bool(!st->failed && tpl_equal(st, r, tpl_v_int(rest)));
}

static value t_odd(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    return rest_is(st, x, tpl_v_int(2), 1);
}

static value t_even(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    return rest_is(st, x, tpl_v_int(2), 0);
}

static value t_divisibleby(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return rest_is(st, x, p[0], 0);
}

/* --- comparisons ------------------------------------------------------------------------------------------------ */

static value other(state *st, const value *p)
{
    return p[0].kind == V_MISSING ? tpl_fail(st, "the test needs a value to compare with") : p[0];
}

#define COMPARE_TEST(name, condition)                                                              \
    static value name(state *st, value x, const value *p, const args *all)                         \
    {                                                                                              \
        (void)all;                                                                                 \
        value y = other(st, p);                                                                    \
        return st->failed ? y : tpl_v_bool(condition);                                             \
    }
COMPARE_TEST(t_eq, tpl_equal(st, x, y))
COMPARE_TEST(t_ne, !tpl_equal(st, x, y))
COMPARE_TEST(t_lt, tpl_order(st, x, y, "<") < 0)
COMPARE_TEST(t_le, tpl_order(st, x, y, "<=") <= 0)
COMPARE_TEST(t_gt, tpl_order(st, x, y, ">") > 0)
COMPARE_TEST(t_ge, tpl_order(st, x, y, ">=") >= 0)
COMPARE_TEST(t_in, tpl_contains(st, y, x))

static bool same(state *st, value a, value b)
{
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case V_NONE: return true;
    case V_BOOL: return a.b == b.b;
    case V_INT: return a.i == b.i;
    case V_FLOAT: return a.d == b.d;
    case V_STRING:
        return a.len == b.len && tpl_touch(st, a.len) &&
               (a.s == b.s || memcmp(a.s, b.s, a.len) == 0);
    default: return a.seq == b.seq;
    }
}
COMPARE_TEST(t_sameas, same(st, x, y))

/* --- text --------------------------------------------------------------------------------------------------------- */

static value all_in_case(state *st, value x, bool upper)
{
    value text = tpl_to_text(st, x);
    bool cased = false;
    if (!tpl_touch(st, (uint64_t)text.len * PER_CODE)) return tpl_v_none();
    for (size_t at = 0; at < text.len;) {
        const uint32_t code = tpl_next_code(text.s, text.len, &at);
        if (upper ? tpl_is_lower(code) : tpl_is_upper(code)) return tpl_v_bool(false);
        cased = cased || (upper ? tpl_is_upper(code) : tpl_is_lower(code));
    }
    return tpl_v_bool(cased);
}

static value t_lower(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    return all_in_case(st, x, false);
}

static value t_upper(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    return all_in_case(st, x, true);
}

const builtin_row tpl_compare_tests[] = {
    {"defined", t_defined, ""},     {"undefined", t_undefined, ""},
    {"none", t_none, ""},           {"boolean", t_boolean, ""},
    {"true", t_true, ""},           {"false", t_false, ""},
    {"integer", t_integer, ""},     {"float", t_float, ""},
    {"number", t_number, ""},       {"string", t_string, ""},
    {"mapping", t_mapping, ""},     {"sequence", t_sequence, ""},
    {"iterable", t_iterable, ""},   {"callable", t_callable, ""},
    {"escaped", t_escaped, ""},     {"filter", t_filter, ""},
    {"test", t_test, ""},           {"odd", t_odd, ""},
    {"even", t_even, ""},           {"divisibleby", t_divisibleby, "num"},
    {"lower", t_lower, ""},         {"upper", t_upper, ""},
    {"sameas", t_sameas, "other"},  {"in", t_in, "seq"},
    {"eq", t_eq, "other"},          {"==", t_eq, "other"},
    {"equalto", t_eq, "other"},     {"ne", t_ne, "other"},
    {"!=", t_ne, "other"},          {"lt", t_lt, "other"},
    {"<", t_lt, "other"},           {"lessthan", t_lt, "other"},
    {"le", t_le, "other"},          {"<=", t_le, "other"},
    {"gt", t_gt, "other"},          {">", t_gt, "other"},
    {"greaterthan", t_gt, "other"}, {"ge", t_ge, "other"},
    {">=", t_ge, "other"},          {0},
};

const builtin_row *tpl_find_test(const char *name)
{
    return tpl_find_row(tpl_compare_tests, name);
}
