/* mixture.c - what config.json says of experts: how many, in which layers, how rows find them. Keys and defaults as in
 * transformers' configuration classes; what a family has of this is its cdz_expert_rules. */
#include "load/config_keys.h"
#include "load/families.h"

enum { MAX_EXPERTS = 1 << 12, MAX_GROUPS = 64, MAX_INNER = 1 << 24, MAX_LAYER = 10000 };

/* --- which layers -------------------------------------------------------------------------- */

/* mlp_only_layers lists layers that keep one dense feed-forward. */
static cdz_status read_dense_layers(const cdz_keys *k, const cdz_arch *a, bool *sparse)
{
    const cdz_json *list = cdz_key(k, "mlp_only_layers");
    if (list && list->type != CDZ_JSON_ARRAY)
        return cdz_err(k->err, CDZ_E_INPUT, "%s: mlp_only_layers is %s, expected an array", k->path,
                       cdz_json_type_name(list));
    for (uint32_t i = 0; list && i < list->len; i++) {
        const cdz_json *layer = &list->items[i];
        if (layer->type != CDZ_JSON_INT)
            return cdz_err(k->err, CDZ_E_INPUT, "%s: mlp_only_layers[%u] is %s, expected a layer",
                           k->path, (unsigned)i, cdz_json_type_name(layer));
        if (layer->integer >= 0 && layer->integer < (int64_t)a->n_layers)
            sparse[layer->integer] = false;
    }
    return CDZ_OK;
}

static cdz_status read_by_step(const cdz_keys *k, const cdz_arch *a, bool *sparse)
{
    const uint32_t one = 1;
    uint32_t step;
    CDZ_TRY(cdz_key_size(k, "decoder_sparse_step", &one, MAX_LAYER, &step));
    for (uint32_t i = 0; i < a->n_layers; i++) sparse[i] = (i + 1) % step == 0;
    return read_dense_layers(k, a, sparse);
}

/* moe_layer_end_index is the last of them; -1: the last layer. */
static cdz_status read_interval(const cdz_keys *k, const cdz_arch *a, bool *sparse)
{
    const uint32_t one = 1;
    uint32_t interval, start, end = a->n_layers - 1;
    const cdz_json *given = cdz_key(k, "moe_layer_end_index");
    CDZ_TRY(cdz_key_size(k, "moe_layer_interval", &one, MAX_LAYER, &interval));
    CDZ_TRY(cdz_key_count(k, "moe_layer_start_index", 1, MAX_LAYER, &start));
    if (!cdz_json_is(given, CDZ_JSON_INT) || given->integer != -1)
        CDZ_TRY(cdz_key_count(k, "moe_layer_end_index", end, MAX_LAYER, &end));
    for (uint32_t i = 0; i < a->n_layers; i++)
        sparse[i] = (i + 1) % interval == 0 && i >= start && i <= end;
    return CDZ_OK;
}

/* moe_layers lists them, or each nth is one. */
static cdz_status read_interleaved(const cdz_keys *k, const cdz_arch *a, bool *sparse)
{
    const uint32_t one = 1;
    uint32_t step;
    const cdz_json *list = cdz_key(k, "moe_layers");
    CDZ_TRY(cdz_key_size(k, "interleave_moe_layer_step", &one, MAX_LAYER, &step));
    for (uint32_t i = 0; i < a->n_layers; i++) sparse[i] = !list && (i + 1) % step == 0;
    if (list && list->type != CDZ_JSON_ARRAY)
        return cdz_err(k->err, CDZ_E_INPUT, "%s: moe_layers is %s, expected an array", k->path,
                       cdz_json_type_name(list));
    for (uint32_t i = 0; list && i < list->len; i++) {
        const cdz_json *layer = &list->items[i];
        if (layer->type != CDZ_JSON_INT || layer->integer < 0 ||
            layer->integer >= (int64_t)a->n_layers)
            return cdz_err(k->err, CDZ_E_INPUT,
                           "%s: moe_layers[%u] is no layer, expected a number from 0 to %u",
                           k->path, (unsigned)i, (unsigned)a->n_layers - 1);
        sparse[layer->integer] = true;
    }
    return CDZ_OK;
}

