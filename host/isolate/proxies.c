/* proxies.c - the functions of an isolated plugin's descriptor: each is a call to its process.
 *
 * Owns: a session for each step that was begun. Not: the way there and back (exchange.c), what is believed of an answer
 * (answers.c). To the engine they are functions as any other's, and go through the same door. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cadenza/criterion.h"
#include "cadenza/drafter.h"
#include "cadenza/processor.h"
#include "isolate/answers.h"
#include "isolate/exchange.h"

static const cdz_proxy *proxy_of(const cdz_step *step)
{
    return step->plugin->loader_data;
}

static cdz_exchange exchange_of(const cdz_step *step, const char *call)
{
    return (cdz_exchange){
        .step = step, .proxy = proxy_of(step), .session = step->shared, .call = call};
}

/* --- life ------------------------------------------------------------------------------------------------------- */

/* What cannot be had from another process is refused before anything runs. */
static cdz_status refuse_extensions(const cdz_step *step, uint32_t has)
{
    static const struct {
        uint32_t bit;
        const char *what;
    } missing[] = {
        {CDZ_HAS_COMPANION, "runs the model beside each row (cadenza.companion/1)"},
        {CDZ_HAS_STATE_API, "keeps row state that is more than bytes (cadenza.state/1)"},
        {CDZ_HAS_STEER, "edits hidden states (cadenza.steer/1)"},
        {CDZ_HAS_PHASES, "tells the host the phase of a row (cadenza.phase/1)"},
        {CDZ_HAS_ENDED, "is shown rows that have ended (cadenza.ended/1)"},
    };
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++)
        if (has & missing[i].bit)
            return cdz_fail(step, CDZ_E_UNSUPPORTED,
                            "%s %s, which isolation = process does not offer", step->plugin->id,
                            missing[i].what);
    return CDZ_OK;
}

static cdz_status create(const cdz_step *step)
{
    const cdz_proxy *proxy = proxy_of(step);
    CDZ_TRY(refuse_extensions(step, proxy->has));
    if (!(proxy->has & CDZ_HAS_CREATE)) return CDZ_OK;
    cdz_exchange x = exchange_of(step, "create");
    CDZ_TRY(cdz_exchange_open(&x, CDZ_UP_CREATE, true));
    CDZ_TRY(cdz_exchange_send(&x));
    return cdz_exchange_close(&x, cdz_taken_whole(&x.in));
}

/* A call that cannot fail: what went wrong is said again, and better, by begin. */
static bool idle(const cdz_step *step)
{
    cdz_exchange x = exchange_of(step, "idle");
    if (cdz_exchange_open(&x, CDZ_UP_IDLE, true) != CDZ_OK) return false;
    if (cdz_exchange_send(&x) != CDZ_OK) return false;
    bool answer;
    return cdz_exchange_close(&x, cdz_take_flag(&x.in, &answer)) == CDZ_OK && answer;
}

/* Once a file: what its process may do more than documented, because this kernel knows no better. */
static void tell_missing(const cdz_step *step)
{
    cdz_isolate *isolate = proxy_of(step)->of;
    const uint32_t needed = CDZ_GUARD_FILTER | CDZ_GUARD_FILES;
    if ((isolate->guards & needed) == needed || isolate->told) return;
    isolate->told = true;
    cdz_log(step, CDZ_LOG_WARNING,
            "isolation = process holds less than it should: this kernel offers %s",
            isolate->guards & CDZ_GUARD_FILTER  ? "no way to close files (Landlock)"
            : isolate->guards & CDZ_GUARD_FILES ? "no filter of system calls (seccomp)"
                                                : "neither a filter of system calls (seccomp) nor a "
                                                  "way to close files (Landlock)");
}

static cdz_status begin_with(cdz_decoder *dec, const cdz_step *step, void **shared)
{
    cdz_isolate_session *session = calloc(1, sizeof *session);
    if (!session) return cdz_fail(step, CDZ_E_NOMEM, "begin: out of memory");
    cdz_exchange x = exchange_of(step, "begin");
    x.session = session;
    x.dec = dec;
    cdz_status status = cdz_exchange_open(&x, CDZ_UP_BEGIN, true);
    if (status == CDZ_OK) {
        tell_missing(step);
        status = cdz_exchange_close(&x, true);
    }
    if (status == CDZ_OK)
        *shared = session;
    else
        cdz_isolate_session_free(session);
    return status;
}

static cdz_status begin(const cdz_step *step, void **shared)
{
    return begin_with(NULL, step, shared);
}

/* A process that is not there any more has nothing to end. */
static void end(const cdz_step *step)
{
    cdz_exchange x = exchange_of(step, "end");
    cdz_isolate *isolate = proxy_of(step)->of;
    pthread_mutex_lock(&isolate->lock);
    const bool known = isolate->process.pid > 0 && x.session->incarnation == isolate->incarnation;
    pthread_mutex_unlock(&isolate->lock);
    if (known && cdz_exchange_open(&x, CDZ_UP_END, false) == CDZ_OK &&
        cdz_exchange_send(&x) == CDZ_OK) {
        const bool well = cdz_taken_whole(&x.in);
        if (well) isolate->crashes = 0;
        (void)cdz_exchange_close(&x, well);
    }
    cdz_isolate_session_free(x.session);
}

/* --- processors ------------------------------------------------------------------------------------------------- */

