/* parse.c - statements, and the parser's small tools. After jinja2/parser.py. */
#include "template/parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

/* --- tools ------------------------------------------------------------------------------------------- */

node *parse_fail(parser *p, const token *at, const char *fmt, ...)
{
    static const token end = {.kind = T_END, .text = ""};
    if (p->status != CDZ_OK) return NULL;
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    p->status =
        cdz_err(p->err, CDZ_E_INPUT, "%s:%u:%u: %s", p->tpl->name, at->line, at->column, text);
    p->at = &end;
    return NULL;
}

static void no_memory(parser *p)
{
    if (p->status != CDZ_OK) return;
    parse_fail(p, p->at, "out of memory");
    p->status = cdz_err(p->err, CDZ_E_NOMEM, "%s: out of memory", p->tpl->name);
}

node *new_node(parser *p, node_kind kind, const token *at)
{
    node *n = cdz_arena_alloc(&p->tpl->arena, sizeof *n);
    if (!n) {
        no_memory(p);
        return NULL;
    }
    n->kind = (uint8_t)kind;
    n->line = at->line;
    n->column = at->column;
    return n;
}

static void deepen(node *n, const node *child)
{
    if (child && child->depth >= n->depth) n->depth = (uint16_t)(child->depth + 1);
}

node *seal(parser *p, node *n)
{
    if (!n || p->status != CDZ_OK) return NULL;
    deepen(n, n->a);
    deepen(n, n->b);
    deepen(n, n->c);
    for (uint32_t i = 0; i < n->n; i++) deepen(n, n->kids[i]);
    if (n->depth < NODE_DEPTH) return n;
    p->status = cdz_err(p->err, CDZ_E_LIMIT, "%s:%u:%u: an expression of more than %d links",
                        p->tpl->name, n->line, n->column, NODE_DEPTH);
    return NULL;
}

void add_kid(parser *p, kids *list, const node *kid)
{
    if (p->status != CDZ_OK || !kid) return;
    if (list->n == list->cap) {
        const uint32_t cap = list->cap ? list->cap * 2 : 4;
        const node **grown = cdz_arena_array(&p->tpl->arena, cap, sizeof *grown);
        if (!grown) {
            no_memory(p);
            return;
        }
        for (uint32_t i = 0; i < list->n; i++) grown[i] = list->at[i];
        list->at = grown;
        list->cap = cap;
    }
    list->at[list->n++] = kid;
}

void set_kids(node *n, const kids *list)
{
    n->kids = list->at;
    n->n = list->n;
}

uint32_t symbol(parser *p, const token *name)
{
    cdz_template *tpl = p->tpl;
    for (uint32_t i = 0; i < tpl->n_symbols; i++)
        if (strcmp(tpl->symbols[i], name->text) == 0) return i;
    if (tpl->n_symbols == p->symbols_cap) {
        const uint32_t cap = p->symbols_cap ? p->symbols_cap * 2 : 32;
        const char **grown = cdz_arena_array(&tpl->arena, cap, sizeof *grown);
        if (!grown) {
            no_memory(p);
            return 0;
        }
        for (uint32_t i = 0; i < tpl->n_symbols; i++) grown[i] = tpl->symbols[i];
        tpl->symbols = grown;
        p->symbols_cap = cap;
    }
    tpl->symbols[tpl->n_symbols] = name->text;
    return tpl->n_symbols++;
}

void next(parser *p)
{
    if (p->at->kind != T_END) p->at++;
}

bool is_op(const parser *p, const char *op)
{
    return p->at->kind == T_OPERATOR && strcmp(p->at->text, op) == 0;
}

bool is_word(const parser *p, const char *word)
{
    return p->at->kind == T_NAME && strcmp(p->at->text, word) == 0;
}

bool skip_op(parser *p, const char *op)
{
    const bool is = is_op(p, op);
    if (is) next(p);
    return is;
}

bool skip_word(parser *p, const char *word)
{
    const bool is = is_word(p, word);
    if (is) next(p);
    return is;
}

const char *describe(const token *t)
{
    switch (t->kind) {
    case T_END: return "the end of the template";
    case T_TEXT: return "text";
    case T_STRING: return "a string";
    default: return t->text;
    }
}

bool expect_op(parser *p, const char *op)
{
    if (skip_op(p, op)) return true;
    parse_fail(p, p->at, "expected '%s', found %s", op, describe(p->at));
    return false;
}

const token *expect_name(parser *p)
{
    const token *t = p->at;
    if (t->kind != T_NAME) {
        parse_fail(p, t, "expected a name, found %s", describe(t));
        return NULL;
    }
    next(p);
    return t;
}

