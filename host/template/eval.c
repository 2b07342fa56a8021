/* eval.c - expressions, calls and the names they see.
 *
 * Owns: scopes, and arguments as a call gives them. Not: operators (arithmetic.c), statements, what methods do. A failure lies
 * in the state and no function returns early for it: what is made afterwards is undefined and written nowhere (value.h).
 * Work is charged as it is done, so that a small template cannot ask for much of it. */
#include <string.h>

#include "template/ast.h"

/* --- scopes -------------------------------------------------------------------------------------------- */

scope *tpl_scope_new(state *st, scope *up)
{
    scope *sc = tpl_take(st, 1, sizeof *sc);
    if (!sc) return up;
    sc->up = up;
    return sc;
}

value *tpl_scope_find(state *st, scope *sc, uint32_t sym)
{
    for (; sc->up; sc = sc->up) {
        if (!tpl_touch(st, 1 + sc->n)) return NULL;
        for (uint32_t i = 0; i < sc->n; i++)
            if (sc->at[i].sym == sym) return &sc->at[i].value;
    }
    return st->top[sym].kind == V_MISSING ? NULL : &st->top[sym];
}

void tpl_scope_set(state *st, scope *sc, uint32_t sym, value v)
{
    if (st->failed) return;
    if (!sc->up) {
        st->top[sym] = v;
        return;
    }
    tpl_touch(st, sc->n);
    for (uint32_t i = 0; i < sc->n; i++)
        if (sc->at[i].sym == sym) {
            sc->at[i].value = v;
            return;
        }
    if (sc->n == sc->cap) {
        const uint32_t cap = sc->cap ? sc->cap * 2 : 4;
        slot *grown = tpl_take(st, cap, sizeof *grown);
        if (!grown) return;
        if (sc->n) memcpy(grown, sc->at, sc->n * sizeof *grown);
        sc->at = grown;
        sc->cap = cap;
    }
    sc->at[sc->n++] = (slot){.sym = sym, .value = v};
}

/* --- arguments -------------------------------------------------------------------------------------------- */

typedef struct arg_list {
    value positional; /* a list */
    keyword *keywords;
    uint32_t n, cap;
} arg_list;

static void add_keyword(state *st, arg_list *list, const char *name, value v)
{
    for (uint32_t i = 0; i < list->n && tpl_touch(st, PER_CODE); i++)
        if (strcmp(list->keywords[i].name, name) == 0)
            tpl_fail(st, "keyword argument '%s' is given twice", name);
    if (list->n == list->cap) {
        const uint32_t cap = list->cap ? list->cap * 2 : 4;
        keyword *grown = tpl_take(st, cap, sizeof *grown);
        if (!grown) return;
        if (list->n) memcpy(grown, list->keywords, list->n * sizeof *grown);
        list->keywords = grown;
        list->cap = cap;
    }
    if (!st->failed) list->keywords[list->n++] = (keyword){.name = name, .value = v};
}

static void add_star(state *st, arg_list *list, value v)
{
    const value *items;
    uint32_t n;
    if (!tpl_items_of(st, v, &items, &n)) return;
    for (uint32_t i = 0; i < n && tpl_charge(st, 1); i++)
        tpl_seq_add(st, list->positional, items[i]);
}

static void add_stars(state *st, arg_list *list, value v)
{
    if (v.kind != V_DICT) {
        tpl_fail(st, "what follows ** must be a mapping, not %s", tpl_type_name(v));
        return;
    }
    for (uint32_t i = 0; i < v.dict->n && tpl_charge(st, 1 + list->n / 8); i++) {
        value key = v.dict->keys[i];
        if (!tpl_is_string(key)) {
            tpl_fail(st, "keywords must be strings");
            return;
        }
        add_keyword(st, list, tpl_v_string(st, key.s, key.len).s, v.dict->values[i]);
    }
}

bool tpl_eval_args(state *st, scope *sc, const node *call, args *out)
{
    arg_list list = {.positional = tpl_v_seq(st, V_LIST, call->n)};
    for (uint32_t i = 0; i < call->n && !st->failed; i++) {
        const node *a = call->kids[i];
        if (a->kind == N_KEYWORD)
            add_keyword(st, &list, a->text, tpl_eval(st, sc, a->a));
        else if (a->kind == N_STAR)
            add_star(st, &list, tpl_eval(st, sc, a->a));
        else if (a->kind == N_STARS)
            add_stars(st, &list, tpl_eval(st, sc, a->a));
        else
            tpl_seq_add(st, list.positional, tpl_eval(st, sc, a));
    }
    *out = (args){.at = list.positional.seq->at,
                  .n = list.positional.seq->n,
                  .keywords = list.keywords,
                  .n_keywords = list.n};
    return !st->failed;
}

