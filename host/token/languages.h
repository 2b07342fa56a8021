/* languages.h - the languages that tokenizer classes of translators have, in the order of their ids. */
#ifndef CDZ_HOST_TOKEN_LANGUAGES_H
#define CDZ_HOST_TOKEN_LANGUAGES_H

#include <stdint.h>

typedef enum cdz_language_list {
    CDZ_LANGUAGES_MBART,
    CDZ_LANGUAGES_MBART50,
    CDZ_LANGUAGES_M2M100,
    CDZ_LANGUAGES_WMT21,
    CDZ_LANGUAGES_NLLB,
} cdz_language_list;

const char *const *cdz_tokenizer_languages(cdz_language_list list, uint32_t *n);

#endif
