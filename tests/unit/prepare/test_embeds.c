/* test_embeds.c - prompts given as embeddings: from memory, lists and files; what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/api.h"
#include "load/npy.h"
#include "load/safetensors.h"
#include "support/folder.h"
#include "support/must.h"
#include "support/opened.h"

#define FOLDER CADENZA_TEST_DATA "/golden/llama_gqa"
#define KWARGS "\"kwargs\": {\"max_new_tokens\": 8, \"eos_token_id\": null}"

typedef struct fixture {
    cdz_runtime *rt;
    cdz_model *model;
    cdz_tensors weights;
    const char *dir;
} fixture;

static int open_all(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    cdz_error err = {0};
    assert_non_null(f);
    const cdz_options options = {.size = sizeof options, .n_threads = 2, .kv_bytes = 4 << 20};
    f->rt = opened_runtime(&options);
    f->model = opened_model(f->rt, FOLDER);
    must(cdz_tensors_open(FOLDER "/model.safetensors", &f->weights, &err), &err);
    f->dir = folder_make("embeds");
    *state = f;
    return 0;
}

static int close_all(void **state)
{
    fixture *f = *state;
    folder_remove();
    cdz_tensors_close(&f->weights);
    cdz_model_close(f->model);
    cdz_close(f->rt);
    free(f);
    return 0;
}

enum { LEN = 12 };
static const int32_t ids[LEN] = {5, 90, 17, 200, 33, 5, 90, 301, 8, 64, 120, 77};

/* The embeddings that the ids have in the model. */
static float *embed(const fixture *f, uint32_t n)
{
    const cdz_tensor *table = cdz_tensors_find(&f->weights, "model.embed_tokens.weight");
    assert_non_null(table);
    const size_t width = cdz_model_hidden_size(f->model);
    float *out = malloc(n * width * sizeof *out);
    assert_non_null(out);
    for (uint32_t i = 0; i < n; i++)
        memcpy(out + i * width, (const char *)table->data + (size_t)ids[i] * width * sizeof *out,
               width * sizeof *out);
    return out;
}

static cdz_result *run(const fixture *f, cdz_request request)
{
    cdz_result *result = NULL;
    cdz_error err = {0};
    request.size = sizeof request;
    request.model = f->model;
    must(cdz_generate(f->rt, &request, &result, &err), &err);
    return result;
}

static void same_new_ids(const cdz_result *a, const cdz_result *b, const char *what)
{
    uint32_t n, m;
    const int32_t *x = cdz_result_ids(a, 0, &n), *y = cdz_result_ids(b, 0, &m);
    if (n != m || memcmp(x, y, n * sizeof *x) != 0) fail_msg("%s: other ids", what);
}

