/* asks.c - what a plugin may ask the host out of the middle of a call, answered by the step's own host. Names, types and
 * ids come from the process: the functions asked here take whatever they are given, as they do from any plugin. How much
 * is asked for at once is looked at here, before anything is done or kept: nobody can interrupt an answer. */
#include <string.h>

#include "cadenza/drafter.h"
#include "cadenza/ext/files.h"
#include "cadenza/ext/tokenizer.h"
#include "isolate/exchange.h"
#include "isolate/values.h"

/* Texts of tokens go over in one answer until so many bytes are full. */
enum { TEXT_BYTES = 1 << 20 };

typedef struct question {
    const cdz_isolate *isolate;
    const cdz_step *step;
    cdz_decoder *dec;                   /* of drafters, else NULL */
    cdz_isolate_session *session;       /* NULL without a request */
    uint32_t *lines;                    /* logged by this call so far */
    const cdz_tokenizer_api *tokenizer; /* NULL in create */
    cdz_wire_in *in;
    cdz_wire_out *out;
    cdz_arena arena; /* until it is answered */
} question;

static bool log_line(question *q)
{
    char text[CDZ_ERROR_TEXT];
    const uint32_t level = cdz_take_u32(q->in);
    const cdz_string line = cdz_take_string(q->in, &q->arena);
    if (!line.at || line.len > CDZ_ASK_TEXT_BYTES || !cdz_taken_whole(q->in)) return false;
    if (*q->lines > CDZ_ASK_LINES) return true;
    if ((*q->lines)++ == CDZ_ASK_LINES) {
        cdz_log(q->step, CDZ_LOG_WARNING, "what else it says in this call is left out (%d lines)",
                (int)CDZ_ASK_LINES);
        return true;
    }
    cdz_log(q->step, level <= CDZ_LOG_WARNING ? (cdz_log_level)level : CDZ_LOG_WARNING, "%s",
            cdz_isolate_clean(line, text, sizeof text));
    return true;
}

static bool config(question *q)
{
    /* The largest C type of a parameter. */
    union {
        cdz_word_or_ints words;
        cdz_weighted_list weighted;
        cdz_int_choices choices;
        cdz_string_list strings;
    } value;
    memset(&value, 0, sizeof value);
    const char *name = cdz_take_text(q->in, &q->arena);
    const uint32_t type = cdz_take_u32(q->in);
    if (!name || type == 0 || !cdz_taken_whole(q->in)) return false;
    const cdz_status st = q->step->host->config(q->step, name, (cdz_param_type)type, &value);
    cdz_put_u32(q->out, st);
    if (st == CDZ_OK) cdz_put_value(q->out, (cdz_param_type)type, &value);
    return true;
}

/* The host has read it with the plugin, and finds it among those by name: nothing is opened. */
static bool file(question *q)
{
    char name[CDZ_ERROR_TEXT];
    cdz_string bytes = {0};
    const cdz_string asked = cdz_take_string(q->in, &q->arena);
    if (!asked.at || asked.len > CDZ_ASK_NAME_BYTES || !cdz_taken_whole(q->in)) return false;
    const cdz_status st =
        cdz_package_file(q->step, cdz_isolate_clean(asked, name, sizeof name), &bytes);
    cdz_put_u32(q->out, st);
    if (st == CDZ_OK) cdz_put_string(q->out, bytes);
    return true;
}

static bool texts(question *q)
{
    const uint32_t first = cdz_take_u32(q->in), n = cdz_take_u32(q->in);
    const size_t most = q->out->len + TEXT_BYTES;
    if (!cdz_taken_whole(q->in) || first > INT32_MAX || n > INT32_MAX - first) return false;
    for (uint32_t i = 0; i < n && q->out->len < most; i++)
        cdz_put_string(q->out, q->tokenizer->token_text(q->step, (int32_t)(first + i)));
    return true;
}

/* What the tokenizer gives stays with the request until it ends. Asked before it is made: an answer is bounded by what
 * one question may ask for. */
static bool may_keep(question *q, cdz_status *status)
{
    *status = CDZ_OK;
    if (!q->session || q->session->kept <= CDZ_ASK_KEPT_BYTES) return true;
    *status = cdz_fail(q->step, CDZ_E_LIMIT,
                       "its questions to the tokenizer left more than %d MiB with the request",
                       CDZ_ASK_KEPT_BYTES >> 20);
    return false;
}

static void keep(question *q, size_t bytes)
{
    if (q->session) q->session->kept += bytes;
}

static void put_kept_ids(question *q, cdz_status status, cdz_ids ids)
{
    cdz_put_u32(q->out, status);
    if (status != CDZ_OK) return;
    keep(q, ids.len * sizeof *ids.at);
    cdz_put_ids(q->out, ids);
}

static bool encode(question *q)
{
    const cdz_string text = cdz_take_string(q->in, &q->arena);
    const bool special = cdz_take_u32(q->in) != 0;
    cdz_ids ids = {0};
    cdz_status st;
    if (!text.at || text.len > CDZ_ASK_TEXT_BYTES || !cdz_taken_whole(q->in)) return false;
    if (may_keep(q, &st)) st = q->tokenizer->encode(q->step, text.at, text.len, special, &ids);
    put_kept_ids(q, st, ids);
    return true;
}

static bool decode(question *q)
{
    const cdz_ids ids = cdz_take_ids(q->in, &q->arena);
    const bool skip = cdz_take_u32(q->in) != 0;
    cdz_string text = {0};
    cdz_status st;
    if (!cdz_taken_whole(q->in) || ids.len > CDZ_ASK_IDS) return false;
    if (may_keep(q, &st)) st = q->tokenizer->decode(q->step, ids, skip, &text);
    cdz_put_u32(q->out, st);
    if (st != CDZ_OK) return true;
    keep(q, text.len);
    cdz_put_string(q->out, text);
    return true;
}

