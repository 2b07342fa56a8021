/* metrics.c - counts, and writes them down. Names are vLLM's under our prefix, so that its dashboards need one replacement. */
#include "serve/metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

static const struct {
    const char *name, *help;
    double unit; /* of the smallest bucket */
} samples[CDZ_N_METRIC_SAMPLES] = {
    {"time_to_first_token_seconds", "from the request to its first token", 1e-3},
    {"inter_token_latency_seconds", "from one token of a request to the next", 1e-3},
    {"e2e_request_latency_seconds", "from the request to the end of its answer", 1e-3},
    {"request_queue_time_seconds", "from a prompt's arrival at the engine to its turn", 1e-3},
    {"request_prefill_time_seconds", "for reading a prompt", 1e-3},
    {"request_decode_time_seconds", "from a prompt that is read to the end of its answers", 1e-3},
    {"request_prompt_tokens", "tokens of a request's prompts", 1},
    {"request_generation_tokens", "tokens of a request's answers", 1},
    {"request_params_n", "answers that a request asks for, of each prompt", 1},
    {"request_params_max_tokens", "the limit that a request sets", 1},
};

/* 1-2-5 from the unit on. */
static double bound(cdz_metric_sample which, size_t i)
{
    static const double steps[] = {1, 2, 5};
    double scale = samples[which].unit;
    for (size_t k = 0; k < i / 3; k++) scale *= 10;
    return steps[i % 3] * scale;
}

void cdz_metrics_sample(cdz_metrics *m, cdz_metric_sample which, double value)
{
    size_t i = 0;
    while (i < CDZ_METRIC_BUCKETS && value > bound(which, i)) i++;
    cdz_mutex_lock(&m->lock);
    m->samples[which].counts[i]++;
    m->samples[which].n++;
    m->samples[which].sum += value;
    cdz_mutex_unlock(&m->lock);
}

void cdz_metrics_end(cdz_metrics *m, cdz_metric_end how)
{
    cdz_mutex_lock(&m->lock);
    m->ends[how]++;
    cdz_mutex_unlock(&m->lock);
}

/* Names beyond the places are counted in the last. */
static void count_name(cdz_metric_names *names, const char *name)
{
    size_t i = 0;
    while (i + 1 < CDZ_METRIC_NAMES && names->at[i].n && strcmp(names->at[i].name, name) != 0) i++;
    if (!names->at[i].n)
        snprintf(names->at[i].name, sizeof names->at[i].name, "%s",
                 i + 1 < CDZ_METRIC_NAMES ? name : "others");
    names->at[i].n++;
}

void cdz_metrics_asked(cdz_metrics *m, const char *strategy, const char *pipeline)
{
    cdz_mutex_lock(&m->lock);
    count_name(&m->strategies, strategy ? strategy : "auto");
    count_name(&m->pipelines, pipeline ? pipeline : "default");
    cdz_mutex_unlock(&m->lock);
}

void cdz_metrics_refuse(cdz_metrics *m, cdz_metric_refusal why)
{
    atomic_fetch_add(&m->refused[why], 1);
}

