/* families_pairs.c - the table of families, pairs of an encoder and a decoder: t5 and bart and what comes of them.
 *
 * Keys and defaults are those of transformers' configuration classes. */
#include "load/families.h"

#include <stddef.h>

/* --- names --------------------------------------------------------------------------------- */

/* relative: the layers that have a table of distances, a number or '#' for each. */
#define T5_ATTENTION(stack, relative)                                                              \
    [CDZ_PART_RELATIVE] =                                                                          \
        stack ".block." relative ".layer.0.SelfAttention.relative_attention_bias",                 \
    [CDZ_PART_FINAL_NORM] = stack ".final_layer_norm",                                             \
    [CDZ_PART_ATTN_NORM] = stack ".block.#.layer.0.layer_norm",                                    \
    [CDZ_PART_Q] = stack ".block.#.layer.0.SelfAttention.q",                                       \
    [CDZ_PART_K] = stack ".block.#.layer.0.SelfAttention.k",                                       \
    [CDZ_PART_V] = stack ".block.#.layer.0.SelfAttention.v",                                       \
    [CDZ_PART_O] = stack ".block.#.layer.0.SelfAttention.o"
#define T5_CROSS                                                                                   \
    [CDZ_PART_EMBED] = "shared", [CDZ_PART_HEAD] = "lm_head",                                      \
    [CDZ_PART_CROSS_NORM] = "decoder.block.#.layer.1.layer_norm",                                  \
    [CDZ_PART_CROSS_Q] = "decoder.block.#.layer.1.EncDecAttention.q",                              \
    [CDZ_PART_CROSS_K] = "decoder.block.#.layer.1.EncDecAttention.k",                              \
    [CDZ_PART_CROSS_V] = "decoder.block.#.layer.1.EncDecAttention.v",                              \
    [CDZ_PART_CROSS_O] = "decoder.block.#.layer.1.EncDecAttention.o"
#define T5_PLAIN(layer)                                                                            \
    [CDZ_PART_MLP_NORM] = layer ".layer_norm", [CDZ_PART_UP] = layer ".DenseReluDense.wi",         \
    [CDZ_PART_DOWN] = layer ".DenseReluDense.wo"
#define T5_GATED(layer)                                                                            \
    [CDZ_PART_MLP_NORM] = layer ".layer_norm", [CDZ_PART_GATE] = layer ".DenseReluDense.wi_0",     \
    [CDZ_PART_UP] = layer ".DenseReluDense.wi_1", [CDZ_PART_DOWN] = layer ".DenseReluDense.wo"

/* clang-format off */
#define T5_DECODER(relative, feed_forward)                                                         \
    {T5_ATTENTION("decoder", relative), T5_CROSS, feed_forward("decoder.block.#.layer.2")}
#define T5_ENCODER(relative, feed_forward)                                                         \
    {T5_ATTENTION("encoder", relative), feed_forward("encoder.block.#.layer.1")}
/* clang-format on */

static const char *const t5_names[CDZ_N_PARTS] = T5_DECODER("0", T5_PLAIN);
static const char *const t5_encoder_names[CDZ_N_PARTS] = T5_ENCODER("0", T5_PLAIN);
static const char *const t5_gated_names[CDZ_N_PARTS] = T5_DECODER("0", T5_GATED);
static const char *const t5_gated_encoder_names[CDZ_N_PARTS] = T5_ENCODER("0", T5_GATED);
static const char *const umt5_names[CDZ_N_PARTS] = T5_DECODER("#", T5_PLAIN);
static const char *const umt5_encoder_names[CDZ_N_PARTS] = T5_ENCODER("#", T5_PLAIN);
static const char *const umt5_gated_names[CDZ_N_PARTS] = T5_DECODER("#", T5_GATED);
static const char *const umt5_gated_encoder_names[CDZ_N_PARTS] = T5_ENCODER("#", T5_GATED);
static const char *const t5_aliases[] = {"encoder.embed_tokens", "decoder.embed_tokens", NULL};

#define BART_ATTENTION(stack)                                                                               \
    [CDZ_PART_Q] = stack ".layers.#.self_attn.q_proj", [CDZ_PART_K] = stack ".layers.#.self_attn.k_proj",   \
    [CDZ_PART_V] = stack ".layers.#.self_attn.v_proj", [CDZ_PART_O] = stack ".layers.#.self_attn.out_proj", \
    [CDZ_PART_UP] = stack ".layers.#.fc1", [CDZ_PART_DOWN] = stack ".layers.#.fc2"
#define BART_LAYERS(stack)                                                                         \
    BART_ATTENTION(stack), [CDZ_PART_ATTN_POST_NORM] = stack ".layers.#.self_attn_layer_norm",     \
                           [CDZ_PART_MLP_POST_NORM] = stack ".layers.#.final_layer_norm"
/* The same norms before what they are called after, and one after all layers. */
#define MBART_LAYERS(stack)                                                                        \
    BART_ATTENTION(stack), [CDZ_PART_ATTN_NORM] = stack ".layers.#.self_attn_layer_norm",          \
                           [CDZ_PART_MLP_NORM] = stack ".layers.#.final_layer_norm",               \
                           [CDZ_PART_FINAL_NORM] = stack ".layer_norm"
