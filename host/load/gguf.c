/* gguf.c - reading the file: header, metadata, table of tensors, parts. Looking at what was read
 * is in gguf_values.c.
 *
 * Counts and lengths are believed only as far as bytes are there for them: every one is compared
 * with what is left of the file before anything is allocated or stepped over. */
#include "load/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t MAX_HEADER = (uint64_t)256 << 20; /* bytes before the data */
static const uint64_t FIRST_READ = (uint64_t)1 << 20;

enum {
    MAX_VALUES = 1 << 16,
    MAX_TENSORS = 1 << 16,
    MAX_KEY = 65535, /* bytes; the format's own limit */
    MAX_NAME = 255,  /* of a tensor; the format's own is 64 */
    MAX_DIMS = 4,
    MAX_PARTS = 1024,
    USUAL_ALIGNMENT = 32,
};

/* What reading one part works on: the bytes of the file from its start, read as they are needed. */
typedef struct reader {
    const cdz_file *file;
    cdz_gguf *out;
    uint32_t part; /* its index in out->tensors.files */
    uint8_t *bytes;
    size_t have, at;
    uint32_t version;
    uint64_t n_tensors, n_values, alignment;
    cdz_gguf_value *values;
    size_t n_read; /* values so far; their data are offsets until the end */
    cdz_error *err;
} reader;

/* --- bytes --------------------------------------------------------------------------------- */

static uint64_t left(const reader *r)
{
    return r->file->size - r->at;
}

static cdz_status cut_short(reader *r, const char *what, uint64_t n)
{
    return cdz_err(r->err, CDZ_E_INPUT,
                   "%s: %s at byte %zu takes %" PRIu64 " bytes, the file has %" PRIu64
                   " left (is it cut short?)",
                   r->file->path, what, r->at, n, left(r));
}

/* Makes the next n bytes readable. */
static cdz_status need(reader *r, uint64_t n, const char *what)
{
    if (n > left(r)) return cut_short(r, what, n);
    const uint64_t end = r->at + n;
    if (end <= r->have) return CDZ_OK;
    if (end > MAX_HEADER)
        return cdz_err(r->err, CDZ_E_LIMIT,
                       "%s: has more than %" PRIu64 " bytes before its tensors' data",
                       r->file->path, MAX_HEADER);
    uint64_t want = r->have ? (uint64_t)r->have * 2 : FIRST_READ;
    if (want < end) want = end;
    if (want > r->file->size) want = r->file->size;
    uint8_t *grown = realloc(r->bytes, (size_t)want);
    if (!grown) return cdz_err_memory_in(r->err, r->file->path);
    r->bytes = grown;
    CDZ_TRY(cdz_file_read_at(r->file, r->have, grown + r->have, (size_t)want - r->have, r->err));
    r->have = (size_t)want;
    return CDZ_OK;
}

static cdz_status read_number(reader *r, size_t bytes, uint64_t *out, const char *what)
{
    CDZ_TRY(need(r, bytes, what));
    *out = 0;
    for (size_t b = bytes; b-- > 0;) *out = *out << 8 | r->bytes[r->at + b];
    r->at += bytes;
    return CDZ_OK;
}

static cdz_status skip_string(reader *r, const char *what)
{
    uint64_t len;
    CDZ_TRY(read_number(r, 8, &len, what));
    CDZ_TRY(need(r, len, what));
    r->at += (size_t)len;
    return CDZ_OK;
}

/* A name of printable ASCII, copied. */
static cdz_status read_name(reader *r, size_t max, const char *what, const char **out)
{
    uint64_t len;
    CDZ_TRY(read_number(r, 8, &len, what));
    CDZ_TRY(need(r, len, what));
    if (len == 0 || len > max)
        return cdz_err(r->err, CDZ_E_INPUT, "%s: %s of %" PRIu64 " bytes, expected 1 to %zu",
                       r->file->path, what, len, max);
    const char *text = (const char *)r->bytes + r->at;
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return cdz_err(r->err, CDZ_E_INPUT, "%s: %s has byte 0x%02X, expected printable ASCII",
                           r->file->path, what, (unsigned)(unsigned char)text[i]);
    *out = cdz_arena_strndup(&r->out->tensors.arena, text, (size_t)len);
    r->at += (size_t)len;
    return *out ? CDZ_OK : cdz_err_memory_in(r->err, r->file->path);
}

