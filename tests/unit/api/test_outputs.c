/* test_outputs.c - the tensors of a result: what stands in the files, in whatever mode it came about, and that asking
 * changes nothing. The numbers themselves are parity's. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/json.h"
#include "cadenza/cadenza.h"
#include "load/npy.h"
#include "load/safetensors.h"
#include "support/must.h"
#include "support/opened.h"

typedef struct world {
    cdz_runtime *rt;
    cdz_model *llama, *llama_draft, *t5, *t5_draft;
} world;

static cdz_model *model_of(cdz_runtime *rt, const char *name)
{
    char path[512];
    cdz_model *model;
    snprintf(path, sizeof path, "%s/golden/%s", CADENZA_TEST_DATA, name);
    model = opened_model(rt, path);
    return model;
}

static int open_all(void **state)
{
    static world w;
    w.rt = opened_runtime(NULL);
    w.llama = model_of(w.rt, "llama_gqa");
    w.llama_draft = model_of(w.rt, "llama_draft");
    w.t5 = model_of(w.rt, "t5_gated");
    w.t5_draft = model_of(w.rt, "t5_draft");
    *state = &w;
    return 0;
}

static int close_all(void **state)
{
    world *w = *state;
    cdz_model *const models[] = {w->llama, w->llama_draft, w->t5, w->t5_draft};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) cdz_model_close(models[i]);
    cdz_close(w->rt);
    return 0;
}

static cdz_result *run(world *w, cdz_model *model, cdz_model *assistant, const char *json)
{
    cdz_request request = {
        .size = sizeof request, .model = model, .assistant = assistant, .json = json};
    cdz_error err = {0};
    cdz_result *result = NULL;
    must(cdz_generate(w->rt, &request, &result, &err), &err);
    return result;
}

/* --- files ---------------------------------------------------------------------------------------------------------- */

typedef struct saved {
    char path[64];
    cdz_tensors tensors;
} saved;

static saved save(const cdz_result *result)
{
    saved s = {.path = "/tmp/cdz-outputs-XXXXXX"};
    cdz_error err = {0};
    const int fd = mkstemp(s.path);
    assert_true(fd >= 0);
    close(fd);
    must(cdz_result_save(result, s.path, &err), &err);
    must(cdz_tensors_open(s.path, &s.tensors, &err), &err);
    return s;
}

static void drop(saved *s)
{
    cdz_tensors_close(&s->tensors);
    remove(s->path);
}

/* A tensor's values after its type and shape ("F32 [2, 3]") were found as expected. */
static const void *values(const saved *s, const char *name, const char *shape)
{
    char text[128] = "nothing", dims[96];
    const cdz_tensor *t = cdz_tensors_find(&s->tensors, name);
    if (t)
        snprintf(text, sizeof text, "%s %s", t->dtype, cdz_tensor_shape_text(t, dims, sizeof dims));
    if (strcmp(text, shape) != 0) fail_msg("%s: %s, expected %s", name, text, shape);
    return t ? t->data : NULL;
}

static float f32(const void *data, size_t i)
{
    float value;
    memcpy(&value, (const char *)data + i * sizeof value, sizeof value);
    return value;
}

static const struct {
    const char *name;
    bool t5, assisted;
    const char *json, *tensor, *shape;
    uint32_t n_tensors;
} kinds[] = {
    {"sequences alone", 0, 0, "{\"prompt_ids\": [[5, 6]], \"kwargs\": {\"max_new_tokens\": 3}}",
     "sequences", "I64 [1, 5]", 1},
    {"greedy", 0, 0,
     "{\"prompt_ids\": [[5, 6]], \"kwargs\": {\"max_new_tokens\": 3, \"output_logits\": true}}",
     "logits/2", "F32 [1, 384]", 4},
    {"sampled rows", 0, 0,
     "{\"prompt_ids\": [[5, 6]], \"kwargs\": {\"max_new_tokens\": 3, \"do_sample\": true, "
     "\"num_return_sequences\": 4, \"output_hidden_states\": true}}",
     "hidden_states/0/3", "F32 [4, 2, 48]", 13},
    {"beams", 0, 0,
     "{\"prompt_ids\": [[5, 6], [7, 8]], \"kwargs\": {\"max_new_tokens\": 3, \"num_beams\": 3, "
     "\"output_attentions\": true}}",
     "attentions/2/1", "F32 [6, 4, 1, 4]", 13},
    {"drafts in a batch", 0, 1,
     "{\"prompt_ids\": [[5, 6, 7], [8, 9, 10]], \"kwargs\": {\"max_new_tokens\": 4, "
     "\"output_attentions\": true, \"eos_token_id\": null}}",
     "attentions/3/0", "F32 [2, 4, 1, 6]", 17},
    {"an encoder's", 1, 0,
     "{\"prompt_ids\": [[5, 6, 7], [8, 9, 10]], \"kwargs\": {\"max_new_tokens\": 2, \"num_beams\": "
     "2, \"output_attentions\": true, \"output_hidden_states\": true, \"eos_token_id\": null}}",
     "encoder_attentions/2", "F32 [2, 4, 3, 3]", 25},
    {"read by a decoder", 1, 1,
     "{\"prompt_ids\": [[5, 6, 7]], \"kwargs\": {\"max_new_tokens\": 4, \"output_attentions\": true, "
     "\"eos_token_id\": null}}",
     "cross_attentions/3/1", "F32 [1, 4, 1, 3]", 22},
    {"calls", 0, 0,
     "{\"prompt_ids\": [[5, 6]], \"kwargs\": {\"max_new_tokens\": 2, \"eos_token_id\": null}, "
     "\"calls\": [{\"append_ids\": [[7]], \"kwargs\": {\"max_new_tokens\": 3, \"eos_token_id\": "
     "null, \"output_scores\": true}}]}",
     "calls/0/sequences", "I64 [1, 8]", 5},
};

