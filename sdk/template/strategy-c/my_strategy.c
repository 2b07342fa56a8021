/* my_strategy.c - greedy decoding that never takes one token. */
#include <cadenza/strategy.h>

typedef struct {
    cdz_opt_int avoid;
} settings;

static const cdz_param params[] = {
    CDZ_OPT_INT(settings, avoid, 0, 0, 2147483647, "id of the token that is never taken"),
};

/* [engine] On a fibre of its own: cdz_forward waits, and other requests run meanwhile. */
static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    const settings *p = step->params;
    const uint32_t n_rows = cdz_n_rows(dec);
    int32_t *tokens = cdz_scratch(step, n_rows * sizeof *tokens);
    cdz_scores scores; /* (n_rows, n_vocab) */

    if (!tokens) return cdz_fail(step, CDZ_E_NOMEM, "out of memory for %u rows", n_rows);
    if (p->avoid.set && p->avoid.value >= step->request->n_vocab)
        return cdz_fail(step, CDZ_E_USAGE, "token %lld is not in the vocabulary of %u",
                        (long long)p->avoid.value, step->request->n_vocab);
    while (!cdz_done(dec)) {
        CDZ_TRY(cdz_forward(dec, &scores)); /* runs whatever the KV cache lacks */
        CDZ_TRY(cdz_process(dec, &scores)); /* the processors of the user's pipeline */
        for (uint32_t r = 0; r < n_rows && p->avoid.set; r++)
            CDZ_TRY(cdz_ban(dec, &scores, r, (int32_t)p->avoid.value));
        CDZ_TRY(cdz_argmax_rows(dec, &scores, tokens));
        CDZ_TRY(cdz_append_rows(dec, tokens)); /* streams them and asks the stop rules */
    }
    return CDZ_OK;
}

static const cdz_strategy my_strategy = {
    .base = {CDZ_STRATEGY_BASE, .id = "org.example.my-strategy", .version = "0.1.0",
             .summary = "Greedy decoding that never takes one token", CDZ_PARAMS(settings, params)},
    .caps = CDZ_GREEDY,
    .run = run,
};
CDZ_EXPORT_PLUGINS(&my_strategy.base)
