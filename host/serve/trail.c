/* trail.c - follows the tokens of a row into its text. A token's bytes say how far it reaches: one that ends within a character
 * is whole when the text has the character. */
#include "serve/trail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

/* --- a token ------------------------------------------------------------------------------------------------------- */

/* A token's text, and whether the answer's text has it: special tokens it has not. NULL: out of memory. */
static char *text_of(const cdz_model *model, int32_t id, size_t *len, bool *writes)
{
    char *text = NULL, *plain = NULL;
    *len = 0;
    *writes = false;
    if (cdz_token_text(model, id, &text, len, NULL) != CDZ_OK) return NULL;
    if (cdz_detokenize(model, &id, 1, true, &plain, NULL) != CDZ_OK) {
        cdz_free(text);
        return NULL;
    }
    *writes = *plain || !*len;
    /* A blank may be taken off what stands alone; a special token leaves nothing at all. */
    if (!*writes && *len && strspn(text, " ") == *len) *writes = true;
    cdz_free(plain);
    return text;
}

char *cdz_trail_bytes(const cdz_model *model, int32_t id, bool special, size_t *len, bool *writes)
{
    void *bytes = NULL;
    size_t n = 0;
    char *text = text_of(model, id, len, writes);
    *writes |= special;
    if (!text || !strstr(text, CDZ_UTF8_REPLACEMENT)) return text;
    const cdz_status status = cdz_token_bytes(model, id, &bytes, &n, NULL);
    if (status == CDZ_OK && !bytes) return text;
    cdz_free(text);
    *len = n;
    return bytes;
}

void cdz_trail_write_bytes(cdz_buf *out, const char *bytes, size_t len)
{
    cdz_buf_putc(out, '[');
    for (size_t i = 0; i < len; i++)
        cdz_buf_printf(out, "%s%u", i ? "," : "", (unsigned)(unsigned char)bytes[i]);
    cdz_buf_putc(out, ']');
}

/* --- a row ---------------------------------------------------------------------------------------------------------- */

static bool grow(cdz_trail *t, size_t n)
{
    if (t->n + n <= t->room) return true;
    const size_t room = 2 * (t->n + n) + 16;
    cdz_trail_token *at = realloc(t->at, room * sizeof *at);
    if (at) t->at = at;
    int32_t *leaders = t->top ? realloc(t->leaders, room * t->top * sizeof *leaders) : NULL;
    if (leaders) t->leaders = leaders;
    float *values = t->top ? realloc(t->leader_values, room * t->top * sizeof *values) : NULL;
    if (values) t->leader_values = values;
    const bool good = at && (!t->top || (leaders && values));
    if (good) t->room = room;
    return good;
}

/* Where the text has the place `at` of all that was written. */
static size_t in_text(const cdz_trail *t, size_t at)
{
    return at > t->blank ? at - t->blank : 0;
}

/* Gives the first n open bytes their places: those of a character, or of the one U+FFFD that stands for them. */
static void lay(cdz_trail *t, uint32_t n, bool replaced)
{
    const size_t one = sizeof CDZ_UTF8_REPLACEMENT - 1;
    for (uint32_t i = 0; i < n; i++) {
        cdz_trail_token *token = &t->at[t->open[i].token];
        if (t->open[i].first) token->from = in_text(t, t->written + (replaced ? 0 : i));
        token->to = in_text(t, t->written + (replaced ? one : i + 1));
    }
}

/* The first n open bytes are `len` bytes of the text. */
static void settle(cdz_trail *t, uint32_t n, size_t len, bool replaced)
{
    lay(t, n, replaced);
    t->written += len;
    t->n_open -= n;
    memmove(t->open, t->open + n, t->n_open * sizeof *t->open);
}

static void add_byte(cdz_trail *t, char byte, bool first)
{
    t->open[t->n_open++] = (cdz_trail_byte){byte, first, t->n};
    while (t->n_open) {
        char bytes[CDZ_TRAIL_OPEN];
        uint32_t code;
        bool cut = false;
        for (uint32_t i = 0; i < t->n_open; i++) bytes[i] = t->open[i].byte;
        const size_t len = cdz_utf8_decode(bytes, t->n_open, &code);
        const size_t bad = len ? 0 : cdz_utf8_bad(bytes, t->n_open, &cut);
        if (cut) break; /* what comes next says what they are */
        if (len)
            settle(t, (uint32_t)len, len, false);
        else
            settle(t, (uint32_t)bad, sizeof CDZ_UTF8_REPLACEMENT - 1, true);
    }
    lay(t, t->n_open, false);
}

/* Places of a token's bytes; false: out of memory. */
static bool place(cdz_trail *t, const cdz_model *model, bool special, const char *text,
                  cdz_trail_token *out)
{
    size_t len;
    char *bytes = cdz_trail_bytes(model, out->id, special, &len, &out->writes);
    if (!bytes) return false;
    if (!out->writes) len = 0;
    if (!t->written && !t->n_open && len && *bytes == ' ' && *text && *text != ' ') t->blank = true;
    out->from = out->to = in_text(t, t->written + t->n_open);
    for (size_t i = 0; i < len; i++) add_byte(t, bytes[i], i == 0);
    cdz_free(bytes);
    return true;
}

static void take_leaders(cdz_trail *t, const cdz_event *event, uint32_t i)
{
    const bool there = event->leaders && event->n_leaders == t->top;
    for (uint32_t k = 0; k < t->top; k++) {
        const size_t to = t->n * t->top + k, from = (size_t)i * t->top + k;
        t->leaders[to] = there ? event->leaders[from] : -1;
        t->leader_values[to] = there ? event->leader_logprobs[from] : NAN;
        t->unknown |= t->leaders[to] < 0;
    }
}

void cdz_trail_add(cdz_trail *t, const cdz_model *model, bool special, const cdz_event *event,
                   const char *text)
{
    t->failed |= !grow(t, event->n_ids);
    for (uint32_t i = 0; !t->failed && i < event->n_ids; i++) {
        cdz_trail_token *token = &t->at[t->n];
        *token = (cdz_trail_token){.id = event->ids[i],
                                   .value = event->logprobs ? event->logprobs[i] : NAN};
        t->unknown |= isnan(token->value) != 0;
        take_leaders(t, event, i);
        t->failed = !place(t, model, special, text ? text : "", token);
        if (!t->failed) t->n++;
    }
}

size_t cdz_trail_whole(const cdz_trail *t, size_t bytes)
{
    size_t i = t->told;
    while (i < t->n && t->at[i].to <= bytes) i++;
    return i;
}

size_t cdz_trail_end(const cdz_trail *t, size_t bytes)
{
    const size_t n = cdz_trail_whole(t, bytes);
    const size_t end = n ? t->at[n - 1].to : 0;
    return n == t->n || end > bytes ? bytes : end;
}

size_t cdz_trail_kept(const cdz_trail *t, size_t cut)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->at[i].to > t->at[i].from && t->at[i].from >= cut) return i;
    return t->n;
}

size_t cdz_trail_count(const cdz_trail *t, size_t *next, size_t from, size_t to)
{
    size_t n = 0;
    for (; *next < t->n && t->at[*next].from < to; ++*next) n += t->at[*next].to > from;
    return n;
}

void cdz_trail_free(cdz_trail *t)
{
    free(t->at);
    free(t->leaders);
    free(t->leader_values);
}
