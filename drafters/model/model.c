/* model.c - drafts by a smaller model, the request's assistant. transformers AssistedCandidateGenerator and, where the
 * vocabularies differ in size, its kin for different tokenizers. */
#include "universal.h"

static const cdz_param params[] = {
    CHAIN_PARAMS,
    CDZ_INT(chain_params, assistant_lookbehind, 10, 1, 1 << 20,
            "with another tokenizer: the draft's tokens that are converted again"),
    CDZ_INT(chain_params, target_lookbehind, 10, 1, 1 << 20,
            "with another tokenizer: the model's tokens that are converted again"),
};

static bool other_tokens(cdz_decoder *dec)
{
    return cdz_vocab_size(dec, "assistant") != cdz_vocab_size(dec, "target");
}

static cdz_status begin(cdz_decoder *dec, const cdz_step *step, void **shared)
{
    universal *u = *shared = cdz_alloc(step, sizeof *u);
    if (!u) return cdz_fail(step, CDZ_E_NOMEM, "no memory");
    if (cdz_vocab_size(dec, "assistant") == 0)
        return cdz_fail(step, CDZ_E_USAGE,
                        "the request has no draft model; give one with --assistant FOLDER");
    u->chain.keeps_scores = step->request->do_sample && !other_tokens(dec);
    u->chain.rereads = chain_rereads(dec, step, "assistant");
    CDZ_TRY(cdz_seq_new(dec, "assistant", &u->chain.seq));
    if (!other_tokens(dec)) CDZ_TRY(cdz_seq_hide_as(dec, step, u->chain.seq, 0));
    return chain_begin(dec, step, "assistant", &u->chain);
}

static cdz_status propose(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    universal *u = step->shared;
    if (other_tokens(dec)) return universal_propose(dec, step, u, draft);
    return chain_propose(dec, step, &u->chain, draft);
}

static cdz_status judged(cdz_decoder *dec, const cdz_step *step, uint32_t row, uint32_t n_proposed,
                         uint32_t n_accepted)
{
    universal *u = step->shared;
    (void)row;
    return chain_judged(dec, &u->chain, n_proposed, n_accepted);
}

static const cdz_drafter model = {
    .base = {CDZ_DRAFTER_BASE, .id = "model", .version = "1.0.0",
             .summary = "Draft with a smaller model", CDZ_PARAMS(chain_params, params)},
    .begin = begin,
    .propose = propose,
    .judged = judged,
};
CDZ_EXPORT_PLUGINS(&model.base)
