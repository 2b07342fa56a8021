/* avx2_int8.c - products with int8 activations, with the instructions that every machine of the set has. */
#define CDZ_INT8_NAMES cdz_avx2_int8
#include "cpu/avx2_int8.h"
