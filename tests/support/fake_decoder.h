/* fake_decoder.h - a decoder that keeps a diary. Its model likes the token after the last one: the score of v is 5 when
 * v = last + 1 (modulo the vocabulary), else -0.125 * v. */
#ifndef CDZ_TESTS_SUPPORT_FAKE_DECODER_H
#define CDZ_TESTS_SUPPORT_FAKE_DECODER_H

#include "support/fake.h"

#include <math.h>

#define MAX_LEN  64
#define MAX_SEQS 32

struct cdz_seq {
    int32_t ids[MAX_LEN];
    uint32_t len;
    bool used;
};

typedef struct fake_decoder {
    cdz_decoder dec; /* first: the handle */
    fake *f;
    uint32_t n_rows, n_vocab, most;
    cdz_seq rows[FAKE_ROWS], seqs[MAX_SEQS];
    bool ended[FAKE_ROWS];
    char reason[FAKE_ROWS][32];
    float scores[MAX_SEQS * FAKE_VOCAB], scratch[8 * FAKE_VOCAB];
    cdz_torch_rng rng;
    char diary[4096];
    cdz_status fail_forward; /* what the next forward says */
    void (*on_forward)(struct fake_decoder *);
    void *user;
    bool is_cancelled;
    cdz_on_hidden_fn *on_hidden; /* who is called by the next seq_forward, with `called` */
    void *called_with;
    cdz_edit called;
    bool calls;
} fake_decoder;

static fake_decoder *fd_of(const cdz_decoder *dec)
{
    return (fake_decoder *)(uintptr_t)dec;
}

static void note(fake_decoder *d, const char *fmt, ...) CDZ_PRINTF(2, 3);
static void note(fake_decoder *d, const char *fmt, ...)
{
    const size_t at = strlen(d->diary);
    va_list args;

    va_start(args, fmt);
    vsnprintf(d->diary + at, sizeof d->diary - at, fmt, args);
    va_end(args);
}

static void write_scores(const fake_decoder *d, const cdz_seq *s, uint32_t len, float *row)
{
    const uint32_t next = len > 0 ? ((uint32_t)s->ids[len - 1] + 1) % d->n_vocab : 0;

    for (uint32_t v = 0; v < d->n_vocab; v++) row[v] = v == next ? 5.0f : -0.125f * (float)v;
}

static uint32_t fd_n_rows(const cdz_decoder *dec)
{
    return fd_of(dec)->n_rows;
}

static cdz_ids fd_input_ids(const cdz_decoder *dec, uint32_t row)
{
    return (cdz_ids){fd_of(dec)->rows[row].ids, fd_of(dec)->rows[row].len};
}

static bool fd_row_done(const cdz_decoder *dec, uint32_t row)
{
    return fd_of(dec)->ended[row];
}

static bool fd_done(const cdz_decoder *dec)
{
    const fake_decoder *d = fd_of(dec);
    bool all = true;

    for (uint32_t r = 0; r < d->n_rows; r++) all = all && d->ended[r];
    return all || d->is_cancelled;
}

static cdz_status fd_forward(cdz_decoder *dec, cdz_scores *out)
{
    fake_decoder *d = fd_of(dec);

    note(d, "forward ");
    if (d->on_forward) d->on_forward(d);
    if (d->fail_forward) return d->fail_forward;
    for (uint32_t r = 0; r < d->n_rows; r++)
        write_scores(d, &d->rows[r], d->rows[r].len, d->scores + r * d->n_vocab);
    *out = (cdz_scores){d->scores, d->n_rows, d->n_vocab, d->n_vocab, 1};
    return CDZ_OK;
}

static cdz_status fd_process(cdz_decoder *dec, cdz_scores *scores)
{
    note(fd_of(dec), "process ");
    for (uint32_t r = 0; r < scores->n_rows; r++) cdz_row(scores, r)[0] = -9;
    return CDZ_OK;
}

static cdz_status fd_append(cdz_decoder *dec, uint32_t row, int32_t token)
{
    fake_decoder *d = fd_of(dec);

    note(d, "append(%u,%d) ", row, (int)token);
    d->rows[row].ids[d->rows[row].len++] = token;
    if (d->rows[row].len >= d->most) d->ended[row] = true;
    return CDZ_OK;
}

/* Rows that are done get pad, here 0. */
static cdz_status fd_append_rows(cdz_decoder *dec, int32_t *tokens)
{
    for (uint32_t r = 0; r < fd_of(dec)->n_rows; r++) {
        if (fd_of(dec)->ended[r]) tokens[r] = 0;
        fd_append(dec, r, tokens[r]);
    }
    return CDZ_OK;
}

static uint32_t fd_rewindable(const cdz_decoder *dec, uint32_t row)
{
    return fd_of(dec)->rows[row].len - 4;
}

