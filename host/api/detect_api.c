/* detect_api.c - cdz_detect: the order put together, the text looked at. */
#include <string.h>

#include "api/api.h"
#include "detect/detect.h"

/* From the options' JSON, or from what the pipeline would write. *plan is the caller's to free. */
static cdz_status read_settings(const cdz_model *model, const cdz_detect_options *o,
                                cdz_arena *arena, cdz_plan **plan, cdz_watermark *out,
                                cdz_error *err)
{
    cdz_json config;
    if (o->watermark) {
        CDZ_TRY(cdz_json_parse(o->watermark, strlen(o->watermark), "watermark", NULL, arena,
                               &config, err));
        return cdz_watermark_read(&config, arena, out, err);
    }
    if (o->pipeline)
        CDZ_TRY(cdz_pipeline_plan(o->pipeline, &model->generation, NULL, false, plan, err));
    const cdz_watermark *found = *plan ? cdz_plan_watermark(*plan) : NULL;
    if (!found)
        return cdz_err(err, CDZ_E_USAGE,
                       "no watermark to look for: set watermarking_config, such as "
                       "{\"bias\": 2.5}, as it was when the text was written");
    *out = *found;
    return CDZ_OK;
}

static cdz_status detect(const cdz_model *model, const cdz_detect_options *o, const int32_t *ids,
                         uint32_t n, cdz_arena *arena, cdz_plan **plan, cdz_buf *out, cdz_error *err)
{
    cdz_buf order = {0};
    cdz_json read;
    cdz_detection_input in = {.rows = &ids,
                              .lens = &n,
                              .n_rows = 1,
                              .n_vocab = cdz_run_model_weights(model->run)->arch.n_vocab};
    cdz_watermark watermark;
    CDZ_TRY(read_settings(model, o, arena, plan, &watermark, err));
    cdz_detection_order(&watermark, o->z_threshold != 0 ? o->z_threshold : 3.0, o->detector,
                        &model->generation, &order);
    cdz_status status =
        order.failed ? cdz_err_memory(err, "the watermark")
                     : cdz_json_parse(order.data, order.len, "detect", NULL, arena, &read, err);
    if (status == CDZ_OK) status = cdz_detection_read(&read, arena, &in, err);
    if (status == CDZ_OK) status = cdz_detection_write_json(&in, out, err);
    cdz_buf_free(&order);
    return status;
}

cdz_status cdz_detect(const cdz_model *model, const cdz_detect_options *options, const int32_t *ids,
                      size_t n_ids, char **json, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_plan *plan = NULL;
    cdz_buf out = {0};
    if (!options || options->size != sizeof *options)
        return cdz_err(err, CDZ_E_USAGE,
                       "cdz_detect_options.size must be %zu: sizeof(cdz_detect_options)",
                       sizeof *options);
    if (n_ids > UINT32_MAX) return cdz_err(err, CDZ_E_LIMIT, "the text has %zu tokens", n_ids);
    cdz_status status = detect(model, options, ids, (uint32_t)n_ids, &arena, &plan, &out, err);
    cdz_plan_free(plan);
    cdz_arena_free(&arena);
    if (status == CDZ_OK)
        *json = out.data;
    else
        cdz_buf_free(&out);
    return status;
}
