/* prepare.c - a request resolved step by step, in transformers' order: configuration, input, special tokens, mask,
 * expansion, lengths, checks. */
#include "prepare/prepare.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "cadenza/criterion.h"
#include "detect/detect.h"
#include "load/model_files.h"

typedef struct preparation {
    const cdz_prepare_input *in;
    const cdz_arch *arch;
    cdz_prepared *out;
    cdz_job *job; /* out->job */
    cdz_prompt_rows rows;
    cdz_embeds embeds;
    cdz_error *err;
} preparation;

/* --- configuration ------------------------------------------------------------------------------------------ */

/* Vocabularies of one size are taken for the same tokens; of two sizes, both tokenizers must be there. */
static cdz_status check_assistant(preparation *p, const cdz_json *asked)
{
    const cdz_run_model *draft = p->in->assistant;
    const cdz_json *tokenizer = asked ? cdz_json_get(asked, "tokenizer") : NULL;
    if (asked && asked->type == CDZ_JSON_OBJECT && !draft)
        return cdz_err(p->err, CDZ_E_USAGE,
                       "request: \"assistant\" names a draft model, but none was opened for it");
    if (!draft) return CDZ_OK;
    const uint32_t n = cdz_weights_arch(cdz_run_model_weights(draft))->n_vocab;
    if (n == p->arch->n_vocab) {
        if (!tokenizer || tokenizer->type == CDZ_JSON_NULL) return CDZ_OK;
        return cdz_err(p->err, CDZ_E_USAGE,
                       "request: assistant.tokenizer is given, but model and assistant have the "
                       "same %u tokens; leave it out",
                       n);
    }
    if (cdz_run_model_tokenizer(p->in->model) && cdz_run_model_tokenizer(draft)) return CDZ_OK;
    return cdz_err(p->err, CDZ_E_USAGE,
                   "the assistant has %u tokens and the model %u: with different tokens both need "
                   "a tokenizer.json",
                   n, p->arch->n_vocab);
}

/* What answers, or drafts, has to say what comes next: a classifier says what it thinks of a text. */
static cdz_status check_speaks(const preparation *p, const cdz_run_model *model, const char *as)
{
    const cdz_weights *w = model ? cdz_run_model_weights(model) : NULL;
    if (!w || !w->values.alone) return CDZ_OK;
    return cdz_err(p->err, CDZ_E_UNSUPPORTED,
                   "%s: has a head for values (%s) and none for tokens, so it cannot be the %s; as a "
                   "further model (--with NAME=FOLDER) strategies ask for its values",
                   w->folder, w->values.name, as);
}

static cdz_status make_plan(preparation *p)
{
    const cdz_json *doc = p->in->document;
    const cdz_json *kwargs;
    const cdz_json *asked = doc ? cdz_json_get(doc, "assistant") : NULL;
    const cdz_plan_assistant assistant = {
        .generation = p->in->assistant_generation,
        .overrides = asked ? cdz_json_get(asked, "generation_config") : NULL};
    CDZ_TRY(check_speaks(p, p->in->model, "model"));
    CDZ_TRY(check_speaks(p, p->in->assistant, "assistant"));
    CDZ_TRY(check_assistant(p, asked));
    CDZ_TRY(cdz_request_kwargs(doc, &p->job->arena, &kwargs, p->err));
    const cdz_json *embeds = doc ? cdz_json_get(doc, "inputs_embeds") : NULL;
    const bool given = p->in->embeds.n > 0 || (embeds && embeds->type != CDZ_JSON_NULL);
    const cdz_plan_inputs inputs = {.model_generation = p->in->model_generation,
                                    .kwargs = kwargs,
                                    .assistant = p->in->assistant ? &assistant : NULL,
                                    .has_embeds = given && !p->arch->encoder};
    return cdz_pipeline_plan_of(p->in->pipeline, inputs, &p->job->plan, p->err);
}

