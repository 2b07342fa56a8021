/* rows.c - prompts as rows of ids: from text, from messages, from ids, or from nothing.
 *
 * Owns: how many rows a request may have and how long one may be. Not: which ids the model knows, padding and the masks that
 * nobody gave (prepare.c). Rows lie in the caller's arena; nothing of the document is pointed to. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "prepare/prepare.h"

enum { MAX_ROWS = 4096, MAX_ROW_LEN = 1 << 24 };

static cdz_status make_rows(cdz_arena *arena, uint32_t n, bool masks, cdz_prompt_rows *out,
                            cdz_error *err)
{
    out->n = n;
    out->ids = cdz_arena_array(arena, n, sizeof *out->ids);
    out->lens = cdz_arena_array(arena, n, sizeof *out->lens);
    out->masks = masks ? cdz_arena_array(arena, n, sizeof *out->masks) : NULL;
    return out->ids && out->lens && (!masks || out->masks) ? CDZ_OK
                                                           : cdz_err_memory(err, "the prompt");
}

static cdz_status need_tokenizer(const cdz_prepare_input *in, const cdz_tokenizer **out,
                                 cdz_error *err)
{
    *out = cdz_run_model_tokenizer(in->model);
    if (*out) return CDZ_OK;
    return cdz_err(err, CDZ_E_USAGE,
                   "the model has no tokenizer.json, so it cannot read text; give ids instead "
                   "(--ids, \"prompt_ids\")");
}

static cdz_status keep_row(const int32_t *ids, size_t n, cdz_arena *arena, cdz_prompt_rows *rows,
                           uint32_t row, cdz_error *err)
{
    if (n > MAX_ROW_LEN)
        return cdz_err(err, CDZ_E_LIMIT, "the prompt has %zu tokens; at most %d are accepted", n,
                       MAX_ROW_LEN);
    rows->ids[row] = cdz_arena_array(arena, n, sizeof *ids);
    if (!rows->ids[row]) return cdz_err_memory(err, "the prompt");
    if (n) memcpy(rows->ids[row], ids, n * sizeof *ids);
    rows->lens[row] = (uint32_t)n;
    return CDZ_OK;
}

static cdz_status encode_row(const cdz_prepare_input *in, const char *text, size_t len,
                             cdz_arena *arena, cdz_prompt_rows *rows, uint32_t row, cdz_error *err)
{
    const cdz_tokenizer *tok;
    CDZ_TRY(need_tokenizer(in, &tok, err));
    cdz_encoding encoding = {0};
    cdz_status status =
        cdz_tokenizer_encode(tok, NULL, text, len, CDZ_ENCODE_SPECIAL, &encoding, err);
    if (status == CDZ_OK) status = keep_row(encoding.ids, encoding.n, arena, rows, row, err);
    cdz_encoding_free(&encoding);
    return status;
}

static cdz_status rows_from_messages(const cdz_prepare_input *in, const cdz_json *messages,
                                     cdz_arena *arena, cdz_prompt_rows *out, cdz_error *err)
{
    const cdz_tokenizer *tok;
    CDZ_TRY(need_tokenizer(in, &tok, err));
    if (!in->chat) return cdz_err(err, CDZ_E_USAGE, "request: \"messages\" are not read here");
    const bool many = cdz_json_is(messages, CDZ_JSON_ARRAY) && messages->len &&
                      messages->items[0].type == CDZ_JSON_ARRAY;
    if (many && messages->len > MAX_ROWS)
        return cdz_err(err, CDZ_E_USAGE, "request: \"messages\" holds more than %d conversations",
                       MAX_ROWS);
    CDZ_TRY(make_rows(arena, many ? messages->len : 1, false, out, err));
    for (uint32_t r = 0; r < out->n; r++) {
        int32_t *ids;
        uint32_t n;
        CDZ_TRY(cdz_conversation_of_request(in->chat, tok, in->document,
                                            many ? &messages->items[r] : messages, &ids, &n, err));
        const cdz_status status = keep_row(ids, n, arena, out, r, err);
        free(ids);
        CDZ_TRY(status);
    }
    return CDZ_OK;
}

static cdz_status rows_from_texts(const cdz_prepare_input *in, const cdz_json *prompt,
                                  cdz_arena *arena, cdz_prompt_rows *out, cdz_error *err)
{
    bool one = prompt->type == CDZ_JSON_STRING;
    if (!one && (prompt->type != CDZ_JSON_ARRAY || prompt->len == 0 || prompt->len > MAX_ROWS))
        return cdz_err(err, CDZ_E_USAGE,
                       "request: \"prompt\" must be text or a list of 1 to %d texts", MAX_ROWS);
    CDZ_TRY(make_rows(arena, one ? 1 : prompt->len, false, out, err));
    for (uint32_t r = 0; r < out->n; r++) {
        const cdz_json *text = one ? prompt : &prompt->items[r];
        if (text->type != CDZ_JSON_STRING)
            return cdz_err(err, CDZ_E_USAGE, "request: \"prompt\" item %u must be text, found %s",
                           r, cdz_json_type_name(text));
        CDZ_TRY(encode_row(in, text->string, text->len, arena, out, r, err));
    }
    return CDZ_OK;
}

static cdz_status ids_row(const cdz_json *row, const char *name, cdz_arena *arena, int32_t **ids,
                          uint32_t *len, cdz_error *err)
{
    if (row->type != CDZ_JSON_ARRAY || row->len > MAX_ROW_LEN)
        return cdz_err(err, CDZ_E_USAGE, "request: a row of \"%s\" must be a list of ids, found %s",
                       name, cdz_json_type_name(row));
    *ids = cdz_arena_array(arena, row->len, sizeof **ids);
    if (!*ids) return cdz_err_memory(err, "the prompt");
    for (uint32_t i = 0; i < row->len; i++) {
        const cdz_json *id = &row->items[i];
        if (id->type != CDZ_JSON_INT || id->integer < 0 || id->integer > INT32_MAX)
            return cdz_err(
                err, CDZ_E_USAGE, "request: \"%s\" holds %s at place %u; expected token ids from 0",
                name, id->type == CDZ_JSON_INT ? "a number out of range" : cdz_json_type_name(id),
                i);
        (*ids)[i] = (int32_t)id->integer;
    }
    *len = row->len;
    return CDZ_OK;
}

static cdz_status mask_row(const cdz_json *row, const cdz_id_fields *fields, uint32_t len,
                           cdz_arena *arena, uint8_t **mask, cdz_error *err)
{
    if (row->type != CDZ_JSON_ARRAY || row->len != len)
        return cdz_err(err, CDZ_E_USAGE,
                       "request: a row of \"%s\" must be a list as long as its row of \"%s\" (%u)",
                       fields->mask, fields->ids, len);
    *mask = cdz_arena_array(arena, len, 1);
    if (!*mask) return cdz_err_memory(err, "the prompt");
    for (uint32_t i = 0; i < len; i++) {
        const cdz_json *bit = &row->items[i];
        if (bit->type != CDZ_JSON_INT || (bit->integer != 0 && bit->integer != 1))
            return cdz_err(err, CDZ_E_USAGE, "request: \"%s\" may hold only 0 and 1", fields->mask);
        (*mask)[i] = (uint8_t)bit->integer;
    }
    return CDZ_OK;
}

/* A flat list of ids is one row. */
static bool is_flat(const cdz_json *list)
{
    return list->len == 0 || list->items[0].type != CDZ_JSON_ARRAY;
}

