/* spy_rows.c - copies of the engine's rows of scores between pages that nobody may touch, and some floats of room between two
 * rows, which have to stay as they are. Before each verb what was written goes to the engine's rows, behind it what the engine
 * wrote comes back, so that a strategy sees the same numbers. The verbs that it calls are in spy.c. */
#include "check/spy_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check/probe.h"

enum { MATRICES = 24, STATES = 4, GAP = 5 }; /* GAP: floats between rows */

static const float mark = 54321.75f; /* no score of ours */

typedef struct matrix {
    cdz_scores seen, real; /* real.id 0: not in use, its memory is free for one of this shape */
    bool at_end;
    cdz_rows_of whose;
} matrix;

/* Hidden states of one size. */
typedef struct states {
    float *at;
    size_t n;
} states;

static struct {
    matrix all[MATRICES];
    states hidden[STATES];
    bool on, at_end;
    char complaint[300];
} shown;

static size_t floats_of(const cdz_scores *s)
{
    return s->stride * (s->n_rows - 1u) + s->n_vocab;
}

/* --- what is shown ----------------------------------------------------------------------------------------------- */

static matrix *known(uint64_t id)
{
    for (uint32_t i = 0; i < MATRICES; i++)
        if (shown.all[i].real.id == id) return &shown.all[i];
    return NULL;
}

static bool fits(const matrix *m, const cdz_scores *s)
{
    return m->seen.data && m->at_end == shown.at_end && m->seen.n_rows == s->n_rows &&
           m->seen.n_vocab == s->n_vocab;
}

static void put_marks(const cdz_scores *seen)
{
    for (uint32_t r = 0; r + 1 < seen->n_rows; r++)
        for (uint32_t g = 0; g < GAP; g++) cdz_row(seen, r)[seen->n_vocab + g] = mark;
}

/* Memory of this shape that is free, or new; NULL: none is left. */
static matrix *room_for(const cdz_scores *s)
{
    matrix *empty = NULL;
    for (uint32_t i = 0; i < MATRICES; i++) {
        matrix *m = &shown.all[i];
        if (m->real.id == 0 && fits(m, s)) return m;
        if (!m->seen.data && !empty) empty = m;
    }
    if (!empty) return NULL;
    empty->seen = *s;
    empty->seen.stride = (size_t)s->n_vocab + GAP;
    empty->seen.data = cdz_guarded(floats_of(&empty->seen) * sizeof(float), sizeof(float),
                                   shown.at_end, "rows of scores");
    empty->at_end = shown.at_end;
    if (empty->seen.data) put_marks(&empty->seen);
    return empty->seen.data ? empty : NULL;
}

static void come(const matrix *m)
{
    for (uint32_t r = 0; r < m->real.n_rows; r++)
        memcpy(cdz_row(&m->seen, r), cdz_row(&m->real, r), m->real.n_vocab * sizeof(float));
}

void cdz_shown_scores(cdz_scores *scores, cdz_rows_of whose)
{
    if (!shown.on || scores->id == 0) return;
    matrix *m = known(scores->id);
    if (m && !(scores->data && fits(m, scores))) m->real.id = 0, m = NULL;
    if (!scores->data || scores->n_rows == 0 || scores->n_vocab == 0) return;
    if (!m) m = room_for(scores);
    if (!m) return;
    m->real = *scores;
    m->seen.id = scores->id;
    m->whose = whose;
    come(m);
    *scores = m->seen;
}

void cdz_shown_hidden(cdz_hidden *hidden)
{
    const size_t n = (size_t)hidden->n_layers * hidden->n_rows * hidden->width;
    if (!shown.on || !hidden->data || n == 0) return;
    states *h = shown.hidden;
    while (h < shown.hidden + STATES && h->at && h->n != n) h++;
    if (h == shown.hidden + STATES) return;
    if (!h->at) {
        float *at = cdz_guarded(n * sizeof *at, sizeof *at, true, "hidden states");
        if (!at || !cdz_guarded_lock(at, n * sizeof *at, sizeof *at,
                                     "hidden states, which are the host's"))
            return;
        h->at = at, h->n = n;
    }
    cdz_guarded_unlock(h->at, n * sizeof *h->at);
    memcpy(h->at, hidden->data, n * sizeof *h->at);
    cdz_guarded_readable(h->at, n * sizeof *h->at, true);
    hidden->data = h->at;
}

cdz_scores cdz_shown_real(const cdz_scores *seen)
{
    cdz_scores real = *seen;
    const matrix *m = shown.on && seen->id ? known(seen->id) : NULL;
    if (!m || !seen->data) return real;
    const uintptr_t from = (uintptr_t)m->seen.data, at = (uintptr_t)seen->data;
    if (at < from || at - from > floats_of(&m->seen) * sizeof(float)) return real;
    const size_t away = (at - from) / sizeof(float);
    real.data = m->real.data + away / m->seen.stride * m->real.stride + away % m->seen.stride;
    if (seen->stride == m->seen.stride) real.stride = m->real.stride;
    return real;
}

/* --- between two verbs --------------------------------------------------------------------------------------------- */

static void look_between(const matrix *m)
{
    for (uint32_t r = 0; r + 1 < m->seen.n_rows; r++)
        for (uint32_t g = 0; g < GAP; g++)
            if (!cdz_same_bits(&cdz_row(&m->seen, r)[m->seen.n_vocab + g], &mark, 1) &&
                !shown.complaint[0])
                snprintf(shown.complaint, sizeof shown.complaint,
                         "wrote between two rows of scores, element %" PRIu32 " of row %" PRIu32
                         "; rows are n_vocab = %" PRIu32 " floats, stride = %zu apart",
                         m->seen.n_vocab + g, r, m->seen.n_vocab, m->seen.stride);
}

void cdz_shown_give(void)
{
    for (uint32_t i = 0; shown.on && i < MATRICES; i++) {
        const matrix *m = &shown.all[i];
        if (m->real.id == 0) continue;
        look_between(m);
        for (uint32_t r = 0; r < m->real.n_rows; r++)
            memcpy(cdz_row(&m->real, r), cdz_row(&m->seen, r), m->real.n_vocab * sizeof(float));
    }
}

void cdz_shown_take(void)
{
    for (uint32_t i = 0; shown.on && i < MATRICES; i++)
        if (shown.all[i].real.id) come(&shown.all[i]);
}

void cdz_shown_forget(cdz_rows_of whose)
{
    for (uint32_t i = 0; i < MATRICES; i++)
        if (shown.all[i].whose == whose) shown.all[i].real.id = 0;
}

/* --- runs ---------------------------------------------------------------------------------------------------------- */

void cdz_shown_begin(bool at_end)
{
    cdz_shown_end();
    shown.on = true;
    shown.at_end = at_end;
    shown.complaint[0] = '\0';
}

void cdz_shown_end(void)
{
    for (uint32_t i = 0; i < MATRICES; i++) {
        matrix *m = &shown.all[i];
        m->real.id = 0;
        if (m->seen.data) put_marks(&m->seen);
    }
    shown.on = false;
}

bool cdz_shown_on(void)
{
    return shown.on;
}

const char *cdz_shown_complaint(void)
{
    return shown.complaint;
}
