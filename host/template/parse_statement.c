/* parse_statement.c - blocks and the statements in tags, after jinja2/parser.py. */
#include <stdio.h>
#include <string.h>

#include "template/parse.h"

static bool end_tag(parser *p)
{
    if (p->status != CDZ_OK) return false;
    if (p->at->kind != T_BLOCK_END) {
        tpl_parse_fail(p, p->at, "expected '%%}', found %s", tpl_describe(p->at));
        return false;
    }
    tpl_next(p);
    return true;
}

/* --- blocks --------------------------------------------------------------------------------------------- */

static node *parse_statement(parser *p, const token *tag);

static bool is_one_of(const parser *p, const char *const *words)
{
    for (; words && *words; words++)
        if (tpl_is_word(p, *words)) return true;
    return false;
}

static void missing_end(parser *p, const token *tag, const char *const *ends)
{
    char list[128] = "";
    size_t n = 0;
    for (; *ends && n < sizeof list; ends++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? " or " : "", *ends);
    tpl_parse_fail(p, tag, "'%s' has no end: expected %s before the end of the template", tag->text,
                   list);
}

node *tpl_parse_body(parser *p, const token *tag, const char *const *ends)
{
    node *block = tpl_new_node(p, N_BLOCK, p->at);
    kids list = {0};
    if (!block || !tpl_enter(p)) return NULL;
    while (p->status == CDZ_OK && p->at->kind != T_END) {
        const token *t = p->at;
        node *n = NULL;
        tpl_next(p);
        if (t->kind == T_TEXT) {
            n = tpl_new_node(p, N_TEXT, t);
            if (n) n->text = t->text, n->n_text = t->len;
        } else if (t->kind == T_PRINT_BEGIN) {
            n = tpl_new_node(p, N_PRINT, t);
            const node *e = tpl_parse_tuple(p, true, NULL);
            if (n) n->a = e;
            if (p->status == CDZ_OK && p->at->kind != T_PRINT_END)
                tpl_parse_fail(p, p->at, "expected '}}', found %s", tpl_describe(p->at));
            tpl_next(p);
        } else {
            if (is_one_of(p, ends)) break;
            n = parse_statement(p, p->at);
        }
        tpl_add_kid(p, &list, n);
    }
    p->depth--;
    if (p->status == CDZ_OK && ends && p->at->kind == T_END) missing_end(p, tag, ends);
    tpl_set_kids(block, &list);
    return p->status == CDZ_OK ? block : NULL;
}

/* The same, past the end tag too, which is one word. */
static node *parse_body_to(parser *p, const token *tag, const char *end)
{
    const char *const ends[] = {end, NULL};
    node *body = tpl_parse_body(p, tag, ends);
    if (!body) return NULL;
    tpl_next(p);
    return body;
}

/* --- targets ----------------------------------------------------------------------------------------------- */

static node *parse_targets(parser *p, bool in_parentheses);

static node *parse_target(parser *p)
{
    if (tpl_skip_op(p, "(")) {
        node *n = tpl_enter(p) ? parse_targets(p, true) : NULL;
        p->depth--;
        return tpl_expect_op(p, ")") ? n : NULL;
    }
    const token *name = p->at;
    if (name->kind != T_NAME)
        return tpl_parse_fail(p, name, "expected a name, found %s", tpl_describe(name));
    static const char *const constants[] = {"true", "false", "none", "True", "False", "None", NULL};
    if (is_one_of(p, constants))
        return tpl_parse_fail(p, name, "cannot assign to '%s'", name->text);
    tpl_next(p);
    node *n = tpl_new_node(p, N_NAME, name);
    if (!n) return NULL;
    n->sym = tpl_symbol(p, name);
    n->text = name->text;
    if (!tpl_skip_op(p, ".")) return n;
    const token *attribute = tpl_expect_name(p);
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
    if (!first || !tpl_is_op(p, ",")) return first;
    kids list = {0};
    tpl_add_kid(p, &list, first);
    while (tpl_skip_op(p, ",")) {
        if (in_parentheses ? tpl_is_op(p, ")") : tpl_is_word(p, "in") || tpl_is_op(p, "=")) break;
        tpl_add_kid(p, &list, parse_target(p));
    }
    node *n = tpl_new_node(p, N_TUPLE, at);
    if (!n || p->status != CDZ_OK) return NULL;
    tpl_set_kids(n, &list);
    return n;
}