static cdz_status fd_rewind(cdz_decoder *dec, uint32_t row, uint32_t n)
{
    note(fd_of(dec), "rewind(%u,%u) ", row, n);
    fd_of(dec)->rows[row].len -= n;
    fd_of(dec)->ended[row] = false;
    return CDZ_OK;
}

static cdz_status fd_reorder(cdz_decoder *dec, const uint32_t *parents)
{
    fake_decoder *d = fd_of(dec);
    cdz_seq old[FAKE_ROWS];

    memcpy(old, d->rows, sizeof old);
    note(d, "reorder(");
    for (uint32_t r = 0; r < d->n_rows; r++) {
        note(d, "%u", parents[r]);
        d->rows[r] = old[parents[r]];
    }
    note(d, ") ");
    return CDZ_OK;
}

static cdz_status fd_extend_rows(cdz_decoder *dec, const uint32_t *parents, const int32_t *tokens)
{
    fd_reorder(dec, parents);
    for (uint32_t r = 0; r < fd_of(dec)->n_rows; r++) fd_append(dec, r, tokens[r]);
    return CDZ_OK;
}

/* Only what a test can see: the sum over the group is 1. */
static cdz_status fd_softmax_flat(cdz_decoder *dec, const cdz_scores *s, uint32_t first, uint32_t n,
                                  const float *addends, cdz_scores *out)
{
    note(fd_of(dec), "softmax_flat(%u,%u,%g) ", first, n, (double)addends[n - 1]);
    for (uint32_t r = first; r < first + n; r++)
        for (uint32_t v = 0; v < s->n_vocab; v++)
            cdz_row(out, r)[v] = 1.0f / (float)(n * s->n_vocab);
    return CDZ_OK;
}

static cdz_status fd_token_scores(cdz_decoder *dec, const cdz_scores *s, const uint32_t *rows,
                                  const int32_t *tokens, uint32_t n, cdz_token_score *out)
{
    (void)dec;
    for (uint32_t i = 0; i < n; i++)
        out[i] = (cdz_token_score){cdz_row(s, rows[i])[tokens[i]], -0.5f, NAN};
    return CDZ_OK;
}

static cdz_status fd_return_rows(cdz_decoder *dec, const cdz_returned *rows, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        note(fd_of(dec), "return(%u,%u of %u,%u", rows[i].row, rows[i].n_new, rows[i].ids.len,
             rows[i].stop.reason);
        for (uint32_t k = 0; k < rows[i].ids.len; k++)
            note(fd_of(dec), ",%d", (int)rows[i].ids.at[k]);
        for (uint32_t k = 0; rows[i].scores && k < rows[i].n_new; k++)
            note(fd_of(dec), ";%g %g %d", (double)rows[i].scores[k].score,
                 (double)rows[i].scores[k].logprob, isnan(rows[i].scores[k].raw_logprob));
        note(fd_of(dec), ") ");
    }
    return CDZ_OK;
}

static cdz_status fd_map(cdz_decoder *dec, cdz_scores *scores)
{
    (void)dec;
    return scores->data ? CDZ_OK : CDZ_E_INTERNAL;
}

static cdz_status fd_softmax(cdz_decoder *dec, cdz_scores *s)
{
    note(fd_of(dec), "softmax ");
    for (uint32_t r = 0; r < s->n_rows; r++)
        cdz_vec_table()->softmax(cdz_row(s, r), cdz_row(s, r), s->n_vocab);
    return CDZ_OK;
}

static cdz_status fd_log_softmax(cdz_decoder *dec, cdz_scores *s)
{
    note(fd_of(dec), "log_softmax ");
    for (uint32_t r = 0; r < s->n_rows; r++)
        cdz_vec_table()->log_softmax(cdz_row(s, r), cdz_row(s, r), s->n_vocab);
    return CDZ_OK;
}

static cdz_status fd_ban(cdz_decoder *dec, cdz_scores *s, uint32_t row, int32_t token)
{
    note(fd_of(dec), "ban(%u,%d) ", row, (int)token);
    cdz_row(s, row)[token] = -1e30f;
    return CDZ_OK;
}

static cdz_status fd_scratch_scores(cdz_decoder *dec, uint32_t n_rows, cdz_scores *out)
{
    fake_decoder *d = fd_of(dec);

    if (n_rows > 8) return CDZ_E_LIMIT;
    *out = (cdz_scores){d->scratch, n_rows, d->n_vocab, d->n_vocab, 2};
    return CDZ_OK;
}

