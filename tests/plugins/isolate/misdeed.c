/* misdeed.c - a processor, a criterion, a drafter and a strategy that do what `deed` says when the row has got `after` new tokens, and
 * honest work until then: made-up rows that depend on the ids, the state and the tokens accepted. For test_isolate. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cadenza/criterion.h"
#include "cadenza/drafter.h"
#include "cadenza/ext/companion.h"
#include "cadenza/processor.h"
#include "cadenza/strategy.h"
#include "isolate/protocol.h"

#define DEEDS                                                                                      \
    "none|segv|abort|loop|exit|rows|below|open|write|fork|thread|socket|kill|exec|code|closes|"    \
    "memory|prints|forges|lies|floods|refuses|status|dies_idle|mode|deep|wide|verbs"
enum deed {
    NONE,
    SEGV,
    ABORT,
    LOOP,
    EXIT,
    ROWS,
    BELOW,
    OPEN,
    WRITE,
    FORK,
    THREAD,
    SOCKET,
    KILL,
    EXEC,
    CODE,
    CLOSES,
    MEMORY,
    PRINTS,
    FORGES,
    LIES,
    FLOODS,
    REFUSES,
    STATUS,
    DIES_IDLE,
    MODE,
    DEEP,
    WIDE,
    VERBS, /* of a drafter alone */
};

typedef struct misdeed {
    cdz_word deed, begin;
    int64_t after;
} misdeed;

static const cdz_param params[] = {
    CDZ_WORD(misdeed, deed, DEEDS, 0, "what is done in the call"),
    CDZ_WORD(misdeed, begin, DEEDS, 0, "what is done in begin"),
    CDZ_INT(misdeed, after, 3, 0, 1000, "new tokens before it is done"),
};

static void *nothing(void *arg)
{
    return arg;
}

/* The head of the shared memory, whose place follows from where the scores lie. */
static cdz_isolate_head *head_of(const cdz_scores *scores)
{
    const size_t bytes = (size_t)scores->n_rows * scores->n_vocab * sizeof(float);
    return (cdz_isolate_head *)(void *)((unsigned char *)scores->data - cdz_isolate_rows_at(bytes));
}

/* An answer written in the worker's place: too short, or longer than can be. */
static void forge(const cdz_scores *scores, uint32_t bytes)
{
    cdz_isolate_head *head = head_of(scores);
    const uint32_t done = CDZ_DOWN_DONE;
    memcpy((unsigned char *)head + CDZ_ISOLATE_DOWN, &done, sizeof done);
    head->down_bytes = bytes;
    atomic_fetch_add(&head->turn, 1);
    for (;;) pause();
}

static void flood(const cdz_step *step)
{
    for (;;) cdz_log(step, CDZ_LOG_DEBUG, "again");
}

static void run_nothing(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, nothing, NULL) == 0) pthread_join(thread, NULL);
}

static void write_on(float *row)
{
    for (volatile float *at = row;; at++) *at = 0;
}

static void take_memory(void)
{
    for (int i = 0; i < 64; i++) {
        unsigned char *volatile at = malloc((size_t)1 << 30); /* or a compiler does without it */
        if (!at) abort();
        memset(at, 1, 4096);
    }
}

/* A stack that is overflowed step by step, */
static int go_deeper(int left)
{
    volatile char frame[1000];
    frame[left % 1000] = 1;
    return left == 0 ? 0 : go_deeper(left - 1) + frame[left % 1000];
}

/* and in one: not inlined, or every deed had this frame. */
__attribute__((noinline)) static int take_a_wide_frame(void)
{
    char frame[2 << 20];
    char *volatile at = frame; /* or a compiler keeps no more of it than is used */
    *at = 1;
    return *at;
}

