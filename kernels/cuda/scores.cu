/* scores.cu - launches of the kernels that look at rows of scores, and the little that they send to the host. */
#include "cuda_backend.h"
#include "scores.cuh"

void cuda_argmax(cdz_backend *base, int32_t *ids, const float *x, size_t ldx, size_t m, size_t n)
{
    cuda_backend *b = cuda_of(base);
    const size_t slices = (n + SCORE_SLICE - 1) / SCORE_SLICE, bytes = m * sizeof *ids;
    memset(ids, 0, bytes); /* what the host reads is defined whatever happens */
    if (m == 0 || n == 0) return;
    char *work = static_cast<char *>(
        cuda_work_memory(b, CUDA_WORK_RESULT, m * slices * sizeof(uint64_t) + bytes));
    if (!work) return;
    uint64_t *best = reinterpret_cast<uint64_t *>(work);
    int32_t *found = reinterpret_cast<int32_t *>(best + m * slices);
    gpu_launch(b->g, "best_of_slices", best_of_slices, {m * slices, SCORE_THREADS, 0}, best,
               score_view{x, ldx}, n, slices);
    gpu_launch(b->g, "best_of_rows", best_of_rows, {m, SCORE_THREADS, 0}, found, best, slices);
    cuda_download(base, ids, found, bytes);
}

/* ---- the best of a row ---- */

/* Results lie side by side, so that they come over in one copy: heads, masses, ids, values. */
struct lead_places {
    size_t mass, ids, values, bytes;
};

static lead_places places_of(size_t m, size_t slices)
{
    lead_places p;
    p.mass = (m * sizeof(lead_head) + 7) / 8 * 8;
    p.ids = p.mass + m * slices * sizeof(double);
    p.values = p.ids + m * CDZ_LEADERS_MOST * sizeof(int32_t);
    p.bytes = p.values + m * CDZ_LEADERS_MOST * sizeof(float);
    return p;
}

/* The wishes, there. */
static const lead_wish *wishes_of(cuda_backend *b, const cdz_leaders *rows, size_t m, bool *mass)
{
    lead_wish *wish = reinterpret_cast<lead_wish *>(cuda_scratch(b, m * sizeof(lead_wish)));
    if (!wish) return nullptr;
    *mass = false;
    for (size_t r = 0; r < m; r++) {
        wish[r] = {rows[r].least, rows[r].divisor};
        *mass |= rows[r].least > 0 && rows[r].divisor != 0.0f;
    }
    return static_cast<const lead_wish *>(
        cuda_on_device(b, CUDA_FACTORS, wish, m * sizeof(lead_wish)));
}

static bool place_call(cuda_backend *b, lead_call *c, const lead_places *p, size_t m)
{
    char *result = static_cast<char *>(cuda_work_memory(b, CUDA_WORK_RESULT, p->bytes));
    c->tops =
        static_cast<float *>(cuda_work_memory(b, CUDA_WORK_INPUT, m * c->n_spans * sizeof(float)));
    if (!result || !c->tops) return false;
    c->head = reinterpret_cast<lead_head *>(result);
    c->mass = reinterpret_cast<double *>(result + p->mass);
    c->ids = reinterpret_cast<int32_t *>(result + p->ids);
    c->values = reinterpret_cast<float *>(result + p->values);
    return true;
}

static void tell(cdz_leaders *row, const char *result, const lead_places *p, size_t r, size_t slices)
{
    const lead_head head = reinterpret_cast<const lead_head *>(result)[r];
    const double *mass = reinterpret_cast<const double *>(result + p->mass) + r * slices;
    row->n = head.n;
    row->low = head.low;
    for (size_t s = 0; row->divisor != 0.0f && s < slices; s++) row->mass += mass[s];
    if (row->n > CDZ_LEADERS_MOST) return;
    const size_t first = r * CDZ_LEADERS_MOST * sizeof(float);
    memcpy(row->ids, result + p->ids + first, row->n * sizeof *row->ids);
    memcpy(row->x, result + p->values + first, row->n * sizeof *row->x);
}

void cuda_leaders(cdz_backend *base, cdz_leaders *rows, const float *x, size_t ldx, size_t m,
                  size_t n)
{
    cuda_backend *b = cuda_of(base);
    for (size_t r = 0; r < m; r++) { /* what the host reads is defined whatever happens */
        rows[r].n = CDZ_LEADERS_MOST + 1;
        rows[r].low = INFINITY;
        rows[r].mass = 0.0;
    }
    if (m == 0 || n == 0) return;
    lead_call c = {};
    c.x = x;
    c.ld = ldx;
    c.n = n;
    for (c.span = 64; (n + c.span - 1) / c.span > LEAD_SPANS;) c.span *= 2;
    c.n_spans = (n + c.span - 1) / c.span;
    c.slices = (n + SCORE_SLICE - 1) / SCORE_SLICE;
    const size_t groups = (c.n_spans + LEAD_GROUP - 1) / LEAD_GROUP;
    const lead_places p = places_of(m, c.slices);
    bool mass;
    c.wish = wishes_of(b, rows, m, &mass);
    if (!c.wish || !place_call(b, &c, &p, m)) return;
    gpu_launch(b->g, "lead_survey", lead_survey, {m * groups, SCORE_THREADS, 0}, c, groups);
    gpu_launch(b->g, "lead_pick", lead_pick, {m, SCORE_THREADS, 0}, c);
    if (mass) gpu_launch(b->g, "lead_mass", lead_mass, {m * c.slices, SCORE_THREADS, 0}, c);
    char *result = cuda_scratch(b, p.bytes);
    if (!result) return;
    cuda_download(base, result, c.head, p.bytes);
    for (size_t r = 0; r < m && !base->api->trouble(base); r++)
        if (rows[r].least > 0) tell(&rows[r], result, &p, r, c.slices);
}
