/* on_basics.c - what a plugin says of itself, whether it takes the values that it declares, and whether it gets through
 * ordinary rows and rows of noise. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "call/outside.h"
#include "check/checks.h"
#include "check/setups.h"

/* --- descriptor -------------------------------------------------------------------------------------------- */

/* What is wrong with a line of text that people read; NULL: nothing. */
static const char *bad_line(const char *text)
{
    const size_t len = text ? strlen(text) : 0;
    if (len == 0) return "is empty";
    if (cdz_utf8_valid_prefix(text, len) != len) return "is not valid UTF-8";
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) return "holds a control character";
    return len > 300 ? "is longer than 300 bytes" : NULL;
}

static cdz_check_state judge_kind(cdz_child *c)
{
    const void *whole = c->ref.base;
    const bool processor = c->ref.base->kind == CDZ_KIND_PROCESSOR;
    if (c->ref.base->kind != CDZ_KIND_PROCESSOR && c->ref.base->kind != CDZ_KIND_CRITERION)
        return CDZ_CHECK_OK;
    const uint32_t state = processor ? ((const cdz_processor *)whole)->state_size
                                     : ((const cdz_criterion *)whole)->state_size;
    const bool accepts = processor ? ((const cdz_processor *)whole)->accept != NULL
                                   : ((const cdz_criterion *)whole)->accept != NULL;
    if (state > 0 && !accepts)
        return cdz_fail_check(
            c, "state_size is %u but there is no accept, which alone writes state", state);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_descriptor(cdz_child *c)
{
    const cdz_plugin_base *base = c->ref.base;
    const cdz_param_table table = cdz_params_of(base);
    const char *bad = bad_line(base->summary);
    if (bad) return cdz_fail_check(c, "its summary %s", bad);
    if (!strchr(base->version, '.'))
        return cdz_fail_check(c, "its version is %s; expected numbers such as 1.0.0", base->version);
    for (uint32_t i = 0; i < table.n; i++) {
        const cdz_param *param = cdz_param_at(&table, i);
        if ((bad = bad_line(param->help)))
            return cdz_fail_check(c, "the help text of parameter %s %s", param->name, bad);
    }
    CDZ_CHECK_TRY(judge_kind(c));
    return cdz_pass_check(c, "%s %s, %u parameter%s", base->id, base->version, table.n,
                          table.n == 1 ? "" : "s");
}

/* --- running at all ------------------------------------------------------------------------------------------ */

static bool has_nan(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isnan(x[i])) return true;
    return false;
}

/* How long a request is, and of what its tokens are. */
typedef struct course {
    cdz_made_up facts;
    uint32_t steps;
    bool text; /* the kit's text, else tokens of all kinds */
} course;

static cdz_check_state broke(cdz_child *c, const char *call, uint32_t step, const cdz_setup *setup,
                             const cdz_follow *f, const char *what)
{
    return cdz_fail_check(c, "%s, step %u with %s, row of %u ids that ends in token %d: %s", call,
                          step, setup->text, f->len, (int)f->ids[f->len - 1], what);
}

static cdz_check_state one_step(cdz_child *c, const course *way, const cdz_setup *setup,
                                cdz_follow *f, uint32_t step, float *answer)
{
    cdz_probe *t = f->probe;
    const char *ask = t->plugin->kind == CDZ_KIND_PROCESSOR ? "apply" : "test";
    const int32_t token =
        way->text ? cdz_probe_text_token(&t->facts, step) : cdz_some_token(&t->facts, step);
    cdz_check_note(c, "%s, step %u with %s, row of %u ids that ends in token %d", ask, step,
                   setup->text, f->len, (int)f->ids[f->len - 1]);
    cdz_status status = cdz_follow_ask(f, answer);
    const char *broken = cdz_probe_broken_late(t, status);
    if (broken) return broke(c, ask, step, setup, f, broken);
    if (status == CDZ_OK && has_nan(answer, cdz_answer_len(&t->facts)))
        return broke(c, ask, step, setup, f, "ordinary scores became NaN");
    if (!cdz_probe_text_lives(t))
        return broke(c, ask, step, setup, f,
                     "the text of an earlier answer has changed; it has to live as long as the "
                     "request");
    cdz_check_note(c, "accept, step %u with %s, token %d", step, setup->text, (int)token);
    status = cdz_follow_take(f, token);
    broken = cdz_probe_broken_late(t, status);
    return broken ? broke(c, "accept", step, setup, f, broken) : CDZ_CHECK_OK;
}

