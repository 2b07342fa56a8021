/* parse_expr.c - expressions, after jinja2/parser.py: loosest first inline if, or, and, not,
 * comparison, + -, ~, * / // %, **, sign, then postfix, filter and test. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "template/parse.h"

static node *parse_or(parser *p);

static node *pair(parser *p, node_kind kind, const token *at, const node *a, const node *b)
{
    node *n = tpl_new_node(p, kind, at);
    if (!n || !a || !b) return NULL;
    n->a = a;
    n->b = b;
    return tpl_seal(p, n);
}

/* --- atoms ---------------------------------------------------------------------------------------- */

static node *constant(parser *p, value v)
{
    node *n = tpl_new_node(p, N_CONST, p->at);
    if (n) n->constant = v;
    tpl_next(p);
    return n;
}

static node *parse_integer(parser *p)
{
    const char *s = p->at->text;
    const char base = s[0] == '0' ? (char)(s[1] | 0x20) : 0;
    const int radix = base == 'x' ? 16 : base == 'b' ? 2 : base == 'o' ? 8 : 10;
    errno = 0;
    const long long i = strtoll(radix == 10 ? s : s + 2, NULL, radix);
    if (errno == 0) return constant(p, tpl_v_int(i));
    if (radix != 10) return tpl_parse_fail(p, p->at, "integer %s has more than 64 bits", s);
    value v = tpl_v_borrow(s, p->at->len);
    v.kind = V_BIG;
    return constant(p, v);
}

static node *parse_string(parser *p)
{
    const token *first = p->at;
    size_t len = 0;
    for (const token *t = first; t->kind == T_STRING; t++) len += t->len;
    char *text = cdz_arena_alloc(&p->tpl->arena, len + 1);
    node *n = tpl_new_node(p, N_CONST, first);
    if (!text || !n) return tpl_parse_fail(p, first, "out of memory");
    n->constant = tpl_v_borrow(text, len);
    for (; p->at->kind == T_STRING; tpl_next(p)) {
        memcpy(text, p->at->text, p->at->len);
        text += p->at->len;
    }
    return n;
}

