/* kv_file.h - KV blocks in a file: those that prompts are found in (prefix.h), with their keys, for a later process.
 *
 * A head, blocks, an end. The head says of which model, in which type and shape, and by which build the blocks are; a block has
 * its key, with the place in the file of the block before it, and its bytes; the end says how many there are. Each of them
 * ends in a sum over itself, the head and its own place, so that nothing of another file fits in. Numbers are little-endian.
 *
 * A file is written whole, or the old one stays (base/write.h). One that is cut, damaged, of another model, type or build is
 * refused before anything of it is used, and every block is looked at once more when it is read. What a file says is not
 * believed: it is as long as its blocks take, a block comes after the one before it, ids lie in the vocabulary. Its sums tell
 * damage, not forgery: who may write the file may say what the model has read, as who may write its weights.
 * Thread: [any], one at a time. */
#ifndef CDZ_HOST_RUN_PASS_KV_FILE_H
#define CDZ_HOST_RUN_PASS_KV_FILE_H

#include "base/digest.h"
#include "base/file.h"
#include "base/write.h"
#include "kernels.h"
#include "run/pass/prefix.h"

enum { CDZ_KV_FILE_VERSION = 1, CDZ_KV_FILE_BUILD = 64 };
#define CDZ_KV_FILE_NONE UINT32_MAX

/* What the bits of blocks hang on beside their keys. */
typedef struct cdz_kv_file_facts {
    cdz_kv_shape shape;
    uint64_t block_bytes;
    uint32_t n_vocab;
    uint8_t model[CDZ_DIGEST_BYTES];   /* its fingerprint */
    uint8_t numbers[CDZ_DIGEST_BYTES]; /* how its weights are kept and multiplied */
    char build[CDZ_KV_FILE_BUILD];     /* program and backend, for people too */
} cdz_kv_file_facts;

typedef struct cdz_kv_file_block {
    uint32_t before,
        kind; /* before: the place of the block before it; CDZ_KV_FILE_NONE: it is the first of its text */
    uint8_t salt[CDZ_PREFIX_SALT];
    int32_t ids[CDZ_KV_BLOCK];
} cdz_kv_file_block;

/* --- writing: begin, blocks, finish or drop --- */
typedef struct cdz_kv_file_writer {
    cdz_writer file;
    uint64_t block_bytes;
    uint8_t head_sum[CDZ_DIGEST_BYTES];
    uint32_t n;
} cdz_kv_file_writer;

cdz_status cdz_kv_file_begin(cdz_kv_file_writer *w, const char *path,
                             const cdz_kv_file_facts *facts, cdz_error *err);
/* Its place is w->n, one more for each. A full disk is told here. */
cdz_status cdz_kv_file_add(cdz_kv_file_writer *w, const cdz_kv_file_block *block, const void *bytes,
                           cdz_error *err);
/* The file has its name, and is on the disk. On failure what was there before stays; frees in either case. */
cdz_status cdz_kv_file_finish(cdz_kv_file_writer *w, cdz_error *err);
void cdz_kv_file_drop(cdz_kv_file_writer *w); /* zeroed is fine */

/* --- reading --- */
typedef struct cdz_kv_file {
    cdz_file file;
    uint64_t block_bytes;
    uint8_t head_sum[CDZ_DIGEST_BYTES];
    uint32_t n, n_vocab;
    void *record; /* of a block as it lies there */
} cdz_kv_file;

/* Looks at all of it. CDZ_E_NOT_FOUND: it is a whole file's head, of another model. */
cdz_status cdz_kv_file_open(const char *path, const cdz_kv_file_facts *mine, cdz_kv_file *out,
                            cdz_error *err);
/* A block, and its bytes, which are good until the next one is read. */
cdz_status cdz_kv_file_read(cdz_kv_file *file, uint32_t place, cdz_kv_file_block *block,
                            const void **bytes, cdz_error *err);
void cdz_kv_file_close(cdz_kv_file *file); /* zeroed is fine */

#endif