/* The document's seed, else the parameter, else one from the system; reported with the result either way. */
static cdz_status choose_seed(preparation *p)
{
    const cdz_json *doc = p->in->document;
    const cdz_json *seed = doc ? cdz_json_get(doc, "seed") : NULL;
    const cdz_opt_int *param = &p->job->plan->generation.seed;
    if (seed)
        p->job->seed = (uint64_t)seed->integer;
    else if (param->set)
        p->job->seed = (uint64_t)param->value;
    else {
        uint32_t word; /* torch keeps the low 32 bits of a seed */
        if (getrandom(&word, sizeof word, 0) != sizeof word)
            return cdz_err(p->err, CDZ_E_IO, "the system gave no random seed; set one with seed=N");
        p->job->seed = word;
    }
    return CDZ_OK;
}

/* eos as a list; pad falls back to the first of them. */
static cdz_status special_tokens(preparation *p)
{
    const cdz_generation *g = &p->job->plan->generation;
    cdz_job *job = p->job;
    int32_t *eos = cdz_arena_array(&job->arena, g->eos_token_id.len, sizeof *eos);
    if (!eos) return cdz_err_memory(p->err, "the request");
    for (uint32_t i = 0; i < g->eos_token_id.len; i++) eos[i] = (int32_t)g->eos_token_id.at[i];
    job->eos = (cdz_ids){eos, g->eos_token_id.len};
    job->bos = g->bos_token_id.set ? (int32_t)g->bos_token_id.value : -1;
    job->pad = g->pad_token_id.set ? (int32_t)g->pad_token_id.value : job->eos.len ? eos[0] : -1;
    return CDZ_OK;
}

/* --- input ---------------------------------------------------------------------------------------------------- */

/* No prompt: one row that holds bos_token_id. */
static cdz_status start_from_bos(preparation *p)
{
    cdz_prompt_rows *rows = &p->rows;
    if (p->job->bos < 0)
        return cdz_err(
            p->err, CDZ_E_USAGE,
            "there is no prompt, and bos_token_id is not set to start from; give a prompt");
    rows->ids = cdz_arena_array(&p->job->arena, 1, sizeof *rows->ids);
    rows->lens = cdz_arena_array(&p->job->arena, 1, sizeof *rows->lens);
    int32_t *ids = cdz_arena_array(&p->job->arena, 1, sizeof *ids);
    if (!rows->ids || !rows->lens || !ids) return cdz_err_memory(p->err, "the request");
    ids[0] = p->job->bos;
    rows->ids[0] = ids;
    rows->lens[0] = 1;
    rows->n = 1;
    return CDZ_OK;
}

static cdz_status check_ids(preparation *p)
{
    for (uint32_t r = 0; r < p->rows.n; r++) {
        for (uint32_t i = 0; i < p->rows.lens[r]; i++) {
            int32_t id = p->rows.ids[r][i];
            if (id >= 0 && (uint32_t)id < p->arch->n_vocab) continue;
            return cdz_err(
                p->err, CDZ_E_USAGE,
                "prompt row %u holds token id %d at place %u; the vocabulary has ids 0 to %u", r,
                id, i, p->arch->n_vocab - 1);
        }
    }
    return CDZ_OK;
}

/* Inferred as transformers does: ids != pad, only if pad is set, occurs in the prompt and is no eos. */
static void infer_mask(const preparation *p, uint32_t row, uint8_t *mask)
{
    const cdz_job *job = p->job;
    bool pads = job->pad >= 0 && !cdz_ids_have(job->eos, job->pad);
    for (uint32_t i = 0; i < p->rows.lens[row]; i++)
        mask[i] = !(pads && p->rows.ids[row][i] == job->pad);
}

/* One row of prompt_len: padded on the left where it is shorter, which only a batch of texts or a ragged list is.
 * Embeddings are all visible unless ids stand beside each of them, whose pads then count. */
