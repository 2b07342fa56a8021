/* parse.h - what the parts of the parser share: tools (parse.c), statements
 * (parse_statement.c), expressions (parse_expr.c). Inside template/ only. */
#ifndef CDZ_HOST_TEMPLATE_PARSE_H
#define CDZ_HOST_TEMPLATE_PARSE_H

#include "template/ast.h"
#include "template/lex.h"

typedef struct parser {
    cdz_template *tpl;
    const token *at; /* never past T_END */
    cdz_error *err;
    cdz_status status; /* the first failure; after it every token is the end */
    uint32_t depth;
    uint32_t loops; /* loops around, up to the nearest macro */
    uint32_t symbols_cap;
    uint32_t *places, n_places; /* by hash of the name: the symbol's number plus 1 */
    node *macro; /* the innermost one, which notes that caller, varargs, kwargs are named */
} parser;

/* A list of kids that grows. */
typedef struct kids {
    const node **at;
    uint32_t n, cap;
} kids;

/* All of these return NULL (or false) after a failure, which is in p->status. */
node *tpl_parse_fail(parser *p, const token *at, const char *fmt, ...) CDZ_PRINTF(3, 4);
node *tpl_new_node(parser *p, node_kind kind, const token *at);
/* Counts the links below a node that has all its children; fails past the limit. */
node *tpl_seal(parser *p, node *n);
void tpl_add_kid(parser *p, kids *list, const node *kid);
void tpl_set_kids(node *n, const kids *list);
uint32_t tpl_symbol(parser *p, const token *name);
void tpl_next(parser *p);
bool tpl_is_op(const parser *p, const char *op);
bool tpl_is_word(const parser *p, const char *word);
bool tpl_skip_op(parser *p, const char *op);
bool tpl_skip_word(parser *p, const char *word);
bool tpl_expect_op(parser *p, const char *op);
const token *tpl_expect_name(parser *p);
const char *tpl_describe(const token *t);
bool tpl_enter(parser *p); /* one level deeper; p->depth-- leaves it */

/* Everything up to {% and one of ends, on which the reader then stands (ends NULL: to the end of
 * the template). tag: what was opened. */
node *tpl_parse_body(parser *p, const token *tag, const char *const *ends);

node *tpl_parse_expression(parser *p, bool with_condition);
/* Expressions with commas are a tuple. stop: a word that ends it, or NULL. */
node *tpl_parse_tuple(parser *p, bool with_condition, const char *stop);
node *tpl_parse_postfix(parser *p, node *n);
node *tpl_parse_unary(parser *p, bool with_filter);
/* name(args)|name...; input NULL in front. The reader stands on the first name. */
node *tpl_parse_filters(parser *p, node *input);
bool tpl_parse_call_args(parser *p, node *call);

#endif
