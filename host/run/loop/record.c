/* record.c - keeps what the caller asked for: rows of scores and logits per step, or summaries of them, and results
 * of the strategy's own. Steps live in the outcome's arena; chosen values are filled in when the token is known. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "run/loop/loop.h"
#include "run/loop/verbs.h"
#include "vec/vec.h"

static cdz_arena *arena_of(const cdz_loop *loop)
{
    return &loop->rows.berth->outcome->arena;
}

static float *nan_row(const cdz_loop *loop)
{
    float *values = cdz_arena_array(arena_of(loop), loop->rows.n, sizeof *values);
    for (uint32_t r = 0; values && r < loop->rows.n; r++) values[r] = NAN;
    return values;
}

static cdz_status grow(cdz_loop *loop)
{
    cdz_recorder *rec = &loop->recorder;
    if (rec->n < rec->cap) return CDZ_OK;
    const uint32_t cap = rec->cap ? rec->cap * 2 : 32;
    cdz_recorded_step *steps = cdz_arena_array(arena_of(loop), cap, sizeof *steps);
    if (!steps) return cdz_loop_nomem(loop);
    if (rec->n) memcpy(steps, rec->steps, rec->n * sizeof *steps);
    rec->steps = steps;
    rec->cap = cap;
    return CDZ_OK;
}

/* Room for the likeliest of each row; ids of rows that are not known are -1. */
static cdz_status make_leaders(cdz_loop *loop, cdz_recorded_step *step)
{
    const size_t n = (size_t)loop->rows.n * loop->job->keep_leaders;
    if (!n || !loop->job->keep_logprobs) return CDZ_OK;
    int32_t *ids = cdz_arena_array(arena_of(loop), n, sizeof *ids);
    float *values = cdz_arena_array(arena_of(loop), n, sizeof *values);
    if (!ids || !values) return cdz_loop_nomem(loop);
    for (size_t i = 0; i < n; i++) {
        ids[i] = -1;
        values[i] = NAN;
    }
    step->leaders = ids;
    step->leader_logprobs = values;
    return CDZ_OK;
}

static cdz_status new_step(cdz_loop *loop)
{
    cdz_recorder *rec = &loop->recorder;
    CDZ_TRY(grow(loop));
    cdz_recorded_step *step = &rec->steps[rec->n];
    *step = (cdz_recorded_step){0};
    step->chosen = nan_row(loop);
    if (!step->chosen) return cdz_loop_nomem(loop);
    if (loop->job->keep_logprobs) {
        step->chosen_logprob = nan_row(loop);
        step->chosen_raw_logprob = nan_row(loop);
        if (!step->chosen_logprob || !step->chosen_raw_logprob) return cdz_loop_nomem(loop);
    }
    CDZ_TRY(make_leaders(loop, step));
    if (loop->job->keep_hidden || loop->job->keep_attentions) CDZ_TRY(cdz_states_note(loop, step));
    rec->n++;
    rec->closed = rec->has_scores = rec->has_logits = false;
    return CDZ_OK;
}

/* --- rows ------------------------------------------------------------------------------------------------------- */

/* Insertion into a short sorted list: only few scores of a row get past the list's last. */
void cdz_record_best(const float *row, uint32_t n, uint32_t k, int32_t *ids, float *values)
{
    uint32_t have = 0;
    for (uint32_t i = 0; i < n; i++) {
        const float x = isnan(row[i]) ? -INFINITY : row[i];
        if (have == k && !(x > values[k - 1])) continue;
        uint32_t at = have < k ? have++ : k - 1;
        for (; at > 0 && x > values[at - 1]; at--) {
            ids[at] = ids[at - 1];
            values[at] = values[at - 1];
        }
        ids[at] = (int32_t)i;
        values[at] = x;
    }
}

static uint32_t count_finite(const float *row, uint32_t n)
{
    uint32_t finite = 0;
    for (uint32_t i = 0; i < n; i++) finite += isfinite(row[i]) != 0;
    return finite;
}

