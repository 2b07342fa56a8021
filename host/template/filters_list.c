/* filters_list.c - filters on lists and mappings. Those that are lazy in the reference give a
 * generator, which is read once. */
#include <string.h>

#include "template/methods.h"

value tpl_generator(state *st, uint32_t room)
{
    return tpl_v_seq(st, V_GENERATOR, room);
}

/* --- ends, length -------------------------------------------------------------------------------------------- */

static value f_first(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    const value *items;
    uint32_t n;
    if (x.kind == V_GENERATOR && x.seq->next < x.seq->n) return x.seq->at[x.seq->next++];
    return tpl_items_of(st, x, &items, &n) && n ? items[0] : tpl_v_undefined(st, "first of nothing");
}

static value f_last(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    const value *items;
    uint32_t n;
    return tpl_items_of(st, x, &items, &n) && n ? items[n - 1]
                                                : tpl_v_undefined(st, "last of nothing");
}

static value f_random(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    const value *items;
    uint32_t n;
    if (!tpl_items_of(st, x, &items, &n) || !n) return tpl_v_undefined(st, "random of nothing");
    /* Knuth's MMIX generator from a fixed seed: a template renders the same each time. */
    st->random = st->random * 6364136223846793005u + 1442695040888963407u;
    return items[(st->random >> 33) % n];
}

static value f_length(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    uint64_t n;
    if (x.kind == V_UNDEFINED) tpl_truth(st, x); /* hidden things have no length */
    if (tpl_is_string(x)) tpl_touch(st, (uint64_t)x.len * PER_CODE);
    if (!st->failed && tpl_has_length(x, &n)) return tpl_v_int((int64_t)n);
    return tpl_fail(st, "object of type '%s' has no len()", tpl_type_name(x));
}

static value f_list(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    const value *items;
    uint32_t n;
    value list = tpl_v_seq(st, V_LIST, 0);
    if (!tpl_items_of(st, x, &items, &n)) return list;
    tpl_touch(st, (uint64_t)n * PER_ITEM);
    for (uint32_t i = 0; i < n && !st->failed; i++) tpl_seq_add(st, list, items[i]);
    return list;
}

static value f_items(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    if (x.kind == V_UNDEFINED) return tpl_generator(st, 0);
    if (x.kind != V_DICT) return tpl_fail(st, "Can only get item pairs from a mapping.");
    value out = tpl_generator(st, x.dict->n);
    for (uint32_t i = 0; i < x.dict->n && tpl_charge(st, 1); i++)
        tpl_seq_add(st, out, tpl_v_pair(st, x.dict->keys[i], x.dict->values[i]));
    return out;
}

static value f_reverse(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    const value *items;
    uint32_t n;
    if (!tpl_items_of(st, x, &items, &n)) return x;
    if (tpl_is_string(x)) {
        cdz_buf out = {0};
        while (n-- && !st->failed) tpl_put(st, &out, items[n].s, items[n].len);
        return tpl_take_text(st, &out);
    }
    value out = tpl_generator(st, n);
    while (n--) tpl_seq_add(st, out, items[n]);
    return out;
}

/* --- text of a list --------------------------------------------------------------------------------------------- */

value tpl_join_items(state *st, value separator, const value *items, uint32_t n, bool only_strings)
{
    cdz_buf out = {0};
    for (uint32_t i = 0; i < n && tpl_charge(st, 1); i++) {
        if (only_strings && !tpl_is_string(items[i]))
            tpl_fail(st, "sequence item %u: expected str instance, %s found", i,
                     tpl_type_name(items[i]));
        if (i) tpl_put(st, &out, separator.s, separator.len);
        tpl_put_value(st, &out, items[i]);
    }
    return tpl_take_text(st, &out);
}

/* The items, or with an attribute that of each. */
static const value *attributes(state *st, const value *items, uint32_t n, value attribute)
{
    if (!tpl_given(attribute)) return items;
    value *out = tpl_take(st, n, sizeof *out);
    for (uint32_t i = 0; out && i < n && tpl_charge(st, 1); i++)
        out[i] = tpl_get_path(st, items[i], attribute);
    return out;
}

static value f_join(state *st, value x, const value *p, const args *all)
{
    (void)all;
    const value *items;
    uint32_t n;
    if (!tpl_items_of(st, x, &items, &n)) return x;
    items = attributes(st, items, n, p[1]);
    if (st->failed) return x;
    return tpl_join_items(st, tpl_given(p[0]) ? tpl_to_text(st, p[0]) : tpl_v_literal(""), items, n,
                          false);
}

