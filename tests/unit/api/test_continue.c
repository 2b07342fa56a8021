/* test_continue.c - requests that continue what others left: KV state kept in results, and "calls" of one document. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "support/generate_ids.h"
#include "support/must.h"
#include "support/opened.h"

typedef struct fixture {
    cdz_runtime *rt;
    cdz_model *model, *other;
} fixture;

static int open_with(void **state, const char *prefix_cache)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    const cdz_options options = {
        .size = sizeof options, .n_threads = 2, .kv_bytes = 4 << 20, .prefix_cache = prefix_cache};
    f->rt = opened_runtime(&options);
    f->model = opened_model(f->rt, CADENZA_TEST_DATA "/golden/llama_gqa");
    f->other = opened_model(f->rt, CADENZA_TEST_DATA "/golden/gpt2");
    *state = f;
    return 0;
}

/* What a prompt reuses is to come from its past alone. */
static int open_all(void **state)
{
    return open_with(state, "off");
}

static int open_listing(void **state)
{
    return open_with(state, NULL);
}

static int close_all(void **state)
{
    fixture *f = *state;
    cdz_model_close(f->other);
    cdz_model_close(f->model);
    cdz_close(f->rt);
    free(f);
    return 0;
}

static cdz_engine_stats stats_of(const fixture *f)
{
    cdz_engine_stats stats;
    cdz_engine_get_stats(f->rt->engine, &stats);
    return stats;
}

static cdz_result *run(const fixture *f, const int32_t *ids, uint32_t n, const char *kwargs,
                       const cdz_result *past, bool keep)
{
    return generate_ids(f->rt, f->model, ids, n, kwargs, past, keep);
}

enum { LEN = 70 };

static void fill(int32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)(i * 53 % 370 + 3);
}

/* What row 0 said, and some ids more. */
static uint32_t extend(const cdz_result *result, int32_t *ids, uint32_t more)
{
    uint32_t n;
    const int32_t *row = cdz_result_sequence(result, 0, &n);
    memcpy(ids, row, n * sizeof *ids);
    for (uint32_t i = 0; i < more; i++) ids[n + i] = (int32_t)(i * 31 % 300 + 5);
    return n + more;
}

static void same_answers(const cdz_result *a, const cdz_result *b, const char *what)
{
    assert_int_equal(cdz_result_rows(a), cdz_result_rows(b));
    for (uint32_t r = 0; r < cdz_result_rows(a); r++) {
        uint32_t n, m;
        const int32_t *x = cdz_result_sequence(a, r, &n), *y = cdz_result_sequence(b, r, &m);
        if (n != m || memcmp(x, y, n * sizeof *x) != 0) fail_msg("%s: row %u differs", what, r);
    }
}

static void a_kept_state_is_not_computed_again(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *name, *first, *kwargs;
        uint32_t read; /* of the answer: trials have read the last token too */
    } modes[] = {
        {"greedy", "", "", 19},
        {"sampled rows", "", ", \"do_sample\": true, \"num_return_sequences\": 3", 19},
        {"beams", "", ", \"num_beams\": 3, \"num_return_sequences\": 2", 19},
        {"chunks", "", ", \"prefill_chunk_size\": 4", 19},
        {"after drafts", ", \"prompt_lookup_num_tokens\": 3", "", 19},
        {"after trials", ", \"penalty_alpha\": 0.6, \"top_k\": 4", "", 20},
        {"drafts", "", ", \"prompt_lookup_num_tokens\": 3", 19},
        {"drafts by the first layers", ", \"assistant_early_exit\": 1", "", 19},
    };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        int32_t ids[LEN + 64];
        char early[200], late[200];
        snprintf(early, sizeof early, ", \"max_new_tokens\": 20%s", modes[i].first);
        snprintf(late, sizeof late, ", \"max_new_tokens\": 9%s", modes[i].kwargs);
        fill(ids, LEN);
        cdz_result *first = run(f, ids, LEN, early, NULL, true);
        const uint32_t n = extend(first, ids, 6);
        const uint64_t before = stats_of(f).pass_rows;
        cdz_result *anew = run(f, ids, n, late, NULL, false);
        const uint64_t between = stats_of(f).pass_rows;
        cdz_result *next = run(f, ids, n, late, first, false);
        const uint64_t after = stats_of(f).pass_rows;
        same_answers(next, anew, modes[i].name);
        if (next->outcome->n_reused_tokens != LEN + modes[i].read)
            fail_msg("%s: %u reused", modes[i].name, next->outcome->n_reused_tokens);
        assert_int_equal(next->outcome->n_prompt_tokens, 26 - modes[i].read);
        assert_true(after - between < between - before);
        cdz_result_free(next);
        cdz_result_free(anew);
        cdz_result_free(first);
    }
}