static void files_hold_every_tensor(void **state)
{
    world *w = *state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        cdz_model *draft = kinds[i].t5 ? w->t5_draft : w->llama_draft;
        cdz_result *r =
            run(w, kinds[i].t5 ? w->t5 : w->llama, kinds[i].assisted ? draft : NULL, kinds[i].json);
        saved s = save(r);
        values(&s, kinds[i].tensor, kinds[i].shape);
        if (s.tensors.n_items != kinds[i].n_tensors)
            fail_msg("%s: %zu tensors, expected %u", kinds[i].name, s.tensors.n_items,
                     kinds[i].n_tensors);
        drop(&s);
        cdz_result_free(r);
    }
}

/* Nothing is computed for a row that has ended: its scores are zeros, not what an earlier step left there. */
static void rows_that_ended_have_zeros(void **state)
{
    world *w = *state;
    char json[512];
    snprintf(json, sizeof json,
             "{\"prompt_ids\": [[5, 6], [7, 8]], \"kwargs\": {\"max_new_tokens\": 5, "
             "\"eos_token_id\": null, \"pad_token_id\": 0}}");
    cdz_result *r = run(w, w->llama, NULL, json);
    uint32_t n;
    const int32_t first = cdz_result_ids(r, 0, &n)[0];
    cdz_result_free(r);
    snprintf(json, sizeof json,
             "{\"prompt_ids\": [[5, 6], [7, 8]], \"kwargs\": {\"max_new_tokens\": 5, "
             "\"eos_token_id\": %d, \"pad_token_id\": 0, \"output_logits\": true, "
             "\"output_scores\": true, \"no_repeat_ngram_size\": 1}}",
             first);
    r = run(w, w->llama, NULL, json);
    saved s = save(r);
    static const char *const names[] = {"logits/4", "scores/4"};
    for (size_t i = 0; i < 2; i++) {
        const void *rows = values(&s, names[i], "F32 [2, 384]");
        bool other = false;
        for (size_t v = 0; v < 384; v++) {
            assert_float_equal(f32(rows, v), 0, 0);
            other |= f32(rows, 384 + v) != 0;
        }
        assert_true(other);
    }
    drop(&s);
    cdz_result_free(r);
}

static void arrays_stand_in_a_folder(void **state)
{
    world *w = *state;
    char folder[64] = "/tmp/cdz-outputs-XXXXXX", path[128];
    cdz_error err = {0};
    cdz_npy npy;
    assert_non_null(mkdtemp(folder));
    cdz_result *r = run(w, w->llama, NULL,
                        "{\"prompt_ids\": [[5, 6]], \"kwargs\": {\"max_new_tokens\": 1, "
                        "\"output_logits\": true}}");
    snprintf(path, sizeof path, "%s/made/", folder);
    must(cdz_result_save(r, path, &err), &err);
    snprintf(path, sizeof path, "%s/made/logits.0.npy", folder);
    must(cdz_npy_open(path, &npy, &err), &err);
    assert_int_equal(npy.n_dims, 2);
    assert_true(npy.shape[0] == 1 && npy.shape[1] == 384);
    saved s = save(r);
    assert_memory_equal(npy.data, values(&s, "logits/0", "F32 [1, 384]"), 384 * sizeof(float));
    drop(&s);
    cdz_npy_close(&npy);
    remove(path);
    snprintf(path, sizeof path, "%s/made/sequences.npy", folder);
    assert_int_equal(remove(path), 0);
    snprintf(path, sizeof path, "%s/made", folder);
    assert_int_equal(rmdir(path), 0);
    snprintf(path, sizeof path, "%s/no/such/file.safetensors", folder);
    assert_int_equal(cdz_result_save(r, path, &err), CDZ_E_IO);
    assert_non_null(strstr(err.text, "No such file or directory"));
    rmdir(folder);
    cdz_result_free(r);
}

