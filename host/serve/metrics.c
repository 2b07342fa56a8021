/* metrics.c - counts, and writes them down. Names are vLLM's under our prefix, so that its dashboards need one replacement. */
#include "serve/metrics.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"

/* 1-2-5 from a millisecond on. */
static double bound(size_t i)
{
    static const double steps[] = {1, 2, 5};
    double scale = 1e-3;
    for (size_t k = 0; k < i / 3; k++) scale *= 10;
    return steps[i % 3] * scale;
}

void cdz_metrics_time(cdz_metrics *m, cdz_metric_time which, double seconds)
{
    size_t i = 0;
    while (i < CDZ_METRIC_BUCKETS && seconds > bound(i)) i++;
    cdz_mutex_lock(&m->lock);
    m->times[which].counts[i]++;
    m->times[which].n++;
    m->times[which].sum += seconds;
    cdz_mutex_unlock(&m->lock);
}

void cdz_metrics_end(cdz_metrics *m, const char *finish)
{
    cdz_mutex_lock(&m->lock);
    m->ends[strcmp(finish, "length") == 0 ? CDZ_METRIC_LENGTH : CDZ_METRIC_STOP]++;
    cdz_mutex_unlock(&m->lock);
}

void cdz_metrics_status(cdz_metrics *m, const char *route, int status)
{
    static const size_t n = sizeof m->statuses / sizeof *m->statuses;
    cdz_mutex_lock(&m->lock);
    size_t i = 0;
    while (i < n && m->statuses[i].route &&
           (m->statuses[i].status != status || strcmp(m->statuses[i].route, route) != 0))
        i++;
    if (i < n) {
        m->statuses[i].route = route;
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

static void put_histogram(cdz_buf *out, const char *name, const char *help, const char *model,
                          const cdz_histogram *h)
{
    char bucket[64], full[96];
    uint64_t sum = 0;
    put_title(out, name, "histogram", help);
    snprintf(full, sizeof full, "%s_bucket", name);
    for (size_t i = 0; i < CDZ_METRIC_BUCKETS; i++) {
        sum += h->counts[i];
        snprintf(bucket, sizeof bucket, ",le=\"%g\"", bound(i));
        put_line(out, full, model, bucket, sum);
    }
    put_line(out, full, model, ",le=\"+Inf\"", h->n);
    cdz_buf_printf(out, "cadenza:%s_sum", name);
    put_label(out, model);
    cdz_buf_puts(out, "} ");
    cdz_json_write_real(out, h->sum);
    cdz_buf_putc(out, '\n');
    snprintf(full, sizeof full, "%s_count", name);
    put_line(out, full, model, "", h->n);
}

static void put_statuses(cdz_metrics *m, const char *model, cdz_buf *out)
{
    char more[160];
    put_title(out, "http_requests_total", "counter", "requests by endpoint and status");
    for (size_t i = 0; i < sizeof m->statuses / sizeof *m->statuses && m->statuses[i].route; i++) {
        snprintf(more, sizeof more, ",handler=\"%s\",status=\"%d\"", m->statuses[i].route,
                 m->statuses[i].status);
        put_line(out, "http_requests_total", model, more, m->statuses[i].n);
    }
}

void cdz_metrics_write(cdz_metrics *m, const char *model, cdz_buf *out)
{
    static const struct {
        const char *name, *help;
    } times[CDZ_N_METRIC_TIMES] = {
        {"time_to_first_token_seconds", "from the request to its first token"},
        {"inter_token_latency_seconds", "from one token of a request to the next"},
        {"e2e_request_latency_seconds", "from the request to the end of its answer"},
    };
    cdz_metrics_put(out, "prompt_tokens_total", "counter", "tokens of prompts", model,
                    (double)atomic_load(&m->prompt_tokens));
    cdz_metrics_put(out, "generation_tokens_total", "counter", "tokens generated", model,
                    (double)atomic_load(&m->new_tokens));
    cdz_metrics_put(out, "disconnects_total", "counter", "clients that went away", model,
                    (double)atomic_load(&m->disconnects));
    cdz_mutex_lock(&m->lock);
    put_title(out, "request_success_total", "counter", "answers by their finish reason");
    put_line(out, "request_success_total", model, ",finished_reason=\"stop\"",
             m->ends[CDZ_METRIC_STOP]);
    put_line(out, "request_success_total", model, ",finished_reason=\"length\"",
             m->ends[CDZ_METRIC_LENGTH]);
    for (size_t i = 0; i < CDZ_N_METRIC_TIMES; i++)
        put_histogram(out, times[i].name, times[i].help, model, &m->times[i]);
    put_statuses(m, model, out);
    cdz_mutex_unlock(&m->lock);
}
