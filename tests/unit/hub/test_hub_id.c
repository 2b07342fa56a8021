/* test_hub_id.c - ids, names of files that a hub gave, and which files of a repository are taken. */
#include "hub/id.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "hub/choose.h"

static void ids_are_strict(void **state)
{
    static const struct {
        const char *text, *name, *file; /* name NULL: it is none */
    } rows[] = {
        {"Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B", ""},
        {"hf.co/a/b", "a/b", ""},
        {"huggingface.co/a/b:Q4_K_M", "a/b", "Q4_K_M"},
        {"a/b:sub/c.gguf", "a/b", "sub/c.gguf"},
        {"a/_b_", "a/_b_", ""},
        {"a", NULL, NULL},
        {"", NULL, NULL},
        {"/", NULL, NULL},
        {"a/", NULL, NULL},
        {"/a", NULL, NULL},
        {"a/b/c", NULL, NULL},
        {"a/b:", NULL, NULL},
        {"a/..", NULL, NULL},
        {"a/b..c", NULL, NULL},
        {"a/b--c", NULL, NULL},
        {"./b", NULL, NULL},
        {"~/b", NULL, NULL},
        {"a/b.", NULL, NULL},
        {"-a/b", NULL, NULL},
        {"a/b c", NULL, NULL},
        {"a/b:../c", NULL, NULL},
        {"a/b:/c", NULL, NULL},
        {"a/b%2f", NULL, NULL},
        {"a/\xc3\xa9", NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cdz_hub_id id;
        cdz_error err = {0};
        const cdz_status st = cdz_hub_id_read(rows[i].text, &id, &err);
        if ((st == CDZ_OK) != (rows[i].name != NULL))
            fail_msg("\"%s\": %s", rows[i].text, err.text);
        if (st != CDZ_OK) {
            assert_int_equal(st, CDZ_E_USAGE);
            assert_true(err.text[0] != '\0');
            continue;
        }
        assert_string_equal(id.name, rows[i].name);
        assert_string_equal(id.file, rows[i].file);
    }
}

static void paths_stay(void **state)
{
    static const char *const good[] = {"a", "a/b.json", "a/b/c..d", "1", "\xc3\x9b\xc2\xa0"},
                             *const bad[] = {"",     "/a",    "a/",       "a//b",     "..",
                                             "a/..", "../a",  "a/.b",     "a\\..\\b", "c:\\x",
                                             "a\nb", "a\x7f", "a\xc2\x9b"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (!cdz_hub_path_is_safe(good[i])) fail_msg("%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (cdz_hub_path_is_safe(bad[i])) fail_msg("%s", bad[i]);
}

static void parts_of_names(void **state)
{
    static const struct {
        const char *path, *wanted;
        bool fits;
    } rows[] = {
        {"m-Q4_K_M.gguf", "q4_k_m", true},  {"m-Q4_K_M.gguf", "Q4_K", false},
        {"m-IQ4_XS.gguf", "Q4_XS", false},  {"Q8_0/m-00001-of-00002.gguf", "Q8_0", true},
        {"a/m.gguf", "m.gguf", true},       {"m.Q4_0.gguf", "Q4_0", true},
        {"m-Q4_0_4_4.gguf", "Q4_0", false}, {"m-UD-Q4_K_XL.gguf", "Q4_K_XL", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (cdz_hub_file_fits(rows[i].path, rows[i].wanted) != rows[i].fits)
            fail_msg("%s and %s", rows[i].path, rows[i].wanted);
    assert_true(cdz_hub_is_gguf("a-00001-of-00003.gguf"));
    assert_false(cdz_hub_is_gguf("a-00002-of-00003.gguf"));
    assert_false(cdz_hub_is_gguf("b/mmproj-a.gguf"));
    assert_true(cdz_hub_same_parts("a-00001-of-00003.gguf", "a-00003-of-00003.gguf"));
    assert_false(cdz_hub_same_parts("a-00001-of-00003.gguf", "a-00003-of-00004.gguf"));
    assert_false(cdz_hub_same_parts("a-00001-of-00003.gguf", "b-00002-of-00003.gguf"));
    assert_false(cdz_hub_same_parts("a.gguf", "b.gguf"));
}

#define SHA "\"sha\": \"0123456789012345678901234567890123456789\""
#define FILE_(name)                                                                                \
    "{\"rfilename\": \"" name                                                                      \
    "\", \"size\": 3, \"blobId\": \"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\"}"

/* The names that are taken of a listing, each followed by a blank. */
static void take(const char *listing, const char *id, bool texts, const char *want)
{
    cdz_arena arena = {0};
    cdz_hub_repo repo;
    cdz_hub_id what;
    const cdz_hub_file *gguf, *index;
    cdz_error err = {0};
    char got[512] = "";
    assert_int_equal(cdz_hub_id_read(id, &what, &err), CDZ_OK);
    assert_int_equal(cdz_hub_repo_read(listing, strlen(listing), "x", &arena, &repo, &err), CDZ_OK);
    const cdz_status st = cdz_hub_choose(&repo, &what, texts, &gguf, &index, &err);
    for (size_t i = 0, n = 0; st == CDZ_OK && i < repo.n; i++)
        if (repo.files[i].take)
            n += (size_t)snprintf(got + n, sizeof got - n, "%s ", repo.files[i].path);
    if (strcmp(got, want) != 0) fail_msg("%s of %s: \"%s\" %s", id, listing, got, err.text);
    cdz_arena_free(&arena);
}

static void what_is_taken(void **state)
{
    static const char folder[] =
        "{" SHA
        ", \"siblings\": [" FILE_("config.json") "," FILE_("model.safetensors") "," FILE_("model.safetensors.index.json") "," FILE_("tokenizer.model") "," FILE_(
            "a/tokenizer.model") "," FILE_("run.py") "," FILE_("x.bin") "," FILE_("training.pt") "," FILE_("adapter.safetensors") "," FILE_("additional_chat_templates/tool.jinja") "]}";
    static const char mixed[] = "{" SHA ", \"siblings\": [" FILE_("config.json") "," FILE_(
        "a-Q4_0.gguf") "," FILE_("a-Q8_0.gguf") "]}";
    static const char one[] =
        "{" SHA ", \"siblings\": [" FILE_("a.gguf") "," FILE_("README.md") "]}";
    static const char pickle[] =
        "{" SHA ", \"siblings\": [" FILE_("config.json") "," FILE_("pytorch_model.bin") "]}";
    (void)state;
    take(folder, "a/b", false,
         "config.json model.safetensors tokenizer.model additional_chat_templates/tool.jinja ");
    take(folder, "a/b", true, "config.json tokenizer.model additional_chat_templates/tool.jinja ");
    take(mixed, "a/b", false, "");
    take(mixed, "a/b:Q8_0", false, "a-Q8_0.gguf ");
    take(one, "a/b", false, "a.gguf ");
    take(one, "a/b", true, "a.gguf ");
    take(pickle, "a/b", false, "");
    take(pickle, "a/b", true, "config.json ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_strict),
        cmocka_unit_test(paths_stay),
        cmocka_unit_test(parts_of_names),
        cmocka_unit_test(what_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