bool enter(parser *p)
{
    if (p->status != CDZ_OK) return false;
    if (++p->depth <= 4 * PARSE_DEPTH) return true; /* a bracket enters up to four times */
    p->status = cdz_err(p->err, CDZ_E_LIMIT, "%s:%u:%u: more than %d levels inside each other",
                        p->tpl->name, p->at->line, p->at->column, PARSE_DEPTH);
    return false;
}

static bool end_tag(parser *p)
{
    if (p->status != CDZ_OK) return false;
    if (p->at->kind != T_BLOCK_END) {
        parse_fail(p, p->at, "expected '%%}', found %s", describe(p->at));
        return false;
    }
    next(p);
    return true;
}

/* --- blocks --------------------------------------------------------------------------------------------- */

static node *parse_statement(parser *p, const token *tag);

static bool is_one_of(const parser *p, const char *const *words)
{
    for (; words && *words; words++)
        if (is_word(p, *words)) return true;
    return false;
}

static void missing_end(parser *p, const token *tag, const char *const *ends)
{
    char list[128] = "";
    size_t n = 0;
    for (; *ends && n < sizeof list; ends++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? " or " : "", *ends);
    parse_fail(p, tag, "'%s' has no end: expected %s before the end of the template", tag->text,
               list);
}

/* Everything up to {% and one of ends, on which the reader then stands (ends NULL: to the end of
 * the template). tag: what was opened. */
static node *parse_body(parser *p, const token *tag, const char *const *ends)
{
    node *block = new_node(p, N_BLOCK, p->at);
    kids list = {0};
    if (!block || !enter(p)) return NULL;
    while (p->status == CDZ_OK && p->at->kind != T_END) {
        const token *t = p->at;
        node *n = NULL;
        next(p);
        if (t->kind == T_TEXT) {
            n = new_node(p, N_TEXT, t);
            if (n) n->text = t->text, n->n_text = t->len;
        } else if (t->kind == T_PRINT_BEGIN) {
            n = new_node(p, N_PRINT, t);
            const node *e = parse_tuple(p, true, NULL);
            if (n) n->a = e;
            if (p->status == CDZ_OK && p->at->kind != T_PRINT_END)
                parse_fail(p, p->at, "expected '}}', found %s", describe(p->at));
            next(p);
        } else {
            if (is_one_of(p, ends)) break;
            n = parse_statement(p, p->at);
        }
        add_kid(p, &list, n);
    }
    p->depth--;
    if (p->status == CDZ_OK && ends && p->at->kind == T_END) missing_end(p, tag, ends);
    set_kids(block, &list);
    return p->status == CDZ_OK ? block : NULL;
}

/* The same, past the end tag too, which is one word. */
static node *parse_body_to(parser *p, const token *tag, const char *end)
{
    const char *const ends[] = {end, NULL};
    node *body = parse_body(p, tag, ends);
    if (!body) return NULL;
    next(p);
    return body;
}

/* --- targets ----------------------------------------------------------------------------------------------- */

static node *parse_targets(parser *p, bool in_parentheses);

static node *parse_target(parser *p)
{
    if (skip_op(p, "(")) {
        node *n = enter(p) ? parse_targets(p, true) : NULL;
        p->depth--;
        return expect_op(p, ")") ? n : NULL;
    }
    const token *name = p->at;
    if (name->kind != T_NAME)
        return parse_fail(p, name, "expected a name, found %s", describe(name));
    static const char *const constants[] = {"true", "false", "none", "True", "False", "None", NULL};
    if (is_one_of(p, constants)) return parse_fail(p, name, "cannot assign to '%s'", name->text);
    next(p);
    node *n = new_node(p, N_NAME, name);
    if (!n) return NULL;
    n->sym = symbol(p, name);
    n->text = name->text;
    if (!skip_op(p, ".")) return n;
    const token *attribute = expect_name(p);
    if (!attribute) return NULL;
    n->kind = N_NS_TARGET;
    n->text = attribute->text;
    n->n_text = attribute->len;
    return n;
}

static node *parse_targets(parser *p, bool in_parentheses)
{
    const token *at = p->at;
    node *first = parse_target(p);
    if (!first || !is_op(p, ",")) return first;
    kids list = {0};
    add_kid(p, &list, first);
    while (skip_op(p, ",")) {
        if (in_parentheses ? is_op(p, ")") : is_word(p, "in") || is_op(p, "=")) break;
        add_kid(p, &list, parse_target(p));
    }
    node *n = new_node(p, N_TUPLE, at);
    if (!n || p->status != CDZ_OK) return NULL;
    set_kids(n, &list);
    return n;
}

