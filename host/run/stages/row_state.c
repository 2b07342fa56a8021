/* row_state.c - plugin state of rows: kept for taking tokens back, and rebuilt for continuations that may never be.
 *
 * A state at some length is the nearest earlier mark (zero bytes at the prompt's end) and accept called for every
 * token since. Marks are kept only where tokens can be taken back. Owns: the states of a set's rows, in its arena, and
 * their marks. Thread: [engine]. */
#include <stdlib.h>
#include <string.h>

#include "call/calls.h"
#include "run/stages/stages.h"

cdz_status cdz_stage_states_make(cdz_stageset *set, cdz_rows *rows)
{
    for (uint32_t r = 0; set->state_bytes && r < set->n_rows; r++) {
        set->states[r].state = cdz_arena_alloc(&set->arena, set->state_bytes);
        if (!set->states[r].state) return cdz_rows_nomem(rows);
    }
    return CDZ_OK;
}

/* --- copies ----------------------------------------------------------------------------------------------------- */

void cdz_stage_state_drop(cdz_rows *rows, const cdz_stage *stage, const cdz_step *step, void *state)
{
    cdz_call call = {.scratch = &rows->workers[0].scratch};
    cdz_call_free(&call, stage->state_api, step, state);
    cdz_rows_complain(rows, &call);
    memset(state, 0, stage->state_size);
}

/* `to` as bytes that own nothing, and then as a copy of `from`, if any. */
static cdz_status clone_stage_state(cdz_stageset *set, cdz_rows *rows, const cdz_stage *stage,
                                    unsigned char *to, const unsigned char *from)
{
    cdz_scope scope = {.rows = rows,
                       .set = set,
                       .plugin = stage->plugin,
                       .scratch = &rows->workers[0].scratch,
                       .error = &rows->workers[0].error,
                       .arena = &set->arena};
    const cdz_step step = cdz_step_for(&scope, stage->instance, stage->shared);
    cdz_stage_state_drop(rows, stage, &step, to);
    if (!from) return CDZ_OK;
    cdz_call call = {.scratch = scope.scratch};
    const cdz_status status = cdz_call_clone(&call, stage->state_api, &step, from, to);
    return cdz_rows_judge(rows, &call, status, scope.error);
}

static cdz_status copy_stage_state(cdz_stageset *set, cdz_rows *rows, const cdz_stage *stage,
                                   unsigned char *to, const unsigned char *from)
{
    to += stage->state_at;
    if (from) from += stage->state_at;
    if (stage->state_api) return clone_stage_state(set, rows, stage, to, from);
    if (from)
        memcpy(to, from, stage->state_size);
    else
        memset(to, 0, stage->state_size);
    return CDZ_OK;
}

cdz_status cdz_stage_state_copy(cdz_stageset *set, cdz_rows *rows, unsigned char *to,
                                const unsigned char *from)
{
    if (!set->owned_states) {
        if (from)
            memcpy(to, from, set->state_bytes);
        else
            memset(to, 0, set->state_bytes);
        return CDZ_OK;
    }
    for (uint32_t s = 0; s < set->processors.n; s++)
        CDZ_TRY(copy_stage_state(set, rows, &set->processors.at[s], to, from));
    for (uint32_t s = 0; s < set->criteria.n; s++)
        CDZ_TRY(copy_stage_state(set, rows, &set->criteria.at[s], to, from));
    return CDZ_OK;
}

/* --- the next generation of a row ------------------------------------------------------------------------------- */

cdz_status cdz_stage_state_breed(cdz_stageset *set, cdz_rows *rows, uint32_t r, uint32_t parent)
{
    cdz_stage_states *own = &set->states[r];
    if (!set->state_bytes) return CDZ_OK;
    if (!own->spare) own->spare = cdz_arena_alloc(&set->arena, set->state_bytes);
    if (!own->spare) return cdz_rows_nomem(rows);
    return cdz_stage_state_copy(set, rows, own->spare, set->states[parent].state);
}

void cdz_stage_state_swap(cdz_stageset *set, uint32_t r)
{
    cdz_stage_states *own = &set->states[r];
    unsigned char *state = own->state;
    own->state = own->spare;
    own->spare = state;
    own->n_marks = 0; /* those were of another history */
}

