/* filters_number.c - filters that make numbers. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/methods.h"

static value f_abs(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    if (x.kind == V_FLOAT) return tpl_v_float(fabs(x.d));
    if (x.kind == V_INT || x.kind == V_BOOL)
        return tpl_as_int(x) < 0 ? tpl_negate(st, x) : tpl_v_int(tpl_as_int(x));
    if (x.kind == V_UNDEFINED) return tpl_use_undefined(st, x);
    return tpl_fail(st, "bad operand type for abs(): '%s'", tpl_type_name(x));
}

/* A whole string as a number of that base ("0x1f" where the base allows it); false: it is none. */
static bool parse_int(state *st, value text, int64_t base, int64_t *out)
{
    if (!tpl_touch(st, (uint64_t)text.len * PER_CODE)) return false;
    text = tpl_strip(st, text, tpl_v_missing(), true, true);
    text = tpl_v_string(st, text.s, text.len);
    const char *s = text.s;
    char *end;
    if (!text.len || strlen(s) != text.len || (base != 0 && (base < 2 || base > 36))) return false;
    const char *digits = s + (*s == '+' || *s == '-');
    if ((base == 2 || base == 8) && digits[0] == '0' &&
        (digits[1] | 0x20) == (base == 2 ? 'b' : 'o'))
        return false; /* rare enough to be no number */
    errno = 0;
    *out = strtoll(s, &end, (int)base);
    return errno == 0 && *end == '\0' && end != digits;
}

static bool parse_float(state *st, value text, double *out)
{
    if (!tpl_touch(st, (uint64_t)text.len * PER_CODE)) return false;
    text = tpl_strip(st, text, tpl_v_missing(), true, true);
    text = tpl_v_string(st, text.s, text.len);
    char *end;
    if (!text.len || strlen(text.s) != text.len || strchr(text.s, 'x') || strchr(text.s, 'X'))
        return false;
    *out = strtod(text.s, &end);
    return *end == '\0';
}

static value whole(double d, value otherwise)
{
    return fabs(d) < 9.2e18 ? tpl_v_int((int64_t)d) : otherwise;
}

static value f_int(state *st, value x, const value *p, const args *all)
{
    (void)all;
    value otherwise = p[0].kind == V_MISSING ? tpl_v_int(0) : p[0];
    int64_t i;
    double d;
    if (x.kind == V_INT || x.kind == V_BOOL) return tpl_v_int(tpl_as_int(x));
    if (x.kind == V_FLOAT) return whole(x.d, otherwise);
    if (x.kind == V_UNDEFINED) return tpl_use_undefined(st, x);
    if (!tpl_is_string(x)) return otherwise;
    if (parse_int(st, x, tpl_int_or(st, p[1], 10), &i)) return tpl_v_int(i);
    return parse_float(st, x, &d) ? whole(d, otherwise) : otherwise;
}

static value f_float(state *st, value x, const value *p, const args *all)
{
    (void)all;
    double d;
    if (x.kind == V_UNDEFINED) return tpl_use_undefined(st, x);
    if (tpl_is_number(x)) return tpl_v_float(tpl_as_double(x));
    if (tpl_is_string(x) && parse_float(st, x, &d)) return tpl_v_float(d);
    return p[0].kind == V_MISSING ? tpl_v_float(0) : p[0];
}

enum { MOST_DIGITS = 400 }; /* a double has none behind */

/* Halves go to the even side of the number as written in binary, as Python's round. */
static double round_common(double d, int64_t precision)
{
    char text[800];
    if (!isfinite(d) || precision > MOST_DIGITS) return d;
    if (precision < -MOST_DIGITS) return d * 0;
    if (precision >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)precision, d);
        return strtod(text, NULL);
    }
    const double unit = pow(10, (double)-precision);
    return isfinite(unit) ? nearbyint(d / unit) * unit : d * 0;
}

static value f_round(state *st, value x, const value *p, const args *all)
{
    (void)all;
    const int64_t precision = tpl_int_or(st, p[0], 0);
    value how = tpl_text_or(st, p[1], "common");
    if (x.kind == V_UNDEFINED) return tpl_use_undefined(st, x);
    if (!tpl_is_number(x))
        return tpl_fail(st, "round: expected a number, found %s", tpl_type_name(x));
    const double d = tpl_as_double(x), unit = pow(10, (double)precision);
    if (tpl_same_text(how, "ceil")) return tpl_v_float(ceil(d * unit) / unit);
    if (tpl_same_text(how, "floor")) return tpl_v_float(floor(d * unit) / unit);
    if (!tpl_same_text(how, "common"))
        return tpl_fail(st, "round: method must be common, ceil or floor");
    if (x.kind != V_FLOAT)
        return precision >= 0 ? x : whole(round_common(d, precision), tpl_v_none());
    return tpl_v_float(round_common(d, precision));
}

static value f_sum(state *st, value x, const value *p, const args *all)
{
    (void)all;
    const value *items;
    uint32_t n;
    value total = p[1].kind == V_MISSING ? tpl_v_int(0) : p[1];
    if (!tpl_items_of(st, x, &items, &n)) return total;
    for (uint32_t i = 0; i < n && tpl_charge(st, 1); i++)
        total = tpl_arithmetic(st, 0 /* OP_ADD */, total,
                               tpl_given(p[0]) ? tpl_get_path(st, items[i], p[0]) : items[i]);
    return total;
}

const builtin_row tpl_number_filters[] = {
    {"abs", f_abs, ""},
    {"int", f_int, "default base"},
    {"float", f_float, "default"},
    {"round", f_round, "precision method"},
    {"sum", f_sum, "attribute start"},
    {0},
};
