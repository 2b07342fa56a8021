/* test_families.c - the table of families: every row of it is in the docs and the other way round; what the newer rows say of
 * layers, scales and experts; routers that are more than a softmax. That the numbers are right is shown by the goldens. */
#include "support/run_support.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "load/arch.h"
#include "run/pass/route.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define SIZES                                                                                      \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":4,"                         \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":100"
#define CONFIG(type, rest) "{\"model_type\":\"" type "\"," SIZES rest "}"
#define GLM(rest)                                                                                  \
    CONFIG("glm4_moe", ",\"n_routed_experts\":8,\"moe_intermediate_size\":16,"                     \
                       "\"num_experts_per_tok\":2" rest)
#define ERNIE(rest)                                                                                \
    CONFIG("ernie4_5_moe", ",\"moe_num_experts\":8,\"moe_intermediate_size\":16,\"moe_k\":2" rest)

#define LLAMA4(rest)                                                                               \
    CONFIG("llama4_text", ",\"num_local_experts\":8,\"intermediate_size_mlp\":80" rest)

static cdz_status read_arch(const char *config, cdz_arena *arena, cdz_arch *a, cdz_error *err)
{
    cdz_json *json = cdz_arena_array(arena, 1, sizeof *json);
    assert_non_null(json);
    assert_int_equal(
        cdz_json_parse(config, strlen(config), "m/config.json", NULL, arena, json, err), CDZ_OK);
    return cdz_arch_read(json, "m/config.json", arena, a, err);
}

static cdz_arch read_well(const char *config, cdz_arena *arena)
{
    cdz_arch a;
    cdz_error err = {0};
    must(read_arch(config, arena, &a, &err), &err);
    return a;
}

/* --- the docs ---------------------------------------------------------------------------------------------------- */

/* Rows of the table under "## Families": "| `type` | architecture | features |". */
static char *documented(size_t *len)
{
    char *text;
    cdz_error err = {0};
    must(cdz_file_read(CADENZA_SOURCE_DIR "/docs/models.md", 1 << 20, &text, len, &err), &err);
    char *table = strstr(text, "\n## Families\n");
    assert_non_null(table);
    char *end = strstr(table + 1, "\n## ");
    assert_non_null(end);
    *end = '\0';
    memmove(text, table, strlen(table) + 1);
    return text;
}

static bool is_family(const char *name, size_t len)
{
    const char *type;
    for (size_t i = 0; (type = cdz_arch_model_type(i)) != NULL; i++)
        if (strlen(type) == len && memcmp(type, name, len) == 0) return true;
    return false;
}

static void the_docs_have_every_family(void **state)
{
    (void)state;
    size_t len;
    char *text = documented(&len), row[96];
    const char *type;
    for (size_t i = 0; (type = cdz_arch_model_type(i)) != NULL; i++) {
        snprintf(row, sizeof row, "\n| `%s` |", type);
        if (!strstr(text, row)) fail_msg("docs/models.md has no row for %s", type);
    }
    for (const char *at = text; (at = strstr(at, "\n| `")) != NULL;) {
        at += strlen("\n| `");
        const char *end = strchr(at, '`');
        assert_non_null(end);
        const bool heading = strncmp(at, "model_type`", (size_t)(end - at) + 1) == 0;
        if (!heading && !is_family(at, (size_t)(end - at)))
            fail_msg("docs/models.md has %.40s, which is no family", at);
    }
    free(text);
}

/* --- what rows say ----------------------------------------------------------------------------------------------- */