/* --- metadata ------------------------------------------------------------------------------ */

static cdz_status read_type(reader *r, const cdz_gguf_value *v, cdz_gguf_type *out)
{
    uint64_t type;
    CDZ_TRY(read_number(r, 4, &type, "a type"));
    if (type >= CDZ_GGUF_N_TYPES)
        return cdz_err(r->err, CDZ_E_INPUT, "%s: %.100s has type %" PRIu64 ", expected 0 to %d",
                       r->file->path, v->key, type, CDZ_GGUF_N_TYPES - 1);
    *out = (cdz_gguf_type)type;
    return CDZ_OK;
}

static cdz_status read_array(reader *r, cdz_gguf_value *v)
{
    v->is_array = true;
    CDZ_TRY(read_type(r, v, &v->type));
    if (v->type == CDZ_GGUF_ARRAY)
        return cdz_err(r->err, CDZ_E_UNSUPPORTED, "%s: %.100s is an array of arrays", r->file->path,
                       v->key);
    CDZ_TRY(read_number(r, 8, &v->n, v->key));
    const size_t least = v->type == CDZ_GGUF_STRING ? 8 : cdz_gguf_type_bytes(v->type);
    if (v->n > left(r) / least)
        return cdz_err(r->err, CDZ_E_INPUT,
                       "%s: %.100s claims %" PRIu64 " elements, the file has %" PRIu64
                       " bytes left (is it cut short?)",
                       r->file->path, v->key, v->n, left(r));
    return CDZ_OK;
}

static cdz_status check_bools(reader *r, const cdz_gguf_value *v)
{
    for (uint64_t i = 0; i < v->n; i++)
        if (r->bytes[r->at + i] > 1)
            return cdz_err(r->err, CDZ_E_INPUT, "%s: %.100s is %u, expected 0 or 1 for a bool",
                           r->file->path, v->key, (unsigned)r->bytes[r->at + i]);
    return CDZ_OK;
}

static cdz_status read_value(reader *r, cdz_gguf_value *v)
{
    *v = (cdz_gguf_value){.n = 1};
    CDZ_TRY(read_name(r, MAX_KEY, "a key", &v->key));
    CDZ_TRY(read_type(r, v, &v->type));
    if (v->type == CDZ_GGUF_ARRAY) CDZ_TRY(read_array(r, v));
    const size_t begin = r->at;
    if (v->type == CDZ_GGUF_STRING) {
        for (uint64_t i = 0; i < v->n; i++) CDZ_TRY(skip_string(r, v->key));
    } else {
        CDZ_TRY(need(r, v->n * cdz_gguf_type_bytes(v->type), v->key));
        if (v->type == CDZ_GGUF_BOOL) CDZ_TRY(check_bools(r, v));
        r->at += (size_t)v->n * cdz_gguf_type_bytes(v->type);
    }
    v->data = (const uint8_t *)(uintptr_t)begin;
    return CDZ_OK;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const cdz_gguf_value *)a)->key, ((const cdz_gguf_value *)b)->key);
}

static cdz_status read_values(reader *r)
{
    size_t cap = 0;
    while (r->n_read < r->n_values) {
        if (r->n_read == cap) {
            cap = cap ? cap * 2 : 64;
            cdz_gguf_value *grown = realloc(r->values, cap * sizeof *grown);
            if (!grown) return cdz_err_memory_in(r->err, r->file->path);
            r->values = grown;
        }
        CDZ_TRY(read_value(r, &r->values[r->n_read]));
        r->n_read++;
    }
    if (r->n_read) qsort(r->values, r->n_read, sizeof *r->values, by_key);
    for (size_t i = 1; i < r->n_read; i++)
        if (strcmp(r->values[i - 1].key, r->values[i].key) == 0)
            return cdz_err(r->err, CDZ_E_INPUT, "%s: %.100s is there twice", r->file->path,
                           r->values[i].key);
    return CDZ_OK;
}

