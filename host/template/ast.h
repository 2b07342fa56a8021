/* ast.h - a template as a tree. Inside template/ only: the parser builds it, the evaluator walks it. */
#ifndef CDZ_HOST_TEMPLATE_AST_H
#define CDZ_HOST_TEMPLATE_AST_H

#include "template/template.h"
#include "template/value.h"

typedef enum node_kind {
    /* expressions; what a, b, c, kids hold is in brackets */
    N_CONST,   /* [constant] */
    N_NAME,    /* [sym] */
    N_LIST,    /* [kids] */
    N_TUPLE,   /* [kids] */
    N_DICT,    /* [kids: key, value, key, value...] */
    N_COND,    /* a if b else c; c may be NULL */
    N_OR,      /* [a, b] */
    N_AND,     /* [a, b] */
    N_NOT,     /* [a] */
    N_CHAIN,   /* a kids[0] kids[1]..., each kid an N_LINK */
    N_LINK,    /* op and its right side [a] of a comparison */
    N_BINARY,  /* a op b */
    N_CONCAT,  /* [kids] joined by ~ */
    N_NEG,     /* [a] */
    N_POS,     /* [a] */
    N_ATTR,    /* a.text */
    N_ITEM,    /* a[b] */
    N_SLICE,   /* a:b:c, each may be NULL */
    N_CALL,    /* a(kids) */
    N_FILTER,  /* a | text(kids); a is NULL where a block is filtered */
    N_TEST,    /* a is text(kids); flag: negated */
    N_KEYWORD, /* text = a, among the kids of a call */
    N_STAR,    /* *a */
    N_STARS,   /* **a */
    /* statements */
    N_TEXT,         /* [text] */
    N_PRINT,        /* {{ a }} */
    N_BLOCK,        /* kids in order */
    N_IF,           /* if a: b else c */
    N_FOR,          /* for target(kids[0]) in a if c: b else kids[1]; flag: recursive */
    N_SET,          /* target(kids[0]) = a */
    N_SET_BLOCK,    /* target(kids[0]) = b through the filter chain a, which may be NULL */
    N_NS_TARGET,    /* sym.text as a target */
    N_MACRO,        /* sym(kids: names) with defaults from c's kids; body b */
    N_CALL_BLOCK,   /* call a with the macro b */
    N_FILTER_BLOCK, /* b through a */
    N_WITH,         /* kids: target, value, target, value...; body b */
    N_SCOPE,        /* b in a scope of its own; flag: sees the top level only */
    N_GENERATION,   /* b, marked */
    N_AUTOESCAPE,   /* b with escaping as a says */
    N_NO_LOADER,    /* include, import, extends: fails when run */
    N_BREAK,
    N_CONTINUE,
} node_kind;

typedef enum node_op {
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_FLOORDIV,
    OP_MOD,
    OP_POW,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOT_IN,
} node_op;

struct node {
    uint8_t kind; /* node_kind */
    uint8_t op;   /* node_op */
    bool flag;
    bool uses_caller, uses_varargs, uses_kwargs; /* of a macro */
    uint16_t depth;                              /* nodes below, the longest way */
    uint32_t line, column;
    uint32_t sym;
    uint32_t n, n_text; /* kids; bytes of text */
    const node *a, *b, *c;
    const node **kids;
    const char *text;       /* NUL-terminated */
    const builtin_row *row; /* the filter or test; NULL: there is none of that name */
    value constant;
};

struct cdz_template {
    cdz_arena arena;
    char *name;
    const node *root;
    const char **symbols; /* names of variables; node.sym points into it */
    uint32_t n_symbols;
};

enum {
    PARSE_DEPTH = 100, /* brackets and blocks inside each other */
    NODE_DEPTH = 1000, /* links of one expression: what the evaluator recurses into */
    SOURCE_BYTES = 1 << 20,
    COMPILED_BYTES = 56 << 20, /* and 4 times the source's length */
};

#endif
