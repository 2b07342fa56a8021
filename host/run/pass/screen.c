/* screen.c - the copy of the head that screen.h tells of: how it is made, and how a row is looked for in it.
 *
 * Owns: the copy, what its rows lost, and the order of a search: the copy's product gives an upper bound of every sixteen
 * tokens; the sixteens with the highest scores are multiplied as they are, which gives a score that the wanted ones are not
 * below; then every sixteen whose bound reaches that score is. Not: products (the backend's), who asks (away.h). */
#include "run/pass/screen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/error.h"
#include "base/rest.h"
#include "run/job.h"
#include "run/pass/cost.h"

enum {
    PANEL = CDZ_PANEL_ROWS,
    WAIT =
        55, /* passes to wait for, if each read as many bytes less as the head has weights: what making it costs */
    PASSES = 16,       /* over which it is made */
    PIECE = 256,       /* columns at a time */
    BLOCK = 32,        /* of activations that are rounded together */
    LEAST_PANELS = 64, /* a smaller head is read at once */
    SEEDS = 3, /* sixteens that are multiplied first, beside one for each token that is wanted */
    WORTH_SHARE = 10, /* of a step's bytes it has to save one in so many */
    STRETCHES = 64,   /* products that are handed over together */
    LONGEST_REST =
        128,      /* steps that are not tried after some for which too many tokens were possible */
    FEW_ROWS = 2, /* of a head in 8 bits */
    SLICE = 1024, /* sixteens that a thread looks at in one go */
};

struct cdz_screen {
    const cdz_weight *head;
    cdz_weight copy;
    size_t n_panels, done; /* sixteens of rows, the last may have fewer; those that are copied */
    size_t most;           /* that a search may multiply: half of what the copy saves */
    float *lost;           /* (n_panels) the largest norm of what a row lost */
    float *norm;           /* (n_panels) the largest norm of a row */
    float longest;         /* of all norms */

    /* Of the search. */
    float *top,
        *bound; /* (rows_most, n_panels) the highest score in the copy; what a score is at most */
    uint32_t rows_most; /* of a pass: of heads in 8 bits a search of each of more rows costs what reading less saves */
    uint64_t *have, *want; /* (n_words) bits of sixteens whose scores are exact, or are to be */
    size_t n_words;
    size_t n_have;
    cdz_rest rest[2]; /* steps to leave out that want the best token, and that want several */
    cdz_weight w[STRETCHES];
    cdz_product products[STRETCHES];
    size_t n_products;
};

