/* safetensors.c - one file: its header checked to the byte, its tensors added to a set. Shards
 * are in shards.c.
 *
 * The header is read, not mapped, so a file that shrinks meanwhile is a sentence. Memory for
 * reading it is bounded by the size of the whole file: a small file cannot ask for much. */
#include "load/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static const uint64_t MAX_HEADER = 100000000; /* as the reference implementation */
static const size_t HEADER_SLACK = (size_t)48 << 20;

static const struct type_bits {
    const char *name;
    uint32_t bits;
} type_bits[] = {
    {"F32", 32},    {"F16", 16},    {"BF16", 16},   {"BOOL", 8},    {"U8", 8},
    {"I8", 8},      {"U16", 16},    {"I16", 16},    {"U32", 32},    {"I32", 32},
    {"F64", 64},    {"U64", 64},    {"I64", 64},    {"F8_E5M2", 8}, {"F8_E4M3", 8},
    {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},      {"C64", 64},
};
enum { N_TYPES = sizeof type_bits / sizeof *type_bits };

/* What reading one file works on. */
typedef struct header {
    const char *path;
    cdz_tensors *set;
    uint32_t file;    /* its index in the set */
    size_t first;     /* its first tensor in the set */
    const char *data; /* where the data begins */
    uint64_t data_bytes;
    cdz_error *err;
} header;

/* --- one tensor ---------------------------------------------------------------------------- */

static const struct type_bits *find_type(const cdz_json *dtype)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (cdz_json_eq(dtype, type_bits[i].name)) return &type_bits[i];
    return NULL;
}

static cdz_status unknown_type(header *h, const char *name, const cdz_json *dtype)
{
    const char *names[N_TYPES];
    if (!cdz_json_is(dtype, CDZ_JSON_STRING))
        return cdz_err(h->err, CDZ_E_INPUT,
                       "%s: tensor %.100s: dtype is %s, expected a string such as \"F32\"", h->path,
                       name, cdz_json_type_name(dtype));
    for (size_t i = 0; i < N_TYPES; i++) names[i] = type_bits[i].name;
    const char *near = cdz_nearest_name(dtype->string, names, N_TYPES);
    return cdz_err(h->err, CDZ_E_INPUT,
                   "%s: tensor %.100s: unknown dtype \"%.40s\", expected one such as %s", h->path,
                   name, dtype->string, near ? near : "F32, F16 or BF16");
}

/* A whole number that is not negative. */
static bool read_size(const cdz_json *value, uint64_t *out)
{
    if (!cdz_json_is(value, CDZ_JSON_INT) || value->integer < 0) return false;
    *out = (uint64_t)value->integer;
    return true;
}

/* Reads the shape and multiplies it out to bits. */
static cdz_status read_shape(header *h, cdz_tensor *t, const cdz_json *shape, uint64_t *bits)
{
    if (!cdz_json_is(shape, CDZ_JSON_ARRAY))
        return cdz_err(h->err, CDZ_E_INPUT,
                       "%s: tensor %.100s: shape is %s, expected an array of sizes", h->path,
                       t->name, cdz_json_type_name(shape));
    if (shape->len > CDZ_TENSOR_MAX_DIMS)
        return cdz_err(h->err, CDZ_E_INPUT,
                       "%s: tensor %.100s has %u dimensions, at most %d are possible", h->path,
                       t->name, (unsigned)shape->len, CDZ_TENSOR_MAX_DIMS);
    uint64_t *sizes = cdz_arena_array(&h->set->arena, shape->len, sizeof *sizes);
    if (!sizes) return cdz_err_memory_in(h->err, h->path);
    for (uint32_t i = 0; i < shape->len; i++) {
        if (!read_size(&shape->items[i], &sizes[i]))
            return cdz_err(
                h->err, CDZ_E_INPUT,
                "%s: tensor %.100s: size %u of its shape is not a whole number of at least 0",
                h->path, t->name, (unsigned)i);
        if (__builtin_mul_overflow(*bits, sizes[i], bits))
            return cdz_err(h->err, CDZ_E_INPUT,
                           "%s: tensor %.100s: the product of its shape is too large", h->path,
                           t->name);
    }
    t->shape = sizes;
    t->n_dims = shape->len;
    return CDZ_OK;
}

