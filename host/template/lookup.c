/* lookup.c - a.b and a[b]: attributes, items, slices, methods, and what the sandbox hides. */
#include <stdlib.h>
#include <string.h>

#include "template/ast.h"

const builtin_row *tpl_find_row(const builtin_row *rows, const char *name)
{
    for (; rows->name; rows++)
        if (strcmp(rows->name, name) == 0) return rows;
    return NULL;
}

/* --- attributes ------------------------------------------------------------------------------------------------ */

static value loop_attribute(state *st, const loop *l, const char *name)
{
    if (strcmp(name, "index") == 0) return tpl_v_int((int64_t)l->at + 1);
    if (strcmp(name, "index0") == 0) return tpl_v_int(l->at);
    if (strcmp(name, "revindex") == 0) return tpl_v_int((int64_t)l->n - l->at);
    if (strcmp(name, "revindex0") == 0) return tpl_v_int((int64_t)l->n - l->at - 1);
    if (strcmp(name, "first") == 0) return tpl_v_bool(l->at == 0);
    if (strcmp(name, "last") == 0) return tpl_v_bool(l->at + 1 == l->n);
    if (strcmp(name, "length") == 0) return tpl_v_int(l->n);
    if (strcmp(name, "depth") == 0) return tpl_v_int((int64_t)l->depth + 1);
    if (strcmp(name, "depth0") == 0) return tpl_v_int(l->depth);
    if (strcmp(name, "previtem") == 0)
        return l->at ? l->items[l->at - 1] : tpl_v_undefined(st, "there is no previous item");
    if (strcmp(name, "nextitem") == 0)
        return l->at + 1 < l->n ? l->items[l->at + 1] : tpl_v_undefined(st, "there is no next item");
    return tpl_v_missing();
}

static value macro_attribute(state *st, const macro *m, const char *name)
{
    if (strcmp(name, "name") == 0) return tpl_v_literal(m->def->text);
    if (strcmp(name, "caller") == 0) return tpl_v_bool(m->def->uses_caller);
    if (strcmp(name, "catch_varargs") == 0) return tpl_v_bool(m->def->uses_varargs);
    if (strcmp(name, "catch_kwargs") == 0) return tpl_v_bool(m->def->uses_kwargs);
    if (strcmp(name, "arguments") != 0) return tpl_v_missing();
    value names = tpl_v_seq(st, V_TUPLE, m->def->n);
    for (uint32_t i = 0; i < m->def->n; i++)
        tpl_seq_add(st, names, tpl_v_literal(m->def->kids[i]->text));
    return names;
}

static value bound_method(state *st, const builtin_row *row, value self)
{
    method *m = tpl_take(st, 1, sizeof *m);
    value *copy = tpl_take(st, 1, sizeof *copy);
    if (!m || !copy) return tpl_v_none();
    *copy = self;
    *m = (method){.row = row, .self = copy};
    return (value){.kind = V_METHOD, .method = m};
}

/* Python's getattr: V_MISSING where there is no such attribute. */
static value own_attribute(state *st, value of, value name)
{
    bool unsafe = false;
    value v = tpl_v_missing();
    if (of.kind == V_LOOP) v = loop_attribute(st, of.loop, name.s);
    if (of.kind == V_MACRO) v = macro_attribute(st, of.macro, name.s);
    if (of.kind == V_TUPLE && of.safe) { /* a group of groupby */
        if (strcmp(name.s, "grouper") == 0) v = of.seq->at[0];
        if (strcmp(name.s, "list") == 0) v = of.seq->at[1];
    }
    if (of.kind == V_CYCLER && strcmp(name.s, "current") == 0) v = of.seq->at[of.seq->next];
    if (of.kind == V_NAMESPACE) {
        const value *item = tpl_dict_get(st, of.dict, name);
        if (item) v = *item;
    }
    if (v.kind != V_MISSING) return v;
    const builtin_row *row = tpl_find_method(of, name.s, &unsafe);
    if (row) return bound_method(st, row, of);
    if (name.len > 4 && memcmp(name.s, "__", 2) == 0 && memcmp(name.s + name.len - 2, "__", 2) == 0)
        unsafe = true; /* every object has some of these, none for templates */
    return unsafe ? tpl_v_lacks(st, of, name, true) : v;
}

