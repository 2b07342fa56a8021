/* tekken.h - Mistral's own tokenizer file (tekken.json) as the text of a tokenizer.json, so that one reader understands both. */
#ifndef CDZ_HOST_TOKEN_TEKKEN_H
#define CDZ_HOST_TOKEN_TEKKEN_H

#include "base/buf.h"
#include "base/json.h"

/* root: what tekken.json says; name stands for the file in sentences. */
cdz_status cdz_tokenizer_json_of_tekken(const cdz_json *root, const char *name, cdz_buf *out,
                                        cdz_error *err);

/* Where no tokenizer_config.json says which tokens begin, end, pad and stand for the unknown: these do, constant. */
extern const char cdz_tekken_config[];

#endif
