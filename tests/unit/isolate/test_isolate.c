/* test_isolate.c - plugins in a process of their own: the same numbers as in this one, and nothing that they do there
 * reaches more than the request they were asked for. */
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
#include "base/sanitized.h"
#include "cadenza/cadenza.h"
#include "support/isolated.h"
#include "support/opened.h"

#if CDZ_WITH_TSAN /* has a last word */
#define EARLY "66"
#else
#define EARLY "7"
#endif

static const char bad_so[] = CADENZA_BUILD_DIR "/tests/isolate/misdeed.so";
/* The second ends before the first. */
static const char rows_json[] =
    "{\"prompt_ids\": [[360,336,299,261], [1037,512,299,270]], \"kwargs\": {\"output_scores\": true, "
    "\"return_dict_in_generate\": true}}";
/* As little as a plugin needs to be called: some of these tests make a hundred requests. */
static const char row_json[] = "{\"prompt_ids\": [[360,336]]}";

static int open_all(void **state)
{
    *state = fixture_open(NULL, 2);
    return 0;
}

static int close_all(void **state)
{
    const fixture *f = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/out.safetensors", f->folder);
    unlink(path);
    fixture_close(*state);
    return 0;
}

/* --- the same numbers ---------------------------------------------------------------------------------------------- */

/* Everything the request recorded: sequences and the scores of every step. */
static char *record_of(const fixture *f, const cdz_result *result, size_t *len)
{
    char path[128], *bytes;
    cdz_error err = {0};
    snprintf(path, sizeof path, "%s/out.safetensors", f->folder);
    must(cdz_result_save(result, path, &err), &err);
    must(cdz_file_read(path, 1u << 28, &bytes, len, &err), &err);
    return bytes;
}

static char *run_record(const fixture *f, const char *what, const char *ini, size_t *len)
{
    cdz_result *result = NULL;
    cdz_error err = {0};
    cdz_pipeline *pipeline = parse(f, ini);
    const cdz_status st = generate(f, pipeline, rows_json, &result, &err);
    if (st != CDZ_OK) fail_msg("%s: %s", what, err.text);
    char *bytes = record_of(f, result, len);
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
    return bytes;
}

typedef struct plugin_case {
    const char *section;    /* of the plugin */
    const char *pipeline;   /* keys of [pipeline] */
    const char *generation; /* keys of [generation] */
    const char *own;        /* keys of its section */
} plugin_case;

