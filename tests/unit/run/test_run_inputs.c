/* test_run_inputs.c - vectors in place of ids: a model's own give the bits of the ids, whatever a sequence went through before it
 * has the bits of a new one, rows have them too, and what cannot be is refused by its name. */
#include "base/environment.h"
#include "support/run_strategies.h"

enum { WIDEST = 64, MOST = 200 };

/* --- what ids are read as --------------------------------------------------------------------------------------------- */

static cdz_status run_embed(cdz_decoder *dec, const cdz_step *step)
{
    const uint32_t V = step->request->n_vocab;
    const cdz_ids ids = cdz_input_ids(dec, 0);
    cdz_model_facts facts = {.size = sizeof facts};
    cdz_scores scores;
    cdz_seq *plain, *given;
    CHECK(cdz_facts(dec, NULL, &facts));
    float *want = cdz_alloc(step, V * sizeof *want);
    float *vectors = cdz_alloc(step, (size_t)ids.len * facts.width * sizeof *vectors);
    CHECK(want && vectors);
    CDZ_TRY(cdz_seq_new(dec, NULL, &plain));
    CDZ_TRY(cdz_seq_append(dec, plain, ids.at, ids.len));
    CDZ_TRY(cdz_seq_forward(dec, &plain, 1, CDZ_POSITIONS_LAST, &scores));
    memcpy(want, scores.data, V * sizeof *want);
    CDZ_TRY(cdz_embed(dec, NULL, ids.at, ids.len, vectors));
    CDZ_TRY(cdz_seq_new(dec, NULL, &given));
    CDZ_TRY(cdz_seq_append(dec, given, ids.at, 3));
    CDZ_TRY(
        cdz_seq_append_embeds(dec, given, 4, vectors + 3 * facts.width, ids.len - 3, facts.width));
    CDZ_TRY(cdz_seq_forward(dec, &given, 1, CDZ_POSITIONS_LAST, &scores));
    CHECK(memcmp(want, scores.data, V * sizeof *want) == 0);
    CDZ_TRY(cdz_seq_embeds(dec, given, 5, vectors, 1, facts.width));
    CDZ_TRY(cdz_seq_forward(dec, &given, 1, CDZ_POSITIONS_LAST, &scores));
    CHECK(memcmp(want, scores.data, V * sizeof *want) != 0);
    return CDZ_OK;
}
STRATEGY(embed, run_embed, 0);

static void run_on(const char *name, const cdz_plugin_base *strategy, uint32_t len)
{
    int32_t ids[MOST];
    hand_plan plan;
    answer a;
    rig r = rig_open(name, (cdz_engine_options){.n_threads = 2});
    random_ids(ids, len, (uint32_t)vocab_of(&r), 4);
    plan_init(&plan, strategy, NULL);
    new_job(&r, &plan, ids, NULL, 1, len, 8, &a);
    const cdz_outcome *outcome = run(&r, &a);
    if (outcome->error.code != CDZ_OK) fail_msg("%s: %s", name, outcome->error.text);
    answer_free(&a);
    rig_close(&r);
}

static void a_models_own_vectors_are_its_ids(void **state)
{
    /* Scaled before and after, learned positions, a norm of what is read, recurrent layers. */
    static const char *const models[] = {"llama_gqa", "gemma2",  "gemma3", "gpt2",     "bloom",
                                         "cohere",    "granite", "mamba2", "falcon_h1"};
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        if (m < 7 || !cdz_env_named("CADENZA_DEVICE")) run_on(models[m], &embed.base, 40);
}

/* --- a function of ids and vectors ----------------------------------------------------------------------------------- */

enum { WALKERS = 4, STEPS = 60, VECTORS = 4 };

typedef struct walker {
    cdz_seq *seq;
    uint8_t of[MOST]; /* which vector a position has, from 1; 0: its id's */
} walker;

static float vectors[VECTORS][WIDEST];

static cdz_status give_all(cdz_decoder *dec, cdz_seq *seq, const walker *w, uint32_t len,
                           uint32_t width)
{
    for (uint32_t i = 0; i < len; i++)
        if (w->of[i]) CDZ_TRY(cdz_seq_embeds(dec, seq, i, vectors[w->of[i] - 1], 1, width));
    return CDZ_OK;
}

/* As a new sequence of the same ids and vectors. */
static cdz_status compare_walker(cdz_decoder *dec, const cdz_step *step, const walker *w,
                                 uint32_t width)
{
    const cdz_ids ids = cdz_seq_ids(dec, w->seq);
    cdz_seq *fresh;
    CDZ_TRY(cdz_seq_new(dec, NULL, &fresh));
    CDZ_TRY(cdz_seq_append(dec, fresh, ids.at, ids.len));
    CDZ_TRY(give_all(dec, fresh, w, ids.len, width));
    CDZ_TRY(compare_with(dec, step, w->seq, fresh));
    cdz_seq_free(dec, fresh);
    return CDZ_OK;
}

