/* strategy.c - one sound strategy, and what can be wrong with it: BUG names what is (test_mutants.c).
 *
 * Sound, it is greedy decoding that looks back at the row and asks a sequence of its own now and then. */
#include <cadenza/ext/steer.h>
#include <cadenza/strategy.h>
#include <pthread.h>
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
    WRITES_BEFORE_ROW, /* of scores, at the twentieth token */
    WRITES_PAST_ROW,
    WRITES_PAST_LAST,
    READS_PAST_LAST,
    WRITES_PAST_SCRATCH,
    WRITES_PAST_PASS, /* rows of a sequence of its own */
    IGNORES_STRIDE,
    WRITES_HIDDEN,
    CALLED,             /* sound: its on_hidden is a function of one position */
    CALLED_SUMS,        /* its on_hidden takes a little of the mean of what it is shown */
    CALLED_COUNTS,      /* and of the number of calls */
    FIRST_ROW_ONLY,     /* and does not declare CDZ_ONE_ROW */
    REWINDS_NOT,        /* declares CDZ_REWINDS, and never does */
    REWINDS_SOMETIMES,  /* sound: when it is not sure of a token */
    REWINDS_UNDECLARED, /* passes on what that returns */
    REWINDS_IN_SILENCE, /* does not */
    BEAMS_GREEDY,       /* declares CDZ_BEAMS, and every row is an answer of its own */
    BEAMS_SEARCH_NOTHING,
    SLOW,           /* sound: many passes for each token */
    OWN_THREAD,     /* of its own, on which it asks for the number of rows */
    UNTIL_DEADLINE, /* sound: searches until the request's time is up, and gives what it has */
    MOVES,          /* sound: declares CDZ_SCORES_MOVE, */
    LOOKS_BEFORE,   /* and looks where they were */
};

#ifndef BUG
#define BUG SOUND
#endif

enum { MOST_ROWS = 16 };

static uint32_t global;

/* Rows of scores, of verbs of every kind, touched a step too far. */
static cdz_status reach_too_far(cdz_decoder *dec, cdz_scores *scores)
{
    const uint32_t n = scores->n_vocab, last = scores->n_rows - 1;
    volatile float *const end = cdz_row(scores, last) + n;
    cdz_scores own;
    CDZ_TRY(cdz_scratch_scores(dec, 2, &own));
    for (uint32_t v = 0; v < 2 * n; v++) cdz_row(&own, v / n)[v % n] = (float)v;
    if (BUG == WRITES_BEFORE_ROW) cdz_row(scores, 0)[-1] = 0;
    if (BUG == WRITES_PAST_ROW && last > 0) cdz_row(scores, 0)[n] = 0;
    if (BUG == WRITES_PAST_LAST) *end = 0;
    if (BUG == READS_PAST_LAST && *end == 7) return CDZ_E_PLUGIN;
    if (BUG == WRITES_PAST_SCRATCH) cdz_row(&own, 1)[n] = 0;
    if (BUG == IGNORES_STRIDE)
        for (uint32_t r = 0; r <= last; r++) scores->data[(size_t)r * n + 40] = 30;
    return CDZ_OK;
}

static cdz_status look_inside(cdz_decoder *dec)
{
    const uint32_t layer = 1;
    cdz_hidden hidden;
    cdz_scores scores;
    CDZ_TRY(cdz_keep_hidden(dec, CDZ_POSITIONS_LAST, &layer, 1));
    CDZ_TRY(cdz_forward(dec, &scores));
    CDZ_TRY(cdz_hidden_states(dec, &hidden));
    if (BUG == WRITES_HIDDEN) ((float *)(uintptr_t)hidden.data)[0] = 0;
    return cdz_head(dec, hidden.data, 1, &scores);
}

/* A sequence beside the rows, as searches have them. */
static cdz_status look_aside(cdz_decoder *dec)
{
    cdz_seq *seq;
    cdz_scores scores;
    CDZ_TRY(cdz_seq_fork(dec, cdz_seq_of_row(dec, 0), &seq));
    CDZ_TRY(cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_NONE, &scores));
    const int32_t again[3] = {7, 8, 9};
    CDZ_TRY(cdz_seq_append(dec, seq, again, 3));
    CDZ_TRY(cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_ALL, &scores));
    CDZ_TRY(cdz_log_softmax(dec, &scores));
    if (BUG == WRITES_PAST_PASS) cdz_row(&scores, 2)[scores.n_vocab] = 0;
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

