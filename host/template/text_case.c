/* text_case.c - classes of characters and letter case, as Python's str has them. */
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "template/value.h"

/* --- classes --------------------------------------------------------------------------------------------- */

bool tpl_is_space(uint32_t code)
{
    if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13) || (code >= 28 && code <= 31);
    return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
           code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

static utf8proc_category_t category(uint32_t code)
{
    return utf8proc_category((utf8proc_int32_t)code);
}

bool tpl_is_printable(uint32_t code)
{
    if (code < 0x80) return code >= 0x20 && code < 0x7F;
    switch (category(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
    }
}

bool tpl_is_alpha(uint32_t code)
{
    const utf8proc_category_t c = category(code);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool tpl_is_decimal(uint32_t code)
{
    return category(code) == UTF8PROC_CATEGORY_ND;
}
bool tpl_is_lower(uint32_t code)
{
    return utf8proc_islower((utf8proc_int32_t)code) != 0;
}
bool tpl_is_upper(uint32_t code)
{
    return utf8proc_isupper((utf8proc_int32_t)code) != 0;
}

/* --- case ---------------------------------------------------------------------------------------------------- */

static const struct {
    uint32_t code;
    const char *upper, *title;
} special[] = {
#include "template/case_table.inc"
};

static void put_code(state *st, cdz_buf *to, utf8proc_int32_t code)
{
    char bytes[4];
    tpl_put(st, to, bytes, cdz_utf8_encode((uint32_t)code, bytes));
}

static void put_upper(state *st, cdz_buf *to, uint32_t code, bool title)
{
    size_t low = 0, high = sizeof special / sizeof *special;
    while (code > 0x7F && low < high) { /* the table is in order of code points */
        const size_t middle = (low + high) / 2;
        if (special[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    if (code > 0x7F && low < sizeof special / sizeof *special && special[low].code == code) {
        const char *text = title ? special[low].title : special[low].upper;
        tpl_put(st, to, text, strlen(text));
        return;
    }
    const utf8proc_int32_t c = (utf8proc_int32_t)code;
    put_code(st, to, title ? utf8proc_totitle(c) : utf8proc_toupper(c));
}

static bool is_cased(uint32_t code)
{
    return tpl_is_lower(code) || tpl_is_upper(code) || category(code) == UTF8PROC_CATEGORY_LT;
}

/* Marks and apostrophes do not count where a word ends. */
static bool is_beside(uint32_t code)
{
    return category(code) == UTF8PROC_CATEGORY_MN || code == '\'';
}

static bool cased_before(state *st, value text, size_t at)
{
    while (at > 0 && tpl_touch(st, 2 * PER_CODE)) {
        size_t begin = at - 1;
        while (begin > 0 && ((unsigned char)text.s[begin] & 0xC0) == 0x80) begin--;
        size_t next = begin;
        const uint32_t code = tpl_next_code(text.s, text.len, &next);
        if (!is_beside(code)) return is_cased(code);
        at = begin;
    }
    return false;
}

static bool cased_after(state *st, value text, size_t at)
{
    while (at < text.len && tpl_touch(st, 2 * PER_CODE)) {
        const uint32_t code = tpl_next_code(text.s, text.len, &at);
        if (!is_beside(code)) return is_cased(code);
    }
    return false;
}

/* Sigma ends a word when a letter is before it and none after. */
static bool ends_word(state *st, value text, size_t at, size_t after)
{
    return cased_before(st, text, at) && !cased_after(st, text, after);
}

static void put_lower(state *st, cdz_buf *to, value text, size_t from, size_t after, uint32_t code)
{
    if (code == 0x3A3)
        put_code(st, to, ends_word(st, text, from, after) ? 0x3C2 : 0x3C3);
    else if (code == 0x130)
        tpl_put(st, to, "i\xCC\x87", 3);
    else
        put_code(st, to, utf8proc_tolower((utf8proc_int32_t)code));
}

/* Full case folding, for comparisons that ignore case. */
static void put_folded(state *st, cdz_buf *to, uint32_t code)
{
    utf8proc_int32_t folded[8];
    int boundary = 0;
    const utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)code, folded, 8, UTF8PROC_CASEFOLD, &boundary);
    for (utf8proc_ssize_t i = 0; i < n && i < 8; i++) put_code(st, to, folded[i]);
}

value tpl_change_case(state *st, value text, letter_case how)
{
    cdz_buf out = {0};
    bool inside = false; /* a word, for titles */
    for (size_t at = 0; at < text.len && !st->failed;) {
        const size_t from = at;
        const uint32_t code = tpl_next_code(text.s, text.len, &at);
        bool upper = how == TO_UPPER || (how == TO_SWAPPED && tpl_is_lower(code));
        if (how == TO_TITLE) upper = !inside;
        if (how == TO_CAPITAL) upper = from == 0;
        if (how == TO_FOLDED)
            put_folded(st, &out, code);
        else if (upper)
            put_upper(st, &out, code, how == TO_TITLE || how == TO_CAPITAL);
        else if (how == TO_SWAPPED && !tpl_is_upper(code))
            put_code(st, &out, (utf8proc_int32_t)code);
        else
            put_lower(st, &out, text, from, at, code);
        inside = is_cased(code);
    }
    return tpl_take_text(st, &out);
}
