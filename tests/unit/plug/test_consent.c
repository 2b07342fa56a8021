/* test_consent.c - whose code runs: the table against that of docs/packages.md, and against files that lie everywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "describe/descriptor.h"
#include "plug/consent.h"
#include "plug/registry.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define DOC          CADENZA_SOURCE_DIR "/docs/packages.md"
#define ZOO          CADENZA_BUILD_DIR "/tests/zoo/"

static const char *const namers[CDZ_N_NAMERS] = {"the program: its built-in folder", "you",
                                                 "a request", "a folder of plugins, pinned",
                                                 "a folder of plugins, not pinned"};
static const char *const sites[CDZ_N_SITES] = {"elsewhere", "a model's folder",
                                               "its `custom_generate`"};

/* --- the documented table ------------------------------------------------------------------------------------ */

static int index_of(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

static cdz_right right_of(const char *cell)
{
    if (strcmp(cell, "yes") == 0 || strcmp(cell, "the pinned bytes") == 0) return CDZ_ALWAYS;
    if (strcmp(cell, "no") == 0) return CDZ_NEVER;
    if (strcmp(cell, "`--allow-model-plugins`") != 0) fail_msg("the table says '%s'", cell);
    return CDZ_WITH_FLAG;
}

/* Five cells of "| a | b | c | d | e |", trimmed in place. */
static bool cells_of(char *line, char *out[5])
{
    for (int i = 0; i < 5; i++) {
        char *bar = strchr(line, '|'), *end = bar ? strchr(bar + 1, '|') : NULL;
        if (!end) return false;
        out[i] = bar + 1 + strspn(bar + 1, " ");
        line = end;
        while (end > out[i] && end[-1] == ' ') end--;
        if (i == 4) *end = '\0';
        if (i < 4) { /* the bar begins the next cell: what ends this one is a blank before it */
            assert_true(*end == ' ');
            *end = '\0';
        }
    }
    return true;
}

static void the_page_is_the_table(void **state)
{
    bool seen[CDZ_N_NAMERS][CDZ_N_SITES] = {{false}};
    char *text = NULL, *cells[5];
    size_t len = 0;
    (void)state;
    assert_int_equal(cdz_file_read(DOC, 1 << 20, &text, &len, NULL), CDZ_OK);
    char *at = strstr(text, "| who names it |"), *next;
    assert_non_null(at);
    for (at = strchr(at, '\n') + 1; *at == '|'; at = next) {
        next = strchr(at, '\n') + 1;
        next[-1] = '\0';
        if (at[1] == '-') continue;
        assert_true(cells_of(at, cells));
        const int by = index_of(namers, CDZ_N_NAMERS, cells[0]);
        const int site = index_of(sites, CDZ_N_SITES, cells[1]);
        if (by < 0 || (site < 0 && strcmp(cells[1], "anywhere") != 0))
            fail_msg("row '%s', '%s'", cells[0], cells[1]);
        for (int s = site < 0 ? 0 : site; s < (site < 0 ? CDZ_N_SITES : site + 1); s++) {
            assert_false(seen[by][s]);
            seen[by][s] = true;
            for (int code = 0; code < CDZ_N_CODES; code++)
                if (cdz_consent_table((cdz_namer)by, (cdz_site)s, (cdz_code)code) !=
                    right_of(cells[2 + code]))
                    fail_msg("%s, %s, column %d: '%s'", cells[0], sites[s], code, cells[2 + code]);
        }
    }
    for (int by = 0; by < CDZ_N_NAMERS; by++)
        for (int s = 0; s < CDZ_N_SITES; s++)
            if (!seen[by][s]) fail_msg("no row for %s, %s", namers[by], sites[s]);
    free(text);
}

/* --- files that lie everywhere ------------------------------------------------------------------------------- */

static char home[] = "/tmp/cadenza-consent-XXXXXX";

static const char *at(const char *name)
{
    static char paths[4][512];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", home, name);
    return path;
}

/* An empty file, and the folders it lies in. */
static void touch(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s", at(name));
    for (char *c = path + strlen(home) + 1; *c; c++)
        if (*c == '/') {
            *c = '\0';
            (void)mkdir(path, 0755);
            *c = '/';
        }
    FILE *file = fopen(path, "we");
    if (!file) fail_msg("%s", path);
    fclose(file);
}

/* Where each lies; links are made after all files. `user` is the home folder. */
static const struct {
    const char *path;
    cdz_site site;
    const char *link_to; /* NULL: a file */
} files[] = {
    {"user/src/p.so", CDZ_SITE_ELSEWHERE, NULL},
    {"user/src/custom_generate/p.so", CDZ_SITE_ELSEWHERE, NULL},
    {"hf/p.so", CDZ_SITE_MODEL, NULL},
    {"hf/a/p.so", CDZ_SITE_MODEL, NULL},
    {"hf/a/b/p.so", CDZ_SITE_MODEL, NULL},
    {"hf/a/b/c/p.so", CDZ_SITE_MODEL, NULL},
    {"hf/a/b/c/d/e/f/p.so", CDZ_SITE_MODEL, NULL},
    {"hf/custom_generate/p.so", CDZ_SITE_MODEL_LOOP, NULL},
    {"hf/custom_generate/x/y/p.so", CDZ_SITE_MODEL_LOOP, NULL},
    {"hf/a/custom_generate/p.so", CDZ_SITE_MODEL, NULL},
    {"gguf/p.so", CDZ_SITE_MODEL, NULL},
    {"gguf/a/b/c/p.so", CDZ_SITE_MODEL, NULL},
    {"gguf/custom_generate/p.so", CDZ_SITE_MODEL_LOOP, NULL},
    {"upper/p.so", CDZ_SITE_MODEL, NULL},
    {"cache/models--a--b/blobs/0a1b", CDZ_SITE_MODEL, NULL},
    {"cache/models--a--b/snapshots/c/p.so", CDZ_SITE_MODEL, NULL},
    {"user/p.so", CDZ_SITE_MODEL, NULL}, /* beside a GGUF file that lies in the home folder */
    {"user/custom_generate/p.so", CDZ_SITE_MODEL_LOOP, NULL},
    {"open/sub/p.so", CDZ_SITE_ELSEWHERE, NULL}, /* anyone may put a GGUF file into open */
    {"open/p.so", CDZ_SITE_MODEL, NULL},
    {"user/src/into.so", CDZ_SITE_MODEL, "../../hf/a/p.so"},
    {"user/src/loop", CDZ_SITE_MODEL_LOOP, "../../hf/custom_generate"},
    {"hf/a/out.so", CDZ_SITE_MODEL, "../../user/src/p.so"},
    {"hf/a/away", CDZ_SITE_ELSEWHERE, "../../user/src"}, /* a folder: what is in it lies there */
};

static int make_files(void **state)
{
    (void)state;
    if (!mkdtemp(home)) return -1;
    for (size_t i = 0; i < COUNT(files); i++)
        if (!files[i].link_to) touch(files[i].path);
    touch("hf/config.json");
    touch("hf/tokenizer.json");
    touch("gguf/model.gguf");
    touch("upper/MODEL.GGUF");
    touch("user/big.gguf");
    touch("open/big.gguf");
    touch("lonely/config.json");
    touch("lonely/p.so");
    for (size_t i = 0; i < COUNT(files); i++)
        if (files[i].link_to && symlink(files[i].link_to, at(files[i].path)) != 0) return -1;
    return chmod(at("open"), 0777) == 0 && setenv("HOME", at("user"), 1) == 0 ? 0 : -1;
}

static int remove_files(void **state)
{
    char command[600];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", home);
    return system(command);
}

static bool may(cdz_namer by, const char *path, cdz_code code, bool allowed,
                char text[CDZ_ERROR_TEXT])
{
    cdz_error err = {0};
    char *real = realpath(path, NULL);
    if (!real) fail_msg("%s", path);
    const cdz_claim claim = {
        .path = path, .real = real, .by = by, .code = code, .allow_model_plugins = allowed};
    const cdz_status st = cdz_consent(&claim, &err);
    free(real);
    snprintf(text, CDZ_ERROR_TEXT, "%s", err.text);
    assert_true(st == CDZ_OK || st == CDZ_E_DENIED);
    return st == CDZ_OK;
}

static void check_file(const char *path, cdz_site site)
{
    char text[CDZ_ERROR_TEXT];
    for (int by = 0; by < CDZ_N_NAMERS; by++)
        for (int code = 0; code < CDZ_N_CODES; code++)
            for (int allowed = 0; allowed < 2; allowed++) {
                const cdz_right right = cdz_consent_table((cdz_namer)by, site, (cdz_code)code);
                const bool want = right == CDZ_ALWAYS || (right == CDZ_WITH_FLAG && allowed);
                if (may((cdz_namer)by, path, (cdz_code)code, allowed, text) != want)
                    fail_msg("%s, %s, code %d, flag %d: %s", path, namers[by], code, allowed,
                             want ? text : "not refused");
            }
}

static void files_lie_where_they_lie(void **state)
{
    (void)state;
    check_file(at("lonely/p.so"), CDZ_SITE_ELSEWHERE);
    for (size_t i = 0; i < COUNT(files); i++) {
        struct stat s;
        char inside[600];
        snprintf(inside, sizeof inside, "%s", at(files[i].path));
        assert_int_equal(stat(inside, &s), 0);
        if (S_ISDIR(s.st_mode)) snprintf(inside, sizeof inside, "%s/p.so", at(files[i].path));
        check_file(inside, files[i].site);
    }
    assert_int_equal(chdir(at("hf/a")), 0); /* by a relative name too */
    check_file("p.so", CDZ_SITE_MODEL);
    check_file("./b/../p.so", CDZ_SITE_MODEL);
    assert_int_equal(chdir("/"), 0);
}

/* --- what a request names -------------------------------------------------------------------------------------- */

static void requests_bring_nothing_for_others(void **state)
{
    const cdz_registry_options options = {.builtin_dir = home};
    cdz_registry *r = NULL;
    cdz_plugin_ref ref = {0};
    cdz_error err = {0};
    (void)state;
    assert_int_equal(cdz_registry_create(&options, &r, &err), CDZ_OK);
    assert_int_equal(cdz_registry_load_for(r, CDZ_BY_REQUEST, ZOO "good.so", 0, &ref, &err),
                     CDZ_E_DENIED);
    assert_non_null(strstr(err.text, "native code that only a request names is not loaded"));
    assert_int_equal(
        cdz_registry_isolate(r, CDZ_BY_REQUEST, 0, ZOO "good.so", true, true, &ref, &err),
        CDZ_E_DENIED);
    assert_int_equal(cdz_registry_load(r, ZOO "good.so", 0, NULL, &err), CDZ_OK);
    assert_int_equal(cdz_registry_load_for(r, CDZ_BY_REQUEST, ZOO "good.so", 0, &ref, &err),
                     CDZ_OK); /* the user named it too */
    cdz_module_release(ref.module);
    cdz_registry_free(r);
}

/* --- ids -------------------------------------------------------------------------------------------------------- */

static void ids_have_a_grammar(void **state)
{
    static const char *const good[] = {
        "a", "0", "top_k", "org.example.name", "org.example.a-b_c.9", "lua.t.lua", "x_", "a-"};
    static const char *const bad[] = {"",     ".",    "..",    ".hidden",   "-a",  "_a",
                                      "a.",   "a..b", "a/b",   "../a",      "A",   "a b",
                                      "a\nb", "a\tb", "a\x80", "org..name", "a:b", "a=b"};
    char longest[CDZ_MAX_ID + 2];
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++)
        if (!cdz_plugin_id_ok(good[i])) fail_msg("'%s' is refused", good[i]);
    for (size_t i = 0; i < COUNT(bad); i++)
        if (cdz_plugin_id_ok(bad[i])) fail_msg("'%s' is taken", bad[i]);
    memset(longest, 'a', sizeof longest);
    longest[CDZ_MAX_ID + 1] = '\0';
    assert_false(cdz_plugin_id_ok(longest));
    longest[CDZ_MAX_ID] = '\0';
    assert_true(cdz_plugin_id_ok(longest));
    assert_true(cdz_plugin_id_alike("a-b_c", "a_b-c"));
    assert_false(cdz_plugin_id_alike("a-b", "a-bc"));
    assert_false(cdz_plugin_id_alike("a.b", "a-b"));
    assert_string_equal(cdz_plugin_id_last("org.example.a"), "a");
    assert_string_equal(cdz_plugin_id_last("a"), "a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_is_the_table),
        cmocka_unit_test(files_lie_where_they_lie),
        cmocka_unit_test(requests_bring_nothing_for_others),
        cmocka_unit_test(ids_have_a_grammar),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
