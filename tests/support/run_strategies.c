/* run_strategies.c - see run_strategies.h: plugins whose state can be read off the scores. */
#include "support/run_strategies.h"

#include <math.h>
#include <string.h>

static uint32_t hash_step(uint32_t h, int32_t token)
{
    return (h * 31u + (uint32_t)token + 1u) & 0xFFFFu;
}

float hash_of(cdz_ids ids, uint32_t prompt_len)
{
    uint32_t h = 0;
    for (uint32_t i = prompt_len; i < ids.len; i++) h = hash_step(h, ids.at[i]);
    return (float)h;
}

static cdz_status hash_accept(const cdz_step *step, uint32_t r, int32_t token)
{
    uint32_t *h = step->row_state[r];
    *h = hash_step(*h, token);
    return CDZ_OK;
}

/* Writes the state into score 0 and the ids' own hash into score 1. */
static cdz_status hash_apply(const cdz_step *step, cdz_scores *scores)
{
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        cdz_row(scores, r)[0] = (float)*(const uint32_t *)step->row_state[r];
        cdz_row(scores, r)[1] = hash_of(step->input_ids[r], step->request->prompt_len);
    }
    return CDZ_OK;
}

const cdz_processor hash_rows = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.hash-rows", .version = "1.0.0", .summary = "state"},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE,
    .state_size = sizeof(uint32_t),
    .apply = hash_apply,
    .accept = hash_accept,
};

const cdz_processor hash_all = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.hash-all", .version = "1.0.0", .summary = "state"},
    .caps = CDZ_NEEDS_IDS,
    .state_size = sizeof(uint32_t),
    .apply = hash_apply,
    .accept = hash_accept,
};

/* Stops when the state says that a multiple of four tokens was seen and the newest is 9. */
static cdz_status nine_test(const cdz_step *step, cdz_stop *stops)
{
    for (uint32_t r = 0; r < step->n_rows; r++) {
        const cdz_ids ids = step->input_ids[r];
        if (ids.at[ids.len - 1] == 9 && *(const uint32_t *)step->row_state[r] % 4 == 0)
            stops[r] = (cdz_stop){CDZ_STOP_CUSTOM, {"nine", 4}};
    }
    return CDZ_OK;
}

static cdz_status nine_accept(const cdz_step *step, uint32_t r, int32_t token)
{
    (void)token;
    ++*(uint32_t *)step->row_state[r];
    return CDZ_OK;
}

const cdz_criterion nine_rule = {
    .base = {CDZ_CRITERION_BASE, .id = "test.nine", .version = "1.0.0", .summary = "nine"},
    .state_size = sizeof(uint32_t),
    .test = nine_test,
    .accept = nine_accept,
};

cdz_status fresh_scores(cdz_decoder *dec, cdz_ids ids, const float **out)
{
    cdz_seq *seq;
    cdz_scores scores;
    CDZ_TRY(cdz_seq_new(dec, NULL, &seq));
    CDZ_TRY(cdz_seq_append(dec, seq, ids.at, ids.len));
    CDZ_TRY(cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_LAST, &scores));
    cdz_seq_free(dec, seq);
    *out = scores.data;
    return CDZ_OK;
}

cdz_status compare_with(cdz_decoder *dec, const cdz_step *step, cdz_seq *seq, cdz_seq *fresh)
{
    const size_t width = step->request->n_vocab;
    float *got = cdz_scratch(step, width * sizeof *got);
    cdz_scores scores;
    CHECK(got);
    CDZ_TRY(cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_LAST, &scores));
    memcpy(got, scores.data, width * sizeof *got);
    CDZ_TRY(cdz_seq_forward(dec, &fresh, 1, CDZ_POSITIONS_LAST, &scores));
    CHECK(same_floats(got, scores.data, width));
    return CDZ_OK;
}

cdz_status compare_with_new(cdz_decoder *dec, const cdz_step *step, cdz_seq *seq,
                            const cdz_edit *edits, uint32_t n_edits)
{
    const cdz_ids ids = cdz_seq_ids(dec, seq);
    cdz_seq *fresh;
    CDZ_TRY(cdz_seq_new(dec, NULL, &fresh));
    CDZ_TRY(cdz_seq_append(dec, fresh, ids.at, ids.len));
    if (n_edits) CDZ_TRY(cdz_seq_steer(dec, fresh, edits, n_edits));
    CDZ_TRY(compare_with(dec, step, seq, fresh));
    cdz_seq_free(dec, fresh);
    return CDZ_OK;
}

bool same_floats(const float *a, const float *b, size_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

float *keep_floats(const float *from, size_t n)
{
    float *copy = malloc(n * sizeof *copy);
    assert_non_null(copy);
    return memcpy(copy, from, n * sizeof *copy);
}

/* --- one prompt, whole and in pieces ---------------------------------------------------------------------------- */

uint32_t draw(uint32_t *seed, uint32_t n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

void random_ids(int32_t *ids, uint32_t n, uint32_t n_vocab, uint32_t seed)
{
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)((seed * 7919u + i * 104729u + i * i * 31u) % (n_vocab - 3) + 3);
}

size_t vocab_of(const rig *r)
{
    return cdz_run_model_weights(r->model)->arch.n_vocab;
}

/* Feeds the prompt to a sequence in uneven pieces and returns the scores of all positions. */
static cdz_status run_pieces(cdz_decoder *dec, const cdz_step *step)
{
    static const uint32_t pieces[] = {1, 2, 31, 1, 64, 7, 200, 3, 600};
    const cdz_ids ids = cdz_input_ids(dec, 0);
    const size_t width = step->request->n_vocab;
    float *all = cdz_scratch(step, ids.len * width * sizeof *all);
    cdz_seq *seq;
    cdz_scores got;
    uint32_t at = 0;
    CHECK(all);
    CDZ_TRY(cdz_seq_new(dec, NULL, &seq));
    for (uint32_t i = 0; at < ids.len; i++) {
        uint32_t n = pieces[i % 9];
        if (n > ids.len - at) n = ids.len - at;
        CDZ_TRY(cdz_seq_append(dec, seq, ids.at + at, n));
        CDZ_TRY(cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_ALL, &got));
        CHECK(got.n_rows == n);
        memcpy(all + at * width, got.data, n * width * sizeof *all);
        at += n;
    }
    const uint64_t shape[] = {ids.len, width};
    return cdz_put_result(dec, "logits", CDZ_RESULT_F32, 2, shape, all);
}
STRATEGY(pieces, run_pieces, 0);

float *whole_logits(const rig *r, const int32_t *ids, uint32_t len)
{
    answer a;
    cdz_job *job = new_job(r, NULL, ids, NULL, 1, len, 0, &a);
    job->prompt_logits = true;
    float *logits = keep_floats(run_well(r, &a)->prompt_logits, len * vocab_of(r));
    answer_free(&a);
    return logits;
}

float *piece_logits(const rig *r, const int32_t *ids, uint32_t len)
{
    hand_plan plan;
    answer a;
    plan_init(&plan, &pieces.base, NULL);
    new_job(r, &plan, ids, NULL, 1, len, 1, &a);
    float *logits = keep_floats(run_well(r, &a)->results[0].data, len * vocab_of(r));
    answer_free(&a);
    return logits;
}
