/* base64.h - bytes that JSON holds as text. */
#ifndef CDZ_HOST_TOKEN_BASE64_H
#define CDZ_HOST_TOKEN_BASE64_H

#include <stddef.h>
#include <stdint.h>

/* Writes the bytes of n characters of base64 to out, which has room for 3 * n / 4 + 1. Their number, or SIZE_MAX where the text
 * is not base64. */
size_t cdz_base64_decode(const char *text, size_t n, uint8_t *out);

#endif
