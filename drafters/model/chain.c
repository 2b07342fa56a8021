/* chain.c - the draft's own decode loop, and the schedule of its length. */
#include "chain.h"

#include <string.h>

/* The reference hands the target's processors to the draft's generate(). There those that its configuration makes too have
 * their usual places, and what it makes none of comes behind them: the allowed tokens, then the filters. Then it adds the
 * configuration's filters once more: the draft is filtered twice (temperature 0.5 acts as 0.25). Seeds only match when
 * that is done here too. */
enum { N_FILTERS = 10, N_LATE = 1 + 2 * N_FILTERS };
#define FILTERS                                                                                    \
    "temperature", "top_h", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff",              \
        "eta_cutoff", "watermarking_config", "renormalize_logits"
static const char *const late[N_LATE] = {"prefix_allowed_tokens", FILTERS, FILTERS};

static cdz_status say_length(cdz_decoder *dec, const chain *c)
{
    return cdz_put_result(dec, "num_assistant_tokens", CDZ_RESULT_I64, 0, NULL, &c->length);
}

static bool is_set(const cdz_step *step, const char *name)
{
    bool value = false;
    return step->host->config(step, name, CDZ_T_BOOL, &value) == CDZ_OK && value;
}

bool chain_rereads(cdz_decoder *dec, const cdz_step *step, const char *model)
{
    cdz_model_facts facts = {.size = sizeof facts};
    if (!is_set(step, "quirks") || is_set(step, "decoder_attention_mask")) return false;
    return cdz_facts(dec, model, &facts) && facts.has_encoder;
}

cdz_status chain_begin(cdz_decoder *dec, const cdz_step *step, const char *model, chain *c)
{
    cdz_model_facts facts = {0};
    if (!cdz_facts(dec, model, &facts))
        return cdz_fail(step, CDZ_E_USAGE, "the request has no model to draft with");
    c->n_positions = facts.n_positions;
    c->params = step->params;
    c->length = c->params->num_assistant_tokens;
    CDZ_TRY(cdz_pipeline_derive(dec, late, N_LATE - N_FILTERS, late, N_LATE, &c->pipeline));
    return say_length(dec, c);
}

static cdz_status make_room(cdz_decoder *dec, const cdz_step *step, chain *c, uint32_t n)
{
    if (n <= c->most) return CDZ_OK;
    const uint32_t most = n > 2 * c->most ? n : 2 * c->most;
    c->tokens = cdz_alloc(step, most * sizeof *c->tokens);
    if (!c->tokens) return cdz_fail(step, CDZ_E_NOMEM, "no memory for a draft of %u tokens", most);
    if (c->keeps_scores) CDZ_TRY(cdz_scratch_scores(dec, most, &c->scores));
    c->most = most;
    return CDZ_OK;
}

/* The reference fills what the request leaves unset from the draft model's configuration. */
static bool is_eos(const cdz_request_info *request, const chain_params *params, int32_t token)
{
    if (cdz_ids_have(request->eos, token)) return true;
    for (uint32_t i = 0; request->eos.len == 0 && i < params->eos_token_id.len; i++)
        if (params->eos_token_id.at[i] == token) return true;
    return false;
}

/* How many tokens of a draft of at most n must not end it: the request's minimum counts for the draft's own end too, though
 * not for the answer, which has none then. history: what the draft continues, counted in the draft's tokens. */
static uint32_t endless(const cdz_request_info *request, uint32_t history, uint32_t n)
{
    const uint32_t left = request->min_length > history ? request->min_length - history : 0;
    if (request->eos.len) return 0; /* the pipeline's own processors see to it */
    return left < n ? left : n;
}

static cdz_status forbid_end(cdz_decoder *dec, const chain_params *params, cdz_scores *scores)
{
    for (uint32_t i = 0; i < params->eos_token_id.len; i++)
        if (params->eos_token_id.at[i] < scores->n_vocab)
            CDZ_TRY(cdz_ban(dec, scores, 0, (int32_t)params->eos_token_id.at[i]));
    return CDZ_OK;
}

