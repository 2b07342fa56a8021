/* plugin_test.c - `cadenza plugin test`: the conformance kit of host/check on one plugin or package, as a table, as JSON,
 * and as JUnit's XML. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/environment.h"
#include "base/write.h"
#include "check/check.h"
#include "cli/cli.h"
#include "cli/places.h"
#include "cli/plugin_path.h"
#include "plug/places.h"

enum {
    OPT_ONLY = CDZ_OPT_OWN,
    OPT_TIMEOUT,
    OPT_TIMEOUT_MS,
    OPT_SEED,
    OPT_ASSISTANT,
    OPT_WITH,
    OPT_MODEL,
    OPT_TEXT,
    OPT_JUNIT,
    OPT_LIST,
    OPT_JSON
};

static const cdz_flag flags[] = {
    {"only", 0, OPT_ONLY, 0, "NAMES", "these checks only, separated by commas"},
    {"seed", 0, OPT_SEED, 0, "N",
     "seed of the random inputs; it is printed, and the same seed gives the same inputs"},
    {"timeout", 0, OPT_TIMEOUT, 0, "SECONDS",
     "how long one check may take; default 10, for strategies 60"},
    {"timeout-ms", 0, OPT_TIMEOUT_MS, 0, "N", "the same in milliseconds"},
    {"set", 's', 's', 0, "NAME=VALUE",
     "a parameter of the plugin that every check uses; may be repeated"},
    {"model", 0, OPT_MODEL, 0, "FOLDER",
     "the model for strategies, drafters and observers; default: the shipped one. Processors "
     "and criteria use its tokenizer"},
    {"text", 0, OPT_TEXT, 0, "FILE",
     "a text that is replayed through the plugin; default: the kit's own"},
    {"assistant", 0, OPT_ASSISTANT, 0, "FOLDER",
     "the draft model beside it; default: the shipped one"},
    {"with", 0, OPT_WITH, 0, "NAME=FOLDER",
     "a further model for a plugin that asks for one of this name; may be repeated"},
    {"json", 0, OPT_JSON, 0, NULL, "one JSON object in place of the table"},
    {"junit", 0, OPT_JUNIT, 0, "FILE", "also writes a JUnit report"},
    {"list", 0, OPT_LIST, 0, NULL, "the checks: names, and which kinds of plugins they are for"},
    {0},
};

const cdz_page cdz_page_plugin_test = {
    .name = "plugin test",
    .summary = "test a plugin against the rules of its header",
    .usage = "plugin test PATH|ID [options]\n"
             "plugin test --list\n",
    .about = "Calls a plugin in every way that its header allows: parameters at their bounds, rows "
             "between guard pages, forks, tokens taken back, unusual scores, refused memory. Each "
             "check runs in its own process, so a crash or an endless loop fails only that check. "
             "PATH is a package folder, a .so or a .lua file. docs/plugin-test.md says what each "
             "check means. Exit status: 0 nothing failed, 1 a check failed, 2 wrong usage.",
    .flags = flags,
    .takes = CDZ_TAKES_PLUGINS,
    .examples = "cadenza plugin test .\n"
                "cadenza plugin test top_p\n"
                "cadenza plugin test ./my_package --only row-bounds,fuzz --seed 7\n"
                "cadenza plugin test my.lua -s strength=2 --junit results.xml\n",
};

enum { MOST_TIMEOUT_S = 3600 };

typedef struct settings {
    cdz_check_options check;
    cdz_cli_options common;
    const char **set, **with; /* owned */
    const char *junit;
    const char *model, *assistant; /* as typed; else the shipped ones are used */
    bool seeded, json, list;
} settings;

/* --- the table ------------------------------------------------------------------------------------------------ */

typedef struct table {
    char last_plugin[sizeof((cdz_check_result *)0)->plugin]; /* whose heading was shown */
    uint32_t last_kind;
} table;

static void show_result(void *user, const cdz_check_result *r)
{
    table *t = user;
    if (r->plugin[0] && (t->last_kind != r->kind || strcmp(t->last_plugin, r->plugin) != 0))
        printf("\n%s (%s)\n", r->plugin, cdz_kind_name(r->kind));
    snprintf(t->last_plugin, sizeof t->last_plugin, "%s", r->plugin);
    t->last_kind = r->kind;
    printf("  %-17s %-8s %s\n", r->name, cdz_check_word(r->state),
           r->state != CDZ_CHECK_OK || r->detail[0] ? r->detail : r->about);
    fflush(stdout);
}

