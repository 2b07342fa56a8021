/* press_run.c - a press: layer by layer the presses are shown what there is, and what they keep is moved together.
 *
 * Owns: nothing for longer than a layer, but for what the press leaves. A layer's memory is taken from an arena, so the peak is
 * one layer in float32 beside the cache. Not: when (press.c), blocks (sequence.c), who presses (cdz_press_plan.answer). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "run/pass/layers.h"
#include "run/pass/model.h"
#include "run/pass/press_notes.h"
#include "run/pass/press_view.h"
#include "run/pass/sequence.h"

/* --- what stays --------------------------------------------------------------------------------------------------- */

/* How many of n entries a step leaves, as far as the settings say. */
static uint32_t left_of(const cdz_press_look *l, const cdz_press_step *step, uint32_t n)
{
    const cdz_press_plan *plan = l->seq->press;
    if (l->decoding) {
        double most = isnan(plan->target_ratio)
                          ? plan->target_size
                          : floor(l->seq->computed * (1.0 - plan->target_ratio));
        if (most < 1) most = 1;
        return n > most ? (uint32_t)most : n;
    }
    const double ratio = plan->ratios ? plan->ratios[l->layer] : step->ratio;
    if (isnan(ratio) || ratio <= 0) return n;
    const double left = floor(n * (1.0 - ratio));
    return left < 1 ? 1 : (uint32_t)left;
}

typedef struct ranked {
    float score;
    uint32_t at;
} ranked;

