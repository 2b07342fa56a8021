/* first_come.c - requests begin in the order in which they came, and running answers do not wait for prompts. */
#include "turns.h"

typedef struct {
    int64_t prompt_rows;
} settings;

static const cdz_param params[] = {PROMPT_ROWS(settings)};

/* [engine] */
static cdz_status admit(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    (void)step;
    list_as_they_are(turns,
                     contest->n_waiting < contest->places ? contest->n_waiting : contest->places);
    return CDZ_OK;
}

/* [engine] Those that run go in the order in which they began, as the host has them without a list. */
static cdz_status order(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    const settings *p = step->params;

    (void)contest;
    turns->prompt_rows = (uint32_t)p->prompt_rows;
    return CDZ_OK;
}

static const cdz_scheduler first_come = {
    .base = {CDZ_SCHEDULER_BASE, .id = "first_come", .version = "1.0.0",
             .summary = "Begin requests in the order in which they came",
             CDZ_PARAMS(settings, params)},
    .admit = admit,
    .order = order,
};
CDZ_EXPORT_PLUGINS(&first_come.base)
