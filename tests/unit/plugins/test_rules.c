/* test_rules.c - the package rules: what a .rules file may say and in which words it is refused, and that its processor
 * does to answers of the shipped model what sequence_bias does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/plugins.h"
#include "base/buf.h"
#include "cadenza/cadenza.h"
#include "describe/descriptor.h"
#include "params/params.h"
#include "support/opened.h"

#define MODEL  CADENZA_SOURCE_DIR "/models/pocket-dictionary"
#define PROMPT "river (noun): a"

static char home[64];

static int enter(void **state)
{
    (void)state;
    memcpy(home, "/tmp/cadenza-test-XXXXXX", sizeof "/tmp/cadenza-test-XXXXXX");
    return mkdtemp(home) ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    return rmdir(home);
}

static const char *write_rules(const char *text, size_t len)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/t.rules", home);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* --- what is read --------------------------------------------------------------------------------------------- */

#define TEXT(s) s, sizeof(s) - 1

static const struct {
    const char *name, *text;
    size_t len;
    const char *sentence; /* NULL: taken */
} files[] = {
    {"a ban", TEXT("ban damn"), NULL},
    {"a bias", TEXT("bias \" sea\" +2.5\n"), NULL},
    {"comments, blanks and line ends of another system",
     TEXT("# one\r\n\r\n \t# two\r\nban a # three\r\nbias b -1 # four\r\n"), NULL},
    {"everything",
     TEXT("id a.b\nversion 2.0.1\nsummary A # is no comment\n"
          "param p 1 0 2 how much\nbias x 1.25 p\nban \"\\\"\\\\\\n\\t\"\n"),
     NULL},
    {"letters beyond ASCII", TEXT("ban \xc3\xa9t\xc3\xa9\n"), NULL},
    {"a word with a # in it", TEXT("ban a#b\n"), NULL},
    {"fifteen digits", TEXT("bias a 12345678901.2345\n"), NULL},
    {"nothing", TEXT(""), "t.rules: holds no rule"},
    {"only a comment", TEXT("# ban a\n"), "t.rules: holds no rule"},
    {"an unknown word", TEXT("ban a\nbann b\n"), "t.rules:2: 'bann' is not known: expected id"},
    {"a capital", TEXT("Ban a\n"), "'Ban' is not known"},
    {"a NUL byte", TEXT("ban a\n\0"), "t.rules:2: "},
    {"a NUL in an id", TEXT("id a\0b\nban a\n"), "t.rules:1: "},
    {"a NUL in a summary", TEXT("summary a\0b\nban a\n"), "t.rules:1: a NUL byte"},
    {"no text", TEXT("ban\n"), "t.rules:1: the text is missing"},
    {"an empty text", TEXT("ban \"\"\n"), "t.rules:1: the text is empty"},
    {"a comment for a text", TEXT("ban # a\n"), "the text is missing"},
    {"no closing quote", TEXT("ban \"a\nban b\n"), "t.rules:1: the text has no closing \""},
    {"a quote that is cut in an escape", TEXT("ban \"a\\"), "no closing \""},
    {"an escaped closing quote", TEXT("ban \"a\\\""), "no closing \""},
    {"an unknown escape", TEXT("ban \"a\\x\"\n"), "t.rules:1: \\x is not known"},
    {"two texts", TEXT("ban a b\n"), "t.rules:1: 'b' is more than a line with ban takes"},
    {"no number", TEXT("bias a\n"), "t.rules:1: the bias is missing"},
    {"a number with an exponent", TEXT("bias a 1e3\n"), "the bias is '1e3': expected a number"},
    {"a decimal comma", TEXT("bias a 1,5\n"), "'1,5'"},
    {"a sign alone", TEXT("bias a -\n"), "'-'"},
    {"a point alone", TEXT("bias a .\n"), "'.'"},
    {"a point at the end", TEXT("bias a 1.\n"), "'1.'"},
    {"nan", TEXT("bias a nan\n"), "'nan'"},
    {"sixteen digits", TEXT("bias a 1234567890.123456\n"), "at most 15 digits"},
    {"a parameter that is not there", TEXT("bias a 1 p\n"),
     "t.rules:1: 'p' is no parameter of this file"},
    {"a parameter that comes too late", TEXT("bias a 1 p\nparam p 1 0 2 x\n"),
     "'p' is no parameter"},
    {"a parameter twice", TEXT("param p 1 0 2 x\nparam p 1 0 2 x\nban a\n"),
     "t.rules:2: a second parameter p"},
    {"a default out of range", TEXT("param p 3 0 2 x\nban a\n"), "default is out of range"},
    {"a parameter with a bad name", TEXT("param P! 1 0 2 x\nban a\n"), "parameter 0 has a bad name"},
    {"an id twice", TEXT("id a\nid b\nban a\n"), "t.rules:2: a second id"},
    {"a bad id", TEXT("id A\nban a\n"), "'A' is no plugin id"},
    {"a bad version", TEXT("version one\nban a\n"), "has no version"},
};

