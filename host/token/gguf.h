/* gguf.h - the tokenizer and the chat templates inside a GGUF file, as the texts of a
 * tokenizer.json and a tokenizer_config.json, so that one reader understands both. */
#ifndef CDZ_HOST_TOKEN_GGUF_H
#define CDZ_HOST_TOKEN_GGUF_H

#include "base/buf.h"
#include "load/gguf.h"

/* CDZ_E_NOT_FOUND when the file has no tokenizer; CDZ_E_UNSUPPORTED names the kind. */
cdz_status cdz_tokenizer_json_of_gguf(const cdz_gguf *gguf, cdz_buf *out, cdz_error *err);

/* The special tokens by role and the chat templates. */
cdz_status cdz_tokenizer_config_of_gguf(const cdz_gguf *gguf, cdz_buf *out, cdz_error *err);

enum { CDZ_GGUF_PATTERNS = 5 };

/* What `tokenizer.ggml.pre` names: how text is cut before BPE. */
typedef struct cdz_gguf_pre {
    const char *patterns[CDZ_GGUF_PATTERNS]; /* splits, in order, each match a piece; NULL: no more */
    bool digits;                             /* then every digit alone */
    bool gpt2;                               /* then GPT-2's own pattern */
    bool nfc;                                /* text is composed first */
    bool ignore_merges;                      /* a piece that is a token is that token */
    bool bos; /* a text begins with BOS unless the file says otherwise */
} cdz_gguf_pre;

/* len bytes of name; NULL: unknown. */
const cdz_gguf_pre *cdz_pretok_of_gguf(const char *name, size_t len);
/* And back: a name for a way of cutting, whatever it says of BOS; NULL: it has none. */
const char *cdz_pretok_gguf_name(const cdz_gguf_pre *how, size_t *len);

#endif