/* The place of name in "a b c", or -1. */
static int param_index(const char *params, const char *name)
{
    const size_t len = strlen(name);
    for (int i = 0; *params; i++) {
        const size_t n = strcspn(params, " ");
        if (n == len && memcmp(params, name, n) == 0) return i;
        params += n;
        params += *params == ' ';
    }
    return -1;
}

static uint32_t count_params(const char *params)
{
    uint32_t n = *params != '\0';
    for (; *params; params++) n += *params == ' ';
    return n;
}

value tpl_call_builtin(state *st, const builtin_row *row, value self, const args *all)
{
    value bound[MAX_PARAMS] = {{0}};
    if (st->failed) return tpl_v_none();
    if (strcmp(row->params, "*") == 0) return row->run(st, self, bound, all);
    const uint32_t n = count_params(row->params);
    if (all->n > n)
        return tpl_fail(st, "%s takes at most %u arguments, %u are given", row->name, n, all->n);
    for (uint32_t i = 0; i < all->n; i++) bound[i] = all->at[i];
    for (uint32_t i = 0; i < all->n_keywords; i++) {
        const int at = param_index(row->params, all->keywords[i].name);
        if (at < 0)
            return tpl_fail(st, "%s takes no argument '%s'", row->name, all->keywords[i].name);
        if (bound[at].kind != V_MISSING)
            return tpl_fail(st, "%s is given '%s' twice", row->name, all->keywords[i].name);
        bound[at] = all->keywords[i].value;
    }
    return row->run(st, self, bound, all);
}

value tpl_call_value(state *st, value f, const args *all)
{
    switch (f.kind) {
    case V_UNDEFINED: return tpl_use_undefined(st, f);
    case V_METHOD: return tpl_call_builtin(st, f.method->row, *f.method->self, all);
    case V_FUNCTION: return tpl_call_builtin(st, f.row, tpl_v_none(), all);
    case V_MACRO: return tpl_call_macro(st, f.macro, all);
    case V_LOOP: return tpl_call_loop(st, f.loop, all);
    case V_JOINER:
        if (f.cell[0].kind == V_NONE) {
            f.cell[0] = tpl_v_bool(true);
            return tpl_v_borrow("", 0);
        }
        return f.cell[1];
    default: return tpl_fail(st, "'%s' object is not callable", tpl_type_name(f));
    }
}

/* --- expressions ------------------------------------------------------------------------------------------- */

static value eval_name(state *st, scope *sc, const node *n)
{
    const value *found = tpl_scope_find(st, sc, n->sym);
    return found ? *found : tpl_v_undefined(st, n->text);
}

static value eval_list(state *st, scope *sc, const node *n)
{
    value list = tpl_v_seq(st, n->kind == N_LIST ? V_LIST : V_TUPLE, n->n);
    for (uint32_t i = 0; i < n->n && !st->failed; i++)
        tpl_seq_add(st, list, tpl_eval(st, sc, n->kids[i]));
    return list;
}

static value eval_dict(state *st, scope *sc, const node *n)
{
    value d = tpl_v_dict(st, V_DICT, n->n / 2);
    for (uint32_t i = 0; i + 1 < n->n && !st->failed; i += 2) {
        value key = tpl_eval(st, sc, n->kids[i]);
        tpl_dict_set(st, d, key, tpl_eval(st, sc, n->kids[i + 1]));
    }
    return d;
}

static value eval_condition(state *st, scope *sc, const node *n)
{
    if (tpl_truth(st, tpl_eval(st, sc, n->b))) return tpl_eval(st, sc, n->a);
    if (n->c) return tpl_eval(st, sc, n->c);
    return tpl_v_undefined(st, "the inline if without else");
}

static bool compare(state *st, int op, value a, value b)
{
    switch (op) {
    case OP_EQ: return tpl_equal(st, a, b);
    case OP_NE: return !tpl_equal(st, a, b);
    case OP_LT: return tpl_order(st, a, b, "<") < 0;
    case OP_LE: return tpl_order(st, a, b, "<=") <= 0;
    case OP_GT: return tpl_order(st, a, b, ">") > 0;
    case OP_GE: return tpl_order(st, a, b, ">=") >= 0;
    case OP_IN: return tpl_contains(st, b, a);
    default: return !tpl_contains(st, b, a);
    }
}

static value eval_chain(state *st, scope *sc, const node *n)
{
    value left = tpl_eval(st, sc, n->a);
    for (uint32_t i = 0; i < n->n && !st->failed; i++) {
        value right = tpl_eval(st, sc, n->kids[i]->a);
        if (st->failed || !compare(st, n->kids[i]->op, left, right)) return tpl_v_bool(false);
        left = right;
    }
    return tpl_v_bool(true);
}

static value eval_concat(state *st, scope *sc, const node *n)
{
    cdz_buf text = {0};
    for (uint32_t i = 0; i < n->n && !st->failed; i++)
        tpl_put_value(st, &text, tpl_eval(st, sc, n->kids[i]));
    return tpl_take_text(st, &text);
}

