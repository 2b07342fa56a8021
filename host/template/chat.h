/* chat.h - chat templates as models ship them: which one is used, and what it is given. */
#ifndef CDZ_HOST_TEMPLATE_CHAT_H
#define CDZ_HOST_TEMPLATE_CHAT_H

#include "template/template.h"

typedef struct cdz_chat_template cdz_chat_template;

/* Reads the templates of a model folder, by the reference's rules: chat_template.jinja is "default" and each
 * additional_chat_templates/NAME.jinja is NAME; without any of them "chat_template" of
 * tokenizer_config.json, a string or a list of named ones; without that chat_template.json. Special tokens come
 * from tokenizer_config.json. A GGUF file has templates and tokens inside; any other file is one template, without tokens. Nothing is compiled yet.
 * CDZ_E_INPUT when there is no template at all. */
cdz_status cdz_chat_template_open(const char *path, cdz_chat_template **out, cdz_error *err);

/* A set of one from text that is already in memory, without tokens. */
cdz_status cdz_chat_template_parse(const char *text, size_t len, const char *name,
                                   cdz_chat_template **out, cdz_error *err);
void cdz_chat_template_free(cdz_chat_template *chat); /* NULL is fine */

/* The text of template i and its name; NULL past the last one. */
const char *cdz_chat_template_text(const cdz_chat_template *chat, uint32_t i, const char **name,
                                   size_t *len);

/* Compiles the template a request means: name, else "tool_use" where has_tools and there is one, else the only
 * one, else "default". Call it again for another choice; not while another thread renders. */
cdz_status cdz_chat_template_choose(cdz_chat_template *chat, const char *name, bool has_tools,
                                    cdz_error *err);

/* Renders with the context's members. Where it has "messages" it is a conversation: special tokens,
 * "tools", "documents" (null) and "add_generation_prompt" (false) are there unless the context sets them,
 * and "continue_final_message" is obeyed. "clock" in the context freezes strftime_now unless options do.
 * Chooses by itself when nothing was chosen. */
cdz_status cdz_chat_template_render(cdz_chat_template *chat, const cdz_json *context,
                                    cdz_template_options *options, cdz_buf *out, cdz_error *err);

#endif
