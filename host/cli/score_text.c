/* score_text.c - a text's log-probabilities and perplexity. A text longer than the window is read in windows that
 * overlap: each token is scored once, by the first window that holds it. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/json.h"
#include "cli/score.h"

typedef struct text_job {
    const cdz_score_options *options;
    cdz_session session;
    int32_t *source; /* (n_source) an encoder's */
    size_t n_source;
    int32_t *ids; /* (n) context and text */
    size_t n, n_context;
    float *logprobs; /* (n) */
    uint32_t n_top;  /* columns of these, which --top asks for: the K likeliest tokens of a place */
    int32_t *top_ids;
    float *top_logprobs;
} text_job;

/* --- the ids -------------------------------------------------------------------------------------------------------- */

static cdz_status read_file(const char *path, char **text, size_t *len, cdz_error *err)
{
    enum { MOST = 256 << 20 };
    const bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rbe");
    if (!file) return cdz_err(err, CDZ_E_IO, "%s: cannot be opened: %s", path, strerror(errno));
    const cdz_status status =
        cdz_cli_read_stream(file, standard ? "standard input" : path, MOST, text, len, err);
    if (!standard) fclose(file);
    return status;
}

static cdz_status parse_ids(const char *list, int32_t **ids, size_t *n, cdz_error *err)
{
    *ids = calloc(strlen(list) / 2 + 1, sizeof **ids);
    if (!*ids) return cdz_err_memory(err, "the ids");
    for (const char *at = list; *at;) {
        char *end;
        errno = 0;
        const long id = strtol(at, &end, 10);
        if (end == at || errno || id < 0 || id > INT32_MAX || (*end && (*end != ',' || !end[1])))
            return cdz_err(err, CDZ_E_USAGE,
                           "--ids %s: expected token ids from 0, separated by commas", list);
        (*ids)[(*n)++] = (int32_t)id;
        at = *end ? end + 1 : end;
    }
    return CDZ_OK;
}

/* special: as a text of its own begins (and, for an encoder, ends). */
static cdz_status read_text(const text_job *job, bool special, int32_t **ids, size_t *n,
                            cdz_error *err)
{
    const cdz_score_options *o = job->options;
    if (o->ids) return parse_ids(o->ids, ids, n, err);
    if (o->text)
        return cdz_tokenize(job->session.model, o->text, strlen(o->text), special, ids, n, err);
    char *text;
    size_t len;
    CDZ_TRY(read_file(o->file, &text, &len, err));
    const cdz_status status = cdz_tokenize(job->session.model, text, len, special, ids, n, err);
    free(text);
    return status;
}

static cdz_status join(text_job *job, const int32_t *context, const int32_t *text, size_t n_text,
                       cdz_error *err)
{
    job->n = job->n_context + n_text;
    job->ids = calloc(job->n + 1, sizeof *job->ids);
    job->logprobs = calloc(job->n + 1, sizeof *job->logprobs);
    if (!job->ids || !job->logprobs) return cdz_err_memory(err, "the ids");
    if (job->n_context) memcpy(job->ids, context, job->n_context * sizeof *context);
    if (n_text) memcpy(job->ids + job->n_context, text, n_text * sizeof *text);
    for (size_t i = 0; i < job->n; i++) job->logprobs[i] = NAN;
    return CDZ_OK;
}

static cdz_status read_all(text_job *job, cdz_error *err)
{
    const char *given = job->options->context;
    const bool pair = cdz_model_has_encoder(job->session.model);
    int32_t *context = NULL, *text = NULL;
    size_t n_context = 0, n_text = 0;
    cdz_status status = CDZ_OK;
    if (pair && !given)
        status = cdz_err(err, CDZ_E_USAGE,
                         "the model has an encoder; give what it reads with --context");
    if (status == CDZ_OK && given)
        status =
            cdz_tokenize(job->session.model, given, strlen(given), true, &context, &n_context, err);
    if (status == CDZ_OK) status = read_text(job, pair || !given, &text, &n_text, err);
    if (status == CDZ_OK && n_text == 0)
        status = cdz_err(err, CDZ_E_USAGE, "the text is empty: there is nothing to score");
    if (pair) {
        job->source = context;
        job->n_source = n_context;
    } else {
        job->n_context = n_context;
    }
    if (status == CDZ_OK) status = join(job, context, text, n_text, err);
    if (!pair) cdz_free(context);
    free(text);
    return status;
}

