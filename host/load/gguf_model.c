/* gguf_model.c - from an opened GGUF file to weights that can be bound: the architecture from its
 * metadata, the tensors under the names of its parts. */
#include "load/gguf_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/config_keys.h"
#include "load/families.h"
#include "load/gguf_put.h"

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
    [CDZ_PART_LATENT_IN] = "blk.#.ffn_latent_down",
    [CDZ_PART_LATENT_OUT] = "blk.#.ffn_latent_up",
    [CDZ_PART_MIX_IN] = "blk.#.ssm_in",
    [CDZ_PART_MIX_VALUES] = "blk.#.attn_qkv",
    [CDZ_PART_MIX_GATE] = "blk.#.attn_gate",
    [CDZ_PART_MIX_SHARE] = "blk.#.ssm_beta",
    [CDZ_PART_MIX_DECAY] = "blk.#.ssm_alpha",
    [CDZ_PART_MIX_GATES] = "blk.#.ssm_ba",
    [CDZ_PART_MIX_CONV] = "blk.#.ssm_conv1d",
    [CDZ_PART_MIX_RATE] = "blk.#.ssm_a",
    [CDZ_PART_MIX_SHIFT] = "blk.#.ssm_dt.bias",
    [CDZ_PART_MIX_SKIP] = "blk.#.ssm_d",
    [CDZ_PART_MIX_NORM] = "blk.#.ssm_norm",
    [CDZ_PART_MIX_OUT] = "blk.#.ssm_out",
    [CDZ_PART_STREAM_IN] = "altup_proj.@",
    [CDZ_PART_STREAM_OUT] = "altup_unembd_proj.@",
    [CDZ_PART_LAYER_EMBED] = "per_layer_token_embd",
    [CDZ_PART_LAYER_PROJECT] = "per_layer_model_proj",
    [CDZ_PART_LAYER_NORM] = "per_layer_proj_norm",
    [CDZ_PART_STREAM_ROUTER_NORM] = "blk.#.altup_router_norm",
    [CDZ_PART_STREAM_ROUTER] = "blk.#.altup_router",
    [CDZ_PART_STREAM_FORETELL] = "blk.#.altup_predict_coef",
    [CDZ_PART_STREAM_CORRECT] = "blk.#.altup_correct_coef",
    [CDZ_PART_STREAM_SCALE] = "blk.#.altup_correct_scale.weight",
    [CDZ_PART_STREAM_GATE] = "blk.#.inp_gate",
    [CDZ_PART_STREAM_UP] = "blk.#.proj",
    [CDZ_PART_STREAM_NORM] = "blk.#.post_norm",
    [CDZ_PART_LAUREL_IN] = "blk.#.laurel_l",
    [CDZ_PART_LAUREL_OUT] = "blk.#.laurel_r",
    [CDZ_PART_LAUREL_NORM] = "blk.#.laurel_post_norm",
};

const char *const *cdz_gguf_part_names(void)
{
    return part_names;
}

/* Recurrent layers have other parts in files than in folders. */
static void name_recurrent(const cdz_gguf *g, const cdz_family *f, const char **names)
{
    const cdz_mixer kind = f->recurrent->kind;
    if (kind == CDZ_MIX_CONV) {
        names[CDZ_PART_FINAL_NORM] = "token_embd_norm"; /* which is its name, not its place */
        names[CDZ_PART_MIX_IN] = "blk.#.shortconv.in_proj";
        names[CDZ_PART_MIX_CONV] = "blk.#.shortconv.conv";
        names[CDZ_PART_MIX_OUT] = "blk.#.shortconv.out_proj";
    }
    if (kind == CDZ_MIX_DELTA && names[CDZ_PART_MIX_IN] &&
        !cdz_gguf_some_layer_has(g, "ssm_in.weight")) { /* as in the first files */
        names[CDZ_PART_MIX_IN] = NULL;
        names[CDZ_PART_MIX_VALUES] = part_names[CDZ_PART_MIX_VALUES];
        names[CDZ_PART_MIX_GATE] = part_names[CDZ_PART_MIX_GATE];
    }
    if (f->recurrent->alone) names[CDZ_PART_MLP_NORM] = part_names[CDZ_PART_ATTN_NORM];
    if (!f->names[CDZ_PART_SHARED_GATE_UP]) return;
    names[CDZ_PART_GATE_UP] = names[CDZ_PART_SHARED_GATE_UP] = NULL;
    for (cdz_arch_part p = CDZ_PART_GATE; p <= CDZ_PART_UP; p++) names[p] = part_names[p];
    for (cdz_arch_part p = CDZ_PART_SHARED_GATE; p <= CDZ_PART_SHARED_UP; p++)
        names[p] = part_names[p];
}

