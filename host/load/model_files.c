/* model_files.c - opens a model folder and ties every weight of the architecture to a tensor of
 * the files. */
#include "load/model_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const size_t MAX_CONFIG = (size_t)4 << 20; /* bytes of config.json */
static const size_t MAX_MEMORY = (size_t)56
                                 << 20; /* for both configurations and the tables made from them */
enum { NAME_BYTES = 256 };

/* What tying one model's weights works on. */
typedef struct binder {
    cdz_weights *w;
    const char *source; /* the weight file, or the index of the shards */
    bool *used;         /* by tensor */
    cdz_error *err;
} binder;

static cdz_status no_memory(const char *folder, cdz_error *err)
{
    return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", folder);
}

/* --- tensors to weights -------------------------------------------------------------------- */

static bool dtype_of(const cdz_tensor *t, cdz_dtype *out)
{
    static const char *const names[] = {[CDZ_F32] = "F32", [CDZ_F16] = "F16", [CDZ_BF16] = "BF16"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(t->dtype, names[i]) != 0) continue;
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

/* Ties out to the tensor of that name, of shape (n, k), or (n) when k is 0. */
static cdz_status bind_name(binder *b, const char *name, size_t n, size_t k, cdz_weight *out)
{
    const cdz_tensor *t = cdz_tensors_find(&b->w->tensors, name);
    if (!t) return cdz_err(b->err, CDZ_E_INPUT, "%s: tensor %s is missing", b->source, name);
    if (t->n_dims != (k ? 2 : 1) || t->shape[0] != n || (k && t->shape[1] != k))
        return wrong_shape(b, t, n, k);
    cdz_dtype dtype;
    if (!dtype_of(t, &dtype))
        return cdz_err(b->err, CDZ_E_UNSUPPORTED,
                       "%s: tensor %s has dtype %s; supported are F32, F16, BF16",
                       b->w->tensors.files[t->file].path, name, t->dtype);

    *out = (cdz_weight){.dtype = dtype, .n = k ? n : 1, .k = k ? k : n};
    CDZ_TRY(align_data(b, t, dtype == CDZ_F32 ? 4 : 2, &out->data));
    b->used[t - b->w->tensors.items] = true;
    b->w->facts.n_parameters += (uint64_t)out->n * out->k;
    b->w->facts.bytes[dtype] += t->n_bytes;
    return CDZ_OK;
}

static cdz_status bind_norm(binder *b, cdz_part part, uint32_t layer, cdz_weight *out)
{
    char name[NAME_BYTES];
    const cdz_arch *a = &b->w->arch;
    return bind_name(b, cdz_arch_tensor_name(a, part, layer, ".weight", name, sizeof name),
                     a->hidden, 0, out);
}

static cdz_status bind_linear(binder *b, cdz_part part, uint32_t layer, size_t n, size_t k,
                              bool bias, cdz_linear *out)
{
    char name[NAME_BYTES];
    const cdz_arch *a = &b->w->arch;
    CDZ_TRY(bind_name(b, cdz_arch_tensor_name(a, part, layer, ".weight", name, sizeof name), n, k,
                      &out->w));
    if (!bias) return CDZ_OK;
    return bind_name(b, cdz_arch_tensor_name(a, part, layer, ".bias", name, sizeof name), n, 0,
                     &out->bias);
}

static cdz_status bind_layer(binder *b, uint32_t i, cdz_layer_weights *out)
{
    const cdz_arch *a = &b->w->arch;
    const size_t hidden = a->hidden, inner = a->intermediate;
    const size_t q = (size_t)a->n_heads * a->head_dim, kv = (size_t)a->n_kv_heads * a->head_dim;
    CDZ_TRY(bind_norm(b, CDZ_PART_ATTN_NORM, i, &out->attn_norm));
    CDZ_TRY(bind_linear(b, CDZ_PART_Q, i, q, hidden, a->qkv_bias, &out->q));
    CDZ_TRY(bind_linear(b, CDZ_PART_K, i, kv, hidden, a->qkv_bias, &out->k));
    CDZ_TRY(bind_linear(b, CDZ_PART_V, i, kv, hidden, a->qkv_bias, &out->v));
    CDZ_TRY(bind_linear(b, CDZ_PART_O, i, hidden, q, a->o_bias, &out->o));
    CDZ_TRY(bind_norm(b, CDZ_PART_MLP_NORM, i, &out->mlp_norm));
    CDZ_TRY(bind_linear(b, CDZ_PART_GATE, i, inner, hidden, a->mlp_bias, &out->gate));
    CDZ_TRY(bind_linear(b, CDZ_PART_UP, i, inner, hidden, a->mlp_bias, &out->up));
    return bind_linear(b, CDZ_PART_DOWN, i, hidden, inner, a->mlp_bias, &out->down);
}

/* Embedding and head. Where config.json ties them, one tensor serves as both, whichever the file
 * has; when it has both they stay two, as in transformers 5 (tie_weights). */
static cdz_status bind_ends(binder *b)
{
    cdz_weights *w = b->w;
    const cdz_arch *a = &w->arch;
    char embed[NAME_BYTES], head[NAME_BYTES];
    cdz_arch_tensor_name(a, CDZ_PART_EMBED, 0, ".weight", embed, sizeof embed);
    cdz_arch_tensor_name(a, CDZ_PART_HEAD, 0, ".weight", head, sizeof head);
    bool has_embed = cdz_tensors_find(&w->tensors, embed),
         has_head = cdz_tensors_find(&w->tensors, head);
    w->tied = a->tied && !(has_embed && has_head);
    if (!w->tied) {
        CDZ_TRY(bind_name(b, embed, a->n_vocab, a->hidden, &w->embed));
        return bind_name(b, head, a->n_vocab, a->hidden, &w->head.w);
    }
    CDZ_TRY(bind_name(b, has_head ? head : embed, a->n_vocab, a->hidden, &w->embed));
    w->head.w = w->embed;
    return CDZ_OK;
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
    w->layers = cdz_arena_array(&w->arena, w->arch.n_layers, sizeof *w->layers);
    b->used = calloc(w->tensors.n_items + 1, sizeof *b->used);
    if (!w->layers || !b->used) return no_memory(w->folder, b->err);
    CDZ_TRY(bind_ends(b));
    CDZ_TRY(bind_norm(b, CDZ_PART_FINAL_NORM, 0, &w->final_norm));
    for (uint32_t i = 0; i < w->arch.n_layers; i++) CDZ_TRY(bind_layer(b, i, &w->layers[i]));
    count_unexpected(b);
    return CDZ_OK;
}

/* --- the files of a folder ----------------------------------------------------------------- */

static cdz_status check_folder(const char *folder, cdz_error *err)
{
    struct stat info;
    if (stat(folder, &info) != 0)
        return cdz_err(err, CDZ_E_NOT_FOUND, "%s: no such model folder", folder);
    if (!S_ISDIR(info.st_mode))
        return cdz_err(
            err, CDZ_E_INPUT,
            "%s: is not a folder; a model is a folder with config.json and model.safetensors",
            folder);
    return CDZ_OK;
}

static bool exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0; /* a link to nowhere exists: opening it says what is wrong */
}