/* --- states ------------------------------------------------------------------------------------------------------- */

/* A padded row of a batch holds what the row has alone, and zeros at its pads. */
static void states_do_not_hang_on_company(void **state)
{
    enum { HEADS = 4, WIDTH = 48, LONG = 5, SHORT = 3, PADS = LONG - SHORT };
    world *w = *state;
    static const char alone[] = "{\"prompt_ids\": [[7, 8, 9]], \"kwargs\": {\"max_new_tokens\": 2, "
                                "\"output_attentions\": true, \"output_hidden_states\": true}}";
    static const char batch[] =
        "{\"prompt_ids\": [[1, 2, 3, 4, 5], [0, 0, 7, 8, 9]], \"attention_mask\": [[1, 1, 1, 1, "
        "1], [0, 0, 1, 1, 1]], \"kwargs\": {\"max_new_tokens\": 2, \"output_attentions\": true, "
        "\"output_hidden_states\": true}}";
    cdz_result *a = run(w, w->llama, NULL, alone), *b = run(w, w->llama, NULL, batch);
    saved sa = save(a), sb = save(b);
    const char *own = values(&sa, "hidden_states/0/2", "F32 [1, 3, 48]");
    const char *among = values(&sb, "hidden_states/0/2", "F32 [2, 5, 48]");
    assert_memory_equal(among + (LONG + PADS) * WIDTH * sizeof(float), own,
                        SHORT * WIDTH * sizeof(float));
    for (size_t i = 0; i < PADS * WIDTH; i++) assert_true(f32(among, LONG * WIDTH + i) == 0.0f);

    const void *ours = values(&sa, "attentions/0/1", "F32 [1, 4, 3, 3]");
    const void *theirs = values(&sb, "attentions/0/1", "F32 [2, 4, 5, 5]");
    for (size_t h = 0; h < HEADS; h++)
        for (size_t q = 0; q < LONG; q++)
            for (size_t k = 0; k < LONG; k++) {
                const float got = f32(theirs, ((HEADS + h) * LONG + q) * LONG + k);
                const bool seen = q >= PADS && k >= PADS;
                assert_true(got ==
                            (seen ? f32(ours, (h * SHORT + q - PADS) * SHORT + k - PADS) : 0.0f));
            }
    drop(&sa);
    drop(&sb);
    cdz_result_free(a);
    cdz_result_free(b);
}

static void weights_sum_to_one(void **state)
{
    world *w = *state;
    cdz_result *r = run(
        w, w->t5, NULL,
        "{\"prompt_ids\": [[5, 6, 7, 8], [9, 10, 0, 0]], \"attention_mask\": [[1, 1, 1, 1], [1, "
        "1, 0, 0]], \"kwargs\": {\"max_new_tokens\": 3, \"num_beams\": 2, \"output_attentions\": "
        "true, \"eos_token_id\": null}}");
    saved s = save(r);
    const void *cross = values(&s, "cross_attentions/2/1", "F32 [4, 4, 1, 4]");
    for (size_t row = 0; row < 16; row++) {
        float sum = 0;
        for (size_t k = 0; k < 4; k++) sum += f32(cross, row * 4 + k);
        assert_true(fabsf(sum - 1.0f) < 1e-5f);
        /* The last two rows are beams of the second prompt, which ends in two pads. */
        if (row >= 8)
            assert_true(f32(cross, row * 4 + 2) == 0.0f && f32(cross, row * 4 + 3) == 0.0f);
    }
    drop(&s);
    cdz_result_free(r);
}

/* --- tokens --------------------------------------------------------------------------------------------------------- */

static double log_softmax(const void *row, size_t n, size_t at)
{
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++) { /* not fmax: gcc 12 for arm64 stops at a reduction by it */
        const double x = (double)f32(row, i);
        most = x > most ? x : most;
    }
    for (size_t i = 0; i < n; i++) sum += exp((double)f32(row, i) - most);
    return (double)f32(row, at) - most - log(sum);
}