/* The parts that the family has, by GGUF's names. Experts are one tensor for gates, one for ups and one for downs, however
 * a folder has them. */
static const char *const *make_names(const cdz_gguf *g, const cdz_gguf_arch *ga, cdz_weights *w)
{
    const char **names = cdz_arena_array(&w->arena, CDZ_N_PARTS, sizeof *names);
    const char *const *own = w->arch.family->names;
    if (!names) return NULL;
    for (size_t part = 0; part < CDZ_N_PARTS; part++)
        names[part] = own[part] ? part_names[part] : NULL;
    if (w->arch.family->recurrent) name_recurrent(g, w->arch.family, names);
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

/* A tensor of several matrices or vectors, each of which becomes a tensor of its own, a view: "blk.3.ffn_up_exps.weight", or its
 * bias, "altup_proj.weight". */
typedef struct stacked {
    size_t stem;        /* bytes of the name that stay */
    const char *suffix; /* ".weight" */
    bool fused;         /* a gate's rows, then an up's, which come apart */
} stacked;

static bool is_stacked(const cdz_tensor *t, stacked *out)
{
    static const char *const streams[] = {"altup_proj.weight", "altup_unembd_proj.weight"};
    static const char fused[] = "_gate_up_exps.weight";
    const char *at = strstr(t->name, "_exps.");
    const bool bias = at && strcmp(at, "_exps.bias") == 0;
    if (at) {
        *out = (stacked){(size_t)(at - t->name), at + strlen("_exps"), false};
        out->fused =
            strcmp(at + strlen("_exps") - (sizeof fused - 1 - strlen(".weight")), fused) == 0 &&
            t->n_dims == 3 && t->shape[1] % 2 == 0;
        return t->n_dims == (bias ? 2 : 3);
    }
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        const size_t stem = strlen(streams[i]) - strlen(".weight");
        *out = (stacked){stem, t->name + stem, false};
        if (strcmp(t->name, streams[i]) == 0) return t->n_dims == 3;
    }
    return false;
}

/* One of them, under the name that files had before experts were stored together: "blk.3.ffn_up.5.weight". half: of a gate and
 * an up, 0 or 1. */
static bool one_of(cdz_arena *arena, const cdz_tensor *all, const stacked *s, uint64_t e,
                   unsigned half, cdz_tensor *out)
{
    const int stem = (int)(s->fused ? s->stem - strlen("gate_up") : s->stem);
    const char *kind = !s->fused ? "" : half ? "up" : "gate";
    *out = *all;
    out->n_dims = all->n_dims - 1;
    out->shape = all->shape + 1;
    out->n_bytes = all->n_bytes / all->shape[0];
    out->data = (const char *)all->data + e * out->n_bytes;
    if (s->fused) {
        uint64_t *shape = cdz_arena_array(arena, 2, sizeof *shape);
        if (!shape) return false;
        shape[0] = all->shape[1] / 2;
        shape[1] = all->shape[2];
        out->shape = shape;
        out->n_bytes /= 2;
        out->data = (const char *)out->data + half * out->n_bytes;
    }
    out->name = cdz_arena_printf(arena, "%.*s%s.%llu%s", stem, all->name, kind,
                                 (unsigned long long)e, s->suffix);
    return out->name != NULL;
}

/* How many tensors the set has once it is taken apart. */
static cdz_status count_apart(const cdz_gguf *g, size_t *n, cdz_error *err)
{
    *n = 0;
    for (size_t i = 0; i < g->tensors.n_items; i++) {
        const cdz_tensor *t = &g->tensors.items[i];
        stacked s;
        const bool apart = is_stacked(t, &s);
        if (apart && t->shape[0] > MAX_SPLIT) *n = MAX_SPLIT;
        *n += apart ? (size_t)t->shape[0] << s.fused : 1;
        if (*n > MAX_SPLIT)
            return cdz_err(err, CDZ_E_LIMIT, "%s: tensor %s: more than %zu experts and tensors",
                           g->path, t->name, MAX_SPLIT);
    }
    return CDZ_OK;
}

