/* smoothing.c - quadratic and cubic smoothing: the best tokens come closer together, the far ones fall away.
 *
 * kalomaze, text-generation-webui pull requests 5403 and 5551 (2024). With d the distance to the best score, at most 0:
 *     best - k * smoothing_factor * d^2 + s * smoothing_factor * d^3,  k = (3 - curve) / 2,  s = (curve - 1) / 2
 * Curve 1 is the plain parabola. Near the best the curve is so flat that scores may round to the same. */
#include <cadenza/processor.h>

#include <math.h>

typedef struct {
    double smoothing_factor, smoothing_curve;
} settings;

static const cdz_param params[] = {
    CDZ_REAL(settings, smoothing_factor, 0.3, 0, 1e6, "steepness of the curve; 0: off"),
    CDZ_REAL(settings, smoothing_curve, 1.0, 1, 3,
             "1: a parabola; above: its far end falls faster, as the third power at 3"),
};

static bool idle(const cdz_step *step)
{
    const settings *p = step->params;
    return p->smoothing_factor == 0;
}

/* Masked scores stay masked; worked out in double, rounded once. */
static void smooth(float *row, uint32_t n_vocab, double factor, double curve)
{
    const double square = (3 - curve) / 2 * factor, cube = (curve - 1) / 2 * factor;
    float best = -INFINITY;

    for (uint32_t v = 0; v < n_vocab; v++)
        if (row[v] > best) best = row[v];
    for (uint32_t v = 0; v < n_vocab; v++) {
        const double d = (double)row[v] - (double)best;
        if (row[v] != -INFINITY) row[v] = (float)((double)best - square * d * d + cube * d * d * d);
    }
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const settings *p = step->params;

    for (uint32_t r = 0; r < scores->n_rows; r++)
        smooth(cdz_row(scores, r), scores->n_vocab, p->smoothing_factor, p->smoothing_curve);
    return CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "smoothing", .version = "1.0.0",
             .summary = "Bring the best tokens closer together and push the far ones away",
             CDZ_PARAMS(settings, params)},
    .caps = CDZ_ROWWISE | CDZ_SAMPLING_ONLY,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