/* Per layer, a letter: w window, n no rotation, e experts, . none of them. */
static const struct {
    const char *config, *layers;
} layer_rules[] = {
    {CONFIG("olmo3", ",\"sliding_window\":8"), "www."},
    {CONFIG("exaone4", ",\"sliding_window\":8"), "wwwn"},
    {CONFIG("exaone4", ",\"sliding_window\":8,\"sliding_window_pattern\":2"), "wnwn"},
    {CONFIG("exaone4", ",\"sliding_window\":8,\"sliding_window_pattern\":\"LG\""), "wnwn"},
    {CONFIG("exaone4", ",\"sliding_window\":8,\"sliding_window_pattern\":\"GLLL\""), "nwww"},
    {CONFIG("exaone4", ",\"sliding_window\":null"), "...."},
    {CONFIG("cohere2", ""), "wwwn"},
    {CONFIG("cohere2", ",\"sliding_window\":8,\"layer_types\":[\"full_attention\","
                       "\"sliding_attention\",\"full_attention\",\"sliding_attention\"]"),
     "nwnw"},
    {GLM(""), ".eee"},
    {GLM(",\"first_k_dense_replace\":3"), "...e"},
    {ERNIE(""), ".eee"},
    {ERNIE(",\"moe_layer_start_index\":0,\"moe_layer_interval\":2,\"moe_layer_end_index\":-1"),
     ".e.e"},
    {ERNIE(",\"moe_layer_start_index\":0,\"moe_layer_end_index\":1"), "ee.."},
    {CONFIG("minimax_m2", ",\"num_local_experts\":8"), "eeee"},
    {LLAMA4(",\"interleave_moe_layer_step\":4"), "wwwe"},
    {LLAMA4(",\"moe_layers\":[]"), "wwwn"},
    {LLAMA4(",\"moe_layers\":[],\"no_rope_layers\":[0,1,1,1]"), "nwww"},
    {LLAMA4(",\"moe_layers\":[1],\"attention_chunk_size\":null"), ".e.n"},
};

static void layers_are_what_the_rules_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(layer_rules); i++) {
        cdz_arena arena = {0};
        const cdz_arch a = read_well(layer_rules[i].config, &arena);
        char got[5] = "....";
        for (uint32_t l = 0; l < 4; l++) {
            if (a.window[l]) got[l] = 'w';
            if (!cdz_arch_rope(&a, l)) got[l] = 'n';
            if (a.sparse[l]) got[l] = 'e';
        }
        if (strcmp(got, layer_rules[i].layers) != 0)
            fail_msg("%s: layers are %s, expected %s", layer_rules[i].config, got,
                     layer_rules[i].layers);
        cdz_arena_free(&arena);
    }
}

static void granite_has_four_multipliers(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    const cdz_arch a =
        read_well(CONFIG("granite", ",\"embedding_multiplier\":12.0,\"residual_multiplier\":0.25,"
                                    "\"attention_multiplier\":0.5,\"logits_scaling\":8.0"),
                  &arena);
    assert_true(a.embed_scale == 12.0f && a.scales_given && a.residual_scale == 0.25f &&
                a.attention_scale == 0.5f && a.head_scale == 0.125f);
    cdz_arena_free(&arena);
}

static void alpha_makes_theta_larger(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    const cdz_arch a =
        read_well(CONFIG("hunyuan_v1_dense",
                         ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":1.0,\"alpha\":1000.0}"),
                  &arena);
    assert_true(fabs(a.rope_theta / (1e4 * pow(1000, 16.0 / 14)) - 1) < 1e-12);
    assert_int_equal(a.rope_type, CDZ_ROPE_DEFAULT);
    assert_int_equal(a.rope_limit, 0);
    assert_true(a.qk_norm_last);
    cdz_arena_free(&arena);
}

static void routers_are_told(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    cdz_arch a = read_well(GLM(",\"n_group\":4,\"topk_group\":2,\"routed_scaling_factor\":1.5,"
                               "\"n_shared_experts\":3,\"norm_topk_prob\":false"),
                           &arena);
    assert_int_equal(a.router.score, CDZ_ROUTE_SIGMOID);
    assert_true(a.router.biased && !a.router.normalise && a.router.scale == 1.5f);
    assert_int_equal(a.router.n_groups * 10 + a.router.groups_kept, 42);
    assert_int_equal(a.shared_intermediate, 48);
    assert_int_equal(a.qk_norm, CDZ_QK_NONE);
    a = read_well(GLM(",\"use_qk_norm\":true"), &arena);
    assert_int_equal(a.qk_norm, CDZ_QK_HEAD);
    a = read_well(ERNIE(",\"moe_norm_min\":0.5"), &arena);
    assert_int_equal(a.router.score, CDZ_ROUTE_SOFTMAX);
    assert_true(a.router.sum_least == 0.5f && a.router.normalise);
    assert_int_equal(a.shared_intermediate, 32);
    cdz_arena_free(&arena);
}

