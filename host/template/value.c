/* value.c - making values, and what Python says of them: truth, equality, order, iteration.
 *
 * Owns nothing: values lie in the arena of the rendering. Texts that outlive it (the template's, the context's) are borrowed,
 * all others copied. */
#include "template/value.h"

#include <math.h>
#include <string.h>

#include "template/ast.h"

/* --- making --------------------------------------------------------------------------------------------- */

value tpl_v_missing(void)
{
    return (value){.kind = V_MISSING};
}
value tpl_v_none(void)
{
    return (value){.kind = V_NONE};
}
value tpl_v_int(int64_t i)
{
    return (value){.kind = V_INT, .i = i};
}
value tpl_v_bool(bool b)
{
    return (value){.kind = V_BOOL, .b = b};
}
value tpl_v_float(double d)
{
    return (value){.kind = V_FLOAT, .d = d};
}
value tpl_v_literal(const char *text)
{
    return tpl_v_borrow(text, strlen(text));
}

value tpl_v_borrow(const char *text, size_t len)
{
    return (value){.kind = V_STRING, .len = (uint32_t)len, .s = text};
}

value tpl_v_string(state *st, const char *text, size_t len)
{
    char *copy = tpl_take(st, len + 1, 1);
    if (!copy) return tpl_v_borrow("", 0);
    if (len) memcpy(copy, text, len);
    return tpl_v_borrow(copy, len);
}

value tpl_v_undefined(state *st, const char *name)
{
    undefined *u = tpl_take(st, 1, sizeof *u);
    if (u) u->name = name;
    return (value){.kind = V_UNDEFINED, .undef = u};
}

value tpl_v_lacks(state *st, value of, value what, bool unsafe)
{
    undefined *u = tpl_take(st, 1, sizeof *u);
    value *copies = tpl_take(st, 2, sizeof *copies);
    if (u && copies) {
        copies[0] = of;
        copies[1] = what;
        u->of = &copies[0];
        u->element = tpl_is_string(what) ? NULL : &copies[1];
        u->name = tpl_is_string(what) ? what.s : NULL;
        u->unsafe = unsafe;
    }
    return (value){.kind = V_UNDEFINED, .undef = copies ? u : NULL};
}

value tpl_v_seq(state *st, value_kind kind, uint32_t room)
{
    seq *s = tpl_take(st, 1, sizeof *s);
    value *at = s && room ? tpl_take(st, room, sizeof *at) : NULL;
    if (!s || st->failed) return (value){.kind = (uint8_t)kind, .seq = &st->no_seq};
    *s = (seq){.at = at, .cap = room};
    return (value){.kind = (uint8_t)kind, .seq = s};
}

void tpl_seq_add(state *st, value list, value item)
{
    seq *s = list.seq;
    if (st->failed) return;
    if (s->n == s->cap) {
        const uint32_t cap = s->cap ? s->cap * 2 : 4;
        value *grown = tpl_take(st, cap, sizeof *grown);
        if (!grown) return;
        if (s->n) memcpy(grown, s->at, s->n * sizeof *grown);
        s->at = grown;
        s->cap = cap;
    }
    s->at[s->n++] = item;
}

value tpl_v_pair(state *st, value a, value b)
{
    value pair = tpl_v_seq(st, V_TUPLE, 2);
    tpl_seq_add(st, pair, a);
    tpl_seq_add(st, pair, b);
    return pair;
}

value tpl_v_dict(state *st, value_kind kind, uint32_t room)
{
    dict *d = tpl_take(st, 1, sizeof *d);
    value *both = room ? tpl_take(st, (size_t)room * 2, sizeof *both) : NULL;
    if (st->failed) return (value){.kind = (uint8_t)kind, .dict = &st->no_dict};
    *d = (dict){.keys = both, .values = both ? both + room : NULL, .cap = room};
    return (value){.kind = (uint8_t)kind, .dict = d};
}

static void dict_grow(state *st, dict *d)
{
    const uint32_t cap = d->cap ? d->cap * 2 : 4;
    value *both = tpl_take(st, (size_t)cap * 2, sizeof *both);
    if (!both) return;
    if (d->n) {
        memcpy(both, d->keys, d->n * sizeof *both);
        memcpy(both + cap, d->values, d->n * sizeof *both);
    }
    d->keys = both;
    d->values = both + cap;
    d->cap = cap;
}

/* A string of this length and these bytes; what is compared is counted. */
static bool same_string(state *st, value v, value key)
{
    if (!tpl_is_string(v) || v.len != key.len) return false;
    tpl_touch(st, key.len);
    return key.len == 0 || memcmp(v.s, key.s, key.len) == 0;
}

