/* metrics.h - counters and histograms of the server, in Prometheus' text format. Labels are of closed sets. */
#ifndef CDZ_HOST_SERVE_METRICS_H
#define CDZ_HOST_SERVE_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/mutex.h"

enum { CDZ_METRIC_BUCKETS = 22 };

typedef struct cdz_histogram {
    uint64_t counts[CDZ_METRIC_BUCKETS + 1];
    uint64_t n;
    double sum;
} cdz_histogram;

typedef enum cdz_metric_time {
    CDZ_METRIC_FIRST, /* time to the first token */
    CDZ_METRIC_BETWEEN,
    CDZ_METRIC_WHOLE,
    CDZ_N_METRIC_TIMES
} cdz_metric_time;

typedef enum cdz_metric_end {
    CDZ_METRIC_STOP,
    CDZ_METRIC_LENGTH,
    CDZ_N_METRIC_ENDS
} cdz_metric_end;

enum { CDZ_METRIC_STATUSES = 16 };

typedef struct cdz_metrics {
    cdz_mutex lock;
    cdz_histogram times[CDZ_N_METRIC_TIMES];
    uint64_t ends[CDZ_N_METRIC_ENDS];
    struct {
        const char *route; /* constant */
        int status;
        uint64_t n;
    } statuses[128];
    atomic_ullong prompt_tokens, new_tokens, disconnects, refused;
} cdz_metrics;

void cdz_metrics_time(cdz_metrics *metrics, cdz_metric_time which, double seconds);
void cdz_metrics_end(cdz_metrics *metrics, const char *finish);
void cdz_metrics_status(cdz_metrics *metrics, const char *route, int status);
void cdz_metrics_write(cdz_metrics *metrics, const char *model, cdz_buf *out);
/* One value with its two lines before it. */
void cdz_metrics_put(cdz_buf *out, const char *name, const char *kind, const char *help,
                     const char *model, double value);

#endif
