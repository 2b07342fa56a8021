/* test_run_drop.c - positions taken out of caches: the numbers that transformers has with the same entries cut out of its cache
 * (tests/drop), the same bits however a sequence came to its ids and drops, memory that comes back at once, requests longer than
 * memory, and what cannot be dropped refused by its name. */
#include "base/environment.h"
#include "cadenza/ext/kv.h"
#include "support/run_strategies.h"

static double number_at(const cdz_json *list, size_t i)
{
    double x = 0;
    assert_true(i < list->len && cdz_json_number(&list->items[i], &x));
    return x;
}

static bool near(double got, double want, double allowed)
{
    return fabs(got - want) <= allowed + allowed * fabs(want);
}

/* --- as recorded ---------------------------------------------------------------------------------------------------- */

static const cdz_json *now; /* the case that the strategy is to replay */

static cdz_status check_kv(cdz_decoder *dec, const cdz_step *step, cdz_seq *seq)
{
    const cdz_json *held = cdz_json_get(now, "held"), *keys = cdz_json_get(now, "keys"),
                   *values = cdz_json_get(now, "values");
    const uint32_t layer = (uint32_t)cdz_json_get(now, "layer")->integer,
                   head = (uint32_t)cdz_json_get(now, "head")->integer;
    cdz_kv_entries e = {.size = sizeof e};
    CDZ_TRY(cdz_seq_kv(dec, step, seq, layer, head, 0, cdz_seq_length(dec, seq), &e));
    if (e.n != held->len) return SAY("%u entries, recorded %u", e.n, held->len);
    for (uint32_t i = 0; i < e.n; i++) {
        if (e.positions[i] != (uint32_t)number_at(held, i))
            return SAY("entry %u is of position %u", i, e.positions[i]);
        for (uint32_t d = 0; i % 4 == 0 && d < e.head_dim; d++) {
            const size_t at = (size_t)i * e.head_dim + d;
            if (!near((double)e.keys[at], number_at(&keys->items[i / 4], d), 1e-4) ||
                !near((double)e.values[at], number_at(&values->items[i / 4], d), 1e-4))
                return SAY("number %u of entry %u is %g, %g", d, i, (double)e.keys[at],
                           (double)e.values[at]);
        }
    }
    return CDZ_OK;
}

static cdz_status check_attention(cdz_decoder *dec, const cdz_step *step, cdz_seq *seq)
{
    const cdz_json *held = cdz_json_get(now, "held"), *want = cdz_json_get(now, "attention");
    const uint32_t layer = (uint32_t)cdz_json_get(now, "layer")->integer;
    cdz_attention_rows rows = {.size = sizeof rows};
    uint32_t next = 0;
    CDZ_TRY(cdz_seq_attention(dec, step, seq, 1, &layer, 1, &rows));
    const float *row = rows.data + (size_t)(rows.n_heads - 1) * rows.n_keys;
    for (uint32_t p = 0; p < rows.n_keys; p++) {
        const bool is_held = next < held->len && (uint32_t)number_at(held, next) == p;
        const double expected = is_held ? number_at(want, next++) : 0;
        if (!near((double)row[p], expected, 1e-4))
            return SAY("position %u gets %g, recorded %g", p, (double)row[p], expected);
    }
    CHECK(next == held->len);
    return CDZ_OK;
}

static cdz_status run_recorded(cdz_decoder *dec, const cdz_step *step)
{
    const cdz_json *drops = cdz_json_get(now, "drops"), *logits = cdz_json_get(now, "logits");
    const cdz_ids ids = cdz_input_ids(dec, 0);
    const uint32_t flags = cdz_json_get(now, "renumber")->boolean ? CDZ_DROP_RENUMBER : 0;
    cdz_scores scores;
    cdz_seq *seq;
    uint32_t read = 0;
    CDZ_TRY(cdz_seq_new(dec, NULL, &seq));
    for (size_t i = 0; i < drops->len; i++) {
        const uint32_t at = (uint32_t)number_at(&drops->items[i], 0);
        CDZ_TRY(cdz_seq_append(dec, seq, ids.at + read, at - read));
        CDZ_TRY(cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_NONE, NULL));
        CDZ_TRY(cdz_seq_drop(dec, step, seq, (uint32_t)number_at(&drops->items[i], 1),
                             (uint32_t)number_at(&drops->items[i], 2), flags));
        read = at;
    }
    CDZ_TRY(cdz_seq_append(dec, seq, ids.at + read, ids.len - read));
    CDZ_TRY(cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_LAST, &scores));
    for (uint32_t v = 0; v < logits->len; v++)
        if (!near((double)scores.data[v], number_at(logits, v), 1e-4))
            return SAY("score %u is %g, recorded %g", v, (double)scores.data[v],
                       number_at(logits, v));
    CDZ_TRY(check_kv(dec, step, seq));
    return check_attention(dec, step, seq);
}
STRATEGY(replay_recorded, run_recorded, 0);

