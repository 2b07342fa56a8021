/* reply.c - an answer in pieces: which part is reasoning, text or a call; see reply.h. What stands in a call is calls.c's. */
#include "template/reply_parts.h"

#include <string.h>

#include "base/assert.h"

/* close NULL: to the end of the answer, or the next call. drop: the text has no use for it. */
static const struct {
    const char *open, *close;
    cdz_call_body body;
    bool drop;
} markers[] = {
    {"<tool_call>", "</tool_call>", CDZ_CALL_SNIFF, false},
    {"<seed:tool_call>", "</seed:tool_call>", CDZ_CALL_SNIFF, false},
    {"<minimax:tool_call>", "</minimax:tool_call>", CDZ_CALL_INVOKE, false},
    {"<TOOLCALL>", "</TOOLCALL>", CDZ_CALL_JSON, false},
    {"<|tool_call_start|>", "<|tool_call_end|>", CDZ_CALL_PYTHON, false},
    {"<|START_ACTION|>", "<|END_ACTION|>", CDZ_CALL_JSON, false},
    {"<|tool_call_begin|>", "<|tool_call_end|>", CDZ_CALL_KIMI, false},
    {"<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", CDZ_CALL_DEEPSEEK, false},
    {"[TOOL_CALLS]", NULL, CDZ_CALL_MISTRAL, false},
    {"<|tool_call|>", NULL, CDZ_CALL_JSON, false},
    {"<|python_tag|>", NULL, CDZ_CALL_JSON, false},
    {"functools[", NULL, CDZ_CALL_JSON, false},
    {"<function=", "</function>", CDZ_CALL_FUNCTION, false},
    {"<|tool_calls_section_begin|>", NULL, CDZ_CALL_JSON, true},
    {"<|tool_calls_section_end|>", NULL, CDZ_CALL_JSON, true},
    {"<｜tool▁calls▁begin｜>", NULL, CDZ_CALL_JSON, true},
    {"<｜tool▁calls▁end｜>", NULL, CDZ_CALL_JSON, true},
};

enum {
    N_MARKERS = sizeof markers / sizeof *markers,
    BARE_JSON = N_MARKERS,
    BARE_PYTHON,
    PIECE = 512
};

static const char think[] = "<think>", no_think[] = "</think>", blanks[] = " \t\r\n";

cdz_reply_form cdz_reply_form_of(const char *text)
{
    cdz_reply_form form = {0};
    bool tags = false;
    for (uint32_t i = 0; text && i < N_MARKERS; i++) {
        /* Where a tag is around them, "<function=" opens no call of its own. */
        if (!strstr(text, markers[i].open) || (markers[i].body == CDZ_CALL_FUNCTION && tags))
            continue;
        form.markers |= 1u << i;
        tags |= markers[i].body == CDZ_CALL_SNIFF;
    }
    if (!text) return form;
    form.bare_json = strstr(text, "dictionary of argument name and its value") != NULL;
    form.bare_python = strstr(text, "[func_name1(") != NULL;
    form.channels = strstr(text, cdz_reply_channel_marker(0)) != NULL;
    form.tagged_json = form.markers == 1 && !form.channels && !strstr(text, "<function=") &&
                       !strstr(text, "<arg_key>");
    form.thinks = form.channels || strstr(text, no_think) != NULL;
    form.short_id = strstr(text, "[TOOL_CALLS]") != NULL;
    form.tells_tools = strstr(text, "tools") != NULL;
    return form;
}

bool cdz_reply_is_thinking(const char *prompt, size_t len)
{
    static const size_t n = sizeof think - 1;
    while (len && strchr(blanks, prompt[len - 1])) len--;
    return len >= n && memcmp(prompt + len - n, think, n) == 0;
}

