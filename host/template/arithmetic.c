/* arithmetic.c - Python's operators on numbers, strings and lists, in 64 bits.
 *
 * Python's whole numbers have no end: a result that would need more than 64 bits is an error, never another number. */
#include <math.h>
#include <string.h>

#include "template/ast.h"

static const char *op_text(int op)
{
    static const char *const texts[] = {"+", "-", "*", "/", "//", "%", "**"};
    return texts[op];
}

static value overflow(state *st, int op)
{
    return tpl_fail(st, "the result of %s has more than 64 bits", op_text(op));
}

static value power(state *st, int64_t base, int64_t exponent)
{
    if (exponent < 0) {
        if (base == 0) return tpl_fail(st, "0 cannot be raised to a negative power");
        return tpl_v_float(pow((double)base, (double)exponent));
    }
    int64_t result = 1;
    /* Of these only whether the exponent is odd counts; any other base leaves 64 bits within as many rounds. */
    if (base >= -1 && base <= 1) exponent = exponent ? 2 - (exponent & 1) : 0;
    for (; exponent > 0; exponent--)
        if (__builtin_mul_overflow(result, base, &result)) return overflow(st, OP_POW);
    return tpl_v_int(result);
}

static value of_ints(state *st, int op, int64_t a, int64_t b)
{
    int64_t r = 0;
    bool over = false;
    switch (op) {
    case OP_ADD: over = __builtin_add_overflow(a, b, &r); break;
    case OP_SUB: over = __builtin_sub_overflow(a, b, &r); break;
    case OP_MUL: over = __builtin_mul_overflow(a, b, &r); break;
    case OP_POW: return power(st, a, b);
    default:
        if (b == 0) return tpl_fail(st, "division by zero");
        if (op == OP_DIV) return tpl_v_float((double)a / (double)b);
        if (b == -1) { /* INT64_MIN / -1 */
            over = op == OP_FLOORDIV && __builtin_sub_overflow((int64_t)0, a, &r);
            break;
        }
        /* Python rounds down, C towards zero. */
        r = op == OP_FLOORDIV ? a / b : a % b;
        if (a % b != 0 && (a < 0) != (b < 0)) r += op == OP_FLOORDIV ? -1 : b;
        break;
    }
    return over ? overflow(st, op) : tpl_v_int(r);
}

static value of_floats(state *st, int op, double a, double b)
{
    if (b == 0 && (op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD))
        return tpl_fail(st, "float division by zero");
    switch (op) {
    case OP_ADD: return tpl_v_float(a + b);
    case OP_SUB: return tpl_v_float(a - b);
    case OP_MUL: return tpl_v_float(a * b);
    case OP_DIV: return tpl_v_float(a / b);
    case OP_POW:
        if (a == 0 && b < 0) return tpl_fail(st, "0.0 cannot be raised to a negative power");
        return tpl_v_float(pow(a, b));
    default: break;
    }
    double rest = fmod(a, b);
    if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
    return tpl_v_float(op == OP_MOD ? rest : floor((a - rest) / b + 0.5));
}

static value joined(state *st, value a, value b)
{
    cdz_buf text = {0};
    const bool safe = a.safe || b.safe;
    if (safe && !a.safe)
        tpl_put_escaped(st, &text, a.s, a.len);
    else
        tpl_put(st, &text, a.s, a.len);
    if (safe && !b.safe)
        tpl_put_escaped(st, &text, b.s, b.len);
    else
        tpl_put(st, &text, b.s, b.len);
    value v = tpl_take_text(st, &text);
    v.safe = safe;
    return v;
}

static value appended(state *st, value a, value b)
{
    const uint64_t n = (uint64_t)a.seq->n + b.seq->n;
    if (n > UINT32_MAX || !tpl_touch(st, n * PER_ITEM))
        return tpl_fail_limit(st, "a list of %llu items", (unsigned long long)n);
    value out = tpl_v_seq(st, a.kind, (uint32_t)n);
    for (uint32_t i = 0; i < a.seq->n; i++) tpl_seq_add(st, out, a.seq->at[i]);
    for (uint32_t i = 0; i < b.seq->n; i++) tpl_seq_add(st, out, b.seq->at[i]);
    return out;
}

