/* test_file_numbers.c - every number in files of every kind, replaced by numbers at the ends of their types. What comes of it
 * is read or refused in a sentence, in the memory that the file may take; a model that was read answers a request, or refuses
 * it in a sentence. The sanitizers watch: memory, and arithmetic. What a template does with numbers is
 * test_template_numbers.c's, what a request does test_requests_random.c's.
 *
 * CADENZA_NUMBERS_SHOWN=1: every case with its sentence; CADENZA_NUMBERS=TEXT: only cases whose name has the text;
 * CADENZA_NUMBERS_EVERY=N: one case in N. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/api.h"
#include "base/file.h"
#include "config/generation.h"
#include "load/gguf.h"
#include "load/model_files.h"
#include "load/npy.h"
#include "params/params.h"
#include "plug/lock.h"
#include "plug/manifest.h"
#include "support/memory_meter.h"
#include "support/must.h"
#include "support/numbers.h"
#include "support/opened.h"
#include "template/chat.h"
#include "token/pair.h"
#include "token/tokenizer.h"

#define GOLDEN CADENZA_TEST_DATA "/golden"
enum {
    MOST_PLACES = 64,      /* of one text */
    MOST_TAKEN = 512 << 20 /* bytes, by a request to a model of some kilobytes */
};

typedef struct fixture {
    char folder[64];
    cdz_runtime *rt;
    cdz_model *model; /* a small one */
    const char *only;
    size_t every, n_asked;
    bool shown;
    size_t n_cases, n_taken;
} fixture;

/* --- files ----------------------------------------------------------------------------------------------------------- */

static const char *path_of(const fixture *f, const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", f->folder, name);
    return path;
}

static void write_file(const fixture *f, const char *name, const cdz_buf *bytes)
{
    FILE *out = fopen(path_of(f, name), "wb");
    assert_false(bytes->failed);
    assert_non_null(out);
    assert_int_equal(fwrite(bytes->data ? bytes->data : "", 1, bytes->len, out), bytes->len);
    assert_int_equal(fclose(out), 0);
}

static void empty_folder(const fixture *f)
{
    DIR *dir = opendir(f->folder);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        if (e->d_name[0] != '.') assert_int_equal(unlink(path_of(f, e->d_name)), 0);
    closedir(dir);
}

/* The folder holds what that one does, by links. */
static void fill_folder(const fixture *f, const char *from)
{
    char target[1024];
    DIR *dir = opendir(from);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        snprintf(target, sizeof target, "%s/%s", from, e->d_name);
        assert_int_equal(symlink(target, path_of(f, e->d_name)), 0);
    }
    closedir(dir);
}

static char *read_all(const char *path, size_t *len)
{
    char *text = NULL;
    cdz_error err = {0};
    must(cdz_file_read(path, (size_t)64 << 20, &text, len, &err), &err);
    return text;
}

/* --- readers --------------------------------------------------------------------------------------------------------- */

/* Of the folder, or of the file of it that path names. */
typedef cdz_status reader(fixture *f, const char *path, cdz_error *err);

static cdz_status read_weights(fixture *f, const char *path, cdz_error *err)
{
    cdz_weights *weights;
    (void)f;
    CDZ_TRY(cdz_weights_open(path, &weights, err));
    cdz_weights_close(weights);
    return CDZ_OK;
}

static cdz_status read_tensors(fixture *f, const char *path, cdz_error *err)
{
    cdz_tensors set;
    (void)f;
    CDZ_TRY(cdz_tensors_open(path, &set, err));
    for (size_t i = 0; i < set.n_items; i++) {
        const cdz_tensor *t = &set.items[i];
        const char *start = set.files[0].data, *at = t->data;
        assert_true(at >= start && t->n_bytes <= set.files[0].size - (uint64_t)(at - start));
    }
    cdz_tensors_close(&set);
    return CDZ_OK;
}

static cdz_status read_npy(fixture *f, const char *path, cdz_error *err)
{
    cdz_npy npy;
    (void)f;
    CDZ_TRY(cdz_npy_open(path, &npy, err));
    uint64_t bytes = sizeof(float);
    for (uint32_t i = 0; i < npy.n_dims; i++) bytes *= npy.shape[i];
    assert_true((const char *)npy.data + bytes == (const char *)npy.file.data + npy.file.size);
    cdz_npy_close(&npy);
    return CDZ_OK;
}

/* Reads all strings and all numbers of all values. */
static cdz_status read_gguf(fixture *f, const char *path, cdz_error *err)
{
    cdz_gguf g;
    (void)f;
    CDZ_TRY(cdz_gguf_open(path, &g, err));
    for (size_t i = 0; i < g.n_values; i++) {
        const cdz_gguf_value *v = &g.values[i];
        const uint8_t *at = v->data;
        for (uint64_t k = 0; k < v->n; k++) {
            size_t len;
            if (v->type != CDZ_GGUF_STRING)
                (void)cdz_gguf_real_at(v, k);
            else
                for (const volatile char *text = cdz_gguf_next_string(&at, &len); len > 0; len--)
                    (void)text[len - 1];
        }
    }
    cdz_gguf_close(&g);
    return CDZ_OK;
}

