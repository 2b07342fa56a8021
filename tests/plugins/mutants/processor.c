/* processor.c - one sound processor, and what can be wrong with it: BUG names what is. test_mutants.c says which check has to
 * find it.
 *
 * Sound, it makes the newest token less likely, the more so the longer the row has grown. */
#include <cadenza/ext/constrained.h>
#include <cadenza/ext/draft/thread-check.h>
#include <cadenza/ext/form.h>
#include <cadenza/ext/state.h>
#include <cadenza/ext/steer.h>
#include <cadenza/ext/tokenizer.h>
#include <cadenza/processor.h>
#include <fcntl.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SOUND,
    WRITES_BEFORE_ROW, /* from the first token on */
    WRITES_PAST_ROW,   /* at the hundredth token only */
    WRITES_PAST_LAST,  /* row of a batch of three only */
    WRITES_WHAT_IT_READS, /* both sides of the row, once it has seen a token of the second half: nobody crashes */
    READS_PAST_IDS,
    READS_BEFORE_IDS,
    WRITES_IDS,
    ACCEPT_WRITES_IDS,
    WRITES_PAST_STATE, /* brackets that are open have eight places */
    STATE_IN_APPLY,    /* at the hundredth token */
    GLOBAL,
    GLOBAL_OF_ENDS, /* a token of the upper half, for all requests */
    SHARED_COUNT,
    CLONE_FORGETS,
    LONGEST,
    DRAFT_ROW,
    FOURTH_ROW,
    THREAD_LOCAL,
    HOUR,
    NANOSECOND,
    PROCESS_ID,
    LEAKS_WHEN_LONG,
    NAN_LATE,
    MALLOC_LATE,
    ALLOC_LATE,
    LIES_ELEMENTWISE,
    LIES_HISTORY,
    LIES_TOP,
    LIES_ARGMAX,
    LIES_SAMPLING, /* a warper, it says, and forbids the best token */
    WARPS,         /* sound: what it forbids, it forbids only where tokens are drawn */
    LIES_ROWWISE,
    LIES_NORMALISED,
    LIES_FORM,
    LIES_CONSTRAINED,
    CONSTRAINS,  /* sound: it tells of what it keeps */
    CALLED,      /* sound: its on_hidden is a function of one position */
    CALLED_SUMS, /* its on_hidden takes the mean of what it is shown */
    CALLED_COUNTS,
    CALLED_PAST, /* writes behind the last position */
    CALLED_DIVIDES,
    CALLED_FAILS,
    LIES_NO_IDS,  /* does not declare CDZ_NEEDS_IDS, and reads them once its state is not zero */
    SECOND_TOKEN, /* the first real token that is no letter */
    FAILS_LATE,
    FAILS_LONG,
    FAILS_IN_ACCEPT,
    SILENT_LATE,
    LAST_ID,
    FIRST_ID,
    SPECIAL_ID,
    BROKEN_TEXT,
    HANGS_LATE,
    EXITS_LATE,
    ROUNDS_LATE,
    OPENS_LATE,
    ODD_LATE,
    NAN_SPREADS_LATE,
    DECODES_IN_APPLY, /* text that would live as long as the request, at every step */
    ENCODES_IN_ACCEPT,
    OWN_THREAD,        /* sound: begin has one, which logs and asks which thread it is */
    OWN_THREAD_ALLOCS, /* and takes the request's memory */
    WAITS_FOR_BELLS,   /* three in a row, which no text of the kit has: --text */
};

#ifndef BUG
#define BUG SOUND
#endif

typedef struct state {
    uint32_t count, depth;
    char open[8];
} state;

typedef struct request {
    uint32_t count, longest;
    void *heap;
    cdz_constraint *no_q; /* of those that constrain; else NULL */
} request;

static uint32_t global;
static _Thread_local uint32_t on_this_thread;

static int *volatile nowhere;

static void crash(void)
{
    *nowhere = 1;
}

static void *on_a_thread_of_its_own(void *arg)
{
    const cdz_step *step = arg;
    const bool told = cdz_thread_is(step, CDZ_THREAD_OWN);
    cdz_log(step, CDZ_LOG_DEBUG, "a thread of my own");
    if (BUG == OWN_THREAD_ALLOCS) return cdz_alloc(step, sizeof(request));
    return told ? arg : NULL;
}