static const plugin_case plugins[] = {
    {"alternating_codebooks", "processors = alternating_codebooks", "",
     "semantic_vocab_size = 500\ncodebook_size = 700\n"},
    {"bad_words_ids", "", "bad_words_ids = [[845], [1535, 3704]]\n", ""},
    {"bark_eos_prioritizer", "processors = bark_eos_prioritizer", "", "min_eos_p = 0.2\n"},
    {"begin_suppress_tokens", "", "begin_suppress_tokens = [845, 3704]\n", ""},
    {"encoder_no_repeat_ngram_size", "", "encoder_no_repeat_ngram_size = 2\n", ""},
    {"encoder_repetition_penalty", "", "encoder_repetition_penalty = 1.5\n", ""},
    {"epsilon_cutoff", "", "epsilon_cutoff = 0.003\n", ""},
    {"eta_cutoff", "", "eta_cutoff = 0.0006\n", ""},
    {"exponential_decay_length_penalty", "", "exponential_decay_length_penalty = [3, 1.2]\n", ""},
    {"forced_bos_token_id", "", "forced_bos_token_id = 845\n", ""},
    {"forced_eos_token_id", "", "forced_eos_token_id = 0\n", ""},
    {"min_length", "", "min_length = 12\n", ""},
    {"min_new_tokens", "", "min_new_tokens = 5\n", ""},
    {"min_p", "", "min_p = 0.1\n", ""},
    {"no_repeat_ngram_size", "", "no_repeat_ngram_size = 2\n", ""},
    {"prefix_allowed_tokens", "",
     "prefix_allowed_tokens = {\"cycle\": [[72, 480], [292, 305, 299]]}\n", ""},
    {"remove_invalid_values", "", "remove_invalid_values = true\n", ""},
    {"renormalize_logits", "", "renormalize_logits = true\n", ""},
    {"repetition_penalty", "", "repetition_penalty = 1.3\n", ""},
    {"sequence_bias", "", "sequence_bias = [[[845], -5.0], [[316, 270], 3.0]]\n", ""},
    {"suppress_tokens", "", "suppress_tokens = [845, 3704]\n", ""},
    {"temperature", "", "temperature = 0.7\n", ""},
    {"top_h", "", "top_h = 0.4\n", ""},
    {"top_k", "", "top_k = 5\n", ""},
    {"top_p", "", "top_p = 0.6\n", ""},
    {"typical_p", "", "typical_p = 0.6\n", ""},
    {"watermarking_config", "", "watermarking_config = {\"bias\": 2.5, \"greenlist_ratio\": 0.4}\n",
     ""},
    {"watermarking_config", "",
     "watermarking_config = {\"type\": \"synthid\", \"ngram_len\": 3, \"keys\": [654, 400, 836]}\n",
     ""},
    {"dry", "processors = dry", "", "multiplier = 1.2\nbase = 2.0\n"},
    {"smoothing", "processors = smoothing", "", "smoothing_factor = 0.4\n"},
    {"tail_free", "processors = tail_free", "", "tfs_z = 0.8\n"},
    {"top_n_sigma", "processors = top_n_sigma", "", ""},
    {"stop_strings", "", "stop_strings = [\"stream\", \"er \"]\n", ""},
    {"max_length", "", "", ""},
    {"eos_token_id", "", "eos_token_id = [18, 4]\n", ""},
    {"max_time", "", "max_time = 300\n", ""},
    {"prompt_lookup", "drafter = prompt_lookup", "prompt_lookup_num_tokens = 4\n", ""},
};

typedef struct mode_case {
    const char *name, *generation;
    bool drafts;
} mode_case;

static const mode_case modes[] = {
    {"greedy", "do_sample = false\n", false},
    {"sample", "do_sample = true\nseed = 7\n", false},
    {"beam", "do_sample = false\nnum_beams = 3\n", false},
    {"beam sample", "do_sample = true\nnum_beams = 2\nseed = 3\n", false},
};

static void ini_of(const plugin_case *p, const mode_case *m, bool apart, char *out, size_t bytes)
{
    snprintf(out, bytes, "[pipeline]\n%s\n[generation]\nmax_new_tokens = 8\n%s%s[%s]\n%s%s",
             p->pipeline, m->generation, p->generation, p->section, p->own,
             apart ? "isolation = process\n" : "");
}

/* One row at a time: drafts are for one. */
static void compare(const fixture *f, const plugin_case *p, const mode_case *m)
{
    char here[1024], there[1024], what[128];
    size_t n_here, n_there;
    ini_of(p, m, false, here, sizeof here);
    ini_of(p, m, true, there, sizeof there);
    snprintf(what, sizeof what, "%s, %s", p->section, m->name);
    char *a = run_record(f, what, here, &n_here), *b = run_record(f, what, there, &n_there);
    if (n_here != n_there || memcmp(a, b, n_here) != 0)
        fail_msg("%s: not the same numbers in a process of its own", what);
    free(a);
    free(b);
}

static void same_numbers(void **state)
{
    for (size_t i = 0; i < sizeof plugins / sizeof plugins[0]; i++) {
        const bool drafter = strncmp(plugins[i].pipeline, "drafter", 7) == 0;
        for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++)
            if (!drafter) compare(*state, &plugins[i], &modes[m]);
    }
}

