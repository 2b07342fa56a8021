/* stop_strings.c - stop when a text appears.
 * transformers StopStringCriteria, in the words of its effect: of the last L tokens, L being the code points of the
 * longest stop string, the texts are joined, each token's as it stands alone. A row is done when a stop string lies in
 * the join with its last character inside the newest token. So the token may run on past it and the match may begin in
 * the prompt, unless in_prompt says no. Texts are UTF-8, hence bytes can be compared.
 * A character that several tokens spell is in no token's text: it is looked for in the row's, where the reference is blind. */
#include <cadenza/criterion.h>
#include <cadenza/ext/text.h>
#include <cadenza/ext/tokenizer.h>

#include <string.h>

typedef struct {
    cdz_string_list stop_strings;
    bool in_prompt;
} stop_strings;

static const cdz_param params[] = {
    CDZ_STRINGS(stop_strings, stop_strings, CDZ_GENERATION, "texts that end a row"),
    CDZ_BOOL(stop_strings, in_prompt, true, "a text may begin in the prompt"),
};

static const cdz_string_list *strings_of(const cdz_step *step)
{
    return &((const stop_strings *)step->params)->stop_strings;
}

/* How many of a row's first tokens are not looked at. */
static uint32_t passed_over(const cdz_step *step)
{
    return ((const stop_strings *)step->params)->in_prompt ? 0 : step->request->prompt_len;
}

/* Of a request. */
typedef struct {
    uint32_t window; /* tokens to look back over */
    bool by_text;    /* some tokens are parts of characters */
} looking;

static bool is_ascii(cdz_string text)
{
    for (uint32_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] >= 0x80) return false;
    return true;
}

static uint32_t code_points(cdz_string text)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < text.len; i++) n += ((unsigned char)text.at[i] & 0xC0) != 0x80;
    return n;
}

/* Does `text` hold s, or a beginning of it hold the end of s, so that s ends after e bytes of text? *left: the bytes
 * of s that must lie before. */
static bool ends_at(cdz_string s, cdz_string text, uint32_t e, uint32_t *left)
{
    const uint32_t n = e < s.len ? e : s.len;

    *left = s.len - n;
    return memcmp(text.at + (e - n), s.at + *left, n) == 0;
}

/* --- begin: can any of it ever happen? ------------------------------------------------------------------------- */

static bool can_end(cdz_string s, cdz_string token)
{
    uint32_t left;

    if (s.len == 0) return code_points(token) > 1;
    for (uint32_t e = 1; e <= token.len; e++)
        if (ends_at(s, token, e, &left)) return true;
    return false;
}

static bool any_can_end(const cdz_step *step, const cdz_tokenizer_api *tokenizer)
{
    const cdz_string_list *strings = strings_of(step);
    const uint32_t n = tokenizer->n_tokens(step);

    for (uint32_t id = 0; id < n; id++) {
        const cdz_string token = tokenizer->token_text(step, (int32_t)id);
        for (uint32_t i = 0; i < strings->len; i++)
            if (can_end(strings->at[i], token)) return true;
    }
    return false;
}

/* What a part of a character looks like alone. */
static bool is_part(cdz_string token)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    for (uint32_t i = 0; i + 3 <= token.len; i++)
        if (memcmp(token.at + i, replacement, 3) == 0) return true;
    return false;
}

/* May tokens that are parts of characters spell one of a stop string's? */
static bool looks_at_text(const cdz_step *step, const cdz_tokenizer_api *tokenizer)
{
    const cdz_string_list *strings = strings_of(step);
    const uint32_t n = tokenizer->n_tokens(step);
    bool quirks = false, any = false;

    if (step->host->config(step, "quirks", CDZ_T_BOOL, &quirks) != CDZ_OK) quirks = false;
    for (uint32_t i = 0; i < strings->len; i++) any |= !is_ascii(strings->at[i]);
    if (!any || quirks || !cdz_get_text(step)) return false;
    for (uint32_t id = 0; id < n; id++)
        if (is_part(tokenizer->token_text(step, (int32_t)id))) return true;
    return false;
}

static cdz_status create(const cdz_step *step)
{
    const cdz_string_list *strings = strings_of(step);

    if (strings->set && strings->len == 0)
        return cdz_fail(step, CDZ_E_USAGE,
                        "stop_strings is empty; expected a text or a list of texts");
    return CDZ_OK;
}

static bool idle(const cdz_step *step)
{
    return !strings_of(step)->set;
}