static cdz_status read_extent(header *h, cdz_tensor *t, const cdz_json *offsets)
{
    uint64_t begin, end;
    if (!cdz_json_is(offsets, CDZ_JSON_ARRAY) || offsets->len != 2 ||
        !read_size(&offsets->items[0], &begin) || !read_size(&offsets->items[1], &end))
        return cdz_err(h->err, CDZ_E_INPUT,
                       "%s: tensor %.100s: data_offsets must be two whole numbers of at least 0",
                       h->path, t->name);
    if (begin > end)
        return cdz_err(h->err, CDZ_E_INPUT,
                       "%s: tensor %.100s begins at byte %" PRIu64 " after its end, %" PRIu64,
                       h->path, t->name, begin, end);
    if (end > h->data_bytes)
        return cdz_err(h->err, CDZ_E_INPUT,
                       "%s: tensor %.100s ends at byte %" PRIu64
                       " of the data, the file has only %" PRIu64 " (is it cut short?)",
                       h->path, t->name, end, h->data_bytes);
    t->data = h->data + begin;
    t->n_bytes = end - begin;
    return CDZ_OK;
}

static cdz_status read_tensor(header *h, const cdz_json_member *member, cdz_tensor *t)
{
    const cdz_json *entry = &member->value;
    t->file = h->file;
    t->name = cdz_arena_strndup(&h->set->arena, member->key, member->key_len);
    if (!t->name) return cdz_err_memory_in(h->err, h->path);
    if (strlen(t->name) != member->key_len)
        return cdz_err(h->err, CDZ_E_INPUT, "%s: tensor name \"%.100s\" goes on after a NUL byte",
                       h->path, t->name);
    if (!cdz_json_is(entry, CDZ_JSON_OBJECT))
        return cdz_err(h->err, CDZ_E_INPUT, "%s: tensor %.100s is %s, expected an object", h->path,
                       t->name, cdz_json_type_name(entry));

    const struct type_bits *type = find_type(cdz_json_get(entry, "dtype"));
    if (!type) return unknown_type(h, t->name, cdz_json_get(entry, "dtype"));
    t->dtype = type->name;
    uint64_t bits = type->bits;
    CDZ_TRY(read_shape(h, t, cdz_json_get(entry, "shape"), &bits));
    CDZ_TRY(read_extent(h, t, cdz_json_get(entry, "data_offsets")));

    char shape[128];
    if (bits % 8)
        return cdz_err(h->err, CDZ_E_INPUT, "%s: tensor %.100s: %s of %s do not fill whole bytes",
                       h->path, t->name, cdz_tensor_shape_text(t, shape, sizeof shape), t->dtype);
    if (t->n_bytes != bits / 8)
        return cdz_err(h->err, CDZ_E_INPUT,
                       "%s: tensor %.100s has %" PRIu64 " bytes, %s of %s are %" PRIu64, h->path,
                       t->name, t->n_bytes, cdz_tensor_shape_text(t, shape, sizeof shape), t->dtype,
                       bits / 8);
    return CDZ_OK;
}

/* --- all of them --------------------------------------------------------------------------- */

static cdz_status check_metadata(header *h, const cdz_json *metadata)
{
    if (!cdz_json_is(metadata, CDZ_JSON_OBJECT))
        return cdz_err(h->err, CDZ_E_INPUT, "%s: __metadata__ is %s, expected an object of strings",
                       h->path, cdz_json_type_name(metadata));
    for (uint32_t i = 0; i < metadata->len; i++)
        if (!cdz_json_is(&metadata->members[i].value, CDZ_JSON_STRING))
            return cdz_err(
                h->err, CDZ_E_INPUT, "%s: __metadata__ \"%.100s\" is %s, expected a string",
                h->path, metadata->members[i].key, cdz_json_type_name(&metadata->members[i].value));
    return CDZ_OK;
}