/* As a shell takes it for one word. */
static void put_option(const char *name, const char *text)
{
    printf(" %s", name);
    if (!strpbrk(text, " \t\n\"'\\$`*?[]{}()<>|&;#~!")) {
        fputs(text, stdout);
        return;
    }
    putchar('\'');
    for (const char *c = text; *c; c++)
        if (*c == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*c);
    putchar('\'');
}

/* The command that tries the i-th check once more, on the same plugin with the same parameters. */
static void show_again(const settings *s, const cdz_check_report *report, uint32_t i)
{
    fputs("again: cadenza plugin test", stdout);
    put_option("", s->check.what);
    for (uint32_t k = 0; k < s->check.n_plugins; k++) put_option("--plugin ", s->check.plugins[k]);
    for (uint32_t k = 0; k < s->check.n_set; k++) put_option("-s ", s->set[k]);
    if (s->model) put_option("--model ", s->model);
    if (s->assistant) put_option("--assistant ", s->assistant);
    for (uint32_t k = 0; k < s->check.n_with; k++) put_option("--with ", s->check.with[k]);
    if (s->check.text) put_option("--text ", s->check.text);
    if (s->check.timeout_ms % 1000)
        printf(" --timeout-ms %u", s->check.timeout_ms);
    else if (s->check.timeout_ms)
        printf(" --timeout %u", s->check.timeout_ms / 1000);
    printf(" --seed %" PRIu64 " --only %s\n", report->seed, report->results[i].name);
}

static void show_end(const settings *s, const cdz_check_report *report)
{
    uint32_t skipped = 0;
    for (uint32_t i = 0; i < report->n; i++)
        skipped += report->results[i].state == CDZ_CHECK_SKIPPED;
    printf("\n%u check%s, %u failed, %u skipped; seed %" PRIu64 "\n", report->n,
           report->n == 1 ? "" : "s", report->n_failed, skipped, report->seed);
    for (uint32_t i = 0; i < report->n; i++)
        if (report->results[i].state == CDZ_CHECK_FAILED) show_again(s, report, i);
}

static int list_checks(void)
{
    const char *name, *about;
    uint32_t kinds;
    for (uint32_t i = 0; cdz_check_listed(i, &name, &about, &kinds); i++) {
        printf("%-17s %s\n%-17s   ", name, about, "");
        for (uint32_t k = CDZ_KIND_PROCESSOR; cdz_kind_name(k); k++)
            if (kinds & 1u << k)
                printf("%s%s", cdz_kind_name(k),
                       kinds >> (k + 1) && cdz_kind_name(k + 1) ? " " : "");
        printf("\n");
    }
    return CDZ_EXIT_OK;
}

/* --- running --------------------------------------------------------------------------------------------------- */

static cdz_status write_junit(const settings *s, const cdz_check_report *report, cdz_error *err)
{
    cdz_buf text = {0};
    if (!s->junit) return CDZ_OK;
    cdz_check_write_junit(report, &s->check, &text);
    cdz_status st = text.failed ? cdz_err(err, CDZ_E_NOMEM, "out of memory") : CDZ_OK;
    if (st == CDZ_OK) st = cdz_write_whole(s->junit, text.data, text.len, 0, err);
    cdz_buf_free(&text);
    return st;
}

static int run_checks(settings *s)
{
    char model[4096], assistant[4096];
    cdz_arena places = {0};
    cdz_check_report report = {0};
    cdz_error err = {0};
    table t = {0};
    s->check.model = s->check.tokenizer = s->model;
    s->check.assistant = s->assistant;
    if (!s->model && cdz_cli_shared("models/pocket-dictionary", model, sizeof model))
        s->check.model = model;
    if (!s->assistant &&
        cdz_cli_shared("models/pocket-dictionary-draft", assistant, sizeof assistant))
        s->check.assistant = assistant;
    s->check.plugins = s->common.host.options.plugins;
    s->check.n_plugins = s->common.host.options.n_plugins;
    s->check.registry.safe_mode = s->common.host.options.safe_mode;
    s->check.set = s->set;
    s->check.with = s->with;
    s->check.registry.builtin_dir = cdz_env_plugin_dir();
    if (!cdz_places_of_user(&places, &s->check.registry)) {
        cdz_cli_say("out of memory");
        return CDZ_EXIT_FAILURE;
    }
    s->check.is_path = cdz_cli_is_plugin_path(s->check.what);
    cdz_status st = cdz_check_run(&s->check, s->json ? NULL : show_result, &t, &report, &err);
    if (st == CDZ_OK && s->json) {
        cdz_buf text = {0};
        cdz_check_write_json(&report, &s->check, &text);
        if (text.data) fputs(text.data, stdout);
        cdz_buf_free(&text);
    }
    if (st == CDZ_OK && !s->json) show_end(s, &report);
    if (st == CDZ_OK) st = write_junit(s, &report, &err);
    const int failed = report.n_failed > 0 ? CDZ_EXIT_FAILURE : CDZ_EXIT_OK;
    cdz_check_report_free(&report);
    cdz_arena_free(&places);
    return st == CDZ_OK ? failed : cdz_cli_fail(&err);
}