cdz_status cdz_screen_named(const char *name, cdz_screen_use *out, cdz_error *err)
{
    static const char *const names[] = {"auto", "off", "on"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name ? name : "auto", names[i]) == 0) {
            *out = (cdz_screen_use)i;
            return CDZ_OK;
        }
    const char *near = cdz_nearest_name(name, names, 3);
    return cdz_err(err, CDZ_E_USAGE,
                   "head_screen: found '%.40s', expected one of auto, off, on%s%s%s", name,
                   near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* --- making it ------------------------------------------------------------------------------------------------------ */

static float higher(float a, float b)
{
    return a > b ? a : b;
}

static size_t copy_bytes(const cdz_weight *head)
{
    return cdz_row_bytes(CDZ_Q5_0, head->k) * head->n;
}

/* What keeps the copy from bounding the head's scores, or makes it useless; NULL: nothing. b NULL: the CPU's. */
static const char *hindrance(const cdz_weights *w, const cdz_backend *b)
{
    const cdz_weight *head = &w->head.w;
    if (b && !b->api->host_memory) return "is not on the CPU";
    if (b && !b->api->takes_int8(b, CDZ_Q5_0)) return "has no kernels for 5 bits";
    if (!head->data) return "says nothing of tokens";
    if (w->head.bias.data) return "has a bias";
    if (w->arch.final_cap != 0.0f) return "caps its scores";
    if (head->dtype >= CDZ_N_PLAIN && head->dtype != CDZ_Q8_0) return "is in few bits already";
    if (head->k % BLOCK != 0) return "has rows that are no multiple of 32 long";
    return head->n < (size_t)LEAST_PANELS * PANEL ? "has fewer than 1024 tokens" : NULL;
}

cdz_status cdz_screen_check(cdz_screen_use how, const cdz_weights *weights,
                            const cdz_backend *backend, cdz_error *err)
{
    const char *why = how == CDZ_SCREEN_ON ? hindrance(weights, backend) : NULL;
    if (!why) return CDZ_OK;
    return cdz_err(err, CDZ_E_UNSUPPORTED,
                   "head_screen: on was asked for, but the head of %s %s; expected auto or off",
                   weights->folder, why);
}

/* How many passes would have to be screened before the copy is made; UINT32_MAX: it is not. */
static uint32_t wait_for(cdz_screen_use how, const cdz_weights *w, const cdz_backend *b)
{
    const cdz_weight *head = &w->head.w;
    if (hindrance(w, b)) return UINT32_MAX;
    if (how == CDZ_SCREEN_ON) return 1;
    const cdz_cost cost = cdz_cost_of(w, CDZ_F32);
    const uint64_t copy = copy_bytes(head), step = cost.layer_bytes + cost.head_bytes;
    if (cost.head_bytes <= copy || (cost.head_bytes - copy) * WORTH_SHARE < step) return UINT32_MAX;
    return (uint32_t)(WAIT * ((double)head->n * (double)head->k) / (double)(cost.head_bytes - copy));
}

uint64_t cdz_screen_auto_bytes(const cdz_weights *weights)
{
    return wait_for(CDZ_SCREEN_AUTO, weights, NULL) == UINT32_MAX ? 0 : copy_bytes(&weights->head.w);
}

static void free_screen(cdz_screen *s, cdz_backend *backend)
{
    if (!s) return;
    if (s->copy.data) backend->api->free(backend, (void *)(uintptr_t)s->copy.data);
    free(s->lost);
    free(s->norm);
    free(s->bound);
    free(s->top);
    free(s->have);
    free(s->want);
    free(s);
}

static cdz_screen *new_screen(const cdz_weights *weights, cdz_backend *backend)
{
    const cdz_weight *head = &weights->head.w;
    const size_t n = (head->n + PANEL - 1) / PANEL, words = (n + 63) / 64;
    const uint32_t most = head->dtype < CDZ_N_PLAIN ? CDZ_SCREEN_ROWS : FEW_ROWS;
    const double share =
        (double)cdz_row_bytes(CDZ_Q5_0, head->k) / (double)cdz_row_bytes(head->dtype, head->k);
    if (!cdz_weights_panels_fit(copy_bytes(head))) return NULL;
    cdz_screen *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    *s = (cdz_screen){.head = head,
                      .copy = {backend->api->alloc(backend, copy_bytes(head)), CDZ_Q5_0, head->n,
                               head->k, CDZ_WEIGHT_PANELS},
                      .n_panels = n,
                      .n_words = words,
                      .most = (size_t)((double)n * (1 - share) / 2),
                      .lost = calloc(n, sizeof *s->lost),
                      .norm = calloc(n, sizeof *s->norm),
                      .bound = calloc(n * most, sizeof *s->bound),
                      .top = calloc(n * most, sizeof *s->top),
                      .rows_most = most,
                      .have = calloc(words, sizeof *s->have),
                      .want = calloc(words, sizeof *s->want)};
    if (s->copy.data && s->lost && s->norm && s->bound && s->top && s->have && s->want) return s;
    free_screen(s, backend);
    return NULL;
}

/* A late worker may still read the copy. */
void cdz_screening_free(cdz_screening *screening, cdz_backend *backend)
{
    if (screening->made) backend->api->sync(backend);
    free_screen(screening->made, backend);
    screening->made = NULL;
}

/* Tokens of a sixteen. */
static size_t rows_of(const cdz_screen *s, size_t p)
{
    const size_t left = s->head->n - p * PANEL;
    return left < PANEL ? left : PANEL;
}

/* Columns [from, from + n) of a row of the head, widened. */
static void read_columns(const cdz_weight *head, size_t row, size_t from, size_t n, float *to)
{
    const size_t stride = cdz_row_bytes(head->dtype, head->k), at = cdz_row_bytes(head->dtype, from);
    const size_t panel = row / PANEL * PANEL;
    const char *data = head->data;
    uint8_t blocks[PIECE * sizeof(float)];
    if (head->form != CDZ_WEIGHT_PANELS || head->n - panel < PANEL) {
        cdz_widen(head->dtype, to, data + row * stride + at, n);
        return;
    }
    cdz_row_of_panel(head->dtype, blocks, data + panel * stride + at * PANEL, row - panel, n);
    cdz_widen(head->dtype, to, blocks, n);
}

/* The root of the largest, a little more than less; infinite where one is no number. */
static float longest_of(const double *squares, size_t n)
{
    double most = 0;
    for (size_t r = 0; r < n; r++)
        if (!(squares[r] <= most)) most = isnan(squares[r]) ? (double)INFINITY : squares[r];
    return (float)sqrt(most) * 1.00001f;
}

typedef struct copying {
    cdz_screen *screen;
    size_t first;
} copying;

/* Sums of squares are of float32 numbers in double, so what they are off by is far below what bounds are widened by. */
static void copy_panel(void *arg, size_t i)
{
    const copying *c = arg;
    cdz_screen *s = c->screen;
    const size_t p = c->first + i, row = p * PANEL, k = s->head->k, n = rows_of(s, p);
    const size_t stride = cdz_row_bytes(CDZ_Q5_0, k), step = cdz_row_bytes(CDZ_Q5_0, PIECE);
    char *to = (char *)(uintptr_t)s->copy.data + row * stride;
    double lost[PANEL] = {0}, norm[PANEL] = {0};
    for (size_t from = 0; from < k; from += PIECE) {
        const size_t width = k - from < PIECE ? k - from : PIECE;
        uint8_t rows[PANEL * PIECE];
        for (size_t r = 0; r < n; r++) {
            float was[PIECE], is[PIECE];
            uint8_t *at = rows + r * step;
            read_columns(s->head, row + r, from, width, was);
            cdz_quantise(CDZ_Q5_0, at, was, width);
            cdz_widen(CDZ_Q5_0, is, at, width);
            for (size_t j = 0; j < width; j++) {
                const double d = (double)was[j] - (double)is[j];
                lost[r] += d * d;
                norm[r] += (double)was[j] * (double)was[j];
            }
            if (n < PANEL)
                memcpy(to + r * stride + cdz_row_bytes(CDZ_Q5_0, from), at,
                       cdz_row_bytes(CDZ_Q5_0, width));
        }
        if (n == PANEL)
            cdz_to_panels(CDZ_Q5_0, to + cdz_row_bytes(CDZ_Q5_0, from) * PANEL, rows, step, n,
                          width);
    }
    s->lost[p] = longest_of(lost, n);
    s->norm[p] = longest_of(norm, n);
}

/* The next sixteenth of it. */
static void make_more(cdz_screen *s, cdz_backend *backend)
{
    const size_t left = s->n_panels - s->done, part = (s->n_panels + PASSES - 1) / PASSES;
    const size_t n = left < part ? left : part;
    copying c = {s, s->done};
    if (s->done == 0 && backend->api->spread)
        backend->api->spread(backend, (void *)(uintptr_t)s->copy.data, copy_bytes(s->head));
    backend->api->parallel(backend, copy_panel, &c, n);
    for (size_t p = s->done; p < s->done + n; p++) {
        if (!isfinite(s->lost[p])) s->longest = INFINITY;
        s->longest = higher(s->longest, s->norm[p]);
    }
    s->done += n;
}

void cdz_screening_more(cdz_screening *screening, const cdz_weights *weights, cdz_backend *backend)
{
    if (screening->asked && screening->wanted < UINT32_MAX - 1) screening->wanted++;
    screening->asked = false;
    if (screening->how == CDZ_SCREEN_OFF || screening->wanted == 0) return;
    if (screening->wait == 0) screening->wait = wait_for(screening->how, weights, backend);
    if (screening->wanted < screening->wait) return;
    if (!screening->made) screening->made = new_screen(weights, backend);
    cdz_screen *s = screening->made;
    if (!s) screening->wait = UINT32_MAX;
    if (!s || s->done == s->n_panels) return;
    make_more(s, backend);
    if (!isfinite(s->longest)) { /* of a head with infinities nothing is bounded */
        cdz_screening_free(screening, backend);
        screening->wait = UINT32_MAX;
        return;
    }
    if (s->done == s->n_panels)
        atomic_store(&screening->bytes, copy_bytes(s->head) + 2 * s->n_panels * sizeof(float));
}

cdz_screen *cdz_screening_want(cdz_screening *screening, bool several)
{
    if (screening->how == CDZ_SCREEN_OFF) return NULL;
    screening->asked = true;
    cdz_screen *s = screening->made;
    if (!s || s->done < s->n_panels) return NULL;
    return cdz_rest_goes_on(&s->rest[several]) ? NULL : s;
}

size_t cdz_screen_width(const cdz_screen *screen)
{
    return screen->head->k;
}

uint32_t cdz_screen_most(const cdz_screen *screen)
{
    return screen->rows_most;
}

/* --- exact scores --------------------------------------------------------------------------------------------------- */

/* Sixteens [from, to) of the head, which is what their rows would be alone. */
static cdz_weight part_of(const cdz_weight *head, size_t from, size_t to)
{
    const size_t first = from * PANEL, end = to * PANEL < head->n ? to * PANEL : head->n;
    const char *data = (const char *)head->data + first * cdz_row_bytes(head->dtype, head->k);
    return (cdz_weight){data, head->dtype, end - first, head->k, head->form};
}

/* The first sixteen from p on that has a bit; n_panels: none. */
static size_t next_of(const cdz_screen *s, const uint64_t *bits, size_t p)
{
    while (p < s->n_panels) {
        const uint64_t left = bits[p / 64] >> p % 64;
        if (left) return p + (size_t)__builtin_ctzll(left);
        p = (p / 64 + 1) * 64;
    }
    return s->n_panels;
}

static void want(cdz_screen *s, size_t p)
{
    s->want[p / 64] |= (uint64_t)1 << p % 64;
}

static void flush(cdz_screen *s, cdz_backend *b, const float *x)
{
    if (s->n_products) b->api->matmul(b, s->products, s->n_products, x, s->head->k, 1);
    s->n_products = 0;
}

/* The scores of those that are wanted and not there yet, in their places of the row. */
static void make_exact(cdz_screen *s, cdz_backend *b, const float *x, float *scores)
{
    for (size_t i = 0; i < s->n_words; i++) s->want[i] &= ~s->have[i];
    for (size_t p = next_of(s, s->want, 0), end; p < s->n_panels; p = next_of(s, s->want, end)) {
        for (end = p + 1; end < s->n_panels && cdz_bit_is_set(s->want, end);) end++;
        if (s->n_products == STRETCHES) flush(s, b, x);
        s->w[s->n_products] = part_of(s->head, p, end);
        s->products[s->n_products] =
            (cdz_product){.w = &s->w[s->n_products], .y = scores + p * PANEL, .ldy = s->head->n};
        s->n_products++;
        s->n_have += end - p;
    }
    flush(s, b, x);
    for (size_t i = 0; i < s->n_words; i++) s->have[i] |= s->want[i];
}

void cdz_screen_all(const cdz_screen *screen, cdz_backend *b, const float *x, uint32_t m, float *y)
{
    const cdz_product product = {.w = screen->head, .y = y, .ldy = screen->head->n};
    b->api->matmul(b, &product, 1, x, screen->head->k, m);
}

float cdz_screen_score(const cdz_screen *screen, cdz_backend *b, const float *x, int32_t id)
{
    float y[PANEL];
    const size_t p = (size_t)id / PANEL;
    const cdz_weight w = part_of(screen->head, p, p + 1);
    const cdz_product product = {.w = &w, .y = y, .ldy = PANEL};
    b->api->matmul(b, &product, 1, x, screen->head->k, 1);
    return y[(size_t)id % PANEL];
}

/* More than all that kernels may take for zero. */
static const float tiny = 1e-30f;

/* --- bounds --------------------------------------------------------------------------------------------------------- */

/* A score is off by at most lost * of_lost + norm * of_norm. */
typedef struct error_of {
    float of_lost, of_norm;
    double length; /* of the hidden state */
} error_of;

/* The copy is multiplied with activations that are rounded to int8 in blocks; the head with these too, with the ones rounded
 * to bf16 or with the ones as they are. What is left are the roundings of both sums, of which no chain is longer than k / 16,
 * or 3 k / 32 of activations in three parts, and a few more, each at most 2^-24 of a partial sum, which the norms' product
 * bounds: four times that is taken. */
static error_of error_for(const cdz_weight *head, const float *x)
{
    double squares = 0, off = 0;
    for (size_t from = 0; from < head->k; from += BLOCK) {
        float largest = 0.0f;
        for (size_t j = from; j < from + BLOCK; j++) largest = fmaxf(largest, fabsf(x[j]));
        const float d = largest < 0x1p-100f ? 0.0f : largest / 127.0f;
        for (size_t j = from; j < from + BLOCK; j++) {
            const double v = x[j], r = d > 0.0f ? v - rint(v / (double)d) * (double)d : v;
            squares += v * v;
            off += r * r;
        }
    }
    const double length = sqrt(squares), rounded = sqrt(off) * 1.001 + length * 1e-6;
    const bool same = head->form == CDZ_WEIGHT_INT8 || head->form == CDZ_WEIGHT_PANELS;
    const bool to_bf16 = head->form == CDZ_WEIGHT_BF16 || head->form == CDZ_WEIGHT_BF16X1;
    const double by_form = same ? 0.0 : to_bf16 ? rounded + length / 256 : rounded;
    const size_t chain = head->k / (head->form == CDZ_WEIGHT_BF16X3 ? 10 : 16) + 64;
    const double sums = (double)chain * 0x1p-22 * (length + rounded);
    return (error_of){(float)((length + rounded) * 1.0001), (float)((by_form + sums) * 1.0001),
                      length};
}

/* --- the search ----------------------------------------------------------------------------------------------------- */

typedef struct bounding {
    cdz_screen *screen;
    const float *scores; /* (rows, n_vocab) */
    error_of errors[CDZ_SCREEN_ROWS];
    size_t n_slices; /* of a row */
} bounding;

static float top_of(const float *x, size_t n)
{
    float most = x[0];
    if (n == PANEL) {
        float half[PANEL / 2];
        for (size_t i = 0; i < 8; i++) half[i] = x[i] > x[i + 8] ? x[i] : x[i + 8];
        for (size_t i = 0; i < 4; i++) half[i] = half[i] > half[i + 4] ? half[i] : half[i + 4];
        return higher(higher(half[0], half[2]), higher(half[1], half[3]));
    }
    for (size_t i = 1; i < n; i++) most = higher(most, x[i]);
    return most;
}

/* Of a slice of a row's sixteens: the highest score of each in the copy, and what it is at most. */
static void bound_slice(void *arg, size_t slice)
{
    const bounding *c = arg;
    cdz_screen *s = c->screen;
    const size_t row = slice / c->n_slices, first = slice % c->n_slices * SLICE;
    const size_t end = s->n_panels - first < SLICE ? s->n_panels : first + SLICE;
    const error_of *error = &c->errors[row];
    const float *scores = c->scores + row * s->head->n;
    float *top = s->top + row * s->n_panels, *bound = s->bound + row * s->n_panels;
    for (size_t p = first; p < end; p++) {
        top[p] = top_of(scores + p * PANEL, rows_of(s, p));
        bound[p] = top[p] + s->lost[p] * error->of_lost + s->norm[p] * error->of_norm + tiny;
    }
}

/* Puts x among the n highest so far, highest first; its companion goes with it. */
static void put_high(float *x, uint32_t *of, size_t n, float value, uint32_t what)
{
    size_t i = n - 1;
    if (!(value > x[i])) return;
    for (; i > 0 && value > x[i - 1]; i--) {
        x[i] = x[i - 1];
        if (of) of[i] = of[i - 1];
    }
    x[i] = value;
    if (of) of[i] = what;
}

/* The sixteens with the highest scores in the copy. */
static void want_highest(cdz_screen *s, const float *top, uint32_t least)
{
    enum { MOST = CDZ_SCREEN_LEAST + SEEDS };
    float x[MOST];
    uint32_t of[MOST];
    const size_t n = least + SEEDS;
    for (size_t i = 0; i < n; i++) x[i] = -INFINITY;
    for (size_t p = 0; p < s->n_panels; p++) put_high(x, of, n, top[p], (uint32_t)p);
    for (size_t i = 0; i < n; i++)
        if (x[i] > -INFINITY) want(s, of[i]);
}

/* The highest exact score that `least` tokens are not below, without those that are edited, whose ids rise. */
static float nth_of(const cdz_screen *s, const float *scores, const cdz_leaders *row)
{
    float x[CDZ_SCREEN_LEAST];
    uint32_t e = 0;
    for (size_t i = 0; i < row->least; i++) x[i] = -INFINITY;
    for (size_t p = next_of(s, s->have, 0); p < s->n_panels; p = next_of(s, s->have, p + 1)) {
        for (size_t id = p * PANEL; id < p * PANEL + rows_of(s, p); id++) {
            while (e < row->n_edited && (size_t)row->edited[e] < id) e++;
            if (e < row->n_edited && (size_t)row->edited[e] == id) continue;
            put_high(x, NULL, row->least, scores[id], 0);
        }
    }
    return x[row->least - 1];
}

/* Those that may have a score of at least `low`; returns how many are exact already or wanted. */
static size_t want_possible(cdz_screen *s, const float *bound, float low)
{
    size_t n = s->n_have;
    for (size_t p = 0; p < s->n_panels; p++)
        if (!(bound[p] < low) && !cdz_bit_is_set(s->have, p)) {
            want(s, p);
            n++;
        }
    return n;
}

static void want_edited(cdz_screen *s, const cdz_leaders *row)
{
    for (uint32_t i = 0; i < row->n_edited; i++) want(s, (size_t)row->edited[i] / PANEL);
}

/* The scores that are not below the least one wanted. */
static bool list(const cdz_screen *s, const float *scores, cdz_leaders *row)
{
    const float low = nth_of(s, scores, row);
    uint32_t n = 0;
    for (size_t p = next_of(s, s->have, 0); p < s->n_panels; p = next_of(s, s->have, p + 1)) {
        for (size_t id = p * PANEL; id < p * PANEL + rows_of(s, p); id++) {
            if (scores[id] < low) continue;
            if (n == CDZ_LEADERS_MOST) return false;
            row->ids[n] = (int32_t)id;
            row->x[n++] = scores[id];
        }
    }
    for (uint32_t i = 0; i < row->n_edited; i++) row->was[i] = scores[row->edited[i]];
    row->n = n;
    row->low = low;
    row->mass = 0.0;
    return true;
}

static bool tell_row(cdz_screen *s, cdz_backend *b, const float *x, uint32_t r, cdz_leaders *row,
                     float *scores)
{
    const float *top = s->top + r * s->n_panels, *bound = s->bound + r * s->n_panels;
    memset(s->have, 0, s->n_words * sizeof *s->have);
    memset(s->want, 0, s->n_words * sizeof *s->want);
    s->n_have = 0;
    want_highest(s, top, row->least);
    want_edited(s, row);
    make_exact(s, b, x, scores);
    if (want_possible(s, bound, nth_of(s, scores, row)) > s->most) return false;
    make_exact(s, b, x, scores);
    return list(s, scores, row);
}

uint32_t cdz_screen_tell(cdz_screen *screen, cdz_backend *b, const float *x, uint32_t m,
                         cdz_leaders *rows, float *scores)
{
    const size_t D = screen->head->k, V = screen->head->n;
    const cdz_product product = {.w = &screen->copy, .y = scores, .ldy = V};
    const bool several = rows[0].least > 1;
    bounding c = {
        .screen = screen, .scores = scores, .n_slices = (screen->n_panels + SLICE - 1) / SLICE};
    uint32_t told = 0;
    for (uint32_t r = 0; r < m; r++) {
        c.errors[r] = error_for(screen->head, x + r * D);
        /* where it is below nothing can overflow, nor be no number */
        if (!((double)screen->longest * (c.errors[r].length + 1) < 1e36)) rows[r].least = 0;
    }
    b->api->matmul(b, &product, 1, x, D, m);
    b->api->parallel(b, bound_slice, &c, m * c.n_slices);
    for (uint32_t r = 0; r < m; r++) {
        if (rows[r].least && !tell_row(screen, b, x + r * D, r, &rows[r], scores + r * V))
            rows[r].least = 0;
        told += rows[r].least > 0;
    }
    cdz_rest_note(&screen->rest[several], 2 * told >= m, LONGEST_REST);
    return told;
}