/* --- windows -------------------------------------------------------------------------------------------------------- */

/* The model's context; of one that has no end (0) the whole text. */
static size_t usual_window(const text_job *job, size_t context)
{
    if (context) return context;
    return job->n < 2 ? 2 : job->n;
}

static cdz_status choose_window(const text_job *job, size_t *window, size_t *stride, cdz_error *err)
{
    const cdz_score_options *o = job->options;
    const size_t context = cdz_model_context(job->session.model);
    *window = o->window ? o->window : usual_window(job, context);
    *stride = o->stride ? o->stride : *window / 2;
    if (context && *window > context)
        return cdz_err(err, CDZ_E_USAGE, "--window %zu: the model's context is %zu", *window,
                       context);
    if (*window < 2) return cdz_err(err, CDZ_E_USAGE, "--window 1: expected at least 2");
    if (*stride < *window) return CDZ_OK;
    return cdz_err(err, CDZ_E_USAGE,
                   "--stride %zu: expected less than the window of %zu, so that a token has one "
                   "before it",
                   *stride, *window);
}

static bool make_top(text_job *job, uint32_t n_top)
{
    job->n_top = n_top;
    job->top_ids = calloc(job->n, n_top * sizeof *job->top_ids);
    job->top_logprobs = calloc(job->n, n_top * sizeof *job->top_logprobs);
    return job->top_ids && job->top_logprobs;
}

/* What a result says of the text's place `at`; false: out of memory. */
static bool take_top(text_job *job, const cdz_result *result, uint32_t place, size_t at)
{
    const int32_t *ids;
    const float *logprobs;
    const uint32_t n = cdz_result_prompt_top_logprobs(result, 0, place, &ids, &logprobs);
    if (n == 0) return true;
    if (!job->top_ids && !make_top(job, n)) return false;
    memcpy(job->top_ids + at * n, ids, n * sizeof *ids);
    memcpy(job->top_logprobs + at * n, logprobs, n * sizeof *logprobs);
    return true;
}

/* The n tokens from `from` on, of which the first `known` are scored already. */
static cdz_status score_part(text_job *job, size_t from, size_t n, size_t known, cdz_error *err)
{
    const cdz_scored_text text = {job->source, job->n_source, job->ids + from, n, job->options->top};
    cdz_result *result = NULL;
    uint32_t n_values = 0;
    cdz_status status =
        cdz_score_result(job->session.runtime, job->session.model, &text, &result, err);
    const float *values = status == CDZ_OK ? cdz_result_prompt_logprobs(result, 0, &n_values) : NULL;
    const size_t before = n_values > n ? n_values - n : 0; /* a start token may stand there */
    for (size_t i = known; status == CDZ_OK && values && i < n; i++) {
        job->logprobs[from + i] = values[before + i];
        if (!take_top(job, result, (uint32_t)(before + i), from + i))
            status = cdz_err_memory(err, "the scores");
    }
    cdz_result_free(result);
    return status;
}

static cdz_status score_windows(text_job *job, cdz_error *err)
{
    size_t window, stride, known = 0;
    cdz_status status = CDZ_OK;
    CDZ_TRY(choose_window(job, &window, &stride, err));
    for (size_t from = 0; status == CDZ_OK && known < job->n; from += stride) {
        const size_t n = job->n - from < window ? job->n - from : window;
        status = score_part(job, from, n, known - from, err);
        known = from + n;
    }
    return status;
}

static cdz_status score(text_job *job, cdz_error *err)
{
    return job->n_source ? score_part(job, 0, job->n, 0, err) : score_windows(job, err);
}

/* --- the answer ------------------------------------------------------------------------------------------------------ */