static void try_text(const cdz_tokenizer *tok, const char *text)
{
    cdz_encoding ids = {0};
    cdz_encoding_pair pair;
    cdz_buf back = {0};
    cdz_error err = {0};
    const cdz_pair_options options = {.special = true, .pad = true, .pad_multiple = 8};
    const unsigned flags = CDZ_ENCODE_SPECIAL | CDZ_ENCODE_OFFSETS;
    if (cdz_tokenizer_encode(tok, NULL, text, strlen(text), flags, &ids, &err) == CDZ_OK)
        (void)cdz_tokenizer_decode(tok, ids.ids, ids.n, 0, &back, &err);
    if (cdz_tokenizer_encode_pair(tok, text, strlen(text), "ab", 2, &options, &pair, &err) == CDZ_OK)
        cdz_encoding_pair_free(&pair);
    for (int32_t id = 0; id < 8; id++) (void)cdz_tokenizer_text_alone(tok, id, &back);
    cdz_buf_free(&back);
    cdz_encoding_free(&ids);
}

static cdz_status read_tokenizer(fixture *f, const char *path, cdz_error *err)
{
    cdz_tokenizer *tok;
    (void)f;
    CDZ_TRY(cdz_tokenizer_open(path, &tok, err));
    try_text(tok, "ab a  b <s> ca");
    cdz_tokenizer_free(tok);
    return CDZ_OK;
}

static cdz_status read_template(fixture *f, const char *path, cdz_error *err)
{
    cdz_chat_template *chat;
    (void)f;
    CDZ_TRY(cdz_chat_template_open(path, &chat, err));
    cdz_chat_template_free(chat);
    return CDZ_OK;
}

static cdz_status read_lock(fixture *f, const char *path, cdz_error *err)
{
    cdz_lock lock;
    (void)f;
    CDZ_TRY(cdz_lock_read(path, &lock, err));
    cdz_lock_free(&lock);
    return CDZ_OK;
}

static cdz_status read_manifest(fixture *f, const char *path, cdz_error *err)
{
    cdz_manifest manifest;
    (void)path;
    CDZ_TRY(cdz_manifest_read(f->folder, &manifest, err));
    cdz_manifest_free(&manifest);
    return CDZ_OK;
}

static cdz_status read_plugin(fixture *f, const char *path, cdz_error *err)
{
    cdz_plugin_ref ref = {0};
    CDZ_TRY(cdz_registry_load(f->rt->registry, path, 0, &ref, err));
    cdz_module_release(ref.module);
    return CDZ_OK;
}

/* --- requests to what was read ----------------------------------------------------------------------------------------- */

static cdz_status ask(fixture *f, cdz_model *model, cdz_pipeline *pipeline, cdz_error *err)
{
    cdz_result *result = NULL;
    const cdz_request request = {
        .size = sizeof request,
        .model = model,
        .pipeline = pipeline,
        .json = pipeline ? "{\"prompt_ids\": [[5, 6, 7], [8, 9, 5]], \"seed\": 1}"
                         : "{\"prompt_ids\": [5, 6, 7], \"seed\": 1, \"kwargs\": "
                           "{\"max_new_tokens\": 2}}"};
    const cdz_status status = cdz_generate(f->rt, &request, &result, err);
    if (result) assert_int_equal(cdz_result_json(result)[0], '{');
    cdz_result_free(result);
    return status;
}

static cdz_status run_model(fixture *f, const char *path, cdz_error *err)
{
    cdz_model *model = NULL;
    CDZ_TRY(cdz_model_open(f->rt, path, NULL, &model, err));
    const cdz_status status = ask(f, model, NULL, err);
    cdz_model_close(model);
    return status;
}

static cdz_status run_ini(fixture *f, const char *path, cdz_error *err)
{
    cdz_pipeline *pipeline = NULL;
    CDZ_TRY(cdz_pipeline_load(f->rt, path, &pipeline, err));
    const cdz_status status = ask(f, f->model, pipeline, err);
    cdz_pipeline_free(pipeline);
    return status;
}

/* --- one case ------------------------------------------------------------------------------------------------------------ */

static bool wanted(fixture *f, const char *name)
{
    if (f->n_asked++ % f->every) return false;
    return !f->only || strstr(name, f->only);
}

