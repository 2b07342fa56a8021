/* marker.c - a processor whose tokens tell which version of it ran and what its state held: the next token is BASE and
 * the sum of STEP over the tokens accepted. Compiled several times, for test_reload. */
#include <math.h>

#include "cadenza/criterion.h"
#include "cadenza/processor.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const uint32_t *sum = step->row_state[r];
        float *row = cdz_row(scores, r);
        for (uint32_t i = 0; i < scores->n_vocab; i++) row[i] = -INFINITY;
        row[(BASE + *sum) % scores->n_vocab] = 0;
    }
#ifdef FAILS
    return cdz_fail(step, CDZ_E_INPUT, "this version always fails");
#else
    return CDZ_OK;
#endif
}

static cdz_status accept(const cdz_step *step, uint32_t r, int32_t token)
{
    uint32_t *sum = step->row_state[r];
    (void)token;
    *sum += STEP;
    return CDZ_OK;
}

/* A state that the plugin copies itself. The function FLUSHES_IN leaves the thread in another floating-point mode. */
#ifdef OWNS
#include <string.h>

#include "../../../host/base/float_mode.h"
#include "cadenza/ext/state.h"

static void flush_in(const char *function)
{
    if (strcmp(function, FLUSHES_IN) == 0) cdz_float_mode_set(cdz_float_mode() | CDZ_FLOAT_FLUSH);
}

static cdz_status copy(const cdz_step *step, const void *from, void *to)
{
    (void)step;
    memcpy(to, from, sizeof(uint32_t));
    return CDZ_OK;
}

static cdz_status hand_over(const cdz_step *step, const cdz_step *old, const void *from, void *to)
{
    (void)old;
    flush_in("hand_over");
    return copy(step, from, to);
}

static void forget(const cdz_step *step, void *state)
{
    (void)step;
    memset(state, 0, sizeof(uint32_t));
    flush_in("free");
}

static const void *extension(const char *id)
{
    static const cdz_state_api api = {
        .size = sizeof api, .clone = copy, .free = forget, .hand_over = hand_over};
    return strcmp(id, CDZ_EXT_STATE) == 0 ? &api : NULL;
}
#define EXTENSION extension
#else
#define EXTENSION NULL
#endif

static const cdz_processor marker = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.marker", .version = "1.0.0", .summary = "marks",
             .extension = EXTENSION},
    .caps = CDZ_ROWWISE,
    .state_size = sizeof(uint32_t),
    .apply = apply,
    .accept = accept,
    .state_version = STATE_VERSION,
};

/* Stops after LAST tokens, and says so in memory of this file. */
static cdz_status test(const cdz_step *step, cdz_stop *stops)
{
    for (uint32_t r = 0; r < step->n_rows; r++)
        if (step->input_ids[r].len - step->request->prompt_len >= LAST)
            stops[r] = (cdz_stop){CDZ_STOP_CUSTOM, {REASON, sizeof REASON - 1}};
    return CDZ_OK;
}

static const cdz_criterion enough = {
    .base = {CDZ_CRITERION_BASE, .id = "test.enough", .version = "1.0.0", .summary = "stops"},
    .test = test,
};

CDZ_EXPORT_PLUGINS(&marker.base, &enough.base)
