/* bind.c - which tensor is which weight: names, shapes, types. Weights stay where the file is
 * mapped; a fused tensor's parts are views of its rows. Only tensors laid otherwise than kernels
 * read are copied: unaligned ones, transposed ones, heads that alternate. */
#include "load/bind.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/bnb.h"
#include "load/families.h"

enum { NAME_BYTES = 256, MOST_POSITIONS_BYTES = 32 << 20 };

/* What tying one model's weights works on. */
typedef struct binder {
    cdz_weights *w;
    const cdz_arch *arch; /* the stack that is bound */
    const char *source;   /* the weight file, or the index of the shards */
    bool *used;           /* by tensor */
    cdz_error *err;
} binder;

static cdz_status no_memory(const char *folder, cdz_error *err)
{
    return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", folder);
}

/* --- copies -------------------------------------------------------------------------------- */

bool cdz_tensor_dtype(const cdz_tensor *t, cdz_dtype *out)
{
    for (int i = 0; i < CDZ_N_DTYPES; i++) {
        if (strcmp(t->dtype, cdz_dtype_name((cdz_dtype)i)) != 0) continue;
        *out = (cdz_dtype)i;
        return true;
    }
    return false;
}

/* Old files do not pad their header, so that their data may lie at odd addresses. Such a tensor
 * is copied. */
static cdz_status align_data(binder *b, const cdz_tensor *t, size_t element, const void **data)
{
    const cdz_file *file = &b->w->tensors.files[t->file];
    *data = t->data;
    if ((uintptr_t)t->data % element == 0) return CDZ_OK;
    void *copy = cdz_arena_alloc_aligned(&b->w->tensors.arena, (size_t)t->n_bytes, 64);
    if (!copy) return no_memory(file->path, b->err);
    uint64_t offset = (uint64_t)((const char *)t->data - (const char *)file->data);
    CDZ_TRY(cdz_file_read_at(file, offset, copy, (size_t)t->n_bytes, b->err));
    *data = copy;
    b->w->facts.n_copied++;
    return CDZ_OK;
}

static cdz_status wrong_shape(binder *b, const cdz_tensor *t, size_t n, size_t k)
{
    char shape[128], expected[64];
    if (k)
        snprintf(expected, sizeof expected, "[%zu, %zu]", n, k);
    else
        snprintf(expected, sizeof expected, "[%zu]", n);
    return cdz_err(b->err, CDZ_E_INPUT, "%s: tensor %s is %s, config.json makes it %s",
                   b->w->tensors.files[t->file].path, t->name,
                   cdz_tensor_shape_text(t, shape, sizeof shape), expected);
}

/* How a tensor lies in the file, if not as rows of outputs. */
typedef enum layout { AS_IT_IS, TRANSPOSED, HEAD_BY_HEAD } layout;

/* to (n, k) from (k, n), in tiles so that neither side jumps for every element. */
static void transpose(char *to, const char *from, size_t n, size_t k, size_t bytes)
{
    enum { TILE = 32 };
    for (size_t j0 = 0; j0 < n; j0 += TILE)
        for (size_t i0 = 0; i0 < k; i0 += TILE)
            for (size_t j = j0; j < n && j < j0 + TILE; j++)
                for (size_t i = i0; i < k && i < i0 + TILE; i++)
                    memcpy(to + (j * k + i) * bytes, from + (i * n + j) * bytes, bytes);
}

/* Rows (head, part, dim) to (part, head, dim): all of q, then of k, then of v. */
static void part_heads(char *to, const char *from, size_t heads, size_t head_bytes)
{
    for (size_t h = 0; h < heads; h++)
        for (size_t part = 0; part < 3; part++)
            memcpy(to + (part * heads + h) * head_bytes, from + (h * 3 + part) * head_bytes,
                   head_bytes);
}

