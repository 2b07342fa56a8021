/* run.c - statements: output, branches, loops, macros. */
#include <string.h>

#include "base/utf8.h"
#include "template/ast.h"

/* --- assigning --------------------------------------------------------------------------------------------- */

static void assign(state *st, scope *sc, const node *target, value v);

static void assign_tuple(state *st, scope *sc, const node *target, value v)
{
    const value *items;
    uint32_t n;
    if (!tpl_items_of(st, v, &items, &n)) return;
    if (n > target->n) {
        tpl_fail(st, "too many values to unpack (expected %u)", target->n);
        return;
    }
    if (n < target->n) {
        tpl_fail(st, "not enough values to unpack (expected %u, got %u)", target->n, n);
        return;
    }
    for (uint32_t i = 0; i < n; i++) assign(st, sc, target->kids[i], items[i]);
}

static void assign(state *st, scope *sc, const node *target, value v)
{
    if (st->failed) return;
    if (target->kind == N_TUPLE) {
        assign_tuple(st, sc, target, v);
    } else if (target->kind == N_NAME) {
        tpl_scope_set(st, sc, target->sym, v);
    } else {
        const value *ns = tpl_scope_find(st, sc, target->sym);
        st->at = target;
        if (!ns || ns->kind != V_NAMESPACE)
            tpl_fail(st, "cannot assign attribute on non-namespace object");
        else
            tpl_dict_set(st, *ns, tpl_v_borrow(target->text, target->n_text), v);
    }
}

/* --- output ------------------------------------------------------------------------------------------------- */

static void print_value(state *st, value v)
{
    if (!st->autoescape || v.safe) {
        tpl_put_value(st, st->out, v);
        return;
    }
    value text = tpl_to_text(st, v);
    tpl_put_escaped(st, st->out, text.s, text.len);
}

/* Runs a body with its output in a string. */
static value capture(state *st, scope *sc, const node *body)
{
    cdz_buf text = {0}, *outer = st->out;
    st->out = &text;
    tpl_run(st, sc, body);
    st->out = outer;
    value v = tpl_take_text(st, &text);
    v.safe = st->autoescape;
    return v;
}

static void run_generation(state *st, scope *sc, const node *n)
{
    cdz_template_options *o = st->options;
    value text = capture(st, tpl_scope_new(st, sc), n->b);
    const cdz_buf *out = st->main_out;
    if (o->span && out->len > st->counted) { /* the output only grows: what is new of it */
        st->counted_codes += cdz_utf8_count(out->data + st->counted, out->len - st->counted);
        st->counted = out->len;
    }
    const size_t begin = st->counted_codes;
    if (!st->failed && o->span && o->n_spans < o->spans_cap)
        o->span[o->n_spans] = (cdz_template_span){begin, begin + tpl_count_codes(text)};
    o->n_spans++;
    tpl_put(st, st->out, text.s, text.len);
}

static void run_autoescape(state *st, scope *sc, const node *n)
{
    const bool outer = st->autoescape;
    st->autoescape = tpl_truth(st, tpl_eval(st, sc, n->a));
    tpl_run(st, tpl_scope_new(st, sc), n->b);
    st->autoescape = outer;
}

/* --- loops ---------------------------------------------------------------------------------------------------- */

/* The items for which the inline if holds. */
static bool filter_items(state *st, scope *sc, const node *n, const value **items, uint32_t *count)
{
    value kept = tpl_v_seq(st, V_LIST, *count);
    for (uint32_t i = 0; i < *count && !st->failed; i++) {
        scope *inner = tpl_scope_new(st, sc);
        assign(st, inner, n->kids[0], (*items)[i]);
        if (!st->failed && tpl_truth(st, tpl_eval(st, inner, n->c)))
            tpl_seq_add(st, kept, (*items)[i]);
    }
    *items = kept.seq->at;
    *count = kept.seq->n;
    return !st->failed;
}

static void run_rounds(state *st, scope *sc, const node *n, loop *l)
{
    for (l->at = 0; l->at < l->n && tpl_charge(st, 1); l->at++) {
        scope *inner = tpl_scope_new(st, sc);
        if (st->failed) return;
        tpl_scope_set(st, inner, n->sym, (value){.kind = V_LOOP, .loop = l});
        assign(st, inner, n->kids[0], l->items[l->at]);
        tpl_run(st, inner, n->b);
        const uint8_t leaving = st->leaving;
        st->leaving = 0;
        if (leaving == N_BREAK) return;
    }
}