static cdz_status pad_row(preparation *p, uint32_t row)
{
    cdz_job *job = p->job;
    uint32_t len = p->rows.lens[row], missing = job->prompt_len - len;
    int32_t *ids = cdz_arena_array(&job->arena, job->prompt_len, sizeof *ids);
    uint8_t *mask = cdz_arena_array(&job->arena, cdz_job_slots(job), 1);
    if (!ids || !mask) return cdz_err_memory(p->err, "the request");
    for (uint32_t i = 0; i < missing; i++) ids[i] = job->pad < 0 ? 0 : job->pad;
    if (len) memcpy(ids + missing, p->rows.ids[row], len * sizeof *ids);
    if (job->n_embeds && job->n_embeds != job->prompt_len)
        memset(mask, 1, job->n_embeds);
    else if (p->rows.masks && p->rows.masks[row])
        memcpy(mask + missing, p->rows.masks[row], len);
    else
        infer_mask(p, row, mask + missing);
    job->rows[row] = (cdz_job_row){.ids = ids, .mask = mask};
    return CDZ_OK;
}

/* The last position must be visible: its logits choose the first token. Holes change what a window or a relative
 * distance means, so models that have those refuse them. */
static cdz_status check_mask(preparation *p, uint32_t row)
{
    const uint8_t *mask = p->job->rows[row].mask;
    uint32_t len = cdz_job_slots(p->job), first = 0;
    while (first < len && !mask[first]) first++;
    if (first == len || !mask[len - 1])
        return cdz_err(
            p->err, CDZ_E_USAGE,
            "prompt row %u ends in a masked position; pad decoder-only prompts on the left", row);
    for (uint32_t i = first; i < len; i++) {
        if (mask[i] || !p->arch->has_window) continue;
        return cdz_err(
            p->err, CDZ_E_UNSUPPORTED,
            "prompt row %u has a hole in its attention mask at place %u; %s models with a sliding "
            "window refuse that",
            row, i, p->arch->model_type);
    }
    uint32_t visible = 0;
    for (uint32_t i = first; i < len; i++) visible += mask[i];
    if (p->arch->context && visible > p->arch->context)
        return cdz_err(p->err, CDZ_E_USAGE, "the prompt has %u tokens; the model's context is %u",
                       visible, p->arch->context);
    return CDZ_OK;
}

/* Embeddings as prompt: they are what the model reads, whatever ids there are beside them for processors. */
static cdz_status take_embeds(preparation *p)
{
    cdz_job *job = p->job;
    const cdz_generation *g = &job->plan->generation;
    CDZ_TRY(cdz_embeds_read(p->in, &job->arena, &p->embeds, p->err));
    job->has_embeds = p->embeds.n > 0;
    /* The reference's prefill in chunks reads the ids beside embeddings in their place. */
    if (g->quirks && g->prefill_chunk_size.set && p->rows.n) p->embeds.n = 0;
    if (p->embeds.n == 0) return CDZ_OK;
    job->n_embeds = p->embeds.len;
    if (p->rows.n && p->rows.n != p->embeds.n)
        return cdz_err(p->err, CDZ_E_USAGE, "the prompt has %u rows, its embeddings have %u",
                       p->rows.n, p->embeds.n);
    if (p->rows.n) return CDZ_OK;
    p->rows.n = p->embeds.n;
    p->rows.ids = cdz_arena_array(&job->arena, p->rows.n, sizeof *p->rows.ids);
    p->rows.lens = cdz_arena_array(&job->arena, p->rows.n, sizeof *p->rows.lens);
    return p->rows.ids && p->rows.lens ? CDZ_OK : cdz_err_memory(p->err, "the request");
}

static cdz_status give_embeds(preparation *p)
{
    const cdz_json *doc = p->in->document, *mask = doc ? cdz_json_get(doc, "attention_mask") : NULL;
    const cdz_embeds *e = &p->embeds;
    uint8_t **masks;
    CDZ_TRY(cdz_mask_rows_read(mask, e->n, e->len, &p->job->arena, &masks, p->err));
    for (uint32_t r = 0; r < e->n; r++) {
        p->job->rows[r].embeds = e->data + (size_t)r * e->len * e->width;
        if (masks) p->job->rows[r].mask = masks[r];
    }
    return CDZ_OK;
}

