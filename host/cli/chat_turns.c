/* chat_turns.c - a conversation, the ids its model's chat template makes of it, and the KV states of its answers. */
#include <stdlib.h>
#include <string.h>

#include "cadenza/cadenza.h"
#include "cli/chat.h"
#include "prepare/conversation.h"

bool cdz_turns_add(cdz_turns *turns, cdz_chat_role role, const char *text)
{
    if (turns->n == turns->cap) {
        size_t cap = turns->cap ? turns->cap * 2 : 16;
        cdz_turn *grown = realloc(turns->at, cap * sizeof *grown);
        if (!grown) return false;
        turns->at = grown;
        turns->cap = cap;
    }
    char *copy = strdup(text);
    if (!copy) return false;
    turns->at[turns->n++] = (cdz_turn){.role = role, .text = copy};
    return true;
}

bool cdz_turns_reason(cdz_turns *turns, const char *reasoning)
{
    cdz_turn *turn = &turns->at[turns->n - 1];
    turn->reasoning = strdup(reasoning);
    return turn->reasoning;
}

static void free_turn(cdz_turn *turn)
{
    free(turn->text);
    free(turn->reasoning);
    cdz_result_free(turn->state);
}

void cdz_turns_cut(cdz_turns *turns, size_t n)
{
    while (turns->n > n) free_turn(&turns->at[--turns->n]);
}

bool cdz_turns_drop_oldest(cdz_turns *turns)
{
    size_t first = 0;
    while (first < turns->n && turns->at[first].role != CDZ_ROLE_USER) first++;
    size_t end = first + 1;
    while (end < turns->n && turns->at[end].role != CDZ_ROLE_USER) end++;
    if (end >= turns->n) return false;
    for (size_t i = first; i < end; i++) free_turn(&turns->at[i]);
    memmove(&turns->at[first], &turns->at[end], (turns->n - end) * sizeof *turns->at);
    turns->n -= end - first;
    return true;
}

const cdz_result *cdz_turns_state(const cdz_turns *turns)
{
    for (size_t i = turns->n; i-- > 0;)
        if (turns->at[i].state) return turns->at[i].state;
    return NULL;
}

bool cdz_turns_free_states(cdz_turns *turns)
{
    const bool any = cdz_turns_state(turns) != NULL;
    for (size_t i = 0; i < turns->n; i++) {
        cdz_result_free(turns->at[i].state);
        turns->at[i].state = NULL;
    }
    return any;
}

void cdz_turns_free(cdz_turns *turns)
{
    cdz_turns_cut(turns, 0);
    free(turns->at);
    *turns = (cdz_turns){0};
}

const char *cdz_role_name(cdz_chat_role role)
{
    static const char *const names[] = {"system", "user", "assistant"};
    return names[role];
}

/* --- as a file ------------------------------------------------------------------------------------------------ */

void cdz_turns_write(const cdz_turns *turns, cdz_buf *out)
{
    cdz_buf_puts(out, "[");
    for (size_t i = 0; i < turns->n; i++) {
        const cdz_turn *turn = &turns->at[i];
        cdz_buf_printf(out, "%s\n  {\"role\": \"%s\", \"content\": ", i ? "," : "",
                       cdz_role_name(turn->role));
        cdz_json_write_string(out, turn->text, strlen(turn->text));
        if (turn->reasoning) {
            cdz_buf_puts(out, ", \"reasoning_content\": ");
            cdz_json_write_string(out, turn->reasoning, strlen(turn->reasoning));
        }
        cdz_buf_putc(out, '}');
    }
    cdz_buf_puts(out, "\n]\n");
}

static bool role_named(const cdz_json *name, cdz_chat_role *out)
{
    for (int r = CDZ_ROLE_SYSTEM; r <= CDZ_ROLE_ASSISTANT; r++)
        if (cdz_json_is(name, CDZ_JSON_STRING) &&
            strcmp(name->string, cdz_role_name((cdz_chat_role)r)) == 0) {
            *out = (cdz_chat_role)r;
            return true;
        }
    return false;
}