static int by_place(const void *a, const void *b)
{
    const cdz_tensor *x = a, *y = b;
    if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes);
}

/* The extents must cover the data exactly: no byte twice, none unaccounted for. */
static cdz_status check_cover(header *h, cdz_tensor *items, size_t n)
{
    uint64_t at = 0;
    if (n) qsort(items, n, sizeof *items, by_place);
    for (size_t i = 0; i < n; i++) {
        uint64_t begin = (uint64_t)((const char *)items[i].data - h->data);
        if (begin != at)
            return cdz_err(h->err, CDZ_E_INPUT,
                           "%s: tensor %.100s begins at byte %" PRIu64
                           " of the data, expected %" PRIu64 ": %s",
                           h->path, items[i].name, begin, at,
                           begin > at ? "there is a gap" : "it overlaps another");
        at += items[i].n_bytes;
    }
    if (at != h->data_bytes)
        return cdz_err(h->err, CDZ_E_INPUT,
                       "%s: the tensors end at byte %" PRIu64
                       " of the data, the file goes on to %" PRIu64,
                       h->path, at, h->data_bytes);
    return CDZ_OK;
}

static cdz_status read_tensors(header *h, const cdz_json *document)
{
    cdz_tensors *set = h->set;
    size_t total = set->n_items + document->len;
    cdz_tensor *grown =
        total <= SIZE_MAX / sizeof *grown ? realloc(set->items, (total + 1) * sizeof *grown) : NULL;
    if (!grown) return cdz_err_memory_in(h->err, h->path);
    set->items = grown;
    for (uint32_t i = 0; i < document->len; i++) {
        const cdz_json_member *member = &document->members[i];
        if (strcmp(member->key, "__metadata__") == 0) {
            CDZ_TRY(check_metadata(h, &member->value));
            continue;
        }
        cdz_tensor *t = &set->items[set->n_items];
        *t = (cdz_tensor){0};
        CDZ_TRY(read_tensor(h, member, t));
        set->n_items++;
    }
    return check_cover(h, set->items + h->first, set->n_items - h->first);
}

/* --- the header ---------------------------------------------------------------------------- */

static cdz_status read_length(const cdz_file *file, uint64_t *length, cdz_error *err)
{
    unsigned char bytes[8];
    if (file->size < 8)
        return cdz_err(err, CDZ_E_INPUT, "%s: %" PRIu64 " bytes are too few for a safetensors file",
                       file->path, file->size);
    CDZ_TRY(cdz_file_read_at(file, 0, bytes, sizeof bytes, err));
    *length = 0;
    for (int i = 7; i >= 0; i--) *length = *length << 8 | bytes[i];
    if (*length < 2)
        return cdz_err(err, CDZ_E_INPUT, "%s: the header has %" PRIu64 " bytes, expected at least 2",
                       file->path, *length);
    if (*length > MAX_HEADER)
        return cdz_err(err, CDZ_E_INPUT,
                       "%s: the header claims %" PRIu64 " bytes, at most %" PRIu64
                       " are possible (not a safetensors file?)",
                       file->path, *length, MAX_HEADER);
    if (*length > file->size - 8)
        return cdz_err(err, CDZ_E_INPUT,
                       "%s: the header claims %" PRIu64 " bytes, the file has %" PRIu64
                       " after the length (is it cut short?)",
                       file->path, *length, file->size - 8);
    return CDZ_OK;
}

static cdz_status parse_header(const cdz_file *file, size_t length, cdz_arena *arena,
                               cdz_json *document, cdz_error *err)
{
    static const cdz_json_limits limits = {.depth = 4};
    char *text = malloc(length);
    if (!text) return cdz_err_memory_in(err, file->path);
    arena->limit = file->size > SIZE_MAX / 4 ? SIZE_MAX / 2 : (size_t)file->size * 2 + HEADER_SLACK;
    cdz_status st = cdz_file_read_at(file, 8, text, length, err);
    if (st == CDZ_OK && text[0] != '{')
        st = cdz_err(err, CDZ_E_INPUT, "%s: the header begins with byte 0x%02X, expected '{'",
                     file->path, (unsigned)(unsigned char)text[0]);
    if (st == CDZ_OK) st = cdz_json_parse(text, length, file->path, &limits, arena, document, err);
    free(text);
    return st;
}

