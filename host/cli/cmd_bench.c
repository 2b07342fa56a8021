/* cmd_bench.c - cadenza bench: how fast a model reads a prompt and makes tokens here, beside what the machine can do. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/reads.h"
#include "base/environment.h"
#include "base/write.h"
#include "cli/bench_report.h"
#include "cli/cli.h"
#include "cli/places.h"
#include "run/pass/limits.h"

enum {
    OPT_PROMPT = CDZ_OPT_OWN,
    OPT_NEW,
    OPT_CONTEXT,
    OPT_BATCH,
    OPT_ROUNDS,
    OPT_JSON,
    OPT_FORMAT
};

static const cdz_verb verbs[] = {
    {"serve URL", "measures a server under load; see bench serve --help"},
    {0},
};

static const cdz_flag flags[] = {
    {"prompt-tokens", 0, OPT_PROMPT, CDZ_FLAG_OFTEN, "N",
     "tokens of the prompt that is timed; default 512, or the model's context if that is "
     "smaller"},
    {"new-tokens", 0, OPT_NEW, CDZ_FLAG_OFTEN, "N", "new tokens that are timed; default 64"},
    {"context", 0, OPT_CONTEXT, 0, "N", "tokens before the new ones; default 16"},
    {"batch", 0, OPT_BATCH, CDZ_FLAG_OFTEN, "N", "sequences decoded together; default 1"},
    {"rounds", 0, OPT_ROUNDS, 0, "N", "repetitions; default 5"},
    {"json", 0, OPT_JSON, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "FILE",
     "also write the results as JSON; - is standard output, in place of the table"},
    {"format", 0, OPT_FORMAT, 0, "table|json", "what goes to standard output; default table"},
    {0},
};

const cdz_page cdz_page_bench = {
    .name = "bench",
    .summary = "measure a model's speed and the machine's limits",
    .usage = "bench [MODEL] [options]\n"
             "bench serve URL [options]\n",
    .verbs = verbs,
    .about =
        "Measures how fast MODEL reads a prompt and makes new tokens on this machine, with the "
        "settings that run would use. Beside that it measures the machine's limits: how fast the "
        "same threads read the model's weights between its steps, which limits new tokens, and how "
        "many multiply-adds they do, which limits prompts. Where a limit itself moves by more than "
        "a tenth, no share of it is told. Without MODEL: the shipped one.",
    .flags = flags,
    .takes = CDZ_TAKES_ALL,
    .examples = "cadenza bench my-model\n"
                "cadenza bench my-model --quantize q8_0 --threads 2\n"
                "cadenza bench my-model --batch 8 --new-tokens 128 --json batch-8.json\n"
                "cadenza bench --prompt-tokens 64 --new-tokens 32 --format json\n",
};

typedef struct options {
    cdz_cli_options common;
    cdz_bench_settings settings;
    const char *json; /* file, "-" or NULL */
} options;

static bool take_count(const char *name, const char *text, uint32_t low, uint32_t high,
                       uint32_t *out, int *status)
{
    char *end;
    errno = 0;
    const unsigned long value = strtoul(text, &end, 10);
    if (end != text && !*end && !errno && text[0] != '-' && value >= low && value <= high) {
        *out = (uint32_t)value;
        return true;
    }
    *status =
        cdz_cli_misuse("bench", "--%s %s: expected a number from %u to %u", name, text, low, high);
    return false;
}

static bool take_option(options *o, cdz_args *a)
{
    cdz_bench_settings *s = &o->settings;
    int *status = &a->status;
    switch (a->opt) {
    case OPT_PROMPT:
        return take_count("prompt-tokens", a->value, 1, 1 << 24, &s->prompt_tokens, status);
    case OPT_NEW: return take_count("new-tokens", a->value, 2, 1 << 24, &s->new_tokens, status);
    case OPT_CONTEXT: return take_count("context", a->value, 1, 1 << 24, &s->context, status);
    case OPT_BATCH: return take_count("batch", a->value, 1, 4096, &s->batch, status);
    case OPT_ROUNDS: return take_count("rounds", a->value, 1, 1000, &s->rounds, status);
    case OPT_JSON: o->json = a->value; return true;
    default:
        if (strcmp(a->value, "json") == 0) o->json = "-";
        if (strcmp(a->value, "json") == 0 || strcmp(a->value, "table") == 0) return true;
        *status = cdz_cli_misuse("bench", "--format %s: expected table or json", a->value);
        return false;
    }
}

