/* prompts.h - a model's prefix cache in files, for the server. */
#ifndef CDZ_HOST_API_PROMPTS_H
#define CDZ_HOST_API_PROMPTS_H

#include "cadenza/cadenza.h"

/* What the model's requests have computed of prompts, to a file and back: cdz_run_model_save_prompts and load_prompts, by the text
 * of a salt (as cdz_request.cache_salt; NULL: of all salts) and of one prompt (ids NULL: of all). [any but the engine] */
cdz_status cdz_model_save_prompts(cdz_model *model, const char *path, const char *salt,
                                  const int32_t *ids, size_t n, uint32_t *n_blocks, cdz_error *err);
cdz_status cdz_model_load_prompts(cdz_model *model, const char *path, uint32_t *n_blocks,
                                  cdz_error *err);

#endif