/* bytes: of the file; 0: no limit but that of requests. */
static cdz_status check(fixture *f, const char *name, const char *path, size_t bytes, reader *read)
{
    cdz_error err = {0};
    const bool counts = meter_begin();
    const size_t allowed = bytes ? meter_allowed(bytes) : (size_t)MOST_TAKEN;
    f->n_cases++;
    if (f->shown) fprintf(stderr, "%s: ", name); /* what a sanitizer stops says where */
    const cdz_status status = read(f, path, &err);
    if (f->shown) fprintf(stderr, "%s\n", status == CDZ_OK ? "taken" : err.text);
    if (status != CDZ_OK && !err.text[0]) fail_msg("%s: refused in silence", name);
    if (counts && meter_most() > allowed)
        fail_msg("%s: took %zu bytes, %zu are allowed", name, meter_most(), allowed);
    f->n_taken += status == CDZ_OK;
    return status;
}

/* A text as a file of the folder, each of its numbers replaced; what the first reader takes, the second one runs. */
typedef struct text_case {
    const char *name, *file;
    bool whole_folder; /* is read, not the file alone */
    bool json;
    reader *read, *run;
} text_case;

static void each_number_of_text(fixture *f, const text_case *c, const char *text, size_t len)
{
    number_place places[MOST_PLACES];
    cdz_buf changed = {0};
    char what[512], path[1024];
    const size_t n = numbers_in(text, len, c->json, places, MOST_PLACES);
    snprintf(path, sizeof path, "%s", c->whole_folder ? f->folder : path_of(f, c->file));
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < N_NUMBERS; k++) {
            snprintf(what, sizeof what, "%s, byte %zu: %s", c->name, places[i].begin, numbers[k]);
            if (!wanted(f, what)) continue;
            put_instead(&changed, text, len, places[i], numbers[k]);
            unlink(path_of(f, c->file)); /* a link to the original */
            write_file(f, c->file, &changed);
            if (check(f, what, path, changed.len, c->read) == CDZ_OK && c->run)
                (void)check(f, what, path, 0, c->run);
        }
    cdz_buf_free(&changed);
}

static void each_number_of_literal(fixture *f, const text_case *c, const char *text)
{
    each_number_of_text(f, c, text, strlen(text));
    empty_folder(f);
}

/* --- models in folders ------------------------------------------------------------------------------------------------ */

static bool is_there(const char *folder, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, R_OK) == 0;
}

/* Files with numbers that opening a model reads. */
static void each_file_of_model(fixture *f, const char *from)
{
    static const char *const files[] = {"config.json", "generation_config.json",
                                        "model.safetensors.index.json"};
    const char *slash = strrchr(from, '/');
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[320], path[1024];
        size_t len;
        if (!is_there(from, files[i])) continue;
        snprintf(name, sizeof name, "%s %s", slash + 1, files[i]);
        snprintf(path, sizeof path, "%s/%s", from, files[i]);
        char *text = read_all(path, &len);
        const text_case c = {name, files[i], true, true, read_weights, run_model};
        fill_folder(f, from);
        each_number_of_text(f, &c, text, len);
        empty_folder(f);
        free(text);
    }
}

static void models_take_or_refuse_any_number(void **state)
{
    fixture *f = *state;
    DIR *dir = opendir(GOLDEN);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        char from[512];
        snprintf(from, sizeof from, "%s/%s", GOLDEN, e->d_name);
        if (e->d_name[0] == '.' || !is_there(from, "config.json") ||
            !is_there(from, "cases.json")) /* the detector's is another kind */
            continue;
        each_file_of_model(f, from);
    }
    closedir(dir);
}

/* Kinds of rotation, with all the numbers they know, on one model. */
static void rotations_take_or_refuse_any_number(void **state)
{
    static const char *const kinds[] = {
        "{\"rope_type\": \"linear\", \"factor\": 2.0, \"rope_theta\": 1000.0}",
        "{\"rope_type\": \"dynamic\", \"factor\": 2.0, \"rope_theta\": 1000.0}",
        "{\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
        "\"original_max_position_embeddings\": 64, \"rope_theta\": 1000.0}",
        "{\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 64, \"beta_fast\": 32.0, "
        "\"beta_slow\": 1.0, \"mscale\": 1.0, \"mscale_all_dim\": 1.0, \"attention_factor\": 1.0, \"rope_theta\": 1000.0}",
        "{\"rope_type\": \"longrope\", \"factor\": 4.0, \"original_max_position_embeddings\": 4, \"attention_factor\": 1.0, "
        "\"short_factor\": [1, 1, 1, 1, 1, 1], \"long_factor\": [2, 2, 2, 2, 2, 2], \"partial_rotary_factor\": 1.0}",
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char name[64];
        cdz_buf text = {0};
        cdz_buf_printf(&text,
                       "{\"model_type\": \"llama\", \"head_dim\": 12, \"hidden_size\": 48, "
                       "\"intermediate_size\": 72, \"num_attention_heads\": 4, "
                       "\"num_hidden_layers\": 3, \"num_key_value_heads\": 2, \"vocab_size\": 384, "
                       "\"original_max_position_embeddings\": null, \"rope_parameters\": %s}",
                       kinds[i]);
        snprintf(name, sizeof name, "rotation %zu", i);
        const text_case c = {name, "config.json", true, true, read_weights, run_model};
        fill_folder(f, GOLDEN "/llama_gqa");
        each_number_of_text(f, &c, text.data, text.len);
        empty_folder(f);
        cdz_buf_free(&text);
    }
}

