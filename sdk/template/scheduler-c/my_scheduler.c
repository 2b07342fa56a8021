/* my_scheduler.c - short prompts first; who has waited for many passes goes before all of them. */
#include <cadenza/scheduler.h>
#include <stdlib.h>

typedef struct {
    int64_t patience;
} settings;

static const cdz_param params[] = {
    CDZ_INT(settings, patience, 200, 1, 1000000,
            "passes after which a request goes before short ones"),
};

typedef struct {
    uint64_t length;
    uint32_t at;
} place;

/* Among equals, the one that came before. */
static int by_length(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

/* [engine] All that wait, in order: the host lets as many begin as there are places and memory for. */
static cdz_status admit(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    const settings *p = step->params;
    place *places = cdz_scratch(step, contest->n_waiting * sizeof *places);

    if (!places) return cdz_fail(step, CDZ_E_NOMEM, "no memory for %u places", contest->n_waiting);
    for (uint32_t i = 0; i < contest->n_waiting; i++) {
        const cdz_contender *request = contest->waiting[i];
        const int late = request->age_passes >= (uint64_t)p->patience;
        places[i] = (place){late ? 0 : request->prompt_tokens, i};
    }
    qsort(places, contest->n_waiting, sizeof *places, by_length);
    for (uint32_t i = 0; i < contest->n_waiting; i++) turns->list[i] = places[i].at;
    turns->n = contest->n_waiting;
    return CDZ_OK;
}

static const cdz_scheduler my_scheduler = {
    .base = {CDZ_SCHEDULER_BASE, .id = "org.example.my-scheduler", .version = "0.1.0",
             .summary = "Short prompts first", CDZ_PARAMS(settings, params)},
    .admit = admit,
};
CDZ_EXPORT_PLUGINS(&my_scheduler.base)
