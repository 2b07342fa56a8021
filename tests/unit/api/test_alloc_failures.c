/* test_alloc_failures.c - memory that runs out at any point is an error with a sentence, and leaks nothing.
 *
 * malloc and its kin are the test's own: they count, and refuse the n-th request. Each scenario runs once for each n
 * until it comes to its end without having met the refusal. CADENZA_SWEEP_STRIDE=1 tries every n; by default it is
 * each seventh of the first and then every so many. Skipped where a sanitizer has malloc's place already. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cadenza/cadenza.h"
#include "support/refused_memory.h"

/* --- scenarios -------------------------------------------------------------------------------------------------- */

typedef struct scenario {
    const char *name;
    const char *model;     /* a folder below tests/ */
    const char *assistant; /* another, or NULL */
    const char *ini;
    const char *json; /* the request */
} scenario;

#define PROMPT "{\"prompt_ids\": [[5, 80, 201, 44, 17, 300]]"

static const scenario scenarios[] = {
    {"greedy", "golden/llama_gqa", NULL, "[generation]\nmax_new_tokens = 3\n", PROMPT "}"},
    {"text", "../models/pocket-dictionary-draft", NULL,
     "[generation]\ndo_sample = true\nseed = 7\ntop_k = 5\nmax_new_tokens = 3\nstop_strings = [\"zzz\"]\n",
     "{\"prompt\": \"river (noun): a\"}"},
    {"messages", "../models/pocket-dictionary-draft", NULL,
     "[generation]\nseed = 7\nmax_new_tokens = 2\n",
     "{\"messages\": [{\"role\": \"user\", \"content\": \"What does river mean?\"}]}"},
    {"beams", "golden/llama_gqa", NULL,
     "[generation]\nmax_new_tokens = 3\nnum_beams = 3\nno_repeat_ngram_size = 2\n"
     "repetition_penalty = 1.2\noutput_scores = true\nbad_words_ids = [[7], [8, 9]]\n",
     PROMPT "}"},
    {"drafts", "golden/llama_gqa", "golden/llama_draft", "[generation]\nmax_new_tokens = 4\n",
     PROMPT "}"},
    {"guidance", "golden/llama_gqa", NULL,
     "[generation]\nmax_new_tokens = 2\nguidance_scale = 1.5\noutput_hidden_states = true\n",
     PROMPT "}"},
    {"lua", "golden/llama_gqa", NULL,
     "[pipeline]\nstrategy = lua:" CADENZA_TEST_DATA "/whole/composition/obvious.lua\n"
     "[generation]\nmax_new_tokens = 2\n",
     PROMPT "}"},
    {"encoder-decoder", "golden/t5_relu", NULL, "[generation]\nmax_new_tokens = 3\n",
     "{\"prompt_ids\": [[5, 8, 20, 44, 17, 1]]}"},
};

static cdz_status generate(const scenario *s, cdz_runtime *runtime, cdz_model *models[2],
                           cdz_pipeline **pipeline, cdz_result **result, cdz_error *err)
{
    char path[4096];
    const char *folders[] = {s->model, s->assistant};
    for (size_t i = 0; i < 2; i++) {
        if (!folders[i]) continue;
        snprintf(path, sizeof path, "%s/%s", CADENZA_TEST_DATA, folders[i]);
        CDZ_TRY(cdz_model_open(runtime, path, NULL, &models[i], err));
    }
    CDZ_TRY(cdz_pipeline_parse(runtime, s->ini, strlen(s->ini), "test.ini", pipeline, err));
    const cdz_request request = {.size = sizeof request,
                                 .model = models[0],
                                 .assistant = models[1],
                                 .pipeline = *pipeline,
                                 .json = s->json};
    return cdz_generate(runtime, &request, result, err);
}

enum { MOST_IDS = 64 };

typedef struct answer {
    cdz_error err;
    uint32_t n;
    int32_t ids[MOST_IDS]; /* of row 0 */
    char text[512];
} answer;