static cdz_status summarise(cdz_loop *loop, cdz_recorded_step *step, const cdz_scores *scores)
{
    const uint32_t R = loop->rows.n, V = scores->n_vocab;
    const uint32_t k = loop->job->keep_top < V ? loop->job->keep_top : V;
    int32_t *ids = cdz_arena_array(arena_of(loop), (size_t)R * loop->job->keep_top, sizeof *ids);
    float *values = cdz_arena_array(arena_of(loop), (size_t)R * loop->job->keep_top, sizeof *values);
    uint32_t *finite = cdz_arena_array(arena_of(loop), R, sizeof *finite);
    float *sums = cdz_arena_array(arena_of(loop), R, sizeof *sums);
    if (!ids || !values || !finite || !sums) return cdz_loop_nomem(loop);
    for (uint32_t r = 0; r < R; r++) {
        const size_t at = (size_t)r * loop->job->keep_top;
        cdz_record_best(cdz_row(scores, r), V, k, ids + at, values + at);
        finite[r] = count_finite(cdz_row(scores, r), V);
        sums[r] = cdz_vec_table()->logsumexp(cdz_row(scores, r), V);
    }
    step->top_ids = ids;
    step->top_values = values;
    step->n_finite = finite;
    step->logsumexp = sums;
    return CDZ_OK;
}

/* A copy of the rows: in the outcome when they are wanted whole, else in a buffer that the next step reuses. */
static float *copy_rows(cdz_loop *loop, const cdz_scores *scores, bool whole, float **pending)
{
    const size_t bytes = (size_t)loop->rows.n * scores->n_vocab * sizeof(float);
    float *to = *pending;
    if (whole)
        to = cdz_arena_alloc(arena_of(loop), bytes);
    else if (!to)
        to = *pending = cdz_arena_alloc(&loop->rows.arena, bytes);
    if (to) memcpy(to, scores->data, bytes);
    for (uint32_t r = 0; to && whole && r < loop->rows.n; r++) /* nobody computed what is there */
        if (!cdz_row_runs(&loop->rows, r))
            memset(to + (size_t)r * scores->n_vocab, 0, scores->n_vocab * sizeof *to);
    return to;
}

cdz_status cdz_record_rows(cdz_loop *loop, cdz_record_kind what, const cdz_scores *scores)
{
    cdz_recorder *rec = &loop->recorder;
    const cdz_job *job = loop->job;
    const bool is_scores = what == CDZ_RECORD_SCORES;
    if (rec->n == 0 || rec->closed || (is_scores ? rec->has_scores : rec->has_logits))
        CDZ_TRY(new_step(loop));
    cdz_recorded_step *step = &rec->steps[rec->n - 1];
    const bool whole = is_scores ? job->keep_scores : job->keep_logits;
    float **pending = is_scores ? &loop->pending_scores : &loop->pending_logits;
    float *rows = copy_rows(loop, scores, whole, pending);
    if (!rows) return cdz_loop_nomem(loop);
    if (is_scores) {
        rec->has_scores = true;
        rec->scores = rows;
        if (whole) step->scores = rows;
        return job->keep_top ? summarise(loop, step, scores) : CDZ_OK;
    }
    rec->has_logits = true;
    rec->logits = rows;
    if (whole) step->logits = rows;
    return CDZ_OK;
}

bool cdz_record_wants(const cdz_loop *loop, cdz_record_kind what)
{
    const cdz_job *job = loop->job;
    const bool rows = what == CDZ_RECORD_SCORES
                          ? job->keep_scores || job->keep_top || job->keep_logprobs
                          : job->keep_logits || job->keep_logprobs;
    return rows || job->keep_hidden || job->keep_attentions;
}

cdz_status cdz_verb_record(cdz_decoder *dec, cdz_record_kind what, const cdz_scores *given)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    if (!cdz_record_wants(loop, what)) return CDZ_OK;
    uint32_t first;
    cdz_scores here;
    const cdz_scores *scores = &here;
    CDZ_TRY(cdz_loop_check(loop, "record", given, &here, &first));
    if (scores->n_rows != loop->rows.n || scores->n_vocab != loop->rows.n_vocab)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "record: scores of %" PRIu32 " rows and %" PRIu32
                             " tokens, but the request has %" PRIu32 " rows and %" PRIu32 " tokens",
                             scores->n_rows, scores->n_vocab, loop->rows.n, loop->rows.n_vocab);
    return cdz_record_rows(loop, what, scores);
}

