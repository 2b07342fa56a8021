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
#include "load/fp8.h"
#include "load/mxfp4.h"

enum { NAME_BYTES = 256, MOST_POSITIONS_BYTES = 32 << 20 };

/* What tying one model's weights works on. */
typedef struct binder {
    cdz_weights *w;
    const cdz_arch *arch; /* the stack that is bound */
    const char *source;   /* the weight file, or the index of the shards */
    bool *used;           /* by tensor */
    cdz_error *err;
} binder;

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
    if (!copy) return cdz_err_memory_in(b->err, file->path);
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

/* Groups that have so many bytes of each part: all of the first part, of the second, and so on. */
static void gather_parts(char *to, const char *from, size_t groups, const size_t *bytes,
                         size_t n_parts)
{
    for (size_t g = 0; g < groups; g++) {
        char *part = to;
        for (size_t p = 0; p < n_parts; p++) {
            memcpy(part + g * bytes[p], from, bytes[p]);
            from += bytes[p];
            part += groups * bytes[p];
        }
    }
}

/* Queries, keys and values that lie group by group (cdz_fused), brought apart. */
static void part_heads(const cdz_arch *a, char *to, const char *from, size_t n_bytes)
{
    const bool quarters = a->fused == CDZ_FUSED_QUARTERS;
    const size_t head = n_bytes / ((size_t)a->n_heads + 2 * (size_t)a->n_kv_heads);
    const size_t groups = quarters ? 4 : a->n_kv_heads, queries = a->n_heads / groups;
    const size_t others = (quarters ? queries : 1) * head;
    gather_parts(to, from, groups, (const size_t[]){queries * head, others, others}, 3);
}

/* Replaces out's data by a copy laid as rows of outputs. */
static cdz_status lay_out(binder *b, const cdz_tensor *t, layout how, cdz_weight *out)
{
    const cdz_file *file = &b->w->tensors.files[t->file];
    const size_t n_bytes = (size_t)t->n_bytes;
    char *as_stored = malloc(n_bytes ? n_bytes : 1);
    char *copy = cdz_arena_alloc_aligned(&b->w->tensors.arena, n_bytes, 64);
    cdz_status st = as_stored && copy ? CDZ_OK : cdz_err_memory_in(b->err, file->path);
    const uint64_t offset = (uint64_t)((const char *)t->data - (const char *)file->data);
    if (st == CDZ_OK) st = cdz_file_read_at(file, offset, as_stored, n_bytes, b->err);
    if (st == CDZ_OK && how == TRANSPOSED)
        transpose(copy, as_stored, out->n, out->k, cdz_dtype_bytes(out->dtype));
    if (st == CDZ_OK && how == HEAD_BY_HEAD) part_heads(b->arch, copy, as_stored, n_bytes);
    free(as_stored);
    out->data = copy;
    b->w->facts.n_copied++;
    return st;
}

/* --- names --------------------------------------------------------------------------------- */

/* In a model of several parts the text part's names have another beginning: "language_model.model.norm" or
 * "model.language_model.norm"; files of the text part alone may keep it. */
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
    if (!t) t = find_in_whole(b, name, length);
    if (t || strncmp(name, prefix, length) != 0) return t;
    return cdz_tensors_find(&b->w->tensors, name + length);
}

static cdz_fp8 fp8_of(const binder *b)
{
    return (cdz_fp8){.tensors = &b->w->tensors,
                     .used = b->used,
                     .arena = &b->w->tensors.arena,
                     .block_rows = b->arch->fp8_block.rows,
                     .block_columns = b->arch->fp8_block.columns,
                     .err = b->err};
}

static cdz_status read_fp8(binder *b, const cdz_tensor *t, size_t n, size_t k, cdz_weight *out)
{
    const cdz_fp8 fp8 = fp8_of(b);
    if (t->n_dims != 2 || t->shape[0] != n || t->shape[1] != k) return wrong_shape(b, t, n, k);
    return cdz_fp8_read(&fp8, t, n, k, out);
}

