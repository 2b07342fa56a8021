/* folder_out.h - a GGUF file's model as the files of a folder. Inside convert/ only. */
#ifndef CDZ_HOST_CONVERT_FOLDER_OUT_H
#define CDZ_HOST_CONVERT_FOLDER_OUT_H

#include "convert/tensors.h"
#include "load/gguf.h"

/* model.safetensors. out.watch and out.err are set. */
cdz_status cdz_safetensors_write(cdz_target *target, const cdz_out_tensors *tensors, cdz_out *out);

/* config.json and generation_config.json. dtype: of most weights, "bfloat16". */
cdz_status cdz_folder_configs(cdz_target *target, const cdz_weights *weights, const char *dtype,
                              cdz_error *err);

/* tokenizer.json, tokenizer_config.json, chat_template.jinja; nothing where the file has no
 * tokenizer. */
cdz_status cdz_folder_tokenizer(cdz_target *target, const cdz_gguf *gguf, cdz_error *err);

#endif