/* Every generation parameter in generation_config.json, alone and in lists. */
static void generation_configs_take_or_refuse_any_number(void **state)
{
    static const char *const forms[] = {"@", "[@]", "[[@, 1]]", "[@, 1.5]", "[[[1, 2], @]]"};
    fixture *f = *state;
    const cdz_param_table *table = cdz_generation_table();
    cdz_buf value = {0}, text = {0};
    fill_folder(f, GOLDEN "/llama_gqa");
    for (uint32_t i = 0; i < table->n; i++)
        for (size_t form = 0; form < sizeof forms / sizeof *forms; form++)
            for (size_t k = 0; k < N_NUMBERS; k++) {
                char what[128];
                const cdz_param *p = cdz_param_at(table, i);
                if (form && p->type < CDZ_T_INTS) continue;
                snprintf(what, sizeof what, "generation_config.json: %s %s", p->name, numbers[k]);
                if (!wanted(f, what)) continue;
                put_for_marks(&value, forms[form], numbers[k]);
                cdz_buf_clear(&text);
                cdz_buf_printf(&text, "{\"%s\": %s}", p->name, value.data);
                unlink(path_of(f, "generation_config.json"));
                write_file(f, "generation_config.json", &text);
                (void)check(f, what, f->folder, 0, run_model);
            }
    empty_folder(f);
    cdz_buf_free(&value);
    cdz_buf_free(&text);
}

/* --- pipelines ----------------------------------------------------------------------------------------------------------- */

static void run_ini_text(fixture *f, const char *what, const cdz_buf *text)
{
    write_file(f, "p.ini", text);
    (void)check(f, what, path_of(f, "p.ini"), 0, run_ini);
}

static void generation_sections_take_or_refuse_any_number(void **state)
{
    static const char *const forms[] = {"@",        "@, 3",     "[@]",
                                        "[[@, 1]]", "[@, 1.5]", "[[[1, 2], @]]"};
    fixture *f = *state;
    const cdz_param_table *table = cdz_generation_table();
    cdz_buf value = {0}, text = {0};
    for (uint32_t i = 0; i < table->n; i++)
        for (size_t form = 0; form < sizeof forms / sizeof *forms; form++)
            for (size_t k = 0; k < N_NUMBERS; k++) {
                char what[128];
                const cdz_param *p = cdz_param_at(table, i);
                if (form && p->type < CDZ_T_INTS) continue;
                snprintf(what, sizeof what, "[generation] %s = %s", p->name, numbers[k]);
                if (!wanted(f, what)) continue;
                put_for_marks(&value, forms[form], numbers[k]);
                cdz_buf_clear(&text);
                cdz_buf_printf(&text, "[generation]\n%s%s = %s\n",
                               strcmp(p->name, "max_new_tokens") ? "max_new_tokens = 2\n" : "",
                               p->name, value.data);
                run_ini_text(f, what, &text);
            }
    empty_folder(f);
    cdz_buf_free(&value);
    cdz_buf_free(&text);
}

/* A setting of a plugin's own. */
static void try_setting(fixture *f, const cdz_plugin_base *plugin, const char *name,
                        const char *value)
{
    static const char *const keys[] = {[CDZ_KIND_PROCESSOR] = "processors",
                                       [CDZ_KIND_CRITERION] = "stopping",
                                       [CDZ_KIND_STRATEGY] = "strategy",
                                       [CDZ_KIND_DRAFTER] = "drafter",
                                       [CDZ_KIND_OBSERVER] = "observers"};
    char what[200];
    cdz_buf text = {0};
    snprintf(what, sizeof what, "%s: %s = %s", plugin->id, name, value);
    if (plugin->kind < sizeof keys / sizeof *keys && keys[plugin->kind] && wanted(f, what)) {
        cdz_buf_printf(
            &text, "[pipeline]\n%s = x\n[x]\nid = %s\n%s = %s\n[generation]\nmax_new_tokens = 2\n",
            keys[plugin->kind], plugin->id, name, value);
        run_ini_text(f, what, &text);
    }
    cdz_buf_free(&text);
}

