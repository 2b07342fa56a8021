/* bench_vec.c - what choosing a token costs at a vocabulary of 151,936: a whole sampled step, and every row operation.
 *
 * Prints microseconds per row, the median of some repeats. Usage: bench_vec [scalar|avx2]. Two rows: a flat one, where
 * top-p 0.9 keeps many thousand tokens, and a peaked one, as language models give. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "random/torch_rng.h"
#include "vec/vec.h"

enum { V = 151936, REPEATS = 15, HISTORY = 2000 };

/* Everything a measured call works on. */
typedef struct bench {
    const cdz_vec *vec;
    const float *row; /* (V), restored into x before each call */
    float *x, *y, *values;
    int32_t *ids, history[HISTORY];
    void *scratch;
    cdz_torch_rng rng;
    volatile float sink;
} bench;

static double median_us(bench *b, void (*call)(bench *))
{
    double us[REPEATS];
    for (int i = 0; i < REPEATS; i++) {
        memcpy(b->x, b->row, V * sizeof *b->x);
        const double start = cdz_bench_now_us();
        call(b);
        us[i] = cdz_bench_now_us() - start;
    }
    return cdz_bench_median(us, REPEATS);
}

/* --- a step ------------------------------------------------------------------------------------------------------- */

/* temperature 0.8, top-k 50, top-p 0.9, then the draw. */
static void sampled_step(bench *b)
{
    b->vec->div(b->x, V, 0.8f);
    b->vec->keep_topk(b->x, V, 50, b->scratch);
    b->vec->keep_topp(b->x, V, 0.9, 1, b->scratch);
    b->vec->softmax(b->x, b->x, V);
    b->sink = (float)cdz_torch_multinomial(&b->rng, b->x, V);
}

/* The same without top-p: what transformers does unless told otherwise. */
static void topk_step(bench *b)
{
    b->vec->div(b->x, V, 0.8f);
    b->vec->keep_topk(b->x, V, 50, b->scratch);
    b->vec->softmax(b->x, b->x, V);
    b->sink = (float)cdz_torch_multinomial(&b->rng, b->x, V);
}

/* Without top-k every token stays in the draw, a logarithm each. */
static void unfiltered_step(bench *b)
{
    b->vec->div(b->x, V, 0.8f);
    b->vec->softmax(b->x, b->x, V);
    b->sink = (float)cdz_torch_multinomial(&b->rng, b->x, V);
}

static void topp_step(bench *b)
{
    b->vec->div(b->x, V, 0.8f);
    b->vec->keep_topp(b->x, V, 0.9, 1, b->scratch);
    b->vec->softmax(b->x, b->x, V);
    b->sink = (float)cdz_torch_multinomial(&b->rng, b->x, V);
}

static void greedy_step(bench *b)
{
    b->sink = (float)b->vec->argmax(b->x, V);
}

static void skip_stream(bench *b)
{
    cdz_torch_skip(&b->rng, 2 * V);
}

/* --- every operation -------------------------------------------------------------------------------------------------- */

#define OP(name, ...)                                                                              \
    static void op_##name(bench *b)                                                                \
    {                                                                                              \
        b->vec->name(__VA_ARGS__);                                                                 \
    }
#define NUMBER(name, ...)                                                                          \
    static void op_##name(bench *b)                                                                \
    {                                                                                              \
        b->sink = (float)b->vec->name(__VA_ARGS__);                                                \
    }
OP(fill, b->x, V, 1.0f)
OP(add, b->x, V, 1.0f)
OP(mul, b->x, V, 0.5f)
OP(div, b->x, V, 0.8f)
OP(clamp, b->x, V, -1.0f, 1.0f)
OP(exp, b->x, V)
OP(log, b->x, V)
OP(abs, b->x, V)
OP(pow, b->x, V, 1.5f)
OP(add_v, b->x, b->y, V)
OP(sub_v, b->x, b->y, V)
OP(mul_v, b->x, b->y, V)
OP(div_v, b->x, b->y, V)
OP(max_v, b->x, b->y, V)
OP(min_v, b->x, b->y, V)
OP(axpy, b->x, b->y, V, 0.5f)
OP(lerp, b->x, b->y, V, 0.5f)
OP(mask_below, b->x, V, 0.0f)
OP(mask_ids, b->x, V, b->history, HISTORY)
OP(mask_except, b->x, V, b->history, HISTORY, b->scratch)
NUMBER(max, b->x, V)
NUMBER(min, b->x, V)
NUMBER(argmax, b->x, V)
NUMBER(sum, b->x, V)
NUMBER(dot, b->x, b->y, V)
NUMBER(logsumexp, b->x, V)
NUMBER(entropy, b->x, V)
NUMBER(count_above, b->x, V, 0.0f)
NUMBER(any_nan, b->x, V)
OP(softmax, b->x, b->x, V)
OP(log_softmax, b->x, b->x, V)
OP(cumsum, b->x, b->x, V)
OP(topk, b->x, V, 50, b->values, b->ids, b->scratch)
OP(sort, b->x, V, true, b->values, b->ids, b->scratch)
NUMBER(kth_largest, b->x, V, 50, b->scratch)
OP(keep_topk, b->x, V, 50, b->scratch)
OP(keep_topp, b->x, V, 0.9, 1, b->scratch)
OP(keep_minp, b->x, V, 0.05, 1, b->scratch)
OP(keep_typical, b->x, V, 0.9, 1, b->scratch)
OP(keep_epsilon, b->x, V, 3e-4, 1, b->scratch)
OP(keep_eta, b->x, V, 2e-3, 1, b->scratch)
OP(penalize, b->x, V, b->history, HISTORY, 1.1f, b->scratch)
OP(ban_ngrams, b->x, V, b->history, HISTORY, 3)