static void run_loop(state *st, scope *sc, const node *n, value over, uint32_t depth)
{
    loop *l = tpl_take(st, 1, sizeof *l);
    if (!l || !tpl_items_of(st, over, &l->items, &l->n)) return;
    if (n->c && !filter_items(st, sc, n, &l->items, &l->n)) return;
    l->depth = depth;
    l->def = n;
    l->env = sc;
    if (l->n)
        run_rounds(st, sc, n, l);
    else if (n->n > 1)
        tpl_run(st, tpl_scope_new(st, sc), n->kids[1]);
}

value tpl_call_loop(state *st, const loop *l, const args *all)
{
    if (!l->def->flag) return tpl_fail(st, "the loop is not recursive, so it cannot be called");
    if (all->n != 1 || all->n_keywords) return tpl_fail(st, "loop takes one argument, an iterable");
    if (++st->macro_depth > MACRO_DEPTH)
        return tpl_fail_limit(st, "loops and macros call each other more than %d deep", MACRO_DEPTH);
    cdz_buf text = {0}, *outer = st->out;
    st->out = &text;
    run_loop(st, l->env, l->def, all->at[0], l->depth + 1);
    st->out = outer;
    st->macro_depth--;
    return tpl_take_text(st, &text);
}

/* --- macros ------------------------------------------------------------------------------------------------------ */

static value make_macro(state *st, scope *sc, const node *def)
{
    macro *m = tpl_take(st, 1, sizeof *m);
    if (!m) return tpl_v_none();
    *m = (macro){.def = def, .env = sc};
    return (value){.kind = V_MACRO, .macro = m};
}

static void set_by_name(state *st, scope *sc, const char *name, value v)
{
    for (uint32_t i = 0; i < st->tpl->n_symbols && tpl_touch(st, PER_CODE); i++)
        if (strcmp(st->tpl->symbols[i], name) == 0) tpl_scope_set(st, sc, i, v);
}

/* Keyword arguments that are no parameters: caller, and what kwargs takes. */
static void bind_other_keywords(state *st, const macro *m, scope *sc, const args *all,
                                const bool *taken)
{
    const node *def = m->def;
    value kwargs = tpl_v_dict(st, V_DICT, 0), caller = tpl_v_undefined(st, "caller");
    for (uint32_t i = 0; i < all->n_keywords && !st->failed; i++) {
        const keyword *k = &all->keywords[i];
        if (taken[i]) continue;
        if (def->uses_caller && strcmp(k->name, "caller") == 0)
            caller = k->value;
        else if (def->uses_kwargs)
            tpl_dict_set(st, kwargs, tpl_v_literal(k->name), k->value);
        else
            tpl_fail(st, "macro '%s' takes no keyword argument '%s'", def->text, k->name);
    }
    if (def->uses_caller) set_by_name(st, sc, "caller", caller);
    if (def->uses_kwargs) set_by_name(st, sc, "kwargs", kwargs);
}

static void bind_rest(state *st, const macro *m, scope *sc, const args *all)
{
    const node *def = m->def;
    if (all->n > def->n && !def->uses_varargs) {
        tpl_fail(st, "macro '%s' takes not more than %u argument(s)", def->text, def->n);
        return;
    }
    if (!def->uses_varargs) return;
    value rest = tpl_v_seq(st, V_TUPLE, 0);
    for (uint32_t i = def->n; i < all->n; i++) tpl_seq_add(st, rest, all->at[i]);
    set_by_name(st, sc, "varargs", rest);
}

static value bind_param(state *st, scope *sc, const macro *m, uint32_t i, const args *all,
                        bool *taken)
{
    const node *def = m->def;
    const char *name = def->kids[i]->text;
    value v = i < all->n ? all->at[i] : tpl_v_missing();
    for (uint32_t k = 0; k < all->n_keywords && tpl_touch(st, PER_CODE); k++) {
        if (strcmp(all->keywords[k].name, name) != 0) continue;
        if (v.kind != V_MISSING)
            return tpl_fail(st, "macro '%s' got multiple values for argument '%s'", def->text, name);
        v = all->keywords[k].value;
        taken[k] = true;
    }
    const uint32_t first_default = def->n - def->c->n;
    if (v.kind == V_MISSING && i >= first_default)
        return tpl_eval(st, sc, def->c->kids[i - first_default]);
    return v.kind == V_MISSING ? tpl_v_undefined(st, name) : v;
}

