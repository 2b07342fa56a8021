/* test_prefix_cache.c - prompts that find what earlier ones have computed: the same tokens, logits and scores to the bit, whatever
 * the family, the decode loop and the room there is; and what is never found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/api.h"
#include "api/prompts.h"
#include "support/must.h"
#include "support/opened.h"

#define GOLDEN CADENZA_TEST_DATA "/golden/"

enum { PROMPT = 150, LONGER = 185, FORK = 80, ROOM = 64 << 20 };

typedef struct world {
    cdz_runtime *rt;
    cdz_model *model, *draft;
} world;

static world open_world(const char *folder, const char *draft, const char *cache, uint64_t kv_bytes)
{
    world w = {0};
    const cdz_options options = {
        .size = sizeof options, .n_threads = 2, .kv_bytes = kv_bytes, .prefix_cache = cache};
    w.rt = opened_runtime(&options);
    w.model = opened_model(w.rt, folder);
    if (draft) w.draft = opened_model(w.rt, draft);
    return w;
}

static void close_world(world *w)
{
    cdz_model_close(w->model);
    cdz_model_close(w->draft);
    cdz_close(w->rt);
}

static cdz_stats stats_of(const world *w)
{
    cdz_stats stats = {.size = sizeof stats};
    cdz_get_stats(w->rt, &stats);
    return stats;
}

/* --- requests ------------------------------------------------------------------------------------------------- */

/* A prompt of n ids, of which those from `fork` on are told apart by `seed`. */
typedef struct wish {
    uint32_t n, fork, seed;
    const char *kwargs; /* members, each with a comma before it */
    const char *more;   /* members of the document, likewise */
    const char *salt;
    bool draft;
    uint32_t n_new; /* 0: 9 */
} wish;

static void put_prompt(const wish *w, cdz_buf *out)
{
    cdz_buf_puts(out, "{\"prompt_ids\": [[");
    for (uint32_t i = 0; i < w->n; i++)
        cdz_buf_printf(out, "%s%u", i ? ", " : "",
                       i < w->fork ? i * i * 31 % 251 + 3 : (i * 7 + w->seed * 13) % 241 + 3);
    cdz_buf_puts(out, "]], \"kwargs\": {\"eos_token_id\": null, \"pad_token_id\": null, "
                      "\"context\": false, \"max_new_tokens\": ");
    cdz_buf_printf(out, "%u%s}, \"seed\": 7%s}", w->n_new ? w->n_new : 9,
                   w->kwargs ? w->kwargs : "", w->more ? w->more : "");
    assert_false(out->failed);
}

static uint64_t submit(const world *at, const wish *w)
{
    uint64_t id;
    cdz_error err = {0};
    cdz_buf json = {0};
    put_prompt(w, &json);
    const cdz_request request = {.size = sizeof request,
                                 .model = at->model,
                                 .assistant = w->draft ? at->draft : NULL,
                                 .json = json.data,
                                 .cache_salt = w->salt};
    must(cdz_submit(at->rt, &request, &id, &err), &err);
    cdz_buf_free(&json);
    return id;
}

static cdz_result *take(const world *at, uint64_t id)
{
    cdz_result *result = NULL;
    cdz_error err = {0};
    must(cdz_wait(at->rt, id, &result, &err), &err);
    return result;
}

static cdz_result *run(const world *at, const wish *w)
{
    return take(at, submit(at, w));
}

/* --- to the bit ------------------------------------------------------------------------------------------------ */

static void same_floats(const float *a, const float *b, size_t n, const char *what, uint32_t step)
{
    if (!a != !b) fail_msg("%s: step %u: kept in one alone", what, step);
    if (a && memcmp(a, b, n * sizeof *a) != 0) fail_msg("%s: step %u differs", what, step);
}