/* What is said of each token is what stands in the scores' rows, found as compute_transition_scores finds it. */
static void check_tokens(const cdz_result *r, const saved *s, bool beams)
{
    enum { V = 384, N = 4 };
    char name[32];
    float score[N], logprob[N], raw[N];
    cdz_error err = {0};
    uint32_t n;
    const cdz_tensor *indices = cdz_tensors_find(&s->tensors, "beam_indices");
    assert_true((indices != NULL) == beams);
    const uint32_t rows = cdz_result_rows(r);
    for (uint32_t row = 0; row < rows; row++) {
        const int32_t *ids = cdz_result_ids(r, row, &n);
        assert_int_equal(n, N);
        must(cdz_result_token_values(r, row, CDZ_TOKEN_SCORE, score, n, &err), &err);
        must(cdz_result_token_values(r, row, CDZ_TOKEN_LOGPROB, logprob, n, &err), &err);
        must(cdz_result_token_values(r, row, CDZ_TOKEN_RAW_LOGPROB, raw, n, &err), &err);
        for (uint32_t i = 0; i < n; i++) {
            size_t from = row;
            if (beams) {
                int32_t beam;
                memcpy(&beam, (const char *)indices->data + (row * N + i) * sizeof beam,
                       sizeof beam);
                from = (size_t)beam;
            }
            snprintf(name, sizeof name, "scores/%u", i);
            const char *scores = cdz_tensors_find(&s->tensors, name)->data;
            snprintf(name, sizeof name, "logits/%u", i);
            const char *logits = cdz_tensors_find(&s->tensors, name)->data;
            const size_t at = (size_t)ids[i], skip = from * V * sizeof(float);
            assert_true(score[i] == f32(scores + skip, at));
            assert_true(fabs((double)logprob[i] - log_softmax(scores + skip, V, at)) < 1e-4);
            assert_true(fabs((double)raw[i] - log_softmax(logits + skip, V, at)) < 1e-4);
        }
    }
}

static const struct {
    const char *name, *kwargs;
    bool assisted, beams;
} modes[] = {
    {"greedy", "\"do_sample\": false", 0, 0},
    {"sample", "\"do_sample\": true, \"temperature\": 0.5, \"top_k\": 7", 0, 0},
    {"beam", "\"num_beams\": 3, \"do_sample\": false", 0, 1},
    {"beam sample", "\"num_beams\": 3, \"do_sample\": true, \"num_return_sequences\": 2", 0, 1},
    {"assisted", "\"do_sample\": false", 1, 0},
    {"speculative sampling", "\"do_sample\": true, \"temperature\": 0.8", 1, 0},
    {"prompt lookup", "\"do_sample\": false, \"prompt_lookup_num_tokens\": 3", 0, 0},
    {"early exit", "\"do_sample\": false, \"assistant_early_exit\": 1", 0, 0},
};

static void tokens_are_known_in_every_mode(void **state)
{
    world *w = *state;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char json[512];
        snprintf(json, sizeof json,
                 "{\"prompt_ids\": [[5, 6, 7, 5, 6]], \"seed\": 3, \"kwargs\": {%s, "
                 "\"max_new_tokens\": 4, \"eos_token_id\": null, \"output_scores\": true, "
                 "\"output_logits\": true}}",
                 modes[i].kwargs);
        cdz_result *r = run(w, w->llama, modes[i].assisted ? w->llama_draft : NULL, json);
        saved s = save(r);
        check_tokens(r, &s, modes[i].beams);
        drop(&s);
        cdz_result_free(r);
    }
}

static void values_that_were_not_kept_are_refused(void **state)
{
    world *w = *state;
    cdz_error err = {0};
    float out[8];
    cdz_result *r =
        run(w, w->llama, NULL, "{\"prompt_ids\": [[5, 6]], \"kwargs\": {\"max_new_tokens\": 2}}");
    assert_int_equal(cdz_result_token_values(r, 0, CDZ_TOKEN_SCORE, out, 1, &err), CDZ_E_STATE);
    assert_non_null(strstr(err.text, "output_scores"));
    assert_int_equal(cdz_result_token_values(r, 0, CDZ_TOKEN_SCORE, out, 0, &err), CDZ_OK);
    assert_int_equal(cdz_result_token_values(r, 1, CDZ_TOKEN_SCORE, out, 1, &err), CDZ_E_USAGE);
    assert_int_equal(cdz_result_token_values(r, 0, CDZ_TOKEN_SCORE, out, 3, &err), CDZ_E_USAGE);
    assert_int_equal(cdz_result_token_values(r, 0, (cdz_token_value)9, out, 1, &err), CDZ_E_USAGE);
    cdz_result_free(r);

    r = run(w, w->llama, NULL,
            "{\"prompt_ids\": [[5, 6]], \"kwargs\": {\"max_new_tokens\": 2, \"num_beams\": 2}}");
    must(cdz_result_token_values(r, 0, CDZ_TOKEN_SCORE, out, 1, &err), &err);
    assert_int_equal(cdz_result_token_values(r, 0, CDZ_TOKEN_LOGPROB, out, 1, &err), CDZ_E_STATE);
    cdz_result_free(r);
}

