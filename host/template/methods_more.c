/* methods_more.c - the other methods of strings, those of lists, mappings and numbers, and which
 * ones the sandbox hides because they change their object. */
#include <string.h>

#include "base/ascii.h"
#include "base/utf8.h"
#include "template/methods.h"

/* --- strings ---------------------------------------------------------------------------------------------------- */

static value m_replace(state *st, value x, const value *p, const args *all)
{
    (void)all;
    if (!tpl_is_string(p[0]) || !tpl_is_string(p[1]))
        return tpl_fail(st, "replace needs two strings");
    return tpl_replace_text(st, x, p[0], p[1], tpl_int_or(st, p[2], -1));
}

static value m_join(state *st, value x, const value *p, const args *all)
{
    (void)all;
    const value *items;
    uint32_t n;
    if (!tpl_items_of(st, p[0], &items, &n)) return x;
    return tpl_join_items(st, x, items, n, true);
}

static value m_format(state *st, value x, const value *p, const args *all)
{
    (void)p;
    return tpl_format_braces(st, x, all);
}

static value m_format_map(state *st, value x, const value *p, const args *all)
{
    (void)all;
    if (p[0].kind != V_DICT) return tpl_fail(st, "format_map needs a mapping");
    keyword *keywords = tpl_take(st, p[0].dict->n, sizeof *keywords);
    args given_args = {.keywords = keywords};
    for (uint32_t i = 0; keywords && i < p[0].dict->n && tpl_charge(st, 1); i++)
        if (tpl_is_string(p[0].dict->keys[i]))
            keywords[given_args.n_keywords++] =
                (keyword){tpl_v_string(st, p[0].dict->keys[i].s, p[0].dict->keys[i].len).s,
                          p[0].dict->values[i]};
    return tpl_format_braces(st, x, &given_args);
}

static value pad(state *st, value x, const value *p, char align)
{
    return tpl_center_text(st, x, tpl_int_or(st, p[0], 0), tpl_text_or(st, p[1], " "), align);
}

static value m_center(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return pad(st, x, p, '^');
}

static value m_ljust(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return pad(st, x, p, '<');
}

static value m_rjust(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return pad(st, x, p, '>');
}

static value m_zfill(state *st, value x, const value *p, const args *all)
{
    (void)all;
    const bool sign = x.len && (x.s[0] == '-' || x.s[0] == '+');
    value digits = tpl_sub_text(x, sign, x.len);
    cdz_buf out = {0};
    const int64_t width = tpl_int_or(st, p[0], 0);
    digits = tpl_center_text(st, digits, width > 0 ? width - sign : 0, tpl_v_literal("0"), '>');
    tpl_put(st, &out, x.s, sign);
    tpl_put(st, &out, digits.s, digits.len);
    return tpl_take_text(st, &out);
}

static value m_expandtabs(state *st, value x, const value *p, const args *all)
{
    (void)all;
    const int64_t size = tpl_int_or(st, p[0], 8);
    int64_t column = 0;
    cdz_buf out = {0};
    if (size > FORMAT_WIDTH) return tpl_fail_limit(st, "a width of more than %d", FORMAT_WIDTH);
    for (size_t at = 0; at < x.len && !st->failed;) {
        const size_t from = at;
        const uint32_t code = tpl_next_code(x.s, x.len, &at);
        if (code == '\t') {
            for (int64_t n = size > 0 ? size - column % size : 0; n > 0; n--, column++)
                tpl_put(st, &out, " ", 1);
            continue;
        }
        column = code == '\n' || code == '\r' ? 0 : column + 1;
        tpl_put(st, &out, x.s + from, at - from);
    }
    return tpl_take_text(st, &out);
}

static value m_encode(state *st, value x, const value *p, const args *all)
{
    (void)all;
    value name = tpl_text_or(st, p[0], "utf-8");
    if (!tpl_same_text(name, "utf-8") && !tpl_same_text(name, "utf8"))
        return tpl_fail(st, "encode: only utf-8 is known");
    x.kind = V_BYTES;
    return x;
}

static value m_translate(state *st, value x, const value *p, const args *all)
{
    (void)all;
    cdz_buf out = {0};
    if (p[0].kind != V_DICT) return tpl_fail(st, "translate needs a mapping");
    for (size_t at = 0; at < x.len && !st->failed;) {
        const size_t from = at;
        const uint32_t code = tpl_next_code(x.s, x.len, &at);
        const value *by = tpl_dict_get(st, p[0].dict, tpl_v_int(code));
        char bytes[4];
        if (!by)
            tpl_put(st, &out, x.s + from, at - from);
        else if (tpl_is_string(*by))
            tpl_put(st, &out, by->s, by->len);
        else if (by->kind == V_INT && by->i >= 0 && by->i <= 0x10FFFF)
            tpl_put(st, &out, bytes, cdz_utf8_encode((uint32_t)by->i, bytes));
        else if (by->kind != V_NONE)
            tpl_fail(st, "translate: expected a string, a code point or none");
    }
    return tpl_take_text(st, &out);
}

