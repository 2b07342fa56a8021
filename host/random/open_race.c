/* open_race.c - the race of open_race.h: leaders run with their exact p / q, the others only where their noise is small
 * enough, found block by block in the bits of the generator. Invariant: the stream ends where the race of the whole row
 * leaves it, or, where the race is void (two come closer than roundings reach), where it began. */
#include "random/open_race.h"

#include <math.h>

#include "random/mt19937.h"
#include "random/noise.h"
#include "random/wide.h"
#include "vec/vec.h"

enum { DOUBTS_MOST = 64, ASKED_MOST = 8, TOGETHER = 64 };

/* Relative distance of two ratios that no rounding bridges: the reference rounds score - top, which may be 100, the exponential,
 * the product with 1 / sum, and p / q to float32. */
#define APART 1e-5

/* The best ratio is seldom below this: it is the sum of all p over noise of rate 1, and that sum is at least one. What lies below
 * need not be looked at while there is no better one. */
#define LEAST_BEST 0.125

cdz_field cdz_field_of(cdz_survivors *leaders, float low, size_t n_vocab)
{
    const cdz_vec *vec = cdz_vec_table();
    const float top = vec->max(leaders->x, leaders->n);
    cdz_fuser_here()->softmax(leaders, n_vocab);
    const double top_p = (double)vec->max(leaders->x, leaders->n);
    return (cdz_field){.ids = leaders->ids,
                       .p = leaders->x,
                       .n = leaders->n,
                       .top_p = top_p,
                       .others = top_p * exp((double)low - (double)top),
                       .top = top};
}

typedef struct open_race {
    const cdz_field *field;
    size_t next; /* leader */
    int32_t winner;
    double best, second; /* ratios */
    struct doubt {
        int32_t id;
        float q;
    } doubts[DOUBTS_MOST]; /* others whose scores are not here, and who may be the best */
    size_t n_doubts;
    bool is_void;
} open_race;

static void finish(open_race *r, int32_t id, double p, float q)
{
    if (!(q > 0.0f)) r->is_void = true; /* p / 0 */
    const double ratio = p / (double)q;
    if (ratio > r->best) {
        r->second = r->best;
        r->best = ratio;
        r->winner = id;
    } else if (ratio > r->second) {
        r->second = ratio;
    }
}

/* Is p / q far below the best for every q that is not below u? */
static bool is_out(const open_race *r, double p, double u)
{
    return p * (1 + 2 * APART) < r->best * u;
}

static void run_leader(open_race *r, double u)
{
    const cdz_field *f = r->field;
    const double p = (double)f->p[r->next];
    if (!is_out(r, p, u)) finish(r, f->ids[r->next], p, cdz_exponential(u));
    r->next++;
}

static double p_of(const open_race *r, float x)
{
    return r->field->top_p * exp((double)x - (double)r->field->top);
}

/* Those that are out by now go. */
static void settle_doubts(open_race *r)
{
    size_t left = 0;
    for (size_t i = 0; i < r->n_doubts; i++)
        if (!is_out(r, r->field->others, (double)r->doubts[i].q)) r->doubts[left++] = r->doubts[i];
    r->n_doubts = left;
}

static void run_other(open_race *r, int32_t id, double u)
{
    const cdz_field *f = r->field;
    if (is_out(r, f->others, u)) return;
    const float q = cdz_exponential(u);
    if (f->x) {
        finish(r, id, p_of(r, f->x[id]), q);
        return;
    }
    if (r->n_doubts == DOUBTS_MOST) settle_doubts(r);
    if (r->n_doubts < DOUBTS_MOST)
        r->doubts[r->n_doubts++] = (struct doubt){id, q};
    else
        r->is_void = true;
}

static bool leads(const open_race *r, int32_t id)
{
    return r->next < r->field->n && r->field->ids[r->next] == id;
}

/* Upper bits of the noise above which nobody but a leader has a chance. */
static uint32_t limit_of(const open_race *r)
{
    const double u = r->field->others * (1 + 2 * APART) / r->best;
    return u < 1.0 ? (uint32_t)(u * CDZ_WIDE_NOISE) : UINT32_MAX;
}

