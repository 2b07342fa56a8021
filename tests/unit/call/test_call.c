/* test_call.c - the door into plugin code (host/call/): every function of the plugin ABI, and every way to misbehave in it.
 *
 * It is compiled with NDEBUG: what the door looks at does not hang on that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "call/calls.h"
#include "call/host.h"
#include "call/offers.h"
#include "call/outside.h"

#ifndef NDEBUG
#error "tests/unit/call/CMakeLists.txt has to define NDEBUG for this test"
#endif

/* --- ways to misbehave ----------------------------------------------------------------------------------------------- */

typedef enum way {
    WELL,
    SPEAKS,
    SILENT,
    NO_STATUS,
    FLUSHES,
    LOCALE,
    OWN_LOCALE,
    SCRATCH,
    CRASHES
} way;
enum { N_WAYS = CRASHES + 1 };

static const char *const way_names[N_WAYS] = {
    [WELL] = "goes well",
    [SPEAKS] = "fails with a sentence",
    [SILENT] = "fails in silence",
    [NO_STATUS] = "fails with no status",
    [FLUSHES] = "flushes to zero",
    [LOCALE] = "leaves another locale",
    [OWN_LOCALE] = "leaves the thread another locale",
    [SCRATCH] = "keeps scratch memory",
    [CRASHES] = "crashes",
};

/* What a call goes through: one plugin of each kind, one scope for all. */
typedef struct scope {
    const cdz_caller *caller;
    cdz_scratch_mem scratch;
    cdz_error said;
    way way;
    uint32_t n_called;
    uint32_t thread; /* cdz_thread, in the newest call */
} scope;
static scope here;

static uint32_t asked_thread(const cdz_step *step)
{
    const cdz_thread_check *check = cdz_bare_host.extension(CDZ_EXT_THREAD_CHECK);
    assert_non_null(check);
    return check->here(step);
}

static cdz_status behave(const cdz_step *step)
{
    here.n_called++;
    here.thread = asked_thread(step);
    switch (here.way) {
    case WELL: break;
    case SPEAKS: return (step->host->fail)(step, CDZ_E_INPUT, "no luck");
    case SILENT: return CDZ_E_INPUT;
    case NO_STATUS: return (cdz_status)77;
    case FLUSHES: cdz_float_mode_set(cdz_float_mode() | CDZ_FLOAT_FLUSH); break;
    case LOCALE: assert_non_null(setlocale(LC_ALL, "C.UTF-8")); break;
    case OWN_LOCALE:
        uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); /* "C" is a constant of the library */
        break;
    case SCRATCH: assert_non_null(cdz_scratch(step, 100)); break;
    case CRASHES: raise(SIGSEGV); break;
    }
    return CDZ_OK;
}

/* --- the plugins ----------------------------------------------------------------------------------------------------- */

static cdz_status f_create(const cdz_step *step)
{
    return behave(step);
}
static bool f_idle(const cdz_step *step)
{
    return behave(step) == CDZ_OK;
}
static cdz_status f_begin(const cdz_step *step, void **shared)
{
    (void)shared;
    return behave(step);
}
static cdz_status f_apply(const cdz_step *step, cdz_scores *scores)
{
    (void)scores;
    return behave(step);
}
static cdz_status f_test(const cdz_step *step, cdz_stop *stops)
{
    (void)stops;
    return behave(step);
}
static cdz_status f_accept(const cdz_step *step, uint32_t r, int32_t token)
{
    (void)r, (void)token;
    return behave(step);
}
static void f_end(const cdz_step *step)
{
    (void)behave(step);
}
static cdz_status f_run(cdz_decoder *dec, const cdz_step *step)
{
    (void)dec;
    return behave(step);
}
static cdz_status f_draft_begin(cdz_decoder *dec, const cdz_step *step, void **shared)
{
    (void)dec, (void)shared;
    return behave(step);
}
static cdz_status f_propose(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    (void)dec, (void)draft;
    return behave(step);
}
static cdz_status f_judged(cdz_decoder *dec, const cdz_step *step, uint32_t row,
                           uint32_t n_proposed, uint32_t n_accepted)
{
    (void)dec, (void)row, (void)n_proposed, (void)n_accepted;
    return behave(step);
}
static cdz_status f_stage(const cdz_step *step, const cdz_plugin_base *by, const cdz_seen *seen)
{
    (void)by, (void)seen;
    return behave(step);
}
static cdz_status f_scores(const cdz_step *step, const cdz_seen *seen)
{
    (void)seen;
    return behave(step);
}
static cdz_status f_token(const cdz_step *step, int32_t token)
{
    (void)token;
    return behave(step);
}
static cdz_status f_stop(const cdz_step *step, const cdz_stop *stop)
{
    (void)stop;
    return behave(step);
}
static cdz_status f_rewind(const cdz_step *step, uint32_t n)
{
    (void)n;
    return behave(step);
}
static cdz_status f_reorder(const cdz_step *step, const uint32_t *parents)
{
    (void)parents;
    return behave(step);
}
static cdz_status f_open(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out)
{
    (void)file, (void)out;
    return behave(step);
}
static void f_close(const cdz_step *step, void *state)
{
    (void)state;
    (void)behave(step);
}
static bool f_describe_form(const cdz_step *step, cdz_form *out)
{
    (void)out;
    return behave(step) == CDZ_OK;
}
static bool f_edits(const cdz_step *step, uint32_t r, cdz_ids *out)
{
    (void)r, (void)out;
    return behave(step) == CDZ_OK;
}
static bool f_mask(const cdz_step *step, uint32_t r, uint64_t *bits, uint32_t n_words)
{
    (void)r, (void)bits, (void)n_words;
    return behave(step) == CDZ_OK;
}
static uint32_t f_of(const cdz_step *step, uint32_t r)
{
    (void)r;
    return behave(step) == CDZ_OK;
}
static cdz_status f_clone(const cdz_step *step, const void *from, void *to)
{
    (void)from, (void)to;
    return behave(step);
}
static void f_free(const cdz_step *step, void *state)
{
    (void)state;
    (void)behave(step);
}
static cdz_status f_hand_over(const cdz_step *step, const cdz_step *old, const void *from, void *to)
{
    (void)old, (void)from, (void)to;
    return behave(step);
}
static cdz_status f_describe_companion(const cdz_step *step, uint32_t row, cdz_companion *out)
{
    (void)row, (void)out;
    return behave(step);
}
static cdz_status f_steer(const cdz_step *step, const cdz_steered *row, const cdz_edit **edits,
                          uint32_t *n)
{
    (void)row, (void)edits, (void)n;
    return behave(step);
}

