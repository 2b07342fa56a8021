/* route.c - routers that are more than a softmax: sigmoids, biases that only choose, groups, weights that are scaled. All in
 * float32, in the order in which transformers' routers do it; exponentials are rounded once from double, so that no
 * machine has other bits. */
#include "run/pass/route.h"

#include <math.h>

float cdz_route_sigmoid(float x)
{
    return 1.0f / (1.0f + (float)exp(-(double)x));
}

static void softmax(float *x, size_t n)
{
    float largest = x[0], sum = 0.0f;
    for (size_t i = 1; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)exp((double)x[i] - (double)largest);
        sum += x[i];
    }
    for (size_t i = 0; i < n; i++) x[i] /= sum;
}

static float choice(const float *scores, const float *bias, size_t i)
{
    return bias ? scores[i] + bias[i] : scores[i];
}

/* The sum of the two best of a group of at least two; or its best. */
static float group_score(const cdz_router *r, const float *scores, const float *bias, size_t from,
                         size_t size)
{
    float best = -INFINITY, second = -INFINITY;
    for (size_t i = from; i < from + size; i++) {
        const float c = choice(scores, bias, i);
        if (c > best) {
            second = best;
            best = c;
        } else if (c > second) {
            second = c;
        }
    }
    return r->groups_by_best ? best : best + second;
}

/* Does the group stay: are fewer than `kept` better, of equals those before it? */
static bool group_stays(const cdz_router *r, const float *scores, const float *bias, size_t n,
                        size_t group)
{
    const size_t size = n / r->n_groups;
    const float own = group_score(r, scores, bias, group * size, size);
    uint32_t better = 0;
    for (size_t g = 0; g < r->n_groups; g++) {
        const float other = group_score(r, scores, bias, g * size, size);
        better += other > own || (other == own && g < group);
    }
    return better < r->groups_kept;
}

static bool taken(const int32_t *ids, size_t n, size_t i)
{
    for (size_t j = 0; j < n; j++)
        if ((size_t)ids[j] == i) return true;
    return false;
}

/* What the best of those left has of a softmax over it and what is near it. */
static float nearest_share(const cdz_router *r, const float *scores, size_t n, const int32_t *ids,
                           size_t n_taken, size_t best)
{
    const float top = scores[best];
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++) {
        const float size = fabsf(scores[i]), against = size > top ? size : top;
        if (taken(ids, n_taken, i) || (top - scores[i]) / against > r->near) continue;
        sum += (float)exp((double)scores[i] - (double)top);
    }
    return 1.0f / sum;
}

/* What expert i is chosen by; of a group that does not stay it is 0, which may still be chosen. */
typedef struct chooser {
    const cdz_router *router;
    const float *scores, *bias;
    size_t n;
    uint64_t stays; /* a bit for each group, where there are some */
} chooser;

enum { MOST_GROUPS = 64 };

static float chosen_by(const chooser *c, size_t i)
{
    const uint32_t groups = c->router->n_groups;
    if (groups > 1 && !(c->stays >> (i / (c->n / groups)) & 1)) return 0.0f;
    return choice(c->scores, c->bias, i);
}

static size_t best_left(const chooser *c, const int32_t *ids, size_t n_taken)
{
    size_t best = c->n;
    for (size_t i = 0; i < c->n; i++)
        if (!taken(ids, n_taken, i) && (best == c->n || chosen_by(c, i) > chosen_by(c, best)))
            best = i;
    return best;
}

void cdz_route_row(const cdz_router *r, const float *bias, float *scores, size_t n, size_t k,
                   float *weights, int32_t *ids)
{
    if (r->score == CDZ_ROUTE_SOFTMAX) softmax(scores, n);
    for (size_t i = 0; r->score == CDZ_ROUTE_SIGMOID && i < n; i++)
        scores[i] = cdz_route_sigmoid(scores[i]);
    chooser c = {r, scores, bias, n, 0};
    for (size_t g = 0; r->n_groups > 1 && g < r->n_groups && g < MOST_GROUPS; g++)
        c.stays |= (uint64_t)group_stays(r, scores, bias, n, g) << g;
    float sum = 0.0f;
    for (size_t j = 0; j < k; j++) {
        const size_t best = best_left(&c, ids, j);
        ids[j] = (int32_t)best;
        weights[j] = scores[best];
        if (r->score == CDZ_ROUTE_NEAREST) weights[j] = nearest_share(r, scores, n, ids, j, best);
        sum += weights[j];
    }
    sum += r->sum_add;
    if (sum < r->sum_least) sum = r->sum_least;
    for (size_t j = 0; j < k; j++) {
        if (r->normalise) weights[j] /= sum;
        if (r->scale != 1.0f) weights[j] *= r->scale;
    }
}