/* The function on arrays says the same of the saved tensors. */
static void saved_tensors_give_transition_scores(void **state)
{
    enum { STEPS = 4 };
    world *w = *state;
    cdz_error err = {0};
    cdz_result *r =
        run(w, w->llama, NULL,
            "{\"prompt_ids\": [[5, 6, 7]], \"kwargs\": {\"num_beams\": 3, "
            "\"num_return_sequences\": 2, \"max_new_tokens\": 4, \"output_scores\": true, "
            "\"eos_token_id\": null}}");
    saved s = save(r);
    const float *scores[STEPS];
    float wanted[STEPS], got[2 * STEPS];
    uint32_t n = 0;
    for (unsigned i = 0; i < STEPS; i++) {
        char name[32];
        snprintf(name, sizeof name, "scores/%u", i);
        scores[i] = values(&s, name, "F32 [3, 384]");
    }
    cdz_transition in = {.size = sizeof in,
                         .n_rows = 2,
                         .len = 7,
                         .sequences = values(&s, "sequences", "I64 [2, 7]"),
                         .n_steps = STEPS,
                         .n_score_rows = 3,
                         .n_vocab = 384,
                         .scores = scores,
                         .beam_indices = values(&s, "beam_indices", "I32 [2, 4]"),
                         .n_columns = 4};
    for (int normalize = 0; normalize < 2; normalize++) {
        in.normalize = normalize != 0;
        must(cdz_transition_scores(&in, got, &n, &err), &err);
        assert_int_equal(n, STEPS);
        for (uint32_t row = 0; row < 2; row++) {
            must(cdz_result_token_values(r, row, normalize ? CDZ_TOKEN_LOGPROB : CDZ_TOKEN_SCORE,
                                         wanted, STEPS, &err),
                 &err);
            assert_memory_equal(wanted, got + (size_t)row * STEPS, sizeof wanted);
        }
    }
    static const int32_t ended[] = {0, 1, -1, -1, 0, 0, 0, -1};
    in.beam_indices = ended;
    must(cdz_transition_scores(&in, got, &n, &err), &err);
    assert_int_equal(n, 3);
    assert_true(got[2] == 0.0f && got[5] != 0.0f);

    in.n_score_rows = 1;
    assert_int_equal(cdz_transition_scores(&in, got, &n, &err), CDZ_E_INPUT);
    assert_non_null(strstr(err.text, "beam index 1"));
    in.beam_indices = NULL;
    assert_int_equal(cdz_transition_scores(&in, got, &n, &err), CDZ_E_INPUT);
    assert_non_null(strstr(err.text, "beam_indices"));
    in.n_score_rows = 2;
    in.n_vocab = 3;
    assert_int_equal(cdz_transition_scores(&in, got, &n, &err), CDZ_E_INPUT);
    assert_non_null(strstr(err.text, "outside"));
    in.n_vocab = 384;
    in.len = 3;
    assert_int_equal(cdz_transition_scores(&in, got, &n, &err), CDZ_E_INPUT);
    in.n_steps = 0;
    assert_int_equal(cdz_transition_scores(&in, got, &n, &err), CDZ_E_INPUT);
    drop(&s);
    cdz_result_free(r);
}

/* --- texts ---------------------------------------------------------------------------------------------------------- */