const value *tpl_dict_get(state *st, const dict *d, value key)
{
    uint32_t i = 0;
    while (i < d->n && !st->failed &&
           !(tpl_is_string(key) ? same_string(st, d->keys[i], key) : tpl_equal(st, d->keys[i], key)))
        i++;
    tpl_touch(st, (uint64_t)i * PER_ITEM);
    return i < d->n && !st->failed ? &d->values[i] : NULL;
}

const value *tpl_dict_name(const dict *d, const char *name)
{
    const size_t len = strlen(name);
    for (uint32_t i = 0; i < d->n; i++)
        if (tpl_is_string(d->keys[i]) && d->keys[i].len == len && !memcmp(d->keys[i].s, name, len))
            return &d->values[i];
    return NULL;
}

void tpl_dict_set(state *st, value v, value key, value item)
{
    dict *d = v.dict;
    if (!tpl_is_hashable(st, key)) tpl_fail(st, "unhashable type: '%s'", tpl_type_name(key));
    if (st->failed) return;
    const value *old = tpl_dict_get(st, d, key);
    if (old) {
        d->values[old - d->values] = item;
        return;
    }
    if (d->n == d->cap) dict_grow(st, d);
    if (st->failed) return;
    d->keys[d->n] = key;
    d->values[d->n++] = item;
}

/* --- asking --------------------------------------------------------------------------------------------- */

bool tpl_is_string(value v)
{
    return v.kind == V_STRING;
}
bool tpl_is_number(value v)
{
    return v.kind == V_BOOL || v.kind == V_INT || v.kind == V_FLOAT;
}

static bool too_deep(state *st, uint32_t depth)
{
    if (depth <= DATA_DEPTH) return st->failed;
    tpl_fail_limit(st, "data nested more than %d deep", DATA_DEPTH);
    return true;
}

static bool hashable_at(state *st, value v, uint32_t depth)
{
    if (v.kind != V_TUPLE)
        return v.kind != V_LIST && v.kind != V_DICT && v.kind != V_VIEW && v.kind != V_SLICE;
    if (too_deep(st, depth)) return true; /* the failure says what is wrong */
    for (uint32_t i = 0; i < v.seq->n && tpl_charge(st, 1); i++)
        if (!hashable_at(st, v.seq->at[i], depth + 1)) return false;
    return true;
}

bool tpl_is_hashable(state *st, value v)
{
    return hashable_at(st, v, 0);
}

int64_t tpl_as_int(value v)
{
    return v.kind == V_BOOL ? v.b : v.i;
}
double tpl_as_double(value v)
{
    return v.kind == V_FLOAT ? v.d : (double)tpl_as_int(v);
}

const char *tpl_type_name(value v)
{
    static const char *const views[] = {"dict_keys", "dict_values", "dict_items"};
    static const char *const names[] = {
        [V_MISSING] = "Undefined",
        [V_UNDEFINED] = "Undefined",
        [V_NONE] = "NoneType",
        [V_BOOL] = "bool",
        [V_INT] = "int",
        [V_BIG] = "int",
        [V_FLOAT] = "float",
        [V_STRING] = "str",
        [V_BYTES] = "bytes",
        [V_LIST] = "list",
        [V_TUPLE] = "tuple",
        [V_GENERATOR] = "generator",
        [V_DICT] = "dict",
        [V_VIEW] = "dict_items",
        [V_RANGE] = "range",
        [V_NAMESPACE] = "Namespace",
        [V_MACRO] = "Macro",
        [V_LOOP] = "LoopContext",
        [V_METHOD] = "method",
        [V_FUNCTION] = "function",
        [V_CYCLER] = "Cycler",
        [V_JOINER] = "Joiner",
        [V_SELF] = "TemplateReference",
        [V_SLICE] = "slice",
    };
    if (v.kind == V_VIEW) return views[v.len];
    return names[v.kind];
}

bool tpl_has_length(value v, uint64_t *n)
{
    switch (v.kind) {
    case V_UNDEFINED: *n = 0; return true;
    case V_STRING: *n = tpl_count_codes(v); return true;
    case V_BYTES: *n = v.len; return true;
    case V_LIST:
    case V_TUPLE: *n = v.seq->n; return true;
    case V_DICT:
    case V_VIEW: *n = v.dict->n; return true;
    case V_RANGE: *n = (uint64_t)v.range->n; return true;
    case V_LOOP: *n = v.loop->n; return true;
    default: return false;
    }
}

bool tpl_truth(state *st, value v)
{
    if (v.kind == V_UNDEFINED) {
        if (v.undef && v.undef->unsafe) tpl_use_undefined(st, v);
        return false;
    }
    switch (v.kind) {
    case V_MISSING:
    case V_NONE: return false;
    case V_BOOL: return v.b;
    case V_INT: return v.i != 0;
    case V_FLOAT: return v.d != 0;
    case V_STRING:
    case V_BYTES: return v.len != 0;
    default: break;
    }
    uint64_t n;
    return !tpl_has_length(v, &n) || n != 0;
}

