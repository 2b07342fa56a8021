/* test_run_companion.c - companions follow their rows whatever becomes of these. A processor whose companion holds the
 * very ids of its row must find the row's own logits there, bit for bit: after the prompt, under sampling, when beams
 * are reordered, when tokens are taken back, on made-up rows. */
#include <stdatomic.h>

#include "base/environment.h"
#include "cadenza/ext/companion.h"
#include "cadenza/ext/vec.h"
#include "support/run_strategies.h"

enum { PROMPT = 9, NEW = 14 };
static const int32_t prompts[2][PROMPT] = {{11, 45, 30, 17, 79, 61, 54, 8, 20},
                                           {7, 20, 31, 31, 50, 62, 33, 9, 41}};

/* --- a processor that compares ----------------------------------------------------------------------------------- */

typedef struct echo_params {
    bool whole;    /* no prefix: every id of the row; else the prompt is the prefix */
    bool skip_odd; /* rows 1, 3, ... have none */
    atomic_uint *n_compared;
} echo_params;

static cdz_status echo_describe(const cdz_step *step, uint32_t row, cdz_companion *out)
{
    const echo_params *p = step->params;
    const cdz_request_info *request = step->request;
    out->none = p->skip_odd && row % 2;
    if (p->whole) return CDZ_OK;
    out->prefix = request->prompts[row / (request->n_rows / request->n_prompts)];
    out->from = request->prompt_len;
    return CDZ_OK;
}

static const cdz_companion_api echo_companion = {.size = sizeof echo_companion,
                                                 .describe = echo_describe};

static const void *echo_extension(const char *id)
{
    return cdz_is_companion(id) ? &echo_companion : NULL;
}

/* Beams are given as log-probabilities. */
static cdz_status echo_apply(const cdz_step *step, cdz_scores *scores)
{
    const echo_params *p = step->params;
    const size_t n = scores->n_vocab;
    float *other = cdz_scratch(step, n * sizeof *other);
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const float *logits = cdz_companion_logits(step, r);
        if (p->skip_odd && step->row_index[r] % 2) {
            CHECK(!logits);
            continue;
        }
        CHECK(logits);
        CHECK(!cdz_companion_logits(step, r + scores->n_rows));
        cdz_get_vec(step)->log_softmax(other, logits, n);
        CHECK(same_floats(cdz_row(scores, r), logits, n) ||
              same_floats(cdz_row(scores, r), other, n));
        atomic_fetch_add(p->n_compared, 1);
    }
    return CDZ_OK;
}

#define ECHO(name_, caps_)                                                                         \
    static const cdz_processor name_ = {                                                           \
        .base = {CDZ_PROCESSOR_BASE, .id = "test." #name_, .version = "1.0.0", .summary = #name_,  \
                 .extension = echo_extension},                                                     \
        .caps = caps_,                                                                             \
        .apply = echo_apply,                                                                       \
    }
ECHO(echo_rows, CDZ_ROWWISE);
ECHO(echo_all, 0);

/* --- decode loops -------------------------------------------------------------------------------------------------- */

/* Greedy that goes four tokens ahead and takes two back, again and again. */
static cdz_status wander(cdz_decoder *dec, const cdz_step *step)
{
    cdz_scores scores;
    int32_t tokens[4];
    uint32_t back = 0;
    (void)step;
    while (!cdz_done(dec)) {
        CDZ_TRY(cdz_forward(dec, &scores));
        CDZ_TRY(cdz_process(dec, &scores));
        CDZ_TRY(cdz_argmax_rows(dec, &scores, tokens));
        if (cdz_rewindable(dec, 0) % 4 == 3) tokens[0] = (tokens[0] + 5) % 300;
        CDZ_TRY(cdz_append_rows(dec, tokens));
        if (cdz_rewindable(dec, 0) % 4 == 0 && back++ % 3) CDZ_TRY(cdz_rewind(dec, 0, 2));
    }
    return CDZ_OK;
}
STRATEGY(wandering, wander, CDZ_REWINDS | CDZ_ONE_ROW);

