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