/* A weight of bitsandbytes', or of float8, laid as rows of outputs whatever the family does. */
static cdz_status bind_packed(binder *b, const cdz_tensor *t, size_t n, size_t k, layout how,
                              cdz_weight *out)
{
    const cdz_bnb bnb = {&b->w->tensors, b->used, &b->w->tensors.arena, b->err};
    CDZ_TRY(cdz_fp8_is(t) ? read_fp8(b, t, n, k, out) : cdz_bnb_read(&bnb, t, n, k, out));
    const size_t bytes = cdz_row_bytes(out->dtype, k) * n;
    b->w->facts.n_parameters += (uint64_t)n * k;
    b->w->facts.bytes[out->dtype] += bytes;
    b->w->facts.n_copied++;
    if (how != HEAD_BY_HEAD) return CDZ_OK;
    char *parted = cdz_arena_alloc_aligned(&b->w->tensors.arena, bytes, 64);
    if (!parted) return cdz_err_memory_in(b->err, b->source);
    part_heads(b->arch, parted, out->data, bytes);
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
    if (k && (cdz_fp8_is(t) || cdz_bnb_is(&b->w->tensors, t)))
        return bind_packed(b, t, n, k, how, out);
    const size_t rows = how == TRANSPOSED ? k : n, columns = how == TRANSPOSED ? n : k;
    if (t->n_dims != (k ? 2 : 1) || t->shape[0] != rows || (k && t->shape[1] != columns))
        return wrong_shape(b, t, rows, columns);
    cdz_dtype dtype;
    if (!cdz_tensor_dtype(t, &dtype))
        return cdz_err(b->err, CDZ_E_UNSUPPORTED,
                       "%s: tensor %s has dtype %s; supported are F32, F16, BF16, and of GGUF Q8_0, "
                       "Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, MXFP4, IQ4_NL, IQ4_XS",
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
    if (!made) return cdz_err_memory_in(b->err, b->w->folder);
    for (size_t i = 0; i < n; i++) made[i] = value;
    *out = (cdz_weight){made, CDZ_F32, 1, n, CDZ_WEIGHT_ROWS};
    return CDZ_OK;
}

/* A layer norm's weight with the family's offset added: its kernel knows of none. */
static cdz_status offset_weight(binder *b, cdz_weight *w)
{
    float *made = cdz_arena_alloc_aligned(&b->w->tensors.arena, w->k * sizeof *made, 64);
    if (!made) return cdz_err_memory_in(b->err, b->w->folder);
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
    const bool by_head = at.part == CDZ_PART_QKV && a->fused != CDZ_FUSED_PARTS;
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

/* (rows, n); of one row also (n) or (n, 1). As float32 in the host's memory. */
static cdz_status bind_floats(binder *b, place at, const char *suffix, size_t rows, size_t n,
                              float **out)
{
    char name[NAME_BYTES];
    cdz_weight w = {0};
    name_of(b, at, suffix, name);
    const cdz_tensor *t = find(b, name);
    const bool one = rows == 1, flat = one && (!t || t->n_dims != 2),
               column = one && !flat && n > 1 && t->shape[1] == 1;
    CDZ_TRY(bind_name(b, name, flat || column ? n : rows, flat ? 0 : column ? 1 : n, &w));
    if (w.dtype >= CDZ_N_PLAIN)
        return cdz_err(b->err, CDZ_E_UNSUPPORTED,
                       "%s: tensor %s is of %s; supported are F32, F16, BF16", b->source, name,
                       cdz_dtype_name(w.dtype));
    float *wide = cdz_arena_array(&b->w->arena, rows * n, sizeof *wide);
    if (!wide) return cdz_err_memory_in(b->err, b->w->folder);
    cdz_widen(w.dtype, wide, w.data, rows * n);
    *out = wide;
    return CDZ_OK;
}

/* --- latent attention ---------------------------------------------------------------------- */

/* Float8 blocks stay, where a block's rows have one factor. */
static bool turn_fp8(binder *b, const cdz_weight *from, cdz_weight *out)
{
    if (from->dtype != CDZ_FP8) return false;
    const size_t bytes = from->k * cdz_row_bytes(CDZ_FP8, from->n);
    char *turned = cdz_arena_alloc_aligned(&b->w->tensors.arena, bytes, 64);
    *out = (cdz_weight){turned, CDZ_FP8, from->k, from->n, CDZ_WEIGHT_ROWS};
    return turned && cdz_fp8_turn(from, turned);
}

/* A map transposed, in memory of the model's own; other blocks become float32. */
static cdz_status turn_map(binder *b, const cdz_weight *from, cdz_weight *out)
{
    if (turn_fp8(b, from, out)) return CDZ_OK;
    const bool plain = from->dtype < CDZ_N_PLAIN;
    const cdz_dtype dtype = plain ? from->dtype : CDZ_F32;
    const size_t n = from->n, k = from->k, bytes = n * k * cdz_dtype_bytes(dtype);
    char *turned = cdz_arena_alloc_aligned(&b->w->tensors.arena, bytes, 64);
    float *wide = plain ? NULL : malloc(bytes ? bytes : 1);
    if (!turned || (!plain && !wide)) {
        free(wide);
        return cdz_err_memory_in(b->err, b->w->folder);
    }
    for (size_t j = 0; j < n && wide; j++)
        cdz_widen(from->dtype, wide + j * k,
                  (const char *)from->data + j * cdz_row_bytes(from->dtype, k), k);
    transpose(turned, wide ? (const char *)wide : from->data, k, n, cdz_dtype_bytes(dtype));
    free(wide);
    *out = (cdz_weight){turned, dtype, k, n, CDZ_WEIGHT_ROWS};
    return CDZ_OK;
}

/* A tensor of GGUF's, (heads, n, k). */
static cdz_status bind_heads(binder *b, place at, size_t n, size_t k, cdz_linear *out)
{
    const uint32_t heads = b->arch->n_heads;
    char name[NAME_BYTES], shape[128];
    cdz_dtype dtype;
    name_of(b, at, ".weight", name);
    const cdz_tensor *t = find(b, name);
    if (!t || t->n_dims != 3 || t->shape[0] != heads || t->shape[1] != n || t->shape[2] != k ||
        !cdz_tensor_dtype(t, &dtype))
        return cdz_err(b->err, CDZ_E_INPUT,
                       "%s: tensor %s is %s, its metadata makes it [%u, %zu, %zu]", b->source, name,
                       t ? cdz_tensor_shape_text(t, shape, sizeof shape) : "missing",
                       (unsigned)heads, n, k);
    const void *data;
    CDZ_TRY(align_data(b, t, dtype < CDZ_N_PLAIN ? cdz_dtype_bytes(dtype) : 1, &data));
    for (uint32_t h = 0; h < heads; h++)
        out[h].w = (cdz_weight){(const char *)data + h * n * cdz_row_bytes(dtype, k), dtype, n, k,
                                CDZ_WEIGHT_ROWS};
    b->used[t - b->w->tensors.items] = true;
    b->w->facts.n_parameters += (uint64_t)heads * n * k;
    b->w->facts.bytes[dtype] += t->n_bytes;
    return CDZ_OK;
}

/* From one tensor that has of each head the keys' rows, then the values'; or from the two that GGUF makes of it. */
static cdz_status bind_ups(binder *b, uint32_t i, cdz_latent_weights *l)
{
    const cdz_arch *a = b->arch;
    const size_t n = a->latent.plain, v = a->latent.value, rank = a->latent.kv_rank;
    char name[NAME_BYTES];
    if (cdz_arch_has(a, CDZ_PART_K_B) &&
        find(b, name_of(b, (place){CDZ_PART_K_B, i, 0}, ".weight", name))) {
        CDZ_TRY(bind_heads(b, (place){CDZ_PART_K_B, i, 0}, rank, n, l->k_up));
        return bind_heads(b, (place){CDZ_PART_V_B, i, 0}, v, rank, l->v_up);
    }
    cdz_linear both;
    memset(&both, 0, sizeof both);
    CDZ_TRY(bind_linear(b, (place){CDZ_PART_KV_B, i, 0}, a->n_heads * (n + v), rank, false, &both));
    for (size_t h = 0; h < a->n_heads; h++) {
        const cdz_linear keys = rows_of(&both, h * (n + v), n);
        CDZ_TRY(turn_map(b, &keys.w, &l->k_up[h].w));
        l->v_up[h] = rows_of(&both, h * (n + v) + n, v);
    }
    b->w->facts.n_copied++;
    return CDZ_OK;
}

static cdz_status bind_latent_queries(binder *b, uint32_t i, cdz_latent_weights *l)
{
    const cdz_arch *a = b->arch;
    const cdz_latent *sizes = &a->latent;
    const size_t each = (size_t)sizes->plain + sizes->rotated, hidden = a->hidden;
    const size_t k = sizes->q_rank ? sizes->q_rank : hidden;
    cdz_linear all;
    memset(&all, 0, sizeof all);
    if (sizes->q_rank) {
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_Q_A, i, 0}, k, hidden, a->qkv_bias, &l->q_a));
        CDZ_TRY(bind_norm(b, CDZ_PART_Q_A_NORM, i, k, &l->q_a_norm));
    }
    const cdz_arch_part part = sizes->q_rank ? CDZ_PART_Q_B : CDZ_PART_Q;
    CDZ_TRY(bind_linear(b, (place){part, i, 0}, a->n_heads * each, k, false, &all));
    for (size_t h = 0; h < a->n_heads; h++) {
        l->q_plain[h] = rows_of(&all, h * each, sizes->plain);
        l->q_rotated[h] = rows_of(&all, h * each + sizes->plain, sizes->rotated);
    }
    return CDZ_OK;
}

