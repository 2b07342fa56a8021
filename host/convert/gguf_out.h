/* gguf_out.h - a GGUF file of version 3 being put together: metadata first, then tensors. */
#ifndef CDZ_HOST_CONVERT_GGUF_OUT_H
#define CDZ_HOST_CONVERT_GGUF_OUT_H

#include "base/buf.h"
#include "convert/tensors.h"
#include "load/gguf.h"

/* Metadata as it will stand in the file. Keys are not checked for being there twice. */
typedef struct cdz_gguf_meta {
    cdz_buf bytes;
    uint64_t n;
} cdz_gguf_meta;

void cdz_meta_u32(cdz_gguf_meta *meta, const char *key, uint64_t value);
void cdz_meta_f32(cdz_gguf_meta *meta, const char *key, float value);
void cdz_meta_bool(cdz_gguf_meta *meta, const char *key, bool value);
void cdz_meta_string(cdz_gguf_meta *meta, const char *key, const char *text, size_t len);
void cdz_meta_text(cdz_gguf_meta *meta, const char *key, const char *text);
/* An array: its head, then n elements by the functions below. */
void cdz_meta_array(cdz_gguf_meta *meta, const char *key, cdz_gguf_type type, uint64_t n);
void cdz_meta_element(cdz_gguf_meta *meta, const void *bytes, size_t n); /* little-endian */
void cdz_meta_element_string(cdz_gguf_meta *meta, const char *text, size_t len);
/* A value as it was read. */
void cdz_meta_copy(cdz_gguf_meta *meta, const cdz_gguf_value *value);

/* The whole file. */
cdz_status cdz_out_write_gguf(const cdz_gguf_meta *meta, const cdz_out_tensors *tensors,
                              cdz_out *out);

#endif