/* Rows change places before every token. */
static cdz_status shuffle(cdz_decoder *dec, const cdz_step *step)
{
    cdz_scores scores;
    int32_t tokens[4];
    uint32_t turn = 0;
    CHECK(cdz_n_rows(dec) == 2);
    while (!cdz_done(dec)) {
        const uint32_t parents[2] = {turn % 3 ? 1 : 0, turn % 2 ? 0 : 1};
        CDZ_TRY(cdz_forward(dec, &scores));
        CDZ_TRY(cdz_process(dec, &scores));
        CDZ_TRY(cdz_argmax_rows(dec, &scores, tokens));
        tokens[turn % 2] = (int32_t)(turn * 7 + 3);
        CDZ_TRY(cdz_append_rows(dec, tokens));
        if (turn++ < NEW - 2) CDZ_TRY(cdz_reorder(dec, parents));
    }
    return CDZ_OK;
}
STRATEGY(shuffling, shuffle, CDZ_REWINDS);

/* Looks at two continuations of every row before each token: processed as made-up rows. */
static cdz_status look_ahead(cdz_decoder *dec, const cdz_step *step)
{
    cdz_scores scores, ahead;
    while (!cdz_done(dec)) {
        cdz_seq *seqs[2];
        const uint32_t rows[2] = {0, 0};
        cdz_pick pick;
        CDZ_TRY(cdz_forward(dec, &scores));
        CDZ_TRY(cdz_process(dec, &scores));
        CDZ_TRY(cdz_argmax(dec, &scores, 0, &pick));
        for (int i = 0; i < 2; i++) {
            const int32_t draft[2] = {(pick.token + i * 11) % 300, 40 + i};
            CDZ_TRY(cdz_seq_fork(dec, cdz_seq_of_row(dec, 0), &seqs[i]));
            CDZ_TRY(cdz_seq_append(dec, seqs[i], draft, 1 + (uint32_t)i));
        }
        CDZ_TRY(cdz_seq_forward(dec, seqs, 2, CDZ_POSITIONS_LAST, &ahead));
        CDZ_TRY(cdz_seq_process(dec, seqs, rows, 2, &ahead));
        for (int i = 0; i < 2; i++) cdz_seq_free(dec, seqs[i]);
        CDZ_TRY(cdz_append(dec, 0, pick.token));
    }
    (void)step;
    return CDZ_OK;
}
STRATEGY(looking_ahead, look_ahead, CDZ_ONE_ROW);

/* --- cases ------------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name, *model, *built; /* built NULL: own */
    const cdz_strategy *own;
    uint32_t n_prompts, n_rows;
    bool skip_odd;
} cases[] = {
    {"greedy", "llama_gqa", "greedy", NULL, 2, 2, false},
    {"greedy, rows without one", "llama_gqa", "greedy", NULL, 2, 2, true},
    {"learned positions", "gpt2", "greedy", NULL, 1, 1, false},
    {"a window", "mistral_sw", "greedy", NULL, 2, 2, false},
    {"frequencies by length", "llama_dynamic", "greedy", NULL, 1, 1, false},
    {"sample, one prompt four times", "llama_gqa", "sample", NULL, 1, 4, false},
    {"tokens taken back", "llama_gqa", NULL, &wandering, 1, 1, false},
    {"rows that change places", "llama_gqa", NULL, &shuffling, 2, 2, false},
    {"made-up rows", "llama_gqa", NULL, &looking_ahead, 1, 1, false},
};

static void replay(size_t i, bool whole, const cdz_processor *echo)
{
    atomic_uint n_compared = 0;
    const echo_params params = {whole, cases[i].skip_odd, &n_compared};
    rig r = rig_open(cases[i].model, (cdz_engine_options){.n_threads = 2});
    hand_plan plan;
    const cdz_plugin_base *strategy =
        cases[i].built ? built_plugin(cases[i].built) : &cases[i].own->base;
    plan_init(&plan, strategy, NULL);
    plan_add_processor(&plan, echo, &params);
    plan_add_criterion(&plan, &length_rule, NULL);
    plan.plan.generation.num_beams = 1;
    answer a;
    cdz_job *job = new_job(&r, &plan, prompts[0], NULL, cases[i].n_prompts, PROMPT, NEW, &a);
    job->n_rows = cases[i].n_rows;
    submit(&r, &a);
    cdz_outcome *outcome = await(&a);
    if (outcome->error.code != CDZ_OK) fail_msg("%s: %s", cases[i].name, outcome->error.text);
    if (atomic_load(&n_compared) < NEW) fail_msg("%s: %u rows", cases[i].name, n_compared);
    answer_free(&a);
    rig_close(&r);
}

