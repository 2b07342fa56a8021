/* test_run_press.c - pressed requests: the same tokens and logits to the bit whatever is beside them, however their prompts were cut,
 * and whoever takes tokens back; what others get is as without them; and memory that comes back at once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "support/must.h"

#define GOLDEN CADENZA_TEST_DATA "/golden/"

enum { PROMPT = 150, ROOM = 64 << 20, BESIDE = 3 };

typedef struct world {
    cdz_runtime *rt;
    cdz_model *model;
} world;

static world open_scheduled(const char *folder, uint32_t n_threads, uint64_t kv_bytes,
                            const char *scheduler)
{
    world w = {0};
    cdz_error err = {0};
    const cdz_options options = {.size = sizeof options,
                                 .n_threads = n_threads,
                                 .kv_bytes = kv_bytes,
                                 .scheduler = scheduler};
    must(cdz_open(&options, &w.rt, &err), &err);
    must(cdz_model_open(w.rt, folder, NULL, &w.model, &err), &err);
    return w;
}

static world open_world(const char *folder, uint32_t n_threads, uint64_t kv_bytes)
{
    return open_scheduled(folder, n_threads, kv_bytes, NULL);
}

static void close_world(world *w)
{
    cdz_model_close(w->model);
    cdz_close(w->rt);
}

static cdz_stats stats_of(cdz_runtime *rt)
{
    cdz_stats stats = {.size = sizeof stats};
    cdz_get_stats(rt, &stats);
    return stats;
}

typedef struct wish {
    const char *ini;    /* NULL: not pressed */
    const char *kwargs; /* members, each with a comma before it; or NULL */
    uint32_t seed, n, n_new;
    const char *more; /* members of the document, likewise */
} wish;

typedef void on_event(void *user, const cdz_event *event);

static cdz_status try(const world *at, const wish *w, on_event *listener, void *user, uint64_t *id,
                      cdz_error *err)
{
    cdz_pipeline *pipeline = NULL;
    cdz_buf json = {0};
    cdz_buf_puts(&json, "{\"prompt_ids\": [[");
    for (uint32_t i = 0; i < w->n; i++)
        cdz_buf_printf(&json, "%s%u", i ? ", " : "", (i * 7 + w->seed * 13) % 241 + 3);
    cdz_buf_printf(&json,
                   "]], \"kwargs\": {\"eos_token_id\": null, \"pad_token_id\": null, \"do_sample\": "
                   "false, \"output_logits\": true, \"max_new_tokens\": %u%s}, \"seed\": 7%s}",
                   w->n_new, w->kwargs ? w->kwargs : "", w->more ? w->more : "");
    cdz_status status = CDZ_OK;
    if (w->ini)
        status = cdz_pipeline_parse(at->rt, w->ini, strlen(w->ini), "press.ini", &pipeline, err);
    const cdz_request request = {
        .size = sizeof request,
        .model = at->model,
        .pipeline = pipeline,
        .json = json.data,
        .on_event = listener,
        .user = user,
    };
    if (status == CDZ_OK) status = cdz_submit(at->rt, &request, id, err);
    cdz_pipeline_free(pipeline);
    cdz_buf_free(&json);
    return status;
}

