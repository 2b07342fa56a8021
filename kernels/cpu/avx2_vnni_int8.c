/* avx2_vnni_int8.c - products with int8 activations where AVX2 has VNNI beside it (AVX-VNNI). */
#define CDZ_INT8_NAMES cdz_avx2_vnni_int8
#include "cpu/avx2_int8.h"