cdz_status cdz_id_rows_read(const cdz_json *ids, const cdz_json *mask, const cdz_id_fields *fields,
                            cdz_arena *arena, cdz_prompt_rows *out, cdz_error *err)
{
    if (ids->type != CDZ_JSON_ARRAY || ids->len > (is_flat(ids) ? MAX_ROW_LEN : MAX_ROWS))
        return cdz_err(err, CDZ_E_USAGE,
                       "request: \"%s\" must be a list of ids or of at most %d rows", fields->ids,
                       MAX_ROWS);
    bool masked = mask && mask->type != CDZ_JSON_NULL, flat = is_flat(ids);
    if (masked &&
        (mask->type != CDZ_JSON_ARRAY || is_flat(mask) != flat || (!flat && mask->len != ids->len)))
        return cdz_err(err, CDZ_E_USAGE, "request: \"%s\" must have the shape of \"%s\"",
                       fields->mask, fields->ids);
    CDZ_TRY(make_rows(arena, flat ? 1 : ids->len, masked, out, err));
    for (uint32_t r = 0; r < out->n; r++) {
        CDZ_TRY(ids_row(flat ? ids : &ids->items[r], fields->ids, arena, &out->ids[r],
                        &out->lens[r], err));
        if (masked)
            CDZ_TRY(mask_row(flat ? mask : &mask->items[r], fields, out->lens[r], arena,
                             &out->masks[r], err));
    }
    return CDZ_OK;
}

