/* tables.c - writes a model folder of two narrow layers with random weights, opens it, and removes it again at once: it is
 * mapped by then, and no plugin has run. */
#include "check/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/write.h"

enum { V = CDZ_TABLE_VOCAB, HIDDEN = 16, WIDE = 24, HEADS = 2, LAYERS = 2, PATH = 96 };

static const char config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_act\": "
    "\"silu\", \"hidden_size\": 16, \"intermediate_size\": 24, \"num_attention_heads\": 2, "
    "\"num_key_value_heads\": 2, \"head_dim\": 8, \"num_hidden_layers\": 2, \"vocab_size\": 48, "
    "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5, \"bos_token_id\": 1, "
    "\"eos_token_id\": 3, \"pad_token_id\": 0, \"tie_word_embeddings\": false}";

/* The file as it grows: the list of tensors, and their numbers. */
typedef struct weights {
    cdz_buf names, numbers;
    uint64_t random;
} weights;

/* (rows, columns) of it, or (rows) when columns is 0: then ones. */
static void add(weights *w, const char *layer, const char *name, uint32_t rows, uint32_t columns,
                double scale)
{
    const size_t begin = w->numbers.len, n = (size_t)rows * (columns ? columns : 1);
    for (size_t i = 0; i < n; i++) {
        const float x = columns ? (float)((cdz_random_unit(&w->random) * 2.0 - 1.0) * scale) : 1.0f;
        cdz_buf_add(&w->numbers, &x, sizeof x);
    }
    cdz_buf_printf(&w->names, "%s\"%s%s.weight\": {\"dtype\": \"F32\", \"shape\": [%u",
                   begin ? ", " : "", layer, name, (unsigned)rows);
    if (columns) cdz_buf_printf(&w->names, ", %u", (unsigned)columns);
    cdz_buf_printf(&w->names, "], \"data_offsets\": [%zu, %zu]}", begin, w->numbers.len);
}

static void add_layer(weights *w, uint32_t i)
{
    static const char *const squares[] = {"self_attn.q_proj", "self_attn.k_proj",
                                          "self_attn.v_proj", "self_attn.o_proj"};
    char layer[32];
    snprintf(layer, sizeof layer, "model.layers.%u.", (unsigned)i);
    for (size_t k = 0; k < sizeof squares / sizeof squares[0]; k++)
        add(w, layer, squares[k], HIDDEN, HIDDEN, 0.4);
    add(w, layer, "mlp.gate_proj", WIDE, HIDDEN, 0.4);
    add(w, layer, "mlp.up_proj", WIDE, HIDDEN, 0.4);
    add(w, layer, "mlp.down_proj", HIDDEN, WIDE, 0.4);
    add(w, layer, "input_layernorm", HIDDEN, 0, 1.0);
    add(w, layer, "post_attention_layernorm", HIDDEN, 0, 1.0);
}

static bool put_file(const char *folder, const char *name, const void *head, size_t head_len,
                     const void *tail, size_t tail_len)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    cdz_writer w;
    if (cdz_write_begin(&w, path, CDZ_WRITE_NEW, NULL) != CDZ_OK) return false;
    cdz_write(&w, head, head_len);
    cdz_write(&w, tail, tail_len);
    return cdz_write_finish(&w, NULL) == CDZ_OK;
}

static bool put_weights(const char *folder, uint64_t seed, double sharpness)
{
    weights w = {.random = seed};
    cdz_buf head = {0};
    add(&w, "", "model.embed_tokens", V, HIDDEN, 1.0);
    for (uint32_t i = 0; i < LAYERS; i++) add_layer(&w, i);
    add(&w, "", "model.norm", HIDDEN, 0, 1.0);
    add(&w, "", "lm_head", V, HIDDEN, sharpness);
    const uint64_t len = w.names.len + 2; /* little-endian, as the numbers */
    cdz_buf_add(&head, &len, sizeof len);
    cdz_buf_putc(&head, '{');
    cdz_buf_add(&head, w.names.data, w.names.len);
    cdz_buf_putc(&head, '}');
    const bool good =
        !head.failed && !w.names.failed && !w.numbers.failed &&
        put_file(folder, "model.safetensors", head.data, head.len, w.numbers.data, w.numbers.len);
    cdz_buf_free(&head);
    cdz_buf_free(&w.names);
    cdz_buf_free(&w.numbers);
    return good;
}

static void remove_folder(const char *folder)
{
    static const char *const names[] = {"config.json", "model.safetensors"};
    char path[PATH];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

cdz_status cdz_table_open(cdz_child *c, cdz_runtime *runtime, uint64_t seed, double sharpness,
                          cdz_model **out, cdz_error *err)
{
    char folder[] = "/tmp/cadenza-table-XXXXXX";
    cdz_check_note(c, "opening a random model");
    if (!mkdtemp(folder)) return cdz_err(err, CDZ_E_IO, "%s: cannot make a folder", folder);
    cdz_status st = CDZ_OK;
    if (!put_file(folder, "config.json", config, strlen(config), "", 0) ||
        !put_weights(folder, seed, sharpness))
        st = cdz_err(err, CDZ_E_IO, "%s: cannot write a model", folder);
    if (st == CDZ_OK) st = cdz_model_open(runtime, folder, NULL, out, err);
    remove_folder(folder);
    return st;
}