static cdz_status bind_latent(binder *b, uint32_t i, cdz_layer_weights *out)
{
    const cdz_arch *a = b->arch;
    const size_t H = a->n_heads, hidden = a->hidden;
    cdz_latent_weights *l = cdz_arena_array(&b->w->arena, 1, sizeof *l);
    cdz_linear *heads = cdz_arena_array(&b->w->arena, 4 * H, sizeof *heads);
    if (!l || !heads) return cdz_err_memory_in(b->err, b->w->folder);
    *l = (cdz_latent_weights){
        .q_plain = heads, .q_rotated = heads + H, .k_up = heads + 2 * H, .v_up = heads + 3 * H};
    out->latent = l;
    CDZ_TRY(bind_latent_queries(b, i, l));
    CDZ_TRY(
        bind_linear(b, (place){CDZ_PART_KV_A, i, 0}, a->head_dim, hidden, a->qkv_bias, &l->kv_a));
    CDZ_TRY(bind_norm(b, CDZ_PART_KV_A_NORM, i, a->latent.kv_rank, &l->kv_a_norm));
    CDZ_TRY(bind_ups(b, i, l));
    return bind_linear(b, (place){CDZ_PART_O, i, 0}, hidden, H * a->latent.value, a->o_bias,
                       &out->o);
}

/* --- layers -------------------------------------------------------------------------------- */

/* Rows that lie group by group, each with so many of every part, brought to where each part's lie together. */
static cdz_status part_groups(binder *b, cdz_linear *l, size_t groups, const size_t *rows,
                              size_t n_parts)
{
    enum { MOST = 4 };
    const size_t row = cdz_row_bytes(l->w.dtype, l->w.k);
    size_t bytes[MOST];
    char *copy = cdz_arena_alloc_aligned(&b->w->tensors.arena, l->w.n * row, 64);
    if (!copy) return cdz_err_memory_in(b->err, b->source);
    for (size_t p = 0; p < n_parts && p < MOST; p++) bytes[p] = rows[p] * row;
    gather_parts(copy, l->w.data, groups, bytes, n_parts < MOST ? n_parts : MOST);
    l->w.data = copy;
    b->w->facts.n_copied++;
    return CDZ_OK;
}

/* Queries, and their gates where a head's follow its queries. */
static cdz_status bind_queries(binder *b, uint32_t i, size_t q, cdz_layer_weights *out)
{
    const cdz_arch *a = b->arch;
    const place at = {CDZ_PART_Q, i, 0};
    const size_t rows[] = {a->head_dim, a->head_dim};
    cdz_linear both;
    if (!a->attention_gate) return bind_linear(b, at, q, a->hidden, a->qkv_bias, &out->q);
    memset(&both, 0, sizeof both);
    if (a->qkv_bias)
        return cdz_err(b->err, CDZ_E_UNSUPPORTED,
                       "%s: attention_bias true with gated attention is not supported", b->source);
    CDZ_TRY(bind_linear(b, at, 2 * q, a->hidden, false, &both));
    CDZ_TRY(part_groups(b, &both, a->n_heads, rows, 2));
    out->q = rows_of(&both, 0, q);
    out->q_gate = rows_of(&both, q, q);
    return CDZ_OK;
}

static cdz_status bind_sinks(binder *b, uint32_t i, const float **out)
{
    float *sinks = NULL;
    if (!cdz_arch_has(b->arch, CDZ_PART_SINKS)) return CDZ_OK;
    CDZ_TRY(bind_floats(b, (place){CDZ_PART_SINKS, i, 0}, "", 1, b->arch->n_heads, &sinks));
    *out = sinks;
    return CDZ_OK;
}

/* Norms of heads with weights of their own, side by side: each in a tensor, or all in one (heads, head_dim). */
static cdz_status bind_head_norms(binder *b, cdz_arch_part part, uint32_t i, uint32_t heads,
                                  cdz_norm *out)
{
    const size_t d = b->arch->head_dim, width = heads * d;
    char name[NAME_BYTES];
    CDZ_TRY(make_vector(b, width, 0.0f, &out->bias));
    if (!strchr(b->arch->names[part], '@')) {
        CDZ_TRY(bind_name(b, name_of(b, (place){part, i, 0}, ".weight", name), heads, d, &out->w));
        out->w.n = 1;
        out->w.k = width;
        return CDZ_OK;
    }
    float *all = cdz_arena_alloc_aligned(&b->w->tensors.arena, width * sizeof *all, 64);
    if (!all) return cdz_err_memory_in(b->err, b->w->folder);
    for (uint32_t h = 0; h < heads; h++) {
        cdz_weight one;
        CDZ_TRY(bind_name(b, name_of(b, (place){part, i, h}, ".weight", name), d, 0, &one));
        cdz_widen(one.dtype, all + h * d, one.data, d);
    }
    out->w = (cdz_weight){all, CDZ_F32, 1, width, CDZ_WEIGHT_ROWS};
    return CDZ_OK;
}

static cdz_status bind_qk_norms(binder *b, uint32_t i, cdz_layer_weights *out)
{
    const cdz_arch *a = b->arch;
    const size_t d = a->head_dim;
    const bool whole = a->qk_norm == CDZ_QK_ALL, bare = a->family->qk_norm_bare;
    if (a->qk_norm == CDZ_QK_NONE || (bare && !cdz_arch_rope(a, i))) return CDZ_OK;
    if (bare) {
        CDZ_TRY(make_vector(b, d, 1.0f, &out->q_norm.w));
        out->k_norm = out->q_norm;
        return CDZ_OK;
    }
    if (a->qk_norm == CDZ_QK_EACH) {
        CDZ_TRY(bind_head_norms(b, CDZ_PART_Q_NORM, i, a->n_heads, &out->q_norm));
        return bind_head_norms(b, CDZ_PART_K_NORM, i, a->n_kv_heads, &out->k_norm);
    }
    CDZ_TRY(bind_norm(b, CDZ_PART_Q_NORM, i, whole ? a->n_heads * d : d, &out->q_norm));
    return bind_norm(b, CDZ_PART_K_NORM, i, whole ? a->n_kv_heads * d : d, &out->k_norm);
}

/* Of a layer that uses another's keys: those that files have all the same are not read. */
static void pass_over_keys(binder *b, uint32_t i)
{
    static const cdz_arch_part parts[] = {CDZ_PART_K, CDZ_PART_V, CDZ_PART_K_NORM};
    static const char *const suffixes[] = {".weight", ".bias"};
    char name[NAME_BYTES];
    for (size_t p = 0; p < 3; p++)
        for (size_t s = 0; s < 2; s++) {
            const cdz_tensor *t = find(b, name_of(b, (place){parts[p], i, 0}, suffixes[s], name));
            if (t) b->used[t - b->w->tensors.items] = true;
        }
}

static cdz_status bind_attention(binder *b, uint32_t i, cdz_layer_weights *out)
{
    const cdz_arch *a = b->arch;
    if (a->latent.kv_rank) return bind_latent(b, i, out);
    const size_t hidden = a->hidden, d = a->head_dim;
    const size_t q = a->n_heads * d, kv = a->n_kv_heads * d;
    if (a->streams.n) CDZ_TRY(make_vector(b, d, 1.0f, &out->v_norm.w));
    if (i + a->n_kv_shared >= a->n_layers) {
        pass_over_keys(b, i);
        CDZ_TRY(bind_queries(b, i, q, out));
        CDZ_TRY(bind_norm(b, CDZ_PART_Q_NORM, i, d, &out->q_norm));
        return bind_linear(b, (place){CDZ_PART_O, i, 0}, hidden, q, a->o_bias, &out->o);
    }
    if (cdz_arch_has(a, CDZ_PART_QKV)) {
        cdz_linear all;
        memset(&all, 0, sizeof all);
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_QKV, i, 0}, q + 2 * kv, hidden, a->qkv_bias, &all));
        out->q = rows_of(&all, 0, q);
        const bool values_first = a->fused == CDZ_FUSED_QUARTERS;
        out->k = rows_of(&all, values_first ? q + kv : q, kv);
        out->v = rows_of(&all, values_first ? q : q + kv, kv);
    } else {
        CDZ_TRY(bind_queries(b, i, q, out));
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_K, i, 0}, kv, hidden, a->qkv_bias, &out->k));
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_V, i, 0}, kv, hidden, a->qkv_bias, &out->v));
    }
    CDZ_TRY(bind_qk_norms(b, i, out));
    CDZ_TRY(bind_sinks(b, i, &out->sinks));
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

