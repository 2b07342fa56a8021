/* gguf_config.c - the metadata of a GGUF file as the text of a config.json, so that one reader
 * (arch.c) checks and understands both. Keys are those of llama.cpp's converter; a few of ours
 * that it does not know (windows of qwen2, mistral) are read when they are there. */
#include "load/gguf_config.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "load/families.h"
#include "load/gguf_put.h"

/* --- architectures ------------------------------------------------------------------------- */

static const cdz_gguf_arch archs[] = {
    {"llama", "llama", true, false, false},
    {"qwen2", "qwen2", false, false, false},
    {"qwen3", "qwen3", false, false, false},
    {"qwen3moe", "qwen3_moe", false, false, false},
    {"gemma2", "gemma2", false, false, false},
    {"gemma3", "gemma3_text", false, false, false},
    {"phi3", "phi3", false, false, false},
    {"gpt2", "gpt2", false, false, false},
    {"gptneox", "gpt_neox", false, false, false},
    {"olmo2", "olmo2", false, false, false},
    {"smollm3", "smollm3", true, false, false},
    {"exaone4", "exaone4", false, true, false},
    {"cohere2", "cohere2", false, true, false},
    {"command-r", "cohere", false, true, false},
    {"glm4", "glm4", false, true, false},
    {"glm4moe", "glm4_moe", false, true, true},
    {"granite", "granite", true, true, false},
    {"granitemoe", "granitemoe", true, true, false},
    {"seed_oss", "seed_oss", false, true, true},
    {"hunyuan-dense", "hunyuan_v1_dense", false, true, false},
    {"ernie4_5", "ernie4_5", false, true, false},
    {"ernie4_5-moe", "ernie4_5_moe", false, true, false},
    {"minimax-m2", "minimax_m2", false, true, false},
    {"qwen2moe", "qwen2_moe", false, true, false},
    {"olmoe", "olmoe", false, true, false},
    {"gemma", "gemma", false, true, false},
    {"arcee", "arcee", true, true, false},
    {"olmo", "olmo", true, true, false},
    {"nemotron", "nemotron", false, true, false},
    {"llama4", "llama4_text", false, true, false},
    {"phi2", "phi", false, true, false},
    {"starcoder", "gpt_bigcode", false, true, false},
    {"starcoder2", "starcoder2", false, true, false},
    {"mistral3", "ministral3", true, true, false},
    {"qwen2vl", "qwen2", false, true, false}, /* positions of texts are those of one rope */
    {"qwen3vl", "qwen3", false, true, false},
    {"qwen3vlmoe", "qwen3_moe", false, true, false},
    {"gpt-oss", "gpt_oss", false, true, true},
    {"deepseek2", "deepseek_v2", false, true, false},
    {"stablelm", "stablelm", false, true, false},
    {"falcon", "falcon", false, true, false},
    {"mpt", "mpt", false, true, false},
    {"bloom", "bloom", false, true, false},
    {"phimoe", "phimoe", false, true, false},
    {"apertus", "apertus", false, true, false},
    {"baichuan", "llama", true, true, false},
    {"mamba2", "mamba2", false, true, false},
    {"granitehybrid", "granitemoehybrid", true, true, false},
    {"falcon-h1", "falcon_h1", false, true, false},
    {"nemotron_h", "nemotron_h", false, true, false},
    {"nemotron_h_moe", "nemotron_h", false, true, false},
    {"lfm2", "lfm2", false, true, false},
    {"lfm2moe", "lfm2_moe", false, true, false},
    {"qwen3next", "qwen3_next", false, true, true},
    {"qwen35", "qwen3_5_text", false, true, true},
    {"qwen35moe", "qwen3_5_moe_text", false, true, true},
    {"gemma3n", "gemma3n_text", false, true, false},
};
enum { N_ARCHS = sizeof archs / sizeof *archs };