static void queries_grow_with_positions(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    cdz_arch a = read_well(LLAMA4(",\"attn_scale\":0.3,\"floor_scale\":16"), &arena);
    assert_true(a.temper.by == 0.3 && a.temper.every == 16 && a.temper.ahead == 1);
    assert_true(a.temper.unrotated && a.window_blocks && a.qk_norm_last && a.router.into_inputs);
    assert_int_equal(a.intermediate, 80);
    assert_int_equal(a.expert_intermediate, 96);
    assert_int_equal(a.shared_intermediate, 96);
    a = read_well(LLAMA4(",\"attn_temperature_tuning\":false,\"use_qk_norm\":false"), &arena);
    assert_true(a.temper.every == 0);
    assert_int_equal(a.qk_norm, CDZ_QK_NONE);
    a = read_well(CONFIG("ministral3", ",\"rope_parameters\":{\"llama_4_scaling_beta\":0.1,"
                                       "\"original_max_position_embeddings\":64}"),
                  &arena);
    assert_true(a.temper.by == 0.1 && a.temper.every == 64 && !a.temper.ahead);
    assert_false(a.temper.unrotated);
    a = read_well(CONFIG("ministral3", ""), &arena);
    assert_true(a.temper.every == 0);
    cdz_arena_free(&arena);
}

/* --- what cannot be ---------------------------------------------------------------------------------------------- */

