/* regex_grammar.c - a regular expression as a constraint. */
#include "grammar/expression.h"
#include "grammar/states.h"

cdz_status cdz_grammar_from_regex(const char *text, size_t len, const cdz_grammar_options *options,
                                  cdz_grammar **out, cdz_error *err)
{
    static const cdz_expression_style style = {0};
    cdz_chars nfa;
    cdz_net net;
    *out = NULL;
    cdz_net_begin(&net, options ? &options->limits : NULL);
    if (len > net.limits.max_bytes)
        return cdz_err(err, CDZ_E_LIMIT,
                       "the regex has %zu bytes, the limit is %u (grammar_max_bytes)", len,
                       net.limits.max_bytes);
    CDZ_TRY(cdz_expression_read(text, len, &style, "regex", &nfa, err));
    const uint32_t rule = cdz_net_rule_of_chars(&net, &nfa);
    cdz_chars_free(&nfa);
    return cdz_grammar_of_net(&net, rule, options, out, err);
}
