/* body_fused.h - runs of divisions and cuts on a row that is only read (vec/fused.h).
 * A body: compiled once per instruction set; everything is static.
 *
 * One walk finds the maximum of every 64 elements, and of every 512. The k-th largest of those maxima is a lower bound of
 * the k-th largest element, so that all who could survive the first cut are gathered from few blocks; what follows
 * works on that list. Divisors change neither order nor who is largest, only the values that are compared: the list
 * is gathered a millionth too low and divided before the first comparison.
 *
 * Sums. Masked elements add +0 to a softmax, so a sum over the list in the lanes of the ids has the bits of the sum over
 * the row. Only a first cut by probability would need a sum over elements that nobody keeps; it is decided by bounds. */
#ifndef CDZ_HOST_VEC_BODY_FUSED_H
#define CDZ_HOST_VEC_BODY_FUSED_H

#include "vec/body_filter.h"
#include "vec/fused.h"

enum { LIST_MOST = 16384, FEW = 1024, LEAD_MOST = 4, LEAD_LEAST = 64 };

#define ROUNDING 0x1p-24
#define APART    1e-5 /* relative distance of probabilities that no rounding bridges */

/* Maxima of a row: of each 64 elements, and of each 8 of those. */
typedef struct relief {
    const float *x;
    size_t n, n_blocks, n_hills;
    float *block; /* (n_hills * 8), filled up with -inf */
    float *hill;  /* (n_hills) */
    float top;
    bool nan;
} relief;

/* One run on one row. */
typedef struct fusion {
    relief r;                 /* of a row that is known in part: its length alone */
    const cdz_leading *known; /* or NULL: the row is here */
    size_t n_known;           /* elements that can be a bound */
    float lead[LEAD_MOST];    /* divisors before the first cut */
    size_t n_lead;
    double divisor; /* their product */
    float top;      /* the largest score of the list */
    cdz_survivors s;
    size_t room;  /* of the list */
    float *a, *b; /* (room + LANES) each */
} fusion;

/* --- the walk ------------------------------------------------------------------------------------------------------- */

static lanes top_of_block(const float *x, lanes *marks)
{
    lanes top = l_set(-INFINITY);

    for (size_t i = 0; i < BLOCK; i += 2 * LANES) {
        const lanes v = l_load(x + i), w = l_load(x + i + LANES);
        *marks = l_mark_nan(*marks, v, w);
        top = l_max(top, l_max(v, w));
    }
    return top;
}

static float largest_of(const float *x, size_t n, bool *nan)
{
    float top = -INFINITY;

    for (size_t i = 0; i < n; i++) {
        *nan |= x[i] != x[i];
        top = x[i] > top ? x[i] : top;
    }
    return top;
}

/* Maxima of 8 neighbours each, n of them. */
static void fold_neighbours(float *out, const float *x, size_t n)
{
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        lanes each[LANES];
        for (size_t l = 0; l < LANES; l++) each[l] = l_load(x + (i + l) * LANES);
        l_store(out + i, l_max_each(each));
    }
    for (bool nan = false; i < n; i++) out[i] = largest_of(x + i * LANES, LANES, &nan);
}

static void survey(relief *r)
{
    const size_t whole = r->n / BLOCK;
    lanes marks = l_set(0.0f);
    size_t b = 0;

    for (; b + LANES <= whole; b += LANES) {
        lanes each[LANES];
        for (size_t l = 0; l < LANES; l++) each[l] = top_of_block(r->x + (b + l) * BLOCK, &marks);
        l_store(r->block + b, l_max_each(each));
    }
    r->nan = l_marked(marks) != 0;
    for (; b < r->n_blocks; b++) {
        const size_t first = b * BLOCK, left = r->n - first;
        r->block[b] = largest_of(r->x + first, left < BLOCK ? left : (size_t)BLOCK, &r->nan);
    }
    for (; b < r->n_hills * LANES; b++) r->block[b] = -INFINITY;
    fold_neighbours(r->hill, r->block, r->n_hills);
    r->top = maximum(r->hill, r->n_hills);
}

/* --- the k-th largest of few -------------------------------------------------------------------------------------------- */

