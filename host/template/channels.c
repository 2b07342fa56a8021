/* channels.c - answers in messages, each with a head that names its channel, as gpt-oss writes them (its format is called
 * harmony):
 *
 *     <|channel|>analysis<|message|>reasoning<|end|><|start|>assistant<|channel|>final<|message|>text<|return|>
 *
 * "analysis" is reasoning, "final" is text, and so is "commentary", where it is not a call: to=functions.NAME. What goes to
 * another recipient is a tool of the model's own trade, which nobody here answers, and counts as reasoning. */
#include <string.h>

#include "base/ascii.h"
#include "template/reply_parts.h"

enum { MOST_HEAD = 1024, MOST_NAME = 128 };

static const char channel[] = "<|channel|>", message[] = "<|message|>", functions[] = "functions.";
/* What ends a message; the last two begin the next one's head. */
static const char *const ends[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>", channel};
static const char *const markers[] = {channel,     message,      "<|end|>",      "<|call|>",
                                      "<|start|>", "<|return|>", "<|constrain|>"};
enum { N_ENDS = sizeof ends / sizeof *ends, FIRST_HEAD = 3 };

const char *cdz_reply_channel_marker(uint32_t i)
{
    return i < sizeof markers / sizeof *markers ? markers[i] : NULL;
}

/* --- heads --------------------------------------------------------------------------------------------------------- */

/* A word of a head behind `key`: up to a blank or a marker. */
static const char *word_behind(const char *head, size_t len, const char *key, size_t *n)
{
    const char *found = memmem(head, len, key, strlen(key));
    if (!found) return NULL;
    found += strlen(key);
    const char *end = head + len;
    *n = 0;
    while (found + *n < end && !cdz_byte_in(found[*n], " \t\r\n<")) ++*n;
    return found;
}

static bool is(const char *word, size_t n, const char *text)
{
    return word && n == strlen(text) && memcmp(word, text, n) == 0;
}

static cdz_reply_place place_of(const cdz_reply *r, const char *head, size_t len)
{
    size_t n = 0, m = 0;
    const char *to = word_behind(head, len, " to=", &n), *in = word_behind(head, len, channel, &m);
    const bool thinks = is(in, m, "analysis") || to;
    return thinks && r->form.thinks ? CDZ_REPLY_BODY_THINKING : CDZ_REPLY_BODY_TEXT;
}

/* The function that a message calls; false: it calls none. */
static bool is_call(cdz_reply *r, const char *head, size_t len)
{
    static const size_t skip = sizeof functions - 1;
    size_t n = 0;
    const char *to = word_behind(head, len, " to=", &n);
    if (!to || n <= skip || n - skip > MOST_NAME || memcmp(to, functions, skip) != 0) return false;
    cdz_buf_clear(&r->name);
    cdz_buf_add(&r->name, to + skip, n - skip);
    r->failed |= r->name.failed;
    return !r->failed && r->tools && cdz_reply_tool(r->tools, r->name.data) &&
           r->n_calls < CDZ_REPLY_MOST_CALLS;
}

/* No head at all: what it began with goes, and the rest is text. */
static void leave_head(cdz_reply *r)
{
    for (uint32_t i = FIRST_HEAD; i < N_ENDS; i++)
        if (cdz_reply_is_marker(r->held.data, r->held.len, ends[i]) > 0) {
            cdz_reply_take(r, strlen(ends[i]));
            break;
        }
    r->parted = r->told_text;
    cdz_reply_enter(r, CDZ_REPLY_BODY_TEXT);
}

bool cdz_reply_step_head(cdz_reply *r)
{
    static const size_t most = MOST_HEAD + sizeof message - 1;
    const size_t within = r->held.len < most ? r->held.len : most;
    const char *found = memmem(r->held.data, within, message, sizeof message - 1);
    if (!found && within < most) return false;
    if (!found) {
        leave_head(r);
        return true;
    }
    const size_t len = (size_t)(found - r->held.data);
    cdz_reply_place place = place_of(r, r->held.data, len);
    if (is_call(r, r->held.data, len)) place = CDZ_REPLY_BODY_CALL;
    cdz_reply_take(r, len + sizeof message - 1);
    r->parted = r->told_text && place == CDZ_REPLY_BODY_TEXT;
    cdz_reply_enter(r, place);
    return true;
}

/* --- bodies -------------------------------------------------------------------------------------------------------- */

/* Where the message ends, and with which of `ends`; N_ENDS: not yet, and *at is where its end may yet begin. */
static uint32_t find_end(const cdz_reply *r, size_t *at)
{
    uint32_t best = N_ENDS;
    size_t held = 0;
    *at = r->held.len;
    for (uint32_t i = 0; i < N_ENDS; i++) {
        const char *found =
            memmem(r->held.data + r->looked, r->held.len - r->looked, ends[i], strlen(ends[i]));
        const size_t may = cdz_reply_may_begin(r->held.data, r->held.len, ends[i]);
        if (may > held) held = may;
        if (!found || (size_t)(found - r->held.data) >= *at) continue;
        *at = (size_t)(found - r->held.data);
        best = i;
    }
    if (best == N_ENDS) *at = r->held.len - held;
    return best;
}

/* Texts of two messages stand apart. */
static void tell_text(cdz_reply *r, size_t n)
{
    if (n && r->parted) r->sink.text(r->sink.user, "\n\n", 2);
    if (n) {
        r->parted = false;
        r->told_text = true;
    }
    cdz_reply_tell(r, n, r->sink.text);
}

/* Its arguments are an object, or nothing. */
static bool tell_call(cdz_reply *r, size_t n)
{
    static const cdz_json_limits limits = {.depth = 200, .duplicates = true};
    cdz_arena arena = {0};
    cdz_json value = {.type = CDZ_JSON_OBJECT};
    const size_t skip = cdz_reply_blanks(r->held.data, n);
    const size_t len = n - skip - cdz_reply_blanks_at_end(r->held.data + skip, n - skip);
    const char *text = cdz_arena_strndup(&arena, r->held.data + skip, len);
    cdz_status status = text ? CDZ_OK : CDZ_E_NOMEM;
    if (text && len) status = cdz_json_parse(text, len, "arguments", &limits, &arena, &value, NULL);
    const bool good = status == CDZ_OK && value.type == CDZ_JSON_OBJECT;
    if (good) {
        r->sink.call(r->sink.user, r->name.data, len ? text : "{}");
        r->n_calls++;
    }
    r->failed |= status == CDZ_E_NOMEM;
    cdz_arena_free(&arena);
    return good;
}

static void end_body(cdz_reply *r, size_t n)
{
    if (r->place == CDZ_REPLY_BODY_THINKING)
        cdz_reply_tell(r, n, r->sink.reasoning);
    else if (r->place == CDZ_REPLY_BODY_TEXT)
        tell_text(r, n);
    else if (tell_call(r, n))
        cdz_reply_take(r, n);
    else if (!r->failed)
        tell_text(r, n);
}

bool cdz_reply_step_body(cdz_reply *r)
{
    size_t at;
    const uint32_t end = find_end(r, &at);
    if (end == N_ENDS && r->place == CDZ_REPLY_BODY_CALL) {
        r->looked = at;
        return false;
    }
    end_body(r, at);
    if (end == N_ENDS || r->failed) return false;
    if (end < FIRST_HEAD) cdz_reply_take(r, strlen(ends[end]));
    cdz_reply_enter(r, CDZ_REPLY_HEAD);
    return true;
}

/* --- beginning and end ----------------------------------------------------------------------------------------------- */

bool cdz_reply_step_channels(cdz_reply *r)
{
    static const char *const begins[] = {channel, "<|start|>", "to="};
    const size_t skip = cdz_reply_blanks(r->held.data, r->held.len);
    int best = 0;
    for (size_t i = 0; i < sizeof begins / sizeof *begins && best <= 0; i++) {
        const int is = cdz_reply_is_marker(r->held.data + skip, r->held.len - skip, begins[i]);
        if (is) best = is;
    }
    if (best < 0) return false;
    cdz_reply_enter(r, best ? CDZ_REPLY_HEAD : CDZ_REPLY_BODY_TEXT);
    return true;
}

void cdz_reply_end_channels(cdz_reply *r)
{
    cdz_buf_add(&r->held, "", 0);
    r->failed |= r->held.failed;
    if (r->failed || r->place == CDZ_REPLY_HEAD) return;
    if (r->place == CDZ_REPLY_START) cdz_reply_enter(r, CDZ_REPLY_BODY_TEXT);
    end_body(r, r->held.len);
}