/* --- tokens ------------------------------------------------------------------------------------------------------ */

/* The steps' pointers are const for those who read outcomes; the memory is ours. */
static void set(const float *column, uint32_t row, float value)
{
    ((float *)(uintptr_t)column)[row] = value;
}

static float log_prob(const float *row, uint32_t n, int32_t token)
{
    return row[token] - cdz_vec_table()->logsumexp(row, n);
}

/* As mode `score` tells them (prompt.c): the same bits. */
static void set_leaders(const cdz_loop *loop, const cdz_recorded_step *step, uint32_t r)
{
    const uint32_t V = loop->rows.n_vocab, k = loop->job->keep_leaders;
    const float *row = loop->recorder.logits + (size_t)r * V;
    int32_t *ids = (int32_t *)(uintptr_t)step->leaders + (size_t)r * k;
    float *values = (float *)(uintptr_t)step->leader_logprobs + (size_t)r * k;
    const float sum = cdz_vec_table()->logsumexp(row, V);
    cdz_record_best(row, V, k < V ? k : V, ids, values);
    for (uint32_t i = 0; i < k; i++) values[i] -= sum;
}

void cdz_record_token(cdz_loop *loop, uint32_t r, int32_t token)
{
    cdz_recorder *rec = &loop->recorder;
    if (rec->n == 0) return;
    const cdz_recorded_step *step = &rec->steps[rec->n - 1];
    const size_t at = (size_t)r * loop->rows.n_vocab;
    const bool known =
        token >= 0 && (uint32_t)token < loop->rows.n_vocab; /* a filler may be anything */
    rec->closed = true;
    if (known && rec->has_scores) set(step->chosen, r, rec->scores[at + (size_t)token]);
    if (!known || !loop->job->keep_logprobs || loop->rows.at[r].pads) return;
    if (rec->has_scores)
        set(step->chosen_logprob, r, log_prob(rec->scores + at, loop->rows.n_vocab, token));
    if (rec->has_logits)
        set(step->chosen_raw_logprob, r, log_prob(rec->logits + at, loop->rows.n_vocab, token));
    if (rec->has_logits && step->leaders) set_leaders(loop, step, r);
}

void cdz_record_close(cdz_loop *loop)
{
    loop->recorder.closed = true;
}

void cdz_record_drop_open(cdz_loop *loop)
{
    cdz_recorder *rec = &loop->recorder;
    if (rec->n && !rec->closed) rec->n--;
    rec->closed = true;
}

void cdz_record_rewind(cdz_loop *loop, uint32_t n)
{
    cdz_recorder *rec = &loop->recorder;
    cdz_record_drop_open(loop);
    rec->n = n < rec->n ? rec->n - n : 0;
}

/* --- tokens of a search ------------------------------------------------------------------------------------------- */

cdz_status cdz_verb_token_scores(cdz_decoder *dec, const cdz_scores *given, const uint32_t *rows,
                                 const int32_t *tokens, uint32_t n, cdz_token_score *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    uint32_t first;
    cdz_scores here;
    const cdz_scores *scores = &here;
    CDZ_TRY(cdz_loop_check(loop, "token_scores", given, &here, &first));
    const cdz_recorder *rec = &loop->recorder;
    const uint32_t V = scores->n_vocab;
    const bool asked = loop->job->keep_logprobs;
    const bool raw = asked && rec->has_logits && !rec->closed && V == loop->rows.n_vocab;
    for (uint32_t i = 0; i < n; i++) {
        if (rows[i] >= scores->n_rows || tokens[i] < 0 || (uint32_t)tokens[i] >= V)
            return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                                 "token_scores: token %" PRId32 " of row %" PRIu32
                                 " in scores of %" PRIu32 " rows and %" PRIu32 " tokens",
                                 tokens[i], cdz_loop_nth(loop, rows[i]), scores->n_rows, V);
        const float *row = cdz_row(scores, rows[i]);
        const size_t at = ((size_t)first + rows[i]) * V;
        const bool recorded = raw && first + rows[i] < loop->rows.n;
        out[i] = (cdz_token_score){
            .score = row[tokens[i]],
            .logprob = asked ? log_prob(row, V, tokens[i]) : NAN,
            .raw_logprob = recorded ? log_prob(rec->logits + at, V, tokens[i]) : NAN,
        };
    }
    return CDZ_OK;
}

