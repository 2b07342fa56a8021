/* avx512_bf16.c - products of bf16 pairs by the instruction for them. */
#define PAIRS(name) cdz_avx512_##name##_bf16_pairs
#include "cpu/avx512_pairs.h"