static node *parse_name(parser *p)
{
    static const struct {
        const char *word;
        uint8_t kind;
        bool b;
    } words[] = {{"true", V_BOOL, true},   {"True", V_BOOL, true},  {"false", V_BOOL, false},
                 {"False", V_BOOL, false}, {"none", V_NONE, false}, {"None", V_NONE, false}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (tpl_is_word(p, words[i].word))
            return constant(p, (value){.kind = words[i].kind, .b = words[i].b});
    node *n = tpl_new_node(p, N_NAME, p->at);
    if (!n) return NULL;
    n->sym = tpl_symbol(p, p->at);
    n->text = p->at->text;
    if (p->macro) {
        p->macro->uses_caller |= tpl_is_word(p, "caller");
        p->macro->uses_varargs |= tpl_is_word(p, "varargs");
        p->macro->uses_kwargs |= tpl_is_word(p, "kwargs");
    }
    tpl_next(p);
    return n;
}

static node *parse_list(parser *p)
{
    node *n = tpl_new_node(p, N_LIST, p->at);
    kids list = {0};
    tpl_next(p);
    while (p->status == CDZ_OK && !tpl_is_op(p, "]")) {
        if (list.n && (!tpl_expect_op(p, ",") || tpl_is_op(p, "]"))) break;
        tpl_add_kid(p, &list, tpl_parse_expression(p, true));
    }
    if (!n || !tpl_expect_op(p, "]")) return NULL;
    tpl_set_kids(n, &list);
    return tpl_seal(p, n);
}

static node *parse_dict(parser *p)
{
    node *n = tpl_new_node(p, N_DICT, p->at);
    kids list = {0};
    tpl_next(p);
    while (p->status == CDZ_OK && !tpl_is_op(p, "}")) {
        if (list.n && (!tpl_expect_op(p, ",") || tpl_is_op(p, "}"))) break;
        tpl_add_kid(p, &list, tpl_parse_expression(p, true));
        tpl_expect_op(p, ":");
        tpl_add_kid(p, &list, tpl_parse_expression(p, true));
    }
    if (!n || !tpl_expect_op(p, "}")) return NULL;
    tpl_set_kids(n, &list);
    return tpl_seal(p, n);
}

/* (), (a), (a,), (a, b) */
static node *parse_parentheses(parser *p)
{
    const token *open = p->at;
    tpl_next(p);
    node *n;
    if (tpl_is_op(p, ")"))
        n = tpl_new_node(p, N_TUPLE, open);
    else
        n = tpl_parse_tuple(p, true, NULL);
    return n && tpl_expect_op(p, ")") ? n : NULL;
}

static node *parse_primary(parser *p)
{
    switch (p->at->kind) {
    case T_NAME: return parse_name(p);
    case T_STRING: return parse_string(p);
    case T_INTEGER: return parse_integer(p);
    case T_FLOAT: return constant(p, tpl_v_float(strtod(p->at->text, NULL)));
    default: break;
    }
    if (!tpl_is_op(p, "(") && !tpl_is_op(p, "[") && !tpl_is_op(p, "{"))
        return tpl_parse_fail(p, p->at, "expected an expression, found %s", tpl_describe(p->at));
    if (!tpl_enter(p)) return NULL;
    node *n = tpl_is_op(p, "(")   ? parse_parentheses(p)
              : tpl_is_op(p, "[") ? parse_list(p)
                                  : parse_dict(p);
    p->depth--;
    return n;
}

/* --- what follows an atom --------------------------------------------------------------------------- */

/* One index, or a slice. */
static node *parse_subscript(parser *p)
{
    node *slice = tpl_new_node(p, N_SLICE, p->at);
    if (!slice) return NULL;
    if (!tpl_is_op(p, ":")) {
        node *start = tpl_parse_expression(p, true);
        if (!tpl_is_op(p, ":")) return start;
        slice->a = start;
    }
    tpl_next(p);
    if (!tpl_is_op(p, ":") && !tpl_is_op(p, "]") && !tpl_is_op(p, ","))
        slice->b = tpl_parse_expression(p, true);
    if (tpl_skip_op(p, ":") && !tpl_is_op(p, "]") && !tpl_is_op(p, ","))
        slice->c = tpl_parse_expression(p, true);
    return p->status == CDZ_OK ? tpl_seal(p, slice) : NULL;
}

static node *parse_subscripts(parser *p, node *of)
{
    const token *open = p->at;
    kids list = {0};
    if (!tpl_enter(p)) return NULL;
    tpl_next(p);
    if (tpl_is_op(p, "]")) return tpl_parse_fail(p, p->at, "expected an index, found ']'");
    while (p->status == CDZ_OK && !tpl_is_op(p, "]")) {
        if (list.n && !tpl_expect_op(p, ",")) break;
        tpl_add_kid(p, &list, parse_subscript(p));
    }
    p->depth--;
    if (!tpl_expect_op(p, "]") || list.n == 0) return NULL; /* none: a subscript has failed */
    const node *key = list.at[0];
    if (list.n > 1) {
        node *tuple = tpl_new_node(p, N_TUPLE, open);
        if (!tuple) return NULL;
        tpl_set_kids(tuple, &list);
        key = tpl_seal(p, tuple);
    }
    return pair(p, N_ITEM, open, of, key);
}

static node *parse_attribute(parser *p, node *of)
{
    const token *dot = p->at;
    tpl_next(p);
    if (p->at->kind == T_INTEGER) return pair(p, N_ITEM, dot, of, parse_integer(p));
    if (p->at->kind != T_NAME)
        return tpl_parse_fail(p, p->at, "expected a name or number after '.', found %s",
                              tpl_describe(p->at));
    node *n = tpl_new_node(p, N_ATTR, p->at);
    if (!n || !of) return NULL;
    n->a = of;
    n->text = p->at->text;
    n->n_text = p->at->len;
    tpl_next(p);
    return tpl_seal(p, n);
}

static node *parse_argument(parser *p)
{
    const token *at = p->at;
    node *n;
    if (tpl_is_op(p, "*") || tpl_is_op(p, "**")) {
        n = tpl_new_node(p, tpl_is_op(p, "*") ? N_STAR : N_STARS, at);
        tpl_next(p);
    } else if (at->kind == T_NAME && at[1].kind == T_OPERATOR && strcmp(at[1].text, "=") == 0) {
        n = tpl_new_node(p, N_KEYWORD, at);
        if (n) n->text = at->text;
        tpl_next(p);
        tpl_next(p);
    } else {
        return tpl_parse_expression(p, true);
    }
    const node *inner = tpl_parse_expression(p, true);
    if (!n || !inner) return NULL;
    n->a = inner;
    return tpl_seal(p, n);
}

/* The reader stands on "(". */
bool tpl_parse_call_args(parser *p, node *call)
{
    kids list = {0};
    bool named = false;
    if (!tpl_enter(p)) return false;
    tpl_next(p);
    while (p->status == CDZ_OK && !tpl_is_op(p, ")")) {
        if (list.n && (!tpl_expect_op(p, ",") || tpl_is_op(p, ")"))) break;
        const token *at = p->at;
        const node *a = parse_argument(p);
        if (!a) break;
        const bool is_named = a->kind == N_KEYWORD || a->kind == N_STARS;
        if (named && !is_named)
            tpl_parse_fail(p, at, "a positional argument cannot follow a keyword argument");
        named |= is_named;
        tpl_add_kid(p, &list, a);
    }
    p->depth--;
    if (!tpl_expect_op(p, ")") || !call) return false;
    tpl_set_kids(call, &list);
    return true;
}

static node *parse_call(parser *p, node *f)
{
    node *n = tpl_new_node(p, N_CALL, p->at);
    if (!n || !f) return NULL;
    n->a = f;
    return tpl_parse_call_args(p, n) ? tpl_seal(p, n) : NULL;
}

node *tpl_parse_postfix(parser *p, node *n)
{
    while (n) {
        if (tpl_is_op(p, "."))
            n = parse_attribute(p, n);
        else if (tpl_is_op(p, "["))
            n = parse_subscripts(p, n);
        else if (tpl_is_op(p, "("))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* a.b.c as one name, as filters and tests may have. */
static const char *dotted_name(parser *p)
{
    const token *t = tpl_expect_name(p);
    if (!t) return NULL;
    const char *name = t->text;
    while (tpl_skip_op(p, ".")) {
        t = tpl_expect_name(p);
        name = t ? cdz_arena_printf(&p->tpl->arena, "%s.%s", name, t->text) : NULL;
        if (!name) return NULL;
    }
    return name;
}

node *tpl_parse_filters(parser *p, node *input)
{
    do {
        node *n = tpl_new_node(p, N_FILTER, p->at);
        const char *name = dotted_name(p);
        if (!n || !name) return NULL;
        n->a = input;
        n->text = name;
        n->row = tpl_find_filter(name);
        if (tpl_is_op(p, "(") && !tpl_parse_call_args(p, n)) return NULL;
        input = tpl_seal(p, n);
    } while (input && tpl_skip_op(p, "|"));
    return input;
}

static bool begins_argument(const parser *p)
{
    switch (p->at->kind) {
    case T_NAME: return !tpl_is_word(p, "else") && !tpl_is_word(p, "or") && !tpl_is_word(p, "and");
    case T_STRING:
    case T_INTEGER:
    case T_FLOAT: return true;
    default: return tpl_is_op(p, "(") || tpl_is_op(p, "[") || tpl_is_op(p, "{");
    }
}

/* The reader stands behind "is". */
static node *parse_test(parser *p, node *of)
{
    node *n = tpl_new_node(p, N_TEST, p->at);
    if (!n) return NULL;
    n->a = of;
    n->flag = tpl_skip_word(p, "not");
    n->text = dotted_name(p);
    if (!n->text) return NULL;
    n->row = tpl_find_test(n->text);
    if (tpl_is_op(p, "(")) return tpl_parse_call_args(p, n) ? tpl_seal(p, n) : NULL;
    if (!begins_argument(p)) return tpl_seal(p, n);
    if (tpl_is_word(p, "is")) return tpl_parse_fail(p, p->at, "tests cannot be chained with 'is'");
    kids list = {0};
    tpl_add_kid(p, &list, tpl_parse_postfix(p, parse_primary(p)));
    tpl_set_kids(n, &list);
    return tpl_seal(p, n);
}

static node *parse_filter_expr(parser *p, node *n)
{
    while (n) {
        if (tpl_skip_op(p, "|"))
            n = tpl_parse_filters(p, n);
        else if (p->at->kind == T_NAME && tpl_skip_word(p, "is"))
            n = parse_test(p, n);
        else if (tpl_is_op(p, "("))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* --- operators ---------------------------------------------------------------------------------------- */

node *tpl_parse_unary(parser *p, bool with_filter)
{
    const token *at = p->at;
    node *n;
    if (!tpl_enter(p)) return NULL;
    if (tpl_is_op(p, "-") || tpl_is_op(p, "+")) {
        n = tpl_new_node(p, tpl_is_op(p, "-") ? N_NEG : N_POS, at);
        tpl_next(p);
        const node *inner = tpl_parse_unary(p, false);
        if (n) n->a = inner;
        n = inner ? tpl_seal(p, n) : NULL;
    } else {
        n = parse_primary(p);
    }
    n = tpl_parse_postfix(p, n);
    if (with_filter) n = parse_filter_expr(p, n);
    p->depth--;
    return n;
}

typedef struct binary_op {
    const char *text;
    node_op op;
} binary_op;

static const binary_op *find_op(const parser *p, const binary_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tpl_is_op(p, ops[i].text)) return &ops[i];
    return NULL;
}

/* a op b op c, from left to right. */
static node *parse_level(parser *p, node *(*inner)(parser *), const binary_op *ops, size_t n_ops)
{
    node *n = inner(p);
    const binary_op *op;
    while (n && (op = find_op(p, ops, n_ops)) != NULL) {
        const token *at = p->at;
        tpl_next(p);
        n = pair(p, N_BINARY, at, n, inner(p));
        if (n) n->op = (uint8_t)op->op;
    }
    return n;
}

static node *parse_signed(parser *p)
{
    return tpl_parse_unary(p, true);
}

static node *parse_power(parser *p)
{
    static const binary_op ops[] = {{"**", OP_POW}};
    return parse_level(p, parse_signed, ops, 1);
}

static node *parse_product(parser *p)
{
    static const binary_op ops[] = {
        {"*", OP_MUL}, {"/", OP_DIV}, {"//", OP_FLOORDIV}, {"%", OP_MOD}};
    return parse_level(p, parse_power, ops, 4);
}

static node *parse_concat(parser *p)
{
    const token *at = p->at;
    node *first = parse_product(p);
    if (!first || !tpl_is_op(p, "~")) return first;
    kids list = {0};
    tpl_add_kid(p, &list, first);
    while (tpl_skip_op(p, "~")) tpl_add_kid(p, &list, parse_product(p));
    node *n = tpl_new_node(p, N_CONCAT, at);
    if (!n) return NULL;
    tpl_set_kids(n, &list);
    return tpl_seal(p, n);
}

static node *parse_sum(parser *p)
{
    static const binary_op ops[] = {{"+", OP_ADD}, {"-", OP_SUB}};
    return parse_level(p, parse_concat, ops, 2);
}

static bool comparison(parser *p, node_op *op)
{
    static const binary_op ops[] = {{"==", OP_EQ}, {"!=", OP_NE}, {"<", OP_LT},
                                    {"<=", OP_LE}, {">", OP_GT},  {">=", OP_GE}};
    const binary_op *found = find_op(p, ops, 6);
    if (found) {
        *op = found->op;
        tpl_next(p);
        return true;
    }
    if (p->at->kind != T_NAME) return false;
    *op = tpl_is_word(p, "in") ? OP_IN : OP_NOT_IN;
    if (tpl_skip_word(p, "in")) return true;
    if (!tpl_is_word(p, "not") || p->at[1].kind != T_NAME || strcmp(p->at[1].text, "in") != 0)
        return false;
    tpl_next(p);
    tpl_next(p);
    return true;
}

static node *parse_compare(parser *p)
{
    node *first = parse_sum(p);
    kids list = {0};
    const token *at = p->at;
    node_op op;
    while (first && p->status == CDZ_OK && comparison(p, &op)) {
        node *link = tpl_new_node(p, N_LINK, at);
        if (!link) return NULL;
        link->op = (uint8_t)op;
        link->a = parse_sum(p);
        tpl_add_kid(p, &list, link->a ? tpl_seal(p, link) : NULL);
    }
    if (!list.n) return first;
    node *n = tpl_new_node(p, N_CHAIN, at);
    if (!n) return NULL;
    n->a = first;
    tpl_set_kids(n, &list);
    return tpl_seal(p, n);
}

static node *parse_not(parser *p)
{
    if (!tpl_is_word(p, "not") || p->at->kind != T_NAME) return parse_compare(p);
    node *n = tpl_new_node(p, N_NOT, p->at);
    tpl_next(p);
    if (!n || !tpl_enter(p)) return NULL;
    n->a = parse_not(p);
    p->depth--;
    return n->a ? tpl_seal(p, n) : NULL;
}

static node *parse_and(parser *p)
{
    node *n = parse_not(p);
    while (n && p->at->kind == T_NAME && tpl_is_word(p, "and")) {
        const token *at = p->at;
        tpl_next(p);
        n = pair(p, N_AND, at, n, parse_not(p));
    }
    return n;
}

static node *parse_or(parser *p)
{
    node *n = parse_and(p);
    while (n && p->at->kind == T_NAME && tpl_is_word(p, "or")) {
        const token *at = p->at;
        tpl_next(p);
        n = pair(p, N_OR, at, n, parse_and(p));
    }
    return n;
}

static node *parse_condition(parser *p)
{
    node *n = parse_or(p);
    while (n && p->at->kind == T_NAME && tpl_is_word(p, "if")) {
        node *cond = tpl_new_node(p, N_COND, p->at);
        tpl_next(p);
        if (!cond) return NULL;
        cond->a = n;
        cond->b = parse_or(p);
        if (p->at->kind == T_NAME && tpl_skip_word(p, "else")) {
            cond->c = tpl_enter(p) ? parse_condition(p) : NULL;
            p->depth--;
        }
        n = p->status == CDZ_OK ? tpl_seal(p, cond) : NULL;
    }
    return n;
}

node *tpl_parse_expression(parser *p, bool with_condition)
{
    if (!tpl_enter(p)) return NULL;
    node *n = with_condition ? parse_condition(p) : parse_or(p);
    p->depth--;
    return n;
}

static bool ends_tuple(const parser *p, const char *stop)
{
    return p->at->kind == T_PRINT_END || p->at->kind == T_BLOCK_END || tpl_is_op(p, ")") ||
           (stop && p->at->kind == T_NAME && tpl_is_word(p, stop));
}

node *tpl_parse_tuple(parser *p, bool with_condition, const char *stop)
{
    const token *at = p->at;
    kids list = {0};
    node *first = tpl_parse_expression(p, with_condition);
    if (!first || !tpl_is_op(p, ",")) return first;
    tpl_add_kid(p, &list, first);
    while (tpl_skip_op(p, ",") && !ends_tuple(p, stop))
        tpl_add_kid(p, &list, tpl_parse_expression(p, with_condition));
    node *n = tpl_new_node(p, N_TUPLE, at);
    if (!n || p->status != CDZ_OK) return NULL;
    tpl_set_kids(n, &list);
    return tpl_seal(p, n);
}