static cdz_status give_some(cdz_decoder *dec, walker *w, uint32_t len, uint32_t width,
                            uint32_t *seed)
{
    float some[5 * WIDEST];
    const uint32_t from = draw(seed, len), most = len - from < 5 ? len - from : 5;
    const uint32_t n = 1 + draw(seed, most), away = draw(seed, 3) == 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t v = draw(seed, VECTORS);
        w->of[from + i] = (uint8_t)(away ? 0 : v + 1);
        memcpy(some + (size_t)i * width, vectors[v], width * sizeof *some);
    }
    return cdz_seq_embeds(dec, w->seq, from, away ? NULL : some, n, width);
}

static cdz_status take_a_step(cdz_decoder *dec, const cdz_step *step, walker *all, uint32_t width,
                              uint32_t *seed)
{
    int32_t more[12];
    const uint32_t at = draw(seed, WALKERS), other = draw(seed, WALKERS);
    walker *w = &all[at];
    const uint32_t len = cdz_seq_ids(dec, w->seq).len, n = 1 + draw(seed, 12);
    switch (draw(seed, 5)) {
    case 0: {
        const uint32_t left = 1 + draw(seed, len);
        CDZ_TRY(cdz_seq_truncate(dec, w->seq, left));
        for (uint32_t i = left; i < MOST; i++) w->of[i] = 0; /* forgotten, whatever comes there */
        break;
    }
    case 1:
        if (at == other) break;
        cdz_seq_free(dec, w->seq);
        *w = all[other];
        CDZ_TRY(cdz_seq_fork(dec, all[other].seq, &w->seq));
        break;
    case 2:
    case 3: CDZ_TRY(give_some(dec, w, len, width, seed)); break;
    default:
        if (len + n > MOST) break;
        for (uint32_t i = 0; i < n; i++)
            more[i] = (int32_t)(3 + draw(seed, step->request->n_vocab - 3));
        CDZ_TRY(cdz_seq_append(dec, w->seq, more, n));
    }
    return compare_walker(dec, step, w, width);
}

static cdz_status run_wander(cdz_decoder *dec, const cdz_step *step)
{
    const cdz_ids ids = cdz_input_ids(dec, 0);
    cdz_model_facts facts = {.size = sizeof facts};
    walker all[WALKERS] = {0};
    uint32_t seed = 31;
    CHECK(cdz_facts(dec, NULL, &facts) && facts.width <= WIDEST);
    for (uint32_t i = 0; i < VECTORS * WIDEST; i++)
        vectors[i / WIDEST][i % WIDEST] = (float)draw(&seed, 65) / 32 - 1;
    for (uint32_t w = 0; w < WALKERS; w++) {
        CDZ_TRY(cdz_seq_new(dec, NULL, &all[w].seq));
        CDZ_TRY(cdz_seq_append(dec, all[w].seq, ids.at, ids.len / (w + 1)));
    }
    for (uint32_t s = 0; s < STEPS; s++) CDZ_TRY(take_a_step(dec, step, all, facts.width, &seed));
    return CDZ_OK;
}
STRATEGY(wander, run_wander, 0);

static void a_cache_is_that_of_ids_and_vectors(void **state)
{
    static const char *const models[] = {"llama_gqa", "mistral_sw", "gemma2", "mamba2", "falcon_h1"};
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        if (m < 3 || !cdz_env_named("CADENZA_DEVICE")) run_on(models[m], &wander.base, 70);
}

/* --- rows ------------------------------------------------------------------------------------------------------------- */

/* The row says what a sequence says that has the same vectors, before and after a token and its vector are taken back. */
static cdz_status compare_row(cdz_decoder *dec, const cdz_step *step, uint32_t at,
                              const float *vector, uint32_t width)
{
    const size_t bytes = step->request->n_vocab * sizeof(float);
    const cdz_ids ids = cdz_input_ids(dec, 0);
    float *got = cdz_scratch(step, bytes);
    cdz_scores scores;
    cdz_seq *fresh;
    CHECK(got);
    CDZ_TRY(cdz_forward(dec, &scores));
    CDZ_TRY(cdz_map(dec, &scores));
    memcpy(got, scores.data, bytes);
    CDZ_TRY(cdz_seq_new(dec, NULL, &fresh));
    CDZ_TRY(cdz_seq_append(dec, fresh, ids.at, ids.len));
    if (vector) CDZ_TRY(cdz_seq_embeds(dec, fresh, at, vector, 1, width));
    CDZ_TRY(cdz_seq_forward(dec, &fresh, 1, CDZ_POSITIONS_LAST, &scores));
    CHECK(memcmp(got, scores.data, bytes) == 0);
    cdz_seq_free(dec, fresh);
    return CDZ_OK;
}

