/* methods_string.c - methods of strings that change, cut or search them. */
#include <string.h>

#include "base/utf8.h"
#include "template/methods.h"

/* --- case and ends ---------------------------------------------------------------------------------------------- */

#define CASE_METHOD(name, how)                                                                     \
    static value name(state *st, value x, const value *p, const args *all)                         \
    {                                                                                              \
        (void)p;                                                                                   \
        (void)all;                                                                                 \
        return tpl_change_case(st, x, how);                                                        \
    }
CASE_METHOD(m_upper, TO_UPPER)
CASE_METHOD(m_lower, TO_LOWER)
CASE_METHOD(m_title, TO_TITLE)
CASE_METHOD(m_capitalize, TO_CAPITAL)
CASE_METHOD(m_swapcase, TO_SWAPPED)
CASE_METHOD(m_casefold, TO_FOLDED)

static value strip_with(state *st, value x, const value *p, bool left, bool right)
{
    if (tpl_given(p[0]) && !tpl_is_string(p[0]))
        return tpl_fail(st, "strip arg must be None or str");
    return tpl_strip(st, x, tpl_given(p[0]) ? p[0] : tpl_v_missing(), left, right);
}

static value m_strip(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return strip_with(st, x, p, true, true);
}

static value m_lstrip(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return strip_with(st, x, p, true, false);
}

static value m_rstrip(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return strip_with(st, x, p, false, true);
}

static bool has_prefix(value x, value what)
{
    return x.len >= what.len && memcmp(x.s, what.s, what.len) == 0;
}

static bool has_suffix(value x, value what)
{
    return x.len >= what.len && memcmp(x.s + x.len - what.len, what.s, what.len) == 0;
}

static value m_removeprefix(state *st, value x, const value *p, const args *all)
{
    (void)all;
    value what = tpl_text_or(st, p[0], "");
    return has_prefix(x, what) ? tpl_sub_text(x, what.len, x.len) : x;
}

static value m_removesuffix(state *st, value x, const value *p, const args *all)
{
    (void)all;
    value what = tpl_text_or(st, p[0], "");
    return has_suffix(x, what) ? tpl_sub_text(x, 0, x.len - what.len) : x;
}

/* --- searching -------------------------------------------------------------------------------------------------------- */

/* x[start:end] of the arguments 1 and 2, and how many code points lie before it. False: start is past the end,
 * where not even nothing is found. */
static bool window(state *st, value x, const value *p, value *out, int64_t *before)
{
    *out = x;
    *before = 0;
    if (!tpl_given(p[1]) && !tpl_given(p[2])) return true;
    if (!tpl_touch(st, (uint64_t)x.len * 2 * PER_CODE)) return false;
    const int64_t n = (int64_t)tpl_count_codes(x);
    int64_t start = tpl_given(p[1]) ? tpl_int_or(st, p[1], 0) : 0,
            end = tpl_given(p[2]) ? tpl_int_or(st, p[2], n) : n;
    if (start < 0) start = start < -n ? 0 : start + n;
    if (end < 0) end = end < -n ? 0 : end + n;
    if (end > n) end = n;
    if (start > end) return false;
    *before = start;
    *out = tpl_sub_text(x, tpl_byte_of(x, (size_t)start), tpl_byte_of(x, (size_t)end));
    return true;
}

static value ends_with_any(state *st, value x, const value *p, bool (*has)(value, value))
{
    value part;
    int64_t before;
    const bool some = window(st, x, p, &part, &before);
    if (tpl_is_string(p[0])) return tpl_v_bool(some && tpl_touch(st, p[0].len) && has(part, p[0]));
    if (p[0].kind != V_TUPLE)
        return tpl_fail(st, "expected a string or a tuple of strings, found %s",
                        tpl_type_name(p[0]));
    for (uint32_t i = 0; i < p[0].seq->n && tpl_charge(st, 1); i++)
        if (tpl_is_string(p[0].seq->at[i]) && some && tpl_touch(st, p[0].seq->at[i].len) &&
            has(part, p[0].seq->at[i]))
            return tpl_v_bool(true);
    return tpl_v_bool(false);
}

static value m_startswith(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return ends_with_any(st, x, p, has_prefix);
}

static value m_endswith(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return ends_with_any(st, x, p, has_suffix);
}