static cdz_status refuse_decoder_rows(const preparation *p)
{
    static const char *const names[] = {"decoder_input_ids", "decoder_attention_mask"};
    const cdz_json *doc = p->in->document;
    const cdz_json *kwargs = doc ? cdz_json_get(doc, "kwargs") : NULL;
    for (size_t i = 0; kwargs && i < sizeof names / sizeof *names; i++) {
        const cdz_json *value = cdz_json_get(kwargs, names[i]);
        if (value && value->type != CDZ_JSON_NULL)
            return cdz_err(p->err, CDZ_E_USAGE, "request: %s: %s has no encoder; give prompt_ids",
                           names[i], p->arch->architecture);
    }
    return CDZ_OK;
}

/* Drafts are made of the same prompt, by a model of the same kind. */
static cdz_status check_encoders(const preparation *p)
{
    if (!p->in->assistant) return CDZ_OK;
    const cdz_arch *assistant = cdz_weights_arch(cdz_run_model_weights(p->in->assistant));
    if (!assistant->encoder && !p->arch->encoder) return CDZ_OK;
    if (assistant->encoder && p->arch->encoder) {
        if (assistant->n_vocab == p->arch->n_vocab) return CDZ_OK;
        return cdz_err(p->err, CDZ_E_UNSUPPORTED,
                       "the assistant has %u tokens, the model %u: with encoders, which read one "
                       "prompt, both must have the same",
                       assistant->n_vocab, p->arch->n_vocab);
    }
    return cdz_err(p->err, CDZ_E_UNSUPPORTED,
                   "the assistant is %s, the model %s: both or neither must have an encoder",
                   assistant->architecture, p->arch->architecture);
}

/* The prompt, ids or embeddings, is the encoder's. */
static cdz_status make_pair(preparation *p)
{
    CDZ_TRY(cdz_embeds_read(p->in, &p->job->arena, &p->embeds, p->err));
    if (p->rows.n && p->embeds.n)
        return cdz_err(p->err, CDZ_E_USAGE,
                       "the prompt is given as ids and as embeddings; the encoder of %s reads one "
                       "of them",
                       p->arch->architecture);
    if (p->embeds.n && p->in->assistant)
        return cdz_err(p->err, CDZ_E_UNSUPPORTED,
                       "a prompt of embeddings with an assistant, whose encoder reads tokens; give "
                       "token ids, or no assistant");
    if (p->job->plan->generation.token_healing.value)
        return cdz_err(p->err, CDZ_E_UNSUPPORTED,
                       "token_healing: %s has an encoder, whose prompt the answer does not continue",
                       p->arch->architecture);
    if (p->rows.n == 0 && p->embeds.n == 0) CDZ_TRY(start_from_bos(p));
    return cdz_prepare_pair_rows(p->in, p->arch, p->job, &p->rows, &p->embeds, p->err);
}

static cdz_status make_rows(preparation *p)
{
    cdz_job *job = p->job;
    if (p->in->rows)
        p->rows = *p->in->rows;
    else
        CDZ_TRY(cdz_prompt_rows_read(p->in, &job->arena, &p->rows, p->err));
    if (p->arch->encoder) return make_pair(p);
    CDZ_TRY(refuse_decoder_rows(p));
    CDZ_TRY(take_embeds(p));
    if (p->rows.n == 0) CDZ_TRY(start_from_bos(p));
    CDZ_TRY(check_ids(p));
    job->n_prompts = p->rows.n;
    for (uint32_t r = 0; r < p->rows.n; r++)
        if (p->rows.lens[r] > job->prompt_len) job->prompt_len = p->rows.lens[r];
    if (cdz_job_slots(job) == 0)
        return cdz_err(p->err, CDZ_E_USAGE, "the prompt is empty: it has no tokens to start from");
    job->rows = cdz_arena_array(&job->arena, job->n_prompts, sizeof *job->rows);
    if (!job->rows) return cdz_err_memory(p->err, "the request");
    for (uint32_t r = 0; r < job->n_prompts; r++) CDZ_TRY(pad_row(p, r));
    if (job->n_embeds) CDZ_TRY(give_embeds(p));
    for (uint32_t r = 0; r < job->n_prompts; r++) CDZ_TRY(check_mask(p, r));
    return CDZ_OK;
}

