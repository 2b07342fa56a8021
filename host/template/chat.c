/* chat.c - rendering a conversation: what the reference's apply_chat_template adds to a template. */
#include "template/chat.h"

#include <stdlib.h>
#include <string.h>

#include "template/chat_set.h"
#include "template/value.h"

/* --- the context ------------------------------------------------------------------------------------------- */

static const char final_tag[] = "CONTINUE_FINAL_MESSAGE_TAG ";

static bool is_true(const cdz_json *v)
{
    return cdz_json_is(v, CDZ_JSON_BOOL) && v->boolean;
}

static bool is_absent(const cdz_json *v)
{
    return !v || cdz_json_is(v, CDZ_JSON_NULL);
}

/* Tools and documents are lists of objects, or absent. */
static cdz_status check_list(const cdz_json *context, const char *name, cdz_error *err)
{
    const cdz_json *list = cdz_json_get(context, name);
    if (is_absent(list)) return CDZ_OK;
    if (!cdz_json_is(list, CDZ_JSON_ARRAY))
        return cdz_err(err, CDZ_E_INPUT, "\"%s\" is %s, expected a list of objects", name,
                       cdz_json_type_name(list));
    for (uint32_t i = 0; i < list->len; i++)
        if (!cdz_json_is(&list->items[i], CDZ_JSON_OBJECT))
            return cdz_err(err, CDZ_E_INPUT, "\"%s\": entry %u is %s, expected an object", name, i,
                           cdz_json_type_name(&list->items[i]));
    return CDZ_OK;
}

static void add_member(cdz_json_member *at, uint32_t *n, const cdz_json *context, const char *name,
                       cdz_json v)
{
    if (cdz_json_get(context, name)) return;
    at[(*n)++] = (cdz_json_member){.key = name, .key_len = (uint32_t)strlen(name), .value = v};
}

/* The context with what a conversation has besides. */
static cdz_status complete(const cdz_chat_template *chat, const cdz_json *context, cdz_arena *arena,
                           cdz_json *out, cdz_error *err)
{
    cdz_json_member *at = cdz_arena_array(arena, context->len + chat->n_tokens + 3u, sizeof *at);
    if (!at) return cdz_err_memory(err, "the context");
    uint32_t n = context->len;
    if (n) memcpy(at, context->members, n * sizeof *at);
    for (uint32_t i = 0; i < chat->n_tokens; i++) {
        const cdz_json text = {.type = CDZ_JSON_STRING,
                               .len = (uint32_t)strlen(chat->tokens[i].text),
                               .string = chat->tokens[i].text};
        add_member(at, &n, context, chat->tokens[i].name, text);
    }
    add_member(at, &n, context, "tools", (cdz_json){.type = CDZ_JSON_NULL});
    add_member(at, &n, context, "documents", (cdz_json){.type = CDZ_JSON_NULL});
    add_member(at, &n, context, "add_generation_prompt", (cdz_json){.type = CDZ_JSON_BOOL});
    *out = (cdz_json){.type = CDZ_JSON_OBJECT, .len = n, .members = at};
    return CDZ_OK;
}

/* --- continuing the final message -------------------------------------------------------------------------------- */

/* A copy of an object in which one member has another value. */
static cdz_json *with_member(cdz_arena *arena, const cdz_json *object, const char *name,
                             const cdz_json *v)
{
    cdz_json *copy = cdz_arena_alloc(arena, sizeof *copy);
    cdz_json_member *at = cdz_arena_array(arena, object->len + 1u, sizeof *at);
    if (!copy || !at) return NULL;
    memcpy(at, object->members, object->len * sizeof *at);
    for (uint32_t i = 0; i < object->len; i++)
        if (strcmp(at[i].key, name) == 0) at[i].value = *v;
    *copy = (cdz_json){.type = CDZ_JSON_OBJECT, .len = object->len, .members = at};
    return copy;
}

static cdz_json *with_item(cdz_arena *arena, const cdz_json *array, uint32_t i, const cdz_json *v)
{
    cdz_json *copy = cdz_arena_alloc(arena, sizeof *copy);
    cdz_json *items = cdz_arena_array(arena, array->len, sizeof *items);
    if (!copy || !items) return NULL;
    memcpy(items, array->items, array->len * sizeof *items);
    items[i] = *v;
    *copy = (cdz_json){.type = CDZ_JSON_ARRAY, .len = array->len, .items = items};
    return copy;
}

static cdz_json *tagged(cdz_arena *arena, const cdz_json *text)
{
    cdz_json *copy = cdz_arena_alloc(arena, sizeof *copy);
    char *s = cdz_arena_alloc(arena, text->len + sizeof final_tag);
    if (!copy || !s) return NULL;
    memcpy(s, text->string, text->len);
    memcpy(s + text->len, final_tag, sizeof final_tag);
    *copy = (cdz_json){
        .type = CDZ_JSON_STRING, .len = text->len + (uint32_t)sizeof final_tag - 1, .string = s};
    return copy;
}

/* The last part that has text; UINT32_MAX: none. */
static uint32_t text_part(const cdz_json *content)
{
    for (uint32_t i = content->len; i-- > 0;)
        if (cdz_json_is(cdz_json_get(&content->items[i], "text"), CDZ_JSON_STRING)) return i;
    return UINT32_MAX;
}

