/* npy.h - arrays in NumPy's .npy format, float32 of version 1.0 to 3.0 in, 1.0 out; little-endian, C order. */
#ifndef CDZ_HOST_LOAD_NPY_H
#define CDZ_HOST_LOAD_NPY_H

#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"

enum { CDZ_NPY_MAX_DIMS = 8 };

typedef struct cdz_npy {
    cdz_file file;
    uint32_t n_dims;
    uint64_t shape[CDZ_NPY_MAX_DIMS];
    const void *data; /* into the mapping, perhaps unaligned: shape's product of float32 */
} cdz_npy;

cdz_status cdz_npy_open(const char *path, cdz_npy *out, cdz_error *err);
void cdz_npy_close(cdz_npy *npy); /* zeroed is fine */

/* The header of an array; its values follow. type: as the format spells it, "<f4". */
void cdz_npy_put_header(cdz_buf *out, const char *type, const uint64_t *shape, uint32_t n_dims);

#endif
