/* buf.c - how a buffer grows: to twice its size, so that appending costs the same however long the text becomes, and
 * never past what a size_t counts. There is always room for the zero behind the bytes. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(cdz_buf *buf, size_t extra)
{
    if (buf->failed) return false;
    if (extra > SIZE_MAX / 2 - buf->len) {
        buf->failed = true;
        return false;
    }
    size_t need = buf->len + extra + 1;
    if (need <= buf->cap) return true;
    size_t cap = buf->cap ? buf->cap : 64;
    while (cap < need) cap *= 2;
    if (buf->limit && cap > buf->limit) cap = buf->limit;
    char *data = cap < need ? NULL : realloc(buf->data, cap);
    if (!data) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->cap = cap;
    return true;
}

void cdz_buf_add(cdz_buf *buf, const void *bytes, size_t len)
{
    if (!reserve(buf, len)) return;
    if (len) memcpy(buf->data + buf->len, bytes, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void cdz_buf_puts(cdz_buf *buf, const char *text)
{
    cdz_buf_add(buf, text, strlen(text));
}

void cdz_buf_putc(cdz_buf *buf, char c)
{
    cdz_buf_add(buf, &c, 1);
}

void cdz_buf_printf(cdz_buf *buf, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (len >= 0 && reserve(buf, (size_t)len)) {
        vsnprintf(buf->data + buf->len, (size_t)len + 1, fmt, again);
        buf->len += (size_t)len;
    }
    va_end(again);
}

void cdz_buf_clear(cdz_buf *buf)
{
    buf->len = 0;
    if (buf->data) buf->data[0] = '\0';
}

void cdz_buf_free(cdz_buf *buf)
{
    free(buf->data);
    *buf = (cdz_buf){0};
}
