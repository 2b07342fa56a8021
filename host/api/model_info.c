/* model_info.c - a model's facts as JSON. */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "load/model_files.h"

static void add_string(cdz_buf *out, const char *name, const char *value)
{
    cdz_buf_printf(out, "%s\"%s\": ", out->len > 1 ? ", " : "", name);
    cdz_json_write_string(out, value, strlen(value));
}

static void add_number(cdz_buf *out, const char *name, uint64_t value)
{
    cdz_buf_printf(out, "%s\"%s\": %llu", out->len > 1 ? ", " : "", name, (unsigned long long)value);
}

void cdz_model_write_facts(const cdz_weights *weights, cdz_buf *out)
{
    const cdz_arch *a = cdz_weights_arch(weights);
    const cdz_weights_facts *f = &weights->facts;
    cdz_buf_putc(out, '{');
    add_string(out, "model_type", a->model_type);
    add_string(out, "architecture", a->architecture);
    add_number(out, "parameters", f->n_parameters);
    add_number(out, "layers", a->n_layers);
    if (a->encoder) add_number(out, "encoder_layers", a->encoder->n_layers);
    add_number(out, "hidden_size", a->hidden);
    add_number(out, "intermediate_size", a->intermediate);
    add_number(out, "attention_heads", a->n_heads);
    add_number(out, "key_value_heads", a->n_kv_heads);
    add_number(out, "head_dim", a->head_dim);
    add_number(out, "vocab_size", a->n_vocab);
    add_number(out, "context", a->context);
    add_number(out, "file_bytes", f->file_bytes);
    add_number(out, "f32_bytes", f->bytes[CDZ_F32]);
    add_number(out, "f16_bytes", f->bytes[CDZ_F16]);
    add_number(out, "bf16_bytes", f->bytes[CDZ_BF16]);
    for (int t = CDZ_N_PLAIN; t < CDZ_N_DTYPES; t++) {
        char name[32];
        snprintf(name, sizeof name, "%s_bytes", cdz_dtype_name((cdz_dtype)t));
        if (f->bytes[t]) add_number(out, name, f->bytes[t]);
    }
    if (f->int8_bytes) add_number(out, "int8_activation_bytes", f->int8_bytes);
    if (f->bf16_activation_bytes)
        add_number(out, "bf16_activation_bytes", f->bf16_activation_bytes);
    if (f->bf16_parts) add_number(out, "bf16_activation_parts", f->bf16_parts);
    if (f->panel_bytes) add_number(out, "panel_bytes", f->panel_bytes);
    const uint64_t screen = cdz_screen_auto_bytes(weights);
    if (screen) add_number(out, "head_screen_bytes", screen);
    add_number(out, "kv_bytes_per_token", f->kv_bytes_per_token);
    if (f->state_bytes) add_number(out, "state_bytes", f->state_bytes);
    cdz_buf_printf(out, ", \"tied\": %s}", weights->tied ? "true" : "false");
}

char *cdz_model_info_json(const cdz_model *model)
{
    cdz_buf out = {0};
    cdz_model_write_facts(cdz_run_model_weights(model->run), &out);
    if (!out.failed) return out.data;
    cdz_buf_free(&out);
    return NULL;
}
