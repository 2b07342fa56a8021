/* lent.c - a request's stages without the request: see lent.h.
 *
 * Owns: the plan, the rows and the stages' states. Not: scores, which are the program's. Invariant: between two calls each
 * row's sequence holds the ids that its states have been told of. Thread: [engine]. */
#include "run/stages/lent.h"

#include <stdlib.h>
#include <string.h>

#include "run/stages/stages.h"

struct cdz_stage_lent {
    cdz_stage_lent_use use;
    cdz_berth berth;
    cdz_run_model bare; /* without a model */
    cdz_rows rows;
    cdz_stageset *set; /* NULL: no request yet */
};

cdz_status cdz_stage_lent_open(const cdz_stage_lent_use *use, cdz_stage_lent **out, cdz_error *err)
{
    cdz_stage_lent *lent = calloc(1, sizeof *lent);
    if (!lent) {
        cdz_plan_free(use->plan);
        return cdz_err_memory(err, "processors");
    }
    lent->use = *use;
    lent->berth = (cdz_berth){.backend = use->backend, .log = use->log, .log_of = use->log_of};
    for (uint32_t i = 0; i < use->plan->n_processors; i++) {
        const cdz_instance *instance = &use->plan->processors[i];
        if (!instance->offers.companion) continue;
        const cdz_status status =
            cdz_err(err, CDZ_E_UNSUPPORTED,
                    "%s: needs logits of a sequence beside the rows, which a model's passes give; "
                    "scores alone do not",
                    instance->plugin.base->id);
        cdz_stage_lent_free(lent);
        return status;
    }
    *out = lent;
    return CDZ_OK;
}

static void close_request(cdz_stage_lent *lent)
{
    cdz_rows *rows = &lent->rows;
    if (lent->set) cdz_stages_end(lent->set, rows);
    cdz_stageset_free(lent->set);
    for (uint32_t r = 0; rows->at && r < rows->n; r++) cdz_seq_clear(rows->at[r].seq);
    cdz_rows_close(rows);
    lent->rows = (cdz_rows){0};
    lent->set = NULL;
}

void cdz_stage_lent_free(cdz_stage_lent *lent)
{
    if (!lent) return;
    close_request(lent);
    cdz_plan_free(lent->use.plan);
    free(lent);
}

/* --- a request ---------------------------------------------------------------------------------------------------- */

/* The program's loop has lengths of its own: without one that is said, a row never has its length. */
static cdz_status resolve_lengths(cdz_rows *rows, const cdz_generation *g, uint32_t prompt_len)
{
    cdz_lengths lengths = {.max_length = INT32_MAX, .min_length = g->min_length.value};
    if (g->max_length.set || g->max_new_tokens.set || g->min_new_tokens.set) {
        cdz_generation asked = *g;
        if (!g->max_length.set && !g->max_new_tokens.set)
            asked.max_length = (cdz_opt_int){INT32_MAX, true};
        CDZ_TRY(cdz_resolve_lengths(&asked, prompt_len, 0, 0, &lengths, &rows->error));
    }
    rows->config.max_length = (cdz_opt_int){lengths.max_length, true};
    rows->config.min_length =
        (cdz_opt_int){lengths.min_length, g->min_length.set || lengths.min_length > 0};
    return CDZ_OK;
}