/* --- statements --------------------------------------------------------------------------------------------- */

static node *parse_if(parser *p, const token *tag)
{
    static const char *const after_if[] = {"elif", "else", "endif", NULL};
    node *head = NULL, *last = NULL;
    for (;;) {
        node *n = new_node(p, N_IF, p->at);
        if (!n) return NULL;
        n->a = parse_tuple(p, false, NULL);
        if (!end_tag(p) || !(n->b = parse_body(p, tag, after_if))) return NULL;
        if (last) last->c = n;
        if (!head) head = n;
        last = n;
        if (!skip_word(p, "elif")) break;
    }
    if (skip_word(p, "else")) {
        if (!end_tag(p)) return NULL;
        last->c = parse_body_to(p, tag, "endif");
    } else {
        next(p);
    }
    return p->status == CDZ_OK ? head : NULL;
}

static bool names_loop(const parser *p, const node *target)
{
    if (target->kind == N_NAME) return strcmp(p->tpl->symbols[target->sym], "loop") == 0;
    for (uint32_t i = 0; i < target->n; i++)
        if (names_loop(p, target->kids[i])) return true;
    return false;
}

static node *parse_for(parser *p, const token *tag)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    node *n = new_node(p, N_FOR, tag);
    kids parts = {0};
    node *target = parse_targets(p, false);
    if (!n || !target) return NULL;
    if (target->kind == N_NS_TARGET)
        return parse_fail(p, tag, "a loop variable cannot be an attribute");
    if (names_loop(p, target)) return parse_fail(p, tag, "cannot assign to 'loop' in a for");
    if (!skip_word(p, "in"))
        return parse_fail(p, p->at, "expected 'in', found %s", describe(p->at));
    n->a = parse_tuple(p, false, "recursive");
    if (skip_word(p, "if")) n->c = parse_expression(p, true);
    n->flag = skip_word(p, "recursive");
    n->sym = symbol(p, &(token){.text = "loop"});
    add_kid(p, &parts, target);
    p->loops++;
    if (end_tag(p)) n->b = parse_body(p, tag, ends);
    p->loops--;
    if (skip_word(p, "else")) {
        if (end_tag(p)) add_kid(p, &parts, parse_body_to(p, tag, "endfor"));
    } else {
        next(p);
    }
    set_kids(n, &parts);
    return p->status == CDZ_OK ? n : NULL;
}

static node *parse_set(parser *p, const token *tag)
{
    node *n = new_node(p, N_SET, tag);
    kids parts = {0};
    node *target = parse_targets(p, false);
    if (!n || !target) return NULL;
    add_kid(p, &parts, target);
    set_kids(n, &parts);
    if (skip_op(p, "=")) {
        n->a = parse_tuple(p, true, NULL);
        return end_tag(p) ? n : NULL;
    }
    n->kind = N_SET_BLOCK;
    if (skip_op(p, "|")) n->a = parse_filters(p, NULL);
    if (!end_tag(p)) return NULL;
    n->b = parse_body_to(p, tag, "endset");
    return end_tag(p) ? n : NULL;
}

/* (a, b=2): names into kids, defaults into c's kids, of the last of them. */
static bool parse_signature(parser *p, node *def)
{
    kids names = {0}, defaults = {0};
    if (!expect_op(p, "(")) return false;
    while (p->status == CDZ_OK && !is_op(p, ")")) {
        if (names.n && !expect_op(p, ",")) break;
        const token *at = p->at;
        node *name = parse_target(p);
        if (!name) break;
        if (name->kind != N_NAME) parse_fail(p, at, "expected a name, found %s", at->text);
        add_kid(p, &names, name);
        if (skip_op(p, "="))
            add_kid(p, &defaults, parse_expression(p, true));
        else if (defaults.n)
            parse_fail(p, at, "'%s' needs a default: one before it has one", at->text);
    }
    node *list = new_node(p, N_LIST, p->at);
    if (!expect_op(p, ")") || !list) return false;
    set_kids(list, &defaults);
    set_kids(def, &names);
    def->c = list;
    return true;
}

static bool parse_macro_body(parser *p, node *def, const token *tag, const char *end)
{
    node *outer = p->macro;
    const uint32_t loops = p->loops;
    p->macro = def;
    p->loops = 0;
    if (end_tag(p)) def->b = parse_body_to(p, tag, end);
    p->macro = outer;
    p->loops = loops;
    return def->b && end_tag(p);
}

