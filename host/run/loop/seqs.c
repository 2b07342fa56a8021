/* seqs.c - verbs on sequences beyond the rows, and questions about rows that do not exist.
 *
 * Owns: the loop's list of such sequences. Not: rows, which row verbs alone edit (is_row). A made-up row has states of its
 * own, brought to where its ids are: nothing that is asked here changes a row. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/families.h"
#include "run/loop/loop.h"
#include "run/loop/verbs.h"

/* --- sequences ------------------------------------------------------------------------------------------------ */

cdz_run_model *cdz_loop_model_named(const cdz_loop *loop, const char *name)
{
    if (!name || strcmp(name, "target") == 0) return loop->job->model;
    if (strcmp(name, "assistant") == 0) return loop->job->assistant;
    for (uint32_t i = 0; i < loop->job->n_others; i++)
        if (strcmp(name, loop->job->others[i].name) == 0) return loop->job->others[i].model;
    return NULL;
}

const char *cdz_loop_name_of(const cdz_loop *loop, const cdz_run_model *model)
{
    if (model == loop->job->assistant) return "assistant";
    for (uint32_t i = 0; i < loop->job->n_others; i++)
        if (model == loop->job->others[i].model) return loop->job->others[i].name;
    return "target";
}

static cdz_status no_such_model(cdz_loop *loop, const char *name)
{
    char has[256] = "target";
    size_t n = strlen(has);
    if (loop->job->assistant) n += (size_t)snprintf(has + n, sizeof has - n, ", assistant");
    for (uint32_t i = 0; i < loop->job->n_others && n < sizeof has; i++)
        n += (size_t)snprintf(has + n, sizeof has - n, ", %s", loop->job->others[i].name);
    return cdz_loop_fail(loop, CDZ_E_NOT_FOUND,
                         "seq_new: the request has no model \"%s\"; it has %s (--with NAME=FOLDER "
                         "gives it another)",
                         name, strchr(has, ',') ? has : "target alone");
}

uint32_t cdz_verb_vocab_size(const cdz_decoder *dec, const char *model)
{
    const cdz_run_model *m = cdz_loop_model_named(cdz_loop_of(dec), model);
    return m ? m->weights->arch.n_vocab : 0;
}

enum { ID_BYTES = sizeof(int32_t), FIRST_IDS = 1024 /* that a new one has room for */ };

/* A zeroed sequence in the loop's list. */
static cdz_status new_seq(cdz_loop *loop, cdz_run_model *model, uint32_t room, cdz_seq **out)
{
    CDZ_TRY(cdz_loop_one_more_seq(loop));
    CDZ_TRY(cdz_loop_grow_seq(loop, "seq_new", sizeof(cdz_seq) + cdz_loop_bytes(room, ID_BYTES)));
    cdz_seq *seq = calloc(1, sizeof *seq);
    if (!seq) return cdz_loop_nomem(loop);
    cdz_status status =
        cdz_seq_init(seq, model, cdz_loop_account(loop, model), room, &loop->rows.error);
    if (status != CDZ_OK) {
        free(seq);
        return status;
    }
    seq->next = loop->seqs;
    loop->seqs = seq;
    loop->n_seqs++;
    *out = seq;
    return CDZ_OK;
}

cdz_status cdz_verb_seq_new(cdz_decoder *dec, const char *model, cdz_seq **out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    cdz_run_model *m = cdz_loop_model_named(loop, model);
    if (!m) return no_such_model(loop, model);
    cdz_encoded *source = cdz_loop_source(loop, m, loop->first_row);
    if (source && loop->rows.info.n_prompts > 1)
        return cdz_loop_fail(loop, CDZ_E_STATE,
                             "seq_new: an encoder-decoder model reads one of %" PRIu32
                             " prompts; fork a row instead",
                             loop->rows.info.n_prompts);
    const uint32_t most = loop->rows.info.max_length;
    CDZ_TRY(new_seq(loop, m, most < FIRST_IDS ? most : FIRST_IDS, out));
    (*out)->source = source;
    return CDZ_OK;
}

