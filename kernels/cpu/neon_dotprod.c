/* neon_dotprod.c - products with int8 activations by arm64's instruction for four of them. */
#define CDZ_INT8_NAMES cdz_neon_dotprod
#include "cpu/avx2_int8.h"
