/* press_notes.h - what press.c notes and press_run.c reads, and attention's weights of some queries: press_weigh.c. */
#ifndef CDZ_HOST_RUN_PASS_PRESS_NOTES_H
#define CDZ_HOST_RUN_PASS_PRESS_NOTES_H

#include "run/pass/press.h"

#define CDZ_PRESS_OF_WINDOW (CDZ_PRESS_QUERIES | CDZ_PRESS_HIDDEN | CDZ_PRESS_ATTENTION)

enum {
    CDZ_WEIGH_ROWS = 32,
    CDZ_MOMENT_ROWS = 128, /* positions whose products are summed together, at absolute multiples */
};

/* For the press at `to` positions. A piece is what is pressed alone: everything, unless there is a chunk length. */
struct cdz_press_notes {
    uint32_t to, what, window, skip;
    uint32_t piece, n_pieces;
    bool failed;    /* memory was short */
    float *queries; /* (layers, pieces, window, heads, d) rotated; NULL: nobody asks, as below */
    float *hidden;  /* (layers, pieces, window, D) */
    double *mean;   /* (layers, pieces, heads, d) sums */
    double *square; /* (layers, pieces, heads, d, d) sums, of which the lower half is kept */
    float *turned; /* (layers, pieces, heads, d, CDZ_MOMENT_ROWS) queries that mean and square lack yet */
    double *sums; /* (layers, heads, to) */
};

static inline uint32_t cdz_press_piece_end(const cdz_press_notes *notes, uint32_t piece)
{
    const uint64_t end = ((uint64_t)piece + 1) * notes->piece;
    return end < notes->to ? (uint32_t)end : notes->to;
}

/* Queries that are kept of a piece. */
static inline uint32_t cdz_press_piece_queries(const cdz_press_notes *notes, uint32_t piece)
{
    const uint32_t n = cdz_press_piece_end(notes, piece) - piece * notes->piece;
    return notes->window < n ? notes->window : n;
}

/* Weights of m queries of one head over n entries, query i seeing the first sees + i of them. */
typedef struct cdz_weighing {
    cdz_backend *backend;
    const cdz_attention *how;
    size_t head, dim;
    const float *q; /* (m, dim), ldq apart */
    size_t ldq;
    uint32_t m;
    const float *keys; /* (n, dim) */
    uint32_t n, sees;
    size_t ldo;
    float *out; /* (m, n), ldo apart */
} cdz_weighing;

void cdz_press_weigh(const cdz_weighing *w);

#endif