static cdz_registry *open_registry(void)
{
    const cdz_registry_options options = {.builtin_dir = CADENZA_BUILD_DIR "/lib/cadenza"};
    cdz_registry *r = NULL;
    cdz_error err = {0};
    if (cdz_plugins_open(&options, NULL, 0, &r, &err) != CDZ_OK) fail_msg("%s", err.text);
    return r;
}

static void each_file_is_taken_or_refused(void **state)
{
    (void)state;
    cdz_registry *r = open_registry();
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        cdz_error err = {0};
        const char *path = write_rules(files[i].text, files[i].len);
        const cdz_status st = cdz_registry_load(r, path, 0, NULL, &err);
        unlink(path);
        if (files[i].sentence ? st == CDZ_OK || !strstr(err.text, files[i].sentence) : st != CDZ_OK)
            fail_msg("%s: %d, '%s'", files[i].name, (int)st, err.text);
    }
    cdz_registry_free(r);
}

static void what_is_too_much_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line, *sentence;
        int times;
    } much[] = {{"ban a\n", "t.rules:4097: more than 4096 rules", 4097},
                {"param p%d 1 0 2 x\n", "t.rules:17: more than 16 parameters", 17},
                {"#23456789 123456789 123456789 123456789 12345678\n", "the limit is 65536", 1400}};
    cdz_registry *r = open_registry();
    for (size_t i = 0; i < sizeof much / sizeof much[0]; i++) {
        cdz_buf text = {0};
        cdz_error err = {0};
        for (int k = 0; k < much[i].times; k++) {
            if (strchr(much[i].line, '%'))
                cdz_buf_printf(&text, "param p%d 1 0 2 x\n", k);
            else
                cdz_buf_puts(&text, much[i].line);
        }
        const char *path = write_rules(text.data, text.len);
        const cdz_status st = cdz_registry_load(r, path, 0, NULL, &err);
        unlink(path);
        cdz_buf_free(&text);
        if (st == CDZ_OK || !strstr(err.text, much[i].sentence)) fail_msg("'%s'", err.text);
    }
    cdz_registry_free(r);
}

