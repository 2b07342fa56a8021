/* backends.h - the folder of backends: which there are, and opening one. */
#ifndef CDZ_HOST_DEVICE_BACKENDS_H
#define CDZ_HOST_DEVICE_BACKENDS_H

#include "backend_abi.h"
#include "base/error.h"

enum { CDZ_BACKEND_NAME = 24, CDZ_MOST_BACKENDS = 8 };

typedef struct cdz_backend_list {
    char folder[4096];
    char names[CDZ_MOST_BACKENDS][CDZ_BACKEND_NAME]; /* by name; beyond the most they are not seen */
    uint32_t n;
} cdz_backend_list;

/* folder NULL: backends/ beside the built-in plugins. A folder that cannot be read has none. */
void cdz_backends_list(const char *folder, cdz_backend_list *out);

/* The entry of NAME.so in the folder, which is of this build. */
cdz_status cdz_backend_load(const char *folder, const char *name, const cdz_backend_entry **out,
                            cdz_error *err);

#endif