/* Files that lie beside a model's, and are none. */
static cdz_status refuse_others(const cdz_gguf *g, const char *arch, size_t len, cdz_error *err)
{
    static const struct {
        const char *type, *arch, *what;
    } others[] = {
        {"mmproj", "clip", "a projector of images or sounds (mmproj); name the model's own file"},
        {"adapter", NULL, "an adapter (LoRA), which is not supported; name a whole model's file"},
        {"imatrix", "imatrix", "a quantiser's importance matrix; name a model's file"},
        {NULL, "controlvector",
         "a control vector; name a model's file, and this one as --control-vector"},
        {NULL, "eagle3", "a draft that needs its target's hidden states, which is not supported"},
        {NULL, "dflash", "a draft that needs its target's hidden states, which is not supported"},
    };
    const char *type = NULL;
    size_t type_len = 0;
    CDZ_TRY(cdz_gguf_string(g, "general.type", &type, &type_len, err));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if ((type && others[i].type && cdz_is_word(type, type_len, others[i].type)) ||
            (arch && others[i].arch && cdz_is_word(arch, len, others[i].arch)))
            return cdz_err(err, CDZ_E_UNSUPPORTED, "%s: is no model but %s", g->path,
                           others[i].what);
    return CDZ_OK;
}

cdz_status cdz_gguf_find_arch(const cdz_gguf *g, const cdz_gguf_arch **out, cdz_error *err)
{
    const char *name = NULL;
    size_t len = 0;
    CDZ_TRY(cdz_gguf_string(g, "general.architecture", &name, &len, err));
    CDZ_TRY(refuse_others(g, name, len, err));
    if (!name) return cdz_err(err, CDZ_E_INPUT, "%s: general.architecture is missing", g->path);
    for (size_t i = 0; i < N_ARCHS; i++) {
        if (!cdz_is_word(name, len, archs[i].name)) continue;
        *out = &archs[i];
        return CDZ_OK;
    }
    char known[1024];
    size_t at = 0;
    for (size_t i = 0; i < N_ARCHS && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", archs[i].name);
    return cdz_err(err, CDZ_E_UNSUPPORTED,
                   "%s: general.architecture \"%.*s\" is not supported; supported are %s", g->path,
                   (int)(len < 80 ? len : 80), name, known);
}

const cdz_gguf_arch *cdz_gguf_arch_for(const char *model_type)
{
    const bool llama = strcmp(model_type, "mistral") == 0 || strcmp(model_type, "mixtral") == 0;
    for (size_t i = 0; i < N_ARCHS; i++)
        if (strcmp(archs[i].model_type, llama ? "llama" : model_type) == 0)
            return archs[i].read_only ? NULL : &archs[i];
    return NULL;
}

const char *cdz_gguf_arch_key(const cdz_gguf_arch *arch, const char *rest,
                              char buf[CDZ_GGUF_KEY_BYTES])
{
    snprintf(buf, CDZ_GGUF_KEY_BYTES, "%s.%s", arch->name, rest);
    return buf;
}

/* --- sizes --------------------------------------------------------------------------------- */

static const cdz_tensor *embedding(const cdz_gguf_writer *w)
{
    const cdz_tensor *t = cdz_tensors_find(&w->g->tensors, "token_embd.weight");
    return t && t->n_dims == 2 ? t : NULL;
}

/* Latent attention: lengths of a head's keys and values have keys of their own; key_length is what is kept of a position. */
static cdz_status write_latent(cdz_gguf_writer *w)
{
    uint64_t rotated = 0, key = 0, q_rank = 0;
    char name[CDZ_GGUF_KEY_BYTES];
    CDZ_TRY(cdz_gguf_copy_uint(w, "kv_lora_rank", "attention.kv_lora_rank", true));
    CDZ_TRY(cdz_gguf_copy_uint(w, "qk_rope_head_dim", "rope.dimension_count", true));
    CDZ_TRY(cdz_gguf_copy_uint(w, "v_head_dim",
                               cdz_gguf_has_key(w, "attention.value_length_mla")
                                   ? "attention.value_length_mla"
                                   : "attention.value_length",
                               true));
    CDZ_TRY(cdz_gguf_get_uint(w, "rope.dimension_count", &rotated));
    const bool own = cdz_gguf_has_key(w, "attention.key_length_mla"); /* older files lack it */
    const char *rest = own ? "attention.key_length_mla" : "attention.key_length";
    CDZ_TRY(cdz_gguf_get_uint(w, rest, &key));
    if (key <= rotated)
        return cdz_err(w->err, CDZ_E_INPUT,
                       "%s: %s is %llu, expected more than the %llu that rotate", w->g->path,
                       cdz_gguf_arch_key(w->arch, rest, name), (unsigned long long)key,
                       (unsigned long long)rotated);
    cdz_gguf_put_uint(w, "qk_nope_head_dim", key - rotated);
    CDZ_TRY(cdz_gguf_get_uint(w, "attention.q_lora_rank", &q_rank));
    cdz_gguf_put_uint(w, "q_lora_rank", q_rank);
    return CDZ_OK;
}

static cdz_status write_heads(cdz_gguf_writer *w)
{
    uint64_t key_length = 0, value_length = 0;
    if (!w->family->keys->heads) return CDZ_OK; /* without attention */
    CDZ_TRY(cdz_gguf_copy_uint(w, w->family->keys->heads, "attention.head_count", true));
    if (w->family->latent) return write_latent(w);
    if (cdz_gguf_has_key(w, "attention.head_count_kv"))
        CDZ_TRY(cdz_gguf_copy_uint(w, "num_key_value_heads", "attention.head_count_kv", true));
    else if (!w->family->conv1d)
        CDZ_TRY(cdz_gguf_copy_uint(w, "num_key_value_heads", "attention.head_count", true));
    CDZ_TRY(cdz_gguf_get_uint(w, "attention.key_length", &key_length));
    value_length = key_length;
    CDZ_TRY(cdz_gguf_get_uint(w, "attention.value_length", &value_length));
    if (value_length != key_length)
        return cdz_err(w->err, CDZ_E_UNSUPPORTED,
                       "%s: keys of %llu and values of %llu are not supported; they must be as long",
                       w->g->path, (unsigned long long)key_length, (unsigned long long)value_length);
    if (key_length)
        cdz_gguf_put_uint(w, "head_dim", key_length);
    else if (w->family->head_dim)
        cdz_buf_puts(w->out, ",\"head_dim\":null");
    return CDZ_OK;
}

static bool has_layer(const cdz_gguf *g, unsigned i)
{
    char begin[32];
    const int len = snprintf(begin, sizeof begin, "blk.%u.", i);
    for (size_t t = 0; t < g->tensors.n_items; t++)
        if (strncmp(g->tensors.items[t].name, begin, (size_t)len) == 0) return true;
    return false;
}

/* Layers that only foretell more tokens are counted with the others; they come last, and are not read. */
static cdz_status write_layers(cdz_gguf_writer *w)
{
    uint64_t n = 0, foretelling = 0;
    CDZ_TRY(cdz_gguf_get_uint(w, "nextn_predict_layers", &foretelling));
    if (foretelling == 0)
        return cdz_gguf_copy_uint(w, w->family->keys->layers, "block_count", true);
    CDZ_TRY(cdz_gguf_get_uint(w, "block_count", &n));
    if (foretelling >= n)
        return cdz_err(w->err, CDZ_E_INPUT,
                       "%s: %s.nextn_predict_layers is %llu, there are %llu layers", w->g->path,
                       w->arch->name, (unsigned long long)foretelling, (unsigned long long)n);
    if (!has_layer(w->g, 0))
        return cdz_err(w->err, CDZ_E_UNSUPPORTED,
                       "%s: has only the layers that foretell further tokens (MTP), which are not "
                       "supported; name the model's own file",
                       w->g->path);
    cdz_gguf_put_uint(w, w->family->keys->layers, n - foretelling);
    return CDZ_OK;
}

static cdz_status write_sizes(cdz_gguf_writer *w)
{
    const cdz_key_names *k = w->family->keys;
    const cdz_tensor *embed = embedding(w);
    if (!embed)
        return cdz_err(w->err, CDZ_E_INPUT,
                       "%s: tensor token_embd.weight is missing; a file of a vocabulary alone has "
                       "nothing to run",
                       w->g->path);
    cdz_gguf_put_uint(w, "vocab_size", embed->shape[0]);
    if (k->context) CDZ_TRY(cdz_gguf_copy_uint(w, k->context, "context_length", true));
    CDZ_TRY(cdz_gguf_copy_uint(w, k->hidden, "embedding_length", true));
    CDZ_TRY(write_layers(w));
    const cdz_expert_rules *routing = w->family->routing;
    const bool dense =
        cdz_gguf_has_key(w, "feed_forward_length") && !(routing && routing->dense_inner);
    if (k->intermediate)
        CDZ_TRY(cdz_gguf_copy_uint(
            w, k->intermediate, dense ? "feed_forward_length" : "expert_feed_forward_length", true));
    const bool layer = w->family->norm == CDZ_NORM_LAYER;
    const char *eps = "attention.layer_norm_epsilon"; /* phimoe's has the other's */
    CDZ_TRY(cdz_gguf_copy_real(
        w, k->eps, layer && cdz_gguf_has_key(w, eps) ? eps : "attention.layer_norm_rms_epsilon"));
    return write_heads(w);
}

/* --- experts, windows ---------------------------------------------------------------------- */

/* By the spelling of the family's own keys; which layers have experts is told by their tensors (read_sparse). */
static cdz_status write_routed(cdz_gguf_writer *w, const cdz_expert_rules *r)
{
    const bool none = !cdz_gguf_some_layer_has(w->g, "ffn_gate_inp.weight");
    if (none && r->may_lack) cdz_gguf_put_uint(w, r->count, 0);
    if (none && r->may_lack)
        return cdz_gguf_copy_uint(w, r->shared_inner, "feed_forward_length", true);
    if (none && w->family->recurrent && w->family->recurrent->plain_word) return CDZ_OK;
    CDZ_TRY(cdz_gguf_copy_uint(w, r->count, "expert_count", true));
    CDZ_TRY(cdz_gguf_copy_uint(w, r->active, "expert_used_count", true));
    if (r->inner) CDZ_TRY(cdz_gguf_copy_uint(w, r->inner, "expert_feed_forward_length", true));
    if (r->dense_inner) CDZ_TRY(cdz_gguf_copy_uint(w, r->dense_inner, "feed_forward_length", true));
    if (r->shared_count)
        CDZ_TRY(cdz_gguf_copy_uint(w, r->shared_count, "expert_shared_count", false));
    if (r->shared_inner && !r->dense_inner)
        CDZ_TRY(cdz_gguf_copy_uint(w, r->shared_inner, "expert_shared_feed_forward_length", true));
    if (r->latent_key) CDZ_TRY(cdz_gguf_copy_uint(w, r->latent_key, "moe_latent_size", false));
    if (r->bias_key)
        cdz_gguf_put_bool(w, r->bias_key, cdz_gguf_some_layer_has(w->g, "exp_probs_b.bias"));
    if (r->normalise_key) /* of deepseek2's files only those have the key that say true */
        CDZ_TRY(cdz_gguf_copy_bool(w, "norm_topk_prob", "expert_weights_norm",
                                   r->router.normalise && !w->family->latent));
    if (r->scale_key)
        CDZ_TRY(cdz_gguf_copy_real(w, "routed_scaling_factor", "expert_weights_scale"));
    if (r->method_key && cdz_gguf_has_key(w, "expert_group_count")) {
        cdz_gguf_put_text(w, "topk_method", "group_limited_greedy");
        CDZ_TRY(cdz_gguf_copy_uint(w, "n_group", "expert_group_count", false));
        return cdz_gguf_copy_uint(w, "topk_group", "expert_group_used_count", false);
    }
    if (!r->group_keys) return CDZ_OK;
    CDZ_TRY(cdz_gguf_copy_uint(w, "n_group", "expert_group_count", false));
    return cdz_gguf_copy_uint(w, "topk_group", "expert_group_used_count", false);
}

static cdz_status write_experts(cdz_gguf_writer *w)
{
    if (w->family->experts == CDZ_EXPERTS_NEVER) return CDZ_OK;
    if (w->family->experts == CDZ_EXPERTS_ROUTED) return write_routed(w, w->family->routing);
    CDZ_TRY(cdz_gguf_copy_uint(w, "num_local_experts", "expert_count", true));
    CDZ_TRY(cdz_gguf_copy_uint(w, "num_experts_per_tok", "expert_used_count", true));
    if (w->family->experts != CDZ_EXPERTS_BY_LAYER) return CDZ_OK;
    cdz_gguf_put_bool(w, "norm_topk_prob", true);
    return cdz_gguf_copy_uint(w, "moe_intermediate_size", "expert_feed_forward_length", true);
}

/* Which layers slide: an array of bools, one per layer, or each nth does not. */
static cdz_status write_pattern(cdz_gguf_writer *w)
{
    char key[CDZ_GGUF_KEY_BYTES];
    const char *rest = "attention.sliding_window_pattern";
    const cdz_gguf_value *v = cdz_gguf_find(w->g, cdz_gguf_arch_key(w->arch, rest, key));
    uint64_t pattern = 0, n_layers = 0;
    if (!v) return CDZ_OK;
    if (!v->is_array) {
        CDZ_TRY(cdz_gguf_get_uint(w, rest, &pattern));
        cdz_gguf_put_uint(w, "sliding_window_pattern", pattern);
        return CDZ_OK;
    }
    CDZ_TRY(cdz_gguf_array(w->g, key, CDZ_GGUF_BOOL, &v, w->err));
    CDZ_TRY(cdz_gguf_get_uint(w, "block_count", &n_layers));
    if (v->n != n_layers) /* a byte of the file would be twenty of the text */
        return cdz_err(w->err, CDZ_E_INPUT, "%s: %s has %llu entries, there are %llu layers",
                       w->g->path, key, (unsigned long long)v->n, (unsigned long long)n_layers);
    cdz_gguf_put_key(w, "layer_types");
    for (uint64_t i = 0; i < v->n; i++)
        cdz_buf_printf(w->out, "%s\"%s\"", i ? "," : "[",
                       cdz_gguf_int_at(v, i) ? "sliding_attention" : "full_attention");
    cdz_buf_puts(w->out, v->n ? "]" : "[]");
    return CDZ_OK;
}

static cdz_status write_windows(cdz_gguf_writer *w)
{
    const cdz_window_rule rule = w->family->window;
    uint64_t window = 0;
    if (rule == CDZ_WINDOW_NEVER || rule == CDZ_WINDOW_NO_ROPE) return CDZ_OK;
    if (rule == CDZ_WINDOW_BLOCKS) /* without the key: llama4's, which is the default */
        return cdz_gguf_copy_uint(w, "attention_chunk_size", "attention.chunk_size", false);
    CDZ_TRY(cdz_gguf_get_uint(w, "attention.sliding_window", &window));
    if (rule == CDZ_WINDOW_ALL || window == 0) {
        cdz_gguf_put_key(w, "sliding_window");
        if (window == 0)
            cdz_buf_puts(w->out, "null");
        else
            cdz_buf_printf(w->out, "%llu", (unsigned long long)window);
        return CDZ_OK;
    }
    cdz_gguf_put_uint(w, "sliding_window", window);
    if (rule == CDZ_WINDOW_BY_LAYER) cdz_gguf_put_uint(w, "max_window_layers", 0);
    if (rule != CDZ_WINDOW_PATTERN) cdz_gguf_put_bool(w, "use_sliding_window", true);
    return rule == CDZ_WINDOW_ALL_IF_USED ? CDZ_OK : write_pattern(w);
}

/* --- rotation ------------------------------------------------------------------------------ */

/* The factors of longrope, which GGUF stores as tensors. */
static cdz_status write_factors(cdz_gguf_writer *w, const char *key, const char *tensor)
{
    enum { MOST = 1 << 11 };
    const cdz_tensor *t = cdz_tensors_find(&w->g->tensors, tensor);
    if (!t) return CDZ_OK;
    float factors[MOST];
    const size_t n = t->shape[0] < MOST ? (size_t)t->shape[0] : MOST;
    CDZ_TRY(cdz_gguf_floats(w->g, t, factors, n, w->err));
    cdz_buf_printf(w->out, ",\"%s\":[", key);
    for (size_t i = 0; i < n; i++) {
        if (i) cdz_buf_putc(w->out, ',');
        cdz_json_write_f32(w->out, factors[i]);
    }
    cdz_buf_putc(w->out, ']');
    return CDZ_OK;
}

/* mscale_all_dim, of latent attention a tenth of it; mscale is the same in all releases that have it. */
static cdz_status write_mscale(cdz_gguf_writer *w)
{
    const char *rest = "rope.scaling.yarn_log_multiplier";
    double stored = 0;
    if (!(w->family->latent || w->family->temper_beta) || !cdz_gguf_has_key(w, rest)) return CDZ_OK;
    CDZ_TRY(cdz_gguf_get_real(w, rest, &stored));
    const double scale = w->family->latent ? 10 * stored : stored;
    cdz_buf_puts(w->out, ",\"mscale\":");
    cdz_json_write_f32(w->out, (float)scale);
    cdz_buf_puts(w->out, ",\"mscale_all_dim\":");
    cdz_json_write_f32(w->out, (float)scale);
    return CDZ_OK;
}

/* Numbers of yarn that config.json had; without a key they are the usual ones. */
static cdz_status write_yarn(cdz_gguf_writer *w)
{
    static const struct {
        const char *to, *from;
    } keys[] = {{"beta_fast", "rope.scaling.yarn_beta_fast"},
                {"beta_slow", "rope.scaling.yarn_beta_slow"},
                {"attention_factor", "rope.scaling.yarn_attn_factor"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        CDZ_TRY(cdz_gguf_copy_real(w, keys[i].to, keys[i].from));
    if (w->family->temper_beta)
        CDZ_TRY(cdz_gguf_copy_real(w, "llama_4_scaling_beta", "attention.temperature_scale"));
    return write_mscale(w);
}

static cdz_status write_scaling(cdz_gguf_writer *w)
{
    enum { MOST_NAME = 64 };
    char key[CDZ_GGUF_KEY_BYTES];
    const char *type = "none";
    size_t len = 4;
    double factor = 1;
    uint64_t old_context = 0;
    const bool factors = cdz_tensors_find(&w->g->tensors, "rope_factors_long.weight") != NULL;
    CDZ_TRY(cdz_gguf_string(w->g, cdz_gguf_arch_key(w->arch, "rope.scaling.type", key), &type, &len,
                            w->err));
    CDZ_TRY(cdz_gguf_get_real(w, "rope.scaling.factor", &factor));
    CDZ_TRY(cdz_gguf_get_uint(w, "rope.scaling.original_context_length", &old_context));
    if (factors) {
        type = "longrope";
        len = strlen(type);
    }
    if (len == 4 && memcmp(type, "none", 4) == 0) return CDZ_OK;
    if (len > MOST_NAME)
        return cdz_err(w->err, CDZ_E_INPUT,
                       "%s: %s.rope.scaling.type has %zu bytes, expected a name of up to %d",
                       w->g->path, w->arch->name, len, MOST_NAME);
    cdz_gguf_put_key(w, "rope_scaling");
    cdz_buf_puts(w->out, "{\"rope_type\":");
    cdz_json_write_string(w->out, type, len);
    cdz_buf_puts(w->out, ",\"factor\":");
    cdz_json_write_f32(w->out, (float)factor);
    /* The format has no key for it, and only this family leaves the bounds as they are. */
    if (w->family->clamped) cdz_buf_puts(w->out, ",\"truncate\":false");
    if (cdz_is_word(type, len, "yarn")) CDZ_TRY(write_yarn(w));
    if (old_context)
        cdz_buf_printf(w->out, ",\"original_max_position_embeddings\":%llu",
                       (unsigned long long)old_context);
    CDZ_TRY(write_factors(w, "short_factor", "rope_factors_short.weight"));
    CDZ_TRY(write_factors(w, "long_factor", "rope_factors_long.weight"));
    if (factors && w->family->mscales) {
        double scale = 1; /* the format has one for all lengths */
        CDZ_TRY(cdz_gguf_get_real(w, "rope.scaling.attn_factor", &scale));
        cdz_buf_puts(w->out, ",\"short_mscale\":");
        cdz_json_write_f32(w->out, (float)scale);
        cdz_buf_puts(w->out, ",\"long_mscale\":");
        cdz_json_write_f32(w->out, (float)scale);
    } else if (factors && cdz_gguf_has_key(w, "rope.scaling.attn_factor"))
        CDZ_TRY(cdz_gguf_copy_real(w, "attention_factor", "rope.scaling.attn_factor"));
    cdz_buf_putc(w->out, '}');
    return CDZ_OK;
}

/* How much of a head rotates, as the fraction that config.json has. A quarter of a dim more lets
 * no rounding take one away. */
static cdz_status write_rotation(cdz_gguf_writer *w)
{
    uint64_t heads = 1, width = 0, head_dim, rotated = 0;
    const bool rotates = w->family->keys->heads && !w->family->no_rotation;
    if (w->family->names[CDZ_PART_POSITIONS] || w->family->alibi || !rotates) return CDZ_OK;
    CDZ_TRY(cdz_gguf_copy_real(w, "rope_theta", "rope.freq_base"));
    if (w->family->local_rope)
        CDZ_TRY(cdz_gguf_copy_real(w, "rope_local_base_freq", "rope.freq_base_swa"));
    if (w->family->latent) return write_scaling(w);
    CDZ_TRY(cdz_gguf_get_uint(w, "attention.head_count", &heads));
    CDZ_TRY(cdz_gguf_get_uint(w, "embedding_length", &width));
    head_dim = width / (heads ? heads : 1);
    CDZ_TRY(cdz_gguf_get_uint(w, "attention.key_length", &head_dim));
    rotated = head_dim;
    CDZ_TRY(cdz_gguf_get_uint(w, "rope.dimension_count", &rotated));
    if (rotated > head_dim)
        return cdz_err(w->err, CDZ_E_INPUT, "%s: %s.rope.dimension_count is %llu, a head has %llu",
                       w->g->path, w->arch->name, (unsigned long long)rotated,
                       (unsigned long long)head_dim);
    if (w->family->partial_rotary != 0) {
        cdz_gguf_put_key(w, "partial_rotary_factor");
        cdz_json_write_real(w->out,
                            rotated == head_dim ? 1 : ((double)rotated + 0.25) / (double)head_dim);
    } else if (rotated != head_dim) {
        return cdz_err(w->err, CDZ_E_UNSUPPORTED,
                       "%s: %s.rope.dimension_count is %llu of %llu, which is not supported for %s",
                       w->g->path, w->arch->name, (unsigned long long)rotated,
                       (unsigned long long)head_dim, w->family->model_type);
    }
    return write_scaling(w);
}

/* --- everything ---------------------------------------------------------------------------- */

/* Factors that some families have. */
static cdz_status write_factors_of(cdz_gguf_writer *w)
{
    const cdz_family *f = w->family;
    if (f->tempered) {
        CDZ_TRY(cdz_gguf_copy_uint(w, "floor_scale", "attention.temperature_length", false));
        CDZ_TRY(cdz_gguf_copy_real(w, "attn_scale", "attention.temperature_scale"));
    }
    if (f->logit_scale != 0) CDZ_TRY(cdz_gguf_copy_real(w, "logit_scale", "logit_scale"));
    if (!f->multipliers) return CDZ_OK;
    CDZ_TRY(cdz_gguf_copy_real(w, "embedding_multiplier", "embedding_scale"));
    CDZ_TRY(cdz_gguf_copy_real(w, "residual_multiplier", "residual_scale"));
    CDZ_TRY(cdz_gguf_copy_real(w, "attention_multiplier", "attention.scale"));
    return cdz_gguf_copy_real(w, "logits_scaling", "logit_scale");
}

/* How falcon's layers are laid follows from their tensors; MPT's attention has keys, and is refused without ALiBi. */
static cdz_status write_attention_keys(cdz_gguf_writer *w)
{
    double most = 0, clamp = 0;
    uint64_t n_kv = 0;
    if (w->family->layout_keys) {
        cdz_gguf_put_bool(w, "new_decoder_architecture", true);
        CDZ_TRY(cdz_gguf_get_uint(w, "attention.head_count_kv", &n_kv));
        if (n_kv) cdz_gguf_put_uint(w, "num_kv_heads", n_kv);
        cdz_gguf_put_uint(w, "num_ln_in_parallel_attn",
                          cdz_tensors_find(&w->g->tensors, "blk.0.attn_norm_2.weight") ? 2 : 1);
    }
    if (w->family->alibi != CDZ_ALIBI_ATTN_CONFIG) return CDZ_OK;
    CDZ_TRY(cdz_gguf_get_real(w, "attention.max_alibi_bias", &most));
    CDZ_TRY(cdz_gguf_get_real(w, "attention.clamp_kqv", &clamp));
    cdz_gguf_put_key(w, "attn_config");
    cdz_buf_printf(w->out, "{\"alibi\":%s,\"clip_qkv\":%s", most > 0 ? "true" : "false",
                   clamp > 0 ? "true" : "null");
    if (most > 0) cdz_buf_printf(w->out, ",\"alibi_bias_max\":%.0f", most);
    cdz_buf_putc(w->out, '}');
    return CDZ_OK;
}

/* Norms of queries and keys are there where their tensors are; llama4's have none, and its largest model lacks them. */
static void write_qk_norm(cdz_gguf_writer *w)
{
    enum { MAVERICK_EXPERTS = 128 };
    uint64_t experts = 0;
    if (w->family->qk_norm_key)
        cdz_gguf_put_bool(w, w->family->qk_norm_key,
                          cdz_tensors_find(&w->g->tensors, "blk.0.attn_q_norm.weight") != NULL);
    if (!w->family->qk_norm_bare || cdz_gguf_get_uint(w, "expert_count", &experts) != CDZ_OK)
        return;
    cdz_gguf_put_bool(w, "use_qk_norm", experts != MAVERICK_EXPERTS);
}

/* GGUF's llama is three families, its olmo2 two. */
static cdz_status family_of(const cdz_gguf *g, const cdz_gguf_arch *arch, const cdz_family **out,
                            cdz_error *err)
{
    const char *type = arch->model_type;
    char key[CDZ_GGUF_KEY_BYTES];
    uint64_t experts = 0, window = 0;
    CDZ_TRY(
        cdz_gguf_uint(g, cdz_gguf_arch_key(arch, "expert_count", key), UINT32_MAX, &experts, err));
    CDZ_TRY(cdz_gguf_uint(g, cdz_gguf_arch_key(arch, "attention.sliding_window", key), UINT32_MAX,
                          &window, err));
    if (strcmp(type, "llama") == 0) type = experts ? "mixtral" : window ? "mistral" : type;
    uint64_t gating = 0;
    /* The key is there where config.json had scoring_func, which transformers does not write. */
    const bool biased = cdz_gguf_some_layer_has(g, "exp_probs_b.bias");
    CDZ_TRY(cdz_gguf_uint(g, cdz_gguf_arch_key(arch, "expert_gating_func", key), UINT32_MAX,
                          &gating, err));
    if (strcmp(type, "deepseek_v2") == 0 && (gating == 2 || biased)) type = "deepseek_v3";
    const cdz_json olmo3 = {.type = CDZ_JSON_STRING, .string = "olmo3", .len = 5};
    *out = NULL;
    const cdz_json name = {.type = CDZ_JSON_STRING, .string = type, .len = (uint32_t)strlen(type)};
    if (strcmp(arch->model_type, "olmo2") == 0 && window) *out = cdz_family_find(&olmo3, NULL);
    if (!*out) *out = cdz_family_find(&name, NULL);
    return *out ? CDZ_OK : cdz_err(err, CDZ_E_INTERNAL, "%s: there is no family %s", g->path, type);
}

cdz_status cdz_gguf_write_config(const cdz_gguf *g, const cdz_gguf_arch *arch, cdz_buf *out,
                                 cdz_error *err)
{
    cdz_gguf_writer w = {.g = g, .arch = arch, .out = out, .err = err};
    char key[CDZ_GGUF_KEY_BYTES];
    bool parallel = true;
    CDZ_TRY(family_of(g, arch, &w.family, err));
    cdz_buf_putc(out, '{');
    cdz_gguf_put_text(&w, "model_type", w.family->model_type);
    CDZ_TRY(write_sizes(&w));
    CDZ_TRY(write_experts(&w));
    CDZ_TRY(cdz_gguf_write_recurrent(&w));
    CDZ_TRY(cdz_gguf_write_streams(&w));
    CDZ_TRY(write_windows(&w));
    CDZ_TRY(write_rotation(&w));
    CDZ_TRY(write_factors_of(&w));
    CDZ_TRY(write_attention_keys(&w));
    cdz_gguf_write_rope_type(&w);
    write_qk_norm(&w);
    if (w.family->caps) {
        CDZ_TRY(cdz_gguf_copy_real(&w, "attn_logit_softcapping", "attn_logit_softcapping"));
        CDZ_TRY(cdz_gguf_copy_real(&w, "final_logit_softcapping", "final_logit_softcapping"));
    }
    if (w.family->parallel == CDZ_PARALLEL_UNLESS_SAID) {
        CDZ_TRY(cdz_gguf_bool(g, cdz_gguf_arch_key(arch, "use_parallel_residual", key), &parallel,
                              err));
        cdz_gguf_put_bool(&w, "use_parallel_residual", parallel);
    }
    if (w.family->parallel == CDZ_PARALLEL_IF_SAID) /* as llama.cpp sees it */
        cdz_gguf_put_bool(&w, "use_parallel_residual",
                          !cdz_tensors_find(&g->tensors, "blk.0.ffn_norm.weight"));
    cdz_gguf_put_bool(&w, "tie_word_embeddings", !cdz_tensors_find(&g->tensors, "output.weight"));
    CDZ_TRY(cdz_gguf_write_tokens(&w));
    cdz_buf_putc(out, '}');
    return out->failed ? cdz_err_memory_in(err, g->path) : CDZ_OK;
}
