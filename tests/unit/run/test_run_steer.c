/* test_run_steer.c - edits of hidden states: the numbers that PyTorch's hooks give (tests/steer), the same bits however a sequence
 * came to its ids and edits, rows without edits as they were, and what is no edit refused by its name. */
#include "base/environment.h"
#include "support/run_strategies.h"

enum { MOST_EDITS = 8 };

/* --- as recorded ---------------------------------------------------------------------------------------------------- */

typedef struct recorded {
    const cdz_json *model, *of;
    uint32_t width;
    cdz_edit edits[MOST_EDITS];
    uint32_t n;
    float *vectors;
} recorded;

static const recorded *now; /* the case that the strategy is to replay */

static double number_of(const cdz_json *object, const char *key, double otherwise)
{
    double x = otherwise;
    const cdz_json *v = cdz_json_get(object, key);
    if (v) assert_true(cdz_json_number(v, &x));
    return x;
}

static uint32_t word_of(const cdz_json *object, const char *key, const char *const *words)
{
    uint32_t w = 0;
    while (!cdz_json_eq(cdz_json_get(object, key), words[w])) w++;
    return w;
}

static void read_case(const cdz_json *model, const cdz_json *of, recorded *c)
{
    static const char *const places[] = {"embedding", "attention", "mlp", "block"};
    static const char *const ops[] = {"add", "replace", "scale", "project_out", "call"};
    const cdz_json *vectors = cdz_json_get(model, "vectors"), *edits = cdz_json_get(of, "edits");
    *c = (recorded){.model = model, .of = of, .width = (uint32_t)vectors->items[0].len};
    c->n = (uint32_t)edits->len;
    assert_in_range(c->n, 0, MOST_EDITS);
    c->vectors = calloc(vectors->len, c->width * sizeof *c->vectors);
    for (size_t v = 0; v < vectors->len; v++)
        for (uint32_t k = 0; k < c->width; k++) {
            double x;
            assert_true(cdz_json_number(&vectors->items[v].items[k], &x));
            c->vectors[v * c->width + k] = (float)x;
        }
    for (uint32_t i = 0; i < c->n; i++) {
        const cdz_json *e = &edits->items[i];
        const int vector = (int)number_of(e, "vector", -1);
        c->edits[i] =
            (cdz_edit){.layer = (uint32_t)number_of(e, "layer", 0),
                       .place = word_of(e, "place", places),
                       .op = word_of(e, "op", ops),
                       .scale = (float)number_of(e, "scale", 1),
                       .vector = vector < 0 ? NULL : c->vectors + (size_t)vector * c->width,
                       .width = vector < 0 ? 0 : c->width,
                       .from = (uint32_t)number_of(e, "from", 0),
                       .to = (uint32_t)number_of(e, "to", 0)};
    }
}

static double dot(const float *a, const float *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t k = 0; k < n; k++) sum += (double)a[k] * b[k];
    return sum;
}

/* What make_steer.py calls a call. */
static cdz_status keep_within(const cdz_step *step, const cdz_hidden_chunk *hidden)
{
    const cdz_edit *e = hidden->edit;
    (void)step;
    for (uint32_t p = 0; p < hidden->n; p++) {
        float *h = hidden->h + (size_t)p * hidden->width;
        const float *v = e->vector;
        const double excess = v ? dot(h, v, hidden->width) / dot(v, v, hidden->width) - e->scale : 0;
        const double share = v ? 1 : e->scale / sqrt(dot(h, h, hidden->width));
        for (uint32_t k = 0; share < 1 && k < hidden->width; k++) h[k] = (float)(h[k] * share);
        for (uint32_t k = 0; excess > 0 && k < hidden->width; k++) h[k] -= (float)(excess * v[k]);
    }
    return CDZ_OK;
}

static cdz_status run_recorded(cdz_decoder *dec, const cdz_step *step)
{
    const cdz_json *want = cdz_json_get(now->of, "logits");
    const cdz_ids ids = cdz_input_ids(dec, 0);
    cdz_scores scores;
    cdz_seq *seq;
    CDZ_TRY(cdz_seq_new(dec, NULL, &seq));
    CDZ_TRY(cdz_seq_append(dec, seq, ids.at, ids.len));
    CDZ_TRY(cdz_on_hidden(dec, step, keep_within, NULL));
    CDZ_TRY(cdz_seq_steer(dec, seq, now->edits, now->n));
    CDZ_TRY(cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_LAST, &scores));
    for (uint32_t v = 0; v < scores.n_vocab; v++) {
        double x;
        CHECK(cdz_json_number(&want->items[v], &x));
        if (fabs(scores.data[v] - x) > 1e-4 + 1e-4 * fabs(x))
            return SAY("score %u is %g, recorded %g", v, (double)scores.data[v], x);
    }
    return CDZ_OK;
}
STRATEGY(replay_recorded, run_recorded, 0);