static void keep_answer(const cdz_result *result, answer *a)
{
    const int32_t *ids = cdz_result_ids(result, 0, &a->n);
    assert_true(a->n <= MOST_IDS);
    memcpy(a->ids, ids, a->n * sizeof *ids);
    snprintf(a->text, sizeof a->text, "%s", cdz_result_text(result, 0));
}

/* From opening a runtime to closing it. */
static cdz_status play(const scenario *s, answer *a)
{
    cdz_error *err = &a->err;
    const cdz_options options = {.size = sizeof options, .n_threads = 1, .kv_bytes = 4u << 20};
    cdz_runtime *runtime = NULL;
    cdz_model *models[2] = {NULL, NULL};
    cdz_pipeline *pipeline = NULL;
    cdz_result *result = NULL;

    *a = (answer){0};
    cdz_status status = cdz_open(&options, &runtime, err);
    if (status == CDZ_OK) status = generate(s, runtime, models, &pipeline, &result, err);
    if (status == CDZ_OK && !cdz_result_json(result)) status = CDZ_E_NOMEM;
    if (status == CDZ_OK) keep_answer(result, a);
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
    cdz_model_close(models[1]);
    cdz_model_close(models[0]);
    cdz_close(runtime);
    return status;
}

/* --- the sweep -------------------------------------------------------------------------------------------------- */

/* What a run refused at n leaves behind; *met: it came as far as that. An answer in spite of it is the whole answer. */
static long leaves(const scenario *s, long n, const answer *whole, bool *met)
{
    answer a;
    const long before = atomic_load(&n_held);
    atomic_store(&n_asked, 0);
    atomic_store(&refused_at, n);
    const cdz_status status = play(s, &a);
    *met = atomic_load(&n_asked) > n;
    atomic_store(&refused_at, -1);
    if (status != CDZ_OK && (!*met || !a.err.text[0]))
        fail_msg("%s, allocation %ld refused: status %d, '%s'", s->name, n, (int)status, a.err.text);
    if (status == CDZ_OK && (a.n != whole->n || strcmp(a.text, whole->text) != 0 ||
                             memcmp(a.ids, whole->ids, a.n * sizeof *a.ids)))
        fail_msg("%s, allocation %ld refused: another answer", s->name, n);
    return atomic_load(&n_held) - before;
}

static void sweep(const scenario *s, bool all_after)
{
    if (taken) skip();
    const char *every = getenv("CADENZA_SWEEP_STRIDE");
    const long stride = every ? strtol(every, NULL, 10) : 211;
    answer whole;
    bool met = true;

    atomic_store(&ever_after, all_after);
    if (play(s, &whole) != CDZ_OK) fail_msg("%s: %s", s->name, whole.err.text);
    for (long n = 0; met; n += n < 64 && stride > 7 ? 7 : stride) {
        /* The C library may keep something the first time, not each time. */
        for (int again = 0; leaves(s, n, &whole, &met) > 0; again++)
            if (again == 2) fail_msg("%s, allocation %ld refused: memory is left", s->name, n);
    }
}

static void one_refused(void **state)
{
    sweep(*state, false);
}

static void all_refused_from_there(void **state)
{
    sweep(*state, true);
}

int main(void)
{
    enum { N = sizeof scenarios / sizeof scenarios[0] };
    struct CMUnitTest tests[2 * N];
    char names[2 * N][64];

    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < 2; j++) {
            char *name = names[2 * i + j];
            snprintf(name, sizeof names[0], "%s_%s", scenarios[i].name, j ? "none_after" : "one");
            tests[2 * i + j] = (struct CMUnitTest){
                .name = name,
                .test_func = j ? all_refused_from_there : one_refused,
                .initial_state = (void *)(uintptr_t)&scenarios[i],
            };
        }
    }
    return cmocka_run_group_tests_name("allocation failures", tests, NULL, NULL);
}