/* --- options --------------------------------------------------------------------------------------------------- */

static bool add(const char ***list, uint32_t *n, const char *item, int *status)
{
    const char **more = realloc((void *)*list, (*n + 1) * sizeof *more);
    if (!more) {
        cdz_cli_say("out of memory");
        *status = CDZ_EXIT_FAILURE;
        return false;
    }
    *list = more;
    more[(*n)++] = item;
    return true;
}

static uint64_t take_number(const char *name, const char *text, uint64_t least, uint64_t most,
                            int *status)
{
    char *end;
    errno = 0;
    const unsigned long long n = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || n < least || n > most)
        *status =
            cdz_cli_misuse("plugin test", "%s %s: expected a number from %" PRIu64 " to %" PRIu64,
                           name, text, least, most);
    return n;
}

static void add_model(settings *s, const char *text, int *status)
{
    if (!cdz_cli_named_folder(text))
        *status = cdz_cli_misuse("plugin test", "--with %s: expected NAME=FOLDER", text);
    else
        (void)add(&s->with, &s->check.n_with, text, status);
}

static void take_option(settings *s, cdz_args *a)
{
    int *status = &a->status;
    switch (a->opt) {
    case OPT_ONLY: s->check.only = a->value; break;
    case OPT_TIMEOUT_MS:
        s->check.timeout_ms =
            (uint32_t)take_number("--timeout-ms", a->value, 1, 1000 * MOST_TIMEOUT_S, status);
        break;
    case OPT_TIMEOUT:
        s->check.timeout_ms =
            1000 * (uint32_t)take_number("--timeout", a->value, 1, MOST_TIMEOUT_S, status);
        break;
    case OPT_TEXT: s->check.text = a->value; break;
    case OPT_SEED:
        s->check.seed = take_number("--seed", a->value, 0, UINT64_MAX, status);
        s->seeded = true;
        break;
    case 's': (void)add(&s->set, &s->check.n_set, a->value, status); break;
    case OPT_MODEL: s->model = a->value; break;
    case OPT_ASSISTANT: s->assistant = a->value; break;
    case OPT_WITH: add_model(s, a->value, status); break;
    case OPT_JUNIT: s->junit = a->value; break;
    case OPT_JSON: s->json = true; break;
    case OPT_LIST: s->list = true; break;
    default: break;
    }
    a->stopped = a->status != CDZ_EXIT_OK;
}

static int act(settings *s, int n, char **words)
{
    if (s->list) return list_checks();
    if (n != 1) return cdz_cli_misuse("plugin test", "expected one plugin: a path or an id");
    s->check.what = words[0];
    cdz_error err = {0};
    const cdz_cli_options read = {.host.program.model =
                                      words[0]}; /* a file or folder, if it is a path */
    cdz_status st = s->junit ? cdz_cli_check_place(&read, s->junit, NULL, 0, &err) : CDZ_OK;
    if (st == CDZ_OK && s->junit) st = cdz_write_may(s->junit, 0, &err);
    if (st != CDZ_OK) return cdz_cli_fail(&err);
    if (!s->seeded && getrandom(&s->check.seed, sizeof s->check.seed, 0) < 0) s->check.seed = 1;
    if (!s->seeded) s->check.seed %= 1000000000; /* short enough to type */
    return run_checks(s);
}

int cdz_cli_plugin_test(int argc, char **argv)
{
    settings s = {0};
    cdz_args a = cdz_args_of(&cdz_page_plugin_test, argc, argv, &s.common);
    while (cdz_args_next(&a)) take_option(&s, &a);
    const int status = a.stopped ? a.status : act(&s, a.n_words, a.words);
    cdz_cli_options_free(&s.common);
    free((void *)s.set);
    free((void *)s.with);
    return status;
}