static void same_answers(const cdz_result *a, const cdz_result *b, const char *what)
{
    const cdz_outcome *x = a->outcome, *y = b->outcome;
    assert_int_equal(x->n_rows, y->n_rows);
    for (uint32_t r = 0; r < x->n_rows; r++)
        if (x->rows[r].len != y->rows[r].len ||
            memcmp(x->rows[r].ids, y->rows[r].ids, x->rows[r].len * sizeof(int32_t)) != 0)
            fail_msg("%s: row %u has other tokens", what, r);
    assert_int_equal(x->n_steps, y->n_steps);
    assert_int_equal(x->n_step_rows, y->n_step_rows);
    for (uint32_t s = 0; s < x->n_steps; s++) {
        const cdz_recorded_step *p = &x->steps[s], *q = &y->steps[s];
        const size_t rows = x->n_step_rows, all = rows * x->n_vocab;
        same_floats(p->logits, q->logits, all, what, s);
        same_floats(p->scores, q->scores, all, what, s);
        same_floats(p->chosen_logprob, q->chosen_logprob, rows, what, s);
        same_floats(p->chosen_raw_logprob, q->chosen_raw_logprob, rows, what, s);
    }
}

/* The same request of both worlds. Returns the positions that it found. */
static uint32_t ask_both(const world *found, const world *computed, const wish *w, const char *what)
{
    cdz_result *a = run(found, w), *b = run(computed, w);
    same_answers(a, b, what);
    const uint32_t n = cdz_result_reused_tokens(a);
    assert_int_equal(cdz_result_reused_tokens(b), 0);
    cdz_result_free(a);
    cdz_result_free(b);
    return n;
}

#define KEEP ", \"output_logits\": true, \"output_scores\": true, \"output_logprobs\": true"

static const struct {
    const char *name, *kwargs;
    bool draft;
} ways[] = {
    {"greedy", ", \"do_sample\": false" KEEP, false},
    {"sample", ", \"do_sample\": true, \"temperature\": 0.8, \"top_k\": 30" KEEP, false},
    {"rows", ", \"do_sample\": true, \"num_return_sequences\": 3" KEEP, false},
    {"beams", ", \"do_sample\": false, \"num_beams\": 3, \"num_return_sequences\": 2" KEEP, false},
    {"beam sample", ", \"do_sample\": true, \"num_beams\": 2" KEEP, false},
    {"lookup", ", \"do_sample\": false, \"prompt_lookup_num_tokens\": 4", false},
    {"guidance", ", \"do_sample\": false, \"guidance_scale\": 1.5" KEEP, false},
    {"hidden",
     ", \"do_sample\": false, \"output_hidden_states\": true, \"output_attentions\": true", false},
    {"draft", ", \"do_sample\": false", true},
};

enum { N_WAYS = sizeof ways / sizeof *ways };

static void test_ways(void **state)
{
    (void)state;
    world found = open_world(GOLDEN "llama_gqa", GOLDEN "llama_draft", NULL, ROOM),
          computed = open_world(GOLDEN "llama_gqa", GOLDEN "llama_draft", "off", ROOM);
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < N_WAYS; i++) {
            const wish whole = {PROMPT, PROMPT, 0, ways[i].kwargs, NULL, NULL, ways[i].draft, 0};
            const wish fork = {LONGER, FORK, 1, ways[i].kwargs, NULL, NULL, ways[i].draft, 0};
            const uint32_t n = ask_both(&found, &computed, &whole, ways[i].name);
            const uint32_t m = ask_both(&found, &computed, &fork, ways[i].name);
            if (turn == 0 && i == 0)
                assert_int_equal(n, 0);
            else if (n != PROMPT / 32 * 32)
                fail_msg("%s: found %u positions", ways[i].name, n);
            assert_int_equal(m, turn || i ? (LONGER - 1) / 32 * 32 : FORK / 32 * 32);
        }
    assert_int_equal(stats_of(&computed).n_prefix_queries, 0);
    close_world(&found);
    close_world(&computed);
}

/* --- families --------------------------------------------------------------------------------------------------- */

