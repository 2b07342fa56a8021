/* test_run_plan.c - a plan changes no answer: requests whose processors are fused give the tokens, scores and draws of
 * requests whose processors run one by one, whatever the chain, the strategy and who looks on. */
#include "params/params.h"
#include "support/run_strategies.h"

#include "cadenza/ext/form.h"

enum { LEN = 6, ROWS = 3, NEW = 14, CHAINS = 60 };

static const char *const model = "llama_gqa";

/* --- rows worth cutting --------------------------------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Scores that depend on the ids alone: of some steps ties, of some many masked ones, of some nan or nothing else. */
static cdz_status weather_apply(const cdz_step *step, cdz_scores *scores)
{
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const cdz_ids ids = step->input_ids[r];
        float *row = cdz_row(scores, r);
        uint32_t h = 12345u + ids.len;
        for (uint32_t i = 0; i < ids.len; i++) h = h * 31u + (uint32_t)ids.at[i];
        const uint32_t kind = next_random(&h) % 6;
        for (uint32_t v = 0; v < scores->n_vocab; v++) {
            float x = (float)(next_random(&h) % 100000) * 1e-4f - 5.0f;
            if (kind == 0) x = floorf(x);
            if (kind == 1 && next_random(&h) % 20) x = -INFINITY;
            if (kind == 2 && v % 61 == 7) x += 8.0f;
            row[v] = x;
        }
    }
    return CDZ_OK;
}

static const cdz_processor weather = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.weather", .version = "1.0.0", .summary = "rows"},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE,
    .apply = weather_apply,
};

/* A stranger's processor of known form: what the built-in ones can do, any plugin can. */
static cdz_status halve_apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step;
    for (uint32_t r = 0; r < scores->n_rows; r++)
        for (uint32_t v = 0; v < scores->n_vocab; v++) cdz_row(scores, r)[v] /= 2.0f;
    return CDZ_OK;
}

static bool halve_describe(const cdz_step *step, cdz_form *out)
{
    (void)step;
    out->kind = CDZ_FORM_DIVIDE;
    out->amount = 2.0;
    return true;
}

static const cdz_form_api halve_form = {.size = sizeof halve_form, .describe = halve_describe};

static const void *halve_extension(const char *id)
{
    return strcmp(id, CDZ_EXT_FORM) == 0 ? &halve_form : NULL;
}

static const cdz_processor halve = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.halve", .version = "1.0.0", .summary = "half",
             .extension = halve_extension},
    .caps = CDZ_ROWWISE | CDZ_ELEMENTWISE,
    .apply = halve_apply,
};

/* --- chains --------------------------------------------------------------------------------------------------------- */

typedef struct chain {
    hand_plan plan;
    char name[300];
    _Alignas(16) unsigned char params[MAX_STAGES][256];
} chain;

static void set_number(const cdz_plugin_base *plugin, const char *name, double value, bool whole,
                       void *params)
{
    static cdz_arena arena;
    const cdz_param_table table = cdz_params_of(plugin);
    const cdz_param *param = cdz_param_find(&table, name);
    cdz_error err = {0};
    cdz_json json = {.type = CDZ_JSON_REAL, .real = value};
    if (whole) json = (cdz_json){.type = CDZ_JSON_INT, .integer = (int64_t)value};
    assert_non_null(param);
    must(cdz_param_set(param, params, &json, &arena, &err), &err);
    cdz_arena_free(&arena);
}

static void add(chain *c, const char *id, double value, bool whole)
{
    const uint32_t i = c->plan.plan.n_processors;
    const cdz_plugin_base *plugin = built_plugin(id);
    const cdz_param_table table = cdz_params_of(plugin);
    assert_true(table.params_size <= sizeof c->params[i]);
    cdz_params_defaults(&table, c->params[i]);
    set_number(plugin, id, value, whole, c->params[i]);
    plan_add_processor(&c->plan, (const cdz_processor *)(const void *)plugin, c->params[i]);
    const size_t at = strlen(c->name);
    snprintf(c->name + at, sizeof c->name - at, " %s %g", id, value);
}

static void add_any(chain *c, uint32_t *random)
{
    static const double temperatures[] = {0.7, 1.3, 0.05, 10.0};
    static const double counts[] = {1, 5, 40, 300};
    static const double masses[] = {0.9, 0.5, 0.99};
    static const double shares[] = {0.1, 0.02, 0.7};
    const uint32_t kind = next_random(random) % 6, pick = next_random(random);
    if (kind == 0) add(c, "temperature", temperatures[pick % 4], false);
    if (kind == 1) add(c, "top_k", counts[pick % 4], true);
    if (kind == 2) add(c, "top_p", masses[pick % 3], false);
    if (kind == 3) add(c, "min_p", shares[pick % 3], false);
    if (kind == 4) add(c, "repetition_penalty", 1.3, false);
    if (kind == 5) plan_add_processor(&c->plan, &halve, NULL);
}

static chain *new_chain(const cdz_plugin_base *strategy, uint32_t seed)
{
    chain *c = calloc(1, sizeof *c);
    uint32_t random = seed * 2654435761u + 1;
    assert_non_null(c);
    plan_init(&c->plan, strategy, NULL);
    plan_add_processor(&c->plan, &weather, NULL);
    for (uint32_t n = 1 + next_random(&random) % 5; n > 0; n--) add_any(c, &random);
    plan_add_criterion(&c->plan, &eos_rule, NULL);
    plan_add_criterion(&c->plan, &length_rule, NULL);
    return c;
}

