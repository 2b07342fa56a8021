/* filters_list.c - filters on lists and mappings. Those that are lazy in the reference give a
 * generator, which is read once. */
#include <string.h>

#include "template/methods.h"

value generator(state *st, uint32_t room)
{
    return v_seq(st, V_GENERATOR, room);
}

/* --- ends, length -------------------------------------------------------------------------------------------- */

static value f_first(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    const value *items;
    uint32_t n;
    if (x.kind == V_GENERATOR && x.seq->next < x.seq->n) return x.seq->at[x.seq->next++];
    return items_of(st, x, &items, &n) && n ? items[0] : v_undefined(st, "first of nothing");
}

static value f_last(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    const value *items;
    uint32_t n;
    return items_of(st, x, &items, &n) && n ? items[n - 1] : v_undefined(st, "last of nothing");
}

static value f_random(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    const value *items;
    uint32_t n;
    if (!items_of(st, x, &items, &n) || !n) return v_undefined(st, "random of nothing");
    /* Knuth's MMIX generator from a fixed seed: a template renders the same each time. */
    st->random = st->random * 6364136223846793005u + 1442695040888963407u;
    return items[(st->random >> 33) % n];
}

static value f_length(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    uint64_t n;
    if (x.kind == V_UNDEFINED) truth(st, x); /* hidden things have no length */
    if (is_string(x)) touch(st, (uint64_t)x.len * PER_CODE);
    if (!st->failed && has_length(x, &n)) return v_int((int64_t)n);
    return fail(st, "object of type '%s' has no len()", type_name(x));
}

static value f_list(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    const value *items;
    uint32_t n;
    value list = v_seq(st, V_LIST, 0);
    if (!items_of(st, x, &items, &n)) return list;
    touch(st, (uint64_t)n * PER_ITEM);
    for (uint32_t i = 0; i < n && !st->failed; i++) seq_add(st, list, items[i]);
    return list;
}

static value f_items(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    if (x.kind == V_UNDEFINED) return generator(st, 0);
    if (x.kind != V_DICT) return fail(st, "Can only get item pairs from a mapping.");
    value out = generator(st, x.dict->n);
    for (uint32_t i = 0; i < x.dict->n && charge(st, 1); i++)
        seq_add(st, out, v_pair(st, x.dict->keys[i], x.dict->values[i]));
    return out;
}

static value f_reverse(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    const value *items;
    uint32_t n;
    if (!items_of(st, x, &items, &n)) return x;
    if (is_string(x)) {
        cdz_buf out = {0};
        while (n-- && !st->failed) put(st, &out, items[n].s, items[n].len);
        return take_text(st, &out);
    }
    value out = generator(st, n);
    while (n--) seq_add(st, out, items[n]);
    return out;
}

/* --- text of a list --------------------------------------------------------------------------------------------- */

value join_items(state *st, value separator, const value *items, uint32_t n, bool only_strings)
{
    cdz_buf out = {0};
    for (uint32_t i = 0; i < n && charge(st, 1); i++) {
        if (only_strings && !is_string(items[i]))
            fail(st, "sequence item %u: expected str instance, %s found", i, type_name(items[i]));
        if (i) put(st, &out, separator.s, separator.len);
        put_value(st, &out, items[i]);
    }
    return take_text(st, &out);
}

/* The items, or with an attribute that of each. */
static const value *attributes(state *st, const value *items, uint32_t n, value attribute)
{
    if (!given(attribute)) return items;
    value *out = take(st, n, sizeof *out);
    for (uint32_t i = 0; out && i < n && charge(st, 1); i++)
        out[i] = get_path(st, items[i], attribute);
    return out;
}

static value f_join(state *st, value x, const value *p, const args *all)
{
    (void)all;
    const value *items;
    uint32_t n;
    if (!items_of(st, x, &items, &n)) return x;
    items = attributes(st, items, n, p[1]);
    if (st->failed) return x;
    return join_items(st, given(p[0]) ? to_text(st, p[0]) : v_literal(""), items, n, false);
}

/* --- order -------------------------------------------------------------------------------------------------------- */

void merge_sort(state *st, sort_item *at, sort_item *space, uint32_t n, bool reverse)
{
    if (n < 2 || st->failed) return;
    const uint32_t half = n / 2;
    merge_sort(st, at, space, half, reverse);
    merge_sort(st, at + half, space, n - half, reverse);
    uint32_t a = 0, b = half, out = 0;
    while (a < half && b < n && charge(st, 1)) {
        const int c = order(st, at[b].key, at[a].key, "<");
        space[out++] = (reverse ? c > 0 : c < 0) ? at[b++] : at[a++];
    }
    while (a < half) space[out++] = at[a++];
    while (b < n) space[out++] = at[b++];
    if (!st->failed) memcpy(at, space, n * sizeof *at);
}