static char *path_in(cdz_weights *w, const char *name)
{
    size_t len = strlen(w->folder);
    return cdz_arena_printf(&w->arena, "%s%s%s", w->folder,
                            len && w->folder[len - 1] == '/' ? "" : "/", name);
}

static cdz_status read_configs(cdz_weights *w, cdz_error *err)
{
    const char *path = path_in(w, "config.json"),
               *generation = path_in(w, "generation_config.json");
    if (!path || !generation) return no_memory(w->folder, err);
    CDZ_TRY(cdz_json_read_file(path, MAX_CONFIG, NULL, &w->arena, &w->config, err));
    CDZ_TRY(cdz_arch_read(&w->config, path, &w->arena, &w->arch, err));
    if (!exists(generation)) return CDZ_OK;
    CDZ_TRY(
        cdz_json_read_file(generation, MAX_CONFIG, NULL, &w->arena, &w->generation_config, err));
    if (w->generation_config.type != CDZ_JSON_OBJECT)
        return cdz_err(err, CDZ_E_INPUT, "%s: is %s, expected an object", generation,
                       cdz_json_type_name(&w->generation_config));
    return CDZ_OK;
}

/* As transformers looks: one file first, then the index of shards. */
static cdz_status open_tensors(cdz_weights *w, const char **source, cdz_error *err)
{
    const char *single = path_in(w, "model.safetensors"),
               *index = path_in(w, "model.safetensors.index.json");
    const char *pickle = path_in(w, "pytorch_model.bin"),
               *pickles = path_in(w, "pytorch_model.bin.index.json");
    if (!single || !index || !pickle || !pickles) return no_memory(w->folder, err);
    *source = exists(single) || !exists(index) ? single : index;
    if (exists(*source))
        return *source == single ? cdz_tensors_open(single, &w->tensors, err)
                                 : cdz_tensors_open_shards(index, &w->tensors, err);
    if (exists(pickle) || exists(pickles))
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "%s: has its weights as pytorch_model.bin only, which cannot be read "
                       "safely; save them as safetensors",
                       w->folder);
    return cdz_err(err, CDZ_E_NOT_FOUND,
                   "%s: has neither model.safetensors nor model.safetensors.index.json", w->folder);
}