static float middle(float a, float b, float c)
{
    const float low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

/* Puts what is above the pivot first; returns where it ends. Neither part is all of v. */
static size_t split_few(float *v, size_t n, float pivot)
{
    size_t i = 0, j = n - 1;

    for (;; i++, j--) {
        while (v[i] > pivot) i++;
        while (v[j] < pivot) j--;
        if (i >= j) return i > 0 ? i : 1;
        const float t = v[i];
        v[i] = v[j];
        v[j] = t;
    }
}

/* The k-th largest of v, k from 1 to n, no NaN; v is left in disorder. */
static float kth_of_few(float *v, size_t n, size_t k)
{
    if (n > FEW) return cdz_unrank_up(cdz_order_kth_largest(v, n, k));
    while (n > 8) {
        const size_t cut = split_few(v, n, middle(v[0], v[n / 2], v[n - 1]));
        if (k <= cut) {
            n = cut;
        } else {
            v += cut;
            n -= cut;
            k -= cut;
        }
    }
    for (size_t i = 1; i < n; i++) {
        const float t = v[i];
        size_t at = i;
        for (; at > 0 && v[at - 1] < t; at--) v[at] = v[at - 1];
        v[at] = t;
    }
    return v[k - 1];
}

/* --- the list ----------------------------------------------------------------------------------------------------------- */

/* So low that nothing below it, once divided, equals something that is not below x. Finite: -inf is masked. */
static float lowered(float x)
{
    const float low = x - (fabsf(x) * 1e-6f + 1e-30f);
    return low > -FLT_MAX ? low : -FLT_MAX;
}

static bool is_whole(const cdz_leading *l)
{
    return l->low <= -FLT_MAX;
}

static float bound_of_known(fusion *f, size_t k)
{
    const cdz_leading *l = f->known;

    if (is_whole(l) && k >= l->n) return -INFINITY; /* the list is all there is */
    if (k > f->n_known) return NAN;
    memcpy(f->a, l->x, l->n * sizeof *f->a);
    return kth_of_few(f->a, l->n, k);
}

/* At least k elements are not below what comes back; -inf in rows so short that the list holds them, NaN when there are
 * too few blocks to tell. */
static float bound_of_kth(fusion *f, size_t k)
{
    const relief *r = &f->r;
    const bool by_hills = k <= r->n_hills / 3, by_blocks = k <= r->n_blocks / 2;
    const size_t n = by_hills ? r->n_hills : r->n_blocks;

    if (f->known) return bound_of_known(f, k);
    if (!by_hills && !by_blocks && r->n <= f->room) return -INFINITY;
    if ((!by_hills && !by_blocks) || n > f->room) return NAN;
    memcpy(f->a, by_hills ? r->hill : r->block, n * sizeof *f->a);
    return kth_of_few(f->a, n, k);
}

static void gather_block(fusion *f, size_t first, size_t len, float bound)
{
    const float *x = f->r.x + first;
    size_t i = 0;

    for (; i + LANES <= len; i += LANES) {
        unsigned bits = 0xffu & ~l_bits_less(l_load(x + i), l_set(bound));
        for (; bits != 0; bits &= bits - 1) {
            const size_t at = i + (size_t)__builtin_ctz(bits);
            f->s.ids[f->s.n] = (int32_t)(first + at);
            f->s.x[f->s.n++] = x[at];
        }
    }
    for (; i < len; i++) {
        if (x[i] < bound) continue;
        f->s.ids[f->s.n] = (int32_t)(first + i);
        f->s.x[f->s.n++] = x[i];
    }
}

static void retain(cdz_survivors *s, float t)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->n; i++) {
        if (s->x[i] < t) continue;
        s->ids[kept] = s->ids[i];
        s->x[kept++] = s->x[i];
    }
    s->n = kept;
}

static bool gather_known(fusion *f, float bound)
{
    const cdz_leading *l = f->known;

    if (bound < l->low) return false;
    memcpy(f->s.ids, l->ids, l->n * sizeof *l->ids);
    memcpy(f->s.x, l->x, l->n * sizeof *l->x);
    f->s.n = l->n;
    retain(&f->s, bound);
    return true;
}

/* All elements not below the bound, by rising id; false: too many. */
static bool gather_list(fusion *f, float bound)
{
    const relief *r = &f->r;

    if (f->known) return gather_known(f, bound);
    f->s.n = 0;
    for (size_t h = 0; h < r->n_hills; h++) {
        if (r->hill[h] < bound) continue;
        for (size_t b = h * LANES; b < (h + 1) * LANES && b < r->n_blocks; b++) {
            if (r->block[b] < bound) continue;
            const size_t first = b * BLOCK, left = r->n - first;
            const size_t len = left < BLOCK ? left : (size_t)BLOCK;
            if (f->s.n + len > f->room) return false;
            gather_block(f, first, len, bound);
        }
    }
    return true;
}

