/* detect.c - settings of a watermark from JSON, and the answer as JSON. */
#include "detect/detect.h"

#include <math.h>
#include <string.h>

static const cdz_param rows[] = {CDZ_WATERMARK_PARAMS};
static const cdz_param_table table = {rows, sizeof rows / sizeof rows[0], sizeof(cdz_param),
                                      sizeof(cdz_watermark)};

cdz_status cdz_watermark_read(const cdz_json *config, cdz_arena *arena, cdz_watermark *out,
                              cdz_error *err)
{
    if (!cdz_json_is(config, CDZ_JSON_OBJECT))
        return cdz_err(err, CDZ_E_USAGE, "watermarking_config: expected an object, found %s",
                       cdz_json_type_name(config));
    cdz_params_defaults(&table, out);
    for (uint32_t i = 0; i < config->len; i++) {
        const char *name = config->members[i].key;
        const cdz_param *param = cdz_param_find(&table, name);
        if (!param) {
            char hint[120];
            cdz_param_suggest(&table, name, hint, sizeof hint);
            return cdz_err(err, CDZ_E_USAGE, "watermarking_config has no parameter %s%s", name,
                           hint);
        }
        if (cdz_param_set(param, out, &config->members[i].value, arena, err) != CDZ_OK)
            return cdz_err_prefix(err, "watermarking_config");
    }
    const char *fault = cdz_watermark_fault(out);
    return fault ? cdz_err(err, CDZ_E_USAGE, "watermarking_config: %s", fault) : CDZ_OK;
}

void cdz_watermark_write(const cdz_watermark *watermark, cdz_buf *out)
{
    for (uint32_t i = 0; i < table.n; i++) {
        cdz_buf_printf(out, "%s\"%s\": ", i ? ", " : "{", rows[i].name);
        cdz_param_write(&rows[i], watermark, out);
    }
    cdz_buf_putc(out, '}');
}

/* --- orders ------------------------------------------------------------------------------------------------- */

static bool is_id(const cdz_json *value)
{
    return cdz_json_is(value, CDZ_JSON_INT) && value->integer >= 0 && value->integer <= INT32_MAX;
}

/* One id or a list of them; what is no id is passed over. */
static cdz_status read_eos(const cdz_json *eos, cdz_arena *arena, cdz_ids *out, cdz_error *err)
{
    const bool list = cdz_json_is(eos, CDZ_JSON_ARRAY);
    const uint32_t n = list ? eos->len : eos ? 1 : 0;
    int32_t *ids = cdz_arena_array(arena, n, sizeof *ids);
    *out = (cdz_ids){ids, 0};
    if (!ids) return cdz_err_memory(err, "the watermark");
    for (uint32_t i = 0; i < n; i++) {
        const cdz_json *id = list ? &eos->items[i] : eos;
        if (is_id(id)) ids[out->len++] = (int32_t)id->integer;
    }
    return CDZ_OK;
}

cdz_status cdz_detection_read(const cdz_json *order, cdz_arena *arena, cdz_detection_input *in,
                              cdz_error *err)
{
    const cdz_json *model = cdz_json_get(order, "model"), *bos = cdz_json_get(order, "bos");
    in->z_threshold = 3.0;
    cdz_json_number(cdz_json_get(order, "z_threshold"), &in->z_threshold);
    in->detector = cdz_json_is(model, CDZ_JSON_STRING) ? model->string : NULL;
    in->bos = is_id(bos) ? (int32_t)bos->integer : -1;
    CDZ_TRY(read_eos(cdz_json_get(order, "eos"), arena, &in->eos, err));
    return cdz_watermark_read(cdz_json_get(order, "watermarking_config"), arena, &in->watermark,
                              err);
}

void cdz_detection_order(const cdz_watermark *watermark, double z_threshold, const char *detector,
                         const cdz_json *generation, cdz_buf *out)
{
    const cdz_json *bos = cdz_json_get(generation, "bos_token_id");
    const cdz_json *eos = cdz_json_get(generation, "eos_token_id");
    cdz_buf_puts(out, "{\"watermarking_config\": ");
    cdz_watermark_write(watermark, out);
    cdz_buf_puts(out, ", \"z_threshold\": ");
    cdz_json_write_real(out, z_threshold);
    if (detector) {
        cdz_buf_puts(out, ", \"model\": ");
        cdz_json_write_string(out, detector, strlen(detector));
    }
    if (bos) {
        cdz_buf_puts(out, ", \"bos\": ");
        cdz_json_write(out, bos);
    }
    if (eos) {
        cdz_buf_puts(out, ", \"eos\": ");
        cdz_json_write(out, eos);
    }
    cdz_buf_putc(out, '}');
}

double cdz_detection_p_value(double z)
{
    const double pi = 3.141592653589793;
    const double sign = z > 0 ? 1 : z < 0 ? -1 : 0;
    return 1 - 0.5 * (1 + sign * (1 - exp(-2 * z * z / pi)));
}

/* --- writing ------------------------------------------------------------------------------------------------ */

static void name_of(cdz_buf *out, const char *name)
{
    if (out->len && out->data[out->len - 1] != '{') cdz_buf_puts(out, ", ");
    cdz_buf_printf(out, "\"%s\": ", name);
}

void cdz_detection_numbers(cdz_buf *out, const char *name, const double *x, uint32_t n)
{
    name_of(out, name);
    for (uint32_t i = 0; i < n; i++) {
        cdz_buf_puts(out, i ? ", " : "[");
        cdz_json_write_real(out, x[i]);
    }
    cdz_buf_puts(out, n ? "]" : "[]");
}

void cdz_detection_counts(cdz_buf *out, const char *name, const uint32_t *x, uint32_t n)
{
    name_of(out, name);
    for (uint32_t i = 0; i < n; i++) cdz_buf_printf(out, "%s%u", i ? ", " : "[", x[i]);
    cdz_buf_puts(out, n ? "]" : "[]");
}

void cdz_detection_truths(cdz_buf *out, const char *name, const bool *x, uint32_t n)
{
    name_of(out, name);
    for (uint32_t i = 0; i < n; i++)
        cdz_buf_printf(out, "%s%s", i ? ", " : "[", x[i] ? "true" : "false");
    cdz_buf_puts(out, n ? "]" : "[]");
}

static cdz_status check_ids(const cdz_detection_input *in, cdz_error *err)
{
    for (uint32_t r = 0; r < in->n_rows; r++)
        for (uint32_t i = 0; i < in->lens[r]; i++)
            if (in->rows[r][i] < 0 || (uint32_t)in->rows[r][i] >= in->n_vocab)
                return cdz_err(err, CDZ_E_USAGE,
                               "token id %d at place %u: the vocabulary has ids 0 to %u",
                               in->rows[r][i], i, in->n_vocab - 1);
    return CDZ_OK;
}

cdz_status cdz_detection_write_json(const cdz_detection_input *in, cdz_buf *out, cdz_error *err)
{
    CDZ_TRY(check_ids(in, err));
    cdz_arena arena = {0};
    cdz_buf text = {0};
    cdz_buf_putc(&text, '{');
    cdz_status status = in->watermark.type.value == CDZ_WM_SYNTHID
                            ? cdz_detection_synthid(in, &arena, &text, err)
                            : cdz_detection_green(in, &arena, &text, err);
    cdz_buf_putc(&text, '}');
    if (status == CDZ_OK && text.failed) status = cdz_err_memory(err, "the answer");
    if (status == CDZ_OK) cdz_buf_add(out, text.data, text.len);
    cdz_buf_free(&text);
    cdz_arena_free(&arena);
    return status;
}
