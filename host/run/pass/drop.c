/* drop.c - lists of drops, and carrying them out. See drop.h. Not: whose list it is, and its blocks (sequence.c), moving
 * (press_move.c). */
#include "run/pass/drop.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "run/pass/model.h"
#include "run/pass/press_view.h"

struct cdz_drops {
    uint32_t holders, n, cap;
    cdz_drop *at; /* (n) of cap */
};

/* --- lists -------------------------------------------------------------------------------------------------------- */

cdz_drops *cdz_drops_hold(cdz_drops *list)
{
    if (list) list->holders++;
    return list;
}

void cdz_drops_release(cdz_drops *list)
{
    if (!list || --list->holders > 0) return;
    free(list->at);
    free(list);
}

const cdz_drop *cdz_drops_at(const cdz_drops *list, uint32_t i)
{
    cdz_assert(i < list->n);
    return &list->at[i];
}

uint32_t cdz_drops_by(const cdz_drops *list, uint32_t n, uint32_t positions)
{
    while (n && list->at[n - 1].at > positions) n--;
    return n;
}

static bool same_drop(const cdz_drop *a, const cdz_drop *b)
{
    return a->at == b->at && a->from == b->from && a->to == b->to && a->renumber == b->renumber &&
           a->joins == b->joins;
}

/* A cache of as many positions as a drop has seen may be one from before it, or behind it. */
static uint32_t place_of(const cdz_drops *list, uint32_t n, uint32_t i)
{
    return i < n ? list->at[i].at - 1 : UINT32_MAX;
}

uint32_t cdz_drops_parts(const cdz_drops *a, uint32_t n_a, const cdz_drops *b, uint32_t n_b)
{
    const uint32_t both = n_a < n_b ? n_a : n_b;
    uint32_t i = a == b ? both : 0;
    while (i < both && same_drop(&a->at[i], &b->at[i])) i++;
    const uint32_t x = place_of(a, n_a, i), y = place_of(b, n_b, i);
    return x < y ? x : y;
}

/* The first piece of [from, to) that none of n drops has; false: there is none. */
static bool first_free(const cdz_drops *list, uint32_t n, uint32_t *from, uint32_t *to)
{
    for (uint32_t i = 0; i < n && *from < *to;) {
        const cdz_drop *d = &list->at[i++];
        if (d->from > *from || d->to <= *from) continue;
        *from = d->to;
        i = 0;
    }
    for (uint32_t i = 0; i < n; i++)
        if (list->at[i].from >= *from && list->at[i].from < *to) *to = list->at[i].from;
    return *from < *to;
}

/* A list of its own with the first n of another. */
static cdz_drops *copy(const cdz_drops *list, uint32_t n)
{
    cdz_drops *made = calloc(1, sizeof *made);
    const uint32_t cap = n < 4 ? 4 : 2 * n;
    if (made) made->at = malloc(cap * sizeof *made->at);
    if (!made || !made->at) {
        free(made);
        return NULL;
    }
    if (list) memcpy(made->at, list->at, n * sizeof *made->at);
    made->holders = 1;
    made->n = n;
    made->cap = cap;
    return made;
}

/* Behind the first n. What lies behind these already is another's, who has gone on otherwise. */
static bool push(cdz_drops **list, uint32_t *n, const cdz_drop *drop)
{
    cdz_drops *l = *list;
    if (!l || l->n > *n || l->n == l->cap) {
        if (!(l = copy(*list, *n))) return false;
        cdz_drops_release(*list);
        *list = l;
    }
    l->at[l->n] = *drop;
    *n = ++l->n;
    return true;
}

bool cdz_drops_add(cdz_drops **list, uint32_t *n, const cdz_drop *drop)
{
    const uint32_t before = *n;
    cdz_drop piece = *drop;
    cdz_assert(before == 0 || (*list)->at[before - 1].at <= drop->at);
    while (first_free(*list, *n, &piece.from, &piece.to)) {
        if (!push(list, n, &piece)) {
            *n = before;
            return false;
        }
        piece.from = piece.to;
        piece.to = drop->to;
        piece.joins = true;
    }
    return true;
}

/* --- of a sequence ------------------------------------------------------------------------------------------------ */

static bool only_windows(const cdz_arch *arch)
{
    for (uint32_t i = 0; i < arch->n_layers; i++)
        if (cdz_press_reads_layer(arch, i)) return false;
    return true;
}

cdz_status cdz_drop_fits(const cdz_run_model *model, bool renumber, cdz_error *err)
{
    const cdz_arch *a = &model->weights->arch;
    const char *why = cdz_press_obstacle(model);
    if (why)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "seq_drop: nothing can be taken out of the cache of a model with %s", why);
    if (!renumber && only_windows(a))
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "seq_drop: every layer of this model has a sliding window, and these are kept "
                       "whole; renumber what is left, or leave it to the windows");
    if (renumber && (cdz_arch_has_positions(a) || !cdz_press_turns(a)))
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "seq_drop: keys of a %s model do not turn with their positions, so they "
                       "cannot be renumbered",
                       a->architecture);
    return CDZ_OK;
}

uint32_t cdz_drop_next(const cdz_seq *seq)
{
    return seq->n_dropped < seq->n_drops ? cdz_drops_at(seq->drops, seq->n_dropped)->at : UINT32_MAX;
}