/* --- order -------------------------------------------------------------------------------------------------------- */

void tpl_merge_sort(state *st, sort_item *at, sort_item *space, uint32_t n, bool reverse)
{
    if (n < 2 || st->failed) return;
    const uint32_t half = n / 2;
    tpl_merge_sort(st, at, space, half, reverse);
    tpl_merge_sort(st, at + half, space, n - half, reverse);
    uint32_t a = 0, b = half, out = 0;
    while (a < half && b < n && tpl_charge(st, 1)) {
        const int c = tpl_order(st, at[b].key, at[a].key, "<");
        space[out++] = (reverse ? c > 0 : c < 0) ? at[b++] : at[a++];
    }
    while (a < half) space[out++] = at[a++];
    while (b < n) space[out++] = at[b++];
    if (!st->failed) memcpy(at, space, n * sizeof *at);
}

static value fold_key(state *st, value v, bool case_sensitive)
{
    return tpl_is_string(v) && !case_sensitive ? tpl_change_case(st, v, TO_LOWER) : v;
}

/* The key of one item: an attribute, or several with commas between. */
static value sort_key(state *st, value item, value attribute, bool case_sensitive)
{
    if (!tpl_given(attribute)) return fold_key(st, item, case_sensitive);
    if (!tpl_is_string(attribute) || !memchr(attribute.s, ',', attribute.len))
        return fold_key(st, tpl_get_path(st, item, attribute), case_sensitive);
    value key = tpl_v_seq(st, V_LIST, 2);
    for (size_t at = 0; at <= attribute.len && !st->failed;) {
        size_t end = tpl_find_text(attribute, tpl_v_literal(","), at);
        if (end == SIZE_MAX) end = attribute.len;
        tpl_seq_add(
            st, key,
            fold_key(st, tpl_get_path(st, item, tpl_sub_text(attribute, at, end)), case_sensitive));
        at = end + 1;
    }
    return key;
}

static value sorted(state *st, value x, value attribute, bool case_sensitive, bool reverse)
{
    const value *items;
    uint32_t n;
    value out = tpl_v_seq(st, V_LIST, 0);
    if (!tpl_items_of(st, x, &items, &n)) return out;
    sort_item *at = tpl_take(st, (size_t)n * 2, sizeof *at);
    if (!at) return out;
    for (uint32_t i = 0; i < n && tpl_charge(st, 1); i++)
        at[i] = (sort_item){sort_key(st, items[i], attribute, case_sensitive), items[i]};
    tpl_merge_sort(st, at, at + n, n, reverse);
    for (uint32_t i = 0; i < n && !st->failed; i++) tpl_seq_add(st, out, at[i].item);
    return out;
}

static value f_sort(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return sorted(st, x, p[2], tpl_flag_or(st, p[1], false), tpl_flag_or(st, p[0], false));
}

static value f_dictsort(state *st, value x, const value *p, const args *all)
{
    (void)all;
    value by = tpl_text_or(st, p[1], "key");
    if (x.kind == V_UNDEFINED) return tpl_use_undefined(st, x);
    if (x.kind != V_DICT)
        return tpl_fail(st, "dictsort: expected a mapping, found %s", tpl_type_name(x));
    if (!tpl_same_text(by, "key") && !tpl_same_text(by, "value"))
        return tpl_fail(st, "You can only sort by either \"key\" or \"value\"");
    value pairs = {.kind = V_VIEW, .len = VIEW_ITEMS, .dict = x.dict};
    return sorted(st, pairs, tpl_v_int(by.s[0] == 'v'), tpl_flag_or(st, p[0], false),
                  tpl_flag_or(st, p[2], false));
}

