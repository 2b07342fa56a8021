/* test_lua_companion.c - processors in Lua that ask the model: guidance written in Lua gives the tokens of the one in C, under
 * every way to decode that moves rows about; and what a script may get wrong. */
#include <dirent.h>
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
#include "cadenza/cadenza.h"
#include "support/must.h"
#include "support/opened.h"

static const char target[] = CADENZA_SOURCE_DIR "/models/pocket-dictionary";
static const char draft[] = CADENZA_SOURCE_DIR "/models/pocket-dictionary-draft";
/* A plugin that is called as the built-in one has to lie where those do: a folder of links to them, and a copy of the twin. */
static char builtin[] = "/tmp/cadenza-twin-XXXXXX";
static char twin[96];

static void copy_twin(void)
{
    char *text = NULL;
    size_t len = 0;
    snprintf(twin, sizeof twin, "%s/twins", builtin);
    assert_int_equal(mkdir(twin, 0755), 0);
    snprintf(twin, sizeof twin, "%s/twins/guidance_scale.lua", builtin);
    assert_int_equal(cdz_file_read(CADENZA_TEST_DATA "/lua/twins/guidance_scale.lua", 1 << 20,
                                   &text, &len, NULL),
                     CDZ_OK);
    assert_int_equal(cdz_write_whole(twin, text, len, CDZ_WRITE_NEW, NULL), CDZ_OK);
    free(text);
}

static void make_builtin(void)
{
    const char *from = getenv("CADENZA_PLUGIN_DIR");
    assert_non_null(from ? from : (from = CADENZA_BUILD_DIR "/lib/cadenza"));
    assert_non_null(mkdtemp(builtin));
    DIR *dir = opendir(from);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        char target_path[600], link_path[600];
        if (e->d_name[0] == '.') continue;
        snprintf(target_path, sizeof target_path, "%s/%s", from, e->d_name);
        snprintf(link_path, sizeof link_path, "%s/%s", builtin, e->d_name);
        assert_int_equal(symlink(target_path, link_path), 0);
    }
    closedir(dir);
    copy_twin();
    assert_int_equal(setenv("CADENZA_PLUGIN_DIR", builtin, 1), 0);
}

static void remove_builtin(void)
{
    char path[600];
    assert_int_equal(unlink(twin), 0);
    snprintf(path, sizeof path, "%s/twins", builtin);
    assert_int_equal(rmdir(path), 0);
    DIR *dir = opendir(builtin);
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", builtin, e->d_name);
        if (e->d_name[0] != '.') assert_int_equal(unlink(path), 0);
    }
    closedir(dir);
    assert_int_equal(rmdir(builtin), 0);
}

typedef struct fixture {
    cdz_runtime *rt;
    cdz_model *model, *draft;
} fixture;

static int open_all(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    make_builtin();
    f->rt = opened_runtime(NULL);
    f->model = opened_model(f->rt, target);
    f->draft = opened_model(f->rt, draft);
    *state = f;
    return 0;
}

static int close_all(void **state)
{
    fixture *f = *state;
    cdz_model_close(f->model);
    cdz_model_close(f->draft);
    cdz_close(f->rt);
    free(f);
    remove_builtin();
    return 0;
}

static cdz_status ask(const fixture *f, const char *ini, const char *json, bool drafts,
                      cdz_result **out, cdz_error *err)
{
    cdz_pipeline *pipeline = NULL;
    *out = NULL;
    cdz_status st = cdz_pipeline_parse(f->rt, ini, strlen(ini), "away.ini", &pipeline, err);
    const cdz_request request = {.size = sizeof request,
                                 .model = f->model,
                                 .assistant = drafts ? f->draft : NULL,
                                 .pipeline = pipeline,
                                 .json = json};
    if (st == CDZ_OK) st = cdz_generate(f->rt, &request, out, err);
    cdz_pipeline_free(pipeline);
    return st;
}

static void expect_same(const cdz_result *a, const cdz_result *b, const char *name)
{
    assert_int_equal(cdz_result_rows(a), cdz_result_rows(b));
    for (uint32_t r = 0; r < cdz_result_rows(a); r++) {
        uint32_t n, m;
        const int32_t *x = cdz_result_sequence(a, r, &n), *y = cdz_result_sequence(b, r, &m);
        if (n != m || memcmp(x, y, n * sizeof *x) != 0) fail_msg("%s: row %u differs", name, r);
    }
}

