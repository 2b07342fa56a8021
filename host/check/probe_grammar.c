/* probe_grammar.c - constraints over the tokens of a made-up request: the kit's own, or a model's (--model). What the host
 * takes from the heap for them is not counted as the plugin's. */
#include <stdlib.h>

#include "check/probe.h"
#include "check/probe_texts.h"

/* Special ones have no bytes. */
static cdz_status make_vocab(cdz_probe *t, cdz_error *err)
{
    const uint32_t n = t->info.n_vocab;
    const char **bytes = calloc((size_t)n + 1, sizeof *bytes);
    uint32_t *lens = calloc((size_t)n + 1, sizeof *lens);
    cdz_status st = bytes && lens ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (uint32_t id = 0; st == CDZ_OK && id < n; id++) {
        const cdz_string text = cdz_probe_text_of_token(n, (int32_t)id);
        const bool plain = text.at && !cdz_probe_text_is_special(n, (int32_t)id);
        bytes[id] = plain ? text.at : "";
        lens[id] = plain ? text.len : 0;
    }
    if (st == CDZ_OK) st = cdz_grammar_vocab_of(bytes, lens, n, NULL, 0, &t->vocab, err);
    free(bytes);
    free(lens);
    return st;
}

static cdz_status need_store(cdz_probe *t, cdz_error *err)
{
    if (t->grammars) return CDZ_OK;
    if (!t->tokens) CDZ_TRY(make_vocab(t, err));
    t->grammars = t->tokens ? cdz_grammar_store_new(t->tokens->tokenizer, NULL)
                            : cdz_grammar_store_over(t->vocab, NULL);
    return t->grammars ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "out of memory");
}

static cdz_status pass_on(const cdz_step *step, bool watched, cdz_status st, const cdz_error *err)
{
    cdz_allocations_go_on(watched);
    return st == CDZ_OK ? CDZ_OK : cdz_fail(step, st, "%s", err->text);
}

static cdz_status compile_after(const cdz_step *step, cdz_grammar_kind kind, const cdz_string *texts,
                                uint32_t n, const char *after, cdz_constraint **out)
{
    cdz_probe *t = cdz_probe_of(step);
    const cdz_grammar_source source = {kind, texts, n, after};
    cdz_error err = {0};
    cdz_probe_look_at_thread(step, "compile");
    if (!t->may_alloc || !step->request)
        return cdz_fail(step, CDZ_E_STATE, "compile works in begin and on a strategy's fibre");
    const bool watched = cdz_allocations_pause();
    cdz_status st = need_store(t, &err);
    if (st == CDZ_OK) st = cdz_constraint_get(t->grammars, &source, out, &err);
    return pass_on(step, watched, st, &err);
}

static cdz_status compile(const cdz_step *step, cdz_grammar_kind kind, const cdz_string *texts,
                          uint32_t n, cdz_constraint **out)
{
    return compile_after(step, kind, texts, n, NULL, out);
}

static void release(cdz_constraint *constraint)
{
    const bool watched = cdz_allocations_pause();
    cdz_constraint_release(constraint);
    cdz_allocations_go_on(watched);
}

static cdz_status feed(const cdz_step *step, cdz_constraint *constraint, const char *bytes,
                       size_t n, uint32_t *state)
{
    cdz_error err = {0};
    const bool watched = cdz_allocations_pause();
    return pass_on(step, watched, cdz_constraint_feed(constraint, bytes, n, state, &err), &err);
}

static cdz_status feed_token(const cdz_step *step, cdz_constraint *constraint, int32_t id,
                             uint32_t *state)
{
    cdz_error err = {0};
    const bool watched = cdz_allocations_pause();
    return pass_on(step, watched, cdz_constraint_feed_token(constraint, id, state, &err), &err);
}

static bool accepts(cdz_constraint *constraint, uint32_t state)
{
    const bool watched = cdz_allocations_pause();
    const bool yes = cdz_constraint_accepts(constraint, state);
    cdz_allocations_go_on(watched);
    return yes;
}

static cdz_status allowed(const cdz_step *step, cdz_constraint *constraint, uint32_t state,
                          uint64_t *bits, uint32_t n_words)
{
    cdz_error err = {0};
    const bool watched = cdz_allocations_pause();
    const cdz_status st = cdz_constraint_allowed(constraint, state, bits, n_words, &err);
    return pass_on(step, watched, st, &err);
}

static size_t forced(cdz_constraint *constraint, uint32_t state, char *out, size_t room)
{
    const bool watched = cdz_allocations_pause();
    const size_t n = cdz_constraint_forced(constraint, state, out, room);
    cdz_allocations_go_on(watched);
    return n;
}

const void *cdz_probe_grammar(void)
{
    static const cdz_grammar_api api = {
        .size = sizeof(cdz_grammar_api),
        .compile = compile,
        .release = release,
        .start = cdz_constraint_start,
        .feed = feed,
        .feed_token = feed_token,
        .accepts = accepts,
        .allowed = allowed,
        .forced = forced,
        .compile_after = compile_after,
    };
    return &api;
}

void cdz_probe_grammar_free(cdz_probe *t)
{
    cdz_grammar_store_free(t->grammars);
    cdz_grammar_vocab_free(t->vocab);
    t->grammars = NULL;
    t->vocab = NULL;
}
