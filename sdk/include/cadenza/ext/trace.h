/* ext/trace.h - "cadenza.trace/1": which request of the program's this is, for plugins that write down what they see.
 *
 * Scenario. An observer behind `cadenza serve` writes a line of a trace for each request. With the request's id it can be put
 * beside the server's log, and with the W3C trace context its times become a part of the caller's trace.
 *
 *     const cdz_trace_api *trace = cdz_get_trace(step);
 *     const char *context = trace ? trace->traceparent(step) : NULL;
 *
 * Texts come from whoever sent the request: write them with care. In a process of its own (docs/isolation.md) a plugin finds
 * no table. */
#ifndef CADENZA_EXT_TRACE_H
#define CADENZA_EXT_TRACE_H

#include "../plugin.h"

#define CDZ_EXT_TRACE "cadenza.trace/1"

typedef struct cdz_trace_api {
    uint32_t size;
    /* [any; from begin on] As the program names the request; of the server the X-Request-Id. NULL: it has no name. Valid as long
     * as the request. */
    const char *(*request_id)(const cdz_step *step);
    /* [any; from begin on] "00-", trace id, "-", the caller's span id, "-" and flags, in lower hex; NULL: none. */
    const char *(*traceparent)(const cdz_step *step);
} cdz_trace_api;

static inline const cdz_trace_api *cdz_get_trace(const cdz_step *step)
{
    return (const cdz_trace_api *)step->host->extension(CDZ_EXT_TRACE);
}

#endif
