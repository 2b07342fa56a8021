/* gguf_model.c - from an opened GGUF file to weights that can be bound: the architecture from its
 * metadata, the tensors under the names of its parts. */
#include "load/gguf_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/config_keys.h"
#include "load/families.h"
#include "load/gguf_config.h"

static const size_t MAX_SPLIT = (size_t)1 << 18; /* tensors that experts are split into */

/* --- names --------------------------------------------------------------------------------- */

/* Both formats agree on what the parts are; '@' is the expert's number, see split_experts. */
static const char *const part_names[CDZ_N_PARTS] = {
    [CDZ_PART_EMBED] = "token_embd",
    [CDZ_PART_POSITIONS] = "position_embd",
    [CDZ_PART_EMBED_NORM] = "token_embd_norm",
    [CDZ_PART_FINAL_NORM] = "output_norm",
    [CDZ_PART_HEAD] = "output",
    [CDZ_PART_HEAD_BIAS] = "output.bias",
    [CDZ_PART_ATTN_NORM] = "blk.#.attn_norm",
    [CDZ_PART_Q] = "blk.#.attn_q",
    [CDZ_PART_K] = "blk.#.attn_k",
    [CDZ_PART_V] = "blk.#.attn_v",
    [CDZ_PART_QKV] = "blk.#.attn_qkv",
    [CDZ_PART_O] = "blk.#.attn_output",
    [CDZ_PART_SINKS] = "blk.#.attn_sinks.weight",
    [CDZ_PART_Q_A] = "blk.#.attn_q_a",
    [CDZ_PART_Q_A_NORM] = "blk.#.attn_q_a_norm",
    [CDZ_PART_Q_B] = "blk.#.attn_q_b",
    [CDZ_PART_KV_A] = "blk.#.attn_kv_a_mqa",
    [CDZ_PART_KV_A_NORM] = "blk.#.attn_kv_a_norm",
    [CDZ_PART_KV_B] = "blk.#.attn_kv_b",
    [CDZ_PART_K_B] = "blk.#.attn_k_b",
    [CDZ_PART_V_B] = "blk.#.attn_v_b",
    [CDZ_PART_Q_NORM] = "blk.#.attn_q_norm",
    [CDZ_PART_K_NORM] = "blk.#.attn_k_norm",
    [CDZ_PART_ATTN_POST_NORM] = "blk.#.post_attention_norm",
    [CDZ_PART_MLP_NORM] = "blk.#.ffn_norm",
    [CDZ_PART_GATE] = "blk.#.ffn_gate",
    [CDZ_PART_UP] = "blk.#.ffn_up",
    [CDZ_PART_GATE_UP] = "blk.#.ffn_up",
    [CDZ_PART_DOWN] = "blk.#.ffn_down",
    [CDZ_PART_MLP_POST_NORM] = "blk.#.post_ffw_norm",
    [CDZ_PART_ROUTER] = "blk.#.ffn_gate_inp",
    [CDZ_PART_ROUTER_BIAS] = "blk.#.exp_probs_b.bias",
    [CDZ_PART_SHARED_ROUTER] = "blk.#.ffn_gate_inp_shexp",
    [CDZ_PART_SHARED_GATE] = "blk.#.ffn_gate_shexp",
    [CDZ_PART_SHARED_UP] = "blk.#.ffn_up_shexp",
    [CDZ_PART_SHARED_DOWN] = "blk.#.ffn_down_shexp",
    [CDZ_PART_EXPERT_GATE] = "blk.#.ffn_gate.@",
    [CDZ_PART_EXPERT_UP] = "blk.#.ffn_up.@",
    [CDZ_PART_EXPERT_DOWN] = "blk.#.ffn_down.@",
};

const char *const *cdz_gguf_part_names(void)
{
    return part_names;
}

/* The parts that the family has, by GGUF's names. Experts are one tensor for gates, one for ups and one for downs, however
 * a folder has them. */
