/* qfilter.c - keys stay that point along a direction which queries have, known beforehand for each head. Godey et al. 2025.
 *
 * The directions are a tensor q_filters (layers, KV heads, head_dim) of float32 in a safetensors file. */
#include <stdio.h>
#include <string.h>

#include "presses.h"

enum { MOST_HEADER = 1 << 20 };

typedef struct {
    cdz_opt_real compression_ratio;
    const char *filters;
} settings;

static const cdz_param params[] = {
    COMPRESSION_RATIO(settings),
    CDZ_FILE(settings, filters, "the safetensors file with q_filters"),
};

/* What begin reads. */
typedef struct filters {
    uint64_t layers, heads, dim;
    float *at; /* (layers, heads, dim) */
} filters;

/* [load] */
static cdz_status create(const cdz_step *step)
{
    const settings *p = step->params;
    return p->filters
               ? CDZ_OK
               : cdz_fail(step, CDZ_E_USAGE, "filters is not set; expected a safetensors file");
}

static bool read_shape(const char *header, filters *out, uint64_t *begin, uint64_t *end)
{
    const char *at = strstr(header, "\"q_filters\"");
    const char *shape = at ? strstr(at, "\"shape\"") : NULL;
    const char *offsets = at ? strstr(at, "\"data_offsets\"") : NULL;
    const char *type = at ? strstr(at, "\"F32\"") : NULL;
    unsigned long long l, h, d, b, e;
    if (!shape || !offsets || !type) return false;
    shape = strchr(shape, '[');
    offsets = strchr(offsets, '[');
    if (!shape || sscanf(shape, "[%llu ,%llu ,%llu", &l, &h, &d) != 3) return false;
    if (!offsets || sscanf(offsets, "[%llu ,%llu", &b, &e) != 2) return false;
    if (l > 4096 || h > 4096 || d > 65536 || e < b || e - b != l * h * d * sizeof(float))
        return false;
    *out = (filters){.layers = l, .heads = h, .dim = d};
    *begin = b;
    *end = e;
    return true;
}

static cdz_status refuse(const cdz_step *step, const char *path, const char *why)
{
    return cdz_fail(step, CDZ_E_INPUT, "filters: %s: %s", path, why);
}

/* Header, then the tensor. */
static cdz_status read_filters(const cdz_step *step, FILE *file, const char *path, filters *out)
{
    uint64_t n = 0, begin, end;
    if (fread(&n, sizeof n, 1, file) != 1 || n == 0 || n > MOST_HEADER)
        return refuse(step, path, "is no safetensors file");
    char *header = cdz_scratch(step, (size_t)n + 1);
    if (!header) return cdz_fail(step, CDZ_E_NOMEM, "out of memory for filters");
    if (fread(header, 1, (size_t)n, file) != n) return refuse(step, path, "is cut short");
    header[n] = '\0';
    if (!read_shape(header, out, &begin, &end))
        return refuse(step, path, "has no q_filters (layers, KV heads, head_dim) of F32");
    out->at = cdz_alloc(step, (size_t)(end - begin));
    if (!out->at) return cdz_fail(step, CDZ_E_NOMEM, "out of memory for filters");
    if (fseek(file, (long)(sizeof n + n + begin), SEEK_SET) != 0 ||
        fread(out->at, 1, (size_t)(end - begin), file) != end - begin)
        return refuse(step, path, "is cut short");
    return CDZ_OK;
}

/* [engine] */
static cdz_status begin(const cdz_step *step, void **shared)
{
    const settings *p = step->params;
    filters *f = cdz_alloc(step, sizeof *f);
    if (!f) return cdz_fail(step, CDZ_E_NOMEM, "out of memory for filters");
    FILE *file = fopen(p->filters, "rb");
    if (!file) return refuse(step, p->filters, "cannot be opened");
    const cdz_status status = read_filters(step, file, p->filters, f);
    fclose(file);
    *shared = f;
    return status;
}

/* [engine] */
static cdz_status needs(const cdz_step *step, cdz_press_needs *out)
{
    const settings *p = step->params;
    out->what = CDZ_PRESS_KEYS;
    want_ratio(out, &p->compression_ratio);
    return CDZ_OK;
}

/* [engine] */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    const filters *f = step->shared;
    if (f->layers != view->n_layers || f->heads != view->n_kv_heads || f->dim != view->head_dim)
        return cdz_fail(step, CDZ_E_INPUT,
                        "filters: the file is for %u layers, %u heads and %u dims, the model has %u, "
                        "%u and %u",
                        (unsigned)f->layers, (unsigned)f->heads, (unsigned)f->dim, view->n_layers,
                        view->n_kv_heads, view->head_dim);
    for (uint32_t g = 0; g < view->n_kv_heads; g++) {
        const float *filter = f->at + (view->layer * f->heads + g) * f->dim;
        for (uint32_t i = 0; i < view->counts[g]; i++)
            scores_of(view, choice, g)[i] =
                -dot(filter, entry_of(view, view->keys, g, i), view->head_dim);
    }
    return CDZ_OK;
}

static const cdz_press qfilter = {
    .base = {CDZ_PRESS_BASE, .id = "qfilter", .version = "1.0.0",
             .summary = "Keep keys along directions that queries are known to have",
             CDZ_PARAMS(settings, params)},
    .create = create,
    .begin = begin,
    .needs = needs,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&qfilter.base)
