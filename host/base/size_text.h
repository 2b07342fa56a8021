/* size_text.h - a number of bytes as people read it: "15.0 GiB". */
#ifndef CDZ_HOST_BASE_SIZE_TEXT_H
#define CDZ_HOST_BASE_SIZE_TEXT_H

#include <stdint.h>

typedef struct cdz_size_text {
    char text[32];
} cdz_size_text;

void cdz_size_write(cdz_size_text *out, uint64_t bytes);

#endif
