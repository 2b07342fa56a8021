/* request_schema.c - JSON Schema of a request document: its fields, and the generation parameters as kwargs. */
#include "params/schema.h"
#include "params/settings.h"
#include "prepare/prepare.h"

/* What has no row in the table: objects and callables by name, each read by whoever it concerns. */
static void put_further_slots(cdz_buf *out)
{
    for (uint32_t slot = cdz_generation_table()->n; slot < cdz_generation_slots(); slot++) {
        const char *name = cdz_generation_slot_name(slot);
        if (cdz_generation_forbidden(name)) continue;
        if (out->len) cdz_buf_puts(out, ",\n    ");
        cdz_buf_printf(out, "\"%s\": {}", name);
    }
    cdz_buf_puts(
        out,
        ",\n    \"phases\": {\"description\": \"by the name of a [phase:NAME] section: begin, until, "
        "max_tokens and parameters of that phase\", \"type\": [\"object\", \"null\"], "
        "\"additionalProperties\": {\"type\": \"object\"}}");
}

void cdz_request_schema(cdz_buf *out)
{
    cdz_buf more = {0};
    put_further_slots(&more);
    cdz_buf_puts(out, "{\n  \"$schema\": \"" CDZ_SCHEMA_DRAFT "\",\n"
                      "  \"title\": \"a request document of cadenza\",\n  \"type\": \"object\",\n"
                      "  \"additionalProperties\": false,\n  \"properties\": {");
    cdz_settings_member_schema(out);
    cdz_buf_puts(out,
                 "\n  },\n  \"$defs\": {\"generation\": {\n  \"type\": \"object\",\n  "
                 "\"description\": \"generation parameters by transformers' names; what a strategy "
                 "declares itself may stand beside them\",\n  ");
    cdz_params_schema(cdz_generation_table(), more.data, out);
    cdz_buf_puts(out, "\n  }}\n}\n");
    out->failed |= more.failed;
    cdz_buf_free(&more);
}