/* What a row's cache holds at the end: all that was read, which is all but the newest token. */
static void check_plain(const rig *r, const cdz_json *plain)
{
    int32_t ids[16];
    hand_plan plan;
    answer a;
    const cdz_json *given = cdz_json_get(plain, "ids"), *keys = cdz_json_get(plain, "keys"),
                   *values = cdz_json_get(plain, "values");
    const uint32_t n = (uint32_t)given->len;
    assert_in_range(n, 1, 16);
    for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)given->items[i].integer;
    plan_init(&plan, built_plugin("greedy"), NULL);
    plan_add_criterion(&plan, &length_rule, NULL);
    new_job(r, &plan, ids, NULL, 1, n, 1, &a)->keep_kv = true;
    const cdz_outcome *o = run_well(r, &a);
    assert_int_equal(o->n_rows_kv, 1);
    for (size_t layer = 0; layer < keys->len; layer++) {
        assert_int_equal(o->kv->n[layer], n);
        for (size_t i = 0; i < keys->items[layer].len; i++) {
            assert_true(
                near((double)o->kv->keys[layer][i], number_at(&keys->items[layer], i), 1e-4));
            assert_true(
                near((double)o->kv->values[layer][i], number_at(&values->items[layer], i), 1e-4));
        }
        for (uint32_t i = 0; i < n; i++) assert_true(o->kv->positions[layer][i] == (float)i);
    }
    answer_free(&a);
}

static void replay_model(const cdz_json *model)
{
    char name[64];
    int32_t ids[128];
    const cdz_json *told = cdz_json_get(model, "name"), *cases = cdz_json_get(model, "cases"),
                   *given = cdz_json_get(model, "ids");
    snprintf(name, sizeof name, "%.*s", (int)told->len, told->string);
    const uint32_t len = (uint32_t)given->len;
    assert_in_range(len, 1, 128);
    for (uint32_t i = 0; i < len; i++) ids[i] = (int32_t)given->items[i].integer;
    rig r = rig_open(name, (cdz_engine_options){.n_threads = 2});
    check_plain(&r, cdz_json_get(model, "plain"));
    for (size_t i = 0; i < cases->len; i++) {
        hand_plan plan;
        answer a;
        now = &cases->items[i];
        plan_init(&plan, &replay_recorded.base, NULL);
        new_job(&r, &plan, ids, NULL, 1, len, 1, &a);
        const cdz_outcome *outcome = run(&r, &a);
        if (outcome->error.code != CDZ_OK)
            fail_msg("%s, case %zu: %s", name, i, outcome->error.text);
        answer_free(&a);
    }
    rig_close(&r);
}

static void caches_of_transformers(void **state)
{
    cdz_arena arena = {0};
    cdz_json all;
    cdz_error err = {0};
    (void)state;
    must(cdz_json_read_file(CADENZA_TEST_DATA "/drop/cases.json", 4 << 20, NULL, &arena, &all, &err),
         &err);
    const cdz_json *models = cdz_json_get(&all, "models");
    assert_int_equal(models->len, 5);
    for (size_t m = 0; m < models->len; m++) replay_model(&models->items[m]);
    cdz_arena_free(&arena);
}

/* --- a function of ids and drops ------------------------------------------------------------------------------------- */

enum { WALKERS = 4, STEPS = 60, MOST_DROPS = 64 };

typedef struct taken {
    uint32_t at, from, to;
} taken;

typedef struct walker {
    cdz_seq *seq;
    taken drops[MOST_DROPS];
    uint32_t n;
} walker;

static uint32_t flags_of_walk;

