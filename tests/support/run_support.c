/* run_support.c - see run_support.h: an engine with golden models, plans by hand, requests of them and their answers. */
#include "support/run_support.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "params/params.h"

cdz_run_model *open_model_with(cdz_engine *engine, const char *name, bool tokenizer)
{
    char path[512];
    cdz_error err = {0};
    cdz_weights *weights;
    cdz_tokenizer *tok = NULL;
    cdz_run_model *model;
    snprintf(path, sizeof path, "%s%s", golden_folder, name);
    must(cdz_weights_open(path, &weights, &err), &err);
    if (tokenizer) must(cdz_tokenizer_open(path, &tok, &err), &err);
    must(cdz_run_model_create(engine, weights, tok, &model, &err), &err);
    return model;
}

cdz_run_model *open_model(cdz_engine *engine, const char *name)
{
    return open_model_with(engine, name, false);
}

rig rig_open(const char *model, cdz_engine_options options)
{
    rig r = {0};
    cdz_error err = {0};
    if (!options.kv_bytes) options.kv_bytes = 8 << 20;
    if (!options.cpu_variant) options.cpu_variant = cdz_env_cpu();
    if (!options.fibres) options.fibres = cdz_env_fibres();
    /* As the library does, so that every test of the engine can run on other kernels, fibres and devices. */
    options.machine.device = (cdz_device_wish){.name = cdz_env_named("CADENZA_DEVICE"),
                                               .folder = cdz_env_backends(),
                                               .precision = CDZ_PRECISION_F32,
                                               .strict = true};
    must(cdz_engine_create(&options, &r.engine, &err), &err);
    r.model = open_model(r.engine, model);
    return r;
}

rig rig_of(cdz_weights *weights)
{
    rig r = {0};
    cdz_error err = {0};
    const cdz_engine_options options = {
        .kv_bytes = 8 << 20, .cpu_variant = cdz_env_cpu(), .fibres = cdz_env_fibres()};
    must(cdz_engine_create(&options, &r.engine, &err), &err);
    must(cdz_run_model_create(r.engine, weights, NULL, &r.model, &err), &err);
    return r;
}

void rig_close(rig *r)
{
    if (r->assistant) cdz_run_model_release(r->assistant);
    cdz_run_model_release(r->model);
    cdz_engine_free(r->engine);
    *r = (rig){0};
}

cdz_instance instance_of(const cdz_plugin_base *plugin, const void *params)
{
    cdz_error err = {0};
    cdz_instance made = {.name = plugin->id, .plugin = {plugin, NULL}, .params = params};
    must(cdz_offers_ask(plugin, &made.offers, &err), &err);
    return made;
}

void plan_add_processor(hand_plan *p, const cdz_processor *processor, const void *params)
{
    p->processors[p->plan.n_processors++] = instance_of(&processor->base, params);
}

void plan_add_named(hand_plan *p, const char *id, double value, bool whole)
{
    static cdz_arena arena;
    unsigned char *params = p->params[p->plan.n_processors];
    const cdz_plugin_base *plugin = built_plugin(id);
    const cdz_param_table table = cdz_params_of(plugin);
    cdz_error err = {0};
    cdz_json json = {.type = CDZ_JSON_REAL, .real = value};
    if (whole) json = (cdz_json){.type = CDZ_JSON_INT, .integer = (int64_t)value};
    assert_true(table.params_size <= sizeof p->params[0]);
    cdz_params_defaults(&table, params);
    must(cdz_param_set(cdz_param_find(&table, id), params, &json, &arena, &err), &err);
    cdz_arena_free(&arena);
    plan_add_processor(p, (const cdz_processor *)(const void *)plugin, params);
}

void plan_add_criterion(hand_plan *p, const cdz_criterion *criterion, const void *params)
{
    p->criteria[p->plan.n_criteria++] = instance_of(&criterion->base, params);
}

void plan_init(hand_plan *p, const cdz_plugin_base *strategy, const void *params)
{
    *p = (hand_plan){0};
    p->plan.strategy = instance_of(strategy, params);
    p->plan.processors = p->processors;
    p->plan.criteria = p->criteria;
}

const cdz_plugin_base *built_plugin(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/lib/cadenza/%s.so", CADENZA_BUILD_DIR, name);
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!so) fail_msg("%s", dlerror());
    const cdz_entry *entry = dlsym(so, "cdz_plugin");
    assert_non_null(entry);
    return entry->plugins[0];
}

static cdz_status test_length(const cdz_step *step, cdz_stop *stops)
{
    for (uint32_t r = 0; r < step->n_rows; r++)
        if (step->input_ids[r].len >= step->request->max_length)
            stops[r] = (cdz_stop){CDZ_STOP_LENGTH, {"length", 6}};
    return CDZ_OK;
}

const cdz_criterion length_rule = {
    .base = {CDZ_CRITERION_BASE, .id = "test.length", .version = "1.0.0", .summary = "length"},
    .test = test_length,
};

static cdz_status test_eos(const cdz_step *step, cdz_stop *stops)
{
    const cdz_ids eos = step->request->eos;
    for (uint32_t r = 0; r < step->n_rows; r++)
        for (uint32_t i = 0; i < eos.len; i++)
            if (step->input_ids[r].at[step->input_ids[r].len - 1] == eos.at[i])
                stops[r] = (cdz_stop){CDZ_STOP_EOS, {"eos", 3}};
    return CDZ_OK;
}

const cdz_criterion eos_rule = {
    .base = {CDZ_CRITERION_BASE, .id = "test.eos", .version = "1.0.0", .summary = "eos"},
    .caps = CDZ_HAS_EOS,
    .test = test_eos,
};