static cdz_status f_on_hidden(const cdz_step *step, const cdz_hidden_chunk *hidden)
{
    (void)hidden;
    return behave(step);
}

static cdz_status f_of_constraint(const cdz_step *step, uint32_t r, cdz_row_constraint *out)
{
    (void)r, (void)out;
    return behave(step);
}

static const cdz_form_api form = {
    .size = sizeof form, .describe = f_describe_form, .edits = f_edits, .mask = f_mask};
static const cdz_phase_api phase = {.size = sizeof phase, .of = f_of};
static const cdz_state_api state = {
    .size = sizeof state, .clone = f_clone, .free = f_free, .hand_over = f_hand_over};
static const cdz_companion_api companion = {.size = sizeof companion,
                                            .describe = f_describe_companion};
static const cdz_steer_api steer = {
    .size = sizeof steer, .steer = f_steer, .on_hidden = f_on_hidden};
static const cdz_constrained_api constrained = {.size = sizeof constrained, .of = f_of_constraint};

static cdz_status f_needs(const cdz_step *step, cdz_press_needs *out)
{
    (void)out;
    return behave(step);
}
static cdz_status f_press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    (void)view, (void)choice;
    return behave(step);
}
static cdz_status f_admit(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    (void)contest, (void)turns;
    return behave(step);
}
static cdz_status f_order(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    (void)contest, (void)turns;
    return behave(step);
}
static void f_ended(const cdz_step *step, const cdz_contender *request)
{
    (void)request;
    (void)behave(step);
}

/* It has no step to fail or take memory with. */
static const void *f_extension(const char *id)
{
    (void)behave(NULL);
    if (strcmp(id, CDZ_EXT_FORM) == 0) return &form;
    if (strcmp(id, CDZ_EXT_PHASE) == 0) return &phase;
    if (strcmp(id, CDZ_EXT_STATE) == 0) return &state;
    if (strcmp(id, CDZ_EXT_STEER) == 0) return &steer;
    if (strcmp(id, CDZ_EXT_CONSTRAINED) == 0) return &constrained;
    return strcmp(id, CDZ_EXT_COMPANION) == 0 ? &companion : NULL;
}

#define COMMON .id = "test.sick", .version = "1.0.0", .summary = "misbehaves"
static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, COMMON, .extension = f_extension},
    .create = f_create,
    .idle = f_idle,
    .begin = f_begin,
    .apply = f_apply,
    .accept = f_accept,
    .end = f_end,
};
static const cdz_criterion criterion = {
    .base = {CDZ_CRITERION_BASE, COMMON},
    .create = f_create,
    .idle = f_idle,
    .begin = f_begin,
    .test = f_test,
    .accept = f_accept,
    .end = f_end,
};
static const cdz_strategy strategy = {
    .base = {CDZ_STRATEGY_BASE, COMMON}, .create = f_create, .run = f_run};
static const cdz_drafter drafter = {
    .base = {CDZ_DRAFTER_BASE, COMMON},
    .create = f_create,
    .begin = f_draft_begin,
    .propose = f_propose,
    .judged = f_judged,
    .end = f_end,
};
static const cdz_observer observer = {
    .base = {CDZ_OBSERVER_BASE, COMMON},
    .create = f_create,
    .begin = f_begin,
    .stage = f_stage,
    .scores = f_scores,
    .token = f_token,
    .stop = f_stop,
    .rewind = f_rewind,
    .reorder = f_reorder,
    .end = f_end,
};
static const cdz_loader loader = {
    .base = {CDZ_LOADER_BASE, COMMON}, .endings = "sick", .open = f_open, .close = f_close};
