/* control.h - control vectors: for each of some layers of a model a direction, in a GGUF file of llama.cpp's form.
 *
 * general.architecture is "controlvector"; controlvector.model_hint names the kind of model they were made of, for people;
 * the tensor direction.N, a vector of float32, is added to what leaves layer N, counted from 0. Layer 0 has none: the form
 * keeps that number free. Several files add up. */
#ifndef CDZ_HOST_LOAD_CONTROL_H
#define CDZ_HOST_LOAD_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define CDZ_CONTROL_ARCHITECTURE "controlvector"
#define CDZ_CONTROL_HINT         "controlvector.model_hint"
#define CDZ_CONTROL_COUNT        "controlvector.layer_count"
#define CDZ_CONTROL_TENSOR       "direction."

/* The sum of the files that were added. */
typedef struct cdz_control {
    uint32_t n_layers, width; /* of the model */
    uint32_t first, last;     /* only these layers count; set by cdz_control_begin to all */
    float *sums;              /* (n_layers, width) owned */
    bool *has;                /* (n_layers) owned: some file has that layer */
} cdz_control;

cdz_status cdz_control_begin(cdz_control *control, uint32_t n_layers, uint32_t width,
                             cdz_error *err);
void cdz_control_free(cdz_control *control); /* zeroed is fine */

/* Adds scale times the directions of a file. Which do not fit the model are refused, but for layers that do not count. */
cdz_status cdz_control_add(cdz_control *control, const char *path, float scale, cdz_error *err);

#endif