/* log(1 + e^x) */
static float softplus(float x)
{
    return (float)(x > 20.0f ? (double)x : log1p(exp((double)x)));
}

/* A number that xielu has in a layer, of shape (1) or (); one that is not required stays as it is where the file lacks it. */
static cdz_status bind_number(binder *b, uint32_t i, const char *suffix, bool required, float *out)
{
    char name[NAME_BYTES], shape[128];
    cdz_dtype dtype;
    const cdz_tensor *t = find(b, name_of(b, (place){CDZ_PART_XIELU, i, 0}, suffix, name));
    const void *data;
    if (!t && !required) return CDZ_OK;
    if (!t) return cdz_err(b->err, CDZ_E_INPUT, "%s: tensor %s is missing", b->source, name);
    const bool one = t->n_dims == 0 || (t->n_dims == 1 && t->shape[0] == 1);
    if (!one || !cdz_tensor_dtype(t, &dtype) || dtype >= CDZ_N_PLAIN)
        return cdz_err(b->err, CDZ_E_INPUT,
                       "%s: tensor %s is %s of %s, expected one number in F32, F16 or BF16",
                       b->w->tensors.files[t->file].path, name,
                       cdz_tensor_shape_text(t, shape, sizeof shape), t->dtype);
    CDZ_TRY(align_data(b, t, cdz_dtype_bytes(dtype), &data));
    cdz_widen(dtype, out, data, 1);
    b->used[t - b->w->tensors.items] = true;
    b->w->facts.n_parameters += required;
    return CDZ_OK;
}

/* The file has what a softplus makes positive. */
static cdz_status bind_xielu(binder *b, uint32_t i, cdz_xielu *out)
{
    cdz_xielu x = {.both = 0.5f};
    if (b->arch->activation != CDZ_ACT_XIELU) return CDZ_OK;
    if (b->arch->xielu) {
        x = b->arch->xielu[i];
    } else {
        CDZ_TRY(bind_number(b, i, ".alpha_p", true, &x.above));
        CDZ_TRY(bind_number(b, i, ".alpha_n", true, &x.below));
        CDZ_TRY(bind_number(b, i, ".beta", false, &x.both));
    }
    *out = (cdz_xielu){softplus(x.above), x.both + softplus(x.below), x.both};
    return CDZ_OK;
}

static cdz_status bind_dense(binder *b, uint32_t i, cdz_feed_forward *out)
{
    const cdz_arch *a = b->arch;
    const size_t hidden = a->hidden, inner = a->intermediate;
    const bool bias = a->mlp_bias;
    CDZ_TRY(bind_xielu(b, i, &out->xielu));
    if (a->streams.n && isfinite(a->streams.cut[i])) out->cut = &a->streams.cut[i];
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
    if (cdz_arch_has(a, CDZ_PART_SHARED_GATE_UP)) {
        cdz_linear both;
        memset(&both, 0, sizeof both);
        CDZ_TRY(
            bind_linear(b, (place){CDZ_PART_SHARED_GATE_UP, i, 0}, 2 * inner, hidden, bias, &both));
        f->gate = rows_of(&both, 0, inner);
        f->up = rows_of(&both, inner, inner);
    } else {
        if (cdz_arch_has(a, CDZ_PART_SHARED_GATE))
            CDZ_TRY(
                bind_linear(b, (place){CDZ_PART_SHARED_GATE, i, 0}, inner, hidden, bias, &f->gate));
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_SHARED_UP, i, 0}, inner, hidden, bias, &f->up));
    }
    return bind_linear(b, (place){CDZ_PART_SHARED_DOWN, i, 0}, hidden, inner, bias, &f->down);
}

static cdz_status bind_router_bias(binder *b, uint32_t i, const float **out)
{
    float *bias = NULL;
    if (!b->arch->router.biased) return CDZ_OK;
    CDZ_TRY(bind_floats(b, (place){CDZ_PART_ROUTER_BIAS, i, 0}, "", 1, b->arch->n_experts, &bias));
    *out = bias;
    return CDZ_OK;
}

/* Rows that alternate, gate's and up's: gate's first. */
static void part_pairs(char *to, const char *from, size_t n, size_t row_bytes)
{
    for (size_t j = 0; j < n; j++)
        memcpy(to + (j % 2 * (n / 2) + j / 2) * row_bytes, from + j * row_bytes, row_bytes);
}

/* What is (k, n) in the file, as (n, k) in memory of the model's own; paired: its rows alternate. */
static cdz_status turn_expert(binder *b, const cdz_tensor *t, size_t from, bool paired,
                              cdz_weight *w)
{
    const cdz_file *file = &b->w->tensors.files[t->file];
    const size_t row = cdz_row_bytes(w->dtype, w->k), bytes = w->n * row;
    char *as_stored = malloc(bytes ? bytes : 1),
         *alternating = paired ? malloc(bytes ? bytes : 1) : NULL;
    char *turned = cdz_arena_alloc_aligned(&b->w->tensors.arena, bytes, 64);
    const uint64_t offset = (uint64_t)((const char *)t->data - (const char *)file->data) + from;
    const bool room = as_stored && turned && (alternating || !paired);
    cdz_status st = room ? CDZ_OK : cdz_err_memory_in(b->err, file->path);
    if (st == CDZ_OK) st = cdz_file_read_at(file, offset, as_stored, bytes, b->err);
    if (st == CDZ_OK)
        transpose(paired ? alternating : turned, as_stored, w->n, w->k, cdz_dtype_bytes(w->dtype));
    if (st == CDZ_OK && paired) part_pairs(turned, alternating, w->n, row);
    free(as_stored);
    free(alternating);
    w->data = turned;
    return st;
}

/* Of the parts of experts that lie in one tensor, those whose rows alternate. */
static bool is_paired(const binder *b, cdz_arch_part part)
{
    return part == CDZ_PART_EXPERTS_GATE_UP && b->arch->family->routing->interleaved;
}

/* MXFP4 as its checkpoints have it: two tensors where a plain one would be. */
static const cdz_tensor *find_beside(const binder *b, const char *stem, const char *suffix)
{
    char name[NAME_BYTES + 16];
    snprintf(name, sizeof name, "%s%s", stem, suffix);
    return find(b, name);
}

static bool has_mxfp4(const binder *b, const char *stem)
{
    return find_beside(b, stem, "_blocks") && find_beside(b, stem, "_scales");
}

