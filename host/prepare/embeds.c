/* embeds.c - prompts given as embeddings: from the caller's memory, from lists in the document, or from files beside it. */
#include <stdio.h>
#include <string.h>

#include "load/npy.h"
#include "load/safetensors.h"
#include "prepare/prepare.h"

enum { MAX_ROWS = 4096, MAX_LEN = 1 << 24 };

/* Room for n rows of len embeddings. */
static cdz_status make_room(cdz_arena *arena, uint64_t n, uint64_t len, cdz_embeds *out,
                            cdz_error *err)
{
    if (n == 0 || n > MAX_ROWS || len == 0 || len > MAX_LEN)
        return cdz_err(err, CDZ_E_USAGE,
                       "request: \"inputs_embeds\" has %llu rows of %llu positions; expected 1 to "
                       "%d rows of 1 to %d",
                       (unsigned long long)n, (unsigned long long)len, MAX_ROWS, MAX_LEN);
    out->n = (uint32_t)n;
    out->len = (uint32_t)len;
    out->data = cdz_arena_array(arena, (size_t)(n * len), out->width * sizeof *out->data);
    return out->data ? CDZ_OK : cdz_err_memory(err, "the prompt's embeddings");
}

/* (rows, positions, width) or, for one row, (positions, width). */
static cdz_status copy_array(const char *what, const uint64_t *shape, uint32_t n_dims,
                             const void *data, cdz_arena *arena, cdz_embeds *out, cdz_error *err)
{
    if (n_dims < 2 || n_dims > 3 || shape[n_dims - 1] != out->width)
        return cdz_err(err, CDZ_E_INPUT,
                       "%s has %u dimensions, the last of %llu; expected rows, positions and the "
                       "model's hidden size %u",
                       what, n_dims, n_dims ? (unsigned long long)shape[n_dims - 1] : 0, out->width);
    CDZ_TRY(make_room(arena, n_dims == 3 ? shape[0] : 1, shape[n_dims - 2], out, err));
    memcpy(out->data, data, (size_t)out->n * out->len * out->width * sizeof *out->data);
    return CDZ_OK;
}

/* --- from files --------------------------------------------------------------------------------------------------- */

static cdz_status from_npy(const char *path, cdz_arena *arena, cdz_embeds *out, cdz_error *err)
{
    cdz_npy npy;
    CDZ_TRY(cdz_npy_open(path, &npy, err));
    cdz_status status = copy_array(path, npy.shape, npy.n_dims, npy.data, arena, out, err);
    if (status == CDZ_OK) status = cdz_file_check(&npy.file, err);
    cdz_npy_close(&npy);
    return status;
}

static cdz_status from_safetensors(const char *path, const char *name, cdz_arena *arena,
                                   cdz_embeds *out, cdz_error *err)
{
    cdz_tensors tensors = {0};
    CDZ_TRY(cdz_tensors_open(path, &tensors, err));
    const cdz_tensor *t = cdz_tensors_find(&tensors, name);
    cdz_status status;
    if (!t)
        status = cdz_err(err, CDZ_E_NOT_FOUND, "%s: holds no tensor '%s'", path, name);
    else if (strcmp(t->dtype, "F32") != 0)
        status = cdz_err(err, CDZ_E_UNSUPPORTED, "%s: tensor '%s' is %s; expected F32", path, name,
                         t->dtype);
    else
        status = copy_array(name, t->shape, t->n_dims, t->data, arena, out, err);
    if (status == CDZ_OK) status = cdz_file_check(&tensors.files[0], err);
    cdz_tensors_close(&tensors);
    return status;
}

/* Files lie in the folder that the caller opened to documents, or below it. */
static cdz_status check_path(const cdz_prepare_input *in, const char *name, cdz_error *err)
{
    if (!in->inputs_dir)
        return cdz_err(err, CDZ_E_USAGE,
                       "request: \"inputs_embeds\" names '%s', but this program opens no files for "
                       "requests; give the numbers themselves",
                       name);
    const char *up = strstr(name, "..");
    if (name[0] == '/' || up)
        return cdz_err(err, CDZ_E_USAGE,
                       "request: \"inputs_embeds\" = '%s': files are named relative to '%s', "
                       "without '..'",
                       name, in->inputs_dir);
    return CDZ_OK;
}

/* "file.npy", "file.safetensors#tensor", or a tensor of inputs.safetensors. */
static cdz_status from_file(const cdz_prepare_input *in, const char *name, cdz_arena *arena,
                            cdz_embeds *out, cdz_error *err)
{
    CDZ_TRY(check_path(in, name, err));
    const size_t len = strlen(name);
    const char *hash = strchr(name, '#');
    const bool npy = !hash && len > 4 && strcmp(name + len - 4, ".npy") == 0;
    const char *file = npy    ? name
                       : hash ? cdz_arena_strndup(arena, name, (size_t)(hash - name))
                              : "inputs.safetensors";
    const char *path = file ? cdz_arena_printf(arena, "%s/%s", in->inputs_dir, file) : NULL;
    if (!path) return cdz_err_memory(err, "the prompt's embeddings");
    if (npy) return from_npy(path, arena, out, err);
    return from_safetensors(path, hash ? hash + 1 : name, arena, out, err);
}

/* --- from lists --------------------------------------------------------------------------------------------------- */

static cdz_status bad_list(const cdz_embeds *e, cdz_error *err)
{
    return cdz_err(err, CDZ_E_USAGE,
                   "request: \"inputs_embeds\" must be a list of rows, all of as many positions, "
                   "each a list of %u numbers; or the name of a file",
                   e->width);
}

static bool is_list(const cdz_json *value, uint32_t len)
{
    return value->type == CDZ_JSON_ARRAY && (len == 0 || value->len == len);
}

static cdz_status from_lists(const cdz_json *rows, cdz_arena *arena, cdz_embeds *out, cdz_error *err)
{
    if (rows->len == 0 || !is_list(&rows->items[0], 0)) return bad_list(out, err);
    CDZ_TRY(make_room(arena, rows->len, rows->items[0].len, out, err));
    float *to = out->data;
    for (uint32_t r = 0; r < out->n; r++) {
        if (!is_list(&rows->items[r], out->len)) return bad_list(out, err);
        for (uint32_t p = 0; p < out->len; p++) {
            const cdz_json *position = &rows->items[r].items[p];
            if (!is_list(position, out->width)) return bad_list(out, err);
            for (uint32_t i = 0; i < out->width; i++) {
                double value;
                if (!cdz_json_number(&position->items[i], &value)) return bad_list(out, err);
                *to++ = (float)value;
            }
        }
    }
    return CDZ_OK;
}

cdz_status cdz_embeds_read(const cdz_prepare_input *in, cdz_arena *arena, cdz_embeds *out,
                           cdz_error *err)
{
    *out = (cdz_embeds){.width = cdz_weights_arch(cdz_run_model_weights(in->model))->hidden};
    const cdz_json *given = in->document ? cdz_json_get(in->document, "inputs_embeds") : NULL;
    if (in->embeds.n) {
        const uint64_t shape[] = {in->embeds.n, in->embeds.len, in->embeds.width};
        return copy_array("cdz_request.embeds", shape, 3, in->embeds.data, arena, out, err);
    }
    if (!given || given->type == CDZ_JSON_NULL) return CDZ_OK;
    if (given->type == CDZ_JSON_STRING) return from_file(in, given->string, arena, out, err);
    if (given->type == CDZ_JSON_ARRAY) return from_lists(given, arena, out, err);
    return bad_list(out, err);
}