static char *run_one(const fixture *f, const char *ini, size_t *len)
{
    static const char one[] = "{\"prompt\": \"She sang a song. She sang a\", \"kwargs\": "
                              "{\"output_scores\": true, \"return_dict_in_generate\": true}}";
    cdz_result *result = NULL;
    cdz_error err = {0};
    cdz_pipeline *pipeline = parse(f, ini);
    must(generate(f, pipeline, one, &result, &err), &err);
    char *bytes = record_of(f, result, len);
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
    return bytes;
}

/* Drafts, and what judges them: rewound rows, hypothetical prefixes, rows of a draft side by side. */
static void same_drafts(void **state)
{
    static const char lines[] =
        "[pipeline]\ndrafter = %s\nprocessors = %s\n[generation]\nmax_new_tokens = 16\n"
        "do_sample = %s\nseed = 5\nprompt_lookup_num_tokens = 4\nrepetition_penalty = 1.1\n"
        "no_repeat_ngram_size = 3\nstop_strings = [\"stream\"]\n[prompt_lookup]\n%s[mine]\n"
        "id = %s\n%s[test.misdeed_draft]\n%s[repetition_penalty]\n%s[stop_strings]\n%s";
    static const char *const drafters[] = {"prompt_lookup", "test.misdeed_draft"};
    cdz_pipeline *known = NULL; /* makes the ids of the file known, as --plugin does */
    char ini[1024], first[200];
    snprintf(first, sizeof first, "[pipeline]\nprocessors = mine\n[mine]\nid = %s\n", bad_so);
    known = opened_pipeline(((fixture *)*state)->rt, first);
    for (size_t d = 0; d < 2; d++)
        for (int sample = 0; sample < 2; sample++) {
            char *bytes[2];
            size_t n[2];
            for (int apart = 0; apart < 2; apart++) {
                const char *i = apart ? "isolation = process\n" : "";
                snprintf(ini, sizeof ini, lines, drafters[d], "mine", sample ? "true" : "false", i,
                         bad_so, i, i, i, i);
                bytes[apart] = run_one(*state, ini, &n[apart]);
            }
            if (n[0] != n[1] || memcmp(bytes[0], bytes[1], n[0]) != 0)
                fail_msg("%s, sample %d: not the same numbers in a process of its own", drafters[d],
                         sample);
            free(bytes[0]);
            free(bytes[1]);
        }
    cdz_pipeline_free(known);
}

/* --- misdeeds -------------------------------------------------------------------------------------------------------- */

typedef struct deed_case {
    const char *deed;
    const char *want; /* part of the sentence; NULL: it does no harm */
} deed_case;

static const deed_case deeds[] = {
    {"segv", "its process crashed (SIGSEGV) in apply"},
    {"abort", "its process crashed (SIGABRT) in apply"},
    {"loop", "apply took longer than 200 ms (deadline_ms); its process was ended"},
    {"exit", "its process exited with status 3 in apply"},
    {"rows", "its process crashed (SIGSEGV) in apply"},
    {"below", NULL},
    {"open", "asked the kernel for openat"},
    {"write", "asked the kernel for openat"},
    {"fork", "asked the kernel for clone"},
    {"thread", "asked the kernel for "},
    {"socket", "asked the kernel for socket"},
    {"kill", "asked the kernel for kill"},
    {"exec", "asked the kernel for execve"},
    {"code", "asked the kernel for mmap"},
    {"prints", NULL},
    {"closes", NULL}, /* for good: the process goes on without */
    {"memory", "its process crashed (SIGABRT) in apply"},
    {"deep", "its process crashed (SIGSEGV) in apply"},
    {"forges", "its process gave no proper answer in apply"},
    {"lies", "its process gave no proper answer in apply"},
    {"floods", "apply took longer than 200 ms (deadline_ms); its process was ended"},
    {"refuses", "test.misdeed: not with ?[31mme?"},
    {"status", "apply returned 77, which is no status"},
};

