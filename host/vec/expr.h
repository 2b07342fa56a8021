/* expr.h - an elementwise formula over score rows: read once from text, run in blocks, every operation rounding on its
 * own, so that a formula gives the bits of the single operations that spell it (docs/lua.md, "Formulas").
 *
 *   formula  = or [ "?" formula ":" formula ]
 *   or       = and { ("or" | "||") and }           and = compare { ("and" | "&&") compare }
 *   compare  = sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=" | "~=") sum ]
 *   sum      = product { ("+" | "-") product }     product = sign { ("*" | "/") sign }
 *   sign     = ("-" | "+" | "not" | "!") sign | power
 *   power    = atom [ "^" sign ]
 *   atom     = number | name | function "(" formula { "," formula } ")" | "(" formula ")"
 *
 * x is the element; other names are arguments, each one number or one value per element. inf and nan are numbers.
 * A comparison is 1 or 0; what is not 0 (NaN too) holds. */
#ifndef CDZ_HOST_VEC_EXPR_H
#define CDZ_HOST_VEC_EXPR_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    CDZ_EXPR_BLOCK = 512, /* elements at a time; a multiple of the lanes */
    CDZ_EXPR_TEXT = 4096, /* bytes of a formula */
    CDZ_EXPR_STEPS = 128,
    CDZ_EXPR_NUMBERS = 64,
    CDZ_EXPR_NAMES = 16,
    CDZ_EXPR_NAME = 32, /* bytes of a name, NUL included */
    CDZ_EXPR_DEPTH = 64
};

typedef enum cdz_expr_op {
    CDZ_EXPR_COPY,
    CDZ_EXPR_NEG,
    CDZ_EXPR_NOT,
    CDZ_EXPR_ABS,
    CDZ_EXPR_SQRT,
    CDZ_EXPR_FLOOR,
    CDZ_EXPR_EXP,
    CDZ_EXPR_LOG,
    CDZ_EXPR_ADD,
    CDZ_EXPR_SUB,
    CDZ_EXPR_MUL,
    CDZ_EXPR_DIV,
    CDZ_EXPR_POW,
    CDZ_EXPR_MIN,
    CDZ_EXPR_MAX,
    CDZ_EXPR_LESS,
    CDZ_EXPR_LESS_EQUAL,
    CDZ_EXPR_EQUAL,
    CDZ_EXPR_NOT_EQUAL,
    CDZ_EXPR_AND,
    CDZ_EXPR_OR,
    CDZ_EXPR_CLAMP,  /* (v, low, high) */
    CDZ_EXPR_SELECT, /* (c, yes, no) */
    CDZ_EXPR_N_OPS
} cdz_expr_op;

typedef enum cdz_expr_from {
    CDZ_EXPR_X,
    CDZ_EXPR_ARG,    /* at: which name */
    CDZ_EXPR_NUMBER, /* at: which number */
    CDZ_EXPR_STEP    /* at: an earlier step, each used once */
} cdz_expr_from;

typedef struct cdz_expr_operand {
    uint8_t from, at;
} cdz_expr_operand;

typedef struct cdz_expr_step {
    uint8_t op;
    cdz_expr_operand operand[3];
} cdz_expr_step;

/* Plain data: may be copied and moved. The last step gives the result. */
typedef struct cdz_expr {
    uint32_t n_steps, n_numbers, n_names;
    uint32_t cost; /* of an element, in elements of an addition */
    cdz_expr_step steps[CDZ_EXPR_STEPS];
    float numbers[CDZ_EXPR_NUMBERS];
    char names[CDZ_EXPR_NAMES][CDZ_EXPR_NAME];
} cdz_expr;

/* The name of an argument, before the text is read: CDZ_E_USAGE when it cannot be one. */
cdz_status cdz_expr_add_name(cdz_expr *e, const char *name, cdz_error *err);
/* e: zeroed but for its names. Sentences say the column, from 1. */
cdz_status cdz_expr_read(cdz_expr *e, const char *text, size_t len, cdz_error *err);

/* One argument: values, one per element of x, or NULL and one number for all. */
typedef struct cdz_expr_arg {
    const float *values;
    float number;
} cdz_expr_arg;

/* Bytes of scratch that a run needs, whatever its length. */
size_t cdz_expr_scratch(const cdz_expr *e);

/* x[0, n) = formula of x, in place. args: n_names of them. scratch: 64-byte aligned. No allocation. [any] */
void cdz_expr_run(const cdz_expr *e, const cdz_expr_arg *args, float *x, size_t n, void *scratch);
/* The same by instruction set, as in vec.h: "scalar", "avx2"; NULL when this machine has no such. */
typedef void (*cdz_expr_runner)(const cdz_expr *e, const cdz_expr_arg *args, float *x, size_t n,
                                void *scratch);
cdz_expr_runner cdz_expr_runner_of(const char *variant);

#endif
