/* test_cost.c - what passes cost, against sums made by hand from the shapes, and what `cadenza bench` writes of it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "load/model_files.h"
#include "run/pass/cost.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* The dense families: products of a layer are 2 q-wide, 2 kv-wide and the feed-forward's. */
typedef struct sizes {
    uint64_t layers, hidden, heads, kv_heads, head_dim, inner, vocab, feeds;
    uint64_t active; /* experts a row goes to; 0: dense */
    uint64_t experts;
} sizes;

static sizes sizes_of(const cdz_arch *a, uint64_t feeds)
{
    const bool sparse = a->n_experts > 0;
    return (sizes){a->n_layers,   a->hidden,   a->n_heads,
                   a->n_kv_heads, a->head_dim, sparse ? a->expert_intermediate : a->intermediate,
                   a->n_vocab,    feeds,       sparse ? a->n_active : 1,
                   a->n_experts};
}

static uint64_t layer_macs(const sizes *s)
{
    const uint64_t wide = s->heads * s->head_dim, narrow = s->kv_heads * s->head_dim;
    return s->layers * (2 * s->hidden * wide + 2 * s->hidden * narrow +
                        s->active * s->feeds * s->hidden * s->inner + s->experts * s->hidden);
}

static const struct {
    const char *name;
    uint64_t feeds; /* matrices of a feed-forward */
} models[] = {
    {"llama_gqa", 3}, {"qwen2_tied", 3}, {"mixtral", 3}, {"gpt2", 2}, {"gemma2", 3},
};

static void costs_follow_from_shapes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(models); i++) {
        char path[512];
        cdz_weights *w;
        cdz_error err = {0};
        snprintf(path, sizeof path, "%s/golden/%s", CADENZA_TEST_DATA, models[i].name);
        if (cdz_weights_open(path, &w, &err) != CDZ_OK) fail_msg("%s", err.text);
        const sizes s = sizes_of(&w->arch, models[i].feeds);
        const cdz_cost c = cdz_cost_of(w, CDZ_F32);
        if (c.layer_macs != layer_macs(&s))
            fail_msg("%s: %llu multiply-adds in the layers, expected %llu", models[i].name,
                     (unsigned long long)c.layer_macs, (unsigned long long)layer_macs(&s));
        assert_int_equal(c.head_macs, s.hidden * s.vocab);
        assert_int_equal(c.kv_bytes, s.layers * s.kv_heads * s.head_dim * 2 * sizeof(float));
        assert_int_equal(cdz_cost_of(w, CDZ_BF16).kv_bytes * 2, c.kv_bytes);
        assert_int_equal(cdz_cost_of(w, CDZ_Q8_0).kv_bytes, (c.kv_bytes + 127) / 128 * 34);
        assert_int_equal(cdz_cost_of(w, CDZ_Q4_0).kv_bytes, (c.kv_bytes + 127) / 128 * 18);
        assert_int_equal(c.attention_macs, s.layers * s.heads * s.head_dim * 2);
        /* Matrices make up nearly all bytes; norms and biases are what is beside them. */
        const uint64_t each = cdz_dtype_bytes(w->layers[0].q.w.dtype);
        assert_true(c.layer_bytes > c.layer_macs * each);
        assert_true(c.layer_bytes < c.layer_macs * each * 11 / 10);
        assert_true(c.head_bytes >= c.head_macs * cdz_dtype_bytes(w->head.w.dtype));
        cdz_weights_close(w);
    }
}

static void fewer_bytes_in_blocks(void **state)
{
    (void)state;
    cdz_weights *w;
    cdz_error err = {0};
    if (cdz_weights_open(CADENZA_TEST_DATA "/../models/pocket-dictionary", &w, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    const cdz_cost plain = cdz_cost_of(w, CDZ_F32);
    if (cdz_weights_quantise(w, CDZ_Q8_0, &err) != CDZ_OK) fail_msg("%s", err.text);
    const cdz_cost blocks = cdz_cost_of(w, CDZ_F32);
    assert_int_equal(blocks.layer_macs, plain.layer_macs);
    assert_true(blocks.layer_bytes < plain.layer_bytes);
    /* 34 bytes for 32 weights, and the last norm as it was. */
    assert_int_equal(blocks.head_bytes,
                     blocks.head_macs / 32 * 34 + (plain.head_bytes - 2 * plain.head_macs));
    cdz_weights_close(w);
}

/* A state is a step's too, and what rows of several streams have beside attention and feed-forward. */
static void states_and_streams_count(void **state)
{
    (void)state;
    cdz_weights *w;
    cdz_error err = {0};
    if (cdz_weights_open(CADENZA_TEST_DATA "/golden/granitemoehybrid", &w, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    assert_true(w->facts.state_bytes > 0);
    assert_int_equal(cdz_cost_of(w, CDZ_F32).state_bytes, w->facts.state_bytes);
    cdz_weights_close(w);
    if (cdz_weights_open(CADENZA_TEST_DATA "/golden/gemma3n", &w, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    const cdz_arch *a = &w->arch;
    const uint64_t D = a->hidden, n = a->streams.n, p = a->streams.inner, rank = a->streams.rank;
    const uint64_t wide = (uint64_t)a->n_heads * a->head_dim,
                   narrow = (uint64_t)a->n_kv_heads * a->head_dim;
    const uint64_t layer = 2 * D * wide + 3 * D * a->intermediate + n * D + n * n * n + n * n +
                           2 * D * p + 2 * D * rank;
    const uint64_t kept = a->n_layers - a->n_kv_shared;
    assert_int_equal(cdz_cost_of(w, CDZ_F32).layer_macs,
                     a->n_layers * layer + kept * 2 * D * narrow + 2 * (n - 1) * D * D +
                         a->n_layers * p * D);
    cdz_weights_close(w);
}

static void prompts_see_themselves(void **state)
{
    (void)state;
    const cdz_cost c = {.layer_macs = 100, .head_macs = 7, .attention_macs = 10};
    static const struct {
        uint64_t n;
        double macs;
    } cases[] = {{0, 7}, {1, 117}, {2, 237}, {3, 367}};
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_true(fabs(cdz_cost_prompt_macs(&c, cases[i].n) - cases[i].macs) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_follow_from_shapes),
        cmocka_unit_test(fewer_bytes_in_blocks),
        cmocka_unit_test(states_and_streams_count),
        cmocka_unit_test(prompts_see_themselves),
    };
    return cmocka_run_group_tests_name("cost", tests, NULL, NULL);
}