static cdz_status fd_argmax(cdz_decoder *dec, const cdz_scores *s, uint32_t row, cdz_pick *out)
{
    (void)dec;
    out->token = cdz_vec_table()->argmax(cdz_row(s, row), s->n_vocab);
    out->score = cdz_row(s, row)[out->token];
    out->prob = 0.75f;
    return CDZ_OK;
}

static cdz_status fd_argmax_rows(cdz_decoder *dec, const cdz_scores *s, int32_t *tokens)
{
    (void)dec;
    for (uint32_t r = 0; r < s->n_rows; r++)
        tokens[r] = cdz_vec_table()->argmax(cdz_row(s, r), s->n_vocab);
    return CDZ_OK;
}

static cdz_status fd_multinomial(cdz_decoder *dec, const cdz_scores *p, int32_t *tokens)
{
    for (uint32_t r = 0; r < p->n_rows; r++)
        tokens[r] = cdz_torch_multinomial(&fd_of(dec)->rng, cdz_row(p, r), p->n_vocab);
    return CDZ_OK;
}

/* Enough of a top-k: repeated maxima. */
static cdz_status fd_topk_flat(cdz_decoder *dec, const cdz_scores *s, uint32_t first, uint32_t n,
                               const float *addends, uint32_t m, cdz_candidate *out)
{
    (void)dec;
    for (uint32_t i = 0; i < m; i++) {
        out[i] = (cdz_candidate){0, -1, -1e30f};
        for (uint32_t k = 0; k < n * s->n_vocab; k++) {
            const uint32_t r = k / s->n_vocab, v = k % s->n_vocab;
            const float x = cdz_row(s, first + r)[v] + addends[r];
            bool taken = false;
            for (uint32_t j = 0; j < i; j++)
                taken = taken || (out[j].row == r && out[j].token == (int32_t)v);
            if (!taken && x > out[i].score) out[i] = (cdz_candidate){r, (int32_t)v, x};
        }
    }
    return CDZ_OK;
}

static cdz_status fd_multinomial_flat(cdz_decoder *dec, const cdz_scores *p, uint32_t first,
                                      uint32_t n, uint32_t m, cdz_candidate *out)
{
    (void)dec;
    (void)p;
    for (uint32_t i = 0; i < m; i++) out[i] = (cdz_candidate){n - 1, (int32_t)(first + i), 0.5f};
    return CDZ_OK;
}

static cdz_status fd_uniform(cdz_decoder *dec, uint32_t n, float *out)
{
    for (uint32_t i = 0; i < n; i++) out[i] = cdz_torch_uniform(&fd_of(dec)->rng);
    return CDZ_OK;
}

/* --- sequences --------------------------------------------------------------------------------------------------- */

static cdz_status fd_seq_new(cdz_decoder *dec, const char *model, cdz_seq **out)
{
    fake_decoder *d = fd_of(dec);

    note(d, "seq_new(%s) ", model ? model : "-");
    for (int i = 0; i < MAX_SEQS; i++) {
        if (d->seqs[i].used) continue;
        d->seqs[i] = (cdz_seq){.used = true};
        *out = &d->seqs[i];
        return CDZ_OK;
    }
    return CDZ_E_LIMIT;
}

static cdz_seq *fd_seq_of_row(cdz_decoder *dec, uint32_t row)
{
    return &fd_of(dec)->rows[row];
}

static cdz_status fd_seq_fork(cdz_decoder *dec, const cdz_seq *seq, cdz_seq **out)
{
    const cdz_status st = fd_seq_new(dec, "fork", out);

    if (st == CDZ_OK) {
        **out = *seq;
        (*out)->used = true;
    }
    return st;
}

static void fd_seq_free(cdz_decoder *dec, cdz_seq *seq)
{
    note(fd_of(dec), "seq_free ");
    seq->used = false;
}

static cdz_status fd_seq_append(cdz_decoder *dec, cdz_seq *seq, const int32_t *ids, uint32_t n)
{
    (void)dec;
    memcpy(seq->ids + seq->len, ids, n * sizeof *ids);
    seq->len += n;
    return CDZ_OK;
}

static cdz_status fd_seq_steer(cdz_decoder *dec, cdz_seq *seq, const cdz_edit *edits, uint32_t n)
{
    (void)seq;
    for (uint32_t i = 0; i < n; i++)
        note(fd_of(dec), "steer(%u %u %u %g %u %u %u) ", edits[i].layer, edits[i].place,
             edits[i].op, (double)edits[i].scale, edits[i].width, edits[i].from, edits[i].to);
    fd_of(dec)->calls = n && edits[0].op == CDZ_EDIT_CALL;
    if (n) fd_of(dec)->called = edits[0];
    return CDZ_OK;
}

static cdz_status fd_embed(cdz_decoder *dec, const char *model, const int32_t *ids, uint32_t n,
                           float *out)
{
    (void)dec, (void)model;
    for (uint32_t i = 0; i < 3 * n; i++) out[i] = (float)ids[i / 3] + (float)(i % 3) / 4;
    return CDZ_OK;
}

