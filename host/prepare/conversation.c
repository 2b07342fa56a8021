/* conversation.c - messages to ids. Special tokens that messages spell out are put between marks that nobody can guess
 * before the template sees them; what lies between marks in its text is then read as plain text. */
#include "prepare/conversation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MARK = 20 }; /* bytes: "cdz", 16 digits, 'a' before or 'z' behind */

typedef struct special {
    const char *text;
    size_t len;
} special;

typedef struct guard {
    cdz_arena *arena;
    special *specials; /* (n), longest first where one begins with another */
    size_t n;
    bool begins[256]; /* some special token begins with this byte */
    char open[MARK + 1], close[MARK + 1];
} guard;

static int longer_first(const void *a, const void *b)
{
    const size_t x = ((const special *)a)->len, y = ((const special *)b)->len;
    return (x < y) - (x > y);
}

static cdz_status guard_begin(guard *g, const cdz_tokenizer *tok, cdz_arena *arena, cdz_error *err)
{
    uint64_t key;
    if (getentropy(&key, sizeof key) != 0)
        return cdz_err(err, CDZ_E_IO, "the system gives no random bytes");
    snprintf(g->open, sizeof g->open, "cdz%016" PRIx64 "a", key);
    snprintf(g->close, sizeof g->close, "cdz%016" PRIx64 "z", key);
    g->arena = arena;
    const uint32_t n_ids = cdz_tokenizer_n_ids(tok);
    size_t n = 0;
    for (uint32_t id = 0; id < n_ids; id++) n += cdz_tokenizer_is_special(tok, (int32_t)id);
    g->specials = cdz_arena_array(arena, n + 1, sizeof *g->specials);
    if (!g->specials) return cdz_err_memory(err, "the conversation");
    for (uint32_t id = 0; id < n_ids; id++) {
        if (!cdz_tokenizer_is_special(tok, (int32_t)id)) continue;
        special *s = &g->specials[g->n];
        s->text = cdz_tokenizer_token(tok, (int32_t)id, &s->len);
        if (!s->text || !s->len) continue;
        g->begins[(unsigned char)s->text[0]] = true;
        g->n++;
    }
    if (g->n) qsort(g->specials, g->n, sizeof *g->specials, longer_first);
    return CDZ_OK;
}

/* Bytes of the special token that text begins with; 0: none. */
static size_t special_at(const guard *g, const char *text, size_t len)
{
    if (!g->begins[(unsigned char)*text]) return 0;
    for (size_t i = 0; i < g->n; i++)
        if (g->specials[i].len <= len && memcmp(text, g->specials[i].text, g->specials[i].len) == 0)
            return g->specials[i].len;
    return 0;
}

/* *text with marks round its special tokens, or as it was where it has none. */
static bool guard_text(const guard *g, const char **text, uint32_t *len)
{
    cdz_buf out = {0};
    const char *const from = *text;
    size_t done = 0;
    for (size_t at = 0; at < *len;) {
        const size_t n = special_at(g, from + at, *len - at);
        if (n) {
            cdz_buf_add(&out, from + done, at - done);
            cdz_buf_puts(&out, g->open);
            cdz_buf_add(&out, from + at, n);
            cdz_buf_puts(&out, g->close);
            done = at + n;
        }
        at += n ? n : 1;
    }
    if (done == 0) return true;
    cdz_buf_add(&out, from + done, *len - done);
    char *copy = out.failed || out.len > INT32_MAX ? NULL : cdz_arena_alloc(g->arena, out.len + 1);
    if (copy) {
        memcpy(copy, out.data, out.len + 1);
        *text = copy;
        *len = (uint32_t)out.len;
    }
    cdz_buf_free(&out);
    return copy;
}

static bool guard_value(const guard *g, cdz_json *value);

static bool guard_items(const guard *g, cdz_json *array)
{
    cdz_json *items = cdz_arena_array(g->arena, array->len + 1u, sizeof *items);
    if (!items) return false;
    if (array->len) memcpy(items, array->items, array->len * sizeof *items);
    for (uint32_t i = 0; i < array->len; i++)
        if (!guard_value(g, &items[i])) return false;
    array->items = items;
    return true;
}

static bool guard_members(const guard *g, cdz_json *object)
{
    cdz_json_member *members = cdz_arena_array(g->arena, object->len + 1u, sizeof *members);
    if (!members) return false;
    if (object->len) memcpy(members, object->members, object->len * sizeof *members);
    for (uint32_t i = 0; i < object->len; i++)
        if (!guard_text(g, &members[i].key, &members[i].key_len) ||
            !guard_value(g, &members[i].value))
            return false;
    object->members = members;
    object->indexed = false;
    return true;
}