static int32_t best_of(const float *row, uint32_t n)
{
    int32_t best = 0;
    for (uint32_t v = 1; v < n; v++)
        if (row[v] > row[best]) best = (int32_t)v;
    return best;
}

/* before: how scores were given, which says where they lie only if they have not moved. */
static cdz_status choose(cdz_decoder *dec, cdz_scores *scores, const cdz_scores *before,
                         int32_t *tokens, uint32_t taken)
{
    const uint32_t rows = cdz_n_rows(dec);
    float drawn;
    CDZ_TRY(cdz_argmax_rows(dec, scores, tokens));
    if (BUG == LOOKS_BEFORE)
        for (uint32_t r = 0; r < rows; r++)
            tokens[r] = best_of(cdz_row(before, r), before->n_vocab);
    if (BUG == FIRST_ROW_ONLY)
        for (uint32_t r = 1; r < rows; r++) tokens[r] = 5;
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
    if (taken % 2 == 0 && BUG != BEAMS_SEARCH_NOTHING) CDZ_TRY(look_aside(dec));
    const cdz_scores before = scores;
    CDZ_TRY(cdz_process(dec, &scores));
    if (taken == 3) CDZ_TRY(reach_too_far(dec, &scores));
    if (BUG == SLOW)
        for (uint32_t i = 0; i < 6; i++) CDZ_TRY(look_aside(dec));
    CDZ_TRY(choose(dec, &scores, &before, tokens, taken));
    if (BUG == APPENDS_AFTER_END)
        for (uint32_t r = 0; r < cdz_n_rows(dec); r++) CDZ_TRY(cdz_append(dec, r, tokens[r]));
    else if (BUG == IGNORES_APPEND)
        (void)cdz_append_rows(dec, tokens);
    else
        CDZ_TRY(cdz_append_rows(dec, tokens));
    return CDZ_OK;
}

/* Takes tokens back, where BUG says so. */
static cdz_status take_back(cdz_decoder *dec, uint32_t taken)
{
    cdz_scores scores;
    cdz_pick best;
    if (BUG == REWINDS_UNDECLARED && taken == 9) return cdz_rewind(dec, 0, 1);
    if (BUG == REWINDS_IN_SILENCE && taken == 9) (void)cdz_rewind(dec, 0, 1);
    if (BUG != REWINDS_SOMETIMES || taken % 8 != 7 || cdz_done(dec)) return CDZ_OK;
    CDZ_TRY(cdz_forward(dec, &scores));
    CDZ_TRY(cdz_argmax(dec, &scores, 0, &best));
    return best.prob < 0.1f ? cdz_rewind(dec, 0, 1) : CDZ_OK;
}

/* New tokens up to the end of sequence. */
static uint32_t length_of(const cdz_step *step, cdz_ids ids)
{
    const cdz_ids eos = step->request->eos;
    for (uint32_t i = step->request->prompt_len; i < ids.len; i++)
        for (uint32_t e = 0; e < eos.len; e++)
            if (ids.at[i] == eos.at[e]) return i + 1 - step->request->prompt_len;
    return ids.len - step->request->prompt_len;
}

/* Of each prompt the first row, with whatever tokens all rows took. */
static cdz_status return_firsts(cdz_decoder *dec, const cdz_step *step)
{
    const uint32_t prompt = step->request->prompt_len, n = step->request->n_prompts;
    cdz_returned rows[MOST_ROWS];
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t row = i * (cdz_n_rows(dec) / n);
        const cdz_ids ids = cdz_input_ids(dec, row);
        rows[i] = (cdz_returned){.row = row,
                                 .ids = {ids.at + prompt, length_of(step, ids)},
                                 .n_new = length_of(step, ids),
                                 .stop = {CDZ_STOP_LENGTH, {"", 0}}};
    }
    return cdz_return_rows(dec, rows, n);
}

