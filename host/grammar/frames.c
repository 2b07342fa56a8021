/* frames.c - frames with the same callers become one, and configurations that differ in counts alone are told. */
#include "grammar/frames.h"

enum {
    NEAR_DEPTH = 8, /* frames above one another whose counts are compared */
    NEAR_CALLERS = 100,
    SETTLED_CALLERS = 24, /* of a configuration: frames of more are left as they are */
};

/* The next caller of a frame's rule from i on; the end: there is none. Which rule it is says nothing more. */
static uint32_t caller_from(const cdz_grammar_states *s, const cdz_net_frame *f, uint32_t i)
{
    const cdz_net_config *c = &s->configs[f->config];
    while (i < c->n_callers && s->callers[c->callers + i].rule != f->rule) i++;
    return i;
}

static uint32_t hash_callers(const cdz_grammar_states *s, uint32_t frame, bool shape)
{
    const cdz_net_frame *f = &s->frames[frame];
    const cdz_net_config *c = &s->configs[f->config];
    uint32_t h = 0;
    for (uint32_t i = 0; (i = caller_from(s, f, i)) < c->n_callers; i++) {
        const cdz_net_caller *k = &s->callers[c->callers + i];
        h = cdz_item_mix(h ^ k->to, shape ? s->frames[k->frame].shape : k->frame,
                         shape ? 0 : k->count);
    }
    return h;
}

static uint32_t settled_hash(const void *of, uint32_t number)
{
    const cdz_grammar_states *s = of;
    return hash_callers(s, s->settled.at[number - 1], false);
}

static uint32_t shape_hash(const void *of, uint32_t number)
{
    const cdz_grammar_states *s = of;
    return hash_callers(s, s->shapes.at[number - 1], true);
}

static bool same_callers(const cdz_grammar_states *s, uint32_t a, uint32_t b, bool shape)
{
    const cdz_net_frame *f = &s->frames[a], *g = &s->frames[b];
    const cdz_net_config *c = &s->configs[f->config], *d = &s->configs[g->config];
    for (uint32_t i = 0, j = 0;; i++, j++) {
        i = caller_from(s, f, i);
        j = caller_from(s, g, j);
        if (i >= c->n_callers || j >= d->n_callers) return i >= c->n_callers && j >= d->n_callers;
        const cdz_net_caller *k = &s->callers[c->callers + i], *l = &s->callers[d->callers + j];
        if (k->to != l->to) return false;
        if (shape ? s->frames[k->frame].shape != s->frames[l->frame].shape
                  : k->frame != l->frame || k->count != l->count)
            return false;
    }
}

/* The frame of a set with the same callers, which a new one becomes; UINT32_MAX: no memory. */
static uint32_t find_frame(cdz_grammar_states *s, cdz_net_frames *set, uint32_t frame, bool shape)
{
    cdz_item_table *t = &set->table;
    if (!cdz_item_table_room(t, set->n, shape ? shape_hash : settled_hash, s) ||
        !cdz_grow(&set->at, &set->cap, (size_t)set->n + 1, sizeof *set->at)) {
        return UINT32_MAX;
    }
    uint32_t at = hash_callers(s, frame, shape) & (t->size - 1);
    for (uint32_t i; (i = t->at[at]) != 0; at = (at + 1) & (t->size - 1))
        if (same_callers(s, set->at[i - 1], frame, shape)) return set->at[i - 1];
    set->at[set->n++] = frame;
    t->at[at] = set->n;
    return frame;
}

/* Whether a frame's callers have it, or one that is not settled yet, as theirs. */
static bool leads_back(const cdz_grammar_states *s, uint32_t frame)
{
    const cdz_net_frame *f = &s->frames[frame];
    const cdz_net_config *c = &s->configs[f->config];
    for (uint32_t i = 0; (i = caller_from(s, f, i)) < c->n_callers; i++)
        if (s->callers[c->callers + i].frame >= frame) return true;
    return false;
}

