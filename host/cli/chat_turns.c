/* chat_turns.c - a conversation, and the marks that well-known families put round its turns. */
#include <stdlib.h>
#include <string.h>

#include "cli/chat.h"

struct cdz_chat_format {
    const char *name;
    const char *evidence; /* a piece of text that only such templates hold */
    const char *begin;    /* before everything */
    const char *open;     /* before a turn; %s is the role */
    const char *close;    /* after a turn */
};

static const cdz_chat_format formats[] = {
    {"role-tags", "'<|' + message['role'] + '|>'", "", "<|%s|>", "<|end|>"},
    {"chatml", "<|im_start|>", "", "<|im_start|>%s\n", "<|im_end|>\n"},
    {"llama3", "<|start_header_id|>", "<|begin_of_text|>",
     "<|start_header_id|>%s<|end_header_id|>\n\n", "<|eot_id|>"},
    {"zephyr", "<|user|>\n", "", "<|%s|>\n", "</s>\n"},
};

enum { N_FORMATS = sizeof formats / sizeof formats[0] };

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

const cdz_chat_format *cdz_chat_format_of(const cdz_tokenizer *tok)
{
    const char *jinja = cdz_tokenizer_get_config(tok)->chat_template;
    for (size_t i = 0; jinja && i < N_FORMATS; i++)
        if (strstr(jinja, formats[i].evidence)) return &formats[i];
    return NULL;
}

const cdz_chat_format *cdz_chat_format_named(const char *name)
{
    for (size_t i = 0; i < N_FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0) return &formats[i];
    return NULL;
}

const char *cdz_chat_format_name(const cdz_chat_format *format)
{
    return format->name;
}

void cdz_chat_format_names(cdz_buf *out)
{
    for (size_t i = 0; i < N_FORMATS; i++)
        cdz_buf_printf(out, "%s%s", i ? ", " : "", formats[i].name);
}

/* --- as ids ------------------------------------------------------------------------------------------------- */

typedef struct id_list {
    int32_t *at;
    uint32_t n;
} id_list;

static cdz_status add_text(id_list *list, const cdz_tokenizer *tok, const char *text,
                           unsigned flags, cdz_error *err)
{
    cdz_encoding encoding = {0};
    cdz_status status = cdz_tokenizer_encode(tok, NULL, text, strlen(text), flags, &encoding, err);
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

/* "%s" in a mark stands for the role. */
static cdz_status add_mark(id_list *list, const cdz_tokenizer *tok, const char *mark, cdz_role role,
                           cdz_error *err)
{
    cdz_buf text = {0};
    const char *hole = strstr(mark, "%s");
    size_t before = hole ? (size_t)(hole - mark) : strlen(mark);
    cdz_buf_add(&text, mark, before);
    if (hole) {
        cdz_buf_puts(&text, cdz_role_name(role));
        cdz_buf_puts(&text, hole + 2);
    }
    cdz_status status = text.failed
                            ? cdz_err(err, CDZ_E_NOMEM, "out of memory for the conversation")
                            : add_text(list, tok, text.data, 0, err);
    cdz_buf_free(&text);
    return status;
}

cdz_status cdz_chat_ids(const cdz_chat_format *format, const cdz_tokenizer *tok,
                        const cdz_turns *turns, int32_t **ids, uint32_t *n, cdz_error *err)
{
    id_list list = {0};
    cdz_status status = add_mark(&list, tok, format->begin, CDZ_ROLE_SYSTEM, err);
    for (size_t i = 0; status == CDZ_OK && i < turns->n; i++) {
        status = add_mark(&list, tok, format->open, turns->at[i].role, err);
        if (status == CDZ_OK)
            status = add_text(&list, tok, turns->at[i].text, CDZ_ENCODE_PLAIN, err);
        if (status == CDZ_OK) status = add_mark(&list, tok, format->close, turns->at[i].role, err);
    }
    if (status == CDZ_OK) status = add_mark(&list, tok, format->open, CDZ_ROLE_ASSISTANT, err);
    if (status != CDZ_OK) {
        free(list.at);
        return status;
    }
    *ids = list.at;
    *n = list.n;
    return CDZ_OK;
}
