/* my_observer.c - count the tokens of a request. */
#include <cadenza/observer.h>

typedef struct {
    int64_t each;
} settings;

static const cdz_param params[] = {
    CDZ_INT(settings, each, 0, 0, 1000000, "also say so after so many tokens; 0: only at the end"),
};

typedef struct {
    int64_t tokens;
} counts;

static cdz_status begin(const cdz_step *step, void **shared)
{
    *shared = cdz_alloc(step, sizeof(counts)); /* zeroed, the request's */
    return *shared ? CDZ_OK : cdz_fail(step, CDZ_E_NOMEM, "no memory for the counts");
}

/* [engine] It cannot answer, and a failure only ends the watching. */
static cdz_status token(const cdz_step *step, int32_t token)
{
    const settings *p = step->params;
    counts *c = step->shared;

    c->tokens++;
    if (p->each > 0 && c->tokens % p->each == 0)
        cdz_log(step, CDZ_LOG_INFO, "token %d is number %lld", token, (long long)c->tokens);
    return CDZ_OK;
}

static void end(const cdz_step *step)
{
    const counts *c = step->shared;
    cdz_log(step, CDZ_LOG_INFO, "%lld tokens", (long long)c->tokens);
}

static const cdz_observer my_observer = {
    .base = {CDZ_OBSERVER_BASE, .id = "org.example.my-observer", .version = "0.1.0",
             .summary = "Count the tokens of a request", CDZ_PARAMS(settings, params)},
    .begin = begin,
    .token = token,
    .end = end,
};
CDZ_EXPORT_PLUGINS(&my_observer.base)
