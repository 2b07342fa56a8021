/* press_move.c - what has been chosen to stay of a layer, and moving it together.
 *
 * Owns: nothing for longer than a press or a drop, but for what it leaves. A layer's memory is taken from an arena, so the peak is
 * one layer in float32 beside the cache. Not: what stays (press_run.c, drop.c), blocks (sequence.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run/pass/entries.h"
#include "run/pass/model.h"
#include "run/pass/press_view.h"

/* --- a layer ------------------------------------------------------------------------------------------------------ */

bool cdz_press_open_layer(cdz_press_look *l, uint32_t layer)
{
    const size_t rows = (size_t)l->G * l->n;
    const cdz_backend *b = l->f->backend;
    l->layer = layer;
    l->store = cdz_layers_store(l->f, layer);
    l->renumber = l->zeroes = false;
    l->counts = cdz_arena_array(&l->arena, l->G, sizeof *l->counts);
    l->positions = cdz_arena_array(&l->arena, rows, sizeof *l->positions);
    l->from = cdz_arena_array(&l->arena, rows, sizeof *l->from);
    l->zeroed = cdz_arena_array(&l->arena, (size_t)l->G * l->d, 1);
    l->keys = l->values = NULL;
    if (!l->counts || !l->positions || !l->from || !l->zeroed) return false;
    const bool shown = l->seq->press && cdz_press_reads_layer(l->f->own.arch, layer);
    if (shown) {
        l->keys = cdz_arena_array(&l->arena, rows * l->d, sizeof *l->keys);
        if (!l->keys) return false;
        if (l->what & (CDZ_PRESS_VALUES | CDZ_PRESS_OUTPUT)) {
            l->values = cdz_arena_array(&l->arena, rows * l->d, sizeof *l->values);
            if (!l->values) return false;
        }
    }
    for (uint32_t g = 0; g < l->G; g++) {
        const size_t row = (size_t)g * l->n;
        const cdz_entries e = cdz_entries_of(l->seq, layer, g);
        l->counts[g] = e.n;
        for (uint32_t i = 0; i < e.n; i++) {
            l->positions[row + i] = cdz_entries_position(&e, i);
            l->from[row + i] = i;
        }
        if (shown)
            b->api->kv_get(l->f->backend, l->f->own.store, l->store, g, l->seq->blocks, l->counts[g],
                           l->keys + row * l->d, l->values ? l->values + row * l->d : NULL);
    }
    return true;
}

/* Later positions see one less than the window of these. */
void cdz_press_keep_window(cdz_press_look *l, uint32_t window)
{
    for (uint32_t g = 0; g < l->G; g++) {
        uint32_t *from = l->from + (size_t)g * l->n, *positions = l->positions + (size_t)g * l->n;
        const uint32_t n = l->counts[g], keep = n < window - 1 ? n : window - 1;
        memmove(from, from + (n - keep), keep * sizeof *from);
        memmove(positions, positions + (n - keep), keep * sizeof *positions);
        l->counts[g] = keep;
    }
}

/* What is to stay of the layer, into next and all_from. */
void cdz_press_note_layer(cdz_press_look *l)
{
    cdz_pressed *next = l->next;
    for (uint32_t g = 0; g < l->G; g++) {
        const size_t row = (size_t)g * l->n, head = (size_t)l->store * l->G + g;
        next->counts[head] = l->counts[g];
        memcpy(next->positions + head * l->n, l->positions + row, l->counts[g] * sizeof *l->from);
        memcpy(l->all_from + head * l->n, l->from + row, l->counts[g] * sizeof *l->from);
        memcpy(next->zeroed + head * l->d, l->zeroed + (size_t)g * l->d, l->d);
        if (l->counts[g] > l->longest) l->longest = l->counts[g];
    }
    l->any_zeroes |= l->zeroes;
    l->n_renumbered += l->renumber;
}

/* --- moving ------------------------------------------------------------------------------------------------------- */

/* Keys turn by so many places from here on, which may be below none. */
static void set_turn(cdz_press_look *l, const cdz_rope *rope, double by)
{
    const size_t half = rope ? rope->n_rotated / 2 : 0;
    if (l->turn_rope == rope && l->turn_by == by) return;
    l->turn_rope = rope;
    l->turn_by = by;
    for (size_t i = 0; i < half; i++) {
        const float angle = (float)by * rope->inv_freq[i];
        l->turn[2 * i] = cosf(angle);
        l->turn[2 * i + 1] = sinf(angle);
    }
}

static void turn(const cdz_press_look *l, float *key)
{
    const cdz_rope *rope = l->turn_rope;
    const size_t half = rope ? rope->n_rotated / 2 : 0;
    for (size_t i = 0; i < half; i++) {
        const float c = l->turn[2 * i], s = l->turn[2 * i + 1];
        float *x = &key[rope->interleaved ? 2 * i : i],
              *y = &key[rope->interleaved ? 2 * i + 1 : i + half];
        const float was = *x;
        *x = was * c - *y * s;
        *y = *y * c + was * s;
    }
}