static cdz_status fd_seq_embeds(cdz_decoder *dec, cdz_seq *seq, uint32_t from, const float *embeds,
                                uint32_t n, uint32_t width)
{
    (void)seq;
    note(fd_of(dec), "embeds(%u %u %u", from, n, width);
    for (uint32_t i = 0; embeds && i < n * width; i++) note(fd_of(dec), " %g", (double)embeds[i]);
    note(fd_of(dec), ") ");
    return CDZ_OK;
}

static cdz_status fd_seq_truncate(cdz_decoder *dec, cdz_seq *seq, uint32_t len)
{
    (void)dec;
    seq->len = len;
    return CDZ_OK;
}

static uint32_t fd_seq_length(const cdz_decoder *dec, const cdz_seq *seq)
{
    (void)dec;
    return seq->len;
}

static cdz_ids fd_seq_ids(const cdz_decoder *dec, const cdz_seq *seq)
{
    (void)dec;
    return (cdz_ids){seq->ids, seq->len};
}

/* ALL: as if nothing had been cached. */
static cdz_status fd_on_hidden(cdz_decoder *dec, cdz_on_hidden_fn *fn, void *user)
{
    note(fd_of(dec), "on_hidden ");
    fd_of(dec)->on_hidden = fn;
    fd_of(dec)->called_with = user;
    return CDZ_OK;
}

/* Two positions, the third and the fourth, of three numbers: 1 to 6. */
static cdz_status fd_call_on_hidden(fake_decoder *d)
{
    float h[6] = {1, 2, 3, 4, 5, 6};
    const cdz_hidden_chunk hidden = {.size = sizeof hidden,
                                     .row = 1,
                                     .n = 2,
                                     .position = 2,
                                     .width = 3,
                                     .h = h,
                                     .edit = &d->called};
    cdz_step step = d->f->step;
    step.shared = d->called_with;
    CDZ_TRY(d->on_hidden(&step, &hidden));
    note(d, "h(%g %g %g %g %g %g) ", (double)h[0], (double)h[1], (double)h[2], (double)h[3],
         (double)h[4], (double)h[5]);
    return CDZ_OK;
}

static cdz_status fd_seq_forward(cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n,
                                 cdz_positions positions, cdz_scores *out)
{
    fake_decoder *d = fd_of(dec);
    uint32_t at = 0;

    if (d->calls) CDZ_TRY(fd_call_on_hidden(d));

    note(d, "seq_forward(%u,%d) ", n, (int)positions);
    for (uint32_t i = 0; positions != CDZ_POSITIONS_NONE && i < n; i++)
        for (uint32_t len = positions == CDZ_POSITIONS_ALL ? 1 : seqs[i]->len; len <= seqs[i]->len;
             len++)
            write_scores(d, seqs[i], len, d->scores + at++ * d->n_vocab);
    if (out) *out = (cdz_scores){d->scores, at, d->n_vocab, d->n_vocab, 3};
    return CDZ_OK;
}

static const cdz_steer_host fd_steer_host = {.size = sizeof fd_steer_host,
                                             .on_hidden = fd_on_hidden};

static cdz_status fd_seq_process(cdz_decoder *dec, cdz_seq *const *seqs, const uint32_t *rows,
                                 uint32_t n, cdz_scores *scores)
{
    (void)seqs;
    for (uint32_t i = 0; i < n; i++) {
        note(fd_of(dec), "seq_process(%u) ", rows[i]);
        cdz_row(scores, i)[1] = 77;
    }
    return CDZ_OK;
}

static cdz_status fd_seq_new_exit(cdz_decoder *dec, const char *model, uint32_t n_layers,
                                  cdz_seq **out)
{
    note(fd_of(dec), "exit(%s,%u) ", model, n_layers);
    return fd_seq_new(dec, model, out);
}

static cdz_status fd_seq_hide_as(cdz_decoder *dec, cdz_seq *seq, uint32_t row)
{
    (void)seq;
    note(fd_of(dec), "hide_as(%u) ", row);
    return CDZ_OK;
}

static cdz_status fd_drop(cdz_decoder *dec, cdz_seq *seq, uint32_t from, uint32_t to, uint32_t flags)
{
    (void)seq;
    note(fd_of(dec), "drop(%u,%u,%u) ", from, to, flags);
    return CDZ_OK;
}