static void count_files(cdz_weights *w)
{
    const cdz_arch *a = &w->arch;
    w->facts.n_files = w->tensors.n_files;
    for (uint32_t i = 0; i < w->tensors.n_files; i++)
        w->facts.file_bytes += w->tensors.files[i].size;
    w->facts.kv_bytes_per_token =
        (uint64_t)2 * a->n_layers * a->n_kv_heads * a->head_dim * sizeof(float);
}

static cdz_status load(cdz_weights *w, const char *folder, cdz_error *err)
{
    w->arena.limit = MAX_MEMORY;
    w->folder = cdz_arena_strdup(&w->arena, folder);
    if (!w->folder) return no_memory(folder, err);
    CDZ_TRY(check_folder(folder, err));
    CDZ_TRY(read_configs(w, err));

    binder b = {.w = w, .err = err};
    CDZ_TRY(open_tensors(w, &b.source, err));
    count_files(w);
    cdz_status st = bind_all(&b);
    free(b.used);
    return st;
}

/* --- outside ------------------------------------------------------------------------------- */

cdz_status cdz_weights_open(const char *folder, cdz_weights **out, cdz_error *err)
{
    *out = NULL;
    cdz_weights *w = calloc(1, sizeof *w);
    if (!w) return no_memory(folder, err);
    cdz_status st = load(w, folder, err);
    if (st == CDZ_OK)
        *out = w;
    else
        cdz_weights_close(w);
    return st;
}

void cdz_weights_close(cdz_weights *weights)
{
    if (!weights) return;
    cdz_tensors_close(&weights->tensors);
    cdz_arena_free(&weights->arena);
    free(weights);
}

const cdz_arch *cdz_weights_arch(const cdz_weights *weights)
{
    return &weights->arch;
}

const cdz_json *cdz_weights_config(const cdz_weights *weights)
{
    return &weights->config;
}

const cdz_json *cdz_weights_generation_config(const cdz_weights *weights)
{
    return weights->generation_config.type == CDZ_JSON_OBJECT ? &weights->generation_config : NULL;
}

cdz_status cdz_weights_check(const cdz_weights *weights, cdz_error *err)
{
    for (uint32_t i = 0; i < weights->tensors.n_files; i++)
        CDZ_TRY(cdz_file_check(&weights->tensors.files[i], err));
    return CDZ_OK;
}