static cdz_status begin(const cdz_step *step, void **shared)
{
    const cdz_tokenizer_api *tokenizer = cdz_get_tokenizer(step);
    const cdz_string_list *strings = strings_of(step);
    looking *now = cdz_alloc(step, sizeof *now);

    if (!now) return cdz_fail(step, CDZ_E_NOMEM, "stop_strings: out of memory");
    if (!tokenizer || !tokenizer->present(step))
        return cdz_fail(step, CDZ_E_USAGE,
                        "stop_strings needs a tokenizer, and this model has none");
    now->by_text = looks_at_text(step, tokenizer);
    if (!now->by_text && !any_can_end(step, tokenizer))
        return cdz_fail(step, CDZ_E_USAGE,
                        "stop_strings: no token of this model can end any of them");
    for (uint32_t i = 0; i < strings->len; i++) {
        const uint32_t n = code_points(strings->at[i]);
        now->window = n > now->window ? n : now->window;
    }
    *shared = now;
    return CDZ_OK;
}

/* --- test --------------------------------------------------------------------------------------------------------- */

/* Do the tokens before the newest, at most n of them, end in the first `left` bytes of s? */
static bool preceded(const cdz_step *step, const cdz_tokenizer_api *tokenizer, cdz_ids before,
                     uint32_t n, cdz_string s, uint32_t left)
{
    for (uint32_t back = 1; left > 0; back++) {
        if (back > n || back > before.len) return false;
        const cdz_string token = tokenizer->token_text(step, before.at[before.len - back]);
        const uint32_t used = token.len < left ? token.len : left;
        if (!token.at || memcmp(token.at + (token.len - used), s.at + (left - used), used) != 0)
            return false;
        left -= used;
    }
    return true;
}

static bool stops_at(const cdz_step *step, const cdz_tokenizer_api *tokenizer, cdz_ids ids,
                     cdz_string s)
{
    const uint32_t window = ((const looking *)step->shared)->window;
    const uint32_t from = passed_over(step);
    const cdz_ids before = {ids.at + from, ids.len - 1 - from};
    const cdz_string newest = tokenizer->token_text(step, ids.at[ids.len - 1]);
    uint32_t left;

    if (s.len == 0) return true;
    for (uint32_t e = 1; e <= newest.len; e++)
        if (ends_at(s, newest, e, &left) && preceded(step, tokenizer, before, window - 1, s, left))
            return true;
    return false;
}

/* The same in the row's new text, where characters are whole; the newest token may have completed one. */
static cdz_status text_stops(const cdz_step *step, const cdz_tokenizer_api *tokenizer, uint32_t r,
                             cdz_string s, bool *stops)
{
    const cdz_ids ids = step->input_ids[r];
    cdz_string text;

    *stops = false;
    if (!((const looking *)step->shared)->by_text || is_ascii(s)) return CDZ_OK;
    const uint32_t newest = tokenizer->token_text(step, ids.at[ids.len - 1]).len;
    CDZ_TRY(cdz_get_text(step)->tail(step, r, s.len + newest, &text));
    for (uint32_t e = s.len; e <= text.len && !*stops; e++)
        *stops = text.len - e <= newest && memcmp(text.at + (e - s.len), s.at, s.len) == 0;
    return CDZ_OK;
}

static cdz_status test(const cdz_step *step, cdz_stop *stops)
{
    const cdz_tokenizer_api *tokenizer = cdz_get_tokenizer(step);
    const cdz_string_list *strings = strings_of(step);

    for (uint32_t r = 0; r < step->n_rows; r++) {
        const cdz_ids ids = step->input_ids[r];
        for (uint32_t i = 0; i < strings->len && ids.len > passed_over(step); i++) {
            const cdz_string s = strings->at[i];
            bool found = stops_at(step, tokenizer, ids, s);
            if (!found) CDZ_TRY(text_stops(step, tokenizer, r, s, &found));
            if (!found) continue;
            stops[r] = (cdz_stop){CDZ_STOP_STRING, s};
            break;
        }
    }
    return CDZ_OK;
}

static const cdz_criterion criterion = {
    .base = {CDZ_CRITERION_BASE, .id = "stop_strings", .version = "1.0.0",
             .summary = "Stop when a text appears", CDZ_PARAMS(stop_strings, params)},
    .create = create,
    .idle = idle,
    .begin = begin,
    .test = test,
};
CDZ_EXPORT_PLUGINS(&criterion.base)