/* The context with the tag behind the final message's text, which goes to *text too. */
static cdz_status tag_final(const cdz_json *context, cdz_arena *arena, cdz_json *out, value *text,
                            cdz_error *err)
{
    const cdz_json *messages = cdz_json_get(context, "messages");
    if (!cdz_json_is(messages, CDZ_JSON_ARRAY) || !messages->len)
        return cdz_err(err, CDZ_E_INPUT, "continue_final_message: there is no message");
    const cdz_json *last = &messages->items[messages->len - 1];
    const cdz_json *content = cdz_json_get(last, "content"), *source = content;
    cdz_json *changed;
    if (cdz_json_is(content, CDZ_JSON_ARRAY)) {
        const uint32_t i = text_part(content);
        if (i == UINT32_MAX)
            return cdz_err(err, CDZ_E_INPUT,
                           "continue_final_message: the final message has no text to continue");
        source = cdz_json_get(&content->items[i], "text");
        changed = tagged(arena, source);
        if (changed) changed = with_member(arena, &content->items[i], "text", changed);
        if (changed) changed = with_item(arena, content, i, changed);
    } else if (cdz_json_is(content, CDZ_JSON_STRING)) {
        changed = tagged(arena, content);
    } else {
        return cdz_err(err, CDZ_E_INPUT,
                       "continue_final_message: the final message has no text to continue");
    }
    *text = tpl_v_borrow(source->string, source->len);
    if (changed) changed = with_member(arena, last, "content", changed);
    if (changed) changed = with_item(arena, messages, messages->len - 1, changed);
    if (changed) changed = with_member(arena, context, "messages", changed);
    if (!changed) return cdz_err_memory(err, "the context");
    *out = *changed;
    return CDZ_OK;
}

static size_t find_last(const cdz_buf *text, const char *what, size_t len)
{
    for (size_t at = text->len >= len ? text->len - len + 1 : 0; at-- > 0;)
        if (memcmp(text->data + at, what, len) == 0) return at;
    return SIZE_MAX;
}

/* Cuts the rendered text at the last tag; where a template trimmed the tag's space, trims too. */
static cdz_status cut_at_tag(cdz_buf *text, value final, cdz_error *err)
{
    const size_t bare = sizeof final_tag - 2;
    const size_t at = find_last(text, final_tag, bare);
    final = tpl_strip(NULL, final, tpl_v_missing(), true, true);
    value whole = tpl_v_borrow(text->len ? text->data : "", text->len);
    if (at == SIZE_MAX || tpl_find_text(whole, final, 0) == SIZE_MAX)
        return cdz_err(err, CDZ_E_INPUT,
                       "continue_final_message: the final message does not appear in the text, so "
                       "there is nothing to continue");
    const bool spaced = at + bare < text->len && text->data[at + bare] == ' ';
    value kept = tpl_sub_text(whole, 0, at);
    if (!spaced) kept = tpl_strip(NULL, kept, tpl_v_missing(), false, true);
    text->len = kept.len;
    text->data[text->len] = '\0';
    return CDZ_OK;
}

/* --- rendering -------------------------------------------------------------------------------------------------------- */

static cdz_status render_final(cdz_chat_template *chat, const cdz_json *context, cdz_arena *arena,
                               cdz_template_options *options, cdz_buf *out, cdz_error *err)
{
    cdz_json tagged_context;
    value final;
    cdz_buf text = {0};
    if (is_true(cdz_json_get(context, "add_generation_prompt")))
        return cdz_err(err, CDZ_E_INPUT,
                       "continue_final_message and add_generation_prompt are not compatible.");
    CDZ_TRY(tag_final(context, arena, &tagged_context, &final, err));
    cdz_status status = cdz_template_render(chat->compiled, &tagged_context, options, &text, err);
    if (status == CDZ_OK) status = cut_at_tag(&text, final, err);
    if (status == CDZ_OK && text.len) cdz_buf_add(out, text.data, text.len);
    cdz_buf_free(&text);
    return status;
}

static cdz_status render_chat(cdz_chat_template *chat, const cdz_json *context,
                              cdz_template_options *options, cdz_buf *out, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_json whole;
    cdz_status status = check_list(context, "tools", err);
    if (status == CDZ_OK) status = check_list(context, "documents", err);
    if (status == CDZ_OK) status = complete(chat, context, &arena, &whole, err);
    if (status == CDZ_OK && is_true(cdz_json_get(context, "continue_final_message")))
        status = render_final(chat, &whole, &arena, options, out, err);
    else if (status == CDZ_OK)
        status = cdz_template_render(chat->compiled, &whole, options, out, err);
    cdz_arena_free(&arena);
    return status;
}

cdz_status cdz_chat_template_render(cdz_chat_template *chat, const cdz_json *context,
                                    cdz_template_options *options, cdz_buf *out, cdz_error *err)
{
    cdz_template_options own = {0};
    const cdz_json *clock = cdz_json_get(context, "clock");
    if (!options) options = &own;
    if (!cdz_json_is(context, CDZ_JSON_OBJECT))
        return cdz_err(err, CDZ_E_INPUT, "the context is %s, expected an object",
                       cdz_json_type_name(context));
    if (!chat->compiled)
        CDZ_TRY(
            cdz_chat_template_choose(chat, NULL, !is_absent(cdz_json_get(context, "tools")), err));
    const char *frozen = options->clock;
    if (!frozen && cdz_json_is(clock, CDZ_JSON_STRING)) options->clock = clock->string;
    const cdz_status status = cdz_json_get(context, "messages")
                                  ? render_chat(chat, context, options, out, err)
                                  : cdz_template_render(chat->compiled, context, options, out, err);
    options->clock = frozen;
    return status;
}
