/* gguf_hybrid.c - what GGUF's metadata and tensors say of recurrent layers and of rows of several streams, in the words of
 * config.json. Which layers are recurrent is told by their tensors; sizes of states have keys. */
#include <stdio.h>
#include <string.h>

#include "load/gguf_put.h"

static bool layer_has(const cdz_gguf *g, uint64_t layer, const char *rest)
{
    char name[96];
    snprintf(name, sizeof name, "blk.%llu.%s", (unsigned long long)layer, rest);
    return cdz_tensors_find(&g->tensors, name) != NULL;
}

bool cdz_gguf_some_layer_has(const cdz_gguf *g, const char *rest)
{
    for (size_t i = 0; i < g->tensors.n_items; i++) {
        const char *name = g->tensors.items[i].name;
        const char *at = strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') : NULL;
        if (at && strcmp(at + 1, rest) == 0) return true;
    }
    return false;
}

/* --- which layers -------------------------------------------------------------------------- */

static const char *kind_of(const cdz_gguf_writer *w, uint64_t layer)
{
    const cdz_recurrent_rules *r = w->family->recurrent;
    if (layer_has(w->g, layer, "attn_q.weight")) return r->attention_word;
    if (!r->alone) return r->word;
    if (layer_has(w->g, layer, "ffn_gate_inp.weight")) return r->feed_word;
    return layer_has(w->g, layer, "ffn_up.weight") ? r->plain_word : r->word;
}

static cdz_status write_types(cdz_gguf_writer *w)
{
    enum { MOST_LAYERS = 10000 };
    const cdz_recurrent_rules *r = w->family->recurrent;
    uint64_t n = 0, foretelling = 0;
    if (!r->types) return CDZ_OK;
    CDZ_TRY(cdz_gguf_get_uint(w, "block_count", &n));
    CDZ_TRY(cdz_gguf_get_uint(w, "nextn_predict_layers", &foretelling));
    n -= foretelling;
    if (n == 0 || n > MOST_LAYERS)
        return cdz_err(w->err, CDZ_E_INPUT, "%s: %s.block_count is %llu, expected 1 to %d",
                       w->g->path, w->arch->name, (unsigned long long)n, MOST_LAYERS);
    cdz_gguf_put_key(w, r->types);
    for (uint64_t i = 0; i < n; i++)
        cdz_buf_printf(w->out, "%s\"%s\"", i ? "," : "[", kind_of(w, i));
    cdz_buf_putc(w->out, ']');
    return CDZ_OK;
}

/* --- sizes of states ----------------------------------------------------------------------- */

/* So many of `by` make up `n`. */
static cdz_status share(const cdz_gguf_writer *w, const char *key, uint64_t n, const char *by_key,
                        uint64_t by, uint64_t *out)
{
    if (by == 0 || n == 0 || n % by)
        return cdz_err(w->err, CDZ_E_INPUT, "%s: %s.%s %llu is no multiple of %s.%s %llu",
                       w->g->path, w->arch->name, key, (unsigned long long)n, w->arch->name, by_key,
                       (unsigned long long)by);
    *out = n / by;
    return CDZ_OK;
}

static cdz_status write_states(cdz_gguf_writer *w)
{
    const cdz_recurrent_rules *r = w->family->recurrent;
    uint64_t inner = 0, heads = 0, width = 0, columns, expand;
    CDZ_TRY(cdz_gguf_copy_uint(w, r->taps.key, "ssm.conv_kernel", true));
    CDZ_TRY(cdz_gguf_copy_uint(w, r->heads.key, "ssm.time_step_rank", true));
    CDZ_TRY(cdz_gguf_copy_uint(w, r->groups.key, "ssm.group_count", true));
    CDZ_TRY(cdz_gguf_copy_uint(w, r->rows.key, "ssm.state_size", true));
    CDZ_TRY(cdz_gguf_get_uint(w, "ssm.inner_size", &inner));
    CDZ_TRY(cdz_gguf_get_uint(w, "ssm.time_step_rank", &heads));
    CDZ_TRY(cdz_gguf_get_uint(w, "embedding_length", &width));
    CDZ_TRY(share(w, "ssm.inner_size", inner, "ssm.time_step_rank", heads, &columns));
    cdz_gguf_put_uint(w, r->columns.key, columns);
    if (r->inner) cdz_gguf_put_uint(w, r->inner, inner);
    if (r->inner || !r->expand) return CDZ_OK;
    CDZ_TRY(share(w, "ssm.inner_size", inner, "embedding_length", width, &expand));
    cdz_gguf_put_uint(w, r->expand, expand);
    return CDZ_OK;
}

