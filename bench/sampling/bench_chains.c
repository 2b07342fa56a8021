/* bench_chains.c - choosing a token by the usual chains: stage by stage, fused (by the leaders where nothing is cut), and by a Lua
 * script, over three vocabularies.
 *
 * Prints a line for each vocabulary, kind of row and chain: microseconds with the draw, medians of turns; "-" where there
 * is nothing to fuse. Exits with 1 when scores or tokens of the three differ. Rows: "bell" is a normal distribution of
 * deviation 2; "peaked" has some tens of tokens well above the rest, as a language model gives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "random/open_race.h"
#include "vec/fused.h"
#include "vec/vec.h"

enum { MOST = 151936, HISTORY = 500, REPEATS = 21, FORMS = 4 };

static const struct {
    const char *name;
    bool penalty, draws;
    uint32_t n_forms;
    cdz_form forms[FORMS];
} chains[] = {
    {"penalty, temperature, top-k, top-p, min-p, draw",
     true,
     true,
     4,
     {{.kind = CDZ_FORM_DIVIDE, .amount = 0.8},
      {.kind = CDZ_FORM_KEEP_TOPK, .count = 50},
      {.kind = CDZ_FORM_KEEP_TOPP, .amount = 0.95, .count = 1},
      {.kind = CDZ_FORM_KEEP_MINP, .amount = 0.05, .count = 1}}},
    {"temperature, top-k, draw",
     false,
     true,
     2,
     {{.kind = CDZ_FORM_DIVIDE, .amount = 0.8}, {.kind = CDZ_FORM_KEEP_TOPK, .count = 50}}},
    {"temperature, top-p, draw",
     false,
     true,
     2,
     {{.kind = CDZ_FORM_DIVIDE, .amount = 0.8},
      {.kind = CDZ_FORM_KEEP_TOPP, .amount = 0.9, .count = 1}}},
    {"temperature, min-p, draw",
     false,
     true,
     2,
     {{.kind = CDZ_FORM_DIVIDE, .amount = 0.8},
      {.kind = CDZ_FORM_KEEP_MINP, .amount = 0.05, .count = 1}}},
    {"temperature, draw", false, true, 1, {{.kind = CDZ_FORM_DIVIDE, .amount = 0.8}}},
    {"penalty, argmax", true, false, 0, {{0}}},
};
enum { N_CHAINS = sizeof chains / sizeof chains[0], WAYS = 3 };

typedef struct bench {
    size_t n, chain;
    const float *row; /* (n) */
    float *x, *kept;  /* (n) */
    int32_t history[HISTORY];
    cdz_ids ids;
    void *scratch;
    cdz_torch_rng rng;
    int32_t token;
    cdz_fusing verdict;
    cdz_bench_script script;
} bench;

/* --- the three ways --------------------------------------------------------------------------------------------------- */

static void penalize(bench *b)
{
    if (chains[b->chain].penalty)
        cdz_vec_table()->penalize(b->x, b->n, b->ids.at, b->ids.len, 1.1f, b->scratch);
}

static void choose(bench *b)
{
    const cdz_vec *vec = cdz_vec_table();
    if (!chains[b->chain].draws) {
        b->token = vec->argmax(b->x, b->n);
        return;
    }
    vec->softmax(b->x, b->x, b->n);
    b->token = cdz_torch_draw(&b->rng, b->x, b->n);
}

static void stages(bench *b)
{
    const cdz_vec *vec = cdz_vec_table();
    const cdz_form *f = chains[b->chain].forms;
    for (uint32_t i = 0; i < chains[b->chain].n_forms; i++) {
        const double a = f[i].amount;
        if (f[i].kind == CDZ_FORM_DIVIDE) vec->div(b->x, b->n, (float)a);
        if (f[i].kind == CDZ_FORM_KEEP_TOPK) vec->keep_topk(b->x, b->n, f[i].count, b->scratch);
        if (f[i].kind == CDZ_FORM_KEEP_TOPP) vec->keep_topp(b->x, b->n, a, f[i].count, b->scratch);
        if (f[i].kind == CDZ_FORM_KEEP_MINP) vec->keep_minp(b->x, b->n, a, f[i].count, b->scratch);
    }
}

static void unfused(bench *b)
{
    penalize(b);
    stages(b);
    choose(b);
}

/* Nothing is cut off. */
static void choose_by_leaders(bench *b)
{
    stages(b);
    b->token = cdz_torch_draw_scores(&b->rng, b->x, b->n, b->scratch);
    if (b->token < 0) choose(b);
}