static cdz_status read_sparse(const cdz_keys *k, const cdz_arch *a, const cdz_expert_rules *rules,
                              bool *sparse)
{
    uint32_t first = 0;
    if (rules->sparse == CDZ_SPARSE_BY_STEP) return read_by_step(k, a, sparse);
    if (rules->sparse == CDZ_SPARSE_INTERVAL) return read_interval(k, a, sparse);
    if (rules->sparse == CDZ_SPARSE_INTERLEAVED) return read_interleaved(k, a, sparse);
    if (rules->sparse == CDZ_SPARSE_AFTER_FIRST)
        CDZ_TRY(cdz_key_count(k, rules->first_key ? rules->first_key : "first_k_dense_replace",
                              rules->first_dense, MAX_LAYER, &first));
    for (uint32_t i = 0; i < a->n_layers; i++)
        sparse[i] =
            i >= first && cdz_arch_feeds(a, i) && !(a->recurrent.plain && a->recurrent.plain[i]);
    return CDZ_OK;
}

/* --- the router ---------------------------------------------------------------------------- */

static cdz_status read_groups(const cdz_keys *k, cdz_arch *a)
{
    const cdz_expert_rules *rules = a->family->routing;
    const uint32_t groups = rules->n_groups ? rules->n_groups : 1,
                   kept = rules->groups_kept ? rules->groups_kept : 1;
    cdz_router *r = &a->router;
    CDZ_TRY(cdz_key_size(k, "n_group", &groups, MAX_GROUPS, &r->n_groups));
    CDZ_TRY(cdz_key_size(k, "topk_group", &kept, MAX_GROUPS, &r->groups_kept));
    if (a->n_experts % r->n_groups || r->groups_kept > r->n_groups)
        return cdz_err(k->err, CDZ_E_INPUT,
                       "%s: %u experts in n_group %u groups of which topk_group %u stay: expected "
                       "groups of one size, and no more than there are",
                       k->path, (unsigned)a->n_experts, (unsigned)r->n_groups,
                       (unsigned)r->groups_kept);
    if (r->n_groups > 1 && a->n_experts / r->n_groups < 2)
        return cdz_err(k->err, CDZ_E_INPUT,
                       "%s: n_group %u leaves groups of one expert, expected two", k->path,
                       (unsigned)r->n_groups);
    return CDZ_OK;
}

static cdz_status read_method(const cdz_keys *k, cdz_arch *a)
{
    const cdz_json *method = cdz_key(k, "topk_method");
    if (!method || cdz_json_eq(method, "greedy")) return CDZ_OK;
    if (!cdz_json_eq(method, "group_limited_greedy"))
        return cdz_err(
            k->err, CDZ_E_UNSUPPORTED,
            "%s: topk_method %.40s is not supported; supported are greedy, "
            "group_limited_greedy",
            k->path, method->type == CDZ_JSON_STRING ? method->string : cdz_json_type_name(method));
    a->router.groups_by_best = true;
    return read_groups(k, a);
}

static cdz_status read_router(const cdz_keys *k, const cdz_expert_rules *rules, cdz_arch *a)
{
    cdz_router *r = &a->router;
    double scale, least;
    *r = rules->router;
    if (rules->normalise_key)
        CDZ_TRY(cdz_key_bool(k, "norm_topk_prob", r->normalise, &r->normalise));
    if (rules->bias_key) CDZ_TRY(cdz_key_bool(k, rules->bias_key, r->biased, &r->biased));
    if (rules->group_keys) CDZ_TRY(read_groups(k, a));
    if (rules->method_key) CDZ_TRY(read_method(k, a));
    if (rules->scale_key) {
        CDZ_TRY(cdz_key_real(k, "routed_scaling_factor", (double)r->scale, -1e6, 1e6, &scale));
        r->scale = (float)scale;
    }
    if (rules->near_key) {
        double noise;
        CDZ_TRY(cdz_key_real(k, rules->near_key, (double)r->near, 0, 1e6, &noise));
        r->near = (float)(2 * noise);
    }
    if (rules->least_key) {
        CDZ_TRY(cdz_key_real(k, rules->least_key, (double)r->sum_least, 0, 1e6, &least));
        r->sum_least = (float)least;
    }
    return CDZ_OK;
}

/* --- sizes --------------------------------------------------------------------------------- */

static cdz_status too_many_active(const cdz_keys *k, const char *key, const cdz_arch *a)
{
    return cdz_err(k->err, CDZ_E_INPUT, "%s: %s %u is more than the %u experts", k->path, key,
                   (unsigned)a->n_active, (unsigned)a->n_experts);
}

static cdz_status read_shared(const cdz_keys *k, const cdz_expert_rules *rules, cdz_arch *a)
{
    uint32_t n = rules->n_shared;
    a->shared_intermediate = 0;
    if (rules->shared_inner)
        return cdz_key_size(k, rules->shared_inner, NULL, MAX_INNER, &a->shared_intermediate);
    if (!rules->shared_count) return CDZ_OK;
    CDZ_TRY(cdz_key_count(k, rules->shared_count, n, MAX_EXPERTS, &n));
    if (n && a->expert_intermediate > MAX_INNER / n)
        return cdz_err(k->err, CDZ_E_INPUT, "%s: %s %u makes the shared expert wider than %d",
                       k->path, rules->shared_count, (unsigned)n, MAX_INNER);
    a->shared_intermediate = n * a->expert_intermediate;
    return CDZ_OK;
}