/* Replaces what a value holds by a guarded copy. Nesting is bounded by the JSON reader. */
static bool guard_value(const guard *g, cdz_json *value) /* NOLINT(misc-no-recursion) */
{
    switch (value->type) {
    case CDZ_JSON_STRING: return guard_text(g, &value->string, &value->len);
    case CDZ_JSON_ARRAY: return guard_items(g, value);
    case CDZ_JSON_OBJECT: return guard_members(g, value);
    default: return true;
    }
}

static bool comes_from_outside(const char *name)
{
    return strcmp(name, "messages") == 0 || strcmp(name, "tools") == 0 ||
           strcmp(name, "documents") == 0;
}

static cdz_status guard_context(guard *g, const cdz_json *context, cdz_json *out, cdz_error *err)
{
    cdz_json_member *members = cdz_arena_array(g->arena, context->len + 1u, sizeof *members);
    if (!members) return cdz_err_memory(err, "the conversation");
    if (context->len) memcpy(members, context->members, context->len * sizeof *members);
    for (uint32_t i = 0; i < context->len; i++)
        if (comes_from_outside(members[i].key) && !guard_value(g, &members[i].value))
            return cdz_err_memory(err, "the conversation");
    *out = (cdz_json){.type = CDZ_JSON_OBJECT, .len = context->len, .members = members};
    return CDZ_OK;
}

/* --- text to ids ------------------------------------------------------------------------------------------------ */

static cdz_status add_ids(const cdz_tokenizer *tok, const char *text, size_t len, unsigned flags,
                          int32_t **ids, uint32_t *n, cdz_error *err)
{
    cdz_encoding e = {0};
    cdz_status status = len ? cdz_tokenizer_encode(tok, NULL, text, len, flags, &e, err) : CDZ_OK;
    if (status == CDZ_OK && e.n) {
        int32_t *grown = e.n < (1u << 30) - *n ? realloc(*ids, (*n + e.n) * sizeof *grown) : NULL;
        if (grown) {
            memcpy(grown + *n, e.ids, e.n * sizeof *grown);
            *ids = grown;
            *n += (uint32_t)e.n;
        } else {
            status = cdz_err_memory(err, "the conversation");
        }
    }
    cdz_encoding_free(&e);
    return status;
}

/* A template may have cut a marked token apart: a mark alone changes how the text from there on is read, no more. */
static cdz_status read_text(const guard *g, const cdz_tokenizer *tok, const cdz_buf *text,
                            int32_t **ids, uint32_t *n, cdz_error *err)
{
    const char *at = text->data, *const end = at + text->len;
    unsigned flags = 0;
    while (text->len && at < end) {
        const char *mark = g->n ? memmem(at, (size_t)(end - at), g->open, MARK - 1) : NULL;
        CDZ_TRY(add_ids(tok, at, (size_t)((mark ? mark : end) - at), flags, ids, n, err));
        if (!mark) break;
        flags = mark + MARK <= end && mark[MARK - 1] == 'a' ? CDZ_ENCODE_PLAIN : 0;
        at = mark + MARK <= end ? mark + MARK : end;
    }
    return CDZ_OK;
}

static cdz_status render_guarded(cdz_chat_template *chat, const cdz_tokenizer *tok,
                                 const cdz_json *context, bool trusted, guard *g, cdz_buf *text,
                                 cdz_error *err)
{
    cdz_json guarded = *context;
    if (!trusted) {
        CDZ_TRY(guard_begin(g, tok, g->arena, err));
        if (g->n) CDZ_TRY(guard_context(g, context, &guarded, err));
    }
    return cdz_chat_template_render(chat, &guarded, NULL, text, err);
}

cdz_status cdz_conversation_ids(cdz_chat_template *chat, const cdz_tokenizer *tok,
                                const cdz_json *context, bool trusted, int32_t **ids, uint32_t *n,
                                cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_buf text = {0};
    guard g = {.arena = &arena};
    *ids = NULL;
    *n = 0;
    cdz_status status = render_guarded(chat, tok, context, trusted, &g, &text, err);
    if (status == CDZ_OK) status = read_text(&g, tok, &text, ids, n, err);
    if (status != CDZ_OK) {
        free(*ids);
        *ids = NULL;
    }
    cdz_buf_free(&text);
    cdz_arena_free(&arena);
    return status;
}

/* --- a request's messages ------------------------------------------------------------------------------------- */

