/* config_file.c - a generation config in memory: its members, its check, its text. */
#include "config/config_file.h"

#include <stdlib.h>
#include <string.h>

cdz_status cdz_resolve_config(const struct cdz_config *config, cdz_arena *arena,
                              cdz_resolution *res, cdz_error *err)
{
    const cdz_json object = {.type = CDZ_JSON_OBJECT,
                             .boolean = config->derived,
                             .len = config->n,
                             .members = config->members};
    CDZ_TRY(cdz_resolution_begin(res, arena, err));
    CDZ_TRY(cdz_resolution_put_model(res, &object, err));
    return cdz_resolution_finish(res, err);
}

/* --- writing ------------------------------------------------------------------------------------------------- */

static void new_line(cdz_buf *out, unsigned indent)
{
    cdz_buf_putc(out, '\n');
    for (unsigned i = 0; i < indent; i++) cdz_buf_puts(out, "  ");
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const cdz_json_member *)a)->key, ((const cdz_json_member *)b)->key);
}

static void write_object(const cdz_json *object, unsigned indent, cdz_buf *out)
{
    cdz_json_member *sorted = malloc((object->len + 1) * sizeof *sorted);
    if (!sorted) {
        out->failed = true;
        return;
    }
    if (object->len) memcpy(sorted, object->members, object->len * sizeof *sorted);
    qsort(sorted, object->len, sizeof *sorted, by_key);
    cdz_buf_putc(out, '{');
    for (uint32_t i = 0; i < object->len; i++) {
        if (i) cdz_buf_putc(out, ',');
        new_line(out, indent + 1);
        cdz_json_write_string(out, sorted[i].key, sorted[i].key_len);
        cdz_buf_puts(out, ": ");
        cdz_generation_write_pretty(&sorted[i].value, indent + 1, out);
    }
    if (object->len) new_line(out, indent);
    cdz_buf_putc(out, '}');
    free(sorted);
}

static void write_array(const cdz_json *array, unsigned indent, cdz_buf *out)
{
    cdz_buf_putc(out, '[');
    for (uint32_t i = 0; i < array->len; i++) {
        if (i) cdz_buf_putc(out, ',');
        new_line(out, indent + 1);
        cdz_generation_write_pretty(&array->items[i], indent + 1, out);
    }
    if (array->len) new_line(out, indent);
    cdz_buf_putc(out, ']');
}

void cdz_generation_write_pretty(const cdz_json *value, unsigned indent, cdz_buf *out)
{
    if (value->type == CDZ_JSON_OBJECT)
        write_object(value, indent, out);
    else if (value->type == CDZ_JSON_ARRAY)
        write_array(value, indent, out);
    else
        cdz_json_write(out, value);
}