static cdz_status bind_mxfp4(binder *b, const char *stem, bool paired, size_t n, size_t k,
                             cdz_weight *out)
{
    const cdz_tensor *blocks = find_beside(b, stem, "_blocks"),
                     *scales = find_beside(b, stem, "_scales");
    cdz_mxfp4 m = {.tensors = &b->w->tensors,
                   .blocks = blocks,
                   .scales = scales,
                   .n_experts = b->arch->n_experts,
                   .n = n,
                   .k = k,
                   .paired = paired};
    CDZ_TRY(cdz_mxfp4_read(&m, &b->w->tensors.arena, out, b->err));
    b->used[blocks - b->w->tensors.items] = b->used[scales - b->w->tensors.items] = true;
    b->w->facts.n_copied++;
    b->w->facts.n_parameters += (uint64_t)m.n_experts * n * k;
    b->w->facts.bytes[CDZ_MXFP4] += (uint64_t)m.n_experts * n * cdz_row_bytes(CDZ_MXFP4, k);
    return CDZ_OK;
}

/* Experts of float8 in one tensor. */
static cdz_status bind_fp8_stack(binder *b, const cdz_tensor *t, size_t n, size_t k, cdz_weight *out)
{
    const cdz_fp8 fp8 = fp8_of(b);
    const size_t parts = b->arch->n_experts;
    CDZ_TRY(cdz_fp8_read_stack(&fp8, t, parts, n, k, out));
    b->w->facts.n_copied++;
    b->w->facts.n_parameters += (uint64_t)parts * n * k;
    b->w->facts.bytes[out->dtype] += parts * n * cdz_row_bytes(out->dtype, k);
    return CDZ_OK;
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
    if (!t && has_mxfp4(b, name)) return bind_mxfp4(b, name, is_paired(b, at.part), n, k, out);
    if (!t) return cdz_err(b->err, CDZ_E_INPUT, "%s: tensor %s is missing", b->source, name);
    const size_t rows = turned ? k : n, columns = turned ? n : k;
    if (t->n_dims != 3 || t->shape[0] != a->n_experts || t->shape[1] != rows ||
        t->shape[2] != columns)
        return cdz_err(
            b->err, CDZ_E_INPUT, "%s: tensor %s is %s, config.json makes it [%u, %zu, %zu]",
            b->w->tensors.files[t->file].path, name, cdz_tensor_shape_text(t, shape, sizeof shape),
            (unsigned)a->n_experts, rows, columns);
    if (cdz_fp8_is(t) && !turned) return bind_fp8_stack(b, t, n, k, out);
    if (!cdz_tensor_dtype(t, &dtype) || dtype >= CDZ_N_PLAIN)
        return cdz_err(b->err, CDZ_E_UNSUPPORTED,
                       "%s: tensor %s has dtype %s; supported are F32, F16, BF16%s",
                       b->w->tensors.files[t->file].path, name, t->dtype, turned ? "" : ", F8_E4M3");
    const size_t each = (size_t)(t->n_bytes / a->n_experts);
    CDZ_TRY(align_data(b, t, cdz_dtype_bytes(dtype), &data));
    for (uint32_t e = 0; e < a->n_experts; e++) {
        out[e] = (cdz_weight){(const char *)data + e * each, dtype, n, k, CDZ_WEIGHT_ROWS};
        if (turned) CDZ_TRY(turn_expert(b, t, e * each, is_paired(b, at.part), &out[e]));
    }
    b->used[t - b->w->tensors.items] = true;
    b->w->facts.n_copied += turned;
    b->w->facts.n_parameters += (uint64_t)a->n_experts * n * k;
    b->w->facts.bytes[dtype] += t->n_bytes;
    return CDZ_OK;
}

static cdz_weight vector_of(const float *data, size_t n)
{
    return (cdz_weight){data, CDZ_F32, 1, n, CDZ_WEIGHT_ROWS};
}

/* Biases of all experts, (experts, n) each; those of gate and up lie as their rows do. */
static cdz_status bind_stack_biases(binder *b, uint32_t i, cdz_feed_forward *experts)
{
    const cdz_arch *a = b->arch;
    const size_t hidden = a->hidden, inner = a->expert_intermediate, n = a->n_experts;
    float *pairs = NULL, *down = NULL;
    if (!a->family->routing->biased) return CDZ_OK;
    const place gate_up = {CDZ_PART_EXPERTS_GATE_UP_BIAS, i, 0};
    CDZ_TRY(bind_floats(b, gate_up, "", n, 2 * inner, &pairs));
    CDZ_TRY(bind_floats(b, (place){CDZ_PART_EXPERTS_DOWN_BIAS, i, 0}, "", n, hidden, &down));
    float *parted =
        cdz_arena_alloc_aligned(&b->w->tensors.arena, n * 2 * inner * sizeof *parted, 64);
    if (!parted) return cdz_err_memory_in(b->err, b->w->folder);
    for (size_t e = 0; e < n; e++) {
        float *own = parted + e * 2 * inner;
        const char *from = (const char *)(pairs + e * 2 * inner);
        if (is_paired(b, CDZ_PART_EXPERTS_GATE_UP))
            part_pairs((char *)own, from, 2 * inner, sizeof *own);
        else
            memcpy(own, from, 2 * inner * sizeof *own);
        experts[e].gate.bias = vector_of(own, inner);
        experts[e].up.bias = vector_of(own + inner, inner);
        experts[e].down.bias = vector_of(down + e * hidden, hidden);
    }
    return CDZ_OK;
}

static cdz_status bind_stacks(binder *b, uint32_t i, cdz_layer_weights *out)
{
    const cdz_arch *a = b->arch;
    const size_t hidden = a->hidden, inner = a->expert_intermediate;
    cdz_weight *all = cdz_arena_array(&b->w->arena, (size_t)a->n_experts * 2, sizeof *all);
    if (!all) return cdz_err_memory_in(b->err, b->w->folder);
    CDZ_TRY(bind_stack(b, (place){CDZ_PART_EXPERTS_GATE_UP, i, 0}, 2 * inner, hidden, all));
    CDZ_TRY(bind_stack(b, (place){CDZ_PART_EXPERTS_DOWN, i, 0}, hidden, inner, all + a->n_experts));
    for (uint32_t e = 0; e < a->n_experts; e++) {
        const cdz_linear both = {.w = all[e]};
        out->experts[e].gate = rows_of(&both, 0, inner);
        out->experts[e].up = rows_of(&both, inner, inner);
        out->experts[e].down.w = all[a->n_experts + e];
    }
    return bind_stack_biases(b, i, out->experts);
}

/* Where experts are narrower than the layer: what is before and behind all of them. */
static cdz_status bind_expert_width(binder *b, uint32_t i, cdz_layer_weights *out)
{
    const cdz_arch *a = b->arch;
    const size_t width = a->expert_width;
    if (width == 0) return CDZ_OK;
    CDZ_TRY(bind_linear(b, (place){CDZ_PART_LATENT_IN, i, 0}, width, a->hidden, a->mlp_bias,
                        &out->latent_in));
    return bind_linear(b, (place){CDZ_PART_LATENT_OUT, i, 0}, a->hidden, width, a->mlp_bias,
                       &out->latent_out);
}