/* What the thread returned; NULL also where there is none. */
static void *ask_a_thread(const cdz_step *step)
{
    pthread_t own;
    void *answer = NULL;
    if (!cdz_thread_is(step, CDZ_THREAD_ENGINE)) return NULL;
    if (pthread_create(&own, NULL, on_a_thread_of_its_own, (void *)(uintptr_t)step) != 0)
        return NULL;
    pthread_join(own, &answer);
    return answer;
}

static cdz_status begin(const cdz_step *step, void **shared)
{
    request *q = BUG == OWN_THREAD_ALLOCS ? ask_a_thread(step) : cdz_alloc(step, sizeof *q);
    if (!q) return cdz_fail(step, CDZ_E_NOMEM, "out of memory");
    if (BUG == OWN_THREAD && !ask_a_thread(step))
        return cdz_fail(step, CDZ_E_PLUGIN, "the host does not know my threads");
    memset(q, 0, sizeof *q);
    q->heap = malloc(1000);
    on_this_thread = 1;
    *shared = q;
    if (BUG == LIES_CONSTRAINED || BUG == CONSTRAINS) {
        const cdz_string text = {"[^q]*q", 6};
        return cdz_get_grammar(step)->compile(step, CDZ_GRAMMAR_REGEX, &text, 1, &q->no_q);
    }
    return CDZ_OK;
}

static void end(const cdz_step *step)
{
    request *q = step->shared;
    if (q->no_q) cdz_get_grammar(step)->release(q->no_q);
    if (BUG == LEAKS_WHEN_LONG && q->count > 50) return;
    free(q->heap);
}

/* --- accept ------------------------------------------------------------------------------------------------------ */

static void open_brackets(const cdz_step *step, state *s, int32_t token)
{
    const cdz_string text = cdz_get_tokenizer(step)->token_text(step, token);
    for (uint32_t i = 0; i < text.len; i++) {
        if (text.at[i] == '(' || text.at[i] == '[')
            if (s->depth < sizeof s->open || BUG == WRITES_PAST_STATE)
                ((volatile char *)s->open)[s->depth++] = text.at[i];
        if ((text.at[i] == ')' || text.at[i] == ']') && s->depth > 0) s->depth--;
        if (BUG == BROKEN_TEXT && (unsigned char)text.at[i] >= 0xF5) crash();
    }
}

static void count_bells(const cdz_step *step, state *s, int32_t token)
{
    const cdz_string text = cdz_get_tokenizer(step)->token_text(step, token);
    s->open[0] = text.len == 1 && text.at[0] == '\a' ? (char)(s->open[0] + 1) : 0;
    if (s->open[0] == 3) crash();
}

static cdz_status accept(const cdz_step *step, uint32_t r, int32_t token)
{
    state *s = step->row_state[r];
    request *q = step->shared;
    const uint32_t n = step->request->n_vocab, len = step->input_ids ? step->input_ids[r].len : 0;
    s->count++;
    q->count++;
    if (len > q->longest) q->longest = len;
    if (BUG == WAITS_FOR_BELLS)
        count_bells(step, s, token);
    else
        open_brackets(step, s, token);
    if (BUG == GLOBAL) global++;
    if (BUG == GLOBAL_OF_ENDS && (uint32_t)token > n / 2) global++;
    if (BUG == LAST_ID && (uint32_t)token == n - 1) crash();
    if (BUG == FIRST_ID && token == 0) crash();
    if (BUG == SPECIAL_ID && (uint32_t)token == n - 2) crash();
    if (BUG == SECOND_TOKEN && token > 24) s->depth = 1u << 30;
    if (BUG == ACCEPT_WRITES_IDS && s->count > 7)
        ((int32_t *)(uintptr_t)step->input_ids[r].at)[0] = 3;
    if (BUG == ALLOC_LATE && s->count == 101) (void)cdz_alloc(step, 8);
    if (BUG == FAILS_IN_ACCEPT && s->count == 30) return cdz_fail(step, CDZ_E_PLUGIN, "broken");
    if (BUG == ENCODES_IN_ACCEPT && s->count == 30) {
        cdz_ids ids;
        return cdz_get_tokenizer(step)->encode(step, "word", 4, false, &ids);
    }
    if (BUG == ROUNDS_LATE && s->count == 40) fesetround(FE_UPWARD);
    if (BUG == OPENS_LATE && s->count == 60) (void)open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (BUG == EXITS_LATE && s->count == 20) _exit(0);
    return CDZ_OK;
}