/* Replaces out's data by a copy laid as rows of outputs. */
static cdz_status lay_out(binder *b, const cdz_tensor *t, layout how, cdz_weight *out)
{
    const cdz_file *file = &b->w->tensors.files[t->file];
    const size_t n_bytes = (size_t)t->n_bytes, heads = b->arch->n_heads;
    char *as_stored = malloc(n_bytes ? n_bytes : 1);
    char *copy = cdz_arena_alloc_aligned(&b->w->tensors.arena, n_bytes, 64);
    cdz_status st = as_stored && copy ? CDZ_OK : no_memory(file->path, b->err);
    const uint64_t offset = (uint64_t)((const char *)t->data - (const char *)file->data);
    if (st == CDZ_OK) st = cdz_file_read_at(file, offset, as_stored, n_bytes, b->err);
    if (st == CDZ_OK && how == TRANSPOSED)
        transpose(copy, as_stored, out->n, out->k, cdz_dtype_bytes(out->dtype));
    if (st == CDZ_OK && how == HEAD_BY_HEAD)
        part_heads(copy, as_stored, heads, n_bytes / heads / 3);
    free(as_stored);
    out->data = copy;
    b->w->facts.n_copied++;
    return st;
}

/* --- names --------------------------------------------------------------------------------- */

/* In a model of several parts the text part's names have another beginning: "language_model.model.norm" or
 * "model.language_model.norm". */
static const cdz_tensor *find_in_whole(const binder *b, const char *name, size_t prefix)
{
    char whole[NAME_BYTES + 32];
    snprintf(whole, sizeof whole, "language_model.%s", name);
    const cdz_tensor *t = cdz_tensors_find(&b->w->tensors, whole);
    snprintf(whole, sizeof whole, "model.language_model.%s", name + prefix);
    return t ? t : cdz_tensors_find(&b->w->tensors, whole);
}

/* Files of the bare model, saved without its head, leave out the names' first component. */
static const cdz_tensor *find(const binder *b, const char *name)
{
    const char *prefix;
    const size_t length = cdz_arch_prefix(&b->w->arch, &prefix);
    const cdz_tensor *t = cdz_tensors_find(&b->w->tensors, name);
    if (!t && b->arch->part_of) t = find_in_whole(b, name, length);
    if (t || strncmp(name, prefix, length) != 0) return t;
    return cdz_tensors_find(&b->w->tensors, name + length);
}

/* A weight of bitsandbytes', laid as rows of outputs whatever the family does. */
static cdz_status bind_bnb(binder *b, const cdz_tensor *t, size_t n, size_t k, layout how,
                           cdz_weight *out)
{
    const cdz_bnb bnb = {&b->w->tensors, b->used, &b->w->tensors.arena, b->err};
    CDZ_TRY(cdz_bnb_read(&bnb, t, n, k, out));
    const size_t bytes = cdz_row_bytes(out->dtype, k) * n, heads = b->arch->n_heads;
    b->w->facts.n_parameters += (uint64_t)n * k;
    b->w->facts.bytes[out->dtype] += bytes;
    b->w->facts.n_copied++;
    if (how != HEAD_BY_HEAD) return CDZ_OK;
    char *parted = cdz_arena_alloc_aligned(&b->w->tensors.arena, bytes, 64);
    if (!parted) return no_memory(b->source, b->err);
    part_heads(parted, out->data, heads, bytes / heads / 3);
    out->data = parted;
    return CDZ_OK;
}

/* Ties out to the tensor of that name, of shape (n, k), or (n) when k is 0; (k, n) when it lies
 * transposed. */
static cdz_status bind_laid(binder *b, const char *name, size_t n, size_t k, layout how,
                            cdz_weight *out)
{
    const cdz_tensor *t = find(b, name);
    if (!t) return cdz_err(b->err, CDZ_E_INPUT, "%s: tensor %s is missing", b->source, name);
    if (k && cdz_bnb_is(&b->w->tensors, t)) return bind_bnb(b, t, n, k, how, out);
    const size_t rows = how == TRANSPOSED ? k : n, columns = how == TRANSPOSED ? n : k;
    if (t->n_dims != (k ? 2 : 1) || t->shape[0] != rows || (k && t->shape[1] != columns))
        return wrong_shape(b, t, rows, columns);
    cdz_dtype dtype;
    if (!cdz_tensor_dtype(t, &dtype))
        return cdz_err(b->err, CDZ_E_UNSUPPORTED,
                       "%s: tensor %s has dtype %s; supported are F32, F16, BF16, and of GGUF Q8_0, "
                       "Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K",
                       b->w->tensors.files[t->file].path, name, t->dtype);

    if (k == 0 && dtype >= CDZ_N_PLAIN)
        return cdz_err(b->err, CDZ_E_UNSUPPORTED,
                       "%s: tensor %s is a vector of %s; supported are F32, "
                       "F16, BF16",
                       b->w->tensors.files[t->file].path, name, t->dtype);

    *out = (cdz_weight){.dtype = dtype, .n = k ? n : 1, .k = k ? k : n};
    b->used[t - b->w->tensors.items] = true;
    b->w->facts.n_parameters += (uint64_t)out->n * out->k;
    b->w->facts.bytes[dtype] += t->n_bytes;
    if (how != AS_IT_IS) return lay_out(b, t, how, out);
    return align_data(b, t, dtype < CDZ_N_PLAIN ? cdz_dtype_bytes(dtype) : 1, &out->data);
}

