/* test_mutants.c - keeps `cadenza plugin test` honest: one sound plugin of each kind (tests/plugins/mutants) passes every check, and
 * each of its planted bugs fails the check that is meant for it, and no other. CMakeLists.txt builds one shared object for
 * each line of the table below. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/sanitized.h"
#include "support/small_model.h"

enum { PATIENT_MS = 240000, SHORT_MS = CDZ_SANITIZED ? 30000 : 5000, TEXT = 1 << 18 };

/* Whose check is cut off, what a build cannot show, what works until the kit's own deadlines, shares of a check's time, and what
 * needs texts of the shipped model. */
enum {
    HANGS = 1,
    NO_SANITIZER = 2,
    QUICK = 4,
    TEXTS = 8,
    QUICK_MS = CDZ_SANITIZED ? 60000 : 15000
};

typedef struct mutant {
    const char *source, *bug;
    const char *check; /* the one that fails; NULL: none */
    const char *says;  /* part of its sentence */
    unsigned flags;
} mutant;

/* clang-format off: CMakeLists.txt reads lines that begin with a source and a bug */
static const mutant mutants[] = {
    {"processor", "SOUND", NULL, NULL, 0},
    {"processor", "WRITES_BEFORE_ROW", "row-bounds", "wrote before the start of rows of scores", 0},
    {"processor", "WRITES_PAST_ROW", "row-bounds", "between two rows", 0},
    {"processor", "WRITES_PAST_LAST", "row-bounds", "wrote past the end of rows of scores", 0},
    {"processor", "WRITES_WHAT_IT_READS", "row-bounds", "between two rows", 0},
    {"processor", "READS_PAST_IDS", "ids-bounds", "read past the end of input_ids", 0},
    {"processor", "READS_BEFORE_IDS", "ids-bounds", "read before the start of input_ids", 0},
    {"processor", "WRITES_IDS", "ids-bounds", "wrote input_ids, which are the host's", 0},
    {"processor", "ACCEPT_WRITES_IDS", "ids-bounds", "accept, step", 0},
    {"processor", "WRITES_PAST_STATE", "state-bounds", "the row's state", 0},
    {"processor", "STATE_IN_APPLY", "pure", "after 100 accepted tokens", 0},
    {"processor", "GLOBAL", "instances", "while another request runs", 0},
    {"processor", "GLOBAL_OF_ENDS", "instances", "while another request runs", 0},
    {"processor", "SHARED_COUNT", "fork", "fork", 0},
    {"processor", "CLONE_FORGETS", "fork", "accepted token", 0},
    {"processor", "LONGEST", "rewind", "taken back", 0},
    {"processor", "DRAFT_ROW", "batch", "rows of a draft", 0},
    {"processor", "FOURTH_ROW", "batch", "as number 3 of 4", 0},
    {"processor", "THREAD_LOCAL", "threads", "on another thread", 0},
    {"processor", "HOUR", "same-seed", "some time later", NO_SANITIZER},
    {"processor", "NANOSECOND", "pure", "after 7 accepted tokens", 0},
    {"processor", "PROCESS_ID", "same-seed", "the same request again", 0},
    {"processor", "LEAKS_WHEN_LONG", "leaks", "after 100 accepted tokens", NO_SANITIZER},
    {"processor", "NAN_LATE", "runs", "became NaN", 0},
    {"processor", "MALLOC_LATE", "no-alloc", "after 100 accepted tokens", NO_SANITIZER},
    {"processor", "ALLOC_LATE", "no-alloc", "cdz_alloc", NO_SANITIZER},
    {"processor", "LIES_ELEMENTWISE", "elementwise", "after 100 accepted tokens", 0},
    {"processor", "LIES_HISTORY", "history-sparse", "after 100 accepted tokens", 0},
    {"processor", "LIES_TOP", "keeps-top", "after 100 accepted tokens", 0},
    {"processor", "LIES_ARGMAX", "keeps-argmax", "after 100 accepted tokens", 0},
    {"processor", "LIES_SAMPLING", "sampling-only", "it is no warper", 0},
    {"processor", "WARPS", NULL, NULL, 0},
    {"processor", "LIES_ROWWISE", "batch", "against the row alone", 0},
    {"processor", "LIES_NORMALISED", "needs-normalised", "for nothing", 0},
    {"processor", "LIES_FORM", "form", "after 100 accepted tokens", 0},
    {"processor", "LIES_CONSTRAINED", "constrained", "does not allow token", 0},
    {"processor", "CONSTRAINS", NULL, NULL, 0},
    {"processor", "CALLED", NULL, NULL, 0},
    {"processor", "CALLED_SUMS", "on-hidden", "where it had a few of them", 0},
    {"processor", "CALLED_COUNTS", "on-hidden", "where it had a few of them", 0},
    {"processor", "CALLED_PAST", "on-hidden", "past the end of hidden states", 0},
    {"processor", "CALLED_DIVIDES", "on-hidden", "on_hidden left", 0},
    {"processor", "CALLED_FAILS", "on-hidden", "position > 9", 0},
    {"processor", "LIES_NO_IDS", "runs", "NULL pointer", 0},
    {"processor", "SECOND_TOKEN", "runs", "NULL pointer", 0},
    {"processor", "FAILS_LATE", "runs", "in the middle of a request", 0},
    {"processor", "FAILS_LONG", "runs", "too long for me", 0},
    {"processor", "FAILS_IN_ACCEPT", "runs", "in the middle of a request", 0},
    {"processor", "SILENT_LATE", "runs", "without saying why", 0},
    {"processor", "LAST_ID", "runs", "token 999", 0},
    {"processor", "FIRST_ID", "runs", "token 0", 0},
    {"processor", "SPECIAL_ID", "runs", "token 998", 0},
    {"processor", "BROKEN_TEXT", "runs", "NULL pointer", 0},
    {"processor", "HANGS_LATE", "runs", "still running", HANGS},
    {"processor", "EXITS_LATE", "runs", "ended the process", 0},
    {"processor", "ROUNDS_LATE", "environment", "floating-point mode", 0},
    {"processor", "OPENS_LATE", "environment", "files are open", 0},
    {"processor", "ODD_LATE", "odd-rows", "after 7 accepted tokens", 0},
    {"processor", "NAN_SPREADS_LATE", "nan-spread", "after 7 accepted tokens", 0},
    {"processor", "DECODES_IN_APPLY", "runs", "decode works in begin", 0},
    {"processor", "ENCODES_IN_ACCEPT", "runs", "encode works in begin", 0},
    {"processor", "OWN_THREAD", NULL, NULL, 0},
    {"processor", "OWN_THREAD_ALLOCS", "own-threads", "it calls cdz_alloc", 0},
    {"processor", "WAITS_FOR_BELLS", NULL, NULL, 0},
    {"criterion", "SOUND", NULL, NULL, 0},
    {"criterion", "COUNTS_CALLS", "pure", "asked the same again", 0},
    {"criterion", "GLOBAL", "instances", "while another request runs", 0},
    {"criterion", "WRITES_PAST_STOPS", "row-bounds", "past the end of stops", 0},
    {"criterion", "READS_PAST_IDS", "ids-bounds", "read past the end of input_ids", 0},
    {"criterion", "TEXT_CHANGES", "runs", "has to live as long as the request", 0},
    {"criterion", "WRONG_REASON", "runs", "reason 17", 0},
    {"criterion", "LIES_HAS_EOS", "has-eos", "at no token", 0},
    {"criterion", "THIRD_ROW", "batch", "against the row alone", 0},
    {"criterion", "FAILS_LATE", "runs", "in the middle of a request", 0},
    {"criterion", "TEXT_OF_TOKEN", "runs", "NULL pointer", 0},
    {"processor.lua", "sound", NULL, NULL, 0},
    {"processor.lua", "late_nil", "runs", "attempt to perform arithmetic on a nil value", 0},
    {"processor.lua", "late_field", "runs", "no method 'nothing'", 0},
    {"processor.lua", "late_error", "runs", "in the middle of a request", 0},
    {"processor.lua", "late_index", "runs", "in the middle of a request", 0},
    {"processor.lua", "high_id", "runs", "an id of the upper half", 0},
    {"processor.lua", "counts_late", "pure", "after 7 accepted tokens", 0},
    {"processor.lua", "upvalue", "fork", "fork", 0},
    {"processor.lua", "nan_late", "runs", "became NaN", 0},
    {"processor.lua", "endless_late", "runs", "in the middle of a request", 0},
    {"processor.lua", "lies_elementwise", "elementwise", "after 100 accepted tokens", 0},
    {"processor.lua", "lies_argmax", "keeps-argmax", "after 100 accepted tokens", 0},
    {"processor.lua", "lies_sampling", "sampling-only", "it is no warper", 0},
    {"processor.lua", "accept_nil", "runs", "attempt to concatenate", 0},
    {"processor.lua", "accept_text", "runs", "in the middle of a request", 0},
    {"strategy", "SOUND", NULL, NULL, 0},
    {"strategy", "READS_PAST_IDS", "ids-bounds", "read past the end of input_ids", 0},
    {"strategy", "WRITES_IDS", "ids-bounds", "wrote input_ids, which are the host's", 0},
    {"strategy", "WRITES_BEFORE_ROW", "row-bounds", "wrote before the start of rows of scores", 0},
    {"strategy", "WRITES_PAST_ROW", "row-bounds", "between two rows", 0},
    {"strategy", "WRITES_PAST_LAST", "row-bounds", "wrote past the end of rows of scores", 0},
    {"strategy", "READS_PAST_LAST", "row-bounds", "read past the end of rows of scores", 0},
    {"strategy", "WRITES_PAST_SCRATCH", "row-bounds", "wrote past the end of rows of scores", 0},
    {"strategy", "WRITES_PAST_PASS", "row-bounds", "wrote past the end of rows of scores", 0},
    {"strategy", "IGNORES_STRIDE", "row-bounds", "further apart than n_vocab", 0},
    {"strategy", "WRITES_HIDDEN", "row-bounds", "wrote hidden states, which are the host's", 0},
    {"strategy", "CALLED", NULL, NULL, 0},
    {"strategy", "CALLED_SUMS", "on-hidden", "where it was asked again", 0},
    {"strategy", "CALLED_COUNTS", "on-hidden", "where it was asked again", 0},
    {"strategy", "IGNORES_APPEND", "passes-on", "has to be passed on", 0},
    {"strategy", "IGNORES_FORWARD", "passes-on", "has to be passed on", 0},
    {"strategy", "WRONG_REASON", "reasons", "without an end-of-sequence token", 0},
    {"strategy", "NO_REASON", "reasons", "without a text", 0},
    {"strategy", "KEEPS_SEQUENCES", "sequences", "did not free", 0},
    {"strategy", "GREEDY_DRAWS", "caps", "declares CDZ_GREEDY", 0},
    {"strategy", "SAMPLES_NOT", "caps", "declares CDZ_SAMPLES", 0},
    {"strategy", "REWINDS_NOT", "caps", "took nothing back", 0},
    {"strategy", "REWINDS_SOMETIMES", NULL, NULL, TEXTS},
    {"strategy", "REWINDS_UNDECLARED", "generates", "declares CDZ_REWINDS", 0},
    {"strategy", "REWINDS_IN_SILENCE", "caps", "does not declare CDZ_REWINDS", 0},
    {"strategy", "BEAMS_GREEDY", "generates", "answered with 3 rows", 0},
    {"strategy", "BEAMS_SEARCH_NOTHING", "caps", "searches nothing", 0},
    {"strategy", "MOVES", NULL, NULL, 0},
    {"strategy", "LOOKS_BEFORE", "scores-move", "keeps the rows that it is shown", 0},
    {"strategy", "FIRST_ROW_ONLY", "batch-of-3", "against each alone", 0},
    {"strategy", "OWN_THREAD", "own-threads", "it calls n_rows", 0},
    {"strategy", "SLOW", NULL, NULL, 0},
    {"strategy", "UNTIL_DEADLINE", NULL, NULL, QUICK},
    {"strategy", "LOSES_A_ROW", "batch-of-3", "against each alone", 0},
    {"strategy", "GLOBAL", "same-tokens", "the same request again", 0},
    {"strategy", "GLOBAL_AFTER", "same-tokens", "the same request again", 0},
    {"strategy", "OUT_OF_VOCABULARY", "generates", "outside", 0},
    {"strategy", "FAILS_LONG", "generates", "too long for me", 0},
    {"strategy", "LAST_ID", "generates", "signal 6", 0},
    {"strategy", "APPENDS_AFTER_END", "batch-of-3", "has ended", 0},
    {"strategy.lua", "sound", NULL, NULL, 0},
    {"strategy.lua", "late_nil", "generates", "attempt to perform arithmetic on a nil value", 0},
    {"strategy.lua", "draws", "caps", "declares CDZ_GREEDY", 0},
    {"strategy.lua", "rewinds_not", "caps", "took nothing back", 0},
    {"strategy.lua", "rewinds_undeclared", "generates", "rewinds = true", 0},
    {"strategy.lua", "beams_greedy", "generates", "answered with 3 rows", 0},
    {"strategy.lua", "loses_a_row", "batch-of-3", "row 3 differs", 0},
    {"strategy.lua", "wrong_reason", "reasons", "without an end-of-sequence token", 0},
    {"watcher", "SOUND", NULL, NULL, 0},
    {"watcher", "FAILS_LATE", "runs", "token failed", 0},
    {"watcher", "NO_REWIND", "runs", "tokens do not come back", 0},
    {"watcher", "LAST_ID", "generates", "NULL pointer", 0},
    {"watcher", "READS_PAST_IDS", "ids-bounds", "read past the end of input_ids", 0},
    {"watcher", "WRITES_IDS", "ids-bounds", "wrote input_ids, which are the host's", 0},
    {"watcher", "READS_PAST_ROW", "row-bounds", "read past the end of a row that it is shown", 0},
    {"watcher", "WRITES_SAME", "row-bounds", "wrote a row that it may only look at", 0},
    {"watcher", "DRAFT_SOUND", NULL, NULL, 0},
    {"watcher", "DRAFT_GLOBAL", "same-drafts", "other tokens were proposed", 0},
    {"watcher", "DRAFT_COUNTS", "same-drafts", "other tokens were proposed", 0},
    {"watcher", "DRAFT_READS_PAST", "proposals", "read past the end of input_ids", 0},
    {"watcher", "DRAFT_FAILS_LATE", "proposals", "broken", 0},
    {"watcher", "DRAFT_TOO_MANY_LATE", "proposals", "draft->room", 0},
    {"watcher", "DRAFT_OUT_LATE", "proposals", "outside the vocabulary", 0},
    {"watcher", "DRAFT_WRITES_PAST_ROW", "proposals", "wrote past the end of rows of scores", 0},
    {"watcher", "DRAFT_OWN_THREAD", "own-threads", "it calls done", 0},
    {"watcher", "DRAFT_LAST_ID", "proposals", "NULL pointer", 0},
    {"watcher", "DRAFT_CRASHES_LONG", "proposals", "NULL pointer", 0},
};
/* clang-format on */

