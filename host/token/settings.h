/* settings.h - what a folder without a tokenizer.json says of its tokenizer, as one object with the keys of a
 * tokenizer_config.json. */
#ifndef CDZ_HOST_TOKEN_SETTINGS_H
#define CDZ_HOST_TOKEN_SETTINGS_H

#include "base/json.h"

/* Each is NULL where there is no such file. */
typedef struct cdz_tokenizer_sources {
    const cdz_json *config;      /* tokenizer_config.json */
    const cdz_json *special_map; /* special_tokens_map.json */
    const cdz_json *added;       /* added_tokens.json */
    const cdz_json *model;       /* config.json */
} cdz_tokenizer_sources;

/* Fills *out, which lives as long as the sources and the arena. A class is named without "Fast". */
cdz_status cdz_tokenizer_settings(const cdz_tokenizer_sources *from, cdz_arena *arena,
                                  cdz_json *out, cdz_error *err);

/* A value that is there and not null, or NULL. settings may be NULL. */
const cdz_json *cdz_tokenizer_setting(const cdz_json *settings, const char *key);
bool cdz_tokenizer_setting_is(const cdz_json *settings, const char *key, bool absent);
/* A token is a text, or an object with its "content"; NULL: neither, or empty. */
const cdz_json *cdz_tokenizer_token_text(const cdz_json *value);
/* Of an object: a flag of how the token is looked for in a text. */
bool cdz_tokenizer_token_flag(const cdz_json *value, const char *key);
/* extra_special_tokens, which older versions call additional_special_tokens, or NULL. */
const cdz_json *cdz_tokenizer_more_tokens(const cdz_json *settings);

#endif
