/* filters_select.c - map, select, reject and their attribute forms: filters that apply others. */
#include <string.h>

#include "template/methods.h"

static value apply_row(state *st, const char *what, const builtin_row *row, value name, value item,
                       const args *rest)
{
    if (!row) return tpl_fail(st, "no %s named '%.*s'", what, (int)name.len, name.s);
    return tpl_call_builtin(st, row, item, rest);
}

/* With a NUL behind it: a text may be a piece of another. */
static const char *name_of(state *st, value name)
{
    return tpl_v_string(st, name.s, name.len).s;
}

static const value *keyword_of(const args *all, const char *name)
{
    for (uint32_t i = 0; i < all->n_keywords; i++)
        if (strcmp(all->keywords[i].name, name) == 0) return &all->keywords[i].value;
    return NULL;
}

static value map_attribute(state *st, const value *items, uint32_t n, value attribute,
                           const value *otherwise)
{
    value out = tpl_generator(st, n);
    for (uint32_t i = 0; i < n && tpl_charge(st, 1); i++) {
        value v = tpl_get_path(st, items[i], attribute);
        tpl_seq_add(st, out, v.kind == V_UNDEFINED && otherwise ? *otherwise : v);
    }
    return out;
}

static value f_map(state *st, value x, const value *p, const args *all)
{
    (void)p;
    const value *items, *attribute = keyword_of(all, "attribute");
    uint32_t n;
    if (!tpl_truth(st, x))
        return tpl_generator(st, 0); /* as in the reference: None and 0 are nothing */
    if (!tpl_items_of(st, x, &items, &n)) return x;
    if (!all->n && attribute) {
        const value *otherwise = keyword_of(all, "default"); /* None is none given */
        if (otherwise && otherwise->kind == V_NONE) otherwise = NULL;
        return map_attribute(st, items, n, *attribute, otherwise);
    }
    if (!all->n || !tpl_is_string(all->at[0]))
        return tpl_fail(st, "map requires a filter argument");
    const args rest = {.at = all->at + 1,
                       .n = all->n - 1,
                       .keywords = all->keywords,
                       .n_keywords = all->n_keywords};
    const builtin_row *row = tpl_find_filter(name_of(st, all->at[0]));
    value out = tpl_generator(st, n);
    for (uint32_t i = 0; i < n && tpl_charge(st, 1); i++)
        tpl_seq_add(st, out, apply_row(st, "filter", row, all->at[0], items[i], &rest));
    return out;
}

/* first: where the test's name stands among the arguments. */
static value select_items(state *st, value x, const args *all, uint32_t first, bool keep)
{
    const value *items;
    uint32_t n;
    value out = tpl_generator(st, 0);
    if (!tpl_truth(st, x)) return out; /* as in the reference: None and 0 are nothing */
    if (first > all->n) return tpl_fail(st, "an attribute is missing");
    if (!tpl_items_of(st, x, &items, &n)) return out;
    const bool tested = all->n > first;
    if (tested && !tpl_is_string(all->at[first]))
        return tpl_fail(st, "the name of a test must be a string");
    const builtin_row *row = tested ? tpl_find_test(name_of(st, all->at[first])) : NULL;
    const args rest = {.at = tested ? all->at + first + 1 : NULL,
                       .n = tested ? all->n - first - 1 : 0,
                       .keywords = all->keywords,
                       .n_keywords = all->n_keywords};
    for (uint32_t i = 0; i < n && tpl_charge(st, 1); i++) {
        value v = first ? tpl_get_path(st, items[i], all->at[0]) : items[i];
        if (tested) v = apply_row(st, "test", row, all->at[first], v, &rest);
        if (!st->failed && tpl_truth(st, v) == keep) tpl_seq_add(st, out, items[i]);
    }
    return out;
}

static value f_select(state *st, value x, const value *p, const args *all)
{
    (void)p;
    return select_items(st, x, all, 0, true);
}

static value f_reject(state *st, value x, const value *p, const args *all)
{
    (void)p;
    return select_items(st, x, all, 0, false);
}

static value f_selectattr(state *st, value x, const value *p, const args *all)
{
    (void)p;
    return select_items(st, x, all, 1, true);
}

static value f_rejectattr(state *st, value x, const value *p, const args *all)
{
    (void)p;
    return select_items(st, x, all, 1, false);
}

const builtin_row tpl_select_filters[] = {
    {"map", f_map, "*"},
    {"select", f_select, "*"},
    {"reject", f_reject, "*"},
    {"selectattr", f_selectattr, "*"},
    {"rejectattr", f_rejectattr, "*"},
    {0},
};

const builtin_row *tpl_find_filter(const char *name)
{
    const builtin_row *const tables[] = {tpl_text_filters, tpl_list_filters, tpl_number_filters,
                                         tpl_select_filters};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const builtin_row *row = tpl_find_row(tables[i], name);
        if (row) return row;
    }
    return NULL;
}