static cdz_status bind_name(binder *b, const char *name, size_t n, size_t k, cdz_weight *out)
{
    return bind_laid(b, name, n, k, AS_IT_IS, out);
}

/* Which tensor: a part, of a layer, of an expert. */
typedef struct place {
    cdz_arch_part part;
    uint32_t layer, expert;
} place;

static const char *name_of(const binder *b, place at, const char *suffix, char *buf)
{
    return cdz_arch_tensor_name(b->arch, at.part, at.layer, at.expert, suffix, buf, NAME_BYTES);
}

/* What a family's norms leave out, made: n times the same number. */
static cdz_status make_vector(binder *b, size_t n, float value, cdz_weight *out)
{
    float *made = cdz_arena_alloc_aligned(&b->w->tensors.arena, n * sizeof *made, 64);
    if (!made) return no_memory(b->w->folder, b->err);
    for (size_t i = 0; i < n; i++) made[i] = value;
    *out = (cdz_weight){made, CDZ_F32, 1, n, CDZ_WEIGHT_ROWS};
    return CDZ_OK;
}

/* A layer norm's weight with the family's offset added: its kernel knows of none. */
static cdz_status offset_weight(binder *b, cdz_weight *w)
{
    float *made = cdz_arena_alloc_aligned(&b->w->tensors.arena, w->k * sizeof *made, 64);
    if (!made) return no_memory(b->w->folder, b->err);
    cdz_widen(w->dtype, made, w->data, w->k);
    for (size_t i = 0; i < w->k; i++) made[i] += b->arch->norm_offset;
    *w = (cdz_weight){made, CDZ_F32, 1, w->k, CDZ_WEIGHT_ROWS};
    b->w->facts.n_copied++;
    return CDZ_OK;
}

/* A norm that the family does not have stays without data. */
static cdz_status bind_norm(binder *b, cdz_arch_part part, uint32_t layer, size_t width,
                            cdz_norm *out)
{
    char name[NAME_BYTES];
    const place at = {part, layer, 0};
    const cdz_family *f = b->arch->family;
    if (!cdz_arch_has(b->arch, part)) return CDZ_OK;
    if (f->norm_no_weight)
        CDZ_TRY(make_vector(b, width, 1.0f, &out->w));
    else
        CDZ_TRY(bind_name(b, name_of(b, at, ".weight", name), width, 0, &out->w));
    if (b->arch->norm != CDZ_NORM_LAYER) return CDZ_OK;
    if (b->arch->norm_offset != 0.0f) CDZ_TRY(offset_weight(b, &out->w));
    if (f->norm_no_bias || f->norm_no_weight) return make_vector(b, width, 0.0f, &out->bias);
    return bind_name(b, name_of(b, at, ".bias", name), width, 0, &out->bias);
}

static cdz_status bind_linear(binder *b, place at, size_t n, size_t k, bool bias, cdz_linear *out)
{
    char name[NAME_BYTES];
    const cdz_arch *a = b->arch;
    const bool by_head = at.part == CDZ_PART_QKV && a->fused == CDZ_FUSED_HEADS;
    const layout how = by_head ? HEAD_BY_HEAD : AS_IT_IS;
    CDZ_TRY(
        bind_laid(b, name_of(b, at, ".weight", name), n, k, a->conv1d ? TRANSPOSED : how, &out->w));
    if (!bias) return CDZ_OK;
    return bind_laid(b, name_of(b, at, ".bias", name), n, 0, how, &out->bias);
}

