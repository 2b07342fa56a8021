/* schema.h - JSON Schema (draft 2020-12) of parameters, from the table that everything else about them comes from. */
#ifndef CDZ_HOST_PARAMS_SCHEMA_H
#define CDZ_HOST_PARAMS_SCHEMA_H

#include "params/params.h"

#define CDZ_SCHEMA_DRAFT "https://json-schema.org/draft/2020-12/schema"

/* One parameter: what cdz_param_set takes, null included. What a schema cannot tell apart: 2 and 2.0. */
void cdz_param_schema(const cdz_param *param, cdz_buf *out);
/* `"properties": {...}` of a table, without what stands around it. more: further members, each as `"name": {...}`, or
 * NULL. */
void cdz_params_schema(const cdz_param_table *table, const char *more, cdz_buf *out);
/* "a|b" as "a", "b". */
void cdz_words_schema(const char *words, cdz_buf *out);
/* A plugin's parameters: an object that has these and no others. */
void cdz_params_plugin_schema(const cdz_plugin_base *plugin, cdz_buf *out);

#endif
