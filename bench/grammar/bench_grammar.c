/* bench_grammar.c - what constraints cost: compiling schemas and computing masks, over recorded schemas and their ids.
 *
 * usage: bench_grammar TOKENIZER CASES.jsonl
 *        bench_grammar --drafts TOKENIZER CASES.jsonl [NAME=VALUE...]
 * A case is {"name", "constraint", "ids"}. One thread, its CPU time; a mask is computed before each id and after the last. Every
 * schema is compiled afresh, so masks are those of a first request.
 *
 * --drafts: how many of the ids the drafter `forced` would have proposed, with these parameters: the answers are known, so no model
 * is run. A pass gives the proposed ids that are the answer's, and one more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "drafts.h"
#include "grammar/grammar.h"

typedef struct bench_times {
    double *at;
    size_t n, cap;
} bench_times;

typedef struct bench_cases {
    char *text;
    cdz_json *at; /* of that */
    uint32_t n;
} bench_cases;

static void add(bench_times *t, double us)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 1024;
        double *at = realloc(t->at, t->cap * sizeof *at);
        if (!at) exit(1);
        t->at = at;
    }
    t->at[t->n++] = us;
}

static int by_time(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void say(const char *name, double compile_ms, bench_times *t)
{
    double sum = 0;
    qsort(t->at, t->n, sizeof *t->at, by_time);
    for (size_t i = 0; i < t->n; i++) sum += t->at[i];
    printf("%-30s compile %8.3f ms  masks %5zu  p50 %8.2f  p99 %8.1f  max %8.1f  mean %7.1f us\n",
           name, compile_ms, t->n, t->at[t->n / 2], t->at[t->n * 99 / 100], t->at[t->n - 1],
           sum / (double)t->n);
}

static bool is_daily(const char *name)
{
    return strncmp(name, "real", 4) == 0;
}

/* --- masks --------------------------------------------------------------------------------------------------- */

typedef struct bench_masks {
    cdz_grammar_vocab *vocab;
    bench_times daily, compiles; /* of the schemas of daily use */
} bench_masks;

static void run_case(const cdz_json *row, bench_masks *b)
{
    const cdz_grammar_vocab *vocab = b->vocab;
    cdz_buf text = {0};
    cdz_error err = {0};
    cdz_grammar *g = NULL;
    const uint64_t *mask;
    bench_times own = {0};
    const char *name = cdz_json_get(row, "name")->string;
    const bool daily = is_daily(name);
    cdz_json_write(&text, cdz_json_get(row, "constraint"));
    double t0 = cdz_thread_s();
    if (cdz_grammar_from_schema(text.data, text.len, NULL, &g, &err) != CDZ_OK) {
        printf("%-30s refused: %s\n", name, err.text);
        cdz_buf_free(&text);
        return;
    }
    cdz_grammar_prepare(g, vocab);
    const double compile_ms = (cdz_thread_s() - t0) * 1e3;
    const cdz_json *ids = cdz_json_get(row, "ids");
    uint32_t state = cdz_grammar_start(g);
    for (uint32_t i = 0; i <= ids->len; i++) {
        t0 = cdz_thread_s();
        if (cdz_grammar_allowed(g, vocab, state, &mask, &err) != CDZ_OK) exit(1);
        const double us = (cdz_thread_s() - t0) * 1e6;
        add(&own, us);
        if (daily) add(&b->daily, us);
        if (i < ids->len)
            state = cdz_grammar_feed_token(g, vocab, state, (int32_t)ids->items[i].integer);
        if (!state) printf("%s: id %u is not allowed\n", name, i);
    }
    if (daily) add(&b->compiles, compile_ms * 1e3);
    say(name, compile_ms, &own);
    cdz_grammar_free(g);
    cdz_buf_free(&text);
    free(own.at);
}

static void measure_masks(const cdz_tokenizer *tok, const bench_cases *cases)
{
    const int32_t end = cdz_tokenizer_get_config(tok)->eos_id;
    bench_masks b = {0};
    const double t0 = cdz_thread_s();
    if (cdz_grammar_vocab_new(tok, &end, 1, &b.vocab, NULL) != CDZ_OK)
        cdz_bench_give_up("out of memory");
    printf("vocabulary of %u ids: %.1f ms\n", cdz_grammar_vocab_size(b.vocab),
           (cdz_thread_s() - t0) * 1e3);
    for (uint32_t i = 0; i < cases->n; i++) run_case(&cases->at[i], &b);
    if (b.daily.n) say("daily", 0, &b.daily);
    if (b.compiles.n) say("daily: compiling", 0, &b.compiles);
    free(b.daily.at);
    free(b.compiles.at);
    cdz_grammar_vocab_free(b.vocab);
}

/* --- drafts -------------------------------------------------------------------------------------------------- */

static void say_drafts(const char *name, const bench_drafts *d)
{
    printf("%-30s ids %5u  passes %5u  proposed %5u  right %5u  by drafts %5.1f %%  %7.1f us each\n",
           name, d->tokens, d->passes, d->proposed, d->accepted, 100.0 * d->accepted / d->tokens,
           d->us / d->passes);
}

static void draft_case(const cdz_json *row, cdz_grammar_store *store, bench_drafter *drafter,
                       bench_drafts *daily)
{
    const char *name = cdz_json_get(row, "name")->string;
    const cdz_json *ids = cdz_json_get(row, "ids");
    int32_t *at = malloc((ids->len + 1) * sizeof *at);
    cdz_buf text = {0};
    cdz_constraint *constraint;
    bench_drafts sum = {0};
    cdz_error err = {0};
    cdz_json_write(&text, cdz_json_get(row, "constraint"));
    const cdz_string one = {text.data, (uint32_t)text.len};
    if (!at || cdz_constraint_get(store, &(cdz_grammar_source){CDZ_GRAMMAR_SCHEMA, &one, 1, NULL},
                                  &constraint, &err) != CDZ_OK)
        cdz_bench_give_up(err.text);
    for (uint32_t i = 0; i < ids->len; i++) at[i] = (int32_t)ids->items[i].integer;
    bench_drafts_of(drafter, constraint, (cdz_ids){at, ids->len}, &sum);
    if (is_daily(name)) {
        daily->tokens += sum.tokens;
        daily->passes += sum.passes;
        daily->proposed += sum.proposed;
        daily->accepted += sum.accepted;
        daily->us += sum.us;
    }
    say_drafts(name, &sum);
    cdz_constraint_release(constraint);
    cdz_buf_free(&text);
    free(at);
}

static void measure_drafts(const cdz_tokenizer *tok, const bench_cases *cases,
                           char *const *settings, int n_settings)
{
    bench_drafter *drafter = bench_drafter_open("forced", settings, n_settings, tok);
    cdz_grammar_store *store = cdz_grammar_store_new(tok, NULL);
    bench_drafts daily = {0};
    if (!store) cdz_bench_give_up("out of memory");
    for (uint32_t i = 0; i < cases->n; i++) draft_case(&cases->at[i], store, drafter, &daily);
    if (daily.tokens) say_drafts("daily", &daily);
    cdz_grammar_store_free(store);
    bench_drafter_close(drafter);
}

/* --- the whole ----------------------------------------------------------------------------------------------- */

static void read_cases(const char *path, cdz_arena *arena, bench_cases *cases)
{
    cdz_error err = {0};
    size_t len;
    if (cdz_file_read(path, (size_t)1 << 30, &cases->text, &len, &err) != CDZ_OK)
        cdz_bench_give_up(err.text);
    for (const char *at = cases->text; (at = strchr(at, '\n')) != NULL; at++) cases->n++;
    cases->at = cdz_arena_array(arena, cases->n + 1, sizeof *cases->at);
    if (!cases->at) cdz_bench_give_up("out of memory");
    cases->n = 0;
    for (const char *at = cases->text, *stop; (stop = strchr(at, '\n')) != NULL; at = stop + 1)
        if (cdz_json_parse(at, (size_t)(stop - at), path, NULL, arena, &cases->at[cases->n++],
                           &err) != CDZ_OK)
            cdz_bench_give_up(err.text);
}

int main(int argc, char **argv)
{
    const bool drafts = argc > 1 && strcmp(argv[1], "--drafts") == 0;
    char *const *names = argv + 1 + drafts;
    const int n_names = argc - 1 - drafts;
    cdz_error err = {0};
    cdz_tokenizer *tok;
    cdz_arena arena = {0};
    bench_cases cases = {0};
    if (n_names < 2 || (!drafts && n_names > 2))
        cdz_bench_give_up("usage: bench_grammar [--drafts] TOKENIZER CASES.jsonl [NAME=VALUE...]");
    if (cdz_tokenizer_open(names[0], &tok, &err) != CDZ_OK) cdz_bench_give_up(err.text);
    read_cases(names[1], &arena, &cases);
    if (drafts)
        measure_drafts(tok, &cases, names + 2, n_names - 2);
    else
        measure_masks(tok, &cases);
    cdz_arena_free(&arena);
    free(cases.text);
    cdz_tokenizer_free(tok);
    return 0;
}