static cdz_status act(const cdz_step *step, int32_t deed, cdz_scores *scores)
{
    volatile int *nowhere = NULL;
    char *const argv[] = {"/bin/true", NULL};
    switch ((enum deed)deed) {
    case NONE: break;
    case SEGV: *nowhere = 1; break;
    case ABORT: abort();
    case LOOP:
        for (;;) nowhere = NULL;
    case EXIT: exit(3);
    case ROWS: write_on(scores->data); break;
    case BELOW: memset(scores->data - 65536, 0x55, 4 * 65536); break;
    case OPEN: return open("/etc/passwd", O_RDONLY) < 0 ? CDZ_OK : CDZ_E_INTERNAL;
    case WRITE: return open("/tmp/cadenza-misdeed", O_CREAT | O_RDWR, 0600) ? CDZ_OK : CDZ_OK;
    case FORK: return fork() < 0 ? CDZ_OK : CDZ_E_INTERNAL;
    case THREAD: run_nothing(); break;
    case SOCKET: return socket(AF_INET, SOCK_STREAM, 0) < 0 ? CDZ_OK : CDZ_E_INTERNAL;
    case KILL: kill(getppid(), SIGTERM); break;
    case EXEC: execv(argv[0], argv); break;
    case CODE:
        (void)mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                   0);
        break;
    case CLOSES:
        for (int fd = 0; fd < 100; fd++) close(fd);
        break;
    case MEMORY: take_memory(); break;
    case PRINTS: return write(1, "hello\n", 6) == 6 ? CDZ_OK : CDZ_E_INTERNAL;
    case FORGES: forge(scores, 4); break;
    case LIES: forge(scores, UINT32_MAX); break;
    case FLOODS: flood(step); break;
    case REFUSES: return cdz_fail(step, CDZ_E_INPUT, "not with \033[31mme\377");
    case STATUS: return (cdz_status)77;
    case DIES_IDLE: break;
    case MODE: break;
    case DEEP: return go_deeper(INT_MAX) < 0 ? CDZ_OK : CDZ_E_INTERNAL;
    case WIDE: return take_a_wide_frame() ? CDZ_OK : CDZ_E_INTERNAL;
    case VERBS: break;
    }
    return CDZ_OK;
}

static uint32_t n_new(const cdz_step *step, uint32_t r)
{
    return step->input_ids[r].len - step->request->prompt_len;
}

/* --- the processor ---------------------------------------------------------------------------------------------- */

typedef struct memory {
    uint64_t sum;
} memory;

static cdz_status begin(const cdz_step *step, void **shared)
{
    const misdeed *p = step->params;
    uint32_t *salt = cdz_alloc(step, sizeof *salt);
    if (!salt) return CDZ_E_NOMEM;
    *salt = step->request->n_vocab;
    *shared = salt;
    return act(step, p->begin.value, NULL);
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const misdeed *p = step->params;
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const memory *m = step->row_state[r];
        const cdz_ids ids = step->input_ids[r];
        uint32_t noise[4];
        step->host->noise(step, step->row_index[r], ids.len, noise);
        float *row = cdz_row(scores, r);
        const uint64_t mix =
            m->sum * 31u + (uint32_t)ids.at[ids.len - 1] + *(uint32_t *)step->shared;
        row[(mix + noise[0]) % scores->n_vocab] += 4.0f;
        row[mix % scores->n_vocab] *= 0.5f;
    }
    for (uint32_t r = 0; r < scores->n_rows; r++)
        if (n_new(step, r) == (uint64_t)p->after) return act(step, p->deed.value, scores);
    return CDZ_OK;
}

static cdz_status take_token(const cdz_step *step, uint32_t r, int32_t token)
{
    memory *m = step->row_state[r];
    m->sum = m->sum * 7 + (uint32_t)token;
    return CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.misdeed", .version = "1.0.0",
             .summary = "does as it is told", CDZ_PARAMS(misdeed, params)},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE,
    .state_size = sizeof(memory),
    .begin = begin,
    .apply = apply,
    .accept = take_token,
};

/* --- the criterion ---------------------------------------------------------------------------------------------- */