static uint64_t submit(const world *at, const wish *w)
{
    uint64_t id;
    cdz_error err = {0};
    must(try(at, w, NULL, NULL, &id, &err), &err);
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

static cdz_result *run_watched(const world *at, const wish *w, on_event *listener, void *user)
{
    uint64_t id;
    cdz_error err = {0};
    must(try(at, w, listener, user, &id, &err), &err);
    return take(at, id);
}

static void same_tokens(const cdz_result *a, const cdz_result *b, const char *what)
{
    const cdz_outcome *x = a->outcome, *y = b->outcome;
    assert_int_equal(x->n_rows, y->n_rows);
    for (uint32_t r = 0; r < x->n_rows; r++)
        if (x->rows[r].len != y->rows[r].len ||
            memcmp(x->rows[r].ids, y->rows[r].ids, x->rows[r].len * sizeof(int32_t)) != 0)
            fail_msg("%s: row %u has other tokens", what, r);
}

static void same_answers(const cdz_result *a, const cdz_result *b, const char *what)
{
    const cdz_outcome *x = a->outcome, *y = b->outcome;
    same_tokens(a, b, what);
    assert_int_equal(x->n_steps, y->n_steps);
    for (uint32_t s = 0; s < x->n_steps; s++) {
        const size_t n = (size_t)x->n_step_rows * x->n_vocab;
        assert_non_null(x->steps[s].logits);
        if (memcmp(x->steps[s].logits, y->steps[s].logits, n * sizeof(float)) != 0)
            fail_msg("%s: logits of step %u differ", what, s);
    }
}

/* --- ways of pressing ----------------------------------------------------------------------------------------------- */

#define PRESS(list) "[pipeline]\npress = " list "\n[generation]\ncompression_ratio = 0.5\n"
#define SMALL       "[snapkv]\nwindow_size = 8\n"
#define DECODING                                                                                   \
    "[pipeline]\npress = snapkv\ndecoding_press = knorm\n[generation]\n"                           \
    "compression_ratio = 0.5\ncompression_interval = 5\n"                                          \
    "compression_target_size = 40\n" SMALL

static const char *const ways[] = {
    PRESS("knorm"),
    PRESS("snapkv") SMALL,
    PRESS("snapkv, adakv") SMALL,
    PRESS("keydiff, key_rerotation"),
    PRESS("expected_attention"),
    PRESS("observed_attention"),
    PRESS("knorm") "compression_chunk_length = 40\n",
    PRESS("knorm") "compression_block_size = 24\n",
    DECODING,
};
enum { N_WAYS = sizeof ways / sizeof *ways };

/* Beside others, pressed and not; and these are as they are alone. */
static void test_company(void **state)
{
    (void)state;
    world w = open_world(GOLDEN "llama_gqa", 2, ROOM);
    const wish plain = {NULL, NULL, 5, 70, 20, NULL};
    cdz_result *untouched = run(&w, &plain);
    for (uint32_t i = 0; i < N_WAYS; i++) {
        const wish one = {ways[i], NULL, 1, PROMPT, 20, NULL};
        const wish other = {ways[(i + 1) % N_WAYS], NULL, 2, 97, 20, NULL};
        cdz_result *alone = run(&w, &one);
        const uint64_t ids[BESIDE] = {submit(&w, &other), submit(&w, &plain), submit(&w, &one)};
        cdz_result *got[BESIDE];
        for (uint32_t k = 0; k < BESIDE; k++) got[k] = take(&w, ids[k]);
        same_answers(got[1], untouched, ways[i]);
        same_answers(got[2], alone, ways[i]);
        for (uint32_t k = 0; k < BESIDE; k++) cdz_result_free(got[k]);
        cdz_result_free(alone);
    }
    cdz_result_free(untouched);
    close_world(&w);
}

/* Prompts in pieces, and threads. */
static void test_pieces(void **state)
{
    (void)state;
    static const char *const pieces[] = {", \"prefill_chunk_size\": 1",
                                         ", \"prefill_chunk_size\": 7",
                                         ", \"prefill_chunk_size\": 64"};
    world w = open_world(GOLDEN "qwen3", 1, ROOM), many = open_world(GOLDEN "qwen3", 3, ROOM);
    for (uint32_t i = 0; i < N_WAYS; i++) {
        const wish whole = {ways[i], NULL, 1, PROMPT, 16, NULL};
        cdz_result *at_once = run(&w, &whole), *threads = run(&many, &whole);
        same_answers(threads, at_once, ways[i]);
        for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
            wish cut = whole;
            cut.kwargs = pieces[k];
            cdz_result *got = run(&w, &cut);
            same_answers(got, at_once, ways[i]);
            cdz_result_free(got);
        }
        cdz_result_free(at_once);
        cdz_result_free(threads);
    }
    close_world(&w);
    close_world(&many);
}