/* A convolution alone: one key says of all three of its biases. The width in the file is the one that there is. */
static cdz_status write_conv(cdz_gguf_writer *w)
{
    CDZ_TRY(cdz_gguf_copy_uint(w, w->family->recurrent->taps.key, "shortconv.l_cache", true));
    if (w->family->adjusts_inner) cdz_gguf_put_bool(w, "block_auto_adjust_ff_dim", false);
    cdz_gguf_put_bool(w, "conv_bias", cdz_gguf_some_layer_has(w->g, "shortconv.conv.bias"));
    return CDZ_OK;
}

cdz_status cdz_gguf_write_recurrent(cdz_gguf_writer *w)
{
    const cdz_recurrent_rules *r = w->family->recurrent;
    if (!r) return CDZ_OK;
    CDZ_TRY(write_types(w));
    if (r->kind == CDZ_MIX_CONV) return write_conv(w);
    CDZ_TRY(write_states(w));
    const struct {
        const char *key, *tensor;
    } biases[] = {{r->conv_bias, "ssm_conv1d.bias"},
                  {r->in_bias, "ssm_in.bias"},
                  {r->out_bias, "ssm_out.bias"}};
    for (size_t i = 0; i < sizeof biases / sizeof *biases; i++)
        if (biases[i].key && (i == 0 || biases[i].key != biases[i - 1].key))
            cdz_gguf_put_bool(w, biases[i].key, cdz_gguf_some_layer_has(w->g, biases[i].tensor));
    if (!r->norm_keys) return CDZ_OK;
    cdz_gguf_put_bool(w, "mamba_rms_norm", cdz_gguf_some_layer_has(w->g, "ssm_norm.weight"));
    cdz_gguf_put_bool(w, "mamba_norm_before_gate", false); /* llama.cpp has no other */
    return CDZ_OK;
}

/* llama.cpp stores there whether layers rotate; without the key they do. */
void cdz_gguf_write_rope_type(cdz_gguf_writer *w)
{
    char key[CDZ_GGUF_KEY_BYTES];
    bool rotates = true;
    if (!w->family->rope_by_type) return;
    const cdz_gguf_value *v =
        cdz_gguf_find(w->g, cdz_gguf_arch_key(w->arch, "rope.scaling.finetuned", key));
    if (v && !v->is_array && v->type == CDZ_GGUF_BOOL) rotates = cdz_gguf_int_at(v, 0) != 0;
    cdz_gguf_put_text(w, "position_embedding_type", rotates ? "rope" : "nope");
}

/* --- rows of several streams --------------------------------------------------------------- */

static cdz_status put_rows(cdz_gguf_writer *w, const char *key, const char *tensor)
{
    const cdz_tensor *t = cdz_tensors_find(&w->g->tensors, tensor);
    if (!t || t->n_dims != 2)
        return cdz_err(w->err, CDZ_E_INPUT, "%s: tensor %s is %s", w->g->path, tensor,
                       t ? "no matrix" : "missing");
    cdz_gguf_put_uint(w, key, t->shape[0]);
    return CDZ_OK;
}

cdz_status cdz_gguf_write_streams(cdz_gguf_writer *w)
{
    if (!w->family->streams) return CDZ_OK;
    CDZ_TRY(cdz_gguf_copy_uint(w, "altup_num_inputs", "altup.num_inputs", true));
    CDZ_TRY(cdz_gguf_copy_uint(w, "altup_active_idx", "altup.active_idx", true));
    CDZ_TRY(cdz_gguf_copy_uint(w, "hidden_size_per_layer_input", "embedding_length_per_layer_input",
                               true));
    CDZ_TRY(cdz_gguf_copy_uint(w, "num_kv_shared_layers", "attention.shared_kv_layers", true));
    CDZ_TRY(put_rows(w, "vocab_size_per_layer_input", "per_layer_token_embd.weight"));
    CDZ_TRY(put_rows(w, "laurel_rank", "blk.0.laurel_l.weight"));
    cdz_gguf_put_bool(w, "altup_correct_scale",
                      cdz_gguf_some_layer_has(w->g, "altup_correct_scale.weight"));
    return CDZ_OK;
}
