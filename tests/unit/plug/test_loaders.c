/* test_loaders.c - loaders as plugins: who may open what, whose ending it is, and what happens to a loader's files when
 * they or it change. The loaders are tests/plugins/loaders/words.c, built several times; every case has a folder of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/plugins.h"
#include "base/file.h"
#include "base/sha256.h"
#include "cadenza/processor.h"
#include "describe/descriptor.h"
#include "support/folder.h"

#define LOADERS CADENZA_BUILD_DIR "/tests/loaders/"

/* --- a folder per case ------------------------------------------------------------------------------------ */

static const char *home;

static int enter(void **state)
{
    (void)state;
    home = folder_make("test");
    return 0;
}

static int leave(void **state)
{
    (void)state;
    folder_remove();
    return 0;
}

static void make_folders(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s", folder_path(name));
    for (char *p = path + strlen(home) + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = '\0';
        mkdir(path, 0700);
    }
}

/* A new file each time: rename, as editors and compilers do. */
static void write_bytes(const char *name, const void *bytes, size_t n)
{
    char made[300], path[256];
    make_folders(name);
    snprintf(path, sizeof path, "%s", folder_path(name));
    snprintf(made, sizeof made, "%s.new", path);
    FILE *f = fopen(made, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(rename(made, path), 0);
}

static void write_text(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text));
}

static void copy_loader(const char *from, const char *name)
{
    char path[256], *bytes = NULL;
    size_t len = 0;
    cdz_error err = {0};
    snprintf(path, sizeof path, LOADERS "%s.so", from);
    if (cdz_file_read(path, 1u << 24, &bytes, &len, &err) != CDZ_OK) fail_msg("%s", err.text);
    write_bytes(name, bytes, len);
    free(bytes);
}

/* A package in the case's folder: plugin.ini beside its entry. */
static void write_manifest(const char *folder, const char *id, const char *kind, const char *entry)
{
    char name[128], text[512];
    snprintf(name, sizeof name, "%s/plugin.ini", folder);
    snprintf(text, sizeof text,
             "[plugin]\nid = %s\nversion = 1.0.0\nkind = %s\nentry = %s\nlicense = MIT\n", id, kind,
             entry);
    write_text(name, text);
}

