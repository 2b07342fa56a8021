/* pair.c - the inputs of an encoder-decoder model: the prompt goes to the encoder, the decoder starts from a token or
 * from the ids it is given (_prepare_decoder_input_ids_for_generation). */
#include <string.h>

#include "prepare/prepare.h"

typedef struct pair {
    const cdz_prepare_input *in;
    const cdz_arch *arch;
    cdz_job *job;
    cdz_error *err;
} pair;

static uint32_t longest(const cdz_prompt_rows *rows)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < rows->n; r++)
        if (rows->lens[r] > most) most = rows->lens[r];
    return most;
}

/* --- the encoder's side ------------------------------------------------------------------------------------- */

/* Shorter rows are padded on the right, hidden; a mask is never inferred from pad_token_id. */
static cdz_status make_source(const pair *p, const cdz_prompt_rows *rows, uint32_t r)
{
    cdz_job *job = p->job;
    const uint32_t len = rows->lens[r];
    int32_t *ids = cdz_arena_array(&job->arena, job->source_len, sizeof *ids);
    uint8_t *mask = cdz_arena_array(&job->arena, job->source_len, 1);
    if (!ids || !mask) return cdz_err_memory(p->err, "the request");
    if (len) memcpy(ids, rows->ids[r], len * sizeof *ids);
    for (uint32_t i = len; i < job->source_len; i++) ids[i] = job->pad < 0 ? 0 : job->pad;
    for (uint32_t i = 0; i < len; i++) mask[i] = rows->masks ? rows->masks[r][i] : 1;
    job->sources[r] = (cdz_job_row){.ids = ids, .mask = mask};
    return cdz_encoded_check(p->arch->encoder, ids, mask, job->source_len, r, p->err);
}

/* Embeddings are all equally long, and all visible unless the document has a mask. */
static cdz_status give_embeds(const pair *p, const cdz_embeds *e)
{
    const cdz_json *doc = p->in->document, *mask = doc ? cdz_json_get(doc, "attention_mask") : NULL;
    cdz_job *job = p->job;
    uint8_t **masks;
    job->n_prompts = e->n;
    job->source_len = e->len;
    if (e->len == 0)
        return cdz_err(p->err, CDZ_E_USAGE, "the prompt is empty: it has no embeddings to encode");
    job->sources = cdz_arena_array(&job->arena, e->n, sizeof *job->sources);
    if (!job->sources) return cdz_err_memory(p->err, "the request");
    CDZ_TRY(cdz_mask_rows_read(mask, e->n, e->len, &job->arena, &masks, p->err));
    for (uint32_t r = 0; r < e->n; r++) {
        job->sources[r] = (cdz_job_row){.embeds = e->data + (size_t)r * e->len * e->width,
                                        .mask = masks ? masks[r] : NULL};
        CDZ_TRY(cdz_encoded_check(p->arch->encoder, NULL, job->sources[r].mask, e->len, r, p->err));
    }
    return CDZ_OK;
}

static cdz_status make_sources(const pair *p, const cdz_prompt_rows *rows)
{
    cdz_job *job = p->job;
    job->n_prompts = rows->n;
    job->source_len = longest(rows);
    if (job->source_len == 0)
        return cdz_err(p->err, CDZ_E_USAGE, "the prompt is empty: it has no tokens to encode");
    job->sources = cdz_arena_array(&job->arena, rows->n, sizeof *job->sources);
    if (!job->sources) return cdz_err_memory(p->err, "the request");
    for (uint32_t r = 0; r < rows->n; r++) CDZ_TRY(make_source(p, rows, r));
    return CDZ_OK;
}

/* --- the decoder's side ------------------------------------------------------------------------------------- */

/* decoder_start_token_id, one for all rows or one each, else bos_token_id; -1: neither is set. */
static int32_t start_of(const pair *p, uint32_t row)
{
    const cdz_int_list *start = &p->job->plan->generation.decoder_start_token_id;
    if (start->len == 0) return p->job->bos;
    return (int32_t)start->at[start->len > 1 ? row : 0];
}

static cdz_status check_start(const pair *p)
{
    const cdz_int_list *start = &p->job->plan->generation.decoder_start_token_id;
    if (start->len > 1 && start->len != p->job->n_prompts)
        return cdz_err(p->err, CDZ_E_USAGE, "decoder_start_token_id has %u entries for %u prompts",
                       start->len, p->job->n_prompts);
    if (start_of(p, 0) >= 0) return CDZ_OK;
    return cdz_err(p->err, CDZ_E_USAGE,
                   "%s: neither decoder_start_token_id nor bos_token_id is set for the decoder to "
                   "start from",
                   p->arch->architecture);
}

