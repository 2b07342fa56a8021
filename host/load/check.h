/* check.h - looking into a model's files before trusting them: their hashes against what is recorded of them, and
 * values that are no numbers. Both read the file, not its mapping, so that one which is cut meanwhile is a sentence. */
#ifndef CDZ_HOST_LOAD_CHECK_H
#define CDZ_HOST_LOAD_CHECK_H

#include "base/sha256.h"
#include "kernels.h"
#include "load/safetensors.h"

/* Told now and then how far a long pass is. */
typedef struct cdz_check_progress {
    void (*tell)(void *user, uint64_t done, uint64_t total); /* bytes */
    void *user;
} cdz_check_progress;

cdz_status cdz_hash_check(const cdz_file *file, const cdz_check_progress *progress,
                          char hex[CDZ_SHA256_HEX], cdz_error *err);

/* What the SHA-256 of a file should be, and who says so. */
typedef struct cdz_known_hash {
    char hex[CDZ_SHA256_HEX]; /* lower case; "": nobody says */
    const char *source;       /* in the arena */
} cdz_known_hash;

/* Asks, in this order: SHA256SUMS in the file's folder, FILE.sha256 (both as sha256sum writes them), what the Hugging
 * Face client recorded of the download (.cache/huggingface/download/FILE.metadata), and the name of the blob that a
 * link in its cache leads to. */
cdz_status cdz_hash_known(const char *path, cdz_arena *arena, cdz_known_hash *out, cdz_error *err);

/* --- values -------------------------------------------------------------------------------- */

typedef struct cdz_value_scan cdz_value_scan;

typedef struct cdz_value_counts {
    uint64_t n; /* values; 0: a type that is not looked into */
    uint64_t n_nan, n_infinite;
    uint64_t first_nan; /* in the order of the file */
} cdz_value_counts;

/* Working memory of a scan; the backend must outlive it. NULL: out of memory. */
cdz_value_scan *cdz_value_scan_new(cdz_backend *backend);
void cdz_value_scan_free(cdz_value_scan *scan); /* NULL is fine */

/* Widens a tensor's values, as a run would, and counts those that are no numbers. */
cdz_status cdz_value_scan_tensor(cdz_value_scan *scan, const cdz_file *file,
                                 const cdz_tensor *tensor, cdz_value_counts *out, cdz_error *err);

#endif