static node *parse_macro(parser *p, const token *tag)
{
    node *n = new_node(p, N_MACRO, tag);
    const token *name = expect_name(p);
    if (!n || !name) return NULL;
    n->sym = symbol(p, name);
    n->text = name->text;
    return parse_signature(p, n) && parse_macro_body(p, n, tag, "endmacro") ? n : NULL;
}

static node *parse_call_block(parser *p, const token *tag)
{
    node *n = new_node(p, N_CALL_BLOCK, tag), *body = new_node(p, N_MACRO, tag);
    if (!n || !body) return NULL;
    body->text = "caller";
    if (is_op(p, "(")) {
        if (!parse_signature(p, body)) return NULL;
    } else {
        body->c = new_node(p, N_LIST, tag);
    }
    const token *at = p->at;
    n->a = parse_unary(p, true);
    if (n->a && n->a->kind != N_CALL) return parse_fail(p, at, "expected a call");
    n->b = body;
    return parse_macro_body(p, body, tag, "endcall") ? n : NULL;
}

static node *parse_filter_block(parser *p, const token *tag)
{
    node *n = new_node(p, N_FILTER_BLOCK, tag);
    if (!n) return NULL;
    n->a = parse_filters(p, NULL);
    if (end_tag(p)) n->b = parse_body_to(p, tag, "endfilter");
    return end_tag(p) ? n : NULL;
}

static node *parse_with(parser *p, const token *tag)
{
    node *n = new_node(p, N_WITH, tag);
    kids parts = {0};
    while (p->status == CDZ_OK && p->at->kind != T_BLOCK_END) {
        if (parts.n && !expect_op(p, ",")) break;
        add_kid(p, &parts, parse_target(p));
        if (!expect_op(p, "=")) break;
        add_kid(p, &parts, parse_expression(p, true));
    }
    if (!n || !end_tag(p)) return NULL;
    set_kids(n, &parts);
    n->b = parse_body_to(p, tag, "endwith");
    return end_tag(p) ? n : NULL;
}

/* {% block name scoped required %}: with nothing to extend, a scope that sees the top level. */
static node *parse_block(parser *p, const token *tag)
{
    node *n = new_node(p, N_SCOPE, tag);
    if (!n || !expect_name(p)) return NULL;
    n->flag = !skip_word(p, "scoped");
    skip_word(p, "required");
    const uint32_t loops = p->loops;
    p->loops = 0;
    if (end_tag(p)) n->b = parse_body_to(p, tag, "endblock");
    p->loops = loops;
    if (p->at->kind == T_NAME) next(p);
    return end_tag(p) ? n : NULL;
}

static node *parse_generation(parser *p, const token *tag)
{
    node *n = new_node(p, N_GENERATION, tag);
    if (n && end_tag(p)) n->b = parse_body_to(p, tag, "endgeneration");
    return end_tag(p) ? n : NULL;
}

static node *parse_autoescape(parser *p, const token *tag)
{
    node *n = new_node(p, N_AUTOESCAPE, tag);
    if (!n) return NULL;
    n->a = parse_expression(p, true);
    if (end_tag(p)) n->b = parse_body_to(p, tag, "endautoescape");
    return end_tag(p) ? n : NULL;
}

static node *parse_leave(parser *p, const token *tag)
{
    const bool is_break = strcmp(tag->text, "break") == 0;
    node *n = new_node(p, is_break ? N_BREAK : N_CONTINUE, tag);
    if (!p->loops) return parse_fail(p, tag, "'%s' outside a loop", tag->text);
    return end_tag(p) ? n : NULL;
}

static node *parse_print(parser *p, const token *tag)
{
    node *n = new_node(p, N_PRINT, tag);
    if (n) n->a = parse_tuple(p, true, NULL);
    return end_tag(p) ? n : NULL;
}

/* The reference sets no loader, so these fail when run, not here. */
static node *parse_no_loader(parser *p, const token *tag)
{
    node *n = new_node(p, N_NO_LOADER, tag);
    if (!n) return NULL;
    n->text = tag->text;
    while (p->at->kind != T_BLOCK_END && p->at->kind != T_END) next(p);
    return end_tag(p) ? n : NULL;
}