/* A short deadline for what is to pass it; the others get time enough for a busy machine. */
static void misdeed_ini(const char *key, const char *deed, char *out, size_t bytes)
{
    const bool endless = strcmp(deed, "loop") == 0 || strcmp(deed, "floods") == 0;

    snprintf(out, bytes,
             "[pipeline]\nprocessors = bad\n[generation]\nmax_new_tokens = 6\nseed = 1\n"
             "do_sample = false\neos_token_id = none\n[bad]\nid = %s\nisolation = process\n"
             "deadline_ms = %d\n%s = %s\n",
             bad_so, endless ? 200 : 20000, key, deed);
}

/* Whatever it did: the next request is served, by a new process if need be. */
static void serves_again(const fixture *f, const char *what)
{
    char ini[512];
    cdz_error err = {0};
    cdz_result *result = NULL;
    misdeed_ini("deed", "none", ini, sizeof ini);
    for (int tries = 0;; tries++) { /* after crashes in a row it is started later */
        cdz_pipeline *pipeline = parse(f, ini);
        const cdz_status st = generate(f, pipeline, row_json, &result, &err);
        cdz_pipeline_free(pipeline);
        cdz_result_free(result);
        result = NULL;
        if (st == CDZ_OK) return;
        if (tries == 100 || !strstr(err.text, "it is started again in"))
            fail_msg("after %s: %s", what, err.text);
        usleep(50 * 1000);
    }
}

/* A flood ends by its number or by its deadline: which comes first is the machine's matter. */
static bool says(const char *text, const deed_case *c)
{
    return strstr(text, c->want) || (strcmp(c->deed, "floods") == 0 &&
                                     strstr(text, "its process asked questions without end"));
}

static void misdeeds(void **state)
{
    const fixture *f = *state;
    for (size_t i = 0; i < sizeof deeds / sizeof deeds[0]; i++) {
        const deed_case *c = &deeds[i];
        char ini[512];
        cdz_error err = {0};
        cdz_result *result = NULL;
#if CDZ_SANITIZED /* no limit of memory, and code of their own */
        if (strcmp(c->deed, "memory") == 0) continue;
#endif
#if CDZ_WITH_TSAN /* its fork takes locks of its own first */
        if (strcmp(c->deed, "fork") == 0) continue;
#endif
        misdeed_ini("deed", c->deed, ini, sizeof ini);
        cdz_pipeline *pipeline = parse(f, ini);
        const cdz_status st = generate(f, pipeline, row_json, &result, &err);
        if (c->want && st == CDZ_OK) fail_msg("%s: the request went well", c->deed);
        if (c->want && !says(err.text, c))
            fail_msg("%s: '%s', expected '%s'", c->deed, err.text, c->want);
        if (!c->want && st != CDZ_OK) fail_msg("%s: %s", c->deed, err.text);
        cdz_result_free(result);
        cdz_pipeline_free(pipeline);
        serves_again(f, c->deed);
    }
    assert_int_equal(access("/tmp/cadenza-misdeed", F_OK), -1);
}

static void in_begin(void **state)
{
    char ini[512];
    cdz_error err = {0};
    cdz_result *result = NULL;
    misdeed_ini("begin", "segv", ini, sizeof ini);
    cdz_pipeline *pipeline = parse(*state, ini);
    assert_int_equal(generate(*state, pipeline, row_json, &result, &err), CDZ_E_PLUGIN);
    assert_non_null(strstr(err.text, "its process crashed (SIGSEGV) in begin"));
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
    serves_again(*state, "begin");
}

typedef struct kind_case {
    const char *pipeline, *section, *deed, *want;
    cdz_status status;
} kind_case;

static const kind_case kinds[] = {
    {"stopping = test.misdeed_stop", "test.misdeed_stop", "segv", "crashed (SIGSEGV) in test",
     CDZ_E_PLUGIN},
    {"drafter = test.misdeed_draft", "test.misdeed_draft", "segv", "crashed (SIGSEGV) in propose",
     CDZ_E_PLUGIN},
    {"drafter = test.misdeed_draft", "test.misdeed_draft", "verbs",
     "seq_value: a drafter in a process of its own (isolation = process) has no models",
     CDZ_E_UNSUPPORTED},
};