static void companions_hold_what_their_rows_hold(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        replay(i, true, &echo_rows);
        replay(i, false, &echo_rows);
        replay(i, false, &echo_all);
    }
}

/* --- drafts ----------------------------------------------------------------------------------------------------------- */

enum { LONG_NEW = 17, LONGEST = 128, N_DRAFTS = 4 };

/* What a row and its companion said after each of the row's beginnings, when its tokens came one by one. */
typedef struct story {
    bool told;
    uint32_t prompt_len, n; /* n: ids that are known */
    int32_t ids[LONGEST];
    float *row[LONGEST], *beside[LONGEST]; /* after so many ids */
    uint32_t n_compared;
} story;

/* A bit shorter than its row, so that the two do not pass a length at once. */
static cdz_status beside_describe(const cdz_step *step, uint32_t row, cdz_companion *out)
{
    const cdz_ids prompt = step->request->prompts[row];
    out->prefix = (cdz_ids){prompt.at + 3, prompt.len - 3};
    out->from = step->request->prompt_len;
    return CDZ_OK;
}

static const cdz_companion_api beside_companion = {.size = sizeof beside_companion,
                                                   .describe = beside_describe};

static const void *beside_extension(const char *id)
{
    return cdz_is_companion(id) ? &beside_companion : NULL;
}

static void tell(story *s, cdz_ids ids, const float *row, const float *beside, size_t n)
{
    memcpy(s->ids, ids.at, ids.len * sizeof *ids.at);
    s->n = ids.len;
    s->row[ids.len] = keep_floats(row, n);
    s->beside[ids.len] = keep_floats(beside, n);
}

static cdz_status listen(const cdz_step *step, cdz_scores *scores)
{
    story *s = *(story *const *)step->params;
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const cdz_ids ids = step->input_ids[r];
        const float *beside = cdz_companion_logits(step, r);
        CHECK(beside && ids.len < LONGEST);
        if (!s->told) {
            tell(s, ids, cdz_row(scores, r), beside, scores->n_vocab);
        } else if (ids.len <= s->n && memcmp(ids.at, s->ids, ids.len * sizeof *ids.at) == 0) {
            CHECK(same_floats(cdz_row(scores, r), s->row[ids.len], scores->n_vocab));
            CHECK(same_floats(beside, s->beside[ids.len], scores->n_vocab));
            s->n_compared++;
        }
    }
    return CDZ_OK;
}

static const cdz_processor listener = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.listener", .version = "1.0.0", .summary = "listens",
             .extension = beside_extension},
    .caps = CDZ_NEEDS_IDS,
    .apply = listen,
};

/* Reads the known tokens as drafts, every beginning of them and one that goes on wrongly, all at once; keeps two. */
static cdz_status draft_by_heart(cdz_decoder *dec, const cdz_step *step)
{
    static const uint32_t rows[N_DRAFTS + 2];
    static const int32_t wrong[] = {3, 4, 3, 4, 3, 4};
    const story *s = *(story *const *)step->params;
    for (uint32_t at = s->prompt_len; !cdz_done(dec); at += 2) {
        cdz_seq *seqs[N_DRAFTS + 2];
        cdz_scores scores;
        for (uint32_t i = 0; i < N_DRAFTS + 2; i++) {
            const uint32_t known = s->n - at, n = i < known ? i : known;
            CDZ_TRY(cdz_seq_fork(dec, cdz_seq_of_row(dec, 0), &seqs[i]));
            CDZ_TRY(cdz_seq_append(dec, seqs[i], s->ids + at, n));
            if (i > N_DRAFTS)
                CDZ_TRY(cdz_seq_append(dec, seqs[i], wrong, sizeof wrong / sizeof *wrong));
        }
        CDZ_TRY(cdz_seq_forward(dec, seqs, N_DRAFTS + 2, CDZ_POSITIONS_LAST, &scores));
        CDZ_TRY(cdz_seq_process(dec, seqs, rows, N_DRAFTS + 2, &scores));
        for (uint32_t i = 0; i < N_DRAFTS + 2; i++) cdz_seq_free(dec, seqs[i]);
        for (uint32_t i = at; i < at + 2 && !cdz_done(dec); i++)
            CDZ_TRY(cdz_append(dec, 0, i < s->n ? s->ids[i] : 3));
    }
    return CDZ_OK;
}
STRATEGY(drafting_by_heart, draft_by_heart, CDZ_ONE_ROW);

