/* watcher.c - one sound observer and one sound drafter, and what can be wrong with them: BUG names what is (test_mutants.c). A
 * bug whose name begins with DRAFT makes a drafter of the file. */
#include <cadenza/drafter.h>
#include <cadenza/observer.h>
#include <math.h>
#include <pthread.h>

enum {
    SOUND,
    FAILS_LATE,
    READS_PAST_IDS,
    WRITES_IDS,
    READS_PAST_ROW,
    WRITES_SAME, /* what stood there: no token changes */
    LAST_ID,
    NO_REWIND, /* loses count where tokens are taken back or rows change places */
    DRAFT_SOUND,
    DRAFT_GLOBAL,
    DRAFT_COUNTS,
    DRAFT_READS_PAST,
    DRAFT_FAILS_LATE,
    DRAFT_TOO_MANY_LATE,
    DRAFT_OUT_LATE,
    DRAFT_LAST_ID,
    DRAFT_CRASHES_LONG,
    DRAFT_WRITES_PAST_ROW, /* of scores of its own sequence */
    DRAFT_OWN_THREAD,      /* on which it asks whether the request is done */
};

#ifndef BUG
#define BUG SOUND
#endif

static int *volatile nowhere;

/* --- the observer ------------------------------------------------------------------------------------------------ */

typedef struct watched {
    uint32_t tokens;
    double best;
} watched;

static cdz_status watch_begin(const cdz_step *step, void **shared)
{
    watched *w = cdz_alloc(step, sizeof *w);
    if (!w) return cdz_fail(step, CDZ_E_NOMEM, "out of memory");
    *w = (watched){0};
    *shared = w;
    return CDZ_OK;
}

static cdz_status watch_scores(const cdz_step *step, const cdz_seen *seen)
{
    watched *w = step->shared;
    for (uint32_t r = 0; r < step->n_rows; r++) {
        volatile const float *row = seen->after[r];
        for (uint32_t v = 0; v < seen->n_vocab; v++) w->best = fmax(w->best, (double)row[v]);
        if (BUG == READS_PAST_ROW) w->best = fmax(w->best, (double)row[seen->n_vocab]);
        if (BUG == WRITES_SAME && w->tokens > 8)
            *(volatile float *)(uintptr_t)seen->before[r] = row[0];
    }
    return CDZ_OK;
}

static cdz_status watch_token(const cdz_step *step, int32_t token)
{
    watched *w = step->shared;
    volatile const int32_t *ids = step->input_ids[0].at;
    const uint32_t len = step->input_ids[0].len;
    w->tokens++;
    if (BUG == FAILS_LATE && w->tokens == 20) return cdz_fail(step, CDZ_E_PLUGIN, "broken");
    if (BUG == READS_PAST_IDS && w->tokens > 20) w->best += ids[len] == -7;
    if (BUG == WRITES_IDS && w->tokens == 20)
        ((volatile int32_t *)(uintptr_t)step->input_ids[0].at)[0] += 0;
    if (BUG == LAST_ID && (uint32_t)ids[5] == step->request->n_vocab - 1) *nowhere = token;
    return CDZ_OK;
}

static cdz_status watch_rewind(const cdz_step *step, uint32_t n)
{
    watched *w = step->shared;
    (void)n;
    if (BUG == NO_REWIND)
        return cdz_fail(step, CDZ_E_PLUGIN, "tokens do not come back: %u", w->tokens);
    return CDZ_OK;
}

static cdz_status watch_reorder(const cdz_step *step, const uint32_t *parents)
{
    (void)parents;
    return watch_rewind(step, 0);
}

static const cdz_observer observer = {
    .base = {CDZ_OBSERVER_BASE, .id = "org.example.mutant", .version = "1.0.0",
             .summary = "Looks at the best score of a request"},
    .begin = watch_begin,
    .scores = watch_scores,
    .token = watch_token,
    .rewind = watch_rewind,
    .reorder = watch_reorder,
};

/* --- the drafter -------------------------------------------------------------------------------------------------- */

static uint32_t drafts_of_all;

