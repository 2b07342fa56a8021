/* control_out.c - writes control vectors as llama.cpp reads them. Thread: [any]. */
#include "convert/control_out.h"

#include <inttypes.h>

#include "convert/gguf_out.h"
#include "convert/out.h"
#include "load/control.h"

static cdz_status add_layer(const cdz_control_out *what, uint32_t i, cdz_out_tensors *tensors,
                            cdz_error *err)
{
    cdz_weight *part = cdz_arena_array(&tensors->arena, 1, sizeof *part);
    const char *name =
        cdz_arena_printf(&tensors->arena, CDZ_CONTROL_TENSOR "%" PRIu32, what->first + i);
    if (!part || !name) return cdz_err_memory(err, "control vectors");
    *part = (cdz_weight){.data = what->directions + (size_t)i * what->width,
                         .dtype = CDZ_F32,
                         .n = 1,
                         .k = what->width};
    const cdz_out_tensor tensor = {.name = name,
                                   .shape = {what->width},
                                   .n_dims = 1,
                                   .type = CDZ_F32,
                                   .parts = part,
                                   .n_parts = 1};
    return cdz_out_tensors_add(tensors, &tensor) ? CDZ_OK : cdz_err_memory(err, "control vectors");
}

static cdz_status put(const cdz_control_out *what, cdz_out_tensors *tensors, cdz_target *target,
                      cdz_error *err)
{
    const cdz_watch nobody = {0};
    cdz_gguf_meta meta = {0};
    cdz_out out = {.watch = &nobody, .err = err};
    for (uint32_t i = 0; i < what->n; i++) CDZ_TRY(add_layer(what, i, tensors, err));
    cdz_meta_text(&meta, "general.architecture", CDZ_CONTROL_ARCHITECTURE);
    cdz_meta_text(&meta, CDZ_CONTROL_HINT, what->hint);
    cdz_meta_u32(&meta, CDZ_CONTROL_COUNT, what->n);
    cdz_status status = cdz_out_open(target, NULL, &out);
    if (status == CDZ_OK) status = cdz_out_write_gguf(&meta, tensors, &out);
    cdz_buf_free(&meta.bytes);
    status = cdz_out_close(&out, status);
    return status == CDZ_OK ? cdz_target_finish(target, err) : status;
}

cdz_status cdz_out_control(const cdz_control_out *what, const char *path, bool force, cdz_error *err)
{
    cdz_target target = {0};
    cdz_out_tensors tensors = {0};
    cdz_status status = cdz_target_begin(&target, path, false, force, "", err);
    if (status == CDZ_OK) status = put(what, &tensors, &target, err);
    cdz_target_drop(&target);
    cdz_out_tensors_free(&tensors);
    return status;
}
