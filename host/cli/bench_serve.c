/* bench_serve.c - `cadenza bench serve`: streams of requests to a server, and how it bore them. It speaks OpenAI's API and
 * nothing of ours, so that any such server can be measured. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/write.h"
#include "cli/bench_client.h"
#include "cli/cli.h"

enum {
    OPT_STREAMS = CDZ_OPT_OWN,
    OPT_REQUESTS,
    OPT_RATE,
    OPT_PROMPT,
    OPT_NEW,
    OPT_SHARED,
    OPT_PREFIXES,
    OPT_CHAT,
    OPT_MAY_END,
    OPT_MODEL,
    OPT_KEYS,
    OPT_PATIENCE,
    OPT_SEED,
    OPT_JSON,
    MOST_STREAMS = 4096
};

static const cdz_flag flags[] = {
    {"streams", 0, OPT_STREAMS, CDZ_FLAG_OFTEN, "N",
     "requests at a time; each stream asks again when its answer has ended; default 8"},
    {"requests", 0, OPT_REQUESTS, CDZ_FLAG_OFTEN, "N",
     "of all streams together; default 8 a stream"},
    {"rate", 0, OPT_RATE, CDZ_FLAG_OFTEN, "X",
     "requests a second, at random moments, whether or not others have ended; streams is then the "
     "most at a time"},
    {"prompt-tokens", 0, OPT_PROMPT, CDZ_FLAG_OFTEN, "N",
     "words of a prompt, which are about as many tokens; the report has what the server counted; "
     "default 128"},
    {"new-tokens", 0, OPT_NEW, CDZ_FLAG_OFTEN, "N", "of an answer; default 64"},
    {"shared-prefix", 0, OPT_SHARED, 0, "N", "words that prompts begin with alike; default 0"},
    {"prefixes", 0, OPT_PREFIXES, 0, "N", "different ones of them; default 1"},
    {"chat", 0, OPT_CHAT, 0, NULL, "/v1/chat/completions in place of /v1/completions"},
    {"may-end", 0, OPT_MAY_END, 0, NULL,
     "answers may end by themselves: min_tokens, which not every server knows, is not sent"},
    {"model", 0, OPT_MODEL, 0, "NAME", "default: the first of /v1/models"},
    {"api-key-file", 0, OPT_KEYS, 0, "FILE", "its first line is the key"},
    {"patience", 0, OPT_PATIENCE, 0, "SECONDS", "without a byte; default 300"},
    {"seed", 0, OPT_SEED, 0, "N", "of prompts and moments; default 1"},
    {"json", 0, OPT_JSON, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "FILE",
     "also write the report as JSON; - is standard output, in place of the table"},
    {0},
};

const cdz_page cdz_page_bench_serve = {
    .name = "bench serve",
    .summary = "measure a server under load",
    .usage = "bench serve URL [options]\n",
    .about =
        "Sends streamed requests to a server that speaks OpenAI's API, and tells how many tokens a "
        "second it gave, how long the first token took (TTFT), and the time between tokens. Exit "
        "status: 0, or 1 when a request failed.",
    .flags = flags,
    .examples =
        "cadenza bench serve http://127.0.0.1:8080\n"
        "cadenza bench serve http://127.0.0.1:8080 --streams 64 --prompt-tokens 16\n"
        "cadenza bench serve http://127.0.0.1:8080 --rate 4 --requests 200 --json load.json\n",
};

typedef struct load_options {
    const char *url, *model, *key_file, *json;
    uint32_t streams, requests, prompt, made, shared, prefixes;
    double rate, patience;
    uint64_t seed;
    bool chat, may_end;
} load_options;

/* Numbers of one kind, as they come. */
typedef struct figures {
    double *at;
    size_t n, room;
    double sum;
} figures;

typedef struct load {
    const load_options *options;
    cdz_cli_bench_url url;
    char model[256], key[1024];
    cdz_mutex lock;
    uint32_t next; /* request; under the lock, as all that follows */
    double *due;   /* (requests) when each begins, by the clock; NULL: at once */
    figures first, gaps, whole;
    uint64_t n_prompt, n_made, n_events;
    uint32_t n_good, n_failed, n_refused; /* refused: 429 and 503 */
    char why[640];
    double began, ended;
    bool failed; /* no memory */
} load;

