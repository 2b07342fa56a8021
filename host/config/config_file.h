/* config_file.h - one generation config as a file has it: read, changed, checked, written (GenerationConfig alone, without
 * a model or a pipeline round it). Thread: [any], one config never from two. */
#ifndef CDZ_HOST_CONFIG_CONFIG_FILE_H
#define CDZ_HOST_CONFIG_CONFIG_FILE_H

#include "config/generation.h"

struct cdz_config {
    cdz_arena arena;
    cdz_json_member *members; /* (n) what is set, nulls left out; unknown names are kept */
    uint32_t n, cap;
    bool derived;     /* from a config.json, for want of a generation_config.json */
    const char *path; /* of the file, or NULL: none */
};

/* Checks as transformers' validate() does. Its errors fail; minor[CDZ_MAX_MINOR] are the names of its minor issues. */
cdz_status cdz_resolve_config(const struct cdz_config *config, cdz_arena *arena,
                              cdz_resolution *res, cdz_error *err);

/* As json.dumps(indent=2, sort_keys=True). */
void cdz_generation_write_pretty(const cdz_json *value, unsigned indent, cdz_buf *out);

#endif