static void other_kinds(void **state)
{
    const fixture *f = *state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        static const char one[] = "{\"prompt\": \"a dog is a\"}";
        char ini[512];
        cdz_error err = {0};
        cdz_result *result = NULL;
        snprintf(ini, sizeof ini,
                 "[pipeline]\n%s\nprocessors = mine\n[generation]\nmax_new_tokens = 6\n"
                 "eos_token_id = none\ndo_sample = false\n[mine]\nid = %s\n[%s]\n"
                 "isolation = process\ndeed = %s\n",
                 kinds[i].pipeline, bad_so, kinds[i].section, kinds[i].deed);
        serves_again(f, "before");
        cdz_pipeline *pipeline = parse(f, ini);
        assert_int_equal(generate(f, pipeline, one, &result, &err), kinds[i].status);
        if (!strstr(err.text, kinds[i].want)) fail_msg("%s: %s", kinds[i].section, err.text);
        cdz_result_free(result);
        cdz_pipeline_free(pipeline);
    }
}

/* Several requests of one file, decoded together; one of them ends the process that serves them all. */
static void others_go_on(void **state)
{
    enum { N = 6 };
    static const char *const what[N] = {"none", "none", "segv", "none", "loop", "none"};
    const fixture *f = *state;
    cdz_pipeline *pipelines[N];
    uint64_t ids[N];
    char ini[512];
    size_t want_len, len;
    cdz_error err = {0};
    serves_again(f, "before");
    misdeed_ini("deed", "none", ini, sizeof ini);
    char *want = run_record(f, "alone", ini, &want_len);
    for (int i = 0; i < N; i++) {
        misdeed_ini("deed", what[i], ini, sizeof ini);
        pipelines[i] = parse(f, ini);
        const cdz_request request = {
            .size = sizeof request, .model = f->model, .pipeline = pipelines[i], .json = rows_json};
        must(cdz_submit(f->rt, &request, &ids[i], &err), &err);
    }
    for (int i = 0; i < N; i++) {
        cdz_result *result = NULL;
        const cdz_status st = cdz_wait(f->rt, ids[i], &result, &err);
        const bool bad = strcmp(what[i], "none") != 0;
        if (bad != (st != CDZ_OK)) fail_msg("request %d, %s: %s", i, what[i], err.text);
        char *got = bad ? NULL : record_of(f, result, &len);
        if (got && (len != want_len || memcmp(got, want, len) != 0))
            fail_msg("request %d: other numbers than alone", i);
        free(got);
        cdz_result_free(result);
        cdz_pipeline_free(pipelines[i]);
    }
    free(want);
}

/* --- refusals ---------------------------------------------------------------------------------------------------------- */

typedef struct refusal_case {
    const char *ini, *want;
} refusal_case;

static const refusal_case refusals[] = {
    {"[pipeline]\nstrategy = greedy\n[greedy]\nisolation = process\n",
     "[greedy] isolation = process: only processors, stopping criteria and drafters"},
    {"[pipeline]\nprocessors = xtc\n[xtc]\nisolation = process\n",
     "isolation = process is for native code; a script runs in the sandbox already"},
    {"[temperature]\nisolation = yes\n",
     "[temperature] isolation: there is no 'yes', expected none or process"},
    {"[pipeline]\nisolation = container\n[generation]\ntemperature = 0.5\n",
     "[pipeline] isolation: there is no 'container', expected none or process"},
    {"[generation]\ntemperature = 0.5\ndo_sample = yes\n[temperature]\nisolation = process\n"
     "deadline_ms = 0\n",
     "deadline_ms"},
    {"[pipeline]\nprocessors = mine\n[mine]\nid = " CADENZA_BUILD_DIR
     "/tests/isolate/early_aborts.so\nisolation = process\n",
     "its process crashed (SIGABRT) when it was opened"},
    {"[pipeline]\nprocessors = mine\n[mine]\nid = " CADENZA_BUILD_DIR
     "/tests/isolate/early_exits.so\nisolation = process\n",
     "its process exited with status " EARLY " when it was opened"},
    {"[pipeline]\nprocessors = mine\n[mine]\nid = " CADENZA_BUILD_DIR
     "/tests/zoo/other_minor.so\nisolation = process\n",
     "ABI"},
    {"[pipeline]\nprocessors = mine\n[mine]\nid = " CADENZA_BUILD_DIR
     "/lib/cadenza/greedy.so\nisolation = process\n",
     "holds no processor, criterion or drafter"},
};

