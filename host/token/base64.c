/* base64.c - reading base64. */
#include "token/base64.h"

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

size_t cdz_base64_decode(const char *text, size_t n, uint8_t *out)
{
    uint32_t bits = 0, n_bits = 0;
    size_t n_out = 0;
    while (n > 0 && text[n - 1] == '=') n--;
    if (n % 4 == 1) return SIZE_MAX; /* six bits are no byte */
    for (size_t i = 0; i < n; i++) {
        const int d = digit(text[i]);
        if (d < 0) return SIZE_MAX;
        bits = (bits << 6 | (uint32_t)d) & 0xFFFFFF;
        n_bits += 6;
        if (n_bits < 8) continue;
        n_bits -= 8;
        out[n_out++] = (uint8_t)(bits >> n_bits);
    }
    return n_out;
}
