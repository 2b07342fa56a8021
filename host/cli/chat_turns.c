/* chat_turns.c - a conversation, and the ids its model's chat template makes of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/chat.h"

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

typedef struct id_list {
    int32_t *at;
    uint32_t n;
} id_list;

static cdz_status add_text(id_list *list, const cdz_tokenizer *tok, const char *text, size_t len,
                           unsigned flags, cdz_error *err)
{
    cdz_encoding encoding = {0};
    cdz_status status = cdz_tokenizer_encode(tok, NULL, text, len, flags, &encoding, err);
    if (status == CDZ_OK && encoding.n) {
        int32_t *grown = encoding.n < 1u << 24
                             ? realloc(list->at, (list->n + encoding.n) * sizeof *grown)
                             : NULL;
        if (grown) {
            memcpy(grown + list->n, encoding.ids, encoding.n * sizeof *grown);
            list->at = grown;
            list->n += (uint32_t)encoding.n;
        } else {
            status = cdz_err(err, CDZ_E_NOMEM, "out of memory for the conversation");
        }
    }
    cdz_encoding_free(&encoding);
    return status;
}

/* Each message is rendered as a sentinel, so that what it says can be told from the template's markup: a random word and
 * the message's number. Templates trim messages, so a message's outer spaces go with it where the sentinel was. */
enum { SENTINEL_BYTES = 40 };

typedef struct sentinels {
    uint64_t key;
    char (*at)[SENTINEL_BYTES]; /* one per turn */
} sentinels;

static cdz_status make_sentinels(const cdz_turns *turns, sentinels *out, cdz_error *err)
{
    if (getentropy(&out->key, sizeof out->key) != 0)
        return cdz_err(err, CDZ_E_IO, "the system gives no random bytes");
    out->at = calloc(turns->n + 1, sizeof *out->at);
    if (!out->at) return cdz_err(err, CDZ_E_NOMEM, "out of memory for the conversation");
    for (size_t i = 0; i < turns->n; i++)
        snprintf(out->at[i], SENTINEL_BYTES, "cdz%016llxm%08zxz", (unsigned long long)out->key, i);
    return CDZ_OK;
}

static cdz_json text_json(const char *text)
{
    return (cdz_json){.type = CDZ_JSON_STRING, .len = (uint32_t)strlen(text), .string = text};
}

static cdz_json_member member(const char *name, cdz_json v)
{
    return (cdz_json_member){.key = name, .key_len = (uint32_t)strlen(name), .value = v};
}

static cdz_status render_turns(cdz_chat_template *chat, const cdz_turns *turns,
                               const sentinels *marks, cdz_buf *out, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_json *messages = cdz_arena_array(&arena, turns->n + 1, sizeof *messages);
    cdz_json_member *members = cdz_arena_array(&arena, turns->n + 1, 2 * sizeof *members);
    cdz_status status = CDZ_OK;
    if (!messages || !members) status = cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (size_t i = 0; status == CDZ_OK && i < turns->n; i++) {
        cdz_json_member *two = members + 2 * i;
        two[0] = member("role", text_json(cdz_role_name(turns->at[i].role)));
        two[1] = member("content", text_json(marks->at[i]));
        messages[i] = (cdz_json){.type = CDZ_JSON_OBJECT, .len = 2, .members = two};
    }
    const cdz_json list = {.type = CDZ_JSON_ARRAY, .len = (uint32_t)turns->n, .items = messages};
    const cdz_json yes = {.type = CDZ_JSON_BOOL, .boolean = true};
    const cdz_json_member all[] = {member("messages", list), member("add_generation_prompt", yes)};
    const cdz_json context = {.type = CDZ_JSON_OBJECT, .len = 2, .members = all};
    if (status == CDZ_OK) status = cdz_chat_template_render(chat, &context, NULL, out, err);
    cdz_arena_free(&arena);
    return status;
}

/* The turn whose sentinel begins at text, or SIZE_MAX. */
static size_t sentinel_turn(const sentinels *marks, const cdz_turns *turns, const char *text)
{
    for (size_t i = 0; i < turns->n; i++)
        if (strncmp(text, marks->at[i], strlen(marks->at[i])) == 0) return i;
    return SIZE_MAX;
}

/* Markup with its special tokens, messages as plain text. */
static cdz_status encode_pieces(id_list *list, const cdz_tokenizer *tok, const cdz_turns *turns,
                                const sentinels *marks, const cdz_buf *text, cdz_error *err)
{
    char prefix[SENTINEL_BYTES];
    snprintf(prefix, sizeof prefix, "cdz%016llxm", (unsigned long long)marks->key);
    const char *at = text->len ? text->data : "";
    cdz_status status = CDZ_OK;
    while (status == CDZ_OK && *at) {
        const char *mark = strstr(at, prefix);
        status = add_text(list, tok, at, mark ? (size_t)(mark - at) : strlen(at), 0, err);
        if (!mark || status != CDZ_OK) break;
        const size_t turn = sentinel_turn(marks, turns, mark);
        if (turn == SIZE_MAX)
            return cdz_err(err, CDZ_E_INPUT,
                           "the chat template takes messages apart; use `cadenza run` instead");
        const char *said = turns->at[turn].text;
        status = add_text(list, tok, said, strlen(said), CDZ_ENCODE_PLAIN, err);
        at = mark + strlen(marks->at[turn]);
    }
    return status;
}

cdz_status cdz_chat_ids(cdz_chat_template *chat, const cdz_tokenizer *tok, const cdz_turns *turns,
                        int32_t **ids, uint32_t *n, cdz_error *err)
{
    id_list list = {0};
    sentinels marks = {0};
    cdz_buf text = {0};
    cdz_status status = make_sentinels(turns, &marks, err);
    if (status == CDZ_OK) status = render_turns(chat, turns, &marks, &text, err);
    if (status == CDZ_OK) status = encode_pieces(&list, tok, turns, &marks, &text, err);
    free(marks.at);
    cdz_buf_free(&text);
    if (status != CDZ_OK) {
        free(list.at);
        return status;
    }
    *ids = list.at;
    *n = list.n;
    return CDZ_OK;
}
