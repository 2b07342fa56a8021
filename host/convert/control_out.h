/* control_out.h - a file of control vectors (load/control.h) being written. */
#ifndef CDZ_HOST_CONVERT_CONTROL_OUT_H
#define CDZ_HOST_CONVERT_CONTROL_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct cdz_control_out {
    const char *hint;        /* the model's kind */
    uint32_t first, n;       /* layers */
    const float *directions; /* (n, width) */
    uint32_t width;
} cdz_control_out;

/* force: a file that is there already is replaced. */
cdz_status cdz_out_control(const cdz_control_out *what, const char *path, bool force,
                           cdz_error *err);

#endif
