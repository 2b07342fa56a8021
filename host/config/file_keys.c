/* file_keys.c - see file_keys.h. */
#include "config/file_keys.h"

#include "config/generation.h"
#include "params/schema.h"
#include "params/settings.h"

void cdz_pipeline_schema(cdz_buf *out)
{
    cdz_buf_puts(out, "{\n  \"$schema\": \"" CDZ_SCHEMA_DRAFT "\",\n"
                      "  \"title\": \"a pipeline file of cadenza, its sections being objects\",\n"
                      "  \"type\": \"object\",\n  \"properties\": {\n"
                      "  \"pipeline\": {\"type\": \"object\", \"additionalProperties\": false, ");
    cdz_settings_file_schema("pipeline", out);
    cdz_buf_puts(out,
                 "},\n  \"model\": {\"type\": \"object\", \"description\": \"what the model runs "
                 "as; the rest is the drafter's that runs a model\", ");
    cdz_settings_file_schema("model", out);
    cdz_buf_puts(out, "},\n  \"names\": {\"type\": \"object\", \"description\": \"other names for "
                      "parameters\", \"additionalProperties\": {\"type\": \"string\"}},\n"
                      "  \"models\": {\"type\": \"object\", \"description\": \"further models "
                      "that decode loops use by name: folders\", "
                      "\"additionalProperties\": {\"type\": \"string\"}},\n"
                      "  \"generation\": {\"type\": \"object\", ");
    cdz_params_schema(cdz_generation_table(), NULL, out);
    cdz_buf_puts(out, "}\n  },\n  \"additionalProperties\": {\"type\": \"object\", \"description\": "
                      "\"an instance of a plugin\"}\n}\n");
}