void answer_tokens(void *user, const cdz_new_tokens *tokens)
{
    answer *a = user;
    const uint32_t row = tokens->row;
    a->n_calls++;
    for (uint32_t i = 0; row < 4 && i < tokens->n && a->n_streamed[row] < 256; i++)
        a->streamed[row][a->n_streamed[row]++] = tokens->ids[i];
}

void answer_done(void *user, cdz_outcome *outcome)
{
    answer *a = user;
    a->job->plan = NULL; /* the test's own */
    pthread_mutex_lock(&a->lock);
    a->outcome = outcome;
    a->done = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

cdz_job *new_job(const rig *r, hand_plan *plan, const int32_t *ids, const uint8_t *masks,
                 uint32_t n_prompts, uint32_t prompt_len, uint32_t max_new, answer *a)
{
    cdz_job *job = cdz_job_new();
    assert_non_null(job);
    if (plan) plan->plan.generation.use_cache = true;
    job->plan = plan ? &plan->plan : NULL;
    job->model = r->model;
    job->assistant = r->assistant;
    job->n_prompts = job->n_rows = n_prompts;
    job->prompt_len = prompt_len;
    job->max_length = prompt_len + max_new;
    job->rows = cdz_arena_array(&job->arena, n_prompts, sizeof *job->rows);
    int32_t *copy = cdz_arena_array(&job->arena, (size_t)n_prompts * prompt_len, sizeof *copy);
    uint8_t *mask = cdz_arena_array(&job->arena, (size_t)n_prompts * prompt_len, 1);
    assert_true(job->rows && copy && mask);
    memcpy(copy, ids, (size_t)n_prompts * prompt_len * sizeof *copy);
    memset(mask, 1, (size_t)n_prompts * prompt_len);
    if (masks) memcpy(mask, masks, (size_t)n_prompts * prompt_len);
    for (uint32_t i = 0; i < n_prompts; i++)
        job->rows[i] = (cdz_job_row){.ids = copy + i * prompt_len, .mask = mask + i * prompt_len};
    *a = (answer){.job = job};
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    job->on_tokens = answer_tokens;
    job->on_done = answer_done;
    job->user = a;
    return job;
}

void submit(const rig *r, answer *a)
{
    cdz_error err = {0};
    must(cdz_engine_submit(r->engine, a->job, &a->id, &err), &err);
}

cdz_outcome *await(answer *a)
{
    pthread_mutex_lock(&a->lock);
    while (!a->done) pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
    return a->outcome;
}

cdz_outcome *await_well(answer *a)
{
    cdz_outcome *outcome = await(a);
    must(outcome->error.code, &outcome->error);
    return outcome;
}

cdz_outcome *run(const rig *r, answer *a)
{
    submit(r, a);
    return await(a);
}

cdz_outcome *run_well(const rig *r, answer *a)
{
    submit(r, a);
    return await_well(a);
}

void must_be_same(const cdz_outcome *a, const cdz_outcome *b, uint32_t n_rows, const char *name)
{
    if (a->error.code != b->error.code || strcmp(a->error.text, b->error.text) != 0)
        fail_msg("%s: \"%s\" and \"%s\"", name, a->error.text, b->error.text);
    for (uint32_t r = 0; r < n_rows; r++)
        if (a->rows[r].len != b->rows[r].len ||
            memcmp(a->rows[r].ids, b->rows[r].ids, a->rows[r].len * sizeof(int32_t)) != 0)
            fail_msg("%s: other tokens in row %u", name, r);
}

void answer_free(answer *a)
{
    cdz_outcome_free(a->outcome);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
}

float *prompt_logits_of(const rig *r, const int32_t *ids, uint32_t len, size_t *n)
{
    answer a;
    new_job(r, NULL, ids, NULL, 1, len, 0, &a)->prompt_logits = true;
    const cdz_outcome *outcome = run_well(r, &a);
    assert_non_null(outcome->prompt_logits);
    *n = (size_t)len * outcome->n_vocab;
    float *copy = malloc(*n * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, outcome->prompt_logits, *n * sizeof *copy);
    answer_free(&a);
    return copy;
}

/* --- recorded beside a model ---------------------------------------------------------------------------------- */

cdz_tensors recorded_tensors(const char *folder, const char *name)
{
    char path[512];
    cdz_error err = {0};
    cdz_tensors set = {0};
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, name);
    must(cdz_tensors_open(path, &set, &err), &err);
    return set;
}

static const cdz_tensor *recorded_of(const cdz_tensors *set, const char *name)
{
    const cdz_tensor *t = cdz_tensors_find(set, name);
    if (!t) fail_msg("tensor %s is missing", name);
    return t;
}

const void *recorded_tensor(const cdz_tensors *set, const char *name)
{
    return recorded_of(set, name)->data;
}

void logits_are_recorded(cdz_weights *weights, const char *folder, const char *name, float relative)
{
    char beside[256];
    size_t n;
    snprintf(beside, sizeof beside, "%s/logits", name);
    cdz_tensors set = recorded_tensors(folder, beside);
    const cdz_tensor *ids = recorded_of(&set, "ids"), *logits = recorded_of(&set, "logits");
    const float *want = logits->data;
    rig r = rig_of(weights);
    float *got = prompt_logits_of(&r, ids->data, (uint32_t)(ids->n_bytes / sizeof(int32_t)), &n);
    assert_int_equal(n * sizeof *got, logits->n_bytes);
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= 2e-5f + 2e-5f * relative * fabsf(want[i])))
            fail_msg("%s: logit %zu is %.9g, expected %.9g", name, i, (double)got[i],
                     (double)want[i]);
    free(got);
    rig_close(&r);
    cdz_tensors_close(&set);
}