/* One token from the sequence's next scores; in *prob how sure the draft is of it. */
static cdz_status choose(cdz_decoder *dec, const cdz_step *step, chain *c, uint32_t at,
                         cdz_scores *scores, float *prob)
{
    int32_t *token = &c->tokens[at];
    if (c->keeps_scores)
        memcpy(cdz_row(&c->scores, at), scores->data, scores->n_vocab * sizeof(float));
    if (step->request->do_sample) {
        CDZ_TRY(cdz_softmax(dec, scores));
        CDZ_TRY(cdz_multinomial(dec, scores, token));
        *prob = scores->data[*token];
        return CDZ_OK;
    }
    cdz_pick pick;
    CDZ_TRY(cdz_argmax(dec, scores, 0, &pick));
    *token = pick.token;
    *prob = pick.prob;
    return CDZ_OK;
}

/* The last token of a draft needs no position: nobody reads on from it. */
static uint32_t that_fit(cdz_decoder *dec, const chain *c, uint32_t n)
{
    const uint32_t len = cdz_seq_length(dec, c->seq);
    if (c->n_positions == 0) return n;
    if (len > c->n_positions) return 0;
    return n < c->n_positions - len + 1 ? n : c->n_positions - len + 1;
}

cdz_status chain_write(cdz_decoder *dec, const cdz_step *step, chain *c, uint32_t n,
                       uint32_t *written)
{
    const double threshold = c->params->assistant_confidence_threshold;
    const uint32_t before = cdz_seq_length(dec, c->seq) - c->n_before;
    const uint32_t without_end = endless(step->request, before, n);
    n = that_fit(dec, c, n);
    CDZ_TRY(make_room(dec, step, c, n));
    for (*written = 0; *written < n;) {
        cdz_scores scores;
        float prob;
        CDZ_TRY(cdz_seq_forward(dec, &c->seq, 1, CDZ_POSITIONS_LAST, &scores));
        const cdz_ids all = cdz_seq_ids(dec, c->seq);
        const cdz_ids ids = {all.at + c->n_before, all.len - c->n_before};
        if (*written < without_end) CDZ_TRY(forbid_end(dec, c->params, &scores));
        CDZ_TRY(cdz_process_ids(dec, c->pipeline, &ids, step->row_index, 1, &scores));
        CDZ_TRY(choose(dec, step, c, *written, &scores, &prob));
        const int32_t token = c->tokens[(*written)++];
        CDZ_TRY(cdz_seq_append(dec, c->seq, &token, 1));
        if (is_eos(step->request, c->params, token) || cdz_draft_doubted(prob, threshold))
            return CDZ_OK;
    }
    return CDZ_OK;
}

static cdz_status reread(cdz_decoder *dec, chain *c, cdz_ids ids, uint32_t n_have)
{
    const uint32_t left = ids.len > 2 ? ids.len - 2 : 0;
    c->n_before = left < n_have ? left : n_have;
    CDZ_TRY(cdz_seq_truncate(dec, c->seq, c->n_before));
    return cdz_seq_append(dec, c->seq, ids.at, ids.len);
}

cdz_status chain_follow(cdz_decoder *dec, chain *c, cdz_ids ids)
{
    const cdz_ids have = cdz_seq_ids(dec, c->seq);
    if (c->rereads) return reread(dec, c, ids, have.len);
    const uint32_t most = have.len < ids.len ? have.len : ids.len;
    uint32_t same = 0;
    while (same < most && have.at[same] == ids.at[same]) same++;
    CDZ_TRY(cdz_seq_truncate(dec, c->seq, same));
    return cdz_seq_append(dec, c->seq, ids.at + same, ids.len - same);
}

cdz_status chain_propose(cdz_decoder *dec, const cdz_step *step, chain *c, cdz_draft *draft)
{
    const uint32_t n = c->length < draft->room ? (uint32_t)c->length : draft->room;
    uint32_t written;
    if (n == 0) return CDZ_OK;
    CDZ_TRY(chain_follow(dec, c, draft->history));
    CDZ_TRY(chain_write(dec, step, c, n, &written));
    draft->tokens = (cdz_ids){c->tokens, written};
    if (!c->keeps_scores) return CDZ_OK;
    draft->scores = c->scores;
    draft->scores.n_rows = written;
    return CDZ_OK;
}

cdz_status chain_judged(cdz_decoder *dec, chain *c, uint32_t n_proposed, uint32_t n_accepted)
{
    const int32_t kind = c->params->num_assistant_tokens_schedule.value;
    if (kind == CONSTANT) return CDZ_OK;
    if (n_accepted == n_proposed)
        c->length += 2; /* after a round without proposals too, as the reference has it */
    else if (c->length > 1)
        c->length--;
    return kind == HEURISTIC ? say_length(dec, c) : CDZ_OK;
}
