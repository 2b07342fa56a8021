/* trace_ext.c - "cadenza.trace/1": what the program said of the request. */
#include "cadenza/ext/trace.h"
#include "run/stages/stages.h"

static const cdz_berth *berth_of(const cdz_step *step)
{
    return ((const cdz_scope *)step->scope)->rows->berth;
}

static const char *request_id(const cdz_step *step)
{
    return berth_of(step)->request_id;
}

static const char *traceparent(const cdz_step *step)
{
    return berth_of(step)->traceparent;
}

const void *cdz_stages_trace(void)
{
    static const cdz_trace_api api = {
        .size = sizeof api, .request_id = request_id, .traceparent = traceparent};
    return &api;
}