static value fold_key(state *st, value v, bool case_sensitive)
{
    return is_string(v) && !case_sensitive ? change_case(st, v, TO_LOWER) : v;
}

/* The key of one item: an attribute, or several with commas between. */
static value sort_key(state *st, value item, value attribute, bool case_sensitive)
{
    if (!given(attribute)) return fold_key(st, item, case_sensitive);
    if (!is_string(attribute) || !memchr(attribute.s, ',', attribute.len))
        return fold_key(st, get_path(st, item, attribute), case_sensitive);
    value key = v_seq(st, V_LIST, 2);
    for (size_t at = 0; at <= attribute.len && !st->failed;) {
        size_t end = find_text(attribute, v_literal(","), at);
        if (end == SIZE_MAX) end = attribute.len;
        seq_add(st, key,
                fold_key(st, get_path(st, item, sub_text(attribute, at, end)), case_sensitive));
        at = end + 1;
    }
    return key;
}

static value sorted(state *st, value x, value attribute, bool case_sensitive, bool reverse)
{
    const value *items;
    uint32_t n;
    value out = v_seq(st, V_LIST, 0);
    if (!items_of(st, x, &items, &n)) return out;
    sort_item *at = take(st, (size_t)n * 2, sizeof *at);
    if (!at) return out;
    for (uint32_t i = 0; i < n && charge(st, 1); i++)
        at[i] = (sort_item){sort_key(st, items[i], attribute, case_sensitive), items[i]};
    merge_sort(st, at, at + n, n, reverse);
    for (uint32_t i = 0; i < n && !st->failed; i++) seq_add(st, out, at[i].item);
    return out;
}

static value f_sort(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return sorted(st, x, p[2], flag_or(st, p[1], false), flag_or(st, p[0], false));
}

static value f_dictsort(state *st, value x, const value *p, const args *all)
{
    (void)all;
    value by = text_or(st, p[1], "key");
    if (x.kind == V_UNDEFINED) return use_undefined(st, x);
    if (x.kind != V_DICT) return fail(st, "dictsort: expected a mapping, found %s", type_name(x));
    if (!same_text(by, "key") && !same_text(by, "value"))
        return fail(st, "You can only sort by either \"key\" or \"value\"");
    value pairs = {.kind = V_VIEW, .len = VIEW_ITEMS, .dict = x.dict};
    return sorted(st, pairs, v_int(by.s[0] == 'v'), flag_or(st, p[0], false),
                  flag_or(st, p[2], false));
}

static value extreme(state *st, value x, const value *p, int sign)
{
    const value *items;
    uint32_t n, best = 0;
    if (!items_of(st, x, &items, &n) || !n) return v_undefined(st, "the least or most of nothing");
    const bool exact = flag_or(st, p[0], false);
    value best_key = sort_key(st, items[0], p[1], exact);
    for (uint32_t i = 1; i < n && charge(st, 1); i++) {
        value key = sort_key(st, items[i], p[1], exact);
        if (order(st, key, best_key, sign < 0 ? "<" : ">") * sign <= 0) continue;
        best = i;
        best_key = key;
    }
    return items[best];
}

static value f_min(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return extreme(st, x, p, -1);
}

static value f_max(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return extreme(st, x, p, 1);
}

static value f_unique(state *st, value x, const value *p, const args *all)
{
    (void)all;
    const value *items;
    uint32_t n;
    value out = generator(st, 0), seen = v_dict(st, V_DICT, 0);
    if (!items_of(st, x, &items, &n)) return out;
    for (uint32_t i = 0; i < n && charge(st, 1); i++) {
        value key = sort_key(st, items[i], p[1], flag_or(st, p[0], false));
        if (!is_hashable(st, key)) fail(st, "unhashable type: '%s'", type_name(key));
        if (st->failed || dict_get(st, seen.dict, key)) continue;
        dict_set(st, seen, key, v_none());
        seq_add(st, out, items[i]);
    }
    return out;
}

