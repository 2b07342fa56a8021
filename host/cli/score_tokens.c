/* score_tokens.c - scores of tokens that were generated: of an answer made now, or of the tensors of one that was saved. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/json.h"
#include "cli/score.h"
#include "load/safetensors.h"

/* --- an answer ------------------------------------------------------------------------------------------------------ */

enum { N_VALUES = 3 };
static const cdz_token_value kinds[N_VALUES] = {CDZ_TOKEN_SCORE, CDZ_TOKEN_LOGPROB,
                                                CDZ_TOKEN_RAW_LOGPROB};

/* Under the line of a step's token. The steps of a search are its beams', in JSON alone. */
static void print_step_top(const cdz_model *model, const cdz_result *result, uint32_t row,
                           uint32_t step)
{
    const int32_t *ids;
    const float *scores;
    float sum;
    const uint32_t n = cdz_result_is_search(result)
                           ? 0
                           : cdz_result_top_scores(result, row, step, &ids, &scores, &sum);
    if (n) cdz_cli_score_print_top(model, ids, scores, n, sum);
}

static cdz_status print_row(const cdz_score_options *o, const cdz_model *model,
                            const cdz_result *result, uint32_t row, cdz_error *err)
{
    uint32_t n;
    const int32_t *ids = cdz_result_ids(result, row, &n);
    float *values = calloc((size_t)n * N_VALUES + 1, sizeof *values);
    double sums[N_VALUES] = {0};
    cdz_status status = values ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (uint32_t k = 0; status == CDZ_OK && k < N_VALUES; k++)
        status = cdz_result_token_values(result, row, kinds[k], values + (size_t)k * n, n, err);
    if (status == CDZ_OK && !o->summary)
        printf("%8s  %-16s  %10s  %10s  %10s\n", "id", "token", "score", "logprob", "raw logprob");
    for (uint32_t i = 0; status == CDZ_OK && i < n; i++) {
        if (!o->summary) cdz_cli_score_print_token(model, ids[i]);
        for (uint32_t k = 0; k < N_VALUES; k++) {
            const float value = values[(size_t)k * n + i];
            sums[k] += (double)value;
            if (!o->summary) cdz_cli_score_print_value(value);
        }
        if (!o->summary) putchar('\n');
        if (o->top) print_step_top(model, result, row, i);
    }
    if (status == CDZ_OK)
        printf("sequence %u: %u tokens, log-likelihood %.4f, the model's own %.4f\n", row, n,
               sums[1], sums[2]);
    free(values);
    return status;
}

static cdz_status keep_top(const cdz_score_options *o, const cdz_session *session, cdz_error *err)
{
    char top[16];
    snprintf(top, sizeof top, "%u", (unsigned)o->top);
    return cdz_pipeline_set(session->pipeline, "output_scores_top", top, err);
}

static cdz_status answer(const cdz_score_options *o, const cdz_session *session, cdz_error *err)
{
    cdz_request request = cdz_session_request(session, &o->common);
    request.prompt = o->prompt;
    cdz_result *result = NULL;
    CDZ_TRY(cdz_pipeline_set(session->pipeline, "output_logprobs", "yes", err));
    cdz_status status = o->top ? keep_top(o, session, err) : CDZ_OK;
    if (status == CDZ_OK) status = cdz_generate(session->runtime, &request, &result, err);
    if (status == CDZ_OK && o->top && !o->json && cdz_result_is_search(result))
        cdz_cli_say("--top: the steps of a search are its beams'; --json has them");
    if (status == CDZ_OK && o->json) puts(cdz_result_json(result));
    for (uint32_t r = 0; status == CDZ_OK && !o->json && r < cdz_result_rows(result); r++)
        status = print_row(o, session->model, result, r, err);
    cdz_result_free(result);
    return status;
}

int cdz_cli_score_answer(const cdz_score_options *options)
{
    cdz_session session;
    cdz_error err = {0};
    int code = cdz_session_open(&options->common, &session);
    if (code != CDZ_EXIT_OK) return code;
    if (answer(options, &session, &err) != CDZ_OK) code = cdz_cli_fail(&err);
    cdz_session_close(&session);
    return code;
}

/* --- saved tensors --------------------------------------------------------------------------------------------------- */

typedef struct saved_job {
    const char *path;
    cdz_tensors tensors;
    cdz_arena arena;
    cdz_transition in;
} saved_job;

static cdz_status need(const saved_job *job, const char *name, const char *type,
                       const cdz_tensor **out, cdz_error *err)
{
    const cdz_tensor *t = *out = cdz_tensors_find(&job->tensors, name);
    if (!t)
        return cdz_err(err, CDZ_E_INPUT, "%s: has no tensor \"%s\"; was it written with %s?",
                       job->path, name,
                       strncmp(name, "scores", 6) == 0 ? "-s output_scores=yes" : "--outputs");
    if (strcmp(t->dtype, type) != 0 || t->n_dims != 2 || t->shape[0] == 0 ||
        t->shape[0] > UINT32_MAX || t->shape[1] > UINT32_MAX) {
        char text[96];
        return cdz_err(err, CDZ_E_INPUT, "%s: \"%s\" is %s %s; expected two dimensions of %s",
                       job->path, name, t->dtype, cdz_tensor_shape_text(t, text, sizeof text), type);
    }
    return CDZ_OK;
}

