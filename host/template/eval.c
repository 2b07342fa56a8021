/* eval.c - expressions, calls and the names they see. */
#include <string.h>

#include "template/ast.h"

/* --- scopes -------------------------------------------------------------------------------------------- */

scope *scope_new(state *st, scope *up)
{
    scope *sc = take(st, 1, sizeof *sc);
    if (!sc) return up;
    sc->up = up;
    return sc;
}

value *scope_find(state *st, scope *sc, uint32_t sym)
{
    for (; sc->up; sc = sc->up) {
        if (!touch(st, 1 + sc->n)) return NULL;
        for (uint32_t i = 0; i < sc->n; i++)
            if (sc->at[i].sym == sym) return &sc->at[i].value;
    }
    return st->top[sym].kind == V_MISSING ? NULL : &st->top[sym];
}

void scope_set(state *st, scope *sc, uint32_t sym, value v)
{
    if (st->failed) return;
    if (!sc->up) {
        st->top[sym] = v;
        return;
    }
    touch(st, sc->n);
    for (uint32_t i = 0; i < sc->n; i++)
        if (sc->at[i].sym == sym) {
            sc->at[i].value = v;
            return;
        }
    if (sc->n == sc->cap) {
        const uint32_t cap = sc->cap ? sc->cap * 2 : 4;
        slot *grown = take(st, cap, sizeof *grown);
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
    for (uint32_t i = 0; i < list->n && touch(st, PER_CODE); i++)
        if (strcmp(list->keywords[i].name, name) == 0)
            fail(st, "keyword argument '%s' is given twice", name);
    if (list->n == list->cap) {
        const uint32_t cap = list->cap ? list->cap * 2 : 4;
        keyword *grown = take(st, cap, sizeof *grown);
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
    if (!items_of(st, v, &items, &n)) return;
    for (uint32_t i = 0; i < n && charge(st, 1); i++) seq_add(st, list->positional, items[i]);
}

static void add_stars(state *st, arg_list *list, value v)
{
    if (v.kind != V_DICT) {
        fail(st, "what follows ** must be a mapping, not %s", type_name(v));
        return;
    }
    for (uint32_t i = 0; i < v.dict->n && charge(st, 1 + list->n / 8); i++) {
        value key = v.dict->keys[i];
        if (!is_string(key)) {
            fail(st, "keywords must be strings");
            return;
        }
        add_keyword(st, list, v_string(st, key.s, key.len).s, v.dict->values[i]);
    }
}

bool eval_args(state *st, scope *sc, const node *call, args *out)
{
    arg_list list = {.positional = v_seq(st, V_LIST, call->n)};
    for (uint32_t i = 0; i < call->n && !st->failed; i++) {
        const node *a = call->kids[i];
        if (a->kind == N_KEYWORD)
            add_keyword(st, &list, a->text, eval(st, sc, a->a));
        else if (a->kind == N_STAR)
            add_star(st, &list, eval(st, sc, a->a));
        else if (a->kind == N_STARS)
            add_stars(st, &list, eval(st, sc, a->a));
        else
            seq_add(st, list.positional, eval(st, sc, a));
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

value call_builtin(state *st, const builtin_row *row, value self, const args *all)
{
    value bound[MAX_PARAMS] = {{0}};
    if (st->failed) return v_none();
    if (strcmp(row->params, "*") == 0) return row->run(st, self, bound, all);
    const uint32_t n = count_params(row->params);
    if (all->n > n)
        return fail(st, "%s takes at most %u arguments, %u are given", row->name, n, all->n);
    for (uint32_t i = 0; i < all->n; i++) bound[i] = all->at[i];
    for (uint32_t i = 0; i < all->n_keywords; i++) {
        const int at = param_index(row->params, all->keywords[i].name);
        if (at < 0) return fail(st, "%s takes no argument '%s'", row->name, all->keywords[i].name);
        if (bound[at].kind != V_MISSING)
            return fail(st, "%s is given '%s' twice", row->name, all->keywords[i].name);
        bound[at] = all->keywords[i].value;
    }
    return row->run(st, self, bound, all);
}

value call_value(state *st, value f, const args *all)
{
    switch (f.kind) {
    case V_UNDEFINED: return use_undefined(st, f);
    case V_METHOD: return call_builtin(st, f.method->row, *f.method->self, all);
    case V_FUNCTION: return call_builtin(st, f.row, v_none(), all);
    case V_MACRO: return call_macro(st, f.macro, all);
    case V_LOOP: return call_loop(st, f.loop, all);
    case V_JOINER:
        if (f.cell[0].kind == V_NONE) {
            f.cell[0] = v_bool(true);
            return v_borrow("", 0);
        }
        return f.cell[1];
    default: return fail(st, "'%s' object is not callable", type_name(f));
    }
}

/* --- expressions ------------------------------------------------------------------------------------------- */

static value eval_name(state *st, scope *sc, const node *n)
{
    const value *found = scope_find(st, sc, n->sym);
    return found ? *found : v_undefined(st, n->text);
}

static value eval_list(state *st, scope *sc, const node *n)
{
    value list = v_seq(st, n->kind == N_LIST ? V_LIST : V_TUPLE, n->n);
    for (uint32_t i = 0; i < n->n && !st->failed; i++) seq_add(st, list, eval(st, sc, n->kids[i]));
    return list;
}

static value eval_dict(state *st, scope *sc, const node *n)
{
    value d = v_dict(st, V_DICT, n->n / 2);
    for (uint32_t i = 0; i + 1 < n->n && !st->failed; i += 2) {
        value key = eval(st, sc, n->kids[i]);
        dict_set(st, d, key, eval(st, sc, n->kids[i + 1]));
    }
    return d;
}

static value eval_condition(state *st, scope *sc, const node *n)
{
    if (truth(st, eval(st, sc, n->b))) return eval(st, sc, n->a);
    if (n->c) return eval(st, sc, n->c);
    return v_undefined(st, "the inline if without else");
}

static bool compare(state *st, int op, value a, value b)
{
    switch (op) {
    case OP_EQ: return equal(st, a, b);
    case OP_NE: return !equal(st, a, b);
    case OP_LT: return order(st, a, b, "<") < 0;
    case OP_LE: return order(st, a, b, "<=") <= 0;
    case OP_GT: return order(st, a, b, ">") > 0;
    case OP_GE: return order(st, a, b, ">=") >= 0;
    case OP_IN: return contains(st, b, a);
    default: return !contains(st, b, a);
    }
}

static value eval_chain(state *st, scope *sc, const node *n)
{
    value left = eval(st, sc, n->a);
    for (uint32_t i = 0; i < n->n && !st->failed; i++) {
        value right = eval(st, sc, n->kids[i]->a);
        if (st->failed || !compare(st, n->kids[i]->op, left, right)) return v_bool(false);
        left = right;
    }
    return v_bool(true);
}

static value eval_concat(state *st, scope *sc, const node *n)
{
    cdz_buf text = {0};
    for (uint32_t i = 0; i < n->n && !st->failed; i++)
        put_value(st, &text, eval(st, sc, n->kids[i]));
    return take_text(st, &text);
}

static value eval_slice(state *st, scope *sc, const node *n)
{
    value *cell = take(st, 3, sizeof *cell);
    const node *const parts[] = {n->a, n->b, n->c};
    if (!cell) return v_none();
    for (int i = 0; i < 3; i++) cell[i] = parts[i] ? eval(st, sc, parts[i]) : v_none();
    return (value){.kind = V_SLICE, .cell = cell};
}

static value eval_call(state *st, scope *sc, const node *n)
{
    args all;
    value f = eval(st, sc, n->a);
    if (st->failed || !eval_args(st, sc, n, &all)) return v_none();
    st->at = n;
    return call_value(st, f, &all);
}

static value eval_test(state *st, scope *sc, const node *n)
{
    args all;
    value v = eval(st, sc, n->a);
    if (st->failed || !eval_args(st, sc, n, &all)) return v_none();
    st->at = n;
    if (!n->row) return fail(st, "no test named '%s'", n->text);
    return v_bool(truth(st, call_builtin(st, n->row, v, &all)) != n->flag);
}

static value run_filter(state *st, scope *sc, const node *n, value input)
{
    args all;
    if (st->failed || !eval_args(st, sc, n, &all)) return v_none();
    st->at = n;
    if (!n->row) return fail(st, "no filter named '%s'", n->text);
    return call_builtin(st, n->row, input, &all);
}

value apply_filters(state *st, scope *sc, const node *chain, value input)
{
    if (!chain) return input;
    return run_filter(st, sc, chain, apply_filters(st, sc, chain->a, input));
}

static value eval_item(state *st, scope *sc, const node *n)
{
    value of = eval(st, sc, n->a);
    if (st->failed) return v_none();
    value key = eval(st, sc, n->b);
    st->at = n;
    return get_item(st, of, key);
}

static value eval_binary(state *st, scope *sc, const node *n)
{
    value a = eval(st, sc, n->a);
    if (st->failed) return v_none();
    value b = eval(st, sc, n->b);
    st->at = n;
    return arithmetic(st, n->op, a, b);
}

static value eval_sign(state *st, scope *sc, const node *n)
{
    value v = eval(st, sc, n->a);
    st->at = n;
    if (st->failed) return v_none();
    value negative = negate(st, v);
    return n->kind == N_NEG ? negative : is_number(v) ? negate(st, negative) : v_none();
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
        value a = eval(st, sc, n->a);
        return st->failed || truth(st, a) ? a : eval(st, sc, n->b);
    }
    case N_AND: {
        value a = eval(st, sc, n->a);
        return st->failed || !truth(st, a) ? a : eval(st, sc, n->b);
    }
    case N_NOT: return v_bool(!truth(st, eval(st, sc, n->a)));
    case N_CHAIN: return eval_chain(st, sc, n);
    case N_BINARY: return eval_binary(st, sc, n);
    case N_CONCAT: return eval_concat(st, sc, n);
    case N_NEG:
    case N_POS: return eval_sign(st, sc, n);
    case N_ATTR: {
        value of = eval(st, sc, n->a);
        st->at = n;
        return get_attribute(st, of, v_borrow(n->text, n->n_text));
    }
    case N_ITEM: return eval_item(st, sc, n);
    case N_SLICE: return eval_slice(st, sc, n);
    case N_CALL: return eval_call(st, sc, n);
    case N_FILTER: return run_filter(st, sc, n, eval(st, sc, n->a));
    case N_TEST: return eval_test(st, sc, n);
    default: return fail(st, "this cannot be evaluated");
    }
}

value eval(state *st, scope *sc, const node *n)
{
    const node *outer = st->at;
    st->at = n;
    if (!charge(st, 1)) return v_none();
    if (++st->depth > EVAL_DEPTH)
        return fail_limit(st, "the template nests more than %d evaluations", EVAL_DEPTH);
    value v = eval_node(st, sc, n);
    st->depth--;
    if (!st->failed) st->at = outer;
    return v;
}