static const cdz_scheduler scheduler = {
    .base = {CDZ_SCHEDULER_BASE, COMMON},
    .create = f_create,
    .begin = f_begin,
    .admit = f_admit,
    .order = f_order,
    .ended = f_ended,
    .end = f_end,
};
static const cdz_press press = {
    .base = {CDZ_PRESS_BASE, COMMON},
    .create = f_create,
    .begin = f_begin,
    .needs = f_needs,
    .press = f_press,
    .end = f_end,
};

/* --- the table --------------------------------------------------------------------------------------------------------- */

/* Each function of each struct of the ABI: the call through the door, with c, step and the plugin at hand. A function that
 * is appended to a struct and has no line here does not compile: see the assertions. */
#define PROCESSOR(X)                                                                               \
    X(processor, create, CAN_FAIL, LOAD, cdz_call_create(c, step))                                 \
    X(processor, idle, CANNOT, ENGINE, (cdz_call_idle(c, step), CDZ_OK))                           \
    X(processor, begin, CAN_FAIL, ENGINE, cdz_call_begin(c, step, &place))                         \
    X(processor, apply, CAN_FAIL, ENGINE, cdz_call_apply(c, &processor, step, NULL))               \
    X(processor, accept, CAN_FAIL, ENGINE, cdz_call_accept(c, step, 0, 1))                         \
    X(processor, end, CANNOT, ENGINE, (cdz_call_end(c, step), CDZ_OK))
#define CRITERION(X)                                                                               \
    X(criterion, create, CAN_FAIL, LOAD, cdz_call_create(c, step))                                 \
    X(criterion, idle, CANNOT, ENGINE, (cdz_call_idle(c, step), CDZ_OK))                           \
    X(criterion, begin, CAN_FAIL, ENGINE, cdz_call_begin(c, step, &place))                         \
    X(criterion, test, CAN_FAIL, ENGINE, cdz_call_test(c, &criterion, step, NULL))                 \
    X(criterion, accept, CAN_FAIL, ENGINE, cdz_call_accept(c, step, 0, 1))                         \
    X(criterion, end, CANNOT, ENGINE, (cdz_call_end(c, step), CDZ_OK))
#define STRATEGY(X)                                                                                \
    X(strategy, create, CAN_FAIL, LOAD, cdz_call_create(c, step))                                  \
    X(strategy, run, CAN_FAIL, ENGINE, cdz_call_run(c, &strategy, NULL, step))
#define DRAFTER(X)                                                                                 \
    X(drafter, create, CAN_FAIL, LOAD, cdz_call_create(c, step))                                   \
    X(drafter, begin, CAN_FAIL, ENGINE, cdz_call_draft_begin(c, &drafter, NULL, step, &place))     \
    X(drafter, propose, CAN_FAIL, ENGINE, cdz_call_propose(c, &drafter, NULL, step, NULL))         \
    X(drafter, judged, CAN_FAIL, ENGINE, cdz_call_judged(c, &drafter, NULL, step, 0, 0, 0))        \
    X(drafter, end, CANNOT, ENGINE, (cdz_call_end(c, step), CDZ_OK))
#define OBSERVER(X)                                                                                \
    X(observer, create, CAN_FAIL, LOAD, cdz_call_create(c, step))                                  \
    X(observer, begin, CAN_FAIL, ENGINE, cdz_call_begin(c, step, &place))                          \
    X(observer, stage, CAN_FAIL, ENGINE, cdz_call_stage(c, &observer, step, NULL, NULL))           \
    X(observer, scores, CAN_FAIL, ENGINE, cdz_call_scores(c, &observer, step, NULL))               \
    X(observer, token, CAN_FAIL, ENGINE, cdz_call_token(c, &observer, step, 1))                    \
    X(observer, stop, CAN_FAIL, ENGINE, cdz_call_stop(c, &observer, step, NULL))                   \
    X(observer, rewind, CAN_FAIL, ENGINE, cdz_call_rewind(c, &observer, step, 1))                  \
    X(observer, reorder, CAN_FAIL, ENGINE, cdz_call_reorder(c, &observer, step, NULL))             \
    X(observer, end, CANNOT, ENGINE, (cdz_call_end(c, step), CDZ_OK))
#define LOADER(X)                                                                                  \
    X(loader, open, CAN_FAIL, LOAD, cdz_call_open(c, &loader, step, NULL, NULL))                   \
    X(loader, close, CANNOT, ANY, (cdz_call_close(c, &loader, step, NULL), CDZ_OK))
#define SCHEDULER(X)                                                                               \
    X(scheduler, create, CAN_FAIL, LOAD, cdz_call_create(c, step))                                 \
    X(scheduler, begin, CAN_FAIL, ENGINE, cdz_call_begin(c, step, &place))                         \
    X(scheduler, admit, CAN_FAIL, ENGINE, cdz_call_admit(c, &scheduler, step, NULL, NULL))         \
    X(scheduler, order, CAN_FAIL, ENGINE, cdz_call_order(c, &scheduler, step, NULL, NULL))         \
    X(scheduler, ended, CANNOT, ENGINE, (cdz_call_ended(c, &scheduler, step, NULL), CDZ_OK))       \
    X(scheduler, end, CANNOT, ENGINE, (cdz_call_end(c, step), CDZ_OK))