/* What a new sequence says that reads the ids piece by piece, with the drops between them. */
static cdz_status compare(cdz_decoder *dec, const cdz_step *step, const walker *w)
{
    const cdz_ids ids = cdz_seq_ids(dec, w->seq);
    cdz_seq *fresh;
    uint32_t read = 0;
    CDZ_TRY(cdz_seq_new(dec, NULL, &fresh));
    for (uint32_t i = 0; i < w->n; i++) {
        CDZ_TRY(cdz_seq_append(dec, fresh, ids.at + read, w->drops[i].at - read));
        CDZ_TRY(cdz_seq_forward(dec, &fresh, 1, CDZ_POSITIONS_NONE, NULL));
        CDZ_TRY(cdz_seq_drop(dec, step, fresh, w->drops[i].from, w->drops[i].to, flags_of_walk));
        read = w->drops[i].at;
    }
    CDZ_TRY(cdz_seq_append(dec, fresh, ids.at + read, ids.len - read));
    CDZ_TRY(compare_with(dec, step, w->seq, fresh));
    cdz_seq_free(dec, fresh);
    return CDZ_OK;
}

/* Of all that has been read, which is what the newest comparison has left: all. */
static cdz_status drop_some(cdz_decoder *dec, const cdz_step *step, walker *w, uint32_t *seed)
{
    const uint32_t len = cdz_seq_length(dec, w->seq), from = draw(seed, len);
    const uint32_t to = from + 1 + draw(seed, len - from);
    if (w->n == MOST_DROPS) return CDZ_OK;
    w->drops[w->n++] = (taken){len, from, to};
    return cdz_seq_drop(dec, step, w->seq, from, to, flags_of_walk);
}

static cdz_status take_a_step(cdz_decoder *dec, const cdz_step *step, walker *all, uint32_t *seed)
{
    int32_t more[20];
    const uint32_t at = draw(seed, WALKERS), other = draw(seed, WALKERS), way = draw(seed, 5);
    walker *w = &all[at];
    const uint32_t n = 1 + draw(seed, 20);
    if (way == 0) {
        const uint32_t len = 1 + draw(seed, cdz_seq_ids(dec, w->seq).len);
        CDZ_TRY(cdz_seq_truncate(dec, w->seq, len));
        while (w->n && w->drops[w->n - 1].at > len) w->n--;
    } else if (way == 1 && at != other) {
        cdz_seq_free(dec, w->seq);
        *w = all[other];
        CDZ_TRY(cdz_seq_fork(dec, all[other].seq, &w->seq));
    } else if (way == 2) {
        CDZ_TRY(drop_some(dec, step, w, seed));
    } else {
        for (uint32_t i = 0; i < n; i++)
            more[i] = (int32_t)(3 + draw(seed, step->request->n_vocab - 3));
        CDZ_TRY(cdz_seq_append(dec, w->seq, more, n));
    }
    return compare(dec, step, w);
}

static cdz_status run_wander(cdz_decoder *dec, const cdz_step *step)
{
    const cdz_ids ids = cdz_input_ids(dec, 0);
    walker all[WALKERS] = {0};
    uint32_t seed = 31;
    for (uint32_t w = 0; w < WALKERS; w++) {
        CDZ_TRY(cdz_seq_new(dec, NULL, &all[w].seq));
        CDZ_TRY(cdz_seq_append(dec, all[w].seq, ids.at, ids.len / (w + 1)));
        CDZ_TRY(cdz_seq_forward(dec, &all[w].seq, 1, CDZ_POSITIONS_NONE, NULL));
    }
    for (uint32_t s = 0; s < STEPS; s++) CDZ_TRY(take_a_step(dec, step, all, &seed));
    return CDZ_OK;
}
STRATEGY(wander, run_wander, 0);