static void replay_model(const cdz_json *model)
{
    char name[64];
    const cdz_json *told = cdz_json_get(model, "name"), *cases = cdz_json_get(model, "cases"),
                   *given = cdz_json_get(model, "ids");
    snprintf(name, sizeof name, "%.*s", (int)told->len, told->string);
    int32_t ids[64];
    const uint32_t len = (uint32_t)given->len;
    for (uint32_t i = 0; i < len; i++) ids[i] = (int32_t)given->items[i].integer;
    rig r = rig_open(name, (cdz_engine_options){.n_threads = 1});
    for (size_t i = 0; i < cases->len; i++) {
        recorded c;
        hand_plan plan;
        answer a;
        read_case(model, &cases->items[i], &c);
        now = &c;
        plan_init(&plan, &replay_recorded.base, NULL);
        new_job(&r, &plan, ids, NULL, 1, len, 1, &a);
        const cdz_outcome *outcome = run(&r, &a);
        if (outcome->error.code != CDZ_OK)
            fail_msg("%s, case %zu: %s", name, i, outcome->error.text);
        answer_free(&a);
        free(c.vectors);
    }
    rig_close(&r);
}

static void hooks_of_pytorch(void **state)
{
    cdz_arena arena = {0};
    cdz_json all;
    cdz_error err = {0};
    (void)state;
    must(cdz_json_read_file(CADENZA_TEST_DATA "/steer/cases.json", 4 << 20, NULL, &arena, &all,
                            &err),
         &err);
    const cdz_json *models = cdz_json_get(&all, "models");
    const bool device = cdz_env_named("CADENZA_DEVICE") != NULL;
    assert_int_equal(models->len, 9);
    for (size_t m = 0; m < models->len; m++) {
        const cdz_json *model = &models->items[m];
        const cdz_json *name = cdz_json_get(model, "name");
        const bool recurs = cdz_json_eq(name, "mamba2") || cdz_json_eq(name, "lfm2");
        if (!device || !recurs) replay_model(model); /* recurrent layers run on the CPU alone */
    }
    cdz_arena_free(&arena);
}

/* --- a function of ids and edits ----------------------------------------------------------------------------------- */

enum { WIDEST = 64, WALKERS = 4, STEPS = 50 };

typedef struct walker {
    cdz_seq *seq;
    cdz_edit edits[MOST_EDITS];
    uint32_t n;
} walker;

static float vectors[4][WIDEST];

/* Up to three edits, of places that every layer of these models has. */
static void draw_edits(walker *w, const cdz_model_facts *facts, uint32_t *seed)
{
    static const uint32_t places[] = {CDZ_EDIT_EMBEDDING, CDZ_EDIT_ATTENTION, CDZ_EDIT_BLOCK,
                                      CDZ_EDIT_BLOCK};
    w->n = draw(seed, 4);
    for (uint32_t i = 0; i < w->n; i++) {
        const uint32_t place = places[draw(seed, 4)];
        w->edits[i] = (cdz_edit){.layer = place ? draw(seed, facts->n_layers) : 0,
                                 .place = place,
                                 .op = draw(seed, 5),
                                 .scale = (float)draw(seed, 5) / 2 - 1,
                                 .vector = vectors[draw(seed, 4)],
                                 .width = facts->width,
                                 .from = draw(seed, 60)};
        if (draw(seed, 2)) w->edits[i].to = w->edits[i].from + 1 + draw(seed, 30);
    }
}

static cdz_status take_a_step(cdz_decoder *dec, const cdz_step *step, walker *all, uint32_t *seed)
{
    cdz_model_facts facts = {.size = sizeof facts};
    int32_t more[20];
    const uint32_t at = draw(seed, WALKERS), other = draw(seed, WALKERS);
    walker *w = &all[at];
    const uint32_t len = cdz_seq_ids(dec, w->seq).len, n = 1 + draw(seed, 20);
    CHECK(cdz_facts(dec, NULL, &facts));
    switch (draw(seed, 4)) {
    case 0: CDZ_TRY(cdz_seq_truncate(dec, w->seq, 1 + draw(seed, len))); break;
    case 1:
        if (at == other) break;
        cdz_seq_free(dec, w->seq);
        *w = all[other];
        CDZ_TRY(cdz_seq_fork(dec, all[other].seq, &w->seq));
        break;
    case 2:
        draw_edits(w, &facts, seed);
        CDZ_TRY(cdz_seq_steer(dec, w->seq, w->edits, w->n));
        break;
    default:
        for (uint32_t i = 0; i < n; i++)
            more[i] = (int32_t)(3 + draw(seed, step->request->n_vocab - 3));
        CDZ_TRY(cdz_seq_append(dec, w->seq, more, n));
    }
    return compare_with_new(dec, step, w->seq, w->edits, w->n);
}