static const char *const families[] = {
    "qwen3",      "gemma2", "gemma3",  "mistral_sw", "qwen2_sw",   "gpt2",     "phi3_longrope",
    "mixtral",    "llama4", "cohere2", "qwen3_moe",  "gpt_neox",   "opt",      "olmo3",
    "llama_bf16", "gptj",   "phi3",    "glm4_moe",   "qwen3_yarn", "stablelm", "minimax_m2"};

/* All in one runtime: the same ids in another model are another thing. */
static void test_families(void **state)
{
    (void)state;
    char folder[512];
    const wish first = {100, 100, 0, ways[0].kwargs, NULL, NULL, false, 0},
               next = {120, 70, 3, ways[1].kwargs, NULL, NULL, false, 0};
    world found = open_world(GOLDEN "llama_gqa", NULL, NULL, ROOM);
    cdz_model_close(found.model);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        snprintf(folder, sizeof folder, GOLDEN "%s", families[i]);
        world computed = open_world(folder, NULL, "off", ROOM);
        found.model = opened_model(found.rt, folder);
        assert_int_equal(ask_both(&found, &computed, &first, families[i]), 0);
        if (ask_both(&found, &computed, &first, families[i]) != 96)
            fail_msg("%s: found nothing", families[i]);
        assert_int_equal(ask_both(&found, &computed, &next, families[i]), 64);
        cdz_model_close(found.model);
        close_world(&computed);
    }
    found.model = NULL;
    close_world(&found);
}

static void test_kv_types(void **state)
{
    (void)state;
    static const char *const types[] = {"f16", "bf16", "q8_0", "q4_0"};
    const wish w = {PROMPT, PROMPT, 0, ways[1].kwargs, NULL, NULL, false, 0};
    for (int i = 0; i < 4; i++) {
        world at[2] = {0};
        for (int k = 0; k < 2; k++) {
            const cdz_options options = {.size = sizeof options,
                                         .n_threads = 2,
                                         .kv_cache = types[i],
                                         .prefix_cache = k ? "off" : "on"};
            at[k].rt = opened_runtime(&options);
            at[k].model = opened_model(at[k].rt, CADENZA_SOURCE_DIR "/models/pocket-dictionary");
        }
        assert_int_equal(ask_both(&at[0], &at[1], &w, types[i]), 0);
        assert_int_equal(ask_both(&at[0], &at[1], &w, types[i]), 128);
        close_world(&at[0]);
        close_world(&at[1]);
    }
}

/* --- what is never found ------------------------------------------------------------------------------------------ */

static const struct {
    const char *name, *model, *kwargs, *more;
} alone[] = {
    {"dynamic rope", "llama_dynamic", "", ""},
    {"an encoder", "t5_relu", "", ""},
    {"recurrent layers", "mamba2", "", ""},
    {"recurrent layers beside attention", "qwen3_next", "", ""},
    {"no cache", "llama_gqa", ", \"use_cache\": false", ""},
    {"quantised positions", "qwen3", ", \"cache_implementation\": \"quantized\"", ""},
    {"mode logits", "llama_gqa", "", ", \"mode\": \"logits\""},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
        char folder[512], kwargs[256];
        snprintf(folder, sizeof folder, GOLDEN "%s", alone[i].model);
        snprintf(kwargs, sizeof kwargs, ", \"do_sample\": false%s", alone[i].kwargs);
        world found = open_world(folder, NULL, NULL, ROOM),
              computed = open_world(folder, NULL, "off", ROOM);
        const wish w = {60, 60, 0, kwargs, alone[i].more, NULL, false, 0};
        const bool score = strstr(alone[i].more, "logits"),
                   brief = strcmp(alone[i].model, "t5_relu") == 0; /* its decoder's prompt */
        for (int k = 0; k < 2; k++) {
            if (score) {
                cdz_result_free(run(&found, &w));
                continue;
            }
            assert_int_equal(ask_both(&found, &computed, &w, alone[i].name), 0);
        }
        const cdz_stats stats = stats_of(&found);
        if (stats.n_prefix_hits || (!brief && stats.n_prefix_refused < 2))
            fail_msg("%s: found %llu, refused %llu", alone[i].name,
                     (unsigned long long)stats.n_prefix_hits,
                     (unsigned long long)stats.n_prefix_refused);
        close_world(&found);
        close_world(&computed);
    }
}

