/* methods_more.c - the other methods of strings, those of lists, mappings and numbers, and which
 * ones the sandbox hides because they change their object. */
#include <string.h>

#include "base/utf8.h"
#include "template/methods.h"

/* --- strings ---------------------------------------------------------------------------------------------------- */

static value m_replace(state *st, value x, const value *p, const args *all)
{
    (void)all;
    if (!is_string(p[0]) || !is_string(p[1])) return fail(st, "replace needs two strings");
    return replace_text(st, x, p[0], p[1], int_or(st, p[2], -1));
}

static value m_join(state *st, value x, const value *p, const args *all)
{
    (void)all;
    const value *items;
    uint32_t n;
    if (!items_of(st, p[0], &items, &n)) return x;
    return join_items(st, x, items, n, true);
}

static value m_format(state *st, value x, const value *p, const args *all)
{
    (void)p;
    return format_braces(st, x, all);
}

static value m_format_map(state *st, value x, const value *p, const args *all)
{
    (void)all;
    if (p[0].kind != V_DICT) return fail(st, "format_map needs a mapping");
    keyword *keywords = take(st, p[0].dict->n, sizeof *keywords);
    args given_args = {.keywords = keywords};
    for (uint32_t i = 0; keywords && i < p[0].dict->n && charge(st, 1); i++)
        if (is_string(p[0].dict->keys[i]))
            keywords[given_args.n_keywords++] = (keyword){
                v_string(st, p[0].dict->keys[i].s, p[0].dict->keys[i].len).s, p[0].dict->values[i]};
    return format_braces(st, x, &given_args);
}

static value pad(state *st, value x, const value *p, char align)
{
    return center_text(st, x, int_or(st, p[0], 0), text_or(st, p[1], " "), align);
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
    value digits = sub_text(x, sign, x.len);
    cdz_buf out = {0};
    const int64_t width = int_or(st, p[0], 0);
    digits = center_text(st, digits, width > 0 ? width - sign : 0, v_literal("0"), '>');
    put(st, &out, x.s, sign);
    put(st, &out, digits.s, digits.len);
    return take_text(st, &out);
}

static value m_expandtabs(state *st, value x, const value *p, const args *all)
{
    (void)all;
    const int64_t size = int_or(st, p[0], 8);
    int64_t column = 0;
    cdz_buf out = {0};
    if (size > FORMAT_WIDTH) return fail_limit(st, "a width of more than %d", FORMAT_WIDTH);
    for (size_t at = 0; at < x.len && !st->failed;) {
        const size_t from = at;
        const uint32_t code = next_code(x.s, x.len, &at);
        if (code == '\t') {
            for (int64_t n = size > 0 ? size - column % size : 0; n > 0; n--, column++)
                put(st, &out, " ", 1);
            continue;
        }
        column = code == '\n' || code == '\r' ? 0 : column + 1;
        put(st, &out, x.s + from, at - from);
    }
    return take_text(st, &out);
}

static value m_encode(state *st, value x, const value *p, const args *all)
{
    (void)all;
    value name = text_or(st, p[0], "utf-8");
    if (!same_text(name, "utf-8") && !same_text(name, "utf8"))
        return fail(st, "encode: only utf-8 is known");
    x.kind = V_BYTES;
    return x;
}

static value m_translate(state *st, value x, const value *p, const args *all)
{
    (void)all;
    cdz_buf out = {0};
    if (p[0].kind != V_DICT) return fail(st, "translate needs a mapping");
    for (size_t at = 0; at < x.len && !st->failed;) {
        const size_t from = at;
        const uint32_t code = next_code(x.s, x.len, &at);
        const value *by = dict_get(st, p[0].dict, v_int(code));
        char bytes[4];
        if (!by)
            put(st, &out, x.s + from, at - from);
        else if (is_string(*by))
            put(st, &out, by->s, by->len);
        else if (by->kind == V_INT && by->i >= 0 && by->i <= 0x10FFFF)
            put(st, &out, bytes, cdz_utf8_encode((uint32_t)by->i, bytes));
        else if (by->kind != V_NONE)
            fail(st, "translate: expected a string, a code point or none");
    }
    return take_text(st, &out);
}

/* Whether the string has characters and each one is of a class. */
static value all_are(state *st, value x, bool (*is)(uint32_t))
{
    if (!touch(st, (uint64_t)x.len * PER_CODE)) return v_none();
    for (size_t at = 0; at < x.len;)
        if (!is(next_code(x.s, x.len, &at))) return v_bool(false);
    return v_bool(x.len > 0);
}