/* Families that have experts in both ways have the one that the files have. */
static bool has_stacks(const binder *b, uint32_t i)
{
    char name[NAME_BYTES];
    if (!cdz_arch_has(b->arch, CDZ_PART_EXPERTS_GATE_UP)) return false;
    return !cdz_arch_has(b->arch, CDZ_PART_EXPERT_UP) ||
           find(b, name_of(b, (place){CDZ_PART_EXPERTS_GATE_UP, i, 0}, "", name));
}

static cdz_status bind_experts(binder *b, uint32_t i, cdz_layer_weights *out)
{
    const cdz_arch *a = b->arch;
    const size_t hidden = a->hidden, inner = a->expert_intermediate;
    const size_t wide = a->expert_width ? a->expert_width : hidden;
    const bool bias = a->family->routing && a->family->routing->biased;
    out->experts = cdz_arena_array(&b->w->arena, a->n_experts, sizeof *out->experts);
    if (!out->experts) return cdz_err_memory_in(b->err, b->w->folder);
    CDZ_TRY(
        bind_linear(b, (place){CDZ_PART_ROUTER, i, 0}, a->n_experts, hidden, bias, &out->router));
    CDZ_TRY(bind_router_bias(b, i, &out->router_bias));
    CDZ_TRY(bind_shared(b, i, out));
    CDZ_TRY(bind_expert_width(b, i, out));
    if (has_stacks(b, i)) return bind_stacks(b, i, out);
    for (uint32_t e = 0; e < a->n_experts; e++) {
        cdz_feed_forward *f = &out->experts[e];
        if (cdz_arch_has(a, CDZ_PART_EXPERT_GATE))
            CDZ_TRY(
                bind_linear(b, (place){CDZ_PART_EXPERT_GATE, i, e}, inner, wide, bias, &f->gate));
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_EXPERT_UP, i, e}, inner, wide, bias, &f->up));
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_EXPERT_DOWN, i, e}, wide, inner, bias, &f->down));
    }
    return CDZ_OK;
}

/* --- rows of several streams --- */

/* The gate of a layer's input, times the scale of what it reads. */
static cdz_status scale_gate(binder *b, uint32_t i, cdz_weight *w)
{
    const size_t n = w->n, D = w->k, row = cdz_row_bytes(w->dtype, D);
    float *scale = NULL;
    if (!b->arch->streams.scaled) return CDZ_OK;
    CDZ_TRY(bind_floats(b, (place){CDZ_PART_STREAM_SCALE, i, 0}, "", 1, D, &scale));
    float *made = cdz_arena_alloc_aligned(&b->w->tensors.arena, n * D * sizeof *made, 64);
    if (!made) return cdz_err_memory_in(b->err, b->w->folder);
    for (size_t j = 0; j < n; j++) {
        cdz_widen(w->dtype, made + j * D, (const char *)w->data + j * row, D);
        for (size_t k = 0; k < D; k++) made[j * D + k] *= scale[k];
    }
    *w = (cdz_weight){made, CDZ_F32, n, D, CDZ_WEIGHT_ROWS};
    b->w->facts.n_copied++;
    return CDZ_OK;
}

static cdz_status bind_layer_streams(binder *b, uint32_t i, cdz_layer_weights *out)
{
    const cdz_arch *a = b->arch;
    const size_t D = a->hidden, n = a->streams.n, p = a->streams.inner, rank = a->streams.rank;
    if (n == 0) return CDZ_OK;
    cdz_stream_weights *s = out->streams = cdz_arena_array(&b->w->arena, 1, sizeof *s);
    if (!s) return cdz_err_memory_in(b->err, b->w->folder);
    const struct {
        cdz_arch_part part;
        size_t n, k;
        cdz_linear *to;
    } maps[] = {{CDZ_PART_STREAM_ROUTER, n, D, &s->router},
                {CDZ_PART_STREAM_FORETELL, n * n, n, &s->foretell},
                {CDZ_PART_STREAM_CORRECT, n, n, &s->correct},
                {CDZ_PART_STREAM_GATE, p, D, &s->gate},
                {CDZ_PART_STREAM_UP, D, p, &s->up},
                {CDZ_PART_LAUREL_IN, rank, D, &s->laurel_in},
                {CDZ_PART_LAUREL_OUT, D, rank, &s->laurel_out}};
    for (size_t m = 0; m < sizeof maps / sizeof *maps; m++)
        CDZ_TRY(
            bind_linear(b, (place){maps[m].part, i, 0}, maps[m].n, maps[m].k, false, maps[m].to));
    CDZ_TRY(bind_norm(b, CDZ_PART_STREAM_ROUTER_NORM, i, D, &s->router_norm));
    CDZ_TRY(bind_norm(b, CDZ_PART_STREAM_NORM, i, D, &s->norm));
    CDZ_TRY(bind_norm(b, CDZ_PART_LAUREL_NORM, i, D, &s->laurel_norm));
    return scale_gate(b, i, &s->gate.w);
}

static cdz_status bind_streams(binder *b)
{
    const cdz_arch *a = b->arch;
    const size_t D = a->hidden, wide = (size_t)a->n_layers * a->streams.inner;
    cdz_weights *w = b->w;
    char name[NAME_BYTES];
    if (a->streams.n == 0) return CDZ_OK;
    w->stream_in = cdz_arena_array(&w->arena, a->streams.n, sizeof *w->stream_in);
    w->stream_out = cdz_arena_array(&w->arena, a->streams.n, sizeof *w->stream_out);
    if (!w->stream_in || !w->stream_out) return cdz_err_memory_in(b->err, w->folder);
    for (uint32_t i = 0; i + 1 < a->streams.n; i++) {
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_STREAM_IN, 0, i}, D, D, false, &w->stream_in[i]));
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_STREAM_OUT, 0, i}, D, D, false, &w->stream_out[i]));
    }
    CDZ_TRY(bind_name(b, name_of(b, (place){CDZ_PART_LAYER_EMBED, 0, 0}, ".weight", name),
                      a->streams.vocab, wide, &w->layer_embed));
    CDZ_TRY(bind_norm(b, CDZ_PART_LAYER_NORM, 0, a->streams.inner, &w->layer_norm));
    return bind_linear(b, (place){CDZ_PART_LAYER_PROJECT, 0, 0}, wide, D, false, &w->layer_project);
}

/* --- recurrent mixers --- */

