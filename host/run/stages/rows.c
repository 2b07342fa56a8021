/* rows.c - room for rows, views of them and matrices of their scores; and how plugins' calls on them went.
 *
 * Owns: what cdz_rows_open made. Not: sequences (a loop's), row states (the stages'). Thread: [engine]. */
#include "run/stages/rows.h"

#include <stdlib.h>

bool cdz_rows_open(cdz_rows *rows, uint32_t n, uint32_t n_workers)
{
    cdz_mutex_init(&rows->text_lock);
    rows->arena.limit = CDZ_REQUEST_ARENA;
    rows->n = n;
    rows->n_workers = n_workers > CDZ_ROW_WORKERS ? CDZ_ROW_WORKERS : n_workers ? n_workers : 1;
    rows->at = cdz_arena_array(&rows->arena, n, sizeof *rows->at);
    rows->workers = cdz_arena_array(&rows->arena, rows->n_workers, sizeof *rows->workers);
    return rows->at && rows->workers && cdz_rows_room(rows, n);
}

void cdz_rows_close(cdz_rows *rows)
{
    for (uint32_t i = 0; rows->workers && i < rows->n_workers; i++)
        cdz_scratch_free(&rows->workers[i].scratch);
    cdz_scratch_free(&rows->verb_scratch);
    cdz_rows_free_texts(rows);
    free(rows->view.ids);
    free(rows->view.rows);
    free(rows->view.states);
    free(rows->state_view);
    free(rows->phase_view);
    cdz_arena_free(&rows->arena);
}

/* --- calls ------------------------------------------------------------------------------------------------------ */

cdz_status cdz_rows_judge(cdz_rows *rows, const cdz_call *call, cdz_status returned,
                          const cdz_error *said)
{
    if (returned == CDZ_OK && !call->broken) return CDZ_OK;
    /* That a request was cancelled or is late is the host's to say: it ends without a sentence, as if all were well. */
    const bool ends = returned == CDZ_E_CANCELLED || returned == CDZ_E_DEADLINE;
    if (ends && cdz_berth_alive(rows->berth) == CDZ_OK)
        return cdz_call_overstepped(call, returned, said, &rows->error);
    return cdz_call_failed(call, returned, said, &rows->error);
}

void cdz_rows_complain(const cdz_rows *rows, const cdz_call *call)
{
    cdz_error fault;
    if (call->broken && cdz_call_fault(call, CDZ_OK, NULL, &fault) != CDZ_OK)
        cdz_rows_log(rows, CDZ_LOG_WARNING, call->plugin->id, fault.text);
}

/* --- views ------------------------------------------------------------------------------------------------------ */

bool cdz_rows_room(cdz_rows *rows, uint32_t n)
{
    if (n <= rows->view_cap) return true;
    cdz_view *view = &rows->view;
    cdz_ids *ids = realloc(view->ids, n * sizeof *ids);
    if (ids) view->ids = ids;
    uint32_t *index = realloc(view->rows, n * sizeof *index);
    if (index) view->rows = index;
    unsigned char **states = realloc(view->states, n * sizeof *states);
    if (states) view->states = states;
    void **state_view = realloc(rows->state_view, n * sizeof *state_view);
    if (state_view) rows->state_view = state_view;
    uint32_t *phase_view = realloc(rows->phase_view, n * sizeof *phase_view);
    if (phase_view) rows->phase_view = phase_view;
    if (!ids || !index || !states || !state_view || !phase_view) return false;
    rows->view_cap = n;
    return true;
}

bool cdz_view_pads(const cdz_rows *rows, const cdz_view *view, uint32_t i)
{
    return view == &rows->view && cdz_row_pads(rows, view->rows[i]);
}

bool cdz_view_skips(const cdz_rows *rows, const cdz_view *view, uint32_t i)
{
    return view == &rows->view && !cdz_row_runs(rows, view->rows[i]);
}

/* --- matrices --------------------------------------------------------------------------------------------------- */

cdz_status cdz_matrix_fit(cdz_rows *rows, cdz_matrix *m, uint32_t n_rows, uint32_t n_vocab)
{
    size_t floats, bytes;
    if ((uint64_t)n_rows * n_vocab > (uint64_t)m->cap_rows * m->n_vocab || !m->data) {
        if (__builtin_mul_overflow((size_t)n_rows, (size_t)n_vocab, &floats) ||
            __builtin_mul_overflow(floats, sizeof(float), &bytes))
            return cdz_rows_nomem(rows);
        float *data = rows->berth->backend->api->alloc(rows->berth->backend, bytes);
        if (!data) return cdz_rows_nomem(rows);
        cdz_matrix_free(rows, m);
        m->data = data;
        m->cap_rows = n_rows;
        m->n_vocab = n_vocab;
    }
    if (m->n_vocab != n_vocab) { /* the same memory, cut in other rows */
        m->cap_rows = (uint32_t)((uint64_t)m->cap_rows * m->n_vocab / n_vocab);
        m->n_vocab = n_vocab;
    }
    m->n_rows = n_rows;
    if (!m->id) m->id = ++rows->next_matrix;
    return CDZ_OK;
}

cdz_status cdz_matrix_spare(cdz_rows *rows, cdz_matrix *m)
{
    const size_t bytes = (size_t)m->cap_rows * m->n_vocab * sizeof *m->spare;
    if (!m->spare) m->spare = rows->berth->backend->api->alloc(rows->berth->backend, bytes);
    return m->spare ? CDZ_OK : cdz_rows_nomem(rows);
}

cdz_scores cdz_matrix_scores(const cdz_matrix *m)
{
    return (cdz_scores){.data = m->data,
                        .n_rows = m->n_rows,
                        .n_vocab = m->n_vocab,
                        .stride = m->n_vocab,
                        .id = m->id};
}

void cdz_matrix_free(const cdz_rows *rows, cdz_matrix *m)
{
    rows->berth->backend->api->free(rows->berth->backend, m->data);
    rows->berth->backend->api->free(rows->berth->backend, m->spare);
    m->data = m->spare = NULL;
}