/* A line of a lock for one file of the folder. */
static void add_pin_line(char *lock, size_t bytes, const char *folder, const char *file)
{
    char name[128], hex[CDZ_SHA256_HEX], *text = NULL;
    size_t len = 0;
    cdz_error err = {0};
    snprintf(name, sizeof name, "%s/%s", folder, file);
    if (cdz_file_read(folder_path(name), 1u << 24, &text, &len, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    cdz_sha256_hex(text, len, hex);
    free(text);
    const size_t used = strlen(lock);
    snprintf(lock + used, bytes - used, "  %s  %s\n", hex, file);
}

static void add_pin(char *lock, size_t bytes, const char *folder, const char *id, const char *kind,
                    const char *entry)
{
    const size_t used = strlen(lock);
    snprintf(lock + used, bytes - used, "plugin %s 1.0.0 %s\n", id, kind);
    add_pin_line(lock, bytes, folder, "plugin.ini");
    add_pin_line(lock, bytes, folder, entry);
}

/* --- registries ------------------------------------------------------------------------------------------- */

/* The search path is the folder "found", the built-in folder "builtin"; the lock is "lock". */
static cdz_registry *open_registry(const char *const *named, uint32_t n, bool safe_mode)
{
    char builtin[256], found[256], lock[256];
    cdz_registry *r = NULL;
    cdz_error err = {0};
    make_folders("builtin/x");
    snprintf(builtin, sizeof builtin, "%s", folder_path("builtin"));
    snprintf(found, sizeof found, "%s", folder_path("found"));
    snprintf(lock, sizeof lock, "%s", folder_path("lock"));
    const cdz_registry_options options = {
        .builtin_dir = builtin, .search_path = found, .locks = {lock, NULL}, .safe_mode = safe_mode};
    if (cdz_plugins_open(&options, named, n, &r, &err) != CDZ_OK) fail_msg("%s", err.text);
    return r;
}

static cdz_registry *registry_with(const char *named)
{
    return open_registry(&named, 1, false);
}

static void expect_refused(cdz_status st, const cdz_error *err, cdz_status status,
                           const char *sentence)
{
    if (st != status || !strstr(err->text, sentence))
        fail_msg("status %d, '%s' lacks '%s'", (int)st, err->text, sentence);
}

static void expect_load(cdz_registry *r, const char *path, cdz_status status, const char *sentence)
{
    cdz_error err = {0};
    expect_refused(cdz_registry_load(r, path, 0, NULL, &err), &err, status, sentence);
}

static void expect_find(cdz_registry *r, const char *id, cdz_status status, const char *sentence)
{
    cdz_error err = {0};
    cdz_plugin_ref ref = {0};
    expect_refused(cdz_registry_find(r, 0, id, &ref, &err), &err, status, sentence);
    cdz_module_release(ref.module);
}

/* What the processor adds to the first score. */
static float score_of(const cdz_plugin_ref *ref)
{
    float row[2] = {0};
    cdz_scores scores = {row, 1, 2, 2, 0};
    const cdz_step step = {.size = sizeof step, .n_rows = 1, .plugin = ref->base};
    const cdz_processor *p = (const cdz_processor *)(const void *)ref->base;
    assert_int_equal(ref->base->kind, CDZ_KIND_PROCESSOR);
    assert_int_equal(p->apply(&step, &scores), CDZ_OK);
    return row[0];
}

static void expect_score(cdz_registry *r, const char *path, const char *id, float score)
{
    cdz_error err = {0};
    cdz_plugin_ref ref = {0};
    if (cdz_registry_load(r, path, CDZ_KIND_PROCESSOR, &ref, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    assert_string_equal(ref.base->id, id);
    assert_true(score_of(&ref) == score);
    cdz_module_release(ref.module);
}

/* --- loaders and their files ------------------------------------------------------------------------------ */

static void a_named_loader_opens_named_files(void **state)
{
    (void)state;
    write_text("a.word", "org.example.a\nmore");
    write_text("x.words", "x.example\n");
    write_text("bad.word", "\n");
    write_text("huge.word", "org.example.huge\n"
                            "12345678901234567890123456789012345678901234567890"
                            "12345678901234567890123456789012345678901234567890");
    write_text("none.wrd", "x\n");
    cdz_registry *r = registry_with(LOADERS "words.so");
    expect_score(r, folder_path("a.word"), "org.example.a", 1.0f);
    expect_score(r, folder_path("x.words"), "x.example", 1.5f);
    expect_find(r, "org.example.a", CDZ_OK, "");
    expect_find(r, "org.example.words", CDZ_OK, "");
    expect_find(r, "org.cadenza.lua-loader", CDZ_OK, "");
    expect_load(r, folder_path("bad.word"), CDZ_E_INPUT,
                "bad.word:1: expected an id, found 0 bytes");
    expect_load(r, folder_path("huge.word"), CDZ_E_LIMIT,
                "huge.word: has 117 bytes, the limit is 100");
    expect_load(r, folder_path("none.wrd"), CDZ_E_INPUT, "none of .so, .word, .words, .lua");
    assert_true(cdz_registry_takes(r, "words", 5) && cdz_registry_takes(r, "lua", 3));
    assert_false(cdz_registry_takes(r, "wor", 3));
    cdz_registry_free(r);
}

static void without_its_loader_a_file_is_nobodys(void **state)
{
    (void)state;
    write_text("a.word", "org.example.a\n");
    cdz_registry *r = open_registry(NULL, 0, false);
    expect_load(r, folder_path("a.word"), CDZ_E_INPUT,
                "not a plugin file: its name ends in none of .so, .lua");
    cdz_registry_free(r);
}

/* A loader that says it sandboxes is believed when it comes with the host. */
static void files_of_strange_loaders_are_native(void **state)
{
    (void)state;
    write_text("found/a.word", "org.example.a\n");
    write_text("found/pack/b.word", "org.example.b\n");
    write_manifest("found/pack", "org.example.b", "processor", "b.word");
    write_text("model/config.json", "{}");
    write_text("model/tokenizer.json", "{}");
    write_text("model/c.word", "org.example.c\n");
    cdz_registry *r = registry_with(LOADERS "words.so");
    expect_find(r, "a", CDZ_E_DENIED, "a.word: native code found in a directory is not loaded");
    expect_find(r, "org.example.b", CDZ_E_DENIED, "pack: native code found in a directory");
    expect_load(r, folder_path("model/c.word"), CDZ_E_DENIED,
                "native code inside a model's folder is never loaded");
    cdz_registry_free(r);
}

static void files_of_built_in_sandboxing_loaders_are_scripts(void **state)
{
    (void)state;
    copy_loader("words", "builtin/words/words.so");
    write_manifest("builtin/words", "org.example.words", "loader", "words.so");
    write_text("found/a.word", "org.example.a\n");
    write_text("model/config.json", "{}");
    write_text("model/tokenizer.json", "{}");
    write_text("model/c.word", "org.example.c\n");
    cdz_registry *r = open_registry(NULL, 0, false);
    expect_score(r, folder_path("model/c.word"), "org.example.c", 1.0f);
    expect_find(r, "org.example.a", CDZ_OK, "");
    cdz_registry_free(r);
    r = open_registry(NULL, 0, true);
    expect_find(r, "org.example.words", CDZ_OK, "");
    expect_load(r, folder_path("model/c.word"), CDZ_E_DENIED, "in safe mode");
    cdz_registry_free(r);
}

/* A pin makes both usable, the loader and a package of its: found by id, whatever is asked for first. */
static void pinned_loaders_open_pinned_packages(void **state)
{
    (void)state;
    char lock[2048] = "cadenza.lock 1\n";
    copy_loader("words", "found/z-words/words.so");
    write_manifest("found/z-words", "org.example.words", "loader", "words.so");
    write_text("found/a-pack/b.word", "org.example.b\n");
    write_manifest("found/a-pack", "org.example.b", "processor", "b.word");
    cdz_registry *r = open_registry(NULL, 0, false);
    expect_find(r, "org.example.words", CDZ_E_DENIED, "z-words: native code found");
    expect_find(r, "org.example.b", CDZ_E_INPUT, "b.word: not a plugin file");
    cdz_registry_free(r);

    add_pin(lock, sizeof lock, "found/z-words", "org.example.words", "loader", "words.so");
    write_text("lock", lock);
    r = open_registry(NULL, 0, false);
    expect_find(r, "org.example.b", CDZ_E_DENIED, "a-pack: native code found");
    cdz_registry_free(r);

    add_pin(lock, sizeof lock, "found/a-pack", "org.example.b", "processor", "b.word");
    write_text("lock", lock);
    r = open_registry(NULL, 0, false);
    expect_find(r, "org.example.b", CDZ_OK, "");
    cdz_registry_free(r);

    write_text("found/a-pack/b.word", "org.example.b\nand more\n");
    r = open_registry(NULL, 0, false);
    expect_find(r, "org.example.b", CDZ_E_DENIED, "b.word: its sha256 is ");
    write_text("c.word", "org.example.c\n");
    expect_score(r, folder_path("c.word"), "org.example.c", 1.0f);
    cdz_registry_free(r);
}

/* --- endings ---------------------------------------------------------------------------------------------- */

static void an_ending_belongs_to_one(void **state)
{
    (void)state;
    cdz_registry *r = registry_with(LOADERS "words.so");
    expect_load(r, LOADERS "others.so", CDZ_E_DENIED,
                "others.so: the loader org.example.others takes .word files, but they belong to the "
                "loader org.example.words (" LOADERS "words.so)");
    expect_load(r, LOADERS "luas.so", CDZ_E_DENIED,
                "luas.so: the loader org.example.luas takes .lua files, but they belong to the "
                "built-in loader org.cadenza.lua-loader (libcadenza)");
    expect_load(r, LOADERS "words_new.so", CDZ_OK, ""); /* shadowed: it was named later */
    write_text("a.word", "org.example.a\n");
    expect_score(r, folder_path("a.word"), "org.example.a", 1.0f);
    cdz_registry_free(r);
}

/* A built-in loader has its endings before anybody names another. */
static void built_in_endings_are_taken(void **state)
{
    (void)state;
    cdz_error err = {0};
    copy_loader("others", "builtin/others/others.so");
    write_manifest("builtin/others", "org.example.others", "loader", "others.so");
    cdz_registry *r = open_registry(NULL, 0, false);
    expect_refused(cdz_registry_load(r, LOADERS "words.so", 0, NULL, &err), &err, CDZ_E_DENIED,
                   "words.so: the loader org.example.words takes .word files, but they belong to "
                   "the built-in loader org.example.others (");
    expect_load(r, folder_path("builtin/others"), CDZ_OK,
                ""); /* naming it is no claim of another's */
    cdz_registry_free(r);
}

static const struct {
    const char *name, *endings, *sentence;
} endings[] = {
    {"one", "rules", NULL},
    {"several", "a|b_2|abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuv", NULL},
    {"none", NULL, "names no endings of files"},
    {"empty", "", "'' is no ending"},
    {"empty among others", "a||b", "'' is no ending"},
    {"empty at the end", "a|", "'' is no ending"},
    {"a dot", ".rules", "'.rules' is no ending"},
    {"capitals", "Rules", "'Rules' is no ending"},
    {"too long", "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvw",
     "'abcdefghijklmnopqrstuvwxyzabcdefghijklmn' is no ending"},
    {"shared objects", "a|so", "'so' is no ending"},
    {"manifests", "ini", "'ini' is no ending"},
};

static cdz_status refuse_all(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out)
{
    (void)step, (void)file, (void)out;
    return CDZ_E_INPUT;
}

static void endings_are_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const cdz_loader loader = {.base = {CDZ_LOADER_BASE, .id = "l", .version = "1.0.0"},
                                   .endings = endings[i].endings,
                                   .open = refuse_all};
        cdz_descriptor out;
        cdz_error err = {0};
        const cdz_status st = cdz_descriptor_adopt("l.so", &loader.base, NULL, &out, &err);
        if (endings[i].sentence ? st != CDZ_E_PLUGIN || !strstr(err.text, endings[i].sentence)
                                : st != CDZ_OK)
            fail_msg("%s: %d, '%s'", endings[i].name, (int)st, err.text);
    }
}

/* --- generations ------------------------------------------------------------------------------------------ */

static void changed_files_and_changed_loaders(void **state)
{
    (void)state;
    cdz_error err = {0};
    cdz_plugin_ref old = {0}, now = {0};
    copy_loader("words", "words.so");
    write_text("a.word", "org.example.a\n");
    cdz_registry *r = registry_with(folder_path("words.so"));
    assert_int_equal(cdz_registry_load(r, folder_path("a.word"), 0, &old, &err), CDZ_OK);
    assert_int_equal(cdz_registry_refresh(r, &err), CDZ_OK);
    assert_int_equal(cdz_registry_find(r, 0, "org.example.a", &now, &err), CDZ_OK);
    assert_ptr_equal(now.module, old.module); /* nothing changed */
    cdz_module_release(now.module);
    assert_string_equal(cdz_module_file(old.module, 0), folder_path("words.so"));
    assert_null(cdz_module_file(old.module, 1));

    write_text("a.word", "x.example\n");
    assert_int_equal(cdz_registry_refresh(r, &err), CDZ_OK);
    assert_int_equal(cdz_registry_find(r, 0, "x.example", &now, &err), CDZ_OK);
    assert_true(score_of(&now) == 1.5f && score_of(&old) == 1.0f);
    cdz_module_release(now.module);

    copy_loader("words_new", "words.so"); /* its files are opened anew */
    assert_int_equal(cdz_registry_refresh(r, &err), CDZ_OK);
    assert_int_equal(cdz_registry_find(r, 0, "x.example", &now, &err), CDZ_OK);
    assert_true(score_of(&now) == 2.5f && score_of(&old) == 1.0f);
    cdz_registry_free(r);
    assert_true(score_of(&now) == 2.5f && score_of(&old) == 1.0f); /* they keep their loaders */
    cdz_module_release(old.module);
    cdz_module_release(now.module);
}

/* What the new version refuses goes on with the old one. */
static void a_failing_loader_leaves_the_old_one(void **state)
{
    (void)state;
    cdz_error err = {0};
    cdz_plugin_ref now = {0};
    copy_loader("words", "words.so");
    write_text("a.word", "org.example.a\n");
    cdz_registry *r = registry_with(folder_path("words.so"));
    expect_score(r, folder_path("a.word"), "org.example.a", 1.0f);
    write_text("words.so", "no shared object");
    write_text("b.word", "org.example.b\n");
    assert_int_equal(cdz_registry_refresh(r, &err), CDZ_OK);
    expect_score(r, folder_path("a.word"), "org.example.a", 1.0f);
    expect_score(r, folder_path("b.word"), "org.example.b", 1.0f);
    assert_int_equal(cdz_registry_find(r, 0, "org.example.words", &now, &err), CDZ_OK);
    expect_refused(cdz_registry_check_newest(r, now.module, &err), &err, CDZ_E_PLUGIN, "words.so: ");
    cdz_module_release(now.module);
    cdz_registry_free(r);
}

static void many_generations(void **state)
{
    (void)state;
    cdz_error err = {0};
    copy_loader("words", "words.so");
    write_text("a.word", "org.example.a\n");
    cdz_registry *r = registry_with(folder_path("words.so"));
    for (int i = 0; i < 50; i++) {
        copy_loader(i % 2 ? "words" : "words_new", "words.so");
        assert_int_equal(cdz_registry_refresh(r, &err), CDZ_OK);
        expect_score(r, folder_path("a.word"), "org.example.a", i % 2 ? 1.0f : 2.0f);
    }
    cdz_registry_free(r);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, enter, leave)
    const struct CMUnitTest tests[] = {
        CASE(a_named_loader_opens_named_files),
        CASE(without_its_loader_a_file_is_nobodys),
        CASE(files_of_strange_loaders_are_native),
        CASE(files_of_built_in_sandboxing_loaders_are_scripts),
        CASE(pinned_loaders_open_pinned_packages),
        CASE(an_ending_belongs_to_one),
        CASE(built_in_endings_are_taken),
        cmocka_unit_test(endings_are_checked),
        CASE(changed_files_and_changed_loaders),
        CASE(a_failing_loader_leaves_the_old_one),
        CASE(many_generations),
    };
    return cmocka_run_group_tests_name("loaders", tests, NULL, NULL);
}