/* Whether the string has characters and each one is of a class. */
static value all_are(state *st, value x, bool (*is)(uint32_t))
{
    if (!tpl_touch(st, (uint64_t)x.len * PER_CODE)) return tpl_v_none();
    for (size_t at = 0; at < x.len;)
        if (!is(tpl_next_code(x.s, x.len, &at))) return tpl_v_bool(false);
    return tpl_v_bool(x.len > 0);
}

static bool is_alnum(uint32_t code)
{
    return tpl_is_alpha(code) || tpl_is_decimal(code);
}
static bool is_ascii(uint32_t code)
{
    return code < 0x80;
}

#define CLASS_METHOD(name, result)                                                                 \
    static value name(state *st, value x, const value *p, const args *all)                         \
    {                                                                                              \
        (void)p;                                                                                   \
        (void)all;                                                                                 \
        (void)st;                                                                                  \
        return result;                                                                             \
    }
CLASS_METHOD(m_isalpha, all_are(st, x, tpl_is_alpha))
CLASS_METHOD(m_isdigit, all_are(st, x, tpl_is_decimal))
CLASS_METHOD(m_isalnum, all_are(st, x, is_alnum))
CLASS_METHOD(m_isspace, all_are(st, x, tpl_is_space))
CLASS_METHOD(m_isascii, x.len == 0 ? tpl_v_bool(true) : all_are(st, x, is_ascii))
CLASS_METHOD(m_isprintable, x.len == 0 ? tpl_v_bool(true) : all_are(st, x, tpl_is_printable))
CLASS_METHOD(m_islower, tpl_find_test("lower")->run(st, x, p, all))
CLASS_METHOD(m_isupper, tpl_find_test("upper")->run(st, x, p, all))

/* Upper case begins each run of letters, and is nowhere else. */
static value m_istitle(state *st, value x, const value *p, const args *all)
{
    bool inside = false, some = false;
    (void)p;
    (void)all;
    if (!tpl_touch(st, (uint64_t)x.len * PER_CODE)) return tpl_v_none();
    for (size_t at = 0; at < x.len;) {
        const uint32_t code = tpl_next_code(x.s, x.len, &at);
        const bool upper = tpl_is_upper(code), lower = tpl_is_lower(code);
        if ((upper && inside) || (lower && !inside)) return tpl_v_bool(false);
        inside = upper || lower;
        some = some || upper;
    }
    return tpl_v_bool(some);
}

static value m_isidentifier(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    if (!tpl_touch(st, (uint64_t)x.len * PER_CODE)) return tpl_v_none();
    for (size_t at = 0; at < x.len;) {
        const bool first = at == 0;
        const uint32_t code = tpl_next_code(x.s, x.len, &at);
        if (code != '_' && !tpl_is_alpha(code) && (first || !tpl_is_decimal(code)))
            return tpl_v_bool(false);
    }
    return tpl_v_bool(x.len > 0);
}

const builtin_row tpl_string_more_methods[] = {
    {"replace", m_replace, "old new count"},
    {"join", m_join, "iterable"},
    {"format", m_format, "*"},
    {"format_map", m_format_map, "mapping"},
    {"center", m_center, "width fillchar"},
    {"ljust", m_ljust, "width fillchar"},
    {"rjust", m_rjust, "width fillchar"},
    {"zfill", m_zfill, "width"},
    {"expandtabs", m_expandtabs, "tabsize"},
    {"encode", m_encode, "encoding errors"},
    {"translate", m_translate, "table"},
    {"isalpha", m_isalpha, ""},
    {"isdigit", m_isdigit, ""},
    {"isdecimal", m_isdigit, ""},
    {"isnumeric", m_isdigit, ""},
    {"isalnum", m_isalnum, ""},
    {"isspace", m_isspace, ""},
    {"isascii", m_isascii, ""},
    {"isprintable", m_isprintable, ""},
    {"islower", m_islower, ""},
    {"isupper", m_isupper, ""},
    {"istitle", m_istitle, ""},
    {"isidentifier", m_isidentifier, ""},
    {0},
};

/* --- mappings --------------------------------------------------------------------------------------------------- */

static value m_get(state *st, value x, const value *p, const args *all)
{
    (void)all;
    if (!tpl_is_hashable(st, p[0]))
        return tpl_fail(st, "unhashable type: '%s'", tpl_type_name(p[0]));
    const value *found = tpl_dict_get(st, x.dict, p[0]);
    return found ? *found : p[1].kind == V_MISSING ? tpl_v_none() : p[1];
}

#define VIEW_METHOD(name, which)                                                                   \
    static value name(state *st, value x, const value *p, const args *all)                         \
    {                                                                                              \
        (void)st;                                                                                  \
        (void)p;                                                                                   \
        (void)all;                                                                                 \
        return (value){.kind = V_VIEW, .len = which, .dict = x.dict};                              \
    }
VIEW_METHOD(m_keys, VIEW_KEYS)
VIEW_METHOD(m_values, VIEW_VALUES)
VIEW_METHOD(m_items, VIEW_ITEMS)