/* --- the table of tensors ------------------------------------------------------------------ */

static cdz_status read_shape(reader *r, cdz_tensor *t, uint64_t *elements)
{
    uint64_t n_dims;
    CDZ_TRY(read_number(r, 4, &n_dims, t->name));
    if (n_dims == 0 || n_dims > MAX_DIMS)
        return cdz_err(r->err, CDZ_E_INPUT,
                       "%s: tensor %s has %" PRIu64 " dimensions, expected 1 to %d", r->file->path,
                       t->name, n_dims, MAX_DIMS);
    uint64_t *shape = cdz_arena_array(&r->out->tensors.arena, n_dims, sizeof *shape);
    if (!shape) return cdz_err_memory_in(r->err, r->file->path);
    *elements = 1;
    for (size_t i = (size_t)n_dims; i-- > 0;) { /* the file has the row length first */
        CDZ_TRY(read_number(r, 8, &shape[i], t->name));
        if (shape[i] > INT64_MAX || __builtin_mul_overflow(*elements, shape[i], elements))
            return cdz_err(r->err, CDZ_E_INPUT,
                           "%s: tensor %s: the product of its shape is too large", r->file->path,
                           t->name);
    }
    t->n_dims = (uint32_t)n_dims;
    t->shape = shape;
    return CDZ_OK;
}

static cdz_status read_tensor_type(reader *r, cdz_tensor *t, uint64_t elements)
{
    uint64_t number;
    CDZ_TRY(read_number(r, 4, &number, t->name));
    const cdz_gguf_layout *layout = cdz_gguf_layout_number((uint32_t)number);
    if (!layout)
        return cdz_err(r->err, CDZ_E_INPUT, "%s: tensor %s has type %" PRIu64 ", which is none",
                       r->file->path, t->name, number);
    const uint64_t row = t->shape[t->n_dims - 1];
    if (row % layout->n_block)
        return cdz_err(r->err, CDZ_E_INPUT,
                       "%s: tensor %s has rows of %" PRIu64 ", %s comes in blocks of %u",
                       r->file->path, t->name, row, layout->name, (unsigned)layout->n_block);
    t->dtype = layout->name;
    if (__builtin_mul_overflow(elements / layout->n_block, (uint64_t)layout->n_bytes, &t->n_bytes))
        return cdz_err(r->err, CDZ_E_INPUT, "%s: tensor %s: the product of its shape is too large",
                       r->file->path, t->name);
    return CDZ_OK;
}

/* Its place is an offset into the data until place_tensors. */
static cdz_status read_tensor(reader *r, cdz_tensor *t)
{
    uint64_t elements, offset;
    *t = (cdz_tensor){.file = r->part};
    CDZ_TRY(read_name(r, MAX_NAME, "a tensor's name", &t->name));
    CDZ_TRY(read_shape(r, t, &elements));
    CDZ_TRY(read_tensor_type(r, t, elements));
    CDZ_TRY(read_number(r, 8, &offset, t->name));
    if (offset % r->alignment)
        return cdz_err(r->err, CDZ_E_INPUT,
                       "%s: tensor %s begins at byte %" PRIu64
                       " of the data, expected a multiple of %" PRIu64,
                       r->file->path, t->name, offset, r->alignment);
    t->data = (const void *)(uintptr_t)offset;
    return CDZ_OK;
}

static int by_place(const void *a, const void *b)
{
    const cdz_tensor *x = a, *y = b;
    if (x->data != y->data) return (uintptr_t)x->data < (uintptr_t)y->data ? -1 : 1;
    return (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes);
}

