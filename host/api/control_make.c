/* control_make.c - control vectors from two lists of texts: reads them, compares what layers leave behind the last token,
 * writes the file (convert/control_out.h).
 *
 * Owns: the states while they are compared. Sums are in double and in the texts' order, so the file is the same each time.
 * Thread: [any]; waits. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/write.h"
#include "convert/control_out.h"
#include "convert/out.h"

enum { AT_ONCE = 16, MOST_ROUNDS = 2000 };

typedef struct maker {
    cdz_model *model;
    const cdz_control_texts *texts;
    uint32_t n_layers, width; /* layers that get a direction: 1 to n_layers */
    uint32_t n;               /* texts, the positive ones first */
    float *states;            /* (n, n_layers, width) */
    float *directions;        /* (n_layers, width) */
    double *row, *other;      /* (width) */
    bool pca;
} maker;

/* --- reading ---------------------------------------------------------------------------------------------------------- */

static const char *text_of(const maker *m, uint32_t i)
{
    const cdz_control_texts *t = m->texts;
    return i < t->n_positive ? t->positive[i] : t->negative[i - t->n_positive];
}

static cdz_status submit(const maker *m, uint32_t i, uint64_t *id, cdz_error *err)
{
    cdz_buf json = {0};
    const char *text = text_of(m, i);
    cdz_buf_puts(&json, "{\"prompt\": ");
    cdz_json_write_string(&json, text, strlen(text));
    cdz_buf_puts(&json,
                 ", \"kwargs\": {\"max_new_tokens\": 1, \"do_sample\": false, \"num_beams\": 1, "
                 "\"return_dict_in_generate\": true, \"output_hidden_states\": true}}");
    const cdz_request request = {.size = sizeof request, .model = m->model, .json = json.data};
    const cdz_status status = json.failed ? cdz_err_memory(err, "the texts")
                                          : cdz_submit(m->model->runtime, &request, id, err);
    cdz_buf_free(&json);
    return status;
}

/* hidden_states[l + 1] is what leaves layer l. */
static void keep(const maker *m, uint32_t i, const cdz_outcome *o)
{
    const cdz_recorded_step *step = &o->steps[0];
    const size_t D = m->width, last = (size_t)(step->n_queries - 1) * D;
    for (uint32_t l = 0; l < m->n_layers; l++)
        memcpy(m->states + ((size_t)i * m->n_layers + l) * D, step->hidden[l + 2] + last,
               D * sizeof(float));
}

static cdz_status take(const maker *m, uint32_t i, uint64_t id, cdz_error *err)
{
    cdz_result *result = NULL;
    cdz_status status = cdz_wait(m->model->runtime, id, &result, err);
    if (status == CDZ_OK) keep(m, i, result->outcome);
    cdz_result_free(result);
    if (status == CDZ_OK && m->texts->tell && !m->texts->tell(m->texts->user, i + 1, m->n))
        return cdz_err(err, CDZ_E_CANCELLED, "stopped");
    return status;
}

static void give_up(const maker *m, const uint64_t *ids, uint32_t from, uint32_t to)
{
    cdz_error unread;
    for (; from < to; from++) {
        cdz_result *result = NULL;
        (void)cdz_cancel(m->model->runtime, ids[from % AT_ONCE], &unread);
        if (cdz_wait(m->model->runtime, ids[from % AT_ONCE], &result, &unread) != CDZ_OK)
            unread.code = 0;
        cdz_result_free(result);
    }
}

/* Some at a time, so that they share passes. */
static cdz_status read_texts(const maker *m, cdz_error *err)
{
    uint64_t ids[AT_ONCE];
    uint32_t begun = 0, done = 0;
    cdz_status status = CDZ_OK;
    while (status == CDZ_OK && done < m->n) {
        if (begun < m->n && begun < done + AT_ONCE) {
            status = submit(m, begun, &ids[begun % AT_ONCE], err);
            begun += status == CDZ_OK;
        } else {
            status = take(m, done, ids[done % AT_ONCE], err);
            done++;
        }
    }
    give_up(m, ids, done, begun);
    return status;
}

/* --- comparing --------------------------------------------------------------------------------------------------------- */

static const float *state(const maker *m, uint32_t i, uint32_t l)
{
    return m->states + ((size_t)i * m->n_layers + l) * m->width;
}

/* Adds the mean of n states, from the first-th on, times sign. */
static void add_mean(const maker *m, uint32_t l, uint32_t first, uint32_t n, double sign, double *to)
{
    for (uint32_t k = 0; k < m->width; k++) {
        double sum = 0;
        for (uint32_t i = first; i < first + n; i++) sum += (double)state(m, i, l)[k];
        to[k] += sign * sum / n;
    }
}

static void mean_difference(const maker *m, uint32_t l, double *to)
{
    const uint32_t n = m->texts->n_positive;
    memset(to, 0, m->width * sizeof *to);
    add_mean(m, l, 0, n, 1, to);
    add_mean(m, l, n, m->texts->n_negative, -1, to);
}

/* False: there is no length to take away. */
static bool normalise(double *v, uint32_t width)
{
    double square = 0;
    for (uint32_t k = 0; k < width; k++) square += v[k] * v[k];
    for (uint32_t k = 0; square > 0 && k < width; k++) v[k] /= sqrt(square);
    return square > 0;
}