/* --- expansion, lengths, what to keep ---------------------------------------------------------------------------- */

static cdz_status expand(preparation *p)
{
    enum { MAX_ROWS = 65536 };
    const cdz_generation *g = &p->job->plan->generation;
    int64_t each = g->num_beams > g->num_return_sequences ? g->num_beams : g->num_return_sequences;
    if (each < 1) each = 1;
    if (each > MAX_ROWS / p->job->n_prompts)
        return cdz_err(p->err, CDZ_E_LIMIT, "%u prompts times %lld sequences are more than %d rows",
                       p->job->n_prompts, (long long)each, MAX_ROWS);
    p->job->n_rows = p->job->n_prompts * (uint32_t)each;
    return CDZ_OK;
}

/* --- the model's context */

static cdz_status count_visible(preparation *p)
{
    cdz_job *job = p->job;
    const uint32_t len = cdz_job_slots(job);
    job->visible = cdz_arena_array(&job->arena, job->n_prompts, sizeof *job->visible);
    if (!job->visible) return cdz_err_memory(p->err, "the request");
    for (uint32_t r = 0; r < job->n_prompts; r++) {
        const uint8_t *mask = p->arch->hidden_count ? NULL : job->rows[r].mask;
        job->visible[r] = mask ? 0 : len;
        for (uint32_t i = 0; mask && i < len; i++) job->visible[r] += mask[i];
    }
    return CDZ_OK;
}

/* Set by the user: the length that a model or a profile comes with is meant for any prompt. */
static bool length_was_chosen(const preparation *p)
{
    const cdz_plan *plan = p->job->plan;
    const char *name = plan->generation.max_new_tokens.set ? "max_new_tokens" : "max_length";
    return plan->origins[cdz_generation_slot(name)].source > CDZ_SOURCE_PROFILE;
}

/* Where rows end at the latest, and what is to be said before. Relative positions have no end; learned ones have it whatever
 * the settings say; with quirks there is none, as in the reference. */
static cdz_status mind_context(preparation *p, char *warning, size_t bytes)
{
    cdz_job *job = p->job;
    const cdz_generation *g = &job->plan->generation;
    const bool fixed = cdz_arch_has_positions(p->arch);
    const uint32_t n_new = job->max_length - job->prompt_len;
    uint32_t longest = 0;
    if (p->arch->buckets.n || p->arch->context == 0) return CDZ_OK;
    CDZ_TRY(count_visible(p));
    for (uint32_t r = 0; r < job->n_prompts; r++)
        if (job->visible[r] > longest) longest = job->visible[r];
    if (!g->quirks && (g->context || fixed)) job->context = p->arch->context;
    if ((uint64_t)longest + n_new <= p->arch->context) return CDZ_OK;
    if (g->strict_context)
        return cdz_err(p->err, CDZ_E_USAGE,
                       "a prompt of %u tokens and %u new ones are more than the model's context of "
                       "%u (strict_context)",
                       longest, n_new, p->arch->context);
    if (job->context && length_was_chosen(p))
        (void)snprintf(warning, bytes,
                       "a prompt of %u tokens and %u new ones are more than the model's context of "
                       "%u: there is room for %u%s",
                       longest, n_new, p->arch->context,
                       p->arch->context > longest ? p->arch->context - longest : 1,
                       fixed ? "" : " (context = false goes on)");
    return CDZ_OK;
}

/* What the user should hear: the plan's warnings, then those of the lengths and the context. */
static cdz_status gather_warnings(preparation *p, const cdz_lengths *lengths, const char *context)
{
    const cdz_plan *plan = p->job->plan;
    cdz_prepared *out = p->out;
    uint32_t n = plan->n_warnings + lengths->n_warnings + 1;
    out->warnings = cdz_arena_array(&p->job->arena, n, sizeof *out->warnings);
    if (!out->warnings) return cdz_err_memory(p->err, "the request");
    for (uint32_t i = 0; i < plan->n_warnings; i++)
        out->warnings[out->n_warnings++] = plan->warnings[i];
    for (uint32_t i = 0; i < lengths->n_warnings; i++) {
        const char *copy = cdz_arena_strdup(&p->job->arena, lengths->warnings[i]);
        if (!copy) return cdz_err_memory(p->err, "the request");
        out->warnings[out->n_warnings++] = copy;
    }
    if (!*context) return CDZ_OK;
    const char *copy = cdz_arena_strdup(&p->job->arena, context);
    out->warnings[out->n_warnings++] = copy;
    return copy ? CDZ_OK : cdz_err_memory(p->err, "the request");
}

