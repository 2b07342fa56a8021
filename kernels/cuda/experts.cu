/* experts.cu - mixtures of experts: routing that the host reads, and the whole of it for a few rows, where only the device
 * knows who goes where. */
#include "cuda_backend.h"
#include "experts.cuh"
#include "products_launch.cuh"

/* Beyond them an expert has so many rows that one waits for the choice and lets the library have them. */
enum { EXPERT_ROWS = 32 };

static void route_there(cuda_backend *b, float *weights, int32_t *ids, size_t k,
                        const float *scores, size_t lds, size_t m, size_t n, bool normalise)
{
    gpu_launch(b->g, "route_rows", route_rows, {m, n <= 32 ? 32u : 128u, 0}, weights, ids, k,
               row_view{const_cast<float *>(scores), lds}, n, normalise);
}

void cuda_route(cdz_backend *base, float *weights, int32_t *ids, size_t k, const float *scores,
                size_t lds, size_t m, size_t n, bool normalise)
{
    cuda_backend *b = cuda_of(base);
    memset(weights, 0,
           m * k * sizeof *weights); /* what the host reads is defined whatever happens */
    memset(ids, 0, m * k * sizeof *ids);
    if (n > ROUTE_MOST || m == 0) {
        if (m) cuda_note(b, "%s: %zu experts; at most %d", b->name, n, ROUTE_MOST);
        return;
    }
    const size_t bytes = m * k * sizeof(float);
    char *result = static_cast<char *>(cuda_work_memory(b, CUDA_WORK_RESULT, 2 * bytes));
    if (!result) return;
    float *w = reinterpret_cast<float *>(result);
    int32_t *chosen = reinterpret_cast<int32_t *>(result + bytes);
    route_there(b, w, chosen, k, scores, lds, m, n, normalise);
    cuda_download(base, weights, w, bytes);
    cuda_download(base, ids, chosen, bytes);
}

/* ---- the choice stays there ---- */

/* Work memory of a call: P pairs, F columns inside, D outside. */
struct expert_work {
    float *gate, *up; /* (P, F) */
    float *gives;     /* (P, D) */
    float *weights;   /* (P) */
    int32_t *ids;     /* (P) */
    unsigned *tiles;  /* (n_tiles, PRODUCT_TILE) */
    size_t pairs, n_tiles;
};

/* Tiles are full but for one of each expert. */
static size_t most_tiles(size_t pairs, size_t n_experts)
{
    const size_t begun = pairs < n_experts ? pairs : n_experts;
    return begun + (pairs - begun) / PRODUCT_TILE;
}

static bool take_work(cuda_backend *b, const cdz_experts *e, size_t m, expert_work *work)
{
    const size_t P = m * e->n_active, F = e->part[CDZ_EXPERT_DOWN].k, D = e->part[CDZ_EXPERT_DOWN].n;
    const size_t n_tiles = most_tiles(P, e->n);
    const size_t numbers = 2 * P * F + P * D + 2 * P + n_tiles * PRODUCT_TILE;
    float *at =
        static_cast<float *>(cuda_work_memory(b, CUDA_WORK_EXPERTS, numbers * sizeof(float)));
    if (!at) return false;
    work->gate = at;
    work->up = work->gate + P * F;
    work->gives = work->up + P * F;
    work->weights = work->gives + P * D;
    work->ids = reinterpret_cast<int32_t *>(work->weights + P);
    work->tiles = reinterpret_cast<unsigned *>(work->ids + P);
    work->pairs = P;
    work->n_tiles = n_tiles;
    return true;
}

/* Products of the pairs by parts [from, to) of their experts; `sharing` pairs read one row of x. */
static void expert_products(cuda_backend *b, const cdz_experts *e, const expert_work *work,
                            unsigned from, unsigned to, float *const y[], const float *x,
                            size_t ldx, size_t sharing)
{
    cdz_product products[CDZ_EXPERT_PARTS];
    for (unsigned p = from; p < to; p++)
        products[p - from] = {&e->part[p], e->bias[p].data ? &e->bias[p] : nullptr, y[p - from],
                              e->part[p].n};
    product_choice choice = {};
    choice.at = e->at + from;
    choice.bias_at = e->bias_at ? e->bias_at + from : nullptr;
    choice.ids = work->ids;
    choice.tiles = work->pairs > e->n_active ? work->tiles : nullptr;
    choice.n_tiles = (unsigned)work->n_tiles;
    choice.stride = CDZ_EXPERT_PARTS;
    choice.sharing = (unsigned)sharing;
    cuda_own_products(b, products, to - from, x, ldx, work->pairs, choice);
}

static void feed_pairs(cuda_backend *b, const cdz_experts *e, const expert_work *work,
                       const float *x, size_t ldx)
{
    const bool gated = e->part[CDZ_EXPERT_GATE].data;
    const size_t F = e->part[CDZ_EXPERT_DOWN].k;
    float *const inner[] = {work->gate, work->up}, *const gives[] = {work->gives};
    expert_products(b, e, work, gated ? CDZ_EXPERT_GATE : CDZ_EXPERT_UP, CDZ_EXPERT_DOWN,
                    gated ? inner : inner + 1, x, ldx, e->n_active);
    if (e->clamped)
        cuda_clamped_mul(&b->base, work->gate, F, work->gate, work->up, F, work->pairs, F);
    else
        cuda_activate(&b->base, work->gate, F, gated ? work->gate : work->up,
                      gated ? work->up : nullptr, F, work->pairs, F, e->curve);
    expert_products(b, e, work, CDZ_EXPERT_DOWN, CDZ_EXPERT_PARTS, gives, work->gate, F, 1);
}

static bool takes(const cdz_experts *e, size_t m)
{
    const size_t widest = PRODUCT_SHARED / PRODUCT_TILE;
    return m <= EXPERT_ROWS && m * e->n_active <= EXPERT_PAIRS && e->n <= ROUTE_MOST &&
           products_row_sums(e->part[CDZ_EXPERT_UP].k) <= widest &&
           products_row_sums(e->part[CDZ_EXPERT_DOWN].k) <= widest;
}

bool cuda_experts(cdz_backend *base, float *y, size_t ldy, const cdz_experts *e,
                  const float *scores, size_t lds, const float *x, size_t ldx, size_t m)
{
    cuda_backend *b = cuda_of(base);
    const size_t k = e->n_active, D = e->part[CDZ_EXPERT_DOWN].n;
    expert_work work;
    if (m == 0 || !takes(e, m)) return false;
    if (!take_work(b, e, m, &work)) return true; /* with a noted trouble */
    route_there(b, work.weights, work.ids, k, scores, lds, m, e->n, e->normalise);
    if (m > 1)
        gpu_launch(b->g, "tile_experts", tile_experts,
                   {1, (work.pairs + GPU_WARP - 1) / GPU_WARP * GPU_WARP, 0}, work.tiles,
                   (unsigned)work.n_tiles, work.ids, (unsigned)work.pairs);
    feed_pairs(b, e, &work, x, ldx);
    gpu_launch(b->g, "sum_experts", sum_experts,
               {m * products_ceil_div(D, EXPERT_THREADS), EXPERT_THREADS, 0}, row_view{y, ldy},
               work.weights, work.ids, (unsigned)k, row_view{work.gives, D}, D);
    return true;
}