static cdz_status rows_do_not_fit(const cdz_step *step, const cdz_scores *scores)
{
    return cdz_fail(step, CDZ_E_LIMIT,
                    "%" PRIu32 " rows of %" PRIu32 " scores are more than the %u MiB that isolation "
                    "= process shares",
                    scores->n_rows, scores->n_vocab, CDZ_ISOLATE_ROWS_BYTES >> 20);
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const uint64_t bytes = (uint64_t)scores->n_rows * scores->n_vocab * sizeof(float);
    const size_t row = scores->n_vocab * sizeof(float);
    cdz_exchange x = exchange_of(step, "apply");
    if (bytes > CDZ_ISOLATE_ROWS_BYTES) return rows_do_not_fit(step, scores);
    CDZ_TRY(cdz_exchange_open(&x, CDZ_UP_APPLY, false));
    CDZ_TRY(cdz_exchange_put_rows(&x));
    cdz_put_u32(&x.out, scores->n_vocab);
    unsigned char *shared = x.proxy->of->process.map + cdz_isolate_rows_at((size_t)bytes);
    for (uint32_t r = 0; r < scores->n_rows; r++) memcpy(shared + r * row, cdz_row(scores, r), row);
    CDZ_TRY(cdz_exchange_send(&x));
    for (uint32_t r = 0; r < scores->n_rows; r++) memcpy(cdz_row(scores, r), shared + r * row, row);
    return cdz_exchange_close(&x, cdz_taken_whole(&x.in));
}

/* state: of the row, written back. */
static cdz_status accept(const cdz_step *step, uint32_t r, int32_t token)
{
    cdz_exchange x = exchange_of(step, "accept");
    CDZ_TRY(cdz_exchange_open(&x, CDZ_UP_ACCEPT, false));
    CDZ_TRY(cdz_exchange_put_rows(&x));
    cdz_put_u32(&x.out, r);
    cdz_put_u32(&x.out, (uint32_t)token);
    CDZ_TRY(cdz_exchange_send(&x));
    const size_t bytes = step->row_state ? x.proxy->state_size : 0;
    return cdz_exchange_close(&x, cdz_take_state(&x.in, bytes ? step->row_state[r] : NULL, bytes));
}

/* --- criteria ------------------------------------------------------------------------------------------------------ */

static cdz_status test(const cdz_step *step, cdz_stop *stops)
{
    cdz_exchange x = exchange_of(step, "test");
    CDZ_TRY(cdz_exchange_open(&x, CDZ_UP_TEST, false));
    CDZ_TRY(cdz_exchange_put_rows(&x));
    CDZ_TRY(cdz_exchange_send(&x));
    cdz_arena_reset(&x.session->gave);
    return cdz_exchange_close(&x, cdz_take_stops(&x.in, &x.session->gave, step->n_rows, stops));
}

/* --- drafters ------------------------------------------------------------------------------------------------------ */

static cdz_status propose(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    cdz_exchange x = exchange_of(step, "propose");
    x.dec = dec;
    CDZ_TRY(cdz_exchange_open(&x, CDZ_UP_PROPOSE, false));
    CDZ_TRY(cdz_exchange_put_rows(&x));
    cdz_put_u32(&x.out, draft->row);
    cdz_put_u32(&x.out, draft->room);
    CDZ_TRY(cdz_exchange_send(&x));
    cdz_arena_reset(&x.session->gave);
    return cdz_exchange_close(&x, cdz_take_draft(&x.in, &x.session->gave, &draft->tokens));
}

static cdz_status judged(cdz_decoder *dec, const cdz_step *step, uint32_t row, uint32_t n_proposed,
                         uint32_t n_accepted)
{
    cdz_exchange x = exchange_of(step, "judged");
    x.dec = dec;
    CDZ_TRY(cdz_exchange_open(&x, CDZ_UP_JUDGED, false));
    CDZ_TRY(cdz_exchange_put_rows(&x));
    cdz_put_u32(&x.out, row);
    cdz_put_u32(&x.out, n_proposed);
    cdz_put_u32(&x.out, n_accepted);
    CDZ_TRY(cdz_exchange_send(&x));
    return cdz_exchange_close(&x, cdz_taken_whole(&x.in));
}

/* --- the descriptor --------------------------------------------------------------------------------------------------- */

static void fill_processor(cdz_processor *p, uint32_t has)
{
    p->create = create;
    p->idle = has & CDZ_HAS_IDLE ? idle : NULL;
    p->begin = begin;
    p->apply = apply;
    p->accept = has & CDZ_HAS_ACCEPT ? accept : NULL;
    p->end = end;
}

static void fill_criterion(cdz_criterion *c, uint32_t has)
{
    c->create = create;
    c->idle = has & CDZ_HAS_IDLE ? idle : NULL;
    c->begin = begin;
    c->test = test;
    c->accept = has & CDZ_HAS_ACCEPT ? accept : NULL;
    c->end = end;
}

static void fill_drafter(cdz_drafter *d, uint32_t has)
{
    d->create = create;
    d->begin = begin_with;
    d->propose = propose;
    d->judged = has & CDZ_HAS_JUDGED ? judged : NULL;
    d->end = end;
}

void cdz_proxy_fill(cdz_proxy *proxy)
{
    switch (proxy->descriptor.base.kind) {
    case CDZ_KIND_PROCESSOR: fill_processor(&proxy->descriptor.processor, proxy->has); break;
    case CDZ_KIND_CRITERION: fill_criterion(&proxy->descriptor.criterion, proxy->has); break;
    case CDZ_KIND_DRAFTER: fill_drafter(&proxy->descriptor.drafter, proxy->has); break;
    default: break;
    }
}