static bool is_text(const cdz_json *v)
{
    return cdz_json_is(v, CDZ_JSON_STRING) && strlen(v->string) == v->len;
}

static cdz_status read_turn(cdz_turns *turns, const cdz_json *message, const char *path, uint32_t i,
                            cdz_error *err)
{
    const bool object = message->type == CDZ_JSON_OBJECT;
    const cdz_json *text = object ? cdz_json_get(message, "content") : NULL;
    const cdz_json *reasoning = object ? cdz_json_get(message, "reasoning_content") : NULL;
    cdz_chat_role role;
    if (!object || !role_named(cdz_json_get(message, "role"), &role))
        return cdz_err(err, CDZ_E_INPUT,
                       "%s: message %u: expected an object with \"role\": \"system\", \"user\" or "
                       "\"assistant\"",
                       path, i + 1);
    const bool reasons = reasoning && reasoning->type != CDZ_JSON_NULL;
    if (!is_text(text) || (reasons && !is_text(reasoning)))
        return cdz_err(err, CDZ_E_INPUT, "%s: message %u: expected \"%s\" to be a text", path,
                       i + 1, is_text(text) ? "reasoning_content" : "content");
    if (cdz_turns_add(turns, role, text->string) &&
        (!reasons || cdz_turns_reason(turns, reasoning->string)))
        return CDZ_OK;
    return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory for the conversation", path);
}

cdz_status cdz_turns_read(cdz_turns *turns, const char *path, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_json list;
    cdz_status status = cdz_json_read_file(path, 0, NULL, &arena, &list, err);
    if (status == CDZ_OK && list.type != CDZ_JSON_ARRAY)
        status = cdz_err(err, CDZ_E_INPUT, "%s: expected a list of messages, found %s", path,
                         cdz_json_type_name(&list));
    for (uint32_t i = 0; status == CDZ_OK && i < list.len; i++)
        status = read_turn(turns, &list.items[i], path, i, err);
    cdz_arena_free(&arena);
    return status;
}

/* --- as ids ------------------------------------------------------------------------------------------------- */

static cdz_json text_json(const char *text)
{
    return (cdz_json){.type = CDZ_JSON_STRING, .len = (uint32_t)strlen(text), .string = text};
}

static cdz_json_member member(const char *name, cdz_json v)
{
    return (cdz_json_member){.key = name, .key_len = (uint32_t)strlen(name), .value = v};
}

cdz_status cdz_turns_ids(cdz_chat_template *chat, const cdz_tokenizer *tok, const cdz_turns *turns,
                         int32_t **ids, uint32_t *n, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_json *messages = cdz_arena_array(&arena, turns->n + 1, sizeof *messages);
    cdz_json_member *members = cdz_arena_array(&arena, turns->n + 1, 3 * sizeof *members);
    cdz_status status = CDZ_OK;
    if (!messages || !members) status = cdz_err_memory(err, "the conversation");
    for (size_t i = 0; status == CDZ_OK && i < turns->n; i++) {
        const cdz_turn *turn = &turns->at[i];
        cdz_json_member *own = members + 3 * i;
        own[0] = member("role", text_json(cdz_role_name(turn->role)));
        own[1] = member("content", text_json(turn->text));
        if (turn->reasoning) own[2] = member("reasoning_content", text_json(turn->reasoning));
        messages[i] =
            (cdz_json){.type = CDZ_JSON_OBJECT, .len = turn->reasoning ? 3 : 2, .members = own};
    }
    const cdz_json list = {.type = CDZ_JSON_ARRAY, .len = (uint32_t)turns->n, .items = messages};
    const cdz_json yes = {.type = CDZ_JSON_BOOL, .boolean = true};
    const cdz_json_member all[] = {member("messages", list), member("add_generation_prompt", yes)};
    const cdz_json context = {.type = CDZ_JSON_OBJECT, .len = 2, .members = all};
    if (status == CDZ_OK) status = cdz_conversation_ids(chat, tok, &context, false, ids, n, err);
    cdz_arena_free(&arena);
    return status;
}