/* Rows [from, from + n) of a fused tensor. */
static cdz_linear rows_of(const cdz_linear *whole, size_t from, size_t n)
{
    cdz_linear part = *whole;
    part.w.n = n;
    part.w.data = (const char *)whole->w.data + from * cdz_row_bytes(whole->w.dtype, whole->w.k);
    if (!whole->bias.data) return part;
    part.bias.k = n;
    part.bias.data = (const char *)whole->bias.data + cdz_row_bytes(whole->bias.dtype, from);
    return part;
}

/* --- layers -------------------------------------------------------------------------------- */

static cdz_status bind_attention(binder *b, uint32_t i, cdz_layer_weights *out)
{
    const cdz_arch *a = b->arch;
    const size_t hidden = a->hidden, d = a->head_dim;
    const size_t q = a->n_heads * d, kv = a->n_kv_heads * d;
    if (cdz_arch_has(a, CDZ_PART_QKV)) {
        cdz_linear all;
        memset(&all, 0, sizeof all);
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_QKV, i, 0}, q + 2 * kv, hidden, a->qkv_bias, &all));
        out->q = rows_of(&all, 0, q);
        out->k = rows_of(&all, q, kv);
        out->v = rows_of(&all, q + kv, kv);
    } else {
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_Q, i, 0}, q, hidden, a->qkv_bias, &out->q));
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_K, i, 0}, kv, hidden, a->qkv_bias, &out->k));
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_V, i, 0}, kv, hidden, a->qkv_bias, &out->v));
    }
    const bool whole = a->qk_norm == CDZ_QK_ALL, bare = a->family->qk_norm_bare;
    if (a->qk_norm != CDZ_QK_NONE && bare && cdz_arch_rope(a, i)) {
        CDZ_TRY(make_vector(b, d, 1.0f, &out->q_norm.w));
        out->k_norm = out->q_norm;
    }
    if (a->qk_norm != CDZ_QK_NONE && !bare) {
        CDZ_TRY(bind_norm(b, CDZ_PART_Q_NORM, i, whole ? q : d, &out->q_norm));
        CDZ_TRY(bind_norm(b, CDZ_PART_K_NORM, i, whole ? kv : d, &out->k_norm));
    }
    return bind_linear(b, (place){CDZ_PART_O, i, 0}, hidden, q, a->o_bias, &out->o);
}

/* As wide as the decoder's own attention. */
static cdz_status bind_cross(binder *b, uint32_t i, cdz_layer_weights *out)
{
    const cdz_arch *a = b->arch;
    const size_t hidden = a->hidden, q = (size_t)a->n_heads * a->head_dim;
    const size_t kv = (size_t)a->n_kv_heads * a->head_dim;
    const bool bias = a->qkv_bias;
    if (!a->encoder) return CDZ_OK;
    CDZ_TRY(bind_norm(b, CDZ_PART_CROSS_NORM, i, hidden, &out->cross_norm));
    CDZ_TRY(bind_linear(b, (place){CDZ_PART_CROSS_Q, i, 0}, q, hidden, bias, &out->cross_q));
    CDZ_TRY(bind_linear(b, (place){CDZ_PART_CROSS_K, i, 0}, kv, hidden, bias, &out->cross_k));
    CDZ_TRY(bind_linear(b, (place){CDZ_PART_CROSS_V, i, 0}, kv, hidden, bias, &out->cross_v));
    CDZ_TRY(bind_linear(b, (place){CDZ_PART_CROSS_O, i, 0}, hidden, q, a->o_bias, &out->cross_o));
    return bind_norm(b, CDZ_PART_CROSS_POST_NORM, i, hidden, &out->cross_post_norm);
}

static cdz_status bind_dense(binder *b, uint32_t i, cdz_feed_forward *out)
{
    const cdz_arch *a = b->arch;
    const size_t hidden = a->hidden, inner = a->intermediate;
    const bool bias = a->mlp_bias;
    if (cdz_arch_has(a, CDZ_PART_GATE_UP)) {
        cdz_linear both;
        memset(&both, 0, sizeof both);
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_GATE_UP, i, 0}, 2 * inner, hidden, bias, &both));
        out->gate = rows_of(&both, 0, inner);
        out->up = rows_of(&both, inner, inner);
    } else {
        if (cdz_arch_has(a, CDZ_PART_GATE))
            CDZ_TRY(bind_linear(b, (place){CDZ_PART_GATE, i, 0}, inner, hidden, bias, &out->gate));
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_UP, i, 0}, inner, hidden, bias, &out->up));
    }
    return bind_linear(b, (place){CDZ_PART_DOWN, i, 0}, hidden, inner, bias, &out->down);
}

