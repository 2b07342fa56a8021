/* panels.h - how a block of each quantised type lies in a panel of sixteen rows. A panel: blocks ascending. A block:
 * [two-byte fields][16 rows], then [four-byte words][16 rows], in the order of the table. */
#ifndef CDZ_PANELS_H
#define CDZ_PANELS_H

#include "kernels.h"

enum { CDZ_PANEL_WORD_RUNS = 5 };

typedef struct cdz_word_run {
    uint8_t at, n; /* byte offset in a block; words from there */
} cdz_word_run;

typedef struct cdz_panel_layout {
    uint8_t n_halves, half[2];
    bool turned; /* the first word holds a bit for each of 32 numbers; those of four numbers are brought together */
    cdz_word_run
        words[CDZ_PANEL_WORD_RUNS]; /* in the order in which a kernel needs them: one stream from memory */
} cdz_panel_layout;

/* Of a type that has panels; n_halves is 0 for others. */
const cdz_panel_layout *cdz_panel_layout_of(cdz_dtype dtype);

#endif