#define PRESS(X)                                                                                   \
    X(press, create, CAN_FAIL, LOAD, cdz_call_create(c, step))                                     \
    X(press, begin, CAN_FAIL, ENGINE, cdz_call_begin(c, step, &place))                             \
    X(press, needs, CAN_FAIL, ENGINE, cdz_call_needs(c, &press, step, NULL))                       \
    X(press, press, CAN_FAIL, ENGINE, cdz_call_press(c, &press, step, NULL, NULL))                 \
    X(press, end, CANNOT, ENGINE, (cdz_call_end(c, step), CDZ_OK))
#define PLUGIN(X)                                                                                  \
    X(processor, extension, NO_STEP, ANY,                                                          \
      (cdz_call_extension(c, &processor.base, CDZ_EXT_FORM), CDZ_OK))
#define FORM(X)                                                                                    \
    X(processor, describe, CANNOT, ENGINE, (cdz_call_form(c, &form, step, NULL), CDZ_OK))          \
    X(processor, edits, CANNOT, ENGINE, (cdz_call_edits(c, &form, step, 0, NULL), CDZ_OK))         \
    X(processor, mask, CANNOT, ENGINE, (cdz_call_mask(c, &form, step, 0, NULL, 0), CDZ_OK))
#define PHASE(X) X(processor, of, CANNOT, ROW, (cdz_call_phase(c, &phase, step, 0), CDZ_OK))
#define STATE(X)                                                                                   \
    X(processor, clone, CAN_FAIL, ENGINE, cdz_call_clone(c, &state, step, NULL, NULL))             \
    X(processor, free, CANNOT, ENGINE, (cdz_call_free(c, &state, step, NULL), CDZ_OK))             \
    X(processor, hand_over, CAN_FAIL, ENGINE, cdz_call_hand_over(c, &state, step, step, NULL, NULL))
#define COMPANION(X)                                                                               \
    X(processor, describe, CAN_FAIL, ENGINE, cdz_call_companion(c, &companion, step, 0, NULL))

#define STEER(X)                                                                                   \
    X(processor, steer, CAN_FAIL, ENGINE, cdz_call_steer(c, &steer, step, NULL, NULL, NULL))       \
    X(processor, on_hidden, CAN_FAIL, ENGINE, cdz_call_on_hidden(c, f_on_hidden, step, NULL))
#define CONSTRAINED(X)                                                                             \
    X(processor, of, CAN_FAIL, ENGINE, cdz_call_constrained(c, &constrained, step, 0, NULL))