/* Nothing changes a value, so a copy is the value. */
static value m_copy(state *st, value x, const value *p, const args *all)
{
    (void)st;
    (void)p;
    (void)all;
    return x;
}

static const builtin_row dict_methods[] = {
    {"get", m_get, "key default"}, {"keys", m_keys, ""}, {"values", m_values, ""},
    {"items", m_items, ""},        {"copy", m_copy, ""}, {0},
};

/* --- lists -------------------------------------------------------------------------------------------------------- */

static value m_list_index(state *st, value x, const value *p, const args *all)
{
    (void)all;
    for (uint32_t i = 0; i < x.seq->n && tpl_charge(st, 1); i++)
        if (tpl_equal(st, x.seq->at[i], p[0])) return tpl_v_int(i);
    return tpl_fail(st, "the value is not in the list");
}

static value m_list_count(state *st, value x, const value *p, const args *all)
{
    (void)all;
    int64_t n = 0;
    for (uint32_t i = 0; i < x.seq->n && tpl_charge(st, 1); i++)
        n += tpl_equal(st, x.seq->at[i], p[0]);
    return tpl_v_int(n);
}

static const builtin_row list_methods[] = {
    {"index", m_list_index, "value"}, {"count", m_list_count, "value"}, {"copy", m_copy, ""}, {0}};

/* --- numbers, loops, cyclers ------------------------------------------------------------------------------------------ */

static value m_bit_length(state *st, value x, const value *p, const args *all)
{
    (void)st;
    (void)p;
    (void)all;
    const int64_t i = tpl_as_int(x);
    uint64_t size = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    int64_t n = 0;
    for (; size; size >>= 1) n++;
    return tpl_v_int(n);
}

static value m_is_integer(state *st, value x, const value *p, const args *all)
{
    (void)st;
    (void)p;
    (void)all;
    return tpl_v_bool(x.kind != V_FLOAT ||
                      x.d == (double)(int64_t)(x.d > -9e15 && x.d < 9e15 ? x.d : 0) ||
                      x.d <= -9e15 || x.d >= 9e15);
}

static const builtin_row number_methods[] = {
    {"bit_length", m_bit_length, ""}, {"is_integer", m_is_integer, ""}, {0}};

static value m_cycle(state *st, value x, const value *p, const args *all)
{
    (void)p;
    if (!all->n) return tpl_fail(st, "no items for cycling given");
    return all->at[x.loop->at % all->n];
}

static value m_changed(state *st, value x, const value *p, const args *all)
{
    (void)p;
    value now = tpl_v_seq(st, V_TUPLE, all->n);
    for (uint32_t i = 0; i < all->n; i++) tpl_seq_add(st, now, all->at[i]);
    if (x.loop->changed.kind != V_MISSING && tpl_equal(st, x.loop->changed, now))
        return tpl_v_bool(false);
    x.loop->changed = now;
    return tpl_v_bool(true);
}

static const builtin_row loop_methods[] = {
    {"cycle", m_cycle, "*"}, {"changed", m_changed, "*"}, {0}};

static value m_next(state *st, value x, const value *p, const args *all)
{
    (void)st;
    (void)p;
    (void)all;
    value v = x.seq->at[x.seq->next];
    x.seq->next = (x.seq->next + 1) % x.seq->n;
    return v;
}

static value m_reset(state *st, value x, const value *p, const args *all)
{
    (void)st;
    (void)p;
    (void)all;
    x.seq->next = 0;
    return tpl_v_none();
}

static const builtin_row cycler_methods[] = {{"next", m_next, ""}, {"reset", m_reset, ""}, {0}};

/* --- which one -------------------------------------------------------------------------------------------------------- */

const builtin_row *tpl_find_method(value of, const char *name, bool *unsafe)
{
    static const char *const list_hidden[] = {"append", "clear",   "extend", "insert", "pop",
                                              "remove", "reverse", "sort",   NULL};
    static const char *const dict_hidden[] = {"clear",      "pop",    "popitem",
                                              "setdefault", "update", NULL};
    const builtin_row *row;
    *unsafe = (of.kind == V_LIST && cdz_is_one_of(name, list_hidden)) ||
              (of.kind == V_DICT && cdz_is_one_of(name, dict_hidden));
    switch (of.kind) {
    case V_STRING:
        row = tpl_find_row(tpl_string_methods, name);
        return row ? row : tpl_find_row(tpl_string_more_methods, name);
    case V_DICT: return tpl_find_row(dict_methods, name);
    case V_LIST:
    case V_TUPLE:
        row = tpl_find_row(list_methods, name);
        return of.kind == V_TUPLE && row && strcmp(name, "copy") == 0 ? NULL : row;
    case V_BOOL:
    case V_INT:
    case V_FLOAT:
        row = tpl_find_row(number_methods, name);
        return of.kind == V_FLOAT && row && strcmp(name, "bit_length") == 0 ? NULL : row;
    case V_LOOP: return tpl_find_row(loop_methods, name);
    case V_CYCLER: return tpl_find_row(cycler_methods, name);
    default: return NULL;
    }
}