/* Gaps are allowed, for padding; a byte in two tensors is not. */
static cdz_status check_places(reader *r, cdz_tensor *items, size_t n, uint64_t data_bytes)
{
    if (n) qsort(items, n, sizeof *items, by_place);
    uint64_t end = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t begin = (uintptr_t)items[i].data;
        if (begin > data_bytes || items[i].n_bytes > data_bytes - begin)
            return cdz_err(r->err, CDZ_E_INPUT,
                           "%s: tensor %s takes %" PRIu64 " bytes from byte %" PRIu64
                           " of the data on, the file has only %" PRIu64 " (is it cut short?)",
                           r->file->path, items[i].name, items[i].n_bytes, begin, data_bytes);
        if (begin < end)
            return cdz_err(r->err, CDZ_E_INPUT, "%s: tensor %s overlaps tensor %s", r->file->path,
                           items[i].name, items[i - 1].name);
        end = begin + items[i].n_bytes;
    }
    return CDZ_OK;
}

static cdz_status place_tensors(reader *r, cdz_tensor *items, size_t n)
{
    const uint64_t padding = (r->alignment - r->at % r->alignment) % r->alignment;
    if (n == 0) return CDZ_OK;
    if (padding > left(r)) return cut_short(r, "the padding before the data", padding);
    const uint64_t start = r->at + padding;
    CDZ_TRY(check_places(r, items, n, r->file->size - start));
    for (size_t i = 0; i < n; i++)
        items[i].data = (const char *)r->file->data + start + (uintptr_t)items[i].data;
    return CDZ_OK;
}

static cdz_status read_tensors(reader *r)
{
    cdz_tensors *set = &r->out->tensors;
    const size_t n = (size_t)r->n_tensors, total = set->n_items + n; /* both are bounded */
    const uint64_t least = 8 + 1 + 4 + 8 + 4 + 8;
    if (n > left(r) / least) return cut_short(r, "the table of tensors", n * least);
    cdz_tensor *grown = realloc(set->items, (total + 1) * sizeof *grown);
    if (!grown) return cdz_err_memory_in(r->err, r->file->path);
    set->items = grown;
    cdz_tensor *items = grown + set->n_items;
    for (size_t i = 0; i < n; i++) CDZ_TRY(read_tensor(r, &items[i]));
    CDZ_TRY(place_tensors(r, items, n));
    set->n_items = total;
    return CDZ_OK;
}

/* --- one part ------------------------------------------------------------------------------ */

static cdz_status wrong_magic(reader *r)
{
    const uint8_t *m = r->bytes;
    if (memcmp(m, "FUGG", 4) == 0)
        return cdz_err(r->err, CDZ_E_UNSUPPORTED, "%s: is a big-endian GGUF file", r->file->path);
    if (memcmp(m, "lmgg", 4) == 0 || memcmp(m, "tjgg", 4) == 0 || memcmp(m, "fmgg", 4) == 0 ||
        memcmp(m, "algg", 4) == 0)
        return cdz_err(r->err, CDZ_E_UNSUPPORTED,
                       "%s: is of the GGML formats before GGUF; convert it", r->file->path);
    return cdz_err(r->err, CDZ_E_INPUT,
                   "%s: begins with bytes %02X %02X %02X %02X, expected \"GGUF\"", r->file->path,
                   (unsigned)m[0], (unsigned)m[1], (unsigned)m[2], (unsigned)m[3]);
}

static cdz_status read_start(reader *r)
{
    uint64_t version;
    CDZ_TRY(need(r, 24, "the header"));
    if (memcmp(r->bytes, "GGUF", 4) != 0) return wrong_magic(r);
    r->at = 4;
    CDZ_TRY(read_number(r, 4, &version, "the version"));
    if (version > 0xffff && (version & 0xffff) == 0)
        return cdz_err(r->err, CDZ_E_UNSUPPORTED, "%s: is a big-endian GGUF file", r->file->path);
    if (version != 2 && version != 3)
        return cdz_err(r->err, CDZ_E_UNSUPPORTED,
                       "%s: is of GGUF version %" PRIu64 "; supported are 2 and 3", r->file->path,
                       version);
    r->version = (uint32_t)version;
    CDZ_TRY(read_number(r, 8, &r->n_tensors, "the number of tensors"));
    CDZ_TRY(read_number(r, 8, &r->n_values, "the number of keys"));
    if (r->n_tensors > MAX_TENSORS || r->n_values > MAX_VALUES)
        return cdz_err(r->err, CDZ_E_LIMIT,
                       "%s: claims %" PRIu64 " tensors and %" PRIu64 " keys, at most %d of each are "
                       "possible",
                       r->file->path, r->n_tensors, r->n_values, MAX_TENSORS);
    return CDZ_OK;
}

