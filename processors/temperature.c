/* temperature.c - divide scores by the temperature: below 1 sharper, above 1 flatter.
 * transformers TemperatureLogitsWarper: a true division in float32, not a product with the reciprocal. */
#include "tools.h"

typedef struct {
    cdz_opt_real temperature;
} temperature;

static const cdz_param params[] = {
    CDZ_OPT_REAL(temperature, temperature, CDZ_GENERATION | CDZ_ABOVE_MIN, 0, CDZ_NO_LIMIT,
                 "scores are divided by it"),
};

static cdz_status create(const cdz_step *step)
{
    const temperature *p = step->params;
    return need_fraction(step, "temperature", p->temperature);
}

static bool idle(const cdz_step *step)
{
    const temperature *p = step->params;
    return !p->temperature.set || p->temperature.value == 1.0;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const temperature *p = step->params;
    const cdz_vec *vec = cdz_get_vec(step);

    for (uint32_t r = 0; r < scores->n_rows; r++)
        vec->div(cdz_row(scores, r), scores->n_vocab, (float)p->temperature.value);
    return CDZ_OK;
}

static bool describe(const cdz_step *step, cdz_form *out)
{
    const temperature *p = step->params;

    out->kind = CDZ_FORM_DIVIDE;
    out->amount = p->temperature.value;
    return true;
}

static const cdz_form_api form = {.size = sizeof form, .describe = describe};

static const void *extension(const char *id)
{
    return strcmp(id, CDZ_EXT_FORM) == 0 ? &form : NULL;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "temperature", .version = "1.0.0",
             .summary = "Sharpen or flatten the distribution", CDZ_PARAMS(temperature, params),
             .extension = extension},
    .caps = CDZ_ROWWISE | CDZ_ELEMENTWISE | CDZ_KEEPS_ARGMAX | CDZ_SAMPLING_ONLY,
    .create = create,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