#define LEARNED(stack)   [CDZ_PART_POSITIONS] = stack ".embed_positions"
#define BART_ENDS(stack) LEARNED(stack), [CDZ_PART_EMBED_NORM] = stack ".layernorm_embedding"
#define CROSS_ATTENTION                                                                             \
    [CDZ_PART_HEAD] = "lm_head", [CDZ_PART_CROSS_Q] = "model.decoder.layers.#.encoder_attn.q_proj", \
    [CDZ_PART_CROSS_K] = "model.decoder.layers.#.encoder_attn.k_proj",                              \
    [CDZ_PART_CROSS_V] = "model.decoder.layers.#.encoder_attn.v_proj",                              \
    [CDZ_PART_CROSS_O] = "model.decoder.layers.#.encoder_attn.out_proj"
#define BART_CROSS                                                                                 \
    CROSS_ATTENTION, [CDZ_PART_HEAD_BIAS] = "final_logits_bias",                                   \
                     [CDZ_PART_CROSS_POST_NORM] = "model.decoder.layers.#.encoder_attn_layer_norm"
#define MBART_DECODER                                                                              \
    [CDZ_PART_EMBED] = "model.shared", MBART_LAYERS("model.decoder"),                              \
    CROSS_ATTENTION, [CDZ_PART_CROSS_NORM] = "model.decoder.layers.#.encoder_attn_layer_norm"

static const char *const bart_names[CDZ_N_PARTS] = {[CDZ_PART_EMBED] = "model.shared",
                                                    BART_ENDS("model.decoder"),
                                                    BART_LAYERS("model.decoder"),
                                                    BART_CROSS};
static const char *const bart_encoder_names[CDZ_N_PARTS] = {BART_ENDS("model.encoder"),
                                                            BART_LAYERS("model.encoder")};
static const char *const marian_names[CDZ_N_PARTS] = {
    [CDZ_PART_EMBED] = "model.shared", BART_LAYERS("model.decoder"), BART_CROSS};
static const char *const marian_encoder_names[CDZ_N_PARTS] = {BART_LAYERS("model.encoder")};
static const char *const marian_apart_names[CDZ_N_PARTS] = {
    [CDZ_PART_EMBED] = "model.decoder.embed_tokens", BART_LAYERS("model.decoder"), BART_CROSS};
static const char *const marian_apart_encoder_names[CDZ_N_PARTS] = {
    [CDZ_PART_EMBED] = "model.encoder.embed_tokens", BART_LAYERS("model.encoder")};
static const char *const mbart_names[CDZ_N_PARTS] = {
    BART_ENDS("model.decoder"), MBART_DECODER, [CDZ_PART_HEAD_BIAS] = "final_logits_bias"};
static const char *const mbart_encoder_names[CDZ_N_PARTS] = {BART_ENDS("model.encoder"),
                                                             MBART_LAYERS("model.encoder")};
static const char *const pegasus_names[CDZ_N_PARTS] = {MBART_DECODER, [CDZ_PART_HEAD_BIAS] =
                                                                          "final_logits_bias"};
static const char *const pegasus_encoder_names[CDZ_N_PARTS] = {MBART_LAYERS("model.encoder")};
static const char *const m2m_100_names[CDZ_N_PARTS] = {MBART_DECODER};
static const char *const blenderbot_names[CDZ_N_PARTS] = {
    LEARNED("model.decoder"), MBART_DECODER, [CDZ_PART_HEAD_BIAS] = "final_logits_bias"};
static const char *const blenderbot_encoder_names[CDZ_N_PARTS] = {LEARNED("model.encoder"),
                                                                  MBART_LAYERS("model.encoder")};
static const char *const bart_aliases[] = {"model.encoder.embed_tokens",
                                           "model.decoder.embed_tokens", NULL};

/* --- keys ---------------------------------------------------------------------------------- */

static const cdz_key_names t5_keys = {.hidden = "d_model",
                                      .intermediate = "d_ff",
                                      .layers = "num_decoder_layers",
                                      .heads = "num_heads",
                                      .head_dim = "d_kv",
                                      .eps = "layer_norm_epsilon"};
static const cdz_key_names t5_encoder_keys = {.hidden = "d_model",
                                              .intermediate = "d_ff",
                                              .layers = "num_layers",
                                              .heads = "num_heads",
                                              .head_dim = "d_kv",
                                              .eps = "layer_norm_epsilon"};
static const cdz_key_names bart_keys = {.hidden = "d_model",
                                        .intermediate = "decoder_ffn_dim",
                                        .layers = "decoder_layers",
                                        .heads = "decoder_attention_heads",
                                        .context = "max_position_embeddings",
                                        .activation = "activation_function"};
static const cdz_key_names bart_encoder_keys = {.hidden = "d_model",
                                                .intermediate = "encoder_ffn_dim",
                                                .layers = "encoder_layers",
                                                .heads = "encoder_attention_heads",
                                                .context = "max_position_embeddings",
                                                .activation = "activation_function"};
