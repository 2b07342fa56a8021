/* wayward.c - a scheduler of an outsider's, from the public header alone; WAY says what it does. */
#include <cadenza/scheduler.h>

enum { NEWEST, TWICE, RANGE, TOO_MANY, NEVER, FAILS, SILENT, ODD_FIRST, LAST_ROWS };

/* The newest first. */
static void list_backwards(cdz_lineup *turns, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) turns->list[i] = n - 1 - i;
    turns->n = n;
}

static cdz_status admit(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    const uint32_t n = contest->n_waiting;

    list_backwards(turns, n);
    if (n == 1 && WAY != NEVER) return CDZ_OK; /* it begins well */
    if (WAY == TWICE) turns->list[n - 1] = turns->list[0];
    if (WAY == RANGE) turns->list[0] = n;
    if (WAY == TOO_MANY) turns->n = n + 1;
    if (WAY == NEVER) turns->n = 0;
    if (WAY == FAILS) return cdz_fail(step, CDZ_E_INPUT, "no turn for anybody");
    if (WAY == LAST_ROWS) turns->n = 0;
    for (uint32_t i = 0; WAY == LAST_ROWS && i < n; i++) turns->list[turns->n++] = i;
    return WAY == SILENT ? CDZ_E_LIMIT : CDZ_OK;
}

static cdz_status order(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    (void)step;
    if (WAY == ODD_FIRST) turns->first = 7;
    if (WAY != LAST_ROWS) return CDZ_OK;
    list_backwards(turns, contest->n_running);
    turns->prompt_rows = 8;
    return CDZ_OK;
}

static const cdz_scheduler wayward = {
    .base = {CDZ_SCHEDULER_BASE, .id = "org.example.wayward", .version = "1.0.0",
             .summary = "Whatever it likes"},
    .admit = admit,
    .order = order,
};
CDZ_EXPORT_PLUGINS(&wayward.base)