/* Values of the file, aligned. */
static const void *copied(saved_job *job, const cdz_tensor *t)
{
    void *copy = cdz_arena_alloc(&job->arena, (size_t)t->n_bytes + 1);
    if (copy) memcpy(copy, t->data, (size_t)t->n_bytes);
    return copy;
}

static uint32_t count_steps(const saved_job *job)
{
    char name[32] = "scores/0";
    uint32_t n = 0;
    while (cdz_tensors_find(&job->tensors, name))
        snprintf(name, sizeof name, "scores/%u", (unsigned)++n);
    return n;
}

static cdz_status read_scores(saved_job *job, cdz_error *err)
{
    cdz_transition *in = &job->in;
    const cdz_tensor *t;
    CDZ_TRY(need(job, "scores/0", "F32", &t, err));
    in->n_score_rows = (uint32_t)t->shape[0];
    in->n_vocab = (uint32_t)t->shape[1];
    in->n_steps = count_steps(job);
    const float **scores = cdz_arena_array(&job->arena, in->n_steps, sizeof *scores);
    if (!scores) return cdz_err_memory_in(err, job->path);
    for (uint32_t s = 0; s < in->n_steps; s++) {
        char name[32];
        snprintf(name, sizeof name, "scores/%u", (unsigned)s);
        CDZ_TRY(need(job, name, "F32", &t, err));
        if (t->shape[0] != in->n_score_rows || t->shape[1] != in->n_vocab)
            return cdz_err(err, CDZ_E_INPUT, "%s: \"%s\" has another shape than \"scores/0\"",
                           job->path, name);
        scores[s] = copied(job, t);
        if (!scores[s]) return cdz_err_memory_in(err, job->path);
    }
    in->scores = scores;
    return CDZ_OK;
}

static cdz_status read_saved(saved_job *job, cdz_error *err)
{
    cdz_transition *in = &job->in;
    const cdz_tensor *t;
    CDZ_TRY(cdz_tensors_open(job->path, &job->tensors, err));
    CDZ_TRY(need(job, "sequences", "I64", &t, err));
    if (t->shape[1] == 0) /* then any number of rows takes no byte of the file */
        return cdz_err(err, CDZ_E_INPUT, "%s: \"sequences\" holds %llu sequences of no tokens",
                       job->path, (unsigned long long)t->shape[0]);
    in->n_rows = (uint32_t)t->shape[0];
    in->len = (uint32_t)t->shape[1];
    in->sequences = copied(job, t);
    if (!in->sequences) return cdz_err_memory_in(err, job->path);
    CDZ_TRY(read_scores(job, err));
    if (!cdz_tensors_find(&job->tensors, "beam_indices")) return CDZ_OK;
    CDZ_TRY(need(job, "beam_indices", "I32", &t, err));
    if (t->shape[0] != in->n_rows)
        return cdz_err(err, CDZ_E_INPUT,
                       "%s: \"beam_indices\" has another number of rows than "
                       "\"sequences\"",
                       job->path);
    in->n_columns = (uint32_t)t->shape[1];
    in->beam_indices = copied(job, t);
    return in->beam_indices ? CDZ_OK : cdz_err_memory_in(err, job->path);
}

static void print_saved(const cdz_score_options *o, const cdz_transition *in, const float *values,
                        uint32_t n)
{
    cdz_buf out = {0};
    cdz_buf_puts(&out, "{\"transition_scores\": [");
    for (uint32_t r = 0; r < in->n_rows; r++) {
        double sum = 0;
        cdz_buf_puts(&out, r ? ", [" : "[");
        for (uint32_t i = 0; i < n; i++) {
            const float value = values[(size_t)r * n + i];
            const int64_t id = in->sequences[(size_t)r * in->len + (in->len - n) + i];
            if (i) cdz_buf_puts(&out, ", ");
            cdz_json_write_f32(&out, value);
            sum += (double)value;
            if (o->json || o->summary) continue;
            cdz_cli_score_print_token(NULL, (int32_t)id);
            cdz_cli_score_print_value(value);
            putchar('\n');
        }
        cdz_buf_putc(&out, ']');
        if (!o->json) printf("sequence %u: sum of %u scores %.4f\n", r, n, sum);
    }
    cdz_buf_puts(&out, "]}");
    if (o->json && !out.failed) puts(out.data);
    cdz_buf_free(&out);
}

int cdz_cli_score_saved(const cdz_score_options *options)
{
    saved_job job = {.path = options->outputs};
    cdz_error err = {0};
    uint32_t n;
    job.in = (cdz_transition){.size = sizeof job.in, .normalize = options->normalize};
    cdz_status status = read_saved(&job, &err);
    float *values = NULL;
    const size_t most = job.in.n_steps < job.in.len ? job.in.n_steps : job.in.len;
    if (status == CDZ_OK)
        values = cdz_arena_array(&job.arena, job.in.n_rows, most * sizeof *values);
    if (status == CDZ_OK && !values) status = cdz_err(&err, CDZ_E_NOMEM, "out of memory");
    if (status == CDZ_OK) status = cdz_transition_scores(&job.in, values, &n, &err);
    if (status == CDZ_OK) print_saved(options, &job.in, values, n);
    cdz_tensors_close(&job.tensors);
    cdz_arena_free(&job.arena);
    return status == CDZ_OK ? CDZ_EXIT_OK : cdz_cli_fail(&err);
}
