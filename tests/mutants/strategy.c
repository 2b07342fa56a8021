/* strategy.c - one sound strategy, and what can be wrong with it: BUG names what is (test_mutants.c).
 *
 * Sound, it is greedy decoding that looks back at the row and asks a sequence of its own now and then. */
#include <cadenza/strategy.h>
#include <stdlib.h>

enum {
    SOUND,
    READS_PAST_IDS,
    WRITES_IDS,
    IGNORES_APPEND, /* what the verb returned */
    IGNORES_FORWARD,
    WRONG_REASON,
    NO_REASON,
    KEEPS_SEQUENCES,
    GREEDY_DRAWS,
    SAMPLES_NOT,
    LOSES_A_ROW, /* of a batch: it gets the tokens of the first */
    GLOBAL,
    GLOBAL_AFTER,      /* one that the next request finds */
    OUT_OF_VOCABULARY, /* at the hundredth token */
    FAILS_LONG,
    LAST_ID,
    APPENDS_AFTER_END,
};

#ifndef BUG
#define BUG SOUND
#endif

enum { MOST_ROWS = 16 };

static uint32_t global;

/* A sequence beside the rows, as searches have them. */
static cdz_status look_aside(cdz_decoder *dec)
{
    cdz_seq *seq;
    cdz_scores scores;
    CDZ_TRY(cdz_seq_fork(dec, cdz_seq_of_row(dec, 0), &seq));
    CDZ_TRY(cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_NONE, &scores));
    if (BUG != KEEPS_SEQUENCES) cdz_seq_free(dec, seq);
    return CDZ_OK;
}

static cdz_status look_back(cdz_decoder *dec, const cdz_step *step)
{
    const cdz_ids ids = cdz_input_ids(dec, 0);
    const uint32_t n = step->request->n_vocab;
    volatile const int32_t *at = ids.at;
    if (BUG == READS_PAST_IDS && at[ids.len] == -7) return CDZ_E_PLUGIN;
    if (BUG == WRITES_IDS && ids.len > 20) ((int32_t *)(uintptr_t)ids.at)[0] = 5;
    if (BUG == FAILS_LONG && ids.len > 100) return cdz_fail(step, CDZ_E_PLUGIN, "too long for me");
    if (BUG == LAST_ID)
        for (uint32_t i = 0; i < ids.len; i++)
            if ((uint32_t)at[i] == n - 1) abort();
    return CDZ_OK;
}

static cdz_status choose(cdz_decoder *dec, cdz_scores *scores, int32_t *tokens, uint32_t taken)
{
    const uint32_t rows = cdz_n_rows(dec);
    float drawn;
    CDZ_TRY(cdz_argmax_rows(dec, scores, tokens));
    if (BUG == GREEDY_DRAWS) CDZ_TRY(cdz_uniform(dec, 1, &drawn));
    if (BUG == LOSES_A_ROW && rows > 2) tokens[2] = tokens[0];
    if (BUG == GLOBAL) tokens[0] = (int32_t)(5 + global++ % 40);
    if (BUG == GLOBAL_AFTER && taken == 0) tokens[0] = (int32_t)(5 + global++ % 40);
    if (BUG == OUT_OF_VOCABULARY && taken == 99) tokens[0] = (int32_t)scores->n_vocab;
    return CDZ_OK;
}

static cdz_status one_step(cdz_decoder *dec, const cdz_step *step, uint32_t taken)
{
    cdz_scores scores;
    int32_t tokens[MOST_ROWS];
    const cdz_status forward = cdz_forward(dec, &scores);
    if (BUG == IGNORES_FORWARD && forward != CDZ_OK) return CDZ_OK;
    CDZ_TRY(forward);
    CDZ_TRY(look_back(dec, step));
    if (taken % 2 == 0) CDZ_TRY(look_aside(dec));
    CDZ_TRY(cdz_process(dec, &scores));
    CDZ_TRY(choose(dec, &scores, tokens, taken));
    if (BUG == APPENDS_AFTER_END)
        for (uint32_t r = 0; r < cdz_n_rows(dec); r++) CDZ_TRY(cdz_append(dec, r, tokens[r]));
    else if (BUG == IGNORES_APPEND)
        (void)cdz_append_rows(dec, tokens);
    else
        CDZ_TRY(cdz_append_rows(dec, tokens));
    return CDZ_OK;
}

static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    for (uint32_t taken = 0; !cdz_done(dec); taken++) {
        CDZ_TRY(one_step(dec, step, taken));
        if (BUG == WRONG_REASON && taken == 50)
            for (uint32_t r = 0; r < cdz_n_rows(dec); r++)
                CDZ_TRY(cdz_finish(dec, r, CDZ_STOP_EOS, "eos"));
        if (BUG == NO_REASON && taken == 50)
            for (uint32_t r = 0; r < cdz_n_rows(dec); r++)
                CDZ_TRY(cdz_finish(dec, r, CDZ_STOP_CUSTOM, NULL));
    }
    return CDZ_OK;
}

static const cdz_strategy mutant = {
    .base = {CDZ_STRATEGY_BASE, .id = "org.example.mutant", .version = "1.0.0",
             .summary = "Greedy decoding with sequences beside the rows"},
    .caps = BUG == SAMPLES_NOT ? CDZ_SAMPLES : CDZ_GREEDY,
    .run = run,
};
CDZ_EXPORT_PLUGINS(&mutant.base)