static bool is_alnum(uint32_t code)
{
    return is_alpha(code) || is_decimal(code);
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
CLASS_METHOD(m_isalpha, all_are(st, x, is_alpha))
CLASS_METHOD(m_isdigit, all_are(st, x, is_decimal))
CLASS_METHOD(m_isalnum, all_are(st, x, is_alnum))
CLASS_METHOD(m_isspace, all_are(st, x, is_space))
CLASS_METHOD(m_isascii, x.len == 0 ? v_bool(true) : all_are(st, x, is_ascii))
CLASS_METHOD(m_isprintable, x.len == 0 ? v_bool(true) : all_are(st, x, is_printable))
CLASS_METHOD(m_islower, find_test("lower")->run(st, x, p, all))
CLASS_METHOD(m_isupper, find_test("upper")->run(st, x, p, all))

/* Upper case begins each run of letters, and is nowhere else. */
static value m_istitle(state *st, value x, const value *p, const args *all)
{
    bool inside = false, some = false;
    (void)p;
    (void)all;
    if (!touch(st, (uint64_t)x.len * PER_CODE)) return v_none();
    for (size_t at = 0; at < x.len;) {
        const uint32_t code = next_code(x.s, x.len, &at);
        const bool upper = is_upper(code), lower = is_lower(code);
        if ((upper && inside) || (lower && !inside)) return v_bool(false);
        inside = upper || lower;
        some = some || upper;
    }
    return v_bool(some);
}

static value m_isidentifier(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    if (!touch(st, (uint64_t)x.len * PER_CODE)) return v_none();
    for (size_t at = 0; at < x.len;) {
        const bool first = at == 0;
        const uint32_t code = next_code(x.s, x.len, &at);
        if (code != '_' && !is_alpha(code) && (first || !is_decimal(code))) return v_bool(false);
    }
    return v_bool(x.len > 0);
}

const builtin_row string_more_methods[] = {
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
    if (!is_hashable(st, p[0])) return fail(st, "unhashable type: '%s'", type_name(p[0]));
    const value *found = dict_get(st, x.dict, p[0]);
    return found ? *found : p[1].kind == V_MISSING ? v_none() : p[1];
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
    for (uint32_t i = 0; i < x.seq->n && charge(st, 1); i++)
        if (equal(st, x.seq->at[i], p[0])) return v_int(i);
    return fail(st, "the value is not in the list");
}

static value m_list_count(state *st, value x, const value *p, const args *all)
{
    (void)all;
    int64_t n = 0;
    for (uint32_t i = 0; i < x.seq->n && charge(st, 1); i++) n += equal(st, x.seq->at[i], p[0]);
    return v_int(n);
}

static const builtin_row list_methods[] = {
    {"index", m_list_index, "value"}, {"count", m_list_count, "value"}, {"copy", m_copy, ""}, {0}};

/* --- numbers, loops, cyclers ------------------------------------------------------------------------------------------ */

static value m_bit_length(state *st, value x, const value *p, const args *all)
{
    (void)st;
    (void)p;
    (void)all;
    const int64_t i = as_int(x);
    uint64_t size = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    int64_t n = 0;
    for (; size; size >>= 1) n++;
    return v_int(n);
}

static value m_is_integer(state *st, value x, const value *p, const args *all)
{
    (void)st;
    (void)p;
    (void)all;
    return v_bool(x.kind != V_FLOAT ||
                  x.d == (double)(int64_t)(x.d > -9e15 && x.d < 9e15 ? x.d : 0) || x.d <= -9e15 ||
                  x.d >= 9e15);
}

static const builtin_row number_methods[] = {
    {"bit_length", m_bit_length, ""}, {"is_integer", m_is_integer, ""}, {0}};

static value m_cycle(state *st, value x, const value *p, const args *all)
{
    (void)p;
    if (!all->n) return fail(st, "no items for cycling given");
    return all->at[x.loop->at % all->n];
}

static value m_changed(state *st, value x, const value *p, const args *all)
{
    (void)p;
    value now = v_seq(st, V_TUPLE, all->n);
    for (uint32_t i = 0; i < all->n; i++) seq_add(st, now, all->at[i]);
    if (x.loop->changed.kind != V_MISSING && equal(st, x.loop->changed, now)) return v_bool(false);
    x.loop->changed = now;
    return v_bool(true);
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
    return v_none();
}

static const builtin_row cycler_methods[] = {{"next", m_next, ""}, {"reset", m_reset, ""}, {0}};

/* --- which one -------------------------------------------------------------------------------------------------------- */

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(*names, name) == 0) return true;
    return false;
}

const builtin_row *find_method(value of, const char *name, bool *unsafe)
{
    static const char *const list_hidden[] = {"append", "clear",   "extend", "insert", "pop",
                                              "remove", "reverse", "sort",   NULL};
    static const char *const dict_hidden[] = {"clear",      "pop",    "popitem",
                                              "setdefault", "update", NULL};
    const builtin_row *row;
    *unsafe = (of.kind == V_LIST && is_one_of(name, list_hidden)) ||
              (of.kind == V_DICT && is_one_of(name, dict_hidden));
    switch (of.kind) {
    case V_STRING:
        row = find_row(string_methods, name);
        return row ? row : find_row(string_more_methods, name);
    case V_DICT: return find_row(dict_methods, name);
    case V_LIST:
    case V_TUPLE:
        row = find_row(list_methods, name);
        return of.kind == V_TUPLE && row && strcmp(name, "copy") == 0 ? NULL : row;
    case V_BOOL:
    case V_INT:
    case V_FLOAT:
        row = find_row(number_methods, name);
        return of.kind == V_FLOAT && row && strcmp(name, "bit_length") == 0 ? NULL : row;
    case V_LOOP: return find_row(loop_methods, name);
    case V_CYCLER: return find_row(cycler_methods, name);
    default: return NULL;
    }
}
