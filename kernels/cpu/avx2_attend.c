/* avx2_attend.c - the attention tile of attend.h on keys and values in float32. */
#include <math.h>

#define CDZ_ATTEND_TYPE CDZ_F32
#include "cpu/attend_avx2.h"

#include "cpu/attend.h"

void cdz_avx2_attend(const cdz_attend *tile)
{
    attend(tile);
}
