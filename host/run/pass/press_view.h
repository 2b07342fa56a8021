/* press_view.h - one layer while it is pressed: what press_run.c works on, and press_view.c shows. */
#ifndef CDZ_HOST_RUN_PASS_PRESS_VIEW_H
#define CDZ_HOST_RUN_PASS_PRESS_VIEW_H

#include "base/arena.h"
#include "run/pass/layers.h"
#include "run/pass/sequence.h"

/* G key-value heads, n entries of the longest before the press: rows of all arrays are as long. */
typedef struct cdz_press_look {
    cdz_layers *f;
    cdz_seq *seq;
    bool decoding;
    uint32_t first, end; /* of the plan's steps */
    uint32_t what;       /* all that they ask for */
    uint32_t n, H, G;
    size_t d;
    uint32_t *per_head; /* (4, G) room */

    /* The layer, and what is left of it by now. */
    uint32_t layer, store; /* the model's number of it, and the store's */
    cdz_arena arena;
    uint32_t *counts;    /* (G) */
    uint32_t *positions; /* (G, n) */
    uint32_t *from;      /* (G, n) entries of the cache as it is */
    float *keys,
        *values;     /* (G, n, d); keys NULL: the layer is not shown, values NULL: nobody asks */
    uint8_t *zeroed; /* (G, d) */
    bool renumber, zeroes;

    /* Of all layers. */
    cdz_pressed *next;  /* its rows are n long until all is chosen */
    uint32_t *all_from; /* (layers, G, n) */
    float *room;        /* (n, d) */
    uint32_t still;     /* entries, whole blocks of them, that stay as they are in all heads */
    const cdz_rope *turn_rope; /* keys turn by */
    double turn_by;            /* so many places, */
    float *turn;               /* (d) cosines and sines of it */
    uint32_t longest, n_renumbered, n_shown;
    bool changed, any_zeroes;
} cdz_press_look;

/* Some of a layer's entries. */
typedef struct cdz_press_subset {
    uint32_t n;             /* a row's room */
    const uint32_t *counts; /* (G) */
    uint32_t *at;           /* (G, n) their numbers; NULL where it is whole */
    bool whole;
    uint32_t piece; /* whose notes go with it */
} cdz_press_subset;

/* Entries that a head has in the cache as it is. */
static inline uint32_t cdz_press_held(const cdz_press_look *l, uint32_t g)
{
    const cdz_pressed *old = l->seq->pressed;
    return l->n - (old && old->less ? old->less[(size_t)l->store * l->G + g] : 0);
}

/* --- press_move.c --- */
/* Room for what is left of all layers; false: out of memory. Close it either way. */
bool cdz_press_begin(cdz_press_look *l);
void cdz_press_close(cdz_press_look *l);
/* A layer as it is, its keys and values where presses are shown them; false: out of memory. */
bool cdz_press_open_layer(cdz_press_look *l, uint32_t layer);
/* Later positions see one less than the window of these. */
void cdz_press_keep_window(cdz_press_look *l, uint32_t window);
/* What is to stay of the layer: its counts, positions and from. */
void cdz_press_note_layer(cdz_press_look *l);
/* Positions go on behind the entries only where all heads hold as many. */
cdz_status cdz_press_check_renumbering(const cdz_press_look *l, cdz_error *err);
/* What has been noted is done; nothing of it can fail. */
void cdz_press_carry_out(cdz_press_look *l);

/* The view of a step; false: out of memory. Its arrays are the arena's. */
bool cdz_press_show(cdz_press_look *l, const cdz_press_step *step, const cdz_press_subset *s,
                    cdz_press_view *view);

#endif