cdz_status cdz_mask_rows_read(const cdz_json *mask, uint32_t n, uint32_t len, cdz_arena *arena,
                              uint8_t ***out, cdz_error *err)
{
    const cdz_id_fields fields = {"inputs_embeds", "attention_mask"};
    *out = NULL;
    if (!mask || mask->type == CDZ_JSON_NULL) return CDZ_OK;
    const bool flat = mask->type == CDZ_JSON_ARRAY && is_flat(mask);
    if (mask->type != CDZ_JSON_ARRAY || (flat ? 1 : mask->len) != n)
        return cdz_err(err, CDZ_E_USAGE, "request: \"attention_mask\" must have %u rows of %u", n,
                       len);
    *out = cdz_arena_array(arena, n, sizeof **out);
    if (!*out) return cdz_err_memory(err, "the prompt");
    for (uint32_t r = 0; r < n; r++)
        CDZ_TRY(mask_row(flat ? mask : &mask->items[r], &fields, len, arena, &(*out)[r], err));
    return CDZ_OK;
}

static cdz_status rows_from_input(const cdz_prepare_input *in, cdz_arena *arena,
                                  cdz_prompt_rows *out, cdz_error *err)
{
    CDZ_TRY(make_rows(arena, 1, false, out, err));
    if (in->prompt) return encode_row(in, in->prompt, strlen(in->prompt), arena, out, 0, err);
    if (!in->ids || in->n_ids == 0) {
        out->n = 0; /* no prompt: start from bos_token_id */
        return CDZ_OK;
    }
    out->ids[0] = cdz_arena_array(arena, in->n_ids, sizeof(int32_t));
    if (!out->ids[0]) return cdz_err_memory(err, "the prompt");
    memcpy(out->ids[0], in->ids, in->n_ids * sizeof(int32_t));
    out->lens[0] = in->n_ids;
    return CDZ_OK;
}

cdz_status cdz_prompt_rows_read(const cdz_prepare_input *in, cdz_arena *arena, cdz_prompt_rows *out,
                                cdz_error *err)
{
    *out = (cdz_prompt_rows){0};
    const cdz_json *doc = in->document;
    const cdz_json *prompt = doc ? cdz_json_get(doc, "prompt") : NULL;
    const cdz_json *ids = doc ? cdz_json_get(doc, "prompt_ids") : NULL;
    const cdz_json *messages = doc ? cdz_json_get(doc, "messages") : NULL;
    if ((prompt != NULL) + (ids != NULL) + (messages != NULL) > 1)
        return cdz_err(err, CDZ_E_USAGE, "request: \"%s\" and \"%s\" together; give one of them",
                       prompt ? "prompt" : "prompt_ids", messages ? "messages" : "prompt_ids");
    if (messages) return rows_from_messages(in, messages, arena, out, err);
    if (prompt) return rows_from_texts(in, prompt, arena, out, err);
    const cdz_id_fields fields = {"prompt_ids", "attention_mask"};
    if (ids && ids->type != CDZ_JSON_NULL)
        return cdz_id_rows_read(ids, cdz_json_get(doc, "attention_mask"), &fields, arena, out, err);
    if (ids) return CDZ_OK;
    return rows_from_input(in, arena, out, err);
}