/* (1, hidden), or (hidden) in GGUF. */
static cdz_status bind_shared_router(binder *b, uint32_t i, cdz_weight *out)
{
    char name[NAME_BYTES];
    name_of(b, (place){CDZ_PART_SHARED_ROUTER, i, 0}, ".weight", name);
    const cdz_tensor *t = find(b, name);
    const bool row = !t || t->n_dims == 2;
    return bind_name(b, name, row ? 1 : b->arch->hidden, row ? b->arch->hidden : 0, out);
}

/* The expert that every row goes to, and how much of it is taken. */
static cdz_status bind_shared(binder *b, uint32_t i, cdz_layer_weights *out)
{
    const cdz_arch *a = b->arch;
    const size_t hidden = a->hidden, inner = a->shared_intermediate;
    const bool bias = a->mlp_bias;
    cdz_feed_forward *f = &out->shared;
    if (inner == 0) return CDZ_OK;
    if (cdz_arch_has(a, CDZ_PART_SHARED_ROUTER))
        CDZ_TRY(bind_shared_router(b, i, &out->shared_router.w));
    CDZ_TRY(bind_linear(b, (place){CDZ_PART_SHARED_GATE, i, 0}, inner, hidden, bias, &f->gate));
    CDZ_TRY(bind_linear(b, (place){CDZ_PART_SHARED_UP, i, 0}, inner, hidden, bias, &f->up));
    return bind_linear(b, (place){CDZ_PART_SHARED_DOWN, i, 0}, hidden, inner, bias, &f->down);
}

/* (n_experts), or (1, n_experts), as float32 in the host's memory. */
static cdz_status bind_router_bias(binder *b, uint32_t i, const float **out)
{
    const size_t n = b->arch->n_experts;
    char name[NAME_BYTES];
    cdz_weight w = {0};
    if (!b->arch->router.biased) return CDZ_OK;
    name_of(b, (place){CDZ_PART_ROUTER_BIAS, i, 0}, "", name);
    const cdz_tensor *t = find(b, name);
    const bool row = t && t->n_dims == 2;
    CDZ_TRY(bind_name(b, name, row ? 1 : n, row ? n : 0, &w));
    if (w.dtype >= CDZ_N_PLAIN)
        return cdz_err(b->err, CDZ_E_UNSUPPORTED,
                       "%s: tensor %s is of %s; supported are F32, F16, BF16", b->source, name,
                       cdz_dtype_name(w.dtype));
    float *bias = cdz_arena_array(&b->w->arena, n, sizeof *bias);
    if (!bias) return no_memory(b->w->folder, b->err);
    cdz_widen(w.dtype, bias, w.data, n);
    *out = bias;
    return CDZ_OK;
}

/* What is (k, n) in the file, as (n, k) in memory of the model's own. */
static cdz_status turn_expert(binder *b, const cdz_tensor *t, size_t from, cdz_weight *w)
{
    const cdz_file *file = &b->w->tensors.files[t->file];
    const size_t bytes = w->n * cdz_row_bytes(w->dtype, w->k);
    char *as_stored = malloc(bytes ? bytes : 1);
    char *turned = cdz_arena_alloc_aligned(&b->w->tensors.arena, bytes, 64);
    const uint64_t offset = (uint64_t)((const char *)t->data - (const char *)file->data) + from;
    cdz_status st = as_stored && turned ? CDZ_OK : no_memory(file->path, b->err);
    if (st == CDZ_OK) st = cdz_file_read_at(file, offset, as_stored, bytes, b->err);
    if (st == CDZ_OK) transpose(turned, as_stored, w->n, w->k, cdz_dtype_bytes(w->dtype));
    free(as_stored);
    w->data = turned;
    return st;
}