/* --- apply ------------------------------------------------------------------------------------------------------- */

static float penalty(const cdz_step *step, uint32_t r, const state *s)
{
    const request *q = step->shared;
    const uint32_t len = step->input_ids ? step->input_ids[r].len : 0;
    struct timespec now = {0};
    float by = 1.0f + 0.25f * (float)(s->count < 200 ? s->count : 200);
    if (BUG == GLOBAL || BUG == GLOBAL_OF_ENDS) by += (float)global;
    if (BUG == SHARED_COUNT) by += (float)q->count;
    if (BUG == LONGEST && q->longest > len && s->count > 7) by += 1.0f;
    if (BUG == DRAFT_ROW && r > 0 && step->row_index[r] == step->row_index[r - 1]) by = 0;
    if (BUG == FOURTH_ROW && r == 3 && s->count >= 7) by = 0;
    if (BUG == THREAD_LOCAL) by += (float)on_this_thread;
    if (BUG == HOUR) by += (float)(time(NULL) / 3600 % 24);
    if (BUG == NANOSECOND && s->count >= 7) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        by += (float)(now.tv_nsec % 1000);
    }
    if (BUG == PROCESS_ID) by += (float)(getpid() % 97);
    return by;
}

/* What is wrong with a row as it stands when s->count tokens were taken. */
static void harm(const cdz_step *step, cdz_scores *x, uint32_t r, const state *s)
{
    float *row = cdz_row(x, r);
    const uint32_t n = x->n_vocab;
    const cdz_ids ids = step->input_ids ? step->input_ids[r] : (cdz_ids){0};
    if (BUG == WRITES_BEFORE_ROW && s->count >= 1) row[-1] = 1e9f;
    if (BUG == WRITES_PAST_ROW && s->count == 100) row[n] = 1e9f;
    if (BUG == WRITES_PAST_LAST && r == 2 && x->n_rows == 3) row[n] = 1e9f;
    if (BUG == WRITES_WHAT_IT_READS && (uint32_t)ids.at[ids.len - 1] > n / 2)
        ((volatile float *)row)[-1] *= 2.0f, ((volatile float *)row)[n] *= 2.0f;
    if (BUG == READS_PAST_IDS && s->count >= 7)
        row[0] += (float)(((volatile const int32_t *)ids.at)[ids.len] * 0);
    if (BUG == READS_BEFORE_IDS && s->count >= 100)
        row[0] += (float)(((volatile const int32_t *)ids.at)[-1] * 0);
    if (BUG == WRITES_IDS && s->count == 50) ((int32_t *)(uintptr_t)ids.at)[0] = 1;
    if (BUG == STATE_IN_APPLY && s->count >= 100) ((state *)(uintptr_t)s)->count++;
    if (BUG == NAN_LATE && s->count == 33) row[0] = NAN;
    if (BUG == MALLOC_LATE && s->count >= 100) {
        void *volatile heap = malloc(100);
        free(heap);
    }
    if (BUG == LIES_ELEMENTWISE && s->count >= 100) row[0] += row[n / 2] > 0;
    if (BUG == LIES_HISTORY && s->count >= 100) row[((uint32_t)ids.at[0] / 2 + n / 3) % n] -= 1.0f;
    if (BUG == LIES_ROWWISE && s->count >= 7) row[ids.at[0]] += 0.001f * cdz_row(x, 0)[n / 2];
    if (BUG == ODD_LATE && s->count >= 7 && n > 3 && row[3] == INFINITY) crash();
    if (BUG == NAN_SPREADS_LATE && s->count >= 7 && x->n_rows > 1 && n > 3 &&
        isnan(cdz_row(x, 1)[3]))
        row[0] = 1;
}

/* Masks what the constraint does not allow, and tells of it. */
static void constrain(const cdz_step *step, float *row, uint32_t n, const state *s)
{
    const request *q = step->shared;
    const cdz_grammar_api *api = cdz_get_grammar(step);
    const uint32_t n_words = (n + 63) / 64;
    uint64_t *bits = cdz_scratch(step, n_words * sizeof *bits);
    if (!bits || (BUG == LIES_CONSTRAINED && s->count >= 100)) return;
    (void)api->allowed(step, q->no_q, api->start(q->no_q), bits, n_words);
    for (uint32_t v = 0; v < n; v++)
        if (!(bits[v / 64] >> (v % 64) & 1)) row[v] = -INFINITY;
}

