/* control_vectors.c - the files of control vectors that a model is opened with: their sum becomes the edits that all its
 * sequences begin with. The options name them, or a pipeline file that was loaded before the first model.
 *
 * Owns: what such a file asked for, in the runtime. Thread: [any], before the model's first request. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "config/sources.h"
#include "load/control.h"

/* "A:NUMBER"; *len is A's length. */
static bool split(const char *text, size_t *len, double *number)
{
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    if (!colon || colon == text) return false;
    *number = strtod(colon + 1, &end);
    *len = (size_t)(colon - text);
    return end != colon + 1 && !*end && isfinite(*number);
}

static cdz_status add_scaled(cdz_control *control, const char *text, cdz_error *err)
{
    size_t len;
    double scale;
    if (!split(text, &len, &scale))
        return cdz_err(err, CDZ_E_USAGE,
                       "control_vector_scaled '%.200s': expected FILE:SCALE, such as happy.gguf:0.8",
                       text);
    char *path = strndup(text, len);
    if (!path) return cdz_err_memory(err, "control vectors");
    const cdz_status status = cdz_control_add(control, path, (float)scale, err);
    free(path);
    return status;
}

/* llama.cpp's last layer may be the number of layers. */
static cdz_status read_range(cdz_control *control, const char *text, cdz_error *err)
{
    size_t len;
    double last;
    char *end;
    if (!text) return CDZ_OK;
    const double first = strtod(text, &end);
    if (!split(text, &len, &last) || end != text + len || first != floor(first) ||
        last != floor(last) || first < 1 || last < first || last > control->n_layers)
        return cdz_err(err, CDZ_E_USAGE,
                       "control_vector_layer_range '%.80s': expected FIRST:LAST, of the layers 1 to "
                       "%" PRIu32,
                       text, control->n_layers - 1);
    control->first = (uint32_t)first;
    control->last = (uint32_t)last;
    return CDZ_OK;
}

static cdz_status add_files(cdz_control *control, const cdz_model_options *how, cdz_error *err)
{
    CDZ_TRY(read_range(control, how->control_vector_layer_range, err));
    for (uint32_t i = 0; i < how->n_control_vectors; i++)
        CDZ_TRY(cdz_control_add(control, how->control_vectors[i], 1, err));
    for (uint32_t i = 0; i < how->n_control_vectors_scaled; i++)
        CDZ_TRY(add_scaled(control, how->control_vectors_scaled[i], err));
    return CDZ_OK;
}

static cdz_status give(cdz_model *model, const cdz_control *control, cdz_error *err)
{
    uint32_t n = 0;
    cdz_edit *edits = calloc(control->n_layers, sizeof *edits);
    if (!edits) return cdz_err_memory(err, "control vectors");
    for (uint32_t l = 0; l < control->n_layers; l++)
        if (control->has[l])
            edits[n++] = (cdz_edit){.layer = l,
                                    .place = CDZ_EDIT_BLOCK,
                                    .op = CDZ_EDIT_ADD,
                                    .scale = 1,
                                    .vector = control->sums + (size_t)l * control->width,
                                    .width = control->width};
    const cdz_status status =
        n ? cdz_run_model_control(model->run, edits, n, err)
          : cdz_err(err, CDZ_E_USAGE,
                    "control_vector_layer_range: the control vectors have none of the layers %" PRIu32
                    " to %" PRIu32,
                    control->first, control->last);
    free(edits);
    return status;
}

static cdz_status take(cdz_model *model, const cdz_model_options *how, cdz_error *err)
{
    const cdz_arch *arch = cdz_weights_arch(cdz_run_model_weights(model->run));
    cdz_control control;
    if (how->n_control_vectors + how->n_control_vectors_scaled == 0)
        return !how->control_vector_layer_range
                   ? CDZ_OK
                   : cdz_err(err, CDZ_E_USAGE,
                             "control_vector_layer_range: there is no control vector");
    CDZ_TRY(cdz_control_begin(&control, (uint32_t)arch->n_layers, (uint32_t)arch->hidden, err));
    cdz_status status = add_files(&control, how, err);
    if (status == CDZ_OK) status = give(model, &control, err);
    cdz_control_free(&control);
    return status;
}

/* --- what a pipeline file asks for ------------------------------------------------------------------------------------- */

/* Texts apart by commas, paths of files beside the pipeline file. */
static cdz_status wish_each(cdz_runtime *rt, const cdz_setting *setting, const char *text,
                            const cdz_origin *at, cdz_error *err)
{
    while (*(text += strspn(text, " \t,"))) {
        size_t n = strcspn(text, ",");
        const char *next = text + n;
        while (text[n - 1] == ' ' || text[n - 1] == '\t') n--;
        const char *one = cdz_arena_strndup(&rt->control_texts, text, n);
        const char *path = one ? cdz_sources_path(&rt->control_texts, at, one) : NULL;
        if (!path) return cdz_err_memory(err, "control vectors");
        CDZ_TRY(cdz_setting_put(setting, &rt->control, path, err));
        text = next;
    }
    return CDZ_OK;
}

static cdz_status wish_range(cdz_runtime *rt, const cdz_setting *setting, const char *text,
                             cdz_error *err)
{
    const char *kept = cdz_arena_strdup(&rt->control_texts, text);
    return kept ? cdz_setting_put(setting, &rt->control, kept, err)
                : cdz_err_memory(err, "control vectors");
}

cdz_status cdz_runtime_wish_control(cdz_runtime *rt, const cdz_setting *setting, const char *text,
                                    const cdz_origin *at, cdz_error *err)
{
    cdz_mutex_lock(&rt->lock);
    cdz_status status = CDZ_OK;
    if (rt->has_opened)
        status = cdz_err(err, CDZ_E_STATE,
                         "%s: a model has its control vectors from its beginning, and one is open; "
                         "the file counts if it is loaded before the model",
                         setting->name);
    else
        status = setting->kind == CDZ_KIND_TEXTS ? wish_each(rt, setting, text, at, err)
                                                 : wish_range(rt, setting, text, err);
    cdz_mutex_unlock(&rt->lock);
    return status;
}

void cdz_runtime_free_control(cdz_runtime *rt)
{
    free((void *)(uintptr_t)rt->control.control_vectors);
    free((void *)(uintptr_t)rt->control.control_vectors_scaled);
    cdz_arena_free(&rt->control_texts);
}

/* Does anybody name any? Then the options' own count, and no pipeline's. */
static bool says(const cdz_model_options *how)
{
    return how->n_control_vectors || how->n_control_vectors_scaled ||
           how->control_vector_layer_range;
}

cdz_status cdz_model_take_control(cdz_model *model, const cdz_model_options *how, cdz_error *err)
{
    cdz_runtime *rt = model->runtime;
    cdz_mutex_lock(&rt->lock);
    const bool first = !rt->has_opened; /* after which nobody changes what is asked for */
    rt->has_opened = true;
    cdz_mutex_unlock(&rt->lock);
    const cdz_status status = take(model, first && !says(how) ? &rt->control : how, err);
    cdz_mutex_lock(&rt->lock);
    if (first && status != CDZ_OK) rt->has_opened = false;
    cdz_mutex_unlock(&rt->lock);
    return status;
}
