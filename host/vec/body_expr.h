/* body_expr.h - runs the steps of a formula over a row, a block of CDZ_EXPR_BLOCK elements at a time.
 * A body: compiled once per instruction set; everything is static.
 *
 * Every operand is a block of values when a step runs: of x, of an argument, of a number repeated, of an earlier step.
 * Steps of numbers alone are computed once. Blocks stay in the first-level cache, so a formula costs one pass over
 * memory however many operations it has. */
#ifndef CDZ_HOST_VEC_BODY_EXPR_H
#define CDZ_HOST_VEC_BODY_EXPR_H

#include "vec/body_elementwise.h"
#include "vec/expr.h"

/* Runs `expression` of v, w, u, the lanes of a, b, c, into out[n], n a multiple of the lanes. */
#define CDZ_STEP(expression)                                                                       \
    for (size_t i = 0; i < n; i += LANES) {                                                        \
        const lanes v = l_load(a + i), w = l_load(b + i), u = l_load(c + i);                       \
        (void)v, (void)w, (void)u;                                                                 \
        l_store(out + i, (expression));                                                            \
    }                                                                                              \
    break

static inline lanes l_if_not_zero(lanes c, lanes yes, lanes no)
{
    const lanes zero = l_set(0.0f);
    return l_if_less(c, zero, yes, l_if_less(zero, c, yes, l_if_nan(c, yes, no)));
}

static inline lanes l_truth_of_equal(lanes a, lanes b, lanes yes, lanes no)
{
    return l_if_less(a, b, no, l_if_less(b, a, no, l_if_nan(a, no, l_if_nan(b, no, yes))));
}

static void run_step_of_three(uint8_t op, float *out, const float *a, const float *b,
                              const float *c, size_t n)
{
    if (op == CDZ_EXPR_CLAMP)
        for (size_t i = 0; i < n; i += LANES)
            l_store(out + i, l_min(l_load(c + i), l_max(l_load(b + i), l_load(a + i))));
    else
        for (size_t i = 0; i < n; i += LANES)
            l_store(out + i, l_if_not_zero(l_load(a + i), l_load(b + i), l_load(c + i)));
}

/* The operations of body_elementwise.h, in their order of operands. */
static void run_step(uint8_t op, float *out, const float *a, const float *b, const float *c,
                     size_t n)
{
    const lanes one = l_set(1.0f), zero = l_set(0.0f);

    switch (op) {
    case CDZ_EXPR_COPY: CDZ_STEP(v);
    case CDZ_EXPR_NEG: CDZ_STEP(l_mul(v, l_set(-1.0f)));
    case CDZ_EXPR_NOT: CDZ_STEP(l_if_not_zero(v, zero, one));
    case CDZ_EXPR_ABS: CDZ_STEP(l_abs(v));
    case CDZ_EXPR_EXP: CDZ_STEP(l_exp(v));
    case CDZ_EXPR_ADD: CDZ_STEP(l_add(v, w));
    case CDZ_EXPR_SUB: CDZ_STEP(l_sub(v, w));
    case CDZ_EXPR_MUL: CDZ_STEP(l_mul(v, w));
    case CDZ_EXPR_DIV: CDZ_STEP(l_div(v, w));
    case CDZ_EXPR_MAX: CDZ_STEP(l_max(w, v));
    case CDZ_EXPR_MIN: CDZ_STEP(l_min(w, v));
    case CDZ_EXPR_LESS: CDZ_STEP(l_if_less(v, w, one, zero));
    case CDZ_EXPR_LESS_EQUAL:
        CDZ_STEP(l_if_less(w, v, zero, l_if_nan(v, zero, l_if_nan(w, zero, one))));
    case CDZ_EXPR_EQUAL: CDZ_STEP(l_truth_of_equal(v, w, one, zero));
    case CDZ_EXPR_NOT_EQUAL: CDZ_STEP(l_truth_of_equal(v, w, zero, one));
    case CDZ_EXPR_AND: CDZ_STEP(l_if_not_zero(v, l_if_not_zero(w, one, zero), zero));
    case CDZ_EXPR_OR: CDZ_STEP(l_if_not_zero(v, one, l_if_not_zero(w, one, zero)));
    case CDZ_EXPR_SQRT:
        for (size_t i = 0; i < n; i++) out[i] = sqrtf(a[i]);
        break;
    case CDZ_EXPR_FLOOR:
        for (size_t i = 0; i < n; i++) out[i] = floorf(a[i]);
        break;
    case CDZ_EXPR_LOG:
        for (size_t i = 0; i < n; i++) out[i] = (float)log((double)a[i]);
        break;
    case CDZ_EXPR_POW:
        for (size_t i = 0; i < n; i++) out[i] = (float)pow((double)a[i], (double)b[i]);
        break;
    default: run_step_of_three(op, out, a, b, c, n); break;
    }
}

