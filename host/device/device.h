/* device.h - what computes a model's passes: the CPU, or a backend in a shared object of its own, which is opened only when
 * somebody asks for its device. Knows names, files and the entry of a backend; no models, no requests.
 *
 * A device is called "cpu", "auto" (the first backend's first device there is, else the CPU), or after its backend:
 * "cuda" is the first one of cuda.so in the folder of backends, "cuda:1" the second. */
#ifndef CDZ_HOST_DEVICE_DEVICE_H
#define CDZ_HOST_DEVICE_DEVICE_H

#include "backend_abi.h"
#include "base/error.h"

enum { CDZ_DEVICE_TEXT = 192 };

typedef struct cdz_device_wish {
    const char *name;   /* NULL: "cpu" */
    const char *folder; /* of backends; NULL: backends/ beside the built-in plugins */
    cdz_precision precision;
    bool strict; /* a row's bits hang on the row alone */
} cdz_device_wish;

/* What was found, before anything is made of it. */
typedef struct cdz_device_found {
    const cdz_backend_entry *entry; /* NULL: the CPU */
    int index;
    char name[CDZ_DEVICE_TEXT];       /* "cuda:0 NVIDIA H100 80GB HBM3, compute capability 9.0" */
    char why[512];                    /* of auto: why it is the CPU; else "" */
    uint64_t free_bytes, total_bytes; /* of a device's memory */
} cdz_device_found;

/* Is that how a device is spelled, and is there such a backend? Opens none. */
cdz_status cdz_device_check_name(const cdz_device_wish *wish, cdz_error *err);

/* Opens the backend's object and asks for its devices. An object that was opened stays in memory until the process ends:
 * drivers start threads that outlive what started them. */
cdz_status cdz_device_find(const cdz_device_wish *wish, cdz_device_found *out, cdz_error *err);
/* Of a device that is not the CPU. */
cdz_status cdz_device_create(const cdz_device_wish *wish, const cdz_device_found *found,
                             cdz_backend **out, cdz_error *err);

/* A line on every device of every backend in the folder, or on why one has none: "cuda:0 NVIDIA ..., 79.1 of 79.6 GiB
 * free". */
void cdz_device_each(const char *folder, void (*say)(void *user, const char *line), void *user);

#endif
