/* sentencepiece.h - a SentencePiece model (tokenizer.model, spiece.model) as the text of a tokenizer.json, so that one reader
 * understands both. */
#ifndef CDZ_HOST_TOKEN_SENTENCEPIECE_H
#define CDZ_HOST_TOKEN_SENTENCEPIECE_H

#include "base/buf.h"
#include "base/json.h"

/* config: what tokenizer_config.json says, or NULL: of it come the class, special tokens and what is added to texts. numbers:
 * what vocab.json says where that numbers the tokens, or NULL. name stands for the file in sentences. CDZ_E_UNSUPPORTED names the class that is not known. */
cdz_status cdz_tokenizer_json_of_sentencepiece(const void *bytes, size_t len,
                                               const cdz_json *config, const cdz_json *numbers,
                                               const char *name, cdz_buf *out, cdz_error *err);

#endif
