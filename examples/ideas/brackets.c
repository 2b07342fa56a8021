/* brackets.c - round brackets in balance: none is closed that is not open, and no answer ends within one. The state of a row is
 * a number, which beams, drafts and rewinds copy. */
#include <cadenza/ext/tokenizer.h>
#include <cadenza/processor.h>
#include <math.h>

typedef struct {
    int32_t open;
} row_state;

/* How many brackets a token opens; *least: the lowest that the count falls to on the way. */
static int32_t opens(const cdz_step *step, int32_t id, int32_t *least)
{
    const cdz_string text = cdz_get_tokenizer(step)->token_text(step, id);
    int32_t n = 0;
    *least = 0;
    for (uint32_t i = 0; i < text.len; i++) {
        n += (text.at[i] == '(') - (text.at[i] == ')');
        if (n < *least) *least = n;
    }
    return n;
}

static cdz_status accept(const cdz_step *step, uint32_t r, int32_t token)
{
    int32_t least;
    ((row_state *)step->row_state[r])->open += opens(step, token, &least);
    return CDZ_OK;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const cdz_ids ends = step->request->eos;
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const int32_t open = ((const row_state *)step->row_state[r])->open;
        for (uint32_t v = 0; v < scores->n_vocab; v++) {
            int32_t least;
            opens(step, (int32_t)v, &least);
            if (open + least < 0) cdz_row(scores, r)[v] = -INFINITY;
        }
        for (uint32_t i = 0; open > 0 && i < ends.len; i++)
            cdz_row(scores, r)[ends.at[i]] = -INFINITY;
    }
    return CDZ_OK;
}

static const cdz_processor brackets = {
    .base = {CDZ_PROCESSOR_BASE, .id = "org.example.brackets", .version = "1.0.0",
             .summary = "Keep round brackets in balance"},
    .caps = CDZ_ROWWISE,
    .state_size = sizeof(row_state),
    .accept = accept,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS_AS(0, CDZ_EXT_TOKENIZER, &brackets.base)
