/* avx512_pairs.c - products of bf16 pairs by two multiply-adds each. */
#define PAIRS(name) cdz_avx512_##name##_pairs
#include "cpu/avx512_pairs.h"