/* How many bytes are the same; all of them where that is len. */
static size_t same_bytes(const char *a, const char *b, size_t len)
{
    size_t n = 0;
    while (n < len && a[n] == b[n]) n++;
    return n;
}

/* What is compared is counted on the way: with the wrong texts it is the product of the lengths. */
static size_t find_last(state *st, value x, value what)
{
    if (what.len > x.len) return SIZE_MAX;
    for (size_t at = x.len - what.len + 1; at-- > 0;) {
        const size_t n = same_bytes(x.s + at, what.s, what.len);
        if (!tpl_touch(st, 1 + n)) return SIZE_MAX;
        if (n == what.len) return at;
    }
    return SIZE_MAX;
}

static value find_with(state *st, value x, const value *p, bool last, bool must)
{
    value part;
    int64_t before;
    if (!tpl_is_string(p[0]))
        return tpl_fail(st, "expected a string, found %s", tpl_type_name(p[0]));
    if (!tpl_touch(st, (uint64_t)x.len * PER_CODE)) return tpl_v_none();
    const bool some = window(st, x, p, &part, &before);
    const size_t at = !some  ? SIZE_MAX
                      : last ? find_last(st, part, p[0])
                             : tpl_find_text(part, p[0], 0);
    if (at != SIZE_MAX)
        return tpl_v_int(before + (int64_t)tpl_count_codes(tpl_sub_text(part, 0, at)));
    return must ? tpl_fail(st, "substring not found") : tpl_v_int(-1);
}

static value m_find(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return find_with(st, x, p, false, false);
}

static value m_rfind(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return find_with(st, x, p, true, false);
}

static value m_index(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return find_with(st, x, p, false, true);
}

static value m_rindex(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return find_with(st, x, p, true, true);
}

static value m_count(state *st, value x, const value *p, const args *all)
{
    (void)all;
    value part;
    int64_t before, n = 0;
    if (!tpl_is_string(p[0]))
        return tpl_fail(st, "expected a string, found %s", tpl_type_name(p[0]));
    if (!tpl_touch(st, (uint64_t)x.len * PER_CODE) || !window(st, x, p, &part, &before))
        return tpl_v_int(0);
    if (p[0].len == 0) return tpl_v_int((int64_t)tpl_count_codes(part) + 1);
    for (size_t at = 0; (at = tpl_find_text(part, p[0], at)) != SIZE_MAX && tpl_charge(st, 1);
         at += p[0].len)
        n++;
    return tpl_v_int(n);
}

/* --- cutting ------------------------------------------------------------------------------------------------------------ */

static void reverse_items(value list)
{
    for (uint32_t i = 0, n = list.seq->n; i < n / 2; i++) {
        value v = list.seq->at[i];
        list.seq->at[i] = list.seq->at[n - 1 - i];
        list.seq->at[n - 1 - i] = v;
    }
}

static value split_at(state *st, value x, value separator, int64_t most)
{
    value out = tpl_v_seq(st, V_LIST, 0);
    size_t at = 0;
    tpl_touch(st, x.len);
    for (int64_t i = 0; (most < 0 || i < most) && tpl_charge(st, 1); i++) {
        const size_t found = tpl_find_text(x, separator, at);
        if (found == SIZE_MAX) break;
        tpl_seq_add(st, out, tpl_sub_text(x, at, found));
        at = found + separator.len;
    }
    tpl_seq_add(st, out, tpl_sub_text(x, at, x.len));
    return out;
}

static value rsplit_at(state *st, value x, value separator, int64_t most)
{
    value out = tpl_v_seq(st, V_LIST, 0);
    for (int64_t i = 0; (most < 0 || i < most) && tpl_charge(st, 1); i++) {
        const size_t found = find_last(st, x, separator);
        if (found == SIZE_MAX) break;
        tpl_seq_add(st, out, tpl_sub_text(x, found + separator.len, x.len));
        x = tpl_sub_text(x, 0, found);
    }
    tpl_seq_add(st, out, x);
    if (!st->failed) reverse_items(out);
    return out;
}

static size_t word_end(value x)
{
    size_t at = 0;
    while (at < x.len) {
        size_t next = at;
        if (tpl_is_space(tpl_next_code(x.s, x.len, &next))) break;
        at = next;
    }
    return at;
}

