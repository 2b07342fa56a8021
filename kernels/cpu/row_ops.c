/* row_ops.c - the operations that treat every activation row alone: shared among the threads by
 * rows when there is enough of it, otherwise done by the caller. */
#include <math.h>
#include <string.h>

#include "cpu/cpu_backend.h"
#include "ref/ref.h"

enum {
    ALONE_FLOATS = 32768, /* outputs that the caller computes by itself */
    PIECE = 256           /* weights widened, or angles tabulated, at a time */
};

static void each_row(cdz_backend *b, void (*task)(void *arg, size_t i), void *arg, size_t m,
                     size_t row_floats)
{
    if (m > 1 && m * row_floats > ALONE_FLOATS)
        cdz_pool_tasks(cdz_cpu(b)->pool, task, arg, m);
    else
        for (size_t i = 0; i < m; i++) task(arg, i);
}

/* ---- embed ---- */

typedef struct embed_rows {
    const cdz_kernel_set *set;
    float *y;
    size_t ldy;
    const cdz_weight *table;
    const int32_t *ids;
} embed_rows;

/* A row out of a panel, some blocks at a time. */
static void embed_panel_row(const cdz_kernel_set *set, float *y, const cdz_weight *w, size_t row)
{
    enum { COLUMNS = 256, MOST_BYTES = COLUMNS / 32 * 36 };
    uint8_t piece[MOST_BYTES];
    const size_t lane = row % CDZ_PANEL_ROWS;
    const char *panel = (const char *)w->data + (row - lane) * cdz_row_bytes(w->dtype, w->k);
    for (size_t j = 0; j < w->k; j += COLUMNS) {
        const size_t n = w->k - j < COLUMNS ? w->k - j : COLUMNS;
        cdz_row_of_panel(w->dtype, piece, panel + cdz_row_bytes(w->dtype, j) * CDZ_PANEL_ROWS, lane,
                         n);
        set->widen[w->dtype](y + j, piece, n);
    }
}

static void embed_row(void *arg, size_t i)
{
    const embed_rows *e = arg;
    const cdz_weight *w = e->table;
    const size_t row = (size_t)e->ids[i];
    float *y = e->y + i * e->ldy;
    if (w->form == CDZ_WEIGHT_PANELS && row < w->n / CDZ_PANEL_ROWS * CDZ_PANEL_ROWS)
        embed_panel_row(e->set, y, w, row);
    else
        e->set->widen[w->dtype](y, (const char *)w->data + row * cdz_row_bytes(w->dtype, w->k),
                                w->k);
}

void cdz_cpu_embed(cdz_backend *b, float *y, size_t ldy, const cdz_weight *table,
                   const int32_t *ids, size_t m)
{
    embed_rows e = {cdz_cpu(b)->set, y, ldy, table, ids};
    each_row(b, embed_row, &e, m, table->k);
}

/* ---- rmsnorm ---- */

typedef struct norm_rows {
    const cdz_kernel_set *set;
    float *y;
    size_t ldy;
    const float *x;
    size_t ldx;
    const cdz_weight *w;
    float eps, offset;
} norm_rows;

static void widen_piece(const cdz_kernel_set *set, float *to, const cdz_weight *w, size_t j,
                        size_t n)
{
    set->widen[w->dtype](to, (const char *)w->data + cdz_row_bytes(w->dtype, j), n);
}

static void norm_row(void *arg, size_t i)
{
    const norm_rows *r = arg;
    const size_t n = r->w->k;
    const float *x = r->x + i * r->ldx;
    float squares, piece[PIECE];
    r->set->dot[CDZ_F32](&squares, 1, x, 1, n, x, n, 1);
    const float inverse = 1.0f / sqrtf(squares / (float)n + r->eps);
    for (size_t j = 0; j < n; j += PIECE) {
        const size_t count = n - j < PIECE ? n - j : PIECE;
        widen_piece(r->set, piece, r->w, j, count);
        r->set->scale_norm(r->y + i * r->ldy + j, x + j, piece, inverse, r->offset, count);
    }
}

