#!/usr/bin/env python3
"""A model folder as OpenVINO GenAI runs it: make_openvino.py FOLDER OUT TYPE --cadenza PROGRAM.

TYPE is bf16 (matrices in f16, which it multiplies in bf16 where the processor can), q8_0 (its own int8, a factor for each channel) or
q4_0 (its own int4, in groups of 128; head and embedding int8). OpenVINO's reader of GGUF makes the model, and wants a tokenizer: a
folder without one gets a made-up one. Needs openvino-genai and nncf. OUT gets openvino_model.xml and .bin.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

import nncf
import openvino
import openvino_genai

HERE = pathlib.Path(__file__).resolve().parent
NAME = "openvino_model.xml"


def gguf(folder, at, program):
    """The folder's matrices in f16, with a tokenizer."""
    whole = at / "folder"
    whole.mkdir()
    for file in folder.iterdir():
        (whole / file.name).symlink_to(file.resolve())
    if not (whole / "tokenizer.json").exists():
        subprocess.run([sys.executable, HERE.parent / "tokenizer" / "make_tokenizer.py", at / "words"], check=True)
        (whole / "tokenizer.json").symlink_to(at / "words" / "tokenizer.json")
    out = at / "f16.gguf"
    subprocess.run([program, "model", "convert", whole, out, "--type", "f16"], check=True)
    return out


def compressed(path, kind):
    modes = nncf.CompressWeightsMode
    how = {"q8_0": {"mode": modes.INT8_ASYM}, "q4_0": {"mode": modes.INT4_SYM, "group_size": 128}}
    return nncf.compress_weights(openvino.Core().read_model(path), **how[kind])


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("folder", type=pathlib.Path)
    ap.add_argument("out", type=pathlib.Path)
    ap.add_argument("type", choices=["bf16", "q8_0", "q4_0"])
    ap.add_argument("--cadenza", required=True, help="the program")
    a = ap.parse_args()
    a.out = a.out.resolve()
    a.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=a.out.parent) as folder:
        at = pathlib.Path(folder)
        openvino_genai.LLMPipeline(str(gguf(a.folder, at, a.cadenza)), "CPU", enable_save_ov_model=True)
        made = at / NAME
        if a.type != "bf16":
            smaller = at / "compressed" / NAME
            smaller.parent.mkdir()
            openvino.save_model(compressed(made, a.type), smaller)
            made = smaller
        a.out.mkdir(exist_ok=True)
        for file in (made.with_suffix(".bin"), made):
            shutil.move(file, a.out / file.name)


if __name__ == "__main__":
    main()
