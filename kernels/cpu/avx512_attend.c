/* avx512_attend.c - the attention tile of attend.h, compiled with this set's instructions. */
#include <math.h>

#include "cpu/avx512.h"

#include "cpu/attend.h"

void cdz_avx512_attend(const cdz_attend *tile)
{
    attend(tile);
}