/* Drafts are taken back behind a press, and where presses go on, before one: then what there was is read again. */
static void test_drafts(void **state)
{
    (void)state;
    world w = open_world(GOLDEN "llama_gqa", 2, ROOM);
    for (uint32_t i = 0; i < N_WAYS; i++) {
        const wish one = {ways[i], NULL, 3, PROMPT, 30, NULL};
        wish drafts = one;
        drafts.kwargs = ", \"prompt_lookup_num_tokens\": 4";
        cdz_result *plain = run(&w, &one), *got = run(&w, &drafts);
        same_tokens(got, plain, ways[i]);
        cdz_result_free(plain);
        cdz_result_free(got);
    }
    close_world(&w);
}

/* Rows of a search grow from one another; one beam is greedy search, and rows of one prompt are alike. */
static void test_search(void **state)
{
    (void)state;
    world w = open_world(GOLDEN "llama_gqa", 2, ROOM);
    for (uint32_t i = 0; i < N_WAYS; i++) {
        const wish beams = {
            ways[i], ", \"num_beams\": 3, \"num_return_sequences\": 2", 4, PROMPT, 12, NULL};
        wish pieces = beams;
        pieces.kwargs =
            ", \"num_beams\": 3, \"num_return_sequences\": 2, \"prefill_chunk_size\": 11";
        cdz_result *a = run(&w, &beams), *b = run(&w, &pieces);
        same_answers(a, b, ways[i]);
        cdz_result_free(a);
        cdz_result_free(b);
    }
    close_world(&w);
}

/* A prompt that is found, and one that was pressed, are two things. */
static void test_prefix_cache(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < N_WAYS; i++) {
        world w = open_world(GOLDEN "llama_gqa", 2, ROOM),
              fresh = open_world(GOLDEN "llama_gqa", 2, ROOM);
        const wish pressed = {ways[i], NULL, 6, PROMPT, 10, NULL},
                   plain = {NULL, NULL, 6, PROMPT, 10, NULL};
        cdz_result *first = run(&w, &pressed), *second = run(&w, &plain), *third = run(&w, &pressed);
        cdz_result *alone = run(&fresh, &plain);
        same_answers(second, alone, ways[i]);
        same_answers(third, first, ways[i]);
        assert_int_equal(cdz_result_reused_tokens(second), 0);
        assert_int_equal(cdz_result_reused_tokens(third), 0);
        cdz_result_free(first);
        cdz_result_free(second);
        cdz_result_free(third);
        cdz_result_free(alone);
        close_world(&w);
        close_world(&fresh);
    }
}

/* A script chooses what the built-in press of its name chooses. */
static void test_lua(void **state)
{
    (void)state;
    static const char *const scripts[][2] = {
        {"[pipeline]\npress = lua:" CADENZA_TEST_DATA "/presses/knorm.lua\n"
         "[generation]\ncompression_ratio = 0.5\n",
         PRESS("knorm")},
        {"[pipeline]\npress = lua:" CADENZA_TEST_DATA "/presses/snapkv.lua\n"
         "[generation]\ncompression_ratio = 0.5\n",
         PRESS("snapkv") SMALL}};
    world w = open_world(GOLDEN "qwen3", 2, ROOM);
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        const wish lua = {scripts[i][0], NULL, 8, PROMPT, 12, NULL},
                   built_in = {scripts[i][1], NULL, 8, PROMPT, 12, NULL};
        cdz_result *a = run(&w, &lua), *b = run(&w, &built_in);
        same_answers(a, b, scripts[i][0]);
        cdz_result_free(a);
        cdz_result_free(b);
    }
    close_world(&w);
}

/* --- memory --------------------------------------------------------------------------------------------------------- */

/* Blocks are taken from the youngest, which computes and presses again. What presses freed let more requests begin than the
 * memory holds once each has its LONG tokens, so that this happens whoever came first. */