static cdz_status read_file(cdz_tensors *set, uint32_t index, cdz_error *err)
{
    const cdz_file *file = &set->files[index];
    uint64_t length = 0;
    CDZ_TRY(read_length(file, &length, err));

    cdz_arena arena = {0};
    cdz_json document;
    cdz_status st = parse_header(file, (size_t)length, &arena, &document, err);
    if (st == CDZ_OK) {
        header h = {
            .path = file->path,
            .set = set,
            .file = index,
            .first = set->n_items,
            .data = (const char *)file->data + 8 + length,
            .data_bytes = file->size - 8 - length,
            .err = err,
        };
        st = read_tensors(&h, &document);
    }
    cdz_arena_free(&arena);
    return st;
}

cdz_status cdz_tensors_add_file(cdz_tensors *tensors, const char *path, cdz_error *err)
{
    cdz_file *files = realloc(tensors->files, ((size_t)tensors->n_files + 1) * sizeof *files);
    if (!files) return cdz_err_memory_in(err, path);
    tensors->files = files;
    CDZ_TRY(cdz_file_map(path, &files[tensors->n_files], err));
    tensors->n_files++;
    return read_file(tensors, tensors->n_files - 1, err);
}

/* --- the set ------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const cdz_tensor *)a)->name, ((const cdz_tensor *)b)->name);
}

cdz_status cdz_tensors_sort(cdz_tensors *tensors, cdz_error *err)
{
    if (tensors->n_items) qsort(tensors->items, tensors->n_items, sizeof *tensors->items, by_name);
    for (size_t i = 1; i < tensors->n_items; i++) {
        const cdz_tensor *a = &tensors->items[i - 1], *b = &tensors->items[i];
        if (strcmp(a->name, b->name) == 0 && a->file == b->file)
            return cdz_err(err, CDZ_E_INPUT, "%s: tensor %.100s is there twice",
                           tensors->files[a->file].path, a->name);
        if (strcmp(a->name, b->name) == 0)
            return cdz_err(err, CDZ_E_INPUT, "tensor %.100s is in %s and in %s", a->name,
                           tensors->files[a->file].path, tensors->files[b->file].path);
    }
    return CDZ_OK;
}

cdz_status cdz_tensors_open(const char *path, cdz_tensors *out, cdz_error *err)
{
    *out = (cdz_tensors){0};
    cdz_status st = cdz_tensors_add_file(out, path, err);
    if (st == CDZ_OK) st = cdz_tensors_sort(out, err);
    if (st != CDZ_OK) cdz_tensors_close(out);
    return st;
}

void cdz_tensors_close(cdz_tensors *tensors)
{
    if (!tensors) return;
    for (uint32_t i = 0; i < tensors->n_files; i++) cdz_file_unmap(&tensors->files[i]);
    free(tensors->files);
    free(tensors->items);
    cdz_arena_free(&tensors->arena);
    *tensors = (cdz_tensors){0};
}

const cdz_tensor *cdz_tensors_find(const cdz_tensors *tensors, const char *name)
{
    const cdz_tensor key = {.name = name};
    return tensors->n_items ? bsearch(&key, tensors->items, tensors->n_items, sizeof key, by_name)
                            : NULL;
}

const char *cdz_tensor_shape_text(const cdz_tensor *tensor, char *buf, size_t size)
{
    size_t at = (size_t)snprintf(buf, size, "[");
    for (uint32_t i = 0; i < tensor->n_dims && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%" PRIu64, i ? ", " : "", tensor->shape[i]);
    if (at < size) snprintf(buf + at, size - at, "]");
    return buf;
}
