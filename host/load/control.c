/* control.c - reads control vectors. Owns: what cdz_control_begin took. Thread: [any]. */
#include "load/control.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "load/gguf.h"

cdz_status cdz_control_begin(cdz_control *c, uint32_t n_layers, uint32_t width, cdz_error *err)
{
    *c = (cdz_control){.n_layers = n_layers, .width = width, .first = 1, .last = UINT32_MAX};
    c->sums = calloc((size_t)n_layers * width, sizeof *c->sums);
    c->has = calloc(n_layers, sizeof *c->has);
    if (c->sums && c->has) return CDZ_OK;
    cdz_control_free(c);
    return cdz_err_memory(err, "control vectors");
}

void cdz_control_free(cdz_control *c)
{
    free(c->sums);
    free(c->has);
    *c = (cdz_control){0};
}

/* Is it a file of them, and not a model? */
static cdz_status check_kind(const cdz_gguf *g, cdz_error *err)
{
    const char *text = "";
    size_t len = 0;
    CDZ_TRY(cdz_gguf_string(g, "general.architecture", &text, &len, err));
    if (len == strlen(CDZ_CONTROL_ARCHITECTURE) && memcmp(text, CDZ_CONTROL_ARCHITECTURE, len) == 0)
        return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT,
                   "%s: general.architecture is '%.*s', expected '" CDZ_CONTROL_ARCHITECTURE
                   "': the file has no control vectors",
                   g->path, (int)(len < 40 ? len : 40), text);
}

/* The layer that a tensor's name says. */
static cdz_status read_layer(const cdz_gguf *g, const cdz_tensor *t, uint32_t *out, cdz_error *err)
{
    const size_t stem = strlen(CDZ_CONTROL_TENSOR);
    const char *digits = strncmp(t->name, CDZ_CONTROL_TENSOR, stem) == 0 ? t->name + stem : "";
    char *end;
    errno = 0;
    const unsigned long n = strtoul(digits, &end, 10);
    if (digits[0] < '1' || digits[0] > '9' || *end || errno || n > INT32_MAX)
        return cdz_err(err, CDZ_E_INPUT,
                       "%s: tensor %s: expected " CDZ_CONTROL_TENSOR "N, where N is a layer from 1",
                       g->path, t->name);
    *out = (uint32_t)n;
    return CDZ_OK;
}

static cdz_status check_fits(const cdz_control *c, const cdz_gguf *g, const cdz_tensor *t,
                             uint32_t layer, cdz_error *err)
{
    char shape[64];
    if (layer >= c->n_layers)
        return cdz_err(err, CDZ_E_INPUT,
                       "%s: tensor %s: the model has %" PRIu32
                       " layers, the last of which is number %" PRIu32,
                       g->path, t->name, c->n_layers, c->n_layers - 1);
    if (t->n_dims == 1 && t->shape[0] == c->width && strcmp(t->dtype, "F32") == 0) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT,
                   "%s: tensor %s is %s of %s; the model's hidden states are [%" PRIu32 "] of F32",
                   g->path, t->name, cdz_tensor_shape_text(t, shape, sizeof shape), t->dtype,
                   c->width);
}

static cdz_status check_finite(const cdz_control *c, const cdz_gguf *g, const cdz_tensor *t,
                               const float *sum, cdz_error *err)
{
    for (uint32_t k = 0; k < c->width; k++)
        if (!isfinite(sum[k]))
            return cdz_err(err, CDZ_E_INPUT,
                           "%s: tensor %s, scaled and added: number %" PRIu32 " is not finite",
                           g->path, t->name, k);
    return CDZ_OK;
}

static cdz_status add_tensor(cdz_control *c, const cdz_gguf *g, const cdz_tensor *t, float scale,
                             float *row, cdz_error *err)
{
    uint32_t layer;
    CDZ_TRY(read_layer(g, t, &layer, err));
    if (layer < c->first || layer > c->last) return CDZ_OK;
    CDZ_TRY(check_fits(c, g, t, layer, err));
    CDZ_TRY(cdz_gguf_floats(g, t, row, c->width, err));
    float *sum = c->sums + (size_t)layer * c->width;
    for (uint32_t k = 0; k < c->width; k++) sum[k] += row[k] * scale;
    c->has[layer] = true;
    return check_finite(c, g, t, sum, err);
}

static cdz_status add_all(cdz_control *c, const cdz_gguf *g, float scale, cdz_error *err)
{
    float *row = calloc(c->width, sizeof *row);
    cdz_status status = row ? check_kind(g, err) : cdz_err_memory(err, "control vectors");
    if (status == CDZ_OK && g->tensors.n_items == 0)
        status = cdz_err(err, CDZ_E_INPUT, "%s: there is no " CDZ_CONTROL_TENSOR "N in it", g->path);
    for (size_t i = 0; status == CDZ_OK && i < g->tensors.n_items; i++)
        status = add_tensor(c, g, &g->tensors.items[i], scale, row, err);
    free(row);
    return status;
}

cdz_status cdz_control_add(cdz_control *c, const char *path, float scale, cdz_error *err)
{
    cdz_gguf g = {0};
    CDZ_TRY(cdz_gguf_open(path, &g, err));
    const cdz_status status = add_all(c, &g, scale, err);
    cdz_gguf_close(&g);
    return status;
}
