/* prefill_first.c - prompts go into a pass before rows that decode, so that more requests decode together sooner: the
 * prefill_first of transformers' continuous batching. */
#include "turns.h"

typedef struct {
    int64_t prompt_rows;
} settings;

static const cdz_param params[] = {
    CDZ_INT(settings, prompt_rows, 0, 0, 1e6,
            "rows of prompts in a pass in which others decode, at most; 0: all that fit"),
};

/* [engine] */
static cdz_status admit(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    (void)step;
    list_as_they_are(turns,
                     contest->n_waiting < contest->places ? contest->n_waiting : contest->places);
    return CDZ_OK;
}

/* [engine] */
static cdz_status order(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    const settings *p = step->params;

    (void)contest;
    turns->first = CDZ_PROMPTS_FIRST;
    turns->prompt_rows = (uint32_t)p->prompt_rows;
    return CDZ_OK;
}

static const cdz_scheduler prefill_first = {
    .base = {CDZ_SCHEDULER_BASE, .id = "prefill_first", .version = "1.0.0",
             .summary = "Read prompts before running answers go on", CDZ_PARAMS(settings, params)},
    .admit = admit,
    .order = order,
};
CDZ_EXPORT_PLUGINS(&prefill_first.base)
