/* tensors.h - the tensors of a model under the names of another format, and how their bytes come
 * about. */
#ifndef CDZ_HOST_CONVERT_TENSORS_H
#define CDZ_HOST_CONVERT_TENSORS_H

#include "base/arena.h"
#include "convert/out.h"
#include "load/model_files.h"
#include "load/quant_types.h"

/* Which row of the source is row i of what is written. */
typedef enum cdz_row_order {
    CDZ_ROWS_AS_THEY_ARE,
    CDZ_ROWS_TO_PAIRS,   /* of a head: halves to neighbours, as GGUF's llama rotates */
    CDZ_ROWS_FROM_PAIRS, /* and back */
    CDZ_ROWS_BY_HEAD,    /* all of q, of k, of v: to the three of each head */
    CDZ_ROWS_TRANSPOSED, /* columns */
} cdz_row_order;

typedef struct cdz_out_tensor {
    const char *name;
    const char *dtype; /* as both formats spell it */
    uint64_t shape[3]; /* row length last */
    uint32_t n_dims;
    uint64_t n_bytes;
    cdz_dtype type;    /* of what is written; CDZ_N_DTYPES: from's bytes, whatever they mean */
    cdz_weight *parts; /* (n_parts), one after the other; (n, k) each */
    size_t n_parts;
    cdz_row_order order;
    size_t heads; /* for the order */
    float add;    /* to every number */
} cdz_out_tensor;

typedef struct cdz_out_tensors {
    cdz_arena arena;
    cdz_out_tensor *items;
    size_t n, cap;
    uint64_t n_bytes;
} cdz_out_tensors;

void cdz_out_tensors_free(cdz_out_tensors *set);
/* Appends a copy; false: out of memory. dtype, n_bytes are filled in from type and shape, unless
 * type is CDZ_N_DTYPES. */
bool cdz_out_tensors_add(cdz_out_tensors *set, const cdz_out_tensor *tensor);
cdz_status cdz_out_tensor_write(const cdz_out_tensor *tensor, cdz_out *out);

/* How another format has a model's tensors. */
typedef struct cdz_naming {
    const char *const *names; /* [CDZ_N_PARTS] */
    bool gguf;                /* experts in one tensor; what is kept, in float32 */
    bool to_pairs, from_pairs;
    bool transposed; /* weights of the layers */
    bool by_head;    /* q, k, v of one tensor */
    float norm_add;
    cdz_dtype type; /* as cdz_convert_options.type */
} cdz_naming;

cdz_status cdz_out_tensors_of(const cdz_weights *weights, const cdz_naming *naming,
                              cdz_out_tensors *out, cdz_convert_report *report, cdz_error *err);

#endif
