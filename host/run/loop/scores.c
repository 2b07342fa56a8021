/* scores.c - verbs on score matrices, and whose memory a matrix is.
 *
 * Owns: matrices that a strategy asked for. Invariant: what a strategy hands in is found among ours by id and lies inside it,
 * before a float of it is read; rows that are on a device have come over by then. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "run/loop/loop.h"
#include "run/loop/verbs.h"
#include "vec/vec.h"

/* --- matrices ------------------------------------------------------------------------------------------------- */

cdz_matrix *cdz_loop_matrix(cdz_loop *loop, uint64_t id)
{
    if (id == 0) return NULL;
    if (loop->scores.id == id) return &loop->scores;
    if (loop->seq_scores.id == id) return &loop->seq_scores;
    if (loop->hidden.scores.id == id) return &loop->hidden.scores;
    if (loop->refitted.id == id) return &loop->refitted;
    for (uint32_t i = 0; i < loop->n_scratch; i++)
        if (loop->scratch[i]->id == id) return loop->scratch[i];
    return NULL;
}

/* A strategy may cut whole rows out of a matrix we gave it, nothing else. What it knows no address of, because it was
 * away, begins with row 0. */
cdz_status cdz_loop_find(cdz_loop *loop, const char *verb, const cdz_scores *given, cdz_scores *out,
                         uint32_t *first)
{
    const cdz_matrix *m = cdz_loop_matrix(loop, given->id);
    float *data = given->data || m != &loop->scores ? given->data : m->data;
    bool fits = m && given->n_vocab == m->n_vocab && given->stride == m->n_vocab && data >= m->data;
    if (fits) {
        const size_t at = (size_t)(data - m->data);
        *first = (uint32_t)(at / m->n_vocab);
        fits = at % m->n_vocab == 0 && at / m->n_vocab <= m->n_rows &&
               given->n_rows <= m->n_rows - *first;
    }
    *out = *given;
    out->data = data;
    if (fits) return CDZ_OK;
    return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                         "%s: these scores are not rows of a matrix that forward, seq_forward or "
                         "scratch_scores gave",
                         verb);
}

cdz_status cdz_loop_check(cdz_loop *loop, const char *verb, const cdz_scores *given,
                          cdz_scores *out, uint32_t *first)
{
    CDZ_TRY(cdz_loop_find(loop, verb, given, out, first));
    return out->id == loop->scores.id ? cdz_loop_fetch(loop, *first, out->n_rows) : CDZ_OK;
}

/* In the list of matrices, which doubles: the arena keeps what it outgrew. */
static bool room_for_one(cdz_loop *loop)
{
    if (loop->n_scratch < loop->scratch_cap) return true;
    const uint32_t cap = loop->scratch_cap ? 2 * loop->scratch_cap : 8;
    cdz_matrix **all = cdz_arena_array(&loop->rows.arena, cap, sizeof *all);
    if (!all) return false;
    for (uint32_t i = 0; i < loop->n_scratch; i++) all[i] = loop->scratch[i];
    loop->scratch = all;
    loop->scratch_cap = cap;
    return true;
}

cdz_status cdz_verb_scratch_scores(cdz_decoder *dec, uint32_t n_rows, cdz_scores *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    CDZ_TRY(cdz_loop_take(loop, "scratch_scores",
                          cdz_loop_bytes(n_rows, loop->rows.n_vocab * sizeof(float))));
    cdz_matrix *m = cdz_arena_alloc(&loop->rows.arena, sizeof *m);
    if (!m || !room_for_one(loop)) return cdz_loop_nomem(loop);
    CDZ_TRY(cdz_matrix_fit(&loop->rows, m, n_rows, loop->rows.n_vocab));
    loop->scratch[loop->n_scratch++] = m;
    *out = cdz_matrix_scores(m);
    return CDZ_OK;
}

cdz_status cdz_verb_map(cdz_decoder *dec, cdz_scores *scores)
{
    cdz_loop *loop = cdz_loop_of(dec);
    uint32_t first;
    CDZ_TRY(cdz_verb_enter(dec, 0));
    return cdz_loop_check(loop, "map", scores, scores, &first);
}

/* --- distributions -------------------------------------------------------------------------------------------- */

enum { SHARE_FROM = 65536 };

