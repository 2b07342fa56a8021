/* test_cuda_recurrent.c - the convolution and the recurrence of a device: the CPU's bits, in what comes out and in what a state is
 * left with, however a sequence is cut into calls and whoever stands beside it. */
#include "cuda_test.h"

enum { ROWS = 75, SEQUENCES = 3, GAP = 3, BEFORE = 16 };

/* Sequences of one call after the other: so many rows of each. */
typedef struct cut {
    uint32_t rows[SEQUENCES];
} cut;

static const cut whole[] = {{{ROWS, 0, 0}}}, ones[] = {{{1, 1, 1}}},
                 pieces[] = {{{1, 40, 17}}, {{1, 1, 16}}, {{33, 0, 1}}, {{1, 34, 1}}};

static const struct plan {
    const char *name;
    const cut *cuts;
    size_t n;
} plans[] = {{"whole", whole, 1}, {"a row each", ones, 1}, {"in pieces", pieces, 4}};
enum { N_PLANS = sizeof plans / sizeof *plans };

/* Every sequence's state on one side, after `BEFORE` floats of another layer's. */
typedef struct side {
    cdz_backend *b;
    float *states;
    size_t each;
} side;

static size_t runs_of(const side *s, const cut *c, cdz_state_run *runs)
{
    uint32_t first = 0;
    size_t n = 0;
    for (size_t i = 0; i < SEQUENCES; first += c->rows[i++])
        if (c->rows[i]) runs[n++] = (cdz_state_run){first, c->rows[i], s->states + i * s->each};
    return n;
}

/* What operations read: here, and there. */
typedef struct operand {
    float *here, *there;
    size_t n;
} operand;

static operand make_operand(cdz_backend *b, rng *r, size_t n)
{
    float *x = random_floats(r, n);
    return (operand){x, floats_there(b, x, n), n};
}

static void free_operand(cdz_backend *b, operand *o)
{
    free(o->here);
    if (o->there) b->api->free(b, o->there);
}

/* ---- the convolution ---- */

typedef struct conv_case {
    size_t channels, taps;
    bool bias, gates, silu;
} conv_case;

static const conv_case conv_cases[] = {{1, 2, false, false, false},  {16, 3, true, true, false},
                                       {64, 4, true, false, true},   {129, 4, false, false, true},
                                       {200, 3, false, true, false}, {31, 16, true, true, true}};

typedef struct conv_data {
    const conv_case *c;
    operand x, w, bias, in_gate, out_gate, states, y;
} conv_data;

static void conv_call(const conv_data *d, const cut *c, const side *s, bool far)
{
    const size_t C = d->c->channels;
    cdz_state_run runs[SEQUENCES];
    const size_t n = runs_of(s, c, runs);
    const cdz_conv how = {.channels = C,
                          .taps = d->c->taps,
                          .at = BEFORE,
                          .w = far ? d->w.there : d->w.here,
                          .bias = !d->c->bias ? NULL
                                  : far       ? d->bias.there
                                              : d->bias.here,
                          .in_gate = !d->c->gates ? NULL
                                     : far        ? d->in_gate.there
                                                  : d->in_gate.here,
                          .out_gate = !d->c->gates ? NULL
                                      : far        ? d->out_gate.there
                                                   : d->out_gate.here,
                          .silu = d->c->silu};
    s->b->api->conv(s->b, far ? d->y.there : d->y.here, C + 1, far ? d->x.there : d->x.here,
                    C + GAP, runs, n, &how);
}

