/* test_isolate_files.c - "cadenza.files/1": a package's files of data by name, here and in a process of its own: the same bytes,
 * those that were read when it was opened; what is no file of its is a sentence, and no path leads anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/write.h"
#include "support/isolated.h"

static const char plugin_so[] = CADENZA_BUILD_DIR "/tests/isolate/wordlist.so";
static const char request[] = "{\"prompt\": \"river (noun): a\"}";
static const char *const ways[] = {"none", "process"};

enum { BIG = (16 << 20) + 1 };

typedef struct package {
    fixture *f;
    char folder[96];
} package;

static const char *path_of(const package *p, const char *name)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", p->folder, name);
    return path;
}

static void write_file(const package *p, const char *name, const void *bytes, size_t len)
{
    cdz_error err = {0};
    must(cdz_write_whole(path_of(p, name), bytes, len, 0, &err), &err);
}

static void write_ini(const package *p, const char *files)
{
    char ini[512];
    snprintf(ini, sizeof ini,
             "[plugin]\nid = test.wordlist\nversion = 1.0.0\nkind = processor\n"
             "entry = wordlist.so\nfiles = %s\n",
             files);
    write_file(p, "plugin.ini", ini, strlen(ini));
}

static const char words[] = "large\nnatural\nstream\nwater\n";

static package package_open(void)
{
    package p = {.f = fixture_open(NULL, 1)};
    char *so;
    size_t len;
    cdz_error err = {0};
    snprintf(p.folder, sizeof p.folder, "%s/words", p.f->folder);
    assert_int_equal(mkdir(p.folder, 0700), 0);
    must(cdz_file_read(plugin_so, 64 << 20, &so, &len, &err), &err);
    write_file(&p, "wordlist.so", so, len);
    free(so);
    write_file(&p, "words.txt", words, sizeof words - 1);
    write_file(&p, "secret.txt", "no\n", 3);
    write_file(&p, "big.bin", "", 0);
    assert_int_equal(truncate(path_of(&p, "big.bin"), BIG), 0);
    write_ini(&p, "words.txt, big.bin");
    return p;
}

static void package_close(package *p)
{
    static const char *const names[] = {"wordlist.so", "words.txt", "secret.txt", "big.bin",
                                        "plugin.ini"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(path_of(p, names[i]));
    assert_int_equal(rmdir(p->folder), 0);
    fixture_close(p->f);
}

static void make_ini(const package *p, const char *what, const char *way, const char *keys,
                     char ini[1024])
{
    snprintf(ini, 1024,
             "[pipeline]\nprocessors = mine\n[generation]\ndo_sample = false\nmax_new_tokens = 12\n"
             "eos_token_id = none\n[mine]\nid = %s%s\nisolation = %s\n%s",
             p->folder, what, way, keys);
}

static char *answer_of(const fixture *f, cdz_pipeline *pipeline)
{
    cdz_result *result = NULL;
    cdz_error err = {0};
    must(generate(f, pipeline, request, &result, &err), &err);
    char *json = strdup(cdz_result_text(result, 0));
    cdz_result_free(result);
    return json;
}

/* --- the same bytes ------------------------------------------------------------------------------------------------- */

static void words_do_not_come(void **state)
{
    package p = package_open();
    char ini[1024];
    (void)state;
    cdz_pipeline *plain = parse(p.f, "[generation]\ndo_sample = false\nmax_new_tokens = 12\n"
                                     "eos_token_id = none\n");
    char *free_text = answer_of(p.f, plain), *first = NULL;
    cdz_pipeline_free(plain);
    assert_non_null(strstr(free_text, "large"));
    for (size_t w = 0; w < 2; w++) {
        make_ini(&p, "", ways[w], "", ini);
        cdz_pipeline *pipeline = parse(p.f, ini);
        /* What lies there later is not what was read; nobody looks. */
        unlink(path_of(&p, "words.txt"));
        for (int again = 0; again < 2; again++) {
            char *text = answer_of(p.f, pipeline);
            for (const char *word = words; *word; word = strchr(word, '\n') + 1) {
                char one[32];
                snprintf(one, sizeof one, " %.*s", (int)strcspn(word, "\n"), word);
                if (strstr(text, one)) fail_msg("%s: \"%s\" has%s", ways[w], text, one);
            }
            if (!first) first = strdup(text);
            assert_string_equal(text, first);
            free(text);
        }
        cdz_pipeline_free(pipeline);
        write_file(&p, "words.txt", words, sizeof words - 1);
    }
    free(first);
    free(free_text);
    package_close(&p);
}

/* --- what is refused ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name, *want;
} refusals[] = {
    {"wrods.txt", "file 'wrods.txt': not among the files of plugin.ini: did you mean 'words.txt'?"},
    {"big.bin", "file 'big.bin': has 16777217 bytes, the limit is 16777216"},
    {"secret.txt", "file 'secret.txt': not among the files of plugin.ini"},
    {"plugin.ini", "file 'plugin.ini': not among the files of plugin.ini"},
    {"./words.txt", "file './words.txt': not among the files of plugin.ini"},
    {"../words/words.txt", "file '../words/words.txt': not among the files of plugin.ini"},
    {"/etc/passwd", "file '/etc/passwd': not among the files of plugin.ini"},
};

static void names_are_refused(void **state)
{
    static const char *const places[] = {"create", "begin", "apply"};
    package p = package_open();
    (void)state;
    for (size_t w = 0; w < 2; w++)
        for (size_t k = 0; k < 3; k++)
            for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
                char ini[1024], keys[128];
                cdz_error err = {0};
                snprintf(keys, sizeof keys, "when = %s\nname = %s\n", places[k], refusals[i].name);
                make_ini(&p, "", ways[w], keys, ini);
                const cdz_status st = run_ini(p.f, ini, request, &err);
                if (st == CDZ_OK || !strstr(err.text, refusals[i].want))
                    fail_msg("%s, %s: \"%s\" does not say \"%s\"", ways[w], places[k], err.text,
                             refusals[i].want);
            }
    package_close(&p);
}

/* A bare file has none; a file that is not there refuses the package. */
static void without_files(void **state)
{
    package p = package_open();
    char ini[1024];
    (void)state;
    for (size_t w = 0; w < 2; w++) {
        cdz_error err = {0};
        write_ini(&p, "words.txt, gone.txt");
        make_ini(&p, "", ways[w], "", ini);
        assert_true(run_ini(p.f, ini, request, &err) != CDZ_OK);
        if (!strstr(err.text, "gone.txt")) fail_msg("%s: %s", ways[w], err.text);
        unlink(path_of(&p, "plugin.ini"));
        make_ini(&p, "/wordlist.so", ways[w], "", ini);
        assert_true(run_ini(p.f, ini, request, &err) != CDZ_OK);
        if (!strstr(err.text, "file 'words.txt': the plugin has none; a package names them in its "
                              "plugin.ini (files = NAME)"))
            fail_msg("%s: %s", ways[w], err.text);
        write_ini(&p, "words.txt, big.bin");
    }
    package_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_do_not_come),
        cmocka_unit_test(names_are_refused),
        cmocka_unit_test(without_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