static bool take_options(int argc, char **argv, options *o, int *status)
{
    cdz_args a = cdz_args_of(&cdz_page_bench, argc, argv, &o->common);
    while (cdz_args_next(&a)) a.stopped = !take_option(o, &a);
    const bool good =
        !a.stopped && cdz_args_take_model(&a, &o->common.host.program.model) && cdz_args_end(&a);
    *status = a.status;
    return good;
}

/* --- requests --------------------------------------------------------------------------------------------------------- */

/* What one round found, by figure: tokens/s, ms, the limit, what of it was reached, as a fraction. */
typedef struct rounds {
    double *tokens, *ms, *limit, *reached, *fraction; /* (settings.rounds) */
    cdz_work_times times;
} rounds;

typedef struct bench {
    const cdz_session *session;
    const cdz_cli_options *common;
    cdz_bench_report report;
    rounds prefill, decode;
    cdz_backend *backend; /* multiply-adds are measured on: as many threads as the engine's */
    cdz_arena arena;
} bench;

enum { LIMIT_PASSES = 3, LONG_PROMPT = 512, MOST_WARM_UPS = 32 };

/* A request of made-up ids; rows that end by a token would be shorter than was asked for. */
static void write_request(const bench *b, uint32_t n_prompt, uint32_t n_new, cdz_buf *out)
{
    const uint32_t n_vocab = b->report.weights->arch.n_vocab;
    uint32_t stream = 1;
    cdz_buf_puts(out, "{\"prompt_ids\": [");
    for (uint32_t r = 0; r < b->report.settings.batch; r++) {
        cdz_buf_puts(out, r ? ", [" : "[");
        for (uint32_t i = 0; i < n_prompt; i++) {
            stream = stream * 1664525u + 1013904223u;
            cdz_buf_printf(out, "%s%u", i ? ", " : "", (unsigned)((stream >> 8) % n_vocab));
        }
        cdz_buf_putc(out, ']');
    }
    cdz_buf_printf(out,
                   "], \"kwargs\": {\"max_new_tokens\": %u, \"min_new_tokens\": %u, "
                   "\"eos_token_id\": null}}",
                   n_new, n_new);
}

/* Where its time went, and how many tokens it made. */
static cdz_status run_request(const bench *b, uint32_t n_prompt, uint32_t n_new,
                              cdz_profile_times *times, uint32_t *made, cdz_error *err)
{
    const cdz_session *s = b->session;
    cdz_buf json = {0};
    cdz_profile_times before, after;
    cdz_result *result = NULL;
    write_request(b, n_prompt, n_new, &json);
    if (json.failed) return cdz_err(err, CDZ_E_NOMEM, "out of memory for a prompt of %u", n_prompt);
    cdz_request request = cdz_session_request(s, b->common);
    request.json = json.data;
    cdz_engine_get_profile(s->runtime->engine, &before);
    const cdz_status status = cdz_generate(s->runtime, &request, &result, err);
    cdz_engine_get_profile(s->runtime->engine, &after);
    *times = cdz_profile_since(&after, &before);
    *made = result ? result->outcome->n_new_tokens : 0;
    cdz_result_free(result);
    cdz_buf_free(&json);
    return status;
}

/* --- measuring -------------------------------------------------------------------------------------------------------- */

