/* heal.c - token healing: the prompt's last token may be the beginning of a longer one.
 *
 * As transformers' heal_tokens: prompts are decoded, stripped and tokenised again, a start token becomes pad; then each
 * row's last token is chosen anew by a generation of one token, with a bias on every token whose spelling begins with
 * the text of the last one. Here the rows are prepared; the caller runs those generations (api/requests.c). */
#include <string.h>

#include "prepare/prepare.h"

static const double EXTENSION_BIAS = 10.0,
                    TAIL_BIAS = 11.0; /* the token itself is favoured a little */

/* --- tokenising anew ------------------------------------------------------------------------------------------------ */

/* Bytes of the white space that text begins with, as str.strip() sees it; 0: none. */
static size_t space_at(const char *text, size_t len)
{
    static const char *const wide[] = {"\xc2\x85", "\u00a0", "\u1680", "\u2000", "\u2001",
                                       "\u2002",   "\u2003", "\u2004", "\u2005", "\u2006",
                                       "\u2007",   "\u2008", "\u2009", "\u200a", "\u2028",
                                       "\u2029",   "\u202f", "\u205f", "\u3000"};
    if (len && ((text[0] >= '\t' && text[0] <= '\r') || (text[0] >= 0x1c && text[0] <= ' ')))
        return 1;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        const size_t n = strlen(wide[i]);
        if (n <= len && memcmp(text, wide[i], n) == 0) return n;
    }
    return 0;
}

static void strip(const char **text, size_t *len)
{
    for (size_t n; (n = space_at(*text, *len)) > 0;) {
        *text += n;
        *len -= n;
    }
    for (size_t back = 1; back <= 3 && back <= *len;) {
        const char *at = *text + *len - back;
        if (space_at(at, back) == back) {
            *len -= back;
            back = 1;
        } else {
            back++;
        }
    }
}

static cdz_status retokenise(const cdz_tokenizer *tok, const cdz_job *job, uint32_t row,
                             cdz_encoding *out, cdz_error *err)
{
    cdz_buf text = {0};
    cdz_buf_add(&text, "", 0);
    cdz_status status = cdz_tokenizer_decode(tok, job->rows[row].ids, job->prompt_len,
                                             CDZ_DECODE_SKIP_SPECIAL, &text, err);
    if (status == CDZ_OK && text.failed) status = cdz_err_memory(err, "token healing");
    if (status == CDZ_OK) {
        const char *at = text.data;
        size_t len = text.len;
        strip(&at, &len);
        status = cdz_tokenizer_encode(tok, NULL, at, len, CDZ_ENCODE_SPECIAL, out, err);
    }
    cdz_buf_free(&text);
    return status;
}

/* Row `row` of `len` ids: padded on the left, start tokens become pads. The mask is the old one where the length is. */
static cdz_status place_row(const cdz_tokenizer_config *config, cdz_job *job, uint32_t row,
                            uint32_t len, const cdz_encoding *e, cdz_error *err)
{
    int32_t *ids = cdz_arena_array(&job->arena, len, sizeof *ids);
    uint8_t *mask = cdz_arena_array(&job->arena, len, 1);
    if (!ids || !mask) return cdz_err_memory(err, "token healing");
    const uint32_t missing = len - (uint32_t)e->n;
    for (uint32_t i = 0; i < len; i++) {
        ids[i] = i < missing ? config->pad_id : e->ids[i - missing];
        if (ids[i] == config->bos_id && config->pad_id >= 0) ids[i] = config->pad_id;
        if (ids[i] < 0) ids[i] = job->pad < 0 ? 0 : job->pad;
        mask[i] = i >= missing;
    }
    job->rows[row].ids = ids;
    if (len != job->prompt_len) job->rows[row].mask = mask;
    return CDZ_OK;
}