static value repeated(state *st, value v, int64_t times)
{
    const uint64_t unit = v.kind == V_STRING ? v.len : v.seq->n;
    uint64_t total;
    if (times < 0) times = 0;
    if (__builtin_mul_overflow(unit, (uint64_t)times, &total) || total > st->max_output)
        return tpl_fail_limit(st, "a repetition of more than %zu bytes or items", st->max_output);
    if (unit == 0) times = 0;
    if (v.kind == V_STRING) {
        char *text = tpl_take(st, total + 1, 1);
        if (!tpl_touch(st, total + (uint64_t)times * PER_CODE)) text = NULL;
        for (int64_t i = 0; text && i < times; i++) memcpy(text + (uint64_t)i * unit, v.s, unit);
        return tpl_v_borrow(text ? text : "", text ? total : 0);
    }
    tpl_touch(st, total * PER_ITEM);
    value out = tpl_v_seq(st, v.kind, st->failed ? 0 : (uint32_t)total);
    for (int64_t i = 0; i < times && !st->failed; i++)
        for (uint32_t k = 0; k < v.seq->n; k++) tpl_seq_add(st, out, v.seq->at[k]);
    return out;
}

static bool is_sequence(value v)
{
    return v.kind == V_STRING || v.kind == V_LIST || v.kind == V_TUPLE;
}

static bool is_whole(value v)
{
    return v.kind == V_INT || v.kind == V_BOOL;
}

static value format_operator(state *st, value format, value with)
{
    args all = {.at = &with, .n = 1};
    if (with.kind == V_TUPLE) {
        all.at = with.seq->at;
        all.n = with.seq->n;
    }
    const bool maps = with.kind == V_DICT || with.kind == V_LIST || with.kind == V_RANGE ||
                      with.kind == V_UNDEFINED;
    return tpl_format_percent(st, format, &all, maps);
}

static value refuse(state *st, int op, value a, value b)
{
    if (a.kind == V_UNDEFINED) return tpl_use_undefined(st, a);
    if (b.kind == V_UNDEFINED) return tpl_use_undefined(st, b);
    if (a.kind == V_BIG || b.kind == V_BIG) return overflow(st, op);
    if (op == OP_ADD && is_sequence(a))
        return tpl_fail(st, "can only concatenate %s (not \"%s\") to %s", tpl_type_name(a),
                        tpl_type_name(b), tpl_type_name(a));
    return tpl_fail(st, "unsupported operand type(s) for %s: '%s' and '%s'", op_text(op),
                    tpl_type_name(a), tpl_type_name(b));
}

value tpl_arithmetic(state *st, int op, value a, value b)
{
    if (st->failed) return tpl_v_none();
    if (is_whole(a) && is_whole(b)) return of_ints(st, op, tpl_as_int(a), tpl_as_int(b));
    if (tpl_is_number(a) && tpl_is_number(b))
        return of_floats(st, op, tpl_as_double(a), tpl_as_double(b));
    if (op == OP_ADD && a.kind == b.kind) {
        if (tpl_is_string(a)) return joined(st, a, b);
        if (a.kind == V_LIST || a.kind == V_TUPLE) return appended(st, a, b);
    }
    if (op == OP_MUL && is_sequence(a) && is_whole(b)) return repeated(st, a, tpl_as_int(b));
    if (op == OP_MUL && is_whole(a) && is_sequence(b)) return repeated(st, b, tpl_as_int(a));
    if (op == OP_MOD && tpl_is_string(a)) return format_operator(st, a, b);
    return refuse(st, op, a, b);
}

value tpl_negate(state *st, value v)
{
    if (v.kind == V_FLOAT) return tpl_v_float(-v.d);
    if (is_whole(v)) return of_ints(st, OP_SUB, 0, tpl_as_int(v));
    if (v.kind == V_UNDEFINED) return tpl_use_undefined(st, v);
    return tpl_fail(st, "bad operand type for unary -: '%s'", tpl_type_name(v));
}