cdz_status cdz_verb_seq_new_exit(cdz_decoder *dec, const char *model, uint32_t n_layers,
                                 cdz_seq **out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_seq_new(dec, model, out));
    const cdz_arch *arch = &(*out)->model->weights->arch;
    const uint32_t all = arch->n_layers;
    if (loop->rows.config.quirks && arch->family->runs_whole) n_layers = all;
    if (n_layers >= 1 && n_layers <= all) {
        (*out)->n_layers = n_layers < all ? n_layers : 0;
        return CDZ_OK;
    }
    cdz_verb_seq_free(dec, *out);
    return cdz_loop_fail(loop, CDZ_E_USAGE,
                         "seq_new_exit: %" PRIu32 " layers of a model that has %" PRIu32, n_layers,
                         all);
}

cdz_seq *cdz_verb_seq_of_row(cdz_decoder *dec, uint32_t row)
{
    cdz_loop *loop = cdz_loop_of(dec);
    return row < loop->rows.n ? loop->rows.at[row].seq : NULL;
}

void cdz_verb_seq_free(cdz_decoder *dec, cdz_seq *seq)
{
    cdz_loop *loop = cdz_loop_of(dec);
    for (cdz_seq **at = &loop->seqs; *at; at = &(*at)->next)
        if (*at == seq) {
            *at = seq->next;
            loop->n_seqs--;
            cdz_seq_clear(seq);
            free(seq);
            return;
        }
}

cdz_status cdz_verb_seq_fork(cdz_decoder *dec, const cdz_seq *seq, cdz_seq **out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    cdz_seq *copy;
    CDZ_TRY(new_seq(loop, seq->model, seq->n, &copy));
    cdz_status status = cdz_seq_copy(copy, seq, &loop->rows.error);
    if (status != CDZ_OK) {
        cdz_verb_seq_free(dec, copy);
        return status;
    }
    *out = copy;
    return CDZ_OK;
}

static cdz_status editable(cdz_loop *loop, const char *verb, const cdz_seq *seq)
{
    if (!seq->is_row) return CDZ_OK;
    return cdz_loop_fail(loop, CDZ_E_STATE,
                         "%s: this sequence is a row of the request; use append, rewind and "
                         "reorder, or fork it",
                         verb);
}

cdz_status cdz_verb_seq_append(cdz_decoder *dec, cdz_seq *seq, const int32_t *ids, uint32_t n)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    CDZ_TRY(editable(loop, "seq_append", seq));
    const uint32_t n_vocab = seq->model->weights->arch.n_vocab;
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= n_vocab)
            return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                                 "seq_append: token %" PRId32
                                 " is outside the vocabulary of %" PRIu32,
                                 ids[i], n_vocab);
    const uint64_t all = (uint64_t)seq->n + n;
    if (all > seq->cap) CDZ_TRY(cdz_loop_grow_seq(loop, "seq_append", 2 * all * ID_BYTES));
    return cdz_seq_push(seq, ids, n, &loop->rows.error);
}

cdz_status cdz_verb_seq_truncate(cdz_decoder *dec, cdz_seq *seq, uint32_t len)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    CDZ_TRY(editable(loop, "seq_truncate", seq));
    if (len > seq->n)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "seq_truncate: to %" PRIu32 " tokens, but the sequence has %" PRIu32,
                             len, seq->n);
    cdz_seq_cut(seq, len);
    return CDZ_OK;
}

cdz_status cdz_verb_seq_hide_as(cdz_decoder *dec, cdz_seq *seq, uint32_t row)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    CDZ_TRY(editable(loop, "seq_hide_as", seq));
    if (row >= loop->rows.n)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "seq_hide_as: row %" PRIu32 " of %" PRIu32,
                             cdz_loop_nth(loop, row), loop->rows.n);
    const cdz_seq *like = loop->rows.at[row].seq;
    if (like->n_embeds != like->n_beside)
        return cdz_loop_fail(loop, CDZ_E_STATE,
                             "seq_hide_as: the mask of row %" PRIu32
                             " is over embeddings, not over ids",
                             cdz_loop_nth(loop, row));
    cdz_seq_undrop(seq);
    seq->mask = like->mask;
    seq->mask_len = like->mask_len;
    seq->mask_visible = like->mask_visible;
    return CDZ_OK;
}