const char *cdz_reply_marker(const cdz_reply_form *form, uint32_t i)
{
    for (uint32_t k = 0; k < 2 * N_MARKERS; k++) {
        const char *text = k < N_MARKERS ? markers[k].open : markers[k - N_MARKERS].close;
        if (!text || !(form->markers & 1u << k % N_MARKERS)) continue;
        if (i-- == 0) return text;
    }
    return form->channels ? cdz_reply_channel_marker(i) : NULL;
}

/* --- the text that is held ------------------------------------------------------------------------------------------ */

size_t cdz_reply_blanks(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && text[n] && strchr(blanks, text[n])) n++;
    return n;
}

size_t cdz_reply_blanks_at_end(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && text[len - 1 - n] && strchr(blanks, text[len - 1 - n])) n++;
    return n;
}

size_t cdz_reply_may_begin(const char *text, size_t len, const char *marker)
{
    size_t n = strlen(marker) - 1;
    if (n > len) n = len;
    while (n && memcmp(text + len - n, marker, n) != 0) n--;
    return n;
}

/* n bytes behind the first `at` go, untold. */
static void cut_out(cdz_reply *r, size_t at, size_t n)
{
    if (!n) return;
    memmove(r->held.data + at, r->held.data + at + n, r->held.len - at - n);
    r->held.len -= n;
    r->taken += n;
    r->held.data[r->held.len] = '\0';
    r->looked = 0;
}

void cdz_reply_take(cdz_reply *r, size_t n)
{
    cut_out(r, 0, n);
}

void cdz_reply_tell(cdz_reply *r, size_t n, void (*to)(void *user, const char *text, size_t len))
{
    if (n && to) to(r->sink.user, r->held.data, n);
    cdz_reply_take(r, n);
}

void cdz_reply_enter(cdz_reply *r, cdz_reply_place place)
{
    r->place = place;
    r->looked = 0;
}

/* --- calls ------------------------------------------------------------------------------------------------------------ */

static const char *opening(const cdz_reply *r)
{
    return r->marker < N_MARKERS ? markers[r->marker].open : "";
}

/* Tells of the calls in the first `len` bytes of what is held; false: there are none. */
static bool tell_calls(cdz_reply *r, size_t len)
{
    cdz_tool_call calls[CDZ_REPLY_MOST_CALLS];
    cdz_arena arena = {0};
    /* Of what opens a list, the list begins with the last byte. */
    const size_t open = strlen(opening(r)),
                 skip = r->lead + (open && opening(r)[open - 1] == '[' ? open - 1 : open);
    const cdz_call_body kind = r->marker < N_MARKERS      ? markers[r->marker].body
                               : r->marker == BARE_PYTHON ? CDZ_CALL_PYTHON
                                                          : CDZ_CALL_JSON;
    const size_t n =
        cdz_calls_read(kind, r->held.data + skip, len - skip, r->tools, r->marker >= N_MARKERS,
                       &arena, calls, CDZ_REPLY_MOST_CALLS - r->n_calls, &r->failed);
    for (size_t i = 0; i < n; i++) r->sink.call(r->sink.user, calls[i].name, calls[i].arguments);
    r->n_calls += (uint32_t)n;
    cdz_arena_free(&arena);
    return n > 0;
}

/* A call ends behind `body` bytes; `close` more belong to it. The blanks in front of one that is none are text too. */
static void end_call(cdz_reply *r, size_t body, size_t close)
{
    if (tell_calls(r, body)) {
        cdz_reply_take(r, body + close);
        r->trim = true;
    } else if (!r->failed) {
        cdz_reply_tell(r, body + close, r->sink.text);
    }
    cdz_reply_enter(r, CDZ_REPLY_TEXT);
}

/* Where a marker stands in what is held, from `looked` on; NULL: nowhere yet. */
static const char *look_for(cdz_reply *r, const char *marker)
{
    const char *found =
        memmem(r->held.data + r->looked, r->held.len - r->looked, marker, strlen(marker));
    if (!found) {
        const size_t from = r->held.len - cdz_reply_may_begin(r->held.data, r->held.len, marker);
        if (from > r->looked) r->looked = from;
    }
    return found;
}