static cdz_status test(const cdz_step *step, cdz_stop *stops)
{
    static const char why[] = "enough of \t it";
    const misdeed *p = step->params;
    for (uint32_t r = 0; r < step->n_rows; r++) {
        if (n_new(step, r) < (uint64_t)p->after) continue;
        if (p->deed.value != NONE) return act(step, p->deed.value, NULL);
        stops[r] = (cdz_stop){CDZ_STOP_CUSTOM, {why, sizeof why - 1}};
    }
    return CDZ_OK;
}

static const cdz_criterion criterion = {
    .base = {CDZ_CRITERION_BASE, .id = "test.misdeed_stop", .version = "1.0.0",
             .summary = "stops, or worse", CDZ_PARAMS(misdeed, params)},
    .test = test,
};

/* --- the drafter -------------------------------------------------------------------------------------------------- */

/* Every verb is there, if only to say that it is not for drafters here. */
static cdz_status look_at_verbs(cdz_decoder *dec, const cdz_step *step)
{
    const cdz_decoder_api *api = dec->api;
    void (*verbs[(sizeof *api - offsetof(cdz_decoder_api, n_rows)) / sizeof(void (*)(void))])(void);
    memcpy(verbs, (const char *)api + offsetof(cdz_decoder_api, n_rows), sizeof verbs);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!verbs[i])
            return cdz_fail(step, CDZ_E_PLUGIN, "verb %d of the table is not there", (int)i);
    return cdz_seq_value(dec, NULL, 0, 0, NULL);
}

static cdz_status propose(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    const misdeed *p = step->params;
    const cdz_ids h = draft->history;
    const uint32_t n = draft->room < 3 ? draft->room : 3;
    int32_t *tokens = cdz_scratch(step, 3 * sizeof *tokens);
    if (!tokens) return CDZ_E_NOMEM;
    for (uint32_t i = 0; i < n; i++) tokens[i] = h.at[(h.len * 5 + i) % h.len];
    draft->tokens = (cdz_ids){tokens, n};
    if (h.len - step->request->prompt_len < (uint64_t)p->after) return CDZ_OK;
    return p->deed.value == VERBS ? look_at_verbs(dec, step) : act(step, p->deed.value, NULL);
}

static const cdz_drafter drafter = {
    .base = {CDZ_DRAFTER_BASE, .id = "test.misdeed_draft", .version = "1.0.0",
             .summary = "guesses, or worse", CDZ_PARAMS(misdeed, params)},
    .propose = propose,
};

/* --- what cannot be isolated ----------------------------------------------------------------------------------------- */

static cdz_status describe(const cdz_step *step, uint32_t row, cdz_companion *out)
{
    (void)step, (void)row, (void)out;
    return CDZ_OK;
}

static const void *extension(const char *id)
{
    static const cdz_companion_api companion = {.size = sizeof companion, .describe = describe};
    return cdz_is_companion(id) ? &companion : NULL;
}

static const cdz_processor accompanied = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.misdeed_guided", .version = "1.0.0",
             .summary = "wants a companion", .extension = extension},
    .apply = apply,
};

/* --- the strategy: ends with its deed --------------------------------------------------------------------------------- */

static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    const misdeed *p = step->params;
    cdz_scores scores;
    int32_t token;
    while (!cdz_done(dec)) {
        CDZ_TRY(cdz_forward(dec, &scores));
        CDZ_TRY(cdz_argmax_rows(dec, &scores, &token));
        CDZ_TRY(cdz_append_rows(dec, &token));
        if (cdz_input_ids(dec, 0).len - step->request->prompt_len == (uint64_t)p->after)
            return act(step, p->deed.value, NULL);
    }
    return CDZ_OK;
}

static const cdz_strategy strategy = {
    .base = {CDZ_STRATEGY_BASE, .id = "test.misdeed_loop", .version = "1.0.0",
             .summary = "decodes, or worse", CDZ_PARAMS(misdeed, params)},
    .caps = CDZ_ONE_ROW,
    .run = run,
};

CDZ_EXPORT_PLUGINS(&processor.base, &criterion.base, &drafter.base, &accompanied.base,
                   &strategy.base)