static void fused(bench *b)
{
    cdz_survivors s;
    penalize(b);
    if (chains[b->chain].draws && !cdz_fusible(chains[b->chain].forms, chains[b->chain].n_forms)) {
        choose_by_leaders(b);
        return;
    }
    b->verdict = cdz_fuser_here()->run(b->x, b->n, chains[b->chain].forms, chains[b->chain].n_forms,
                                       &s, b->scratch);
    if (b->verdict == CDZ_FUSED) {
        cdz_fuser_here()->softmax(&s, b->n);
        b->token = cdz_torch_race(&b->rng, s.ids, s.x, s.n, b->n);
    } else {
        stages(b);
        choose(b);
    }
}

static void by_script(bench *b)
{
    cdz_scores scores = {b->x, 1, (uint32_t)b->n, b->n, 0};
    if (b->script.processor->apply(&b->script.step, &scores) != CDZ_OK) exit(1);
    choose(b);
}

/* --- measuring ---------------------------------------------------------------------------------------------------------------- */

static double once(bench *b, void (*way)(bench *))
{
    memcpy(b->x, b->row, b->n * sizeof *b->x);
    cdz_torch_seed(&b->rng, 7);
    const double start = cdz_bench_now_us();
    way(b);
    return cdz_bench_now_us() - start;
}

/* Scores of the script and of the walk against the stages'. */
static bool same_scores(bench *b)
{
    cdz_scores scores = {b->x, 1, (uint32_t)b->n, b->n, 0};
    cdz_survivors s;
    bool same = true;
    memcpy(b->x, b->row, b->n * sizeof *b->x);
    penalize(b);
    stages(b);
    memcpy(b->kept, b->x, b->n * sizeof *b->x);
    memcpy(b->x, b->row, b->n * sizeof *b->x);
    if (b->script.processor->apply(&b->script.step, &scores) != CDZ_OK) exit(1);
    same &= memcmp(b->x, b->kept, b->n * sizeof *b->x) == 0;
    memcpy(b->x, b->row, b->n * sizeof *b->x);
    penalize(b);
    if (cdz_fuser_here()->run(b->x, b->n, chains[b->chain].forms, chains[b->chain].n_forms, &s,
                              b->scratch) != CDZ_FUSED)
        return same;
    cdz_fuser_here()->write(&s, b->x, b->n);
    return same && memcmp(b->x, b->kept, b->n * sizeof *b->x) == 0;
}

static bool measure(bench *b, const char *kind)
{
    static void (*const ways[WAYS])(bench *) = {unfused, fused, by_script};
    double us[WAYS][REPEATS];
    int32_t tokens[WAYS] = {0};
    const cdz_request_info request = {.size = sizeof request,
                                      .n_prompts = 1,
                                      .n_rows = 1,
                                      .n_vocab = (uint32_t)b->n,
                                      .num_beams = 1,
                                      .pad = -1,
                                      .bos = -1};
    const bool fusible = chains[b->chain].draws;
    cdz_bench_open_script(&b->script, CADENZA_BENCH_SAMPLING "/chains.lua", (int64_t)b->chain + 1,
                          &b->ids, &request);
    for (int i = 0; i < REPEATS; i++)
        for (int w = 0; w < WAYS; w++) {
            us[w][i] = w == 1 && !fusible ? 0 : once(b, ways[w]);
            tokens[w] = w == 1 && !fusible ? tokens[0] : b->token;
        }
    const bool same = tokens[0] == tokens[1] && tokens[0] == tokens[2] && same_scores(b);
    printf("%zu\t%s\t%s\t%.1f\t", b->n, kind, chains[b->chain].name,
           cdz_bench_median(us[0], REPEATS));
    if (fusible)
        printf("%.1f\t", cdz_bench_median(us[1], REPEATS));
    else
        printf("-\t");
    printf("%.1f\t%s\n", cdz_bench_median(us[2], REPEATS),
           !same     ? "DIFFERENT"
           : fusible ? cdz_fusing_name(b->verdict)
                     : "nothing to fuse");
    cdz_bench_close_script(&b->script);
    return same;
}

int main(void)
{
    static const size_t sizes[] = {32000, 128256, 151936};
    float *rows = calloc(3 * (size_t)MOST, sizeof *rows);
    bench b = {.scratch = aligned_alloc(64, (cdz_vec_scratch(MOST) + 63) / 64 * 64)};
    bool same = true;
    if (!rows || !b.scratch) return 1;
    b.row = rows;
    b.x = rows + MOST;
    b.kept = rows + 2 * (size_t)MOST;
    b.ids = (cdz_ids){b.history, HISTORY};
    for (size_t s = 0; s < 3; s++)
        for (int peaked = 0; peaked < 2; peaked++) {
            b.n = sizes[s];
            cdz_bench_row(rows, b.n, peaked);
            for (size_t i = 0; i < HISTORY; i++) b.history[i] = (int32_t)((i * i * 31 + 7) % b.n);
            for (b.chain = 0; b.chain < N_CHAINS; b.chain++)
                same = measure(&b, peaked ? "peaked" : "bell") && same;
        }
    free(rows);
    free(b.scratch);
    return same ? 0 : 1;
}