static bool step_call(cdz_reply *r)
{
    const size_t open = r->lead + strlen(opening(r));
    if (r->marker >= N_MARKERS) return false;
    const char *close = markers[r->marker].close;
    if (r->looked < open) r->looked = open;
    const char *found = look_for(r, close ? close : opening(r));
    if (!found) return false;
    end_call(r, (size_t)(found - r->held.data), close ? strlen(close) : 0);
    return true;
}

/* --- text ------------------------------------------------------------------------------------------------------------- */

/* The first marker in what is held, and its place; N_MARKERS: none, and *at is where one may yet begin. */
static uint32_t first_marker(const cdz_reply *r, size_t *at)
{
    uint32_t best = N_MARKERS;
    size_t held = 0;
    *at = r->held.len;
    for (uint32_t i = 0; i < N_MARKERS; i++) {
        if (!(r->form.markers & 1u << i)) continue;
        const char *found =
            memmem(r->held.data, r->held.len, markers[i].open, strlen(markers[i].open));
        const size_t may = cdz_reply_may_begin(r->held.data, r->held.len, markers[i].open);
        if (may > held) held = may;
        if (!found || (size_t)(found - r->held.data) >= *at) continue;
        *at = (size_t)(found - r->held.data);
        best = i;
    }
    if (best == N_MARKERS) *at = r->held.len - held;
    return best;
}

static bool step_text(cdz_reply *r)
{
    size_t at = r->held.len;
    if (!r->tools) {
        cdz_reply_tell(r, at, r->sink.text);
        return false;
    }
    if (r->trim) cdz_reply_take(r, cdz_reply_blanks(r->held.data, r->held.len));
    const uint32_t marker = first_marker(r, &at);
    const size_t before = at - cdz_reply_blanks_at_end(r->held.data, at);
    if (before) r->trim = false;
    cdz_reply_tell(r, before, r->sink.text);
    if (marker == N_MARKERS) return false; /* blanks wait: before a call they are of no use */
    if (markers[marker].drop) {
        cut_out(r, at - before, strlen(markers[marker].open));
        return true;
    }
    r->marker = marker;
    r->lead = at - before;
    cdz_reply_enter(r, CDZ_REPLY_CALL);
    return true;
}

/* --- reasoning --------------------------------------------------------------------------------------------------------- */

static bool step_thinking(cdz_reply *r)
{
    if (r->trim) cdz_reply_take(r, cdz_reply_blanks(r->held.data, r->held.len));
    const char *found = memmem(r->held.data, r->held.len, no_think, sizeof no_think - 1);
    size_t end = found ? (size_t)(found - r->held.data)
                       : r->held.len - cdz_reply_may_begin(r->held.data, r->held.len, no_think);
    const size_t gap = cdz_reply_blanks_at_end(r->held.data, end);
    if (end > gap) r->trim = false;
    cdz_reply_tell(r, end - gap, r->sink.reasoning);
    if (!found) return false;
    cdz_reply_take(r, gap + sizeof no_think - 1);
    r->trim = true;
    r->form.thinks = false; /* once */
    cdz_reply_enter(r, CDZ_REPLY_START);
    return true;
}

/* --- the beginning ------------------------------------------------------------------------------------------------------ */

int cdz_reply_is_marker(const char *text, size_t len, const char *marker)
{
    const size_t n = strlen(marker);
    if (len < n) return memcmp(text, marker, len) == 0 ? -1 : 0;
    return memcmp(text, marker, n) == 0;
}

/* {"name" or another key that a call begins with. */
static int is_json_call(const char *text, size_t len)
{
    static const char *const keys[] = {"\"name\"", "\"type\"", "\"function\"", "\"parameters\"",
                                       "\"id\""};
    int best = 0;
    if (!len || *text != '{') return len ? 0 : -1;
    const size_t skip = 1 + cdz_reply_blanks(text + 1, len - 1);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && best <= 0; i++) {
        const int is = cdz_reply_is_marker(text + skip, len - skip, keys[i]);
        if (is) best = is;
    }
    return best;
}

