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

#define DEEPSEEK(version, rest)                                                                    \
    CONFIG("deepseek_v" version, ",\"n_routed_experts\":16,\"moe_intermediate_size\":16,"          \
                                 "\"num_experts_per_tok\":2,\"kv_lora_rank\":24,"                  \
                                 "\"qk_rope_head_dim\":8,\"qk_nope_head_dim\":12,"                 \
                                 "\"v_head_dim\":10" rest)

#define GEMMA3N(rest) CONFIG("gemma3n_text", rest)
#define FALCON7(rest) CONFIG("falcon", rest)
#define PHIMOE(rest)  CONFIG("phimoe", ",\"num_local_experts\":8" rest)
#define MPT_SIZES     "\"d_model\":48,\"n_layers\":2,\"n_heads\":6,\"vocab_size\":100"
#define MPT(config)   "{\"model_type\":\"mpt\"," MPT_SIZES ",\"attn_config\":{" config "}}"
#define BLOOM_SIZES                                                                                \
    "\"n_embed\":48,\"hidden_size\":9,\"n_layer\":2,\"num_attention_heads\":6,\"vocab_size\":100"

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
    {CONFIG("cohere2", ",\"sliding_window_pattern\":2"), "wnwn"},
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
    {CONFIG("gpt_oss", ",\"num_local_experts\":8"), "eeee"},
    {DEEPSEEK("2", ""), "eeee"},
    {DEEPSEEK("3", ""), "...e"},
    {DEEPSEEK("3", ",\"first_k_dense_replace\":1"), ".eee"},
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

/* --- recurrent layers -------------------------------------------------------------------------------------------- */

#define HYBRID(type, rest) CONFIG(type, ",\"norm_eps\":1e-5,\"layer_norm_epsilon\":1e-5" rest)
#define LFM2(rest)         HYBRID("lfm2", rest)
#define MAMBA2(rest)       HYBRID("mamba2", ",\"num_heads\":8,\"head_dim\":16,\"n_groups\":2" rest)
#define QWEN(rest)                                                                                 \
    HYBRID("qwen3_next", ",\"num_experts\":8,\"moe_intermediate_size\":8,"                         \
                         "\"shared_expert_intermediate_size\":8,\"num_experts_per_tok\":2" rest)
#define GRANITE(rest)                                                                              \
    HYBRID("granitemoehybrid", ",\"num_local_experts\":0,"                                         \
                               "\"shared_intermediate_size\":24,\"mamba_n_heads\":8" rest)
#define FALCON(rest) HYBRID("falcon_h1", ",\"mamba_n_heads\":4,\"mamba_d_ssm\":32" rest)
#define NEMOTRON(rest)                                                                             \
    HYBRID("nemotron_h", ",\"n_routed_experts\":8,\"moe_intermediate_size\":8,"                    \
                         "\"moe_shared_expert_intermediate_size\":8,\"mamba_num_heads\":8,"        \
                         "\"mamba_head_dim\":8,\"n_groups\":2,\"head_dim\":16" rest)

/* Per layer, a letter: r recurrent, a attention, b both, f neither; and a feed-forward or not, in capitals without. */
static const struct {
    const char *config, *layers;
} mixers[] = {
    {LFM2(""), "aaaa"},
    {LFM2(",\"full_attn_idxs\":[1,3]"), "rara"},
    {LFM2(",\"layer_types\":[\"conv\",\"conv\",\"full_attention\",\"conv\"]"), "rrar"},
    {MAMBA2(""), "RRRR"},
    {QWEN(""), "rrra"},
    {QWEN(",\"full_attention_interval\":2"), "rara"},
    {GRANITE(""), "rrrr"},
    {GRANITE(",\"attn_layer_indices\":[2]"), "rrar"},
    {GRANITE(",\"layers_block_type\":[\"mamba\",\"attention\",\"mamba\",\"mamba\"]"), "rarr"},
    {FALCON(""), "bbbb"},
    {NEMOTRON(",\"hybrid_override_pattern\":\"ME*E\""), "RfAf"},
    {NEMOTRON(",\"layers_block_type\":[\"moe\",\"mamba\",\"attention\"]"), "fRA"},
    {NEMOTRON(",\"hybrid_override_pattern\":\"M-*E\""), "RfAf"},
    {HYBRID("nemotron_h", ",\"mamba_num_heads\":8,\"mamba_head_dim\":8,\"n_groups\":2,"
                          "\"hybrid_override_pattern\":\"M-M*-\""),
     "RfRAf"},
};