static node *parse_statement(parser *p, const token *tag)
{
    static const struct {
        const char *word;
        node *(*parse)(parser *, const token *);
        bool has_end; /* what comes back stands behind the last word, before "%}" */
    } tags[] = {
        {"if", parse_if, true},
        {"for", parse_for, true},
        {"set", parse_set, false},
        {"macro", parse_macro, false},
        {"call", parse_call_block, false},
        {"filter", parse_filter_block, false},
        {"with", parse_with, false},
        {"block", parse_block, false},
        {"generation", parse_generation, false},
        {"autoescape", parse_autoescape, false},
        {"break", parse_leave, false},
        {"continue", parse_leave, false},
        {"print", parse_print, false},
        {"include", parse_no_loader, false},
        {"import", parse_no_loader, false},
        {"from", parse_no_loader, false},
        {"extends", parse_no_loader, false},
    };
    if (tag->kind != T_NAME)
        return parse_fail(p, tag, "expected the name of a tag, found %s", describe(tag));
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (strcmp(tag->text, tags[i].word) != 0) continue;
        next(p);
        node *n = tags[i].parse(p, tag);
        if (n && tags[i].has_end && !end_tag(p)) return NULL;
        return n;
    }
    return parse_fail(p, tag, "unknown tag '%s'", tag->text);
}

/* --- filters and tests that do not exist ------------------------------------------------------------------- */

/* They fail now, except in what may never be reached (soft): then when reached. A scope inside
 * is not soft any more, as in the reference. */
static void check_names(parser *p, const node *n, bool soft)
{
    if (!n || p->status != CDZ_OK) return;
    const bool names_row = n->kind == N_FILTER || n->kind == N_TEST;
    if (names_row && !n->row && !soft) {
        p->status = cdz_err(p->err, CDZ_E_INPUT, "%s:%u:%u: no %s named '%s'", p->tpl->name,
                            n->line, n->column, n->kind == N_TEST ? "test" : "filter", n->text);
        return;
    }
    if (n->kind == N_IF || n->kind == N_COND) soft = true;
    const bool opens = n->kind == N_FOR || n->kind == N_MACRO || n->kind == N_WITH ||
                       n->kind == N_SET_BLOCK || n->kind == N_FILTER_BLOCK ||
                       n->kind == N_CALL_BLOCK || n->kind == N_GENERATION;
    check_names(p, n->a, soft && !opens);
    check_names(p, n->b, soft && !opens);
    for (uint32_t i = 0; i < n->n; i++) check_names(p, n->kids[i], soft && !opens);
    while (n->kind == N_IF && n->c && n->c->kind == N_IF) { /* elif chains may be long */
        n = n->c;
        check_names(p, n->a, soft);
        check_names(p, n->b, soft);
    }
    check_names(p, n->c, soft && !opens);
}

/* --- compiling --------------------------------------------------------------------------------------------- */

static cdz_status parse_template(cdz_template *tpl, const char *text, size_t len, cdz_error *err)
{
    token_list list = {0};
    CDZ_TRY(cdz_template_lex(text, len, tpl->name, &tpl->arena, &list, err));
    parser p = {.tpl = tpl, .at = list.at, .err = err};
    tpl->root = parse_body(&p, list.at, NULL);
    check_names(&p, tpl->root, false);
    return p.status;
}

/* Short pieces of text become nodes: what they may take is bounded by the text's length. */
static cdz_status compile(cdz_template *tpl, const char *text, size_t len, cdz_error *err)
{
    tpl->arena.limit = 4 * len + COMPILED_BYTES;
    cdz_status status = parse_template(tpl, text, len, err);
    if (status == CDZ_E_NOMEM && tpl->arena.used > COMPILED_BYTES / 2)
        status = cdz_err(err, CDZ_E_LIMIT,
                         "%s: compiled, the template needs more than the %zu bytes it may have in "
                         "memory",
                         tpl->name, tpl->arena.limit);
    tpl->arena.limit = 0;
    return status;
}

cdz_status cdz_template_compile(const char *text, size_t len, const char *name, cdz_template **out,
                                cdz_error *err)
{
    *out = NULL;
    if (len > SOURCE_BYTES)
        return cdz_err(err, CDZ_E_LIMIT, "%s: the template has %zu bytes, at most %d are read",
                       name, len, SOURCE_BYTES);
    const size_t valid = cdz_utf8_valid_prefix(text, len);
    if (valid != len) return cdz_err(err, CDZ_E_INPUT, "%s: byte %zu is not UTF-8", name, valid);
    cdz_template *tpl = calloc(1, sizeof *tpl);
    char *copy = strdup(name);
    cdz_status status = CDZ_E_NOMEM;
    if (tpl && copy) {
        tpl->name = copy;
        status = compile(tpl, text, len, err);
    } else {
        cdz_err(err, status, "%s: out of memory", name);
        free(copy);
    }
    if (status == CDZ_OK)
        *out = tpl;
    else
        cdz_template_free(tpl);
    return status;
}

void cdz_template_free(cdz_template *tpl)
{
    if (!tpl) return;
    free(tpl->name);
    cdz_arena_free(&tpl->arena);
    free(tpl);
}