static void a_cache_is_that_of_ids_and_drops(void **state)
{
    static const struct {
        const char *model;
        uint32_t flags;
    } walks[] = {{"llama_gqa", 0},
                 {"llama_gqa", CDZ_DROP_RENUMBER},
                 {"gemma2", 0},
                 {"gemma2", CDZ_DROP_RENUMBER},
                 {"mistral_sw", CDZ_DROP_RENUMBER},
                 {"phi", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof walks / sizeof *walks; i++) {
        int32_t ids[70];
        hand_plan plan;
        answer a;
        rig r = rig_open(walks[i].model, (cdz_engine_options){.n_threads = 2});
        flags_of_walk = walks[i].flags;
        random_ids(ids, 70, (uint32_t)vocab_of(&r), 4);
        plan_init(&plan, &wander.base, NULL);
        new_job(&r, &plan, ids, NULL, 1, 70, 1, &a);
        const cdz_outcome *outcome = run(&r, &a);
        if (outcome->error.code != CDZ_OK)
            fail_msg("%s, %u: %s", walks[i].model, walks[i].flags, outcome->error.text);
        answer_free(&a);
        rig_close(&r);
    }
}

/* --- rows that go on without end --------------------------------------------------------------------------------------- */

enum { SINKS = 4, WINDOW = 60, EVERY = 16, BLOCK_BYTES = 3 * 2 * 2 * 12 * 32 * 4 };

static const void *offers_kv(const char *id)
{
    static const cdz_kv_api api = {.size = sizeof api};
    return cdz_is_kv(id) ? &api : NULL;
}

/* Greedy, keeping the first positions and a window. */
static cdz_status run_stream(cdz_decoder *dec, const cdz_step *step)
{
    cdz_scores scores;
    int32_t tokens[4];
    while (!cdz_done(dec)) {
        CDZ_TRY(cdz_forward(dec, &scores));
        for (uint32_t r = 0; r < step->n_rows; r++) {
            cdz_seq *seq = cdz_seq_of_row(dec, r);
            const uint32_t n = cdz_seq_length(dec, seq);
            if (n > SINKS + WINDOW && n % EVERY == 0)
                CDZ_TRY(cdz_seq_drop(dec, step, seq, SINKS, n - WINDOW, CDZ_DROP_RENUMBER));
        }
        CDZ_TRY(cdz_process(dec, &scores));
        CDZ_TRY(cdz_argmax_rows(dec, &scores, tokens));
        CDZ_TRY(cdz_append_rows(dec, tokens));
    }
    return CDZ_OK;
}
static const cdz_strategy stream = {.base = {CDZ_STRATEGY_BASE, .id = "test.stream",
                                             .version = "1.0.0", .summary = "goes on",
                                             .extension = offers_kv},
                                    .run = run_stream};
STRATEGY(big_stream, run_stream, 0);

static cdz_job *stream_job(rig *r, hand_plan *plan, const cdz_strategy *how, uint32_t len,
                           uint32_t n_new, uint32_t seed, answer *a)
{
    static const cdz_kv_api api = {.size = sizeof api};
    int32_t ids[2 * 40];
    random_ids(ids, 2 * len, (uint32_t)vocab_of(r), seed);
    plan_init(plan, &how->base, NULL);
    plan->plan.strategy.offers.kv = how->base.extension ? &api : NULL;
    plan_add_criterion(plan, &length_rule, NULL);
    return new_job(r, plan, ids, NULL, 2, len, n_new, a);
}

static void same_tokens(const answer *a, const answer *b)
{
    for (uint32_t row = 0; row < a->outcome->n_rows; row++) {
        const cdz_outcome_row *x = &a->outcome->rows[row], *y = &b->outcome->rows[row];
        assert_int_equal(x->len, y->len);
        assert_memory_equal(x->ids, y->ids, x->len * sizeof *x->ids);
    }
}

/* Two rows of 1,000 tokens in 14 blocks of 32 positions; who does not say that it drops is refused. */
static void more_tokens_than_memory(void **state)
{
    hand_plan plan, wide, refused;
    answer a, b, c;
    (void)state;
    rig small = rig_open("llama_gqa", (cdz_engine_options){.kv_bytes = 14 * BLOCK_BYTES}),
        large = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 2});
    stream_job(&small, &plan, &stream, 40, 960, 5, &a);
    stream_job(&large, &wide, &stream, 40, 960, 5, &b);
    assert_int_equal(run_well(&small, &a)->rows[0].len, 1000);
    (void)run_well(&large, &b);
    same_tokens(&a, &b);
    cdz_engine_stats stats;
    cdz_engine_get_stats(small.engine, &stats);
    assert_in_range(stats.kv_blocks_peak, 4, 14);
    stream_job(&small, &refused, &big_stream, 40, 960, 5, &c);
    cdz_error err = {0};
    c.job->on_done = NULL;
    c.job->plan = NULL;
    assert_int_equal(cdz_engine_submit(small.engine, c.job, &c.id, &err), CDZ_E_LIMIT);
    answer_free(&c);
    answer_free(&a);
    answer_free(&b);
    rig_close(&small);
    rig_close(&large);
}

