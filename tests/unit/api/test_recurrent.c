/* test_recurrent.c - requests of models with recurrent layers: beams, drafts, trials and pieces say what the plain way says, and a
 * request that continues another's state says what it would have said anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "base/environment.h"
#include "support/generate_ids.h"
#include "support/must.h"
#include "support/opened.h"

static const char *const models[] = {"lfm2", "mamba2", "qwen3_next", "falcon_h1",
                                     "granitemoehybrid"};
enum { N_MODELS = sizeof models / sizeof *models, LEN = 70 };

typedef struct fixture {
    cdz_runtime *rt;
    cdz_model *model;
} fixture;

static fixture open_one(const char *name)
{
    fixture f = {0};
    char path[512];
    const cdz_options options = {.size = sizeof options, .n_threads = 2, .kv_bytes = 8 << 20};
    snprintf(path, sizeof path, "%s/golden/%s", CADENZA_TEST_DATA, name);
    f.rt = opened_runtime(&options);
    f.model = opened_model(f.rt, path);
    return f;
}

static void close_one(fixture *f)
{
    cdz_model_close(f->model);
    cdz_close(f->rt);
}

static cdz_result *run(const fixture *f, const int32_t *ids, uint32_t n, const char *kwargs,
                       const cdz_result *past, bool keep)
{
    return generate_ids(f->rt, f->model, ids, n, kwargs, past, keep);
}

static void fill(int32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)(i * 53 % 250 + 3);
}

static void same_answers(const cdz_result *a, const cdz_result *b, const char *model,
                         const char *what)
{
    assert_int_equal(cdz_result_rows(a), cdz_result_rows(b));
    for (uint32_t r = 0; r < cdz_result_rows(a); r++) {
        uint32_t n, m;
        const int32_t *x = cdz_result_sequence(a, r, &n), *y = cdz_result_sequence(b, r, &m);
        if (n != m || memcmp(x, y, n * sizeof *x) != 0)
            fail_msg("%s, %s: row %u differs", model, what, r);
    }
}

/* Ways that say the same, pair by pair. */
static void ways_agree(void **state)
{
    (void)state;
    static const char *const ways[][2] = {
        {"", ", \"prompt_lookup_num_tokens\": 3"},
        {"", ", \"assistant_early_exit\": 1"},
        {"", ", \"prefill_chunk_size\": 4"},
        {"", ", \"use_cache\": false"},
        {", \"num_beams\": 3", ", \"num_beams\": 3, \"use_cache\": false"},
        {", \"num_beams\": 3, \"prefill_chunk_size\": 5, \"num_return_sequences\": 2",
         ", \"num_beams\": 3, \"num_return_sequences\": 2"},
        {", \"do_sample\": true, \"num_beams\": 2",
         ", \"do_sample\": true, \"num_beams\": 2, \"use_cache\": false"},
        {", \"do_sample\": true, \"num_return_sequences\": 3",
         ", \"do_sample\": true, \"num_return_sequences\": 3, \"use_cache\": false"},
        {", \"penalty_alpha\": 0.6, \"top_k\": 4",
         ", \"penalty_alpha\": 0.6, \"top_k\": 4, \"prefill_chunk_size\": 3"},
        {", \"guidance_scale\": 1.5", ", \"guidance_scale\": 1.5, \"use_cache\": false"},
    };
    int32_t ids[LEN];
    fill(ids, LEN);
    for (size_t m = 0; m < N_MODELS; m++) {
        fixture f = open_one(models[m]);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            char a[200], b[200];
            snprintf(a, sizeof a, ", \"max_new_tokens\": 24%s", ways[i][0]);
            snprintf(b, sizeof b, ", \"max_new_tokens\": 24%s", ways[i][1]);
            cdz_result *x = run(&f, ids, LEN, a, NULL, false);
            cdz_result *y = run(&f, ids, LEN, b, NULL, false);
            same_answers(x, y, models[m], ways[i][1]);
            cdz_result_free(x);
            cdz_result_free(y);
        }
        close_one(&f);
    }
}

/* What row 0 said, and some ids more. */
static uint32_t extend(const cdz_result *result, int32_t *ids, uint32_t more)
{
    uint32_t n;
    const int32_t *row = cdz_result_sequence(result, 0, &n);
    memcpy(ids, row, n * sizeof *ids);
    for (uint32_t i = 0; i < more; i++) ids[n + i] = (int32_t)(i * 31 % 200 + 5);
    return n + more;
}