static const cdz_json *argument(const pair *p, const char *name)
{
    const cdz_json *doc = p->in->document;
    const cdz_json *kwargs = doc ? cdz_json_get(doc, "kwargs") : NULL;
    const cdz_json *value = kwargs ? cdz_json_get(kwargs, name) : NULL;
    return value && value->type != CDZ_JSON_NULL ? value : NULL;
}

static cdz_status read_given(const pair *p, cdz_prompt_rows *rows)
{
    const cdz_id_fields fields = {"decoder_input_ids", "decoder_attention_mask"};
    const cdz_json *ids = argument(p, fields.ids), *mask = argument(p, fields.mask);
    if (!ids && mask)
        return cdz_err(p->err, CDZ_E_USAGE, "request: \"%s\" needs \"%s\"", fields.mask, fields.ids);
    if (!ids) return CDZ_OK;
    CDZ_TRY(cdz_id_rows_read(ids, mask, &fields, &p->job->arena, rows, p->err));
    if (rows->n != p->job->n_prompts)
        return cdz_err(p->err, CDZ_E_USAGE, "request: \"%s\" has %u rows for %u prompts",
                       fields.ids, rows->n, p->job->n_prompts);
    p->job->gives_decoder_mask = mask != NULL;
    for (uint32_t r = 0; r < rows->n; r++)
        if (rows->lens[r] != rows->lens[0] || rows->lens[r] == 0)
            return cdz_err(p->err, CDZ_E_USAGE,
                           "request: rows of \"%s\" must be equally long, and not empty",
                           fields.ids);
    return CDZ_OK;
}

/* The start token goes in front where no row begins with its own. Scores of given ids are those of the ids as given. */
static bool needs_start(const pair *p, const cdz_prompt_rows *given)
{
    if (given->n == 0) return true;
    if (p->job->prompt_logits && !p->job->prompt_logprobs) return false;
    for (uint32_t r = 0; r < given->n; r++)
        if (given->ids[r][0] == start_of(p, r)) return false;
    return true;
}

static cdz_status make_row(const pair *p, const cdz_prompt_rows *given, bool start, uint32_t r)
{
    cdz_job *job = p->job;
    const uint32_t n = given->n ? given->lens[r] : 0, front = start ? 1 : 0;
    int32_t *ids = cdz_arena_array(&job->arena, job->prompt_len, sizeof *ids);
    uint8_t *mask = cdz_arena_array(&job->arena, job->prompt_len, 1);
    if (!ids || !mask) return cdz_err_memory(p->err, "the request");
    if (start) ids[0] = start_of(p, r);
    if (n) memcpy(ids + front, given->ids[r], n * sizeof *ids);
    memset(mask, 1, job->prompt_len);
    if (n && given->masks) memcpy(mask + front, given->masks[r], n);
    job->rows[r] = (cdz_job_row){.ids = ids, .mask = mask};
    for (uint32_t i = 0; i < job->prompt_len; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= p->arch->n_vocab)
            return cdz_err(p->err, CDZ_E_USAGE,
                           "decoder row %u holds token id %d at place %u; the vocabulary has ids 0 "
                           "to %u",
                           r, ids[i], i, p->arch->n_vocab - 1);
    if (mask[job->prompt_len - 1]) return CDZ_OK;
    return cdz_err(p->err, CDZ_E_USAGE,
                   "decoder row %u ends in a masked position; its last token must be visible", r);
}

static cdz_status make_rows(const pair *p)
{
    cdz_job *job = p->job;
    cdz_prompt_rows given = {0};
    CDZ_TRY(read_given(p, &given));
    const bool logits = job->prompt_logits && !job->prompt_logprobs && given.n;
    if (!logits) CDZ_TRY(check_start(p));
    const bool start = needs_start(p, &given);
    job->prompt_len = (given.n ? given.lens[0] : 0) + (start ? 1 : 0);
    job->rows = cdz_arena_array(&job->arena, job->n_prompts, sizeof *job->rows);
    if (!job->rows) return cdz_err_memory(p->err, "the request");
    for (uint32_t r = 0; r < job->n_prompts; r++) CDZ_TRY(make_row(p, &given, start, r));
    return CDZ_OK;
}

cdz_status cdz_prepare_pair_rows(const cdz_prepare_input *in, const cdz_arch *arch, cdz_job *job,
                                 const cdz_prompt_rows *prompts, const cdz_embeds *embeds,
                                 cdz_error *err)
{
    const pair p = {.in = in, .arch = arch, .job = job, .err = err};
    CDZ_TRY(embeds->n ? give_embeds(&p, embeds) : make_sources(&p, prompts));
    return make_rows(&p);
}
