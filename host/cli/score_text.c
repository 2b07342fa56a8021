/* score_text.c - a text's log-probabilities and perplexity. A text longer than the window is read in windows that
 * overlap: each token is scored once, by the first window that holds it. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    if (!*ids) return cdz_err(err, CDZ_E_NOMEM, "out of memory for the ids");
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
    if (!job->ids || !job->logprobs) return cdz_err(err, CDZ_E_NOMEM, "out of memory for the ids");
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

static cdz_status choose_window(const text_job *job, size_t *window, size_t *stride, cdz_error *err)
{
    const cdz_score_options *o = job->options;
    const size_t context = cdz_model_context(job->session.model);
    *window = o->window ? o->window : context;
    *stride = o->stride ? o->stride : *window / 2;
    if (*window > context)
        return cdz_err(err, CDZ_E_USAGE, "--window %zu: the model's context is %zu", *window,
                       context);
    if (*window < 2) return cdz_err(err, CDZ_E_USAGE, "--window 1: expected at least 2");
    if (*stride < *window) return CDZ_OK;
    return cdz_err(err, CDZ_E_USAGE,
                   "--stride %zu: expected less than the window of %zu, so that a token has one "
                   "before it",
                   *stride, *window);
}

static cdz_status score_windows(text_job *job, cdz_error *err)
{
    size_t window, stride, known = 0;
    CDZ_TRY(choose_window(job, &window, &stride, err));
    float *values = calloc(window, sizeof *values);
    if (!values) return cdz_err(err, CDZ_E_NOMEM, "out of memory for the scores");
    cdz_status status = CDZ_OK;
    for (size_t from = 0; status == CDZ_OK && known < job->n; from += stride) {
        const size_t n = job->n - from < window ? job->n - from : window;
        status = cdz_score(job->session.runtime, job->session.model, NULL, 0, job->ids + from, n,
                           values, err);
        for (; status == CDZ_OK && known < from + n; known++)
            job->logprobs[known] = values[known - from];
    }
    free(values);
    return status;
}

static cdz_status score(text_job *job, cdz_error *err)
{
    if (!job->n_source) return score_windows(job, err);
    return cdz_score(job->session.runtime, job->session.model, job->source, job->n_source, job->ids,
                     job->n, job->logprobs, err);
}

/* --- the answer ------------------------------------------------------------------------------------------------------ */

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
    cdz_buf_putc(&out, '}');
    if (!out.failed) puts(out.data);
    cdz_buf_free(&out);
}

static void print_table(const text_job *job, size_t n_scored, double sum)
{
    const bool lines = !job->options->summary;
    if (lines) printf("%8s  %-16s  %10s  %10s\n", "id", "token", "logprob", "probability");
    for (size_t i = job->n_context; lines && i < job->n; i++) {
        cdz_score_print_token(job->session.model, job->ids[i]);
        cdz_score_print_value(job->logprobs[i]);
        cdz_score_print_value(expf(job->logprobs[i]));
        putchar('\n');
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

int cdz_score_text(const cdz_score_options *options)
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
    cdz_session_close(&job.session);
    return code;
}