/* The tokens that followed the newest one where it stood before. */
static uint32_t look_up(cdz_ids ids, uint32_t room, int32_t *tokens)
{
    uint32_t n = 0;
    for (uint32_t i = ids.len - 1; i > 0; i--) {
        if (ids.at[i - 1] != ids.at[ids.len - 1]) continue;
        for (uint32_t k = i; k < ids.len && n < room && n < 4; k++) tokens[n++] = ids.at[k];
        break;
    }
    return n;
}

/* Scores of the history, from a sequence of the drafter's own, as a draft model's are. */
static cdz_status score_history(cdz_decoder *dec, cdz_ids ids, cdz_draft *draft)
{
    cdz_seq *seq;
    cdz_scores scores, own;
    CDZ_TRY(cdz_seq_new(dec, NULL, &seq));
    CDZ_TRY(cdz_seq_append(dec, seq, ids.at, ids.len));
    CDZ_TRY(cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_LAST, &scores));
    CDZ_TRY(cdz_softmax(dec, &scores));
    CDZ_TRY(cdz_scratch_scores(dec, draft->tokens.len, &own));
    for (uint32_t i = 0; i < own.n_rows; i++)
        for (uint32_t v = 0; v < own.n_vocab; v++) cdz_row(&own, i)[v] = cdz_row(&scores, 0)[v];
    if (BUG == DRAFT_WRITES_PAST_ROW) cdz_row(&own, own.n_rows - 1)[own.n_vocab] = 0;
    cdz_seq_free(dec, seq);
    draft->scores = own;
    return CDZ_OK;
}

static void *on_a_thread_of_its_own(void *dec)
{
    return cdz_done(dec) ? NULL : dec;
}

static void ask_on_a_thread(cdz_decoder *dec)
{
    pthread_t own;
    if (pthread_create(&own, NULL, on_a_thread_of_its_own, dec) == 0) pthread_join(own, NULL);
}

static cdz_status propose(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    if (BUG == DRAFT_OWN_THREAD) ask_on_a_thread(dec);
    static uint32_t calls;
    const cdz_ids ids = draft->history;
    const uint32_t n_vocab = step->request->n_vocab;
    int32_t *tokens = cdz_scratch(step, (draft->room + 4) * sizeof *tokens);
    if (!tokens) return cdz_fail(step, CDZ_E_NOMEM, "out of memory");
    uint32_t n = look_up(ids, draft->room, tokens);
    drafts_of_all++, calls++;
    if (BUG == DRAFT_GLOBAL && n == 0 && draft->room) tokens[n++] = ids.at[drafts_of_all % ids.len];
    if (BUG == DRAFT_COUNTS && n > 0) tokens[0] = (int32_t)(5 + calls % 7);
    if (BUG == DRAFT_READS_PAST && ids.len > 20 && ((volatile const int32_t *)ids.at)[ids.len] == -7)
        n = 0;
    if (BUG == DRAFT_FAILS_LATE && ids.len > 24) return cdz_fail(step, CDZ_E_PLUGIN, "broken");
    if (BUG == DRAFT_TOO_MANY_LATE && ids.len > 24)
        while (n <= draft->room) tokens[n++] = 7;
    if (BUG == DRAFT_OUT_LATE && ids.len > 24 && draft->room)
        tokens[0] = (int32_t)n_vocab, n = n ? n : 1;
    if (BUG == DRAFT_LAST_ID)
        for (uint32_t i = 0; i < ids.len; i++)
            if ((uint32_t)ids.at[i] == n_vocab - 1) *nowhere = 1;
    if (BUG == DRAFT_CRASHES_LONG && ids.len > 200) *nowhere = 1;
    draft->tokens = (cdz_ids){tokens, n};
    if ((BUG == DRAFT_SOUND || BUG == DRAFT_WRITES_PAST_ROW) && n > 0)
        return score_history(dec, ids, draft);
    return CDZ_OK;
}

static const cdz_drafter drafter = {
    .base = {CDZ_DRAFTER_BASE, .id = "org.example.mutant", .version = "1.0.0",
             .summary = "Proposes what followed the newest token before"},
    .propose = propose,
};

CDZ_EXPORT_PLUGINS(BUG >= DRAFT_SOUND ? &drafter.base : &observer.base)