/* --- marks ------------------------------------------------------------------------------------------------------ */

cdz_status cdz_stage_state_mark(cdz_stageset *set, cdz_rows *rows, uint32_t r)
{
    cdz_stage_states *own = &set->states[r];
    const uint32_t n = rows->at[r].seq->n - rows->info.prompt_len;
    /* A row that became a copy of another has lost its earlier marks: then it gets none until it is rewound. */
    if (!set->state_bytes || !rows->holds_text || n != (own->n_marks + 1) * CDZ_MARK_EVERY)
        return CDZ_OK;
    if (own->n_marks == own->marks_cap) {
        const uint32_t cap = own->marks_cap ? own->marks_cap * 2 : 8;
        unsigned char *marks = realloc(own->marks, cap * set->state_bytes);
        if (!marks) return cdz_rows_nomem(rows);
        memset(marks + own->marks_cap * set->state_bytes, 0,
               (cap - own->marks_cap) * set->state_bytes);
        own->marks = marks;
        own->marks_cap = cap;
    }
    return cdz_stage_state_copy(set, rows, own->marks + own->n_marks++ * set->state_bytes,
                                own->state);
}

/* The state of row r nearest before length len, and in *from the length it belongs to. */
static cdz_status nearest(cdz_stageset *set, cdz_rows *rows, uint32_t r, uint32_t len,
                          unsigned char *state, uint32_t *from)
{
    const cdz_stage_states *own = &set->states[r];
    const uint32_t prompt = rows->info.prompt_len;
    uint32_t mark = len > prompt ? (len - prompt) / CDZ_MARK_EVERY : 0;
    if (mark > own->n_marks) mark = own->n_marks;
    *from = prompt + mark * CDZ_MARK_EVERY;
    return cdz_stage_state_copy(set, rows, state,
                                mark ? own->marks + (mark - 1) * set->state_bytes : NULL);
}

cdz_status cdz_stage_state_rewind(cdz_stageset *set, cdz_rows *rows, uint32_t r)
{
    if (!set->state_bytes) return CDZ_OK;
    cdz_stage_states *own = &set->states[r];
    uint32_t from;
    CDZ_TRY(nearest(set, rows, r, rows->at[r].seq->n, own->state, &from));
    own->n_marks = (from - rows->info.prompt_len) / CDZ_MARK_EVERY;
    return cdz_stages_replay(set, rows, cdz_row_ids(&rows->at[r]), from, r, own->state);
}

/* --- made-up rows ----------------------------------------------------------------------------------------------- */

static uint32_t common(cdz_ids a, cdz_ids b)
{
    const uint32_t n = a.len < b.len ? a.len : b.len;
    uint32_t i = 0;
    while (i < n && a.at[i] == b.at[i]) i++;
    return i;
}

/* A scratch state for ids that continue request row r. */
static cdz_status try_ids(cdz_stageset *set, cdz_rows *rows, cdz_ids ids, uint32_t r,
                          unsigned char *state)
{
    const uint32_t same = common(ids, cdz_row_ids(&rows->at[r]));
    uint32_t from = rows->at[r].seq->n;
    if (same == from)
        CDZ_TRY(cdz_stage_state_copy(set, rows, state, set->states[r].state));
    else
        CDZ_TRY(nearest(set, rows, r, same, state, &from));
    return cdz_stages_replay(set, rows, ids, from, r, state);
}

cdz_status cdz_stage_states_trial(cdz_stageset *set, cdz_rows *rows, const cdz_view *view)
{
    if (!set->state_bytes) return CDZ_OK;
    const size_t need = view->n * set->state_bytes;
    if (need > set->trial_cap) {
        unsigned char *grown = realloc(set->trial_states, need);
        if (!grown) return cdz_rows_nomem(rows);
        memset(grown + set->trial_cap, 0, need - set->trial_cap);
        set->trial_states = grown;
        set->trial_cap = need;
    }
    for (uint32_t i = 0; i < view->n; i++) {
        view->states[i] = set->trial_states + i * set->state_bytes;
        CDZ_TRY(try_ids(set, rows, view->ids[i], view->rows[i], view->states[i]));
    }
    return CDZ_OK;
}