cdz_ids cdz_verb_seq_ids(const cdz_decoder *dec, const cdz_seq *seq)
{
    (void)dec;
    return (cdz_ids){seq->ids, seq->n};
}

uint32_t cdz_verb_seq_length(const cdz_decoder *dec, const cdz_seq *seq)
{
    (void)dec;
    return cdz_seq_visible(seq);
}

/* --- forward -------------------------------------------------------------------------------------------------- */

cdz_status cdz_loop_check_seqs(cdz_loop *loop, const char *verb, cdz_seq *const *seqs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (seqs[i]->model != seqs[0]->model)
            return cdz_loop_fail(loop, CDZ_E_PLUGIN, "%s: sequences of two models in one call",
                                 verb);
        if (seqs[i]->n_layers != seqs[0]->n_layers)
            return cdz_loop_fail(loop, CDZ_E_PLUGIN, "%s: sequences of two depths in one call",
                                 verb);
        for (uint32_t j = 0; j < i; j++)
            if (seqs[i] == seqs[j])
                return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                                     "%s: sequences %" PRIu32 " and %" PRIu32 " are the same one",
                                     verb, j, i);
    }
    return CDZ_OK;
}

/* Score rows the want will fill; where each sequence's begin is set on the way. */
static uint64_t lay_out(cdz_loop *loop, cdz_positions positions)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < loop->want.n_seqs; i++) {
        cdz_want_seq *ws = &loop->want_seqs[i];
        if (positions == CDZ_POSITIONS_LAST) {
            ws->row0 = i;
            rows++;
        } else if (positions == CDZ_POSITIONS_ALL) {
            ws->row0 = (int64_t)rows - ws->from;
            rows += cdz_seq_visible(ws->seq) - ws->from;
        }
    }
    return rows;
}

/* The same for hidden states. */
static uint64_t lay_out_hidden(cdz_loop *loop)
{
    const bool all = loop->hidden.positions == CDZ_POSITIONS_ALL;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < loop->want.n_seqs; i++) {
        cdz_want_seq *ws = &loop->want_seqs[i];
        ws->hidden0 = (int64_t)rows - (all ? ws->from : 0);
        rows += all ? cdz_seq_visible(ws->seq) - ws->from : 1;
    }
    return rows;
}

/* What is wanted of a sequence. ALL gives scores of what the caller knows to be missing: a cache that is made anew
 * because the frequencies changed gives no more. A row's copy has the length that its row would have there, whatever is
 * read beside it. */
static cdz_want_seq want_of(cdz_seq *seq)
{
    const uint32_t visible = cdz_seq_visible(seq);
    return (cdz_want_seq){.seq = seq,
                          .from = seq->known < visible ? seq->known : visible - 1,
                          .length = seq->begun ? visible + seq->behind : 0,
                          .begun = seq->begun};
}

/* Readies it for the pass. length: of those that have none of their own. */
static cdz_status ready(cdz_loop *loop, const cdz_want_seq *ws, uint32_t length)
{
    cdz_seq_rotate_for(ws->seq, ws->length ? ws->length : length);
    (void)cdz_loop_recall(loop, ws->seq, cdz_want_reads_all(&loop->want, ws));
    return cdz_loop_prepare(loop, ws->seq);
}

/* A row's copy that goes past longrope's limit in the middle of what is wanted of it, as drafts do: the positions up to there
 * are read first, with the frequencies that their steps have, and then all of them with the others. What was given of them
 * stays. */
static cdz_status read_to_limit(cdz_loop *loop, cdz_want_seq *ws)
{
    const cdz_arch *arch = &ws->seq->model->weights->arch;
    const uint32_t limit = arch->long_inv_freq ? arch->rope_limit : 0;
    if (ws->capture || !cdz_want_reads_all(&loop->want, ws)) return CDZ_OK;
    if (ws->begun == 0 || ws->begun > limit || ws->length <= limit) return CDZ_OK;
    const uint32_t beyond = ws->length - limit, visible = cdz_seq_visible(ws->seq);
    if (ws->from + beyond >= visible) return CDZ_OK;
    const cdz_want whole = loop->want;
    ws->length = limit;
    loop->want.seqs = ws;
    loop->want.n_seqs = 1;
    loop->want.length = limit;
    loop->want.until = visible - beyond;
    CDZ_TRY(ready(loop, ws, limit));
    CDZ_TRY(cdz_loop_await(loop));
    loop->want = whole;
    ws->length = limit + beyond;
    ws->from = visible - beyond;
    return CDZ_OK;
}

