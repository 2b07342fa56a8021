/* press.h - caches that hold fewer entries than positions: what is noted for a press, the press, and what it leaves.
 *
 * An unpressed sequence has position p as entry p. A press keeps some entries of each layer and head and moves them together, in
 * their order, so that whole blocks at the end are free at once. What is read after it goes behind the longest head, less what a
 * shorter head lacks (cdz_kv_row.less): heads and layers may hold differently many, and attention goes over each one's
 * own entries without a mask. Layers with a window keep the entries that later positions may still see.
 *
 * When. At seq->press_from positions by the presses of prompts, and every `interval` positions from its prompt's end on by those
 * of decoding. Passes end there, so all that a press is shown hangs on positions alone: not on how a prompt was cut, nor on the
 * other rows. A cache that was cut to before its newest press is forgotten; its positions are read again, and pressed again at
 * the same places, to the same bits. So a press may be asked for more than once.
 *
 * What a press wants of positions as they are read (queries, hidden states, sums) is noted beside the sequence and freed after
 * the press. Who presses is not known here: cdz_press_plan.answer. Thread: [engine]. */
#ifndef CDZ_HOST_RUN_PASS_PRESS_H
#define CDZ_HOST_RUN_PASS_PRESS_H

#include "cadenza/press.h"
#include "run/pass/forward.h"

enum { CDZ_PRESS_MOST_WINDOW = 4096 };

typedef struct cdz_pressed cdz_pressed;
typedef struct cdz_press_notes cdz_press_notes;

/* Presses that go together: one that gives scores, and those that change what it says. */
typedef struct cdz_press_step {
    uint32_t what, window, skip; /* as cdz_press_needs */
    double ratio;                /* NaN: nobody said */
    bool free_count;
} cdz_press_step;

/* How the sequences of a request are pressed; of the loop, which outlives them. */
typedef struct cdz_press_plan {
    const cdz_press_step *steps; /* (n_steps) those of prompts first */
    uint32_t n_prompt, n_steps;
    const double *ratios; /* (n_ratios) by layer, in place of the steps' own; or NULL */
    uint32_t n_ratios;
    uint32_t chunk, block; /* 0: none */
    uint32_t skip_last;    /* positions at the prompt's end that come after the press */
    uint32_t interval;     /* of decoding; 0: prompts alone */
    uint32_t target_size;  /* of decoding */
    double target_ratio;   /* in its place; NaN: none */
    cdz_status (*answer)(void *of, uint32_t step, const cdz_press_view *view,
                         cdz_press_choice *choice, cdz_error *err);
    /* What a press of the sequence has left; false: out of memory. NULL: nobody wants to know. */
    bool (*told)(void *of, const cdz_seq *seq);
    void *of;
    cdz_error error; /* code CDZ_OK: no press has failed. Else all is over */
} cdz_press_plan;

/* What the newest press has left. Forks share it. */
struct cdz_pressed {
    uint32_t holders;
    uint32_t at;                /* positions that had been read */
    uint32_t n;                 /* entries of the longest head: `at` has moved to there */
    uint32_t back;              /* rotation is so far behind positions (renumber) */
    uint32_t n_layers, n_heads; /* of the store */
    uint32_t head_dim;
    uint32_t *counts;    /* (n_layers, n_heads) */
    uint32_t *less;      /* (n_layers, n_heads) n less these; NULL: all are as long */
    uint32_t *positions; /* (n_layers, n_heads, n) */
    uint8_t *zeroed;     /* (n_layers, n_heads, head_dim); NULL: nothing is */
};

/* A row of a pass that is noted; notes NULL: it is not. */
typedef struct cdz_press_row {
    cdz_press_notes *notes;
    uint32_t position;
} cdz_press_row;

/* Can this model's caches be pressed? */
cdz_status cdz_press_fits(const cdz_run_model *model, cdz_error *err);
/* What of the model stands in the way of taking entries out of its caches: "a model with ..."; NULL: nothing. */
const char *cdz_press_obstacle(const cdz_run_model *model);
/* May its keys be turned to other positions? Not where their norm, with weights, comes after the rotation. */
bool cdz_press_turns(const cdz_arch *arch);
/* Is the layer shown to presses? */
bool cdz_press_reads_layer(const cdz_arch *arch, uint32_t layer);

/* Where a pass over the sequence has to end at the latest, for a press; UINT32_MAX: nowhere. */
uint32_t cdz_press_next(const cdz_seq *seq);
/* Entries that the first n positions take, n no less than those of the newest press. */
uint32_t cdz_press_entries(const cdz_seq *seq, uint32_t n);
/* Has something been noted, but not all of it yet? */
bool cdz_press_is_reading(const cdz_seq *seq);

/* Room for what the next press wants to know, before the first pass that it is noted in. */
cdz_status cdz_press_expect(cdz_seq *seq, cdz_error *err);
/* Of a sequence that shares all positions of one that is noted; from has notes. */
cdz_status cdz_press_copy_notes(cdz_seq *to, const cdz_seq *from, cdz_error *err);
void cdz_press_hold(cdz_pressed *pressed); /* NULL is fine, here and below */
void cdz_press_leave(cdz_pressed *pressed);
void cdz_press_forget_notes(cdz_seq *seq);

/* Of the pass's rows: what the attention of a layer reads; its queries before and after their rotation; and when it has been
 * computed. */
void cdz_press_see_hidden(cdz_layers *layers, uint32_t layer, const float *x);
void cdz_press_see_plain(cdz_layers *layers, uint32_t layer);
void cdz_press_see_queries(cdz_layers *layers, uint32_t layer);
void cdz_press_see_attention(cdz_layers *layers, uint32_t layer, const cdz_attention *how);

/* After a pass: presses the sequence if it has come so far. What goes wrong is in its plan. */
void cdz_press_run(cdz_layers *layers, cdz_seq *seq);

#endif
