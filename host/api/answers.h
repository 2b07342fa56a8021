/* answers.h - how a model's answers to conversations look: what its chat template's text tells of reasoning and calls, and
 * which of their markers are tokens that texts leave out. */
#ifndef CDZ_HOST_API_ANSWERS_H
#define CDZ_HOST_API_ANSWERS_H

#include "base/json.h"
#include "cadenza/cadenza.h"
#include "template/reply.h"

typedef struct cdz_answer_form {
    cdz_reply_form reply;
    bool marks_special; /* some marker is a special token: texts have it with CDZ_STREAM_SPECIAL alone */
} cdz_answer_form;

/* Once for all answers of a model. Without a tokenizer they are text. Fails when memory runs out. */
cdz_status cdz_model_answer_form(const cdz_model *model, cdz_answer_form *out, cdz_error *err);
/* Whether the answer to a prompt begins in the middle of reasoning. */
cdz_status cdz_model_answer_thinks(const cdz_model *model, const cdz_reply_form *form,
                                   const int32_t *ids, size_t n, bool *out, cdz_error *err);
/* Of an event's text with special tokens, the bytes before those at its end that mark nothing. SIZE_MAX: out of memory. */
size_t cdz_model_answer_shown(const cdz_model *model, const cdz_reply_form *form,
                              const cdz_event *event);
/* A generation parameter as the model's own files say it; NULL: they do not. */
const cdz_json *cdz_model_default(const cdz_model *model, const char *name);

#endif
