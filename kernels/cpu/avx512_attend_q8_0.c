/* avx512_attend_q8_0.c - the attention tile of attend.h on keys and values in Q8_0. */
#include <math.h>

#include "cpu/avx512.h"

#define CDZ_ATTEND_Q8_0
#include "cpu/attend.h"

void cdz_avx512_attend_q8_0(const cdz_attend *tile)
{
    attend(tile);
}
