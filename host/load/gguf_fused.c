/* gguf_fused.c - queries, keys and values that a file has in one tensor, "blk.3.attn_qkv.weight", though the family has three: views of
 * its rows in their place, as llama.cpp's converter makes the one of three (--fuse-qkv). How many rows are queries tells the map of what
 * attention gives, whose columns they are. It owns the names and shapes that it makes, in the set's arena. Any thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/gguf_put.h"

enum { N_VIEWS = 3 };

/* Of qwen3next's and qwen35's queries each has a gate beside it. */
static bool are_gated(const cdz_gguf_arch *ga)
{
    return strcmp(ga->name, "qwen3next") == 0 || strncmp(ga->name, "qwen35", strlen("qwen35")) == 0;
}

static bool has_three(const cdz_gguf_arch *ga)
{
    const cdz_json type = {
        .type = CDZ_JSON_STRING, .string = ga->model_type, .len = (uint32_t)strlen(ga->model_type)};
    const cdz_family *f = cdz_family_find(&type, NULL);
    return f && f->names[CDZ_PART_Q] && !f->names[CDZ_PART_QKV];
}

/* How many of the tensor's rows are queries; 0: it is not one of these. */
static uint64_t n_queries(const cdz_gguf *g, const cdz_gguf_arch *ga, const cdz_tensor *t)
{
    static const char rest[] = ".attn_qkv.";
    char name[128];
    const char *at = strstr(t->name, rest);
    if (!at || strncmp(t->name, "blk.", 4) != 0 || t->n_dims < 1) return 0;
    snprintf(name, sizeof name, "%.*s.attn_output.weight", (int)(at - t->name), t->name);
    const cdz_tensor *out = cdz_tensors_find(&g->tensors, name);
    if (!out || out->n_dims != 2) return 0; /* a recurrent layer's */
    const uint64_t n = out->shape[1] << are_gated(ga);
    return n > 0 && n < t->shape[0] && (t->shape[0] - n) % 2 == 0 ? n : 0;
}

/* Rows [from, from + n), under the name of the part. */
static bool make_view(cdz_arena *arena, const cdz_tensor *all, const char *part, uint64_t from,
                      uint64_t n, cdz_tensor *out)
{
    static const char whole[] = "attn_qkv";
    const char *at = strstr(all->name, whole);
    const uint64_t row = all->n_bytes / all->shape[0];
    uint64_t *shape = cdz_arena_array(arena, all->n_dims, sizeof *shape);
    if (!shape) return false;
    memcpy(shape, all->shape, all->n_dims * sizeof *shape);
    shape[0] = n;
    *out = *all;
    out->shape = shape;
    out->n_bytes = n * row;
    out->data = (const char *)all->data + from * row;
    out->name = cdz_arena_printf(arena, "%.*s%s%s", (int)(at - all->name), all->name, part,
                                 at + sizeof whole - 1);
    return out->name != NULL;
}

static bool make_views(cdz_arena *arena, const cdz_tensor *all, uint64_t queries, cdz_tensor *out)
{
    const uint64_t n = (all->shape[0] - queries) / 2;
    return make_view(arena, all, "attn_q", 0, queries, &out[0]) &&
           make_view(arena, all, "attn_k", queries, n, &out[1]) &&
           make_view(arena, all, "attn_v", queries + n, n, &out[2]);
}

static bool any(const cdz_gguf *g, const cdz_gguf_arch *ga)
{
    for (size_t i = 0; i < g->tensors.n_items; i++)
        if (n_queries(g, ga, &g->tensors.items[i])) return true;
    return false;
}

cdz_status cdz_gguf_part_queries(cdz_gguf *g, const cdz_gguf_arch *ga, cdz_error *err)
{
    cdz_tensors *set = &g->tensors;
    size_t at = 0;
    if (!has_three(ga) || !any(g, ga)) return CDZ_OK;
    cdz_tensor *items = calloc(set->n_items * N_VIEWS, sizeof *items);
    bool ok = items != NULL;
    for (size_t i = 0; ok && i < set->n_items; i++) {
        const uint64_t n = n_queries(g, ga, &set->items[i]);
        if (n)
            ok = make_views(&set->arena, &set->items[i], n, &items[at]);
        else
            items[at] = set->items[i];
        at += n ? N_VIEWS : 1;
    }
    if (!ok) {
        free(items);
        return cdz_err_memory_in(err, g->path);
    }
    free(set->items);
    set->items = items;
    set->n_items = at;
    return cdz_tensors_sort(set, err);
}