static void try_plugin(void *user, const cdz_plugin_line *line)
{
    fixture *f = user;
    if (!line->ref.base) return;
    const cdz_param_table table = cdz_params_of(line->ref.base);
    cdz_buf list = {0};
    for (uint32_t i = 0; i < table.n; i++) {
        const cdz_param *p = cdz_param_at(&table, i);
        /* Generation parameters were another test's; a script's own budgets may well be a billion. */
        if (p->flags & CDZ_GENERATION || strncmp(p->name, "budget_", 7) == 0) continue;
        for (size_t k = 0; k < N_NUMBERS; k++) {
            try_setting(f, line->ref.base, p->name, numbers[k]);
            if (p->type < CDZ_T_INTS) continue;
            put_for_marks(&list, "[[@, 1]]", numbers[k]);
            try_setting(f, line->ref.base, p->name, list.data);
            put_for_marks(&list, "[@, 1.5]", numbers[k]);
            try_setting(f, line->ref.base, p->name, list.data);
        }
    }
    cdz_buf_free(&list);
}

static void plugins_take_or_refuse_any_number(void **state)
{
    fixture *f = *state;
    cdz_error err = {0};
    must(cdz_registry_visit(f->rt->registry, try_plugin, f, &err), &err);
    empty_folder(f);
}

/* --- tokenizers ---------------------------------------------------------------------------------------------------------- */

static const char *const tokenizers[] = {
    "{\"truncation\": {\"max_length\": 4, \"stride\": 1}, \"padding\": {\"strategy\": {\"Fixed\": 8}, \"pad_to_multiple_of\": 8, "
    "\"pad_id\": 0, \"pad_type_id\": 0}, \"added_tokens\": [{\"id\": 5, \"content\": \"<s>\", \"special\": true}], "
    "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"FixedLength\", \"length\": 2}, "
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]}, \"post_processor\": {\"type\": "
    "\"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"s\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", "
    "\"type_id\": 0}}], \"pair\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, {\"SpecialToken\": {\"id\": \"s\", "
    "\"type_id\": 1}}, {\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}], \"special_tokens\": {\"s\": {\"id\": \"s\", \"ids\": "
    "[5, 5], \"tokens\": [\"<s>\", \"<s>\"]}}}, \"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", "
    "\"dropout\": 0.0, \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"c\": 3, \"\\u0120\": 4}, \"merges\": [[\"a\", \"b\"]]}}",
    "{\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Strip\", \"content\": \"a\", \"start\": 1, \"stop\": 1}, "
    "{\"type\": \"Fuse\"}]}, \"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"byte_fallback\": false, \"vocab\": [[\"<unk>\", "
    "0.0], [\"a\", -1.5], [\"b\", -2.0], [\"ab\", -2.5], [\" \", -1.0]]}}",
    "{\"pre_tokenizer\": {\"type\": \"Whitespace\"}, \"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", 2], "
    "\"cls\": [\"[CLS]\", 1]}, \"decoder\": {\"type\": \"WordPiece\", \"prefix\": \"##\"}, \"model\": {\"type\": \"WordPiece\", "
    "\"unk_token\": \"[UNK]\", \"continuing_subword_prefix\": \"##\", \"max_input_chars_per_word\": 100, \"vocab\": {\"[UNK]\": "
    "0, \"[CLS]\": 1, \"[SEP]\": 2, \"a\": 3, \"##b\": 4}}}",
    "{\"added_tokens\": [{\"id\": 9, \"content\": \"<s>\", \"special\": false}], \"pre_tokenizer\": {\"type\": "
    "\"WhitespaceSplit\"}, \"post_processor\": {\"type\": \"RobertaProcessing\", \"sep\": [\"</s>\", 2], \"cls\": [\"<s>\", 9]}, "
    "\"model\": {\"type\": \"WordLevel\", \"unk_token\": \"<unk>\", \"vocab\": {\"<unk>\": 0, \"ab\": 1, \"</s>\": 2}}}",
    ("{\"decoder\": {\"type\": \"CTC\", \"pad_token\": \"a\", \"cleanup\": true}, \"model\": {\"type\": \"BPE\", \"unk_token\": \"a\", "
     "\"byte_fallback\": true, \"end_of_word_suffix\": \"b\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]}}"),
};

static void tokenizers_take_or_refuse_any_number(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < sizeof tokenizers / sizeof *tokenizers; i++) {
        char name[64];
        snprintf(name, sizeof name, "tokenizer.json %zu", i);
        each_number_of_literal(
            f, &(text_case){name, "tokenizer.json", true, true, read_tokenizer, NULL},
            tokenizers[i]);
    }
}