/* Has no layer experts, by what its layers are said to be? */
static bool all_plain(const cdz_arch *a)
{
    for (uint32_t i = 0; a->recurrent.plain && i < a->n_layers; i++)
        if (cdz_arch_feeds(a, i) && !a->recurrent.plain[i]) return false;
    return a->recurrent.plain != NULL;
}

static cdz_status read_routed(const cdz_keys *k, cdz_arch *a, bool *sparse)
{
    const cdz_expert_rules *rules = a->family->routing;
    const uint32_t *usual = rules->n_active ? &rules->n_active : NULL;
    const cdz_json *count = cdz_key(k, rules->count);
    if (!count && all_plain(a)) return CDZ_OK;
    if (rules->may_lack && cdz_json_is(count, CDZ_JSON_INT) && count->integer == 0)
        return cdz_key_size(k, rules->shared_inner, NULL, MAX_INNER, &a->intermediate);
    CDZ_TRY(cdz_key_size(k, rules->count, NULL, MAX_EXPERTS, &a->n_experts));
    CDZ_TRY(cdz_key_size(k, rules->active, usual, MAX_EXPERTS, &a->n_active));
    if (a->n_active > a->n_experts) return too_many_active(k, rules->active, a);
    if (rules->only_active && a->n_active != rules->only_active)
        return cdz_err(k->err, CDZ_E_UNSUPPORTED, "%s: %s %u is not supported for %s; expected %u",
                       k->path, rules->active, (unsigned)a->n_active, a->model_type,
                       (unsigned)rules->only_active);
    a->expert_intermediate = a->intermediate;
    if (rules->inner)
        CDZ_TRY(cdz_key_size(k, rules->inner, NULL, MAX_INNER, &a->expert_intermediate));
    if (rules->latent_key && cdz_key(k, rules->latent_key))
        CDZ_TRY(cdz_key_size(k, rules->latent_key, NULL, MAX_INNER, &a->expert_width));
    CDZ_TRY(read_shared(k, rules, a));
    if (rules->dense_inner)
        CDZ_TRY(cdz_key_size(k, rules->dense_inner, NULL, MAX_INNER, &a->intermediate));
    CDZ_TRY(read_router(k, rules, a));
    return read_sparse(k, a, rules, sparse);
}

/* Mixtral's and Qwen's: softmax, no shared expert. */
static cdz_status read_plain(const cdz_keys *k, cdz_arch *a, bool *sparse)
{
    const uint32_t two = 2, eight = 8;
    const bool by_layer = a->family->experts == CDZ_EXPERTS_BY_LAYER;
    const char *count =
        by_layer && !cdz_key(k, "num_local_experts") ? "num_experts" : "num_local_experts";
    CDZ_TRY(cdz_key_size(k, count, NULL, MAX_EXPERTS, &a->n_experts));
    CDZ_TRY(cdz_key_size(k, "num_experts_per_tok", by_layer ? &eight : &two, MAX_EXPERTS,
                         &a->n_active));
    if (a->n_active > a->n_experts) return too_many_active(k, "num_experts_per_tok", a);
    a->expert_intermediate = a->intermediate;
    a->router = (cdz_router){.normalise = true, .scale = 1};
    for (uint32_t i = 0; i < a->n_layers; i++) sparse[i] = true;
    if (!by_layer) return CDZ_OK;
    CDZ_TRY(cdz_key_size(k, "moe_intermediate_size", NULL, MAX_INNER, &a->expert_intermediate));
    CDZ_TRY(cdz_key_bool(k, "norm_topk_prob", false, &a->router.normalise));
    return read_by_step(k, a, sparse);
}

cdz_status cdz_experts_read(const cdz_keys *k, cdz_arena *arena, cdz_arch *a)
{
    bool *sparse = cdz_arena_array(arena, a->n_layers, sizeof *sparse);
    if (!sparse) return cdz_err_memory_in(k->err, k->path);
    a->sparse = sparse;
    if (a->family->experts == CDZ_EXPERTS_NEVER) return CDZ_OK;
    return a->family->experts == CDZ_EXPERTS_ROUTED ? read_routed(k, a, sparse)
                                                    : read_plain(k, a, sparse);
}
