/* row_state.c - plugin state of rows: kept for taking tokens back, and rebuilt for continuations that may never be.
 *
 * A state at some length is the nearest earlier mark (zero bytes at the prompt's end) and accept called for every
 * token since. Marks are kept only where tokens can be taken back. */
#include <stdlib.h>
#include <string.h>

#include "run/task.h"

cdz_status cdz_row_state_mark(cdz_loop *loop, cdz_loop_row *row)
{
    const uint32_t n = row->seq->n - loop->info.prompt_len;
    /* A row that became a copy of another has lost its earlier marks: then it gets none until it is rewound. */
    if (!loop->state_bytes || !loop->holds_text || n != (row->n_marks + 1) * CDZ_MARK_EVERY)
        return CDZ_OK;
    if (row->n_marks == row->marks_cap) {
        const uint32_t cap = row->marks_cap ? row->marks_cap * 2 : 8;
        unsigned char *marks = realloc(row->marks, cap * loop->state_bytes);
        if (!marks) return cdz_loop_nomem(loop);
        memset(marks + row->marks_cap * loop->state_bytes, 0,
               (cap - row->marks_cap) * loop->state_bytes);
        row->marks = marks;
        row->marks_cap = cap;
    }
    return cdz_stages_copy_state(loop, row->marks + row->n_marks++ * loop->state_bytes, row->state);
}

/* The state nearest before length len, and in *from the length it belongs to. */
static cdz_status nearest(cdz_loop *loop, const cdz_loop_row *row, uint32_t len,
                          unsigned char *state, uint32_t *from)
{
    const uint32_t prompt = loop->info.prompt_len;
    uint32_t mark = len > prompt ? (len - prompt) / CDZ_MARK_EVERY : 0;
    if (mark > row->n_marks) mark = row->n_marks;
    *from = prompt + mark * CDZ_MARK_EVERY;
    return cdz_stages_copy_state(loop, state,
                                 mark ? row->marks + (mark - 1) * loop->state_bytes : NULL);
}

cdz_status cdz_row_state_rewind(cdz_loop *loop, uint32_t r)
{
    if (!loop->state_bytes) return CDZ_OK;
    cdz_loop_row *row = &loop->rows[r];
    uint32_t from;
    CDZ_TRY(nearest(loop, row, row->seq->n, row->state, &from));
    row->n_marks = (from - loop->info.prompt_len) / CDZ_MARK_EVERY;
    return cdz_stages_replay(loop, cdz_row_ids(row), from, r, row->state);
}

static uint32_t common(cdz_ids a, cdz_ids b)
{
    const uint32_t n = a.len < b.len ? a.len : b.len;
    uint32_t i = 0;
    while (i < n && a.at[i] == b.at[i]) i++;
    return i;
}

cdz_status cdz_row_state_trial(cdz_loop *loop, cdz_ids ids, uint32_t r, unsigned char *state)
{
    if (!loop->state_bytes) return CDZ_OK;
    const cdz_loop_row *row = &loop->rows[r];
    const uint32_t same = common(ids, cdz_row_ids(row));
    uint32_t from = row->seq->n;
    if (same == from)
        CDZ_TRY(cdz_stages_copy_state(loop, state, row->state));
    else
        CDZ_TRY(nearest(loop, row, same, state, &from));
    return cdz_stages_replay(loop, ids, from, r, state);
}