/* --- items --------------------------------------------------------------------------------------------------------- */

static int64_t slice_part(state *st, value v, int64_t otherwise)
{
    if (v.kind == V_NONE || v.kind == V_MISSING) return otherwise;
    if (v.kind == V_INT || v.kind == V_BOOL) return tpl_as_int(v);
    tpl_fail(st, "slice indices must be integers or None, not %s", tpl_type_name(v));
    return otherwise;
}

static int64_t clamp(int64_t i, int64_t n, int64_t low, int64_t high)
{
    if (i < 0) i = i < -n ? -1 : i + n;
    return i < low ? low : i > high ? high : i;
}

/* The indices of a slice over n items, as Python's slice.indices. */
static range slice_range(state *st, value slice, int64_t n)
{
    range r = {.step = slice_part(st, slice.cell[2], 1)};
    if (r.step == 0) tpl_fail(st, "slice step cannot be zero");
    if (r.step == 0 || st->failed) return (range){.step = 1};
    if (r.step < -INT32_MAX) r.step = -INT32_MAX;
    if (r.step > INT32_MAX) r.step = INT32_MAX;
    const bool back = r.step < 0;
    const int64_t low = back ? -1 : 0, high = back ? n - 1 : n;
    const bool no_start = slice.cell[0].kind == V_NONE, no_stop = slice.cell[1].kind == V_NONE;
    r.start = no_start ? (back ? high : low) : clamp(slice_part(st, slice.cell[0], 0), n, low, high);
    r.stop = no_stop ? (back ? low : high) : clamp(slice_part(st, slice.cell[1], 0), n, low, high);
    const int64_t span = back ? r.start - r.stop : r.stop - r.start;
    const int64_t stride = back ? -r.step : r.step;
    r.n = span > 0 ? (span + stride - 1) / stride : 0;
    return r;
}

static value slice_string(state *st, value text, value slice)
{
    const int64_t n = tpl_touch(st, text.len * 2 * PER_CODE) ? (int64_t)tpl_count_codes(text) : 0;
    const range r = slice_range(st, slice, n);
    if (r.n == 0) return tpl_v_borrow("", 0);
    if (r.step == 1) {
        const size_t begin = tpl_byte_of(text, (size_t)r.start);
        value rest = tpl_sub_text(text, begin, text.len);
        return tpl_sub_text(rest, 0, tpl_byte_of(rest, (size_t)r.n));
    }
    const value *letters;
    uint32_t n_letters;
    cdz_buf out = {0};
    if (tpl_items_of(st, text, &letters, &n_letters))
        for (int64_t i = 0; i < r.n && !st->failed; i++) {
            value c = letters[r.start + i * r.step];
            tpl_put(st, &out, c.s, c.len);
        }
    return tpl_take_text(st, &out);
}

static value slice_list(state *st, value list, value slice)
{
    const range r = slice_range(st, slice, list.seq->n);
    value out = tpl_v_seq(st, list.kind, (uint32_t)r.n);
    tpl_touch(st, (uint64_t)r.n * PER_ITEM);
    for (int64_t i = 0; i < r.n && !st->failed; i++)
        tpl_seq_add(st, out, list.seq->at[r.start + i * r.step]);
    return out;
}

/* Item i of a range, or what would come before the first or after the last; false: that has more than 64 bits. */
static bool end_at(const range *r, int64_t i, int64_t *out)
{
    if (i < 0) return !__builtin_sub_overflow(r->start, r->step, out);
    if (i > 0 && i == r->n) return !__builtin_add_overflow(tpl_range_at(r, i - 1), r->step, out);
    *out = tpl_range_at(r, i);
    return true;
}

