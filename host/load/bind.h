/* bind.h - ties every weight of an architecture to a tensor of the opened files. */
#ifndef CDZ_HOST_LOAD_BIND_H
#define CDZ_HOST_LOAD_BIND_H

#include "load/model_files.h"

/* w: arch and tensors are there; the weights and facts are filled in. source: the weight file or
 * the index of shards, for sentences. */
cdz_status cdz_weights_bind(cdz_weights *w, const char *source, cdz_error *err);

/* The head for values, if the files have one; used is by tensor. may_be_tied: there is a head for tokens, or the embedding may
 * serve as one. A classifier's file without its head is refused. */
cdz_status cdz_value_head_read(cdz_weights *w, const char *source, bool *used, bool may_be_tied,
                               cdz_error *err);

/* The type that kernels read it as; false: they read none such. */
bool cdz_tensor_dtype(const cdz_tensor *t, cdz_dtype *out);

#endif
