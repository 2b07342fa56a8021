/* safetensors.h - the tensors of one .safetensors file, or of the shards that an index names:
 * mapped, checked, found by name.
 *
 * A file is a little-endian uint64 N, N bytes of JSON, then the data. The header is checked to
 * the byte before anything points into the data: it must be valid JSON beginning with '{' with
 * no name twice, and every tensor's shape times its type must give its extent, the extents
 * following each other from 0 to the end without gap or overlap. Nothing of the caller's is
 * touched on failure beyond leaving the set empty. */
#ifndef CDZ_HOST_LOAD_SAFETENSORS_H
#define CDZ_HOST_LOAD_SAFETENSORS_H

#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"

enum {
    CDZ_TENSOR_MAX_DIMS = 64, /* as torch */
};

typedef struct cdz_tensor {
    const char *name;  /* NUL-terminated */
    const char *dtype; /* as the format spells it: "F32", "BF16", ... */
    uint32_t file;     /* index into files */
    uint32_t n_dims;
    const uint64_t *shape; /* (n_dims) */
    const void *data;      /* into the mapping, perhaps unaligned; never NULL */
    uint64_t n_bytes;
} cdz_tensor;

/* Zeroed: empty. */
typedef struct cdz_tensors {
    cdz_arena arena;
    cdz_file *files;
    uint32_t n_files;
    cdz_tensor *items; /* by name, ascending */
    size_t n_items;
} cdz_tensors;

cdz_status cdz_tensors_open(const char *path, cdz_tensors *out, cdz_error *err);

/* index_path: a model.safetensors.index.json. Its shards lie in the same folder: plain file
 * names ending in .safetensors. Every name of weight_map must be in the shard given, and no name
 * in two shards. */
cdz_status cdz_tensors_open_shards(const char *index_path, cdz_tensors *out, cdz_error *err);

void cdz_tensors_close(cdz_tensors *tensors); /* zeroed or NULL is fine */

/* The two steps of opening: add files, then sort and refuse names that two of them hold. */
cdz_status cdz_tensors_add_file(cdz_tensors *tensors, const char *path, cdz_error *err);
cdz_status cdz_tensors_sort(cdz_tensors *tensors, cdz_error *err);

const cdz_tensor *cdz_tensors_find(const cdz_tensors *tensors, const char *name); /* NULL: absent */

/* "[2, 3]", for sentences; cut to size. Returns buf. */
const char *cdz_tensor_shape_text(const cdz_tensor *tensor, char *buf, size_t size);

#endif
