/* function.c - gathers what wants lack into one call of a program's function; see function.h.
 *
 * Owns: the rows of that call, for as long as it lasts. Not: scores, which go where the wants say. Thread: [engine]. */
#include "run/pass/function.h"

#include <stdlib.h>

#include "run/pass/sequence.h"

/* What a pass is put together of: first counted, then filled. */
typedef struct asking {
    cdz_function_row *rows;
    float **scores;
    int32_t *ids; /* of sequences that a mask hides some of */
    size_t n_rows, n_scores, n_ids;
    uint32_t n_positions;
} asking;

static uint32_t end_of(const cdz_want *want, const cdz_seq *seq)
{
    const uint32_t visible = cdz_seq_visible(seq);
    return want->until && want->until < visible ? want->until : visible;
}

/* The first position below end whose scores are wanted; end: none. */
static uint32_t first_wanted(const cdz_want *want, const cdz_want_seq *ws, uint32_t end)
{
    const cdz_seq *seq = ws->seq;
    if (want->positions == CDZ_POSITIONS_ALL) {
        const uint32_t from = seq->computed > ws->from ? seq->computed : ws->from;
        return from < end ? from : end;
    }
    const bool last = want->positions == CDZ_POSITIONS_LAST && end == cdz_seq_visible(seq);
    return last && seq->computed < end ? end - 1 : end;
}

static void add_scores(asking *a, const cdz_want *want, const cdz_want_seq *ws, uint32_t position)
{
    int64_t row = ws->row0;
    if (want->positions == CDZ_POSITIONS_ALL)
        row += want->by_index ? cdz_seq_slot(ws->seq, position) : position;
    if (want->away && row < want->away->n_rows) want->away->there[row] = false;
    if (a->scores) a->scores[a->n_scores] = want->out + (size_t)row * want->stride;
    a->n_scores++;
}

/* Its ids up to end, without those that a mask hides. */
static const int32_t *add_ids(asking *a, const cdz_seq *seq, uint32_t end)
{
    if (!seq->mask) return seq->ids;
    int32_t *at = a->ids ? a->ids + a->n_ids : NULL;
    for (uint32_t p = 0; at && p < end; p++) at[p] = seq->ids[cdz_seq_slot(seq, p)];
    a->n_ids += end;
    return at;
}

static void add_seq(asking *a, const cdz_want *want, const cdz_want_seq *ws)
{
    const uint32_t end = end_of(want, ws->seq), first = first_wanted(want, ws, end);
    const size_t scores0 = a->n_scores;
    if (end > ws->seq->computed) a->n_positions += end - ws->seq->computed;
    if (first == end) return;
    const int32_t *ids = add_ids(a, ws->seq, end);
    for (uint32_t p = first; p < end; p++) add_scores(a, want, ws, p);
    if (a->rows)
        a->rows[a->n_rows] = (cdz_function_row){
            .ids = ids, .n_ids = end, .n_scores = end - first, .scores = a->scores + scores0};
    a->n_rows++;
}

static void add_all(asking *a, cdz_want *const *wants, uint32_t n)
{
    a->n_rows = a->n_scores = a->n_ids = 0;
    a->n_positions = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t s = wants[i]->at; s < wants[i]->n_seqs; s++)
            add_seq(a, wants[i], &wants[i]->seqs[s]);
}

/* Every position is read now. */
static void finish(cdz_want *want)
{
    for (uint32_t s = want->at; s < want->n_seqs; s++) {
        cdz_seq *seq = want->seqs[s].seq;
        const uint32_t end = end_of(want, seq);
        if (seq->computed < end) seq->computed = end;
        if (seq->computed > seq->reached) seq->reached = seq->computed;
        if (seq->computed > seq->known) seq->known = seq->computed;
    }
    want->at = want->n_seqs;
    want->rows_left = 0;
}

static size_t some(size_t n)
{
    return n ? n : 1;
}

static cdz_status call(cdz_function *f, asking *a, cdz_want *const *wants, uint32_t n)
{
    a->rows = calloc(some(a->n_rows), sizeof *a->rows);
    a->scores = calloc(some(a->n_scores), sizeof *a->scores);
    a->ids = calloc(some(a->n_ids), sizeof *a->ids);
    if (!a->rows || !a->scores || !a->ids) return cdz_err_memory(&f->failed, "a pass");
    add_all(a, wants, n);
    if (a->n_rows == 0) return CDZ_OK;
    cdz_error said = {0};
    const cdz_status status = f->forward(f->user, a->rows, (uint32_t)a->n_rows, &said);
    if (status == CDZ_OK) return CDZ_OK;
    return cdz_err(&f->failed, status, "%s",
                   said.text[0] ? said.text : "the model's function failed and did not say why");
}

uint32_t cdz_function_pass(cdz_function *function, cdz_want *const *wants, uint32_t n)
{
    asking a = {0};
    add_all(&a, wants, n);
    function->failed = (cdz_error){0};
    (void)call(function, &a, wants, n); /* cdz_function_check tells */
    for (uint32_t i = 0; i < n; i++) finish(wants[i]);
    free(a.rows);
    free(a.scores);
    free(a.ids);
    return a.n_positions;
}

cdz_status cdz_function_check(cdz_function *function, cdz_error *err)
{
    if (!function || function->failed.code == CDZ_OK) return CDZ_OK;
    *err = function->failed;
    function->failed = (cdz_error){0};
    return err->code;
}