static void replace_frame(cdz_grammar_states *s, const cdz_net_config *c, uint32_t frame,
                          uint32_t by)
{
    for (uint32_t i = 0; i < c->n_live; i++)
        if (s->items[c->live + i].frame == frame) s->items[c->live + i].frame = by;
    for (uint32_t i = 0; i < c->n_callers; i++)
        if (s->callers[c->callers + i].frame == frame) s->callers[c->callers + i].frame = by;
}

bool cdz_grammar_frames_settle(cdz_grammar_states *s, uint32_t config, uint32_t first)
{
    const cdz_net_config c = s->configs[config];
    if (c.n_callers > SETTLED_CALLERS) return true;
    for (uint32_t f = first; f < s->n_frames; f++) {
        if (leads_back(s, f)) continue;
        const uint32_t known = find_frame(s, &s->settled, f, false);
        const uint32_t shape = known == f ? find_frame(s, &s->shapes, f, true) : 0;
        if (known == UINT32_MAX || shape == UINT32_MAX) return false;
        if (known != f)
            replace_frame(s, &c, f, known);
        else
            s->frames[f].shape = s->frames[shape].shape;
    }
    return true;
}

uint64_t cdz_grammar_frames_bytes(const cdz_net_frames *set)
{
    return set->cap * sizeof *set->at + set->table.size * sizeof *set->table.at;
}

void cdz_grammar_frames_free(cdz_net_frames *set)
{
    free(set->at);
    free(set->table.at);
}

/* --- counts that differ ------------------------------------------------------------------------------------ */

/* A node without the number of its copy, which is a count. */
static cdz_net_copy copy_of(const cdz_grammar_states *s, uint32_t node)
{
    return s->net->copy_of ? s->net->copy_of[node] : (cdz_net_copy){node, 0, 0};
}

uint32_t cdz_grammar_states_shape(const cdz_grammar_states *s, uint32_t config)
{
    const cdz_net_config *c = &s->configs[config];
    uint32_t h = c->n_items;
    for (uint32_t i = 0; i < c->n_items; i++) {
        const cdz_net_item *item = &s->items[c->items + i];
        h = cdz_item_mix(h ^ copy_of(s, item->node).shape, s->frames[item->frame].shape, 0);
    }
    return h;
}

static bool near(uint32_t a, uint32_t b, cdz_net_slack slack)
{
    return b >= a ? b == a || b - a < slack.up : a - b <= slack.down;
}

/* Whether the counts of two frames of one shape are, with those of the frames that they lead to. */
static bool near_frames(const cdz_grammar_states *s, uint32_t a, uint32_t b, cdz_net_slack slack,
                        uint32_t depth, uint32_t *left)
{
    const cdz_net_frame *f = &s->frames[a], *g = &s->frames[b];
    const cdz_net_config *c = &s->configs[f->config], *d = &s->configs[g->config];
    if (a == b) return true;
    if (f->shape != g->shape || !depth) return false;
    for (uint32_t i = 0, j = 0; (i = caller_from(s, f, i)) < c->n_callers; i++, j++) {
        j = caller_from(s, g, j); /* as many of them */
        const cdz_net_caller *k = &s->callers[c->callers + i], *l = &s->callers[d->callers + j];
        if (!--*left || !near(k->count, l->count, slack) ||
            !near_frames(s, k->frame, l->frame, slack, depth - 1, left)) /* NEAR_DEPTH deep */
            return false;
    }
    return true;
}

bool cdz_grammar_states_alike(const cdz_grammar_states *s, uint32_t a, uint32_t b,
                              cdz_net_slack slack)
{
    const cdz_net_config *c = &s->configs[a], *d = &s->configs[b];
    uint32_t left = NEAR_CALLERS;
    if (c->n_items != d->n_items) return false;
    for (uint32_t i = 0; i < c->n_items; i++) {
        const cdz_net_item *x = &s->items[c->items + i], *y = &s->items[d->items + i];
        const cdz_net_copy from = copy_of(s, x->node), to = copy_of(s, y->node);
        if (from.shape != to.shape || !near(from.index, to.index, slack) ||
            !near(x->count, y->count, slack) ||
            !near_frames(s, x->frame, y->frame, slack, NEAR_DEPTH, &left))
            return false;
    }
    return true;
}