/* `after`: bytes of a struct behind its functions. */
#define ONE(...) +1
#define WHOLE(type, first, list, after)                                                            \
    _Static_assert(sizeof(type) ==                                                                 \
                       offsetof(type, first) + (0 list(ONE)) * sizeof(void *) + (after),           \
                   #type " has a function without a row here, and without one in call/calls.h")
WHOLE(cdz_processor, create, PROCESSOR, sizeof(void *));
WHOLE(cdz_criterion, create, CRITERION, sizeof(void *));
WHOLE(cdz_strategy, create, STRATEGY, 0);
WHOLE(cdz_drafter, create, DRAFTER, 0);
WHOLE(cdz_observer, create, OBSERVER, 0);
WHOLE(cdz_loader, open, LOADER, 0);
WHOLE(cdz_scheduler, create, SCHEDULER, 0);
WHOLE(cdz_press, create, PRESS, 0);
WHOLE(cdz_plugin_base, extension, PLUGIN, sizeof(void *));
WHOLE(cdz_form_api, describe, FORM, 0);
WHOLE(cdz_phase_api, of, PHASE, 0);
WHOLE(cdz_state_api, clone, STATE, 0);
WHOLE(cdz_companion_api, describe, COMPANION, 0);
WHOLE(cdz_steer_api, steer, STEER, 0);
WHOLE(cdz_constrained_api, of, CONSTRAINED, 0);

typedef enum kind_of_call { CAN_FAIL, CANNOT, NO_STEP } kind_of_call;
typedef struct row {
    const char *of, *function;
    kind_of_call kind;
    cdz_thread thread; /* the brackets at the function in its header */
    const cdz_plugin_base *plugin;
    cdz_status (*make)(cdz_call *c, const cdz_step *step);
} row;

/* A function for each row, told apart by the line of its struct. */
#define MAKE(list, of_, fn_, kind_, thread_, expr_)                                                \
    static cdz_status list##_##of_##_##fn_(cdz_call *c, const cdz_step *step)                      \
    {                                                                                              \
        void *place = NULL;                                                                        \
        (void)place, (void)step;                                                                   \
        return expr_;                                                                              \
    }
#define ROW(list, of_, fn_, kind_, thread_, expr_)                                                 \
    {#list "." #of_, #fn_, kind_, CDZ_THREAD_##thread_, &of_.base, list##_##of_##_##fn_},
#define MAKE_K(...) MAKE(kind, __VA_ARGS__)
#define MAKE_P(...) MAKE(plugin, __VA_ARGS__)
#define MAKE_F(...) MAKE(form, __VA_ARGS__)
#define MAKE_H(...) MAKE(phase, __VA_ARGS__)
#define MAKE_S(...) MAKE(state, __VA_ARGS__)
#define MAKE_C(...) MAKE(companion, __VA_ARGS__)
#define MAKE_T(...) MAKE(steer, __VA_ARGS__)
#define MAKE_D(...) MAKE(constrained, __VA_ARGS__)
#define ROW_K(...)  ROW(kind, __VA_ARGS__)
#define ROW_P(...)  ROW(plugin, __VA_ARGS__)
#define ROW_F(...)  ROW(form, __VA_ARGS__)
#define ROW_H(...)  ROW(phase, __VA_ARGS__)
#define ROW_S(...)  ROW(state, __VA_ARGS__)
#define ROW_C(...)  ROW(companion, __VA_ARGS__)
#define ROW_T(...)  ROW(steer, __VA_ARGS__)
#define ROW_D(...)  ROW(constrained, __VA_ARGS__)

PROCESSOR(MAKE_K)
CRITERION(MAKE_K)
STRATEGY(MAKE_K)
DRAFTER(MAKE_K)
OBSERVER(MAKE_K)
LOADER(MAKE_K)
SCHEDULER(MAKE_K)
PRESS(MAKE_K)
PLUGIN(MAKE_P)
FORM(MAKE_F)
PHASE(MAKE_H)
STATE(MAKE_S)
COMPANION(MAKE_C)
STEER(MAKE_T)
CONSTRAINED(MAKE_D)

static const row rows[] = {PROCESSOR(ROW_K) CRITERION(ROW_K) STRATEGY(ROW_K) DRAFTER(ROW_K)
                               OBSERVER(ROW_K) LOADER(ROW_K) SCHEDULER(ROW_K) PRESS(ROW_K)
                                   PLUGIN(ROW_P) FORM(ROW_F) PHASE(ROW_H) STATE(ROW_S)
                                       COMPANION(ROW_C) STEER(ROW_T) CONSTRAINED(ROW_D)};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* --- one call ------------------------------------------------------------------------------------------------------------ */

static cdz_status keep_sentence(const cdz_step *step, cdz_status code, const char *text)
{
    (void)step;
    return cdz_err(&here.said, code, "%s", text);
}
static void *take_scratch(const cdz_step *step, size_t bytes)
{
    (void)step;
    return cdz_scratch_take(&here.scratch, bytes);
}
static const cdz_caller caller = {
    .fail = keep_sentence, .alloc = take_scratch, .scratch = take_scratch};

static cdz_step step_of(const cdz_plugin_base *plugin)
{
    return (cdz_step){
        .size = sizeof(cdz_step), .plugin = plugin, .host = &cdz_bare_host, .scope = &here};
}

static bool applies(const row *r, way w)
{
    const bool fails = w == SPEAKS || w == SILENT || w == NO_STATUS;
    if (fails) return r->kind == CAN_FAIL;
    return w != SCRATCH || r->kind != NO_STEP;
}

static const char *expected(way w)
{
    switch (w) {
    case SPEAKS: return "test.sick: no luck";
    case SILENT: return "test.sick: %s failed (bad input) without saying why";
    case NO_STATUS: return "test.sick: %s returned 77, which is no status";
#if CDZ_SEES_FLOAT_MODE
    case FLUSHES: return "test.sick: %s changed the thread's floating-point mode and left it so";
#endif
#ifdef CDZ_CHECKED
    case LOCALE:
    case OWN_LOCALE: return "test.sick: %s changed the locale and left it so";
#endif
    default: return NULL;
    }
}

/* "%s" of what is expected is the function. */
static void compare(const char *what, const char *text, const char *want, const char *function)
{
    char whole[200];
    const char *at = strstr(want, "%s");
    if (at)
        snprintf(whole, sizeof whole, "%.*s%s%s", (int)(at - want), want, function, at + 2);
    else
        snprintf(whole, sizeof whole, "%s", want);
    if (strcmp(text, whole) != 0) fail_msg("%s: \"%s\", expected \"%s\"", what, text, whole);
}

static void play(const row *r, way w)
{
    static const cdz_plugin_base nobody = {.id = "test.outer"};
    const cdz_calling outer = {&nobody, "outer", CDZ_THREAD_ENGINE};
    const cdz_step step = step_of(r->plugin);
    char what[120];
    snprintf(what, sizeof what, "%s.%s %s", r->of, r->function, way_names[w]);
    cdz_scratch_free(&here.scratch);
    here = (scope){.caller = &caller, .way = w};
    cdz_call call = {.scratch = &here.scratch};
    cdz_error err = {0};
    const unsigned mode = cdz_float_mode();
    const locale_t locale = uselocale((locale_t)0);
    char names[200];
    snprintf(names, sizeof names, "%s", setlocale(LC_ALL, NULL));
    cdz_calling_now = outer;
    const cdz_status returned = r->make(&call, &step);
    const cdz_status status = cdz_call_judge(&call, returned, &here.said, &err);
    const char *want = expected(w);

    if (here.n_called != 1) fail_msg("%s: called %u times", what, here.n_called);
    if (here.thread != (uint32_t)r->thread)
        fail_msg("%s: thread %u, expected %u", what, here.thread, (unsigned)r->thread);
    if (status != (!want ? CDZ_OK : w == SPEAKS ? CDZ_E_INPUT : CDZ_E_PLUGIN))
        fail_msg("%s: status %d, %s", what, (int)status, err.text);
    if (want) compare(what, err.text, want, r->function);
    if (cdz_float_mode() != mode) fail_msg("%s: and the mode stays", what);
    if (cdz_calling_now.plugin != outer.plugin || cdz_calling_now.function != outer.function ||
        cdz_calling_now.thread != outer.thread)
        fail_msg("%s: and the thread is still said to be in it", what);
    if (here.scratch.used || here.scratch.more) fail_msg("%s: and it stays taken", what);
#ifdef CDZ_CHECKED
    if (uselocale((locale_t)0) != locale || strcmp(setlocale(LC_ALL, NULL), names) != 0)
        fail_msg("%s: and it stays", what);
#endif
    uselocale(locale);
    setlocale(LC_ALL, names);
    cdz_calling_now = (cdz_calling){0};
}

static void test_every_function_every_way(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < N_ROWS; i++)
        for (int w = 0; w < CRASHES; w++)
            if (applies(&rows[i], (way)w)) play(&rows[i], (way)w);
    cdz_scratch_free(&here.scratch);
}

/* --- crashes --------------------------------------------------------------------------------------------------------------- */

static int told; /* where the handler writes to */

static void on_crash(int number)
{
    (void)number;
    const cdz_calling in = cdz_calling_now;
    if (in.plugin) (void)!write(told, in.plugin->id, strlen(in.plugin->id));
    (void)!write(told, ".", 1);
    if (in.function) (void)!write(told, in.function, strlen(in.function));
    _exit(0);
}

static void crash(const row *r)
{
    const cdz_step step = step_of(r->plugin);
    cdz_call call = {.scratch = &here.scratch};
    here = (scope){.caller = &caller, .way = CRASHES};
    signal(SIGSEGV, on_crash);
    (void)r->make(&call, &step);
    _exit(1);
}

/* What a handler finds is the plugin and the function, whichever it is. */
static void test_a_crash_has_a_name(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < N_ROWS; i++) {
        char text[100] = "", want[100];
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        const pid_t child = fork();
        if (child == 0) {
            told = ends[1];
            crash(&rows[i]);
        }
        close(ends[1]);
        size_t n = 0;
        for (ssize_t got; (got = read(ends[0], text + n, sizeof text - 1 - n)) > 0;)
            n += (size_t)got;
        close(ends[0]);
        assert_int_equal(waitpid(child, NULL, 0), child);
        snprintf(want, sizeof want, "test.sick.%s", rows[i].function);
        assert_string_equal(text, want);
    }
}

