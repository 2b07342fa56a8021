/* prepare.h - standard input preparation: from a request document to a job the engine can run.
 *
 * A request document is a JSON object; a golden case is one. Fields:
 *   prompt            text, or a list of texts (a batch, padded on the left)
 *   prompt_ids        ids, or a list of rows of ids; null: start from bos_token_id
 *   messages          a conversation, or a list of them (a batch): their chat template's text; with tools, documents,
 *                     chat_template, chat_template_kwargs, special_in_messages
 *   inputs_embeds     embeddings as prompt, alone or for the ids: lists, or the name of a file beside the document
 *   attention_mask    rows of 0 and 1, as prompt_ids
 *                     (encoder-decoder models: all of these are the encoder's, padded on the right; the decoder's are
 *                     kwargs decoder_input_ids and decoder_attention_mask)
 *   kwargs            generation parameters and arguments of the strategy, by name; "section.name" of any plugin
 *   sections          the same by section of the pipeline: {"section": {"name": value}}
 *   seed              torch.manual_seed(seed) before the call
 *   record            what to keep: {"top": k, "transition": true, "press": true, "detect": {...}}; asks for an answer in recorded form
 *   mode              "logits": scores of every prompt position instead of generation; "score": its tokens' log-probabilities;
 *                     others are ignored
 *   calls             further calls that continue this one (the caller runs them: api/chain.c)
 *   pipeline          a pipeline file, or an object of its sections (the caller makes a pipeline of either)
 *   assistant         {"model": FOLDER, "generation_config": {...}, "tokenizer": FOLDER}: a draft model (the caller opens
 *                     it), values set on its generation config, and the word that its tokenizer is another one
 *   id, expect, ...   for the caller; listed in params/settings_table.c, anything else is refused by name
 * Order of events and rules: docs/design.md "A request"; reference: transformers 5.3.0 generation/utils.py. */
#ifndef CDZ_HOST_PREPARE_PREPARE_H
#define CDZ_HOST_PREPARE_PREPARE_H

#include "prepare/conversation.h"
#include "run/engine/engine.h"
#include "run/pass/encoded.h"

/* What the caller wants recorded, from "record". */
typedef struct cdz_record_spec {
    bool present; /* the document has "record": answer in recorded form */
    uint32_t top;
    bool transition, outputs, press;
    const cdz_json *detect; /* the document's, while it is there: an object, or NULL */
} cdz_record_spec;

/* A prompt given as embeddings. */
typedef struct cdz_embeds {
    float *data;            /* (n, len, width) */
    uint32_t n, len, width; /* n 0: none were given */
} cdz_embeds;

typedef struct cdz_prepare_input {
    cdz_run_model *model, *assistant; /* assistant may be NULL */
    cdz_pipeline *pipeline;
    cdz_chat_source *chat;            /* the model's; NULL: messages are refused */
    const cdz_json *model_generation; /* generation_config.json's object or its stand-in; may be NULL */
    const cdz_json *assistant_generation; /* the same of the assistant; may be NULL */
    const cdz_json *document;             /* a request document, or NULL */
    const char *prompt;                   /* used when the document has no prompt; may be NULL */
    const int32_t *ids;
    uint32_t n_ids;                     /* the same for ids */
    const struct cdz_prompt_rows *rows; /* read already, instead of the document's; or NULL */
    cdz_embeds embeds;                  /* the caller's own; n 0: the document's */
    const char *inputs_dir; /* folder of the files that a document may name; NULL: it may not */
    cdz_kept *past;  /* KV state that the prompt may continue; or NULL. The job holds it too */
    bool keep_cache; /* the outcome is to hold the KV state */
    double timeout_s, deadline_s; /* from now; monotonic. 0: none */
} cdz_prepare_input;

/* constraint.c: compiles what the job's plan asks of the answer. */
cdz_status cdz_prepare_constraint(cdz_job *job, cdz_error *err);

/* The last token of a prompt row is to be chosen anew (heal.c). */
typedef struct cdz_heal {
    uint32_t row;
    cdz_ids before;            /* what it follows */
    int32_t tail;              /* the token as it is */
    const int32_t *extensions; /* (n_extensions) tokens that begin with its text, itself among them */
    uint32_t n_extensions;
} cdz_heal;