cdz_status cdz_loop_reread(cdz_loop *loop, cdz_seq *seq)
{
    if (!cdz_loop_want(loop, 1)) return cdz_loop_nomem(loop);
    loop->want_seqs[0] = want_of(seq);
    loop->want = (cdz_want){.model = seq->model,
                            .n_layers = seq->n_layers,
                            .seqs = loop->want_seqs,
                            .n_seqs = 1,
                            .positions = CDZ_POSITIONS_NONE,
                            .length = cdz_seq_visible(seq),
                            .until = seq->known};
    CDZ_TRY(ready(loop, &loop->want_seqs[0], loop->want.length));
    return cdz_loop_await(loop);
}

static uint32_t longest(cdz_seq *const *seqs, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t visible = cdz_seq_visible(seqs[i]);
        if (visible > most) most = visible;
    }
    return most;
}

/* What is wanted of sequences that were checked: not yet where it goes. */
static cdz_status gather(cdz_loop *loop, cdz_seq *const *seqs, uint32_t n, cdz_positions positions,
                         bool all)
{
    uint32_t n_wanted = 0;
    if (!cdz_loop_want(loop, n)) return cdz_loop_nomem(loop);
    for (uint32_t i = 0; i < n; i++) {
        /* Without a visible token there is nothing to fill. */
        if (!all && cdz_seq_visible(seqs[i]) == 0) continue;
        loop->want_seqs[n_wanted] = want_of(seqs[i]);
        loop->want_seqs[n_wanted++].capture = loop->captures ? &loop->captures[i] : NULL;
    }
    loop->want = (cdz_want){.model = seqs[0]->model,
                            .n_layers = seqs[0]->n_layers,
                            .seqs = loop->want_seqs,
                            .n_seqs = n_wanted,
                            .positions = positions,
                            .stride = seqs[0]->model->weights->arch.n_vocab,
                            .length = longest(seqs, n)};
    return CDZ_OK;
}

static cdz_status run_want(cdz_loop *loop)
{
    const uint32_t n = loop->want.n_seqs, length = loop->want.length;
    for (uint32_t i = 0; i < n; i++) CDZ_TRY(read_to_limit(loop, &loop->want_seqs[i]));
    for (uint32_t i = 0; i < n; i++) CDZ_TRY(ready(loop, &loop->want_seqs[i], length));
    return cdz_loop_await(loop);
}

/* A classifier has no scores of tokens. */
static cdz_status check_speaks(cdz_loop *loop, const cdz_run_model *model)
{
    if (cdz_run_model_speaks(model)) return CDZ_OK;
    return cdz_loop_fail(loop, CDZ_E_UNSUPPORTED,
                         "seq_forward: model \"%s\" has a head for values (%s) and none for tokens; "
                         "seq_value asks it",
                         cdz_loop_name_of(loop, model), model->weights->values.name);
}

cdz_status cdz_verb_seq_forward(cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n,
                                cdz_positions positions, cdz_scores *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    const bool scored = positions != CDZ_POSITIONS_NONE;
    CDZ_TRY(cdz_verb_enter(dec, 0));
    cdz_loop_renew(loop);
    if ((unsigned)positions > CDZ_POSITIONS_ALL)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "seq_forward: %u names no positions",
                             (unsigned)positions);
    if (!out && scored)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "seq_forward: scores wanted, but out is NULL");
    CDZ_TRY(cdz_loop_check_seqs(loop, "seq_forward", seqs, n));
    if (n == 0) return CDZ_OK;
    if (scored) CDZ_TRY(check_speaks(loop, seqs[0]->model));
    CDZ_TRY(gather(loop, seqs, n, positions, scored));
    const uint64_t rows = lay_out(loop, positions);
    if (rows > UINT32_MAX) return cdz_loop_nomem(loop);
    CDZ_TRY(cdz_loop_may_take(loop, "seq_forward",
                              cdz_loop_bytes(rows, loop->want.stride * sizeof(float))));
    if (rows)
        CDZ_TRY(cdz_matrix_fit(&loop->rows, &loop->seq_scores, (uint32_t)rows,
                               (uint32_t)loop->want.stride));
    loop->want.out = loop->seq_scores.data;
    CDZ_TRY(cdz_loop_want_hidden(loop, lay_out_hidden(loop)));
    CDZ_TRY(run_want(loop));
    if (scored && rows) *out = cdz_matrix_scores(&loop->seq_scores);
    return CDZ_OK;
}

