/* folder_out.c - the files of a model folder: weights as safetensors, configurations, tokenizer. */
#include "convert/folder_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "load/families.h"
#include "template/chat.h"
#include "token/gguf.h"

/* --- weights ------------------------------------------------------------------------------- */

static void put_entry(cdz_buf *head, const cdz_out_tensor *t, uint64_t from)
{
    cdz_buf_putc(head, ',');
    cdz_json_write_string(head, t->name, strlen(t->name));
    cdz_buf_printf(head, ":{\"dtype\":\"%s\",\"shape\":[", t->dtype);
    for (uint32_t d = 0; d < t->n_dims; d++)
        cdz_buf_printf(head, "%s%" PRIu64, d ? "," : "", t->shape[d]);
    cdz_buf_printf(head, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", from, from + t->n_bytes);
}

static cdz_status write_all(const cdz_out_tensors *tensors, const cdz_buf *head, cdz_out *out)
{
    uint8_t size[8];
    for (size_t b = 0; b < 8; b++) size[b] = (uint8_t)((uint64_t)head->len >> 8 * b);
    CDZ_TRY(cdz_out_write(out, size, sizeof size));
    CDZ_TRY(cdz_out_write(out, head->data, head->len));
    for (size_t i = 0; i < tensors->n; i++) CDZ_TRY(cdz_out_tensor_write(&tensors->items[i], out));
    return CDZ_OK;
}

cdz_status cdz_safetensors_write(cdz_target *target, const cdz_out_tensors *tensors, cdz_out *out)
{
    cdz_buf head = {0};
    uint64_t at = 0;
    cdz_buf_puts(&head, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < tensors->n; i++) {
        put_entry(&head, &tensors->items[i], at);
        at += tensors->items[i].n_bytes;
    }
    cdz_buf_putc(&head, '}');
    while (!head.failed && head.len % 8) cdz_buf_putc(&head, ' ');
    cdz_status st = head.failed ? cdz_err_memory_in(out->err, target->path) : CDZ_OK;
    out->total = 8 + head.len + tensors->n_bytes;
    if (st == CDZ_OK) st = cdz_out_open(target, "model.safetensors", out);
    if (st == CDZ_OK) st = write_all(tensors, &head, out);
    cdz_buf_free(&head);
    return cdz_out_close(out, st);
}

/* --- config.json --------------------------------------------------------------------------- */

/* An object with a member a line. */
typedef struct object {
    cdz_buf text;
} object;

static void put_key(object *o, const char *key)
{
    cdz_buf_puts(&o->text, o->text.len ? ",\n  " : "{\n  ");
    cdz_json_write_string(&o->text, key, strlen(key));
    cdz_buf_puts(&o->text, ": ");
}

static void put_bool(object *o, const char *key, bool value)
{
    put_key(o, key);
    cdz_buf_puts(&o->text, value ? "true" : "false");
}

static void put_real(object *o, const char *key, double value)
{
    put_key(o, key);
    cdz_json_write_real(&o->text, value);
}

static void put_uint(object *o, const char *key, uint64_t value)
{
    put_key(o, key);
    cdz_buf_printf(&o->text, "%" PRIu64, value);
}

static void put_members(object *o, const cdz_json *members)
{
    for (uint32_t i = 0; i < members->len; i++) {
        put_key(o, members->members[i].key);
        cdz_json_write(&o->text, &members->members[i].value);
    }
}

static cdz_status put_file(cdz_target *target, const char *name, object *o, cdz_error *err)
{
    cdz_buf_puts(&o->text, o->text.len ? "\n}\n" : "{}\n");
    const cdz_status st = o->text.failed
                              ? cdz_err_memory_in(err, target->path)
                              : cdz_out_text(target, name, o->text.data, o->text.len, err);
    cdz_buf_free(&o->text);
    return st;
}

static void put_biases(object *o, const cdz_arch *a)
{
    const cdz_bias_rule rule = a->family->biases;
    if (rule == CDZ_BIAS_BY_KEY || rule == CDZ_BIAS_ATTENTION || rule == CDZ_BIAS_NEOX)
        put_bool(o, "attention_bias", a->qkv_bias);
    if (rule == CDZ_BIAS_BY_KEY) put_bool(o, "mlp_bias", a->mlp_bias);
}

/* The divisor whose root attention's scale came from: a whole number where one gives it. */
static void put_query_scalar(object *o, const cdz_arch *a)
{
    const double exact = 1.0 / ((double)a->attention_scale * (double)a->attention_scale);
    const double rounded = rint(exact);
    const bool whole = (float)(1.0 / sqrt(rounded)) == a->attention_scale;
    if (a->family->query_scalar) put_real(o, "query_pre_attn_scalar", whole ? rounded : exact);
}

/* What llama3's rope says of itself, from the divisors it made: stretched are waves longer than
 * the old context, kept those shorter than a quarter of it, blended those between. */
static void put_llama3(object *o, const cdz_arch *a)
{
    const size_t n = a->rope.n_rotated / 2;
    float plain[CDZ_ROPE_REGROUP / 2];
    double factor = 1, old = 0;
    if (a->rope_type != CDZ_ROPE_LLAMA3 || n > CDZ_ROPE_REGROUP / 2) return;
    cdz_rope_frequencies(plain, a->rope.n_rotated, a->rope_theta);
    for (size_t i = 0; i < n; i++)
        factor = fmax(factor, (double)plain[i] / (double)a->rope.inv_freq[i]);
    for (size_t i = 0; i < n; i++) {
        const double divided = (double)plain[i] / (double)a->rope.inv_freq[i];
        const double wave = 2 * 3.14159265358979323846 / (double)plain[i];
        const double share = (1 / divided - 1 / factor) / (1 - 1 / factor);
        if (divided < 1.0001)
            old = fmax(old, 4 * wave); /* at least, unless a blended one says */
        else if (divided < factor * 0.9999) {
            old = rint(wave * (3 * share + 1));
            break;
        }
    }
    put_key(o, "rope_scaling");
    cdz_buf_puts(&o->text, "{\"rope_type\": \"llama3\", \"factor\": ");
    cdz_json_write_real(&o->text, rint(factor * 1e4) / 1e4);
    cdz_buf_printf(&o->text,
                   ", \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
                   "\"original_max_position_embeddings\": %.0f}",
                   ceil(old));
}

static void put_dense_layers(object *o, const cdz_arch *a)
{
    if (a->family->experts != CDZ_EXPERTS_BY_LAYER) return;
    put_uint(o, "num_experts", a->n_experts);
    put_key(o, "mlp_only_layers");
    uint32_t n = 0;
    cdz_buf_putc(&o->text, '[');
    for (uint32_t i = 0; i < a->n_layers; i++)
        if (!a->sparse[i]) cdz_buf_printf(&o->text, "%s%u", n++ ? ", " : "", (unsigned)i);
    cdz_buf_putc(&o->text, ']');
}

/* What gguf_config.c leaves to the reader of the file, a folder has to say. */
static void put_rest(object *o, const cdz_arch *a, const char *dtype)
{
    put_key(o, "architectures");
    cdz_buf_printf(&o->text, "[\"%s\"]", a->architecture);
    put_key(o, "dtype");
    cdz_json_write_string(&o->text, dtype, strlen(dtype));
    put_biases(o, a);
    put_query_scalar(o, a);
    put_llama3(o, a);
    put_dense_layers(o, a);
    if (a->rope_type == CDZ_ROPE_LONGROPE)
        put_uint(o, "original_max_position_embeddings", a->rope_limit);
    if (a->family->parallel != CDZ_PARALLEL_UNLESS_SAID) return;
    put_real(o, "rotary_emb_base", a->rope_theta); /* gpt_neox's older spelling */
    put_real(o, "rotary_pct", ((double)a->rope.n_rotated + 0.25) / (double)a->head_dim);
}

/* Without one in the file, the ids that config.json has. */
static cdz_status write_generation(cdz_target *target, const cdz_weights *w, cdz_error *err)
{
    static const char *const ids[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
    object o = {{0}};
    const cdz_json *stored = cdz_weights_generation_config(w);
    if (stored) put_members(&o, stored);
    for (size_t i = 0; !stored && i < sizeof ids / sizeof *ids; i++) {
        const cdz_json *v = cdz_json_get(&w->config, ids[i]);
        if (!v) continue;
        put_key(&o, ids[i]);
        cdz_json_write(&o.text, v);
    }
    return put_file(target, "generation_config.json", &o, err);
}

cdz_status cdz_folder_configs(cdz_target *target, const cdz_weights *w, const char *dtype,
                              cdz_error *err)
{
    object o = {{0}};
    put_members(&o, &w->config);
    put_rest(&o, &w->arch, dtype);
    CDZ_TRY(put_file(target, "config.json", &o, err));
    return write_generation(target, w, err);
}

/* --- tokenizer ----------------------------------------------------------------------------- */

/* The chat template in a file of its own where there is one alone, as folders have it now. */
static cdz_status write_tokenizer_config(cdz_target *target, const cdz_buf *text, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_json root;
    object o = {{0}};
    cdz_status st = cdz_json_parse(text->data, text->len, target->path, NULL, &arena, &root, err);
    const cdz_json *list = st == CDZ_OK ? cdz_json_get(&root, "chat_template") : NULL;
    const cdz_json *only = list && list->len == 1 ? &list->items[0] : NULL;
    put_key(&o, "tokenizer_class"); /* the class that reads a tokenizer.json as it is */
    cdz_buf_puts(&o.text, "\"PreTrainedTokenizerFast\"");
    const bool alone = only && cdz_json_eq(cdz_json_get(only, "name"), "default");
    for (uint32_t i = 0; st == CDZ_OK && i < root.len; i++) {
        const cdz_json_member *m = &root.members[i];
        if (list && &m->value == list && (alone || list->len == 0)) continue;
        put_key(&o, m->key);
        cdz_json_write(&o.text, &m->value);
    }
    if (st == CDZ_OK) st = put_file(target, "tokenizer_config.json", &o, err);
    const cdz_json *jinja = alone ? cdz_json_get(only, "template") : NULL;
    if (st == CDZ_OK && jinja)
        st = cdz_out_text(target, "chat_template.jinja", jinja->string, jinja->len, err);
    cdz_buf_free(&o.text);
    cdz_arena_free(&arena);
    return st;
}

cdz_status cdz_folder_tokenizer(cdz_target *target, const cdz_gguf *gguf, cdz_error *err)
{
    cdz_buf text = {0};
    cdz_error why = {0};
    cdz_status st = cdz_tokenizer_json_of_gguf(gguf, &text, &why);
    if (st == CDZ_E_NOT_FOUND) {
        cdz_buf_free(&text);
        return CDZ_OK;
    }
    if (st != CDZ_OK) st = cdz_err(err, why.code, "%s", why.text);
    if (st == CDZ_OK) st = cdz_out_text(target, "tokenizer.json", text.data, text.len, err);
    cdz_buf_clear(&text);
    if (st == CDZ_OK) st = cdz_tokenizer_config_of_gguf(gguf, &text, err);
    if (st == CDZ_OK) st = write_tokenizer_config(target, &text, err);
    cdz_buf_free(&text);
    return st;
}