static cdz_status run_wander(cdz_decoder *dec, const cdz_step *step)
{
    const cdz_ids ids = cdz_input_ids(dec, 0);
    walker all[WALKERS] = {0};
    uint32_t seed = 29;
    CDZ_TRY(cdz_on_hidden(dec, step, keep_within, NULL));
    for (uint32_t i = 0; i < 4 * WIDEST; i++)
        vectors[i / WIDEST][i % WIDEST] = (float)draw(&seed, 65) / 32 - 1;
    for (uint32_t w = 0; w < WALKERS; w++) {
        CDZ_TRY(cdz_seq_new(dec, NULL, &all[w].seq));
        CDZ_TRY(cdz_seq_append(dec, all[w].seq, ids.at, ids.len / (w + 1)));
    }
    for (uint32_t s = 0; s < STEPS; s++) CDZ_TRY(take_a_step(dec, step, all, &seed));
    return CDZ_OK;
}
STRATEGY(wander, run_wander, 0);

static void a_cache_is_that_of_ids_and_edits(void **state)
{
    static const char *const models[] = {"llama_gqa", "mistral_sw", "mixtral",
                                         "phi",       "mamba2",     "falcon_h1"};
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        int32_t ids[70];
        hand_plan plan;
        answer a;
        if (m >= 4 && cdz_env_named("CADENZA_DEVICE")) continue;
        rig r = rig_open(models[m], (cdz_engine_options){.n_threads = 2});
        random_ids(ids, 70, (uint32_t)vocab_of(&r), 4);
        plan_init(&plan, &wander.base, NULL);
        new_job(&r, &plan, ids, NULL, 1, 70, 1, &a);
        const cdz_outcome *outcome = run(&r, &a);
        if (outcome->error.code != CDZ_OK) fail_msg("%s: %s", models[m], outcome->error.text);
        answer_free(&a);
        rig_close(&r);
    }
}

/* --- processors, and company ----------------------------------------------------------------------------------------- */

static cdz_status leave(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    return CDZ_OK;
}

/* Row after row other edits; the list is gone when the call has returned. */
static cdz_status steer(const cdz_step *step, const cdz_steered *row, const cdz_edit **edits,
                        uint32_t *n)
{
    static cdz_edit list[2];
    static float v[WIDEST];
    if (row->width > WIDEST) return SAY("width %u", row->width);
    for (uint32_t k = 0; k < row->width; k++) v[k] = (float)((k * 7 + row->row) % 5) - 2;
    list[0] = (cdz_edit){.layer = row->n_layers - 1,
                         .place = CDZ_EDIT_BLOCK,
                         .op = CDZ_EDIT_ADD,
                         .scale = 0.5f,
                         .vector = v,
                         .width = row->width};
    list[1] = (cdz_edit){.layer = 0,
                         .place = CDZ_EDIT_ATTENTION,
                         .op = CDZ_EDIT_SCALE,
                         .scale = 0.5f,
                         .from = row->prompt_len};
    *edits = list;
    *n = 2;
    return CDZ_OK;
}

static const cdz_steer_api table = {.size = sizeof table, .steer = steer};
static const void *extension(const char *id)
{
    return strcmp(id, CDZ_EXT_STEER) == 0 ? &table : NULL;
}
static const cdz_processor steering = {.base = {CDZ_PROCESSOR_BASE, .id = "test.steering",
                                                .version = "1.0.0", .summary = "steers",
                                                .extension = extension},
                                       .caps = CDZ_ROWWISE,
                                       .apply = leave};

enum { N = 8 };

static void add_processor(hand_plan *plan, bool steers)
{
    if (!steers) return;
    plan_add_processor(plan, &steering, NULL);
    plan->processors[0].offers.steer = &table;
}