static cdz_check_state run_some_steps(cdz_child *c, const course *way, const cdz_setup *setup)
{
    cdz_probe t;
    cdz_follow f;
    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setup, &way->facts));
    t.n_answered = 1; /* another request with these parameters was */
    float *answer = cdz_answers_new(c, cdz_answer_len(&t.facts));
    if (!answer || !cdz_follow_start(&f, &t, 0)) return cdz_fail_check(c, "out of memory");
    for (uint32_t step = 0; step < way->steps; step++)
        CDZ_CHECK_TRY(one_step(c, way, setup, &f, step, answer));
    cdz_check_note(c, "end with %s", setup->text);
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_runs(cdz_child *c)
{
    static const course ways[] = {
        {{.n_vocab = 1000, .n_rows = 4, .prompt_len = 12, .seed = 7}, 40, false},
        {{.n_vocab = 1000, .n_rows = 1, .prompt_len = 300, .seed = 9}, 200, false},
        {{.n_vocab = 1000, .n_rows = 1, .prompt_len = 3, .seed = 9}, 1200, true},
    };
    cdz_setup *setups[CDZ_SETUPS];
    uint32_t n;
    CDZ_CHECK_TRY(cdz_setups_find(c, setups, &n));
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
        for (uint32_t i = 0; i < n; i++) CDZ_CHECK_TRY(run_some_steps(c, &ways[w], setups[i]));
    return cdz_pass_check(c, "with %s%s; rows of up to 1203 ids", setups[0]->text,
                          n > 1 ? " and others" : "");
}

/* --- parameters ------------------------------------------------------------------------------------------------ */

static bool is_number(const cdz_param *p)
{
    return p->type == CDZ_T_INT || p->type == CDZ_T_REAL || p->type == CDZ_T_OPT_INT ||
           p->type == CDZ_T_OPT_REAL;
}

static bool is_integer(const cdz_param *p)
{
    return p->type == CDZ_T_INT || p->type == CDZ_T_OPT_INT;
}

/* create on these values: whatever it says, it must say it. Every kind has one. */
static cdz_check_state create_with(cdz_child *c, const void *params, const char *what)
{
    cdz_error err = {0};
    cdz_check_note(c, "create with %s", what);
    const cdz_status status = cdz_call_create_plugin(
        c->ref.base, params, cdz_module_data(c->ref.module), &c->memory, &err);
    if (status != CDZ_OK &&
        (strstr(err.text, "without saying why") || strstr(err.text, "which is no status")))
        return cdz_fail_check(c, "create with %s: %s", what, err.text);
    return CDZ_CHECK_OK;
}

/* A value as text, put into a fresh struct and given to create. taken: whether the host takes it. */
static cdz_check_state try_value(cdz_child *c, const cdz_param *param, const char *text, bool *taken)
{
    void *params = cdz_check_params_new(c);
    char what[160];
    if (!params) return cdz_fail_check(c, "out of memory");
    snprintf(what, sizeof what, "%s=%.90s", param->name, text);
    *taken = cdz_check_value_put(c, param, text, params, NULL) == CDZ_OK;
    return *taken ? create_with(c, params, what) : CDZ_CHECK_OK;
}

static void number_text(const cdz_param *p, double x, char *out, size_t bytes)
{
    cdz_buf text = {0};
    if (is_integer(p) && fabs(x) < 9.2e18)
        cdz_buf_printf(&text, "%" PRId64, (int64_t)x);
    else
        cdz_json_write_real(&text, x);
    snprintf(out, bytes, "%s", text.data ? text.data : "");
    cdz_buf_free(&text);
}

static cdz_check_state try_bounds(cdz_child *c, const cdz_param *p)
{
    const double bounds[] = {p->min, p->max}, step[] = {-1.0, 1.0};
    const uint32_t open[] = {CDZ_ABOVE_MIN, CDZ_BELOW_MAX};
    for (int i = 0; i < 2; i++) {
        char text[64];
        bool taken = false;
        if (fabs(bounds[i]) > 9.0e15) continue; /* no limit */
        number_text(p, bounds[i], text, sizeof text);
        CDZ_CHECK_TRY(try_value(c, p, text, &taken));
        if (taken == ((p->flags & open[i]) != 0))
            return cdz_fail_check(c, "%s=%s, its %s: the host %s it", p->name, text,
                                  i ? "maximum" : "minimum", taken ? "takes" : "refuses");
        number_text(p, bounds[i] + step[i] * fmax(1.0, fabs(bounds[i]) * 1e-3), text, sizeof text);
        CDZ_CHECK_TRY(try_value(c, p, text, &taken));
        if (taken) return cdz_fail_check(c, "%s=%s is out of range and taken", p->name, text);
    }
    return CDZ_CHECK_OK;
}

/* What the host writes of a value, it reads as the same value. */
static cdz_check_state round_trip(cdz_child *c, const cdz_param *p, const char *text)
{
    void *one = cdz_check_params_new(c), *two = cdz_check_params_new(c);
    cdz_buf first = {0}, second = {0};
    if (!one || !two) return cdz_fail_check(c, "out of memory");
    if (cdz_check_value_put(c, p, text, one, NULL) != CDZ_OK) return CDZ_CHECK_OK;
    cdz_param_write(p, one, &first);
    cdz_json value;
    cdz_error err = {0};
    cdz_status st = cdz_json_parse(first.data, first.len, p->name, NULL, &c->memory, &value, &err);
    if (st == CDZ_OK) st = cdz_param_set(p, two, &value, &c->memory, &err);
    cdz_param_write(p, two, &second);
    const bool same =
        st == CDZ_OK && first.len == second.len && memcmp(first.data, second.data, first.len) == 0;
    cdz_check_state state = CDZ_CHECK_OK;
    if (!same)
        state = cdz_fail_check(c, "%s=%s is written as %s and not read back as that: %s", p->name,
                               text, first.data, err.text);
    cdz_buf_free(&first);
    cdz_buf_free(&second);
    return state;
}

