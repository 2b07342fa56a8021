/* collect.c - which tensors a model has, part by part, for a format that names and lays them in
 * its own way. */
#include <stdio.h>
#include <string.h>

#include "convert/tensors.h"
#include "load/families.h"

typedef struct collector {
    const cdz_weights *w;
    const cdz_naming *how;
    cdz_out_tensors *out;
    cdz_convert_report *report;
    cdz_error *err;
} collector;

/* --- parts --------------------------------------------------------------------------------- */

/* The views of one tensor as the whole that they came from: they lie one after the other. */
static cdz_linear whole(const cdz_linear *first, size_t n)
{
    cdz_linear all = *first;
    all.w.n = n;
    if (all.bias.data) all.bias.k = n;
    return all;
}

static cdz_linear as_linear(const cdz_norm *norm)
{
    return (cdz_linear){norm->w, norm->bias};
}

static cdz_linear end_part(const cdz_weights *w, cdz_arch_part part)
{
    cdz_linear out;
    memset(&out, 0, sizeof out);
    if (part == CDZ_PART_EMBED) out.w = w->embed;
    if (part == CDZ_PART_POSITIONS) out.w = w->positions;
    if (part == CDZ_PART_FINAL_NORM) out = as_linear(&w->final_norm);
    if (part == CDZ_PART_HEAD && !w->tied) out = w->head;
    return out;
}

/* Without data: the layer does not have it. */
static cdz_linear layer_part(const cdz_layer_weights *l, cdz_arch_part part)
{
    cdz_linear none;
    memset(&none, 0, sizeof none);
    switch (part) {
    case CDZ_PART_ATTN_NORM: return as_linear(&l->attn_norm);
    case CDZ_PART_Q: return l->q;
    case CDZ_PART_K: return l->k;
    case CDZ_PART_V: return l->v;
    case CDZ_PART_QKV: return whole(&l->q, l->q.w.n + l->k.w.n + l->v.w.n);
    case CDZ_PART_O: return l->o;
    case CDZ_PART_Q_NORM: return as_linear(&l->q_norm);
    case CDZ_PART_K_NORM: return as_linear(&l->k_norm);
    case CDZ_PART_ATTN_POST_NORM: return as_linear(&l->attn_post_norm);
    case CDZ_PART_MLP_NORM: return as_linear(&l->mlp_norm);
    case CDZ_PART_GATE: return l->mlp.gate;
    case CDZ_PART_UP: return l->mlp.up;
    case CDZ_PART_GATE_UP: return whole(&l->mlp.gate, l->mlp.gate.w.n + l->mlp.up.w.n);
    case CDZ_PART_DOWN: return l->mlp.down;
    case CDZ_PART_MLP_POST_NORM: return as_linear(&l->mlp_post_norm);
    case CDZ_PART_ROUTER: return l->router;
    default: return none;
    }
}

static bool of_experts(cdz_arch_part part)
{
    return part == CDZ_PART_EXPERT_GATE || part == CDZ_PART_EXPERT_UP ||
           part == CDZ_PART_EXPERT_DOWN;
}

static cdz_weight expert_part(const cdz_feed_forward *f, cdz_arch_part part)
{
    if (part == CDZ_PART_EXPERT_GATE) return f->gate.w;
    return part == CDZ_PART_EXPERT_UP ? f->up.w : f->down.w;
}

static bool is_norm(cdz_arch_part part)
{
    switch (part) {
    case CDZ_PART_FINAL_NORM:
    case CDZ_PART_ATTN_NORM:
    case CDZ_PART_Q_NORM:
    case CDZ_PART_K_NORM:
    case CDZ_PART_ATTN_POST_NORM:
    case CDZ_PART_MLP_NORM:
    case CDZ_PART_MLP_POST_NORM: return true;
    default: return false;
    }
}

static cdz_role role_of(const collector *c, cdz_arch_part part)
{
    if (is_norm(part) || part == CDZ_PART_POSITIONS || part == CDZ_PART_ROUTER)
        return CDZ_ROLE_KEPT;
    if (part == CDZ_PART_HEAD) return CDZ_ROLE_HEAD;
    if (part == CDZ_PART_EMBED) return c->w->tied ? CDZ_ROLE_HEAD : CDZ_ROLE_EMBED;
    return CDZ_ROLE_MATRIX;
}

