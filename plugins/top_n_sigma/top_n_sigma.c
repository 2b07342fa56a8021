/* top_n_sigma.c - drop tokens whose score is more than n standard deviations below the best.
 *
 * Tang et al., "Top-n-sigma: Not All Logits Are You Need" (2024), algorithm 1: keep x >= max - n * sigma, sigma over all
 * scores of the row. As in llama.cpp masked scores do not count, and sigma divides by the number of scores. A temperature
 * before it changes nothing: max and sigma scale alike. */
#include <cadenza/processor.h>

#include <math.h>

typedef struct {
    double top_n_sigma;
} settings;

static const cdz_param params[] = {
    CDZ_REAL(settings, top_n_sigma, 1.0, 0, 1e6,
             "standard deviations below the best that are kept; 0: off"),
};

static bool idle(const cdz_step *step)
{
    const settings *p = step->params;
    return p->top_n_sigma == 0;
}

/* Of the scores that are not masked; sums in double. NaN where there are none. */
static double deviation(const float *row, uint32_t n_vocab)
{
    double sum = 0, squares = 0, n = 0;
    for (uint32_t v = 0; v < n_vocab; v++)
        if (row[v] != -INFINITY) sum += (double)row[v], n++;
    const double mean = sum / n;
    for (uint32_t v = 0; v < n_vocab; v++)
        if (row[v] != -INFINITY) squares += ((double)row[v] - mean) * ((double)row[v] - mean);
    return sqrt(squares / n);
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const settings *p = step->params;

    for (uint32_t r = 0; r < scores->n_rows; r++) {
        float *row = cdz_row(scores, r), best = -INFINITY;
        for (uint32_t v = 0; v < scores->n_vocab; v++)
            if (row[v] > best) best = row[v];
        const double floor = (double)best - p->top_n_sigma * deviation(row, scores->n_vocab);
        for (uint32_t v = 0; v < scores->n_vocab; v++)
            if ((double)row[v] < floor) row[v] = -INFINITY;
    }
    return CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "top_n_sigma", .version = "1.0.0",
             .summary = "Drop scores some standard deviations below the best",
             CDZ_PARAMS(settings, params)},
    .caps = CDZ_ROWWISE | CDZ_KEEPS_ARGMAX | CDZ_KEEPS_TOP | CDZ_SAMPLING_ONLY,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