static cdz_check_state try_param(cdz_child *c, const cdz_param *p)
{
    cdz_buf text = {0};
    bool taken = false;
    cdz_check_state state = CDZ_CHECK_OK;
    if (is_number(p)) CDZ_CHECK_TRY(try_bounds(c, p));
    CDZ_CHECK_TRY(try_value(c, p, "none", &taken));
    for (int i = 0; i < 8 && state == CDZ_CHECK_OK; i++) {
        cdz_buf_clear(&text);
        cdz_check_value_random(p, cdz_usual_facts.n_vocab, i < 4 ? CDZ_MILD : CDZ_WILD, &c->random,
                               &text);
        if (text.failed || !text.data) break;
        state = try_value(c, p, text.data, &taken);
        if (state == CDZ_CHECK_OK) state = round_trip(c, p, text.data);
    }
    cdz_buf_free(&text);
    return state;
}

cdz_check_state cdz_check_parameters(cdz_child *c)
{
    const cdz_param_table table = cdz_params_of(c->ref.base);
    if (table.n == 0) return cdz_pass_check(c, "there are none");
    void *params = cdz_check_params_new(c);
    if (!params) return cdz_fail_check(c, "out of memory");
    CDZ_CHECK_TRY(create_with(c, params, "the defaults"));
    for (uint32_t i = 0; i < table.n; i++) CDZ_CHECK_TRY(try_param(c, cdz_param_at(&table, i)));
    return cdz_pass_check(c, "bounds, defaults, none and 8 values of %u", table.n);
}

/* --- fuzz ------------------------------------------------------------------------------------------------------- */

enum { FUZZ_ROUNDS = 60, FUZZ_STEPS = 12 };

/* Rows after create and begin went well: the first may be refused, no later one. */
static cdz_check_state fuzz_rows(cdz_child *c, cdz_probe *t, uint32_t round, const cdz_setup *setup)
{
    cdz_follow f;
    float *answer = cdz_answers_new(c, cdz_answer_len(&t->facts));
    if (!answer || !cdz_follow_start(&f, t, 1)) return cdz_fail_check(c, "out of memory");
    cdz_status status = CDZ_OK;
    for (uint32_t step = 0; step < FUZZ_STEPS && status == CDZ_OK; step++) {
        status = cdz_follow_ask(&f, answer);
        const char *broken = cdz_probe_broken_late(t, status);
        if (!broken && status == CDZ_OK) {
            const int32_t token = step % 2 ? cdz_probe_text_token(&t->facts, 40 * round + step)
                                           : cdz_some_token(&t->facts, 40 * round + step);
            status = cdz_follow_take(&f, token);
            broken = cdz_probe_broken_late(t, status);
        }
        if (broken)
            return cdz_fail_check(c, "round %u, a vocabulary of %u, %s: step %u: %s", round,
                                  t->facts.n_vocab, setup->text, step, broken);
    }
    return CDZ_CHECK_OK;
}

static cdz_check_state fuzz_once(cdz_child *c, uint32_t round, uint32_t *worked)
{
    static const uint32_t vocabularies[] = {1000, 33, 5};
    const uint32_t n_vocab = vocabularies[round % 3];
    cdz_error err = {0};
    const cdz_setup *setup = cdz_setup_random(c, &c->random, n_vocab, CDZ_WILD, &err);
    if (!setup) return cdz_fail_check(c, "%s", err.text);
    const cdz_made_up facts = {.n_vocab = n_vocab,
                               .n_rows = 2,
                               .prompt_len = round % 5 == 4 ? 200 : 1 + round % 9,
                               .seed = round};
    cdz_probe t;
    const char *call = "create";
    cdz_check_note(c, "round %u, a vocabulary of %u, %s", round, n_vocab, setup->text);
    if (!cdz_probe_make(&t, c->ref.base, setup->params, &facts))
        return cdz_fail_check(c, "out of memory");
    cdz_status status = cdz_probe_create(&t);
    if (status == CDZ_OK && cdz_probe_idle(&t)) {
        cdz_probe_free(&t);
        return CDZ_CHECK_OK;
    }
    if (status == CDZ_OK) call = "begin", status = cdz_probe_begin(&t);
    const char *broken = cdz_probe_broken(&t, status);
    if (broken)
        return cdz_fail_check(c, "round %u, a vocabulary of %u, %s: %s: %s", round, n_vocab,
                              setup->text, call, broken);
    if (status == CDZ_OK) CDZ_CHECK_TRY(fuzz_rows(c, &t, round, setup));
    *worked += status == CDZ_OK;
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_fuzz(cdz_child *c)
{
    uint32_t worked = 0;
    for (uint32_t i = 0; i < FUZZ_ROUNDS; i++) CDZ_CHECK_TRY(fuzz_once(c, i, &worked));
    return cdz_pass_check(c, "%u of %u random settings ran, the others were refused or idle",
                          worked, (unsigned)FUZZ_ROUNDS);
}