/* --- results of the strategy's own -------------------------------------------------------------------------------- */

static size_t item_bytes(cdz_result_type type)
{
    switch (type) {
    case CDZ_RESULT_I64: return sizeof(int64_t);
    case CDZ_RESULT_I32: return sizeof(int32_t);
    case CDZ_RESULT_F32: return sizeof(float);
    case CDZ_RESULT_BOOL: return sizeof(bool);
    case CDZ_RESULT_JSON: return 1;
    }
    return 0;
}

/* The answer's own fields: whoever reads them counts on these types and shapes. */
static const struct field {
    const char *name;
    cdz_result_type type;
    uint32_t least_dims, most_dims;
    uint64_t width; /* of the last dimension; 0: any */
    const char *form;
} fields[] = {
    {"sequences_scores", CDZ_RESULT_F32, 1, 1, 0, "a list of float32"},
    {"beam_indices", CDZ_RESULT_I32, 2, 2, 0, "rows of int32"},
    {"n_steps", CDZ_RESULT_I32, 0, 0, 0, "an int32"},
    {"rounds", CDZ_RESULT_I64, 2, 2, 2, "pairs of int64"},
    {"num_assistant_tokens", CDZ_RESULT_I64, 0, 0, 0, "an int64"},
    {"layers", CDZ_RESULT_I32, 1, 2, 0, "a list or rows of int32"},
};

static const struct field *find_field(const char *name)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(fields[i].name, name) == 0) return &fields[i];
    return NULL;
}

bool cdz_record_has_field(const char *name)
{
    return find_field(name) != NULL;
}

/* A result of the strategy's own may not pass for a field of the answer. */
static cdz_status check_field(cdz_loop *loop, const char *name, cdz_result_type type,
                              uint32_t n_dims, const uint64_t *shape)
{
    const struct field *f = find_field(name);
    if (!f) return CDZ_OK;
    if (type == f->type && n_dims >= f->least_dims && n_dims <= f->most_dims &&
        (f->width == 0 || shape[n_dims - 1] == f->width))
        return CDZ_OK;
    return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                         "put_result: \"%s\" is a field of the answer itself, %s; give a result of "
                         "your own another name",
                         name, f->form);
}

enum { RESULTS_AT_ONCE = 64, MOST_RESULTS = 4096 };

static cdz_named_result *find_result(const cdz_loop *loop, const char *name)
{
    const cdz_outcome *outcome = loop->rows.berth->outcome;
    for (uint32_t i = 0; i < outcome->n_results; i++)
        if (strcmp(outcome->results[i].name, name) == 0) return &outcome->results[i];
    return NULL;
}

/* NULL: out of memory. */
static cdz_named_result *new_result(cdz_loop *loop)
{
    cdz_outcome *outcome = loop->rows.berth->outcome;
    if (outcome->n_results % RESULTS_AT_ONCE == 0) {
        const size_t n = outcome->n_results;
        cdz_named_result *all = cdz_arena_array(&outcome->arena, n + RESULTS_AT_ONCE, sizeof *all);
        if (!all) return NULL;
        if (n) memcpy(all, outcome->results, n * sizeof *all);
        outcome->results = all;
    }
    return &outcome->results[outcome->n_results++];
}

static bool size_of(cdz_result_type type, uint32_t n_dims, const uint64_t *shape, size_t *bytes)
{
    *bytes = item_bytes(type);
    for (uint32_t i = 0; i < n_dims; i++)
        if (shape[i] > SIZE_MAX || __builtin_mul_overflow(*bytes, (size_t)shape[i], bytes))
            return false;
    return *bytes < PTRDIFF_MAX;
}