/* A request beside which the machine's reads are measured, where they limit it. */
static cdz_status run_watched(const bench *b, uint32_t n_prompt, uint32_t n_new,
                              cdz_profile_times *times, uint32_t *made, cdz_reads_found *found,
                              cdz_error *err)
{
    cdz_reads *reads = NULL;
    const cdz_session *s = b->session;
    if (cdz_cli_bench_limits_known(&b->report))
        CDZ_TRY(cdz_reads_begin(s->runtime, s->model, &reads, err));
    const cdz_status status = run_request(b, n_prompt, n_new, times, made, err);
    *found = cdz_reads_end(reads);
    return status;
}

static double multiply_limit(const bench *b)
{
    if (!cdz_cli_bench_limits_known(&b->report)) return 0;
    double gmacs[LIMIT_PASSES];
    for (int i = 0; i < LIMIT_PASSES; i++) gmacs[i] = cdz_limit_gmacs(b->backend);
    return cdz_spread_of(gmacs, LIMIT_PASSES).median;
}

/* Passes of a kind without its requests' beginning and end. */
static double seconds_of(const cdz_work_times *t)
{
    return cdz_work_seconds(t) - t->seconds[CDZ_WORK_REQUEST];
}

static void add_times(cdz_work_times *sum, const cdz_work_times *t)
{
    sum->passes += t->passes;
    sum->rows += t->rows;
    sum->switches += t->switches;
    sum->fewer += t->fewer;
    for (int w = 0; w < CDZ_N_WORK; w++) sum->seconds[w] += t->seconds[w];
}

static void note(rounds *r, uint32_t i, double limit, double reached)
{
    r->limit[i] = limit;
    r->reached[i] = reached;
    r->fraction[i] = limit > 0 ? reached / limit : 0;
}

static cdz_status prefill_round(bench *b, uint32_t i, cdz_error *err)
{
    const cdz_bench_settings *s = &b->report.settings;
    cdz_profile_times times;
    uint32_t made;
    const double limit = b->report.weights->arch.encoder ? 0 : multiply_limit(b);
    CDZ_TRY(run_request(b, s->prompt_tokens, 1, &times, &made, err));
    const double took = seconds_of(&times.pass[CDZ_PASS_PROMPT]);
    b->prefill.tokens[i] = (double)s->prompt_tokens * s->batch / took;
    b->prefill.ms[i] = took * 1e3;
    note(&b->prefill, i, limit,
         cdz_cost_prompt_macs(&b->report.cost, s->prompt_tokens) * s->batch / took * 1e-9);
    add_times(&b->prefill.times, &times.pass[CDZ_PASS_PROMPT]);
    return CDZ_OK;
}

static uint64_t rows_away(const bench *b)
{
    cdz_engine_stats stats;
    cdz_engine_get_stats(b->session->runtime->engine, &stats);
    return stats.rows_away;
}

/* On the CPU rows that are away are rows that were not made. */
static void note_screened(bench *b, uint64_t away, uint32_t made)
{
    b->report.screen_bytes = cdz_run_model_screen_bytes(b->session->model->run);
    b->report.screened = 0;
    if (b->report.screen_bytes == 0 || made == 0) return;
    const double share = (double)away / made;
    b->report.screened = share < 1 ? share : 1;
}

static cdz_status decode_round(bench *b, uint32_t i, cdz_error *err)
{
    const cdz_bench_settings *s = &b->report.settings;
    cdz_profile_times times;
    uint32_t made;
    cdz_reads_found reads;
    const uint64_t were_away = rows_away(b);
    CDZ_TRY(run_watched(b, s->context, s->new_tokens, &times, &made, &reads, err));
    const cdz_work_times *decode = &times.pass[CDZ_PASS_DECODE];
    if (decode->passes == 0 || made <= s->batch)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "the strategy made %u tokens for %u prompts in one pass: there is nothing to "
                       "time",
                       made, s->batch);
    const double took = seconds_of(decode), step = took / (double)decode->passes;
    note_screened(b, rows_away(b) - were_away, made);
    b->decode.tokens[i] = (double)(made - s->batch) / took;
    b->decode.ms[i] = step * 1e3;
    note(&b->decode, i, reads.gbs, cdz_cli_bench_step_bytes(&b->report) / step * 1e-9);
    if (reads.highest > b->report.highest_gbs) b->report.highest_gbs = reads.highest;
    add_times(&b->decode.times, decode);
    return CDZ_OK;
}