static cdz_row_order order_of(const collector *c, cdz_arch_part part, cdz_role role)
{
    const cdz_naming *how = c->how;
    if ((part == CDZ_PART_Q || part == CDZ_PART_K) && (how->to_pairs || how->from_pairs))
        return how->to_pairs ? CDZ_ROWS_TO_PAIRS : CDZ_ROWS_FROM_PAIRS;
    if (part == CDZ_PART_QKV && how->by_head) return CDZ_ROWS_BY_HEAD;
    return how->transposed && role == CDZ_ROLE_MATRIX ? CDZ_ROWS_TRANSPOSED : CDZ_ROWS_AS_THEY_ARE;
}

/* --- one tensor ---------------------------------------------------------------------------- */

static cdz_dtype type_of(const collector *c, cdz_role role, const cdz_weight *w, const char *name)
{
    const cdz_dtype wanted = c->how->type;
    cdz_dtype own = w->dtype;
    if (c->how->gguf && role == CDZ_ROLE_KEPT) own = CDZ_F32;
    if (own >= (c->how->gguf ? CDZ_N_GGUF : CDZ_N_PLAIN)) own = CDZ_F32; /* it has no such blocks */
    const cdz_dtype type = cdz_type_for(wanted, role, w->k, own);
    const bool fits = wanted == CDZ_N_DTYPES || wanted < CDZ_N_PLAIN || type >= CDZ_N_PLAIN;
    if (!fits && role != CDZ_ROLE_KEPT && c->report->n_kept++ == 0)
        snprintf(c->report->first_kept, sizeof c->report->first_kept, "%.160s has rows of %zu",
                 name, w->k);
    return type;
}

/* A part's stem with the numbers put in; experts that lie together are "_exps" in place of ".@". */
static const char *name_of(const collector *c, cdz_arch_part part, uint32_t layer, uint32_t expert,
                           const char *suffix)
{
    char stem[192];
    size_t at = 0;
    for (const char *s = c->how->names[part]; *s && at + 12 < sizeof stem; s++) {
        if (*s == '#' || *s == '@')
            at += (size_t)snprintf(stem + at, sizeof stem - at, "%u",
                                   (unsigned)(*s == '#' ? layer : expert));
        else if (c->how->gguf && s[0] == '.' && s[1] == '@')
            at += (size_t)snprintf(stem + at, sizeof stem - at, "_exps"), s++;
        else
            stem[at++] = *s;
    }
    stem[at] = '\0';
    return cdz_arena_printf(&c->out->arena, "%s%s", stem, suffix);
}

static cdz_status add(const collector *c, cdz_out_tensor *t, const cdz_weight *parts)
{
    if (t->name) t->parts = cdz_arena_array(&c->out->arena, t->n_parts, sizeof *t->parts);
    if (!t->parts) return cdz_err_memory_in(c->err, c->w->folder);
    memcpy(t->parts, parts, t->n_parts * sizeof *parts);
    c->report->n_by_type[t->type]++;
    return cdz_out_tensors_add(c->out, t) ? CDZ_OK : cdz_err_memory_in(c->err, c->w->folder);
}

static cdz_status add_matrix(const collector *c, cdz_arch_part part, const char *name,
                             const cdz_weight *parts, size_t n_parts, bool stacked)
{
    const cdz_weight *w = parts;
    const cdz_role role = role_of(c, part);
    cdz_out_tensor t = {.name = name, .n_parts = n_parts, .order = order_of(c, part, role)};
    const bool turned = t.order == CDZ_ROWS_TRANSPOSED;
    const bool to_blocks = c->how->type >= CDZ_N_PLAIN && c->how->type < CDZ_N_DTYPES;
    if (!name) return cdz_err_memory_in(c->err, c->w->folder);
    if (to_blocks && w->dtype >= CDZ_N_PLAIN && role != CDZ_ROLE_KEPT)
        return cdz_err(c->err, CDZ_E_UNSUPPORTED,
                       "%s: its weights are %s already; quantise from F32, F16 or BF16",
                       c->w->folder, cdz_dtype_name(w->dtype));
    t.heads = part == CDZ_PART_K ? c->w->arch.n_kv_heads : c->w->arch.n_heads;
    t.type = type_of(c, role, w, name);
    t.n_dims = stacked ? 3 : 2;
    t.shape[0] = n_parts;
    t.shape[t.n_dims - 2] = turned ? w->k : w->n;
    t.shape[t.n_dims - 1] = turned ? w->n : w->k;
    return add(c, &t, parts);
}