/* Divides the list; what becomes -inf is masked. False: the largest is finite no more. */
static bool divide_list(fusion *f, float divisor)
{
    divide(f->s.x, f->s.n, divisor);
    retain(&f->s, -FLT_MAX);
    f->top = maximum(f->s.x, f->s.n);
    return f->s.n > 0 && f->top < INFINITY;
}

static bool take_lead(fusion *f)
{
    f->top = maximum(f->s.x, f->s.n);
    for (size_t i = 0; i < f->n_lead; i++)
        if (!divide_list(f, f->lead[i])) return false;
    return f->s.n > 0;
}

/* A score after the leading divisions. */
static float led(const fusion *f, float x)
{
    for (size_t i = 0; i < f->n_lead; i++) x /= f->lead[i];
    return x;
}

/* --- cuts of a list -------------------------------------------------------------------------------------------------------- */

static cdz_fusing list_topk(fusion *f, size_t k)
{
    if (k >= f->s.n) return CDZ_FUSED;
    memcpy(f->a, f->s.x, f->s.n * sizeof *f->a);
    retain(&f->s, kth_of_few(f->a, f->s.n, k));
    return CDZ_FUSED;
}

static void sort_few(uint32_t *keys, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const uint32_t key = keys[i];
        size_t at = i;
        for (; at > 0 && keys[at - 1] > key; at--) keys[at] = keys[at - 1];
        keys[at] = key;
    }
}

/* The list's scores, ascending, into a; uses b. */
static void sort_list(fusion *f)
{
    uint32_t *const keys = (uint32_t *)(void *)f->a;

    for (size_t i = 0; i < f->s.n; i++) keys[i] = cdz_rank_up(f->s.x[i]);
    if (f->s.n <= 64)
        sort_few(keys, f->s.n);
    else
        cdz_order_radix_keys(keys, (uint32_t *)(void *)f->b, f->s.n);
    for (size_t i = 0; i < f->s.n; i++) f->a[i] = cdz_unrank_up(keys[i]);
}

/* keep_topp_sorted on the row that the list stands for. */
static cdz_fusing list_topp(fusion *f, const cdz_form *form)
{
    const size_t len = f->s.n, keep = form->count > 0 ? (size_t)form->count : 1;
    const float limit = (float)(1.0 - form->amount);

    sort_list(f);
    size_t gone = head_below(f->a, len, f->r.n - len, f->top, limit, f->b);
    if (gone + keep > len) gone = keep < len ? len - keep : 0;
    if (gone == 0) return CDZ_FUSED;
    if (f->a[gone - 1] == f->a[gone]) return CDZ_FUSE_TIE;
    retain(&f->s, f->a[gone]);
    return CDZ_FUSED;
}

/* The sum of a softmax: each term in the lane of its id; rows shorter than the lanes from left to right. */
static float list_total(const cdz_survivors *s, const float *e, size_t n)
{
    float at[LANES] = {0};

    if (n < LANES) return sum_from_left(e, s->n);
    for (size_t i = 0; i < s->n; i++) at[(size_t)s->ids[i] % LANES] += e[i];
    return l_total(l_load(at));
}

/* Probabilities of the list into p. */
static void list_softmax(const cdz_survivors *s, size_t n, float top, float *p)
{
    if (p != s->x) memcpy(p, s->x, s->n * sizeof *p);
    add(p, s->n, -top);
    exponential(p, s->n);
    mul(p, s->n, 1.0f / list_total(s, p, n));
}

/* The keep-th largest of p, so that exactly `keep` are not below it; 0: all are kept. NaN: a tie. */
static float keep_line(fusion *f, const float *p, size_t keep)
{
    float below = 0.0f;
    size_t count = 0;

    if (keep <= 1) return INFINITY; /* the largest stays anyhow */
    if (keep >= f->s.n) return minimum(p, f->s.n) > 1e-30f ? 0.0f : NAN;
    memcpy(f->b, p, f->s.n * sizeof *f->b);
    const float line = kth_of_few(f->b, f->s.n, keep);
    for (size_t i = 0; i < f->s.n; i++) {
        count += p[i] >= line;
        below = p[i] < line && p[i] > below ? p[i] : below;
    }
    return count == keep && (double)below < (double)line * (1 - APART) ? line : NAN;
}

/* Masks where p is below t and below the line. */
static void retain_probable(cdz_survivors *s, const float *p, float t, float line)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->n; i++) {
        if (p[i] < t && !(p[i] >= line)) continue;
        s->ids[kept] = s->ids[i];
        s->x[kept++] = s->x[i];
    }
    s->n = kept;
}