/* Drops that renumber leave no window as it was. */
static uint32_t kept_of_windows(const cdz_arch *arch, const cdz_drop *drop)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < arch->n_layers && !drop->renumber; i++)
        if (arch->window[i] > most) most = arch->window[i];
    return most - 1;
}

uint32_t cdz_drop_entries(const cdz_seq *seq, uint32_t n)
{
    const cdz_arch *arch = &seq->model->weights->arch;
    uint32_t at = seq->computed, held = at ? cdz_press_entries(seq, at) : 0, most = held;
    for (uint32_t i = seq->n_dropped; i < seq->n_drops; i++) {
        const cdz_drop *d = cdz_drops_at(seq->drops, i);
        held += d->at - at;
        at = d->at;
        if (held > most) most = held;
        const uint32_t goes = d->to - d->from, left = held > goes ? held - goes : 0,
                       window = kept_of_windows(arch, d);
        held = left > window ? left : window < held ? window : held;
    }
    held += n - at;
    return held > most ? held : most;
}

/* --- carrying out ------------------------------------------------------------------------------------------------- */

static bool goes(const cdz_seq *seq, uint32_t n_due, uint32_t position)
{
    for (uint32_t i = seq->n_dropped; i < n_due; i++) {
        const cdz_drop *d = cdz_drops_at(seq->drops, i);
        if (position >= d->from && position < d->to) return true;
    }
    return false;
}

static void take_out(cdz_press_look *l, uint32_t n_due)
{
    for (uint32_t g = 0; g < l->G; g++) {
        uint32_t *from = l->from + (size_t)g * l->n, *positions = l->positions + (size_t)g * l->n;
        uint32_t n = 0;
        for (uint32_t i = 0; i < l->counts[g]; i++) {
            if (goes(l->seq, n_due, positions[i])) continue;
            from[n] = from[i];
            positions[n++] = positions[i];
        }
        l->counts[g] = n;
    }
}

/* Entries of all heads that stay where they are, as far as this layer tells. */
static void note_still(cdz_press_look *l)
{
    for (uint32_t g = 0; g < l->G; g++) {
        const uint32_t *from = l->from + (size_t)g * l->n;
        uint32_t n = 0;
        while (n < l->counts[g] && from[n] == n) n++;
        if (n < l->still) l->still = n;
    }
}

/* A layer with a window keeps it, unless it, too, counts positions anew. */
static bool choose_layer(cdz_press_look *l, uint32_t layer, uint32_t n_due)
{
    const uint32_t window = l->f->own.arch->window[layer];
    if (!cdz_press_open_layer(l, layer)) return false;
    l->renumber = cdz_drops_at(l->seq->drops, n_due - 1)->renumber;
    if (window && !l->renumber)
        cdz_press_keep_window(l, window);
    else
        take_out(l, n_due);
    note_still(l);
    l->n_shown++;
    cdz_press_note_layer(l);
    return true;
}

static cdz_status choose(cdz_press_look *l, uint32_t n_due, cdz_error *err)
{
    const cdz_arch *a = l->f->own.arch;
    if (!cdz_press_begin(l)) return cdz_err_memory(err, "a drop");
    for (uint32_t layer = 0; layer < a->n_layers; layer++) {
        if (!cdz_arch_mixes(a, layer, CDZ_MIX_ATTENTION)) continue;
        const bool chosen = choose_layer(l, layer, n_due);
        cdz_arena_reset(&l->arena);
        if (!chosen) return cdz_err_memory(err, "a drop");
    }
    l->still -= l->still % CDZ_KV_BLOCK;
    CDZ_TRY(cdz_press_check_renumbering(l, err));
    return cdz_seq_own(l->seq, l->still / CDZ_KV_BLOCK, err);
}

/* The next one, with those that join it. */
static cdz_status run_next(cdz_layers *f, cdz_seq *seq, cdz_error *err)
{
    uint32_t n_due = seq->n_dropped + 1;
    while (n_due < seq->n_drops && cdz_drops_at(seq->drops, n_due)->joins) n_due++;
    cdz_press_look l = {.f = f,
                        .seq = seq,
                        .n = cdz_press_entries(seq, seq->computed),
                        .still = UINT32_MAX - UINT32_MAX % CDZ_KV_BLOCK,
                        .H = f->own.arch->n_heads,
                        .G = f->own.arch->n_kv_heads,
                        .d = f->own.arch->head_dim};
    const cdz_status status = choose(&l, n_due, err);
    if (status == CDZ_OK) {
        seq->n_dropped = n_due;
        cdz_press_carry_out(&l);
    }
    cdz_press_close(&l);
    return status;
}

cdz_status cdz_drop_run(cdz_layers *f, cdz_seq *seq, cdz_error *err)
{
    cdz_status status = CDZ_OK;
    if (seq->computed != cdz_drop_next(seq)) return CDZ_OK;
    const cdz_work was = cdz_profile_mark(f->profile, CDZ_WORK_ATTENTION);
    f->backend->api->sync(f->backend);
    while (status == CDZ_OK && seq->computed == cdz_drop_next(seq)) status = run_next(f, seq, err);
    cdz_profile_mark(f->profile, was);
    return status;
}
