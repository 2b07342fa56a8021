/* observe.c - "cadenza.observe/1": results and lines of the request's observers.
 *
 * Owns nothing: results lie in the outcome (record.c), lines are the program's. A step of an observer belongs to a loop, since
 * this table is in the loops' alone. Thread: [engine], on the loop's fibre. */
#include "cadenza/ext/observe.h"
#include "run/loop/loop.h"
#include "run/loop/verbs.h"

static cdz_loop *loop_of(const cdz_step *step)
{
    cdz_rows *rows = ((const cdz_scope *)step->scope)->rows;
    return (cdz_loop *)(void *)((char *)rows - offsetof(cdz_loop, rows));
}

static cdz_status check_kind(const cdz_step *step, const char *what)
{
    if (step->plugin->kind == CDZ_KIND_OBSERVER) return CDZ_OK;
    return step->host->fail(step, CDZ_E_STATE,
                            "%s of cadenza.observe/1 is for observers; a strategy has put_result",
                            what);
}

static cdz_status put_result(const cdz_step *step, const char *name, cdz_result_type type,
                             uint32_t n_dims, const uint64_t *shape, const void *data)
{
    cdz_loop *loop = loop_of(step);
    CDZ_TRY(check_kind(step, "put_result"));
    const cdz_status status = cdz_loop_put_result(loop, name, type, n_dims, shape, data);
    if (status == CDZ_OK) return CDZ_OK;
    return step->host->fail(step, status, "%s", loop->rows.error.text);
}

static cdz_status write_line(const cdz_step *step, const char *line, size_t len)
{
    const cdz_job *job = loop_of(step)->job;
    CDZ_TRY(check_kind(step, "write"));
    if (job->on_observed) job->on_observed(job->user, step->plugin->id, line, len);
    return CDZ_OK;
}

static bool is_heard(const cdz_step *step)
{
    return step->plugin->kind == CDZ_KIND_OBSERVER && loop_of(step)->job->on_observed;
}

const void *cdz_loop_observe_table(void)
{
    static const cdz_observe_api api = {
        .size = sizeof api, .put_result = put_result, .write = write_line, .is_heard = is_heard};
    return &api;
}
