/* gguf.h - a GGUF file (version 2 or 3), or the parts of a split one: metadata by key, tensors
 * mapped and found by name. What the keys mean is gguf_model.h's and token/gguf.h's.
 *
 * A file is "GGUF", a version, two counts, the metadata, the table of tensors, padding, the data.
 * Everything before the data is read, not mapped, into a copy whose size the bytes that are there
 * bound, whatever the counts claim; a tensor is a view of the mapping, checked to lie inside it
 * and to overlap no other. */
#ifndef CDZ_HOST_LOAD_GGUF_H
#define CDZ_HOST_LOAD_GGUF_H

#include "load/safetensors.h"

typedef enum cdz_gguf_type {
    CDZ_GGUF_U8,
    CDZ_GGUF_I8,
    CDZ_GGUF_U16,
    CDZ_GGUF_I16,
    CDZ_GGUF_U32,
    CDZ_GGUF_I32,
    CDZ_GGUF_F32,
    CDZ_GGUF_BOOL,
    CDZ_GGUF_STRING,
    CDZ_GGUF_ARRAY,
    CDZ_GGUF_U64,
    CDZ_GGUF_I64,
    CDZ_GGUF_F64,
    CDZ_GGUF_N_TYPES,
} cdz_gguf_type;

typedef struct cdz_gguf_value {
    const char *key;
    cdz_gguf_type type; /* of an array's elements, when it is one */
    bool is_array;
    uint64_t n;          /* elements; 1 when it is no array */
    const uint8_t *data; /* little-endian, packed; a string is its uint64 length and its bytes */
} cdz_gguf_value;

typedef struct cdz_gguf {
    const char *path; /* of the first part */
    uint32_t version;
    cdz_gguf_value *values; /* by key, ascending; of the first part */
    size_t n_values;
    cdz_tensors tensors; /* of all parts; shapes as torch writes them, the row length last */
    uint8_t *header;     /* the first part's, what values point into */
} cdz_gguf;

/* Does the file begin as a GGUF file does? A file that cannot be read does not. */
bool cdz_gguf_is(const char *path);

/* path: a whole file, or the first part of a split one (NAME-00001-of-00003.gguf), whose others
 * lie beside it. The path is kept as given. */
cdz_status cdz_gguf_open(const char *path, cdz_gguf *out, cdz_error *err);
void cdz_gguf_close(cdz_gguf *gguf); /* zeroed or NULL is fine */

const cdz_gguf_value *cdz_gguf_find(const cdz_gguf *gguf, const char *key); /* NULL: absent */

/* Reading a value. Absent is CDZ_OK with the output untouched; one of another type is a sentence. */
cdz_status cdz_gguf_uint(const cdz_gguf *gguf, const char *key, uint64_t max, uint64_t *out,
                         cdz_error *err);
cdz_status cdz_gguf_real(const cdz_gguf *gguf, const char *key, double *out, cdz_error *err);
cdz_status cdz_gguf_bool(const cdz_gguf *gguf, const char *key, bool *out, cdz_error *err);
cdz_status cdz_gguf_string(const cdz_gguf *gguf, const char *key, const char **text, size_t *len,
                           cdz_error *err); /* not NUL-terminated */
/* An array of that type; a count of 0 where it is absent. */
cdz_status cdz_gguf_array(const cdz_gguf *gguf, const char *key, cdz_gguf_type type,
                          const cdz_gguf_value **out, cdz_error *err);

/* Element i of a numeric or boolean value, which may be an array. */
int64_t cdz_gguf_int_at(const cdz_gguf_value *value, uint64_t i);
double cdz_gguf_real_at(const cdz_gguf_value *value, uint64_t i);
bool cdz_gguf_is_integer(cdz_gguf_type type);

/* Copies a vector of n float32, which the tensor must be. */
cdz_status cdz_gguf_floats(const cdz_gguf *gguf, const cdz_tensor *tensor, float *to, size_t n,
                           cdz_error *err);

/* The string at *at of an array of strings; *at moves behind it. Begin with value->data. */
const char *cdz_gguf_next_string(const uint8_t **at, size_t *len);

/* What a tensor type weighs: n_block elements in n_bytes. NULL for a number of no type. */
typedef struct cdz_gguf_layout {
    uint32_t number;
    const char *name;
    uint32_t n_block, n_bytes;
} cdz_gguf_layout;
const cdz_gguf_layout *cdz_gguf_layout_number(uint32_t number);
const cdz_gguf_layout *cdz_gguf_layout_name(const char *name);

size_t cdz_gguf_type_bytes(cdz_gguf_type type); /* of a value; 0 for strings and arrays */

#endif