static const struct {
    const char *config, *sentence;
    cdz_status status;
} unreadable[] = {
    {"{\"model_type\":\"olmo33\"}",
     "model_type \"olmo33\" is not supported: did you mean \"olmo3\"?", CDZ_E_UNSUPPORTED},
    {"{\"model_type\":\"qqqqqqqqq\"}",
     "\"qqqqqqqqq\" is not supported; supported are llama, mistral,", CDZ_E_UNSUPPORTED},
    {CONFIG("exaone4", ",\"sliding_window_pattern\":\"LXG\""),
     "sliding_window_pattern is \"LXG\", expected a number of layers or letters L and G",
     CDZ_E_INPUT},
    {CONFIG("exaone4", ",\"sliding_window_pattern\":\"\""), "expected a number of layers",
     CDZ_E_INPUT},
    {CONFIG("exaone4", ",\"sliding_window_pattern\":0"),
     "sliding_window_pattern is 0, expected a whole number from 1 to 10000", CDZ_E_INPUT},
    {CONFIG("granite", ",\"logits_scaling\":0"),
     "logits_scaling is 0, expected a number from 1e-09", CDZ_E_INPUT},
    {CONFIG("granite", ",\"residual_multiplier\":\"x\""), "residual_multiplier is a string",
     CDZ_E_INPUT},
    {CONFIG("hunyuan_v1_dense",
            ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":1.0,\"alpha\":-1}"),
     "rope_scaling.alpha is -1, expected a number from 0 to 1e+09", CDZ_E_INPUT},
    {CONFIG("seed_oss", ",\"attention_out_bias\":1"),
     "attention_out_bias is 1, expected true or false", CDZ_E_INPUT},
    {GLM(",\"n_group\":3"), "8 experts in n_group 3 groups", CDZ_E_INPUT},
    {GLM(",\"n_group\":4,\"topk_group\":5"), "of which topk_group 5 stay", CDZ_E_INPUT},
    {GLM(",\"n_group\":8"), "n_group 8 leaves groups of one expert", CDZ_E_INPUT},
    {GLM(",\"n_group\":65"), "n_group is 65, expected a whole number from 1 to 64", CDZ_E_INPUT},
    {GLM(",\"n_shared_experts\":5000"), "n_shared_experts is 5000, expected a whole number from 0",
     CDZ_E_INPUT},
    {GLM(",\"routed_scaling_factor\":1e9"), "routed_scaling_factor is 1e+09, expected", CDZ_E_INPUT},
    {CONFIG("glm4_moe", ",\"n_routed_experts\":8,\"num_experts_per_tok\":9"),
     "num_experts_per_tok 9 is more than the 8 experts", CDZ_E_INPUT},
    {ERNIE(",\"moe_layer_interval\":0"), "moe_layer_interval is 0, expected a whole number from 1",
     CDZ_E_INPUT},
    {ERNIE(",\"moe_layer_end_index\":-2"), "moe_layer_end_index is -2, expected a whole number",
     CDZ_E_INPUT},
    {CONFIG("minimax_m2", ""), "num_local_experts is missing", CDZ_E_INPUT},
    {"{\"model_type\":\"seeing\",\"text_config\":{\"model_type\":\"gehma3\"}}",
     "model_type \"gehma3\" is not supported: did you mean \"gemma2\"?", CDZ_E_UNSUPPORTED},
    {"{\"model_type\":\"seeing\",\"text_config\":{\"model_type\":\"llama\"}}",
     "m/config.json: text_config.hidden_size is missing", CDZ_E_INPUT},
    {LLAMA4(",\"moe_layers\":[4]"), "moe_layers[0] is no layer, expected a number from 0 to 3",
     CDZ_E_INPUT},
    {LLAMA4(",\"moe_layers\":7"), "moe_layers is an integer, expected an array", CDZ_E_INPUT},
    {LLAMA4(",\"floor_scale\":0"), "floor_scale is 0, expected a number from 1", CDZ_E_INPUT},
    {LLAMA4(",\"layer_types\":[\"sliding_attention\",\"full_attention\",\"full_attention\","
            "\"full_attention\"]"),
     "layer_types[0] is not supported; supported are full_attention, chunked_attention",
     CDZ_E_UNSUPPORTED},
    {"{\"model_type\":\"gptj\",\"n_embd\":64,\"n_layer\":2,\"n_head\":4,\"vocab_size\":9,"
     "\"rotary_dim\":18}",
     "rotary_dim is 18, expected a whole number from 1 to 16", CDZ_E_INPUT},
    {"{\"model_type\":\"gptj\",\"n_embd\":64,\"n_layer\":2,\"n_head\":4,\"vocab_size\":9}",
     "rotary_dim 64 is more than the 16 dims of a head", CDZ_E_INPUT},
    {"{\"model_type\":\"gpt_bigcode\",\"n_embd\":64,\"n_layer\":2,\"n_head\":4,\"vocab_size\":9,"
     "\"multi_query\":false}",
     "multi_query false is not supported", CDZ_E_UNSUPPORTED},
    {CONFIG("persimmon", ",\"qk_layernorm\":false"), "qk_layernorm false is not supported",
     CDZ_E_UNSUPPORTED},
    {CONFIG("arcee", ",\"hidden_act\":\"relu3\""), "hidden_act \"relu3\" is not supported",
     CDZ_E_UNSUPPORTED},
    {CONFIG("llama", ",\"hidden_act\":\"relu2\""),
     "relu2 is not supported for llama, whose feed-forward has a gate", CDZ_E_UNSUPPORTED},
    {CONFIG("olmo", ",\"clip_qkv\":8.0"), "clip_qkv is not supported", CDZ_E_UNSUPPORTED},
    {CONFIG("cohere", ",\"use_qk_norm\":true"), "use_qk_norm is not supported", CDZ_E_UNSUPPORTED},
};

static void wrong_configurations_are_sentences(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(unreadable); i++) {
        cdz_arena arena = {0};
        cdz_arch a;
        cdz_error err = {0};
        const cdz_status status = read_arch(unreadable[i].config, &arena, &a, &err);
        if (status != unreadable[i].status || !strstr(err.text, unreadable[i].sentence))
            fail_msg("%s: %d, \"%s\"", unreadable[i].config, (int)status, err.text);
        cdz_arena_free(&arena);
    }
}

