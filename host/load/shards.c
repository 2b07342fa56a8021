/* shards.c - a model in several files: model.safetensors.index.json says which tensor is in
 * which.
 *
 * The index is believed in nothing: its file names may not lead out of the folder, and what it
 * says of each tensor is compared with what the shards hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "load/safetensors.h"

static const size_t MAX_INDEX = (size_t)64 << 20;
static const size_t INDEX_SLACK = (size_t)32 << 20;
enum { MAX_FILE_NAME = 255 };

typedef struct shards {
    const char *index_path;
    int folder_len; /* bytes of index_path that name the folder, with the slash */
    const cdz_json *map;
    const char **names; /* the shards, each once, ascending */
    size_t n_names;
    cdz_tensors *set;
    cdz_error *err;
} shards;

static bool is_plain_name(const cdz_json *file)
{
    static const char ending[] = ".safetensors";
    const size_t end = sizeof ending - 1;
    return file->len > end && file->len <= MAX_FILE_NAME && strlen(file->string) == file->len &&
           file->string[0] != '.' && !strpbrk(file->string, "/\\") &&
           strcmp(file->string + file->len - end, ending) == 0;
}

static int by_text(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* Collects the file names, each once. */
static cdz_status collect_names(shards *s, cdz_arena *arena)
{
    s->names = cdz_arena_array(arena, s->map->len, sizeof *s->names);
    if (!s->names) return cdz_err_memory_in(s->err, s->index_path);
    for (uint32_t i = 0; i < s->map->len; i++) {
        const cdz_json_member *m = &s->map->members[i];
        if (!cdz_json_is(&m->value, CDZ_JSON_STRING))
            return cdz_err(
                s->err, CDZ_E_INPUT, "%s:%u: tensor %.100s: the shard is %s, expected a file name",
                s->index_path, (unsigned)m->value.line, m->key, cdz_json_type_name(&m->value));
        if (!is_plain_name(&m->value))
            return cdz_err(s->err, CDZ_E_INPUT,
                           "%s:%u: tensor %.100s: shard \"%.100s\" must be a plain name ending in "
                           ".safetensors, of a file "
                           "beside the index",
                           s->index_path, (unsigned)m->value.line, m->key, m->value.string);
        s->names[i] = m->value.string;
    }
    qsort(s->names, s->map->len, sizeof *s->names, by_text);
    for (uint32_t i = 0; i < s->map->len; i++)
        if (s->n_names == 0 || strcmp(s->names[s->n_names - 1], s->names[i]) != 0)
            s->names[s->n_names++] = s->names[i];
    return CDZ_OK;
}

static cdz_status open_each(shards *s)
{
    for (size_t i = 0; i < s->n_names; i++) {
        char *path;
        if (asprintf(&path, "%.*s%s", s->folder_len, s->index_path, s->names[i]) < 0)
            return cdz_err_memory_in(s->err, s->index_path);
        cdz_status st = cdz_tensors_add_file(s->set, path, s->err);
        free(path);
        if (st == CDZ_E_NOT_FOUND)
            cdz_err_prefix(s->err, "%s names a shard that is missing", s->index_path);
        if (st != CDZ_OK) return st;
    }
    return cdz_tensors_sort(s->set, s->err);
}

/* Every tensor must be where the index says it is. */
static cdz_status compare(const shards *s)
{
    for (uint32_t i = 0; i < s->map->len; i++) {
        const cdz_json_member *m = &s->map->members[i];
        const cdz_tensor *t = cdz_tensors_find(s->set, m->key);
        if (!t)
            return cdz_err(s->err, CDZ_E_INPUT, "%s:%u: tensor %.100s is not in %s", s->index_path,
                           (unsigned)m->value.line, m->key, m->value.string);
        const char *real = s->set->files[t->file].path + s->folder_len;
        if (strcmp(real, m->value.string) != 0)
            return cdz_err(s->err, CDZ_E_INPUT, "%s:%u: tensor %.100s is in %s, not in %s",
                           s->index_path, (unsigned)m->value.line, m->key, real, m->value.string);
    }
    return CDZ_OK;
}

static cdz_status open_map(shards *s, const cdz_json *document, cdz_arena *arena)
{
    s->map = cdz_json_get(document, "weight_map");
    if (!cdz_json_is(s->map, CDZ_JSON_OBJECT))
        return cdz_err(s->err, CDZ_E_INPUT,
                       "%s: weight_map is %s, expected an object of tensor and file names",
                       s->index_path, cdz_json_type_name(s->map));
    if (s->map->len == 0)
        return cdz_err(s->err, CDZ_E_INPUT, "%s: weight_map is empty", s->index_path);
    CDZ_TRY(collect_names(s, arena));
    CDZ_TRY(open_each(s));
    return compare(s);
}

cdz_status cdz_tensors_open_shards(const char *index_path, cdz_tensors *out, cdz_error *err)
{
    *out = (cdz_tensors){0};
    char *text;
    size_t len;
    CDZ_TRY(cdz_file_read(index_path, MAX_INDEX, &text, &len, err));

    const char *slash = strrchr(index_path, '/');
    shards s = {
        .index_path = index_path,
        .folder_len = slash ? (int)(slash - index_path) + 1 : 0,
        .set = out,
        .err = err,
    };
    cdz_arena arena = {.limit = 2 * len + INDEX_SLACK};
    cdz_json document;
    cdz_status st = cdz_json_parse(text, len, index_path, NULL, &arena, &document, err);
    free(text);
    if (st == CDZ_OK) st = open_map(&s, &document, &arena);
    if (st != CDZ_OK) cdz_tensors_close(out);
    cdz_arena_free(&arena);
    return st;
}