/* (channels, 1, taps), or (channels, taps), turned round. */
static cdz_status bind_taps(binder *b, uint32_t i, const float **out)
{
    const size_t channels = cdz_recurrent_channels(b->arch), taps = b->arch->recurrent.taps;
    const place at = {CDZ_PART_MIX_CONV, i, 0};
    char name[NAME_BYTES], shape[128];
    cdz_dtype dtype;
    const void *data;
    const cdz_tensor *t = find(b, name_of(b, at, ".weight", name));
    if (!t) return cdz_err(b->err, CDZ_E_INPUT, "%s: tensor %s is missing", b->source, name);
    const bool flat = t->n_dims == 2 && t->shape[1] == taps,
               deep = t->n_dims == 3 && t->shape[1] == 1 && t->shape[2] == taps;
    if ((!flat && !deep) || t->shape[0] != channels)
        return cdz_err(b->err, CDZ_E_INPUT,
                       "%s: tensor %s is %s, config.json makes it [%zu, 1, %zu]",
                       b->w->tensors.files[t->file].path, name,
                       cdz_tensor_shape_text(t, shape, sizeof shape), channels, taps);
    if (!cdz_tensor_dtype(t, &dtype) || dtype >= CDZ_N_PLAIN)
        return cdz_err(b->err, CDZ_E_UNSUPPORTED,
                       "%s: tensor %s is of %s; supported are F32, F16, BF16", b->source, name,
                       t->dtype);
    CDZ_TRY(align_data(b, t, cdz_dtype_bytes(dtype), &data));
    float *wide = cdz_arena_array(&b->w->arena, channels * taps, sizeof *wide);
    float *turned = cdz_arena_array(&b->w->arena, channels * taps, sizeof *turned);
    if (!wide || !turned) return cdz_err_memory_in(b->err, b->w->folder);
    cdz_widen(dtype, wide, data, channels * taps);
    for (size_t c = 0; c < channels; c++)
        for (size_t j = 0; j < taps; j++) turned[j * channels + c] = wide[c * taps + j];
    b->used[t - b->w->tensors.items] = true;
    b->w->facts.n_parameters += channels * taps;
    b->w->facts.bytes[dtype] += t->n_bytes;
    *out = turned;
    return CDZ_OK;
}

/* Rates are stored as logarithms, in GGUF as they are. */
static cdz_status bind_rates(binder *b, uint32_t i, cdz_recurrent_weights *out)
{
    const cdz_arch *a = b->arch;
    const size_t n = a->recurrent.heads;
    float *rate = NULL, *other = NULL;
    CDZ_TRY(bind_floats(b, (place){CDZ_PART_MIX_RATE, i, 0}, "", 1, n, &rate));
    for (size_t h = 0; a->names == a->family->names && h < n; h++)
        rate[h] = (float)-exp((double)rate[h]);
    out->rate = rate;
    CDZ_TRY(bind_floats(b, (place){CDZ_PART_MIX_SHIFT, i, 0}, "", 1, n, &other));
    out->shift = other;
    if (a->recurrent.kind != CDZ_MIX_SSD) return CDZ_OK;
    CDZ_TRY(bind_floats(b, (place){CDZ_PART_MIX_SKIP, i, 0}, "", 1, n, &other));
    out->skip = other;
    return CDZ_OK;
}

/* One tensor: of a convolution the gate before it, the gate behind it, its input; of SSD the gate, the input, the steps. */
static cdz_status bind_mix_in(binder *b, uint32_t i, cdz_recurrent_weights *out)
{
    const cdz_arch *a = b->arch;
    const cdz_recurrent *r = &a->recurrent;
    const size_t width = cdz_recurrent_width(a), channels = cdz_recurrent_channels(a);
    const bool conv = r->kind == CDZ_MIX_CONV;
    const size_t first = conv ? width : 0, rows = first + width + channels + r->heads;
    cdz_linear all;
    memset(&all, 0, sizeof all);
    CDZ_TRY(bind_linear(b, (place){CDZ_PART_MIX_IN, i, 0}, rows, a->hidden, r->in_bias, &all));
    if (conv) out->share = rows_of(&all, 0, width);
    out->gate = rows_of(&all, first, width);
    out->value = rows_of(&all, first + width, channels);
    if (r->heads) out->decay = rows_of(&all, first + width + channels, r->heads);
    return CDZ_OK;
}

/* The delta rule's: queries, keys, values and the gate, and two numbers a head; each in a tensor, or group by group in two. */
static cdz_status bind_delta_in(binder *b, uint32_t i, cdz_recurrent_weights *out)
{
    const cdz_arch *a = b->arch;
    const cdz_recurrent *r = &a->recurrent;
    const size_t width = cdz_recurrent_width(a), channels = cdz_recurrent_channels(a);
    const size_t D = a->hidden, n = r->heads, each = r->heads / r->groups;
    const size_t rows[] = {r->rows, r->rows, each * r->columns, each * r->columns},
                 gates[] = {each, each};
    cdz_linear all, two;
    memset(&all, 0, sizeof all);
    memset(&two, 0, sizeof two);
    if (cdz_arch_has(a, CDZ_PART_MIX_IN)) {
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_MIX_IN, i, 0}, channels + width, D, false, &all));
        CDZ_TRY(part_groups(b, &all, r->groups, rows, 4));
        out->value = rows_of(&all, 0, channels);
        out->gate = rows_of(&all, channels, width);
    } else {
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_MIX_VALUES, i, 0}, channels, D, false, &out->value));
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_MIX_GATE, i, 0}, width, D, false, &out->gate));
    }
    if (!cdz_arch_has(a, CDZ_PART_MIX_GATES)) {
        CDZ_TRY(bind_linear(b, (place){CDZ_PART_MIX_SHARE, i, 0}, n, D, false, &out->share));
        return bind_linear(b, (place){CDZ_PART_MIX_DECAY, i, 0}, n, D, false, &out->decay);
    }
    CDZ_TRY(bind_linear(b, (place){CDZ_PART_MIX_GATES, i, 0}, 2 * n, D, false, &two));
    CDZ_TRY(part_groups(b, &two, r->groups, gates, 2));
    out->share = rows_of(&two, 0, n);
    out->decay = rows_of(&two, n, n);
    return CDZ_OK;
}

/* A key divided by the root of its squares' sum is one divided by the root of their mean, over the root of its length; a query is
 * divided by that root once more. */
static cdz_status make_key_norms(binder *b, cdz_recurrent_weights *out)
{
    const double n = b->arch->recurrent.rows;
    CDZ_TRY(make_vector(b, b->arch->recurrent.rows, (float)(1 / n), &out->q_norm));
    return make_vector(b, b->arch->recurrent.rows, (float)(1 / sqrt(n)), &out->k_norm);
}

/* (n); in GGUF (groups, n / groups), whose rows lie one after the other. */
static cdz_status bind_mix_norm(binder *b, uint32_t i, size_t n, cdz_weight *out)
{
    const size_t groups = b->arch->recurrent.groups;
    char name[NAME_BYTES];
    name_of(b, (place){CDZ_PART_MIX_NORM, i, 0}, ".weight", name);
    const cdz_tensor *t = find(b, name);
    if (!t || t->n_dims != 2) return bind_name(b, name, n, 0, out);
    CDZ_TRY(bind_name(b, name, groups, n / groups, out));
    out->n = 1;
    out->k = n;
    return CDZ_OK;
}