/* Of a head whose entries have been moved. */
static void edit_keys(cdz_press_look *l, uint32_t layer, size_t head)
{
    cdz_backend *b = l->f->backend;
    const cdz_rope *rope = cdz_arch_rope(l->f->own.arch, layer);
    const uint32_t g = (uint32_t)(head % l->G), all = l->next->counts[head],
                   n = all > l->still ? all - l->still : 0;
    const bool renumbered = l->seq->pressed && l->seq->pressed->back;
    const uint32_t *was = (renumbered ? l->all_from : l->next->positions) + head * l->n + l->still;
    const int32_t *blocks = l->seq->blocks + l->still / CDZ_KV_BLOCK;
    b->api->kv_get(b, l->f->own.store, head / l->G, g, blocks, n, l->room, NULL);
    for (uint32_t i = 0; i < n; i++) {
        float *key = l->room + (size_t)i * l->d;
        if (l->n_renumbered) {
            set_turn(l, rope, (double)l->still + (double)i - (double)was[i]);
            turn(l, key);
        }
        for (size_t d = 0; d < l->d; d++)
            if (l->next->zeroed[head * l->d + d]) key[d] = 0.0f;
    }
    b->api->kv_put_keys(b, l->f->own.store, head / l->G, g, blocks, n, l->room);
}

static void move_layer(cdz_press_look *l, uint32_t layer)
{
    cdz_backend *b = l->f->backend;
    const uint32_t store = cdz_layers_store(l->f, layer);
    for (uint32_t g = 0; g < l->G; g++) {
        const size_t head = (size_t)store * l->G + g;
        b->api->kv_keep(b, l->f->own.store, store, g, l->seq->blocks, l->all_from + head * l->n,
                        l->next->counts[head]);
        if (l->n_renumbered || l->any_zeroes) edit_keys(l, layer, head);
    }
}

/* Positions go on behind the entries only where all heads hold as many. */
cdz_status cdz_press_check_renumbering(const cdz_press_look *l, cdz_error *err)
{
    const cdz_pressed *next = l->next;
    if (l->n_renumbered == 0) return CDZ_OK;
    if (!cdz_press_turns(l->f->own.arch))
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "press: keys of a %s model are normed after their rotation, so they cannot be "
                       "renumbered",
                       l->f->own.arch->architecture);
    for (uint32_t i = 0; i < next->n_layers * next->n_heads; i++)
        if (next->counts[i] != l->longest)
            return cdz_err(err, CDZ_E_PLUGIN,
                           "press: keys are to be renumbered, but layer %u, head %u keeps %u entries "
                           "where others keep %u",
                           i / next->n_heads, i % next->n_heads, next->counts[i], l->longest);
    if (l->n_renumbered == l->n_shown) return CDZ_OK;
    return cdz_err(err, CDZ_E_PLUGIN,
                   "press: keys of %u layers are to be renumbered, expected all %u",
                   l->n_renumbered, l->n_shown);
}

/* From rows of the old length to rows of the longest head. */
static void close_ranks(cdz_press_look *l)
{
    cdz_pressed *next = l->next;
    const size_t heads = (size_t)next->n_layers * next->n_heads;
    bool even = true;
    next->n = l->longest;
    next->at = l->seq->computed;
    next->back = l->n_renumbered ? next->at - next->n : l->seq->pressed ? l->seq->pressed->back : 0;
    for (size_t i = 0; i < heads; i++) {
        memmove(next->positions + i * next->n, next->positions + i * l->n,
                next->counts[i] * sizeof *next->positions);
        next->less[i] = next->n - next->counts[i];
        even &= next->less[i] == 0;
    }
    if (even) {
        free(next->less);
        next->less = NULL;
    }
    if (!l->any_zeroes) {
        free(next->zeroed);
        next->zeroed = NULL;
    }
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

bool cdz_press_begin(cdz_press_look *l)
{
    const cdz_kv_shape *shape = &l->seq->model->shape;
    const size_t heads = shape->n_layers * shape->n_kv_heads;
    cdz_pressed *next = l->next = calloc(1, sizeof *next);
    if (!next) return false;
    next->holders = 1;
    next->n_layers = (uint32_t)shape->n_layers;
    next->n_heads = (uint32_t)shape->n_kv_heads;
    next->head_dim = (uint32_t)shape->head_dim;
    next->counts = calloc(heads, sizeof *next->counts);
    next->less = calloc(heads, sizeof *next->less);
    next->zeroed = calloc(heads, shape->head_dim);
    next->positions = malloc(heads * l->n * sizeof *next->positions);
    l->all_from = malloc(heads * l->n * sizeof *l->all_from);
    l->room = malloc(((size_t)l->n + 1) * shape->head_dim * sizeof *l->room);
    l->turn = l->room ? l->room + (size_t)l->n * shape->head_dim : NULL;
    l->per_head = calloc((size_t)4 * l->G, sizeof *l->per_head);
    return next->counts && next->less && next->zeroed && next->positions && l->all_from &&
           l->room && l->per_head;
}

void cdz_press_close(cdz_press_look *l)
{
    cdz_arena_free(&l->arena);
    cdz_press_leave(l->next);
    free(l->all_from);
    free(l->room);
    free(l->per_head);
}

void cdz_press_carry_out(cdz_press_look *l)
{
    const cdz_arch *a = l->f->own.arch;
    for (uint32_t layer = 0; layer < a->n_layers; layer++)
        if (cdz_arch_mixes(a, layer, CDZ_MIX_ATTENTION)) move_layer(l, layer);
    close_ranks(l);
    cdz_seq_pressed(l->seq, l->next);
    l->next = NULL;
}