static const char *const *make_names(const cdz_gguf_arch *ga, cdz_weights *w)
{
    const char **names = cdz_arena_array(&w->arena, CDZ_N_PARTS, sizeof *names);
    const char *const *own = w->arch.family->names;
    if (!names) return NULL;
    for (size_t part = 0; part < CDZ_N_PARTS; part++)
        names[part] = own[part] ? part_names[part] : NULL;
    if (ga->mlp_norm_is_post) names[CDZ_PART_MLP_NORM] = part_names[CDZ_PART_ATTN_POST_NORM];
    if (w->arch.names ==
        w->arch.family->other_names) { /* falcon's two norms, the feed-forward's first */
        names[CDZ_PART_MLP_NORM] = part_names[CDZ_PART_ATTN_NORM];
        names[CDZ_PART_ATTN_NORM] = "blk.#.attn_norm_2";
    }
    for (cdz_arch_part p = CDZ_PART_K_B; own[CDZ_PART_KV_B] && p <= CDZ_PART_V_B; p++)
        names[p] = part_names[p];
    if (!own[CDZ_PART_EXPERTS_GATE_UP]) return names;
    for (cdz_arch_part p = CDZ_PART_EXPERT_GATE; p <= CDZ_PART_EXPERT_DOWN; p++)
        names[p] = part_names[p];
    return names;
}

/* --- experts ------------------------------------------------------------------------------- */

/* "blk.3.ffn_up_exps.weight", or its bias: where "_exps" begins; NULL: it is no tensor of experts. */
static const char *experts_ending(const cdz_tensor *t)
{
    const char *at = strstr(t->name, "_exps.");
    const bool bias = at && strcmp(at, "_exps.bias") == 0;
    return at && t->n_dims == (bias ? 2 : 3) ? at : NULL;
}

/* One expert of a tensor (experts, rows, columns), under the name that files had before experts
 * were stored together: "blk.3.ffn_up.5.weight". */
static bool one_expert(cdz_arena *arena, const cdz_tensor *all, const char *ending, uint64_t e,
                       cdz_tensor *out)
{
    *out = *all;
    out->n_dims = all->n_dims - 1;
    out->shape = all->shape + 1;
    out->n_bytes = all->n_bytes / all->shape[0];
    out->data = (const char *)all->data + e * out->n_bytes;
    out->name = cdz_arena_printf(arena, "%.*s.%llu%s", (int)(ending - all->name), all->name,
                                 (unsigned long long)e, ending + strlen("_exps"));
    return out->name != NULL;
}

/* Experts lie in one tensor; each becomes a tensor of its own, a view. */
static cdz_status split_experts(cdz_gguf *g, cdz_error *err)
{
    cdz_tensors *set = &g->tensors;
    size_t n = 0, at = 0;
    for (size_t i = 0; i < set->n_items; i++) {
        const bool experts = experts_ending(&set->items[i]) != NULL;
        if (experts && set->items[i].shape[0] > MAX_SPLIT) n = MAX_SPLIT;
        n += experts ? (size_t)set->items[i].shape[0] : 1;
        if (n > MAX_SPLIT)
            return cdz_err(err, CDZ_E_LIMIT, "%s: tensor %s: more than %zu experts and tensors",
                           g->path, set->items[i].name, MAX_SPLIT);
    }
    cdz_tensor *items = calloc(n + 1, sizeof *items);
    bool ok = items != NULL;
    for (size_t i = 0; ok && i < set->n_items; i++) {
        const cdz_tensor *t = &set->items[i];
        const char *ending = experts_ending(t);
        if (!ending) items[at++] = *t;
        for (uint64_t e = 0; ok && ending && e < t->shape[0]; e++)
            ok = one_expert(&set->arena, t, ending, e, &items[at++]);
    }
    if (!ok) {
        free(items);
        return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", g->path);
    }
    free(set->items);
    set->items = items;
    set->n_items = n;
    return cdz_tensors_sort(set, err);
}

/* Takes a tensor out of the set: it has been read. */
static void drop(cdz_tensors *set, const char *name)
{
    const cdz_tensor *t = cdz_tensors_find(set, name);
    if (!t) return;
    const size_t at = (size_t)(t - set->items);
    memmove(set->items + at, set->items + at + 1, (set->n_items - at - 1) * sizeof *set->items);
    set->n_items--;
}

/* --- the architecture ---------------------------------------------------------------------- */