static void topk_1000(bench *b)
{
    b->vec->keep_topk(b->x, V, 1000, b->scratch);
}

/* clang-format off */
#define ROW(name) {#name, op_##name}
/* clang-format on */
static const struct {
    const char *name;
    void (*call)(bench *);
} calls[] = {
    {"step: t 0.8, top-k 50", topk_step},
    {"step: t 0.8, top-k 50, top-p 0.9", sampled_step},
    {"step: t 0.8, top-p 0.9", topp_step},
    {"step: t 0.8", unfiltered_step},
    {"step: greedy", greedy_step},
    {"skip 2 V random words", skip_stream},
    ROW(fill),
    ROW(add),
    ROW(mul),
    ROW(div),
    ROW(clamp),
    ROW(exp),
    ROW(log),
    ROW(abs),
    ROW(pow),
    ROW(add_v),
    ROW(sub_v),
    ROW(mul_v),
    ROW(div_v),
    ROW(max_v),
    ROW(min_v),
    ROW(axpy),
    ROW(lerp),
    ROW(mask_below),
    ROW(mask_ids),
    ROW(mask_except),
    ROW(max),
    ROW(min),
    ROW(argmax),
    ROW(sum),
    ROW(dot),
    ROW(logsumexp),
    ROW(entropy),
    ROW(count_above),
    ROW(any_nan),
    ROW(softmax),
    ROW(log_softmax),
    ROW(cumsum),
    ROW(topk),
    ROW(sort),
    ROW(kth_largest),
    ROW(keep_topk),
    {"keep_topk 1000", topk_1000},
    ROW(keep_topp),
    ROW(keep_minp),
    ROW(keep_typical),
    ROW(keep_epsilon),
    ROW(keep_eta),
    ROW(penalize),
    ROW(ban_ngrams),
#undef ROW
};

static void make_rows(float *flat, float *peaked, bench *b)
{
    uint32_t stream = 1;
    cdz_bench_row(flat, V, false);
    cdz_bench_row(peaked, V, true);
    for (size_t i = 0; i < V; i++) b->y[i] = 1.0f + 0.1f * cdz_bench_normal(&stream);
    for (size_t i = 0; i < HISTORY; i++) b->history[i] = (int32_t)((i * i * 31 + 7) % V);
}

int main(int argc, char **argv)
{
    const char *variant = argc > 1 ? argv[1] : NULL;
    bench b = {.vec = variant ? cdz_vec_table_of(variant) : cdz_vec_table()};
    float *rows = calloc(5 * (size_t)V, sizeof *rows);
    b.ids = calloc(V, sizeof *b.ids);
    b.scratch = aligned_alloc(64, (cdz_vec_scratch(V) + 63) / 64 * 64);
    if (!b.vec || !rows || !b.ids || !b.scratch) {
        fprintf(stderr, "bench_vec: %s\n",
                b.vec ? "out of memory" : "no such table on this machine");
        return 1;
    }
    b.x = rows + 2 * (size_t)V;
    b.y = rows + 3 * (size_t)V;
    b.values = rows + 4 * (size_t)V;
    make_rows(rows, rows + V, &b);
    cdz_torch_seed(&b.rng, 0);

    printf("microseconds per row of %d, median of %d     flat    peaked\n", V, REPEATS);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        b.row = rows;
        const double flat = median_us(&b, calls[i].call);
        b.row = rows + V;
        printf("%-40s %12.1f %9.1f\n", calls[i].name, flat, median_us(&b, calls[i].call));
    }
    free(rows);
    free(b.ids);
    free(b.scratch);
    return 0;
}
