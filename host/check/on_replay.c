/* on_replay.c - a text replayed through a processor or criterion, token by token, as a request that writes it would: every row
 * is answered, and a second request that only hears the tokens ends with the same answer. */
#include <string.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "check/bench.h"
#include "check/checks.h"
#include "check/replay_text.h"

enum { PIECES = 4, PROMPT = 16, WHAT = 200, PROMPTS = 6, PROMPT_BYTES = 240 };

/* A stretch of the text: its first ids are the prompt. */
typedef struct piece {
    const int32_t *ids;
    uint32_t len;
    const cdz_tokens *tokens;
    cdz_made_up facts;
    double until; /* by cdz_now_s: then it is cut short */
} piece;

static cdz_check_state start_piece(cdz_child *c, const piece *p, const cdz_setup *setup,
                                   cdz_probe *t, cdz_follow *f, bool *refused)
{
    if (!cdz_probe_make(t, c->ref.base, setup->params, &p->facts))
        return cdz_fail_check(c, "out of memory");
    t->tokens = p->tokens;
    t->prompts[0] = (cdz_ids){p->ids, p->facts.prompt_len};
    cdz_check_note(c, "begin with %s", setup->text);
    *refused = cdz_probe_enter(t) != CDZ_OK;
    if (!*refused && !cdz_follow_start(f, t, 0)) return cdz_fail_check(c, "out of memory");
    return CDZ_CHECK_OK;
}

static cdz_check_state fail_at(cdz_child *c, const char *call, const cdz_setup *setup,
                               const cdz_follow *f, const char *broken)
{
    return cdz_fail_check(c, "%s with %s, text of %u tokens that ends in token %d: %s", call,
                          setup->text, f->len, (int)f->ids[f->len - 1], broken);
}

