/* byte_pairs.h - vocab.json and merges.txt, a byte-level BPE in the form of GPT-2, or BlenderbotSmallTokenizer's of words, as the
 * text of a tokenizer.json. */
#ifndef CDZ_HOST_TOKEN_BYTE_PAIRS_H
#define CDZ_HOST_TOKEN_BYTE_PAIRS_H

#include "base/buf.h"
#include "base/json.h"

typedef struct cdz_byte_pairs {
    const cdz_json *vocab; /* what vocab.json says */
    const char *merges;    /* the text of merges.txt */
    size_t merges_len;
    const cdz_json *
        settings; /* of cdz_tokenizer_settings: the class, special tokens, what is added to texts */
    const char *folder; /* for sentences */
} cdz_byte_pairs;

/* config: the settings with the special tokens that the class has unless they say otherwise. CDZ_E_UNSUPPORTED names the
 * class that is not known. */
cdz_status cdz_tokenizer_json_of_byte_pairs(const cdz_byte_pairs *from, cdz_buf *out,
                                            cdz_buf *config, cdz_error *err);

#endif