/* Those that are something else than the sound one from the start. */
static bool other_form(const cdz_step *step, cdz_scores *x, uint32_t r, const state *s)
{
    float *row = cdz_row(x, r);
    const uint32_t n = x->n_vocab;
    uint32_t best = 0;
    for (uint32_t v = 1; v < n; v++) best = row[v] > row[best] ? v : best;
    switch ((int)BUG) {
    case LIES_TOP: /* keeps the best, and at the hundredth token the first */
        for (uint32_t v = 0; v < n; v++)
            if (v != best && !(s->count >= 100 && v == 0)) row[v] = -INFINITY;
        return true;
    case LIES_ARGMAX:
    case LIES_SAMPLING:
        if (s->count >= 100) row[best] -= 20.0f;
        return true;
    case WARPS:
        if (step->request->do_sample) row[best] -= 20.0f;
        return true;
    case LIES_NORMALISED: row[0] -= 1.0f; return true;
    case LIES_FORM:
        for (uint32_t v = 0; v < n; v++) row[v] /= s->count >= 100 ? 2.5f : 2.0f;
        return true;
    case LIES_CONSTRAINED:
    case CONSTRAINS: constrain(step, row, n, s); return true;
    default: return false;
    }
}

static cdz_status may_go_on(const cdz_step *step, uint32_t r, const state *s)
{
    const uint32_t len = step->input_ids ? step->input_ids[r].len : 0;
    if (BUG == FAILS_LATE && len > 14) return cdz_fail(step, CDZ_E_PLUGIN, "broken");
    if (BUG == FAILS_LONG && len > 400) return cdz_fail(step, CDZ_E_PLUGIN, "too long for me");
    if (BUG == SILENT_LATE && s->count == 12) return CDZ_E_PLUGIN;
    if (BUG == HANGS_LATE && s->count == 25)
        for (volatile int spin = 1; spin;) {
        }
    return CDZ_OK;
}

static cdz_status apply(const cdz_step *step, cdz_scores *x)
{
    for (uint32_t r = 0; r < x->n_rows; r++) {
        const state *s = step->row_state[r];
        CDZ_TRY(may_go_on(step, r, s));
        if (BUG == DECODES_IN_APPLY) {
            cdz_string text;
            CDZ_TRY(cdz_get_tokenizer(step)->decode(step, step->input_ids[r], true, &text));
        }
        if (BUG == LIES_NO_IDS && s->count == 0) continue;
        if (BUG == SECOND_TOKEN && s->depth == 1u << 30) {
            cdz_row(x, r)[-1] = cdz_row(x, r)[x->n_vocab] = 1e9f;
            crash();
        }
        if (other_form(step, x, r, s)) continue;
        const cdz_ids ids = step->input_ids[r];
        cdz_row(x, r)[ids.at[ids.len - 1]] -= penalty(step, r, s);
        harm(step, x, r, s);
    }
    return CDZ_OK;
}

/* --- what it says of itself -------------------------------------------------------------------------------------- */

static cdz_status clone_state(const cdz_step *step, const void *from, void *to)
{
    (void)step;
    memcpy(to, from, sizeof(state));
    if (BUG == CLONE_FORGETS && ((state *)to)->count > 7) ((state *)to)->count = 7;
    return CDZ_OK;
}

static void free_state(const cdz_step *step, void *at)
{
    (void)step, (void)at;
}

static bool describe(const cdz_step *step, cdz_form *out)
{
    (void)step;
    out->kind = CDZ_FORM_DIVIDE;
    out->amount = 2.0;
    return true;
}

static cdz_status tell(const cdz_step *step, uint32_t r, cdz_row_constraint *out)
{
    request *q = step->shared;
    (void)r;
    out->constraint = q->no_q;
    out->state = cdz_get_grammar(step)->start(q->no_q);
    return CDZ_OK;
}

static cdz_status steer(const cdz_step *step, const cdz_steered *row, const cdz_edit **edits,
                        uint32_t *n)
{
    static const cdz_edit list[] = {
        {.layer = 2, .place = CDZ_EDIT_BLOCK, .op = CDZ_EDIT_CALL, .scale = 0.5f, .from = 3},
        {.layer = 0, .place = CDZ_EDIT_EMBEDDING, .op = CDZ_EDIT_CALL, .scale = 2},
    };
    (void)step, (void)row;
    *edits = list;
    *n = 2;
    return CDZ_OK;
}

