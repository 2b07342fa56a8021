#!/usr/bin/env python3
"""Write a model folder as GGUF with llama.cpp's own converter, without a tokenizer: for shapes of random weights, which have none.

    make_gguf.py FOLDER OUT --llama-cpp SOURCE
    make_gguf.py FILE.gguf OUT --type q8_0

SOURCE is llama.cpp's source folder (its conversion/ and gguf-py/ are used; in llama-cpp-python's source it is vendor/llama.cpp).
Weights are bfloat16 where the folder's are; the second form quantises such a file as llama.cpp does. Needs torch, transformers and
numpy; the second form llama_cpp.
"""
import argparse
import ctypes
import os
import pathlib
import sys

TYPES = {"q8_0": 7, "q4_0": 2, "q4_k": 15}  # llama.cpp's numbers for kinds of files


def without_tokenizer(model):
    model.gguf_writer.add_tokenizer_model("none")
    model.gguf_writer.add_vocab_size(model.hparams["vocab_size"])


def source_folder(text):
    if not (pathlib.Path(text) / "conversion").is_dir():
        raise argparse.ArgumentTypeError(f"{text} has no conversion/: expected llama.cpp's source folder")
    return pathlib.Path(text)


def convert(folder, out, source):
    sys.path[:0] = [str(source), str(source / "gguf-py")]
    import gguf
    import torch
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class

    architecture = get_model_architecture(ModelBase.load_hparams(folder, False), ModelType.TEXT)
    model = get_model_class(architecture)
    model.set_vocab = without_tokenizer
    model.no_mtp = True  # no layers that foretell further tokens
    with torch.inference_mode():
        model(folder, gguf.LlamaFileType.MOSTLY_BF16, out, model_name=folder.name).write()


def quantise(file, out, kind):
    import llama_cpp

    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = TYPES[kind]
    if llama_cpp.llama_model_quantize(str(file).encode(), str(out).encode(), ctypes.byref(params)):
        sys.exit(f"make_gguf.py: llama.cpp cannot make {kind} of {file}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model", type=pathlib.Path, metavar="FOLDER | FILE.gguf")
    ap.add_argument("out", type=pathlib.Path)
    what = ap.add_mutually_exclusive_group(required=True)
    what.add_argument("--llama-cpp", type=source_folder, metavar="SOURCE")
    what.add_argument("--type", choices=TYPES)
    a = ap.parse_args()
    part = a.out.with_suffix(".part")
    if a.type:
        quantise(a.model, part, a.type)
    else:
        convert(a.model, part, a.llama_cpp)
    os.replace(part, a.out)


if __name__ == "__main__":
    main()
