/* my_processor.c - lower the score of one token. */
#include <cadenza/processor.h>

typedef struct {
    int64_t token;
    double penalty;
} settings;

static const cdz_param params[] = {
    CDZ_INT(settings, token, 0, 0, 2147483647, "id of the token"),
    CDZ_REAL(settings, penalty, 1.0, 0.0, 1000.0, "taken from its score"),
};

/* [row, no-alloc] In place on scores, (n_rows, n_vocab). */
static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const settings *p = step->params;
    if (p->token >= scores->n_vocab)
        return cdz_fail(step, CDZ_E_USAGE, "token %lld is not in the vocabulary of %u",
                        (long long)p->token, scores->n_vocab);
    for (uint32_t r = 0; r < scores->n_rows; r++) cdz_row(scores, r)[p->token] -= (float)p->penalty;
    return CDZ_OK;
}

static const cdz_processor my_processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "org.example.my-processor", .version = "0.1.0",
             .summary = "Lower the score of one token", CDZ_PARAMS(settings, params)},
    .caps = CDZ_ROWWISE | CDZ_ELEMENTWISE,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&my_processor.base)
