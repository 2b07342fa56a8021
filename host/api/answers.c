/* answers.c - what an answer may hold besides text, by its model. See answers.h. */
#include "api/answers.h"

#include <string.h>

#include "api/api.h"

enum { TAIL = 8 };

static bool has_tokenizer(const cdz_model *model)
{
    int32_t *ids = NULL;
    size_t n = 0;
    const cdz_status status = cdz_tokenize(model, "", 0, false, &ids, &n, NULL);
    cdz_free(ids);
    return status != CDZ_E_NOT_FOUND;
}

/* A marker may be one token, which texts leave out, or text as any other. */
static cdz_status learn_marker(const cdz_model *model, const char *marker, bool *special,
                               cdz_error *err)
{
    int32_t *ids = NULL;
    size_t n = 0, len = 0;
    void *bytes = NULL;
    cdz_status status = cdz_tokenize(model, marker, strlen(marker), false, &ids, &n, err);
    if (status == CDZ_OK && n == 1) {
        status = cdz_token_bytes(model, ids[0], &bytes, &len, err);
        *special |= status == CDZ_OK && !len;
    }
    cdz_free(bytes);
    cdz_free(ids);
    return status == CDZ_E_NOMEM ? status : CDZ_OK;
}

cdz_status cdz_model_answer_form(const cdz_model *model, cdz_answer_form *out, cdz_error *err)
{
    const char *marker;
    *out = (cdz_answer_form){0};
    if (!has_tokenizer(model)) return CDZ_OK;
    char *info = cdz_tokenizer_info_json(model);
    if (!info) return cdz_err_memory(err, "the model's chat template");
    out->reply = cdz_reply_form_of(info);
    cdz_free(info);
    for (uint32_t i = 0; (marker = cdz_reply_marker(&out->reply, i)) != NULL; i++)
        CDZ_TRY(learn_marker(model, marker, &out->marks_special, err));
    return CDZ_OK;
}

cdz_status cdz_model_answer_thinks(const cdz_model *model, const cdz_reply_form *form,
                                   const int32_t *ids, size_t n, bool *out, cdz_error *err)
{
    const size_t tail = n < TAIL ? n : TAIL;
    char *text = NULL;
    *out = false;
    if (!form->thinks) return CDZ_OK;
    CDZ_TRY(cdz_detokenize(model, ids + (n - tail), tail, false, &text, err));
    *out = cdz_reply_is_thinking(text, strlen(text));
    cdz_free(text);
    return CDZ_OK;
}

/* --- special tokens ---------------------------------------------------------------------------------------------- */

static bool is_marker(const cdz_reply_form *form, const char *text)
{
    const char *marker;
    for (uint32_t i = 0; (marker = cdz_reply_marker(form, i)) != NULL; i++)
        if (strcmp(marker, text) == 0) return true;
    return false;
}

/* Bytes that a special token, which marks nothing, has at the end of a text. False: out of memory. */
static bool special_end(const cdz_model *model, const cdz_reply_form *form, int32_t id,
                        const char *text, size_t len, size_t *n)
{
    char *own = NULL;
    void *bytes = NULL;
    size_t n_bytes = 0;
    const bool good = cdz_token_text(model, id, &own, n, NULL) == CDZ_OK &&
                      cdz_token_bytes(model, id, &bytes, &n_bytes, NULL) == CDZ_OK;
    if (!good || n_bytes || *n > len || memcmp(text + len - *n, own, *n) != 0 ||
        is_marker(form, own))
        *n = 0;
    cdz_free(bytes);
    cdz_free(own);
    return good;
}

size_t cdz_model_answer_shown(const cdz_model *model, const cdz_reply_form *form,
                              const cdz_event *event)
{
    size_t len = strlen(event->text);
    for (uint32_t i = event->n_ids; i-- > 0 && len;) {
        size_t n = 0;
        if (!special_end(model, form, event->ids[i], event->text, len, &n)) return SIZE_MAX;
        if (!n) break;
        len -= n;
    }
    return len;
}

const cdz_json *cdz_model_default(const cdz_model *model, const char *name)
{
    const cdz_json *value = cdz_json_get(&model->generation, name);
    return value && value->type != CDZ_JSON_NULL ? value : NULL;
}
