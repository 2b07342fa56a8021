/* schema_grammar.c - a JSON Schema as a constraint. */
#include "grammar/schema.h"
#include "grammar/states.h"

cdz_status cdz_grammar_from_schema(const char *text, size_t len, const cdz_grammar_options *options,
                                   cdz_grammar **out, cdz_error *err)
{
    cdz_net net;
    uint32_t start = 0;
    cdz_status st = CDZ_OK;
    *out = NULL;
    cdz_net_begin(&net, options ? &options->limits : NULL);
    if (len > net.limits.max_bytes)
        st = cdz_err(err, CDZ_E_LIMIT,
                     "the schema has %zu bytes, the limit is %u (grammar_max_bytes)", len,
                     net.limits.max_bytes);
    if (st == CDZ_OK) st = cdz_schema_part(&net, text, len, &start, err);
    if (st == CDZ_OK) return cdz_grammar_of_net(&net, start, options, out, err);
    cdz_net_free(&net);
    return st;
}
