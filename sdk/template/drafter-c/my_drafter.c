/* my_drafter.c - propose what followed the last token where it stood before. */
#include <cadenza/drafter.h>

typedef struct {
    int64_t most;
} settings;

static const cdz_param params[] = {
    CDZ_INT(settings, most, 4, 1, 64, "tokens of a draft"),
};

/* [engine] A guess: the model judges it, so it can make the answer slow, never wrong. */
static cdz_status propose(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    const settings *p = step->params;
    const cdz_ids ids = draft->history;
    uint32_t most = (uint32_t)p->most < draft->room ? (uint32_t)p->most : draft->room;

    (void)dec;
    for (uint32_t i = ids.len; i-- > 1;) {
        if (ids.at[i - 1] != ids.at[ids.len - 1] || i == ids.len) continue;
        draft->tokens = (cdz_ids){ids.at + i, ids.len - i < most ? ids.len - i : most};
        break;
    }
    return CDZ_OK; /* no tokens: nothing is proposed */
}

static const cdz_drafter my_drafter = {
    .base = {CDZ_DRAFTER_BASE, .id = "org.example.my-drafter", .version = "0.1.0",
             .summary = "Propose what followed the last token before", CDZ_PARAMS(settings, params)},
    .propose = propose,
};
CDZ_EXPORT_PLUGINS(&my_drafter.base)