/* Falcon-H1's norm before its feed-forward, whose name llama.cpp ends too early: "blk.3.ffn_norm". */
static bool complete_name(cdz_arena *arena, cdz_tensor *t)
{
    static const char stem[] = ".ffn_norm";
    const char *end = strstr(t->name, stem);
    if (!end || end[sizeof stem - 1]) return true;
    t->name = cdz_arena_printf(arena, "%s.weight", t->name);
    return t->name != NULL;
}

static bool take_apart(cdz_tensors *set, const cdz_tensor *t, cdz_tensor *items, size_t *at)
{
    stacked s;
    if (!is_stacked(t, &s)) {
        items[*at] = *t;
        return complete_name(&set->arena, &items[(*at)++]);
    }
    for (uint64_t e = 0; e < t->shape[0]; e++)
        for (unsigned half = 0; half < (s.fused ? 2u : 1u); half++)
            if (!one_of(&set->arena, t, &s, e, half, &items[(*at)++])) return false;
    return true;
}

static cdz_status split_experts(cdz_gguf *g, cdz_error *err)
{
    cdz_tensors *set = &g->tensors;
    size_t n, at = 0;
    CDZ_TRY(count_apart(g, &n, err));
    cdz_tensor *items = calloc(n + 1, sizeof *items);
    bool ok = items != NULL;
    for (size_t i = 0; ok && i < set->n_items; i++)
        ok = take_apart(set, &set->items[i], items, &at);
    if (!ok) {
        free(items);
        return cdz_err_memory_in(err, g->path);
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
    if (!factors) return cdz_err_memory_in(err, g->path);
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
    if (!sparse) return cdz_err_memory_in(err, g->path);
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
    if (!of) return cdz_err_memory_in(err, g->path);
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

/* How far above their mean a layer's gates must be, in deviations; minus infinity where nothing is cut. */
static cdz_status read_cuts(const cdz_gguf *g, const cdz_gguf_arch *ga, cdz_weights *w,
                            cdz_error *err)
{
    char key[CDZ_GGUF_KEY_BYTES];
    const cdz_gguf_value *v;
    cdz_arch *a = &w->arch;
    if (a->streams.n == 0) return CDZ_OK;
    cdz_gguf_arch_key(ga, "activation_sparsity_scale", key);
    CDZ_TRY(cdz_gguf_array(g, key, CDZ_GGUF_F32, &v, err));
    if (v->n != a->n_layers)
        return cdz_err(err, CDZ_E_INPUT, "%s: %s has %llu numbers, there are %u layers", g->path,
                       key, (unsigned long long)v->n, (unsigned)a->n_layers);
    float *cut = cdz_arena_array(&w->arena, a->n_layers, sizeof *cut);
    if (!cut) return cdz_err_memory_in(err, g->path);
    for (uint32_t i = 0; i < a->n_layers; i++) {
        cut[i] = (float)cdz_gguf_real_at(v, i);
        if (isnan(cut[i]) || cut[i] == INFINITY)
            return cdz_err(err, CDZ_E_INPUT, "%s: %s is %g for layer %u", g->path, key,
                           (double)cut[i], (unsigned)i);
    }
    a->streams.cut = cut;
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

/* What a folder's description says of the layout and GGUF's does not have: biases are where
 * tensors are, weights of gpt2 lie as rows of outputs, q, k and v of gpt_neox one after the other,
 * gemma's norms have their 1 already. */
static void as_stored(const cdz_gguf *g, const cdz_gguf_arch *ga, cdz_arch *a)
{
    a->qkv_bias =
        cdz_gguf_some_layer_has(g, "attn_q.bias") || cdz_gguf_some_layer_has(g, "attn_qkv.bias");
    a->o_bias = cdz_gguf_some_layer_has(g, "attn_output.bias");
    a->mlp_bias = cdz_gguf_some_layer_has(g, "ffn_up.bias");
    a->conv1d = false;
    a->fused = CDZ_FUSED_PARTS;
    a->norm_offset = 0;
    a->rope.interleaved = ga->pairs || a->family->interleaved;
    /* llama.cpp's kernel has a value head's keys at the remainder; its converter moves heads there. */
    a->recurrent.groups_alternate = strncmp(ga->name, "qwen35", strlen("qwen35")) == 0;
    a->rope.regroup = ga->pairs && a->rope.n_rotated <= CDZ_ROPE_REGROUP;
}

static cdz_status read_arch(const cdz_gguf *g, const cdz_gguf_arch *ga, cdz_weights *w,
                            cdz_error *err)
{
    cdz_buf text = {0};
    const char *name = cdz_arena_printf(&w->arena, "%s, its metadata as config.json", g->path);
    cdz_status st =
        name ? cdz_gguf_write_config(g, ga, &text, err) : cdz_err_memory_in(err, g->path);
    /* The parser keeps strings where they lie. */
    char *kept = st == CDZ_OK ? cdz_arena_strndup(&w->arena, text.data, text.len) : NULL;
    if (st == CDZ_OK && !kept) st = cdz_err_memory_in(err, g->path);
    if (st == CDZ_OK) st = cdz_json_parse(kept, text.len, name, NULL, &w->arena, &w->config, err);
    if (st == CDZ_OK) st = cdz_arch_read(&w->config, name, &w->arena, &w->arch, err);
    cdz_buf_free(&text);
    return st;
}

/* The parser keeps strings where they lie. */
static cdz_status parse_kept(const cdz_gguf *g, const char *what, const char *text, size_t len,
                             cdz_weights *w, cdz_json *out, cdz_error *err)
{
    const char *name = cdz_arena_printf(&w->arena, "%s, %s", g->path, what);
    char *kept = cdz_arena_strndup(&w->arena, text, len);
    if (!name || !kept) return cdz_err_memory_in(err, g->path);
    CDZ_TRY(cdz_json_parse(kept, len, name, NULL, &w->arena, out, err));
    if (out->type == CDZ_JSON_OBJECT) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT, "%s: is %s, expected an object", name, cdz_json_type_name(out));
}

static cdz_status read_sampling(const cdz_gguf *g, cdz_weights *w, cdz_error *err)
{
    cdz_buf text = {0};
    cdz_status st = cdz_gguf_write_generation(g, &text, err);
    if (st == CDZ_OK)
        st = parse_kept(g, "its metadata as generation_config.json", text.data, text.len, w,
                        &w->generation_config, err);
    cdz_buf_free(&text);
    return st;
}

/* The generation_config.json of the folder that the file was made from, whole where our own converter wrote the file. */
static cdz_status read_generation(const cdz_gguf *g, cdz_weights *w, cdz_error *err)
{
    const char *key = "cadenza.generation_config", *text = NULL;
    size_t len = 0;
    CDZ_TRY(cdz_gguf_string(g, key, &text, &len, err));
    if (text) return parse_kept(g, key, text, len, w, &w->generation_config, err);
    return cdz_gguf_says_generation(g) ? read_sampling(g, w, err) : CDZ_OK;
}

cdz_status cdz_gguf_to_weights(cdz_gguf *g, cdz_weights *w, cdz_error *err)
{
    const cdz_gguf_arch *ga;
    CDZ_TRY(cdz_gguf_find_arch(g, &ga, err));
    CDZ_TRY(cdz_gguf_part_queries(g, ga, err));
    CDZ_TRY(read_arch(g, ga, w, err));
    CDZ_TRY(apply_frequencies(g, w, err));
    CDZ_TRY(read_scale(g, ga, &w->arch, err));
    CDZ_TRY(read_sparse(g, w, err));
    CDZ_TRY(read_xielu(g, w, err));
    CDZ_TRY(read_cuts(g, ga, w, err));
    CDZ_TRY(read_baichuan(g, ga, w, err));
    as_stored(g, ga, &w->arch);
    CDZ_TRY(read_generation(g, w, err));
    w->arch.names = make_names(g, ga, w);
    if (!w->arch.names) return cdz_err_memory_in(err, g->path);
    CDZ_TRY(split_experts(g, err));
    drop(&g->tensors, "rope_freqs.weight");
    drop(&g->tensors, "rope_factors_long.weight");
    drop(&g->tensors, "rope_factors_short.weight");
    w->tensors = g->tensors;
    g->tensors = (cdz_tensors){0};
    return CDZ_OK;
}