static void test_short_memory(void **state)
{
    (void)state;
    enum { MANY = 6, LONG = 200 };
    world small = open_world(GOLDEN "llama_gqa", 2, 340 << 10),
          w = open_world(GOLDEN "llama_gqa", 2, ROOM);
    for (uint32_t i = 0; i < N_WAYS; i++) {
        uint64_t ids[MANY];
        for (uint32_t k = 0; k < MANY; k++) {
            const wish one = {ways[i], NULL, k, PROMPT, LONG, NULL};
            ids[k] = submit(&small, &one);
        }
        for (uint32_t k = 0; k < MANY; k++) {
            const wish one = {ways[i], NULL, k, PROMPT, LONG, NULL};
            cdz_result *got = take(&small, ids[k]), *alone = run(&w, &one);
            same_answers(got, alone, ways[i]);
            cdz_result_free(got);
            cdz_result_free(alone);
        }
    }
    assert_true(stats_of(small.rt).n_preemptions > 0);
    close_world(&small);
    close_world(&w);
}

/* Blocks that are held when a token comes that is not the first ones. */
typedef struct watch {
    cdz_runtime *rt;
    uint32_t n;
    uint64_t held;
} watch;

static void look(void *user, const cdz_event *event)
{
    watch *seen = user;
    if (event->kind != CDZ_EVENT_TOKENS || ++seen->n != 10) return;
    seen->held = stats_of(seen->rt).kv_blocks_used;
}

static uint64_t held_while_decoding(const char *ini)
{
    world w = open_world(GOLDEN "llama_gqa", 2, ROOM);
    watch seen = {.rt = w.rt};
    const wish one = {ini, NULL, 1, 448, 20, NULL};
    cdz_result_free(run_watched(&w, &one, look, &seen));
    close_world(&w);
    return seen.held;
}

/* What has gone is free while the request goes on: 448 positions are 14 blocks, and one is written to; a quarter
 * of them and ten more are 4. */
static void test_blocks_come_back(void **state)
{
    (void)state;
    assert_int_equal(held_while_decoding(NULL), 15);
    assert_int_equal(held_while_decoding("[pipeline]\npress = knorm\n[generation]\n"
                                         "compression_ratio = 0.75\n"),
                     4);
}

/* The first token, and so the engine, waits until all are submitted. */
typedef struct crowd {
    cdz_runtime *rt;
    pthread_mutex_t submitting;
    uint32_t most;
} crowd;

static void count_running(void *user, const cdz_event *event)
{
    crowd *seen = user;
    (void)event;
    pthread_mutex_lock(&seen->submitting);
    pthread_mutex_unlock(&seen->submitting);
    const uint32_t n = stats_of(seen->rt).n_running;
    if (n > seen->most) seen->most = n;
}

/* Prompts of 448 positions, 14 blocks of 18,432 bytes, and 60 new tokens. */
static uint32_t most_together(const char *ini)
{
    enum { MANY = 64, LONG = 448, BLOCKS = 20 * 16 };
    world w = open_scheduled(GOLDEN "llama_gqa", 2, (uint64_t)BLOCKS * 18432, "prefill_first");
    crowd seen = {.rt = w.rt, .submitting = PTHREAD_MUTEX_INITIALIZER};
    uint64_t ids[MANY];
    pthread_mutex_lock(&seen.submitting);
    for (uint32_t k = 0; k < MANY; k++) {
        const wish one = {ini, NULL, k, LONG, 60, NULL};
        cdz_error err = {0};
        must(try(&w, &one, count_running, &seen, &ids[k], &err), &err);
    }
    pthread_mutex_unlock(&seen.submitting);
    for (uint32_t k = 0; k < MANY; k++) cdz_result_free(take(&w, ids[k]));
    const cdz_stats stats = stats_of(w.rt);
    assert_true(stats.kv_blocks_peak <= BLOCKS);
    if (ini) assert_int_equal(stats.n_preemptions, 0);
    close_world(&w);
    return seen.most;
}

/* Memory for 20 that stay whole, 508 positions or 16 blocks each, is enough for 64 of which 67 positions of the prompt stay. */
static void test_more_at_once(void **state)
{
    (void)state;
    assert_true(most_together(NULL) < 30);
    assert_int_equal(most_together("[pipeline]\npress = knorm\n[generation]\n"
                                   "compression_ratio = 0.85\n"),
                     64);
}

/* --- what is refused ------------------------------------------------------------------------------------------------ */