value tpl_call_macro(state *st, const macro *m, const args *all)
{
    if (++st->macro_depth > MACRO_DEPTH)
        return tpl_fail_limit(st, "loops and macros call each other more than %d deep", MACRO_DEPTH);
    scope *sc = tpl_scope_new(st, m->env);
    bool *taken = tpl_take(st, all->n_keywords, sizeof *taken);
    if (!taken) return tpl_v_none();
    bind_rest(st, m, sc, all);
    for (uint32_t i = 0; i < m->def->n && !st->failed; i++)
        tpl_scope_set(st, sc, m->def->kids[i]->sym, bind_param(st, sc, m, i, all, taken));
    if (!st->failed) bind_other_keywords(st, m, sc, all, taken);
    value v = st->failed ? tpl_v_none() : capture(st, sc, m->def->b);
    st->macro_depth--;
    return v;
}

static void run_call_block(state *st, scope *sc, const node *n)
{
    args all;
    value f = tpl_eval(st, sc, n->a->a);
    if (st->failed || !tpl_eval_args(st, sc, n->a, &all)) return;
    keyword *keywords = tpl_take(st, all.n_keywords + 1u, sizeof *keywords);
    if (!keywords) return;
    if (all.n_keywords) memcpy(keywords, all.keywords, all.n_keywords * sizeof *keywords);
    keywords[all.n_keywords++] = (keyword){.name = "caller", .value = make_macro(st, sc, n->b)};
    all.keywords = keywords;
    print_value(st, tpl_call_value(st, f, &all));
}

/* --- everything ---------------------------------------------------------------------------------------------------- */

static void run_if(state *st, scope *sc, const node *n)
{
    for (; n && n->kind == N_IF; n = n->c) {
        const bool yes = tpl_truth(st, tpl_eval(st, sc, n->a));
        if (st->failed) return;
        if (yes) {
            tpl_run(st, sc, n->b);
            return;
        }
    }
    if (n) tpl_run(st, sc, n);
}

static void run_with(state *st, scope *sc, const node *n)
{
    scope *inner = tpl_scope_new(st, sc);
    for (uint32_t i = 0; i + 1 < n->n && !st->failed; i += 2)
        assign(st, inner, n->kids[i], tpl_eval(st, sc, n->kids[i + 1]));
    tpl_run(st, inner, n->b);
}

static void run_block(state *st, scope *sc, const node *n)
{
    for (uint32_t i = 0; i < n->n && !st->failed && !st->leaving; i++) tpl_run(st, sc, n->kids[i]);
}

static void run_node(state *st, scope *sc, const node *n)
{
    switch (n->kind) {
    case N_TEXT: tpl_put(st, st->out, n->text, n->n_text); break;
    case N_PRINT: print_value(st, tpl_eval(st, sc, n->a)); break;
    case N_BLOCK: run_block(st, sc, n); break;
    case N_IF: run_if(st, sc, n); break;
    case N_FOR: run_loop(st, sc, n, tpl_eval(st, sc, n->a), 0); break;
    case N_SET: assign(st, sc, n->kids[0], tpl_eval(st, sc, n->a)); break;
    case N_SET_BLOCK: {
        value text = capture(st, tpl_scope_new(st, sc), n->b);
        assign(st, sc, n->kids[0], tpl_apply_filters(st, sc, n->a, text));
        break;
    }
    case N_MACRO: tpl_scope_set(st, sc, n->sym, make_macro(st, sc, n)); break;
    case N_CALL_BLOCK: run_call_block(st, sc, n); break;
    case N_FILTER_BLOCK:
        print_value(st, tpl_apply_filters(st, sc, n->a, capture(st, tpl_scope_new(st, sc), n->b)));
        break;
    case N_WITH: run_with(st, sc, n); break;
    case N_SCOPE: tpl_run(st, tpl_scope_new(st, n->flag ? &st->root : sc), n->b); break;
    case N_GENERATION: run_generation(st, sc, n); break;
    case N_AUTOESCAPE: run_autoescape(st, sc, n); break;
    case N_NO_LOADER:
        tpl_fail(st, "'%s' needs a loader, and chat templates have none", n->text);
        break;
    default: st->leaving = n->kind; break; /* break, continue */
    }
}

void tpl_run(state *st, scope *sc, const node *n)
{
    if (st->failed || !n) return;
    st->at = n;
    if (!tpl_charge(st, 1)) return;
    if (++st->depth > EVAL_DEPTH) {
        tpl_fail_limit(st, "the template nests more than %d evaluations", EVAL_DEPTH);
        return;
    }
    run_node(st, sc, n);
    st->depth--;
}