/* --- figures --------------------------------------------------------------------------------------------------- */

static void add_figure(load *l, figures *f, double value)
{
    if (f->n == f->room) {
        const size_t room = f->room ? 2 * f->room : 1024;
        double *grown = realloc(f->at, room * sizeof *grown);
        l->failed |= !grown;
        if (!grown) return;
        f->at = grown;
        f->room = room;
    }
    f->at[f->n++] = value;
    f->sum += value;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The smallest value that so large a part of them do not exceed; sorted. */
static double part_of(const figures *f, double part)
{
    if (!f->n) return 0;
    const size_t rank = (size_t)ceil(part * (double)f->n);
    return f->at[rank ? rank - 1 : 0];
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static uint32_t roll(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static void put_words(cdz_buf *out, uint32_t n, uint64_t *state)
{
    static const char *const words[] = {"river", "stone", "a",     "the",  "light", "green", "of",
                                        "music", "water", "small", "bird", "and",   "house", "in",
                                        "old",   "paper", "wind",  "to",   "red",   "time"};
    for (uint32_t i = 0; i < n; i++)
        cdz_buf_printf(out, "%s ", words[roll(state) % (sizeof words / sizeof *words)]);
}

static void put_prompt(const load_options *o, uint32_t request, cdz_buf *out)
{
    uint64_t common = o->seed * 1000003 + 17 + request % o->prefixes;
    uint64_t own = (o->seed << 32) + 97 * (uint64_t)request + 1;
    const uint32_t shared = o->shared < o->prompt ? o->shared : o->prompt;
    for (int i = 0; i < 4; i++) roll(&own), roll(&common);
    put_words(out, shared, &common);
    put_words(out, o->prompt - shared, &own);
    if (out->len)
        out->data[--out->len] = '\0'; /* a blank at the end is a token of its own to some */
}

static void put_body(const load *l, uint32_t request, cdz_buf *out)
{
    const load_options *o = l->options;
    cdz_buf prompt = {0};
    put_prompt(o, request, &prompt);
    cdz_buf_puts(out, "{\"model\":");
    cdz_json_write_string(out, l->model, strlen(l->model));
    cdz_buf_puts(out, o->chat ? ",\"messages\":[{\"role\":\"user\",\"content\":" : ",\"prompt\":");
    cdz_json_write_string(out, prompt.data ? prompt.data : "", prompt.len);
    cdz_buf_printf(out,
                   "%s,\"max_tokens\":%u,\"temperature\":0,\"stream\":true,"
                   "\"stream_options\":{\"include_usage\":true}",
                   o->chat ? "}]" : "", o->made);
    if (!o->may_end) cdz_buf_printf(out, ",\"min_tokens\":%u", o->made);
    cdz_buf_putc(out, '}');
    out->failed |= prompt.failed;
    cdz_buf_free(&prompt);
}

static void on_gap(void *user, double seconds)
{
    load *l = user;
    cdz_mutex_lock(&l->lock);
    add_figure(l, &l->gaps, seconds);
    cdz_mutex_unlock(&l->lock);
}

static void note(load *l, const cdz_cli_bench_answer *a)
{
    const bool good = a->status == 200 && a->whole && !a->why[0];
    cdz_mutex_lock(&l->lock);
    if (good) {
        l->n_good++;
        l->n_prompt += a->n_prompt;
        l->n_made += a->n_completion ? a->n_completion : a->n_events;
        l->n_events += a->n_events;
        if (a->n_events) add_figure(l, &l->first, a->first - a->began);
        add_figure(l, &l->whole, a->ended - a->began);
    } else {
        l->n_refused += a->status == 429 || a->status == 503;
        l->n_failed++;
        snprintf(l->why, sizeof l->why, "%s", a->why);
    }
    if (a->ended > l->ended) l->ended = a->ended;
    cdz_mutex_unlock(&l->lock);
}

static void sleep_until(double when)
{
    const double left = when - cdz_now_s();
    if (left <= 0) return;
    const struct timespec t = {(time_t)left, (long)((left - floor(left)) * 1e9)};
    nanosleep(&t, NULL);
}

static bool take_request(load *l, uint32_t *request)
{
    cdz_mutex_lock(&l->lock);
    *request = l->next;
    const bool some = l->next < l->options->requests && !cdz_cli_interrupted();
    l->next += some;
    cdz_mutex_unlock(&l->lock);
    return some;
}

static void *run_stream(void *user)
{
    load *l = user;
    cdz_cli_bench_client client = {.url = &l->url, .patience = l->options->patience};
    cdz_buf body = {0};
    uint32_t request;
    client.key = l->key[0] ? l->key : NULL;
    while (take_request(l, &request)) {
        cdz_cli_bench_answer answer;
        cdz_buf_clear(&body);
        put_body(l, request, &body);
        if (l->due) sleep_until(l->due[request]);
        cdz_cli_bench_stream(&client, l->options->chat ? "/v1/chat/completions" : "/v1/completions",
                             &body, on_gap, l, &answer);
        /* A late start is part of what the client waited. */
        if (l->due && answer.began > l->due[request]) answer.began = l->due[request];
        note(l, &answer);
    }
    cdz_cli_bench_hang_up(&client);
    cdz_buf_free(&body);
    return NULL;
}

/* Moments with as many a second on average, independent of each other. */
static bool plan_moments(load *l)
{
    const load_options *o = l->options;
    uint64_t state = o->seed * 7919 + 1;
    double at = cdz_now_s() + 0.01;
    if (o->rate <= 0) return true;
    l->due = malloc(o->requests * sizeof *l->due);
    for (uint32_t i = 0; l->due && i < o->requests; i++) {
        const double dice = ((double)roll(&state) + 1) / 2147483649.0;
        at += -log(dice) / o->rate;
        l->due[i] = at;
    }
    return l->due != NULL;
}

static bool run_streams(load *l)
{
    const uint32_t n = l->options->streams;
    pthread_t *threads = calloc(n, sizeof *threads);
    uint32_t begun = 0;
    if (!threads || !plan_moments(l)) {
        free(threads);
        return false;
    }
    l->began = cdz_now_s();
    while (begun < n && pthread_create(&threads[begun], NULL, run_stream, l) == 0) begun++;
    for (uint32_t i = 0; i < begun; i++) pthread_join(threads[i], NULL);
    free(threads);
    return begun == n;
}

/* --- before ---------------------------------------------------------------------------------------------------------- */

static cdz_status read_key(load *l, cdz_error *err)
{
    char *text = NULL;
    size_t len = 0;
    if (!l->options->key_file) return CDZ_OK;
    CDZ_TRY(cdz_file_read(l->options->key_file, 1 << 20, &text, &len, err));
    snprintf(l->key, sizeof l->key, "%.*s", (int)strcspn(text, "\r\n"), text);
    free(text);
    return CDZ_OK;
}

static bool first_model(const cdz_buf *text, char *out, size_t bytes)
{
    cdz_arena arena = {0};
    cdz_json body;
    bool found = false;
    if (text->len &&
        cdz_json_parse(text->data, text->len, "models", NULL, &arena, &body, NULL) == CDZ_OK) {
        const cdz_json *data = cdz_json_get(&body, "data");
        const bool some = cdz_json_is(data, CDZ_JSON_ARRAY) && data->len;
        const cdz_json *id = some ? cdz_json_get(&data->items[0], "id") : NULL;
        found = cdz_json_is(id, CDZ_JSON_STRING);
        if (found) snprintf(out, bytes, "%s", id->string);
    }
    cdz_arena_free(&arena);
    return found;
}

static cdz_status find_model(load *l, cdz_error *err)
{
    cdz_cli_bench_client client = {.url = &l->url, .patience = l->options->patience};
    cdz_cli_bench_answer answer;
    cdz_buf text = {0};
    client.key = l->key[0] ? l->key : NULL;
    if (l->options->model) {
        snprintf(l->model, sizeof l->model, "%s", l->options->model);
        return CDZ_OK;
    }
    const bool good = cdz_cli_bench_get(&client, "/v1/models", &text, &answer);
    const bool found = good && answer.status == 200 && first_model(&text, l->model, sizeof l->model);
    cdz_cli_bench_hang_up(&client);
    cdz_buf_free(&text);
    if (found) return CDZ_OK;
    if (!good) return cdz_err(err, CDZ_E_IO, "%s: %s", l->options->url, answer.why);
    return cdz_err(err, CDZ_E_IO, "%s/v1/models: status %d, and no model; --model names one",
                   l->options->url, answer.status);
}

/* --- the report -------------------------------------------------------------------------------------------------------- */

static void put_figures(const char *name, const figures *f, cdz_buf *out)
{
    cdz_buf_printf(out,
                   ",\n  \"%s\": {\"n\": %zu, \"mean\": %.3f, \"p50\": %.3f, \"p90\": %.3f, "
                   "\"p99\": %.3f, \"max\": %.3f}",
                   name, f->n, f->n ? 1e3 * f->sum / (double)f->n : 0, 1e3 * part_of(f, 0.5),
                   1e3 * part_of(f, 0.9), 1e3 * part_of(f, 0.99), 1e3 * part_of(f, 1));
}

static void put_json(const load *l, cdz_buf *out)
{
    const load_options *o = l->options;
    const double took = l->ended - l->began > 0 ? l->ended - l->began : 1e-9;
    cdz_buf_puts(out, "{\n  \"url\": ");
    cdz_json_write_string(out, o->url, strlen(o->url));
    cdz_buf_puts(out, ",\n  \"model\": ");
    cdz_json_write_string(out, l->model, strlen(l->model));
    cdz_buf_printf(out,
                   ",\n  \"streams\": %u, \"requests\": %u, \"rate\": %.6g, \"prompt_words\": %u, "
                   "\"new_tokens\": %u, \"shared_prefix\": %u, \"prefixes\": %u, \"seed\": %llu",
                   o->streams, o->requests, o->rate, o->prompt, o->made, o->shared, o->prefixes,
                   (unsigned long long)o->seed);
    cdz_buf_printf(out,
                   ",\n  \"answered\": %u, \"failed\": %u, \"refused\": %u, \"why\": ", l->n_good,
                   l->n_failed, l->n_refused);
    cdz_json_write_string(out, l->why, strlen(l->why));
    cdz_buf_printf(out,
                   ",\n  \"seconds\": %.3f, \"requests_per_s\": %.3f, \"new_tokens_per_s\": %.3f, "
                   "\"prompt_tokens\": %llu, \"completion_tokens\": %llu",
                   took, l->n_good / took, (double)l->n_made / took,
                   (unsigned long long)l->n_prompt, (unsigned long long)l->n_made);
    put_figures("ttft_ms", &l->first, out);
    put_figures("inter_token_ms", &l->gaps, out);
    put_figures("request_ms", &l->whole, out);
    cdz_buf_puts(out, "\n}\n");
}

static void put_row(const char *name, const figures *f, cdz_buf *out)
{
    cdz_buf_printf(out, "%-20s %9.1f %9.1f %9.1f %9.1f ms\n", name, 1e3 * part_of(f, 0.5),
                   1e3 * part_of(f, 0.9), 1e3 * part_of(f, 0.99), 1e3 * part_of(f, 1));
}

static void put_table(const load *l, cdz_buf *out)
{
    const double took = l->ended - l->began > 0 ? l->ended - l->began : 1e-9;
    cdz_buf_printf(out, "%s: %u requests answered in %.1f s by %u streams, %u failed%s%s\n",
                   l->model, l->n_good, took, l->options->streams, l->n_failed,
                   l->why[0] ? ": " : "", l->why);
    cdz_buf_printf(out, "%.1f new tokens a second, %.2f requests a second, prompts of %.0f tokens\n",
                   (double)l->n_made / took, l->n_good / took,
                   l->n_good ? (double)l->n_prompt / l->n_good : 0);
    cdz_buf_printf(out, "%-20s %9s %9s %9s %9s\n", "", "p50", "p90", "p99", "max");
    put_row("first token", &l->first, out);
    put_row("between tokens", &l->gaps, out);
    put_row("whole request", &l->whole, out);
}

static int hand_out(load *l)
{
    cdz_buf json = {0}, table = {0};
    cdz_error err = {0};
    const char *file = l->options->json;
    const bool to_stdout = file && strcmp(file, "-") == 0;
    figures *all[] = {&l->first, &l->gaps, &l->whole};
    for (size_t i = 0; i < 3; i++)
        if (all[i]->n) qsort(all[i]->at, all[i]->n, sizeof *all[i]->at, by_size);
    put_json(l, &json);
    put_table(l, &table);
    int status = l->n_failed || !l->n_good ? CDZ_EXIT_FAILURE : CDZ_EXIT_OK;
    if (json.failed || table.failed || l->failed) {
        cdz_cli_say("out of memory for the report");
        status = CDZ_EXIT_FAILURE;
    } else {
        fputs(to_stdout ? json.data : table.data, stdout);
        if (file && !to_stdout && cdz_write_whole(file, json.data, json.len, 0, &err) != CDZ_OK)
            status = cdz_cli_fail(&err);
    }
    cdz_buf_free(&json);
    cdz_buf_free(&table);
    return status;
}

/* --- the command --------------------------------------------------------------------------------------------------------- */

static void take_number(cdz_args *a, double least, double most, double *out)
{
    char *end;
    const double value = strtod(a->value, &end);
    if (end != a->value && !*end && value >= least && value <= most)
        *out = value;
    else
        cdz_args_refuse(a, "%s %s: expected a number from %g to %g", a->typed, a->value, least,
                        most);
}

static void take_count(cdz_args *a, uint32_t least, uint32_t most, uint32_t *out)
{
    double value = *out;
    take_number(a, least, most, &value);
    if (floor(value) < value)
        cdz_args_refuse(a, "%s %s: expected a whole number", a->typed, a->value);
    *out = (uint32_t)value;
}

static void take_option(load_options *o, cdz_args *a)
{
    double seed = (double)o->seed;
    switch (a->opt) {
    case OPT_STREAMS: take_count(a, 1, MOST_STREAMS, &o->streams); break;
    case OPT_REQUESTS: take_count(a, 1, 100000000, &o->requests); break;
    case OPT_RATE: take_number(a, 1e-3, 1e6, &o->rate); break;
    case OPT_PROMPT: take_count(a, 1, 1000000, &o->prompt); break;
    case OPT_NEW: take_count(a, 1, 1000000, &o->made); break;
    case OPT_SHARED: take_count(a, 0, 1000000, &o->shared); break;
    case OPT_PREFIXES: take_count(a, 1, 1000000, &o->prefixes); break;
    case OPT_PATIENCE: take_number(a, 1, 1e6, &o->patience); break;
    case OPT_SEED:
        take_number(a, 0, 1e9, &seed);
        o->seed = (uint64_t)seed;
        break;
    case OPT_CHAT: o->chat = true; break;
    case OPT_MAY_END: o->may_end = true; break;
    case OPT_MODEL: o->model = a->value; break;
    case OPT_KEYS: o->key_file = a->value; break;
    default: o->json = a->value; break;
    }
}

static int run_load(const load_options *o)
{
    load l = {.options = o};
    cdz_error err = {0};
    int status;
    cdz_mutex_init(&l.lock);
    if (cdz_cli_bench_read_url(o->url, &l.url, &err) != CDZ_OK || read_key(&l, &err) != CDZ_OK ||
        (o->json && strcmp(o->json, "-") != 0 && cdz_write_may(o->json, 0, &err) != CDZ_OK) ||
        find_model(&l, &err) != CDZ_OK) {
        status = cdz_cli_fail(&err);
    } else if (!run_streams(&l)) {
        cdz_cli_say("bench serve: the system gives no memory or threads for %u streams", o->streams);
        status = CDZ_EXIT_FAILURE;
    } else {
        status = hand_out(&l);
    }
    free(l.due);
    free(l.first.at);
    free(l.gaps.at);
    free(l.whole.at);
    cdz_mutex_destroy(&l.lock);
    return status;
}

int cdz_cli_bench_serve(int argc, char **argv)
{
    load_options o = {
        .streams = 8, .prompt = 128, .made = 64, .prefixes = 1, .patience = 300, .seed = 1};
    cdz_args a = cdz_args_of(&cdz_page_bench_serve, argc, argv, NULL);
    while (cdz_args_next(&a)) take_option(&o, &a);
    if (a.stopped) return a.status;
    o.url = cdz_args_word(&a);
    if (!o.url) return cdz_cli_misuse("bench serve", "expected a URL: http://127.0.0.1:8080");
    if (!cdz_args_end(&a)) return a.status;
    if (!o.requests) o.requests = 8 * o.streams;
    return run_load(&o);
}