value tpl_use_undefined(state *st, value v)
{
    const undefined *u = v.undef;
    if (!u) return tpl_fail(st, "the value is undefined");
    if (u->unsafe)
        return tpl_fail(st, "access to attribute '%s' of '%s' object is unsafe", u->name,
                        tpl_type_name(*u->of));
    if (!u->of) return tpl_fail(st, "'%s' is undefined", u->name);
    const bool none = u->of->kind == V_NONE;
    const char *type = none ? "None" : tpl_type_name(*u->of), *object = none ? "" : " object";
    if (u->name) return tpl_fail(st, "'%s%s' has no attribute '%s'", type, object, u->name);
    cdz_buf element = {0};
    tpl_put_repr(st, &element, *u->element);
    tpl_fail(st, "%s%s has no element %.*s", type, object,
             (int)(element.len < 200 ? element.len : 200), element.len ? element.data : "");
    cdz_buf_free(&element);
    return v;
}

/* --- iterating -------------------------------------------------------------------------------------------- */

static value *new_items(state *st, uint64_t n)
{
    if (!tpl_touch(st, n * PER_ITEM)) return NULL;
    return tpl_take(st, n, sizeof(value));
}

static bool items_of_string(state *st, value v, const value **items, uint32_t *n)
{
    *n = tpl_touch(st, (uint64_t)v.len * PER_CODE) ? (uint32_t)tpl_count_codes(v) : 0;
    value *at = new_items(st, *n);
    if (!at) return false;
    *items = at;
    for (size_t i = 0; i < v.len; at++) {
        const size_t from = i;
        tpl_next_code(v.s, v.len, &i);
        *at = tpl_v_borrow(v.s + from, i - from);
    }
    return true;
}

static bool items_of_dict(state *st, value v, const value **items, uint32_t *n)
{
    const dict *d = v.dict;
    *n = d->n;
    *items = v.kind == V_VIEW && v.len == VIEW_VALUES ? d->values : d->keys;
    if (v.kind != V_VIEW || v.len != VIEW_ITEMS) return true;
    value *at = new_items(st, *n);
    if (!at) return false;
    for (uint32_t i = 0; i < *n; i++) at[i] = tpl_v_pair(st, d->keys[i], d->values[i]);
    *items = at;
    return !st->failed;
}

/* In unsigned numbers: steps on the way to an item that fits may pass 64 bits. */
int64_t tpl_range_at(const range *r, int64_t i)
{
    return (int64_t)((uint64_t)r->start + (uint64_t)i * (uint64_t)r->step);
}

static bool items_of_range(state *st, value v, const value **items, uint32_t *n)
{
    *n = (uint32_t)v.range->n;
    value *at = new_items(st, *n);
    if (!at) return false;
    for (uint32_t i = 0; i < *n; i++) at[i] = tpl_v_int(tpl_range_at(v.range, i));
    *items = at;
    return true;
}

bool tpl_items_of(state *st, value v, const value **items, uint32_t *n)
{
    *items = NULL;
    *n = 0;
    if (st->failed) return false;
    switch (v.kind) {
    case V_UNDEFINED:
        if (v.undef && v.undef->unsafe) tpl_use_undefined(st, v);
        return !st->failed;
    case V_STRING: return items_of_string(st, v, items, n);
    case V_LIST:
    case V_TUPLE:
        *items = v.seq->at;
        *n = v.seq->n;
        return true;
    case V_GENERATOR:
        if (v.seq->next >= v.seq->n) return true;
        *items = v.seq->at + v.seq->next;
        *n = v.seq->n - v.seq->next;
        v.seq->next = v.seq->n;
        return true;
    case V_DICT:
    case V_VIEW: return items_of_dict(st, v, items, n);
    case V_RANGE: return items_of_range(st, v, items, n);
    default: tpl_fail(st, "'%s' object is not iterable", tpl_type_name(v)); return false;
    }
}

/* --- equality and order -------------------------------------------------------------------------------------- */

static bool equal_at(state *st, value a, value b, uint32_t depth);

static bool equal_dicts(state *st, const dict *a, const dict *b, uint32_t depth)
{
    if (a->n != b->n) return false;
    for (uint32_t i = 0; i < a->n && tpl_charge(st, 1); i++) {
        const value *other = tpl_dict_get(st, b, a->keys[i]);
        if (!other || !equal_at(st, a->values[i], *other, depth)) return false;
    }
    return true;
}