static void same_convolution(run *t, const conv_case *c, const struct plan *plan)
{
    rng r = {77};
    cdz_backend *b = t->strict;
    const size_t C = c->channels, each = BEFORE + (c->taps - 1) * C + GAP;
    conv_data d = {c,
                   make_operand(b, &r, ROWS * (C + GAP)),
                   make_operand(b, &r, C * c->taps),
                   make_operand(b, &r, C),
                   make_operand(b, &r, ROWS * (C + GAP)),
                   make_operand(b, &r, ROWS * (C + GAP)),
                   make_operand(b, &r, SEQUENCES * each),
                   make_operand(b, &r, ROWS * (C + 1))};
    const side here = {t->cpu, d.states.here, each}, there = {b, d.states.there, each};
    for (size_t i = 0; i < plan->n; i++) {
        conv_call(&d, &plan->cuts[i], &here, false);
        conv_call(&d, &plan->cuts[i], &there, true);
        expect_same(t, plan->name, b, d.y.there, d.y.here, d.y.n);
        expect_same(t, "windows", b, d.states.there, d.states.here, d.states.n);
    }
    operand *const all[] = {&d.x, &d.w, &d.bias, &d.in_gate, &d.out_gate, &d.states, &d.y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free_operand(b, all[i]);
}

static void convolutions(run *t)
{
    for (size_t i = 0; i < sizeof conv_cases / sizeof *conv_cases; i++)
        for (size_t p = 0; p < N_PLANS; p++) same_convolution(t, &conv_cases[i], &plans[p]);
}

/* ---- the recurrence ---- */

typedef struct recur_case {
    size_t heads, groups, rows, columns;
    bool corrects, alternate, skip;
} recur_case;

static const recur_case recur_cases[] = {
    {4, 2, 8, 12, true, false, false},   {4, 2, 8, 12, true, true, false},
    {8, 2, 16, 8, false, false, true},   {2, 1, 13, 16, true, false, false},
    {3, 3, 5, 37, false, true, false},   {2, 2, 128, 64, true, false, false},
    {2, 1, 64, 33, false, false, true},  {2, 1, 128, 40, false, false, true},
    {1, 1, 256, 32, false, false, true}, {2, 1, 256, 5, true, false, false},
    {2, 2, 2100, 3, true, false, false}, {2, 2, 3, 1, false, false, false}};

typedef struct recur_data {
    const recur_case *c;
    operand rate, shift, skip, keys, v, a, b, states, y;
} recur_data;

static void recur_call(const recur_data *d, const cut *c, const side *s, bool far)
{
    const recur_case *k = d->c;
    const size_t keys = k->groups * k->rows, width = k->heads * k->columns;
    cdz_state_run runs[SEQUENCES];
    const size_t n = runs_of(s, c, runs);
    const float *both = far ? d->keys.there : d->keys.here;
    const cdz_recurrence how = {.heads = k->heads,
                                .groups = k->groups,
                                .rows = k->rows,
                                .columns = k->columns,
                                .at = BEFORE,
                                .corrects = k->corrects,
                                .groups_alternate = k->alternate,
                                .rate = far ? d->rate.there : d->rate.here,
                                .shift = far ? d->shift.there : d->shift.here,
                                .skip = !k->skip ? NULL
                                        : far    ? d->skip.there
                                                 : d->skip.here,
                                .low = 0.01f,
                                .high = 1.5f,
                                .k = both,
                                .q = both + keys,
                                .ldk = 2 * keys + GAP,
                                .v = far ? d->v.there : d->v.here,
                                .ldv = width + GAP,
                                .a = far ? d->a.there : d->a.here,
                                .b = !k->corrects ? NULL
                                     : far        ? d->b.there
                                                  : d->b.here};
    s->b->api->recur(s->b, far ? d->y.there : d->y.here, width + 1, runs, n, &how);
}

/* Rates below zero, and keys whose squares sum to about one: states stay finite. */
static operand small_operand(cdz_backend *b, rng *r, size_t n, bool negative, float by)
{
    float *x = random_floats(r, n);
    for (size_t i = 0; i < n; i++) x[i] = negative ? -0.1f - fabsf(x[i]) : x[i] * by;
    return (operand){x, floats_there(b, x, n), n};
}

static void same_recurrence(run *t, const recur_case *c, const struct plan *plan)
{
    rng r = {99};
    cdz_backend *b = t->strict;
    const size_t keys = c->groups * c->rows, width = c->heads * c->columns,
                 each = BEFORE + c->heads * c->rows * c->columns + GAP;
    recur_data d = {
        c,
        small_operand(b, &r, c->heads, true, 0.0f),
        make_operand(b, &r, c->heads),
        make_operand(b, &r, c->heads),
        small_operand(b, &r, ROWS * (2 * keys + GAP), false, 1.0f / sqrtf((float)c->rows)),
        make_operand(b, &r, ROWS * (width + GAP)),
        make_operand(b, &r, ROWS * c->heads),
        make_operand(b, &r, ROWS * c->heads),
        make_operand(b, &r, SEQUENCES * each),
        make_operand(b, &r, ROWS * (width + 1))};
    const side here = {t->cpu, d.states.here, each}, there = {b, d.states.there, each};
    for (size_t i = 0; i < plan->n; i++) {
        recur_call(&d, &plan->cuts[i], &here, false);
        recur_call(&d, &plan->cuts[i], &there, true);
        expect_same(t, plan->name, b, d.y.there, d.y.here, d.y.n);
        expect_same(t, "states", b, d.states.there, d.states.here, d.states.n);
    }
    operand *const all[] = {&d.rate, &d.shift, &d.skip, &d.keys, &d.v, &d.a, &d.b, &d.states, &d.y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free_operand(b, all[i]);
}

static void recurrences(run *t)
{
    for (size_t i = 0; i < sizeof recur_cases / sizeof *recur_cases; i++)
        for (size_t p = 0; p < N_PLANS; p++) same_recurrence(t, &recur_cases[i], &plans[p]);
}

/* ---- states ---- */

/* A state is cleared and copied in its place in a larger piece of memory. */
static void states_are_cleared(run *t)
{
    enum { N = 48 };
    rng r = {3};
    cdz_backend *b = t->strict;
    operand o = make_operand(b, &r, 3 * N);
    memset(o.here + N, 0, N * sizeof *o.here);
    b->api->clear(b, o.there + N, N * sizeof *o.there);
    expect_same(t, "cleared", b, o.there, o.here, o.n);
    memcpy(o.here + 2 * N, o.here, N * sizeof *o.here);
    b->api->copy(b, o.there + 2 * N, o.there, N * sizeof *o.there);
    expect_same(t, "copied", b, o.there, o.here, o.n);
    free_operand(b, &o);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"convolutions have the CPU's bits", convolutions},
        {"recurrences have the CPU's bits", recurrences},
        {"states are cleared and copied", states_are_cleared},
    };
    return run_all(argc, argv, cases, sizeof cases / sizeof *cases);
}