/* One round of the power method: to becomes the sum over pairs of (d.v) d; returns the sum of d.v. */
static double turn(const maker *m, uint32_t l, const double *v, double *to)
{
    const uint32_t n = m->texts->n_positive;
    double along = 0;
    memset(to, 0, m->width * sizeof *to);
    for (uint32_t i = 0; i < n; i++) {
        const float *a = state(m, i, l), *b = state(m, n + i, l);
        double dot = 0;
        for (uint32_t k = 0; k < m->width; k++) dot += ((double)a[k] - (double)b[k]) * v[k];
        for (uint32_t k = 0; k < m->width; k++) to[k] += dot * ((double)a[k] - (double)b[k]);
        along += dot;
    }
    return along;
}

static double distance(const double *a, const double *b, uint32_t width)
{
    double most = 0;
    for (uint32_t k = 0; k < width; k++) most = fmax(most, fabs(a[k] - b[k]));
    return most;
}

/* m->row, which is the mean difference, becomes the component times the mean along it: its sign is then of no account. */
static void principal(const maker *m, uint32_t l)
{
    double *v = m->row, *next = m->other;
    if (!normalise(v, m->width)) return;
    for (uint32_t round = 0; round < MOST_ROUNDS; round++) {
        turn(m, l, v, next);
        if (!normalise(next, m->width)) break;
        const double moved = distance(v, next, m->width);
        memcpy(v, next, m->width * sizeof *v);
        if (moved < 1e-13) break;
    }
    const double along = turn(m, l, v, next) / m->texts->n_positive;
    for (uint32_t k = 0; k < m->width; k++) v[k] *= along;
}

static cdz_status compare(const maker *m, cdz_error *err)
{
    bool differ = false;
    for (uint32_t l = 0; l < m->n_layers; l++) {
        mean_difference(m, l, m->row);
        if (m->pca) principal(m, l);
        float *to = m->directions + (size_t)l * m->width;
        for (uint32_t k = 0; k < m->width; k++) {
            to[k] = (float)m->row[k];
            differ |= to[k] != 0;
        }
    }
    if (differ) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT,
                   "the positive and the negative texts leave the same states on average: there is "
                   "no direction between them");
}

/* --- the whole ---------------------------------------------------------------------------------------------------------- */

static cdz_status read_method(maker *m, cdz_error *err)
{
    const cdz_control_texts *t = m->texts;
    m->pca = t->method && strcmp(t->method, "pca") == 0;
    if (t->method && !m->pca && strcmp(t->method, "mean") != 0)
        return cdz_err(err, CDZ_E_USAGE, "method '%.40s': expected mean or pca", t->method);
    if (t->n_positive == 0 || t->n_negative == 0)
        return cdz_err(err, CDZ_E_USAGE, "there are no %s texts",
                       t->n_positive ? "negative" : "positive");
    if (m->pca && t->n_positive != t->n_negative)
        return cdz_err(err, CDZ_E_USAGE,
                       "pca compares text by text: %" PRIu32 " positive ones and %" PRIu32
                       " negative ones are no pairs",
                       t->n_positive, t->n_negative);
    return CDZ_OK;
}

static cdz_status check_model(const maker *m, const cdz_arch *arch, cdz_error *err)
{
    if (arch->encoder || arch->streams.n)
        return cdz_err(err, CDZ_E_UNSUPPORTED, "%s: control vectors are not made of a model with %s",
                       m->model->folder, arch->encoder ? "an encoder" : "several streams a row");
    if (arch->n_layers < 3)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "%s: of %" PRIu32 " layers there is none between the first and the last",
                       m->model->folder, (uint32_t)arch->n_layers);
    return CDZ_OK;
}

static cdz_status begin(maker *m, cdz_error *err)
{
    const cdz_arch *arch = cdz_weights_arch(cdz_run_model_weights(m->model->run));
    size_t floats;
    CDZ_TRY(read_method(m, err));
    CDZ_TRY(check_model(m, arch, err));
    m->n = m->texts->n_positive + m->texts->n_negative;
    m->n_layers = (uint32_t)arch->n_layers - 2;
    m->width = (uint32_t)arch->hidden;
    const size_t layers = (size_t)m->n_layers * m->width;
    if (__builtin_mul_overflow(layers, m->n, &floats)) return cdz_err_memory(err, "the states");
    m->states = calloc(floats, sizeof *m->states);
    m->directions = calloc(layers, sizeof *m->directions);
    m->row = calloc(m->width, sizeof *m->row);
    m->other = calloc(m->width, sizeof *m->other);
    return m->states && m->directions && m->row && m->other ? CDZ_OK
                                                            : cdz_err_memory(err, "the states");
}

static cdz_status write_file(const maker *m, const char *path, cdz_error *err)
{
    const cdz_control_out what = {
        .hint = cdz_weights_arch(cdz_run_model_weights(m->model->run))->model_type,
        .first = 1,
        .n = m->n_layers,
        .directions = m->directions,
        .width = m->width};
    return cdz_out_control(&what, path, m->texts->force, err);
}

cdz_status cdz_model_make_control_vector(cdz_model *model, const cdz_control_texts *texts,
                                         const char *path, cdz_error *err)
{
    maker m = {.model = model, .texts = texts};
    if (!texts || texts->size != sizeof *texts)
        return cdz_err(err, CDZ_E_USAGE,
                       "cdz_control_texts.size must be %zu: sizeof(cdz_control_texts)",
                       sizeof *texts);
    cdz_status status = cdz_target_may(path, false, texts->force, err);
    if (status == CDZ_OK) status = cdz_write_may(path, CDZ_WRITE_SYNC, err);
    if (status == CDZ_OK) status = begin(&m, err);
    if (status == CDZ_OK) status = read_texts(&m, err);
    if (status == CDZ_OK) status = compare(&m, err);
    if (status == CDZ_OK) status = write_file(&m, path, err);
    free(m.states);
    free(m.directions);
    free(m.row);
    free(m.other);
    return status;
}
