#!/usr/bin/env python3
"""Rows of float32 and what the reference's own quantisers make of them: tests/gguf/quantised.gguf.

    python make_vectors.py LIBGGML_BASE.so

Needs numpy and llama.cpp's Python package gguf, which quantises the types with blocks of 32; those with blocks of 256
come from ggml_quantize_chunk of a built libggml-base. Tensor "rows" holds the numbers, tensors Q8_0 to Q6_K the blocks.
"""
import ctypes
import os
import sys

import gguf
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]


def rows():
    """Normal numbers of very different sizes; zeros, all of one sign, few values, steps, one that stands out."""
    random = np.random.default_rng(5)
    x = random.standard_normal((8, 512)).astype(np.float32)
    x *= np.exp(random.uniform(-6, 3, (8, 1))).astype(np.float32)
    x[1, :96] = 0
    x[2] = np.abs(x[2])
    x[3, :256] = -np.abs(x[3, :256])
    x[4, ::2] = 0.5
    x[5, :256] = np.arange(256) / 64
    x[6, 100] = 40
    x[7, 256:] *= 1e-7
    return x


def main():
    ggml = ctypes.CDLL(sys.argv[1])
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    x = rows()
    w = gguf.GGUFWriter(os.path.join(HERE, "quantised.gguf"), "none")
    w.add_tensor("rows", x)
    for name in NAMES:
        kind = gguf.GGMLQuantizationType[name]
        length, size = gguf.GGML_QUANT_SIZES[kind]
        if name.endswith("_K"):
            blocks = np.zeros((x.shape[0], x.shape[1] // length * size), np.uint8)
            ggml.ggml_quantize_chunk(ctypes.c_int(kind.value), x.ctypes.data_as(ctypes.c_void_p),
                                     blocks.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(0),
                                     ctypes.c_int64(x.shape[0]), ctypes.c_int64(x.shape[1]), None)
        else:
            blocks = gguf.quants.quantize(x, kind).view(np.uint8).reshape(x.shape[0], -1)
        w.add_tensor(name, blocks, raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    main()
