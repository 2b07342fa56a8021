/* globals.c - functions a template finds without being given them. */
#include <string.h>

#include "template/methods.h"

static value g_range(state *st, value x, const value *p, const args *all)
{
    (void)x;
    (void)p;
    int64_t part[3] = {0, 0, 1};
    if (all->n < 1 || all->n > 3 || all->n_keywords)
        return tpl_fail(st, "range takes 1 to 3 integers");
    for (uint32_t i = 0; i < all->n; i++) {
        if (all->at[i].kind != V_INT && all->at[i].kind != V_BOOL)
            return tpl_fail(st, "range: '%s' object cannot be interpreted as an integer",
                            tpl_type_name(all->at[i]));
        part[all->n == 1 ? 1 : i] = tpl_as_int(all->at[i]);
    }
    if (part[2] == 0) return tpl_fail(st, "range() arg 3 must not be zero");
    const bool back = part[2] < 0;
    const uint64_t stride = back ? 0 - (uint64_t)part[2] : (uint64_t)part[2];
    const uint64_t span = back ? part[0] > part[1] ? (uint64_t)part[0] - (uint64_t)part[1] : 0
                          : part[1] > part[0] ? (uint64_t)part[1] - (uint64_t)part[0]
                                              : 0;
    const uint64_t n = span / stride + (span % stride != 0);
    if (n > RANGE_ITEMS)
        return tpl_fail_limit(
            st, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", RANGE_ITEMS);
    range *r = tpl_take(st, 1, sizeof *r);
    if (!r) return tpl_v_none();
    *r = (range){.start = part[0], .stop = part[1], .step = part[2], .n = (int64_t)n};
    return (value){.kind = V_RANGE, .range = r};
}

/* From a mapping or pairs, then keywords. */
static value make_dict(state *st, value_kind kind, const args *all)
{
    value d = tpl_v_dict(st, kind, all->n_keywords);
    if (all->n > 1) return tpl_fail(st, "expected at most 1 argument, got %u", all->n);
    if (all->n && (all->at[0].kind == V_DICT || all->at[0].kind == V_NAMESPACE)) {
        const dict *from = all->at[0].dict;
        for (uint32_t i = 0; i < from->n && tpl_charge(st, 1); i++)
            tpl_dict_set(st, d, from->keys[i], from->values[i]);
    } else if (all->n) {
        const value *items, *two;
        uint32_t n, n_two;
        if (!tpl_items_of(st, all->at[0], &items, &n)) return d;
        for (uint32_t i = 0; i < n && tpl_charge(st, 1) && tpl_items_of(st, items[i], &two, &n_two);
             i++) {
            if (n_two != 2) return tpl_fail(st, "expected pairs of a key and a value");
            tpl_dict_set(st, d, two[0], two[1]);
        }
    }
    for (uint32_t i = 0; i < all->n_keywords && !st->failed; i++)
        tpl_dict_set(st, d, tpl_v_literal(all->keywords[i].name), all->keywords[i].value);
    return d;
}

static value g_dict(state *st, value x, const value *p, const args *all)
{
    (void)x;
    (void)p;
    return make_dict(st, V_DICT, all);
}

static value g_namespace(state *st, value x, const value *p, const args *all)
{
    (void)x;
    (void)p;
    return make_dict(st, V_NAMESPACE, all);
}

static value g_cycler(state *st, value x, const value *p, const args *all)
{
    (void)x;
    (void)p;
    if (!all->n) return tpl_fail(st, "at least one item has to be provided");
    value out = tpl_v_seq(st, V_CYCLER, all->n);
    for (uint32_t i = 0; i < all->n; i++) tpl_seq_add(st, out, all->at[i]);
    return out;
}

static value g_joiner(state *st, value x, const value *p, const args *all)
{
    (void)x;
    (void)all;
    value *cell = tpl_take(st, 2, sizeof *cell);
    if (!cell) return tpl_v_none();
    cell[0] = tpl_v_none();
    cell[1] = tpl_given(p[0]) ? p[0] : tpl_v_literal(", ");
    return (value){.kind = V_JOINER, .cell = cell};
}

/* The reference's is random; ours says the same each time. */
static value g_lipsum(state *st, value x, const value *p, const args *all)
{
    static const char text[] = "Lorem ipsum dolor sit amet, consectetur adipiscing elit.";
    (void)x;
    (void)all;
    const int64_t n = tpl_int_or(st, p[0], 5);
    cdz_buf out = {0};
    for (int64_t i = 0; i < n && !st->failed; i++) {
        if (i) tpl_put(st, &out, "\n\n", 2);
        tpl_put(st, &out, text, sizeof text - 1);
    }
    return tpl_take_text(st, &out);
}

static value g_raise_exception(state *st, value x, const value *p, const args *all)
{
    (void)x;
    (void)all;
    value message = tpl_to_text(st, p[0]);
    if (message.len == 0) return tpl_fail(st, "raise_exception without a message");
    return tpl_fail_plain(st, message.s, message.len);
}

static value g_strftime_now(state *st, value x, const value *p, const args *all)
{
    (void)x;
    (void)all;
    if (!tpl_is_string(p[0])) return tpl_fail(st, "strftime_now needs a format");
    return tpl_format_time(st, p[0]);
}

const builtin_row *tpl_find_global(const char *name)
{
    static const builtin_row rows[] = {
        {"range", g_range, "*"},
        {"dict", g_dict, "*"},
        {"namespace", g_namespace, "*"},
        {"cycler", g_cycler, "*"},
        {"joiner", g_joiner, "sep"},
        {"lipsum", g_lipsum, "n html min max"},
        {"raise_exception", g_raise_exception, "message"},
        {"strftime_now", g_strftime_now, "format"},
        {0},
    };
    return tpl_find_row(rows, name);
}