void cdz_cpu_rmsnorm(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                     const cdz_weight *w, float eps, float offset)
{
    norm_rows r = {cdz_cpu(b)->set, y, ldy, x, ldx, w, eps, offset};
    each_row(b, norm_row, &r, m, w->k);
}

/* ---- layernorm ---- */

typedef struct layer_rows {
    norm_rows rows;
    const cdz_weight *bias;
} layer_rows;

/* The row is centred first, so that its squares do not cancel. */
static void layer_row(void *arg, size_t i)
{
    const layer_rows *l = arg;
    const norm_rows *r = &l->rows;
    const size_t n = r->w->k;
    const float *x = r->x + i * r->ldx;
    float *y = r->y + i * r->ldy, squares, w[PIECE], bias[PIECE];
    r->set->subtract(y, x, r->set->sum(x, n) / (float)n, n);
    r->set->dot[CDZ_F32](&squares, 1, y, 1, n, y, n, 1);
    const float inverse = 1.0f / sqrtf(squares / (float)n + r->eps);
    for (size_t j = 0; j < n; j += PIECE) {
        const size_t count = n - j < PIECE ? n - j : PIECE;
        widen_piece(r->set, w, r->w, j, count);
        widen_piece(r->set, bias, l->bias, j, count);
        r->set->scale_shift(y + j, w, bias, inverse, count);
    }
}

void cdz_cpu_layernorm(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                       const cdz_weight *w, const cdz_weight *bias, float eps)
{
    layer_rows l = {{cdz_cpu(b)->set, y, ldy, x, ldx, w, eps, 0.0f}, bias};
    each_row(b, layer_row, &l, m, w->k);
}

/* ---- rope ---- */

typedef struct rope_rows {
    const cdz_kernel_set *set;
    float *x;
    size_t ldx, n_heads, head_dim;
    const uint32_t *positions;
    const cdz_rope *rope;
} rope_rows;

/* From (2i, 2i+1) to (i, i + half), so that what follows adds in the order of the other layout. */
static void regroup(float *head, size_t half)
{
    float odd[CDZ_ROPE_REGROUP / 2];
    for (size_t i = 0; i < half; i++) {
        odd[i] = head[2 * i + 1];
        head[i] = head[2 * i];
    }
    /* cppcheck-suppress uninitvar ; the loop has written the first half of them */
    memcpy(head + half, odd, half * sizeof *odd);
}

/* The angles of a position are tabulated once and used for all heads, PIECE pairs at a time. */
static void rope_row(void *arg, size_t i)
{
    const rope_rows *r = arg;
    const size_t half = r->rope->n_rotated / 2;
    float cosine[PIECE], sine[PIECE];
    for (size_t j = 0; j < half; j += PIECE) {
        const size_t n = half - j < PIECE ? half - j : PIECE;
        cdz_ref_rope_table(cosine, sine, r->rope->inv_freq + j, n, r->positions[i], r->rope->scale);
        for (size_t h = 0; h < r->n_heads; h++) {
            float *head = r->x + i * r->ldx + h * r->head_dim;
            if (r->rope->interleaved)
                r->set->rotate_pairs(head + 2 * j, cosine, sine, n);
            else
                r->set->rotate(head + j, head + half + j, cosine, sine, n);
        }
    }
    for (size_t h = 0; r->rope->regroup && h < r->n_heads; h++)
        regroup(r->x + i * r->ldx + h * r->head_dim, half);
}

void cdz_cpu_rope(cdz_backend *b, float *x, size_t ldx, size_t m, size_t n_heads, size_t head_dim,
                  const uint32_t *positions, const cdz_rope *rope)
{
    rope_rows r = {cdz_cpu(b)->set, x, ldx, n_heads, head_dim, positions, rope};
    each_row(b, rope_row, &r, m, n_heads * head_dim);
}

/* ---- silu_mul, activate, add, scale, soft_cap ---- */

typedef struct pair_rows {
    const cdz_kernel_set *set;
    float *y;
    size_t ldy;
    const float *a, *b;
    size_t ld, n;
    float factor;
    cdz_curve curve;
} pair_rows;