static const cdz_key_names marian_keys = {.hidden = "d_model",
                                          .intermediate = "decoder_ffn_dim",
                                          .layers = "decoder_layers",
                                          .heads = "decoder_attention_heads",
                                          .context = "max_position_embeddings",
                                          .activation = "activation_function",
                                          .vocab = "decoder_vocab_size"};

#define T5_RULES                                                                                   \
    .embed_aliases = t5_aliases, .keys = &t5_keys, .encoder_keys = &t5_encoder_keys,               \
    .unscaled = true, .relative = true, .hidden_count = true, .head_dim = 64
#define BART_RULES                                                                                 \
    .runs_whole = true, .embed_aliases = bart_aliases, .encoder_keys = &bart_encoder_keys,         \
    .biases = CDZ_BIAS_ALL, .norm = CDZ_NORM_LAYER, .hidden_count = true, .eps = 1e-5,             \
    .tied = true

/* --- families ------------------------------------------------------------------------------ */

static const cdz_family families[] = {
    {.model_type = "t5",
     .runs_whole = true,
     .architecture = "T5ForConditionalGeneration",
     .names = t5_names,
     .encoder_names = t5_encoder_names,
     .other_names = t5_gated_names,
     .other_encoder_names = t5_gated_encoder_names,
     T5_RULES,
     .t5_rules = CDZ_T5_SCALED_BY_KEY},
    {.model_type = "mt5",
     .runs_whole = true,
     .architecture = "MT5ForConditionalGeneration",
     .names = t5_names,
     .encoder_names = t5_encoder_names,
     .other_names = t5_gated_names,
     .other_encoder_names = t5_gated_encoder_names,
     T5_RULES,
     .activation = "gated-gelu",
     .t5_rules = CDZ_T5_UNSCALED},
    {.model_type = "umt5",
     .runs_whole = true,
     .architecture = "UMT5ForConditionalGeneration",
     .names = umt5_names,
     .encoder_names = umt5_encoder_names,
     .other_names = umt5_gated_names,
     .other_encoder_names = umt5_gated_encoder_names,
     T5_RULES,
     .activation = "gated-gelu",
     .t5_rules = CDZ_T5_SCALED},
    {.model_type = "bart",
     .architecture = "BartForConditionalGeneration",
     .names = bart_names,
     .encoder_names = bart_encoder_names,
     .keys = &bart_keys,
     BART_RULES,
     .scale_rule = CDZ_SCALE_IF_SAID,
     .norm_after_sum = true,
     .position_offset = 2,
     .context = 1024,
     .activation = "gelu"},
    {.model_type = "marian",
     .architecture = "MarianMTModel",
     .names = marian_names,
     .encoder_names = marian_encoder_names,
     .other_names = marian_apart_names,
     .other_encoder_names = marian_apart_encoder_names,
     .keys = &marian_keys,
     BART_RULES,
     .scale_rule = CDZ_SCALE_IF_SAID,
     .norm_after_sum = true,
     .sines = CDZ_SINES_BY_WIDTH,
     .may_share_embed = true,
     .context = 1024,
     .activation = "gelu"},
    {.model_type = "mbart",
     .architecture = "MBartForConditionalGeneration",
     .names = mbart_names,
     .encoder_names = mbart_encoder_names,
     .keys = &bart_keys,
     BART_RULES,
     .scale_rule = CDZ_SCALE_IF_SAID,
     .position_offset = 2,
     .context = 1024,
     .activation = "gelu"},
    {.model_type = "pegasus",
     .architecture = "PegasusForConditionalGeneration",
     .names = pegasus_names,
     .encoder_names = pegasus_encoder_names,
     .keys = &bart_keys,
     BART_RULES,
     .scale_rule = CDZ_SCALE_IF_SAID,
     .sines = CDZ_SINES_BY_WIDTH,
     .context = 1024,
     .activation = "gelu"},
    {.model_type = "m2m_100",
     .architecture = "M2M100ForConditionalGeneration",
     .names = m2m_100_names,
     .encoder_names = pegasus_encoder_names,
     .keys = &bart_keys,
     BART_RULES,
     .scale_rule = CDZ_SCALE_UNLESS_SAID,
     .sines = CDZ_SINES_TO_THE_END,
     .context = 1024,
     .activation = "relu"},
    {.model_type = "blenderbot",
     .architecture = "BlenderbotForConditionalGeneration",
     .names = blenderbot_names,
     .encoder_names = blenderbot_encoder_names,
     .keys = &bart_keys,
     BART_RULES,
     .scale_rule = CDZ_SCALE_IF_SAID,
     .context = 128,
     .activation = "gelu"},
    {.model_type = "blenderbot-small",
     .architecture = "BlenderbotSmallForConditionalGeneration",
     .names = bart_names,
     .encoder_names = bart_encoder_names,
     .keys = &bart_keys,
     BART_RULES,
     .scale_rule = CDZ_SCALE_IF_SAID,
     .norm_after_sum = true,
     .embed_norm_first = true,
     .context = 512,
     .activation = "gelu"},
};

cdz_family_list cdz_families_pairs(void)
{
    return (cdz_family_list){families, sizeof families / sizeof *families};
}