static cdz_status bind_recurrent(binder *b, uint32_t i, cdz_recurrent_weights *out)
{
    const cdz_arch *a = b->arch;
    const cdz_recurrent *r = &a->recurrent;
    const size_t width = cdz_recurrent_width(a);
    const bool delta = r->kind == CDZ_MIX_DELTA;
    float *bias = NULL;
    CDZ_TRY(delta ? bind_delta_in(b, i, out) : bind_mix_in(b, i, out));
    CDZ_TRY(bind_taps(b, i, &out->taps));
    if (r->conv_bias)
        CDZ_TRY(bind_floats(b, (place){CDZ_PART_MIX_CONV, i, 0}, ".bias", 1,
                            cdz_recurrent_channels(a), &bias));
    out->tap_bias = bias;
    if (r->kind != CDZ_MIX_CONV) CDZ_TRY(bind_rates(b, i, out));
    if (delta) CDZ_TRY(make_key_norms(b, out));
    if (r->kind != CDZ_MIX_CONV && r->norm != CDZ_GATED_ONLY)
        CDZ_TRY(bind_mix_norm(b, i, delta ? r->columns : width, &out->norm.w));
    return bind_linear(b, (place){CDZ_PART_MIX_OUT, i, 0}, a->hidden, width, r->out_bias, &out->out);
}

static cdz_status bind_layer(binder *b, uint32_t i, cdz_layer_weights *out)
{
    const cdz_arch *a = b->arch;
    if (!a->mixers || a->mixers[i])
        CDZ_TRY(bind_norm(b, CDZ_PART_ATTN_NORM, i, a->hidden, &out->attn_norm));
    if (cdz_arch_mixes(a, i, CDZ_MIX_ATTENTION)) CDZ_TRY(bind_attention(b, i, out));
    if (cdz_arch_mixes(a, i, CDZ_MIX_RECURRENT)) CDZ_TRY(bind_recurrent(b, i, &out->recurrent));
    CDZ_TRY(bind_norm(b, CDZ_PART_ATTN_POST_NORM, i, a->hidden, &out->attn_post_norm));
    CDZ_TRY(bind_layer_streams(b, i, out));
    CDZ_TRY(bind_cross(b, i, out));
    if (!cdz_arch_feeds(a, i)) return CDZ_OK;
    if (!a->one_norm) CDZ_TRY(bind_norm(b, CDZ_PART_MLP_NORM, i, a->hidden, &out->mlp_norm));
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
    CDZ_TRY(cdz_value_head_read(w, b->source, b->used, has_head || a->tied, b->err));
    if (w->values.alone) return bind_name(b, embed, a->n_vocab, a->hidden, &w->embed);
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
    if (!cdz_arch_has(b->arch, CDZ_PART_HEAD_BIAS) || b->w->values.alone) return CDZ_OK;
    name_of(b, (place){CDZ_PART_HEAD_BIAS, 0, 0}, "", name);
    if (!find(b, name)) return CDZ_OK;
    const size_t n = b->arch->n_vocab;
    if (find(b, name)->n_dims == 1) return bind_name(b, name, n, 0, &b->w->head.bias);
    CDZ_TRY(bind_name(b, name, 1, n, &b->w->head.bias));
    b->w->facts.n_parameters -= n; /* a buffer there */
    return CDZ_OK;
}

/* Of wave j and its cosine: MarianSinusoidalPositionalEmbedding's angles, and those of M2M100's, which are float32 at each step. */
static double angle_of(const cdz_arch *a, size_t wave, size_t k, size_t position)
{
    if (a->family->sines == CDZ_SINES_BY_WIDTH)
        return (double)position / pow(10000.0, (double)(k - k % 2) / (double)a->hidden);
    const size_t last = a->hidden / 2 - 1; /* of the waves */
    const double step = -log(10000.0) / (double)last;
    const float rate = (float)exp((double)((float)wave * (float)step));
    return (double)((float)position * rate);
}

/* Sines in the first half of a row, cosines in the second. */
static cdz_status make_positions(binder *b, cdz_weight *out)
{
    const cdz_arch *a = b->arch;
    const size_t n = (size_t)a->placing.offset + a->context, dim = b->arch->hidden,
                 half = (dim + 1) / 2;
    if (n > MOST_POSITIONS_BYTES / sizeof(float) / dim)
        return cdz_err(b->err, CDZ_E_UNSUPPORTED,
                       "%s: max_position_embeddings %u is not supported; the table of positions "
                       "may have %d MiB",
                       b->w->folder, (unsigned)a->context, MOST_POSITIONS_BYTES >> 20);
    float *table = cdz_arena_alloc_aligned(&b->w->tensors.arena, n * dim * sizeof *table, 64);
    if (!table) return cdz_err_memory_in(b->err, b->w->folder);
    for (size_t j = 0; j < dim; j++) {
        const bool sine = j < half;
        const size_t k = sine ? 2 * j : 2 * (j - half) + 1;
        for (size_t p = 0; p < n; p++) {
            const double angle = angle_of(a, sine ? j : j - half, k, p);
            table[p * dim + j] = (float)(sine ? sin(angle) : cos(angle));
        }
    }
    if (a->placing.unplaced >= 0)
        memset(table + (size_t)a->placing.unplaced * dim, 0, dim * sizeof *table);
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
                     (size_t)a->placing.offset + a->context, a->hidden, out);
}

/* The tables of all layers, one after the other, as float32. */
static cdz_status gather_relative(binder *b, cdz_weight *out)
{
    const cdz_arch *a = b->arch;
    const size_t n = (size_t)a->buckets.n * a->n_heads;
    char name[NAME_BYTES];
    float *all = cdz_arena_alloc_aligned(&b->w->tensors.arena, a->n_layers * n * sizeof *all, 64);
    if (!all) return cdz_err_memory_in(b->err, b->w->folder);
    for (uint32_t i = 0; i < a->n_layers; i++) {
        cdz_weight one = {0};
        CDZ_TRY(bind_name(b, name_of(b, (place){CDZ_PART_RELATIVE, i, 0}, ".weight", name),
                          a->buckets.n, a->n_heads, &one));
        for (size_t r = 0; r < one.n; r++)
            cdz_widen(one.dtype, all + i * n + r * one.k,
                      (const char *)one.data + r * cdz_row_bytes(one.dtype, one.k), one.k);
        b->w->facts.n_copied++;
    }
    *out =
        (cdz_weight){all, CDZ_F32, (size_t)a->n_layers * a->buckets.n, a->n_heads, CDZ_WEIGHT_ROWS};
    return CDZ_OK;
}

static cdz_status bind_relative(binder *b, cdz_weight *out)
{
    char name[NAME_BYTES];
    if (!cdz_arch_has(b->arch, CDZ_PART_RELATIVE)) return CDZ_OK;
    if (cdz_arch_distance_tables(b->arch) > 1) return gather_relative(b, out);
    return bind_name(b, name_of(b, (place){CDZ_PART_RELATIVE, 0, 0}, ".weight", name),
                     b->arch->buckets.n, b->arch->n_heads, out);
}

static cdz_status bind_layers(binder *b, cdz_layer_weights **out)
{
    *out = cdz_arena_array(&b->w->arena, b->arch->n_layers, sizeof **out);
    if (!*out) return cdz_err_memory_in(b->err, b->w->folder);
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
    CDZ_TRY(bind_streams(b));
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
    const cdz_status st = b.used ? bind_all(&b) : cdz_err_memory_in(err, w->folder);
    free(b.used);
    return st;
}