/* --- beside the table --------------------------------------------------------------------------------------------------------- */

/* Who looks for such faults finds them: nothing is put back. */
static void test_raw_calls_leave_it(void **unused)
{
    (void)unused;
#if CDZ_SEES_FLOAT_MODE
    const unsigned mode = cdz_float_mode();
    const cdz_step step = step_of(&processor.base);
    here = (scope){.caller = &caller, .way = FLUSHES};
    cdz_call call = {.raw = true};
    assert_int_equal(cdz_call_apply(&call, &processor, &step, NULL), CDZ_OK);
    assert_null(call.broken);
    assert_int_not_equal(cdz_float_mode(), mode);
    assert_null(cdz_calling_now.plugin);
    cdz_float_mode_set(mode);
#else
    skip();
#endif
}

/* What a plugin lacks went well, and was not entered. */
static void test_missing_functions(void **unused)
{
    (void)unused;
    static const cdz_observer deaf = {.base = {CDZ_OBSERVER_BASE, COMMON}};
    static const cdz_drafter brief = {.base = {CDZ_DRAFTER_BASE, COMMON}};
    static const cdz_processor plain = {.base = {CDZ_PROCESSOR_BASE, COMMON}, .apply = f_apply};
    static const cdz_press modest = {.base = {CDZ_PRESS_BASE, COMMON}, .press = f_press};
    static const cdz_scheduler simple = {.base = {CDZ_SCHEDULER_BASE, COMMON}, .admit = f_admit};
    static const cdz_loader lasting = {.base = {CDZ_LOADER_BASE, COMMON}};
    cdz_call call = {0};
    cdz_step step = step_of(&deaf.base);
    void *shared = NULL;
    assert_int_equal(cdz_call_stage(&call, &deaf, &step, NULL, NULL), CDZ_OK);
    assert_int_equal(cdz_call_scores(&call, &deaf, &step, NULL), CDZ_OK);
    assert_int_equal(cdz_call_token(&call, &deaf, &step, 1), CDZ_OK);
    assert_int_equal(cdz_call_stop(&call, &deaf, &step, NULL), CDZ_OK);
    assert_int_equal(cdz_call_rewind(&call, &deaf, &step, 1), CDZ_OK);
    assert_int_equal(cdz_call_reorder(&call, &deaf, &step, NULL), CDZ_OK);
    step = step_of(&brief.base);
    assert_int_equal(cdz_call_draft_begin(&call, &brief, NULL, &step, &shared), CDZ_OK);
    assert_int_equal(cdz_call_judged(&call, &brief, NULL, &step, 0, 0, 0), CDZ_OK);
    step = step_of(&lasting.base);
    cdz_call_close(&call, &lasting, &step, NULL);
    step = step_of(&simple.base);
    assert_int_equal(cdz_call_order(&call, &simple, &step, NULL, NULL), CDZ_OK);
    cdz_call_ended(&call, &simple, &step, NULL);
    step = step_of(&modest.base);
    assert_int_equal(cdz_call_needs(&call, &modest, &step, NULL), CDZ_OK);
    step = step_of(&plain.base);
    assert_int_equal(cdz_call_create(&call, &step), CDZ_OK);
    assert_int_equal(cdz_call_begin(&call, &step, &shared), CDZ_OK);
    assert_int_equal(cdz_call_accept(&call, &step, 0, 1), CDZ_OK);
    assert_false(cdz_call_idle(&call, &step));
    cdz_call_end(&call, &step);
    assert_null(cdz_call_extension(&call, &plain.base, CDZ_EXT_FORM));
    assert_null(call.function);
}

