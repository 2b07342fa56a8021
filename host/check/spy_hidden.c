/* spy_hidden.c - calls of on_hidden in the passes of a request: once more with what was shown, a few positions at a time, in memory
 * with guards before and behind. */
#include "check/spy_hidden.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check/bench.h"

enum { FUNCTIONS = 16, NUMBERS = 1 << 15 };

/* A function that the strategy gave, with what it is called with. */
typedef struct function {
    cdz_on_hidden_fn *fn;
    void *user;
} function;

static struct {
    const cdz_steer_host *real;
    function all[FUNCTIONS];
    uint32_t n, n_calls;
    float *memory; /* (NUMBERS) between guards */
    char complaint[400];
} watch;

static void compare(const cdz_hidden_chunk *whole, const cdz_hidden_chunk *part)
{
    const uint32_t first = part->position - whole->position, n = part->n * part->width;
    const float *all = whole->h + (size_t)first * whole->width;
    for (uint32_t i = 0; i < n && !watch.complaint[0]; i++) {
        if (cdz_same_bits(&all[i], &part->h[i], 1)) continue;
        snprintf(watch.complaint, sizeof watch.complaint,
                 "at layer %" PRIu32 ", position %" PRIu32 ", number %" PRIu32
                 " on_hidden left %.9g where it had %" PRIu32 " positions, and %.9g where it was "
                 "asked again with %" PRIu32 " of them: what becomes of a position may hang on no "
                 "other call or position",
                 whole->edit->layer, part->position + i / part->width, i % part->width,
                 (double)all[i], whole->n, (double)part->h[i], part->n);
    }
}

/* was: what the function had before it left whole->h. */
static cdz_status again(const function *f, const cdz_step *step, const cdz_hidden_chunk *whole,
                        const float *was)
{
    static const uint32_t sizes[] = {1, 5, 2, 9};
    for (uint32_t first = 0, i = 0, n; first < whole->n; first += n, i = (i + 1) % 4) {
        n = whole->n - first < sizes[i] ? whole->n - first : sizes[i];
        const size_t numbers = (size_t)n * whole->width;
        cdz_hidden_chunk part = *whole;
        part.n = n;
        part.position += first;
        part.h = watch.memory + NUMBERS - numbers;
        memcpy(part.h, was + (size_t)first * whole->width, numbers * sizeof *was);
        CDZ_TRY(f->fn(step, &part));
        compare(whole, &part);
    }
    return CDZ_OK;
}

/* The strategy's own step has what it gave as `shared`; the host's call has one of `all`. */
static cdz_status watched(const cdz_step *step, const cdz_hidden_chunk *hidden)
{
    static float was[NUMBERS];
    const function *f = step->shared;
    const size_t n = (size_t)hidden->n * hidden->width;
    cdz_step own = *step;
    own.shared = f->user;
    if (n > NUMBERS) return f->fn(&own, hidden);
    memcpy(was, hidden->h, n * sizeof *was);
    CDZ_TRY(f->fn(&own, hidden));
    watch.n_calls++;
    return again(f, &own, hidden, was);
}

/* A strategy may name one again and again; those beyond FUNCTIONS are not looked at. */
static cdz_status on_hidden(struct cdz_decoder *dec, cdz_on_hidden_fn *fn, void *user)
{
    uint32_t i = 0;
    while (i < watch.n && (watch.all[i].fn != fn || watch.all[i].user != user)) i++;
    if (i == FUNCTIONS) return watch.real->on_hidden(dec, fn, user);
    if (i == watch.n) watch.all[watch.n++] = (function){fn, user};
    return watch.real->on_hidden(dec, watched, &watch.all[i]);
}

void cdz_spy_hidden_begin(void)
{
    watch.n = 0;
}

const cdz_steer_host *cdz_spy_hidden(const cdz_steer_host *real)
{
    static const cdz_steer_host table = {.size = sizeof table, .on_hidden = on_hidden};
    watch.real = real;
    if (!watch.memory)
        watch.memory = cdz_guarded(NUMBERS * sizeof(float), sizeof(float), true, "hidden states");
    return watch.memory ? &table : real;
}

uint32_t cdz_spy_hidden_calls(void)
{
    return watch.n_calls;
}

const char *cdz_spy_hidden_complaint(void)
{
    return watch.complaint;
}