/* One tensor (experts, n, k), or (experts, k, n) where the family's are transposed: out[e] is expert e's. */
static cdz_status bind_stack(binder *b, place at, size_t n, size_t k, cdz_weight *out)
{
    const cdz_arch *a = b->arch;
    const bool turned = a->family->routing->transposed;
    char name[NAME_BYTES], shape[128];
    cdz_dtype dtype;
    const void *data;
    name_of(b, at, "", name);
    const cdz_tensor *t = find(b, name);
    if (!t) return cdz_err(b->err, CDZ_E_INPUT, "%s: tensor %s is missing", b->source, name);
    const size_t rows = turned ? k : n, columns = turned ? n : k;
    if (t->n_dims != 3 || t->shape[0] != a->n_experts || t->shape[1] != rows ||
        t->shape[2] != columns)
        return cdz_err(
            b->err, CDZ_E_INPUT, "%s: tensor %s is %s, config.json makes it [%u, %zu, %zu]",
            b->w->tensors.files[t->file].path, name, cdz_tensor_shape_text(t, shape, sizeof shape),
            (unsigned)a->n_experts, rows, columns);
    if (!cdz_tensor_dtype(t, &dtype) || dtype >= CDZ_N_PLAIN)
        return cdz_err(b->err, CDZ_E_UNSUPPORTED,
                       "%s: tensor %s has dtype %s; supported are F32, F16, BF16",
                       b->w->tensors.files[t->file].path, name, t->dtype);
    const size_t each = (size_t)(t->n_bytes / a->n_experts);
    CDZ_TRY(align_data(b, t, cdz_dtype_bytes(dtype), &data));
    for (uint32_t e = 0; e < a->n_experts; e++) {
        out[e] = (cdz_weight){(const char *)data + e * each, dtype, n, k, CDZ_WEIGHT_ROWS};
        if (turned) CDZ_TRY(turn_expert(b, t, e * each, &out[e]));
    }
    b->used[t - b->w->tensors.items] = true;
    b->w->facts.n_copied += turned;
    b->w->facts.n_parameters += (uint64_t)a->n_experts * n * k;
    b->w->facts.bytes[dtype] += t->n_bytes;
    return CDZ_OK;
}

static cdz_status bind_stacks(binder *b, uint32_t i, cdz_layer_weights *out)
{
    const cdz_arch *a = b->arch;
    const size_t hidden = a->hidden, inner = a->expert_intermediate;
    cdz_weight *all = cdz_arena_array(&b->w->arena, (size_t)a->n_experts * 2, sizeof *all);
    if (!all) return no_memory(b->w->folder, b->err);
    CDZ_TRY(bind_stack(b, (place){CDZ_PART_EXPERTS_GATE_UP, i, 0}, 2 * inner, hidden, all));
    CDZ_TRY(bind_stack(b, (place){CDZ_PART_EXPERTS_DOWN, i, 0}, hidden, inner, all + a->n_experts));
    for (uint32_t e = 0; e < a->n_experts; e++) {
        const cdz_linear both = {.w = all[e]};
        out->experts[e].gate = rows_of(&both, 0, inner);
        out->experts[e].up = rows_of(&both, inner, inner);
        out->experts[e].down.w = all[a->n_experts + e];
    }
    return CDZ_OK;
}

static cdz_status bind_experts(binder *b, uint32_t i, cdz_layer_weights *out)
{
    const cdz_arch *a = b->arch;
    const size_t hidden = a->hidden, inner = a->expert_intermediate;
    out->experts = cdz_arena_array(&b->w->arena, a->n_experts, sizeof *out->experts);
    if (!out->experts) return no_memory(b->w->folder, b->err);
    CDZ_TRY(
        bind_linear(b, (place){CDZ_PART_ROUTER, i, 0}, a->n_experts, hidden, false, &out->router));
    CDZ_TRY(bind_router_bias(b, i, &out->router_bias));
    CDZ_TRY(bind_shared(b, i, out));
    if (cdz_arch_has(a, CDZ_PART_EXPERTS_GATE_UP)) return bind_stacks(b, i, out);
    for (uint32_t e = 0; e < a->n_experts; e++) {
        cdz_feed_forward *f = &out->experts[e];
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_EXPERT_GATE, i, e}, inner, hidden, false, &f->gate));
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_EXPERT_UP, i, e}, inner, hidden, false, &f->up));
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_EXPERT_DOWN, i, e}, hidden, inner, false, &f->down));
    }
    return CDZ_OK;
}

