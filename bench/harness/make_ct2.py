#!/usr/bin/env python3
"""A model folder as CTranslate2 wants it: make_ct2.py FOLDER OUT. Its tokens are called by their numbers, since a made-up
model has no tokenizer. Needs ctranslate2, transformers and torch."""
import sys

import ctranslate2
from ctranslate2.converters import transformers as loaders


class Numbers:
    """What the converter asks of a tokenizer."""
    bos_token = eos_token = unk_token = "0"
    all_special_tokens = []

    def __init__(self, n):
        self.n = n

    def get_vocab(self):
        return {str(i): i for i in range(self.n)}


class Converter(ctranslate2.converters.TransformersConverter):
    def load_tokenizer(self, tokenizer_class, model_name_or_path, **kwargs):
        from transformers import AutoConfig
        return Numbers(AutoConfig.from_pretrained(model_name_or_path).vocab_size)


def main():
    if not loaders._MODEL_LOADERS:
        sys.exit("this ctranslate2 converts nothing")
    Converter(sys.argv[1]).convert(sys.argv[2], quantization="int8")


if __name__ == "__main__":
    main()