/* Rounds of a search that ends with the request's time; a request without one has three. */
static cdz_status until_deadline(cdz_decoder *dec, const cdz_step *step)
{
    cdz_status status = CDZ_OK;
    const bool timed = cdz_deadline_s(dec) > 0;
    for (uint32_t round = 0; status == CDZ_OK && (timed || round < 3); round++)
        status = look_aside(dec);
    if (status != CDZ_E_DEADLINE) return status;
    return return_firsts(dec, step);
}

static void *on_a_thread_of_its_own(void *dec)
{
    return cdz_n_rows(dec) > 0 ? dec : NULL;
}

static cdz_status ask_on_a_thread(cdz_decoder *dec)
{
    pthread_t own;
    if (pthread_create(&own, NULL, on_a_thread_of_its_own, dec) != 0) return CDZ_OK;
    pthread_join(own, NULL);
    return CDZ_OK;
}

/* The bugs change bits, and no token. */
static cdz_status on_hidden(const cdz_step *step, const cdz_hidden_chunk *hidden)
{
    static uint32_t n_calls;
    const size_t n = (size_t)hidden->n * hidden->width;
    float mean = 0;
    (void)step;
    n_calls++;
    for (size_t i = 0; i < n; i++) mean += hidden->h[i] / (float)n;
    for (size_t i = 0; i < n; i++) {
        hidden->h[i] *= hidden->edit->scale;
        if (BUG == CALLED_SUMS) hidden->h[i] += 1e-5f * mean;
        if (BUG == CALLED_COUNTS) hidden->h[i] += 1e-6f * (float)(n_calls % 2);
    }
    return CDZ_OK;
}

static cdz_status call_for_rows(cdz_decoder *dec, const cdz_step *step)
{
    static const cdz_edit edit = {
        .layer = 1, .place = CDZ_EDIT_BLOCK, .op = CDZ_EDIT_CALL, .scale = 0.5f};
    CDZ_TRY(cdz_on_hidden(dec, step, on_hidden, NULL));
    for (uint32_t r = 0; r < cdz_n_rows(dec); r++)
        CDZ_TRY(cdz_seq_steer(dec, cdz_seq_of_row(dec, r), &edit, 1));
    return CDZ_OK;
}

static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    if (BUG == OWN_THREAD) CDZ_TRY(ask_on_a_thread(dec));
    if (BUG == WRITES_HIDDEN) CDZ_TRY(look_inside(dec));
    if (BUG >= CALLED && BUG <= CALLED_COUNTS) CDZ_TRY(call_for_rows(dec, step));
    if (BUG == UNTIL_DEADLINE) CDZ_TRY(until_deadline(dec, step));
    for (uint32_t taken = 0; !cdz_done(dec); taken++) {
        CDZ_TRY(one_step(dec, step, taken));
        CDZ_TRY(take_back(dec, taken));
        if (BUG == WRONG_REASON && taken == 50)
            for (uint32_t r = 0; r < cdz_n_rows(dec); r++)
                CDZ_TRY(cdz_finish(dec, r, CDZ_STOP_EOS, "eos"));
        if (BUG == NO_REASON && taken == 50)
            for (uint32_t r = 0; r < cdz_n_rows(dec); r++)
                CDZ_TRY(cdz_finish(dec, r, CDZ_STOP_CUSTOM, NULL));
    }
    return BUG == BEAMS_SEARCH_NOTHING ? return_firsts(dec, step) : CDZ_OK;
}

static const cdz_strategy mutant = {
    .base = {CDZ_STRATEGY_BASE, .id = "org.example.mutant", .version = "1.0.0",
             .summary = "Greedy decoding with sequences beside the rows"},
    .caps = BUG == SAMPLES_NOT         ? CDZ_SAMPLES
            : BUG == REWINDS_NOT       ? CDZ_GREEDY | CDZ_REWINDS
            : BUG >= MOVES             ? CDZ_GREEDY | CDZ_SCORES_MOVE
            : BUG == REWINDS_SOMETIMES ? CDZ_GREEDY | CDZ_REWINDS | CDZ_ONE_ROW
            : BUG >= BEAMS_GREEDY && BUG <= BEAMS_SEARCH_NOTHING ? CDZ_GREEDY | CDZ_BEAMS
                                                                 : CDZ_GREEDY,
    .run = run,
};
CDZ_EXPORT_PLUGINS(&mutant.base)
