/* size_text.c - see size_text.h. */
#include "base/size_text.h"

#include <stdio.h>

void cdz_size_write(cdz_size_text *out, uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double n = (double)bytes;
    int unit = 0;
    while (n >= 1024 && unit < 4) {
        n /= 1024;
        unit++;
    }
    snprintf(out->text, sizeof out->text, "%.*f %s", unit ? 1 : 0, n, units[unit]);
}
