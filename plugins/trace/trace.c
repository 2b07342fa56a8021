/* trace.c - an observer that writes a line for every token: its probability before and after the processors, how many
 * tokens were left to choose from, and the best of them. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cadenza/ext/tokenizer.h"
#include "cadenza/ext/trace.h"
#include "cadenza/observer.h"

enum { KEPT = 64, LINE = 1000, TEXT = 40 };

typedef struct params {
    int64_t top;
} params;

static const cdz_param table[] = {
    CDZ_INT(params, top, 3, 0, 16, "candidates shown beside the token"),
};

/* What a row of scores looked like; the best KEPT tokens by falling score, ties by lower id. */
typedef struct look {
    uint32_t row, len; /* the request row, and the length of the ids that the scores follow */
    uint32_t n_left, n_kept;
    double entropy; /* nats, of the processed distribution */
    int32_t ids[KEPT];
    double p[KEPT], raw_p[KEPT];
} look;

/* The newest looks, in a ring: a strategy may have several rows, and drafts, processed before it appends. */
typedef struct memory {
    look *looks; /* (cap) */
    uint32_t cap, next;
    uint32_t *from; /* (n_rows) which row each was when its scores were seen: a search reorders in between */
} memory;

/* --- looking ------------------------------------------------------------------------------------------------------- */

/* log of the sum of exp; -inf for a row of -inf. */
static double log_sum_exp(const float *row, uint32_t n)
{
    float most = -INFINITY;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        if (row[i] > most) most = row[i];
    if (most == -INFINITY) return -INFINITY;
    for (uint32_t i = 0; i < n; i++) sum += exp((double)row[i] - (double)most);
    return (double)most + log(sum);
}

/* Puts id into the best of the look if it belongs there; what comes later has a higher id. */
static void keep(look *to, const float *row, int32_t id)
{
    uint32_t at = to->n_kept;
    if (at == KEPT && row[id] <= row[to->ids[KEPT - 1]]) return;
    if (at < KEPT) to->n_kept++;
    if (at == KEPT) at--;
    for (; at > 0 && row[id] > row[to->ids[at - 1]]; at--) to->ids[at] = to->ids[at - 1];
    to->ids[at] = id;
}

static void look_at(look *to, const float *before, const float *after, uint32_t n)
{
    const double raw_sum = log_sum_exp(before, n), sum = log_sum_exp(after, n);
    for (uint32_t i = 0; i < n; i++) {
        if (!(after[i] > -INFINITY)) continue; /* masked, or no number */
        const double p = exp((double)after[i] - sum);
        to->n_left++;
        if (p > 0) to->entropy -= p * log(p);
        keep(to, after, (int32_t)i);
    }
    for (uint32_t k = 0; k < to->n_kept; k++) {
        to->p[k] = exp((double)after[to->ids[k]] - sum);
        to->raw_p[k] = exp((double)before[to->ids[k]] - raw_sum);
    }
}

static cdz_status see_scores(const cdz_step *step, const cdz_seen *seen)
{
    memory *m = step->shared;
    for (uint32_t r = 0; r < step->request->n_rows; r++) m->from[r] = r;
    for (uint32_t i = 0; i < step->n_rows; i++) {
        look *to = &m->looks[m->next];
        m->next = (m->next + 1) % m->cap;
        *to = (look){.row = step->row_index[i], .len = step->input_ids[i].len};
        look_at(to, seen->before[i], seen->after[i], seen->n_vocab);
    }
    return CDZ_OK;
}

/* The newest look at what the row held before its last token; NULL: nobody asked the processors about it. */
static const look *find(const memory *m, uint32_t row, uint32_t len)
{
    for (uint32_t back = 1; back <= m->cap; back++) {
        const look *at = &m->looks[(m->next + m->cap - back) % m->cap];
        if (at->len == len && at->row == row && at->n_kept) return at;
    }
    return NULL;
}

/* --- writing ------------------------------------------------------------------------------------------------------- */

typedef struct line {
    char text[LINE];
    size_t len;
} line;

static void put(line *l, const char *fmt, ...) CDZ_PRINTF(2, 3);
static void put(line *l, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(l->text + l->len, sizeof l->text - l->len, fmt, args);
    va_end(args);
    if (n > 0)
        l->len += (size_t)n < sizeof l->text - l->len ? (size_t)n : sizeof l->text - l->len - 1;
}

/* The token's text in quotes, shortened, what a terminal would act on as \xHH; without a tokenizer its id. */
static void put_token(line *l, const cdz_step *step, int32_t id)
{
    const cdz_tokenizer_api *tokenizer = cdz_get_tokenizer(step);
    const cdz_string text = tokenizer && tokenizer->present(step) ? tokenizer->token_text(step, id)
                                                                  : (cdz_string){NULL, 0};
    if (!text.at) {
        put(l, "%d", id);
        return;
    }
    put(l, "'");
    for (uint32_t i = 0; i < text.len && i < TEXT; i++) {
        const unsigned char c = (unsigned char)text.at[i];
        if (c == '\n')
            put(l, "\\n");
        else if (c < 0x20 || c == 0x7F)
            put(l, "\\x%02x", c);
        else
            put(l, "%c", c);
    }
    put(l, text.len > TEXT ? "...'" : "'");
}