enum { N_MUTANTS = sizeof mutants / sizeof mutants[0] };

/* --- one run of the program --------------------------------------------------------------------------------------- */

static void run_kit(const char *path, unsigned timeout_ms, const char *more, char *text)
{
    char command[4096];
    snprintf(command, sizeof command,
             "%s/bin/cadenza plugin test '%s' --json --seed 1 --timeout-ms %u %s",
             CADENZA_BUILD_DIR, path, timeout_ms, more);
    FILE *program = popen(command, "r");
    assert_non_null(program);
    const size_t len = fread(text, 1, TEXT - 1, program);
    text[len] = '\0';
    assert_true(WIFEXITED(pclose(program)));
}

/* A script is its source behind a line that names the bug. */
static void write_script(const mutant *m, const char *path)
{
    char from[1024], block[4096];
    size_t n;
    snprintf(from, sizeof from, "%s/plugins/mutants/%s", CADENZA_TEST_DATA, m->source);
    FILE *in = fopen(from, "r"), *out = fopen(path, "w");
    assert_non_null(in);
    assert_non_null(out);
    fprintf(out, "local BUG = \"%s\"\n", m->bug);
    while ((n = fread(block, 1, sizeof block, in)) > 0) fwrite(block, 1, n, out);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

static void path_of(const mutant *m, char *path, size_t bytes)
{
    const bool script = strstr(m->source, ".lua") != NULL;
    snprintf(path, bytes, "%s/tests/mutants/%.*s_%s%s", CADENZA_BUILD_DIR,
             (int)strcspn(m->source, "."), m->source, m->bug, script ? ".lua" : ".so");
    if (script) write_script(m, path);
}

/* --- what it says --------------------------------------------------------------------------------------------------- */

/* Failures of a run: how many, and whether the one is the one that should be. */
static uint32_t judge(const mutant *m, const cdz_json *checks)
{
    uint32_t n_wrong = 0, n = 0;
    for (uint32_t i = 0; i < checks->len; i++) {
        const cdz_json *check = &checks->items[i];
        if (!cdz_json_eq(cdz_json_get(check, "state"), "failed")) continue;
        const char *name = cdz_json_get(check, "check")->string;
        const char *detail = cdz_json_get(check, "detail")->string;
        n++;
        if (m->check && strcmp(name, m->check) == 0 && strstr(detail, m->says)) continue;
        n_wrong++;
        print_error("%s %s: %s failed: %s (expected %s: %s)\n", m->source, m->bug, name, detail,
                    m->check ? m->check : "nothing", m->says ? m->says : "");
    }
    if (m->check && n == 0) print_error("%s %s: %s did not fail\n", m->source, m->bug, m->check);
    return n_wrong + (m->check && n == 0);
}

static uint32_t try_one(const mutant *m, char *text)
{
    char path[2048], more[2048], only[64] = "";
    cdz_arena arena = {0};
    cdz_json json;
    cdz_error err = {0};
    path_of(m, path, sizeof path);
    const unsigned ms = m->flags & HANGS ? SHORT_MS : m->flags & QUICK ? QUICK_MS : PATIENT_MS;
    /* With sanitizers, several times as slow, no other check is asked. */
    if (CDZ_SANITIZED && m->check) snprintf(only, sizeof only, "--only %s", m->check);
    if (m->flags & QUICK) snprintf(only, sizeof only, "--only generates,fuzz,cancel");
    snprintf(more, sizeof more, "%s %s", m->flags & TEXTS ? "" : SMALL_MODEL, only);
    run_kit(path, ms, more, text);
    if (cdz_json_parse(text, strlen(text), path, NULL, &arena, &json, &err) != CDZ_OK)
        fail_msg("%s: %s: %s", path, err.text, text);
    const uint32_t n_wrong = judge(m, cdz_json_get(&json, "checks"));
    cdz_arena_free(&arena);
    return n_wrong;
}

static void each_planted_bug_fails_the_check_that_is_meant_for_it(void **state)
{
    char *text = malloc(TEXT);
    uint32_t n_wrong = 0;
    (void)state;
    assert_non_null(text);
    for (uint32_t i = 0; i < N_MUTANTS; i++)
        if (!(CDZ_SANITIZED && mutants[i].flags & NO_SANITIZER))
            n_wrong += try_one(&mutants[i], text);
    free(text);
    assert_int_equal(n_wrong, 0);
}

/* The same seed and the one check find what the whole run found. */
static void a_failure_is_repeated_by_its_seed(void **state)
{
    char *text = malloc(TEXT), path[2048];
    const mutant one = {"processor", "FAILS_LONG", "runs", "too long for me", 0};
    (void)state;
    assert_non_null(text);
    path_of(&one, path, sizeof path);
    run_kit(path, PATIENT_MS, "--only runs", text);
    assert_non_null(strstr(text, "row of 401 ids"));
    free(text);
}

static void a_text_of_ones_own_is_replayed(void **state)
{
    char *text = malloc(TEXT), path[2048], more[2048];
    const char *file = CADENZA_BUILD_DIR "/tests/mutants/bells.txt";
    const mutant one = {"processor", "WAITS_FOR_BELLS", "replay", "NULL pointer", 0};
    (void)state;
    assert_non_null(text);
    FILE *bells = fopen(file, "w");
    assert_non_null(bells);
    fputs("It rings, as it does at every hour of the day, and nobody looks up: \a\a\a\a.", bells);
    assert_int_equal(fclose(bells), 0);
    path_of(&one, path, sizeof path);
    snprintf(more, sizeof more, "--only replay --text '%s'", file);
    run_kit(path, PATIENT_MS, more, text);
    assert_non_null(strstr(text, "through a NULL pointer"));
    free(text);
}

static void a_models_tokenizer_cuts_the_text(void **state)
{
    char *text = malloc(TEXT), path[2048];
    const mutant one = {"processor", "SOUND", NULL, NULL, 0};
    (void)state;
    assert_non_null(text);
    path_of(&one, path, sizeof path);
    run_kit(path, PATIENT_MS,
            "--only replay --text '" CADENZA_SOURCE_DIR "/README.md' --model '" CADENZA_SOURCE_DIR
            "/models/pocket-dictionary'",
            text);
    assert_non_null(strstr(text, "\"failed\": 0"));
    assert_non_null(strstr(text, "with the tokenizer of " CADENZA_SOURCE_DIR "/models/pocket-dict"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_planted_bug_fails_the_check_that_is_meant_for_it),
        cmocka_unit_test(a_failure_is_repeated_by_its_seed),
        cmocka_unit_test(a_text_of_ones_own_is_replayed),
        cmocka_unit_test(a_models_tokenizer_cuts_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