/* --- statements --------------------------------------------------------------------------------------------- */

static node *parse_if(parser *p, const token *tag)
{
    static const char *const after_if[] = {"elif", "else", "endif", NULL};
    node *head = NULL, *last = NULL;
    for (;;) {
        node *n = tpl_new_node(p, N_IF, p->at);
        if (!n) return NULL;
        n->a = tpl_parse_tuple(p, false, NULL);
        if (!end_tag(p) || !(n->b = tpl_parse_body(p, tag, after_if))) return NULL;
        if (last) last->c = n;
        if (!head) head = n;
        last = n;
        if (!tpl_skip_word(p, "elif")) break;
    }
    if (tpl_skip_word(p, "else")) {
        if (!end_tag(p)) return NULL;
        last->c = parse_body_to(p, tag, "endif");
    } else {
        tpl_next(p);
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
    node *n = tpl_new_node(p, N_FOR, tag);
    kids parts = {0};
    node *target = parse_targets(p, false);
    if (!n || !target) return NULL;
    if (target->kind == N_NS_TARGET)
        return tpl_parse_fail(p, tag, "a loop variable cannot be an attribute");
    if (names_loop(p, target)) return tpl_parse_fail(p, tag, "cannot assign to 'loop' in a for");
    if (!tpl_skip_word(p, "in"))
        return tpl_parse_fail(p, p->at, "expected 'in', found %s", tpl_describe(p->at));
    n->a = tpl_parse_tuple(p, false, "recursive");
    if (tpl_skip_word(p, "if")) n->c = tpl_parse_expression(p, true);
    n->flag = tpl_skip_word(p, "recursive");
    n->sym = tpl_symbol(p, &(token){.text = "loop"});
    tpl_add_kid(p, &parts, target);
    p->loops++;
    if (end_tag(p)) n->b = tpl_parse_body(p, tag, ends);
    p->loops--;
    if (tpl_skip_word(p, "else")) {
        if (end_tag(p)) tpl_add_kid(p, &parts, parse_body_to(p, tag, "endfor"));
    } else {
        tpl_next(p);
    }
    tpl_set_kids(n, &parts);
    return p->status == CDZ_OK ? n : NULL;
}

static node *parse_set(parser *p, const token *tag)
{
    node *n = tpl_new_node(p, N_SET, tag);
    kids parts = {0};
    node *target = parse_targets(p, false);
    if (!n || !target) return NULL;
    tpl_add_kid(p, &parts, target);
    tpl_set_kids(n, &parts);
    if (tpl_skip_op(p, "=")) {
        n->a = tpl_parse_tuple(p, true, NULL);
        return end_tag(p) ? n : NULL;
    }
    n->kind = N_SET_BLOCK;
    if (tpl_skip_op(p, "|")) n->a = tpl_parse_filters(p, NULL);
    if (!end_tag(p)) return NULL;
    n->b = parse_body_to(p, tag, "endset");
    return end_tag(p) ? n : NULL;
}

/* (a, b=2): names into kids, defaults into c's kids, of the last of them. */
static bool parse_signature(parser *p, node *def)
{
    kids names = {0}, defaults = {0};
    if (!tpl_expect_op(p, "(")) return false;
    while (p->status == CDZ_OK && !tpl_is_op(p, ")")) {
        if (names.n && !tpl_expect_op(p, ",")) break;
        const token *at = p->at;
        node *name = parse_target(p);
        if (!name) break;
        if (name->kind != N_NAME) tpl_parse_fail(p, at, "expected a name, found %s", at->text);
        tpl_add_kid(p, &names, name);
        if (tpl_skip_op(p, "="))
            tpl_add_kid(p, &defaults, tpl_parse_expression(p, true));
        else if (defaults.n)
            tpl_parse_fail(p, at, "'%s' needs a default: one before it has one", at->text);
    }
    node *list = tpl_new_node(p, N_LIST, p->at);
    if (!tpl_expect_op(p, ")") || !list) return false;
    tpl_set_kids(list, &defaults);
    tpl_set_kids(def, &names);
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
    node *n = tpl_new_node(p, N_MACRO, tag);
    const token *name = tpl_expect_name(p);
    if (!n || !name) return NULL;
    n->sym = tpl_symbol(p, name);
    n->text = name->text;
    return parse_signature(p, n) && parse_macro_body(p, n, tag, "endmacro") ? n : NULL;
}

static node *parse_call_block(parser *p, const token *tag)
{
    node *n = tpl_new_node(p, N_CALL_BLOCK, tag), *body = tpl_new_node(p, N_MACRO, tag);
    if (!n || !body) return NULL;
    body->text = "caller";
    if (tpl_is_op(p, "(")) {
        if (!parse_signature(p, body)) return NULL;
    } else {
        body->c = tpl_new_node(p, N_LIST, tag);
    }
    const token *at = p->at;
    n->a = tpl_parse_unary(p, true);
    if (n->a && n->a->kind != N_CALL) return tpl_parse_fail(p, at, "expected a call");
    n->b = body;
    return parse_macro_body(p, body, tag, "endcall") ? n : NULL;
}

static node *parse_filter_block(parser *p, const token *tag)
{
    node *n = tpl_new_node(p, N_FILTER_BLOCK, tag);
    if (!n) return NULL;
    n->a = tpl_parse_filters(p, NULL);
    if (end_tag(p)) n->b = parse_body_to(p, tag, "endfilter");
    return end_tag(p) ? n : NULL;
}

static node *parse_with(parser *p, const token *tag)
{
    node *n = tpl_new_node(p, N_WITH, tag);
    kids parts = {0};
    while (p->status == CDZ_OK && p->at->kind != T_BLOCK_END) {
        if (parts.n && !tpl_expect_op(p, ",")) break;
        tpl_add_kid(p, &parts, parse_target(p));
        if (!tpl_expect_op(p, "=")) break;
        tpl_add_kid(p, &parts, tpl_parse_expression(p, true));
    }
    if (!n || !end_tag(p)) return NULL;
    tpl_set_kids(n, &parts);
    n->b = parse_body_to(p, tag, "endwith");
    return end_tag(p) ? n : NULL;
}

/* {% block name scoped required %}: with nothing to extend, a scope that sees the top level. */
static node *parse_block(parser *p, const token *tag)
{
    node *n = tpl_new_node(p, N_SCOPE, tag);
    if (!n || !tpl_expect_name(p)) return NULL;
    n->flag = !tpl_skip_word(p, "scoped");
    tpl_skip_word(p, "required");
    const uint32_t loops = p->loops;
    p->loops = 0;
    if (end_tag(p)) n->b = parse_body_to(p, tag, "endblock");
    p->loops = loops;
    if (p->at->kind == T_NAME) tpl_next(p);
    return end_tag(p) ? n : NULL;
}

static node *parse_generation(parser *p, const token *tag)
{
    node *n = tpl_new_node(p, N_GENERATION, tag);
    if (n && end_tag(p)) n->b = parse_body_to(p, tag, "endgeneration");
    return end_tag(p) ? n : NULL;
}

static node *parse_autoescape(parser *p, const token *tag)
{
    node *n = tpl_new_node(p, N_AUTOESCAPE, tag);
    if (!n) return NULL;
    n->a = tpl_parse_expression(p, true);
    if (end_tag(p)) n->b = parse_body_to(p, tag, "endautoescape");
    return end_tag(p) ? n : NULL;
}

static node *parse_leave(parser *p, const token *tag)
{
    const bool is_break = strcmp(tag->text, "break") == 0;
    node *n = tpl_new_node(p, is_break ? N_BREAK : N_CONTINUE, tag);
    if (!p->loops) return tpl_parse_fail(p, tag, "'%s' outside a loop", tag->text);
    return end_tag(p) ? n : NULL;
}

static node *parse_print(parser *p, const token *tag)
{
    node *n = tpl_new_node(p, N_PRINT, tag);
    if (n) n->a = tpl_parse_tuple(p, true, NULL);
    return end_tag(p) ? n : NULL;
}

/* The reference sets no loader, so these fail when run, not here. */
static node *parse_no_loader(parser *p, const token *tag)
{
    node *n = tpl_new_node(p, N_NO_LOADER, tag);
    if (!n) return NULL;
    n->text = tag->text;
    while (p->at->kind != T_BLOCK_END && p->at->kind != T_END) tpl_next(p);
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
        return tpl_parse_fail(p, tag, "expected the name of a tag, found %s", tpl_describe(tag));
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (strcmp(tag->text, tags[i].word) != 0) continue;
        tpl_next(p);
        node *n = tags[i].parse(p, tag);
        if (n && tags[i].has_end && !end_tag(p)) return NULL;
        return n;
    }
    return tpl_parse_fail(p, tag, "unknown tag '%s'", tag->text);
}
