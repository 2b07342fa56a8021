/* grammar_ext.c - "cadenza.grammar/1" on the constraints of the request's model. */
#include "run/stages/stages.h"

/* The store's sentence becomes the request's. */
static cdz_status pass_on(const cdz_step *step, cdz_status status, const cdz_error *err)
{
    return status == CDZ_OK ? status : step->host->fail(step, status, "%s", err->text);
}

static cdz_status compile_after(const cdz_step *step, cdz_grammar_kind kind, const cdz_string *texts,
                                uint32_t n, const char *after, cdz_constraint **out)
{
    const cdz_scope *scope = step->scope;
    const cdz_grammar_source source = {kind, texts, n, after};
    cdz_error err = {0};
    if (!scope->may_alloc && scope->plugin->kind != CDZ_KIND_DRAFTER)
        return step->host->fail(step, CDZ_E_STATE,
                                "compile works in begin and on a strategy's fibre");
    cdz_grammar_store *store = cdz_run_model_grammars(scope->rows->model);
    if (!store) return step->host->fail(step, CDZ_E_NOMEM, "out of memory for constraints");
    return pass_on(step, cdz_constraint_get(store, &source, out, &err), &err);
}

static cdz_status compile(const cdz_step *step, cdz_grammar_kind kind, const cdz_string *texts,
                          uint32_t n, cdz_constraint **out)
{
    return compile_after(step, kind, texts, n, NULL, out);
}

static cdz_status feed(const cdz_step *step, cdz_constraint *constraint, const char *bytes,
                       size_t n, uint32_t *state)
{
    cdz_error err = {0};
    return pass_on(step, cdz_constraint_feed(constraint, bytes, n, state, &err), &err);
}

static cdz_status feed_token(const cdz_step *step, cdz_constraint *constraint, int32_t id,
                             uint32_t *state)
{
    cdz_error err = {0};
    return pass_on(step, cdz_constraint_feed_token(constraint, id, state, &err), &err);
}

static cdz_status allowed(const cdz_step *step, cdz_constraint *constraint, uint32_t state,
                          uint64_t *bits, uint32_t n_words)
{
    cdz_error err = {0};
    return pass_on(step, cdz_constraint_allowed(constraint, state, bits, n_words, &err), &err);
}

const void *cdz_stages_grammar(void)
{
    static const cdz_grammar_api api = {
        .size = sizeof(cdz_grammar_api),
        .compile = compile,
        .release = cdz_constraint_release,
        .start = cdz_constraint_start,
        .feed = feed,
        .feed_token = feed_token,
        .accepts = cdz_constraint_accepts,
        .allowed = allowed,
        .forced = cdz_constraint_forced,
        .compile_after = compile_after,
    };
    return &api;
}