/* By falling score, the lower position first among equals, and what is no number last. */
static int by_score(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    const bool no_x = isnan(x->score), no_y = isnan(y->score);
    if (no_x != no_y) return no_x ? 1 : -1;
    if (!no_x && x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

static int by_place(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The best `keep` of n, rising, into out. */
static bool take_best(cdz_press_look *l, const float *scores, uint32_t n, uint32_t keep,
                      uint32_t *out)
{
    if (keep == n) {
        for (uint32_t i = 0; i < n; i++) out[i] = i;
        return true;
    }
    ranked *all = cdz_arena_array(&l->arena, n, sizeof *all);
    if (!all) return false;
    for (uint32_t i = 0; i < n; i++) all[i] = (ranked){scores[i], i};
    qsort(all, n, sizeof *all, by_score);
    for (uint32_t i = 0; i < keep; i++) out[i] = all[i].at;
    qsort(out, keep, sizeof *out, by_place);
    return true;
}

/* --- a step over some entries ------------------------------------------------------------------------------------- */

static cdz_status no_memory(cdz_error *err)
{
    return cdz_err(err, CDZ_E_NOMEM, "out of memory for a press");
}

static cdz_status check_counts(const cdz_press_look *l, const cdz_press_view *view,
                               const cdz_press_choice *choice, cdz_error *err)
{
    for (uint32_t g = 0; g < l->G; g++)
        if (choice->counts[g] > view->counts[g])
            return cdz_err(err, CDZ_E_PLUGIN,
                           "press: %u entries of layer %u, head %u are to stay, but there are %u",
                           choice->counts[g], l->layer, g, view->counts[g]);
    return CDZ_OK;
}

/* Marks of the keys, and whether they are to be renumbered. */
static void note_edits(cdz_press_look *l, const cdz_press_choice *choice)
{
    for (size_t i = 0; i < (size_t)l->G * l->d; i++) {
        l->zeroes |= choice->zeroed[i] != 0;
        l->zeroed[i] |= choice->zeroed[i];
    }
    l->renumber |= choice->renumber != 0;
}

/* Asks for a view of subset s. keep (G): how many stay unless the press says otherwise. kept: (G, s->n) in the subset's numbers,
 * n_kept (G). */
static cdz_status ask(cdz_press_look *l, uint32_t i, const cdz_press_subset *s,
                      const uint32_t *keep, uint32_t *kept, uint32_t *n_kept)
{
    const cdz_press_step *step = &l->seq->press->steps[i];
    cdz_press_view view;
    cdz_press_choice choice = {.size = sizeof choice};
    cdz_error *err = &l->seq->press->error;
    choice.scores = cdz_arena_array(&l->arena, (size_t)l->G * s->n, sizeof *choice.scores);
    choice.counts = cdz_arena_array(&l->arena, l->G, sizeof *choice.counts);
    choice.zeroed = cdz_arena_array(&l->arena, (size_t)l->G * l->d, 1);
    if (!choice.scores || !choice.counts || !choice.zeroed || !cdz_press_show(l, step, s, &view))
        return no_memory(err);
    memcpy(choice.counts, keep, l->G * sizeof *keep);
    CDZ_TRY(l->seq->press->answer(l->seq->press->of, i, &view, &choice, err));
    CDZ_TRY(check_counts(l, &view, &choice, err));
    note_edits(l, &choice);
    for (uint32_t g = 0; g < l->G; g++) {
        n_kept[g] = choice.counts[g];
        if (!take_best(l, choice.scores + (size_t)g * s->n, view.counts[g], n_kept[g],
                       kept + (size_t)g * s->n))
            return no_memory(err);
    }
    return CDZ_OK;
}

/* What stays of the layer: in each head the entries of these numbers, which rise. */
static void keep_entries(cdz_press_look *l, const uint32_t *at, size_t stride,
                         const uint32_t *counts)
{
    for (uint32_t g = 0; g < l->G; g++) {
        const size_t row = (size_t)g * l->n;
        for (uint32_t i = 0; i < counts[g]; i++) {
            const size_t from = row + at[g * stride + i], to = row + i;
            l->positions[to] = l->positions[from];
            l->from[to] = l->from[from];
            memmove(l->keys + to * l->d, l->keys + from * l->d, l->d * sizeof *l->keys);
            if (l->values)
                memmove(l->values + to * l->d, l->values + from * l->d, l->d * sizeof *l->values);
        }
        l->counts[g] = counts[g];
    }
}

/* All entries at once. */
static cdz_status press_whole(cdz_press_look *l, uint32_t i, uint32_t *kept)
{
    const cdz_press_step *step = &l->seq->press->steps[i];
    uint32_t *keep = l->per_head, *n_kept = keep + l->G;
    bool any = step->free_count;
    for (uint32_t g = 0; g < l->G; g++) {
        keep[g] = left_of(l, step, l->counts[g]);
        any |= keep[g] != l->counts[g];
    }
    if (!any) return CDZ_OK;
    const cdz_press_subset all = {.n = l->n, .counts = l->counts, .whole = true};
    CDZ_TRY(ask(l, i, &all, keep, kept, n_kept));
    keep_entries(l, kept, l->n, n_kept);
    return CDZ_OK;
}

/* Piece by piece, each as if it were all. */
static cdz_status press_pieces(cdz_press_look *l, uint32_t i, uint32_t *kept)
{
    const uint32_t length = l->seq->press->chunk;
    uint32_t *keep = l->per_head, *n_kept = keep + l->G, *counts = n_kept + l->G,
             *total = counts + l->G;
    memset(total, 0, l->G * sizeof *total);
    for (uint32_t first = 0, piece = 0; first < l->n; first += length, piece++) {
        const uint32_t n = l->n - first < length ? l->n - first : length;
        cdz_press_subset s = {.n = n, .counts = counts, .piece = piece};
        s.at = cdz_arena_array(&l->arena, (size_t)l->G * n, sizeof *s.at);
        uint32_t *some = cdz_arena_array(&l->arena, (size_t)l->G * n, sizeof *some);
        if (!s.at || !some) return no_memory(&l->seq->press->error);
        for (uint32_t g = 0; g < l->G; g++) {
            counts[g] = l->counts[g] > first ? l->counts[g] - first : 0;
            if (counts[g] > n) counts[g] = n;
            for (uint32_t k = 0; k < counts[g]; k++) s.at[(size_t)g * n + k] = first + k;
            keep[g] = counts[g] ? left_of(l, &l->seq->press->steps[i], counts[g]) : 0;
        }
        CDZ_TRY(ask(l, i, &s, keep, some, n_kept));
        for (uint32_t g = 0; g < l->G; g++)
            for (uint32_t k = 0; k < n_kept[g]; k++)
                kept[(size_t)g * l->n + total[g]++] = first + some[(size_t)g * n + k];
    }
    keep_entries(l, kept, l->n, total);
    return CDZ_OK;
}

/* In turns: what stayed so far and the next block, out of which as many stay. */
static cdz_status press_blocks(cdz_press_look *l, uint32_t i, uint32_t *kept)
{
    const uint32_t size = l->seq->press->block, all = l->n;
    uint32_t *keep = l->per_head, *n_kept = keep + l->G, *counts = n_kept + l->G;
    const uint32_t n = left_of(l, &l->seq->press->steps[i], all), most = n + size;
    uint32_t *at = cdz_arena_array(&l->arena, (size_t)l->G * most, sizeof *at),
             *some = cdz_arena_array(&l->arena, (size_t)l->G * most, sizeof *some);
    if (!at || !some) return no_memory(&l->seq->press->error);
    for (uint32_t g = 0; g < l->G; g++) {
        keep[g] = n_kept[g] = n;
        for (uint32_t k = 0; k < n; k++) kept[(size_t)g * all + k] = k;
    }
    for (uint32_t first = n; first < all; first += size) {
        const uint32_t more = all - first < size ? all - first : size;
        const cdz_press_subset s = {.n = n + more, .counts = counts, .at = at};
        for (uint32_t g = 0; g < l->G; g++) {
            counts[g] = s.n;
            for (uint32_t k = 0; k < s.n; k++)
                at[(size_t)g * s.n + k] = k < n ? kept[(size_t)g * all + k] : first + k - n;
        }
        CDZ_TRY(ask(l, i, &s, keep, some, n_kept));
        for (uint32_t g = 0; g < l->G; g++)
            for (uint32_t k = 0; k < n_kept[g]; k++)
                kept[(size_t)g * all + k] = at[(size_t)g * s.n + some[(size_t)g * s.n + k]];
    }
    keep_entries(l, kept, all, n_kept);
    return CDZ_OK;
}

/* --- a layer ------------------------------------------------------------------------------------------------------ */

/* Positions of a head's entries: those that the press before left, and those read since. */
static void name_entries(const cdz_press_look *l, uint32_t g, uint32_t *positions)
{
    const cdz_pressed *old = l->seq->pressed;
    const uint32_t n = l->counts[g];
    uint32_t i = 0, next = 0;
    if (old) {
        const size_t row = (size_t)l->store * l->G + g;
        for (; i < old->counts[row]; i++) positions[i] = old->positions[row * old->n + i];
        next = old->at;
    }
    for (; i < n; i++) positions[i] = next++;
}

static bool open_layer(cdz_press_look *l, uint32_t layer)
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
    const bool shown = cdz_press_reads_layer(l->f->own.arch, layer);
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
        l->counts[g] = cdz_press_held(l, g);
        name_entries(l, g, l->positions + row);
        for (uint32_t i = 0; i < l->counts[g]; i++) l->from[row + i] = i;
        if (shown)
            b->api->kv_get(l->f->backend, l->f->own.store, l->store, g, l->seq->blocks, l->counts[g],
                           l->keys + row * l->d, l->values ? l->values + row * l->d : NULL);
    }
    return true;
}

/* Later positions see one less than the window of these. */
static void keep_window(cdz_press_look *l, uint32_t window)
{
    for (uint32_t g = 0; g < l->G; g++) {
        uint32_t *from = l->from + (size_t)g * l->n, *positions = l->positions + (size_t)g * l->n;
        const uint32_t n = l->counts[g], keep = n < window - 1 ? n : window - 1;
        memmove(from, from + (n - keep), keep * sizeof *from);
        memmove(positions, positions + (n - keep), keep * sizeof *positions);
        l->counts[g] = keep;
    }
}

static bool has_changed(const cdz_press_look *l)
{
    bool changed = l->renumber || l->zeroes;
    for (uint32_t g = 0; g < l->G; g++) changed |= l->counts[g] != cdz_press_held(l, g);
    return changed;
}

/* What is to stay of the layer, into next and all_from. */
static void note_layer(cdz_press_look *l)
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

static cdz_status press_layer(cdz_press_look *l, uint32_t layer)
{
    const cdz_press_plan *plan = l->seq->press;
    const uint32_t window = l->f->own.arch->window[layer];
    uint32_t *kept;
    if (!open_layer(l, layer)) return no_memory(&l->seq->press->error);
    kept = cdz_arena_array(&l->arena, (size_t)l->G * l->n, sizeof *kept);
    if (!kept) return no_memory(&l->seq->press->error);
    if (window) keep_window(l, window);
    for (uint32_t i = l->first; !window && i < l->end; i++) {
        if (!l->decoding && plan->chunk)
            CDZ_TRY(press_pieces(l, i, kept));
        else if (!l->decoding && plan->block)
            CDZ_TRY(press_blocks(l, i, kept));
        else
            CDZ_TRY(press_whole(l, i, kept));
    }
    if (!window) l->changed |= has_changed(l);
    l->n_shown += !window;
    note_layer(l);
    return CDZ_OK;
}

/* --- moving ------------------------------------------------------------------------------------------------------- */

/* A key turns by so many places, which may be below none. */
static void turn(const cdz_rope *rope, float *key, double by)
{
    const size_t half = rope ? rope->n_rotated / 2 : 0;
    for (size_t i = 0; i < half; i++) {
        const float angle = (float)by * rope->inv_freq[i], c = cosf(angle), s = sinf(angle);
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
    const uint32_t g = (uint32_t)(head % l->G), n = l->next->counts[head];
    const bool renumbered = l->seq->pressed && l->seq->pressed->back;
    const uint32_t *was = (renumbered ? l->all_from : l->next->positions) + head * l->n;
    b->api->kv_get(b, l->f->own.store, head / l->G, g, l->seq->blocks, n, l->room, NULL);
    for (uint32_t i = 0; i < n; i++) {
        float *key = l->room + (size_t)i * l->d;
        if (l->n_renumbered) turn(rope, key, (double)i - (double)was[i]);
        for (size_t d = 0; d < l->d; d++)
            if (l->next->zeroed[head * l->d + d]) key[d] = 0.0f;
    }
    b->api->kv_put_keys(b, l->f->own.store, head / l->G, g, l->seq->blocks, n, l->room);
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
static cdz_status check_renumbering(cdz_press_look *l)
{
    const cdz_pressed *next = l->next;
    cdz_error *err = &l->seq->press->error;
    if (l->n_renumbered == 0) return CDZ_OK;
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

static bool make_next(cdz_press_look *l)
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
    l->room = malloc(l->n * shape->head_dim * sizeof *l->room);
    l->per_head = calloc((size_t)4 * l->G, sizeof *l->per_head);
    return next->counts && next->less && next->zeroed && next->positions && l->all_from &&
           l->room && l->per_head;
}

static cdz_status choose(cdz_press_look *l)
{
    const cdz_arch *a = l->f->own.arch;
    cdz_error *err = &l->seq->press->error;
    if (!make_next(l) || (l->seq->notes && l->seq->notes->failed)) return no_memory(err);
    for (uint32_t layer = 0; layer < a->n_layers; layer++) {
        if (!cdz_arch_mixes(a, layer, CDZ_MIX_ATTENTION)) continue;
        const cdz_status status = press_layer(l, layer);
        cdz_arena_reset(&l->arena);
        CDZ_TRY(status);
    }
    return l->changed ? check_renumbering(l) : CDZ_OK;
}

static void close_look(cdz_press_look *l)
{
    cdz_arena_free(&l->arena);
    cdz_press_leave(l->next);
    free(l->all_from);
    free(l->room);
    free(l->per_head);
}

/* What has been chosen is done; nothing of it can fail. */
static void carry_out(cdz_press_look *l)
{
    const cdz_arch *a = l->f->own.arch;
    for (uint32_t layer = 0; layer < a->n_layers; layer++)
        if (cdz_arch_mixes(a, layer, CDZ_MIX_ATTENTION)) move_layer(l, layer);
    close_ranks(l);
    cdz_seq_pressed(l->seq, l->next);
    l->next = NULL;
}

void cdz_press_run(cdz_layers *f, cdz_seq *seq)
{
    cdz_press_plan *plan = seq->press;
    if (plan->error.code != CDZ_OK || seq->computed != cdz_press_next(seq)) return;
    const bool decoding = seq->computed != seq->press_from;
    cdz_press_look l = {.f = f,
                        .seq = seq,
                        .decoding = decoding,
                        .first = decoding ? plan->n_prompt : 0,
                        .end = decoding ? plan->n_steps : plan->n_prompt,
                        .n = cdz_press_entries(seq, seq->computed),
                        .H = f->own.arch->n_heads,
                        .G = f->own.arch->n_kv_heads,
                        .d = f->own.arch->head_dim};
    for (uint32_t i = l.first; i < l.end; i++) l.what |= plan->steps[i].what;
    const cdz_work was = cdz_profile_mark(f->profile, CDZ_WORK_ATTENTION);
    f->backend->api->sync(f->backend);
    const cdz_status status = choose(&l);
    seq->press_done = seq->computed;
    if (status == CDZ_OK && l.changed) carry_out(&l);
    const bool changed = l.changed;
    close_look(&l);
    cdz_press_forget_notes(seq);
    if (status == CDZ_OK && changed && plan->told && !plan->told(plan->of, seq))
        no_memory(&plan->error);
    /* The same positions may hold the next one, where a cache is read again. */
    if (status == CDZ_OK && cdz_press_next(seq) <= cdz_seq_visible(seq))
        (void)cdz_press_expect(seq, &plan->error);
    cdz_profile_mark(f->profile, was);
}