static void a_file_says_what_it_is(void **state)
{
    (void)state;
    cdz_registry *r = open_registry();
    cdz_plugin_ref ref = {0};
    cdz_error err = {0};
    const char *path = write_rules(TEXT("param sea 1 0 4 how much\nbias x 1 sea\n"));
    if (cdz_registry_load(r, path, CDZ_KIND_PROCESSOR, &ref, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    unlink(path);
    const cdz_param_table table = cdz_params_of(ref.base);
    const cdz_param *sea = cdz_param_find(&table, "sea");
    assert_string_equal(ref.base->id, "rules.t");
    assert_string_equal(ref.base->version, "1.0.0");
    assert_non_null(sea);
    assert_string_equal(sea->help, "how much");
    assert_true(sea->def == 1 && sea->min == 0 && sea->max == 4);
    cdz_module_release(ref.module);
    cdz_registry_free(r);
}

/* --- what it does ---------------------------------------------------------------------------------------------- */

static cdz_runtime *runtime;
static cdz_model *model;

static int open_model(void **state)
{
    (void)state;
    runtime = opened_runtime(NULL);
    model = opened_model(runtime, MODEL);
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    cdz_model_close(model);
    cdz_close(runtime);
    return 0;
}

static cdz_pipeline *parse(const char *ini)
{
    cdz_pipeline *pipeline = NULL;
    cdz_error err = {0};
    if (cdz_pipeline_parse(runtime, ini, strlen(ini), "t.ini", &pipeline, &err) != CDZ_OK ||
        cdz_pipeline_set(pipeline, "do_sample", "no", &err) != CDZ_OK ||
        cdz_pipeline_set(pipeline, "max_new_tokens", "24", &err) != CDZ_OK)
        fail_msg("%s: %s", ini, err.text);
    return pipeline;
}

/* The answer to the prompt; free it. */
static char *generate(cdz_pipeline *pipeline)
{
    cdz_result *result = NULL;
    cdz_error err = {0};
    const cdz_request request = {
        .size = sizeof request, .model = model, .pipeline = pipeline, .prompt = PROMPT};
    if (cdz_generate(runtime, &request, &result, &err) != CDZ_OK) fail_msg("%s", err.text);
    char *text = strdup(cdz_result_text(result, 0));
    assert_non_null(text);
    cdz_result_free(result);
    return text;
}

static char *answer(const char *ini)
{
    cdz_pipeline *pipeline = parse(ini);
    char *text = generate(pipeline);
    cdz_pipeline_free(pipeline);
    return text;
}

/* A JSON list of the ids of a text. */
static void add_ids(cdz_buf *out, const char *text)
{
    int32_t *ids = NULL;
    size_t n = 0;
    cdz_error err = {0};
    if (cdz_tokenize(model, text, strlen(text), false, &ids, &n, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < n; i++) cdz_buf_printf(out, "%s%d", i ? ", " : "[", ids[i]);
    cdz_buf_puts(out, "]");
    cdz_free(ids);
}

static const struct {
    const char *name, *rules;
    const char *texts[3]; /* the same as sequence_bias: */
    double biases[3];
    const char *settings; /* of the file's section */
} effects[] = {
    {"a bias on one token", "bias \" large\" -20\n", {" large"}, {-20}, ""},
    {"a ban", "ban \" large\"\n", {" large"}, {-10000}, ""},
    {"a bias on a text of several tokens",
     "bias \" large natural\" -30\n",
     {" large natural"},
     {-30},
     ""},
    {"two", "bias \" large\" -20\nbias \" strong\" -20\n", {" large", " strong"}, {-20, -20}, ""},
    {"a parameter by its default", "param p 2 0 4 x\nbias \" large\" -10 p\n", {" large"}, {-20}, ""},
    {"a parameter set to nothing",
     "param p 2 0 4 x\nbias \" large\" -10 p\n",
     {" large"},
     {0},
     "p = 0\n"},
    {"one text twice", "bias \" large\" -9\nbias \" large\" -11\n", {" large"}, {-20}, ""},
};

static void it_does_what_sequence_bias_does(void **state)
{
    (void)state;
    unsigned changed = 0;
    char *plain = answer("[pipeline]\n");
    for (size_t i = 0; i < sizeof effects / sizeof effects[0]; i++) {
        cdz_buf mine = {0}, theirs = {0};
        const char *path = write_rules(effects[i].rules, strlen(effects[i].rules));
        cdz_buf_printf(&mine, "[pipeline]\nprocessors = rules:%s\n[rules:%s]\n%s", path, path,
                       effects[i].settings);
        cdz_buf_puts(&theirs, "[generation]\nsequence_bias = [");
        for (int k = 0; k < 3 && effects[i].texts[k]; k++) {
            cdz_buf_puts(&theirs, k ? ", [" : "[");
            add_ids(&theirs, effects[i].texts[k]);
            cdz_buf_printf(&theirs, ", %.1f]", effects[i].biases[k]);
        }
        cdz_buf_puts(&theirs, "]\n");
        char *a = answer(mine.data), *b = answer(theirs.data);
        if (strcmp(a, b) != 0) fail_msg("%s: '%s', not '%s'", effects[i].name, a, b);
        changed += strcmp(a, plain) != 0;
        free(a);
        free(b);
        cdz_buf_free(&mine);
        cdz_buf_free(&theirs);
        unlink(path);
    }
    assert_int_equal(changed, sizeof effects / sizeof effects[0] - 1);
    free(plain);
}

/* A changed file changes a pipeline that has it, as a script does. */
static void a_changed_file_is_taken_up(void **state)
{
    (void)state;
    cdz_error err = {0};
    char ini[256];
    snprintf(ini, sizeof ini, "[pipeline]\nprocessors = rules:%s\n",
             write_rules(TEXT("bias \" large\" 0\n")));
    cdz_pipeline *pipeline = parse(ini);
    char *before = generate(pipeline);
    const char *path = write_rules(TEXT("# the second version\nban \" large\"\n"));
    if (cdz_pipeline_reload(pipeline, model, &err) != CDZ_OK) fail_msg("%s", err.text);
    char *after = generate(pipeline);
    assert_non_null(strstr(before, " large"));
    assert_null(strstr(after, " large"));

    write_rules(TEXT("ben \" natural\"\n")); /* the version before it goes on */
    assert_int_not_equal(cdz_pipeline_reload(pipeline, model, &err), CDZ_OK);
    assert_non_null(strstr(err.text, "t.rules:1: 'ben' is not known"));
    char *still = generate(pipeline);
    assert_string_equal(still, after);
    unlink(path);
    free(before);
    free(after);
    free(still);
    cdz_pipeline_free(pipeline);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, enter, leave)
    const struct CMUnitTest tests[] = {
        CASE(each_file_is_taken_or_refused), CASE(what_is_too_much_is_refused),
        CASE(a_file_says_what_it_is),        CASE(it_does_what_sequence_bias_does),
        CASE(a_changed_file_is_taken_up),
    };
    return cmocka_run_group_tests_name("rules", tests, open_model, close_model);
}