static const cdz_gguf_value *find_read(const reader *r, const char *key)
{
    const cdz_gguf_value wanted = {.key = key};
    return r->n_read ? bsearch(&wanted, r->values, r->n_read, sizeof wanted, by_key) : NULL;
}

static cdz_status read_alignment(reader *r)
{
    const cdz_gguf_value *v = find_read(r, "general.alignment");
    r->alignment = USUAL_ALIGNMENT;
    if (!v) return CDZ_OK;
    cdz_gguf_value copy = *v;
    copy.data = r->bytes + (uintptr_t)v->data;
    if (v->is_array || v->type != CDZ_GGUF_U32)
        return cdz_err(r->err, CDZ_E_INPUT, "%s: general.alignment is not of type uint32",
                       r->file->path);
    r->alignment = (uint64_t)cdz_gguf_int_at(&copy, 0);
    if (r->alignment == 0 || r->alignment > 1 << 20 || (r->alignment & (r->alignment - 1)))
        return cdz_err(r->err, CDZ_E_INPUT,
                       "%s: general.alignment is %" PRIu64 ", expected a power of two up to 1048576",
                       r->file->path, r->alignment);
    return CDZ_OK;
}

static cdz_status read_part(reader *r)
{
    CDZ_TRY(read_start(r));
    CDZ_TRY(read_values(r));
    CDZ_TRY(read_alignment(r));
    return read_tensors(r);
}

static cdz_status add_part(cdz_gguf *g, const char *path, reader *r)
{
    cdz_tensors *set = &g->tensors;
    cdz_file *files = realloc(set->files, ((size_t)set->n_files + 1) * sizeof *files);
    if (!files) return cdz_err_memory_in(r->err, path);
    set->files = files;
    CDZ_TRY(cdz_file_map(path, &files[set->n_files], r->err));
    r->file = &files[set->n_files];
    r->part = set->n_files++;
    r->out = g;
    CDZ_TRY(read_part(r));
    for (size_t i = 0; i < r->n_read; i++)
        r->values[i].data = r->bytes + (uintptr_t)r->values[i].data;
    return CDZ_OK;
}

static void drop_reader(reader *r)
{
    free(r->bytes);
    free(r->values);
}

/* --- split files --------------------------------------------------------------------------- */

/* The number of a part and how many there are; 0 of 1 for a whole file. */
static cdz_status read_split(const cdz_gguf *g, uint64_t *number, uint64_t *count, cdz_error *err)
{
    *number = 0;
    *count = 1;
    CDZ_TRY(cdz_gguf_uint(g, "split.no", MAX_PARTS - 1, number, err));
    CDZ_TRY(cdz_gguf_uint(g, "split.count", MAX_PARTS, count, err));
    if (*count == 0) *count = 1; /* as tools write it for a file that was not split */
    return CDZ_OK;
}

/* NAME-00001-of-00003.gguf: where the number stands; NULL when the name is not so. */
static char *part_number(char *path, uint64_t count)
{
    static const char ending[] = "-00000-of-00000.gguf";
    const size_t len = strlen(path), tail = sizeof ending - 1;
    char expected[40];
    snprintf(expected, sizeof expected, "-00001-of-%05" PRIu64 ".gguf", count);
    if (len < tail || strcmp(path + len - tail, expected) != 0) return NULL;
    return path + len - tail + 1;
}

