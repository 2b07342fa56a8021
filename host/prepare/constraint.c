/* constraint.c - the constraint on a request's answer, compiled before the engine hears of the request: what is wrong with
 * it is the submitter's to hear, and a large one holds nobody up. The processor `grammar` then finds it compiled. */
#include <string.h>

#include "prepare/prepare.h"

/* As processors/grammar.c writes it. False: there is none. */
static bool find(const cdz_generation *g, cdz_string *text, const char **name,
                 cdz_grammar_source *out)
{
    static const char object[] = "{\"type\": \"object\"}";
    const struct {
        cdz_grammar_kind kind;
        const char *name, *text;
    } all[] = {
        {CDZ_GRAMMAR_SCHEMA, "json_schema", g->json_schema},
        {CDZ_GRAMMAR_REGEX, "regex", g->regex},
        {CDZ_GRAMMAR_EITHER, "grammar", g->grammar},
        {CDZ_GRAMMAR_SCHEMA, "json_object", g->json_object.value ? object : NULL},
    };
    *name = "choice";
    *out = (cdz_grammar_source){CDZ_GRAMMAR_CHOICE, g->choice.at, g->choice.len, g->grammar_after};
    if (g->choice.set) return g->choice.len > 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i].text) continue;
        *text = (cdz_string){all[i].text, (uint32_t)strlen(all[i].text)};
        *name = all[i].name;
        *out = (cdz_grammar_source){all[i].kind, text, 1, g->grammar_after};
        return true;
    }
    return false;
}

cdz_status cdz_prepare_constraint(cdz_job *job, cdz_error *err)
{
    const cdz_plan *plan = job->plan;
    cdz_grammar_source source;
    cdz_string text;
    const char *name;
    cdz_error why = {0};
    if (!find(&plan->generation, &text, &name, &source)) return CDZ_OK;
    if (plan->generation.token_healing.value)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "token_healing with %s: the healed token would not be the constraint's",
                       name);
    cdz_grammar_store *store = cdz_run_model_grammars(job->model);
    if (!store) return cdz_err(err, CDZ_E_NOMEM, "out of memory for the request");
    cdz_status st = cdz_constraint_get(store, &source, &job->constraint, &why);
    if (st == CDZ_OK) return CDZ_OK;
    if (st == CDZ_E_LIMIT) st = CDZ_E_INPUT; /* of the text, not of this machine's present load */
    cdz_err(err, st, "%s: %s", name, why.text);
    return cdz_origin_error(&plan->origins[cdz_generation_slot(name)], name, st, err->text, err);
}