/* Only what prompts and state have in common counts. */
static void other_prompts_share_their_beginning(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *name;
        uint32_t changed, len, reused; /* the id at `changed` is another one; LEN + 20: none */
    } cases[] = {
        {"nothing", 0, LEN, 0},
        {"half a block", 40, LEN, 40},
        {"the same prompt", LEN, LEN, LEN},
        {"a shorter one", LEN, 33, 33},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t ids[LEN + 1];
        fill(ids, LEN);
        cdz_result *first = run(f, ids, LEN, ", \"max_new_tokens\": 4", NULL, true);
        ids[cases[i].changed] = 2;
        cdz_result *anew = run(f, ids, cases[i].len, ", \"max_new_tokens\": 8", NULL, false);
        cdz_result *next = run(f, ids, cases[i].len, ", \"max_new_tokens\": 8", first, false);
        same_answers(next, anew, cases[i].name);
        if (next->outcome->n_reused_tokens != cases[i].reused)
            fail_msg("%s: %u reused", cases[i].name, next->outcome->n_reused_tokens);
        cdz_result_free(next);
        cdz_result_free(anew);
        cdz_result_free(first);
    }
}

/* States that continue states hold them; all blocks come back in the end, whoever is freed first. */
static void a_chain_of_states_gives_everything_back(void **state)
{
    fixture *f = *state;
    enum { TURNS = 12 };
    cdz_result *turns[TURNS];
    static int32_t ids[1024];
    fill(ids, LEN);
    uint32_t n = LEN;
    for (int i = 0; i < TURNS; i++) {
        turns[i] = run(f, ids, n, ", \"max_new_tokens\": 30", i ? turns[i - 1] : NULL, true);
        n = extend(turns[i], ids, 3);
        if (i % 3 == 1) {
            cdz_result_free(turns[i - 1]);
            turns[i - 1] = NULL;
        }
    }
    cdz_result *anew = run(f, ids, n, ", \"max_new_tokens\": 5", NULL, false);
    cdz_result *next = run(f, ids, n, ", \"max_new_tokens\": 5", turns[TURNS - 1], false);
    same_answers(next, anew, "after twelve turns");
    cdz_result_free(next);
    cdz_result_free(anew);
    for (int i = 0; i < TURNS; i++) cdz_result_free(turns[i]);
    /* Freed on the engine thread: a request that needs all memory is let in once it has happened. */
    fill(ids, LEN);
    cdz_result_free(run(f, ids, LEN, ", \"max_new_tokens\": 2", NULL, false));
    for (int i = 0; i < 1000 && stats_of(f).kv_blocks_used; i++)
        cdz_result_free(run(f, ids, 2, ", \"max_new_tokens\": 1", NULL, false));
    assert_int_equal(stats_of(f).kv_blocks_used, 0);
}

