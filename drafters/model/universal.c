/* universal.c - from the target's tokens to the draft model's and back.
 * transformers AssistedCandidateGeneratorDifferentTokenizers. Only the end of each side is converted anew: the last
 * `target_lookbehind` tokens before the previous round's end, and the last `assistant_lookbehind` before the draft; what
 * is new is found by laying the conversion beside what was there before. */
#include "universal.h"

#include <cadenza/ext/tokenizer.h>
#include <string.h>

/* --- laying side by side ----------------------------------------------------------------------------------------- */

/* How a conversion continues what was there: the last `miss` old tokens are not in it as they stood; in their place it
 * has `instead`, and behind those `added`. met false: nothing in common. */
typedef struct match {
    bool met;
    uint32_t miss;
    cdz_ids instead, added;
} match;

static uint32_t run_from(cdz_ids old, cdz_ids fresh, uint32_t row, uint32_t column)
{
    uint32_t n = 0;
    while (row + n < fresh.len && column + n < old.len && fresh.at[row + n] == old.at[column + n])
        n++;
    return n;
}

static cdz_ids tail_of(cdz_ids ids, uint32_t from, uint32_t to)
{
    if (to > ids.len) to = ids.len;
    if (from > to) from = to;
    return (cdz_ids){ids.at + from, to - from};
}

/* The longest run of equal tokens, the first one among equally long ones: rows of `fresh` before columns of `old`. */
static match lay(cdz_ids old, cdz_ids fresh)
{
    uint32_t best = 0, row = 0, column = 0;
    for (uint32_t r = 0; r < fresh.len; r++)
        for (uint32_t k = 0; k < old.len; k++) {
            const bool inside = r > 0 && k > 0 && fresh.at[r - 1] == old.at[k - 1];
            const uint32_t n = inside ? 0 : run_from(old, fresh, r, k);
            if (n <= best) continue;
            best = n;
            row = r + n;
            column = k + n;
        }
    if (best == 0) return (match){.met = false};
    const uint32_t miss = old.len - column;
    return (match){.met = true,
                   .miss = miss,
                   .instead = tail_of(fresh, row, row + miss),
                   .added = tail_of(fresh, row + miss, fresh.len)};
}

static cdz_ids last(cdz_ids ids, uint32_t n)
{
    return n < ids.len ? (cdz_ids){ids.at + ids.len - n, n} : ids;
}

/* --- the draft model's tokens ------------------------------------------------------------------------------------- */

static cdz_status convert(const cdz_step *step, const char *from, cdz_ids ids, const char *to,
                          cdz_ids *out)
{
    return cdz_get_tokenizer(step)->convert(step, from, ids, to, true, out);
}

static cdz_status put(const cdz_step *step, universal *u, cdz_ids ids)
{
    if (u->n + ids.len > u->cap) {
        const uint32_t cap = 2 * (u->n + ids.len);
        int32_t *grown = cdz_alloc(step, cap * sizeof *grown);
        if (!grown) return cdz_fail(step, CDZ_E_NOMEM, "no memory for the draft's tokens");
        if (u->n) memcpy(grown, u->ids, u->n * sizeof *grown);
        u->ids = grown;
        u->cap = cap;
    }
    if (ids.len) memcpy(u->ids + u->n, ids.at, ids.len * sizeof *ids.at);
    u->n += ids.len;
    return CDZ_OK;
}

/* The end of u->ids as the new conversion has it. Old tokens that it has nothing instead of stay, as in the
 * reference: they are mended when the next conversion overlaps them. */
static cdz_status mend(const cdz_step *step, universal *u, const match *m)
{
    const uint32_t n = m->instead.len;
    if (m->miss > 0 && n > 0) {
        u->n -= m->miss;
        CDZ_TRY(put(step, u, m->instead));
    }
    return put(step, u, m->added);
}

/* Brings u->ids to what the target's row says. */
static cdz_status follow_target(const cdz_step *step, universal *u, cdz_ids history)
{
    const uint32_t behind = (uint32_t)u->chain.params->target_lookbehind;
    cdz_ids fresh;
    if (!u->began || u->target_before <= behind) {
        u->n = 0;
        CDZ_TRY(convert(step, "target", history, "assistant", &fresh));
        return put(step, u, fresh);
    }
    const cdz_ids window = tail_of(history, u->target_before - behind, history.len);
    CDZ_TRY(convert(step, "target", window, "assistant", &fresh));
    const match m = lay(last((cdz_ids){u->ids, u->n}, fresh.len), fresh);
    return m.met ? mend(step, u, &m) : put(step, u, fresh);
}

/* --- and back ------------------------------------------------------------------------------------------------------ */

/* Where the window of the draft's tokens begins. With fewer than `behind` of them the reference counts from the other
 * end. */
static uint32_t window_start(uint32_t n_before, uint32_t n, uint32_t behind)
{
    if (n_before >= behind) return n_before - behind;
    const uint32_t back = behind - n_before;
    return back < n ? n - back : 0;
}

static cdz_status to_target(const cdz_step *step, const universal *u, uint32_t n_before,
                            cdz_draft *draft)
{
    const uint32_t behind = (uint32_t)u->chain.params->assistant_lookbehind;
    const cdz_ids all = {u->ids, u->n};
    cdz_ids fresh;
    CDZ_TRY(convert(step, "assistant",
                    tail_of(all, window_start(n_before, all.len, behind), all.len), "target",
                    &fresh));
    const match m = lay(last(draft->history, fresh.len), fresh);
    draft->tokens = m.met ? m.added : fresh;
    /* The reference leaves no room for the model's own token here. */
    const uint32_t most = step->request->max_length - draft->history.len;
    if (draft->tokens.len > most) draft->tokens.len = most;
    return CDZ_OK;
}

cdz_status universal_propose(cdz_decoder *dec, const cdz_step *step, universal *u, cdz_draft *draft)
{
    chain *c = &u->chain;
    uint32_t written;
    CDZ_TRY(follow_target(step, u, draft->history));
    u->began = true;
    u->target_before = draft->history.len;
    if (u->n == 0) return CDZ_OK; /* nothing but special tokens so far */
    const uint32_t n_before = u->n;
    CDZ_TRY(chain_follow(dec, c, (cdz_ids){u->ids, u->n}));
    CDZ_TRY(chain_write(dec, step, c, (uint32_t)c->length, &written));
    CDZ_TRY(put(step, u, (cdz_ids){c->tokens, written}));
    return to_target(step, u, n_before, draft);
}
