/* file_keys.c - see file_keys.h. */
#include "config/file_keys.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "config/generation.h"
#include "params/schema.h"

const cdz_file_key cdz_pipeline_keys[CDZ_N_PIPELINE_KEYS] = {
    {"use", "a profile or a file that this one adds to", NULL, NULL},
    {"strategy", "the decode loop: an id, lua:FILE or a section's name; auto: as generate() chooses",
     NULL, NULL},
    {"drafter", "the drafter: an id, lua:FILE, a section's name, auto or none", NULL, NULL},
    {"drafting", "how many tokens a draft has: measured for speed, or set by the drafter",
     "adaptive|fixed", NULL},
    {"processors", "further processors beside the configured ones, in order", NULL, NULL},
    {"stopping", "further stopping criteria", NULL, NULL},
    {"observers", "observers", NULL, NULL},
    {"chain", "all processors, in place of the configured ones", NULL, NULL},
    {"isolation", "where plugins that are not built in run", "none|process", NULL},
};

const cdz_file_key cdz_model_keys[CDZ_N_MODEL_KEYS] = {
    [CDZ_MODEL_DEVICE] = {"device", "the device that computes: cpu, auto, cuda, cuda:1", NULL,
                          "--device"},
    [CDZ_MODEL_KV_CACHE] = {"kv_cache", "the type of KV caches", "f32|f16|bf16|q8_0|none",
                            "--kv-cache"},
    [CDZ_MODEL_NUMA] = {"numa", "memory and threads on NUMA machines", "off|spread|none", "--numa"},
};

enum { MOST_KEYS = 16 };

size_t cdz_file_key_find(const cdz_file_key *keys, size_t n, const char *name)
{
    size_t i = 0;
    while (i < n && strcmp(keys[i].name, name) != 0) i++;
    return i;
}

const char *cdz_file_key_near(const cdz_file_key *keys, size_t n, const char *name)
{
    const char *names[MOST_KEYS];
    for (size_t i = 0; i < n && i < MOST_KEYS; i++) names[i] = keys[i].name;
    return cdz_nearest_name(name, names, n < MOST_KEYS ? n : MOST_KEYS);
}

/* --- JSON Schema ----------------------------------------------------------------------------------------- */

static void put_keys(const cdz_file_key *keys, size_t n, cdz_buf *out)
{
    cdz_buf_puts(out, "\"properties\": {");
    for (size_t i = 0; i < n; i++) {
        cdz_buf_printf(out, "%s\n    \"%s\": {\"description\": ", i ? "," : "", keys[i].name);
        cdz_json_write_string(out, keys[i].help, strlen(keys[i].help));
        if (keys[i].words) {
            cdz_buf_puts(out, ", \"enum\": [");
            cdz_words_schema(keys[i].words, out);
            cdz_buf_puts(out, "]}");
        } else {
            cdz_buf_puts(out, ", \"type\": \"string\"}");
        }
    }
    cdz_buf_puts(out, "\n  }");
}

void cdz_pipeline_schema(cdz_buf *out)
{
    cdz_buf_puts(out, "{\n  \"$schema\": \"" CDZ_SCHEMA_DRAFT "\",\n"
                      "  \"title\": \"a pipeline file of cadenza, its sections being objects\",\n"
                      "  \"type\": \"object\",\n  \"properties\": {\n"
                      "  \"pipeline\": {\"type\": \"object\", \"additionalProperties\": false, ");
    put_keys(cdz_pipeline_keys, CDZ_N_PIPELINE_KEYS, out);
    cdz_buf_puts(out,
                 "},\n  \"model\": {\"type\": \"object\", \"description\": \"what the model runs "
                 "as; the rest is the drafter's that runs a model\", ");
    put_keys(cdz_model_keys, CDZ_N_MODEL_KEYS, out);
    cdz_buf_puts(out, "},\n  \"names\": {\"type\": \"object\", \"description\": \"other names for "
                      "parameters\", \"additionalProperties\": {\"type\": \"string\"}},\n"
                      "  \"generation\": {\"type\": \"object\", ");
    cdz_params_schema(cdz_generation_table(), NULL, out);
    cdz_buf_puts(out, "}\n  },\n  \"additionalProperties\": {\"type\": \"object\", \"description\": "
                      "\"an instance of a plugin\"}\n}\n");
}
