/* on_hidden.c - edits of hidden states that are a function: states of a made-up model are shown to it, all positions at once and
 * a few at a time, and what it leaves is compared. Memory that nobody may touch lies before and behind them. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "check/checks.h"
#include "check/probe.h"

enum { LAYERS = 12, WIDTH = 64, POSITIONS = 24, NUMBERS = POSITIONS * WIDTH };

typedef struct showing {
    cdz_child *child;
    cdz_probe *probe;
    const char *setup;
    uint32_t row;
    const cdz_edit *edit;
    float *at_once, *in_parts; /* (NUMBERS) each in memory between guards */
} showing;

static cdz_check_state judge(const showing *s, const char *function, cdz_status status)
{
    const char *broken = cdz_probe_broken(s->probe, status);
    if (!broken && status == CDZ_OK) return CDZ_CHECK_OK;
    return cdz_fail_check(s->child, "with %s: %s: %s", s->setup, function,
                          broken ? broken : s->probe->said.text);
}

static void make_up(const showing *s, float *h, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n * WIDTH; i++) {
        uint64_t key = (uint64_t)(s->edit->layer * 8 + s->edit->place) << 32 | (first * WIDTH + i);
        h[i] = (float)(8 * cdz_random_unit(&key) - 4);
    }
}

/* n positions from `first` on, flush with what lies behind the memory, and then to where they belong in `to`. */
static cdz_check_state show(const showing *s, float *memory, uint32_t first, uint32_t n, float *to)
{
    float *h = memory + (size_t)(POSITIONS - n) * WIDTH;
    const cdz_hidden_chunk hidden = {.size = sizeof hidden,
                                     .row = s->row,
                                     .n = n,
                                     .position = s->edit->from + first,
                                     .width = WIDTH,
                                     .h = h,
                                     .edit = s->edit};
    make_up(s, h, first, n);
    CDZ_CHECK_TRY(judge(s, "on_hidden", cdz_probe_on_hidden(s->probe, &hidden)));
    memcpy(to + (size_t)first * WIDTH, h, (size_t)n * WIDTH * sizeof *h);
    return CDZ_CHECK_OK;
}

static cdz_check_state compare(const showing *s, uint32_t n, const float *whole, const float *parts)
{
    for (uint32_t i = 0; i < n * WIDTH; i++) {
        const uint32_t position = s->edit->from + i / WIDTH;
        if (!isfinite(whole[i]))
            return cdz_fail_check(
                s->child, "with %s: on_hidden left %g at layer %" PRIu32 ", position %" PRIu32,
                s->setup, (double)whole[i], s->edit->layer, position);
        if (cdz_same_bits(&whole[i], &parts[i], 1)) continue;
        return cdz_fail_check(
            s->child,
            "with %s: at layer %" PRIu32 ", position %" PRIu32 ", number %" PRIu32
            " on_hidden left %.9g where it had %" PRIu32 " positions, and %.9g where it had a few "
            "of them: what becomes of a position may hang on no other call or position",
            s->setup, s->edit->layer, position, i % WIDTH, (double)whole[i], n, (double)parts[i]);
    }
    return CDZ_CHECK_OK;
}

/* As many positions as the edit reaches. */
static cdz_check_state show_edit(const showing *s)
{
    static float whole[NUMBERS], parts[NUMBERS];
    static const uint32_t sizes[] = {1, 5, 2, 9, 1, 6};
    const cdz_edit *e = s->edit;
    const uint32_t n = e->to > e->from && e->to - e->from < POSITIONS ? e->to - e->from : POSITIONS;
    CDZ_CHECK_TRY(show(s, s->at_once, 0, n, whole));
    for (uint32_t i = 0, first = 0; first < n; first += sizes[i++])
        CDZ_CHECK_TRY(
            show(s, s->in_parts, first, n - first < sizes[i] ? n - first : sizes[i], parts));
    return compare(s, n, whole, parts);
}

/* The row's edits. A model that the plugin was not made for may be refused. */
static cdz_check_state show_row(showing *s)
{
    const cdz_edit *edits = NULL;
    uint32_t n = 0;
    const cdz_status status = cdz_probe_steer(s->probe, s->row, LAYERS, WIDTH, &edits, &n);
    if (status != CDZ_OK && !cdz_probe_broken(s->probe, status))
        return cdz_skip_check(s->child, "it refuses a model of %d layers, %d wide: %s", (int)LAYERS,
                              (int)WIDTH, s->probe->said.text);
    CDZ_CHECK_TRY(judge(s, "steer", status));
    if (n && !edits)
        return cdz_fail_check(s->child, "with %s: steer tells of edits and gives none", s->setup);
    for (uint32_t i = 0; i < n; i++) {
        s->edit = &edits[i];
        if (s->edit->op == CDZ_EDIT_CALL) CDZ_CHECK_TRY(show_edit(s));
    }
    return CDZ_CHECK_OK;
}

static cdz_check_state show_rows(cdz_child *c, const cdz_setup *setup)
{
    static float *at_once, *in_parts;
    const size_t bytes = NUMBERS * sizeof(float);
    cdz_probe t;
    if (!at_once) at_once = cdz_guarded(bytes, sizeof(float), true, "hidden states");
    if (!in_parts) in_parts = cdz_guarded(bytes, sizeof(float), true, "hidden states");
    if (!at_once || !in_parts) return cdz_fail_check(c, "out of memory");
    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setup, &cdz_usual_facts));
    showing s = {
        .child = c, .probe = &t, .setup = setup->text, .at_once = at_once, .in_parts = in_parts};
    cdz_check_state state = CDZ_CHECK_OK;
    for (s.row = 0; s.row < 2 && state == CDZ_CHECK_OK; s.row++) state = show_row(&s);
    cdz_probe_free(&t);
    return state;
}

cdz_check_state cdz_check_on_hidden(cdz_child *c)
{
    cdz_offers offers;
    (void)cdz_offers_ask(c->ref.base, &offers, NULL);
    if (!offers.on_hidden) return cdz_skip_check(c, "it has no on_hidden");
    return cdz_check_each_setup(c, show_rows);
}