/* log_softmax of transformers 5.3.0's logits at the next token. */
static void a_text_is_as_probable_as_the_reference_says(void **state)
{
    world *w = *state;
    static const int32_t ids[] = {5, 6, 7, 8}, target[] = {9, 8, 7};
    static const float llama[] = {NAN, -5.93873f, -12.27473f, -23.43825f};
    static const float t5[] = {-7.64384f, -5.92198f, -4.74073f};
    float got[4];
    cdz_error err = {0};
    must(cdz_score(w->rt, w->llama, NULL, 0, ids, 4, got, &err), &err);
    assert_true(isnan(got[0]));
    for (size_t i = 1; i < 4; i++) assert_true(fabsf(got[i] - llama[i]) < 1e-4f);
    must(cdz_score(w->rt, w->t5, ids, 4, target, 3, got, &err), &err);
    for (size_t i = 0; i < 3; i++) assert_true(fabsf(got[i] - t5[i]) < 1e-4f);

    assert_int_equal(cdz_score(w->rt, w->t5, NULL, 0, target, 3, got, &err), CDZ_E_USAGE);
    assert_int_equal(cdz_score(w->rt, w->llama, ids, 4, target, 3, got, &err), CDZ_E_USAGE);
    assert_int_equal(cdz_score(w->rt, w->llama, NULL, 0, (const int32_t[]){5, -1}, 2, got, &err),
                     CDZ_E_USAGE);
}

/* Read at once or written token by token, alone or with others, longer than a chunk or not: the same bits. */
static void reading_is_as_writing(void **state)
{
    enum { NEW = 90, PROMPT = 5, ROWS = 70 };
    world *w = *state;
    cdz_error err = {0};
    uint32_t n;
    float raw[NEW], read[PROMPT + NEW];
    cdz_result *r = run(w, w->llama, NULL,
                        "{\"prompt_ids\": [[5, 6, 7, 5, 6]], \"kwargs\": {\"max_new_tokens\": 90, "
                        "\"eos_token_id\": null, \"output_logprobs\": true}}");
    must(cdz_result_token_values(r, 0, CDZ_TOKEN_RAW_LOGPROB, raw, NEW, &err), &err);
    const int32_t *ids = cdz_result_sequence(r, 0, &n);
    assert_int_equal(n, PROMPT + NEW);
    must(cdz_score(w->rt, w->llama, NULL, 0, ids, n, read, &err), &err);
    assert_memory_equal(read + PROMPT, raw, sizeof raw);
    assert_null(cdz_result_prompt_logprobs(r, 0, &n));
    assert_int_equal(n, 0);

    /* Rows of a batch with pads in front; row i is the text's first 2 + i tokens. */
    cdz_buf json = {0};
    cdz_buf_puts(&json, "{\"mode\": \"score\", \"prompt_ids\": [");
    for (uint32_t i = 0; i < ROWS; i++) {
        cdz_buf_puts(&json, i ? ", [" : "[");
        for (uint32_t k = 0; k < ROWS + 1; k++) {
            const uint32_t pads = ROWS - 1 - i;
            cdz_buf_printf(&json, "%s%d", k ? ", " : "", k < pads ? 0 : (int)ids[k - pads]);
        }
        cdz_buf_putc(&json, ']');
    }
    cdz_buf_puts(&json, "], \"attention_mask\": [");
    for (uint32_t i = 0; i < ROWS; i++) {
        cdz_buf_puts(&json, i ? ", [" : "[");
        for (uint32_t k = 0; k < ROWS + 1; k++)
            cdz_buf_printf(&json, "%s%d", k ? ", " : "", k >= ROWS - 1 - i);
        cdz_buf_putc(&json, ']');
    }
    cdz_buf_puts(&json, "]}");
    assert_false(json.failed);
    cdz_result *batch = run(w, w->llama, NULL, json.data);
    for (uint32_t i = 0; i < ROWS; i++) {
        const float *row = cdz_result_prompt_logprobs(batch, i, &n);
        const uint32_t pads = ROWS - 1 - i;
        assert_int_equal(n, ROWS + 1);
        for (uint32_t k = 0; k <= pads; k++) assert_true(isnan(row[k]));
        assert_memory_equal(row + pads + 1, read + 1, (i + 1) * sizeof *row);
    }
    cdz_result_free(batch);
    cdz_buf_free(&json);
    cdz_result_free(r);
}

/* --- the best of a row ------------------------------------------------------------------------------------------------ */

/* The greatest of (V) and then the next, ties by lower id. */
static int32_t best_below(const float *row, uint32_t V, float than, int32_t after)
{
    int32_t best = -1;
    for (uint32_t v = 0; v < V; v++) {
        if (row[v] > than || (row[v] == than && (int32_t)v <= after)) continue;
        if (best < 0 || row[v] > row[best]) best = (int32_t)v;
    }
    return best;
}

static double log_sum(const float *row, uint32_t V)
{
    double sum = 0;
    const int32_t best = best_below(row, V, INFINITY, -1);
    for (uint32_t v = 0; v < V; v++) sum += exp((double)row[v] - (double)row[best]);
    return log(sum) + (double)row[best];
}

