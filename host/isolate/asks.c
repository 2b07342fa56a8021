/* asks.c - what a plugin may ask the host out of the middle of a call, answered by the step's own host. Names, types and
 * ids come from the process: the functions asked here take whatever they are given, as they do from any plugin. */
#include <string.h>

#include "cadenza/drafter.h"
#include "cadenza/ext/tokenizer.h"
#include "isolate/exchange.h"
#include "isolate/values.h"

/* Texts of tokens go over in one answer until so many bytes are full. */
enum { TEXT_BYTES = 1 << 20 };

typedef struct question {
    const cdz_isolate *isolate;
    const cdz_step *step;
    cdz_decoder *dec;                   /* of drafters, else NULL */
    cdz_session *session;               /* NULL without a request */
    const cdz_tokenizer_api *tokenizer; /* NULL in create */
    cdz_in *in;
    cdz_out *out;
    cdz_arena arena; /* until it is answered */
} question;

static bool log_line(question *q)
{
    char text[CDZ_ERROR_TEXT];
    const uint32_t level = cdz_take_u32(q->in);
    const cdz_string line = cdz_take_string(q->in, &q->arena);
    if (!line.at) return false;
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
    if (!name || q->in->bad) return false;
    const cdz_status st = q->step->host->config(q->step, name, (cdz_param_type)type, &value);
    cdz_put_u32(q->out, st);
    if (st == CDZ_OK) cdz_put_value(q->out, (cdz_param_type)type, &value);
    return true;
}

static bool texts(question *q)
{
    const uint32_t first = cdz_take_u32(q->in), n = cdz_take_u32(q->in);
    const size_t most = q->out->len + TEXT_BYTES;
    if (first > INT32_MAX || n > INT32_MAX - first) return false;
    for (uint32_t i = 0; i < n && q->out->len < most; i++)
        cdz_put_string(q->out, q->tokenizer->token_text(q->step, (int32_t)(first + i)));
    return true;
}

static bool encode(question *q)
{
    const cdz_string text = cdz_take_string(q->in, &q->arena);
    const bool special = cdz_take_u32(q->in) != 0;
    cdz_ids ids = {0};
    if (!text.at) return false;
    const cdz_status st = q->tokenizer->encode(q->step, text.at, text.len, special, &ids);
    cdz_put_u32(q->out, st);
    if (st == CDZ_OK) cdz_put_ids(q->out, ids);
    return true;
}

static bool decode(question *q)
{
    const cdz_ids ids = cdz_take_ids(q->in, &q->arena);
    const bool skip = cdz_take_u32(q->in) != 0;
    cdz_string text = {0};
    if (q->in->bad) return false;
    const cdz_status st = q->tokenizer->decode(q->step, ids, skip, &text);
    cdz_put_u32(q->out, st);
    if (st == CDZ_OK) cdz_put_string(q->out, text);
    return true;
}

static bool convert(question *q)
{
    const char *from = cdz_take_text(q->in, &q->arena);
    const cdz_ids ids = cdz_take_ids(q->in, &q->arena);
    const char *to = cdz_take_text(q->in, &q->arena);
    const bool special = cdz_take_u32(q->in) != 0;
    cdz_ids found = {0};
    if (q->in->bad) return false;
    const cdz_status st = q->tokenizer->convert(q->step, from, ids, to, special, &found);
    cdz_put_u32(q->out, st);
    if (st == CDZ_OK) cdz_put_ids(q->out, found);
    return true;
}

/* Rows for a drafter's filter, kept for the request: the host's are the only ones that processors may be run on. */
static cdz_status lend_rows(question *q, uint32_t n)
{
    cdz_scores *lent = &q->session->lent;
    if (lent->id && lent->n_rows >= n) return CDZ_OK;
    return cdz_scratch_scores(q->dec, n, lent);
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

static bool filter(question *q)
{
    const cdz_request_info *request = q->step->request;
    const uint32_t n = cdz_take_u32(q->in);
    const uint64_t bytes = (uint64_t)n * request->n_vocab * sizeof(float);
    if (!q->dec || !q->session || q->in->bad || n == 0 || n > q->in->len / sizeof(uint32_t) ||
        bytes > CDZ_ISOLATE_ROWS_BYTES)
        return false;
    cdz_ids *ids = cdz_arena_array(&q->arena, n, sizeof *ids);
    uint32_t *rows = cdz_arena_array(&q->arena, n, sizeof *rows);
    for (uint32_t i = 0; ids && rows && i < n; i++) {
        rows[i] = cdz_take_u32(q->in);
        ids[i] = cdz_take_ids(q->in, &q->arena);
        if (rows[i] >= request->n_rows) return false;
        for (uint32_t k = 0; k < ids[i].len; k++)
            if (ids[i].at[k] < 0 || (uint32_t)ids[i].at[k] >= request->n_vocab) return false;
    }
    if (!ids || !rows || q->in->bad) return false;
    cdz_put_u32(q->out, run_filter(q, ids, rows, n, (size_t)bytes));
    return true;
}

static bool answer(question *q, uint32_t kind)
{
    if (kind == CDZ_DOWN_LOG) return log_line(q);
    if (kind == CDZ_DOWN_CONFIG) return config(q);
    if (kind == CDZ_DOWN_FILTER) return filter(q);
    if (!q->tokenizer) return false;
    switch (kind) {
    case CDZ_DOWN_PRESENT: cdz_put_u32(q->out, q->tokenizer->present(q->step)); return true;
    case CDZ_DOWN_N_TOKENS: cdz_put_u32(q->out, q->tokenizer->n_tokens(q->step)); return true;
    case CDZ_DOWN_TEXTS: return texts(q);
    case CDZ_DOWN_ENCODE: return encode(q);
    case CDZ_DOWN_DECODE: return decode(q);
    case CDZ_DOWN_CONVERT: return convert(q);
    default: return false;
    }
}

bool cdz_isolate_answer(cdz_exchange *x, uint32_t kind, cdz_out *out)
{
    question q = {.isolate = x->proxy->of,
                  .step = x->step,
                  .dec = x->dec,
                  .session = x->session,
                  .tokenizer = cdz_get_tokenizer(x->step),
                  .in = &x->in,
                  .out = out};
    const bool good = answer(&q, kind);
    cdz_arena_free(&q.arena);
    return good;
}