/* Loops of one row each would overwrite each other's: theirs are numbered. */
static cdz_status keep_result(cdz_loop *loop, const cdz_named_result *given, size_t bytes)
{
    cdz_arena *arena = arena_of(loop);
    CDZ_TRY(cdz_loop_take(loop, "put_result", bytes));
    char *own = loop->rows.berth->apart
                    ? cdz_arena_printf(arena, "%s[%" PRIu32 "]", given->name, loop->first_row)
                    : cdz_arena_strdup(arena, given->name);
    void *copy = cdz_arena_alloc(arena, bytes);
    if (!own || !copy) return cdz_loop_nomem(loop);
    cdz_named_result *result = find_result(loop, own);
    if (!result && loop->rows.berth->outcome->n_results == MOST_RESULTS)
        return cdz_loop_fail(loop, CDZ_E_LIMIT, "put_result: more than %d results", MOST_RESULTS);
    if (!result) result = new_result(loop);
    if (!result) return cdz_loop_nomem(loop);
    if (bytes) memcpy(copy, given->data, bytes);
    *result = *given;
    result->name = own;
    result->data = copy;
    return CDZ_OK;
}

/* Read and written anew: one value on one line, whatever the text was. */
static cdz_status keep_json(cdz_loop *loop, cdz_named_result *given)
{
    cdz_error why = {0};
    cdz_arena arena = {0};
    cdz_buf text = {0};
    cdz_json value;
    if (given->n_dims != 1)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "put_result: \"%s\" is JSON of %" PRIu32
                             " dimensions; expected one, its bytes",
                             given->name, given->n_dims);
    cdz_status status = cdz_json_parse(given->data, (size_t)given->shape[0], given->name, NULL,
                                       &arena, &value, &why);
    if (status != CDZ_OK) {
        cdz_loop_fail(loop, CDZ_E_PLUGIN, "put_result: %s", why.text);
        status = CDZ_E_PLUGIN;
    } else {
        cdz_json_write(&text, &value);
        given->data = text.data;
        given->shape[0] = text.len;
        status = text.failed ? cdz_loop_nomem(loop) : keep_result(loop, given, text.len);
    }
    cdz_arena_free(&arena);
    cdz_buf_free(&text);
    return status;
}

cdz_status cdz_loop_put_result(cdz_loop *loop, const char *name, cdz_result_type type,
                               uint32_t n_dims, const uint64_t *shape, const void *data)
{
    size_t bytes;
    if (!name || !*name)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "put_result: a result without a name");
    if (item_bytes(type) == 0 || n_dims > 8)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "put_result: \"%s\" has type %u and %" PRIu32
                             " dimensions; expected a cdz_result_type and at most 8",
                             name, (unsigned)type, n_dims);
    if (!size_of(type, n_dims, shape, &bytes))
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "put_result: \"%s\" is larger than memory", name);

    CDZ_TRY(check_field(loop, name, type, n_dims, shape));
    cdz_named_result given = {.name = name, .type = type, .n_dims = n_dims, .data = data};
    for (uint32_t i = 0; i < n_dims; i++) given.shape[i] = shape[i];
    return type == CDZ_RESULT_JSON ? keep_json(loop, &given) : keep_result(loop, &given, bytes);
}

cdz_status cdz_verb_put_result(cdz_decoder *dec, const char *name, cdz_result_type type,
                               uint32_t n_dims, const uint64_t *shape, const void *data)
{
    CDZ_TRY(cdz_verb_enter(dec, 0));
    return cdz_loop_put_result(cdz_loop_of(dec), name, type, n_dims, shape, data);
}

void cdz_record_presses(cdz_loop *loop)
{
    cdz_buf text = {0};
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        const char *events = cdz_stage_presses_events(loop->presses, r);
        cdz_buf_printf(&text, "%s[%s]", r ? ", " : "[", events ? events : "");
    }
    cdz_buf_putc(&text, ']');
    cdz_named_result given = {
        .name = "press", .type = CDZ_RESULT_JSON, .n_dims = 1, .data = text.data};
    given.shape[0] = text.len;
    if (text.failed)
        (void)cdz_loop_nomem(loop);
    else
        (void)keep_json(loop, &given);
    cdz_buf_free(&text);
}