/* A mask, and rows of which one has pads. */
static void test_masks(void **state)
{
    (void)state;
    world found = open_world(GOLDEN "llama_gqa", NULL, NULL, ROOM),
          computed = open_world(GOLDEN "llama_gqa", NULL, "off", ROOM);
    cdz_buf mask = {0};
    cdz_buf_puts(&mask, ", \"attention_mask\": [[");
    for (uint32_t i = 0; i < PROMPT; i++) cdz_buf_printf(&mask, "%s%d", i ? ", " : "", i >= 2);
    cdz_buf_puts(&mask, "]]");
    const wish plain = {PROMPT, PROMPT, 0, ways[0].kwargs, NULL, NULL, false, 0},
               masked = {PROMPT, PROMPT, 0, ways[0].kwargs, mask.data, NULL, false, 0};
    assert_int_equal(ask_both(&found, &computed, &plain, "plain"), 0);
    assert_int_equal(ask_both(&found, &computed, &masked, "masked"), 0);
    assert_int_equal(ask_both(&found, &computed, &masked, "masked again"), 0);
    assert_int_equal(stats_of(&found).n_prefix_refused, 2);
    assert_int_equal(ask_both(&found, &computed, &plain, "plain again"), 128);
    cdz_buf_free(&mask);
    close_world(&found);
    close_world(&computed);
}

static void test_salts(void **state)
{
    (void)state;
    static const struct {
        const char *salt;
        uint32_t found;
    } asks[] = {{"one", 0},     {"other", 0}, {"one", 128}, {NULL, 0},
                {"other", 128}, {"", 0},      {NULL, 128},  {"on", 0}};
    world w = open_world(GOLDEN "llama_gqa", NULL, NULL, ROOM);
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        const wish one = {PROMPT, PROMPT, 0, ways[0].kwargs, NULL, asks[i].salt, false, 0};
        cdz_result *result = run(&w, &one);
        assert_int_equal(cdz_result_reused_tokens(result), asks[i].found);
        cdz_result_free(result);
    }
    close_world(&w);
}

/* --- many at a time, and little room -------------------------------------------------------------------------------- */

enum { CROWD = 24 };

/* Those that go on for long begin with little. */
static wish crowd_wish(uint32_t i, uint32_t n_new)
{
    const uint32_t way = i % N_WAYS;
    wish w = {0};
    w.n = (n_new > PROMPT ? 20 : 90) + i * 11 % 60;
    w.fork = i % 3 ? 96 : 64;
    w.seed = i % 5;
    w.kwargs = ways[way].kwargs;
    w.draft = ways[way].draft;
    w.n_new = n_new;
    return w;
}

/* All at once, and each alone in a runtime that has room and finds nothing. */
static void crowd(const char *cache, uint64_t kv_bytes, uint32_t n_new, const char *what,
                  cdz_stats *stats)
{
    world found = open_world(GOLDEN "llama_gqa", GOLDEN "llama_draft", cache, kv_bytes),
          computed = open_world(GOLDEN "llama_gqa", GOLDEN "llama_draft", "off", ROOM);
    for (int turn = 0; turn < 2; turn++) {
        uint64_t ids[CROWD];
        for (uint32_t i = 0; i < CROWD; i++) {
            const wish w = crowd_wish(i, n_new);
            ids[i] = submit(&found, &w);
        }
        for (uint32_t i = 0; i < CROWD; i++) {
            const wish w = crowd_wish(i, n_new);
            cdz_result *a = take(&found, ids[i]), *b = run(&computed, &w);
            same_answers(a, b, what);
            cdz_result_free(a);
            cdz_result_free(b);
        }
    }
    *stats = stats_of(&found);
    assert_int_equal(stats->kv_blocks_used, 0);
    close_world(&found);
    close_world(&computed);
}