/* Blocks are taken from the younger ones again and again, and their caches are read, and cut, once more. */
static void company_changes_nothing(void **state)
{
    enum { N = 4 };
    hand_plan plans[2][N];
    answer alone[N], beside[N];
    (void)state;
    rig large = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 2}),
        small = rig_open("llama_gqa", (cdz_engine_options){.kv_bytes = 10 * BLOCK_BYTES});
    for (uint32_t i = 0; i < N; i++) {
        stream_job(&large, &plans[0][i], &stream, 10, 150, i, &alone[i]);
        (void)run_well(&large, &alone[i]);
    }
    for (uint32_t i = 0; i < N; i++) {
        stream_job(&small, &plans[1][i], &stream, 10, 150, i, &beside[i]);
        submit(&small, &beside[i]);
    }
    for (uint32_t i = 0; i < N; i++) {
        (void)await_well(&beside[i]);
        same_tokens(&alone[i], &beside[i]);
    }
    cdz_engine_stats stats;
    cdz_engine_get_stats(small.engine, &stats);
    assert_true(stats.preemptions > 0);
    for (uint32_t i = 0; i < N; i++) {
        answer_free(&alone[i]);
        answer_free(&beside[i]);
    }
    rig_close(&large);
    rig_close(&small);
}

/* --- rows, drafts, beams ------------------------------------------------------------------------------------------------ */

/* A row that is copied has the drops of the one it becomes; tokens taken back to before a drop take it back. */
static cdz_status run_rows(cdz_decoder *dec, const cdz_step *step)
{
    static const uint32_t parents[] = {1, 1};
    int32_t tokens[] = {7, 8};
    cdz_scores scores;
    CDZ_TRY(cdz_forward(dec, &scores));
    CDZ_TRY(cdz_append_rows(dec, tokens));
    CDZ_TRY(cdz_forward(dec, &scores));
    cdz_seq *seq = cdz_seq_of_row(dec, 1);
    walker w = {.n = 1, .drops = {{cdz_seq_length(dec, seq), 3, 30}}};
    CDZ_TRY(cdz_seq_drop(dec, step, seq, 3, 30, flags_of_walk));
    CDZ_TRY(cdz_append_rows(dec, tokens));
    CDZ_TRY(cdz_reorder(dec, parents));
    CDZ_TRY(cdz_forward(dec, &scores));
    CHECK(same_floats(cdz_row(&scores, 0), cdz_row(&scores, 1), scores.n_vocab));
    CDZ_TRY(cdz_seq_fork(dec, cdz_seq_of_row(dec, 0), &w.seq));
    CDZ_TRY(compare(dec, step, &w));
    CDZ_TRY(cdz_rewind(dec, 0, 2));
    CDZ_TRY(cdz_seq_fork(dec, cdz_seq_of_row(dec, 0), &w.seq));
    w.n = 0;
    return compare(dec, step, &w);
}
STRATEGY(rows_of_drops, run_rows, CDZ_REWINDS | CDZ_BEAMS);

static void copies_have_the_drops(void **state)
{
    (void)state;
    for (flags_of_walk = 0; flags_of_walk <= CDZ_DROP_RENUMBER; flags_of_walk++) {
        int32_t ids[2 * 50];
        hand_plan plan;
        answer a;
        rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 2});
        random_ids(ids, 2 * 50, (uint32_t)vocab_of(&r), 9);
        plan_init(&plan, &rows_of_drops.base, NULL);
        plan_add_processor(&plan, &hash_rows, NULL);
        new_job(&r, &plan, ids, NULL, 2, 50, 8, &a);
        (void)run_well(&r, &a);
        answer_free(&a);
        rig_close(&r);
    }
}

/* --- what cannot be dropped, or seen --------------------------------------------------------------------------------------- */

typedef cdz_status attempt(cdz_decoder *dec, const cdz_step *step, cdz_seq *row);

static attempt *tried;

static cdz_status run_attempt(cdz_decoder *dec, const cdz_step *step)
{
    cdz_scores scores;
    CDZ_TRY(cdz_forward(dec, &scores));
    return tried(dec, step, cdz_seq_of_row(dec, 0));
}
STRATEGY(attempts, run_attempt, 0);

static cdz_status keep(cdz_decoder *dec, const cdz_step *step, cdz_seq *row)
{
    return cdz_seq_drop(dec, step, row, 1, 2, 0);
}