static cdz_status resolve_lengths(preparation *p)
{
    cdz_lengths lengths = {0};
    const cdz_job *job = p->job;
    const uint32_t apart = job->n_embeds != job->prompt_len ? job->n_embeds : 0;
    CDZ_TRY(cdz_resolve_lengths(&job->plan->generation, job->prompt_len, p->arch->context, apart,
                                &lengths, p->err));
    if (lengths.max_length > UINT32_MAX / 2)
        return cdz_err(p->err, CDZ_E_USAGE, "max_length is %lld; at most %u is possible",
                       (long long)lengths.max_length, UINT32_MAX / 2);
    p->job->max_length = (uint32_t)lengths.max_length;
    p->job->min_length =
        lengths.min_length < lengths.max_length ? (uint32_t)lengths.min_length : p->job->max_length;
    char context[200] = "";
    CDZ_TRY(mind_context(p, context, sizeof context));
    return gather_warnings(p, &lengths, context);
}

static void choose_prefill(preparation *p)
{
    const cdz_opt_int *chunk = &p->job->plan->generation.prefill_chunk_size;
    if (chunk->set) p->job->prefill_chunk = chunk->value < UINT32_MAX ? (uint32_t)chunk->value : 0;
}

/* Columns of what is kept of a row's best, no more than it has. */
static uint32_t columns(const preparation *p, int64_t wanted)
{
    return wanted < p->arch->n_vocab ? (uint32_t)wanted : p->arch->n_vocab;
}

static void choose_records(preparation *p, const cdz_record_spec *record)
{
    const cdz_generation *g = &p->job->plan->generation;
    const bool bounded = g->output_scores_top.set;
    p->job->keep_press = record->press;
    p->job->keep_scores = record->present ? record->outputs : g->output_scores && !bounded;
    p->job->keep_logits = g->output_logits && (!record->present || record->outputs);
    p->job->keep_hidden = g->output_hidden_states;
    p->job->keep_attentions = g->output_attentions;
    p->job->keep_kv = g->output.kv;
    p->job->keep_logprobs = g->output.logprobs || g->output_scores || bounded || record->present;
    /* A recorded answer counts finite scores even when it keeps none of the best. */
    const int64_t top = record->present && record->top == 0 ? 1 : record->top;
    p->job->keep_top = columns(p, bounded && !record->present ? g->output_scores_top.value : top);
}

/* Where a detector lies: a folder as given, or beside the model's. */
static const char *detector_folder(const preparation *p, const char *name)
{
    const char *model = cdz_run_model_weights(p->in->model)->folder;
    const char *config = cdz_arena_printf(&p->job->arena, "%s/config.json", name);
    if (!config || name[0] == '/' || access(config, F_OK) == 0) return name;
    return cdz_arena_printf(&p->job->arena, "%s/../%s", model, name);
}

/* record.detect: its own watermarking_config, or the one that the text is marked with. */
static cdz_status order_detection(preparation *p, const cdz_record_spec *record)
{
    const cdz_json *detect = record->detect, *own = cdz_json_get(detect, "watermarking_config");
    const cdz_json *folder = cdz_json_get(detect, "model");
    const cdz_watermark *watermark = cdz_plan_watermark(p->job->plan);
    cdz_watermark read;
    double z_threshold = 3.0;
    if (own) {
        CDZ_TRY(cdz_watermark_read(own, &p->job->arena, &read, p->err));
        watermark = &read;
    }
    if (!watermark)
        return cdz_err(p->err, CDZ_E_USAGE,
                       "request: record \"detect\" needs a watermarking_config to look for");
    cdz_json_number(cdz_json_get(detect, "z_threshold"), &z_threshold);
    const char *detector =
        cdz_json_is(folder, CDZ_JSON_STRING) ? detector_folder(p, folder->string) : NULL;
    cdz_buf order = {0};
    cdz_detection_order(watermark, z_threshold, detector, p->in->model_generation, &order);
    if (!order.failed) p->out->detect = cdz_arena_strndup(&p->job->arena, order.data, order.len);
    cdz_buf_free(&order);
    return p->out->detect ? CDZ_OK : cdz_err_memory(p->err, "the request");
}