static cdz_status describe(cdz_stage_lent *lent, const cdz_stage_lent_rows *of, uint32_t prompt_len)
{
    cdz_rows *rows = &lent->rows;
    const cdz_generation *g = &lent->use.plan->generation;
    int32_t *eos = cdz_arena_array(&rows->arena, g->eos_token_id.len, sizeof *eos);
    cdz_ids *prompts = cdz_arena_array(&rows->arena, of->n, sizeof *prompts);
    if (!eos || !prompts) return cdz_rows_nomem(rows);
    for (uint32_t i = 0; i < g->eos_token_id.len; i++) eos[i] = (int32_t)g->eos_token_id.at[i];
    for (uint32_t r = 0; r < of->n; r++) {
        int32_t *ids = cdz_arena_array(&rows->arena, prompt_len, sizeof *ids);
        if (!ids) return cdz_rows_nomem(rows);
        memcpy(ids, of->ids + (size_t)r * of->len, prompt_len * sizeof *ids);
        prompts[r] = (cdz_ids){ids, prompt_len};
    }
    rows->config = *g;
    CDZ_TRY(resolve_lengths(rows, g, prompt_len));
    if (!g->seed.set) rows->config.seed = (cdz_opt_int){0, true};
    rows->info = (cdz_request_info){
        .size = sizeof(cdz_request_info),
        .n_prompts = of->n,
        .n_rows = of->n,
        .prompt_len = prompt_len,
        .n_vocab = rows->n_vocab,
        .max_length = (uint32_t)rows->config.max_length.value,
        .min_length = (uint32_t)rows->config.min_length.value,
        .num_beams = (uint32_t)g->num_beams,
        .do_sample = g->do_sample,
        .seed = (uint64_t)rows->config.seed.value,
        .eos = {eos, g->eos_token_id.len},
        .pad = g->pad_token_id.set ? (int32_t)g->pad_token_id.value : -1,
        .bos = g->bos_token_id.set ? (int32_t)g->bos_token_id.value : -1,
        .prompts = prompts,
        .start_s = cdz_now_s(),
    };
    return CDZ_OK;
}

static cdz_status build_row(cdz_rows *rows, uint32_t r)
{
    cdz_request_row *row = &rows->at[r];
    row->seq = cdz_arena_alloc(&rows->arena, sizeof *row->seq);
    if (!row->seq) return cdz_rows_nomem(rows);
    CDZ_TRY(cdz_seq_init(row->seq, NULL, NULL, rows->info.prompt_len, &rows->error));
    row->seq->is_row = true;
    return cdz_seq_push(row->seq, rows->info.prompts[r].at, rows->info.prompt_len, &rows->error);
}

static cdz_status open_request(cdz_stage_lent *lent, const cdz_stage_lent_rows *of,
                               uint32_t prompt_len)
{
    static const cdz_host host = CDZ_HOST_WITH(cdz_stage_extension);
    cdz_rows *rows = &lent->rows;
    cdz_backend *backend = lent->use.backend;
    rows->berth = &lent->berth;
    rows->host = &host;
    rows->model = lent->use.model ? lent->use.model : &lent->bare;
    rows->n_vocab = lent->use.n_vocab;
    rows->holds_text = true; /* rows may go back: their states leave marks */
    if (!cdz_rows_open(rows, of->n, backend->api->n_threads(backend))) return cdz_rows_nomem(rows);
    CDZ_TRY(describe(lent, of, prompt_len));
    for (uint32_t r = 0; r < of->n; r++) CDZ_TRY(build_row(rows, r));
    lent->set = cdz_stageset_new(lent->use.plan, false, of->n);
    if (!lent->set) return cdz_rows_nomem(rows);
    CDZ_TRY(cdz_stages_begin(lent->set, rows));
    return cdz_stage_states_make(lent->set, rows);
}

/* --- a step ------------------------------------------------------------------------------------------------------- */

/* Do these rows belong to the request? Its prompts alone are the beginning of the next. */
static bool goes_on(const cdz_stage_lent *lent, const cdz_stage_lent_rows *of)
{
    const cdz_rows *rows = &lent->rows;
    if (!lent->set || of->n != rows->n || of->len <= rows->info.prompt_len) return false;
    for (uint32_t r = 0; r < of->n; r++)
        if (memcmp(of->ids + (size_t)r * of->len, rows->info.prompts[r].at,
                   rows->info.prompt_len * sizeof *of->ids) != 0)
            return false;
    return true;
}

