/* away.c - the rows of away.h: where those of the newest pass are, the best token and the leaders that came with each, the
 * edits that wait for a row to come home, and how it comes. Owns that bookkeeping; the scores are the backend's until
 * they are fetched. Thread: [engine]. */
#include "run/pass/away.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of a device's free memory that rows of one request may take: work memory grows out of the same. */
enum {
    MOST_SHARE = 4,
    LONGEST_REST = 16,
    MOST_ASKED = CDZ_LEADERS_MOST / 2,
    SPARE = 256,
    EDITED_FIRST = 1024
};

static bool fits(cdz_backend *device, size_t bytes)
{
    size_t free_bytes, total;
    device->api->memory(device, &free_bytes, &total);
    return bytes <= free_bytes / MOST_SHARE;
}

/* What is there, and the room for it. */
static void forget(cdz_away *away)
{
    if (away->rows) away->device->api->free(away->device, away->rows);
    free(away->best);
    if (away->leaders) {
        free(away->leaders[0].ids);
        free(away->leaders[0].x);
    }
    free(away->leaders);
    free(away->there);
    for (uint32_t r = 0; r < away->n_rows; r++) {
        free(away->edited[r].ids);
        free(away->edited[r].x);
        free(away->edited[r].kept);
    }
    free(away->edited);
    free(away->hidden);
    away->rows = NULL;
    away->screen = NULL;
    away->hidden = NULL;
    away->best = NULL;
    away->leaders = NULL;
    away->there = NULL;
    away->edited = NULL;
    away->n_rows = 0;
}

/* Where the rows themselves stay, or what they are made of. */
static bool make_place(cdz_away *away, cdz_screen *screen, uint32_t n_rows, size_t bytes)
{
    if (screen) {
        away->hidden = calloc(n_rows, cdz_screen_width(screen) * sizeof *away->hidden);
        if (away->hidden) away->screen = screen;
        return away->hidden != NULL;
    }
    away->rows = away->device->api->alloc(away->device, bytes);
    return away->rows != NULL;
}

void cdz_away_begin(cdz_away *away, cdz_backend *device, cdz_screen *screen, uint32_t n_rows,
                    size_t n_vocab)
{
    size_t floats, bytes;
    away->device = device;
    away->n_vocab = n_vocab;
    away->begun = true;
    if (!screen && (device->api->host_memory || !device->api->argmax)) return;
    if (__builtin_mul_overflow(n_rows, n_vocab, &floats) ||
        __builtin_mul_overflow(floats, sizeof *away->rows, &bytes) ||
        (!screen && !fits(device, bytes)))
        return;
    away->best = calloc(n_rows, sizeof *away->best);
    away->there = calloc(n_rows, sizeof *away->there);
    away->edited = calloc(n_rows, sizeof *away->edited);
    if (away->best && away->there && away->edited && make_place(away, screen, n_rows, bytes))
        away->n_rows = n_rows;
    else
        forget(away);
}

void cdz_away_free(cdz_away *away)
{
    cdz_away_arrive(away, 0, away->n_coming);
    forget(away);
    free(away->coming);
    *away = (cdz_away){0};
}

void cdz_away_expect(cdz_away *away, cdz_backend *device, uint32_t n_rows)
{
    away->device = device;
    if (away->coming || !device->api->bring) return;
    away->coming = calloc(n_rows, sizeof *away->coming);
    if (away->coming) away->n_coming = n_rows;
}

bool cdz_away_arrive(cdz_away *away, uint32_t first, uint32_t n)
{
    bool any = false;
    for (uint32_t r = first; r < away->n_coming && r - first < n; r++) {
        if (away->coming[r] == 0) continue;
        away->device->api->arrive(away->device, away->coming[r]);
        away->coming[r] = 0;
        any = true;
    }
    return any;
}

/* The rows' lists lie in two pieces of memory, which the first row's pointers own. */
static bool make_leaders(cdz_away *away)
{
    if (away->leaders) return true;
    const size_t n = away->n_rows;
    cdz_leaders *leaders = calloc(n, sizeof *leaders);
    int32_t *ids = calloc(n * CDZ_LEADERS_MOST, sizeof *ids);
    float *x = calloc(n * CDZ_LEADERS_MOST, sizeof *x);
    if (!leaders || !ids || !x) {
        free(leaders);
        free(ids);
        free(x);
        return false;
    }
    for (size_t r = 0; r < n; r++) {
        leaders[r].ids = ids + r * CDZ_LEADERS_MOST;
        leaders[r].x = x + r * CDZ_LEADERS_MOST;
    }
    away->leaders = leaders;
    return true;
}

bool cdz_away_wish(cdz_away *away, uint32_t least, float divisor)
{
    const uint32_t listed = least || !away->screen ? least : 1; /* a screen lists the best too */
    away->on = listed == 0 || make_leaders(away);
    away->wish = (cdz_leaders){.least = listed, .divisor = divisor};
    return away->on;
}

static bool make_room(cdz_edited *e, uint32_t n)
{
    if (n <= e->room) return true;
    const size_t room = (size_t)n + n / 2 + EDITED_FIRST; /* most rows never grow again */
    if (room > INT32_MAX) return false;
    int32_t *ids = calloc(room, sizeof *ids);
    float *x = calloc(room, sizeof *x);
    if (!ids || !x) {
        free(ids);
        free(x);
        return false;
    }
    free(e->ids);
    free(e->x);
    e->ids = ids;
    e->x = x;
    e->room = (uint32_t)room;
    return true;
}

cdz_edited *cdz_away_edit(cdz_away *away, uint32_t row, uint32_t n)
{
    cdz_edited *e = &away->edited[row];
    e->n = 0;
    e->done = false;
    e->masked = false;
    if (!make_room(e, n)) return NULL;
    e->n = n;
    return e;
}

