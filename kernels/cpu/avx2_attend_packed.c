/* avx2_attend_packed.c - the attention tile of attend.h on keys and values of which the older ones are packed. */
#include <math.h>

#define CDZ_ATTEND_TYPE   CDZ_F32
#define CDZ_ATTEND_PACKED 1
#include "cpu/attend_avx2.h"

#include "cpu/attend.h"

void cdz_avx2_attend_packed(const cdz_attend *tile)
{
    attend(tile);
}