static void test_crowd(void **state)
{
    (void)state;
    cdz_stats stats;
    crowd(NULL, ROOM, 9, "all together", &stats);
    assert_int_equal(stats.n_preemptions, 0);
    assert_true(stats.n_prefix_hits > stats.n_prefix_queries / 3);
}

/* Blocks are given away again and again. */
static void test_little_room(void **state)
{
    (void)state;
    cdz_stats stats;
    crowd(NULL, 380 << 10, 9, "little room", &stats);
    assert_true(stats.n_prefix_hits > 0 && stats.kv_blocks_evicted > 0);
}

/* The youngest give their blocks back and are computed again: the same tokens, scores and draws. */
static void test_preempted(void **state)
{
    (void)state;
    static const char *const caches[] = {"on", "off"};
    for (int i = 0; i < 2; i++) {
        cdz_stats stats;
        crowd(caches[i], 560 << 10, PROMPT + 10, "preempted", &stats);
        if (stats.n_preemptions < 10)
            fail_msg("%llu preemptions", (unsigned long long)stats.n_preemptions);
    }
}

/* --- paused -------------------------------------------------------------------------------------------------------- */

/* Waits until one rests; false: it has ended before. */
static bool rests(const world *w, uint64_t id)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    while (stats_of(w).n_paused != 1) {
        const cdz_request_state now = cdz_get_request_state(w->rt, id);
        if (now != CDZ_REQUEST_PENDING && now != CDZ_REQUEST_RUNNING) return false;
        nanosleep(&moment, NULL);
    }
    return true;
}

/* Again and again until it rests: on a busy machine it may have ended before it is paused. */
static uint64_t submit_paused(const world *w, const wish *own)
{
    for (;;) {
        const uint64_t id = submit(w, own);
        if (cdz_pause(w->rt, id, NULL) == CDZ_OK && rests(w, id)) return id;
        cdz_result_free(take(w, id));
    }
}

/* Their readers cannot keep up, now these, now those: with little memory and with enough, the same tokens, scores and draws. */
static void test_paused_in_turns(void **state)
{
    (void)state;
    static const uint64_t rooms[] = {560 << 10, ROOM};
    for (size_t k = 0; k < sizeof rooms / sizeof *rooms; k++) {
        world found = open_world(GOLDEN "llama_gqa", GOLDEN "llama_draft", NULL, rooms[k]),
              computed = open_world(GOLDEN "llama_gqa", GOLDEN "llama_draft", "off", ROOM);
        uint64_t ids[CROWD];
        for (uint32_t i = 0; i < CROWD; i++) {
            const wish w = crowd_wish(i, PROMPT + 10);
            ids[i] = submit(&found, &w);
        }
        for (uint32_t turn = 0; turn < 40 * CROWD; turn++) {
            const struct timespec moment = {.tv_nsec = 200000};
            const uint64_t id = ids[turn * 7 % CROWD];
            (void)(turn / 5 % 3 ? cdz_pause : cdz_resume)(found.rt, id,
                                                          NULL); /* it may have ended */
            nanosleep(&moment, NULL);
        }
        for (uint32_t i = 0; i < CROWD; i++) (void)cdz_resume(found.rt, ids[i], NULL);
        for (uint32_t i = 0; i < CROWD; i++) {
            const wish w = crowd_wish(i, PROMPT + 10);
            cdz_result *a = take(&found, ids[i]), *b = run(&computed, &w);
            same_answers(a, b, "paused in turns");
            cdz_result_free(a);
            cdz_result_free(b);
        }
        assert_int_equal(stats_of(&found).kv_blocks_used, 0);
        close_world(&found);
        close_world(&computed);
    }
}

