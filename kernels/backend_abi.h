/* backend_abi.h - what a compute backend in a shared object of its own exports: one symbol,
 * cadenza_backend, and behind it this entry.
 *
 * Host and backend come from one build of Cadenza: nothing is promised across builds. So the host
 * opens an object only when interface, build and the size of the table of operations are its own,
 * and says in a sentence which is not. */
#ifndef CDZ_BACKEND_ABI_H
#define CDZ_BACKEND_ABI_H

#include "kernels.h"

enum { CDZ_BACKEND_INTERFACE = 13 }; /* goes up whenever kernels.h or this file changes meaning */

/* The version of the build; every object of a build is compiled with the same. */
#ifndef CDZ_BACKEND_BUILD
#define CDZ_BACKEND_BUILD "unversioned"
#endif

#define CDZ_BACKEND_SYMBOL "cadenza_backend"

typedef struct cdz_device_info {
    char name[128];      /* "NVIDIA H100 80GB HBM3" */
    char capability[32]; /* "compute capability 9.0" */
    uint64_t free_bytes, total_bytes;
} cdz_device_info;

/* How products of many rows are computed; those of a few rows are always float32. */
typedef enum cdz_precision {
    CDZ_PRECISION_AUTO, /* bf16 and f16 weights: activations rounded to that type, sums in float32 */
    CDZ_PRECISION_F32,  /* float32 throughout, without TF32 */
} cdz_precision;

typedef struct cdz_device_options {
    uint32_t size; /* of this struct */
    int device;    /* an ordinal below count() */
    cdz_precision precision;
    bool strict; /* a row's bits hang on nothing but the row: no vendor library, always float32 */
} cdz_device_options;

/* Sentences go to `why`, of at least 256 bytes. Nothing here prints or ends the process. */
typedef struct cdz_backend_entry {
    uint32_t size;      /* of this struct */
    uint32_t interface; /* CDZ_BACKEND_INTERFACE */
    uint32_t api_size;  /* sizeof(cdz_backend_api) */
    const char *build;  /* CDZ_BACKEND_BUILD */
    const char *name;   /* "cuda" */
    /* Devices there are; 0 with why: no driver, no device, a driver too old. */
    int (*count)(char *why, size_t why_bytes);
    void (*describe)(int device, cdz_device_info *info);
    cdz_backend *(*create)(const cdz_device_options *options, char *why, size_t why_bytes);
} cdz_backend_entry;

typedef const cdz_backend_entry *cdz_backend_entry_fn(void);

#endif