static bool convert(question *q)
{
    const char *from = cdz_take_text(q->in, &q->arena);
    const cdz_ids ids = cdz_take_ids(q->in, &q->arena);
    const char *to = cdz_take_text(q->in, &q->arena);
    const bool special = cdz_take_u32(q->in) != 0;
    cdz_ids found = {0};
    cdz_status st;
    if (!cdz_taken_whole(q->in) || ids.len > CDZ_ASK_IDS) return false;
    if (may_keep(q, &st)) st = q->tokenizer->convert(q->step, from, ids, to, special, &found);
    put_kept_ids(q, st, found);
    return true;
}

/* Rows for a drafter's filter, kept for the request: the host's are the only ones that processors may be run on. What was
 * lent before stays taken until the request ends: twice as many each time, all together are less than two of the largest. */
static cdz_status lend_rows(question *q, uint32_t n)
{
    cdz_scores *lent = &q->session->lent;
    const size_t row = q->step->request->n_vocab * sizeof(float);
    const uint64_t most = CDZ_ASK_FILTER_BYTES / row, twice = 2 * (uint64_t)lent->n_rows;
    if (lent->id && lent->n_rows >= n) return CDZ_OK;
    const uint64_t enough = twice > n ? twice : n;
    return cdz_scratch_scores(q->dec, (uint32_t)(enough < most ? enough : most), lent);
}

static cdz_status run_filter(question *q, const cdz_ids *ids, const uint32_t *rows, uint32_t n,
                             size_t bytes)
{
    CDZ_TRY(lend_rows(q, n));
    cdz_scores scores = q->session->lent;
    scores.n_rows = n;
    unsigned char *shared = q->isolate->process.map + cdz_isolate_rows_at(bytes);
    const size_t row = (size_t)scores.n_vocab * sizeof(float);
    for (uint32_t i = 0; i < n; i++) memcpy(cdz_row(&scores, i), shared + i * row, row);
    CDZ_TRY(cdz_process_ids(q->dec, 0, ids, rows, n, &scores));
    for (uint32_t i = 0; i < n; i++) memcpy(shared + i * row, cdz_row(&scores, i), row);
    return CDZ_OK;
}

/* One of the histories that a filter is asked about: tokens of the vocabulary, at a row of the request. */
static bool take_history(question *q, cdz_ids *ids, uint32_t *row, uint32_t *left)
{
    const cdz_request_info *request = q->step->request;
    *row = cdz_take_u32(q->in);
    *ids = cdz_take_ids(q->in, &q->arena);
    if (q->in->bad || *row >= request->n_rows || ids->len == 0 || ids->len > *left) return false;
    *left -= ids->len;
    for (uint32_t k = 0; k < ids->len; k++)
        if (ids->at[k] < 0 || (uint32_t)ids->at[k] >= request->n_vocab) return false;
    return true;
}

static bool filter(question *q)
{
    const uint32_t n = cdz_take_u32(q->in);
    uint32_t left = CDZ_ASK_FILTER_IDS;
    if (!q->dec || !q->session || q->in->bad || n == 0 || n > q->in->len / sizeof(uint32_t))
        return false;
    const uint64_t bytes = (uint64_t)n * q->step->request->n_vocab * sizeof(float);
    if (bytes > CDZ_ASK_FILTER_BYTES) return false;
    cdz_ids *ids = cdz_arena_array(&q->arena, n, sizeof *ids);
    uint32_t *rows = cdz_arena_array(&q->arena, n, sizeof *rows);
    if (!ids || !rows) return false;
    for (uint32_t i = 0; i < n; i++)
        if (!take_history(q, &ids[i], &rows[i], &left)) return false;
    if (!cdz_taken_whole(q->in)) return false;
    cdz_put_u32(q->out, run_filter(q, ids, rows, n, (size_t)bytes));
    return true;
}

/* The answer to a question that has no more to say. */
static bool word(question *q, uint32_t value)
{
    cdz_put_u32(q->out, value);
    return cdz_taken_whole(q->in);
}

static bool answer(question *q, uint32_t kind)
{
    if (kind == CDZ_DOWN_LOG) return log_line(q);
    if (kind == CDZ_DOWN_CONFIG) return config(q);
    if (kind == CDZ_DOWN_FILTER) return filter(q);
    if (kind == CDZ_DOWN_FILE) return file(q);
    if (!q->tokenizer || !q->step->request) return false;
    switch (kind) {
    case CDZ_DOWN_PRESENT: return word(q, q->tokenizer->present(q->step));
    case CDZ_DOWN_N_TOKENS: return word(q, q->tokenizer->n_tokens(q->step));
    case CDZ_DOWN_TEXTS: return texts(q);
    case CDZ_DOWN_ENCODE: return encode(q);
    case CDZ_DOWN_DECODE: return decode(q);
    case CDZ_DOWN_CONVERT: return convert(q);
    default: return false;
    }
}

bool cdz_isolate_answer(cdz_exchange *x, uint32_t kind, cdz_wire_out *out)
{
    question q = {.isolate = x->proxy->of,
                  .step = x->step,
                  .dec = x->dec,
                  .session = x->session,
                  .lines = &x->lines,
                  .tokenizer = cdz_get_tokenizer(x->step),
                  .in = &x->in,
                  .out = out};
    const bool good = answer(&q, kind);
    cdz_arena_free(&q.arena);
    return good;
}
