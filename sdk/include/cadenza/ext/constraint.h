/* ext/constraint.h - the generation parameters that say what an answer may be, for plugins that follow them: the processor
 * `grammar`, which masks by them, is written on this header. Which constraint a row keeps to just now: constrained.h.
 *
 *     typedef struct {
 *         cdz_constraint_params asked; // first, so that the rows below fit
 *         int64_t mine;
 *     } my_params;
 *     static const cdz_param params[] = {
 *         CDZ_CONSTRAINT_PARAMS,
 *         CDZ_INT(my_params, mine, 1, 0, 9, "..."),
 *     };
 *
 *     cdz_constraint_wish wish;
 *     if (cdz_constraint_wished(&p->asked, &wish))
 *         CDZ_TRY(cdz_constraint_compile(step, api, &wish, &constraint)); */
#ifndef CADENZA_EXT_CONSTRAINT_H
#define CADENZA_EXT_CONSTRAINT_H

#include "grammar.h"

typedef struct cdz_constraint_params {
    const char *json_schema, *regex, *grammar, *grammar_after;
    cdz_string_list choice;
    cdz_opt_bool json_object;
    const char *structural_tag;
} cdz_constraint_params;

#define CDZ_CONSTRAINT_PARAMS                                                                       \
    CDZ_PARAM_(cdz_constraint_params, json_schema, const char *, CDZ_T_STRING, CDZ_GENERATION, 0,   \
               0, 0, NULL, "the answer is JSON that fits this schema"),                             \
        CDZ_PARAM_(cdz_constraint_params, regex, const char *, CDZ_T_STRING, CDZ_GENERATION, 0, 0,  \
                   0, NULL, "the answer as a whole matches this regular expression"),               \
        CDZ_PARAM_(cdz_constraint_params, grammar, const char *, CDZ_T_STRING, CDZ_GENERATION, 0,   \
                   0, 0, NULL,                                                                      \
                   "the answer is a text of this grammar: GBNF or Lark, told apart by their "       \
                   "look"),                                                                         \
        CDZ_PARAM_(cdz_constraint_params, grammar_after, const char *, CDZ_T_STRING,                \
                   CDZ_GENERATION, 0, 0, 0, NULL,                                                   \
                   "the constraint begins behind this text; what comes before it is free"),         \
        CDZ_STRINGS(cdz_constraint_params, choice, CDZ_GENERATION,                                  \
                    "the answer is one of these texts"),                                            \
        CDZ_OPT_BOOL(cdz_constraint_params, json_object, CDZ_GENERATION,                            \
                     "the answer is any JSON object"),                                              \
        CDZ_PARAM_(cdz_constraint_params, structural_tag, const char *, CDZ_T_STRING,               \
                   CDZ_GENERATION, 0, 0, 0, NULL,                                                   \
                   "JSON: the answer is free text, and a trigger in it begins a tag, whose inside " \
                   "fits a schema")

/* What is asked for. It lives as long as the parameters. */
typedef struct cdz_constraint_wish {
    const char *name; /* of the parameter */
    cdz_grammar_kind kind;
    cdz_string text;         /* but for a choice */
    const cdz_string *texts; /* of a choice; NULL: text is the one */
    uint32_t n;
    const char *after; /* NULL: it begins where generation begins */
} cdz_constraint_wish;

static inline void cdz_constraint_wish_put(cdz_constraint_wish *wish, const char *name,
                                           cdz_grammar_kind kind, const char *text, uint32_t *n_set)
{
    if (!text) return;
    wish->name = name;
    wish->kind = kind;
    wish->text.at = text;
    wish->text.len = 0;
    while (text[wish->text.len]) wish->text.len++;
    wish->texts = NULL;
    wish->n = 1;
    ++*n_set;
}

/* Returns how many of the parameters are set; *wish: the last of json_object, grammar, regex, json_schema,
 * structural_tag and choice. */
static inline uint32_t cdz_constraint_wished(const cdz_constraint_params *p,
                                             cdz_constraint_wish *wish)
{
    uint32_t n_set = 0;
    const bool object = p->json_object.set && p->json_object.value;
    const cdz_constraint_wish none = {NULL, CDZ_GRAMMAR_SCHEMA, {NULL, 0}, NULL, 0, NULL};
    *wish = none;
    wish->after = p->grammar_after;
    cdz_constraint_wish_put(wish, "json_object", CDZ_GRAMMAR_SCHEMA,
                            object ? "{\"type\": \"object\"}" : NULL, &n_set);
    cdz_constraint_wish_put(wish, "grammar", CDZ_GRAMMAR_EITHER, p->grammar, &n_set);
    cdz_constraint_wish_put(wish, "regex", CDZ_GRAMMAR_REGEX, p->regex, &n_set);
    cdz_constraint_wish_put(wish, "json_schema", CDZ_GRAMMAR_SCHEMA, p->json_schema, &n_set);
    cdz_constraint_wish_put(wish, "structural_tag", CDZ_GRAMMAR_TAGS, p->structural_tag, &n_set);
    if (p->choice.set) {
        cdz_constraint_wish_put(wish, "choice", CDZ_GRAMMAR_CHOICE, "", &n_set);
        wish->texts = p->choice.at;
        wish->n = p->choice.len;
    }
    return n_set;
}

/* [engine; where compile of grammar.h works] */
static inline cdz_status cdz_constraint_compile(const cdz_step *step, const cdz_grammar_api *api,
                                                const cdz_constraint_wish *wish,
                                                cdz_constraint **out)
{
    const cdz_string *texts = wish->texts ? wish->texts : &wish->text;
    if (!wish->after) return api->compile(step, wish->kind, texts, wish->n, out);
    if (api->size <= offsetof(cdz_grammar_api, compile_after))
        return step->host->fail(step, CDZ_E_UNSUPPORTED, "%s",
                                "grammar_after: this host cannot begin a constraint behind a text");
    return api->compile_after(step, wish->kind, texts, wish->n, wish->after, out);
}

#endif