static cdz_status prepare(preparation *p, cdz_record_spec *record)
{
    const cdz_json *doc = p->in->document;
    CDZ_TRY(cdz_weights_check(cdz_run_model_weights(p->in->model),
                              p->err)); /* files cut or rewritten? */
    if (doc) CDZ_TRY(cdz_request_check(doc, p->err));
    CDZ_TRY(cdz_request_read_record(doc, record, p->err));
    CDZ_TRY(make_plan(p));
    CDZ_TRY(choose_seed(p));
    CDZ_TRY(special_tokens(p));
    CDZ_TRY(check_encoders(p));
    p->job->prompt_logprobs = doc && cdz_json_eq(cdz_json_get(doc, "mode"), "score");
    p->job->prompt_logits =
        p->job->prompt_logprobs || (doc && cdz_json_eq(cdz_json_get(doc, "mode"), "logits"));
    CDZ_TRY(make_rows(p));
    if (p->job->plan->generation.token_healing.value)
        CDZ_TRY(cdz_heal_rows(cdz_run_model_tokenizer(p->in->model), p->out, p->err));
    if (p->job->prompt_logits && p->job->n_embeds)
        return cdz_err(p->err, CDZ_E_UNSUPPORTED,
                       "request: mode \"%s\" takes ids, not \"inputs_embeds\"",
                       p->job->prompt_logprobs ? "score" : "logits");
    if (p->job->prompt_logits) {
        p->job->n_rows = p->job->n_prompts;
        p->job->max_length = p->job->prompt_len;
        const cdz_opt_int *top = &p->job->plan->generation.output_scores_top;
        if (p->job->prompt_logprobs && top->set) p->job->keep_top = columns(p, top->value);
        return CDZ_OK;
    }
    if (p->job->n_embeds && p->job->plan->drafter.plugin.base)
        return cdz_err(p->err, CDZ_E_UNSUPPORTED,
                       "a prompt of embeddings with drafter %s: drafters read tokens; give token "
                       "ids, or drafter = none",
                       p->job->plan->drafter.name);
    CDZ_TRY(cdz_prepare_constraint(p->job, p->err));
    CDZ_TRY(expand(p));
    CDZ_TRY(resolve_lengths(p));
    choose_prefill(p);
    choose_records(p, record);
    return record->detect ? order_detection(p, record) : CDZ_OK;
}

cdz_status cdz_prepare_job(const cdz_prepare_input *in, cdz_prepared *out, cdz_record_spec *record,
                           cdz_error *err)
{
    cdz_record_spec own = {0};
    cdz_job *job = cdz_job_new();
    *out = (cdz_prepared){.job = job};
    if (!job) return cdz_err_memory(err, "the request");
    job->model = in->model;
    job->assistant = in->assistant;
    job->deadline_s = in->timeout_s > 0 ? cdz_now_s() + in->timeout_s : in->deadline_s;
    cdz_kept_retain(in->past);
    job->past = in->past;
    job->keep_cache = in->keep_cache;
    preparation p = {.in = in,
                     .out = out,
                     .job = job,
                     .err = err,
                     .arch = cdz_weights_arch(cdz_run_model_weights(in->model))};
    cdz_status status = prepare(&p, record ? record : &own);
    if (record) record->detect = NULL; /* the document may go now */
    if (status == CDZ_OK) return CDZ_OK;
    cdz_job_free(job);
    *out = (cdz_prepared){0};
    return status;
}