static void rows_beside_edited_ones_keep_their_bits(void **state)
{
    hand_plan plans[N];
    answer alone[N], beside[N];
    bool differs = false;
    (void)state;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 2});
    const uint32_t V = (uint32_t)vocab_of(&r);
    for (uint32_t turn = 0; turn < 2; turn++)
        for (uint32_t i = 0; i < N; i++) {
            int32_t ids[2 * 48];
            const uint32_t len = 3 + i / 2 * 11, rows = 1 + i / 2 % 2;
            random_ids(ids, rows * len, V, i / 2); /* each prompt steered and not */
            plan_init(&plans[i], built_plugin("greedy"), NULL);
            add_processor(&plans[i], i % 2);
            plan_add_criterion(&plans[i], &length_rule, NULL);
            answer *a = turn ? &beside[i] : &alone[i];
            new_job(&r, &plans[i], ids, NULL, rows, len, 6, a)->keep_scores = true;
            submit(&r, a);
            if (!turn) await_well(a);
        }
    for (uint32_t i = 0; i < N; i++) {
        const cdz_outcome *x = alone[i].outcome, *y = await_well(&beside[i]);
        assert_int_equal(x->n_steps, y->n_steps);
        for (uint32_t s = 0; s < x->n_steps; s++)
            assert_memory_equal(x->steps[s].scores, y->steps[s].scores,
                                (size_t)x->n_rows * V * sizeof(float));
        if (i % 2)
            differs |= memcmp(x->steps[0].scores, alone[i - 1].outcome->steps[0].scores,
                              V * sizeof(float)) != 0;
    }
    assert_true(differs);
    for (uint32_t i = 0; i < N; i++) {
        answer_free(&alone[i]);
        answer_free(&beside[i]);
    }
    rig_close(&r);
}

/* --- what is no edit -------------------------------------------------------------------------------------------------- */

static const float zero[WIDEST], infinite[WIDEST] = {INFINITY}, one[WIDEST] = {1};
static cdz_edit wrong;

static cdz_status run_wrong(cdz_decoder *dec, const cdz_step *step)
{
    cdz_seq *seq = cdz_seq_of_row(dec, 0);
    (void)step;
    return cdz_seq_steer(dec, seq, &wrong, 1);
}
STRATEGY(steers_wrongly, run_wrong, 0);

static void no_edits_are_refused_by_name(void **state)
{
    static const struct {
        cdz_edit edit; /* layer, place, op, scale, vector, its width, from, to */
        const char *sentence;
    } cases[] = {
        {{3, CDZ_EDIT_BLOCK, 0, 1, one, 48, 0, 0},
         "edit 0: layer 3 of a model with 3 layers, counted from 0"},
        {{1, CDZ_EDIT_EMBEDDING, 0, 1, one, 48, 0, 0},
         "edit 0: the embedding of layer 1; expected layer 0"},
        {{0, 4, 0, 1, one, 48, 0, 0},
         "edit 0: place 4; expected embedding, attention, mlp or block"},
        {{0, 0, 9, 1, one, 48, 0, 0},
         "edit 0: op 9; expected add, replace, scale, project_out or call"},
        {{0, 0, CDZ_EDIT_CALL, 1, NULL, 0, 0, 0},
         "edit 0 is a call, and there is no on_hidden to be called"},
        {{0, 0, 0, 1, one, 48, 5, 5}, "edit 0: positions from 5 to 5 are none"},
        {{0, 0, 0, 1, one, 47, 0, 0},
         "edit 0: a vector of 47 numbers; hidden states of this model have 48"},
        {{0, 0, 0, 1, NULL, 0, 0, 0}, "edit 0 has no vector"},
        {{0, 0, 0, NAN, one, 48, 0, 0}, "edit 0: scale is not finite"},
        {{0, 0, 0, 1, infinite, 48, 0, 0}, "edit 0: number 0 of its vector is not finite"},
        {{0, 0, CDZ_EDIT_PROJECT_OUT, 1, zero, 48, 0, 0},
         "edit 0: its vector is zero, which is no direction"},
    };
    int32_t ids[4] = {5, 6, 7, 8};
    (void)state;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hand_plan plan;
        answer a;
        wrong = cases[i].edit;
        plan_init(&plan, &steers_wrongly.base, NULL);
        new_job(&r, &plan, ids, NULL, 1, 4, 1, &a);
        const cdz_outcome *outcome = run(&r, &a);
        assert_int_equal(outcome->error.code, CDZ_E_PLUGIN);
        if (!strstr(outcome->error.text, cases[i].sentence))
            fail_msg("%s: %s", cases[i].sentence, outcome->error.text);
        answer_free(&a);
    }
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hooks_of_pytorch),
        cmocka_unit_test(a_cache_is_that_of_ids_and_edits),
        cmocka_unit_test(rows_beside_edited_ones_keep_their_bits),
        cmocka_unit_test(no_edits_are_refused_by_name),
    };
    return cmocka_run_group_tests_name("run steer", tests, NULL, NULL);
}