static void kept_memory_is_told(void **state)
{
    (void)state;
    fixture f = {0};
    cdz_error err = {0};
    const cdz_options options = {.size = sizeof options, .n_threads = 1, .kv_bytes = 120 << 10};
    f.rt = opened_runtime(&options);
    f.model = opened_model(f.rt, CADENZA_TEST_DATA "/golden/llama_gqa");
    int32_t ids[LEN];
    fill(ids, LEN);
    cdz_result *all[64], *result = NULL;
    uint32_t n = 0;
    char *json = ids_document(ids, LEN, ", \"max_new_tokens\": 3");
    cdz_request request = {
        .size = sizeof request, .model = f.model, .json = json, .keep_cache = true};
    while (n < 64 && cdz_generate(f.rt, &request, &result, &err) == CDZ_OK) all[n++] = result;
    assert_in_range(n, 1, 63);
    assert_int_equal(err.code, CDZ_E_LIMIT);
    assert_non_null(strstr(err.text, "held by the states that earlier requests kept"));
    cdz_result_free(result);
    for (uint32_t i = 0; i < n; i++) cdz_result_free(all[i]);
    must(cdz_generate(f.rt, &request, &result, &err), &err);
    cdz_result *late = result; /* outlives engine and model */
    free(json);
    cdz_model_close(f.model);
    cdz_close(f.rt);
    cdz_result_free(late);
}

static void wrong_pasts_are_refused(void **state)
{
    fixture *f = *state;
    int32_t ids[LEN];
    fill(ids, LEN);
    cdz_result *plain = run(f, ids, LEN, ", \"max_new_tokens\": 2", NULL, false);
    cdz_result *kept = run(f, ids, LEN, ", \"max_new_tokens\": 2", NULL, true), *got = NULL;
    cdz_error err = {0};
    cdz_request request = {
        .size = sizeof request, .model = f->model, .ids = ids, .n_ids = 4, .past = plain};
    assert_int_equal(cdz_generate(f->rt, &request, &got, &err), CDZ_E_USAGE);
    assert_non_null(strstr(err.text, "without keep_cache"));
    request.past = kept;
    request.model = f->other;
    assert_int_equal(cdz_generate(f->rt, &request, &got, &err), CDZ_E_USAGE);
    assert_non_null(strstr(err.text, "another model"));
    cdz_result_free(plain);
    cdz_result_free(kept);
}

/* --- calls ---------------------------------------------------------------------------------------------------- */

static const char three_calls[] =
    "{\"prompt_ids\": [[9, 8, 7, 6], [5, 4, 3, 30]], \"kwargs\": {\"max_new_tokens\": 3, "
    "\"eos_token_id\": null}, \"calls\": ["
    "{\"append_ids\": [[11, 12], [13, 14]], \"kwargs\": {\"max_new_tokens\": 4, \"eos_token_id\": "
    "null}},"
    "{\"prompt_ids\": [9, 8, 7, 6], \"kwargs\": {\"max_new_tokens\": 3, \"eos_token_id\": null}}]}";

typedef struct heard {
    uint32_t tokens[3], done;
} heard;

static void hear(void *user, const cdz_event *event)
{
    heard *h = user;
    if (event->kind == CDZ_EVENT_DONE)
        h->done++;
    else if (event->call < 3)
        h->tokens[event->call] += event->n_ids;
}

/* The end of the context is one event in all modes and families: reason length, one warning; learned positions too. */
static void the_context_ends_rows(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *fields, *kwargs;
        uint32_t rows, len;
    } cases[] = {
        {"\"prompt_ids\": [[5, 6]]", "", 1, 256},
        {"\"prompt_ids\": [[5, 6]]", ", \"num_beams\": 3", 1, 256},
        {"\"prompt_ids\": [[5, 6]]", ", \"do_sample\": true, \"num_return_sequences\": 2", 2, 256},
        {"\"prompt_ids\": [[5, 6]]", ", \"prompt_lookup_num_tokens\": 4", 1, 256},
        {"\"prompt_ids\": [[5, 6]]", ", \"assistant_early_exit\": 1", 1, 256},
        {"\"prompt_ids\": [[5, 6]]", ", \"context\": false", 1, 256},
        {"\"prompt_ids\": [[0, 0, 5, 6], [7, 8, 9, 5]], \"attention_mask\": [[0, 0, 1, 1], [1, 1, 1, 1]]",
         "", 2, 258},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[400];
        cdz_error err = {0};
        cdz_result *result = NULL;
        snprintf(json, sizeof json,
                 "{%s, \"seed\": 1, \"kwargs\": {\"max_new_tokens\": 400, \"eos_token_id\": null, "
                 "\"pad_token_id\": 0%s}}",
                 cases[i].fields, cases[i].kwargs);
        cdz_request request = {.size = sizeof request, .model = f->other, .json = json};
        must(cdz_generate(f->rt, &request, &result, &err), &err);
        assert_int_equal(cdz_result_rows(result), cases[i].rows);
        for (uint32_t r = 0; r < cases[i].rows; r++) {
            uint32_t n;
            cdz_result_sequence(result, r, &n);
            assert_int_equal(n, cases[i].len);
            assert_string_equal(cdz_result_finish_reason(result, r), "length");
        }
        assert_int_equal(cdz_result_context_full(result), 256);
        assert_non_null(strstr(cdz_result_json(result), "\"context full: 256 of 256\""));
        cdz_result_free(result);
    }
}