/* rope_freqs.weight divides the frequencies: llama3's scaling, worked out by the converter. */
static cdz_status apply_frequencies(const cdz_gguf *g, cdz_weights *w, cdz_error *err)
{
    const cdz_tensor *t = cdz_tensors_find(&g->tensors, "rope_freqs.weight");
    const size_t n = w->arch.rope.n_rotated / 2;
    if (!t || n == 0) return CDZ_OK;
    float *factors = cdz_arena_array(&w->arena, n, sizeof *factors);
    if (!factors) return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", g->path);
    CDZ_TRY(cdz_gguf_floats(g, t, factors, n, err));
    for (size_t i = 0; i < n; i++) {
        if (!(factors[i] >= 1e-6f && factors[i] <= 1e6f))
            return cdz_err(err, CDZ_E_INPUT,
                           "%s: rope_freqs.weight has %g at %zu, expected 1e-6 to 1e6", g->path,
                           (double)factors[i], i);
        factors[i] = w->arch.rope.inv_freq[i] / factors[i];
    }
    w->arch.rope.inv_freq = factors;
    w->arch.rope_type = CDZ_ROPE_LLAMA3;
    return CDZ_OK;
}

/* What attention multiplies by. Files name it seldom; llama.cpp knows the two sizes of gemma that
 * differ by their number of layers, and so must a reader. */
static cdz_status read_scale(const cdz_gguf *g, const cdz_gguf_arch *ga, cdz_arch *a, cdz_error *err)
{
    enum { GEMMA2_27B_LAYERS = 46, GEMMA3_27B_LAYERS = 62 };
    char key[CDZ_GGUF_KEY_BYTES];
    double scale = 0;
    const bool gemma2 = strcmp(ga->name, "gemma2") == 0, gemma3 = strcmp(ga->name, "gemma3") == 0;
    const bool by_width = (gemma2 && a->n_layers == GEMMA2_27B_LAYERS) ||
                          (gemma3 && a->n_layers == GEMMA3_27B_LAYERS);
    const double share = (double)a->hidden / a->n_heads, divisor = by_width ? share : a->head_dim;
    CDZ_TRY(cdz_gguf_real(g, cdz_gguf_arch_key(ga, "attention.scale", key), &scale, err));
    if (!(scale >= 0 && scale < 1e9))
        return cdz_err(err, CDZ_E_INPUT, "%s: %s is %g", g->path, key, scale);
    if (scale > 0)
        a->attention_scale = (float)scale;
    else if (gemma2 || gemma3)
        a->attention_scale = (float)(1.0 / sqrt(divisor));
    return CDZ_OK;
}

/* A layer has experts where it has a router. */
static cdz_status read_sparse(const cdz_gguf *g, cdz_weights *w, cdz_error *err)
{
    if (w->arch.n_experts == 0) return CDZ_OK;
    bool *sparse = cdz_arena_array(&w->arena, w->arch.n_layers, sizeof *sparse);
    if (!sparse) return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", g->path);
    for (uint32_t i = 0; i < w->arch.n_layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.ffn_gate_inp.weight", (unsigned)i);
        sparse[i] = cdz_tensors_find(&g->tensors, name) != NULL;
    }
    w->arch.sparse = sparse;
    return CDZ_OK;
}

/* Arrays with a number of each layer; their keys have no architecture before them. */
static cdz_status read_xielu(const cdz_gguf *g, cdz_weights *w, cdz_error *err)
{
    static const char *const keys[] = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta"};
    const cdz_arch *a = &w->arch;
    if (a->activation != CDZ_ACT_XIELU) return CDZ_OK;
    cdz_xielu *of = cdz_arena_array(&w->arena, a->n_layers, sizeof *of);
    if (!of) return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", g->path);
    for (int k = 0; k < 3; k++) {
        const cdz_gguf_value *v;
        CDZ_TRY(cdz_gguf_array(g, keys[k], CDZ_GGUF_F32, &v, err));
        if (v->n != a->n_layers)
            return cdz_err(err, CDZ_E_INPUT, "%s: %s has %llu entries, there are %u layers",
                           g->path, keys[k], (unsigned long long)v->n, (unsigned)a->n_layers);
        for (uint32_t i = 0; i < a->n_layers; i++) {
            float *const to[] = {&of[i].above, &of[i].below, &of[i].both};
            *to[k] = (float)cdz_gguf_real_at(v, i);
        }
    }
    w->arch.xielu = of;
    return CDZ_OK;
}

/* The larger of the two has ALiBi in place of a rotation, which the file does not say. */
static cdz_status read_baichuan(const cdz_gguf *g, const cdz_gguf_arch *ga, cdz_weights *w,
                                cdz_error *err)
{
    enum { LAYERS_OF_13B = 40 };
    const cdz_keys k = {.path = g->path, .err = err};
    if (strcmp(ga->name, "baichuan") != 0 || w->arch.n_layers != LAYERS_OF_13B) return CDZ_OK;
    w->arch.rope.n_rotated = 0;
    return cdz_arch_make_slopes(&k, &w->arena, &w->arch);
}