static cdz_status bind_layer(binder *b, uint32_t i, cdz_layer_weights *out)
{
    const cdz_arch *a = b->arch;
    CDZ_TRY(bind_norm(b, CDZ_PART_ATTN_NORM, i, a->hidden, &out->attn_norm));
    CDZ_TRY(bind_attention(b, i, out));
    CDZ_TRY(bind_norm(b, CDZ_PART_ATTN_POST_NORM, i, a->hidden, &out->attn_post_norm));
    CDZ_TRY(bind_cross(b, i, out));
    CDZ_TRY(bind_norm(b, CDZ_PART_MLP_NORM, i, a->hidden, &out->mlp_norm));
    CDZ_TRY(a->sparse[i] ? bind_experts(b, i, out) : bind_dense(b, i, &out->mlp));
    return bind_norm(b, CDZ_PART_MLP_POST_NORM, i, a->hidden, &out->mlp_post_norm);
}

/* The embedding's tensor: under its own name, or another that older files give it. */
static const char *embedding_name(const binder *b, char *buf)
{
    const char *const *alias = b->arch->family->embed_aliases;
    name_of(b, (place){CDZ_PART_EMBED, 0, 0}, ".weight", buf);
    for (; alias && *alias && !find(b, buf); alias++)
        snprintf(buf, NAME_BYTES, "%s.weight", *alias);
    return find(b, buf) ? buf : name_of(b, (place){CDZ_PART_EMBED, 0, 0}, ".weight", buf);
}

/* Embedding and head. Where config.json ties them, one tensor serves as both, whichever the file
 * has; when it has both they stay two, as in transformers 5 (tie_weights). */
static cdz_status bind_ends(binder *b)
{
    cdz_weights *w = b->w;
    const cdz_arch *a = &w->arch;
    char embed[NAME_BYTES], head[NAME_BYTES];
    embedding_name(b, embed);
    name_of(b, (place){CDZ_PART_HEAD, 0, 0}, ".weight", head);
    const bool has_embed = find(b, embed), has_head = find(b, head);
    w->tied = a->tied && !(has_embed && has_head);
    if (!w->tied) {
        CDZ_TRY(bind_name(b, embed, a->n_vocab, a->hidden, &w->embed));
        return bind_name(b, head, a->n_vocab, a->hidden, &w->head.w);
    }
    CDZ_TRY(bind_name(b, has_head ? head : embed, a->n_vocab, a->hidden, &w->embed));
    w->head.w = w->embed;
    return CDZ_OK;
}

/* (n_vocab), or (1, n_vocab) in the file, which may leave it out: then it is zero. */
static cdz_status bind_head_bias(binder *b)
{
    char name[NAME_BYTES];
    if (!cdz_arch_has(b->arch, CDZ_PART_HEAD_BIAS)) return CDZ_OK;
    name_of(b, (place){CDZ_PART_HEAD_BIAS, 0, 0}, "", name);
    if (!find(b, name)) return CDZ_OK;
    const size_t n = b->arch->n_vocab;
    if (find(b, name)->n_dims == 1) return bind_name(b, name, n, 0, &b->w->head.bias);
    CDZ_TRY(bind_name(b, name, 1, n, &b->w->head.bias));
    b->w->facts.n_parameters -= n; /* a buffer there */
    return CDZ_OK;
}

/* Sines in the first half of a row, cosines in the second: MarianSinusoidalPositionalEmbedding. */
static cdz_status make_positions(binder *b, cdz_weight *out)
{
    const size_t n = b->arch->context, dim = b->arch->hidden, half = (dim + 1) / 2;
    if (n > MOST_POSITIONS_BYTES / sizeof(float) / dim)
        return cdz_err(b->err, CDZ_E_UNSUPPORTED,
                       "%s: max_position_embeddings %zu is not supported; the table of positions "
                       "may have %d MiB",
                       b->w->folder, n, MOST_POSITIONS_BYTES >> 20);
    float *table = cdz_arena_alloc_aligned(&b->w->tensors.arena, n * dim * sizeof *table, 64);
    if (!table) return no_memory(b->w->folder, b->err);
    for (size_t j = 0; j < dim; j++) {
        const bool sine = j < half;
        const size_t k = sine ? 2 * j : 2 * (j - half) + 1;
        const double wave = pow(10000.0, (double)(k - k % 2) / (double)dim);
        for (size_t p = 0; p < n; p++) {
            const double angle = (double)p / wave;
            table[p * dim + j] = (float)(sine ? sin(angle) : cos(angle));
        }
    }
    *out = (cdz_weight){table, CDZ_F32, n, dim, CDZ_WEIGHT_ROWS};
    return CDZ_OK;
}