static cdz_status fd_kv(cdz_decoder *dec, cdz_seq *seq, uint32_t layer, uint32_t head,
                        uint32_t from, uint32_t to, cdz_kv_entries *out)
{
    static const uint32_t positions[] = {0, 4};
    static const float keys[] = {1, 2, 3, 4}, values[] = {5, 6, 7, 8};
    (void)seq;
    note(fd_of(dec), "kv(%u,%u,%u,%u) ", layer, head, from, to);
    *out = (cdz_kv_entries){sizeof *out, 2, 2, positions, keys, values};
    return CDZ_OK;
}

static cdz_status fd_attention(cdz_decoder *dec, cdz_seq *seq, uint32_t n_queries,
                               const uint32_t *layers, uint32_t n_layers, cdz_attention_rows *out)
{
    static const float weights[] = {0.25f, 0.75f, 1, 0, 0.5f, 0.5f, 0, 1};
    (void)seq;
    note(fd_of(dec), "attention(%u,%u,%u) ", n_queries, layers[0], layers[n_layers - 1]);
    *out = (cdz_attention_rows){sizeof *out, n_layers, 2, n_queries, 2, weights};
    return CDZ_OK;
}

static const cdz_kv_host fd_kv_host = {
    .size = sizeof fd_kv_host, .drop = fd_drop, .read = fd_kv, .attention = fd_attention};
static const cdz_mask_host fd_mask_host = {.size = sizeof fd_mask_host, .hide_as = fd_seq_hide_as};

static cdz_status fd_process_ids(cdz_decoder *dec, uint32_t pipeline, const cdz_ids *ids,
                                 const uint32_t *rows, uint32_t n, cdz_scores *scores)
{
    for (uint32_t i = 0; i < n; i++) {
        note(fd_of(dec), "process_ids(%u,%u,%u,%d) ", pipeline, rows[i], ids[i].len,
             (int)ids[i].at[ids[i].len - 1]);
        cdz_row(scores, i)[1] = 55;
    }
    return CDZ_OK;
}

static cdz_status fd_pipeline_derive(cdz_decoder *dec, const char *const *exclude,
                                     uint32_t n_exclude, const char *const *append,
                                     uint32_t n_append, uint32_t *out)
{
    note(fd_of(dec), "derive(%u %s,%u %s) ", n_exclude, n_exclude ? exclude[0] : "", n_append,
         n_append ? append[0] : "");
    *out = 3;
    return CDZ_OK;
}

static cdz_status fd_append_chunk(cdz_decoder *dec, uint32_t row, const int32_t *tokens, uint32_t n,
                                  const cdz_scores *logits, const cdz_scores *scores,
                                  uint32_t *taken)
{
    note(fd_of(dec), "chunk(%u,%u,%s,%s) ", row, n, logits ? "logits" : "-",
         scores ? "scores" : "-");
    for (*taken = 0; *taken < n && !fd_of(dec)->ended[row]; ++*taken)
        fd_append(dec, row, tokens[*taken]);
    return CDZ_OK;
}

static uint32_t fd_drafter_caps(const cdz_decoder *dec)
{
    (void)dec;
    return 0;
}

static bool fd_has_drafter(const cdz_decoder *dec)
{
    (void)dec;
    return true;
}

/* Two tokens, with scores for row 0 and without for others. */
static cdz_status fd_propose(cdz_decoder *dec, uint32_t row, cdz_draft *out)
{
    static const int32_t tokens[] = {6, 7};
    *out = (cdz_draft){.row = row, .tokens = {tokens, 2}};
    note(fd_of(dec), "propose(%u) ", row);
    return row == 0 ? cdz_scratch_scores(dec, 2, &out->scores) : CDZ_OK;
}

static cdz_status fd_judged(cdz_decoder *dec, uint32_t row, uint32_t n_accepted)
{
    note(fd_of(dec), "judged(%u,%u) ", row, n_accepted);
    return CDZ_OK;
}

/* Stops where the continuation holds token 9. */
static cdz_status fd_stop_test(cdz_decoder *dec, const cdz_ids *ids, const uint32_t *rows,
                               uint32_t n, cdz_stop *stops)
{
    (void)dec;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < ids[i].len; k++)
            if (ids[i].at[k] == 9) {
                stops[i].reason = rows[i] == 0 ? CDZ_STOP_EOS : CDZ_STOP_CUSTOM;
                stops[i].text = (cdz_string){"nine", 4};
            }
    return CDZ_OK;
}

static cdz_status fd_finish(cdz_decoder *dec, uint32_t row, cdz_stop_reason reason, const char *text)
{
    fake_decoder *d = fd_of(dec);

    snprintf(d->reason[row], sizeof d->reason[row], "%d %s", (int)reason, text);
    d->ended[row] = true;
    return CDZ_OK;
}

static cdz_status fd_record(cdz_decoder *dec, cdz_record_kind what, const cdz_scores *scores)
{
    note(fd_of(dec), "record(%d,%u) ", (int)what, scores->n_rows);
    return CDZ_OK;
}