static cdz_bench_figure figure_of(rounds *r, uint32_t n)
{
    return (cdz_bench_figure){.tokens_per_s = cdz_spread_of(r->tokens, n),
                              .ms = cdz_spread_of(r->ms, n),
                              .limit = cdz_spread_of(r->limit, n),
                              .reached = cdz_spread_of(r->reached, n),
                              .fraction = cdz_spread_of(r->fraction, n),
                              .times = r->times};
}

/* The first passes bring weights into panels. */
static cdz_status warm_up(const bench *b, cdz_error *err)
{
    const cdz_bench_settings *s = &b->report.settings;
    cdz_profile_times times;
    uint32_t made;
    for (int i = 0; i < MOST_WARM_UPS && cdz_weights_panels_left(b->report.weights); i++)
        CDZ_TRY(run_request(b, s->context, s->new_tokens, &times, &made, err));
    return CDZ_OK;
}

/* A first prompt, which faults the weights in and builds what is built once; then the rounds, in turns. */
static cdz_status measure(bench *b, cdz_error *err)
{
    const cdz_bench_settings *s = &b->report.settings;
    cdz_profile_times times;
    uint32_t made;
    CDZ_TRY(run_request(b, s->context, 2, &times, &made, err));
    b->report.first_ms = cdz_work_seconds(&times.pass[CDZ_PASS_PROMPT]) * 1e3;
    CDZ_TRY(warm_up(b, err));
    for (uint32_t i = 0; i < s->rounds; i++) {
        CDZ_TRY(prefill_round(b, i, err));
        CDZ_TRY(decode_round(b, i, err));
    }
    b->report.prefill = figure_of(&b->prefill, s->rounds);
    b->report.decode = figure_of(&b->decode, s->rounds);
    return CDZ_OK;
}

/* --- beginning and end ------------------------------------------------------------------------------------------------ */

/* The processor's name as the system spells it. */
static const char *cpu_name(cdz_arena *arena)
{
    char line[512];
    const char *name = NULL;
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && !name && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        colon += strspn(colon, ": \t");
        name = cdz_arena_strndup(arena, colon, strcspn(colon, "\n"));
    }
    if (file) fclose(file);
    return name ? name : "an unnamed processor";
}

static bool allocate_rounds(bench *b, rounds *r)
{
    double **const all[] = {&r->tokens, &r->ms, &r->limit, &r->reached, &r->fraction};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i] = cdz_arena_array(&b->arena, b->report.settings.rounds, sizeof **all[i]);
        if (!*all[i]) return false;
    }
    return true;
}

static cdz_status settle_lengths(bench *b, cdz_error *err)
{
    cdz_bench_settings *s = &b->report.settings;
    const uint32_t context = b->report.weights->arch.context;
    if (s->prompt_tokens == 0)
        s->prompt_tokens = context > 1 && context <= LONG_PROMPT ? context - 1 : LONG_PROMPT;
    if (context == 0) return CDZ_OK;
    if (s->prompt_tokens >= context)
        return cdz_err(
            err, CDZ_E_USAGE,
            "--prompt-tokens %u: the model was made for %u positions, of which one is for a "
            "new token",
            s->prompt_tokens, context);
    if ((uint64_t)s->context + s->new_tokens > context)
        return cdz_err(err, CDZ_E_USAGE,
                       "--context %u and --new-tokens %u: the model was made for %u positions",
                       s->context, s->new_tokens, context);
    return CDZ_OK;
}

