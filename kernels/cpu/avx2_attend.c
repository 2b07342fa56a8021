/* avx2_attend.c - the attention tile of attend.h, compiled with this set's instructions. */
#include <math.h>

#include "cpu/avx2.h"

#include "cpu/attend.h"

void cdz_avx2_attend(const cdz_attend *tile)
{
    attend(tile);
}