static cdz_status check_part(const reader *r, uint64_t number, uint64_t count)
{
    const cdz_gguf part = {.path = r->file->path, .values = r->values, .n_values = r->n_read};
    uint64_t own, of;
    CDZ_TRY(read_split(&part, &own, &of, r->err));
    if (own == number && of == count) return CDZ_OK;
    return cdz_err(r->err, CDZ_E_INPUT,
                   "%s: says it is part %" PRIu64 " of %" PRIu64 ", expected %" PRIu64
                   " of %" PRIu64,
                   r->file->path, own + 1, of, number + 1, count);
}

static cdz_status add_parts(cdz_gguf *g, char *path, uint64_t count, cdz_error *err)
{
    char *number = part_number(path, count), digits[24];
    if (!number)
        return cdz_err(err, CDZ_E_INPUT,
                       "%s: is the first of %" PRIu64
                       " parts, expected a name that ends in -00001-of-%05" PRIu64 ".gguf",
                       path, count, count);
    for (uint64_t i = 1; i < count; i++) {
        reader r = {.err = err};
        snprintf(digits, sizeof digits, "%05" PRIu64, i + 1);
        memcpy(number, digits, 5);
        cdz_status st = add_part(g, path, &r);
        if (st == CDZ_OK) st = check_part(&r, i, count);
        drop_reader(&r);
        CDZ_TRY(st);
    }
    return CDZ_OK;
}

static cdz_status add_other_parts(cdz_gguf *g, cdz_error *err)
{
    uint64_t number, count, n_tensors = g->tensors.n_items;
    CDZ_TRY(read_split(g, &number, &count, err));
    if (number != 0)
        return cdz_err(err, CDZ_E_INPUT,
                       "%s: is part %" PRIu64 " of %" PRIu64 "; name the first one", g->path,
                       number + 1, count);
    if (count == 1) return CDZ_OK;
    char *path = strdup(g->path);
    cdz_status st = path ? add_parts(g, path, count, err) : cdz_err_memory_in(err, g->path);
    free(path);
    CDZ_TRY(st);
    n_tensors = g->tensors.n_items;
    CDZ_TRY(cdz_gguf_uint(g, "split.tensors.count", INT32_MAX, &n_tensors, err));
    if (n_tensors == g->tensors.n_items) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT, "%s: split.tensors.count is %" PRIu64 ", the parts have %zu",
                   g->path, n_tensors, g->tensors.n_items);
}

/* --- outside ------------------------------------------------------------------------------- */

bool cdz_gguf_is(const char *path)
{
    cdz_file file;
    char magic[4];
    if (cdz_file_map(path, &file, NULL) != CDZ_OK) return false;
    const bool is = file.size >= sizeof magic &&
                    cdz_file_read_at(&file, 0, magic, sizeof magic, NULL) == CDZ_OK &&
                    memcmp(magic, "GGUF", sizeof magic) == 0;
    cdz_file_unmap(&file);
    return is;
}

static cdz_status open_all(cdz_gguf *g, const char *path, cdz_error *err)
{
    reader r = {.err = err};
    g->path = cdz_arena_strdup(&g->tensors.arena, path);
    if (!g->path) return cdz_err_memory_in(err, path);
    const cdz_status st = add_part(g, path, &r);
    g->header = r.bytes;
    g->values = r.values;
    g->n_values = st == CDZ_OK ? r.n_read : 0;
    g->version = r.version;
    CDZ_TRY(st);
    CDZ_TRY(add_other_parts(g, err));
    return cdz_tensors_sort(&g->tensors, err);
}

cdz_status cdz_gguf_open(const char *path, cdz_gguf *out, cdz_error *err)
{
    *out = (cdz_gguf){0};
    const cdz_status st = open_all(out, path, err);
    if (st != CDZ_OK) cdz_gguf_close(out);
    return st;
}

void cdz_gguf_close(cdz_gguf *gguf)
{
    if (!gguf) return;
    cdz_tensors_close(&gguf->tensors);
    free(gguf->values);
    free(gguf->header);
    *gguf = (cdz_gguf){0};
}