static void refused(const world *w, const wish *one, const char *part)
{
    cdz_error err = {0};
    uint64_t id = 0;
    cdz_result *result = NULL;
    cdz_status status = try(w, one, NULL, NULL, &id, &err);
    if (status == CDZ_OK) status = cdz_wait(w->rt, id, &result, &err);
    assert_int_not_equal(status, CDZ_OK);
    if (!strstr(err.text, part)) fail_msg("'%s' does not say '%s'", err.text, part);
    cdz_result_free(result);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        wish one;
        const char *part;
    } rows[] = {
        {{"[pipeline]\npress = knorm\n", NULL, 1, 40, 4, NULL},
         "'knorm' is not told how much is to go"},
        {{"[pipeline]\npress = knorn\n", NULL, 1, 40, 4, NULL}, "did you mean 'knorm'"},
        {{"[pipeline]\npress = adakv\n", NULL, 1, 40, 4, NULL}, "changes what another press says"},
        {{"[generation]\ncompression_ratio = 0.5\n", NULL, 1, 40, 4, NULL}, "has no press"},
        {{PRESS("knorm") "compression_interval = 4\n", NULL, 1, 40, 4, NULL},
         "has no decoding_press"},
        {{PRESS("snapkv"), NULL, 1, 40, 4, NULL}, "expected more than window_size"},
        {{PRESS("knorm") "compression_ratios = 0.5, 0.5\n", NULL, 1, 40, 4, NULL},
         "2 numbers for a model of 3 layers"},
        {{PRESS("observed_attention") "compression_chunk_length = 8\n", NULL, 1, 40, 4, NULL},
         "asks for attention to the whole prompt"},
        {{PRESS("snapkv") SMALL, ", \"compression_block_size\": 8", 1, 40, 4, NULL},
         "asks for more than keys and values"},
        {{"[pipeline]\ndecoding_press = observed_attention\n", NULL, 1, 40, 4, NULL},
         "asks for what there is of prompts alone"},
        {{PRESS("knorm"), ", \"use_cache\": false", 1, 40, 4, NULL}, "without a cache"},
        {{PRESS("knorm"), ", \"compression_ratio\": 1.0", 1, 40, 4, NULL}, "compression_ratio"},
        {{PRESS("snapkv, adakv, key_rerotation") SMALL, NULL, 1, 40, 4, NULL},
         "are to be renumbered"},
    };
    world w = open_world(GOLDEN "llama_gqa", 2, ROOM);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) refused(&w, &rows[i].one, rows[i].part);
    close_world(&w);
    static const char *const others[][2] = {{"t5_gated", "an encoder"},
                                            {"mamba2", "recurrent layers"},
                                            {"bloom", "positions that are relative"},
                                            {"deepseek_v2", "latent attention"},
                                            {"mistral_sw", "sliding window"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char folder[512];
        snprintf(folder, sizeof folder, "%s%s", GOLDEN, others[i][0]);
        const wish one = {PRESS("knorm"), NULL, 1, 40, 4, NULL};
        world other = open_world(folder, 2, ROOM);
        refused(&other, &one, others[i][1]);
        close_world(&other);
    }
}

/* A ratio of 0 leaves all as it is. */
static void test_nothing_goes(void **state)
{
    (void)state;
    world w = open_world(GOLDEN "llama_gqa", 2, ROOM);
    const wish none = {PRESS("knorm"), ", \"compression_ratio\": 0.0", 1, PROMPT, 12, NULL},
               plain = {NULL, NULL, 1, PROMPT, 12, NULL};
    cdz_result *a = run(&w, &none), *b = run(&w, &plain);
    same_answers(a, b, "ratio 0");
    cdz_result_free(a);
    cdz_result_free(b);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_company),      cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_drafts),       cmocka_unit_test(test_search),
        cmocka_unit_test(test_prefix_cache), cmocka_unit_test(test_lua),
        cmocka_unit_test(test_short_memory), cmocka_unit_test(test_blocks_come_back),
        cmocka_unit_test(test_more_at_once), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_nothing_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