/* [place], null where nothing predicts the token there. */
static void write_top(const text_job *job, cdz_buf *out)
{
    cdz_buf_puts(out, ", \"top_logprobs\": [");
    for (size_t i = job->n_context; i < job->n; i++) {
        if (i > job->n_context) cdz_buf_puts(out, ", ");
        if (isnan(job->logprobs[i]))
            cdz_buf_puts(out, "null");
        else
            cdz_result_write_alternatives(job->session.model->run, job->top_ids + i * job->n_top,
                                          job->top_logprobs + i * job->n_top, job->n_top, 0, out);
    }
    cdz_buf_putc(out, ']');
}

static void print_json(const text_job *job, size_t n_scored, double sum)
{
    cdz_buf out = {0};
    cdz_buf_puts(&out, "{\"ids\": [");
    for (size_t i = job->n_context; i < job->n; i++)
        cdz_buf_printf(&out, "%s%d", i > job->n_context ? ", " : "", (int)job->ids[i]);
    cdz_buf_puts(&out, "], \"logprobs\": [");
    for (size_t i = job->n_context; i < job->n; i++) {
        if (i > job->n_context) cdz_buf_puts(&out, ", ");
        if (isnan(job->logprobs[i]))
            cdz_buf_puts(&out, "null");
        else
            cdz_json_write_f32(&out, job->logprobs[i]);
    }
    cdz_buf_printf(&out, "], \"n_scored\": %zu, \"log_likelihood\": ", n_scored);
    cdz_json_write_real(&out, sum);
    cdz_buf_puts(&out, ", \"perplexity\": ");
    if (n_scored)
        cdz_json_write_real(&out, exp(-sum / (double)n_scored));
    else
        cdz_buf_puts(&out, "null");
    if (job->options->top) write_top(job, &out);
    cdz_buf_putc(&out, '}');
    if (!out.failed) puts(out.data);
    cdz_buf_free(&out);
}

static void print_table(const text_job *job, size_t n_scored, double sum)
{
    const bool lines = !job->options->summary;
    if (lines) printf("%8s  %-16s  %10s  %10s\n", "id", "token", "logprob", "probability");
    for (size_t i = job->n_context; lines && i < job->n; i++) {
        cdz_cli_score_print_token(job->session.model, job->ids[i]);
        cdz_cli_score_print_value(job->logprobs[i]);
        cdz_cli_score_print_value(expf(job->logprobs[i]));
        putchar('\n');
        if (job->n_top && !isnan(job->logprobs[i]))
            cdz_cli_score_print_top(job->session.model, job->top_ids + i * job->n_top,
                                    job->top_logprobs + i * job->n_top, job->n_top, 0);
    }
    printf("%zu tokens, %zu scored, log-likelihood %.4f", job->n - job->n_context, n_scored, sum);
    if (n_scored)
        printf(", perplexity %.4f, %.4f bits per token", exp(-sum / (double)n_scored),
               -sum / (double)n_scored / 0.69314718055994530942);
    putchar('\n');
}

static void print_all(const text_job *job)
{
    double sum = 0;
    size_t n_scored = 0;
    for (size_t i = job->n_context; i < job->n; i++)
        if (!isnan(job->logprobs[i])) {
            sum += (double)job->logprobs[i];
            n_scored++;
        }
    (job->options->json ? print_json : print_table)(job, n_scored, sum);
}

int cdz_cli_score_text(const cdz_score_options *options)
{
    text_job job = {.options = options};
    cdz_error err = {0};
    int code = cdz_session_open(&options->common, &job.session);
    if (code != CDZ_EXIT_OK) return code;
    cdz_status status = read_all(&job, &err);
    if (status == CDZ_OK) status = score(&job, &err);
    if (status == CDZ_OK)
        print_all(&job);
    else
        code = cdz_cli_fail(&err);
    free(job.source);
    free(job.ids);
    free(job.logprobs);
    free(job.top_ids);
    free(job.top_logprobs);
    cdz_session_close(&job.session);
    return code;
}