static cdz_fusing list_minp(fusion *f, const cdz_form *form)
{
    const size_t keep = form->count < f->r.n ? (size_t)form->count : f->r.n;

    list_softmax(&f->s, f->r.n, f->top, f->a);
    const float t = (float)form->amount * maximum(f->a, f->s.n), line = keep_line(f, f->a, keep);
    if (line != line) return CDZ_FUSE_TIE;
    retain_probable(&f->s, f->a, t, line);
    return CDZ_FUSED;
}

/* --- first cuts ---------------------------------------------------------------------------------------------------------------- */

static cdz_fusing first_topk(fusion *f, size_t k)
{
    const float bound = bound_of_kth(f, k);

    if (bound != bound || !gather_list(f, lowered(bound))) return CDZ_FUSE_MANY;
    if (!take_lead(f)) return CDZ_FUSE_VALUES;
    return list_topk(f, k);
}

/* Scores from which min-p may keep a token, divided no more; nothing below has a probability within APART of the
 * threshold. */
static double minp_bound(const fusion *f, double m)
{
    const double y = (double)f->top + log(m) - 1e-3 - fabs((double)f->top) * 1e-6;
    const double x = y * f->divisor;
    return x - fabs(x) * 1e-6;
}

/* With p = e / sum the sum falls out of p < m * max(p), but for roundings: exp(score - top) is compared with m itself. */
static cdz_fusing first_minp(fusion *f, const cdz_form *form)
{
    const size_t keep = form->count < f->r.n ? (size_t)form->count : f->r.n;
    const double m = (double)(float)form->amount;
    double bound = m > 1e-30 ? minp_bound(f, m) : 0.0;

    if (m <= 1e-30) return CDZ_FUSE_CLOSE;
    if (keep > 1) {
        const double other = (double)bound_of_kth(f, keep);
        if (other != other) return CDZ_FUSE_MANY;
        const double low = other - 1e-3 * f->divisor - fabs(other) * 1e-6;
        bound = low < bound ? low : bound;
    }
    if (!gather_list(f, lowered(bound > -FLT_MAX ? (float)bound : -FLT_MAX))) return CDZ_FUSE_MANY;
    if (!take_lead(f)) return CDZ_FUSE_VALUES;
    memcpy(f->a, f->s.x, f->s.n * sizeof *f->a);
    add(f->a, f->s.n, -f->top);
    exponential(f->a, f->s.n);
    const float line = keep_line(f, f->a, keep);
    if (line != line) return CDZ_FUSE_TIE;
    for (size_t i = 0; i < f->s.n; i++)
        if (f->a[i] < line && fabs((double)f->a[i] - m) <= APART * m) return CDZ_FUSE_CLOSE;
    retain_probable(&f->s, f->a, (float)form->amount, line);
    return CDZ_FUSED;
}

/* The sum of exp(score - top) over the row; *off: by fewer roundings it is off. */
static double mass_led(const fusion *f, double *off)
{
    *off = f->known ? f->known->mass_off : 16.0;
    if (f->known) return f->known->mass;
    const lanes top = l_set(f->top), divisor = l_set(f->n_lead ? f->lead[0] : 1.0f);
    double total = 0.0;

    for (size_t first = 0; first < f->r.n; first += BLOCK) {
        const size_t left = f->r.n - first, len = left < BLOCK ? left : (size_t)BLOCK;
        lanes s = l_set(0.0f);
        for (size_t i = 0; i < len; i += LANES) {
            const float *x = f->r.x + first + i;
            const lanes v = i + LANES <= len ? l_load(x) : l_load_part(x, len - i, -INFINITY);
            s = l_add(s, l_exp(l_sub(f->n_lead ? l_div(v, divisor) : v, top)));
        }
        total += (double)l_total(s);
    }
    return total;
}

/* Decides top-p's cut among the list, sorted in a, by bounds on what the reference's sums can be; *missing: if it lies
 * below, at least how many more elements it would take.
 *
 * The reference adds all elements ascending, in 8 lanes. A lane's partial sums are convex, so rounding them adds up to half
 * its length in roundings of what lies outside the list, and the list's length in roundings of the whole. That
 * scales every cumulated probability alike; our own sum errs by `off` roundings of the whole. MANY: the cut lies below the
 * list. */
