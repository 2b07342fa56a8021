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

/* Edited scores are a few more each step: memory for results grows in steps. */
static constexpr size_t RESULT_STEP = (size_t)64 << 10;

/* Results lie side by side, so that they come over in one copy: heads, masses, ids, values, edited scores. */
struct lead_places {
    size_t mass, ids, values, was, n_was, bytes;
};

static lead_places places_of(size_t m, size_t slices, size_t n_edited)
{
    lead_places p;
    p.mass = (m * sizeof(lead_head) + 7) / 8 * 8;
    p.ids = p.mass + m * slices * sizeof(double);
    p.values = p.ids + m * CDZ_LEADERS_MOST * sizeof(int32_t);
    p.was = p.values + m * CDZ_LEADERS_MOST * sizeof(float);
    p.n_was = n_edited;
    p.bytes = p.was + n_edited * sizeof(float);
    return p;
}

static size_t count_edited(const cdz_leaders *rows, size_t m)
{
    size_t n = 0;
    for (size_t r = 0; r < m; r++) n += rows[r].least > 0 ? rows[r].n_edited : 0;
    return n;
}

/* Where the edited scores are, there. */
static const lead_place *edited_of(cuda_backend *b, const cdz_leaders *rows, size_t m, size_t n)
{
    lead_place *places = reinterpret_cast<lead_place *>(cuda_scratch(b, n * sizeof(lead_place)));
    if (!places) return nullptr;
    lead_place *to = places;
    for (size_t r = 0; r < m; r++)
        for (uint32_t i = 0; rows[r].least > 0 && i < rows[r].n_edited; i++)
            *to++ = {(uint32_t)r, rows[r].edited[i]};
    return static_cast<const lead_place *>(
        cuda_on_device(b, CUDA_IDS, places, n * sizeof(lead_place)));
}

static bool is_masked(const cdz_leaders &row)
{
    return row.least > 0 && row.kept;
}

/* The masks of those rows that have one, one after the other, there. */
static const uint64_t *masks_of(cuda_backend *b, const cdz_leaders *rows, size_t m, size_t n_words)
{
    size_t n = 0;
    for (size_t r = 0; r < m; r++) n += is_masked(rows[r]) ? n_words : 0;
    uint64_t *masks = reinterpret_cast<uint64_t *>(cuda_scratch(b, n * sizeof(uint64_t)));
    if (!masks) return nullptr;
    uint64_t *to = masks;
    for (size_t r = 0; r < m; r++) {
        if (!is_masked(rows[r])) continue;
        memcpy(to, rows[r].kept, n_words * sizeof *to);
        to += n_words;
    }
    return static_cast<const uint64_t *>(cuda_on_device(b, CUDA_MASKS, masks, n * sizeof *masks));
}

/* Finds the masks, if a row has one. */
static bool place_masks(cuda_backend *b, lead_call *c, const cdz_leaders *rows, size_t m)
{
    bool any = false;
    for (size_t r = 0; r < m; r++) any |= is_masked(rows[r]);
    c->n_words = (c->n + 63) / 64;
    c->masks = any ? masks_of(b, rows, m, c->n_words) : nullptr;
    return !any || c->masks;
}

/* The wishes, there. */
static const lead_wish *wishes_of(cuda_backend *b, const cdz_leaders *rows, size_t m, bool *mass)
{
    uint32_t n_masked = 0;
    lead_wish *wish = reinterpret_cast<lead_wish *>(cuda_scratch(b, m * sizeof(lead_wish)));
    if (!wish) return nullptr;
    *mass = false;
    for (size_t r = 0; r < m; r++) {
        wish[r] = {rows[r].least, rows[r].divisor, is_masked(rows[r]) ? ++n_masked : 0};
        *mass |= rows[r].least > 0 && rows[r].divisor != 0.0f;
    }
    return static_cast<const lead_wish *>(
        cuda_on_device(b, CUDA_FACTORS, wish, m * sizeof(lead_wish)));
}

static bool place_call(cuda_backend *b, lead_call *c, const lead_places *p, size_t m)
{
    const size_t bytes = (p->bytes + RESULT_STEP - 1) / RESULT_STEP * RESULT_STEP;
    char *result = static_cast<char *>(cuda_work_memory(b, CUDA_WORK_RESULT, bytes));
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

static void tell_all(cdz_leaders *rows, const char *result, const lead_places *p, size_t m,
                     size_t slices)
{
    const char *was = result + p->was;
    for (size_t r = 0; r < m; r++) {
        if (rows[r].least == 0) continue;
        tell(&rows[r], result, p, r, slices);
        const size_t bytes = rows[r].n_edited * sizeof(float);
        if (bytes) memcpy(rows[r].was, was, bytes);
        was += bytes;
    }
}

/* What the host reads is defined whatever happens. */
static void tell_nothing(cdz_leaders *rows, size_t m)
{
    for (size_t r = 0; r < m; r++) {
        rows[r].n = CDZ_LEADERS_MOST + 1;
        rows[r].low = INFINITY;
        rows[r].mass = 0.0;
        for (uint32_t i = 0; rows[r].least > 0 && i < rows[r].n_edited; i++) rows[r].was[i] = NAN;
    }
}

static lead_call call_of(const float *x, size_t ldx, size_t n)
{
    lead_call c = {};
    c.x = x;
    c.ld = ldx;
    c.n = n;
    for (c.span = 64; (n + c.span - 1) / c.span > LEAD_SPANS;) c.span *= 2;
    c.n_spans = (n + c.span - 1) / c.span;
    c.slices = (n + SCORE_SLICE - 1) / SCORE_SLICE;
    return c;
}

void cuda_leaders(cdz_backend *base, cdz_leaders *rows, const float *x, size_t ldx, size_t m,
                  size_t n)
{
    cuda_backend *b = cuda_of(base);
    tell_nothing(rows, m);
    if (m == 0 || n == 0) return;
    lead_call c = call_of(x, ldx, n);
    const size_t groups = (c.n_spans + LEAD_GROUP - 1) / LEAD_GROUP;
    const lead_places p = places_of(m, c.slices, count_edited(rows, m));
    const lead_place *edited = p.n_was ? edited_of(b, rows, m, p.n_was) : nullptr;
    bool mass;
    c.wish = wishes_of(b, rows, m, &mass);
    if (!c.wish || (p.n_was && !edited) || !place_masks(b, &c, rows, m) || !place_call(b, &c, &p, m))
        return;
    float *was = reinterpret_cast<float *>(reinterpret_cast<char *>(c.head) + p.was);
    if (p.n_was)
        gpu_launch(b->g, "lead_gather", lead_gather, {m * LEAD_GATHERS, SCORE_THREADS, 0}, was,
                   score_view{x, ldx}, edited, p.n_was);
    gpu_launch(b->g, "lead_survey", lead_survey, {m * groups, SCORE_THREADS, 0}, c, groups);
    gpu_launch(b->g, "lead_pick", lead_pick, {m, SCORE_THREADS, 0}, c);
    if (mass) gpu_launch(b->g, "lead_mass", lead_mass, {m * c.slices, SCORE_THREADS, 0}, c);
    char *result = cuda_scratch(b, p.bytes);
    if (!result) return;
    cuda_download(base, result, c.head, p.bytes);
    if (!base->api->trouble(base)) tell_all(rows, result, &p, m, c.slices);
}
