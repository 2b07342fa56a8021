/* fuzz_gguf.c - any bytes as a GGUF file: whatever is accepted lies inside it without overlap, its
 * values can be read to the end, and asking for a model, a tokenizer or a template of it is no
 * crash. */
#include <string.h>

#include "fuzz.h"
#include "load/gguf.h"
#include "load/model_files.h"
#include "support/memory_meter.h"
#include "template/chat.h"
#include "token/tokenizer.h"

static void check_tensors(const cdz_gguf *g, size_t size)
{
    uint64_t total = 0;
    for (size_t i = 0; i < g->tensors.n_items; i++) {
        const cdz_tensor *t = &g->tensors.items[i];
        const char *start = g->tensors.files[t->file].data, *data = t->data;
        FUZZ_CHECK(data >= start && data <= start + size);
        FUZZ_CHECK(t->n_bytes <= (uint64_t)(start + size - data));
        FUZZ_CHECK(cdz_tensors_find(&g->tensors, t->name) == t);
        total += t->n_bytes;
    }
    FUZZ_CHECK(total < size);
}

static void read_values(const cdz_gguf *g)
{
    for (size_t i = 0; i < g->n_values; i++) {
        const cdz_gguf_value *v = &g->values[i];
        const uint8_t *at = v->data;
        FUZZ_CHECK(cdz_gguf_find(g, v->key) == v);
        for (uint64_t j = 0; j < v->n; j++) {
            size_t len;
            if (v->type != CDZ_GGUF_STRING)
                (void)cdz_gguf_real_at(v, j);
            else /* volatile: the bytes are read though nobody wants them */
                for (const volatile char *text = cdz_gguf_next_string(&at, &len); len > 0; len--)
                    (void)text[len - 1];
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    cdz_gguf gguf;
    cdz_weights *weights;
    cdz_tokenizer *tok;
    cdz_chat_template *chat;
    cdz_error err;
    int fd = fuzz_file(data, size, path);
    meter_begin();
    if (cdz_gguf_open(path, &gguf, &err) == CDZ_OK) {
        check_tensors(&gguf, size);
        read_values(&gguf);
    }
    cdz_gguf_close(&gguf);
    if (cdz_weights_open(path, &weights, &err) == CDZ_OK) cdz_weights_close(weights);
    if (cdz_tokenizer_open(path, &tok, &err) == CDZ_OK) cdz_tokenizer_free(tok);
    if (cdz_chat_template_open(path, &chat, &err) == CDZ_OK) cdz_chat_template_free(chat);
    FUZZ_CHECK(meter_most() <= meter_allowed(size));
    close(fd);
    return 0;
}
