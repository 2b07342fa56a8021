#!/usr/bin/env python3
"""Records what optimum-quanto and hqq make of 256 numbers, for tests/unit/kernels/test_kernels_packed.c:

    make_packed_vectors.py > packed_vectors.h      torch, optimum-quanto 0.2.7, hqq 0.2.8

The tensors are as transformers 5.3.0 hands them over, (1 row, 1 head, 32 positions, 8 dims) of float32
(cache_utils.py, QuantoQuantizedLayer and HQQQuantizedLayer); hqq without its search for better zeros."""
import sys

import torch
from hqq.core.quantize import Quantizer
from optimum.quanto import MaxOptimizer, qint2, qint4, quantize_weight

POSITIONS, DIM = 32, 8


def quanto(x, bits, axis, group):
    kind = {2: qint2, 4: qint4}[bits]
    scale, shift = MaxOptimizer()(x, kind, axis, group)
    return quantize_weight(x, kind, axis, scale, shift, group).dequantize()


def hqq(x, bits, axis, group):
    numbers, meta = Quantizer.quantize(x, nbits=bits, group_size=group, axis=axis, optimize=False,
                                       bitpack=False, compute_dtype=torch.float32, device="cpu")
    meta["packing"] = None
    meta["compute_dtype"] = torch.float32
    return Quantizer.dequantize(numbers, meta)


def words(x):
    bits = x.flatten().contiguous().view(torch.int32).tolist()
    rows = [", ".join(f"0x{b & 0xffffffff:08x}" for b in bits[i:i + 8]) for i in range(0, len(bits), 8)]
    return ",\n    ".join(rows)


def main():
    torch.manual_seed(5)
    x = torch.randn(1, 1, POSITIONS, DIM) * torch.tensor([0.01, 0.3, 1, 1, 2, 5, 40, 1e-6])
    x[0, 0, 4:8] = 0.375
    cases = []
    for bits in (2, 4):
        cases += [(f"quanto {bits} axis 0 group 8", bits, 0, 1, 8, quanto(x, bits, 0, 8)),
                  (f"quanto {bits} axis 0 group 32", bits, 0, 4, 8, quanto(x, bits, 0, 32)),
                  (f"quanto {bits} axis -1 group 32", bits, 0, 32, 1, quanto(x, bits, -1, 32))]
    for bits in (1, 2, 3, 4, 8):
        cases += [(f"hqq {bits} axis 1 group 8", bits, 1, 1, 8, hqq(x, bits, 1, 8)),
                  (f"hqq {bits} axis 0 group 32", bits, 1, 32, 1, hqq(x, bits, 0, 32))]
    out = sys.stdout.write
    out("/* packed_vectors.h - made by make_packed_vectors.py: numbers, and what they are once quantised and read again, as the bits\n"
        " * of float32. Written, not edited. */\n")
    out("#ifndef PACKED_VECTORS_H\n#define PACKED_VECTORS_H\n\n#include <stdbool.h>\n#include <stdint.h>\n\n")
    out(f"enum {{ PACKED_SPAN = {POSITIONS}, PACKED_DIM = {DIM} }};\n\n")
    out(f"static const uint32_t packed_input[] = {{\n    {words(x)}}};\n\n")
    for i, case in enumerate(cases):
        out(f"static const uint32_t packed_read_{i}[] = {{\n    {words(case[5])}}};\n\n")
    out("static const struct packed_case {\n    const char *name;\n    uint32_t bits;\n    bool centred;\n"
        "    uint32_t positions, dims; /* of a group */\n    const uint32_t *read;\n} packed_cases[] = {\n")
    for i, (name, bits, centred, positions, dims, _) in enumerate(cases):
        out(f'    {{"{name}", {bits}, {"true" if centred else "false"}, {positions}, {dims}, packed_read_{i}}},\n')
    out("};\n\n#endif\n")


if __name__ == "__main__":
    main()