static void put_base64(cdz_buf *out, const uint8_t *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0, n_bits = 0;
    for (size_t i = 0; i < n; i++) {
        bits = (bits << 8 | bytes[i]) & 0xFFFF;
        for (n_bits += 8; n_bits >= 6; n_bits -= 6)
            cdz_buf_putc(out, digits[bits >> (n_bits - 6) & 63]);
    }
    if (n_bits) cdz_buf_putc(out, digits[bits << (6 - n_bits) & 63]);
}

/* The numbers of a precompiled_charsmap are in its bytes. */
static void charsmaps_take_or_refuse_any_number(void **state)
{
    enum { UNITS = 6, BYTES = 4 + 4 * UNITS + 3 };
    fixture *f = *state;
    cdz_buf text = {0};
    for (size_t field = 0; field <= UNITS; field++)
        for (size_t k = 0; k < N_NUMBER_BITS; k++) {
            uint8_t bytes[BYTES] = {0};
            char what[64];
            snprintf(what, sizeof what, "charsmap %zu: %llx", field,
                     (unsigned long long)number_bits[k]);
            if (!number_fits(number_bits[k], 4) || !wanted(f, what)) continue;
            put_bits(bytes, 4 * UNITS, 4);
            for (size_t u = 0; u < UNITS; u++)
                put_bits(bytes + 4 + 4 * u, 'a' | 1 << 8 | 1 << 10, 4);
            put_bits(bytes + 4 * field, number_bits[k], 4);
            memcpy(bytes + 4 + 4 * UNITS, "x\0y", 3);
            cdz_buf_clear(&text);
            cdz_buf_puts(&text, "{\"normalizer\": {\"type\": \"Precompiled\", "
                                "\"precompiled_charsmap\": \"");
            put_base64(&text, bytes, BYTES);
            cdz_buf_puts(&text, "\"}, \"model\": {\"type\": \"WordLevel\", \"unk_token\": \"a\", "
                                "\"vocab\": {\"a\": 0}}}");
            write_file(f, "tokenizer.json", &text);
            (void)check(f, what, f->folder, text.len, read_tokenizer);
        }
    empty_folder(f);
    cdz_buf_free(&text);
}

/* --- safetensors, npy ---------------------------------------------------------------------------------------------------- */

static void put_tensors(cdz_buf *out, const cdz_buf *header, uint64_t length)
{
    uint8_t bytes[8];
    put_bits(bytes, length, 8);
    cdz_buf_clear(out);
    cdz_buf_add(out, bytes, 8);
    cdz_buf_add(out, header->data, header->len);
    for (int i = 0; i < 40; i++) cdz_buf_putc(out, '\1');
}

static void tensors_take_or_refuse_any_number(void **state)
{
    static const char header[] =
        "{\"__metadata__\": {\"a\": \"1\"}, \"a\": {\"dtype\": \"F32\", \"shape\": [2, 3], \"data_offsets\": [0, 24]}, "
        "\"b\": {\"dtype\": \"BF16\", \"shape\": [1, 2, 4], \"data_offsets\": [24, 40]}}";
    fixture *f = *state;
    number_place places[MOST_PLACES];
    cdz_buf changed = {0}, file = {0};
    const size_t n = numbers_in(header, sizeof header - 1, true, places, MOST_PLACES);
    for (size_t i = 0; i < n * N_NUMBERS + N_NUMBER_BITS; i++) {
        char what[64];
        const bool length = i >= n * N_NUMBERS;
        const number_place none = {0, 0};
        snprintf(what, sizeof what, "safetensors %zu", i);
        if (!wanted(f, what)) continue;
        put_instead(&changed, header, sizeof header - 1, length ? none : places[i / N_NUMBERS],
                    length ? "" : numbers[i % N_NUMBERS]);
        put_tensors(&file, &changed, length ? number_bits[i - n * N_NUMBERS] : changed.len);
        write_file(f, "a.safetensors", &file);
        (void)check(f, what, path_of(f, "a.safetensors"), file.len, read_tensors);
    }
    empty_folder(f);
    cdz_buf_free(&changed);
    cdz_buf_free(&file);
}