static void guidance_in_lua_is_guidance(void **state)
{
    static const struct {
        const char *name, *ini, *json;
        bool drafts;
    } cases[] = {
        {"greedy", "do_sample = no\n", "{\"prompt\": \"river (noun): a\"}", false},
        {"a negative prompt", "do_sample = no\nnegative_prompt_ids = [[72, 480, 845]]\n",
         "{\"prompt\": \"river (noun): a\"}", false},
        {"two prompts, one masked",
         "do_sample = no\nnegative_prompt_ids = [[72, 480], [845, 72]]\n"
         "negative_prompt_attention_mask = [[0, 1], [1, 1]]\n",
         "{\"prompt_ids\": [[360, 336, 292, 305, 299, 261], [1037, 512, 292, 305, 299, 261]]}",
         false},
        {"draws", "do_sample = yes\nseed = 3\ntop_k = 50\n", "{\"prompt\": \"music is\"}", false},
        {"beams", "do_sample = no\nnum_beams = 3\n", "{\"prompt\": \"river (noun): a\"}", false},
        {"beams with quirks", "do_sample = no\nnum_beams = 3\nquirks = yes\n",
         "{\"prompt\": \"river (noun): a\"}", false},
        {"drafts", "do_sample = no\n", "{\"prompt\": \"A dog is a kind of\"}", true},
    };
    uint32_t guided = 0; /* answers that guidance changes */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char ini[700];
        cdz_error err = {0};
        cdz_result *native, *lua, *plain;
        snprintf(ini, sizeof ini, "[generation]\nmax_new_tokens = 16\nguidance_scale = 3.0\n%s",
                 cases[i].ini);
        must(ask(*state, ini, cases[i].json, cases[i].drafts, &native, &err), &err);
        /* The configuration asks for the built-in one; the custom one of the same id takes its place. */
        snprintf(ini, sizeof ini,
                 "[pipeline]\nprocessors = lua:%s\n"
                 "[generation]\nmax_new_tokens = 16\nguidance_scale = 3.0\n%s",
                 twin, cases[i].ini);
        must(ask(*state, ini, cases[i].json, cases[i].drafts, &lua, &err), &err);
        expect_same(native, lua, cases[i].name);
        snprintf(ini, sizeof ini, "[generation]\nmax_new_tokens = 16\n%s", cases[i].ini);
        must(ask(*state, ini, cases[i].json, cases[i].drafts, &plain, &err), &err);
        uint32_t n, m;
        const int32_t *x = cdz_result_sequence(native, 0, &n),
                      *y = cdz_result_sequence(plain, 0, &m);
        guided += n != m || memcmp(x, y, n * sizeof *x) != 0;
        cdz_result_free(native);
        cdz_result_free(lua);
        cdz_result_free(plain);
    }
    assert_true(guided >= 5);
}

static void mistakes_are_told(void **state)
{
    static const struct {
        const char *companion, *apply, *said;
    } cases[] = {
        {"return 3", "", "companion returned a number, expected a table or nothing"},
        {"return { from = -1 }", "", "companion: from must be an integer from 0"},
        {"return { prefix = { 72 }, mask = { 1, 0 } }", "",
         "companion: a mask of 2 for a prefix of 1 ids"},
        {"return { from = ctx.prompt_len - 1 }", "ctx:companion_logits():fill(0)",
         "(copy it to work on it)"},
        {"return { from = ctx.prompt_len - 1 }", "ctx:companion_logits(2)",
         "is no row of this call"},
        {"ctx:companion_logits()", "", "is no row of this call"},
        {"error('no guidance today')", "", "no guidance today"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[] = "/tmp/cadenza-companion-XXXXXX.lua", ini[200];
        const int fd = mkstemps(path, 4);
        cdz_error err = {0};
        cdz_result *result;
        FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
        assert_non_null(file);
        fprintf(file,
                "return cadenza.processor { id = 'test.away', version = '1.0.0',\n"
                "  companion = function(p, row, ctx) %s end,\n"
                "  apply = function(p, ids, row, ctx) %s end }\n",
                cases[i].companion, cases[i].apply);
        assert_int_equal(fclose(file), 0);
        snprintf(
            ini, sizeof ini,
            "[pipeline]\nprocessors = lua:%s\n[generation]\ndo_sample = no\nmax_new_tokens = 4\n",
            path);
        const cdz_status st =
            ask(*state, ini, "{\"prompt\": \"river (noun): a\"}", false, &result, &err);
        if (st == CDZ_OK || !strstr(err.text, cases[i].said))
            fail_msg("%s / %s: %s", cases[i].companion, cases[i].apply,
                     st == CDZ_OK ? "nothing was said" : err.text);
        cdz_result_free(result);
        remove(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guidance_in_lua_is_guidance),
        cmocka_unit_test(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
