/* buf.h - a growing byte buffer. A failed growth is remembered and makes every later call a no-op, so a
 * writer checks once, at the end. */
#ifndef CDZ_HOST_BASE_BUF_H
#define CDZ_HOST_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cdz_buf {
    char *data; /* NUL-terminated once anything was added */
    size_t len, cap;
    size_t limit; /* bytes it may take in memory; 0: any */
    bool failed;  /* memory ran out, or the limit */
} cdz_buf;

void cdz_buf_add(cdz_buf *buf, const void *bytes, size_t len);
void cdz_buf_puts(cdz_buf *buf, const char *text);
void cdz_buf_putc(cdz_buf *buf, char c);
void cdz_buf_printf(cdz_buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cdz_buf_clear(cdz_buf *buf); /* keeps the memory */
void cdz_buf_free(cdz_buf *buf);  /* zeroed is fine */

#endif