static cdz_fusing topp_by_bounds(fusion *f, float limit, size_t keep, double mass, double off,
                                 double *missing)
{
    const size_t len = f->s.n;
    const double own = (16.0 + off) * ROUNDING;
    double in_list = 0.0, rest = mass; /* rest: of element i and all below it */

    sum_exp(f->b, f->a, len, f->top);
    for (size_t i = 0; i < len; i++) in_list += (double)f->b[i];
    const double outside = (mass > in_list ? (mass - in_list) / mass : 0.0) + own;
    const double scaled =
        (((double)f->r.n / 16 + 2) * outside + (double)len / LANES + 16) * ROUNDING;
    for (size_t i = len; i-- > 0;) {
        const double low = (rest / mass - own) * (1 - scaled);
        const double high = (rest / mass + own) * (1 + scaled);
        if (len - 1 - i >= keep && low <= (double)limit) {
            if (high > (double)limit) return CDZ_FUSE_CLOSE;
            if (f->a[i] == f->a[i + 1]) return CDZ_FUSE_TIE;
            retain(&f->s, f->a[i + 1]);
            return CDZ_FUSED;
        }
        rest -= (double)f->b[i];
    }
    *missing = (rest - (double)limit * mass) / (double)f->b[0];
    return CDZ_FUSE_MANY;
}

static cdz_fusing first_topp(fusion *f, const cdz_form *form)
{
    const float limit = (float)(1.0 - form->amount);
    const size_t keep = form->count > 0 ? (size_t)form->count : 1;
    size_t most = f->r.n <= TOPP_SHORT ? f->r.n : f->r.n_blocks / 2;
    double mass = 0.0, off = 0.0;

    if (f->known && !is_whole(f->known)) most = f->n_known;
    if (most == 0) return CDZ_FUSE_MANY;

    for (size_t look = TOPP_LOOK; look < 8 * most || (most == f->r.n && !f->known); look *= 8) {
        const bool part = look < most && (most < f->r.n || f->known);
        const float bound = bound_of_kth(f, part ? look : most);
        if (bound != bound || !gather_list(f, lowered(bound))) return CDZ_FUSE_MANY;
        if (!take_lead(f)) return CDZ_FUSE_VALUES;
        if (bound == -INFINITY) return list_topp(f, form); /* the list is all there is */
        if (mass == 0.0) mass = mass_led(f, &off);
        if (mass == 0.0) return CDZ_FUSE_MANY;
        sort_list(f);
        double missing;
        const cdz_fusing verdict = topp_by_bounds(f, limit, keep, mass, off, &missing);
        if (verdict != CDZ_FUSE_MANY || missing > (double)most) return verdict;
    }
    return CDZ_FUSE_MANY;
}

/* --- a run ------------------------------------------------------------------------------------------------------------------------ */

static cdz_fusing first_cut(fusion *f, const cdz_form *form)
{
    if (form->kind == CDZ_FORM_KEEP_TOPK) return first_topk(f, (size_t)form->count);
    if (form->kind == CDZ_FORM_KEEP_MINP) return first_minp(f, form);
    /* one division is what the sum over the row is written for */
    return f->n_lead > 1 ? CDZ_FUSE_MANY : first_topp(f, form);
}

static cdz_fusing next_form(fusion *f, const cdz_form *form)
{
    if (cdz_form_is_void(form, f->r.n)) return CDZ_FUSED;
    switch (form->kind) {
    case CDZ_FORM_DIVIDE: return divide_list(f, (float)form->amount) ? CDZ_FUSED : CDZ_FUSE_VALUES;
    case CDZ_FORM_KEEP_TOPK: return list_topk(f, (size_t)form->count);
    case CDZ_FORM_KEEP_TOPP: return list_topp(f, form);
    default: return list_minp(f, form);
    }
}

/* Cuts the scratch memory up. */
static void lay_out(fusion *f, const float *x, size_t n, void *scratch)
{
    const size_t room = n < LIST_MOST ? n : (size_t)LIST_MOST, step = room + LANES;
    float *at = scratch;

    *f = (fusion){.r = {.x = x, .n = n}, .room = room, .divisor = 1.0};
    f->r.n_blocks = (n + BLOCK - 1) / BLOCK;
    f->r.n_hills = (f->r.n_blocks + LANES - 1) / LANES;
    f->s.x = at;
    f->s.ids = (int32_t *)(void *)(at + step);
    f->a = at + 2 * step;
    f->b = at + 3 * step;
    f->r.block = at + 4 * step;
    f->r.hill = f->r.block + f->r.n_hills * LANES;
}

