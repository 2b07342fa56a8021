/* ref_route.c - a router's choice, for every kernel set: a few dozen scores a row, so one function
 * serves all. Softmax with a running sum in index order; the k largest, largest first, the lower
 * index first among equals, as torch.topk gives them on distinct values. */
#include "ref/ref.h"
#include "ref/scalar_math.h"

static float weight_of(const float *scores, size_t i, float largest, float sum)
{
    return cdz_exp(scores[i] - largest) / sum;
}

static bool taken(const int32_t *ids, size_t n, size_t i)
{
    for (size_t j = 0; j < n; j++)
        if ((size_t)ids[j] == i) return true;
    return false;
}

void cdz_ref_route(float *weights, int32_t *ids, size_t k, const float *scores, size_t n,
                   bool normalise)
{
    float largest = scores[0], sum = 0.0f, chosen = 0.0f;
    for (size_t i = 1; i < n; i++) largest = scores[i] > largest ? scores[i] : largest;
    for (size_t i = 0; i < n; i++) sum += cdz_exp(scores[i] - largest);

    for (size_t j = 0; j < k; j++) {
        size_t best = n;
        for (size_t i = 0; i < n; i++)
            if (!taken(ids, j, i) && (best == n || scores[i] > scores[best])) best = i;
        ids[j] = (int32_t)best;
        weights[j] = weight_of(scores, best, largest, sum);
        chosen += weights[j];
    }
    for (size_t j = 0; normalise && j < k; j++) weights[j] /= chosen;
}