/* [name( */
static int is_python_call(const char *text, size_t len)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    if (!len || *text != '[') return len ? 0 : -1;
    size_t i = 1 + cdz_reply_blanks(text + 1, len - 1);
    const size_t from = i;
    while (i < len && text[i] && strchr(letters, text[i])) i++;
    if (i == len) return -1;
    return i > from && text[i] == '(';
}

static bool step_start(cdz_reply *r)
{
    if (r->trim) cdz_reply_take(r, cdz_reply_blanks(r->held.data, r->held.len));
    const size_t skip = cdz_reply_blanks(r->held.data, r->held.len);
    const char *text = r->held.data + skip;
    const size_t len = r->held.len - skip;
    const int thinks = r->form.thinks ? cdz_reply_is_marker(text, len, think) : 0;
    const int json = r->tools && r->form.bare_json ? is_json_call(text, len) : 0;
    const int python = r->tools && r->form.bare_python ? is_python_call(text, len) : 0;
    if (thinks > 0) {
        cdz_reply_take(r, skip + sizeof think - 1);
        r->trim = true;
        cdz_reply_enter(r, CDZ_REPLY_THINKING);
    } else if (json > 0 || python > 0) {
        r->marker = json > 0 ? BARE_JSON : BARE_PYTHON;
        r->lead = 0;
        cdz_reply_enter(r, CDZ_REPLY_CALL);
    } else if (thinks < 0 || json < 0 || python < 0 || (r->trim && !len)) {
        return false;
    } else {
        if (len) r->trim = false;
        cdz_reply_enter(r, CDZ_REPLY_TEXT);
    }
    return true;
}

/* --- all of it ----------------------------------------------------------------------------------------------------------- */

static bool step(cdz_reply *r)
{
    switch (r->place) {
    case CDZ_REPLY_START: return r->form.channels ? cdz_reply_step_channels(r) : step_start(r);
    case CDZ_REPLY_THINKING: return step_thinking(r);
    case CDZ_REPLY_TEXT: return step_text(r);
    case CDZ_REPLY_CALL: return step_call(r);
    case CDZ_REPLY_HEAD: return cdz_reply_step_head(r);
    default: return cdz_reply_step_body(r);
    }
}

void cdz_reply_feed(cdz_reply *r, const char *text, size_t len)
{
    /* A little at a time: what has been read is moved out of the way after each step. */
    for (size_t at = 0; at < len && !r->failed; at += PIECE) {
        cdz_buf_add(&r->held, text + at, len - at < PIECE ? len - at : PIECE);
        r->failed = r->held.failed;
        size_t taken = r->taken;
        for (int idle = 0; !r->failed && r->held.len && step(r); idle++) {
            if (r->taken != taken) idle = 0;
            taken = r->taken;
            cdz_assert(idle <= CDZ_REPLY_BODY_CALL); /* else it goes in a circle of places */
        }
    }
}

void cdz_reply_end(cdz_reply *r)
{
    if (r->failed) return;
    if (r->form.channels) cdz_reply_end_channels(r);
    if (r->form.channels || !r->held.len) return;
    if (r->place == CDZ_REPLY_CALL) end_call(r, r->held.len, 0);
    if (r->failed) return;
    if (r->trim) cdz_reply_take(r, cdz_reply_blanks(r->held.data, r->held.len));
    if (r->place == CDZ_REPLY_THINKING)
        cdz_reply_tell(r, r->held.len - cdz_reply_blanks_at_end(r->held.data, r->held.len),
                       r->sink.reasoning);
    else if (!r->n_calls || cdz_reply_blanks(r->held.data, r->held.len) < r->held.len)
        cdz_reply_tell(r, r->held.len, r->sink.text);
}

void cdz_reply_free(cdz_reply *r)
{
    cdz_buf_free(&r->held);
    cdz_buf_free(&r->name);
}