static size_t word_begin(value x)
{
    size_t at = x.len;
    while (at > 0) {
        size_t from = at - 1;
        while (from > 0 && ((unsigned char)x.s[from] & 0xC0) == 0x80) from--;
        size_t next = from;
        if (tpl_is_space(tpl_next_code(x.s, x.len, &next))) break;
        at = from;
    }
    return at;
}

/* Split at runs of whitespace. */
static value split_words(state *st, value x, int64_t most, bool right)
{
    value out = tpl_v_seq(st, V_LIST, 0);
    x = tpl_strip(st, x, tpl_v_missing(), !right, right);
    for (int64_t i = 0; x.len && (most < 0 || i < most) && tpl_charge(st, 1); i++) {
        const size_t at = right ? word_begin(x) : word_end(x);
        tpl_touch(st, (uint64_t)(right ? x.len - at : at) * PER_CODE);
        tpl_seq_add(st, out, right ? tpl_sub_text(x, at, x.len) : tpl_sub_text(x, 0, at));
        x = right ? tpl_sub_text(x, 0, at) : tpl_sub_text(x, at, x.len);
        x = tpl_strip(st, x, tpl_v_missing(), !right, right);
    }
    if (x.len) tpl_seq_add(st, out, x);
    if (right && !st->failed) reverse_items(out);
    return out;
}

static value split_with(state *st, value x, const value *p, bool right)
{
    const int64_t most = tpl_int_or(st, p[1], -1);
    if (!tpl_given(p[0])) return split_words(st, x, most, right);
    if (!tpl_is_string(p[0]))
        return tpl_fail(st, "must be str or None, not %s", tpl_type_name(p[0]));
    if (p[0].len == 0) return tpl_fail(st, "empty separator");
    return right ? rsplit_at(st, x, p[0], most) : split_at(st, x, p[0], most);
}

static value m_split(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return split_with(st, x, p, false);
}

static value m_rsplit(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return split_with(st, x, p, true);
}

static value m_splitlines(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return tpl_lines_of(st, x, tpl_flag_or(st, p[0], false));
}

static value partition(state *st, value x, const value *p, bool right)
{
    if (!tpl_is_string(p[0]) || p[0].len == 0) return tpl_fail(st, "partition needs a separator");
    tpl_touch(st, x.len);
    const size_t at = right ? find_last(st, x, p[0]) : tpl_find_text(x, p[0], 0);
    value out = tpl_v_seq(st, V_TUPLE, 3), none = tpl_v_borrow("", 0);
    const bool found = at != SIZE_MAX;
    tpl_seq_add(st, out, found ? tpl_sub_text(x, 0, at) : right ? none : x);
    tpl_seq_add(st, out, found ? p[0] : none);
    tpl_seq_add(st, out, found ? tpl_sub_text(x, at + p[0].len, x.len) : right ? x : none);
    return out;
}

static value m_partition(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return partition(st, x, p, false);
}

static value m_rpartition(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return partition(st, x, p, true);
}

const builtin_row tpl_string_methods[] = {
    {"upper", m_upper, ""},
    {"lower", m_lower, ""},
    {"title", m_title, ""},
    {"capitalize", m_capitalize, ""},
    {"swapcase", m_swapcase, ""},
    {"casefold", m_casefold, ""},
    {"strip", m_strip, "chars"},
    {"lstrip", m_lstrip, "chars"},
    {"rstrip", m_rstrip, "chars"},
    {"removeprefix", m_removeprefix, "prefix"},
    {"removesuffix", m_removesuffix, "suffix"},
    {"startswith", m_startswith, "prefix start end"},
    {"endswith", m_endswith, "suffix start end"},
    {"find", m_find, "sub start end"},
    {"rfind", m_rfind, "sub start end"},
    {"index", m_index, "sub start end"},
    {"rindex", m_rindex, "sub start end"},
    {"count", m_count, "sub start end"},
    {"split", m_split, "sep maxsplit"},
    {"rsplit", m_rsplit, "sep maxsplit"},
    {"splitlines", m_splitlines, "keepends"},
    {"partition", m_partition, "sep"},
    {"rpartition", m_rpartition, "sep"},
    {0},
};
