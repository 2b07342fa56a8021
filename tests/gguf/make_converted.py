#!/usr/bin/env python3
"""GGUF files that llama.cpp's own converter makes of models in tests/golden: converted/NAME.gguf.

    python make_converted.py LLAMA_CPP [NAME ...]

LLAMA_CPP is a folder of llama.cpp's sources. Needs what its converter needs, and the package tokenizers. A model gets a
tokenizer of fewer tokens than its embedding has rows, and parameters of sampling: both are in the file.
"""
import argparse
import json
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
VL = {"architectures": ["Qwen3VLForConditionalGeneration"], "vision_config": {"deepstack_visual_indexes": [0]}}
MODELS = {  # the model of tests/golden, flags of the converter, other keys of config.json
    "falcon_h1": ("falcon_h1", [], {}), "ministral3": ("ministral3", [], {}), "deepseek_v3": ("deepseek_v3", [], {}),
    "qwen3_yarn": ("qwen3_yarn", ["--fuse-qkv"], {}), "qwen3_5": ("qwen3_5", ["--fuse-qkv", "--no-nextn"], {}), "qwen3_vl": ("qwen3", [], VL),
}
WORDS = "the sea and the sand are near the inn then he sat on a hat in the rain and ate ten red hens"
TOKENS = 96
SAMPLING = dict(do_sample=True, temperature=0.5, top_k=7, top_p=0.75, repetition_penalty=1.25)


def add_tokenizer(folder):
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    special = ["<pad>", "<s>", "</s>"]
    t.train_from_iterator([WORDS] * 4, trainers.BpeTrainer(vocab_size=TOKENS, min_frequency=1, special_tokens=special, show_progress=False))
    names = dict(zip(("pad_token", "bos_token", "eos_token"), special))
    transformers.PreTrainedTokenizerFast(tokenizer_object=t, **names).save_pretrained(folder)


def load_converter(source):
    """The script, which knows tokenizers by what they make of a text, and does not know ours: it cuts as GPT-2's."""
    sys.path[:0] = [source, os.path.join(source, "gguf-py")]
    import convert_hf_to_gguf
    from conversion import base
    base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
    return convert_hf_to_gguf


def edit(path, more):
    own = json.load(open(path)) if os.path.exists(path) else {}
    json.dump({**own, **more}, open(path, "w"))


def convert(converter, name, model, flags, more):
    with tempfile.TemporaryDirectory() as folder:
        golden = os.path.join(HERE, "..", "golden", model)
        for file in os.listdir(golden):
            if file not in ("cases.json", "logits.safetensors"):
                shutil.copy(os.path.join(golden, file), folder)
        add_tokenizer(folder)
        edit(os.path.join(folder, "config.json"), more)
        edit(os.path.join(folder, "generation_config.json"), SAMPLING)
        sys.argv = ["convert_hf_to_gguf.py", folder, "--outtype", "f32", "--model-name", name,
                    "--outfile", os.path.join(HERE, "converted", name + ".gguf"), *flags]
        converter.main()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("source")
    ap.add_argument("names", nargs="*", choices=[[], *MODELS])
    args = ap.parse_args()
    script = load_converter(os.path.abspath(args.source))
    for wanted in args.names or MODELS:
        convert(script, wanted, *MODELS[wanted])
