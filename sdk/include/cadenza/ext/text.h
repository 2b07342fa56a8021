/* ext/text.h - "cadenza.text/1": what the rows say so far, for plugins that look at text and not at tokens.
 *
 * The text is what the row's new tokens add to it, one after the other, special tokens too: what a stop string is looked for
 * in. A character that several tokens spell is there once it is whole. The host keeps the text from call to call, so asking at
 * every step costs what the newest tokens are long, not the answer. What a processor or a criterion is given is copied for it besides:
 * ask for a tail where a tail is enough.
 *
 *     const cdz_text_api *text = cdz_get_text(step);
 *     cdz_string end;
 *     CDZ_TRY(text->tail(step, r, 64, &end));
 *     if (cdz_text_ends_with(end, "Observation:")) ...
 *
 * Texts are valid until the present call returns; in a strategy or a drafter until it asks again, or changes the row. They are
 * there from `begin` on, where the model has a tokenizer: CDZ_E_NOT_FOUND elsewhere. r counts rows of the call, in a strategy
 * or a drafter rows of the request. In a process of its own (docs/isolation.md) a plugin finds no table. */
#ifndef CADENZA_EXT_TEXT_H
#define CADENZA_EXT_TEXT_H

#include "../plugin.h"

#define CDZ_EXT_TEXT "cadenza.text/1"

typedef struct cdz_text_api {
    uint32_t size;
    /* [any] The last n bytes of the row's new text or less, never beginning inside a character. */
    cdz_status (*tail)(const cdz_step *step, uint32_t r, uint32_t n, cdz_string *out);
    /* [any] All of it. */
    cdz_status (*since_prompt)(const cdz_step *step, uint32_t r, cdz_string *out);
} cdz_text_api;

static inline const cdz_text_api *cdz_get_text(const cdz_step *step)
{
    return (const cdz_text_api *)step->host->extension(CDZ_EXT_TEXT);
}

static inline bool cdz_text_ends_with(cdz_string text, const char *end)
{
    uint32_t n = 0;
    while (end[n]) n++;
    for (uint32_t i = 1; i <= n; i++)
        if (i > text.len || text.at[text.len - i] != end[n - i]) return false;
    return true;
}

#endif