static void arrays_take_or_refuse_any_number(void **state)
{
    static const char *const shapes[] = {"(2, @)", "(@, 2)", "(@,)",
                                         "(0, @)", "(@, 0)", "(@, @, @)"};
    static const size_t fields[][2] = {{6, 1}, {7, 1}, {8, 2}, {8, 4}};
    fixture *f = *state;
    cdz_buf text = {0}, file = {0};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t i = 0; i < N_NUMBERS + 4 * N_NUMBER_BITS; i++) {
            char what[64];
            const size_t at = i < N_NUMBERS ? 0 : i - N_NUMBERS;
            const size_t *field = fields[at / N_NUMBER_BITS];
            put_for_marks(&text, shapes[s], i < N_NUMBERS ? numbers[i] : "3");
            cdz_npy_put_header(&file, "<f4", (const uint64_t[]){2, 3}, 2);
            char *shape = strstr(file.data + 10, "(2, 3)");
            memset(shape, ' ', 6);
            if (text.len < file.len - (size_t)(shape - file.data))
                memcpy(shape, text.data, text.len);
            if (i >= N_NUMBERS)
                put_bits(file.data + field[0], number_bits[at % N_NUMBER_BITS], field[1]);
            for (int b = 0; !strchr(shapes[s], '0') && b < 24; b++) cdz_buf_putc(&file, 0);
            snprintf(what, sizeof what, "npy %zu, %zu", s, i);
            write_file(f, "a.npy", &file);
            const cdz_status status = check(f, what, path_of(f, "a.npy"), file.len, read_npy);
            if (i < N_NUMBERS && strcmp(numbers[i], "18446744073709551616") == 0)
                assert_int_not_equal(status, CDZ_OK);
            cdz_buf_clear(&file);
        }
    empty_folder(f);
    cdz_buf_free(&text);
    cdz_buf_free(&file);
}

/* --- GGUF ---------------------------------------------------------------------------------------------------------------- */

/* Fields of a file: all of its head, those of keys, and of some tensors. */
typedef struct field {
    size_t at, width;
} field;

typedef struct walk {
    const uint8_t *bytes;
    size_t at;
    field *fields;
    size_t n, cap;
} walk;

static uint64_t look(const walk *w, size_t width)
{
    uint64_t value = 0;
    for (size_t b = width; b-- > 0;) value = value << 8 | w->bytes[w->at + b];
    return value;
}

static uint64_t take_field(walk *w, size_t width, bool listed)
{
    const uint64_t value = look(w, width);
    if (listed) {
        if (w->n == w->cap) {
            w->cap = w->cap ? 2 * w->cap : 256;
            w->fields = realloc(w->fields, w->cap * sizeof *w->fields);
            assert_non_null(w->fields);
        }
        w->fields[w->n++] = (field){w->at, width};
    }
    w->at += width;
    return value;
}

static void take_string(walk *w, bool listed)
{
    w->at += (size_t)take_field(w, 8, listed);
}

/* Of an array the first and the last element. */
static void take_value(walk *w)
{
    uint64_t type = take_field(w, 4, true), n = 1;
    const bool array = type == CDZ_GGUF_ARRAY;
    if (array) {
        type = take_field(w, 4, true);
        n = take_field(w, 8, true);
    }
    for (uint64_t i = 0; i < n; i++) {
        const bool listed = i == 0 || i + 1 == n;
        if (type == CDZ_GGUF_STRING)
            take_string(w, listed);
        else
            (void)take_field(w, cdz_gguf_type_bytes((cdz_gguf_type)type), listed);
    }
}

static void take_tensor(walk *w, bool listed)
{
    take_string(w, listed);
    for (uint64_t n = take_field(w, 4, listed); n > 0; n--) (void)take_field(w, 8, listed);
    (void)take_field(w, 4, listed);
    (void)take_field(w, 8, listed);
}

static void take_all(walk *w)
{
    w->at = 4;
    (void)take_field(w, 4, true);
    const uint64_t n_tensors = take_field(w, 8, true), n_keys = take_field(w, 8, true);
    for (uint64_t i = 0; i < n_keys; i++) {
        take_string(w, true);
        take_value(w);
    }
    for (uint64_t i = 0; i < n_tensors; i++) take_tensor(w, i < 4 || i + 1 == n_tensors);
}

static void check_gguf(fixture *f, const char *what, const char *path, size_t bytes)
{
    (void)check(f, what, path, bytes, read_gguf);
    (void)check(f, what, path, bytes, read_tokenizer);
    (void)check(f, what, path, bytes, read_template);
    if (check(f, what, path, bytes, read_weights) == CDZ_OK)
        (void)check(f, what, path, 0, run_model);
}

static void each_field_of_gguf(fixture *f, const char *name)
{
    char from[512], path[1024], what[128];
    size_t len;
    snprintf(from, sizeof from, "%s/gguf/%s", CADENZA_TEST_DATA, name);
    snprintf(path, sizeof path, "%s", path_of(f, name));
    char *bytes = read_all(from, &len);
    walk w = {.bytes = (const uint8_t *)bytes};
    take_all(&w);
    write_file(f, name, &(cdz_buf){.data = bytes, .len = len});
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    for (size_t i = 0; i < w.n; i++)
        for (size_t k = 0; k < N_NUMBER_BITS; k++) {
            const field *at = &w.fields[i];
            uint8_t changed[8];
            snprintf(what, sizeof what, "%s, byte %zu: %llx", name, at->at,
                     (unsigned long long)number_bits[k]);
            if (!number_fits(number_bits[k], at->width) || !wanted(f, what)) continue;
            put_bits(changed, number_bits[k], at->width);
            assert_int_equal(pwrite(fileno(file), changed, at->width, (off_t)at->at),
                             (ssize_t)at->width);
            check_gguf(f, what, path, len);
            assert_int_equal(pwrite(fileno(file), bytes + at->at, at->width, (off_t)at->at),
                             (ssize_t)at->width);
        }
    fclose(file);
    empty_folder(f);
    free(w.fields);
    free(bytes);
}