/* Those of tokens [first, first + n) who are no leaders and have a chance; words: two for each, of which the first is the
 * state's number `at`. lead: the first leader from there on. */
static void run_others(open_race *r, cdz_torch_rng *rng, size_t first, size_t n, uint32_t at,
                       size_t lead)
{
    const cdz_field *f = r->field;
    const uint32_t limit = limit_of(r);
    if (cdz_wide_here()->least(rng->state + at, n) > limit) return;
    for (size_t k = 0; k < n; k++) {
        const int32_t id = (int32_t)(first + k);
        while (lead < f->n && f->ids[lead] < id) lead++;
        if (lead < f->n && f->ids[lead] == id) continue;
        if ((cdz_mt_temper(rng->state[at + 2 * k]) & CDZ_WIDE_MASK) > limit) continue;
        rng->at = at + 2 * (uint32_t)k;
        run_other(r, id, cdz_uniform53(rng));
    }
}

/* Tokens [first, first + n), whose 2 * n words lie in the state and not beyond it: the leaders first, who raise the bar. */
static void run_block(open_race *r, cdz_torch_rng *rng, size_t first, size_t n)
{
    const cdz_field *f = r->field;
    const uint32_t at = rng->at;
    const size_t lead = r->next;
    while (r->next < f->n && (size_t)f->ids[r->next] < first + n) {
        rng->at = at + 2 * (uint32_t)((size_t)f->ids[r->next] - first);
        run_leader(r, cdz_uniform53(rng));
    }
    for (size_t k = 0; k < n && f->others > 0.0; k += TOGETHER) {
        const size_t left = n - k < TOGETHER ? n - k : TOGETHER;
        run_others(r, rng, first + k, left, at + 2 * (uint32_t)k, lead);
    }
    rng->at = at + 2 * (uint32_t)n;
}

static void run_all(open_race *r, cdz_torch_rng *rng, size_t n_vocab)
{
    for (size_t i = 0; i < n_vocab && !r->is_void;) {
        if (rng->at + 2 > CDZ_MT_WORDS) { /* the next token's words are not both here */
            const double u = cdz_uniform53(rng);
            if (leads(r, (int32_t)i))
                run_leader(r, u);
            else if (r->field->others > 0.0)
                run_other(r, (int32_t)i, u);
            i++;
            continue;
        }
        const size_t here = (CDZ_MT_WORDS - rng->at) / 2, left = n_vocab - i;
        const size_t n = here < left ? here : left;
        run_block(r, rng, i, n);
        i += n;
    }
}

static void ask_doubts(open_race *r)
{
    const cdz_field *f = r->field;
    settle_doubts(r);
    if (r->n_doubts > ASKED_MOST || (r->n_doubts && !f->score)) r->is_void = true;
    for (size_t i = 0; i < r->n_doubts && !r->is_void; i++) {
        const float x = f->score(f->of, r->doubts[i].id);
        r->is_void = isnan(x);
        finish(r, r->doubts[i].id, p_of(r, x), r->doubts[i].q);
    }
}

int32_t cdz_torch_open_race(cdz_torch_rng *rng, const cdz_field *field, size_t n_vocab)
{
    const cdz_torch_rng before = *rng;
    open_race r = {.field = field, .winner = -1, .best = LEAST_BEST, .second = LEAST_BEST};
    run_all(&r, rng, n_vocab);
    ask_doubts(&r);
    if (!r.is_void && r.winner >= 0 && r.best > r.second * (1 + APART)) return r.winner;
    *rng = before;
    return -1;
}

int32_t cdz_torch_draw_scores(cdz_torch_rng *rng, const float *x, size_t n, void *scratch)
{
    cdz_survivors s;
    float low;
    if (cdz_fuser_here()->lead(x, n, &s, &low, scratch) != CDZ_FUSED) return -1;
    cdz_field field = cdz_field_of(&s, low, n);
    field.x = x;
    return cdz_torch_open_race(rng, &field, n);
}