static cdz_status retokenise_all(const cdz_tokenizer *tok, cdz_job *job, cdz_error *err)
{
    cdz_encoding *all = cdz_arena_array(&job->arena, job->n_prompts, sizeof *all);
    size_t longest = 0;
    cdz_status status = all ? CDZ_OK : cdz_err_memory(err, "token healing");
    for (uint32_t r = 0; status == CDZ_OK && r < job->n_prompts; r++) {
        status = retokenise(tok, job, r, &all[r], err);
        if (all[r].n > longest) longest = all[r].n;
    }
    if (status == CDZ_OK && (longest == 0 || longest > UINT32_MAX / 2))
        status = cdz_err(err, CDZ_E_USAGE, "token_healing: the prompt has no text to heal");
    for (uint32_t r = 0; status == CDZ_OK && r < job->n_prompts; r++)
        status = place_row(cdz_tokenizer_get_config(tok), job, r, (uint32_t)longest, &all[r], err);
    for (uint32_t r = 0; all && r < job->n_prompts; r++) cdz_encoding_free(&all[r]);
    if (status == CDZ_OK) job->prompt_len = (uint32_t)longest;
    return status;
}

/* --- what may take the last token's place ----------------------------------------------------------------------------- */

/* The text of the last token, spaces as the vocabulary begins what it has for " " (<unk> too, as in the reference). */
static bool tail_text(const cdz_tokenizer *tok, int32_t id, cdz_buf *out)
{
    cdz_buf plain = {0};
    cdz_buf_add(&plain, "", 0);
    bool good = cdz_tokenizer_decode(tok, &id, 1, 0, &plain, NULL) == CDZ_OK && !plain.failed;
    int32_t space = cdz_tokenizer_id(tok, " ", 1);
    if (space < 0) space = cdz_tokenizer_get_config(tok)->unk_id;
    size_t len = 0, first = 1;
    const char *spelt = space < 0 ? NULL : cdz_tokenizer_token(tok, space, &len);
    while (spelt && first < len && ((unsigned char)spelt[first] & 0xc0) == 0x80) first++;
    for (size_t i = 0; good && i < plain.len; i++) {
        if (plain.data[i] == ' ' && spelt && len)
            cdz_buf_add(out, spelt, first);
        else
            cdz_buf_putc(out, plain.data[i]);
    }
    cdz_buf_free(&plain);
    return good && !out->failed && out->len;
}

/* Tokens that begin with the last one's text; the list holds that token itself or is left empty. */
static cdz_status find_extensions(const cdz_tokenizer *tok, int32_t tail, cdz_job *job,
                                  cdz_heal *heal, cdz_error *err)
{
    cdz_buf text = {0};
    const uint32_t n_ids = cdz_tokenizer_n_ids(tok);
    int32_t *found = cdz_arena_array(&job->arena, n_ids, sizeof *found);
    if (!found) return cdz_err_memory(err, "token healing");
    uint32_t n = 0;
    bool itself = false;
    if (tail_text(tok, tail, &text))
        for (uint32_t id = 0; id < n_ids; id++) {
            size_t len;
            const char *spelt = cdz_tokenizer_token(tok, (int32_t)id, &len);
            if (!spelt || len < text.len || memcmp(spelt, text.data, text.len) != 0) continue;
            found[n++] = (int32_t)id;
            itself |= (int32_t)id == tail;
        }
    cdz_buf_free(&text);
    heal->tail = tail;
    heal->extensions = found;
    heal->n_extensions = itself && n > 1 ? n : 0;
    return CDZ_OK;
}

static uint32_t count_text(const cdz_job *job, uint32_t row, int32_t pad)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < job->prompt_len; i++) n += job->rows[row].ids[i] != pad;
    return n;
}

static cdz_status heal_row(const cdz_tokenizer *tok, cdz_prepared *p, uint32_t row, cdz_error *err)
{
    cdz_job *job = p->job;
    const cdz_tokenizer_config *config = cdz_tokenizer_get_config(tok);
    const int32_t *ids = job->rows[row].ids;
    const uint32_t n_text = count_text(job, row, config->pad_id), last = job->prompt_len - 1;
    cdz_heal heal = {.row = row};
    if (n_text == 0 || last == 0) return CDZ_OK;
    CDZ_TRY(find_extensions(tok, ids[last], job, &heal, err));
    if (heal.n_extensions == 0) return CDZ_OK;
    int32_t *before = cdz_arena_array(&job->arena, last, sizeof *before);
    if (!before) return cdz_err_memory(err, "token healing");
    memcpy(before, ids, last * sizeof *before);
    if (n_text == 1 && config->bos_id >= 0) before[last - 1] = config->bos_id;
    heal.before = (cdz_ids){before, last};
    p->heals[p->n_heals++] = heal;
    return CDZ_OK;
}

