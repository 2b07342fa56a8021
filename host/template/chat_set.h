/* chat_set.h - what a set of chat templates holds. Inside template/ only. */
#ifndef CDZ_HOST_TEMPLATE_CHAT_SET_H
#define CDZ_HOST_TEMPLATE_CHAT_SET_H

#include "template/chat.h"

typedef struct chat_entry {
    const char *name; /* "default", "tool_use", ... */
    const char *file; /* for sentences */
    const char *text;
    size_t len;
} chat_entry;

typedef struct chat_token {
    const char *name, *text; /* "bos_token", "<s>" */
} chat_token;

struct cdz_chat_template {
    cdz_arena arena;
    const char *path;
    chat_entry *entries;
    uint32_t n_entries, cap;
    chat_token *tokens;
    uint32_t n_tokens;
    cdz_template *compiled;
};

#endif
