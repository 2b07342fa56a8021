/* priority.c - requests with a lower priority number go first, and those that wait rise with their age, so that nobody waits
 * for ever. The name and the order of numbers are vLLM's. */
#include "turns.h"

typedef struct {
    double ageing;
    int64_t prompt_rows;
} settings;

static const cdz_param params[] = {
    CDZ_REAL(settings, ageing, 60, 0, 1e9,
             "seconds of age that count as one step of priority; 0: age does not count"),
    PROMPT_ROWS(settings),
};

static cdz_status list(const cdz_step *step, const cdz_contender *const *all, uint32_t n,
                       cdz_lineup *turns)
{
    const settings *p = step->params;
    place *places = cdz_scratch(step, (n ? n : 1) * sizeof *places);

    if (!places) return cdz_fail(step, CDZ_E_NOMEM, "no memory for an order of %u requests", n);
    for (uint32_t i = 0; i < n; i++) {
        const double risen = p->ageing > 0 ? all[i]->age_s / p->ageing : 0;
        places[i] = (place){(double)all[i]->priority - risen, i};
    }
    list_by_key(turns, places, n);
    return CDZ_OK;
}

/* [engine] */
static cdz_status admit(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    return list(step, contest->waiting, contest->n_waiting, turns);
}

/* [engine] */
static cdz_status order(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    const settings *p = step->params;

    turns->prompt_rows = (uint32_t)p->prompt_rows;
    return list(step, contest->running, contest->n_running, turns);
}

static const cdz_scheduler priority = {
    .base = {CDZ_SCHEDULER_BASE, .id = "priority", .version = "1.0.0",
             .summary = "Lower priority numbers first, with ageing", CDZ_PARAMS(settings, params)},
    .caps = CDZ_HAS_PRIORITIES,
    .admit = admit,
    .order = order,
};
CDZ_EXPORT_PLUGINS(&priority.base)