cdz_status cdz_heal_rows(const cdz_tokenizer *tok, cdz_prepared *prepared, cdz_error *err)
{
    cdz_job *job = prepared->job;
    if (!tok)
        return cdz_err(err, CDZ_E_USAGE,
                       "token_healing needs a tokenizer, and the model has no tokenizer.json");
    if (job->n_embeds)
        return cdz_err(err, CDZ_E_UNSUPPORTED, "token_healing cannot heal a prompt of embeddings");
    CDZ_TRY(retokenise_all(tok, job, err));
    prepared->heals = cdz_arena_array(&job->arena, job->n_prompts, sizeof *prepared->heals);
    if (!prepared->heals) return cdz_err_memory(err, "token healing");
    for (uint32_t r = 0; r < job->n_prompts; r++) CDZ_TRY(heal_row(tok, prepared, r, err));
    prepared->healed = true;
    return CDZ_OK;
}

/* --- the generation of one token --------------------------------------------------------------------------------------- */

static void write_document(const cdz_job *job, const cdz_heal *heal, int32_t pad, cdz_buf *out)
{
    cdz_buf_puts(out, "{\"prompt_ids\": [");
    for (uint32_t i = 0; i < heal->before.len; i++)
        cdz_buf_printf(out, "%s%d", i ? ", " : "", heal->before.at[i]);
    cdz_buf_printf(out, "], \"seed\": %llu, \"kwargs\": {\"max_new_tokens\": 1, ",
                   (unsigned long long)(job->seed & INT64_MAX));
    if (pad >= 0) cdz_buf_printf(out, "\"pad_token_id\": %d, ", pad);
    cdz_buf_puts(out, "\"sequence_bias\": [");
    for (uint32_t i = 0; i < heal->n_extensions; i++)
        cdz_buf_printf(out, "%s[[%d], %.1f]", i ? ", " : "", heal->extensions[i],
                       heal->extensions[i] == heal->tail ? TAIL_BIAS : EXTENSION_BIAS);
    cdz_buf_puts(out, "]}}");
}

cdz_status cdz_heal_prepare(const cdz_prepare_input *in, const cdz_prepared *healed, uint32_t heal,
                            cdz_prepared *out, cdz_error *err)
{
    const cdz_job *job = healed->job;
    cdz_buf text = {0};
    cdz_arena arena = {0};
    cdz_json document;
    const cdz_tokenizer *tok = cdz_run_model_tokenizer(in->model);
    write_document(job, &healed->heals[heal], cdz_tokenizer_get_config(tok)->pad_id, &text);
    cdz_status status = text.failed ? cdz_err_memory(err, "token healing") : CDZ_OK;
    if (status == CDZ_OK)
        status = cdz_json_parse(text.data, text.len, "token_healing", NULL, &arena, &document, err);
    cdz_prepare_input one = *in;
    one.document = &document;
    if (status == CDZ_OK) status = cdz_prepare_job(&one, out, NULL, err);
    if (status == CDZ_OK) out->job->draws_before = job->draws_before;
    cdz_arena_free(&arena);
    cdz_buf_free(&text);
    return status == CDZ_OK ? CDZ_OK : cdz_err_prefix(err, "token_healing");
}

void cdz_heal_take(const cdz_prepared *healed, uint32_t heal, const cdz_job *one,
                   const cdz_outcome *outcome)
{
    cdz_job *job = healed->job;
    const cdz_outcome_row *row = &outcome->rows[0];
    int32_t *ids =
        (int32_t *)(uintptr_t)job->rows[healed->heals[heal].row].ids; /* place_row's own */
    if (row->len == job->prompt_len) ids[job->prompt_len - 1] = row->ids[row->len - 1];
    if (one->plan->generation.do_sample) job->draws_before += (uint64_t)2 * outcome->n_vocab;
}