static cdz_status on_hidden(const cdz_step *step, const cdz_hidden_chunk *hidden)
{
    static uint32_t n_calls;
    const size_t n = (size_t)hidden->n * hidden->width;
    float mean = 0;
    n_calls++;
    for (size_t i = 0; i < n; i++) mean += hidden->h[i] / (float)n;
    for (size_t i = 0; i < n; i++) {
        hidden->h[i] *= hidden->edit->scale;
        if (BUG == CALLED_SUMS) hidden->h[i] -= mean;
        if (BUG == CALLED_COUNTS) hidden->h[i] += (float)n_calls;
        if (BUG == CALLED_DIVIDES && hidden->position == 0) hidden->h[i] /= 0.0f;
    }
    if (BUG == CALLED_PAST) hidden->h[n] = 0;
    if (BUG == CALLED_FAILS && hidden->position > 9)
        return cdz_fail(step, CDZ_E_INPUT, "position > 9");
    return CDZ_OK;
}

static const void *extension(const char *id)
{
    static const cdz_steer_api steers = {
        .size = sizeof steers, .steer = steer, .on_hidden = on_hidden};
    if (BUG >= CALLED && BUG <= CALLED_FAILS && strcmp(id, CDZ_EXT_STEER) == 0) return &steers;
    static const cdz_constrained_api constrained = {.size = sizeof constrained, .of = tell};
    if ((BUG == LIES_CONSTRAINED || BUG == CONSTRAINS) && strcmp(id, CDZ_EXT_CONSTRAINED) == 0)
        return &constrained;
    static const cdz_state_api states = {
        .size = sizeof states, .clone = clone_state, .free = free_state};
    static const cdz_form_api form = {.size = sizeof form, .describe = describe};
    if (BUG == CLONE_FORGETS && strcmp(id, CDZ_EXT_STATE) == 0) return &states;
    if (BUG == LIES_FORM && strcmp(id, CDZ_EXT_FORM) == 0) return &form;
    return NULL;
}

#define ONLY(bug, caps) (BUG == (bug) ? (uint32_t)(caps) : 0u)
#define OTHER_CAPS                                                                                 \
    (ONLY(LIES_ELEMENTWISE, CDZ_NEEDS_IDS | CDZ_ROWWISE | CDZ_ELEMENTWISE) |                       \
     ONLY(LIES_HISTORY, CDZ_NEEDS_IDS | CDZ_ROWWISE | CDZ_HISTORY_SPARSE) |                        \
     ONLY(LIES_ROWWISE, CDZ_NEEDS_IDS | CDZ_ROWWISE) |                                             \
     ONLY(LIES_TOP, CDZ_ROWWISE | CDZ_KEEPS_TOP) |                                                 \
     ONLY(LIES_ARGMAX, CDZ_ROWWISE | CDZ_KEEPS_ARGMAX) |                                           \
     ONLY(LIES_SAMPLING, CDZ_ROWWISE | CDZ_SAMPLING_ONLY) |                                        \
     ONLY(WARPS, CDZ_ROWWISE | CDZ_SAMPLING_ONLY) |                                                \
     ONLY(LIES_NORMALISED, CDZ_ROWWISE | CDZ_NEEDS_NORMALISED) | ONLY(LIES_FORM, CDZ_ROWWISE) |    \
     ONLY(LIES_CONSTRAINED, CDZ_ROWWISE) | ONLY(CONSTRAINS, CDZ_ROWWISE) |                         \
     ONLY(NAN_SPREADS_LATE, CDZ_NEEDS_IDS | CDZ_ROWWISE) | ONLY(LIES_NO_IDS, CDZ_ROWWISE))
#define SOUND_CAPS (CDZ_NEEDS_IDS | CDZ_ROWWISE | CDZ_ELEMENTWISE | CDZ_HISTORY_SPARSE)

static const cdz_processor mutant = {
    .base = {CDZ_PROCESSOR_BASE, .id = "org.example.mutant", .version = "1.0.0",
             .summary = "Makes the newest token less likely", .extension = extension},
    .caps = OTHER_CAPS ? OTHER_CAPS : SOUND_CAPS,
    .state_size = sizeof(state),
    .state_version = 1,
    .begin = begin,
    .apply = apply,
    .accept = accept,
    .end = end,
};
CDZ_EXPORT_PLUGINS(&mutant.base)
