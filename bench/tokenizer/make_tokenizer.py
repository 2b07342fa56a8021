#!/usr/bin/env python3
"""Writes a byte-level BPE tokenizer.json of 151,643 tokens and a text for it.

Both are made up, and the same on every machine. The vocabulary has the shape of Qwen2's: letters of four scripts are
built from bytes, syllables from letters, words from syllables, each level by merges, the common ones first. The text
mixes words of the vocabulary by Zipf's law with words no merge completes, numbers, punctuation, code and four scripts.
"""
import argparse
import json
import random
from pathlib import Path

SIZE = 151643
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

# script: consonants, vowels, share of words. Han has no syllables: its words are one to three characters.
SCRIPTS = {
    "latin": ("bcdfghjklmnprstvwz", "aeiouy", 0.62),
    "cyrillic": ("бвгджзклмнпрстфхцч", "аеиоуы", 0.14),
    "greek": ("βγδζθκλμνπρστφχψ", "αεηιου", 0.06),
    "han": ("".join(chr(0x4E00 + 7 * i) for i in range(2600)), "", 0.18),
}


def byte_alphabet():
    """The printable stand-in of each byte, as byte-level tokenizers have it."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(other)}}


BYTES = byte_alphabet()


def spell(text):
    return "".join(BYTES[b] for b in text.encode())


class Vocabulary:
    def __init__(self):
        self.ids = {c: i for i, c in enumerate(sorted(BYTES.values()))}
        self.merges = []

    def merge(self, left, right):
        """The token left + right, by one merge unless it is there already."""
        if left + right not in self.ids and len(self.ids) < SIZE:
            self.ids[left + right] = len(self.ids)
            self.merges.append([left, right])
        return left + right

    def build(self, parts):
        whole = parts[0]
        for part in parts[1:]:
            whole = self.merge(whole, part)
        return whole


def syllables(rng, consonants, vowels, n):
    out = []
    while len(out) < n:
        s = rng.choice(consonants) + rng.choice(vowels)
        if rng.random() < 0.5:
            s += rng.choice(consonants)
        if s not in out:
            out.append(s)
    return out


def make_words(rng, script, n):
    """Lists of syllables, common words first."""
    consonants, vowels, _ = SCRIPTS[script]
    if not vowels:
        return [[rng.choice(consonants) for _ in range(rng.choice((1, 2, 2, 2, 3)))] for _ in range(n)]
    known = syllables(rng, consonants, vowels, 400)
    lengths = (1, 2, 2, 3, 3, 4)
    return [[rng.choice(known) for _ in range(rng.choice(lengths))] for _ in range(n)]


def make_vocabulary(rng):
    v = Vocabulary()
    for spaces in range(2, 33):
        v.build([spell(" ")] * spaces)
    words = {s: make_words(rng, s, int(90000 * SCRIPTS[s][2]) + 1000) for s in SCRIPTS}
    for s in SCRIPTS:  # letters, then syllables, then whole words
        for letter in dict.fromkeys("".join(map("".join, words[s]))):
            v.build(list(spell(letter)))
    for s in SCRIPTS:
        for syllable in dict.fromkeys(x for word in words[s] for x in word):
            v.build([spell(c) for c in syllable])
    turns = [(s, word) for s in SCRIPTS for word in words[s]]
    rng.shuffle(turns)
    for first in (spell(" "), ""):
        for s, word in turns:
            parts = [spell(x) for x in word]
            if first and s != "han":
                parts[0] = v.merge(first, parts[0])
            v.build(parts)
    return v, words


def zipf(rng, n):
    return min(int(n ** rng.random()) - 1, n - 1)


def make_text(rng, words, size):
    known = {s: syllables(rng, *SCRIPTS[s][:2], 300) for s in SCRIPTS if SCRIPTS[s][1]}
    scripts, shares = zip(*((s, SCRIPTS[s][2]) for s in SCRIPTS))
    lines, n = [], 0
    while n < size:
        script = rng.choices(scripts, shares)[0]
        gap = "" if script == "han" else " "
        line = []
        for _ in range(rng.randint(4, 30)):
            dice = rng.random()
            if dice < 0.86:
                word = "".join(words[script][zipf(rng, len(words[script]))])
            elif dice < 0.92:
                word = "".join(rng.choice(known.get(script, known["latin"])) for _ in range(rng.randint(2, 5)))
            elif dice < 0.95:
                word = str(rng.randint(0, 99999))
            else:
                word = rng.choice(("if (x_%d > 0) {", "return f(a[%d], b);", "\t\t// %d", "http://ab.cd/%d?q=1",
                                   "\"k%d\": null,", "--flag=%d")) % rng.randint(0, 99)
            if dice < 0.1:
                word = word.capitalize()
            line.append(word + (rng.choice(",.;:!?") if rng.random() < 0.1 else ""))
        lines.append(gap.join(line) + ("\n" if rng.random() < 0.9 else "\n\n"))
        n += len(lines[-1].encode())
    return "".join(lines)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("folder", type=Path, help="where they go")
    folder = ap.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(20260115)
    v, words = make_vocabulary(rng)
    assert len(v.ids) == SIZE, len(v.ids)
    added = [{"id": SIZE + i, "content": s, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i, s in enumerate(SPECIAL)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": v.ids, "merges": [" ".join(m) for m in v.merges]},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False, indent=2))
    (folder / "text.txt").write_text(make_text(rng, words, 8 << 20))


if __name__ == "__main__":
    main()
