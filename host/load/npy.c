/* npy.c - the .npy header: magic, version, length, and a Python dictionary of three known keys. */
#include "load/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[] = "\x93NUMPY";
enum { MAGIC = 6, LONGEST = 65535 };

void cdz_npy_close(cdz_npy *npy)
{
    cdz_file_unmap(&npy->file);
    *npy = (cdz_npy){0};
}

/* Where the dictionary lies in the file. */
static bool find_header(const cdz_file *file, const char **text, size_t *len)
{
    const unsigned char *at = file->data;
    if (file->size < 10 || memcmp(at, magic, MAGIC) != 0 || at[6] < 1 || at[6] > 3) return false;
    const size_t start = at[6] == 1 ? 10 : 12;
    if (file->size < start) return false;
    *len = (size_t)at[8] | (size_t)at[9] << 8;
    if (at[6] > 1) *len |= (size_t)at[10] << 16 | (size_t)at[11] << 24;
    *text = (const char *)at + start;
    return *len <= LONGEST && *len <= file->size - start;
}

/* The text of a key's value, or NULL. */
static const char *value_of(const char *header, const char *key)
{
    const char *at = strstr(header, key);
    if (!at) return NULL;
    at += strlen(key);
    return at + strspn(at, " ");
}

/* "(2, 3)", "(3,)", "()" */
static bool read_shape(const char *at, cdz_npy *out)
{
    if (!at || *at++ != '(') return false;
    for (;;) {
        at += strspn(at, " ");
        if (*at == ')') return true;
        if (*at < '0' || *at > '9' || out->n_dims == CDZ_NPY_MAX_DIMS) return false;
        char *end;
        errno = 0;
        out->shape[out->n_dims++] = strtoull(at, &end, 10);
        if (errno == ERANGE) return false;
        at = end + strspn(end, " ");
        if (*at == ',') at++;
    }
}

static bool fits(const cdz_npy *npy, uint64_t bytes)
{
    uint64_t need = sizeof(float);
    for (uint32_t i = 0; i < npy->n_dims; i++)
        if (__builtin_mul_overflow(need, npy->shape[i], &need)) return false;
    return need == bytes;
}

static cdz_status read_header(const char *path, cdz_npy *out, cdz_error *err)
{
    const char *text;
    size_t len;
    if (!find_header(&out->file, &text, &len))
        return cdz_err(err, CDZ_E_INPUT, "%s: not a .npy file of version 1 to 3", path);
    char *header = calloc(1, len + 1);
    if (!header) return cdz_err(err, CDZ_E_NOMEM, "out of memory for the header of %s", path);
    memcpy(header, text, len);
    const char *type = value_of(header, "'descr':"), *order = value_of(header, "'fortran_order':");
    const bool floats = type && strncmp(type, "'<f4'", 5) == 0;
    const bool rows = order && strncmp(order, "False", 5) == 0;
    const bool shaped = read_shape(value_of(header, "'shape':"), out);
    free(header);
    out->data = text + len;
    const uint64_t left = out->file.size - (uint64_t)(text + len - (const char *)out->file.data);
    if (!floats || !rows)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "%s: expected little-endian float32 ('<f4') in C order; save it with "
                       "array.astype('<f4')",
                       path);
    if (!shaped || !fits(out, left))
        return cdz_err(err, CDZ_E_INPUT,
                       "%s: %" PRIu64 " bytes of data do not fit the shape in its header", path,
                       left);
    return CDZ_OK;
}

cdz_status cdz_npy_open(const char *path, cdz_npy *out, cdz_error *err)
{
    *out = (cdz_npy){0};
    CDZ_TRY(cdz_file_map(path, &out->file, err));
    const cdz_status status = read_header(path, out, err);
    if (status != CDZ_OK) cdz_npy_close(out);
    return status;
}

void cdz_npy_put_header(cdz_buf *out, const char *type, const uint64_t *shape, uint32_t n_dims)
{
    char text[256];
    int len =
        snprintf(text, sizeof text, "{'descr': '%.8s', 'fortran_order': False, 'shape': (", type);
    for (uint32_t i = 0; i < n_dims && i < CDZ_NPY_MAX_DIMS; i++)
        len += snprintf(text + len, sizeof text - (size_t)len, "%" PRIu64 "%s", shape[i],
                        n_dims == 1      ? ","
                        : i + 1 < n_dims ? ", "
                                         : "");
    len += snprintf(text + len, sizeof text - (size_t)len, "), }");
    /* Ten bytes, the dictionary, spaces and a newline fill whole 64s: the values begin aligned. */
    const int padded = (10 + len + 1 + 63) / 64 * 64 - 10;
    const unsigned char start[4] = {1, 0, (unsigned char)padded, (unsigned char)(padded >> 8)};
    cdz_buf_add(out, magic, MAGIC);
    cdz_buf_add(out, start, sizeof start);
    cdz_buf_printf(out, "%s%*s\n", text, padded - len - 1, "");
}