static void mixers_are_what_the_rules_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(mixers); i++) {
        cdz_arena arena = {0};
        const cdz_arch a = read_well(mixers[i].config, &arena);
        char got[8] = "";
        for (uint32_t l = 0; l < a.n_layers && l < 7; l++) {
            const bool recurs = cdz_arch_mixes(&a, l, CDZ_MIX_RECURRENT),
                       attends = cdz_arch_mixes(&a, l, CDZ_MIX_ATTENTION);
            got[l] = recurs && attends ? 'b' : recurs ? 'r' : attends ? 'a' : 'f';
            if (!cdz_arch_feeds(&a, l)) got[l] -= 'a' - 'A';
        }
        if (strcmp(got, mixers[i].layers) != 0)
            fail_msg("%s: layers are %s, expected %s", mixers[i].config, got, mixers[i].layers);
        cdz_arena_free(&arena);
    }
}

static void states_have_their_sizes(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    cdz_arch a = read_well(MAMBA2(",\"state_size\":16,\"time_step_limit\":[0.5,"
                                  "{\"__float__\":\"Infinity\"}]"),
                           &arena);
    /* 3 of 128 + 2 * 2 * 16 channels, and 8 heads of 16 by 16; four layers */
    assert_int_equal(cdz_arch_state_floats(&a), 4 * (3 * 192 + 8 * 16 * 16));
    assert_true(a.recurrent.low == 0.5f && a.recurrent.high > 1e38f);
    assert_true(cdz_arch_needs_whole_mask(&a));
    assert_false(cdz_arch_attends(&a));
    assert_int_equal(a.context, 0);
    a = read_well(LFM2(",\"full_attn_idxs\":[1]"), &arena);
    assert_int_equal(cdz_arch_state_floats(&a), 3 * 2 * a.hidden);
    assert_int_equal(cdz_arch_kv_layers(&a), 1);
    a = read_well(FALCON(",\"mamba_rms_norm\":true,\"mamba_norm_before_gate\":false,"
                         "\"ssm_multipliers\":[1,2,3,4,5],\"mlp_multipliers\":[0.5,0.25],"
                         "\"key_multiplier\":3"),
                  &arena);
    assert_int_equal(a.recurrent.norm, CDZ_GATED_GROUPS);
    assert_int_equal(a.recurrent.columns, 8);
    assert_true(a.recurrent.part_scale[4] == 5.0f && a.gate_scale == 0.5f &&
                a.down_scale == 0.25f && a.key_scale == 3.0f);
    a = read_well(GRANITE(",\"position_embedding_type\":\"rope\""), &arena);
    assert_non_null(cdz_arch_rope(&a, 0));
    assert_int_equal(a.intermediate, 24);
    a = read_well(GRANITE(""), &arena);
    assert_null(cdz_arch_rope(&a, 0));
    cdz_arena_free(&arena);
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

static void latents_are_one_head_of_keys(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    cdz_arch a = read_well(DEEPSEEK("3", ""), &arena);
    assert_int_equal(a.latent.kv_rank, 24);
    assert_int_equal(a.latent.q_rank, 1536);
    assert_int_equal(a.n_kv_heads * 100 + a.head_dim, 132);
    assert_int_equal(cdz_arch_rope(&a, 0)->n_rotated, 8);
    assert_true(cdz_arch_rope(&a, 0)->interleaved);
    assert_true(fabs(a.attention_scale * sqrt(20) - 1) < 1e-6);
    assert_int_equal(a.router.n_groups * 10 + a.router.groups_kept, 84);
    a = read_well(DEEPSEEK("3", ",\"q_lora_rank\":null,\"rope_interleave\":false"), &arena);
    assert_int_equal(a.latent.q_rank, 0);
    assert_false(cdz_arch_rope(&a, 0)->interleaved);
    /* m(1) of a context stretched by e^10 is 2, and counts twice. */
    a = read_well(DEEPSEEK("3", ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":22026.465795,"
                                "\"mscale\":1.0,\"mscale_all_dim\":1.0,"
                                "\"original_max_position_embeddings\":64}"),
                  &arena);
    assert_true(fabs(a.attention_scale * sqrt(20) - 4) < 1e-5);
    a = read_well(DEEPSEEK("2", ",\"topk_method\":\"group_limited_greedy\",\"n_group\":4,"
                                "\"topk_group\":2"),
                  &arena);
    assert_true(a.router.groups_by_best && !a.router.normalise);
    assert_int_equal(a.router.n_groups * 10 + a.router.groups_kept, 42);
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

static void falcons_are_laid_as_they_say(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        uint32_t n_kv;
        bool parallel, one_norm, apart;
    } of[] = {
        {FALCON7(""), 1, true, true, false},
        {FALCON7(",\"multi_query\":false"), 4, true, true, false},
        {FALCON7(",\"num_kv_heads\":2"), 1, true, true, false},
        {FALCON7(",\"parallel_attn\":false,\"alibi\":false"), 1, false, false, false},
        {FALCON7(",\"new_decoder_architecture\":true,\"num_kv_heads\":2"), 2, true, false, true},
        {FALCON7(",\"new_decoder_architecture\":true,\"num_ln_in_parallel_attn\":1"), 4, true, true,
         false},
    };
    for (size_t i = 0; i < COUNT(of); i++) {
        cdz_arena arena = {0};
        const cdz_arch a = read_well(of[i].config, &arena);
        const bool apart = strstr(a.names[CDZ_PART_ATTN_NORM], "ln_attn");
        if (a.n_kv_heads != of[i].n_kv || a.parallel_residual != of[i].parallel ||
            a.one_norm != of[i].one_norm || apart != of[i].apart || a.intermediate == 0)
            fail_msg("%s: %u keys, parallel %d, one norm %d, apart %d", of[i].config,
                     (unsigned)a.n_kv_heads, a.parallel_residual, a.one_norm, apart);
        cdz_arena_free(&arena);
    }
}

static void the_last_layers_use_others_keys(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    cdz_arch a = read_well(
        GEMMA3N(",\"num_kv_shared_layers\":2,\"activation_sparsity_pattern\":[0.5,0,0.975,0],"
                "\"layer_types\":[\"full_attention\",\"sliding_attention\",\"full_attention\","
                "\"sliding_attention\"]"),
        &arena);
    assert_int_equal(cdz_arch_kv_layers(&a), 2);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(a.kv_place[i], i % 2);
    assert_true(fabsf(a.streams.cut[0]) < 1e-6f && fabsf(a.streams.cut[2] - 1.959964f) < 1e-5f);
    assert_true(isinf(a.streams.cut[1]) && isinf(a.streams.cut[3]));
    assert_true(a.attention_scale == 1.0f && a.streams.n == 4 && a.streams.vocab == 262144);
    a = read_well(GEMMA3N(",\"num_kv_shared_layers\":4"), &arena); /* none would be left to share */
    assert_int_equal(cdz_arch_kv_layers(&a), 4);
    assert_null(a.kv_place);
    cdz_arena_free(&arena);
}

/* Slopes of six heads: powers of a quarter for four of them, odd powers of a half for the others. */
static void scores_fall_with_distance(void **state)
{
    (void)state;
    const float slopes[] = {0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f};
    cdz_arena arena = {0};
    cdz_arch a = read_well("{\"model_type\":\"bloom\"," BLOOM_SIZES "}", &arena);
    assert_int_equal(a.hidden, 48);
    assert_int_equal(a.n_heads, 6);
    assert_int_equal(a.context, 0);
    assert_true(cdz_arch_adds_by_distance(&a) && !cdz_arch_needs_whole_mask(&a));
    assert_null(cdz_arch_rope(&a, 0));
    for (int h = 0; h < 6; h++) assert_true(a.slopes[h] == slopes[h]);
    a = read_well(MPT("\"softmax_scale\":0.25"), &arena);
    assert_true(a.attention_scale == 0.25f && cdz_arch_needs_whole_mask(&a));
    for (int h = 0; h < 6; h++) assert_true(a.slopes[h] == slopes[h]);
    a = read_well(MPT("\"softmax_scale\":null"), &arena);
    assert_true(fabsf(a.attention_scale * sqrtf(8) - 1) < 1e-6f);
    cdz_arena_free(&arena);
}

static void heads_may_have_norms_of_their_own(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    cdz_arch a = read_well(CONFIG("stablelm", ",\"qk_layernorm\":true"), &arena);
    assert_int_equal(a.qk_norm, CDZ_QK_EACH);
    assert_false(a.parallel_residual || a.one_norm);
    a = read_well(CONFIG("stablelm", ",\"use_parallel_residual\":true"), &arena);
    assert_int_equal(a.qk_norm, CDZ_QK_NONE);
    assert_true(a.parallel_residual && a.one_norm);
    a = read_well(CONFIG("hunyuan_v1_dense", ",\"use_qk_norm\":true"), &arena); /* always there */
    assert_int_equal(a.qk_norm, CDZ_QK_HEAD);
    a = read_well(CONFIG("cohere", ",\"use_qk_norm\":true"), &arena);
    assert_int_equal(a.qk_norm, CDZ_QK_EACH);
    cdz_arena_free(&arena);
}

static void long_rows_have_a_scale_of_their_own(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    const cdz_arch a =
        read_well(PHIMOE(",\"router_jitter_noise\":0.25,\"rope_scaling\":{\"type\":\"longrope\","
                         "\"short_mscale\":1.5,\"long_mscale\":2.5,"
                         "\"original_max_position_embeddings\":64,"
                         "\"short_factor\":[1,1,1,1,1,1,1,1],\"long_factor\":[2,2,2,2,2,2,2,2]}"),
                  &arena);
    assert_true(cdz_rope_at(&a, 64, NULL).scale == 1.5f);
    assert_true(cdz_rope_at(&a, 65, NULL).scale == 2.5f);
    assert_int_equal(a.router.score, CDZ_ROUTE_NEAREST);
    assert_true(a.router.near == 0.5f);
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
    {LFM2(",\"conv_L_cache\":1"), "conv_L_cache 1 is not supported; expected 2 to 16",
     CDZ_E_UNSUPPORTED},
    {LFM2(",\"conv_L_cache\":17"), "conv_L_cache is 17, expected a whole number from 1 to 16",
     CDZ_E_INPUT},
    {LFM2(",\"full_attn_idxs\":[4]"),
     "full_attn_idxs[0] is no layer, expected a number from 0 to 3", CDZ_E_INPUT},
    {LFM2(",\"layer_types\":[\"conv\"]"), "layer_types must be an array of num_hidden_layers (4)",
     CDZ_E_INPUT},
    {LFM2(",\"layer_types\":[\"conv\",\"conv\",\"x\",\"conv\"]"),
     "layer_types[2] is not supported; supported are conv and full_attention", CDZ_E_UNSUPPORTED},
    {LFM2(",\"block_multiple_of\":0"), "block_multiple_of is 0, expected a whole number",
     CDZ_E_INPUT},
    {MAMBA2(",\"expand\":3"), "8 heads of 16 do not make the inner width", CDZ_E_INPUT},
    {MAMBA2(",\"time_step_limit\":[2.0,1.0]"), "time_step_limit is no pair of numbers", CDZ_E_INPUT},
    {MAMBA2(",\"time_step_limit\":[0.0,{\"__float__\":\"NaN\"}]"),
     "time_step_limit is no pair of numbers", CDZ_E_INPUT},
    {FALCON(",\"ssm_multipliers\":[1,2]"), "ssm_multipliers is no list of 5 numbers", CDZ_E_INPUT},
    {FALCON(",\"ssm_multipliers\":[1,2,3,4,\"x\"]"),
     "ssm_multipliers[4] is a string, expected a number", CDZ_E_INPUT},
    {NEMOTRON(""), "layers_block_type is missing", CDZ_E_INPUT},
    {NEMOTRON(",\"hybrid_override_pattern\":\"MEx\""),
     "hybrid_override_pattern[2] is not supported; supported are M, *, E and -", CDZ_E_UNSUPPORTED},
    {NEMOTRON(",\"layers_block_type\":[]"), "expected a list of 1 to 10000 layers' kinds",
     CDZ_E_INPUT},
    {NEMOTRON(",\"hybrid_override_pattern\":\"ME\",\"moe_latent_size\":0"),
     "moe_latent_size is 0, expected a whole number", CDZ_E_INPUT},
    {NEMOTRON(",\"hybrid_override_pattern\":\"ME\",\"mamba_hidden_act\":\"relu\""),
     "mamba_hidden_act relu is not supported in recurrent layers; expected silu", CDZ_E_UNSUPPORTED},
    {MAMBA2(",\"hidden_act\":\"gelu\""),
     "hidden_act gelu is not supported in recurrent layers; expected silu", CDZ_E_UNSUPPORTED},
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
    {CONFIG("cohere2", ",\"use_qk_norm\":true"), "use_qk_norm is not supported", CDZ_E_UNSUPPORTED},
    {FALCON7(",\"alibi\":true"), "alibi true is not supported", CDZ_E_UNSUPPORTED},
    {FALCON7(",\"num_ln_in_parallel_attn\":2"),
     "num_ln_in_parallel_attn 2 without new_decoder_architecture is not supported",
     CDZ_E_UNSUPPORTED},
    {FALCON7(",\"num_ln_in_parallel_attn\":3"),
     "num_ln_in_parallel_attn is 3, expected a whole number from 1 to 2", CDZ_E_INPUT},
    {FALCON7(",\"new_decoder_architecture\":true,\"parallel_attn\":false"),
     "parallel_attn false with new_decoder_architecture is not supported", CDZ_E_UNSUPPORTED},
    {FALCON7(",\"new_decoder_architecture\":true,\"num_kv_heads\":3"),
     "num_attention_heads 4 is not a multiple of num_kv_heads 3", CDZ_E_INPUT},
    {MPT("\"clip_qkv\":8.0"), "attn_config.clip_qkv other than null is not supported",
     CDZ_E_UNSUPPORTED},
    {MPT("\"alibi\":false"), "attn_config.alibi false is not supported", CDZ_E_UNSUPPORTED},
    {MPT("\"alibi_bias_max\":16"), "attn_config.alibi_bias_max other than 8", CDZ_E_UNSUPPORTED},
    {MPT("\"qk_ln\":true"), "attn_config.qk_ln true is not supported", CDZ_E_UNSUPPORTED},
    {MPT("\"prefix_lm\":true"), "attn_config.prefix_lm true is not supported", CDZ_E_UNSUPPORTED},
    {MPT("\"attn_type\":\"multiquery_attention\""),
     "attn_config.attn_type other than multihead_attention is not supported", CDZ_E_UNSUPPORTED},
    {MPT("\"softmax_scale\":0"), "attn_config.softmax_scale is 0, expected a number", CDZ_E_INPUT},
    {"{\"model_type\":\"mpt\"," MPT_SIZES ",\"attn_config\":7}",
     "attn_config is an integer, expected an object", CDZ_E_INPUT},
    {"{\"model_type\":\"mpt\"," MPT_SIZES ",\"logit_scale\":2}",
     "logit_scale other than null is not supported", CDZ_E_UNSUPPORTED},
    {"{\"model_type\":\"mpt\"," MPT_SIZES ",\"no_bias\":false}", "no_bias false is not supported",
     CDZ_E_UNSUPPORTED},
    {"{\"model_type\":\"bloom\"," BLOOM_SIZES ",\"apply_residual_connection_post_layernorm\":true}",
     "apply_residual_connection_post_layernorm true is not supported", CDZ_E_UNSUPPORTED},
    {"{\"model_type\":\"codegen\",\"n_embd\":48,\"n_layer\":2,\"n_head\":6,"
     "\"vocab_size\":9,\"rotary_dim\":4}",
     "n_head 6 is not supported for codegen; expected a multiple of 4", CDZ_E_UNSUPPORTED},
    {PHIMOE(",\"num_experts_per_tok\":3"),
     "num_experts_per_tok 3 is not supported for phimoe; expected 2", CDZ_E_UNSUPPORTED},
    {PHIMOE(",\"router_jitter_noise\":-1"), "router_jitter_noise is -1, expected a number from 0",
     CDZ_E_INPUT},
    {PHIMOE(",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.0}"),
     "rope_scaling.rope_type linear is not supported for phimoe", CDZ_E_UNSUPPORTED},
    {PHIMOE(",\"rope_scaling\":{\"type\":\"longrope\",\"short_mscale\":1.0,"
            "\"original_max_position_embeddings\":64}"),
     "rope_scaling.long_mscale is missing", CDZ_E_INPUT},
    {GEMMA3N(",\"altup_active_idx\":4"),
     "altup_active_idx is 4, expected a whole number from 0 to 3", CDZ_E_INPUT},
    {GEMMA3N(",\"altup_num_inputs\":0"), "altup_num_inputs is 0, expected", CDZ_E_INPUT},
    {GEMMA3N(",\"activation_sparsity_pattern\":[0.5]"),
     "activation_sparsity_pattern has 1 numbers, expected num_hidden_layers (4)", CDZ_E_INPUT},
    {GEMMA3N(",\"activation_sparsity_pattern\":1.0"),
     "activation_sparsity_pattern of layer 0 must be a number from 0 to below 1", CDZ_E_INPUT},
    {GEMMA3N(",\"num_kv_shared_layers\":2,\"layer_types\":[\"sliding_attention\","
             "\"sliding_attention\",\"full_attention\",\"full_attention\"]"),
     "num_kv_shared_layers 2 leaves layer 2 none to share keys with", CDZ_E_INPUT},
    {"{\"model_type\":\"gemma3n_text\",\"hidden_size\":64,\"intermediate_size\":[96,80],"
     "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"vocab_size\":100}",
     "intermediate_size of several widths is not supported", CDZ_E_UNSUPPORTED},
    {"{\"model_type\":\"gemma3n_text\",\"hidden_size\":64,\"intermediate_size\":[96,0],"
     "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"vocab_size\":100}",
     "intermediate_size[1] is no whole number from 1", CDZ_E_INPUT},
    {CONFIG("llama", ",\"hidden_act\":\"xielu\""), "hidden_act xielu is not supported for llama",
     CDZ_E_UNSUPPORTED},
    {DEEPSEEK("3", ",\"n_group\":3"), "16 experts in n_group 3 groups", CDZ_E_INPUT},
    {DEEPSEEK("3", ",\"q_lora_rank\":\"x\""), "q_lora_rank is a string", CDZ_E_INPUT},
    {DEEPSEEK("2", ",\"topk_method\":\"noaux_tc\""),
     "topk_method noaux_tc is not supported; supported are greedy, group_limited_greedy",
     CDZ_E_UNSUPPORTED},
    {DEEPSEEK("2", ",\"topk_method\":7"), "topk_method an integer is not supported",
     CDZ_E_UNSUPPORTED},
    {CONFIG("deepseek_v2", ",\"n_routed_experts\":8,\"num_experts_per_tok\":2,"
                           "\"moe_intermediate_size\":16,\"qk_rope_head_dim\":7"),
     "qk_rope_head_dim 7 is odd", CDZ_E_UNSUPPORTED},
    {CONFIG("deepseek_v2", ",\"n_routed_experts\":8,\"num_experts_per_tok\":2,"
                           "\"moe_intermediate_size\":16,\"kv_lora_rank\":0"),
     "kv_lora_rank is 0, expected a whole number from 1", CDZ_E_INPUT},
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
    {"groups by their best: two good ones are no better than one that is best",
     {.n_groups = 2, .groups_kept = 1, .groups_by_best = true, .scale = 1},
     {1, 1, 1, 2, -3, -3},
     {0},
     {3, 4},
     {0.4723411f, 0.0031826f}},
    {"one after the other, each among what is near it",
     {.score = CDZ_ROUTE_NEAREST, .near = 0.5f, .scale = 1},
     {0, 0, 1, 0, 2, 0},
     {0},
     {4, 2},
     {0.7310586f, 1.0f}},
    {"negative ones are near in shares of themselves",
     {.score = CDZ_ROUTE_NEAREST, .near = 0.5f, .scale = 1},
     {-2, -1, -9, -9, -9, -9},
     {0},
     {1, 0},
     {0.7310586f, 1.0f}},
    {"a sum that is at least so much",
     {.score = CDZ_ROUTE_SIGMOID, .normalise = true, .sum_least = 2, .scale = 1},
     {0, 0, 0, 0, 0, 0},
     {0},
     {0, 1},
     {0.25f, 0.25f}},
};

/* The whole's key or the text part's ties; where the whole says nothing its tensors do. */
static void a_part_is_tied_as_its_whole(void **state)
{
    (void)state;
#define PART(whole, text)                                                                          \
    "{\"model_type\":\"seeing\"" whole ",\"text_config\":" CONFIG("llama", text) "}"
    static const struct {
        const char *config;
        bool tied;
    } cases[] = {
        {CONFIG("llama", ""), false},
        {PART("", ""), true},
        {PART("", ",\"tie_word_embeddings\":false"), true},
        {PART(",\"tie_word_embeddings\":true", ",\"tie_word_embeddings\":false"), true},
        {PART(",\"tie_word_embeddings\":false", ""), false},
        {PART(",\"tie_word_embeddings\":false", ",\"tie_word_embeddings\":true"), true},
    };
#undef PART
    for (size_t i = 0; i < COUNT(cases); i++) {
        cdz_arena arena = {0};
        const cdz_arch a = read_well(cases[i].config, &arena);
        assert_int_equal(a.tied, cases[i].tied);
        cdz_arena_free(&arena);
    }
}

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
        for (int kind = 0; kind < 3; kind++) {
            const cdz_router r = {
                .score = (cdz_route_score)kind, .n_groups = 3, .groups_kept = 1, .scale = 1};
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
        cmocka_unit_test(mixers_are_what_the_rules_say),
        cmocka_unit_test(states_have_their_sizes),
        cmocka_unit_test(falcons_are_laid_as_they_say),
        cmocka_unit_test(the_last_layers_use_others_keys),
        cmocka_unit_test(scores_fall_with_distance),
        cmocka_unit_test(heads_may_have_norms_of_their_own),
        cmocka_unit_test(long_rows_have_a_scale_of_their_own),
        cmocka_unit_test(granite_has_four_multipliers),
        cmocka_unit_test(alpha_makes_theta_larger),
        cmocka_unit_test(routers_are_told),
        cmocka_unit_test(queries_grow_with_positions),
        cmocka_unit_test(latents_are_one_head_of_keys),
        cmocka_unit_test(wrong_configurations_are_sentences),
        cmocka_unit_test(the_text_part_is_found),
        cmocka_unit_test(a_part_is_tied_as_its_whole),
        cmocka_unit_test(rows_find_their_experts),
        cmocka_unit_test(no_number_leads_elsewhere),
    };
    return cmocka_run_group_tests_name("families", tests, NULL, NULL);
}