/* Where each operand's block is. A number's block does not move; the others do with every block of x. */
typedef struct plan {
    const cdz_expr *e;
    const cdz_expr_arg *args;
    float *x_block; /* copies of x and of the arguments where a block is not whole */
    float *arg_blocks[CDZ_EXPR_NAMES]; /* the same; of a number: the number repeated */
    float *number_blocks;              /* n_numbers of them */
    float *step_blocks;                /* n_steps of them */
    bool constant[CDZ_EXPR_STEPS];     /* steps of numbers alone */
    float *result[CDZ_EXPR_STEPS];     /* where a step leaves its block */
} plan;

static bool is_constant(const plan *p, cdz_expr_operand o)
{
    switch (o.from) {
    case CDZ_EXPR_X: return false;
    case CDZ_EXPR_ARG: return !p->args[o.at].values;
    case CDZ_EXPR_NUMBER: return true;
    default: return p->constant[o.at];
    }
}

static unsigned n_operands(uint8_t op)
{
    return op >= CDZ_EXPR_CLAMP ? 3 : op >= CDZ_EXPR_ADD ? 2 : 1;
}

/* The block of operand o when elements [first, first + n) of x are computed; whole: n fills the block. */
static const float *block_of(const plan *p, cdz_expr_operand o, const float *x, size_t first,
                             bool whole)
{
    switch (o.from) {
    case CDZ_EXPR_X: return whole ? x + first : p->x_block;
    case CDZ_EXPR_ARG:
        return whole && p->args[o.at].values ? p->args[o.at].values + first : p->arg_blocks[o.at];
    case CDZ_EXPR_NUMBER: return p->number_blocks + (size_t)o.at * CDZ_EXPR_BLOCK;
    default: return p->result[o.at];
    }
}

/* Steps of numbers alone, and where the others will leave their blocks: in the block of an earlier step that no one
 * needs any more, where there is one. */
static void prepare(plan *p)
{
    const cdz_expr *e = p->e;

    for (size_t s = 0; s < e->n_steps; s++) {
        const cdz_expr_step *step = &e->steps[s];
        const unsigned n = n_operands(step->op);
        p->constant[s] = true;
        p->result[s] = p->step_blocks + s * CDZ_EXPR_BLOCK;
        for (unsigned k = 0; k < n; k++)
            p->constant[s] = p->constant[s] && is_constant(p, step->operand[k]);
        if (p->constant[s]) {
            const float *o[3];
            for (unsigned k = 0; k < 3; k++)
                o[k] = block_of(p, step->operand[k < n ? k : 0], NULL, 0, false);
            run_step(step->op, p->result[s], o[0], o[1], o[2], CDZ_EXPR_BLOCK);
            continue;
        }
        for (unsigned k = 0; k < n; k++)
            if (step->operand[k].from == CDZ_EXPR_STEP && !p->constant[step->operand[k].at])
                p->result[s] = p->result[step->operand[k].at];
    }
}

static void run_block(const plan *p, float *x, size_t first, size_t n)
{
    const cdz_expr *e = p->e;
    const bool whole = n == CDZ_EXPR_BLOCK;
    const size_t padded = (n + LANES - 1) / LANES * LANES;

    if (!whole) {
        memcpy(p->x_block, x + first, n * sizeof *x);
        for (size_t i = 0; i < e->n_names; i++)
            if (p->args[i].values)
                memcpy(p->arg_blocks[i], p->args[i].values + first, n * sizeof *x);
    }
    for (size_t s = 0; s < e->n_steps; s++) {
        const cdz_expr_step *step = &e->steps[s];
        const unsigned n_used = n_operands(step->op);
        const float *o[3];
        if (p->constant[s]) continue;
        for (unsigned k = 0; k < 3; k++)
            o[k] = block_of(p, step->operand[k < n_used ? k : 0], x, first, whole);
        float *out = s + 1 < e->n_steps ? p->result[s] : whole ? x + first : p->x_block;
        run_step(step->op, out, o[0], o[1], o[2], padded);
    }
    if (p->constant[e->n_steps - 1])
        memcpy(x + first, p->result[e->n_steps - 1], n * sizeof *x);
    else if (!whole)
        memcpy(x + first, p->x_block, n * sizeof *x);
}

static void repeat(float *block, float number)
{
    for (size_t i = 0; i < CDZ_EXPR_BLOCK; i += LANES) l_store(block + i, l_set(number));
}

static void run_expr(const cdz_expr *e, const cdz_expr_arg *args, float *x, size_t n, void *scratch)
{
    float *at = scratch;
    plan p = {.e = e, .args = args, .x_block = at};

    repeat(at, 0.0f);
    for (size_t i = 0; i < e->n_names; i++) {
        p.arg_blocks[i] = at += CDZ_EXPR_BLOCK;
        repeat(at, args[i].values ? 0.0f : args[i].number);
    }
    p.number_blocks = at += CDZ_EXPR_BLOCK;
    for (size_t i = 0; i < e->n_numbers; i++, at += CDZ_EXPR_BLOCK) repeat(at, e->numbers[i]);
    p.step_blocks = at;
    prepare(&p);
    for (size_t first = 0; first < n; first += CDZ_EXPR_BLOCK)
        run_block(&p, x, first, n - first < CDZ_EXPR_BLOCK ? n - first : CDZ_EXPR_BLOCK);
}

#endif
