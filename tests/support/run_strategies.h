/* run_strategies.h - for decode loops written inside tests: checks that end the request with file line and text
 * instead of jumping out of its fibre, and plugins whose state can be read off the scores. */
#ifndef CADENZA_TEST_RUN_STRATEGIES_H
#define CADENZA_TEST_RUN_STRATEGIES_H

#include "support/run_support.h"

/* In brackets because cmocka has a macro named fail. */
#define SAY(...) (step->host->fail)(step, CDZ_E_INTERNAL, __VA_ARGS__)
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) return SAY("line %d: %s", __LINE__, #condition);                         \
    } while (0)

#define STRATEGY(name_, run_, caps_)                                                               \
    static const cdz_strategy name_ = {                                                            \
        .base = {CDZ_STRATEGY_BASE, .id = "test." #name_, .version = "1.0.0", .summary = #name_},  \
        .caps = caps_,                                                                             \
        .run = run_,                                                                               \
    }

/* --- a history told by its hash ------------------------------------------------------------------------------- */

UNUSED static uint32_t hash_step(uint32_t h, int32_t token)
{
    return (h * 31u + (uint32_t)token + 1u) & 0xFFFFu;
}

/* Of the generated ids. */
UNUSED static float hash_of(cdz_ids ids, uint32_t prompt_len)
{
    uint32_t h = 0;
    for (uint32_t i = prompt_len; i < ids.len; i++) h = hash_step(h, ids.at[i]);
    return (float)h;
}

UNUSED static cdz_status hash_accept(const cdz_step *step, uint32_t r, int32_t token)
{
    uint32_t *h = step->row_state[r];
    *h = hash_step(*h, token);
    return CDZ_OK;
}

/* Writes the state into score 0 and the ids' own hash into score 1. */
UNUSED static cdz_status hash_apply(const cdz_step *step, cdz_scores *scores)
{
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        cdz_row(scores, r)[0] = (float)*(const uint32_t *)step->row_state[r];
        cdz_row(scores, r)[1] = hash_of(step->input_ids[r], step->request->prompt_len);
    }
    return CDZ_OK;
}

UNUSED static const cdz_processor hash_rows = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.hash-rows", .version = "1.0.0", .summary = "state"},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE,
    .state_size = sizeof(uint32_t),
    .apply = hash_apply,
    .accept = hash_accept,
};
UNUSED static const cdz_processor hash_all = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.hash-all", .version = "1.0.0", .summary = "state"},
    .caps = CDZ_NEEDS_IDS,
    .state_size = sizeof(uint32_t),
    .apply = hash_apply,
    .accept = hash_accept,
};

/* Stops when the state says that a multiple of four tokens was seen and the newest is 9. */
UNUSED static cdz_status nine_test(const cdz_step *step, cdz_stop *stops)
{
    for (uint32_t r = 0; r < step->n_rows; r++) {
        const cdz_ids ids = step->input_ids[r];
        if (ids.at[ids.len - 1] == 9 && *(const uint32_t *)step->row_state[r] % 4 == 0)
            stops[r] = (cdz_stop){CDZ_STOP_CUSTOM, {"nine", 4}};
    }
    return CDZ_OK;
}

UNUSED static cdz_status nine_accept(const cdz_step *step, uint32_t r, int32_t token)
{
    (void)token;
    ++*(uint32_t *)step->row_state[r];
    return CDZ_OK;
}

UNUSED static const cdz_criterion nine_rule = {
    .base = {CDZ_CRITERION_BASE, .id = "test.nine", .version = "1.0.0", .summary = "nine"},
    .state_size = sizeof(uint32_t),
    .test = nine_test,
    .accept = nine_accept,
};

/* --- reference scores ------------------------------------------------------------------------------------------- */

/* Scores after ids, computed from nothing in a sequence of its own; valid until the next seq_forward. */
UNUSED static cdz_status fresh_scores(cdz_decoder *dec, cdz_ids ids, const float **out)
{
    cdz_seq *seq;
    cdz_scores scores;
    CDZ_TRY(cdz_seq_new(dec, NULL, &seq));
    CDZ_TRY(cdz_seq_append(dec, seq, ids.at, ids.len));
    CDZ_TRY(cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_LAST, &scores));
    cdz_seq_free(dec, seq);
    *out = scores.data;
    return CDZ_OK;
}

UNUSED static bool same_floats(const float *a, const float *b, size_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

#endif
