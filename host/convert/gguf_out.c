/* gguf_out.c - the bytes of a GGUF file: "GGUF", version 3, two counts, metadata, the table of
 * tensors, padding, the data, each tensor at a multiple of 32. */
#include "convert/gguf_out.h"

#include <string.h>

enum { ALIGNMENT = 32, VERSION = 3 };

static void put_number(cdz_buf *buf, uint64_t value, size_t bytes)
{
    for (size_t b = 0; b < bytes; b++) cdz_buf_putc(buf, (char)(value >> 8 * b & 255));
}

static void put_string(cdz_buf *buf, const char *text, size_t len)
{
    put_number(buf, len, 8);
    cdz_buf_add(buf, text, len);
}

static void put_key(cdz_gguf_meta *meta, const char *key, cdz_gguf_type type)
{
    put_string(&meta->bytes, key, strlen(key));
    put_number(&meta->bytes, type, 4);
    meta->n++;
}

void cdz_meta_u32(cdz_gguf_meta *meta, const char *key, uint64_t value)
{
    put_key(meta, key, CDZ_GGUF_U32);
    put_number(&meta->bytes, value, 4);
}

void cdz_meta_f32(cdz_gguf_meta *meta, const char *key, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(meta, key, CDZ_GGUF_F32);
    put_number(&meta->bytes, bits, 4);
}

void cdz_meta_bool(cdz_gguf_meta *meta, const char *key, bool value)
{
    put_key(meta, key, CDZ_GGUF_BOOL);
    put_number(&meta->bytes, value, 1);
}

void cdz_meta_string(cdz_gguf_meta *meta, const char *key, const char *text, size_t len)
{
    put_key(meta, key, CDZ_GGUF_STRING);
    put_string(&meta->bytes, text, len);
}

void cdz_meta_text(cdz_gguf_meta *meta, const char *key, const char *text)
{
    cdz_meta_string(meta, key, text, strlen(text));
}

void cdz_meta_array(cdz_gguf_meta *meta, const char *key, cdz_gguf_type type, uint64_t n)
{
    put_key(meta, key, CDZ_GGUF_ARRAY);
    put_number(&meta->bytes, type, 4);
    put_number(&meta->bytes, n, 8);
}

void cdz_meta_element(cdz_gguf_meta *meta, const void *bytes, size_t n)
{
    cdz_buf_add(&meta->bytes, bytes, n);
}

void cdz_meta_element_string(cdz_gguf_meta *meta, const char *text, size_t len)
{
    put_string(&meta->bytes, text, len);
}

void cdz_meta_copy(cdz_gguf_meta *meta, const cdz_gguf_value *v)
{
    if (v->is_array)
        cdz_meta_array(meta, v->key, v->type, v->n);
    else
        put_key(meta, v->key, v->type);
    const uint8_t *end = v->data;
    size_t len;
    for (uint64_t i = 0; v->type == CDZ_GGUF_STRING && i < v->n; i++)
        cdz_gguf_next_string(&end, &len);
    if (v->type != CDZ_GGUF_STRING) end += v->n * cdz_gguf_type_bytes(v->type);
    cdz_buf_add(&meta->bytes, v->data, (size_t)(end - v->data));
}

/* --- the file ------------------------------------------------------------------------------ */

static uint64_t padded(uint64_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static cdz_status put_table(cdz_buf *head, const cdz_out_tensors *tensors, cdz_error *err)
{
    uint64_t offset = 0;
    for (size_t i = 0; i < tensors->n; i++) {
        const cdz_out_tensor *t = &tensors->items[i];
        const cdz_gguf_layout *layout = cdz_gguf_layout_name(t->dtype);
        if (!layout)
            return cdz_err(err, CDZ_E_UNSUPPORTED, "tensor %s: GGUF has no type %s", t->name,
                           t->dtype);
        put_string(head, t->name, strlen(t->name));
        put_number(head, t->n_dims, 4);
        for (uint32_t d = t->n_dims; d-- > 0;) put_number(head, t->shape[d], 8);
        put_number(head, layout->number, 4);
        put_number(head, offset, 8);
        offset = padded(offset + t->n_bytes);
    }
    return CDZ_OK;
}

static cdz_status write_data(const cdz_out_tensors *tensors, cdz_out *out)
{
    for (size_t i = 0; i < tensors->n; i++) {
        CDZ_TRY(cdz_out_tensor_write(&tensors->items[i], out));
        CDZ_TRY(cdz_out_pad(out, ALIGNMENT));
    }
    return CDZ_OK;
}

cdz_status cdz_out_write_gguf(const cdz_gguf_meta *meta, const cdz_out_tensors *tensors,
                              cdz_out *out)
{
    cdz_buf head = {0};
    cdz_buf_puts(&head, "GGUF");
    put_number(&head, VERSION, 4);
    put_number(&head, tensors->n, 8);
    put_number(&head, meta->n, 8);
    cdz_buf_add(&head, meta->bytes.data, meta->bytes.len);
    cdz_status st = put_table(&head, tensors, out->err);
    if (st == CDZ_OK && (head.failed || meta->bytes.failed))
        st = cdz_err_memory_in(out->err, out->path);
    out->total = padded(head.len) + tensors->n_bytes;
    if (st == CDZ_OK) st = cdz_out_write(out, head.data, head.len);
    if (st == CDZ_OK) st = cdz_out_pad(out, ALIGNMENT);
    cdz_buf_free(&head);
    return st == CDZ_OK ? write_data(tensors, out) : st;
}
