/* chat_turns.c - a conversation, and the ids its model's chat template makes of it. */
#include <stdlib.h>
#include <string.h>

#include "cli/chat.h"
#include "prepare/conversation.h"

bool cdz_turns_add(cdz_turns *turns, cdz_role role, const char *text)
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

void cdz_turns_cut(cdz_turns *turns, size_t n)
{
    while (turns->n > n) free(turns->at[--turns->n].text);
}

void cdz_turns_free(cdz_turns *turns)
{
    cdz_turns_cut(turns, 0);
    free(turns->at);
    *turns = (cdz_turns){0};
}

const char *cdz_role_name(cdz_role role)
{
    static const char *const names[] = {"system", "user", "assistant"};
    return names[role];
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

cdz_status cdz_chat_ids(cdz_chat_template *chat, const cdz_tokenizer *tok, const cdz_turns *turns,
                        int32_t **ids, uint32_t *n, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_json *messages = cdz_arena_array(&arena, turns->n + 1, sizeof *messages);
    cdz_json_member *members = cdz_arena_array(&arena, turns->n + 1, 2 * sizeof *members);
    cdz_status status = CDZ_OK;
    if (!messages || !members)
        status = cdz_err(err, CDZ_E_NOMEM, "out of memory for the conversation");
    for (size_t i = 0; status == CDZ_OK && i < turns->n; i++) {
        cdz_json_member *two = members + 2 * i;
        two[0] = member("role", text_json(cdz_role_name(turns->at[i].role)));
        two[1] = member("content", text_json(turns->at[i].text));
        messages[i] = (cdz_json){.type = CDZ_JSON_OBJECT, .len = 2, .members = two};
    }
    const cdz_json list = {.type = CDZ_JSON_ARRAY, .len = (uint32_t)turns->n, .items = messages};
    const cdz_json yes = {.type = CDZ_JSON_BOOL, .boolean = true};
    const cdz_json_member all[] = {member("messages", list), member("add_generation_prompt", yes)};
    const cdz_json context = {.type = CDZ_JSON_OBJECT, .len = 2, .members = all};
    if (status == CDZ_OK) status = cdz_conversation_ids(chat, tok, &context, false, ids, n, err);
    cdz_arena_free(&arena);
    return status;
}