static value extreme(state *st, value x, const value *p, int sign)
{
    const value *items;
    uint32_t n, best = 0;
    if (!tpl_items_of(st, x, &items, &n) || !n)
        return tpl_v_undefined(st, "the least or most of nothing");
    const bool exact = tpl_flag_or(st, p[0], false);
    value best_key = sort_key(st, items[0], p[1], exact);
    for (uint32_t i = 1; i < n && tpl_charge(st, 1); i++) {
        value key = sort_key(st, items[i], p[1], exact);
        if (tpl_order(st, key, best_key, sign < 0 ? "<" : ">") * sign <= 0) continue;
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
    value out = tpl_generator(st, 0), seen = tpl_v_dict(st, V_DICT, 0);
    if (!tpl_items_of(st, x, &items, &n)) return out;
    for (uint32_t i = 0; i < n && tpl_charge(st, 1); i++) {
        value key = sort_key(st, items[i], p[1], tpl_flag_or(st, p[0], false));
        if (!tpl_is_hashable(st, key)) tpl_fail(st, "unhashable type: '%s'", tpl_type_name(key));
        if (st->failed || tpl_dict_get(st, seen.dict, key)) continue;
        tpl_dict_set(st, seen, key, tpl_v_none());
        tpl_seq_add(st, out, items[i]);
    }
    return out;
}

/* Each group is a tuple that also answers to .grouper and .list: marked safe. */
static value f_groupby(state *st, value x, const value *p, const args *all)
{
    (void)all;
    const bool exact = tpl_flag_or(st, p[2], false);
    value items = sorted(st, x, p[0], exact, false), out = tpl_v_seq(st, V_LIST, 0);
    value last = tpl_v_missing(), group = tpl_v_missing();
    if (!tpl_given(p[0])) return tpl_fail(st, "groupby needs an attribute");
    for (uint32_t i = 0; i < items.seq->n && tpl_charge(st, 1); i++) {
        value own = tpl_get_path(st, items.seq->at[i], p[0]);
        if (own.kind == V_UNDEFINED && tpl_given(p[1])) own = p[1];
        value key = fold_key(st, own, exact);
        if (group.kind == V_MISSING || !tpl_equal(st, key, last)) {
            group = tpl_v_seq(st, V_LIST, 0);
            value pair = tpl_v_pair(st, own, group);
            pair.safe = true;
            tpl_seq_add(st, out, pair);
            last = key;
        }
        tpl_seq_add(st, group, items.seq->at[i]);
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
    const int64_t size = tpl_int_or(st, p[0], 0);
    value out = tpl_generator(st, 0), row = tpl_v_missing();
    if (tpl_given(p[1]) && size > RANGE_ITEMS)
        return tpl_fail_limit(st, "batch: rows filled to %lld items, the most is %d",
                              (long long)size, RANGE_ITEMS);
    if (!tpl_items_of(st, x, &items, &n)) return out;
    for (uint32_t i = 0; i < n && tpl_charge(st, 1); i++) {
        if (i == 0 && size == 0) tpl_seq_add(st, out, tpl_v_seq(st, V_LIST, 0));
        if (i == 0 || (size > 0 && i % size == 0)) {
            row = tpl_v_seq(st, V_LIST, 0);
            tpl_seq_add(st, out, row);
        }
        tpl_seq_add(st, row, items[i]);
    }
    if (n && tpl_given(p[1]))
        while (row.seq->n < size && tpl_charge(st, 1)) tpl_seq_add(st, row, p[1]);
    return out;
}

static value f_slice(state *st, value x, const value *p, const args *all)
{
    (void)all;
    const value *items;
    uint32_t n;
    const int64_t slices = tpl_int_or(st, p[0], 0);
    value out = tpl_generator(st, 0);
    if (slices < 1)
        return tpl_fail(st, "slice: %lld slices, expected at least 1", (long long)slices);
    if (slices > RANGE_ITEMS)
        return tpl_fail_limit(st, "slice: %lld slices, the most is %d", (long long)slices,
                              RANGE_ITEMS);
    if (!tpl_items_of(st, x, &items, &n)) return out;
    const int64_t per = n / slices, longer = n % slices;
    uint32_t at = 0;
    for (int64_t i = 0; i < slices && tpl_charge(st, 1); i++) {
        value row = tpl_v_seq(st, V_LIST, 0);
        for (int64_t k = 0; k < per + (i < longer) && tpl_charge(st, 1); k++)
            tpl_seq_add(st, row, items[at++]);
        if (tpl_given(p[1]) && i >= longer && longer) tpl_seq_add(st, row, p[1]);
        tpl_seq_add(st, out, row);
    }
    return out;
}

static value f_default(state *st, value x, const value *p, const args *all)
{
    (void)all;
    const bool missing =
        x.kind == V_UNDEFINED || (tpl_flag_or(st, p[1], false) && !tpl_truth(st, x));
    return !missing ? x : p[0].kind == V_MISSING ? tpl_v_literal("") : p[0];
}

/* Attributes only, where a.b takes items too. */
static value f_attr(state *st, value x, const value *p, const args *all)
{
    (void)all;
    if (!tpl_is_string(p[0])) return tpl_fail(st, "attr needs a name");
    value v = tpl_get_attribute(st, x, tpl_v_string(st, p[0].s, p[0].len));
    if (x.kind == V_DICT && v.kind != V_METHOD && v.kind != V_UNDEFINED)
        return tpl_v_lacks(st, x, p[0], false);
    return v;
}

const builtin_row tpl_list_filters[] = {
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
