/* test_isolate_support.h - what the tests of isolated plugins are set up by: a runtime, the shipped model, a folder for
 * what they write, and what plugins logged. Include behind cmocka.h. */
#ifndef CADENZA_TESTS_ISOLATE_SUPPORT_H
#define CADENZA_TESTS_ISOLATE_SUPPORT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cadenza/cadenza.h"

typedef struct fixture {
    cdz_runtime *rt;
    cdz_model *model;
    char folder[64];
    uint32_t n_lines; /* that plugins logged */
    char line[256];   /* the newest of them */
} fixture;

static inline void must(cdz_status status, const cdz_error *err)
{
    if (status != CDZ_OK) fail_msg("%d: %s", (int)status, err->text);
}

static inline void heard(void *user, cdz_log_level level, const char *plugin, const char *text)
{
    fixture *f = user;
    (void)level, (void)plugin;
    snprintf(f->line, sizeof f->line, "%s", text);
    f->n_lines++;
}

/* plugins: the folder of the built-in ones; NULL: as the program has it. */
static inline fixture *fixture_open(const char *plugins, uint32_t n_threads)
{
    fixture *f = calloc(1, sizeof *f);
    cdz_error err = {0};
    assert_non_null(f);
    const cdz_options options = {.size = sizeof options,
                                 .n_threads = n_threads,
                                 .plugin_dir = plugins,
                                 .log = heard,
                                 .log_user = f};
    must(cdz_open(&options, &f->rt, &err), &err);
    must(cdz_model_open(f->rt, CADENZA_SOURCE_DIR "/models/pocket-dictionary", NULL, &f->model,
                        &err),
         &err);
    snprintf(f->folder, sizeof f->folder, "/tmp/cadenza-isolate-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    return f;
}

/* The folder has to be empty. Every process that was started is gone and was asked how it went. */
static inline void fixture_close(fixture *f)
{
    cdz_model_close(f->model);
    cdz_close(f->rt);
    assert_int_equal(rmdir(f->folder), 0);
    free(f);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static inline cdz_pipeline *parse(const fixture *f, const char *ini)
{
    cdz_pipeline *pipeline = NULL;
    cdz_error err = {0};
    must(cdz_pipeline_parse(f->rt, ini, strlen(ini), "test.ini", &pipeline, &err), &err);
    return pipeline;
}

static inline cdz_status generate(const fixture *f, cdz_pipeline *pipeline, const char *json,
                                  cdz_result **out, cdz_error *err)
{
    const cdz_request request = {
        .size = sizeof request, .model = f->model, .pipeline = pipeline, .json = json};
    return cdz_generate(f->rt, &request, out, err);
}

/* Both in one; what came of the first that failed. */
static inline cdz_status run_ini(const fixture *f, const char *ini, const char *json, cdz_error *err)
{
    cdz_pipeline *pipeline = NULL;
    cdz_result *result = NULL;
    cdz_status st = cdz_pipeline_parse(f->rt, ini, strlen(ini), "test.ini", &pipeline, err);
    if (st == CDZ_OK) st = generate(f, pipeline, json, &result, err);
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
    return st;
}

#endif