/* --- routers ----------------------------------------------------------------------------------------------------- */

enum { E = 6 };

/* Worked out by hand: sigmoids of 0, 1, 2 and -1 are 0.5, 0.7310586, 0.8807970 and 0.2689414. */
static const struct {
    const char *what;
    cdz_router router;
    float scores[E], bias[E];
    int32_t ids[2];
    float weights[2];
} routes[] = {
    {"softmax", {.scale = 1}, {0, 0, 1, 0, 2, 0}, {0}, {4, 2}, {0.5237742f, 0.1926857f}},
    {"normalised",
     {.normalise = true, .scale = 1},
     {0, 0, 1, 0, 2, 0},
     {0},
     {4, 2},
     {0.7310586f, 0.2689414f}},
    {"equal ones: the first", {.score = CDZ_ROUTE_SIGMOID, .scale = 1}, {0}, {0}, {0, 1}, {0.5f, 0.5f}},
    {"a bias chooses and weighs nothing",
     {.score = CDZ_ROUTE_SIGMOID, .biased = true, .scale = 2},
     {0, 0, 1, 0, 2, 0},
     {1, 0, 0, 0, -1, 0},
     {0, 2},
     {1.0f, 1.4621172f}},
    {"groups: 2 of 3 experts, by their two best",
     {.score = CDZ_ROUTE_SIGMOID, .biased = true, .n_groups = 2, .groups_kept = 1, .scale = 1},
     {2, -1, -1, 1, 1, 0},
     {0},
     {3, 4},
     {0.7310586f, 0.7310586f}},
    {"an expert that does not stay counts as 0, above negative ones",
     {.score = CDZ_ROUTE_SIGMOID, .biased = true, .n_groups = 2, .groups_kept = 1, .scale = 1},
     {0, 0, 0, 0, 0, 0},
     {-1, -1, -1, -2, -2, -2},
     {3, 4},
     {0.5f, 0.5f}},
    {"a sum that is at least so much",
     {.score = CDZ_ROUTE_SIGMOID, .normalise = true, .sum_least = 2, .scale = 1},
     {0, 0, 0, 0, 0, 0},
     {0},
     {0, 1},
     {0.25f, 0.25f}},
};

static void rows_find_their_experts(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(routes); i++) {
        float scores[E], weights[2];
        int32_t ids[2];
        memcpy(scores, routes[i].scores, sizeof scores);
        cdz_route_row(&routes[i].router, routes[i].router.biased ? routes[i].bias : NULL, scores, E,
                      2, weights, ids);
        for (int j = 0; j < 2; j++)
            if (ids[j] != routes[i].ids[j] || !(fabsf(weights[j] - routes[i].weights[j]) < 1e-6f))
                fail_msg("%s: choice %d is %d with %.7g, expected %d with %.7g", routes[i].what, j,
                         (int)ids[j], (double)weights[j], (int)routes[i].ids[j],
                         (double)routes[i].weights[j]);
    }
}

/* Whatever the scores are, ids are experts, each once. */
static void no_number_leads_elsewhere(void **state)
{
    (void)state;
    const float odd[] = {NAN, INFINITY, -INFINITY, 0, 1e38f};
    for (size_t i = 0; i < COUNT(odd); i++)
        for (int kind = 0; kind < 2; kind++) {
            const cdz_router r = {.score = kind ? CDZ_ROUTE_SIGMOID : CDZ_ROUTE_SOFTMAX,
                                  .n_groups = 3,
                                  .groups_kept = 1,
                                  .scale = 1};
            float scores[E], weights[E];
            int32_t ids[E];
            uint32_t seen = 0;
            for (int e = 0; e < E; e++) scores[e] = odd[(i + (size_t)e % 2) % COUNT(odd)];
            cdz_route_row(&r, NULL, scores, E, E, weights, ids);
            for (int j = 0; j < E; j++) {
                assert_true(ids[j] >= 0 && ids[j] < E);
                seen |= 1u << ids[j];
            }
            assert_int_equal(seen, (1u << E) - 1);
        }
}

/* --- models of several parts -------------------------------------------------------------------------------------- */