static void what_goes_beyond_the_context_is_told(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *kwargs;
        bool other; /* learned positions */
        cdz_status status;
        const char *says;
    } cases[] = {
        {"\"max_new_tokens\": 400, \"strict_context\": true", true, CDZ_E_USAGE, "(strict_context)"},
        {"\"max_new_tokens\": 400, \"quirks\": true", true, CDZ_E_LIMIT, "learned 256 positions"},
        {"\"max_new_tokens\": 254, \"strict_context\": true", true, CDZ_OK, NULL},
        {"\"max_new_tokens\": 400", true, CDZ_OK, "there is room for 254"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[300];
        cdz_error err = {0};
        cdz_result *result = NULL;
        snprintf(json, sizeof json,
                 "{\"prompt_ids\": [[5, 6]], \"kwargs\": {\"eos_token_id\": null, %s}}",
                 cases[i].kwargs);
        cdz_request request = {
            .size = sizeof request, .model = cases[i].other ? f->other : f->model, .json = json};
        assert_int_equal(cdz_generate(f->rt, &request, &result, &err), cases[i].status);
        const char *text = result && cases[i].status == CDZ_OK ? cdz_result_json(result) : err.text;
        if (cases[i].says) assert_non_null(strstr(text, cases[i].says));
        if (!cases[i].says) assert_int_equal(cdz_result_context_full(result), 0);
        cdz_result_free(result);
    }
}

static void calls_follow_each_other(void **state)
{
    fixture *f = *state;
    heard h = {0};
    cdz_error err = {0};
    cdz_result *result = NULL;
    cdz_request request = {
        .size = sizeof request, .model = f->model, .json = three_calls, .on_event = hear, .user = &h};
    must(cdz_generate(f->rt, &request, &result, &err), &err);
    assert_int_equal(cdz_result_calls(result), 2);
    assert_null(cdz_result_call(result, 2));
    uint32_t n;
    cdz_result_sequence(cdz_result_call(result, 0), 1, &n);
    assert_int_equal(n, 4 + 3 + 2 + 4);
    assert_int_equal(cdz_result_call(result, 0)->outcome->n_reused_tokens, 2 * (4 + 3 - 1));
    assert_int_equal(cdz_result_call(result, 1)->outcome->n_reused_tokens, 0);
    assert_int_equal(cdz_result_rows(cdz_result_call(result, 1)), 1);
    uint32_t m;
    assert_memory_equal(cdz_result_ids(cdz_result_call(result, 1), 0, &n),
                        cdz_result_ids(result, 0, &m), 3 * sizeof(int32_t));
    assert_non_null(strstr(cdz_result_json(result), "\"calls\": [{"));
    const uint32_t tokens[] = {6, 8, 3};
    assert_memory_equal(h.tokens, tokens, sizeof tokens);
    assert_int_equal(h.done, 1);
    cdz_result_free(result);
}

