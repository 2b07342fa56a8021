/* entries.c - finding a head's entries, and reading them out of the store. See entries.h. Owns nothing. */
#include "run/pass/entries.h"

#include "run/pass/model.h"

cdz_entries cdz_entries_of(const cdz_seq *seq, uint32_t layer, uint32_t head)
{
    const cdz_pressed *p = seq->pressed;
    cdz_entries e = {.seq = seq, .layer = layer, .head = head, .n = seq->computed};
    if (!p || seq->computed == 0) return e;
    const size_t row =
        (size_t)cdz_arch_kv_place(&seq->model->weights->arch, layer) * p->n_heads + head;
    e.n = cdz_press_entries(seq, seq->computed) - (p->less ? p->less[row] : 0);
    e.left = p->counts[row];
    e.at = p->at;
    e.positions = p->positions + row * p->n;
    return e;
}

uint32_t cdz_entries_position(const cdz_entries *e, uint32_t i)
{
    return i < e->left ? e->positions[i] : e->at + (i - e->left);
}

uint32_t cdz_entries_before(const cdz_entries *e, uint32_t position)
{
    uint32_t low = 0, high = e->n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (cdz_entries_position(e, middle) < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t cdz_entries_room(uint32_t n)
{
    return n + CDZ_KV_BLOCK;
}

void cdz_entries_read(const cdz_entries *e, uint32_t first, uint32_t n, float *room,
                      const float **keys, const float **values)
{
    const cdz_run_model *model = e->seq->model;
    const cdz_arch *arch = &model->weights->arch;
    const size_t d = arch->head_dim;
    const uint32_t begun = first % CDZ_KV_BLOCK;
    float *k = room, *v = room + (size_t)cdz_entries_room(n) * d;
    *keys = k + begun * d;
    *values = v + begun * d;
    if (n == 0) return;
    model->device->api->sync(model->device);
    model->device->api->kv_get(model->device, cdz_kv_pool_store(model->pool),
                               cdz_arch_kv_place(arch, e->layer), e->head,
                               e->seq->blocks + first / CDZ_KV_BLOCK, begun + n, k, v);
}
