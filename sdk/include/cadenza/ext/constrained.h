/* ext/constrained.h - "cadenza.constrained/1": which constraint a row keeps to just now, and where in it the row is.
 *
 * Scenario. A processor keeps answers in a language (grammar.h), from where generation begins, behind a text, in one phase, or where
 * it likes. Whoever wants to make use of that, as a drafter that proposes what must come, does not need to know which: the
 * processor tells, and the host asks it.
 *
 *     static cdz_status propose(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
 *     {
 *         const cdz_constrained_host *host = cdz_get_constrained(step);
 *         cdz_row_constraint at = {.size = sizeof at};
 *         if (host) CDZ_TRY(host->nth(step, draft->row, 0, &at));
 *         if (at.constraint) n = cdz_get_grammar(step)->forced(at.constraint, at.state, text, sizeof text);
 *         ...
 *
 * In a process of its own (docs/isolation.md) a plugin finds no table of the host's, and tells nothing. */
#ifndef CADENZA_EXT_CONSTRAINED_H
#define CADENZA_EXT_CONSTRAINED_H

#include "grammar.h"

#define CDZ_EXT_CONSTRAINED "cadenza.constrained/1"

typedef struct cdz_row_constraint {
    uint32_t size;
    uint32_t state; /* of the row's next token; 0: the text is over, and the constraint asks for nothing but its end */
    cdz_constraint *constraint; /* borrowed, not to be released; NULL: the row keeps to none */
} cdz_row_constraint;

/* A processor that keeps rows in constraints offers this table, from base.extension(). What it tells is what it keeps:
 * of the tokens that the constraint does not allow in that state, apply leaves none but those that end the text. */
typedef struct cdz_constrained_api {
    uint32_t size;
    /* [engine, no-alloc] Of row r of the step, from its state and ids; *out arrives empty. It may not change anything, as apply. */
    cdz_status (*of)(const cdz_step *step, uint32_t r, cdz_row_constraint *out);
} cdz_constrained_api;

typedef struct cdz_constrained_host {
    uint32_t size;
    /* [engine; in propose, and on a strategy's fibre] Number n, from 0, of the constraints that row `row` of the request keeps to
     * now, in the order of the processors: those of another phase do not count. constraint NULL: there are no more. Valid
     * until the next verb. */
    cdz_status (*nth)(const cdz_step *step, uint32_t row, uint32_t n, cdz_row_constraint *out);
} cdz_constrained_host;

static inline const cdz_constrained_host *cdz_get_constrained(const cdz_step *step)
{
    return (const cdz_constrained_host *)step->host->extension(CDZ_EXT_CONSTRAINED);
}

/* The plugin's table, or NULL. */
static inline const cdz_constrained_api *cdz_get_constrained_api(const cdz_plugin_base *plugin)
{
    return plugin->extension ? (const cdz_constrained_api *)plugin->extension(CDZ_EXT_CONSTRAINED)
                             : NULL;
}

#endif
