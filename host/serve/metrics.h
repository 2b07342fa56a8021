/* metrics.h - counters and histograms of the server, in Prometheus' text format. Labels are of closed sets. */
#ifndef CDZ_HOST_SERVE_METRICS_H
#define CDZ_HOST_SERVE_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/mutex.h"

enum { CDZ_METRIC_BUCKETS = 22, CDZ_METRIC_STATUSES = 192, CDZ_METRIC_NAMES = 64 };

typedef struct cdz_histogram {
    uint64_t counts[CDZ_METRIC_BUCKETS + 1];
    uint64_t n;
    double sum;
} cdz_histogram;

/* Histograms: seconds, and then numbers. */
typedef enum cdz_metric_sample {
    CDZ_METRIC_FIRST, /* time to the first token */
    CDZ_METRIC_BETWEEN,
    CDZ_METRIC_WHOLE,
    CDZ_METRIC_QUEUED, /* of each prompt of a request, as the next two */
    CDZ_METRIC_PREFILL,
    CDZ_METRIC_DECODE,
    CDZ_METRIC_PROMPT, /* tokens */
    CDZ_METRIC_NEW,
    CDZ_METRIC_N,
    CDZ_METRIC_MOST, /* max_tokens */
    CDZ_N_METRIC_SAMPLES
} cdz_metric_sample;

/* How requests that the engine had have ended. */
typedef enum cdz_metric_end {
    CDZ_METRIC_STOP,
    CDZ_METRIC_LENGTH,
    CDZ_METRIC_ABORT, /* the client went away */
    CDZ_METRIC_ERROR,
    CDZ_N_METRIC_ENDS
} cdz_metric_end;

/* Why requests were turned away before their bodies were read. */
typedef enum cdz_metric_refusal {
    CDZ_REFUSED_QUEUE,
    CDZ_REFUSED_TOKENS,
    CDZ_REFUSED_STOPPING,
    CDZ_REFUSED_KEY,
    CDZ_REFUSED_SITE, /* Host or Origin */
    CDZ_N_REFUSED
} cdz_metric_refusal;

/* Requests by a name. */
typedef struct cdz_metric_names {
    struct {
        char name[128];
        uint64_t n;
    } at[CDZ_METRIC_NAMES];
} cdz_metric_names;

typedef struct cdz_metrics {
    cdz_mutex lock;
    cdz_histogram samples[CDZ_N_METRIC_SAMPLES];
    uint64_t ends[CDZ_N_METRIC_ENDS];
    struct {
        const char *route, *method; /* constant */
        int status;
        uint64_t n;
    } statuses[CDZ_METRIC_STATUSES];
    cdz_metric_names strategies, pipelines;
    atomic_ullong refused[CDZ_N_REFUSED];
    atomic_ullong prompt_tokens, new_tokens, disconnects;
} cdz_metrics;

void cdz_metrics_sample(cdz_metrics *metrics, cdz_metric_sample which, double value);
void cdz_metrics_end(cdz_metrics *metrics, cdz_metric_end how);
/* A request that was read: by the ids of its decode loop and its pipeline, which are those of plugins and files there are.
 * NULL: it named none. */
void cdz_metrics_asked(cdz_metrics *metrics, const char *strategy, const char *pipeline);
void cdz_metrics_refuse(cdz_metrics *metrics, cdz_metric_refusal why);
void cdz_metrics_status(cdz_metrics *metrics, const char *route, const char *method, int status);
void cdz_metrics_write(cdz_metrics *metrics, const char *model, cdz_buf *out);
/* One value with its two lines before it. */
void cdz_metrics_put(cdz_buf *out, const char *name, const char *kind, const char *help,
                     const char *model, double value);
/* A histogram that was counted elsewhere: of values up to 1, 2, 4, ..., the last of n counts of all larger ones. */
void cdz_metrics_put_powers(cdz_buf *out, const char *name, const char *help, const char *model,
                            const uint64_t *counts, size_t n, double sum);

#endif