static cdz_status prepare(bench *b, const options *o, cdz_error *err)
{
    char why[256] = "";
    const cdz_backend *engine = cdz_runtime_backend(b->session->runtime);
    b->report.weights = cdz_run_model_weights(b->session->model->run);
    b->report.settings = o->settings;
    b->report.cost = cdz_cost_of(b->report.weights, cdz_run_model_kv_type(b->session->model->run));
    b->report.model =
        o->common.host.program.model ? o->common.host.program.model : "the shipped model";
    b->report.quantize = o->common.host.model.quantize;
    b->report.activations =
        o->common.host.model.activations ? o->common.host.model.activations : "auto";
    b->report.cpu = cpu_name(&b->arena);
    b->report.threads = engine->api->n_threads(engine);
    b->report.variant = engine->api->variant;
    b->report.device = cdz_runtime_device(b->session->runtime)->api->device;
    b->report.open_ms = b->session->open_s * 1e3;
    CDZ_TRY(settle_lengths(b, err));
    const cdz_cpu_options cpu = {.variant = b->report.variant, .n_threads = b->report.threads};
    b->backend = cdz_cpu_backend_create(&cpu, why, sizeof why);
    if (!b->backend) return cdz_err(err, CDZ_E_NOMEM, "%s", why);
    if (!allocate_rounds(b, &b->prefill) || !allocate_rounds(b, &b->decode))
        return cdz_err_memory(err, "measuring");
    return CDZ_OK;
}

static int write_file(const char *path, const cdz_buf *text)
{
    cdz_error err = {0};
    const cdz_status st = cdz_write_whole(path, text->data, text->len, 0, &err);
    return st == CDZ_OK ? CDZ_EXIT_OK : cdz_cli_fail(&err);
}

static int hand_out(const bench *b, const char *json)
{
    cdz_buf table = {0}, document = {0};
    const bool to_stdout = json && strcmp(json, "-") == 0;
    int status = CDZ_EXIT_OK;
    cdz_cli_bench_write_json(&b->report, &document);
    cdz_cli_bench_write_table(&b->report, &table);
    if (document.failed || table.failed) {
        cdz_cli_say("out of memory for the report");
        status = CDZ_EXIT_FAILURE;
    } else {
        fputs(to_stdout ? document.data : table.data, stdout);
        if (json && !to_stdout) status = write_file(json, &document);
    }
    cdz_buf_free(&table);
    cdz_buf_free(&document);
    return status;
}

/* Before minutes of measuring. */
static bool may_write(const options *o)
{
    cdz_error err = {0};
    if (strcmp(o->json, "-") == 0) return true;
    if (cdz_cli_check_place(&o->common, o->json, NULL, 0, &err) == CDZ_OK &&
        cdz_write_may(o->json, 0, &err) == CDZ_OK)
        return true;
    (void)cdz_cli_fail(&err);
    return false;
}

static int run_bench(const options *o, const cdz_session *session)
{
    bench b = {.session = session, .common = &o->common};
    cdz_error err = {0};
    cdz_status status = prepare(&b, o, &err);
    if (status == CDZ_OK) status = measure(&b, &err);
    const int exit_status = status == CDZ_OK ? hand_out(&b, o->json) : cdz_cli_fail(&err);
    if (b.backend) b.backend->api->destroy(b.backend);
    cdz_arena_free(&b.arena);
    return exit_status;
}

int cdz_cmd_bench(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "serve") == 0) return cdz_cli_bench_serve(argc - 1, argv + 1);
    options o = {
        .common.host.options.profile = true,
        .common.host.options.prefix_cache = "off", /* each round computes its prompt */
        .settings = {.prompt_tokens = 0, .new_tokens = 64, .context = 16, .batch = 1, .rounds = 5}};
    cdz_session session;
    int status = CDZ_EXIT_USAGE;
    if (take_options(argc, argv, &o, &status)) {
        status = o.json && !may_write(&o) ? CDZ_EXIT_FAILURE : cdz_session_open(&o.common, &session);
        if (status == CDZ_EXIT_OK) {
            status = run_bench(&o, &session);
            cdz_session_close(&session);
        }
    }
    cdz_cli_options_free(&o.common);
    return status;
}