static cdz_status bind_positions(binder *b, cdz_weight *out)
{
    const cdz_arch *a = b->arch;
    char name[NAME_BYTES];
    if (!cdz_arch_has_positions(a)) return CDZ_OK;
    if (!cdz_arch_positions_learned(a)) return make_positions(b, out);
    return bind_name(b, name_of(b, (place){CDZ_PART_POSITIONS, 0, 0}, ".weight", name),
                     (size_t)a->position_offset + a->context, a->hidden, out);
}

static cdz_status bind_relative(binder *b, cdz_weight *out)
{
    char name[NAME_BYTES];
    if (!cdz_arch_has(b->arch, CDZ_PART_RELATIVE)) return CDZ_OK;
    return bind_name(b, name_of(b, (place){CDZ_PART_RELATIVE, 0, 0}, ".weight", name),
                     b->arch->n_buckets, b->arch->n_heads, out);
}

static cdz_status bind_layers(binder *b, cdz_layer_weights **out)
{
    *out = cdz_arena_array(&b->w->arena, b->arch->n_layers, sizeof **out);
    if (!*out) return no_memory(b->w->folder, b->err);
    for (uint32_t i = 0; i < b->arch->n_layers; i++) CDZ_TRY(bind_layer(b, i, &(*out)[i]));
    return CDZ_OK;
}

/* b->arch is the encoder. */
static cdz_status bind_encoder(binder *b)
{
    const cdz_arch *a = b->arch;
    cdz_encoder_weights *e = &b->w->encoder;
    char name[NAME_BYTES];
    e->embed = b->w->embed;
    if (cdz_arch_has(a, CDZ_PART_EMBED))
        CDZ_TRY(bind_name(b, name_of(b, (place){CDZ_PART_EMBED, 0, 0}, ".weight", name), a->n_vocab,
                          a->hidden, &e->embed));
    e->positions = b->w->positions; /* a computed table serves both */
    if (cdz_arch_positions_learned(a)) CDZ_TRY(bind_positions(b, &e->positions));
    CDZ_TRY(bind_relative(b, &e->relative));
    CDZ_TRY(bind_norm(b, CDZ_PART_EMBED_NORM, 0, a->hidden, &e->embed_norm));
    CDZ_TRY(bind_norm(b, CDZ_PART_FINAL_NORM, 0, a->hidden, &e->final_norm));
    return bind_layers(b, &e->layers);
}

static void count_unexpected(binder *b)
{
    const cdz_tensors *set = &b->w->tensors;
    for (size_t i = 0; i < set->n_items; i++) {
        if (b->used[i] || cdz_arch_tensor_is_harmless(&b->w->arch, set->items[i].name)) continue;
        if (b->w->facts.n_unexpected++ == 0) b->w->facts.first_unexpected = set->items[i].name;
    }
}

static cdz_status bind_all(binder *b)
{
    cdz_weights *w = b->w;
    const cdz_arch *a = &w->arch;
    b->arch = a;
    CDZ_TRY(bind_ends(b));
    CDZ_TRY(bind_head_bias(b));
    CDZ_TRY(bind_positions(b, &w->positions));
    CDZ_TRY(bind_relative(b, &w->relative));
    CDZ_TRY(bind_norm(b, CDZ_PART_EMBED_NORM, 0, a->hidden, &w->embed_norm));
    CDZ_TRY(bind_norm(b, CDZ_PART_FINAL_NORM, 0, a->hidden, &w->final_norm));
    CDZ_TRY(bind_layers(b, &w->layers));
    if (a->encoder) {
        b->arch = a->encoder;
        CDZ_TRY(bind_encoder(b));
    }
    count_unexpected(b);
    return CDZ_OK;
}

cdz_status cdz_weights_bind(cdz_weights *w, const char *source, cdz_error *err)
{
    binder b = {.w = w, .source = source, .err = err};
    b.used = calloc(w->tensors.n_items + 1, sizeof *b.used);
    const cdz_status st = b.used ? bind_all(&b) : no_memory(w->folder, err);
    free(b.used);
    return st;
}