static size_t mask_words(const cdz_away *away)
{
    return (away->n_vocab + 63) / 64;
}

uint64_t *cdz_away_mask(cdz_away *away, uint32_t row)
{
    cdz_edited *e = &away->edited[row];
    if (!e->kept) e->kept = calloc(mask_words(away), sizeof *e->kept);
    e->masked = e->kept != NULL;
    return e->kept;
}

uint32_t cdz_away_least(const cdz_away *away, uint32_t row)
{
    const uint32_t n = away->edited[row].n;
    const uint32_t least = away->wish.least + (n < SPARE ? n : SPARE);
    return least < MOST_ASKED ? least : MOST_ASKED;
}

int32_t cdz_away_best(const cdz_away *away, uint32_t row)
{
    const cdz_leaders *l = away->leaders ? &away->leaders[row] : NULL;
    if (away->best[row] >= 0 || !l || l->least == 0 || l->n == 0 || l->n > CDZ_LEADERS_MOST ||
        away->edited[row].masked)
        return away->best[row];
    uint32_t best = 0;
    for (uint32_t i = 1; i < l->n; i++)
        if (l->x[i] > l->x[best]) best = i;
    return l->ids[best];
}

size_t cdz_away_told(const cdz_away *away, uint32_t row)
{
    const cdz_leaders *l = away->leaders ? &away->leaders[row] : NULL;
    if (!l || l->least == 0) return sizeof *away->best;
    const size_t n = l->n > CDZ_LEADERS_MOST ? 0 : l->n;
    return n * (sizeof *l->ids + sizeof *l->x) + away->edited[row].n * sizeof *l->was;
}

static float *hidden_of(const cdz_away *away, uint32_t row)
{
    return away->hidden + row * cdz_screen_width(away->screen);
}

float cdz_away_score(cdz_away *away, uint32_t row, int32_t id)
{
    const cdz_edited *e = &away->edited[row];
    float x = NAN;
    if (!cdz_edited_keeps(e, (size_t)id)) return -INFINITY;
    for (uint32_t i = 0; i < e->n && e->ids[i] <= id; i++)
        if (e->ids[i] == id) return NAN;
    if (away->screen) return cdz_screen_score(away->screen, away->device, hidden_of(away, row), id);
    away->device->api->download(away->device, &x, away->rows + row * away->n_vocab + (size_t)id,
                                sizeof x);
    return x;
}

void cdz_away_note(cdz_away *away, bool enough)
{
    cdz_rest_note(&away->rest, enough, LONGEST_REST);
}

/* Scores that have been processed, in the row at home. */
static void put_edits(const cdz_edited *e, float *row, size_t n_vocab)
{
    if (!e->done) return;
    for (size_t id = 0; e->masked && id < n_vocab; id++)
        if (!cdz_edited_keeps(e, id)) row[id] = -INFINITY;
    for (uint32_t i = 0; i < e->n; i++) row[e->ids[i]] = e->x[i];
}

/* Rows [first, first + n), all there, to their places at home. */
static void bring_home(cdz_away *away, float *home, uint32_t first, uint32_t n)
{
    const size_t V = away->n_vocab;
    if (away->rows)
        away->device->api->download(away->device, home + first * V, away->rows + first * V,
                                    n * V * sizeof *home);
    else
        cdz_screen_all(away->screen, away->device, hidden_of(away, first), n, home + first * V);
}

uint32_t cdz_away_fetch(cdz_away *away, float *home, uint32_t first, uint32_t n)
{
    const size_t V = away->n_vocab;
    uint32_t fetched = 0;
    for (uint32_t i = first, run; i < first + n; i += run ? run : 1) {
        for (run = 0; i + run < first + n && cdz_away_has(away, i + run); run++)
            away->there[i + run] = false;
        if (run == 0) continue;
        bring_home(away, home, i, run);
        for (uint32_t r = i; r < i + run; r++) put_edits(&away->edited[r], home + r * V, V);
        fetched += run;
    }
    return fetched;
}

static bool repeat_edits(cdz_away *away, uint32_t row, uint32_t other)
{
    const cdz_edited *from = &away->edited[other];
    cdz_edited *to = cdz_away_edit(away, row, from->n);
    if (!to) return false;
    if (from->n) {
        memcpy(to->ids, from->ids, from->n * sizeof *to->ids);
        memcpy(to->x, from->x, from->n * sizeof *to->x);
    }
    if (!from->masked) return true;
    uint64_t *kept = cdz_away_mask(away, row);
    if (kept) memcpy(kept, from->kept, mask_words(away) * sizeof *kept);
    return kept != NULL;
}

void cdz_away_repeat(cdz_away *away, uint32_t row, uint32_t other)
{
    const size_t V = away->n_vocab;
    if (away->screen)
        memcpy(hidden_of(away, row), hidden_of(away, other),
               cdz_screen_width(away->screen) * sizeof *away->hidden);
    else
        away->device->api->copy(away->device, away->rows + row * V, away->rows + other * V,
                                V * sizeof *away->rows);
    away->best[row] = away->best[other];
    away->there[row] = true;
    if (!away->leaders) return;
    cdz_leaders *to = &away->leaders[row];
    const cdz_leaders *from = &away->leaders[other];
    if (from->least && from->n <= CDZ_LEADERS_MOST) {
        memcpy(to->ids, from->ids, from->n * sizeof *to->ids);
        memcpy(to->x, from->x, from->n * sizeof *to->x);
    }
    *to = (cdz_leaders){.least = repeat_edits(away, row, other) ? from->least : 0,
                        .divisor = from->divisor,
                        .ids = to->ids,
                        .x = to->x,
                        .n = from->n,
                        .low = from->low,
                        .mass = from->mass};
}