/* Each group is a tuple that also answers to .grouper and .list: marked safe. */
static value f_groupby(state *st, value x, const value *p, const args *all)
{
    (void)all;
    const bool exact = flag_or(st, p[2], false);
    value items = sorted(st, x, p[0], exact, false), out = v_seq(st, V_LIST, 0);
    value last = v_missing(), group = v_missing();
    if (!given(p[0])) return fail(st, "groupby needs an attribute");
    for (uint32_t i = 0; i < items.seq->n && charge(st, 1); i++) {
        value own = get_path(st, items.seq->at[i], p[0]);
        if (own.kind == V_UNDEFINED && given(p[1])) own = p[1];
        value key = fold_key(st, own, exact);
        if (group.kind == V_MISSING || !equal(st, key, last)) {
            group = v_seq(st, V_LIST, 0);
            value pair = v_pair(st, own, group);
            pair.safe = true;
            seq_add(st, out, pair);
            last = key;
        }
        seq_add(st, group, items.seq->at[i]);
    }
    return out;
}

/* --- pieces --------------------------------------------------------------------------------------------------------- */

/* A size that no row can have makes one row, and 0 an empty one before it: so does the reference. */
static value f_batch(state *st, value x, const value *p, const args *all)
{
    (void)all;
    const value *items;
    uint32_t n;
    const int64_t size = int_or(st, p[0], 0);
    value out = generator(st, 0), row = v_missing();
    if (given(p[1]) && size > RANGE_ITEMS)
        return fail_limit(st, "batch: rows filled to %lld items, the most is %d", (long long)size,
                          RANGE_ITEMS);
    if (!items_of(st, x, &items, &n)) return out;
    for (uint32_t i = 0; i < n && charge(st, 1); i++) {
        if (i == 0 && size == 0) seq_add(st, out, v_seq(st, V_LIST, 0));
        if (i == 0 || (size > 0 && i % size == 0)) {
            row = v_seq(st, V_LIST, 0);
            seq_add(st, out, row);
        }
        seq_add(st, row, items[i]);
    }
    if (n && given(p[1]))
        while (row.seq->n < size && charge(st, 1)) seq_add(st, row, p[1]);
    return out;
}

static value f_slice(state *st, value x, const value *p, const args *all)
{
    (void)all;
    const value *items;
    uint32_t n;
    const int64_t slices = int_or(st, p[0], 0);
    value out = generator(st, 0);
    if (slices < 1) return fail(st, "slice: %lld slices, expected at least 1", (long long)slices);
    if (slices > RANGE_ITEMS)
        return fail_limit(st, "slice: %lld slices, the most is %d", (long long)slices, RANGE_ITEMS);
    if (!items_of(st, x, &items, &n)) return out;
    const int64_t per = n / slices, longer = n % slices;
    uint32_t at = 0;
    for (int64_t i = 0; i < slices && charge(st, 1); i++) {
        value row = v_seq(st, V_LIST, 0);
        for (int64_t k = 0; k < per + (i < longer) && charge(st, 1); k++)
            seq_add(st, row, items[at++]);
        if (given(p[1]) && i >= longer && longer) seq_add(st, row, p[1]);
        seq_add(st, out, row);
    }
    return out;
}

static value f_default(state *st, value x, const value *p, const args *all)
{
    (void)all;
    const bool missing = x.kind == V_UNDEFINED || (flag_or(st, p[1], false) && !truth(st, x));
    return !missing ? x : p[0].kind == V_MISSING ? v_literal("") : p[0];
}

/* Attributes only, where a.b takes items too. */
static value f_attr(state *st, value x, const value *p, const args *all)
{
    (void)all;
    if (!is_string(p[0])) return fail(st, "attr needs a name");
    value v = get_attribute(st, x, v_string(st, p[0].s, p[0].len));
    if (x.kind == V_DICT && v.kind != V_METHOD && v.kind != V_UNDEFINED)
        return v_lacks(st, x, p[0], false);
    return v;
}

const builtin_row list_filters[] = {
    {"first", f_first, ""},
    {"last", f_last, ""},
    {"random", f_random, ""},
    {"length", f_length, ""},
    {"count", f_length, ""},
    {"list", f_list, ""},
    {"items", f_items, ""},
    {"reverse", f_reverse, ""},
    {"join", f_join, "d attribute"},
    {"sort", f_sort, "reverse case_sensitive attribute"},
    {"dictsort", f_dictsort, "case_sensitive by reverse"},
    {"min", f_min, "case_sensitive attribute"},
    {"max", f_max, "case_sensitive attribute"},
    {"unique", f_unique, "case_sensitive attribute"},
    {"groupby", f_groupby, "attribute default case_sensitive"},
    {"batch", f_batch, "linecount fill_with"},
    {"slice", f_slice, "slices fill_with"},
    {"default", f_default, "default_value boolean"},
    {"d", f_default, "default_value boolean"},
    {"attr", f_attr, "name"},
    {0},
};
