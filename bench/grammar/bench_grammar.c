/* bench_grammar.c - what constraints cost: compiling schemas and computing masks, over recorded schemas and their ids.
 *
 * usage: bench_grammar TOKENIZER CASES.jsonl
 * A case is {"name", "constraint", "ids"}. One thread, its CPU time; a mask is computed before each id and after the last. Every
 * schema is compiled afresh, so masks are those of a first request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "grammar/grammar.h"

typedef struct bench_times {
    double *at;
    size_t n, cap;
} bench_times;

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

static void run_case(const cdz_json *row, const cdz_grammar_vocab *vocab, bench_times *all,
                     bench_times *compiles)
{
    cdz_buf text = {0};
    cdz_error err = {0};
    cdz_grammar *g = NULL;
    const uint64_t *mask;
    bench_times own = {0};
    const char *name = cdz_json_get(row, "name")->string;
    const bool daily = strncmp(name, "real", 4) == 0;
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
        if (daily) add(all, us);
        if (i < ids->len)
            state = cdz_grammar_feed_token(g, vocab, state, (int32_t)ids->items[i].integer);
        if (!state) printf("%s: id %u is not allowed\n", name, i);
    }
    if (daily) add(compiles, compile_ms * 1e3);
    say(name, compile_ms, &own);
    cdz_grammar_free(g);
    cdz_buf_free(&text);
    free(own.at);
}

int main(int argc, char **argv)
{
    cdz_error err = {0};
    cdz_tokenizer *tok;
    cdz_grammar_vocab *vocab;
    cdz_arena arena = {0};
    cdz_json row;
    char *text;
    size_t len;
    bench_times all = {0}, compiles = {0};
    if (argc != 3 || cdz_tokenizer_open(argv[1], &tok, &err) != CDZ_OK ||
        cdz_file_read(argv[2], (size_t)1 << 30, &text, &len, &err) != CDZ_OK) {
        fprintf(stderr, "usage: bench_grammar TOKENIZER CASES.jsonl %s\n", err.text);
        return 1;
    }
    const double t0 = cdz_thread_s();
    const int32_t end = cdz_tokenizer_get_config(tok)->eos_id;
    if (cdz_grammar_vocab_new(tok, &end, 1, &vocab, &err) != CDZ_OK) return 1;
    printf("vocabulary of %u ids: %.1f ms\n", cdz_grammar_vocab_size(vocab),
           (cdz_thread_s() - t0) * 1e3);
    for (char *at = text, *stop; (stop = strchr(at, '\n')) != NULL; at = stop + 1) {
        cdz_arena_reset(&arena);
        if (cdz_json_parse(at, (size_t)(stop - at), argv[2], NULL, &arena, &row, &err) != CDZ_OK)
            return 1;
        run_case(&row, vocab, &all, &compiles);
    }
    if (all.n) say("daily", 0, &all);
    if (compiles.n) say("daily: compiling", 0, &compiles);
    free(all.at);
    free(compiles.at);
    free(text);
    cdz_arena_free(&arena);
    cdz_grammar_vocab_free(vocab);
    cdz_tokenizer_free(tok);
    return 0;
}
