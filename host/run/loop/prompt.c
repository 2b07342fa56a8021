/* prompt.c - requests that only read their prompts: the logits of every position (mode `logits`), or how probable
 * each token was (mode `score`). There is no strategy and no processor. */
#include <math.h>
#include <string.h>

#include "run/loop/loop.h"
#include "vec/vec.h"

enum { SCORE_ROWS = 64 }; /* score rows made at a time, whatever the prompt's length */

static uint32_t longest(const cdz_loop *loop)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        const uint32_t visible = cdz_seq_visible(loop->rows.at[r].seq);
        if (visible > most) most = visible;
    }
    return most;
}

/* One pass over the prompts; hidden positions stay zero. */
static cdz_status read_logits(cdz_loop *loop)
{
    const size_t n_logits = (size_t)loop->job->prompt_len * loop->rows.n_vocab;
    float *out =
        cdz_arena_array(&loop->rows.berth->outcome->arena, loop->rows.n, n_logits * sizeof *out);
    if (!out || !cdz_loop_want(loop, loop->rows.n)) return cdz_loop_nomem(loop);
    loop->want = (cdz_want){.model = loop->rows.model,
                            .seqs = loop->want_seqs,
                            .n_seqs = loop->rows.n,
                            .positions = CDZ_POSITIONS_ALL,
                            .by_index = true,
                            .out = out,
                            .stride = loop->rows.n_vocab,
                            .length = longest(loop)};
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        (void)cdz_loop_recall(loop, loop->rows.at[r].seq, true);
        CDZ_TRY(cdz_seq_prepare(loop->rows.at[r].seq, &loop->rows.error));
        loop->want_seqs[r] =
            (cdz_want_seq){.seq = loop->rows.at[r].seq, .row0 = (int64_t)r * loop->job->prompt_len};
    }
    CDZ_TRY(cdz_loop_await(loop));
    loop->rows.berth->outcome->prompt_logits = out;
    return CDZ_OK;
}

/* Rows [first, first + n) of the request go together, `chunk` positions of each at a time. */
typedef struct group {
    uint32_t first, n, chunk, length; /* length: for frequencies that depend on it */
} group;

/* Positions [done, done + chunk) of every row that has more than those: each tells of the token after it. */
static cdz_status want_chunk(cdz_loop *loop, const group *g, uint32_t done)
{
    loop->want = (cdz_want){.model = loop->rows.model,
                            .seqs = loop->want_seqs,
                            .positions = CDZ_POSITIONS_ALL,
                            .out = loop->seq_scores.data,
                            .stride = loop->rows.n_vocab,
                            .until = done + g->chunk,
                            .length = g->length};
    for (uint32_t r = g->first; r < g->first + g->n; r++) {
        cdz_seq *seq = loop->rows.at[r].seq;
        if (done + 1 >= cdz_seq_visible(seq)) continue;
        cdz_seq_rotate_for(seq, g->length);
        (void)cdz_loop_recall(loop, seq, true);
        CDZ_TRY(cdz_seq_prepare(seq, &loop->rows.error));
        const int64_t row0 = (int64_t)loop->want.n_seqs * g->chunk - done;
        loop->want_seqs[loop->want.n_seqs++] =
            (cdz_want_seq){.seq = seq, .row0 = row0, .from = done};
    }
    return cdz_loop_await(loop);
}

/* What read_logprobs fills: log-probabilities of all slots, and the likeliest k of each. */
typedef struct readings {
    float *logprobs;   /* (n_rows, prompt_len) */
    int32_t *top_ids;  /* (n_rows, prompt_len, k) or NULL */
    float *top_values; /* the same */
    uint32_t k;
} readings;

static void take_row(const cdz_loop *loop, const float *row, int32_t id, size_t at, readings *out)
{
    const float sum = cdz_vec_table()->logsumexp(row, loop->rows.n_vocab);
    out->logprobs[at] = row[id] - sum;
    if (out->k == 0) return;
    cdz_record_best(row, loop->rows.n_vocab, out->k, out->top_ids + at * out->k,
                    out->top_values + at * out->k);
    for (uint32_t i = 0; i < out->k; i++) out->top_values[at * out->k + i] -= sum;
}

static void take_chunk(cdz_loop *loop, const group *g, uint32_t done, readings *out)
{
    const float *rows = loop->seq_scores.data;
    for (uint32_t r = g->first; r < g->first + g->n; r++) {
        const cdz_seq *seq = loop->rows.at[r].seq;
        const uint32_t visible = cdz_seq_visible(seq);
        if (done + 1 >= visible) continue;
        for (uint32_t i = 0; i < g->chunk && done + i + 1 < visible; i++) {
            const float *row = rows + (size_t)i * loop->rows.n_vocab;
            const uint32_t slot = cdz_seq_slot(seq, done + i + 1);
            take_row(loop, row, seq->ids[slot], (size_t)r * loop->job->prompt_len + slot, out);
        }
        rows += (size_t)g->chunk * loop->rows.n_vocab;
    }
}

static bool make_readings(cdz_loop *loop, readings *out)
{
    cdz_arena *arena = &loop->rows.berth->outcome->arena;
    const size_t n = (size_t)loop->rows.n * loop->job->prompt_len, k = loop->job->keep_top;
    *out = (readings){.logprobs = cdz_arena_array(arena, n, sizeof(float)), .k = (uint32_t)k};
    for (size_t i = 0; out->logprobs && i < n; i++) out->logprobs[i] = NAN;
    if (k == 0) return out->logprobs != NULL;
    out->top_ids = cdz_arena_array(arena, n, k * sizeof(int32_t));
    out->top_values = cdz_arena_array(arena, n, k * sizeof(float));
    return out->logprobs && out->top_ids && out->top_values;
}

static cdz_status read_logprobs(cdz_loop *loop)
{
    readings out;
    if (!make_readings(loop, &out) || !cdz_loop_want(loop, SCORE_ROWS)) return cdz_loop_nomem(loop);
    CDZ_TRY(cdz_matrix_fit(&loop->rows, &loop->seq_scores, SCORE_ROWS, loop->rows.n_vocab));
    group g = {.length = longest(loop)};
    for (; g.first < loop->rows.n; g.first += g.n) {
        const uint32_t left = loop->rows.n - g.first;
        g.n = left < SCORE_ROWS ? left : SCORE_ROWS;
        g.chunk = SCORE_ROWS / g.n;
        for (uint32_t done = 0; done + 1 < g.length; done += g.chunk) {
            CDZ_TRY(want_chunk(loop, &g, done));
            take_chunk(loop, &g, done, &out);
        }
    }
    cdz_outcome *outcome = loop->rows.berth->outcome;
    outcome->prompt_logprobs = out.logprobs;
    outcome->prompt_top_ids = out.top_ids;
    outcome->prompt_top_logprobs = out.top_values;
    return CDZ_OK;
}

cdz_status cdz_loop_read_prompts(cdz_loop *loop)
{
    return loop->job->prompt_logprobs ? read_logprobs(loop) : read_logits(loop);
}