static void refused(void **state)
{
    const fixture *f = *state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        cdz_error err = {0};
        cdz_pipeline *pipeline = NULL;
        const char *ini = refusals[i].ini;
        const cdz_status st =
            cdz_pipeline_parse(f->rt, ini, strlen(ini), "test.ini", &pipeline, &err);
        if (st == CDZ_OK) fail_msg("%s: taken", ini);
        if (!strstr(err.text, refusals[i].want))
            fail_msg("'%s', expected '%s'", err.text, refusals[i].want);
    }
}

/* What a plugin wants of the host and cannot have there is told before anything runs. */
static void needs_too_much(void **state)
{
    static const char one[] = "{\"prompt\": \"a\", \"kwargs\": {\"guidance_scale\": 1.5}}";
    static const char ini[] = "[guidance_scale]\nisolation = process\n";
    cdz_error err = {0};
    cdz_result *result = NULL;
    cdz_pipeline *pipeline = parse(*state, ini);
    assert_int_equal(generate(*state, pipeline, one, &result, &err), CDZ_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "runs the model beside each row (cadenza.companion/1)"));
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
}

/* Before its first call, too, the plugin reads no file of the user's. */
static void constructor_is_held(void **state)
{
    static const char ini[] = "[pipeline]\nprocessors = mine\n[mine]\nid = " CADENZA_BUILD_DIR
                              "/tests/isolate/early_opens.so\nisolation = process\n"
                              "deadline_ms = 20000\n";
    cdz_error err = {0};
    cdz_result *result = NULL;
    char *text = NULL;
    cdz_pipeline *pipeline = parse(*state, ini);
    must(cdz_pipeline_explain(pipeline, NULL, &text, &err), &err);
    assert_non_null(strstr(text, "in a process of its own ("));
    const bool closed = strstr(text, "files closed to it") != NULL;
    cdz_free(text);
    if (closed) must(generate(*state, pipeline, rows_json, &result, &err), &err);
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
}

/* --- nothing is left --------------------------------------------------------------------------------------------------- */

static size_t count_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    size_t n = 0;
    assert_non_null(dir);
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

static void nothing_leaks(void **state)
{
    const fixture *f = *state;
    char good[512], bad[512];
    cdz_error err = {0};
    size_t before = 0;
    serves_again(f, "before");
    misdeed_ini("deed", "none", good, sizeof good);
    misdeed_ini("deed", "segv", bad, sizeof bad);
    for (int i = 0; i < 200; i++) {
        cdz_result *result = NULL;
        cdz_pipeline *pipeline = parse(f, i % 20 == 10 ? bad : good);
        (void)generate(f, pipeline, "{\"prompt\": \"a dog\"}", &result, &err);
        cdz_result_free(result);
        cdz_pipeline_free(pipeline);
        if (i == 20) before = count_entries("/proc/self/fd");
    }
    assert_int_equal(count_entries("/proc/self/fd"), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_numbers),
        cmocka_unit_test(same_drafts),
        cmocka_unit_test(misdeeds),
        cmocka_unit_test(in_begin),
        cmocka_unit_test(other_kinds),
        cmocka_unit_test(others_go_on),
        cmocka_unit_test(refused),
        cmocka_unit_test(needs_too_much),
        cmocka_unit_test(constructor_is_held),
        cmocka_unit_test(nothing_leaks),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