static void check_top(const cdz_result *bounded, const saved *whole, uint32_t step, uint32_t R,
                      uint32_t V, uint32_t K)
{
    char name[32], shape[64];
    snprintf(name, sizeof name, "scores/%u", step);
    snprintf(shape, sizeof shape, "F32 [%u, %u]", R, V);
    const float *rows = values(whole, name, shape);
    for (uint32_t r = 0; r < R; r++) {
        const int32_t *ids;
        const float *scores;
        float sum, than = INFINITY;
        int32_t id = -1;
        float *row = malloc(V * sizeof *row);
        assert_non_null(row);
        memcpy(row, rows + (size_t)r * V, V * sizeof *row);
        assert_int_equal(cdz_result_top_scores(bounded, r, step, &ids, &scores, &sum), K);
        for (uint32_t i = 0; i < K; i++) {
            id = best_below(row, V, than, id);
            assert_int_equal(ids[i], id);
            assert_memory_equal(&scores[i], &row[id], sizeof *scores);
            than = row[id];
        }
        assert_true(fabs((double)sum - log_sum(row, V)) < 1e-4);
        free(row);
    }
    const int32_t *none;
    const float *no_scores;
    float no_sum;
    assert_int_equal(cdz_result_top_scores(bounded, R, step, &none, &no_scores, &no_sum), 0);
}

/* In every mode the best that are kept are those of the whole rows, and nothing else changes. */
static void the_best_are_those_of_whole_rows(void **state)
{
    world *w = *state;
    static const struct {
        const char *settings;
        uint32_t rows;
        bool assisted;
    } ways[] = {{"\"do_sample\": false", 1, false},
                {"\"do_sample\": true, \"top_k\": 0, \"num_return_sequences\": 2", 2, false},
                {"\"num_beams\": 3", 3, false},
                {"\"do_sample\": false, \"num_assistant_tokens\": 3", 1, true}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char json[256];
        cdz_result *both[2];
        for (int k = 0; k < 2; k++) {
            snprintf(json, sizeof json,
                     "{\"prompt_ids\": [[5, 6, 7]], \"seed\": 3, \"kwargs\": {\"max_new_tokens\": 5, "
                     "\"eos_token_id\": null, \"output_scores\": true, %s%s}}",
                     ways[i].settings, k ? ", \"output_scores_top\": 4" : "");
            both[k] = run(w, w->llama, ways[i].assisted ? w->llama_draft : NULL, json);
        }
        assert_non_null(strstr(cdz_result_json(both[0]), "\"scores\": "));
        assert_null(strstr(cdz_result_json(both[1]), "\"scores\": "));
        saved whole = save(both[0]), few = save(both[1]);
        const uint32_t V = cdz_model_vocab_size(w->llama);
        for (uint32_t step = 0; step < 5; step++)
            check_top(both[1], &whole, step, ways[i].rows, V, 4);
        char shape[64];
        snprintf(shape, sizeof shape, "I32 [5, %u, 4]", ways[i].rows);
        values(&few, "top_ids", shape);
        const int32_t *ids;
        const float *scores;
        float sum;
        cdz_result_top_scores(both[1], 0, 0, &ids, &scores, &sum);
        snprintf(shape, sizeof shape, "F32 [5, %u, 4]", ways[i].rows);
        assert_memory_equal(values(&few, "top_scores", shape), scores, 4 * sizeof *scores);
        snprintf(shape, sizeof shape, "F32 [5, %u]", ways[i].rows);
        assert_memory_equal(values(&few, "logsumexp", shape), &sum, sizeof sum);
        drop(&whole);
        drop(&few);
        cdz_result_free(both[0]);
        cdz_result_free(both[1]);
    }
}

static void a_text_has_its_likeliest_tokens(void **state)
{
    world *w = *state;
    cdz_result *r = run(w, w->llama, NULL,
                        "{\"mode\": \"score\", \"prompt_ids\": [[5, 6, 7, 8]], \"kwargs\": "
                        "{\"output_scores_top\": 100000}}");
    const uint32_t V = cdz_model_vocab_size(w->llama);
    const int32_t *ids;
    const float *logprobs;
    uint32_t n;
    const float *own = cdz_result_prompt_logprobs(r, 0, &n);
    assert_int_equal(cdz_result_prompt_top_logprobs(r, 0, 0, &ids, &logprobs), 0);
    assert_int_equal(cdz_result_prompt_top_logprobs(r, 0, 4, &ids, &logprobs), 0);
    for (uint32_t place = 1; place < 4; place++) {
        double sum = 0;
        bool found = false;
        assert_int_equal(cdz_result_prompt_top_logprobs(r, 0, place, &ids, &logprobs), V);
        for (uint32_t i = 0; i < V; i++) {
            sum += exp((double)logprobs[i]);
            if (i) assert_true(logprobs[i] <= logprobs[i - 1]);
            found |= ids[i] == 5 + (int32_t)place && logprobs[i] == own[place];
        }
        assert_true(found);
        assert_true(fabs(sum - 1) < 1e-3);
    }
    assert_non_null(strstr(cdz_result_json(r), "\"top_logprobs\": [null, [{\"id\": "));
    cdz_result_free(r);
}

