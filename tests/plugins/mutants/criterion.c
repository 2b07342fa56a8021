/* criterion.c - one sound criterion, and what can be wrong with it: BUG names what is (test_mutants.c).
 *
 * Sound, it stops a row after forty tokens, or at a digit among its last tokens. */
#include <cadenza/criterion.h>
#include <cadenza/ext/tokenizer.h>
#include <stdio.h>
#include <string.h>

enum {
    SOUND,
    COUNTS_CALLS,
    GLOBAL,
    WRITES_PAST_STOPS,
    READS_PAST_IDS,
    TEXT_CHANGES,
    WRONG_REASON,
    LIES_HAS_EOS,
    THIRD_ROW,
    FAILS_LATE,
    TEXT_OF_TOKEN, /* a token without a text */
};

#ifndef BUG
#define BUG SOUND
#endif

typedef struct state {
    uint32_t count;
} state;

static uint32_t global;
static char text[32] = "forty tokens";

static cdz_status accept(const cdz_step *step, uint32_t r, int32_t token)
{
    ((state *)step->row_state[r])->count++;
    if (BUG == GLOBAL) global += token > 500;
    return CDZ_OK;
}

static bool is_digit(const cdz_step *step, int32_t id)
{
    const cdz_string one = cdz_get_tokenizer(step)->token_text(step, id);
    if (BUG == TEXT_OF_TOKEN) return *(volatile const char *)one.at == '7';
    return one.len && one.at[0] == '7';
}

static cdz_status test(const cdz_step *step, cdz_stop *stops)
{
    static uint32_t calls;
    for (uint32_t r = 0; r < step->n_rows; r++) {
        const state *s = step->row_state[r];
        const cdz_ids ids = step->input_ids[r];
        bool stop = s->count >= 40 || is_digit(step, ids.at[ids.len - 1]);
        if (BUG == COUNTS_CALLS && s->count >= 7) stop = ++calls % 2;
        if (BUG == GLOBAL) stop = global % 2;
        if (BUG == WRITES_PAST_STOPS && s->count == 30)
            ((volatile cdz_stop *)stops)[step->n_rows].reason = 0;
        if (BUG == READS_PAST_IDS && s->count >= 7)
            stop |= ((volatile const int32_t *)ids.at)[ids.len] == -7;
        if (BUG == FAILS_LATE && s->count == 20) return cdz_fail(step, CDZ_E_PLUGIN, "broken");
        if (BUG == THIRD_ROW && r == 2) stop = false;
        if (!stop) continue;
        stops[r] = (cdz_stop){CDZ_STOP_CUSTOM, {text, (uint32_t)strlen(text)}};
        if (BUG == TEXT_CHANGES) snprintf(text, sizeof text, "%2u tokens!!", s->count % 100);
        if (BUG == WRONG_REASON && s->count == 100) stops[r].reason = 17;
    }
    return CDZ_OK;
}

static const cdz_criterion mutant = {
    .base = {CDZ_CRITERION_BASE, .id = "org.example.mutant", .version = "1.0.0",
             .summary = "Stops after forty tokens"},
    .caps = BUG == LIES_HAS_EOS ? CDZ_HAS_EOS : 0,
    .state_size = sizeof(state),
    .state_version = 1,
    .test = test,
    .accept = accept,
};
CDZ_EXPORT_PLUGINS(&mutant.base)