static cdz_status check_fields(const cdz_json *document, cdz_error *err)
{
    static const struct {
        const char *name, *what;
        cdz_json_type type;
    } fields[] = {{"chat_template", "the name of a template", CDZ_JSON_STRING},
                  {"chat_template_kwargs", "an object", CDZ_JSON_OBJECT},
                  {"special_in_messages", "true or false", CDZ_JSON_BOOL}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const cdz_json *v = cdz_json_get(document, fields[i].name);
        if (v && v->type != CDZ_JSON_NULL && !cdz_json_is(v, fields[i].type))
            return cdz_err(err, CDZ_E_USAGE, "request: \"%s\" must be %s, found %s", fields[i].name,
                           fields[i].what, cdz_json_type_name(v));
    }
    return CDZ_OK;
}

static void put(cdz_json *context, cdz_json_member *members, const char *name, const cdz_json *v)
{
    if (!v || cdz_json_get(context, name)) return;
    members[context->len++] =
        (cdz_json_member){.key = name, .key_len = (uint32_t)strlen(name), .value = *v};
}

/* chat_template_kwargs, and what they do not say. */
static cdz_status make_context(const cdz_json *document, const cdz_json *messages, cdz_arena *arena,
                               cdz_json *out, cdz_error *err)
{
    const cdz_json *kwargs = cdz_json_get(document, "chat_template_kwargs");
    const uint32_t n = cdz_json_is(kwargs, CDZ_JSON_OBJECT) ? kwargs->len : 0;
    cdz_json_member *members = cdz_arena_array(arena, n + 5u, sizeof *members);
    if (!members) return cdz_err_memory(err, "the conversation");
    if (n) memcpy(members, kwargs->members, n * sizeof *members);
    *out = (cdz_json){.type = CDZ_JSON_OBJECT, .len = n, .members = members};
    if (cdz_json_get(out, "messages"))
        return cdz_err(err, CDZ_E_USAGE, "request: \"chat_template_kwargs\" may not set messages");
    put(out, members, "messages", messages);
    put(out, members, "tools", cdz_json_get(document, "tools"));
    put(out, members, "documents", cdz_json_get(document, "documents"));
    const cdz_json *last = messages->len ? &messages->items[messages->len - 1] : NULL;
    const bool answered = last && cdz_json_eq(cdz_json_get(last, "role"), "assistant");
    const cdz_json *goes_on = cdz_json_get(out, "continue_final_message");
    const cdz_json *begins = cdz_json_get(out, "add_generation_prompt");
    const bool asked = begins && begins->type == CDZ_JSON_BOOL && begins->boolean;
    const bool continued =
        goes_on ? goes_on->type == CDZ_JSON_BOOL && goes_on->boolean : answered && !begins;
    put(out, members, "continue_final_message",
        &(cdz_json){.type = CDZ_JSON_BOOL, .boolean = continued});
    put(out, members, "add_generation_prompt",
        &(cdz_json){.type = CDZ_JSON_BOOL, .boolean = asked || !continued});
    return CDZ_OK;
}

static cdz_status ids_of(cdz_chat_source *source, const cdz_tokenizer *tok, const cdz_json *document,
                         const cdz_json *context, int32_t **ids, uint32_t *n, cdz_error *err)
{
    const cdz_json *name = cdz_json_get(document, "chat_template");
    const cdz_json *tools = cdz_json_get(context, "tools");
    const cdz_json *trusted = cdz_json_get(document, "special_in_messages");
    if (!source->chat) CDZ_TRY(cdz_chat_template_open(source->folder, &source->chat, err));
    CDZ_TRY(cdz_chat_template_choose(source->chat,
                                     cdz_json_is(name, CDZ_JSON_STRING) ? name->string : NULL,
                                     tools && tools->type != CDZ_JSON_NULL, err));
    return cdz_conversation_ids(source->chat, tok, context,
                                cdz_json_is(trusted, CDZ_JSON_BOOL) && trusted->boolean, ids, n,
                                err);
}

cdz_status cdz_conversation_of_request(cdz_chat_source *source, const cdz_tokenizer *tok,
                                       const cdz_json *document, const cdz_json *messages,
                                       int32_t **ids, uint32_t *n, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_json context;
    cdz_status status = check_fields(document, err);
    if (status == CDZ_OK && (!cdz_json_is(messages, CDZ_JSON_ARRAY) || messages->len == 0))
        status =
            cdz_err(err, CDZ_E_USAGE,
                    "request: \"messages\" must be a list of messages, or a list of such lists");
    if (status == CDZ_OK) status = make_context(document, messages, &arena, &context, err);
    if (status == CDZ_OK) {
        cdz_mutex_lock(&source->lock);
        status = ids_of(source, tok, document, &context, ids, n, err);
        cdz_mutex_unlock(&source->lock);
    }
    cdz_arena_free(&arena);
    return status;
}