static cdz_status fd_put_result(cdz_decoder *dec, const char *name, cdz_result_type type,
                                uint32_t n_dims, const uint64_t *shape, const void *data)
{
    fake_decoder *d = fd_of(dec);
    uint64_t n = 1;

    note(d, "%s:%d[", name, (int)type);
    for (uint32_t i = 0; i < n_dims; i++) {
        note(d, "%s%u", i ? "x" : "", (unsigned)shape[i]);
        n *= shape[i];
    }
    note(d, "]=");
    for (uint64_t i = 0; i < n && i < 6; i++) {
        if (type == CDZ_RESULT_I64) note(d, "%d,", (int)((const int64_t *)data)[i]);
        if (type == CDZ_RESULT_I32) note(d, "%d,", (int)((const int32_t *)data)[i]);
        if (type == CDZ_RESULT_F32) note(d, "%g,", (double)((const float *)data)[i]);
        if (type == CDZ_RESULT_BOOL) note(d, "%d,", ((const bool *)data)[i]);
    }
    if (type == CDZ_RESULT_JSON) note(d, "%.*s", (int)n, (const char *)data);
    note(d, " ");
    return CDZ_OK;
}

static bool fd_cancelled(const cdz_decoder *dec)
{
    return fd_of(dec)->is_cancelled;
}

static double fd_deadline_s(const cdz_decoder *dec)
{
    (void)dec;
    return 12.5;
}

static uint32_t fd_vocab_size(const cdz_decoder *dec, const char *model)
{
    return !model || strcmp(model, "target") == 0 ? fd_of(dec)->n_vocab : 0;
}

/* --- hidden states: layer l of row r is (l, r, l + r); a head that doubles --- */

static cdz_status fd_keep_hidden(cdz_decoder *dec, cdz_positions positions, const uint32_t *layers,
                                 uint32_t n)
{
    fake_decoder *d = fd_of(dec);
    note(d, "keep_hidden(%d", (int)positions);
    for (uint32_t i = 0; i < n; i++) note(d, ",%u", layers[i]);
    note(d, ") ");
    return CDZ_OK;
}

static cdz_status fd_hidden_states(cdz_decoder *dec, cdz_hidden *out)
{
    static const float kept[] = {0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 2};
    (void)dec;
    *out = (cdz_hidden){kept, 2, 2, 3};
    return CDZ_OK;
}

static cdz_status fd_head(cdz_decoder *dec, const float *hidden, uint32_t n, cdz_scores *out)
{
    static float scores[2 * 32];
    assert_true(n <= 2 && fd_of(dec)->n_vocab <= 32);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t v = 0; v < fd_of(dec)->n_vocab; v++)
            scores[i * fd_of(dec)->n_vocab + v] = v < 3 ? 2 * hidden[i * 3 + v] : 0;
    *out = (cdz_scores){scores, n, fd_of(dec)->n_vocab, fd_of(dec)->n_vocab, 0};
    return CDZ_OK;
}

/* The head of twice as much. */
static cdz_status fd_lens(cdz_decoder *dec, const float *hidden, uint32_t n, cdz_scores *out)
{
    const cdz_status st = fd_head(dec, hidden, n, out);
    for (size_t i = 0; i < (size_t)n * out->n_vocab; i++) out->data[i] *= 2;
    return st;
}

static bool fd_facts(const cdz_decoder *dec, const char *model, cdz_model_facts *out)
{
    *out = (cdz_model_facts){
        .size = sizeof *out, .n_vocab = fd_of(dec)->n_vocab, .n_layers = 2, .width = 3};
    return !model || strcmp(model, "target") == 0;
}

static cdz_status fd_draw_rows(cdz_decoder *dec, cdz_scores *s, int32_t *tokens)
{
    CDZ_TRY(fd_process(dec, s));
    CDZ_TRY(fd_record(dec, CDZ_RECORD_SCORES, s));
    CDZ_TRY(fd_softmax(dec, s));
    return fd_multinomial(dec, s, tokens);
}

static cdz_status fd_sleep(cdz_decoder *dec, double seconds)
{
    note(fd_of(dec), "sleep(%g) ", seconds);
    return CDZ_OK;
}

/* Every tool answers with the question, the tool "broken" with a sentence. */
static cdz_status fd_call_tool(cdz_decoder *dec, const char *name, const char *text, uint32_t len,
                               cdz_tool_answer *out)
{
    note(fd_of(dec), "call(%s,%u) ", name, len);
    out->failed = strcmp(name, "broken") == 0;
    out->text = out->failed ? (cdz_string){"out of order", 12} : (cdz_string){text, len};
    return CDZ_OK;
}

