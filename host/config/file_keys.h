/* file_keys.h - the JSON Schema of pipeline files: sections of settings (params/settings.h), and of generation parameters. */
#ifndef CDZ_HOST_CONFIG_FILE_KEYS_H
#define CDZ_HOST_CONFIG_FILE_KEYS_H

#include "base/buf.h"

/* Of a pipeline file, its sections being objects. */
void cdz_pipeline_schema(cdz_buf *out);

#endif