static void silu_mul_row(void *arg, size_t i)
{
    const pair_rows *r = arg;
    r->set->silu_mul(r->y + i * r->ldy, r->a + i * r->ld, r->b + i * r->ld, r->n);
}

void cdz_cpu_silu_mul(cdz_backend *b, float *y, size_t ldy, const float *gate, const float *up,
                      size_t ldg, size_t m, size_t n)
{
    pair_rows r = {cdz_cpu(b)->set, y, ldy, gate, up, ldg, n, 0.0f, CDZ_CURVE_GELU};
    each_row(b, silu_mul_row, &r, m, n);
}

static void add_row(void *arg, size_t i)
{
    const pair_rows *r = arg;
    r->set->add(r->y + i * r->ldy, r->a + i * r->ld, r->n);
}

void cdz_cpu_add(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                 size_t n)
{
    pair_rows r = {cdz_cpu(b)->set, y, ldy, x, NULL, ldx, n, 0.0f, CDZ_CURVE_GELU};
    each_row(b, add_row, &r, m, n);
}

static void clamped_mul_row(void *arg, size_t i)
{
    const pair_rows *r = arg;
    r->set->clamped_mul(r->y + i * r->ldy, r->a + i * r->ld, r->b + i * r->ld, r->n);
}

void cdz_cpu_clamped_mul(cdz_backend *b, float *y, size_t ldy, const float *gate, const float *up,
                         size_t ldg, size_t m, size_t n)
{
    pair_rows r = {cdz_cpu(b)->set, y, ldy, gate, up, ldg, n, 0.0f, CDZ_CURVE_GELU};
    each_row(b, clamped_mul_row, &r, m, n);
}

typedef struct xielu_rows {
    pair_rows rows;
    const cdz_xielu how; /* the caller's may be gone */
} xielu_rows;

static void xielu_row(void *arg, size_t i)
{
    const xielu_rows *x = arg;
    const pair_rows *r = &x->rows;
    r->set->xielu(r->y + i * r->ldy, r->a + i * r->ld, &x->how, r->n);
}

void cdz_cpu_xielu(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                   size_t n, const cdz_xielu *how)
{
    xielu_rows r = {{cdz_cpu(b)->set, y, ldy, x, NULL, ldx, n, 0.0f, CDZ_CURVE_GELU}, *how};
    each_row(b, xielu_row, &r, m, n);
}

static void activate_row(void *arg, size_t i)
{
    const pair_rows *r = arg;
    r->set->activate[r->curve](r->y + i * r->ldy, r->a + i * r->ld, r->n);
    if (r->b) r->set->mul(r->y + i * r->ldy, r->b + i * r->ld, r->n);
}

void cdz_cpu_activate(cdz_backend *b, float *y, size_t ldy, const float *gate, const float *up,
                      size_t ldg, size_t m, size_t n, cdz_curve curve)
{
    pair_rows r = {cdz_cpu(b)->set, y, ldy, gate, up, ldg, n, 0.0f, curve};
    each_row(b, activate_row, &r, m, n);
}

static void scale_row(void *arg, size_t i)
{
    const pair_rows *r = arg;
    r->set->scale(r->y + i * r->ldy, r->factor, r->n);
}

void cdz_cpu_scale(cdz_backend *b, float *x, size_t ldx, size_t m, size_t n, float factor)
{
    pair_rows r = {cdz_cpu(b)->set, x, ldx, NULL, NULL, 0, n, factor, CDZ_CURVE_GELU};
    each_row(b, scale_row, &r, m, n);
}

static void soft_cap_row(void *arg, size_t i)
{
    const pair_rows *r = arg;
    r->set->soft_cap(r->y + i * r->ldy, r->factor, r->n);
}

void cdz_cpu_soft_cap(cdz_backend *b, float *x, size_t ldx, size_t m, size_t n, float cap)
{
    pair_rows r = {cdz_cpu(b)->set, x, ldx, NULL, NULL, 0, n, cap, CDZ_CURVE_GELU};
    each_row(b, soft_cap_row, &r, m, n);
}
