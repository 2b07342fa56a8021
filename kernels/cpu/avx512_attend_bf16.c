/* avx512_attend_bf16.c - the attention tile of attend.h on keys and values in bf16. */
#include <math.h>

#define CDZ_ATTEND_TYPE CDZ_BF16
#include "cpu/attend_avx512.h"

#include "cpu/attend.h"

void cdz_avx512_attend_bf16(const cdz_attend *tile)
{
    attend(tile);
}
