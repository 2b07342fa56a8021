/* model.c - what a runnable model holds beside its weights.
 *
 * Owns: weights and tokenizer, till the last holder lets go, and the texts of tokens, made when the first is asked for. Not:
 * its place on a device and its pools, which are the engine's (run/engine/engine.c). Thread: [any], but for destroying. */
#include "run/pass/model.h"

#include <stdlib.h>

static void free_texts(cdz_token_texts *texts)
{
    if (!texts) return;
    cdz_buf_free(&texts->bytes);
    free(texts->at);
    free(texts);
}

void cdz_run_model_destroy(cdz_run_model *model)
{
    free_texts(model->texts);
    cdz_grammar_store_free(model->grammars);
    cdz_mutex_destroy(&model->texts_lock);
    cdz_steering_release(model->control);
    cdz_tokenizer_free(model->tokenizer);
    cdz_weights_close(model->weights);
    free(model);
}

/* All texts side by side, each followed by a NUL. Addresses are known once the buffer has stopped growing. */
static cdz_token_texts *make_texts(const cdz_tokenizer *tok)
{
    cdz_token_texts *texts = calloc(1, sizeof *texts);
    if (!texts) return NULL;
    texts->n = cdz_tokenizer_n_ids(tok);
    texts->at = calloc(texts->n ? texts->n : 1, sizeof *texts->at);
    size_t *starts = calloc(texts->n ? texts->n : 1, sizeof *starts);
    bool *known = calloc(texts->n ? texts->n : 1, sizeof *known);
    const bool room = texts->at && starts && known;
    for (uint32_t i = 0; room && i < texts->n; i++) {
        starts[i] = texts->bytes.len;
        known[i] = cdz_tokenizer_text_alone(tok, (int32_t)i, &texts->bytes);
        texts->at[i].len = (uint32_t)(texts->bytes.len - starts[i]);
        cdz_buf_putc(&texts->bytes, '\0');
    }
    const bool good = room && !texts->bytes.failed;
    for (uint32_t i = 0; good && i < texts->n; i++)
        if (known[i]) texts->at[i].at = texts->bytes.data + starts[i];
    free(starts);
    free(known);
    if (good) return texts;
    free_texts(texts);
    return NULL;
}

cdz_string cdz_run_model_token_text(cdz_run_model *model, int32_t id)
{
    if (!model->tokenizer || id < 0) return (cdz_string){NULL, 0};
    cdz_mutex_lock(&model->texts_lock);
    if (!model->texts) model->texts = make_texts(model->tokenizer);
    const cdz_token_texts *texts = model->texts; /* never changed once made */
    cdz_mutex_unlock(&model->texts_lock);
    return texts && (uint32_t)id < texts->n ? texts->at[id] : (cdz_string){NULL, 0};
}

bool cdz_run_model_shares_prompts(const cdz_run_model *model)
{
    const cdz_arch *arch = &model->weights->arch;
    return !model->function.forward && !arch->encoder &&
           (arch->rope_limit == 0 || arch->long_inv_freq) && model->state_bytes == 0;
}

cdz_grammar_store *cdz_run_model_grammars(cdz_run_model *model)
{
    cdz_mutex_lock(&model->texts_lock);
    if (!model->grammars)
        model->grammars = cdz_grammar_store_new(model->tokenizer, &model->grammar_options);
    cdz_grammar_store *store = model->grammars;
    cdz_mutex_unlock(&model->texts_lock);
    return store;
}

void cdz_run_model_retain(cdz_run_model *model)
{
    atomic_fetch_add(&model->holders, 1);
}

const cdz_weights *cdz_run_model_weights(const cdz_run_model *model)
{
    return model->weights;
}

uint64_t cdz_run_model_screen_bytes(const cdz_run_model *model)
{
    return atomic_load(&model->screening.bytes);
}

cdz_dtype cdz_run_model_kv_type(const cdz_run_model *model)
{
    return model->shape.type;
}

const cdz_tokenizer *cdz_run_model_tokenizer(const cdz_run_model *model)
{
    return model->tokenizer;
}
