/* early_exit.c - drafts by the model itself, cut off after its first layers: their output goes through the final norm and
 * the head. transformers EarlyExitCandidateGenerator; the draft has a cache of its own. */
#include "chain.h"

static const cdz_param params[] = {
    CDZ_OPT_INT(chain_params, assistant_early_exit, CDZ_GENERATION, 1, 1 << 16,
                "layers the draft runs"),
    CHAIN_PARAMS,
};

/* More layers than the model has are all of them, as in the reference. */
static uint32_t layers_to_run(cdz_decoder *dec, const chain_params *p)
{
    cdz_model_facts facts = {.size = sizeof facts};
    const int64_t asked = p->assistant_early_exit.value;
    if (!cdz_facts(dec, "target", &facts) || asked < facts.n_layers) return (uint32_t)asked;
    return facts.n_layers;
}

static cdz_status begin(cdz_decoder *dec, const cdz_step *step, void **shared)
{
    const chain_params *p = step->params;
    chain *c = *shared = cdz_alloc(step, sizeof *c);
    if (!c) return cdz_fail(step, CDZ_E_NOMEM, "no memory");
    if (!p->assistant_early_exit.set)
        return cdz_fail(step, CDZ_E_USAGE, "needs assistant_early_exit: how many layers it runs");
    c->keeps_scores = step->request->do_sample;
    c->rereads = chain_rereads(dec, step, "target");
    CDZ_TRY(cdz_seq_new_exit(dec, "target", layers_to_run(dec, p), &c->seq));
    CDZ_TRY(cdz_seq_hide_as(dec, step, c->seq, 0));
    return chain_begin(dec, step, "target", c);
}

static cdz_status propose(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    return chain_propose(dec, step, step->shared, draft);
}

static cdz_status judged(cdz_decoder *dec, const cdz_step *step, uint32_t row, uint32_t n_proposed,
                         uint32_t n_accepted)
{
    (void)row;
    return chain_judged(dec, step->shared, n_proposed, n_accepted);
}

static const cdz_drafter early_exit = {
    .base = {CDZ_DRAFTER_BASE, .id = "early_exit", .version = "1.0.0",
             .summary = "Draft with the first layers of the model itself",
             CDZ_PARAMS(chain_params, params)},
    .begin = begin,
    .propose = propose,
    .judged = judged,
};
CDZ_EXPORT_PLUGINS(&early_exit.base)
