/* ext/tokenizer.h - "cadenza.tokenizer/1": text and ids, for plugins of requests whose model has a tokenizer. */
#ifndef CADENZA_EXT_TOKENIZER_H
#define CADENZA_EXT_TOKENIZER_H

#include "../plugin.h"

#define CDZ_EXT_TOKENIZER "cadenza.tokenizer/1"

typedef struct cdz_tokenizer_api {
    uint32_t size;
    /* [any; from begin on] False if the request's model has no tokenizer: then the others fail. */
    bool (*present)(const cdz_step *step);
    /* [any] The text that a token adds after other tokens (as the reference's StopStringCriteria
     * sees it). Model lifetime; {NULL, 0} for ids without a token. */
    cdz_string (*token_text)(const cdz_step *step, int32_t id);
    uint32_t (*n_tokens)(
        const cdz_step *step); /* [any] ids run from 0 to n_tokens - 1, holes included */
    /* [load, engine; in begin and on a strategy's fibre] Request-lifetime results; elsewhere CDZ_E_STATE. special: as
     * cdz_tokenize. */
    cdz_status (*encode)(const cdz_step *step, const char *text, size_t len, bool special,
                         cdz_ids *out);
    cdz_status (*decode)(const cdz_step *step, cdz_ids ids, bool skip_special, cdz_string *out);
    /* [engine; in a drafter's calls and on a strategy's fibre] Converts ids of one of the request's models to ids of
     * another through text: decoded without special tokens and with spaces before punctuation cleaned up, encoded with
     * or without the special tokens that the post-processor adds. Request-lifetime result; CDZ_E_NOT_FOUND if a model
     * does not exist or has no tokenizer. */
    cdz_status (*convert)(const cdz_step *step, const char *from_model, cdz_ids ids,
                          const char *to_model, bool special, cdz_ids *out);
} cdz_tokenizer_api;

static inline const cdz_tokenizer_api *cdz_get_tokenizer(const cdz_step *step)
{
    return (const cdz_tokenizer_api *)step->host->extension(CDZ_EXT_TOKENIZER);
}

#endif