/* A folder whose config.json has llama_bf16's as the text part, and whose tensors have other names. */
static void make_whole(const char *folder, const char *model_prefix, const char *head_prefix)
{
    char path[256], *text;
    size_t len;
    cdz_error err = {0};
    must(cdz_file_read(CADENZA_TEST_DATA "/golden/llama_bf16/config.json", 1 << 20, &text, &len,
                       &err),
         &err);
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "{\"model_type\":\"seeing\",\"vision_config\":{},\"text_config\":%s}", text);
    assert_int_equal(fclose(f), 0);
    free(text);

    must(cdz_file_read(CADENZA_TEST_DATA "/golden/llama_bf16/model.safetensors", 1 << 24, &text,
                       &len, &err),
         &err);
    uint64_t old;
    memcpy(&old, text, sizeof old);
    cdz_buf header = {0};
    for (const char *at = text + 8, *end = at + old; at < end;) {
        if (strncmp(at, "\"model.", 7) == 0) {
            cdz_buf_printf(&header, "\"%s", model_prefix);
            at += 7;
        } else if (strncmp(at, "\"lm_head", 8) == 0) {
            cdz_buf_printf(&header, "\"%slm_head", head_prefix);
            at += 8;
        } else {
            cdz_buf_putc(&header, *at++);
        }
    }
    while (header.len % 8) cdz_buf_putc(&header, ' ');
    const uint64_t now = header.len;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    f = fopen(path, "w");
    assert_non_null(f);
    fwrite(&now, sizeof now, 1, f);
    fwrite(header.data, 1, header.len, f);
    fwrite(text + 8 + old, 1, len - 8 - old, f);
    assert_int_equal(fclose(f), 0);
    cdz_buf_free(&header);
    free(text);
}

static void the_text_part_is_found(void **state)
{
    (void)state;
    static const char *const prefixes[][2] = {{"language_model.model.", "language_model."},
                                              {"model.language_model.", ""}};
    for (size_t i = 0; i < COUNT(prefixes); i++) {
        char folder[] = "/tmp/cadenza-parts-XXXXXX", path[64];
        cdz_weights *whole, *alone;
        cdz_error err = {0};
        assert_non_null(mkdtemp(folder));
        make_whole(folder, prefixes[i][0], prefixes[i][1]);
        must(cdz_weights_open(folder, &whole, &err), &err);
        must(cdz_weights_open(CADENZA_TEST_DATA "/golden/llama_bf16", &alone, &err), &err);
        assert_string_equal(whole->arch.part_of, "seeing");
        assert_string_equal(whole->arch.model_type, "llama");
        assert_null(alone->arch.part_of);
        assert_int_equal(whole->facts.n_parameters, alone->facts.n_parameters);
        assert_int_equal(whole->facts.n_unexpected, 0);
        const cdz_weight *a = &whole->layers[1].mlp.down.w, *b = &alone->layers[1].mlp.down.w;
        assert_memory_equal(a->data, b->data, cdz_row_bytes(a->dtype, a->k) * a->n);
        assert_memory_equal(whole->head.w.data, alone->head.w.data, 64);
        cdz_weights_close(whole);
        cdz_weights_close(alone);
        snprintf(path, sizeof path, "%s/config.json", folder);
        unlink(path);
        snprintf(path, sizeof path, "%s/model.safetensors", folder);
        unlink(path);
        rmdir(folder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_docs_have_every_family),
        cmocka_unit_test(layers_are_what_the_rules_say),
        cmocka_unit_test(granite_has_four_multipliers),
        cmocka_unit_test(alpha_makes_theta_larger),
        cmocka_unit_test(routers_are_told),
        cmocka_unit_test(queries_grow_with_positions),
        cmocka_unit_test(wrong_configurations_are_sentences),
        cmocka_unit_test(the_text_part_is_found),
        cmocka_unit_test(rows_find_their_experts),
        cmocka_unit_test(no_number_leads_elsewhere),
    };
    return cmocka_run_group_tests_name("families", tests, NULL, NULL);
}