/* Every row is asked. *taken: how many tokens of the piece. */
static cdz_check_state read_along(cdz_child *c, const piece *p, const cdz_setup *setup,
                                  float *answer, uint32_t *taken)
{
    cdz_probe t;
    cdz_follow f = {0};
    bool refused = false;
    CDZ_CHECK_TRY(start_piece(c, p, setup, &t, &f, &refused));
    for (uint32_t i = p->facts.prompt_len; !refused && i < p->len; i++) {
        cdz_check_note(c, "with %s, text of %u tokens that ends in token %d", setup->text, f.len,
                       (int)f.ids[f.len - 1]);
        cdz_status status = cdz_follow_ask(&f, answer);
        const char *broken = cdz_probe_broken_late(&t, status);
        if (broken) return fail_at(c, "a row", setup, &f, broken);
        if (i % 64 == 0 && cdz_now_s() > p->until) break;
        status = cdz_follow_take(&f, p->ids[i]);
        broken = cdz_probe_broken_late(&t, status);
        if (broken) return fail_at(c, "accept", setup, &f, broken);
    }
    *taken = refused ? 0 : f.len;
    if (!refused) (void)cdz_follow_ask(&f, answer);
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

/* The tokens alone are heard, as they are when a running pipeline is reloaded. */
static cdz_check_state hear_only(cdz_child *c, const piece *p, const cdz_setup *setup,
                                 uint32_t taken, const float *want, float *answer)
{
    cdz_probe t;
    cdz_follow f = {0};
    char what[WHAT];
    bool refused = false;
    CDZ_CHECK_TRY(start_piece(c, p, setup, &t, &f, &refused));
    if (refused) return cdz_fail_check(c, "with %s: begin refused it the second time", setup->text);
    while (f.len < taken) (void)cdz_follow_take(&f, p->ids[f.len]);
    (void)cdz_follow_ask(&f, answer);
    if (cdz_answers_differ(&t, answer, want, what, sizeof what))
        return cdz_fail_check(c,
                              "with %s, text of %u tokens: a request that heard the tokens and was "
                              "asked once, against one that was asked at each: %s",
                              setup->text, taken, what);
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

static uint32_t vocabulary_of(const cdz_tokens *tokens, cdz_ids text)
{
    uint32_t n = tokens ? tokens->n : cdz_usual_facts.n_vocab;
    for (uint32_t i = 0; i < text.len; i++)
        if ((uint32_t)text.at[i] >= n) n = (uint32_t)text.at[i] + 1;
    return n;
}

static cdz_check_state replay_with(cdz_child *c, const cdz_setup *setup, cdz_ids text,
                                   const cdz_tokens *tokens, uint32_t *n_read)
{
    const uint32_t longest = CDZ_PROBE_MOST - 1 < text.len ? CDZ_PROBE_MOST - 1 : text.len;
    piece p = {.tokens = tokens,
               .until = cdz_now_s() + 0.1e-3 * c->patience_ms / PIECES,
               .len = longest,
               .facts = {.n_vocab = vocabulary_of(tokens, text),
                         .n_rows = 1,
                         .prompt_len = longest < PROMPT ? longest : PROMPT,
                         .seed = 7}};
    const size_t floats = cdz_answer_len(&p.facts);
    float *answers = cdz_answers_new(c, 2 * floats);
    if (!answers) return cdz_fail_check(c, "out of memory");
    for (uint32_t i = 0; i < PIECES; i++) {
        uint32_t taken = 0;
        p.ids = text.at + (size_t)(text.len - longest) * i / (PIECES - 1);
        CDZ_CHECK_TRY(read_along(c, &p, setup, answers, &taken));
        if (taken > 0) CDZ_CHECK_TRY(hear_only(c, &p, setup, taken, answers, answers + floats));
        *n_read += taken;
        if (longest == text.len) break; /* all of it */
    }
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_replay(cdz_child *c)
{
    cdz_setup *setups[CDZ_SETUPS];
    uint32_t n, n_read = 0;
    const cdz_tokens *tokens;
    cdz_ids text;
    cdz_error err = {0};
    cdz_check_note(c, "reading the text");
    if (cdz_replay_tokens(c, &tokens, &err) != CDZ_OK ||
        cdz_replay_ids(c, tokens, cdz_usual_facts.n_vocab, &text, &err) != CDZ_OK)
        return cdz_fail_check(c, "%s", err.text);
    CDZ_CHECK_TRY(cdz_setups_find(c, setups, &n));
    for (uint32_t i = 0; i < n; i++)
        CDZ_CHECK_TRY(replay_with(c, setups[i], text, tokens, &n_read));
    return cdz_pass_check(c, "%u tokens of %s, with the tokenizer of %s", n_read,
                          c->options->text ? c->options->text : "the kit's text",
                          c->options->tokenizer ? c->options->tokenizer : "the kit");
}

/* --- strategies, drafters, observers ------------------------------------------------------------------------------ */

/* Whole characters of the text from about `at` on. */
static cdz_string prompt_at(cdz_string text, size_t at)
{
    while (at > 0 && at < text.len && ((unsigned char)text.at[at] & 0xC0) == 0x80) at--;
    size_t len = text.len - at < PROMPT_BYTES ? text.len - at : PROMPT_BYTES;
    len = cdz_utf8_valid_prefix(text.at + at, len);
    return (cdz_string){text.at + at, (uint32_t)len};
}

cdz_check_state cdz_check_replay_requests(cdz_child *c)
{
    cdz_bench b;
    cdz_string text;
    cdz_error err = {0};
    uint32_t n = 0;
    if (cdz_replay_clean(c, &text, &err) != CDZ_OK) return cdz_fail_check(c, "%s", err.text);
    CDZ_CHECK_TRY(cdz_bench_open(c, &b));
    if (!cdz_run_model_tokenizer(b.model->run))
        return cdz_skip_check(c, "the model has no tokenizer");
    for (uint32_t i = 0; i < PROMPTS; i++, n++) {
        const cdz_order order = {.n_prompts = 1,
                                 .max_new = 24,
                                 .seed = i,
                                 .text = prompt_at(text, (size_t)text.len * i / PROMPTS)};
        cdz_result *result = NULL;
        cdz_check_note(c, "a request whose prompt is %u bytes of the text from byte %zu on",
                       order.text.len, (size_t)(order.text.at - text.at));
        if (order.text.len == 0) continue;
        if (cdz_bench_run(&b, b.with, &order, &result, &err) != CDZ_OK)
            return cdz_fail_check(c, "a prompt of %u bytes of the text from byte %zu on: %s",
                                  order.text.len, (size_t)(order.text.at - text.at), err.text);
        CDZ_CHECK_TRY(cdz_bench_judge(&b, result, &order));
        cdz_result_free(result);
    }
    cdz_bench_close(&b);
    return cdz_pass_check(c, "%u prompts of %s", n,
                          c->options->text ? c->options->text : "the kit's text");
}