static cdz_status fd_insert(cdz_decoder *dec, uint32_t row, const int32_t *ids, uint32_t n,
                            uint32_t flags, const char *who)
{
    note(fd_of(dec), "insert(%u,%u,%u,%s) ", row, n, flags, who ? who : "-");
    for (uint32_t i = 0; i < n; i++)
        fd_of(dec)->rows[row].ids[fd_of(dec)->rows[row].len++] = ids[i];
    return CDZ_OK;
}

static cdz_status fd_commit(cdz_decoder *dec, uint32_t row, uint32_t n)
{
    note(fd_of(dec), "commit(%u,%u) ", row, n);
    return CDZ_OK;
}

static cdz_status fd_seq_score(cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n, uint32_t last,
                               float *out)
{
    note(fd_of(dec), "seq_score(%u,%u) ", n, last);
    for (uint32_t i = 0; i < n; i++) out[i] = -(float)seqs[i]->len;
    return CDZ_OK;
}

static uint32_t fd_n_values(const cdz_decoder *dec, const char *model)
{
    (void)dec;
    return model && strcmp(model, "reward") == 0 ? 2 : 0;
}

static cdz_string fd_value_label(const cdz_decoder *dec, const char *model, uint32_t i)
{
    static const cdz_string labels[] = {{"dull", 4}, {"lively", 6}};
    return i < fd_n_values(dec, model) ? labels[i] : (cdz_string){NULL, 0};
}

/* Of each sequence its length and its newest id. */
static cdz_status fd_seq_value(cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n,
                               uint32_t n_values, float *out)
{
    note(fd_of(dec), "seq_value(%u,%u) ", n, n_values);
    if (n_values != 2) return CDZ_E_UNSUPPORTED;
    for (uint32_t i = 0; i < n; i++) {
        out[2 * i] = (float)seqs[i]->len;
        out[2 * i + 1] = seqs[i]->len ? (float)seqs[i]->ids[seqs[i]->len - 1] : 0.0f;
    }
    return CDZ_OK;
}

static cdz_status fd_seq_append_forward(cdz_decoder *dec, cdz_seq *const *seqs,
                                        const int32_t *tokens, uint32_t n, cdz_scores *out)
{
    for (uint32_t i = 0; i < n; i++) CDZ_TRY(dec->api->seq_append(dec, seqs[i], &tokens[i], 1));
    return dec->api->seq_forward(dec, seqs, n, CDZ_POSITIONS_LAST, out);
}

/* One more token for each of the branches that go on, by the verbs of the table. */
static cdz_status fd_roll(cdz_decoder *dec, cdz_seq *const *seqs, const uint32_t *rows, uint32_t n,
                          bool draws, cdz_rollout *out)
{
    cdz_seq *live[FAKE_ROWS * 8];
    uint32_t live_rows[FAKE_ROWS * 8], which[FAKE_ROWS * 8], n_live = 0;
    int32_t tokens[FAKE_ROWS * 8];
    cdz_scores scores;

    assert_true(n <= FAKE_ROWS * 8);
    for (uint32_t i = 0; i < n; i++)
        if (out[i].stop.reason == CDZ_GO_ON) {
            live[n_live] = seqs[i];
            live_rows[n_live] = rows[i];
            which[n_live++] = i;
        }
    if (n_live == 0) return CDZ_OK;
    CDZ_TRY(dec->api->seq_forward(dec, live, n_live, CDZ_POSITIONS_LAST, &scores));
    CDZ_TRY(dec->api->seq_process(dec, live, live_rows, n_live, &scores));
    CDZ_TRY(dec->api->softmax(dec, &scores));
    if (draws) CDZ_TRY(dec->api->multinomial(dec, &scores, tokens));
    for (uint32_t i = 0; i < n_live; i++) {
        cdz_pick pick;
        cdz_rollout *r = &out[which[i]];
        CDZ_TRY(dec->api->argmax(dec, &scores, i, &pick));
        if (!draws) tokens[i] = pick.token;
        CDZ_TRY(dec->api->seq_append(dec, live[i], &tokens[i], 1));
        r->n_new++;
        r->logprob += logf(cdz_row(&scores, i)[tokens[i]]);
        const uint32_t own = fd_of(dec)->rows[rows[which[i]]].len;
        const cdz_ids suffix = {live[i]->ids + own, live[i]->len - own};
        CDZ_TRY(dec->api->stop_test(dec, &suffix, &rows[which[i]], 1, &r->stop));
    }
    return CDZ_OK;
}

static cdz_status fd_rollouts(cdz_decoder *dec, cdz_seq *const *seqs, const uint32_t *rows,
                              uint32_t n, uint32_t most, bool draws, cdz_rollout *out)
{
    note(fd_of(dec), "rollouts(%u,%u) ", n, most);
    memset(out, 0, n * sizeof *out);
    for (uint32_t i = 0; i < most; i++) CDZ_TRY(fd_roll(dec, seqs, rows, n, draws, out));
    return CDZ_OK;
}