/* What preparing a request gave: a job for the engine, and what the caller is to do and say beside it. All of it lies in
 * the job's arena: it goes with the job (cdz_job_free, or the engine once on_done returned). */
typedef struct cdz_prepared {
    cdz_job *job;
    cdz_heal *heals; /* (n_heals) to be run before the job, one after the other */
    uint32_t n_heals;
    bool healed;           /* token_healing was on */
    const char *detect;    /* an order to look for a watermark (detect/detect.h), or NULL */
    const char **warnings; /* (n_warnings) sentences for the user */
    uint32_t n_warnings;
} cdz_prepared;

/* Everything resolved and checked, nothing run. record may be NULL. */
cdz_status cdz_prepare_job(const cdz_prepare_input *in, cdz_prepared *out, cdz_record_spec *record,
                           cdz_error *err);

/* Refuses unknown fields and fields of the wrong type; name begins the sentences. */
cdz_status cdz_request_check(const cdz_json *document, cdz_error *err);
/* Of a checked document (may be NULL): kwargs with what "sections" says as "section.name" members, and below both what a "pipeline"
 * that is an object says of parameters; NULL: none is there. Memory is the document's and the arena's. */
cdz_status cdz_request_kwargs(const cdz_json *document, cdz_arena *arena, const cdz_json **out,
                              cdz_error *err);
/* An id or a name, as a document may have one, and no file's: letters, digits, '-', '_' and single dots. */
bool cdz_request_is_id(const char *text);
/* JSON Schema of a document (`cadenza plugin schema`). */
void cdz_request_schema(cdz_buf *out);
/* The draft model's folder that a document names, or NULL. The document has been checked. */
const char *cdz_request_assistant(const cdz_json *document);
cdz_status cdz_request_read_record(const cdz_json *document, cdz_record_spec *out, cdz_error *err);

/* The prompt rows of a document or input, before padding. Built by rows.c. */
typedef struct cdz_prompt_rows {
    int32_t **ids;   /* n rows */
    uint8_t **masks; /* n rows, or NULL: none was given */
    uint32_t *lens;
    uint32_t n;
} cdz_prompt_rows;

/* What rows of ids and their mask are called in sentences. */
typedef struct cdz_id_fields {
    const char *ids, *mask;
} cdz_id_fields;

/* Rows of ids from JSON: a list of them, or one row as a flat list. mask may be NULL. */
cdz_status cdz_id_rows_read(const cdz_json *ids, const cdz_json *mask, const cdz_id_fields *fields,
                            cdz_arena *arena, cdz_prompt_rows *out, cdz_error *err);

cdz_status cdz_prompt_rows_read(const cdz_prepare_input *in, cdz_arena *arena, cdz_prompt_rows *out,
                                cdz_error *err);

/* Token healing. The job's rows are tokenised anew, with what may take each last token's place in heals. */
cdz_status cdz_heal_rows(const cdz_tokenizer *tok, cdz_prepared *prepared, cdz_error *err);
/* The generation of one token that heal `heal` asks for; `in` without a document. */
cdz_status cdz_heal_prepare(const cdz_prepare_input *in, const cdz_prepared *healed, uint32_t heal,
                            cdz_prepared *out, cdz_error *err);
/* What it gave: `one` was its job. */
void cdz_heal_take(const cdz_prepared *healed, uint32_t heal, const cdz_job *one,
                   const cdz_outcome *outcome);

/* The embeddings of a document or input; n 0 when there are none. */
cdz_status cdz_embeds_read(const cdz_prepare_input *in, cdz_arena *arena, cdz_embeds *out,
                           cdz_error *err);

/* Rows of 0 and 1, n of them, each len long; *out NULL when mask is absent or null. */
cdz_status cdz_mask_rows_read(const cdz_json *mask, uint32_t n, uint32_t len, cdz_arena *arena,
                              uint8_t ***out, cdz_error *err);
/* The encoder's prompts, and the decoder's rows that start from them; pair.c. job: special tokens are there, and what
 * prompt_logits says. */
cdz_status cdz_prepare_pair_rows(const cdz_prepare_input *in, const cdz_arch *arch, cdz_job *job,
                                 const cdz_prompt_rows *prompts, const cdz_embeds *embeds,
                                 cdz_error *err);

#endif