static void listen_to(const char *model, const cdz_plugin_base *strategy, story *s)
{
    int32_t prompt[LONGEST];
    rig r = rig_open(model, (cdz_engine_options){.n_threads = 2});
    hand_plan plan;
    random_ids(prompt, s->prompt_len, (uint32_t)vocab_of(&r), 5);
    plan_init(&plan, strategy, s->told ? (const void *)&s : NULL);
    plan_add_processor(&plan, &listener, (const void *)&s);
    plan_add_criterion(&plan, &length_rule, NULL);
    plan.plan.generation.num_beams = 1;
    answer a;
    new_job(&r, &plan, prompt, NULL, 1, s->prompt_len, LONG_NEW, &a);
    const cdz_outcome *outcome = run(&r, &a);
    if (outcome->error.code != CDZ_OK) fail_msg("%s: %s", model, outcome->error.text);
    answer_free(&a);
    rig_close(&r);
}

/* Also where frequencies depend on the length, which crosses the model's limit meanwhile, where queries grow with their
 * position, and where the past is a state. */
static void drafts_change_no_companion(void **state)
{
    static const struct {
        const char *name;
        uint32_t prompt_len;
    } models[] = {{"llama_gqa", 27},  {"llama_dynamic", 27}, {"phi3_longrope", 91},
                  {"ministral3", 27}, {"lfm2", 27},          {"mamba2", 27}};
    (void)state;
    const size_t n = sizeof models / sizeof *models;
    const size_t n_here =
        cdz_env_named("CADENZA_DEVICE") ? n - 2 : n; /* the last two are recurrent */
    for (size_t m = 0; m < n_here; m++) {
        story s = {.prompt_len = models[m].prompt_len};
        listen_to(models[m].name, built_plugin("greedy"), &s);
        s.told = true;
        listen_to(models[m].name, &drafting_by_heart.base, &s);
        if (s.n_compared < 2 * LONG_NEW) fail_msg("%s: %u rows", models[m].name, s.n_compared);
        for (uint32_t i = 0; i < LONGEST; i++) {
            free(s.row[i]);
            free(s.beside[i]);
        }
    }
}

/* --- what is refused ---------------------------------------------------------------------------------------------------- */

static cdz_status empty_describe(const cdz_step *step, uint32_t row, cdz_companion *out)
{
    (void)row;
    out->from = step->request->prompt_len;
    return CDZ_OK;
}

static cdz_status foreign_describe(const cdz_step *step, uint32_t row, cdz_companion *out)
{
    static const int32_t ids[] = {3, 1 << 20};
    (void)step;
    (void)row;
    out->prefix = (cdz_ids){ids, 2};
    return CDZ_OK;
}

static const cdz_companion_api empty = {.size = sizeof empty, .describe = empty_describe};
static const cdz_companion_api foreign = {.size = sizeof foreign, .describe = foreign_describe};

static const void *empty_extension(const char *id)
{
    return cdz_is_companion(id) ? &empty : NULL;
}

static const void *foreign_extension(const char *id)
{
    return cdz_is_companion(id) ? &foreign : NULL;
}

static void refuses(const void *(*extension)(const char *), const char *says)
{
    cdz_processor bad = echo_rows;
    rig r = rig_open("llama_gqa", (cdz_engine_options){0});
    hand_plan plan;
    bad.base.extension = extension;
    plan_init(&plan, built_plugin("greedy"), NULL);
    plan_add_processor(&plan, &bad, NULL);
    plan_add_criterion(&plan, &length_rule, NULL);
    answer a;
    new_job(&r, &plan, prompts[0], NULL, 1, PROMPT, NEW, &a);
    const cdz_outcome *outcome = run(&r, &a);
    assert_int_not_equal(outcome->error.code, CDZ_OK);
    if (!strstr(outcome->error.text, says)) fail_msg("%s", outcome->error.text);
    answer_free(&a);
    rig_close(&r);
}

static void impossible_companions_are_refused(void **state)
{
    (void)state;
    refuses(empty_extension, "begins without a visible token");
    refuses(foreign_extension, "token 1048576 is outside the vocabulary");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(companions_hold_what_their_rows_hold),
        cmocka_unit_test(drafts_change_no_companion),
        cmocka_unit_test(impossible_companions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
