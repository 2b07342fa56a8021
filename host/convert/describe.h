/* describe.h - a model as GGUF's keys. Inside convert/ only. */
#ifndef CDZ_HOST_CONVERT_DESCRIBE_H
#define CDZ_HOST_CONVERT_DESCRIBE_H

#include "convert/gguf_out.h"
#include "load/gguf_config.h"
#include "token/tokenizer.h"

/* The architecture: sizes, windows, rotation, experts; tensors that hold frequencies. */
cdz_status cdz_describe_arch(const cdz_weights *weights, const cdz_gguf_arch *arch,
                             cdz_gguf_meta *meta, cdz_out_tensors *tensors, cdz_error *err);

/* Tokenizer, special ids, chat templates. tok: the folder's; NULL: none, ids alone. */
cdz_status cdz_describe_tokens(const cdz_weights *weights, const cdz_tokenizer *tok,
                               cdz_gguf_meta *meta, cdz_convert_report *report, cdz_error *err);

/* file_type and quantization_version, by the type that weighs most. */
void cdz_describe_types(const cdz_out_tensors *tensors, cdz_gguf_meta *meta);

/* A line more for people. */
void cdz_note(cdz_convert_report *report, const char *fmt, ...) CDZ_PRINTF(2, 3);

/* What of b is not as in a, in the words of config.json; NULL: nothing. Frequencies may differ by
 * rounding. */
const char *cdz_convert_arch_difference(const cdz_arch *a, const cdz_arch *b);

#endif