static bool has(const cdz_gguf *g, const char *name)
{
    return cdz_tensors_find(&g->tensors, name) != NULL;
}

/* What a folder's description says of the layout and GGUF's does not have: biases are where
 * tensors are, weights of gpt2 lie as rows of outputs, q, k and v of gpt_neox one after the other,
 * gemma's norms have their 1 already. */
static void as_stored(const cdz_gguf *g, const cdz_gguf_arch *ga, cdz_arch *a)
{
    a->qkv_bias = has(g, "blk.0.attn_q.bias") || has(g, "blk.0.attn_qkv.bias");
    a->o_bias = has(g, "blk.0.attn_output.bias");
    a->mlp_bias = has(g, "blk.0.ffn_up.bias");
    a->conv1d = false;
    a->fused = CDZ_FUSED_PARTS;
    a->norm_offset = 0;
    a->rope.interleaved = ga->pairs || a->family->interleaved;
    a->rope.regroup = ga->pairs && a->rope.n_rotated <= CDZ_ROPE_REGROUP;
}

static cdz_status read_arch(const cdz_gguf *g, const cdz_gguf_arch *ga, cdz_weights *w,
                            cdz_error *err)
{
    cdz_buf text = {0};
    const char *name = cdz_arena_printf(&w->arena, "%s, its metadata as config.json", g->path);
    cdz_status st = name ? cdz_gguf_write_config(g, ga, &text, err)
                         : cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", g->path);
    /* The parser keeps strings where they lie. */
    char *kept = st == CDZ_OK ? cdz_arena_strndup(&w->arena, text.data, text.len) : NULL;
    if (st == CDZ_OK && !kept) st = cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", g->path);
    if (st == CDZ_OK) st = cdz_json_parse(kept, text.len, name, NULL, &w->arena, &w->config, err);
    if (st == CDZ_OK) st = cdz_arch_read(&w->config, name, &w->arena, &w->arch, err);
    cdz_buf_free(&text);
    return st;
}

/* The generation_config.json of the folder that the file was made from; only our own converter
 * writes this key. */
static cdz_status read_generation(const cdz_gguf *g, cdz_weights *w, cdz_error *err)
{
    const char *key = "cadenza.generation_config", *text = NULL;
    size_t len = 0;
    CDZ_TRY(cdz_gguf_string(g, key, &text, &len, err));
    if (!text) return CDZ_OK;
    const char *name = cdz_arena_printf(&w->arena, "%s, %s", g->path, key);
    char *kept = cdz_arena_strndup(&w->arena, text, len); /* strings stay where they lie */
    if (!name || !kept) return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", g->path);
    CDZ_TRY(cdz_json_parse(kept, len, name, NULL, &w->arena, &w->generation_config, err));
    if (w->generation_config.type == CDZ_JSON_OBJECT) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT, "%s: is %s, expected an object", name,
                   cdz_json_type_name(&w->generation_config));
}

cdz_status cdz_gguf_to_weights(cdz_gguf *g, cdz_weights *w, cdz_error *err)
{
    const cdz_gguf_arch *ga;
    CDZ_TRY(cdz_gguf_find_arch(g, &ga, err));
    CDZ_TRY(read_arch(g, ga, w, err));
    CDZ_TRY(apply_frequencies(g, w, err));
    CDZ_TRY(read_scale(g, ga, &w->arch, err));
    CDZ_TRY(read_sparse(g, w, err));
    CDZ_TRY(read_xielu(g, w, err));
    CDZ_TRY(read_baichuan(g, ga, w, err));
    as_stored(g, ga, &w->arch);
    CDZ_TRY(read_generation(g, w, err));
    w->arch.names = make_names(ga, w);
    if (!w->arch.names) return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", g->path);
    CDZ_TRY(split_experts(g, err));
    drop(&g->tensors, "rope_freqs.weight");
    drop(&g->tensors, "rope_factors_long.weight");
    drop(&g->tensors, "rope_factors_short.weight");
    w->tensors = g->tensors;
    g->tensors = (cdz_tensors){0};
    return CDZ_OK;
}