static void put_probability(line *l, const look *seen, int32_t token)
{
    for (uint32_t k = 0; k < seen->n_kept; k++) {
        if (seen->ids[k] != token) continue;
        put(l, " p %.3f", seen->p[k]);
        if (fabs(seen->p[k] - seen->raw_p[k]) >= 0.0005) put(l, " (raw %.3f)", seen->raw_p[k]);
        return;
    }
    put(l, " p < %.3f", seen->n_kept ? seen->p[seen->n_kept - 1] : 1.0);
}

static void put_others(line *l, const cdz_step *step, const look *seen, int32_t token)
{
    const int64_t top = ((const params *)step->params)->top;
    const char *before = "; ";
    for (uint32_t k = 0, shown = 0; k < seen->n_kept && shown < top; k++) {
        if (seen->ids[k] == token) continue;
        put(l, "%s", before);
        put_token(l, step, seen->ids[k]);
        put(l, " %.3f", seen->p[k]);
        before = ", ";
        shown++;
    }
}

static cdz_status see_token(const cdz_step *step, int32_t token)
{
    const uint32_t len = step->input_ids[0].len, row = step->row_index[0];
    const memory *m = step->shared;
    const look *seen = find(m, m->from[row], len - 1);
    line l = {.len = 0};
    put(&l, "row %u +%u ", row, len - step->request->prompt_len);
    put_token(&l, step, token);
    if (seen) {
        put_probability(&l, seen, token);
        put(&l, ", %u left, entropy %.2f", seen->n_left, seen->entropy);
        put_others(&l, step, seen, token);
    }
    cdz_log(step, CDZ_LOG_INFO, "%s", l.text);
    return CDZ_OK;
}

static cdz_status see_stop(const cdz_step *step, const cdz_stop *stop)
{
    static const char *const names[] = {"went on",         "ended: eos",         "ended: length",
                                        "ended: max_time", "ended: stop string", "ended"};
    const uint32_t n = step->input_ids[0].len - step->request->prompt_len;
    const bool says =
        stop->reason >= CDZ_STOP_STRING && stop->text.len; /* else the text is the reason's name */
    cdz_log(step, CDZ_LOG_INFO, "row %u %s after %u tokens%s%.*s", step->row_index[0],
            names[stop->reason <= CDZ_STOP_CUSTOM ? stop->reason : CDZ_STOP_CUSTOM], n,
            says ? ": " : "", says ? (int)(stop->text.len < TEXT ? stop->text.len : TEXT) : 0,
            says ? stop->text.at : "");
    return CDZ_OK;
}

static cdz_status see_rewind(const cdz_step *step, uint32_t n)
{
    cdz_log(step, CDZ_LOG_INFO, "row %u takes back %u tokens", step->row_index[0], n);
    return CDZ_OK;
}

static cdz_status see_reorder(const cdz_step *step, const uint32_t *parents)
{
    memory *m = step->shared;
    line l = {.len = 0};
    for (uint32_t r = 0; r < step->n_rows; r++) m->from[r] = parents[r];
    for (uint32_t r = 0; r < step->n_rows; r++)
        if (parents[r] != r) put(&l, "%s%u from %u", l.len ? ", " : "rows: ", r, parents[r]);
    if (l.len) cdz_log(step, CDZ_LOG_INFO, "%s", l.text);
    return CDZ_OK;
}

/* --- life ---------------------------------------------------------------------------------------------------------- */

/* A request that somebody has named, as the server does: its lines can be put beside those of others. */
static void say_whose(const cdz_step *step)
{
    const cdz_trace_api *api = cdz_get_trace(step);
    const char *id = api ? api->request_id(step) : NULL,
               *parent = api ? api->traceparent(step) : NULL;
    if (id || parent)
        cdz_log(step, CDZ_LOG_INFO, "request %s%s%s", id ? id : "without a name",
                parent ? ", traceparent " : "", parent ? parent : "");
}

static cdz_status begin(const cdz_step *step, void **shared)
{
    memory *m = cdz_alloc(step, sizeof *m);
    if (!m) return cdz_fail(step, CDZ_E_NOMEM, "no memory for what it sees");
    m->cap = 2 * step->request->n_rows + 64;
    m->looks = calloc(m->cap, sizeof *m->looks);
    m->from = cdz_alloc(step, step->request->n_rows * sizeof *m->from);
    if (!m->looks || !m->from) {
        free(m->looks);
        m->looks = NULL;
    }
    if (!m->looks) return cdz_fail(step, CDZ_E_NOMEM, "no memory for what it sees");
    *shared = m;
    say_whose(step);
    return CDZ_OK;
}

static void end(const cdz_step *step)
{
    free(((memory *)step->shared)->looks);
}

static const cdz_observer trace = {
    .base = {CDZ_OBSERVER_BASE, .id = "org.cadenza.trace", .version = "1.0.0",
             .summary = "A line for every token: its probability, and the best other tokens",
             CDZ_PARAMS(params, table)},
    .begin = begin,
    .scores = see_scores,
    .token = see_token,
    .stop = see_stop,
    .rewind = see_rewind,
    .reorder = see_reorder,
    .end = end,
};

CDZ_EXPORT_PLUGINS(&trace.base)