static cdz_status run_row(cdz_decoder *dec, const cdz_step *step)
{
    static const int32_t ids[] = {9, 10, 11};
    float vector[WIDEST];
    cdz_model_facts facts = {.size = sizeof facts};
    const uint32_t len = cdz_input_ids(dec, 0).len;
    cdz_seq *row = cdz_seq_of_row(dec, 0);
    CHECK(cdz_facts(dec, NULL, &facts) && facts.width <= WIDEST);
    for (uint32_t k = 0; k < facts.width; k++) vector[k] = (float)(k % 7) / 4 - 0.5f;
    CDZ_TRY(cdz_insert(dec, 0, ids, 1, 0, "latent"));
    CDZ_TRY(cdz_seq_embeds(dec, row, len, vector, 1, facts.width));
    CDZ_TRY(compare_row(dec, step, len, vector, facts.width));
    CDZ_TRY(cdz_append(dec, 0, 12));
    CDZ_TRY(compare_row(dec, step, len, vector, facts.width));
    CDZ_TRY(cdz_rewind(dec, 0, 1)); /* the vector stays */
    CDZ_TRY(compare_row(dec, step, len, vector, facts.width));
    CDZ_TRY(cdz_rewind(dec, 0, 1)); /* and is gone */
    CDZ_TRY(cdz_insert(dec, 0, ids + 1, 2, 0, "latent"));
    CDZ_TRY(compare_row(dec, step, len, NULL, 0));
    return CDZ_OK;
}
STRATEGY(of_row, run_row, CDZ_REWINDS);

static void rows_read_vectors(void **state)
{
    (void)state;
    run_on("llama_gqa", &of_row.base, 9);
    run_on("gpt2", &of_row.base, 40);
}

/* --- what cannot be ---------------------------------------------------------------------------------------------------- */

typedef struct wrong_case {
    uint32_t from, n, width;
    float first;
    const char *sentence;
} wrong_case;

static const wrong_case *wrong;

static cdz_status run_wrong(cdz_decoder *dec, const cdz_step *step)
{
    float all[8 * WIDEST] = {0};
    (void)step;
    all[1] = wrong->first;
    return cdz_seq_embeds(dec, cdz_seq_of_row(dec, 0), wrong->from, all, wrong->n, wrong->width);
}
STRATEGY(gives_wrongly, run_wrong, 0);

static cdz_status run_unknown(cdz_decoder *dec, const cdz_step *step)
{
    const int32_t id = 1 << 30;
    float out[WIDEST];
    (void)step;
    CHECK(cdz_embed(dec, "judge", &id, 1, out) == CDZ_E_NOT_FOUND);
    return cdz_embed(dec, NULL, &id, 1, out);
}
STRATEGY(embeds_wrongly, run_unknown, 0);

static void refuse(rig *r, const cdz_plugin_base *strategy, const char *sentence)
{
    int32_t ids[4] = {5, 6, 7, 8};
    hand_plan plan;
    answer a;
    plan_init(&plan, strategy, NULL);
    new_job(r, &plan, ids, NULL, 1, 4, 1, &a);
    const cdz_outcome *outcome = run(r, &a);
    assert_int_equal(outcome->error.code, CDZ_E_PLUGIN);
    if (!strstr(outcome->error.text, sentence)) fail_msg("%s: %s", sentence, outcome->error.text);
    answer_free(&a);
}

static void no_vectors_are_refused_by_name(void **state)
{
    static const wrong_case cases[] = {
        {4, 1, 48, 0, "positions 4 to 5 of a sequence of 4; append ids for them first"},
        {UINT32_MAX, 2, 48, 0, "of a sequence of 4; append ids for them first"},
        {1, 2, 47, 0, "vectors of 47 numbers; hidden states of this model have 48"},
        {1, 1, 48, NAN, "number 1 of vector 0 is not finite"},
    };
    (void)state;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wrong = &cases[i];
        refuse(&r, &gives_wrongly.base, cases[i].sentence);
    }
    refuse(&r, &embeds_wrongly.base, "embed: token 1073741824 is outside the vocabulary of ");
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_models_own_vectors_are_its_ids),
        cmocka_unit_test(a_cache_is_that_of_ids_and_vectors),
        cmocka_unit_test(rows_read_vectors),
        cmocka_unit_test(no_vectors_are_refused_by_name),
    };
    return cmocka_run_group_tests_name("run inputs", tests, NULL, NULL);
}