static void test_offers(void **unused)
{
    (void)unused;
    cdz_offers offers;
    cdz_error err = {0};
    here = (scope){.caller = &caller, .way = WELL};
    assert_int_equal(cdz_offers_ask(&processor.base, &offers, &err), CDZ_OK);
    assert_ptr_equal(offers.form, &form);
    assert_ptr_equal(offers.phase, &phase);
    assert_ptr_equal(offers.state, &state);
    assert_ptr_equal(offers.companion, &companion);
    assert_ptr_equal(offers.steer, &steer);
    assert_ptr_equal(offers.on_hidden, f_on_hidden);
    assert_ptr_equal(offers.constrained, &constrained);
    assert_int_equal(cdz_offers_ask(&criterion.base, &offers, &err), CDZ_OK);
    assert_null(offers.state);
#if CDZ_SEES_FLOAT_MODE
    here.way = FLUSHES;
    assert_int_equal(cdz_offers_ask(&processor.base, &offers, &err), CDZ_E_PLUGIN);
    compare("offers", err.text, expected(FLUSHES), "extension");
#endif
}

static const void *lame; /* the table that f_lame_extension gives for whatever it is asked */
static const char *lame_id;

static const void *f_lame_extension(const char *id)
{
    return strcmp(id, lame_id) == 0 ? lame : NULL;
}

/* A table without a function that its header asks for is refused before anything is called through it. */
static void test_offers_that_lack_a_function(void **unused)
{
    static const cdz_processor offering = {
        .base = {CDZ_PROCESSOR_BASE, COMMON, .extension = f_lame_extension}, .apply = f_apply};
    static const cdz_state_api no_clone = {.size = sizeof no_clone, .free = f_free},
                               no_free = {.size = sizeof no_free, .clone = f_clone},
                               short_one = {.size = sizeof(void *), .clone = f_clone, .free = f_free},
                               least = {.size = sizeof least, .clone = f_clone, .free = f_free};
    static const cdz_phase_api no_of = {.size = sizeof no_of};
    static const cdz_companion_api no_describe = {.size = sizeof no_describe};
    static const cdz_steer_api no_steer = {.size = sizeof no_steer},
                               old_steer = {.size = offsetof(cdz_steer_api, on_hidden),
                                            .steer = f_steer,
                                            .on_hidden = f_on_hidden};
    static const cdz_constrained_api tells_nothing = {.size = sizeof tells_nothing};
    static const struct {
        const char *id;
        const void *table;
        const char *lacks; /* NULL: nothing */
    } cases[] = {
        {CDZ_EXT_STATE, &no_clone, "clone"},
        {CDZ_EXT_STATE, &no_free, "free"},
        {CDZ_EXT_STATE, &short_one, "clone"},
        {CDZ_EXT_STATE, &least, NULL},
        {CDZ_EXT_PHASE, &no_of, "of"},
        {CDZ_EXT_PHASE, &phase, NULL},
        {CDZ_EXT_COMPANION, &no_describe, "describe"},
        {CDZ_EXT_STEER, &no_steer, "steer"},
        {CDZ_EXT_STEER, &old_steer, NULL},
        {CDZ_EXT_CONSTRAINED, &tells_nothing, "of"},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cdz_offers offers;
        cdz_error err = {0};
        char expected_text[160];
        lame = cases[i].table;
        lame_id = cases[i].id;
        const cdz_status status = cdz_offers_ask(&offering.base, &offers, &err);
        assert_int_equal(status, cases[i].lacks ? CDZ_E_PLUGIN : CDZ_OK);
        assert_null(offers.on_hidden); /* none of these tables is long enough */
        if (!cases[i].lacks) continue;
        snprintf(expected_text, sizeof expected_text, "test.sick: its table of %s has no %s",
                 cases[i].id, cases[i].lacks);
        assert_string_equal(err.text, expected_text);
    }
}

