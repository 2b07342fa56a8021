/* parse.c - a template from text to its tree, and the parser's small tools. */
#include "template/parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

/* --- tools ------------------------------------------------------------------------------------------- */

node *tpl_parse_fail(parser *p, const token *at, const char *fmt, ...)
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
    tpl_parse_fail(p, p->at, "out of memory");
    p->status = cdz_err_memory_in(p->err, p->tpl->name);
}

node *tpl_new_node(parser *p, node_kind kind, const token *at)
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

node *tpl_seal(parser *p, node *n)
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

void tpl_add_kid(parser *p, kids *list, const node *kid)
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

void tpl_set_kids(node *n, const kids *list)
{
    n->kids = list->at;
    n->n = list->n;
}

/* Where a name is, or would be. */
static uint32_t *place_of(const parser *p, const char *name)
{
    uint32_t at = 2166136261u; /* FNV-1a */
    for (const char *c = name; *c; c++) at = (at ^ (unsigned char)*c) * 16777619u;
    for (;; at++) {
        uint32_t *place = &p->places[at & (p->n_places - 1)];
        if (!*place || strcmp(p->tpl->symbols[*place - 1], name) == 0) return place;
    }
}

/* Half of the places are always free. */
static bool room_for_symbol(parser *p)
{
    if (p->tpl->n_symbols < p->n_places / 2) return true;
    const uint32_t n = p->n_places ? p->n_places * 2 : 64;
    uint32_t *places = cdz_arena_array(&p->tpl->arena, n, sizeof *places);
    if (!places) {
        no_memory(p);
        return false;
    }
    p->places = places;
    p->n_places = n;
    for (uint32_t i = 0; i < p->tpl->n_symbols; i++) *place_of(p, p->tpl->symbols[i]) = i + 1;
    return true;
}

uint32_t tpl_symbol(parser *p, const token *name)
{
    cdz_template *tpl = p->tpl;
    if (!room_for_symbol(p)) return 0;
    uint32_t *place = place_of(p, name->text);
    if (*place) return *place - 1;
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
    *place = ++tpl->n_symbols;
    return tpl->n_symbols - 1;
}

void tpl_next(parser *p)
{
    if (p->at->kind != T_END) p->at++;
}

bool tpl_is_op(const parser *p, const char *op)
{
    return p->at->kind == T_OPERATOR && strcmp(p->at->text, op) == 0;
}

bool tpl_is_word(const parser *p, const char *word)
{
    return p->at->kind == T_NAME && strcmp(p->at->text, word) == 0;
}

bool tpl_skip_op(parser *p, const char *op)
{
    const bool is = tpl_is_op(p, op);
    if (is) tpl_next(p);
    return is;
}

bool tpl_skip_word(parser *p, const char *word)
{
    const bool is = tpl_is_word(p, word);
    if (is) tpl_next(p);
    return is;
}

const char *tpl_describe(const token *t)
{
    switch (t->kind) {
    case T_END: return "the end of the template";
    case T_TEXT: return "text";
    case T_STRING: return "a string";
    default: return t->text;
    }
}

bool tpl_expect_op(parser *p, const char *op)
{
    if (tpl_skip_op(p, op)) return true;
    tpl_parse_fail(p, p->at, "expected '%s', found %s", op, tpl_describe(p->at));
    return false;
}

const token *tpl_expect_name(parser *p)
{
    const token *t = p->at;
    if (t->kind != T_NAME) {
        tpl_parse_fail(p, t, "expected a name, found %s", tpl_describe(t));
        return NULL;
    }
    tpl_next(p);
    return t;
}

bool tpl_enter(parser *p)
{
    if (p->status != CDZ_OK) return false;
    if (++p->depth <= 4 * PARSE_DEPTH) return true; /* a bracket enters up to four times */
    p->status = cdz_err(p->err, CDZ_E_LIMIT, "%s:%u:%u: more than %d levels inside each other",
                        p->tpl->name, p->at->line, p->at->column, PARSE_DEPTH);
    return false;
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
    tpl->root = tpl_parse_body(&p, list.at, NULL);
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