/* With the model's own embeddings of some ids the answer is that of the ids. */
static void embeddings_are_read_in_place_of_ids(void **state)
{
    fixture *f = *state;
    float *embeds = embed(f, LEN);
    static const char with_ids[] =
        "{\"prompt_ids\": [5, 90, 17, 200, 33, 5, 90, 301, 8, 64, 120, 77], " KWARGS "}";
    static const char other_ids[] = "{\"prompt_ids\": [1, 2, 3], " KWARGS "}";
    static const char no_ids[] = "{\"prompt_ids\": null, " KWARGS "}";
    static const char masked[] =
        "{\"prompt_ids\": null, \"attention_mask\": [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1], " KWARGS
        "}";
    static const char chunks[] =
        "{\"prompt_ids\": null, \"kwargs\": {\"max_new_tokens\": 8, \"use_cache\": false, "
        "\"prefill_chunk_size\": 5}}";
    static const char tail[] = "{\"prompt_ids\": [33, 5, 90, 301, 8, 64, 120, 77], " KWARGS "}";
    cdz_result *want = run(f, (cdz_request){.json = with_ids});
    cdz_result *want_tail = run(f, (cdz_request){.json = tail});
    static const struct {
        const char *name, *json;
        uint32_t len; /* of the sequence */
        bool tail;
    } cases[] = {
        {"beside their ids", with_ids, LEN + 8, false},
        {"beside fewer ids", other_ids, 3 + 8, false},
        {"alone", no_ids, 8, false},
        {"masked", masked, 8, true},
        {"in chunks; the cache is on with them, whatever use_cache says", chunks, 8, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cdz_result *got =
            run(f, (cdz_request){
                       .json = cases[i].json, .embeds = embeds, .n_embeds = LEN, .n_embed_rows = 1});
        uint32_t n;
        cdz_result_sequence(got, 0, &n);
        assert_int_equal(n, cases[i].len);
        same_new_ids(got, cases[i].tail ? want_tail : want, cases[i].name);
        cdz_result_free(got);
    }
    cdz_result_free(want_tail);
    cdz_result_free(want);
    free(embeds);
}

static void files_and_lists_are_read(void **state)
{
    fixture *f = *state;
    float *embeds = embed(f, 2);
    const uint32_t width = cdz_model_hidden_size(f->model);
    const char *path = folder_path("x.npy");
    FILE *file = fopen(path, "wbe");
    assert_non_null(file);
    cdz_buf header = {0};
    cdz_npy_put_header(&header, "<f4", (const uint64_t[]){2, width}, 2);
    assert_int_equal(fwrite(header.data, 1, header.len, file), header.len);
    cdz_buf_free(&header);
    assert_int_equal(fwrite(embeds, sizeof *embeds, 2 * width, file), 2 * width);
    fclose(file);
    cdz_buf list = {0};
    cdz_buf_puts(&list, "{" KWARGS ", \"inputs_embeds\": [[");
    for (uint32_t i = 0; i < 2 * width; i++) {
        cdz_buf_puts(&list, i == 0 ? "[" : i == width ? "], [" : ", ");
        cdz_json_write_f32(&list, embeds[i]);
    }
    cdz_buf_puts(&list, "]]]}");
    cdz_result *want = run(f, (cdz_request){.ids = ids, .n_ids = 2}),
               *npy = run(f, (cdz_request){.json = "{\"inputs_embeds\": \"x.npy\", " KWARGS "}",
                                           .inputs_dir = f->dir}),
               *lists = run(f, (cdz_request){.json = list.data});
    assert_memory_equal(cdz_result_sequence(npy, 0, &(uint32_t){0}),
                        cdz_result_ids(want, 0, &(uint32_t){0}), 8 * sizeof(int32_t));
    same_new_ids(lists, npy, "lists");
    cdz_result_free(want);
    cdz_result_free(npy);
    cdz_result_free(lists);
    cdz_buf_free(&list);
    free(embeds);
}

static const struct {
    const char *name, *json, *sentence;
    bool no_files;
} refused[] = {
    {"no files allowed", "{\"inputs_embeds\": \"alone\"}", "opens no files", true},
    {"out of the folder", "{\"inputs_embeds\": \"../gpt2/inputs.safetensors#alone\"}",
     "without '..'", false},
    {"an absolute path", "{\"inputs_embeds\": \"/etc/passwd.npy\"}", "files are named relative",
     false},
    {"no such tensor", "{\"inputs_embeds\": \"aloan\"}", "holds no tensor 'aloan'", false},
    {"no such file", "{\"inputs_embeds\": \"x.safetensors#y\"}", "x.safetensors", false},
    {"no .npy", "{\"inputs_embeds\": \"config.json.npy\"}", "config.json.npy", false},
    {"another width", "{\"inputs_embeds\": [[[1, 2]]]}", "each a list of", false},
    {"ragged", "{\"inputs_embeds\": [[], []]}", "has 2 rows of 0 positions", false},
    {"a number", "{\"inputs_embeds\": 3}", "must be a list of rows", false},
    {"another number of rows", "{\"inputs_embeds\": \"alone\", \"prompt_ids\": [[1], [2]]}",
     "the prompt has 2 rows, its embeddings have 1", false},
    {"a short mask", "{\"inputs_embeds\": \"alone\", \"attention_mask\": [1]}", "attention_mask",
     false},
    {"healing", "{\"inputs_embeds\": \"alone\", \"kwargs\": {\"token_healing\": true}}",
     "cannot heal a prompt of embeddings", false},
    {"drafts", "{\"inputs_embeds\": \"alone\", \"kwargs\": {\"prompt_lookup_num_tokens\": 3}}",
     "drafters read tokens", false},
    {"mode logits", "{\"inputs_embeds\": \"alone\", \"mode\": \"logits\"}", "takes ids", false},
};

static void the_rest_is_refused(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        cdz_error err = {0};
        cdz_result *result = NULL;
        const cdz_request request = {.size = sizeof request,
                                     .model = f->model,
                                     .json = refused[i].json,
                                     .inputs_dir = refused[i].no_files ? NULL : FOLDER};
        const cdz_status status = cdz_generate(f->rt, &request, &result, &err);
        if (status == CDZ_OK || !strstr(err.text, refused[i].sentence))
            fail_msg("%s: got %s", refused[i].name, err.text);
        cdz_result_free(result);
    }
}