cdz_status cdz_loop_last_states(cdz_loop *loop, cdz_seq *const *seqs, uint32_t n,
                                const uint32_t *layer, float *out)
{
    CDZ_TRY(gather(loop, seqs, n, CDZ_POSITIONS_NONE, true));
    for (uint32_t i = 0; i < n; i++) loop->want_seqs[i].hidden0 = i;
    loop->want.hidden_layers = layer;
    loop->want.n_hidden = 1;
    loop->want.hidden_positions = CDZ_POSITIONS_LAST;
    loop->want.hidden = out;
    return run_want(loop);
}

/* --- made-up rows --------------------------------------------------------------------------------------------- */

cdz_status cdz_loop_trial_view(cdz_loop *loop, const char *verb, const uint32_t *rows, uint32_t n,
                               cdz_view *out)
{
    for (uint32_t i = 0; i < n; i++)
        if (rows[i] >= loop->rows.n)
            return cdz_loop_fail(loop, CDZ_E_PLUGIN, "%s: request row %" PRIu32 " of %" PRIu32,
                                 verb, cdz_loop_nth(loop, rows[i]), loop->rows.n);
    if (!cdz_rows_room(&loop->rows, n)) return cdz_loop_nomem(loop);
    *out = loop->rows.view;
    out->n = n;
    for (uint32_t i = 0; i < n; i++) {
        out->rows[i] = rows[i];
        out->states[i] = NULL;
    }
    return CDZ_OK;
}

cdz_status cdz_verb_seq_process(cdz_decoder *dec, cdz_seq *const *seqs, const uint32_t *rows,
                                uint32_t n, cdz_scores *scores)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    uint32_t first;
    CDZ_TRY(cdz_loop_check(loop, "seq_process", scores, scores, &first));
    if (scores->n_rows != n)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "seq_process: %" PRIu32 " sequences, but %" PRIu32 " score rows", n,
                             scores->n_rows);
    cdz_view view;
    CDZ_TRY(cdz_loop_trial_view(loop, "seq_process", rows, n, &view));
    for (uint32_t i = 0; i < n; i++) view.ids[i] = (cdz_ids){seqs[i]->ids, seqs[i]->n};
    CDZ_TRY(cdz_stage_states_trial(loop->set, &loop->rows, &view));
    return cdz_loop_process(loop, &loop->set->processors, &view, scores, NULL);
}

/* The row's ids and then the suffix, in the verb's scratch. */
static bool joined(cdz_loop *loop, cdz_ids row, cdz_ids suffix, cdz_ids *out)
{
    int32_t *ids =
        cdz_scratch_take(&loop->rows.verb_scratch, ((size_t)row.len + suffix.len) * sizeof *ids);
    if (!ids) return false;
    if (row.len) memcpy(ids, row.at, row.len * sizeof *ids);
    if (suffix.len) memcpy(ids + row.len, suffix.at, suffix.len * sizeof *ids);
    *out = (cdz_ids){ids, row.len + suffix.len};
    return true;
}

cdz_status cdz_verb_stop_test(cdz_decoder *dec, const cdz_ids *ids, const uint32_t *rows,
                              uint32_t n, cdz_stop *stops)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, CDZ_VERB_SCRATCH));
    cdz_view view;
    CDZ_TRY(cdz_loop_trial_view(loop, "stop_test", rows, n, &view));
    for (uint32_t i = 0; i < n; i++)
        if (!joined(loop, cdz_row_ids(&loop->rows.at[rows[i]]), ids[i], &view.ids[i]))
            return cdz_loop_nomem(loop);
    CDZ_TRY(cdz_stage_states_trial(loop->set, &loop->rows, &view));
    memset(stops, 0, n * sizeof *stops);
    return cdz_loop_test(loop, &view, stops);
}