/* What is paused gives its blocks to whoever came later: to one that runs, and to one that is to begin. */
static void test_paused_gives_way(void **state)
{
    (void)state;
    const wish own = {PROMPT, 3, 1, ways[0].kwargs, NULL, NULL, false, 100},
               late = {PROMPT, 3, 2, ways[0].kwargs, NULL, NULL, false, 100};
    world w = open_world(GOLDEN "llama_gqa", NULL, "off", 170 << 10),
          computed = open_world(GOLDEN "llama_gqa", NULL, "off", ROOM);
    const uint64_t id = submit_paused(&w, &own);
    cdz_result *a = run(&w, &late), *b = run(&computed, &late);
    same_answers(a, b, "late");
    assert_true(stats_of(&w).n_preemptions > 0);
    assert_int_equal(cdz_get_request_state(w.rt, id), CDZ_REQUEST_RUNNING);
    assert_int_equal(cdz_resume(w.rt, id, NULL), CDZ_OK);
    cdz_result *c = take(&w, id), *d = run(&computed, &own);
    same_answers(c, d, "paused");
    cdz_result_free(a);
    cdz_result_free(b);
    cdz_result_free(c);
    cdz_result_free(d);
    close_world(&w);
    close_world(&computed);
}

/* --- kept in a file ------------------------------------------------------------------------------------------------- */

static char file[] = "/tmp/cadenza-prompts-XXXXXX";

static uint32_t save(const world *w, const char *salt, const int32_t *ids, size_t n)
{
    uint32_t n_blocks;
    cdz_error err = {0};
    must(cdz_model_save_prompts(w->model, file, salt, ids, n, &n_blocks, &err), &err);
    return n_blocks;
}

static uint32_t load(const world *w)
{
    uint32_t n_blocks;
    cdz_error err = {0};
    must(cdz_model_load_prompts(w->model, file, &n_blocks, &err), &err);
    return n_blocks;
}

/* Not taken, for that reason, and nothing is there. */
static void refused(const world *w, cdz_status code, const char *says)
{
    uint32_t n_blocks;
    cdz_error err = {0};
    if (cdz_model_load_prompts(w->model, file, &n_blocks, &err) != code || !strstr(err.text, says))
        fail_msg("%s: %s", says, err.text);
    assert_int_equal(n_blocks, 0);
    assert_int_equal(stats_of(w).kv_blocks_cached, 0);
}

/* Another runtime finds what this one has computed, and answers to the same bits. */
static void test_kept(void **state)
{
    (void)state;
    char folder[512];
    const wish first = {100, 100, 0, ways[0].kwargs, NULL, NULL, false, 0},
               next = {120, 70, 3, ways[1].kwargs, NULL, NULL, false, 0};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        snprintf(folder, sizeof folder, GOLDEN "%s", families[i]);
        world before = open_world(folder, NULL, NULL, ROOM),
              after = open_world(folder, NULL, NULL, ROOM),
              computed = open_world(folder, NULL, "off", ROOM);
        cdz_result_free(run(&before, &first));
        assert_int_equal(save(&before, NULL, NULL, 0), 3);
        assert_int_equal(load(&after), 3);
        assert_int_equal(load(&after), 3); /* once more: they are there */
        if (ask_both(&after, &computed, &first, families[i]) != 96)
            fail_msg("%s: found nothing", families[i]);
        assert_int_equal(ask_both(&after, &computed, &next, families[i]), 64);
        assert_int_equal(stats_of(&after).n_prefix_hits, 160);
        close_world(&before);
        close_world(&after);
        close_world(&computed);
    }
}

