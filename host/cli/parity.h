/* parity.h - the parts of `cadenza parity`: comparing answers, replaying processor vectors. */
#ifndef CDZ_HOST_PARITY_H
#define CDZ_HOST_PARITY_H

#include "base/json.h"
#include "cli/cli.h"
#include "plug/registry.h"

/* Floats agree when |a - b| <= tolerance + tolerance * |b|. */
#define CDZ_PARITY_TOLERANCE 1e-4

bool cdz_parity_close(double got, double want);

/* Compares an answer with a case's "expect": integers, texts and shapes exactly, floats by tolerance, null not at all,
 * best scores by id. False: *difference says where and what first. */
bool cdz_parity_compare(const cdz_json *expect, const cdz_json *got, cdz_buf *difference);

typedef struct cdz_parity_count {
    uint32_t passed, failed, unsupported, optional;
} cdz_parity_count;

/* Replays a file of the form of processor_vectors.json. verbose: name what is not supported. Returns the exit status
 * of a file that cannot be read, else 0; failures are printed. */
int cdz_parity_vectors(const char *path, cdz_registry *registry, bool verbose,
                       cdz_parity_count *count);

#endif
