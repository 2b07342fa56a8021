/* avx512_attend_q4_0.c - the attention tile of attend.h on keys and values in Q4_0. */
#include <math.h>

#define CDZ_ATTEND_TYPE CDZ_Q4_0
#include "cpu/attend_avx512.h"

#include "cpu/attend.h"

void cdz_avx512_attend_q4_0(const cdz_attend *tile)
{
    attend(tile);
}