/* --- strategies ------------------------------------------------------------------------------------------------------- */

/* The step of the strategy sample, verb by verb. */
static cdz_status run_verbs(cdz_decoder *dec, const cdz_step *step)
{
    int32_t tokens[ROWS];
    cdz_scores scores;
    CHECK(cdz_n_rows(dec) <= ROWS);
    while (!cdz_done(dec)) {
        CDZ_TRY(cdz_forward(dec, &scores));
        CDZ_TRY(cdz_record(dec, CDZ_RECORD_LOGITS, &scores));
        CDZ_TRY(cdz_process(dec, &scores));
        CDZ_TRY(cdz_record(dec, CDZ_RECORD_SCORES, &scores));
        CDZ_TRY(cdz_softmax(dec, &scores));
        CDZ_TRY(cdz_multinomial(dec, &scores, tokens));
        CDZ_TRY(cdz_append_rows(dec, tokens));
    }
    return CDZ_OK;
}
STRATEGY(verbs, run_verbs, CDZ_SAMPLES);

static void run_chain(const rig *r, chain *c, uint32_t seed, bool keep_scores, answer *a)
{
    int32_t ids[ROWS * LEN];
    static const int32_t eos[] = {5, 17, 40, 100, 200};
    for (uint32_t i = 0; i < ROWS * LEN; i++) ids[i] = (int32_t)((seed * 31 + i * 7) % 250 + 3);
    cdz_job *job = new_job(r, &c->plan, ids, NULL, ROWS, LEN, NEW, a);
    job->seed = seed;
    job->pad = 0;
    job->eos = (cdz_ids){eos, 5};
    job->keep_scores = keep_scores;
    run(r, a);
}

static void expect_same(const cdz_outcome *a, const cdz_outcome *b, const char *name)
{
    must_be_same(a, b, ROWS, name);
    if (!a->n_steps || !b->n_steps) return;
    assert_int_equal(a->n_steps, b->n_steps);
    for (uint32_t s = 0; s < a->n_steps; s++)
        if (memcmp(a->steps[s].scores, b->steps[s].scores,
                   (size_t)ROWS * a->n_vocab * sizeof(float)) != 0)
            fail_msg("%s: other scores at step %u", name, s);
}

static uint64_t rows_of(const cdz_outcome *o)
{
    uint64_t n = 0;
    for (int k = 0; k < CDZ_FUSE_KINDS; k++) n += o->fusings[k];
    return n;
}

/* --- tests -------------------------------------------------------------------------------------------------------------- */

/* The oracle runs verb by verb, stage by stage; the others are fused, with and without somebody who wants the rows. */
static void test_plans_change_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool built_in, keep_scores;
    } ways[] = {{"draw_rows", true, false},
                {"draw_rows, recorded", true, true},
                {"verbs", false, false},
                {"verbs, recorded", false, true}};
    rig plain = rig_open(model, (cdz_engine_options){.n_threads = 1, .one_by_one = true});
    rig fused = rig_open(model, (cdz_engine_options){.n_threads = 2});
    uint64_t done = 0, left = 0;
    for (uint32_t seed = 0; seed < CHAINS; seed++) {
        answer want;
        chain *c = new_chain(&verbs.base, seed);
        run_chain(&plain, c, seed, true, &want);
        assert_int_equal(rows_of(want.outcome), 0);
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
            answer got;
            char name[400];
            c->plan.plan.strategy.plugin.base =
                ways[w].built_in ? built_plugin("sample") : &verbs.base;
            run_chain(&fused, c, seed, ways[w].keep_scores, &got);
            snprintf(name, sizeof name, "%s,%s", ways[w].name, c->name);
            expect_same(want.outcome, got.outcome, name);
            done += got.outcome->fusings[CDZ_FUSED];
            left += rows_of(got.outcome) - got.outcome->fusings[CDZ_FUSED];
            answer_free(&got);
        }
        answer_free(&want);
        free(c);
    }
    print_message("%llu rows fused, %llu left\n", (unsigned long long)done,
                  (unsigned long long)left);
    assert_true(done > 1000 && left > 100);
    rig_close(&plain);
    rig_close(&fused);
}

/* Divisions alone save no walk; with a cut after them the stranger's takes part. */
static void test_what_fuses(void **state)
{
    (void)state;
    rig r = rig_open(model, (cdz_engine_options){.n_threads = 1});
    chain *c = calloc(1, sizeof *c);
    answer a;
    assert_non_null(c);
    plan_init(&c->plan, built_plugin("sample"), NULL);
    plan_add_criterion(&c->plan, &length_rule, NULL);
    plan_add_processor(&c->plan, &halve, NULL);
    run_chain(&r, c, 1, false, &a);
    assert_int_equal(rows_of(a.outcome), 0);
    answer_free(&a);
    add(c, "top_k", 5, true);
    run_chain(&r, c, 1, false, &a);
    assert_int_equal(rows_of(a.outcome), ROWS * NEW);
    answer_free(&a);
    free(c);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans_change_nothing),
        cmocka_unit_test(test_what_fuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
