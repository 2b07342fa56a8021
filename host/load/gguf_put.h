/* gguf_put.h - what writing GGUF's metadata as a config.json works on. Inside load/ only. */
#ifndef CDZ_HOST_LOAD_GGUF_PUT_H
#define CDZ_HOST_LOAD_GGUF_PUT_H

#include "load/families.h"
#include "load/gguf_config.h"

typedef struct cdz_gguf_writer {
    const cdz_gguf *g;
    const cdz_gguf_arch *arch;
    const cdz_family *family;
    cdz_buf *out;
    cdz_error *err;
} cdz_gguf_writer;

void cdz_gguf_put_key(cdz_gguf_writer *w, const char *key);
void cdz_gguf_put_uint(cdz_gguf_writer *w, const char *key, uint64_t value);
void cdz_gguf_put_bool(cdz_gguf_writer *w, const char *key, bool value);
void cdz_gguf_put_text(cdz_gguf_writer *w, const char *key, const char *text);

/* rest: a key without the architecture before it. */
bool cdz_gguf_has_key(const cdz_gguf_writer *w, const char *rest);
/* A number, or the one that all layers of an array have; where layers may lack what it counts, 0 is passed over. */
cdz_status cdz_gguf_get_uint(const cdz_gguf_writer *w, const char *rest, uint64_t *out);
cdz_status cdz_gguf_get_real(const cdz_gguf_writer *w, const char *rest, double *out);
cdz_status cdz_gguf_copy_uint(cdz_gguf_writer *w, const char *to, const char *rest, bool required);
cdz_status cdz_gguf_copy_real(cdz_gguf_writer *w, const char *to, const char *rest);
cdz_status cdz_gguf_copy_bool(cdz_gguf_writer *w, const char *to, const char *rest, bool usual);

/* The same by the whole key. */
cdz_status cdz_gguf_copy_number(cdz_gguf_writer *w, const char *to, const char *key);

/* gguf_tokens.c: the ids of special tokens. */
cdz_status cdz_gguf_write_tokens(cdz_gguf_writer *w);

/* gguf_hybrid.c: which layers are recurrent, and the sizes of their states; several streams; whether layers rotate. */
cdz_status cdz_gguf_write_recurrent(cdz_gguf_writer *w);
cdz_status cdz_gguf_write_streams(cdz_gguf_writer *w);
void cdz_gguf_write_rope_type(cdz_gguf_writer *w);

/* gguf_fused.c: puts three tensors in the place of those that have queries, keys and values, where the family has three. */
cdz_status cdz_gguf_part_queries(cdz_gguf *g, const cdz_gguf_arch *arch, cdz_error *err);

/* Has some layer that tensor, "blk.#." left out? */
bool cdz_gguf_some_layer_has(const cdz_gguf *gguf, const char *rest);

#endif
