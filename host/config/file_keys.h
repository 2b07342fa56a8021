/* file_keys.h - the keys that sections of a pipeline file have which are no plugin's: names, what they say, their words. */
#ifndef CDZ_HOST_CONFIG_FILE_KEYS_H
#define CDZ_HOST_CONFIG_FILE_KEYS_H

#include <stddef.h>

#include "base/buf.h"

typedef struct cdz_file_key {
    const char *name, *help;
    const char *words;  /* "a|b": nothing else; NULL: any text */
    const char *option; /* the option that stands for it; NULL: -s does */
} cdz_file_key;

enum { CDZ_N_PIPELINE_KEYS = 9 };
extern const cdz_file_key cdz_pipeline_keys[CDZ_N_PIPELINE_KEYS];

/* Of [model], about the target model; the rest of the section is the drafter's that runs a model. */
typedef enum cdz_model_key {
    CDZ_MODEL_DEVICE,
    CDZ_MODEL_KV_CACHE,
    CDZ_MODEL_NUMA,
    CDZ_N_MODEL_KEYS
} cdz_model_key;
extern const cdz_file_key cdz_model_keys[CDZ_N_MODEL_KEYS];

/* The index of a name among n keys, or n; the key that was probably meant, or NULL. */
size_t cdz_file_key_find(const cdz_file_key *keys, size_t n, const char *name);
const char *cdz_file_key_near(const cdz_file_key *keys, size_t n, const char *name);

/* JSON Schema of a pipeline file, its sections being objects. */
void cdz_pipeline_schema(cdz_buf *out);

#endif