/* --- drafts of a pair ----------------------------------------------------------------------------------------------- */

static uint32_t accepted(const cdz_result *r)
{
    cdz_arena arena = {0};
    cdz_json answer;
    cdz_error err = {0};
    uint32_t n = 0;
    must(cdz_json_parse(cdz_result_json(r), strlen(cdz_result_json(r)), "answer", NULL, &arena,
                        &answer, &err),
         &err);
    const cdz_json *rounds = cdz_json_get(&answer, "rounds");
    assert_true(cdz_json_is(rounds, CDZ_JSON_ARRAY));
    for (uint32_t i = 0; i < rounds->len; i++) n += (uint32_t)rounds->items[i].items[1].integer;
    cdz_arena_free(&arena);
    return n;
}

/* A model that drafts for itself is right whenever it goes on where the answer is, encoder or not; the reference's
 * drafts, which read everything twice, are not. */
static void a_pair_drafts_for_a_pair(void **state)
{
    world *w = *state;
    static const char plain[] = "{\"prompt_ids\": [[93, 243, 27, 120]], \"kwargs\": "
                                "{\"max_new_tokens\": 20, \"eos_token_id\": null}}";
    static const char assisted[] =
        "{\"prompt_ids\": [[93, 243, 27, 120]], \"kwargs\": {\"max_new_tokens\": 20, "
        "\"eos_token_id\": null, \"num_assistant_tokens\": 3, \"assistant_confidence_threshold\": "
        "0.0}}";
    cdz_result *a = run(w, w->t5, NULL, plain), *b = run(w, w->t5, w->t5, assisted);
    uint32_t na, nb;
    const int32_t *ia = cdz_result_ids(a, 0, &na), *ib = cdz_result_ids(b, 0, &nb);
    assert_int_equal(na, nb);
    assert_memory_equal(ia, ib, na * sizeof *ia);
    assert_int_equal(accepted(b), 15);
    cdz_result_free(a);
    cdz_result_free(b);
}

static bool count_tensor(void *user, const cdz_output *output)
{
    (void)output;
    ++*(uint32_t *)user;
    return true;
}

/* With quirks an answer may end before any pass: the encoder has not run, and no zeros stand for what it would say. */
static void what_was_not_computed_is_not_given(void **state)
{
    world *w = *state;
    static const char empty[] =
        "{\"prompt_ids\": [[93, 243, 27, 120]], \"kwargs\": {\"max_new_tokens\": 4, \"eos_token_id\": 0, "
        "\"prompt_lookup_num_tokens\": 3, \"output_attentions\": true, \"output_hidden_states\": true, "
        "\"quirks\": true}}";
    cdz_result *r = run(w, w->t5, NULL, empty);
    uint32_t n;
    (void)cdz_result_ids(r, 0, &n);
    assert_int_equal(n, 0);
    assert_true(cdz_result_each_output(r, count_tensor, &n));
    assert_int_equal(n, 0);
    cdz_result_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_hold_every_tensor),
        cmocka_unit_test(rows_that_ended_have_zeros),
        cmocka_unit_test(arrays_stand_in_a_folder),
        cmocka_unit_test(states_do_not_hang_on_company),
        cmocka_unit_test(weights_sum_to_one),
        cmocka_unit_test(tokens_are_known_in_every_mode),
        cmocka_unit_test(values_that_were_not_kept_are_refused),
        cmocka_unit_test(saved_tensors_give_transition_scores),
        cmocka_unit_test(a_text_is_as_probable_as_the_reference_says),
        cmocka_unit_test(reading_is_as_writing),
        cmocka_unit_test(the_best_are_those_of_whole_rows),
        cmocka_unit_test(a_text_has_its_likeliest_tokens),
        cmocka_unit_test(a_pair_drafts_for_a_pair),
        cmocka_unit_test(what_was_not_computed_is_not_given),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
