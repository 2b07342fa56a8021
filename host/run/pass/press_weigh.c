/* press_weigh.c - the weights that some queries give to entries: one product, then each row's softmax.
 *
 * The product is the backend's own, in its written order; a softmax goes over a row from its first entry to its last. */
#include <math.h>

#include "run/pass/press_notes.h"

static void soften(void *arg, size_t i)
{
    const cdz_weighing *w = arg;
    const cdz_attention *how = w->how;
    const uint32_t end = w->sees + i < w->n ? w->sees + (uint32_t)i : w->n;
    float *s = w->out + i * w->ldo, most = -INFINITY, sum = 0;
    for (uint32_t j = 0; j < end; j++) {
        s[j] *= how->scale;
        if (how->soft_cap != 0.0f) s[j] = how->soft_cap * tanhf(s[j] / how->soft_cap);
        if (s[j] > most) most = s[j];
    }
    if (how->sinks && how->sinks[w->head] > most) most = how->sinks[w->head];
    for (uint32_t j = 0; j < end; j++) sum += s[j] = expf(s[j] - most);
    if (how->sinks) sum += expf(how->sinks[w->head] - most);
    for (uint32_t j = 0; j < end; j++) s[j] /= sum;
    for (uint32_t j = end; j < w->n; j++) s[j] = 0.0f;
}

void cdz_press_weigh(const cdz_weighing *w)
{
    const cdz_weight keys = {.data = w->keys, .dtype = CDZ_F32, .n = w->n, .k = w->dim};
    const cdz_product product = {.w = &keys, .y = w->out, .ldy = w->ldo};
    w->backend->api->matmul(w->backend, &product, 1, w->q, w->ldq, w->m);
    w->backend->api->parallel(w->backend, soften, (void *)(uintptr_t)w, w->m);
    w->backend->api->sync(w->backend); /* the keys are the caller's, and go away */
}