static bool equal_lists(state *st, const seq *a, const seq *b, uint32_t depth)
{
    if (a->n != b->n) return false;
    for (uint32_t i = 0; i < a->n && tpl_charge(st, 1); i++)
        if (!equal_at(st, a->at[i], b->at[i], depth)) return false;
    return true;
}

static bool equal_numbers(value a, value b)
{
    if (a.kind != V_FLOAT && b.kind != V_FLOAT) return tpl_as_int(a) == tpl_as_int(b);
    return tpl_as_double(a) == tpl_as_double(b);
}

static bool equal_at(state *st, value a, value b, uint32_t depth)
{
    if (too_deep(st, depth)) return false;
    if (tpl_is_number(a) && tpl_is_number(b)) return equal_numbers(a, b);
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case V_MISSING:
    case V_UNDEFINED:
    case V_NONE:
    case V_SELF: return true;
    case V_BIG:
    case V_STRING:
    case V_BYTES:
        return a.len == b.len && tpl_touch(st, a.len) &&
               (a.len == 0 || memcmp(a.s, b.s, a.len) == 0);
    case V_LIST:
    case V_TUPLE: return equal_lists(st, a.seq, b.seq, depth + 1);
    case V_DICT: return equal_dicts(st, a.dict, b.dict, depth + 1);
    case V_VIEW: return a.len == b.len && equal_dicts(st, a.dict, b.dict, depth + 1);
    case V_RANGE:
        return a.range->n == b.range->n && (a.range->n == 0 || a.range->start == b.range->start) &&
               (a.range->n < 2 || a.range->step == b.range->step);
    default: return a.seq == b.seq;
    }
}

bool tpl_equal(state *st, value a, value b)
{
    return equal_at(st, a, b, 0);
}

static int order_strings(state *st, value a, value b)
{
    const uint32_t n = a.len < b.len ? a.len : b.len;
    if (!tpl_touch(st, n)) return 0;
    const int c = n ? memcmp(a.s, b.s, n) : 0; /* UTF-8 sorts as its code points do */
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

static int order_at(state *st, value a, value b, const char *op, uint32_t depth);

static int order_lists(state *st, const seq *a, const seq *b, const char *op, uint32_t depth)
{
    for (uint32_t i = 0; i < a->n && i < b->n && tpl_charge(st, 1); i++)
        if (!equal_at(st, a->at[i], b->at[i], depth))
            return order_at(st, a->at[i], b->at[i], op, depth);
    return (a->n > b->n) - (a->n < b->n);
}

static int order_at(state *st, value a, value b, const char *op, uint32_t depth)
{
    if (too_deep(st, depth)) return 0;
    if (tpl_is_number(a) && tpl_is_number(b)) {
        if (a.kind != V_FLOAT && b.kind != V_FLOAT)
            return (tpl_as_int(a) > tpl_as_int(b)) - (tpl_as_int(a) < tpl_as_int(b));
        return (tpl_as_double(a) > tpl_as_double(b)) - (tpl_as_double(a) < tpl_as_double(b));
    }
    if (a.kind == V_UNDEFINED || b.kind == V_UNDEFINED) {
        tpl_use_undefined(st, a.kind == V_UNDEFINED ? a : b);
        return 0;
    }
    if (a.kind == b.kind && (a.kind == V_STRING || a.kind == V_BYTES))
        return order_strings(st, a, b);
    if (a.kind == b.kind && (a.kind == V_LIST || a.kind == V_TUPLE))
        return order_lists(st, a.seq, b.seq, op, depth + 1);
    tpl_fail(st, "'%s' not supported between instances of '%s' and '%s'", op, tpl_type_name(a),
             tpl_type_name(b));
    return 0;
}

int tpl_order(state *st, value a, value b, const char *op)
{
    return order_at(st, a, b, op, 0);
}

bool tpl_contains(state *st, value container, value item)
{
    if (container.kind == V_STRING) {
        if (tpl_is_string(item))
            return tpl_touch(st, container.len) && tpl_find_text(container, item, 0) != SIZE_MAX;
        tpl_fail(st, "'in <string>' requires string as left operand, not %s", tpl_type_name(item));
        return false;
    }
    if (container.kind == V_DICT) {
        if (!tpl_is_hashable(st, item)) tpl_fail(st, "unhashable type: '%s'", tpl_type_name(item));
        return tpl_dict_get(st, container.dict, item) != NULL;
    }
    const value *items;
    uint32_t n;
    if (container.kind == V_NONE || tpl_is_number(container)) {
        tpl_fail(st, "argument of type '%s' is not iterable", tpl_type_name(container));
        return false;
    }
    if (!tpl_items_of(st, container, &items, &n)) return false;
    for (uint32_t i = 0; i < n && tpl_charge(st, 1); i++)
        if (tpl_equal(st, items[i], item)) return true;
    return false;
}
