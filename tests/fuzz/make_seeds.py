"""Writes seeds into corpus/: cut copies of what tests/gguf and tests/tokenizers hold.

    python make_seeds.py

gguf: the files of models with recurrent layers and with several streams, their matrices as zeros in Q4_0. sentencepiece: the first pieces of a model, behind
the byte that says which class reads it. tekken: 300 tokens. byte_pairs: what fuzz_byte_pairs.c says."""
import json
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.join(HERE, "..")
HYBRIDS = ["mamba2", "granitemoehybrid", "falcon_h1", "nemotron_h", "lfm2", "lfm2_moe", "qwen3_next", "qwen3_5", "qwen3_5_moe", "gemma3n"]
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # of a GGUF value's types
STRING, ARRAY, F32, Q4_0 = 8, 9, 0, 2


def write(name, file, data):
    folder = os.path.join(HERE, "corpus", name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, file), "wb") as f:
        f.write(data)


def read(*path):
    with open(os.path.join(TESTS, *path), "rb") as f:
        return f.read()


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize(form)))[0]

    def value(self, kind):
        if kind == STRING:
            self.take(self.number("Q"))
        elif kind == ARRAY:
            inner, n = self.number("I"), self.number("Q")
            for _ in range(n):
                self.value(inner)
        else:
            self.take(SIZES[kind])


def small_gguf(data):
    r = Reader(data)
    assert r.take(4) == b"GGUF"
    version, n_tensors, n_keys = r.number("I"), r.number("Q"), r.number("Q")
    begin = r.at
    for _ in range(n_keys):
        r.take(r.number("Q"))
        r.value(r.number("I"))
    keys, infos, total = r.data[begin : r.at], b"", 0
    for _ in range(n_tensors):
        name = r.take(r.number("Q"))
        shape = [r.number("Q") for _ in range(r.number("I"))]
        r.take(12)
        narrow = len(shape) > 1 and shape[0] % 32 == 0 and not any(word in name for word in (b"conv", b"ssm_a", b"ssm_d", b"router", b"coef"))
        size = (18 * shape[0] // 32 if narrow else 4 * shape[0]) * [1, *shape[1:]][-1] * (shape[1] if len(shape) > 2 else 1)
        infos += struct.pack("<Q", len(name)) + name + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, Q4_0 if narrow else F32, total)
        total += (size + 31) // 32 * 32
    head = b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_keys) + keys + infos
    return head + bytes(-len(head) % 32 + total)


def small_sentencepiece(data, n):
    """The first n pieces, and the messages behind all of them."""
    out, at = b"", 0
    while at < len(data):
        begin, field = at, data[at] >> 3
        size = shift = 0
        while True:
            at += 1
            size |= (data[at] & 0x7F) << shift
            shift += 7
            if data[at] < 0x80:
                break
        at += 1 + size
        if field != 1 or n > 0:
            out += data[begin:at]
        n -= field == 1
    return out


def small_tekken(data):
    root = json.loads(data)
    n = root["config"]["default_num_special_tokens"] = 24
    root["special_tokens"] = [t for t in root["special_tokens"] or [] if t["rank"] < n]
    root["vocab"] = root["vocab"][:300]
    root["config"].update(default_vocab_size=n + 290, num_vocab_tokens=300)
    return json.dumps(root, separators=(",", ":")).encode()


def byte_pairs():
    with open(os.path.join(TESTS, "tokenizers", "pairs_bart", "vocab.json"), encoding="utf-8") as f:
        vocab = dict(list(json.load(f).items())[:300])
    merges = [m for m in read("tokenizers", "pairs_bart", "merges.txt").decode().split("\n") if m.replace(" ", "") in vocab]
    parts = [json.dumps(vocab, ensure_ascii=False), "#version: 0.2\n" + "\n".join(merges)]
    for name, settings in {
        "bart": ["", '{"mask_token": {"content": "<mask>", "lstrip": true}}', '{"<x>": 300}', '{"model_type": "bart"}'],
        "opt": ['{"tokenizer_class": "GPT2Tokenizer", "add_bos_token": true, "bos_token": "</s>"}', "", "", ""],
        "qwen2": ['{"tokenizer_class": "Qwen2TokenizerFast", "added_tokens_decoder": {"300": {"content": "<x>", "special": true}}}', "", "", ""],
        "blenderbot": ['{"tokenizer_class": "BlenderbotTokenizer", "add_prefix_space": false}', "", "", ""],
    }.items():
        write("byte_pairs", name, "\0".join(parts + settings).encode())


def main():
    for name in HYBRIDS:
        write("gguf", name + ".gguf", small_gguf(read("gguf", name + ".gguf")))
    for byte, name, file in ((4, "pegasus", "spiece.model"), (5, "nllb", "sentencepiece.bpe.model")):
        write("sentencepiece", name, bytes([byte]) + small_sentencepiece(read("tokenizers", "sentencepiece_" + name, file), 60))
    write("sentencepiece", "m2m100", bytes([6]) + small_sentencepiece(read("tokenizers", "m2m100_bpe", "sentencepiece.bpe.model"), 60))
    write("sentencepiece", "marian", bytes([7]) + small_sentencepiece(read("tokenizers", "marian", "source.spm"), 60))
    write("tekken", "v3", small_tekken(read("tokenizers", "tekken", "tekken.json")))
    byte_pairs()


if __name__ == "__main__":
    main()