static void test_kept_ways(void **state)
{
    (void)state;
    world computed = open_world(GOLDEN "llama_gqa", GOLDEN "llama_draft", "off", ROOM),
          before = open_world(GOLDEN "llama_gqa", GOLDEN "llama_draft", NULL, ROOM);
    const wish whole = {PROMPT, PROMPT, 0, ways[0].kwargs, NULL, NULL, false, 0},
               fork = {LONGER, FORK, 1, ways[0].kwargs, NULL, NULL, false, 0};
    cdz_result_free(run(&before, &whole));
    cdz_result_free(run(&before, &fork));
    assert_int_equal(save(&before, NULL, NULL, 0), stats_of(&before).kv_blocks_cached);
    for (int i = 0; i < N_WAYS; i++) {
        world after = open_world(GOLDEN "llama_gqa", GOLDEN "llama_draft", NULL, ROOM);
        const wish w = {LONGER, FORK, 1, ways[i].kwargs, NULL, NULL, ways[i].draft, 0};
        load(&after);
        if (ask_both(&after, &computed, &w, ways[i].name) != (LONGER - 1) / 32 * 32)
            fail_msg("%s: not found", ways[i].name);
        close_world(&after);
    }
    close_world(&before);
    close_world(&computed);
}

/* One salt, one text; and a salt finds its own alone. */
static void test_kept_choice(void **state)
{
    (void)state;
    int32_t ids[PROMPT];
    world before = open_world(GOLDEN "llama_gqa", NULL, NULL, ROOM);
    const wish mine = {PROMPT, PROMPT, 0, ways[0].kwargs, NULL, "mine", false, 0},
               other = {PROMPT, PROMPT, 0, ways[0].kwargs, NULL, "other", false, 0},
               fork = {PROMPT, FORK, 1, ways[0].kwargs, NULL, "mine", false, 0};
    for (uint32_t i = 0; i < PROMPT; i++) ids[i] = (int32_t)(i * i * 31 % 251 + 3);
    const wish all[] = {mine, other, fork};
    for (int i = 0; i < 3; i++) cdz_result_free(run(&before, &all[i]));
    assert_int_equal(save(&before, NULL, NULL, 0), 10);
    assert_int_equal(save(&before, "mine", NULL, 0), 6);
    assert_int_equal(save(&before, "nobody's", NULL, 0), 0);
    assert_int_equal(save(&before, "mine", ids, 31), 0);
    assert_int_equal(save(&before, "mine", ids, PROMPT), 4);
    world after = open_world(GOLDEN "llama_gqa", NULL, NULL, ROOM);
    assert_int_equal(load(&after), 4);
    const uint32_t found[] = {128, 0, 64};
    for (int i = 0; i < 3; i++) {
        cdz_result *result = run(&after, &all[i]);
        assert_int_equal(cdz_result_reused_tokens(result), found[i]);
        cdz_result_free(result);
    }
    close_world(&before);
    close_world(&after);
}

/* Little room takes the beginnings of texts first, and what was used last; requests go on beside. */
static void test_kept_room(void **state)
{
    (void)state;
    world before = open_world(GOLDEN "llama_gqa", NULL, NULL, ROOM),
          after = open_world(GOLDEN "llama_gqa", NULL, NULL, 200 << 10),
          computed = open_world(GOLDEN "llama_gqa", NULL, "off", ROOM);
    const wish last = {PROMPT, PROMPT, 0, ways[0].kwargs, NULL, NULL, false, 0};
    for (uint32_t i = 0; i < 6; i++) {
        const wish w = {LONGER, 0, i, ways[0].kwargs, NULL, NULL, false, 0};
        cdz_result_free(run(&before, &w));
    }
    cdz_result_free(run(&before, &last));
    const uint32_t n = save(&before, NULL, NULL, 0), taken = load(&after);
    if (taken == 0 || taken >= n) fail_msg("%u of %u blocks", taken, n);
    assert_int_equal(ask_both(&after, &computed, &last, "little room"),
                     taken < 4 ? taken * 32 : 128);
    for (uint32_t i = 0; i < 6; i++) {
        const wish w = {LONGER, 0, i, ways[1].kwargs, NULL, NULL, false, 0};
        const uint64_t id = submit(&after, &w);
        load(&after);
        cdz_result *a = take(&after, id), *b = run(&computed, &w);
        same_answers(a, b, "beside a request");
        cdz_result_free(a);
        cdz_result_free(b);
    }
    close_world(&before);
    close_world(&after);
    close_world(&computed);
}

