/* constraint.c - the constraints on a request's answer, of the whole or of its phases, compiled before the engine hears of the request: what is wrong with
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
        {CDZ_GRAMMAR_TAGS, "structural_tag", g->structural_tag},
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

/* What one set of values asks: the request's, where phase is NULL, or a phase's. */
static cdz_status prepare(cdz_job *job, const cdz_generation *g, const cdz_origin *origins,
                          const char *phase, cdz_error *err)
{
    cdz_grammar_source source;
    cdz_string text;
    const char *name;
    cdz_error why = {0};
    if (!find(g, &text, &name, &source)) return CDZ_OK;
    if (g->token_healing.value)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "token_healing with %s: the healed token would not be the constraint's",
                       name);
    cdz_grammar_store *store = cdz_run_model_grammars(job->model);
    if (!store) return cdz_err_memory(err, "the request");
    cdz_status st = cdz_constraint_get(store, &source, &job->constraints[job->n_constraints], &why);
    if (st == CDZ_OK) {
        job->n_constraints++;
        return CDZ_OK;
    }
    if (st == CDZ_E_LIMIT) st = CDZ_E_INPUT; /* of the text, not of this machine's present load */
    if (phase)
        cdz_err(err, st, "[phase:%s] %s: %s", phase, name, why.text);
    else
        cdz_err(err, st, "%s: %s", name, why.text);
    return cdz_origin_error(&origins[cdz_generation_slot(name)], name, st, err->text, err);
}

cdz_status cdz_prepare_constraint(cdz_job *job, cdz_error *err)
{
    const cdz_plan *plan = job->plan;
    CDZ_TRY(prepare(job, &plan->generation, plan->origins, NULL, err));
    for (uint32_t i = 0; i < plan->n_phases; i++)
        if (plan->phases[i].constrained)
            CDZ_TRY(prepare(job, plan->phases[i].constrained, plan->phases[i].origins,
                            plan->phases[i].name, err));
    return CDZ_OK;
}
