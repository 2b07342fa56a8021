/* bayes.c - transformers' BayesianDetectorModel: how likely g-values are under the watermark, layer by layer, against
 * fair coins. Weights: likelihood_model_watermarked.beta (1, 1, depth), .delta (1, 1, depth, depth), prior (1). */
#include <math.h>
#include <string.h>

#include "detect/detect.h"
#include "load/safetensors.h"

/* A tensor of n floats, copied: the file is closed again. */
static cdz_status read_floats(const char *path, const cdz_tensors *tensors, const char *name,
                              size_t n, cdz_arena *arena, const float **out, cdz_error *err)
{
    const cdz_tensor *t = cdz_tensors_find(tensors, name);
    char shape[80];
    if (!t) return cdz_err(err, CDZ_E_INPUT, "%s: tensor %s is missing", path, name);
    if (strcmp(t->dtype, "F32") != 0 || t->n_bytes != n * sizeof(float))
        return cdz_err(err, CDZ_E_INPUT, "%s: tensor %s is %s %s, expected %zu F32 values", path,
                       name, t->dtype, cdz_tensor_shape_text(t, shape, sizeof shape), n);
    float *copy = cdz_arena_array(arena, n, sizeof *copy);
    if (!copy) return cdz_err_memory_in(err, path);
    memcpy(copy, t->data, n * sizeof *copy);
    *out = copy;
    return CDZ_OK;
}

static cdz_status read_depth(const char *path, cdz_arena *arena, uint32_t *depth, cdz_error *err)
{
    enum { MOST = 1024 };
    cdz_json config;
    CDZ_TRY(cdz_json_read_file(path, 1u << 20, NULL, arena, &config, err));
    const cdz_json *value = cdz_json_get(&config, "watermarking_depth");
    if (!cdz_json_is(value, CDZ_JSON_INT) || value->integer < 1 || value->integer > MOST)
        return cdz_err(err, CDZ_E_INPUT,
                       "%s: watermarking_depth must be an integer from 1 to %d: is this a folder of "
                       "a BayesianDetectorModel?",
                       path, MOST);
    *depth = (uint32_t)value->integer;
    return CDZ_OK;
}

static cdz_status read_weights(const char *path, cdz_arena *arena, cdz_bayes *out, cdz_error *err)
{
    cdz_tensors tensors = {0};
    const float *prior;
    const size_t depth = out->depth;
    CDZ_TRY(cdz_tensors_open(path, &tensors, err));
    cdz_status status = read_floats(path, &tensors, "likelihood_model_watermarked.beta", depth,
                                    arena, &out->beta, err);
    if (status == CDZ_OK)
        status = read_floats(path, &tensors, "likelihood_model_watermarked.delta", depth * depth,
                             arena, &out->delta, err);
    if (status == CDZ_OK) status = read_floats(path, &tensors, "prior", 1, arena, &prior, err);
    if (status == CDZ_OK) out->prior = *prior;
    cdz_tensors_close(&tensors);
    return status;
}

cdz_status cdz_bayes_read(const char *folder, cdz_arena *arena, cdz_bayes *out, cdz_error *err)
{
    const char *config = cdz_arena_printf(arena, "%s/config.json", folder);
    const char *weights = cdz_arena_printf(arena, "%s/model.safetensors", folder);
    if (!config || !weights) return cdz_err_memory_in(err, folder);
    *out = (cdz_bayes){0};
    CDZ_TRY(read_depth(config, arena, &out->depth, err));
    return read_weights(weights, arena, out, err);
}

/* log of P(g of layer k | marked, g of the layers before) over P(g | not marked) = 1/2. */
static double log_odds(const cdz_bayes *b, const uint8_t *g, uint32_t k)
{
    double x = (double)b->beta[k];
    for (uint32_t l = 0; l < k; l++) x += (double)b->delta[(size_t)k * b->depth + l] * g[l];
    const double two = 1 / (1 + exp(-x)); /* P(two different tokens met in this layer) */
    const double likelihood = 0.5 * ((g[k] + 0.5) * two + (1 - two));
    return log(fmax(likelihood, 1e-30)) - log(0.5);
}

double cdz_bayes_score(const cdz_bayes *b, const uint8_t *g, const uint8_t *mask, uint32_t n)
{
    const double prior = fmin(fmax((double)b->prior, 1e-5), 1 - 1e-5);
    double sum = log(prior) - log(1 - prior);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; mask[i] && k < b->depth; k++)
            sum += log_odds(b, g + (size_t)i * b->depth, k);
    return 1 / (1 + exp(-sum));
}