static const cdz_decoder_api fake_decoder_api = {
    .size = sizeof(cdz_decoder_api),
    .n_rows = fd_n_rows,
    .input_ids = fd_input_ids,
    .done = fd_done,
    .row_done = fd_row_done,
    .forward = fd_forward,
    .process = fd_process,
    .append = fd_append,
    .append_rows = fd_append_rows,
    .rewindable = fd_rewindable,
    .rewind = fd_rewind,
    .reorder = fd_reorder,
    .extend_rows = fd_extend_rows,
    .map = fd_map,
    .softmax = fd_softmax,
    .log_softmax = fd_log_softmax,
    .softmax_flat = fd_softmax_flat,
    .ban = fd_ban,
    .token_scores = fd_token_scores,
    .scratch_scores = fd_scratch_scores,
    .argmax = fd_argmax,
    .argmax_rows = fd_argmax_rows,
    .multinomial = fd_multinomial,
    .topk_flat = fd_topk_flat,
    .multinomial_flat = fd_multinomial_flat,
    .uniform = fd_uniform,
    .seq_new = fd_seq_new,
    .seq_of_row = fd_seq_of_row,
    .seq_fork = fd_seq_fork,
    .seq_free = fd_seq_free,
    .seq_append = fd_seq_append,
    .seq_truncate = fd_seq_truncate,
    .seq_ids = fd_seq_ids,
    .seq_length = fd_seq_length,
    .seq_forward = fd_seq_forward,
    .seq_process = fd_seq_process,
    .seq_new_exit = fd_seq_new_exit,
    .process_ids = fd_process_ids,
    .pipeline_derive = fd_pipeline_derive,
    .append_chunk = fd_append_chunk,
    .has_drafter = fd_has_drafter,
    .propose = fd_propose,
    .judged = fd_judged,
    .stop_test = fd_stop_test,
    .finish = fd_finish,
    .return_rows = fd_return_rows,
    .record = fd_record,
    .put_result = fd_put_result,
    .cancelled = fd_cancelled,
    .deadline_s = fd_deadline_s,
    .vocab_size = fd_vocab_size,
    .keep_hidden = fd_keep_hidden,
    .hidden_states = fd_hidden_states,
    .head = fd_head,
    .facts = fd_facts,
    .draw_rows = fd_draw_rows,
    .lens = fd_lens,
    .seq_steer = fd_seq_steer,
    .embed = fd_embed,
    .seq_embeds = fd_seq_embeds,
    .n_values = fd_n_values,
    .value_label = fd_value_label,
    .seq_value = fd_seq_value,
    .drafter_caps = fd_drafter_caps,
    .sleep = fd_sleep,
    .call_tool = fd_call_tool,
    .insert = fd_insert,
    .commit = fd_commit,
    .seq_score = fd_seq_score,
    .seq_append_forward = fd_seq_append_forward,
    .rollouts = fd_rollouts,
};

static fake_decoder *fd_newest; /* whose rows have texts */

static cdz_ids fd_row_ids(const cdz_step *step, uint32_t r)
{
    (void)step;
    return (cdz_ids){fd_newest->rows[r].ids, fd_newest->rows[r].len};
}

/* Rows begin with the ids of the fake request: 1, 3, 5, 3. */
static fake_decoder *fd_new(uint32_t n_rows, uint32_t most)
{
    fake_decoder *d = calloc(1, sizeof *d);

    assert_non_null(d);
    d->dec.api = &fake_decoder_api;
    fake_mask = &fd_mask_host;
    fake_kv = &fd_kv_host;
    fake_steer = &fd_steer_host;
    fake_row_ids = fd_row_ids;
    fd_newest = d;
    d->f = fake_new(n_rows, FAKE_VOCAB);
    d->n_rows = n_rows;
    d->n_vocab = FAKE_VOCAB;
    d->most = most;
    for (uint32_t r = 0; r < n_rows; r++) {
        memcpy(d->rows[r].ids, d->f->ids[r].at, 4 * sizeof(int32_t));
        d->rows[r].len = 4;
    }
    cdz_torch_seed(&d->rng, 7);
    return d;
}

static cdz_status fd_run(fake_decoder *d)
{
    const cdz_strategy *s = (const cdz_strategy *)(const void *)d->f->step.plugin;

    assert_int_equal(s->base.kind, CDZ_KIND_STRATEGY);
    return s->run(&d->dec, &d->f->step);
}

static void fd_free(fake_decoder *d)
{
    fake_free(d->f);
    free(d);
}

#endif