static cdz_status renumber(cdz_decoder *dec, const cdz_step *step, cdz_seq *row)
{
    return cdz_seq_drop(dec, step, row, 1, 2, CDZ_DROP_RENUMBER);
}

static cdz_status both(cdz_decoder *dec, const cdz_step *step, cdz_seq *row)
{
    CDZ_TRY(renumber(dec, step, row));
    return cdz_seq_drop(dec, step, row, 3, 4, 0);
}

static cdz_status too_far(cdz_decoder *dec, const cdz_step *step, cdz_seq *row)
{
    return cdz_seq_drop(dec, step, row, 5, 7, 0);
}

static cdz_status nothing(cdz_decoder *dec, const cdz_step *step, cdz_seq *row)
{
    return cdz_seq_drop(dec, step, row, 2, 2, 0);
}

static cdz_status unknown_flag(cdz_decoder *dec, const cdz_step *step, cdz_seq *row)
{
    return cdz_seq_drop(dec, step, row, 1, 2, 6);
}

static cdz_status no_layer(cdz_decoder *dec, const cdz_step *step, cdz_seq *row)
{
    cdz_kv_entries e;
    return cdz_seq_kv(dec, step, row, 3, 0, 0, 1, &e);
}

static cdz_status no_head(cdz_decoder *dec, const cdz_step *step, cdz_seq *row)
{
    cdz_kv_entries e;
    return cdz_seq_kv(dec, step, row, 0, 2, 0, 1, &e);
}

static cdz_status look_behind(cdz_decoder *dec, const cdz_step *step, cdz_seq *row)
{
    static const uint32_t layer = 1;
    cdz_attention_rows rows;
    CDZ_TRY(keep(dec, step, row));
    return cdz_seq_attention(dec, step, row, 1, &layer, 1, &rows);
}

static void refused_by_name(void **state)
{
    static const struct {
        const char *model;
        attempt *tries;
        cdz_status code;
        const char *sentence;
    } cases[] = {
        {"mamba2", keep, CDZ_E_UNSUPPORTED, "of a model with recurrent layers"},
        {"deepseek_v3", keep, CDZ_E_UNSUPPORTED, "of a model with latent attention"},
        {"bloom", keep, CDZ_E_UNSUPPORTED, "of a model with positions that are relative"},
        {"gpt2", renumber, CDZ_E_UNSUPPORTED, "keys of a GPT2LMHeadModel model do not turn"},
        {"mistral_sw", keep, CDZ_E_UNSUPPORTED, "every layer of this model has a sliding window"},
        {"llama_gqa", both, CDZ_E_STATE, "earlier drops of this sequence renumbered positions"},
        {"llama_gqa", too_far, CDZ_E_PLUGIN,
         "seq_drop: positions 5 to 7 of a sequence of which 6 have been read"},
        {"llama_gqa", nothing, CDZ_E_PLUGIN, "seq_drop: positions 2 to 2 of"},
        {"llama_gqa", unknown_flag, CDZ_E_PLUGIN, "seq_drop: flags 0x6; known is 0x1"},
        {"llama_gqa", no_layer, CDZ_E_PLUGIN, "seq_kv: layer 3 of 3"},
        {"llama_gqa", no_head, CDZ_E_PLUGIN, "seq_kv: kv head 2 of 2"},
        {"llama_gqa", look_behind, CDZ_E_STATE, "seq_attention: positions were dropped"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t ids[6] = {5, 6, 7, 8, 9, 10};
        hand_plan plan;
        answer a;
        rig r = rig_open(cases[i].model, (cdz_engine_options){.n_threads = 1});
        tried = cases[i].tries;
        plan_init(&plan, &attempts.base, NULL);
        new_job(&r, &plan, ids, NULL, 1, 6, 1, &a);
        const cdz_outcome *outcome = run(&r, &a);
        if (outcome->error.code != cases[i].code || !strstr(outcome->error.text, cases[i].sentence))
            fail_msg("%s: %s", cases[i].sentence, outcome->error.text);
        answer_free(&a);
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caches_of_transformers),
        cmocka_unit_test(a_cache_is_that_of_ids_and_drops),
        cmocka_unit_test(more_tokens_than_memory),
        cmocka_unit_test(company_changes_nothing),
        cmocka_unit_test(copies_have_the_drops),
        cmocka_unit_test(refused_by_name),
    };
    return cmocka_run_group_tests_name("run drop", tests, NULL, NULL);
}
