/* on_batches.c - strategies, drafters and observers with several prompts in one request: every row is answered as it is alone,
 * and a row that ends early ends while the others go on. */
#include <stdio.h>
#include <string.h>

#include "check/bench.h"
#include "check/checks.h"
#include "check/spy.h"

enum { ROWS = 3, WHAT = 200 };

static cdz_check_state answer(const cdz_bench *b, const cdz_order *order, cdz_result **out)
{
    cdz_error err = {0};
    cdz_check_note(b->c, "%u prompts, %u new tokens%s", order->n_prompts, order->max_new, b->kwargs);
    if (cdz_bench_run(b, b->with, order, out, &err) == CDZ_OK) return CDZ_CHECK_OK;
    return cdz_fail_check(b->c, "%u prompts, %u new tokens%s: %s", order->n_prompts, order->max_new,
                          b->kwargs, err.text);
}

/* Prompt r of a batch, alone: its made-up ids come from a key that grows by 7919 from row to row. */
static cdz_order row_alone(const cdz_order *batch, uint32_t r)
{
    cdz_order one = *batch;
    one.n_prompts = 1;
    one.prompt += 7919u * r;
    return one;
}

/* Whether row r of a batch holds the tokens of a request of its own. */
static bool row_same(const cdz_result *batch, uint32_t r, const cdz_result *alone, char *what,
                     size_t bytes)
{
    uint32_t n, m, at = 0;
    const int32_t *x = cdz_result_ids(batch, r, &n), *y = cdz_result_ids(alone, 0, &m);
    while (at < n && at < m && x[at] == y[at]) at++;
    if (at == n && at == m) return true;
    snprintf(what, bytes, "row %u differs from new token %u on (%d, not %d; %u tokens, not %u)",
             cdz_nth_row(r), at, at < n ? (int)x[at] : -1, at < m ? (int)y[at] : -1, n, m);
    return false;
}

/* Where nothing is drawn, the rows of a batch are those of its prompts alone. */
static cdz_check_state rows_as_alone(const cdz_bench *b, const cdz_order *batch,
                                     const cdz_result *result)
{
    char what[WHAT];
    for (uint32_t r = 0; r < batch->n_prompts; r++) {
        const cdz_order one = row_alone(batch, r);
        cdz_result *alone = NULL;
        CDZ_CHECK_TRY(answer(b, &one, &alone));
        const bool same = row_same(result, r, alone, what, sizeof what);
        cdz_result_free(alone);
        if (!same)
            return cdz_fail_check(b->c, "%u prompts, against each alone: %s", batch->n_prompts,
                                  what);
    }
    return CDZ_CHECK_OK;
}

/* Draws come from one stream for all rows, so who draws is not compared. */
static cdz_check_state compare_rows(const cdz_bench *b, const cdz_order *batch,
                                    const cdz_result *result)
{
    cdz_spy *spy;
    cdz_error err = {0};
    cdz_result *alone = NULL;
    const cdz_order one = row_alone(batch, 0);
    if (b->c->ref.base->kind != CDZ_KIND_STRATEGY) return rows_as_alone(b, batch, result);
    if (cdz_spy_plant(b, &spy, &err) != CDZ_OK) return cdz_fail_check(b->c, "%s", err.text);
    CDZ_CHECK_TRY(answer(b, &one, &alone));
    cdz_result_free(alone);
    return spy->drew ? CDZ_CHECK_OK : rows_as_alone(b, batch, result);
}

/* The same batch with a token of row 1 as the end of sequence: rows end where that stands first. */
static cdz_check_state ends_early(const cdz_bench *b, const cdz_order *batch,
                                  const cdz_result *result)
{
    uint32_t n;
    const int32_t *ids = cdz_result_ids(result, 1, &n);
    cdz_order order = *batch;
    cdz_result *ended = NULL;
    if (n < 4 || ids[n / 2] <= 0) return CDZ_CHECK_OK;
    order.eos = ids[n / 2];
    CDZ_CHECK_TRY(answer(b, &order, &ended));
    cdz_check_state state = cdz_bench_judge(b, ended, &order);
    for (uint32_t r = 0; r < order.n_prompts && state == CDZ_CHECK_OK; r++) {
        uint32_t len;
        const int32_t *row = cdz_result_ids(ended, r, &len);
        for (uint32_t i = 0; i + 1 < len && state == CDZ_CHECK_OK; i++)
            if (row[i] == order.eos)
                state =
                    cdz_fail_check(b->c,
                                   "%u prompts, token %d ends a row: row %u has it as new token %u "
                                   "and goes on to %u",
                                   order.n_prompts, (int)order.eos, cdz_nth_row(r), i, len);
    }
    cdz_result_free(ended);
    return state;
}

cdz_check_state cdz_check_batch_of_3(cdz_child *c)
{
    const cdz_order order = {.n_prompts = ROWS, .max_new = CDZ_BENCH_NEW, .seed = 3};
    cdz_bench b;
    cdz_result *result = NULL;
    CDZ_CHECK_TRY(cdz_bench_open(c, &b));
    CDZ_CHECK_TRY(answer(&b, &order, &result));
    CDZ_CHECK_TRY(cdz_bench_judge(&b, result, &order));
    CDZ_CHECK_TRY(ends_early(&b, &order, result));
    CDZ_CHECK_TRY(compare_rows(&b, &order, result));
    cdz_result_free(result);
    cdz_bench_close(&b);
    return CDZ_CHECK_OK;
}