static void gguf_files_take_or_refuse_any_number(void **state)
{
    static const char *const files[] = {"llama_bf16.gguf", "gemma3.gguf",       "phi3.gguf",
                                        "mixtral.gguf",    "gpt_neox.gguf",     "qwen2_sw.gguf",
                                        "quantised.gguf",  "vocab_llama2.gguf", "vocab_qwen2.gguf"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) each_field_of_gguf(*state, files[i]);
}

/* --- packages -------------------------------------------------------------------------------------------------------------- */

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void packages_take_or_refuse_any_number(void **state)
{
    fixture *f = *state;
    each_number_of_literal(f, &(text_case){"lock", "cadenza.lock", false, false, read_lock, NULL},
                           "cadenza.lock 1\nplugin org.example.x 1.0.0 processor\n  " SHA
                           "  plugin.ini\n  " SHA "  x.lua\n");
    each_number_of_literal(
        f, &(text_case){"manifest", "plugin.ini", false, false, read_manifest, NULL},
        "[plugin]\nid = org.example.x\nversion = 1.0.0\nabi = 1.0\nkind = processor\n"
        "entry = plugin.ini\n");
    each_number_of_literal(f, &(text_case){"rules", "t.rules", false, false, read_plugin, NULL},
                           "version 1.0.0\nparam p 1 0 2 how much\nbias a 1.5 p\nbias b -2\n");
    each_number_of_literal(
        f, &(text_case){"declared in Lua", "t.lua", false, false, read_plugin, NULL},
        "return cadenza.processor { id = 'org.example.t', version = '1.0.0', state_version = 1,\n"
        "  params = { a = { 3, 1, 10, 'x', integer = true }, b = { 0.5, 0, 1, 'x' },\n"
        "             c = { type = 'weighted', min = 1, max = 2, help = 'x' } },\n"
        "  apply = function() end }\n");
}

/* --- all ------------------------------------------------------------------------------------------------------------------- */

static void no_lines(void *user, cdz_log_level level, const char *plugin, const char *text)
{
    (void)user, (void)level, (void)plugin, (void)text;
}

static int open_all(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    const cdz_options options = {
        .size = sizeof options, .n_threads = 1, .kv_bytes = 16u << 20, .log = no_lines};
    assert_non_null(f);
    const char *every = getenv("CADENZA_NUMBERS_EVERY");
    f->only = getenv("CADENZA_NUMBERS");
    f->every = every ? strtoul(every, NULL, 10) : 1;
    if (f->every == 0) f->every = 1;
    f->shown = getenv("CADENZA_NUMBERS_SHOWN") != NULL;
    snprintf(f->folder, sizeof f->folder, "/tmp/cadenza-numbers-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    f->rt = opened_runtime(&options);
    f->model = opened_model(f->rt, GOLDEN "/llama_gqa");
    *state = f;
    return 0;
}

static int close_all(void **state)
{
    fixture *f = *state;
    print_message("%zu cases, %zu of them taken\n", f->n_cases, f->n_taken);
    rmdir(f->folder);
    cdz_model_close(f->model);
    cdz_close(f->rt);
    free(f);
    return 0;
}

/* What a reader believes in spite of all cannot take the machine's memory; a sanitizer's shadow needs more room than that. */
static void bound_memory(void)
{
#if !CDZ_WITH_OWN_HEAP
    const struct rlimit most = {(rlim_t)16 << 30, (rlim_t)16 << 30};
    assert_int_equal(setrlimit(RLIMIT_AS, &most), 0);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_take_or_refuse_any_number),
        cmocka_unit_test(arrays_take_or_refuse_any_number),
        cmocka_unit_test(tokenizers_take_or_refuse_any_number),
        cmocka_unit_test(charsmaps_take_or_refuse_any_number),
        cmocka_unit_test(packages_take_or_refuse_any_number),
        cmocka_unit_test(rotations_take_or_refuse_any_number),
        cmocka_unit_test(gguf_files_take_or_refuse_any_number),
        cmocka_unit_test(models_take_or_refuse_any_number),
        cmocka_unit_test(generation_configs_take_or_refuse_any_number),
        cmocka_unit_test(generation_sections_take_or_refuse_any_number),
        cmocka_unit_test(plugins_take_or_refuse_any_number),
    };
    bound_memory();
    return cmocka_run_group_tests(tests, open_all, close_all);
}