static void test_kept_refused(void **state)
{
    (void)state;
    cdz_error err = {0};
    uint32_t n_blocks;
    const wish w = {PROMPT, PROMPT, 0, ways[0].kwargs, NULL, NULL, false, 0};
    world one = open_world(GOLDEN "llama_gqa", NULL, NULL, ROOM),
          other = open_world(GOLDEN "qwen3", NULL, NULL, ROOM),
          off = open_world(GOLDEN "llama_gqa", NULL, "off", ROOM),
          recurrent = open_world(GOLDEN "mamba2", NULL, NULL, ROOM), half = {0};
    const cdz_options options = {.size = sizeof options, .n_threads = 2, .kv_cache = "f16"};
    half.rt = opened_runtime(&options);
    half.model = opened_model(half.rt, GOLDEN "llama_gqa");
    cdz_result_free(run(&one, &w));
    assert_int_equal(save(&one, NULL, NULL, 0), 4);
    refused(&other, CDZ_E_NOT_FOUND, "is of another model");
    refused(&half, CDZ_E_INPUT, "keys and values in F32, expected F16");
    refused(&off, CDZ_E_UNSUPPORTED, "it is off");
    refused(&recurrent, CDZ_E_UNSUPPORTED, "not found again");
    assert_int_equal(truncate(file, 9000), 0);
    world after = open_world(GOLDEN "llama_gqa", NULL, NULL, ROOM);
    refused(&after, CDZ_E_INPUT, "has been cut");
    assert_int_equal(cdz_model_save_prompts(one.model, "/dev/full", NULL, NULL, 0, &n_blocks, &err),
                     CDZ_E_INPUT);
    world *const all[] = {&one, &other, &off, &recurrent, &half, &after};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) close_world(all[i]);
}

/* The same files, kept or multiplied in another way. */
static void test_kept_numbers(void **state)
{
    (void)state;
    static const cdz_model_options ways_to_open[] = {
        {.size = sizeof(cdz_model_options)},
        {.size = sizeof(cdz_model_options), .quantize = "q8_0"},
        {.size = sizeof(cdz_model_options), .quantize = "q8_0", .activations = "f32"}};
    enum { N = sizeof ways_to_open / sizeof *ways_to_open };
    const wish w = {PROMPT, PROMPT, 0, ways[0].kwargs, NULL, NULL, false, 0};
    for (int from = 0; from < N; from++)
        for (int to = 0; to < N; to++) {
            const int at[] = {from, to};
            world both[2] = {0};
            for (int i = 0; i < 2; i++) {
                cdz_error err = {0};
                const cdz_options options = {.size = sizeof options, .n_threads = 2};
                both[i].rt = opened_runtime(&options);
                must(cdz_model_open(both[i].rt, CADENZA_SOURCE_DIR "/models/pocket-dictionary",
                                    &ways_to_open[at[i]], &both[i].model, &err),
                     &err);
            }
            cdz_result_free(run(&both[0], &w));
            assert_int_equal(save(&both[0], NULL, NULL, 0), 4);
            if (from != to)
                refused(&both[1], CDZ_E_INPUT, "other types of weights or activations");
            else
                assert_int_equal(load(&both[1]), 4);
            for (int i = 0; i < 2; i++) close_world(&both[i]);
        }
}

static int make_file(void **state)
{
    (void)state;
    const int fd = mkstemp(file);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_kv_types),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_salts),
        cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_little_room),
        cmocka_unit_test(test_preempted),
        cmocka_unit_test(test_paused_in_turns),
        cmocka_unit_test(test_paused_gives_way),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_kept_ways),
        cmocka_unit_test(test_kept_choice),
        cmocka_unit_test(test_kept_room),
        cmocka_unit_test(test_kept_refused),
        cmocka_unit_test(test_kept_numbers),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