static cdz_status move_row(cdz_stage_lent *lent, uint32_t r, const int32_t *ids, uint32_t len)
{
    cdz_rows *rows = &lent->rows;
    cdz_seq *seq = rows->at[r].seq;
    uint32_t same = 0;
    while (same < len && same < seq->n && ids[same] == seq->ids[same]) same++;
    if (same < seq->n) {
        cdz_seq_cut(seq, same);
        CDZ_TRY(cdz_stage_state_rewind(lent->set, rows, r));
    }
    while (seq->n < len) {
        const int32_t token = ids[seq->n];
        CDZ_TRY(cdz_seq_push(seq, &token, 1, &rows->error));
        CDZ_TRY(cdz_stages_accept(lent->set, rows, cdz_row_ids(&rows->at[r]), r,
                                  lent->set->states[r].state, token));
        CDZ_TRY(cdz_stage_state_mark(lent->set, rows, r));
    }
    return CDZ_OK;
}

/* Brings the request, its rows and their states to these ids; n_new of them are no prompt's where they begin one. */
static cdz_status move(cdz_stage_lent *lent, const cdz_stage_lent_rows *of, uint32_t n_new)
{
    if (!goes_on(lent, of)) {
        close_request(lent);
        CDZ_TRY(open_request(lent, of, of->len - n_new));
    }
    for (uint32_t r = 0; r < of->n; r++)
        CDZ_TRY(move_row(lent, r, of->ids + (size_t)r * of->len, of->len));
    cdz_scratch_reset(&lent->rows.verb_scratch);
    cdz_stages_look(lent->set, &lent->rows, 0, of->n);
    return CDZ_OK;
}

static cdz_status check(const cdz_stage_lent *lent, const cdz_stage_lent_rows *of, uint32_t least,
                        cdz_error *err)
{
    const size_t n = (size_t)of->n * of->len;
    if (of->n == 0 || of->len < least || of->len > INT32_MAX)
        return cdz_err(err, CDZ_E_USAGE,
                       "%u rows of %u ids: expected at least one row, of at least %u", of->n,
                       of->len, least);
    for (size_t i = 0; i < n; i++)
        if (of->ids[i] < 0 || (uint32_t)of->ids[i] >= lent->use.n_vocab)
            return cdz_err(err, CDZ_E_USAGE,
                           "row %zu holds token id %d at place %zu; the vocabulary has ids 0 to %u",
                           i / of->len, of->ids[i], i % of->len, lent->use.n_vocab - 1);
    return CDZ_OK;
}

/* After a failure nothing is known of the states: the next call begins a request. */
static cdz_status judge(cdz_stage_lent *lent, cdz_status status, cdz_error *err)
{
    if (status == CDZ_OK) return CDZ_OK;
    const cdz_error why = lent->rows.error;
    close_request(lent);
    return cdz_err(err, status, "%s", why.text);
}

cdz_status cdz_stage_lent_process(cdz_stage_lent *lent, const cdz_stage_lent_rows *rows,
                                  float *scores, cdz_error *err)
{
    CDZ_TRY(check(lent, rows, 1, err));
    cdz_status status = move(lent, rows, 0);
    cdz_scores all = {.data = scores,
                      .n_rows = rows->n,
                      .n_vocab = lent->use.n_vocab,
                      .stride = lent->use.n_vocab};
    if (status == CDZ_OK)
        status = cdz_stages_process(lent->set, &lent->set->processors, &lent->rows,
                                    &lent->rows.view, &all, NULL);
    return judge(lent, status, err);
}

cdz_status cdz_stage_lent_test(cdz_stage_lent *lent, const cdz_stage_lent_rows *rows,
                               cdz_stop *stops, cdz_error *err)
{
    CDZ_TRY(check(lent, rows, 2, err));
    cdz_status status = move(lent, rows, 1);
    if (status == CDZ_OK) status = cdz_stages_test(lent->set, &lent->rows, &lent->rows.view, stops);
    return judge(lent, status, err);
}