static const struct {
    const char *name, *calls, *sentence;
    bool ran; /* the first call did */
} bad_calls[] = {
    {"no list", "3", "request: \"calls\" must be a list of at most 1000 objects", false},
    {"no object", "[3]", "request: calls[0] must be an object, found an integer", false},
    {"no prompt", "[{}]", "request: calls[0] needs one of \"append_ids\"", false},
    {"two prompts", "[{\"append_ids\": [], \"prompt\": \"a\"}]", "request: calls[0] needs one of",
     false},
    {"a misspelt field", "[{\"append_id\": [1]}]",
     "request: calls[0]: unknown field \"append_id\": did you mean \"append_ids\"?", false},
    {"too many rows", "[{\"append_ids\": [[1], [2]]}]",
     "request: \"append_ids\" has 2 rows; the call before gave 1 sequences", true},
    {"an unknown parameter",
     "[{\"append_ids\": [1], \"kwargs\": {\"max_new_tokens\": 1}}, "
     "{\"append_ids\": [1], \"kwargs\": {\"temprature\": 1}}]",
     "calls[1]: request: ", true},
    {"an id that is none", "[{\"append_ids\": [100000], \"kwargs\": {\"max_new_tokens\": 2}}]",
     "calls[0]: prompt row 0 holds token id 100000", true},
};

static void bad_calls_are_told(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < sizeof bad_calls / sizeof *bad_calls; i++) {
        char json[512];
        snprintf(json, sizeof json,
                 "{\"prompt_ids\": [9, 8], \"kwargs\": {\"max_new_tokens\": 2}, \"calls\": %s}",
                 bad_calls[i].calls);
        cdz_error err = {0};
        cdz_result *result = NULL;
        cdz_request request = {.size = sizeof request, .model = f->model, .json = json};
        const cdz_status status = cdz_generate(f->rt, &request, &result, &err);
        if (status == CDZ_OK || !strstr(err.text, bad_calls[i].sentence))
            fail_msg("%s: got %s", bad_calls[i].name, err.text);
        assert_int_equal(result != NULL, bad_calls[i].ran);
        cdz_result_free(result);
    }
}

/* Cancelling ends the call that runs and those that would follow. */
/* With the first token, so that the chain cannot have ended. [engine] */
static void cancel_at_once(void *user, const cdz_event *event)
{
    fixture *f = user;
    if (event->kind == CDZ_EVENT_TOKENS) (void)cdz_cancel(f->rt, event->request_id, NULL);
}

static void a_chain_can_be_cancelled(void **state)
{
    fixture *f = *state;
    cdz_buf json = {0};
    cdz_buf_puts(&json,
                 "{\"prompt_ids\": [9, 8], \"kwargs\": {\"max_new_tokens\": 2}, \"calls\": [");
    for (int i = 0; i < 400; i++)
        cdz_buf_printf(&json, "%s{\"append_ids\": [5], \"kwargs\": {\"max_new_tokens\": 2}}",
                       i ? ", " : "");
    cdz_buf_puts(&json, "]}");
    cdz_error err = {0};
    cdz_result *result = NULL;
    uint64_t id;
    cdz_request request = {.size = sizeof request,
                           .model = f->model,
                           .json = json.data,
                           .on_event = cancel_at_once,
                           .user = f};
    must(cdz_submit(f->rt, &request, &id, &err), &err);
    const cdz_status status = cdz_wait(f->rt, id, &result, &err);
    assert_int_equal(status, CDZ_E_CANCELLED);
    assert_true(cdz_result_calls(result) < 400);
    cdz_result_free(result);
    cdz_buf_free(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_kept_state_is_not_computed_again, open_all, close_all),
        cmocka_unit_test_setup_teardown(other_prompts_share_their_beginning, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_chain_of_states_gives_everything_back, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(a_chain_of_states_gives_everything_back, open_listing,
                                        close_all),
        cmocka_unit_test(kept_memory_is_told),
        cmocka_unit_test_setup_teardown(wrong_pasts_are_refused, open_all, close_all),
        cmocka_unit_test_setup_teardown(the_context_ends_rows, open_all, close_all),
        cmocka_unit_test_setup_teardown(what_goes_beyond_the_context_is_told, open_all, close_all),
        cmocka_unit_test_setup_teardown(calls_follow_each_other, open_all, close_all),
        cmocka_unit_test_setup_teardown(bad_calls_are_told, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_chain_can_be_cancelled, open_all, close_all),
    };
    return cmocka_run_group_tests_name("continue", tests, NULL, NULL);
}