/* What clients make up is one label. */
static const char *method_label(const char *method)
{
    static const char *const known[] = {"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], method) == 0) return known[i];
    return "other";
}

void cdz_metrics_status(cdz_metrics *m, const char *route, const char *method, int status)
{
    const char *label = method_label(method);
    cdz_mutex_lock(&m->lock);
    size_t i = 0;
    while (i < CDZ_METRIC_STATUSES && m->statuses[i].route &&
           (m->statuses[i].status != status || m->statuses[i].method != label ||
            strcmp(m->statuses[i].route, route) != 0))
        i++;
    if (i < CDZ_METRIC_STATUSES) {
        m->statuses[i].route = route;
        m->statuses[i].method = label;
        m->statuses[i].status = status;
        m->statuses[i].n++;
    }
    cdz_mutex_unlock(&m->lock);
}

static void put_label(cdz_buf *out, const char *model)
{
    cdz_buf_puts(out, "{model_name=");
    cdz_json_write_string(out, model, strlen(model));
    cdz_buf_puts(out, ",engine=\"0\"");
}

static void put_title(cdz_buf *out, const char *name, const char *kind, const char *help)
{
    cdz_buf_printf(out, "# HELP cadenza:%s %s\n# TYPE cadenza:%s %s\n", name, help, name, kind);
}

void cdz_metrics_put(cdz_buf *out, const char *name, const char *kind, const char *help,
                     const char *model, double value)
{
    put_title(out, name, kind, help);
    cdz_buf_printf(out, "cadenza:%s", name);
    put_label(out, model);
    cdz_buf_puts(out, "} ");
    cdz_json_write_real(out, value);
    cdz_buf_putc(out, '\n');
}

static void put_line(cdz_buf *out, const char *name, const char *model, const char *more,
                     uint64_t value)
{
    cdz_buf_printf(out, "cadenza:%s", name);
    put_label(out, model);
    cdz_buf_printf(out, "%s} %llu\n", more, (unsigned long long)value);
}

static void put_bucket(cdz_buf *out, const char *name, const char *model, double to, uint64_t n)
{
    char bucket[64], full[96];
    snprintf(full, sizeof full, "%s_bucket", name);
    snprintf(bucket, sizeof bucket, ",le=\"%.10g\"", to);
    put_line(out, full, model, isfinite(to) ? bucket : ",le=\"+Inf\"", n);
}

/* The last lines of a histogram. */
static void put_sum(cdz_buf *out, const char *name, const char *model, double sum, uint64_t n)
{
    char full[96];
    put_bucket(out, name, model, INFINITY, n);
    cdz_buf_printf(out, "cadenza:%s_sum", name);
    put_label(out, model);
    cdz_buf_puts(out, "} ");
    cdz_json_write_real(out, sum);
    cdz_buf_putc(out, '\n');
    snprintf(full, sizeof full, "%s_count", name);
    put_line(out, full, model, "", n);
}

static void put_histogram(cdz_buf *out, cdz_metric_sample which, const char *model,
                          const cdz_histogram *h)
{
    uint64_t sum = 0;
    put_title(out, samples[which].name, "histogram", samples[which].help);
    for (size_t i = 0; i < CDZ_METRIC_BUCKETS; i++) {
        sum += h->counts[i];
        put_bucket(out, samples[which].name, model, bound(which, i), sum);
    }
    put_sum(out, samples[which].name, model, h->sum, h->n);
}

void cdz_metrics_put_powers(cdz_buf *out, const char *name, const char *help, const char *model,
                            const uint64_t *counts, size_t n, double sum)
{
    uint64_t all = 0;
    put_title(out, name, "histogram", help);
    for (size_t i = 0; i + 1 < n; i++) {
        all += counts[i];
        put_bucket(out, name, model, (double)(UINT64_C(1) << i), all);
    }
    put_sum(out, name, model, sum, n ? all + counts[n - 1] : 0);
}

static void put_statuses(cdz_metrics *m, const char *model, cdz_buf *out)
{
    char more[192];
    put_title(out, "http_requests_total", "counter", "requests by endpoint, method and status");
    for (size_t i = 0; i < CDZ_METRIC_STATUSES && m->statuses[i].route; i++) {
        snprintf(more, sizeof more, ",handler=\"%s\",method=\"%s\",status=\"%d\"",
                 m->statuses[i].route, m->statuses[i].method, m->statuses[i].status);
        put_line(out, "http_requests_total", model, more, m->statuses[i].n);
    }
}

static void put_names(const cdz_metric_names *names, const char *what, const char *label,
                      const char *help, const char *model, cdz_buf *out)
{
    put_title(out, what, "counter", help);
    for (size_t i = 0; i < CDZ_METRIC_NAMES && names->at[i].n; i++) {
        cdz_buf more = {0};
        cdz_buf_printf(&more, ",%s=", label);
        cdz_json_write_string(&more, names->at[i].name, strlen(names->at[i].name));
        put_line(out, what, model, more.data ? more.data : "", names->at[i].n);
        out->failed |= more.failed;
        cdz_buf_free(&more);
    }
}

static void put_refusals(cdz_metrics *m, const char *model, cdz_buf *out)
{
    static const char *const whys[CDZ_N_REFUSED] = {"queue_full", "queue_tokens", "stopping",
                                                    "api_key", "site"};
    char more[64];
    put_title(out, "requests_refused_total", "counter", "requests turned away at the door");
    for (size_t i = 0; i < CDZ_N_REFUSED; i++) {
        snprintf(more, sizeof more, ",reason=\"%s\"", whys[i]);
        put_line(out, "requests_refused_total", model, more, atomic_load(&m->refused[i]));
    }
}

static void put_ends(const cdz_metrics *m, const char *model, cdz_buf *out)
{
    static const char *const ends[CDZ_N_METRIC_ENDS] = {"stop", "length", "abort", "error"};
    char more[64];
    put_title(out, "request_success_total", "counter", "answers by their finish reason");
    for (size_t i = 0; i < CDZ_N_METRIC_ENDS; i++) {
        snprintf(more, sizeof more, ",finished_reason=\"%s\"", ends[i]);
        put_line(out, "request_success_total", model, more, m->ends[i]);
    }
}

void cdz_metrics_write(cdz_metrics *m, const char *model, cdz_buf *out)
{
    cdz_metrics_put(out, "prompt_tokens_total", "counter", "tokens of prompts", model,
                    (double)atomic_load(&m->prompt_tokens));
    cdz_metrics_put(out, "generation_tokens_total", "counter", "tokens generated", model,
                    (double)atomic_load(&m->new_tokens));
    cdz_metrics_put(out, "disconnects_total", "counter", "clients that went away", model,
                    (double)atomic_load(&m->disconnects));
    put_refusals(m, model, out);
    cdz_mutex_lock(&m->lock);
    put_ends(m, model, out);
    put_names(&m->strategies, "requests_by_strategy_total", "strategy",
              "requests by the decode loop that they name", model, out);
    put_names(&m->pipelines, "requests_by_pipeline_total", "pipeline",
              "requests by the pipeline that they name", model, out);
    for (size_t i = 0; i < CDZ_N_METRIC_SAMPLES; i++)
        put_histogram(out, (cdz_metric_sample)i, model, &m->samples[i]);
    put_statuses(m, model, out);
    cdz_mutex_unlock(&m->lock);
}
