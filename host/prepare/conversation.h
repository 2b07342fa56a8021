/* conversation.h - messages to ids, through a chat template.
 *
 * The template's own special tokens count; those that messages, tools and documents spell out are ordinary text, so that
 * nothing a message says can end its turn or begin another, unless the caller trusts them. */
#ifndef CDZ_HOST_PREPARE_CONVERSATION_H
#define CDZ_HOST_PREPARE_CONVERSATION_H

#include <pthread.h>

#include "base/mutex.h"
#include "template/chat.h"
#include "token/tokenizer.h"

/* A model's chat template, read when first wanted. */
typedef struct cdz_chat_source {
    const char *folder;
    cdz_mutex lock;
    cdz_chat_template *chat; /* under the lock */
} cdz_chat_source;

/* The ids of context, an object as cdz_chat_template_render takes it; *ids is the caller's to free. The template must
 * have been chosen. */
cdz_status cdz_conversation_ids(cdz_chat_template *chat, const cdz_tokenizer *tok,
                                const cdz_json *context, bool trusted, int32_t **ids, uint32_t *n,
                                cdz_error *err);

/* The same for messages of a request document: its fields tools, documents, chat_template (a name),
 * chat_template_kwargs, special_in_messages. As in the reference's pipelines, an answer is begun unless the last message
 * is the assistant's, which is continued; chat_template_kwargs can say otherwise. [any] */
cdz_status cdz_conversation_of_request(cdz_chat_source *source, const cdz_tokenizer *tok,
                                       const cdz_json *document, const cdz_json *messages,
                                       int32_t **ids, uint32_t *n, cdz_error *err);

#endif
