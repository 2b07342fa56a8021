/* press_run.c - a press: layer by layer the presses are shown what there is, and what they keep is moved together.
 *
 * Owns: nothing for longer than a layer. Not: when (press.c), moving (press_move.c), who presses (cdz_press_plan.answer). */
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
        return cdz_err_memory(err, "a press");
    memcpy(choice.counts, keep, l->G * sizeof *keep);
    CDZ_TRY(l->seq->press->answer(l->seq->press->of, i, &view, &choice, err));
    CDZ_TRY(check_counts(l, &view, &choice, err));
    note_edits(l, &choice);
    for (uint32_t g = 0; g < l->G; g++) {
        n_kept[g] = choice.counts[g];
        if (!take_best(l, choice.scores + (size_t)g * s->n, view.counts[g], n_kept[g],
                       kept + (size_t)g * s->n))
            return cdz_err_memory(err, "a press");
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
        if (!s.at || !some) return cdz_err_memory(&l->seq->press->error, "a press");
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
    if (!at || !some) return cdz_err_memory(&l->seq->press->error, "a press");
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

static bool has_changed(const cdz_press_look *l)
{
    bool changed = l->renumber || l->zeroes;
    for (uint32_t g = 0; g < l->G; g++) changed |= l->counts[g] != cdz_press_held(l, g);
    return changed;
}

static cdz_status press_layer(cdz_press_look *l, uint32_t layer)
{
    const cdz_press_plan *plan = l->seq->press;
    const uint32_t window = l->f->own.arch->window[layer];
    uint32_t *kept;
    if (!cdz_press_open_layer(l, layer)) return cdz_err_memory(&l->seq->press->error, "a press");
    kept = cdz_arena_array(&l->arena, (size_t)l->G * l->n, sizeof *kept);
    if (!kept) return cdz_err_memory(&l->seq->press->error, "a press");
    if (window) cdz_press_keep_window(l, window);
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
    cdz_press_note_layer(l);
    return CDZ_OK;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static cdz_status choose(cdz_press_look *l)
{
    const cdz_arch *a = l->f->own.arch;
    cdz_error *err = &l->seq->press->error;
    if (!cdz_press_begin(l) || (l->seq->notes && l->seq->notes->failed))
        return cdz_err_memory(err, "a press");
    for (uint32_t layer = 0; layer < a->n_layers; layer++) {
        if (!cdz_arch_mixes(a, layer, CDZ_MIX_ATTENTION)) continue;
        const cdz_status status = press_layer(l, layer);
        cdz_arena_reset(&l->arena);
        CDZ_TRY(status);
    }
    return l->changed ? cdz_press_check_renumbering(l, err) : CDZ_OK;
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
    if (status == CDZ_OK && l.changed) cdz_press_carry_out(&l);
    const bool changed = l.changed;
    cdz_press_close(&l);
    cdz_press_forget_notes(seq);
    if (status == CDZ_OK && changed && plan->told && !plan->told(plan->of, seq))
        cdz_err_memory(&plan->error, "a press");
    /* The same positions may hold the next one, where a cache is read again. */
    if (status == CDZ_OK && cdz_press_next(seq) <= cdz_seq_visible(seq))
        (void)cdz_press_expect(seq, &plan->error);
    cdz_profile_mark(f->profile, was);
}