static value eval_slice(state *st, scope *sc, const node *n)
{
    value *cell = tpl_take(st, 3, sizeof *cell);
    const node *const parts[] = {n->a, n->b, n->c};
    if (!cell) return tpl_v_none();
    for (int i = 0; i < 3; i++) cell[i] = parts[i] ? tpl_eval(st, sc, parts[i]) : tpl_v_none();
    return (value){.kind = V_SLICE, .cell = cell};
}

static value eval_call(state *st, scope *sc, const node *n)
{
    args all;
    value f = tpl_eval(st, sc, n->a);
    if (st->failed || !tpl_eval_args(st, sc, n, &all)) return tpl_v_none();
    st->at = n;
    return tpl_call_value(st, f, &all);
}

static value eval_test(state *st, scope *sc, const node *n)
{
    args all;
    value v = tpl_eval(st, sc, n->a);
    if (st->failed || !tpl_eval_args(st, sc, n, &all)) return tpl_v_none();
    st->at = n;
    if (!n->row) return tpl_fail(st, "no test named '%s'", n->text);
    return tpl_v_bool(tpl_truth(st, tpl_call_builtin(st, n->row, v, &all)) != n->flag);
}

static value run_filter(state *st, scope *sc, const node *n, value input)
{
    args all;
    if (st->failed || !tpl_eval_args(st, sc, n, &all)) return tpl_v_none();
    st->at = n;
    if (!n->row) return tpl_fail(st, "no filter named '%s'", n->text);
    return tpl_call_builtin(st, n->row, input, &all);
}

value tpl_apply_filters(state *st, scope *sc, const node *chain, value input)
{
    if (!chain) return input;
    return run_filter(st, sc, chain, tpl_apply_filters(st, sc, chain->a, input));
}

static value eval_item(state *st, scope *sc, const node *n)
{
    value of = tpl_eval(st, sc, n->a);
    if (st->failed) return tpl_v_none();
    value key = tpl_eval(st, sc, n->b);
    st->at = n;
    return tpl_get_item(st, of, key);
}

static value eval_binary(state *st, scope *sc, const node *n)
{
    value a = tpl_eval(st, sc, n->a);
    if (st->failed) return tpl_v_none();
    value b = tpl_eval(st, sc, n->b);
    st->at = n;
    return tpl_arithmetic(st, n->op, a, b);
}

static value eval_sign(state *st, scope *sc, const node *n)
{
    value v = tpl_eval(st, sc, n->a);
    st->at = n;
    if (st->failed) return tpl_v_none();
    value negative = tpl_negate(st, v);
    return n->kind == N_NEG ? negative : tpl_is_number(v) ? tpl_negate(st, negative) : tpl_v_none();
}

static value eval_node(state *st, scope *sc, const node *n)
{
    switch (n->kind) {
    case N_CONST: return n->constant;
    case N_NAME: return eval_name(st, sc, n);
    case N_LIST:
    case N_TUPLE: return eval_list(st, sc, n);
    case N_DICT: return eval_dict(st, sc, n);
    case N_COND: return eval_condition(st, sc, n);
    case N_OR: {
        value a = tpl_eval(st, sc, n->a);
        return st->failed || tpl_truth(st, a) ? a : tpl_eval(st, sc, n->b);
    }
    case N_AND: {
        value a = tpl_eval(st, sc, n->a);
        return st->failed || !tpl_truth(st, a) ? a : tpl_eval(st, sc, n->b);
    }
    case N_NOT: return tpl_v_bool(!tpl_truth(st, tpl_eval(st, sc, n->a)));
    case N_CHAIN: return eval_chain(st, sc, n);
    case N_BINARY: return eval_binary(st, sc, n);
    case N_CONCAT: return eval_concat(st, sc, n);
    case N_NEG:
    case N_POS: return eval_sign(st, sc, n);
    case N_ATTR: {
        value of = tpl_eval(st, sc, n->a);
        st->at = n;
        return tpl_get_attribute(st, of, tpl_v_borrow(n->text, n->n_text));
    }
    case N_ITEM: return eval_item(st, sc, n);
    case N_SLICE: return eval_slice(st, sc, n);
    case N_CALL: return eval_call(st, sc, n);
    case N_FILTER: return run_filter(st, sc, n, tpl_eval(st, sc, n->a));
    case N_TEST: return eval_test(st, sc, n);
    default: return tpl_fail(st, "this cannot be evaluated");
    }
}

value tpl_eval(state *st, scope *sc, const node *n)
{
    const node *outer = st->at;
    st->at = n;
    if (!tpl_charge(st, 1)) return tpl_v_none();
    if (++st->depth > EVAL_DEPTH)
        return tpl_fail_limit(st, "the template nests more than %d evaluations", EVAL_DEPTH);
    value v = eval_node(st, sc, n);
    st->depth--;
    if (!st->failed) st->at = outer;
    return v;
}
