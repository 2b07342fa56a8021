/* press_weigh.c - the weights that some queries give to entries: one product, then each row's softmax.
 *
 * The product is the backend's own, in its written order; a softmax is that of "cadenza.vec/1", which is torch's. A sink counts as
 * one more entry, behind the last. */
#include <math.h>
#include <string.h>

#include "run/pass/press_notes.h"
#include "vec/vec.h"

static void soften(void *arg, size_t i)
{
    const cdz_weighing *w = arg;
    const cdz_vec *vec = cdz_vec_table();
    const cdz_attention *how = w->how;
    const uint32_t end = w->sees + i < w->n ? w->sees + (uint32_t)i : w->n;
    float *s = w->out + i * w->ldo;
    vec->mul(s, end, how->scale);
    for (uint32_t j = 0; how->soft_cap != 0.0f && j < end; j++)
        s[j] = how->soft_cap * tanhf(s[j] / how->soft_cap);
    if (how->sinks) {
        const float top = fmaxf(vec->max(s, end), how->sinks[w->head]);
        vec->add(s, end, -top);
        vec->exp(s, end);
        vec->div(s, end, vec->sum(s, end) + expf(how->sinks[w->head] - top));
    } else {
        vec->softmax(s, s, end);
    }
    memset(s + end, 0, (w->n - end) * sizeof *s);
}

void cdz_press_weigh(const cdz_weighing *w)
{
    const cdz_weight keys = {.data = w->keys, .dtype = CDZ_F32, .n = w->n, .k = w->dim};
    const cdz_product product = {.w = &keys, .y = w->out, .ldy = w->ldo};
    w->backend->api->matmul(w->backend, &product, 1, w->q, w->ldq, w->m);
    w->backend->api->parallel(w->backend, soften, (void *)(uintptr_t)w, w->m);
    w->backend->api->sync(w->backend); /* the keys are the caller's, and go away */
}
