/* gguf_bytes.h - GGUF files written byte by byte, for tests that need one with something of their own. */
#ifndef CDZ_TESTS_SUPPORT_GGUF_BYTES_H
#define CDZ_TESTS_SUPPORT_GGUF_BYTES_H

#include <string.h>

#include "base/buf.h"

enum { GGUF_U32 = 4, GGUF_I32 = 5, GGUF_STRING = 8, GGUF_ARRAY = 9 };

static inline void gguf_number(cdz_buf *to, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) cdz_buf_putc(to, (char)(value >> 8 * i & 255));
}

static inline void gguf_string(cdz_buf *to, const char *text, size_t len)
{
    gguf_number(to, len, 8);
    cdz_buf_add(to, text, len);
}

/* The header. */
static inline void gguf_head(cdz_buf *to, uint64_t tensors, uint64_t keys)
{
    cdz_buf_puts(to, "GGUF");
    gguf_number(to, 3, 4);
    gguf_number(to, tensors, 8);
    gguf_number(to, keys, 8);
}

static inline void gguf_key(cdz_buf *to, const char *key, uint32_t type)
{
    gguf_string(to, key, strlen(key));
    gguf_number(to, type, 4);
}

static inline void gguf_word(cdz_buf *to, const char *key, const char *value)
{
    gguf_key(to, key, GGUF_STRING);
    gguf_string(to, value, strlen(value));
}

static inline void gguf_count(cdz_buf *to, const char *key, uint32_t value)
{
    gguf_key(to, key, GGUF_U32);
    gguf_number(to, value, 4);
}

#endif
