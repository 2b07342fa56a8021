/* test_named_models.c - further models that a pipeline names in [models]: who gets which, that one is opened once, and that
 * one that cannot be opened is told and tried again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/entry.h"
#include "cadenza/cadenza.h"
#include "support/must.h"
#include "support/opened.h"

#define GOLDEN CADENZA_TEST_DATA "/golden/"

/* The result "width" is the vocabulary of the model `critic`. */
static const char script[] =
    "return cadenza.strategy { id = 'org.example.ask', version = '1.0.0', one_row = true, greedy = true,\n"
    "  run = function(ctx)\n"
    "    ctx:seq_forward({ ctx:seq_new('critic'):append({ 3, 5 }) }, 'last')\n"
    "    ctx:result('width', ctx:facts('critic').n_vocab)\n"
    "    ctx:append(5)\n"
    "  end }\n";

typedef struct fixture {
    cdz_runtime *rt;
    cdz_model *model;
    char folder[64], ini[128];
} fixture;

static void write_file(const fixture *f, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", f->folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int open_all(void **state)
{
    const cdz_options options = {.size = sizeof options, .n_threads = 1, .kv_bytes = 8u << 20};
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->rt = opened_runtime(&options);
    f->model = opened_model(f->rt, GOLDEN "llama_gqa");
    snprintf(f->folder, sizeof f->folder, "/tmp/cadenza-named-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    write_file(f, "ask.lua", script);
    write_file(f, "ask.ini",
               "[pipeline]\nstrategy = lua:ask.lua\n[models]\ncritic = there\nother = there\n"
               "[generation]\nmax_new_tokens = 1\n");
    write_file(f, "same.ini", "[pipeline]\nuse = ask.ini\n[models]\nother = none\n");
    snprintf(f->ini, sizeof f->ini, "%s/ask.ini", f->folder);
    *state = f;
    return 0;
}

static int close_all(void **state)
{
    static const char *const names[] = {"ask.lua", "ask.ini", "same.ini", "there"};
    fixture *f = *state;
    cdz_model_close(f->model);
    cdz_close(f->rt);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", f->folder, names[i]);
        unlink(path);
    }
    rmdir(f->folder);
    free(f);
    return 0;
}

/* What `there` leads to from now on. */
static void lead(const fixture *f, const char *where)
{
    char path[128];
    snprintf(path, sizeof path, "%s/there", f->folder);
    unlink(path);
    assert_int_equal(symlink(where, path), 0);
}

static cdz_status ask(const fixture *f, cdz_pipeline *pipeline, cdz_model *given, uint32_t *width,
                      cdz_error *err)
{
    static const int32_t prompt[] = {5, 80, 201};
    const char *const name = "critic";
    cdz_result *result = NULL;
    const cdz_request request = {.size = sizeof request,
                                 .model = f->model,
                                 .pipeline = pipeline,
                                 .ids = prompt,
                                 .n_ids = 3,
                                 .model_names = &name,
                                 .models = &given,
                                 .n_models = given ? 1 : 0};
    const cdz_status status = cdz_generate(f->rt, &request, &result, err);
    const char *json = status == CDZ_OK ? cdz_result_json(result) : NULL;
    const char *at = json ? strstr(json, "\"width\": ") : NULL;
    *width = at ? (uint32_t)strtoul(at + 9, NULL, 10) : 0;
    cdz_result_free(result);
    return status;
}

static uint32_t n_open(const fixture *f)
{
    uint32_t n = 0;
    cdz_mutex_lock(&f->rt->lock);
    for (const cdz_named_model *at = f->rt->named; at; at = at->next) n++;
    cdz_mutex_unlock(&f->rt->lock);
    return n;
}

/* The engine's thread lets go of a request's plan when its result has been taken already. */
static void wait_for_none(const fixture *f)
{
    while (n_open(f)) usleep(1000);
}

static void named_by_a_pipeline(void **state)
{
    const fixture *f = *state;
    cdz_pipeline *one, *two;
    cdz_error err = {0};
    uint32_t width;
    char same[128];
    lead(f, GOLDEN "llama_draft");
    must(cdz_pipeline_load(f->rt, f->ini, &one, &err), &err);
    snprintf(same, sizeof same, "%s/same.ini", f->folder);
    must(cdz_pipeline_load(f->rt, same, &two, &err), &err);
    assert_int_equal(n_open(f), 0);
    must(ask(f, one, NULL, &width, &err), &err);
    assert_int_equal(width, cdz_model_vocab_size(f->model));
    assert_int_equal(n_open(f), 1); /* two names of one folder */
    must(ask(f, two, NULL, &width, &err), &err);
    assert_int_equal(n_open(f), 1);
    cdz_pipeline_free(one);
    assert_int_equal(n_open(f), 1); /* the other pipeline's still */
    cdz_pipeline_free(two);
    wait_for_none(f);
}

static void the_request_comes_first(void **state)
{
    const fixture *f = *state;
    cdz_pipeline *pipeline;
    cdz_error err = {0};
    uint32_t width;
    cdz_model *given = opened_model(f->rt, CADENZA_SOURCE_DIR "/models/pocket-dictionary-draft");
    lead(f, GOLDEN "llama_draft");
    must(cdz_pipeline_load(f->rt, f->ini, &pipeline, &err), &err);
    must(ask(f, pipeline, given, &width, &err), &err);
    assert_int_equal(width, cdz_model_vocab_size(given));
    assert_int_not_equal(width, cdz_model_vocab_size(f->model));
    cdz_pipeline_free(pipeline);
    cdz_model_close(given);
}

static void one_that_cannot_be_opened(void **state)
{
    const fixture *f = *state;
    cdz_pipeline *pipeline;
    cdz_error err = {0};
    uint32_t width;
    lead(f, f->folder);
    must(cdz_pipeline_load(f->rt, f->ini, &pipeline, &err), &err);
    assert_int_not_equal(ask(f, pipeline, NULL, &width, &err), CDZ_OK);
    assert_non_null(strstr(err.text, "ask.ini:4: [models] critic: "));
    wait_for_none(f);
    lead(f, GOLDEN "llama_draft");
    must(ask(f, pipeline, NULL, &width, &err), &err);
    cdz_pipeline_free(pipeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(named_by_a_pipeline, open_all, close_all),
        cmocka_unit_test_setup_teardown(the_request_comes_first, open_all, close_all),
        cmocka_unit_test_setup_teardown(one_that_cannot_be_opened, open_all, close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