/* An encoder's embeddings turn no cache on. */
static void a_pair_reads_chunks_with_a_cache_alone(void **state)
{
    fixture *f = *state;
    cdz_model *pair = opened_model(f->rt, CADENZA_TEST_DATA "/golden/bart");
    float *zeros = calloc(cdz_model_hidden_size(pair), sizeof *zeros);
    cdz_error err = {0};
    cdz_result *result = NULL;
    assert_non_null(zeros);
    const cdz_request request = {
        .size = sizeof request,
        .model = pair,
        .json = "{\"kwargs\": {\"use_cache\": false, \"prefill_chunk_size\": 5}}",
        .embeds = zeros,
        .n_embeds = 1,
        .n_embed_rows = 1};
    assert_int_equal(cdz_generate(f->rt, &request, &result, &err), CDZ_E_USAGE);
    assert_string_equal(err.text, "request: prefill_chunk_size: needs use_cache = true");
    free(zeros);
    cdz_model_close(pair);
}

/* Headers that lie. */
static void hostile_arrays_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *header;
        unsigned len, data;
    } cases[] = {
        {"doubles", "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", 64, 8},
        {"columns", "{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", 64, 4},
        {"too short", "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 64, 4},
        {"overflowing",
         "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387905,), }", 80, 4},
        {"no shape", "{'descr': '<f4', 'fortran_order': False, }", 64, 4},
        {"an open shape", "{'descr': '<f4', 'fortran_order': False, 'shape': (1,", 64, 4},
        {"no dictionary", "", 64, 4},
        {"a header past the end", "{'descr': '<f4'}", 60000, 0},
    };
    const char *path = folder_path("x.npy");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FILE *file = fopen(path, "wbe");
        assert_non_null(file);
        fprintf(file, "\x93NUMPY\x01%c%c%c", 0, (int)(cases[i].len & 255), (int)(cases[i].len >> 8));
        fprintf(file, "%-*s", cases[i].data ? (int)cases[i].len : 20, cases[i].header);
        fprintf(file, "%*s", (int)cases[i].data, "");
        fclose(file);
        cdz_npy npy;
        cdz_error err = {0};
        if (cdz_npy_open(path, &npy, &err) == CDZ_OK) fail_msg("%s: opened", cases[i].name);
        assert_non_null(strstr(err.text, path));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(embeddings_are_read_in_place_of_ids, open_all, close_all),
        cmocka_unit_test_setup_teardown(files_and_lists_are_read, open_all, close_all),
        cmocka_unit_test_setup_teardown(the_rest_is_refused, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_pair_reads_chunks_with_a_cache_alone, open_all, close_all),
        cmocka_unit_test_setup_teardown(hostile_arrays_are_refused, open_all, close_all),
    };
    return cmocka_run_group_tests_name("embeds", tests, NULL, NULL);
}