static void a_kept_state_goes_on(void **state)
{
    (void)state;
    static const char *const modes[] = {"", ", \"do_sample\": true, \"num_return_sequences\": 3",
                                        ", \"num_beams\": 3", ", \"prompt_lookup_num_tokens\": 3"};
    for (size_t m = 0; m < N_MODELS; m++) {
        fixture f = open_one(models[m]);
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
            int32_t ids[LEN + 64];
            char late[200];
            snprintf(late, sizeof late, ", \"max_new_tokens\": 9%s", modes[i]);
            fill(ids, LEN);
            cdz_result *first = run(&f, ids, LEN, ", \"max_new_tokens\": 20", NULL, true);
            const uint32_t n = extend(first, ids, 6);
            cdz_result *anew = run(&f, ids, n, late, NULL, false);
            cdz_result *next = run(&f, ids, n, late, first, false);
            same_answers(next, anew, models[m], modes[i]);
            if (next->outcome->n_reused_tokens != LEN + 19)
                fail_msg("%s%s: %u reused", models[m], modes[i], next->outcome->n_reused_tokens);
            cdz_result_free(next);
            cdz_result_free(anew);
            cdz_result_free(first);
        }
        close_one(&f);
    }
}

/* A prompt that parts from the kept one goes on from the newest state that was noted before: where the first prompt ended. */
static void others_go_on_from_marks(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t changed, len, reused; /* the id at `changed` is another one */
    } cases[] = {
        {"nothing", 0, LEN + 10, 0},
        {"within the prompt", 40, LEN + 10, 0},
        {"within the answer", LEN + 5, LEN + 10, LEN},
        {"a shorter one", LEN + 20, 33, 0},
        {"the whole of it", LEN + 20, LEN + 10, LEN},
    };
    for (size_t m = 0; m < N_MODELS; m++) {
        fixture f = open_one(models[m]);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            int32_t ids[LEN + 64];
            fill(ids, LEN);
            cdz_result *first = run(&f, ids, LEN, ", \"max_new_tokens\": 20", NULL, true);
            extend(first, ids, 1);
            ids[cases[i].changed] = 2;
            cdz_result *anew = run(&f, ids, cases[i].len, ", \"max_new_tokens\": 8", NULL, false);
            cdz_result *next = run(&f, ids, cases[i].len, ", \"max_new_tokens\": 8", first, false);
            same_answers(next, anew, models[m], cases[i].name);
            if (next->outcome->n_reused_tokens != cases[i].reused)
                fail_msg("%s, %s: %u reused", models[m], cases[i].name,
                         next->outcome->n_reused_tokens);
            cdz_result_free(next);
            cdz_result_free(anew);
            cdz_result_free(first);
        }
        close_one(&f);
    }
}

/* A hidden token between visible ones would be forgotten in part: no model with a state takes it. Padding in front is none. */
static void a_hole_is_refused(void **state)
{
    (void)state;
    static const char *const asked[] = {
        "{\"prompt_ids\":[[5,6,7,8]],\"attention_mask\":[[0,1,1,1]],\"kwargs\":{\"max_new_tokens\":2}}",
        "{\"prompt_ids\":[[5,6,7,8]],\"attention_mask\":[[1,0,1,1]],\"kwargs\":{\"max_new_tokens\":2}}"};
    for (size_t i = 0; i < 2 * N_MODELS; i++) {
        fixture f = open_one(models[i / 2]);
        const cdz_request request = {.size = sizeof request, .model = f.model, .json = asked[i % 2]};
        cdz_result *result = NULL;
        cdz_error err = {0};
        const cdz_status status = cdz_generate(f.rt, &request, &result, &err);
        if (status != (i % 2 ? CDZ_E_UNSUPPORTED : CDZ_OK) ||
            (i % 2 && !strstr(err.text, "holes inside, which a model with recurrent layers")))
            fail_msg("%s: %d: %s", models[i / 2], status, err.text);
        cdz_result_free(result);
        close_one(&f);
    }
}

int main(void)
{
    if (cdz_env_named("CADENZA_DEVICE")) return 77; /* recurrent layers run on the CPU alone */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ways_agree),
        cmocka_unit_test(a_kept_state_goes_on),
        cmocka_unit_test(others_go_on_from_marks),
        cmocka_unit_test(a_hole_is_refused),
    };
    return cmocka_run_group_tests_name("recurrent", tests, NULL, NULL);
}