/* The divisions before the first cut; returns the cut's place, n_forms: it cannot be done. */
static size_t note_lead(fusion *f, const cdz_form *forms, size_t n_forms)
{
    size_t i = 0;

    for (; i < n_forms && (forms[i].kind == CDZ_FORM_DIVIDE || cdz_form_is_void(&forms[i], f->r.n));
         i++) {
        if (forms[i].kind != CDZ_FORM_DIVIDE) continue;
        if (f->n_lead == LEAD_MOST) return n_forms;
        f->lead[f->n_lead++] = (float)forms[i].amount;
        f->divisor *= forms[i].amount;
    }
    return i;
}

/* From the cut forms[i] on; the row's largest is known. */
static cdz_fusing run_from(fusion *f, const cdz_form *forms, size_t i, size_t n_forms)
{
    f->top = led(f, f->r.top);
    if (f->r.nan || !(f->top > -INFINITY && f->top < INFINITY)) return CDZ_FUSE_VALUES;
    cdz_fusing verdict = first_cut(f, &forms[i]);
    while (verdict == CDZ_FUSED && ++i < n_forms) {
        f->top = maximum(f->s.x, f->s.n);
        verdict = next_form(f, &forms[i]);
    }
    return verdict;
}

static cdz_fusing fused_run(const float *x, size_t n, const cdz_form *forms, size_t n_forms,
                            cdz_survivors *out, void *scratch)
{
    fusion f;

    lay_out(&f, x, n, scratch);
    const size_t i = note_lead(&f, forms, n_forms);
    if (i == n_forms) return CDZ_FUSE_MANY;
    survey(&f.r);
    const cdz_fusing verdict = run_from(&f, forms, i, n_forms);
    *out = f.s;
    return verdict;
}

static cdz_fusing fused_run_leading(const cdz_leading *row, size_t n, const cdz_form *forms,
                                    size_t n_forms, cdz_survivors *out, void *scratch)
{
    fusion f;

    lay_out(&f, NULL, n, scratch);
    const size_t i = note_lead(&f, forms, n_forms);
    if (i == n_forms || row->n > f.room || row->n == 0) return CDZ_FUSE_MANY;
    f.known = row;
    for (size_t k = 0; k < row->n; k++) f.n_known += lowered(row->x[k]) >= row->low;
    f.r.top = maximum(row->x, row->n);
    const cdz_fusing verdict = run_from(&f, forms, i, n_forms);
    *out = f.s;
    return verdict;
}

/* --- leaders ------------------------------------------------------------------------------------------------------------------------ */

static cdz_fusing fused_lead(const float *x, size_t n, cdz_survivors *out, float *low, void *scratch)
{
    fusion f;

    lay_out(&f, x, n, scratch);
    const size_t half = f.r.n_blocks / 2, k = half < CDZ_LEAD ? half : (size_t)CDZ_LEAD;
    if (k < LEAD_LEAST) return CDZ_FUSE_MANY;
    survey(&f.r);
    if (f.r.nan || !(f.r.top > -INFINITY && f.r.top < INFINITY)) return CDZ_FUSE_VALUES;
    *low = bound_of_kth(&f, k);
    if (!gather_list(&f, *low > -FLT_MAX ? *low : -FLT_MAX)) return CDZ_FUSE_MANY;
    *out = f.s;
    return CDZ_FUSED;
}

static cdz_fusing fused_lead_leading(const cdz_leading *row, size_t n, const cdz_form *forms,
                                     size_t n_forms, cdz_survivors *out, float *low, void *scratch)
{
    fusion f;

    lay_out(&f, NULL, n, scratch);
    if (n_forms > LEAD_MOST || note_lead(&f, forms, n_forms) < n_forms || row->n > f.room)
        return CDZ_FUSE_MANY;
    f.known = row;
    if (!gather_known(&f, row->low) || !take_lead(&f)) return CDZ_FUSE_VALUES;
    if (!(f.top < INFINITY)) return CDZ_FUSE_VALUES;
    *low = is_whole(row) ? -INFINITY : led(&f, row->low);
    *out = f.s;
    return CDZ_FUSED;
}

static void fused_softmax(cdz_survivors *s, size_t n)
{
    list_softmax(s, n, maximum(s->x, s->n), s->x);
}

static void fused_write(const cdz_survivors *s, float *x, size_t n)
{
    fill(x, n, -INFINITY);
    for (size_t i = 0; i < s->n; i++) x[s->ids[i]] = s->x[i];
}

#endif
