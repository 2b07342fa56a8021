/* gguf_model.h - a GGUF file's metadata as the config.json it was made from, and its tensors as
 * the weights of that architecture. */
#ifndef CDZ_HOST_LOAD_GGUF_MODEL_H
#define CDZ_HOST_LOAD_GGUF_MODEL_H

#include "load/gguf.h"
#include "load/model_files.h"

/* Fills in w's config, arch and tensors from an opened file, whose tensors become w's. What GGUF
 * stores otherwise than a folder does is undone in the description, so that tensors stay mapped:
 * rotation in neighbouring pairs, gemma's norms with the 1 added, weights already transposed. */
cdz_status cdz_gguf_to_weights(cdz_gguf *gguf, cdz_weights *w, cdz_error *err);

/* What parts are called, [CDZ_N_PARTS]; '@' is an expert's number, after its tensor was split. */
const char *const *cdz_gguf_part_names(void);

#endif