typedef struct spread {
    cdz_loop *loop;
    void (*op)(float *out, const float *x, size_t n);
    const cdz_scores *scores;
    bool rows_match; /* score row i is request row i: rows that are filled with pad are left alone */
} spread;

static void one_row(void *arg, size_t row)
{
    const spread *s = arg;
    if (s->rows_match && !cdz_row_runs(&s->loop->rows, (uint32_t)row)) return;
    float *x = cdz_row(s->scores, (uint32_t)row);
    s->op(x, x, s->scores->n_vocab);
}

static cdz_status each_row(cdz_decoder *dec, const char *verb, cdz_scores *scores,
                           void (*op)(float *, const float *, size_t))
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    uint32_t first;
    CDZ_TRY(cdz_loop_check(loop, verb, scores, scores, &first));
    const bool rows_match =
        scores->id == loop->scores.id && first == 0 && scores->n_rows == loop->rows.n;
    spread s = {loop, op, scores, rows_match};
    const cdz_work was = cdz_profile_mark(loop->rows.berth->profile, CDZ_WORK_DRAW);
    if (scores->n_rows > 1 && (size_t)scores->n_rows * scores->n_vocab >= SHARE_FROM)
        loop->rows.berth->backend->api->parallel(loop->rows.berth->backend, one_row, &s,
                                                 scores->n_rows);
    else
        for (uint32_t r = 0; r < scores->n_rows; r++) one_row(&s, r);
    cdz_profile_mark(loop->rows.berth->profile, was);
    return CDZ_OK;
}

cdz_status cdz_verb_softmax(cdz_decoder *dec, cdz_scores *scores)
{
    return each_row(dec, "softmax", scores, cdz_vec_table()->softmax);
}

cdz_status cdz_verb_log_softmax(cdz_decoder *dec, cdz_scores *scores)
{
    return each_row(dec, "log_softmax", scores, cdz_vec_table()->log_softmax);
}

/* out's rows lie side by side, as all whole rows of a matrix do: together they are the flat row. */
cdz_status cdz_verb_softmax_flat(cdz_decoder *dec, const cdz_scores *given, uint32_t first,
                                 uint32_t n, const float *addends, cdz_scores *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    uint32_t from, to;
    cdz_scores here;
    const cdz_scores *scores = &here;
    CDZ_TRY(cdz_loop_check(loop, "softmax_flat", given, &here, &from));
    CDZ_TRY(cdz_loop_check(loop, "softmax_flat", out, out, &to));
    const uint32_t rows = scores->n_rows < out->n_rows ? scores->n_rows : out->n_rows;
    if (n == 0 || n > rows || first > rows - n || scores->n_vocab != out->n_vocab)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "softmax_flat: rows %" PRIu32 " to %" PRIu32 " of scores with %" PRIu32
                             " rows of %" PRIu32 ", into %" PRIu32 " rows of %" PRIu32,
                             cdz_loop_nth(loop, first), cdz_loop_nth(loop, first) + n,
                             scores->n_rows, scores->n_vocab, out->n_rows, out->n_vocab);
    const size_t V = scores->n_vocab;
    const cdz_work was = cdz_profile_mark(loop->rows.berth->profile, CDZ_WORK_DRAW);
    for (uint32_t i = first; i < first + n; i++) {
        memmove(cdz_row(out, i), cdz_row(scores, i), V * sizeof(float));
        if (addends) cdz_vec_table()->add(cdz_row(out, i), V, addends[i - first]);
    }
    cdz_vec_table()->softmax(cdz_row(out, first), cdz_row(out, first), n * V);
    cdz_profile_mark(loop->rows.berth->profile, was);
    return CDZ_OK;
}

cdz_status cdz_verb_ban(cdz_decoder *dec, cdz_scores *scores, uint32_t row, int32_t token)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    uint32_t first;
    CDZ_TRY(cdz_loop_check(loop, "ban", scores, scores, &first));
    if (row >= scores->n_rows || token < 0 || (uint32_t)token >= scores->n_vocab)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "ban: token %" PRId32 " of row %" PRIu32 " in scores of %" PRIu32
                             " rows and %" PRIu32 " tokens",
                             token, cdz_loop_nth(loop, row), scores->n_rows, scores->n_vocab);
    cdz_row(scores, row)[token] = -INFINITY;
    return CDZ_OK;
}