/* Outside of a request the sentence stands alone where the plugin has said it. */
static void test_outside_of_requests(void **unused)
{
    (void)unused;
    static const cdz_plugin_file file = {.size = sizeof file, .path = "a/b.sick", .name = "b.sick"};
    cdz_arena arena = {0};
    cdz_opened opened;
    cdz_error err = {0};
    here.way = SPEAKS;
    assert_int_equal(cdz_call_create_plugin(&processor.base, NULL, NULL, &arena, &err), CDZ_E_INPUT);
    assert_string_equal(err.text, "no luck");
    assert_int_equal(cdz_call_open_file(&loader, &file, &arena, &opened, &err), CDZ_E_INPUT);
    assert_string_equal(err.text, "no luck");
    here.way = SILENT;
    assert_int_equal(cdz_call_create_plugin(&processor.base, NULL, NULL, &arena, &err),
                     CDZ_E_PLUGIN);
    assert_string_equal(err.text, "test.sick: create failed (bad input) without saying why");
    assert_int_equal(cdz_call_open_file(&loader, &file, &arena, &opened, &err), CDZ_E_PLUGIN);
    assert_string_equal(err.text, "a/b.sick: the loader test.sick: open failed (bad input) without "
                                  "saying why");
    here.way = NO_STATUS;
    assert_int_equal(cdz_call_create_plugin(&processor.base, NULL, NULL, &arena, &err),
                     CDZ_E_PLUGIN);
    assert_string_equal(err.text, "test.sick: create returned 77, which is no status");
#if CDZ_SEES_FLOAT_MODE
    here.way = FLUSHES;
    here.n_called = 0;
    assert_int_equal(cdz_call_open_file(&loader, &file, &arena, &opened, &err), CDZ_E_PLUGIN);
    assert_int_equal(here.n_called, 2); /* what was opened is closed */
#endif
    here.way = WELL;
    assert_int_equal(cdz_call_create_plugin(&processor.base, NULL, NULL, &arena, &err), CDZ_OK);
    cdz_arena_free(&arena);
}

/* --- threads --------------------------------------------------------------------------------------------------------------- */

static void *on_a_thread_of_its_own(void *step)
{
    here.thread = asked_thread(step);
    here.n_called += cdz_thread_is(step, CDZ_THREAD_OWN);
    return NULL;
}

static cdz_status starts_a_thread(const cdz_step *step, cdz_scores *scores)
{
    pthread_t own;
    (void)scores;
    assert_true(cdz_thread_is(step, CDZ_THREAD_ROW));
    assert_false(cdz_thread_is(step, CDZ_THREAD_ENGINE));
    assert_int_equal(pthread_create(&own, NULL, on_a_thread_of_its_own, (void *)(uintptr_t)step), 0);
    assert_int_equal(pthread_join(own, NULL), 0);
    assert_true(cdz_thread_is(step, CDZ_THREAD_ROW));
    return CDZ_OK;
}

static void test_threads_are_told(void **unused)
{
    static const cdz_processor by_row = {
        .base = {CDZ_PROCESSOR_BASE, COMMON}, .caps = CDZ_ROWWISE, .apply = starts_a_thread};
    const cdz_step step = step_of(&by_row.base);
    cdz_call call = {0};
    (void)unused;
    here = (scope){.caller = &caller, .thread = 99};
    assert_int_equal(cdz_call_apply(&call, &by_row, &step, NULL), CDZ_OK);
    assert_int_equal(here.thread, CDZ_THREAD_OWN);
    assert_int_equal(here.n_called, 1);
    assert_true(cdz_thread_is(&step, CDZ_THREAD_OWN)); /* and out of the call */
}

static const void *lacks(const char *id)
{
    (void)id;
    return NULL;
}

static void test_a_host_that_cannot_say(void **unused)
{
    static const cdz_host older = CDZ_HOST_WITH(lacks);
    const cdz_step step = {.size = sizeof step, .host = &older};
    (void)unused;
    assert_null(cdz_get_thread_check(&step));
    assert_true(cdz_thread_is(&step, CDZ_THREAD_ENGINE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_function_every_way),
        cmocka_unit_test(test_a_crash_has_a_name),
        cmocka_unit_test(test_raw_calls_leave_it),
        cmocka_unit_test(test_missing_functions),
        cmocka_unit_test(test_offers),
        cmocka_unit_test(test_offers_that_lack_a_function),
        cmocka_unit_test(test_outside_of_requests),
        cmocka_unit_test(test_threads_are_told),
        cmocka_unit_test(test_a_host_that_cannot_say),
    };
    return cmocka_run_group_tests_name("call", tests, NULL, NULL);
}