/* Norms and biases. In rows of one number where rows are put in another order. */
static cdz_status add_vector(const collector *c, cdz_arch_part part, const char *name,
                             const cdz_weight *w, bool bias)
{
    cdz_weight rows = *w;
    cdz_out_tensor t = {.name = name, .n_dims = 1, .n_parts = 1};
    if (!name) return cdz_err_memory_in(c->err, c->w->folder);
    if (bias) t.order = order_of(c, part, CDZ_ROLE_KEPT);
    t.heads = part == CDZ_PART_K ? c->w->arch.n_kv_heads : c->w->arch.n_heads;
    t.type = type_of(c, CDZ_ROLE_KEPT, w, name);
    t.shape[0] = w->k;
    if (!bias && is_norm(part)) t.add = c->how->norm_add;
    if (t.order != CDZ_ROWS_AS_THEY_ARE)
        rows = (cdz_weight){w->data, w->dtype, w->k, 1, CDZ_WEIGHT_ROWS};
    return add(c, &t, &rows);
}

static cdz_status add_part(const collector *c, cdz_arch_part part, uint32_t layer,
                           const cdz_linear *l)
{
    if (!l->w.data) return CDZ_OK;
    const char *name = name_of(c, part, layer, 0, ".weight");
    if (is_norm(part))
        CDZ_TRY(add_vector(c, part, name, &l->w, false));
    else
        CDZ_TRY(add_matrix(c, part, name, &l->w, 1, false));
    if (!l->bias.data) return CDZ_OK;
    return add_vector(c, part, name_of(c, part, layer, 0, ".bias"), &l->bias, true);
}

static cdz_status add_experts(const collector *c, cdz_arch_part part, uint32_t layer,
                              const cdz_layer_weights *l)
{
    const uint32_t n = c->w->arch.n_experts;
    if (!l->experts) return CDZ_OK;
    cdz_weight *all = cdz_arena_array(&c->out->arena, n, sizeof *all);
    if (!all) return cdz_err_memory_in(c->err, c->w->folder);
    for (uint32_t e = 0; e < n; e++) all[e] = expert_part(&l->experts[e], part);
    if (c->how->gguf)
        return add_matrix(c, part, name_of(c, part, layer, 0, ".weight"), all, n, true);
    for (uint32_t e = 0; e < n; e++)
        CDZ_TRY(add_matrix(c, part, name_of(c, part, layer, e, ".weight"), &all[e], 1, false));
    return CDZ_OK;
}

static cdz_status add_layer(const collector *c, uint32_t layer)
{
    const cdz_layer_weights *l = &c->w->layers[layer];
    for (cdz_arch_part part = CDZ_PART_ATTN_NORM; part < CDZ_N_PARTS; part++) {
        if (!cdz_arch_has(&c->w->arch, part) || !c->how->names[part]) continue;
        const cdz_linear linear = layer_part(l, part);
        CDZ_TRY(of_experts(part) ? add_experts(c, part, layer, l)
                                 : add_part(c, part, layer, &linear));
    }
    return CDZ_OK;
}

cdz_status cdz_out_tensors_of(const cdz_weights *weights, const cdz_naming *naming,
                              cdz_out_tensors *out, cdz_convert_report *report, cdz_error *err)
{
    const collector c = {weights, naming, out, report, err};
    for (cdz_arch_part part = 0; part < CDZ_PART_ATTN_NORM; part++) {
        if (!cdz_arch_has(&weights->arch, part) || !naming->names[part]) continue;
        const cdz_linear linear = end_part(weights, part);
        CDZ_TRY(add_part(&c, part, 0, &linear));
    }
    for (uint32_t i = 0; i < weights->arch.n_layers; i++) CDZ_TRY(add_layer(&c, i));
    report->n_tensors = (uint32_t)out->n;
    return CDZ_OK;
}