static value slice_of(state *st, value of, value slice)
{
    if (of.kind == V_STRING) return slice_string(st, of, slice);
    if (of.kind == V_LIST || of.kind == V_TUPLE) return slice_list(st, of, slice);
    if (of.kind != V_RANGE) return tpl_v_missing();
    const range in = *of.range, r = slice_range(st, slice, in.n);
    range *out = tpl_take(st, 1, sizeof *out);
    if (!out) return tpl_v_missing();
    *out = (range){.n = r.n};
    if (!end_at(&in, r.start, &out->start) || !end_at(&in, r.stop, &out->stop) ||
        __builtin_mul_overflow(in.step, r.step, &out->step))
        return tpl_fail(st, "a slice of a range whose ends or step have more than 64 bits");
    return (value){.kind = V_RANGE, .range = out};
}

static value index_of(state *st, value of, int64_t i)
{
    uint64_t length = 0;
    if (of.kind == V_STRING && !tpl_touch(st, of.len * 2 * (uint64_t)PER_CODE))
        return tpl_v_missing();
    if (of.kind == V_DICT || of.kind == V_VIEW || of.kind == V_LOOP || !tpl_has_length(of, &length))
        return tpl_v_missing();
    const int64_t n = (int64_t)length;
    if (i < 0) i += n;
    if (i < 0 || i >= n) return tpl_v_missing();
    if (of.kind == V_RANGE) return tpl_v_int(tpl_range_at(of.range, i));
    if (of.kind == V_BYTES) return tpl_v_int((unsigned char)of.s[i]);
    if (of.kind != V_STRING) return of.seq->at[i];
    const size_t begin = tpl_byte_of(of, (size_t)i);
    size_t end = begin;
    tpl_next_code(of.s, of.len, &end);
    return tpl_sub_text(of, begin, end);
}

/* Python's obj[key]: V_MISSING where it fails. */
static value own_item(state *st, value of, value key)
{
    if (key.kind == V_SLICE) return slice_of(st, of, key);
    if (of.kind == V_DICT) {
        const value *found = tpl_is_hashable(st, key) ? tpl_dict_get(st, of.dict, key) : NULL;
        return found ? *found : tpl_v_missing();
    }
    if (key.kind == V_INT || key.kind == V_BOOL) return index_of(st, of, tpl_as_int(key));
    return tpl_v_missing();
}

value tpl_get_attribute(state *st, value of, value name)
{
    if (st->failed) return tpl_v_none();
    if (of.kind == V_UNDEFINED) return tpl_use_undefined(st, of);
    value v = own_attribute(st, of, name);
    if (v.kind == V_MISSING) v = own_item(st, of, name);
    return v.kind == V_MISSING ? tpl_v_lacks(st, of, name, false) : v;
}

value tpl_get_item(state *st, value of, value key)
{
    if (st->failed) return tpl_v_none();
    if (of.kind == V_UNDEFINED) return tpl_use_undefined(st, of);
    value v = own_item(st, of, key);
    if (v.kind == V_MISSING && key.kind == V_SLICE)
        return tpl_fail(st, "'%s' object cannot be cut", tpl_type_name(of));
    if (v.kind == V_MISSING && tpl_is_string(key)) {
        value name = tpl_v_string(st, key.s, key.len); /* with a NUL behind it */
        v = own_attribute(st, of, name);
        if (v.kind == V_MISSING) return tpl_v_lacks(st, of, name, false);
    }
    return v.kind == V_MISSING ? tpl_v_lacks(st, of, key, false) : v;
}

value tpl_get_path(state *st, value of, value path)
{
    if (!tpl_is_string(path)) return tpl_get_item(st, of, path);
    for (size_t at = 0; at <= path.len && tpl_charge(st, 1);) {
        size_t end = at;
        bool digits = true;
        for (; end < path.len && path.s[end] != '.'; end++)
            digits = digits && path.s[end] >= '0' && path.s[end] <= '9';
        value part = tpl_v_string(st, path.s + at, end - at);
        of = tpl_get_item(st, of,
                          digits && part.len && part.len < 10 ? tpl_v_int(strtol(part.s, NULL, 10))
                                                              : part);
        at = end + 1;
    }
    return of;
}
